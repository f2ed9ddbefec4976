/* From a trace to the problem: which storages can be recomputed, and what else lives. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/pass.h"
#include <string.h>

/* While a problem is made. */
typedef struct {
    const uint32_t *order;
    uint32_t n;
    swi_trace t;           /* a copy, with lifetimes */
    uint32_t *writers;     /* by storage: how many ops write it */
    uint32_t *item_of;     /* by storage; SWI_NONE: fixed */
    uint32_t *overwritten; /* by storage: the next op that writes it, going backward */
    uint32_t *position;    /* by node: where it runs */
    swi_rc_op *ops;
    swi_rc_item *items;
    uint32_t *reads, *makes;
    size_t *during, *between;
    uint32_t *backward_of;
    uint32_t n_items, n_reads, n_makes;
} maker;

static const swi_node *node_at(const maker *m, uint32_t i)
{
    return &m->t.nodes[m->order[i]];
}

static uint32_t storage_of(const maker *m, const swi_node *node, uint32_t k)
{
    return m->t.values[m->t.operands[node->first + k]].storage;
}

static bool in_step(const maker *m, uint32_t s)
{
    return m->t.storages[s].segment == SWI_SEG_STEP;
}

/* Running it a second time gives the same bytes and changes nothing else, and all it reads from
 * the step arena can be recomputed too, or lives to the end of the run. */
static bool repeats(const maker *m, const swi_node *node)
{
    uint32_t made = 0;
    if (node->grad >= 0 || node->is_backward || node->is_update || node->writes_model ||
        node->accumulate != 0)
        return false;
    for (uint32_t k = 0; k < node->n_in; k++) {
        const uint32_t s = storage_of(m, node, k);
        const bool stays = m->t.storages[s].pinned && m->writers[s] == 1;
        if (in_step(m, s) && m->item_of[s] == SWI_NONE && !stays)
            return false;
    }
    for (uint32_t k = 0; k < node->n_out; k++) {
        const uint32_t s = storage_of(m, node, node->n_in + k);
        if (!in_step(m, s) || m->t.storages[s].pinned || m->writers[s] != 1)
            return false;
        made += m->t.storages[s].birth != SWI_NONE && m->t.storages[s].rounded > 0;
    }
    return made > 0;
}

/* The items that op reads and that its first result may overwrite, if they end there. */
static void add_places(const maker *m, const swi_node *node, swi_rc_op *op)
{
    const uint32_t mask = swi_inplace_mask(node);
    for (uint32_t k = 0; k < node->n_in && k < 32; k++)
        for (uint32_t r = 0; r < op->n_reads && r < 32; r++)
            if ((mask >> k & 1u) != 0 &&
                m->reads[op->reads + r] == m->item_of[storage_of(m, node, k)] &&
                swi_suits(&m->t, node, k))
                op->inplace |= 1u << r;
}

/* The items of an op that may run again. */
static void add_makes(maker *m, const swi_node *node, uint32_t i, swi_rc_op *op)
{
    op->makes = m->n_makes;
    for (uint32_t k = 0; k < node->n_out; k++) {
        const uint32_t s = storage_of(m, node, node->n_in + k);
        if (m->t.storages[s].birth == SWI_NONE || m->t.storages[s].rounded == 0 ||
            m->item_of[s] != SWI_NONE)
            continue;
        m->item_of[s] = m->n_items;
        m->items[m->n_items] = (swi_rc_item){m->t.storages[s].rounded, i};
        m->makes[m->n_makes++] = m->n_items++;
    }
    op->n_makes = m->n_makes - op->makes;
    op->scratch = node->scratch != SWI_NONE ? m->t.storages[node->scratch].rounded : 0;
    if (op->n_makes > 0 && node->n_out > 0 &&
        m->item_of[storage_of(m, node, node->n_in)] == m->makes[op->makes])
        add_places(m, node, op);
}

/* The forward op that op i makes a gradient of; i itself: none. Views do not run: what belongs
 * to one goes with the op before it. */
