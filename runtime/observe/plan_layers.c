/* A program by layers, for a summary of the model: what each makes, has and keeps. */
#include "runtime/base/structs.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "runtime/observe/observe.h"
#include <stdio.h>
#include <string.h>

#define LAYER_NONE UINT32_MAX

typedef struct {
    char name[SWI_MAX_SCOPE];
    uint32_t op;    /* that makes its result; LAYER_NONE: nothing of its forward part does */
    uint32_t value; /* the result */
    bool given;     /* another layer reads it */
    uint64_t parameters, operations, backward_operations;
    size_t parameter_bytes, saved_bytes;
} layer_line;

/* Which op of the forward part made a storage, as seen so far. */
typedef struct {
    uint32_t line, op, value; /* line LAYER_NONE: none did */
} layer_maker;

typedef struct {
    layer_line *at;
    uint32_t n, cap;
    uint32_t found;    /* the next one is often the same */
    layer_maker *made; /* of each storage */
} layer_list;

static sw_status find(layer_list *list, const char *name, layer_line **out)
{
    for (uint32_t d = 0; d < list->n; d++) {
        const uint32_t i = (list->found + d) % list->n;
        if (strcmp(list->at[i].name, name) == 0) {
            list->found = i;
            *out = &list->at[i];
            return SW_OK;
        }
    }
    SW_TRY(sw_heap_reserve(&list->at, SW_HEAP_PROGRAMS, &list->cap, list->n + 1));
    list->found = list->n++;
    *out = &list->at[list->found];
    memset(*out, 0, sizeof **out);
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    (*out)->op = LAYER_NONE;
    return SW_OK;
}

/* A layer gives its result to another: of two, the one that was made last. Without any it is
 * what its last op makes. */
static void see_inputs(layer_list *list, const swi_trace *t, const swi_node *node)
{
    for (uint32_t k = 0; k < node->n_in; k++) {
        const uint32_t value = t->operands[node->first + k];
        if (value == SWI_NONE)
            continue;
        const layer_maker *made = &list->made[t->values[value].storage];
        if (made->line == LAYER_NONE || made->line == list->found)
            continue;
        layer_line *line = &list->at[made->line];
        if (!line->given || made->op > line->op) {
            line->op = made->op;
            line->value = made->value;
        }
        line->given = true;
    }
}

static void see_results(layer_list *list, const swi_trace *t, const swi_node *node, uint32_t op)
{
    layer_line *line = &list->at[list->found];
    for (uint32_t k = 0; k < node->n_out; k++) {
        const uint32_t value = t->operands[node->first + node->n_in + k];
        if (value == SWI_NONE)
            continue;
        list->made[t->values[value].storage] = (layer_maker){list->found, op, value};
        if (k > 0 || line->given)
            continue;
        line->op = op;
        line->value = value;
    }
}

static sw_status add_ops(layer_list *list, const swi_program *p)
{
    const swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &t->nodes[p->ops[i].node];
        const uint64_t operations = swi_node_operations(t, node);
        layer_line *line;
        SW_TRY(find(list, swi_string(t, node->layer), &line));
        /* Forward ops run once each; what runs again is the price of a plan. */
        if (!(!node->is_backward && !node->is_update && node->grad < 0 && node->again == 0)) {
            line->backward_operations += operations;
            continue;
        }
        line->operations += operations;
        see_inputs(list, t, node);
        see_results(list, t, node, i);
    }
    return SW_OK;
}

static sw_status make_room(layer_list *list, const swi_trace *t)
{
    SW_TRY(sw_heap_alloc(&list->made, SW_HEAP_PROGRAMS, t->n_storages * sizeof *list->made));
    for (uint32_t s = 0; s < t->n_storages; s++)
        list->made[s].line = LAYER_NONE;
    return SW_OK;
}

static bool is_saved(const swi_storage *x)
{
    return x->segment == SWI_SEG_STEP && x->birth != SWI_NONE && x->role == SWI_ROLE_SAVED;
}

/* Results that take another's place are counted where the first of the place is not. */
static sw_status add_saved(layer_list *list, const swi_trace *t)
{
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        layer_line *line;
        if (!is_saved(x) || (x->alias != s && is_saved(&t->storages[x->alias])))
            continue;
        SW_TRY(find(list, swi_string(t, x->layer), &line));
        line->saved_bytes += x->rounded;
    }
    return SW_OK;
}

