/* A snapshot's tree, replayed into a program. */
#include "profiler/inspect/snapshot_read.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/address_space.h"
#include "profiler/inspect/snapshot_file.h"
#include "profiler/inspect/snapshot_frames.h"
#include <stdio.h>
#include <string.h>

#define LATEST_US ((int64_t)1 << 50) /* behind the first event */

static const char before_trace[] = "from before the trace";

typedef enum { OTHER, ALLOC, FREE, RESERVE, GIVE_BACK, ANNOTATE } event_kind;

/* An address, and the value that has it; by address, open addressing. */
typedef struct {
    uint64_t address;
    uint32_t value; /* plus one; 0: nothing lives there now */
} slot;

typedef struct {
    sw_timeline *t;
    uint64_t file_bytes;
    value segments, trace;
    int64_t device;
    address_space space;
    sw_tl_op *ops;
    sw_tensor *values;
    uint64_t *op_ns;
    uint32_t n_ops, n_values;     /* filled */
    uint32_t cap_ops, cap_values; /* at most */
    slot *slots;
    uint32_t n_slots;         /* a power of two */
    int64_t first_us, now_us; /* of events that are positions */
    int64_t reserved, most_reserved, end_reserved;
    int phase; /* of the latest event whose frames said one */
    bool phases;
} reader;

/* ---- members ----------------------------------------------------------------------------- */

static event_kind kind_of(value event)
{
    static const struct {
        const char *name;
        event_kind kind;
    } kinds[] = {
        {"alloc", ALLOC},         {"free_completed", FREE},    {"segment_alloc", RESERVE},
        {"segment_map", RESERVE}, {"segment_free", GIVE_BACK}, {"segment_unmap", GIVE_BACK},
        {"annotate", ANNOTATE}};
    const char *action = value_text(value_at(event, "action"));
    for (size_t i = 0; action != NULL && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(action, kinds[i].name) == 0)
            return kinds[i].kind;
    return OTHER;
}

/* Address and bytes of an event. */
static sw_status event_place(const reader *r, uint64_t i, int64_t *address, int64_t *bytes)
{
    const value e = value_item(r->trace, i);
    SW_TRY(snapshot_number(r->t->path, e, "event", i, "addr", SNAPSHOT_LAST_ADDRESS, address));
    return snapshot_number(r->t->path, e, "event", i, "size", SNAPSHOT_LARGEST_BYTES, bytes);
}

static const char *role_of(value of)
{
    const char *category = value_text(value_at(of, "category"));
    if (category == NULL || *category == '\0')
        return "unknown";
    /* What a backward pass makes beside gradients: it has no role of its own here. */
    return strcmp(category, "autograd_detail") == 0 ? "temporary" : category;
}

/* ---- what lives -------------------------------------------------------------------------- */

static slot *slot_of(reader *r, uint64_t address)
{
    uint32_t i = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (r->n_slots - 1);
    while (r->slots[i].address != address + 1 && r->slots[i].address != 0)
        i = (i + 1) & (r->n_slots - 1);
    r->slots[i].address = address + 1;
    return &r->slots[i];
}

static sw_tensor *add_value(reader *r, uint64_t address, uint64_t bytes, uint32_t birth)
{
    sw_tensor *v = &r->values[r->n_values];
    *v = (sw_tensor){.id = r->n_values,
                     .alias = SW_TL_NONE,
                     .name = "",
                     .layer = "",
                     .op = "",
                     .role = "",
                     .phase = "",
                     .segment = SW_SEGMENT_STEP,
                     .bytes = bytes,
                     .offset = address_space_offset(&r->space, address),
                     .birth = birth,
                     .death = r->cap_ops};
    r->n_values++;
    return v;
}

static sw_status name_value(reader *r, sw_tensor *v, value of, value frames, int *phase)
{
    snapshot_frames f;
    const char *note = value_text(value_at(of, "user_metadata"));
    SW_TRY(sw_timeline_string(r->t, &v->role, role_of(of)));
    SW_TRY(snapshot_frames_read(r->t, frames, &f));
    v->name = f.name;
    v->op = f.op;
    v->layer = f.layer;
    *phase = f.phase;
    if (f.phase >= 0)
        v->phase = sw_prof_phase_name(f.phase);
    if (note != NULL && *note != '\0' && f.name == f.op) /* ours has a name of its own */
        SW_TRY(sw_timeline_string(r->t, &v->name, note));
    if (v->name[0] == '\0')
        v->name = v->birth == 0 ? before_trace : "no frames";
    return SW_OK;
}

/* ---- the trace --------------------------------------------------------------------------- */

