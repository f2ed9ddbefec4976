/* From a file to a timeline: a profile of ours, or what another tool wrote. */
#ifndef STEPWELL_TIMELINE_READ_H
#define STEPWELL_TIMELINE_READ_H

#include "profiler/inspect/timeline.h"

#define TIMELINE_EVENTS ((uint64_t)1000000)
#define TIMELINE_STEPS 16

typedef struct {
    uint64_t max_events;           /* births, deaths and ops; 0: TIMELINE_EVENTS */
    uint64_t step[TIMELINE_STEPS]; /* these only; none: as many as max_events allows, half of */
    uint32_t n_steps;              /* them from the front, half from the end */
} timeline_want;

/* All programs and the runs that are requested (NULL: no step by number). The kind of the file
 * is seen from its first bytes. SW_FORMAT and SW_IO name the file and the line. Of a profile
 * that is damaged after its header there is what precedes the damage, and `damaged` says so; a
 * last line that is cut ends the timeline and nothing more. Owner: the caller, by
 * sw_timeline_free. */
SW_MUST_USE sw_status timeline_open(sw_timeline **out, const char *path,
                                    const timeline_want *want);

#endif
