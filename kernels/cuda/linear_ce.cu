/* Softmax cross-entropy of x W^T + b, chunk after chunk of rows, as the CPU's kernel goes over
 * them (runtime/ops/linear_ce.c): the logits of one chunk exist at a time, and their gradient
 * in their place. Losses of all rows are added in one order after the last chunk; sums over
 * rows in dW and db go from chunk to chunk. */
#include "kernels/attrs.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/reduce.h"

/* Bytes of a chunk's logits, at most, where no one asks for other chunks: from sizes alone, so
 * that all ways to run it have the same bits. Tests give fewer. */
#ifndef SW_CUDA_CE_BYTES
#define SW_CUDA_CE_BYTES (256 << 20)
#endif
#define LEAST_ROWS 128 /* of a chunk: whole tiles of a product */

enum { X, W, LABELS, BIAS };
enum { LOSS, DX, DW, DB };

struct sizes {
    int64_t rows, width, classes, chunk; /* rows of a chunk: the last may have fewer */
    bool bias;
};

static sizes sizes_of(const sw_type *x, const sw_type *w, int n_in,
                      const swi_linear_ce_attrs *a)
{
    sizes s = {x->shape.dim[0], x->shape.dim[1], w->shape.dim[0], x->shape.dim[0], n_in > BIAS};
    const int64_t fit = SW_CUDA_CE_BYTES / (s.classes * (int64_t)sizeof(float));
    const int64_t own = fit < LEAST_ROWS ? LEAST_ROWS : fit / LEAST_ROWS * LEAST_ROWS;
    const int64_t rows = a->rows > 0 ? a->rows : own;
    if (rows < s.rows)
        s.chunk = rows;
    return s;
}

/* ---- the products of a chunk ------------------------------------------------------------- */

static sw_cuda_product logits_of(const sizes &s, int64_t rows)
{
    return sw_cuda_product_of(rows, s.classes, s.width, s.width, 1, 1, s.width);
}
static sw_cuda_product dx_of(const sizes &s, int64_t rows)
{
    return sw_cuda_product_of(rows, s.width, s.classes, s.classes, 1, s.width, 1);
}
static sw_cuda_product dw_of(const sizes &s, int64_t rows)
{
    return sw_cuda_product_of(s.classes, s.width, rows, 1, s.classes, s.width, 1);
}

/* ---- scratch ----------------------------------------------------------------------------- */

/* Its parts, each at a good address: offsets, and all bytes. */
struct scratch_layout {
    size_t counted, row_loss, lse, mean, columns, product, product_bytes, logits, bytes;
};

static size_t position(scratch_layout *r, size_t bytes)
{
    const size_t at = r->bytes;
    r->bytes += sw_cuda_round(bytes);
    return at;
}

