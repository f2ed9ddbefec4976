/* Ids of tokens in files: numbers of 16 or 32 bits, little-endian, and nothing else. */
#include "alloc/base/size.h"
#include "runtime/base/structs.h"
#include "runtime/data/elements.h"
#include "runtime/data/reader.h"
#include "runtime/data/vocabulary.h"
#include "runtime/data/windows.h"
#include <stdio.h>
#include <string.h>

/* ---- windows ----------------------------------------------------------------------------- */

/* Windows of a row of tokens. */

swi_windows swi_windows_of(uint64_t tokens, uint64_t context, bool move)
{
    swi_windows s = {.tokens = tokens, .n = (tokens - 1) / context, .places = 1};
    if (move) {
        s.n = tokens / context > 1 ? tokens / context - 1 : 1;
        const uint64_t free = tokens - s.n * context;
        s.places = (uint32_t)(free < context ? free : context);
    }
    return s;
}

/* How many of them are for training, where the last tenth is for validation. */
static uint64_t windows_first(uint64_t tokens)
{
    return tokens / 10 * 9 + tokens % 10 * 9 / 10;
}

/* A row, or with `split` its last tenth, is long enough. `what` it is called, `unit`: its
 * tokens are. */
static sw_status windows_check(const char *path, uint64_t tokens, uint64_t context, bool split,
                               const char *what, const char *unit)
{
    const uint64_t last = split ? tokens - windows_first(tokens) : tokens;
    if (tokens == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; a %s was expected", path, what);
    if (last <= context)
        SW_FAIL(SW_FORMAT,
                "%s: %llu %ss are too short: %s%s has %llu, and a context of %llu needs one "
                "%s more than itself; take a smaller context or a longer %s",
                path, (unsigned long long)tokens, unit,
                split ? "the last tenth, for validation," : "the ", split ? "" : what,
                (unsigned long long)last, (unsigned long long)context, unit, what);
    return SW_OK;
}

sw_status swi_windows_fields(sw_dataset *dataset, sw_dtype dtype, int64_t context,
                             uint64_t tokens, const void *data)
{
    size_t all, each;
    const size_t one = sw_dtype_bytes(dtype);
    if (!sw_size_mul((size_t)tokens, one, &all) || !sw_size_mul((size_t)context, one, &each))
        SW_FAIL(SW_NOMEM, "%s: %llu tokens overflow", dataset->name,
                (unsigned long long)tokens);
    swi_field read = {.dtype = dtype,
                      .shape = {1, {context}},
                      .sample_bytes = each,
                      .stride = (ptrdiff_t)each,
                      .data = (unsigned char *)(uintptr_t)data};
    swi_field following = read;
    if (data == NULL && !dataset->shapes_only) {
        SW_TRY(sw_heap_alloc(&read.block, SW_HEAP_DATASETS, all));
        read.bytes = all;
        read.data = read.block;
    }
    if (read.data != NULL)
        following.data = read.data + one;
    dataset->field[0] = read;
    dataset->field[1] = following;
    dataset->n_fields = 2;
    return SW_OK;
}

/* ---- tokens ------------------------------------------------------------------------------ */

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
    const uint64_t first = split ? windows_first(n) : n;
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
        if (r->path[p] != NULL) {
            uint64_t bytes;
            SW_TRY(swi_source_open(&r->source[p], r->path[p], r->opts.unpack_bytes));
            SW_TRY(check_head(r->source[p]));
            SW_TRY(swi_source_count(r->source[p], UINT64_MAX, &bytes));
            const char *path = swi_source_path(r->source[p]);
            if (bytes % width_of(r) != 0)
                SW_FAIL(SW_FORMAT, "%s: %llu bytes are no whole number of ids of %d bits", path,
                        (unsigned long long)bytes, r->opts.bits);
            r->tokens[p] = bytes / width_of(r);
            SW_TRY(windows_check(path, r->tokens[p], (uint64_t)r->opts.context,
                                 r->validates && r->path[VALIDATION] == NULL, "row of tokens",
                                 "token"));
            SW_TRY(swi_source_rewind(r->source[p]));
        }
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

sw_status sw_dataset_tokens(sw_dataset **train, sw_dataset **validation, const char *path,
                            const sw_tokens_opts *given)
{
    reader r = {.name = path, .validates = validation != NULL, .largest = -1};
    void *room;
    if (train == NULL)
        SW_FAIL(SW_INVALID, "%s: train must not be NULL", call);
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_tokens_opts, &r.opts, given, call));
    sw_tokens_opts *o = &r.opts;
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
    if (o->validation_path != NULL && !r.validates)
        SW_FAIL(SW_INVALID,
                "%s: validation_path and no data set for validation exclude each other", call);

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

