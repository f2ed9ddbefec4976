/* A writer of pickles, protocol 2: data only, of the kinds that JSON has, and pairs. Made for
 * viewers that read a part of the format: lists come in batches of at most a thousand items,
 * and numbers in at most eight bytes. A string or a whole value that comes again can be written
 * once and named by its number from then on.
 *
 *     sw_pickle_start(&p, out);
 *     sw_pickle_begin(&p, '{');
 *     sw_pickle_string(&p, "frames");
 *     sw_pickle_begin(&p, '[');
 *     sw_pickle_end(&p);
 *     number = sw_pickle_keep(&p);
 *     sw_pickle_string(&p, "same");
 *     sw_pickle_again(&p, number);
 *     sw_pickle_end(&p);
 *     sw_pickle_stop(&p);
 *
 * Errors are those of the sink; keys of a dictionary and their values take turns, which is the
 * caller's business. */
#pragma once

#include "profiler/inspect/sink.h"

#define SW_PICKLE_DEPTH 16
#define SW_PICKLE_BATCH 1000

typedef struct {
    sw_sink_out *out;
    uint32_t depth;
    uint32_t items[SW_PICKLE_DEPTH]; /* of the batch that is open, at each level */
    bool list[SW_PICKLE_DEPTH];
    uint32_t n_kept;
} sw_pickle;

void sw_pickle_start(sw_pickle *p, sw_sink_out *out);
void sw_pickle_stop(sw_pickle *p);

void sw_pickle_begin(sw_pickle *p, char bracket); /* '{' or '[' */
void sw_pickle_end(sw_pickle *p);
void sw_pickle_string(sw_pickle *p, const char *text); /* UTF-8, at most 4 GiB */
void sw_pickle_u64(sw_pickle *p, uint64_t x);          /* at most INT64_MAX */
void sw_pickle_bool(sw_pickle *p, bool x);
void sw_pickle_tuple2(sw_pickle *p, uint32_t a, uint32_t b);

/* The number of the value that was just written, or just ended. */
uint32_t sw_pickle_keep(sw_pickle *p);
/* That value once more. */
void sw_pickle_again(sw_pickle *p, uint32_t number);
