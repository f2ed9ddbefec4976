/* Arrays of NumPy: two .npy files, "INPUTS.npy,TARGETS.npy", or those of an archive. */
#include "alloc/base/size.h"
#include "runtime/base/common.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/structs.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include "runtime/data/zip.h"
#include <stdio.h>
#include <string.h>

enum { TRAIN, TEST, PARTS, FIELDS = 2 };

/* Where the bytes of an array come from. */
typedef struct {
    const char *name; /* in messages */
    uint64_t bytes;   /* all of them, the header too */
    swi_source *file; /* one of both */
    swi_zip_member *member;
} byte_source;

static sw_status read_bytes(const byte_source *s, void *to, size_t bytes, size_t *got)
{
    return s->file != NULL ? swi_source_read(s->file, to, bytes, got)
                           : swi_zip_member_read(s->member, to, bytes, got);
}

typedef struct {
    byte_source source;
    uint32_t head_bytes; /* before the numbers */
    char descr[32];      /* "<f4"; "[" of records of several fields */
    sw_number type;
    bool fortran;   /* the first axis runs fastest */
    sw_shape shape; /* axis 0 is the samples' */
} array;

/* Of a data set in two parts: arrays of inputs and targets; no test part where `given` says
 * so. */
typedef struct {
    const char *name; /* of the data set */
    bool shapes_only, split;
    double share;
    uint64_t seed;
    bool given[PARTS], unlabelled[PARTS]; /* unlabelled: without y */
    array x[PARTS], y[PARTS];
    swi_zip zip[PARTS]; /* of archives; TEST: of test_path */
} pair_of_arrays;

/* ---- npy head ---------------------------------------------------------------------------- */

/* The header of a .npy file: a magic, a version, a length, and a Python dictionary of three
 * entries, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, of which exactly that
 * is read. */

enum { TEXT_BYTES = 4096 /* NumPy's are 118, or a few more for many axes */ };

typedef struct {
    const char *name;
    const char *text, *at;
} cursor;

static sw_status bad(const cursor *c, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: the header, after %d characters: %s", c->name,
            (int)(c->at - c->text), what);
}

static void skip_blanks(cursor *c)
{
    c->at += strspn(c->at, " \t\r\n");
}

