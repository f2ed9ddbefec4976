/* The bytes of a net of other widths, from those that it had. */
#include "runtime/device/device.h"
#include "runtime/population/resize_internal.h"
#include <string.h>

/* ---- two models of one net --------------------------------------------------------------- */

static sw_status compare_entries(const swi_entry *to, const swi_entry *from)
{
    if (strcmp(to->name, from->name) != 0 || to->role != from->role)
        SW_FAIL(SW_INVALID,
                "the models must have the same tensors: one has '%s' where the "
                "other has '%s'",
                from->name, to->name);
    if (to->shape.rank != from->shape.rank || to->dtype != from->dtype)
        SW_FAIL(SW_INVALID,
                "'%s' must have the same rank and type in both models (got %s of "
                "rank %d and %s of rank %d)",
                to->name, sw_dtype_name(from->dtype), from->shape.rank,
                sw_dtype_name(to->dtype), to->shape.rank);
    return SW_OK;
}

static sw_status compare_models(const sw_model *to, const sw_model *from)
{
    const uint32_t n = to->n_entries < from->n_entries ? to->n_entries : from->n_entries;
    for (uint32_t i = 1; i < n; i++)
        SW_TRY(compare_entries(&to->entries[i], &from->entries[i]));
    if (to->n_entries != from->n_entries)
        SW_FAIL(SW_INVALID, "the models must have the same tensors: only one has '%s'",
                to->n_entries > n ? to->entries[n].name : from->entries[n].name);
    for (uint32_t i = 0; i < to->n_optimizers && i < from->n_optimizers; i++)
        if (to->optimizers[i]->kind != from->optimizers[i]->kind)
            SW_FAIL(SW_INVALID, "the models must have the same optimizers (got %s and %s)",
                    from->optimizers[i]->kind->name, to->optimizers[i]->kind->name);
    if (to->n_optimizers != from->n_optimizers || to->n_knobs != from->n_knobs)
        SW_FAIL(SW_INVALID,
                "the models must have as many optimizers and knobs (got %u and %u, "
                "%u and %u)",
                from->n_optimizers, to->n_optimizers, from->n_knobs, to->n_knobs);
    return SW_OK;
}

/* ---- which axes of an entry are sized ---------------------------------------------------- */

typedef struct {
    const swi_sized *dim[SW_MAX_RANK]; /* NULL: as it was */
    bool known;                        /* else its shape follows from nothing */
    bool begins;                       /* optimizer state that has nothing to follow */
} plan;

static void plan_of_param(const swi_axes *x, uint32_t entry, plan *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < x->n_sized; i++)
        if (x->sized[i].entry == entry)
            out->dim[x->sized[i].dim] = &x->sized[i];
}

/* Is the shape the parameter's, with dim `gone` left out? */
static bool follows(const sw_shape *state, const sw_shape *param, int gone)
{
    int k = 0;
    if (state->rank != param->rank - (gone >= 0))
        return false;
    for (int d = 0; d < param->rank; d++)
        if (d != gone && state->dim[k++] != param->dim[d])
            return false;
    return true;
}

/* Dims of the parameter that a state or a kept gradient has: all of them, or all but the last
 * or the one before it, as the k-th state of those that keep rows and columns. */
static bool follow(const swi_axes *x, uint32_t param, uint32_t entry, int gone, plan *out)
{
    plan its;
    for (int s = 0; s < 2; s++)
        if (!follows(&x->model[s]->entries[entry].shape, &x->model[s]->entries[param].shape,
                     gone))
            return false;
    plan_of_param(x, param, &its);
    const int rank = x->model[SWI_TO]->entries[param].shape.rank;
    for (int d = 0, k = 0; d < rank; d++)
        if (d != gone)
            out->dim[k++] = its.dim[d];
    return out->known = true;
}

static void plan_of_state(const swi_axes *x, uint32_t entry, plan *out)
{
    const sw_model *to = x->model[SWI_TO];
    for (uint32_t i = 1; i < to->n_entries; i++) {
        const swi_entry *e = &to->entries[i];
        if (e->kept == entry && follow(x, i, entry, -1, out))
            return;
        for (int k = 0; k < SWI_MAX_STATE; k++)
            if (e->state[k] == entry) {
                out->begins = !follow(x, i, entry, -1, out) &&
                              !follow(x, i, entry, e->shape.rank - 1 - k, out);
                return;
            }
    }
}

static plan plan_of(const swi_axes *x, uint32_t entry)
{
    const swi_entry *to = &x->model[SWI_TO]->entries[entry];
    plan out;
    plan_of_param(x, entry, &out);
    if (to->role == SWI_ROLE_OPTIMIZER_STATE || to->role == SWI_ROLE_GRADIENT)
        plan_of_state(x, entry, &out);
    for (int d = 0; d < to->shape.rank; d++)
        out.known |= out.dim[d] != NULL;
    return out;
}

/* ---- one entry --------------------------------------------------------------------------- */

static bool is_read(const swi_entry *e, const swi_sized *sized)
{
    return sized->read && e->role != SWI_ROLE_OPTIMIZER_STATE && e->role != SWI_ROLE_GRADIENT;
}

