/* Population based training: options, members and their values, who runs next, decisions. */
#include "alloc/base/size.h"
#include "kernels/rng.h"
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

/* Random numbers of decisions, and the values that follow an exploit. */

/* The random numbers of a member's decision depend on the seed, on its index, on how many
 * decisions it had before, and on what they are for; and on nothing else. */
static void pbt_words(uint32_t out[4], const sw_pbt *p, uint32_t member, const char *purpose,
                      uint32_t which)
{
    const uint64_t draws = p->one[member].draws;
    sw_rng_words(out, p->opts.seed ^ (draws >> 32), which, sw_rng_stream(purpose), member,
                 (uint32_t)draws);
}

/* One of 0 .. n-1, for the choice of a donor by `member`. */
static uint64_t pbt_draw(const sw_pbt *p, uint32_t member, uint64_t n)
{
    uint32_t w[4];
    pbt_words(w, p, member, "sw_pbt donor", 0);
    return (uint64_t)(swi_unit53(w[0], w[1]) * (double)n);
}

static double neighbour(const sw_hyper *h, int at, bool right)
{
    at += right ? 1 : -1;
    return h->choices[at < 0 ? 0 : at < h->n_choices ? at : h->n_choices - 1];
}

/* Whole numbers lose their fraction towards 0 and then keep the bounds. */
static double scaled(const sw_hyper *h, double x, double factor)
{
    x *= factor;
    if (h->kind == SW_INTEGER)
        x = trunc(x);
    return x < h->low ? h->low : x > h->high ? h->high : x;
}

static double perturb(const sw_pbt *p, const sw_hyper *h, double x, uint32_t member,
                      uint32_t which)
{
    uint32_t w[4], more[4];
    pbt_words(w, p, member, "sw_pbt explore", which);
    pbt_words(more, p, member, "sw_pbt resample", which);
    const int at = h->kind == SW_CHOICE ? swi_hyper_choice(h, x) : 0;
    const bool one = (w[2] & 1u) != 0;
    if (swi_unit53(w[0], w[1]) < p->opts.resample_probability || at < 0 ||
        (h->kind == SW_CHOICE && h->resample))
        return swi_hyper_pick(h, swi_unit53(more[0], more[1]));
    return h->kind == SW_CHOICE ? neighbour(h, at, one) : scaled(h, x, p->opts.factors[one]);
}

static sw_status call_custom(sw_pbt *p, uint32_t member, const double *from)
{
    sw_call call = {
        .name = "sw_pbt_next_event", .callback = "`custom`", .uses = SW_CALL_ONE(p)};
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    SW_TRY(sw_call_end(&call,
                       p->opts.custom((int)member, from, p->fresh, (int)p->h, p->opts.user)));
    for (uint32_t k = 0; k < p->h; k++)
        if (!swi_hyper_has(&p->space->hypers[k].is, p->fresh[k]))
            SW_FAIL(SW_INVALID,
                    "the explore function gave member %u %.17g for '%s', which is outside of "
                    "what it may be",
                    member, p->fresh[k], p->space->hypers[k].is.name);
    return SW_OK;
}

/* ---- options ----------------------------------------------------------------------------- */

static sw_status positive(double x, const char *what)
{
    if (!(x > 0) || !isfinite(x))
        SW_FAIL(SW_INVALID, "sw_pbt_create: %s must be above 0 and finite (got %g)", what, x);
    return SW_OK;
}

/* Negative: none. */
static sw_status share(double *x, double otherwise, double most, const char *what)
{
    if (isnan(*x) || *x > most)
        SW_FAIL(SW_INVALID, "sw_pbt_create: %s must be at most %g (got %g)", what, most, *x);
    *x = *x == 0 ? otherwise : *x < 0 ? 0 : *x;
    return SW_OK;
}