static bool take(cursor *c, const char *word)
{
    const size_t n = strlen(word);
    skip_blanks(c);
    if (strncmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

/* A string in single or double quotation marks, without escapes. */
static bool take_string(cursor *c, char *to, size_t bytes)
{
    skip_blanks(c);
    const char mark = *c->at;
    if (mark != '\'' && mark != '"')
        return false;
    const char *first = c->at + 1, *end = strchr(first, mark);
    const size_t n = end != NULL ? (size_t)(end - first) : bytes;
    if (n >= bytes || memchr(first, '\\', n) != NULL)
        return false;
    memcpy(to, first, n);
    to[n] = '\0';
    c->at = end + 1;
    return true;
}

/* After a list of fields, with brackets in it; false where it does not end. */
static bool skip_fields(cursor *c)
{
    char mark = '\0';
    int depth = 0;
    do {
        const char x = *c->at++;
        if (x == '\0')
            return false;
        if (mark != '\0' || x == '\'' || x == '"')
            mark = mark == '\0' ? x : mark == x ? '\0' : mark;
        else
            depth += (x == '[' || x == '(') - (x == ']' || x == ')');
    } while (depth > 0);
    return true;
}

static sw_status take_type(cursor *c, array *h)
{
    skip_blanks(c);
    if (*c->at == '[') {
        h->descr[0] = '[';
        return skip_fields(c) ? SW_OK : bad(c, "descr has no end");
    }
    return take_string(c, h->descr, sizeof h->descr) ? SW_OK
                                                     : bad(c, "descr must be a short text");
}

/* One size; Python 2 wrote an L after it. */
static bool take_size(cursor *c, int64_t *out)
{
    int64_t x = 0;
    skip_blanks(c);
    if (*c->at < '0' || *c->at > '9')
        return false;
    for (; *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *c->at - '0', &x))
            return false;
    c->at += *c->at == 'L';
    *out = x;
    return true;
}

static sw_status take_entry(cursor *c, array *h, unsigned *seen)
{
    char key[16] = "";
    if (!take_string(c, key, sizeof key) || !take(c, ":"))
        return bad(c, "an entry 'key': value was expected");
    const unsigned bit = strcmp(key, "descr") == 0           ? 1
                         : strcmp(key, "fortran_order") == 0 ? 2
                         : strcmp(key, "shape") == 0         ? 4
                                                             : 0;
    if (bit == 0 || (*seen & bit) != 0)
        return bad(c, "the keys must be descr, fortran_order and shape, each once");
    *seen |= bit;
    if (bit == 1)
        return take_type(c, h);
    if (bit == 4) {
        /* "(3, 4)", "(3,)" or "()" */
        sw_shape *s = &h->shape;
        bool comma = false;
        if (!take(c, "("))
            return bad(c, "shape must be a tuple");
        for (s->rank = 0; !take(c, ")"); s->rank++) {
            if (s->rank > 0 && !comma)
                return bad(c, "the sizes of shape must have commas between them");
            if (s->rank == SW_MAX_RANK)
                SW_FAIL(SW_FORMAT, "%s: must have at most %d axes", c->name, SW_MAX_RANK);
            if (!take_size(c, &s->dim[s->rank]))
                return bad(c, "a size of shape must be a whole number below 2^63");
            comma = take(c, ",");
        }
        return s->rank != 1 || comma ? SW_OK : bad(c, "a tuple of one size must have a comma");
    }
    h->fortran = take(c, "True");
    return h->fortran || take(c, "False") ? SW_OK
                                          : bad(c, "fortran_order must be True or False");
}

static sw_status refuse_magic(const byte_source *source, const unsigned char *first, size_t n)
{
    unsigned char head[256];
    size_t more = 0;
    memcpy(head, first, n);
    SW_TRY(read_bytes(source, head + n, sizeof head - n, &more));
    n += more;
    const char *is = swi_identify_bytes(head, n);
    SW_FAIL(SW_FORMAT, "%s: must be a .npy file; it is %s", source->name,
            is != NULL ? is
            : n == 0   ? "empty"
                       : "something else");
}

/* Read the header, versions 1 to 3, from the first byte on: the first element comes next. */
static sw_status read_header(array *h)
{
    const byte_source *source = &h->source;
    static const char magic[] = "\x93NUMPY";
    const char *name = source->name;
    unsigned char head[12];
    char text[TEXT_BYTES + 1];
    size_t got;
    SW_TRY(read_bytes(source, head, 10, &got));
    if (got < 6 || memcmp(head, magic, 6) != 0)
        return refuse_magic(source, head, got);
    if (got == 10 && (head[6] < 1 || head[6] > 3 || head[7] != 0))
        SW_FAIL(SW_FORMAT, "%s: the version must be 1.0, 2.0 or 3.0 (got %d.%d)", name, head[6],
                head[7]);
    uint32_t length = got == 10 ? head[8] | (uint32_t)head[9] << 8 : 0;
    h->head_bytes = 10;
    if (got == 10 && head[6] > 1) {
        SW_TRY(read_bytes(source, head + 10, 2, &got));
        length |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
        h->head_bytes = 12;
        got = got == 2 ? 10 : 0;
    }
    if (got == 10 && length > TEXT_BYTES)
        SW_FAIL(SW_FORMAT, "%s: the header must have at most %d bytes (got %u)", name,
                TEXT_BYTES, length);
    const bool whole = got == 10;
    got = 0;
    if (whole)
        SW_TRY(read_bytes(source, text, length, &got));
    if (!whole || got < length)
        SW_FAIL(SW_FORMAT, "%s: cut in its header", name);
    h->head_bytes += length;
    text[length] = '\0';
    const size_t bytes = length;
    cursor c = {name, text, text};
    unsigned seen = 0;
    if (memchr(text, '\0', bytes) != NULL)
        return bad(&c, "it has a zero byte");
    if (!take(&c, "{"))
        return bad(&c, "a dictionary was expected");
    while (!take(&c, "}")) {
        SW_TRY(take_entry(&c, h, &seen));
        skip_blanks(&c);
        if (!take(&c, ",") && *c.at != '}')
            return bad(&c, "a comma or the closing brace was expected");
    }
    skip_blanks(&c);
    if (*c.at != '\0')
        return bad(&c, "nothing may follow the dictionary");
    return seen == 7 ? SW_OK : bad(&c, "descr, fortran_order and shape must be there");
}

/* ---- of samples -------------------------------------------------------------------------- */

static sw_status check_type(array *npy, const char *text)
{
    static const struct {
        const char *name;
        sw_number type;
    } known[] = {{"f4", SW_NUMBER_F32}, {"f8", SW_NUMBER_F64},  {"u1", SW_NUMBER_U8},
                 {"i1", SW_NUMBER_I8},  {"b1", SW_NUMBER_BOOL}, {"u2", SW_NUMBER_U16},
                 {"i2", SW_NUMBER_I16}, {"u4", SW_NUMBER_U32},  {"i4", SW_NUMBER_I32},
                 {"u8", SW_NUMBER_U64}, {"i8", SW_NUMBER_I64}};
    const char *name = npy->source.name;
    if (*text == '[')
        SW_FAIL(SW_FORMAT, "%s: has records of several fields: save each field by itself",
                name);
    if (text[0] == '>')
        SW_FAIL(SW_FORMAT, "%s: is big-endian ('%s'): save x.astype('<%s')", name, text,
                text + 1);
    if (strchr("|<", text[0]) != NULL && text[1] == 'O')
        SW_FAIL(SW_FORMAT, "%s: has Python objects, not numbers ('%s')", name, text);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text + 1, known[i].name) == 0 &&
            (text[0] == '<' || (text[0] == '|' && swi_number_bytes(known[i].type) == 1))) {
            npy->type = known[i].type;
            return SW_OK;
        }
    SW_FAIL(SW_FORMAT,
            "%s: the type must be f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 or b1 (got '%s'): "
            "save x.astype('<f4'), or '<i8' of classes",
            name, text);
}

