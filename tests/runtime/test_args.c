/* Bad arguments, models and their declarations, random streams, phases: the small print of the
 * header. */
#include "tests/runtime/nets.h"

SW_TESTS("arguments")

static void nothing(sw_ctx *c, void *user)
{
}

SW_TEST("bad run arguments are refused by name")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 4);
    const sw_run_args good = net_args(n, &b);
    sw_run_args a = good;
    a.size = 0;
    REFUSED(sw_run(exec, &a), SW_INVALID, "size");
    a = good;
    a.fn = NULL;
    REFUSED(sw_run(exec, &a), SW_INVALID, "step function");
    a = good;
    a.n_models = 17;
    REFUSED(sw_run(exec, &a), SW_INVALID, "at most 16 models and 16 inputs (got 17 and 2)");
    a = good;
    a.n_inputs = -1;
    REFUSED(sw_run(exec, &a), SW_INVALID, "(got 1 and -1)");
    a = good;
    a.models = NULL;
    REFUSED(sw_run(exec, &a), SW_INVALID, "NULL");
    sw_model *const twice[] = {n->model, n->model}, *const none[] = {NULL};
    a.models = twice;
    a.n_models = 2;
    REFUSED(sw_run(exec, &a), SW_INVALID, "listed twice");
    a.models = none;
    a.n_models = 1;
    REFUSED(sw_run(exec, &a), SW_INVALID, "model 0 is NULL");
    sw_array in[2];
    a = good;
    a.inputs = in;
    memcpy(in, b.in, sizeof in);
    in[1].shape.dim[0] = -4;
    REFUSED(sw_run(exec, &a), SW_INVALID, "input 1 must have a known type and a valid shape");
    memcpy(in, b.in, sizeof in);
    in[0].shape.rank = 9;
    REFUSED(sw_run(exec, &a), SW_INVALID, "input 0");
    memcpy(in, b.in, sizeof in);
    in[0].dtype = (sw_dtype)17;
    REFUSED(sw_run(exec, &a), SW_INVALID, "input 0");
    memcpy(in, b.in, sizeof in);
    in[0].shape = SW_SHAPE(INT64_MAX / 2, 8);
    REFUSED(sw_run(exec, &a), SW_INVALID, "input 0");
    a = good;
    a.mode = (sw_mode)7;
    REFUSED(sw_run(exec, &a), SW_INVALID, "(got 7)");
    a = good;
    a.step = (uint64_t)UINT32_MAX + 1;
    REFUSED(sw_run(exec, &a), SW_INVALID, "(got 4294967296)");
    sw_plan_info plan = {.size = 0};
    REFUSED(sw_plan(exec, &good, &plan), SW_INVALID, "size");
    sw_run_info info = {.size = 0};
    REFUSED(sw_last_run(exec, &info), SW_INVALID, "size");
    CU_ASSERT_EQUAL(n->times_called, 0);
    OK(sw_run(exec, &good));
    sw_run_args empty = SW_OPTS(sw_run_args, .fn = nothing);
    OK(sw_run(exec, &empty)); /* no op at all is a program too */
    empty.immediate = 1;
    OK(sw_run(exec, &empty));
}

SW_TEST("bad exec options are refused; short ones are filled with zeros")
{
    static const struct {
        sw_exec_opts opts;
        sw_status status;
        const char *part;
    } bad[] = {
        {{.size = 0}, SW_INVALID, "size"},
        {SW_OPTS(sw_exec_opts, .threads = -1), SW_INVALID, "threads must be 1 to 256 (got -1)"},
        {SW_OPTS(sw_exec_opts, .threads = 257), SW_INVALID, "(got 257)"},
        {SW_OPTS(sw_exec_opts, .device = "cuda:9999"), SW_DEVICE, "CUDA"},
        {SW_OPTS(sw_exec_opts, .device = "cuda:x"), SW_INVALID, "'cuda:x'"},
        {SW_OPTS(sw_exec_opts, .device = "sim"), SW_DEVICE, "'sim'"},
        {SW_OPTS(sw_exec_opts, .device = "abacus"), SW_INVALID, "'abacus'"},
        {SW_OPTS(sw_exec_opts, .isa = "mmx"), SW_INVALID, "'mmx'"},
    };
    sw_exec *exec = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(sw_exec_create(&exec, &bad[i].opts), bad[i].status, bad[i].part);
    CU_ASSERT_PTR_NULL(exec);
    sw_exec_destroy(NULL);
    /* No header had so short a struct: a budget would be dropped silently. */
    const sw_exec_opts old = {.size = offsetof(sw_exec_opts, budget),
                              .threads = 2,
                              .budget = (sw_budget *)(uintptr_t)16};
    REFUSED(sw_exec_create(&exec, &old), SW_INVALID, "set it to sizeof(sw_exec_opts)");
    CU_ASSERT_PTR_NULL(exec);
}

