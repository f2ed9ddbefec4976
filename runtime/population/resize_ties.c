/* What each op ties: by the word of its line in ops.def (runtime/base/op_traits.h). An axis of
 * another length that an op does not mention cannot go through it. */
#include "runtime/population/resize_internal.h"
#include <string.h>

typedef struct {
    swi_axes *axes;
    int side;
    bool positions;
    const swi_net *net;
    const swi_net_node *node;
    uint8_t seen[SWI_MAX_OPERANDS]; /* axes that the op has mentioned */
    sw_status status;               /* the first refusal */
} walk;

/* ---- operands and their axes ------------------------------------------------------------- */

static uint32_t value_of(const walk *w, uint32_t k)
{
    return w->net->operands[w->node->first + k];
}

static const sw_shape *shape_of(const walk *w, uint32_t k)
{
    return &w->net->values[value_of(w, k)].shape;
}

static int last_of(const walk *w, uint32_t k)
{
    return shape_of(w, k)->rank - 1;
}

static const void *attrs_of(const walk *w)
{
    return w->net->attrs + w->node->attrs;
}

/* Of the same node in the net of that side. */
static const void *attrs_on(const walk *w, int side)
{
    const swi_net *net = w->axes->net[side];
    return net->attrs + net->nodes[w->node - w->net->nodes].attrs;
}

static uint32_t axis_of(const walk *w, uint32_t k, int d)
{
    return value_of(w, k) * SW_MAX_RANK + (uint32_t)d;
}

static void see(walk *w, uint32_t k, int d)
{
    w->seen[k] |= (uint8_t)(1u << d);
}

static bool is_resized(const walk *w, uint32_t k, int d)
{
    return w->positions && w->axes->at[w->side][axis_of(w, k, d)] != SWI_NONE;
}

static void refuse(walk *w, uint32_t k, int d, sw_status status, const char *what)
{
    if (w->status == SW_OK && is_resized(w, k, d))
        w->status =
            swi_axis_refuse(w->axes, axis_of(w, k, d), status, what, swi_op(w->node->op)->name);
}

/* Position i of the one and position i of the other, from these on, are one. */
static void span(walk *w, uint32_t a, int da, int64_t from_a, uint32_t b, int db,
                 int64_t from_b, int64_t n)
{
    see(w, a, da);
    see(w, b, db);
    if (!w->positions) {
        swi_axis_join(w->axes, axis_of(w, a, da), axis_of(w, b, db));
        return;
    }
    for (int64_t i = 0; is_resized(w, a, da) && i < n; i++)
        swi_position_join(w->axes, w->side,
                          w->axes->at[w->side][axis_of(w, a, da)] + (uint32_t)(from_a + i),
                          w->axes->at[w->side][axis_of(w, b, db)] + (uint32_t)(from_b + i));
}

static void tie(walk *w, uint32_t a, int da, uint32_t b, int db)
{
    if (da >= 0 && db >= 0 && da < shape_of(w, a)->rank && db < shape_of(w, b)->rank &&
        shape_of(w, a)->dim[da] == shape_of(w, b)->dim[db])
        span(w, a, da, 0, b, db, 0, shape_of(w, a)->dim[da]);
}

/* The first n axes. */
static void tie_front(walk *w, uint32_t a, uint32_t b, int n)
{
    for (int d = 0; d < n; d++)
        tie(w, a, d, b, d);
}

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
static bool reads_by(walk *w, uint32_t k, int d)
{
    see(w, k, d);
    if (!is_resized(w, k, d))
        return true;
    const uint32_t axis = tensor_axis(w->net, value_of(w, k), d);
    if (axis != SWI_NONE)
        w->axes->read[axis] = 1;
    return axis != SWI_NONE;
}

static void must_read_by(walk *w, uint32_t k, int d)
{
    if (!reads_by(w, k, d))
        refuse(w, k, d, SW_UNSUPPORTED, "is summed over by what is no tensor of the model, in");
}

/* ---- views ------------------------------------------------------------------------------- */

/* The whole axis k is a run of axes in front of `inner` elements: position p of it is that of
 * the run's axis (run, d). */
static void block(walk *w, uint32_t whole, int dw, uint32_t run, int d, int64_t inner)
{
    const int64_t n = shape_of(w, whole)->dim[dw], part = shape_of(w, run)->dim[d];
    see(w, whole, dw);
    see(w, run, d);
    if (!w->positions) {
        swi_axis_join(w->axes, axis_of(w, whole, dw), axis_of(w, run, d));
        return;
    }
    for (int64_t p = 0; is_resized(w, whole, dw) && part > 0 && p < n; p++)
        swi_position_join(
            w->axes, w->side, w->axes->at[w->side][axis_of(w, whole, dw)] + (uint32_t)p,
            w->axes->at[w->side][axis_of(w, run, d)] + (uint32_t)(p / inner % part));
}

