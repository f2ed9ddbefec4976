/* Devices that execs and models use: the CPU, and cards. The module is opened once in the
 * process, a card once for each ordinal; both are counted, and a card is closed after its last
 * user. All calls may come from any thread. */
#pragma once

#include "runtime/device/backend.h"
#include <pthread.h>

#define SWI_DEVICE_KERNELS 9 /* of one op: forward, and its gradient kernels */

struct swi_device {
    const swi_backend *backend;

    /* The rest is that of a card. */
    const sw_cuda_api *api;
    sw_cuda_device *card;
    sw_device_memory memory; /* for sw_store_device_create */
    sw_cuda_info info;       /* when it was opened */

    /* The rest is device.c's own. */
    swi_device *next;
    int ordinal;
    uint32_t users;
    pthread_mutex_t lock; /* of what follows */
    sw_cuda_queue queue;  /* of the copies below */
    size_t graph_bytes;   /* of all graphs on the card */
    bool faulted;
    char fault[512];
    const sw_cuda_fusion *fusions;
    uint32_t n_fusions;
};

/* The CPU, which is always open. */
swi_device *swi_device_cpu(void);
/* "cuda" is "cuda:0". SW_DEVICE: no module, a damaged or foreign one, no driver, one too old,
 * no such card: one line each, with the way out. SW_INVALID: not the name of a device. */
SW_MUST_USE sw_status swi_device_open(swi_device **out, const char *name);
/* One user more of an open device. */
swi_device *swi_device_share(swi_device *device);
void swi_device_close(swi_device *device); /* NULL is fine */

/* Memory of so many bytes, to be created and charged; 0: as much as a step arena may ever
 * have. */
SW_MUST_USE sw_status swi_device_store(swi_device *device, sw_store **out, size_t bytes);

/* Has the device a kernel of the op (grad -1: forward) for float32? */
bool swi_device_has(const swi_device *device, uint32_t op, int grad);

/* The module's entry of an op's kernel, for every card; NULL where it has none, and before a
 * card was opened. */
const sw_cuda_entry *swi_device_entry(uint32_t op, int grad);
extern const sw_cuda_entry *swi_device_entries[SW_OPS_INSIDE][SWI_DEVICE_KERNELS];

/* A card's pair of these two forward ops; NULL where it has none. */
const sw_cuda_fusion *swi_device_fusion(const swi_device *device, uint32_t first,
                                        uint32_t then);

/* Host memory held fast, so that copies overlap; counted as SW_HEAP_PINNED. */
SW_MUST_USE sw_status swi_device_pin(swi_device *device, void **out, size_t bytes);
void swi_device_unpin(swi_device *device, void *block, size_t bytes); /* NULL is fine */

/* Bytes of the card's graphs, with `more` from now on and without `less`. */
size_t swi_device_graphs(swi_device *device, size_t more, size_t less);

/* Between host memory and the device's, for calls that are no part of a step: they wait until
 * all that was launched on a card is done, and then until the copy is. */
SW_MUST_USE sw_status swi_device_read(swi_device *device, void *to, const void *from,
                                      size_t bytes);
SW_MUST_USE sw_status swi_device_write(swi_device *device, void *to, const void *from,
                                       size_t bytes);
SW_MUST_USE sw_status swi_device_copy(swi_device *device, void *to, const void *from,
                                      size_t bytes);
SW_MUST_USE sw_status swi_device_zero(swi_device *device, void *to, size_t bytes);

/* The first fault of the card is kept: from then on every call above answers it. A refusal is
 * no fault, if the card still answers when it is asked for its memory: what breaks a card, an
 * illegal address for one, is the answer to every later call of CUDA. swi_device_fault: SW_OK,
 * or SW_DEVICE with its message set again. swi_device_faulted: keeps the thread's last error
 * where `status` is SW_DEVICE and the card is broken; returns `status`. */
SW_MUST_USE sw_status swi_device_fault(swi_device *device);
sw_status swi_device_faulted(swi_device *device, sw_status status);

/* "the CPU" or "cuda:0", for messages. */
const char *swi_device_name(const swi_device *device, char *to, size_t bytes);
/* ", cuda:0 (its name) has so many bytes free of so many" for messages; "" for the CPU, and
 * where the card does not say. */
const char *swi_device_free_text(const swi_device *device, char *to, size_t bytes);
