/* A reader of JSON into a tree of values: for files of a million equal objects, where each key
 * is kept once and an object takes a word for each member. */
#ifndef STEPWELL_JSON_TREE_H
#define STEPWELL_JSON_TREE_H

#include "profiler/inspect/byte_reader.h"
#include "profiler/inspect/value_tree.h"

#define JSON_TREE_DEPTH 64

/* One value and the end of the file. SW_FORMAT names the byte. */
SW_MUST_USE sw_status json_tree_read(value_tree *t, byte_reader *r, value *out);

#endif
