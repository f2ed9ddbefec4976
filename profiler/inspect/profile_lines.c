/* Lines of a file. */
#include "alloc/base/assert.h"
#include "profiler/inspect/profile_lines.h"
#include "alloc/base/mem.h"
#include <string.h>

#define FIRST_BYTES ((size_t)256 << 10)
#define LONGEST_BYTES ((size_t)32 << 20) /* a plan of a hundred thousand values is shorter */

static sw_status open_tree(profile_lines *l, const char *path)
{
    SW_TRY(sw_heap_alloc(&l->tree, SW_HEAP_FILES, sizeof *l->tree));
    return value_tree_open_for(l->tree, path, PROFILE_RECORD_BYTES);
}

sw_status profile_lines_open(profile_lines *l, const char *path)
{
    memset(l, 0, sizeof *l);
    SW_TRY(sw_heap_alloc(&l->buffer, SW_HEAP_FILES, FIRST_BYTES));
    l->capacity = FIRST_BYTES;
    sw_status status = open_tree(l, path);
    if (status == SW_OK)
        status = sw_file_open(&l->file, path, SW_FILE_READ);
    if (status == SW_OK) {
        status = sw_file_seek(l->file, 0);
        if (status != SW_OK)
            status = sw_error_set(status, __FILE__, __LINE__,
                                  "%s; a report reads the file twice, so it can be no pipe",
                                  sw_last_error());
    }
    if (status != SW_OK)
        profile_lines_close(l);
    return status;
}

void profile_lines_close(profile_lines *l)
{
    sw_file_drop(l->file);
    sw_heap_free(l->buffer, SW_HEAP_FILES, l->capacity);
    if (l->tree != NULL)
        value_tree_close(l->tree);
    sw_heap_free(l->tree, SW_HEAP_FILES, sizeof *l->tree);
    json_buffer_free(&l->json);
    memset(l, 0, sizeof *l);
}

sw_status profile_lines_seek(profile_lines *l, uint64_t at, uint64_t line)
{
    const uint64_t first = l->next - l->begin; /* of the buffer, in the file */
    if (at >= first && at <= first + l->end) {
        l->begin = (size_t)(at - first);
    } else {
        SW_TRY(sw_file_seek(l->file, at));
        l->begin = l->end = 0;
    }
    l->at_end = false; /* there may be more by now */
    l->next = at;
    l->line = line - 1;
    return SW_OK;
}

sw_status profile_lines_head(profile_lines *l, char *to, size_t bytes, size_t *n)
{
    const uint64_t here = l->next - l->begin + l->end;
    SW_TRY(sw_file_seek(l->file, 0));
    SW_TRY(sw_file_read(l->file, to, bytes, n));
    return sw_file_seek(l->file, here);
}

/* More bytes after the unfinished line. */
static sw_status fill(profile_lines *l)
{
    SW_ASSERT(l->begin <= l->end && l->end <= l->capacity);
    if (l->begin > 0) {
        memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (l->end == l->capacity) {
        if (l->capacity >= LONGEST_BYTES)
            SW_FAIL(SW_FORMAT, "%s: line %llu is longer than %zu bytes", sw_file_path(l->file),
                    (unsigned long long)l->line + 1, LONGEST_BYTES);
        SW_TRY(sw_heap_resize(&l->buffer, SW_HEAP_FILES, l->capacity, l->capacity * 2));
        l->capacity *= 2;
    }
    size_t got;
    const size_t wanted = l->capacity - l->end;
    SW_TRY(sw_file_read(l->file, l->buffer + l->end, wanted, &got));
    l->end += got;
    l->at_end = got < wanted;
    return SW_OK;
}

sw_status profile_lines_next(profile_lines *l, profile_line *line)
{
    size_t searched = 0;
    for (;;) {
        const size_t have = l->end - l->begin;
        const char *from = l->buffer + l->begin;
        const char *newline =
            have > searched ? memchr(from + searched, '\n', have - searched) : NULL;
        if (newline == NULL && !l->at_end) {
            searched = have;
            SW_TRY(fill(l));
            continue;
        }
        line->whole = newline != NULL;
        line->n = line->whole ? (size_t)(newline - from) : have;
        line->text = line->whole || have > 0 ? from : NULL;
        if (line->text != NULL) {
            const size_t taken = line->n + line->whole;
            SW_ASSERT(taken > 0 && taken <= l->end - l->begin);
            l->begin += taken;
            l->line++;
            l->at = l->next;
            l->next += taken;
        }
        return SW_OK;
    }
}

sw_status profile_lines_parse(profile_lines *l, const char *text, size_t n, value *out)
{
    sw_json_in in = sw_json_in_text(text, n, l->tree->path);
    value record;
    in.line = l->tree->line = l->line;
    in.strict = true;
    *out = 0;
    value_tree_reset(l->tree);
    const sw_status status = json_tree_build(l->tree, &l->json, &in, &record);
    if (status != SW_OK)
        return status == SW_FORMAT && !l->tree->full ? SW_OK : status;
    if (value_is_dict(record))
        *out = record;
    else
        sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: line %llu: not a record",
                     l->tree->path, (unsigned long long)l->line);
    return SW_OK;
}
