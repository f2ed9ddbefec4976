/* Descriptors that are wrong when they are declared or when they are used: an error names the
 * op and the member, and nothing is written where it should not be. */
#include "tests/ops/ops_outside.h"
#include "tests/support/made.h"

SW_TESTS("refusals")

#define GIB (INT64_C(1) << 30)

/* One step function that asks a function of the test for its loss. */
typedef struct bench bench;
struct bench {
    sw_exec *exec;
    sw_model *model;
    sw_param p;
    sw_optimizer *opt;
    uint32_t op;
    const void *attrs;
    sw_value (*make)(sw_ctx *ctx, bench *b);
    const sw_array *inputs;
    int n_inputs, train;
};

#define MAKES(name, ...)                                                                       \
    static sw_value name(sw_ctx *ctx, bench *b)                                                \
    {                                                                                          \
        (void)b;                                                                               \
        return __VA_ARGS__;                                                                    \
    }

static void step(sw_ctx *ctx, void *user)
{
    bench *b = user;
    const sw_value x = b->make(ctx, b);
    if (!b->train || sw_ctx_status(ctx) != SW_OK) {
        sw_output(ctx, "x", x);
        return;
    }
    sw_backward(ctx, sw_sum(ctx, x, 0), &b->opt, 1);
    sw_accumulate(ctx, b->opt);
}

