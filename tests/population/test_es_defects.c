/* Defects that implementations of this have had: each is a promise here. */
#include "kernels/noise.h"
#include "tests/population/es_scene.h"
#include "tests/support/files.h"

SW_TESTS("es defects")

/* ---- estimates --------------------------------------------------------------------------- */

/* An odd number of repeats leaves the middle one positive, and the estimate has the shapes of
 * the parameters. */
SW_TEST("repeats of any number make estimates")
{
    sw_exec *exec = scene_exec(2, NULL, 0);
    for (uint32_t repeats = 1; repeats <= 5; repeats++)
        for (int antithetic = 0; antithetic < 2; antithetic++) {
            const sw_es_opts o =
                SCENE_OPTS("iid", 7, .repeats = repeats, .no_antithetic = !antithetic);
            scene *s = scene_new(&o, NULL, 0, "zeros");
            OK(sw_model_ready(s->model, exec, 3));
            scene_tell(s->es, 1.0f);
            const double worst = scene_step(s, exec);
            SW_CHECK(worst < 1e-5, "%u repeats: %g", repeats, worst);
        }
}

/* The steps of all parameters by these weights, from zeros; freed when the test ends. */
static float *steps_by(const char *noise, sw_exec *exec, const float *weights)
{
    const bool drops = strcmp(noise, "dropout") == 0;
    scene *s = scene_new(&SCENE_OPTS(noise, 3), NULL, 0, drops ? "ones" : "zeros");
    float *steps = sw_block(4 * (13 * 20 + 6 * 5 * 9 + 41 + 7));
    size_t at = 0;
    scene_update u;
    OK(sw_model_ready(s->model, exec, 3));
    scene_update_fill(&u, s, weights, NULL);
    OK(sw_run(exec, &u.args));
    for (int p = 0; p < LARGE; p++) {
        float *x = scene_values(s, p);
        for (size_t i = 0; i < scene_size(s, p); i++)
            steps[at++] = x[i] - (drops ? 1.0f : 0.0f);
    }
    return steps;
}

/* A weight counts once: powers of two times it are that times the estimate, bit for bit. */
SW_TEST("weights count once")
{
    static const float once[] = {0.5f, -1.25f, 3.0f}, more[] = {2.0f, -5.0f, 12.0f},
                       less[] = {-0.5f, 1.25f, -3.0f};
    sw_exec *exec = scene_exec(2, NULL, 0);
    for (int k = 0; k < ES_NOISES; k++) {
        const float *a = steps_by(es_noises[k], exec, once);
        const float *b = steps_by(es_noises[k], exec, more);
        const float *c = steps_by(es_noises[k], exec, less);
        const bool drops = strcmp(es_noises[k], "dropout") == 0;
        const float room = drops ? 1e-5f : 0.0f; /* there the weights begin at 1 */
        int wrong = 0, zeros = 0;
        for (int i = 0; i < 13 * 20 + 6 * 5 * 9 + 41 + 7; i++) {
            wrong += !(fabsf(b[i] - 4.0f * a[i]) <= room) || !(fabsf(c[i] + a[i]) <= room);
            zeros += a[i] == 0.0f;
        }
        SW_CHECK(wrong == 0 && zeros < 300, "%s: %d are not, %d zeros", es_noises[k], wrong,
                 zeros);
    }
}

SW_TEST("more columns than 16 bits count are permuted")
{
    enum { COLS = 70001, ROWS = 2, N = 3 };
    sw_optimizer *opt = NULL;
    sw_es *es = NULL;
    static float theta[ROWS * COLS];
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f);
    sw_es_opts o = SCENE_OPTS("permuted-in", N);
    double off = 0.0, all = 0.0, high = 0.0;
    sw_noise_spec spec;
    sw_exec *exec = scene_exec(2, NULL, 0);
    o.in_share = 0.5f;
    o.repeats = 1;
    sw_model *model = made_model("wide");
    const sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(ROWS, COLS), "zeros");
    OK(sw_optimizer_create(&opt, model, &sgd));
    OK(sw_es_create(&es, opt, &o));
    AFTER(sw_es_destroy, es);
    for (uint32_t d = 0; d < N; d++)
        OK(sw_es_tell(es, d, 0, 0.25f * N * (float)(d + 1))); /* weights 1, 2, 3 */
    OK(sw_es_step(es, exec, NULL));
    OK(sw_param_read(w, theta, sizeof theta));
    swi_noise_spec(&spec, &es->mode.like, 0.5f, 0.0f, &model->entries[w.index].shape,
                   swi_noise_stream("w"));
    CU_ASSERT_EQUAL(spec.keep_cols, 35001);
    for (uint32_t k = 0; k < N; k++) {
        const sw_noise_at at = {99, 0, k};
        sw_noise_direction d;
        sw_noise_prepare(&d, &spec, &at, 0.25f);
        for (int64_t i = 0; i < ROWS * COLS; i++)
            theta[i] += (float)(k + 1) * sw_noise_element(&spec, &d, i / COLS, i % COLS, 0.0f);
    }
    for (int64_t i = 0; i < ROWS * COLS; i++)
        off += (double)theta[i] * (double)theta[i];
    OK(sw_param_read(w, theta, sizeof theta));
    for (int64_t i = 0; i < ROWS * COLS; i++) {
        all += (double)theta[i] * (double)theta[i];
        high += i % COLS > 32767 ? (double)theta[i] * (double)theta[i] : 0.0;
    }
    SW_CHECK(sqrt(off / all) < 1e-6, "%g", sqrt(off / all));
    SW_CHECK(high > 0.45 * all && high < 0.6 * all, "%g of %g", high, all);
}

