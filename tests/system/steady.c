/* steady STEPS PROFILE [heap|system|data|malloc|pages]: LeNet5 through the public header, with
 * loaders, last partial batches, evaluation and a profile. After one epoch of everything it
 * runs STEPS steps and prints how many calls of the heap they made, in any thread. Two calls of
 * getppid, which nothing else makes, mark the beginning and the end for whoever counts system
 * calls. With a last word it makes such calls on purpose, or takes what it never gives back. */
#include "runtime/stepwell.h"
#include "tests/system/heap_watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    sw_conv2d conv1, conv2;
    sw_linear fc1, fc2, fc3;
    sw_optimizer *adam;
} lenet5;

static void step(sw_ctx *ctx, void *user)
{
    lenet5 *net = user;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1 / 255.0f, 0), labels = sw_input(ctx, 1);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, net->conv1, x)), 2);
    x = sw_max_pool(ctx, sw_relu(ctx, sw_apply_conv2d(ctx, net->conv2, x)), 2);
    x = sw_relu(ctx, sw_apply_linear(ctx, net->fc1, sw_flatten(ctx, x)));
    x = sw_relu(ctx, sw_apply_linear(ctx, net->fc2, x));
    x = sw_apply_linear(ctx, net->fc3, x);
    sw_value loss = sw_softmax_ce(ctx, x, labels);
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, labels));
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        sw_backward(ctx, loss, &net->adam, 1);
        sw_update(ctx, net->adam);
    }
}

typedef struct {
    sw_exec *exec;
    sw_loader *train, *test;
    sw_run_args args;
    uint64_t epoch, steps; /* steps: training ones */
    uint64_t allocations;  /* as the library counts them */
    const char *plant;
} session;

/* One of the faults that the watchers must see. */
/* The system and malloc are asked ten times a second at most: a fast machine must not be done
 * before growth is seen. */
static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
}

static void plant(const session *s)
{
    if (strcmp(s->plant, "heap") == 0) {
        char *copy = strdup("allocates inside the C library");
        free(copy);
    } else if (strcmp(s->plant, "system") == 0) {
        void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        (void)munmap(page, 4096);
    } else if (strcmp(s->plant, "data") == 0) {
        sw_dataset *kept;
        (void)!sw_dataset_synthetic(&kept, 5, 1);
    } else if (strcmp(s->plant, "malloc") == 0) {
        char *volatile kept = malloc(20000);
        kept[0] = 1;
        nap();
    } else if (strcmp(s->plant, "pages") == 0) {
        char *page =
            mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; page != MAP_FAILED && i < 16384; i += 4096)
            page[i] = 1;
        nap();
    }
}

/* One epoch of a loader, at most `most` steps. */
static sw_status pass(session *s, sw_loader *loader, sw_mode mode, uint64_t most)
{
    double loss;
    sw_run_info info = {sizeof info};
    s->args.mode = mode;
    SW_TRY(sw_loader_epoch(loader, s->epoch));
    for (uint64_t i = 0; i < most; i++) {
        SW_TRY(sw_loader_next(loader, &s->args.inputs, &s->args.n_inputs));
        if (s->args.n_inputs == 0)
            break;
        SW_TRY(sw_run(s->exec, &s->args));
        SW_TRY(sw_metric_get(s->exec, "loss", &loss));
        SW_TRY(sw_last_run(s->exec, &info));
        s->allocations += info.allocations;
        if (mode == SW_TRAIN) {
            s->args.step++;
            s->steps++;
        }
        plant(s);
    }
    return SW_OK;
}

static sw_status epochs(session *s, uint64_t steps)
{
    for (s->steps = 0; s->steps < steps; s->epoch++) {
        SW_TRY(pass(s, s->train, SW_TRAIN, steps - s->steps));
        SW_TRY(pass(s, s->test, SW_EVAL, UINT64_MAX));
    }
    return SW_OK;
}

static sw_status measure(session *s, uint64_t steps)
{
    const char *planted = s->plant;
    s->plant = "";
    SW_TRY(epochs(s, (uint64_t)sw_loader_batches(s->train)));
    SW_TRY(epochs(s, 1)); /* an epoch that is left in its middle */
    s->plant = planted;
    s->allocations = 0;
    (void)syscall(SYS_getppid);
    heap_watch_begin();
    const sw_status status = epochs(s, steps);
    const uint64_t calls = heap_watch_end();
    (void)syscall(SYS_getppid);
    printf("steps %llu heap_calls %llu first %p allocations %llu\n",
           (unsigned long long)s->steps, (unsigned long long)calls, heap_watch_first(),
           (unsigned long long)s->allocations);
    return status;
}

static sw_status train(uint64_t steps, const char *path, const char *planted)
{
    session s = {.plant = planted};
    sw_profile *profile;
    sw_dataset *images, *unseen;
    sw_model *model;
    SW_TRY(
        sw_profile_create(&profile, &(sw_profile_opts){sizeof(sw_profile_opts), .path = path}));
    SW_TRY(sw_dataset_synthetic(&images, 500, 1)); /* 15 batches of 32 and one of 20 */
    SW_TRY(sw_dataset_synthetic(&unseen, 40, 2));
    SW_TRY(sw_exec_create(
        &s.exec, &(sw_exec_opts){sizeof(sw_exec_opts), .threads = 2, .profile = profile}));
    SW_TRY(sw_model_create(&model, "lenet5"));
    lenet5 net = {
        sw_conv2d_new(model, "conv1", 1, 6, 5), sw_conv2d_new(model, "conv2", 6, 16, 5),
        sw_linear_new(model, "fc1", 256, 120),  sw_linear_new(model, "fc2", 120, 84),
        sw_linear_new(model, "fc3", 84, 10),    NULL};
    SW_TRY(sw_optimizer_create(
        &net.adam, model, &(sw_optimizer_opts){sizeof(sw_optimizer_opts), .kind = "adam"}));
    SW_TRY(sw_model_ready(model, s.exec, 1));
    const sw_loader_opts loader = {sizeof loader, .batch = 32, .shuffle = 1};
    SW_TRY(sw_loader_create(&s.train, images, &loader));
    SW_TRY(sw_loader_create(&s.test, unseen, &loader));
    s.args = (sw_run_args){sizeof s.args, step, &net, &model, 1};
    SW_TRY(measure(&s, steps));
    sw_loader_destroy(s.test);
    sw_loader_destroy(s.train);
    sw_model_destroy(model);
    sw_exec_destroy(s.exec);
    sw_dataset_destroy(unseen);
    sw_dataset_destroy(images);
    return sw_profile_destroy(profile);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (train(strtoull(argv[1], NULL, 10), argv[2], argc > 3 ? argv[3] : "") == SW_OK)
        return 0;
    fprintf(stderr, "steady: %s\n", sw_last_error());
    return 1;
}
