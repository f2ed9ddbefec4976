/* All kinds of optimizers: their list, one set of bits however they run, copies, and
 * adafactor against plain C. */
#include "tests/runtime/optimizer_nets.h"
#include <unistd.h>

SW_TESTS("optimizer kinds")

#define STEPS 4

SW_TEST("the list has every kind once")
{
    static const char *const first[] = {"sgd",     "adam", "adamw",    "rmsprop",
                                        "adagrad", "lion", "adafactor"};
    char known[300] = "";
    size_t n = 0;
    for (const char *kind; (kind = sw_optimizer_kind(n)) != NULL; n++) {
        if (n < sizeof first / sizeof *first)
            CU_ASSERT_STRING_EQUAL(kind, first[n]);
        for (size_t i = 0; i < n; i++)
            CU_ASSERT_STRING_NOT_EQUAL(kind, sw_optimizer_kind(i));
        on_net n1;
        on_start(&n1, &SW_OPTS(sw_optimizer_opts, .kind = kind));
        on_end();
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                 n == 0                             ? ""
                 : sw_optimizer_kind(n + 1) == NULL ? " and "
                                                    : ", ",
                 kind);
    }
    CU_ASSERT(n >= sizeof first / sizeof *first);
    CU_ASSERT_PTR_NULL(sw_optimizer_kind(SIZE_MAX));
    strcat(known, " (got 'adamax')");
    on_net n1;
    on_begin(&n1);
    REFUSED(
        sw_optimizer_create(&n1.opt, n1.model, &SW_OPTS(sw_optimizer_opts, .kind = "adamax")),
        SW_INVALID, known);
}

SW_TEST("one set of bits for threads, immediate runs, release and after")
{
    sw_exec *one = net_exec(NULL), *many[6];
    for (int way = 0; way < 6; way++)
        many[way] =
            net_exec(&SW_OPTS(sw_exec_opts, .seed = 11, .threads = way < 3 ? way + 2 : 2));
    for (size_t k = 0; k < ON_KINDS; k++)
        for (int clip = sw_tests_full() ? 0 : (int)(k % 2); clip < 2;
             clip += sw_tests_full() ? 1 : 2) {
            on_net plain;
            on_end();
            on_start(&plain, &on_opts[k]);
            plain.clip = clip;
            OK(sw_model_ready(plain.model, one, 3));
            const void *before = on_bytes(&plain);
            for (int t = 0; t < STEPS; t++)
                OK(on_run(one, &plain, t, false));
            /* Every test in this file that compares moves: a step that changes nothing would
             * pass it. */
            CU_ASSERT(!net_same_bytes(plain.model, before));
            for (int way = 0; way < 6; way++) {
                static const char *const ways[] = {"2 threads", "3 threads", "4 threads",
                                                   "immediate", "release",   "after"};
                sw_optimizer_opts opts = on_opts[k];
                opts.update = way == 4   ? SW_UPDATE_RELEASE
                              : way == 5 ? SW_UPDATE_AFTER
                                         : SW_UPDATE_DEFAULT;
                if (clip && way == 4)
                    continue;
                on_net other;
                sw_exec *exec = many[way];
                on_start(&other, &opts);
                other.clip = clip;
                OK(sw_model_ready(other.model, exec, 3));
                for (int t = 0; t < STEPS; t++)
                    OK(on_run(exec, &other, t, way == 3));
                if (!SW_CHECK(net_same(plain.model, other.model), "%s %zu, clip %d, %s",
                              opts.kind, k, clip, ways[way]))
                    return;
            }
        }
}

/* A copy goes on as the original does: moments, sums and counters are part of it. */
SW_TEST("copies go on alike")
{
    sw_exec *exec = net_exec(NULL);
    for (size_t k = 0; k < ON_KINDS; k++) {
        on_net a, b;
        on_end();
        on_start(&a, &on_opts[k]);
        on_start(&b, &on_opts[k]);
        OK(sw_model_ready(a.model, exec, 3));
        OK(sw_model_ready(b.model, exec, 4));
        for (int t = 0; t < STEPS; t++)
            OK(on_run(exec, &a, t, false));
        OK(sw_model_copy(b.model, a.model));
        for (int t = STEPS; t < 2 * STEPS; t++) {
            OK(on_run(exec, &a, t, false));
            OK(on_run(exec, &b, t, true));
        }
        SW_CHECK(net_same(a.model, b.model), "%s %zu", on_opts[k].kind, k);
    }
}

