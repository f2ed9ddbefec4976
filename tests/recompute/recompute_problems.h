/* Recomputation problems: random small programs, and chains of equal layers. */
#ifndef SW_TESTS_RECOMPUTE_RECOMPUTE_PROBLEMS_H
#define SW_TESTS_RECOMPUTE_RECOMPUTE_PROBLEMS_H

#include "runtime/plan/recompute/recompute.h"
#include "tests/support/suite.h"

#define PROBLEM_OPS 256
#define PROBLEM_LIST 512
#define PROBLEM_UNIT ((size_t)64)

typedef struct {
    swi_rc_op ops[PROBLEM_OPS];
    swi_rc_item items[PROBLEM_OPS];
    uint32_t reads[PROBLEM_LIST], makes[PROBLEM_LIST];
    size_t during[PROBLEM_OPS], between[PROBLEM_OPS];
    uint32_t n_reads, n_makes;
    uint32_t backward_of[PROBLEM_OPS]; /* as swi_rc_chain expects it */
    swi_rc_problem p;                  /* points into the above */
} problem;

/* `forward` ops of which most make an item or two, and one backward op for each, in reverse.
 * Forward ops read the item before, or skip, or join two; backward ops read some of what their
 * op read or made. Some ops work in place, take scratch, may not run again from some op on, or
 * never; a profile of fixed bytes lies under all. At most `most` items. */
void problem_random(sw_dice *dice, problem *out, uint32_t forward, uint32_t most);

/* n equal layers of one op each, or of an op (cost 3) and one that works in its place (cost 1)
 * and backward reads its result alone; items of PROBLEM_UNIT bytes. */
void problem_chain(problem *out, uint32_t n, bool paired);

/* Blocks y = x + conv(relu(conv(x))): backward reads the input of each conv and the result of
 * the relu, which works in place, as the sum does. A conv costs 20, the others 1. */
void problem_residual(problem *out, uint32_t blocks);

/* The program as it stands: no repeats. */
swi_rc_schedule problem_plain(const problem *in);

#endif
