/* Schedules of a chain by dynamic programming.
 *
 * As in Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova (2019), "Optimal checkpointing for
 * heterogeneous chains", with two changes: a program that branches is a chain of borders,
 * each with the set of items that cross it; and what an item's neighbours still need is
 * distinguished, so that a node that is not read again is not run again.
 *
 * again(i, j, room): the least cost of running the groups j .. i + 1, when groups above j are
 * done and all items that nodes i + 1 .. j and their groups read from before them are there.
 * `room` is what may live then. Either
 *   node i + 1 runs and what its group reads is kept: then again(i + 1, j, less that room); or
 *   the nodes up to a checkpoint s run for what crosses it: then again(s, j, ..) with what the
 *   groups up to s read held back, and again(i, s, room) after it.
 * last(i, room) is the same for j = n in the first pass, where running a node costs nothing.
 *
 * An item that crosses border s may be read by groups on both sides (an activation's result: by
 * its own gradient, and by the next layer's): the `both` of s. Those of i may be held anyway,
 * by what waits for groups up to i, and then take no room here; those of j may still be there
 * from what ran before, and then need not be made. So again comes in four kinds, last in two.
 *
 * Rooms are counted in levels of `quantum` bytes, and some sums are estimates (the rounding, an
 * item that a skip connection shares): so the program gives schedules for all levels, and what
 * each of them really peaks at is found by following it. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/chain_internal.h"
#include <math.h>
#include <string.h>

#define NONE UINT32_MAX

static sw_status chain_schedules(const swi_chain *c, size_t peak, swi_rc_family *out);

/* A program as a chain: which forward ops make a node, which backward ops belong to it. */

/* Bytes of the items in a, and not in b (NULL: none). */
static size_t chain_bytes(const swi_chain *c, const uint64_t *a, const uint64_t *b)
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
    /* Gather neighbours until there are at most SWI_CHAIN_NODES. */
    while (c->n > SWI_CHAIN_NODES) {
        uint32_t n = 0;
        for (uint32_t k = 1; k <= c->n; k += 2) {
            const uint32_t to = c->node[k < c->n ? k + 1 : k].to;
            c->node[++n] = (swi_chain_node){.from = c->node[k].from, .to = to};
        }
        c->n = n;
    }
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

/* The most that lives while group k runs: fixed bytes, and items that it still reads, but those
 * in `but` (NULL: none). scratch: a set. */
static size_t chain_group_bytes(const swi_chain *c, uint32_t k, const uint64_t *but,
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
        const size_t at = p->during[t] + chain_bytes(c, rest, but) - saved;
        most = at > most ? at : most;
    }
    return most;
}

static sw_status take_nodes(swi_chain *c, readers **r)
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

/* ---- chain family ------------------------------------------------------------------------ */

/* The family of schedules of a chain: found for all peaks, then made better one by one. */

#define MOST_MEMBERS 128u
#define MOST_FOLLOWED 5000000u /* steps that are followed to make schedules better */

void swi_rc_family_free(swi_rc_family *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        swi_rc_free(&f->schedules[i]);
    sw_heap_free(f->schedules, SW_HEAP_PROGRAMS, f->cap * sizeof *f->schedules);
    *f = (swi_rc_family){0};
}

/* Takes the schedule over, also when it fails. */
static sw_status rc_family_add(swi_rc_family *f, swi_rc_schedule *s)
{
    const sw_status status =
        sw_heap_reserve(&f->schedules, SW_HEAP_PROGRAMS, &f->cap, f->n + 1);
    if (status != SW_OK) {
        swi_rc_free(s);
        return status;
    }
    f->schedules[f->n++] = *s;
    return SW_OK;
}

static bool before(const swi_rc_schedule *a, const swi_rc_schedule *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->peak < b->peak;
}

/* Sort by cost and leave out what costs more and peaks no lower; of more than MOST_MEMBERS,
 * every other one until they are few. */
void swi_rc_family_tidy(swi_rc_family *f)
{
    for (uint32_t i = 1; i < f->n; i++) {
        const swi_rc_schedule x = f->schedules[i];
        uint32_t k = i;
        for (; k > 0 && before(&x, &f->schedules[k - 1]); k--)
            f->schedules[k] = f->schedules[k - 1];
        f->schedules[k] = x;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        if (kept > 0 && f->schedules[i].peak >= f->schedules[kept - 1].peak)
            swi_rc_free(&f->schedules[i]);
        else
            f->schedules[kept++] = f->schedules[i];
    }
    f->n = kept;
    while (f->n > MOST_MEMBERS) {
        kept = 0;
        for (uint32_t i = 0; i < f->n; i++) {
            if (i % 2 == 1 && i + 1 < f->n)
                swi_rc_free(&f->schedules[i]);
            else
                f->schedules[kept++] = f->schedules[i];
        }
        f->n = kept;
    }
}

