/* Trees of values: dicts, lists, texts and numbers from a pickle or from JSON, in bounded
 * memory. */
#pragma once

#include "alloc/base/base.h"
#include "alloc/base/gzip.h"
#include "profiler/record/json_read.h"

typedef struct {
    sw_file *file;
    sw_gzip *gzip; /* of a file that is compressed; NULL */
    const char *path;
    uint64_t at; /* of the next byte */
    size_t begin, end;
    char *text; /* of the latest byte_reader_take, grows */
    size_t text_capacity;
    unsigned char buffer[65536];
} byte_reader;

SW_MUST_USE sw_status byte_reader_open(byte_reader *r, const char *path);
void byte_reader_close(byte_reader *r);

/* Data that a file holds as a tree: numbers, texts, lists and dictionaries, a word each, in one
 * growing range of addresses that is given back as a whole. Parts may be shared, and a hostile
 * file can make a tree hold itself: whoever reads it goes down by names, never by recursion. */

/* 0 is a value too: "not there". */
typedef uint64_t value;
typedef enum {
    VALUE_ABSENT,
    VALUE_INT,
    VALUE_TEXT,
    VALUE_LIST, /* and tuples */
    VALUE_DICT,
    VALUE_OTHER, /* None, true, false, and what a pickle has besides */
    VALUE_REAL   /* of JSON: a number with a fraction or an exponent, or past 60 bits */
} value_kind;
#define VALUE_KIND_BITS 3
/* The values of kind VALUE_OTHER that have a name; all that have none are VALUE_OTHER. */
#define VALUE_NULL ((value)1 << VALUE_KIND_BITS | VALUE_OTHER)
#define VALUE_FALSE ((value)2 << VALUE_KIND_BITS | VALUE_OTHER)
#define VALUE_TRUE ((value)3 << VALUE_KIND_BITS | VALUE_OTHER)

#define VALUE_TEXTS 4096 /* latest texts that are not kept twice */
#define VALUE_KEYS 256   /* latest keys of dictionaries: those with the same share them */

typedef struct {
    const char *path;
    uint64_t line; /* of the file, for messages; 0: the whole file */
    char *base;
    size_t used, committed, reserved;
    bool full;        /* `reserved` was not enough */
    uint32_t n_texts; /* of `texts` in use */
    value texts[VALUE_TEXTS];
    struct value_keys *keys[VALUE_KEYS];
} value_tree;

/* For a tree whose parts are all named by bytes of a file of that size: a byte never makes more
 * than VALUE_BYTES. */
#define VALUE_BYTES 64
SW_MUST_USE sw_status value_tree_open(value_tree *t, const char *path, uint64_t file_bytes);
/* For trees of at most `bytes`, one after another: of lines of the file, mostly. */
SW_MUST_USE sw_status value_tree_open_for(value_tree *t, const char *path, size_t bytes);
/* Nothing that was built is used any more; the memory stays. */
void value_tree_reset(value_tree *t);
void value_tree_close(value_tree *t);

value_kind value_kind_of(value v);
value value_int(int64_t x); /* within 60 bits and its sign, else VALUE_OTHER */
/* NULL or 0 where `v` is of another kind. */
const char *value_text(value v);
int64_t value_number(value v);
/* A whole number of 0 or more, written as one or not (3, 3.0, 3e2); else false. */
bool value_whole(value v, uint64_t *out);
double value_real(value v); /* of any number of JSON */
bool value_is_number(value v);
uint64_t value_count(value v); /* items of a list; keys of a dictionary */
value value_item(value v, uint64_t i);
/* The i-th of a dictionary. */
const char *value_key(value dict, uint64_t i);
value value_member(value dict, uint64_t i);
/* The value at the key, the latest of two; absent where there is none. */
value value_at(value dict, const char *key);

/* A zero byte in a text becomes a question mark. */
SW_MUST_USE sw_status value_text_new(value_tree *t, value *out, const char *bytes, size_t n);
/* A number that a word cannot hold: `magnitude` and its sign where `whole`, `real` always. */
SW_MUST_USE sw_status value_real_new(value_tree *t, value *out, double real, bool whole,
                                     uint64_t magnitude);
/* An empty list or dictionary. */
SW_MUST_USE sw_status value_new(value_tree *t, value *out, value_kind kind);
/* n items, at least one, to the end of a list, or of a dictionary: key, value, key, value. */
SW_MUST_USE sw_status value_add(value_tree *t, value to, const value *items, size_t n);

/* JSON as a tree of values: whole files, where each key of a million equal objects is kept once
 * and an object takes a word for each member, and records, one after another. */

#define JSON_TREE_DEPTH 64

/* State of reading, beside the tree; serves one text after another. Begins as zeros. */
typedef struct {
    value *stack;
    uint32_t n_stack, cap_stack;
    char *text; /* of the latest string */
    uint32_t cap_text;
} json_buffer;
void json_buffer_free(json_buffer *buffer);

/* One value, and the end of the text. Brackets are at most JSON_TREE_DEPTH deep. */
SW_MUST_USE sw_status json_tree_build(value_tree *t, json_buffer *buffer, sw_json_in *in,
                                      value *out);
/* The same of a whole file, as Python writes it: SW_FORMAT names the byte. */
SW_MUST_USE sw_status json_tree_read(value_tree *t, byte_reader *r, value *out);

/* A reader of Python pickles that hold data: numbers, texts, lists, tuples and dictionaries, in
 * protocols 2 to 5. A pickle is a program for a stack machine; opcodes that would look up or
 * call anything are refused by name, so nothing that a file says is ever executed. */

/* The value that the pickle makes, in the tree. SW_FORMAT names the byte. */
SW_MUST_USE sw_status pickle_read(value_tree *t, byte_reader *r, value *out);

/* The file at `path`, a pickle or JSON, as a tree, which is opened for it; its bytes, at most.
 */
SW_MUST_USE sw_status value_tree_read(value_tree *t, const char *path, uint64_t *bytes,
                                      value *out);
