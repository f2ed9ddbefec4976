/* The owners of the bytes of members: tensors of a range, plans of steps; for callers and for
 * profiles. */
#include "runtime/model/model_label.h"
#include "alloc/base/size.h"
#include "runtime/observe/breakdown.h"
#include "runtime/population/members_internal.h"
#include <string.h>

/* ---- the range --------------------------------------------------------------------------- */

typedef void tensor_fn(void *to, const sw_tensor *tensor);

static sw_tensor range_tensor(uint32_t id, const char *name, const char *layer, swi_role role)
{
    return (sw_tensor){.id = id,
                       .alias = SW_TENSOR_NONE,
                       .name = name,
                       .layer = layer,
                       .role = swi_role_name(role),
                       .phase = sw_phase_name(SW_DATA),
                       .segment = SW_SEGMENT_MODEL};
}

/* The bytes that a callback has of its own, or those of a range that have no other owner. */
static void visit_rest(const sw_members *m, tensor_fn *fn, void *to)
{
    if (m->stride == m->model_bytes)
        return;
    sw_tensor x = range_tensor(m->shape->n_entries, "state", "", SWI_ROLE_STATE);
    x.bytes = m->opts.state_bytes;
    x.padding = m->stride - m->model_bytes - x.bytes;
    x.offset = m->model_bytes;
    fn(to, &x);
}

static void visit_range(const sw_members *m, tensor_fn *fn, void *to)
{
    for (uint32_t i = 1; i < m->shape->n_entries; i++) {
        const swi_entry *e = &m->shape->entries[i];
        char layer[SWI_SHOWN_BYTES];
        swi_entry_layer(NULL, m->shape, e->name, layer);
        sw_tensor x = range_tensor(i, e->name, layer, e->role);
        x.bytes = e->bytes;
        x.padding = sw_size_round(e->bytes) - e->bytes;
        x.offset = e->offset;
        if (e->bytes > 0)
            fn(to, &x);
    }
    visit_rest(m, fn, to);
}

static void show_tensor(void *to, const sw_tensor *x)
{
    const sw_plan_visitor *v = to;
    const sw_plan_storage storage =
        SW_OPTS(sw_plan_storage, .id = x->id, .alias = x->alias, .name = x->name,
                .layer = x->layer, .role = x->role, .phase = SW_DATA, .bytes = x->bytes,
                .padding = x->padding, .offset = x->offset, .death = UINT32_MAX);
    v->storage(v->to, &storage);
}

/* ---- calls ------------------------------------------------------------------------------- */

static const sw_run_args no_models = {.n_models = 0};

