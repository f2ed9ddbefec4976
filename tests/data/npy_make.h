/* .npy files and archives of them, made by hand. */
#ifndef SW_TESTS_NPY_MAKE_H
#define SW_TESTS_NPY_MAKE_H

#include "tests/data/data_files.h"

/* A header of that version around a dictionary as it is written, and n bytes after it. */
bytes npy_raw(int major, const char *dictionary, const void *data, size_t n);
/* The same with NumPy's own dictionary: npy_make("<f4", false, "3, 4", ...). */
bytes npy_make(const char *descr, bool fortran, const char *shape, const void *data, size_t n);

/* An archive of `n` files; their contents are given back. */
typedef struct {
    const char *name;
    bytes content;
} zip_entry;
typedef enum {
    ZIP_STORED,
    ZIP_DEFLATED, /* blocks as they are: made without zlib */
    ZIP_WIDE,     /* stored, with sizes and places of 64 bits */
    ZIP_COMMENT   /* stored, with a comment at its end */
} zip_kind;
bytes zip_make(const zip_entry *files, int n, zip_kind kind);

#endif