/* Read and check the header: afterwards the first number comes next. All that the header
 * announces is there, and no more. A zero axis and a scalar are refused. */
static sw_status npy_head(array *npy)
{
    SW_TRY(read_header(npy));
    SW_TRY(check_type(npy, npy->descr));
    /* The shape must agree with the bytes that are there. */
    const char *name = npy->source.name;
    const sw_shape *s = &npy->shape;
    int64_t n;
    size_t bytes;
    if (s->rank == 0)
        SW_FAIL(SW_FORMAT, "%s: is one number: the first axis must be the samples'", name);
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 1)
            SW_FAIL(SW_FORMAT, "%s: axis %d must be at least 1 (got 0)", name, i);
    if (!sw_size_elements(s->dim, s->rank, &n) ||
        !sw_size_mul((size_t)n, swi_number_bytes(npy->type), &bytes))
        SW_FAIL(SW_FORMAT, "%s: the product of its sizes overflows", name);
    const uint64_t there = npy->source.bytes - npy->head_bytes;
    if (bytes != there)
        SW_FAIL(SW_FORMAT, "%s: its header announces %zu bytes of numbers, %llu are there",
                name, bytes, (unsigned long long)there);
    return SW_OK;
}

/* Two arrays become the fields of a data set. Numbers come through a window in the order of the
 * file, and go to where their sample and place say: nothing is held twice. */

enum { WINDOW = 1 << 15, AXES = SW_MAX_RANK };

/* The field of a data set that an array becomes. */
typedef struct {
    const array *npy;
    swi_take take;
    sw_shape shape;            /* of a sample */
    ptrdiff_t to_stride[AXES]; /* bytes in a sample, for each axis after that of samples */
    size_t sample_bytes;
    bool ids;
} column;

typedef struct {
    const pair_of_arrays *pair;
    column column[PARTS][FIELDS];
    int64_t largest, n[PARTS];
    uint64_t *place; /* of each sample: its number in its part, twice, and one more for testing;
                        NULL: as they come */
    sw_dataset *part[PARTS];
} sets;

/* ---- what becomes of them ---------------------------------------------------------------- */

