/* --checkpoint and --resume of a population: what was decided, where every member is and all
 * that it is, in the checkpoint that exists, as bytes of the program's own. */
#include "alloc/base/mem.h"
#include "tools/population/population.h"
#include <inttypes.h>
#include <string.h>

/* ---- the options that decide ------------------------------------------------------------- */

static sw_status identify(const pop *p, job_identity *to)
{
    const pop_opts *o = &p->opts;
    uint64_t train, test;
    SW_TRY(sw_dataset_hash(p->job.train.set, &train));
    SW_TRY(sw_dataset_hash(p->job.test.set, &test));
    job_identify(to, &o->job, p->options, p->n_options);
    job_identity_add(to, "--data", "%" PRIx64 " and %" PRIx64 " (hashes of the samples)", train,
                     test);
    job_identity_add(to, "--normalise", "%s", p->job.normal.text);
    job_identity_add(to, "--batch", "%" PRId64, o->job.batch.at[0]);
    job_identity_add(to, "steps in all (--steps, --epochs)", "%.17g", p->steps_to_do);
    job_identity_add(to, "--metric", "%s", p->by_loss ? "loss" : "accuracy");
    if (p->independent) {
        job_identity_add(to, "--lr-every", "%" PRIu64, p->schedule.every);
        return SW_OK;
    }
    job_identity_add(to, "--validation-samples", "%" PRId64, p->validation.n);
    job_identity_add(to, "the number of hyper-parameters", "%d", p->n_hypers);
    for (int i = 0; i < p->n_hypers; i++)
        job_identity_add(to, p->hyper[i].name, "%s",
                         o->hyper[i] + strlen(p->hyper[i].name) + 1);
    return SW_OK;
}

/* ---- where the run is -------------------------------------------------------------------- */

typedef struct {
    uint64_t turn, exploits, refused, member_steps, metrics_bytes, pbt_bytes, history_bytes;
    uint64_t predicted_peak, measured_peak;
} saved_run;

static const job_field fields[] = {
    JOB_FIELD(JOB_U64, saved_run, turn),          JOB_FIELD(JOB_U64, saved_run, exploits),
    JOB_FIELD(JOB_U64, saved_run, refused),       JOB_FIELD(JOB_U64, saved_run, member_steps),
    JOB_FIELD(JOB_U64, saved_run, metrics_bytes), JOB_FIELD(JOB_U64, saved_run, pbt_bytes),
    JOB_FIELD(JOB_U64, saved_run, history_bytes), JOB_FIELD(JOB_U64, saved_run, predicted_peak),
    JOB_FIELD(JOB_U64, saved_run, measured_peak)};

static job_saved saved_of(const pop *p)
{
    return (job_saved){.command = p->independent ? "train" : "pbt",
                       .fields = fields,
                       .n_fields = sizeof fields / sizeof *fields};
}

/* ---- members ----------------------------------------------------------------------------- */

typedef struct {
    pop_config config, waiting_config, kept_config;
    pop_score score;
    double mark, best_loss;
    int64_t waited;
    uint64_t steps, target, state_bytes, kept_bytes;
    uint8_t there, kept, resized, ended, failed, diverged, reserved[2];
    char why[200];
} saved_member;