/* Leave repeats out, one by one, where the peak stays under what it is. `left` counts the steps
 * that may still be followed. */
static sw_status leave_out(const swi_rc_problem *p, swi_rc_schedule *s, size_t *left)
{
    const size_t peak = s->peak;
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->n_steps && *left >= s->n_steps; i++) {
        if (s->steps[i] == first) {
            first++;
            continue;
        }
        const uint32_t op = s->steps[i];
        *left -= s->n_steps;
        memmove(s->steps + i, s->steps + i + 1, (s->n_steps - i - 1) * sizeof *s->steps);
        s->n_steps--;
        SW_TRY(swi_rc_follow(p, s));
        if (s->peak <= peak) {
            i--;
            continue;
        }
        memmove(s->steps + i + 1, s->steps + i, (s->n_steps - i) * sizeof *s->steps);
        s->steps[i] = op;
        s->n_steps++;
    }
    return swi_rc_follow(p, s);
}

/* Does op `b` read what op `a` makes? */
static bool reads_from(const swi_rc_problem *p, uint32_t b, uint32_t a)
{
    for (uint32_t k = 0; k < p->ops[b].n_reads; k++)
        if (p->items[p->reads[p->ops[b].reads + k]].maker == a)
            return true;
    return false;
}

/* Let each repeat, the last first, stand right before the first step that reads it, where
 * the peak is not raised by it. */
static sw_status put_off(const swi_rc_problem *p, swi_rc_schedule *s, size_t *left)
{
    uint32_t first = p->n_ops;
    SW_TRY(swi_rc_follow(p, s));
    for (uint32_t i = s->n_steps; i-- > 0 && *left >= s->n_steps;) {
        const uint32_t op = s->steps[i];
        if (op == first - 1) {
            first--;
            continue;
        }
        uint32_t to = i;
        while (to + 1 < s->n_steps && !reads_from(p, s->steps[to + 1], op) &&
               s->steps[to + 1] != op)
            to++;
        if (to == i || to + 1 == s->n_steps)
            continue;
        const size_t peak = s->peak;
        *left -= s->n_steps;
        memmove(s->steps + i, s->steps + i + 1, (to - i) * sizeof *s->steps);
        s->steps[to] = op;
        const sw_status moved = swi_rc_follow(p, s);
        if (moved != SW_OK && moved != SW_INVALID)
            return moved;
        if (moved == SW_OK && s->peak <= peak)
            continue; /* what stands here now has been looked at */
        memmove(s->steps + i + 1, s->steps + i, (to - i) * sizeof *s->steps);
        s->steps[i] = op;
        SW_TRY(swi_rc_follow(p, s));
    }
    return SW_OK;
}

static sw_status better(const swi_rc_problem *p, swi_rc_family *f)
{
    size_t left = MOST_FOLLOWED;
    swi_rc_family_tidy(f);
    for (uint32_t i = 1; i < f->n; i++) {
        size_t share = left / (f->n - i);
        left -= share;
        SW_TRY(put_off(p, &f->schedules[i], &share));
        SW_TRY(leave_out(p, &f->schedules[i], &share));
        left += share;
    }
    swi_rc_family_tidy(f);
    return SW_OK;
}

/* Where the lowest peak leaves room for hardly anything, the chain's way to it is far from the
 * best: what it reads from before a part stays until that is done. */
static sw_status lowest(const swi_rc_problem *p, swi_rc_family *f)
{
    swi_rc_schedule s = {0};
    uint64_t least;
    size_t left = MOST_FOLLOWED / 8;
    sw_status status = swi_rc_single(p, f->schedules[f->n - 1].peak, &least, &s);
    if (status == SW_OK && s.n_steps > 0)
        status = put_off(p, &s, &left);
    const bool gains = s.n_steps > 0 && s.cost < f->schedules[f->n - 1].cost &&
                       s.peak < f->schedules[f->n > 1 ? f->n - 2 : 0].peak;
    if (status != SW_OK || !gains) {
        swi_rc_free(&s);
        return status == SW_INVALID ? SW_OK : status;
    }
    /* The chain's own lowest stays after it: placed, it may still need less. */
    swi_rc_schedule own = f->schedules[--f->n];
    status = rc_family_add(f, &s);
    if (status == SW_OK)
        swi_rc_family_tidy(f);
    if (status == SW_OK && own.cost > f->schedules[f->n - 1].cost)
        return rc_family_add(f, &own);
    swi_rc_free(&own);
    return status;
}

