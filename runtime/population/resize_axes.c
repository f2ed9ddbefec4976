/* Axes, units and groups: which positions of which tensors are added or dropped together. */
#include "alloc/base/size.h"
#include "runtime/population/resize_internal.h"
#include <string.h>

/* ---- union and find ---------------------------------------------------------------------- */

static uint32_t root(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* The lower number stays, so that roots do not depend on the order. */
static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = root(parent, a);
    b = root(parent, b);
    if (a < b)
        parent[b] = a;
    else
        parent[a] = b;
}

uint32_t swi_axis_root(const swi_axes *x, uint32_t axis)
{
    return root(x->parent, axis);
}

void swi_axis_join(swi_axes *x, uint32_t a, uint32_t b)
{
    join(x->parent, a, b);
}

void swi_position_join(swi_axes *x, int side, uint32_t a, uint32_t b)
{
    join(x->joined[side], a, b);
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_status words(uint32_t **out, size_t n, bool none)
{
    void *block;
    size_t bytes;
    if (!sw_size_mul(n + 1, sizeof **out, &bytes))
        SW_FAIL(SW_NOMEM, "%zu axes are too many", n);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    *out = block;
    for (size_t i = 0; i < n; i++)
        (*out)[i] = none ? SWI_NONE : (uint32_t)i;
    return SW_OK;
}

static void free_words(uint32_t *p, size_t n)
{
    sw_heap_free(p, SW_HEAP_PROGRAMS, (n + 1) * sizeof *p);
}

static sw_status flags(unsigned char **out, size_t n)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, n + 1));
    *out = block;
    return SW_OK;
}

void swi_axes_free(swi_axes *x)
{
    free_words(x->parent, x->n_axes);
    sw_heap_free(x->resized, SW_HEAP_PROGRAMS, x->n_axes + (size_t)1);
    sw_heap_free(x->read, SW_HEAP_PROGRAMS, x->n_axes + (size_t)1);
    for (int s = 0; s < 2; s++) {
        free_words(x->at[s], x->n_axes);
        free_words(x->joined[s], x->n_at[s]);
    }
    for (uint32_t i = 0; i < x->n_sized; i++)
        sw_heap_free(x->sized[i].map, SW_HEAP_PROGRAMS, x->sized[i].n_map * sizeof(int64_t));
    sw_heap_free(x->sized, SW_HEAP_PROGRAMS, x->cap_sized * sizeof *x->sized);
    for (uint32_t g = 0; g < x->n_groups; g++)
        for (int s = 0; s < 2; s++)
            sw_heap_free(x->groups[g].unit[s], SW_HEAP_PROGRAMS,
                         x->groups[g].cap[s] * sizeof(uint32_t));
    sw_heap_free(x->groups, SW_HEAP_PROGRAMS, x->cap_groups * sizeof *x->groups);
    sw_heap_free(x->fixed, SW_HEAP_PROGRAMS, x->cap_fixed * sizeof *x->fixed);
    free_words(x->comes_from, x->n_at[SWI_TO]);
    memset(x, 0, sizeof *x);
}

/* ---- classes of axes --------------------------------------------------------------------- */

static const swi_net_value *value_of(const swi_axes *x, int side, uint32_t axis)
{
    return &x->net[side]->values[axis / SW_MAX_RANK];
}

static bool is_axis(const swi_axes *x, uint32_t axis)
{
    return (int)(axis % SW_MAX_RANK) < value_of(x, SWI_FROM, axis)->shape.rank;
}

int64_t swi_axis_length(const swi_axes *x, int side, uint32_t axis)
{
    return value_of(x, side, axis)->shape.dim[axis % SW_MAX_RANK];
}

bool swi_axis_is_resized(const swi_axes *x, uint32_t axis)
{
    return is_axis(x, axis) && x->resized[swi_axis_root(x, axis)] != 0;
}

bool swi_axis_is_tensor(const swi_axes *x, uint32_t axis)
{
    const swi_net_value *v = value_of(x, SWI_FROM, axis);
    return v->source == SWI_OF_MODEL && v->model == x->which &&
           v->shape.rank == x->model[SWI_FROM]->entries[v->entry].shape.rank;
}

sw_status swi_axis_refuse(const swi_axes *x, uint32_t axis, sw_status status, const char *what,
                          const char *who)
{
    const uint32_t its = swi_axis_root(x, axis);
    for (int changes = 1; changes >= 0; changes--)
        for (uint32_t a = 0; a < x->n_axes; a++)
            if (is_axis(x, a) && swi_axis_root(x, a) == its && swi_axis_is_tensor(x, a) &&
                (!changes || swi_axis_length(x, SWI_FROM, a) != swi_axis_length(x, SWI_TO, a)))
                SW_FAIL(status, "axis %u of '%s' cannot have another length: it %s %s",
                        a % SW_MAX_RANK,
                        x->model[SWI_FROM]->entries[value_of(x, SWI_FROM, a)->entry].name, what,
                        who);
    SW_FAIL(status, "an axis of value %u cannot have another length: it %s %s",
            axis / SW_MAX_RANK, what, who);
}

