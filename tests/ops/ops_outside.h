/* Ops from outside, through the public header alone: several that keep their word and several
 * that do not. */
#ifndef SW_TESTS_OPS_OUTSIDE_H
#define SW_TESTS_OPS_OUTSIDE_H

#include <stepwell.h>

extern const sw_op_desc outside_square;    /* y = x * x: keeps its input */
extern const sw_op_desc outside_normalise; /* rows to mean 0 and variance 1, with scratch */
extern const sw_op_desc
    outside_fusion; /* (a + b, a b): two outputs and an extra that is saved */
extern const sw_op_desc outside_joint; /* a b; one kernel makes both gradients */
extern const sw_op_desc
    outside_skips; /* a b (a + b), with one too; leaves out what is not requested */

/* One fault each. */
extern const sw_op_desc planted_formula;   /* the forward is not the reference */
extern const sw_op_desc planted_gradient;  /* dx = x dy */
extern const sw_op_desc planted_overwrite; /* its gradient writes where it should add */
extern const sw_op_desc
    planted_undeclared; /* its gradient reads an input that it has not saved */
extern const sw_op_desc planted_needless;  /* saves its output and does not use it */
extern const sw_op_desc planted_inplace;   /* says in place, but reads inputs after writing */
extern const sw_op_desc planted_untried;   /* says in place where sizes never match */
extern const sw_op_desc planted_scratch;   /* writes past its scratch */
extern const sw_op_desc planted_unwritten; /* leaves its last element unwritten */
extern const sw_op_desc planted_isa;       /* is wrong with older instruction sets */
extern const sw_op_desc planted_threads;   /* its sum depends on the number of threads */
extern const sw_op_desc planted_memory;    /* remembers the number of its calls */
extern const sw_op_desc planted_refusal;   /* its forward fails */
extern const sw_op_desc planted_one;       /* wrong where one value is both of its inputs */
extern const sw_op_desc planted_skips;     /* wrong where its first gradient is left out */

#endif