/* ---- forward ----------------------------------------------------------------------------- */

enum { IN = 9, OUT = 6, N_DIRECTIONS = 4, REPEATS = 3 };
typedef struct {
    sw_model *model;
    sw_linear layer;
    sw_optimizer *opt;
    sw_es *es;
} line;

static void line_step(sw_ctx *ctx, void *user)
{
    sw_output(ctx, "y", sw_apply_linear(ctx, ((const line *)user)->layer, sw_input(ctx, 0)));
}

static line *line_new(const sw_es_opts *o, sw_exec *exec)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 1.0f);
    line *n = sw_block(sizeof *n);
    n->model = made_model("line");
    n->layer = sw_linear_new(n->model, "layer", IN, OUT);
    OK(sw_optimizer_create(&n->opt, n->model, &sgd));
    OK(sw_es_create(&n->es, n->opt, o));
    AFTER(sw_es_destroy, n->es);
    OK(sw_model_ready(n->model, exec, 3));
    return n;
}

/* The result of a run for x (rows, IN); with noise where `slice` is one. */
static void run_line(line *n, sw_exec *exec, const float *x, int64_t rows, int64_t slice,
                     float *y)
{
    const sw_array in = {SW_F32, SW_SHAPE(rows, IN), x};
    sw_array out;
    sw_run_args args = SW_OPTS(sw_run_args, .fn = line_step, .user = n, .models = &n->model,
                               .n_models = 1, .inputs = &in, .n_inputs = 1, .mode = SW_EVAL);
    if (slice >= 0) {
        args.es = n->es;
        args.es_slice = (uint64_t)slice;
    }
    OK(sw_run(exec, &args));
    OK(sw_output_get(exec, "y", &out));
    memcpy(y, out.data, (size_t)(rows * OUT) * 4);
}

/* Biases have noise of each direction, of the sign of the evaluation, beside any noise of the
 * weight; all of what the noise adds has that sign. */
SW_TEST("biases and signs are there")
{
    enum { ROWS = N_DIRECTIONS * REPEATS };
    static const float signs[REPEATS] = {1.0f, 1.0f, -1.0f};
    sw_exec *exec = scene_exec(2, NULL, 0);
    float x[ROWS * IN], y[ROWS * OUT], plain[ROWS * OUT];
    for (int k = 0; k < ES_NOISES - 1; k++) /* dropout has none of its own in vectors */
        for (int with_x = 0; with_x < 2; with_x++) {
            const sw_es_opts o = SCENE_OPTS(es_noises[k], N_DIRECTIONS, .repeats = REPEATS);
            line *n = line_new(&o, exec);
            const sw_noise_spec bias =
                SW_INIT(.rows = 1, .cols = OUT, .taps = 1, .kind = SW_NOISE_IID,
                        .stream = swi_noise_stream("layer.bias"));
            for (int i = 0; i < ROWS * IN; i++)
                x[i] = with_x ? (float)(i % IN) - 3.5f : 0.0f;
            run_line(n, exec, x, ROWS, -1, plain);
            run_line(n, exec, x, ROWS, 0, y);
            int wrong = 0;
            for (int e = 0; e < ROWS; e++)
                for (int j = 0; j < OUT; j++) {
                    const int d = e % N_DIRECTIONS;
                    const sw_noise_at at = {99, 0, (uint32_t)d};
                    const float added = y[e * OUT + j] - plain[e * OUT + j];
                    const float first = y[d * OUT + j] - plain[d * OUT + j];
                    const float b = 0.25f * sw_noise_number(&bias, SW_NOISE_ELEMENTS, &at, j);
                    wrong += fabsf(added - signs[e / N_DIRECTIONS] * first) > 1e-5f;
                    wrong += !with_x && fabsf(first - b) > 1e-6f;
                }
            SW_CHECK(wrong == 0, "%s: %d", es_noises[k], wrong);
        }
}

