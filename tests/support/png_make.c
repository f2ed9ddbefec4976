#include "tests/support/png_make.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned char *at;
    size_t n, room;
} output;

static void put(output *o, const void *from, size_t n)
{
    if (n <= o->room - o->n && o->n <= o->room)
        memcpy(o->at + o->n, from, n);
    o->n += n;
}

static void put_byte(output *o, unsigned value)
{
    const unsigned char byte = (unsigned char)value;
    put(o, &byte, 1);
}

static void put_u32(output *o, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        put_byte(o, value >> shift & 255);
}

static uint32_t crc_of(const unsigned char *at, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put_chunk(output *o, const char *name, const unsigned char *data, size_t n)
{
    put_u32(o, (uint32_t)n);
    const size_t from = o->n;
    put(o, name, 4);
    if (n > 0)
        put(o, data, n);
    put_u32(o, o->n <= o->room ? crc_of(o->at + from, n + 4) : 0);
}

/* ---- pixels ------------------------------------------------------------------------------ */

static int samples_of(const png_image *p)
{
    static const int n[] = {1, 0, 3, 1, 2, 0, 4};
    return n[p->type];
}

unsigned png_sample(const png_image *p, uint32_t x, uint32_t y, int c)
{
    const uint32_t mixed =
        (x * 37 + y * 101 + (uint32_t)c * 67 + p->seed * 59 + 11) * 2654435761u;
    return mixed >> (32 - p->depth);
}

/* Of a palette. */
static unsigned char entry(unsigned i, int c)
{
    return (unsigned char)(c == 0 ? 255 - i : c == 1 ? 3 * i + 1 : 7 * i);
}

int png_channels(const png_image *p)
{
    return p->type == PNG_GRAY || p->type == PNG_GRAY_ALPHA ? 1 : 3;
}

unsigned char png_pixel(const png_image *p, uint32_t x, uint32_t y, int c)
{
    if (p->type == PNG_PALETTE)
        return entry(png_sample(p, x, y, 0), c);
    const unsigned v = png_sample(p, x, y, c);
    return (unsigned char)(p->depth == 16 ? v >> 8 : v * 255 / ((1u << p->depth) - 1));
}

/* ---- rows -------------------------------------------------------------------------------- */

/* Pixels x0, x0 + dx, ... of row y, packed, after the filter "none". */
static void put_row(output *o, const png_image *p, uint32_t y, uint32_t x0, uint32_t dx)
{
    unsigned bits = 0, n = 0;
    put_byte(o, 0);
    for (uint32_t x = x0; x < p->w; x += dx)
        for (int c = 0; c < samples_of(p); c++) {
            bits = bits << p->depth | png_sample(p, x, y, c);
            for (n += (unsigned)p->depth; n >= 8; n -= 8)
                put_byte(o, bits >> (n - 8) & 255);
        }
    if (n > 0)
        put_byte(o, bits << (8 - n) & 255);
}

static void put_rows(output *o, const png_image *p)
{
    static const uint32_t passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8},
                                          {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
                                          {0, 1, 1, 2}};
    for (int i = 0; i < 7 && p->interlaced; i++)
        for (uint32_t y = passes[i][1]; y < p->h && passes[i][0] < p->w; y += passes[i][3])
            put_row(o, p, y, passes[i][0], passes[i][2]);
    for (uint32_t y = 0; y < p->h && !p->interlaced; y++)
        put_row(o, p, y, 0, 1);
}

/* zlib's format, in stored blocks. */
static void put_stored(output *o, const unsigned char *data, size_t n)
{
    uint32_t a = 1, b = 0;
    put_byte(o, 0x78);
    put_byte(o, 0x01);
    for (size_t at = 0; at < n || at == 0;) {
        const size_t some = n - at < 65535 ? n - at : 65535;
        put_byte(o, at + some == n);
        put_byte(o, some & 255);
        put_byte(o, some >> 8 & 255);
        put_byte(o, ~some & 255);
        put_byte(o, ~some >> 8 & 255);
        put(o, data + at, some);
        at += some;
    }
    for (size_t i = 0; i < n; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    put_u32(o, b << 16 | a);
}

size_t png_make(unsigned char *to, size_t room, const png_image *p)
{
    static const unsigned char mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const size_t raw_room = ((size_t)p->w * (size_t)samples_of(p) * 2 + 2) * p->h * 2 + 64;
    const size_t zip_room = raw_room + raw_room / 65535 * 5 + 64;
    unsigned char *block = malloc(raw_room + zip_room), head[13], palette[768];
    if (block == NULL)
        return 0;
    output o = {to, 0, room}, raw = {block, 0, raw_room}, zip = {block + raw_room, 0, zip_room};
    output ihdr = {head, 0, sizeof head};
    put_u32(&ihdr, p->w);
    put_u32(&ihdr, p->h);
    put(&ihdr,
        (unsigned char[]){(unsigned char)p->depth, (unsigned char)p->type, 0, 0,
                          p->interlaced != 0},
        5);
    put(&o, mark, sizeof mark);
    put_chunk(&o, "IHDR", head, sizeof head);
    for (unsigned i = 0; i < 256; i++)
        for (int c = 0; c < 3; c++)
            palette[3 * i + (unsigned)c] = entry(i, c);
    if (p->type == PNG_PALETTE)
        put_chunk(&o, "PLTE", palette, 3u << p->depth);
    put_rows(&raw, p);
    put_stored(&zip, block, raw.n);
    put_chunk(&o, "IDAT", zip.at, zip.n);
    put_chunk(&o, "IEND", NULL, 0);
    free(block);
    return o.n <= room ? o.n : 0;
}