static sw_status check_opts(sw_pbt_opts *o)
{
    if (o->members < 1 || o->members > 1000000)
        SW_FAIL(SW_INVALID, "sw_pbt_create: members must be 1 to 1,000,000 (got %d)",
                o->members);
    SW_TRY(sw_handle_check(o->space, SW_HANDLE_SPACE, "sw_pbt_create"));
    if (o->space->n == 0)
        SW_FAIL(SW_INVALID, "sw_pbt_create: the space must have a hyper-parameter");
    SW_TRY(positive(o->interval, "interval"));
    if (!(o->burn_in >= 0) || !isfinite(o->burn_in))
        SW_FAIL(SW_INVALID, "sw_pbt_create: burn_in must be 0 or more and finite (got %g)",
                o->burn_in);
    SW_TRY(share(&o->quantile, 0.25, 0.5, "quantile"));
    SW_TRY(share(&o->resample_probability, 0.25, 1, "resample_probability"));
    /* Shares of their own; 0 stays and means the quantile. */
    if (!(o->replaced >= 0 && o->replaced <= 1) || !(o->donors >= 0 && o->donors <= 1))
        SW_FAIL(SW_INVALID, "sw_pbt_create: replaced and donors must be 0 to 1 (got %g and %g)",
                o->replaced, o->donors);
    if (o->replaced + o->donors > 1)
        SW_FAIL(SW_INVALID,
                "sw_pbt_create: replaced and donors must be at most 1 together (got %g and %g)",
                o->replaced, o->donors);

    if (o->factors[0] == 0 && o->factors[1] == 0) {
        o->factors[0] = 1.2;
        o->factors[1] = 0.8;
    }
    SW_TRY(positive(o->factors[0], "the first factor"));
    SW_TRY(positive(o->factors[1], "the second factor"));
    if (o->explore == SW_PB2)
        SW_FAIL(SW_UNSUPPORTED,
                "sw_pbt_create: SW_PB2 is gone: SW_PERTURB or `custom` explores values");
    if ((unsigned)o->exploit > SW_T_TEST || o->explore != SW_PERTURB)
        SW_FAIL(SW_INVALID, "sw_pbt_create: exploit %d or explore %d is none", (int)o->exploit,
                (int)o->explore);
    if (!(o->stop_time >= 0))
        SW_FAIL(SW_INVALID, "sw_pbt_create: stop_time must be 0 or more (got %g)",
                o->stop_time);
    if (o->has_stop_score && isnan(o->stop_score))
        SW_FAIL(SW_INVALID, "sw_pbt_create: stop_score must be a number");
    return SW_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

/* Bytes of all arrays, and where each begins. Bounded by 1,000,000 members of 1,024 numbers. */
size_t swi_pbt_lay_out(sw_pbt *p, char *base)
{
    size_t at = 0;
    const size_t n = p->n, numbers = n * p->h * sizeof(double);
    const bool synch = p->opts.synch != 0, scores = p->opts.exploit == SW_T_TEST;
#define TAKE(to, bytes)                                                                        \
    do {                                                                                       \
        const size_t from = sw_size_part(&at, (bytes));                                        \
        if (base != NULL)                                                                      \
            p->to = (void *)(base + from);                                                     \
    } while (0)
    TAKE(one, n * sizeof *p->one);
    TAKE(values, numbers);
    TAKE(first, numbers);
    TAKE(scores, scores ? n * SWI_SCORES * sizeof *p->scores : 0);
    TAKE(heap, synch ? 0 : n * sizeof *p->heap);
    TAKE(heap_at, synch ? 0 : n * sizeof *p->heap_at);
    TAKE(rank, n * sizeof *p->rank);
    TAKE(queue, synch ? n * sizeof *p->queue : 0);
    TAKE(fresh, p->h * sizeof *p->fresh);
#undef TAKE
    return at;
}

static sw_status make(sw_pbt *p, const sw_pbt_opts *o)
{
    p->opts = *o;
    SW_TRY(swi_space_copy(&p->space, o->space));
    p->opts.space = p->space;
    p->n = (uint32_t)o->members;
    p->h = p->space->n;
    p->block_bytes = swi_pbt_lay_out(p, NULL);
    SW_TRY(sw_heap_alloc(&p->block, SW_HEAP_RECORDS, p->block_bytes));
    (void)swi_pbt_lay_out(p, p->block);
    for (uint32_t i = 0; i < p->n; i++) {
        swi_pbt_one *m = &p->one[i];
        m->seen = m->score = (double)NAN;
        for (uint32_t k = 0; k < p->h; k++)
            SW_TRY(sw_space_draw(p->space, (int)k, p->opts.seed, i, &swi_pbt_values(p, i)[k]));
    }

    p->s.n_go_on = p->n;
    p->s.target = p->s.donor = -1;
    if (!o->synch)
        swi_pbt_heap_fill(p);
    return SW_OK;
}

static void end(sw_pbt *p)
{
    swi_pbt_log_end(p);
    sw_heap_free(p->block, SW_HEAP_RECORDS, p->block_bytes);
    swi_space_free(p->space);
    sw_handle_give(p, SW_HANDLE_PBT, sizeof *p);
}

sw_status sw_pbt_create(sw_pbt **out, const sw_pbt_opts *given)
{
    sw_pbt_opts o;
    sw_pbt *p;
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_pbt_opts, &o, given, __func__));
    SW_TRY(check_opts(&o));
    SW_TRY(sw_handle_take(&p, SW_HANDLE_PBT, sizeof(sw_pbt)));
    const sw_status status = make(p, &o);
    return SW_GIVE(status, out, p, end);
}

