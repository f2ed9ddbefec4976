/* The ties of each op, by the word of its line in ops.def (runtime/base/op_traits.h). An axis
 * of another length that an op does not mention cannot go through it. */
#include "runtime/population/resize_walk.h"
#include <string.h>

void swi_walk_refuse(swi_walk *w, uint32_t k, int d, const char *what)
{
    if (w->status == SW_OK && swi_walk_is_resized(w, k, d))
        w->status = swi_axis_refuse(w->axes, swi_walk_axis_of(w, k, d), SW_UNSUPPORTED, what,
                                    swi_op(w->node->op)->name);
}

void swi_walk_fix(swi_walk *w, uint32_t k, int d, const char *what)
{
    swi_walk_see(w, k, d);
    if (w->status == SW_OK && w->side == SWI_FROM && swi_walk_is_resized(w, k, d))
        w->status =
            swi_axis_fix(w->axes, swi_walk_axis_of(w, k, d), what, swi_op(w->node->op)->name);
}

/* Position i of the one and position i of the other, from these on, are one. */
void swi_walk_span(swi_walk *w, uint32_t a, int da, int64_t from_a, uint32_t b, int db,
                   int64_t from_b, int64_t n)
{
    swi_walk_see(w, a, da);
    swi_walk_see(w, b, db);
    if (!w->positions) {
        swi_axis_join(w->axes, swi_walk_axis_of(w, a, da), swi_walk_axis_of(w, b, db));
        return;
    }
    for (int64_t i = 0; swi_walk_is_resized(w, a, da) && i < n; i++)
        swi_position_join(
            w->axes, w->side,
            w->axes->at[w->side][swi_walk_axis_of(w, a, da)] + (uint32_t)(from_a + i),
            w->axes->at[w->side][swi_walk_axis_of(w, b, db)] + (uint32_t)(from_b + i));
}

void swi_walk_tie(swi_walk *w, uint32_t a, int da, uint32_t b, int db)
{
    if (da >= 0 && db >= 0 && da < swi_walk_shape_of(w, a)->rank &&
        db < swi_walk_shape_of(w, b)->rank &&
        swi_walk_shape_of(w, a)->dim[da] == swi_walk_shape_of(w, b)->dim[db])
        swi_walk_span(w, a, da, 0, b, db, 0, swi_walk_shape_of(w, a)->dim[da]);
}

/* The first n axes. */
void swi_walk_tie_front(swi_walk *w, uint32_t a, uint32_t b, int n)
{
    for (int d = 0; d < n; d++)
        swi_walk_tie(w, a, d, b, d);
}

/* The whole axis k is a run of axes before `inner` elements: position p of it is that of
 * the run's axis (run, d). */
void swi_walk_block(swi_walk *w, uint32_t whole, int dw, uint32_t run, int d, int64_t inner)
{
    const int64_t n = swi_walk_shape_of(w, whole)->dim[dw],
                  part = swi_walk_shape_of(w, run)->dim[d];
    swi_walk_see(w, whole, dw);
    swi_walk_see(w, run, d);
    if (!w->positions) {
        swi_axis_join(w->axes, swi_walk_axis_of(w, whole, dw), swi_walk_axis_of(w, run, d));
        return;
    }
    for (int64_t p = 0; swi_walk_is_resized(w, whole, dw) && part > 0 && p < n; p++)
        swi_position_join(w->axes, w->side,
                          w->axes->at[w->side][swi_walk_axis_of(w, whole, dw)] + (uint32_t)p,
                          w->axes->at[w->side][swi_walk_axis_of(w, run, d)] +
                              (uint32_t)(p / inner % part));
}

/* ---- the others -------------------------------------------------------------------------- */

static void tie_same(swi_walk *w)
{
    const uint32_t n_in = w->node->n_in, out = n_in;
    const uint32_t n = n_in + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++)
        for (int back = 0;
             k != out && back <= swi_walk_last_of(w, k) && back <= swi_walk_last_of(w, out);
             back++)
            swi_walk_tie(w, k, swi_walk_last_of(w, k) - back, out,
                         swi_walk_last_of(w, out) - back);
}

static void tie_halves(swi_walk *w)
{
    const int last = swi_walk_last_of(w, 0);
    if (w->node->n_in != 1) {
        tie_same(w);
        return;
    }
    swi_walk_tie_front(w, 0, 1, last);
    const int64_t half = swi_walk_shape_of(w, 1)->dim[last];
    swi_walk_span(w, 0, last, 0, 1, last, 0, half);
    swi_walk_span(w, 0, last, half, 1, last, 0, half);
}

/* An axis of n hidden units, or of n gates for each in turn, a run for each gate. */
static void tie_gates(swi_walk *w)
{
    const uint32_t out = w->node->n_in, n = out + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++) {
        const int last = swi_walk_last_of(w, k);
        if (k == out)
            continue;
        swi_walk_tie_front(w, k, out, last);
        if (swi_walk_shape_of(w, k)->dim[last] == swi_walk_shape_of(w, out)->dim[last])
            swi_walk_tie(w, k, last, out, last);
        else
            swi_walk_block(w, k, last, out, last, 1);
    }
}

