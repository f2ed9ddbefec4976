/* Windows that miss the image: an op that reads nothing of an operand by its shapes says so,
 * the plan ends the operand where it is read last, and all witnesses agree. */
#include "runtime/exec/exec.h"
#include "tests/support/made.h"

SW_TESTS("outside")

typedef struct {
    int64_t batch, in, out, h, w;
    int kernel, stride, pad, groups, dilation, output_pad;
    bool transposed, misses;
} shape_case;

/* The first of each pair has windows that miss all images, the other one is beside it. */
static const shape_case cases[] = {
    {3, 2, 4, 1, 1, 1, 2, 1, 1, 1, 0, false, true},
    {3, 2, 4, 1, 1, 1, 2, 2, 1, 1, 0, false, false},
    {3, 2, 4, 1, 1, 2, 5, 2, 1, 1, 0, false, true},
    {3, 2, 4, 1, 1, 2, 2, 2, 1, 1, 0, false, false},
    {16, 2, 4, 1, 1, 1, 2, 1, 1, 1, 0, false, true},
    {17, 3, 4, 1, 1, 2, 1, 2, 1, 4, 0, false, true},
    {17, 3, 4, 1, 1, 2, 1, 2, 1, 2, 0, false, false},
    {32, 8, 8, 1, 5, 1, 2, 1, 8, 1, 0, false, true},
    {2, 8, 8, 5, 1, 1, 2, 1, 8, 1, 0, false, true},
    {2, 8, 8, 3, 3, 3, 2, 1, 8, 1, 0, false, false},
    {32, 4, 6, 1, 1, 2, 3, 2, 2, 4, 0, false, true},
    {3, 2, 4, 1, 1, 2, 2, 2, 1, 4, 0, true, true},
    {3, 2, 4, 1, 1, 3, 2, 2, 1, 2, 0, true, false},
    {16, 4, 8, 1, 1, 2, 2, 2, 2, 4, 1, true, true},
    {17, 4, 4, 1, 1, 2, 1, 1, 4, 2, 0, true, true},
    {32, 2, 3, 1, 4, 2, 1, 1, 1, 2, 0, true, true},
    {32, 16, 16, 1, 1, 1, 2, 1, 1, 1, 0, false, true},
    {64, 16, 32, 1, 1, 2, 5, 2, 1, 1, 0, false, true},
};

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_param x, w, b;
    sw_optimizer *optimizer;
    const shape_case *c;
    bool bias, own_weight;
} misser;

static void step(sw_ctx *ctx, void *user)
{
    const misser *m = user;
    const shape_case *c = m->c;
    const sw_value x = sw_tanh(ctx, sw_use(ctx, m->x)), none = {0};
    const sw_value w = m->own_weight ? sw_use(ctx, m->w) : sw_tanh(ctx, sw_use(ctx, m->w));
    const sw_value b = m->bias ? sw_use(ctx, m->b) : none;
    const sw_conv_opts conv = SW_OPTS(sw_conv_opts, .stride = c->stride, .pad = c->pad,
                                      .groups = c->groups, .dilation = c->dilation);
    const sw_conv_transpose_opts back =
        SW_OPTS(sw_conv_transpose_opts, .stride = c->stride, .pad = c->pad, .groups = c->groups,
                .dilation = c->dilation, .output_pad = c->output_pad);
    const sw_value y = c->transposed ? sw_conv_transpose2d_op(ctx, x, w, b, &back)
                                     : sw_conv2d_op_with(ctx, x, w, b, &conv);
    const sw_value z = sw_sigmoid(ctx, y);
    const sw_value loss = sw_mean(ctx, sw_mul(ctx, z, z), 0);
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, (sw_optimizer *[]){m->optimizer}, 1);
    sw_update(ctx, m->optimizer);
}

/* Filters of bits miss the same images. */
static void bits_step(sw_ctx *ctx, void *user)
{
    const misser *m = user;
    const sw_value bits = sw_binarize(ctx, sw_tanh(ctx, sw_use(ctx, m->x)), 0.1f), none = {0};
    const sw_value w = sw_tanh(ctx, sw_use(ctx, m->w)), b = m->bias ? sw_use(ctx, m->b) : none;
    const sw_value y =
        sw_binary_conv2d_op(ctx, bits, w, b, m->c->stride, m->c->pad, SW_BINARY_SUMS);
    sw_metric(ctx, "y", sw_mean(ctx, y, 0));
}

