/* Models and members into others of the same net with other widths. */
#include "runtime/base/structs.h"
#include "runtime/model/model_bytes.h"
#include "runtime/population/members_internal.h"
#include "runtime/population/resize_internal.h"
#include <string.h>

static sw_status read_opts(sw_resize_opts *opts, const sw_resize_opts *given, const char *call)
{
    return swi_struct_read(SWI_STRUCT_sw_resize_opts, opts, given, call);
}

static sw_status check_info(const sw_resize_info *out, const char *call)
{
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    return swi_struct_check(SWI_STRUCT_sw_resize_info, out->size, call);
}

/* As much as the caller's struct has. */
static void give_info(const swi_resize *r, sw_resize_info *out)
{
    sw_resize_info info = {.size = out->size};
    swi_resize_info(r, &info);
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

/* The place of both models in their lists. */
static sw_status place_of(const sw_model *to, const sw_model *from, const sw_run_args *args,
                          const char *call, uint32_t *out)
{
    for (int i = 0; i < args[SWI_TO].n_models && i < args[SWI_FROM].n_models; i++)
        if (args[SWI_TO].models[i] == to && args[SWI_FROM].models[i] == from) {
            *out = (uint32_t)i;
            return SW_OK;
        }
    SW_FAIL(SW_INVALID,
            "%s: models %s and %s must be at the same place in the models of the arguments",
            call, to->name, from->name);
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
    return place_of(to, from, args, call, which);
}

static sw_status trace_both(swi_resize *r, sw_exec *exec, const sw_run_args *args)
{
    SW_TRY(trace_model(&r->net[SWI_FROM], exec, &args[SWI_FROM]));
    return trace_model(&r->net[SWI_TO], exec, &args[SWI_TO]);
}

static void set_knobs(sw_model *to, const sw_model *from)
{
    for (uint32_t i = 0; i < to->n_knobs; i++) {
        to->knobs[i].value = from->knobs[i].value;
        swi_knob_accept(to, i);
    }
    swi_knobs_changed(to);
}

/* Both models are taken. */
static sw_status fill_model(swi_resize *r, sw_model *to, const sw_model *from, uint32_t which,
                            const sw_resize_opts *opts, unsigned char *was, unsigned char *is)
{
    SW_TRY(swi_model_read(from, was, 0, from->bytes));
    SW_TRY(swi_resize_match(r, to, from, which, was, opts));
    SW_TRY(swi_resize_bytes(r, is, was, opts->seed));
    const sw_status status = swi_model_write(to, 0, is, to->bytes);
    if (status != SW_OK) {
        to->damaged = true; /* a card that fails in the middle of it */
        return status;
    }
    set_knobs(to, from);
    to->damaged = false;
    return SW_OK;
}

static sw_status fill(swi_resize *r, sw_model *to, const sw_model *from, uint32_t which,
                      const sw_resize_opts *opts)
{
    void *was, *is;
    if (!to->ready || !from->ready)
        SW_FAIL(SW_INVALID, "sw_model_resize: both models must be ready");
    if (from->damaged)
        SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                from->name);
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
    static const char call[] = "sw_model_resize";
    sw_run_args args[2];
    sw_resize_opts opts;
    swi_resize r = {0};
    uint32_t which;
    SW_TRY(read_opts(&opts, given, call));
    SW_TRY(read_both(to, from, exec, args_to, args_from, args, &which, call));
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
    swi_resize_end(&r);
    return status;
}

sw_status sw_model_resize_plan(sw_model *to, sw_model *from, sw_exec *exec,
                               const sw_run_args *args_to, const sw_run_args *args_from,
                               const sw_resize_opts *given, sw_resize_info *out)
{
    static const char call[] = "sw_model_resize_plan";
    sw_run_args args[2];
    sw_resize_opts opts;
    swi_resize r = {0};
    uint32_t which;
    SW_TRY(check_info(out, call));
    SW_TRY(read_opts(&opts, given, call));
    SW_TRY(read_both(to, from, exec, args_to, args_from, args, &which, call));
    sw_status status = trace_both(&r, exec, args);
    if (status == SW_OK)
        status = swi_resize_match(&r, to, from, which, NULL, &opts);
    if (status == SW_OK)
        give_info(&r, out);
    swi_resize_end(&r);
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
    if (given == NULL)
        SW_FAIL(SW_INVALID, "%s: the arguments must not be NULL", call);
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
    SW_TRY(swi_resize_match(r, to.of->shape, from, 0, was, opts));
    SW_TRY(sw_heap_alloc(&is, SW_HEAP_RECORDS, bytes));
    sw_status status = swi_resize_bytes(r, is, was, opts->seed);
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
    static const char call[] = "sw_member_resize";
    sw_resize_opts opts;
    swi_resize r = {0};
    SW_TRY(swi_member_check(to, call));
    SW_TRY(swi_member_check(from, call));
    SW_TRY(read_opts(&opts, given, call));
    if (to.of == from.of && to.index == from.index)
        SW_FAIL(SW_INVALID, "%s: the two members must be different ones", call);
    if (from.of->slots[from.index].damaged)
        SW_FAIL(SW_STALE, "%s: the member to take over failed after an update", call);
    sw_status status = trace_shapes(&r, to.of, from.of, args, call, SW_FRAME);
    if (status == SW_OK)
        status = fill_member(&r, to, from, &opts);
    swi_resize_end(&r);
    return status;
}

sw_status sw_members_resize_plan(sw_members *to, sw_members *from, const sw_members_args *args,
                                 const sw_resize_opts *given, sw_resize_info *out)
{
    static const char call[] = "sw_members_resize_plan";
    sw_resize_opts opts;
    swi_resize r = {0};
    SW_TRY(sw_handle_check(to, SW_HANDLE_MEMBERS, call));
    SW_TRY(sw_handle_check(from, SW_HANDLE_MEMBERS, call));
    SW_TRY(check_info(out, call));
    SW_TRY(read_opts(&opts, given, call));
    sw_status status = trace_shapes(&r, to, from, args, call, SW_FRAME);
    if (status == SW_OK)
        status = swi_resize_match(&r, to->shape, from->shape, 0, NULL, &opts);
    if (status == SW_OK)
        give_info(&r, out);
    swi_resize_end(&r);
    return status;
}
