/* Rotary positions, and attention with shared heads of k and v, documents in a row and a past:
 * against float64 with heads repeated and masks made by hand, and the same bits however a
 * document lies or a cache is filled. */
#include "kernels/dispatch.h"
#include "kernels/rng.h"
#include "kernels/rotary.h"
#include "kernels/scalar.h"
#include "tests/ops/axes_bench.h"

SW_TESTS("rope")

/* ---- rotary ------------------------------------------------------------------------------ */

/* cos and sin of some pairs at positions, as transformers 5.23 with PyTorch 2.15 computes them.
 */
static const struct {
    swi_rotary_attrs attrs;
    int64_t pairs;
    int32_t position;
    int pair[3];
    float cosine[3], sine[3];
} known[] = {
    {{0, 1, 0, 1e6f, 0, 0, 0},
     32,
     1,
     {1, 7, 31},
     {0.796457887f, 0.998814523f, 1.0f},
     {0.604694009f, 0.0486775078f, 1.53992653e-06f}},
    {{0, 1, 0, 1e6f, 0, 0, 0},
     32,
     4097,
     {0, 7, 31},
     {0.934771955f, 0.0194548685f, 0.999980092f},
     {0.355248332f, -0.999810755f, 0.0063090371f}},
    {{0, 1, 0, 1e6f, 0, 0, 0},
     32,
     100000,
     {1, 7, 15},
     {0.126543343f, 0.978717625f, -0.998509526f},
     {0.991961062f, 0.205211595f, -0.0545781069f}},
    {{0, 1, 0, 1e4f, 0, 0, 0},
     64,
     1,
     {1, 2, 31},
     {0.647905827f, 0.731760979f, 0.999933302f},
     {0.761720419f, 0.681561351f, 0.0115475627f}},
    {{0, 1, 0, 1e4f, 0, 0, 0},
     64,
     100000,
     {1, 7, 31},
     {-0.0068000718f, 0.89652133f, 0.244187981f},
     {0.999976873f, -0.443000585f, -0.969727933f}},
    {{8192, 1, 1, 5e5f, 32, 1, 4},
     32,
     4097,
     {2, 15, 16},
     {0.615462542f, 0.543823063f, -0.187972516f},
     {0.788166165f, -0.839199901f, 0.982174277f}},
    {{8192, 1, 1, 5e5f, 32, 1, 4},
     32,
     100000,
     {15, 16, 31},
     {-0.969037116f, 0.517706931f, 0.999955654f},
     {-0.246915132f, -0.855558038f, 0.00941816717f}},
};

SW_TEST("angles are those of transformers")
{
    for (int i = 0; i < N(known); i++) {
        float x[2 * SW_ROTARY_PAIRS] = {0}, y[2 * SW_ROTARY_PAIRS];
        const int64_t pairs = known[i].pairs;
        const sw_rotary_rows r =
            sw_rotary_of(&known[i].attrs, 2 * pairs, 2 * pairs, false, false);
        for (int64_t k = 0; k < pairs; k++)
            x[k] = 1.0f;
        sw_axes(SW_ISA_BASE)->rotary(y, x, &known[i].position, &r, &sw_par_alone);
        for (int k = 0; k < 3; k++) {
            const int64_t at = known[i].pair[k];
            SW_CHECK(fabsf(y[at] - known[i].cosine[k]) <= 2e-7f &&
                         fabsf(y[at + pairs] - known[i].sine[k]) <= 2e-7f,
                     "%d, pair %lld: %.9g and %.9g, not %.9g and %.9g", i, (long long)at,
                     (double)y[at], (double)y[at + pairs], (double)known[i].cosine[k],
                     (double)known[i].sine[k]);
        }
    }
}

SW_TEST("sin and cos of large angles are near their references")
{
    double worst = 0.0;
    for (uint32_t u = 0; u < 0x4f000000u; u += 1021) { /* below 2^31 */
        float s, c;
        const float a = sw_float_of(u);
        sw_sincosf(a, &s, &c);
        const double by = fabs((double)s - sin((double)a)),
                     also = fabs((double)c - cos((double)a));
        worst = by > worst ? by : worst;
        worst = also > worst ? also : worst;
    }
    sw_note("%.3g at most", worst);
    CU_ASSERT(worst < 1.2e-7);
}