/* Where an element comes from: its number, -1: it is as it begins, -2: it is zero. */
static int64_t source_of(const plan *p, const swi_entry *to, const swi_entry *from,
                         const int64_t *at)
{
    int64_t i = 0;
    bool is_new = false;
    for (int d = 0; d < to->shape.rank; d++) {
        const int64_t was = p->dim[d] != NULL ? p->dim[d]->map[at[d]] : at[d];
        if (was < 0 && is_read(to, p->dim[d]))
            return -2;
        is_new |= was < 0;
        i = i * from->shape.dim[d] + was;
    }
    return is_new ? -1 : i;
}

static void gather(const plan *p, const swi_entry *to, const swi_entry *from,
                   unsigned char *bytes, const unsigned char *was)
{
    const size_t one = sw_dtype_bytes(to->dtype);
    int64_t at[SW_MAX_RANK] = {0};
    const int64_t n = swi_elements(&to->shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = source_of(p, to, from, at);
        if (k >= 0)
            memcpy(bytes + (size_t)i * one, was + (size_t)k * one, one);
        else if (k == -2)
            memset(bytes + (size_t)i * one, 0, one);
        for (int d = to->shape.rank - 1; d >= 0 && ++at[d] == to->shape.dim[d]; d--)
            at[d] = 0;
    }
}

static sw_status take_entry(const swi_axes *x, uint32_t i, sw_model *stand_in,
                            const unsigned char *was, uint64_t seed)
{
    const swi_entry *to = &x->model[SWI_TO]->entries[i];
    const swi_entry *from = &x->model[SWI_FROM]->entries[i];
    const plan p = plan_of(x, i);
    bool sized = p.begins;
    for (int d = 0; d < to->shape.rank; d++)
        sized |= p.dim[d] != NULL;
    if (sized)
        SW_TRY(swi_init_entry(stand_in, to, seed));
    if (p.begins)
        return SW_OK;
    if (sized)
        gather(&p, to, from, stand_in->base + to->offset, was + from->offset);
    else
        memcpy(stand_in->base + to->offset, was + from->offset, to->bytes);
    return SW_OK;
}

/* ---- all of them ------------------------------------------------------------------------- */

static sw_status check_shapes(const swi_axes *x)
{
    char a[SWI_SHAPE_TEXT], b[SWI_SHAPE_TEXT];
    for (uint32_t i = 1; i < x->model[SWI_TO]->n_entries; i++) {
        const swi_entry *to = &x->model[SWI_TO]->entries[i];
        const swi_entry *from = &x->model[SWI_FROM]->entries[i];
        const plan p = plan_of(x, i);
        if (!p.known && !p.begins && !swi_same_shape(&to->shape, &from->shape))
            SW_FAIL(SW_INVALID,
                    "'%s' is %s in one model and %s in the other, and the step function does "
                    "not use it",
                    to->name, swi_shape_text(&from->shape, a), swi_shape_text(&to->shape, b));
    }
    return SW_OK;
}

sw_status swi_resize_match(swi_resize *r, const sw_model *to, const sw_model *from,
                           uint32_t which, const unsigned char *bytes,
                           const sw_resize_opts *opts)
{
    swi_axes *x = &r->axes;
    x->net[SWI_FROM] = &r->net[SWI_FROM];
    x->net[SWI_TO] = &r->net[SWI_TO];
    x->model[SWI_FROM] = from;
    x->model[SWI_TO] = to;
    x->which = which;
    x->approximate = opts->approximate != 0;
    SW_TRY(compare_models(to, from));
    SW_TRY(swi_nets_compare(x->net[SWI_FROM], x->net[SWI_TO]));
    SW_TRY(swi_axes_find(x));
    SW_TRY(check_shapes(x));
    return swi_axes_match(x, bytes, opts);
}

void swi_resize_info(const swi_resize *r, sw_resize_info *out)
{
    const swi_axes *x = &r->axes;
    out->from_bytes = x->model[SWI_FROM]->bytes;
    out->to_bytes = x->model[SWI_TO]->bytes;
    out->from_arena_bytes = r->net[SWI_FROM].arena_bytes;
    out->to_arena_bytes = r->net[SWI_TO].arena_bytes;
    for (uint32_t g = 0; g < x->n_groups; g++) {
        const int64_t more = (int64_t)x->groups[g].n[SWI_TO] - x->groups[g].n[SWI_FROM];
        out->added += more > 0 ? more : 0;
        out->dropped += more < 0 ? -more : 0;
    }
    out->exact = x->exact;
}

sw_status swi_resize_bytes(const swi_resize *r, unsigned char *bytes, const unsigned char *from,
                           uint64_t seed)
{
    sw_model stand_in = *r->axes.model[SWI_TO];
    stand_in.base = bytes;
    stand_in.device = swi_device_cpu();
    for (uint32_t i = 1; i < stand_in.n_entries; i++)
        SW_TRY(take_entry(&r->axes, i, &stand_in, from, seed));
    return SW_OK;
}

void swi_resize_end(swi_resize *r)
{
    swi_axes_free(&r->axes);
    swi_net_free(&r->net[SWI_FROM]);
    swi_net_free(&r->net[SWI_TO]);
}
