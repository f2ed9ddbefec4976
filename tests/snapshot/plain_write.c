/* The snapshot that PyTorch would have written of a plain_allocator. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/plain_allocator.h"
#include "tests/support/suite.h"

static void put_number(sw_pickle *k, const char *key, uint64_t number)
{
    sw_pickle_string(k, key);
    sw_pickle_u64(k, number);
}

static void put_text(sw_pickle *k, const char *key, const char *text)
{
    sw_pickle_string(k, key);
    sw_pickle_string(k, text);
}

static void put_frame(sw_pickle *k, const char *file, uint64_t line, const char *name)
{
    sw_pickle_begin(k, '{');
    put_text(k, "filename", file);
    put_number(k, "line", line);
    put_text(k, "name", name);
    sw_pickle_end(k);
}

static void put_frames(sw_pickle *k, const plain_allocator *p, int frame)
{
    char text[2048], *rest = text;
    sw_pickle_string(k, "frames");
    sw_pickle_begin(k, '[');
    snprintf(text, sizeof text, "net.py|%d|layer%d", frame, frame);
    if (p->stacks != NULL)
        snprintf(text, sizeof text, "%s", p->stacks[frame]);
    for (char *f; frame > 0 && *text != '\0' && (f = strsep(&rest, ";")) != NULL;) {
        const char *file = strsep(&f, "|"), *line = strsep(&f, "|");
        put_frame(k, file, strtoull(line, NULL, 10), f);
    }
    sw_pickle_end(k);
}

static void put_pool(sw_pickle *k, const char *key, uint64_t pool)
{
    sw_pickle_string(k, key);
    sw_pickle_tuple2(k, (uint32_t)(pool >> 32), (uint32_t)pool);
}

/* Blocks from i on that are mapped and in one segment; returns the next one. */
static size_t put_segment(sw_pickle *k, const plain_allocator *p, size_t i)
{
    const plain_segment *s = &p->segments[p->blocks[i].segment];
    size_t end = i;
    while (end < p->n_blocks && p->blocks[end].segment == p->blocks[i].segment &&
           p->blocks[end].state != PLAIN_UNMAPPED)
        end++;
    sw_pickle_begin(k, '{');
    put_number(k, "device", 0);
    put_number(k, "address", p->blocks[i].address);
    put_number(k, "total_size",
               p->blocks[end - 1].address + p->blocks[end - 1].bytes - p->blocks[i].address);
    put_number(k, "stream", s->stream);
    put_text(k, "segment_type", s->small ? "small" : "large");
    put_pool(k, "segment_pool_id", s->pool);
    sw_pickle_string(k, "is_expandable");
    sw_pickle_bool(k, s->expandable);
    sw_pickle_string(k, "blocks");
    sw_pickle_begin(k, '[');
    for (; i < end; i++) {
        const plain_block *b = &p->blocks[i];
        sw_pickle_begin(k, '{');
        put_number(k, "size", b->bytes);
        put_number(k, "requested_size", b->requested);
        put_text(k, "state",
                 b->state == PLAIN_ACTIVE    ? "active_allocated"
                 : b->state == PLAIN_PENDING ? "active_pending_free"
                                             : "inactive");
        put_frames(k, p, b->frame);
        sw_pickle_end(k);
    }
    sw_pickle_end(k);
    sw_pickle_end(k);
    return end;
}

static void put_settings(sw_pickle *k, const plain_allocator *p)
{
    sw_pickle_string(k, "allocator_settings");
    sw_pickle_begin(k, '{');
    sw_pickle_string(k, "expandable_segments");
    sw_pickle_bool(k, p->expandable);
    if (p->max_split > 0)
        put_number(k, "max_split_size", p->max_split);
    sw_pickle_string(k, "roundup_power2_divisions");
    sw_pickle_begin(k, '{');
    for (int i = 0; i < 16; i++) {
        put_number(k, sw_textf("%d", 1 << i), (uint64_t)p->divisions);
    }
    sw_pickle_end(k);
    sw_pickle_end(k);
}

char *plain_write(const plain_allocator *p, const char *name, size_t first)
{
    sink_bytes out;
    sw_pickle k = {0};
    sink_open(&out);
    sw_pickle_start(&k, &out.out);
    sw_pickle_begin(&k, '{');
    sw_pickle_string(&k, "segments");
    sw_pickle_begin(&k, '[');
    for (size_t i = 0; i < p->n_blocks;)
        i = p->blocks[i].state == PLAIN_UNMAPPED ? i + 1 : put_segment(&k, p, i);
    sw_pickle_end(&k);
    sw_pickle_string(&k, "device_traces");
    sw_pickle_begin(&k, '[');
    sw_pickle_begin(&k, '[');
    for (size_t i = first; i < p->n_events; i++) {
        const plain_event *e = &p->events[i];
        sw_pickle_begin(&k, '{');
        put_text(&k, "action", e->action);
        put_number(&k, strcmp(e->action, "oom") == 0 ? "device_free" : "addr", e->address);
        put_number(&k, "size", e->bytes);
        put_number(&k, "stream", e->stream);
        put_number(&k, "time_us", 1000000 + 10 * i);
        if (p->say_pools)
            put_pool(&k, "pool_id", e->pool);
        put_frames(&k, p, e->frame);
        sw_pickle_end(&k);
    }
    sw_pickle_end(&k);
    sw_pickle_end(&k);
    if (!p->old)
        put_settings(&k, p);
    sw_pickle_end(&k);
    sw_pickle_stop(&k);
    CU_ASSERT_EQUAL(sw_sink_flush(&out.out), SW_OK);
    char *path = put_file(name, out.bytes, out.n);
    sink_close(&out);
    return path;
}
