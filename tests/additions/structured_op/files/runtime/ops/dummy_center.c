/* Rows less their means, over the last axis. Keeps nothing. */
#include "kernels/dummy_center.h"
#include "runtime/ops/ops.h"

static int64_t cols_of(const sw_shape *s)
{
    return s->dim[s->rank - 1];
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    if (in[0].shape.rank < 1 || cols_of(&in[0].shape) < 1)
        SW_FAIL(SW_INVALID, "dummy_center: the last axis must have at least one element");
    return swi_infer_same("dummy_center", in, n_in, out);
}

/* in: x, or dy for the gradient */
static sw_status forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->in[0].type), cols = cols_of(&l->in[0].type.shape);
    for (int64_t i = 0; i < n; i += cols)
        sw_dummy_center_row(swi_out(l, 0) + i, swi_in(l, 0) + i, cols, swi_adds(l, 0));
    return SW_OK;
}

/* An addition and a difference for each element. */
static uint64_t operations(const sw_kernel_info *info)
{
    return swi_count_per_element(&info->out[0], 2);
}

static sw_status reference(const sw_reference *r)
{
    const int64_t n = swi_elements(&r->in_type[0].shape), cols = cols_of(&r->in_type[0].shape);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t k = i / cols * cols; k < i / cols * cols + cols; k++)
            sum += r->in[0][k] / (double)cols;
        r->out[0][i] = r->in[0][i] - sum;
    }
    return SW_OK;
}

static const sw_grad_desc grads[] = {{.n_makes = 1,
                                      .makes = {0},
                                      .n_operands = 1,
                                      .operands = {SW_DOUT(0)},
                                      .inplace = 1,
                                      .kernel = forward,
                                      .operations = operations}};

static const sw_op_case cases[] = {
    {.name = "matrix", .n_in = 1, .in = {SWI_F32(5, 37)}},
    {.name = "one column", .n_in = 1, .in = {SWI_F32(4, 1)}},
    {.name = "image", .n_in = 1, .in = {SWI_F32(2, 3, 4, 5)}},
};

const sw_op_desc sw_op_dummy_center = {.size = sizeof(sw_op_desc),
                                       .name = "dummy_center",
                                       .n_in = 1,
                                       .n_out = 1,
                                       .infer = infer,
                                       .rebuild = 1,
                                       .inplace = 1,
                                       .forward = forward,
                                       .grads = grads,
                                       .n_grads = SWI_COUNT(grads),
                                       .reference = reference,
                                       .cases = cases,
                                       .n_cases = SWI_COUNT(cases),
                                       .operations = operations};
