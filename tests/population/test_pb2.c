/* PB2: it stays in bounds, does the same twice, and finds what drifts sooner than chance. */
#include "runtime/population/pb2_internal.h"
#include "tests/population/pbt_help.h"

static const char *const two[] = {"x=uniform:0..1", "y=log:1e-3..1e3", "n=int:1..9",
                                  "c=choice:a,b,c"};

enum { SEEDS = 5, FEW_SEEDS = 1 };

typedef struct {
    double score[16], regret;
} world;

/* A member's score grows by 1 - (x - its optimum)^2 for each unit of time; the optimum drifts.
 */
static double grow(const sw_pbt *p, int member, double time, void *user)
{
    world *w = user;
    sw_pbt_member m = SW_OPTS(sw_pbt_member);
    OK(sw_pbt_describe(p, member, &m));
    const double x = help_value(p, member, 0), best = 0.5 + 0.35 * sin(time / 150);
    const double loss = 4 * (x - best) * (x - best);
    w->score[member] += (time - m.time) * (1 - loss);
    w->regret += loss;
    return w->score[member];
}

static void copy(const sw_pbt *p, const sw_pbt_event *e, void *user)
{
    world *w = user;
    (void)p;
    if (e->what == SW_PBT_EXPLOIT)
        w->score[e->member] = w->score[e->donor];
}

static double regret_of(const sw_space *s, uint64_t seed, sw_explore explore, int rounds,
                        uint64_t *sum)
{
    const sw_pbt_opts o = SW_OPTS(
        sw_pbt_opts, .space = s, .members = 8, .seed = seed, .interval = 10, .quantile = 0.375,
        .resample_probability = explore == SW_PB2 ? 0 : 1, .synch = 1, .explore = explore);
    sw_pbt *p;
    world w = {.regret = 0};
    help_run r = {0};
    OK(sw_pbt_create(&p, &o));
    help_rounds(p, rounds, &r, grow, copy, &w);
    sw_pbt_destroy(p);
    *sum = r.sum;
    return w.regret / r.reports;
}

static void better_than_chance(void)
{
    sw_space *s = help_space(two, 1);
    const int seeds = sw_tests_full() ? SEEDS : FEW_SEEDS;
    int wins = 0;
    double of[2] = {0, 0};
    uint64_t sum, again;
    for (uint64_t seed = 0; seed < (uint64_t)seeds; seed++) {
        const double bandit = regret_of(s, seed, SW_PB2, 30, &sum);
        const double chance = regret_of(s, seed, SW_PERTURB, 30, &again);
        wins += bandit < chance;
        of[0] += bandit / seeds;
        of[1] += chance / seeds;
    }
    sw_note("loss %.4f, of random draws %.4f; better %d times of %d", of[0], of[1], wins,
            seeds);
    CU_ASSERT(wins == seeds && of[0] < 0.75 * of[1]);
}

static void the_same_bits_twice(void)
{
    sw_space *s = help_space(two, 4);
    uint64_t sum, again;
    CU_ASSERT(regret_of(s, 5, SW_PB2, 12, &sum) == regret_of(s, 5, SW_PB2, 12, &again));
    CU_ASSERT(sum == again && sum != 0);
    (void)regret_of(s, 6, SW_PB2, 12, &again);
    CU_ASSERT(sum != again);
}

static void inside(const sw_pbt *p, const sw_pbt_event *e, void *space)
{
    for (int k = 0; e->what == SW_PBT_EXPLOIT && k < sw_space_count(space); k++)
        SW_CHECK(sw_space_has(space, k, help_value(p, e->member, k)), "%.17g of %d",
                 help_value(p, e->member, k), k);
}

static double wild(const sw_pbt *p, int member, double time, void *user)
{
    sw_dice dice = {(uint64_t)member + (uint64_t)time * 31};
    switch (sw_dice_below(&dice, 9)) {
    case 0:
        return (double)NAN;
    case 1:
        return (double)INFINITY;
    case 2:
        return -1e300;
    case 3:
        return 1e300;
    default:
        return help_random(p, member, time, user);
    }
}