static bool is_count_of_channels(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

/* The sample's shape, and how far apart its numbers lie there. */
static void lay_out(column *c, bool image)
{
    const sw_shape *s = &c->npy->shape;
    const bool last = image && s->rank == 4 && is_count_of_channels(s->dim[3]) &&
                      !is_count_of_channels(s->dim[1]);
    const size_t one = sw_dtype_bytes(c->take.to);
    int64_t step = (int64_t)one;
    c->shape = (sw_shape){s->rank - 1, {0}};
    memcpy(c->shape.dim, &s->dim[1], (size_t)(s->rank - 1) * sizeof s->dim[0]);
    for (int i = s->rank - 2; i >= 0; i--) {
        c->to_stride[i] = (ptrdiff_t)step;
        step *= s->dim[i + 1];
    }
    c->sample_bytes = (size_t)step;
    if (last) { /* channels, rows, columns */
        c->shape = SW_SHAPE(s->dim[3], s->dim[1], s->dim[2]);
        c->to_stride[0] = (ptrdiff_t)one * s->dim[2];
        c->to_stride[1] = (ptrdiff_t)one;
        c->to_stride[2] = (ptrdiff_t)one * s->dim[1] * s->dim[2];
    } else if (image && s->rank == 3) {
        c->shape = SW_SHAPE(1, s->dim[1], s->dim[2]);
    }
}

static void use_ids(column *c)
{
    c->ids = true;
    c->take.low = 0;
    c->take.high = c->take.high < INT32_MAX ? c->take.high : INT32_MAX - 1;
}

static int fields_of(const sets *s, int p)
{
    return s->pair->unlabelled[p] ? 1 : FIELDS;
}

static sw_status plan_alone(sets *s, int p)
{
    column *x = &s->column[p][0];
    x->npy = &s->pair->x[p];
    x->take = swi_take_of(x->npy->type);
    if (x->npy->type != SW_NUMBER_U8)
        x->take.to = SW_F32;
    return swi_dataset_check_count(x->npy->source.name, (uint64_t)x->npy->shape.dim[0]);
}

static sw_status plan_pair(sets *s, int p)
{
    column *x = &s->column[p][0], *y = &s->column[p][1];
    x->npy = &s->pair->x[p];
    y->npy = &s->pair->y[p];
    const sw_shape *xs = &x->npy->shape, *ys = &y->npy->shape;
    x->take = swi_take_of(x->npy->type);
    y->take = swi_take_of(y->npy->type);
    if (xs->dim[0] != ys->dim[0])
        SW_FAIL(SW_FORMAT, "%s: has %lld samples, %s has %lld", y->npy->source.name,
                (long long)ys->dim[0], x->npy->source.name, (long long)xs->dim[0]);
    SW_TRY(swi_dataset_check_count(x->npy->source.name, (uint64_t)xs->dim[0]));
    const bool whole = swi_number_is_whole(y->npy->type);
    const bool one = ys->rank == 1 || (ys->rank == 2 && ys->dim[1] == 1);
    const bool sequence =
        whole && swi_number_is_whole(x->npy->type) && ys->rank > 1 && swi_same_shape(xs, ys);
    if (whole && !one && !sequence) {
        char text[SW_MAX_RANK * 24], *to = text;
        for (int i = 0; i < ys->rank; i++)
            to += snprintf(to, 24, "%s%lld", i > 0 ? ", " : "", (long long)ys->dim[i]);
        SW_FAIL(SW_FORMAT,
                "%s: targets must be classes (n) or (n, 1), ids of the inputs' own shape, or "
                "floats (got integers of (%s))",
                y->npy->source.name, text);
    }
    if (whole)
        use_ids(y);
    if (sequence)
        use_ids(x);
    else if (x->npy->type != SW_NUMBER_U8)
        x->take.to = SW_F32;
    return SW_OK;
}

/* ---- where a number goes ----------------------------------------------------------------- */

/* Axes from the one that runs fastest, of which the samples' is `samples`. */
typedef struct {
    const column *c;
    int rank, samples;
    int64_t size[AXES], index[AXES];
    ptrdiff_t stride[AXES];
} walk;

static void begin(walk *w, const column *c)
{
    const sw_shape *s = &c->npy->shape;
    *w = (walk){.c = c, .rank = s->rank};
    w->samples = c->npy->fortran ? 0 : s->rank - 1;
    for (int i = 0; i < s->rank; i++) {
        const int axis = c->npy->fortran ? i : s->rank - 1 - i;
        w->size[i] = s->dim[axis];
        w->stride[i] = axis > 0 ? c->to_stride[axis - 1] : 0;
    }
    /* Axes that follow each other in the sample too become one: long runs. */
    while (w->samples > 1 && w->stride[1] == w->stride[0] * w->size[0]) {
        w->size[0] *= w->size[1];
        w->samples--;
        w->rank--;
        for (int i = 1; i < w->rank; i++) {
            w->size[i] = w->size[i + 1];
            w->stride[i] = w->stride[i + 1];
        }
    }
}

/* On by n of the fastest axis. */
static void go_on(walk *w, int64_t n)
{
    w->index[0] += n;
    for (int i = 0; i + 1 < w->rank && w->index[i] == w->size[i]; i++) {
        w->index[i] = 0;
        w->index[i + 1]++;
    }
}

static unsigned char *target_of(const sets *s, int p, int f, const walk *w)
{
    size_t sample = (size_t)w->index[w->samples];
    ptrdiff_t at = 0;
    if (s->place != NULL) {
        p = s->place[sample] & 1 ? TEST : TRAIN;
        sample = (size_t)(s->place[sample] >> 1);
    }
    for (int i = 0; i < w->rank; i++)
        if (i != w->samples)
            at += (ptrdiff_t)w->index[i] * w->stride[i];
    return s->part[p]->field[f].data + sample * w->c->sample_bytes + at;
}

/* Numbers of a window, in runs along the fastest axis. `fill` false: they are looked at. */
static sw_status take_window(sets *s, int p, int f, walk *w, const unsigned char *from,
                             size_t n, bool fill)
{
    const size_t width = swi_number_bytes(w->c->take.from);
    while (n > 0) {
        const int64_t left = w->samples == 0 && fill ? 1 : w->size[0] - w->index[0];
        const size_t run = n < (size_t)left ? n : (size_t)left;
        unsigned char *to = fill ? target_of(s, p, f, w) : NULL;
        const size_t taken = swi_take_numbers(&w->c->take, to, w->stride[0], from,
                                              (ptrdiff_t)width, run, &s->largest);
        if (taken < run) {
            char why[SWI_TAKE_TEXT];
            walk there = *w;
            go_on(&there, (int64_t)taken);
            swi_take_reason(&w->c->take, from + taken * width, why);
            SW_FAIL(SW_FORMAT, "%s: a number of sample %lld %s", w->c->npy->source.name,
                    (long long)there.index[there.samples], why);
        }
        go_on(w, (int64_t)run);
        from += run * width;
        n -= run;
    }
    return SW_OK;
}

/* All numbers, from the first, which comes next in the source. */
static sw_status go_through(sets *s, int p, int f, bool fill)
{
    const column *c = &s->column[p][f];
    const byte_source *source = &c->npy->source;
    unsigned char window[WINDOW];
    uint64_t left = source->bytes - c->npy->head_bytes;
    walk w;
    begin(&w, c);
    while (left > 0) {
        const size_t bytes = left < sizeof window ? (size_t)left : sizeof window;
        size_t got;
        SW_TRY(read_bytes(source, window, bytes, &got));
        if (got < bytes)
            return swi_source_changed(source->name);
        SW_TRY(take_window(s, p, f, &w, window, bytes / swi_number_bytes(c->take.from), fill));
        left -= bytes;
    }
    size_t more = 0; /* an archive holds the end against its checksum */
    SW_TRY(read_bytes(source, window, 1, &more));
    return more == 0 ? SW_OK : swi_source_changed(source->name);
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Ids are looked at first: how many there are decides their type. */
static sw_status count_ids(sets *s)
{
    for (int p = 0; p < PARTS; p++)
        for (int f = 0; s->pair->given[p] && f < fields_of(s, p); f++)
            if (s->column[p][f].ids) {
                SW_TRY(go_through(s, p, f, false));
                /* Back to the first number. */
                const byte_source *source = &s->column[p][f].npy->source;
                unsigned char passed[512];
                size_t got;
                SW_TRY(source->file != NULL ? swi_source_rewind(source->file)
                                            : swi_zip_member_rewind(source->member));
                for (size_t left = s->column[p][f].npy->head_bytes; left > 0; left -= got) {
                    SW_TRY(read_bytes(source, passed,
                                      left < sizeof passed ? left : sizeof passed, &got));
                    if (got == 0)
                        return swi_source_changed(source->name);
                }
            }
    for (int p = 0; p < PARTS; p++)
        for (int f = 0; s->pair->given[p] && f < fields_of(s, p); f++) {
            column *c = &s->column[p][f];
            if (c->ids && c->take.to == SW_I32)
                c->take.to = swi_ids_type(SW_NUMBER_I64, s->largest + 1);
            lay_out(c, f == 0 && !c->ids);
            if (f == 1 && c->npy->shape.rank == 2 && c->npy->shape.dim[1] == 1 && c->ids &&
                !s->column[p][0].ids)
                c->shape = SW_SCALAR;
        }
    return SW_OK;
}

static const char *describe(const column *c, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s (", sw_dtype_name(c->take.to));
    for (int i = 0; i < c->shape.rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)c->shape.dim[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, ")");
    return text;
}

/* Both parts go to the same program. */
static sw_status check_parts(sets *s)
{
    char a[200], b[200];
    if (!s->pair->given[TEST])
        return SW_OK;
    for (int f = 0; f < fields_of(s, TRAIN) && f < fields_of(s, TEST); f++) {
        column *x = &s->column[TRAIN][f], *y = &s->column[TEST][f];
        if (!swi_same_shape(&x->shape, &y->shape) || x->take.to != y->take.to)
            SW_FAIL(SW_FORMAT, "%s: its samples are %s, those of %s are %s",
                    y->npy->source.name, describe(y, a, sizeof a), x->npy->source.name,
                    describe(x, b, sizeof b));
    }
    return SW_OK;
}

static sw_status choose_samples(sets *s)
{
    const int64_t all = s->n[TRAIN];
    int64_t filled[PARTS] = {0, 0};
    SW_TRY(swi_split_sizes(s->pair->x[TRAIN].source.name, "sample", s->pair->share, all,
                           &s->n[TRAIN], &s->n[TEST]));
    if (s->pair->shapes_only)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&s->place, SW_HEAP_FILES, (size_t)all * sizeof(uint64_t)));
    for (int64_t i = 0; i < all; i++) {
        const bool to = swi_split_takes(s->pair->seed, (uint64_t)i, (uint64_t)(all - i),
                                        (uint64_t)(s->n[TEST] - filled[TEST]));
        s->place[i] = (uint64_t)filled[to ? TEST : TRAIN]++ * 2 + to;
    }
    return SW_OK;
}

static sw_status read_all(sets *s)
{
    const pair_of_arrays *pair = s->pair;
    for (int p = 0; p < PARTS; p++) {
        if (!pair->given[p])
            continue;
        SW_TRY(pair->unlabelled[p] ? plan_alone(s, p) : plan_pair(s, p));
        s->n[p] = pair->x[p].shape.dim[0];
    }
    SW_TRY(count_ids(s));
    SW_TRY(check_parts(s));
    if (pair->split)
        SW_TRY(choose_samples(s));
    for (int p = 0; p < PARTS; p++)
        if (s->n[p] > 0) {
            const int from = s->pair->given[p] ? p : TRAIN;
            const column *c = s->column[from];
            SW_TRY(swi_dataset_new(&s->part[p], s->pair->name, s->n[p]));
            s->part[p]->n_classes = s->column[TRAIN][1].ids ? s->largest + 1 : 0;
            s->part[p]->shapes_only = s->pair->shapes_only;
            for (int f = 0; f < fields_of(s, from); f++)
                SW_TRY(swi_dataset_field(s->part[p], c[f].take.to, c[f].shape));
        }
    for (int p = 0; p < PARTS && !pair->shapes_only; p++)
        for (int f = 0; pair->given[p] && f < fields_of(s, p); f++)
            SW_TRY(go_through(s, p, f, true));
    return SW_OK;
}

/* ---- npy --------------------------------------------------------------------------------- */

static sw_status open_array(array *npy, const char *path, size_t unpack_bytes)
{
    swi_source **file = &npy->source.file;
    SW_TRY(swi_source_open(file, path, unpack_bytes));
    npy->source.name = swi_source_path(*file);
    SW_TRY(swi_source_count(*file, UINT64_MAX, &npy->source.bytes));
    SW_TRY(swi_source_rewind(*file));
    return npy_head(npy);
}

/* The comma of "a,b"; the one after ".npy" where names have commas too. NULL: none. */
static const char *find_comma(const char *path)
{
    const char *comma = strchr(path, ',');
    if (comma == NULL || strchr(comma + 1, ',') == NULL)
        return comma;
    const char *behind = strstr(path, ".npy,");
    return behind != NULL ? behind + strlen(".npy") : comma;
}

static sw_status open_pair(pair_of_arrays *pair, int p, const char *path, const sw_npy_opts *o,
                           char *room)
{
    const size_t unpack_bytes = o->unpack_bytes;
    const char *comma = find_comma(path);
    if (comma == NULL && o->unlabelled) {
        pair->given[p] = pair->unlabelled[p] = true;
        return open_array(&pair->x[p], path, unpack_bytes);
    }
    if (comma == NULL || comma == path || comma[1] == '\0')
        SW_FAIL(SW_INVALID,
                "%s: the arrays must be INPUTS.npy,TARGETS.npy, two files with a comma between "
                "them (got '%s')",
                "sw_dataset_npy", path);
    memcpy(room, path, strlen(path) + 1);
    room[comma - path] = '\0';
    SW_TRY(open_array(&pair->x[p], room, unpack_bytes));
    SW_TRY(open_array(&pair->y[p], room + (comma - path) + 1, unpack_bytes));
    pair->given[p] = true;
    return SW_OK;
}

/* Arrays of NumPy in an archive: "FILE" or "FILE:INPUTS,TARGETS". */

/* ---- names ------------------------------------------------------------------------------- */

/* NAME, or NAME.npy. */
static sw_status find(swi_zip *zip, const char *name, size_t n, swi_zip_file *out, bool *found)
{
    bool more = true;
    *found = false;
    for (zip->at = 0; !*found;) {
        SW_TRY(swi_zip_next(zip, out, &more));
        if (!more)
            break;
        *found = out->name_bytes >= n && memcmp(out->name, name, n) == 0 &&
                 (out->name_bytes == n ||
                  (out->name_bytes == n + 4 && memcmp(out->name + n, ".npy", 4) == 0));
    }
    return SW_OK;
}

/* "x_train, y_train": as many as fit, for messages. */
static const char *list_names(swi_zip *zip, char *text, size_t bytes)
{
    swi_zip_file f;
    bool more = true;
    size_t used = 0;
    *text = '\0';
    for (zip->at = 0; used < bytes && swi_zip_next(zip, &f, &more) == SW_OK && more;) {
        const bool npy = f.name_bytes > 4 && memcmp(f.name + f.name_bytes - 4, ".npy", 4) == 0;
        const int n = (int)f.name_bytes - (npy ? 4 : 0);
        for (int i = 0; i < n; i++) /* a message is one line */
            if ((unsigned char)f.name[i] < 0x20 || f.name[i] == 0x7f)
                return text;
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? ", " : "", n,
                                 f.name);
    }
    return text;
}

