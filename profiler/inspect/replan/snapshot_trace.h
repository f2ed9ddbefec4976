/* One device's part of a PyTorch memory snapshot as flat arrays: what its allocator was asked
 * for, what it asked the device for, and what lies where at the end. */
#ifndef STEPWELL_SNAPSHOT_TRACE_H
#define STEPWELL_SNAPSHOT_TRACE_H

#include "profiler/inspect/replan/caching_allocator.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/inspect/timeline.h"

typedef enum {
    TRACE_ALLOC,
    TRACE_FREE_REQUESTED,
    TRACE_FREE_COMPLETED,
    TRACE_SEGMENT_ALLOC,
    TRACE_SEGMENT_FREE,
    TRACE_SEGMENT_MAP,
    TRACE_SEGMENT_UNMAP,
    TRACE_OOM
} trace_action;

#define TRACE_NO_POOL UINT64_MAX /* the event does not say its pool */
#define TRACE_NONE UINT32_MAX

typedef struct {
    uint64_t address; /* OOM: bytes that the device had free */
    uint64_t bytes;   /* as they were requested; of segments, as they were taken */
    uint64_t stream, pool;
    uint32_t us;     /* after the first event, at most 71 minutes; UINT32_MAX: later */
    uint32_t number; /* in the file's list */
    uint32_t stack;  /* index */
    uint8_t action;
    const char *note, *role; /* that the file says of the allocation; NULL: nothing */
} trace_event;

/* Who asked: the same for the same frames. */
typedef struct {
    const char *name, *op, *layer; /* as snapshot_frames says */
    int phase;                     /* -1: the frames do not say */
    uint32_t facts;
} trace_stack;

/* The address comes first here and in segments. */
typedef struct {
    uint64_t address, bytes, requested;
    uint32_t stack;
    bool active, pending;    /* pending: freed, and waited for */
    bool kept;               /* `bytes` is all that it took: it stands in the snapshot, or a
                                request of the trace lies where it ends */
    uint32_t freed;          /* index of the event that freed it; TRACE_NONE */
    const char *note, *role; /* as of an event */
} trace_block;

typedef struct {
    uint64_t address, bytes, stream, pool;
    uint32_t first, n; /* of the blocks, by address */
    bool small, expandable;
} trace_segment;

typedef struct {
    const char *path;
    int64_t device;
    bool cuda;          /* of a device's allocator; else of PyTorch's profiler: no segments */
    bool said_settings; /* else the defaults stand in `settings` */
    caching_settings settings;
    trace_event *events;
    uint32_t n_events;
    trace_segment *segments;
    uint32_t n_segments;
    trace_block *blocks;
    uint32_t n_blocks;
    trace_stack *stacks; /* the first one: no frames */
    uint32_t n_stacks;
    sw_timeline *texts;
    uint32_t cap_events, cap_segments, cap_blocks, cap_stacks;
} snapshot_trace;

/* It changes what lives: an allocation, or the end of one. */
bool trace_moves(const trace_event *e);
/* Devices that have segments or events, as bits of numbers below SNAPSHOT_DEVICES. */
SW_MUST_USE sw_status snapshot_trace_devices(const snapshot_file *f,
                                             uint64_t out[SNAPSHOT_DEVICES / 64]);
/* The trace of a device; the file may be closed then. SW_FORMAT names the event, segment or
 * block. Free it too after a failure. */
SW_MUST_USE sw_status snapshot_trace_read(snapshot_trace *t, const snapshot_file *f,
                                          int64_t device);
void snapshot_trace_free(snapshot_trace *t);
/* For qsort; and of n blocks or segments of `size` in that order, how many begin at or below an
 * address. */
int trace_by_address(const void *a, const void *b);
uint32_t trace_below(const void *of, uint32_t n, size_t size, uint64_t address);

#endif
