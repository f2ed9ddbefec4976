/* One promise each: explore, quantiles, tournaments, stop rules and members that leave. */
#include "tests/population/pbt_help.h"

SW_TESTS("pbt rules")

static const char *const five[] = {"lr=log:1e-5..1e-1", "optimizer.momentum=uniform:-0.5..0.99",
                                   "width=int:1..64", "act=choice:relu,tanh,gelu,elu",
                                   "batch=choice:16,32,64"};

/* Members, and options that may follow. */
#define OPTS_OF(s, ...)                                                                        \
    SW_OPTS(sw_pbt_opts, .space = s, .seed = 3, .interval = 10, .members = __VA_ARGS__)
#define OPTS(...) OPTS_OF(help_space(five, 5), __VA_ARGS__)

/* ---- explore ----------------------------------------------------------------------------- */

static void inside(const sw_pbt *p, const sw_pbt_event *e, void *space)
{
    for (int k = 0; e->what == SW_PBT_EXPLOIT && k < sw_space_count(space); k++) {
        const double x = help_value(p, e->member, k);
        if (!sw_space_has(space, k, x))
            SW_CHECK(false, "%.17g of %d", x, k);
    }
}

SW_TEST("bounds hold over a million explores, or a fifth")
{
    sw_space *s = help_space(five, 5);
    help_run r = {0};
    for (int synch = 0; synch < 2; synch++) {
        sw_pbt *p = help_pbt(&OPTS_OF(s, 64, .synch = synch, .quantile = 0.5,
                                      .resample_probability = synch ? 0.01 : -1,
                                      .factors = {1.7, 0.4}));
        const int half = sw_tests_full() ? 500000 : 100000;
        while (r.exploits * 5 < half * (synch + 1) && CU_get_number_of_failure_records() == 0)
            help_rounds(p, 100, &r, help_random, inside, s);
    }
    sw_note("%d explores", r.exploits * 5);
}

typedef struct {
    int up, down, drawn, exploits;
    double values[8][5]; /* before */
} moves;

static double note_values(const sw_pbt *p, int member, double time, void *user)
{
    moves *m = user;
    for (int k = 0; k < 5; k++)
        m->values[member][k] = help_value(p, member, k);
    return help_random(p, member, time, NULL);
}

/* From relu = 0 and batch 16: up is a neighbour, below the first is the first. */
static void see_neighbour(const sw_pbt *p, const sw_pbt_event *e, void *user)
{
    moves *m = user;
    if (e->what != SW_PBT_EXPLOIT)
        return;
    const double from = m->values[e->donor][3], to = help_value(p, e->member, 3);
    const double low = fmax(0, from - 1), high = fmin(3, from + 1);
    m->exploits++;
    m->drawn += to != low && to != high;
    m->up += to == high && from < 3;
    m->down += to == low && from > 0;
}

SW_TEST("choices take a neighbour, which the ends bound")
{
    moves m = {0};
    help_run r = {0};
    help_rounds(help_pbt(&OPTS(8, .synch = 1, .resample_probability = -1)), 500, &r,
                note_values, see_neighbour, &m);
    CU_ASSERT(m.drawn == 0 && m.up > 200 && m.down > 200);
    CU_ASSERT_EQUAL(m.exploits, 1000);
}

static void see_draw(const sw_pbt *p, const sw_pbt_event *e, void *user)
{
    moves *m = user;
    if (e->what != SW_PBT_EXPLOIT)
        return;
    const double from = m->values[e->donor][0], to = help_value(p, e->member, 0);
    m->exploits++;
    m->up += to == fmin(1e-1, from * 1.2);
    m->down += to == fmax(1e-5, from * 0.8);
    m->drawn += to > 1e-3;
}

/* With probability 1 all are new draws, of the declared distribution; with 0 none is. */
SW_TEST("resampling is always or never")
{
    for (int always = 0; always < 2; always++) {
        moves m = {0};
        help_run r = {0};
        help_rounds(help_pbt(&OPTS(8, .synch = 1, .resample_probability = always ? 1 : -1)),
                    500, &r, note_values, see_draw, &m);
        if (always) {
            CU_ASSERT(m.up + m.down == 0 && fabs(m.drawn - m.exploits / 2.0) < 60);
        } else {
            CU_ASSERT_EQUAL(m.up + m.down, m.exploits);
            CU_ASSERT(m.up > 400 && m.down > 400);
        }
    }
}

