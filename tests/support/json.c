/* See json.h. A json_t pointer is the word of a value tree. Nothing is taken by malloc, which
 * some tests count. */
#include "tests/support/json.h"
#include "profiler/inspect/values.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef struct document {
    struct document *next;
    value_tree tree;
    const json_t *root;
} document;

static document *documents;

static json_t *pointer(value v)
{
    return (json_t *)(uintptr_t)v;
}

static value word(const json_t *x)
{
    return (value)(uintptr_t)x;
}

/* ---- reading ----------------------------------------------------------------------------- */

static bool has_twins(value v)
{
    for (uint64_t i = 0; i < value_count(v); i++) {
        if (value_kind_of(v) == VALUE_DICT &&
            value_at(v, value_key(v, i)) != value_member(v, i))
            return true;
        if (has_twins(value_kind_of(v) == VALUE_DICT ? value_member(v, i) : value_item(v, i)))
            return true;
    }
    return false;
}

static sw_status read_all(document *d, const char *text, size_t n, value *root)
{
    json_buffer room = {0};
    sw_json_in in = sw_json_in_text(text, n, "text");
    SW_TRY(value_tree_open(&d->tree, "text", n));
    in.strict = true;
    const sw_status status = json_tree_build(&d->tree, &room, &in, root);
    json_buffer_free(&room);
    SW_TRY(status);
    if (has_twins(*root))
        SW_FAIL(SW_FORMAT, "a key stands twice in one object");
    return SW_OK;
}

json_t *json_loadb(const char *text, size_t n)
{
    value root = 0;
    void *block = mmap(NULL, sizeof(document), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    document *d = block;
    if (read_all(d, text, n, &root) != SW_OK) {
        value_tree_close(&d->tree);
        munmap(d, sizeof *d);
        return NULL;
    }
    d->root = pointer(root);
    d->next = documents;
    documents = d;
    return pointer(root);
}

json_t *json_loads(const char *text)
{
    return json_loadb(text, strlen(text));
}

void json_decref(const json_t *x)
{
    for (document **at = &documents; x != NULL && *at != NULL; at = &(*at)->next) {
        document *d = *at;
        const uintptr_t base = (uintptr_t)d->tree.base, in = (uintptr_t)x;
        if (d->root != x && (in < base || in - base >= d->tree.used))
            continue;
        *at = d->next;
        value_tree_close(&d->tree);
        munmap(d, sizeof *d);
        return;
    }
}

/* ---- values ------------------------------------------------------------------------------ */

bool json_is_object(const json_t *x)
{
    return value_kind_of(word(x)) == VALUE_DICT;
}

bool json_is_array(const json_t *x)
{
    return value_kind_of(word(x)) == VALUE_LIST;
}

bool json_is_string(const json_t *x)
{
    return value_kind_of(word(x)) == VALUE_TEXT;
}

bool json_is_number(const json_t *x)
{
    return value_is_number(word(x));
}

bool json_is_integer(const json_t *x)
{
    const double real = value_real(word(x)); /* past 60 bits every double is whole */
    return value_kind_of(word(x)) == VALUE_INT || (json_is_number(x) && fabs(real) >= 0x1p59);
}

bool json_is_real(const json_t *x)
{
    return json_is_number(x) && !json_is_integer(x);
}

bool json_is_true(const json_t *x)
{
    return word(x) == VALUE_TRUE;
}

bool json_is_false(const json_t *x)
{
    return json_is_boolean(x) && !json_is_true(x);
}

bool json_is_null(const json_t *x)
{
    return word(x) == VALUE_NULL;
}

bool json_is_boolean(const json_t *x)
{
    return word(x) == VALUE_TRUE || word(x) == VALUE_FALSE;
}

const char *json_string_value(const json_t *x)
{
    return value_text(word(x));
}

json_int_t json_integer_value(const json_t *x)
{
    uint64_t whole;
    if (value_kind_of(word(x)) == VALUE_INT)
        return value_number(word(x));
    if (json_is_integer(x) && value_whole(word(x), &whole))
        return (json_int_t)whole;
    return json_is_integer(x) ? (json_int_t)value_real(word(x)) : 0;
}

double json_number_value(const json_t *x)
{
    return json_is_number(x) ? value_real(word(x)) : 0.0;
}

size_t json_array_size(const json_t *x)
{
    return json_is_array(x) ? (size_t)value_count(word(x)) : 0;
}

json_t *json_array_get(const json_t *x, size_t i)
{
    return pointer(value_item(word(x), i));
}

size_t json_object_size(const json_t *x)
{
    return json_is_object(x) ? (size_t)value_count(word(x)) : 0;
}

json_t *json_object_get(const json_t *x, const char *key)
{
    return pointer(value_at(word(x), key));
}

const char *json_object_key(const json_t *x, size_t i)
{
    return value_key(word(x), i);
}

json_t *json_object_member(const json_t *x, size_t i)
{
    return pointer(value_member(word(x), i));
}

bool json_equal(const json_t *a, const json_t *b)
{
    const value_kind kind = value_kind_of(word(a));
    if (kind != value_kind_of(word(b)) || value_count(word(a)) != value_count(word(b)))
        return false;
    if (kind == VALUE_TEXT)
        return strcmp(json_string_value(a), json_string_value(b)) == 0;
    if (kind == VALUE_REAL)
        return json_number_value(a) == json_number_value(b) &&
               json_integer_value(a) == json_integer_value(b);
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
            return false;
    for (size_t i = 0; i < json_object_size(a); i++)
        if (!json_equal(json_object_member(a, i), json_object_get(b, json_object_key(a, i))))
            return false;
    return kind == VALUE_LIST || kind == VALUE_DICT || a == b;
}
