/* One training over several processes, on the public header alone: the same bits for any number
 * of them.
 *
 *     mpirun -n 4 train_ranks
 *
 * A step is eight shards of 16 digits, which the library draws; each process runs its part of
 * them. */
#include <stdio.h>
#include <stdint.h>
#include <stepwell.h>

enum { SHARDS = 8, ROWS = 16, STEPS = 60, DIGITS = 3000 };

typedef struct {
    sw_model *model;
    sw_linear hidden, out;
    sw_optimizer *optimizer;
    int last; /* of the shards that this process runs in a step */
} net;

static void step(sw_ctx *c, void *user)
{
    net *n = user;
    sw_value x = sw_flatten(c, sw_to_f32(c, sw_input(c, 0), 1 / 255.0f, 0));
    x = sw_relu(c, sw_apply_linear(c, n->hidden, x));
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, n->out, x), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &n->optimizer, 1);
    if (n->last)
        sw_update(c, n->optimizer);
    else
        sw_accumulate(c, n->optimizer);
}

/* Losses of the step's shards, in their order, of all ranks. */
static sw_status mean_loss(sw_ranks *ranks, const double *own, double *mean)
{
    double all[SHARDS];
    *mean = 0;
    if (sw_ranks_gather(ranks, own, sizeof *own * SHARDS / (size_t)sw_ranks_size(ranks), all))
        return SW_IO;
    for (int s = 0; s < SHARDS; s++)
        *mean += all[s] / SHARDS;
    return SW_OK;
}

static sw_status train(net *n, sw_exec *exec, sw_loader *loader, sw_ranks *ranks)
{
    const int here = SHARDS / sw_ranks_size(ranks), first = sw_ranks_rank(ranks) * here;
    double own[SHARDS] = {0}, loss = 0;
    sw_run_args run = SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model,
                              .n_models = 1, .mode = SW_TRAIN);
    uint64_t epoch = 0;
    if (sw_loader_epoch(loader, epoch))
        return SW_INVALID;
    for (run.step = 0; run.step < STEPS; run.step++) {
        for (int s = 0; s < here; s++) {
            if (sw_loader_next(loader, &run.inputs, &run.n_inputs))
                return SW_IO;
            if (run.n_inputs == 0 && (sw_loader_epoch(loader, ++epoch) ||
                                      sw_loader_next(loader, &run.inputs, &run.n_inputs)))
                return SW_IO;
            n->last = s + 1 == here;
            run.variant = (uint64_t)n->last; /* two programs */
            run.run = (uint32_t)(first + s); /* of the step */
            if (sw_run(exec, &run) || sw_metric_get(exec, "loss", &own[s]))
                return SW_IO;
        }
        if (mean_loss(ranks, own, &loss))
            return SW_IO;
        if (run.step % 20 == 19 && sw_ranks_rank(ranks) == 0)
            printf("step %d: loss %.17g\n", (int)run.step + 1, loss);
    }
    return SW_OK;
}

/* All bits of the first layer. */
static uint64_t sum_of(const net *n)
{
    static uint32_t bits[64 * 784];
    uint64_t sum = 0;
    if (sw_param_read(n->hidden.weight, bits, sizeof bits))
        return 0;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        sum = sum * 31 + bits[i];
    return sum;
}

static sw_status make_and_train(sw_ranks *ranks)
{
    net n = {0};
    sw_exec *exec = NULL;
    sw_dataset *digits = NULL;
    sw_loader *loader = NULL;
    const uint32_t here = SHARDS / (uint32_t)sw_ranks_size(ranks);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .ranks = ranks, .shards = SHARDS);
    const sw_optimizer_opts adam =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .shards = here, .update = SW_UPDATE_RELEASE);
    const sw_loader_opts part =
        SW_OPTS(sw_loader_opts, .batch = ROWS, .shuffle = 1, .seed = 1, .drop_last = 1,
                .of = SHARDS, .first = here * (uint32_t)sw_ranks_rank(ranks), .share = here);
    sw_status status = sw_model_create(&n.model, "net");
    if (status == SW_OK) {
        n.hidden = sw_linear_new(n.model, "hidden", 784, 64);
        n.out = sw_linear_new(n.model, "out", 64, 10);
        status = sw_optimizer_create(&n.optimizer, n.model, &adam);
    }
    status = status ? status : sw_exec_create(&exec, &opts);
    status = status ? status : sw_model_ready(n.model, exec, 1); /* the same on all ranks */
    status = status ? status : sw_dataset_synthetic(&digits, DIGITS, 1);
    status = status ? status : sw_loader_create(&loader, digits, &part);
    status = status ? status : train(&n, exec, loader, ranks);
    if (status == SW_OK && sw_ranks_rank(ranks) == 0)
        printf("%d ranks: parameters %016llx\n", sw_ranks_size(ranks),
               (unsigned long long)sum_of(&n));
    sw_loader_destroy(loader);
    sw_dataset_destroy(digits);
    sw_exec_destroy(exec);
    sw_model_destroy(n.model);
    return status;
}

int main(void)
{
    sw_ranks *ranks;
    sw_status status = sw_ranks_open(&ranks, 0.0);
    if (status == SW_OK) {
        status = make_and_train(ranks);
        if (status != SW_OK) {
            fprintf(stderr, "rank %d: %s\n", sw_ranks_rank(ranks), sw_last_error());
            sw_ranks_abort(ranks, 1);
        }
        sw_ranks_close(ranks);
    } else {
        fprintf(stderr, "%s\n", sw_last_error());
    }
    return status == SW_OK ? 0 : 1;
}
