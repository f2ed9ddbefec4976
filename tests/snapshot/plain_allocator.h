/* PyTorch's caching allocator once more, by plain lists and loops over all blocks, for tests of
 * the simulation that the reports use; it writes the snapshot that PyTorch would have written.
 * It shares nothing with the simulation. */
#ifndef SW_TESTS_PLAIN_ALLOCATOR_H
#define SW_TESTS_PLAIN_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB ((uint64_t)1 << 20)

enum { PLAIN_FREE, PLAIN_ACTIVE, PLAIN_PENDING, PLAIN_UNMAPPED };

typedef struct {
    uint64_t address, bytes, requested;
    uint32_t segment;
    int state, frame;
} plain_block;

typedef struct {
    uint64_t address, bytes; /* bytes 0: it was given back */
    uint64_t stream, pool;
    bool small, expandable;
} plain_segment;

typedef struct {
    const char *action;
    uint64_t address, bytes, stream, pool;
    int frame;
} plain_event;

/* Bytes by cause, by counting. */
typedef struct {
    uint64_t reserved, requested, pending, rounding, unsplit, free;
} plain_sums;

typedef struct {
    bool expandable, say_pools, pool_used;
    bool user_pools; /* pools have no expandable segments */
    bool old;        /* PyTorch 2.1: the file does not say the settings */
    bool collects;   /* garbage_collection_threshold: free segments go now and then */
    size_t collected;
    uint64_t max_split;  /* 0: none */
    int divisions;       /* of a power of two; 0: none */
    uint64_t capacity;   /* of the device */
    uint64_t random;     /* state */
    uint64_t pool;       /* that requests go to */
    plain_block *blocks; /* sorted by address */
    plain_segment *segments;
    plain_event *events;
    plain_sums *sums; /* after each event */
    size_t n_blocks, n_segments, n_events, room_blocks, room_segments, room_events;
    uint64_t next_address;
    bool keep_sums;
    /* Frames of each number, "file|line|name;..." from the inside out; NULL: made-up ones. */
    const char *const *stacks;
    int frees; /* who frees; 0: who made it */
} plain_allocator;

/* Goes when the test ends. */
plain_allocator *plain_new(uint64_t seed);
uint64_t plain_random(plain_allocator *p, uint64_t below);
/* The address, or 0 where the device has no more: an oom event. frame: who asks. */
uint64_t plain_malloc(plain_allocator *p, uint64_t stream, uint64_t bytes, int frame);
/* pending: other streams still use it; plain_finish completes it where nothing else has, such
 * as a full device. */
void plain_free(plain_allocator *p, uint64_t address, bool pending);
void plain_finish(plain_allocator *p, uint64_t address);
void plain_empty_cache(plain_allocator *p);
plain_sums plain_count(const plain_allocator *p);
/* Write the snapshot as a pickle; events before `first` are left out. */
char *plain_write(const plain_allocator *p, const char *name, size_t first);

#endif
