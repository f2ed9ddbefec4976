/* The largest batch that fits a size, from figures of plans alone, and proved to be it.
 *
 * The bytes of a plan need not grow with the batch: layouts change with it, and one plan may be
 * placed better than another. A bound below them does grow. So a bisection looks at the bound:
 * where it is above the size, this batch and all larger ones are excluded at once. From there
 * down the batches are tried one by one, and the first that fits is the largest of all. */
#pragma once

#include "alloc/base/base.h"

/* The least that one batch needs: never more than its total. Between equal structures it does
 * not fall when the batch grows from `grows_from` on. */
typedef struct {
    size_t bytes;
    uint64_t structure; /* what the batch must not change for the bound to grow with it */
} plan_bound;

typedef struct {
    size_t fit_bytes;
    int64_t most;       /* no larger batch fits, or is asked for */
    int64_t grows_from; /* the bound is used from this batch on */
    /* The bytes of a batch, at least and in all: 1 <= batch <= most. Another status than SW_OK
     * ends the search. */
    sw_status (*bound)(void *context, int64_t batch, plan_bound *out);
    sw_status (*total)(void *context, int64_t batch, size_t *out);
    void *context;
} plan_search;

typedef struct {
    int64_t batch;         /* the largest that fits; 0: none does */
    size_t total_bytes;    /* of it; 0 for none */
    int64_t excluded_from; /* this and all larger are excluded; most + 1 where the bound never
                              says so */
    size_t excluded_bytes; /* the bound there; 0 for most + 1 */
    int64_t n_bounds, n_tried; /* how often each was asked */
} plan_found;

/* Batches are excluded structure by structure, from the largest down. A bound that fell between
 * two batches of one structure proves nothing: those below are tried one by one then. */
SW_MUST_USE sw_status plan_search_run(const plan_search *search, plan_found *out);
