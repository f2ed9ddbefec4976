/* stepwell pbt: load and split the data, plan every shape that can be reached, train the
 * population, test its best member, say what came out and what it took. Whatever can be refused
 * is refused before the first step. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/job/job.h"
#include "tools/population/population.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int pop_parse(pop *p, int argc, char **argv);

/* ---- pop hypers -------------------------------------------------------------------------- */

/* The kind of each hyper-parameter: a knob of the member, or a part of its config. */

static const char *const knobs[] = {"lr",    "momentum",     "beta1",
                                    "beta2", "weight_decay", "dropout"};
enum { N_KNOBS = sizeof knobs / sizeof *knobs };

static bool is_knob(const char *name)
{
    for (int i = 0; i < N_KNOBS; i++)
        if (strcmp(name, knobs[i]) == 0)
            return true;
    return false;
}

/* "hidden" is -1, "hidden2" 1; -2: neither. */
static int hidden_layer(const char *name)
{
    char *end;
    if (strncmp(name, "hidden", 6) != 0)
        return -2;
    if (name[6] == '\0')
        return -1;
    const long n = strtol(name + 6, &end, 10);
    return *end == '\0' && n >= 1 && n <= CLI_LIST_MAX ? (int)n - 1 : -2;
}

static int check_width(const pop *p, const pop_hyper *h)
{
    const cli_list *hidden = &p->opts.job.settings.hidden;
    if (hidden->n == 0)
        return cli_error(CLI_USAGE, "%s: --model %s has no hidden widths to explore", h->name,
                         p->opts.job.model);
    if (h->layer >= hidden->n)
        return cli_error(CLI_USAGE, "%s: --hidden has %d widths", h->name, hidden->n);
    return CLI_GO;
}

/* Of what is declared: bounds that the thing itself has. */
static int check_bounds(pop *p, const pop_hyper *h, const sw_hyper *is)
{
    double low = is->low, high = is->high;
    for (int i = 0; is->kind == SW_CHOICE && i < is->n_choices; i++) {
        low = i == 0 || is->choices[i] < low ? is->choices[i] : low;
        high = i == 0 || is->choices[i] > high ? is->choices[i] : high;
    }
    const bool whole = h->kind != POP_KNOB;
    const bool below_one =
        !whole && strcmp(h->name, "lr") != 0 && strcmp(h->name, "weight_decay") != 0;
    if (whole && is->kind != SW_INTEGER && is->kind != SW_CHOICE)
        return cli_error(CLI_USAGE, "%s must be int:LOW..HIGH or choice:A,B,C", h->name);
    for (int i = 0; whole && is->kind == SW_CHOICE && i < is->n_choices; i++)
        if (is->choices[i] != floor(is->choices[i]))
            return cli_error(CLI_USAGE, "%s: choices must be whole numbers (got %g)", h->name,
                             is->choices[i]);
    if (low < (whole ? 1.0 : 0.0) || (below_one && high >= 1.0) ||
        high > (whole ? 1 << 24 : (double)FLT_MAX))
        return cli_error(CLI_USAGE, "%s must be %s (got %g to %g)", h->name,
                         whole       ? "1 to 16777216"
                         : below_one ? "at least 0 and below 1"
                                     : "at least 0, and as a float holds",
                         low, high);
    if (h->kind == POP_BATCH)
        p->largest_batch = (int64_t)high;
    return CLI_GO;
}

