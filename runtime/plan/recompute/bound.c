/* A proved bound of what a schedule under a capacity must repeat.
 *
 * While op t of the program runs, a limited number of bytes is left beside its own fixed bytes:
 * the room. An item that later ops read is either held in the room, or recomputed later: then
 * its maker runs again, and what the maker reads is held or recomputed too. The cheapest such
 * choice for the room bounds the cost of every schedule. It is a cut with a side condition:
 * cost of the makers that run again + price x bytes held is a minimum cut for each price of a
 * byte, and that less price x room bounds the choice (Lagrange). The best price is where the
 * cuts of two prices, one that holds too much and one that holds too little, are equally good;
 * a few steps find it. All in whole numbers: any price proves its bound.
 *
 * The ops with the least room for what they should hold are looked at first, as many as the
 * effort allows. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/recompute.h"
#include <string.h>

#define NONE UINT32_MAX
#define SOURCE 0u
#define SINK 1u
#define ENDLESS ((int64_t)1 << 62)
#define EFFORT 1000000u /* edges looked at: some milliseconds */
#define STEPS 16        /* prices of one op; they settle after three to eight */

typedef enum { EDGE_COST, EDGE_BYTES, EDGE_ALWAYS } edge_kind;

typedef struct {
    uint32_t to, next; /* the next edge of the same node */
    int64_t left;
    int64_t size; /* cost, or bytes in units */
    edge_kind kind;
} edge; /* edge e^1 leads back */

typedef struct {
    const swi_rc_problem *p;
    size_t capacity;
    uint32_t *last_read; /* by item: the last op of the program that reads it; 0: none */
    uint32_t *op_node, *item_node;
    uint32_t *op_of; /* by node: its op, or NONE */
    uint32_t *head, *level, *at, *queue, *path;
    bool *unpaid;  /* by item: it is there at op t whatever is chosen */
    int64_t *over; /* by op: bytes to hold less the room; below 0 where examined */
    edge *edges;
    uint32_t n_nodes, n_edges;
    int64_t slack, unit, cost_unit, costs, bytes; /* sums over all edges of the kind */
    uint64_t work, least;
    void *block;
    size_t block_bytes;
} cuts;

/* A choice: what it repeats and holds. */
typedef struct {
    int64_t cost, bytes;
} choice;

/* ---- the graph of an op ------------------------------------------------------------------ */

static uint32_t new_node(cuts *c, uint32_t op)
{
    c->head[c->n_nodes] = NONE;
    c->op_of[c->n_nodes] = op;
    return c->n_nodes++;
}

static int64_t common(int64_t unit, int64_t size)
{
    return (int64_t)sw_size_gcd((uint64_t)unit, (uint64_t)size);
}

static void connect(cuts *c, uint32_t from, uint32_t to, int64_t size, edge_kind kind)
{
    c->edges[c->n_edges] = (edge){to, c->head[from], 0, size, kind};
    c->head[from] = c->n_edges++;
    c->edges[c->n_edges] = (edge){from, c->head[to], 0, 0, kind};
    c->head[to] = c->n_edges++;
    if (kind == EDGE_COST) {
        c->costs += size;
        c->cost_unit = common(c->cost_unit, size);
    } else if (kind == EDGE_BYTES) {
        c->bytes += size;
        c->unit = common(c->unit, size);
    }
}

/* Is the item read by ops after t, and made at t or before? */
static bool is_wanted(const cuts *c, uint32_t item, uint32_t t)
{
    return c->p->items[item].maker <= t && t < c->last_read[item];
}

/* To be held, or recomputed: an edge from its reader. */
static void want(cuts *c, uint32_t from, uint32_t item, uint32_t t)
{
    const uint32_t maker = c->p->items[item].maker;
    uint32_t to = SINK;
    if (c->p->ops[maker].until > t) {
        if (c->op_node[maker] == NONE)
            c->op_node[maker] = new_node(c, maker);
        to = c->op_node[maker];
    }
    connect(c, from, to, (int64_t)c->p->items[item].bytes, EDGE_BYTES);
}

/* Operands and results of op t are in memory anyway and are taken off the room, except for a
 * read that its result may overwrite. False: op t alone does not fit. */
static bool find_slack(cuts *c, uint32_t t, bool mark)
{
    const swi_rc_op *op = &c->p->ops[t];
    int64_t slack = (int64_t)c->capacity - (int64_t)c->p->during[t], place = 0, places = 0;
    for (uint32_t k = 0; k < op->n_makes; k++) {
        const uint32_t item = c->p->makes[op->makes + k];
        slack -= (int64_t)c->p->items[item].bytes;
        c->unpaid[item] = mark;
    }
    for (uint32_t k = 0; k < op->n_reads; k++) {
        const uint32_t item = c->p->reads[op->reads + k];
        slack -= (int64_t)c->p->items[item].bytes;
        if (k < 32 && (op->inplace >> k & 1u) != 0) {
            place = (int64_t)c->p->items[item].bytes;
            places += place;
        } else {
            c->unpaid[item] = mark;
        }
    }
    c->slack = slack + places;
    return slack + place >= 0;
}

