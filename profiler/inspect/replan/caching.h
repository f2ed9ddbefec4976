/* PyTorch's caching allocator for devices, driven by what a trace recorded.
 *
 * It takes memory of the device in segments, cuts blocks from them, and keeps what was freed.
 * Blocks of one stream, one private pool (of a graph, or of the user's) and one class of sizes
 * (up to 1 MiB, or above) are a lane: a freed block serves its own lane alone. A request is
 * rounded up and takes the smallest free block of its lane that is large enough, of those the
 * one with the lowest address; where none is, the device gives a segment. The rest of the block
 * becomes a free block, where it is large enough to be of use. Free neighbours become one.
 *
 * Which segments come and go, and where, is recorded and not simulated. Where a request lies is
 * simulated, and held against what was recorded: as long as they agree, every block is known to
 * the byte, with what was lost to rounding.
 *
 * The rules are those of c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.x. */
#pragma once

#include <stdbool.h>

#define CACHING_SMALL_BYTES (UINT64_C(1) << 20) /* requests up to here are a class */
#define CACHING_DIVISIONS 16 /* of roundup_power2_divisions: for sizes of 1, 2, 4 MiB... */

/* "allocator_settings" of a snapshot. */
typedef struct {
    bool expandable;
    uint64_t max_split_bytes;    /* blocks of so many bytes and more stay whole; UINT64_MAX: all
                                    are split */
    uint64_t max_rounding_bytes; /* how much larger than its request such a block may be */
    uint64_t large_page_bytes;   /* of expandable segments for requests above 1 MiB */
    bool unlocked; /* other threads may free memory while the device is asked for some */
    uint8_t divisions[CACHING_DIVISIONS]; /* of a power of two, that sizes are rounded up to;
                                             0: to 512 bytes. For sizes below 2 MiB, 4 MiB... */
} caching_settings;
/* Bytes that a request takes, at least. */
uint64_t caching_round(const caching_settings *s, uint64_t bytes);

typedef struct {
    uint64_t stream, pool; /* pool: of a graph or of the user's; 0: the one of all others */
    bool small;
} caching_lane;

typedef enum { CACHING_FREE, CACHING_ACTIVE, CACHING_PENDING, CACHING_UNMAPPED } caching_state;

typedef struct {
    uint64_t address, bytes;
    uint64_t requested; /* ACTIVE, PENDING (freed, and waited for by other streams) */
    uint64_t tag;       /* the caller's, of the request */
    caching_lane of;
    caching_state state;
    bool whole; /* it is all of its segment */
} caching_block;

typedef struct caching_allocator caching_allocator;

SW_MUST_USE sw_status caching_create(caching_allocator **out, const caching_settings *settings);
void caching_destroy(caching_allocator *a); /* NULL is fine */

/* Segments that the device gave and got back. They and those below return SW_FORMAT, with a
 * message that begins with the record, where it cannot be: a segment over another, a free of
 * one that is not there. SW_NOMEM is the heap's. */
SW_MUST_USE sw_status caching_segment_alloc(caching_allocator *a, caching_lane lane,
                                            uint64_t address, uint64_t bytes);
SW_MUST_USE sw_status caching_segment_free(caching_allocator *a, uint64_t address,
                                           uint64_t bytes);
SW_MUST_USE sw_status caching_segment_map(caching_allocator *a, caching_lane lane,
                                          uint64_t address, uint64_t bytes);
SW_MUST_USE sw_status caching_segment_unmap(caching_allocator *a, uint64_t address,
                                            uint64_t bytes);

/* Where the allocator would put a request, in *out; nothing changes. 0: it would ask the
 * device. */
SW_MUST_USE sw_status caching_find(caching_allocator *a, uint64_t stream, uint64_t pool,
                                   uint64_t requested, uint64_t *out);
/* Put it there: at a free block's first byte. */
SW_MUST_USE sw_status caching_take(caching_allocator *a, uint64_t address, uint64_t requested,
                                   uint64_t tag);
/* Cut a block out of a free one, wherever it lies there: what lived before the trace.
 * Quick where blocks of a segment come by address. */
SW_MUST_USE sw_status caching_place(caching_allocator *a, uint64_t segment, uint64_t address,
                                    uint64_t bytes, uint64_t requested, uint64_t tag);
/* The segments so far wait for no request: they were there before. */
void caching_mark_present(caching_allocator *a);
/* Freed by the program; reused from caching_free on. */
SW_MUST_USE sw_status caching_free_requested(caching_allocator *a, uint64_t address);
SW_MUST_USE sw_status caching_free(caching_allocator *a, uint64_t address);

/* Whether the free block at `address` is what a request to the device yields for that stream
 * and size: the latest segment of its lane, a block with the memory that was mapped at `mapped`
 * (0: none was), or one that an expandable segment need not grow for. */
bool caching_is_new(const caching_allocator *a, uint64_t address, uint64_t stream,
                    uint64_t requested, uint64_t mapped);
/* Whether the block that begins there was freed and waits for other streams. */
bool caching_is_pending(const caching_allocator *a, uint64_t address);
/* The pool of the free block that begins there; false: none does. */
bool caching_pool_at(const caching_allocator *a, uint64_t address, uint64_t *out);
/* All blocks that have memory, segment by segment, in each by address. */
void caching_each(const caching_allocator *a,
                  void (*visit)(void *context, const caching_block *block), void *context);
