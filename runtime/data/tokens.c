/* Ids of tokens in files: numbers of 16 or 32 bits, little-endian, and nothing else. */
#include "runtime/base/structs.h"
#include "runtime/data/elements.h"
#include "runtime/data/tokens.h"
#include "runtime/data/vocabulary.h"
#include "runtime/data/windows.h"
#include <stdio.h>
#include <string.h>

static const char call[] = "sw_dataset_tokens";

enum {
    TRAIN,
    VALIDATION,
    PARTS,
    PIECE = 1 << 15 /* bytes, of files that are looked at alone */
};

typedef struct {
    sw_tokens_opts opts;
    const char *name; /* of the data set */
    bool validates;
    const char *path[PARTS]; /* VALIDATION: NULL where it is the last tenth, or there is none */
    swi_source *source[PARTS];
    uint64_t tokens[PARTS]; /* of a file */
    swi_vocabulary vocabulary;
    swi_take take;
    int64_t largest;
    sw_dataset *part[PARTS];
} reader;

/* ---- files ------------------------------------------------------------------------------- */

static size_t width_of(const reader *r)
{
    return (size_t)r->opts.bits / 8;
}

/* Formats that begin with so many bytes of their own that no tokens look like it. */
static sw_status check_head(swi_source *source)
{
    static const unsigned char numpy[] = "\x93NUMPY",
                               llm_c[] = {0x98, 0x77, 0x34, 0x01, 1, 0, 0, 0};
    const char *path = swi_source_path(source);
    unsigned char head[8] = {0};
    size_t got;
    SW_TRY(swi_source_read(source, head, sizeof head, &got));
    if (memcmp(head, numpy, 6) == 0)
        SW_FAIL(SW_FORMAT,
                "%s: is a .npy file; tokens are ids and nothing else: write them with "
                "array.astype('<u2').tofile(FILE)",
                path);
    if (memcmp(head, llm_c, sizeof head) == 0)
        SW_FAIL(SW_FORMAT,
                "%s: begins with the header of llm.c, 1,024 bytes; tokens are ids and nothing "
                "else: tail -c +1025 FILE > NEW",
                path);
    return swi_source_rewind(source);
}

static sw_status open_part(reader *r, int p)
{
    uint64_t bytes;
    SW_TRY(swi_source_open(&r->source[p], r->path[p], r->opts.unpack_bytes));
    SW_TRY(check_head(r->source[p]));
    SW_TRY(swi_source_count(r->source[p], UINT64_MAX, &bytes));
    const char *path = swi_source_path(r->source[p]);
    if (bytes % width_of(r) != 0)
        SW_FAIL(SW_FORMAT, "%s: %llu bytes are no whole number of ids of %d bits", path,
                (unsigned long long)bytes, r->opts.bits);
    r->tokens[p] = bytes / width_of(r);
    SW_TRY(swi_windows_check(path, r->tokens[p], (uint64_t)r->opts.context,
                             r->validates && r->path[VALIDATION] == NULL, "row of tokens",
                             "token"));
    return swi_source_rewind(r->source[p]);
}

/* ---- ids --------------------------------------------------------------------------------- */

static sw_status refuse(const reader *r, int file, uint64_t at, const unsigned char *id)
{
    char why[SWI_TAKE_TEXT];
    const char *path = swi_source_path(r->source[file]);
    swi_take_reason(&r->take, id, why);
    if (r->opts.vocabulary == NULL)
        SW_FAIL(SW_FORMAT, "%s: the id at byte %llu %s", path,
                (unsigned long long)(at * width_of(r)), why);
    SW_FAIL(SW_FORMAT, "%s: the id at byte %llu %s: %s has %lld tokens", path,
            (unsigned long long)(at * width_of(r)), why, r->opts.vocabulary,
            (long long)r->vocabulary.n);
}

/* n ids in memory, the first of which is number `first` of a file. */
static sw_status check_ids(reader *r, int file, uint64_t first, const unsigned char *ids,
                           uint64_t n)
{
    const ptrdiff_t width = (ptrdiff_t)width_of(r);
    const size_t taken =
        swi_take_numbers(&r->take, NULL, 0, ids, width, (size_t)n, &r->largest);
    return taken == n ? SW_OK : refuse(r, file, first + taken, ids + (ptrdiff_t)taken * width);
}