/* A position more. The time up to this event is that of the position before. */
static sw_tl_op *add_op(reader *r, value event, const char *name, const char *layer)
{
    const int64_t us = value_number(value_at(event, "time_us"));
    if (r->n_ops == 1)
        r->first_us = r->now_us = us;
    if (us > r->now_us && us - r->first_us < LATEST_US) {
        r->op_ns[r->n_ops - 1] = (uint64_t)(us - r->now_us) * 1000;
        r->now_us = us;
    }
    r->ops[r->n_ops] = (sw_tl_op){name, layer, (uint8_t)(r->phase < 0 ? 0 : r->phase)};
    return &r->ops[r->n_ops++];
}

static sw_status take_alloc(reader *r, value event, uint64_t address, uint64_t bytes)
{
    slot *at = slot_of(r, address);
    int phase;
    if (at->value != 0) /* its free was not recorded */
        r->values[at->value - 1].death = r->n_ops - 1;
    sw_tensor *v = add_value(r, address, bytes, r->n_ops);
    SW_TRY(name_value(r, v, event, value_at(event, "frames"), &phase));
    if (phase >= 0)
        r->phase = phase;
    r->phases = r->phases || phase >= 0;
    (void)add_op(r, event, v->op[0] != '\0' ? v->op : "alloc", v->layer);
    at->value = r->n_values;
    return SW_OK;
}

static sw_status take_free(reader *r, value event, uint64_t address, uint64_t bytes)
{
    slot *at = slot_of(r, address);
    if (at->value == 0) {
        sw_tensor *v = add_value(r, address, bytes, 0);
        SW_TRY(sw_timeline_string(r->t, &v->role, role_of(event)));
        v->name = before_trace;
        at->value = r->n_values;
    }
    sw_tensor *v = &r->values[at->value - 1];
    v->death = r->n_ops - 1;
    at->value = 0;
    (void)add_op(r, event, "free", v->layer);
    return SW_OK;
}

static sw_status take_event(reader *r, uint64_t i)
{
    const value e = value_item(r->trace, i);
    const event_kind kind = kind_of(e);
    int64_t address, bytes;
    if (kind != ALLOC && kind != FREE && kind != ANNOTATE)
        return SW_OK;
    SW_TRY(event_place(r, i, &address, &bytes));
    if (kind == ANNOTATE) {
        const slot *at = slot_of(r, (uint64_t)address);
        const char *note = value_text(value_at(e, "user_metadata"));
        if (at->value != 0 && note != NULL)
            SW_TRY(sw_timeline_string(r->t, &r->values[at->value - 1].name, note));
        return SW_OK;
    }
    if (bytes == 0)
        return SW_OK;
    return kind == ALLOC ? take_alloc(r, e, (uint64_t)address, (uint64_t)bytes)
                         : take_free(r, e, (uint64_t)address, (uint64_t)bytes);
}

/* Blocks that no event made lived all the time. */
static sw_status take_block(reader *r, value block, uint64_t index, int64_t address)
{
    int64_t bytes;
    int phase;
    value frames;
    SW_TRY(snapshot_block_request(r->t->path, block, index, SNAPSHOT_LARGEST_BYTES, &bytes,
                                  &frames));
    slot *at = slot_of(r, (uint64_t)address);
    if (bytes == 0 || at->value != 0)
        return SW_OK;
    sw_tensor *v = add_value(r, (uint64_t)address, (uint64_t)bytes, 0);
    at->value = r->n_values;
    return name_value(r, v, block, frames, &phase);
}

/* ---- blocks ------------------------------------------------------------------------------ */

typedef sw_status block_visit(reader *r, value block, uint64_t index, int64_t address);

static bool is_active(value block)
{
    const char *state = value_text(value_at(block, "state"));
    return state != NULL && strncmp(state, "active", 6) == 0;
}

/* All active blocks of the device. A file can name one segment again and again: there are never
 * more blocks than bytes. */
static sw_status each_block(reader *r, block_visit *visit)
{
    uint64_t n = 0;
    for (uint64_t s = 0; s < value_count(r->segments); s++) {
        const value segment = value_item(r->segments, s);
        const value blocks = value_at(segment, "blocks");
        int64_t address, bytes;
        if (value_number(value_at(segment, "device")) != r->device)
            continue;
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "address",
                               SNAPSHOT_LAST_ADDRESS, &address));
        for (uint64_t b = 0; b < value_count(blocks); b++, n++) {
            const value block = value_item(blocks, b);
            SW_TRY(snapshot_number(r->t->path, block, "block", n, "size",
                                   SNAPSHOT_LARGEST_BYTES, &bytes));
            if (n > r->file_bytes || address > SNAPSHOT_LAST_ADDRESS)
                SW_FAIL(SW_FORMAT, "%s: segment %llu: more blocks than the file can hold",
                        r->t->path, (unsigned long long)s);
            if (is_active(block))
                SW_TRY(visit(r, block, n, address));
            address += bytes;
        }
    }
    return SW_OK;
}

