/* One launch on both sides: the CPU's kernel, and an entry of the CUDA module where it runs
 * (side.h), with the same operands. */
#ifndef SW_TESTS_ENTRY_H
#define SW_TESTS_ENTRY_H

#include "kernels/cuda/table.h"
#include "runtime/ops/ops.h"
#include "runtime/stepwell.h"
#include <stdbool.h>

#define SW_ENTRY_OPERANDS 40

/* Memory of one launch: each block exactly as large as was asked for, `shift` bytes after an
 * address divisible by 64, between bytes that no one may touch; freed all together. */
void *sw_entry_block(size_t bytes, size_t shift);
void sw_entry_free(void);
/* The size and shift of a block of sw_entry_block; false: `block` is no such block. */
bool sw_entry_block_at(const void *block, size_t *bytes, size_t *shift);
enum { SW_ENTRY_FENCE = 64 }; /* bytes that no one may touch, on both sides of a block */
/* Calls `each` of an operand's elements, those that lie together at once, as long as it returns
 * -1: a place; the result is in bytes from the operand's beginning. */
ptrdiff_t sw_entry_each(const sw_buffer *b, ptrdiff_t (*each)(const void *at, size_t bytes));

/* A buffer of that type with contiguous strides, `shift` elements after a good address; its
 * bytes are NaNs. */
sw_buffer sw_entry_buffer(const sw_type *type, size_t shift);
/* From numbers in plain order: into lanes where the type is in blocks (lanes past the batch get
 * `pad`), with gaps and reversed axes where `strided`. */
sw_buffer sw_entry_fill(const sw_type *type, const void *plain, bool strided, float pad,
                        size_t shift);

typedef struct {
    const char *label; /* for messages */
    const sw_cuda_entry *entry;
    sw_kernel *kernel;
    size_t (*scratch_bytes)(const sw_kernel_info *info);
    sw_buffer in[SW_ENTRY_OPERANDS], out[SW_ENTRY_OPERANDS];
    int n_in, n_out;
    const void *attrs;
    uint32_t accumulate;
    int alias[SW_ENTRY_OPERANDS]; /* of each output: the input that lends its bytes; -1: none */
    bool must_alias;              /* on the CPU too: updates */
    bool random;                  /* draws by counter; all others do not look at counters */
    size_t shift;                 /* of all operands, in elements */
    double factor;                /* of the tolerance; 0: 1 */
    double terms; /* results are sums of numbers of that size that cancel; 0: they do not */
    bool refused; /* the entry has no kernel for these layouts, and says so */
    uint32_t op;  /* of pieces, which find their kernel by it, with the order of its sums */
    int grad;
    sw_bf16_order order;
} sw_entry_run;

/* The op's forward kernel (which < 0) or a gradient kernel, and the entry; without operands. */
sw_entry_run sw_entry_of(const char *label, const sw_op_desc *desc, int which,
                         const void *attrs);
static inline bool sw_entry_is_exact(const sw_cuda_entry *entry)
{
    return entry->exact == 1 || entry->exact == 2;
}
/* One launch of the entry alone, with scratch as it wants it. */
void sw_entry_launch(const sw_cuda_entry *entry, const sw_buffer *in, int n_in,
                     const sw_buffer *out, int n_out, const void *attrs);
/* Run it in each way that there is (side.h), one of them on other counters, as a replay does,
 * and compare: bits between these, and with the CPU bits or numbers as the entry promises.
 * Inputs keep their bytes, outputs are written up to the last one. Asserts; the outputs of the
 * CPU are left in r->out. */
void sw_entry_compare(sw_entry_run *r);
/* Comparisons in which a replay drew other numbers. */
extern uint32_t sw_entry_draws;
/* The word that a random op draws for an element, but in a replay. */
uint32_t sw_entry_word(int64_t element);
/* The CPU's side alone. */
void sw_entry_cpu(sw_entry_run *r);
/* Whether the CPU's kernel adds where it is asked to. */
bool sw_entry_can_add(const sw_entry_run *r);
#endif
