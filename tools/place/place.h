/* Shared by `stepwell place` and `stepwell bench place`: one solve, timed and checked. */
#pragma once

#include "tools/cli/cli.h"
#include "tools/place/place_csv.h"

/* Where a person waits for it, a problem may take more search than a plan: seconds. */
#define PLACE_NODES ((int64_t)1000000)

typedef struct {
    size_t capacity;      /* 0: as low as possible */
    uint64_t nodes, seed; /* as the solver takes them */
    uint64_t until_ns;    /* by cli_clock_ns(); 0: no limit */
    unsigned threads;     /* of the search; the answer does not depend on it */
} place_request;

typedef struct {
    sw_placement_result result;
    place_checked checked;
    uint64_t solve_ns, check_ns;
    bool holds;       /* the height is within the capacity */
    bool optimal;     /* proved: nothing is lower */
    bool timed_out;   /* the time limit ended it */
    bool interrupted; /* there was a Ctrl-C before its end */
} place_answer;

/* Solve, and check the answer against the problem: SW_INVALID when buffers overlap, or height
 * or lower bound are not what the solver says. */
SW_MUST_USE sw_status place_solve(place_csv *csv, const place_request *request,
                                  place_answer *answer);

/* How far the height is above the lower bound. */
double place_gap_percent(const place_answer *answer);

/* The status to leave with: CLI_DONE, CLI_NO_FIT or CLI_INTERRUPTED. */
int place_status(const place_answer *answer);
