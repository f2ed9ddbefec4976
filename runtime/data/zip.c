/* The list at the end of a zip archive. Everything in it is held against the size of the file
 * before it is used. Archives of more than 4 GiB have a second record before the last
 * (zip64). */
#include "runtime/data/zip.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { END = 22, COMMENT = 65535, LOCATOR = 20, END64 = 56, ENTRY = 46 };
#define MOST_LIST ((uint64_t)1 << 26) /* bytes: some 700,000 files */

static uint32_t get16(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const unsigned char *at)
{
    return get16(at) | get16(at + 2) << 16;
}

static uint64_t get64(const unsigned char *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static sw_status damaged(const swi_zip *zip, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: the archive is damaged: %s", sw_file_path(zip->file), what);
}

static sw_status read_at(const swi_zip *zip, uint64_t at, void *to, size_t bytes)
{
    size_t got;
    if (at > zip->bytes || bytes > zip->bytes - at)
        return damaged(zip, "a place past its end");
    SW_TRY(sw_file_seek(zip->file, at));
    SW_TRY(sw_file_read(zip->file, to, bytes, &got));
    return got == bytes ? SW_OK : damaged(zip, "cut while it was read");
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Where the list is: of the last record, or of the one of 64 bits before it. */
typedef struct {
    uint64_t at, bytes;
} place;

static sw_status read_end64(const swi_zip *zip, uint64_t end_at, place *list)
{
    unsigned char locator[LOCATOR], end[END64];
    if (end_at < LOCATOR)
        return damaged(zip, "no record of 64 bits");
    SW_TRY(read_at(zip, end_at - LOCATOR, locator, sizeof locator));
    if (get32(locator) != 0x07064b50)
        return damaged(zip, "no record of 64 bits");
    SW_TRY(read_at(zip, get64(locator + 8), end, sizeof end));
    if (get32(end) != 0x06064b50)
        return damaged(zip, "no record of 64 bits");
    *list = (place){get64(end + 48), get64(end + 40)};
    return SW_OK;
}

/* From the last record with a comment that ends with the file. */
static sw_status find_end(const swi_zip *zip, const unsigned char *tail, size_t n, place *list)
{
    for (size_t i = n >= END ? n - END + 1 : 0; i-- > 0;) {
        const unsigned char *at = tail + i;
        if (get32(at) != 0x06054b50 || get16(at + 20) != n - i - END)
            continue;
        *list = (place){get32(at + 16), get32(at + 12)};
        const uint64_t end_at = zip->bytes - n + i;
        if (get16(at + 10) == 0xffff || list->at == 0xffffffff || list->bytes == 0xffffffff)
            SW_TRY(read_end64(zip, end_at, list));
        if (list->at > end_at || list->bytes > end_at - list->at)
            return damaged(zip, "its list is not before its end");
        return SW_OK;
    }
    return damaged(zip, "no list at its end: it is cut, or no archive");
}

static sw_status read_list(swi_zip *zip, unsigned char *tail)
{
    const size_t n = zip->bytes < END + COMMENT ? (size_t)zip->bytes : END + COMMENT;
    place list = {0, 0};
    SW_TRY(read_at(zip, zip->bytes - n, tail, n));
    SW_TRY(find_end(zip, tail, n, &list));
    if (list.bytes > MOST_LIST)
        return damaged(zip, "its list has more than 64 MiB");
    SW_TRY(sw_heap_alloc(&zip->list, SW_HEAP_FILES, (size_t)list.bytes));
    zip->list_bytes = (size_t)list.bytes;
    return read_at(zip, list.at, zip->list, (size_t)list.bytes);
}

sw_status swi_zip_open(swi_zip *zip, const char *path)
{
    swi_zip made = {.at = 0};
    SW_TRY(sw_file_open(&made.file, path, SW_FILE_READ));
    sw_status status = SW_OK;
    if (sw_file_waits(made.file))
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: data must be a regular file, which is read twice (this is a "
                              "pipe or terminal)",
                              path);
    if (status == SW_OK)
        status = sw_file_size(made.file, &made.bytes);
    if (status == SW_OK)
        *zip = made;
    else
        swi_zip_close(&made);
    return status;
}

sw_status swi_zip_list(swi_zip *zip)
{
    void *tail;
    SW_TRY(sw_heap_alloc(&tail, SW_HEAP_FILES, END + COMMENT));
    const sw_status status = read_list(zip, tail);
    sw_heap_free(tail, SW_HEAP_FILES, END + COMMENT);
    return status;
}

void swi_zip_close(swi_zip *zip)
{
    sw_heap_free(zip->list, SW_HEAP_FILES, zip->list_bytes);
    sw_file_drop(zip->file); /* nothing was written: closing has nothing to say */
    *zip = (swi_zip){.at = 0};
}

/* ---- entries ----------------------------------------------------------------------------- */

/* Sizes and places of 64 bits stand in an extra field, those alone that did not fit. */
static sw_status read_extra(const swi_zip *zip, const unsigned char *at, size_t n,
                            swi_zip_file *f)
{
    uint64_t *wide[] = {&f->bytes, &f->packed, &f->header};
    size_t next = 0, missing = 0;
    for (size_t i = 0; i < 3; i++)
        missing += *wide[i] == 0xffffffff;
    while (n >= 4 && missing > 0) {
        const size_t id = get16(at), bytes = get16(at + 2);
        if (bytes > n - 4)
            return damaged(zip, "an extra field after its entry");
        if (id == 1) {
            const unsigned char *from = at + 4;
            if (bytes < 8 * missing)
                return damaged(zip, "an entry without its sizes of 64 bits");
            for (; next < 3; next++)
                if (*wide[next] == 0xffffffff) {
                    *wide[next] = get64(from);
                    from += 8;
                }
            return SW_OK;
        }
        at += 4 + bytes;
        n -= 4 + bytes;
    }
    return missing == 0 ? SW_OK : damaged(zip, "an entry without its sizes of 64 bits");
}

sw_status swi_zip_next(swi_zip *zip, swi_zip_file *out, bool *more)
{
    const unsigned char *at = zip->list + zip->at;
    const size_t left = zip->list_bytes - zip->at;
    *more = left > 0;
    if (left == 0)
        return SW_OK;
    if (left < ENTRY || get32(at) != 0x02014b50)
        return damaged(zip, "an entry of its list is none");
    const size_t name = get16(at + 28), extra = get16(at + 30), comment = get16(at + 32);
    if (name + extra + comment > left - ENTRY)
        return damaged(zip, "an entry past the end of its list");
    *out = (swi_zip_file)SW_INIT(.name = (const char *)at + ENTRY, .name_bytes = name,
                                 .encrypted = (get16(at + 8) & 1) != 0,
                                 .method = (int)get16(at + 10), .crc = get32(at + 16),
                                 .packed = get32(at + 20), .bytes = get32(at + 24),
                                 .header = get32(at + 42));
    SW_TRY(read_extra(zip, at + ENTRY + name, extra, out));
    zip->at += ENTRY + name + extra + comment;
    return SW_OK;
}

/* One file of a zip archive: stored, or deflated and unpacked by zlib through a window. */

#if SW_HAVE_ZLIB
#include "alloc/base/inflate.h"
#endif

enum { LOCAL = 30, STORED = 0, DEFLATED = 8 };

struct swi_zip_member {
    sw_file *file;
    char *name;
    size_t name_room;
    swi_zip_file entry;
    uint64_t begin;    /* of its bytes in the archive */
    uint64_t consumed; /* of them */
    uint64_t given;
    uint32_t crc; /* of what was given */
#if SW_HAVE_ZLIB
    z_stream stream;
    bool inflating; /* the stream was made */
    bool ended;     /* it said so */
    unsigned char window[32768];
#endif
};

/* ---- checksums --------------------------------------------------------------------------- */

/* CRC-32 by half bytes: without zlib too. */
static uint32_t crc_of(uint32_t crc, const unsigned char *at, size_t n)
{
    static const uint32_t half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                      0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc = crc >> 4 ^ half[(crc ^ at[i]) & 15];
        crc = crc >> 4 ^ half[(crc ^ at[i] >> 4) & 15];
    }
    return ~crc;
}

static sw_status damaged_member(const swi_zip_member *m, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: %s", m->name, what);
}

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status read_stored(swi_zip_member *m, void *to, size_t bytes)
{
    size_t got;
    SW_TRY(sw_file_read(m->file, to, bytes, &got));
    if (got < bytes)
        return damaged_member(m, "cut while it was read");
    m->consumed += bytes;
    return SW_OK;
}

#if SW_HAVE_ZLIB
/* Up to `bytes`; at the end of its bytes the stream must end as well. */
static sw_status read_deflated(swi_zip_member *m, unsigned char *to, size_t bytes)
{
    z_stream *z = &m->stream;
    unsigned char none[1];
    const bool last = m->given + bytes == m->entry.bytes;
    z->next_out = bytes > 0 ? to : none;
    while (bytes > 0 || (last && !m->ended)) {
        const uInt room = bytes == 0 ? 1 : bytes < UINT_MAX ? (uInt)bytes : UINT_MAX;
        if (bytes == 0)
            z->next_out = none;
        z->avail_out = room;
        if (m->ended)
            return damaged_member(m, "the deflated data are less than its list says");
        if (z->avail_in == 0) {
            const uint64_t left = m->entry.packed - m->consumed;
            const size_t n = left < sizeof m->window ? (size_t)left : sizeof m->window;
            if (n == 0)
                return damaged_member(m, "the deflated data are cut");
            SW_TRY(read_stored(m, m->window, n));
            z->next_in = m->window;
            z->avail_in = (uInt)n;
        }
        const int code = inflate(z, Z_NO_FLUSH);
        if (code == Z_MEM_ERROR)
            SW_FAIL(SW_NOMEM, "%s: no memory to inflate it", m->name);
        if (code != Z_OK && code != Z_STREAM_END)
            SW_FAIL(SW_FORMAT, "%s: damaged deflated data: %s", m->name,
                    z->msg != NULL ? z->msg : "no progress");
        m->ended = code == Z_STREAM_END;
        if (bytes == 0 && z->avail_out < room)
            return damaged_member(m, "the deflated data are more than its list says");
        bytes -= bytes > 0 ? room - z->avail_out : 0;
    }
    if (last && (z->avail_in > 0 || m->consumed < m->entry.packed))
        return damaged_member(m, "bytes after the deflated data");
    return SW_OK;
}
#endif

sw_status swi_zip_member_read(swi_zip_member *m, void *to, size_t bytes, size_t *got)
{
    const uint64_t left = m->entry.bytes - m->given;
    const size_t n = left < bytes ? (size_t)left : bytes;
    if (m->entry.method == STORED)
        SW_TRY(read_stored(m, to, n));
#if SW_HAVE_ZLIB
    else
        SW_TRY(read_deflated(m, to, n));
#endif
    m->crc = crc_of(m->crc, to, n);
    m->given += n;
    if (m->given >= m->entry.bytes && m->consumed >= m->entry.packed && m->crc != m->entry.crc)
        return damaged_member(m, "damaged: its checksum is not that of the list");
    *got = n;
    return SW_OK;
}

sw_status swi_zip_member_rewind(swi_zip_member *m)
{
    m->consumed = m->given = 0;
    m->crc = 0;
#if SW_HAVE_ZLIB
    if (m->inflating) {
        (void)inflateReset(&m->stream);
        m->stream.avail_in = 0;
        m->ended = false;
    }
#endif
    return sw_file_seek(m->file, m->begin);
}

/* ---- opening ----------------------------------------------------------------------------- */

static sw_status check_entry(const swi_zip_member *m, uint64_t archive, size_t unpack_bytes)
{
    const swi_zip_file *f = &m->entry;
    const uint64_t limit = unpack_bytes > 0 ? unpack_bytes : SWI_UNPACK_BYTES;
    if (f->encrypted)
        return damaged_member(m, "is encrypted");
    if (f->method != STORED && f->method != DEFLATED)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: is compressed by method %d; stored and deflated files are read "
                "(numpy.savez and numpy.savez_compressed)",
                m->name, f->method);
    if (f->method == DEFLATED && !SW_HAVE_ZLIB)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: is deflated, and this build reads no such files (zlib is off): save it "
                "with numpy.savez",
                m->name);
    if (f->header > archive || LOCAL > archive - f->header || f->packed > archive ||
        (f->method == STORED && f->packed != f->bytes))
        return damaged_member(m, "the archive is damaged: its list has sizes that cannot be");
    if (f->method == DEFLATED && f->bytes > limit)
        SW_FAIL(SW_NOMEM,
                "%s: unpacks to %llu bytes; the limit is %llu (raise it with --data-limit "
                "SIZE, in a program with unpack_bytes)",
                m->name, (unsigned long long)f->bytes, (unsigned long long)limit);
    return SW_OK;
}