void sw_pbt_destroy(sw_pbt *p)
{
    if (sw_handle_ends(p, SW_HANDLE_PBT, __func__))
        end(p);
}

/* ---- members ----------------------------------------------------------------------------- */

sw_status swi_pbt_check(const sw_pbt *p, const char *call)
{
    SW_TRY(sw_handle_check(p, SW_HANDLE_PBT, call));
    if (p->busy)
        SW_FAIL(SW_BUSY, "%s: its explore function is being called", call);
    return SW_OK;
}

static sw_status pbt_member_check(const sw_pbt *p, int member, const char *call)
{
    SW_TRY(swi_pbt_check(p, call));
    if (member < 0 || (uint32_t)member >= p->n)
        SW_FAIL(SW_INVALID, "%s: member must be 0 to %u (got %d)", call, p->n - 1, member);
    return SW_OK;
}

static sw_status check_hyper(const sw_pbt *p, int member, int hyper, const char *call)
{
    SW_TRY(pbt_member_check(p, member, call));
    if (hyper < 0 || (uint32_t)hyper >= p->h)
        SW_FAIL(SW_INVALID, "%s: the space has %u hyper-parameters (got %d)", call, p->h,
                hyper);
    return SW_OK;
}

sw_status sw_pbt_value(const sw_pbt *p, int member, int hyper, double *out)
{
    SW_TRY(check_hyper(p, member, hyper, __func__));
    SW_TRY(swi_given(out != NULL, "out", __func__));
    *out = swi_pbt_values(p, (uint64_t)member)[hyper];
    return SW_OK;
}

sw_status sw_pbt_value_set(sw_pbt *p, int member, int hyper, double value)
{
    SW_TRY(check_hyper(p, member, hyper, __func__));
    if (!swi_hyper_has(&p->space->hypers[hyper].is, value))
        SW_FAIL(SW_INVALID, "%s: %.17g is outside of what '%s' may be", __func__, value,
                p->space->hypers[hyper].is.name);
    swi_pbt_values(p, (uint64_t)member)[hyper] = value;
    return SW_OK;
}

