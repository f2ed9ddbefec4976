/* A copy in host memory of what a model has at one moment of an exec's work, while the work
 * goes on. On the CPU it is copied at once; a card copies behind all that the exec launched and
 * in front of all that it launches next, and the host does not wait. */
#ifndef SW_SNAPSHOT_H
#define SW_SNAPSHOT_H

#include "runtime/device/device.h"

typedef struct swi_snapshot swi_snapshot;

/* Room for `bytes`: of a card pinned, else an arena that the target's budget is charged for at
 * once; `room` then takes the memory itself, and touches it, so that no copy waits for pages.
 */
SW_MUST_USE sw_status swi_snapshot_create(swi_snapshot **out, const swi_target *target,
                                          size_t bytes);
SW_MUST_USE sw_status swi_snapshot_room(swi_snapshot *snapshot);
/* Waits for copies that are on their way. NULL is fine. */
void swi_snapshot_destroy(swi_snapshot *snapshot);
/* `bytes` of device memory at `from` go to `at` of the snapshot. One thread at a time, which is
 * the exec's; not while the bytes before are still read. */
SW_MUST_USE sw_status swi_snapshot_copy(swi_snapshot *snapshot, size_t at, const void *from,
                                        size_t bytes);
/* All of it was asked for. */
SW_MUST_USE sw_status swi_snapshot_end(swi_snapshot *snapshot);
/* Any thread: wait until all that was asked for is there. */
SW_MUST_USE sw_status swi_snapshot_wait(swi_snapshot *snapshot);
unsigned char *swi_snapshot_bytes(const swi_snapshot *snapshot);

#endif
