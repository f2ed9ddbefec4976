/* Population based training against a plain model of Ray Tune's scheduler, which shares no code
 * with it: each event of many random schedules. */
#include "tests/population/pbt_help.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("population based training")

static const char *const three[] = {"lr=log:1e-4..1", "width=int:4..40",
                                    "net.act=choice:relu,tanh,gelu"};
enum { MOST = 40, EVENTS = 4 * MOST };

/* ---- the model --------------------------------------------------------------------------- */

typedef struct {
    double clock, time, last, score, due_time, due_score, kept_time;
    bool due, ready, kept, ended, scored, leaves;
    int came;
} one;

/* The expected choice; donor -2: any of `donors`. */
typedef struct {
    sw_pbt_what what;
    int member, n_donors, donors[MOST];
} expected;

typedef struct {
    const sw_pbt_opts *o;
    one m[MOST];
    expected e[EVENTS];
    int n_events, at;
} model;

static expected *expect(model *md, sw_pbt_what what, int member)
{
    expected *e = &md->e[md->n_events++];
    *e = (expected){.what = what, .member = member};
    return e;
}

/* Ray's _quantiles: sorted by score, Python's sort is stable. */
static int sorted(const model *md, int *out)
{
    int n = 0;
    for (int i = 0; i < md->o->members; i++)
        if (!md->m[i].ended && md->m[i].scored)
            out[n++] = i;
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && md->m[out[k]].score < md->m[out[k - 1]].score; k--) {
            const int swap = out[k];
            out[k] = out[k - 1];
            out[k - 1] = swap;
        }
    return n;
}

static int quantile(const model *md, int n)
{
    const double q = md->o->quantile == 0 ? 0.25 : md->o->quantile < 0 ? 0 : md->o->quantile;
    if (n <= 1)
        return 0;
    const int count = (int)ceil(n * q);
    return count > n / 2.0 ? (int)floor(n / 2.0) : count;
}

static bool stops(model *md, int i)
{
    one *m = &md->m[i];
    const sw_pbt_opts *o = md->o;
    const bool good = o->has_stop_score && (o->minimize ? m->due_score <= o->stop_score
                                                        : m->due_score >= o->stop_score);
    if (!good && !(o->stop_time > 0 && m->due_time >= o->stop_time))
        return false;
    if (m->kept)
        expect(md, SW_PBT_DROP, i);
    expect(md, SW_PBT_STOP, i);
    m->ended = true;
    m->kept = false;
    return true;
}

static void score_is(model *md, int i)
{
    md->m[i].scored = !isnan(md->m[i].due_score);
    md->m[i].score = md->o->minimize ? -md->m[i].due_score : md->m[i].due_score;
}

/* Ray's on_trial_result without synch. */
static void result(model *md, int i)
{
    one *m = &md->m[i];
    int order[MOST], at = -1;
    if (m->leaves) {
        if (m->kept)
            expect(md, SW_PBT_DROP, i);
        m->ended = true;
        m->leaves = m->kept = false;
        return;
    }
    m->due = false;
    m->clock += m->due_time - m->time;
    m->time = m->due_time;
    if (stops(md, i) || m->time < md->o->burn_in || m->time - m->last < md->o->interval)
        return;
    m->last = m->time;
    score_is(md, i);
    const int n = sorted(md, order), k = quantile(md, n);
    for (int j = 0; j < n; j++)
        if (order[j] == i)
            at = j;
    if (at >= 0 && at >= n - k) {
        m->kept = true;
        m->kept_time = m->time;
        expect(md, SW_PBT_KEEP, i);
        return;
    }
    if (m->kept)
        expect(md, SW_PBT_DROP, i);
    m->kept = false;
    if (at < 0 || at >= k)
        return;
    expected *e = expect(md, SW_PBT_EXPLOIT, i); /* or nothing, by a donor without a state */
    for (int j = n - k; j < n; j++)
        e->donors[e->n_donors++] = order[j];
}

/* The pending report that none can come before any more; -1: none. At one moment reports
 * come before members that are still to report, which will be later. */
static int next_result(const model *md)
{
    int best = -1;
    double least = 0;
    for (int due = 1; due >= 0; due--)
        for (int i = 0; i < md->o->members; i++) {
            const one *m = &md->m[i];
            const double key = m->clock + (m->due ? m->due_time - m->time : 0);
            if (!m->ended && m->due == (due == 1) && (best < 0 || key < least)) {
                best = i;
                least = key;
            }
        }
    return best >= 0 && (md->m[best].due || md->m[best].leaves) ? best : -1;
}