SW_TEST("a choice can be explored by draws alone")
{
    const double values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    sw_space *s = help_space(NULL, 0);
    OK(sw_space_add(s, &SW_OPTS(sw_hyper, .name = "c", .kind = SW_CHOICE, .choices = values,
                                .n_choices = 8, .resample = 1)));
    sw_pbt *p = help_pbt(&OPTS_OF(s, 4, .synch = 1, .resample_probability = -1));
    help_run r = {0};
    int far = 0;
    for (int i = 0; i < 300; i++) {
        OK(sw_pbt_value_set(p, 3, 0, 4));
        help_rounds(p, 1, &r, help_index, NULL, NULL);
        far += fabs(help_value(p, 0, 0) - 4) > 1;
    }
    CU_ASSERT(far > 140); /* five eighths */
}

SW_TEST("integers lose their fraction and keep their bounds")
{
    const char *const one[] = {"n=int:-20..20"};
    sw_pbt *p = help_pbt(&OPTS_OF(help_space(one, 1), 2, .synch = 1, .quantile = 0.5,
                                  .resample_probability = -1, .factors = {1.5, 0.5}));
    const double cases[][3] = {{7, 10, 3},  {-7, -10, -3},  {1, 1, 0},
                               {15, 20, 7}, {-15, -20, -7}, {0, 0, 0}};
    help_run r = {0};
    for (int i = 0; i < 60; i++) {
        const double *c = cases[i % 6];
        OK(sw_pbt_value_set(p, 1, 0, c[0]));
        help_rounds(p, 1, &r, help_index, NULL, NULL);
        const double x = help_value(p, 0, 0);
        SW_CHECK(x == c[1] || x == c[2], "%g of %g", x, c[0]);
    }
    CU_ASSERT_EQUAL(r.exploits, 60);
}

static sw_status custom(int member, const double *donors, double *values, int n, void *user)
{
    int *mode = user;
    if (*mode == 2)
        return sw_error_set(SW_STOPPED, __FILE__, __LINE__, "custom says no");
    if (n != 5 || member != 0)
        return sw_error_set(SW_INVALID, __FILE__, __LINE__, "wrong arguments");
    values[2] = *mode == 1 ? 65 : 33;
    return SW_OK;
}

/* A value that it leaves outside of its range is refused by name, and can be tried again. */
SW_TEST("the explore function has the last word within the bounds")
{
    int mode = 1;
    sw_pbt *p = help_pbt(&OPTS(4, .synch = 1, .custom = custom, .user = &mode));
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    for (int i = 0; i < 4; i++)
        OK(sw_pbt_report(p, i, 10, i));
    const double before = help_value(p, 0, 0);
    REFUSED(sw_pbt_next_event(p, &e), SW_INVALID, "'width'");
    mode = 2;
    REFUSED(sw_pbt_next_event(p, &e), SW_STOPPED, "custom says no");
    CU_ASSERT(e.what == SW_PBT_NONE && help_value(p, 0, 0) == before);
    mode = 0;
    OK(sw_pbt_next_event(p, &e));
    CU_ASSERT(e.what == SW_PBT_EXPLOIT && e.number == 1 && help_value(p, 0, 2) == 33);
}

/* ---- quantiles --------------------------------------------------------------------------- */

