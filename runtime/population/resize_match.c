/* Who stays: utilities, the choice of units, and for each position of the new tensors the one
 * that it comes from. */
#include "runtime/population/resize_internal.h"
#include <math.h>
#include <stdlib.h>

static const sw_shape *shape_of(const swi_axes *x, int side, const swi_sized *sized)
{
    return &x->model[side]->entries[sized->entry].shape;
}

/* ---- utility ----------------------------------------------------------------------------- */

/* Squares of the elements of one parameter, in order, to the units of its axis. */
static void add_squares(const swi_axes *x, const swi_sized *sized, const unsigned char *bytes,
                        double *to)
{
    const swi_entry *e = &x->model[SWI_FROM]->entries[sized->entry];
    const float *values = (const float *)(const void *)(bytes + e->offset);
    const uint32_t *unit = x->joined[SWI_FROM] + x->at[SWI_FROM][sized->axis];
    int64_t inner = 1;
    for (int d = sized->dim + 1; d < e->shape.rank; d++)
        inner *= e->shape.dim[d];
    const int64_t n = swi_elements(&e->shape), length = e->shape.dim[sized->dim];
    for (int64_t i = 0; i < n; i++)
        to[unit[i / inner % length]] += (double)values[i] * (double)values[i];
}

static sw_status check_utility(const swi_axes *x, const sw_utility *u)
{
    const sw_model *from = x->model[SWI_FROM];
    const swi_entry *e = u->tensor.model == from ? swi_entry_of(u->tensor) : NULL;
    if (e == NULL)
        SW_FAIL(SW_INVALID, "utilities: the tensor must be one of model %s", from->name);
    if (u->axis < 0 || u->axis >= e->shape.rank || u->values == NULL ||
        u->n != e->shape.dim[u->axis] || u->reserved[0] != 0 || u->reserved[1] != 0)
        SW_FAIL(SW_INVALID,
                "utilities of '%s': there must be one for each position of an axis (got %lld "
                "for axis %d), and reserved words must be zero",
                e->name, (long long)(u->values != NULL ? u->n : 0), u->axis);
    for (int64_t i = 0; i < u->n; i++)
        if (!isfinite(u->values[i]))
            SW_FAIL(SW_INVALID, "utilities of '%s': each must be finite (got %g)", e->name,
                    (double)u->values[i]);
    return SW_OK;
}

static const swi_sized *sized_of(const swi_axes *x, const sw_utility *u)
{
    for (uint32_t i = 0; i < x->n_sized; i++)
        if (x->sized[i].entry == u->tensor.index && x->sized[i].dim == u->axis)
            return &x->sized[i];
    return NULL;
}

static sw_status check_utilities(const swi_axes *x, const sw_resize_opts *opts)
{
    if (opts->n_utilities > 0 && opts->utilities == NULL)
        SW_FAIL(SW_INVALID, "utilities must not be NULL where n_utilities is %zu",
                opts->n_utilities);
    for (size_t k = 0; k < opts->n_utilities; k++)
        SW_TRY(check_utility(x, &opts->utilities[k]));
    return SW_OK;
}

/* The caller's in the place of the default. */
static void take_given(const swi_axes *x, const sw_resize_opts *opts, double *out)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < opts->n_utilities; k++) {
            const sw_utility *u = &opts->utilities[k];
            const swi_sized *sized = sized_of(x, u);
            if (sized == NULL)
                continue;
            const uint32_t *unit = x->joined[SWI_FROM] + x->at[SWI_FROM][sized->axis];
            for (int64_t p = 0; p < u->n; p++)
                out[unit[p]] = pass == 0 ? 0.0 : out[unit[p]] + (double)u->values[p];
        }
}

sw_status swi_axes_utility(const swi_axes *x, const unsigned char *bytes,
                           const sw_resize_opts *opts, double *out)
{
    void *block;
    const size_t n = x->n_classes[SWI_FROM];
    SW_TRY(check_utilities(x, opts));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, (n + 1) * sizeof *out));
    double *read = block;
    for (size_t i = 0; i < n; i++)
        out[i] = 0.0;
    for (uint32_t i = 0; i < x->n_sized; i++)
        if (x->model[SWI_FROM]->entries[x->sized[i].entry].role == SWI_ROLE_PARAMETER)
            add_squares(x, &x->sized[i], bytes, x->sized[i].read ? read : out);
    for (size_t i = 0; i < n; i++) {
        out[i] = sqrt(out[i]) * sqrt(read[i]);
        if (isnan(out[i]))
            out[i] = 0.0;
    }
    sw_heap_free(block, SW_HEAP_PROGRAMS, (n + 1) * sizeof *out);
    take_given(x, opts, out);
    return SW_OK;
}

/* ---- who stays --------------------------------------------------------------------------- */

typedef struct {
    double utility;
    uint32_t index;
} candidate;

static int by_utility(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->utility != y->utility)
        return x->utility > y->utility ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int by_index(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->index < y->index ? -1 : 1;
}

/* *best has room for all units of the group. */
static void choose(swi_axes *x, const swi_group *g, const double *utility, candidate *best)
{
    const uint32_t n = g->n[SWI_FROM], stay = g->n[SWI_TO] < n ? g->n[SWI_TO] : n;
    for (uint32_t i = 0; i < n; i++)
        best[i] = (candidate){utility != NULL ? utility[g->unit[SWI_FROM][i]] : 0.0, i};
    if (stay < n) {
        qsort(best, n, sizeof *best, by_utility);
        qsort(best, stay, sizeof *best, by_index);
    }
    for (uint32_t i = 0; i < g->n[SWI_TO]; i++)
        x->comes_from[g->unit[SWI_TO][i]] = SWI_NONE;
    for (uint32_t i = 0; i < stay; i++)
        x->comes_from[g->unit[SWI_TO][i]] = g->unit[SWI_FROM][best[i].index];
}

