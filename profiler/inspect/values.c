/* Counted bytes of a file, and trees of values from JSON of a million objects and from
 * pickles. */
#include "alloc/base/mem.h"
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "profiler/inspect/values.h"
#include <math.h>
#include <string.h>

#define DEFLATE_MOST 1032 /* bytes of one */
#define INFLATED_MOST (UINT64_C(1) << 36)

static sw_status fill(byte_reader *r)
{
    size_t got;
    SW_TRY(r->gzip != NULL ? sw_gzip_read(r->gzip, r->buffer, sizeof r->buffer, &got)
                           : sw_file_read(r->file, r->buffer, sizeof r->buffer, &got));
    r->begin = 0;
    r->end = got;
    return SW_OK;
}

sw_status byte_reader_open(byte_reader *r, const char *path)
{
    memset(r, 0, offsetof(byte_reader, buffer));
    r->path = path;
    SW_TRY(sw_file_open(&r->file, path, SW_FILE_READ));
    sw_status status = fill(r);
    if (status == SW_OK && r->end >= 2 && r->buffer[0] == 0x1f && r->buffer[1] == 0x8b) {
        status = sw_file_seek(r->file, 0);
        if (status == SW_OK)
            status = sw_gzip_open(&r->gzip, r->file);
        if (status == SW_OK)
            status = fill(r);
    }
    if (status != SW_OK)
        byte_reader_close(r);
    return status;
}

/* All of them, at most: of a compressed file what it may hold. */
static sw_status byte_reader_bytes(byte_reader *r, uint64_t *out)
{
    SW_TRY(sw_file_size(r->file, out));
    if (r->gzip != NULL)
        *out = *out < INFLATED_MOST / DEFLATE_MOST ? *out * DEFLATE_MOST : INFLATED_MOST;
    return SW_OK;
}

void byte_reader_close(byte_reader *r)
{
    sw_gzip_close(r->gzip);
    sw_file_drop(r->file);
    sw_heap_free(r->text, SW_HEAP_FILES, r->text_capacity);
    r->file = NULL;
    r->gzip = NULL;
    r->text = NULL;
}

/* The next byte, 0 to 255, which stays; -1 at the end of the file. */
static sw_status byte_reader_peek(byte_reader *r, int *out)
{
    if (r->begin == r->end)
        SW_TRY(fill(r));
    *out = r->begin < r->end ? r->buffer[r->begin] : -1;
    return SW_OK;
}

static sw_status byte_reader_next(byte_reader *r, int *out)
{
    SW_TRY(byte_reader_peek(r, out));
    if (*out >= 0) {
        r->begin++;
        r->at++;
    }
    return SW_OK;
}

static sw_status reserve(byte_reader *r, size_t wanted)
{
    if (wanted <= r->text_capacity)
        return SW_OK;
    const size_t capacity = wanted > 2 * r->text_capacity ? wanted : 2 * r->text_capacity;
    SW_TRY(sw_heap_resize(&r->text, SW_HEAP_FILES, r->text_capacity, capacity));
    r->text_capacity = capacity;
    return SW_OK;
}

/* The next n bytes, at r->text; SW_FORMAT where the file ends before. It never takes more than
 * the file turned out to have. */
static sw_status byte_reader_take(byte_reader *r, uint64_t n)
{
    const uint64_t from = r->at;
    SW_TRY(reserve(r, 1));
    for (size_t have = 0; have < n;) {
        int next;
        SW_TRY(byte_reader_peek(r, &next));
        if (next < 0)
            SW_FAIL(SW_FORMAT,
                    "%s: byte %llu: the file ends too early: it must have %llu bytes from byte "
                    "%llu on",
                    r->path, (unsigned long long)r->at, (unsigned long long)n,
                    (unsigned long long)from);
        const size_t there = r->end - r->begin;
        const size_t part = n - have < there ? (size_t)(n - have) : there;
        SW_TRY(reserve(r, have + part));
        memcpy(r->text + have, r->buffer + r->begin, part);
        r->begin += part;
        r->at += part;
        have += part;
    }
    return SW_OK;
}

/* n bytes as a number, the lowest first; n is at most 8. */
static sw_status byte_reader_number(byte_reader *r, size_t n, uint64_t *out)
{
    uint64_t x = 0;
    SW_TRY(byte_reader_take(r, n));
    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)(unsigned char)r->text[i] << 8 * i;
    *out = x;
    return SW_OK;
}

/* ---- trees ------------------------------------------------------------------------------- */

#define KIND_MASK (((uint64_t)1 << VALUE_KIND_BITS) - 1)
#define RECORD_TEXTS 256 /* of a line: clearing them costs less than the line */
#define COMMIT_BYTES ((size_t)1 << 20)