/* From here on the group's exec refuses calls, until swi_leave(m->exec, &no_models). */
static sw_status open_group(sw_members *m, const char *call)
{
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    SW_TRY(sw_handle_check(m->exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_enter(m->exec, &no_models, SW_FRAME));
    const sw_status status = swi_model_layout(m->shape);
    if (status != SW_OK)
        swi_leave(m->exec, &no_models);
    return status;
}

static sw_status read_visitor(sw_plan_visitor *out, const sw_plan_visitor *given,
                              const char *call)
{
    if (given == NULL)
        SW_FAIL(SW_INVALID, "%s: visitor must not be NULL", call);
    return swi_struct_read(SWI_STRUCT_sw_plan_visitor, out, given, call);
}

sw_status sw_members_visit(sw_members *m, const sw_plan_visitor *visitor)
{
    static const char call[] = "sw_members_visit";
    sw_plan_visitor v;
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    SW_TRY(read_visitor(&v, visitor, call));
    SW_TRY(open_group(m, call));
    if (v.storage != NULL)
        visit_range(m, show_tensor, &v);
    swi_leave(m->exec, &no_models);
    return SW_OK;
}

sw_status sw_members_visit_step(sw_members *m, const sw_members_args *args,
                                const sw_plan_visitor *visitor)
{
    static const char call[] = "sw_members_visit_step";
    sw_plan_visitor v;
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    SW_TRY(read_visitor(&v, visitor, call));
    SW_TRY(open_group(m, call));
    const sw_status status = swi_members_find(m, args, call);
    if (status == SW_OK)
        swi_plan_show(swi_members_larger(m, NULL)->program, &v);
    swi_leave(m->exec, &no_models);
    return status;
}

static sw_status show_shares(sw_members *m, const sw_members_args *given,
                             sw_share_visitor *visitor, void *to, const char *call)
{
    uint32_t which;
    SW_TRY(swi_members_find(m, given, call));
    swi_frame *frame = swi_members_larger(m, &which);
    const sw_run_args args = swi_members_of_one(m, (int)which);
    SW_TRY(swi_program_breakdown(frame, &args));
    swi_breakdown_show(&frame->breakdown, visitor, to);
    return SW_OK;
}

sw_status sw_members_shares(sw_members *m, const sw_members_args *args,
                            sw_share_visitor *visitor, void *to)
{
    static const char call[] = "sw_members_shares";
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    if (visitor == NULL)
        SW_FAIL(SW_INVALID, "%s: visitor must not be NULL", call);
    SW_TRY(open_group(m, call));
    const sw_status status = show_shares(m, args, visitor, to, call);
    swi_leave(m->exec, &no_models);
    return status;
}

/* ---- profiles ---------------------------------------------------------------------------- */

enum { MOST_RUNS = 16 };

/* Lanes number their programs for themselves, as an exec does. */
static uint32_t number_of_lanes(swi_lanes *l, sw_profile *profile)
{
    const uint32_t generation = ((const sw_handle *)(const void *)profile)->generation;
    if (l->profile != profile || l->profile_generation != generation) {
        l->profile = profile;
        l->profile_generation = generation;
        l->profile_number = sw_prof_join(profile);
    }
    return l->profile_number;
}

static void write_plan(const sw_members *m, sw_profile *to, uint32_t number, uint32_t which)
{
    const swi_group_run *r = &m->run;
    const swi_program *p = m->programs[r->program[which]].planned->program;
    const sw_run_args args = swi_members_of_one(m, (int)which);
    const size_t batch = r->args.feed != NULL ? r->args.feed->bytes : 0;
    const sw_prof_plan head = swi_profile_head(number, batch, &args, p);
    (void)swi_profile_program(to, &head, p, &args);
}

typedef struct {
    uint32_t program[2 * MOST_RUNS], n;
    size_t batch_bytes;
} programs;

static void write_plans(sw_members *m, sw_profile *to, uint32_t number, programs *all)
{
    const swi_group_run *r = &m->run;
    const uint32_t n = r->args.feed != NULL && r->program[1] != r->program[0] ? 2 : 1;
    if (r->args.feed != NULL && r->args.feed->bytes > all->batch_bytes)
        all->batch_bytes = r->args.feed->bytes;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t id = m->programs[r->program[k]].planned->program->id;
        bool there = false;
        for (uint32_t i = 0; i < all->n; i++)
            there |= all->program[i] == id;
        if (there)
            continue;
        all->program[all->n++] = id;
        write_plan(m, to, number, k);
    }
}

static void put_tensor(void *to, const sw_tensor *x)
{
    sw_prof_plan_value(to, x);
}

static const sw_members_args *args_at(const sw_members_args *args, size_t i)
{
    return (const void *)((const char *)args + i * args->size);
}

/* All that can fail is done, for all runs, before the first plan is written. */
static sw_status write_shape(sw_members *m, const sw_members_args *args, size_t n,
                             sw_profile *to, const char *name, uint32_t *shape)
{
    static const char call[] = "sw_members_profile";
    programs all = {.n = 0};
    for (size_t i = 0; i < n; i++)
        SW_TRY(swi_members_find(m, args_at(args, i), call));
    const uint32_t number = number_of_lanes(m->lanes, to);
    for (size_t i = 0; i < n; i++) {
        SW_TRY(swi_members_find(m, args_at(args, i), call));
        write_plans(m, to, number, &all);
    }
    const sw_prof_shape head = {.name = name,
                                .member_bytes = m->stride,
                                .batch_bytes = all.batch_bytes,
                                .exec = number,
                                .programs = all.program,
                                .n_programs = all.n};
    const uint32_t its = sw_prof_shape_begin(to, &head);
    visit_range(m, put_tensor, to);
    (void)sw_prof_plan_end(to);
    if (shape != NULL)
        *shape = its;
    return SW_OK;
}

sw_status sw_members_profile(sw_members *m, const sw_members_args *args, size_t n,
                             sw_profile *profile, const char *name, uint32_t *shape)
{
    static const char call[] = "sw_members_profile";
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    SW_TRY(sw_handle_check(profile, SW_HANDLE_PROFILE, call));
    SW_TRY(sw_prof_check_fork(profile));
    if (n > MOST_RUNS || (n > 0 && args == NULL))
        SW_FAIL(SW_INVALID, "%s: args must be given, for at most %d runs (got %zu)", call,
                MOST_RUNS, n);
    if (n > 0)
        SW_TRY(swi_struct_check(SWI_STRUCT_sw_members_args, args->size, call));
    for (size_t i = 1; i < n; i++)
        if (args_at(args, i)->size != args->size)
            SW_FAIL(SW_INVALID, "%s: all sizes must be that of the first, %zu (got %zu)", call,
                    args->size, args_at(args, i)->size);
    SW_TRY(open_group(m, call));
    const sw_status status = write_shape(m, args, n, profile, name, shape);
    swi_leave(m->exec, &no_models);
    return status;
}
