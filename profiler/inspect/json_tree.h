/* JSON as a tree of values: whole files, where each key of a million equal objects is kept once
 * and an object takes a word for each member, and records, one after another. */
#ifndef STEPWELL_JSON_TREE_H
#define STEPWELL_JSON_TREE_H

#include "profiler/inspect/byte_reader.h"
#include "profiler/inspect/value_tree.h"
#include "profiler/record/json_read.h"

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

#endif