typedef struct {
    size_t n;
    char bytes[]; /* and a zero */
} text;

/* Of a dictionary `n` is its keys, and the first item the address of a struct value_keys. */
typedef struct {
    uint32_t n, capacity; /* words */
    value *items;
} list;

/* Shared ones have no room for more. */
struct value_keys {
    uint32_t n, capacity;
    value at[];
};

typedef struct {
    double real;
    bool whole;
    uint64_t magnitude;
} number;

sw_status value_tree_open_for(value_tree *t, const char *path, size_t bytes)
{
    memset(t, 0, sizeof *t);
    t->path = path;
    t->n_texts = RECORD_TEXTS;
    if (!sw_size_align(bytes, sw_page_bytes(), &t->reserved))
        SW_FAIL(SW_NOMEM, "%s: %zu bytes are too many to read", path, bytes);
    void *base;
    SW_TRY(sw_range_reserve(&base, t->reserved));
    t->base = base;
    return SW_OK;
}

void value_tree_reset(value_tree *t)
{
    t->used = 0;
    t->full = false;
    memset(t->texts, 0, t->n_texts * sizeof *t->texts);
    memset(t->keys, 0, sizeof t->keys);
}

sw_status value_tree_open(value_tree *t, const char *path, uint64_t file_bytes)
{
    if (file_bytes > SIZE_MAX / 4 / VALUE_BYTES)
        SW_FAIL(SW_NOMEM, "%s: %llu bytes are too many to read", path,
                (unsigned long long)file_bytes);
    SW_TRY(value_tree_open_for(t, path, (size_t)file_bytes * VALUE_BYTES + COMMIT_BYTES));
    t->n_texts = VALUE_TEXTS;
    return SW_OK;
}

void value_tree_close(value_tree *t)
{
    if (t->base != NULL)
        sw_range_release(t->base, t->reserved);
    t->base = NULL;
}

static sw_status take(value_tree *t, void **out, size_t bytes)
{
    const size_t left = t->reserved - t->used; /* a multiple of 16, as all that is taken */
    t->full = bytes > left;
    if (t->full && t->line > 0)
        SW_FAIL(SW_FORMAT, "%s: line %llu takes more than %zu bytes of memory to read", t->path,
                (unsigned long long)t->line, t->reserved);
    if (t->full)
        SW_FAIL(SW_FORMAT, "%s: what it holds takes more than %d times its size", t->path,
                VALUE_BYTES);
    bytes = (bytes + 15) / 16 * 16;
    if (t->used + bytes > t->committed) {
        size_t to = (t->used + bytes + COMMIT_BYTES - 1) / COMMIT_BYTES * COMMIT_BYTES;
        to = to < t->reserved ? to : t->reserved;
        SW_TRY(sw_range_commit(t->base, t->committed, to));
        t->committed = to;
    }
    *out = t->base + t->used;
    t->used += bytes;
    return SW_OK;
}

static value word(const void *at, value_kind kind)
{
    return (uint64_t)(uintptr_t)at | (uint64_t)kind;
}

static void *address(value v)
{
    return (void *)(uintptr_t)(v & ~KIND_MASK); /* NOLINT: made by word() */
}

value_kind value_kind_of(value v)
{
    return (value_kind)(v & KIND_MASK);
}

value value_int(int64_t x)
{
    const uint64_t shifted = (uint64_t)x << VALUE_KIND_BITS;
    if ((int64_t)shifted >> VALUE_KIND_BITS != x)
        return VALUE_OTHER;
    return shifted | VALUE_INT;
}

int64_t value_number(value v)
{
    return value_kind_of(v) == VALUE_INT ? (int64_t)v >> VALUE_KIND_BITS : 0;
}

static const number *number_of(value v)
{
    return value_kind_of(v) == VALUE_REAL ? address(v) : NULL;
}

bool value_is_number(value v)
{
    return value_kind_of(v) == VALUE_INT || value_kind_of(v) == VALUE_REAL;
}

double value_real(value v)
{
    const number *x = number_of(v);
    return x != NULL ? x->real : (double)value_number(v);
}

bool value_whole(value v, uint64_t *out)
{
    const number *x = number_of(v);
    if (value_kind_of(v) == VALUE_INT) {
        *out = (uint64_t)value_number(v);
        return value_number(v) >= 0;
    }
    if (x == NULL || !(x->real >= 0.0 && (x->whole || x->real < 0x1p64)) ||
        floor(x->real) != x->real)
        return false;
    *out = x->whole ? x->magnitude : (uint64_t)x->real;
    return true;
}

