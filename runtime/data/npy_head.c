/* The header of a .npy file: a magic, a version, a length, and a Python dictionary of three
 * entries, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, of which exactly that
 * is read. */
#include "alloc/base/size.h"
#include "runtime/data/identify.h"
#include "runtime/data/npy.h"
#include <string.h>

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

static sw_status take_type(cursor *c, swi_npy_header *h)
{
    skip_blanks(c);
    if (*c->at == '[') {
        h->type[0] = '[';
        return skip_fields(c) ? SW_OK : bad(c, "descr has no end");
    }
    return take_string(c, h->type, sizeof h->type) ? SW_OK
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

/* "(3, 4)", "(3,)" or "()" */
static sw_status take_shape(cursor *c, swi_npy_header *h)
{
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

static sw_status take_entry(cursor *c, swi_npy_header *h, unsigned *seen)
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
    if (bit == 4)
        return take_shape(c, h);
    h->fortran = take(c, "True");
    return h->fortran || take(c, "False") ? SW_OK
                                          : bad(c, "fortran_order must be True or False");
}

static sw_status parse(const char *name, swi_npy_header *h, const char *text, size_t bytes)
{
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

static sw_status refuse_magic(const swi_npy_source *source, const unsigned char *first,
                              size_t n)
{
    unsigned char head[256];
    size_t more = 0;
    memcpy(head, first, n);
    SW_TRY(source->read(source->of, head + n, sizeof head - n, &more));
    n += more;
    const char *is = swi_identify_bytes(head, n);
    SW_FAIL(SW_FORMAT, "%s: must be a .npy file; it is %s", source->name,
            is != NULL ? is
            : n == 0   ? "empty"
                       : "something else");
}

sw_status swi_npy_header_read(const swi_npy_source *source, swi_npy_header *h)
{
    static const char magic[] = "\x93NUMPY";
    const char *name = source->name;
    unsigned char head[12];
    char text[TEXT_BYTES + 1];
    size_t got;
    *h = (swi_npy_header){.bytes = 0};
    SW_TRY(source->read(source->of, head, 10, &got));
    if (got < 6 || memcmp(head, magic, 6) != 0)
        return refuse_magic(source, head, got);
    if (got == 10 && (head[6] < 1 || head[6] > 3 || head[7] != 0))
        SW_FAIL(SW_FORMAT, "%s: the version must be 1.0, 2.0 or 3.0 (got %d.%d)", name, head[6],
                head[7]);
    uint32_t length = got == 10 ? head[8] | (uint32_t)head[9] << 8 : 0;
    h->bytes = 10;
    if (got == 10 && head[6] > 1) {
        SW_TRY(source->read(source->of, head + 10, 2, &got));
        length |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
        h->bytes = 12;
        got = got == 2 ? 10 : 0;
    }
    if (got == 10 && length > TEXT_BYTES)
        SW_FAIL(SW_FORMAT, "%s: the header must have at most %d bytes (got %u)", name,
                TEXT_BYTES, length);
    const bool whole = got == 10;
    got = 0;
    if (whole)
        SW_TRY(source->read(source->of, text, length, &got));
    if (!whole || got < length)
        SW_FAIL(SW_FORMAT, "%s: cut in its header", name);
    h->bytes += length;
    text[length] = '\0';
    return parse(name, h, text, length);
}

/* ---- of samples -------------------------------------------------------------------------- */

static sw_status check_type(swi_npy *npy, const char *text)
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
    SW_FAIL(
        SW_FORMAT,
        "%s: the type must be f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 or b1 (got '%s'): save "
        "x.astype('<f4'), or '<i8' of classes",
        name, text);
}

/* The shape must agree with the bytes that are there. */
static sw_status check_size(const swi_npy *npy)
{
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

sw_status swi_npy_head(swi_npy *npy)
{
    swi_npy_header h;
    SW_TRY(swi_npy_header_read(&npy->source, &h));
    npy->head_bytes = h.bytes;
    npy->fortran = h.fortran;
    npy->shape = h.shape;
    SW_TRY(check_type(npy, h.type));
    return check_size(npy);
}
