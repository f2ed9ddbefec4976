/* For small capacities, where at most one item can be held over some ops of the backward part.
 *
 * Over each of these ops one item is held, or none. Between two of them, the items that are
 * read and the item that is held over the second are recomputed from the item that was held
 * over the first; each maker runs once. With the cost of that, the cheapest way from op to op
 * is a shortest path, and no schedule under the capacity is cheaper, since other limits are
 * left out. Used as a schedule, the path often fits, and is then optimal.
 *
 * Items that are small beside the capacity count as there, for no cost and no bytes. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/recompute.h"
#include <string.h>

#define NONE UINT32_MAX
#define SMALL_SHARE 256u /* of the capacity */
#define EFFORT 8000000u  /* pairs of what stays over one op and over the next */

typedef struct {
    const swi_rc_problem *p;
    size_t capacity;
    uint32_t *checks; /* the ops, ascending */
    uint32_t *stays;  /* by check: on the way */
    uint32_t n_checks;
    uint64_t *cost;        /* by check and what stays: an item, or n_items for none */
    uint32_t *from;        /* the same: what stayed over the check before */
    uint32_t *base, *more; /* by op: the search that has visited it last */
    uint32_t n_searches;
    uint32_t base_search; /* that of what is read */
    uint32_t *stack;      /* items */
    size_t *alone;        /* by op: bytes that a repeat takes */
    uint32_t *alive;      /* by item: up to this op it may still be of use after it */
    size_t slack;         /* for repeats, after the check that is looked at */
    bool crowded;         /* what must run again there has no room beside what stays over it */
    bool *there;          /* by item, while a schedule is written */
    void *block;
    size_t bytes;
} session;

static bool is_small(const session *s, uint32_t item)
{
    return s->p->items[item].bytes <= s->capacity / SMALL_SHARE;
}

/* Bytes that live while op t runs for the first time, where items a and b (n_items: none) stay
 * after it, small ones left out. */
static size_t live_with(const session *s, uint32_t t, uint32_t a, uint32_t b)
{
    const swi_rc_problem *p = s->p;
    const swi_rc_op *op = &p->ops[t];
    size_t sum = p->during[t], saved = 0;
    bool reads_a = a == p->n_items, reads_b = b == p->n_items;
    for (uint32_t k = 0; k < op->n_reads; k++) {
        const uint32_t item = p->reads[op->reads + k];
        reads_a |= item == a;
        reads_b |= item == b;
        if (is_small(s, item))
            continue;
        sum += p->items[item].bytes;
        if (k < 32 && (op->inplace >> k & 1u) != 0 && item != a && item != b &&
            p->items[item].bytes > saved)
            saved = p->items[item].bytes;
    }
    sum += reads_a ? 0 : p->items[a].bytes;
    sum += reads_b ? 0 : p->items[b].bytes;
    return sum - saved;
}

/* Of use is what later ops read, and what that can be made from. */
static void find_alive(session *s)
{
    const swi_rc_problem *p = s->p;
    for (uint32_t t = 1; t < p->n_ops; t++)
        for (uint32_t k = 0; k < p->ops[t].n_reads; k++)
            s->alive[p->reads[p->ops[t].reads + k]] = t - 1;
    for (uint32_t t = p->n_ops; t-- > 0;) {
        const swi_rc_op *op = &p->ops[t];
        uint32_t most = 0;
        for (uint32_t k = 0; k < op->n_makes; k++)
            if (s->alive[p->makes[op->makes + k]] > most)
                most = s->alive[p->makes[op->makes + k]];
        if (op->until > 0 && most >= op->until)
            most = op->until - 1;
        for (uint32_t k = 0; k < op->n_reads && op->until > 0; k++)
            if (s->alive[p->reads[op->reads + k]] < most)
                s->alive[p->reads[op->reads + k]] = most;
    }
}

static bool may_stay(const session *s, uint32_t t, uint32_t item)
{
    return s->alive[item] >= t && !is_small(s, item) &&
           live_with(s, t, item, s->p->n_items) <= s->capacity;
}

static bool is_read_by(const session *s, uint32_t t, uint32_t item)
{
    bool found = false;
    for (uint32_t k = 0; k < s->p->ops[t].n_reads; k++)
        found |= s->p->reads[s->p->ops[t].reads + k] == item;
    return found;
}

