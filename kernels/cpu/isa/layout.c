/* Plain (batch, inner) to and from blocks of sixteen images, by VW x VW transposes in
 * registers. Each part takes one block and a range of the inner elements. */
#include "kernels/cpu/isa/dense_internal.h"

typedef struct {
    float *y;
    const float *x;
    int64_t batch, inner;
    bool accumulate;
    int pieces; /* of inner, per block */
} layout_job;

static inline int at_most(int64_t n, int limit)
{
    return n < limit ? (int)n : limit;
}

/* One tile: images [image, image + VW), elements [i, i + n), n <= VW. `rows` images exist. */
SW_VEC_FN void tile_to(const layout_job *j, int64_t image, int rows, int64_t i, int n)
{
    vf r[VW];
    for (int k = 0; k < VW; k++) {
        const float *from = j->x + (image + k) * j->inner + i;
        r[k] = k >= rows ? vzero() : n == VW ? vload(from) : vload_n(from, n);
    }
    vtranspose(r);
    const int64_t block = image / SWI_LANES, lane = image % SWI_LANES;
    float *to = j->y + (block * j->inner + i) * SWI_LANES + lane;
    if (!j->accumulate) {
        for (int k = 0; k < n; k++)
            vstore(to + k * SWI_LANES, r[k]);
        return;
    }
    for (int k = 0; k < n; k++) {
        const vf old = rows <= 0 ? vzero() : vload_n(to + k * SWI_LANES, rows);
        vstore(to + k * SWI_LANES, vadd(old, r[k]));
    }
}

SW_VEC_FN void tile_from(const layout_job *j, int64_t image, int rows, int64_t i, int n)
{
    vf r[VW];
    const int64_t block = image / SWI_LANES, lane = image % SWI_LANES;
    const float *from = j->x + (block * j->inner + i) * SWI_LANES + lane;
    for (int k = 0; k < VW; k++)
        r[k] = k < n ? vload(from + k * SWI_LANES) : vzero();
    vtranspose(r);
    for (int k = 0; k < rows; k++) {
        float *to = j->y + (image + k) * j->inner + i;
        if (j->accumulate)
            r[k] = vadd(n == VW ? vload(to) : vload_n(to, n), r[k]);
        if (n == VW)
            vstore(to, r[k]);
        else
            vstore_n(to, r[k], n);
    }
}

/* The constant arguments unroll the whole tiles. */
SW_VEC_FN void part_of(const layout_job *j, int part, bool to)
{
    const int64_t block = part / j->pieces;
    const int piece = part % j->pieces;
    const int64_t begin = vpiece(j->inner, VW, piece, j->pieces);
    const int64_t end = vpiece(j->inner, VW, piece + 1, j->pieces);
    for (int64_t i = begin; i < end; i += VW) {
        const int n = at_most(end - i, VW);
        for (int g = 0; g < SWI_GROUPS; g++) {
            const int64_t image = block * SWI_LANES + g * VW;
            const int rows = at_most(j->batch - image, VW);
            if (rows == VW && n == VW) {
                if (to)
                    tile_to(j, image, VW, i, VW);
                else
                    tile_from(j, image, VW, i, VW);
            } else if (to) {
                tile_to(j, image, rows, i, n);
            } else {
                tile_from(j, image, rows, i, n);
            }
        }
    }
}

static void part_to(void *arg, int part)
{
    part_of(arg, part, true);
}

static void part_from(void *arg, int part)
{
    part_of(arg, part, false);
}

static void run(layout_job *j, void (*body)(void *, int), const sw_par *par)
{
    const int64_t blocks = swi_blocks(j->batch);
    const int wanted = par != NULL ? 2 * par->n_threads : 1;
    const bool worth = j->batch * j->inner >= SWI_WORTH / 4;
    j->pieces = worth && blocks < wanted ? wanted : 1;
    vparts(par, body, j, (int)blocks * j->pieces, worth);
}

void SW_KERNEL(dense, to_n16)(float *y, const float *x, int64_t batch, int64_t inner,
                              bool accumulate, const sw_par *par)
{
    layout_job j = {.y = y, .x = x, .batch = batch, .inner = inner, .accumulate = accumulate};
    run(&j, part_to, par);
}

void SW_KERNEL(dense, from_n16)(float *y, const float *x, int64_t batch, int64_t inner,
                                bool accumulate, const sw_par *par)
{
    layout_job j = {.y = y, .x = x, .batch = batch, .inner = inner, .accumulate = accumulate};
    run(&j, part_from, par);
}
