/* A perceptron on noisy spirals, drawn here: a cosine schedule with warm-up, gradients clipped
 * by their global norm, and the memory of a step printed before the first one runs.
 *
 * cc mlp.c $(pkg-config --cflags --libs stepwell) */
#include <math.h>
#include <stdio.h>
#include <stepwell.h>

enum { ROWS = 256, ARMS = 3, STEPS = 600 };

typedef struct {
    sw_linear layer[3];
    sw_optimizer *adamw;
    sw_knob max_norm;
} mlp;

static void step(sw_ctx *ctx, void *user)
{
    mlp *net = user;
    sw_value x = sw_input(ctx, 0), labels = sw_input(ctx, 1);
    x = sw_tanh(ctx, sw_apply_linear(ctx, net->layer[0], x));
    x = sw_tanh(ctx, sw_apply_linear(ctx, net->layer[1], x));
    x = sw_apply_linear(ctx, net->layer[2], x);
    sw_value loss = sw_softmax_ce(ctx, x, labels);
    sw_metric(ctx, "loss", loss);
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, labels));
    sw_backward(ctx, loss, &net->adamw, 1);
    sw_clip_norm(ctx, net->adamw, net->max_norm);
    sw_update(ctx, net->adamw);
}

/* A number in 0..1, the same on every machine. */
static double draw(void)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / 16777216.0;
}

static void spirals(float x[ROWS][2], unsigned char *labels)
{
    for (int i = 0; i < ROWS; i++) {
        const int arm = i % ARMS;
        const double radius = 0.1 + 0.9 * draw();
        const double angle = 4.0 * radius + 6.283185307 * arm / ARMS + 0.2 * (draw() - 0.5);
        x[i][0] = (float)(radius * cos(angle));
        x[i][1] = (float)(radius * sin(angle));
        labels[i] = (unsigned char)arm;
    }
}

static sw_status declare(mlp *net, sw_model *model)
{
    net->layer[0] = sw_linear_new(model, "layer0", 2, 64);
    net->layer[1] = sw_linear_new(model, "layer1", 64, 64);
    net->layer[2] = sw_linear_new(model, "layer2", 64, ARMS);
    net->max_norm = sw_knob_new(model, "max_norm", 1.0f);
    return sw_optimizer_create(
        &net->adamw, model,
        &SW_OPTS(sw_optimizer_opts, .kind = "adamw", .lr = 0.01f, .weight_decay = 0.001f));
}

static sw_status print_plan(sw_exec *exec, const sw_run_args *args)
{
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    SW_TRY(sw_plan(exec, args, &plan));
    for (int i = 0; i < SW_PHASES; i++)
        printf("%-9s peak %7zu bytes, %7zu at its end\n", sw_phase_name((sw_phase)i),
               plan.phase[i].peak_bytes, plan.phase[i].end_bytes);
    return SW_OK;
}

static sw_status train(void)
{
    static float x[ROWS][2];
    static unsigned char labels[ROWS];
    sw_exec *exec;
    sw_model *model;
    mlp net;
    double loss = 0, accuracy = 0;
    SW_TRY(sw_exec_create(&exec, NULL));
    SW_TRY(sw_model_create(&model, "spirals"));
    SW_TRY(declare(&net, model));

    const sw_array batch[] = {{SW_F32, SW_SHAPE(ROWS, 2), x}, {SW_U8, SW_SHAPE(ROWS), labels}};
    sw_run_args args = SW_OPTS(sw_run_args, .fn = step, .user = &net, .models = &model,
                               .n_models = 1, .inputs = batch, .n_inputs = 2, .mode = SW_TRAIN);
    SW_TRY(print_plan(exec, &args));

    SW_TRY(sw_model_ready(model, exec, 1));
    const sw_schedule cosine = SW_OPTS(sw_schedule, .kind = "cosine", .base = 0.01f,
                                       .warmup_steps = 50, .total_steps = STEPS);
    for (; args.step < STEPS; args.step++) {
        float rate;
        SW_TRY(sw_schedule_at(&cosine, args.step, &rate));
        sw_knob_set(sw_optimizer_lr(net.adamw, 0), rate);
        spirals(x, labels);
        SW_TRY(sw_run(exec, &args));
    }
    SW_TRY(sw_metric_get(exec, "loss", &loss));
    SW_TRY(sw_metric_get(exec, "accuracy", &accuracy));
    printf("loss %.4f, accuracy %.2f %%\n", loss, 100 * accuracy);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return SW_OK;
}

int main(void)
{
    if (train() == SW_OK)
        return 0;
    fprintf(stderr, "mlp: %s\n", sw_last_error());
    return 1;
}