static void make(misser *m, const char *isa, int threads)
{
    const shape_case *c = m->c;
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
    m->exec = made_exec(&SW_OPTS(sw_exec_opts, .isa = isa, .threads = threads));
    m->model = made_model("misser");
    const int64_t k = c->kernel, g = c->groups;
    m->x =
        sw_param_new(m->model, "x", SW_F32, SW_SHAPE(c->batch, c->in, c->h, c->w), "normal:1");
    m->w = sw_param_new(m->model, "w", SW_F32,
                        c->transposed ? SW_SHAPE(c->in, c->out / g, k, k)
                                      : SW_SHAPE(c->out, c->in / g, k, k),
                        "normal:1");
    if (m->bias)
        m->b = sw_param_new(m->model, "b", SW_F32, SW_SHAPE(c->out), "normal:1");
    OK(sw_optimizer_create(&m->optimizer, m->model, &sgd));
    OK(sw_model_ready(m->model, m->exec, 1));
}

/* In quick mode each case with one instruction set, the next case with the next one. */
SW_TEST("windows that miss the image")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    static misser m;
    for (size_t k = 0; k < 4 * 3 * sizeof cases / sizeof *cases; k++) {
        const shape_case *c = &cases[k / 12];
        const char *isa = isas[k / 4 % 3];
        sw_exec *has = NULL;
        if (!sw_tests_full() && k / 12 % 3 != k / 4 % 3)
            continue;
        if (sw_exec_create(&has, &SW_OPTS(sw_exec_opts, .isa = isa)) != SW_OK)
            continue; /* a set that the machine has not */
        sw_exec_destroy(has);
        m = (misser){.c = c, .bias = k & 1, .own_weight = k >> 1 & 1};
        make(&m, isa, 1 + (int)(k & 1));
        sw_run_args args =
            SW_OPTS(sw_run_args, .fn = step, .user = &m, .models = &m.model, .n_models = 1);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        SW_CHECK(sw_run(m.exec, &args) == SW_OK &&
                     sw_witness(m.exec, &args, SW_WITNESS_ALL, &seen) == SW_OK,
                 "case %zu: %s", k / 12, sw_last_error());
        const bool agreed = seen.agreed == SW_WITNESS_ALL && seen.n_faults == 0;
        SW_CHECK(agreed, "case %zu, %s, bias %d, weight %d: agreed %x, %s", k / 12, isa, m.bias,
                 m.own_weight, seen.agreed, seen.first_fault);
        args.fn = bits_step;
        args.mode = SW_EVAL;
        const uint32_t observers = SW_WITNESS_ACCESS | SW_WITNESS_DEATH;
        seen = SW_OPTS(sw_witness_info);
        if (!c->transposed && c->groups == 1 && c->dilation == 1)
            SW_CHECK(sw_witness(m.exec, &args, observers, &seen) == SW_OK &&
                         seen.agreed == observers,
                     "bits, case %zu, %s, bias %d: agreed %x, %s %s", k / 12, isa, m.bias,
                     seen.agreed, seen.first_fault, sw_last_error());
    }
}

/* ---- runs with noise --------------------------------------------------------------------- */

/* A convolution of a strategy: windows miss the image, or its bias alone has noise. */
typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_conv2d conv;
    sw_linear head;
    sw_optimizer *optimizer;
    sw_es *es;
} searcher;

static void search_step(sw_ctx *ctx, void *user)
{
    const searcher *s = user;
    const sw_value x = sw_tanh(ctx, sw_input(ctx, 0));
    const sw_value y = sw_relu(ctx, sw_apply_conv2d(ctx, s->conv, x));
    const sw_value z = sw_apply_linear(ctx, s->head, sw_flatten(ctx, y));
    sw_metric(ctx, "loss", sw_softmax_ce(ctx, z, sw_input(ctx, 1)));
}

static sw_status make_searcher(searcher *s, const char *noise, uint32_t rows, bool misses,
                               bool only_bias)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
    const sw_es_opts es = SW_OPTS(sw_es_opts, .noise = noise, .directions = rows / 2);
    s->exec = made_exec(NULL);
    s->model = made_model("searcher");
    s->conv = sw_conv2d_new(s->model, "conv", 2, 4, 1);
    s->conv.stride = 2;
    s->conv.pad = misses;
    s->head = sw_linear_new(s->model, "head", 4 * (misses ? 4 : 1), 3);
    if (only_bias)
        sw_param_freeze(s->conv.weight, 1);
    SW_TRY(sw_optimizer_create(&s->optimizer, s->model, &sgd));
    SW_TRY(sw_es_create(&s->es, s->optimizer, &es));
    AFTER(sw_es_destroy, s->es);
    return sw_model_ready(s->model, s->exec, 1);
}

