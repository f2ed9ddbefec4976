/* Models and members into others of the same net with other widths. */
#include "alloc/base/hash.h"
#include "alloc/base/size.h"
#include "kernels/optim.h"
#include "runtime/base/structs.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "runtime/population/members_internal.h"
#include "runtime/population/resize_internal.h"
#include <string.h>

static sw_status axes_group(swi_axes *x);

/* Axes, units and groups: which positions of which tensors are added or dropped together. */

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

static uint32_t axis_root(const swi_axes *x, uint32_t axis)
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
    size_t bytes;
    if (!sw_size_mul(n + 1, sizeof **out, &bytes))
        SW_FAIL(SW_NOMEM, "%zu axes are too many", n);
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROGRAMS, bytes));
    for (size_t i = 0; i < n; i++)
        (*out)[i] = none ? SWI_NONE : (uint32_t)i;
    return SW_OK;
}

static void free_words(uint32_t *p, size_t n)
{
    sw_heap_free(p, SW_HEAP_PROGRAMS, (n + 1) * sizeof *p);
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

static bool axis_is_resized(const swi_axes *x, uint32_t axis)
{
    return is_axis(x, axis) && x->resized[axis_root(x, axis)] != 0;
}

static bool axis_is_tensor(const swi_axes *x, uint32_t axis)
{
    const swi_net_value *v = value_of(x, SWI_FROM, axis);
    return v->source == SWI_OF_MODEL && v->model == x->which &&
           v->shape.rank == x->model[SWI_FROM]->entries[v->entry].shape.rank;
}

sw_status swi_axis_refuse(const swi_axes *x, uint32_t axis, sw_status status, const char *what,
                          const char *who)
{
    const uint32_t its = axis_root(x, axis);
    for (int changes = 1; changes >= 0; changes--)
        for (uint32_t a = 0; a < x->n_axes; a++)
            if (is_axis(x, a) && axis_root(x, a) == its && axis_is_tensor(x, a) &&
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
            else if (axis_is_resized(x, a))
                for (int64_t p = 0; p < swi_axis_length(x, side, a); p++)
                    swi_position_join(x, side, x->at[side][a] + (uint32_t)p,
                                      x->at[side][b] + (uint32_t)p);
        }
    }
}

sw_status swi_axis_fix(swi_axes *x, uint32_t axis, const char *what, const char *who)
{
    SW_TRY(sw_heap_reserve(&x->fixed, SW_HEAP_PROGRAMS, &x->cap_fixed, x->n_fixed + 1));
    x->fixed[x->n_fixed++] = (swi_fixed){axis, what, who};
    return SW_OK;
}