static int read_one(pop *p, const sw_hyper *is)
{
    pop_hyper *h = &p->hyper[p->n_hypers];
    snprintf(h->name, sizeof h->name, "%s", is->name);
    h->layer = hidden_layer(is->name);
    if (is_knob(is->name))
        h->kind = POP_KNOB;
    else if (strcmp(is->name, "batch") == 0)
        h->kind = POP_BATCH;
    else if (h->layer >= -1)
        h->kind = POP_WIDTH;
    else
        return cli_error(
            CLI_USAGE,
            "%s: there is no such hyper-parameter; there are lr, momentum, beta1, "
            "beta2, weight_decay, dropout, batch, hidden and hidden1, hidden2, ...",
            is->name);
    if (h->kind == POP_WIDTH)
        CLI_TRY(check_width(p, h));
    if (strcmp(h->name, "dropout") == 0 && p->opts.job.kind->takes[TOOL_DROPOUT] == NULL)
        return cli_error(CLI_USAGE, "dropout: --model %s has none", p->opts.job.model);
    p->n_hypers++;
    if (is->kind == SW_CHOICE && is->labels != NULL) /* whose words have no meaning here */
        return cli_error(CLI_USAGE, "%s: choices must be numbers (got '%s')", is->name,
                         is->labels[0]);
    return check_bounds(p, h, is);
}

/* pop_hypers.c: which hyper-parameter is what. CLI_GO, or CLI_USAGE with a line that names
 * it. */
static int pop_hypers_read(pop *p)
{
    if (p->opts.n_hypers == 0)
        return cli_error(CLI_USAGE, "nothing to explore: give at least one NAME=RANGE, as "
                                    "lr=log:0.0001..0.1");
    sw_status status = sw_space_create(&p->space);
    for (int i = 0; i < p->opts.n_hypers && status == SW_OK; i++)
        status = sw_space_parse(p->space, p->opts.hyper[i]);
    if (status == SW_INVALID)
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    CLI_LIBRARY(status, false);
    for (int i = 0; i < p->opts.n_hypers; i++) {
        sw_hyper is = SW_OPTS(sw_hyper);
        CLI_LIBRARY(sw_space_at(p->space, i, &is), false);
        CLI_TRY(read_one(p, &is));
    }
    /* All widths and those of one layer would both decide that one. */
    const pop_hyper *all = NULL, *one = NULL;
    for (int j = 0; j < p->n_hypers; j++) {
        const pop_hyper *h = &p->hyper[j];
        if (h->kind == POP_WIDTH)
            *(h->layer < 0 ? &all : &one) = h;
    }
    if (all != NULL && one != NULL)
        return cli_error(CLI_USAGE, "%s and %s exclude each other", all->name, one->name);
    return CLI_GO;
}

static sw_knob find_knob(const pop_shape *shape, const char *name)
{
    return strcmp(name, "dropout") == 0 ? sw_knob_find(shape->net.model, name)
                                        : sw_optimizer_knob(shape->net.optimizer, 0, name);
}

int pop_knobs_check(const pop *p, const pop_shape *shape)
{
    for (int i = 0; i < p->n_hypers; i++) {
        const char *name = p->hyper[i].name;
        if (p->hyper[i].kind != POP_KNOB || find_knob(shape, name).index != UINT32_MAX)
            continue;
        if (strcmp(name, "dropout") == 0)
            return cli_error(CLI_USAGE, "dropout: that of --model %s is fixed",
                             p->opts.job.model);
        return cli_error(CLI_USAGE, "%s: --optimizer %s has none", name, p->opts.job.optimizer);
    }
    return CLI_GO;
}

/* ---- values ------------------------------------------------------------------------------ */

sw_status pop_values(const pop *p, int member, double *values)
{
    for (int i = 0; i < p->n_hypers; i++)
        SW_TRY(sw_pbt_value(p->pbt, member, i, &values[i]));
    return SW_OK;
}

pop_config pop_config_of(const pop *p, const double *values)
{
    pop_config config = {.batch = p->opts.job.batch.at[0],
                         .hidden = p->opts.job.settings.hidden};
    for (int i = 0; i < p->n_hypers; i++) {
        const pop_hyper *h = &p->hyper[i];
        if (h->kind == POP_BATCH)
            config.batch = (int64_t)values[i];
        for (int k = 0; h->kind == POP_WIDTH && k < config.hidden.n; k++)
            if (h->layer < 0 || h->layer == k)
                config.hidden.at[k] = (int64_t)values[i];
    }
    return config;
}

