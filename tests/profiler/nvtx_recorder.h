/* A tool that listens to NVTX: linked into the test, or as a module that a child process loads
 * since NVTX_INJECTION64_PATH names it. The module writes what it heard when the process ends.
 *
 * The calls that a tool takes can be chosen before it attaches: $STEPWELL_NVTX_TOOL is "all"
 * (also where it is not set), "ranges" (no extension), "memory" (nothing else), or "refuse" (it
 * fails). $STEPWELL_NVTX_RECORDS is the file that the module writes. */
#ifndef SW_TESTS_NVTX_RECORDER_H
#define SW_TESTS_NVTX_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    HEARD_DOMAIN,   /* name */
    HEARD_CATEGORY, /* name, category */
    HEARD_STRING,   /* name: it is registered */
    HEARD_BEGIN,    /* of a range: name, category, bytes */
    HEARD_END,
    HEARD_MARK,    /* name, category, bytes */
    HEARD_COUNTER, /* name, id */
    HEARD_SAMPLE,  /* id, bytes */
    HEARD_HEAP,    /* name, at, bytes; its id */
    HEARD_RESET,   /* id */
    HEARD_UNHEAP,  /* id */
    HEARD_REGION,  /* id of its heap, at, bytes */
    HEARD_NAME,    /* of a region: at, name */
    HEARD_UNREGION /* at */
} heard_kind;

typedef struct {
    heard_kind kind;
    uint32_t category;
    uint64_t bytes, at, id, thread;
    char name[104]; /* cut */
    bool registered;
} heard;

typedef struct {
    heard *at;
    size_t n;
} heard_list;

/* Does the build have NVTX, and its extensions? */
bool nvtx_recorder_is_built(void);
bool nvtx_recorder_has_extensions(void);

/* Forget all but domain, categories and counters, which come once in a process. */
void nvtx_recorder_clear(void);
/* All since then, in order. Fails the process when there was no room for more. */
heard_list nvtx_recorder_heard(void);
/* The records that a module wrote; free(list.at) gives them back. NULL there: no such file. */
heard_list nvtx_recorder_read(const char *path);

#endif
