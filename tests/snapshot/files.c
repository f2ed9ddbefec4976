/* See files.h. */
#include "tests/snapshot/files.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include "profiler/inspect/snapshot.h"

char *put_file(const char *name, const void *bytes, size_t n)
{
    char *path = sw_temp_path(name);
    sw_file_put(path, bytes, n);
    return path;
}

sw_status tree_open(tree_file *f, const char *path, tree_reader *read)
{
    uint64_t bytes = 0;
    memset(&f->tree, 0, sizeof f->tree);
    sw_status status = byte_reader_open(&f->in, path);
    if (status == SW_OK)
        status = sw_file_size(f->in.file, &bytes);
    if (status == SW_OK)
        status = value_tree_open(&f->tree, path, bytes);
    if (status == SW_OK)
        status = read(&f->tree, &f->in, &f->top);
    if (status != SW_OK)
        tree_close(f);
    return status;
}

void tree_close(tree_file *f)
{
    value_tree_close(&f->tree);
    byte_reader_close(&f->in);
}

static sw_status append(void *context, const void *bytes, size_t n)
{
    sink_bytes *s = context;
    if (s->room - s->n < n) {
        s->room = 2 * (s->n + n);
        s->bytes = realloc(s->bytes, s->room);
        CU_ASSERT_PTR_NOT_NULL_FATAL(s->bytes);
    }
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
    return SW_OK;
}

void sink_open(sink_bytes *s)
{
    memset(s, 0, sizeof *s);
    s->out.write = append;
    s->out.context = s;
}

void sink_close(sink_bytes *s)
{
    free(s->bytes);
    s->bytes = NULL;
}

sw_status read_snapshot(sw_timeline **out, const char *path)
{
    sw_timeline *t;
    SW_TRY(sw_timeline_new(&t));
    sw_status status = sw_timeline_string(t, &t->path, path);
    if (status == SW_OK)
        status = snapshot_read(t);
    if (status == SW_OK)
        *out = t;
    else
        sw_timeline_free(t);
    return status;
}
