/* The event log: what an arena stated, and the edges of runs, phases and ops, 16 bytes each in
 * a ring that is taken once. An event costs a store and no clock; edges read the clock. A full
 * ring counts what it drops, from then on until it is emptied, so that what it holds is whole
 * from the front. One thread writes; the same thread empties it, between runs. */
#pragma once

#include "alloc/arena/observer.h"
#include "profiler/record/prof.h"

typedef enum {
    SW_RECORD_RUN,       /* id: low half of the step (from 1); clock */
    SW_RECORD_PHASE,     /* id: the phase that begins; clock */
    SW_RECORD_OP,        /* id: the op that begins, its position in the program; clock */
    SW_RECORD_PLACE,     /* id: the storage that is born; offset, bytes */
    SW_RECORD_REUSE,     /* id: the storage that takes the place of another; offset, bytes */
    SW_RECORD_RELEASE,   /* id: the storage that dies after its last use; offset, bytes */
    SW_RECORD_PUSH,      /* as PLACE, in immediate mode */
    SW_RECORD_RESET = 8, /* everything given back */
    SW_RECORD_DENIED,    /* bytes requested, all ones: at least that; id: the storage or none */
    SW_RECORD_END,       /* of the run; clock */
    SW_RECORD_KINDS
} sw_record_kind;

/* Offsets and bytes count units of SW_ALIGN; all ones: at least 256 GiB, past which a log
 * cannot be replayed. Edges have their clock, in nanoseconds since the profile began, in both:
 * offset is the low half, bytes the high one. */
typedef struct sw_record {
    uint32_t offset, bytes, id;
    uint8_t kind, phase;
    uint16_t unused;
} sw_record;

typedef struct {
    sw_record *ring;
    uint32_t n, cap;  /* in it; at most */
    uint64_t dropped; /* after the last one */
    uint64_t zero_ns; /* what clocks count from */
    uint8_t phase;    /* of what follows */
} sw_record_log;

/* Room for `room` events, taken here and never again. */
SW_MUST_USE sw_status sw_record_log_create(sw_record_log **out, uint32_t capacity,
                                           uint64_t zero_ns);
void sw_record_log_free(sw_record_log *log); /* NULL is fine */

static inline void sw_record_put(sw_record_log *log, sw_record_kind kind, uint32_t offset,
                                 uint32_t bytes, uint32_t id)
{
    if (log->n == log->cap) {
        log->dropped++;
        return;
    }
    log->ring[log->n++] = (sw_record){offset, bytes, id, (uint8_t)kind, log->phase, 0};
}

/* Bytes in units of SW_ALIGN; all ones: at least that. */
static inline uint32_t sw_record_units(size_t bytes)
{
    const size_t units = bytes / SW_ALIGN + (bytes % SW_ALIGN != 0);
    return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

static inline void sw_record_range(sw_record_log *log, sw_record_kind kind, size_t offset,
                                   size_t bytes, uint32_t id)
{
    sw_record_put(log, kind, sw_record_units(offset), sw_record_units(bytes), id);
}

static inline void sw_record_edge(sw_record_log *log, sw_record_kind kind, uint32_t id,
                                  uint64_t now)
{
    const uint64_t ns = now - log->zero_ns;
    sw_record_put(log, kind, (uint32_t)ns, (uint32_t)(ns >> 32), id);
}

static inline uint64_t sw_record_ns(const sw_record *edge)
{
    return (uint64_t)edge->bytes << 32 | edge->offset;
}

/* Empty it for the run of `step` (from 1) that begins `now`. */
void sw_record_begin(sw_record_log *log, uint64_t step, uint64_t now);
