/* What a loader gives out, so that another one can be known to give out the same. */
#ifndef SW_LOADER_H
#define SW_LOADER_H

#include "runtime/stepwell.h"
#include <stdbool.h>

typedef struct {
    int64_t batch, samples;
    uint64_t seed;
    bool shuffle, keyed, drop_last;
    uint64_t data; /* sw_dataset_hash */
} swi_loader_identity;

/* Was an epoch begun? */
bool swi_loader_begun(const sw_loader *loader);
/* Reads all samples once, for their hash. The loader lives. */
SW_MUST_USE sw_status swi_loader_identify(const sw_loader *loader, swi_loader_identity *out);

#endif
