/* Between the files of sw_op_check: one case of one op, its operands, and a run of it.
 *
 *   op_check.c          the list of checks, verdicts and lines of the report; operands from
 *                       Philox, their doubles, the double-precision loss
 *   op_check_program.c  the step function around the op, and one run of it; what the plan
 *                       keeps, and the program run in memory that punishes mistakes */
#pragma once

#include "runtime/observe/observe.h"

#define SWI_CHECK_INPUTS 36
/* Directions of differences: through all inputs at once, and two through each. */
#define SWI_CHECK_JOINT 3
#define SWI_CHECK_DIRECTIONS (SWI_CHECK_JOINT + 2 * SWI_CHECK_INPUTS)
#define SWI_CHECK_OUTPUTS 8
#define SWI_CHECK_ALL UINT32_MAX /* of what gradients are checked for */

typedef struct {
    sw_type type;     /* plain layout */
    sw_layout layout; /* as the case says */
    int64_t n;        /* elements */
    void *data;       /* n of them */
    double *exact;    /* the same as doubles */
    sw_type
        wide_type; /* one element more at both ends of the last axis; a scalar stays as it is */
    int64_t wide_n;
    void *wide;  /* data inside of other numbers */
    bool wanted; /* gradients flow to it: a parameter. Else an input of the run */
    bool half;   /* it becomes bf16 before the op */
    sw_param param, wide_param;
} swi_check_operand;

typedef struct {
    sw_type type; /* plain layout */
    int64_t n;
    float *weight[2]; /* the loss is the sum of output * weight[0]; F32 only. [1]: of a second
                         use */
    double *exact;    /* from the reference, once for all instruction sets */
} swi_check_output;

/* The checks of each instruction set: a case reports each of them once. */
typedef enum { SWI_CHECK_FORWARD, SWI_CHECK_GRADIENT, SWI_CHECK_SUBJECTS } swi_check_subject;
typedef struct {
    uint32_t n_checks, n_failures;
    uint32_t sets;  /* a bit for each instruction set that shows one */
    char text[320]; /* of the first */
} swi_check_once;

typedef struct {
    uint32_t id;
    const sw_op_desc *desc;
    const sw_op_case *spec;
    int index;      /* of the case */
    sw_dtype dtype; /* SW_BF16: numbers are those of bf16, so the reference sees the same, and
                       what is no weight becomes bf16 before the op */
    swi_check_operand in[SWI_CHECK_INPUTS];
    int n_in, n_wanted;
    uint32_t as_is; /* bit i: input i is a parameter or an input of the run, also where inputs
                       are MADE */
    swi_check_output out[SWI_CHECK_OUTPUTS];
    double slope[SWI_CHECK_DIRECTIONS]; /* differences along each; NaN: not known yet */
    sw_model *model;                    /* NULL when no gradient is asked for */
    sw_optimizer *optimizer;
    sw_exec *plain, *threads, *apart; /* one thread; three; one without the in-place pass */
    sw_exec *lower[3]; /* older instruction sets, and with bf16 the other order of summation;
                          NULL where there is none */
    int isa;           /* of the checks that run now, for the report; 3: the other order */
    swi_check_once once[SWI_CHECK_SUBJECTS];
    struct swi_check_block *blocks; /* freed with the case */
    void (*report)(void *to, const char *line);
    void *to;
    uint32_t n_checks, n_failures, n_cases;
    uint32_t taken, grad_taken[32]; /* in-place bits that some case has tried */
} swi_check;

/* How the op is used in a run; the call's variant has 16 bits for it. */
enum {
    SWI_CHECK_TRAIN = 1, /* with a loss and its gradients */
    SWI_CHECK_GIVE = 2,  /* outputs leave the run */
    SWI_CHECK_MADE =
        4, /* each F32 input is the result of another op, so its bytes may be taken */
    SWI_CHECK_SLICED = 8,  /* each input is a slice of something larger */
    SWI_CHECK_TWICE = 16,  /* the op is used twice on the same inputs */
    SWI_CHECK_SECOND = 32, /* with the second weights */
    SWI_CHECK_NOW = 64,    /* immediate mode */
    SWI_CHECK_EQUAL = 128, /* inputs of one type have the numbers of the first of them */
    SWI_CHECK_ONE = 256,   /* and are the first of them: one value for several inputs */
    SWI_CHECK_HELD = 512 /* outputs are kept by another op too, until their gradient is there */
};

/* The results of one run, in memory of the case. */
typedef struct {
    void *out[SWI_CHECK_OUTPUTS];
    float *grad[SWI_CHECK_INPUTS]; /* NULL where it has no gradient */
    bool clean;                    /* sliced: gradients outside the slice are zero */
} swi_check_result;

/* Everything that a run needs, alive as long as the case's blocks. */
typedef struct {
    swi_check *check;
    uint32_t flags;
    uint32_t only; /* mask of the inputs with gradients */
} swi_check_use;

typedef struct {
    swi_check_use use;
    sw_array inputs[SWI_MAX_INPUTS];
    sw_run_args args;
} swi_check_call;

/* Memory of the case. */
sw_status swi_check_take(swi_check *c, void **out, size_t bytes);
sw_status swi_check_begin(swi_check *c, int index);
void swi_check_end(swi_check *c);
/* Outputs of the double-precision forward at the inputs. */
sw_status swi_check_reference(swi_check *c, double *const *in, double **out);

/* Is input i's gradient computed in a run with this mask? */
bool swi_check_wants(const swi_check *c, uint32_t only, int i);
/* The operands of bf16 in the last run of `exec`: inputs of the op by bits, outputs after
 * SWI_CHECK_INPUTS of them. */
uint64_t swi_check_halves(const swi_check *c, const sw_exec *exec);
sw_status swi_check_call_fill(swi_check *c, uint32_t flags, uint32_t only,
                              swi_check_call *call);
/* The model as every run finds it: inputs written, nothing kept. */
sw_status swi_check_model_fill(swi_check *c, sw_exec *exec, uint32_t flags);
/* The first of the inputs with gradients that has input i's type and layout; i itself
 * where there is none before it. */
int swi_check_twin(const swi_check *c, int i);
sw_status swi_check_run(swi_check *c, sw_exec *exec, uint32_t flags, uint32_t only,
                        swi_check_result *out);
bool swi_check_same(const swi_check *c, const swi_check_result *a, const swi_check_result *b,
                    char *where, size_t bytes);

/* Roundings to bf16 one after the other in the gradients of that run: of each result, and of
 * each output that they read, whose powers up to the third are in slopes. */
int swi_check_roundings(const swi_check *c, const sw_exec *exec);
/* sw_op_check in one type; n_cases: those that have values of it. */
sw_status swi_op_check(uint32_t id, sw_dtype dtype, void (*report)(void *to, const char *line),
                       void *to, uint32_t *n_checks, uint32_t *n_failures, uint32_t *n_cases);
/* Count one check; a failure is reported as "op, case: what: numbers". */
void swi_check_say(swi_check *c, bool good, const char *what, const char *format, ...)
    SW_PRINTF(4, 5);

/* The in-place pass took the bytes of a MADE input in the last run of `exec`, where the
 * descriptor allows it and sizes fit. */
void swi_check_taken(swi_check *c, const sw_exec *exec);
/* Runs in memory where everything dead is NaN; then saved bytes, or, with the exec `apart`,
 * every place that a result may take. `base` has the expected gradients. */
sw_status swi_check_program(swi_check *c, sw_exec *exec, uint32_t flags,
                            const swi_check_result *base);
