/* Who stays: utilities, the choice of units, and for each position of the new tensors the one
 * that it comes from. */
#include "alloc/base/order.h"
#include "runtime/population/resize_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    swi_axes *axes;
    int side;
    bool positions;
    const swi_net *net;
    const swi_net_node *node;
    uint8_t seen[SWI_MAX_OPERANDS]; /* axes that the op has mentioned */
    sw_status status;               /* the first refusal */
} swi_walk;

static inline uint32_t swi_walk_value_of(const swi_walk *w, uint32_t k)
{
    return w->net->operands[w->node->first + k];
}

static inline const sw_shape *swi_walk_shape_of(const swi_walk *w, uint32_t k)
{
    return &w->net->values[swi_walk_value_of(w, k)].shape;
}

static inline int swi_walk_last_of(const swi_walk *w, uint32_t k)
{
    return swi_walk_shape_of(w, k)->rank - 1;
}

static inline const void *swi_walk_attrs_of(const swi_walk *w)
{
    return w->net->attrs + w->node->attrs;
}

/* Of the same node in the net of that side. */
static inline const void *swi_walk_attrs_on(const swi_walk *w, int side)
{
    const swi_net *net = w->axes->net[side];
    return net->attrs + net->nodes[w->node - w->net->nodes].attrs;
}

static inline uint32_t swi_walk_axis_of(const swi_walk *w, uint32_t k, int d)
{
    return swi_walk_value_of(w, k) * SW_MAX_RANK + (uint32_t)d;
}

static inline void swi_walk_see(swi_walk *w, uint32_t k, int d)
{
    w->seen[k] |= (uint8_t)(1u << d);
}

static inline bool swi_walk_is_resized(const swi_walk *w, uint32_t k, int d)
{
    return w->positions && w->axes->at[w->side][swi_walk_axis_of(w, k, d)] != SWI_NONE;
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
    for (size_t k = 0; k < opts->n_utilities; k++) {
        const sw_model *from = x->model[SWI_FROM];
        const swi_entry *e = opts->utilities[k].tensor.model == from
                                 ? swi_entry_of(opts->utilities[k].tensor)
                                 : NULL;
        if (e == NULL)
            SW_FAIL(SW_INVALID, "utilities: the tensor must be one of model %s", from->name);
        if (opts->utilities[k].axis < 0 || opts->utilities[k].axis >= e->shape.rank ||
            opts->utilities[k].values == NULL ||
            opts->utilities[k].n != e->shape.dim[opts->utilities[k].axis] ||
            opts->utilities[k].reserved[0] != 0 || opts->utilities[k].reserved[1] != 0)
            SW_FAIL(SW_INVALID,
                    "utilities of '%s': there must be one for each position of an axis (got "
                    "%lld for axis %d), and reserved words must be zero",
                    e->name,
                    (long long)(opts->utilities[k].values != NULL ? opts->utilities[k].n : 0),
                    opts->utilities[k].axis);
        for (int64_t i = 0; i < opts->utilities[k].n; i++)
            if (!isfinite(opts->utilities[k].values[i]))
                SW_FAIL(SW_INVALID, "utilities of '%s': each must be finite (got %g)", e->name,
                        (double)opts->utilities[k].values[i]);
    }
    return SW_OK;
}

/* Utility of each class of `from`, in out[n_classes[SWI_FROM]]. */
static sw_status axes_utility(const swi_axes *x, const unsigned char *bytes,
                              const sw_resize_opts *opts, double *out)
{
    double *read;
    const size_t n = x->n_classes[SWI_FROM];
    SW_TRY(check_utilities(x, opts));
    SW_TRY(sw_heap_alloc(&read, SW_HEAP_PROGRAMS, (n + 1) * sizeof *out));
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
    sw_heap_free(read, SW_HEAP_PROGRAMS, (n + 1) * sizeof *out);
    /* The caller's in the place of the default. */
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
    return SW_OK;
}

/* ---- who stays --------------------------------------------------------------------------- */

