/* Launches of tests/cuda/planted.cu, and the emulator's controls as C sees them. */
#ifndef SW_TESTS_PLANTED_H
#define SW_TESTS_PLANTED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* PLANTED(id, kernel, bytes of shared memory, arguments of planted_run). */
#define PLANTED_KERNELS(PLANTED)                                                               \
    PLANTED(BLOCK_SUM, block_sum, 0, y, x, p->right)                                           \
    PLANTED(REVERSE_TWICE, reverse_twice, 0, y, x, p->right)                                   \
    PLANTED(WARP_AHEAD, warp_ahead, 0, y, p->right)                                            \
    PLANTED(HALF_WAITS, half_waits, 0, y)                                                      \
    PLANTED(WAITS_APART, waits_apart, 0, y)                                                    \
    PLANTED(HALF_A_WARP, half_a_warp, 0, y)                                                    \
    PLANTED(BARRIER_AND_WARP, barrier_and_warp, 0, y)                                          \
    PLANTED(READS_UNWRITTEN, reads_unwritten, 0, y)                                            \
    PLANTED(PASSES_UNWRITTEN, passes_unwritten, 0, y, !p->right)                               \
    PLANTED(DYNAMIC_REVERSE, dynamic_reverse, p->shared_bytes, y, x, !p->right)                \
    PLANTED(TOO_MUCH_SHARED, too_much_shared, 0, y)                                            \
    PLANTED(GLOBAL_STORE_TO_SHARED, global_store_to_shared, 0, y, p->right)                    \
    PLANTED(COPIES, copies, 0, y, x, p->n)                                                     \
    PLANTED(COPIES_FOUR, copies_four, 0, y, x)                                                 \
    PLANTED(LANES, lanes, 0, u)                                                                \
    PLANTED(COUNTS, counts, 0, u)                                                              \
    PLANTED(WHO_IS_LAST, who_is_last, 0, u)
#define PLANTED_ID(id, ...) PLANTED_##id,
enum { PLANTED_KERNELS(PLANTED_ID) };
#undef PLANTED_ID

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