static sw_status tokens_read(sw_dataset **train, sw_dataset **validation, const char *path,
                             int bits, const swi_reader_opts *o)
{
    const sw_tokens_opts opts =
        SW_OPTS(sw_tokens_opts, .shapes_only = o->shapes_only, .bits = bits,
                .context = o->context, .vocabulary = o->vocabulary,
                .validation_path = o->test_path, .unpack_bytes = o->unpack_bytes);
    return sw_dataset_tokens(train, validation, path, &opts);
}

/* The file, and those of a folder. */
static bool tokens_name_file(const char *path, int i, char *to, size_t bytes)
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
    return tokens_read(train, validation, path, 16, o);
}

const swi_reader swi_reader_tokens = {.name = "tokens",
                                      .path = "FILE|DIR",
                                      .about = "for ids of 16 bits",
                                      .takes = SWI_TAKES_TEST | SWI_TAKES_VOCABULARY,
                                      .name_file = tokens_name_file,
                                      .both = read_named};

/* ---- tokens32 ---------------------------------------------------------------------------- */

/* Tokens of 32 bits, as a reader of its own. */

static sw_status read_named_tokens32(sw_dataset **train, sw_dataset **validation,
                                     const char *path, const swi_reader_opts *o)
{
    return tokens_read(train, validation, path, 32, o);
}

const swi_reader swi_reader_tokens32 = {.name = "tokens32",
                                        .path = "FILE|DIR",
                                        .about = "for ids of 32 bits",
                                        .takes = SWI_TAKES_TEST | SWI_TAKES_VOCABULARY,
                                        .name_file = tokens_name_file,
                                        .both = read_named_tokens32};

/* ---- text -------------------------------------------------------------------------------- */

/* A text as bytes, in windows. */

static sw_status read_share(sw_dataset **out, const char *path, swi_source *source,
                            swi_windows s, const sw_text_opts *opts)
{
    SW_TRY(swi_dataset_check_count(swi_source_path(source), s.n));
    SW_TRY(swi_dataset_new(out, path, (int64_t)s.n));
    sw_dataset *dataset = *out;
    dataset->n_classes = 256;
    dataset->places = s.places;
    dataset->shapes_only = opts->shapes_only != 0;
    SW_TRY(swi_windows_fields(dataset, SW_U8, opts->context, s.tokens, NULL));
    size_t got = 0;
    if (!dataset->shapes_only)
        SW_TRY(swi_source_read(source, dataset->field[0].data, (size_t)s.tokens, &got));
    if (!dataset->shapes_only && got < s.tokens)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_source_path(source));
    return SW_OK;
}

static sw_status read_source(sw_dataset **part, swi_source *source, const char *path,
                             bool split, const sw_text_opts *opts)
{
    const uint64_t context = (uint64_t)opts->context;
    uint64_t bytes = 0;
    SW_TRY(swi_source_count(source, UINT64_MAX, &bytes));
    SW_TRY(windows_check(swi_source_path(source), bytes, context, split, "text", "byte"));
    SW_TRY(swi_source_rewind(source));
    const uint64_t first = split ? windows_first(bytes) : bytes;
    SW_TRY(read_share(&part[0], path, source, swi_windows_of(first, context, true), opts));
    if (!split)
        return SW_OK;
    return read_share(&part[1], path, source, swi_windows_of(bytes - first, context, false),
                      opts);
}