typedef struct {
    double utility;
    uint32_t index;
} candidate;

SW_ORDER(by_utility, candidate, SW_FALLS(utility), SW_RISES(index))

SW_ORDER(by_index, candidate, SW_RISES(index), 0)

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
    const int64_t n_from = swi_axis_length(x, SWI_FROM, sized->axis);
    const int64_t n_to = swi_axis_length(x, SWI_TO, sized->axis);
    const uint32_t *was = x->joined[SWI_FROM] + x->at[SWI_FROM][sized->axis];
    const uint32_t *is = x->joined[SWI_TO] + x->at[SWI_TO][sized->axis];
    SW_TRY(sw_heap_alloc(&sized->map, SW_HEAP_PROGRAMS, (size_t)n_to * sizeof(int64_t)));
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
    uint32_t *first;
    const size_t n = x->n_classes[SWI_FROM] + (size_t)1, positions = x->n_at[SWI_FROM];
    const size_t bytes = (n + positions) * sizeof(uint32_t);
    sw_status status = SW_OK;
    SW_TRY(sw_heap_alloc(&first, SW_HEAP_PROGRAMS, bytes));
    for (uint32_t i = 0; status == SW_OK && i < x->n_sized; i++)
        status = map_axis(x, &x->sized[i], first, first + n);
    sw_heap_free(first, SW_HEAP_PROGRAMS, bytes);
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
        status = axes_utility(x, bytes, opts, utility);
    else
        status = check_utilities(x, opts);
    if (status == SW_OK)
        status = match_groups(x, bytes != NULL ? utility : NULL);
    if (status == SW_OK)
        status = check_fixed(x);
    sw_heap_free(block, SW_HEAP_PROGRAMS, n);
    return status == SW_OK ? map_axes(x) : status;
}

/* Nets: the forward part of a trace, for comparing two widths of it. Results that are their
 * input in another layout have its number, so that layouts make no difference. */

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
    SW_TRY(
        sw_heap_reserve(&net->values, SW_HEAP_PROGRAMS, &net->cap_values, net->n_values + 1));
    swi_net_value *to = &net->values[net->n_values];
    swi_set_shape(&to->shape, &r->trace->values[value].type.shape);
    set_source(r, value, to);
    if (is_result && to->source != SWI_OF_MODEL)
        to->source = SWI_MADE;
    r->number[value] = net->n_values++;
    return SW_OK;
}

static sw_status add_node(reader *r, const swi_node *node)
{
    swi_net *net = r->net;
    const void *given = swi_node_attrs(r->trace, node);
    const uint32_t bytes = given != NULL ? (uint32_t)swi_op(node->op)->attrs_bytes : 0;
    const swi_net_node new_node =
        SW_INIT(.op = node->op, .n_in = node->n_in, .n_out = node->n_out,
                .first = net->n_operands, .attrs = net->n_attrs);
    const uint32_t n = node->n_in + node->n_out;
    const uint32_t *operand = r->trace->operands + node->first;
    SW_TRY(sw_heap_reserve(&net->operands, SW_HEAP_PROGRAMS, &net->cap_operands,
                           net->n_operands + n));
    for (uint32_t k = 0; k < n; k++) {
        if (r->number[operand[k]] == SWI_NONE)
            SW_TRY(new_value(r, operand[k], k >= node->n_in));
        net->operands[net->n_operands++] = r->number[operand[k]];
    }

    SW_TRY(sw_heap_reserve(&net->nodes, SW_HEAP_PROGRAMS, &net->cap_nodes, net->n_nodes + 1));
    SW_TRY(sw_heap_reserve(&net->attrs, SW_HEAP_PROGRAMS, &net->cap_attrs,
                           net->n_attrs + bytes + 16));
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
    const swi_value *out = swi_operand(t, node, 1);
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
    SW_TRY(sw_heap_reserve(&net->outputs, SW_HEAP_PROGRAMS, &net->cap_outputs,
                           r->trace->n_outputs + 1));
    for (uint32_t i = 0; i < r->trace->n_outputs; i++) {
        const uint32_t number = r->number[r->trace->outputs[i].value];
        if (number != SWI_NONE)
            net->outputs[net->n_outputs++] = number;
    }
    return SW_OK;
}

