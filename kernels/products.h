/* Operands of the kernels of matmul, on every device: matrices at the ends of two tensors. The
 * leading axes broadcast by NumPy's rule. */
#pragma once

#include "kernels/axes.h"
#include "kernels/launch.h"
#include <string.h>

/* Axis i before the matrices of a tensor that is broadcast to `rank` axes: its length, 1
 * where it has none, and its step, 0 where it repeats. */
static inline int64_t sw_front_dim(const sw_shape *s, int rank, int i)
{
    const int k = i - (rank - s->rank);
    return k >= 0 ? s->dim[k] : 1;
}

static inline int64_t sw_front_step(const sw_buffer *x, int rank, int i)
{
    const int k = i - (rank - x->type.shape.rank);
    return k >= 0 && x->type.shape.dim[k] != 1 ? x->stride[k] : 0;
}

/* Along its last axis but `back`. */
static inline int64_t sw_end_dim(const sw_buffer *x, int back)
{
    return x->type.shape.dim[x->type.shape.rank - 1 - back];
}

static inline int64_t sw_end_step(const sw_buffer *x, int back)
{
    return x->stride[x->type.shape.rank - 1 - back];
}

/* which: -1 for y = a b (in a, b), 0 for da = dy b^T (in b, dy), 1 for db = a^T dy (in a, dy).
 * Where the result was repeated in front, its gradient is a sum. */
static inline sw_products sw_matmul_products(const sw_launch *l, int which)
{
    const sw_buffer *a = &l->in[which == 0], *b = &l->in[which != 0];
    const sw_shape *to = &l->out[0].type.shape;
    const sw_shape *whole = which < 0 ? to : &l->in[1].type.shape;
    const int turn_a = which == 1, turn_b = which == 0;
    sw_products p;
    memset(&p, 0, sizeof p);
    p.c = (float *)l->out[0].ptr;
    p.a = (const float *)a->ptr;
    p.b = (const float *)b->ptr;
    p.accumulate = (l->accumulate & 1u) != 0;
    p.m = sw_end_dim(a, !turn_a);
    p.k = sw_end_dim(a, turn_a);
    p.n = sw_end_dim(b, turn_b);
    p.a_row = sw_end_step(a, !turn_a);
    p.a_col = sw_end_step(a, turn_a);
    p.b_row = sw_end_step(b, !turn_b);
    p.b_col = sw_end_step(b, turn_b);
    for (int i = 0; i < whole->rank - 2; i++) {
        const int64_t step_a = sw_front_step(a, whole->rank, i);
        const int64_t step_b = sw_front_step(b, whole->rank, i);
        if (sw_front_dim(to, whole->rank, i) == whole->dim[i]) {
            p.result[p.n_results] = whole->dim[i];
            p.result_a[p.n_results] = step_a;
            p.result_b[p.n_results++] = step_b;
        } else {
            p.sum[p.n_sums] = whole->dim[i];
            p.sum_a[p.n_sums] = step_a;
            p.sum_b[p.n_sums++] = step_b;
        }
    }
    return p;
}