SW_TEST("rotary has the same bits for every instruction set, in place and turned back")
{
    enum { rows = 37, width = 3 * 46 };
    static float x[rows * width], y[2][rows * width], back[rows * width];
    static int32_t positions[rows];
    const swi_rotary_attrs a = {0, 3, 0, 1e4f, 0, 0, 0};
    sw_rng_normal(x, 0, N(x), 3, 1, 0, 0);
    for (int i = 0; i < rows; i++)
        positions[i] = i * 3001 - 7;
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        sw_rotary_rows r = sw_rotary_of(&a, N(x), width, false, false);
        memcpy(y[isa > 0], x, sizeof x);
        sw_axes((sw_isa)isa)->rotary(y[isa > 0], y[isa > 0], positions, &r, &sw_par_alone);
        CU_ASSERT_EQUAL(memcmp(y[0], y[isa > 0], sizeof x), 0);
        r.back = true;
        sw_axes((sw_isa)isa)->rotary(back, y[isa > 0], positions, &r, &sw_par_alone);
        for (int i = 0; i < N(x); i++)
            CU_ASSERT(fabsf(back[i] - x[i]) <= 1e-6f * (1.0f + fabsf(x[i])));
        r.accumulate = true;
        sw_axes((sw_isa)isa)->rotary(back, y[isa > 0], positions, &r, &sw_par_alone);
        for (int i = 0; i < N(x); i++)
            CU_ASSERT(fabsf(back[i] - 2.0f * x[i]) <= 2e-6f * (1.0f + fabsf(x[i])));
    }
}

static const sw_rotary_opts llama3 = {
    sizeof(sw_rotary_opts), SW_ROTARY_LLAMA3, 5e5f, 32.0f, 1.0f, 4.0f, 8192};
TRAINS(turned, sw_rotary(c, sw_use(c, b->p), sw_input(c, 0), 4, &llama3))

SW_TEST("rotary has one result for all threads")
{
    enum { batch = 2, rows = 200, width = 4 * 64 };
    static int32_t positions[batch * rows];
    for (int i = 0; i < N(positions); i++)
        positions[i] = i * 17;
    const sw_array in = {SW_I32, SW_SHAPE(batch, rows), positions};
    bench_same_for_all_threads(turned, &in, 1, SW_SHAPE(batch, rows, width),
                               (int64_t)batch * rows * width, (int64_t)batch * rows * width);
}

static sw_rotary_opts rotary_opts;
TRAINS(turned_so, sw_rotary(c, sw_use(c, b->p), sw_input(c, 0), b->count, &rotary_opts))

SW_TEST("rotary refuses what cannot be")
{
    static const int32_t at[10] = {0};
    static const float numbers[10] = {0};
    const sw_array in = {SW_I32, SW_SHAPE(2, 5), at}, other = {SW_I32, SW_SHAPE(5, 2), at};
    const sw_array floats = {SW_F32, SW_SHAPE(2, 5), numbers};
    bench *const b = bench_new(1, SW_SHAPE(2, 5, 12));
    static const struct {
        int count;
        sw_rotary_opts opts;
        const char *words;
    } wrong[] = {
        {0, {.size = 0}, "heads must be at least 1 (got 0)"},
        {4, {.size = 0}, "a width of 4 equal heads, each of an even size"},
        {2, {.theta = 0.5f}, "theta must be 1 or more, and finite (got 0.5)"},
        {2, {.theta = NAN}, "theta must be 1 or more"},
        {2, {.rule = 2}, "rule must be SW_ROTARY_DEFAULT or SW_ROTARY_LLAMA3 (got 2)"},
        {2, {.factor = 8.0f}, "of the rule SW_ROTARY_LLAMA3 alone"},
        {2, {.rule = SW_ROTARY_LLAMA3}, "factor 1 or more"},
        {2, {0, SW_ROTARY_LLAMA3, 0, 8, 4, 4, 8192}, "(got 8, 4, 4 and 8192)"},
        {2, {0, SW_ROTARY_LLAMA3, 0, 8, 1, 4, 0}, "(got 8, 1, 4 and 0)"},
    };
    for (int i = 0; i < N(wrong); i++) {
        rotary_opts = wrong[i].opts;
        rotary_opts.size = sizeof rotary_opts;
        b->count = wrong[i].count;
        bench_refused(b, turned_so, &in, 1, wrong[i].words);
    }
    rotary_opts = SW_OPTS(sw_rotary_opts);
    b->count = 2;
    bench_refused(b, turned_so, &other, 1, "positions must be i32 (2, 5), as the rows of x");
    bench_refused(b, turned_so, &floats, 1, "got f32 (2, 5)");
    rotary_opts.size = 4;
    bench_refused(b, turned_so, &in, 1, "sw_rotary");
}

