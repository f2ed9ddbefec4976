/* A table to judge searches by: what each net of a closed grid reaches, trained from scratch.
 *
 * The nets are of the default space's kinds. Two nets are neighbours where they differ in one
 * axis, so every mutation leads to a net of the grid (as in NAS-Bench-101, Ying et al. 2019).
 */
#pragma once

#include "alloc/base/sys.h"
#include "tools/bench/bench.h"

enum {
    TABLE_AXES = 6,
    TABLE_NETS = 3 * 4 * 4 * 2 * 3 * 2,
    TABLE_SEEDS = 3,
    TABLE_RUNGS = 3,
    TABLE_BATCH = 50,
    TABLE_SAMPLES = 9000, /* of a training */
    TABLE_LOOK = 1000     /* validation samples at most */
};
/* Values of each axis, and samples at each rung. */
extern const int table_axis[TABLE_AXES];
extern const int table_rung[TABLE_RUNGS];

typedef struct {
    bool there;
    uint64_t parameters, operations; /* operations: of a step */
    uint32_t validation[TABLE_SEEDS][TABLE_RUNGS], test[TABLE_SEEDS]; /* right answers */
} table_net;

typedef struct {
    char data[256];
    uint64_t validation, test; /* samples */
    table_net *nets;           /* TABLE_NETS of them */
    uint32_t n;                /* that are there */
} search_table;

/* Read `path`, whose last line may be cut: *whole (or NULL) are the bytes of whole lines.
 * table_free after a failure too. SW_FORMAT names the line. */
SW_MUST_USE sw_status table_read(search_table *t, const char *path, uint64_t *whole);
void table_free(search_table *t);
/* Train what the file does not have, and append it line by line; a file that is not there is
 * begun. data: "synthetic" or idx:DIR. Ends early on Ctrl-C. */
SW_MUST_USE sw_status table_make(search_table *t, const char *path, const char *data,
                                 int threads);
