/* One net of a genome: see trial.h. */
#include "tools/evolve/trial.h"
#include <math.h>

sw_status trial_open(trial *t, sw_exec *exec, sw_budget *budget, const sw_genome *genome,
                     const sw_net_opts *net, uint64_t seed)
{
    sw_genome_info info = SW_OPTS(sw_genome_info);
    *t = (trial){.exec = exec, .budget = budget, .seed = seed};
    SW_TRY(sw_genome_describe(genome, &info));
    SW_TRY(sw_net_create(&t->net, genome, net));
    t->model = sw_net_model(t->net);
    t->batch = info.batch;
    t->args = SW_OPTS(sw_run_args, .fn = sw_net_step, .user = t->net, .models = &t->model,
                      .n_models = 1);
    return sw_net_ready(t->net, exec, seed);
}

void trial_close(trial *t)
{
    sw_loader_destroy(t->loader);
    sw_net_destroy(t->net);
    t->loader = NULL;
    t->net = NULL;
}

/* One slot: the batch that a step reads. */
static sw_status load_from(trial *t, const sw_dataset *set, bool training)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(set, &info);
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = t->batch < info.n ? t->batch : info.n, .slots = 1,
                .seed = t->seed, .shuffle = training, .drop_last = training,
                .budget = t->budget, .inline_fill = 1, .keyed = training);
    sw_loader_destroy(t->loader);
    t->loader = NULL;
    t->args.mode = training ? SW_TRAIN : SW_EVAL;
    return sw_loader_create(&t->loader, set, &opts);
}

sw_status trial_epoch(trial *t, const sw_dataset *set, uint64_t epoch, trial_each *each,
                      void *user)
{
    SW_TRY(load_from(t, set, true));
    SW_TRY(sw_loader_epoch(t->loader, epoch));
    const int64_t batches = sw_loader_batches(t->loader);
    for (int64_t i = 1; !cli_interrupted(); i++) {
        SW_TRY(sw_loader_next(t->loader, &t->args.inputs, &t->args.n_inputs));
        if (t->args.n_inputs == 0)
            break;
        SW_TRY(sw_run(t->exec, &t->args));
        t->args.step++;
        if (each != NULL)
            each(user, i, batches);
    }
    return SW_OK;
}

/* A share of rows is a whole number of them again. */
sw_status trial_test(trial *t, const sw_dataset *set, int64_t *right, int64_t *rows)
{
    int64_t sum = 0, all = 0;
    SW_TRY(load_from(t, set, false));
    SW_TRY(sw_loader_epoch(t->loader, 0));
    for (;;) {
        double share;
        SW_TRY(sw_loader_next(t->loader, &t->args.inputs, &t->args.n_inputs));
        if (t->args.n_inputs == 0)
            break;
        SW_TRY(sw_run(t->exec, &t->args));
        SW_TRY(sw_metric_get(t->exec, "accuracy", &share));
        const int64_t n = t->args.inputs[0].shape.dim[0];
        sum += llround(share * (double)n);
        all += n;
    }
    *right = sum;
    *rows = all;
    return SW_OK;
}
