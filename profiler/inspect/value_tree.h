/* Data that a file holds as a tree: numbers, texts, lists and dictionaries, a word each, in one
 * growing range of addresses that is given back as a whole. Parts may be shared, and a hostile
 * file can make a tree hold itself: whoever reads it goes down by names, never by recursion. */
#ifndef STEPWELL_VALUE_TREE_H
#define STEPWELL_VALUE_TREE_H

#include "alloc/base.h"
#include <stdbool.h>

/* 0 is a value too: "not there". */
typedef uint64_t value;
typedef enum {
    VALUE_ABSENT,
    VALUE_INT,
    VALUE_TEXT,
    VALUE_LIST, /* and tuples */
    VALUE_DICT,
    VALUE_OTHER /* None, true, false, numbers with a fraction or past 60 bits */
} value_kind;

#define VALUE_TEXTS 4096 /* latest texts that are not kept twice */

typedef struct {
    const char *path;
    char *base;
    size_t used, committed, reserved;
    value texts[VALUE_TEXTS];
} value_tree;

/* For a tree whose parts are all named by bytes of a file of that size: a byte never makes more
 * than VALUE_BYTES. */
#define VALUE_BYTES 64
SW_MUST_USE sw_status value_tree_open(value_tree *t, const char *path, uint64_t file_bytes);
void value_tree_close(value_tree *t);

value_kind value_kind_of(value v);
value value_int(int64_t x); /* within 60 bits and its sign, else VALUE_OTHER */
value value_other(void);
/* NULL or 0 where `v` is of another kind. */
const char *value_text(value v);
int64_t value_number(value v);
uint64_t value_count(value v); /* items of a list; keys of a dictionary */
value value_item(value v, uint64_t i);
/* What stands at the key, the latest of two; absent where nothing does. */
value value_at(value dict, const char *key);

/* A zero byte in a text becomes a question mark. */
SW_MUST_USE sw_status value_text_new(value_tree *t, value *out, const char *bytes, size_t n);
SW_MUST_USE sw_status value_list_new(value_tree *t, value *out);
SW_MUST_USE sw_status value_dict_new(value_tree *t, value *out);
/* n items, at least one, to the end of a list, or of a dictionary: key, value, key, value. */
SW_MUST_USE sw_status value_add(value_tree *t, value to, const value *items, size_t n);

#endif