/* ---- attention_with ---------------------------------------------------------------------- */

enum { MOST = 1 << 15 };

/* A use of the op, and what came of it. */
typedef struct {
    const char *isa;
    int threads, heads, heads_kv;
    int64_t batch, queries, keys, size, value_size;
    const int32_t *first, *past; /* NULL: none */
    bool causal, by_old_name;
    float q[MOST], k[MOST], v[MOST], dy[MOST];
    float y[MOST], dq[MOST], dk[MOST], dv[MOST];
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *opt;
    sw_param p[3];
} use;

static int64_t kv_of(const use *u)
{
    return u->heads_kv != 0 ? u->heads_kv : u->heads;
}
static int64_t n_q(const use *u)
{
    return u->batch * u->queries * u->heads * u->size;
}
static int64_t n_k(const use *u)
{
    return u->batch * u->keys * kv_of(u) * u->size;
}
static int64_t n_v(const use *u)
{
    return u->batch * u->keys * kv_of(u) * u->value_size;
}
static int64_t n_y(const use *u)
{
    return u->batch * u->queries * u->heads * u->value_size;
}

static void attention_step(sw_ctx *c, void *user)
{
    use *u = user;
    const sw_value q = sw_use(c, u->p[0]), k = sw_use(c, u->p[1]), v = sw_use(c, u->p[2]);
    sw_attention_opts o = SW_OPTS(sw_attention_opts, .heads = u->heads, .heads_kv = u->heads_kv,
                                  .causal = u->causal);
    if (u->first != NULL)
        o.first = sw_input(c, 1);
    if (u->past != NULL)
        o.past = sw_input(c, u->first != NULL ? 2 : 1);
    const sw_value y = u->by_old_name ? sw_attention(c, q, k, v, u->heads, u->causal, 0.0f)
                                      : sw_attention_with(c, q, k, v, &o);
    sw_output(c, "y", y);
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    sw_backward(c, sw_sum(c, sw_mul(c, y, sw_input(c, 0)), 0), &u->opt, 1);
    sw_accumulate(c, u->opt);
}

static void close_use(void *arg)
{
    use *u = arg;
    sw_model_destroy(u->model);
    sw_exec_destroy(u->exec);
    u->model = NULL;
    u->exec = NULL;
}

static void open_use(use *u)
{
    const sw_shape shapes[] = {SW_SHAPE(u->batch, u->queries, u->heads * u->size),
                               SW_SHAPE(u->batch, u->keys, kv_of(u) * u->size),
                               SW_SHAPE(u->batch, u->keys, kv_of(u) * u->value_size)};
    static const char *const names[] = {"q", "k", "v"};
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    CU_ASSERT_FATAL(n_q(u) <= MOST && n_k(u) <= MOST && n_v(u) <= MOST && n_y(u) <= MOST);
    CU_ASSERT_EQUAL_FATAL(
        sw_exec_create(&u->exec, &SW_OPTS(sw_exec_opts, .threads = u->threads, .isa = u->isa)),
        SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&u->model, "attention"), SW_OK);
    for (int i = 0; i < 3; i++)
        u->p[i] = sw_param_new(u->model, names[i], SW_F32, shapes[i], "zeros");
    CU_ASSERT_EQUAL_FATAL(sw_optimizer_create(&u->opt, u->model, &opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_ready(u->model, u->exec, 5), SW_OK);
    sw_after(close_use, u);
}

