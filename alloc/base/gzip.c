/* gzip by zlib's inflate, through a window of fixed size. zlib checks the sums at the end of
 * each member; files of several members read as one. Its memory comes from our heap, so it is
 * counted and can be made to fail. */
#include "alloc/base/gzip.h"

#if SW_HAVE_ZLIB

#include "alloc/base/inflate.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include <limits.h>
#include <stdbool.h>
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
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(sw_gzip)));
    sw_gzip *gzip = block;
    gzip->file = file;
    /* the largest window, gzip only */
    const sw_status status = sw_inflate_begin(&gzip->stream, 15 + 16, sw_file_path(file));
    if (status != SW_OK) {
        sw_heap_free(gzip, SW_HEAP_FILES, sizeof *gzip);
        return status;
    }
    *out = gzip;
    return SW_OK;
}

void sw_gzip_close(sw_gzip *gzip)
{
    if (gzip == NULL)
        return;
    (void)inflateEnd(&gzip->stream);
    sw_heap_free(gzip, SW_HEAP_FILES, sizeof *gzip);
}

/* Fill the empty window. */
static sw_status refill(sw_gzip *gzip)
{
    size_t got;
    SW_TRY(sw_file_read(gzip->file, gzip->window, sizeof gzip->window, &got));
    gzip->stream.next_in = gzip->window;
    gzip->stream.avail_in = (uInt)got;
    gzip->at_end = got == 0;
    return SW_OK;
}

/* One call of inflate over what the window holds. */
static sw_status step(sw_gzip *gzip)
{
    z_stream *z = &gzip->stream;
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
                (unsigned long long)gzip->consumed, z->msg != NULL ? z->msg : "no progress");
    return SW_OK;
}

sw_status sw_gzip_read(sw_gzip *gzip, void *to, size_t bytes, size_t *got)
{
    z_stream *z = &gzip->stream;
    size_t done = 0;
    while (done < bytes) {
        if (z->avail_in == 0 && !gzip->at_end)
            SW_TRY(refill(gzip));
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
        SW_TRY(step(gzip));
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