static uint32_t gradient_of(const maker *m, uint32_t i)
{
    uint32_t of = node_at(m, i)->gradient_of;
    while (of > 0 && m->t.nodes[of - 1].is_view)
        of--;
    return of > 0 && m->position[of - 1] < i ? m->position[of - 1] : i;
}

static void find_items(maker *m)
{
    bool backward = false;
    /* The first op after each that writes what it reads of a model. */
    for (uint32_t s = 0; s < m->t.n_storages; s++)
        m->overwritten[s] = m->n;
    for (uint32_t i = m->n; i-- > 0;) {
        const swi_node *node = node_at(m, i);
        m->ops[i].until = m->n;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (m->overwritten[storage_of(m, node, k)] < m->ops[i].until)
                m->ops[i].until = m->overwritten[storage_of(m, node, k)];
        for (uint32_t k = 0; node->writes_model && k < node->n_out; k++)
            m->overwritten[storage_of(m, node, node->n_in + k)] = i;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const swi_node *node = node_at(m, i);
        swi_rc_op *op = &m->ops[i];
        backward |= node->is_backward != 0;
        op->cost = swi_node_cost(&m->t, node);
        const uint32_t unread = swi_unread(&m->t, node);
        op->reads = m->n_reads;
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t item = m->item_of[storage_of(m, node, k)];
            bool known = item == SWI_NONE || !swi_reads(unread, k);
            for (uint32_t r = op->reads; r < m->n_reads && !known; r++)
                known = m->reads[r] == item;
            if (!known)
                m->reads[m->n_reads++] = item;
        }
        op->n_reads = m->n_reads - op->reads;
        if (!backward && repeats(m, node))
            add_makes(m, node, i, op);
        if (op->n_makes == 0)
            op->until = 0;
        m->backward_of[i] = backward ? gradient_of(m, i) : UINT32_MAX;
    }
}

static bool is_fixed(const maker *m, uint32_t s)
{
    return in_step(m, s) && m->t.storages[s].birth != SWI_NONE && m->item_of[s] == SWI_NONE;
}

/* Does op i make a fixed result that may lie where something ends? */
static bool may_take(const maker *m, const swi_node *node, uint32_t i)
{
    if (swi_inplace_mask(node) == 0)
        return false;
    const uint32_t to = storage_of(m, node, node->n_in);
    return is_fixed(m, to) && m->t.storages[to].birth == i;
}

/* A fixed result that may overwrite another fixed storage is not counted twice there.
 * Placement may put it into the bytes of an item instead, but the sum is the same. */
static size_t taken_place(const maker *m, const swi_node *node, uint32_t i)
{
    const uint32_t mask = swi_inplace_mask(node);
    for (uint32_t k = 0; k < node->n_in && k < 32; k++) {
        const uint32_t from = storage_of(m, node, k);
        const swi_storage *x = &m->t.storages[from];
        if ((mask >> k & 1u) != 0 && is_fixed(m, from) && x->death == i && x->birth != i &&
            !x->pinned && swi_suits(&m->t, node, k))
            return x->rounded;
    }
    return 0;
}

