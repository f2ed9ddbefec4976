/* A copy in host memory of what a model has at one moment of an exec's work, while the work
 * goes on. On the CPU it is copied at once; a card copies after all that the exec launched and
 * before all that it launches next, and the host does not wait.
 *
 * One owner at a time: the exec's thread copies and ends, then whoever reads waits and reads;
 * the exec's thread copies again only when the reader is done. The caller sees to that, and to
 * the handover between the threads. */
#pragma once

#include "runtime/device/device.h"

typedef struct swi_snapshot swi_snapshot;

/* Room for `bytes`: of a card pinned, else an arena that the target's budget is charged for at
 * once; `room` then takes the memory itself, and touches it, so that no copy waits for pages.
 * After a failure of `room` it may be called again; what is charged is so until the snapshot is
 * destroyed. */
SW_MUST_USE sw_status swi_snapshot_create(swi_snapshot **out, const swi_target *target,
                                          size_t bytes);
SW_MUST_USE sw_status swi_snapshot_room(swi_snapshot *snapshot);
/* Waits for copies that are on their way. NULL is fine. The exec may be gone before. */
void swi_snapshot_destroy(swi_snapshot *snapshot);
/* `bytes` of device memory at `from` go to `at` of the snapshot, inside of its room. One thread
 * at a time, which is the exec's, between two runs; not while the bytes before are still read.
 * The order holds for the work of this exec alone: the caller sees to it that no other exec has
 * work on the model left to do (a run of this exec has waited for that, and swi_snapshot_sync
 * waits too), and that others wait for the copy (as runs do where model->queue is another than
 * theirs). */
SW_MUST_USE sw_status swi_snapshot_copy(swi_snapshot *snapshot, size_t at, const void *from,
                                        size_t bytes);
/* Wait until all that any exec launched on the device is done. */
SW_MUST_USE sw_status swi_snapshot_sync(swi_snapshot *snapshot);
/* All of it was asked for. */
SW_MUST_USE sw_status swi_snapshot_end(swi_snapshot *snapshot);
/* Any thread, after swi_snapshot_end: wait until all that was asked for is there. A fault of
 * the card is said here, and by all of its calls from then on. */
SW_MUST_USE sw_status swi_snapshot_wait(swi_snapshot *snapshot);
/* NULL before `room`. */
unsigned char *swi_snapshot_bytes(const swi_snapshot *snapshot);