const char *value_text(value v)
{
    return value_kind_of(v) == VALUE_TEXT ? ((const text *)address(v))->bytes : NULL;
}

static const list *list_of(value v)
{
    const value_kind kind = value_kind_of(v);
    return kind == VALUE_LIST || kind == VALUE_DICT ? address(v) : NULL;
}

uint64_t value_count(value v)
{
    const list *l = list_of(v);
    return l == NULL ? 0 : l->n;
}

value value_item(value v, uint64_t i)
{
    return value_kind_of(v) == VALUE_LIST && i < value_count(v) ? list_of(v)->items[i] : 0;
}

static struct value_keys *keys_of(const list *l)
{
    return (struct value_keys *)(uintptr_t)l->items[0]; /* NOLINT: made by set_keys() */
}

static bool has(value dict, uint64_t i)
{
    return value_kind_of(dict) == VALUE_DICT && i < value_count(dict);
}

const char *value_key(value dict, uint64_t i)
{
    return has(dict, i) ? value_text(keys_of(list_of(dict))->at[i]) : NULL;
}

value value_member(value dict, uint64_t i)
{
    return has(dict, i) ? list_of(dict)->items[1 + i] : 0;
}

value value_at(value dict, const char *key)
{
    if (value_kind_of(dict) != VALUE_DICT)
        return 0;
    const list *l = list_of(dict);
    for (uint32_t i = l->n; i > 0; i--) {
        const char *name = value_text(keys_of(l)->at[i - 1]);
        if (name != NULL && *name == *key && strcmp(name, key) == 0)
            return l->items[i];
    }
    return 0;
}

/* ---- building ---------------------------------------------------------------------------- */

sw_status value_text_new(value_tree *t, value *out, const char *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    value *known = &t->texts[(h ^ h >> 29) % t->n_texts];
    if (*known != 0) {
        const text *x = address(*known);
        if (x->n == n && memcmp(x->bytes, bytes, n) == 0) {
            *out = *known;
            return SW_OK;
        }
    }
    void *block = NULL;
    size_t capacity;
    if (!sw_size_add(n, sizeof(text) + 1, &capacity))
        SW_FAIL(SW_FORMAT, "%s: a text of %zu bytes", t->path, n);
    SW_TRY(take(t, &block, capacity));
    text *x = block;
    x->n = n;
    memcpy(x->bytes, bytes, n);
    x->bytes[n] = '\0';
    for (char *zero = x->bytes; (zero = memchr(zero, '\0', (size_t)(x->bytes + n - zero)));)
        *zero = '?';
    *out = *known = word(x, VALUE_TEXT);
    return SW_OK;
}

sw_status value_real_new(value_tree *t, value *out, double real, bool whole, uint64_t magnitude)
{
    void *block = NULL;
    SW_TRY(take(t, &block, sizeof(number)));
    *(number *)block = (number){real, whole, magnitude};
    *out = word(block, VALUE_REAL);
    return SW_OK;
}

sw_status value_new(value_tree *t, value *out, value_kind kind)
{
    void *block = NULL;
    SW_TRY(take(t, &block, sizeof(list)));
    *(list *)block = (list){0};
    *out = word(block, kind);
    return SW_OK;
}

/* Room for n items more. Items that are added at once first have just the room they take; from
 * then on room doubles. */
static sw_status make_room(value_tree *t, list *l, uint32_t used, size_t n)
{
    size_t capacity = used + n;
    void *block = NULL;
    if (n <= l->capacity - used)
        return SW_OK;
    if (l->n > 0)
        capacity = capacity > 2 * (size_t)l->capacity ? capacity : 2 * (size_t)l->capacity;
    if (capacity > UINT32_MAX)
        SW_FAIL(SW_UNSUPPORTED, "%s: a list of more than 2^32 items", t->path);
    SW_TRY(take(t, &block, capacity * sizeof(value)));
    if (used > 0)
        memcpy(block, l->items, used * sizeof(value));
    l->items = block;
    l->capacity = (uint32_t)capacity;
    return SW_OK;
}

/* n keys and values. The first keys of a dictionary others may have too; keys of one that grows
 * become its own. */