static sw_status run_use(use *u, sw_mode mode)
{
    sw_array in[3] = {
        {SW_F32, SW_SHAPE(u->batch, u->queries, u->heads * u->value_size), u->dy}};
    int n = 1;
    if (u->first != NULL)
        in[n++] = (sw_array){SW_I32, SW_SHAPE(u->batch, u->queries), u->first};
    if (u->past != NULL)
        in[n++] = (sw_array){SW_I32, SW_SCALAR, u->past};
    OK(sw_param_write(u->p[0], u->q, (size_t)n_q(u) * sizeof(float)));
    OK(sw_param_write(u->p[1], u->k, (size_t)n_k(u) * sizeof(float)));
    OK(sw_param_write(u->p[2], u->v, (size_t)n_v(u) * sizeof(float)));
    return sw_run(u->exec,
                  &SW_OPTS(sw_run_args, .fn = attention_step, .user = u, .models = &u->model,
                           .n_models = 1, .inputs = in, .n_inputs = n, .mode = mode));
}

static void take_results(use *u, sw_mode mode)
{
    sw_array y = {.data = NULL};
    OK(run_use(u, mode));
    OK(sw_output_get(u->exec, "y", &y));
    memcpy(u->y, y.data, (size_t)n_y(u) * sizeof(float));
    if (mode == SW_EVAL)
        return;
    OK(sw_param_gradient(u->p[0], u->dq, (size_t)n_q(u) * sizeof(float)));
    OK(sw_param_gradient(u->p[1], u->dk, (size_t)n_k(u) * sizeof(float)));
    OK(sw_param_gradient(u->p[2], u->dv, (size_t)n_v(u) * sizeof(float)));
}

static void compute(use *u)
{
    open_use(u);
    take_results(u, SW_TRAIN);
    close_use(u);
}

static void draw(use *u)
{
    sw_rng_normal(u->q, 0, n_q(u), 3, 1, 0, 0);
    sw_rng_normal(u->k, 0, n_k(u), 3, 2, 0, 0);
    sw_rng_normal(u->v, 0, n_v(u), 3, 3, 0, 0);
    sw_rng_normal(u->dy, 0, n_y(u), 3, 4, 0, 0);
}

/* Float64, with k and v repeated for each head of q, and a mask that is made by hand. */
static struct {
    double k[4 * MOST], v[4 * MOST], p[MOST], ds[MOST];
    double y[MOST], dq[MOST], dk[MOST], dv[MOST];
    bool sees[MOST];
} plain;

