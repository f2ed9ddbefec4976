#include "tests/witness/probe.h"
#include <string.h>

probe_mischief probe_does;
const volatile unsigned char *probe_elsewhere;

static float *first_output; /* where probe 0 wrote in this run */
static volatile float sink;

static sw_status infer_same(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = in[0];
    return SW_OK;
}

static size_t workspace(const sw_kernel_info *info)
{
    return sw_type_bytes(&info->in[0]);
}

static size_t rounded(size_t bytes)
{
    return (bytes + SW_ALIGN - 1) & ~(size_t)(SW_ALIGN - 1);
}

static void misbehave(const sw_launch *l, size_t bytes, int number)
{
    float *x = l->in[0].ptr, *y = l->out[0].ptr;
    unsigned char *out = l->out[0].ptr, *scratch = l->scratch;
    switch (probe_does) {
    case PROBE_PAST_SCRATCH:
        scratch[rounded(bytes)] = 1;
        break;
    case PROBE_PAST_OUTPUT:
        out[rounded(bytes)] = 1;
        break;
    case PROBE_BEFORE_OUTPUT:
        out[-1] = 1;
        break;
    case PROBE_PADDING:
        out[bytes] = 1;
        break;
    case PROBE_WRITES_INPUT:
        x[0] = x[0] + 1.0f;
        break;
    case PROBE_PEEKS:
        if (number == 1)
            y[0] += 0.001f * first_output[1];
        break;
    case PROBE_POKES:
        if (number == 1)
            first_output[1] = 7.0f;
        break;
    case PROBE_TOUCHES:
        sink = (float)*probe_elsewhere;
        break;
    default:
        break;
    }
}

static sw_status probe(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr, *scratch = l->scratch;
    int number;
    memcpy(&number, l->attrs, sizeof number);
    const int64_t n = sw_type_elements(&l->out[0].type);
    float before = probe_does == PROBE_STALE ? scratch[1] : 0.0f;
    if (probe_does == PROBE_BLEND)
        before = y[1];
    for (int64_t i = 0; i < n; i++)
        scratch[i] = x[i];
    for (int64_t i = 0; i < n; i++)
        if (probe_does != PROBE_LAZY || i != n / 2)
            y[i] = 2.0f * scratch[i];
    y[0] += before;
    if (number == 0)
        first_output = y;
    misbehave(l, (size_t)n * sizeof *y, number);
    return SW_OK;
}

static sw_status double_gradient(const sw_launch *l)
{
    const float *dy = l->in[l->n_in - 1].ptr;
    float *dx = l->out[0].ptr;
    const int64_t n = sw_type_elements(&l->out[0].type);
    for (int64_t i = 0; i < n; i++)
        dx[i] = (l->accumulate & 1u) != 0 ? dx[i] + 2.0f * dy[i] : 2.0f * dy[i];
    return SW_OK;
}

static sw_status twice(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    const int64_t n = sw_type_elements(&l->out[0].type);
    for (int64_t i = 0; i < n; i++)
        y[i] = 2.0f * x[i];
    return SW_OK;
}

static const sw_grad_desc probe_grads[] = {{.n_makes = 1,
                                            .makes = {0},
                                            .n_operands = 1,
                                            .operands = {SW_DOUT(0)},
                                            .kernel = double_gradient}};
static const sw_grad_desc hoarder_grads[] = {{.n_makes = 1,
                                              .makes = {0},
                                              .n_operands = 2,
                                              .operands = {SW_IN(0), SW_DOUT(0)},
                                              .kernel = double_gradient}};
static const sw_op_desc probe_desc = {.size = sizeof probe_desc,
                                      .name = "test.probe",
                                      .n_in = 1,
                                      .n_out = 1,
                                      .attrs_bytes = sizeof(int),
                                      .infer = infer_same,
                                      .scratch_bytes = workspace,
                                      .forward = probe,
                                      .grads = probe_grads,
                                      .n_grads = 1};
static const sw_op_desc hoarder_desc = {.size = sizeof hoarder_desc,
                                        .name = "test.hoarder",
                                        .n_in = 1,
                                        .n_out = 1,
                                        .infer = infer_same,
                                        .forward = twice,
                                        .grads = hoarder_grads,
                                        .n_grads = 1};

static sw_value apply(sw_ctx *ctx, const sw_op_desc *desc, uint32_t *id, sw_value x,
                      const void *attrs)
{
    if (*id == 0 && sw_op_register(desc, id) != SW_OK) {
        sw_fail(ctx, SW_INVALID, "the test's op could not be registered");
        return (sw_value){0, 0};
    }
    return sw_op_apply(ctx, *id, &x, 1, attrs);
}

sw_value probe_apply(sw_ctx *ctx, sw_value x, int number)
{
    static uint32_t id;
    return apply(ctx, &probe_desc, &id, x, &number);
}

sw_value hoarder_apply(sw_ctx *ctx, sw_value x)
{
    static uint32_t id;
    return apply(ctx, &hoarder_desc, &id, x, NULL);
}
