#include "tests/data/data_files.h"
#include "alloc/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bytes_put(bytes *b, const void *from, size_t n)
{
    if (n == 0)
        return;
    unsigned char *grown = realloc(b->at, b->n + n);
    if (grown == NULL)
        exit(1);
    memcpy(grown + b->n, from, n);
    b->at = grown;
    b->n += n;
}

void bytes_byte(bytes *b, int value)
{
    const unsigned char byte = (unsigned char)value;
    bytes_put(b, &byte, 1);
}

void bytes_u32(bytes *b, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes_byte(b, (int)(value >> shift & 255));
}

void bytes_free(bytes *b)
{
    free(b->at);
    *b = (bytes){NULL, 0};
}

void file_put(const char *path, const void *from, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(from, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

bytes file_get(const char *path)
{
    bytes b = {NULL, 0};
    unsigned char part[4096];
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return b;
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        bytes_put(&b, part, n);
    fclose(f);
    return b;
}

bool file_is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f != NULL)
        fclose(f);
    return f != NULL;
}

bytes idx_make(int rank, const uint32_t *dims, const void *data, size_t n)
{
    bytes b = {NULL, 0};
    bytes_u32(&b, 0x800u + (uint32_t)rank);
    for (int i = 0; i < rank; i++)
        bytes_u32(&b, dims[i]);
    bytes_put(&b, data, n);
    return b;
}

static uint32_t crc32_of(const unsigned char *at, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void little(bytes *b, uint32_t value, int n)
{
    for (int i = 0; i < n; i++, value >>= 8)
        bytes_byte(b, (int)(value & 255));
}

bytes gzip_make(const void *from, size_t n)
{
    static const unsigned char head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    bytes b = {NULL, 0};
    bytes_put(&b, head, sizeof head);
    size_t at = 0;
    do {
        const size_t part = n - at < 65535 ? n - at : 65535;
        bytes_byte(&b, at + part == n); /* the last block; stored */
        little(&b, (uint32_t)part, 2);
        little(&b, ~(uint32_t)part, 2);
        bytes_put(&b, (const unsigned char *)from + at, part);
        at += part;
    } while (at < n);
    little(&b, crc32_of(from, n), 4);
    little(&b, (uint32_t)n, 4);
    return b;
}

heap_watch heap_now(void)
{
    heap_watch sum = {0, 0};
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        sum.blocks += stats.blocks;
        sum.bytes += stats.bytes;
    }
    return sum;
}

bool failed_as(sw_status status, sw_status expected, const char *part)
{
    return SW_CHECK(status == expected && strstr(sw_last_error(), part) != NULL &&
                        strchr(sw_last_error(), '\n') == NULL,
                    "%s: '%s', wanted %s with '%s'", sw_status_name(status), sw_last_error(),
                    sw_status_name(expected), part);
}
