/* Placement problems as text: id,lower,upper,size[,alignment], half-open lifetimes, the columns
 * in any order. The whole file stays in memory as it is; the solver gets dense times, the
 * checker the file's own. */
#pragma once

#include "alloc/placement/placement.h"

enum { PLACE_ID, PLACE_LOWER, PLACE_UPPER, PLACE_SIZE, PLACE_ALIGNMENT, PLACE_OFFSET };
#define PLACE_COLUMNS 6

typedef struct {
    char *text; /* the file */
    size_t text_bytes, text_capacity;
    size_t body;              /* where the first row begins */
    int n_columns;            /* of the header */
    int role[PLACE_COLUMNS];  /* of each column, in the file's order */
    size_t n, capacity;       /* rows; row i stands in line i + 2 */
    sw_placement_item *items; /* times are ranks: 0, 1, 2..; alignments the file's */
    uint64_t *times;          /* lower and upper of each row as the file has them */
} place_csv;

/* Read and check the whole file. SW_FORMAT names the file, line and column of the first thing
 * that is wrong: a header without a required column or with an unknown one, a row with too few
 * or too many fields, a field that is no whole number of 64 bits, an empty lifetime, a size or
 * alignment of 0, an id that an earlier row has, sizes whose sum is past 64 bits, sizes and
 * alignments whose sum is past what the solver takes. SW_IO when it cannot be read. On failure
 * nothing is left to free. */
SW_MUST_USE sw_status place_csv_read(place_csv *csv, const char *path);

/* Write the same rows in the same order with the offsets of the items in a last column, or in
 * the file's own `offset` column where it has one. A regular file is replaced when the new one
 * is whole, and keeps its mode; "-" is standard output. */
SW_MUST_USE sw_status place_csv_write(const place_csv *csv, const char *path);

void place_csv_free(place_csv *csv);

/* The checker of `stepwell place`: shares nothing with the solver and takes n log n time, so
 * that every result is checked. A sweep over the file's own times with the live buffers in a
 * set that is ordered by offset: a buffer that starts must be apart from its two neighbours. */

typedef struct {
    uint64_t height;      /* highest end of any buffer */
    uint64_t lower_bound; /* largest sum of sizes live at one time */
} place_checked;

/* SW_INVALID names two lines whose buffers live together and overlap, or a buffer that ends
 * past 64 bits or is not aligned as the file asks. */
SW_MUST_USE sw_status place_check(const place_csv *csv, place_checked *out);