/* Inputs, outputs, and tensors of other models stay as they are. */
static sw_status fix_borders(swi_axes *x)
{
    for (uint32_t a = 0; a < x->n_axes; a++) {
        const swi_net_value *v = value_of(x, SWI_FROM, a);
        if (!axis_is_resized(x, a))
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
            if (axis_is_resized(x, net->outputs[i] * SW_MAX_RANK + d))
                SW_TRY(swi_axis_fix(x, net->outputs[i] * SW_MAX_RANK + d,
                                    "reaches an output of", "the step function"));
    return SW_OK;
}

/* The bytes of a net of other widths, from those that it had. */

/* The scales of the state before it. */
static bool is_scales(const sw_model *model, uint32_t entry)
{
    return entry < model->n_entries && model->entries[entry].role == SWI_ROLE_OPTIMIZER_STATE &&
           model->entries[entry - 1].role == SWI_ROLE_OPTIMIZER_STATE &&
           model->entries[entry - 1].dtype == SW_U8;
}

/* A state may be float32 in one model and in 8 bits in the other: that goes by the size of its
 * parameter. */
static sw_status compare_models(swi_axes *x)
{
    const sw_model *to = x->model[SWI_TO], *from = x->model[SWI_FROM];
    uint32_t i = 1, k = 1;
    for (; i < to->n_entries && k < from->n_entries; i++, k++) {
        const swi_entry *a = &to->entries[i], *b = &from->entries[k];
        if (strcmp(a->name, b->name) != 0 || a->role != b->role)
            SW_FAIL(SW_INVALID,
                    "the models must have the same tensors: one has '%s' where the "
                    "other has '%s'",
                    b->name, a->name);
        if (a->weights || b->weights)
            SW_FAIL(SW_UNSUPPORTED,
                    "'%s' is a frozen weight (sw_weights_new), which cannot be resized",
                    a->name);
        if (a->shape.rank != b->shape.rank ||
            (a->dtype != b->dtype && a->role != SWI_ROLE_OPTIMIZER_STATE))
            SW_FAIL(SW_INVALID,
                    "'%s' must have the same rank and type in both models (got %s of "
                    "rank %d and %s of rank %d)",
                    a->name, sw_dtype_name(b->dtype), b->shape.rank, sw_dtype_name(a->dtype),
                    a->shape.rank);
        x->twin[i] = k;
        i += is_scales(to, i + 1);
        k += is_scales(from, k + 1);
    }
    if (i < to->n_entries || k < from->n_entries)
        SW_FAIL(SW_INVALID, "the models must have the same tensors: only one has '%s'",
                i < to->n_entries ? to->entries[i].name : from->entries[k].name);
    for (i = 0; i < to->n_optimizers && i < from->n_optimizers; i++)
        if (to->optimizers[i]->kind != from->optimizers[i]->kind)
            SW_FAIL(SW_INVALID, "the models must have the same optimizers (got %s and %s)",
                    from->optimizers[i]->kind->name, to->optimizers[i]->kind->name);
    if (to->n_optimizers != from->n_optimizers || to->n_knobs != from->n_knobs)
        SW_FAIL(SW_INVALID,
                "the models must have as many optimizers and knobs (got %u and %u, %u and %u)",
                from->n_optimizers, to->n_optimizers, from->n_knobs, to->n_knobs);
    return SW_OK;
}

/* ---- which axes of an entry are sized ---------------------------------------------------- */

typedef struct {
    const swi_sized *dim[SW_MAX_RANK]; /* NULL: as it was */
    bool known;                        /* else its shape follows from nothing */
    bool begins;                       /* optimizer state that has nothing to follow */
    const swi_entry *param;            /* whose state it is, the k-th tensor of it; or NULL */
    int k;
} plan;

static void plan_of_param(const swi_axes *x, uint32_t entry, plan *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < x->n_sized; i++)
        if (x->sized[i].entry == x->twin[entry])
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
    const swi_entry *to = x->model[SWI_TO]->entries, *from = x->model[SWI_FROM]->entries;
    if (!follows(&to[entry].shape, &to[param].shape, gone) ||
        !follows(&from[x->twin[entry]].shape, &from[x->twin[param]].shape, gone))
        return false;
    plan_of_param(x, param, &its);
    const int rank = to[param].shape.rank;
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
                out->param = e;
                out->k = k;
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

/* Where an element comes from: its number, -1: it is as it begins, -2: it is zero. */
static int64_t source_of(const plan *p, const swi_entry *to, const swi_entry *from,
                         const int64_t *at)
{
    int64_t i = 0;
    bool is_new = false;
    for (int d = 0; d < to->shape.rank; d++) {
        const int64_t was = p->dim[d] != NULL ? p->dim[d]->map[at[d]] : at[d];
        if (was < 0 && p->dim[d]->read && to->role != SWI_ROLE_OPTIMIZER_STATE &&
            to->role != SWI_ROLE_GRADIENT)
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

typedef struct {
    const plan *p;
    const swi_entry *to, *from;
} moving;

static int64_t origin_of(const void *context, int64_t i)
{
    const moving *m = context;
    int64_t at[SW_MAX_RANK];
    for (int d = m->to->shape.rank - 1; d >= 0; i /= m->to->shape.dim[d--])
        at[d] = i % m->to->shape.dim[d];
    return source_of(m->p, m->to, m->from, at);
}

/* The bytes of a state, whose scales are the next entry. */
static sw_state8_tensor tensor_of(const swi_entry *state, const unsigned char *base)
{
    unsigned char *at = (unsigned char *)(uintptr_t)base;
    sw_state8_tensor out = {.cols = sw_state8_cols(&state->shape)};
    if (state->dtype == SW_U8)
        out.in8 = (sw_state8){at + state[0].offset, (float *)(void *)(at + state[1].offset)};
    else
        out.values = (float *)(void *)(at + state->offset);
    return out;
}

void swi_state8_take(const sw_model *model, const swi_entry *param, int k, unsigned char *bytes,
                     const swi_entry *from, const unsigned char *was, sw_state8_origin *origin,
                     const void *context)
{
    const swi_entry *to = &model->entries[param->state[k]];
    const sw_optimizer *o = model->optimizers[param->optimizer];
    const int state = to->dtype == SW_U8 ? k / 2 : k;
    const sw_state8_tensor of_to = tensor_of(to, bytes), of_from = tensor_of(from, was);
    sw_state8_move(&of_to, swi_elements(&to->shape), &of_from,
                   sw_optim_state8((sw_optim)o->attrs.rule) >> state & 1, origin, context);
}

static sw_status take_entry(const swi_axes *x, uint32_t i, sw_model *stand_in,
                            const unsigned char *was, uint64_t seed)
{
    const swi_entry *to = &x->model[SWI_TO]->entries[i];
    const swi_entry *from = &x->model[SWI_FROM]->entries[x->twin[i]];
    const plan p = plan_of(x, i);
    bool sized = p.begins;
    if (p.param != NULL && (to->dtype == SW_U8 || from->dtype == SW_U8)) {
        swi_state8_take(x->model[SWI_TO], p.param, p.k, stand_in->base, from, was, origin_of,
                        &(moving){&p, to, from});
        return SW_OK;
    }
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
    for (uint32_t i = 1; i < x->model[SWI_TO]->n_entries; i++) {
        if (x->twin[i] == SWI_NONE)
            continue;
        const swi_entry *to = &x->model[SWI_TO]->entries[i];
        const swi_entry *from = &x->model[SWI_FROM]->entries[x->twin[i]];
        const plan p = plan_of(x, i);
        if (!p.known && !p.begins && !swi_same_shape(&to->shape, &from->shape))
            SW_FAIL(SW_INVALID,
                    "'%s' is %s in one model and %s in the other, and the step function does "
                    "not use it",
                    to->name, SWI_SHAPE(&from->shape), SWI_SHAPE(&to->shape));
    }
    return SW_OK;
}

/* Both nets are made. bytes: of `from`; NULL: only its cost is asked for. */
static sw_status resize_match(swi_resize *r, const sw_model *to, const sw_model *from,
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
    SW_TRY(words(&x->twin, to->n_entries, true));
    SW_TRY(compare_models(x));
    for (uint32_t v = 0; v < r->net[SWI_TO].n_values; v++) {
        swi_net_value *its = &r->net[SWI_TO].values[v];
        if (its->source == SWI_OF_MODEL && its->model == which)
            its->entry = x->twin[its->entry];
    }
    SW_TRY(swi_nets_compare(x->net[SWI_FROM], x->net[SWI_TO]));
    x->exact = true;
    size_t axes;
    if (!sw_size_mul(x->net[SWI_FROM]->n_values, SW_MAX_RANK, &axes) || axes >= SWI_NONE)
        SW_FAIL(SW_NOMEM, "%u values are too many", x->net[SWI_FROM]->n_values);
    x->n_axes = (uint32_t)axes;
    SW_TRY(words(&x->parent, axes, false));
    SW_TRY(words(&x->at[SWI_FROM], axes, true));
    SW_TRY(words(&x->at[SWI_TO], axes, true));
    SW_TRY(sw_heap_alloc(&x->resized, SW_HEAP_PROGRAMS, axes + 1));
    SW_TRY(sw_heap_alloc(&x->read, SW_HEAP_PROGRAMS, axes + 1));
    tie_tensors(x, -1);
    SW_TRY(swi_axes_tie(x, SWI_FROM, false));
    SW_TRY(swi_axes_tie(x, SWI_TO, false));
    for (uint32_t a = 0; a < x->n_axes; a++)
        if (is_axis(x, a) && swi_axis_length(x, SWI_FROM, a) != swi_axis_length(x, SWI_TO, a))
            x->resized[axis_root(x, a)] = 1;
    SW_TRY(fix_borders(x));
    for (int s = 0; s < 2; s++) {
        uint64_t n = 0;
        for (uint32_t a = 0; a < x->n_axes; a++)
            if (axis_is_resized(x, a)) {
                const uint64_t length = (uint64_t)swi_axis_length(x, s, a);
                if (length >= SWI_NONE - n)
                    SW_FAIL(SW_NOMEM, "the axes that are resized have too many positions");
                x->at[s][a] = (uint32_t)n;
                n += length;
            }
        SW_TRY(words(&x->joined[s], (size_t)n, false));
        x->n_at[s] = (uint32_t)n;
        tie_tensors(x, s);
        SW_TRY(swi_axes_tie(x, s, true));
        /* From parents to classes 0, 1, ...: roots are lower than what hangs on them. */
        uint32_t *parent = x->joined[s];
        for (uint32_t i = 0; i < x->n_at[s]; i++)
            parent[i] = root(parent, i);
        for (uint32_t i = 0; i < x->n_at[s]; i++)
            parent[i] = parent[i] == i ? x->n_classes[s]++ : parent[parent[i]];
    }
    SW_TRY(axes_group(x));
    SW_TRY(check_shapes(x));
    return swi_axes_match(x, bytes, opts);
}

/* All bytes of `to` into `bytes`, which are zero. */
static sw_status resize_bytes(const swi_resize *r, unsigned char *bytes,
                              const unsigned char *from, uint64_t seed)
{
    sw_model stand_in = *r->axes.model[SWI_TO];
    stand_in.base = bytes;
    stand_in.device = swi_device_cpu();
    for (uint32_t i = 1; i < stand_in.n_entries; i++)
        if (r->axes.twin[i] != SWI_NONE) /* scales go with their codes */
            SW_TRY(take_entry(&r->axes, i, &stand_in, from, seed));
    return SW_OK;
}

static void resize_end(swi_resize *r)
{
    if (r->axes.twin != NULL)
        free_words(r->axes.twin, r->axes.model[SWI_TO]->n_entries);
    free_words(r->axes.parent, r->axes.n_axes);
    sw_heap_free(r->axes.resized, SW_HEAP_PROGRAMS, r->axes.n_axes + (size_t)1);
    sw_heap_free(r->axes.read, SW_HEAP_PROGRAMS, r->axes.n_axes + (size_t)1);
    for (int s = 0; s < 2; s++) {
        free_words(r->axes.at[s], r->axes.n_axes);
        free_words(r->axes.joined[s], r->axes.n_at[s]);
    }
    for (uint32_t i = 0; i < r->axes.n_sized; i++)
        sw_heap_free(r->axes.sized[i].map, SW_HEAP_PROGRAMS,
                     r->axes.sized[i].n_map * sizeof(int64_t));
    sw_heap_free(r->axes.sized, SW_HEAP_PROGRAMS, r->axes.cap_sized * sizeof *r->axes.sized);
    for (uint32_t g = 0; g < r->axes.n_groups; g++)
        for (int s = 0; s < 2; s++)
            sw_heap_free(r->axes.groups[g].unit[s], SW_HEAP_PROGRAMS,
                         r->axes.groups[g].cap[s] * sizeof(uint32_t));
    sw_heap_free(r->axes.groups, SW_HEAP_PROGRAMS, r->axes.cap_groups * sizeof *r->axes.groups);
    sw_heap_free(r->axes.fixed, SW_HEAP_PROGRAMS, r->axes.cap_fixed * sizeof *r->axes.fixed);
    free_words(r->axes.comes_from, r->axes.n_at[SWI_TO]);
    r->axes = (swi_axes){0};
    swi_net_free(&r->net[SWI_FROM]);
    swi_net_free(&r->net[SWI_TO]);
}

/* ---- resize ------------------------------------------------------------------------------ */

/* As much as the caller's struct has. */
static void give_info(const swi_resize *r, sw_resize_info *out)
{
    const swi_axes *x = &r->axes;
    sw_resize_info info = {.size = out->size,
                           .from_bytes = x->model[SWI_FROM]->bytes,
                           .to_bytes = x->model[SWI_TO]->bytes,
                           .from_arena_bytes = r->net[SWI_FROM].arena_bytes,
                           .to_arena_bytes = r->net[SWI_TO].arena_bytes,
                           .exact = x->exact};
    for (uint32_t g = 0; g < x->n_groups; g++) {
        const int64_t more = (int64_t)x->groups[g].n[SWI_TO] - x->groups[g].n[SWI_FROM];
        info.added += more > 0 ? more : 0;
        info.dropped += more < 0 ? -more : 0;
    }
    swi_struct_write(SWI_STRUCT_sw_resize_info, out, &info);
}

/* ---- models ------------------------------------------------------------------------------ */

SW_FRAME_OWN static sw_status trace_model(swi_net *net, sw_exec *exec, const sw_run_args *args)
{
    SW_TRY(swi_enter(exec, args, SW_FRAME));
    const sw_status status = swi_net_make(net, exec, args);
    swi_leave(exec, args);
    return status;
}

static sw_status read_both(sw_model *to, const sw_model *from, sw_exec *exec,
                           const sw_run_args *args_to, const sw_run_args *args_from,
                           sw_run_args *args, uint32_t *which, const char *call)
{
    SW_TRY(sw_handle_check(to, SW_HANDLE_MODEL, call));
    SW_TRY(sw_handle_check(from, SW_HANDLE_MODEL, call));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    if (to == from)
        SW_FAIL(SW_INVALID, "%s: the two models must be different ones", call);
    SW_TRY(swi_read_args(&args[SWI_TO], args_to, false, call));
    SW_TRY(swi_read_args(&args[SWI_FROM], args_from, false, call));
    /* The place of both models in their lists. */
    for (int i = 0; i < args[SWI_TO].n_models && i < args[SWI_FROM].n_models; i++)
        if (args[SWI_TO].models[i] == to && args[SWI_FROM].models[i] == from) {
            *which = (uint32_t)i;
            return SW_OK;
        }
    SW_FAIL(SW_INVALID,
            "%s: models %s and %s must be at the same place in the models of the arguments",
            call, to->name, from->name);
}

static sw_status trace_both(swi_resize *r, sw_exec *exec, const sw_run_args *args)
{
    SW_TRY(trace_model(&r->net[SWI_FROM], exec, &args[SWI_FROM]));
    return trace_model(&r->net[SWI_TO], exec, &args[SWI_TO]);
}

/* Both models are taken. */
static sw_status fill_model(swi_resize *r, sw_model *to, const sw_model *from, uint32_t which,
                            const sw_resize_opts *opts, unsigned char *was, unsigned char *is)
{
    SW_TRY(swi_model_read(from, was, 0, from->bytes));
    SW_TRY(resize_match(r, to, from, which, was, opts));
    SW_TRY(resize_bytes(r, is, was, opts->seed));
    const sw_status status = swi_model_write(to, 0, is, to->bytes);
    if (status != SW_OK) {
        to->damaged = true; /* a card that fails in the middle of it */
        return status;
    }
    if (to->n_knobs > 0)
        swi_knobs_set(to, &from->knobs->value, sizeof *from->knobs);
    to->damaged = false;
    return SW_OK;
}

static sw_status fill(swi_resize *r, sw_model *to, const sw_model *from, uint32_t which,
                      const sw_resize_opts *opts)
{
    void *was, *is;
    if (!to->ready || !from->ready)
        SW_FAIL(SW_INVALID, "sw_model_resize: both models must be ready");
    SW_TRY(swi_model_whole(from));
    SW_TRY(sw_heap_alloc(&was, SW_HEAP_RECORDS, from->bytes));
    sw_status status = sw_heap_alloc(&is, SW_HEAP_RECORDS, to->bytes);
    if (status == SW_OK) {
        status = fill_model(r, to, from, which, opts, was, is);
        sw_heap_free(is, SW_HEAP_RECORDS, to->bytes);
    }
    sw_heap_free(was, SW_HEAP_RECORDS, from->bytes);
    return status;
}

sw_status sw_model_resize(sw_model *to, const sw_model *from, sw_exec *exec,
                          const sw_run_args *args_to, const sw_run_args *args_from,
                          const sw_resize_opts *given)
{
    sw_run_args args[2];
    sw_resize_opts opts;
    swi_resize r = {0};
    uint32_t which;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_resize_opts, &opts, given, __func__));
    SW_TRY(read_both(to, from, exec, args_to, args_from, args, &which, __func__));
    sw_status status = trace_both(&r, exec, args);
    if (status == SW_OK)
        status = swi_model_take(to);
    if (status == SW_OK) {
        status = swi_model_take(from);
        if (status == SW_OK) {
            status = fill(&r, to, from, which, &opts);
            swi_model_give(from);
        }
        swi_model_give(to);
    }
    resize_end(&r);
    return status;
}

sw_status sw_model_resize_plan(sw_model *to, sw_model *from, sw_exec *exec,
                               const sw_run_args *args_to, const sw_run_args *args_from,
                               const sw_resize_opts *given, sw_resize_info *out)
{
    sw_run_args args[2];
    sw_resize_opts opts;
    swi_resize r = {0};
    uint32_t which;
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_resize_info, out, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_resize_opts, &opts, given, __func__));
    SW_TRY(read_both(to, from, exec, args_to, args_from, args, &which, __func__));
    sw_status status = trace_both(&r, exec, args);
    if (status == SW_OK)
        status = resize_match(&r, to, from, which, NULL, &opts);
    if (status == SW_OK)
        give_info(&r, out);
    resize_end(&r);
    return status;
}

