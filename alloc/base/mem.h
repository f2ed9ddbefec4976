/* The allocation table: host heap blocks by purpose, and address ranges for stores. Everything
 * the project allocates on the host comes through here, is counted, and can be made to fail
 * (fault.h). The heap is jemalloc, one arena per purpose, where it is built in, else malloc.
 * Thread-safe. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

/* {...}: members or elements in full lines, where the layout would give each a line. */
#define SW_INIT(...)                                                                           \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

typedef enum {
    SW_HEAP_RECORDS,  /* execs, models, optimizers, arenas, handles */
    SW_HEAP_PROGRAMS, /* traces, plans, caches of programs */
    SW_HEAP_FILES,    /* buffers of readers and writers */
    SW_HEAP_DATASETS, /* decoded data sets */
    SW_HEAP_PROFILE,  /* rings, sinks, reports */
    SW_HEAP_PINNED, /* of the host, held fast for a device: the driver gives it, we count it */
    SW_HEAP_KINDS
} sw_heap;

typedef struct {
    uint64_t allocations; /* successful calls since the start of the process */
    uint64_t blocks;      /* live now */
    size_t bytes;         /* live now, as asked for */
    size_t peak_bytes;
} sw_heap_stats;

/* The line that calls, for allocation_sites.h. */
#define SW_SITE_DIGITS(line) #line
#define SW_SITE_LINE(line) SW_SITE_DIGITS(line)
#define SW_SITE __FILE__ ":" SW_SITE_LINE(__LINE__)

/* A pointer of any type, by its address: anything else does not compile. */
#define SW_POINTER(out) ((void)sizeof(1 ? *(out) : (void *)0), (out))

/* Take `bytes` (0 is allowed: a valid block) of zeroed memory, aligned to 16. `out` is the
 * address of a pointer of any type, which is untouched on failure (SW_NOMEM). Owner: the
 * caller, who gives the block back with the same heap and size. `place`, here and below, is a
 * text that stays: who takes it. */
#define sw_heap_alloc(out, heap, bytes) sw_heap_alloc_at(SW_POINTER(out), heap, bytes, SW_SITE)
SW_MUST_USE sw_status sw_heap_alloc_at(void *out, sw_heap heap, size_t bytes,
                                       const char *place);

/* Grow or shrink *block (NULL with old_bytes 0 allocates); new bytes are zero. On failure
 * *block and its contents are as before. */
#define sw_heap_resize(block, heap, old_bytes, new_bytes)                                      \
    sw_heap_resize_at(SW_POINTER(block), heap, old_bytes, new_bytes, SW_SITE)
SW_MUST_USE sw_status sw_heap_resize_at(void *block, sw_heap heap, size_t old_bytes,
                                        size_t new_bytes, const char *place);

/* Make room for `needed` elements in an array that grows by doubling, from *cap (0 with *array
 * NULL) on; new elements are zero. On failure all is as before. */
#define sw_heap_reserve(array, heap, cap, needed)                                              \
    sw_heap_reserve_at(SW_POINTER(array), heap, cap, needed, sizeof **(array), SW_SITE)
SW_MUST_USE sw_status sw_heap_reserve_at(void *array, sw_heap heap, uint32_t *cap,
                                         uint32_t needed, size_t element, const char *place);

/* block == NULL is fine. */
void sw_heap_free(void *block, sw_heap heap, size_t bytes);

/* Count a block of another allocator, such as a driver, as one of the purpose, with its
 * allocation site; and count that it was given back. NULL is fine in the latter. */
#define sw_heap_note(block, heap, bytes) sw_heap_note_at(block, heap, bytes, SW_SITE)
void sw_heap_note_at(void *block, sw_heap heap, size_t bytes, const char *place);
void sw_heap_note_end(void *block, sw_heap heap, size_t bytes);

void sw_heap_read(sw_heap heap, sw_heap_stats *out);
const char *sw_heap_name(sw_heap heap);
/* "jemalloc 5.3.0" or "malloc". */
const char *sw_heap_backend(void);
/* Give pages of freed blocks back to the system. */
void sw_heap_trim(void);

/* The backend's own figures. Where it has none, as malloc of purposes, all are 0. */
typedef struct {
    size_t allocated_bytes; /* of blocks given out, as large as it makes them */
    size_t active_bytes;    /* of pages that have such blocks */
    size_t resident_bytes;  /* of pages that may be backed by memory */
    size_t mapped_bytes;    /* of addresses */
} sw_heap_figures;
typedef struct {
    sw_heap_figures purpose[SW_HEAP_KINDS];
    sw_heap_figures other; /* of the process besides: its own malloc, and libraries' */
    size_t kept_bytes;     /* mapped once, given back, kept for later */
} sw_heap_report;
/* Some 100 microseconds. Takes no memory. */
void sw_heap_report_read(sw_heap_report *out);
/* Bytes that the process has taken by malloc besides our purposes; false where they are
 * not known. */
bool sw_heap_other_bytes(size_t *out);

/* Write the backend's own profile of who took what to a file (for jeprof). SW_UNSUPPORTED, with
 * the way out, where the backend keeps none. sw_heap_profile_ready says so beforehand. */
SW_MUST_USE sw_status sw_heap_profile_ready(void);
SW_MUST_USE sw_status sw_heap_profile_write(const char *path);

/* Address ranges, whole pages. Reserve takes addresses without memory; commit makes
 * [base+from, base+to) readable and writable, zeroed when first touched. */
size_t sw_page_bytes(void);
SW_MUST_USE sw_status sw_range_reserve(void **out, size_t bytes);
SW_MUST_USE sw_status sw_range_commit(void *base, size_t from, size_t to);
void sw_range_release(void *base, size_t bytes);
/* Allow nothing, reading, or reading and writing in [base+from, base+to) of a committed range;
 * the bytes stay. Callable from a signal handler. It moves no memory: planned failures leave it
 * alone. */
typedef enum { SW_RANGE_NONE, SW_RANGE_READ, SW_RANGE_WRITE } sw_range_access;
SW_MUST_USE sw_status sw_range_protect(void *base, size_t from, size_t to,
                                       sw_range_access access);

/* Calls of the whole table (heap and ranges, both directions) so far: the difference over a
 * step is the step's `allocations`. */
uint64_t sw_mem_calls(void);
/* From here on, calls of this thread are not among them: a thread that works beside the steps,
 * and not for one, such as the writer of checkpoints. */
void sw_mem_aside(void);

/* The answer of a call that makes something: `made` goes to *out, or is taken back by `end`. */
#define SW_GIVE(status, out, made, end)                                                        \
    ((status) == SW_OK ? (void)(*(out) = (made)) : end(made), (status))