/* ---- declarations ------------------------------------------------------------------------ */

SW_TEST("declarations keep their first error")
{
    static const struct {
        const char *name, *init;
        sw_dtype dtype;
        sw_shape shape;
        sw_status status;
        const char *part;
    } bad[] = {
        {"w", "nonsense", SW_F32, {1, {2}}, SW_INVALID, "'nonsense'"},
        {"w", "normal:x", SW_F32, {1, {2}}, SW_INVALID, "'normal:x'"},
        {"w", "uniform:2,1", SW_F32, {1, {2}}, SW_INVALID, "'uniform:2,1'"},
        {"w", "zeros", SW_I32, {1, {2}}, SW_UNSUPPORTED, "i32"},
        {"w", "zeros", SW_F32, {1, {0}}, SW_INVALID, "the dims of 'w'"},
        {"w", "zeros", SW_F32, {3, {1 << 30, 1 << 30, 1 << 30}}, SW_INVALID, "the dims of 'w'"},
        {"", "zeros", SW_F32, {1, {2}}, SW_INVALID, "name"},
        {"first", "zeros", SW_F32, {1, {2}}, SW_INVALID, "two entries are named 'first'"},
    };
    sw_exec *exec = net_exec(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t bytes;
        sw_model *m = made_model("m");
        const sw_param first = sw_param_new(m, "first", SW_F32, SW_SHAPE(2), "ones");
        CU_ASSERT(first.index != 0);
        const sw_param p =
            sw_param_new(m, bad[i].name, bad[i].dtype, bad[i].shape, bad[i].init);
        CU_ASSERT_EQUAL(p.index, 0);
        (void)sw_param_new(m, "later", SW_F32, SW_SHAPE(2), "and another error");
        REFUSED(sw_model_ready(m, exec, 1), bad[i].status, bad[i].part);
        REFUSED(sw_model_bytes(m, &bytes), bad[i].status, bad[i].part);
        CU_ASSERT_EQUAL(sw_model_layout_hash(m), 0);
    }
}

/* The declarations of the second of two models, and the words that report the difference. */
SW_TEST("layouts that differ say where")
{
    static const struct {
        const char *name, *knob;
        int64_t width;
        bool more;
        const char *says;
    } second[] = {
        {"w", "k", 4, false, NULL},
        {"w", "k", 5, false, "'w' is (3, 4) in the first and (3, 5) in the second"},
        {"v", "k", 4, false, "the first has 'w' where the second has 'v'"},
        {"w", "k", 4, true, "only the second has 'b'"},
        {"w", NULL, 4, false, "the first has 1 and the second 0 knobs"},
    };
    sw_exec *exec = net_exec(NULL);
    sw_model *a = made_model("a");
    (void)sw_param_new(a, "w", SW_F32, SW_SHAPE(3, 4), "ones");
    (void)sw_knob_new(a, "k", 1.0f);
    OK(sw_model_ready(a, exec, 1));
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
        sw_model *b = made_model("b");
        (void)sw_param_new(b, second[i].name, SW_F32, SW_SHAPE(3, second[i].width), "ones");
        if (second[i].more)
            (void)sw_buffer_new(b, "b", SW_F32, SW_SHAPE(3), "ones");
        if (second[i].knob != NULL)
            (void)sw_knob_new(b, second[i].knob, 1.0f);
        OK(sw_model_ready(b, exec, 1));
        if (second[i].says == NULL)
            OK(sw_model_copy(a, b));
        else
            REFUSED(sw_model_copy(a, b), SW_INVALID, second[i].says);
    }
}

