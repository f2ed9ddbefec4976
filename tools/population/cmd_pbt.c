/* stepwell pbt: load and split the data, plan every shape that can be reached, train the
 * population, test its best member, say what came out and what it took. Whatever can be refused
 * is refused before the first step. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/population/population.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the run ----------------------------------------------------------------------------- */

static void count_steps(pop *p)
{
    const pop_opts *o = &p->opts;
    const uint64_t n = (uint64_t)p->job.train.n, batch = (uint64_t)o->job.batch.at[0];
    const uint64_t epochs = (uint64_t)(o->epochs > 0 ? o->epochs : 1);
    const uint64_t by_epochs = (n + batch - 1) / batch * epochs;
    uint64_t steps = o->steps > 0 ? (uint64_t)o->steps : by_epochs;
    if (o->steps > 0 && o->epochs > 0 && by_epochs < steps)
        steps = by_epochs;
    p->steps_to_do = (double)steps;
}

static int check_metric(pop *p)
{
    const char *metric = p->opts.metric;
    p->classes = tool_task_of(&p->job.train.info) == TOOL_CLASSIFY;
    p->by_loss = metric != NULL ? strcmp(metric, "loss") == 0 : !p->classes;
    p->minimize = p->by_loss;
    if (!p->by_loss && !p->classes)
        return cli_error(CLI_USAGE, "--metric accuracy: %s has no classes", p->opts.job.data);
    return CLI_GO;
}

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
    const sw_status status = job_split(p->validation.set, n, &rest, &part);
    if (status != SW_OK)
        return cli_library_error(status, false);
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
        status = job_validation(&p->job, p->opts.validation_share, &learned, &p->validation);
        if (status != CLI_GO)
            return status;
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

static void say_parts(const pop *p)
{
    if (!p->independent && !p->opts.quiet)
        cli_note("%s samples for training, %s of %s for validation, %s for the test at the end",
                 cli_digits((uint64_t)p->job.train.n).text,
                 cli_digits((uint64_t)p->validation.n).text,
                 cli_digits((uint64_t)p->drawn).text, cli_digits((uint64_t)p->job.test.n).text);
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
        .exploit = (sw_exploit)pop_word(pop_exploit_words, o->exploit),
        .explore = (sw_explore)pop_word(pop_explore_words, o->explore),
        .stop_time = p->steps_to_do, .stop_score = isnan(o->stop_score) ? 0.0 : o->stop_score,
        .has_stop_score = !isnan(o->stop_score), .custom = pop_explored,
        .user = (pop *)(uintptr_t)p, .without = without);
}

static void say_refused(pop *p, int k, const pop_config *asked, const pop_config *config)
{
    p->refused++;
    cli_note("member %d: %s does not fit the budget; it begins with %s", k,
             pop_config_text(asked).text, pop_config_text(config).text);
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
            if (draw > 1)
                say_refused(p, k, &asked, &config);
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
    SW_TRY(sw_heap_alloc(&p->ended, SW_HEAP_RECORDS, n * sizeof *p->ended));
    return SW_OK;
}