static sw_status count_block(reader *r, value block, uint64_t index, int64_t address)
{
    if (index > SNAPSHOT_MOST)
        SW_FAIL(SW_UNSUPPORTED, "%s: more than %u blocks", r->t->path, SNAPSHOT_MOST);
    r->cap_values++;
    return address_space_add(&r->space, (uint64_t)address,
                             (uint64_t)value_number(value_at(block, "size")));
}

/* ---- sizes ------------------------------------------------------------------------------- */

static sw_status count_segments(reader *r)
{
    for (uint64_t s = 0; s < value_count(r->segments); s++) {
        const value segment = value_item(r->segments, s);
        int64_t address, bytes;
        if (value_number(value_at(segment, "device")) != r->device)
            continue;
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "address",
                               SNAPSHOT_LAST_ADDRESS, &address));
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "total_size",
                               SNAPSHOT_LARGEST_BYTES, &bytes));
        SW_TRY(address_space_add(&r->space, (uint64_t)address, (uint64_t)bytes));
        if (__builtin_add_overflow(r->end_reserved, bytes, &r->end_reserved))
            SW_FAIL(SW_FORMAT, "%s: segment %llu: more than 2^63 bytes", r->t->path,
                    (unsigned long long)s);
    }
    return each_block(r, count_block);
}

static sw_status count_event(reader *r, uint64_t i)
{
    const event_kind kind = kind_of(value_item(r->trace, i));
    int64_t address, bytes;
    if (kind == OTHER || kind == ANNOTATE)
        return SW_OK;
    SW_TRY(event_place(r, i, &address, &bytes));
    SW_TRY(address_space_add(&r->space, (uint64_t)address, (uint64_t)bytes));
    if (kind == ALLOC || kind == FREE) {
        r->cap_ops += bytes > 0;
        r->cap_values += bytes > 0;
        return SW_OK;
    }
    r->reserved += kind == RESERVE ? bytes : -bytes; /* at most 2^32 of at most 2^40 */
    if (r->reserved > r->most_reserved)
        r->most_reserved = r->reserved;
    return SW_OK;
}

static sw_status count(reader *r)
{
    if (value_count(r->trace) > SNAPSHOT_MOST)
        SW_FAIL(SW_UNSUPPORTED, "%s: more than %u events", r->t->path, SNAPSHOT_MOST);
    r->cap_ops = 1;
    r->cap_values = 1;
    for (uint64_t i = 0; i < value_count(r->trace); i++)
        SW_TRY(count_event(r, i));
    SW_TRY(count_segments(r));
    address_space_close_up(&r->space);
    return SW_OK;
}

static sw_status reserve(reader *r)
{
    void *block;
    SW_TRY(sw_timeline_alloc(r->t, &block, r->cap_ops, sizeof *r->ops));
    r->ops = block;
    SW_TRY(sw_timeline_alloc(r->t, &block, r->cap_ops, sizeof *r->op_ns));
    r->op_ns = block;
    SW_TRY(sw_timeline_alloc(r->t, &block, r->cap_values, sizeof *r->values));
    r->values = block;
    const uint64_t wanted = 2 * ((uint64_t)r->cap_values + value_count(r->trace));
    uint32_t n = 16;
    while (n < wanted)
        n *= 2;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, n * sizeof *r->slots));
    r->slots = block;
    r->n_slots = n;
    return SW_OK;
}

/* ---- the program ------------------------------------------------------------------------- */

/* The peak of all, and of each phase where the frames tell them. */
static sw_status find_peaks(reader *r, sw_tl_program *p)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, p->n_ops * sizeof(uint64_t)));
    const uint64_t *curve = block;
    sw_timeline_curve(p, NULL, NULL, block);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        sw_prof_phase *phase = &p->phase[p->ops[i].phase];
        if (curve[i] > p->peak_bytes) {
            p->peak_bytes = curve[i];
            p->peak_op = i;
        }
        if (r->phases && curve[i] > phase->peak_bytes)
            phase->peak_bytes = curve[i];
        if (r->phases)
            phase->end_bytes = curve[i];
    }
    sw_heap_free(block, SW_HEAP_PROFILE, p->n_ops * sizeof(uint64_t));
    return SW_OK;
}

