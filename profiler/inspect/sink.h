/* Formats that a timeline is written in. One sink is one file, sink_<name>.c, and one line in
 * sinks.def. A sink streams: it takes room for what it must remember, never for its output. */
#pragma once

#include "profiler/inspect/timeline.h"

/* Where a sink writes; the first error stays, later bytes are dropped. */
typedef struct {
    sw_status (*write)(void *context, const void *bytes, size_t n);
    void *context;
    sw_status status;
    size_t used;
    char buffer[65536 - 64];
} sw_sink_out;

void sw_sink_bytes(sw_sink_out *out, const void *bytes, size_t n);
void sw_sink_text(sw_sink_out *out, const char *text);
void sw_sink_print(sw_sink_out *out, const char *format, ...) SW_PRINTF(2, 3);
SW_MUST_USE sw_status sw_sink_flush(sw_sink_out *out);

typedef struct {
    const char *name;   /* of --format */
    const char *about;  /* a line of --list-formats: what reads it */
    const char *ending; /* of files, such as ".json" */
    bool binary;        /* not for a terminal */
    /* Births, deaths and ops of runs that it can take: readers leave out runs beyond. 0: as
     * many as readers take by themselves. */
    uint64_t max_events;
    sw_status (*write)(const sw_timeline *t, sw_sink_out *out);
    /* Two runs side by side; NULL: the format is of one. */
    sw_status (*compare)(const sw_timeline *t, const sw_timeline *other, sw_sink_out *out);
} sw_sink;

/* NULL when there is none of that name. */
const sw_sink *sw_sink_find(const char *name);
/* The i-th in the order of sinks.def; NULL after the last. */
const sw_sink *sw_sink_at(uint32_t i);
