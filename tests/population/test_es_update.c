/* The program that updates by an estimate: tiles, threads and times of updates change no bit;
 * what it takes; what stays as it is; sigmas that learn; what is not finite; what fails. The
 * estimate is held to the explicit sum. */
#include "kernels/dispatch.h"
#include "kernels/noise.h"
#include "tests/population/es_scene.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("es update")

enum { ROWS = 900, DIRECTIONS = 6 }; /* so many rows are past what a kernel draws in parts */

static const float weights[DIRECTIONS] = {0.5f, -1.0f, 0.25f, 2.0f, -0.125f, 0.0f};
static const float squares[DIRECTIONS] = {0.1f, -0.1f, 0.2f, -0.05f, 0.0f, 0.3f};

/* ---- bits -------------------------------------------------------------------------------- */

static const sw_optimizer_opts rules[] = {
#define SW_OPTIMIZER(kind_, states, operations)                                                \
    {.size = sizeof(sw_optimizer_opts), .kind = #kind_, .weight_decay = 0.01f},
#define SW_OPTIMIZER_LIKE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#include "kernels/optimizers.def"
    {.size = sizeof(sw_optimizer_opts), .kind = "sgd", .lr = 0.1f, .momentum = 0.9f},
};
enum { RULES = sizeof rules / sizeof *rules };

/* Two updates; the plan of the program. */
static scene *updated(const char *noise, const sw_optimizer_opts *rule, sw_exec *exec,
                      bool immediate, sw_plan_info *plan)
{
    scene *s = scene_new(&SCENE_OPTS(noise, DIRECTIONS, .l2 = 0.25f), rule, ROWS, "normal:1");
    scene_update u;
    scene_update_fill(&u, s, weights, NULL);
    u.args.immediate = immediate;
    *plan = SW_OPTS(sw_plan_info);
    OK(sw_model_ready(s->model, exec, 3));
    OK(sw_plan(exec, &u.args, plan));
    for (int k = 0; k < 2; k++) {
        OK(sw_run(exec, &u.args));
        OK(sw_es_generation_set(s->es, 1));
    }
    return s;
}

/* With tiles, on two threads, without, with updates after, and in immediate mode, where there
 * never are tiles. */
static void same_bits(const char *isa, const char *noise, const sw_optimizer_opts *rule)
{
    sw_optimizer_opts after = *rule;
    sw_plan_info plan[5];
    scene *s[5];
    after.update = SW_UPDATE_AFTER;
    for (int k = 0; k < 5; k++)
        s[k] = updated(noise, k == 3 ? &after : rule, scene_exec(k == 1 ? 2 : 1, isa, k == 2),
                       k == 4, &plan[k]);
    for (int k = 1; k < 5; k++)
        SW_CHECK(net_same(s[0]->model, s[k]->model), "%s, %s, %s: way %d has other bits", isa,
                 noise, rule->kind, k);
    CU_ASSERT_EQUAL(plan[0].n_tiled, 1);
    CU_ASSERT_EQUAL(plan[2].n_tiled, 0);
    CU_ASSERT_EQUAL(plan[3].n_tiled, 0);
    CU_ASSERT(plan[0].operations < plan[2].operations + 100); /* the bound of the gradient */
    CU_ASSERT(plan[0].arena_bytes < plan[2].arena_bytes);
    CU_ASSERT(plan[2].arena_bytes < plan[3].arena_bytes);
}

SW_TEST("tiles, threads and times of updates do not show in the bits")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (int k = 0; k < RULES; k++)
        same_bits(isas[k % ((int)sw_cpu_isa() + 1)], es_noises[k % ES_NOISES], &rules[k]);
    for (int k = 0; k < ES_NOISES; k += sw_tests_full() ? 1 : 2)
        same_bits(isas[(k + 1) % ((int)sw_cpu_isa() + 1)], es_noises[k], &rules[0]);
}

