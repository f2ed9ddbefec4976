/* Trees of data. The low bits of a word are its kind, the others a number or an address. */
#include "profiler/inspect/value_tree.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include <math.h>
#include <string.h>

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

static sw_status reserve(value_tree *t, size_t bytes)
{
    void *base;
    SW_TRY(sw_range_reserve(&base, bytes));
    t->base = base;
    t->reserved = bytes;
    return SW_OK;
}

sw_status value_tree_open_for(value_tree *t, const char *path, size_t bytes)
{
    memset(t, 0, sizeof *t);
    t->path = path;
    t->n_texts = RECORD_TEXTS;
    if (!sw_size_align(bytes, sw_page_bytes(), &bytes))
        SW_FAIL(SW_NOMEM, "%s: %zu bytes are too many to read", path, bytes);
    return reserve(t, bytes);
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
    memset(t, 0, sizeof *t);
    t->path = path;
    t->n_texts = VALUE_TEXTS;
    const size_t page = sw_page_bytes();
    size_t bytes;
    if (file_bytes > SIZE_MAX / 2 / VALUE_BYTES ||
        !sw_size_align((size_t)file_bytes * VALUE_BYTES + COMMIT_BYTES, page, &bytes))
        SW_FAIL(SW_NOMEM, "%s: %llu bytes are too many to read", path,
                (unsigned long long)file_bytes);
    return reserve(t, bytes);
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

static uint64_t hash(const char *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

sw_status value_text_new(value_tree *t, value *out, const char *bytes, size_t n)
{
    value *known = &t->texts[hash(bytes, n) % t->n_texts];
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

static sw_status new_keys(value_tree *t, struct value_keys **out, size_t capacity)
{
    void *block = NULL;
    SW_TRY(take(t, &block, sizeof **out + capacity * sizeof(value)));
    *out = block;
    **out = (struct value_keys){.capacity = (uint32_t)capacity};
    return SW_OK;
}

/* The keys among n items, which others may have too. */
static sw_status find_keys(value_tree *t, const value *items, size_t n, struct value_keys **out)
{
    uint64_t h = n;
    bool same = true;
    for (size_t i = 0; i < n; i++)
        h = (h ^ items[2 * i]) * UINT64_C(0x9e3779b97f4a7c15) >> 1;
    struct value_keys **known = &t->keys[(h >> 40) % VALUE_KEYS];
    same = *known != NULL && (*known)->n == n;
    for (size_t i = 0; i < n && same; i++)
        same = (*known)->at[i] == items[2 * i];
    if (!same) {
        SW_TRY(new_keys(t, known, n));
        for (size_t i = 0; i < n; i++)
            (*known)->at[i] = items[2 * i];
        (*known)->n = (uint32_t)n;
    }
    *out = *known;
    return SW_OK;
}

/* Keys of a dictionary that grows become its own. */
static sw_status grow_keys(value_tree *t, const list *l, const value *items, size_t n,
                           struct value_keys **out)
{
    struct value_keys *keys = keys_of(l);
    if (keys->capacity - keys->n < n) {
        SW_TRY(new_keys(t, out, 2 * (keys->n + n)));
        memcpy((*out)->at, keys->at, keys->n * sizeof(value));
        (*out)->n = keys->n;
        keys = *out;
    }
    for (size_t i = 0; i < n; i++)
        keys->at[keys->n++] = items[2 * i];
    *out = keys;
    return SW_OK;
}

static sw_status add_to_dict(value_tree *t, list *l, const value *items, size_t n)
{
    struct value_keys *keys;
    SW_TRY(make_room(t, l, l->n > 0 ? l->n + 1 : 0, l->n > 0 ? n : n + 1));
    SW_TRY(l->n > 0 ? grow_keys(t, l, items, n, &keys) : find_keys(t, items, n, &keys));
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
