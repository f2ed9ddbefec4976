/* Groups of launches: ops of one kind that follow one another go out as one launch where the
 * device's entry can take several (sw_cuda_group). Their operands live from the first to the
 * last of them. The gather pass makes neighbours of them: a check or an update that was
 * released waits for the next ones, and the gradient of a function of one number goes up to the
 * value that is recomputed for another gradient. */
#include "alloc/base/mem.h"
#include "runtime/base/op_traits.h"
#include "runtime/device/device.h"
#include "runtime/ops/ops.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

enum { GROUP_MOST = 256 };    /* ops of a group: each is compared with all before it */
#define MAGNITUDES UINT32_MAX /* the kind of all that find the largest of a tensor */

/* How launches of the node can be a group, in units of SW_CUDA_GROUPS; 0: they cannot. Of
 * copies those into a model alone, and no bound that does not read its factors. */
static int groups_of(const swi_trace *t, const swi_node *node)
{
    const sw_cuda_entry *entry =
        node->on_device != NULL ? swi_device_entry(node->op, node->grad) : NULL;
    if (entry == NULL || entry->groups == 0 || entry->kernel != node->on_device ||
        node->scratch != SWI_NONE ||
        (!node->writes_model && swi_op_traits_of(node->op)->halves == SWI_HALVES_MOVES))
        return 0;
    if (entry->groups != SW_CUDA_MAGNITUDES / SW_CUDA_GROUPS)
        return entry->groups;
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    swi_kernel_info(t, node, types, &info);
    return swi_reads_one_element(node->op, &info, 1) ? 0 : entry->groups;
}

static bool is_neighbour(const swi_trace *t, const swi_node *node)
{
    return groups_of(t, node) == SW_CUDA_NEIGHBOURS / SW_CUDA_GROUPS;
}

/* Ops of one kind have one number: an op with states in 8 bits has another table. */
static uint32_t kind_of(const swi_trace *t, const swi_node *node)
{
    const bool in8 =
        node->n_out > 1 && swi_operand(t, node, node->n_in + 1u)->type.dtype == SW_U8;
    return groups_of(t, node) * SW_CUDA_GROUPS == SW_CUDA_MAGNITUDES ? MAGNITUDES
                                                                     : 2 * node->op + in8;
}

