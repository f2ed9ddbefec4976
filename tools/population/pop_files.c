/* --metrics: a line for each member and turn. --save-params: of the best member, or of all. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "runtime/state/checkpoint_stack.h"
#include "tools/population/population.h"
#include "tools/report/file_same.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

sw_status pop_metrics_open(pop *p)
{
    char head[POP_HYPERS * 50 + 100];
    size_t used =
        (size_t)snprintf(head, sizeof head, "member,step,score,train_loss,loss,accuracy");
    for (int i = 0; i < p->n_hypers; i++)
        used += (size_t)snprintf(head + used, sizeof head - used, ",%s", p->hyper[i].name);
    used += (size_t)snprintf(head + used, sizeof head - used, "\n");
    return job_metrics_open(&p->metrics, p->opts.metrics, head, used, p->resumed);
}

sw_status pop_metrics_row(pop *p, int k)
{
    const pop_score *s = &p->members[k].score;
    double values[POP_HYPERS];
    job_cell cells[7 + POP_HYPERS] = {{"member", JOB_COUNT, true, .count = (uint64_t)k},
                                      {"step", JOB_COUNT, true, .count = s->step},
                                      {"score", JOB_REAL, true, .real = s->score},
                                      {"train_loss", JOB_REAL, true, .real = s->train_loss},
                                      {"loss", JOB_REAL, true, .real = s->loss},
                                      {"accuracy", JOB_REAL, true, .real = s->accuracy},
                                      {"values", JOB_GROUP, true, .text = NULL}};
    if (p->metrics.file == NULL)
        return SW_OK;
    SW_TRY(pop_values(p, k, values));
    for (int i = 0; i < p->n_hypers; i++)
        cells[7 + i] = (job_cell){p->hyper[i].name, JOB_REAL, true, .real = values[i]};
    return job_metrics_row(&p->metrics, cells, 7 + p->n_hypers);
}

/* ---- pop names --------------------------------------------------------------------------- */

/* The files that `stepwell pbt` is to write: their names, and whether they can be written, are
 * checked before anything runs. */

/* FILE of --save-params, or what it is for member 0. */
static const char *first_params(const char *save, char *to, size_t bytes)
{
    const char *number = save != NULL ? strstr(save, "%d") : NULL;
    if (number == NULL)
        return save;
    snprintf(to, bytes, "%.*s0%s", (int)(number - save), save, number + 2);
    return to;
}

int pop_files_check(const pop *p)
{
    const pop_opts *o = &p->opts;
    char first[FILE_PATH_BYTES];
    const char *number = o->save != NULL ? strchr(o->save, '%') : NULL;
    CLI_TRY(job_metrics_check(o->metrics, false));
    if (o->plot != NULL && !cli_ends_with(o->plot, ".svg") && !cli_ends_with(o->plot, ".html"))
        return cli_error(CLI_USAGE, "--plot must be FILE.svg or FILE.html (got '%s')", o->plot);
    if (number != NULL && (number[1] != 'd' || strchr(number + 1, '%') != NULL))
        return cli_error(CLI_USAGE,
                         "--save-params: the only %% must be that of %%d, the member's number "
                         "(got '%s')",
                         o->save);
    CLI_TRY(job_check_params_name("--save-params", o->save));
    const job_output files[] = {{"--metrics", o->metrics, JOB_BESIDE},
                                {"--plot", o->plot, JOB_BESIDE},
                                {"--profile", o->profile, JOB_BESIDE},
                                {"--save-params", first_params(o->save, first, sizeof first),
                                 JOB_BESIDE, .no_stream = true},
                                {"--replay", o->replay, JOB_READ}};
    const size_t n = sizeof files / sizeof *files;
    CLI_TRY(job_outputs_check(files, n, &o->job, o->job.checkpoint, o->resume, o->keep));
    CLI_TRY(job_outputs_writable(files, n, o->job.checkpoint));
    CLI_TRY(job_folder_check("--log-dir", o->logs, NULL));
    return job_folder_check("--pause-to", o->pause_to, NULL);
}

/* ---- pop history ------------------------------------------------------------------------- */

/* The members' turns so far, for --plot. A member has at most pop_history_most turns: once it
 * has more, every second one is dropped, and of those that come every second is kept, then
 * every fourth, and so on; the last one always is. So what is kept is a function of the turns
 * alone, whether the run was interrupted or not. */

#define MEMBER_TURNS 4096
#define ALL_TURNS 262144 /* of large populations */

