/* What a net does on the test part, and training one from scratch: in the budget of the run,
 * which the population has left by then. */
#include "tools/evolve/evolve.h"
#include <math.h>
#include <string.h>

typedef struct {
    evolve *e;
    sw_exec *exec;
    sw_net *net;
    sw_loader *loader;
    sw_run_args args;
    sw_model *model;
    int64_t batch;
} net_run;

static sw_status open_run(net_run *r, evolve *e)
{
    sw_genome_info info = {.size = sizeof info};
    r->e = e;
    SW_TRY(sw_genome_look(e->genome, &info));
    SW_TRY(evolve_exec(e, &r->exec));
    SW_TRY(sw_net_create(&r->net, e->genome, &e->net));
    r->model = sw_net_model(r->net);
    r->batch = info.batch;
    r->args = (sw_run_args){.size = sizeof r->args,
                            .fn = sw_net_step,
                            .user = r->net,
                            .models = &r->model,
                            .n_models = 1};
    return sw_model_ready(r->model, r->exec, (uint64_t)e->opts.job.seed);
}

static void close_run(net_run *r)
{
    sw_loader_destroy(r->loader);
    sw_net_destroy(r->net);
    sw_exec_destroy(r->exec);
}

/* One slot: the batch that a step reads. */
static sw_status load_from(net_run *r, const sw_dataset *set, int64_t n, bool shuffle)
{
    const sw_loader_opts opts = {.size = sizeof opts,
                                 .batch = r->batch < n ? r->batch : n,
                                 .slots = 1,
                                 .seed = (uint64_t)r->e->opts.job.seed,
                                 .shuffle = shuffle,
                                 .drop_last = shuffle,
                                 .budget = r->e->budget,
                                 .inline_fill = 1,
                                 .keyed = shuffle};
    sw_loader_destroy(r->loader);
    r->loader = NULL;
    return sw_loader_create(&r->loader, set, &opts);
}

/* A share of rows: whole again. */
static sw_status test(net_run *r, evolve_test *out)
{
    evolve_test t = {.there = true};
    SW_TRY(load_from(r, r->e->job.test.set, r->e->job.test.n, false));
    SW_TRY(sw_loader_epoch(r->loader, 0));
    r->args.mode = SW_EVAL;
    for (;;) {
        double share;
        SW_TRY(sw_loader_next(r->loader, &r->args.inputs, &r->args.n_inputs));
        if (r->args.n_inputs == 0)
            break;
        SW_TRY(sw_run(r->exec, &r->args));
        SW_TRY(sw_metric_get(r->exec, "accuracy", &share));
        const int64_t rows = r->args.inputs[0].shape.dim[0];
        t.right += llround(share * (double)rows);
        t.rows += rows;
    }
    *out = t;
    return SW_OK;
}

sw_status evolve_test_best(evolve *e)
{
    net_run r = {0};
    sw_status status = open_run(&r, e);
    if (status == SW_OK)
        status = sw_model_load(r.model, evolve_path(e, "best.safetensors"));
    if (status == SW_OK)
        status = test(&r, &e->test);
    close_run(&r);
    return status;
}

/* ---- from scratch ------------------------------------------------------------------------ */

static sw_status train_epoch(net_run *r, uint64_t epoch)
{
    const int64_t batches = sw_loader_batches(r->loader), n = r->e->opts.retrain;
    SW_TRY(sw_loader_epoch(r->loader, epoch));
    r->args.mode = SW_TRAIN;
    for (int64_t i = 0; !cli_interrupted(); i++) {
        SW_TRY(sw_loader_next(r->loader, &r->args.inputs, &r->args.n_inputs));
        if (r->args.n_inputs == 0)
            break;
        SW_TRY(sw_run(r->exec, &r->args));
        r->args.step++;
        if (!r->e->opts.quiet)
            cli_progress("training again: epoch %llu of %lld, batch %lld of %lld",
                         (unsigned long long)epoch + 1, (long long)n, (long long)i + 1,
                         (long long)batches);
    }
    return SW_OK;
}

static sw_status train(net_run *r)
{
    evolve *e = r->e;
    SW_TRY(load_from(r, e->job.train.set, e->job.train.n, true));
    for (int64_t k = 0; k < e->opts.retrain && !cli_interrupted(); k++)
        SW_TRY(train_epoch(r, (uint64_t)k));
    if (cli_interrupted())
        return SW_OK;
    SW_TRY(test(r, &e->retrained));
    if (*e->job.normal.text != '\0')
        SW_TRY(sw_model_note(r->model, JOB_NORMAL_KEY, e->job.normal.text));
    return cli_saved(sw_model_save(r->model, evolve_path(e, "retrained.safetensors")));
}

sw_status evolve_retrain(evolve *e)
{
    net_run r = {0};
    sw_status status = open_run(&r, e);
    if (status == SW_OK)
        status = train(&r);
    cli_progress("%s", "");
    close_run(&r);
    return status;
}