static sw_status read_trace(swi_net *net, const swi_trace *trace)
{
    reader r = {.trace = trace, .net = net};
    const size_t bytes = ((size_t)trace->n_values + 1) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&r.number, SW_HEAP_PROGRAMS, bytes));
    memset(r.number, 0xff, bytes); /* SWI_NONE */
    sw_status status = read_nodes(&r);
    if (status == SW_OK)
        status = read_outputs(&r);
    sw_heap_free(r.number, SW_HEAP_PROGRAMS, bytes);
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

/* The ties of each op, by the word of its line in ops.def (runtime/base/op_traits.h). An axis
 * of another length that an op does not mention cannot go through it. */

/* SW_UNSUPPORTED, by the op's name, where the axis is resized. */
static void walk_refuse(swi_walk *w, uint32_t k, int d, const char *what)
{
    if (w->status == SW_OK && swi_walk_is_resized(w, k, d))
        w->status = swi_axis_refuse(w->axes, swi_walk_axis_of(w, k, d), SW_UNSUPPORTED, what,
                                    swi_op(w->node->op)->name);
}

/* The axis's positions must stay: swi_axis_fix, with the op's name. */
static void walk_fix(swi_walk *w, uint32_t k, int d, const char *what)
{
    swi_walk_see(w, k, d);
    if (w->status == SW_OK && w->side == SWI_FROM && swi_walk_is_resized(w, k, d))
        w->status =
            swi_axis_fix(w->axes, swi_walk_axis_of(w, k, d), what, swi_op(w->node->op)->name);
}

/* Position from_a + i of the one and position from_b + i / inner % part of the other are one.
 */
static void walk_join(swi_walk *w, uint32_t a, int da, int64_t from_a, uint32_t b, int db,
                      int64_t from_b, int64_t n, int64_t inner, int64_t part)
{
    const uint32_t axis_a = swi_walk_axis_of(w, a, da), axis_b = swi_walk_axis_of(w, b, db);
    const uint32_t *at = w->axes->at[w->side];
    swi_walk_see(w, a, da);
    swi_walk_see(w, b, db);
    if (!w->positions)
        swi_axis_join(w->axes, axis_a, axis_b);
    for (int64_t i = 0; swi_walk_is_resized(w, a, da) && part > 0 && i < n; i++)
        swi_position_join(w->axes, w->side, at[axis_a] + (uint32_t)(from_a + i),
                          at[axis_b] + (uint32_t)(from_b + i / inner % part));
}

/* Position from_a + i of the one and position i of the other are one. */
static void walk_span(swi_walk *w, uint32_t a, int da, int64_t from_a, uint32_t b, int db,
                      int64_t n)
{
    walk_join(w, a, da, from_a, b, db, 0, n, 1, n);
}

static void walk_tie(swi_walk *w, uint32_t a, int da, uint32_t b, int db)
{
    if (da >= 0 && db >= 0 && da < swi_walk_shape_of(w, a)->rank &&
        db < swi_walk_shape_of(w, b)->rank &&
        swi_walk_shape_of(w, a)->dim[da] == swi_walk_shape_of(w, b)->dim[db])
        walk_span(w, a, da, 0, b, db, swi_walk_shape_of(w, a)->dim[da]);
}

/* The first n axes. */
static void walk_tie_front(swi_walk *w, uint32_t a, uint32_t b, int n)
{
    for (int d = 0; d < n; d++)
        walk_tie(w, a, d, b, d);
}

/* The whole axis k is a run of axes before `inner` elements: position p of it is that of
 * the run's axis (run, d). */
static void walk_block(swi_walk *w, uint32_t whole, int dw, uint32_t run, int d, int64_t inner)
{
    walk_join(w, whole, dw, 0, run, d, 0, swi_walk_shape_of(w, whole)->dim[dw], inner,
              swi_walk_shape_of(w, run)->dim[d]);
}

