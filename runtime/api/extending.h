/* Ops from outside: the descriptor, the same that the ops inside use.
 *
 *     uint32_t id, checks, failures;
 *     SW_TRY(sw_op_register(&desc, &id));
 *     x = sw_op_apply(ctx, id, &x, 1, NULL);
 *     SW_TRY(sw_op_check(id, NULL, NULL, &checks, &failures));
 *     return failures == 0 ? SW_OK : SW_INVALID;
 */

/* Elements that exist in memory, lanes of padding included; payload bytes. */
SW_API int64_t sw_type_elements(const sw_type *type);
SW_API size_t sw_type_bytes(const sw_type *type);

/* Operands of a gradient kernel. */
#define SW_IN(i) ((uint16_t)(0x100 | (i)))   /* input i of the forward op: saved */
#define SW_OUT(i) ((uint16_t)(0x200 | (i)))  /* output i (extras follow the outputs): saved */
#define SW_DOUT(i) ((uint16_t)(0x300 | (i))) /* gradient of output i */

/* One gradient kernel: operands in this order in launch->in, the gradients of the inputs in
 * `makes` in launch->out. The operands that it names with SW_IN and SW_OUT are the save policy.
 * An optional operand that the op does not have is absent. One value may be given as several
 * inputs: its gradient is then the sum, and each of launch->out still has bytes of its own.
 *
 * Kernels are taken in the order of the table: one that makes required gradients alone, or
 * leaves the others out (sw_op_desc, skips); where there is none, the one that makes most of
 * the required gradients. An op needs no kernel for each set of inputs; one that makes all is
 * enough. */
typedef struct {
    int n_makes;
    uint8_t makes[8]; /* indices of inputs, each once */
    int n_operands;
    uint16_t operands[16];
    uint32_t inplace; /* bit k: out[0] may take operand k's place: same bytes, same index */
    size_t (*scratch_bytes)(const sw_kernel_info *info); /* NULL: none */
    sw_kernel *kernel;
    sw_kernel *(*select)(const sw_kernel_info *info); /* NULL: kernel */
    /* As in sw_op_desc. It stands where a reserved word was: of the same size where pointers
     * have 64 bits. */
    uint64_t (*operations)(const sw_kernel_info *info);
    /* Where several make the same required gradients, the one is taken that keeps the fewest
     * bytes that no other op keeps anyway, then the one that makes the fewest others, the first
     * of equals. NULL: with all attributes; it stands where a reserved word was, as above. */
    int (*applies)(const void *attrs);
} sw_grad_desc;

/* A gradient rule for ops with a gradient that is made of other ops: set din[i] where
 * wanted[i], an F32 value of the input's shape; {0}: no gradient passes. */
typedef struct {
    const sw_value *in, *out, *dout; /* dout {0}: no gradient came */
    const int *wanted;
    sw_value *din;
    const void *attrs;
    int n_in;
} sw_rule;

/* Plain double-precision forward, for checks. Integers come as doubles. */
typedef struct {
    const double *const *in;
    const sw_type *in_type;
    int n_in;
    double *const *out; /* the n_out outputs, not the extras; plain layout */
    const sw_type *out_type;
    const void *attrs;
    uint64_t seed;
    uint32_t stream, step, run;
} sw_reference;

/* How a test fills an input. */
typedef enum {
    SW_FILL_NORMAL,
    SW_FILL_AWAY,     /* normal, at least 0.1 away from 0: no kink near */
    SW_FILL_DISTINCT, /* a shuffled grid of step 0.05: no two are close */
    SW_FILL_UNIT,     /* uniform in 0..1 */
    SW_FILL_LABELS,   /* integers in 0..limit-1 */
    SW_FILL_BYTES     /* 0..255 */
} sw_fill;

typedef struct {
    const char *name;
    int n_in;
    sw_type in[4]; /* more inputs repeat the last */
    sw_fill fill[4];
    int64_t limit;
    const void *attrs;
    double forward_error;  /* relative to the largest element; 0: 1e-5 */
    double gradient_error; /* relative along a direction; 0: 1e-3, the most that is allowed */
    uint64_t reserved[2];  /* must be zero */
} sw_op_case;