sw_status sw_pbt_describe(const sw_pbt *p, int member, sw_pbt_member *out)
{
    SW_TRY(pbt_member_check(p, member, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_pbt_member, out, __func__));
    const swi_pbt_one *m = &p->one[member];
    const sw_pbt_member is =
        SW_OPTS(sw_pbt_member, .time = m->time, .score = swi_pbt_sign(p, m->seen),
                .ended = m->ended || m->leaving, .kept = m->kept, .exploits = m->exploits);
    swi_struct_write(SWI_STRUCT_sw_pbt_member, out, &is);
    return SW_OK;
}

/* The virtual order of asynchronous turns, and the ranking of members by their scores.
 *
 * The heap has all members that go on. The key of one is how long it has trained itself, with
 * the report that waits, and then its index: as if all trained at once and equally fast. Who
 * has no report comes after those that have one, since its next report will be later. (The
 * time of its state will not do. It goes back with an exploit, so a member that stays the worst
 * would always come first, and donors would never get on.) Where the top has a report no other
 * member can have an earlier turn any more, so it is taken; where it has none it is the one to
 * run next. So decisions do not depend on the order in which reports come. */

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

static void pbt_heap_drop(sw_pbt *p, uint32_t member)
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

static void pbt_rank_drop(sw_pbt *p, uint32_t member)
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

/* ---- who is compared with whom ----------------------------------------------------------- */

/* Of the quantile alone as many as Ray Tune takes: ceil(n q), floor(n / 2) where that is more
 * than half, none of one. With shares of their own donors come first: one at least, and one
 * place at least stays for who is replaced. */
static void pbt_shares(const sw_pbt_opts *o, uint64_t n, uint64_t *replaced, uint64_t *donors)
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

/* Whether `other` is so much better that `member` copies it: tournament and t-test. */
static bool pbt_better(const sw_pbt *p, uint32_t other, uint32_t member)
{
    return p->opts.exploit == SW_T_TEST ? welch(p, other, member)
                                        : p->one[other].score > p->one[member].score;
}

/* Turns: reports are taken in order, quantiles are formed, and who is replaced by whom is
 * decided, as Ray Tune's PopulationBasedTraining does it. Nothing here can fail: an exploit is
 * noted, and done by `sw_pbt_next_event`. */

/* ---- members that end -------------------------------------------------------------------- */

static void add(sw_pbt *p, sw_pbt_what what, uint32_t member)
{
    p->waiting[p->s.n_events++] = (swi_pbt_waiting){
        .what = (uint32_t)what, .member = member, .time = p->one[member].time};
}

static void drop_kept(sw_pbt *p, uint32_t member)
{
    if (p->one[member].kept)
        add(p, SW_PBT_DROP, member);
    p->one[member].kept = 0;
}

/* It goes on no more: neither replaced nor a donor from here on. */
static void pbt_end_member(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    drop_kept(p, member);
    p->s.n_ready -= m->ready;
    p->s.n_go_on--;
    m->ready = 0;
    m->ended = 1;
    if (!p->opts.synch) {
        pbt_heap_drop(p, member);
        pbt_rank_drop(p, member);
    }
}

/* ---- a report is taken ------------------------------------------------------------------- */

