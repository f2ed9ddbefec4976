/* Nets: the forward part of a trace, for comparing two widths of it. Results that are their
 * input in another layout have its number, so that layouts make no difference. */
#include "runtime/population/resize_internal.h"
#include <string.h>

typedef struct {
    const swi_trace *trace;
    swi_net *net;
    uint32_t *number; /* by value of the trace */
} reader;

static void set_source(const reader *r, uint32_t value, swi_net_value *to)
{
    const swi_trace *t = r->trace;
    const swi_value *v = &t->values[value];
    const swi_storage *s = &t->storages[v->storage];
    to->source = SWI_OF_BACKWARD;
    if (v->node != SWI_NONE && t->nodes[v->node].is_view)
        return;
    if (s->segment >= SWI_SEG_MODEL) {
        to->source = SWI_OF_MODEL;
        to->model = s->segment - SWI_SEG_MODEL;
        to->entry = s->entry;
    } else if (s->segment >= SWI_SEG_INPUT) {
        to->source = SWI_GIVEN;
        to->entry = s->segment - SWI_SEG_INPUT;
    }
}

static sw_status new_value(reader *r, uint32_t value, bool is_result)
{
    swi_net *net = r->net;
    void *values = net->values;
    SW_TRY(sw_heap_reserve(&values, SW_HEAP_PROGRAMS, &net->cap_values, net->n_values + 1,
                           sizeof *net->values));
    net->values = values;
    swi_net_value *to = &net->values[net->n_values];
    swi_set_shape(&to->shape, &r->trace->values[value].type.shape);
    set_source(r, value, to);
    if (is_result && to->source != SWI_OF_MODEL)
        to->source = SWI_MADE;
    r->number[value] = net->n_values++;
    return SW_OK;
}

static sw_status add_operands(reader *r, const swi_node *node)
{
    swi_net *net = r->net;
    const uint32_t n = node->n_in + node->n_out;
    const uint32_t *operand = r->trace->operands + node->first;
    void *operands = net->operands;
    SW_TRY(sw_heap_reserve(&operands, SW_HEAP_PROGRAMS, &net->cap_operands, net->n_operands + n,
                           sizeof *net->operands));
    net->operands = operands;
    for (uint32_t k = 0; k < n; k++) {
        if (r->number[operand[k]] == SWI_NONE)
            SW_TRY(new_value(r, operand[k], k >= node->n_in));
        net->operands[net->n_operands++] = r->number[operand[k]];
    }
    return SW_OK;
}

static sw_status add_node(reader *r, const swi_node *node)
{
    swi_net *net = r->net;
    const void *given = swi_node_attrs(r->trace, node);
    const uint32_t bytes = given != NULL ? (uint32_t)swi_op(node->op)->attrs_bytes : 0;
    void *nodes = net->nodes, *attrs = net->attrs;
    const swi_net_node new_node = {.op = node->op,
                                   .n_in = node->n_in,
                                   .n_out = node->n_out,
                                   .first = net->n_operands,
                                   .attrs = net->n_attrs};
    SW_TRY(add_operands(r, node));
    SW_TRY(sw_heap_reserve(&nodes, SW_HEAP_PROGRAMS, &net->cap_nodes, net->n_nodes + 1,
                           sizeof *net->nodes));
    net->nodes = nodes;
    SW_TRY(sw_heap_reserve(&attrs, SW_HEAP_PROGRAMS, &net->cap_attrs, net->n_attrs + bytes + 16,
                           1));
    net->attrs = attrs;
    if (bytes > 0)
        memcpy(net->attrs + net->n_attrs, given, bytes);
    net->n_attrs += (bytes + 15) & ~15u;
    net->nodes[net->n_nodes++] = new_node;
    return SW_OK;
}

static bool is_forward(const swi_node *node)
{
    return node->grad < 0 && !node->is_backward && !node->is_update && node->gradient_of == 0 &&
           node->again == 0 && !swi_op_is_private(node->op);
}

/* Does it only lay its input in another way? */
static bool is_alias(const swi_trace *t, const swi_node *node)
{
    if (swi_op_traits_of(node->op)->axes != SWI_AXES_MOVES)
        return false;
    const swi_value *out = &t->values[t->operands[node->first + 1]];
    return node->is_view || t->storages[out->storage].segment < SWI_SEG_MODEL;
}

static sw_status read_nodes(reader *r)
{
    const swi_trace *t = r->trace;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        const uint32_t *operand = t->operands + node->first;
        if (!is_forward(node))
            continue;
        if (!is_alias(t, node)) {
            SW_TRY(add_node(r, node));
            continue;
        }
        if (r->number[operand[0]] == SWI_NONE)
            SW_TRY(new_value(r, operand[0], false));
        r->number[operand[1]] = r->number[operand[0]];
    }
    return SW_OK;
}

