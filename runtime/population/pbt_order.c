/* The virtual order of asynchronous turns, and the ranking of members by their scores.
 *
 * The heap has all members that go on. The key of one is how long it has trained itself, with
 * the report that waits, and then its index: as if all trained at once and equally fast. Who
 * has no report comes after those that have one, since its next report will be later. (The
 * time of its state will not do. It goes back with an exploit, so a member that stays the worst
 * would always come first, and donors would never get on.) Where the top has a report no other
 * member can have an earlier turn any more, so it is taken; where it has none it is the one to
 * run next. So decisions do not depend on the order in which reports come. */
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

/* ---- heap -------------------------------------------------------------------------------- */

static bool before(const sw_pbt *p, uint32_t a, uint32_t b)
{
    const swi_pbt_one *x = &p->one[a], *y = &p->one[b];
    const double s = swi_pbt_clock(x), t = swi_pbt_clock(y);
    return s != t ? s < t : x->due != y->due ? x->due : a < b;
}

static void put(sw_pbt *p, uint64_t at, uint32_t member)
{
    p->heap[at] = member;
    p->heap_at[member] = (uint32_t)at;
}

static void sift(sw_pbt *p, uint64_t at)
{
    const uint32_t member = p->heap[at];
    while (at > 0 && before(p, member, p->heap[(at - 1) / 2])) {
        put(p, at, p->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= p->s.n_heap)
            break;
        if (child + 1 < p->s.n_heap && before(p, p->heap[child + 1], p->heap[child]))
            child++;
        if (!before(p, p->heap[child], member))
            break;
        put(p, at, p->heap[child]);
        at = child;
    }
    put(p, at, member);
}

void swi_pbt_heap_fill(sw_pbt *p)
{
    p->s.n_heap = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->one[i].ended)
            continue;
        put(p, p->s.n_heap++, i);
        sift(p, p->s.n_heap - 1);
    }
}

void swi_pbt_heap_move(sw_pbt *p, uint32_t member)
{
    sift(p, p->heap_at[member]);
}

void swi_pbt_heap_drop(sw_pbt *p, uint32_t member)
{
    const uint64_t at = p->heap_at[member];
    const uint32_t last = p->heap[--p->s.n_heap];
    if (last == member)
        return;
    put(p, at, last);
    sift(p, at);
}

/* ---- ranking ----------------------------------------------------------------------------- */

static bool below(const sw_pbt *p, uint32_t a, uint32_t b)
{
    const double s = p->one[a].score, t = p->one[b].score;
    return s != t ? s < t : a < b;
}

uint64_t swi_pbt_rank_of(const sw_pbt *p, uint32_t member)
{
    uint64_t from = 0, to = p->s.n_rank;
    while (from < to) {
        const uint64_t mid = (from + to) / 2;
        if (below(p, p->rank[mid], member))
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

void swi_pbt_rank_add(sw_pbt *p, uint32_t member)
{
    if (isnan(p->one[member].score))
        return;
    const uint64_t at = swi_pbt_rank_of(p, member);
    memmove(p->rank + at + 1, p->rank + at, (p->s.n_rank - at) * sizeof *p->rank);
    p->rank[at] = member;
    p->s.n_rank++;
}

void swi_pbt_rank_drop(sw_pbt *p, uint32_t member)
{
    if (isnan(p->one[member].score))
        return;
    const uint64_t at = swi_pbt_rank_of(p, member);
    p->s.n_rank--;
    memmove(p->rank + at, p->rank + at + 1, (p->s.n_rank - at) * sizeof *p->rank);
}

/* Let rank[at] sink in a heap of n with the highest on top. */
static void sink(sw_pbt *p, uint64_t at, uint64_t n)
{
    for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && below(p, p->rank[child], p->rank[child + 1]);
        const uint32_t member = p->rank[at];
        if (!below(p, member, p->rank[child]))
            return;
        p->rank[at] = p->rank[child];
        p->rank[child] = member;
    }
}

void swi_pbt_rank_all(sw_pbt *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (!p->one[i].ended && !isnan(p->one[i].score))
            p->rank[n++] = i;
    p->s.n_rank = n;
    for (uint64_t at = n / 2; at-- > 0;)
        sink(p, at, n);
    while (n > 1) { /* all different by their index: the order is one */
        const uint32_t most = p->rank[0];
        p->rank[0] = p->rank[--n];
        p->rank[n] = most;
        sink(p, 0, n);
    }
}

/* ---- who is compared with whom ----------------------------------------------------------- */

/* Of the quantile alone as many as Ray Tune takes: ceil(n q), floor(n / 2) where that is more
 * than half, none of one. With shares of their own donors come first: one at least, and one
 * place at least stays for who is replaced. */
void swi_pbt_shares(const sw_pbt_opts *o, uint64_t n, uint64_t *replaced, uint64_t *donors)
{
    *replaced = *donors = 0;
    if (n <= 1)
        return;
    const double all = (double)n;
    if (o->replaced == 0 && o->donors == 0) {
        const double count = ceil(all * o->quantile);
        *replaced = *donors = count > all / 2 ? n / 2 : (uint64_t)count;
        return;
    }
    *donors = (uint64_t)ceil(all * (o->donors > 0 ? o->donors : o->quantile));
    *replaced = (uint64_t)ceil(all * (o->replaced > 0 ? o->replaced : o->quantile));
    *donors = *donors > n - 1 ? n - 1 : *donors;
    *replaced = *replaced > n - *donors ? n - *donors : *replaced;
}

static void moments(const sw_pbt *p, uint32_t member, double *n, double *mean, double *var)
{
    const double *x = p->scores + (size_t)member * SWI_SCORES;
    const uint64_t all = p->one[member].n_scores;
    const int have = all < SWI_SCORES ? (int)all : SWI_SCORES;
    double sum = 0, squares = 0;
    for (int i = 0; i < have; i++)
        sum += x[i];
    *n = have;
    *mean = sum / have;
    for (int i = 0; i < have; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *var = squares / (have - 1);
}

/* Welch's t-test of two means, two-sided at 5 %: t = (m - m') / sqrt(v/n + v'/n'), with the
 * degrees of freedom of Welch and Satterthwaite, rounded down as tables are used. Needs two
 * scores of each; where none differs the higher mean is enough. */
static bool welch(const sw_pbt *p, uint32_t other, uint32_t member)
{
    static const double quantile[] = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447,
                                      2.365, 2.306,  2.262, 2.228, 2.201, 2.179, 2.160,
                                      2.145, 2.131,  2.120, 2.110, 2.101};
    double n, m, v, k, l, w;
    moments(p, other, &n, &m, &v);
    moments(p, member, &k, &l, &w);
    if (n < 2 || k < 2 || !(m > l))
        return false;
    const double a = v / n, b = w / k;
    if (a + b == 0)
        return true;
    const double df = (a + b) * (a + b) / (a * a / (n - 1) + b * b / (k - 1));
    if (!(df >= 1)) /* scores that are not finite */
        return false;
    return (m - l) / sqrt(a + b) >= quantile[df < 18 ? (int)df : 18];
}

bool swi_pbt_better(const sw_pbt *p, uint32_t other, uint32_t member)
{
    return p->opts.exploit == SW_T_TEST ? welch(p, other, member)
                                        : p->one[other].score > p->one[member].score;
}