/* Ties of views and concatenations: axes that move, merge, and lie one after the other. */

/* Axes from..end of operand `run` are axis dw of `whole`: tie the one whose length changes. */
static void tie_run(swi_walk *w, uint32_t whole, int dw, uint32_t run, int from, int end)
{
    const uint32_t v = swi_walk_value_of(w, run);
    const sw_shape *one = &w->axes->net[SWI_FROM]->values[v].shape;
    const sw_shape *other = &w->axes->net[SWI_TO]->values[v].shape;
    int changes = -1, n = 0;
    for (int d = from; d < end; d++)
        if (one->dim[d] != other->dim[d]) {
            changes = d;
            n++;
        }
    if (end - from == 1) {
        changes = from;
        n = 1;
    }
    if (n != 1) /* none, or several: where one is resized all the same, it is not mentioned */
        return;
    int64_t inner = 1;
    for (int d = changes + 1; d < end; d++)
        inner *= swi_walk_shape_of(w, run)->dim[d];
    if (inner > 0)
        walk_block(w, whole, dw, run, changes, inner);
}

/* The shape of operand k in one of the nets. */
static const sw_shape *shape_in(const swi_walk *w, int side, uint32_t k)
{
    return &w->axes->net[side]->values[swi_walk_value_of(w, k)].shape;
}

/* Where the runs end that begin at axis i of the one and axis k of the other: they hold the
 * same elements in both nets, so that an axis of length 1 in one of them is not taken for
 * another. */
static void end_runs(const swi_walk *w, int *i, int *k)
{
    const sw_shape *a[2], *b[2];
    int64_t n_a[2], n_b[2];
    for (int s = 0; s < 2; s++) {
        a[s] = shape_in(w, s, 0), b[s] = shape_in(w, s, 1);
        n_a[s] = a[s]->dim[*i], n_b[s] = b[s]->dim[*k];
    }
    ++*i, ++*k;
    while (n_a[0] != n_b[0] || n_a[1] != n_b[1]) {
        const bool less = n_a[0] < n_b[0] || n_a[1] < n_b[1];
        const bool more = *i < a[0]->rank && (less || *k >= b[0]->rank);
        if (!more && *k >= b[0]->rank)
            return; /* of nets that differ in more than widths */
        for (int s = 0; s < 2; s++)
            if (more)
                n_a[s] *= a[s]->dim[*i];
            else
                n_b[s] *= b[s]->dim[*k];
        *i += more, *k += !more;
    }
}

/* Walk both shapes from the front; each run of axes holds the same elements. */
static void tie_reshape(swi_walk *w)
{
    const sw_shape *a = swi_walk_shape_of(w, 0), *b = swi_walk_shape_of(w, 1);
    int i = 0, k = 0;
    for (int s = 0; s < 2; s++)
        if (swi_elements(shape_in(w, s, 0)) == 0)
            return;
    while (i < a->rank && k < b->rank) {
        int i_end = i, k_end = k;
        end_runs(w, &i_end, &k_end);
        if (k_end == k + 1)
            tie_run(w, 1, k, 0, i, i_end);
        else if (i_end == i + 1)
            tie_run(w, 0, i, 1, k, k_end);
        i = i_end;
        k = k_end;
    }
}

static void tie_permute(swi_walk *w)
{
    const swi_permute_attrs *a = swi_walk_attrs_of(w);
    for (int d = 0; d < a->n; d++) {
        const int from = a->axis[d] < 0 ? a->axis[d] + a->n : a->axis[d];
        walk_tie(w, 1, d, 0, from);
    }
}

static void tie_slice(swi_walk *w)
{
    const swi_slice_attrs *a = swi_walk_attrs_of(w);
    const int rank = swi_walk_shape_of(w, 0)->rank;
    const int axis = (int)(a->axis < 0 ? a->axis + rank : a->axis);
    for (int d = 0; d < rank; d++)
        if (d != axis)
            walk_tie(w, 0, d, 1, d);
    walk_span(w, 0, axis, a->from, 1, axis, swi_walk_shape_of(w, 1)->dim[axis]);
}