uint32_t swi_group_end(const swi_trace *t, const uint32_t *order, uint32_t n, uint32_t at)
{
    const swi_node *first = &t->nodes[order[at]];
    uint32_t end = at + 1;
    for (; end < n && end - at < GROUP_MOST && groups_of(t, first) > 0; end++) {
        const swi_node *node = &t->nodes[order[end]];
        if (kind_of(t, node) != kind_of(t, first) || node->phase != first->phase ||
            groups_of(t, node) == 0)
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

/* Does one of the kind wait at a higher place? */
static bool kind_waits(const waiting *w, uint32_t kind, uint64_t place)
{
    for (uint32_t i = 0; i < w->n; i++)
        if ((uint32_t)w->place[i] == kind && w->place[i] > place)
            return true;
    return false;
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

/* Right after what must run before it, or with the last of its kind that waits. */
static void wait_for(const swi_trace *t, waiting *w, uint32_t at)
{
    const swi_node *node = &t->nodes[at];
    const uint32_t kind = kind_of(t, node);
    uint32_t level = level_before(t, w, node) + 1;
    for (uint32_t i = 0; i < w->n; i++)
        if ((uint32_t)w->place[i] == kind && w->place[i] >> 32 > level)
            level = (uint32_t)(w->place[i] >> 32);
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        uint32_t *of = i < node->n_in ? w->read : w->written;
        const uint32_t s = storage_of(t, node, i);
        of[s] = of[s] > level ? of[s] : level;
    }
    w->nodes[w->n] = at;
    w->place[w->n++] = (uint64_t)level << 32 | kind;
}

/* Each goes to the last of its kind that those which need it allow. */
static void put_off(const swi_trace *t, waiting *w)
{
    for (uint32_t i = w->n; i-- > 0;) {
        const swi_node *node = &t->nodes[w->nodes[i]];
        uint64_t place = w->place[i], most = UINT64_MAX;
        const bool later = kind_waits(w, (uint32_t)place, place);
        for (uint32_t k = i + 1; later && k < w->n; k++)
            if (w->place[k] < most && !swi_are_apart(t, node, &t->nodes[w->nodes[k]]))
                most = w->place[k];
        for (uint32_t k = 0; later && k < w->n; k++)
            if ((uint32_t)w->place[k] == (uint32_t)place && w->place[k] > place &&
                w->place[k] >> 32 < most >> 32)
                place = w->place[k];
        w->place[i] = place;
    }
}

/* Let all run: by level, and each kind by itself. */
static void let_run(const swi_trace *t, waiting *w, uint32_t *to, uint32_t *n)
{
    put_off(t, w);
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

/* Does the node wait? Those that can go out together, and what only joins their results; a
 * bound of factors, which live for it, if a check waits. */
static bool may_wait(const swi_trace *t, const waiting *w, const swi_node *node)
{
    const swi_op_duty duty = swi_op_traits_of(node->op)->duty;
    if (duty == SWI_DUTY_JOIN || duty == SWI_DUTY_TICK)
        return level_before(t, w, node) > 0 || groups_of(t, node) > 0;
    return groups_of(t, node) > 0 && !is_neighbour(t, node) &&
           (duty == SWI_DUTY_CHECK || kind_of(t, node) != MAGNITUDES ||
            kind_waits(w, MAGNITUDES, 0));
}

/* Moves gradients up to values of the same op, past what does not touch their operands. */
static void pull(const swi_trace *t, uint32_t *order, uint32_t n)
{
    for (uint32_t at = 1; at < n; at++) {
        const uint32_t moved = order[at];
        const swi_node *node = &t->nodes[moved];
        uint32_t to = node->grad >= 0 && is_neighbour(t, node) ? at : 0;
        for (; to > 0; to--) {
            const swi_node *before = &t->nodes[order[to - 1]];
            if (before->phase != node->phase || !swi_are_apart(t, before, node))
                to = 1; /* no such value */
            else if (before->grad < 0 && is_neighbour(t, before) &&
                     kind_of(t, before) == kind_of(t, node))
                break;
        }
        for (uint32_t i = at; to > 0 && i > to; i--)
            order[i] = order[i - 1];
        order[to > 0 ? to : at] = moved;
    }
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

static void live_bytes(const swi_trace *t, uint32_t n, size_t *live)
{
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (!swi_takes_part(t, s))
            continue;
        const swi_storage *x = &t->storages[s];
        live[x->birth] += x->rounded;
        if (x->death + 1 < n)
            live[x->death + 1] -= x->rounded; /* sums may wrap on the way */
    }
    for (uint32_t at = 1; at < n; at++)
        live[at] += live[at - 1];
}

/* Storages are left as they were: without lifetimes. */
sw_status swi_pass_gather(swi_trace *t, swi_order *order, size_t most, bool pulls)
{
    const size_t n = order->n, s = t->n_storages;
    const size_t bytes = s * sizeof(swi_storage) + n * (sizeof(size_t) + sizeof(uint64_t)) +
                         (2 * n + 2 * s) * sizeof(uint32_t);
    unsigned char *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    swi_storage *storages = (swi_storage *)(void *)block;
    size_t *live = (size_t *)(void *)(storages + s);
    uint64_t *place = (uint64_t *)(void *)(live + n);
    uint32_t *words = (uint32_t *)(void *)(place + n), *made = words + n;
    waiting w = {.nodes = words, .place = place, .read = made + n, .written = made + n + s};
    memcpy(storages, t->storages, s * sizeof *storages);
    if (pulls)
        pull(t, order->nodes, order->n);
    const sw_status status = swi_take_places(t, order, pulls);
    if (status == SW_OK) {
        live_bytes(t, order->n, live);
        gather(t, order->nodes, order->n, live, most, &w, made);
        memcpy(order->nodes, made, n * sizeof *order->nodes);
    }
    memcpy(t->storages, storages, s * sizeof *storages);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return status;
}
