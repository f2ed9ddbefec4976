/* Perfetto's own format: a Trace of TracePackets with TrackEvents. It writes the wire format of
 * Protocol Buffers itself: a field is its number and kind, then a varint, or a length and
 * bytes. No packet needs another one for its names, so that every prefix of the file that ends
 * between packets is a trace.
 *
 * Numbers of fields are those of trace_packet.proto, track_descriptor.proto, track_event.proto,
 * counter_descriptor.proto and debug_annotation.proto. */
#include "alloc/base/mem.h"
#include "alloc/base/assert.h"
#include "profiler/inspect/sink.h"
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };
enum { TRACE_PACKET = 1 };
enum { PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11, PACKET_TRACK = 60 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8
};
enum { PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, COUNTER_SHARED_AXIS = 7, UNIT_SIZE_BYTES = 3 };
enum {
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, COUNTER = 4 };
enum {
    ANNOTATION_UINT = 3,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_STRING = 6,
    ANNOTATION_NAME = 10
};

/* Tracks: a process, its steps, all live bytes, and the roles from here on. */
enum { UUID_PROCESS = 1, UUID_STEPS = 2, UUID_LIVE = 3, UUID_ROLES = 4 };

/* A message: short fields, and after them one string that is not copied. */
typedef struct {
    unsigned char bytes[224];
    size_t n;
    const char *tail;
    size_t n_tail;
} message;

static void put_varint(message *m, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        m->bytes[m->n++] = (unsigned char)(x | 0x80);
    m->bytes[m->n++] = (unsigned char)x;
}

static void put_u64(message *m, unsigned field, uint64_t x)
{
    put_varint(m, field << 3 | VARINT);
    put_varint(m, x);
}

/* A literal of ours. */
static void put_word(message *m, unsigned field, const char *word)
{
    const size_t n = strlen(word);
    put_varint(m, field << 3 | BYTES);
    put_varint(m, n);
    memcpy(m->bytes + m->n, word, n);
    m->n += n;
}

/* The last field: text of any length. */
static void put_tail(message *m, unsigned field, const char *text)
{
    m->tail = text;
    m->n_tail = strlen(text);
    put_varint(m, field << 3 | BYTES);
    put_varint(m, m->n_tail);
}

/* A message inside; the last field where it has a tail. */
static void put_message(message *m, unsigned field, const message *inner)
{
    put_varint(m, field << 3 | BYTES);
    put_varint(m, inner->n + inner->n_tail);
    memcpy(m->bytes + m->n, inner->bytes, inner->n);
    m->n += inner->n;
    m->tail = inner->tail;
    m->n_tail = inner->n_tail;
}

#define ROLES 32

/* Counters that a walk moves. Births of one instant are one change, deaths are another, so
 * that no peak is lost and no value is written twice: ask before each event, write when it
 * says so. */
typedef struct {
    const char *name[ROLES]; /* sorted; past the room: "others", the last */
    uint64_t bytes[ROLES];
    uint32_t n, changed; /* bit i: since it was written */
    uint64_t live;       /* their sum */
    uint64_t ns;         /* of what is pending */
    int pending;         /* 1: growth, -1: deaths, 0: none */
} role_bytes;

static int moves(const sw_tl_event *e)
{
    return e->kind == SW_TL_ALLOC ? 1 : e->kind == SW_TL_FREE ? -1 : 0;
}

/* ---- packets ----------------------------------------------------------------------------- */

typedef struct {
    sw_sink_out *out;
    role_bytes roles;
} writer;

static void put_packet(sw_sink_out *out, unsigned field, const message *inner, uint64_t ns)
{
    message packet = {.n = 0}, head = {.n = 0};
    put_u64(&packet, PACKET_TIMESTAMP, ns);
    put_u64(&packet, PACKET_SEQUENCE, 1);
    put_varint(&packet, field << 3 | BYTES);
    put_varint(&packet, inner->n + inner->n_tail);
    put_varint(&head, TRACE_PACKET << 3 | BYTES);
    put_varint(&head, packet.n + inner->n + inner->n_tail);
    sw_sink_bytes(out, head.bytes, head.n);
    sw_sink_bytes(out, packet.bytes, packet.n);
    sw_sink_bytes(out, inner->bytes, inner->n);
    if (inner->n_tail > 0)
        sw_sink_bytes(out, inner->tail, inner->n_tail);
}

static void put_counter(writer *w, uint64_t uuid, uint64_t bytes)
{
    message event = {.n = 0};
    put_u64(&event, EVENT_TYPE, COUNTER);
    put_u64(&event, EVENT_TRACK, uuid);
    put_u64(&event, EVENT_COUNTER, bytes);
    put_packet(w->out, PACKET_EVENT, &event, w->roles.ns);
}

static void put_counters(writer *w)
{
    put_counter(w, UUID_LIVE, w->roles.live);
    for (uint32_t i = 0; i < w->roles.n; i++)
        if ((w->roles.changed >> i & 1) != 0)
            put_counter(w, UUID_ROLES + i, w->roles.bytes[i]);
    w->roles.pending = 0;
    w->roles.changed = 0;
}

/* ---- slices ------------------------------------------------------------------------------ */

static void annotate_u64(message *event, const char *name, uint64_t x)
{
    message inner = {.n = 0};
    put_word(&inner, ANNOTATION_NAME, name);
    put_u64(&inner, ANNOTATION_UINT, x);
    put_message(event, EVENT_ANNOTATION, &inner);
}

static void annotate_word(message *event, const char *name, const char *word)
{
    message inner = {.n = 0};
    put_word(&inner, ANNOTATION_NAME, name);
    put_word(&inner, ANNOTATION_STRING, word);
    put_message(event, EVENT_ANNOTATION, &inner);
}