/* rows of a member */
static uint32_t pop_history_most(const pop *p)
{
    const uint32_t share = ALL_TURNS / (uint32_t)p->n_members;
    return share > MEMBER_TURNS ? MEMBER_TURNS : share < 4 ? 4 : share;
}

/* A row: step, score, donor (-1: none), the donor's step and score, then the values that the
 * member had in the steps up to here. */
static size_t pop_history_width(const pop *p)
{
    return POP_ROW_VALUES + (size_t)p->n_hypers;
}

const double *pop_history_row(const pop *p, int member, uint32_t i)
{
    return p->history[member].rows + i * pop_history_width(p);
}

sw_status pop_history_open(pop *p)
{
    const pop_opts *o = &p->opts;
    if (o->replay != NULL || (o->plot == NULL && o->job.checkpoint == NULL))
        return SW_OK;
    return sw_heap_alloc(&p->history, SW_HEAP_RECORDS,
                         (size_t)p->n_members * sizeof *p->history);
}

void pop_history_clear(pop *p)
{
    for (int k = 0; k < p->n_members && p->history != NULL; k++) {
        pop_history *h = &p->history[k];
        sw_heap_free(h->rows, SW_HEAP_RECORDS, h->cap * pop_history_width(p) * sizeof *h->rows);
        *h = (pop_history){.n = 0};
    }
}

void pop_history_close(pop *p)
{
    pop_history_clear(p);
    if (p->history != NULL)
        sw_heap_free(p->history, SW_HEAP_RECORDS, (size_t)p->n_members * sizeof *p->history);
    p->history = NULL;
}

/* ---- turns ------------------------------------------------------------------------------- */

static sw_status reserve(const pop *p, pop_history *h, uint32_t n)
{
    const size_t row = pop_history_width(p) * sizeof *h->rows;
    uint32_t cap = h->cap > 0 ? h->cap : 16;
    while (cap < n)
        cap *= 2;
    if (cap == h->cap)
        return SW_OK;
    SW_TRY(sw_heap_resize(&h->rows, SW_HEAP_RECORDS, h->cap * row, cap * row));
    h->cap = cap;
    return SW_OK;
}

sw_status pop_history_turn(pop *p, int member)
{
    const pop_member *m = &p->members[member];
    const bool scored = !m->failed && !m->diverged && fabs(m->score.score) < DBL_MAX;
    double *row;
    if (p->history == NULL)
        return SW_OK;
    pop_history *h = &p->history[member];
    /* Row i is of turn i x apart; after those stands the last turn, until the next one
     * comes. */
    if (h->apart == 0)
        h->apart = 1;
    if (h->n > 0 && (h->turns - 1) % h->apart != 0)
        h->n--;
    if (h->n >= pop_history_most(p)) {
        /* Of rows 0, 1, 2, ... those with an even number stay. */
        const size_t width = pop_history_width(p);
        const uint32_t n = h->n;
        h->apart *= 2;
        h->n = 0;
        for (uint32_t i = 0; i < n; i += 2, h->n++)
            memmove(h->rows + h->n * width, h->rows + i * width, width * sizeof *h->rows);
    }
    SW_TRY(reserve(p, h, h->n + 1));
    row = h->rows + h->n * pop_history_width(p);
    row[POP_ROW_STEP] = (double)m->steps;
    row[POP_ROW_SCORE] = scored ? m->score.score : (double)NAN;
    row[POP_ROW_DONOR] = -1.0;
    row[POP_ROW_DONOR_STEP] = row[POP_ROW_DONOR_SCORE] = 0.0;
    SW_TRY(pop_values(p, member, row + POP_ROW_VALUES));
    h->n++;
    h->turns++;
    return SW_OK;
}

void pop_history_copied(pop *p, int member, int donor, double step, double score)
{
    if (p->history == NULL || p->history[member].n == 0)
        return;
    double *row = p->history[member].rows + (p->history[member].n - 1) * pop_history_width(p);
    row[POP_ROW_DONOR] = donor;
    row[POP_ROW_DONOR_STEP] = step;
    row[POP_ROW_DONOR_SCORE] = fabs(score) < DBL_MAX ? score : (double)NAN;
}

/* ---- in a checkpoint --------------------------------------------------------------------- */

typedef struct {
    uint64_t turns;
    uint32_t n, apart;
} saved_history;

static size_t pop_history_bytes(const pop *p)
{
    size_t n = 0;
    for (int k = 0; k < p->n_members && p->history != NULL; k++)
        n += sizeof(saved_history) +
             p->history[k].n * pop_history_width(p) * sizeof *p->history[k].rows;
    return n;
}

