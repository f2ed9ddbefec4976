/* Shared by the tests of the fake runtime. */
#ifndef SW_TESTS_TEST_FAKE_H
#define SW_TESTS_TEST_FAKE_H

#include "tests/cuda/fake/fake.h"
#include "tests/cuda/tiny.h"
#include "tests/support/suite.h"
#include <cuda_runtime_api.h>

#define GOOD(call) CU_ASSERT_EQUAL((int)(call), 0)
#define GIVES(error, call) CU_ASSERT_EQUAL((int)(call), (int)(error))
#define N 256

/* Blocks of sw_cuda_its_host, which is test_blas.c's. */
extern size_t sw_fake_host_blocks;
extern bool sw_fake_host_refuses; /* its memory */

/* A card as it is plugged in, eager. */
static inline const sw_fake_api *fresh(const sw_fake_card *card, uint64_t lazy)
{
    const sw_fake_api *f = sw_fake();
    f->reset(card);
    f->lazy(lazy);
    return f;
}

static inline sw_fake_counts counted(void)
{
    sw_fake_counts c;
    sw_fake()->counts(&c);
    return c;
}

static inline sw_fake_live living(void)
{
    sw_fake_live l;
    sw_fake()->live(&l);
    return l;
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t s = NULL;
    GOOD(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static inline cudaEvent_t new_event(void)
{
    cudaEvent_t e = NULL;
    GOOD(cudaEventCreateWithFlags(&e, 0));
    return e;
}

static inline float *new_device(void)
{
    void *at = NULL;
    GOOD(cudaMalloc(&at, N * sizeof(float)));
    return at;
}

static inline float *new_pinned(void)
{
    void *at = NULL;
    GOOD(cudaHostAlloc(&at, N * sizeof(float), cudaHostAllocPortable));
    return at;
}

static inline float first_of(const float *device)
{
    float x;
    sw_fake()->peek(&x, device, sizeof x);
    return x;
}

static inline void no_violation(void)
{
    SW_CHECK(counted().violations == 0, "%s", sw_fake()->violation());
}

/* At least one, with a message that has this in it. */
static inline void violation_says(const char *words)
{
    SW_CHECK(counted().violations > 0 && strstr(sw_fake()->violation(), words) != NULL,
             "'%s' in: %s", words, sw_fake()->violation());
}

#endif
