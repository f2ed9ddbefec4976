/* Nets of bits learn digits by evolution, on the public header alone: weights and activations
 * are bits, no gradient is made, and each direction of a generation has bits of its own.
 *
 *     train_binary_mnist [DIR|synthetic [mlp|conv [SECONDS [THREADS]]]]
 *
 * DIR has MNIST; without words digits that the library draws are learned for five seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <stepwell.h>

/* Of a generation; directions of a run; images that each evaluation reads. */
enum { DIRECTIONS = 512, SLICE = 64, ROWS = 16, IMAGE = 28 * 28 };
#define RATE 0.05f /* of the logits, which begin in -1 to 1; falls to a tenth */

typedef struct {
    int conv;
    sw_binary_linear fc[3];
    sw_binary_conv2d c[2];
} net;

/* Two hidden layers of 256; or two convolutions, the second pooled by OR. */
static void declare(net *n, sw_model *model)
{
    if (n->conv) {
        n->c[0] = sw_binary_conv2d_new(model, "c1", 1, 64, 4);
        n->c[0].stride = 2;
        n->c[1] = sw_binary_conv2d_new(model, "c2", 64, 64, 3);
        n->fc[0] = sw_binary_linear_new(model, "out", 64, 10, 5 * 5);
        return;
    }
    n->fc[0] = sw_binary_linear_new(model, "fc1", 784, 256, 1);
    n->fc[1] = sw_binary_linear_new(model, "fc2", 256, 256, 1);
    n->fc[2] = sw_binary_linear_new(model, "out", 256, 10, 1);
}

static sw_value forward(sw_ctx *c, const net *n, sw_value x)
{
    if (!n->conv) {
        x = sw_binarize(c, sw_flatten(c, x), 0.3f);
        x = sw_apply_binary_linear(c, n->fc[0], x, SW_BINARY_BITS);
        x = sw_apply_binary_linear(c, n->fc[1], x, SW_BINARY_BITS);
        return sw_apply_binary_linear(c, n->fc[2], x, SW_BINARY_SUMS);
    }
    x = sw_binarize(c, x, 0.3f);
    x = sw_apply_binary_conv2d(c, n->c[0], x, SW_BINARY_BITS); /* 13 x 13 */
    x = sw_apply_binary_conv2d(c, n->c[1], x, SW_BINARY_BITS); /* 11 x 11 */
    x = sw_binary_max_pool2d(c, x, 2, 2);                      /* 5 x 5 */
    return sw_apply_binary_linear(c, n->fc[0], x, SW_BINARY_SUMS);
}