bool pop_changes_config(const pop *p)
{
    for (int i = 0; i < p->n_hypers; i++)
        if (p->hyper[i].kind != POP_KNOB)
            return true;
    return false;
}

sw_status pop_set_rate(pop *p, int k, float rate)
{
    const pop_member *m = &p->members[k];
    return sw_member_knob_set(m->member, sw_optimizer_lr(p->shapes[m->shape]->net.optimizer, 0),
                              rate);
}

sw_status pop_set_knobs(pop *p, int k, const double *values)
{
    pop_member *m = &p->members[k];
    const pop_shape *shape = p->shapes[m->shape];
    for (int i = 0; i < p->n_hypers; i++) {
        if (p->hyper[i].kind == POP_KNOB)
            SW_TRY(sw_member_knob_set(m->member, find_knob(shape, p->hyper[i].name),
                                      (float)values[i]));
    }
    return SW_OK;
}

/* ---- the run ----------------------------------------------------------------------------- */

/* So many samples of the validation part are enough for a score. */
static int thin(pop *p)
{
    const int64_t asked = p->opts.validation_samples, all = p->validation.n;
    const int64_t n = asked > 0 ? asked : all < 2000 ? all : 2000;
    job_data rest, part;
    if (n > all)
        return cli_error(CLI_USAGE,
                         "--validation-samples must be at most the %" PRId64
                         " samples of --validation-share %g (got %" PRId64 ")",
                         all, p->opts.validation_share, asked);
    if (n == all)
        return CLI_GO;
    CLI_LIBRARY(job_split(p->validation.set, n, &rest, &part), false);
    sw_dataset_destroy(rest.set);
    sw_dataset_destroy(p->validation.set);
    p->validation = part;
    return CLI_GO;
}

/* Members choose by the validation part, so that no choice has seen the test part. */
static int split(pop *p)
{
    job_data learned;
    int status = CLI_GO;
    if (!p->independent) {
        CLI_TRY(job_validation(&p->job, p->opts.validation_share, &learned, &p->validation));
        sw_dataset_destroy(p->job.train.set);
        p->job.train = learned;
        p->drawn = p->validation.n;
        status = thin(p);
    }
    p->part[POP_TRAIN] = &p->job.train;
    p->part[POP_VALIDATION] = p->independent ? &p->job.test : &p->validation;
    p->part[POP_TEST] = &p->job.test;
    return status;
}

static sw_pbt_opts pbt_opts(const pop *p, uint64_t without)
{
    const pop_opts *o = &p->opts;
    const bool none = o->quantile <= 0.0 && o->replaced < 0.0;
    return SW_OPTS(
        sw_pbt_opts, .space = p->space, .members = p->n_members, .minimize = p->minimize,
        .seed = (uint64_t)o->job.seed, .interval = (double)o->interval,
        .burn_in = (double)o->burn_in, .quantile = none ? -1.0 : o->quantile,
        .replaced = o->replaced > 0.0 ? o->replaced : 0.0,
        .donors = o->donors > 0.0 ? o->donors : 0.0,
        .resample_probability = o->resample > 0.0 ? o->resample : -1.0,
        .factors = {o->factor[0], o->factor[1]}, .synch = o->synch,
        .exploit = (sw_exploit)cli_word_at(pop_exploit_words, o->exploit),
        .explore = (sw_explore)cli_word_at(pop_explore_words, o->explore),
        .stop_time = p->steps_to_do, .stop_score = isnan(o->stop_score) ? 0.0 : o->stop_score,
        .has_stop_score = !isnan(o->stop_score), .custom = pop_explored,
        .user = (pop *)(uintptr_t)p, .without = without);
}

