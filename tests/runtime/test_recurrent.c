/* Recurrent layers: sequences against their steps, cells against the ops that they are made of,
 * and what a run of T steps takes. */
#include "tests/runtime/nets.h"

SW_TESTS("recurrent")

enum { BATCH = 3, IN = 5, HIDDEN = 7, MOST = 70 };

/* How the layer is applied. */
typedef enum { WHOLE, BY_STEPS, BY_OPS } way;

typedef struct {
    sw_model *model;
    sw_optimizer *opt;
    sw_lstm lstm;
    sw_gru gru;
    bool is_gru, has_state;
    way way;
} unrolled;

/* ---- the cells by other ops -------------------------------------------------------------- */

static sw_value gate(sw_ctx *c, sw_value sums, int k)
{
    return sw_slice(c, sums, 1, k * HIDDEN, HIDDEN);
}

static sw_value lstm_by_ops(sw_ctx *c, sw_value sums, sw_value *cell)
{
    const sw_value i = sw_sigmoid(c, gate(c, sums, 0)), f = sw_sigmoid(c, gate(c, sums, 1));
    const sw_value g = sw_tanh(c, gate(c, sums, 2)), o = sw_sigmoid(c, gate(c, sums, 3));
    *cell = sw_add(c, sw_mul(c, f, *cell), sw_mul(c, i, g));
    return sw_mul(c, o, sw_tanh(c, *cell));
}

static sw_value gru_by_ops(sw_ctx *c, sw_value x, sw_value s, sw_value h)
{
    const sw_value r = sw_sigmoid(c, sw_add(c, gate(c, x, 0), gate(c, s, 0)));
    const sw_value z = sw_sigmoid(c, sw_add(c, gate(c, x, 1), gate(c, s, 1)));
    const sw_value n = sw_tanh(c, sw_add(c, gate(c, x, 2), sw_mul(c, r, gate(c, s, 2))));
    const sw_value one = sw_full(c, SW_SCALAR, 1.0f);
    return sw_add(c, sw_mul(c, sw_sub(c, one, z), n), sw_mul(c, z, h));
}

static void step_by_ops(sw_ctx *c, const unrolled *u, sw_value x, sw_value *h, sw_value *cell)
{
    const sw_value w = sw_use(c, u->is_gru ? u->gru.weight_ih : u->lstm.weight_ih);
    const sw_value v = sw_use(c, u->is_gru ? u->gru.weight_hh : u->lstm.weight_hh);
    const sw_value b = sw_use(c, u->is_gru ? u->gru.bias_ih : u->lstm.bias_ih);
    const sw_value d = sw_use(c, u->is_gru ? u->gru.bias_hh : u->lstm.bias_hh);
    const sw_value of_x = sw_linear_op(c, x, w, b), of_h = sw_linear_op(c, *h, v, d);
    *h =
        u->is_gru ? gru_by_ops(c, of_x, of_h, *h) : lstm_by_ops(c, sw_add(c, of_x, of_h), cell);
}

/* ---- nets -------------------------------------------------------------------------------- */

/* joins: the states after all steps are put together. */
static sw_value loop(sw_ctx *c, const unrolled *u, sw_value x, sw_value *h, sw_value *cell,
                     bool joins)
{
    sw_value all = {0, 0};
    for (int64_t t = 0; t < sw_dim(c, x, 0); t++) {
        const int64_t n = sw_dim(c, x, 1);
        const sw_value now =
            sw_reshape(c, sw_slice(c, x, 0, t, 1), SW_SHAPE(n, sw_dim(c, x, 2)));
        if (u->way == BY_OPS)
            step_by_ops(c, u, now, h, cell);
        else if (u->is_gru)
            (void)sw_apply_gru_step(c, u->gru, now, h);
        else
            (void)sw_apply_lstm_step(c, u->lstm, now, h, cell);
        if (!joins)
            continue;
        const sw_value y = sw_reshape(c, *h, SW_SHAPE(1, n, sw_dim(c, *h, 1)));
        const sw_value both[] = {all, y};
        all = t == 0 ? y : sw_concat(c, both, 2, 0);
    }
    return all;
}