static void plain_head(const use *u, int64_t b, int64_t h)
{
    const int64_t kv = kv_of(u), group = u->heads / kv, d = u->size, e = u->value_size;
    const double scale = 1.0 / sqrt((double)d);
    const double *k = plain.k + (b * u->heads + h) * u->keys * d;
    const double *v = plain.v + (b * u->heads + h) * u->keys * e;
    for (int64_t i = 0; i < u->queries; i++) {
        const int64_t q = ((b * u->queries + i) * u->heads + h) * d;
        const int64_t y = ((b * u->queries + i) * u->heads + h) * e;
        double most = -HUGE_VAL, total = 0.0, sum = 0.0;
        double *p = plain.p, *dp = plain.ds;
        for (int64_t j = 0; j < u->keys; j++) {
            p[j] = 0.0;
            for (int64_t c = 0; c < d; c++)
                p[j] += scale * (double)u->q[q + c] * k[j * d + c];
            if (plain.sees[(b * u->queries + i) * u->keys + j] && p[j] > most)
                most = p[j];
        }
        for (int64_t j = 0; j < u->keys; j++) {
            p[j] = plain.sees[(b * u->queries + i) * u->keys + j] ? exp(p[j] - most) : 0.0;
            total += p[j];
        }
        for (int64_t j = 0; j < u->keys; j++) {
            p[j] /= total;
            dp[j] = 0.0;
            for (int64_t c = 0; c < e; c++) {
                plain.y[y + c] += p[j] * v[j * e + c];
                dp[j] += (double)u->dy[y + c] * v[j * e + c];
            }
            sum += p[j] * dp[j];
        }
        for (int64_t j = 0; j < u->keys; j++) {
            const int64_t at = (b * u->keys + j) * kv + h / group;
            for (int64_t c = 0; c < d; c++) {
                plain.dq[q + c] += scale * p[j] * (dp[j] - sum) * k[j * d + c];
                plain.dk[at * d + c] += scale * p[j] * (dp[j] - sum) * (double)u->q[q + c];
            }
            for (int64_t c = 0; c < e; c++)
                plain.dv[at * e + c] += p[j] * (double)u->dy[y + c];
        }
    }
}

static void plain_use(const use *u)
{
    const int64_t kv = kv_of(u), group = u->heads / kv, d = u->size, e = u->value_size;
    memset(&plain, 0, sizeof plain);
    CU_ASSERT_FATAL(u->batch * u->queries * u->keys <= MOST);
    for (int64_t b = 0; b < u->batch; b++)
        for (int64_t i = 0; i < u->queries; i++)
            for (int64_t j = 0; j < u->keys; j++) {
                const int64_t own = (u->past != NULL ? *u->past : 0) + i;
                int64_t from = u->first != NULL ? u->first[b * u->queries + i] : 0;
                from = from < own ? from : own;
                from = from < u->keys ? from : u->keys - 1;
                plain.sees[(b * u->queries + i) * u->keys + j] =
                    j >= from && (!u->causal || j <= own);
            }
    for (int64_t b = 0; b < u->batch; b++)
        for (int64_t h = 0; h < u->heads; h++) {
            for (int64_t j = 0; j < u->keys; j++) {
                const int64_t from = (b * u->keys + j) * kv + h / group;
                const int64_t to = (b * u->heads + h) * u->keys + j;
                for (int64_t c = 0; c < d; c++)
                    plain.k[to * d + c] = (double)u->k[from * d + c];
                for (int64_t c = 0; c < e; c++)
                    plain.v[to * e + c] = (double)u->v[from * e + c];
            }
            plain_head(u, b, h);
        }
}

static double worst(const float *got, const double *want, int64_t n)
{
    double most = 0.0, by = 0.0;
    for (int64_t i = 0; i < n; i++) {
        most = fabs(want[i]) > most ? fabs(want[i]) : most;
        by = fabs((double)got[i] - want[i]) > by ? fabs((double)got[i] - want[i]) : by;
        by = got[i] != got[i] ? HUGE_VAL : by;
    }
    return by / most;
}

static use one, other;

/* Documents of rows: of image b those of 7 + b, then of 70 rows. */
static const int32_t *documents(const use *u)
{
    static int32_t first[512];
    CU_ASSERT_FATAL(u->batch * u->queries <= N(first));
    for (int64_t b = 0; b < u->batch; b++)
        for (int64_t i = 0, at = 0; i < u->queries; i++) {
            at = i == 7 + b || i == 77 + b ? i : at;
            first[b * u->queries + i] = (int32_t)at;
        }
    return first;
}

