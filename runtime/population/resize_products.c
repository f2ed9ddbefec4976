/* Ties of products, losses and attention: axes that are summed over, heads, and ends. */
#include "runtime/population/resize_walk.h"

/* The node that makes a value; NULL: none. */
static const swi_net_node *maker_of(const swi_net *net, uint32_t value)
{
    for (uint32_t i = 0; i < net->n_nodes; i++)
        for (uint32_t k = 0; k < net->nodes[i].n_out; k++)
            if (net->operands[net->nodes[i].first + net->nodes[i].n_in + k] == value)
                return &net->nodes[i];
    return NULL;
}

/* The axis of a tensor of a model that this one is, perhaps seen through permutations and
 * slices; SWI_NONE: of none. */
static uint32_t tensor_axis(const swi_net *net, uint32_t value, int d)
{
    while (net->values[value].source != SWI_OF_MODEL) {
        const swi_net_node *node = maker_of(net, value);
        const swi_op_axes word =
            node != NULL ? swi_op_traits_of(node->op)->axes : SWI_AXES_NONE;
        if (word != SWI_AXES_PERMUTE && word != SWI_AXES_SLICE)
            return SWI_NONE;
        const void *attrs = net->attrs + node->attrs;
        if (word == SWI_AXES_PERMUTE)
            d = ((const swi_permute_attrs *)attrs)->axis[d];
        value = net->operands[node->first];
        d = d < 0 ? d + net->values[value].shape.rank : d;
    }
    return value * SW_MAX_RANK + (uint32_t)d;
}

/* The op sums over this axis; true where its elements are those of a tensor, which can be zero
 * where a unit is new. */
static bool reads_by(swi_walk *w, uint32_t k, int d)
{
    swi_walk_see(w, k, d);
    if (!swi_walk_is_resized(w, k, d))
        return true;
    const uint32_t axis = tensor_axis(w->net, swi_walk_value_of(w, k), d);
    if (axis != SWI_NONE)
        w->axes->read[axis] = 1;
    return axis != SWI_NONE;
}

static void must_read_by(swi_walk *w, uint32_t k, int d)
{
    if (!reads_by(w, k, d))
        swi_walk_refuse(w, k, d, "is summed over by what is no tensor of the model, in");
}

/* ---- products -------------------------------------------------------------------------- */

/* in {x, weight, [bias]}: the last axis of x is summed over. */
void swi_tie_linear(swi_walk *w)
{
    const uint32_t out = w->node->n_in;
    swi_walk_tie(w, 0, swi_walk_last_of(w, 0), 1, 1);
    must_read_by(w, 1, 1);
    swi_walk_tie_front(w, 0, out, swi_walk_last_of(w, 0));
    swi_walk_tie(w, out, swi_walk_last_of(w, out), 1, 0);
    if (w->node->n_in > 2)
        swi_walk_tie(w, 2, 0, 1, 0);
}

/* Does each channel have its own group, in both nets? One channel alone may be either. */
static bool is_depthwise(const swi_walk *w)
{
    int64_t groups[2];
    for (int s = 0; s < 2; s++) {
        groups[s] = ((const swi_conv_attrs *)swi_walk_attrs_on(w, s))->groups;
        if (groups[s] != w->axes->net[s]->values[swi_walk_value_of(w, 0)].shape.dim[1])
            return false;
    }
    return groups[SWI_FROM] > 1 || groups[SWI_TO] > 1;
}

void swi_tie_conv(swi_walk *w)
{
    const int64_t groups = ((const swi_conv_attrs *)swi_walk_attrs_of(w))->groups;
    const uint32_t out = w->node->n_in;
    swi_walk_tie(w, 0, 0, out, 0);
    swi_walk_tie(w, out, 1, 1, 0);
    if (w->node->n_in > 2)
        swi_walk_tie(w, 2, 0, 1, 0);
    if (is_depthwise(w)) {
        const int64_t each =
            swi_walk_shape_of(w, out)->dim[1] / groups; /* that a channel makes */
        if (each > 0)
            swi_walk_block(w, out, 1, 0, 1, each);
    } else if (groups == 1) {
        swi_walk_tie(w, 0, 1, 1, 1);
        must_read_by(w, 1, 1);
    }
}

