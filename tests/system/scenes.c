/* See scenes.h. */
#include "tests/system/scenes.h"
#include "tests/support/suite.h"

static void drop(void *arg)
{
    scene *s = arg;
    if (s->exec != NULL)
        scene_close(s);
    free(s);
}

scene *scene_open(const char *path, sw_profile_opts profile)
{
    scene *s = calloc(1, sizeof *s);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    sw_after(drop, s);
    profile.size = sizeof profile;
    profile.path = path;
    profile.model = "scene";
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&s->profile, &profile), SW_OK);
    scene_exec(s, (sw_exec_opts){0});
    return s;
}

void scene_exec(scene *s, sw_exec_opts exec)
{
    sw_exec_destroy(s->exec);
    exec.size = sizeof exec;
    exec.profile = s->profile;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&s->exec, &exec), SW_OK);
}

void scene_close(scene *s)
{
    sw_exec_destroy(s->exec);
    SW_CHECK(sw_profile_destroy(s->profile) == SW_OK, "%s", sw_last_error());
    s->exec = NULL;
    s->profile = NULL;
}

/* `user` says what the step makes: other contents at the same place are another variant. */
static void run(scene *s, sw_step_fn *fn, void *user, uint64_t variant, sw_model *model,
                const sw_array *input, sw_mode mode)
{
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = fn, .user = user, .models = &model,
                .n_models = model != NULL, .inputs = input, .n_inputs = input != NULL,
                .mode = mode, .variant = variant, .immediate = s->immediate, .step = s->step);
    SW_CHECK(sw_run(s->exec, &args) == SW_OK, "%s", sw_last_error());
    s->step += mode == SW_TRAIN;
}

static void phases_step(sw_ctx *ctx, void *user)
{
    const phases_scene *s = user;
    for (int i = 0; i < SW_PHASES; i++) {
        const char *name = sw_textf("sum%d", i);
        sw_set_phase(ctx, (sw_phase)i);
        sw_metric(ctx, name, sw_sum(ctx, sw_randn(ctx, "x", SW_SHAPE(s->n[i])), 0));
    }
}

static uint64_t mix(uint64_t hash, int64_t x)
{
    return (hash ^ (uint64_t)x) * 0x100000001b3u;
}

void scene_phases(scene *s, const phases_scene *what)
{
    uint64_t variant = 1;
    for (int i = 0; i < SW_PHASES; i++)
        variant = mix(variant, what->n[i]);
    phases_scene copy = *what;
    run(s, phases_step, &copy, variant, NULL, NULL, SW_TRAIN);
}

typedef struct {
    const layer_scene *layer;
    int n;
} layers_user;

static void layers_step(sw_ctx *ctx, void *user)
{
    const layers_user *u = user;
    sw_value x[SCENE_LAYERS];
    for (int i = 0; i < u->n; i++) {
        int depth = 0;
        while (depth < 3 && u->layer[i].scope[depth] != NULL)
            sw_scope_begin(ctx, u->layer[i].scope[depth++]);
        x[i] = sw_randn(ctx, "x", SW_SHAPE(u->layer[i].n));
        while (depth-- > 0)
            sw_scope_end(ctx);
    }
    sw_scope_begin(ctx, "join");
    sw_metric(ctx, "sum", sw_sum(ctx, sw_concat(ctx, x, u->n, 0), 0));
    sw_scope_end(ctx);
}

void scene_layers(scene *s, const layer_scene *what, int n)
{
    uint64_t variant = 2;
    for (int i = 0; i < n; i++)
        variant = mix(variant, what[i].n);
    layers_user user = {what, n};
    run(s, layers_step, &user, variant, NULL, NULL, SW_TRAIN);
}

static void holes_step(sw_ctx *ctx, void *user)
{
    static const int births[HOLES_TENSORS] = {2, 3, 1, 2, 1, 3, 2};
    static const char order[] = "nn1nn0n3n42n56"; /* n: the next one is born */
    const holes_scene *s = user;
    sw_value x[HOLES_TENSORS];
    int born = 0;
    for (const char *c = order; *c != '\0'; c++) {
        const char *name = sw_textf("sum%c", *c);
        if (*c == 'n') {
            x[born] = sw_randn(ctx, "x", SW_SHAPE(births[born] * s->unit));
            born++;
        } else
            sw_metric(ctx, name, sw_sum(ctx, x[*c - '0'], 0));
    }
}

void scene_holes(scene *s, const holes_scene *what)
{
    holes_scene copy = *what;
    run(s, holes_step, &copy, mix(4, what->unit), NULL, NULL, SW_TRAIN);
}

typedef struct {
    sw_linear layer;
    sw_optimizer *optimizer;
} linear_user;

static void linear_step(sw_ctx *ctx, void *user)
{
    linear_user *u = user;
    const sw_value y = sw_apply_linear(ctx, u->layer, sw_input(ctx, 0));
    sw_set_phase(ctx, SW_LOSS);
    const sw_value loss = sw_mean(ctx, y, 0);
    sw_clear_phase(ctx);
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) == SW_TRAIN) {
        sw_backward(ctx, loss, &u->optimizer, 1);
        sw_update(ctx, u->optimizer);
    }
}

void scene_linear(scene *s, const linear_scene *what, int steps)
{
    linear_user user;
    sw_model *model;
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&model, "linear"), SW_OK);
    user.layer = sw_linear_new(model, "fc", what->in, what->out);
    const sw_optimizer_opts adam =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1);
    CU_ASSERT_EQUAL(sw_optimizer_create(&user.optimizer, model, &adam), SW_OK);
    CU_ASSERT_EQUAL(sw_model_ready(model, s->exec, 1), SW_OK);
    CU_ASSERT_EQUAL(sw_model_bytes(model, &s->model_bytes), SW_OK);
    const int64_t most = what->rows > what->eval_rows ? what->rows : what->eval_rows;
    float *x = calloc((size_t)(most * what->in), sizeof *x);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    for (int64_t i = 0; i < most * what->in; i++)
        x[i] = (float)(i % 17) * 0.1f;
    const sw_array input = {SW_F32, SW_SHAPE(what->rows, what->in), x},
                   held_out = {SW_F32, SW_SHAPE(what->eval_rows, what->in), x};
    for (int i = 0; i < steps; i++) {
        if (what->rows > 0)
            run(s, linear_step, &user, 3, model, &input, SW_TRAIN);
        if (what->eval_rows > 0)
            run(s, linear_step, &user, 3, model, &held_out, SW_EVAL);
    }
    free(x);
    sw_model_destroy(model);
}