/* The mean of the last scores is what the t-test ranks by. */
static double ranked_by(sw_pbt *p, uint32_t member, double score)
{
    swi_pbt_one *m = &p->one[member];
    if (p->opts.exploit != SW_T_TEST || isnan(score))
        return score;
    const double *x = p->scores + (size_t)member * SWI_SCORES;
    const int n = m->n_scores < SWI_SCORES ? (int)m->n_scores : SWI_SCORES;
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

/* Take what a report says of its member. True: it is the member's turn. */
static bool take_report(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    const sw_pbt_opts *o = &p->opts;
    const double score = m->due_score;
    m->clock = swi_pbt_clock(m);
    m->due = 0;
    m->time = m->due_time;
    m->seen = score;
    if (o->exploit == SW_T_TEST && !isnan(score))
        p->scores[(size_t)member * SWI_SCORES + m->n_scores++ % SWI_SCORES] = score;
    const bool good = o->has_stop_score && score >= swi_pbt_sign(p, o->stop_score);
    if (good || (o->stop_time > 0 && m->time >= o->stop_time)) {
        pbt_end_member(p, member);
        add(p, SW_PBT_STOP, member);
        return false;
    }
    /* Whether its turn is at this time. */
    return m->time >= p->opts.burn_in && m->time >= m->last + p->opts.interval;
}

static void decide(sw_pbt *p, uint32_t member, uint32_t donor)
{
    p->s.target = member;
    p->s.donor = donor;
}

/* Another member of the ranking than that at `at`, drawn uniformly. */
static uint32_t opponent(const sw_pbt *p, uint32_t member, uint64_t at)
{
    const uint64_t k = pbt_draw(p, member, p->s.n_rank - 1);
    return p->rank[k + (k >= at)];
}

/* ---- asynchronous ------------------------------------------------------------------------ */

/* The best keep their state from their turn on, others need none; the worst copy it. */
static void truncation_turn(sw_pbt *p, uint32_t member)
{
    uint64_t replaced, donors;
    pbt_shares(&p->opts, p->s.n_rank, &replaced, &donors);
    const bool ranked = !isnan(p->one[member].score);
    const uint64_t at = ranked ? swi_pbt_rank_of(p, member) : 0, top = p->s.n_rank - donors;
    if (ranked && at >= top) {
        p->one[member].kept = 1;
        p->one[member].kept_time = p->one[member].time;
        add(p, SW_PBT_KEEP, member);
        return;
    }
    drop_kept(p, member);
    if (!ranked || at >= replaced || donors == 0)
        return;
    const uint32_t donor = p->rank[top + pbt_draw(p, member, donors)];
    if (p->one[donor].kept)
        decide(p, member, donor);
    else
        p->one[member].draws++;
}

/* Who is not replaced keeps its state: anyone may be compared with it. */
static void tournament_turn(sw_pbt *p, uint32_t member)
{
    swi_pbt_one *m = &p->one[member];
    if (!isnan(m->score) && p->s.n_rank > 1) {
        const uint32_t other = opponent(p, member, swi_pbt_rank_of(p, member));
        if (p->one[other].kept && pbt_better(p, other, member)) {
            drop_kept(p, member);
            decide(p, member, other);
            return;
        }
        m->draws++;
    }
    if (isnan(m->score)) {
        drop_kept(p, member);
        return;
    }
    m->kept = 1;
    m->kept_time = m->time;
    add(p, SW_PBT_KEEP, member);
}

/* The top of the order. False: it has nothing to say yet. */
static bool step_asynchronous(sw_pbt *p)
{
    if (p->s.n_heap == 0)
        return false;
    const uint32_t member = p->heap[0];
    swi_pbt_one *m = &p->one[member];
    if (m->leaving) {
        pbt_end_member(p, member);
        return true;
    }
    if (!m->due)
        return false;
    if (take_report(p, member)) {
        pbt_rank_drop(p, member);
        m->last = m->time;
        m->score = ranked_by(p, member, m->seen);
        if (!isnan(p->one[member].score)) {
            const uint64_t at = swi_pbt_rank_of(p, member);
            memmove(p->rank + at + 1, p->rank + at, (p->s.n_rank - at) * sizeof *p->rank);
            p->rank[at] = member;
            p->s.n_rank++;
        }
        if (p->opts.exploit == SW_TRUNCATION)
            truncation_turn(p, member);
        else
            tournament_turn(p, member);
    }
    if (!m->ended) /* its clock has changed */
        sift(p, p->heap_at[member]);
    return true;
}

/* ---- synchronous ------------------------------------------------------------------------- */

static void take_queued(sw_pbt *p)
{
    const uint32_t member = p->queue[p->s.queue_at];
    p->s.queue_at = (p->s.queue_at + 1) % p->n;
    p->s.n_queue--;
    if (p->one[member].ended || !take_report(p, member))
        return;
    p->one[member].ready = 1;
    p->s.n_ready++;
}

/* All that go on are at their turn: their common time is that of the one that came furthest.
 * The best have nothing to do, since a donor gives its present state and is itself not
 * replaced; so what is left is who is replaced, the worst first. */
static void begin_turn(sw_pbt *p)
{
    double last = 0;
    uint64_t replaced, donors;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->one[i].ready && p->one[i].time > last)
            last = p->one[i].time;
    for (uint32_t i = 0; i < p->n; i++) {
        swi_pbt_one *m = &p->one[i];
        if (!m->ready)
            continue;
        m->ready = 0;
        m->last = last;
        m->score = ranked_by(p, i, m->seen);
    }
    p->s.n_ready = 0;
    /* who goes on and has a score */
    uint64_t n = 0;
    for (uint32_t j = 0; j < p->n; j++)
        if (!p->one[j].ended && !isnan(p->one[j].score))
            p->rank[n++] = j;
    p->s.n_rank = n;
    for (uint64_t at = n / 2; at-- > 0;)
        sink(p, at, n);
    while (n > 1) { /* all different by their index: the order is one */
        const uint32_t most = p->rank[0];
        p->rank[0] = p->rank[--n];
        p->rank[n] = most;
        sink(p, 0, n);
    }
    pbt_shares(&p->opts, p->s.n_rank, &replaced, &donors);
    p->s.turn_at = 0;
    p->s.turn_top = donors;
    p->s.turn_last = replaced;
    if (p->opts.exploit != SW_TRUNCATION)
        p->s.turn_last = p->s.n_rank > 1 ? p->s.n_rank : 0;
    else if (donors == 0)
        p->s.turn_last = 0;
}