/* By the words of op_traits.h, each file some of them. */
static void tie_concat(swi_walk *w)
{
    const uint32_t out = w->node->n_in;
    const int rank = swi_walk_shape_of(w, out)->rank;
    const int64_t given = ((const swi_concat_attrs *)swi_walk_attrs_of(w))->axis;
    const int axis = (int)(given < 0 ? given + rank : given);
    int64_t at = 0;
    for (uint32_t k = 0; k < out; k++) {
        const int64_t n = swi_walk_shape_of(w, k)->dim[axis];
        for (int d = 0; d < rank; d++)
            if (d != axis)
                walk_tie(w, k, d, out, d);
        walk_span(w, out, axis, at, k, axis, n);
        at += n;
    }
}

/* Ties of products, losses and attention: axes that are summed over, heads, and ends. */

/* The node that makes a value; NULL: none. */
static const swi_net_node *maker_of(const swi_net *net, uint32_t value)
{
    for (uint32_t i = 0; i < net->n_nodes; i++)
        for (uint32_t k = 0; k < net->nodes[i].n_out; k++)
            if (net->operands[net->nodes[i].first + net->nodes[i].n_in + k] == value)
                return &net->nodes[i];
    return NULL;
}

/* The axis of a tensor of a model that this one is, perhaps seen through permutations and
 * slices; SWI_NONE: of none. */
static uint32_t tensor_axis(const swi_net *net, uint32_t value, int d)
{
    while (net->values[value].source != SWI_OF_MODEL) {
        const swi_net_node *node = maker_of(net, value);
        const swi_op_axes word =
            node != NULL ? swi_op_traits_of(node->op)->axes : SWI_AXES_NONE;
        if (word != SWI_AXES_PERMUTE && word != SWI_AXES_SLICE)
            return SWI_NONE;
        const void *attrs = net->attrs + node->attrs;
        if (word == SWI_AXES_PERMUTE)
            d = ((const swi_permute_attrs *)attrs)->axis[d];
        value = net->operands[node->first];
        d = d < 0 ? d + net->values[value].shape.rank : d;
    }
    return value * SW_MAX_RANK + (uint32_t)d;
}

/* The op sums over this axis; true where its elements are those of a tensor, which can be zero
 * where a unit is new. */
static bool reads_by(swi_walk *w, uint32_t k, int d)
{
    swi_walk_see(w, k, d);
    if (!swi_walk_is_resized(w, k, d))
        return true;
    const uint32_t axis = tensor_axis(w->net, swi_walk_value_of(w, k), d);
    if (axis != SWI_NONE)
        w->axes->read[axis] = 1;
    return axis != SWI_NONE;
}

static void must_read_by(swi_walk *w, int d)
{
    if (!reads_by(w, 1, d))
        walk_refuse(w, 1, d, "is summed over by what is no tensor of the model, in");
}

/* ---- products -------------------------------------------------------------------------- */

/* in {x, weight, [bias]}: the last axis of x is summed over. */
static void tie_linear(swi_walk *w)
{
    const uint32_t out = w->node->n_in;
    walk_tie(w, 0, swi_walk_last_of(w, 0), 1, 1);
    must_read_by(w, 1);
    walk_tie_front(w, 0, out, swi_walk_last_of(w, 0));
    walk_tie(w, out, swi_walk_last_of(w, out), 1, 0);
    if (w->node->n_in > 2)
        walk_tie(w, 2, 0, 1, 0);
}

/* Does each channel have its own group, in both nets? One channel alone may be either. */
static bool is_depthwise(const swi_walk *w)
{
    int64_t groups[2];
    for (int s = 0; s < 2; s++) {
        groups[s] = ((const swi_conv_attrs *)swi_walk_attrs_on(w, s))->groups;
        if (groups[s] != w->axes->net[s]->values[swi_walk_value_of(w, 0)].shape.dim[1])
            return false;
    }
    return groups[SWI_FROM] > 1 || groups[SWI_TO] > 1;
}

