/* Ids of tokens in files: numbers of 16 or 32 bits, little-endian, and nothing else. A text is
 * the same with 8 bits, all of which are ids. */
#include "alloc/base/size.h"
#include "profiler/record/json_read.h"
#include "runtime/base/structs.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include <stdio.h>
#include <string.h>

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

sw_status swi_windows_fields(sw_dataset *dataset, sw_dtype dtype, int64_t context,
                             uint64_t tokens, const void *data)
{
    size_t all, each;
    const size_t one = sw_dtype_bytes(dtype);
    if (!sw_size_mul((size_t)tokens, one, &all) || !sw_size_mul((size_t)context, one, &each))
        SW_FAIL(SW_NOMEM, "%s: %llu tokens overflow", dataset->name,
                (unsigned long long)tokens);
    swi_field read =
        SW_INIT(.dtype = dtype, .shape = {1, {context}}, .sample_bytes = each,
                .stride = (ptrdiff_t)each, .data = (unsigned char *)(uintptr_t)data);
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

static const char tokens_call[] = "sw_dataset_tokens", text_call[] = "sw_dataset_text";

enum {
    TRAIN,
    VALIDATION,
    PARTS,
    PIECE = 1 << 15 /* bytes, of files that are looked at alone */
};

typedef struct {
    const char *call; /* one of the two */
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

/* n ids in memory, the first of which is number `first` of a file. */
static sw_status check_ids(reader *r, int file, uint64_t first, const unsigned char *ids,
                           uint64_t n)
{
    const ptrdiff_t width = (ptrdiff_t)width_of(r);
    const size_t taken =
        swi_take_numbers(&r->take, NULL, 0, ids, width, (size_t)n, &r->largest);
    if (taken == n)
        return SW_OK;
    char why[SWI_TAKE_TEXT];
    const char *path = swi_source_path(r->source[file]);
    const unsigned long long at = (first + taken) * (uint64_t)width;
    swi_take_reason(&r->take, ids + (ptrdiff_t)taken * width, why);
    if (r->opts.vocabulary == NULL)
        SW_FAIL(SW_FORMAT, "%s: the id at byte %llu %s", path, at, why);
    SW_FAIL(SW_FORMAT, "%s: the id at byte %llu %s: %s has %lld tokens", path, at, why,
            r->opts.vocabulary, (long long)r->vocabulary.n);
}

/* ---- parts ------------------------------------------------------------------------------- */

static sw_status make_part(reader *r, int p, int file, uint64_t first, swi_windows w)
{
    SW_TRY(swi_dataset_check_count(swi_source_path(r->source[file]), w.n));
    SW_TRY(swi_dataset_new(&r->part[p], r->name, (int64_t)w.n));
    sw_dataset *d = r->part[p];
    d->places = w.places;
    d->shapes_only = r->opts.shapes_only != 0;
    SW_TRY(swi_windows_fields(d, r->take.to, r->opts.context, w.tokens, NULL));
    if (d->shapes_only)
        return SW_OK;
    SW_TRY(
        swi_source_exactly(r->source[file], d->field[0].data, (size_t)w.tokens * width_of(r)));
    return r->call == text_call ? SW_OK : check_ids(r, file, first, d->field[0].data, w.tokens);
}

static sw_status make_parts(reader *r)
{
    const uint64_t context = (uint64_t)r->opts.context, n = r->tokens[TRAIN];
    const bool split = r->validates && r->path[VALIDATION] == NULL;
    const uint64_t first = split ? windows_first(n) : n;
    const bool look =
        r->call == tokens_call && r->opts.shapes_only && r->opts.vocabulary == NULL;
    for (int p = 0; look && p < PARTS && r->path[p] != NULL; p++) {
        unsigned char piece[PIECE]; /* a window: for the largest id */
        const uint64_t each = sizeof piece / width_of(r);
        for (uint64_t at = 0; at < r->tokens[p]; at += each) {
            const uint64_t left = r->tokens[p] - at, some = left < each ? left : each;
            SW_TRY(swi_source_exactly(r->source[p], piece, (size_t)some * width_of(r)));
            SW_TRY(check_ids(r, p, at, piece, some));
        }
    }
    SW_TRY(make_part(r, TRAIN, TRAIN, 0, swi_windows_of(first, context, true)));
    if (split)
        return make_part(r, VALIDATION, TRAIN, first,
                         swi_windows_of(n - first, context, false));
    return r->validates ? make_part(r, VALIDATION, VALIDATION, 0,
                                    swi_windows_of(r->tokens[VALIDATION], context, false))
                        : SW_OK;
}

/* A row, or with `split` its last tenth, is long enough. */
static sw_status check_length(const reader *r, const char *path, uint64_t tokens, bool split)
{
    const uint64_t last = split ? tokens - windows_first(tokens) : tokens;
    const char *what = r->call == text_call ? "text" : "row of tokens",
               *unit = r->call == text_call ? "byte" : "token";
    if (tokens == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; a %s was expected", path, what);
    if (last <= (uint64_t)r->opts.context)
        SW_FAIL(SW_FORMAT,
                "%s: %llu %ss are too short: %s%s has %llu, and a context of %llu needs one "
                "%s more than itself; take a smaller context or a longer %s",
                path, (unsigned long long)tokens, unit,
                split ? "the last tenth, for validation," : "the ", split ? "" : what,
                (unsigned long long)last, (unsigned long long)r->opts.context, unit, what);
    return SW_OK;
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
            if (r->call == tokens_call)
                SW_TRY(check_head(r->source[p]));
            SW_TRY(swi_source_count(r->source[p], UINT64_MAX, &bytes));
            const char *path = swi_source_path(r->source[p]);
            if (bytes % width_of(r) != 0)
                SW_FAIL(SW_FORMAT, "%s: %llu bytes are no whole number of ids of %d bits", path,
                        (unsigned long long)bytes, r->opts.bits);
            r->tokens[p] = bytes / width_of(r);
            SW_TRY(check_length(r, path, r->tokens[p],
                                r->validates && r->path[VALIDATION] == NULL));
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

/* A folder has both parts; `room` has room for two names. */
static sw_status find_files(reader *r, const char *path, char *room)
{
    const size_t length = strlen(path) + IN_FOLDER;
    r->path[TRAIN] = path;
    r->path[VALIDATION] = r->opts.validation_path;
    snprintf(room, length, "%s/.", path);
    if (sw_file_there(room)) {
        if (r->opts.validation_path != NULL)
            SW_FAIL(SW_INVALID,
                    "%s: %s is a folder, whose val.bin is for validation: validation_path must "
                    "be NULL",
                    r->call, path);
        snprintf(room, length, "%s/train.bin", path);
        snprintf(room + length, length, "%s/val.bin", path);
        r->path[TRAIN] = room;
        r->path[VALIDATION] = r->validates ? room + length : NULL;
    }
    return read_all(r);
}

static sw_status check_context(const char *call, int64_t *context)
{
    if (*context == 0)
        *context = SWI_CONTEXT;
    if (*context < 1 || *context > INT32_MAX)
        SW_FAIL(SW_INVALID, "%s: context must be 1 to %d (got %lld)", call, INT32_MAX,
                (long long)*context);
    return SW_OK;
}

/* The reading has ended: give its parts, and back all that it holds. */
static sw_status give(reader *r, sw_status status, sw_dataset **train, sw_dataset **validation)
{
    swi_vocabulary_free(&r->vocabulary);
    for (int p = 0; p < PARTS; p++)
        swi_source_close(r->source[p]);
    return swi_parts_give(status, r->part, train, validation);
}

sw_status sw_dataset_tokens(sw_dataset **train, sw_dataset **validation, const char *path,
                            const sw_tokens_opts *given)
{
    reader r = {
        .call = tokens_call, .name = path, .validates = validation != NULL, .largest = -1};
    sw_tokens_opts *o = &r.opts;
    void *room;
    SW_TRY(swi_reader_check(r.call, train != NULL, "train", path, "path"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_tokens_opts, o, given, r.call));
    if (o->bits == 0)
        o->bits = 16;
    if (o->bits != 16 && o->bits != 32)
        SW_FAIL(SW_INVALID, "%s: bits must be 16 or 32 (got %d)", r.call, o->bits);
    SW_TRY(check_context(r.call, &o->context));
    if (o->validation_path != NULL && !r.validates)
        SW_FAIL(SW_INVALID,
                "%s: validation_path and no data set for validation exclude each other",
                r.call);
    r.take = swi_take_of(o->bits == 16 ? SW_NUMBER_U16 : SW_NUMBER_U32);
    r.take.low = 0;
    r.take.high = o->bits == 16 ? UINT16_MAX : INT32_MAX - 1;
    const size_t bytes = 2 * (strlen(path) + IN_FOLDER);
    SW_TRY(sw_heap_alloc(&room, SW_HEAP_FILES, bytes));
    const sw_status status = find_files(&r, path, room);
    sw_heap_free(room, SW_HEAP_FILES, bytes);
    return give(&r, status, train, validation);
}

sw_status sw_dataset_text(sw_dataset **train, sw_dataset **validation, const char *path,
                          const sw_text_opts *given)
{
    sw_text_opts o;
    SW_TRY(swi_reader_check(text_call, train != NULL, "train", path, "path"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_text_opts, &o, given, text_call));
    SW_TRY(check_context(text_call, &o.context));
    reader r = SW_INIT(.call = text_call,
                       .opts = {.bits = 8,
                                .context = o.context,
                                .unpack_bytes = o.unpack_bytes,
                                .shapes_only = o.shapes_only},
                       .name = path, .validates = validation != NULL, .path = {path},
                       .take = swi_take_of(SW_NUMBER_U8), .largest = UINT8_MAX);
    return give(&r, read_all(&r), train, validation);
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
static bool name_file(const char *path, int i, char *to, size_t bytes)
{
    static const char *const ends[] = {"", "/train.bin", "/val.bin"};
    if (i > 2)
        return false;
    swi_name_file(to, bytes, path, strlen(path), ends[i]);
    return true;
}

static sw_status read_named_16(sw_dataset **train, sw_dataset **validation, const char *path,
                               const swi_reader_opts *o)
{
    return tokens_read(train, validation, path, 16, o);
}

static sw_status read_named_32(sw_dataset **train, sw_dataset **validation, const char *path,
                               const swi_reader_opts *o)
{
    return tokens_read(train, validation, path, 32, o);
}

#define TOKENS(id, text, bits)                                                                 \
    const swi_reader swi_reader_##id = {.name = text,                                          \
                                        .path = "FILE|DIR",                                    \
                                        .about = "for ids of " #bits " bits",                  \
                                        .takes = SWI_TAKES_TEST | SWI_TAKES_VOCABULARY,        \
                                        .name_file = name_file,                                \
                                        .both = read_named_##bits};
TOKENS(tokens, "tokens", 16)
TOKENS(tokens32, "tokens32", 32)
#undef TOKENS

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

/* A vocabulary is read whole. One in JSON is an object of strings and whole numbers, and is
 * gone through twice: to count, then to put each token where its id says. */

#define MOST_BYTES ((uint64_t)1 << 28) /* of a file: offsets fit 32 bits */

static sw_status refuse_line(const char *path, int64_t line, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %lld %s", path, (long long)line, what);
}

/* Zero bytes take the place of the ends of lines: tokens get no longer. */
static sw_status read_lines(swi_vocabulary *v, const char *path, const char *at,
                            const char *end_of_file)
{
    while (at < end_of_file) {
        const char *end = memchr(at, '\n', (size_t)(end_of_file - at));
        const char *next = end != NULL ? end + 1 : end_of_file;
        size_t n = (size_t)((end != NULL ? end : end_of_file) - at);
        n -= n > 0 && at[n - 1] == '\r';
        v->n++;
        if (n == 0)
            return refuse_line(path, v->n,
                               "is empty: each line has a token (a JSON file {token: id} can "
                               "have every token)");
        if (memchr(at, '\0', n) != NULL)
            return refuse_line(path, v->n, "has a zero byte: this is no text");
        memmove(v->text + v->used, at, n);
        v->used += n;
        v->text[v->used++] = '\0';
        at = next;
    }
    return SW_OK;
}

/* A token to `to`, ended by a zero byte; zero characters in it are as they were written, which
 * is no longer than the file. */
static sw_status take_token(sw_json_in *in, char *to, size_t room, size_t *bytes)
{
    static const char zero[] = "\\u0000";
    sw_json_text token = {.to = to, .cap = room};
    SW_TRY(sw_json_get_string(in, &token));
    for (char *at = to; (at = memchr(at, '\0', token.length - (size_t)(at - to))) != NULL;) {
        memmove(at + sizeof zero - 1, at + 1, token.length - (size_t)(at + 1 - to));
        memcpy(at, zero, sizeof zero - 1);
        token.length += sizeof zero - 2;
    }
    to[token.length] = '\0';
    *bytes = token.length + 1;
    return SW_OK;
}

static sw_status take_id(sw_json_in *in, int64_t *id)
{
    sw_json_number x = {.whole = false};
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c >= '0' && c <= '9')
        SW_TRY(sw_json_get_number(in, &x));
    if (!x.whole || x.magnitude >= INT32_MAX)
        return sw_json_bad(in, "the id after a token must be a whole number: a vocabulary is "
                               "{token: id}, as GPT-2's vocab.json (a tokenizer.json has it in "
                               "its member model.vocab)");
    *id = (int64_t)x.magnitude;
    return SW_OK;
}

/* All pairs, one after the other. `at` NULL: they are counted; else where the token of each id
 * begins in the text, UINT32_MAX for none. */
static sw_status read_pairs(swi_vocabulary *v, sw_json_in in, uint32_t *at)
{
    const int64_t n = v->n;
    bool more;
    int c;
    v->used = 0;
    v->n = 0;
    SW_TRY(sw_json_expect(&in, '{'));
    SW_TRY(sw_json_accept(&in, '}', &more));
    if (more)
        return sw_json_bad(&in, "the vocabulary is empty");
    do {
        size_t bytes = 0;
        int64_t id = 0;
        SW_TRY(take_token(&in, v->text + v->used, v->room - v->used, &bytes));
        SW_TRY(sw_json_expect(&in, ':'));
        SW_TRY(take_id(&in, &id));
        if (at != NULL && (id >= n || at[id] != UINT32_MAX))
            SW_FAIL(SW_FORMAT,
                    "%s: byte %zu: the ids of %lld tokens must be 0 to %lld, each once (got "
                    "%lld%s)",
                    in.path, in.at, (long long)n, (long long)n - 1, (long long)id,
                    id < n ? " again" : "");
        if (at != NULL) {
            at[id] = (uint32_t)v->used;
            v->used += bytes;
        }
        v->n++;
        SW_TRY(sw_json_accept(&in, ',', &more));
    } while (more);
    SW_TRY(sw_json_expect(&in, '}'));
    SW_TRY(sw_json_peek(&in, &c));
    return c < 0 ? SW_OK : sw_json_bad(&in, "nothing may follow the closing brace");
}

static sw_status read_json(swi_vocabulary *v, sw_json_in in)
{
    void *block, *text;
    SW_TRY(read_pairs(v, in, NULL));
    const size_t bytes = (size_t)v->n * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    uint32_t *at = memset(block, 0xff, bytes);
    sw_status status = read_pairs(v, in, at);
    if (status == SW_OK)
        status = sw_heap_alloc(&text, SW_HEAP_FILES, v->room);
    if (status == SW_OK) {
        char *to = text;
        for (int64_t i = 0; i < v->n; i++)
            to = stpcpy(to, v->text + at[i]) + 1;
        sw_heap_free(v->text, SW_HEAP_FILES, v->room);
        v->text = text;
    }
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status read_vocabulary(swi_vocabulary *v, swi_source *source)
{
    const char *path = swi_source_path(source);
    uint64_t bytes;
    void *block;
    SW_TRY(swi_source_count(source, MOST_BYTES, &bytes));
    if (bytes > MOST_BYTES)
        SW_FAIL(SW_FORMAT, "%s: a vocabulary must have at most %llu bytes", path,
                (unsigned long long)MOST_BYTES);
    if (bytes == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; a vocabulary was expected", path);
    SW_TRY(swi_source_rewind(source));
    v->room = (size_t)bytes + 2; /* a last line without an end gets one */
    SW_TRY(sw_heap_alloc(&v->text, SW_HEAP_FILES, v->room));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)bytes + 1));
    sw_json_in in = sw_json_in_text(block, (size_t)bytes, path);
    int c = 0;
    sw_status status = swi_source_exactly(source, block, (size_t)bytes);
    if (status == SW_OK)
        status = sw_json_peek(&in, &c);
    if (status == SW_OK)
        status = c == '{' ? read_json(v, in)
                          : read_lines(v, path, block, (const char *)block + bytes);
    sw_heap_free(block, SW_HEAP_FILES, (size_t)bytes + 1);
    return status;
}

sw_status swi_vocabulary_read(swi_vocabulary *out, const char *path, size_t unpack_bytes)
{
    swi_vocabulary v = {0};
    swi_source *source;
    SW_TRY(swi_source_open(&source, path, unpack_bytes));
    const sw_status status = read_vocabulary(&v, source);
    swi_source_close(source);
    if (status == SW_OK)
        *out = v;
    else
        swi_vocabulary_free(&v);
    return status;
}

void swi_vocabulary_free(swi_vocabulary *v)
{
    sw_heap_free(v->text, SW_HEAP_FILES, v->room);
    *v = (swi_vocabulary){0};
}
