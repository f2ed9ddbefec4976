/* y (batch, out) = x (batch, in) w^T + b; w (out, in), b (out) optional. w may be stored in
 * fewer bits where all else is float32.
 *
 * Keeps x for dw and w for dx: dx = dy w, dw = dy^T x, db = column sums of dy. */
#include "kernels/dispatch.h"
#include "kernels/products.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *x = &in[0].shape, *w = &in[1].shape;
    SW_TRY(swi_want_f32_or_stored("linear", in, n_in, 1));
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[1])
        SW_FAIL(SW_INVALID,
                "linear: input and weight must be (batch, in) and (out, in) (got %s and %s)",
                SWI_SHAPE(x), SWI_SHAPE(w));
    if (n_in > 2 && (in[2].shape.rank != 1 || in[2].shape.dim[0] != w->dim[0]))
        SW_FAIL(SW_INVALID, "linear: the bias must be (out) (got %s for the weight %s)",
                SWI_SHAPE(&in[2].shape), SWI_SHAPE(w));
    out[0] = (sw_type){SW_F32, SW_PLAIN, {2, {x->dim[0], w->dim[0]}}};
    return SW_OK;
}

/* (rows, cols) times `depth` multiply-adds. */
static uint64_t product(int64_t rows, int64_t cols, int64_t depth)
{
    return swi_count_mul(swi_count_mul((uint64_t)rows, (uint64_t)cols),
                         swi_count_mul(2, (uint64_t)depth));
}

#define DIM(i, k) (info->in[i].shape.dim[k])
COUNT(forward_operations,
      swi_count_add(product(DIM(0, 0), DIM(1, 0), DIM(0, 1)),
                    info->n_in > 2 ? swi_count_per_element(&info->out[0], 1) : 0))

SCRATCH(forward_bytes, sw_dense(info->isa)->gemm_bytes(DIM(0, 0), DIM(1, 0), DIM(0, 1),
                                                       swi_others_half(info, 1)))

/* Operand a (m, k) by operand b (k, n), with these steps of rows and columns. stored: b is the
 * weight. */
static sw_status multiply(const sw_launch *l, sw_gemm g, int a, int b, bool stored,
                          const float *bias)
{
    g.c = swi_out(l, 0);
    g.a = swi_in(l, a);
    g.b = swi_in(l, b);
    g.bias = bias;
    g.accumulate = swi_adds(l, 0);
    sw_stored w;
    g.order = swi_sum_order(l, stored ? b : -1);
    g.stored = swi_stored_of(&l->in[b], &w);
    g.a_half = swi_is_half(&l->in[a]);
    g.b_half = swi_is_half(&l->in[b]);
    g.c_half = swi_is_half(&l->out[0]);
    sw_dense(l->isa)->gemm(&g, l->scratch, l->par);
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    const int64_t *x = l->in[0].type.shape.dim, *w = l->in[1].type.shape.dim;
    const sw_gemm g = {
        .a_row = x[1], .a_col = 1, .b_row = 1, .b_col = w[1], .m = x[0], .n = w[0], .k = x[1]};
    return multiply(l, g, 0, 1, true, l->n_in > 2 ? swi_in(l, 2) : NULL);
}

/* in: w (out, in), dy (batch, out). w may be a range of columns of a larger matrix. */
SCRATCH(dx_bytes, sw_dense(info->isa)->gemm_bytes(DIM(1, 0), DIM(0, 1), DIM(0, 0),
                                                  swi_others_half(info, 0)))
COUNT(dx_operations, product(DIM(1, 0), DIM(0, 1), DIM(0, 0)))

static sw_status dx_kernel(const sw_launch *l)
{
    const int64_t *w = l->in[0].type.shape.dim, *dy = l->in[1].type.shape.dim;
    const sw_gemm g = SW_INIT(.a_row = dy[1], .a_col = 1, .b_row = l->in[0].stride[0],
                              .b_col = 1, .m = dy[0], .n = w[1], .k = w[0]);
    return multiply(l, g, 1, 0, true, NULL);
}

/* in: x (batch, in), dy (batch, out). dy may be a range of columns of a larger matrix: what is
 * made is then that range of rows of dw. */
SCRATCH(dw_bytes,
        sw_dense(info->isa)->gemm_bytes(DIM(1, 1), DIM(0, 1), DIM(0, 0), swi_any_half(info)))