/* A first draw that does not fit is drawn again. */
static sw_status first_values(pop *p, int k)
{
    enum { DRAWS = 1000 };
    double values[POP_HYPERS];
    bool changed, fits;
    pop_config asked;
    for (uint64_t draw = 1;; draw++) {
        SW_TRY(pop_values(p, k, values));
        pop_config config = pop_config_of(p, values);
        if (draw == 1)
            asked = config;
        SW_TRY(pop_fit(p, &config, &changed, &fits));
        if (fits && !changed) {
            if (draw > 1) {
                p->refused++;
                cli_note("member %d: %s does not fit the budget; it begins with %s", k,
                         pop_config_text(&asked).text, pop_config_text(&config).text);
            }
            return pop_shape_of(p, &config, &p->members[k].shape);
        }
        if (draw > DRAWS)
            SW_FAIL(SW_NOMEM, "member %d: none of %d draws fits the budget; narrow the ranges",
                    k, DRAWS);
        for (int i = 0; i < p->n_hypers; i++) {
            if (p->hyper[i].kind == POP_KNOB)
                continue;
            SW_TRY(sw_space_draw(p->space, i, (uint64_t)p->opts.job.seed + (uint64_t)k,
                                 draw << 32, &values[i]));
            SW_TRY(sw_pbt_value_set(p->pbt, k, i, values[i]));
        }
    }
}

static sw_status make_members(pop *p, uint64_t without)
{
    const sw_pbt_opts opts = pbt_opts(p, without);
    SW_TRY(sw_pbt_create(&p->pbt, &opts));
    for (int k = 0; k < p->n_members; k++) {
        p->members[k] = (pop_member){.seed = (uint64_t)p->opts.job.seed + (uint64_t)k};
        p->members[k].score.score = (double)NAN;
        p->members[k].mark = p->members[k].best_loss = HUGE_VAL;
        p->members[k].shape = -1;
    }
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(first_values(p, k));
    return SW_OK;
}

static void end_members(pop *p)
{
    for (int k = 0; k < p->n_members && p->members != NULL; k++) {
        pop_member *m = &p->members[k];
        sw_member_end(m->member);
        pop_state_free(p, &m->waiting);
        pop_state_free(p, &m->kept);
        m->member = (sw_member){.of = NULL};
    }
    sw_pbt_destroy(p->pbt);
    p->pbt = NULL;
}

static sw_status room(pop *p)
{
    const size_t n = (size_t)p->n_members;
    SW_TRY(sw_heap_alloc(&p->members, SW_HEAP_RECORDS, n * sizeof *p->members));
    SW_TRY(sw_heap_alloc(&p->list, SW_HEAP_RECORDS, n * sizeof *p->list));
    SW_TRY(sw_heap_alloc(&p->order, SW_HEAP_RECORDS, n * sizeof *p->order));
    SW_TRY(sw_heap_alloc(&p->values, SW_HEAP_RECORDS, n * sizeof *p->values));
    SW_TRY(sw_heap_alloc(&p->sizes, SW_HEAP_RECORDS, n * sizeof *p->sizes));
    return sw_heap_alloc(&p->ended, SW_HEAP_RECORDS, 2 * n * sizeof *p->ended);
}

