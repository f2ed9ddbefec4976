/* A bound from several ops of the backward part at once.
 *
 * bound.c looks at one op: items that do not fit there are recomputed once. Items that lack
 * room over many ops may have to be made several times, and what is recomputed for one of them
 * may be in the way at the next. So the part of the program after the last op that makes an
 * item is cut into windows at ops with little room, and each byte that is held over such an op
 * pays a rent. Without the limit on bytes, and with the rents of the room given back, the
 * cheapest choice bounds every schedule, whatever the rents are (Lagrange):
 *
 *   an item is there in a window where it is held over the op that opens it, or its maker runs
 *   in the window, where all that it reads is there; what ops of the window read must be there.
 *
 * That is a Steiner tree in a directed graph; its nodes are items in windows. Its cost is
 * bounded by dual ascent (Wong 1984): of an item that must be there, take all from which it
 * comes for nothing. Some way leads into this set from outside; all such ways become cheaper by
 * what the cheapest costs, and the bound grows by as much; until it can be had for nothing. A
 * maker that reads several items leads into a set only where none of them is in it, so one of
 * them is enough to go on from.
 *
 * Good rents are searched for, one after another, upward and downward. All in whole numbers. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/recompute.h"
#include <string.h>

#define NONE UINT32_MAX
#define MOST ((int64_t)1 << 56) /* of any one sum but the bound itself */
#define MOST_CUTS 16u
#define SMALL_SHARE 256u /* of the capacity: its reads do not part two ops */
#define EFFORT 30000000u /* ways looked at; measured: 0.1 to 0.3 s */
#define FINEST 16        /* the last steps of a rent are of one part in so many */

typedef struct {
    const swi_rc_problem *p;
    size_t capacity;
    uint32_t *cuts; /* ops, ascending */
    uint32_t n_cuts, n_nodes;
    int64_t rent[MOST_CUTS + 1], slack[MOST_CUTS + 1]; /* of and in units of bytes */
    int64_t *units, *cost; /* by item; by op, scaled, below 0 where it makes nothing */
    int64_t unit, scale, cost_unit, costs;
    bool *unpaid;     /* by node, an item in a window: it is there whatever is chosen */
    uint32_t *wanted; /* nodes that must be there */
    uint32_t n_wanted;
    int64_t *left; /* what a way still costs; by node: holding it over the op that opens the
                      window; then by window and op: running it; below 0: it cannot */
    uint32_t *mark, *stack, *ways; /* by way: the last set that it has been in */
    uint32_t stamp, n_set, n_ways;
    uint64_t work;
    void *block;
    size_t bytes;
} session;

static uint32_t node_of(const session *s, uint32_t cut, uint32_t item)
{
    return cut * s->p->n_items + item;
}

/* ---- where to cut ------------------------------------------------------------------------ */

/* Bytes that live while op t runs whatever is chosen; but what may lie where a read lay. */
static size_t floor_of(const session *s, uint32_t t, bool *reads)
{
    const swi_rc_op *op = &s->p->ops[t];
    size_t sum = s->p->during[t];
    *reads = false;
    for (uint32_t k = 0; k < op->n_reads; k++) {
        const size_t bytes = s->p->items[s->p->reads[op->reads + k]].bytes;
        *reads |= bytes > s->capacity / SMALL_SHARE;
        sum += k < 32 && (op->inplace >> k & 1u) != 0 ? 0 : bytes;
    }
    return sum;
}

/* Of ops with no reads between them, the one with the least room, into s->stack. */
static uint32_t find_candidates(session *s, size_t *floors)
{
    const swi_rc_problem *p = s->p;
    uint32_t begin = 0, n = 0;
    bool read = true;
    for (uint32_t i = 0; i < p->n_items; i++)
        begin = p->items[i].maker + 1 > begin ? p->items[i].maker + 1 : begin;
    for (uint32_t t = begin; t < p->n_ops; t++) {
        bool reads;
        const size_t bytes = floor_of(s, t, &reads);
        read |= reads;
        if (bytes > s->capacity)
            continue;
        if (read)
            n++;
        if (read || bytes > floors[n - 1]) {
            s->stack[n - 1] = t;
            floors[n - 1] = bytes;
        }
        read = false;
    }
    return n;
}

/* The candidates with the least room, the next ones on both sides of each left out; one more
 * than MOST_CUTS of them at most. */
