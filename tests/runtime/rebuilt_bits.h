/* Results that the rebuild pass recomputes, byte for byte against those of the forward part. */
#ifndef SW_TESTS_RUNTIME_REBUILT_BITS_H
#define SW_TESTS_RUNTIME_REBUILT_BITS_H

#include "runtime/exec/exec.h"

typedef struct {
    uint32_t results; /* of ops that ran a second time: compared */
    uint32_t differ;  /* of these */
    uint32_t unknown; /* of these: no op of the forward part was found */
    size_t bytes;     /* compared */
    char first[160];  /* the first that differs or is unknown */
} rebuilt_bits;

/* Runs the program of the exec's last run once more, every storage in a room of its own, from
 * the models as they are now; they stay so. `plant`: a byte of each forward result is changed
 * before it is compared. */
sw_status rebuilt_bits_compare(sw_exec *exec, const sw_run_args *args, bool plant,
                               rebuilt_bits *out);

#endif