static sw_status changed(const swi_source *source)
{
    SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_source_path(source));
}

/* Through a window: for the largest id. */
static sw_status look_through(reader *r, int file)
{
    unsigned char piece[PIECE];
    const uint64_t each = sizeof piece / width_of(r);
    size_t got;
    for (uint64_t at = 0; at < r->tokens[file]; at += each) {
        const uint64_t left = r->tokens[file] - at, n = left < each ? left : each;
        SW_TRY(swi_source_read(r->source[file], piece, (size_t)n * width_of(r), &got));
        if (got < n * width_of(r))
            return changed(r->source[file]);
        SW_TRY(check_ids(r, file, at, piece, n));
    }
    return SW_OK;
}

/* ---- parts ------------------------------------------------------------------------------- */

static sw_status make_part(reader *r, int p, int file, uint64_t first, swi_windows w)
{
    size_t got;
    SW_TRY(swi_dataset_check_count(swi_source_path(r->source[file]), w.n));
    SW_TRY(swi_dataset_new(&r->part[p], r->name, (int64_t)w.n));
    sw_dataset *d = r->part[p];
    d->places = w.places;
    d->shapes_only = r->opts.shapes_only != 0;
    SW_TRY(swi_windows_fields(d, r->take.to, r->opts.context, w.tokens, NULL));
    if (d->shapes_only)
        return SW_OK;
    const size_t bytes = (size_t)w.tokens * width_of(r);
    SW_TRY(swi_source_read(r->source[file], d->field[0].data, bytes, &got));
    if (got < bytes)
        return changed(r->source[file]);
    return check_ids(r, file, first, d->field[0].data, w.tokens);
}

static sw_status make_parts(reader *r)
{
    const uint64_t context = (uint64_t)r->opts.context, n = r->tokens[TRAIN];
    const bool split = r->validates && r->path[VALIDATION] == NULL;
    const uint64_t first = split ? swi_windows_first(n) : n;
    for (int p = 0; r->opts.shapes_only && r->opts.vocabulary == NULL && p < PARTS; p++)
        if (r->path[p] != NULL)
            SW_TRY(look_through(r, p));
    SW_TRY(make_part(r, TRAIN, TRAIN, 0, swi_windows_of(first, context, true)));
    if (split)
        return make_part(r, VALIDATION, TRAIN, first,
                         swi_windows_of(n - first, context, false));
    return r->validates ? make_part(r, VALIDATION, VALIDATION, 0,
                                    swi_windows_of(r->tokens[VALIDATION], context, false))
                        : SW_OK;
}

static sw_status read_all(reader *r)
{
    if (r->opts.vocabulary != NULL) {
        SW_TRY(swi_vocabulary_read(&r->vocabulary, r->opts.vocabulary, r->opts.unpack_bytes));
        if (r->vocabulary.n - 1 < r->take.high)
            r->take.high = r->vocabulary.n - 1;
    }
    for (int p = 0; p < PARTS; p++)
        if (r->path[p] != NULL)
            SW_TRY(open_part(r, p));
    SW_TRY(make_parts(r));
    for (int p = 0; p < PARTS; p++) {
        if (r->part[p] == NULL)
            continue;
        r->part[p]->n_classes = r->opts.vocabulary != NULL ? r->vocabulary.n : r->largest + 1;
        if (r->opts.vocabulary != NULL)
            SW_TRY(
                swi_dataset_name_classes(r->part[p], r->vocabulary.text, r->vocabulary.used));
    }
    return SW_OK;
}

/* ---- options and paths ------------------------------------------------------------------- */

#define IN_FOLDER 11 /* "/train.bin" */

static bool is_folder(const char *path, char *room)
{
    snprintf(room, strlen(path) + IN_FOLDER, "%s/.", path);
    return sw_file_there(room);
}