/* Outputs "y", "h" and "c"; a loss that weighs all of them. */
static void step(sw_ctx *c, void *user)
{
    const unrolled *u = user;
    const sw_value x = sw_input(c, 0), none = {0, 0};
    const sw_shape state = SW_SHAPE(sw_dim(c, x, 1), HIDDEN);
    sw_value h = none, cell = none;
    if (u->has_state) {
        h = sw_input(c, 1);
        cell = sw_input(c, 2);
    } else if (u->way == BY_OPS) {
        h = cell = sw_full(c, state, 0.0f);
    }
    const sw_value y = u->way != WHOLE ? loop(c, u, x, &h, &cell, true)
                       : u->is_gru     ? sw_apply_gru(c, u->gru, x, &h)
                                       : sw_apply_lstm(c, u->lstm, x, &h, &cell);
    sw_value loss = sw_add(c, sw_sum(c, sw_mul(c, y, y), 0), sw_sum(c, h, 0));
    if (!u->is_gru)
        loss = sw_add(c, loss, sw_sum(c, sw_mul(c, cell, cell), 0));
    sw_output(c, "y", y);
    sw_output(c, "h", h);
    sw_output(c, "c", u->is_gru ? h : cell);
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    sw_backward(c, loss, (sw_optimizer *const *)&u->opt, 1);
    sw_accumulate(c, u->opt);
}

static unrolled *net_of(bool is_gru)
{
    unrolled *u = sw_block(sizeof *u);
    u->is_gru = is_gru;
    u->model = made_model("net");
    if (is_gru)
        u->gru = sw_gru_new(u->model, "unit", IN, HIDDEN);
    else
        u->lstm = sw_lstm_new(u->model, "unit", IN, HIDDEN);
    OK(sw_optimizer_create(&u->opt, u->model,
                           &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1)));
    return u;
}

/* The same numbers for each net. */
static const sw_array *inputs(int seq)
{
    static float x[MOST * BATCH * IN], h[BATCH * HIDDEN], c[BATCH * HIDDEN];
    static sw_array arrays[3];
    for (int i = 0; i < MOST * BATCH * IN; i++)
        x[i] = sinf((float)(i * i + 1));
    for (int i = 0; i < BATCH * HIDDEN; i++) {
        h[i] = cosf((float)i);
        c[i] = 2.0f * sinf((float)(3 * i));
    }
    arrays[0] = (sw_array){SW_F32, SW_SHAPE(seq, BATCH, IN), x};
    arrays[1] = (sw_array){SW_F32, SW_SHAPE(BATCH, HIDDEN), h};
    arrays[2] = (sw_array){SW_F32, SW_SHAPE(BATCH, HIDDEN), c};
    return arrays;
}

static sw_run_args args_of(unrolled *u, int seq)
{
    return SW_OPTS(sw_run_args, .fn = step, .user = u, .models = &u->model, .n_models = 1,
                   .inputs = inputs(seq), .n_inputs = 3,
                   .variant = (uint32_t)(u->way * 2 + u->has_state));
}

/* ---- what a run made --------------------------------------------------------------------- */

enum { STATE = BATCH * HIDDEN, GATES = 4 * HIDDEN };
typedef struct {
    float y[MOST * STATE], h[STATE], c[STATE];
    float d[GATES * IN + GATES * HIDDEN + 2 * GATES]; /* gradients of the parameters */
} results;

static void take(sw_exec *exec, const char *name, float *to, size_t bytes)
{
    sw_array a = {.data = NULL};
    OK(sw_output_get(exec, name, &a));
    if (a.data != NULL)
        memcpy(to, a.data, bytes);
}

/* A net of its own, with the parameters that all have. */
static void run(sw_exec *exec, bool is_gru, bool has_state, way how, int seq, results *to)
{
    unrolled *u = net_of(is_gru);
    u->way = how;
    u->has_state = has_state;
    sw_run_args a = args_of(u, seq);
    memset(to, 0, sizeof *to);
    a.mode = SW_TRAIN;
    OK(sw_run(exec, &a));
    take(exec, "y", to->y, (size_t)(seq * STATE) * sizeof *to->y);
    take(exec, "h", to->h, sizeof to->h);
    take(exec, "c", to->c, sizeof to->c);
    float *d = to->d;
    for (size_t i = 0; i < sw_param_count(u->model); i++) {
        const sw_shape s = sw_param_shape(sw_param_at(u->model, i));
        const size_t n = (size_t)(s.dim[0] * (s.rank > 1 ? s.dim[1] : 1));
        OK(sw_param_gradient(sw_param_at(u->model, i), d, n * sizeof *d));
        d += n;
    }
}

