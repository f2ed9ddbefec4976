/* Calls that a step function may make, and the errors of those that it may not. */
#include "tests/runtime/nets.h"

SW_TESTS("traces")

/* Run a step function once over one F32 input (2, 3) and a model with a parameter and a
 * state. */
typedef struct {
    sw_exec *exec;
    sw_model *model, *other;
    sw_param w, unowned, state, buffer, foreign;
    sw_optimizer *opt;
    sw_knob knob;
    sw_value kept; /* of an earlier run */
    int calls;
    bool kernel_first;
} bench;

static bench b;

static void end_bench(void *arg)
{
    sw_model_destroy(b.model);
    sw_model_destroy(b.other);
    memset(&b, 0, sizeof b);
}

static void begin(void)
{
    memset(&b, 0, sizeof b);
    b.exec = net_exec(NULL);
    OK(sw_model_create(&b.model, "m"));
    OK(sw_model_create(&b.other, "other"));
    sw_after(end_bench, NULL);
    b.w = sw_param_new(b.model, "layer.w", SW_F32, SW_SHAPE(2, 3), "ones");
    b.state = sw_state_new(b.model, "state", SW_F32, SW_SHAPE(2, 3));
    b.buffer = sw_buffer_new(b.model, "buffer", SW_F32, SW_SHAPE(2, 3), "constant:2");
    b.knob = sw_knob_new(b.model, "knob", 3.0f);
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f);
    OK(sw_optimizer_create(&b.opt, b.model, &opts));
    b.unowned = sw_param_new(b.model, "unowned", SW_F32, SW_SHAPE(2, 3), "ones");
    b.foreign = sw_param_new(b.other, "w", SW_F32, SW_SHAPE(2, 3), "ones");
}

static const float six[6] = {1, 2, 3, 4, 5, 6};

static sw_status run_as(sw_step_fn *fn, bool immediate)
{
    static const sw_array in = {SW_F32, {2, {2, 3}}, six};
    return sw_run(b.exec,
                  &SW_OPTS(sw_run_args, .fn = fn, .user = &b, .models = &b.model, .n_models = 1,
                           .inputs = &in, .n_inputs = 1, .immediate = immediate));
}

static sw_status run(sw_step_fn *fn)
{
    return run_as(fn, false);
}

/* ---- versions ---------------------------------------------------------------------------- */

/* w * w keeps w; the update overwrites it; the second backward needs what is gone. */
static void two_backwards(sw_ctx *c, void *user)
{
    bench *x = user;
    const sw_value w = sw_use(c, x->w);
    const sw_value loss = sw_sum(c, sw_mul(c, w, w), 0);
    sw_backward(c, loss, &x->opt, 1);
    sw_update(c, x->opt);
    sw_backward(c, loss, &x->opt, 1);
    sw_update(c, x->opt);
}

SW_TEST("a backward that needs an overwritten version names op and parameter")
{
    begin();
    OK(sw_model_ready(b.model, b.exec, 1));
    const void *before = net_copy_bytes(b.model);
    REFUSED(run(two_backwards), SW_INVALID, "layer.w");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "mul"));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "sgd_update"));
    CU_ASSERT(net_same_bytes(b.model, before)); /* at trace time: nothing ran */
    OK(sw_model_ready(b.model, b.exec, 1));
}

static void read_old_after_assign(sw_ctx *c, void *user)
{
    bench *x = user;
    const sw_value old = sw_use(c, x->state);
    sw_assign(c, x->state, sw_input(c, 0));
    sw_output(c, "old", sw_relu(c, old));
}

static void read_old_before_assign(sw_ctx *c, void *user)
{
    bench *x = user;
    const sw_value old = sw_use(c, x->state);
    sw_output(c, "old", sw_add(c, old, sw_input(c, 0)));
    sw_assign(c, x->state, sw_scale_by(c, sw_input(c, 0), 2.0f));
    sw_output(c, "new", sw_use(c, x->state));
}

