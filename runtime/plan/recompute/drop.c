/* Schedules between those of the chain, and below them: items that are held and not used are
 * dropped.
 *
 * The chain's schedules keep what a gradient reads until it has read it. So between two of them
 * there may be a wide gap, though at most of the steps that are too high a little would do: the
 * result of a norm that its input brings back for nearly nothing, or a checkpoint that is far
 * from being read. So each schedule is brought down to the peak of the next ones: at the step
 * that is highest, some item is there that has been read before and is read again later. It
 * goes, and its maker runs before that reader, with what must run for that. Of all items
 * the one is taken that costs least for each byte that it takes away above the required peak,
 * summed over all steps; again and again, until nothing is above. Repeats that save nothing
 * then go.
 *
 * Where the result is cheaper than what the chain has for the peak, it takes its place, and is
 * made better: each dear repeat is left out once, and what that raises brought down again. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/plan/recompute/chain_internal.h"
#include <string.h>

#define NONE UINT32_MAX
#define MOST_LOOKED 20000000u /* steps that are followed for all schedules; measured: 0.2 s */
#define WORTH 64u        /* of the program's cost: what a gap is at least, to be looked at */
#define SOURCES 2u       /* schedules before a gap to start from */
#define DEAR 1024u       /* of the program's cost: what a repeat is at least, to be left out */
#define SMALL_SHARE 256u /* of the peak: items that are not worth it */
#define MAX_DEPTH 256

/* How a maker that runs again gets its items: items that are read later anyway live in any
 * case. */
typedef enum {
    TAKE_BEHIND, /* items made after the highest step live longer */
    TAKE_READ,   /* what the maker itself reads stays longer */
    TAKE_NONE,   /* all else is made too */
    N_WAYS
} way;

typedef struct {
    const swi_rc_problem *p;
    size_t wanted;                     /* the peak */
    uint64_t most;                     /* what is of use costs less */
    uint64_t all;                      /* cost of the program */
    uint64_t left;                     /* steps that may still be followed */
    uint32_t *now, *next, *end, *made; /* by item */
    uint32_t *last;                    /* by instance: the step of its last read */
    uint32_t cap_last;
    uint32_t *more; /* ops that run before the reader */
    uint32_t n_more;
    bool *added, *gone; /* by op; by item */
    void *block;
    size_t bytes;
} session;

/* A schedule's figures. */
typedef struct {
    uint64_t over, cost; /* bytes above the required peak, summed over all steps */
    uint32_t worst;      /* the highest step */
} figures;

/* One item that goes. */
typedef struct {
    uint32_t item,
        reader; /* the step before which it is recomputed; NONE: no item can be dropped */
    way how;
    double price;
    figures then;
} choice;

/* ---- how high each step is --------------------------------------------------------------- */

static void count(session *x, const swi_rc_schedule *s)
{
    x->left -= x->left < s->n_steps ? x->left : s->n_steps;
}

static sw_status find_last_reads(session *x, const swi_rc_schedule *s)
{
    const swi_rc_problem *p = x->p;
    uint32_t made = 0;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        for (uint32_t k = 0; k < op->n_reads; k++)
            x->last[x->now[p->reads[op->reads + k]]] = i;
        if (made + op->n_makes > x->cap_last) {
            SW_TRY(
                sw_heap_reserve(&x->last, SW_HEAP_PROGRAMS, &x->cap_last, made + op->n_makes));
        }
        for (uint32_t k = 0; k < op->n_makes; k++) {
            x->now[p->makes[op->makes + k]] = made;
            x->last[made++] = i;
        }
    }
    return SW_OK;
}

/* The bytes that end at step i; *place: those of them that the result may overwrite. */
static size_t ends_at(const session *x, const swi_rc_op *op, uint32_t i, size_t *position)
{
    size_t sum = 0;
    *position = 0;
    for (uint32_t k = 0; k < op->n_reads; k++) {
        const uint32_t item = x->p->reads[op->reads + k];
        if (x->last[x->now[item]] != i)
            continue;
        sum += x->p->items[item].bytes;
        if (*position == 0 && k < 32 && (op->inplace >> k & 1u) != 0)
            *position = x->p->items[item].bytes;
    }
    return sum;
}

