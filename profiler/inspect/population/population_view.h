/* Between the files of a population's report. */
#ifndef STEPWELL_POPULATION_VIEW_H
#define STEPWELL_POPULATION_VIEW_H

#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/report/print.h"

/* A turn of a population, and what is shown of it. */
typedef struct {
    population *p;
    const population_turn *turn; /* NULL: none has ended */
    uint32_t *shape;             /* n_shapes indices: those that members have */
    uint32_t n_shapes;
    population_step *step; /* of each of them */
    population_rows rows;
    const report_style *style;
    const report_tail *more; /* of JSON; NULL: none */
} population_view;
table population_member_table(const population_view *v);
table population_shape_table(const population_view *v);
table population_budget_table(const population_view *v);
/* Of the shape's highest step; NULL: it has no plan. */
const sw_tl_program *population_program(const population_view *v,
                                        const population_shape *shape);
uint64_t population_members_of(const population_view *v, uint32_t shape);

void population_print_text(const population_view *v);
SW_MUST_USE sw_status population_print_json(const population_view *v);

/* Between the files that compare two turns. */

enum { POPULATION_NOTE_BYTES = 512 };

typedef struct {
    const population_pair *pair;
    uint32_t n;                                       /* members of the larger side */
    char note[POPULATION_NOTE_BYTES], shapes[2 * 48]; /* of the latest row */
} population_pair_view;

/* Between the files that read a population: one record becomes part of it. */

typedef struct {
    population *p;
    const population_want *want;
    population_turn open; /* the turn whose members come */
    bool opened;
    uint64_t good; /* lines that were taken */
} population_reader;

#endif
