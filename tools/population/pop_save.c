/* --checkpoint and --resume of a population: what was decided, where every member is and all
 * that it is, in the checkpoint that exists, as bytes of the program's own. */
#include "alloc/base/mem.h"
#include "tools/population/population.h"
#include <inttypes.h>
#include <string.h>

#define DEFAULT_NS ((uint64_t)600 * 1000000000)
#define VERSION 4

/* ---- one blob ---------------------------------------------------------------------------- */

typedef struct {
    uint32_t version;
    int32_t n_members;
    uint64_t turn, exploits, refused, member_steps, metrics_bytes, pbt_bytes, history_bytes;
    uint64_t predicted_peak, measured_peak, identity_bytes;
    sw_packing packing;
} saved_run;

typedef struct {
    pop_config config, waiting_config, kept_config;
    pop_score score;
    double mark, best_loss;
    int64_t waited;
    uint64_t steps, target, state_bytes, kept_bytes;
    uint8_t there, kept, resized, ended, failed, diverged, reserved[2];
    char why[200];
} saved_member;

static size_t blob_bytes(const pop *p, size_t identity_bytes, size_t pbt_bytes)
{
    size_t n = sizeof(saved_run) + identity_bytes + pbt_bytes + pop_history_bytes(p);
    for (int k = 0; k < p->n_members; k++) {
        const pop_member *m = &p->members[k];
        n += sizeof(saved_member);
        if (m->member.of != NULL || m->waiting.there)
            n += pop_state_bytes(p, k);
        n += m->kept.there ? m->kept.n : 0;
    }
    return n;
}

static sw_status put_member(pop *p, int k, unsigned char **at)
{
    const pop_member *m = &p->members[k];
    saved_member s;
    memset(&s, 0, sizeof s); /* padding goes into the file too */
    s.there = m->member.of != NULL || m->waiting.there;
    s.config = p->shapes[m->shape]->config;
    s.waiting_config =
        p->shapes[m->member.of == NULL && m->waiting.there ? m->waiting.shape : m->shape]
            ->config;
    s.kept = m->kept.there;
    if (s.kept)
        s.kept_config = p->shapes[m->kept.shape]->config;
    s.score = m->score;
    s.mark = m->mark;
    s.best_loss = m->best_loss;
    s.waited = m->waited;
    s.steps = m->steps;
    s.target = m->target;
    s.state_bytes = s.there ? pop_state_bytes(p, k) : 0;
    s.kept_bytes = s.kept ? m->kept.n : 0;
    s.resized = m->member.of == NULL && m->resized;
    s.ended = m->ended;
    s.failed = m->failed;
    s.diverged = m->diverged;
    memcpy(s.why, m->why, sizeof s.why);
    memcpy(*at, &s, sizeof s);
    *at += sizeof s;
    if (s.there)
        SW_TRY(pop_state_of(p, k, *at));
    *at += s.state_bytes;
    if (s.kept)
        SW_TRY(pop_state_read(p, &m->kept, *at));
    *at += s.kept_bytes;
    return SW_OK;
}

static sw_status fill_blob(pop *p, unsigned char *at, const pop_identity *identity,
                           const void *pbt, size_t pbt_bytes)
{
    saved_run run;
    memset(&run, 0, sizeof run);
    run.version = VERSION;
    run.n_members = p->n_members;
    run.turn = p->turn;
    run.exploits = p->exploits;
    run.refused = p->refused;
    run.member_steps = p->member_steps;
    run.metrics_bytes = p->metrics_bytes;
    run.pbt_bytes = pbt_bytes;
    run.history_bytes = pop_history_bytes(p);
    run.predicted_peak = p->memory.predicted_peak;
    run.measured_peak = p->memory.measured_peak;
    run.packing = p->memory.most_of;
    run.identity_bytes = identity->used;
    memcpy(at, &run, sizeof run);
    at += sizeof run;
    memcpy(at, identity->text, identity->used);
    at += identity->used;
    memcpy(at, pbt, pbt_bytes);
    at += pbt_bytes;
    pop_history_save(p, at);
    at += run.history_bytes;
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(put_member(p, k, &at));
    return SW_OK;
}

/* The log of exploits, from which those of members can be rebuilt, is never older than the
 * checkpoint that says how long it is. */
