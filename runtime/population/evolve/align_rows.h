/* Between the files that make rows: what numbers of units must fulfil. */
#ifndef SW_ALIGN_ROWS_H
#define SW_ALIGN_ROWS_H

#include "runtime/population/evolve/align_internal.h"

typedef struct {
    swi_alignment *al;
    swi_var *vars;
    swi_row *rows;
    uint32_t n_rows;
    /* Terms of the row that is being made. */
    swi_term *terms;
    uint32_t n_terms;
    uint32_t *place;  /* by variable: which term, from 1 on */
    uint32_t *joined; /* variables that hang together */
} swi_rows;

/* A vertex's channels in so many groups. */
typedef struct {
    uint32_t vertex;
    int groups;
} swi_grouped;

void swi_rows_add_term(swi_rows *b, uint32_t var, int64_t coef);
/* All outputs of a vertex. */
void swi_rows_add_vertex(swi_rows *b, uint32_t vertex);
bool swi_unit_begins_cell(const swi_alignment *al, uint32_t unit);

/* The inputs and outputs of the grouped convolutions that are concerned. */
sw_status swi_groups_find(swi_alignment *al, swi_grouped **out, uint32_t *n);
/* Cells that are alone in their groups become one variable (`var`: classes of cells); the
 * others are left in `x`. */
sw_status swi_groups_join(swi_alignment *al, uint32_t *var, swi_grouped *x, uint32_t *n);
/* Terms of group k less the first one. */
void swi_groups_add(swi_rows *b, const swi_grouped *x, int k);

/* Cells that must stay or go say so. */
void swi_rows_fix(swi_alignment *al);
/* Variables of all cells. */
sw_status swi_rows_vars(swi_rows *b, uint32_t *var);
sw_status swi_rows_make(swi_rows *b, const swi_grouped *x, uint32_t n_grouped, bool relax);

#endif