static sw_status add_to_dict(value_tree *t, list *l, const value *items, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ items[2 * i]) * UINT64_C(0x9e3779b97f4a7c15) >> 1;
    struct value_keys **known = &t->keys[(h >> 40) % VALUE_KEYS], *keys = *known;
    SW_TRY(make_room(t, l, l->n > 0 ? l->n + 1 : 0, l->n > 0 ? n : n + 1));
    bool there = l->n == 0 && keys != NULL && keys->n == n;
    for (size_t i = 0; i < n && there; i++)
        there = keys->at[i] == items[2 * i];
    if (!there) {
        const struct value_keys none = {0}, *old = l->n > 0 ? keys_of(l) : &none;
        keys = l->n > 0 ? keys_of(l) : NULL;
        if (keys == NULL || keys->capacity - keys->n < n) {
            const size_t capacity = l->n > 0 ? 2 * (old->n + n) : n;
            void *block = NULL;
            SW_TRY(take(t, &block, sizeof *keys + capacity * sizeof(value)));
            keys = block;
            *keys = (struct value_keys){.n = old->n, .capacity = (uint32_t)capacity};
            memcpy(keys->at, old->at, old->n * sizeof(value));
        }
        for (size_t i = 0; i < n; i++)
            keys->at[keys->n++] = items[2 * i];
        *known = l->n == 0 ? keys : *known;
    }
    l->items[0] = (uint64_t)(uintptr_t)keys;
    for (size_t i = 0; i < n; i++)
        l->items[1 + l->n++] = items[2 * i + 1];
    return SW_OK;
}

sw_status value_add(value_tree *t, value to, const value *items, size_t n)
{
    list *l = address(to);
    if (value_kind_of(to) == VALUE_DICT)
        return n > 1 ? add_to_dict(t, l, items, n / 2) : SW_OK;
    SW_TRY(make_room(t, l, l->n, n));
    memcpy(l->items + l->n, items, n * sizeof *items);
    l->n += (uint32_t)n;
    return SW_OK;
}

/* ---- JSON -------------------------------------------------------------------------------- */

typedef struct {
    sw_json_text text; /* the first member: `grow` gets its address */
    value_tree *tree;
    json_buffer *buffer;
    sw_json_in *in;
} parser;

void json_buffer_free(json_buffer *buffer)
{
    sw_heap_free(buffer->stack, SW_HEAP_FILES, buffer->cap_stack * sizeof *buffer->stack);
    sw_heap_free(buffer->text, SW_HEAP_FILES, buffer->cap_text);
    *buffer = (json_buffer){0};
}

static sw_status push(parser *p, value v)
{
    json_buffer *r = p->buffer;
    if (r->n_stack == UINT32_MAX / 2)
        return sw_json_bad(p->in, "too many values");
    SW_TRY(sw_heap_reserve(&r->stack, SW_HEAP_FILES, &r->cap_stack, r->n_stack + 1));
    r->stack[r->n_stack++] = v;
    return SW_OK;
}

static sw_status grow(sw_json_text *t)
{
    parser *p = (parser *)t;
    json_buffer *r = p->buffer;
    if (t->length >= UINT32_MAX / 2)
        return sw_json_bad(p->in, "a string is too long");
    SW_TRY(sw_heap_reserve(&r->text, SW_HEAP_FILES, &r->cap_text, (uint32_t)t->length + 1));
    t->to = r->text;
    t->cap = r->cap_text;
    return SW_OK;
}

static sw_status read_string(parser *p)
{
    value v;
    p->text = (sw_json_text){p->buffer->text, p->buffer->cap_text, 0, grow};
    SW_TRY(sw_json_get_string(p->in, &p->text));
    SW_TRY(value_text_new(p->tree, &v, p->text.to != NULL ? p->text.to : "", p->text.length));
    return push(p, v);
}

static sw_status read_value(parser *p, int depth);

static sw_status read_members(parser *p, bool object, int depth)
{
    const int close = object ? '}' : ']';
    const uint32_t height = p->buffer->n_stack;
    value v;
    bool end, more = true;
    if (depth == JSON_TREE_DEPTH)
        return sw_json_bad(p->in, "brackets are too deep");
    SW_TRY(sw_json_expect(p->in, object ? '{' : '['));
    SW_TRY(value_new(p->tree, &v, object ? VALUE_DICT : VALUE_LIST));
    SW_TRY(sw_json_accept(p->in, close, &end));
    while (!end && more) {
        int c = '"';
        if (object)
            SW_TRY(sw_json_peek(p->in, &c));
        if (c != '"')
            return sw_json_bad(p->in, "a key was expected");
        if (object) {
            SW_TRY(read_string(p));
            SW_TRY(sw_json_expect(p->in, ':'));
        }
        SW_TRY(read_value(p, depth + 1));
        /* Another one follows, or the bracket closes. */
        SW_TRY(sw_json_peek(p->in, &c));
        if (c != ',' && c != close)
            return sw_json_bad(p->in, c < 0 ? "the text ends inside of brackets"
                                            : "a comma or the closing bracket was expected");
        SW_TRY(sw_json_accept(p->in, ',', &more));
        if (more)
            SW_TRY(sw_json_peek(p->in, &c));
        if (more && c == close)
            return sw_json_bad(p->in, "a comma before the closing bracket");
    }
    if (!end)
        SW_TRY(sw_json_expect(p->in, close));
    if (p->buffer->n_stack > height)
        SW_TRY(value_add(p->tree, v, p->buffer->stack + height, p->buffer->n_stack - height));
    p->buffer->n_stack = height;
    return push(p, v);
}