/* In ascending order: a better one is still as it was when the turn began. */
static void take_worst(sw_pbt *p)
{
    const uint64_t at = p->s.turn_at++;
    const uint32_t member = p->rank[at];
    if (p->one[member].ended)
        return;
    uint32_t donor;
    if (p->opts.exploit == SW_TRUNCATION)
        donor = p->rank[p->s.n_rank - p->s.turn_top + pbt_draw(p, member, p->s.turn_top)];
    else
        donor = opponent(p, member, at);
    const bool copies = p->opts.exploit == SW_TRUNCATION || pbt_better(p, donor, member);
    if (copies && !p->one[donor].ended)
        decide(p, member, donor);
    else
        p->one[member].draws++;
}

static bool step_synch(sw_pbt *p)
{
    if (p->s.turn_at < p->s.turn_last)
        take_worst(p);
    else if (p->s.n_queue > 0)
        take_queued(p);
    else if (p->s.n_go_on > 0 && p->s.n_ready == p->s.n_go_on)
        begin_turn(p);
    else
        return false;
    return true;
}

/* Whether sw_pbt_next_event may have something to say. */
static bool pbt_is_due(const sw_pbt *p)
{
    if (p->s.n_events > 0 || p->s.target >= 0)
        return true;
    if (p->opts.synch)
        return p->s.turn_at < p->s.turn_last || p->s.n_queue > 0 ||
               (p->s.n_go_on > 0 && p->s.n_ready == p->s.n_go_on);
    return p->s.n_heap > 0 && (p->one[p->heap[0]].due || p->one[p->heap[0]].leaving);
}

/* The schedule as callers see it: reports in, who runs next and events out. */

/* The time of a member's next turn, or of its end. */
static double pbt_until(const sw_pbt *p, const swi_pbt_one *m)
{
    double until = m->last + p->opts.interval;
    until = until < p->opts.burn_in ? p->opts.burn_in : until;
    if (p->opts.stop_time > 0 && until > p->opts.stop_time)
        until = p->opts.stop_time;
    return until > m->time ? until : nextafter(m->time, (double)INFINITY);
}

/* ---- reports ----------------------------------------------------------------------------- */

