/* A weight's gradient and its update, tile by tile: launches of other entries for some rows at
 * a time, as on the CPU (runtime/ops/update_tile.c). The gradient is dw of linear: the runtime
 * makes such nodes of it alone (its list of row ranges). The cut operand is dy, by columns.
 *
 * Tiles are larger than the CPU's: a product should keep the card busy. They are those in which
 * dw is made without it, so bits are the same. Where the gradient is looked at, the finite
 * check comes before any of it is used, and the host cannot wait for it: then the tile is the
 * whole gradient. */
#include "kernels/cuda/device.h"
#include "kernels/cuda/entries.h"
#include "kernels/cuda/updates.h"
#include "kernels/tile_launch.h"

#define DY 1 /* in linear's dw: the operand whose columns are rows of dw */

static int64_t rows_of(const sw_type *param, const swi_tile_attrs *a)
{
    const int64_t all = param->shape.dim[0];
    return a->has_check != 0 ? all : sw_cuda_dw_rows(all, sw_cuda_elements(param) / all);
}

static size_t gradient_bytes(const sw_type *param, int64_t rows)
{
    sw_type tile = *param;
    tile.shape.dim[0] = rows;
    return sw_cuda_round((size_t)sw_cuda_elements(&tile) * sizeof(float));
}

/* The gradient, then what its product and its check want. */
SW_CUDA_SCRATCH_SIZE(sw_cuda_tile_update_scratch)
{
    const swi_tile_attrs *a = sw_cuda_attrs<swi_tile_attrs>(info);
    const int64_t rows = rows_of(&info->out[0], a), all = info->out[0].shape.dim[0];
    const int64_t last = all % rows != 0 ? all % rows : rows;
    sw_type in[2] = {info->in[0], info->in[DY]}, gradient = info->out[0];
    size_t most = 0;
    for (int k = 0; k < 2; k++) {
        in[DY].shape.dim[1] = gradient.shape.dim[0] = k == 0 ? rows : last;
        const sw_kernel_info make = {in,        &gradient, 2, 1, nullptr, info->threads,
                                     info->isa, 0,         0};
        const size_t bytes = sw_cuda_linear_grad1_scratch(&make, queue);
        most = bytes > most ? bytes : most;
    }
    const sw_kernel_info check = {&info->out[0], nullptr, 1, 0, nullptr, 1, info->isa, 0, 0};
    const size_t looks = a->has_check != 0 ? sw_cuda_finite_scratch(&check, queue) : 0;
    return gradient_bytes(&info->out[0], rows) + (looks > most ? looks : most);
}

SW_CUDA_ENTRY(tile_update, forward, sw_cuda_tile_update_scratch, 0)
{
    const swi_tile_attrs *a = sw_tile_attrs_of(l);
    const sw_type *param = &l->out[0].type;
    const int64_t rows = rows_of(param, a);
    const size_t tile = gradient_bytes(param, rows);
    for (int64_t first = 0; first < param->shape.dim[0]; first += rows) {
        const sw_buffer gradient = sw_tile_gradient(l, first, rows);
        sw_tile_part p;
        sw_tile_make(&p, l, DY, 1, &gradient, first, tile);
        SW_TRY(sw_cuda_linear_grad1(&p.launch, queue));
        if (a->has_check != 0) {
            sw_tile_look(&p, l, &gradient, tile);
            SW_TRY(sw_cuda_finite_forward(&p.launch, queue));
        }
        sw_tile_step(&p, l, &gradient, first);
        SW_TRY(sw_cuda_update_run(&p.launch, queue));
    }
    return SW_OK;
}
