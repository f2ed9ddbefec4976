/* Types, shapes and names; what op files share about them. */
#include "alloc/base/size.h"
#include "runtime/base/common.h"
#include <stdio.h>
#include <string.h>

const char *sw_version(void)
{
    return SW_VERSION;
}

size_t sw_dtype_bytes(sw_dtype dtype)
{
    static const size_t bytes[] = {4, 8, 2, 4, 1, 2};
    return (unsigned)dtype <= SW_U16 ? bytes[dtype] : 0; /* of others no number is alone */
}

const char *sw_dtype_name(sw_dtype dtype)
{
    static const char *const names[] = {"f32", "f64", "bf16", "i32", "u8", "u16", "i8", "nf4"};
    return (unsigned)dtype <= SW_NF4 ? names[dtype] : "?";
}

const char *sw_phase_name(sw_phase phase)
{
    static const char *const names[] = {"data", "forward", "loss", "backward", "step"};
    return (unsigned)phase < SW_PHASES ? names[phase] : "?";
}

/* Negative for a shape that is bad or too large. */
int64_t sw_type_elements(const sw_type *type)
{
    if (type == NULL)
        return 0;
    int64_t n;
    int64_t dims[SW_MAX_RANK];
    if (type->shape.rank < 0 || type->shape.rank > SW_MAX_RANK)
        return -1;
    memcpy(dims, type->shape.dim, sizeof dims);
    if (type->layout == SW_N16) {
        if (dims[0] < 0 || dims[0] > INT64_MAX - 15)
            return -1;
        dims[0] = (dims[0] + 15) / 16 * 16;
    }
    return sw_size_elements(dims, type->shape.rank, &n) ? n : -1;
}

size_t sw_type_bytes(const sw_type *type)
{
    const int64_t n = sw_type_elements(type);
    if (n > 0 && sw_is_stored(type->dtype))
        return sw_stored_bytes(
            &(sw_stored){type->dtype, NULL, type->shape.dim[0], type->shape.dim[1]});
    return n > 0 ? (size_t)n * sw_dtype_bytes(type->dtype) : 0;
}

const char *swi_shape_text(const sw_shape *shape, char *to)
{
    size_t used = (size_t)snprintf(to, SWI_SHAPE_TEXT, "(");
    for (int i = 0; i < shape->rank && used < SWI_SHAPE_TEXT; i++)
        used += (size_t)snprintf(to + used, SWI_SHAPE_TEXT - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)shape->dim[i]);
    if (used < SWI_SHAPE_TEXT)
        snprintf(to + used, SWI_SHAPE_TEXT - used, ")");
    return to;
}

void swi_set_shape(sw_shape *to, const sw_shape *from)
{
    memset(to, 0, sizeof *to);
    to->rank = from->rank;
    for (int i = 0; i < from->rank && i < SW_MAX_RANK; i++)
        to->dim[i] = from->dim[i];
}

void swi_set_fill(swi_fill_attrs *to, const sw_type *type, float value)
{
    memset(to, 0, sizeof *to);
    to->type.dtype = type->dtype;
    to->type.layout = type->layout;
    swi_set_shape(&to->type.shape, &type->shape);
    to->value = value;
}

bool swi_same_shape(const sw_shape *a, const sw_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

bool swi_same_type(const sw_type *a, const sw_type *b)
{
    return a->dtype == b->dtype && a->layout == b->layout &&
           swi_same_shape(&a->shape, &b->shape);
}

int64_t swi_elements(const sw_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++)
        n *= shape->dim[i];
    return n;
}

sw_status swi_want_f32(const char *op, const sw_type *in, int n_in)
{
    return swi_want_f32_or_stored(op, in, n_in, -1);
}

sw_status swi_want_f32_or_stored(const char *op, const sw_type *in, int n_in, int stored)
{
    for (int i = 0; i < n_in; i++)
        if (in[i].dtype != SW_F32 &&
            (i != stored || (in[i].dtype != SW_BF16 && !sw_is_stored(in[i].dtype))))
            SW_FAIL(SW_INVALID, "%s: input %d must be f32 (got %s; sw_to_f32 converts %s)", op,
                    i, sw_dtype_name(in[i].dtype),
                    in[i].dtype == SW_U8 || in[i].dtype == SW_I32 ? "it" : "u8 and i32");
    return SW_OK;
}