/* Axes from..end of operand `run` are axis dw of `whole`: tie the one whose length changes. */
static void tie_run(walk *w, uint32_t whole, int dw, uint32_t run, int from, int end)
{
    const uint32_t v = value_of(w, run);
    const sw_shape *one = &w->axes->net[SWI_FROM]->values[v].shape;
    const sw_shape *other = &w->axes->net[SWI_TO]->values[v].shape;
    int changes = -1, n = 0;
    for (int d = from; d < end; d++)
        if (one->dim[d] != other->dim[d]) {
            changes = d;
            n++;
        }
    if (end - from == 1) {
        changes = from;
        n = 1;
    }
    if (n != 1) /* none, or several: where one is resized all the same, it is not mentioned */
        return;
    int64_t inner = 1;
    for (int d = changes + 1; d < end; d++)
        inner *= shape_of(w, run)->dim[d];
    if (inner > 0)
        block(w, whole, dw, run, changes, inner);
}

/* Walk both shapes from the front; each run of axes holds the same elements. */
static void tie_reshape(walk *w)
{
    const sw_shape *a = shape_of(w, 0), *b = shape_of(w, 1);
    int i = 0, k = 0;
    if (swi_elements(a) == 0)
        return;
    while (i < a->rank && k < b->rank) {
        int i_end = i + 1, k_end = k + 1;
        int64_t n_a = a->dim[i], n_b = b->dim[k];
        while (n_a != n_b) {
            if (n_a < n_b)
                n_a *= a->dim[i_end++];
            else
                n_b *= b->dim[k_end++];
        }
        if (k_end == k + 1)
            tie_run(w, 1, k, 0, i, i_end);
        else if (i_end == i + 1)
            tie_run(w, 0, i, 1, k, k_end);
        i = i_end;
        k = k_end;
    }
}

static void tie_permute(walk *w)
{
    const swi_permute_attrs *a = attrs_of(w);
    for (int d = 0; d < a->n; d++) {
        const int from = a->axis[d] < 0 ? a->axis[d] + a->n : a->axis[d];
        tie(w, 1, d, 0, from);
    }
}

static void tie_slice(walk *w)
{
    const swi_slice_attrs *a = attrs_of(w);
    const int rank = shape_of(w, 0)->rank;
    const int axis = (int)(a->axis < 0 ? a->axis + rank : a->axis);
    for (int d = 0; d < rank; d++)
        if (d != axis)
            tie(w, 0, d, 1, d);
    span(w, 0, axis, a->from, 1, axis, 0, shape_of(w, 1)->dim[axis]);
}

static void tie_concat(walk *w)
{
    const uint32_t out = w->node->n_in;
    const int rank = shape_of(w, out)->rank;
    const int64_t given = ((const swi_concat_attrs *)attrs_of(w))->axis;
    const int axis = (int)(given < 0 ? given + rank : given);
    int64_t at = 0;
    for (uint32_t k = 0; k < out; k++) {
        const int64_t n = shape_of(w, k)->dim[axis];
        for (int d = 0; d < rank; d++)
            if (d != axis)
                tie(w, k, d, out, d);
        span(w, out, axis, at, k, axis, 0, n);
        at += n;
    }
}

/* ---- sums over an axis ------------------------------------------------------------------- */

/* in {x, weight, [bias]}; the axis of x at `d` is summed over. */
static void tie_linear(walk *w)
{
    const uint32_t out = w->node->n_in;
    tie(w, 0, last_of(w, 0), 1, 1);
    must_read_by(w, 1, 1);
    tie_front(w, 0, out, last_of(w, 0));
    tie(w, out, last_of(w, out), 1, 0);
    if (w->node->n_in > 2)
        tie(w, 2, 0, 1, 0);
}

/* Does each channel have its own group, in both nets? One channel alone may be either. */
static bool is_depthwise(const walk *w)
{
    int64_t groups[2];
    for (int s = 0; s < 2; s++) {
        groups[s] = ((const swi_conv_attrs *)attrs_on(w, s))->groups;
        if (groups[s] != w->axes->net[s]->values[value_of(w, 0)].shape.dim[1])
            return false;
    }
    return groups[SWI_FROM] > 1 || groups[SWI_TO] > 1;
}