/* CLI_GO or the exit status. */
static int prepare(pop *p)
{
    cli_catch_interrupt();
    if (p->opts.job.checkpoint != NULL)
        cli_catch_save();
    if (!p->independent)
        CLI_TRY(pop_ranks_open(p));
    CLI_TRY(pop_files_check(p));
    p->job.quiet = p->opts.quiet;
    p->job.limited[0] = p->job.limited[1] =
        p->largest_batch > 0 ? p->largest_batch : p->opts.job.batch.at[0];
    CLI_TRY(job_load(&p->job, false));
    const pop_opts *o = &p->opts;
    CLI_TRY(job_refuse_documents(&p->job, "members"));
    p->classes = tool_task_of(&p->job.train.info) == TOOL_CLASSIFY;
    p->by_loss = o->metric != NULL ? strcmp(o->metric, "loss") == 0 : !p->classes;
    p->minimize = p->by_loss;
    if (!p->by_loss && !p->classes)
        return cli_error(CLI_USAGE, "--metric accuracy: %s has no classes", o->job.data);
    CLI_TRY(split(p));
    const uint64_t n = (uint64_t)p->job.train.n, batch = (uint64_t)o->job.batch.at[0];
    const uint64_t epochs = (uint64_t)(o->epochs > 0 ? o->epochs : 1);
    const uint64_t by_epochs = (n + batch - 1) / batch * epochs;
    uint64_t steps = o->steps > 0 ? (uint64_t)o->steps : by_epochs;
    if (o->steps > 0 && o->epochs > 0 && by_epochs < steps)
        steps = by_epochs;
    p->steps_to_do = (double)steps;
    p->best_loss = HUGE_VAL;
    if (p->independent)
        CLI_TRY(pop_train_plan(p));
    CLI_TRY(pop_open(p));
    if (p->opts.prove)
        return CLI_GO;
    p->n_members = p->opts.replay != NULL ? 1 : (int)p->opts.members;
    CLI_TRY(job_folder_make("--pause-to", p->opts.pause_to, &p->made_pauses));
    CLI_TRY(job_folder_make("--log-dir", p->opts.logs, &p->made_logs));
    CLI_LIBRARY(room(p), false);
    if (p->independent)
        CLI_LIBRARY(cli_times_init(&p->times, (uint64_t)p->steps_to_do), false);
    CLI_LIBRARY(pop_pause_open(p), false);
    CLI_LIBRARY(make_members(p, 0), false);
    CLI_LIBRARY(pop_history_open(p), false);
    CLI_LIBRARY(pop_save_open(p), false);
    CLI_TRY(pop_resume(p));
    /* Before the other files: where the log is not as it was, those stay as they are. */
    sw_status made = p->opts.logs != NULL ? sw_pbt_log(p->pbt, p->opts.logs) : SW_OK;
    if (made == SW_FORMAT)
        return cli_error(CLI_DAMAGED,
                         "%s; put it there as it was, or go on without --log-dir: the run "
                         "keeps no logs then",
                         sw_last_error());
    if (made == SW_OK)
        made = pop_metrics_open(p);
    if (made == SW_OK)
        made = pop_profile_open(p);
    if (!p->independent && !p->opts.quiet)
        cli_note("%s samples for training, %s of %s for validation, %s for the test at the end",
                 cli_digits((uint64_t)p->job.train.n).text,
                 cli_digits((uint64_t)p->validation.n).text,
                 cli_digits((uint64_t)p->drawn).text, cli_digits((uint64_t)p->job.test.n).text);
    return made == SW_OK ? CLI_GO : cli_library_error(made, false);
}

static int end_of(pop *p, sw_status ran)
{
    if (ran == SW_OK)
        ran = pop_save_now(p);
    if (ran == SW_OK)
        ran = pop_save_params(p);
    if (ran == SW_OK)
        ran = pop_test_best(p);
    if (ran == SW_OK)
        ran = pop_plot_save(p);
    const sw_status closed = job_metrics_close(&p->metrics);
    ran = ran == SW_OK ? closed : ran;
    CLI_LIBRARY(ran, false);
    return pop_print(p, pop_stopped(p) ? CLI_INTERRUPTED : CLI_DONE);
}

/* From the start again, without exploit N. */
static sw_status begin_again(pop *p, uint64_t without)
{
    const sw_status closed = job_metrics_close(&p->metrics);
    end_members(p);
    pop_history_clear(p);
    p->turn = p->exploits = p->refused = p->member_steps = 0;
    SW_TRY(closed);
    SW_TRY(make_members(p, without));
    return pop_metrics_open(p);
}