/* False: some are still on their way. */
static bool synch_turn(model *md)
{
    int order[MOST], live = 0, ready = 0;
    double time = 0;
    for (int i = 0; i < md->o->members; i++) {
        live += !md->m[i].ended;
        ready += !md->m[i].ended && md->m[i].ready;
        if (md->m[i].ready && md->m[i].time > time)
            time = md->m[i].time;
    }
    if (live == 0 || ready < live)
        return false;
    for (int i = 0; i < md->o->members; i++)
        if (!md->m[i].ended) {
            md->m[i].ready = false;
            md->m[i].last = time;
            score_is(md, i);
        }
    const int n = sorted(md, order), k = quantile(md, n);
    for (int j = 0; j < k; j++) {
        expected *e = expect(md, SW_PBT_EXPLOIT, order[j]);
        for (int d = n - k; d < n; d++)
            e->donors[e->n_donors++] = order[d];
    }
    return true;
}

/* ---- the comparison ---------------------------------------------------------------------- */

static bool among(const expected *e, int donor)
{
    for (int i = 0; i < e->n_donors; i++)
        if (e->donors[i] == donor)
            return true;
    return false;
}

/* New values are what explore may make of the donor's. */
static bool is_explored(const sw_pbt_opts *o, const double *from, const double *to)
{
    const double a = from[0] * 1.2, b = from[0] * 0.8;
    bool good = o->resample_probability >= 0 || to[0] == fmin(1, a) || to[0] == fmax(1e-4, b);
    good &= to[0] >= 1e-4 && to[0] <= 1 && to[1] >= 4 && to[1] <= 40 && to[1] == floor(to[1]);
    if (o->resample_probability < 0)
        good &= (to[1] == fmin(40, floor(from[1] * 1.2)) ||
                 to[1] == fmax(4, floor(from[1] * 0.8))) &&
                fabs(to[2] - from[2]) <= 1;
    return good && (to[2] == 0 || to[2] == 1 || to[2] == 2);
}

static void values_of(const sw_pbt *p, int member, double *v)
{
    for (int k = 0; k < 3; k++)
        OK(sw_pbt_value(p, member, k, &v[k]));
}

static void did_exploit(model *md, const sw_pbt *p, const sw_pbt_event *e, double before[][3])
{
    one *m = &md->m[e->member];
    const one *d = &md->m[e->donor];
    const double time = md->o->synch ? d->time : d->kept_time;
    double now[3];
    values_of(p, e->member, now);
    SW_CHECK(is_explored(md->o, before[e->donor], now), "explored values of %d", e->member);
    SW_CHECK(e->time == m->time && e->donor_time == time, "times of %d", e->member);
    m->time = time;
    m->last = d->last;
    memcpy(before[e->member], now, sizeof now);
}

/* One report or turn. False: nothing can be decided. */
static bool step(model *md)
{
    int first = -1;
    if (!md->o->synch) {
        const int i = next_result(md);
        if (i >= 0)
            result(md, i);
        return i >= 0;
    }
    for (int i = 0; i < md->o->members; i++)
        if (md->m[i].due && (first < 0 || md->m[i].came < md->m[first].came))
            first = i;
    if (first < 0)
        return synch_turn(md);
    /* Synch: reports are looked at in the order they come. */
    one *m = &md->m[first];
    m->due = false;
    m->clock += m->due_time - m->time;
    m->time = m->due_time;
    if (!stops(md, first) && m->time >= md->o->burn_in && m->time - m->last >= md->o->interval)
        m->ready = true;
    return true;
}

/* The expectation that `e` answers; NULL: none. Without synch an exploit is left out where the
 * donor that was drawn had nothing kept. */
static const expected *next_expected(model *md, const sw_pbt_event *e)
{
    for (;;) {
        if (md->at == md->n_events) {
            md->at = md->n_events = 0;
            if (!step(md))
                return NULL;
            continue;
        }
        const expected *x = &md->e[md->at++];
        if (x->what != SW_PBT_EXPLOIT || md->o->synch ||
            (e->what == SW_PBT_EXPLOIT && e->member == x->member))
            return x;
        bool all_kept = true;
        for (int i = 0; i < x->n_donors; i++)
            all_kept &= md->m[x->donors[i]].kept;
        SW_CHECK(!all_kept, "an exploit of %d is missing", x->member);
    }
}

/* The events that are there, with those that should be. Returns how many exploits there
 * were. */
static int compare(model *md, sw_pbt *p, double values[][3])
{
    int exploits = 0;
    for (;;) {
        sw_pbt_event e = SW_OPTS(sw_pbt_event);
        OK(sw_pbt_next_event(p, &e));
        const expected *x = next_expected(md, &e);
        const sw_pbt_what what = x != NULL ? x->what : SW_PBT_NONE;
        if (!SW_CHECK(e.what == what && (x == NULL || e.member == x->member),
                      "event %d of %d in the place of %d", (int)e.what, e.member, (int)what) ||
            x == NULL)
            return exploits;
        if (e.what != SW_PBT_EXPLOIT)
            continue;
        SW_CHECK(among(x, e.donor) && (md->o->synch || md->m[e.donor].kept), "donor %d of %d",
                 e.donor, e.member);
        did_exploit(md, p, &e, values);
        exploits++;
    }
}