/* Of all three, for chunks of so many rows: not every run makes all. */
static size_t products_bytes(const sizes &s, int64_t rows, const sw_cuda_queue *queue)
{
    static const float there = 0.0f;
    sw_cuda_product all[] = {logits_of(s, rows), dx_of(s, rows), dw_of(s, rows)};
    size_t most = 0;
    all[0].bias = s.bias ? &there : nullptr;
    for (const sw_cuda_product &g : all) {
        const size_t bytes = sw_cuda_product_bytes(&g, queue);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static scratch_layout scratch_layout_of(const sizes &s, const sw_cuda_queue *queue)
{
    const int64_t last = s.rows % s.chunk;
    const size_t full = products_bytes(s, s.chunk, queue);
    const size_t rest = last > 0 ? products_bytes(s, last, queue) : 0;
    scratch_layout r = {};
    r.counted = position(&r, sizeof(double));
    r.row_loss = position(&r, (size_t)s.rows * sizeof(double));
    r.lse = position(&r, (size_t)s.chunk * sizeof(float));
    r.mean = position(&r, sw_cuda_ce_mean_bytes(s.rows));
    r.columns = position(
        &r, s.bias ? sw_cuda_reduce_bytes(s.chunk, s.classes, sw_cuda_column_sum::N, true) : 0);
    r.product_bytes = full > rest ? full : rest;
    r.product = position(&r, r.product_bytes);
    r.logits = position(&r, (size_t)(s.chunk * s.classes) * sizeof(float));
    return r;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_linear_ce_scratch)
{
    const sizes s = sizes_of(&info->in[X], &info->in[W], info->n_in,
                             sw_cuda_attrs<swi_linear_ce_attrs>(info));
    return scratch_layout_of(s, queue).bytes;
}

/* ---- forward ----------------------------------------------------------------------------- */

struct pass {
    const sw_launch *l;
    const sw_cuda_queue *queue;
    sizes s;
    scratch_layout at;
    unsigned char *scratch;
    sw_cuda_ce all; /* of all rows */
    float *logits;
    float *dx, *dw, *db; /* NULL: no one reads it */
};

static sw_status product(const pass &p, sw_cuda_product g, float *c, const float *a,
                         const float *b)
{
    g.p.c = c;
    g.p.a = a;
    g.p.b = b;
    return sw_cuda_product_run("linear_ce", &g, p.scratch + p.at.product, p.at.product_bytes,
                               p.queue);
}

/* From the logits' gradient, which stands in their place. */
static sw_status gradients(const pass &p, int64_t first, int64_t rows)
{
    const float *x = sw_cuda_in(p.l, X) + first * p.s.width;
    if (p.dx != nullptr)
        SW_TRY(product(p, dx_of(p.s, rows), p.dx + first * p.s.width, p.logits,
                       sw_cuda_in(p.l, W)));
    if (p.dw != nullptr) {
        sw_cuda_product g = dw_of(p.s, rows);
        g.p.accumulate = first > 0;
        SW_TRY(product(p, g, p.dw, p.logits, x));
    }
    const sw_cuda_column_sum f = {p.db, p.logits, p.s.classes, first > 0};
    if (p.db == nullptr)
        return SW_OK;
    return sw_cuda_reduce("linear_ce", f, rows, p.s.classes, true, p.scratch + p.at.columns,
                          p.queue);
}

static sw_status chunk(const pass &p, int64_t first, int64_t rows)
{
    sw_cuda_product g = logits_of(p.s, rows);
    sw_cuda_ce e = p.all;
    g.bias = p.s.bias ? sw_cuda_in(p.l, BIAS) : nullptr;
    SW_TRY(product(p, g, p.logits, sw_cuda_in(p.l, X) + first * p.s.width, sw_cuda_in(p.l, W)));
    e.rows = rows;
    e.label = p.all.label.from(first);
    e.row_loss = p.all.row_loss + first;
    sw_cuda_ce_rows(e, p.queue);
    if (p.dx == nullptr && p.dw == nullptr && p.db == nullptr)
        return sw_cuda_launched("linear_ce");
    sw_cuda_ce_dx(e, p.queue);
    return gradients(p, first, rows);
}

static float *extra(const sw_launch *l, int i)
{
    return l->n_out > i ? sw_cuda_out(l, i) : nullptr;
}

static pass pass_of(const sw_launch *l, const sw_cuda_queue *queue)
{
    const swi_linear_ce_attrs *a = sw_cuda_attrs<swi_linear_ce_attrs>(l);
    pass p = {};
    p.l = l;
    p.queue = queue;
    p.s = sizes_of(&l->in[X].type, &l->in[W].type, l->n_in, a);
    p.at = scratch_layout_of(p.s, queue);
    p.scratch = static_cast<unsigned char *>(l->scratch);
    p.logits = reinterpret_cast<float *>(p.scratch + p.at.logits);
    p.dx = extra(l, DX);
    p.dw = extra(l, DW);
    p.db = p.s.bias ? extra(l, DB) : nullptr;
    p.all.x = p.all.dx = p.logits;
    p.all.lse = p.all.lse_out = reinterpret_cast<float *>(p.scratch + p.at.lse);
    p.all.row_loss = reinterpret_cast<double *>(p.scratch + p.at.row_loss);
    p.all.counted = reinterpret_cast<double *>(p.scratch + p.at.counted);
    p.all.label = sw_cuda_ids_in(l, LABELS);
    p.all.rows = p.s.rows;
    p.all.cols = p.s.classes;
    p.all.smoothing = a->ce.smoothing;
    p.all.has_ignore = a->ce.has_ignore;
    p.all.ignore = a->ce.ignore;
    return p;
}

SW_CUDA_ENTRY(linear_ce, forward, sw_cuda_linear_ce_scratch, 0)
{
    const pass p = pass_of(l, queue);
    double *counted = reinterpret_cast<double *>(p.scratch + p.at.counted);
    SW_TRY(sw_cuda_ce_mean("linear_ce", p.all, nullptr, counted, p.scratch + p.at.mean, queue));
    for (int64_t first = 0; first < p.s.rows; first += p.s.chunk)
        SW_TRY(chunk(p, first, p.s.rows - first < p.s.chunk ? p.s.rows - first : p.s.chunk));
    return sw_cuda_ce_mean("linear_ce", p.all, sw_cuda_out(l, LOSS), nullptr,
                           p.scratch + p.at.mean, queue);
}

SW_CUDA_ENTRY_BY(linear_ce, 0, sw_cuda_scale_forward, NULL, 1)
SW_CUDA_ENTRY_BY(linear_ce, 1, sw_cuda_scale_forward, NULL, 1)
SW_CUDA_ENTRY_BY(linear_ce, 2, sw_cuda_scale_forward, NULL, 1)
