/* What the runtime asks of an op beside its descriptor, so that no pass names one: the words of
 * its line in ops.def. Ops from outside have the default. */
#ifndef SW_OP_TRAITS_H
#define SW_OP_TRAITS_H

#include <stdint.h>

/* Who applies it: the words are explained in ops.def. */
typedef enum {
    SWI_CALL_ONE,
    SWI_CALL_TWO,
    SWI_CALL_THREE,
    SWI_CALL_NUMBER,
    SWI_CALL_OWN,
    SWI_CALL_INSIDE,
    SWI_CALL_OPTIMIZER
} swi_op_call;

/* How fast its arithmetic goes. */
typedef enum {
    SWI_WORK_VECTOR,    /* element by element in full vectors */
    SWI_WORK_BROADCAST, /* the same where inputs 0 and 1 have one shape; else as loops */
    SWI_WORK_LAID,      /* moves all elements to other places */
    SWI_WORK_LOOPS,     /* loops as compilers make them, float64; ops from outside */
    SWI_WORK_LOSS,      /* forward as loops, its gradients in vectors */
    SWI_WORK_ROWS,      /* forward by maxima and sums along rows, its gradients in vectors */
    SWI_WORK_MATRIX,    /* products; with one operand, the bias's gradient, in vectors */
    SWI_WORK_IMAGES,    /* convolutions; with one operand, the bias's gradient, as loops */
    SWI_WORK_SERIAL,    /* each element waits for the one before */
    SWI_WORK_TILES      /* a product, and an update of its result */
} swi_op_work;

/* What passes and optimizers have to know of it. */
typedef enum {
    SWI_DUTY_NONE,
    SWI_DUTY_FACTORS,      /* its gradient of input 1 is the product of two factors */
    SWI_DUTY_PARTS,        /* goes through the rows of input 0 in parts, and through input 1 in
                              each; its attributes begin with the rows of a part */
    SWI_DUTY_CHECK,        /* says whether input 0 is finite */
    SWI_DUTY_JOIN,         /* joins two such verdicts */
    SWI_DUTY_TICK,         /* counts steps, unless a verdict forbids it */
    SWI_DUTY_UPDATE,       /* updates a parameter, element by element */
    SWI_DUTY_UPDATE_WHOLE, /* updates a parameter, all of it at once */
    SWI_DUTY_TILED         /* makes a gradient and updates by it, some rows at a time */
} swi_op_duty;

typedef struct {
    swi_op_call call;
    swi_op_work work;
    swi_op_duty duty;
} swi_op_traits;

const swi_op_traits *swi_op_traits_of(uint32_t op);

/* The op that has a duty which one op has. */
uint32_t swi_op_with(swi_op_duty duty);

#endif
