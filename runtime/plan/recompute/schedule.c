/* Following a schedule: what lives at each of its steps, and what its repeats cost. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/plan/recompute/recompute.h"
#include <stdint.h>
#include <string.h>

#define NOT_YET UINT32_MAX

/* One run of a maker is one instance of each of its items; `last` is the step of its last read,
 * or of its making. */
typedef struct {
    uint32_t *now;  /* by item: its instance, NOT_YET before it is made */
    uint32_t *last; /* by instance */
    void *block;
    size_t bytes;
} instances;

static sw_status instances_take(instances *in, const swi_rc_problem *p,
                                const swi_rc_schedule *s)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        if (s->steps[i] >= p->n_ops)
            SW_FAIL(SW_INVALID, "schedule: step %u is op %u of %u", i, s->steps[i], p->n_ops);
        n += p->ops[s->steps[i]].n_makes;
    }
    in->bytes = (p->n_items + n) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&in->block, SW_HEAP_PROGRAMS, in->bytes));
    in->now = in->block;
    in->last = in->now + p->n_items;
    return SW_OK;
}

/* Is this step a repeat? Names what cannot be. */
static sw_status classify(const swi_rc_problem *p, uint32_t step, uint32_t op, uint32_t first,
                          bool *repeat)
{
    *repeat = op < first;
    if (op > first)
        SW_FAIL(SW_INVALID, "schedule: step %u is op %u before op %u", step, op, first);
    if (*repeat && (first >= p->n_ops || first > p->ops[op].until))
        SW_FAIL(SW_INVALID, "schedule: step %u repeats op %u before op %u: not after op %u",
                step, op, first, p->ops[op].until);
    return SW_OK;
}

/* Which steps read which instances; whether the steps can be at all. */
static sw_status find_reads(instances *in, const swi_rc_problem *p, swi_rc_schedule *s)
{
    uint32_t first = 0, made = 0;
    s->cost = 0;
    s->repeats = 0;
    memset(in->now, 0xff, p->n_items * sizeof *in->now);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        bool repeat;
        SW_TRY(classify(p, i, s->steps[i], first, &repeat));
        for (uint32_t k = 0; k < op->n_reads; k++) {
            const uint32_t item = p->reads[op->reads + k];
            if (in->now[item] == NOT_YET)
                SW_FAIL(SW_INVALID, "schedule: step %u, op %u, reads item %u before it is made",
                        i, s->steps[i], item);
            in->last[in->now[item]] = i;
        }
        for (uint32_t k = 0; k < op->n_makes; k++) {
            in->now[p->makes[op->makes + k]] = made;
            in->last[made++] = i;
        }
        if (repeat) {
            s->cost += op->cost;
            s->repeats++;
        } else {
            first++;
        }
    }
    if (first != p->n_ops)
        SW_FAIL(SW_INVALID, "schedule: op %u of %u never runs", first, p->n_ops);
    return SW_OK;
}

/* Bytes that a result need not add, since it lies where a read lay that ends here. */
static size_t in_place(const instances *in, const swi_rc_problem *p, const swi_rc_op *op,
                       uint32_t step)
{
    for (uint32_t k = 0; k < op->n_reads && k < 32; k++) {
        const uint32_t item = p->reads[op->reads + k];
        if ((op->inplace >> k & 1u) != 0 && in->last[in->now[item]] == step)
            return p->items[item].bytes;
    }
    return 0;
}

static void find_peak(instances *in, const swi_rc_problem *p, swi_rc_schedule *s)
{
    uint32_t first = 0, made = 0;
    size_t live = 0;
    s->peak = 0;
    s->peak_step = 0;
    memset(in->now, 0xff, p->n_items * sizeof *in->now);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        const bool repeat = s->steps[i] < first;
        SW_ASSERT(in_place(in, p, op, i) <= live);
        size_t at = live - in_place(in, p, op, i) +
                    (repeat ? p->between[first] + op->scratch : p->during[first]);
        for (uint32_t k = 0; k < op->n_makes; k++)
            at += p->items[p->makes[op->makes + k]].bytes;
        if (at > s->peak) {
            s->peak = at;
            s->peak_step = i;
        }
        for (uint32_t k = 0; k < op->n_reads; k++) {
            const uint32_t item = p->reads[op->reads + k];
            if (in->last[in->now[item]] != i)
                continue;
            SW_ASSERT(live >= p->items[item].bytes);
            live -= p->items[item].bytes;
        }
        for (uint32_t k = 0; k < op->n_makes; k++) {
            const uint32_t item = p->makes[op->makes + k];
            in->now[item] = made;
            if (in->last[made++] > i)
                live += p->items[item].bytes;
        }
        first += !repeat;
    }
    SW_ASSERT(live == 0 && first + s->repeats == s->n_steps);
}

sw_status swi_rc_follow(const swi_rc_problem *p, swi_rc_schedule *s)
{
    instances in;
    SW_TRY(instances_take(&in, p, s));
    const sw_status status = find_reads(&in, p, s);
    if (status == SW_OK)
        find_peak(&in, p, s);
    sw_heap_free(in.block, SW_HEAP_PROGRAMS, in.bytes);
    return status;
}

/* ---- lists of steps ---------------------------------------------------------------------- */

sw_status swi_rc_append(swi_rc_schedule *s, uint32_t op)
{
    void *p = s->steps;
    SW_TRY(
        sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &s->cap_steps, s->n_steps + 1, sizeof *s->steps));
    s->steps = p;
    s->steps[s->n_steps++] = op;
    return SW_OK;
}

sw_status swi_rc_copy(swi_rc_schedule *to, const swi_rc_schedule *from)
{
    void *steps;
    SW_TRY(sw_heap_alloc(&steps, SW_HEAP_PROGRAMS, from->n_steps * sizeof *from->steps));
    *to = *from;
    to->steps = steps;
    to->cap_steps = from->n_steps;
    if (from->n_steps > 0)
        memcpy(to->steps, from->steps, from->n_steps * sizeof *from->steps);
    return SW_OK;
}

void swi_rc_free(swi_rc_schedule *s)
{
    sw_heap_free(s->steps, SW_HEAP_PROGRAMS, s->cap_steps * sizeof *s->steps);
    *s = (swi_rc_schedule){0};
}
