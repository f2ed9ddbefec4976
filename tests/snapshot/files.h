/* Files that the snapshot tests write and read. */
#ifndef SW_TESTS_SNAPSHOT_FILES_H
#define SW_TESTS_SNAPSHOT_FILES_H

#include "profiler/inspect/pickle.h"
#include "profiler/inspect/values.h"

/* A temporary file of these bytes; its path is valid as sw_temp_path's. */
char *put_file(const char *name, const void *bytes, size_t n);

/* A tree that is read from a file, by whichever reader. */
typedef struct {
    value_tree tree;
    byte_reader in;
    value top;
} tree_file;
typedef sw_status tree_reader(value_tree *t, byte_reader *r, value *out);
/* On failure all is given back; else tree_close does. */
sw_status tree_open(tree_file *f, const char *path, tree_reader *read);
void tree_close(tree_file *f);

/* Bytes that a sink's output goes to. */
typedef struct {
    sw_sink_out out;
    char *bytes;
    size_t n, room;
} sink_bytes;
void sink_open(sink_bytes *s);
void sink_close(sink_bytes *s);

/* snapshot_read from a file. */
sw_status read_snapshot(sw_timeline **out, const char *path);

#endif