sw_status sw_dataset_text(sw_dataset **train, sw_dataset **validation, const char *path,
                          const sw_text_opts *given)
{
    sw_text_opts opts;
    sw_dataset *part[2] = {NULL, NULL};
    swi_source *source;
    if (train == NULL || path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_dataset_text: train and path must not be NULL, path not empty");
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_text_opts, &opts, given, "sw_dataset_text"));
    if (opts.context == 0)
        opts.context = SWI_CONTEXT;
    if (opts.context < 1 || opts.context > INT32_MAX)
        SW_FAIL(SW_INVALID, "sw_dataset_text: context must be 1 to %d (got %lld)", INT32_MAX,
                (long long)opts.context);
    SW_TRY(swi_source_open(&source, path, opts.unpack_bytes));
    const sw_status status = read_source(part, source, path, validation != NULL, &opts);
    swi_source_close(source);
    if (status != SW_OK) {
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        return status;
    }
    *train = part[0];
    if (validation != NULL)
        *validation = part[1];
    return SW_OK;
}

/* ---- as a reader ------------------------------------------------------------------------- */

static sw_status read_named_text(sw_dataset **train, sw_dataset **test, const char *path,
                                 const swi_reader_opts *o)
{
    const sw_text_opts opts = SW_OPTS(sw_text_opts, .shapes_only = o->shapes_only,
                                      .context = o->context, .unpack_bytes = o->unpack_bytes);
    return sw_dataset_text(train, test, path, &opts);
}

const swi_reader swi_reader_text = {
    .name = "text", .path = "FILE", .about = "for bytes", .both = read_named_text};

/* ---- vocabulary -------------------------------------------------------------------------- */

/* A vocabulary is read whole. Of JSON as much is known as such a file has: one object of
 * strings and whole numbers. It is gone through twice: to count, then to put each token where
 * its id says. */

#define MOST_BYTES ((uint64_t)1 << 28) /* of a file: offsets fit 32 bits */

typedef struct {
    const char *path;
    const char *text, *at, *end;
} cursor;

/* ---- lines ------------------------------------------------------------------------------- */

static sw_status refuse_line(const char *path, int64_t line, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %lld %s", path, (long long)line, what);
}

/* Zero bytes take the place of the ends of lines: tokens get no longer. */
static sw_status read_lines(swi_vocabulary *v, const cursor *c)
{
    for (const char *at = c->text; at < c->end;) {
        const char *end = memchr(at, '\n', (size_t)(c->end - at));
        const char *next = end != NULL ? end + 1 : c->end;
        size_t n = (size_t)((end != NULL ? end : c->end) - at);
        n -= n > 0 && at[n - 1] == '\r';
        v->n++;
        if (n == 0)
            return refuse_line(c->path, v->n,
                               "is empty: each line has a token (a JSON file {token: id} can "
                               "have every token)");
        if (memchr(at, '\0', n) != NULL)
            return refuse_line(c->path, v->n, "has a zero byte: this is no text");
        memmove(v->text + v->used, at, n);
        v->used += n;
        v->text[v->used++] = '\0';
        at = next;
    }
    return SW_OK;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static sw_status bad(const cursor *c, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: byte %zu: %s", c->path, (size_t)(c->at - c->text), what);
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) != NULL && *c->at != '\0')
        c->at++;
}

static bool take(cursor *c, char x)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != x)
        return false;
    c->at++;
    return true;
}

static int hex_of(char x)
{
    return x >= '0' && x <= '9'   ? x - '0'
           : x >= 'a' && x <= 'f' ? x - 'a' + 10
           : x >= 'A' && x <= 'F' ? x - 'A' + 10
                                  : -1;
}