static int run(pop *p)
{
    if (p->opts.prove)
        return pop_say_proof(p);
    if (p->opts.replay != NULL)
        return pop_replay(p);
    p->start_ns = cli_clock_ns();
    if (p->opts.without > 0) {
        /* The run as it is, then once more without exploit N: its files, and what is
         * printed, are those of the second. */
        const uint64_t without = (uint64_t)p->opts.without;
        sw_status ran = pop_run(p);
        const int best = pop_best(p);
        const double with = best >= 0 ? p->members[best].score.score : (double)NAN;
        const uint64_t exploits = p->exploits;
        if (ran == SW_OK && !cli_interrupted() && without > exploits)
            return cli_error(CLI_USAGE,
                             "--without %" PRIu64 ": the run has %" PRIu64 " exploits", without,
                             exploits);
        if (ran == SW_OK && !cli_interrupted())
            ran = begin_again(p, without);
        if (ran == SW_OK && !cli_interrupted())
            ran = pop_run(p);
        p->wall_ns = cli_clock_ns() - p->start_ns;
        cli_progress("%s", "");
        CLI_LIBRARY(ran, false);
        if (cli_interrupted())
            return cli_error(CLI_INTERRUPTED, "interrupted: both runs must end to be compared");
        const int best_without = pop_best(p);
        if (best < 0 || best_without < 0)
            return cli_error(CLI_FAILED,
                             "no member of the run with%s exploit %" PRIu64 " has a score",
                             best < 0 ? "" : "out", without);
        const double score = p->members[best_without].score.score;
        cli_note("exploit %" PRIu64
                 " was worth %.5g: the best %s is %.5g with it and %.5g without",
                 without, p->minimize ? score - with : with - score, pop_metric_name(p), with,
                 score);
        return end_of(p, SW_OK);
    }
    const sw_status ran = pop_run(p);
    p->wall_ns = cli_clock_ns() - p->start_ns;
    cli_progress("%s", "");
    return end_of(p, ran);
}

/* Backwards through prepare(). */
static void close_all(pop *p)
{
    const size_t n = (size_t)p->n_members;
    sw_checkpoint_destroy(p->checkpoint);
    sw_file_drop(p->metrics.file);
    pop_history_close(p);
    end_members(p);
    pop_pause_close(p);
    for (int i = 0; i < p->n_shapes; i++)
        pop_shape_free(p->shapes[i]);
    sw_heap_free(p->shapes, SW_HEAP_RECORDS, (size_t)p->cap_shapes * sizeof *p->shapes);
    sw_heap_free(p->scratch, SW_HEAP_RECORDS, p->scratch_bytes);
    sw_heap_free(p->members, SW_HEAP_RECORDS, n * sizeof *p->members);
    sw_heap_free(p->list, SW_HEAP_RECORDS, n * sizeof *p->list);
    sw_heap_free(p->order, SW_HEAP_RECORDS, n * sizeof *p->order);
    sw_heap_free(p->values, SW_HEAP_RECORDS, n * sizeof *p->values);
    sw_heap_free(p->sizes, SW_HEAP_RECORDS, n * sizeof *p->sizes);
    sw_heap_free(p->ended, SW_HEAP_RECORDS, 2 * n * sizeof *p->ended);
    sw_heap_free(p->said, SW_HEAP_RECORDS, p->said_bytes);
    sw_exec_destroy(p->job.exec);
    sw_budget_destroy(p->job.budget);
    sw_space_destroy(p->space);
    if (p->times.ns != NULL)
        cli_times_free(&p->times);
    sw_dataset_destroy(p->validation.set);
    job_unload(&p->job);
    job_folder_leave(p->opts.logs, p->made_logs);
    job_folder_leave(p->opts.pause_to, p->made_pauses);
}

int pop_go(pop *p)
{
    int status = prepare(p);
    if (status == CLI_GO)
        status = run(p);
    job_ranks_profile(p->ranks, p->profile, true);
    status = pop_profile_close(p, status);
    status = p->ranks != NULL ? job_ranks_close(p->ranks, p->agreed, status) : status;
    close_all(p);
    return status;
}

