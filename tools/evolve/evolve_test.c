/* The best net on the test part, and training it from scratch: in the budget of the run, which
 * the population has left by then. */
#include "tools/evolve/evolve.h"
#include "tools/evolve/trial.h"
#include <inttypes.h>

typedef sw_status trial_body(evolve *e, trial *t);

static sw_status with_trial(evolve *e, trial_body *body)
{
    sw_exec *exec;
    trial t = {0};
    SW_TRY(evolve_exec(e, &exec));
    sw_status status =
        trial_open(&t, exec, e->budget, e->genome, &e->net, (uint64_t)e->opts.job.seed);
    if (status == SW_OK)
        status = body(e, &t);
    trial_close(&t);
    sw_exec_destroy(exec);
    return status;
}

static sw_status test(evolve *e, trial *t, evolve_test *out)
{
    SW_TRY(trial_test(t, e->job.test.set, &out->right, &out->rows));
    out->there = true;
    return SW_OK;
}

static sw_status load_and_test(evolve *e, trial *t)
{
    SW_TRY(sw_model_load(t->model, evolve_path(e, "best.safetensors")));
    return test(e, t, &e->test);
}

sw_status evolve_test_best(evolve *e)
{
    return with_trial(e, load_and_test);
}

/* ---- from scratch ------------------------------------------------------------------------ */

typedef struct {
    const evolve *e;
    int64_t epoch;
} training;

static void say(void *user, int64_t batch, int64_t batches)
{
    const training *t = user;
    if (!t->e->opts.quiet)
        cli_progress("training again: epoch %" PRId64 " of %" PRId64 ", batch %" PRId64
                     " of %" PRId64,
                     t->epoch + 1, t->e->opts.retrain, batch, batches);
}

static sw_status train(evolve *e, trial *t)
{
    training now = {.e = e};
    for (; now.epoch < e->opts.retrain && !cli_interrupted(); now.epoch++)
        SW_TRY(trial_epoch(t, e->job.train.set, (uint64_t)now.epoch, say, &now));
    cli_progress("%s", "");
    if (cli_interrupted())
        return SW_OK;
    SW_TRY(test(e, t, &e->retrained));
    SW_TRY(job_note(&e->job, t->model));
    return cli_saved(sw_model_save(t->model, evolve_path(e, "retrained.safetensors")));
}

sw_status evolve_retrain(evolve *e)
{
    return with_trial(e, train);
}
