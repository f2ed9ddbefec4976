/* Evolution strategies on the card that is not there: evaluations and updates are the CPU's
 * within rounding, launches are those stated, and one capture serves all slices and
 * generations. */
#include "runtime/population/es/es_internal.h"
#include "tests/cuda/device_scenes.h"
#include "tests/cuda/fake_card.h"
#include "tests/population/es_nets.h"

SW_TESTS("es on a card")

enum { DIRECTIONS = 5, REPEATS = 3, SLICE = 2, SLICES = 3, GENERATIONS = 3 };
enum { EVALUATIONS = DIRECTIONS * REPEATS, RUNS = SLICES * GENERATIONS };

static const char *const noises[] = {"low-rank",  "iid",    "permuted",
                                     "sign-flip", "sparse", "dropout"};
enum { NOISES = sizeof noises / sizeof *noises };

static sw_exec *exec_of(const char *device, bool graphs)
{
    sw_exec *exec = NULL;
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .device = device, .threads = 1, .seed = 5,
                                      .no_graphs = device != NULL && !graphs)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(exec);
    sw_after((void (*)(void *))sw_exec_destroy, exec);
    return exec;
}

static es_net *net_of(es_net_kind kind, const char *strategy, const char *noise, sw_exec *exec)
{
    const bool parts = strcmp(noise, "sparse") == 0 || strcmp(noise, "permuted") == 0;
    const sw_es_opts o =
        SW_OPTS(sw_es_opts, .strategy = strategy, .noise = noise,
                .rank = strcmp(noise, "low-rank") == 0 ? 2 : 0, .in_share = parts ? 0.6f : 0.0f,
                .out_share = parts ? 0.7f : 0.0f, .sigma = 0.2f, .directions = DIRECTIONS,
                .repeats = REPEATS, .slice = SLICE,
                .l2 = strcmp(noise, "iid") == 0 ? 0.01f : 0.0f, .seed = 99);
    es_net *t = es_net_new(kind, &o, &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.05f));
    OK(sw_model_ready(t->model, exec, 7));
    return t;
}

/* Data of each slice. */
typedef struct {
    es_net_kind kind;
    es_batch of[GENERATIONS][SLICES];
} data;

static data data_of(int kind)
{
    data d = {.kind = (es_net_kind)kind};
    for (uint32_t i = 0; i < RUNS; i++)
        d.of[i / SLICES][i % SLICES] =
            es_batch_new(d.kind, SLICE * REPEATS * (1 + kind % 2), 7 + i);
    return d;
}

/* All slices of the generation that is next, by the data of generation g. */
static void evaluate(es_net *t, sw_exec *exec, const data *d, int g, bool immediate)
{
    for (uint32_t s = 0; s < SLICES; s++) {
        sw_run_args args = ES_ARGS(t, &d->of[g][s], SW_EVAL);
        args.immediate = immediate;
        OK(sw_es_evaluate(t->es, exec, &args, s, "loss"));
    }
}

typedef struct {
    float fitness[GENERATIONS][EVALUATIONS];
} seen;

static seen seen_by(es_net *t, sw_exec *exec, const data *d, bool immediate)
{
    seen all;
    for (int g = 0; g < GENERATIONS; g++) {
        OK(sw_es_generation_set(t->es, 3 + 5 * (uint64_t)g));
        evaluate(t, exec, d, g, immediate);
        CU_ASSERT_EQUAL(t->es->told, EVALUATIONS);
        memcpy(all.fitness[g], t->es->fitness, sizeof all.fitness[g]);
    }
    return all;
}

static double apart(const float *a, const float *b, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]) / (1.0 + fabs((double)b[i]));
        worst = d <= worst ? worst : d;
    }
    return worst;
}

/* Also with graphs, op by op and immediate: the same bits. */
static void compare_ways(const data *in, const char *noise)
{
    const es_net_kind kind = in->kind;
    sw_exec *cpu = exec_of(NULL, false), *card = exec_of("cuda", true);
    sw_exec *by_op = exec_of("cuda", false);
    const seen want = seen_by(net_of(kind, NULL, noise, cpu), cpu, in, false);
    const sw_fake_counts before = sw_fake_card_counts();
    const seen got = seen_by(net_of(kind, NULL, noise, card), card, in, false);
    const sw_fake_counts after = sw_fake_card_counts();
    const double d = apart(got.fitness[0], want.fitness[0], (size_t)GENERATIONS * EVALUATIONS);
    SW_CHECK(d < 2e-5, "%s, %s: %g apart", es_net_names[kind], noise, d);
    SW_CHECK(after.captures - before.captures == 1 &&
                 after.graph_launches - before.graph_launches == RUNS - 1,
             "%s, %s: %d captures, %d replays", es_net_names[kind], noise,
             (int)(after.captures - before.captures),
             (int)(after.graph_launches - before.graph_launches));
    CU_ASSERT(memcmp(got.fitness[0], got.fitness[1], sizeof got.fitness[0]) != 0);
    const seen slow = seen_by(net_of(kind, NULL, noise, by_op), by_op, in, false);
    SW_CHECK(memcmp(&slow, &got, sizeof got) == 0, "%s, %s: op by op", es_net_names[kind],
             noise);
    if (noise != noises[kind] && !sw_tests_full())
        return; /* immediate mode in quick: a noise for each net */
    const seen now = seen_by(net_of(kind, NULL, noise, by_op), by_op, in, true);
    SW_CHECK(memcmp(&now, &got, sizeof got) == 0, "%s, %s: immediate", es_net_names[kind],
             noise);
}