/* ---- members ----------------------------------------------------------------------------- */

static sw_status trace_shape(swi_net *net, sw_members *m, const sw_members_args *a,
                             const char *call, const void *frame)
{
    sw_run_args of_one;
    const sw_run_args none = {.n_models = 0};
    if (m->opts.callback != NULL)
        SW_FAIL(SW_INVALID, "%s: the members of %s are callbacks, without widths", call,
                m->shape->name);
    const sw_run_args args = SW_OPTS(
        sw_run_args, .fn = m->opts.fn, .user = m->opts.user, .models = &m->shape, .n_models = 1,
        .inputs = a->inputs, .n_inputs = a->n_inputs, .mode = a->mode, .variant = a->variant);
    SW_TRY(swi_read_args(&of_one, &args, false, call));
    SW_TRY(swi_enter(m->exec, &none, frame));
    const sw_status status = trace_model(net, m->lanes->planner, &of_one);
    swi_leave(m->exec, &none);
    return status;
}

static sw_status trace_shapes(swi_resize *r, sw_members *to, sw_members *from,
                              const sw_members_args *given, const char *call, const void *frame)
{
    sw_members_args args;
    SW_TRY(swi_given(given != NULL, "the arguments", call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_members_args, &args, given, call));
    SW_TRY(trace_shape(&r->net[SWI_FROM], from, &args, call, frame));
    return trace_shape(&r->net[SWI_TO], to, &args, call, frame);
}