SW_TEST("results and gradients are those of repeated heads and masks")
{
    static const int32_t none = 0, some = 37, most = 66;
    static const struct {
        int heads, heads_kv;
        int64_t batch, queries, keys, size, value_size;
        bool causal, documents;
        const int32_t *past;
    } shapes[] = {
        {6, 2, 2, 70, 70, 8, 5, true, false, NULL},
        {4, 1, 1, 65, 65, 16, 16, true, false, NULL},
        {3, 1, 2, 9, 70, 6, 10, false, false, NULL},
        {2, 0, 2, 90, 90, 8, 8, true, true, NULL},
        {4, 2, 1, 140, 140, 16, 8, true, true, NULL},
        {4, 2, 1, 70, 136, 5, 6, true, false, &most},
        {2, 1, 1, 1, 100, 16, 16, true, false, &some},
        {2, 2, 1, 3, 100, 16, 16, true, true, &none},
        {2, 1, 1, 80, 140, 72, 68, true, true, &some},
        {7, 1, 1, 12, 12, 64, 64, true, false, NULL},
    };
    for (int i = 0; i < N(shapes); i++) {
        use *u = &one;
        *u = (use){.threads = 2,
                   .heads = shapes[i].heads,
                   .heads_kv = shapes[i].heads_kv,
                   .batch = shapes[i].batch,
                   .queries = shapes[i].queries,
                   .keys = shapes[i].keys,
                   .size = shapes[i].size,
                   .value_size = shapes[i].value_size,
                   .causal = shapes[i].causal,
                   .past = shapes[i].past};
        u->first = shapes[i].documents ? documents(u) : NULL;
        draw(u);
        compute(u);
        plain_use(u);
        const double by[] = {worst(u->y, plain.y, n_y(u)), worst(u->dq, plain.dq, n_q(u)),
                             worst(u->dk, plain.dk, n_k(u)), worst(u->dv, plain.dv, n_v(u))};
        for (int k = 0; k < 4; k++)
            SW_CHECK(by[k] < 2e-6, "shape %d, %s: %g", i,
                     ((const char *[]){"y", "dq", "dk", "dv"})[k], by[k]);
    }
}

/* Rows [at, at + n) of `to` are those of `from`, which has n. */
static void put_rows(float *to, const float *from, int64_t at, int64_t n, int64_t width)
{
    memcpy(to + at * width, from, (size_t)(n * width) * sizeof *to);
}

/* By how much rows from `at` on differ, of the largest. */
static double differ(const float *a, const float *b, int64_t at, int64_t n, int64_t width)
{
    double want[MOST];
    for (int64_t i = 0; i < n * width; i++)
        want[i] = (double)b[i];
    return worst(a + at * width, want, n * width);
}

SW_TEST("a packed document has the bits that it has alone")
{
    enum { rows = 150, after = 33, heads = 4, size = 16 };
    static const int64_t offsets[] = {1, 63, 64, 65, 100};
    static int32_t first[100 + rows + after];
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int kv = 1; kv <= heads; kv *= 2)
            for (int i = 0; i < N(offsets); i++) {
                const int64_t at = offsets[i], all = at + rows + after, width = heads * size;
                const int64_t narrow = kv * size;
                one = (use){.isa = sw_isa_name((sw_isa)isa),
                            .threads = 1,
                            .heads = heads,
                            .heads_kv = kv,
                            .batch = 1,
                            .queries = rows,
                            .keys = rows,
                            .size = size,
                            .value_size = size,
                            .causal = true};
                draw(&one);
                compute(&one);
                other = one;
                other.queries = other.keys = all;
                other.first = first;
                draw(&other);
                for (int64_t r = 0; r < all; r++)
                    first[r] = (int32_t)(r < at ? 0 : r < at + rows ? at : at + rows);
                put_rows(other.q, one.q, at, rows, width);
                put_rows(other.k, one.k, at, rows, narrow);
                put_rows(other.v, one.v, at, rows, narrow);
                put_rows(other.dy, one.dy, at, rows, width);
                compute(&other);
                SW_CHECK(memcmp(other.y + at * width, one.y,
                                (size_t)(rows * width) * sizeof(float)) == 0,
                         "%s, %d heads of k, offset %lld", one.isa, kv, (long long)at);
                const double by[] = {differ(other.dq, one.dq, at, rows, width),
                                     differ(other.dk, one.dk, at, rows, narrow),
                                     differ(other.dv, one.dv, at, rows, narrow)};
                for (int g = 0; g < 3; g++)
                    SW_CHECK(by[g] <= 1e-5, "gradient %d, offset %lld: %g", g, (long long)at,
                             by[g]);
            }
}

