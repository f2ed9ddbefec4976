/* An op from outside that does what it says (y = 2 x by a workspace), or one thing wrong. */
#ifndef SW_TESTS_WITNESS_PROBE_H
#define SW_TESTS_WITNESS_PROBE_H

#include "runtime/stepwell.h"

typedef enum {
    PROBE_HONEST,
    PROBE_PAST_SCRATCH,  /* writes past its workspace */
    PROBE_PAST_OUTPUT,   /* writes past its output */
    PROBE_BEFORE_OUTPUT, /* writes before it */
    PROBE_PADDING,       /* writes into the rounding of its output */
    PROBE_WRITES_INPUT,
    PROBE_PEEKS,  /* probe 1 reads what probe 0 made, and does not say so */
    PROBE_POKES,  /* probe 1 writes there */
    PROBE_STALE,  /* reads its workspace before writing it */
    PROBE_BLEND,  /* reads its output before writing it */
    PROBE_LAZY,   /* leaves one element unwritten */
    PROBE_TOUCHES /* reads *probe_elsewhere, memory that is not the program's */
} probe_mischief;

extern probe_mischief probe_does;
extern const volatile unsigned char *probe_elsewhere;

sw_value probe_apply(sw_ctx *ctx, sw_value x, int number);
/* An op with a gradient that names its input as saved and never reads it. */
sw_value hoarder_apply(sw_ctx *ctx, sw_value x);

#endif