/* The witnesses watch what the updates touch, also where nothing is to be done. */
SW_TEST("the witnesses agree")
{
    sw_exec *exec = net_exec(NULL);
    for (size_t k = 0; k < ON_KINDS; k++)
        for (int way = sw_tests_full() ? 0 : (int)(k % 3); way < 3;
             way += sw_tests_full() ? 1 : 3) {
            on_net n;
            on_end();
            sw_optimizer_opts opts = on_opts[k];
            opts.update = way == 2 ? SW_UPDATE_RELEASE : SW_UPDATE_DEFAULT;
            on_start(&n, &opts);
            n.clip = way == 1;
            OK(on_run(exec, &n, 0, false));
            for (int bad = 0; bad < 2; bad++) {
                n.factor[3] = bad ? NAN : 1.0f;
                const sw_run_args args = on_args(&n);
                sw_witness_info info = SW_OPTS(sw_witness_info);
                OK(sw_witness(exec, &args,
                              bad ? SW_WITNESS_ACCESS | SW_WITNESS_DEATH : SW_WITNESS_ALL,
                              &info));
                SW_CHECK(info.n_faults == 0, "%s %zu, way %d, bad %d: %s", opts.kind, k, way,
                         bad, info.first_fault);
            }
        }
}

/* ---- adafactor --------------------------------------------------------------------------- */

enum { MOST = 400 };
typedef struct {
    int n, rows, cols; /* rows 0: a vector of cols */
    double w[MOST], g[MOST], row[MOST], col[MOST];
} plain_matrix;

static double size_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum / n);
}

/* PyTorch's torch.optim.Adafactor, or with the rate as it stands. */
static void plain_adafactor(plain_matrix *m, const sw_optimizer_opts *o, double lr, int t)
{
    static double u[MOST];
    const int rows = m->rows > 0 ? m->rows : 1, each = rows * m->cols, all = m->n * each;
    const double fresh = pow(t, o->beta2_decay != 0.0f ? -(double)o->beta2_decay : -0.8);
    const double least = o->least_scale != 0.0f ? (double)o->least_scale : 1e-3;
    const double d = o->clip_threshold != 0.0f ? (double)o->clip_threshold : 1.0;
    const double eps = o->epsilon != 0.0f ? (double)o->epsilon : 0x1p-23;
    const double step =
        o->fixed_rate ? lr : fmin(lr, 1.0 / sqrt(t)) * fmax(least, size_of(m->w, all));
    for (int b = 0; b < m->n; b++) {
        const double *g = m->g + b * each;
        double *row = m->row + b * rows, *col = m->col + b * m->cols, mean = 0;
        for (int r = 0; m->rows > 0 && r < rows; r++) {
            const double size = size_of(g + r * m->cols, m->cols);
            row[r] += fresh * (size * size - row[r]);
            mean += row[r] / rows;
        }
        for (int c = 0; c < m->cols; c++) {
            double sum = 0;
            for (int r = 0; r < rows; r++)
                sum += g[r * m->cols + c] * g[r * m->cols + c] / rows;
            col[c] += fresh * (sum - col[c]);
        }
        for (int i = 0; i < each; i++) {
            const double v =
                m->rows > 0 ? row[i / m->cols] * col[i % m->cols] / fmax(mean, eps) : col[i];
            u[b * each + i] = g[i] / sqrt(fmax(v, eps * eps));
        }
    }
    const double over = fmax(1.0, size_of(u, all) / d);
    for (int i = 0; i < all; i++)
        m->w[i] = m->w[i] * (1.0 - lr * (double)o->weight_decay) - step / over * u[i];
}

typedef struct {
    sw_model *model;
    sw_param w;
    sw_optimizer *opt;
} one_param;

