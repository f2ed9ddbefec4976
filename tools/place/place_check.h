/* The checker of `stepwell place`: shares nothing with the solver and takes n log n time, so
 * that every result is checked. A sweep over the file's own times with the live buffers in a
 * set that is ordered by offset: a buffer that starts must be apart from its two neighbours. */
#ifndef STEPWELL_PLACE_CHECK_H
#define STEPWELL_PLACE_CHECK_H

#include "tools/place/place_csv.h"

typedef struct {
    uint64_t height;      /* highest end of any buffer */
    uint64_t lower_bound; /* largest sum of sizes live at one time */
} place_checked;

/* SW_INVALID names two lines whose buffers live together and overlap, or a buffer that ends
 * past 64 bits or is not aligned as the file asks. */
SW_MUST_USE sw_status place_check(const place_csv *csv, place_checked *out);

#endif