/* A model with one parameter p of two threes, and a step that `make` makes. */
static bench *open_bench(sw_value (*make)(sw_ctx *ctx, bench *b))
{
    static bench one, *const b = &one;
    *b = (bench){.make = make};
    b->exec = made_exec(NULL);
    b->model = made_model("bench");
    b->p = sw_param_new(b->model, "p", SW_F32, SW_SHAPE(2), "constant:3");
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    CU_ASSERT_EQUAL_FATAL(sw_optimizer_create(&b->opt, b->model, &opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_ready(b->model, b->exec, 1), SW_OK);
    return b;
}

static sw_run_args args_of(bench *b)
{
    static uint64_t variant; /* `make` is no part of a program's key */
    return SW_OPTS(sw_run_args, .fn = step, .user = b, .models = &b->model, .n_models = 1,
                   .inputs = b->inputs, .n_inputs = b->n_inputs, .variant = ++variant);
}

/* Planning must give `status` with a message that has `op` and `word`. */
static void refused(bench *b, sw_status status, const char *op, const char *word)
{
    const sw_run_args args = args_of(b);
    const sw_status got = sw_plan(b->exec, &args, &SW_OPTS(sw_plan_info));
    SW_CHECK(got == status && strstr(sw_last_error(), op) != NULL &&
                 strstr(sw_last_error(), word) != NULL,
             "%s, no '%s' of %s: %s", sw_status_name(got), word, op,
             got == SW_OK ? "" : sw_last_error());
}

static uint32_t added(sw_op_desc desc, const char *name)
{
    uint32_t id = 0;
    desc.name = name;
    SW_CHECK(sw_op_register(&desc, &id) == SW_OK, "%s", sw_last_error());
    return id;
}

static sw_value by_op(sw_ctx *ctx, bench *b)
{
    const sw_value p = sw_use(ctx, b->p);
    const sw_value in[2] = {p, p};
    return sw_op_apply(ctx, b->op, in, sw_op_at(b->op)->n_in, b->attrs);
}

/* ---- descriptors ------------------------------------------------------------------------- */

static const sw_op_desc *sound;
static sw_op_desc bad;
static sw_grad_desc bad_grad;
static sw_op_case bad_case;

static void begin(const sw_op_desc *from)
{
    sound = from;
    bad = *from;
    bad.name = "outside.refused";
    if (from->n_grads > 0) {
        bad_grad = from->grads[0];
        bad.grads = &bad_grad;
        bad.n_grads = 1;
    }
    bad_case = from->cases[0];
    bad.cases = &bad_case;
    bad.n_cases = 1;
}

static void no_good(const char *member)
{
    uint32_t id = 77;
    const sw_status status = sw_op_register(&bad, &id);
    SW_CHECK(status == SW_INVALID && strstr(sw_last_error(), "outside.refused") != NULL &&
                 strstr(sw_last_error(), member) != NULL,
             "%s: %s, %s", member, sw_status_name(status), sw_last_error());
    CU_ASSERT_EQUAL(id, 77);
    begin(sound);
}

static sw_status whole_view(const sw_buffer *in, const void *attrs, const sw_type *out,
                            int64_t *strides, int64_t *offset)
{
    memcpy(strides, in->stride, sizeof in->stride);
    *offset = 0;
    return SW_OK;
}

SW_TEST("counts, masks, phases and cases are checked")
{
    begin(&outside_square);
    bad.n_in = 17, no_good("n_in");
    bad.n_in = -1, no_good("n_in");
    bad.n_in = 2, bad.max_in = 1, no_good("max_in");
    bad.max_in = 37, no_good("max_in");
    bad.max_in = 33, no_good("max_in");
    bad.n_out = 9, no_good("n_out");
    bad.n_extra = -1, no_good("n_extra");
    bad.attrs_bytes = 513, no_good("attrs_bytes");
    bad.has_phase = 1, bad.phase = (sw_phase)99, no_good("phase");
    bad.has_phase = 1, bad.phase = (sw_phase)-1, no_good("phase");
    bad.inplace = 2, no_good("inplace");
    bad.image_in = 2, no_good("image_in");
    bad.n_cases = -1, no_good("n_cases");
    bad_case.n_in = 2, no_good("cases[0].n_in");
    bad_case.reserved[1] = 1, no_good("cases[0].reserved");
    bad.attrs_bytes = 8, no_good("cases[0].attrs");
}

SW_TEST("gradient kernels are checked")
{
    begin(&outside_square);
    bad_grad.makes[0] = 200, no_good("grads[0].makes[0]");
    bad_grad.makes[0] = 1, no_good("grads[0].makes[0]");
    bad_grad.n_makes = 2, no_good("grads[0].makes names input 0 twice");
    bad_grad.n_makes = 9, no_good("grads[0].n_makes");
    bad_grad.n_operands = 17, no_good("grads[0].n_operands");
    bad_grad.operands[0] = SW_IN(1), no_good("SW_IN(1)");
    bad_grad.operands[0] = SW_OUT(1), no_good("SW_OUT(1)");
    bad_grad.operands[1] = SW_DOUT(1), no_good("SW_DOUT(1)");
    bad_grad.operands[0] = 0x10, no_good("grads[0].operands[0]");
    bad_grad.operands[0] = 0x400, no_good("grads[0].operands[0]");
    bad_grad.inplace = 4, no_good("grads[0].inplace");
    bad.skips = 2, no_good("skips");
    bad.n_grads = -1, no_good("n_grads");
    bad.grads = NULL, no_good("n_grads");
}

SW_TEST("views have one input and no kernel")
{
    begin(&outside_square);
    bad.view = whole_view, no_good("view");
    sw_op_desc view = outside_square;
    view.forward = NULL, view.view = whole_view, view.inplace = 0;
    begin(&view);
    bad.n_in = 0, bad_case.n_in = 0, no_good("view");
    bad.n_out = 2, no_good("view");
    bad.n_extra = 1, no_good("view");
    bad.max_in = 2, no_good("view");
}

/* The ops inside are held to the rules of those outside. */
SW_TEST("the ops inside pass as outside ones")
{
    static char names[64][48];
    const uint32_t n = 39;
    for (uint32_t id = 0; id < n; id++) {
        uint32_t copy;
        sw_op_desc d = *sw_op_at(id);
        snprintf(names[id], sizeof names[id], "planted.%.30s", d.name);
        d.name = names[id];
        SW_CHECK(sw_op_register(&d, &copy) == SW_OK, "%s", sw_last_error());
    }
}

/* Sizes of other headers, in descriptors and in what is filled. */
SW_TEST("a struct of another size is taken")
{
    struct {
        sw_op_desc known;
        uint64_t newer[4];
    } later = {.known = outside_square, .newer = {1, 2, 3, 4}};
    uint32_t id = 0;
    later.known.size = sizeof later;
    later.known.name = "outside.later";
    CU_ASSERT_EQUAL(sw_op_register(&later.known, &id), SW_OK);
    CU_ASSERT_EQUAL(sw_op_at(id)->size, sizeof(sw_op_desc));
    later.known.size = 5000;
    later.known.name = "outside.much later";
    CU_ASSERT_EQUAL(sw_op_register(&later.known, &id), SW_INVALID);

    sw_dataset *set;
    CU_ASSERT_EQUAL_FATAL(sw_dataset_synthetic(&set, 10, 1), SW_OK);
    sw_dataset_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = offsetof(sw_dataset_info, n_fields); /* less than in 0.1 */
    sw_dataset_describe(set, &info);
    CU_ASSERT_EQUAL(info.n_fields, 0x5a5a5a5a);
    CU_ASSERT_NOT_EQUAL(info.n, 10);
    CU_ASSERT_EQUAL(info.size, offsetof(sw_dataset_info, n_fields));
    info.size = sizeof info;
    sw_dataset_describe(NULL, &info);
    CU_ASSERT_EQUAL(info.n, 0);
    CU_ASSERT_PTR_NULL(info.name);
    sw_dataset_destroy(set);
}

/* ---- what is inferred -------------------------------------------------------------------- */

static sw_type inferred;
static sw_status infer_any(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = inferred;
    return SW_OK;
}

SW_TEST("inferred types are checked")
{
    bench *const b = open_bench(by_op);
    sw_op_desc d = outside_square;
    d.infer = infer_any;
    d.n_cases = 0;
    b->op = added(d, "outside.any type");
    const sw_type good = {SW_F32, SW_PLAIN, {1, {2}}};
    inferred = good, inferred.shape.rank = 200;
    refused(b, SW_INVALID, "outside.any type", "must be 0 to 8 (got 200)");
    inferred = good, inferred.shape.rank = -1;
    refused(b, SW_INVALID, "outside.any type", "must be 0 to 8 (got -1)");
    inferred = good, inferred.dtype = (sw_dtype)9;
    refused(b, SW_INVALID, "outside.any type", "type of elements (got 9)");
    inferred = good, inferred.layout = SW_N16;
    refused(b, SW_INVALID, "outside.any type", "layout");
    inferred = good, inferred.shape.dim[0] = -2;
    refused(b, SW_INVALID, "outside.any type", "(-2)");
    inferred = (sw_type){SW_F32, SW_PLAIN, {2, {GIB, GIB}}};
    refused(b, SW_NOMEM, "outside.any type", "more elements than any memory");
    inferred = (sw_type){SW_F32, SW_PLAIN, {3, {0, 1024 * GIB, 1024 * GIB}}};
    refused(b, SW_NOMEM, "outside.any type", "more elements than any memory");
}

MAKES(huge_conv,
      sw_conv2d_op(ctx, sw_input(ctx, 0), sw_input(ctx, 1), (sw_value){0, 0}, 1, 1 << 20))
MAKES(huge_linear, sw_linear_op(ctx, sw_input(ctx, 0), sw_input(ctx, 1), (sw_value){0, 0}))
MAKES(huge_nothing, sw_reshape(ctx, sw_input(ctx, 0), SW_SHAPE(0, 1024 * GIB, 1024 * GIB)))

/* Small inputs, results past all memory. */
SW_TEST("too large results are refused")
{
    bench *const b = open_bench(NULL);
    const sw_array images[] = {{SW_F32, SW_SHAPE(1 << 18, 1, 1, 1), NULL},
                               {SW_F32, SW_SHAPE(1, 1, 1, 1), NULL}};
    b->inputs = images, b->n_inputs = 2, b->make = huge_conv;
    refused(b, SW_NOMEM, "conv2d", "(262144, 1, 2097153, 2097153)");
    const sw_array empty[] = {{SW_F32, SW_SHAPE(GIB, 0), NULL},
                              {SW_F32, SW_SHAPE(GIB, 0), NULL}};
    b->inputs = empty, b->make = huge_linear;
    refused(b, SW_NOMEM, "linear", "(1073741824, 1073741824)");
    b->make = huge_nothing;
    refused(b, SW_INVALID, "reshape", "cannot be (0, 1099511627776, 1099511627776)");
}

static sw_conv_opts conv_opts;
MAKES(conv_with,
      sw_conv2d_op_with(ctx, sw_input(ctx, 0), sw_input(ctx, 1), (sw_value){0, 0}, &conv_opts))

/* (2, 6, 5, 5) and (4, 3, 3, 3) fit two groups, and a kernel of 5 places. */
SW_TEST("groups that do not fit are refused")
{
    bench *const b = open_bench(NULL);
    const sw_array arrays[] = {{SW_F32, SW_SHAPE(2, 6, 5, 5), NULL},
                               {SW_F32, SW_SHAPE(4, 3, 3, 3), NULL}};
    b->inputs = arrays, b->n_inputs = 2, b->make = conv_with;
    conv_opts = SW_OPTS(sw_conv_opts, .groups = 3);
    refused(b, SW_INVALID, "conv2d", "(got (2, 6, 5, 5) and (4, 3, 3, 3) with groups 3)");
    conv_opts.groups = -1;
    refused(b, SW_INVALID, "conv2d", "groups -1");
    conv_opts = SW_OPTS(sw_conv_opts, .groups = 2, .dilation = 3);
    refused(b, SW_INVALID, "conv2d", "dilation 3 is larger than input (2, 6, 5, 5)");
    conv_opts.size = 0;
    refused(b, SW_INVALID, "conv2d", "set it to sizeof(sw_conv_opts)");
    const sw_array odd[] = {{SW_F32, SW_SHAPE(2, 6, 5, 5), NULL},
                            {SW_F32, SW_SHAPE(5, 3, 3, 3), NULL}};
    b->inputs = odd;
    conv_opts = SW_OPTS(sw_conv_opts, .groups = 2);
    refused(b, SW_INVALID, "conv2d", "(got 5 channels and 2 groups)");
}

SW_TEST("layers of huge sizes are refused")
{
    sw_exec *exec;
    sw_model *model;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&model, "huge"), SW_OK);
    (void)sw_conv2d_new(model, "conv", INT64_MAX / 2, 1, 1 << 20);
    CU_ASSERT_NOT_EQUAL(sw_model_ready(model, exec, 1), SW_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "conv.weight"));
    sw_model_destroy(model);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&model, "huge"), SW_OK);
    (void)sw_conv2d_new(model, "conv", 1, 1, -3);
    CU_ASSERT_NOT_EQUAL(sw_model_ready(model, exec, 1), SW_OK);
    sw_model_destroy(model);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&model, "grouped"), SW_OK);
    (void)sw_conv2d_new_with(model, "conv", 6, 4, 3, &SW_OPTS(sw_conv_opts, .groups = 3));
    CU_ASSERT_EQUAL(sw_model_ready(model, exec, 1), SW_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "6 to 4 channels in 3 groups"));
    sw_model_destroy(model);
    sw_exec_destroy(exec);
}

