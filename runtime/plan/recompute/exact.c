/* The cheapest schedule, by best-first search (A*) over states: the op of the program that runs
 * next, and the set of items that are held.
 *
 * A state is left by running an op: the next one of the program, or one that ran before, for
 * its cost. Nothing is dropped without need: holding more never hurts while it fits, so a set
 * is dropped just before the run that would not fit otherwise, and only sets of which no part
 * could stay. An item that nothing can read any more is dropped at once.
 *
 * The estimate of what a state must still pay is what it has lost: makers of items that the
 * rest of the program reads and that are not held, the makers of what those read and is not
 * held, and so on, each once. No search begins where swi_rc_bound proves more than is of
 * interest under its capacity.
 *
 * Of the cheapest schedules one of least peak is found by searching again below the peak,
 * in halves, cut off at the cost that is known. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/recompute.h"
#include <string.h>

#define NONE UINT32_MAX

typedef struct {
    uint64_t held, cost;
    uint32_t next;       /* op of the program */
    uint32_t parent, op; /* reached from `parent` by running `op` */
} state;

typedef struct {
    uint64_t estimate, cost;
    uint32_t next, state;
} entry;

/* An op that makes items, in bits. */
typedef struct {
    uint64_t reads, makes, cost;
    uint32_t op, until;
} maker;

typedef struct {
    const swi_rc_problem *p;
    size_t capacity;
    /* Items are numbered by falling bytes: bit i is item `item[i]`. */
    size_t bytes[SWI_RC_EXACT_ITEMS];
    uint32_t maker_of[SWI_RC_EXACT_ITEMS];
    maker makers[SWI_RC_EXACT_ITEMS];
    uint32_t n_makers;
    /* of each op, in one block: */
    uint64_t *reads, *makes;
    uint64_t *places; /* reads in whose place the first item or a fixed result may lie */
    uint64_t *wanted; /* n_ops + 1: made before op t, and read from there on by the program */
    uint64_t *alive;  /* n_ops + 1: may still be read, by the program or a repeat */
    void *block;
    size_t block_bytes;
    state *states;
    entry *queue;
    uint32_t *table; /* states by hash; NONE: free */
    uint32_t n_states, cap_states, n_queue, cap_queue, cap_table;
    uint64_t left;   /* states that may still be made */
    uint64_t cutoff; /* what costs more is of no interest */
    uint64_t proved; /* no schedule under the capacity costs less */
    bool ran_out;
    sw_status status;
} search;

static uint32_t lowest(uint64_t set)
{
    return (uint32_t)__builtin_ctzll(set);
}

static size_t bytes_of(const search *s, uint64_t set)
{
    size_t bytes = 0;
    for (; set != 0; set &= set - 1)
        bytes += s->bytes[lowest(set)];
    return bytes;
}

/* ---- the problem in bits ----------------------------------------------------------------- */

static void find_makers(search *s, const uint32_t *bit_of)
{
    const swi_rc_problem *p = s->p;
    for (uint32_t t = 0; t < p->n_ops; t++) {
        const swi_rc_op *op = &p->ops[t];
        for (uint32_t k = 0; k < op->n_reads; k++) {
            const uint64_t bit = 1ull << bit_of[p->reads[op->reads + k]];
            s->reads[t] |= bit;
            if (k < 32 && (op->inplace >> k & 1u) != 0)
                s->places[t] |= bit;
        }
        for (uint32_t k = 0; k < op->n_makes; k++) {
            const uint32_t bit = bit_of[p->makes[op->makes + k]];
            s->makes[t] |= 1ull << bit;
            s->maker_of[bit] = s->n_makers;
        }
        if (op->n_makes > 0)
            s->makers[s->n_makers++] =
                (maker){s->reads[t], s->makes[t], op->cost, t, op->until};
    }
}

/* Items that are still read before op t: by the program, and by what can be repeated for it. */
static uint64_t alive_before(const search *s, uint32_t t, uint64_t alive)
{
    for (uint32_t m = s->n_makers; m-- > 0;) {
        const maker *one = &s->makers[m];
        if (one->op < t && t <= one->until && (one->makes & alive) != 0)
            alive |= one->reads;
    }
    return alive;
}