/* The arrays "x" and "y" of one archive as a part, without targets where that is NULL; *found
 * false, and nothing open, where one of them is not there. */
static sw_status open_names(pair_of_arrays *a, int zip, int p, const char *const names[2],
                            const size_t n[2], size_t unpack_bytes, bool *found)
{
    swi_zip_file f[2];
    const int fields = names[1] != NULL ? 2 : 1;
    for (int i = 0; i < fields; i++) {
        SW_TRY(find(&a->zip[zip], names[i], n[i], &f[i], found));
        if (!*found)
            return SW_OK;
    }
    for (int i = 0; i < fields; i++) {
        array *npy = i == 0 ? &a->x[p] : &a->y[p];
        byte_source *source = &npy->source;
        SW_TRY(swi_zip_member_open(&source->member, &a->zip[zip], &f[i], unpack_bytes));
        source->name = swi_zip_member_name(source->member);
        source->bytes = f[i].bytes;
        SW_TRY(npy_head(npy));
    }
    a->given[p] = true;
    a->unlabelled[p] = fields == 1;
    return SW_OK;
}

/* ---- paths ------------------------------------------------------------------------------- */

/* Names that archives have without being asked: of training, and for testing. */
static const char *const usual[][4] = {
    {"x_train", "y_train", "x_test", "y_test"},
    {"train_images", "train_labels", "test_images", "test_labels"},
    {"x", "y", NULL, NULL},
    {"arr_0", "arr_1", NULL, NULL},
};

