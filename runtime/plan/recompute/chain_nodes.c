/* A program as a chain: which forward ops make a node, which backward ops belong to it. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/chain_internal.h"
#include <stdint.h>
#include <string.h>

#define NONE UINT32_MAX

size_t swi_chain_bytes(const swi_chain *c, const uint64_t *a, const uint64_t *b)
{
    size_t sum = 0;
    for (uint32_t w = 0; w < c->words; w++)
        for (uint64_t rest = b != NULL ? a[w] & ~b[w] : a[w]; rest != 0; rest &= rest - 1)
            sum += c->p->items[w * 64 + (uint32_t)__builtin_ctzll(rest)].bytes;
    return sum;
}

/* ---- which ops make a node --------------------------------------------------------------- */

/* Who reads an item: one op that makes items, or others too. */
typedef struct {
    uint32_t reader; /* the op, the last of several; NONE: none yet */
    bool others;
} readers;

static void find_readers(const swi_rc_problem *p, readers *r)
{
    for (uint32_t i = 0; i < p->n_items; i++)
        r[i] = (readers){NONE, false};
    for (uint32_t t = 0; t < p->n_ops; t++)
        for (uint32_t k = 0; k < p->ops[t].n_reads; k++) {
            readers *x = &r[p->reads[p->ops[t].reads + k]];
            x->others |= x->reader != NONE || p->ops[t].n_makes == 0;
            x->reader = t;
        }
}

static size_t made_bytes(const swi_rc_problem *p, uint32_t op)
{
    size_t sum = 0;
    for (uint32_t k = 0; k < p->ops[op].n_makes; k++)
        sum += p->items[p->makes[p->ops[op].makes + k]].bytes;
    return sum;
}

/* The result of `op` goes to the next maker alone and is no smaller than what that makes:
 * keeping it never pays, so both are one node. */
static bool joins_next(const swi_rc_problem *p, const readers *r, uint32_t op, uint32_t next)
{
    for (uint32_t k = 0; k < p->ops[op].n_makes; k++) {
        const readers *x = &r[p->makes[p->ops[op].makes + k]];
        if (x->others || (x->reader != next && x->reader != NONE))
            return false;
    }
    return made_bytes(p, op) >= made_bytes(p, next);
}

/* Gather neighbours until there are at most SWI_CHAIN_NODES. */
static void gather(swi_chain *c)
{
    while (c->n > SWI_CHAIN_NODES) {
        uint32_t n = 0;
        for (uint32_t k = 1; k <= c->n; k += 2) {
            const uint32_t to = c->node[k < c->n ? k + 1 : k].to;
            c->node[++n] = (swi_chain_node){.from = c->node[k].from, .to = to};
        }
        c->n = n;
    }
}

static void make_nodes(swi_chain *c, const readers *r)
{
    const swi_rc_problem *p = c->p;
    uint32_t m = 0;
    for (uint32_t t = 0; t < p->n_ops; t++)
        if (p->ops[t].n_makes > 0)
            c->makers[m++] = t;
    c->n = 0;
    for (uint32_t i = 0; i < m; i++) {
        const bool joined = i > 0 && joins_next(p, r, c->makers[i - 1], c->makers[i]);
        if (!joined)
            c->node[++c->n].from = i;
        c->node[c->n].to = i + 1;
    }
    gather(c);
    for (uint32_t k = 1; k <= c->n; k++)
        for (uint32_t i = c->node[k].from; i < c->node[k].to; i++)
            for (uint32_t j = 0; j < p->ops[c->makers[i]].n_makes; j++)
                c->node_of[p->makes[p->ops[c->makers[i]].makes + j]] = k;
}

/* ---- sets and figures of a node ---------------------------------------------------------- */

static void make_sets(swi_chain *c)
{
    const swi_rc_problem *p = c->p;
    for (uint32_t k = 1; k <= c->n; k++)
        for (uint32_t i = c->node[k].from; i < c->node[k].to; i++) {
            const swi_rc_op *op = &p->ops[c->makers[i]];
            c->node[k].cost += op->cost;
            for (uint32_t j = 0; j < op->n_makes; j++)
                swi_chain_put(swi_chain_set(c, c->makes, k), p->makes[op->makes + j]);
            for (uint32_t j = 0; j < op->n_reads; j++)
                if (c->node_of[p->reads[op->reads + j]] < k)
                    swi_chain_put(swi_chain_set(c, c->reads, k), p->reads[op->reads + j]);
        }
}

/* Is the item read after the op, by whomever? */
static bool read_later(const readers *r, uint32_t item, uint32_t op)
{
    return r[item].reader != NONE && r[item].reader > op;
}