/* ---- views ------------------------------------------------------------------------------- */

static int64_t view_offset, view_stride;
static sw_type view_type;
static sw_status infer_view(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = view_type;
    return SW_OK;
}

static sw_status any_view(const sw_buffer *in, const void *attrs, const sw_type *out,
                          int64_t *strides, int64_t *offset)
{
    strides[0] = view_stride;
    *offset = view_offset;
    return SW_OK;
}

static void view_as(bench *b, int64_t n, int64_t offset, int64_t stride, sw_status status)
{
    view_type = (sw_type){SW_F32, SW_PLAIN, {1, {n}}};
    view_offset = offset, view_stride = stride;
    if (status != SW_OK) {
        refused(b, status, "outside.any view", "view");
        return;
    }
    const sw_run_args args = args_of(b);
    SW_CHECK(sw_run(b->exec, &args) == SW_OK, "%s", sw_last_error());
}

SW_TEST("views stay on their input")
{
    bench *const b = open_bench(by_op);
    const sw_op_desc d = SW_OPTS(sw_op_desc, .n_in = 1, .n_out = 1, .infer = infer_view,
                                 .view = any_view, .no_gradient = 1);
    b->op = added(d, "outside.any view");
    view_as(b, 2, 0, 1, SW_OK);
    const float numbers[2] = {3, 4};
    sw_array got;
    CU_ASSERT_EQUAL(sw_param_write(b->p, numbers, sizeof numbers), SW_OK);
    view_as(b, 2, 1, -1, SW_OK); /* backwards */
    CU_ASSERT_EQUAL_FATAL(sw_output_get(b->exec, "x", &got), SW_OK);
    CU_ASSERT_EQUAL(((const float *)got.data)[0], 4.0f);
    CU_ASSERT_EQUAL(((const float *)got.data)[1], 3.0f);
    view_as(b, 5, 1, 0, SW_OK);  /* one element five times */
    view_as(b, 0, 99, 1, SW_OK); /* nothing lies nowhere */
    view_as(b, 3, 0, 1, SW_INVALID);
    view_as(b, 2, 1, 1, SW_INVALID);
    view_as(b, 2, 0, -1, SW_INVALID);
    view_as(b, 1, -1, 1, SW_INVALID);
    view_as(b, 1, INT64_MAX / 2, 1, SW_INVALID);
    view_as(b, 2, 0, INT64_MAX, SW_INVALID);
    view_type = (sw_type){SW_U8, SW_PLAIN, {1, {2}}};
    view_offset = 0, view_stride = 1;
    refused(b, SW_INVALID, "outside.any view", "another size");
}