/* Of a convolution, or of a transposed one, whose weight's first axis is `in` and whose
 * attributes begin with those of a convolution. */
static void tie_convs(swi_walk *w, bool transposed)
{
    const int64_t groups = ((const swi_conv_attrs *)swi_walk_attrs_of(w))->groups;
    const uint32_t out = w->node->n_in, first = transposed ? 0 : out, other = out - first;
    walk_tie(w, 0, 0, out, 0);
    walk_tie(w, first, 1, 1, 0);
    if (w->node->n_in > 2)
        walk_tie(w, 2, 0, transposed ? out : 1, transposed);
    if (is_depthwise(w)) {
        const int64_t each =
            swi_walk_shape_of(w, out)->dim[1] / groups; /* that a channel makes */
        if (each > 0)
            walk_block(w, out, 1, 0, 1, each);
    } else if (groups == 1) {
        walk_tie(w, other, 1, 1, 1);
        must_read_by(w, !transposed);
    }
}

static void tie_matmul(swi_walk *w)
{
    const int a = swi_walk_last_of(w, 0), b = swi_walk_last_of(w, 1),
              out = swi_walk_last_of(w, 2);
    walk_tie(w, 0, a - 1, 2, out - 1);
    walk_tie(w, 1, b, 2, out);
    walk_tie(w, 0, a, 1, b - 1);
    for (int d = 2; d <= out; d++) {
        walk_tie(w, 0, a - d, 2, out - d);
        walk_tie(w, 1, b - d, 2, out - d);
    }
    const bool left = reads_by(w, 0, a), right = reads_by(w, 1, b - 1);
    if (!left && !right)
        walk_refuse(w, 0, a, "is summed over by what is no tensor of the model, in");
}

/* A loss, or the numbers of rows: the axis's length has a meaning outside of the net. */
static void ends(swi_walk *w, uint32_t k)
{
    for (int d = 0; d < swi_walk_shape_of(w, k)->rank; d++)
        walk_fix(w, k, d, "reaches the loss");
}

/* All positions of a head are one unit; heads of another size compute something else. */
static void join_heads(swi_walk *w, uint32_t k, int parts, uint32_t to)
{
    const int64_t heads = ((const swi_attention_attrs *)swi_walk_attrs_of(w))->heads;
    const int64_t n = swi_walk_shape_of(w, k)->dim[2], part = n / parts, size = part / heads;
    const int64_t size_to = swi_walk_shape_of(w, to)->dim[2] / heads;
    swi_walk_see(w, k, 2);
    if (!w->positions) {
        swi_axis_join(w->axes, swi_walk_axis_of(w, k, 2), swi_walk_axis_of(w, to, 2));
        return;
    }
    for (int64_t p = 0; swi_walk_is_resized(w, k, 2) && size > 0 && p < n; p++)
        swi_position_join(w->axes, w->side,
                          w->axes->at[w->side][swi_walk_axis_of(w, k, 2)] + (uint32_t)p,
                          w->axes->at[w->side][swi_walk_axis_of(w, to, 2)] +
                              (uint32_t)(p % part / size * size_to));
}

static void tie_heads(swi_walk *w)
{
    const swi_attention_attrs *a = swi_walk_attrs_of(w);
    const uint32_t out = w->node->n_in;
    const uint32_t n_in = out - (uint32_t)(a->has_first + a->has_past); /* q, k and v */
    const int parts = n_in == 1 ? 3 : 1;
    const uint32_t v = swi_walk_value_of(w, 0);
    const int64_t from = w->axes->net[SWI_FROM]->values[v].shape.dim[2];
    const int64_t to = w->axes->net[SWI_TO]->values[v].shape.dim[2];
    const int64_t heads = ((const swi_attention_attrs *)swi_walk_attrs_on(w, SWI_FROM))->heads;
    const int64_t heads_to = ((const swi_attention_attrs *)swi_walk_attrs_on(w, SWI_TO))->heads;
    walk_tie_front(w, 0, out, 2);
    for (uint32_t k = 1; k < n_in; k++)
        walk_tie(w, k, 0, out, 0);
    if (a->has_first)
        walk_tie_front(w, n_in, out, 2);
    /* Heads that share one of k and v stay as they are. */
    if (from / heads != to / heads_to || (a->heads_kv != 0 && a->heads_kv != a->heads))
        return;
    for (uint32_t k = 0; k <= out; k++)
        if (k < n_in || k == out)
            join_heads(w, k, k < n_in ? parts : 1, out);
}