/* Its own header stands before its bytes, with a name and an extra field of its own. */
static sw_status find_bytes(swi_zip_member *m, uint64_t archive)
{
    unsigned char head[LOCAL];
    size_t got;
    SW_TRY(sw_file_seek(m->file, m->entry.header));
    SW_TRY(sw_file_read(m->file, head, sizeof head, &got));
    if (got < sizeof head || memcmp(head, "PK\x03\x04", 4) != 0)
        return damaged_member(m, "the archive is damaged: no file where its list says");
    m->begin = m->entry.header + LOCAL + (head[26] | (uint64_t)head[27] << 8) +
               (head[28] | (uint64_t)head[29] << 8);
    if (m->begin > archive || m->entry.packed > archive - m->begin)
        return damaged_member(m, "the archive is damaged: it ends past its end");
#if SW_HAVE_ZLIB
    if (m->entry.method == DEFLATED) {
        SW_TRY(sw_inflate_begin(&m->stream, -15, m->name));
        m->inflating = true;
    }
#endif
    return sw_file_seek(m->file, m->begin);
}

sw_status swi_zip_member_open(swi_zip_member **out, const swi_zip *zip,
                              const swi_zip_file *file, size_t unpack_bytes)
{
    swi_zip_member *m;
    SW_TRY(sw_heap_alloc(&m, SW_HEAP_FILES, sizeof(swi_zip_member)));
    m->entry = *file;
    const char *path = sw_file_path(zip->file);
    m->name_room = strlen(path) + m->entry.name_bytes + 3;
    sw_status status = sw_heap_alloc(&m->name, SW_HEAP_FILES, m->name_room);
    if (status == SW_OK) {
        snprintf(m->name, m->name_room, "%s: %.*s", path, (int)m->entry.name_bytes,
                 m->entry.name);
        status = check_entry(m, zip->bytes, unpack_bytes);
    }
    if (status == SW_OK)
        status = sw_file_open(&m->file, path, SW_FILE_READ);
    if (status == SW_OK)
        status = find_bytes(m, zip->bytes);
    return SW_GIVE(status, out, m, swi_zip_member_close);
}

void swi_zip_member_close(swi_zip_member *m)
{
    if (m == NULL)
        return;
#if SW_HAVE_ZLIB
    if (m->inflating)
        (void)inflateEnd(&m->stream);
#endif
    sw_file_drop(m->file); /* nothing was written: closing has nothing to say */
    sw_heap_free(m->name, SW_HEAP_FILES, m->name_room);
    sw_heap_free(m, SW_HEAP_FILES, sizeof *m);
}

const char *swi_zip_member_name(const swi_zip_member *m)
{
    return m->name;
}