static void one_step(sw_ctx *c, void *user)
{
    one_param *p = user;
    sw_backward(c, sw_sum(c, sw_mul(c, sw_use(c, p->w), sw_input(c, 0)), 0), &p->opt, 1);
    sw_update(c, p->opt);
}

static void compare_adafactor(sw_shape shape, int n, int rows, int cols,
                              const sw_optimizer_opts *opts)
{
    static float w[MOST], g[MOST];
    plain_matrix m = {.n = n, .rows = rows, .cols = cols};
    const int all = n * (rows > 0 ? rows : 1) * cols;
    const size_t bytes = (size_t)all * sizeof *w;
    one_param p = {0};
    sw_exec *exec = net_exec(NULL);
    p.model = made_model("m");
    p.w = sw_param_new(p.model, "w", SW_F32, shape, "normal:0.5");
    OK(sw_optimizer_create(&p.opt, p.model, opts));
    OK(sw_model_ready(p.model, exec, 5));
    OK(sw_param_read(p.w, w, bytes));
    for (int i = 0; i < all; i++)
        m.w[i] = (double)w[i];
    const sw_array in = {SW_F32, shape, g};
    for (int t = 1; t <= 10; t++) {
        for (int i = 0; i < all; i++)
            m.g[i] =
                (double)(g[i] = sinf((float)(i * 7 + t * 3)) * (i % 11 == 0 ? 5.0f : 0.2f));
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = one_step, .user = &p, .models = &p.model,
                                 .n_models = 1, .inputs = &in, .n_inputs = 1)));
        plain_adafactor(&m, opts, opts->lr != 0.0f ? (double)opts->lr : 0.01, t);
        OK(sw_param_read(p.w, w, bytes));
        for (int i = 0; i < all; i++)
            if (!SW_CHECK(fabs((double)w[i] - m.w[i]) < 1e-5 * (1.0 + fabs(m.w[i])),
                          "%d x %d x %d, step %d, element %d: %.8g, not %.8g", n, rows, cols, t,
                          i, (double)w[i], m.w[i]))
                return;
    }
}

SW_TEST("adafactor is that of plain C")
{
    static const sw_optimizer_opts opts[] = {
        {.size = sizeof *opts, .kind = "adafactor"},
        {.size = sizeof *opts, .kind = "adafactor", .lr = 0.8f, .weight_decay = 0.1f},
        SW_INIT(.size = sizeof *opts, .kind = "adafactor", .fixed_rate = 1, .lr = 0.02f,
                .clip_threshold = 0.3f, .beta2_decay = 0.5f),
        {.size = sizeof *opts, .kind = "adafactor", .least_scale = 2.0f, .epsilon = 0.1f},
    };
    for (size_t k = 0; k < sizeof opts / sizeof *opts; k++) {
        compare_adafactor((sw_shape){0, {0}}, 1, 0, 1, &opts[k]);
        compare_adafactor((sw_shape){1, {37}}, 1, 0, 37, &opts[k]);
        compare_adafactor((sw_shape){2, {1, 5}}, 1, 1, 5, &opts[k]);
        compare_adafactor((sw_shape){2, {7, 1}}, 1, 7, 1, &opts[k]);
        compare_adafactor((sw_shape){2, {13, 29}}, 1, 13, 29, &opts[k]);
        compare_adafactor((sw_shape){4, {4, 3, 5, 2}}, 12, 5, 2, &opts[k]);
    }
}

/* Of a matrix its rows and columns are kept, nothing else. */
SW_TEST("adafactor keeps rows and columns")
{
    sw_exec *exec = net_exec(NULL);
    on_net n;
    on_start(&n, &SW_OPTS(sw_optimizer_opts, .kind = "adafactor"));
    OK(sw_model_ready(n.model, exec, 1));
    size_t kept = 0, wanted = 0;
    for (uint32_t e = 1; e < n.model->n_entries; e++)
        if (n.model->entries[e].role == SWI_ROLE_OPTIMIZER_STATE &&
            n.model->entries[e].dtype == SW_F32)
            kept += n.model->entries[e].bytes;
    for (int i = 0; i < ON_PARAMS; i++) {
        const sw_shape *s = &on_shapes[i];
        const int64_t all = swi_elements(s);
        wanted +=
            (size_t)(s->rank < 2 ? all
                                 : all / s->dim[s->rank - 1] + all / s->dim[s->rank - 2]) *
            sizeof(float);
    }
    CU_ASSERT_EQUAL(kept, wanted);
    CU_ASSERT_EQUAL(n.model->entries[n.model->entries[n.w[3].index].state[0]].bytes, 4 * 257);
    CU_ASSERT_EQUAL(n.model->entries[n.model->entries[n.w[3].index].state[1]].bytes, 4 * 130);
}

