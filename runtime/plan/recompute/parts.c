/* The numbers of parts that a budget may choose from, for ops that go through their rows in
 * parts: what each costs, and what it leaves of a schedule's peak. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/plan/recompute/pass.h"
#include <string.h>

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

static sw_status take(swi_rc_parts *out, const swi_trace *t, const swi_order *order,
                      int64_t fewest, int64_t most)
{
    void *block;
    for (int64_t parts = fewest; parts <= most; parts = next_parts(parts, most))
        out->n++;
    for (uint32_t i = 0; i < order->n; i++)
        out->n_ops += is_in_parts(t, &t->nodes[order->nodes[i]]);
    out->bytes = (size_t)out->n * (sizeof *out->choices + out->n_ops * sizeof *out->scratch) +
                 out->n_ops * sizeof *out->ops + order->n * sizeof *out->during;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, out->bytes));
    out->choices = block;
    out->during = (size_t *)(void *)(out->choices + out->n);
    out->scratch = out->during + order->n;
    out->ops = (uint32_t *)(void *)(out->scratch + (size_t)out->n * out->n_ops);
    uint32_t n = 0;
    for (uint32_t i = 0; i < order->n; i++)
        if (is_in_parts(t, &t->nodes[order->nodes[i]]))
            out->ops[n++] = i;
    SW_ASSERT(n == out->n_ops && out->n > 0);
    return SW_OK;
}

/* Look at what the ops take with choice c, which `t` has now. */
static void look(swi_rc_parts *out, uint32_t c, const swi_trace *t, const swi_order *order)
{
    for (uint32_t k = 0; k < out->n_ops; k++) {
        const swi_node *node = &t->nodes[order->nodes[out->ops[k]]];
        out->scratch[c * out->n_ops + k] = t->storages[node->scratch].rounded;
        out->choices[c].cost += swi_node_cost(t, node);
    }
}

sw_status swi_rc_parts_of(swi_rc_parts *out, swi_trace *t, const swi_order *order,
                          const sw_exec *exec, int64_t fewest, int64_t most)
{
    *out = (swi_rc_parts){0};
    SW_TRY(take(out, t, order, fewest, most));
    uint32_t c = 0;
    for (int64_t parts = fewest; parts <= most; parts = next_parts(parts, most), c++) {
        out->choices[c].parts = parts;
        SW_TRY(swi_chunk(t, exec, parts, &out->choices[c].rows));
        look(out, c, t, order);
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