SW_TEST("states have versions; what is assigned survives the run")
{
    for (int now = 0; now < 2; now++) {
        begin();
        sw_array old, fresh;
        OK(run_as(read_old_after_assign, now != 0)); /* the bytes are written after it */
        OK(sw_output_get(b.exec, "old", &old));
        for (int i = 0; i < 6; i++)
            CU_ASSERT_EQUAL(((const float *)old.data)[i], 0.0f);
        OK(sw_model_ready(b.model, b.exec, 1));
        OK(run_as(read_old_before_assign, now != 0));
        OK(run_as(read_old_before_assign, now != 0));
        OK(sw_output_get(b.exec, "old", &old));
        OK(sw_output_get(b.exec, "new", &fresh));
        for (int i = 0; i < 6; i++) {
            CU_ASSERT_EQUAL(((const float *)old.data)[i], 3.0f * six[i]);
            CU_ASSERT_EQUAL(((const float *)fresh.data)[i], 2.0f * six[i]);
        }
        float kept[6];
        OK(sw_param_read(b.state, kept, sizeof kept));
        CU_ASSERT_EQUAL(memcmp(kept, fresh.data, sizeof kept), 0);
        end_bench(NULL);
    }
}

static void assign_parameter(sw_ctx *c, void *user)
{
    sw_assign(c, ((bench *)user)->w, sw_input(c, 0));
}
static void assign_wrong_shape(sw_ctx *c, void *user)
{
    sw_assign(c, ((bench *)user)->state, sw_slice(c, sw_input(c, 0), 0, 0, 1));
}
static void assign_buffer(sw_ctx *c, void *user)
{
    sw_assign(c, ((bench *)user)->buffer, sw_input(c, 0));
}

SW_TEST("only states and buffers are assigned, with their shape")
{
    begin();
    REFUSED(run(assign_parameter), SW_INVALID, "'layer.w' is a parameter");
    REFUSED(run(assign_wrong_shape), SW_INVALID, "'state' has another shape");
    OK(run(assign_buffer));
    float kept[6];
    OK(sw_param_read(b.buffer, kept, sizeof kept));
    CU_ASSERT_EQUAL(memcmp(kept, six, sizeof six), 0);
}

/* ---- errors stick ------------------------------------------------------------------------ */

static void fail_inside(sw_ctx *c, void *user)
{
    bench *x = user;
    sw_scope_begin(c, "block");
    sw_scope_begin(c, "inner");
    const sw_value bad = sw_add(c, sw_input(c, 0), sw_slice(c, sw_input(c, 0), 1, 0, 2));
    CU_ASSERT_EQUAL(bad.id, 0);
    CU_ASSERT_EQUAL(sw_ctx_status(c), SW_INVALID);
    sw_fail(c, SW_IO, "a later error");
    sw_scope_end(c);
    sw_scope_end(c);
    const sw_value more = sw_relu(c, bad); /* does nothing */
    CU_ASSERT_EQUAL(more.id, 0);
    CU_ASSERT_EQUAL(sw_dim(c, more, 0), 0);
    sw_metric(c, "m", more);
    x->calls++;
}

SW_TEST("the first error sticks, with its scope")
{
    begin();
    for (int now = 0; now < 2; now++) {
        const sw_status status = run_as(fail_inside, now != 0);
        CU_ASSERT_EQUAL(status, SW_INVALID);
        SW_CHECK(strstr(sw_last_error(), "in block/inner: ") != NULL, "%s", sw_last_error());
        SW_CHECK(strstr(sw_last_error(), "(2, 3)") != NULL, "%s", sw_last_error());
        SW_CHECK(strstr(sw_last_error(), "(2, 2)") != NULL, "%s", sw_last_error());
        CU_ASSERT_EQUAL(b.calls, now + 1);
    }
}

static void fail_own(sw_ctx *c, void *user)
{
    sw_fail(c, SW_STOPPED, "enough of this");
}
static void leave_scope_open(sw_ctx *c, void *user)
{
    sw_scope_begin(c, "open");
}