static bool is_same(const scene *a, const scene *b, int p)
{
    return memcmp(scene_values(a, p), scene_values(b, p), 4 * scene_size(a, p)) == 0;
}

/* An optimizer that keeps its gradients has them all at once, and the same steps. */
SW_TEST("kept gradients make the same steps")
{
    sw_optimizer_opts keep = rules[1];
    sw_plan_info plan;
    keep.keep_gradients = 1;
    scene *a = updated("low-rank", &rules[1], scene_exec(2, NULL, 0), false, &plan);
    scene *b = updated("low-rank", &keep, scene_exec(2, NULL, 0), false, &plan);
    CU_ASSERT_EQUAL(plan.n_tiled, 0);
    for (int p = 0; p < PARAMS; p++)
        SW_CHECK(is_same(a, b, p), "parameter %d", p);
}

/* ---- bytes ------------------------------------------------------------------------------- */

SW_TEST("no whole gradient exists")
{
    scene *s = scene_new(&SCENE_OPTS("low-rank", DIRECTIONS), NULL, ROWS, "zeros");
    sw_exec *exec = scene_exec(2, NULL, 0);
    scene_update u;
    size_t largest = 0;
    scene_update_fill(&u, s, weights, NULL);
    OK(sw_run(exec, &u.args));
    const swi_trace *t = &exec->last->trace;
    for (uint32_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].segment == SWI_SEG_STEP && t->storages[i].birth != SWI_NONE &&
            t->storages[i].bytes > largest)
            largest = t->storages[i].bytes;
    SW_CHECK(largest < ROWS * 300 * 4 / 2, "%zu bytes", largest);
}

SW_TEST("witnesses agree")
{
    for (int k = 0; k < ES_NOISES; k += 3) {
        const sw_es_opts o = SCENE_OPTS(es_noises[k], DIRECTIONS);
        scene *s = scene_new(&o, &rules[k % RULES], ROWS, "normal:1");
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2));
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        scene_update u;
        scene_update_fill(&u, s, weights, NULL);
        OK(sw_witness(exec, &u.args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %s", es_noises[k], seen.first_fault);
    }
}

/* A net of square layers, as it is run forward. */
enum { LAYERS = 3 };
typedef struct {
    sw_model *model;
    sw_linear layer[LAYERS];
    sw_optimizer *opt;
    sw_es *es;
} tower;

static void tower_step(sw_ctx *ctx, void *user)
{
    const tower *t = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < LAYERS; i++)
        x = sw_relu(ctx, sw_apply_linear(ctx, t->layer[i], x));
    sw_metric(ctx, "fitness", sw_mean(ctx, x, 0));
}

/* Bytes of the plans of inference and of the update. */
static void plans_of(tower *t, sw_exec *exec, int64_t width, uint32_t directions,
                     uint32_t slice, size_t *inference, size_t *update)
{
    const sw_es_opts o = SW_OPTS(sw_es_opts, .directions = directions, .slice = slice);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    char name[8] = "f0";
    t->model = made_model("tower");
    for (int i = 0; i < LAYERS; i++, name[1]++)
        t->layer[i] = sw_linear_new(t->model, name, width, width);
    OK(sw_optimizer_create(&t->opt, t->model, &SW_OPTS(sw_optimizer_opts, .kind = "adam")));
    OK(sw_es_create(&t->es, t->opt, &o));
    AFTER(sw_es_destroy, t->es);
    const sw_array in = {SW_F32, SW_SHAPE((int64_t)sw_es_rows(t->es), width), NULL};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = tower_step, .user = t, .models = &t->model, .n_models = 1,
                .inputs = &in, .n_inputs = 1, .mode = SW_EVAL);
    OK(sw_plan(exec, &args, &plan));
    *inference = plan.arena_bytes;
    OK(sw_es_plan(t->es, exec, &plan));
    *update = plan.arena_bytes;
}

