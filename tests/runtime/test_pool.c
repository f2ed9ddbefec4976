/* Worker threads: each part runs once, whoever runs it and however late workers come. */
#include "alloc/base/sys.h"
#include "runtime/base/common.h"
#include "tests/runtime/nets.h"
#include <stdatomic.h>
#include <time.h>

SW_TESTS("threads: pool")

enum { MOST = 600 };

typedef struct {
    atomic_int runs[MOST];
    int plain[MOST]; /* not atomic: what a region leaves is seen by who called it */
    int n, round;
} region;

static void part_of_region(void *arg, int part)
{
    region *r = arg;
    volatile uint32_t x = 1;
    for (int i = 0; i < (part * 37 + r->round) % 400; i++)
        x = x * 1664525u + 1013904223u;
    atomic_fetch_add_explicit(&r->runs[part], 1, memory_order_relaxed);
    r->plain[part] = r->round;
}

static int wrong_of(const region *r)
{
    int wrong = 0;
    for (int i = 0; i < r->n; i++)
        wrong += atomic_load(&r->runs[i]) != 1 || r->plain[i] != r->round;
    return wrong;
}

static void regions(int threads, int sharers, int rounds)
{
    static region r;
    sw_dice dice = {(uint64_t)threads};
    sw_pool *pool;
    int wrong = 0;
    OK(swi_pool_create(&pool, threads, sharers));
    const sw_par *par = swi_pool_par(pool);
    CU_ASSERT_EQUAL(par->n_threads, threads);
    for (int round = 1; round <= rounds; round++) {
        memset(&r, 0, sizeof r);
        r.round = round;
        r.n = round % 5 == 0 ? (int)sw_dice_below(&dice, MOST) : (int)sw_dice_below(&dice, 9);
        /* Close to each other, after the workers have gone to sleep, and just as they do. */
        if (round % 50 == 0)
            nanosleep(&(struct timespec){0, 1000 * (long)sw_dice_below(&dice, 400)}, NULL);
        else if (round % 7 == 0) {
            const uint64_t until = sw_clock_ns() + sw_dice_below(&dice, 150000);
            while (sw_clock_ns() < until)
                ;
        }
        if (round % 11 == 0)
            swi_pool_wake(pool);
        par->run(par, part_of_region, &r, r.n);
        wrong += wrong_of(&r);
    }
    SW_CHECK(wrong == 0, "%d threads: %d parts did not run once", threads, wrong);
    swi_pool_destroy(pool);
}

SW_TEST("each part runs once")
{
    const int rounds = sw_tests_full() ? 20000 : 700;
    for (int threads = 1; threads <= 9; threads += 2)
        regions(threads, 1, rounds);
    regions(2, 1, rounds);
    regions(4, 3, rounds);
}

/* Pools end whatever their workers do: they begin, spin, sleep, or were just woken. */
SW_TEST("pools end at any time")
{
    static region r;
    for (int i = 0; i < 40; i++) {
        sw_pool *pool;
        OK(swi_pool_create(&pool, 2 + i % 3, 1));
        memset(&r, 0, sizeof r);
        r.n = i % 4 * 3;
        if (i % 3 != 0)
            nanosleep(&(struct timespec){0, i * 20000}, NULL);
        if (i % 2 != 0)
            swi_pool_wake(pool);
        swi_pool_par(pool)->run(swi_pool_par(pool), part_of_region, &r, r.n);
        CU_ASSERT_EQUAL(wrong_of(&r), 0);
        swi_pool_destroy(pool);
    }
}