/* A folder has both parts; `room` has room for two names. */
static sw_status find_files(reader *r, const char *path, char *room)
{
    const size_t length = strlen(path) + IN_FOLDER;
    r->path[TRAIN] = path;
    r->path[VALIDATION] = r->opts.validation_path;
    if (is_folder(path, room)) {
        if (r->opts.validation_path != NULL)
            SW_FAIL(SW_INVALID,
                    "%s: %s is a folder, whose val.bin is for validation: validation_path must "
                    "be NULL",
                    call, path);
        snprintf(room, length, "%s/train.bin", path);
        snprintf(room + length, length, "%s/val.bin", path);
        r->path[TRAIN] = room;
        r->path[VALIDATION] = r->validates ? room + length : NULL;
    }
    return read_all(r);
}

static sw_status check_opts(reader *r, const char *path)
{
    sw_tokens_opts *o = &r->opts;
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: path must not be NULL or empty", call);
    if (o->bits == 0)
        o->bits = 16;
    if (o->bits != 16 && o->bits != 32)
        SW_FAIL(SW_INVALID, "%s: bits must be 16 or 32 (got %d)", call, o->bits);
    if (o->context == 0)
        o->context = SWI_CONTEXT;
    if (o->context < 1 || o->context > INT32_MAX)
        SW_FAIL(SW_INVALID, "%s: context must be 1 to %d (got %lld)", call, INT32_MAX,
                (long long)o->context);
    if (o->validation_path != NULL && !r->validates)
        SW_FAIL(SW_INVALID,
                "%s: validation_path and no data set for validation exclude each other", call);
    return SW_OK;
}

sw_status sw_dataset_tokens(sw_dataset **train, sw_dataset **validation, const char *path,
                            const sw_tokens_opts *given)
{
    reader r = {.name = path, .validates = validation != NULL, .largest = -1};
    void *room;
    if (train == NULL)
        SW_FAIL(SW_INVALID, "%s: train must not be NULL", call);
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_tokens_opts, &r.opts, given, call));
    SW_TRY(check_opts(&r, path));
    r.take = swi_take_of(r.opts.bits == 16 ? SW_NUMBER_U16 : SW_NUMBER_U32);
    r.take.low = 0;
    r.take.high = r.opts.bits == 16 ? UINT16_MAX : INT32_MAX - 1;
    const size_t bytes = 2 * (strlen(path) + IN_FOLDER);
    SW_TRY(sw_heap_alloc(&room, SW_HEAP_FILES, bytes));
    const sw_status status = find_files(&r, path, room);
    sw_heap_free(room, SW_HEAP_FILES, bytes);
    swi_vocabulary_free(&r.vocabulary);
    for (int p = 0; p < PARTS; p++) {
        swi_source_close(r.source[p]);
        if (status != SW_OK)
            sw_dataset_destroy(r.part[p]);
    }
    if (status != SW_OK)
        return status;
    *train = r.part[TRAIN];
    if (validation != NULL)
        *validation = r.part[VALIDATION];
    return SW_OK;
}

/* ---- as readers -------------------------------------------------------------------------- */

sw_status swi_tokens_read(sw_dataset **train, sw_dataset **validation, const char *path,
                          int bits, const swi_reader_opts *o)
{
    const sw_tokens_opts opts =
        SW_OPTS(sw_tokens_opts, .shapes_only = o->shapes_only, .bits = bits,
                .context = o->context, .vocabulary = o->vocabulary,
                .validation_path = o->test_path, .unpack_bytes = o->unpack_bytes);
    return sw_dataset_tokens(train, validation, path, &opts);
}

bool swi_tokens_name_file(const char *path, int i, char *to, size_t bytes)
{
    static const char *const ends[] = {"", "/train.bin", "/val.bin"};
    if (i > 2)
        return false;
    const int length = snprintf(to, bytes, "%s%s", path, ends[i]);
    if (length < 0 || (size_t)length >= bytes)
        *to = '\0'; /* longer than any path */
    return true;
}

static sw_status read_named(sw_dataset **train, sw_dataset **validation, const char *path,
                            const swi_reader_opts *o)
{
    return swi_tokens_read(train, validation, path, 16, o);
}

const swi_reader swi_reader_tokens = {.name = "tokens",
                                      .path = "FILE|DIR",
                                      .about = "for ids of 16 bits",
                                      .takes = SWI_TAKES_TEST | SWI_TAKES_VOCABULARY,
                                      .name_file = swi_tokens_name_file,
                                      .both = read_named};
