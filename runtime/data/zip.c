/* The list at the end of a zip archive. Everything in it is held against the size of the file
 * before it is used. Archives of more than 4 GiB have a second record before the last
 * (zip64). */
#include "runtime/data/zip.h"
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
    void *block;
    SW_TRY(read_at(zip, zip->bytes - n, tail, n));
    SW_TRY(find_end(zip, tail, n, &list));
    if (list.bytes > MOST_LIST)
        return damaged(zip, "its list has more than 64 MiB");
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)list.bytes));
    zip->list = block;
    zip->list_bytes = (size_t)list.bytes;
    return read_at(zip, list.at, block, (size_t)list.bytes);
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
    if (status != SW_OK) {
        swi_zip_close(&made);
        return status;
    }
    *zip = made;
    return SW_OK;
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
    *out = (swi_zip_file){.name = (const char *)at + ENTRY,
                          .name_bytes = name,
                          .encrypted = (get16(at + 8) & 1) != 0,
                          .method = (int)get16(at + 10),
                          .crc = get32(at + 16),
                          .packed = get32(at + 20),
                          .bytes = get32(at + 24),
                          .header = get32(at + 42)};
    SW_TRY(read_extra(zip, at + ENTRY + name, extra, out));
    zip->at += ENTRY + name + extra + comment;
    return SW_OK;
}
