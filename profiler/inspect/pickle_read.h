/* A reader of Python pickles that hold data: numbers, texts, lists, tuples and dictionaries, in
 * protocols 2 to 5. A pickle is a program for a stack machine; opcodes that would look up or
 * call anything are refused by name, so nothing that a file says is ever executed. */
#ifndef STEPWELL_PICKLE_READ_H
#define STEPWELL_PICKLE_READ_H

#include "profiler/inspect/byte_reader.h"
#include "profiler/inspect/value_tree.h"

/* The value that the pickle makes, in the tree. SW_FORMAT names the byte. */
SW_MUST_USE sw_status pickle_read(value_tree *t, byte_reader *r, value *out);

#endif
