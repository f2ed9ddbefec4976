/* bench place --perturbed: the solver over many problems that are known to have a placement. */
#ifndef STEPWELL_BENCH_PLACEMENT_FAMILIES_H
#define STEPWELL_BENCH_PLACEMENT_FAMILIES_H

#include "profiler/record/json.h"
#include "tools/place/place.h"

typedef struct {
    const char *const *files; /* up to n_files, then NULL */
    int n_files;
    size_t capacity; /* the roof of each file; 0: of the lowest placement that is found */
    int64_t perturbed, first, nodes, threads;
    bool quiet;
} families_opts;

/* Solve the problems first, first + 1, ... and show what became of each kind, or put it into
 * `json` where that is not NULL. CLI_GO or an exit status. */
int families_run(const families_opts *opts, sw_json *json);

#endif