COUNT(dw_operations, product(DIM(1, 1), DIM(0, 1), DIM(0, 0)))

static sw_status dw_kernel(const sw_launch *l)
{
    const int64_t *x = l->in[0].type.shape.dim, *dy = l->in[1].type.shape.dim;
    const sw_gemm g = SW_INIT(.a_row = 1, .a_col = l->in[1].stride[0], .b_row = x[1],
                              .b_col = 1, .m = dy[1], .n = x[1], .k = x[0]);
    return multiply(l, g, 1, 0, false, NULL);
}

/* in: dy */
static sw_status db_kernel(const sw_launch *l)
{
    const sw_shape *s = &l->in[0].type.shape;
    sw_dense(l->isa)->column_sums(swi_out(l, 0), swi_in(l, 0), s->dim[0], s->dim[1], s->dim[1],
                                  swi_adds(l, 0), l->par);
    return SW_OK;
}

COUNT(db_operations, swi_count_per_element(&info->in[0], 1))

static sw_status reference(const sw_reference *r)
{
    const int64_t m = r->in_type[0].shape.dim[0], k = r->in_type[0].shape.dim[1];
    const int64_t n = r->in_type[1].shape.dim[0];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = r->n_in > 2 ? r->in[2][j] : 0.0;
            for (int64_t p = 0; p < k; p++)
                sum += r->in[0][i * k + p] * r->in[1][j * k + p];
            r->out[0][i * n + j] = sum;
        }
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), dx_kernel, dx_operations,
         .scratch_bytes = dx_bytes),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), dw_kernel, dw_operations,
         .scratch_bytes = dw_bytes),
    GRAD(MAKES(2), FROM(SW_DOUT(0)), db_kernel, db_operations),
};

static const sw_op_case cases[] = {
    CASE("bias", IN(F32(5, 7), F32(9, 7), F32(9))),
    CASE("no bias", IN(F32(1, 3), F32(2, 3))),
    CASE("wide", IN(F32(33, 70), F32(130, 70), F32(130))),
};

OP(linear, 2, 3, 1, .infer = infer, .scratch_bytes = forward_bytes, .forward = forward,
   .operations = forward_operations, GRADS(grads), CHECKS(reference, cases));

sw_value sw_linear_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias)
{
    return sw_op_apply(ctx, SW_OP_linear, (sw_value[]){x, weight, bias}, bias.id != 0 ? 3 : 2,
                       NULL);
}

/* ==== matmul ============================================================================== */

/* y (..., m, n) = a (..., m, k) b (..., k, n); the axes in front broadcast by NumPy's rule.
 *
 * a and b may have any strides: a transposed operand is a view. Keeps both: da = dy b^T,
 * db = a^T dy, summed over the axes along which an operand was repeated. */

static sw_status matmul_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    const sw_shape *a = &in[0].shape, *b = &in[1].shape;
    SW_TRY(swi_want_f32("matmul", in, n_in));
    if (a->rank < 2 || b->rank < 2 || a->dim[a->rank - 1] != b->dim[b->rank - 2])
        SW_FAIL(SW_INVALID,
                "matmul: the inputs must be (..., m, k) and (..., k, n) (got %s and %s)",
                SWI_SHAPE(a), SWI_SHAPE(b));
    sw_shape front_a = *a, front_b = *b;
    front_a.rank -= 2;
    front_b.rank -= 2;
    out[0] = (sw_type){SW_F32, SW_PLAIN, {0, {0}}};
    sw_shape *y = &out[0].shape;
    SW_TRY(swi_broadcast("matmul", &front_a, &front_b, y));
    y->dim[y->rank++] = a->dim[a->rank - 2];
    y->dim[y->rank++] = b->dim[b->rank - 1];
    return SW_OK;
}

static int64_t rows_of(const sw_shape *s)
{
    return s->dim[s->rank - 2];
}

/* ---- kernels ----------------------------------------------------------------------------- */

static sw_status matmul_multiply(const sw_launch *l, int which)
{
    sw_products p = sw_matmul_products(l, which);
    p.order = swi_sum_order(l, -1);
    p.a_half = swi_is_half(&l->in[which == 0]);
    p.b_half = swi_is_half(&l->in[which != 0]);
    p.c_half = swi_is_half(&l->out[0]);
    sw_axes(l->isa)->products(&p, l->par);
    return SW_OK;
}

