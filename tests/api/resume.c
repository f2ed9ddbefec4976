/* A training that goes on where it stopped: the program trains 40 steps at a time and saves on
 * the way; begun again it goes on from its newest checkpoint. At the end the parameters are
 * those of one training of 120 steps, bit for bit. */
#include <stdio.h>
#include <stdlib.h>
#include <stepwell.h>
#include <string.h>
#include <unistd.h>

#define TRY(call)                                                                              \
    do {                                                                                       \
        const sw_status status = (call);                                                       \
        if (status == SW_UNSUPPORTED) {                                                        \
            printf("skipped: %s\n", sw_last_error());                                          \
            exit(77);                                                                          \
        }                                                                                      \
        if (status != SW_OK) {                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, sw_last_error());               \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

enum { IN = 784, HIDDEN = 32, OUT = 10, ALL = 120 };

typedef struct {
    sw_linear fc1, fc2;
    sw_optimizer *adam;
} net;

static void step(sw_ctx *c, void *user)
{
    net *n = user;
    sw_value x = sw_flatten(c, sw_to_f32(c, sw_input(c, 0), 1.0f / 255, 0));
    x = sw_dropout(c, sw_relu(c, sw_apply_linear(c, n->fc1, x)), 0.2f);
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, n->fc2, x), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &n->adam, 1);
    sw_update(c, n->adam);
}

/* As a process of its own would: everything is made, up to `until` steps are trained, and the
 * last parameters are left in `out`. path NULL: no checkpoints. */
static void train(const char *path, uint64_t until, float out[OUT * HIDDEN])
{
    sw_exec *exec;
    sw_model *model;
    net n = {{{NULL, 0}, {NULL, 0}, {0}}, {{NULL, 0}, {NULL, 0}, {0}}, NULL};
    sw_dataset *data;
    sw_loader *loader;
    sw_checkpoint *saved = NULL;
    TRY(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = 2, .seed = 3)));
    TRY(sw_model_create(&model, "digits"));
    n.fc1 = sw_linear_new(model, "fc1", IN, HIDDEN);
    n.fc2 = sw_linear_new(model, "fc2", HIDDEN, OUT);
    TRY(sw_optimizer_create(&n.adam, model, &SW_OPTS(sw_optimizer_opts, .kind = "adam")));
    TRY(sw_model_ready(model, exec, 1));
    TRY(sw_dataset_synthetic(&data, 500, 1));
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 32, .seed = 5, .shuffle = 1);
    TRY(sw_loader_create(&loader, data, &opts));
    TRY(sw_loader_epoch(loader, 0));

    uint64_t at = 0, epoch = 0;
    if (path != NULL) {
        const sw_checkpoint_opts saving =
            SW_OPTS(sw_checkpoint_opts, .path = path, .models = &model, .n_models = 1);
        sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
        TRY(sw_checkpoint_create(&saved, exec, &saving));
        TRY(sw_checkpoint_loader(saved, loader));
        TRY(sw_checkpoint_find(saved, NULL, &found));
        if (found.found) {
            TRY(sw_checkpoint_load(saved));
            TRY(sw_loader_position(loader, &epoch, NULL));
            at = found.step;
            printf("goes on after step %llu\n", (unsigned long long)at);
        }
    }
    sw_run_args run =
        SW_OPTS(sw_run_args, .fn = step, .user = &n, .models = &model, .n_models = 1);
    while (at < until) {
        TRY(sw_loader_next(loader, &run.inputs, &run.n_inputs));
        if (run.n_inputs == 0) {
            TRY(sw_loader_epoch(loader, ++epoch));
            continue;
        }
        run.step = at++;
        TRY(sw_run(exec, &run));
        if (saved != NULL && at % 10 == 0) { /* written while the next steps run */
            TRY(sw_checkpoint_wait(saved));
            TRY(sw_checkpoint_take(saved, at));
            TRY(sw_checkpoint_write(saved));
        }
    }
    if (saved != NULL)
        TRY(sw_checkpoint_wait(saved));
    TRY(sw_param_read(n.fc2.weight, out, OUT * HIDDEN * sizeof *out));
    sw_checkpoint_destroy(saved);
    sw_loader_destroy(loader);
    sw_dataset_destroy(data);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
}

int main(void)
{
    static float whole[OUT * HIDDEN], parts[OUT * HIDDEN];
    const char *folder = getenv("TMPDIR");
    char path[1024], older[1040];
    snprintf(path, sizeof path, "%s/resume.%ld.checkpoint", folder != NULL ? folder : "/tmp",
             (long)getpid());
    snprintf(older, sizeof older, "%s.1", path);
    train(NULL, ALL, whole);
    for (uint64_t until = 40; until <= ALL; until += 40)
        train(path, until, parts);
    remove(path);
    remove(older);
    if (memcmp(whole, parts, sizeof whole) != 0) {
        fprintf(stderr, "the parameters differ\n");
        return 1;
    }
    printf("the same parameters, bit for bit\n");
    return 0;
}
