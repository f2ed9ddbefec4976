/* TFRecord and the messages of event.proto and summary.proto. */
#include "tests/support/read_tfevents.h"
#include <string.h>

typedef struct {
    const unsigned char *at, *end;
} span;

typedef struct {
    tfevents_read r;
    void (*take)(void *, const tfevents_scalar *);
    void *context;
} reader;

/* Bit by bit, turned and shifted as TFRecord has it. */
static uint32_t masked(const unsigned char *bytes, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static uint64_t little(const unsigned char *at, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)at[i] << 8 * i;
    return x;
}

static bool fail(reader *r, const char *what)
{
    if (r->r.wrong == NULL)
        r->r.wrong = what;
    return false;
}

static bool varint(reader *r, span *s, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        const unsigned char c = *s->at++;
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return fail(r, "a varint is cut");
}

/* The next field must have this key; of bytes the span, else the number. */
static bool field(reader *r, span *s, unsigned number, unsigned wire, uint64_t *x, span *bytes)
{
    uint64_t key;
    if (!varint(r, s, &key))
        return false;
    if (key != (number << 3 | wire))
        return fail(r, "another field");
    if (wire == 0)
        return varint(r, s, x);
    if (wire == 2 && !varint(r, s, x))
        return false;
    const uint64_t n = wire == 1 ? 8 : wire == 5 ? 4 : *x;
    if ((uint64_t)(s->end - s->at) < n)
        return fail(r, "a field is cut");
    if (wire == 2)
        *bytes = (span){s->at, s->at + n};
    else
        *x = little(s->at, (int)n);
    s->at += n;
    return true;
}

static bool read_value(reader *r, span value, tfevents_scalar *to)
{
    uint64_t x = 0;
    span tag = {0};
    if (!field(r, &value, 1, 2, &x, &tag))
        return false;
    const size_t n = (size_t)(tag.end - tag.at);
    if (n == 0 || n >= sizeof to->tag)
        return fail(r, "a tag's length");
    memcpy(to->tag, tag.at, n);
    to->tag[n] = '\0';
    if (!field(r, &value, 2, 5, &x, NULL) || value.at != value.end)
        return fail(r, "a value");
    const uint32_t bits = (uint32_t)x;
    memcpy(&to->value, &bits, sizeof bits);
    r->r.scalars++;
    if (r->take != NULL)
        r->take(r->context, to);
    return true;
}

static bool read_event(reader *r, span event)
{
    static const char version[] = "brain.Event:2";
    tfevents_scalar s = {0};
    uint64_t x = 0;
    span text = {0}, summary = {0}, value = {0};
    if (!field(r, &event, 1, 1, &x, NULL))
        return false;
    memcpy(&s.wall_s, &x, sizeof x);
    if (r->r.records == 0)
        return (field(r, &event, 3, 2, &x, &text) && event.at == event.end &&
                (size_t)(text.end - text.at) == sizeof version - 1 &&
                memcmp(text.at, version, sizeof version - 1) == 0) ||
               fail(r, "the version");
    if (!field(r, &event, 2, 0, &s.step, NULL) || !field(r, &event, 5, 2, &x, &summary))
        return false;
    if (event.at != event.end)
        return fail(r, "more after the numbers");
    while (summary.at < summary.end)
        if (!field(r, &summary, 1, 2, &x, &value) || !read_value(r, value, &s))
            return fail(r, "a summary");
    return true;
}

tfevents_read tfevents_read_all(const void *bytes, size_t n,
                                void (*take)(void *, const tfevents_scalar *), void *context)
{
    reader r = {.take = take, .context = context};
    const unsigned char *at = bytes;
    for (; n - r.r.whole >= 12; r.r.records++) {
        const unsigned char *front = at + r.r.whole;
        const size_t left = n - r.r.whole - 12;
        const uint64_t length = little(front, 8);
        if (little(front + 8, 4) != masked(front, 8)) {
            (void)fail(&r, "the check of a length");
            break;
        }
        if (left < 4 || length > left - 4)
            break;
        if (little(front + 12 + length, 4) != masked(front + 12, (size_t)length)) {
            (void)fail(&r, "the check of an event");
            break;
        }
        if (!read_event(&r, (span){front + 12, front + 12 + length}))
            break;
        r.r.whole += 12 + (size_t)length + 4;
    }
    return r.r;
}