static sw_status add_program(reader *r)
{
    sw_tl_program *p;
    sw_tl_run *run;
    const int64_t before = r->end_reserved - r->reserved; /* in front of the trace */
    SW_TRY(sw_timeline_add_program(r->t, &p));
    p->run = "trace";
    p->arena_bytes = (uint64_t)((before > 0 ? before : 0) + r->most_reserved);
    p->total_bytes = p->arena_bytes;
    p->ops = r->ops;
    p->n_ops = r->n_ops;
    p->values = r->values;
    p->n_values = r->n_values;
    SW_TRY(find_peaks(r, p));
    p->lower_bound_bytes = p->peak_bytes;
    SW_TRY(sw_timeline_add_run(r->t, &run));
    run->step = 1;
    run->peak_bytes = p->peak_bytes;
    run->clock = r->now_us > r->first_us ? SW_TL_OPS : SW_TL_UNTIMED;
    run->op_ns = run->clock == SW_TL_OPS ? r->op_ns : NULL;
    run->ns = (uint64_t)(r->now_us - r->first_us) * 1000;
    memcpy(run->phase, p->phase, sizeof run->phase);
    for (uint32_t i = 0; r->phases && i < r->n_ops; i++)
        run->phase[r->ops[i].phase].ns += r->op_ns[i];
    return SW_OK;
}

static sw_status replay(reader *r)
{
    SW_TRY(count(r));
    SW_TRY(reserve(r));
    r->phase = -1;
    r->ops[r->n_ops++] = (sw_tl_op){before_trace, "", 0};
    for (uint64_t i = 0; i < value_count(r->trace); i++)
        SW_TRY(take_event(r, i));
    SW_TRY(each_block(r, take_block));
    SW_TRY(add_program(r));
    return sw_timeline_finish(r->t);
}

/* ---- devices ----------------------------------------------------------------------------- */

/* The device whose segments take the most memory, then the one with the most events. */
static sw_status choose_device(reader *r, value traces, const char *kind)
{
    uint64_t bytes[SNAPSHOT_DEVICES] = {0}, used = 0;
    const uint64_t n_traces =
        value_count(traces) < SNAPSHOT_DEVICES ? value_count(traces) : SNAPSHOT_DEVICES;
    for (uint64_t s = 0; s < value_count(r->segments); s++) {
        const value segment = value_item(r->segments, s);
        int64_t device, size;
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "device",
                               SNAPSHOT_DEVICES - 1, &device));
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "total_size",
                               SNAPSHOT_LARGEST_BYTES, &size));
        bytes[device] += (uint64_t)size;
    }
    for (uint64_t d = 0; d < SNAPSHOT_DEVICES; d++) {
        const uint64_t best = (uint64_t)r->device;
        const uint64_t events = d < n_traces ? value_count(value_item(traces, d)) : 0;
        const uint64_t most = value_count(value_item(traces, best));
        used += bytes[d] > 0 || events > 0;
        if (bytes[d] > bytes[best] || (bytes[d] == bytes[best] && events > most))
            r->device = (int64_t)d;
    }
    char name[64];
    if (used > 1)
        snprintf(name, sizeof name, "%s%lld, the fullest of %llu", kind, (long long)r->device,
                 (unsigned long long)used);
    else
        snprintf(name, sizeof name, "%s%lld", kind, (long long)r->device);
    r->trace = value_item(traces, (uint64_t)r->device);
    return sw_timeline_string(r->t, &r->t->device, name);
}

/* What our own export says of the run. */
static sw_status take_origin(reader *r, value settings)
{
    const char *tool = value_text(value_at(settings, "tool"));
    if (tool == NULL)
        return SW_OK;
    SW_TRY(sw_timeline_string(r->t, &r->t->model, value_text(value_at(settings, "model"))));
    SW_TRY(sw_timeline_string(r->t, &r->t->device, value_text(value_at(settings, "device"))));
    return sw_timeline_string(r->t, &r->t->data, value_text(value_at(settings, "data")));
}

static sw_status take_snapshot(reader *r, const snapshot_file *f)
{
    r->file_bytes = f->bytes;
    r->segments = f->segments;
    SW_TRY(choose_device(r, f->traces, f->device ? "cuda:" : "device "));
    SW_TRY(take_origin(r, f->settings));
    r->t->tool = "pytorch";
    if (r->t->model[0] == '\0')
        r->t->model = "PyTorch snapshot";
    return replay(r);
}

sw_status snapshot_read(sw_timeline *t)
{
    snapshot_file file;
    reader r = {.t = t};
    sw_status status = snapshot_file_open(&file, t->path);
    if (status == SW_OK)
        status = take_snapshot(&r, &file);
    snapshot_file_close(&file);
    sw_heap_free(r.slots, SW_HEAP_PROFILE, r.n_slots * sizeof *r.slots);
    address_space_free(&r.space);
    return status;
}