SW_TEST("layouts are fixed once, copied and looked up by name")
{
    sw_exec *exec = net_exec(NULL);
    net *a = net_new(false, NULL), *b = net_new(false, NULL), *c = net_new(true, NULL);
    size_t bytes = 0;
    OK(sw_model_bytes(a->model, &bytes));
    CU_ASSERT(bytes > (NET_PIXELS * 24 + 24 + 24 * 10 + 10) * sizeof(float));
    CU_ASSERT(!a->model->ready); /* no memory yet */
    CU_ASSERT_PTR_NULL(a->model->arena);
    float w[24];
    REFUSED(sw_param_read(a->f1.bias, w, sizeof w), SW_INVALID, "must be ready");
    OK(sw_model_ready(a->model, exec, 1));
    OK(sw_model_ready(b->model, exec, 2));
    OK(sw_model_ready(c->model, exec, 2));
    CU_ASSERT_EQUAL(sw_model_layout_hash(a->model), sw_model_layout_hash(b->model));
    CU_ASSERT(sw_model_layout_hash(a->model) != sw_model_layout_hash(c->model));
    CU_ASSERT(!net_same(a->model, b->model));
    OK(sw_model_copy(b->model, a->model));
    CU_ASSERT(net_same(a->model, b->model));
    REFUSED(sw_model_copy(c->model, a->model), SW_INVALID, "layouts");
    const void *first = net_copy_bytes(a->model);
    OK(sw_model_ready(a->model, exec, 7));
    CU_ASSERT(!net_same_bytes(a->model, first));
    OK(sw_model_ready(a->model, exec, 1)); /* the seed decides */
    CU_ASSERT(net_same_bytes(a->model, first));

    CU_ASSERT_EQUAL(sw_param_count(a->model), 4);
    CU_ASSERT_STRING_EQUAL(sw_param_name(sw_param_at(a->model, 0)), "f1.weight");
    CU_ASSERT_STRING_EQUAL(sw_param_name(sw_param_at(a->model, 3)), "f2.bias");
    CU_ASSERT_EQUAL(sw_param_at(a->model, 4).index, 0);
    CU_ASSERT_EQUAL(sw_param_find(a->model, "f2.weight").index, a->f2.weight.index);
    CU_ASSERT_EQUAL(sw_param_find(a->model, "none").index, 0);
    CU_ASSERT_EQUAL(sw_param_shape(a->f1.weight).dim[1], NET_PIXELS);
    REFUSED(sw_param_read(a->f1.bias, w, sizeof w - 1), SW_INVALID,
            "'f1.bias' must have 96 bytes");
    REFUSED(sw_param_gradient(a->f1.bias, w, sizeof w), SW_INVALID, "keeps the gradient");
    const sw_param late = sw_param_new(a->model, "late", SW_F32, SW_SHAPE(1), "zeros");
    CU_ASSERT_EQUAL(late.index, 0);
}

SW_TEST("initialisers have their moments")
{
    static const struct {
        const char *init;
        double mean, deviation, most;
    } all[] = {
        {"zeros", 0, 0, 0},
        {"ones", 1, 0, 1},
        {"constant:-2.5", -2.5, 0, 2.5},
        {"normal:0.25", 0, 0.25, 2},
        {"uniform:-1,3", 1, 4 / 3.4641016, 3},
        {"kaiming_normal", 0, 0.1, 0.7},         /* sqrt(2 / 200) */
        {"kaiming_uniform", 0, 0.1, 0.17320509}, /* sqrt(6 / 200) */
        {"xavier_normal", 0, 0.070710678, 0.6},  /* sqrt(2 / 400) */
        {"xavier_uniform", 0, 0.070710678, 0.12247449},
    };
    sw_exec *exec = net_exec(NULL);
    sw_model *m = made_model("m");
    const size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++) /* fan in and out: 8 * 5 * 5 = 200 */
        (void)sw_param_new(m, all[i].init, SW_F32, SW_SHAPE(8, 8, 5, 5), all[i].init);
    OK(sw_model_ready(m, exec, 3));
    static float x[1600];
    for (size_t i = 0; i < n; i++) {
        double sum = 0, squares = 0, most = 0;
        OK(sw_param_read(sw_param_at(m, i), x, sizeof x));
        for (int k = 0; k < 1600; k++) {
            sum += (double)x[k];
            squares += ((double)x[k] - all[i].mean) * ((double)x[k] - all[i].mean);
            most = fmax(most, fabs((double)x[k]));
        }
        SW_CHECK(fabs(sum / 1600 - all[i].mean) <= 0.1 * all[i].deviation + 1e-7 &&
                     fabs(sqrt(squares / 1600) - all[i].deviation) <= 0.06 * all[i].deviation &&
                     most <= all[i].most * 1.0000001,
                 "%s: mean %g, deviation %g, most %g", all[i].init, sum / 1600,
                 sqrt(squares / 1600), most);
    }
}

/* ---- random streams ---------------------------------------------------------------------- */

static void draw(sw_ctx *c, void *user)
{
    sw_output(c, "a", sw_randn(c, "z", SW_SHAPE(4, 64)));
    sw_output(c, "b", sw_randn(c, "other", SW_SHAPE(4, 64)));
    sw_scope_begin(c, "block");
    sw_output(c, "c", sw_randn(c, "z", SW_SHAPE(4, 64)));
    sw_scope_end(c);
    sw_output(c, "u", sw_rand(c, "u", SW_SHAPE(4, 64)));
}