static void take_apart(session *s, const size_t *floors, uint32_t n, uint32_t apart,
                       uint8_t *state)
{
    enum { OPEN, PASSED, TAKEN };
    memset(state, OPEN, n);
    for (s->n_cuts = 0; s->n_cuts <= MOST_CUTS; s->n_cuts++) {
        uint32_t best = NONE;
        for (uint32_t i = 0; i < n; i++)
            if (state[i] == OPEN && (best == NONE || floors[i] > floors[best]))
                best = i;
        if (best == NONE)
            break;
        for (uint32_t i = best < apart ? 0 : best - apart; i <= best + apart && i < n; i++)
            if (state[i] == OPEN)
                state[i] = PASSED;
        state[best] = TAKEN;
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < n && k <= MOST_CUTS; i++)
        if (state[i] == TAKEN)
            s->cuts[k++] = s->stack[i];
}

static void choose_cuts(session *s, size_t *floors, uint8_t *state)
{
    const uint32_t n = find_candidates(s, floors);
    uint32_t apart = 0;
    do {
        take_apart(s, floors, n, apart, state);
        apart += 1 + apart / 8;
    } while (s->n_cuts > MOST_CUTS);
}

/* ---- the graph --------------------------------------------------------------------------- */

/* The reads of op `cuts[k]` are in memory anyway and are taken off the room, except for a read
 * that its result may overwrite. */
static void open_window(session *s, uint32_t k)
{
    const swi_rc_problem *p = s->p;
    const swi_rc_op *op = &p->ops[s->cuts[k]];
    const uint32_t end = k + 1 < s->n_cuts ? s->cuts[k + 1] + 1 : p->n_ops;
    bool reads;
    s->slack[k] = (int64_t)(s->capacity - floor_of(s, s->cuts[k], &reads)) / s->unit;
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (i >= 32 || (op->inplace >> i & 1u) == 0)
            s->unpaid[node_of(s, k, p->reads[op->reads + i])] = true;
    for (uint32_t t = s->cuts[k] + 1; t < end; t++)
        for (uint32_t i = 0; i < p->ops[t].n_reads; i++)
            s->mark[node_of(s, k, p->reads[p->ops[t].reads + i])] = 1;
}

static void find_units(session *s)
{
    const swi_rc_problem *p = s->p;
    uint64_t unit = 0, cost_unit = 0, costs = 0;
    for (uint32_t i = 0; i < p->n_items; i++)
        unit = sw_size_gcd(unit, p->items[i].bytes);
    for (uint32_t t = 0; t < p->n_ops; t++)
        if (p->ops[t].n_makes > 0) {
            cost_unit = sw_size_gcd(cost_unit, p->ops[t].cost);
            costs += p->ops[t].cost;
        }
    s->unit = (int64_t)unit;
    s->cost_unit = (int64_t)cost_unit;
    for (s->scale = 1; s->scale < (int64_t)1 << 40 && costs < (uint64_t)1 << 44; costs *= 2)
        s->scale *= 2;
    s->costs = costs < (uint64_t)MOST ? (int64_t)costs : 0;
    for (uint32_t i = 0; i < p->n_items; i++)
        s->units[i] = (int64_t)(p->items[i].bytes / unit);
    for (uint32_t t = 0; t < p->n_ops; t++)
        s->cost[t] = p->ops[t].n_makes > 0 ? (int64_t)p->ops[t].cost * s->scale : -1;
}

/* Items in the order of their makers, each window by window. */
static void build(session *s)
{
    find_units(s);
    s->n_nodes = s->n_cuts * s->p->n_items;
    for (uint32_t k = 0; k < s->n_cuts; k++)
        open_window(s, k);
    for (uint32_t i = 0; i < s->p->n_items; i++)
        for (uint32_t k = 0; k < s->n_cuts; k++)
            if (s->mark[node_of(s, k, i)] != 0)
                s->wanted[s->n_wanted++] = node_of(s, k, i);
    s->stamp = 1;
}

/* ---- dual ascent ------------------------------------------------------------------------- */

/* The rents that are given back. */
static int64_t set_prices(session *s)
{
    const swi_rc_problem *p = s->p;
    int64_t back = 0;
    for (uint32_t k = 0; k < s->n_cuts; k++) {
        int64_t *run = s->left + s->n_nodes + (size_t)k * p->n_ops;
        back += s->rent[k] * s->slack[k];
        for (uint32_t i = 0; i < p->n_items; i++) {
            const uint32_t x = node_of(s, k, i);
            const bool dear = s->rent[k] > s->costs / s->units[i];
            s->left[x] = s->unpaid[x] ? 0 : dear ? s->costs + 1 : s->rent[k] * s->units[i];
        }
        for (uint32_t t = 0; t < p->n_ops; t++)
            run[t] = p->ops[t].until > s->cuts[k] ? s->cost[t] : -1;
    }
    return back;
}