typedef struct {
    size_t size;
    const char *name;
    int n_in;    /* inputs at least */
    int max_in;  /* 0: n_in; optional or repeated inputs: at most 36, with grads 32 */
    int n_out;   /* outputs that users see */
    int n_extra; /* outputs kept for backward only */
    size_t attrs_bytes;
    /* Types of outputs and extras from those of the inputs; SW_FAIL(SW_INVALID, ...) with a
     * reason. A type that cannot be is refused after it: SW_INVALID, too large SW_NOMEM. */
    sw_status (*infer)(const sw_type *in, int n_in, const void *attrs, sw_type *out);
    /* The layout that image inputs (mask image_in; 0: all of rank 4) must have. NULL: plain. */
    sw_layout (*layout)(const sw_type *in, int n_in, const void *attrs);
    uint32_t image_in;
    uint32_t strided_in; /* bit i: input i may have any strides (plain layout) */
    uint32_t inplace; /* bit i: out[0] may take the place of input i (same bytes, same index) */
    size_t (*scratch_bytes)(const sw_kernel_info *info); /* NULL: none */
    sw_kernel *forward;                                  /* NULL for views */
    sw_kernel *(*select)(const sw_kernel_info *info);    /* NULL: forward */
    /* A view: strides (elements) and offset (elements) of the result on the input's bytes, past
     * which it may not reach; one input, one output, elements of the same size, no kernel.
     * Returns SW_UNSUPPORTED when strides cannot say it; a contiguous copy of the input is then
     * tried. */
    sw_status (*view)(const sw_buffer *in, const void *attrs, const sw_type *out,
                      int64_t *strides, int64_t *offset);
    /* Without grads, rule and no_gradient, a backward that needs the op's gradient fails. */
    const sw_grad_desc *grads;
    int n_grads;
    void (*rule)(sw_ctx *ctx, const sw_rule *rule); /* instead of grads */
    int no_gradient;                                /* gradients stop here without an error */
    int random;                                     /* draws from a stream */
    sw_status (*reference)(const sw_reference *reference);
    const sw_op_case *cases;
    int n_cases;
    sw_phase phase; /* with has_phase */
    int has_phase;
    /* Arithmetic operations of one run of the forward kernel, by which the planner chooses what
     * to compute twice. A multiply-add is two, a comparison, a division and a square root one,
     * exp and its like as many as their polynomials take. Elements count as users see them,
     * without lanes of padding. The library counts the additions of info->accumulate: one more
     * for each element of such an output. UINT64_MAX where it is more than that. It depends on
     * types and attributes alone, not on info->threads and info->isa. NULL: one for each
     * element of each output. */
    uint64_t (*operations)(const sw_kernel_info *info);
    /* 1: so cheap that planned runs recompute its results in backward rather than keep them,
     * where all that it reads is kept until then anyway, or can be recomputed itself. The
     * bits are the same: the kernel runs again on the same bytes. */
    int rebuild;
    /* Bit g: grads[g] takes NULL as launch->out[k].ptr for a gradient that is not required (of
     * a frozen parameter, an input of the run), and leaves that gradient out. Without the bit a
     * kernel that makes more gradients than are required makes them all, and the plan counts
     * bytes for them until it ends. The operands that it names are kept whatever is left out:
     * where some of the gradients need less, a kernel of their own keeps less. */
    uint64_t skips;
    /* The inputs that a kernel of the CPU leaves unread for these types and attributes,
     * whatever the numbers are: bit i is launch->in[i] of the forward kernel (grad -1) or of
     * grads[grad]. A convolution with windows that miss the image leaves them unread. The plan
     * lets an operand end where it is read last, so a kernel must not touch what it says here.
     * NULL: all is read. */
    uint32_t (*unread)(const sw_kernel_info *info, int grad);
} sw_op_desc;

/* Register an op; the descriptor is copied (what it points to is kept). Names are unique. Not
 * while another thread traces. SW_INVALID names the op and the member that cannot be. */
SW_MUST_USE SW_API sw_status sw_op_register(const sw_op_desc *desc, uint32_t *id);
/* Append one op; returns its first output. attrs are copied, and compared byte for byte where
 * two traces are: keep their padding zero. `outs` (or NULL) receives all n_out. Ops that only
 * an optimizer may append are refused. */
SW_API sw_value sw_op_apply(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in,
                            const void *attrs);
SW_API sw_value sw_op_apply_all(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in,
                                const void *attrs, sw_value *outs);
/* All ops by position, inside ones first; NULL past the end. */
SW_API const sw_op_desc *sw_op_at(uint32_t id);

/* Run every test that a descriptor promises (forward against the reference, gradients
 * against differences along random directions, in place, saved bytes, accumulation, one
 * value for several inputs, threads) over its cases, and again in bf16 where the op has such
 * numbers; SW_INVALID without any. `report` receives a line per failure; NULL is fine. */
SW_MUST_USE SW_API sw_status sw_op_check(uint32_t id,
                                         void (*report)(void *to, const char *line), void *to,
                                         uint32_t *n_checks, uint32_t *n_failures);