static size_t blob_bytes(const pop *p, size_t pbt_bytes)
{
    size_t n = sizeof(sw_packing) + pbt_bytes + pop_history_bytes(p);
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

/* The packing, the decisions, the turns and all members. */
static sw_status fill_blob(pop *p, unsigned char *at, const void *pbt, size_t pbt_bytes)
{
    memcpy(at, &p->memory.most_of, sizeof(sw_packing));
    at += sizeof(sw_packing);
    memcpy(at, pbt, pbt_bytes);
    at += pbt_bytes;
    pop_history_save(p, at);
    at += pop_history_bytes(p);
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(put_member(p, k, &at));
    return SW_OK;
}

static sw_status put_state(pop *p, size_t pbt_bytes)
{
    static job_identity identity; /* large */
    const job_saved what = saved_of(p);
    const saved_run run = {.turn = p->turn,
                           .exploits = p->exploits,
                           .refused = p->refused,
                           .member_steps = p->member_steps,
                           .metrics_bytes = p->metrics_bytes,
                           .pbt_bytes = pbt_bytes,
                           .history_bytes = pop_history_bytes(p),
                           .predicted_peak = p->memory.predicted_peak,
                           .measured_peak = p->memory.measured_peak};
    SW_TRY(identify(p, &identity));
    return job_state_put(p->checkpoint, &what, &identity, &run);
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
    if (p->checkpoint == NULL || p->opts.job.checkpoint == NULL)
        return SW_OK;
    if (p->metrics != NULL)
        SW_TRY(sw_file_sync(p->metrics));
    SW_TRY(sync_log(p));
    SW_TRY(sw_pbt_save(p->pbt, &pbt, &pbt_bytes));
    const size_t n = blob_bytes(p, pbt_bytes);
    sw_status status = sw_heap_alloc(&blob, SW_HEAP_FILES, n);
    if (status == SW_OK) {
        status = fill_blob(p, blob, pbt, pbt_bytes);
        if (status == SW_OK)
            status = sw_checkpoint_put(p->checkpoint, "population", blob, n);
        sw_heap_free(blob, SW_HEAP_FILES, n);
    }
    if (status == SW_OK)
        status = put_state(p, pbt_bytes);
    sw_pbt_free(pbt, pbt_bytes);
    SW_TRY(status);
    p->due = job_due_after(&p->opts.every, p->turn);
    return cli_saved(sw_checkpoint_save(p->checkpoint, p->turn));
}

sw_status pop_save_due(pop *p)
{
    const bool due = p->checkpoint != NULL && job_is_due(&p->due, p->turn);
    return p->checkpoint != NULL && (due | cli_save_asked()) ? pop_save_now(p) : SW_OK;
}

sw_status pop_save_open(pop *p)
{
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = p->opts.job.checkpoint,
                                            .command = p->command, .keep = (int)p->opts.keep);
    if (p->opts.job.checkpoint == NULL && p->opts.resume == NULL)
        return SW_OK;
    p->due = job_due_after(&p->opts.every, 0);
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

static sw_status read_blob(pop *p, const saved_run *run, const unsigned char *at, size_t n,
                           const char *path)
{
    size_t left = n - sizeof(sw_packing);
    if (at == NULL || n < sizeof(sw_packing) || run->pbt_bytes > left ||
        run->history_bytes > left - run->pbt_bytes)
        SW_FAIL(SW_FORMAT, "%s: the population is damaged", path);
    memcpy(&p->memory.most_of, at, sizeof(sw_packing));
    at += sizeof(sw_packing);
    SW_TRY(sw_pbt_restore(p->pbt, at, run->pbt_bytes));
    at += run->pbt_bytes;
    SW_TRY(pop_history_restore(p, at, run->history_bytes, path));
    at += run->history_bytes;
    left -= run->pbt_bytes + run->history_bytes;
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(get_member(p, k, &at, &left, path));
    p->turn = run->turn;
    p->exploits = run->exploits;
    p->refused = run->refused;
    p->member_steps = run->member_steps;
    p->metrics_bytes = run->metrics_bytes;
    p->memory.predicted_peak = run->predicted_peak;
    p->memory.measured_peak = run->measured_peak;
    p->due = job_due_after(&p->opts.every, p->turn);
    return SW_OK;
}

int pop_resume(pop *p)
{
    static job_identity identity; /* large */
    const job_saved what = saved_of(p);
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    saved_run run;
    const void *blob;
    size_t n;
    int code = job_resume_find(p->checkpoint, p->opts.resume, p->opts.job.checkpoint,
                               p->opts.quiet, &found);
    if (code != CLI_GO || !found.found)
        return code;
    sw_status status = identify(p, &identity);
    if (status != SW_OK)
        return cli_library_error(status, true);
    code = job_state_get(p->checkpoint, &what, &identity, found.path, &run);
    if (code != CLI_GO)
        return code;
    status = sw_checkpoint_get(p->checkpoint, "population", &blob, &n);
    if (status == SW_OK)
        status = read_blob(p, &run, blob, n, found.path);
    if (status != SW_OK)
        return status == SW_INVALID ? cli_error(CLI_USAGE, "--resume: %s", sw_last_error())
                                    : cli_library_error(status, true);
    p->resumed = true;
    cli_note("going on at turn %" PRIu64 " of %s", p->turn, found.path);
    return CLI_GO;
}