static void annotate_step(message *event, const sw_tl_event *e)
{
    message loss = {.n = 0};
    annotate_word(event, "run", strcmp(e->program->run, "eval") == 0 ? "eval" : "train");
    annotate_word(event, "mode", e->program->immediate ? "immediate" : "planned");
    annotate_u64(event, "peak_bytes", e->run->peak_bytes);
    if (!e->run->has_loss)
        return;
    put_word(&loss, ANNOTATION_NAME, "loss");
    const unsigned int field = ANNOTATION_DOUBLE;
    double x = e->run->loss;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_varint(&loss, field << 3 | FIXED64);
    for (int i = 0; i < 8; i++)
        loss.bytes[loss.n++] = (unsigned char)(bits >> 8 * i);
    put_message(event, EVENT_ANNOTATION, &loss);
}

static sw_status take(void *context, const sw_tl_event *e)
{
    static const char *const categories[] = {[SW_TL_STEP_BEGIN] = "step",
                                             [SW_TL_PHASE_BEGIN] = "phase",
                                             [SW_TL_LAYER_BEGIN] = "layer",
                                             [SW_TL_OP_BEGIN] = "op"};
    writer *w = context;
    /* Whether what is pending must be written before `e`, which has the walk's next event. */
    if (w->roles.pending != 0 && (e->ns != w->roles.ns || moves(e) == -w->roles.pending))
        put_counters(w);
    role_bytes *r = &w->roles;
    if (moves(e) != 0 && e->bytes > 0) {
        const char *role = e->program->values[e->index].role;
        uint32_t i = 0;
        while (i + 1 < r->n && r->name[i] != role && strcmp(r->name[i], role) != 0)
            i++;
        SW_ASSERT(i < r->n && (moves(e) > 0 || r->bytes[i] >= e->bytes));
        r->bytes[i] += moves(e) > 0 ? e->bytes : -e->bytes;
        r->changed |= (uint32_t)1 << i;
        r->live = e->live;
        r->ns = e->ns;
        r->pending = moves(e);
    }
    if (e->kind <= SW_TL_OP_BEGIN) {
        message event = {.n = 0};
        put_u64(&event, EVENT_TYPE, SLICE_BEGIN);
        put_u64(&event, EVENT_TRACK, UUID_STEPS);
        put_word(&event, EVENT_CATEGORY, categories[e->kind]);
        if (e->kind == SW_TL_STEP_BEGIN)
            annotate_step(&event, e);
        else if (e->kind == SW_TL_PHASE_BEGIN)
            annotate_u64(&event, "peak_bytes", e->run->phase[e->index].peak_bytes);
        annotate_u64(&event, "live_bytes", e->live);
        put_tail(&event, EVENT_NAME, e->name);
        put_packet(w->out, PACKET_EVENT, &event, e->ns);
    } else if (e->kind >= SW_TL_OP_END) {
        message event = {.n = 0};
        put_u64(&event, EVENT_TYPE, SLICE_END);
        put_u64(&event, EVENT_TRACK, UUID_STEPS);
        put_packet(w->out, PACKET_EVENT, &event, e->ns);
    }
    return w->out->status;
}

static sw_status write_perfetto(const sw_timeline *t, sw_sink_out *out)
{
    writer w = {.out = out};
    role_bytes *r = &w.roles;
    *r = (role_bytes){0};
    r->n = sw_timeline_roles(t, r->name, ROLES);
    if (r->n == ROLES)
        r->name[ROLES - 1] = "others";
    message process = {.n = 0}, thread = {.n = 0}, counter = {.n = 0}, track = {.n = 0};
    put_u64(&process, PROCESS_PID, 1);
    put_tail(&process, PROCESS_NAME, t->model[0] != '\0' ? t->model : t->tool);
    put_u64(&track, TRACK_UUID, UUID_PROCESS);
    put_message(&track, TRACK_PROCESS, &process);
    put_packet(out, PACKET_TRACK, &track, 0);

    put_u64(&thread, THREAD_PID, 1);
    put_u64(&thread, THREAD_TID, 1);
    put_tail(&thread, THREAD_NAME, "steps");
    track = (message){.n = 0};
    put_u64(&track, TRACK_UUID, UUID_STEPS);
    put_u64(&track, TRACK_PARENT, UUID_PROCESS);
    put_message(&track, TRACK_THREAD, &thread);
    put_packet(out, PACKET_TRACK, &track, 0);

    put_u64(&counter, COUNTER_UNIT, UNIT_SIZE_BYTES);
    put_word(&counter, COUNTER_SHARED_AXIS, "live");
    for (uint32_t i = 0; i <= w.roles.n; i++) { /* the last is all of them */
        track = (message){.n = 0};
        put_u64(&track, TRACK_UUID, i < w.roles.n ? UUID_ROLES + i : UUID_LIVE);
        put_u64(&track, TRACK_PARENT, UUID_PROCESS);
        put_message(&track, TRACK_COUNTER, &counter);
        put_tail(&track, TRACK_NAME, i < w.roles.n ? w.roles.name[i] : "live bytes");
        put_packet(out, PACKET_TRACK, &track, 0);
    }
    SW_TRY(sw_timeline_walk(t, take, &w));
    if (w.roles.pending != 0)
        put_counters(&w);
    return out->status;
}

const sw_sink sw_sink_perfetto =
    SW_INIT(.name = "perfetto",
            .about =
                "Perfetto's own format (protobuf), for ui.perfetto.dev and trace_processor",
            .ending = ".pftrace", .binary = true, .write = write_perfetto);