/* The program as it stands: what repeats nothing. */
static sw_status add_plain(const swi_rc_problem *p, swi_rc_family *f)
{
    swi_rc_schedule s = {0};
    sw_status status = SW_OK;
    for (uint32_t t = 0; status == SW_OK && t < p->n_ops; t++)
        status = swi_rc_append(&s, t);
    if (status == SW_OK)
        status = swi_rc_follow(p, &s);
    if (status != SW_OK) {
        swi_rc_free(&s);
        return status;
    }
    return rc_family_add(f, &s);
}

static sw_status fill_family(const swi_chain *c, swi_rc_family *out)
{
    SW_TRY(add_plain(c->p, out));
    SW_TRY(chain_schedules(c, out->schedules[0].peak, out));
    SW_TRY(better(c->p, out));
    return lowest(c->p, out);
}

sw_status swi_rc_chain(const swi_rc_problem *p, const uint32_t *backward_of, swi_rc_family *out)
{
    swi_chain chain;
    *out = (swi_rc_family){0};
    {
        swi_chain *c = &chain;
        readers *r;
        *c = (swi_chain){.p = p};
        SW_TRY(take_nodes(c, &r));
        for (uint32_t i = 0; i < p->n_items; i++)
            r[i] = (readers){NONE, false};
        for (uint32_t t = 0; t < p->n_ops; t++)
            for (uint32_t k = 0; k < p->ops[t].n_reads; k++) {
                readers *x = &r[p->reads[p->ops[t].reads + k]];
                x->others |= x->reader != NONE || p->ops[t].n_makes == 0;
                x->reader = t;
            }
        make_nodes(c, r);
        make_sets(c);
        for (uint32_t k = 1; k <= c->n; k++)
            find_run(c, r, k);
        make_groups(c, backward_of);
        for (uint32_t j = 0; j <= c->n; j++)
            if (c->node[j].start < c->p->n_ops)
                c->node[j].between = c->p->between[c->node[j].start];
    }
    const sw_status status = fill_family(&chain, out);
    swi_chain *c = &chain;
    sw_heap_free(c->block, SW_HEAP_PROGRAMS, c->bytes);
    *c = (swi_chain){0};
    if (status != SW_OK)
        swi_rc_family_free(out);
    return status;
}

/* ---- chain ------------------------------------------------------------------------------- */

#define MOST_LEVELS 1024u
#define MOST_WORK 8e7 /* inner steps of one kind: nodes^3 / 6 * levels */
#define MOST_CELLS (1u << 22)

typedef struct {
    bool held; /* the `both` of i are held by others */
    bool ends; /* the `both` of j are there */
} kind;

typedef struct {
    const swi_chain *c;
    size_t quantum, pairs;
    uint32_t levels;
    uint64_t *crossing; /* sets by ends and pair: what nodes and groups of (s, j] read from up
                           to s and find not there */
    uint8_t *useful;    /* by ends and pair: does (.., j] read what node s makes? */
    uint64_t *both;     /* sets by border */
    size_t *both_bytes;
    size_t *crossing_bytes; /* by kind and pair: of `crossing`, but what others hold */
    size_t *group;          /* by held and node: the most that lives while its group runs */
    float *again, *last;    /* costs; figures of one row never rise with the level */
    uint64_t *scratch;      /* a set */
    void *block;
    size_t bytes;
} program;

/* Pairs 0 <= s <= j <= n. */
static size_t pair(uint32_t s, uint32_t j)
{
    return (size_t)j * (j + 1) / 2 + s;
}

static uint64_t *both_at(const program *d, uint32_t s)
{
    return d->both + (size_t)s * d->c->words;
}

/* A kind says nothing where there is nothing on both sides. */
static kind settled(const program *d, kind v, uint32_t i, uint32_t j)
{
    return (kind){v.held && d->both_bytes[i] > 0, v.ends && d->both_bytes[j] > 0};
}

static float *again_at(const program *d, kind v, uint32_t i, uint32_t j)
{
    v = settled(d, v, i, j);
    return d->again + ((size_t)(2 * v.held + v.ends) * d->pairs + pair(i, j)) * d->levels;
}

static float *last_at(const program *d, bool held, uint32_t i)
{
    held = held && d->both_bytes[i] > 0;
    return d->last + ((size_t)held * (d->c->n + 1) + i) * d->levels;
}

