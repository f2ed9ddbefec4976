/* Arenas: bump and planned ranges, their counts and events, and refusals that change nothing.
 */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "tests/alloc/event_watch.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <pthread.h>
#include <stdatomic.h>

SW_TESTS("arena")

static const char *const kinds[] = {"host", "device"};

static size_t round_up(size_t bytes)
{
    return (bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
}

static unsigned char *pushed(sw_arena *arena, size_t bytes)
{
    void *out = NULL;
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, bytes, "range"), SW_OK);
    return out;
}

SW_TEST("pushes are aligned, apart, writable and counted")
{
    for (int k = 0; k < 2; k++) {
        sw_watch watch = {0};
        sw_arena *arena = sw_watched_arena(kinds[k], NULL, &watch);
        unsigned char *a = pushed(arena, 1), *b = pushed(arena, 64), *c = pushed(arena, 65);
        CU_ASSERT_EQUAL(
            (uintptr_t)a % SW_ALIGN + (uintptr_t)b % SW_ALIGN + (uintptr_t)c % SW_ALIGN, 0);
        CU_ASSERT_PTR_EQUAL(a, sw_arena_base(arena));
        CU_ASSERT(b >= a + 64 && c >= b + 64);
        memset(a, 1, 1);
        memset(b, 2, 64);
        memset(c, 3, 65);
        CU_ASSERT_EQUAL(a[0], 1);
        CU_ASSERT_EQUAL(b[63], 2);
        CU_ASSERT_EQUAL(sw_arena_live(arena), 256);
        CU_ASSERT(sw_arena_height(arena) >= 256);
        CU_ASSERT_EQUAL(watch.count[SW_EVENT_PUSH], 3);
        CU_ASSERT_STRING_EQUAL(watch.last.label, "range");
        CU_ASSERT_EQUAL(watch.last.bytes, 128);
        CU_ASSERT_PTR_EQUAL(watch.last.arena, arena);
        CU_ASSERT_EQUAL(watch.committed, sw_arena_store(arena)->committed_bytes);
        CU_ASSERT_PTR_NOT_NULL(pushed(arena, 0)); /* a valid address that costs nothing */
        CU_ASSERT_EQUAL(sw_arena_live(arena), 256);
    }
}

SW_TEST("reset gives everything back, keeps the pages and calls nothing")
{
    sw_watch watch = {0};
    sw_budget *budget = sw_test_budget(SW_TEST_ARENA_BYTES);
    sw_arena *arena = sw_watched_arena("host", budget, &watch);
    unsigned char *first = pushed(arena, 50000);
    const size_t committed = sw_arena_store(arena)->committed_bytes;
    const uint64_t calls = sw_mem_calls();
    for (int round = 0; round < 100; round++) {
        sw_arena_reset(arena);
        CU_ASSERT_EQUAL(sw_arena_live(arena), 0);
        CU_ASSERT_PTR_EQUAL(pushed(arena, 50000), first);
    }
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    CU_ASSERT_EQUAL(sw_arena_store(arena)->committed_bytes, committed);
    CU_ASSERT_EQUAL(watch.count[SW_EVENT_RESET], 100);
    CU_ASSERT_EQUAL(watch.live, round_up(50000));
    CU_ASSERT_EQUAL(sw_budget_used(budget), round_up(50000));
}

SW_TEST("placed ranges are counted")
{
    sw_watch watch = {0};
    sw_arena *arena = sw_watched_arena("host", NULL, &watch);
    CU_ASSERT_EQUAL(sw_arena_grow(arena, 4096, true), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 0, 1000, 1), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 1024, 1024, 2), SW_OK);
    sw_arena_release(arena, 0, 1000, 1);
    CU_ASSERT_EQUAL(sw_arena_live(arena), 1024);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 0, 64, 3), SW_OK);
    CU_ASSERT_EQUAL(watch.last.id, 3);
    sw_arena_reset(arena);
    CU_ASSERT_EQUAL(watch.live, 0);
}

SW_TEST("ranges outside the height are refused")
{
    sw_watch watch = {0};
    sw_arena *arena = sw_watched_arena("host", NULL, &watch);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 0, 64, 1), SW_INVALID);
    CU_ASSERT_EQUAL(sw_arena_grow(arena, 1000, false), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_height(arena), 1024);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 960, 64, 1),
                    SW_OK); /* commits what grow only promised */
    memset(sw_arena_base(arena) + 960, 5, 64);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 960, 65, 2), SW_INVALID);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 1024, 1, 2), SW_INVALID);
    CU_ASSERT_EQUAL(sw_arena_place(arena, SIZE_MAX - 63, 64, 2), SW_INVALID);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 64, SIZE_MAX - 63, 2), SW_INVALID);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 0, SIZE_MAX, 2), SW_INVALID);
    CU_ASSERT_EQUAL(sw_arena_live(arena), 64);
    CU_ASSERT_EQUAL(watch.count[SW_EVENT_PLACE], 1);
}

/* The figures of an arena that a refusal must leave alone. */
typedef struct {
    size_t live, height, budget_used;
} figures;

static figures figures_of(const sw_arena *a, const sw_budget *budget)
{
    figures f;
    memset(&f, 0, sizeof f); /* padding too: compared as bytes */
    f.live = sw_arena_live(a);
    f.height = sw_arena_height(a);
    f.budget_used = sw_budget_used(budget);
    return f;
}