SW_TEST("windows that miss, of a strategy")
{
    static const char *const noises[] = {"low-rank",  "iid",    "permuted",
                                         "sign-flip", "sparse", "dropout"};
    enum { OBSERVERS = SW_WITNESS_ACCESS | SW_WITNESS_EXTENT | SW_WITNESS_DEATH };
    static float images[32 * 2];
    static uint8_t labels[32];
    static searcher s;
    for (int i = 0; i < 64; i++)
        images[i] = 0.01f * (float)(i - 30), labels[i / 2] = (uint8_t)(i / 2 % 3);
    for (int k = 0; k < 6 * 8; k++) {
        const uint32_t rows = k & 1 ? 32 : 6;
        const bool misses = k >> 1 & 1, only_bias = k >> 2 & 1;
        s = (searcher){.exec = NULL};
        SW_CHECK(make_searcher(&s, noises[k / 8], rows, misses, only_bias) == SW_OK, "%s: %s",
                 noises[k / 8], sw_last_error());
        CU_ASSERT_FATAL(s.es != NULL && sw_es_rows(s.es) == rows);
        const sw_array in[] = {{SW_F32, SW_SHAPE(rows, 2, 1, 1), images},
                               {SW_U8, SW_SHAPE(rows), labels}};
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = search_step, .user = &s, .models = &s.model,
                    .n_models = 1, .inputs = in, .n_inputs = 2, .mode = SW_EVAL, .es = s.es);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        SW_CHECK(sw_witness(s.exec, &args, OBSERVERS, &seen) == SW_OK &&
                     seen.agreed == OBSERVERS,
                 "%s, %u rows, misses %d, bias alone %d: agreed %x, %s %s", noises[k / 8], rows,
                 misses, only_bias, seen.agreed, seen.first_fault, sw_last_error());
    }
}

/* ---- what is said and what is done ------------------------------------------------------- */

/* y = b, which says that it leaves a unread, or not, and reads it, or not. */
typedef struct {
    int32_t says, reads;
} claim;

static sw_status infer_claim(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = in[1];
    return SW_OK;
}

static sw_status claim_kernel(const sw_launch *l)
{
    const claim *c = l->attrs;
    const float *a = l->in[0].ptr, *b = l->in[1].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[1].type); i++)
        y[i] = c->reads ? b[i] + 2.0f * a[i] : b[i];
    return SW_OK;
}

static uint32_t claim_unread(const sw_kernel_info *info, int grad)
{
    return ((const claim *)info->attrs)->says ? 1u : 0;
}

static uint32_t claim_op;
static claim claimed;

static void claim_step(sw_ctx *ctx, void *user)
{
    const misser *m = user;
    const sw_value in[2] = {sw_tanh(ctx, sw_use(ctx, m->x)), sw_exp(ctx, sw_use(ctx, m->x))};
    sw_metric(ctx, "y", sw_mean(ctx, sw_op_apply(ctx, claim_op, in, 2, &claimed), 0));
}

SW_TEST("what an op says that it leaves unread is what it does")
{
    static const char *const faults[2][2] = {{"its planned death is", NULL},
                                             {NULL, "is touched after its death"}};
    const sw_op_desc desc =
        SW_OPTS(sw_op_desc, .name = "claim", .n_in = 2, .n_out = 1,
                .attrs_bytes = sizeof(claim), .infer = infer_claim, .forward = claim_kernel,
                .no_gradient = 1, .unread = claim_unread);
    static misser m;
    CU_ASSERT_EQUAL_FATAL(sw_op_register(&desc, &claim_op), SW_OK);
    for (int k = 0; k < 4; k++) {
        claimed = (claim){.says = k >> 1, .reads = k & 1};
        m = (misser){.c = &cases[0]};
        make(&m, NULL, 1);
        const sw_run_args args = SW_OPTS(sw_run_args, .fn = claim_step, .user = &m,
                                         .models = &m.model, .n_models = 1, .mode = SW_EVAL);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        const char *fault = faults[claimed.says][claimed.reads];
        SW_CHECK(sw_run(m.exec, &args) == SW_OK &&
                     sw_witness(m.exec, &args, SW_WITNESS_ACCESS, &seen) == SW_OK,
                 "%s", sw_last_error());
        SW_CHECK(fault == NULL ? seen.n_faults == 0
                               : seen.n_faults > 0 && strstr(seen.first_fault, fault) != NULL,
                 "says %d, reads %d: %u faults, %s", claimed.says, claimed.reads, seen.n_faults,
                 seen.first_fault);
    }
}
