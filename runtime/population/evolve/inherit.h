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
void swi_carry_tensor(const swi_carry *carry); /* inherit_carry.c */

/* Who inherits. */
typedef struct {
    const sw_net *to;
    unsigned char *bytes;
    const sw_net *parent[2];      /* NULL: there is none */
    const unsigned char *from[2]; /* their bytes */
    uint64_t seed;
    void *block; /* room for the moves of every vertex */
    size_t block_bytes;
    int32_t *pick;
    swi_neighbours *runs;
} swi_heir;
/* Has it parents, are these their nets, and is the lineage of each vertex one of theirs? */
sw_status swi_heir_check(const swi_heir *heir); /* inherit_check.c */

/* ---- inherit_begin.c ----------------------------------------------------------------------
 */

int64_t swi_entry_elements(const swi_entry *entry);
/* An entry's place, which is all to be written; what pads it is made zero. */
float *swi_place(const swi_heir *heir, const swi_entry *entry);
/* First values of elements first to first + n - 1, by the initialiser. */
void swi_write_first(const swi_heir *heir, const swi_entry *entry, float *to, int64_t first,
                     int64_t n);
void swi_begin_entry(const swi_heir *heir, const swi_entry *entry);
/* A weight that gives what it reads; as much of it as there are inputs and outputs. */
void swi_begin_identity(const swi_heir *heir, const swi_vertex *v, const swi_entry *weight);
void swi_begin_utility(const swi_heir *heir, const swi_entry *entry);

#endif