static uint64_t *crossing_at(const program *d, bool ends, uint32_t s, uint32_t j)
{
    return d->crossing + (ends * d->pairs + pair(s, j)) * d->c->words;
}

static size_t crossing_bytes(const program *d, kind v, uint32_t s, uint32_t j)
{
    return d->crossing_bytes[(size_t)(2 * v.held + v.ends) * d->pairs + pair(s, j)];
}

static bool is_useful(const program *d, bool ends, uint32_t s, uint32_t j)
{
    return d->useful[ends * d->pairs + pair(s, j)] != 0;
}

/* ---- what crosses ------------------------------------------------------------------------ */

static bool meets(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++)
        if ((a[w] & b[w]) != 0)
            return true;
    return false;
}

static void find_crossing_to(program *d, bool ends, uint32_t j)
{
    const swi_chain *c = d->c;
    for (uint32_t s = j; s > 0; s--) {
        const uint64_t *here = crossing_at(d, ends, s, j);
        uint64_t *before = crossing_at(d, ends, s - 1, j);
        const uint64_t *makes = swi_chain_set(c, c->makes, s);
        const uint64_t *reads = swi_chain_set(c, c->reads, s);
        const uint64_t *wanted = swi_chain_set(c, c->wanted, s);
        bool useful = false;
        for (uint32_t w = 0; w < c->words; w++)
            useful |=
                (makes[w] & (here[w] | wanted[w]) & (ends ? ~both_at(d, j)[w] : ~0ull)) != 0;
        for (uint32_t w = 0; w < c->words; w++)
            before[w] = (here[w] | wanted[w] | (useful ? reads[w] : 0)) & ~makes[w] &
                        (ends ? ~both_at(d, j)[w] : ~0ull);
        d->useful[ends * d->pairs + pair(s, j)] = useful;
    }
}

/* ---- the two choices --------------------------------------------------------------------- */

typedef struct {
    uint32_t need, held; /* levels: room at least; room that the inner part has not */
    float cost;
} choice;

