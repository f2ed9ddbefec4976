/* Memory, numbers and threads for tests of dense kernels. */
#ifndef SW_TESTS_DENSE_SUPPORT_H
#define SW_TESTS_DENSE_SUPPORT_H

#include "kernels/dispatch.h"
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

/* Threads that run their parts in reverse, all on this one: what depends on the order shows. */
static void run_reversed(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                         int n_parts)
{
    (void)par;
    for (int part = n_parts - 1; part >= 0; part--)
        body(arg, part);
}

static const sw_par one_thread = {1, run_reversed}, reversed = {3, run_reversed};

/* Buffers come from one pool, each followed by a guard that nobody may write. */
enum { POOL = 6 << 20, GUARD = 16, MAX_TAKEN = 64 };
static _Alignas(64) float pool[POOL];
static size_t pool_used;
static size_t taken_end[MAX_TAKEN];
static int n_taken;

static float *take(size_t n)
{
    float *p = pool + pool_used;
    const size_t end = pool_used + n, next = (end + GUARD + 15) / 16 * 16;
    CU_ASSERT_FATAL(next <= POOL && n_taken < MAX_TAKEN);
    memset(p, 0xff, (next - pool_used) * sizeof *p); /* NaN */
    taken_end[n_taken++] = end;
    pool_used = next;
    return p;
}

/* Ends a case: every guard still stands, and the pool is empty again. */
static void give_all(void)
{
    for (int i = 0; i < n_taken; i++)
        for (int k = 0; k < GUARD; k++) {
            uint32_t bits;
            memcpy(&bits, pool + taken_end[i] + k, sizeof bits);
            CU_ASSERT_EQUAL(bits, 0xffffffffu);
        }
    n_taken = 0;
    pool_used = 0;
}

/* n numbers in (-1, 1). */
static float *numbers(size_t n, uint64_t seed)
{
    sw_dice dice = {seed};
    float *p = take(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)sw_dice_below(&dice, 20001) / 10001.0f - 1.0f;
    return p;
}

static float *copy_of(const float *from, size_t n)
{
    float *p = take(n);
    memcpy(p, from, n * sizeof *p);
    return p;
}

/* Where image b has element i of `inner` in blocks of sixteen. */
static inline int64_t n16(int64_t b, int64_t i, int64_t inner)
{
    return (b / 16 * inner + i) * 16 + b % 16;
}

static inline size_t n16_floats(int64_t batch, int64_t inner)
{
    return (size_t)((batch + 15) / 16 * 16 * inner);
}

/* Blocks of random images; lanes past the batch are zero. */
static inline float *images(int64_t batch, int64_t inner, uint64_t seed)
{
    float *p = numbers(n16_floats(batch, inner), seed);
    for (int64_t b = batch; b < (batch + 15) / 16 * 16; b++)
        for (int64_t i = 0; i < inner; i++)
            p[n16(b, i, inner)] = 0.0f;
    return p;
}

/* Against a sum of `terms` products whose absolute values sum to `scale`: the bound of summing
 * in floats in any order. */
static inline bool near_sum(float got, double want, double scale, int64_t terms)
{
    return fabs((double)got - want) <= 6.0e-8 * (double)(terms + 3) * scale + 1e-30;
}

#endif
