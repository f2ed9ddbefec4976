/* Tensors that have resized axes, and groups: units that lie in them in the same way. */
#include "runtime/population/resize_internal.h"

/* ---- tensors --------------------------------------------------------------------------- */

static sw_status add_sized(swi_axes *x, uint32_t axis)
{
    void *sized = x->sized;
    const swi_net_value *v = &x->net[SWI_FROM]->values[axis / SW_MAX_RANK];
    SW_TRY(sw_heap_reserve(&sized, SW_HEAP_PROGRAMS, &x->cap_sized, x->n_sized + 1,
                           sizeof *x->sized));
    x->sized = sized;
    x->sized[x->n_sized++] =
        (swi_sized){.entry = v->entry, .axis = axis, .dim = (int)(axis % SW_MAX_RANK)};
    return SW_OK;
}

/* Of each tensor its first value, in the order of values; what reads through any of them. */
static sw_status find_sized(swi_axes *x)
{
    for (uint32_t a = 0; a < x->n_axes; a++) {
        if (!swi_axis_is_resized(x, a) || !swi_axis_is_tensor(x, a))
            continue;
        const uint32_t entry = x->net[SWI_FROM]->values[a / SW_MAX_RANK].entry;
        uint32_t i = 0;
        while (i < x->n_sized &&
               (x->sized[i].entry != entry || x->sized[i].dim != (int)(a % SW_MAX_RANK)))
            i++;
        if (i == x->n_sized)
            SW_TRY(add_sized(x, a));
        x->sized[i].read |= x->read[a] != 0;
    }
    return SW_OK;
}

/* ---- groups ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static sw_status add_unit(swi_axes *x, int side, uint64_t like, uint32_t unit)
{
    uint32_t g = 0;
    while (g < x->n_groups && x->groups[g].like != like)
        g++;
    if (g == x->n_groups) {
        void *groups = x->groups;
        SW_TRY(sw_heap_reserve(&groups, SW_HEAP_PROGRAMS, &x->cap_groups, g + 1,
                               sizeof *x->groups));
        x->groups = groups;
        x->groups[x->n_groups++] = (swi_group){.like = like};
    }
    swi_group *to = &x->groups[g];
    void *units = to->unit[side];
    SW_TRY(sw_heap_reserve(&units, SW_HEAP_PROGRAMS, &to->cap[side], to->n[side] + 1,
                           sizeof *to->unit[side]));
    to->unit[side] = units;
    to->unit[side][to->n[side]++] = unit;
    return SW_OK;
}

/* How often each class is on each sized axis makes its mark. */
static void mark_classes(const swi_axes *x, int side, uint64_t *mark, uint32_t *count)
{
    for (uint32_t i = 0; i < x->n_sized; i++) {
        const uint32_t *its = x->joined[side] + x->at[side][x->sized[i].axis];
        const int64_t n = swi_axis_length(x, side, x->sized[i].axis);
        for (int64_t p = 0; p < n; p++)
            count[its[p]]++;
        for (int64_t p = 0; p < n; p++)
            if (count[its[p]] > 0) {
                mark[its[p]] = mix(mix(mark[its[p]], x->sized[i].axis + 1), count[its[p]]);
                count[its[p]] = 0;
            }
    }
}

static sw_status find_groups(swi_axes *x, int side)
{
    typedef struct {
        uint64_t mark;
        uint32_t count, pad;
    } of_class;
    void *block;
    const size_t n = x->n_classes[side] + (size_t)1;
    sw_status status = SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, n * sizeof(of_class)));
    uint64_t *mark = block;
    uint32_t *count = (uint32_t *)(void *)(mark + n);
    mark_classes(x, side, mark, count);
    for (uint32_t i = 0; i < x->n_sized; i++) {
        const uint32_t *its = x->joined[side] + x->at[side][x->sized[i].axis];
        for (int64_t p = 0; status == SW_OK && p < swi_axis_length(x, side, x->sized[i].axis);
             p++)
            if (count[its[p]]++ == 0)
                status = add_unit(x, side, mark[its[p]], its[p]);
    }
    sw_heap_free(block, SW_HEAP_PROGRAMS, n * sizeof(of_class));
    return status;
}

sw_status swi_axes_group(swi_axes *x)
{
    SW_TRY(find_sized(x));
    SW_TRY(find_groups(x, SWI_FROM));
    return find_groups(x, SWI_TO);
}
