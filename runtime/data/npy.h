/* Arrays of NumPy, from files and from archives: their header, and two of them as the fields of
 * a data set. */
#ifndef SW_DATA_NPY_H
#define SW_DATA_NPY_H

#include "runtime/data/elements.h"
#include "runtime/data/reader.h"

/* Where the bytes of an array come from. */
typedef struct {
    const char *name; /* in messages */
    uint64_t bytes;   /* all of them, the header too */
    void *of;
    sw_status (*read)(void *of, void *to, size_t bytes, size_t *got);
    sw_status (*rewind)(void *of);
} swi_npy_source;

/* The header of an array of any type. */
typedef struct {
    char type[32]; /* "<f4"; "[" of records of several fields */
    bool fortran;  /* the first axis runs fastest */
    sw_shape shape;
    uint32_t bytes; /* of the header */
} swi_npy_header;
/* Read it, versions 1 to 3, from the first byte on: afterwards the first element comes next. */
SW_MUST_USE sw_status swi_npy_header_read(const swi_npy_source *source, swi_npy_header *h);

typedef struct {
    swi_npy_source source;
    uint32_t head_bytes; /* before the numbers */
    sw_number type;
    bool fortran;   /* the first axis runs fastest */
    sw_shape shape; /* axis 0 is the samples' */
} swi_npy;

/* Of a data set in two parts: arrays of inputs and targets; no test part where `given` says
 * so. */
enum { SWI_NPY_TRAIN, SWI_NPY_TEST, SWI_NPY_PARTS };
typedef struct {
    const char *name; /* of the data set */
    bool shapes_only, split;
    double share;
    uint64_t seed;
    bool given[SWI_NPY_PARTS], unlabelled[SWI_NPY_PARTS]; /* unlabelled: without y */
    swi_npy x[SWI_NPY_PARTS], y[SWI_NPY_PARTS];
} swi_npy_pair;
/* A call, from its arguments to its data sets: `open_all` opens all arrays that `path` and the
 * options name, each with a source, and fills the pair; `room` is as long as any path. */
typedef sw_status swi_npy_open(void *context, swi_npy_pair *pair, const char *path,
                               const sw_npy_opts *o, bool test, char *room);

#endif
