/* Ties of views and concatenations: axes that move, merge, and lie one after the other. */
#include "runtime/population/resize_walk.h"

/* Axes from..end of operand `run` are axis dw of `whole`: tie the one whose length changes. */
static void tie_run(swi_walk *w, uint32_t whole, int dw, uint32_t run, int from, int end)
{
    const uint32_t v = swi_walk_value_of(w, run);
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
        inner *= swi_walk_shape_of(w, run)->dim[d];
    if (inner > 0)
        swi_walk_block(w, whole, dw, run, changes, inner);
}

/* The shape of operand k in one of the nets. */
static const sw_shape *shape_in(const swi_walk *w, int side, uint32_t k)
{
    return &w->axes->net[side]->values[swi_walk_value_of(w, k)].shape;
}

/* Where the runs end that begin at axis i of the one and axis k of the other: they hold the
 * same elements in both nets, so that an axis of length 1 in one of them is not taken for
 * another. */
static void end_runs(const swi_walk *w, int *i, int *k)
{
    const sw_shape *a[2], *b[2];
    int64_t n_a[2], n_b[2];
    for (int s = 0; s < 2; s++) {
        a[s] = shape_in(w, s, 0), b[s] = shape_in(w, s, 1);
        n_a[s] = a[s]->dim[*i], n_b[s] = b[s]->dim[*k];
    }
    ++*i, ++*k;
    while (n_a[0] != n_b[0] || n_a[1] != n_b[1]) {
        const bool less = n_a[0] < n_b[0] || n_a[1] < n_b[1];
        const bool more = *i < a[0]->rank && (less || *k >= b[0]->rank);
        if (!more && *k >= b[0]->rank)
            return; /* of nets that differ in more than widths */
        for (int s = 0; s < 2; s++)
            if (more)
                n_a[s] *= a[s]->dim[*i];
            else
                n_b[s] *= b[s]->dim[*k];
        *i += more, *k += !more;
    }
}

/* Walk both shapes from the front; each run of axes holds the same elements. */
void swi_tie_reshape(swi_walk *w)
{
    const sw_shape *a = swi_walk_shape_of(w, 0), *b = swi_walk_shape_of(w, 1);
    int i = 0, k = 0;
    for (int s = 0; s < 2; s++)
        if (swi_elements(shape_in(w, s, 0)) == 0)
            return;
    while (i < a->rank && k < b->rank) {
        int i_end = i, k_end = k;
        end_runs(w, &i_end, &k_end);
        if (k_end == k + 1)
            tie_run(w, 1, k, 0, i, i_end);
        else if (i_end == i + 1)
            tie_run(w, 0, i, 1, k, k_end);
        i = i_end;
        k = k_end;
    }
}

void swi_tie_permute(swi_walk *w)
{
    const swi_permute_attrs *a = swi_walk_attrs_of(w);
    for (int d = 0; d < a->n; d++) {
        const int from = a->axis[d] < 0 ? a->axis[d] + a->n : a->axis[d];
        swi_walk_tie(w, 1, d, 0, from);
    }
}

void swi_tie_slice(swi_walk *w)
{
    const swi_slice_attrs *a = swi_walk_attrs_of(w);
    const int rank = swi_walk_shape_of(w, 0)->rank;
    const int axis = (int)(a->axis < 0 ? a->axis + rank : a->axis);
    for (int d = 0; d < rank; d++)
        if (d != axis)
            swi_walk_tie(w, 0, d, 1, d);
    swi_walk_span(w, 0, axis, a->from, 1, axis, 0, swi_walk_shape_of(w, 1)->dim[axis]);
}

void swi_tie_concat(swi_walk *w)
{
    const uint32_t out = w->node->n_in;
    const int rank = swi_walk_shape_of(w, out)->rank;
    const int64_t given = ((const swi_concat_attrs *)swi_walk_attrs_of(w))->axis;
    const int axis = (int)(given < 0 ? given + rank : given);
    int64_t at = 0;
    for (uint32_t k = 0; k < out; k++) {
        const int64_t n = swi_walk_shape_of(w, k)->dim[axis];
        for (int d = 0; d < rank; d++)
            if (d != axis)
                swi_walk_tie(w, k, d, out, d);
        swi_walk_span(w, out, axis, at, k, axis, 0, n);
        at += n;
    }
}