/* As swi_rc_follow counts, of a schedule that can be. */
static sw_status look(session *x, const swi_rc_schedule *s, figures *out)
{
    const swi_rc_problem *p = x->p;
    uint32_t made = 0, first = 0;
    size_t live = 0, highest = 0;
    *out = (figures){0};
    SW_TRY(find_last_reads(x, s));
    count(x, s);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        const bool repeat = s->steps[i] < first;
        size_t position,
            at = live + (repeat ? p->between[first] + op->scratch : p->during[first]);
        const size_t ends = ends_at(x, op, i, &position);
        SW_ASSERT(ends <= live && position <= ends);
        live -= ends;
        at -= position;
        for (uint32_t k = 0; k < op->n_makes; k++) {
            const uint32_t item = p->makes[op->makes + k];
            at += p->items[item].bytes;
            x->now[item] = made;
            live += x->last[made++] > i ? p->items[item].bytes : 0;
        }
        out->over += at > x->wanted ? at - x->wanted : 0;
        out->cost += repeat ? op->cost : 0;
        first += !repeat;
        if (at > highest) {
            highest = at;
            out->worst = i;
        }
    }
    return SW_OK;
}

/* The items that live before step b: when each was made, and read last. *first: the op
 * that runs for the first time there. */
static void find_there(session *x, const swi_rc_schedule *s, uint32_t b, uint32_t *first)
{
    const swi_rc_problem *p = x->p;
    *first = 0;
    count(x, s);
    for (uint32_t i = 0; i < p->n_items; i++)
        x->made[i] = NONE;
    memset(x->gone, 0, p->n_items);
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const swi_rc_op *op = &p->ops[s->steps[i]];
        for (uint32_t k = 0; k < op->n_reads; k++)
            if (!x->gone[p->reads[op->reads + k]])
                x->end[p->reads[op->reads + k]] = i;
        for (uint32_t k = 0; k < op->n_makes; k++) {
            const uint32_t item = p->makes[op->makes + k];
            x->gone[item] = i >= b;
            if (i < b)
                x->made[item] = x->end[item] = i;
        }
        *first += i < b && s->steps[i] == *first;
    }
}

/* ---- making it again --------------------------------------------------------------------- */

typedef struct {
    uint32_t at, reader, first;
    way how;
} position;

static bool is_there(const session *x, const position *w, uint32_t item, int depth)
{
    if (x->made[item] == NONE)
        return false;
    return x->end[item] >= w->reader || (w->how == TAKE_BEHIND && x->made[item] > w->at) ||
           (w->how == TAKE_READ && depth == 1);
}

/* The makers that must run, into x->more; false: one may not. */
static bool make(session *x, const position *w, uint32_t item, int depth)
{
    const uint32_t maker = x->p->items[item].maker;
    const swi_rc_op *op = &x->p->ops[maker];
    if (x->added[maker])
        return true;
    if (op->until < w->first || depth == MAX_DEPTH)
        return false;
    for (uint32_t k = 0; k < op->n_reads; k++) {
        const uint32_t read = x->p->reads[op->reads + k];
        if (!is_there(x, w, read, depth + 1) && !make(x, w, read, depth + 1))
            return false;
    }
    x->added[maker] = true;
    x->more[x->n_more++] = maker;
    return true;
}

static sw_status insert(const session *x, swi_rc_schedule *s, uint32_t reader)
{
    const uint32_t n = x->n_more;
    for (uint32_t i = 0; i < n; i++)
        SW_TRY(swi_rc_append(s, 0));
    memmove(s->steps + reader + n, s->steps + reader,
            (s->n_steps - n - reader) * sizeof *s->steps);
    memcpy(s->steps + reader, x->more, n * sizeof *s->steps);
    return SW_OK;
}

static void take_out(swi_rc_schedule *s, uint32_t from, uint32_t n)
{
    memmove(s->steps + from, s->steps + from + n, (s->n_steps - n - from) * sizeof *s->steps);
    s->n_steps -= n;
}

