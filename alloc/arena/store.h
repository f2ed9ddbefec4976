/* Stores: where an arena's bytes come from. A store is one contiguous address range that is
 * committed from the bottom up as it grows, so addresses never move (but where a device cannot
 * map memory, below). One thread at a time. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct sw_store sw_store;

/* The contract that every kind of store meets; tests run one suite over all of them. */
typedef struct {
    const char *name;
    SW_MUST_USE sw_status (*commit)(sw_store *store,
                                    size_t bytes); /* at least, from the base */
    void (*destroy)(sw_store *store);
    bool device;   /* a device's memory: host code never touches its bytes */
    size_t stride; /* what grows push by push is best committed in steps of at least this */
} sw_store_ops;

/* The head of every store; kinds extend it. Read-only for users. */
struct sw_store {
    const sw_store_ops *ops;
    unsigned char *base;    /* address of byte 0; aligned to the page */
    size_t reserved_bytes;  /* address range */
    size_t committed_bytes; /* from the base; multiple of granularity */
    size_t granularity;
    const void *owner; /* the context of a device's memory; NULL: the host's */
};

/* Host memory: addresses reserved now, pages committed by commit(). reserve_bytes is rounded up
 * to pages; SW_NOMEM when the system has no such range. */
SW_MUST_USE sw_status sw_store_host_create(sw_store **out, size_t reserve_bytes);

/* How a store gets memory of a device. All but the two that give back may fail, with SW_NOMEM
 * or SW_DEVICE. */
typedef struct {
    void *context;      /* the device that the memory is of */
    size_t granularity; /* of mapping; 0: nothing can be mapped, there are plain blocks only */
    sw_status (*reserve)(void *context, void **base, size_t bytes); /* addresses alone */
    /* Memory for [from, to) of a reserved range, from where the last call ended. */
    sw_status (*map)(void *context, void *base, size_t from, size_t to);
    void (*release)(void *context, void *base, size_t bytes); /* the range and its memory */
    sw_status (*alloc)(void *context, void **out, size_t bytes);
    void (*free)(void *context, void *block);
    sw_status (*copy)(void *context, void *to, const void *from, size_t bytes); /* it is done */
} sw_device_memory;
/* Device memory: a reserved range that memory is mapped into as it grows. Where nothing can be
 * mapped it is one plain block, taken by the first commit (base is NULL before) and by each
 * that grows: base is then another, the bytes were copied, and old and new block were there at
 * the same time. Mapped bytes are whatever the device had there. `memory` is copied; its
 * context must outlive the store. */
SW_MUST_USE sw_status sw_store_device_create(sw_store **out, size_t reserve_bytes,
                                             const sw_device_memory *memory);

/* Destroy any store; NULL is fine. */
void sw_store_destroy(sw_store *store);
