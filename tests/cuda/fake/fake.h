/* A card that is not there: CUDA's runtime, the memory part of its driver and cuBLASLt
 * on host memory, so that the module's real host code runs whole training steps on any machine.
 * Here a test configures it, and reads what it has seen.
 *
 * Streams are queues of closures. Eager, each runs when it is made; lazy, work happens only
 * when something waits for it, and as a seed decides, so that a missing wait shows. Device
 * memory can be touched only while the fake itself runs work. Kernels run under the emulator of
 * tests/cuda/shim.
 *
 * The fake refuses what CUDA refuses, with CUDA's error. A mistake that CUDA would let pass is
 * a violation: counted, with a message. All functions may be called by any thread. */
#ifndef SW_TESTS_FAKE_H
#define SW_TESTS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SW_FAKE_GRANULARITY ((size_t)2 << 20)
#define SW_FAKE_CONTEXT_BYTES                                                                  \
    ((size_t)256 << 20)                      /* of the card's memory, once it is in use        \
                                              */
#define SW_FAKE_BLAS_BYTES ((size_t)8 << 20) /* for each cuBLASLt handle */
#define SW_FAKE_NODE_BYTES ((size_t)1 << 10) /* for each node of an executable graph */
#define SW_FAKE_POINTERS 48
#define SW_FAKE_LOG (1u << 14) /* launches that are kept */

/* The card as it is plugged in. 0 is the default, which stands after each field. */
typedef struct {
    size_t total_bytes; /* 8 GiB */
    int cards;          /* 1; below 0: none */
    int driver;         /* 13000; below 0: no driver */
    int major, minor;   /* 9, 0 */
    bool cannot_map;    /* the driver has no virtual memory management */
    bool no_products;   /* cuBLASLt has no algorithm for anything */
} sw_fake_card;

typedef struct {
    uint64_t allocs, frees;           /* of device memory by cudaMalloc */
    uint64_t maps;                    /* calls that reserve, create, map or open a range */
    uint64_t host_allocs, host_frees; /* of pinned memory */
    uint64_t syncs;                   /* the host waited: for a stream, an event, the card, or
                                         for a copy or a release that waits by itself */
    uint64_t queries;
    uint64_t launches; /* of kernels, outside of captures */
    uint64_t matmuls;  /* by cuBLASLt, outside of captures */
    uint64_t to_device, to_host, on_device;
    uint64_t pageable;           /* copies from or to host memory that is not pinned */
    uint64_t captures, captured; /* begun; nodes */
    uint64_t instantiated, graph_launches;
    uint64_t kernels_run, matmuls_run; /* in the end, replayed ones too */
    uint64_t legacy;                   /* uses of the default stream */
    uint64_t violations;
} sw_fake_counts;

/* All that has run of what a plan states as launches. */
static inline uint64_t sw_fake_all_run(const sw_fake_counts *c)
{
    return c->kernels_run + c->matmuls_run;
}

/* Everything that has not been given back. */
typedef struct {
    uint64_t device_blocks, ranges, handles, pinned, streams, events, graphs, execs;
    uint64_t blas;       /* handles and descriptors */
    uint64_t pending;    /* work in streams */
    size_t device_bytes; /* of blocks and handles */
} sw_fake_live;

typedef struct {
    char kernel[96]; /* the function's name for products */
    unsigned grid[3], block[3];
    size_t shared_bytes;
    bool captured;
    int n; /* pointers to device memory among the parameters, structs looked through */
    const void *pointer[SW_FAKE_POINTERS];
} sw_fake_launch;

typedef struct {
    /* All is given back by force, counts and faults are gone; the card is a new one. No one may
     * use what was made before. */
    void (*reset)(const sw_fake_card *card);
    /* 0: eager. 1: as late as can be. Others: late, with progress here and there by that seed.
     */
    void (*lazy)(uint64_t seed);
    void (*counts)(sw_fake_counts *out);
    void (*live)(sw_fake_live *out);
    /* Calls of that function; NULL: of all that can fail. */
    uint64_t (*calls)(const char *function);
    /* The k-th call from now on (of the function; NULL: of any that can fail) answers `error`,
     * a number of cudaError_t; from 700 to 719 the card is broken from then on: every call
     * fails. Below 0: nothing fails any more. */
    void (*fail)(const char *function, uint64_t k, int error);
    /* The k-th piece of work from now on fails when it runs. */
    void (*fail_work)(uint64_t k, int error);
    /* Which function failed on purpose ("work" for a piece of work); NULL: none has yet. */
    const char *(*failed)(void);
    /* The first violation, "" where there is none. */
    const char *(*violation)(void);
    /* Launches since the last reset or forget: *out[0..n), the first SW_FAKE_LOG. */
    size_t (*launches)(const sw_fake_launch **out);
    void (*forget)(void);
    /* [at, at + bytes) is device memory that is there. */
    bool (*is_device)(const void *at, size_t bytes);
    /* Bytes of the device as they are now, without waiting for anything. */
    void (*peek)(void *to, const void *at, size_t bytes);
} sw_fake_api;

/* The function that libstepwell-cuda-fake.so exports besides sw_cuda_module_open. The
 * environment sets a lazy seed (STEPWELL_FAKE_LAZY) and the card's MiB (STEPWELL_FAKE_MIB) for
 * programs that do not ask. */
const sw_fake_api *sw_fake(void);
typedef const sw_fake_api *sw_fake_opener(void);

#ifdef __cplusplus
}
#endif
#endif