/* Calls itself by way of read_members, JSON_TREE_DEPTH times at most. */
static sw_status read_value(parser *p, int depth)
{
    int c;
    SW_TRY(sw_json_peek(p->in, &c));
    if (c < 0)
        return sw_json_bad(p->in, "the text ends where a value was expected");
    if (c == '"')
        return read_string(p);
    if (c == '{' || c == '[')
        return read_members(p, c == '{', depth);
    if (c != '-' && (c < '0' || c > '9')) {
        sw_json_word word;
        SW_TRY(sw_json_get_word(p->in, &word));
        return push(p, word == SW_JSON_NULL        ? VALUE_NULL
                       : word == SW_JSON_NO_NUMBER ? VALUE_OTHER
                       : word == SW_JSON_TRUE      ? VALUE_TRUE
                                                   : VALUE_FALSE);
    }
    sw_json_number x;
    value v = VALUE_OTHER;
    SW_TRY(sw_json_get_number(p->in, &x));
    if (x.whole && x.magnitude <= INT64_MAX)
        v = value_int(x.minus ? -(int64_t)x.magnitude : (int64_t)x.magnitude);
    if (value_kind_of(v) != VALUE_INT)
        SW_TRY(value_real_new(p->tree, &v, x.real, x.whole, x.magnitude));
    return push(p, v);
}

sw_status json_tree_build(value_tree *t, json_buffer *buffer, sw_json_in *in, value *out)
{
    parser p = {.tree = t, .buffer = buffer, .in = in};
    int c;
    buffer->n_stack = 0;
    SW_TRY(read_value(&p, 0));
    SW_TRY(sw_json_peek(in, &c));
    if (c >= 0)
        return sw_json_bad(in, "something stands after the value");
    *out = buffer->stack[0];
    return SW_OK;
}

/* The bytes that the reader has after those that are used up. */
static sw_status more_of_file(sw_json_in *in)
{
    byte_reader *r = in->context;
    int c;
    r->at += in->bytes;
    r->begin = r->end;
    SW_TRY(byte_reader_peek(r, &c));
    in->text = r->buffer + r->begin;
    in->at = 0;
    in->bytes = r->end - r->begin;
    in->before = r->at;
    return SW_OK;
}

sw_status json_tree_read(value_tree *t, byte_reader *r, value *out)
{
    json_buffer buffer = {0};
    sw_json_in in = sw_json_in_text(NULL, 0, r->path);
    int first;
    SW_TRY(byte_reader_peek(r, &first));
    in.more = more_of_file;
    in.context = r;
    in.text = r->buffer + r->begin;
    in.bytes = r->end - r->begin;
    in.before = r->at;
    in.python = true;
    const sw_status status = json_tree_build(t, &buffer, &in, out);
    json_buffer_free(&buffer);
    return status;
}

/* ---- pickles ----------------------------------------------------------------------------- */

/* The pickle machine: a stack, marks on it, and a memo of values that may come again. Its
 * memory is a multiple of the bytes read: each opcode pushes one value or takes some away, and
 * the numbers of the memo go up one by one. There is no recursion. */

/* The work of the opcodes here. */
typedef enum {
    NOT_KNOWN, /* no opcode */
    WOULD_RUN, /* looks up or calls something */
    NOT_DATA,  /* data that a snapshot does not have, or text of protocols 0 and 1 */
    START,
    FRAME,
    STOP,
    MARK,
    POP,
    POP_MARK,
    DUP,
    SPECIAL,  /* None, true, false: no argument */
    INT,      /* `bytes` of argument, with a sign from 4 bytes on */
    LONG,     /* length in `bytes`, two's complement */
    REAL,     /* 8 bytes */
    TEXT,     /* length in `bytes` */
    NEW_LIST, /* and the empty tuple */
    NEW_DICT,
    ADD_ONE, /* `bytes` items to the container under them */
    ADD_MARKED,
    LIST_MARKED,
    DICT_MARKED,
    TUPLE, /* of `bytes` items */
    PUT,   /* number in `bytes`; 0: the next one */
    GET
} action;

typedef struct {
    const char *name;
    unsigned char action, bytes;
} opcode;

