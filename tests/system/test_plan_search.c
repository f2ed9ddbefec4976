/* The search for the largest batch that fits, against all batches. */
#include "tests/support/suite.h"
#include "tools/plan/plan_search.h"

SW_TESTS("plan search")

#define RANDOM_MOST 120
typedef struct {
    size_t total[RANDOM_MOST + 1], bound[RANDOM_MOST + 1];
    uint64_t form[RANDOM_MOST + 1];
    int64_t fails_at; /* 0: never */
} figures;

static sw_status bound_of(void *context, int64_t batch, plan_bound *out)
{
    const figures *f = context;
    CU_ASSERT_FATAL(batch >= 1 && batch <= RANDOM_MOST);
    *out = (plan_bound){f->bound[batch], f->form[batch]};
    return batch == f->fails_at ? SW_NOMEM : SW_OK;
}

static sw_status total_of(void *context, int64_t batch, size_t *out)
{
    const figures *f = context;
    CU_ASSERT_FATAL(batch >= 1 && batch <= RANDOM_MOST);
    *out = f->total[batch];
    return batch == f->fails_at ? SW_NOMEM : SW_OK;
}

/* Totals that go up and down; from grows_from on a bound below them that never falls. */
static void draw_figures(figures *f, sw_dice *dice, int64_t grows_from)
{
    *f = (figures){0};
    size_t bound = 0;
    for (int64_t b = 1; b <= RANDOM_MOST; b++) {
        bound += (size_t)sw_dice_below(dice, 20);
        f->bound[b] = b < grows_from ? (size_t)sw_dice_below(dice, 100) : bound;
        f->total[b] = f->bound[b] + (size_t)sw_dice_below(dice, 1 + sw_dice_below(dice, 300));
        f->form[b] = 7;
    }
}

static int64_t largest_of_all(const figures *f, int64_t most, size_t fit_bytes)
{
    for (int64_t b = most; b > 0; b--)
        if (f->total[b] <= fit_bytes)
            return b;
    return 0;
}

SW_TEST("the search finds the largest of all")
{
    static figures f;
    sw_dice dice = {11};
    int64_t saved = 0;
    for (int round = 0; round < 4000; round++) {
        plan_search s = {.bound = bound_of, .total = total_of, .context = &f};
        s.grows_from = 1 + (int64_t)sw_dice_below(&dice, RANDOM_MOST + 10);
        s.most = (int64_t)sw_dice_below(&dice, RANDOM_MOST + 1);
        s.fit_bytes = (size_t)sw_dice_below(&dice, 1200);
        draw_figures(&f, &dice, s.grows_from);
        plan_found found;
        CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
        const int64_t best = largest_of_all(&f, s.most, s.fit_bytes);
        SW_CHECK(found.batch == best && found.total_bytes == (best > 0 ? f.total[best] : 0),
                 "round %d: %lld, %lld is the largest", round, (long long)found.batch,
                 (long long)best);
        SW_CHECK(found.batch < found.excluded_from && found.excluded_from <= s.most + 1 &&
                     found.n_tried <= found.excluded_from - found.batch,
                 "round %d: excluded from %lld", round, (long long)found.excluded_from);
        if (found.excluded_from <= s.most)
            CU_ASSERT(found.excluded_bytes == f.bound[found.excluded_from] &&
                      found.excluded_bytes > s.fit_bytes);
        saved += s.most + 1 - found.excluded_from;
    }
    CU_ASSERT(saved > 4000); /* the bound was worth it */
}

/* Bounds 10, 20, 30 and so on, with `fallen` for those above 100 batches. */
static void draw_steps(figures *f, size_t fallen, uint64_t form)
{
    *f = (figures){0};
    for (int b = 1; b <= RANDOM_MOST; b++) {
        f->bound[b] = b > 100 ? 10 * (size_t)b - fallen : 10 * (size_t)b;
        f->total[b] = f->bound[b];
        f->form[b] = b > 100 ? form : 0;
    }
}

static plan_search search_in(figures *f)
{
    return (plan_search){300, RANDOM_MOST, 10, bound_of, total_of, f};
}

/* A bound that falls between batches of one form is not believed. */
SW_TEST("a bound that does not grow proves nothing")
{
    static figures f;
    const plan_search s = search_in(&f);
    plan_found found;
    draw_steps(&f, 1000, 0);
    f.bound[RANDOM_MOST] = f.total[RANDOM_MOST] = 5;
    CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
    CU_ASSERT_EQUAL(found.batch, RANDOM_MOST);
    CU_ASSERT_EQUAL(found.excluded_from, RANDOM_MOST + 1);
}

/* Another form begins anew: each is excluded by its own bounds. */
SW_TEST("each form is excluded by itself")
{
    static figures f;
    const plan_search s = search_in(&f);
    plan_found found;
    draw_steps(&f, 800, 1); /* of the batches above 100, those up to 110 fit */
    CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
    CU_ASSERT_EQUAL(found.batch, largest_of_all(&f, RANDOM_MOST, 300));
    CU_ASSERT(found.batch == 110 && found.excluded_from == 111 && found.n_tried == 1);
    draw_steps(&f, 0, 1); /* none of them does */
    CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
    CU_ASSERT(found.batch == 30 && found.excluded_from == 31 && found.n_tried == 1);
    CU_ASSERT(found.n_bounds < 40);
}

SW_TEST("a failed search leaves its result")
{
    static figures f;
    sw_dice dice = {5};
    draw_figures(&f, &dice, 20);
    const plan_search s = SW_INIT(.fit_bytes = 300, .most = RANDOM_MOST, .grows_from = 20,
                                  .bound = bound_of, .total = total_of, .context = &f);
    plan_found found = {.batch = -5};
    f.fails_at = RANDOM_MOST;
    CU_ASSERT_EQUAL(plan_search_run(&s, &found), SW_NOMEM);
    f.fails_at = 20;
    CU_ASSERT_EQUAL(plan_search_run(&s, &found), SW_NOMEM);
    CU_ASSERT_EQUAL(found.batch, -5);
}