static sw_status match_groups(swi_axes *x, const double *utility)
{
    void *best;
    const size_t bytes = (x->n_classes[SWI_FROM] + (size_t)1) * sizeof(candidate);
    for (uint32_t g = 0; g < x->n_groups; g++)
        if (x->groups[g].n[SWI_FROM] == 0 || x->groups[g].n[SWI_TO] == 0)
            SW_FAIL(SW_INVALID, "the two models put units together in different ways: their "
                                "widths must keep their proportions where tensors are joined");
    SW_TRY(sw_heap_alloc(&best, SW_HEAP_PROGRAMS, bytes));
    for (uint32_t g = 0; g < x->n_groups; g++) {
        choose(x, &x->groups[g], utility, best);
        x->exact &= x->groups[g].n[SWI_TO] >= x->groups[g].n[SWI_FROM];
    }
    sw_heap_free(best, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}

/* Do these positions stay where they are? */
static sw_status check_fixed(const swi_axes *x)
{
    for (uint32_t i = 0; i < x->n_fixed; i++) {
        const swi_fixed *f = &x->fixed[i];
        const int64_t n = swi_axis_length(x, SWI_FROM, f->axis);
        const uint32_t *was = x->joined[SWI_FROM] + x->at[SWI_FROM][f->axis];
        const uint32_t *is = x->joined[SWI_TO] + x->at[SWI_TO][f->axis];
        bool stays = n == swi_axis_length(x, SWI_TO, f->axis);
        for (int64_t p = 0; stays && p < n; p++) {
            const uint32_t from = x->comes_from[is[p]];
            stays = from == SWI_OF_NO_TENSOR || from == was[p];
        }
        if (!stays)
            return swi_axis_refuse(x, f->axis, SW_INVALID, f->what, f->who);
    }
    return SW_OK;
}

/* ---- positions --------------------------------------------------------------------------- */

/* The k-th position of a unit comes from the k-th position of the unit that it was. next:
 * positions of one unit, a list from first[unit] on. */
static sw_status map_axis(swi_axes *x, swi_sized *sized, uint32_t *first, uint32_t *next)
{
    const int64_t n_from = shape_of(x, SWI_FROM, sized)->dim[sized->dim];
    const int64_t n_to = shape_of(x, SWI_TO, sized)->dim[sized->dim];
    const uint32_t *was = x->joined[SWI_FROM] + x->at[SWI_FROM][sized->axis];
    const uint32_t *is = x->joined[SWI_TO] + x->at[SWI_TO][sized->axis];
    void *map;
    SW_TRY(sw_heap_alloc(&map, SW_HEAP_PROGRAMS, (size_t)n_to * sizeof(int64_t)));
    sized->map = map;
    sized->n_map = (size_t)n_to;
    for (uint32_t c = 0; c < x->n_classes[SWI_FROM]; c++)
        first[c] = SWI_NONE;
    for (int64_t p = n_from - 1; p >= 0; p--) {
        next[p] = first[was[p]];
        first[was[p]] = (uint32_t)p;
    }
    for (int64_t p = 0; p < n_to; p++) {
        const uint32_t unit = x->comes_from[is[p]];
        sized->map[p] = -1;
        if (unit == SWI_NONE)
            continue;
        if (first[unit] == SWI_NONE)
            SW_FAIL(SW_INVALID, "'%s': axis %d has another structure in the two models",
                    x->model[SWI_FROM]->entries[sized->entry].name, sized->dim);
        sized->map[p] = first[unit];
        first[unit] = next[first[unit]];
    }
    return SW_OK;
}

static sw_status map_axes(swi_axes *x)
{
    void *block;
    const size_t n = x->n_classes[SWI_FROM] + (size_t)1, positions = x->n_at[SWI_FROM];
    const size_t bytes = (n + positions) * sizeof(uint32_t);
    sw_status status = SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    uint32_t *first = block;
    for (uint32_t i = 0; status == SW_OK && i < x->n_sized; i++)
        status = map_axis(x, &x->sized[i], first, first + n);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}

sw_status swi_axes_match(swi_axes *x, const unsigned char *bytes, const sw_resize_opts *opts)
{
    void *block, *from;
    const size_t n = (x->n_classes[SWI_FROM] + (size_t)1) * sizeof(double);
    const size_t n_to = (x->n_at[SWI_TO] + (size_t)1) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&from, SW_HEAP_PROGRAMS, n_to));
    x->comes_from = from;
    for (uint32_t i = 0; i <= x->n_at[SWI_TO]; i++)
        x->comes_from[i] = SWI_OF_NO_TENSOR;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, n));
    double *utility = block;
    sw_status status = SW_OK;
    if (bytes != NULL)
        status = swi_axes_utility(x, bytes, opts, utility);
    else
        status = check_utilities(x, opts);
    if (status == SW_OK)
        status = match_groups(x, bytes != NULL ? utility : NULL);
    if (status == SW_OK)
        status = check_fixed(x);
    sw_heap_free(block, SW_HEAP_PROGRAMS, n);
    return status == SW_OK ? map_axes(x) : status;
}
