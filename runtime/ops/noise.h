/* Shared by the ops with noise on parameters: kernels/noise.h has the formulas. */
#pragma once

#include "kernels/noise_kernels.h"
#include "runtime/ops/ops.h"

/* SW_INVALID names what of a parameter's noise cannot be. */
sw_status swi_noise_check(const char *op, const sw_noise_spec *spec);
/* SW_INVALID names what of the attributes cannot be, for a batch with `rows` along axis 0. */
sw_status swi_noise_infer(const char *op, const swi_noise_attrs *a, int64_t rows,
                          const sw_type *sigma);

/* Rows of each evaluation. */
static inline int64_t swi_noise_rows_each(const swi_noise_attrs *a, int64_t rows)
{
    return rows / (a->repeats * a->directions);
}

/* Noise of a matrix in cases; `less_rows` and `less_cols`: positions that PERMUTED and SPARSE
 * leave out. */
#define SPEC(a_kind, a_sides, a_rank, outputs, inputs, a_taps, less_rows, less_cols, a_stream) \
    {                                                                                          \
        .kind = a_kind, .sides = a_sides, .rank = a_rank, .rows = outputs,                     \
        .cols = (inputs) * (a_taps), .keep_rows = (outputs) - (less_rows),                     \
        .keep_cols = (inputs) - (less_cols), .taps = a_taps, .stream = a_stream                \
    }
#define BOTH_SIDES (SW_NOISE_IN | SW_NOISE_OUT)