static void tie_conv(walk *w)
{
    const int64_t groups = ((const swi_conv_attrs *)attrs_of(w))->groups;
    const uint32_t out = w->node->n_in;
    tie(w, 0, 0, out, 0);
    tie(w, out, 1, 1, 0);
    if (w->node->n_in > 2)
        tie(w, 2, 0, 1, 0);
    if (is_depthwise(w)) {
        const int64_t each = shape_of(w, out)->dim[1] / groups; /* that a channel makes */
        if (each > 0)
            block(w, out, 1, 0, 1, each);
    } else if (groups == 1) {
        tie(w, 0, 1, 1, 1);
        must_read_by(w, 1, 1);
    }
}

static void tie_matmul(walk *w)
{
    const int a = last_of(w, 0), b = last_of(w, 1), out = last_of(w, 2);
    tie(w, 0, a - 1, 2, out - 1);
    tie(w, 1, b, 2, out);
    tie(w, 0, a, 1, b - 1);
    for (int d = 2; d <= out; d++) {
        tie(w, 0, a - d, 2, out - d);
        tie(w, 1, b - d, 2, out - d);
    }
    const bool left = reads_by(w, 0, a), right = reads_by(w, 1, b - 1);
    if (!left && !right)
        refuse(w, 0, a, SW_UNSUPPORTED, "is summed over by what is no tensor of the model, in");
}

/* A loss, or the numbers of rows: the axis's length has a meaning outside of the net. */
static void ends(walk *w, uint32_t k)
{
    for (int d = 0; d < shape_of(w, k)->rank; d++) {
        see(w, k, d);
        refuse(w, k, d, SW_INVALID, "reaches the loss");
    }
}

static void tie_linear_loss(walk *w)
{
    tie(w, 0, 1, 1, 1);
    must_read_by(w, 1, 1);
    see(w, 0, 0);
    refuse(w, 0, 0, SW_INVALID, "reaches the loss");
    see(w, 1, 0);
    refuse(w, 1, 0, SW_INVALID, "reaches the loss");
    for (uint32_t k = 2; k < w->node->n_in; k++)
        ends(w, k);
}

/* ---- the others -------------------------------------------------------------------------- */

static void tie_same(walk *w)
{
    const uint32_t n_in = w->node->n_in, out = n_in;
    const uint32_t n = n_in + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++)
        for (int back = 0; k != out && back <= last_of(w, k) && back <= last_of(w, out); back++)
            tie(w, k, last_of(w, k) - back, out, last_of(w, out) - back);
}

static void tie_halves(walk *w)
{
    const int last = last_of(w, 0);
    if (w->node->n_in != 1) {
        tie_same(w);
        return;
    }
    tie_front(w, 0, 1, last);
    const int64_t half = shape_of(w, 1)->dim[last];
    span(w, 0, last, 0, 1, last, 0, half);
    span(w, 0, last, half, 1, last, 0, half);
}

/* Extras have channels too: statistics that other ops read. */
static void tie_channels(walk *w)
{
    const uint32_t n_in = w->node->n_in, n = n_in + w->node->n_out;
    const int channel = shape_of(w, 0)->rank > 1 ? 1 : 0;
    tie_front(w, 0, n_in, shape_of(w, 0)->rank);
    for (uint32_t k = 1; k < n; k++)
        if (k != n_in)
            tie(w, k, last_of(w, k), 0, channel);
}

static void tie_norm(walk *w)
{
    const uint32_t out = w->node->n_in;
    tie_front(w, 0, out, last_of(w, out) + 1);
    for (uint32_t k = 1; k < w->node->n_in; k++)
        tie(w, k, 0, 0, last_of(w, 0));
    if (!is_resized(w, 0, last_of(w, 0)))
        return;
    if (!w->axes->approximate)
        refuse(w, 0, last_of(w, 0), SW_UNSUPPORTED,
               "is normalised over, so that other widths change what the net computes (see "
               "sw_resize_opts.approximate), by");
    w->axes->exact = false;
}

static void tie_reduce(walk *w)
{
    const swi_sum_attrs *a = attrs_of(w);
    const int rank = shape_of(w, 0)->rank;
    int to = 0;
    for (int d = 0; d < rank; d++) {
        const bool gone = a->axes == 0 || (a->axes >> d & 1u) != 0;
        if (!gone)
            tie(w, 0, d, 1, to);
        to += !gone || a->keep;
    }
}

static void tie_lookup(walk *w)
{
    tie_front(w, 0, 2, shape_of(w, 0)->rank);
    tie(w, 1, 1, 2, last_of(w, 2));
    see(w, 1, 0);
    refuse(w, 1, 0, SW_INVALID, "is counted by an input of");
}