SW_TEST("a denied push or growth says so once and changes nothing")
{
    for (int k = 0; k < 2; k++) {
        sw_watch watch = {0};
        sw_budget *budget = sw_test_budget(1024);
        sw_arena *arena = sw_watched_arena(kinds[k], budget, &watch);
        (void)pushed(arena, 500);
        const figures before = figures_of(arena, budget);
        static const size_t sizes[] = {513, 1024, 4096, SIZE_MAX / 2, SIZE_MAX - 63, SIZE_MAX};
        void *out = &watch; /* any recognisable address */
        int denied = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            CU_ASSERT_EQUAL(sw_arena_push(arena, &out, sizes[i], "huge"), SW_NOMEM);
            CU_ASSERT_PTR_EQUAL(out, &watch);
            CU_ASSERT_EQUAL(watch.count[SW_EVENT_DENIED], ++denied);
            CU_ASSERT_EQUAL(watch.last.bytes, sizes[i]);
            SW_CHECK(strstr(sw_last_error(), "huge") != NULL, "%s", sw_last_error());
            CU_ASSERT_EQUAL(
                sw_arena_grow(arena, sizes[i] > SIZE_MAX - 1000 ? sizes[i] : sizes[i] + 1000,
                              true),
                SW_NOMEM);
            CU_ASSERT_EQUAL(watch.count[SW_EVENT_DENIED], ++denied);
        }
        const figures after = figures_of(arena, budget);
        CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof after), 0);
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 513, "huge"), SW_NOMEM);
        SW_CHECK(strstr(sw_last_error(), "512 of 1,024") != NULL, "%s", sw_last_error());
        (void)pushed(arena, 512); /* what fits still fits */
        CU_ASSERT_EQUAL(sw_budget_used(budget), 1024);
    }
}

SW_TEST("a refusing store gives the budget back")
{
    for (int k = 0; k < 2; k++) {
        sw_watch watch = {0};
        sw_budget *budget = sw_test_budget(64 * SW_TEST_ARENA_BYTES);
        sw_arena *arena = sw_watched_arena(kinds[k], budget, &watch);
        void *out = &watch;
        (void)pushed(arena, 5000);
        const figures before = figures_of(arena, budget);
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 2 * SW_TEST_ARENA_BYTES, "big"), SW_NOMEM);
        CU_ASSERT_EQUAL(sw_arena_grow(arena, 2 * SW_TEST_ARENA_BYTES, true), SW_NOMEM);
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_ONCE); /* a device took all at once */
        CU_ASSERT(k == 1 || sw_arena_push(arena, &out, 50000, "unlucky") == SW_NOMEM);
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        const figures after = figures_of(arena, budget);
        CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof after), 0);
        CU_ASSERT_PTR_EQUAL(out, &watch);
        CU_ASSERT_EQUAL(watch.count[SW_EVENT_DENIED], 3 - k);
        (void)pushed(arena, 50000);
    }
}

static sw_status create_arena(void *unused)
{
    sw_store *store;
    sw_budget *budget;
    sw_arena *arena = NULL;
    void *out;
    SW_TRY(sw_budget_new(&budget, 100000));
    sw_status status = sw_store_host_create(&store, 100000);
    if (status == SW_OK) {
        const sw_arena_opts opts = {"sweep", store, budget, {NULL, NULL}};
        status = sw_arena_create(&arena, &opts);
    }
    if (status == SW_OK)
        status = sw_arena_push(arena, &out, 9000, "range");
    sw_arena_destroy(arena);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    sw_budget_free(budget);
    return status;
}

SW_TEST("every site of creation can fail and nothing leaks")
{
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, create_arena, NULL), 5);
    sw_arena_destroy(NULL);
    sw_budget_free(NULL);
}

#if SW_POISON
int __asan_address_is_poisoned(void const volatile *address);
#endif

SW_TEST("dead bytes, padding and red zones are poisoned")
{
#if SW_POISON
    sw_watch watch = {0};
    sw_arena *arena = sw_watched_arena("host", NULL, &watch);
    unsigned char *a = pushed(arena, 100), *b = pushed(arena, 64);
    CU_ASSERT(!__asan_address_is_poisoned(a) && !__asan_address_is_poisoned(a + 99));
    CU_ASSERT(__asan_address_is_poisoned(a + 100)); /* padding */
    CU_ASSERT(__asan_address_is_poisoned(b + 64));  /* red zone */
    sw_arena_reset(arena);
    CU_ASSERT(__asan_address_is_poisoned(a) && __asan_address_is_poisoned(b));
    CU_ASSERT_EQUAL(sw_arena_grow(arena, 1024, true), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 512, 64, 1), SW_OK);
    CU_ASSERT(!__asan_address_is_poisoned(a + 512) && __asan_address_is_poisoned(a + 576));
    sw_arena_release(arena, 512, 64, 1);
    CU_ASSERT(__asan_address_is_poisoned(a + 512));
#else
    SW_SKIP("poisoning needs an address sanitizer build");
#endif
}

SW_TEST("fresh ranges are no numbers in builds with checks")
{
#if SW_CHECKS >= 1
    sw_watch watch = {0};
    sw_arena *arena = sw_watched_arena("host", NULL, &watch);
    const float *x = (const float *)(const void *)pushed(arena, 64);
    for (int i = 0; i < 16; i++)
        CU_ASSERT(x[i] != x[i]);
#else
    SW_SKIP("built with checks=0");
#endif
}

/* ---- budget -------------------------------------------------------------------------------
 */

/* Budgets: exact limits, also when several threads and arenas share one. */
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