/* The inputs of an archive that has one array. */
static sw_status open_only(pair_of_arrays *a, int zip, int p, size_t unpack_bytes, bool *found)
{
    swi_zip_file first, f;
    bool more;
    *found = false;
    a->zip[zip].at = 0;
    SW_TRY(swi_zip_next(&a->zip[zip], &first, &more));
    if (more)
        SW_TRY(swi_zip_next(&a->zip[zip], &f, found));
    if (!more || *found) {
        *found = false;
        return SW_OK;
    }
    const char *const names[] = {first.name, NULL};
    const size_t n[] = {first.name_bytes, 0};
    return open_names(a, zip, p, names, n, unpack_bytes, found);
}

static sw_status open_usual(pair_of_arrays *a, int zip, int p, const sw_npy_opts *o,
                            bool own_test)
{
    char names[300];
    bool found = false;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !found; i++) {
        const bool of_test = p == TEST && usual[i][2] != NULL;
        const char *const *pair = usual[i] + (of_test ? 2 : 0);
        const size_t n[] = {strlen(pair[0]), strlen(pair[1])};
        SW_TRY(open_names(a, zip, p, pair, n, o->unpack_bytes, &found));
        if (found && own_test && usual[i][2] != NULL) {
            const size_t m[] = {strlen(usual[i][2]), strlen(usual[i][3])};
            bool test;
            SW_TRY(open_names(a, zip, TEST, usual[i] + 2, m, o->unpack_bytes, &test));
        }
    }
    if (!found && o->unlabelled)
        SW_TRY(open_only(a, zip, p, o->unpack_bytes, &found));
    if (!found)
        SW_FAIL(SW_INVALID,
                "%s: which arrays are inputs and targets? Give npz:FILE:INPUTS,TARGETS; there "
                "are: %s",
                sw_file_path(a->zip[zip].file), list_names(&a->zip[zip], names, sizeof names));
    return SW_OK;
}