/* The values of one tensor: as it was, and what was assigned. side -1: axes. */
static void tie_tensors(swi_axes *x, int side)
{
    const swi_net *net = x->net[SWI_FROM];
    for (uint32_t v = 0; v < net->n_values; v++) {
        const swi_net_value *its = &net->values[v];
        uint32_t u = 0;
        while (u < v &&
               (net->values[u].source != SWI_OF_MODEL || net->values[u].model != its->model ||
                net->values[u].entry != its->entry ||
                net->values[u].shape.rank != its->shape.rank))
            u++;
        for (int d = 0; its->source == SWI_OF_MODEL && u < v && d < its->shape.rank; d++) {
            const uint32_t a = v * SW_MAX_RANK + (uint32_t)d, b = u * SW_MAX_RANK + (uint32_t)d;
            if (side < 0)
                swi_axis_join(x, a, b);
            else if (swi_axis_is_resized(x, a))
                for (int64_t p = 0; p < swi_axis_length(x, side, a); p++)
                    swi_position_join(x, side, x->at[side][a] + (uint32_t)p,
                                      x->at[side][b] + (uint32_t)p);
        }
    }
}

sw_status swi_axis_fix(swi_axes *x, uint32_t axis, const char *what, const char *who)
{
    void *fixed = x->fixed;
    SW_TRY(sw_heap_reserve(&fixed, SW_HEAP_PROGRAMS, &x->cap_fixed, x->n_fixed + 1,
                           sizeof *x->fixed));
    x->fixed = fixed;
    x->fixed[x->n_fixed++] = (swi_fixed){axis, what, who};
    return SW_OK;
}

/* Inputs, outputs, and tensors of other models stay as they are. */
static sw_status fix_borders(swi_axes *x)
{
    for (uint32_t a = 0; a < x->n_axes; a++) {
        const swi_net_value *v = value_of(x, SWI_FROM, a);
        if (!swi_axis_is_resized(x, a))
            continue;
        if (v->source == SWI_OF_BACKWARD)
            return swi_axis_refuse(x, a, SW_UNSUPPORTED, "reaches what",
                                   "backward or an optimizer has made");
        if (v->source == SWI_GIVEN)
            SW_TRY(swi_axis_fix(x, a, "reaches an input of", "the step function"));
        if (v->source == SWI_OF_MODEL && v->model != x->which)
            SW_TRY(swi_axis_fix(x, a, "reaches a tensor of", "another model"));
    }
    const swi_net *net = x->net[SWI_FROM];
    for (uint32_t i = 0; i < net->n_outputs; i++)
        for (uint32_t d = 0; d < SW_MAX_RANK; d++)
            if (swi_axis_is_resized(x, net->outputs[i] * SW_MAX_RANK + d))
                SW_TRY(swi_axis_fix(x, net->outputs[i] * SW_MAX_RANK + d,
                                    "reaches an output of", "the step function"));
    return SW_OK;
}

static sw_status find_axes(swi_axes *x)
{
    size_t n;
    if (!sw_size_mul(x->net[SWI_FROM]->n_values, SW_MAX_RANK, &n) || n >= SWI_NONE)
        SW_FAIL(SW_NOMEM, "%u values are too many", x->net[SWI_FROM]->n_values);
    x->n_axes = (uint32_t)n;
    SW_TRY(words(&x->parent, n, false));
    SW_TRY(words(&x->at[SWI_FROM], n, true));
    SW_TRY(words(&x->at[SWI_TO], n, true));
    SW_TRY(flags(&x->resized, n));
    SW_TRY(flags(&x->read, n));
    tie_tensors(x, -1);
    SW_TRY(swi_axes_tie(x, SWI_FROM, false));
    SW_TRY(swi_axes_tie(x, SWI_TO, false));
    for (uint32_t a = 0; a < x->n_axes; a++)
        if (is_axis(x, a) && swi_axis_length(x, SWI_FROM, a) != swi_axis_length(x, SWI_TO, a))
            x->resized[swi_axis_root(x, a)] = 1;
    return fix_borders(x);
}

/* ---- classes of positions ---------------------------------------------------------------- */

static sw_status find_positions(swi_axes *x, int side)
{
    uint64_t n = 0;
    for (uint32_t a = 0; a < x->n_axes; a++)
        if (swi_axis_is_resized(x, a)) {
            const uint64_t length = (uint64_t)swi_axis_length(x, side, a);
            if (length >= SWI_NONE - n)
                SW_FAIL(SW_NOMEM, "the axes that are resized have too many positions");
            x->at[side][a] = (uint32_t)n;
            n += length;
        }
    SW_TRY(words(&x->joined[side], (size_t)n, false));
    x->n_at[side] = (uint32_t)n;
    tie_tensors(x, side);
    return swi_axes_tie(x, side, true);
}

/* From parents to classes 0, 1, ...: roots are lower than what hangs on them. */
static void number_classes(swi_axes *x, int side)
{
    uint32_t *parent = x->joined[side];
    for (uint32_t i = 0; i < x->n_at[side]; i++)
        parent[i] = root(parent, i);
    for (uint32_t i = 0; i < x->n_at[side]; i++)
        parent[i] = parent[i] == i ? x->n_classes[side]++ : parent[parent[i]];
}

sw_status swi_axes_find(swi_axes *x)
{
    x->exact = true;
    SW_TRY(find_axes(x));
    for (int s = 0; s < 2; s++) {
        SW_TRY(find_positions(x, s));
        number_classes(x, s);
    }
    return swi_axes_group(x);
}