/* Four digits; -1 where they are none. */
static int32_t take_hex(cursor *c)
{
    int32_t x = 0;
    if (c->end - c->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_of(c->at[i]);
        if (digit < 0)
            return -1;
        x = x * 16 + digit;
    }
    c->at += 4;
    return x;
}

/* Before it stood a backslash and a u; the character in UTF-8, a zero one as it is
 * written. 0: it is damaged. */
static size_t take_character(cursor *c, char *to)
{
    int32_t x = take_hex(c);
    if (x >= 0xd800 && x < 0xdc00 && c->end - c->at >= 6 && c->at[0] == '\\' &&
        c->at[1] == 'u') {
        c->at += 2;
        const int32_t low = take_hex(c);
        if (low < 0xdc00 || low > 0xdfff)
            return 0;
        x = 0x10000 + (x - 0xd800) * 0x400 + (low - 0xdc00);
    }
    if (x < 0 || (x >= 0xd800 && x < 0xe000))
        return 0;
    if (x == 0) {
        memcpy(to, "\\u0000", 6);
        return 6;
    }
    if (x < 0x80) {
        to[0] = (char)x;
        return 1;
    }
    const int more = x < 0x800 ? 1 : x < 0x10000 ? 2 : 3;
    static const int first[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(first[more] | x >> 6 * more);
    for (int i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (x >> 6 * (more - i) & 0x3f));
    return (size_t)more + 1;
}

/* A string to `to`, ended by a zero byte: it is no longer than it is written. */
static sw_status take_string(cursor *c, char *to, size_t *bytes)
{
    static const char names[] = "\"\\/bfnrt", are[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    if (!take(c, '"'))
        return bad(c, "a token in quotation marks was expected");
    for (;; c->at++) {
        if (c->at == c->end)
            return bad(c, "the file ends in a token");
        if (*c->at == '"')
            break;
        if ((unsigned char)*c->at < 0x20)
            return bad(c, "a token has a control character");
        if (*c->at != '\\') {
            to[n++] = *c->at;
            continue;
        }
        if (++c->at == c->end)
            return bad(c, "the file ends in a token");
        const char *name = *c->at != '\0' ? strchr(names, *c->at) : NULL;
        if (name != NULL) {
            to[n++] = are[name - names];
            continue;
        }
        if (*c->at++ != 'u')
            return bad(c, "a token has an unknown escape");
        const size_t wide = take_character(c, to + n);
        if (wide == 0)
            return bad(c, "a token has a damaged \\u escape");
        n += wide;
        c->at--; /* the loop goes on after it */
    }
    c->at++;
    to[n++] = '\0';
    *bytes = n;
    return SW_OK;
}

static sw_status take_id(cursor *c, int64_t *id)
{
    int64_t x = 0;
    skip_blanks(c);
    const char *first = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && x <= INT32_MAX)
        x = x * 10 + (*c->at++ - '0');
    const bool ends = c->at < c->end && strchr(" \t\r\n,}", *c->at) != NULL;
    if (c->at == first || !ends || *c->at == '\0' || x >= INT32_MAX)
        return bad(c, "the id after a token must be a whole number: a vocabulary is {token: "
                      "id}, as GPT-2's vocab.json (a tokenizer.json has it in its member "
                      "model.vocab)");
    *id = x;
    return SW_OK;
}

/* All pairs, one after the other. `at` NULL: they are counted; else where the token of each id
 * begins in the text, UINT32_MAX for none. */
static sw_status read_pairs(swi_vocabulary *v, cursor *c, uint32_t *at)
{
    const int64_t n = v->n;
    v->used = 0;
    v->n = 0;
    c->at = c->text;
    (void)take(c, '{');
    if (take(c, '}'))
        return bad(c, "the vocabulary is empty");
    do {
        size_t bytes = 0;
        int64_t id = 0;
        SW_TRY(take_string(c, v->text + v->used, &bytes));
        if (!take(c, ':'))
            return bad(c, "a colon was expected after the token");
        SW_TRY(take_id(c, &id));
        if (at != NULL && (id >= n || at[id] != UINT32_MAX))
            SW_FAIL(SW_FORMAT,
                    "%s: byte %zu: the ids of %lld tokens must be 0 to %lld, each once (got "
                    "%lld%s)",
                    c->path, (size_t)(c->at - c->text), (long long)n, (long long)n - 1,
                    (long long)id, id < n ? " again" : "");
        if (at != NULL) {
            at[id] = (uint32_t)v->used;
            v->used += bytes;
        }
        v->n++;
    } while (take(c, ','));
    if (!take(c, '}'))
        return bad(c, "a comma or the closing brace was expected");
    skip_blanks(c);
    return c->at == c->end ? SW_OK : bad(c, "nothing may follow the closing brace");
}

static void put_in_order(char *to, const swi_vocabulary *v, const uint32_t *at)
{
    for (int64_t i = 0; i < v->n; i++) {
        const size_t bytes = strlen(v->text + at[i]) + 1;
        memcpy(to, v->text + at[i], bytes);
        to += bytes;
    }
}

static sw_status read_json(swi_vocabulary *v, cursor *c)
{
    void *at, *text;
    SW_TRY(read_pairs(v, c, NULL));
    const size_t bytes = (size_t)v->n * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&at, SW_HEAP_FILES, bytes));
    memset(at, 0xff, bytes);
    sw_status status = read_pairs(v, c, at);
    if (status == SW_OK)
        status = sw_heap_alloc(&text, SW_HEAP_FILES, v->room);
    if (status == SW_OK) {
        put_in_order(text, v, at);
        sw_heap_free(v->text, SW_HEAP_FILES, v->room);
        v->text = text;
    }
    sw_heap_free(at, SW_HEAP_FILES, bytes);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------- */

