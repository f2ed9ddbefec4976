/* CIFAR-10's binary batches: records of one label byte and 3 x 32 x 32 pixels, red, green and
 * blue one after the other. There is no header: the length must be that of whole records. */
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include "runtime/base/structs.h"
#include <stdio.h>
#include <string.h>

#define SIDE 32
#define PIXELS (3 * SIDE * SIDE)
#define RECORD (1 + PIXELS)
#define CLASSES 10
#define AT_ONCE 16 /* records read in one go */
#define MAX_BATCHES 5
#define META_BYTES 4096

/* The official batches, then those of small selections; whichever is there. */
typedef struct {
    const char *part;
    int n;
    const char *name[MAX_BATCHES];
} batch_set;
static const batch_set sets[] = {
    {"train",
     5,
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
      "data_batch_5.bin"}},
    {"train", 1, {"data_batch_mini.bin"}},
    {"test", 1, {"test_batch.bin"}},
    {"test", 1, {"test_batch_mini.bin"}},
};

typedef struct {
    const char *dir;
    const batch_set *set;
    size_t unpack_bytes;
    char *path; /* of the file at hand */
    size_t path_bytes;
    uint64_t records[MAX_BATCHES];
    sw_dataset *dataset;
    int64_t done; /* samples */
} reader;

static const char *path_of(reader *r, const char *name, const char *end)
{
    snprintf(r->path, r->path_bytes, "%s/%s%s", r->dir, name, end);
    return r->path;
}

/* One batch of the set there decides for the set: the others must be there too. */
static sw_status choose_set(reader *r, const char *part)
{
    const batch_set *first = strcmp(part, "train") == 0 ? &sets[0] : &sets[2];
    for (r->set = first; r->set < first + 2; r->set++)
        for (int i = 0; i < r->set->n; i++)
            if (sw_file_there(path_of(r, r->set->name[i], "")) ||
                sw_file_there(path_of(r, r->set->name[i], ".gz")))
                return SW_OK;
    swi_source *source;
    const sw_status status =
        swi_source_open(&source, path_of(r, first->name[0], ""), r->unpack_bytes);
    if (status == SW_OK) /* it came in between */
        swi_source_close(source);
    else if (status != SW_IO)
        return status;
    SW_FAIL(SW_IO, "%s; nor is %s[.gz] there", sw_last_error(), first[1].name[0]);
}

static sw_status read_records(reader *r, swi_source *source, uint64_t n, unsigned char *buffer)
{
    const char *path = swi_source_path(source);
    for (uint64_t record = 0; record < n;) {
        const uint64_t some = n - record < AT_ONCE ? n - record : AT_ONCE;
        SW_TRY(swi_source_exactly(source, buffer, (size_t)some * RECORD));
        for (uint64_t i = 0; i < some; i++, record++) {
            const unsigned char *from = buffer + i * RECORD;
            if (from[0] >= CLASSES)
                SW_FAIL(SW_FORMAT, "%s: record %llu: the label must be 0 to %d (got %d)", path,
                        (unsigned long long)record, CLASSES - 1, from[0]);
            r->dataset->field[1].data[r->done] = from[0];
            memcpy(r->dataset->field[0].data + (size_t)r->done * PIXELS, from + 1, PIXELS);
            r->done++;
        }
    }
    return SW_OK;
}

/* ---- names of the classes ---------------------------------------------------------------- */

/* Lines that are not blank, each ended by a zero byte, in place; *n counts them. */
static size_t split_lines(char *text, size_t bytes, int *n)
{
    size_t used = 0, begin = 0;
    *n = 0;
    for (size_t i = 0; i <= bytes; i++) {
        if (i < bytes && text[i] != '\n' && text[i] != '\r' && text[i] != '\0') {
            text[used++] = text[i];
            continue;
        }
        if (used > begin) {
            text[used++] = '\0';
            ++*n;
        }
        begin = used;
    }
    return used;
}

