/* A training that was refused for memory before its first step, with --profile: the file has
 * who would have held what, and the largest batch that fits, as far as a moment's search tells.
 * The refusal has been printed; nothing here prints, and what fails here changes nothing. */
#include "profiler/record/prof_heap.h"
#include "runtime/observe/observe.h"
#include "tools/plan/plan.h"
#include "tools/train/train.h"

#define SEARCHED_OPS 1000 /* a search plans some fifty batches: two seconds for so many ops */

/* The plans once more, now with a profile: the library writes the one that it refuses. */
static bool refused_again(train *t)
{
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (t->job.program[i].batch > 0) {
            const sw_status status = job_plan(&t->job, (job_which)i);
            if (status != SW_OK)
                return status == SW_NOMEM;
        }
    return false;
}

/* Whatever else did not fit: the machine, the loaders beside the plans, or before there were
 * plans at all. */
static void record_other(train *t, const char *message)
{
    const job *j = &t->job;
    size_t limit = t->opts.job.budget_bytes;
    const bool budget = limit > 0 && job_total_bytes(j) > limit;
    const job_program *p = job_main(j);
    if (!budget)
        limit = machine_memory("", &t->job.machine) == SW_OK ? j->machine.bytes : 0;
    if (j->exec != NULL && p->plan.total_bytes > 0) {
        const sw_run_args args = job_args(&t->job, (job_which)(p - j->program), p->inputs, 0);
        swi_profile_refused(j->exec, &args, budget ? "budget" : "machine", limit, message);
        return;
    }
    const sw_prof_denied denied = {.program = SW_PROF_NONE,
                                   .batch = job_batch(j),
                                   .run = "train",
                                   .limited_by = "memory",
                                   .message = message};
    sw_prof_denied_record(t->profile, &denied);
}

static void record_fitting(train *t, size_t budget)
{
    job_opts opts = t->opts.job;
    opts.budget_bytes = 0; /* without one nothing is run again: what then fits does */
    job look = {
        .opts = &opts, .batch = t->job.batch, .train = t->job.train, .test = t->job.test};
    plan_found found;
    if (plan_fit_search(&look, budget, &found) == SW_OK)
        sw_prof_fits_record(t->profile, found.batch, found.total_bytes, budget);
    job_close(&look);
}

void train_record_refusal(train *t)
{
    if (t->opts.profile == NULL || t->profile != NULL)
        return;
    if (train_create_profile(t) != SW_OK)
        return;
    const bool again = t->job.exec != NULL &&
                       sw_exec_set_profile(t->job.exec, t->profile) == SW_OK &&
                       refused_again(t);
    if (!again)
        record_other(t, cli_last_line());
    const size_t budget = t->opts.job.budget_bytes;
    if (t->job.exec != NULL && budget > 0 && job_main(&t->job)->plan.n_ops <= SEARCHED_OPS)
        record_fitting(t, budget);
}
