/* The stepwell side of compare_optim.py: an mlp of odd sizes with a convolution's weight, ten
 * steps of one optimizer.
 *
 *   optim_peer DIR KIND [NAME=NUMBER ...]   writes init.safetensors, batches.bin (float32, x
 * and t of each step) and after.safetensors to DIR. Names: lr, decay, momentum, nesterov,
 * beta1, beta2, epsilon, alpha, centered, accumulator, group (1: the biases have their own
 * rate, a tenth, and no decay) */
#include "peer.h"
#include <math.h>
#include <string.h>

enum { BATCH = 23, SIDE = 9, CHANNELS = 5, KERNEL = 3, HIDDEN = 37, OUT = 11, STEPS = 10 };

typedef struct {
    sw_conv2d conv;
    sw_linear fc1, fc2;
    sw_optimizer *optimizer;
} net;

static void step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_value x = sw_tanh(ctx, sw_apply_conv2d(ctx, n->conv, sw_input(ctx, 0)));
    x = sw_tanh(ctx, sw_apply_linear(ctx, n->fc1, sw_flatten(ctx, x)));
    const sw_value loss = sw_mse(ctx, sw_apply_linear(ctx, n->fc2, x), sw_input(ctx, 1));
    sw_backward(ctx, loss, &n->optimizer, 1);
    sw_update(ctx, n->optimizer);
}

static void read_option(sw_optimizer_opts *o, int *group, const char *text)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    const float x = equals != NULL ? strtof(equals + 1, NULL) : 0.0f;
    const struct {
        const char *name;
        float *real;
        int *flag;
    } names[] = {{"lr", &o->lr, NULL},
                 {"decay", &o->weight_decay, NULL},
                 {"momentum", &o->momentum, NULL},
                 {"nesterov", NULL, &o->nesterov},
                 {"beta1", &o->beta1, NULL},
                 {"beta2", &o->beta2, NULL},
                 {"epsilon", &o->epsilon, NULL},
                 {"alpha", &o->alpha, NULL},
                 {"centered", NULL, &o->centered},
                 {"accumulator", &o->initial_accumulator, NULL},
                 {"group", NULL, group}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == length && strncmp(names[i].name, text, length) == 0) {
            if (names[i].real != NULL)
                *names[i].real = x;
            else
                *names[i].flag = (int)x;
            return;
        }
    fprintf(stderr, "unknown option %s\n", text);
    exit(2);
}

static FILE *create(const char *dir, const char *name, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

int main(int argc, char **argv)
{
    static float x[BATCH * SIDE * SIDE], t[BATCH * OUT];
    char path[4096];
    int group = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: optim_peer DIR KIND [NAME=NUMBER ...]\n");
        return 2;
    }
    sw_optimizer_opts opts = {.size = sizeof opts, .kind = argv[2]};
    for (int i = 3; i < argc; i++)
        read_option(&opts, &group, argv[i]);
    sw_exec *exec;
    sw_model *model;
    net n;
    CHECK(sw_exec_create(&exec, &(sw_exec_opts){.size = sizeof(sw_exec_opts), .threads = 2}));
    CHECK(sw_model_create(&model, "net"));
    const int inner = SIDE - KERNEL + 1;
    n.conv = sw_conv2d_new(model, "conv", 1, CHANNELS, KERNEL);
    n.fc1 = sw_linear_new(model, "fc1", CHANNELS * inner * inner, HIDDEN);
    n.fc2 = sw_linear_new(model, "fc2", HIDDEN, OUT);
    const sw_param weights[] = {n.conv.weight, n.fc1.weight, n.fc2.weight},
                   biases[] = {n.conv.bias, n.fc1.bias, n.fc2.bias};
    const sw_param_group groups[] = {
        {.params = weights, .n_params = 3, .weight_decay = opts.weight_decay},
        {.params = biases, .n_params = 3, .lr = opts.lr / 10}};
    if (group) {
        opts.groups = groups;
        opts.n_groups = 2;
    }
    CHECK(sw_optimizer_create(&n.optimizer, model, &opts));
    CHECK(sw_model_ready(model, exec, 5));
    snprintf(path, sizeof path, "%s/init.safetensors", argv[1]);
    CHECK(sw_model_save(model, path));
    FILE *batches = create(argv[1], "batches.bin", path, sizeof path);
    const sw_array in[] = {{SW_F32, SW_SHAPE(BATCH, 1, SIDE, SIDE), x},
                           {SW_F32, SW_SHAPE(BATCH, OUT), t}};
    for (int k = 0; k < STEPS; k++) {
        for (int i = 0; i < BATCH * SIDE * SIDE; i++)
            x[i] = sinf((float)(i * 7 + k * 31) * 0.37f);
        for (int i = 0; i < BATCH * OUT; i++)
            t[i] = cosf((float)(i * 3 + k * 17) * 0.53f);
        fwrite(x, sizeof x, 1, batches);
        fwrite(t, sizeof t, 1, batches);
        CHECK(sw_run(exec, &(sw_run_args){.size = sizeof(sw_run_args),
                                          .fn = step,
                                          .user = &n,
                                          .models = &model,
                                          .n_models = 1,
                                          .inputs = in,
                                          .n_inputs = 2}));
    }
    snprintf(path, sizeof path, "%s/after.safetensors", argv[1]);
    CHECK(sw_model_save(model, path));
    const int failed = fclose(batches) != 0;
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return failed;
}