/* The item goes, and is recomputed in this way, as *best says where it costs least. */
static sw_status try_way(session *x, swi_rc_schedule *s, const figures *now, const position *w,
                         uint32_t item, uint32_t *before, choice *best)
{
    figures then;
    uint64_t cost = 0;
    x->n_more = 0;
    memset(x->added, 0, x->p->n_ops);
    if (!make(x, w, item, 0) || x->n_more == *before)
        return SW_OK; /* as many as the way before: the same */
    *before = x->n_more;
    for (uint32_t i = 0; i < x->n_more; i++)
        cost += x->p->ops[x->more[i]].cost;
    /* It takes away all that is above at most. */
    if (now->cost + cost >= x->most ||
        (best->item != NONE && (double)cost / (double)now->over >= best->price))
        return SW_OK;
    SW_TRY(insert(x, s, w->reader));
    const sw_status status = look(x, s, &then);
    take_out(s, w->reader, x->n_more);
    if (status != SW_OK || then.over >= now->over)
        return status;
    const double price = (double)(then.cost - now->cost) / (double)(now->over - then.over);
    if (best->item == NONE || price < best->price)
        *best = (choice){item, w->reader, w->how, price, then};
    return SW_OK;
}

/* Bring s down to the required peak for less than `most`. */
static sw_status bring_down(session *x, swi_rc_schedule *s, uint64_t most, bool *done)
{
    figures now;
    x->most = most;
    SW_TRY(look(x, s, &now));
    while (now.over > 0 && now.cost < most && x->left > 0) {
        choice best = {.item = NONE};
        /* x->next: by item that lives at `at` and is not used there, the first step after `at`
         * that reads it; NONE: it does not live, or is not read. */
        const swi_rc_problem *p = x->p;
        for (uint32_t i = 0; i < p->n_items; i++) {
            x->next[i] = NONE;
            x->gone[i] = p->items[i].bytes <= x->wanted / SMALL_SHARE;
        }
        for (uint32_t i = now.worst; i < s->n_steps; i++) {
            const swi_rc_op *op = &p->ops[s->steps[i]];
            for (uint32_t k = 0; k < op->n_reads; k++) {
                const uint32_t item = p->reads[op->reads + k];
                if (!x->gone[item] && i > now.worst)
                    x->next[item] = i;
                x->gone[item] = true;
            }
            for (uint32_t k = 0; k < op->n_makes; k++)
                x->gone[p->makes[op->makes + k]] = true;
        }
        for (uint32_t i = 0; i < x->p->n_items; i++)
            if (x->next[i] != NONE) {
                position w = {.at = now.worst, .reader = x->next[i]};
                uint32_t before = 0;
                find_there(x, s, w.reader, &w.first);
                for (int how = 0; how < N_WAYS; how++) {
                    w.how = (way)how;
                    SW_TRY(try_way(x, s, &now, &w, i, &before, &best));
                }
            }
        if (best.item == NONE)
            break;
        position w = {.at = now.worst, .reader = best.reader, .how = best.how};
        find_there(x, s, w.reader, &w.first);
        x->n_more = 0;
        memset(x->added, 0, x->p->n_ops);
        (void)make(x, &w, best.item, 0);
        SW_TRY(insert(x, s, w.reader));
        now = best.then;
    }
    *done = now.over == 0 && now.cost < most;
    return SW_OK;
}

/* Leave repeats out, one by one, where nothing is above the required peak then. */
static sw_status thin(session *x, swi_rc_schedule *s)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->n_steps && x->left > 0; i++) {
        const uint32_t op = s->steps[i];
        figures then;
        if (op == first) {
            first++;
            continue;
        }
        take_out(s, i, 1);
        SW_TRY(look(x, s, &then));
        if (then.over == 0) {
            i--;
            continue;
        }
        x->more[0] = op;
        x->n_more = 1;
        SW_TRY(insert(x, s, i));
    }
    return swi_rc_follow(x->p, s);
}

/* ---- better ones ------------------------------------------------------------------------- */

