/* The cost of a node: counted operations, bytes, and an estimate of its time from both.
 *
 * A kernel takes time for its arithmetic and for its bytes; the estimate is the sum of both and
 * of a launch. How fast arithmetic goes depends on the kind of kernel. The rates are constants,
 * measured once: a plan must be the same on every machine and whatever else that runs, and the
 * choice of what to compute twice asks for ratios, not for seconds. */
#include "runtime/ops/ops.h"
#include "runtime/ops/strip.h"
#include "runtime/plan/program.h"
#include "runtime/plan/tiles.h"
#include <string.h>

static const swi_value *operand(const swi_trace *trace, const swi_node *node, uint32_t i)
{
    return &trace->values[trace->operands[node->first + i]];
}

static bool adds(const swi_node *node, uint32_t out)
{
    return out < 32 && (node->accumulate >> out & 1u) != 0;
}

uint64_t swi_node_operations(const swi_trace *trace, const swi_node *node)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    const sw_op_desc *desc = swi_op(node->op);
    if (node->is_view)
        return 0;
    swi_kernel_info(trace, node, types, &info);
    uint64_t (*count)(const sw_kernel_info *) =
        node->grad >= 0 ? desc->grads[node->grad].operations : desc->operations;
    uint64_t sum = count != NULL ? count(&info) : 0;
    for (uint32_t i = 0; i < node->n_out; i++) {
        const uint64_t each = (count == NULL && !swi_is_null(node, i)) + adds(node, i);
        sum = swi_count_add(sum, swi_count_per_element(&info.out[i], each));
    }
    return sum;
}

uint64_t swi_node_bytes(const swi_trace *trace, const swi_node *node)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    uint64_t sum = 0;
    swi_kernel_info(trace, node, types, &info);
    for (uint32_t i = 0; i < node->n_in + node->n_out && !node->is_view; i++) {
        if (i >= node->n_in && swi_is_null(node, i - node->n_in))
            continue;
        const bool one = i < node->n_in && swi_reads_one_element(node->op, &info, (int)i);
        const uint64_t bytes = one ? sw_dtype_bytes(types[i].dtype) : sw_type_bytes(&types[i]);
        const bool twice = i >= node->n_in && adds(node, i - node->n_in);
        sum = swi_count_add(sum, twice ? swi_count_mul(bytes, 2) : bytes);
    }
    return sum;
}

/* ---- time -------------------------------------------------------------------------------- */

/* Units (sixteenths of a nanosecond) for `n` operations. Measured on one core of a Xeon of 2023
 * with AVX-512, smallest of many runs; `stepwell bench costs` prints the table. An op in cache
 * and one from memory differ by a factor of two or more. */
typedef struct {
    uint64_t units, n;
} rate;

static const rate matrix = {1, 12}; /* packed products, convolutions: 192 per ns */
static const rate vector = {1, 5};  /* element by element in full vectors: 80 per ns */
static const rate rows = {2, 1};    /* maxima and sums along rows, Philox: 8 per ns */
static const rate plain = {3, 1};   /* loops as compilers make them, float64: 5.3 per ns */
static const rate serial = {32, 1}; /* each waits for the one before: 0.5 per ns */

#define UNITS_PER_LAUNCH 1024u /* 64 ns */

/* Small data are still in the cache: the first MiB goes at 128 bytes per ns. The rest, and all
 * that is laid anew, goes at 48. */
#define NEAR_BYTES ((uint64_t)1 << 20)
#define NEAR_BYTES_PER_UNIT 8u
#define FAR_BYTES_PER_UNIT 3u

static uint64_t units_moved(uint64_t bytes, uint64_t most_near)
{
    const uint64_t near = bytes < most_near ? bytes : most_near;
    return near / NEAR_BYTES_PER_UNIT + (bytes - near) / FAR_BYTES_PER_UNIT;
}

static uint64_t units_of_bytes(const swi_trace *trace, const swi_node *node)
{
    const bool laid_anew = swi_op_traits_of(node->op)->work == SWI_WORK_LAID;
    return units_moved(swi_node_bytes(trace, node), laid_anew ? 0 : NEAR_BYTES);
}

/* An op that goes through its rows in parts reads its weights and lays them for a product twice
 * in each, and reads and writes their gradient: as long as moving them seven times, by measured
 * times of parts of 32 to 512 rows. */
#define MOVES_PER_PART 7u

static uint64_t units_of_parts(const swi_trace *trace, const swi_node *node)
{
    int64_t part;
    if (swi_op_traits_of(node->op)->duty != SWI_DUTY_PARTS || node->grad >= 0)
        return 0;
    memcpy(&part, swi_node_attrs(trace, node), sizeof part);
    const int64_t all = operand(trace, node, 0)->type.shape.dim[0];
    if (part <= 0 || part >= all)
        return 0;
    const uint64_t more = (uint64_t)((all - 1) / part);
    const uint64_t weights = sw_type_bytes(&operand(trace, node, 1)->type);
    return swi_count_mul(more, units_moved(swi_count_mul(weights, MOVES_PER_PART), NEAR_BYTES) +
                                   UNITS_PER_LAUNCH);
}

static bool have_one_shape(const swi_trace *trace, const swi_node *node)
{
    return swi_same_shape(&operand(trace, node, 0)->type.shape,
                          &operand(trace, node, 1)->type.shape);
}

static const rate *rate_of(const swi_trace *trace, const swi_node *node)
{
    switch (swi_op_traits_of(node->op)->work) {
    case SWI_WORK_MATRIX:
        return node->n_in > 1 ? &matrix : &vector;
    case SWI_WORK_IMAGES:
        return node->n_in > 1 ? &matrix : &plain;
    case SWI_WORK_ROWS:
        return node->grad < 0 ? &rows : &vector;
    case SWI_WORK_LOOPS:
        return &plain;
    case SWI_WORK_LOSS:
        return node->grad < 0 ? &plain : &vector;
    case SWI_WORK_BROADCAST:
        return have_one_shape(trace, node) ? &vector : &plain;
    case SWI_WORK_SERIAL:
        return &serial;
    case SWI_WORK_VECTOR:
    case SWI_WORK_LAID:
    case SWI_WORK_TILES: /* units_of_arithmetic */
    case SWI_WORK_STRIPS:
        break;
    }
    return &vector;
}

static uint64_t units_at(uint64_t operations, const rate *r)
{
    return swi_count_mul(operations, r->units) / r->n;
}

/* An op that makes a gradient in tiles is a product; updates by it, and functions in strips, go
 * element by element. */
static uint64_t units_of_arithmetic(const swi_trace *trace, const swi_node *node)
{
    const swi_op_work work = swi_op_traits_of(node->op)->work;
    if (work != SWI_WORK_TILES && work != SWI_WORK_STRIPS)
        return units_at(swi_node_operations(trace, node), rate_of(trace, node));
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    uint64_t make, update;
    swi_kernel_info(trace, node, types, &info);
    (work == SWI_WORK_TILES ? swi_tile_operations : swi_strips_operations)(&info, &make,
                                                                           &update);
    return swi_count_add(units_at(make, &matrix), units_at(update, &vector));
}

uint64_t swi_node_cost(const swi_trace *trace, const swi_node *node)
{
    if (node->is_view)
        return 1;
    const uint64_t arithmetic = units_of_arithmetic(trace, node);
    const uint64_t bytes =
        swi_count_add(units_of_bytes(trace, node), units_of_parts(trace, node));
    const uint64_t sum = swi_count_add(swi_count_add(arithmetic, bytes), UNITS_PER_LAUNCH);
    return sum < SWI_COST_MOST ? sum : SWI_COST_MOST;
}