static sw_status sync_log(const pop *p)
{
    char path[600];
    sw_file *file;
    if (p->opts.logs == NULL)
        return SW_OK;
    snprintf(path, sizeof path, "%s/pbt_global.txt", p->opts.logs);
    if (!sw_file_there(path))
        return SW_OK;
    SW_TRY(sw_file_open(&file, path, SW_FILE_KEEP));
    const sw_status synced = sw_file_sync(file), closed = sw_file_close(file);
    return synced != SW_OK ? synced : closed;
}

sw_status pop_save_now(pop *p)
{
    void *pbt, *blob;
    size_t pbt_bytes;
    static pop_identity identity; /* large */
    if (p->checkpoint == NULL || p->opts.job.checkpoint == NULL)
        return SW_OK;
    if (p->metrics != NULL)
        SW_TRY(sw_file_sync(p->metrics));
    SW_TRY(sync_log(p));
    SW_TRY(pop_identify(p, &identity));
    SW_TRY(sw_pbt_save(p->pbt, &pbt, &pbt_bytes));
    const size_t n = blob_bytes(p, identity.used, pbt_bytes);
    sw_status status = sw_heap_alloc(&blob, SW_HEAP_FILES, n);
    if (status == SW_OK) {
        status = fill_blob(p, blob, &identity, pbt, pbt_bytes);
        if (status == SW_OK)
            status = sw_checkpoint_put(p->checkpoint, "population", blob, n);
        sw_heap_free(blob, SW_HEAP_FILES, n);
    }
    sw_pbt_free(pbt, pbt_bytes);
    SW_TRY(status);
    p->saved_turn = p->turn;
    p->saved_ns = cli_clock_ns();
    return cli_saved(sw_checkpoint_save(p->checkpoint, p->turn));
}

sw_status pop_save_due(pop *p)
{
    const cli_every *every = &p->opts.every;
    const uint64_t ns = every->steps > 0 ? UINT64_MAX : every->ns > 0 ? every->ns : DEFAULT_NS;
    const bool due = (every->steps > 0 && p->turn >= p->saved_turn + every->steps) ||
                     cli_clock_ns() - p->saved_ns >= ns || cli_save_asked();
    return p->checkpoint != NULL && due ? pop_save_now(p) : SW_OK;
}

sw_status pop_save_open(pop *p)
{
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = p->opts.job.checkpoint,
                                            .command = p->command, .keep = (int)p->opts.keep);
    if (p->opts.job.checkpoint == NULL && p->opts.resume == NULL)
        return SW_OK;
    p->saved_ns = cli_clock_ns();
    return cli_saved(sw_checkpoint_create(&p->checkpoint, p->job.exec, &opts));
}

/* ---- going on ---------------------------------------------------------------------------- */

/* Configurations as the space can have them. */
static bool is_config(const pop *p, const pop_config *config)
{
    bool is = config->hidden.n == p->opts.job.settings.hidden.n && config->batch >= 1 &&
              config->batch <= JOB_BATCH_MAX;
    for (int i = 0; is && i < config->hidden.n; i++)
        is = config->hidden.at[i] >= 1 && config->hidden.at[i] <= 1 << 24;
    return is;
}

static sw_status get_state(pop *p, pop_state *s, const pop_config *config,
                           const unsigned char *at, size_t n)
{
    int shape;
    SW_TRY(pop_shape_of(p, config, &shape));
    return pop_state_put(p, s, at, n, shape);
}

static sw_status get_member(pop *p, int k, const unsigned char **at, size_t *left,
                            const char *path)
{
    pop_member *m = &p->members[k];
    saved_member s;
    if (*left < sizeof s)
        SW_FAIL(SW_FORMAT, "%s: the population is cut at member %d", path, k);
    memcpy(&s, *at, sizeof s);
    *at += sizeof s;
    *left -= sizeof s;
    if (s.state_bytes > *left || s.kept_bytes > *left - s.state_bytes)
        SW_FAIL(SW_FORMAT, "%s: the state of member %d is cut", path, k);
    if (!is_config(p, &s.config) || !is_config(p, &s.waiting_config) ||
        (s.kept && !is_config(p, &s.kept_config)))
        SW_FAIL(SW_FORMAT, "%s: the shape of member %d is damaged", path, k);
    SW_TRY(pop_shape_of(p, &s.config, &m->shape));
    m->score = s.score;
    m->mark = s.mark;
    m->best_loss = s.best_loss;
    p->best_loss = s.best_loss < p->best_loss ? s.best_loss : p->best_loss;
    m->waited = s.waited;
    m->steps = s.steps;
    m->target = s.target;
    m->resized = s.resized;
    m->ended = s.ended;
    m->failed = s.failed;
    m->diverged = s.diverged;
    memcpy(m->why, s.why, sizeof m->why);
    m->why[sizeof m->why - 1] = '\0';
    if (s.there)
        SW_TRY(get_state(p, &m->waiting, &s.waiting_config, *at, s.state_bytes));
    if (s.kept)
        SW_TRY(get_state(p, &m->kept, &s.kept_config, *at + s.state_bytes, s.kept_bytes));
    *at += s.state_bytes + s.kept_bytes;
    *left -= s.state_bytes + s.kept_bytes;
    return SW_OK;
}