/* Of all evaluations of a slice at once; in a test of the net whose bits are signs. */
static void step(sw_ctx *c, void *user)
{
    sw_value x = sw_to_f32(c, sw_input(c, 0), 1 / 255.0f, 0), labels = sw_input(c, 1);
    const sw_value y = forward(c, user, x);
    sw_metric(c, "loss", sw_softmax_ce(c, y, labels));
    sw_metric(c, "accuracy", sw_accuracy(c, y, labels));
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Share of the test set that is right, without noise. */
static int test(sw_exec *exec, sw_run_args run, sw_loader *loader, double *out)
{
    const sw_array *batch = NULL;
    double sum = 0, one = 0;
    int64_t n = 0;
    int fields = 0, bad = sw_loader_epoch(loader, 0);
    for (run.mode = SW_EVAL; !bad && n < sw_loader_batches(loader); n++) {
        bad = sw_loader_next(loader, &batch, &fields);
        run.inputs = batch;
        bad = bad || sw_run(exec, &run) || sw_metric_get(exec, "accuracy", &one);
        sum += one;
    }
    *out = sum / (double)n;
    return bad;
}

/* The next images of a loader, twice: both evaluations of a direction read the same. */
static int next_slice(sw_loader *loader, uint64_t *epoch, sw_array twice[2])
{
    static unsigned char x[2 * SLICE * ROWS * IMAGE], y[2 * SLICE * ROWS];
    const sw_array *batch = NULL;
    int n = 0, bad = sw_loader_next(loader, &batch, &n);
    if (!bad && n == 0)
        bad = sw_loader_epoch(loader, ++*epoch) || sw_loader_next(loader, &batch, &n);
    if (bad)
        return bad;
    memcpy(x, batch[0].data, sizeof x / 2), memcpy(x + sizeof x / 2, x, sizeof x / 2);
    memcpy(y, batch[1].data, sizeof y / 2), memcpy(y + sizeof y / 2, y, sizeof y / 2);
    twice[0] = batch[0], twice[1] = batch[1];
    twice[0].shape.dim[0] = twice[1].shape.dim[0] = 2 * SLICE * ROWS;
    twice[0].data = x, twice[1].data = y;
    return 0;
}

static int train(net *n, sw_dataset *data, sw_dataset *held_back, double limit, int threads)
{
    const sw_exec_opts how = SW_OPTS(sw_exec_opts, .threads = threads);
    const sw_loader_opts batches =
        SW_OPTS(sw_loader_opts, .batch = SLICE * ROWS, .shuffle = 1, .drop_last = 1);
    const sw_loader_opts tests = SW_OPTS(sw_loader_opts, .batch = 500);
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = RATE);
    const sw_es_opts strategy = SW_OPTS(sw_es_opts, .noise = "iid", .sigma = 0.1f,
                                        .directions = DIRECTIONS, .slice = SLICE, .seed = 1);
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_optimizer *opt = NULL;
    sw_es *es = NULL;
    sw_loader *loader = NULL, *test_loader = NULL;
    sw_array twice[2];
    sw_es_info info = SW_OPTS(sw_es_info);
    uint64_t epoch = 0;
    double share = 0;
    int bad = sw_exec_create(&exec, &how) || sw_model_create(&model, "bits");
    if (!bad)
        declare(n, model);
    bad = bad || sw_optimizer_create(&opt, model, &adam) || sw_es_create(&es, opt, &strategy) ||
          sw_model_ready(model, exec, 1) || sw_loader_create(&loader, data, &batches) ||
          sw_loader_create(&test_loader, held_back, &tests) || sw_loader_epoch(loader, 0);
    sw_run_args run = SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &model);
    run.n_models = 1, run.n_inputs = 2, run.inputs = twice;
    const double start = seconds();
    double now = 0, told = 0;
    while (!bad && now < limit) { /* the rate falls with the time */
        for (uint32_t s = 0; s < sw_es_slices(es) && !bad; s++)
            bad =
                next_slice(loader, &epoch, twice) || sw_es_evaluate(es, exec, &run, s, "loss");
        sw_knob_set(sw_optimizer_lr(opt, 0), RATE * (float)(1 - 0.9 * now / limit));
        bad = bad || sw_es_step(es, exec, &info);
        now = seconds() - start;
        if (bad || (now < told && now < limit))
            continue;
        bad = test(exec, run, test_loader, &share);
        printf("%6.1f s  generation %5llu  loss %.3f  right in %.2f %% of the test set\n", now,
               (unsigned long long)sw_es_generation(es), info.mean, 100 * share);
        fflush(stdout);
        told += limit / 12;
    }
    if (bad)
        fprintf(stderr, "%s\n", sw_last_error());
    sw_loader_destroy(loader), sw_loader_destroy(test_loader);
    sw_es_destroy(es), sw_model_destroy(model), sw_exec_destroy(exec);
    return bad;
}

int main(int argc, char **argv)
{
    net n = {.conv = argc > 2 && strcmp(argv[2], "conv") == 0};
    sw_dataset *data = NULL, *held_back = NULL;
    const int drawn = argc < 2 || strcmp(argv[1], "synthetic") == 0;
    int bad = drawn ? sw_dataset_synthetic(&data, 8192, 1) ||
                          sw_dataset_synthetic(&held_back, 1000, 2)
                    : sw_dataset_idx(&data, argv[1], "train") ||
                          sw_dataset_idx(&held_back, argv[1], "t10k");
    if (bad)
        fprintf(stderr, "%s\n", sw_last_error());
    bad = bad || train(&n, data, held_back,
                       argc > 3   ? atof(argv[3])
                       : argc > 1 ? 60
                                  : 5,
                       argc > 4 ? atoi(argv[4]) : 2);
    sw_dataset_destroy(data), sw_dataset_destroy(held_back);
    return bad;
}
