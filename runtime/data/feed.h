/* Batches of a dataset by number, and the orders that they follow. */
#pragma once

#include "kernels/bijection.h"
#include "runtime/data/data_internal.h"

/* The order of one epoch of one stream: which samples, and where sample 0 begins. */
typedef struct {
    sw_bijection samples;
    size_t place;
} swi_feed_order;

struct sw_feed {
    sw_handle handle;
    const sw_dataset *dataset;
    int64_t batch, n_batches;
    bool shuffle;
    size_t bytes;              /* of one batch, rounded up */
    size_t at[SWI_MAX_FIELDS]; /* where each field begins in it */
};

/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_feed_free(sw_feed *feed);
/* Batch `number` of a stream, counted over all its epochs: its samples; its fields, written to
 * where `to` + at[field] is. */
int64_t swi_feed_rows(const sw_feed *feed, uint64_t number);
void swi_feed_fill(const sw_feed *feed, uint64_t stream, uint64_t number, unsigned char *to);
/* Field `i` of a batch of so many rows. */
sw_array swi_feed_array(const sw_feed *feed, int i, int64_t rows, const unsigned char *to);
