/* Byte sources: a plain file, or one that is inflated on the way. */
#include "alloc/base/gzip.h"
#include "alloc/base/message.h"
#include "runtime/data/data_internal.h"
#include <stdio.h>
#include <string.h>

struct swi_source {
    sw_file *file;
    sw_gzip *gzip;                   /* NULL: plain */
    uint64_t at;                     /* of a plain file */
    uint64_t unpack_bytes, unpacked; /* of a compressed one: at most, since the beginning */
};

/* The system's reason, after the path, in a buffer of REASON_BYTES. */
#define REASON_BYTES 128
static void keep_reason(char *to)
{
    const char *error = sw_last_error(), *reason = error;
    for (const char *at = strstr(error, ": "); at != NULL; at = strstr(reason, ": "))
        reason = at + 2;
    snprintf(to, REASON_BYTES, "%s", reason);
}

/* PATH.gz after PATH was refused; `first` says why. Both reasons go into one message: which of
 * the two files was meant is not known here. */
static sw_status open_compressed(swi_source *source, const char *path, const char *first)
{
    const size_t length = strlen(path) + 4;
    void *name;
    SW_TRY(sw_heap_alloc(&name, SW_HEAP_FILES, length));
    snprintf(name, length, "%s.gz", path);
    sw_status status = sw_file_open(&source->file, name, SW_FILE_READ);
    sw_heap_free(name, SW_HEAP_FILES, length);
    if (status == SW_IO) {
        char second[REASON_BYTES];
        keep_reason(second);
        if (strcmp(first, second) == 0)
            SW_FAIL(SW_IO, "%s[.gz]: %s", path, first);
        SW_FAIL(SW_IO, "%s[.gz]: %s; %s", path, first, second);
    }
    SW_TRY(status);
    status = sw_gzip_open(&source->gzip, source->file);
    if (status != SW_OK)
        sw_file_drop(source->file);
    return status;
}

sw_status swi_source_open(swi_source **out, const char *path, size_t unpack_bytes)
{
    const size_t length = strlen(path);
    const bool compressed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    swi_source *source;
    SW_TRY(sw_heap_alloc(&source, SW_HEAP_FILES, sizeof(swi_source)));
    sw_status status = sw_file_open(&source->file, path, SW_FILE_READ);
    if (status == SW_OK && compressed) {
        status = sw_gzip_open(&source->gzip, source->file);
        if (status != SW_OK)
            sw_file_drop(source->file);
    } else if (status == SW_IO && !compressed) {
        char reason[REASON_BYTES];
        keep_reason(reason);
        status = open_compressed(source, path, reason);
    }
    source->unpack_bytes = unpack_bytes > 0 ? unpack_bytes : SWI_UNPACK_BYTES;
    if (status == SW_OK && sw_file_waits(source->file)) {
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: data must be a regular file, which is read twice (this is a "
                              "pipe or terminal)",
                              sw_file_path(source->file));
        swi_source_close(source);
    } else if (status == SW_OK)
        *out = source;
    else
        sw_heap_free(source, SW_HEAP_FILES, sizeof *source);
    return status;
}

void swi_source_close(swi_source *source)
{
    if (source == NULL)
        return;
    sw_gzip_close(source->gzip);
    sw_file_drop(source->file); /* nothing was written: closing has nothing to say */
    sw_heap_free(source, SW_HEAP_FILES, sizeof *source);
}

const char *swi_source_path(const swi_source *source)
{
    return sw_file_path(source->file);
}

bool swi_source_is_compressed(const swi_source *source)
{
    return source->gzip != NULL;
}

static sw_status over_limit(const swi_source *source, const char *more, uint64_t bytes)
{
    char has[32], may[32];
    SW_FAIL(SW_NOMEM,
            "%s: unpacks to %s%s bytes; the limit is %s (raise it with --data-limit SIZE, in a "
            "program with unpack_bytes)",
            swi_source_path(source), more, sw_digits(has, bytes),
            sw_digits(may, source->unpack_bytes));
}

sw_status swi_source_expect(const swi_source *source, uint64_t bytes)
{
    if (source->gzip == NULL || bytes <= source->unpack_bytes)
        return SW_OK;
    return over_limit(source, "", bytes);
}

static sw_status read_compressed(swi_source *source, void *to, size_t bytes, size_t *got)
{
    SW_TRY(sw_gzip_read(source->gzip, to, bytes, got));
    source->unpacked += *got;
    if (source->unpacked > source->unpack_bytes)
        return over_limit(source, "more than ", source->unpack_bytes);
    return SW_OK;
}

sw_status swi_source_read(swi_source *source, void *to, size_t bytes, size_t *got)
{
    if (source->gzip != NULL)
        return read_compressed(source, to, bytes, got);
    SW_TRY(sw_file_read(source->file, to, bytes, got));
    source->at += *got;
    return SW_OK;
}

sw_status swi_source_changed(const char *path)
{
    SW_FAIL(SW_FORMAT, "%s: changed while it was read", path);
}

sw_status swi_source_exactly(swi_source *source, void *to, size_t bytes)
{
    size_t got;
    SW_TRY(swi_source_read(source, to, bytes, &got));
    return got == bytes ? SW_OK : swi_source_changed(swi_source_path(source));
}

sw_status swi_source_count(swi_source *source, uint64_t limit, uint64_t *left)
{
    if (source->gzip == NULL) {
        uint64_t size;
        SW_TRY(sw_file_size(source->file, &size));
        *left = size > source->at ? size - source->at : 0;
        return SW_OK;
    }
    unsigned char passed[4096];
    uint64_t count = 0;
    size_t got = sizeof passed;
    while (got == sizeof passed && count <= limit) {
        SW_TRY(read_compressed(source, passed, sizeof passed, &got));
        count += got;
    }
    *left = count;
    return SW_OK;
}

sw_status swi_source_rewind(swi_source *source)
{
    SW_TRY(sw_file_seek(source->file, 0));
    source->at = source->unpacked = 0;
    return source->gzip != NULL ? sw_gzip_rewind(source->gzip) : SW_OK;
}
