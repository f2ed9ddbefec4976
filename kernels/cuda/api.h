/* The device as the runtime uses it: what the module offers besides kernels. Its functions are
 * thin: they call CUDA, say which call failed and how, and keep no policy. The runtime decides
 * what is captured when and what is copied where (runtime/exec/queue.h).
 *
 * Errors: SW_NOMEM where the device or the host has no memory, SW_DEVICE for all others; the
 * message names the CUDA function, its error and what it was asked for. After SW_DEVICE info()
 * says whether the device is broken: then it fails too. A function that fails has changed
 * nothing. Handles are the module's; functions with one queue or event belong to one thread at
 * a time, those of a device may be called by several. */
#pragma once

#include "kernels/cuda/table.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sw_cuda_device sw_cuda_device;
typedef struct sw_cuda_event sw_cuda_event;
typedef struct sw_cuda_graph sw_cuda_graph;

typedef struct {
    char name[128];      /* of the card */
    int major, minor;    /* compute capability */
    int driver, runtime; /* 1000 * major + 10 * minor: 13020 is 13.2 */
    int blas;            /* version of cuBLASLt, as its library says; 0: built without */
    bool can_map;        /* memory can be mapped into a reserved range: tried when opened */
    size_t granularity;  /* of mapping; 0 without */
    bool loaded;         /* all kernels are on the card; else each comes at its first launch */
    size_t total_bytes;
    size_t open_bytes; /* free when the device was open and nothing else was taken */
    size_t free_bytes; /* now; other programs change it too */
} sw_cuda_info;

typedef enum { SW_CUDA_TO_DEVICE, SW_CUDA_TO_HOST, SW_CUDA_ON_DEVICE } sw_cuda_way;

struct sw_cuda_api {
    /* ---- the card ---- */
    /* SW_DEVICE: no driver, a driver too old, no card of that ordinal, capability below 7.5;
     * each says what is there and what is required. Loads all kernels of the module, so that no
     * later call does, where the driver can (CUDA 12.4 and later: info.loaded). */
    sw_status (*open)(sw_cuda_device **out, int ordinal);
    void (*close)(sw_cuda_device *device);
    sw_status (*info)(sw_cuda_device *device, sw_cuda_info *out);
    /* The card is the calling thread's from here on. Entries, and functions that are given a
     * queue and no device, are called on threads that said so; the others say it themselves. */
    sw_status (*use)(sw_cuda_device *device);
    /* Wait for everything on the card; reports what failed since. While a queue is captured a
     * card cannot be waited for: a capture of another thread is let end first. */
    sw_status (*sync)(sw_cuda_device *device);

    /* ---- memory ---- */
    /* Addresses without memory, for can_map: base divisible by granularity. */
    sw_status (*reserve)(sw_cuda_device *device, void **base, size_t bytes);
    /* Memory for [from, to) of a reserved range, both multiples of granularity, from where
     * the last call ended; one handle for each call. */
    sw_status (*map)(sw_cuda_device *device, void *base, size_t from, size_t to);
    /* The range and all of its memory. Waits for the card. */
    void (*release)(sw_cuda_device *device, void *base, size_t bytes);
    /* One plain block, for cards and drivers without mapping. */
    sw_status (*alloc)(sw_cuda_device *device, void **out, size_t bytes);
    void (*free)(sw_cuda_device *device, void *block);
    /* Pinned host memory, that copies from and to the card need to overlap. */
    sw_status (*host_alloc)(sw_cuda_device *device, void **out, size_t bytes);
    void (*host_free)(sw_cuda_device *device, void *block);

    /* ---- work ---- */
    /* A stream (not the legacy default one), and cuBLASLt where `compute`: the
     * queue's counters are set by the caller. */
    sw_status (*queue_create)(sw_cuda_device *device, sw_cuda_queue *out, bool compute,
                              uint32_t flags);
    void (*queue_destroy)(sw_cuda_device *device, sw_cuda_queue *queue);
    sw_status (*queue_sync)(sw_cuda_device *device, const sw_cuda_queue *queue);
    /* Asynchronous where the host's side is pinned. */
    sw_status (*copy)(const sw_cuda_queue *queue, void *to, const void *from, size_t bytes,
                      sw_cuda_way way);
    sw_status (*fill)(const sw_cuda_queue *queue, void *to, int byte, size_t bytes);

    sw_status (*event_create)(sw_cuda_device *device, sw_cuda_event **out, bool clock);
    void (*event_destroy)(sw_cuda_event *event);
    /* Also while capturing: each replay then records it, when it comes there. To wait for a
     * replay, record another event after its launch. */
    sw_status (*record)(sw_cuda_event *event, const sw_cuda_queue *queue);
    /* Later work of the queue waits for the event; the host does not. */
    sw_status (*after)(const sw_cuda_queue *queue, sw_cuda_event *event);
    /* SW_OK with *done; never blocks. An event that was never recorded is done. */
    sw_status (*done)(sw_cuda_event *event, bool *done);
    sw_status (*wait)(sw_cuda_event *event); /* the host waits */
    /* Device time between two events that are done and have clocks. */
    sw_status (*between)(sw_cuda_event *from, sw_cuda_event *to, uint64_t *ns);

    /* ---- graphs ---- */
    /* Work that follows on the queue is noted instead of run (other threads' calls are not
     * concerned), until capture_end makes it a graph, ready to be launched, with its first
     * launch's cost paid. After an error nothing is captured any more; out NULL throws away. */
    sw_status (*capture_begin)(const sw_cuda_queue *queue);
    sw_status (*capture_end)(const sw_cuda_queue *queue, sw_cuda_graph **out);
    sw_status (*graph_launch)(sw_cuda_graph *graph, const sw_cuda_queue *queue);
    size_t (*graph_nodes)(const sw_cuda_graph *graph);
    /* By which the card's free memory fell while it was made: 0 where the driver had kept some,
     * and other programs change it too. */
    size_t (*graph_bytes)(const sw_cuda_graph *graph);
    void (*graph_destroy)(sw_cuda_graph *graph);
};

#ifdef __cplusplus
}
#endif