/* The weight's first axis is `in`; its attributes begin with those of a convolution. */
void swi_tie_conv_transpose(swi_walk *w)
{
    const int64_t groups = ((const swi_conv_attrs *)swi_walk_attrs_of(w))->groups;
    const uint32_t out = w->node->n_in;
    swi_walk_tie(w, 0, 0, out, 0);
    swi_walk_tie(w, 0, 1, 1, 0);
    if (w->node->n_in > 2)
        swi_walk_tie(w, 2, 0, out, 1);
    if (is_depthwise(w)) {
        const int64_t each =
            swi_walk_shape_of(w, out)->dim[1] / groups; /* that a channel makes */
        if (each > 0)
            swi_walk_block(w, out, 1, 0, 1, each);
    } else if (groups == 1) {
        swi_walk_tie(w, out, 1, 1, 1);
        must_read_by(w, 1, 0);
    }
}

void swi_tie_matmul(swi_walk *w)
{
    const int a = swi_walk_last_of(w, 0), b = swi_walk_last_of(w, 1),
              out = swi_walk_last_of(w, 2);
    swi_walk_tie(w, 0, a - 1, 2, out - 1);
    swi_walk_tie(w, 1, b, 2, out);
    swi_walk_tie(w, 0, a, 1, b - 1);
    for (int d = 2; d <= out; d++) {
        swi_walk_tie(w, 0, a - d, 2, out - d);
        swi_walk_tie(w, 1, b - d, 2, out - d);
    }
    const bool left = reads_by(w, 0, a), right = reads_by(w, 1, b - 1);
    if (!left && !right)
        swi_walk_refuse(w, 0, a, "is summed over by what is no tensor of the model, in");
}

/* A loss, or the numbers of rows: the axis's length has a meaning outside of the net. */
static void ends(swi_walk *w, uint32_t k)
{
    for (int d = 0; d < swi_walk_shape_of(w, k)->rank; d++)
        swi_walk_fix(w, k, d, "reaches the loss");
}

void swi_tie_linear_loss(swi_walk *w)
{
    swi_walk_tie(w, 0, 1, 1, 1);
    must_read_by(w, 1, 1);
    swi_walk_fix(w, 0, 0, "reaches the loss");
    swi_walk_fix(w, 1, 0, "reaches the loss");
    for (uint32_t k = 2; k < w->node->n_in; k++)
        ends(w, k);
}

/* All positions of a head are one unit; heads of another size compute something else. */
static void join_heads(swi_walk *w, uint32_t k, int parts, uint32_t to)
{
    const int64_t heads = ((const swi_attention_attrs *)swi_walk_attrs_of(w))->heads;
    const int64_t n = swi_walk_shape_of(w, k)->dim[2], part = n / parts, size = part / heads;
    const int64_t size_to = swi_walk_shape_of(w, to)->dim[2] / heads;
    swi_walk_see(w, k, 2);
    if (!w->positions) {
        swi_axis_join(w->axes, swi_walk_axis_of(w, k, 2), swi_walk_axis_of(w, to, 2));
        return;
    }
    for (int64_t p = 0; swi_walk_is_resized(w, k, 2) && size > 0 && p < n; p++)
        swi_position_join(w->axes, w->side,
                          w->axes->at[w->side][swi_walk_axis_of(w, k, 2)] + (uint32_t)p,
                          w->axes->at[w->side][swi_walk_axis_of(w, to, 2)] +
                              (uint32_t)(p % part / size * size_to));
}

void swi_tie_heads(swi_walk *w)
{
    const uint32_t n_in = w->node->n_in, out = n_in;
    const int parts = n_in == 1 ? 3 : 1;
    const uint32_t v = swi_walk_value_of(w, 0);
    const int64_t from = w->axes->net[SWI_FROM]->values[v].shape.dim[2];
    const int64_t to = w->axes->net[SWI_TO]->values[v].shape.dim[2];
    const int64_t heads = ((const swi_attention_attrs *)swi_walk_attrs_on(w, SWI_FROM))->heads;
    const int64_t heads_to = ((const swi_attention_attrs *)swi_walk_attrs_on(w, SWI_TO))->heads;
    swi_walk_tie_front(w, 0, out, 2);
    for (uint32_t k = 1; k < n_in; k++)
        swi_walk_tie(w, k, 0, out, 0);
    if (from / heads != to / heads_to)
        return;
    for (uint32_t k = 0; k <= out; k++)
        join_heads(w, k, k < n_in ? parts : 1, out);
}

void swi_tie_loss(swi_walk *w)
{
    for (uint32_t k = 0; k < w->node->n_in; k++)
        ends(w, k);
}