static sw_status read_outputs(reader *r)
{
    swi_net *net = r->net;
    void *outputs = NULL;
    SW_TRY(sw_heap_reserve(&outputs, SW_HEAP_PROGRAMS, &net->cap_outputs,
                           r->trace->n_outputs + 1, sizeof *net->outputs));
    net->outputs = outputs;
    for (uint32_t i = 0; i < r->trace->n_outputs; i++) {
        const uint32_t number = r->number[r->trace->outputs[i].value];
        if (number != SWI_NONE)
            net->outputs[net->n_outputs++] = number;
    }
    return SW_OK;
}

static sw_status read_trace(swi_net *net, const swi_trace *trace)
{
    void *numbers;
    const size_t bytes = ((size_t)trace->n_values + 1) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&numbers, SW_HEAP_PROGRAMS, bytes));
    memset(numbers, 0xff, bytes); /* SWI_NONE */
    reader r = {.trace = trace, .net = net, .number = numbers};
    sw_status status = read_nodes(&r);
    if (status == SW_OK)
        status = read_outputs(&r);
    sw_heap_free(numbers, SW_HEAP_PROGRAMS, bytes);
    return status;
}

sw_status swi_net_make(swi_net *net, sw_exec *exec, const sw_run_args *args)
{
    swi_frame *frame;
    bool fresh;
    swi_trace room = {0};
    const swi_trace *traced = NULL;
    SW_TRY(swi_exec_program(exec, args, &frame, &fresh));
    net->arena_bytes = frame->program->height;
    sw_status status = swi_program_traced(frame->program, &room, &traced);
    if (status == SW_OK)
        status = read_trace(net, traced);
    swi_trace_free(&room);
    return status;
}

void swi_net_free(swi_net *net)
{
    sw_heap_free(net->values, SW_HEAP_PROGRAMS, net->cap_values * sizeof *net->values);
    sw_heap_free(net->nodes, SW_HEAP_PROGRAMS, net->cap_nodes * sizeof *net->nodes);
    sw_heap_free(net->operands, SW_HEAP_PROGRAMS, net->cap_operands * sizeof *net->operands);
    sw_heap_free(net->outputs, SW_HEAP_PROGRAMS, net->cap_outputs * sizeof *net->outputs);
    sw_heap_free(net->attrs, SW_HEAP_PROGRAMS, net->cap_attrs);
    memset(net, 0, sizeof *net);
}

/* ---- the same but for lengths ------------------------------------------------------------ */

static const char *op_name(const swi_net *net, uint32_t i)
{
    return i < net->n_nodes ? swi_op(net->nodes[i].op)->name : "(none)";
}

static bool nodes_match(const swi_net *a, const swi_net *b, uint32_t i)
{
    const swi_net_node *x = &a->nodes[i], *y = &b->nodes[i];
    return x->op == y->op && x->n_in == y->n_in && x->n_out == y->n_out &&
           memcmp(a->operands + x->first, b->operands + y->first,
                  (x->n_in + x->n_out) * sizeof *a->operands) == 0;
}

static bool values_match(const swi_net_value *x, const swi_net_value *y)
{
    return x->shape.rank == y->shape.rank && x->source == y->source && x->model == y->model &&
           x->entry == y->entry &&
           (x->source != SWI_GIVEN || swi_same_shape(&x->shape, &y->shape));
}

sw_status swi_nets_compare(const swi_net *from, const swi_net *to)
{
    const uint32_t most = from->n_nodes > to->n_nodes ? from->n_nodes : to->n_nodes;
    for (uint32_t i = 0; i < most; i++)
        if (i >= from->n_nodes || i >= to->n_nodes || !nodes_match(from, to, i))
            SW_FAIL(SW_INVALID,
                    "the step functions must apply the same ops: op %u is %s in one and %s in "
                    "the other, or has other operands",
                    i, op_name(from, i), op_name(to, i));
    for (uint32_t v = 0; v < from->n_values; v++)
        if (!values_match(&from->values[v], &to->values[v]))
            SW_FAIL(SW_INVALID,
                    "value %u of the two step functions differs by more than its "
                    "widths (inputs must have one shape)",
                    v);
    if (from->n_outputs != to->n_outputs ||
        memcmp(from->outputs, to->outputs, from->n_outputs * sizeof *from->outputs) != 0)
        SW_FAIL(SW_INVALID, "the step functions must have the same outputs");
    return SW_OK;
}
