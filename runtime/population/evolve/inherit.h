/* Between the files that carry the state of nets over to their descendants. */
#ifndef SW_INHERIT_H
#define SW_INHERIT_H

#include "runtime/population/evolve/net.h"

/* Neighbours that stay neighbours: n positions from `to` on were those from `from` on;
 * SWI_NEW: none. */
typedef struct {
    int32_t to, from, n;
} swi_neighbours;

/* Write elements first to first + n - 1 of a tensor, which begin at `to`. */
typedef void swi_write_fn(void *context, float *to, int64_t first, int64_t n);

/* A tensor (rows, columns of a group, ky, kx) that takes over what descends from another one.
 * Row r was row map_rows[r] there. Its groups of rows read groups of inputs: column c of group
 * j is input j * cols + c, which was input map_cols[that]; where that was not read by the group
 * of the row's origin there is nothing to take over. Taps keep their distance from the middle.
 */
typedef struct {
    float *to;
    const float *from;
    const int32_t *map_rows, *map_cols; /* map_cols NULL: one column, the same in both */
    int64_t rows, rows_from, cols, cols_from;
    int64_t groups, groups_from;
    int64_t ky, kx, ky_from, kx_from;
    float fill;              /* of columns and taps that are new in a row that is not */
    swi_write_fn *write_new; /* rows that are new */
    void *context;
    int32_t *pick;        /* room for cols */
    swi_neighbours *runs; /* room for rows + cols */
} swi_carry;
void swi_carry_tensor(const swi_carry *move);

#endif