/* Bytes that come and go, summed up below. */
static void live_from(const maker *m, size_t *change, uint32_t from, const swi_storage *x)
{
    if (from < m->n)
        change[from] += x->rounded;
    if (x->death + 1 < m->n)
        change[x->death + 1] -= x->rounded;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* One block: what stays with the problem, then what only its making needs. */
static sw_status take(maker *m, swi_rc_trace_problem *out)
{
    const swi_trace *t = &m->t;
    const size_t n = m->n, storages = t->n_storages, operands = t->n_operands;
    size_t sum = 0;
    const size_t ops = sw_size_part(&sum, n * sizeof(swi_rc_op));
    const size_t items = sw_size_part(&sum, storages * sizeof(swi_rc_item));
    const size_t reads = sw_size_part(&sum, operands * sizeof(uint32_t));
    const size_t makes = sw_size_part(&sum, operands * sizeof(uint32_t));
    const size_t during = sw_size_part(&sum, n * sizeof(size_t));
    const size_t between = sw_size_part(&sum, n * sizeof(size_t));
    const size_t backward = sw_size_part(&sum, n * sizeof(uint32_t));
    const size_t writers = sw_size_part(&sum, storages * sizeof(uint32_t));
    const size_t item_of = sw_size_part(&sum, storages * sizeof(uint32_t));
    const size_t overwritten = sw_size_part(&sum, storages * sizeof(uint32_t));
    const size_t position = sw_size_part(&sum, t->n_nodes * sizeof(uint32_t));
    const size_t read = sw_size_part(&sum, t->n_values);
    SW_TRY(sw_heap_alloc(&out->block, SW_HEAP_PROGRAMS, sum));
    out->bytes = sum;
    unsigned char *b = out->block;
    m->ops = (swi_rc_op *)(void *)(b + ops);
    m->items = (swi_rc_item *)(void *)(b + items);
    m->reads = (uint32_t *)(void *)(b + reads);
    m->makes = (uint32_t *)(void *)(b + makes);
    m->during = (size_t *)(void *)(b + during);
    m->between = (size_t *)(void *)(b + between);
    m->backward_of = (uint32_t *)(void *)(b + backward);
    m->writers = (uint32_t *)(void *)(b + writers);
    m->item_of = (uint32_t *)(void *)(b + item_of);
    m->overwritten = (uint32_t *)(void *)(b + overwritten);
    m->position = (uint32_t *)(void *)(b + position);
    memset(m->item_of, 0xff, storages * sizeof *m->item_of);
    swi_lifetimes(&m->t, m->order, m->n, (bool *)(void *)(b + read));
    return SW_OK;
}

sw_status swi_rc_problem_of(swi_rc_trace_problem *out, const swi_trace *trace,
                            const uint32_t *order, uint32_t n_ops, bool inplace)
{
    maker m = {.order = order, .n = n_ops};
    *out = (swi_rc_trace_problem){0};
    sw_status status = swi_trace_copy(&m.t, trace);
    if (status == SW_OK)
        status = take(&m, out);
    if (status == SW_OK) {
        for (uint32_t i = 0; i < m.n; i++) {
            const swi_node *node = node_at(&m, i);
            m.position[m.order[i]] = i;
            for (uint32_t k = 0; k < node->n_out; k++)
                m.writers[storage_of(&m, node, node->n_in + k)]++;
        }
        find_items(&m);
        for (uint32_t i = 0; i < n_ops && !inplace; i++)
            m.ops[i].inplace = 0;
        for (uint32_t s = 0; s < m.t.n_storages; s++) {
            if (!is_fixed(&m, s))
                continue;
            const swi_storage *x = &m.t.storages[s];
            live_from(&m, m.during, x->birth, x);
            live_from(&m, m.between, x->birth + 1, x);
        }
        for (uint32_t j = 1; j < m.n; j++) {
            m.during[j] += m.during[j - 1];
            m.between[j] += m.between[j - 1];
        }
        for (uint32_t j = 0; inplace && j < m.n; j++) {
            const swi_node *node = node_at(&m, j);
            if (!may_take(&m, node, j))
                continue;
            const size_t taken = taken_place(&m, node, j);
            SW_ASSERT(taken <= m.during[j]);
            m.during[j] -= taken;
            if (taken == 0) /* then where an item ends, if one does */
                add_places(&m, node, &m.ops[j]);
        }
        SW_ASSERT(m.n_items <= m.t.n_storages);
        out->p = (swi_rc_problem){m.ops,   n_ops,   m.items,  m.n_items,
                                  m.reads, m.makes, m.during, m.between};
        out->backward_of = m.backward_of;
    }
    swi_trace_free(&m.t);
    return status;
}

void swi_rc_problem_free(swi_rc_trace_problem *problem)
{
    sw_heap_free(problem->block, SW_HEAP_PROGRAMS, problem->bytes);
    *problem = (swi_rc_trace_problem){0};
}

/* ---- parts ------------------------------------------------------------------------------- */

/* The numbers of parts that a budget may choose from, for ops that go through their rows in
 * parts: what each costs, and what it leaves of a schedule's peak. */

/* Every number up to 16, then steps of a sixteenth; the last is `most`. */
static int64_t next_parts(int64_t parts, int64_t most)
{
    const int64_t next = parts + 1 + parts / 16;
    return parts < most && next > most ? most : next;
}

static bool is_in_parts(const swi_trace *t, const swi_node *node)
{
    return swi_op_traits_of(node->op)->duty == SWI_DUTY_PARTS && node->grad < 0 &&
           node->scratch != SWI_NONE && t->storages[node->scratch].rounded > 0;
}

sw_status swi_rc_parts_of(swi_rc_parts *out, swi_trace *t, const swi_order *order,
                          const sw_exec *exec, int64_t fewest, int64_t most)
{
    *out = (swi_rc_parts){0};
    for (int64_t parts = fewest; parts <= most; parts = next_parts(parts, most))
        out->n++;
    for (uint32_t i = 0; i < order->n; i++)
        out->n_ops += is_in_parts(t, &t->nodes[order->nodes[i]]);
    out->bytes = (size_t)out->n * (sizeof *out->choices + out->n_ops * sizeof *out->scratch) +
                 out->n_ops * sizeof *out->ops + order->n * sizeof *out->during;
    SW_TRY(sw_heap_alloc(&out->choices, SW_HEAP_PROGRAMS, out->bytes));
    out->during = (size_t *)(void *)(out->choices + out->n);
    out->scratch = out->during + order->n;
    out->ops = (uint32_t *)(void *)(out->scratch + (size_t)out->n * out->n_ops);
    uint32_t n = 0;
    for (uint32_t i = 0; i < order->n; i++)
        if (is_in_parts(t, &t->nodes[order->nodes[i]]))
            out->ops[n++] = i;
    SW_ASSERT(n == out->n_ops && out->n > 0);

    uint32_t c = 0;
    for (int64_t parts = fewest; parts <= most; parts = next_parts(parts, most), c++) {
        out->choices[c].parts = parts;
        SW_TRY(swi_chunk(t, exec, parts, &out->choices[c].rows));
        /* Look at what the ops take with choice c, which `t` has now. */
        for (uint32_t k = 0; k < out->n_ops; k++) {
            const swi_node *node = &t->nodes[order->nodes[out->ops[k]]];
            out->scratch[c * out->n_ops + k] = t->storages[node->scratch].rounded;
            out->choices[c].cost += swi_node_cost(t, node);
        }
    }
    SW_ASSERT(c == out->n);
    for (c = out->n; c-- > 0;)
        out->choices[c].cost -= out->choices[0].cost;
    return SW_OK;
}

void swi_rc_parts_free(swi_rc_parts *parts)
{
    sw_heap_free(parts->choices, SW_HEAP_PROGRAMS, parts->bytes);
    *parts = (swi_rc_parts){0};
}

/* The peak of a schedule with choice c, where `p` has the bytes of the last. */
static sw_status peak_with(const swi_rc_parts *parts, const swi_rc_problem *p,
                           const swi_rc_schedule *s, uint32_t c, size_t *peak)
{
    const size_t *now = parts->scratch + c * parts->n_ops;
    const size_t *last = parts->scratch + (parts->n - 1) * parts->n_ops;
    swi_rc_problem with = *p;
    swi_rc_schedule followed = *s;
    memcpy(parts->during, p->during, p->n_ops * sizeof *parts->during);
    for (uint32_t k = 0; k < parts->n_ops; k++) {
        SW_ASSERT(parts->during[parts->ops[k]] >= last[k]); /* which is in it */
        parts->during[parts->ops[k]] += now[k] - last[k];
    }
    with.during = parts->during;
    SW_TRY(swi_rc_follow(&with, &followed));
    *peak = followed.peak;
    return SW_OK;
}

sw_status swi_rc_parts_fitting(const swi_rc_parts *parts, const swi_rc_problem *p,
                               const swi_rc_schedule *s, size_t limit, uint32_t *out)
{
    uint32_t low = 0, high = parts->n - 1; /* the last has the schedule's own peak */
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        size_t peak;
        SW_TRY(peak_with(parts, p, s, middle, &peak));
        if (peak <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    *out = low;
    return SW_OK;
}
