/* Counted bytes of a file. */
#include "profiler/inspect/byte_reader.h"
#include "alloc/base/mem.h"
#include <string.h>

#define DEFLATE_MOST 1032 /* bytes of one */
#define INFLATED_MOST (UINT64_C(1) << 36)

static sw_status fill(byte_reader *r)
{
    size_t got;
    SW_TRY(r->gzip != NULL ? sw_gzip_read(r->gzip, r->buffer, sizeof r->buffer, &got)
                           : sw_file_read(r->file, r->buffer, sizeof r->buffer, &got));
    r->begin = 0;
    r->end = got;
    return SW_OK;
}

static sw_status begin(byte_reader *r)
{
    SW_TRY(fill(r));
    if (r->end < 2 || r->buffer[0] != 0x1f || r->buffer[1] != 0x8b)
        return SW_OK;
    SW_TRY(sw_file_seek(r->file, 0));
    SW_TRY(sw_gzip_open(&r->gzip, r->file));
    return fill(r);
}

sw_status byte_reader_open(byte_reader *r, const char *path)
{
    r->path = path;
    r->at = 0;
    r->begin = r->end = 0;
    r->text = NULL;
    r->text_capacity = 0;
    r->gzip = NULL;
    SW_TRY(sw_file_open(&r->file, path, SW_FILE_READ));
    const sw_status status = begin(r);
    if (status != SW_OK)
        byte_reader_close(r);
    return status;
}

sw_status byte_reader_bytes(byte_reader *r, uint64_t *out)
{
    SW_TRY(sw_file_size(r->file, out));
    if (r->gzip != NULL)
        *out = *out < INFLATED_MOST / DEFLATE_MOST ? *out * DEFLATE_MOST : INFLATED_MOST;
    return SW_OK;
}

void byte_reader_close(byte_reader *r)
{
    sw_gzip_close(r->gzip);
    sw_file_drop(r->file);
    sw_heap_free(r->text, SW_HEAP_FILES, r->text_capacity);
    r->file = NULL;
    r->gzip = NULL;
    r->text = NULL;
}

sw_status byte_reader_peek(byte_reader *r, int *out)
{
    if (r->begin == r->end)
        SW_TRY(fill(r));
    *out = r->begin < r->end ? r->buffer[r->begin] : -1;
    return SW_OK;
}

sw_status byte_reader_next(byte_reader *r, int *out)
{
    SW_TRY(byte_reader_peek(r, out));
    if (*out >= 0) {
        r->begin++;
        r->at++;
    }
    return SW_OK;
}

static sw_status reserve(byte_reader *r, size_t wanted)
{
    if (wanted <= r->text_capacity)
        return SW_OK;
    const size_t capacity = wanted > 2 * r->text_capacity ? wanted : 2 * r->text_capacity;
    SW_TRY(sw_heap_resize(&r->text, SW_HEAP_FILES, r->text_capacity, capacity));
    r->text_capacity = capacity;
    return SW_OK;
}

sw_status byte_reader_take(byte_reader *r, uint64_t n)
{
    const uint64_t from = r->at;
    SW_TRY(reserve(r, 1));
    for (size_t have = 0; have < n;) {
        int next;
        SW_TRY(byte_reader_peek(r, &next));
        if (next < 0)
            SW_FAIL(SW_FORMAT,
                    "%s: byte %llu: the file ends too early: it must have %llu bytes from byte "
                    "%llu on",
                    r->path, (unsigned long long)r->at, (unsigned long long)n,
                    (unsigned long long)from);
        const size_t there = r->end - r->begin;
        const size_t part = n - have < there ? (size_t)(n - have) : there;
        SW_TRY(reserve(r, have + part));
        memcpy(r->text + have, r->buffer + r->begin, part);
        r->begin += part;
        r->at += part;
        have += part;
    }
    return SW_OK;
}

sw_status byte_reader_number(byte_reader *r, size_t n, uint64_t *out)
{
    uint64_t x = 0;
    SW_TRY(byte_reader_take(r, n));
    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)(unsigned char)r->text[i] << 8 * i;
    *out = x;
    return SW_OK;
}