static void build(cuts *c, uint32_t t)
{
    c->n_nodes = c->n_edges = 0;
    c->unit = c->cost_unit = c->costs = c->bytes = 0;
    memset(c->op_node, 0xff, c->p->n_ops * sizeof *c->op_node);
    memset(c->item_node, 0xff, c->p->n_items * sizeof *c->item_node);
    (void)new_node(c, NONE);
    (void)new_node(c, NONE);
    for (uint32_t i = 0; i < c->p->n_items; i++)
        if (is_wanted(c, i, t) && !c->unpaid[i])
            want(c, SOURCE, i, t);
    for (uint32_t node = 2; node < c->n_nodes; node++)
        if (c->op_of[node] != NONE) {
            /* An op that may run again: its cost, and what it reads. */
            const swi_rc_op *op = &c->p->ops[c->op_of[node]];
            connect(c, node, SINK, (int64_t)op->cost, EDGE_COST);
            for (uint32_t k = 0; k < op->n_reads; k++) {
                const uint32_t item = c->p->reads[op->reads + k];
                if (c->unpaid[item] || is_wanted(c, item, t))
                    continue;
                if (c->item_node[item] == NONE) {
                    c->item_node[item] = new_node(c, NONE);
                    want(c, c->item_node[item], item, t);
                }
                connect(c, node, c->item_node[item], 0, EDGE_ALWAYS);
            }
        }
    if (c->unit == 0)
        return;
    for (uint32_t e = 0; e < c->n_edges; e += 2)
        if (c->edges[e].kind == EDGE_BYTES)
            c->edges[e].size /= c->unit;
    c->bytes /= c->unit;
}

/* ---- minimum cuts (Dinic) ---------------------------------------------------------------- */

static bool find_levels(cuts *c)
{
    uint32_t n = 0;
    memset(c->level, 0xff, c->n_nodes * sizeof *c->level);
    c->level[SOURCE] = 0;
    c->queue[n++] = SOURCE;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = c->head[c->queue[i]]; e != NONE; e = c->edges[e].next)
            if (c->edges[e].left > 0 && c->level[c->edges[e].to] == NONE) {
                c->level[c->edges[e].to] = c->level[c->queue[i]] + 1;
                c->queue[n++] = c->edges[e].to;
            }
    c->work += c->n_edges;
    return c->level[SINK] != NONE;
}

/* Send what the path carries; back to where it is full. */
static uint32_t send(cuts *c, uint32_t *n_path)
{
    int64_t most = ENDLESS;
    for (uint32_t i = 0; i < *n_path; i++)
        if (c->edges[c->path[i]].left < most)
            most = c->edges[c->path[i]].left;
    uint32_t full = *n_path;
    for (uint32_t i = *n_path; i-- > 0;) {
        c->edges[c->path[i]].left -= most;
        c->edges[c->path[i] ^ 1].left += most;
        if (c->edges[c->path[i]].left == 0)
            full = i;
    }
    c->work += *n_path;
    *n_path = full;
    return c->edges[c->path[full] ^ 1].to;
}

static void send_all(cuts *c)
{
    uint32_t node = SOURCE, n_path = 0;
    memcpy(c->at, c->head, c->n_nodes * sizeof *c->at);
    for (;;) {
        if (node == SINK)
            node = send(c, &n_path);
        uint32_t e = c->at[node];
        while (e != NONE &&
               (c->edges[e].left == 0 || c->level[c->edges[e].to] != c->level[node] + 1))
            e = c->edges[e].next;
        c->at[node] = e;
        if (e != NONE) {
            c->path[n_path++] = e;
            node = c->edges[e].to;
        } else if (n_path > 0) {
            c->level[node] = NONE;
            node = c->edges[c->path[--n_path] ^ 1].to;
        } else {
            return;
        }
    }
}

/* The cheapest choice where a unit of cost weighs `scale` and a unit of bytes `price`. */
static choice cut(cuts *c, int64_t scale, int64_t price)
{
    for (uint32_t e = 0; e < c->n_edges; e += 2) {
        edge *one = &c->edges[e];
        one->left = one->kind == EDGE_ALWAYS
                        ? ENDLESS
                        : one->size * (one->kind == EDGE_COST ? scale : price);
        c->edges[e + 1].left = 0;
    }
    while (find_levels(c))
        send_all(c);
    choice chosen = {0, 0};
    for (uint32_t e = 0; e < c->n_edges; e += 2)
        if (c->level[c->edges[e + 1].to] != NONE && c->level[c->edges[e].to] == NONE) {
            if (c->edges[e].kind == EDGE_COST)
                chosen.cost += c->edges[e].size;
            else
                chosen.bytes += c->edges[e].size;
        }
    return chosen;
}

