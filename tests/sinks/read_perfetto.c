/* Perfetto's file, by a decoder of our own that knows the fields from Perfetto's .proto files
 * and refuses all others. */
#include "tests/sinks/expect.h"

typedef struct {
    const unsigned char *at, *end;
} span;

typedef struct {
    unsigned number, wire;
    uint64_t x; /* of a varint or 64 bits */
    span bytes;
} field;

static char wrong[700];

static bool varint(span *s, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        const unsigned char c = *s->at++;
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return false;
}

/* False at the end, and for what is no field (wrong says so). */
static bool next(span *s, field *f)
{
    uint64_t tag = 0, n = 0;
    if (wrong[0] != '\0' || s->at == s->end)
        return false;
    bool good = varint(s, &tag);
    *f = (field){.number = (unsigned)(tag >> 3), .wire = (unsigned)(tag & 7)};
    if (f->wire == 0) {
        good = good && varint(s, &f->x);
    } else if (f->wire == 1) {
        good = good && s->end - s->at >= 8;
        for (int i = 0; good && i < 8; i++)
            f->x |= (uint64_t)*s->at++ << 8 * i;
    } else {
        good = good && f->wire == 2 && varint(s, &n) && (uint64_t)(s->end - s->at) >= n;
        f->bytes = (span){s->at, s->at + n};
        s->at += good ? n : 0;
    }
    if (!good)
        snprintf(wrong, sizeof wrong, "field %u is cut", f->number);
    return good;
}

static void unknown(const char *message, const field *f)
{
    if (wrong[0] == '\0')
        snprintf(wrong, sizeof wrong, "%s has a field %u of kind %u", message, f->number,
                 f->wire);
}

static void text_of(const field *f, char *to, size_t room)
{
    snprintf(to, room, "%.*s", (int)(f->bytes.end - f->bytes.at), (const char *)f->bytes.at);
}

/* ---- tracks ------------------------------------------------------------------------------ */

typedef struct {
    uint64_t uuid, parent;
    bool counter, thread, process;
    char name[400];
} track;

typedef struct {
    track tracks[80];
    uint32_t n;
    trace r;
} reader;

static void take_unit(span s)
{
    uint64_t unit = 0;
    for (field f; next(&s, &f);) {
        if (f.number == 3 && f.wire == 0)
            unit = f.x;
        else if (f.number != 7 || f.wire != 2)
            unknown("CounterDescriptor", &f);
    }
    if (unit != 3 && wrong[0] == '\0')
        snprintf(wrong, sizeof wrong, "a counter that is not in bytes");
}

static void take_named(span s, const char *message, unsigned most, unsigned name, track *t)
{
    for (field f; next(&s, &f);)
        if (f.number == name && f.wire == 2)
            text_of(&f, t->name, sizeof t->name);
        else if (f.number > most || f.wire != 0 || f.x != 1)
            unknown(message, &f);
}

static void take_track(reader *r, span s)
{
    track *t = &r->tracks[r->n++ % 80];
    for (field f; next(&s, &f);) {
        if (f.number == 1 && f.wire == 0)
            t->uuid = f.x;
        else if (f.number == 5 && f.wire == 0)
            t->parent = f.x;
        else if (f.number == 2 && f.wire == 2)
            text_of(&f, t->name, sizeof t->name);
        else if (f.number == 3 && f.wire == 2)
            t->process = true, take_named(f.bytes, "ProcessDescriptor", 1, 6, t);
        else if (f.number == 4 && f.wire == 2)
            t->thread = true, take_named(f.bytes, "ThreadDescriptor", 2, 5, t);
        else if (f.number == 8 && f.wire == 2)
            t->counter = true, take_unit(f.bytes);
        else
            unknown("TrackDescriptor", &f);
    }
}

/* ---- events ------------------------------------------------------------------------------ */

static void take_annotation(span s)
{
    int names = 0, values = 0;
    for (field f; next(&s, &f);) {
        names += f.number == 10 && f.wire == 2;
        values += (f.number == 3 && f.wire == 0) || (f.number == 5 && f.wire == 1) ||
                  (f.number == 6 && f.wire == 2);
    }
    if ((names != 1 || values != 1) && wrong[0] == '\0')
        snprintf(wrong, sizeof wrong, "an annotation of %d names and %d values", names, values);
}

static void take_event(reader *r, span s, uint64_t ns)
{
    uint64_t type = 0, uuid = 0, value = 0;
    char name[4096] = "", category[64] = "";
    for (field f; next(&s, &f);) {
        if (f.number == 9 && f.wire == 0)
            type = f.x;
        else if (f.number == 11 && f.wire == 0)
            uuid = f.x;
        else if (f.number == 30 && f.wire == 0)
            value = f.x;
        else if (f.number == 23 && f.wire == 2)
            text_of(&f, name, sizeof name);
        else if (f.number == 22 && f.wire == 2)
            text_of(&f, category, sizeof category);
        else if (f.number == 4 && f.wire == 2)
            take_annotation(f.bytes);
        else
            unknown("TrackEvent", &f);
    }
    const track *t = NULL;
    for (uint32_t i = 0; i < r->n && i < 80; i++)
        t = r->tracks[i].uuid == uuid ? &r->tracks[i] : t;
    if (t == NULL || t->counter != (type == 4) || (!t->counter && !t->thread)) {
        if (wrong[0] == '\0')
            snprintf(wrong, sizeof wrong, "an event of type %u on track %u", (unsigned)type,
                     (unsigned)uuid);
    } else if (type == 4 && strcmp(t->name, "live bytes") == 0) {
        trace_live(&r->r, value, ns);
    } else if (type == 4) {
        trace_role(&r->r, t->name, value, ns);
    } else {
        trace_slice(&r->r, type == 1, type == 1 ? category : NULL, type == 1 ? name : NULL, ns);
    }
}

static void take_packet(reader *r, span s)
{
    uint64_t ns = 0, sequence = 0;
    span event = {NULL, NULL}, descriptor = {NULL, NULL};
    for (field f; next(&s, &f);) {
        if (f.number == 8 && f.wire == 0)
            ns = f.x;
        else if (f.number == 10 && f.wire == 0)
            sequence = f.x;
        else if (f.number == 11 && f.wire == 2)
            event = f.bytes;
        else if (f.number == 60 && f.wire == 2)
            descriptor = f.bytes;
        else
            unknown("TracePacket", &f);
    }
    if ((sequence == 0 || (event.at == NULL) == (descriptor.at == NULL)) && wrong[0] == '\0')
        snprintf(wrong, sizeof wrong, "a packet of nothing, or of no sequence");
    if (descriptor.at != NULL)
        take_track(r, descriptor);
    else if (event.at != NULL)
        take_event(r, event, ns);
}

const char *check_perfetto(const written *file, const expected *x)
{
    static reader r;
    span all = {(const unsigned char *)file->bytes,
                (const unsigned char *)file->bytes + file->n};
    memset(&r, 0, sizeof r);
    r.r.x = x;
    wrong[0] = '\0';
    for (field f; next(&all, &f);)
        if (f.number == 1 && f.wire == 2)
            take_packet(&r, f.bytes);
        else
            unknown("Trace", &f);
    for (uint32_t i = 0; i < r.n; i++)
        if (wrong[0] == '\0' && r.tracks[i].parent != (i == 0 ? 0 : r.tracks[0].uuid))
            snprintf(wrong, sizeof wrong, "track %u has no process", i);
    return wrong[0] != '\0' ? wrong : trace_end(&r.r);
}