/* The same options as there; *at and *left are after them then. */
static sw_status read_identity(const pop *p, const saved_run *run, const unsigned char **at,
                               size_t *left, const char *path)
{
    static pop_identity here; /* large */
    if (run->identity_bytes > *left)
        SW_FAIL(SW_FORMAT, "%s: the options of the population are cut", path);
    SW_TRY(pop_identify(p, &here));
    SW_TRY(pop_identity_same(&here, (const char *)*at, run->identity_bytes, path));
    *at += run->identity_bytes;
    *left -= run->identity_bytes;
    return SW_OK;
}

static sw_status read_blob(pop *p, const unsigned char *at, size_t n, const char *path)
{
    saved_run run;
    if (at == NULL)
        SW_FAIL(SW_INVALID, "%s: `stepwell pbt` did not save it", path);
    if (n < sizeof run)
        SW_FAIL(SW_FORMAT, "%s: the population is cut", path);
    memcpy(&run, at, sizeof run);
    if (run.version != VERSION)
        SW_FAIL(SW_FORMAT, "%s: the population is of version %u, this program reads %d", path,
                run.version, VERSION);
    at += sizeof run;
    size_t left = n - sizeof run;
    SW_TRY(read_identity(p, &run, &at, &left, path));
    if (run.n_members != p->n_members || run.pbt_bytes > left ||
        run.history_bytes > left - run.pbt_bytes)
        SW_FAIL(SW_FORMAT, "%s: the population is damaged", path);
    SW_TRY(sw_pbt_restore(p->pbt, at, run.pbt_bytes));
    at += run.pbt_bytes;
    left -= run.pbt_bytes;
    SW_TRY(pop_history_restore(p, at, run.history_bytes, path));
    at += run.history_bytes;
    left -= run.history_bytes;
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(get_member(p, k, &at, &left, path));
    p->turn = p->saved_turn = run.turn;
    p->exploits = run.exploits;
    p->refused = run.refused;
    p->member_steps = run.member_steps;
    p->metrics_bytes = run.metrics_bytes;
    p->memory.predicted_peak = run.predicted_peak;
    p->memory.measured_peak = run.measured_peak;
    p->memory.most_of = run.packing;
    return SW_OK;
}

int pop_resume(pop *p)
{
    const char *path = p->opts.resume;
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    const void *blob;
    size_t n;
    if (path == NULL)
        return CLI_GO;
    path = *path != '\0' ? path : p->opts.job.checkpoint;
    sw_status status = sw_checkpoint_find(p->checkpoint, path, &found);
    if (status != SW_OK)
        return cli_library_error(status, true);
    if (!found.found) {
        if (*p->opts.resume == '\0')
            return CLI_GO; /* that of --checkpoint need not be there yet */
        return cli_error(CLI_DAMAGED, "--resume %s: there is no checkpoint", path);
    }
    if (*found.skipped != '\0')
        cli_note("damaged checkpoints were passed over: %s", found.skipped);
    status = sw_checkpoint_get(p->checkpoint, "population", &blob, &n);
    if (status == SW_OK)
        status = read_blob(p, blob, n, found.path);
    if (status != SW_OK)
        return status == SW_INVALID ? cli_error(CLI_USAGE, "--resume: %s", sw_last_error())
                                    : cli_library_error(status, true);
    p->resumed = true;
    cli_note("going on at turn %" PRIu64 " of %s", p->turn, found.path);
    return CLI_GO;
}
