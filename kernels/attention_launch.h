/* A launch of attention: its shapes and operands, for the kernels of every device. C and C++
 * read it. */
#pragma once

#include "kernels/attention.h"
#include "kernels/attrs.h"
#include <math.h>

/* q, k and v, or the one tensor three times; also of a gradient kernel. v may be dy, which has
 * the heads of q. */
static inline sw_attention_shape sw_attention_shape_of(const sw_shape *q, const sw_shape *k,
                                                       const sw_shape *v, bool v_is_dy,
                                                       const swi_attention_attrs *a)
{
    const bool one = q == v;
    sw_attention_shape s;
    s.batch = q->dim[0];
    s.queries = q->dim[1];
    s.keys = k->dim[1];
    s.heads = a->heads;
    s.heads_kv = a->heads_kv != 0 ? a->heads_kv : a->heads;
    s.size = q->dim[2] / a->heads / (one ? 3 : 1);
    s.value_size = one ? s.size : v->dim[2] / (v_is_dy ? s.heads : s.heads_kv);
    s.scale = a->scale != 0.0f ? a->scale : 1.0f / sqrtf((float)s.size);
    s.causal = a->causal != 0;
    s.half = false;
    s.has_past = a->has_past != 0;
    s.first = NULL;
    s.past_at = NULL;
    s.past = 0;
    return s;
}

/* Operands after q, k and v: first, past. */
static inline int sw_attention_extras(const swi_attention_attrs *a)
{
    return (a->has_first != 0) + (a->has_past != 0);
}

/* How many operands of a gradient kernel are q, k and v. After them first and past are followed
 * by lse and dy, with `y` the result before them. The kernel for dv alone has q and k: it reads
 * no v. */
static inline int sw_attention_inputs(int n_in, bool y, const void *attrs)
{
    return n_in - (y ? 3 : 2) - sw_attention_extras((const swi_attention_attrs *)attrs);
}

/* The operand that has v's width: v, or dy after q, k, first, past and lse. */
static inline int sw_attention_v(int n, const void *attrs)
{
    return n == 2 ? 3 + sw_attention_extras((const swi_attention_attrs *)attrs) : n - 1;
}

/* Of a kernel whose first n operands are q, k and v. */
static inline sw_attention_shape sw_attention_info_shape(const sw_kernel_info *info, int n)
{
    sw_attention_shape s =
        sw_attention_shape_of(&info->in[0].shape, &info->in[n > 1 ? 1 : 0].shape,
                              &info->in[sw_attention_v(n, info->attrs)].shape, n == 2,
                              (const swi_attention_attrs *)info->attrs);
    s.half = info->in[0].dtype == SW_BF16;
    return s;
}

/* Element `at` of an operand. */
static inline float *sw_attention_at(const sw_buffer *b, int64_t at)
{
    return (float *)(void *)((char *)b->ptr + at * (b->type.dtype == SW_BF16 ? 2 : 4));
}

static inline sw_heads sw_attention_heads(const sw_buffer *b, int64_t from)
{
    const sw_heads h = {sw_attention_at(b, from * b->stride[2]), b->stride[0], b->stride[1],
                        b->stride[2]};
    return h;
}

/* q, k and v of a launch whose first n operands they are; first and past follow. Where there is
 * no v, k stands in its position, and is not read as v. */
static inline void sw_attention_find(const sw_launch *l, int n, sw_attention_shape *s,
                                     sw_heads to[3])
{
    const swi_attention_attrs *a = (const swi_attention_attrs *)l->attrs;
    *s = sw_attention_shape_of(&l->in[0].type.shape, &l->in[n > 1 ? 1 : 0].type.shape,
                               &l->in[sw_attention_v(n, a)].type.shape, n == 2, a);
    s->half = l->in[0].type.dtype == SW_BF16;
    if (a->has_first != 0)
        s->first = (const int32_t *)l->in[n].ptr;
    if (a->has_past != 0)
        s->past_at = (const int32_t *)l->in[n + (a->has_first != 0)].ptr;
    for (int i = 0; i < 3; i++)
        to[i] = n > 1 ? sw_attention_heads(&l->in[i < n ? i : n - 1], 0)
                      : sw_attention_heads(&l->in[0], i * s->heads * s->size);
}

/* Output i for a gradient; `from` its first column there. */
static inline sw_heads_out sw_attention_gradient(const sw_launch *l, int i, int64_t from)
{
    const sw_buffer *b = &l->out[i];
    const sw_heads_out h = {b->ptr != NULL ? sw_attention_at(b, from) : NULL, b->stride[0],
                            b->stride[1], (l->accumulate >> i & 1u) != 0};
    return h;
}

/* A launch of a gradient kernel. makes: bit i for the gradient of input i, in this order in
 * l->out, NULL where it is left out; all of one tensor's where there is one. in: the inputs,
 * first, past, y (where dq or dk are made), lse, dy. */
static inline sw_attention_grads sw_attention_grads_of(const sw_launch *l, unsigned makes)
{
    const bool y = (makes & 3u) != 0;
    const int n = sw_attention_inputs(l->n_in, y, l->attrs);
    const int after = n + sw_attention_extras((const swi_attention_attrs *)l->attrs);
    sw_attention_grads g;
    sw_heads in[3];
    sw_heads_out *const to[] = {&g.dq, &g.dk, &g.dv};
    sw_attention_find(l, n, &g.s, in);
    g.q = in[0];
    g.k = in[1];
    g.v = in[2];
    g.y = y ? (const float *)l->in[after].ptr : NULL;
    g.lse = (const float *)l->in[after + y].ptr;
    g.dy = (const float *)l->in[after + y + 1].ptr;
    for (int i = 0, out = 0; i < 3; i++) {
        const sw_heads_out none = {NULL, 0, 0, false};
        *to[i] = n == 1 ? sw_attention_gradient(l, 0, i * g.s.heads * g.s.size)
                 : (makes >> i & 1u) != 0 ? sw_attention_gradient(l, out++, 0)
                                          : none;
    }
    return g;
}