sw_status swi_want_ids(const char *op, const char *what, const sw_type *in)
{
    if (in->dtype != SW_U8 && in->dtype != SW_U16 && in->dtype != SW_I32)
        SW_FAIL(SW_INVALID, "%s: %s must be u8, u16 or i32 (got %s)", op, what,
                sw_dtype_name(in->dtype));
    return SW_OK;
}

sw_status swi_infer_same(const char *op, const sw_type *in, int n_in, sw_type *out)
{
    SW_TRY(swi_want_f32(op, in, n_in));
    out[0] = in[0];
    return SW_OK;
}

sw_layout swi_layout_keep(const sw_type *in, int n_in, const void *attrs)
{
    (void)attrs;
    for (int i = 0; i < n_in; i++)
        if (in[i].shape.rank != 4 || !swi_same_shape(&in[i].shape, &in[0].shape))
            return SW_PLAIN;
    /* One of them in blocks: the others follow, so that a chain of images stays in blocks. */
    for (int i = 0; i < n_in; i++)
        if (in[i].layout == SW_N16)
            return SW_N16;
    return SW_PLAIN;
}

sw_status swi_view_all(const sw_buffer *in, const void *attrs, const sw_type *out,
                       int64_t *strides, int64_t *offset)
{
    (void)attrs;
    for (int i = 0; i < out->shape.rank; i++)
        strides[i] = in->stride[i];
    *offset = 0;
    return SW_OK;
}

sw_layout swi_layout_first(const sw_type *in, int n_in, const void *attrs)
{
    (void)n_in;
    return swi_layout_keep(in, 1, attrs);
}

sw_layout swi_layout_image(const sw_type *in, int n_in, const void *attrs)
{
    (void)n_in, (void)attrs;
    const int64_t batch = in[0].shape.dim[0], empty = (16 - batch % 16) % 16;
    return in[0].shape.rank == 4 && empty <= batch / 4 ? SW_N16 : SW_PLAIN;
}

sw_status swi_broadcast(const char *op, const sw_shape *a, const sw_shape *b, sw_shape *out)
{
    sw_shape r = {a->rank > b->rank ? a->rank : b->rank, {0}};
    for (int i = 1; i <= r.rank; i++) {
        const int64_t x = i <= a->rank ? a->dim[a->rank - i] : 1;
        const int64_t y = i <= b->rank ? b->dim[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            SW_FAIL(SW_INVALID, "%s: shapes %s and %s do not broadcast", op, SWI_SHAPE(a),
                    SWI_SHAPE(b));
        r.dim[r.rank - i] = x == 1 ? y : x;
    }
    *out = r;
    return SW_OK;
}

void swi_broadcast_strides(const sw_buffer *from, const sw_shape *to, int64_t *stride)
{
    const sw_shape *s = &from->type.shape;
    for (int i = 1; i <= to->rank; i++)
        stride[to->rank - i] =
            i <= s->rank && s->dim[s->rank - i] != 1 ? from->stride[s->rank - i] : 0;
}

bool swi_is_contiguous(const sw_buffer *b)
{
    int64_t step = 1;
    for (int i = b->type.shape.rank - 1; i >= 0; i--) {
        if (b->type.shape.dim[i] > 1 && b->stride[i] != step)
            return false;
        step *= b->type.shape.dim[i];
    }
    return true;
}

#define ROLE_NAME(id, name) name,
static const char *const role_names[] = {SWI_ROLES(ROLE_NAME)};

const char *swi_role_name(swi_role role)
{
    return (unsigned)role < SWI_ROLE_COUNT ? role_names[role] : "?";
}

/* ---- counts ------------------------------------------------------------------------------ */

uint64_t swi_count_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t swi_count_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t swi_count_per_element(const sw_type *type, uint64_t each)
{
    return swi_count_mul((uint64_t)swi_elements(&type->shape), each);
}

uint64_t swi_count_none(const sw_kernel_info *info)
{
    (void)info;
    return 0;
}