/* ---- gradients --------------------------------------------------------------------------- */

static void gradient_is(bench *b, float wanted)
{
    float g[2] = {0};
    const sw_run_args args = args_of(b);
    SW_CHECK(sw_run(b->exec, &args) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL(sw_param_gradient(b->p, g, sizeof g), SW_OK);
    SW_CHECK(g[0] == wanted && g[1] == wanted, "%g and %g, must be %g", (double)g[0],
             (double)g[1], (double)wanted);
}

static sw_value by_op_and_more(sw_ctx *ctx, bench *b)
{
    const sw_value p = sw_use(ctx, b->p);
    return sw_add(ctx, sw_add(ctx, by_op(ctx, b), sw_scale_by(ctx, p, 10.0f)), by_op(ctx, b));
}

/* d(p p)/dp at 3 is 6, from a kernel that makes both halves, alone and after others. */
SW_TEST("one value for two inputs gets both gradients")
{
    bench *const b = open_bench(NULL);
    b->op = added(outside_joint, "outside.joint of one");
    b->train = 1;
    b->make = by_op;
    gradient_is(b, 6.0f);
    CU_ASSERT_EQUAL(sw_model_ready(b->model, b->exec, 1), SW_OK);
    b->make = by_op_and_more;
    gradient_is(b, 22.0f);
}

static void wrong_rule(sw_ctx *ctx, const sw_rule *r)
{
    r->din[0] = sw_sum(ctx, r->dout[0], 0);
}

SW_TEST("a rule gives what has the input's shape")
{
    bench *const b = open_bench(by_op);
    sw_op_desc d = outside_square;
    d.grads = NULL, d.n_grads = 0, d.rule = wrong_rule;
    b->op = added(d, "outside.wrong rule");
    b->train = 1;
    refused(b, SW_INVALID, "outside.wrong rule", "din[0] is f32 (), the input is f32 (2)");
}

/* Silence is no answer: an op without a gradient says so, unless it asks for silence. */
SW_TEST("an op without a gradient says so")
{
    bench *const b = open_bench(by_op);
    sw_op_desc d = outside_square;
    d.grads = NULL, d.n_grads = 0;
    b->op = added(d, "outside.no gradient");
    CU_ASSERT_EQUAL(sw_op_at(b->op)->no_gradient, 0);
    b->train = 1;
    refused(b, SW_UNSUPPORTED, "outside.no gradient", "no gradient for its input 0");
    b->train = 0;
    const sw_run_args args = args_of(b);
    CU_ASSERT_EQUAL(sw_run(b->exec, &args), SW_OK);
}

/* ---- calls ------------------------------------------------------------------------------- */

/* Updates of all kinds, and what stands around them. */
static bool is_of_optimizers(const char *op)
{
    static const char *const names[] = {
        "sumsq",         "clip_scale",  "accumulate_into", "finite",
        "product_bound", "any_verdict", "note_verdict",    "count_skipped",
        "adam_tick",     "steps_tick",  "noise_move",      "in_strips",
        "in_images",     "partial_sum", "shard_mean",      "agreed_verdict"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return strstr(op, "_update") != NULL;
}

SW_TEST("what optimizers append is refused")
{
    static const uint64_t attrs[64];
    bench *const b = open_bench(by_op);
    b->attrs = attrs;
    unsigned n = 0;
    for (b->op = 0; sw_op_at(b->op) != NULL; b->op++)
        if (is_of_optimizers(sw_op_at(b->op)->name)) {
            refused(b, SW_INVALID, sw_op_at(b->op)->name, "only an optimizer");
            n++;
        }
    CU_ASSERT(n >= 17);
}

SW_TEST("missing attributes are refused")
{
    bench *const b = open_bench(by_op);
    for (b->op = 0; strcmp(sw_op_at(b->op)->name, "leaky_relu") != 0; b->op++)
        ;
    refused(b, SW_INVALID, "leaky_relu", "the attributes must not be NULL");
}

static sw_value linear_reserved(sw_ctx *ctx, bench *b)
{
    const sw_linear layer = {.weight = b->p, .reserved = {0, 1}};
    return sw_apply_linear(ctx, layer, sw_use(ctx, b->p));
}

static sw_value conv_reserved(sw_ctx *ctx, bench *b)
{
    const sw_conv2d layer = {.weight = b->p, .stride = 1, .reserved = {1}};
    return sw_apply_conv2d(ctx, layer, sw_use(ctx, b->p));
}

SW_TEST("reserved words of layers must be zero")
{
    bench *const b = open_bench(NULL);
    b->make = linear_reserved;
    refused(b, SW_INVALID, "sw_linear", "reserved");
    b->make = conv_reserved;
    refused(b, SW_INVALID, "sw_conv2d", "reserved");
}
