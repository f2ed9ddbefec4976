/* Generations of a file: PATH, then PATH.1 (the one before), PATH.2 and so on. */
#ifndef SW_GENERATIONS_H
#define SW_GENERATIONS_H

#include "alloc/base/base.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *path;
    int keep;        /* 0 and 1: no other than `path` */
    char *from, *to; /* room for names, `bytes` each */
    size_t bytes;
} swi_generations;

/* SW_IO where a name up to the first free one is a folder's, or cannot be looked at. *free: the
 * number of that name, the last generation's where all are taken. */
SW_MUST_USE sw_status swi_generations_look(const swi_generations *g, int *free);

/* Make what stands at the path PATH.1 too, with the older ones moved up first. Changes nothing
 * where nothing stands there, or where it is PATH.1 already: a replacing that ended here is
 * tried again. *kept: false where the system has no second names. */
SW_MUST_USE sw_status swi_generations_move(const swi_generations *g, bool *kept);

#endif