int tool_pbt(int argc, char **argv)
{
    static pop p; /* large */
    job_ranks_one_voice(argc, argv);
    const int status = pop_parse(&p, argc, argv);
    if (status == CLI_GO)
        return pop_go(&p);
    close_all(&p);
    return status;
}

/* ---- pop opts ---------------------------------------------------------------------------- */

/* The command line of `stepwell pbt`. */

const char *const pop_metric_words[] = {"accuracy", "loss", NULL};
const char *const pop_exploit_words[] = {"truncation", "tournament", "t-test", NULL};
const char *const pop_explore_words[] = {"perturb", NULL};
const char *const pop_too_large_words[] = {"refuse", "batch", NULL};

static const char notes[] =
    "Each NAME=RANGE is a hyper-parameter that is explored: NAME=uniform:LOW..HIGH, "
    "NAME=log:LOW..HIGH (the logarithm is uniform), NAME=int:LOW..HIGH, or NAME=choice:A,B,C. "
    "NAME is lr, momentum, beta1, beta2, weight_decay or dropout, which change without a new "
    "plan; or batch, hidden (the widths of all hidden layers of mlp) or hidden1, hidden2, ... "
    "(of one), which make another shape: it is planned, and must fit, before it is taken. A "
    "width that changes keeps what the net computes where it grows, and the most useful units "
    "where it shrinks.\n"
    "Members are scored with the validation part, a share of the training part that none is "
    "trained with. The test part is for the best member alone, at the end.\n"
    "Values always stay within their ranges. The same command gives the same bits for every "
    "number of threads and every --memory-budget.\n"
    "With --memory-budget all members fit or wait: those that wait take turns in a slot of "
    "each thread, and lie outside of the budget in between. The needs of each member are known "
    "before the first step; what does not fit is refused there.\n"
    "Example: stepwell pbt --data idx:mnist --model mlp --hidden 64 --optimizer momentum "
    "--members 10 --epochs 2 lr=log:0.001..1 momentum=uniform:0..0.99 hidden=int:16..256\n"
    "With --json standard output has one object: model, data, members, steps (of a member), "
    "turns, exploits, refused (explored shapes that did not fit), seed, threads, precision, "
    "bf16_order (null with f32), train_rows, validation_rows, metric, best (member, score, "
    "loss, accuracy, values), test_loss, test_accuracy, test_rows (of the best member at the "
    "end, null where the run was interrupted), population (for each member its score, loss, "
    "accuracy, step, exploits, shape, bytes, values, ended, failed), shapes (batch, that runs, "
    "and batch_asked where there are fewer samples, hidden, member_bytes, arena_bytes, "
    "batch_bytes, members), memory (budget_bytes, predicted_peak_bytes, measured_peak_bytes, "
    "lane_bytes, resident_bytes, paused_peak_bytes), wall_ns, train_ns, validation_ns, "
    "test_ns, exploit_ns. With several processes also transport, transport_bytes (of each "
    "rank, for exchanges) and ranks: host, steps (of its members), predicted_peak_bytes, "
    "measured_peak_bytes, sent_bytes, waited_ns, transport_resident_bytes (that it takes "
    "itself) and made_twice (0) of each; memory is that of rank 0. Each score, loss and "
    "accuracy that is not of the test is of the validation part.\n"
    "With --prove it has: model, data, shapes, shapes_refused, largest and first_refused "
    "(batch, hidden, bytes), too_large, threads, arena_bytes, batch_bytes, member_bytes, "
    "explore_bytes, budget_bytes.\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit "
    "the memory, 5 no such device, 130 interrupted. Ctrl-C stops after the current steps; with "
    "--checkpoint, --resume continues from there.";

