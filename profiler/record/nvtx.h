/* NVTX, in its only place: ranges, marks, counters and memory of one domain, "stepwell".
 *
 * A tool (Nsight Systems, compute-sanitizer, a test's recorder) attaches itself when the first
 * call is made, if it is named in the environment or linked in; nothing that comes later can
 * change that. Extensions attach one by one: a tool that takes no counters answers 0 for one,
 * a tool that takes no memory NULL for a heap, and their calls need not be made then. Where the
 * headers were not there at build time no one ever attaches.
 *
 * Ranges nest and belong to the calling thread. Bytes are payloads: unsigned, 64 bits. */
#ifndef SW_NVTX_H
#define SW_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Named in the domain as written here. */
#define SW_NVTX_CATEGORIES(X)                                                                  \
    X(STEP, "step")                                                                            \
    X(PHASE, "phase")                                                                          \
    X(LAYER, "layer")                                                                          \
    X(OP, "op")                                                                                \
    X(MEMORY, "memory")
#define SW_NVTX_CATEGORY_ENUM(id, name) SW_NVTX_IN_##id,
typedef enum {
    SW_NVTX_IN_NONE,
    SW_NVTX_CATEGORIES(SW_NVTX_CATEGORY_ENUM) SW_NVTX_IN_COUNT
} sw_nvtx_category;

/* A text that is registered once and used often; it outlives what is said with it. The handle
 * may be NULL: then the text goes along. */
typedef struct {
    const void *handle;
    const char *text;
} sw_nvtx_name;

/* Is the domain somebody's? The first call lets a tool attach; any thread may make it. A tool
 * for memory alone may answer no here and yet take heaps. */
bool sw_nvtx_attached(void);

void sw_nvtx_begin(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes);
void sw_nvtx_end(void);
void sw_nvtx_mark(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes);

/* A counter in bytes, for good; 0: the tool takes none. Both texts are copied by the tool. */
uint64_t sw_nvtx_counter(const char *name, const char *about);

/* A range of addresses of which only what lies in a region may be touched; NULL: the tool takes
 * none. Names of memory are at most SW_NVTX_MEMORY_NAME printable ASCII characters, which is
 * what compute-sanitizer shows. */
#define SW_NVTX_MEMORY_NAME 49
void *sw_nvtx_heap(const char *name, const void *base, size_t bytes);
void sw_nvtx_heap_end(void *heap); /* NULL is fine */
void sw_nvtx_region(void *heap, const char *name, const void *at, size_t bytes);

#endif