/* Whether the head of a member's rows says what this program would have written. */
static bool is_sound(const pop *p, const saved_history *s, size_t left)
{
    const size_t row = pop_history_width(p) * sizeof(double);
    return s->n <= pop_history_most(p) + 1 && s->n <= s->turns && s->n <= left / row &&
           (s->n == 0 || (s->apart > 0 && (s->apart & (s->apart - 1)) == 0));
}

static sw_status pop_history_restore(pop *p, const unsigned char *at, size_t n,
                                     const char *path)
{
    for (int k = 0; k < p->n_members && p->history != NULL && n > 0; k++) {
        pop_history *h = &p->history[k];
        saved_history s = {0, 0, 0};
        if (n >= sizeof s)
            memcpy(&s, at, sizeof s);
        if (n < sizeof s || !is_sound(p, &s, n - sizeof s))
            SW_FAIL(SW_FORMAT, "%s: the turns of member %d are damaged", path, k);
        const size_t rows = s.n * pop_history_width(p) * sizeof *h->rows;
        at += sizeof s;
        if (s.n > 0) {
            SW_TRY(reserve(p, h, s.n));
            memcpy(h->rows, at, rows);
        }
        h->n = s.n;
        h->turns = s.turns;
        h->apart = s.apart;
        at += rows;
        n -= sizeof s + rows;
    }
    return SW_OK;
}

/* --checkpoint and --resume of a population: what was decided, where every member is and all
 * that it is, in the checkpoint that exists, as bytes of the program's own. */

/* data: with their hashes. */
static sw_status identify(const pop *p, job_identity *to, bool data)
{
    const pop_opts *o = &p->opts;
    uint64_t train_hash = 0, test_hash = 0;
    if (data) {
        SW_TRY(sw_dataset_hash(p->job.train.set, &train_hash));
        SW_TRY(sw_dataset_hash(p->job.test.set, &test_hash));
    }
    job_identify(to, &o->job, p->options, p->n_options);
    if (data)
        job_identity_add(to, "--data", "%" PRIx64 " and %" PRIx64 " (hashes of the samples)",
                         train_hash, test_hash);
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

/* A piece is what a file has of a member: this, its state, and with `kept` its kept state. All
 * ranks ask for its size. */
static sw_status piece_bytes(pop *p, int k, bool kept, size_t *out)
{
    const pop_member *m = &p->members[k];
    uint64_t own = sizeof(saved_member), all[SWI_RANKS_MOST];
    if (m->member.of != NULL || m->waiting.there)
        own += pop_state_bytes(p, k);
    own += kept && m->kept.there ? m->kept.n : 0;
    SW_TRY(swi_ranks_gather(p->ranks, &own, sizeof own, all));
    *out = (size_t)all[pop_owner(p, k)];
    return SW_OK;
}

static sw_status put_member(pop *p, int k, bool kept, unsigned char *at)
{
    const pop_member *m = &p->members[k];
    saved_member s;
    memset(&s, 0, sizeof s); /* padding goes into the file too */
    s.there = m->member.of != NULL || m->waiting.there;
    s.config = p->shapes[m->shape]->config;
    s.waiting_config =
        p->shapes[m->member.of == NULL && m->waiting.there ? m->waiting.shape : m->shape]
            ->config;
    s.kept = kept && m->kept.there;
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
    memcpy(at, &s, sizeof s);
    at += sizeof s;
    if (s.there)
        SW_TRY(pop_state_of(p, k, at));
    return s.kept ? pop_state_read(p, &m->kept, at + s.state_bytes) : SW_OK;
}

/* A piece of n bytes into p->scratch of rank 0. */
static sw_status bring_piece(pop *p, int k, bool kept, size_t n)
{
    if (pop_is_mine(p, k) || swi_ranks_rank(p->ranks) == 0)
        SW_TRY(pop_scratch(p, n));
    if (pop_is_mine(p, k))
        SW_TRY(put_member(p, k, kept, p->scratch));
    return swi_ranks_copy(p->ranks, pop_owner(p, k), 0, p->scratch, n);
}

/* ---- parameters -------------------------------------------------------------------------- */

/* A model of the member's config in an exec without a budget: `net` and `group` are its own. */
static sw_status to_model(pop *p, int k, const unsigned char *piece, sw_exec *exec,
                          tool_net *net, sw_members **group)
{
    const pop_member *m = &p->members[k];
    tool_net_opts opts = job_net_opts(&p->job);
    sw_member member;
    saved_member s;
    memcpy(&s, piece, sizeof s);
    opts.settings.hidden = s.waiting_config.hidden;
    SW_TRY(tool_net_create(net, &opts));
    SW_TRY(sw_model_ready(net->model, exec, m->seed));
    const sw_members_opts of =
        SW_OPTS(sw_members_opts, .shape = net->model, .fn = tool_net_step, .user = net);
    SW_TRY(sw_members_create(group, exec, &of));
    SW_TRY(sw_member_new(&member, *group, m->seed));
    if (s.there)
        SW_TRY(sw_member_unpack(member, piece + sizeof s, s.state_bytes));
    SW_TRY(job_note(&p->job, net->model));
    return sw_member_to_model(net->model, member);
}

static sw_status save_piece(pop *p, int k, const unsigned char *piece, const char *path)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts);
    sw_exec *exec;
    tool_net net = {0};
    sw_members *group = NULL;
    SW_TRY(sw_exec_create(&exec, &opts));
    sw_status status = to_model(p, k, piece, exec, &net, &group);
    if (status == SW_OK)
        status = job_save_params(&p->opts.job, net.model, path);
    sw_members_destroy(group);
    if (net.model != NULL)
        tool_net_destroy(&net);
    sw_exec_destroy(exec);
    return status;
}

