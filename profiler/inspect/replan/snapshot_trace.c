/* A snapshot's tree, flattened. */
#include "profiler/inspect/replan/snapshot_trace.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/replan/number_map.h"
#include "profiler/inspect/snapshot.h"
#include <string.h>

typedef struct {
    snapshot_trace *t;
    const snapshot_file *f;
    number_map stacks; /* by a hash of frames, and by one of what they say */
    number_map made;   /* allocations that a note may come for, by address */
    int64_t first_us;
    bool timed;
} reader;

/* ---- stacks ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t with)
{
    hash = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Frames are shared by the file where they come again. */
static uint64_t hash_of_frames(value frames)
{
    uint64_t hash = 1;
    for (uint64_t i = 0; i < value_count(frames); i++)
        hash = mix(hash, value_item(frames, i));
    return hash;
}

static sw_status add_stack(reader *r, const snapshot_frames *said, uint32_t *out)
{
    snapshot_trace *t = r->t;
    const uint64_t hash = mix(
        mix(mix(mix(2, (uintptr_t)said->op), (uintptr_t)said->layer), (uintptr_t)said->name),
        (uint64_t)(said->phase + 1) << 32 | said->facts);
    *out = number_map_at(&r->stacks, hash);
    if (*out != NUMBER_MAP_NONE)
        return SW_OK;
    SW_TRY(sw_heap_reserve(&t->stacks, SW_HEAP_PROFILE, &t->cap_stacks, t->n_stacks + 1,
                           sizeof *t->stacks));
    *out = t->n_stacks;
    t->stacks[t->n_stacks++] =
        (trace_stack){said->name, said->op, said->layer, said->phase, said->facts};
    return number_map_set(&r->stacks, hash, *out);
}

static sw_status stack_of(reader *r, value frames, uint32_t *out)
{
    snapshot_frames said = {"", "", "", -1, 0};
    if (value_count(frames) == 0)
        return add_stack(r, &said, out);
    const uint64_t hash = hash_of_frames(frames);
    *out = number_map_at(&r->stacks, hash);
    if (*out != NUMBER_MAP_NONE)
        return SW_OK;
    SW_TRY(snapshot_frames_read(r->t->texts, frames, &said));
    SW_TRY(add_stack(r, &said, out));
    return number_map_set(&r->stacks, hash, *out);
}

/* ---- events ------------------------------------------------------------------------------ */

static uint64_t pool_of(value pair)
{
    const int64_t a = value_number(value_item(pair, 0)), b = value_number(value_item(pair, 1));
    if (value_count(pair) != 2)
        return TRACE_NO_POOL;
    return (uint64_t)a << 32 ^ (uint64_t)b;
}