/* ---- the others -------------------------------------------------------------------------- */

static void tie_same(swi_walk *w)
{
    const uint32_t n_in = w->node->n_in, out = n_in;
    const uint32_t n = n_in + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++)
        for (int back = 0;
             k != out && back <= swi_walk_last_of(w, k) && back <= swi_walk_last_of(w, out);
             back++)
            walk_tie(w, k, swi_walk_last_of(w, k) - back, out, swi_walk_last_of(w, out) - back);
}

static void tie_halves(swi_walk *w)
{
    const int last = swi_walk_last_of(w, 0);
    if (w->node->n_in != 1) {
        tie_same(w);
        return;
    }
    walk_tie_front(w, 0, 1, last);
    const int64_t half = swi_walk_shape_of(w, 1)->dim[last];
    walk_span(w, 0, last, 0, 1, last, half);
    walk_span(w, 0, last, half, 1, last, half);
}

/* An axis of n hidden units, or of n gates for each in turn, a run for each gate. */
static void tie_gates(swi_walk *w)
{
    const uint32_t out = w->node->n_in, n = out + (uint32_t)swi_op(w->node->op)->n_out;
    for (uint32_t k = 0; k < n; k++) {
        const int last = swi_walk_last_of(w, k);
        if (k == out)
            continue;
        walk_tie_front(w, k, out, last);
        if (swi_walk_shape_of(w, k)->dim[last] == swi_walk_shape_of(w, out)->dim[last])
            walk_tie(w, k, last, out, last);
        else
            walk_block(w, k, last, out, last, 1);
    }
}

/* Extras have channels too: statistics that other ops read. */
static void tie_channels(swi_walk *w)
{
    const uint32_t n_in = w->node->n_in, n = n_in + w->node->n_out;
    const int channel = swi_walk_shape_of(w, 0)->rank > 1 ? 1 : 0;
    walk_tie_front(w, 0, n_in, swi_walk_shape_of(w, 0)->rank);
    for (uint32_t k = 1; k < n; k++)
        if (k != n_in)
            walk_tie(w, k, swi_walk_last_of(w, k), 0, channel);
}

static void tie_norm(swi_walk *w)
{
    const uint32_t out = w->node->n_in;
    walk_tie_front(w, 0, out, swi_walk_last_of(w, out) + 1);
    for (uint32_t k = 1; k < w->node->n_in; k++)
        walk_tie(w, k, 0, 0, swi_walk_last_of(w, 0));
    if (!swi_walk_is_resized(w, 0, swi_walk_last_of(w, 0)))
        return;
    if (!w->axes->approximate)
        walk_refuse(w, 0, swi_walk_last_of(w, 0),
                    "is normalised over, so that other widths change what the net computes "
                    "(see sw_resize_opts.approximate), by");
    w->axes->exact = false;
}

static void tie_reduce(swi_walk *w)
{
    const swi_sum_attrs *a = swi_walk_attrs_of(w);
    const int rank = swi_walk_shape_of(w, 0)->rank;
    int to = 0;
    for (int d = 0; d < rank; d++) {
        const bool gone = a->axes == 0 || (a->axes >> d & 1u) != 0;
        if (!gone)
            walk_tie(w, 0, d, 1, to);
        to += !gone || a->keep;
    }
}

