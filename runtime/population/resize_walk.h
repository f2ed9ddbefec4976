/* One op while its axes are tied: operands by their position, inputs in front. */
#ifndef SW_RESIZE_WALK_H
#define SW_RESIZE_WALK_H

#include "runtime/population/resize_internal.h"

typedef struct {
    swi_axes *axes;
    int side;
    bool positions;
    const swi_net *net;
    const swi_net_node *node;
    uint8_t seen[SWI_MAX_OPERANDS]; /* axes that the op has mentioned */
    sw_status status;               /* the first refusal */
} swi_walk;

static inline uint32_t swi_walk_value_of(const swi_walk *w, uint32_t k)
{
    return w->net->operands[w->node->first + k];
}

static inline const sw_shape *swi_walk_shape_of(const swi_walk *w, uint32_t k)
{
    return &w->net->values[swi_walk_value_of(w, k)].shape;
}

static inline int swi_walk_last_of(const swi_walk *w, uint32_t k)
{
    return swi_walk_shape_of(w, k)->rank - 1;
}

static inline const void *swi_walk_attrs_of(const swi_walk *w)
{
    return w->net->attrs + w->node->attrs;
}

/* Of the same node in the net of that side. */
static inline const void *swi_walk_attrs_on(const swi_walk *w, int side)
{
    const swi_net *net = w->axes->net[side];
    return net->attrs + net->nodes[w->node - w->net->nodes].attrs;
}

static inline uint32_t swi_walk_axis_of(const swi_walk *w, uint32_t k, int d)
{
    return swi_walk_value_of(w, k) * SW_MAX_RANK + (uint32_t)d;
}

static inline void swi_walk_see(swi_walk *w, uint32_t k, int d)
{
    w->seen[k] |= (uint8_t)(1u << d);
}

static inline bool swi_walk_is_resized(const swi_walk *w, uint32_t k, int d)
{
    return w->positions && w->axes->at[w->side][swi_walk_axis_of(w, k, d)] != SWI_NONE;
}

/* SW_UNSUPPORTED, by the op's name, where the axis is resized. */
void swi_walk_refuse(swi_walk *w, uint32_t k, int d, const char *what);
/* The axis's positions must stay: swi_axis_fix, with the op's name. */
void swi_walk_fix(swi_walk *w, uint32_t k, int d, const char *what);
/* n positions of the one and of the other, from these on, are one. */
void swi_walk_span(swi_walk *w, uint32_t a, int da, int64_t from_a, uint32_t b, int db,
                   int64_t from_b, int64_t n);
/* Two axes are one, if both are there and have one length; the first n axes are. */
void swi_walk_tie(swi_walk *w, uint32_t a, int da, uint32_t b, int db);
void swi_walk_tie_front(swi_walk *w, uint32_t a, uint32_t b, int n);
/* Position p of axis dw of `whole` is position p / inner of axis d of `run`, again and again.
 */
void swi_walk_block(swi_walk *w, uint32_t whole, int dw, uint32_t run, int d, int64_t inner);

/* By the words of op_traits.h, each file some of them. */
void swi_tie_reshape(swi_walk *w);
void swi_tie_permute(swi_walk *w);
void swi_tie_slice(swi_walk *w);
void swi_tie_concat(swi_walk *w);
void swi_tie_linear(swi_walk *w);
void swi_tie_conv(swi_walk *w);
void swi_tie_conv_transpose(swi_walk *w);
void swi_tie_matmul(swi_walk *w);
void swi_tie_linear_loss(swi_walk *w);
void swi_tie_loss(swi_walk *w);
void swi_tie_heads(swi_walk *w);

#endif