static bool action_of(value event, uint8_t *out)
{
    static const char *const names[] = {
        [TRACE_ALLOC] = "alloc",
        [TRACE_FREE_REQUESTED] = "free_requested",
        [TRACE_FREE_COMPLETED] = "free_completed",
        [TRACE_SEGMENT_ALLOC] = "segment_alloc",
        [TRACE_SEGMENT_FREE] = "segment_free",
        [TRACE_SEGMENT_MAP] = "segment_map",
        [TRACE_SEGMENT_UNMAP] = "segment_unmap",
        [TRACE_OOM] = "oom",
    };
    const char *action = value_text(value_at(event, "action"));
    for (uint8_t i = 0; action != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(action, names[i]) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static uint32_t time_of(reader *r, value event)
{
    const value said = value_at(event, "time_us");
    const int64_t us = value_number(said);
    if (value_kind_of(said) != VALUE_INT || (r->timed && us < r->first_us))
        return 0;
    r->first_us = r->timed ? r->first_us : us;
    r->timed = true;
    return us - r->first_us < UINT32_MAX ? (uint32_t)(us - r->first_us) : UINT32_MAX;
}

/* The role of an allocation, as the file itself says it. */
static sw_status said_of(reader *r, value of, const char **note, const char **role)
{
    const char *category = value_text(value_at(of, "category")),
               *user = value_text(value_at(of, "user_metadata"));
    if (category != NULL && *category != '\0' && strcmp(category, "unknown") != 0)
        /* Results of a backward pass beside gradients have no role of their own here. */
        SW_TRY(sw_timeline_string(r->t->texts, role,
                                  strcmp(category, "autograd_detail") == 0 ? "temporary"
                                                                           : category));
    return user != NULL && *user != '\0' ? sw_timeline_string(r->t->texts, note, user) : SW_OK;
}

/* A note on what lives at the event's address. */
static sw_status take_note(reader *r, value event, uint64_t number)
{
    const char *action = value_text(value_at(event, "action"));
    int64_t address;
    if (action == NULL || strcmp(action, "annotate") != 0)
        return SW_OK; /* kinds to come */
    SW_TRY(snapshot_number(r->f->path, event, "event", number, "addr", SNAPSHOT_LAST_ADDRESS,
                           &address));
    const uint32_t at = number_map_at(&r->made, (uint64_t)address);
    const char *ignored = NULL;
    return at != NUMBER_MAP_NONE ? said_of(r, event, &r->t->events[at].note, &ignored) : SW_OK;
}

static sw_status take_event(reader *r, value event, uint64_t number)
{
    trace_event e = {.number = (uint32_t)number};
    int64_t address, bytes;
    if (!action_of(event, &e.action))
        return take_note(r, event, number);
    const char *where = e.action == TRACE_OOM ? "device_free" : "addr";
    SW_TRY(snapshot_number(r->f->path, event, "event", number, where, SNAPSHOT_LAST_ADDRESS,
                           &address));
    SW_TRY(snapshot_number(r->f->path, event, "event", number, "size", SNAPSHOT_LARGEST_BYTES,
                           &bytes));
    SW_TRY(stack_of(r, value_at(event, "frames"), &e.stack));
    e.address = (uint64_t)address;
    e.bytes = (uint64_t)bytes;
    e.stream = (uint64_t)value_number(value_at(event, "stream"));
    e.pool = pool_of(value_at(event, "pool_id"));
    e.us = time_of(r, event);
    SW_TRY(said_of(r, event, &e.note, &e.role));
    if (e.action == TRACE_ALLOC)
        SW_TRY(number_map_set(&r->made, e.address, r->t->n_events));
    r->t->events[r->t->n_events++] = e;
    return SW_OK;
}

static sw_status take_events(reader *r, value trace)
{
    const uint64_t n = value_count(trace);
    if (n > SNAPSHOT_MOST)
        SW_FAIL(SW_UNSUPPORTED, "%s: more than %u events", r->f->path, SNAPSHOT_MOST);
    SW_TRY(sw_heap_alloc(&r->t->events, SW_HEAP_PROFILE, n * sizeof(trace_event)));
    r->t->cap_events = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++)
        SW_TRY(take_event(r, value_item(trace, i), i));
    return SW_OK;
}

/* ---- segments ---------------------------------------------------------------------------- */

static sw_status take_block(reader *r, value block, uint64_t number, uint64_t address)
{
    snapshot_trace *t = r->t;
    trace_block b = {.address = address};
    int64_t bytes, requested = 0;
    const char *state = value_text(value_at(block, "state"));
    b.active = state != NULL && strncmp(state, "active", 6) == 0;
    b.pending = b.active && (strcmp(state, "active_pending_free") == 0 ||
                             strcmp(state, "active_awaiting_free") == 0);
    SW_TRY(snapshot_number(r->f->path, block, "block", number, "size", SNAPSHOT_LARGEST(r->f),
                           &bytes));
    if (b.active) {
        value frames;
        SW_TRY(snapshot_block_request(r->f->path, block, number, bytes, &requested, &frames));
        SW_TRY(stack_of(r, frames, &b.stack));
        SW_TRY(said_of(r, block, &b.note, &b.role));
    }
    b.bytes = (uint64_t)bytes;
    b.requested = (uint64_t)requested;
    SW_TRY(sw_heap_reserve(&t->blocks, SW_HEAP_PROFILE, &t->cap_blocks, t->n_blocks + 1,
                           sizeof *t->blocks));
    t->blocks[t->n_blocks++] = b;
    return SW_OK;
}

/* A file can name one list of blocks again and again: there are never more than bytes. */
static sw_status take_blocks(reader *r, value blocks, uint64_t number, const trace_segment *s)
{
    uint64_t address = s->address;
    for (uint64_t i = 0; i < value_count(blocks); i++) {
        if (r->t->n_blocks > r->f->bytes || r->t->n_blocks > SNAPSHOT_MOST)
            SW_FAIL(SW_FORMAT, "%s: segment %llu: more blocks than the file can hold",
                    r->f->path, (unsigned long long)number);
        SW_TRY(take_block(r, value_item(blocks, i), r->t->n_blocks, address));
        address += r->t->blocks[r->t->n_blocks - 1].bytes;
        if (address - s->address > s->bytes)
            SW_FAIL(SW_FORMAT, "%s: segment %llu: its blocks are larger than it is", r->f->path,
                    (unsigned long long)number);
    }
    return SW_OK;
}

static sw_status take_segment(reader *r, value segment, uint64_t number)
{
    snapshot_trace *t = r->t;
    int64_t address, bytes;
    const value blocks = value_at(segment, "blocks"), kind = value_at(segment, "segment_type");
    SW_TRY(snapshot_number(r->f->path, segment, "segment", number, "address",
                           SNAPSHOT_LAST_ADDRESS, &address));
    SW_TRY(snapshot_number(r->f->path, segment, "segment", number, "total_size",
                           SNAPSHOT_LARGEST(r->f), &bytes));
    const uint64_t pool = pool_of(value_at(segment, "segment_pool_id"));
    trace_segment s = {.address = (uint64_t)address,
                       .bytes = (uint64_t)bytes,
                       .stream = (uint64_t)value_number(value_at(segment, "stream")),
                       .pool = pool == TRACE_NO_POOL ? 0 : pool,
                       .first = t->n_blocks,
                       .small = kind != 0 && value_text(kind) != NULL &&
                                strcmp(value_text(kind), "small") == 0,
                       .expandable = value_is_true(value_at(segment, "is_expandable"))};
    SW_TRY(take_blocks(r, blocks, number, &s));
    s.n = t->n_blocks - s.first;
    SW_TRY(sw_heap_reserve(&t->segments, SW_HEAP_PROFILE, &t->cap_segments, t->n_segments + 1,
                           sizeof *t->segments));
    t->segments[t->n_segments++] = s;
    return SW_OK;
}

static sw_status take_segments(reader *r)
{
    for (uint64_t i = 0; i < value_count(r->f->segments); i++) {
        const value segment = value_item(r->f->segments, i);
        int64_t device;
        SW_TRY(snapshot_number(r->f->path, segment, "segment", i, "device",
                               SNAPSHOT_DEVICES - 1, &device));
        if (device == r->t->device)
            SW_TRY(take_segment(r, segment, i));
    }
    return SW_OK;
}

/* ---- settings ---------------------------------------------------------------------------- */

static uint64_t whole_or(value dict, const char *key, uint64_t otherwise)
{
    uint64_t x;
    return value_whole(value_at(dict, key), &x) ? x : otherwise;
}

/* {"1": 8, "2": 8, ...} by MiB. */
static void take_divisions(caching_settings *s, value divisions)
{
    for (uint64_t i = 0; i < value_count(divisions) && value_is_dict(divisions); i++) {
        uint64_t mib = 0, by;
        const char *key = value_key(divisions, i);
        for (const char *c = key != NULL ? key : ""; *c >= '0' && *c <= '9' && mib < 1 << 20;
             c++)
            mib = mib * 10 + (uint64_t)(*c - '0');
        if (mib == 0 || !value_whole(value_member(divisions, i), &by) || by > 64)
            continue;
        const int at = 63 - __builtin_clzll(mib);
        if (at < CACHING_DIVISIONS)
            s->divisions[at] = (uint8_t)by;
    }
}

/* "large_segment_size_mb:40,max_split_size_mb:512": the number after that key, in bytes. */
static uint64_t mib_or(const char *text, const char *key, uint64_t otherwise)
{
    const size_t n = strlen(key);
    uint64_t mib = 0;
    while (text != NULL && (strncmp(text, key, n) != 0 || text[n] != ':')) {
        text = strchr(text, ',');
        text = text != NULL ? text + 1 + strspn(text + 1, " ") : NULL;
    }
    for (const char *c = text != NULL ? text + n + 1 : ""; *c >= '0' && *c <= '9'; c++)
        mib = mib < 1 << 20 ? mib * 10 + (uint64_t)(*c - '0') : mib;
    return mib > 0 ? mib << 20 : otherwise;
}

/* The members do not have all: the text has what the environment said. */
static void take_text(caching_settings *s, const char *text)
{
    s->max_rounding_bytes = mib_or(text, "max_non_split_rounding_mb", s->max_rounding_bytes);
    s->large_page_bytes = mib_or(text, "large_segment_size_mb", s->large_page_bytes);
}

static void take_settings(reader *r)
{
    snapshot_trace *t = r->t;
    const value all = r->f->settings;
    t->settings = caching_settings_default();
    t->said_settings = value_at(all, "expandable_segments") != 0;
    if (!t->said_settings)
        return;
    t->settings.expandable = value_is_true(value_at(all, "expandable_segments"));
    t->settings.max_split_bytes = whole_or(all, "max_split_size", UINT64_MAX);
    if (t->settings.max_split_bytes == 0 || t->settings.max_split_bytes > INT64_MAX)
        t->settings.max_split_bytes = UINT64_MAX;
    t->settings.unlocked = value_is_true(value_at(all, "release_lock_on_cudamalloc"));
    take_divisions(&t->settings, value_at(all, "roundup_power2_divisions"));
    take_text(&t->settings, value_text(value_at(all, "PYTORCH_CUDA_ALLOC_CONF")));
}

/* Files of PyTorch 2.0 to 2.2 do not say the settings; events and segments say one of them. */
static void guess_expandable(snapshot_trace *t)
{
    for (uint32_t i = 0; i < t->n_segments; i++)
        t->settings.expandable |= t->segments[i].expandable;
    for (uint32_t i = 0; i < t->n_events; i++)
        t->settings.expandable |= t->events[i].action == TRACE_SEGMENT_MAP;
}

/* ---- all of it --------------------------------------------------------------------------- */

bool trace_moves(const trace_event *e)
{
    return (e->action == TRACE_ALLOC || e->action == TRACE_FREE_COMPLETED) && e->bytes > 0;
}

sw_status snapshot_trace_devices(const snapshot_file *f, uint64_t out[SNAPSHOT_DEVICES / 64])
{
    memset(out, 0, SNAPSHOT_DEVICES / 8);
    for (uint64_t i = 0; i < value_count(f->segments); i++) {
        int64_t d;
        SW_TRY(snapshot_number(f->path, value_item(f->segments, i), "segment", i, "device",
                               SNAPSHOT_DEVICES - 1, &d));
        out[d / 64] |= UINT64_C(1) << d % 64;
    }
    for (uint64_t d = 0; d < value_count(f->traces) && d < SNAPSHOT_DEVICES; d++)
        if (value_count(value_item(f->traces, d)) > 0)
            out[d / 64] |= UINT64_C(1) << d % 64;
    return SW_OK;
}

static sw_status read_all(reader *r)
{
    snapshot_frames none = {"", "", "", -1, 0};
    uint32_t first;
    SW_TRY(sw_timeline_new(&r->t->texts));
    SW_TRY(add_stack(r, &none, &first));
    take_settings(r);
    SW_TRY(take_events(r, value_item(r->f->traces, (uint64_t)r->t->device)));
    SW_TRY(take_segments(r));
    if (!r->t->said_settings)
        guess_expandable(r->t);
    return SW_OK;
}

sw_status snapshot_trace_read(snapshot_trace *t, const snapshot_file *f, int64_t device)
{
    *t = (snapshot_trace){.path = f->path, .device = device, .cuda = f->device};
    reader r = {.t = t, .f = f};
    const sw_status status = read_all(&r);
    number_map_free(&r.stacks);
    number_map_free(&r.made);
    return status;
}

void snapshot_trace_free(snapshot_trace *t)
{
    sw_heap_free(t->events, SW_HEAP_PROFILE, t->cap_events * sizeof *t->events);
    sw_heap_free(t->segments, SW_HEAP_PROFILE, t->cap_segments * sizeof *t->segments);
    sw_heap_free(t->blocks, SW_HEAP_PROFILE, t->cap_blocks * sizeof *t->blocks);
    sw_heap_free(t->stacks, SW_HEAP_PROFILE, t->cap_stacks * sizeof *t->stacks);
    sw_timeline_free(t->texts);
    *t = (snapshot_trace){0};
}

int trace_by_address(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

uint32_t trace_below(const void *of, uint32_t n, size_t size, uint64_t address)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (*(const uint64_t *)((const char *)of + middle * size) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