/* The bytes that a node takes while it runs, without its reads from before it. */
static void find_run(swi_chain *c, const readers *r, uint32_t k)
{
    const swi_rc_problem *p = c->p;
    swi_chain_node *node = &c->node[k];
    size_t live = 0;
    node->dies = NONE;
    for (uint32_t i = node->from; i < node->to; i++) {
        const swi_rc_op *op = &p->ops[c->makers[i]];
        size_t at = live + made_bytes(p, c->makers[i]);
        for (uint32_t j = 0; j < op->n_reads; j++) {
            const uint32_t item = p->reads[op->reads + j];
            const bool takes = j < 32 && (op->inplace >> j & 1u) != 0;
            if (c->node_of[item] < k) {
                if (takes && node->to == node->from + 1) {
                    node->dies = item;
                    node->saved = p->items[item].bytes;
                }
            } else if (!read_later(r, item, c->makers[i])) {
                live -= p->items[item].bytes;
                at -= takes ? p->items[item].bytes : 0;
            }
        }
        if (at + op->scratch > node->run)
            node->run = at + op->scratch;
        if (at + p->during[c->makers[i]] > node->first)
            node->first = at + p->during[c->makers[i]];
        for (uint32_t j = 0; j < op->n_makes; j++) {
            const uint32_t item = p->makes[op->makes + j];
            if (read_later(r, item, c->makers[i]))
                live += p->items[item].bytes;
        }
    }
}

/* The group of a backward op that belongs to forward op `of`. */
static uint32_t node_at(const swi_chain *c, uint32_t of)
{
    uint32_t k = 0;
    while (k < c->n && c->makers[c->node[k + 1].from] <= of)
        k++;
    return k;
}

/* Groups in the order in which backward runs; an op that belongs to none goes with the one
 * before it. Group k begins at node[k].start and ends where group k - 1 begins. */
static void make_groups(swi_chain *c, const uint32_t *backward_of)
{
    const swi_rc_problem *p = c->p;
    uint32_t now = c->n;
    for (c->backward = 0; c->backward < p->n_ops && backward_of[c->backward] == NONE;)
        c->backward++;
    c->node[c->n].start = c->backward;
    for (uint32_t t = c->backward; t < p->n_ops; t++) {
        const uint32_t k = backward_of[t] == t ? now : node_at(c, backward_of[t]);
        for (; now > k; now--)
            c->node[now - 1].start = t;
        for (uint32_t j = 0; j < p->ops[t].n_reads; j++)
            swi_chain_put(swi_chain_set(c, c->wanted, now), p->reads[p->ops[t].reads + j]);
    }
    for (; now > 0; now--)
        c->node[now - 1].start = p->n_ops;
}

static void find_between(swi_chain *c)
{
    for (uint32_t k = 0; k <= c->n; k++)
        if (c->node[k].start < c->p->n_ops)
            c->node[k].between = c->p->between[c->node[k].start];
}

size_t swi_chain_group_bytes(const swi_chain *c, uint32_t k, const uint64_t *but,
                             uint64_t *rest)
{
    const swi_rc_problem *p = c->p;
    const uint32_t start = c->node[k].start, end = k > 0 ? c->node[k - 1].start : p->n_ops;
    size_t most = 0;
    memset(rest, 0, c->words * sizeof *rest);
    for (uint32_t t = end; t-- > start;) {
        size_t saved = 0; /* its result lies where a read ends */
        for (uint32_t j = 0; j < p->ops[t].n_reads; j++) {
            const uint32_t item = p->reads[p->ops[t].reads + j];
            if (j < 32 && (p->ops[t].inplace >> j & 1u) != 0 && !swi_chain_has(rest, item) &&
                (but == NULL || !swi_chain_has(but, item)))
                saved = p->items[item].bytes;
            swi_chain_put(rest, item);
        }
        const size_t at = p->during[t] + swi_chain_bytes(c, rest, but) - saved;
        most = at > most ? at : most;
    }
    return most;
}

/* ---- making and freeing ------------------------------------------------------------------ */

static sw_status take(swi_chain *c, readers **r)
{
    const swi_rc_problem *p = c->p;
    const size_t ops = p->n_ops, items = p->n_items, words = (items + 63) / 64;
    const size_t sets = ((ops < SWI_CHAIN_NODES ? ops : SWI_CHAIN_NODES) + 1) * words;
    const size_t parts[] = {3 * sets * sizeof(uint64_t), (ops + 1) * sizeof(swi_chain_node),
                            ops * sizeof(uint32_t), items * sizeof(uint32_t),
                            items * sizeof(readers)};
    size_t at[5];
    for (int i = 0; i < 5; i++)
        at[i] = sw_size_part(&c->bytes, parts[i]);
    SW_TRY(sw_heap_alloc(&c->block, SW_HEAP_PROGRAMS, c->bytes));
    unsigned char *b = c->block;
    c->words = (uint32_t)words;
    c->makes = (uint64_t *)(void *)b;
    c->reads = c->makes + sets;
    c->wanted = c->reads + sets;
    c->node = (swi_chain_node *)(void *)(b + at[1]);
    c->makers = (uint32_t *)(void *)(b + at[2]);
    c->node_of = (uint32_t *)(void *)(b + at[3]);
    *r = (readers *)(void *)(b + at[4]);
    return SW_OK;
}

sw_status swi_chain_create(swi_chain *c, const swi_rc_problem *p, const uint32_t *backward_of)
{
    readers *r;
    *c = (swi_chain){.p = p};
    SW_TRY(take(c, &r));
    find_readers(p, r);
    make_nodes(c, r);
    make_sets(c);
    for (uint32_t k = 1; k <= c->n; k++)
        find_run(c, r, k);
    make_groups(c, backward_of);
    find_between(c);
    return SW_OK;
}

void swi_chain_free(swi_chain *c)
{
    sw_heap_free(c->block, SW_HEAP_PROGRAMS, c->bytes);
    *c = (swi_chain){0};
}