/* All positions before one along the axis are in its sum. */
static void tie_along(swi_walk *w)
{
    const int64_t along = ((const swi_line_attrs *)swi_walk_attrs_of(w))->axis;
    for (int d = 0; d < swi_walk_shape_of(w, 0)->rank; d++)
        if (d != along)
            walk_tie(w, 0, d, 1, d);
}

/* ---- one op, all ops --------------------------------------------------------------------- */

static void tie_node(swi_walk *w)
{
    switch (swi_op_traits_of(w->node->op)->axes) {
    case SWI_AXES_NONE:
        break;
    case SWI_AXES_FREE:
        for (int d = 0; d <= swi_walk_last_of(w, w->node->n_in); d++)
            swi_walk_see(w, w->node->n_in, d);
        break;
    case SWI_AXES_MOVES:
    case SWI_AXES_SAME:
        tie_same(w);
        break;
    case SWI_AXES_HALVES:
        tie_halves(w);
        break;
    case SWI_AXES_GATES:
        tie_gates(w);
        break;
    case SWI_AXES_RESHAPE:
        tie_reshape(w);
        break;
    case SWI_AXES_PERMUTE:
        tie_permute(w);
        break;
    case SWI_AXES_SLICE:
        tie_slice(w);
        break;
    case SWI_AXES_CONCAT:
        tie_concat(w);
        break;
    case SWI_AXES_LINEAR:
        tie_linear(w);
        break;
    case SWI_AXES_CONV:
        tie_convs(w, false);
        break;
    case SWI_AXES_CONV_TRANSPOSE:
        tie_convs(w, true);
        break;
    case SWI_AXES_MATMUL:
        tie_matmul(w);
        break;
    case SWI_AXES_IMAGE:
        walk_tie_front(w, 0, w->node->n_in, 2);
        break;
    case SWI_AXES_CHANNELS:
        tie_channels(w);
        break;
    case SWI_AXES_NORM:
        tie_norm(w);
        break;
    case SWI_AXES_ROWS:
        walk_tie_front(w, 0, w->node->n_in, swi_walk_last_of(w, 0));
        break;
    case SWI_AXES_ALONG:
        tie_along(w);
        break;
    case SWI_AXES_REDUCE:
        tie_reduce(w);
        break;
    case SWI_AXES_LOOKUP:
        walk_tie_front(w, 0, 2, swi_walk_shape_of(w, 0)->rank);
        walk_tie(w, 1, 1, 2, swi_walk_last_of(w, 2));
        walk_fix(w, 1, 0, "is counted by an input of");
        break;
    case SWI_AXES_HEADS:
        tie_heads(w);
        break;
    case SWI_AXES_LINEAR_LOSS:
        walk_tie(w, 0, 1, 1, 1);
        must_read_by(w, 1);
        walk_fix(w, 0, 0, "reaches the loss");
        walk_fix(w, 1, 0, "reaches the loss");
        for (uint32_t k = 2; k < w->node->n_in; k++)
            ends(w, k);
        break;
    case SWI_AXES_LOSS:
        for (uint32_t k = 0; k < w->node->n_in; k++)
            ends(w, k);
        break;
    }
}

sw_status swi_axes_tie(swi_axes *axes, int side, bool positions)
{
    swi_walk w = {.axes = axes, .side = side, .positions = positions, .net = axes->net[side]};
    for (uint32_t i = 0; i < w.net->n_nodes && w.status == SW_OK; i++) {
        w.node = &w.net->nodes[i];
        memset(w.seen, 0, sizeof w.seen);
        tie_node(&w);
        if (positions) {
            /* Refuse what was not mentioned. */
            const uint32_t n = w.node->n_in + (uint32_t)swi_op(w.node->op)->n_out;
            for (uint32_t k = 0; k < n; k++)
                for (int d = 0; d < swi_walk_shape_of(&w, k)->rank; d++)
                    if ((w.seen[k] >> d & 1u) == 0)
                        walk_refuse(&w, k, d, "goes through an op that does not tie it,");
        }
    }
    return w.status;
}
