/* Ops between the gradients of a step's shards and its updates: partial sums of the shards of
 * one rank, the sum over all, and what all ranks say of their losses. They are added in pairs
 * of neighbours, then pairs of these sums, and so on, an odd one carried up: an order that does
 * not depend on how the shards lie on ranks.
 *
 * Shard j of a rank finds one partial sum for each bit of j that is set, the largest first. It
 * joins those of the lowest bits that are set in a row, and is kept in the place of the last;
 * shard 5 after 0 to 4: [0..3] + [4 + 5]. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tile.h"
#include "runtime/transport/ranks.h"
#include <string.h>

int swi_partial_sums(int shards)
{
    int most = 0;
    for (int j = 1; j < shards; j++)
        most = __builtin_popcount((unsigned)j) > most ? __builtin_popcount((unsigned)j) : most;
    return most;
}

static void add(const sw_launch *l, float *to, const float *x, int64_t n, float factor, bool on)
{
    sw_pointwise(l->isa)->scale(to, x, n, factor, on, l->par);
}

/* ---- in {partial sums, gradient of a shard}, out {partial sums} * ------------------------ */

static sw_status partial_sum_forward(const sw_launch *l)
{
    const swi_shard_attrs *a = l->attrs;
    const int64_t n = sw_type_elements(&l->in[1].type);
    const unsigned j = l->run % (unsigned)a->here;
    int at = __builtin_popcount(j), joins = __builtin_ctz(~j);
    float *sums = swi_out(l, 0);
    if (joins == 0) {
        add(l, sums + at * n, swi_in(l, 1), n, 1.0f, false);
        return SW_OK;
    }
    add(l, sums + --at * n, swi_in(l, 1), n, 1.0f, true);
    for (; --joins > 0; at--)
        add(l, sums + (at - 1) * n, sums + at * n, n, 1.0f, true);
    return SW_OK;
}

COUNT(partial_sum_operations, swi_count_per_element(&info->in[1], 1))
TYPE(partial_sum_infer, in[0])

SWI_APPENDED(partial_sum, 2, 2, 1, .infer = partial_sum_infer,
             .attrs_bytes = sizeof(swi_shard_attrs));

/* ---- in {gradient of a rank's last shard, [partial sums]}, out {mean over all shards} ---- */

sw_status swi_shard_mean(const swi_shard_attrs *a, const sw_launch *l, float *to, int64_t n)
{
    SW_TRY(swi_ranks_sum(a->ranks, to, (size_t)n));
    add(l, to, to, n, (float)(1.0 / (double)a->shards), false);
    return SW_OK;
}

sw_status swi_shard_add(const swi_shard_attrs *a, double *number)
{
    double sum = 0.0, of[SWI_RANKS_MOST];
    SW_TRY(swi_ranks_gather(a->ranks, number, sizeof *number, of));
    for (int k = 0; k < swi_ranks_size(a->ranks); k++)
        sum += of[k];
    *number = sum;
    return SW_OK;
}

static sw_status shard_mean_forward(const sw_launch *l)
{
    const swi_shard_attrs *a = l->attrs;
    const int64_t n = sw_type_elements(&l->in[0].type);
    const float *sums = l->n_in > 1 ? swi_in(l, 1) : NULL;
    float *to = swi_out(l, 0);
    if (to != swi_in(l, 0))
        memcpy(to, swi_in(l, 0), (size_t)n * sizeof *to);
    for (int k = __builtin_popcount((unsigned)a->here - 1); sums != NULL && k-- > 0;)
        add(l, to, sums + k * n, n, 1.0f, true);
    return swi_shard_mean(a, l, to, n);
}

COUNT(shard_mean_operations, swi_count_per_element(&info->in[0], 2))
TYPE(shard_mean_infer, in[0])

SWI_APPENDED(shard_mean, 1, 2, 1, .infer = shard_mean_infer, .inplace = 1,
             .attrs_bytes = sizeof(swi_shard_attrs));

/* ---- in {finite check}, out {the first of all ranks that is not 0} ----------------------- */

static sw_status agreed_verdict_forward(const sw_launch *l)
{
    const swi_shard_attrs *a = l->attrs;
    double own, found = 0.0, of[SWI_RANKS_MOST];
    memcpy(&own, l->in[0].ptr, sizeof own);
    SW_TRY(swi_ranks_gather(a->ranks, &own, sizeof own, of));
    for (int k = 0; k < swi_ranks_size(a->ranks) && found == 0.0; k++)
        found = of[k];
    memcpy(l->out[0].ptr, &found, sizeof found);
    return SW_OK;
}

COUNT(agreed_verdict_operations, (uint64_t)(info != NULL))
TYPE(agreed_verdict_infer, in[0])

SWI_APPENDED(agreed_verdict, 1, 1, 1, .infer = agreed_verdict_infer,
             .attrs_bytes = sizeof(swi_shard_attrs));

/* ---- what ranks send --------------------------------------------------------------------- */

/* For a sum over ranks: parts to all, and their sums. */
static uint64_t sum_bytes(uint64_t elements, uint64_t ranks)
{
    return 2 * sw_dtype_bytes(SW_F32) * (ranks - 1) * ((elements + ranks - 1) / ranks);
}

/* Rows of an estimate, which ranks share out. */
static uint64_t estimate_bytes(const swi_es_gradient_attrs *a, int64_t n, int ranks)
{
    const int64_t each = swi_es_gradient_share(n, ranks);
    return each == n ? 0
                     : (uint64_t)(each * a->spec.cols) * sw_dtype_bytes(SW_F32) *
                           (uint64_t)(ranks - 1);
}

static uint64_t tile_bytes(const swi_tile_attrs *a, const sw_shape *param, int64_t n, int ranks)
{
    swi_es_gradient_attrs estimate;
    if (a->shard.shards > 1)
        return sum_bytes((uint64_t)(swi_elements(param) / param->dim[0] * n), (uint64_t)ranks);
    if (a->make_op != SW_OP_es_gradient)
        return 0;
    memcpy(&estimate, a->make, sizeof estimate);
    return estimate_bytes(&estimate, n, ranks);
}

uint64_t swi_op_sends(uint32_t op, const sw_kernel_info *info, int ranks)
{
    const uint64_t number = sizeof(double) * (uint64_t)(ranks - 1);
    const swi_tile_attrs *a = info->attrs;
    uint64_t bytes = 0;
    if (op == SW_OP_shard_mean)
        return sum_bytes((uint64_t)swi_elements(&info->in[0].shape), (uint64_t)ranks);
    if (op == SW_OP_agreed_verdict)
        return number;
    if (op == SW_OP_es_gradient) {
        const swi_es_gradient_attrs *estimate = info->attrs;
        return estimate_bytes(estimate, estimate->spec.rows, ranks);
    }
    if (op != SW_OP_tile_update)
        return 0;
    const sw_shape *param = &info->out[0].shape;
    for (int64_t at = 0; at < param->dim[0]; at += a->rows)
        bytes += tile_bytes(a, param,
                            param->dim[0] - at < a->rows ? param->dim[0] - at : a->rows, ranks);
    return bytes + (a->shard.shards > 1 && a->has_check ? number : 0); /* of its bound */
}
