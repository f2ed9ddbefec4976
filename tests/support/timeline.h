/* Timelines made for tests. */
#ifndef SW_TESTS_TIMELINE_H
#define SW_TESTS_TIMELINE_H

#include "profiler/inspect/timeline.h"

typedef struct {
    uint32_t programs, runs, ops,
        values;     /* ops, values: of each program, at most; at least 1 */
    bool logs;      /* half of the runs have a log that says the same */
    bool odd_names; /* quotes, semicolons, tags, UTF-8, very long ones */
} sw_made_timeline;

/* Drawn from the seed, finished, valid in every way; values of the step do not overlap. The
 * caller frees it. Ends the test (CU_FAIL_FATAL) where memory is refused. */
sw_timeline *sw_make_timeline(uint64_t seed, const sw_made_timeline *how);

#endif