/* Whatever scores there are; in both modes. */
static void bounds_hold(void)
{
    static const char *const odd[] = {"a=uniform:-1e308..1e308", "b=log:1e-300..1e300",
                                      "n=int:-3..3", "one=uniform:2..2", "c=choice:1,2,3"};
    sw_space *s = help_space(odd, 5);
    for (int synch = 0; synch < 2; synch++) {
        const sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = s, .members = 12, .interval = 5,
                                      .quantile = 0.5, .synch = synch, .explore = SW_PB2);
        help_run r = {0};
        help_rounds(help_pbt(&o),
                    sw_tests_full() ? synch ? 25 : 60
                    : synch         ? 15
                                    : 36,
                    &r, wild, inside, s);
        CU_ASSERT(r.exploits > 50);
    }
}

/* More points than are remembered. */
static void the_oldest_points_are_forgotten(void)
{
    sw_space *s = help_space(two, 1);
    const sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = s, .members = 64, .interval = 5,
                                  .quantile = 0.02, .synch = 1, .explore = SW_PB2);
    help_run r = {0};
    sw_pbt *p = help_pbt(&o);
    help_rounds(p, 18, &r, help_random, inside, s); /* 17 of them give points */
    CU_ASSERT_EQUAL(r.exploits, 36);
}

/* ---- the model against a plain one ---------------------------------------------------------
 */

enum { POINTS = 40 };
typedef struct {
    double t, before, y, x, log_y;
} point;

/* k of pb2.c's head, and s^2 where a point meets itself. */
static double covariance(const swi_pb2 *g, const point *a, const point *b, double range)
{
    const double d[3] = {(a->before - b->before) / range, a->x - b->x, a->log_y - b->log_y};
    const double square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    return exp(-square / (2 * g->length * g->length)) * exp(g->forget * fabs(a->t - b->t));
}

/* Gauss and Jordan: out = (K + s^2 I)^-1 b. */
static void solve(double k[POINTS][POINTS], const double *b, double *out)
{
    static double m[POINTS][POINTS + 1];
    for (int i = 0; i < POINTS; i++) {
        memcpy(m[i], k[i], sizeof k[i]);
        m[i][POINTS] = b[i];
    }
    for (int c = 0; c < POINTS; c++)
        for (int i = 0; i < POINTS; i++) {
            const double factor = i != c ? m[i][c] / m[c][c] : 0;
            for (int j = c; j <= POINTS; j++)
                m[i][j] -= factor * m[c][j];
        }
    for (int i = 0; i < POINTS; i++)
        out[i] = m[i][POINTS] / m[i][i];
}

static void compare(const swi_pb2 *g, const point *p, const point *at, double range,
                    double mean, double variance)
{
    static double k[POINTS][POINTS], y[POINTS], to[POINTS], a[POINTS], b[POINTS];
    double sum = 0, squares = 0, is[2] = {0, 1};
    for (int i = 0; i < POINTS; i++)
        sum += p[i].y / POINTS;
    for (int i = 0; i < POINTS; i++)
        squares += (p[i].y - sum) * (p[i].y - sum) / POINTS;
    for (int i = 0; i < POINTS; i++) {
        y[i] = fmin(2, fmax(-2, (p[i].y - sum) / sqrt(squares)));
        to[i] = covariance(g, at, &p[i], range);
        for (int j = 0; j < POINTS; j++)
            k[i][j] = covariance(g, &p[i], &p[j], range) + (i == j) * g->noise;
    }
    solve(k, y, a);
    solve(k, to, b);
    for (int i = 0; i < POINTS; i++) {
        is[0] += to[i] * a[i];
        is[1] -= to[i] * b[i];
    }
    SW_CHECK(fabs(is[0] - mean) < 1e-9 && fabs(is[1] - variance) < 1e-9,
             "mean %.12g is %.12g, variance %.12g is %.12g", mean, is[0], variance, is[1]);
}

/* One member's turns, with values that the test sets: mean and variance anywhere are those that
 * a dense solution gives. */