/* Of what may stay over op t on the stack: what it reads, and the two smallest of the rest. */
static uint32_t find_smallest(const session *s, uint32_t t)
{
    const swi_rc_problem *p = s->p;
    const swi_rc_op *op = &p->ops[t];
    uint32_t n = 0, small[2] = {NONE, NONE};
    for (uint32_t k = 0; k < op->n_reads; k++)
        if (may_stay(s, t, p->reads[op->reads + k]))
            s->stack[n++] = p->reads[op->reads + k];
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (s->alive[i] < t || is_read_by(s, t, i) || !may_stay(s, t, i))
            continue;
        if (small[0] == NONE || p->items[i].bytes < p->items[small[0]].bytes) {
            small[1] = small[0];
            small[0] = i;
        } else if (small[1] == NONE || p->items[i].bytes < p->items[small[1]].bytes) {
            small[1] = i;
        }
    }
    for (int k = 0; k < 2; k++)
        if (small[k] != NONE)
            s->stack[n++] = small[k];
    return n;
}

/* Can no two items stay over op t? */
static bool is_check(const session *s, uint32_t t)
{
    const uint32_t none = s->p->n_items;
    if (s->p->ops[t].n_makes > 0 || live_with(s, t, none, none) > s->capacity)
        return false;
    const uint32_t n = find_smallest(s, t);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (live_with(s, t, s->stack[a], s->stack[b]) <= s->capacity)
                return false;
    return true;
}

static bool reads_some(const session *s, uint32_t t)
{
    bool some = false;
    for (uint32_t k = 0; k < s->p->ops[t].n_reads; k++)
        some |= !is_small(s, s->p->reads[s->p->ops[t].reads + k]);
    return some;
}

/* The checks after the last op that makes an item; of several with no reads between them the
 * one with the least room. */
static void find_checks(session *s)
{
    const swi_rc_problem *p = s->p;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < p->n_items; i++)
        if (!is_small(s, i) && p->items[i].maker >= begin)
            begin = p->items[i].maker + 1;
    bool read = true;
    for (uint32_t t = begin; t < p->n_ops; t++) {
        read |= reads_some(s, t);
        if (!is_check(s, t))
            continue;
        if (read)
            s->checks[s->n_checks++] = t;
        else if (p->during[t] > p->during[s->checks[s->n_checks - 1]])
            s->checks[s->n_checks - 1] = t;
        read = false;
    }
    const uint64_t pairs = ((uint64_t)p->n_items + 1) * (p->n_items + 1);
    while (s->n_checks > 1 && s->n_checks * pairs > EFFORT) {
        for (uint32_t i = 0; i < s->n_checks / 2; i++)
            s->checks[i] = s->checks[2 * i + 1];
        s->n_checks /= 2;
    }
}

/* ---- what must run again ----------------------------------------------------------------- */

typedef struct {
    uint32_t *visited; /* by op */
    uint32_t number;   /* of this search */
    size_t slack;      /* of repeats between the checks */
    uint32_t after;    /* the check before: repeats come after it */
    uint32_t held;     /* the item that is there */
    uint64_t cost;     /* UINT64_MAX: something is lost for good */
    bool crowded;      /* some op has no room beside `held` */
} search;

static bool has_slack_beside(const session *s, const search *x, uint32_t maker)
{
    const swi_rc_op *op = &s->p->ops[maker];
    if (x->held == s->p->n_items || s->p->items[x->held].maker == maker)
        return true;
    for (uint32_t k = 0; k < op->n_reads; k++)
        if (s->p->reads[op->reads + k] == x->held)
            return true;
    return s->alone[maker] + s->p->items[x->held].bytes <= x->slack;
}

/* Recompute the n items on the stack: run their makers, and the makers of what these read,
 * except for those that have already run for an op's reads. */
static void make_all(const session *s, search *x, uint32_t n)
{
    const swi_rc_problem *p = s->p;
    while (n > 0) {
        const uint32_t item = s->stack[--n], maker = p->items[item].maker;
        const swi_rc_op *op = &p->ops[maker];
        if (item == x->held || s->base[maker] == s->base_search ||
            x->visited[maker] == x->number)
            continue;
        x->visited[maker] = x->number;
        if (op->until <= x->after || s->alone[maker] > x->slack) {
            x->cost = UINT64_MAX;
            return;
        }
        x->cost += op->cost;
        x->crowded |= !has_slack_beside(s, x, maker);
        for (uint32_t k = 0; k < op->n_reads; k++)
            if (!is_small(s, p->reads[op->reads + k]))
                s->stack[n++] = p->reads[op->reads + k];
    }
}

/* The end of what is between check c and the next one, which is in it, or the program's. */
static uint32_t end_of(const session *s, uint32_t c)
{
    return c + 1 < s->n_checks ? s->checks[c + 1] + 1 : s->p->n_ops;
}

/* The most room for repeats after check c, up to the next one. */
static size_t slack_behind(const session *s, uint32_t c)
{
    size_t least = SIZE_MAX;
    for (uint32_t t = s->checks[c] + 1; t < end_of(s, c); t++)
        least = s->p->between[t] < least ? s->p->between[t] : least;
    return least < s->capacity ? s->capacity - least : 0;
}