static void put(session *s, uint32_t node)
{
    s->mark[node] = s->stamp;
    s->stack[s->n_set++] = node;
}

/* Is something that op t reads in the set? */
static bool reads_set(const session *s, uint32_t k, uint32_t t)
{
    const swi_rc_op *op = &s->p->ops[t];
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (s->mark[node_of(s, k, s->p->reads[op->reads + i])] == s->stamp)
            return true;
    return false;
}

/* The ways to a node of the set; what they lead from for nothing joins the set. True: it can be
 * had for nothing. */
static bool look_behind(session *s, uint32_t node)
{
    const swi_rc_problem *p = s->p;
    const uint32_t k = node / p->n_items, t = p->items[node % p->n_items].maker;
    const uint32_t run = s->n_nodes + k * p->n_ops + t;
    if (s->left[node] > 0)
        s->ways[s->n_ways++] = node;
    else if (k == 0)
        return true;
    else if (s->mark[node - p->n_items] != s->stamp)
        put(s, node - p->n_items);
    if (s->mark[run] == s->stamp || s->left[run] < 0)
        return false;
    s->mark[run] = s->stamp;
    const swi_rc_op *op = &p->ops[t];
    if (s->left[run] > 0)
        s->ways[s->n_ways++] = run;
    else if (op->n_reads == 0)
        return true;
    else if (!reads_set(s, k, t))
        put(s, node_of(s, k, p->reads[op->reads + op->n_reads - 1]));
    return false;
}

/* Does the way lead into the set from outside of it? */
static bool enters(const session *s, uint32_t way)
{
    if (way >= s->n_nodes)
        return !reads_set(s, (way - s->n_nodes) / s->p->n_ops,
                          (way - s->n_nodes) % s->p->n_ops);
    return way < s->p->n_items || s->mark[way - s->p->n_items] != s->stamp;
}

/* The least cost of a node beyond what has been counted is taken off the paths to it. */
static int64_t lift(session *s, uint32_t node)
{
    int64_t least = INT64_MAX;
    s->stamp++;
    s->n_set = s->n_ways = 0;
    put(s, node);
    for (uint32_t i = 0; i < s->n_set; i++)
        if (look_behind(s, s->stack[i]))
            return 0;
    s->work += s->n_set + s->n_ways;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_ways; i++)
        if (enters(s, s->ways[i])) {
            s->ways[n++] = s->ways[i];
            least = s->left[s->ways[i]] < least ? s->left[s->ways[i]] : least;
        }
    for (uint32_t i = 0; i < n; i++)
        s->left[s->ways[i]] -= least;
    return n > 0 ? least : 0;
}

/* The bound that the rents prove, scaled. */
static int64_t ascend(session *s)
{
    int64_t sum = -set_prices(s);
    for (uint32_t i = 0; i < s->n_wanted; i++)
        for (int64_t more = 1; more > 0 && sum < 16 * MOST;) {
            more = lift(s, s->wanted[i]);
            sum += more;
        }
    return sum;
}

/* ---- rents ------------------------------------------------------------------------------- */

static bool set_rent(session *s, uint32_t k, int64_t rent)
{
    if (rent < 0 || rent > s->costs || rent > MOST / (s->slack[k] + 1))
        return false;
    s->rent[k] = rent;
    return true;
}

/* The rents of cut k, or of all (k == n_cuts), one part in `parts` higher or lower. */
static bool change(session *s, uint32_t k, int64_t parts, bool up)
{
    const uint32_t from = k < s->n_cuts ? k : 0, to = k < s->n_cuts ? k + 1 : k;
    bool can = true;
    for (uint32_t i = from; i < to; i++) {
        const int64_t step = s->rent[i] / (up ? parts : parts + 1) + 1;
        can = set_rent(s, i, up ? s->rent[i] + step : s->rent[i] - step) && can;
    }
    return can;
}