sw_status sw_pbt_report(sw_pbt *p, int member, double time, double score)
{
    SW_TRY(pbt_member_check(p, member, __func__));
    swi_pbt_one *m = &p->one[member];
    if (m->ended || m->leaving)
        SW_FAIL(SW_INVALID, "%s: member %d has ended", __func__, member);
    if (p->s.deciding)
        SW_FAIL(SW_INVALID, "%s: ask sw_pbt_next_event first until it answers SW_PBT_NONE",
                __func__);
    if (m->due || m->ready)
        SW_FAIL(SW_INVALID, "%s: the report before of member %d still waits for other members",
                __func__, member);
    if (!(time > m->time) || isinf(time))
        SW_FAIL(SW_INVALID, "%s: the time of member %d must be above %.17g and finite (got %g)",
                __func__, member, m->time, time);
    m->due = 1;
    m->due_time = time;
    m->due_score = swi_pbt_sign(p, score);
    p->s.began = 1;
    if (p->opts.synch)
        p->queue[(p->s.queue_at + p->s.n_queue++) % p->n] = (uint32_t)member;
    else
        sift(p, p->heap_at[member]);
    return SW_OK;
}

sw_status sw_pbt_leave(sw_pbt *p, int member)
{
    SW_TRY(pbt_member_check(p, member, __func__));
    swi_pbt_one *m = &p->one[member];
    if (m->ended || m->leaving)
        SW_FAIL(SW_INVALID, "%s: member %d has ended", __func__, member);
    p->s.began = 1;
    if (p->opts.synch) { /* what it has in the queue is passed over */
        pbt_end_member(p, (uint32_t)member);
        return SW_OK;
    }
    m->leaving = 1; /* and where it has a report, it leaves at the time of that */
    return SW_OK;
}

/* ---- who runs next ----------------------------------------------------------------------- */

static bool waits(const swi_pbt_one *m)
{
    return m->ended || m->leaving || m->due || m->ready;
}

/* Where a member stands: who comes first in this order runs first. */
typedef struct {
    double clock, time, until;
} stand;

static stand stand_of(const sw_pbt *p, const swi_pbt_one *m)
{
    return (stand){m->clock, m->time, pbt_until(p, m)};
}

static bool is_before(stand a, stand b)
{
    return a.clock != b.clock ? a.clock < b.clock
           : a.time != b.time ? a.time < b.time
                              : a.until < b.until;
}

/* Each member runs from turn to turn, whatever the number that run side by side. */
static bool find_least(const sw_pbt *p, stand *least)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (waits(&p->one[i]))
            continue;
        const stand s = stand_of(p, &p->one[i]);
        if (!any || is_before(s, *least))
            *least = s;
        any = true;
    }
    return any;
}

sw_status sw_pbt_next(sw_pbt *p, int *members, int room, int *n, double *until)
{
    stand least = {0, 0, 0};
    int count = 0;
    SW_TRY(swi_pbt_check(p, __func__));
    if (members == NULL || n == NULL || until == NULL || room < 1)
        SW_FAIL(SW_INVALID,
                "%s: members, n and until must not be NULL, room at least 1 (got %d)", __func__,
                room);
    if (p->s.deciding || pbt_is_due(p))
        SW_FAIL(SW_INVALID, "%s: ask sw_pbt_next_event first until it answers SW_PBT_NONE",
                __func__);
    SW_TRY(swi_pbt_log_begin(p));
    if (!find_least(p, &least)) {
        *n = 0;
        return SW_OK;
    }
    for (uint32_t i = 0; i < p->n && count < room; i++) {
        const swi_pbt_one *m = &p->one[i];
        if (!waits(m) && !is_before(least, stand_of(p, m)))
            members[count++] = (int)i;
    }
    *n = count;
    *until = least.until;
    return SW_OK;
}

/* ---- events ------------------------------------------------------------------------------ */

