/* A backend as models, traces and passes see it: a table that the CPU and the cards fill. No
 * one above asks which device it is: what differs is a function of the table, or a property
 * that it states. How programs run on it is the exec's table (exec/backend.h). */
#pragma once

#include "alloc/arena/store.h"
#include "kernels/cuda/api.h"
#include "runtime/base/common.h"
#include "runtime/base/target.h"

/* The kernel of an op for its operands, and its scratch. */
typedef struct {
    sw_kernel *kernel;         /* NULL on a device */
    sw_cuda_kernel *on_device; /* NULL on the CPU */
    size_t scratch_bytes;
} swi_selected_kernel;

typedef struct swi_snapshot_ways swi_snapshot_ways; /* snapshot.c */

typedef struct swi_backend {
    const char *name;    /* in messages */
    bool host_memory;    /* its memory is the host's: host code reads and writes it */
    bool survives_fork;  /* a child process may go on with it */
    bool threads;        /* an op is done by the threads of the exec */
    bool image_blocks;   /* images may lie in blocks of sixteen (SW_N16) */
    bool chunks;         /* a plan may cut ops into chunks of rows */
    bool fuses_launches; /* two ops may be one launch (swi_device_fusion) */
    bool fuses_channels; /* two ops may go channel by channel (swi_fused) */
    /* Users are counted; the last close ends a card. */
    swi_device *(*share)(swi_device *device);
    void (*close)(swi_device *device);
    /* SW_OK, or the first fault of the device again. */
    sw_status (*fault)(swi_device *device);
    /* Text for messages: its name; ", and what it has free", or "". */
    void (*say_name)(const swi_device *device, char *to, size_t bytes);
    void (*say_free)(const swi_device *device, char *to, size_t bytes);
    /* Memory of so many bytes; 0: as much as a step arena may ever have. */
    sw_status (*store)(swi_device *device, sw_store **out, size_t bytes);
    /* Between host memory and the device's, and on it, after all that was launched. */
    sw_status (*read)(swi_device *device, void *to, const void *from, size_t bytes);
    sw_status (*write)(swi_device *device, void *to, const void *from, size_t bytes);
    sw_status (*copy)(swi_device *device, void *to, const void *from, size_t bytes);
    sw_status (*zero)(swi_device *device, void *to, size_t bytes);
    /* The kernel of an op (grad -1: its forward one) for numbers of this type; false: it has
     * none. */
    bool (*select)(const swi_target *target, uint32_t op, int grad, sw_dtype dtype,
                   const sw_kernel_info *info, swi_selected_kernel *out);
    /* Has it a kernel of the op for numbers of this type? */
    bool (*has)(const swi_device *device, uint32_t op, int grad, sw_dtype dtype);
    /* Copies of models that are taken while runs go on (snapshot.h). */
    const swi_snapshot_ways *snapshot;
} swi_backend;

extern const swi_snapshot_ways swi_snapshot_at_once; /* snapshot.c: by `read`, in an arena */
extern const swi_snapshot_ways
    swi_snapshot_by_stream; /* snapshot.c: in the exec's stream, in pinned memory */

extern const swi_backend swi_backend_cpu;  /* backend.c */
extern const swi_backend swi_backend_cuda; /* device.c */
