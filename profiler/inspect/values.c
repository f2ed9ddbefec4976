/* Counted bytes of a file, trees of values, and JSON of a million objects. */
#include "alloc/base/mem.h"
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

sw_status byte_reader_bytes(byte_reader *r, uint64_t *out)
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

sw_status byte_reader_peek(byte_reader *r, int *out)
{
    if (r->begin == r->end)
        SW_TRY(fill(r));
    *out = r->begin < r->end ? r->buffer[r->begin] : -1;
    return SW_OK;
}

sw_status byte_reader_next(byte_reader *r, int *out)
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

sw_status byte_reader_take(byte_reader *r, uint64_t n)
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

sw_status byte_reader_number(byte_reader *r, size_t n, uint64_t *out)
{
    uint64_t x = 0;
    SW_TRY(byte_reader_take(r, n));
    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)(unsigned char)r->text[i] << 8 * i;
    *out = x;
    return SW_OK;
}

/* ---- trees ------------------------------------------------------------------------------- */

#define KIND_BITS 3
#define KIND_MASK (((uint64_t)1 << KIND_BITS) - 1)
#define OTHER(n) ((uint64_t)(n) << KIND_BITS | VALUE_OTHER)
#define IS_NULL OTHER(1)
#define IS_FALSE OTHER(2)
#define IS_TRUE OTHER(3)
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

bool value_is_text(value v)
{
    return value_kind_of(v) == VALUE_TEXT;
}

bool value_is_list(value v)
{
    return value_kind_of(v) == VALUE_LIST;
}

bool value_is_dict(value v)
{
    return value_kind_of(v) == VALUE_DICT;
}

value value_int(int64_t x)
{
    const uint64_t shifted = (uint64_t)x << KIND_BITS;
    if ((int64_t)shifted >> KIND_BITS != x)
        return value_other();
    return shifted | VALUE_INT;
}

value value_other(void)
{
    return VALUE_OTHER;
}

value value_null(void)
{
    return IS_NULL;
}

value value_bool(bool x)
{
    return x ? IS_TRUE : IS_FALSE;
}

bool value_is_null(value v)
{
    return v == IS_NULL;
}

bool value_is_bool(value v)
{
    return v == IS_TRUE || v == IS_FALSE;
}

bool value_is_true(value v)
{
    return v == IS_TRUE;
}

int64_t value_number(value v)
{
    return value_kind_of(v) == VALUE_INT ? (int64_t)v >> KIND_BITS : 0;
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

static sw_status new_list(value_tree *t, value *out, value_kind kind)
{
    void *block = NULL;
    SW_TRY(take(t, &block, sizeof(list)));
    *(list *)block = (list){0};
    *out = word(block, kind);
    return SW_OK;
}

sw_status value_list_new(value_tree *t, value *out)
{
    return new_list(t, out, VALUE_LIST);
}

sw_status value_dict_new(value_tree *t, value *out)
{
    return new_list(t, out, VALUE_DICT);
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
    SW_TRY(sw_heap_reserve(&r->stack, SW_HEAP_FILES, &r->cap_stack, r->n_stack + 1, sizeof v));
    r->stack[r->n_stack++] = v;
    return SW_OK;
}

/* ---- single values ----------------------------------------------------------------------- */

static sw_status grow(sw_json_text *t)
{
    parser *p = (parser *)t;
    json_buffer *r = p->buffer;
    if (t->length >= UINT32_MAX / 2)
        return sw_json_bad(p->in, "a string is too long");
    SW_TRY(sw_heap_reserve(&r->text, SW_HEAP_FILES, &r->cap_text, (uint32_t)t->length + 1, 1));
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

/* ---- brackets ---------------------------------------------------------------------------- */

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
    SW_TRY(object ? value_dict_new(p->tree, &v) : value_list_new(p->tree, &v));
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
        return push(p, word == SW_JSON_NULL        ? value_null()
                       : word == SW_JSON_NO_NUMBER ? value_other()
                                                   : value_bool(word == SW_JSON_TRUE));
    }
    sw_json_number x;
    value v = value_other();
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

/* ---- whole files ------------------------------------------------------------------------- */

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
    int c;
    in.more = more_of_file;
    in.context = r;
    in.python = true;
    SW_TRY(byte_reader_peek(r, &c));
    in.text = r->buffer + r->begin;
    in.bytes = r->end - r->begin;
    in.before = r->at;
    const sw_status status = json_tree_build(t, &buffer, &in, out);
    json_buffer_free(&buffer);
    return status;
}