sw_status pop_save_member(pop *p, int k, const char *path)
{
    const char *at = path != NULL ? strstr(path, "%d") : NULL;
    char name[600];
    size_t n = 0;
    if (at != NULL)
        snprintf(name, sizeof name, "%.*s%d%s", (int)(at - path), path, k, at + 2);
    SW_TRY(piece_bytes(p, k, false, &n));
    SW_TRY(bring_piece(p, k, false, n));
    if (swi_ranks_rank(p->ranks) > 0)
        return SW_OK;
    return save_piece(p, k, p->scratch, at != NULL ? name : path);
}

sw_status pop_save_params(pop *p)
{
    const char *save = p->opts.save;
    const int best = pop_best(p);
    if (p->params == POP_NO_PARAMS || (p->params == POP_BEST && best < 0))
        return SW_OK;
    if (p->params == POP_BEST)
        return pop_save_member(p, best, save);
    for (int k = 0; k < p->n_members; k++) {
        if (p->members[k].failed) { /* what an update left half done is no net */
            cli_note("member %d failed: its parameters are not saved", k);
            continue;
        }
        SW_TRY(pop_save_member(p, k, save));
    }
    return SW_OK;
}

/* ---- saving ----------------------------------------------------------------------------- */

/* All members, one after the other, to rank 0, which gives them to `take`. */
static sw_status pour_members(pop *p, swi_take_piece *take, void *context)
{
    for (int k = 0; k < p->n_members; k++) {
        SW_TRY(bring_piece(p, k, true, p->sizes[k]));
        if (take != NULL)
            SW_TRY(take(context, p->scratch, 0, p->sizes[k]));
        SW_TRY(swi_ranks_alive(p->ranks));
    }
    return SW_OK;
}

/* A checkpoint has of the run: the packing, the decisions, the turns and all members. */
typedef struct {
    pop *p;
    void *pbt;
    size_t pbt_bytes;
} saving;

static sw_status pour(void *owner, swi_take_piece *take, void *context)
{
    const saving *s = owner;
    pop *p = s->p;
    SW_TRY(take(context, &p->memory.most_of, 0, sizeof(sw_packing)));
    SW_TRY(take(context, s->pbt, 0, s->pbt_bytes));
    for (int k = 0; k < p->n_members && p->history != NULL; k++) {
        const pop_history *h = &p->history[k];
        const saved_history its = {h->turns, h->n, h->apart};
        SW_TRY(take(context, &its, 0, sizeof its));
        if (h->n > 0)
            SW_TRY(take(context, h->rows, 0, h->n * pop_history_width(p) * sizeof *h->rows));
    }
    return pour_members(p, take, context);
}

