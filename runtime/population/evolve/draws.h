/* Random draws of mutations and spaces: by Philox from (seed, stream, number of the draw), so
 * that the random state is three numbers. */
#ifndef SW_DRAWS_H
#define SW_DRAWS_H

#include "kernels/rng.h"
#include <stdbool.h>

typedef struct {
    uint64_t seed, stream;
    uint32_t n; /* draws that were made */
} swi_draws;

static inline swi_draws swi_draws_of(uint64_t seed, uint64_t stream)
{
    return (swi_draws){.seed = seed, .stream = stream, .n = 0};
}

static inline uint64_t swi_draw_bits(swi_draws *d)
{
    uint32_t counter[4] = {d->n++, (uint32_t)d->stream, (uint32_t)(d->stream >> 32),
                           0x65766f6cu /* "evol" */};
    sw_philox(counter, (uint32_t)d->seed, (uint32_t)(d->seed >> 32));
    return (uint64_t)counter[0] << 32 | counter[1];
}

/* [0, 1), 53 bits. */
static inline double swi_draw_unit(swi_draws *d)
{
    return (double)(swi_draw_bits(d) >> 11) * 0x1p-53;
}

static inline double swi_draw_range(swi_draws *d, double low, double high)
{
    return low + swi_draw_unit(d) * (high - low);
}

/* 0 to n - 1, n above 0. */
static inline uint32_t swi_draw_below(swi_draws *d, uint32_t n)
{
    return (uint32_t)((swi_draw_bits(d) >> 32) * n >> 32);
}

static inline bool swi_draw_happens(swi_draws *d, double probability)
{
    return swi_draw_unit(d) < probability;
}

/* A seed of its own for what is number `number` of this seed. */
static inline uint64_t swi_draw_seed(uint64_t seed, uint64_t number)
{
    swi_draws d = swi_draws_of(seed, number);
    return swi_draw_bits(&d);
}

#endif