/* CLI_GO or the exit status. */
static int prepare(pop *p)
{
    cli_catch_interrupt();
    if (p->opts.job.checkpoint != NULL)
        cli_catch_save();
    int status = pop_files_check(p);
    p->job.quiet = p->opts.quiet;
    p->job.limited[0] = p->job.limited[1] =
        p->largest_batch > 0 ? p->largest_batch : p->opts.job.batch.at[0];
    if (status == CLI_GO)
        status = job_load(&p->job, false);
    if (status == CLI_GO)
        status = check_metric(p);
    if (status == CLI_GO)
        status = split(p);
    if (status != CLI_GO)
        return status;
    count_steps(p);
    p->best_loss = HUGE_VAL;
    status = p->independent ? pop_train_plan(p) : CLI_GO;
    if (status == CLI_GO)
        status = pop_open(p);
    if (status != CLI_GO || p->opts.prove)
        return status;
    p->n_members = p->opts.replay != NULL ? 1 : (int)p->opts.members;
    status = job_folder_make("--pause-to", p->opts.pause_to, &p->made_pauses);
    if (status == CLI_GO)
        status = job_folder_make("--log-dir", p->opts.logs, &p->made_logs);
    if (status != CLI_GO)
        return status;
    sw_status made = room(p);
    if (made == SW_OK && p->independent)
        made = cli_times_init(&p->times, (uint64_t)p->steps_to_do);
    if (made == SW_OK)
        made = pop_pause_open(p);
    if (made == SW_OK)
        made = make_members(p, 0);
    if (made == SW_OK)
        made = pop_history_open(p);
    if (made == SW_OK && p->opts.replay == NULL)
        made = pop_save_open(p);
    if (made != SW_OK)
        return cli_library_error(made, false);
    status = pop_resume(p);
    if (status != CLI_GO)
        return status;
    /* Before the other files: where the log is not as it was, those stay as they are. */
    made = p->opts.logs != NULL ? sw_pbt_log(p->pbt, p->opts.logs) : SW_OK;
    if (made == SW_FORMAT)
        return cli_error(
            CLI_DAMAGED,
            "%s; put it there as it was, or go on without --log-dir: the run keeps "
            "no logs then",
            sw_last_error());
    if (made == SW_OK)
        made = pop_metrics_open(p);
    if (made == SW_OK)
        made = pop_profile_open(p);
    say_parts(p);
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
    const sw_status closed = pop_metrics_close(p);
    ran = ran == SW_OK ? closed : ran;
    if (ran != SW_OK)
        return cli_library_error(ran, false);
    return pop_print(p, cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
}

/* From the start again, without exploit N. */
static sw_status begin_again(pop *p, uint64_t without)
{
    const sw_status closed = pop_metrics_close(p);
    end_members(p);
    pop_history_clear(p);
    p->turn = p->exploits = p->refused = p->member_steps = 0;
    SW_TRY(closed);
    SW_TRY(make_members(p, without));
    return pop_metrics_open(p);
}

/* The run as it is, then once more without exploit N: its files, and what is printed, are those
 * of the second. */
static int compare(pop *p)
{
    const uint64_t without = (uint64_t)p->opts.without;
    sw_status ran = pop_run(p);
    const int best = pop_best(p);
    const double with = best >= 0 ? p->members[best].score.score : (double)NAN;
    const uint64_t exploits = p->exploits;
    if (ran == SW_OK && !cli_interrupted() && without > exploits)
        return cli_error(CLI_USAGE, "--without %" PRIu64 ": the run has %" PRIu64 " exploits",
                         without, exploits);
    if (ran == SW_OK && !cli_interrupted())
        ran = begin_again(p, without);
    if (ran == SW_OK && !cli_interrupted())
        ran = pop_run(p);
    p->wall_ns = cli_clock_ns() - p->start_ns;
    cli_progress("%s", "");
    if (ran != SW_OK)
        return cli_library_error(ran, false);
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted: both runs must end to be compared");
    const int best_without = pop_best(p);
    if (best < 0 || best_without < 0)
        return cli_error(CLI_FAILED,
                         "no member of the run with%s exploit %" PRIu64 " has a score",
                         best < 0 ? "" : "out", without);
    const double score = p->members[best_without].score.score;
    cli_note("exploit %" PRIu64 " was worth %.5g: the best %s is %.5g with it and %.5g without",
             without, p->minimize ? score - with : with - score, pop_metric_name(p), with,
             score);
    return end_of(p, SW_OK);
}

static int run(pop *p)
{
    if (p->opts.prove)
        return pop_say_proof(p);
    if (p->opts.replay != NULL)
        return pop_replay(p);
    p->start_ns = cli_clock_ns();
    if (p->opts.without > 0)
        return compare(p);
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
    sw_file_drop(p->metrics);
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
    sw_heap_free(p->ended, SW_HEAP_RECORDS, n * sizeof *p->ended);
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
    status = pop_profile_close(p, status);
    close_all(p);
    return status;
}

int tool_pbt(int argc, char **argv)
{
    static pop p; /* large */
    const int status = pop_parse(&p, argc, argv);
    if (status == CLI_GO)
        return pop_go(&p);
    close_all(&p);
    return status;
}