/* So that what ops after check c read is there, where `held` stays over it. */
static uint64_t cost_of_reads(session *s, uint32_t c, uint32_t held)
{
    const swi_rc_problem *p = s->p;
    s->base_search = ++s->n_searches;
    search x = {s->base, s->base_search, s->slack, s->checks[c], held, 0, false};
    for (uint32_t t = s->checks[c] + 1; t < end_of(s, c) && x.cost < UINT64_MAX; t++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < p->ops[t].n_reads; k++)
            if (!is_small(s, p->reads[p->ops[t].reads + k]))
                s->stack[n++] = p->reads[p->ops[t].reads + k];
        make_all(s, &x, n);
    }
    s->crowded = x.crowded;
    return x.cost;
}

/* And `item`, which stays over the next check, too; of `held` nothing is left where it had to
 * go in between. */
static uint64_t cost_of_item(session *s, uint32_t c, uint32_t held, uint32_t item)
{
    if (item == held && !s->crowded)
        return 0;
    if (item == held)
        held = s->p->n_items;
    search x = {s->more, ++s->n_searches, s->slack, s->checks[c], held, 0, false};
    s->stack[0] = item;
    make_all(s, &x, 1);
    return x.cost;
}

/* ---- the shortest path ------------------------------------------------------------------- */

static uint64_t *cost_at(const session *s, uint32_t c, uint32_t item)
{
    return &s->cost[(size_t)c * (s->p->n_items + 1) + item];
}

static uint32_t *from_at(const session *s, uint32_t c, uint32_t item)
{
    return &s->from[(size_t)c * (s->p->n_items + 1) + item];
}

/* All that may stay over the check after c, where `held` stays over c. */
static void leave(session *s, uint32_t c, uint32_t held, const bool *stays)
{
    const uint32_t none = s->p->n_items;
    const uint64_t before = *cost_at(s, c, held), reads = cost_of_reads(s, c, held);
    if (reads == UINT64_MAX)
        return;
    for (uint32_t item = 0; item <= none; item++) {
        if (!stays[item] || before + reads >= *cost_at(s, c + 1, item))
            continue;
        const uint64_t more = item < none ? cost_of_item(s, c, held, item) : 0;
        if (more == UINT64_MAX || before + reads + more >= *cost_at(s, c + 1, item))
            continue;
        *cost_at(s, c + 1, item) = before + reads + more;
        *from_at(s, c + 1, item) = held;
    }
}

/* The least cost, and what stays over the last check then. */
static uint64_t solve(session *s, uint32_t *last)
{
    const uint32_t none = s->p->n_items;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < (size_t)s->n_checks * (none + 1); i++)
        s->cost[i] = UINT64_MAX;
    for (uint32_t c = 0; c < s->n_checks; c++) {
        for (uint32_t i = 0; i <= none && c == 0; i++)
            if (i == none || may_stay(s, s->checks[0], i))
                *cost_at(s, 0, i) = 0;
        const bool ends = c + 1 == s->n_checks;
        s->slack = slack_behind(s, c);
        for (uint32_t i = 0; i <= none && !ends; i++)
            s->there[i] = i == none || may_stay(s, s->checks[c + 1], i);
        for (uint32_t i = 0; i <= none; i++) {
            if (*cost_at(s, c, i) == UINT64_MAX)
                continue;
            if (!ends) {
                leave(s, c, i, s->there);
                continue;
            }
            const uint64_t reads = cost_of_reads(s, c, i);
            if (reads < UINT64_MAX && *cost_at(s, c, i) + reads < least) {
                least = *cost_at(s, c, i) + reads;
                *last = i;
            }
        }
    }
    return least;
}

/* ---- from the path to a schedule --------------------------------------------------------- */

static sw_status make(session *s, uint32_t item, swi_rc_schedule *out)
{
    const swi_rc_problem *p = s->p;
    if (item == p->n_items || is_small(s, item) || s->there[item])
        return SW_OK;
    const uint32_t maker = p->items[item].maker;
    const swi_rc_op *op = &p->ops[maker];
    for (uint32_t k = 0; k < op->n_reads; k++)
        SW_TRY(make(s, p->reads[op->reads + k], out));
    for (uint32_t k = 0; k < op->n_makes; k++)
        s->there[p->makes[op->makes + k]] = true;
    return swi_rc_append(out, maker);
}

static sw_status write_behind(session *s, uint32_t c, uint32_t held, uint32_t next,
                              swi_rc_schedule *out)
{
    const swi_rc_problem *p = s->p;
    s->slack = slack_behind(s, c);
    (void)cost_of_reads(s, c, held);
    memset(s->there, 0, (p->n_items + 1) * sizeof *s->there);
    s->there[held] = true;
    for (uint32_t t = s->checks[c] + 1; t < end_of(s, c); t++) {
        for (uint32_t k = 0; k < p->ops[t].n_reads; k++)
            SW_TRY(make(s, p->reads[p->ops[t].reads + k], out));
        if (t + 1 == end_of(s, c)) {
            if (next == held && s->crowded)
                s->there[next] = false;
            SW_TRY(make(s, next, out));
        }
        SW_TRY(swi_rc_append(out, t));
    }
    return SW_OK;
}

