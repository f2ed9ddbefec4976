/* How adafactor cuts a tensor into parts: by its shape alone, so that sums have one order. */
#ifndef SW_CPU_ADAFACTOR_H
#define SW_CPU_ADAFACTOR_H

#include "kernels/optim.h"

#define SWI_ADAFACTOR_PART 16384 /* elements, about */

/* Rows of one part, of all matrices together. */
static inline int64_t swi_adafactor_rows(int64_t cols)
{
    return cols < SWI_ADAFACTOR_PART ? SWI_ADAFACTOR_PART / cols : 1;
}

static inline int64_t swi_adafactor_parts(int64_t n, int64_t rows, int64_t cols)
{
    const int64_t each = swi_adafactor_rows(cols);
    return (n * rows + each - 1) / each;
}

#endif