/* From the bytes of a member, in host memory. */
static sw_status fill_from(swi_resize *r, sw_member to, const sw_model *from,
                           const unsigned char *was, const sw_resize_opts *opts)
{
    void *is;
    const size_t bytes = to.of->stride;
    SW_TRY(resize_match(r, to.of->shape, from, 0, was, opts));
    SW_TRY(sw_heap_alloc(&is, SW_HEAP_RECORDS, bytes));
    sw_status status = resize_bytes(r, is, was, opts->seed);
    if (status == SW_OK)
        status = swi_member_put(to.of, to.index, is);
    if (status == SW_OK)
        to.of->slots[to.index].damaged = false;
    sw_heap_free(is, SW_HEAP_RECORDS, bytes);
    return status;
}

static sw_status fill_member(swi_resize *r, sw_member to, sw_member from,
                             const sw_resize_opts *opts)
{
    void *copy;
    const sw_model *shape = from.of->shape;
    const size_t bytes = from.of->stride;
    if (swi_members_on_host(from.of))
        return fill_from(r, to, shape, swi_member_base(from.of, from.index), opts);
    SW_TRY(sw_heap_alloc(&copy, SW_HEAP_RECORDS, bytes));
    sw_status status = swi_member_take(from.of, from.index, copy);
    if (status == SW_OK)
        status = fill_from(r, to, shape, copy, opts);
    sw_heap_free(copy, SW_HEAP_RECORDS, bytes);
    return status;
}