SW_TEST("a card evaluates as the CPU does")
{
    sw_fake_card_new(NULL, 0);
    for (int kind = 0; kind < ES_NETS; kind++) {
        const data d = data_of(kind);
        for (int n = 0; n < NOISES; n++)
            if (kind == ES_MLP || n % ES_NETS == kind || sw_tests_full())
                compare_ways(&d, noises[n]);
    }
}

/* Launches of a run, by plan and by count. */
SW_TEST("launches are those stated")
{
    sw_fake_card_new(NULL, 0);
    sw_exec *exec = exec_of("cuda", false);
    for (int kind = 0; kind < ES_NETS; kind++) {
        const data d = data_of(kind);
        for (int n = 0; n < NOISES; n++) {
            if (kind != ES_MLP && n % ES_NETS != kind && !sw_tests_full())
                continue;
            es_net *t = net_of((es_net_kind)kind, NULL, noises[n], exec);
            sw_run_args args = ES_ARGS(t, &d.of[0][0], SW_EVAL);
            sw_plan_info info = SW_OPTS(sw_plan_info), update = SW_OPTS(sw_plan_info);
            args.es = t->es;
            OK(sw_plan(exec, &args, &info));
            evaluate(t, exec, &d, 0, false);
            const sw_fake_counts one = sw_fake_card_counts();
            OK(sw_es_evaluate(t->es, exec, &args, 0, "loss"));
            const sw_fake_counts two = sw_fake_card_counts();
            SW_CHECK(info.launches > 0 &&
                         sw_fake_all_run(&two) - sw_fake_all_run(&one) == info.launches,
                     "%s, %s: %d launches, %d stated", es_net_names[kind], noises[n],
                     (int)(sw_fake_all_run(&two) - sw_fake_all_run(&one)), (int)info.launches);
            OK(sw_es_plan(t->es, exec, &update));
            OK(sw_es_step(t->es, exec, NULL));
            const sw_fake_counts three = sw_fake_card_counts();
            SW_CHECK(update.launches > 0 &&
                         sw_fake_all_run(&three) - sw_fake_all_run(&two) == update.launches,
                     "%s, %s: an update of %d launches, %d stated", es_net_names[kind],
                     noises[n], (int)(sw_fake_all_run(&three) - sw_fake_all_run(&two)),
                     (int)update.launches);
        }
    }
}

/* Launches of a slice of all directions and of an update. */
typedef struct {
    uint32_t slice, update;
} stated;

static stated stated_for(const sw_scene *scene, uint32_t directions, sw_exec *exec)
{
    const sw_es_opts o = SW_OPTS(sw_es_opts, .directions = directions, .seed = 3);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
    sw_plan_info info = SW_OPTS(sw_plan_info);
    sw_array inputs[SW_SCENE_INPUTS];
    sw_model *model;
    sw_es *es;
    OK(sw_model_create(&model, scene->name));
    sw_scene_net own = {.clip = sw_knob_new(model, "clip", 0.5f)};
    scene->build(model, own.layers.bytes);
    OK(sw_optimizer_create(&own.optimizer, model, &sgd));
    OK(sw_es_create(&es, own.optimizer, &o));
    OK(sw_model_ready(model, exec, 7));
    for (int i = 0; i < SW_SCENE_INPUTS; i++) {
        inputs[i] = scene->inputs[i];
        inputs[i].shape.dim[0] = (int64_t)sw_es_rows(es);
    }
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = scene->step, .user = &own, .models = &model, .n_models = 1,
                .inputs = inputs, .n_inputs = SW_SCENE_INPUTS, .mode = SW_EVAL, .es = es);
    stated n;
    OK(sw_plan(exec, &args, &info));
    n.slice = info.launches;
    OK(sw_es_plan(es, exec, &info));
    n.update = info.launches;
    sw_es_destroy(es);
    sw_model_destroy(model);
    return n;
}

/* Of a parameter an update has the estimate, what looks at it and the step; where the
 * directions go in parts, one more. */
SW_TEST("launches do not grow with the population")
{
    static const struct {
        const char *scene;
        uint32_t parameters;
    } cases[] = {{"mlp", 6}, {"lenet5", 10}};
    sw_fake_card_new(NULL, 0);
    sw_exec *exec = exec_of("cuda", true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_scene *scene = sw_scene_of(cases[i].scene);
        const stated few = stated_for(scene, 8, exec), many = stated_for(scene, 512, exec);
        const stated most = stated_for(scene, 4096, exec);
        CU_ASSERT_EQUAL(few.slice, most.slice);
        CU_ASSERT_EQUAL(many.update, most.update);
        CU_ASSERT(most.update > few.update && most.update <= few.update + cases[i].parameters);
        sw_note("%s: %u launches for a slice; for an update %u of 8 directions, %u of 4096",
                cases[i].scene, most.slice, few.update, most.update);
    }
}