static sw_status put_state(pop *p, size_t pbt_bytes)
{
    static job_identity identity; /* large */
    const job_saved what = saved_of(p);
    const saved_run run =
        SW_INIT(.turn = p->turn, .exploits = p->exploits, .refused = p->refused,
                .member_steps = p->member_steps, .metrics_bytes = p->metrics.bytes,
                .pbt_bytes = pbt_bytes, .history_bytes = pop_history_bytes(p),
                .predicted_peak = p->memory.predicted_peak,
                .measured_peak = p->memory.measured_peak);
    SW_TRY(identify(p, &identity, true));
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

static sw_status save_to_file(pop *p, saving *s)
{
    size_t n = sizeof(sw_packing) + s->pbt_bytes + pop_history_bytes(p);
    for (int k = 0; k < p->n_members; k++)
        n += p->sizes[k];
    SW_TRY(swi_checkpoint_pour(p->checkpoint, "population", n, pour, s));
    SW_TRY(put_state(p, s->pbt_bytes));
    return cli_saved(sw_checkpoint_save(p->checkpoint, p->turn));
}

sw_status pop_save_now(pop *p)
{
    saving s = {.p = p};
    if (!p->saves)
        return SW_OK;
    SW_TRY(job_metrics_sync(&p->metrics));
    SW_TRY(sync_log(p));
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(piece_bytes(p, k, true, &p->sizes[k]));
    p->due = job_due_after(&p->opts.every, p->turn);
    if (p->checkpoint == NULL) { /* as often as rank 0 */
        SW_TRY(pour_members(p, NULL, NULL));
        return pour_members(p, NULL, NULL);
    }
    SW_TRY(sw_pbt_save(p->pbt, &s.pbt, &s.pbt_bytes));
    const sw_status status = save_to_file(p, &s);
    sw_pbt_free(s.pbt, s.pbt_bytes);
    return status;
}

sw_status pop_save_due(pop *p)
{
    if (p->ranks == NULL)
        p->save_now =
            p->checkpoint != NULL && (cli_save_asked() || job_is_due(&p->due, p->turn));
    return p->save_now ? pop_save_now(p) : SW_OK;
}

sw_status pop_save_open(pop *p)
{
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = p->opts.job.checkpoint, .command = p->command,
                .keep = (int)p->opts.keep, .no_copy = 1);
    const char *save = p->opts.save;
    p->saves = p->opts.job.checkpoint != NULL;
    p->params = save == NULL ? POP_NO_PARAMS : strstr(save, "%d") != NULL ? POP_EACH : POP_BEST;
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

/* Bytes of the run in a checkpoint, one after the other; rank 0 alone has it. */
typedef struct {
    pop *p;
    const char *path;
    size_t at, left;
} reading;

static sw_status next_bytes(reading *r, void *to, size_t n)
{
    if (swi_ranks_rank(r->p->ranks) > 0)
        return SW_OK;
    if (n > r->left)
        SW_FAIL(SW_FORMAT, "%s: the population is cut", r->path);
    SW_TRY(swi_checkpoint_read(r->p->checkpoint, "population", r->at, to, n));
    r->at += n;
    r->left -= n;
    return SW_OK;
}

static sw_status get_state(reading *r, int k, pop_state *s, const pop_config *config, size_t n)
{
    pop *p = r->p;
    int shape;
    SW_TRY(pop_shape_of(p, config, &shape));
    if (pop_is_mine(p, k) || swi_ranks_rank(p->ranks) == 0)
        SW_TRY(pop_scratch(p, n));
    SW_TRY(next_bytes(r, p->scratch, n));
    SW_TRY(swi_ranks_copy(p->ranks, 0, pop_owner(p, k), p->scratch, n));
    if (pop_is_mine(p, k))
        return pop_state_put(p, s, p->scratch, n, shape);
    *s = (pop_state){.there = true, .away = true, .shape = shape};
    return SW_OK;
}

/* The head of a member's piece, from rank 0. */
static sw_status get_head(reading *r, int k, saved_member *s)
{
    pop *p = r->p;
    memset(s, 0, sizeof *s);
    SW_TRY(next_bytes(r, s, sizeof *s));
    if (p->ranks != NULL)
        SW_TRY(swi_ranks_share(p->ranks, s, sizeof *s));
    if (swi_ranks_rank(p->ranks) == 0 &&
        (s->state_bytes > r->left || s->kept_bytes > r->left - s->state_bytes))
        SW_FAIL(SW_FORMAT, "%s: the state of member %d is cut", r->path, k);
    if (!is_config(p, &s->config) || !is_config(p, &s->waiting_config) ||
        (s->kept && !is_config(p, &s->kept_config)))
        SW_FAIL(SW_FORMAT, "%s: the shape of member %d is damaged", r->path, k);
    return SW_OK;
}

static sw_status get_member(reading *r, int k)
{
    pop *p = r->p;
    pop_member *m = &p->members[k];
    saved_member s;
    SW_TRY(get_head(r, k, &s));
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
        SW_TRY(get_state(r, k, &m->waiting, &s.waiting_config, s.state_bytes));
    if (!pop_is_mine(p, k)) /* whose state it is, and where, is its own rank's */
        m->waiting = (pop_state){.there = false};
    if (s.kept)
        SW_TRY(get_state(r, k, &m->kept, &s.kept_config, s.kept_bytes));
    return SW_OK;
}

static sw_status get_block(reading *r, const saved_run *run, unsigned char *block)
{
    pop *p = r->p;
    const bool first = swi_ranks_rank(p->ranks) == 0;
    SW_TRY(next_bytes(r, block, run->pbt_bytes));
    if (first) /* it is looked at before others have it */
        SW_TRY(sw_pbt_restore(p->pbt, block, run->pbt_bytes));
    if (p->ranks != NULL)
        SW_TRY(swi_ranks_share(p->ranks, block, run->pbt_bytes));
    if (!first)
        return sw_pbt_restore(p->pbt, block, run->pbt_bytes);
    SW_TRY(next_bytes(r, block, run->history_bytes));
    return pop_history_restore(p, block, run->history_bytes, r->path);
}

/* The decisions and the turns. */
static sw_status get_blocks(reading *r, const saved_run *run)
{
    const size_t n = run->pbt_bytes > run->history_bytes ? run->pbt_bytes : run->history_bytes;
    void *block;
    if (swi_ranks_rank(r->p->ranks) == 0 &&
        (run->pbt_bytes > r->left || run->history_bytes > r->left - run->pbt_bytes))
        SW_FAIL(SW_FORMAT, "%s: the population is damaged", r->path);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, n));
    const sw_status status = get_block(r, run, block);
    sw_heap_free(block, SW_HEAP_FILES, n);
    return status;
}