KERNEL(matmul_forward, matmul_multiply(l, -1))
COUNT(matmul_forward_operations,
      swi_count_per_element(&info->out[0],
                            swi_count_mul(2, (uint64_t)swi_cols_of(&info->in[0].shape))))

/* in: b, dy */
KERNEL(da_kernel, matmul_multiply(l, 0))
COUNT(da_operations,
      swi_count_per_element(&info->in[1],
                            swi_count_mul(2, (uint64_t)rows_of(&info->in[0].shape))))

/* in: a, dy */
KERNEL(matmul_db_kernel, matmul_multiply(l, 1))
COUNT(matmul_db_operations,
      swi_count_per_element(&info->in[1],
                            swi_count_mul(2, (uint64_t)swi_cols_of(&info->in[0].shape))))

static sw_status matmul_reference(const sw_reference *r)
{
    const sw_shape *a = &r->in_type[0].shape, *b = &r->in_type[1].shape;
    const sw_shape *y = &r->out_type[0].shape;
    const int64_t m = rows_of(y), n = swi_cols_of(y), depth = swi_cols_of(a);
    int64_t all = 1;
    for (int i = 0; i < y->rank - 2; i++)
        all *= y->dim[i];
    for (int64_t q = 0; q < all; q++) {
        int64_t from_a = 0, from_b = 0, step_a = 1, step_b = 1, rest = q;
        for (int i = y->rank - 3; i >= 0; i--) {
            const int64_t da = sw_front_dim(a, y->rank, i), db = sw_front_dim(b, y->rank, i);
            from_a += da > 1 ? rest % y->dim[i] * step_a : 0;
            from_b += db > 1 ? rest % y->dim[i] * step_b : 0;
            step_a *= da;
            step_b *= db;
            rest /= y->dim[i];
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0.0;
                for (int64_t k = 0; k < depth; k++)
                    sum += r->in[0][(from_a * m + i) * depth + k] *
                           r->in[1][(from_b * depth + k) * n + j];
                r->out[0][(q * m + i) * n + j] = sum;
            }
    }
    return SW_OK;
}

static const sw_grad_desc matmul_grads[] = {
    GRAD(MAKES(0), FROM(SW_IN(1), SW_DOUT(0)), da_kernel, da_operations),
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), matmul_db_kernel, matmul_db_operations),
};

static const sw_op_case matmul_cases[] = {
    CASE("matrices", IN(F32(5, 7), F32(7, 9))),
    CASE("one element", IN(F32(1, 1), F32(1, 1))),
    CASE("batch of squares", IN(F32(3, 4, 4), F32(3, 4, 4))),
    CASE("heads, tiles", IN(F32(2, 3, 33, 20), F32(2, 3, 20, 35))),
    CASE("one weight", IN(F32(3, 5, 6), F32(6, 10))),
    CASE("one matrix in front", IN(F32(5, 6), F32(2, 3, 6, 4))),
    CASE("both repeated", IN(F32(2, 1, 3, 5, 4), F32(7, 1, 4, 6))),
    CASE("wide, one matrix", IN(F32(1, 70, 65), F32(65, 130))),
};

OP(matmul, 2, 0, 1, .infer = matmul_infer, .strided_in = 3, .forward = matmul_forward,
   .operations = matmul_forward_operations, GRADS(matmul_grads),
   CHECKS(matmul_reference, matmul_cases));

/* ==== embedding =========================================================================== */

/* y (n..., width) = rows of a table (vocabulary, width) by ids (n...) of U8, U16 or I32. The
 * table may be stored in fewer bits where y is float32.
 *
 * Keeps the ids. The gradient of the table adds the rows of dy in the order of the ids. */

static sw_status embedding_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    const sw_shape *ids = &in[0].shape, *table = &in[1].shape;
    SW_TRY(swi_want_ids("embedding", "ids", &in[0]));
    SW_TRY(swi_want_f32_or_stored("embedding", in + 1, 1, 0));
    if (table->rank != 2 || ids->rank >= SW_MAX_RANK)
        SW_FAIL(SW_INVALID,
                "embedding: ids and table must be (n...) of at most %d axes and (vocabulary, "
                "width) (got %s and %s)",
                SW_MAX_RANK - 1, SWI_SHAPE(ids), SWI_SHAPE(table));
    out[0] = (sw_type){SW_F32, SW_PLAIN, *ids};
    out[0].shape.dim[out[0].shape.rank++] = table->dim[1];
    return SW_OK;
}