static void leave_no_name(sw_ctx *c, void *user)
{
    sw_scope_begin(c, "");
}
static void end_no_scope(sw_ctx *c, void *user)
{
    sw_scope_begin(c, "a");
    sw_scope_end(c);
    sw_scope_end(c);
}
static void scope_of_two_parts(sw_ctx *c, void *user)
{
    sw_scope_begin(c, "encoder/fc1");
    sw_scope_begin(c, "x/y");
    sw_scope_end(c);
    sw_output(c, "y", sw_relu(c, sw_input(c, 0)));
    sw_scope_end(c);
    sw_fail(c, SW_STOPPED, "outside of all");
}

SW_TEST("step functions can fail and must close scopes")
{
    begin();
    REFUSED(run(fail_own), SW_STOPPED, "enough of this");
    REFUSED(run(leave_scope_open), SW_INVALID, "open");
    REFUSED(run(leave_no_name), SW_INVALID, "must not be NULL");
    REFUSED(run(end_no_scope), SW_INVALID, "no scope is open");
    REFUSED(run(scope_of_two_parts), SW_STOPPED, "outside of all");
    CU_ASSERT_PTR_NULL(strstr(sw_last_error(), "encoder"));
}

/* ---- handles ----------------------------------------------------------------------------- */

static void keep_handle(sw_ctx *c, void *user)
{
    ((bench *)user)->kept = sw_input(c, 0);
}
static void use_kept(sw_ctx *c, void *user)
{
    sw_relu(c, ((bench *)user)->kept);
}
static void use_nothing(sw_ctx *c, void *user)
{
    sw_relu(c, (sw_value){0, 0});
}
static void use_foreign(sw_ctx *c, void *user)
{
    sw_relu(c, sw_use(c, ((bench *)user)->foreign));
}
static void use_no_parameter(sw_ctx *c, void *user)
{
    sw_relu(c, sw_use(c, (sw_param){NULL, 0}));
}
static void use_wrong_input(sw_ctx *c, void *user)
{
    sw_relu(c, sw_input(c, 1));
}
static void use_wrong_axis(sw_ctx *c, void *user)
{
    (void)sw_dim(c, sw_input(c, 0), -3);
}

SW_TEST("stale, foreign and empty handles are refused")
{
    begin();
    OK(run(keep_handle));
    REFUSED(run(use_kept), SW_STALE, "earlier run");
    REFUSED(run_as(use_kept, true), SW_STALE, "earlier run");
    REFUSED(run(use_nothing), SW_INVALID, "no value");
    REFUSED(run(use_foreign), SW_INVALID, "other");
    REFUSED(run(use_no_parameter), SW_INVALID, "must be one of");
    REFUSED(run(use_wrong_input), SW_INVALID, "input 1 of 1");
    REFUSED(run(use_wrong_axis), SW_INVALID, "axis -3");
}

/* ---- shapes ------------------------------------------------------------------------------ */

#define ONE_OP(name, call)                                                                     \
    static void name(sw_ctx *c, void *user)                                                    \
    {                                                                                          \
        bench *t = user;                                                                       \
        const sw_value x = sw_input(c, 0), w = sw_use(c, t->w);                                \
        (void)x, (void)w;                                                                      \
        (call);                                                                                \
    }
ONE_OP(bad_linear, sw_linear_op(c, x, sw_slice(c, w, 1, 0, 2), (sw_value){0, 0}))
ONE_OP(bad_conv, sw_conv2d_op(c, x, w, (sw_value){0, 0}, 1, 0))
ONE_OP(bad_reshape, sw_reshape(c, x, SW_SHAPE(4, -1)))
ONE_OP(bad_slice, sw_slice(c, x, 1, 2, 2))
ONE_OP(bad_slice_axis, sw_slice(c, x, 2, 0, 1))
ONE_OP(bad_sum, sw_sum(c, x, 4))
ONE_OP(bad_pool, sw_max_pool(c, x, 2))
ONE_OP(bad_labels, sw_softmax_ce(c, x, x))
ONE_OP(bad_mse, sw_mse(c, x, sw_slice(c, x, 0, 0, 1)))
ONE_OP(bad_convert, sw_to_f32(c, x, 1, 0))
ONE_OP(bad_concat, sw_concat(c, (sw_value[]){x, sw_slice(c, x, 1, 0, 2)}, 2, 0))