sw_status sw_member_resize(sw_member to, sw_member from, const sw_members_args *args,
                           const sw_resize_opts *given)
{
    sw_resize_opts opts;
    swi_resize r = {0};
    SW_TRY(swi_member_check(to, __func__));
    SW_TRY(swi_member_check(from, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_resize_opts, &opts, given, __func__));
    if (to.of == from.of && to.index == from.index)
        SW_FAIL(SW_INVALID, "%s: the two members must be different ones", __func__);
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member to take over failed after an update", __func__);
    sw_status status = trace_shapes(&r, to.of, from.of, args, __func__, SW_FRAME);
    if (status == SW_OK)
        status = fill_member(&r, to, from, &opts);
    resize_end(&r);
    return status;
}

sw_status sw_members_resize_plan(sw_members *to, sw_members *from, const sw_members_args *args,
                                 const sw_resize_opts *given, sw_resize_info *out)
{
    sw_resize_opts opts;
    swi_resize r = {0};
    SW_TRY(sw_handle_check(to, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(sw_handle_check(from, SW_HANDLE_MEMBERS, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_resize_info, out, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_resize_opts, &opts, given, __func__));
    sw_status status = trace_shapes(&r, to, from, args, __func__, SW_FRAME);
    if (status == SW_OK)
        status = resize_match(&r, to->shape, from->shape, 0, NULL, &opts);
    if (status == SW_OK)
        give_info(&r, out);
    resize_end(&r);
    return status;
}

/* Tensors that have resized axes, and groups: units that lie in them in the same way. */

/* ---- groups ------------------------------------------------------------------------------ */

static sw_status add_unit(swi_axes *x, int side, uint64_t like, uint32_t unit)
{
    uint32_t g = 0;
    while (g < x->n_groups && x->groups[g].like != like)
        g++;
    if (g == x->n_groups) {
        SW_TRY(sw_heap_reserve(&x->groups, SW_HEAP_PROGRAMS, &x->cap_groups, g + 1));
        x->groups[x->n_groups++] = (swi_group){.like = like};
    }
    swi_group *to = &x->groups[g];
    SW_TRY(sw_heap_reserve(&to->unit[side], SW_HEAP_PROGRAMS, &to->cap[side], to->n[side] + 1));
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
                mark[its[p]] = sw_hash_word(sw_hash_word(mark[its[p]], x->sized[i].axis + 1),
                                            count[its[p]]);
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
    uint64_t *mark;
    const size_t n = x->n_classes[side] + (size_t)1;
    sw_status status = SW_OK;
    SW_TRY(sw_heap_alloc(&mark, SW_HEAP_PROGRAMS, n * sizeof(of_class)));
    uint32_t *count = (uint32_t *)(void *)(mark + n);
    mark_classes(x, side, mark, count);
    for (uint32_t i = 0; i < x->n_sized; i++) {
        const uint32_t *its = x->joined[side] + x->at[side][x->sized[i].axis];
        for (int64_t p = 0; status == SW_OK && p < swi_axis_length(x, side, x->sized[i].axis);
             p++)
            if (count[its[p]]++ == 0)
                status = add_unit(x, side, mark[its[p]], its[p]);
    }
    sw_heap_free(mark, SW_HEAP_PROGRAMS, n * sizeof(of_class));
    return status;
}

/* Units and groups; *axes has nets, models, which and approximate, the rest is empty. */
static sw_status axes_group(swi_axes *x)
{
    /* Of each tensor its first value, in the order of values; what reads through any of
     * them. */
    for (uint32_t a = 0; a < x->n_axes; a++) {
        if (!axis_is_resized(x, a) || !axis_is_tensor(x, a))
            continue;
        const uint32_t entry = x->net[SWI_FROM]->values[a / SW_MAX_RANK].entry;
        uint32_t i = 0;
        while (i < x->n_sized &&
               (x->sized[i].entry != entry || x->sized[i].dim != (int)(a % SW_MAX_RANK)))
            i++;
        if (i == x->n_sized) {
            const swi_net_value *v = &x->net[SWI_FROM]->values[a / SW_MAX_RANK];
            SW_TRY(sw_heap_reserve(&x->sized, SW_HEAP_PROGRAMS, &x->cap_sized, x->n_sized + 1));
            x->sized[x->n_sized++] =
                (swi_sized){.entry = v->entry, .axis = a, .dim = (int)(a % SW_MAX_RANK)};
        }
        x->sized[i].read |= x->read[a] != 0;
    }

    SW_TRY(find_groups(x, SWI_FROM));
    return find_groups(x, SWI_TO);
}