/* Extras have channels too: statistics that other ops read. */
static void tie_channels(swi_walk *w)
{
    const uint32_t n_in = w->node->n_in, n = n_in + w->node->n_out;
    const int channel = swi_walk_shape_of(w, 0)->rank > 1 ? 1 : 0;
    swi_walk_tie_front(w, 0, n_in, swi_walk_shape_of(w, 0)->rank);
    for (uint32_t k = 1; k < n; k++)
        if (k != n_in)
            swi_walk_tie(w, k, swi_walk_last_of(w, k), 0, channel);
}

static void tie_norm(swi_walk *w)
{
    const uint32_t out = w->node->n_in;
    swi_walk_tie_front(w, 0, out, swi_walk_last_of(w, out) + 1);
    for (uint32_t k = 1; k < w->node->n_in; k++)
        swi_walk_tie(w, k, 0, 0, swi_walk_last_of(w, 0));
    if (!swi_walk_is_resized(w, 0, swi_walk_last_of(w, 0)))
        return;
    if (!w->axes->approximate)
        swi_walk_refuse(
            w, 0, swi_walk_last_of(w, 0),
            "is normalised over, so that other widths change what the net computes (see "
            "sw_resize_opts.approximate), by");
    w->axes->exact = false;
}

static void tie_reduce(swi_walk *w)
{
    const swi_sum_attrs *a = swi_walk_attrs_of(w);
    const int rank = swi_walk_shape_of(w, 0)->rank;
    int to = 0;
    for (int d = 0; d < rank; d++) {
        const bool gone = a->axes == 0 || (a->axes >> d & 1u) != 0;
        if (!gone)
            swi_walk_tie(w, 0, d, 1, to);
        to += !gone || a->keep;
    }
}

/* All positions before one along the axis are in its sum. */
static void tie_along(swi_walk *w)
{
    const int64_t along = ((const swi_line_attrs *)swi_walk_attrs_of(w))->axis;
    for (int d = 0; d < swi_walk_shape_of(w, 0)->rank; d++)
        if (d != along)
            swi_walk_tie(w, 0, d, 1, d);
}

static void tie_lookup(swi_walk *w)
{
    swi_walk_tie_front(w, 0, 2, swi_walk_shape_of(w, 0)->rank);
    swi_walk_tie(w, 1, 1, 2, swi_walk_last_of(w, 2));
    swi_walk_fix(w, 1, 0, "is counted by an input of");
}

/* ---- one op, all ops --------------------------------------------------------------------- */

static void tie_node(swi_walk *w)
{
    switch (swi_op_traits_of(w->node->op)->axes) {
    case SWI_AXES_NONE:
        break;
    case SWI_AXES_FREE:
        for (int d = 0; d <= swi_walk_last_of(w, w->node->n_in); d++)
            swi_walk_see(w, w->node->n_in, d);
        break;
    case SWI_AXES_MOVES:
    case SWI_AXES_SAME:
        tie_same(w);
        break;
    case SWI_AXES_HALVES:
        tie_halves(w);
        break;
    case SWI_AXES_GATES:
        tie_gates(w);
        break;
    case SWI_AXES_RESHAPE:
        swi_tie_reshape(w);
        break;
    case SWI_AXES_PERMUTE:
        swi_tie_permute(w);
        break;
    case SWI_AXES_SLICE:
        swi_tie_slice(w);
        break;
    case SWI_AXES_CONCAT:
        swi_tie_concat(w);
        break;
    case SWI_AXES_LINEAR:
        swi_tie_linear(w);
        break;
    case SWI_AXES_CONV:
        swi_tie_conv(w);
        break;
    case SWI_AXES_CONV_TRANSPOSE:
        swi_tie_conv_transpose(w);
        break;
    case SWI_AXES_MATMUL:
        swi_tie_matmul(w);
        break;
    case SWI_AXES_IMAGE:
        swi_walk_tie_front(w, 0, w->node->n_in, 2);
        break;
    case SWI_AXES_CHANNELS:
        tie_channels(w);
        break;
    case SWI_AXES_NORM:
        tie_norm(w);
        break;
    case SWI_AXES_ROWS:
        swi_walk_tie_front(w, 0, w->node->n_in, swi_walk_last_of(w, 0));
        break;
    case SWI_AXES_ALONG:
        tie_along(w);
        break;
    case SWI_AXES_REDUCE:
        tie_reduce(w);
        break;
    case SWI_AXES_LOOKUP:
        tie_lookup(w);
        break;
    case SWI_AXES_HEADS:
        swi_tie_heads(w);
        break;
    case SWI_AXES_LINEAR_LOSS:
        swi_tie_linear_loss(w);
        break;
    case SWI_AXES_LOSS:
        swi_tie_loss(w);
        break;
    }
}

/* Refuse what was not mentioned. */
static void refuse_others(swi_walk *w)
{
    const uint32_t n = w->node->n_in + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++)
        for (int d = 0; d < swi_walk_shape_of(w, k)->rank; d++)
            if ((w->seen[k] >> d & 1u) == 0)
                swi_walk_refuse(w, k, d, "goes through an op that does not tie it,");
}

sw_status swi_axes_tie(swi_axes *axes, int side, bool positions)
{
    swi_walk w = {.axes = axes, .side = side, .positions = positions, .net = axes->net[side]};
    for (uint32_t i = 0; i < w.net->n_nodes && w.status == SW_OK; i++) {
        w.node = &w.net->nodes[i];
        memset(w.seen, 0, sizeof w.seen);
        tie_node(&w);
        if (positions)
            refuse_others(&w);
    }
    return w.status;
}