static float *parameters_of(sw_model *model, size_t *n)
{
    float *all = NULL;
    OK(sw_scene_numbers(model, &all, n));
    sw_after(free, all);
    return all;
}

/* Parameters after some generations. */
static float *trained(const data *in, const char *strategy, const char *noise, sw_exec *exec,
                      size_t *n)
{
    es_net *t = net_of(in->kind, strategy, noise, exec);
    for (int g = 0; g < GENERATIONS; g++) {
        evaluate(t, exec, in, g, false);
        OK(sw_es_step(t->es, exec, NULL));
    }
    return parameters_of(t->model, n);
}

static void compare_trainings(const data *in, const char *strategy, const char *noise)
{
    const es_net_kind kind = in->kind;
    sw_exec *cpu = exec_of(NULL, false), *card = exec_of("cuda", true);
    sw_exec *by_op = exec_of("cuda", false);
    size_t n, m;
    const float *want = trained(in, strategy, noise, cpu, &n);
    const sw_fake_counts before = sw_fake_card_counts();
    const float *got = trained(in, strategy, noise, card, &m);
    const sw_fake_counts after = sw_fake_card_counts();
    CU_ASSERT_EQUAL_FATAL(n, m);
    const double d = apart(got, want, n);
    SW_CHECK(d < 1e-4, "%s, %s: %g apart", es_net_names[kind], noise, d);
    CU_ASSERT_EQUAL(after.captures - before.captures, 2); /* of slices, of updates */
    CU_ASSERT_EQUAL(after.graph_launches - before.graph_launches, RUNS - 1 + GENERATIONS - 1);
    const float *slow = trained(in, strategy, noise, by_op, &m);
    SW_CHECK(memcmp(slow, got, n * sizeof *got) == 0, "%s, %s: op by op", es_net_names[kind],
             noise);
}

SW_TEST("a card trains as the CPU does")
{
    sw_fake_card_new(NULL, 0);
    for (int kind = 0; kind < ES_NETS; kind++) {
        const data d = data_of(kind);
        for (int n = 0; n < NOISES; n++)
            if ((n == 0 && (kind == ES_MLP || sw_tests_full())) || n % ES_NETS == kind)
                compare_trainings(&d, NULL, noises[n]);
        if (kind == ES_MLP)
            compare_trainings(&d, "snes", "iid");
    }
}

/* ---- zeroth order ------------------------------------------------------------------------ */

static void forward_step(sw_ctx *ctx, void *user)
{
    es_net *t = user;
    sw_value x =
        sw_apply_layer_norm(ctx, t->norm, sw_apply_linear(ctx, t->f1, sw_input(ctx, 0)));
    x = sw_apply_linear(ctx, t->f2, sw_swish(ctx, x));
    sw_metric(ctx, "loss", sw_softmax_ce(ctx, x, sw_input(ctx, 1)));
}

static float *moved(const char *kind, sw_exec *exec, const es_batch *b, size_t *n)
{
    es_net *t = es_net_new(ES_MLP, NULL, NULL);
    const sw_zo_opts o =
        SW_OPTS(sw_zo_opts, .kind = kind, .eps = 0.01f, .lr = 0.01f, .weight_decay = 0.1f,
                .window = strcmp(kind, "lozo") == 0 ? 2 : 0, .seed = 17);
    sw_zo *zo = NULL;
    sw_run_args args = ES_ARGS(t, b, SW_EVAL);
    args.fn = forward_step;
    OK(sw_model_ready(t->model, exec, 7));
    OK(sw_zo_create(&zo, t->model, &o));
    for (int step = 0; step < 5; step++)
        OK(sw_zo_step(zo, exec, &args, "loss", NULL));
    sw_zo_destroy(zo);
    return parameters_of(t->model, n);
}

/* Losses of both sides differ by rounding, which goes into the steps divided by eps. */
SW_TEST("a card moves as the CPU does")
{
    static const char *const kinds[] = {"mezo", "lozo"};
    sw_fake_card_new(NULL, 0);
    const es_batch b = es_batch_new(ES_MLP, 24, 5);
    for (int i = 0; i < 2; i++) {
        size_t n, m;
        sw_exec *by_op = exec_of("cuda", false);
        const float *want = moved(kinds[i], exec_of(NULL, false), &b, &n);
        const sw_fake_counts before = sw_fake_card_counts();
        const float *got = moved(kinds[i], exec_of("cuda", true), &b, &m);
        CU_ASSERT(sw_fake_card_counts().graph_launches > before.graph_launches);
        CU_ASSERT_EQUAL_FATAL(n, m);
        const double d = apart(got, want, n);
        SW_CHECK(d < 1e-4, "%s: %g apart", kinds[i], d);
        const float *slow = moved(kinds[i], by_op, &b, &m);
        SW_CHECK(memcmp(slow, got, n * sizeof *got) == 0, "%s: op by op", kinds[i]);
    }
}
