/* gzip by zlib's inflate, through a window of fixed size. zlib checks the sums at the end of
 * each member; files of several members read as one. Its memory comes from our heap, so it is
 * counted and can be made to fail. */
#include "alloc/base/gzip.h"

#if SW_HAVE_ZLIB

#include "alloc/base/inflate.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include <limits.h>
#include <string.h>

struct sw_gzip {
    sw_file *file;
    z_stream stream;
    uint64_t consumed; /* compressed bytes that inflate has taken */
    bool at_end;       /* of the file */
    bool in_member;    /* the member that was begun has not ended */
    unsigned char window[32768];
};

/* zlib frees without saying how much: the size stands before each block. */
#define HEAD 16

static voidpf take(voidpf opaque, uInt items, uInt bytes)
{
    size_t total;
    void *block;
    (void)opaque;
    if (!sw_size_mul(items, bytes, &total) || !sw_size_add(total, HEAD, &total) ||
        sw_heap_alloc(&block, SW_HEAP_FILES, total) != SW_OK)
        return Z_NULL;
    memcpy(block, &total, sizeof total);
    return (unsigned char *)block + HEAD;
}

static void give(voidpf opaque, voidpf at)
{
    (void)opaque;
    if (at == Z_NULL)
        return;
    void *block = (unsigned char *)at - HEAD;
    size_t total;
    memcpy(&total, block, sizeof total);
    sw_heap_free(block, SW_HEAP_FILES, total);
}

sw_status sw_inflate_begin(z_stream *stream, int bits, const char *name)
{
    stream->zalloc = take;
    stream->zfree = give;
    if (inflateInit2(stream, bits) != Z_OK)
        SW_FAIL(SW_NOMEM, "%s: no memory to inflate it", name);
    return SW_OK;
}

sw_status sw_gzip_open(sw_gzip **out, sw_file *file)
{
    sw_gzip *gzip;
    SW_TRY(sw_heap_alloc(&gzip, SW_HEAP_FILES, sizeof(sw_gzip)));
    gzip->file = file;
    /* the largest window, gzip only */
    const sw_status status = sw_inflate_begin(&gzip->stream, 15 + 16, sw_file_path(file));
    if (status == SW_OK)
        *out = gzip;
    else
        sw_heap_free(gzip, SW_HEAP_FILES, sizeof *gzip);
    return status;
}

void sw_gzip_close(sw_gzip *gzip)
{
    if (gzip == NULL)
        return;
    (void)inflateEnd(&gzip->stream);
    sw_heap_free(gzip, SW_HEAP_FILES, sizeof *gzip);
}

sw_status sw_gzip_read(sw_gzip *gzip, void *to, size_t bytes, size_t *got)
{
    z_stream *z = &gzip->stream;
    size_t done = 0;
    while (done < bytes) {
        if (z->avail_in == 0 && !gzip->at_end) {
            size_t filled;
            SW_TRY(sw_file_read(gzip->file, gzip->window, sizeof gzip->window, &filled));
            z->next_in = gzip->window;
            z->avail_in = (uInt)filled;
            gzip->at_end = filled == 0;
        }
        if (gzip->at_end) {
            if (gzip->in_member)
                SW_FAIL(SW_FORMAT, "%s: the gzip data is cut after %llu bytes",
                        sw_file_path(gzip->file), (unsigned long long)gzip->consumed);
            break;
        }
        const size_t wanted = bytes - done;
        const uInt room = wanted < UINT_MAX ? (uInt)wanted : UINT_MAX;
        z->next_out = (unsigned char *)to + done;
        z->avail_out = room;
        /* One call of inflate over what the window holds. */
        const char *path = sw_file_path(gzip->file);
        if (!gzip->in_member) {
            (void)inflateReset(z);
            gzip->in_member = true;
        }
        const uInt before = z->avail_in;
        const int code = inflate(z, Z_NO_FLUSH);
        gzip->consumed += before - z->avail_in;
        if (code == Z_STREAM_END)
            gzip->in_member = false;
        else if (code == Z_MEM_ERROR)
            SW_FAIL(SW_NOMEM, "%s: no memory to inflate it", path);
        else if (code != Z_OK)
            SW_FAIL(SW_FORMAT, "%s: damaged gzip data near byte %llu: %s", path,
                    (unsigned long long)gzip->consumed,
                    z->msg != NULL ? z->msg : "no progress");

        done += room - z->avail_out;
    }
    *got = done;
    return SW_OK;
}

sw_status sw_gzip_rewind(sw_gzip *gzip)
{
    gzip->stream.avail_in = 0;
    gzip->consumed = 0;
    gzip->at_end = gzip->in_member = false;
    return SW_OK;
}

#else

sw_status sw_gzip_open(sw_gzip **out, sw_file *file)
{
    (void)out;
    SW_FAIL(SW_UNSUPPORTED, "%s: this build reads no gzip files (zlib is off)",
            sw_file_path(file));
}

void sw_gzip_close(sw_gzip *gzip)
{
    (void)gzip;
}

sw_status sw_gzip_read(sw_gzip *gzip, void *to, size_t bytes, size_t *got)
{
    (void)gzip;
    (void)to;
    (void)bytes;
    (void)got;
    SW_FAIL(SW_UNSUPPORTED, "this build reads no gzip files (zlib is off)");
}

sw_status sw_gzip_rewind(sw_gzip *gzip)
{
    (void)gzip;
    return SW_OK;
}

#endif

/* ---- crc32 ------------------------------------------------------------------------------- */

/* Eight bytes a round, each by a table of its own: the table of the byte that has k bytes
 * after it has k zeros in it. */

void sw_crc32_init(sw_crc32_table *t, uint32_t polynomial)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ ((c & 1) != 0 ? polynomial : 0);
        t->at[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            t->at[k][i] = t->at[k - 1][i] >> 8 ^ t->at[0][t->at[k - 1][i] & 255];
}

uint32_t sw_crc32(const sw_crc32_table *t, uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, b += 8) {
        crc ^=
            (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        crc = t->at[7][crc & 255] ^ t->at[6][crc >> 8 & 255] ^ t->at[5][crc >> 16 & 255] ^
              t->at[4][crc >> 24] ^ t->at[3][b[4]] ^ t->at[2][b[5]] ^ t->at[1][b[6]] ^
              t->at[0][b[7]];
    }
    for (; n > 0; n--, b++)
        crc = crc >> 8 ^ t->at[0][(crc ^ *b) & 255];
    return ~crc;
}