/* The names are those of Python's pickletools. */
static const opcode opcodes[256] = {
    [0x80] = {"PROTO", START, 1},
    [0x95] = {"FRAME", FRAME, 8},
    ['.'] = {"STOP", STOP, 0},
    ['('] = {"MARK", MARK, 0},
    ['0'] = {"POP", POP, 0},
    ['1'] = {"POP_MARK", POP_MARK, 0},
    ['2'] = {"DUP", DUP, 0},
    ['N'] = {"NONE", SPECIAL, 0},
    [0x88] = {"NEWTRUE", SPECIAL, 0},
    [0x89] = {"NEWFALSE", SPECIAL, 0},
    ['K'] = {"BININT1", INT, 1},
    ['M'] = {"BININT2", INT, 2},
    ['J'] = {"BININT", INT, 4},
    [0x8a] = {"LONG1", LONG, 1},
    [0x8b] = {"LONG4", LONG, 4},
    ['G'] = {"BINFLOAT", REAL, 8},
    ['U'] = {"SHORT_BINSTRING", TEXT, 1},
    ['T'] = {"BINSTRING", TEXT, 4},
    ['C'] = {"SHORT_BINBYTES", TEXT, 1},
    ['B'] = {"BINBYTES", TEXT, 4},
    [0x8e] = {"BINBYTES8", TEXT, 8},
    [0x8c] = {"SHORT_BINUNICODE", TEXT, 1},
    ['X'] = {"BINUNICODE", TEXT, 4},
    [0x8d] = {"BINUNICODE8", TEXT, 8},
    [']'] = {"EMPTY_LIST", NEW_LIST, 0},
    [')'] = {"EMPTY_TUPLE", NEW_LIST, 0},
    ['}'] = {"EMPTY_DICT", NEW_DICT, 0},
    ['a'] = {"APPEND", ADD_ONE, 1},
    ['s'] = {"SETITEM", ADD_ONE, 2},
    ['e'] = {"APPENDS", ADD_MARKED, 1},
    ['u'] = {"SETITEMS", ADD_MARKED, 2},
    ['l'] = {"LIST", LIST_MARKED, 0},
    ['t'] = {"TUPLE", LIST_MARKED, 0},
    ['d'] = {"DICT", DICT_MARKED, 0},
    [0x85] = {"TUPLE1", TUPLE, 1},
    [0x86] = {"TUPLE2", TUPLE, 2},
    [0x87] = {"TUPLE3", TUPLE, 3},
    ['q'] = {"BINPUT", PUT, 1},
    ['r'] = {"LONG_BINPUT", PUT, 4},
    [0x94] = {"MEMOIZE", PUT, 0},
    ['h'] = {"BINGET", GET, 1},
    ['j'] = {"LONG_BINGET", GET, 4},
    ['c'] = {"GLOBAL", WOULD_RUN, 0},
    [0x93] = {"STACK_GLOBAL", WOULD_RUN, 0},
    ['R'] = {"REDUCE", WOULD_RUN, 0},
    ['b'] = {"BUILD", WOULD_RUN, 0},
    ['i'] = {"INST", WOULD_RUN, 0},
    ['o'] = {"OBJ", WOULD_RUN, 0},
    [0x81] = {"NEWOBJ", WOULD_RUN, 0},
    [0x92] = {"NEWOBJ_EX", WOULD_RUN, 0},
    [0x82] = {"EXT1", WOULD_RUN, 0},
    [0x83] = {"EXT2", WOULD_RUN, 0},
    [0x84] = {"EXT4", WOULD_RUN, 0},
    ['P'] = {"PERSID", WOULD_RUN, 0},
    ['Q'] = {"BINPERSID", WOULD_RUN, 0},
    [0x97] = {"NEXT_BUFFER", NOT_DATA, 0},
    [0x98] = {"READONLY_BUFFER", NOT_DATA, 0},
    [0x96] = {"BYTEARRAY8", NOT_DATA, 0},
    [0x8f] = {"EMPTY_SET", NOT_DATA, 0},
    [0x90] = {"ADDITEMS", NOT_DATA, 0},
    [0x91] = {"FROZENSET", NOT_DATA, 0},
    ['I'] = {"INT", NOT_DATA, 0},
    ['L'] = {"LONG", NOT_DATA, 0},
    ['F'] = {"FLOAT", NOT_DATA, 0},
    ['S'] = {"STRING", NOT_DATA, 0},
    ['V'] = {"UNICODE", NOT_DATA, 0},
    ['p'] = {"PUT", NOT_DATA, 0},
    ['g'] = {"GET", NOT_DATA, 0},
};

typedef struct {
    value_tree *tree;
    byte_reader *in;
    uint64_t at; /* of the opcode */
    const opcode *op;
    value *stack, *memo;
    uint32_t *marks; /* heights of the stack */
    uint32_t n_stack, cap_stack, n_memo, cap_memo, n_marks, cap_marks;
    bool stopped;
} machine;

