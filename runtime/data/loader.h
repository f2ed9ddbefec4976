/* The identity of a loader's batches, by which another loader is known to give out the same;
 * who fills its batches. */
#pragma once

#include "runtime/stepwell.h"
#include <stdbool.h>

typedef struct {
    int64_t batch, samples;
    uint64_t seed;
    bool shuffle, keyed, drop_last;
    uint64_t data; /* sw_dataset_hash */
} swi_loader_identity;

#define SWI_SMALL_BATCH ((size_t)256 << 10) /* copied in about 25 us */

#define SWI_SLOTS 2 /* where sw_loader_opts does not say how many: one is read, one filled */

/* Does the caller fill batches of so many bytes, each field rounded up to the alignment, with
 * that sw_loader_opts.inline_fill? Then there is one slot, else as many as the options say. */
static inline bool swi_loader_fills_inline(size_t batch_bytes, int inline_fill)
{
    return inline_fill > 0 || (inline_fill == 0 && batch_bytes <= SWI_SMALL_BATCH);
}

/* Was an epoch begun? */
bool swi_loader_begun(const sw_loader *loader);
/* Reads all samples once, for their hash. The loader lives. */
SW_MUST_USE sw_status swi_loader_identify(const sw_loader *loader, swi_loader_identity *out);

/* The tokens that count in `n` batches from `batch` on, of this epoch and of all that share its
 * batches (sw_loader_opts.of); batches past the last have none. The data are documents, and an
 * epoch was begun. */
int64_t swi_loader_counted(sw_loader *loader, int64_t batch, int64_t n);