static double largest_error(const float *a, const float *b, size_t n)
{
    double most = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)b[i]));
        error = fmax(error, fabs((double)a[i] - (double)b[i]));
    }
    return error / most;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void compare(sw_exec *exec, bool is_gru, bool has_state, int seq)
{
    static results whole, steps, ops;
    run(exec, is_gru, has_state, WHOLE, seq, &whole);
    run(exec, is_gru, has_state, BY_STEPS, seq, &steps);
    run(exec, is_gru, has_state, BY_OPS, seq, &ops);
    const char *name = is_gru ? "gru" : "lstm";
    SW_CHECK(memcmp(whole.y, steps.y, sizeof whole.y) == 0, "%s, %d: y", name, seq);
    SW_CHECK(memcmp(whole.h, steps.h, sizeof whole.h) == 0, "%s, %d: h", name, seq);
    SW_CHECK(memcmp(whole.c, steps.c, sizeof whole.c) == 0, "%s, %d: c", name, seq);
    SW_CHECK(memcmp(whole.y, ops.y, sizeof whole.y) == 0, "%s, %d: y by ops", name, seq);
    SW_CHECK(memcmp(whole.c, ops.c, sizeof whole.c) == 0, "%s, %d: c by ops", name, seq);
    SW_CHECK(memcmp(whole.h, whole.y + (seq - 1) * STATE, sizeof whole.h) == 0, "%s, %d: last",
             name, seq);
    const double by_steps = largest_error(whole.d, steps.d, COUNT(whole.d));
    const double by_ops = largest_error(whole.d, ops.d, COUNT(whole.d));
    SW_CHECK(by_steps < 1e-5 && by_ops < 1e-5, "%s, %d: gradients differ by %g and %g", name,
             seq, by_steps, by_ops);
}

/* Around the numbers that one concat takes; states from zeros and from inputs. */
SW_TEST("a sequence is its steps, and a cell its ops")
{
    static const int lengths[] = {1, 2, 31, 32, 33, 64, 70};
    sw_exec *exec = net_exec(NULL);
    for (int is_gru = 0; is_gru < 2; is_gru++)
        for (size_t i = 0; i < COUNT(lengths); i++)
            compare(exec, is_gru != 0, i % 2 != 0, lengths[i]);
}

/* Immediate mode makes the same bits. */
SW_TEST("immediate runs have the same bits")
{
    static results planned, immediate;
    sw_exec *exec = net_exec(NULL);
    for (int is_gru = 0; is_gru < 2; is_gru++) {
        unrolled *u = net_of(is_gru != 0);
        sw_run_args a = args_of(u, 5);
        run(exec, is_gru != 0, false, WHOLE, 5, &planned);
        a.immediate = 1;
        a.mode = SW_EVAL;
        OK(sw_run(exec, &a));
        take(exec, "y", immediate.y, 5 * STATE * sizeof(float));
        CU_ASSERT_EQUAL(memcmp(planned.y, immediate.y, 5 * STATE * sizeof(float)), 0);
    }
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* Rows of whole cache lines: nothing is padded. */
enum { ROWS = 16, WIDE = 8, UNITS = 16 };

static void last_state_step(sw_ctx *c, void *user)
{
    const unrolled *u = user;
    const sw_value x = sw_input(c, 0);
    sw_value h = {0, 0}, cell = {0, 0};
    if (u->way == BY_STEPS)
        (void)loop(c, u, x, &h, &cell, false);
    else if (u->is_gru)
        (void)sw_apply_gru(c, u->gru, x, &h);
    else
        (void)sw_apply_lstm(c, u->lstm, x, &h, &cell);
    sw_backward(c, sw_sum(c, h, 0), (sw_optimizer *const *)&u->opt, 1);
    sw_update(c, u->opt);
}

static size_t planned(bool is_gru, way how, int seq, int no_rebuild, uint32_t *n_rebuilt)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .no_check = 1);
    const sw_array x = {SW_F32, SW_SHAPE(seq, ROWS, WIDE), NULL};
    unrolled *u = sw_block(sizeof *u);
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .no_rebuild = no_rebuild));
    sw_plan_info info = SW_OPTS(sw_plan_info);
    u->is_gru = is_gru;
    u->way = how;
    u->model = made_model("net");
    if (is_gru)
        u->gru = sw_gru_new(u->model, "unit", WIDE, UNITS);
    else
        u->lstm = sw_lstm_new(u->model, "unit", WIDE, UNITS);
    OK(sw_optimizer_create(&u->opt, u->model, &sgd));
    const sw_run_args a =
        SW_OPTS(sw_run_args, .fn = last_state_step, .user = u, .models = &u->model,
                .n_models = 1, .inputs = &x, .n_inputs = 1, .mode = SW_TRAIN);
    OK(sw_plan(exec, &a, &info));
    CU_ASSERT_EQUAL(info.arena_bytes, info.lower_bound_bytes);
    *n_rebuilt = info.n_rebuilt;
    return info.arena_bytes;
}

