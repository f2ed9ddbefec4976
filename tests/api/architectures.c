/* Architectures as data: draw a net from a search space, train it, mutate it under a limit of
 * bytes, and let the child take over the weights. */
#include <stdio.h>
#include <stepwell.h>

static sw_exec *exec;
static sw_dataset *digits;

static int say(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

static void print_record(const sw_mutation_record *record, void *user)
{
    (void)user;
    printf("  %s%s\n", record->text, record->exact ? " (computes what it did)" : "");
}

/* May this genome be? Its peak is known without a byte of tensor memory. */
static int fits(const sw_genome *genome, void *limit)
{
    sw_price price = SW_OPTS(sw_price);
    if (sw_genome_price(genome, exec, NULL, SW_U8, &price) != SW_OK)
        return -1;
    return price.peak_bytes <= *(const size_t *)limit;
}

/* Train for some steps; *first and *last receive the mean loss of the first and last ten. */
static int train(sw_net *net, int64_t batch, int steps, double *first, double *last)
{
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = batch, .shuffle = 1, .drop_last = 1, .inline_fill = 1);
    sw_loader *loader = NULL;
    sw_model *model = sw_net_model(net);
    sw_run_args args = SW_OPTS(sw_run_args, .fn = sw_net_step, .user = net, .models = &model,
                               .n_models = 1, .mode = SW_TRAIN);
    int bad = sw_loader_create(&loader, digits, &opts) || sw_loader_epoch(loader, 0);
    uint64_t epoch = 0;
    *first = *last = 0;
    for (int i = 0; i < steps && !bad; i++) {
        double loss = 0;
        bad = sw_loader_next(loader, &args.inputs, &args.n_inputs);
        if (!bad && args.n_inputs == 0) /* the end of an epoch */
            bad = sw_loader_epoch(loader, ++epoch) ||
                  sw_loader_next(loader, &args.inputs, &args.n_inputs);
        args.step = (uint64_t)i;
        bad = bad || sw_run(exec, &args) || sw_metric_get(exec, "loss", &loss);
        *first += i < 10 ? loss / 10 : 0;
        *last += i >= steps - 10 ? loss / 10 : 0;
    }
    sw_loader_destroy(loader);
    return bad;
}

int main(void)
{
    const sw_task task =
        SW_OPTS(sw_task, .channels = 1, .height = 28, .width = 28, .classes = 10);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts);
    sw_search_space *space = NULL;
    sw_genome *parent = NULL, *child = NULL;
    sw_net *old = NULL, *young = NULL;
    sw_price price = SW_OPTS(sw_price);
    sw_genome_info info = SW_OPTS(sw_genome_info);
    double first, last, again, end;
    if (sw_exec_create(&exec, &opts) || sw_dataset_synthetic(&digits, 2000, 1) ||
        sw_search_space_default(&space, &task) || sw_genome_draw(&parent, space, &task, 3) ||
        sw_genome_describe(parent, &info) || sw_genome_price(parent, exec, NULL, SW_U8, &price))
        return say("draw");
    printf("%u vertices, %llu parameters: a step takes %zu bytes\n", info.n_vertices,
           (unsigned long long)price.parameters, price.peak_bytes);
    if (sw_net_create(&old, parent, NULL) || sw_net_ready(old, exec, 1) ||
        train(old, info.batch, 60, &first, &last))
        return say("train");
    printf("loss %.3f, after 60 steps %.3f\n", first, last);

    size_t limit = price.peak_bytes * 3 / 2;
    const sw_mutate_opts how = SW_OPTS(sw_mutate_opts, .seed = 1, .space = space, .fits = fits,
                                       .fits_user = &limit, .record = print_record);
    if (sw_genome_mutate(&child, parent, &how) || sw_genome_describe(child, &info) ||
        sw_genome_price(child, exec, NULL, SW_U8, &price))
        return say("mutate");
    printf("the child: %u vertices, %llu parameters: a step takes %zu bytes\n", info.n_vertices,
           (unsigned long long)price.parameters, price.peak_bytes);
    if (sw_net_create(&young, child, NULL) || sw_net_ready(young, exec, 2) ||
        sw_net_inherit(young, old, NULL, 2) || train(young, info.batch, 60, &again, &end))
        return say("inherit");
    sw_run_info run = SW_OPTS(sw_run_info);
    if (sw_last_run(exec, &run))
        return say("look");
    printf("loss %.3f, after 60 steps %.3f; a step took %zu bytes\n", again, end,
           run.peak_bytes);
    const int good =
        end < first && run.peak_bytes == price.peak_bytes && price.peak_bytes <= limit;
    sw_net_destroy(young);
    sw_net_destroy(old);
    sw_genome_destroy(child);
    sw_genome_destroy(parent);
    sw_search_space_destroy(space);
    sw_dataset_destroy(digits);
    sw_exec_destroy(exec);
    return !good;
}
