/* Budgets: exact limits, also when several threads and arenas share one. */
#include "alloc/arena/arena.h"
#include "tests/support/suite.h"
#include "tests/alloc/event_watch.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

SW_TESTS("budget")

SW_TEST("the limit is exact and refusals change nothing")
{
    sw_budget *budget = sw_test_budget(1000);
    CU_ASSERT_EQUAL(sw_budget_limit(budget), 1000);
    CU_ASSERT_EQUAL(sw_budget_take(budget, 400, "a"), SW_OK);
    CU_ASSERT_EQUAL(sw_budget_take(budget, 601, "weights"), SW_NOMEM);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "weights: needs 601 bytes; 400 of 1,000 are used");
    CU_ASSERT_EQUAL(sw_budget_take(budget, SIZE_MAX, "b"), SW_NOMEM);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 400);
    CU_ASSERT_EQUAL(sw_budget_take(budget, 600, "c"), SW_OK);
    CU_ASSERT_EQUAL(sw_budget_take(budget, 0, "d"), SW_OK);
    CU_ASSERT_EQUAL(sw_budget_take(budget, 1, "e"), SW_NOMEM);
    sw_budget_give(budget, 1000);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
}

SW_TEST("no budget is no limit")
{
    CU_ASSERT_EQUAL(sw_budget_take(NULL, SIZE_MAX, "x"), SW_OK);
    sw_budget_give(NULL, SIZE_MAX);
    CU_ASSERT_EQUAL(sw_budget_limit(NULL), SIZE_MAX);
    CU_ASSERT_EQUAL(sw_budget_used(NULL), 0);
}

#define LIMIT 1000u

typedef struct {
    sw_budget *budget;
    atomic_size_t *held; /* by all threads; counted apart from the budget */
    atomic_int over;
    uint64_t seed;
    int taken, refused;
} worker;

static void *compete(void *arg)
{
    worker *w = arg;
    sw_dice dice = {w->seed};
    for (int i = 0; i < 20000; i++) {
        const size_t bytes = 1 + sw_dice_below(&dice, LIMIT / 2);
        if (sw_budget_take(w->budget, bytes, "worker") != SW_OK) {
            w->refused++;
            continue;
        }
        w->taken++;
        if (atomic_fetch_add(w->held, bytes) + bytes > LIMIT)
            w->over++;
        atomic_fetch_sub(w->held, bytes);
        sw_budget_give(w->budget, bytes);
    }
    return NULL;
}

SW_TEST("threads never hold more than the limit together")
{
    pthread_t threads[4];
    worker workers[4];
    atomic_size_t held = 0;
    sw_budget *budget = sw_test_budget(LIMIT);
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < 4; i++) {
        workers[i].budget = budget;
        workers[i].held = &held;
        workers[i].seed = (uint64_t)i;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, compete, &workers[i]), 0);
    }
    int taken = 0, refused = 0;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(workers[i].over, 0);
        taken += workers[i].taken;
        refused += workers[i].refused;
    }
    CU_ASSERT_EQUAL(taken + refused, 80000);
    CU_ASSERT(taken > 0);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
}

SW_TEST("arenas share one budget and promises hold")
{
    sw_watch first_watch = {0}, second_watch = {0};
    sw_budget *budget = sw_test_budget(2048);
    sw_arena *first = sw_watched_arena("host", budget, &first_watch);
    sw_arena *second = sw_watched_arena("device", budget, &second_watch);
    void *out;
    CU_ASSERT_EQUAL(sw_arena_grow(first, 1500, false), SW_OK);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 1536);
    CU_ASSERT_EQUAL(sw_arena_push(second, &out, 513, "late"), SW_NOMEM);
    CU_ASSERT_EQUAL(sw_arena_push(second, &out, 512, "late"), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_push(first, &out, 1536, "promised"),
                    SW_OK); /* its promise holds */
    sw_arena_reset(first);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 2048); /* and stays promised */
}