static void the_model_is_a_gaussian_process(void)
{
    sw_space *s = help_space(two, 2);
    const sw_pbt_opts o =
        SW_OPTS(sw_pbt_opts, .space = s, .members = 1, .interval = 10, .explore = SW_PB2);
    sw_pbt *p = help_pbt(&o);
    sw_dice dice = {6};
    point all[POINTS], at;
    double score = 5, low = 5, high = 5;
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    for (int i = -1; i < POINTS; i++) { /* the first turn has no score before */
        const double x = (double)sw_dice_below(&dice, 1000) / 999;
        const double y = (double)sw_dice_below(&dice, 1000) / 999, before = score;
        OK(sw_pbt_value_set(p, 0, 0, x));
        OK(sw_pbt_value_set(p, 0, 1, fmin(1e3, fmax(1e-3, pow(10, 6 * y - 3)))));
        score += (double)sw_dice_below(&dice, 100) - 40;
        OK(sw_pbt_report(p, 0, 10.0 * (i + 2), i < 0 ? before : score));
        score = i < 0 ? before : score;
        OK(sw_pbt_next_event(p, &e));
        if (i < 0)
            continue;
        all[i] = (point){i + 1.0, before, (score - before) / 10, x, y};
        low = fmin(low, before);
        high = fmax(high, before);
    }
    swi_pb2_fit(p);
    CU_ASSERT_EQUAL_FATAL(p->pb2->n, POINTS);
    for (int i = 0; i < 50; i++) {
        double mean, variance, values[2];
        at = all[i % POINTS];
        at.t += (double)sw_dice_below(&dice, 30);
        at.x = values[0] = (double)sw_dice_below(&dice, 100) / 99;
        values[1] = pow(10, 6 * at.log_y - 3);
        swi_pb2_row(p, p->pb2->n, at.t * 10, at.before, values);
        swi_pb2_predict(p->pb2, p->pb2->n, p->pb2->n, &mean, &variance);
        compare(p->pb2, all, &at, high - low, mean, variance);
    }
}

typedef struct {
    double x[8];
    int n;
} tried;

static void note_x(const sw_pbt *p, const sw_pbt_event *e, void *user)
{
    tried *t = user;
    if (e->what == SW_PBT_EXPLOIT && t->n < 8)
        t->x[t->n++] = help_value(p, e->member, 0);
}

/* At the first turn nothing is known but who tries what: they stay apart. */
static void members_that_are_out_are_kept_away_from(void)
{
    sw_space *s = help_space(two, 1);
    const sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = s, .members = 8, .interval = 5,
                                  .quantile = 0.5, .synch = 1, .explore = SW_PB2);
    tried t = {.n = 0};
    sw_pbt *p = help_pbt(&o);
    for (int i = 0; i < 8; i++)
        OK(sw_pbt_value_set(p, i, 0, 0.5));
    help_rounds(p, 1, &(help_run){0}, help_index, note_x, &t);
    CU_ASSERT_EQUAL(t.n, 4);
    for (int i = 0; i < t.n; i++)
        for (int k = 0; k < i; k++)
            SW_CHECK(fabs(t.x[i] - t.x[k]) > 0.05, "%g and %g", t.x[i], t.x[k]);
}

static void choices_alone_are_refused(void)
{
    static const char *const one[] = {"c=choice:1,2"};
    const sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = help_space(one, 1), .members = 4,
                                  .interval = 5, .explore = SW_PB2);
    sw_pbt *p = NULL;
    REFUSED(sw_pbt_create(&p, &o), SW_INVALID, "PB2 must have a hyper-parameter");
}

static const sw_test tests[] = {
    {"what drifts is found sooner than by chance", better_than_chance},
    {"the same bits twice", the_same_bits_twice},
    {"bounds hold whatever the scores", bounds_hold},
    {"the oldest points are forgotten", the_oldest_points_are_forgotten, .full = true},
    {"the model is a Gaussian process", the_model_is_a_gaussian_process},
    {"members that are out are kept away from", members_that_are_out_are_kept_away_from},
    {"a space of choices is refused", choices_alone_are_refused},
};
SW_SUITE("pb2", tests)