static sw_status parse(swi_vocabulary *v, cursor *c)
{
    if (c->text == c->end)
        SW_FAIL(SW_FORMAT, "%s: empty; a vocabulary was expected", c->path);
    c->at = c->text;
    skip_blanks(c);
    return c->at < c->end && *c->at == '{' ? read_json(v, c) : read_lines(v, c);
}

static sw_status read_source_vocabulary(swi_vocabulary *v, swi_source *source)
{
    const char *path = swi_source_path(source);
    uint64_t bytes;
    size_t got;
    void *block;
    SW_TRY(swi_source_count(source, MOST_BYTES, &bytes));
    if (bytes > MOST_BYTES)
        SW_FAIL(SW_FORMAT, "%s: a vocabulary must have at most %llu bytes", path,
                (unsigned long long)MOST_BYTES);
    SW_TRY(swi_source_rewind(source));
    v->room = (size_t)bytes + 2; /* a last line without an end gets one */
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, v->room));
    v->text = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)bytes + 1));
    sw_status status = swi_source_read(source, block, (size_t)bytes, &got);
    if (status == SW_OK && got < bytes)
        status =
            sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: changed while it was read", path);
    cursor c = {.path = path, .text = block, .end = (const char *)block + bytes};
    if (status == SW_OK)
        status = parse(v, &c);
    sw_heap_free(block, SW_HEAP_FILES, (size_t)bytes + 1);
    return status;
}

sw_status swi_vocabulary_read(swi_vocabulary *out, const char *path, size_t unpack_bytes)
{
    swi_vocabulary v = {0};
    swi_source *source;
    SW_TRY(swi_source_open(&source, path, unpack_bytes));
    const sw_status status = read_source_vocabulary(&v, source);
    swi_source_close(source);
    if (status != SW_OK) {
        swi_vocabulary_free(&v);
        return status;
    }
    *out = v;
    return SW_OK;
}

void swi_vocabulary_free(swi_vocabulary *v)
{
    sw_heap_free(v->text, SW_HEAP_FILES, v->room);
    *v = (swi_vocabulary){0};
}
