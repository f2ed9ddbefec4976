/* Between the files that compare two turns. */
#ifndef STEPWELL_POPULATION_PAIR_H
#define STEPWELL_POPULATION_PAIR_H

#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/report/print.h"

enum { POPULATION_NOTE_BYTES = 512 };

typedef struct {
    const population_pair *pair;
    uint32_t n;                                       /* members of the larger side */
    char note[POPULATION_NOTE_BYTES], shapes[2 * 48]; /* of the latest row */
} population_pair_view;

/* A row for each member; `v` has the room for a row's text. */
table population_pair_table(population_pair_view *v);
/* How many members that both turns have changed their shape, and their values. */
void population_pair_counts(population_pair_view *v, uint32_t *shapes, uint32_t *values);

#endif