/* All but the times and scores of the event is done in the order: find the new values, write
 * the logs, and where both worked change the member. */
static sw_status exploit(sw_pbt *p, bool *done)
{
    const uint32_t target = (uint32_t)p->s.target, donor = (uint32_t)p->s.donor;
    swi_pbt_one *m = &p->one[target];
    const swi_pbt_one *d = &p->one[donor];
    *done = false;
    const bool out = m->ended || m->leaving || (p->opts.synch && d->ended);
    if (!out && p->s.n_exploits + 1 != p->opts.without) {
        /* The values of `member` after an exploit of `donor`, into pbt->fresh: explored,
         * bounded. */
        const double *from = swi_pbt_values(p, donor);
        for (uint32_t k = 0; k < p->h; k++)
            p->fresh[k] = perturb(p, &p->space->hypers[k].is, from[k], target, k);
        SW_TRY(p->opts.custom != NULL ? call_custom(p, target, from) : SW_OK);
        SW_TRY(swi_pbt_log_exploit(p, target, donor));
        *done = true;
    }
    p->s.n_exploits += !out;
    m->draws++;
    p->s.target = p->s.donor = -1;
    return SW_OK;
}

/* The target goes on as the donor did, with the new values. */
static void change(sw_pbt *p, uint32_t target, uint32_t donor, double donor_time)
{
    swi_pbt_one *m = &p->one[target];
    memcpy(swi_pbt_values(p, target), p->fresh, p->h * sizeof *p->fresh);
    m->time = donor_time;
    m->last = p->one[donor].last;
    m->n_scores = 0;
    m->exploits++;
    if (!p->opts.synch)
        sift(p, p->heap_at[target]);
}

static sw_status do_exploit(sw_pbt *p, sw_pbt_event *e)
{
    const uint32_t target = (uint32_t)p->s.target, donor = (uint32_t)p->s.donor;
    const swi_pbt_one *m = &p->one[target], *d = &p->one[donor];
    bool done;
    SW_TRY(exploit(p, &done));
    if (!done)
        return SW_OK;
    *e = SW_OPTS(sw_pbt_event, .what = SW_PBT_EXPLOIT, .member = (int)target,
                 .donor = (int)donor, .number = p->s.n_exploits, .time = m->time,
                 .donor_time = p->opts.synch ? d->time : d->kept_time,
                 .score = swi_pbt_sign(p, m->seen), .donor_score = swi_pbt_sign(p, d->score));
    change(p, target, donor, e->donor_time);
    return SW_OK;
}

static void take_waiting(sw_pbt *p, sw_pbt_event *e)
{
    const swi_pbt_waiting *t = &p->waiting[0];
    *e = SW_OPTS(sw_pbt_event, .what = (sw_pbt_what)t->what, .member = (int)t->member,
                 .donor = -1, .time = t->time, .donor_time = t->time,
                 .score = swi_pbt_sign(p, p->one[t->member].seen), .donor_score = (double)NAN);
    memmove(p->waiting, p->waiting + 1, --p->s.n_events * sizeof *t);
}

sw_status sw_pbt_next_event(sw_pbt *p, sw_pbt_event *out)
{
    sw_pbt_event e = SW_OPTS(sw_pbt_event, .what = SW_PBT_NONE, .member = -1, .donor = -1);
    SW_TRY(swi_pbt_check(p, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_pbt_event, out, __func__));
    SW_TRY(swi_pbt_log_begin(p));
    while (e.what == SW_PBT_NONE) {
        if (p->s.n_events > 0)
            take_waiting(p, &e);
        else if (p->s.target >= 0)
            SW_TRY(do_exploit(p, &e));
        else if (!(p->opts.synch ? step_synch(p) : step_asynchronous(p)))
            break;
    }
    p->s.deciding = e.what != SW_PBT_NONE;
    swi_struct_write(SWI_STRUCT_sw_pbt_event, out, &e);
    return SW_OK;
}