/* "(2, 5)" for an element of a tensor of that shape. */
static const char *place_text(int64_t element, const sw_shape *shape, char *to)
{
    sw_shape place = {shape->rank, {0}};
    for (int i = shape->rank - 1; i >= 0; i--) {
        place.dim[i] = element % shape->dim[i];
        element /= shape->dim[i];
    }
    return swi_shape_text(&place, to);
}

/* The gradient asks too: bytes may have changed after a mistake, and rows are written. */
static sw_status check_ids(const sw_buffer *b, int64_t rows)
{
    const sw_ids ids = swi_ids_of(b);
    for (int64_t i = 0; i < ids.n; i++) {
        const int64_t id = sw_id_at(&ids, i);
        char place[SWI_SHAPE_TEXT];
        if (id < 0 || id >= rows)
            SW_FAIL(SW_INVALID,
                    "embedding: id %lld at %s must be 0 or more and below the %lld rows of the "
                    "table",
                    (long long)id, place_text(i, &b->type.shape, place), (long long)rows);
    }
    return SW_OK;
}

static sw_status embedding_forward(const sw_launch *l)
{
    const sw_shape *table = &l->in[1].type.shape;
    const sw_ids ids = swi_ids_of(&l->in[0]);
    sw_stored w;
    SW_TRY(check_ids(&l->in[0], table->dim[0]));
    sw_axes(l->isa)->take_rows(swi_out(l, 0), swi_in(l, 1), &ids, table->dim[1],
                               swi_is_half(&l->in[1]), swi_is_half(&l->out[0]),
                               swi_stored_of(&l->in[1], &w), l->par);
    return SW_OK;
}

/* in: ids, dy */
static sw_status dtable(const sw_launch *l)
{
    const sw_shape *table = &l->out[0].type.shape;
    const sw_ids ids = swi_ids_of(&l->in[0]);
    SW_TRY(check_ids(&l->in[0], table->dim[0]));
    sw_axes(l->isa)->add_rows(swi_out(l, 0), swi_in(l, 1), &ids, table->dim[0], table->dim[1],
                              swi_adds(l, 0), l->par);
    return SW_OK;
}

COUNT(dtable_operations, swi_count_per_element(&info->in[1], 1))

static sw_status embedding_reference(const sw_reference *r)
{
    const int64_t width = r->in_type[1].shape.dim[1];
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        for (int64_t c = 0; c < width; c++)
            r->out[0][i * width + c] = r->in[1][(int64_t)r->in[0][i] * width + c];
    return SW_OK;
}

static const sw_grad_desc embedding_grads[] = {
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), dtable, dtable_operations)};

#define IDS(count) .fill = {SW_FILL_LABELS, SW_FILL_NORMAL}, .limit = count
static const sw_op_case embedding_cases[] = {
    CASE("bytes, most repeated", IN(U8(40), F32(7, 5)), IDS(7)),
    CASE("integers", IN(I32(3, 11), F32(300, 12)), IDS(300)),
    CASE("two bytes", IN(U16(4, 9), F32(700, 8)), IDS(700)),
    CASE("wide rows", IN(I32(2, 3, 7), F32(20, 150)), IDS(20)),
    CASE("many rows", IN(I32(1500), F32(400, 65)), IDS(400)),
    CASE("one id", IN({SW_U8, SW_PLAIN, {0, {0}}}, F32(3, 4)), IDS(3)),
    CASE("two rows", IN(U8(70), F32(2, 3)), IDS(2)),
    CASE("one element", IN(I32(1), F32(1, 1)), IDS(1)),
};

OP(embedding, 2, 0, 1, .rebuild = 1, .infer = embedding_infer, .forward = embedding_forward,
   .operations = swi_count_none, GRADS(embedding_grads),
   CHECKS(embedding_reference, embedding_cases));

sw_value sw_embedding_op(sw_ctx *ctx, sw_value ids, sw_value table)
{
    return sw_op_apply(ctx, SW_OP_embedding, (sw_value[]){ids, table}, 2, NULL);
}