SW_TEST("shape errors name the op")
{
    static const struct {
        sw_step_fn *fn;
        const char *name;
    } all[] = {{bad_linear, "linear"},  {bad_conv, "conv2d"},       {bad_reshape, "reshape"},
               {bad_slice, "slice"},    {bad_slice_axis, "slice"},  {bad_sum, "sum"},
               {bad_pool, "pool"},      {bad_labels, "softmax_ce"}, {bad_mse, "mse"},
               {bad_convert, "to_f32"}, {bad_concat, "concat"}};
    begin();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        REFUSED(run(all[i].fn), SW_INVALID, all[i].name);
}

/* ---- backward and optimizers ------------------------------------------------------------- */

static void backward_of_tensor(sw_ctx *c, void *user)
{
    bench *x = user;
    sw_backward(c, sw_use(c, x->w), &x->opt, 1);
}
static void backward_of_input(sw_ctx *c, void *user)
{
    bench *x = user;
    sw_backward(c, sw_sum(c, sw_input(c, 0), 0), &x->opt, 1);
}
static void backward_of_unowned(sw_ctx *c, void *user)
{
    bench *x = user;
    sw_backward(c, sw_sum(c, sw_mul(c, sw_use(c, x->w), sw_use(c, x->unowned)), 0), &x->opt, 1);
}
static void update_first(sw_ctx *c, void *user)
{
    sw_update(c, ((bench *)user)->opt);
}
static void accumulate_unkept(sw_ctx *c, void *user)
{
    bench *x = user;
    sw_backward(c, sw_sum(c, sw_use(c, x->w), 0), &x->opt, 1);
    sw_accumulate(c, x->opt);
}
static void through_accuracy(sw_ctx *c, void *user)
{
    bench *x = user;
    const sw_value labels = sw_input(c, 0);
    (void)labels;
    sw_backward(c, sw_mean(c, sw_detach(c, sw_use(c, x->w)), 0), &x->opt, 1);
}
static void long_output(sw_ctx *c, void *user)
{
    sw_output(c, "a name of forty-eight bytes is one more than fits", sw_input(c, 0));
}
static void nameless_metric(sw_ctx *c, void *user)
{
    sw_metric(c, NULL, sw_sum(c, sw_input(c, 0), 0));
}
static void two_metrics(sw_ctx *c, void *user)
{
    const sw_value m = sw_mean(c, sw_input(c, 0), 0);
    sw_metric(c, "twice", m);
    sw_metric(c, "twice", m);
}
static void metric_of_tensor(sw_ctx *c, void *user)
{
    sw_metric(c, "rows", sw_input(c, 0));
}

SW_TEST("losses, owners, updates and metrics are checked")
{
    begin();
    REFUSED(run(backward_of_tensor), SW_INVALID, "must be an f32 scalar");
    REFUSED(run(backward_of_input), SW_INVALID, "no parameter");
    REFUSED(run(through_accuracy), SW_INVALID, "no parameter");
    REFUSED(run(backward_of_unowned), SW_INVALID, "'unowned'");
    REFUSED(run(update_first), SW_INVALID, "no gradient");
    REFUSED(run(accumulate_unkept), SW_INVALID, "keep_gradients");
    REFUSED(run(long_output), SW_INVALID, "1 to 47 bytes");
    REFUSED(run(nameless_metric), SW_INVALID, "1 to 47 bytes");
    REFUSED(run(two_metrics), SW_INVALID, "'twice'");
    REFUSED(run(metric_of_tensor), SW_INVALID, "'rows'");
    sw_param_freeze(b.unowned, 1); /* another key, and now allowed */
    OK(run(backward_of_unowned));
}