/* Numbers, and options of a job that a population has no use for. */
static int check(pop_opts *o)
{
    const char *no = cli_given("--immediate --accumulate --keep-gradients --checkpoint-pauses");
    char *end;
    o->factor[0] = strtod(o->factors, &end);
    o->factor[1] = *end == ',' ? strtod(end + 1, &end) : 0.0;
    if (*end != '\0' || !(o->factor[0] > 0.0) || !(o->factor[1] > 0.0) ||
        !isfinite(o->factor[0]) || !isfinite(o->factor[1]))
        return cli_error(CLI_USAGE,
                         "--factors must be two numbers above 0, as 1.2,0.8 (got '%s')",
                         o->factors);
    if (o->quantile > 0.5)
        return cli_error(CLI_USAGE, "--quantile must be 0 to 0.5 (got %g)", o->quantile);
    if ((o->replaced >= 0.0) != (o->donors >= 0.0))
        return cli_error(CLI_USAGE, "--replaced and --donors must be given together");
    if (o->replaced >= 0.0 &&
        (!(o->replaced > 0.0) || !(o->donors > 0.0) || o->replaced + o->donors > 1.0))
        return cli_error(CLI_USAGE,
                         "--replaced and --donors must be above 0 and together at most 1 (got "
                         "%g and %g)",
                         o->replaced, o->donors);
    if (o->resample > 1.0)
        return cli_error(CLI_USAGE, "--resample must be 0 to 1 (got %g)", o->resample);
    if (no != NULL)
        return cli_error(CLI_USAGE, "%s is not supported for populations", no);
    CLI_TRY(job_validation_check(o->validation_share));
    if (o->resume != NULL && job_resume_path(o->resume, o->job.checkpoint) == NULL)
        return cli_error(CLI_USAGE,
                         "--resume must have a FILE, or --checkpoint FILE beside it");
    if (o->resume != NULL && strchr(o->resume, '=') != NULL && !sw_file_there(o->resume))
        return cli_error(CLI_USAGE,
                         "--resume takes '%s' as its FILE: give --resume=FILE, or --resume in "
                         "front of another option",
                         o->resume);
    return CLI_GO;
}

static int pop_table(pop_opts *o, cli_option *table)
{
    const cli_option options[] = {
#define POP_OPTION(type, field, name, value, kind, ...)                                        \
    {name, value, kind, &o->field, __VA_ARGS__},
#include "tools/population/pop_options.def"
    };
    o->stop_score = (double)NAN;
    o->replaced = o->donors = -1.0;
    o->epochs = -1;
    const int n = job_options(&o->job, table, 0, true);
    memcpy(table + n, options, sizeof options);
    return n + (int)(sizeof options / sizeof *options);
}

/* pop_opts.c: CLI_GO or an exit status. */
static int pop_parse(pop *p, int argc, char **argv)
{
    static cli_option table[POP_OPTIONS_MAX];
    pop_opts *o = &p->opts;
    const cli_command command =
        SW_INIT(.name = "pbt", .usage = "[options] NAME=RANGE ...",
                .about = "Train a population of models that learn from each "
                         "other how to train (population based training).",
                .options = table, .n_options = pop_table(o, table), .operand = o->hyper,
                .max_operands = POP_HYPERS, .notes = notes);
    CLI_TRY(cli_parse(&command, argc, argv));
    p->options = table;
    p->n_options = command.n_options;
    cli_command_line(p->command, sizeof p->command, argc, argv);
    while (o->n_hypers < POP_HYPERS && o->hyper[o->n_hypers] != NULL)
        o->n_hypers++;
    o->job.epochs = o->epochs;
    o->job.steps = o->steps;
    o->job.save_type = o->save_type;
    o->job.knobs = true;
    p->job.opts = &o->job;
    CLI_TRY(job_ranks_check(&o->job, o->rank_timeout, "--prove --replay --without"));
    CLI_TRY(job_check(&o->job));
    CLI_TRY(check(o));
    return pop_hypers_read(p);
}