static sw_status add_parameters(layer_list *list, const sw_run_args *args, int m)
{
    const sw_model *model = args->models[m];
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        char name[SWI_SHOWN_BYTES];
        layer_line *line;
        if (e->role != SWI_ROLE_PARAMETER)
            continue;
        swi_entry_layer(args, model, e->name, name);
        SW_TRY(find(list, name, &line));
        line->parameters += (uint64_t)swi_elements(&e->shape);
        line->parameter_bytes += e->bytes;
    }
    return SW_OK;
}

static sw_status show_layers(sw_exec *exec, const sw_run_args *args,
                             sw_plan_layer_visitor *visitor, void *to)
{
    layer_list list = {.at = NULL};
    swi_frame *f;
    bool fresh;
    SW_TRY(swi_exec_program(exec, args, &f, &fresh));
    const swi_trace *t = &f->program->trace;
    sw_status status = make_room(&list, t);
    if (status == SW_OK)
        status = add_ops(&list, f->program);
    if (status == SW_OK)
        status = add_saved(&list, t);
    for (int m = 0; m < args->n_models && status == SW_OK; m++)
        status = add_parameters(&list, args, m);
    if (status == SW_OK) {
        for (uint32_t i = 0; i < list.n; i++) {
            const layer_line *line = &list.at[i];
            swi_plan_names names = {.op = ""};
            sw_plan_layer layer = SW_OPTS(
                sw_plan_layer, .name = line->name, .op = "", .parameters = line->parameters,
                .parameter_bytes = line->parameter_bytes, .saved_bytes = line->saved_bytes,
                .operations = line->operations,
                .backward_operations = line->backward_operations);
            if (line->op != LAYER_NONE) {
                layer.op = swi_node_name(t, &t->nodes[f->program->ops[line->op].node], names.op,
                                         sizeof names.op);
                layer.dtype = t->values[line->value].type.dtype;
                layer.shape = t->values[line->value].type.shape;
            }
            visitor(to, &layer);
        }
    }
    sw_heap_free(list.made, SW_HEAP_PROGRAMS, t->n_storages * sizeof *list.made);
    sw_heap_free(list.at, SW_HEAP_PROGRAMS, list.cap * sizeof *list.at);
    return status;
}

sw_status sw_plan_layers(sw_exec *exec, const sw_run_args *given,
                         sw_plan_layer_visitor *visitor, void *to)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_plan_layers"));
    SW_TRY(swi_given(visitor != NULL, "visitor", "sw_plan_layers"));
    SW_TRY(swi_read_args(&args, given, false, "sw_plan_layers"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = show_layers(exec, &args, visitor, to);
    swi_leave(exec, &args);
    return status;
}

/* ---- plan visit -------------------------------------------------------------------------- */

/* A plan, op by op and storage by storage: for the profile and for callers. */

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
    *out = (sw_tensor)
        SW_INIT(.id = s, .alias = x->alias != s ? x->alias : SW_TENSOR_NONE,
                .name = swi_storage_name(t, s, names->name, sizeof names->name),
                .layer = swi_string(t, x->layer), .op = op, .role = swi_role_name(x->role),
                .phase = sw_phase_name(input ? SW_DATA : (sw_phase)x->phase),
                .dtype = x->dtype > 0 ? sw_dtype_name((sw_dtype)(x->dtype - 1)) : NULL,
                .segment = input ? SW_SEGMENT_INPUT : SW_SEGMENT_STEP, .bytes = x->bytes,
                .padding = x->rounded - x->bytes, .offset = input ? 0 : x->offset,
                .birth = input ? 0 : x->birth, .death = input ? p->n_ops : x->death);
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
        v->op(v->to, i, swi_node_name(&p->trace, swi_node_of(p, i), names.op, sizeof names.op),
              p->ops[i].phase);
    for (uint32_t s = 0; v->storage != NULL && s < p->trace.n_storages; s++)
        visit_storage(p, s, v);
}

sw_status sw_plan_visit(sw_exec *exec, const sw_run_args *given, const sw_plan_visitor *visitor)
{
    sw_run_args args;
    sw_plan_visitor v;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_plan_visit"));
    SW_TRY(swi_given(visitor != NULL, "visitor", "sw_plan_visit"));
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