SW_TEST("an update takes no more than inference")
{
    static const int64_t widths[] = {64, 256, 512, 1024, 2048};
    static tower t[2][5][3];
    for (int threads = 1; threads <= 2; threads++) {
        sw_exec *exec = scene_exec(threads, NULL, 0);
        for (int w = 0; w < 5; w++) {
            size_t inference, update[3];
            for (int k = 0; k < 3; k++) {
                tower *each = &t[threads - 1][w][k];
                memset(each, 0, sizeof *each);
                plans_of(each, exec, widths[w], 1u << (10 + 5 * k), 512, &inference,
                         &update[k]);
            }
            SW_CHECK(update[0] == update[1] && update[0] == update[2],
                     "%lld: %zu, %zu, %zu bytes", (long long)widths[w], update[0], update[1],
                     update[2]);
            SW_CHECK(update[0] <= inference + (size_t)threads * 65536,
                     "%lld: %zu bytes, inference %zu", (long long)widths[w], update[0],
                     inference);
            sw_note("%d threads, width %lld: %zu bytes, inference of 1024 rows %zu", threads,
                    (long long)widths[w], update[0], inference);
        }
    }
}

/* ---- what stays -------------------------------------------------------------------------- */

SW_TEST("what has no noise stays as it is")
{
    const sw_es_opts dropout = SCENE_OPTS("dropout", DIRECTIONS);
    sw_exec *exec = scene_exec(2, NULL, 0);
    scene *before = scene_new(&dropout, NULL, 0, "normal:1");
    scene *a = scene_new(&dropout, NULL, 0, "normal:1");
    scene *b = scene_new(&SCENE_OPTS("low-rank", DIRECTIONS), NULL, 0, "normal:1");
    scene_update u;
    OK(sw_model_ready(before->model, exec, 3));
    OK(sw_model_ready(a->model, exec, 3));
    OK(sw_model_ready(b->model, exec, 3));
    sw_param_freeze(b->param[IMAGE], 1);
    scene_update_fill(&u, a, weights, NULL);
    OK(sw_run(exec, &u.args));
    scene_update_fill(&u, b, weights, NULL);
    OK(sw_run(exec, &u.args));
    for (int p = 0; p < LARGE; p++) {
        const bool vector = p == VECTOR || p == CHANNELS;
        SW_CHECK(is_same(before, a, p) == vector, "dropout: parameter %d", p);
        SW_CHECK(is_same(before, b, p) == (p == IMAGE), "frozen image: parameter %d", p);
    }
}

/* ---- sigmas of each element -------------------------------------------------------------- */

static float *sigmas_of(const scene *s, int p)
{
    const swi_entry *e = &s->model->entries[s->es->mode.sigmas[s->param[p].index]];
    float *x = sw_block(e->bytes);
    memcpy(x, s->model->base + e->offset, e->bytes);
    return x;
}

/* sigma exp(rate / 2 sum of u (e^2 - 1)); *mean: sum of w sigma e. */
static double one_sigma(const scene *s, int p, int64_t i, double sigma, double rate,
                        double *mean)
{
    const sw_noise_spec spec = scene_noise(s, p);
    double sum = 0.0;
    *mean = 0.0;
    for (uint32_t k = 0; k < DIRECTIONS; k++) {
        const sw_noise_at at = {s->es->mode.seed, (uint32_t)s->es->mode.generation, k};
        const double e = (double)sw_noise_number(&spec, SW_NOISE_ELEMENTS, &at, i);
        sum += (double)squares[k] * (e * e - 1.0);
        *mean += (double)weights[k] * sigma * e;
    }
    return sigma * exp(rate / 2.0 * sum);
}

