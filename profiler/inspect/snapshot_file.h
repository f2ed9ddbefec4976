/* The file of a PyTorch memory snapshot as a tree: a pickle, or its JSON. Nothing in it is
 * executed. */
#ifndef STEPWELL_SNAPSHOT_FILE_H
#define STEPWELL_SNAPSHOT_FILE_H

#include "profiler/inspect/value_tree.h"

#define SNAPSHOT_LARGEST_BYTES ((int64_t)1 << 40) /* of one event, block or segment */
/* A profile has one segment, from the lowest address of the process to the highest. */
#define SNAPSHOT_LARGEST(f) ((f)->device ? SNAPSHOT_LARGEST_BYTES : SNAPSHOT_LAST_ADDRESS)
#define SNAPSHOT_DEVICES 1024
#define SNAPSHOT_MOST ((uint32_t)1 << 28) /* events, and blocks */
#define SNAPSHOT_LAST_ADDRESS (INT64_MAX / 4)

typedef struct {
    const char *path;
    uint64_t bytes; /* of the file */
    value segments; /* a list */
    value traces;   /* a list of lists, or absent */
    value settings; /* a dictionary, or absent */
    bool device;    /* of a device's allocator; else of PyTorch's profiler */
    bool own;       /* our own export, which has a plan already */
    struct snapshot_tree *tree;
} snapshot_file;

/* Whether the file at `path` begins like a snapshot: a pickle, or JSON with its first keys. */
SW_MUST_USE sw_status snapshot_is(const char *path, bool *out);
/* SW_FORMAT names the byte, or what is missing. `path` is borrowed. Close it too after a
 * failure. */
SW_MUST_USE sw_status snapshot_file_open(snapshot_file *f, const char *path);
void snapshot_file_close(snapshot_file *f);

/* The value at `key`, which must be a number from 0 to `most`: SW_FORMAT names it, "event
 * 12". */
SW_MUST_USE sw_status snapshot_number(const char *path, value of, const char *where,
                                      uint64_t index, const char *key, int64_t most,
                                      int64_t *out);
/* The requested bytes of an active block, at most `most`, and who asked for them. Blocks of
 * PyTorch 2.0 say both in "history", the latest first; a block that does not say is as large as
 * asked. */
SW_MUST_USE sw_status snapshot_block_request(const char *path, value block, uint64_t index,
                                             int64_t most, int64_t *bytes, value *frames);

#endif