/* ---- random schedules -------------------------------------------------------------------- */

/* Members report in any order, mostly at their turn; some before it; some leave. */
static void report_some(model *md, sw_pbt *p, sw_dice *dice, int *who, int n, double until)
{
    static int came;
    for (; n > 0; n--) {
        const int at = (int)sw_dice_below(dice, (uint64_t)n), i = who[at];
        one *m = &md->m[i];
        who[at] = who[n - 1];
        if (sw_dice_below(dice, 60) == 0) {
            OK(sw_pbt_leave(p, i));
            if (!md->o->synch) { /* leaves in its place of the order */
                m->leaves = true;
                continue;
            }
            m->ended = true;
            continue;
        }
        m->due_time = sw_dice_below(dice, 6) == 0 ? m->time / 2 + until / 2 : until;
        const uint64_t k = sw_dice_below(dice, 40);
        m->due_score = k == 0 ? (double)NAN : (double)(k % 13) - 4; /* ties are many */
        m->due = true;
        m->came = came++;
        OK(sw_pbt_report(p, i, m->due_time, m->due_score));
    }
}

/* Until all have ended, or `rounds` are over. Returns the number of exploits. */
static int schedule(const sw_pbt_opts *o, uint64_t seed, int rounds)
{
    static model md;
    static double values[MOST][3];
    sw_dice dice = {seed};
    sw_pbt *p = NULL;
    int who[MOST], n = 1, exploits = 0;
    double until = 0;
    md = (model){.o = o};
    OK(sw_pbt_create(&p, o));
    for (int i = 0; i < o->members; i++)
        values_of(p, i, values[i]);
    for (int round = 0; round < rounds && n > 0; round++) {
        const int room = 1 + (int)sw_dice_below(&dice, (uint64_t)o->members);
        OK(sw_pbt_next(p, who, room, &n, &until));
        /* Whether next gives whom it should: who trained least, then the least time, then
         * the nearest turn, by index. */
        const double stop = md.o->stop_time > 0 ? md.o->stop_time : (double)INFINITY;
        double least[3] = {(double)INFINITY, (double)INFINITY, (double)INFINITY};
        int count = 0;
        for (int pass = 0; pass < 4; pass++)
            for (int j = 0; j < md.o->members; j++) {
                const one *m = &md.m[j];
                const double u = fmin(stop, fmax(m->last + md.o->interval, md.o->burn_in));
                const double is[3] = {m->clock, m->time, u};
                bool equal = !m->ended && !m->due && !m->ready && !m->leaves;
                for (int k = 0; k < pass; k++)
                    equal &= is[k] == least[k];
                if (equal && pass < 3)
                    least[pass] = fmin(least[pass], is[pass]);
                else if (equal && count < room)
                    SW_CHECK(count < n && who[count++] == j, "%d runs next", j);
            }
        SW_CHECK(count == n && (n == 0 || until == least[2]), "%d of %d run until %g, %g", n,
                 count, until, least[2]);
        report_some(&md, p, &dice, who, n, until);
        exploits += compare(&md, p, values);
    }
    sw_pbt_destroy(p);
    return exploits;
}

static sw_pbt_opts random_opts(const sw_space *s, sw_dice *dice, int synch)
{
    static const double quantiles[] = {0, 0.5, 0.1, 0.33, -1, 0.25};
    return SW_OPTS(sw_pbt_opts, .space = s, .members = 1 + (int)sw_dice_below(dice, MOST),
                   .minimize = (int)sw_dice_below(dice, 2), .seed = sw_dice_next(dice),
                   .interval = 5 + (double)sw_dice_below(dice, 20),
                   .burn_in = (double)sw_dice_below(dice, 40),
                   .quantile = quantiles[sw_dice_below(dice, 6)],
                   .resample_probability = sw_dice_below(dice, 2) ? -1 : 0.5, .synch = synch,
                   .stop_time = sw_dice_below(dice, 2) ? 300 : 0,
                   .has_stop_score = sw_dice_below(dice, 4) == 0, .stop_score = 8);
}

SW_TEST("asynchronous and synchronous turns are those of the model")
{
    const sw_space *s = help_space(three, 3);
    for (int synch = 0; synch < 2; synch++) {
        sw_dice dice = {11};
        int exploits = 0;
        for (int k = 0; k < (sw_tests_full() ? 2000 : 300); k++) {
            const sw_pbt_opts o = random_opts(s, &dice, synch);
            exploits += schedule(&o, sw_dice_next(&dice), 150);
        }
        sw_note("%d exploits", exploits);
        CU_ASSERT(exploits > 5000);
    }
}