/* In floats, for T steps of B rows and H units. The peak of the LSTM is where the gradient of
 * the last step goes into that of all sums: the latter (4 T B H), the sums before the gates of
 * each step, for the last one their gradient (4 T), the gradients of h and c (2), those of
 * weight_hh and bias_hh (4 H H + 4 H), and the states before all steps but the last (2 (T -
 * 1)); where these are recomputed, the first ones alone (2). That of the GRU is in the cell of
 * the last step but one: sums of the input and their gradient (3 T each), those of the hidden
 * state up to this step, for this one their gradient too (3 (T - 1) + 3), the gradients of h
 * after and before (2), the states before the steps (T - 1), and gradients of weight and bias
 * (3 H H + 3 H). */
SW_TEST("the peak is known by hand")
{
    const size_t state = ROWS * UNITS;
    for (int seq = 3; seq <= 20; seq += seq < 6 ? 1 : 7) {
        const size_t t = (size_t)seq, lstm = 4 * UNITS * UNITS + 4 * UNITS,
                     gru = 3 * UNITS * UNITS + 3 * UNITS;
        uint32_t n;
        CU_ASSERT_EQUAL(planned(false, WHOLE, seq, 1, &n), 4 * (10 * t * state + lstm));
        CU_ASSERT_EQUAL(planned(true, WHOLE, seq, 1, &n), 4 * ((10 * t + 1) * state + gru));
        /* Runs of ops that are recomputed are twelve long at most: of more steps some keep
         * their states. */
        const size_t again = planned(false, WHOLE, seq, 0, &n),
                     least = 4 * ((8 * t + 4) * state + lstm);
        SW_CHECK(again == least || (t > 6 && again > least && again < least + 4 * t * state),
                 "%d steps: %zu bytes, by hand %zu", seq, again, least);
        SW_CHECK(n <= 2 * t, "%d steps, %u ops again", seq, n);
    }
}

/* A step more: gates, h and c; sums, h. */
SW_TEST("a loop over steps takes what a step keeps")
{
    const size_t state = 4 * ROWS * UNITS;
    for (int seq = 3; seq <= 12; seq += 3) {
        uint32_t n;
        for (int is_gru = 0; is_gru < 2; is_gru++) {
            const size_t one = planned(is_gru != 0, BY_STEPS, seq, 1, &n),
                         more = planned(is_gru != 0, BY_STEPS, seq + 1, 1, &n);
            SW_CHECK(more - one == (is_gru ? 7 : 6) * state, "gru %d, %d steps: %zu, %zu",
                     is_gru, seq, one, more);
        }
        const size_t again = planned(false, BY_STEPS, seq, 0, &n);
        SW_CHECK(again < planned(false, BY_STEPS, seq, 1, &n), "%d steps: %zu", seq, again);
    }
}

/* ---- declarations, refusals -------------------------------------------------------------- */

