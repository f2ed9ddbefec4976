/* A strict reader of NumPy's archives, which shares nothing with the writer: from the front to
 * the end without going back, so that it reads pipes. */
#ifndef SW_TESTS_READ_NPZ_H
#define SW_TESTS_READ_NPZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    char name[80];             /* without .npy */
    char descr[8];             /* "<f4" */
    char shape[200];           /* as it stands there */
    uint64_t at, bytes;        /* of the data */
    const unsigned char *data; /* the first 4096 bytes at most; for this call */
} npz_array;

/* Every byte of the file belongs to something that is as it must be: headers agree with the
 * directory, checks with the data, the file ends where it says. Calls `take` for each array, in
 * order. NULL, or what is wrong; `comment` receives the archive's, cut. */
const char *npz_read(FILE *file, void (*take)(void *context, const npz_array *array),
                     void *context, char *comment, size_t room);

#endif