static void take(sw_exec *exec, const char *name, float *to)
{
    sw_array a;
    OK(sw_output_get(exec, name, &a));
    memcpy(to, a.data, 256 * sizeof *to);
}

SW_TEST("random streams have names and counters")
{
    sw_exec *exec = net_exec(NULL);
    sw_exec *second = net_exec(&SW_OPTS(sw_exec_opts, .seed = 12));
    float a[256], x[256];
    sw_run_args args = SW_OPTS(sw_run_args, .fn = draw, .step = 5, .run = 2);
    OK(sw_run(exec, &args));
    take(exec, "a", a);
    take(exec, "b", x);
    CU_ASSERT(memcmp(a, x, sizeof a) != 0);
    take(exec, "c", x); /* the scope is part of the name */
    CU_ASSERT(memcmp(a, x, sizeof a) != 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < 256; i++) {
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    CU_ASSERT(fabs(sum / 256) < 0.25 && fabs(squares / 256 - 1) < 0.3);
    take(exec, "u", x);
    for (int i = 0; i < 256; i++)
        CU_ASSERT(x[i] >= 0.0f && x[i] < 1.0f);
    for (int k = 0; k < 4; k++) { /* again; immediate; another step; another run of the step */
        args.immediate = k == 1;
        args.step = k == 2 ? 6 : 5;
        args.run = k == 3 ? 3 : 2;
        OK(sw_run(exec, &args));
        take(exec, "a", x);
        CU_ASSERT_EQUAL(memcmp(a, x, sizeof a) == 0, k < 2);
    }
    args.run = 2;
    OK(sw_run(second, &args));
    take(second, "a", x);
    CU_ASSERT(memcmp(a, x, sizeof a) != 0);
}

/* ---- items and phases -------------------------------------------------------------------- */

static double items[3];
static void look(sw_ctx *c, void *user)
{
    const sw_value x = sw_input(c, 0);
    if (sw_item(c, sw_mean(c, x, 0), &items[0]) != SW_OK)
        return;
    const double more = items[0] > 1.0 ? 2.0 : 3.0;
    CU_ASSERT_EQUAL(sw_item(c, sw_scale_by(c, sw_sum(c, x, 0), (float)more), &items[1]), SW_OK);
    CU_ASSERT_EQUAL(sw_item(c, x, &items[2]), SW_INVALID); /* not a scalar: sticks */
}

SW_TEST("items are for immediate mode, and errors stick")
{
    static const float x[2] = {1, 4};
    const sw_array in = {SW_F32, SW_SHAPE(2), x};
    sw_exec *exec = net_exec(NULL);
    sw_run_args args = SW_OPTS(sw_run_args, .fn = look, .inputs = &in, .n_inputs = 1);
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "sw_item");
    args.immediate = 1;
    items[2] = 77;
    REFUSED(sw_run(exec, &args), SW_INVALID, "must be an f32 scalar");
    CU_ASSERT_EQUAL(items[0], 2.5);
    CU_ASSERT_EQUAL(items[1], 10.0);
    CU_ASSERT_EQUAL(items[2], 77.0);
}

static void phased(sw_ctx *c, void *user)
{
    const bool set = *(const bool *)user;
    const sw_value x = sw_to_f32(c, sw_input(c, 0), 1.0f, 0.0f);
    if (set)
        sw_set_phase(c, SW_LOSS);
    const sw_value y = sw_tanh(c, x);
    sw_clear_phase(c);
    sw_output(c, "z", sw_sigmoid(c, y));
}

SW_TEST("phases can be set")
{
    static const uint8_t x[64] = {1};
    const sw_array in = {SW_U8, SW_SHAPE(64), x};
    sw_exec *exec = net_exec(NULL);
    for (int k = 0; k < 2; k++) {
        bool set = k == 1;
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        const sw_run_args args = SW_OPTS(sw_run_args, .fn = phased, .user = &set, .inputs = &in,
                                         .n_inputs = 1, .variant = (uint64_t)k);
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.phase[SW_LOSS].peak_bytes > 0, set);
        CU_ASSERT(plan.phase[SW_FORWARD].peak_bytes > 0);
        /* One batch slot and the converted input. */
        CU_ASSERT_EQUAL(plan.phase[SW_DATA].peak_bytes, 64 + 256);
        CU_ASSERT_EQUAL(plan.phase[SW_BACKWARD].peak_bytes, 0);
    }
}
