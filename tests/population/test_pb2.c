/* PB2: it stays in bounds, does the same twice, and finds what drifts sooner than chance. */
#include "tests/population/pbt_help.h"

static const char *const two[] = {"x=uniform:0..1", "y=log:1e-3..1e3", "n=int:1..9",
                                  "c=choice:a,b,c"};

enum { SEEDS = 5 };

typedef struct {
    double score[16], regret;
} world;

/* A member's score grows by 1 - (x - its optimum)^2 for each unit of time; the optimum drifts.
 */
static double grow(const sw_pbt *p, int member, double time, void *user)
{
    world *w = user;
    sw_pbt_member m = {.size = sizeof m};
    OK(sw_pbt_look(p, member, &m));
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
    const sw_pbt_opts o = {.size = sizeof o,
                           .space = s,
                           .members = 8,
                           .seed = seed,
                           .interval = 10,
                           .quantile = 0.375,
                           .resample_probability = explore == SW_PB2 ? 0 : 1,
                           .synch = 1,
                           .explore = explore};
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
    int wins = 0;
    double of[2] = {0, 0};
    uint64_t sum, again;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const double bandit = regret_of(s, seed, SW_PB2, 30, &sum);
        const double chance = regret_of(s, seed, SW_PERTURB, 30, &again);
        wins += bandit < chance;
        of[0] += bandit / SEEDS;
        of[1] += chance / SEEDS;
    }
    sw_note("loss %.4f, of random draws %.4f; better %d times of %d", of[0], of[1], wins,
            SEEDS);
    CU_ASSERT(wins == SEEDS && of[0] < 0.75 * of[1]);
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
        const sw_pbt_opts o = {.size = sizeof o,
                               .space = s,
                               .members = 12,
                               .interval = 5,
                               .quantile = 0.5,
                               .synch = synch,
                               .explore = SW_PB2};
        help_run r = {0};
        help_rounds(help_pbt(&o), synch ? 25 : 60, &r, wild, inside, s);
        CU_ASSERT(r.exploits > 50);
    }
}

/* More points than are remembered. */
static void the_oldest_points_are_forgotten(void)
{
    sw_space *s = help_space(two, 1);
    const sw_pbt_opts o = {.size = sizeof o,
                           .space = s,
                           .members = 64,
                           .interval = 5,
                           .quantile = 0.02,
                           .synch = 1,
                           .explore = SW_PB2};
    help_run r = {0};
    sw_pbt *p = help_pbt(&o);
    help_rounds(p, 18, &r, help_random, inside, s); /* 17 of them give points */
    CU_ASSERT_EQUAL(r.exploits, 36);
}

static void choices_alone_are_refused(void)
{
    static const char *const one[] = {"c=choice:1,2"};
    const sw_pbt_opts o = {.size = sizeof o,
                           .space = help_space(one, 1),
                           .members = 4,
                           .interval = 5,
                           .explore = SW_PB2};
    sw_pbt *p = NULL;
    REFUSED(sw_pbt_create(&p, &o), SW_INVALID, "PB2 must have a hyper-parameter");
}

static const sw_test tests[] = {
    {"what drifts is found sooner than by chance", better_than_chance},
    {"the same bits twice", the_same_bits_twice},
    {"bounds hold whatever the scores", bounds_hold},
    {"the oldest points are forgotten", the_oldest_points_are_forgotten},
    {"a space of choices is refused", choices_alone_are_refused},
};
SW_SUITE("pb2", tests)
