/* Numbers of fields are those of event.proto and summary.proto. */
#include "profiler/inspect/tfevents.h"
#include "alloc/base/assert.h"
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2 };
enum { TAG_MAX = 100 }; /* so that a length is one byte */

static void put(sw_tfevents *e, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        e->bytes[e->n++] = (unsigned char)(number >> 8 * i);
}

static void put_varint(sw_tfevents *e, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        put(e, x | 0x80, 1);
    put(e, x, 1);
}

static void put_key(sw_tfevents *e, unsigned field, unsigned wire)
{
    put(e, field << 3 | wire, 1);
}

static uint32_t masked(const sw_tfevents *e, const unsigned char *bytes, size_t n)
{
    const uint32_t crc = sw_crc32(&e->crc, 0, bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void begin(sw_tfevents *e, double wall_s)
{
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    e->n = SW_TFEVENTS_FRONT;
    put_key(e, EVENT_WALL_TIME, FIXED64);
    put(e, bits, 8);
}

static void end(sw_tfevents *e)
{
    const size_t all = e->n, event = all - SW_TFEVENTS_FRONT;
    e->n = 0;
    put(e, event, 8);
    put(e, masked(e, e->bytes, 8), 4);
    e->n = all;
    put(e, masked(e, e->bytes + SW_TFEVENTS_FRONT, event), 4);
}

void sw_tfevents_init(sw_tfevents *e)
{
    sw_crc32_init(&e->crc, SW_CRC32_CASTAGNOLI);
    e->n = e->summary = 0;
}

void sw_tfevents_version(sw_tfevents *e, double wall_s)
{
    static const char version[] = "brain.Event:2";
    begin(e, wall_s);
    put_key(e, EVENT_VERSION, BYTES);
    put_varint(e, sizeof version - 1);
    memcpy(e->bytes + e->n, version, sizeof version - 1);
    e->n += sizeof version - 1;
    end(e);
}

/* The length of the numbers gets two bytes, a varint that may have a zero in front: it is known
 * at the end. */
void sw_tfevents_begin(sw_tfevents *e, double wall_s, uint64_t step)
{
    begin(e, wall_s);
    put_key(e, EVENT_STEP, VARINT);
    put_varint(e, step);
    put_key(e, EVENT_SUMMARY, BYTES);
    e->summary = e->n;
    put(e, 0, 2);
}

void sw_tfevents_scalar(sw_tfevents *e, const char *tag, double value)
{
    const size_t n = strlen(tag), bytes = 2 + n + 5;
    const float number = (float)value;
    uint32_t bits;
    SW_ASSERT(n <= TAG_MAX && e->summary > 0);
    if (n > TAG_MAX || e->n + 2 + bytes + SW_TFEVENTS_BACK > sizeof e->bytes)
        return;
    memcpy(&bits, &number, sizeof bits);
    put_key(e, SUMMARY_VALUE, BYTES);
    put_varint(e, bytes);
    put_key(e, VALUE_TAG, BYTES);
    put_varint(e, n);
    memcpy(e->bytes + e->n, tag, n);
    e->n += n;
    put_key(e, VALUE_NUMBER, FIXED32);
    put(e, bits, 4);
}

void sw_tfevents_end(sw_tfevents *e)
{
    const size_t n = e->n - e->summary - 2; /* below 1 << 14 */
    e->bytes[e->summary] = (unsigned char)((n & 0x7f) | 0x80);
    e->bytes[e->summary + 1] = (unsigned char)(n >> 7);
    e->summary = 0;
    end(e);
}

uint64_t sw_tfevents_length(const sw_tfevents *e, const unsigned char *front)
{
    uint64_t n = 0, check = 0;
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)front[i] << 8 * i;
    for (int i = 0; i < 4; i++)
        check |= (uint64_t)front[8 + i] << 8 * i;
    if (check != masked(e, front, 8) || n > INT64_MAX)
        return 0;
    return SW_TFEVENTS_FRONT + n + SW_TFEVENTS_BACK;
}
