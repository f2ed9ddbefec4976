/* How the snapshots of a backend get memory and bytes: part of its table (backend.h). */
#ifndef SW_SNAPSHOT_WAYS_H
#define SW_SNAPSHOT_WAYS_H

#include "alloc/arena/arena.h"
#include "runtime/device/snapshot.h"

struct swi_snapshot {
    swi_device *device;           /* with a share of it */
    const sw_cuda_queue *compute; /* the exec's */
    size_t n_bytes;               /* at least 1 */
    unsigned char *bytes;         /* NULL before there is room */
    sw_arena *arena;              /* NULL: of a card */
    sw_cuda_event *there;         /* NULL: of the host */
    enum {
        SWI_SNAPSHOT_STILL,   /* nothing is on its way */
        SWI_SNAPSHOT_ASKED,   /* copies are, with no event after them */
        SWI_SNAPSHOT_RECORDED /* the event is after them */
    } state;
};

struct swi_snapshot_ways {
    sw_status (*create)(swi_snapshot *snapshot, sw_budget *budget);
    sw_status (*room)(swi_snapshot *snapshot);
    sw_status (*copy)(swi_snapshot *snapshot, size_t at, const void *from, size_t bytes);
    sw_status (*end)(swi_snapshot *snapshot);
    sw_status (*wait)(swi_snapshot *snapshot);
    sw_status (*sync)(swi_snapshot *snapshot); /* NULL: no work is ever left to do */
    void (*free)(swi_snapshot *snapshot); /* what create and room took, all or a part of it */
};

#endif