/* The cache is longer than what it holds, and NaN there. */
SW_TEST("tokens with a cache have the bits of the whole window, by one plan")
{
    enum { rows = 140, context = 200, heads = 4, kv = 2, size = 8 };
    static int32_t past;
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        one = (use){.isa = sw_isa_name((sw_isa)isa),
                    .threads = 2,
                    .heads = heads,
                    .heads_kv = kv,
                    .batch = 1,
                    .queries = rows,
                    .keys = rows,
                    .size = size,
                    .value_size = size,
                    .causal = true};
        draw(&one);
        compute(&one);
        other = one;
        other.queries = 1;
        other.keys = context;
        other.past = &past;
        open_use(&other);
        for (past = 0; past < rows; past++) {
            for (int64_t i = 0; i < n_k(&other); i++) {
                const bool there = i < (past + 1) * kv * size;
                other.k[i] = there ? one.k[i] : NAN;
                other.v[i] = there ? one.v[i] : NAN;
            }
            put_rows(other.q, one.q + past * heads * size, 0, 1, heads * size);
            take_results(&other, SW_EVAL);
            SW_CHECK(
                memcmp(other.y, one.y + past * heads * size, heads * size * sizeof(float)) == 0,
                "%s, token %d", one.isa, past);
        }
        CU_ASSERT_EQUAL(other.exec->n_frames, 1);
        close_use(&other);
    }
}

SW_TEST("attention with shared heads has one result for all threads")
{
    static const int32_t past = 20;
    for (int threads = 1; threads <= 4; threads++) {
        use *u = threads == 1 ? &one : &other;
        *u = (use){.threads = threads,
                   .heads = 6,
                   .heads_kv = 2,
                   .batch = 2,
                   .queries = 150,
                   .keys = 200,
                   .size = 8,
                   .value_size = 8,
                   .causal = true,
                   .past = &past};
        u->first = documents(u);
        draw(u);
        compute(u);
        CU_ASSERT_EQUAL(memcmp(u->y, one.y, (size_t)n_y(u) * sizeof(float)), 0);
        CU_ASSERT_EQUAL(memcmp(u->dq, one.dq, (size_t)n_q(u) * sizeof(float)), 0);
        CU_ASSERT_EQUAL(memcmp(u->dk, one.dk, (size_t)n_k(u) * sizeof(float)), 0);
        CU_ASSERT_EQUAL(memcmp(u->dv, one.dv, (size_t)n_v(u) * sizeof(float)), 0);
    }
}

SW_TEST("one head of k and v takes no more scratch than all")
{
    int cases = 0;
    for (int half = 0; half < 2; half++)
        for (int threads = 1; threads <= 16; threads *= 2)
            for (int64_t rows = 1; rows <= 2048; rows *= 8)
                for (unsigned makes = 0; makes < 8; makes++) {
                    sw_attention_shape s = {.batch = 1,
                                            .queries = rows,
                                            .keys = rows,
                                            .heads = 14,
                                            .heads_kv = 14,
                                            .size = 64,
                                            .value_size = 64,
                                            .causal = true,
                                            .half = half};
                    const sw_axes_kernels *by = sw_axes(sw_cpu_isa());
                    const size_t all = makes == 0
                                           ? by->attention_bytes(&s, threads)
                                           : by->attention_grad_bytes(&s, makes, threads);
                    s.heads_kv = 1;
                    const size_t shared = makes == 0
                                              ? by->attention_bytes(&s, threads)
                                              : by->attention_grad_bytes(&s, makes, threads);
                    SW_CHECK(all > 0 && shared <= all, "%zu, %zu with all", shared, all);
                    cases++;
                }
    CU_ASSERT_EQUAL(cases, 2 * 5 * 4 * 8);
}