static uint32_t up(const program *d, size_t bytes)
{
    const size_t n = (bytes + d->quantum - 1) / d->quantum;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static uint32_t nearest(const program *d, size_t bytes)
{
    return up(d, bytes > d->quantum / 2 ? bytes - d->quantum / 2 : 0);
}

/* Bytes that are kept while an inner part runs: of `a` and `b` (NULL: none). Bytes that others
 * hold are left out, also those that live at the end: they are counted separately. */
static size_t waiting(const program *d, kind v, uint32_t i, uint32_t j, const uint64_t *a,
                      const uint64_t *b)
{
    const swi_chain *c = d->c;
    size_t sum = 0;
    for (uint32_t w = 0; w < c->words; w++) {
        uint64_t rest = a[w] | (b != NULL ? b[w] : 0);
        if (v.held)
            rest &= ~both_at(d, i)[w];
        if (v.ends)
            rest &= ~both_at(d, j)[w];
        for (; rest != 0; rest &= rest - 1)
            sum += c->p->items[w * 64 + (uint32_t)__builtin_ctzll(rest)].bytes;
    }
    return sum;
}

/* Node i + 1 runs, and what its group reads stays. */
static choice keep(const program *d, kind v, uint32_t i, uint32_t j, bool first)
{
    const swi_chain *c = d->c;
    const swi_chain_node *node = &c->node[i + 1];
    const uint64_t *inner = crossing_at(d, v.ends, i + 1, j);
    const uint64_t *wanted = swi_chain_set(c, c->wanted, i + 1);
    const size_t beside = v.ends ? d->both_bytes[j] : 0;
    const size_t group = d->group[v.held * (c->n + 1) + i + 1];
    choice x = {.need = up(d, group + (i + 1 < j ? beside : 0))};
    if (i + 1 < j)
        x.held = nearest(d, waiting(d, v, i, j, wanted, both_at(d, i + 1)));
    if (!first && !is_useful(d, v.ends, i + 1, j))
        return x;
    size_t run = crossing_bytes(d, v, i, j) + beside +
                 (first ? node->first : node->run + c->node[j].between);
    if (node->dies != NONE && !swi_chain_has(inner, node->dies) &&
        !swi_chain_has(wanted, node->dies) &&
        !(v.held && swi_chain_has(both_at(d, i), node->dies)))
        run -= node->saved;
    const uint32_t need = up(d, run);
    x.need = need > x.need ? need : x.need;
    x.cost = first ? 0.0f : (float)node->cost;
    return x;
}

/* Scans nodes s, s - 1, ... for what must run so that `crossing(s, j)` is there, and with
 * `left` the `both` of s. */
typedef struct {
    uint64_t *set; /* what the nodes after the scan read from before it */
    float cost;
    size_t most;   /* lives while a node runs, with what passes by */
    size_t before; /* the same without the node that was scanned last */
    uint32_t last; /* the node that was scanned last, if it runs, else 0 */
    bool first;    /* in the first pass */
} scan;

static size_t run_of(const program *d, const scan *x, uint32_t k)
{
    return x->first ? d->c->node[k].first : d->c->node[k].run;
}

static scan scan_from(const program *d, kind v, uint32_t s, uint32_t j, bool first, bool left,
                      uint64_t *set)
{
    for (uint32_t w = 0; w < d->c->words; w++) {
        set[w] = crossing_at(d, v.ends, s, j)[w];
        if (left)
            set[w] |= both_at(d, s)[w] & (v.ends ? ~both_at(d, j)[w] : UINT64_MAX);
    }
    return (scan){.set = set, .first = first};
}

static void scan_node(const program *d, scan *x, uint32_t k)
{
    const swi_chain *c = d->c;
    const uint64_t *makes = swi_chain_set(c, c->makes, k);
    const uint64_t *reads = swi_chain_set(c, c->reads, k);
    x->before = x->most;
    x->last = 0;
    if (!meets(makes, x->set, c->words))
        return;
    const swi_chain_node *node = &c->node[k];
    const bool passes = node->dies != NONE && swi_chain_has(x->set, node->dies);
    for (uint32_t w = 0; w < c->words; w++)
        x->set[w] = (x->set[w] & ~makes[w]) | reads[w];
    size_t at = chain_bytes(c, x->set, NULL) + run_of(d, x, k);
    if (node->dies != NONE && !passes)
        at -= node->saved;
    if (at > x->most)
        x->most = at;
    x->cost += (float)node->cost;
    x->last = k;
}

/* The nodes after i up to s have been scanned: a checkpoint at s. left: what comes after the
 * groups down to s finds the `both` of s there. */
static choice checkpoint(const program *d, kind v, const scan *x, uint32_t i, uint32_t s,
                         uint32_t j, bool left)
{
    const size_t held =
        waiting(d, v, i, j, crossing_at(d, left, i, s), left ? both_at(d, s) : NULL);
    const size_t beside =
        (v.ends ? d->both_bytes[j] : 0) + (x->first ? 0 : d->c->node[j].between);
    const size_t need = crossing_bytes(d, (kind){v.held, false}, i, s) + x->before;
    const size_t begin =
        crossing_bytes(d, v, i, j) + (x->last != 0 ? run_of(d, x, x->last) : 0);
    return (choice){.need = up(d, (begin > need ? begin : need) + beside),
                    .held = nearest(d, held),
                    .cost = x->first ? 0.0f : x->cost};
}

/* ---- tables ------------------------------------------------------------------------------ */

/* The parts after a choice: the inner part with less room, then the left one with all of it
 * (NULL: none). */
typedef struct {
    const float *inner, *left;
} rows;

static float sum_at(const rows *r, const choice *x, uint32_t l)
{
    return x->cost + r->inner[l - x->held] + (r->left != NULL ? r->left[l] : 0.0f);
}

/* In parts of a size that compilers turn into vectors; functions of their own, since `restrict`
 * is of parameters. */
#define PART 32

static void add_part(float *restrict to, const float *restrict inner, float cost)
{
    for (int k = 0; k < PART; k++) {
        const float sum = cost + inner[k];
        to[k] = sum < to[k] ? sum : to[k];
    }
}
static void add_parts(float *restrict to, const float *restrict inner,
                      const float *restrict left, float cost)
{
    for (int k = 0; k < PART; k++) {
        const float sum = cost + inner[k] + left[k];
        to[k] = sum < to[k] ? sum : to[k];
    }
}

/* The least of to[0 .. n) and the sums. Of a part the last sum is the least, and the first of
 * `to` the most: most parts are passed over. */
static void lower_row(float *to, const float *inner, const float *left, float cost, uint32_t n)
{
    for (uint32_t l = 0; l < n; l += PART) {
        const uint32_t end = n - l < PART ? n : l + PART;
        if (!(cost + inner[end - 1] + (left != NULL ? left[end - 1] : 0.0f) < to[l]))
            continue;
        if (end - l == PART && left == NULL)
            add_part(to + l, inner + l, cost);
        else if (end - l == PART)
            add_parts(to + l, inner + l, left + l, cost);
        else
            for (uint32_t k = l; k < end; k++) {
                const float sum = cost + inner[k] + (left != NULL ? left[k] : 0.0f);
                to[k] = sum < to[k] ? sum : to[k];
            }
    }
}

static void improve(const program *d, float *to, rows r, choice x)
{
    const uint32_t low = x.need > x.held ? x.need : x.held, top = d->levels - 1;
    if (low > top || !(sum_at(&r, &x, top) < to[low]))
        return;
    lower_row(to + low, r.inner + (low - x.held), r.left != NULL ? r.left + low : NULL, x.cost,
              top + 1 - low);
}

static rows rows_of_keep(const program *d, kind v, uint32_t i, uint32_t j, bool first)
{
    return (rows){first ? last_at(d, true, i + 1) : again_at(d, (kind){true, v.ends}, i + 1, j),
                  NULL};
}

static rows rows_of_checkpoint(const program *d, kind v, uint32_t i, uint32_t s, uint32_t j,
                               bool first, bool left)
{
    return (rows){first ? last_at(d, left, s) : again_at(d, (kind){left, v.ends}, s, j),
                  again_at(d, (kind){v.held, left}, i, s)};
}

static void clear(const program *d, float *row, float value)
{
    for (uint32_t l = 0; l < d->levels; l++)
        row[l] = value;
}

/* Whether a border has two kinds: 0 or 1 for the last of a loop over them. */
static int last_of(const program *d, uint32_t border)
{
    return d->both_bytes[border] > 0;
}

/* All rows of one j. The scans of all s, two for each, go on by one node each time i falls. */
static void fill(program *d, bool ends, uint32_t j, bool first, scan *scans, uint64_t *sets)
{
    const uint32_t words = d->c->words;
    for (int held = 0; held <= last_of(d, j); held++)
        clear(d, first ? last_at(d, held != 0, j) : again_at(d, (kind){held != 0, ends}, j, j),
              0.0f);
    for (uint32_t i = j; i-- > 0;) {
        for (uint32_t k = 2 * (i + 1); i + 1 < j && k < 2 * (i + 2); k++)
            scans[k] = scan_from(d, (kind){false, ends}, i + 1, j, first, k % 2 != 0,
                                 sets + (size_t)k * words);
        for (uint32_t k = 2 * (i + 1); k < 2 * j; k++)
            if (k % 2 == 0 || last_of(d, k / 2) > 0)
                scan_node(d, &scans[k], i + 1);
        for (int held = 0; held <= last_of(d, i); held++) {
            /* The row of (i, j) of a kind, from those of smaller j and, for the same j, of
             * greater i. */
            const kind v = (kind){held != 0, ends};
            float *row = first ? last_at(d, v.held, i) : again_at(d, v, i, j);
            clear(d, row, INFINITY);
            improve(d, row, rows_of_keep(d, v, i, j, first), keep(d, v, i, j, first));
            for (uint32_t s = i + 1; s < j; s++)
                for (int left = 0; left <= last_of(d, s); left++)
                    improve(
                        d, row, rows_of_checkpoint(d, v, i, s, j, first, left != 0),
                        checkpoint(d, v, &scans[2 * s + (uint32_t)left], i, s, j, left != 0));
        }
    }
}

/* ---- from tables to schedules ------------------------------------------------------------ */

typedef struct {
    program *d;
    swi_rc_schedule *to;
    sw_status status;
} writer;

static void write_op(writer *w, uint32_t op)
{
    if (w->status == SW_OK)
        w->status = swi_rc_append(w->to, op);
}

static void write_node(writer *w, uint32_t k)
{
    const swi_chain *c = w->d->c;
    for (uint32_t i = c->node[k].from; i < c->node[k].to; i++)
        write_op(w, c->makers[i]);
}

static void write_group(writer *w, uint32_t k)
{
    const swi_chain *c = w->d->c;
    const uint32_t end = k > 0 ? c->node[k - 1].start : c->p->n_ops;
    for (uint32_t t = c->node[k].start; t < end; t++)
        write_op(w, t);
}

/* Scan (i, s] for a checkpoint at s inside (i, j]. runs[k] (NULL: not asked for): node k must
 * run. */
static scan scan_range(const program *d, kind v, uint32_t i, uint32_t s, uint32_t j, bool first,
                       bool left, uint8_t *runs)
{
    scan x = scan_from(d, v, s, j, first, left, d->scratch);
    for (uint32_t k = s; k > i; k--) {
        scan_node(d, &x, k);
        if (runs != NULL)
            runs[k] = x.last == k;
    }
    return x;
}

static bool stands_for(float figure, const rows *r, const choice *x, uint32_t l)
{
    return l >= x->need && l >= x->held && sum_at(r, x, l) <= figure;
}

/* The choice after the figure at level l: the checkpoint, or 0 where node i + 1 is kept. */
static uint32_t choose(const program *d, kind v, uint32_t i, uint32_t j, uint32_t l, bool first,
                       choice *out, bool *left)
{
    const float figure = first ? last_at(d, v.held, i)[l] : again_at(d, v, i, j)[l];
    rows r = rows_of_keep(d, v, i, j, first);
    *out = keep(d, v, i, j, first);
    if (stands_for(figure, &r, out, l))
        return 0;
    for (uint32_t s = i + 1; s < j; s++) {
        for (int k = 0; k <= last_of(d, s); k++) {
            *left = k != 0;
            const scan x = scan_range(d, v, i, s, j, first, *left, NULL);
            r = rows_of_checkpoint(d, v, i, s, j, first, *left);
            *out = checkpoint(d, v, &x, i, s, j, *left);
            if (stands_for(figure, &r, out, l))
                return s;
        }
    }
    return 0;
}

static void write_again(writer *w, kind v, uint32_t i, uint32_t j, uint32_t l)
{
    if (i == j || w->status != SW_OK)
        return;
    const program *d = w->d;
    choice x;
    bool left = false;
    v = settled(d, v, i, j);
    const uint32_t s = choose(d, v, i, j, l, false, &x, &left);
    if (s == 0) {
        if (is_useful(d, v.ends, i + 1, j))
            write_node(w, i + 1);
        write_again(w, (kind){true, v.ends}, i + 1, j, l - x.held);
        write_group(w, i + 1);
        return;
    }
    uint8_t runs[SWI_CHAIN_NODES + 1];
    (void)scan_range(d, v, i, s, j, false, left, runs);
    for (uint32_t k = i + 1; k <= s; k++)
        if (runs[k])
            write_node(w, k);
    write_again(w, (kind){left, v.ends}, s, j, l - x.held);
    write_again(w, (kind){v.held, left}, i, s, l);
}

static void write_last(writer *w, bool held, uint32_t i, uint32_t l)
{
    const uint32_t n = w->d->c->n;
    if (i == n || w->status != SW_OK)
        return;
    choice x;
    bool left = false;
    const kind v = settled(w->d, (kind){held, false}, i, n);
    const uint32_t s = choose(w->d, v, i, n, l, true, &x, &left);
    if (s == 0) {
        write_last(w, true, i + 1, l - x.held);
        write_group(w, i + 1);
    } else {
        write_last(w, left, s, l - x.held);
        write_again(w, (kind){v.held, left}, i, s, l);
    }
}

static sw_status write_schedule(program *d, uint32_t level, swi_rc_schedule *out)
{
    *out = (swi_rc_schedule){0};
    writer w = {d, out, SW_OK};
    for (uint32_t t = 0; t < d->c->backward; t++)
        write_op(&w, t);
    write_last(&w, false, 0, level);
    write_group(&w, 0);
    if (w.status == SW_OK)
        w.status = swi_rc_follow(d->c->p, out);
    if (w.status != SW_OK)
        swi_rc_free(out);
    return w.status;
}

/* ---- memory ------------------------------------------------------------------------------ */

static size_t common_divisor(const swi_rc_problem *p)
{
    size_t g = 0;
    for (uint32_t i = 0; i < p->n_items; i++)
        g = sw_size_gcd(g, p->items[i].bytes);
    return g;
}

static sw_status take(program *d, scan **scans, uint64_t **sets)
{
    const size_t n = d->c->n, set = d->c->words * sizeof(uint64_t);
    d->pairs = (n + 1) * (n + 2) / 2;
    const size_t parts[] = {4 * d->pairs * d->levels * sizeof *d->again,
                            2 * (n + 1) * d->levels * sizeof *d->last,
                            2 * d->pairs * set,
                            (n + 1) * set,
                            2 * (n + 1) * set,
                            set,
                            4 * d->pairs * sizeof(size_t),
                            (n + 1) * sizeof(size_t),
                            2 * (n + 1) * sizeof(size_t),
                            2 * (n + 1) * sizeof(scan),
                            2 * d->pairs};
    enum { PARTS = sizeof parts / sizeof *parts };
    size_t at[PARTS];
    for (int i = 0; i < PARTS; i++)
        at[i] = sw_size_part(&d->bytes, parts[i]);
    SW_TRY(sw_heap_alloc(&d->block, SW_HEAP_PROGRAMS, d->bytes));
    unsigned char *b = d->block;
    d->again = (float *)(void *)b;
    d->last = (float *)(void *)(b + at[1]);
    d->crossing = (uint64_t *)(void *)(b + at[2]);
    d->both = (uint64_t *)(void *)(b + at[3]);
    *sets = (uint64_t *)(void *)(b + at[4]);
    d->scratch = (uint64_t *)(void *)(b + at[5]);
    d->crossing_bytes = (size_t *)(void *)(b + at[6]);
    d->both_bytes = (size_t *)(void *)(b + at[7]);
    d->group = (size_t *)(void *)(b + at[8]);
    *scans = (scan *)(void *)(b + at[9]);
    d->useful = b + at[10];
    return SW_OK;
}

static sw_status solve(program *d, size_t peak, swi_rc_family *out)
{
    scan *scans;
    uint64_t *sets;
    /* Levels up to `peak`, as fine as the effort allows; whole parts of the items' common
     * divisor where that is coarser, so that sums of items are exact. */
    const double n = d->c->n + 1.0;
    double most = MOST_WORK / (n * n * n / 6.0);
    if (most > MOST_CELLS / (n * n / 2.0))
        most = MOST_CELLS / (n * n / 2.0);
    if (most > MOST_LEVELS)
        most = MOST_LEVELS;
    if (most < 16.0)
        most = 16.0;
    const size_t finest = peak / (size_t)most + 1;
    size_t q = common_divisor(d->c->p);
    while (q / 2 >= finest && q % 2 == 0)
        q /= 2;
    d->quantum = q > finest ? q : finest;
    d->levels = (uint32_t)(peak / d->quantum) + 2;
    SW_TRY(take(d, &scans, &sets));
    const swi_chain *c = d->c;
    for (uint32_t j = 0; j <= c->n; j++)
        find_crossing_to(d, false, j);
    for (uint32_t j = 0; j <= c->n; j++) {
        /* Items that cross border j and that groups on both sides read. */
        uint64_t *read = d->scratch;
        memset(read, 0, c->words * sizeof *read);
        for (uint32_t k = 0; k <= j; k++)
            for (uint32_t w = 0; w < c->words; w++)
                read[w] |= swi_chain_set(c, c->wanted, k)[w];
        for (uint32_t w = 0; w < c->words; w++)
            both_at(d, j)[w] = crossing_at(d, false, j, c->n)[w] & read[w];
        d->both_bytes[j] = chain_bytes(c, both_at(d, j), NULL);
        find_crossing_to(d, true, j);
    }
    for (int v = 0; v < 4; v++)
        for (uint32_t j = 0; j <= c->n; j++)
            for (uint32_t s = 0; s <= j; s++)
                d->crossing_bytes[(size_t)v * d->pairs + pair(s, j)] = chain_bytes(
                    c, crossing_at(d, v % 2 != 0, s, j), v / 2 != 0 ? both_at(d, s) : NULL);
    for (uint32_t k = 1; k <= c->n; k++) {
        d->group[k] = chain_group_bytes(c, k, NULL, d->scratch);
        d->group[c->n + 1 + k] = chain_group_bytes(c, k, both_at(d, k - 1), d->scratch);
    }
    for (uint32_t j = 0; j <= d->c->n; j++)
        for (int ends = 0; ends <= last_of(d, j); ends++)
            fill(d, ends != 0, j, false, scans, sets);
    fill(d, false, d->c->n, true, scans, sets);
    float cost = INFINITY;
    for (uint32_t l = 0; l < d->levels; l++) {
        if (!(last_at(d, false, 0)[l] < cost))
            continue;
        cost = last_at(d, false, 0)[l];
        swi_rc_schedule s;
        const sw_status status = write_schedule(d, l, &s);
        if (status == SW_INVALID)
            continue; /* it repeats what has been overwritten */
        SW_TRY(status);
        SW_TRY(rc_family_add(out, &s));
    }
    return SW_OK;
}

/* A schedule for each level of room that makes a difference: chain.c. They are followed. */
static sw_status chain_schedules(const swi_chain *c, size_t peak, swi_rc_family *out)
{
    program d = {.c = c};
    const sw_status status = solve(&d, peak, out);
    sw_heap_free(d.block, SW_HEAP_PROGRAMS, d.bytes);
    return status;
}