/* Codes of the parameter's shape and scales of its rows; below 4,096 elements, and of one
 * column, float32. */
SW_TEST("states in 8 bits are codes and scales")
{
    static const struct {
        sw_shape shape, scales; /* rank 0: float32 */
    } of[] = {{{1, {4095}}, {0, {0}}},        {{1, {4096}}, {1, {16}}},
              {{2, {5000, 1}}, {0, {0}}},     {{2, {3000, 2}}, {2, {3000, 1}}},
              {{2, {16, 257}}, {2, {16, 2}}}, {{4, {8, 64, 3, 3}}, {2, {8, 3}}}};
    enum { N = sizeof of / sizeof *of };
    static const char *const names[] = {"m", "m.scales", "v", "v.scales"};
    sw_model *model = made_model("coded");
    sw_param w[N];
    sw_optimizer *opt;
    for (int i = 0; i < N; i++)
        w[i] =
            sw_param_new(model, (const char[]){(char)('a' + i), 0}, SW_F32, of[i].shape, NULL);
    sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adagrad", .state_bits = 8);
    REFUSED(sw_optimizer_create(&opt, model, &opts), SW_UNSUPPORTED, "adagrad");
    opts.kind = "sgd";
    REFUSED(sw_optimizer_create(&opt, model, &opts), SW_UNSUPPORTED, "sgd with a momentum");
    opts.kind = "adam";
    opts.state_bits = 4;
    REFUSED(sw_optimizer_create(&opt, model, &opts), SW_INVALID,
            "state_bits must be 0, 8 or 32");
    opts.state_bits = 8;
    OK(sw_optimizer_create(&opt, model, &opts));
    for (int i = 0; i < N; i++) {
        const uint32_t *state = model->entries[w[i].index].state;
        const bool coded = of[i].scales.rank > 0;
        CU_ASSERT((state[2] != SWI_NONE) == coded && (state[3] != SWI_NONE) == coded);
        for (int k = 0; k < (coded ? 4 : 2); k++) {
            const swi_entry *e = &model->entries[state[k]];
            const bool scales = coded && k % 2 == 1;
            CU_ASSERT_EQUAL(e->dtype, coded && !scales ? SW_U8 : SW_F32);
            CU_ASSERT(swi_same_shape(&e->shape, scales ? &of[i].scales : &of[i].shape));
            CU_ASSERT_STRING_EQUAL(e->name + 2, names[coded ? k : 2 * k]);
        }
    }
}

/* A state that does not begin with zeros begins so again: made ready, and loaded after
 * damage. */
SW_TEST("sums begin where they are ordered to")
{
    sw_exec *exec = net_exec(NULL);
    on_net n;
    const char *path = "sums.safetensors";
    on_start(&n, &SW_OPTS(sw_optimizer_opts, .kind = "adagrad", .initial_accumulator = 0.1f));
    for (int way = 0; way < 2; way++) {
        if (way == 0) {
            OK(sw_model_ready(n.model, exec, 1));
            OK(sw_model_save(n.model, path));
        } else {
            n.model->damaged = true;
            OK(sw_model_load(n.model, path));
        }
        const swi_entry *sum = &n.model->entries[n.model->entries[n.w[2].index].state[0]];
        const float *at = (const float *)(const void *)(n.model->base + sum->offset);
        for (size_t i = 0; i < sum->bytes / sizeof *at; i++)
            CU_ASSERT_EQUAL(at[i], 0.1f);
        OK(on_run(exec, &n, 0, false));
        CU_ASSERT(at[0] > 0.1f);
    }
    unlink(path);
}
