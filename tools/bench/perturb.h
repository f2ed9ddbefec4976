/* Hard placement problems from solved ones: buffers are pieces of a picture, time across and
 * offsets upwards, and whatever is changed keeps the pieces apart and under the roof. So each
 * problem has a placement under its roof, and the tight ones stay tight. */
#ifndef STEPWELL_BENCH_PERTURB_H
#define STEPWELL_BENCH_PERTURB_H

#include "tools/place/place_csv.h"

typedef enum {
    PERTURB_SIZES,     /* borders between buffers move up and down */
    PERTURB_LIFETIMES, /* and to and fro in time */
    PERTURB_SPLIT,     /* buffers become two, in size or in time */
    PERTURB_MERGED,    /* two that fit together become one, and borders move */
    PERTURB_MIXED,     /* all of these */
    PERTURB_JOINED,    /* two problems, one after the other with their ends in each other */
    PERTURB_STACKED,   /* two problems at the same time, in one arena */
    PERTURB_KINDS
} perturb_kind;

#define PERTURB_MOST 1000 /* buffers of one problem */

const char *perturb_name(perturb_kind kind);

/* A problem of the kind out of `a`, or of `a` and `b` where it takes two: their items have
 * offsets that hold under the roofs. Equal seeds give equal problems. `to` is empty, has room
 * for PERTURB_MOST rows, and gets its rows in random order with the offsets that are known. */
SW_MUST_USE sw_status perturb_make(place_csv *to, size_t *roof, const place_csv *a,
                                   size_t roof_a, const place_csv *b, size_t roof_b,
                                   perturb_kind kind, uint64_t seed);

#endif