/* The colon before "INPUTS,TARGETS", or after ".npz" before "INPUTS"; NULL: none, or
 * one of the file's own name. */
static const char *find_names(const char *path)
{
    const char *colon = strrchr(path, ':');
    if (colon == NULL || colon == path || strchr(colon, '/') != NULL)
        return NULL;
    const bool alone = colon - path > 4 && memcmp(colon - 4, ".npz", 4) == 0;
    return alone || strchr(colon, ',') != NULL ? colon : NULL;
}

static sw_status open_named(pair_of_arrays *a, int zip, int p, const char *names,
                            const sw_npy_opts *o)
{
    char there[300];
    const char *comma = strchr(names, ',');
    if (comma == NULL && !o->unlabelled)
        SW_FAIL(SW_INVALID, "%s: two arrays must be named, INPUTS,TARGETS (got '%s')",
                sw_file_path(a->zip[zip].file), names);
    const char *const pair[] = {names, comma != NULL ? comma + 1 : NULL};
    const size_t n[] = {comma != NULL ? (size_t)(comma - names) : strlen(names),
                        comma != NULL ? strlen(comma + 1) : 0};
    bool found;
    SW_TRY(open_names(a, zip, p, pair, n, o->unpack_bytes, &found));
    if (!found)
        SW_FAIL(SW_INVALID, "%s: has no arrays '%s'; there are: %s",
                sw_file_path(a->zip[zip].file), names,
                list_names(&a->zip[zip], there, sizeof there));
    return SW_OK;
}

/* A file of torch.save is an archive too, without arrays. */
static sw_status check_head(const swi_zip *zip)
{
    unsigned char head[SWI_FILE_HEAD];
    size_t got;
    SW_TRY(sw_file_read(zip->file, head, sizeof head, &got));
    const char *is = swi_identify_bytes(head, got);
    if (got >= 22 && memcmp(head, "PK\x03\x04", 4) == 0 &&
        swi_file_kind_of(head, got) != SWI_FILE_TORCH)
        return SW_OK;
    SW_FAIL(SW_FORMAT, "%s: must be an .npz archive; it is %s", sw_file_path(zip->file),
            got == 0     ? "empty"
            : is != NULL ? is
                         : "something else");
}

static sw_status open_path(pair_of_arrays *a, int p, const char *path, const sw_npy_opts *o,
                           bool own_test, char *room)
{
    const char *colon = find_names(path);
    memcpy(room, path, strlen(path) + 1);
    if (colon != NULL)
        room[colon - path] = '\0';
    SW_TRY(swi_zip_open(&a->zip[p], room));
    SW_TRY(check_head(&a->zip[p]));
    SW_TRY(swi_zip_list(&a->zip[p]));
    return colon != NULL ? open_named(a, p, p, colon + 1, o) : open_usual(a, p, p, o, own_test);
}

/* ---- calls ------------------------------------------------------------------------------- */

