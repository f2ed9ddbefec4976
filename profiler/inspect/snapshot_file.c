/* Opening a snapshot. */
#include "profiler/inspect/snapshot_file.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/json_tree.h"
#include "profiler/inspect/pickle_read.h"
#include <stdio.h>
#include <string.h>

struct snapshot_tree {
    value_tree tree;
    byte_reader in;
};

static bool begins(const char *text, size_t n)
{
    static const char *const keys[] = {"\"segments\"", "\"device_traces\""};
    size_t at = 0;
    if (n >= 2 && (unsigned char)text[0] == 0x80)
        return true;
    if (n == 0 || text[0] != '{')
        return false;
    for (at = 1; at < n &&
                 (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t');)
        at++;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (n - at >= strlen(keys[k]) && memcmp(text + at, keys[k], strlen(keys[k])) == 0)
            return true;
    return false;
}

sw_status snapshot_is(const char *path, bool *out)
{
    byte_reader r;
    SW_TRY(byte_reader_open(&r, path));
    const bool empty = r.end == 0;
    *out = begins((const char *)r.buffer, r.end < 64 ? r.end : 64);
    byte_reader_close(&r);
    if (empty)
        SW_FAIL(SW_FORMAT, "%s: the file is empty", path);
    return SW_OK;
}

/* Files of PyTorch 2.0 to 2.2 do not say the settings. Segments of a device say their type, and
 * events of devices the segments or their time; those of the profiler say none of it. */
static bool is_device(const snapshot_file *f)
{
    if (value_at(value_item(f->segments, 0), "segment_type") != 0)
        return true;
    for (uint64_t d = 0; d < value_count(f->traces); d++) {
        const value first = value_item(value_item(f->traces, d), 0);
        const char *action = value_text(value_at(first, "action"));
        if (value_at(first, "time_us") != 0 ||
            (action != NULL && strncmp(action, "segment_", 8) == 0))
            return true;
    }
    return false;
}

static sw_status take_top(snapshot_file *f, value top)
{
    const bool list = value_kind_of(top) == VALUE_LIST; /* of segments: memory_snapshot() */
    f->segments = list ? top : value_at(top, "segments");
    f->traces = value_at(top, "device_traces");
    f->settings = value_at(top, "allocator_settings");
    if (value_text(value_at(f->settings, "tool")) != NULL)
        f->own = true;
    if (value_kind_of(f->segments) != VALUE_LIST ||
        (f->traces != 0 && value_kind_of(f->traces) != VALUE_LIST))
        SW_FAIL(SW_FORMAT, "%s: not a snapshot of PyTorch: it has no list of segments",
                f->path);
    /* Those of the profiler have no settings; its last device is the CPU. */
    f->device = list || f->settings != 0 || is_device(f);
    return SW_OK;
}

static sw_status read_tree(snapshot_file *f)
{
    byte_reader *in = &f->tree->in;
    value_tree *tree = &f->tree->tree;
    value top = 0;
    int first;
    SW_TRY(byte_reader_bytes(in, &f->bytes));
    SW_TRY(value_tree_open(tree, f->path, f->bytes));
    SW_TRY(byte_reader_peek(in, &first));
    SW_TRY(first == 0x80 ? pickle_read(tree, in, &top) : json_tree_read(tree, in, &top));
    return take_top(f, top);
}

sw_status snapshot_file_open(snapshot_file *f, const char *path)
{
    *f = (snapshot_file){.path = path};
    SW_TRY(sw_heap_alloc(&f->tree, SW_HEAP_FILES, sizeof *f->tree));
    SW_TRY(byte_reader_open(&f->tree->in, path));
    const sw_status status = read_tree(f);
    byte_reader_close(&f->tree->in);
    return status;
}

void snapshot_file_close(snapshot_file *f)
{
    if (f->tree == NULL)
        return;
    value_tree_close(&f->tree->tree);
    sw_heap_free(f->tree, SW_HEAP_FILES, sizeof *f->tree);
    f->tree = NULL;
}

sw_status snapshot_number(const char *path, value of, const char *where, uint64_t index,
                          const char *key, int64_t most, int64_t *out)
{
    const value v = value_at(of, key);
    char got[64] = "no number";
    *out = value_number(v);
    if (value_kind_of(v) == VALUE_INT && *out >= 0 && *out <= most)
        return SW_OK;
    uint64_t whole;
    if (value_whole(v, &whole))
        snprintf(got, sizeof got, "%llu", (unsigned long long)whole);
    else if (value_is_number(v))
        snprintf(got, sizeof got, "%.17g", value_real(v));
    SW_FAIL(SW_FORMAT, "%s: %s %llu: '%s' must be a number from 0 to %lld (got %s)", path,
            where, (unsigned long long)index, key, (long long)most, v == 0 ? "nothing" : got);
}

sw_status snapshot_block_request(const char *path, value block, uint64_t index, int64_t most,
                                 int64_t *bytes, value *frames)
{
    const value latest = value_item(value_at(block, "history"), 0);
    const bool said = value_kind_of(value_at(block, "requested_size")) == VALUE_INT;
    *frames = value_at(block, "frames");
    if (latest != 0 && *frames == 0)
        *frames = value_at(latest, "frames");
    if (latest != 0 && !said)
        return snapshot_number(path, latest, "block", index, "real_size", most, bytes);
    return snapshot_number(path, block, "block", index, said ? "requested_size" : "size", most,
                           bytes);
}
