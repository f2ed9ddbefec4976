/* y (n..., width) = rows of a table (vocabulary, width) by ids (n...) of U8, U16 or I32.
 *
 * Keeps the ids. The gradient of the table adds the rows of dy in the order of the ids. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    const sw_shape *ids = &in[0].shape, *table = &in[1].shape;
    char s[SWI_SHAPE_TEXT], t[SWI_SHAPE_TEXT];
    SW_TRY(swi_want_ids("embedding", "ids", &in[0]));
    SW_TRY(swi_want_f32("embedding", in + 1, 1));
    if (table->rank != 2 || ids->rank >= SW_MAX_RANK)
        SW_FAIL(SW_INVALID,
                "embedding: ids and table must be (n...) of at most %d axes and (vocabulary, "
                "width) (got %s and %s)",
                SW_MAX_RANK - 1, swi_shape_text(ids, s), swi_shape_text(table, t));
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

static sw_status forward(const sw_launch *l)
{
    const sw_shape *table = &l->in[1].type.shape;
    const sw_ids ids = swi_ids_of(&l->in[0]);
    SW_TRY(check_ids(&l->in[0], table->dim[0]));
    sw_axes(l->isa)->take_rows(swi_out(l, 0), swi_in(l, 1), &ids, table->dim[1], l->par);
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

static sw_status reference(const sw_reference *r)
{
    const int64_t width = r->in_type[1].shape.dim[1];
    for (int64_t i = 0; i < swi_elements(&r->in_type[0].shape); i++)
        for (int64_t c = 0; c < width; c++)
            r->out[0][i * width + c] = r->in[1][(int64_t)r->in[0][i] * width + c];
    return SW_OK;
}

static const sw_grad_desc grads[] = {
    GRAD(MAKES(1), FROM(SW_IN(0), SW_DOUT(0)), dtable, dtable_operations)};

#define IDS(count) .fill = {SW_FILL_LABELS, SW_FILL_NORMAL}, .limit = count
static const sw_op_case cases[] = {
    CASE("bytes, most repeated", IN(U8(40), F32(7, 5)), IDS(7)),
    CASE("integers", IN(I32(3, 11), F32(300, 12)), IDS(300)),
    CASE("two bytes", IN(U16(4, 9), F32(700, 8)), IDS(700)),
    CASE("wide rows", IN(I32(2, 3, 7), F32(20, 150)), IDS(20)),
    CASE("many rows", IN(I32(1500), F32(400, 65)), IDS(400)),
    CASE("one id", IN({SW_U8, SW_PLAIN, {0, {0}}}, F32(3, 4)), IDS(3)),
    CASE("two rows", IN(U8(70), F32(2, 3)), IDS(2)),
    CASE("one element", IN(I32(1), F32(1, 1)), IDS(1)),
};

OP(embedding, 2, 0, 1, .rebuild = 1, .infer = infer, .forward = forward,
   .operations = swi_count_none, GRADS(grads), CHECKS(reference, cases));

sw_value sw_embedding_op(sw_ctx *ctx, sw_value ids, sw_value table)
{
    const sw_value in[] = {ids, table};
    return sw_op_apply(ctx, SW_OP_embedding, in, 2, NULL);
}
