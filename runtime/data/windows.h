/* Windows of a row of tokens: a sample is `context` of them, and those that follow each. They
 * overlap in nothing but that, so an epoch has each token once; where the first begins is left
 * open by as much as fits, and a shuffled epoch chooses (loader.c). */
#ifndef SW_DATA_WINDOWS_H
#define SW_DATA_WINDOWS_H

#include "runtime/data/data_internal.h"

#define SWI_CONTEXT 128 /* where none is given */

/* A part of the row: its tokens, and the windows in it. */
typedef struct {
    uint64_t tokens, n;
    uint32_t places;
} swi_windows;

/* As many windows as fit wherever the first begins, at most a context after the beginning; one
 * in a row that is too short for that. `move` false: as many as fit from the beginning. */
swi_windows swi_windows_of(uint64_t tokens, uint64_t context, bool move);
/* The two fields of a data set: the second is the first, one token later. Both lie at `data`;
 * NULL: in a block of their own, none where shapes_only is set. */
SW_MUST_USE sw_status swi_windows_fields(sw_dataset *dataset, sw_dtype dtype, int64_t context,
                                         uint64_t tokens, const void *data);

#endif
