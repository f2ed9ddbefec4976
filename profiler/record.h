/* The event log: what an arena stated, and the edges of runs, phases and ops, 16 bytes each in
 * a ring that is taken once. An event costs a store and no clock; edges read the clock. A full
 * ring counts what it drops, from then on until it is emptied, so that what it holds is whole
 * from the front. One thread writes; the same thread empties it, between runs. */
#ifndef SW_RECORD_H
#define SW_RECORD_H

#include "alloc/base.h"

typedef enum {
    SW_RECORD_RUN,     /* id: low half of the step (from 1); clock */
    SW_RECORD_PHASE,   /* id: the phase that begins; clock */
    SW_RECORD_OP,      /* id: the op that begins, its position in the program; clock */
    SW_RECORD_PLACE,   /* id: the storage that is born; offset, bytes */
    SW_RECORD_REUSE,   /* id: the storage that takes the place of another; offset, bytes */
    SW_RECORD_RELEASE, /* id: the storage that dies after its last use; offset, bytes */
    SW_RECORD_PUSH,    /* as PLACE, in immediate mode */
    SW_RECORD_REWIND,  /* offset: the new top; bytes given back */
    SW_RECORD_RESET,   /* everything given back */
    SW_RECORD_DENIED,  /* bytes wanted, all ones: at least that; id: the storage or none */
    SW_RECORD_END,     /* of the run; clock */
    SW_RECORD_KINDS
} sw_record_kind;

/* Offsets and bytes count units of SW_ALIGN. Edges have their clock, in nanoseconds since the
 * profile began, in both: offset is the low half, bytes the high one. */
typedef struct sw_record {
    uint32_t offset, bytes, id;
    uint8_t kind, phase;
    uint16_t unused;
} sw_record;

#endif
