/* LeNet5 on the built-in digits: trains, evaluates on digits that it has not seen. */
#include "check.h"
#include <stdio.h>
#include <stepwell.h>

typedef struct {
    sw_conv2d c1, c2;
    sw_linear f1, f2, f3;
    sw_optimizer *opt;
} lenet;

static void lenet_step(sw_ctx *c, void *u)
{
    lenet *m = u;
    sw_value x = sw_to_f32(c, sw_input(c, 0), 1.0f / 255.0f, 0.0f), y = sw_input(c, 1);
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, m->c1, x)), 2);
    x = sw_max_pool(c, sw_relu(c, sw_apply_conv2d(c, m->c2, x)), 2);
    x = sw_relu(c, sw_apply_linear(c, m->f1, sw_flatten(c, x)));
    x = sw_apply_linear(c, m->f3, sw_relu(c, sw_apply_linear(c, m->f2, x)));
    sw_value loss = sw_softmax_ce(c, x, y);
    sw_metric(c, "loss", loss);
    sw_metric(c, "accuracy", sw_accuracy(c, x, y));
    if (sw_ctx_mode(c) == SW_TRAIN) {
        sw_backward(c, loss, &m->opt, 1);
        sw_update(c, m->opt);
    }
}

/* One pass over a dataset; *loss and *accuracy are the mean of the batches. */
static int pass(sw_exec *e, sw_run_args *a, sw_loader *loader, uint64_t epoch, double *loss,
                double *accuracy)
{
    int n = 0;
    *loss = *accuracy = 0;
    TRY(sw_loader_epoch(loader, epoch));
    for (;;) {
        double l, p;
        TRY(sw_loader_next(loader, &a->inputs, &a->n_inputs));
        if (a->n_inputs == 0)
            break;
        TRY(sw_run(e, a));
        TRY(sw_metric_get(e, "loss", &l));
        TRY(sw_metric_get(e, "accuracy", &p));
        *loss += l;
        *accuracy += p;
        a->step++;
        n++;
    }
    CHECK(n == 20 || n == 3);
    *loss /= n;
    *accuracy /= n;
    return 0;
}

int main(void)
{
    sw_exec *e;
    sw_model *m;
    sw_dataset *digits, *unseen;
    sw_loader *train, *test;
    TRY(sw_exec_create(&e, &SW_OPTS(sw_exec_opts, .threads = 2, .seed = 1)));
    TRY(sw_model_create(&m, "lenet5"));
    lenet l = {sw_conv2d_new(m, "c1", 1, 6, 5),  sw_conv2d_new(m, "c2", 6, 16, 5),
               sw_linear_new(m, "f1", 256, 120), sw_linear_new(m, "f2", 120, 84),
               sw_linear_new(m, "f3", 84, 10),   NULL};
    TRY(sw_optimizer_create(&l.opt, m,
                            &SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 2e-3f)));
    TRY(sw_dataset_synthetic(&digits, 1280, 1));
    TRY(sw_dataset_synthetic(&unseen, 160, 2));
    TRY(sw_loader_create(&train, digits,
                         &SW_OPTS(sw_loader_opts, .batch = 64, .seed = 1, .shuffle = 1)));
    /* 64, 64 and a last batch of 32, which has a program of its own. */
    TRY(sw_loader_create(&test, unseen, &SW_OPTS(sw_loader_opts, .batch = 64)));

    sw_run_args a = SW_OPTS(sw_run_args, .fn = lenet_step, .user = &l, .models = &m,
                            .n_models = 1, .mode = SW_TRAIN);
    double first, last = 0, accuracy;
    if (pass(e, &a, train, 0, &first, &accuracy) != 0)
        return 1;
    for (uint64_t epoch = 1; epoch < 4; epoch++)
        if (pass(e, &a, train, epoch, &last, &accuracy) != 0)
            return 1;
    CHECK(last < 0.6 * first);
    double loss;
    a.mode = SW_EVAL;
    if (pass(e, &a, test, 0, &loss, &accuracy) != 0)
        return 1;
    printf("training loss %.3f, then %.3f; unseen digits: loss %.3f, accuracy %.2f\n", first,
           last, loss, accuracy);
    CHECK(loss < first && accuracy > 0.5);
    sw_loader_destroy(train);
    sw_loader_destroy(test);
    sw_dataset_destroy(digits);
    sw_dataset_destroy(unseen);
    sw_model_destroy(m);
    sw_exec_destroy(e);
    return 0;
}