static sw_status check_opts(sw_npy_opts *to, const sw_npy_opts *given, const char *path,
                            bool train, bool test, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_npy_opts, to, given, call));
    SW_TRY(swi_reader_check(call, train, "train", path, "path"));
    SW_TRY(swi_reader_check_share(call, to->test_share));
    if (to->unlabelled < 0 || to->unlabelled > 1)
        SW_FAIL(SW_INVALID, "%s: unlabelled must be 0 or 1 (got %lld)", call,
                (long long)to->unlabelled);
    if (to->test_path != NULL && (to->test_share > 0.0 || !test))
        SW_FAIL(SW_INVALID, "%s: test_path and %s exclude each other", call,
                test ? "test_share" : "no data set for testing");
    return SW_OK;
}

static sw_status open_arrays(pair_of_arrays *pair, const char *path, const sw_npy_opts *o,
                             bool archive, bool own_test, char *room)
{
    SW_TRY(archive ? open_path(pair, TRAIN, path, o, own_test, room)
                   : open_pair(pair, TRAIN, path, o, room));
    if (o->test_path == NULL)
        return SW_OK;
    return archive ? open_path(pair, TEST, o->test_path, o, false, room)
                   : open_pair(pair, TEST, o->test_path, o, room);
}

/* A call, from its arguments to its data sets. */
static sw_status npy_call(sw_dataset **train, sw_dataset **test, const char *path,
                          const sw_npy_opts *given, const char *call, bool archive)
{
    sw_npy_opts o;
    pair_of_arrays pair = {.name = path};
    void *room;
    SW_TRY(check_opts(&o, given, path, train != NULL, test != NULL, call));
    pair.shapes_only = o.shapes_only != 0;
    pair.share = o.test_share;
    pair.seed = o.seed;
    const bool own_test = test != NULL && o.test_path == NULL && !(o.test_share > 0.0);
    const size_t bytes = strlen(path) + (o.test_path != NULL ? strlen(o.test_path) : 0) + 1;
    SW_TRY(sw_heap_alloc(&room, SW_HEAP_FILES, bytes)); /* as long as any path */
    sw_status status = open_arrays(&pair, path, &o, archive, own_test, room);
    sw_heap_free(room, SW_HEAP_FILES, bytes);
    pair.split = test != NULL && !pair.given[TEST] && !pair.unlabelled[TRAIN];
    sets s = {.pair = &pair, .largest = -1};
    if (status == SW_OK)
        status = read_all(&s);
    if (s.place != NULL)
        sw_heap_free(s.place, SW_HEAP_FILES,
                     (size_t)pair.x[TRAIN].shape.dim[0] * sizeof(uint64_t));
    for (int p = 0; p < PARTS; p++) {
        const byte_source *sources[] = {&pair.x[p].source, &pair.y[p].source};
        for (int f = 0; f < FIELDS; f++) {
            swi_source_close(sources[f]->file);
            swi_zip_member_close(sources[f]->member);
        }
        swi_zip_close(&pair.zip[p]);
    }
    return swi_parts_give(status, s.part, train, test);
}

sw_status sw_dataset_npy(sw_dataset **train, sw_dataset **test, const char *path,
                         const sw_npy_opts *opts)
{
    return npy_call(train, test, path, opts, "sw_dataset_npy", false);
}

sw_status sw_dataset_npz(sw_dataset **train, sw_dataset **test, const char *path,
                         const sw_npy_opts *opts)
{
    return npy_call(train, test, path, opts, "sw_dataset_npz", true);
}

/* ---- as readers -------------------------------------------------------------------------- */

static sw_npy_opts npy_opts_of(const swi_reader_opts *o)
{
    return SW_OPTS(sw_npy_opts, .unlabelled = o->unlabelled, .shapes_only = o->shapes_only,
                   .test_path = o->test_path, .test_share = o->test_share, .seed = o->seed,
                   .unpack_bytes = o->unpack_bytes);
}

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    const sw_npy_opts opts = npy_opts_of(o);
    return sw_dataset_npy(train, test, path, &opts);
}

static bool name_file(const char *path, int i, char *to, size_t bytes)
{
    const char *comma = find_comma(path);
    if (i > (comma != NULL))
        return false;
    const char *from = i == 0 ? path : comma + 1;
    const size_t n = i == 0 && comma != NULL ? (size_t)(comma - path) : strlen(from);
    swi_name_file(to, bytes, from, n, "");
    return true;
}

const swi_reader swi_reader_npy =
    SW_INIT(.name = "npy", .path = "INPUTS,TARGETS", .about = "for two arrays of NumPy",
            .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE, .name_file = name_file,
            .both = read_named);

static sw_status read_named_npz(sw_dataset **train, sw_dataset **test, const char *path,
                                const swi_reader_opts *o)
{
    const sw_npy_opts opts = npy_opts_of(o);
    return sw_dataset_npz(train, test, path, &opts);
}

static bool name_file_npz(const char *path, int i, char *to, size_t bytes)
{
    const char *colon = find_names(path);
    swi_name_file(to, bytes, path, colon != NULL ? (size_t)(colon - path) : strlen(path), "");
    return i == 0;
}

const swi_reader swi_reader_npz =
    SW_INIT(.name = "npz", .path = "FILE", .about = "for an archive of NumPy",
            .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE, .name_file = name_file_npz,
            .both = read_named_npz);