/* Is the j-th so much dearer than the one before that something between them is worth it? */
static bool is_gap(const session *x, const swi_rc_family *f, uint32_t j)
{
    return f->schedules[j].cost - f->schedules[j - 1].cost > x->all / WORTH;
}

/* Gap by gap, the cheaper ones first; each has its share of the effort. */
static sw_status close_gaps(session *x, swi_rc_family *f)
{
    uint32_t gaps = 0;
    for (uint32_t j = 1; j < f->n; j++)
        gaps += is_gap(x, f, j);
    uint64_t rest = MOST_LOOKED;
    for (uint32_t j = 1; j < f->n && gaps > 0; j++) {
        if (f->schedules[j].cost < f->schedules[j - 1].cost || !is_gap(x, f, j))
            continue;
        x->left = rest / gaps;
        gaps -= gaps > 1;
        rest -= x->left;
        x->wanted = f->schedules[j].peak;
        for (uint32_t k = j; k > 0 && k + SOURCES > j; k--) {
            /* Schedule k of the family, brought down to the peak of the j-th, in its place
             * if cheaper. */
            swi_rc_schedule s = {0};
            bool done;
            SW_TRY(swi_rc_copy(&s, &f->schedules[k - 1]));
            sw_status status = bring_down(x, &s, f->schedules[j].cost, &done);
            if (status == SW_OK && done)
                status = thin(x, &s);
            if (status == SW_OK && done && s.cost < f->schedules[j].cost) {
                const swi_rc_schedule dearer = f->schedules[j];
                f->schedules[j] = s;
                s = dearer;
            }
            swi_rc_free(&s);
            SW_TRY(status);
        }
        uint32_t first = 0;
        for (uint32_t i = 0; i < f->schedules[j].n_steps && x->left > 0; i++) {
            const uint32_t op = f->schedules[j].steps[i];
            first += op == first;
            if (op + 1 < first && x->p->ops[op].cost > x->all / DEAR) {
                /* Without the repeat at step i, brought down again: in s where that is
                 * cheaper. */
                swi_rc_schedule *s = &f->schedules[j];
                swi_rc_schedule other = {0};
                bool done;
                SW_TRY(swi_rc_copy(&other, s));
                take_out(&other, i, 1);
                sw_status status = bring_down(x, &other, s->cost, &done);
                if (status == SW_OK && done)
                    status = thin(x, &other);
                if (status == SW_OK && done && other.cost < s->cost) {
                    const swi_rc_schedule worse = *s;
                    *s = other;
                    other = worse;
                }
                swi_rc_free(&other);
                SW_TRY(status);
            }
        }

        rest += x->left;
    }
    return SW_OK;
}

sw_status swi_rc_drop(const swi_rc_problem *p, swi_rc_family *f)
{
    session x = {.p = p};
    for (uint32_t t = 0; t < p->n_ops; t++)
        x.all += p->ops[t].cost;
    const size_t items = x.p->n_items * sizeof(uint32_t), ops = x.p->n_ops;
    size_t sum = 0;
    const size_t at[] = {sw_size_part(&sum, 4 * items),
                         sw_size_part(&sum, ops * sizeof(uint32_t)), sw_size_part(&sum, ops),
                         sw_size_part(&sum, x.p->n_items)};
    SW_TRY(sw_heap_alloc(&x.block, SW_HEAP_PROGRAMS, sum));
    x.bytes = sum;
    unsigned char *b = x.block;
    x.now = (uint32_t *)(void *)b;
    x.next = x.now + x.p->n_items;
    x.end = x.next + x.p->n_items;
    x.made = x.end + x.p->n_items;
    x.more = (uint32_t *)(void *)(b + at[1]);
    x.added = (bool *)(void *)(b + at[2]);
    x.gone = (bool *)(void *)(b + at[3]);

    const sw_status status = close_gaps(&x, f);
    swi_rc_family_tidy(f);
    sw_heap_free(x.last, SW_HEAP_PROGRAMS, x.cap_last * sizeof *x.last);
    sw_heap_free(x.block, SW_HEAP_PROGRAMS, x.bytes);
    return status;
}