static double worst_sigma(scene *s, sw_exec *exec, double rate)
{
    float *theta[PARAMS], *sigma[PARAMS];
    double worst = 0.0, mean;
    scene_update u;
    for (int p = 0; p < PARAMS; p++) {
        theta[p] = scene_values(s, p);
        sigma[p] = sigmas_of(s, p);
    }
    scene_update_fill(&u, s, weights, squares);
    OK(sw_run(exec, &u.args));
    for (int p = 0; p < PARAMS; p++) {
        float *theta2 = scene_values(s, p), *sigma2 = sigmas_of(s, p);
        for (size_t i = 0; i < scene_size(s, p); i += p == LARGE ? 997 : 1) {
            const double want = one_sigma(s, p, (int64_t)i, (double)sigma[p][i], rate, &mean);
            worst = fmax(worst, fabs((double)sigma2[i] - want) / want);
            worst = fmax(worst, fabs((double)theta[p][i] - mean - (double)theta2[i]));
        }
    }
    return worst;
}

SW_TEST("sigmas of each element learn")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    const double n = 13 * 20 + 6 * 5 * 9 + 41 + 7 + ROWS * 300;
    const double rate = (3.0 + log(n)) / (5.0 * sqrt(n));
    scene *first = NULL;
    for (int k = 0; k <= (int)sw_cpu_isa() + 2; k++) {
        const bool given = k == (int)sw_cpu_isa() + 2;
        sw_es_opts o = SCENE_OPTS("iid", DIRECTIONS, .strategy = "snes");
        o.shaping = NULL;
        o.sigma_lr = given ? 0.5f : 0.0f;
        scene *s = scene_new(&o, NULL, ROWS, "zeros");
        sw_exec *exec = scene_exec(1 + k % 2, k <= (int)sw_cpu_isa() ? isas[k] : NULL,
                                   k == (int)sw_cpu_isa() + 1);
        OK(sw_model_ready(s->model, exec, 3));
        for (int step = 0; step < 2; step++) {
            const double worst = worst_sigma(s, exec, given ? 0.5 : rate);
            SW_CHECK(worst < 1e-6, "way %d, step %d: %g", k, step, worst);
        }
        if (k == (int)sw_cpu_isa())
            first = s;
        SW_CHECK(k != (int)sw_cpu_isa() + 1 || net_same(first->model, s->model),
                 "without tiles: other bits");
    }
}

/* ---- what is not finite ------------------------------------------------------------------ */

/* Weights that are not finite, or so large that it is not known beforehand whether a sum is:
 * with tiles and without, the same updates are skipped, and counted. */
SW_TEST("what is not finite is skipped whole")
{
    static const float extremes[] = {NAN, INFINITY, 3e38f, 1e37f, 1e30f};
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        scene *s[2];
        uint64_t skipped[2];
        float w[DIRECTIONS];
        for (int without = 0; without < 2; without++) {
            const sw_es_opts o = SCENE_OPTS("low-rank", DIRECTIONS);
            scene_update u;
            sw_exec *exec = scene_exec(2, NULL, without);
            s[without] = scene_new(&o, &rules[1], ROWS, "normal:1");
            OK(sw_model_ready(s[without]->model, exec, 3));
            scene_update_fill(&u, s[without], w, NULL);
            for (int step = 0; step < 3; step++) {
                memcpy(w, weights, sizeof w);
                if (step == 1)
                    w[3] = extremes[i];
                OK(sw_run(exec, &u.args));
            }
            OK(sw_optimizer_skipped(s[without]->opt, &skipped[without], NULL));
        }
        SW_CHECK(skipped[0] == skipped[1] && (skipped[0] > 0) == (i < 3), "%g: %d and %d",
                 (double)extremes[i], (int)skipped[0], (int)skipped[1]);
        SW_CHECK(net_same(s[0]->model, s[1]->model), "%g: other bits", (double)extremes[i]);
        float *x = scene_values(s[0], LARGE);
        for (size_t k = 0; k < scene_size(s[0], LARGE); k++)
            if (!isfinite(x[k])) {
                SW_CHECK(false, "%g: element %zu", (double)extremes[i], k);
                break;
            }
    }
}

/* ---- what fails -------------------------------------------------------------------------- */

/* Each allocation on the way to a plan fails once: the status says so, and the next plan is the
 * one that was asked for. */