/* sum(x), then sum(2x): the gradient of a view, of a broadcast row, of a value used three
 * times. */
static void sums(sw_ctx *c, void *user)
{
    bench *x = user;
    const sw_value w = sw_use(c, x->w);
    const sw_value row = sw_slice(c, w, 0, 1, 1);
    sw_value loss = sw_sum(c, sw_mul(c, sw_add(c, w, row), sw_input(c, 0)), 0);
    loss = sw_add(c, loss, sw_sum(c, w, 0));
    loss = sw_add(c, loss, sw_scale(c, sw_sum(c, row, 0), x->knob));
    sw_backward(c, loss, &x->opt, 1);
    sw_update(c, x->opt);
}

SW_TEST("gradients of views and repeated uses add up")
{
    /* d/dw: the input + 1; row 1 also: the column sums of the input (5, 7, 9), and the knob,
     * 3. */
    static const float wanted[6] = {2, 3, 4, 4 + 1 + 5 + 3, 5 + 1 + 7 + 3, 6 + 1 + 9 + 3};
    for (int now = 0; now < 2; now++) {
        begin();
        float w[6];
        OK(run_as(sums, now != 0));
        OK(sw_param_read(b.w, w, sizeof w));
        for (int i = 0; i < 6; i++)
            SW_CHECK(w[i] == 1.0f - 0.5f * wanted[i], "element %d is %g", i, (double)w[i]);
        end_bench(NULL);
    }
}

/* The sum hands one gradient to both of its inputs; what comes to one of them later, from a
 * kernel or from a rule, must not reach the other. */
static void shared(sw_ctx *c, void *user)
{
    bench *x = user;
    const sw_value w = sw_use(c, x->w), u = sw_use(c, x->unowned);
    sw_value kernel = {0, 0}, rule = {0, 0};
    for (int i = 0; i < 2; i++) { /* the last one comes first on the way back */
        if ((i == 0) == x->kernel_first)
            kernel = sw_leaky_relu(c, w, 0.5f);
        else
            rule = sw_scale_by(c, w, 7.0f);
    }
    const sw_value sum = sw_mul(c, sw_add(c, w, u), sw_input(c, 0));
    sw_value loss = sw_add(c, sw_sum(c, kernel, 0), sw_sum(c, rule, 0));
    loss = sw_add(c, loss, sw_sum(c, sum, 0));
    sw_backward(c, loss, &x->opt, 1);
    sw_update(c, x->opt);
}

SW_TEST("a gradient that two values share is copied before it is added to")
{
    for (int way = 0; way < 4; way++) {
        sw_exec *exec = net_exec(NULL);
        memset(&b, 0, sizeof b);
        b.exec = exec;
        b.kernel_first = (way & 2) != 0;
        OK(sw_model_create(&b.model, "m"));
        b.w = sw_param_new(b.model, "w", SW_F32, SW_SHAPE(2, 3), "ones");
        b.unowned = sw_param_new(b.model, "u", SW_F32, SW_SHAPE(2, 3), "ones");
        const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f);
        OK(sw_optimizer_create(&b.opt, b.model, &opts)); /* owns both here */
        float w[6], u[6];
        OK(run_as(shared, (way & 1) != 0));
        OK(sw_param_read(b.w, w, sizeof w));
        OK(sw_param_read(b.unowned, u, sizeof u));
        for (int i = 0; i < 6; i++) {
            CU_ASSERT_EQUAL(w[i], 1.0f - 0.5f * (six[i] + 1.0f + 7.0f));
            CU_ASSERT_EQUAL(u[i], 1.0f - 0.5f * six[i]);
        }
        end_bench(NULL);
    }
}