SW_TEST("sw_attention is the case without options")
{
    for (int kv = 0; kv <= 3; kv += 3) {
        one = (use){.threads = 2,
                    .heads = 3,
                    .batch = 1,
                    .queries = 70,
                    .keys = 70,
                    .size = 16,
                    .value_size = 16,
                    .causal = true,
                    .by_old_name = true};
        draw(&one);
        compute(&one);
        other = one;
        other.by_old_name = false;
        other.heads_kv = kv;
        compute(&other);
        CU_ASSERT_EQUAL(memcmp(one.y, other.y, (size_t)n_y(&one) * sizeof(float)), 0);
        CU_ASSERT_EQUAL(memcmp(one.dk, other.dk, (size_t)n_k(&one) * sizeof(float)), 0);
    }
}

/* Run, and be refused with these words. */
static void refused(use *u, sw_mode mode, const char *words)
{
    open_use(u);
    REFUSED(run_use(u, mode), SW_INVALID, words);
    close_use(u);
}

SW_TEST("attention_with refuses what cannot be")
{
    static int32_t past, first[5];
    use *u = &one;
    *u = (use){.threads = 1,
               .heads = 4,
               .heads_kv = 3,
               .batch = 1,
               .queries = 5,
               .keys = 6,
               .size = 6,
               .value_size = 6,
               .causal = true};
    refused(u, SW_TRAIN, "heads_kv must divide the 4 heads (got 3)");
    u->heads_kv = 2;
    u->past = &past;
    u->causal = false;
    refused(u, SW_TRAIN, "first and past must be with causal");
    u->causal = true;
    u->keys = 4;
    refused(u, SW_TRAIN, "at least as many as the queries (got 4 keys and 5 queries)");
    u->keys = 6;
    past = 2;
    refused(u, SW_TRAIN, "past must be 0 to 1, the 6 keys less the 5 queries (got 2)");
    past = -1;
    refused(u, SW_EVAL, "(got -1)");
    past = 1;
    u->first = first;
    first[3] = -7;
    refused(u, SW_TRAIN, "first must be 0 or more (got -7 at (0, 3))");
    first[3] = 2147483647;
    open_use(u);
    OK(run_use(u, SW_TRAIN));
    close_use(u);
}

static int wrong_operand;
static void wrong_step(sw_ctx *c, void *user)
{
    bench *b = user;
    const sw_value x = sw_use(c, b->p), in = sw_input(c, 0);
    sw_attention_opts o = SW_OPTS(sw_attention_opts, .heads = 4, .causal = 1);
    if (wrong_operand == 0)
        o.first = in;
    else if (wrong_operand == 1)
        o.past = in;
    else if (wrong_operand == 2)
        o.heads_kv = 2; /* k is as wide as q */
    else
        o.heads_kv = -1;
    bench_train(c, b, sw_attention_with(c, x, x, x, wrong_operand < 4 ? &o : NULL));
}

SW_TEST("operands of attention_with have their types and shapes")
{
    static const int32_t at[10] = {0};
    static const float numbers[10] = {0};
    const sw_array rows = {SW_I32, SW_SHAPE(5, 2), at},
                   floats = {SW_F32, SW_SHAPE(2, 5), numbers};
    bench *const b = bench_new(1, SW_SHAPE(2, 5, 8));
    bench_refused(b, wrong_step, &rows, 1, "first must be i32 (2, 5), as the queries");
    bench_refused(b, wrong_step, &floats, 1, "got f32 (2, 5)");
    wrong_operand = 1;
    bench_refused(b, wrong_step, &rows, 1, "past must be one i32 number (got i32 (5, 2))");
    wrong_operand = 2;
    bench_refused(b, wrong_step, &rows, 1, "(batch, keys, width of fewer heads)");
    wrong_operand = 3;
    bench_refused(b, wrong_step, &rows, 1, "heads_kv must divide the 4 heads (got -1)");
    wrong_operand = 4;
    bench_refused(b, wrong_step, &rows, 1, "heads must be at least 1 (got 0)");
}
