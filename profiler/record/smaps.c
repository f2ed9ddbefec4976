/* The text has one line per mapping that begins with its addresses, and below it one line for
 * each figure. All mappings have the same figures, so a text that was cut shows. */
#include "profiler/record/smaps.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES                                                                             \
    ((size_t)20 << 10) /* a path may have 4096 bytes, of four characters each                  \
                        */
#define READ_BYTES ((size_t)8 << 10)
#define FIELD 32

typedef struct {
    void (*take)(void *context, const sw_mapping *mapping);
    void *context;
    const char *file;
    unsigned long long line;
    bool open, has_rss; /* a mapping was begun; its Rss was read */
    sw_mapping now;
    uintptr_t before;                 /* end of the mapping before */
    char field[FIELD], ending[FIELD]; /* the latest figure's name; the last one of a mapping */
    size_t used;                      /* of line */
    char path[LINE_BYTES], text[LINE_BYTES];
} reader;

static sw_status damaged(const reader *r, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", r->file, r->line, what);
}

/* Once the next one begins, or the text ends. */
static sw_status finish_mapping(reader *r)
{
    if (!r->open)
        return SW_OK;
    if (!r->has_rss)
        return damaged(r, "a mapping without 'Rss'");
    if (r->ending[0] == '\0')
        memcpy(r->ending, r->field, FIELD);
    if (strcmp(r->ending, r->field) != 0)
        return damaged(r, "a mapping is cut");
    if (r->now.resident_bytes > r->now.end - r->now.start ||
        r->now.huge_bytes > r->now.resident_bytes)
        return damaged(r, "a mapping has more memory than addresses");
    r->before = r->now.end;
    r->take(r->context, &r->now);
    return SW_OK;
}

/* Pass over one word and the blanks after it; "" at the end. */
static char *next_word(char *p)
{
    p += strcspn(p, " ");
    return p + strspn(p, " ");
}

/* "55d0-55d8 r--p 00000000 fe:00 247134      /usr/bin/cat" */
static sw_status begin_mapping(reader *r)
{
    static const char gone[] = " (deleted)";
    char *end;
    sw_mapping *m = &r->now;
    *m = (sw_mapping){0};
    m->start = strtoull(r->text, &end, 16);
    if (*end != '-')
        return damaged(r, "a mapping must begin with its addresses and access");
    m->end = strtoull(end + 1, &end, 16);
    if (*end != ' ' || m->end <= m->start || m->start < r->before)
        return damaged(r, "a mapping must end above its start");
    const char *access = ++end;
    m->accessible = access[0] == 'r' || access[0] == 'w' || access[0] == 'x' ||
                    (access[0] == '-' && (access[1] == 'w' || access[2] == 'x'));
    for (int i = 0; i < 4; i++) { /* access, offset, device, inode */
        if (*end == '\0')
            return damaged(r, "a mapping is cut");
        end = next_word(end);
    }
    size_t n = strlen(end);
    if (n > sizeof gone - 1 && strcmp(end + n - (sizeof gone - 1), gone) == 0)
        n -= sizeof gone - 1;
    memcpy(r->path, end, n);
    r->path[n] = '\0';
    m->path = r->path;
    r->open = true;
    r->has_rss = false;
    r->field[0] = '\0';
    return SW_OK;
}

static sw_status read_kilobytes(const reader *r, const char *at, size_t *bytes)
{
    char *end;
    at += strspn(at, " ");
    const unsigned long long n = strtoull(at, &end, 10);
    if (*at < '0' || *at > '9' || strcmp(end, " kB") != 0 || n > SIZE_MAX / 1024)
        return damaged(r, "a figure must be a number of kB");
    *bytes = (size_t)n * 1024;
    return SW_OK;
}

/* "Rss:                 640 kB" */
static sw_status take_field(reader *r)
{
    const size_t n = strcspn(r->text, ":");
    if (r->text[n] != ':' || n == 0 || n >= FIELD)
        return damaged(r, "neither a mapping nor a figure");
    if (!r->open)
        return damaged(r, "a figure before the first mapping");
    memcpy(r->field, r->text, n);
    r->field[n] = '\0';
    if (strcmp(r->field, "Rss") == 0) {
        r->has_rss = true;
        return read_kilobytes(r, r->text + n + 1, &r->now.resident_bytes);
    }
    if (strcmp(r->field, "AnonHugePages") == 0)
        return read_kilobytes(r, r->text + n + 1, &r->now.huge_bytes);
    return SW_OK;
}

static sw_status take_line(reader *r)
{
    const char c = r->text[0];
    r->text[r->used] = '\0';
    r->used = 0;
    r->line++;
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
        return take_field(r);
    r->line--; /* what is wrong with the mapping before stands there */
    SW_TRY(finish_mapping(r));
    r->line++;
    return begin_mapping(r);
}

static sw_status take_bytes(reader *r, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            SW_TRY(take_line(r));
            continue;
        }
        if (r->used == LINE_BYTES - 1 || bytes[i] == '\0') {
            r->line++;
            return damaged(r, "a line must be text: this one is too long or has a zero byte");
        }
        r->text[r->used++] = bytes[i];
    }
    return SW_OK;
}

static sw_status read_all(reader *r, sw_file *file, char *buffer)
{
    for (size_t n = 1; n > 0;) {
        SW_TRY(sw_file_read(file, buffer, READ_BYTES, &n));
        SW_TRY(take_bytes(r, buffer, n));
    }
    if (r->used > 0) {
        r->line++;
        return damaged(r, "the line is cut");
    }
    if (!r->open) {
        r->line = 1;
        return damaged(r, "there is no mapping");
    }
    return finish_mapping(r);
}

sw_status sw_smaps_read(const char *path,
                        void (*take)(void *context, const sw_mapping *mapping), void *context)
{
    reader *r;
    sw_file *file;
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_FILES, sizeof(reader) + READ_BYTES));
    r->take = take;
    r->context = context;
    r->file = path;
    sw_status status = sw_file_open(&file, path, SW_FILE_READ);
    if (status == SW_OK) {
        status = read_all(r, file, (char *)r + sizeof *r);
        sw_file_drop(file);
    }
    sw_heap_free(r, SW_HEAP_FILES, sizeof(reader) + READ_BYTES);
    return status;
}