static sw_status pickle_damaged(const machine *m, const char *format, ...) SW_PRINTF(2, 3);

static sw_status pickle_damaged(const machine *m, const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(what, sizeof what, format, args);
    va_end(args);
    SW_FAIL(SW_FORMAT, "%s: byte %llu: %s", m->in->path, (unsigned long long)m->at, what);
}

static sw_status push_value(machine *m, value v)
{
    if (m->n_stack == UINT32_MAX / 2)
        return pickle_damaged(m, "more than %u values wait", UINT32_MAX / 2);
    SW_TRY(sw_heap_reserve(&m->stack, SW_HEAP_FILES, &m->cap_stack, m->n_stack + 1));
    m->stack[m->n_stack++] = v;
    return SW_OK;
}

/* n values above the latest mark are there to be taken. */
static sw_status need(const machine *m, uint32_t n)
{
    const uint32_t floor = m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
    if (m->n_stack - floor < n)
        return pickle_damaged(m, "%s needs %u values (got %u)", m->op->name, n,
                              m->n_stack - floor);
    return SW_OK;
}

static sw_status pop_mark(machine *m, uint32_t *height)
{
    if (m->n_marks == 0)
        return pickle_damaged(m, "%s without a mark", m->op->name);
    *height = m->marks[--m->n_marks];
    return SW_OK;
}

/* Where the values begin that the opcode takes: `n` of them, or those above the latest mark. */
static sw_status operands(machine *m, bool marked, uint32_t n, uint32_t *height)
{
    if (marked)
        return pop_mark(m, height);
    SW_TRY(need(m, n));
    *height = m->n_stack - m->op->bytes;
    return SW_OK;
}