SW_TEST("quantiles at their ends")
{
    const struct {
        int members;
        double quantile;
        int exploits;
    } cases[] = {{1, 0.5, 0}, {2, 0.5, 1},  {2, 0.01, 1}, {3, 0.5, 1},  {7, 0.5, 3},  {8, 0, 2},
                 {9, 0, 3},   {10, 0.3, 3}, {10, -1, 0},  {3, 0.25, 1}, {64, 0.5, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        help_run r = {0};
        help_rounds(
            help_pbt(&OPTS(cases[i].members, .quantile = cases[i].quantile, .synch = 1)), 1, &r,
            help_index, NULL, NULL);
        SW_CHECK(r.exploits == cases[i].exploits, "case %d", (int)i);
    }
}

static void see_shares(const sw_pbt *p, const sw_pbt_event *e, void *seen)
{
    if (e->what != SW_PBT_EXPLOIT)
        return;
    CU_ASSERT(e->member < 7 && e->donor >= 7);
    ((int *)seen)[e->member]++;
    ((int *)seen)[e->donor]++;
}

/* 7 of 10 are replaced by the 3 others, each as often. */
SW_TEST("7 of 10 are replaced by 3")
{
    for (int synch = 0; synch < 2; synch++) {
        int seen[10] = {0};
        help_run r = {0};
        sw_pbt *p = help_pbt(&OPTS(10, .replaced = 0.7, .donors = 0.3, .synch = synch));
        help_rounds(p, synch ? 300 : 3000, &r, help_index, see_shares, seen);
        for (int i = 0; i < 10; i++)
            SW_CHECK(fabs(seen[i] / (double)r.exploits - (i < 7 ? 1 / 7.0 : 1 / 3.0)) < 0.04,
                     "%d of %d", seen[i], r.exploits);
        CU_ASSERT(synch == 0 || r.exploits == 2100);
    }
}

static double with_gaps(const sw_pbt *p, int member, double time, void *user)
{
    return member < 3 ? (double)NAN : member == 7 ? -(double)INFINITY : 5;
}

/* Without a score a member is in no quantile; of equal scores the first index is the worst. */
SW_TEST("no score and equal scores")
{
    sw_pbt_opts o = OPTS(8, .synch = 1, .quantile = 0.2); /* one of five */
    help_run r = {0};
    sw_pbt *p = help_pbt(&o);
    help_rounds(p, 1, &r, with_gaps, NULL, NULL);
    CU_ASSERT(r.exploits == 1 && r.last.member == 7 && r.last.donor == 6);
    CU_ASSERT(isinf(r.last.score) && r.last.donor_score == 5);
    sw_pbt_member m = SW_OPTS(sw_pbt_member);
    OK(sw_pbt_describe(p, 0, &m));
    CU_ASSERT(isnan(m.score) && m.time == 10 && m.exploits == 0);
    OK(sw_pbt_describe(p, 7, &m));
    CU_ASSERT(m.exploits == 1);
    o.minimize = 1;
    r = (help_run){0};
    help_rounds(help_pbt(&o), 1, &r, with_gaps, NULL, NULL);
    CU_ASSERT(r.exploits == 1 && r.last.member == 3 && r.last.donor == 7);
}

/* ---- tournaments ------------------------------------------------------------------------- */

static void better_by_index(const sw_pbt *p, const sw_pbt_event *e, void *user)
{
    if (e->what == SW_PBT_EXPLOIT)
        SW_CHECK(e->donor_score > e->score, "%d copies %d", e->member, e->donor);
}

SW_TEST("a tournament copies the better one")
{
    for (int synch = 0; synch < 2; synch++) {
        const sw_pbt_opts o = OPTS(20, .exploit = SW_TOURNAMENT, .synch = synch);
        help_run r = {0};
        help_rounds(help_pbt(&o), synch ? 200 : 2000, &r, help_random, better_by_index, NULL);
        sw_note("%d exploits of %d reports", r.exploits, r.reports);
        CU_ASSERT(synch == 0 || fabs(r.exploits - r.reports / 2.0) < r.reports / 10.0);
        CU_ASSERT(r.exploits > r.reports / 8);
        CU_ASSERT(synch == (r.keeps == 0));
    }
}

static double two_groups(const sw_pbt *p, int member, double time, void *user)
{
    return help_random(p, member, time, NULL) / 1000 + (member < 5 ? 0 : *(double *)user);
}

static void never_of_the_lower(const sw_pbt *p, const sw_pbt_event *e, void *user)
{
    if (e->what == SW_PBT_EXPLOIT)
        CU_ASSERT(e->member < 5 || e->donor >= 5);
}

/* Two groups that are far apart are distinguished, two equal ones hardly ever; never at the
 * first turn. */
SW_TEST("the t-test copies who is surely better")
{
    for (int far = 0; far < 2; far++) {
        double gap = far ? 5 : 0;
        help_run r = {0};
        sw_pbt *p = help_pbt(&OPTS(10, .exploit = SW_T_TEST, .synch = 1));
        help_rounds(p, 1, &r, two_groups, far ? never_of_the_lower : NULL, &gap);
        CU_ASSERT_EQUAL(r.exploits, 0);
        help_rounds(p, 40, &r, two_groups, far ? never_of_the_lower : NULL, &gap);
        sw_note("%d exploits with a gap of %g", r.exploits, gap);
        CU_ASSERT(far ? r.exploits > 40 : r.exploits < 40);
    }
}

/* ---- ends -------------------------------------------------------------------------------- */

static double rises(const sw_pbt *p, int member, double time, void *user)
{
    return time * (member + 1);
}

SW_TEST("members end by time and by score")
{
    sw_pbt_opts o = OPTS(4, .quantile = -1, .stop_time = 35);
    help_run r = {0};
    sw_pbt *p = help_pbt(&o);
    help_rounds(p, 100, &r, rises, NULL, NULL);
    CU_ASSERT_EQUAL(r.stops, 4);
    sw_pbt_member m = SW_OPTS(sw_pbt_member);
    OK(sw_pbt_describe(p, 2, &m));
    CU_ASSERT(m.ended && m.time == 35 && m.score == 105);
    REFUSED(sw_pbt_report(p, 2, 40, 1), SW_INVALID, "member 2 has ended");
    REFUSED(sw_pbt_leave(p, 2), SW_INVALID, "member 2 has ended");
    o.stop_time = 0;
    o.has_stop_score = 1;
    o.stop_score = 80;
    r = (help_run){0};
    p = help_pbt(&o);
    help_rounds(p, 100, &r, rises, NULL, NULL);
    CU_ASSERT_EQUAL(r.stops, 4);
    for (int i = 0; i < 4; i++) {
        OK(sw_pbt_describe(p, i, &m));
        CU_ASSERT(m.score >= 80 && m.time == (i == 0 ? 80 : i == 1 ? 40 : i == 2 ? 30 : 20));
    }
}

/* Members crash, finish and stop at random, at random moments: the others go on, and each goes
 * on until its own end. */
SW_TEST("members that end in any order never stall the others")
{
    sw_space *s = help_space(five, 5);
    sw_dice dice = {5};
    for (int k = 0; k < 1000; k++) {
        const int n = 1 + (int)sw_dice_below(&dice, 12);
        sw_pbt_opts o = OPTS_OF(s, n, .synch = k % 2, .exploit = (sw_exploit)(k / 2 % 3));
        o.stop_time = 100 + (double)sw_dice_below(&dice, 100);
        o.burn_in = (double)sw_dice_below(&dice, 60);
        sw_pbt *p;
        OK(sw_pbt_create(&p, &o));
        int who[16], count = 1, rounds = 0, ended = 0;
        double until;
        for (; rounds < 2000; rounds++) {
            OK(sw_pbt_next(p, who, 1 + (int)sw_dice_below(&dice, 16), &count, &until));
            if (count == 0)
                break;
            for (int i = 0; i < count; i++) {
                const uint64_t what = sw_dice_below(&dice, 12);
                if (what > 0)
                    OK(sw_pbt_report(p, who[i], until,
                                     what == 1 ? (double)NAN
                                               : (double)sw_dice_below(&dice, 9)));
                if (what == 0 || what == 2) /* also after its report */
                    OK(sw_pbt_leave(p, who[i]));
            }
            for (sw_pbt_event e = SW_OPTS(sw_pbt_event, .what = SW_PBT_KEEP);
                 e.what != SW_PBT_NONE;)
                OK(sw_pbt_next_event(p, &e));
        }
        sw_pbt_member m = SW_OPTS(sw_pbt_member);
        for (int i = 0; i < n; i++) {
            OK(sw_pbt_describe(p, i, &m));
            ended += m.ended;
        }
        SW_CHECK(count == 0 && ended == n, "schedule %d: %d of %d ended", k, ended, n);
        sw_pbt_destroy(p);
    }
}

/* `room` at once, reported in any order: until all have ended. */
static uint64_t sum_of(const sw_pbt_opts *o, int room, uint64_t seed)
{
    sw_pbt *p;
    sw_dice dice = {seed};
    help_run r = {0};
    int who[64], n = 1;
    double until;
    OK(sw_pbt_create(&p, o));
    while (n > 0) {
        OK(sw_pbt_next(p, who, room, &n, &until));
        for (int left = n; left > 0; left--) {
            const int at = (int)sw_dice_below(&dice, (uint64_t)left), i = who[at];
            who[at] = who[left - 1];
            if (i == 7 && until > 80) /* fails, whenever that is */
                OK(sw_pbt_leave(p, i));
            else
                OK(sw_pbt_report(p, i, until, help_random(p, i, until, NULL)));
        }
        for (sw_pbt_event e = SW_OPTS(sw_pbt_event);;) {
            if (!OK(sw_pbt_next_event(p, &e)) || e.what == SW_PBT_NONE)
                break;
            if (e.what == SW_PBT_EXPLOIT || !o->synch) /* who stops first is as they report */
                help_add(p, &r.sum, &e);
        }
    }
    sw_pbt_destroy(p);
    return r.sum;
}

/* How many run side by side, and who reports first, decides nothing. */
SW_TEST("the order of reports decides nothing")
{
    for (int k = 0; k < 6; k++) {
        const sw_pbt_opts o =
            OPTS(16, .synch = k % 2, .exploit = (sw_exploit)(k / 2), .stop_time = 300);
        const uint64_t sum = sum_of(&o, 64, 1);
        for (int room = 1; room < 17; room += sw_tests_full() ? 1 : 5)
            SW_CHECK(sum_of(&o, room, (uint64_t)room) == sum, "case %d, %d at once", k, room);
    }
}

SW_TEST("calls out of place are refused")
{
    sw_pbt *p = help_pbt(&OPTS(3));
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    int who[3], n;
    double until;
    REFUSED(sw_pbt_report(p, 3, 1, 1), SW_INVALID, "0 to 2 (got 3)");
    REFUSED(sw_pbt_report(p, 0, -1, 1), SW_INVALID, "above 0");
    REFUSED(sw_pbt_report(p, 0, (double)NAN, 1), SW_INVALID, "above 0");
    REFUSED(sw_pbt_next(p, who, 0, &n, &until), SW_INVALID, "room");
    REFUSED(sw_pbt_value_set(p, 0, 2, 65), SW_INVALID, "'width'");
    REFUSED(sw_pbt_value_set(p, 0, 5, 65), SW_INVALID, "5 hyper-parameters (got 5)");
    for (int i = 0; i < 3; i++)
        OK(sw_pbt_report(p, i, 10, i));
    REFUSED(sw_pbt_report(p, 0, 20, 1), SW_INVALID, "still waits");
    REFUSED(sw_pbt_next(p, who, 3, &n, &until), SW_INVALID, "sw_pbt_next_event");
    OK(sw_pbt_next_event(p, &e));
    REFUSED(sw_pbt_report(p, 0, 20, 1), SW_INVALID, "sw_pbt_next_event");
    while (e.what != SW_PBT_NONE)
        OK(sw_pbt_next_event(p, &e));
    OK(sw_pbt_next(p, who, 3, &n, &until));
    REFUSED(sw_pbt_report(p, who[0], 1, 1), SW_INVALID, "above 10");
}

SW_TEST("options that cannot be are refused by name")
{
    sw_pbt *p = NULL;
    sw_pbt_opts o;
#define NOT(member, value, says)                                                               \
    do {                                                                                       \
        o = OPTS(4);                                                                           \
        o.member = value;                                                                      \
        REFUSED(sw_pbt_create(&p, &o), SW_INVALID, says);                                      \
    } while (0)
    NOT(members, 0, "1 to 1,000,000 (got 0)");
    NOT(members, 1000001, "1 to 1,000,000");
    NOT(space, NULL, "space");
    NOT(space, help_space(NULL, 0), "must have a hyper-parameter");
    NOT(interval, 0, "interval must be above 0");
    NOT(interval, (double)NAN, "interval");
    NOT(burn_in, -1, "burn_in");
    NOT(quantile, 0.6, "quantile must be at most 0.5");
    NOT(quantile, (double)NAN, "quantile");
    NOT(resample_probability, 1.5, "resample_probability");
    NOT(replaced, 1.5, "replaced and donors must be 0 to 1");
    NOT(donors, -0.5, "replaced and donors");
    NOT(factors[0], 1.1, "second factor");
    NOT(factors[1], -1, "first factor");
    NOT(exploit, (sw_exploit)3, "exploit 3");
    NOT(explore, (sw_explore)2, "explore 2");
    NOT(stop_time, -1, "stop_time");
    o = OPTS(4, .explore = SW_PB2);
    REFUSED(sw_pbt_create(&p, &o), SW_UNSUPPORTED, "SW_PB2 is gone");
    o = OPTS(4, .replaced = 0.8, .donors = 0.3);
    REFUSED(sw_pbt_create(&p, &o), SW_INVALID, "at most 1 together");
    CU_ASSERT_PTR_NULL(p);
}