static sw_status get_run(reading *r, const saved_run *run)
{
    pop *p = r->p;
    SW_TRY(next_bytes(r, &p->memory.most_of, sizeof(sw_packing)));
    SW_TRY(get_blocks(r, run));
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(get_member(r, k));
    if (swi_ranks_rank(p->ranks) == 0) {
        p->memory.predicted_peak = run->predicted_peak;
        p->memory.measured_peak = run->measured_peak;
    }
    p->turn = run->turn;
    p->exploits = run->exploits;
    p->refused = run->refused;
    p->member_steps = p->steps_before = run->member_steps;
    p->metrics.bytes = run->metrics_bytes;
    p->due = job_due_after(&p->opts.every, p->turn);
    return SW_OK;
}

/* By rank 0 alone, from the file. */
static int find_run(pop *p, sw_checkpoint_found *found, saved_run *run)
{
    static job_identity identity; /* large */
    const job_saved what = saved_of(p);
    const int code = job_resume_find(p->checkpoint, p->opts.resume, p->opts.job.checkpoint,
                                     p->opts.quiet, found);
    if (code != CLI_GO || !found->found)
        return code;
    CLI_LIBRARY(identify(p, &identity, true), true);
    return job_state_get(p->checkpoint, &what, &identity, found->path, run);
}

int pop_resume(pop *p)
{
    static job_identity identity; /* large */
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    saved_run run = {.turn = 0};
    reading r = {.p = p, .path = found.path};
    if (p->ranks != NULL) {
        CLI_LIBRARY(identify(p, &identity, false), false);
        CLI_LIBRARY(pop_ranks_agree(p, &identity), false);
    }
    if (swi_ranks_rank(p->ranks) == 0)
        CLI_TRY(find_run(p, &found, &run));
    if (p->ranks != NULL) {
        uint64_t is = (uint64_t)found.found;
        CLI_LIBRARY(swi_ranks_share(p->ranks, &is, sizeof is), false);
        CLI_LIBRARY(swi_ranks_share(p->ranks, &run, sizeof run), false);
        found.found = is != 0;
        p->agreed = true;
    }
    if (!found.found)
        return CLI_GO;
    if (swi_ranks_rank(p->ranks) == 0)
        r.left = swi_checkpoint_has(p->checkpoint, "population");
    const sw_status status = get_run(&r, &run);
    if (status != SW_OK)
        return status == SW_INVALID ? cli_error(CLI_USAGE, "--resume: %s", sw_last_error())
                                    : cli_library_error(status, true);
    p->resumed = true;
    cli_note("going on at turn %" PRIu64 " of %s", p->turn, found.path);
    return CLI_GO;
}
