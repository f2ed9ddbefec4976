/* A strict reader of TensorBoard's event files, which shares nothing with the writer. */
#ifndef SW_TESTS_READ_TFEVENTS_H
#define SW_TESTS_READ_TFEVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    double wall_s;
    uint64_t step;
    char tag[104];
    float value;
} tfevents_scalar;

typedef struct {
    const char *wrong; /* NULL, or what is wrong before the first record that is cut */
    size_t whole;      /* bytes of whole records */
    size_t records;    /* with the one that names the version */
    size_t scalars;
} tfevents_read;

/* Every byte belongs to a record with its checks, every field to a message that is known; the
 * first record, and no other, names the version. A record that is cut at the end of the bytes
 * is no mistake: `whole` says where. Calls `take`, unless it is NULL, for each number. */
tfevents_read tfevents_read_all(const void *bytes, size_t n,
                                void (*take)(void *context, const tfevents_scalar *s),
                                void *context);

#endif