static sw_status write(session *s, uint32_t last, swi_rc_schedule *out)
{
    const uint32_t none = s->p->n_items;
    uint32_t *stays = s->stays;
    stays[s->n_checks - 1] = last;
    for (uint32_t c = s->n_checks; c-- > 1;)
        stays[c - 1] = *from_at(s, c, stays[c]);
    for (uint32_t t = 0; t <= s->checks[0]; t++)
        SW_TRY(swi_rc_append(out, t));
    for (uint32_t c = 0; c < s->n_checks; c++)
        SW_TRY(write_behind(s, c, stays[c], c + 1 < s->n_checks ? stays[c + 1] : none, out));
    return swi_rc_follow(s->p, out);
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_status walk(session *s, uint64_t *least, swi_rc_schedule *out)
{
    const size_t states = (size_t)s->n_checks * (s->p->n_items + 1);
    uint32_t last = s->p->n_items;
    SW_TRY(sw_heap_alloc(&s->cost, SW_HEAP_PROGRAMS,
                         states * (sizeof *s->cost + sizeof *s->from)));
    s->from = (uint32_t *)(void *)(s->cost + states);
    *least = solve(s, &last);
    sw_status status = SW_OK;
    if (*least < UINT64_MAX && out != NULL)
        status = write(s, last, out);
    sw_heap_free(s->cost, SW_HEAP_PROGRAMS, states * (sizeof *s->cost + sizeof *s->from));
    return status;
}

sw_status swi_rc_single(const swi_rc_problem *problem, size_t capacity, uint64_t *least,
                        swi_rc_schedule *out)
{
    session s = {.p = problem, .capacity = capacity};
    *least = 0;
    if (problem->n_items > SWI_RC_SINGLE_ITEMS)
        return SW_OK;
    {
        const swi_rc_problem *p = s.p;
        size_t reads = p->n_ops + 2;
        for (uint32_t t = 0; t < p->n_ops; t++)
            reads += p->ops[t].n_reads;
        size_t sum = 0;
        const size_t alone = sw_size_part(&sum, p->n_ops * sizeof *s.alone);
        const size_t checks = sw_size_part(&sum, p->n_ops * sizeof *s.checks);
        const size_t stays = sw_size_part(&sum, p->n_ops * sizeof *s.stays);
        const size_t base = sw_size_part(&sum, p->n_ops * sizeof *s.base);
        const size_t more = sw_size_part(&sum, p->n_ops * sizeof *s.more);
        const size_t stack = sw_size_part(&sum, reads * sizeof *s.stack);
        const size_t alive = sw_size_part(&sum, p->n_items * sizeof *s.alive);
        const size_t there = sw_size_part(&sum, (p->n_items + 1) * sizeof *s.there);
        SW_TRY(sw_heap_alloc(&s.block, SW_HEAP_PROGRAMS, sum));
        unsigned char *b = s.block;
        s.bytes = sum;
        s.alone = (size_t *)(void *)(b + alone);
        s.checks = (uint32_t *)(void *)(b + checks);
        s.stays = (uint32_t *)(void *)(b + stays);
        s.base = (uint32_t *)(void *)(b + base);
        s.more = (uint32_t *)(void *)(b + more);
        s.stack = (uint32_t *)(void *)(b + stack);
        s.alive = (uint32_t *)(void *)(b + alive);
        s.there = (bool *)(b + there);
    }
    const swi_rc_problem *p = s.p;
    for (uint32_t t = 0; t < p->n_ops; t++) {
        const swi_rc_op *op = &p->ops[t];
        size_t sum = op->scratch, saved = 0;
        for (uint32_t k = 0; k < op->n_makes; k++)
            if (!is_small(&s, p->makes[op->makes + k]))
                sum += p->items[p->makes[op->makes + k]].bytes;
        for (uint32_t k = 0; k < op->n_reads; k++) {
            const uint32_t item = p->reads[op->reads + k];
            const size_t bytes = is_small(&s, item) ? 0 : p->items[item].bytes;
            sum += bytes;
            if (k < 32 && (op->inplace >> k & 1u) != 0 && bytes > saved)
                saved = bytes;
        }
        s.alone[t] = sum - saved;
    }
    find_alive(&s);
    find_checks(&s);
    const sw_status status = s.n_checks > 0 ? walk(&s, least, out) : SW_OK;
    sw_heap_free(s.block, SW_HEAP_PROGRAMS, s.bytes);
    return status;
}
