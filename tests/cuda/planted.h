/* Launches of tests/cuda/planted.cu, and the emulator's controls as C sees them. */
#ifndef SW_TESTS_PLANTED_H
#define SW_TESTS_PLANTED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLANTED_BLOCK_SUM,
    PLANTED_REVERSE_TWICE,
    PLANTED_WARP_AHEAD,
    PLANTED_HALF_WAITS,
    PLANTED_WAITS_APART,
    PLANTED_HALF_A_WARP,
    PLANTED_BARRIER_AND_WARP,
    PLANTED_READS_UNWRITTEN,
    PLANTED_DYNAMIC_REVERSE,
    PLANTED_TOO_MUCH_SHARED,
    PLANTED_COPIES,
    PLANTED_COPIES_FOUR,
    PLANTED_LANES,
    PLANTED_COUNTS,
    PLANTED_WHO_IS_LAST
};

typedef struct {
    int kernel;
    uint32_t blocks, threads;
    int right; /* 0: with the mistake */
    int n;
    size_t shared_bytes;
    float *y;
    const float *x;
    uint32_t *u;
} planted;

/* The launch's cudaError_t. */
int planted_run(const planted *p);

#ifdef __cplusplus
}
#endif
#endif
