/* A parameter's gradient and its update by tiles of rows: the launches that one of tile_update
 * consists of, for the kernels of every device. C and C++ read it. */
#pragma once

#include "kernels/attrs.h"
#include "kernels/state8.h"
#include <stdbool.h>
#include <string.h>

enum { SW_TILE_OPERANDS = 40, SW_TILE_BY_ATTRS = -1 };

/* A launch, its operands and attributes; it must stay where it is. */
typedef struct {
    sw_buffer in[SW_TILE_OPERANDS], out[SW_TILE_OPERANDS];
    sw_launch launch;
    union {
        swi_rows_attrs rows; /* what the maker's begin with, where it has some */
        unsigned char all[SWI_TILE_MAKE_ATTRS];
    } attrs;
} sw_tile_part;

static inline const swi_tile_attrs *sw_tile_attrs_of(const sw_launch *l)
{
    return (const swi_tile_attrs *)l->attrs;
}

/* Where the operands of the update begin. */
static inline int sw_tile_first_of_update(const swi_tile_attrs *a)
{
    return a->n_make + a->n_check;
}

/* The gradient of at most `rows` rows of the parameter from `first` on, in scratch. */
static inline sw_buffer sw_tile_gradient(const sw_launch *l, int64_t first, int64_t rows)
{
    sw_buffer gradient = l->out[0];
    const int64_t left = l->out[0].type.shape.dim[0] - first;
    gradient.ptr = l->scratch;
    gradient.type.shape.dim[0] = left < rows ? left : rows;
    return gradient;
}

/* Rows [first, first + rows) of b along an axis. */
static inline sw_buffer sw_tile_range(const sw_buffer *b, int axis, int64_t first, int64_t rows)
{
    const sw_dtype dtype = b->type.dtype;
    const size_t element = dtype == SW_U8 ? 1 : dtype == SW_BF16 ? 2 : sizeof(float);
    sw_buffer r = *b;
    r.ptr = (unsigned char *)b->ptr + (size_t)(first * b->stride[axis]) * element;
    r.type.shape.dim[axis] = rows;
    return r;
}

static inline bool sw_tile_same(const sw_shape *a, const sw_shape *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* Scales of a state in 8 bits of this parameter, of two axes at least? */
static inline bool sw_tile_is_scales(const sw_shape *shape, const sw_shape *param)
{
    const sw_shape scales = sw_state8_scales(param);
    return param->rank > 1 && sw_tile_same(shape, &scales);
}

/* A buffer with the parameter's shape and one of scales go by its rows, all others are whole.
 */
static inline sw_buffer sw_tile_rows_if(const sw_buffer *b, const sw_buffer *param,
                                        int64_t first, int64_t rows)
{
    return sw_tile_same(&b->type.shape, &param->type.shape) ||
                   sw_tile_is_scales(&b->type.shape, &param->type.shape)
               ? sw_tile_range(b, 0, first, rows)
               : *b;
}

/* Make the rows of `gradient` from `first` on; the operand of which a range along an axis is
 * that range of rows, or SW_TILE_BY_ATTRS. `tile` bytes of scratch are the gradient's. */
static inline void sw_tile_make(sw_tile_part *p, const sw_launch *l, int operand, int axis,
                                const sw_buffer *gradient, int64_t first, size_t tile)
{
    const swi_tile_attrs *a = sw_tile_attrs_of(l);
    const int64_t rows = gradient->type.shape.dim[0];
    const bool by_attrs = operand == SW_TILE_BY_ATTRS;
    for (int i = 0; i < a->n_make; i++)
        p->in[i] = by_attrs ? sw_tile_rows_if(&l->in[i], &l->out[0], first, rows) : l->in[i];
    if (by_attrs) {
        memcpy(p->attrs.all, a->make, sizeof a->make);
        p->attrs.rows.first = first;
    } else {
        p->in[operand] = sw_tile_range(&l->in[operand], axis, first, rows);
    }
    p->out[0] = *gradient;
    p->launch = *l;
    p->launch.in = p->in;
    p->launch.n_in = a->n_make;
    p->launch.out = p->out;
    p->launch.n_out = 1;
    p->launch.scratch = (unsigned char *)l->scratch + tile;
    p->launch.scratch_bytes = l->scratch_bytes - tile;
    p->launch.attrs = by_attrs ? p->attrs.all : NULL;
    p->launch.accumulate = 0;
}

/* Update those rows. */
static inline void sw_tile_step(sw_tile_part *p, const sw_launch *l, const sw_buffer *gradient,
                                int64_t first)
{
    const swi_tile_attrs *a = sw_tile_attrs_of(l);
    const int64_t rows = gradient->type.shape.dim[0];
    const int from = sw_tile_first_of_update(a);
    p->launch = *l;
    p->launch.in = p->in;
    p->launch.out = p->out;
    p->launch.n_in = 0;
    p->launch.n_out = l->n_out - a->has_check;
    p->launch.scratch = NULL;
    p->launch.scratch_bytes = 0;
    p->launch.attrs = a->attrs;
    for (int i = from; i < l->n_in; i++) {
        p->in[p->launch.n_in++] = sw_tile_rows_if(&l->in[i], &l->out[0], first, rows);
        if (i == from)
            p->in[p->launch.n_in++] = *gradient;
    }
    if (a->has_check)
        p->in[p->launch.n_in++] = l->out[p->launch.n_out];
    for (int i = 0; i < p->launch.n_out; i++)
        p->out[i] = sw_tile_rows_if(&l->out[i], &l->out[0], first, rows);
}

/* Look at them: the check of a launch that has one, scratch as for sw_tile_make. */
static inline void sw_tile_look(sw_tile_part *p, const sw_launch *l, const sw_buffer *gradient,
                                size_t tile)
{
    const swi_tile_attrs *a = sw_tile_attrs_of(l);
    p->in[0] = *gradient;
    for (int i = 0; i < a->n_check; i++)
        p->in[1 + i] = l->in[a->n_make + i];
    p->out[0] = l->out[l->n_out - 1];
    p->launch = *l;
    p->launch.in = p->in;
    p->launch.n_in = 1 + a->n_check;
    p->launch.out = p->out;
    p->launch.n_out = 1;
    p->launch.scratch = (unsigned char *)l->scratch + tile;
    p->launch.scratch_bytes = l->scratch_bytes - tile;
    p->launch.attrs = &a->check;
}
