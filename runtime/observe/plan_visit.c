/* A plan, op by op and storage by storage: for the profile and for callers. */
#include "runtime/exec/run_internal.h"
#include "runtime/observe/observe.h"
#include "runtime/base/structs.h"
#include <string.h>

bool swi_plan_tensor(const swi_program *p, uint32_t s, swi_plan_names *names, sw_tensor *out)
{
    const swi_trace *t = &p->trace;
    const swi_storage *x = &t->storages[s];
    const bool input = x->segment >= SWI_SEG_INPUT && x->segment < SWI_SEG_MODEL;
    if (!input && (x->segment != SWI_SEG_STEP || x->birth == SWI_NONE || x->rounded == 0))
        return false;
    const bool made = !input && x->birth < p->n_ops;
    const char *op = NULL;
    if (made)
        op = swi_node_name(t, &t->nodes[p->ops[swi_made_at(p, s)].node], names->op,
                           sizeof names->op);
    *out = (sw_tensor){.id = s,
                       .alias = x->alias != s ? x->alias : SW_TENSOR_NONE,
                       .name = swi_storage_name(t, s, names->name, sizeof names->name),
                       .layer = swi_string(t, x->layer),
                       .op = op,
                       .role = swi_role_name(x->role),
                       .phase = sw_phase_name(input ? SW_DATA : (sw_phase)x->phase),
                       .segment = input ? SW_SEGMENT_INPUT : SW_SEGMENT_STEP,
                       .bytes = x->bytes,
                       .padding = x->rounded - x->bytes,
                       .offset = input ? 0 : x->offset,
                       .birth = input ? 0 : x->birth,
                       .death = input ? p->n_ops : x->death};
    return true;
}

static void visit_storage(const swi_program *p, uint32_t s, const sw_plan_visitor *v)
{
    swi_plan_names names;
    sw_tensor x;
    if (!swi_plan_tensor(p, s, &names, &x))
        return;
    const bool input = x.segment == SW_SEGMENT_INPUT;
    const sw_plan_storage storage = SW_OPTS(
        sw_plan_storage, .id = x.id, .alias = x.alias, .name = x.name, .layer = x.layer,
        .op = x.op, .role = x.role, .phase = input ? SW_DATA : p->trace.storages[s].phase,
        .input = input, .bytes = x.bytes, .padding = x.padding, .offset = x.offset,
        .birth = x.birth, .death = x.death);
    v->storage(v->to, &storage);
}

void swi_plan_show(const swi_program *p, const sw_plan_visitor *v)
{
    swi_plan_names names;
    for (uint32_t i = 0; v->op != NULL && i < p->n_ops; i++)
        v->op(v->to, i,
              swi_node_name(&p->trace, &p->trace.nodes[p->ops[i].node], names.op,
                            sizeof names.op),
              p->ops[i].phase);
    for (uint32_t s = 0; v->storage != NULL && s < p->trace.n_storages; s++)
        visit_storage(p, s, v);
}

sw_status sw_plan_visit(sw_exec *exec, const sw_run_args *given, const sw_plan_visitor *visitor)
{
    sw_run_args args;
    sw_plan_visitor v;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_plan_visit"));
    if (visitor == NULL)
        SW_FAIL(SW_INVALID, "sw_plan_visit: visitor must not be NULL");
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_plan_visitor, &v, visitor, "sw_plan_visit"));
    SW_TRY(swi_read_args(&args, given, false, "sw_plan_visit"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    swi_frame *f;
    bool fresh;
    const sw_status status = swi_exec_program(exec, &args, &f, &fresh);
    if (status == SW_OK)
        swi_plan_show(f->program, &v);
    swi_leave(exec, &args);
    return status;
}
