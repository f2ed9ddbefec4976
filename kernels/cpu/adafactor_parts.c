/* Sizes that callers of the adafactor kernel need, the same for every instruction set. */
#include "kernels/cpu/adafactor.h"

int64_t sw_adafactor_scratch(int64_t n, int64_t rows, int64_t cols)
{
    return 2 * swi_adafactor_parts(n, rows, cols) + n;
}