SW_TEST("a refused allocation is an answer")
{
    sw_sites sites = {SW_FAULT_MEMORY, .every = sw_tests_full() ? 1 : 3, .keeps = true};
    while (sw_sites_next(&sites)) {
        sw_es_opts o = SCENE_OPTS("iid", DIRECTIONS, .strategy = "snes");
        o.shaping = NULL;
        scene *s = scene_new(&o, &rules[1], ROWS, "zeros");
        sw_exec *exec = net_exec(NULL);
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        scene_update u;
        scene_update_fill(&u, s, weights, squares);
        (void)SW_AT_SITE(&sites, sw_plan(exec, &u.args, &plan));
        OK(sw_plan(exec, &u.args, &plan));
        CU_ASSERT_EQUAL(plan.n_tiled, 1);
    }
    CU_ASSERT(sites.failed > 5);
}

SW_TEST("what cannot be updated says so")
{
    const sw_es_opts o = SCENE_OPTS("low-rank", DIRECTIONS);
    sw_exec *exec = scene_exec(1, NULL, 0);
    scene *s = scene_new(&o, NULL, 0, "zeros");
    scene_update u;
    for (int p = 0; p < LARGE; p++)
        sw_param_freeze(s->param[p], 1);
    scene_update_fill(&u, s, weights, NULL);
    REFUSED(sw_run(exec, &u.args), SW_INVALID, "no parameter of model 'scene' has noise");
    u.in[0].dtype = SW_I32;
    REFUSED(sw_run(exec, &u.args), SW_INVALID, "no parameter");
    s = scene_new(&o, NULL, 0, "zeros");
    scene_update_fill(&u, s, weights, NULL);
    u.in[0].dtype = SW_I32;
    REFUSED(sw_run(exec, &u.args), SW_INVALID, "f32");
}

/* Where parameters begin at 0 the step is the estimate itself, to the last bit of it. */
SW_TEST("the estimate is the explicit sum")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int k = 0; k < ES_NOISES; k++) {
            const bool drops = strcmp(es_noises[k], "dropout") == 0;
            const sw_es_opts o = SCENE_OPTS(es_noises[k], 40);
            sw_exec *exec = scene_exec(1 + (isa + k) % 2, isas[isa], 0);
            scene *s = scene_new(&o, NULL, 0, drops ? "normal:1" : "zeros");
            OK(sw_model_ready(s->model, exec, 3));
            for (int generation = 0; generation < 2; generation++) {
                if (!drops)
                    OK(sw_model_ready(s->model, exec, 3));
                scene_tell(s->es, 1.0f);
                const double worst = scene_step(s, exec);
                SW_CHECK(worst < 1e-5, "%s, %s: %g", isas[isa], es_noises[k], worst);
            }
        }
}

SW_TEST("l1 and l2 are added")
{
    const sw_es_opts o = SCENE_OPTS("low-rank", 30, .l1 = 0.5f, .l2 = 0.25f);
    sw_exec *exec = scene_exec(2, NULL, 0);
    scene *s = scene_new(&o, NULL, 0, "normal:1");
    OK(sw_model_ready(s->model, exec, 3));
    scene_tell(s->es, 1.0f);
    const double worst = scene_step(s, exec);
    SW_CHECK(worst < 1e-5, "%g", worst);
}

/* 2^14 evaluations, antithetic pairs of 2^13 directions, rank 1. */
SW_TEST("2^14 members are summed well")
{
    sw_exec *exec = scene_exec(2, NULL, 0);
    scene *s = scene_new(&SCENE_OPTS("low-rank", 1 << 13), NULL, 0, "zeros");
    OK(sw_model_ready(s->model, exec, 3));
    scene_tell(s->es, 1.0f);
    const double worst = scene_step(s, exec);
    SW_CHECK(worst < 1e-5, "%g", worst);
    sw_note("%.1e from the float64 sum", worst);
}
