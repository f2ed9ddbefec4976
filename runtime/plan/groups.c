/* Groups of launches: ops of one kind that follow one another go out as one launch where the
 * device's entry can take several (sw_cuda_group). Their operands live from the first to the
 * last of them. The gather pass makes neighbours of them: a check or an update that was
 * released waits for the next ones. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/base/op_traits.h"
#include "runtime/device/device.h"
#include "runtime/ops/ops.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

enum { GROUP_MOST = 256 }; /* ops of a group: each is compared with all before it */

/* Of copies those into a model alone. */
static bool can_group(const swi_node *node)
{
    const sw_cuda_entry *entry =
        node->on_device != NULL ? swi_device_entry(node->op, node->grad) : NULL;
    return entry != NULL && entry->groups != 0 && entry->kernel == node->on_device &&
           node->scratch == SWI_NONE &&
           (node->writes_model || swi_op_traits_of(node->op)->halves != SWI_HALVES_MOVES);
}

/* Ops of one kind have one number: an op with states in 8 bits has another table. */
static uint32_t kind_of(const swi_trace *t, const swi_node *node)
{
    const bool in8 =
        node->n_out > 1 && swi_operand(t, node, node->n_in + 1u)->type.dtype == SW_U8;
    return 2 * node->op + in8;
}

uint32_t swi_group_end(const swi_trace *t, const uint32_t *order, uint32_t n, uint32_t at)
{
    const swi_node *first = &t->nodes[order[at]];
    uint32_t end = at + 1;
    for (; end < n && end - at < GROUP_MOST && can_group(first); end++) {
        const swi_node *node = &t->nodes[order[end]];
        if (kind_of(t, node) != kind_of(t, first) || node->phase != first->phase ||
            !can_group(node))
            break;
        for (uint32_t i = at; i < end; i++)
            if (!swi_are_apart(t, &t->nodes[order[i]], node))
                return end;
    }
    return end;
}

/* ---- gathering --------------------------------------------------------------------------- */

/* The ops that wait, and the storages that they touch. */
typedef struct {
    uint32_t n, *nodes;
    uint64_t *place;          /* level and kind: an op comes after all of a lower level */
    uint32_t *read, *written; /* of each storage: the level of those that do; 0: none */
    size_t held;              /* bytes that live for it alone */
} waiting;

static uint32_t storage_of(const swi_trace *t, const swi_node *node, uint32_t operand)
{
    return swi_operand(t, node, operand)->storage;
}

/* The highest level of those that must run before this node. */
static uint32_t level_before(const swi_trace *t, const waiting *w, const swi_node *node)
{
    uint32_t level = 0;
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        const uint32_t s = storage_of(t, node, i);
        level = w->written[s] > level ? w->written[s] : level;
        if (i >= node->n_in)
            level = w->read[s] > level ? w->read[s] : level;
    }
    return level;
}

static void wait_for(const swi_trace *t, waiting *w, uint32_t at)
{
    const swi_node *node = &t->nodes[at];
    const uint32_t level = level_before(t, w, node) + 1;
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t *of = i < node->n_in ? w->read : w->written;
        const uint32_t s = storage_of(t, node, i);
        of[s] = of[s] > level ? of[s] : level;
    }
    w->nodes[w->n] = at;
    w->place[w->n++] = (uint64_t)level << 32 | kind_of(t, node);
}

/* Let all run: by level, and each kind by itself. */
static void let_run(const swi_trace *t, waiting *w, uint32_t *to, uint32_t *n)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t node = w->nodes[i];
        const uint64_t place = w->place[i];
        uint32_t k = i;
        for (; k > 0 && w->place[k - 1] > place; k--) {
            w->nodes[k] = w->nodes[k - 1];
            w->place[k] = w->place[k - 1];
        }
        w->nodes[k] = node;
        w->place[k] = place;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        const swi_node *node = &t->nodes[w->nodes[i]];
        to[(*n)++] = w->nodes[i];
        for (uint32_t k = 0; k < node->n_in + node->n_out; k++)
            w->read[storage_of(t, node, k)] = w->written[storage_of(t, node, k)] = 0;
    }
    w->n = 0;
    w->held = 0;
}

/* Does the node wait? Those that can go out together, and what only joins their results. */
static bool may_wait(const swi_trace *t, const waiting *w, const swi_node *node)
{
    const swi_op_duty duty = swi_op_traits_of(node->op)->duty;
    return can_group(node) ||
           ((duty == SWI_DUTY_JOIN || duty == SWI_DUTY_TICK) && level_before(t, w, node) > 0);
}

/* live: bytes at each op. Storages have the lifetimes of the order as it was. */
static void gather(const swi_trace *t, const uint32_t *order, uint32_t n, const size_t *live,
                   size_t most, waiting *w, uint32_t *to)
{
    uint32_t made = 0;
    for (uint32_t at = 0; at < n; at++) {
        const swi_node *node = &t->nodes[order[at]];
        const bool waits = may_wait(t, w, node);
        if (w->n > 0 &&
            (live[at] + w->held > most || t->nodes[w->nodes[0]].phase != node->phase ||
             (!waits && level_before(t, w, node) > 0)))
            let_run(t, w, to, &made);
        if (waits)
            wait_for(t, w, order[at]);
        else
            to[made++] = order[at];
        for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
            const uint32_t s = storage_of(t, node, i);
            bool before = false; /* an operand twice */
            for (uint32_t k = 0; k < i; k++)
                before |= storage_of(t, node, k) == s;
            if (!before && t->storages[s].segment == SWI_SEG_STEP &&
                t->storages[s].death == at && (w->read[s] > 0 || w->written[s] > 0))
                w->held += t->storages[s].rounded;
        }
    }
    let_run(t, w, to, &made);
}

/* Lifetimes are left as they were: none. */
static void live_bytes(swi_trace *t, const swi_order *order, bool *read, size_t *live)
{
    swi_lifetimes(t, order->nodes, order->n, read);
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        if (x->segment != SWI_SEG_STEP || x->birth == SWI_NONE)
            continue;
        live[x->birth] += x->rounded;
        if (x->death + 1 < order->n)
            live[x->death + 1] -= x->rounded; /* sums may wrap on the way */
    }
    for (uint32_t at = 1; at < order->n; at++)
        live[at] += live[at - 1];
}

sw_status swi_pass_gather(swi_trace *t, swi_order *order, size_t most)
{
    const size_t n = order->n, s = t->n_storages;
    const size_t bytes = n * (sizeof(size_t) + sizeof(uint64_t)) +
                         (2 * n + 2 * s) * sizeof(uint32_t) + t->n_values;
    unsigned char *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    size_t *live = (size_t *)(void *)block;
    uint64_t *place = (uint64_t *)(void *)(live + n);
    uint32_t *words = (uint32_t *)(void *)(place + n), *made = words + n;
    waiting w = {.nodes = words, .place = place, .read = made + n, .written = made + n + s};
    live_bytes(t, order, (bool *)(made + n + 2 * s), live);
    gather(t, order->nodes, order->n, live, most, &w, made);
    memcpy(order->nodes, made, n * sizeof *order->nodes);
    for (uint32_t i = 0; i < t->n_storages; i++)
        t->storages[i].birth = SWI_NONE;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}