/* ---- prices ------------------------------------------------------------------------------ */

/* So large that prices are fine, so small that no sum passes 2^62. */
static int64_t scale_of(const cuts *c)
{
    int64_t scale = 1;
    while (scale < (int64_t)1 << 40 && c->costs * scale < (int64_t)1 << 44)
        scale *= 2;
    return scale;
}

/* Note what the room of op t proves. */
static void look_at(cuts *c, uint32_t t)
{
    (void)find_slack(c, t, true);
    build(c, t);
    (void)find_slack(c, t, false);
    if (c->unit == 0)
        return;
    c->slack /= c->unit;
    choice little = cut(c, 0, 1), much = cut(c, 1, 0);
    if (little.bytes > c->slack) {
        c->least = UINT64_MAX;
        return;
    }
    const int64_t scale = scale_of(c);
    const int64_t dearest = c->bytes > 0 ? ((int64_t)1 << 60) / c->bytes : 0;
    for (int step = 0; step < STEPS && much.bytes > c->slack; step++) {
        int64_t price = scale * (little.cost - much.cost) / (much.bytes - little.bytes);
        price = price < 0 ? 0 : price < dearest ? price : dearest;
        const choice now = cut(c, scale, price);
        const int64_t cost_scaled = scale * now.cost + price * (now.bytes - c->slack);
        if (!(cost_scaled <= 0 || c->cost_unit == 0)) {
            int64_t cost = (cost_scaled - 1) / scale + 1;
            cost = (cost - 1) / c->cost_unit * c->cost_unit + c->cost_unit;
            if ((uint64_t)cost > c->least)
                c->least = (uint64_t)cost;
        }
        choice *side = now.bytes > c->slack ? &much : &little;
        if (now.cost == side->cost && now.bytes == side->bytes)
            return;
        *side = now;
    }
}

static void look_at_all(cuts *c)
{
    for (uint32_t t = 0; t < c->p->n_ops; t++) {
        if (!find_slack(c, t, false)) {
            c->least = UINT64_MAX;
            return;
        }
        int64_t wanted = 0;
        (void)find_slack(c, t, true);
        for (uint32_t i = 0; i < c->p->n_items; i++)
            if (is_wanted(c, i, t) && !c->unpaid[i])
                wanted += (int64_t)c->p->items[i].bytes;
        (void)find_slack(c, t, false);
        c->over[t] = wanted - c->slack;
    }
    while (c->work < EFFORT && c->least != UINT64_MAX) {
        uint32_t worst = 0;
        for (uint32_t t = 1; t < c->p->n_ops; t++)
            if (c->over[t] > c->over[worst])
                worst = t;
        if (c->over[worst] <= 0)
            return;
        c->over[worst] = 0;
        look_at(c, worst);
    }
}

sw_status swi_rc_bound(const swi_rc_problem *problem, size_t capacity, uint64_t *least)
{
    cuts c = {.p = problem, .capacity = capacity < INT64_MAX / 4 ? capacity : INT64_MAX / 4};
    const swi_rc_problem *p = c.p;
    size_t n_edges = (size_t)p->n_ops + p->n_items;
    for (uint32_t t = 0; t < p->n_ops; t++)
        n_edges += p->ops[t].n_makes > 0 ? p->ops[t].n_reads : 0;
    const size_t nodes = 2 + (size_t)p->n_ops + p->n_items;
    const size_t edge_bytes = 2 * n_edges * sizeof(edge);
    const size_t over_bytes = p->n_ops * sizeof(int64_t);
    const size_t words = 2 * (size_t)p->n_items + p->n_ops + 6 * nodes;
    c.block_bytes = edge_bytes + over_bytes + words * sizeof(uint32_t) + p->n_items;
    SW_TRY(sw_heap_alloc(&c.block, SW_HEAP_PROGRAMS, c.block_bytes));
    c.edges = c.block;
    c.over = (int64_t *)(c.edges + 2 * n_edges);
    c.last_read = (uint32_t *)(c.over + p->n_ops);
    c.item_node = c.last_read + p->n_items;
    c.op_node = c.item_node + p->n_items;
    c.op_of = c.op_node + p->n_ops;
    c.head = c.op_of + nodes;
    c.level = c.head + nodes;
    c.at = c.level + nodes;
    c.queue = c.at + nodes;
    c.path = c.queue + nodes;
    c.unpaid = (bool *)(c.path + nodes);
    for (uint32_t t = 0; t < p->n_ops; t++)
        for (uint32_t k = 0; k < p->ops[t].n_reads; k++)
            c.last_read[p->reads[p->ops[t].reads + k]] = t;

    if (problem->n_ops > 0)
        look_at_all(&c);
    sw_heap_free(c.block, SW_HEAP_PROGRAMS, c.block_bytes);
    *least = c.least;
    return SW_OK;
}