static sw_status do_opcode(machine *m, int byte)
{
    const opcode *op = m->op;
    uint32_t height = 0;
    uint64_t x = 0;
    value v;
    switch ((action)op->action) {
    case NOT_KNOWN:
        return pickle_damaged(m, "no pickle has the opcode 0x%02x", (unsigned)byte);
    case WOULD_RUN:
        return pickle_damaged(
            m, "%s would run code that the file chooses; a snapshot must hold data only",
            op->name);
    case NOT_DATA:
        return pickle_damaged(m, "%s, which no snapshot has%s", op->name,
                              byte < 0x80 ? " since protocol 2" : "");
    case START:
    case FRAME:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        if (op->action == START && (x < 2 || x > 5))
            return pickle_damaged(m, "pickle protocol %llu; 2 to 5 are read",
                                  (unsigned long long)x);
        return SW_OK;
    case STOP:
        if (m->n_stack != 1 || m->n_marks != 0)
            return pickle_damaged(
                m, "STOP must find one value and no mark (got %u values and %u marks)",
                m->n_stack, m->n_marks);
        m->stopped = true;
        return SW_OK;
    case MARK:
        SW_TRY(sw_heap_reserve(&m->marks, SW_HEAP_FILES, &m->cap_marks, m->n_marks + 1));
        m->marks[m->n_marks++] = m->n_stack;
        return SW_OK;
    case POP_MARK:
        return pop_mark(m, &m->n_stack);
    case POP:
        SW_TRY(need(m, 1));
        m->n_stack--;
        return SW_OK;
    case DUP:
        SW_TRY(need(m, 1));
        return push_value(m, m->stack[m->n_stack - 1]);
    case SPECIAL:
        return push_value(m, byte == 'N'    ? VALUE_NULL
                             : byte == 0x88 ? VALUE_TRUE
                                            : VALUE_FALSE);
    case INT:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        return push_value(m, value_int(op->bytes == 4 ? (int32_t)(uint32_t)x : (int64_t)x));
    case LONG: {
        uint64_t n;
        SW_TRY(byte_reader_number(m->in, op->bytes, &n));
        SW_TRY(byte_reader_take(m->in, n));
        if (n > 8)
            return push_value(m, VALUE_OTHER);
        for (uint64_t i = 0; i < n; i++)
            x |= (uint64_t)(unsigned char)m->in->text[i] << 8 * i;
        if (n > 0 && n < 8 && (m->in->text[n - 1] & 0x80) != 0)
            x |= UINT64_MAX << 8 * n;
        return push_value(m, value_int((int64_t)x));
    }
    case REAL: { /* eight bytes of a double, the highest first */
        double real;
        SW_TRY(byte_reader_take(m->in, 8));
        for (int i = 0; i < 8; i++)
            x = x << 8 | (unsigned char)m->in->text[i];
        memcpy(&real, &x, sizeof real);
        SW_TRY(value_real_new(m->tree, &v, real, false, 0));
        return push_value(m, v);
    }
    case TEXT:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        SW_TRY(byte_reader_take(m->in, x));
        SW_TRY(value_text_new(m->tree, &v, m->in->text, (size_t)x));
        return push_value(m, v);
    case NEW_LIST:
    case NEW_DICT:
        SW_TRY(value_new(m->tree, &v, op->action == NEW_DICT ? VALUE_DICT : VALUE_LIST));
        return push_value(m, v);
    case ADD_ONE:
    case ADD_MARKED: { /* to the container under them */
        const bool dict = op->bytes == 2;
        SW_TRY(operands(m, op->action == ADD_MARKED, op->bytes + 1u, &height));
        const uint32_t n = m->n_stack - height;
        m->n_stack = height;
        SW_TRY(need(m, 1));
        if (value_kind_of(m->stack[height - 1]) != (dict ? VALUE_DICT : VALUE_LIST))
            return pickle_damaged(m, "%s must be given a %s", op->name, dict ? "dict" : "list");
        if (n % op->bytes != 0)
            return pickle_damaged(m, "%s: a key without its value", op->name);
        return n > 0 ? value_add(m->tree, m->stack[height - 1], m->stack + height, n) : SW_OK;
    }
    case LIST_MARKED:
    case DICT_MARKED:
    case TUPLE: { /* the values become one */
        const bool dict = op->action == DICT_MARKED;
        SW_TRY(operands(m, op->action != TUPLE, op->bytes, &height));
        const uint32_t n = m->n_stack - height;
        if (dict && n % 2 != 0)
            return pickle_damaged(m, "%s: a key without its value", op->name);
        SW_TRY(value_new(m->tree, &v, dict ? VALUE_DICT : VALUE_LIST));
        if (n > 0)
            SW_TRY(value_add(m->tree, v, m->stack + height, n));
        m->n_stack = height;
        return push_value(m, v);
    }
    case PUT:
        x = m->n_memo;
        SW_TRY(need(m, 1));
        if (op->bytes > 0)
            SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        if (x > (uint64_t)m->n_memo + 1 || x >= UINT32_MAX / 2) /* some writers count from 1 */
            return pickle_damaged(m, "%s of number %llu: only %u are in use", op->name,
                                  (unsigned long long)x, m->n_memo);
        SW_TRY(sw_heap_reserve(&m->memo, SW_HEAP_FILES, &m->cap_memo, (uint32_t)x + 1));
        m->n_memo = x >= m->n_memo ? (uint32_t)x + 1 : m->n_memo;
        m->memo[x] = m->stack[m->n_stack - 1];
        return SW_OK;
    case GET:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        if (x >= m->n_memo || m->memo[x] == 0)
            return pickle_damaged(m, "%s of number %llu, which nothing has", op->name,
                                  (unsigned long long)x);
        return push_value(m, m->memo[x]);
    }
    return SW_OK;
}

static sw_status run_pickle(machine *m)
{
    while (!m->stopped) {
        int byte;
        m->at = m->in->at;
        SW_TRY(byte_reader_next(m->in, &byte));
        if (byte < 0)
            return pickle_damaged(m, "the file ends before STOP");
        m->op = &opcodes[byte];
        SW_TRY(do_opcode(m, byte));
    }
    return SW_OK;
}

sw_status pickle_read(value_tree *t, byte_reader *r, value *out)
{
    machine m = {.tree = t, .in = r};
    const sw_status status = run_pickle(&m);
    if (status == SW_OK)
        *out = m.stack[0];
    sw_heap_free(m.stack, SW_HEAP_FILES, m.cap_stack * sizeof *m.stack);
    sw_heap_free(m.memo, SW_HEAP_FILES, m.cap_memo * sizeof *m.memo);
    sw_heap_free(m.marks, SW_HEAP_FILES, m.cap_marks * sizeof *m.marks);
    return status;
}

sw_status value_tree_read(value_tree *t, const char *path, uint64_t *bytes, value *out)
{
    byte_reader *r; /* a buffer is in it */
    int first;
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_FILES, sizeof *r));
    sw_status status = byte_reader_open(r, path);
    if (status == SW_OK)
        status = byte_reader_bytes(r, bytes);
    if (status == SW_OK)
        status = value_tree_open(t, path, *bytes);
    if (status == SW_OK)
        status = byte_reader_peek(r, &first);
    if (status == SW_OK)
        status = first == 0x80 ? pickle_read(t, r, out) : json_tree_read(t, r, out);
    byte_reader_close(r);
    sw_heap_free(r, SW_HEAP_FILES, sizeof *r);
    return status;
}
