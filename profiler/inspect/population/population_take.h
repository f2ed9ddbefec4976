/* Between the files that read a population: one record becomes part of it. */
#ifndef STEPWELL_POPULATION_TAKE_H
#define STEPWELL_POPULATION_TAKE_H

#include "profiler/inspect/population/population_report.h"
#include "profiler/inspect/profile_read.h"

typedef struct {
    population *p;
    const population_want *want;
    population_turn open; /* the turn whose members come */
    bool opened;
    uint64_t good; /* lines that were taken */
} population_reader;

SW_MUST_USE sw_status population_take_shape(population_reader *r, const profile_position *at);
SW_MUST_USE sw_status population_take_member(population_reader *r, const profile_position *at);
SW_MUST_USE sw_status population_take_turn(population_reader *r, const profile_position *at);
void population_free_turn(population_turn *turn);

#endif