/* The noise is another one in each generation without anybody's asking, and the same one when a
 * generation is run again. */
SW_TEST("generations have noise of their own")
{
    sw_exec *exec = scene_exec(1, NULL, 0);
    float x[8 * IN], y[3][8 * OUT];
    for (int i = 0; i < 8 * IN; i++)
        x[i] = (float)(i % 7) - 3.0f;
    for (int k = 0; k < ES_NOISES; k++) {
        sw_es_opts o = SCENE_OPTS(es_noises[k], 4);
        o.sigma = 1.0f; /* half of the neurons are dropped */
        line *n = line_new(&o, exec);
        run_line(n, exec, x, 8, 0, y[0]);
        run_line(n, exec, x, 8, 0, y[1]);
        for (uint32_t e = 0; e < 8; e++)
            OK(sw_es_tell(n->es, e % 4, e / 4, 1.0f)); /* pairs cancel: nothing moves */
        OK(sw_es_step(n->es, exec, NULL));
        run_line(n, exec, x, 8, 0, y[2]);
        CU_ASSERT(memcmp(y[0], y[1], sizeof y[0]) == 0);
        int same = 0;
        for (int i = 0; i < 8 * OUT; i++)
            same += y[0][i] == y[2][i];
        SW_CHECK(same < 7 * OUT, "%s: %d are as before", es_noises[k], same);
    }
}

/* Random ops draw what they draw without a strategy, and the model is what it was. */
static void draw(sw_ctx *ctx, void *user)
{
    sw_output(ctx, "z", sw_randn(ctx, "z", SW_SHAPE(64)));
}

static void drawn(sw_exec *exec, float *z)
{
    sw_array out;
    OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = draw, .step = 4)));
    OK(sw_output_get(exec, "z", &out));
    memcpy(z, out.data, 64 * 4);
}

SW_TEST("nothing else changes")
{
    sw_exec *exec = scene_exec(1, NULL, 0);
    float x[8 * IN] = {1.0f}, y[8 * OUT], before[64], after[64];
    line *n = line_new(&SCENE_OPTS("iid", 4), exec);
    const char *first = sw_temp_path("first.safetensors"),
               *second = sw_temp_path("second.safetensors");
    drawn(exec, before);
    OK(sw_model_save(n->model, first));
    const void *bytes = net_copy_bytes(n->model);
    run_line(n, exec, x, 8, 0, y);
    CU_ASSERT(net_same_bytes(n->model, bytes));
    OK(sw_model_save(n->model, second));
    drawn(exec, after);
    CU_ASSERT(memcmp(before, after, sizeof before) == 0);
    CU_ASSERT_EQUAL(sw_file_bytes(first), sw_file_bytes(second));
    SW_CHECK(sw_file_bytes(second) < 2048, "%zu bytes", sw_file_bytes(second));
}

/* A direction is made without those before it: the last of two billion is one of any. */
SW_TEST("a direction needs no other")
{
    sw_exec *exec = scene_exec(2, NULL, 0);
    const uint32_t last = (1u << 31) - 1;
    float x[4 * IN], y[4 * OUT], one[4 * OUT];
    for (int i = 0; i < 4 * IN; i++)
        x[i] = (float)(i % 5) - 2.0f;
    for (int k = 0; k < ES_NOISES - 1; k++) {
        line *n = line_new(&SCENE_OPTS(es_noises[k], 1u << 31, .slice = 2, .repeats = 1), exec);
        run_line(n, exec, x, 2, (1 << 30) - 1, y); /* directions last - 1 and last */
        sw_noise_spec spec;
        sw_noise_direction d;
        const sw_noise_at at = {99, 0, last};
        swi_noise_spec(&spec, &n->es->mode.like, n->es->mode.in_share, n->es->mode.out_share,
                       &n->model->entries[n->layer.weight.index].shape,
                       swi_noise_stream("layer.weight"));
        sw_noise_prepare(&d, &spec, &at, 0.25f);
        run_line(n, exec, x, 2, -1, one);
        for (int j = 0; j < OUT; j++) {
            const sw_noise_spec bias =
                SW_INIT(.rows = 1, .cols = OUT, .taps = 1, .kind = SW_NOISE_IID,
                        .stream = swi_noise_stream("layer.bias"));
            double sum = (double)sw_noise_number(&bias, SW_NOISE_ELEMENTS, &at, j);
            for (int i = 0; i < IN; i++)
                sum += (double)x[IN + i] * (double)sw_noise_element(&spec, &d, j, i, 0.0f);
            const double got = (double)y[OUT + j] - (double)one[OUT + j];
            SW_CHECK(fabs(got - 0.25 * sum) < 1e-5, "%s: %g, not %g", es_noises[k], got,
                     0.25 * sum);
        }
    }
}