/* Try both directions; true where the bound has grown. */
static bool try(session *s, uint32_t k, int64_t parts, int64_t *best)
{
    int64_t kept[MOST_CUTS + 1];
    memcpy(kept, s->rent, sizeof kept);
    for (int up = 1; up >= 0; up--) {
        if (change(s, k, parts, up != 0)) {
            const int64_t now = ascend(s);
            if (now > *best) {
                *best = now;
                return true;
            }
        }
        memcpy(s->rent, kept, sizeof kept);
    }
    return false;
}

/* The same rent everywhere, by doubling from a hundredth of what making a byte costs on
 * average. */
static int64_t begin(session *s)
{
    int64_t units = 0, best = 0, chosen = 0;
    for (uint32_t i = 0; i < s->p->n_items; i++)
        units += s->units[i];
    if (units == 0)
        return 0;
    int64_t rent = s->costs / units / 128 + 1;
    for (int i = 0; i < 14; i++, rent *= 2) {
        bool can = true;
        for (uint32_t k = 0; k < s->n_cuts; k++)
            can = set_rent(s, k, rent) && can;
        const int64_t now = can ? ascend(s) : 0;
        if (now > best) {
            best = now;
            chosen = rent;
        }
    }
    for (uint32_t k = 0; k < s->n_cuts; k++)
        s->rent[k] = chosen;
    return best;
}

static int64_t search(session *s)
{
    int64_t best = begin(s);
    for (int64_t parts = 1; best > 0 && parts <= FINEST; parts *= 2)
        for (int64_t before = -1; best - before > best / 512 && s->work < EFFORT;) {
            before = best;
            for (uint32_t k = s->n_cuts + 1; k-- > 0 && s->work < EFFORT;)
                (void)try(s, k, parts, &best);
        }
    return best;
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_status take(session *s, size_t **floors, uint8_t **state)
{
    const size_t ops = s->p->n_ops, items = s->p->n_items, cuts = MOST_CUTS + 1;
    const size_t nodes = cuts * items, ways = nodes + cuts * ops;
    const size_t stack = nodes > ops ? nodes : ops;
    size_t sum = 0;
    const size_t parts[] = {ops * sizeof(size_t),
                            items * sizeof(int64_t),
                            ops * sizeof(int64_t),
                            ways * sizeof(int64_t),
                            cuts * sizeof(uint32_t),
                            nodes * sizeof(uint32_t),
                            ways * sizeof(uint32_t),
                            stack * sizeof(uint32_t),
                            ways * sizeof(uint32_t),
                            nodes,
                            ops};
    enum { PARTS = sizeof parts / sizeof *parts };
    size_t at[PARTS];
    for (int i = 0; i < PARTS; i++)
        at[i] = sw_size_part(&sum, parts[i]);
    SW_TRY(sw_heap_alloc(&s->block, SW_HEAP_PROGRAMS, sum));
    s->bytes = sum;
    unsigned char *b = s->block;
    *floors = (size_t *)(void *)b;
    s->units = (int64_t *)(void *)(b + at[1]);
    s->cost = (int64_t *)(void *)(b + at[2]);
    s->left = (int64_t *)(void *)(b + at[3]);
    s->cuts = (uint32_t *)(void *)(b + at[4]);
    s->wanted = (uint32_t *)(void *)(b + at[5]);
    s->mark = (uint32_t *)(void *)(b + at[6]);
    s->stack = (uint32_t *)(void *)(b + at[7]);
    s->ways = (uint32_t *)(void *)(b + at[8]);
    s->unpaid = (bool *)(void *)(b + at[9]);
    *state = b + at[10];
    return SW_OK;
}

static uint64_t proved(const session *s, int64_t scaled)
{
    if (scaled <= 0 || s->cost_unit == 0)
        return 0;
    const int64_t cost = (scaled - 1) / s->scale + 1;
    return (uint64_t)((cost - 1) / s->cost_unit * s->cost_unit + s->cost_unit);
}

sw_status swi_rc_rent(const swi_rc_problem *problem, size_t capacity, uint64_t *least)
{
    session s = {.p = problem, .capacity = capacity < INT64_MAX ? capacity : INT64_MAX};
    size_t *floors;
    uint8_t *state;
    *least = 0;
    if (problem->n_items == 0)
        return SW_OK;
    SW_TRY(take(&s, &floors, &state));
    choose_cuts(&s, floors, state);
    if (s.n_cuts > 0) {
        build(&s);
        *least = s.costs > 0 ? proved(&s, search(&s)) : 0;
    }
    sw_heap_free(s.block, SW_HEAP_PROGRAMS, s.bytes);
    return SW_OK;
}