SW_TEST("parameters are those of PyTorch")
{
    static const char *const parts[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    sw_exec *exec = net_exec(NULL);
    for (int is_gru = 0; is_gru < 2; is_gru++) {
        unrolled *u = net_of(is_gru != 0);
        OK(sw_model_ready(u->model, exec, 1));
        const int64_t rows = (is_gru ? 3 : 4) * HIDDEN, cols[] = {IN, HIDDEN};
        CU_ASSERT_EQUAL_FATAL(sw_param_count(u->model), 4);
        for (size_t i = 0; i < 4; i++) {
            const sw_param p = sw_param_at(u->model, i);
            const sw_shape s = sw_param_shape(p);
            const size_t n = (size_t)(s.dim[0] * (s.rank > 1 ? s.dim[1] : 1));
            float v[GATES * HIDDEN], least = 1, most = -1;
            char name[32];
            snprintf(name, sizeof name, "unit.%s", parts[i]);
            CU_ASSERT_STRING_EQUAL(sw_param_name(p), name);
            CU_ASSERT(s.rank == (i < 2 ? 2 : 1) && s.dim[0] == rows);
            CU_ASSERT(i >= 2 || s.dim[1] == cols[i]);
            OK(sw_param_read(p, v, n * sizeof *v));
            for (size_t k = 0; k < n; k++) {
                least = v[k] < least ? v[k] : least;
                most = v[k] > most ? v[k] : most;
            }
            const float bound = 1.0f / sqrtf(HIDDEN);
            SW_CHECK(least >= -bound && least < -0.7f * bound, "%s: least %g", name,
                     (double)least);
            SW_CHECK(most <= bound && most > 0.7f * bound, "%s: most %g", name, (double)most);
        }
    }
}

typedef struct {
    unrolled *u;
    int which;
    sw_value h, c; /* as the call leaves them */
} refusal;

static const char *const refusals[] = SW_INIT(
    "x must be (seq, batch, in) (got rank 2)", "x must have 1 to 33554432 steps (got 0)",
    "with 4 numbers for each of its 6 hidden units",
    "with 3 numbers for each of its 7 hidden units",
    "the state must have an axis of hidden units", "linear", "reserved words must be zero");

static void refused_step(sw_ctx *c, void *user)
{
    refusal *r = user;
    unrolled *u = r->u;
    const sw_value x = sw_input(c, 0), zero = sw_full(c, SW_SHAPE(BATCH, HIDDEN), 0.0f),
                   wide = sw_full(c, SW_SHAPE(BATCH, GATES), 0.0f);
    sw_lstm bad = u->lstm;
    bad.reserved[1] = 1;
    r->h = r->c = (sw_value){0, 0};
    if (r->which == 0)
        (void)sw_apply_lstm(c, u->lstm, zero, &r->h, &r->c);
    else if (r->which == 1)
        (void)sw_apply_lstm(c, u->lstm, sw_slice(c, x, 0, 0, 0), &r->h, &r->c);
    else if (r->which == 2)
        (void)sw_lstm_cell(c, wide, sw_full(c, SW_SHAPE(BATCH, HIDDEN - 1), 0.0f), &r->c);
    else if (r->which == 3)
        (void)sw_gru_cell(c, sw_slice(c, wide, 1, 0, 3 * HIDDEN), wide, zero);
    else if (r->which == 4)
        (void)sw_lstm_cell(c, wide, sw_full(c, SW_SCALAR, 0.0f), NULL);
    else if (r->which == 5) /* of another width than the layer's */
        (void)sw_apply_lstm(c, u->lstm, sw_slice(c, x, 2, 0, IN - 1), &r->h, &r->c);
    else
        (void)sw_apply_lstm_step(c, bad, zero, &r->h, &r->c);
}

SW_TEST("what cannot be is refused with its shapes")
{
    sw_exec *exec = net_exec(NULL);
    refusal r = {.u = net_of(false)};
    for (r.which = 0; r.which < (int)COUNT(refusals); r.which++) {
        sw_run_args a = args_of(r.u, 2);
        a.fn = refused_step;
        a.user = &r;
        REFUSED(sw_run(exec, &a), SW_INVALID, refusals[r.which]);
        CU_ASSERT(r.h.id == 0 && r.c.id == 0);
    }
}