static sw_status read_meta(reader *r, char *text)
{
    swi_source *source;
    size_t got = 0;
    int n;
    SW_TRY(swi_source_open(&source, path_of(r, "batches.meta.txt", ""), 0));
    const sw_status status = swi_source_read(source, text, META_BYTES, &got);
    swi_source_close(source);
    SW_TRY(status);
    if (got == META_BYTES)
        SW_FAIL(SW_FORMAT, "%s: longer than the names of %d classes", r->path, CLASSES);
    const size_t used = split_lines(text, got, &n);
    if (n != CLASSES)
        SW_FAIL(SW_FORMAT, "%s: must have %d names of classes, one per line (got %d)", r->path,
                CLASSES, n);
    return swi_dataset_name_classes(r->dataset, text, used);
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_all(reader *r, const char *part, bool shapes_only)
{
    const sw_shape image = {3, {3, SIDE, SIDE}}, label = {0, {0}};
    uint64_t n = 0;
    SW_TRY(choose_set(r, part));
    for (int i = 0; i < r->set->n; i++) {
        swi_source *source;
        uint64_t bytes = 0;
        SW_TRY(swi_source_open(&source, path_of(r, r->set->name[i], ""), r->unpack_bytes));
        const sw_status status = swi_source_count(source, UINT64_MAX, &bytes);
        snprintf(r->path, r->path_bytes, "%s", swi_source_path(source));
        swi_source_close(source);
        SW_TRY(status);
        if (bytes == 0)
            SW_FAIL(SW_FORMAT, "%s: empty; records of %d bytes were expected", r->path, RECORD);
        if (bytes % RECORD != 0)
            SW_FAIL(SW_FORMAT,
                    "%s: %llu bytes are not whole records of %d bytes: %llu records and %llu "
                    "bytes are there; the file is cut, or not a binary batch of CIFAR-10",
                    r->path, (unsigned long long)bytes, RECORD,
                    (unsigned long long)bytes / RECORD, (unsigned long long)bytes % RECORD);
        r->records[i] = bytes / RECORD;
        n += r->records[i];
    }
    SW_TRY(swi_dataset_check_count(r->dir, n));
    SW_TRY(swi_dataset_new(&r->dataset, r->dir, (int64_t)n));
    r->dataset->n_classes = CLASSES;
    r->dataset->shapes_only = shapes_only;
    SW_TRY(swi_dataset_field(r->dataset, SW_U8, image));
    SW_TRY(swi_dataset_field(r->dataset, SW_U8, label));
    for (int i = 0; i < r->set->n && !shapes_only; i++) {
        swi_source *source;
        void *buffer;
        SW_TRY(swi_source_open(&source, path_of(r, r->set->name[i], ""), r->unpack_bytes));
        sw_status status = sw_heap_alloc(&buffer, SW_HEAP_FILES, AT_ONCE * RECORD);
        if (status == SW_OK) {
            status = read_records(r, source, r->records[i], buffer);
            sw_heap_free(buffer, SW_HEAP_FILES, AT_ONCE * RECORD);
        }
        swi_source_close(source);
        SW_TRY(status);
    }
    void *text;
    if (!sw_file_there(path_of(r, "batches.meta.txt", "")))
        return SW_OK;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, META_BYTES + 1));
    const sw_status status = read_meta(r, text);
    sw_heap_free(text, SW_HEAP_FILES, META_BYTES + 1);
    return status;
}

sw_status sw_dataset_cifar(sw_dataset **out, const char *dir, const char *part,
                           const sw_cifar_opts *given)
{
    sw_cifar_opts opts;
    SW_TRY(swi_reader_check("sw_dataset_cifar", out != NULL, "out", dir, "dir"));
    SW_TRY(swi_reader_check_part("sw_dataset_cifar", part, "test"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_cifar_opts, &opts, given, "sw_dataset_cifar"));
    reader r = {.dir = dir,
                .unpack_bytes = opts.unpack_bytes,
                .path_bytes = strlen(dir) + 32}; /* "/data_batch_mini.bin.gz" */
    SW_TRY(sw_heap_alloc(&r.path, SW_HEAP_FILES, r.path_bytes));
    const sw_status status = read_all(&r, part, opts.shapes_only != 0);
    sw_heap_free(r.path, SW_HEAP_FILES, r.path_bytes);
    return SW_GIVE(status, out, r.dataset, sw_dataset_destroy);
}

static sw_status read_named(sw_dataset **out, const char *dir, bool test,
                            const swi_reader_opts *o)
{
    const sw_cifar_opts opts =
        SW_OPTS(sw_cifar_opts, .shapes_only = o->shapes_only, .unpack_bytes = o->unpack_bytes);
    return sw_dataset_cifar(out, dir, test ? "test" : "train", &opts);
}

static const char *const files[] = {"data_batch_1.bin", "data_batch_2.bin",
                                    "data_batch_3.bin", "data_batch_4.bin",
                                    "data_batch_5.bin", "data_batch_mini.bin",
                                    "test_batch.bin",   "test_batch_mini.bin",
                                    "batches.meta.txt", NULL};

const swi_reader swi_reader_cifar =
    SW_INIT(.name = "cifar", .path = "DIR", .about = "for CIFAR-10's binary batches",
            .files = files, .part = read_named);