/* All positions of a head are one unit; heads of another size compute something else. */
static void join_heads(walk *w, uint32_t k, int parts, uint32_t to)
{
    const int64_t heads = ((const swi_attention_attrs *)attrs_of(w))->heads;
    const int64_t n = shape_of(w, k)->dim[2], part = n / parts, size = part / heads;
    const int64_t size_to = shape_of(w, to)->dim[2] / heads;
    see(w, k, 2);
    if (!w->positions) {
        swi_axis_join(w->axes, axis_of(w, k, 2), axis_of(w, to, 2));
        return;
    }
    for (int64_t p = 0; is_resized(w, k, 2) && size > 0 && p < n; p++)
        swi_position_join(
            w->axes, w->side, w->axes->at[w->side][axis_of(w, k, 2)] + (uint32_t)p,
            w->axes->at[w->side][axis_of(w, to, 2)] + (uint32_t)(p % part / size * size_to));
}

static void tie_heads(walk *w)
{
    const uint32_t n_in = w->node->n_in, out = n_in;
    const int parts = n_in == 1 ? 3 : 1;
    const uint32_t v = value_of(w, 0);
    const int64_t from = w->axes->net[SWI_FROM]->values[v].shape.dim[2];
    const int64_t to = w->axes->net[SWI_TO]->values[v].shape.dim[2];
    const int64_t heads = ((const swi_attention_attrs *)attrs_on(w, SWI_FROM))->heads;
    const int64_t heads_to = ((const swi_attention_attrs *)attrs_on(w, SWI_TO))->heads;
    tie_front(w, 0, out, 2);
    for (uint32_t k = 1; k < n_in; k++)
        tie(w, k, 0, out, 0);
    if (from / heads != to / heads_to)
        return;
    for (uint32_t k = 0; k <= out; k++)
        join_heads(w, k, k < n_in ? parts : 1, out);
}

/* ---- one op, all ops --------------------------------------------------------------------- */

static void tie_node(walk *w)
{
    switch (swi_op_traits_of(w->node->op)->axes) {
    case SWI_AXES_NONE:
        break;
    case SWI_AXES_MOVES:
    case SWI_AXES_SAME:
        tie_same(w);
        break;
    case SWI_AXES_HALVES:
        tie_halves(w);
        break;
    case SWI_AXES_RESHAPE:
        tie_reshape(w);
        break;
    case SWI_AXES_PERMUTE:
        tie_permute(w);
        break;
    case SWI_AXES_SLICE:
        tie_slice(w);
        break;
    case SWI_AXES_CONCAT:
        tie_concat(w);
        break;
    case SWI_AXES_LINEAR:
        tie_linear(w);
        break;
    case SWI_AXES_CONV:
        tie_conv(w);
        break;
    case SWI_AXES_MATMUL:
        tie_matmul(w);
        break;
    case SWI_AXES_IMAGE:
        tie_front(w, 0, w->node->n_in, 2);
        break;
    case SWI_AXES_CHANNELS:
        tie_channels(w);
        break;
    case SWI_AXES_NORM:
        tie_norm(w);
        break;
    case SWI_AXES_ROWS:
        tie_front(w, 0, w->node->n_in, last_of(w, 0));
        break;
    case SWI_AXES_REDUCE:
        tie_reduce(w);
        break;
    case SWI_AXES_LOOKUP:
        tie_lookup(w);
        break;
    case SWI_AXES_HEADS:
        tie_heads(w);
        break;
    case SWI_AXES_LINEAR_LOSS:
        tie_linear_loss(w);
        break;
    case SWI_AXES_LOSS:
        for (uint32_t k = 0; k < w->node->n_in; k++)
            ends(w, k);
        break;
    }
}

/* What was not mentioned. */
static void refuse_others(walk *w)
{
    const uint32_t n = w->node->n_in + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++)
        for (int d = 0; d < shape_of(w, k)->rank; d++)
            if ((w->seen[k] >> d & 1u) == 0)
                refuse(w, k, d, SW_UNSUPPORTED, "goes through an op that does not tie it,");
}

sw_status swi_axes_tie(swi_axes *axes, int side, bool positions)
{
    walk w = {.axes = axes, .side = side, .positions = positions, .net = axes->net[side]};
    for (uint32_t i = 0; i < w.net->n_nodes && w.status == SW_OK; i++) {
        w.node = &w.net->nodes[i];
        memset(w.seen, 0, sizeof w.seen);
        tie_node(&w);
        if (positions)
            refuse_others(&w);
    }
    return w.status;
}