static sw_status prepare(search *s)
{
    const swi_rc_problem *p = s->p;
    uint32_t bit_of[SWI_RC_EXACT_ITEMS];
    s->block_bytes = (5 * (size_t)p->n_ops + 2) * sizeof(uint64_t);
    SW_TRY(sw_heap_alloc(&s->block, SW_HEAP_PROGRAMS, s->block_bytes));
    s->reads = s->block;
    s->makes = s->reads + p->n_ops;
    s->places = s->makes + p->n_ops;
    s->wanted = s->places + p->n_ops;
    s->alive = s->wanted + p->n_ops + 1;
    uint32_t order[SWI_RC_EXACT_ITEMS];
    for (uint32_t i = 0; i < p->n_items; i++) {
        uint32_t at = i;
        for (; at > 0 && p->items[order[at - 1]].bytes < p->items[i].bytes; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t bit = 0; bit < p->n_items; bit++) {
        bit_of[order[bit]] = bit;
        s->bytes[bit] = p->items[order[bit]].bytes;
    }
    find_makers(s, bit_of);
    uint64_t read = 0, made = 0;
    for (uint32_t t = 0; t < p->n_ops; t++)
        made |= s->makes[t];
    for (uint32_t t = p->n_ops; t-- > 0;) {
        read |= s->reads[t];
        made &= ~s->makes[t];
        s->wanted[t] = read & made;
        s->alive[t] = alive_before(s, t, s->wanted[t]);
    }
    return SW_OK;
}

/* ---- states ------------------------------------------------------------------------------ */

static uint32_t hash(uint32_t next, uint64_t held)
{
    uint64_t x = held * 0x9e3779b97f4a7c15ull ^ (next + 1) * 0xbf58476d1ce4e5b9ull;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebull;
    return (uint32_t)(x >> 32);
}

static uint32_t *slot_of(const search *s, uint32_t next, uint64_t held)
{
    uint32_t at = hash(next, held) & (s->cap_table - 1);
    while (s->table[at] != NONE &&
           (s->states[s->table[at]].held != held || s->states[s->table[at]].next != next))
        at = (at + 1) & (s->cap_table - 1);
    return &s->table[at];
}

static sw_status grow(void *array, uint32_t *cap, size_t size, uint32_t first)
{
    void *block;
    memcpy(&block, array, sizeof block);
    const uint32_t to = *cap == 0 ? first : 2 * *cap;
    SW_TRY(sw_heap_resize(&block, SW_HEAP_PROGRAMS, *cap * size, to * size));
    memcpy(array, &block, sizeof block);
    *cap = to;
    return SW_OK;
}

static sw_status reserve(search *s)
{
    if (s->n_states == s->cap_states)
        SW_TRY(grow(&s->states, &s->cap_states, sizeof *s->states, 1024));
    if (s->n_queue == s->cap_queue)
        SW_TRY(grow(&s->queue, &s->cap_queue, sizeof *s->queue, 1024));
    if (2 * s->n_states >= s->cap_table) {
        SW_TRY(grow(&s->table, &s->cap_table, sizeof *s->table, 4096));
        memset(s->table, 0xff, s->cap_table * sizeof *s->table);
        for (uint32_t i = 0; i < s->n_states; i++)
            *slot_of(s, s->states[i].next, s->states[i].held) = i;
    }
    return SW_OK;
}

/* Smaller estimates first, then what is further along, then what is newer. */
static bool before(const entry *a, const entry *b)
{
    if (a->estimate != b->estimate)
        return a->estimate < b->estimate;
    return a->next != b->next ? a->next > b->next : a->state > b->state;
}

static entry dequeue(search *s)
{
    const entry top = s->queue[0], e = s->queue[--s->n_queue];
    uint32_t at = 0;
    for (uint32_t child = 1; child < s->n_queue; child = 2 * at + 1) {
        if (child + 1 < s->n_queue && before(&s->queue[child + 1], &s->queue[child]))
            child++;
        if (!before(&s->queue[child], &e))
            break;
        s->queue[at] = s->queue[child];
        at = child;
    }
    s->queue[at] = e;
    return top;
}

/* The cost that must still be paid; UINT64_MAX where something is lost for good. */
static uint64_t to_pay(const search *s, uint32_t next, uint64_t held)
{
    uint64_t lost = s->wanted[next] & ~held, seen = 0, cost = 0;
    while (lost != 0) {
        const uint32_t m = s->maker_of[lowest(lost)];
        const maker *one = &s->makers[m];
        if (one->until < next)
            return UINT64_MAX;
        cost += one->cost;
        seen |= one->makes;
        lost = (lost | (one->reads & ~held)) & ~seen;
    }
    return cost;
}

/* Running `op` in state `parent` leads to (next, held). */
static void reach(search *s, uint32_t parent, uint32_t op, uint32_t next, uint64_t held,
                  uint64_t cost)
{
    const uint64_t rest = to_pay(s, next, held);
    if (s->status != SW_OK || s->ran_out || rest == UINT64_MAX || cost + rest > s->cutoff)
        return;
    if ((s->status = reserve(s)) != SW_OK)
        return;
    uint32_t *slot = slot_of(s, next, held);
    if (*slot == NONE) {
        if (s->left == 0) {
            s->ran_out = true;
            return;
        }
        s->left--;
        *slot = s->n_states++;
    } else if (s->states[*slot].cost <= cost) {
        return;
    }
    s->states[*slot] = (state){held, cost, next, parent, op};
    entry e = (entry){cost + rest, cost, next, *slot};
    uint32_t at = s->n_queue++;
    for (; at > 0 && before(&e, &s->queue[(at - 1) / 2]); at = (at - 1) / 2)
        s->queue[at] = s->queue[(at - 1) / 2];
    s->queue[at] = e;
}

/* ---- leaving a state --------------------------------------------------------------------- */

typedef struct {
    uint32_t parent, op, next;
    uint64_t after; /* held when it has run, were nothing dropped */
    uint64_t cost;
    size_t spare; /* drops of so much need no place of a read */
} run;

/* Drop sets of `from` of at least `bytes` of which no part could stay: items in order of
 * falling bytes, so a set that is just enough needs its last and so all. */
static void drop(search *s, const run *r, uint64_t from, uint64_t dropped, size_t bytes,
                 size_t sum)
{
    if (sum >= bytes) {
        if (sum < r->spare)
            reach(s, r->parent, r->op, r->next, r->after & ~dropped, r->cost);
        return;
    }
    size_t rest = bytes_of(s, from);
    while (sum + rest >= bytes && s->status == SW_OK && !s->ran_out) {
        const uint32_t item = lowest(from);
        from &= from - 1;
        rest -= s->bytes[item];
        drop(s, r, from, dropped | 1ull << item, bytes, sum + s->bytes[item]);
    }
}

static void leave_by(search *s, uint32_t from, uint32_t op, bool repeat)
{
    const swi_rc_problem *p = s->p;
    const uint64_t held = s->states[from].held & ~s->makes[op];
    const uint32_t t = s->states[from].next;
    run r = {from, op, repeat ? t : t + 1, 0, s->states[from].cost, SIZE_MAX};
    if (repeat)
        r.cost += p->ops[op].cost;
    const uint64_t alive = s->alive[r.next];
    const uint64_t kept = held & (alive | s->reads[op]), places = s->places[op];
    size_t total = bytes_of(s, kept) + bytes_of(s, s->makes[op]);
    total += repeat ? p->between[t] + p->ops[op].scratch : p->during[t];
    if ((places & ~alive) != 0)
        total -= s->bytes[lowest(places & ~alive)];
    const size_t over = total > s->capacity ? total - s->capacity : 0;
    r.after = (kept | s->makes[op]) & alive;
    drop(s, &r, kept & ~s->reads[op], 0, over, 0);
    if (over == 0 || (places & ~alive) != 0)
        return;
    r.spare = over; /* drops of so much would do without a place */
    for (uint64_t rest = places; rest != 0; rest &= rest - 1) {
        const uint32_t place = lowest(rest);
        const size_t gain = s->bytes[place];
        drop(s, &r, kept & ~s->reads[op], 1ull << place, over > gain ? over - gain : 0, 0);
    }
}

/* ---- searches ---------------------------------------------------------------------------- */

/* The cheapest way to the end of what costs no more than `cutoff`: its last state, or NONE. */
static uint32_t solve(search *s, size_t capacity, uint64_t cutoff)
{
    s->capacity = capacity;
    s->cutoff = cutoff;
    s->n_states = s->n_queue = 0;
    if (s->cap_table > 0)
        memset(s->table, 0xff, s->cap_table * sizeof *s->table);
    s->status = swi_rc_bound(s->p, capacity, &s->proved);
    if (s->status != SW_OK || s->proved == UINT64_MAX || s->proved > cutoff)
        return NONE;
    reach(s, NONE, NONE, 0, 0, 0);
    while (s->n_queue > 0 && s->status == SW_OK && !s->ran_out) {
        const entry e = dequeue(s);
        if (e.cost != s->states[e.state].cost)
            continue;
        if (e.estimate > s->proved)
            s->proved = e.estimate;
        if (e.next == s->p->n_ops)
            return e.state;
        const uint32_t t = s->states[e.state].next;
        const uint64_t held = s->states[e.state].held;
        if ((s->reads[t] & ~held) == 0)
            leave_by(s, e.state, t, false);
        for (uint32_t m = 0; m < s->n_makers; m++) {
            const maker *one = &s->makers[m];
            if (one->op < t && t <= one->until && (one->reads & ~held) == 0 &&
                (one->makes & s->alive[t] & ~held) != 0)
                leave_by(s, e.state, one->op, true);
        }
    }
    if (s->status == SW_OK && !s->ran_out)
        s->proved = UINT64_MAX; /* or above the cutoff */
    return NONE;
}

/* The runs that led to a state, in order. */
static sw_status retrace(const search *s, uint32_t last, swi_rc_schedule *out)
{
    out->n_steps = 0;
    for (uint32_t at = last; s->states[at].parent != NONE; at = s->states[at].parent)
        SW_TRY(swi_rc_append(out, s->states[at].op));
    for (uint32_t i = 0; i < out->n_steps / 2; i++) {
        const uint32_t op = out->steps[i];
        out->steps[i] = out->steps[out->n_steps - 1 - i];
        out->steps[out->n_steps - 1 - i] = op;
    }
    return swi_rc_follow(s->p, out);
}

/* The unit that all sums of bytes are a multiple of. */
static size_t unit_of(const swi_rc_problem *p)
{
    size_t unit = 0;
    for (uint32_t i = 0; i < p->n_items; i++)
        unit = sw_size_gcd(unit, p->items[i].bytes);
    for (uint32_t t = 0; t < p->n_ops; t++) {
        unit = sw_size_gcd(unit, p->during[t]);
        unit = sw_size_gcd(unit, p->between[t]);
        unit = sw_size_gcd(unit, p->ops[t].scratch);
    }
    return unit > 0 ? unit : 1;
}

/* The least peak at the cost of *out. First just below its peak: it is often the least. */
static sw_status lower(search *s, swi_rc_schedule *out)
{
    const size_t unit = unit_of(s->p);
    size_t under = 0; /* too small, in units */
    for (size_t top = out->peak / unit, try = top - 1; under + 1 < top;
         try = under + (top - under) / 2) {
        const uint32_t last = solve(s, try * unit, out->cost);
        if (s->status != SW_OK || s->ran_out)
            return s->status;
        if (last == NONE) {
            under = try;
        } else {
            SW_TRY(retrace(s, last, out));
            top = out->peak / unit;
        }
    }
    return SW_OK;
}

static sw_status find(search *s, size_t capacity, swi_rc_schedule *best, bool *found,
                      uint64_t *least)
{
    SW_TRY(prepare(s));
    const uint32_t last = solve(s, capacity, UINT64_MAX - 1);
    SW_TRY(s->status);
    *least = s->proved;
    *found = last != NONE;
    if (last == NONE)
        return SW_OK;
    SW_TRY(retrace(s, last, best));
    return lower(s, best);
}

sw_status swi_rc_exact(const swi_rc_problem *problem, size_t capacity, uint64_t *nodes,
                       swi_rc_schedule *out, bool *found, uint64_t *least)
{
    if (problem->n_items > SWI_RC_EXACT_ITEMS)
        SW_FAIL(SW_UNSUPPORTED, "exact schedules must have at most %u items (got %u)",
                SWI_RC_EXACT_ITEMS, problem->n_items);
    search *s;
    SW_TRY(sw_heap_alloc(&s, SW_HEAP_PROGRAMS, sizeof(search)));
    s->p = problem;
    const uint64_t given = *nodes < NONE / 4 ? *nodes : NONE / 4;
    s->left = given;
    swi_rc_schedule best = {0};
    bool there = false;
    uint64_t bound = 0;
    const sw_status status = find(s, capacity, &best, &there, &bound);
    *nodes -= given - s->left;
    sw_heap_free(s->block, SW_HEAP_PROGRAMS, s->block_bytes);
    sw_heap_free(s->states, SW_HEAP_PROGRAMS, s->cap_states * sizeof *s->states);
    sw_heap_free(s->queue, SW_HEAP_PROGRAMS, s->cap_queue * sizeof *s->queue);
    sw_heap_free(s->table, SW_HEAP_PROGRAMS, s->cap_table * sizeof *s->table);
    sw_heap_free(s, SW_HEAP_PROGRAMS, sizeof *s);
    if (status != SW_OK || !there) {
        swi_rc_free(&best);
    } else {
        swi_rc_free(out);
        *out = best;
    }
    if (status == SW_OK) {
        *found = there;
        *least = bound;
    }
    return status;
}
