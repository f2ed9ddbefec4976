/* linear and matmul: what they multiply, as the CPU's kernels say (runtime/ops/linear.c,
 * kernels/products.h); the bound of a product; the loss of a linear layer in chunks. */
#include "kernels/attrs.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/entries.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/reduce.h"
#include "kernels/products.h"
#include "kernels/scalar.h"
#include <float.h>

/* A launch with these types as it will be: packed, at an address where no one looks. */
struct packed {
    sw_buffer in[3], out[1];
    sw_launch launch;
};
static void pack(sw_buffer *to, const sw_type *type)
{
    int64_t step = 1;
    to->type = *type;
    to->ptr = reinterpret_cast<void *>(static_cast<uintptr_t>(SW_ALIGN));
    for (int i = type->shape.rank - 1; i >= 0; i--) {
        to->stride[i] = step;
        step *= type->shape.dim[i];
    }
}
static sw_cuda_product product_of(const sw_kernel_info *info,
                                  sw_cuda_product (*of)(const sw_launch *l))
{
    packed p = {};
    for (int i = 0; i < info->n_in && i < 3; i++)
        pack(&p.in[i], &info->in[i]);
    pack(&p.out[0], &info->out[0]);
    p.launch.in = p.in;
    p.launch.n_in = info->n_in;
    p.launch.out = p.out;
    p.launch.n_out = 1;
    p.launch.accumulate = info->accumulate;
    return of(&p.launch);
}
static size_t bytes_of(const sw_kernel_info *info, sw_cuda_product (*of)(const sw_launch *l),
                       const sw_cuda_queue *queue)
{
    const sw_cuda_product g = product_of(info, of);
    return sw_cuda_product_bytes(&g, queue);
}

static sw_status run(const char *op, const sw_launch *l,
                     sw_cuda_product (*of)(const sw_launch *l), const sw_cuda_queue *queue)
{
    const sw_cuda_product g = of(l);
    return sw_cuda_product_run(op, &g, l->scratch, l->scratch_bytes, queue);
}

/* The entry of a product and its scratch. */
#define PRODUCT(op, name, of)                                                                  \
    extern "C" size_t sw_cuda_##op##_##name##_scratch(const sw_kernel_info *info,              \
                                                      const sw_cuda_queue *queue)              \
    {                                                                                          \
        return bytes_of(info, of, queue);                                                      \
    }                                                                                          \
    extern "C" sw_status sw_cuda_##op##_##name(const sw_launch *l, const sw_cuda_queue *queue) \
    {                                                                                          \
        return run(#op, l, of, queue);                                                         \
    }

/* ---- linear ------------------------------------------------------------------------------ */

static sw_cuda_product placed(sw_cuda_product g, const sw_launch *l, int a, int b)
{
    g.p.c = sw_cuda_out(l, 0);
    g.p.a = sw_cuda_in(l, a);
    g.p.b = sw_cuda_in(l, b);
    g.p.accumulate = sw_cuda_adds(l, 0) != 0;
    g.halves = l->in[a].type.dtype == SW_BF16;
    g.half_c = l->out[0].type.dtype == SW_BF16;
    return g;
}

/* Element i, of bf16 where `halves`. */
template <class T> static T *element(T *p, int64_t i, bool halves)
{
    return halves ? reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + 2 * (uintptr_t)i)
                  : p + i;
}

/* y = x w^T + b; in: x (batch, in), w (out, in), [b] */
static sw_cuda_product linear_y(const sw_launch *l)
{
    const int64_t *x = l->in[0].type.shape.dim, *w = l->in[1].type.shape.dim;
    sw_cuda_product g = placed(sw_cuda_product_of(x[0], w[0], x[1], x[1], 1, 1, w[1]), l, 0, 1);
    g.bias = l->n_in > 2 ? sw_cuda_in(l, 2) : nullptr;
    return g;
}
/* dx = dy w; in: w, dy (batch, out) */
static sw_cuda_product linear_dx(const sw_launch *l)
{
    const int64_t *w = l->in[0].type.shape.dim, *dy = l->in[1].type.shape.dim;
    return placed(sw_cuda_product_of(dy[0], w[1], w[0], dy[1], 1, w[1], 1), l, 1, 0);
}
/* dw = dy^T x; in: x, dy, which may be columns of a larger matrix */
static sw_cuda_product linear_dw(const sw_launch *l)
{
    const int64_t *x = l->in[0].type.shape.dim, *dy = l->in[1].type.shape.dim;
    const int64_t step = l->in[1].stride[0];
    return placed(sw_cuda_product_of(dy[1], x[1], x[0], 1, step, x[1], 1), l, 1, 0);
}
PRODUCT(linear, forward, linear_y)
PRODUCT(linear, grad0, linear_dx)

/* The order in which the library sums is not ours to promise, and its RELU makes 0 of NaN: what
 * comes after its products is launched by itself. */
extern "C" int sw_cuda_linear_joins(const sw_kernel_info *info, const sw_cuda_queue *queue)
{
    const sw_cuda_product g = product_of(info, linear_y);
    return sw_cuda_product_is_own(&g, queue);
}

static sw_status linear_then(const char *ops, const sw_launch *l, sw_cuda_then then,
                             float number, const sw_cuda_queue *queue)
{
    sw_cuda_product g = linear_y(l);
    g.then = then;
    g.number = number;
    return sw_cuda_product_run(ops, &g, l->scratch, l->scratch_bytes, queue);
}
extern "C" sw_status sw_cuda_linear_relu(const sw_launch *l, const void *,
                                         const sw_cuda_queue *queue)
{
    return linear_then("linear, relu", l, SW_CUDA_RELU, 0.0f, queue);
}
extern "C" sw_status sw_cuda_linear_leaky_relu(const sw_launch *l, const void *then,
                                               const sw_cuda_queue *queue)
{
    const float slope = static_cast<const swi_number_attrs *>(then)->value;
    return linear_then("linear, leaky_relu", l, SW_CUDA_LEAKY_RELU, slope, queue);
}

/* Some rows of a large dw at a time: those that tile_update makes, so that a weight that is
 * updated tile by tile has the same bits. */
#define DW_UNIT 128 /* rows: whole tiles of a product */
int64_t sw_cuda_dw_rows(int64_t rows, int64_t cols)
{
    const int64_t bytes = cols * (int64_t)sizeof(float);
    const int64_t least = bytes > 0 ? (SW_CUDA_DW_BYTES + bytes - 1) / bytes : rows;
    const int64_t tile = (least + DW_UNIT - 1) / DW_UNIT * DW_UNIT;
    return tile < rows ? tile : rows;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_linear_grad1_scratch)
{
    const int64_t all = info->in[1].shape.dim[1];
    const int64_t rows = sw_cuda_dw_rows(all, info->in[0].shape.dim[1]);
    sw_type in[2] = {info->in[0], info->in[1]};
    sw_kernel_info part = *info;
    size_t most = 0;
    part.in = in;
    for (int64_t left = all; left > 0; left = left > rows ? left % rows : 0) {
        in[1].shape.dim[1] = left < rows ? left : rows;
        const size_t bytes = bytes_of(&part, linear_dw, queue);
        most = bytes > most ? bytes : most;
    }
    return most;
}

SW_CUDA_ENTRY(linear, grad1, sw_cuda_linear_grad1_scratch, 0)
{
    const int64_t all = l->in[1].type.shape.dim[1], cols = l->in[0].type.shape.dim[1];
    const int64_t rows = sw_cuda_dw_rows(all, cols);
    const sw_cuda_product whole = linear_dw(l);
    for (int64_t first = 0; first < all; first += rows) {
        sw_cuda_product g = whole;
        g.p.m = all - first < rows ? all - first : rows;
        g.p.a = element(whole.p.a, first, whole.halves);
        g.p.c = whole.p.c + first * cols;
        SW_TRY(sw_cuda_product_run("linear", &g, l->scratch, l->scratch_bytes, queue));
    }
    return SW_OK;
}

/* db = column sums; in: dy */
SW_CUDA_SCRATCH_SIZE(sw_cuda_linear_grad2_scratch)
{
    const int64_t *dy = info->in[0].shape.dim;
    return sw_cuda_reduce_bytes(dy[0], dy[1], sw_cuda_column_sum::N, true);
}
SW_CUDA_ENTRY(linear, grad2, sw_cuda_linear_grad2_scratch, 3)
{
    const int64_t *dy = l->in[0].type.shape.dim;
    const sw_cuda_column_sum f = {l->out[0], l->in[0], dy[1], sw_cuda_adds(l, 0)};
    return sw_cuda_reduce<true>("linear", f, dy[0], dy[1], l->scratch, queue);
}

template <int WHICH> static sw_cuda_product matmul_of(const sw_launch *l)
{
    sw_cuda_product g = {};
    g.p = sw_matmul_products(l, WHICH);
    g.halves = l->in[0].type.dtype == SW_BF16;
    g.half_c = l->out[0].type.dtype == SW_BF16;
    return g;
}
PRODUCT(matmul, forward, matmul_of<-1>)
PRODUCT(matmul, grad0, matmul_of<0>)
PRODUCT(matmul, grad1, matmul_of<1>)

SW_CUDA_ENTRY_BY(linear, -1, sw_cuda_linear_forward, sw_cuda_linear_forward_scratch, 0)
SW_CUDA_ENTRY_BY(linear, 0, sw_cuda_linear_grad0, sw_cuda_linear_grad0_scratch, 0)
SW_CUDA_ENTRY_BY(matmul, -1, sw_cuda_matmul_forward, sw_cuda_matmul_forward_scratch, 0)
SW_CUDA_ENTRY_BY(matmul, 0, sw_cuda_matmul_grad0, sw_cuda_matmul_grad0_scratch, 0)
SW_CUDA_ENTRY_BY(matmul, 1, sw_cuda_matmul_grad1, sw_cuda_matmul_grad1_scratch, 0)

/* Softmax cross-entropy of x W^T + b, chunk after chunk of rows, as the CPU's kernel goes over
 * them (runtime/ops/linear_ce.c): the logits of one chunk exist at a time, and their gradient
 * in their place. Losses of all rows are added in one order after the last chunk; sums over
 * rows in dW and db go from chunk to chunk. */

#define LEAST_ROWS 128 /* of a chunk: whole tiles of a product */

enum { X, W, LABELS, BIAS };
enum { LOSS, DX, DW, DB };

struct sizes {
    int64_t rows, width, classes, step; /* of the logits: rows begin at good addresses */
    int64_t chunk;                      /* rows of a chunk: the last may have fewer */
    bool bias, halves, half_dx;         /* x and w are bf16; dx too */
};

static sizes sizes_of(const sw_type *x, const sw_type *w, bool half_dx, int n_in,
                      const swi_linear_ce_attrs *a)
{
    const int64_t classes = w->shape.dim[0], even = classes < 512 ? 8 : 64;
    sizes s = {x->shape.dim[0],
               x->shape.dim[1],
               classes,
               (classes + even - 1) / even * even,
               x->shape.dim[0],
               n_in > BIAS,
               x->dtype == SW_BF16,
               half_dx};
    const int64_t fit = SW_CUDA_CE_BYTES / (s.step * (int64_t)sizeof(float));
    const int64_t own = fit < LEAST_ROWS ? LEAST_ROWS : fit / LEAST_ROWS * LEAST_ROWS;
    const int64_t rows = a->rows > 0 ? a->rows : own;
    if (rows < s.rows)
        s.chunk = rows;
    return s;
}

/* ---- the products of a chunk ------------------------------------------------------------- */

static sw_cuda_product logits_of(const sizes &s, int64_t rows)
{
    sw_cuda_product g = sw_cuda_product_of(rows, s.classes, s.width, s.width, 1, 1, s.width);
    g.c_row = s.step;
    return g;
}
static sw_cuda_product dx_of(const sizes &s, int64_t rows)
{
    return sw_cuda_product_of(rows, s.width, s.classes, s.step, 1, s.width, 1);
}
static sw_cuda_product dw_of(const sizes &s, int64_t rows)
{
    return sw_cuda_product_of(s.classes, s.width, rows, 1, s.step, s.width, 1);
}

/* ---- scratch ----------------------------------------------------------------------------- */

/* Its parts, each at a good address: offsets, and all bytes. */
struct scratch_layout {
    size_t counted, row_loss, lse, mean, columns, product, product_bytes, logits, halves, bytes;
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
    all[1].half_c = s.half_dx;
    for (sw_cuda_product &g : all) {
        g.halves = s.halves;
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
    r.logits = position(&r, (size_t)(s.chunk * s.step) * sizeof(float));
    r.halves = position(&r, s.halves ? (size_t)(s.chunk * s.step) * sizeof(uint16_t) : 0);
    return r;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_linear_ce_scratch)
{
    const sizes s =
        sizes_of(&info->in[X], &info->in[W], info->n_out > DX && info->out[DX].dtype == SW_BF16,
                 info->n_in, sw_cuda_attrs<swi_linear_ce_attrs>(info));
    const scratch_layout r = scratch_layout_of(s, queue);
    return r.product_bytes == SIZE_MAX ? SIZE_MAX : r.bytes;
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
    g.halves = p.s.halves;
    g.p.c = c;
    g.p.a = a;
    g.p.b = b;
    return sw_cuda_product_run("linear_ce", &g, p.scratch + p.at.product, p.at.product_bytes,
                               p.queue);
}

/* From the logits' gradient, which stands in their place. */
static sw_status gradients(const pass &p, int64_t first, int64_t rows)
{
    const bool rounds = p.l->order != SW_ORDER_NONE; /* of bf16: their factors too */
    sw_cuda_numbers dz = p.logits;
    const sw_cuda_column_sum f = {p.db, p.logits, p.s.step, first > 0};
    if (p.db != nullptr)
        SW_TRY(sw_cuda_reduce<true>("linear_ce", f, rows, p.s.classes, p.scratch + p.at.columns,
                                    p.queue));
    dz.half = p.s.halves;
    if (p.s.halves)
        dz.p = p.scratch + p.at.halves;
    if (rounds)
        SW_TRY(sw_cuda_cast("linear_ce", dz, p.logits, rows * p.s.step, true, p.queue));
    const float *const factor = static_cast<const float *>(dz.p);
    if (p.dx != nullptr) {
        sw_cuda_product g = dx_of(p.s, rows);
        g.half_c = p.s.half_dx;
        SW_TRY(product(p, g, element(p.dx, first * p.s.width, p.s.half_dx), factor,
                       sw_cuda_in(p.l, W)));
    }
    if (p.dw != nullptr) {
        sw_cuda_product g = dw_of(p.s, rows);
        g.p.accumulate = first > 0;
        SW_TRY(product(p, g, p.dw, factor,
                       element(sw_cuda_in(p.l, X), first * p.s.width, p.s.halves)));
    }
    return SW_OK;
}

static sw_status chunk(const pass &p, int64_t first, int64_t rows)
{
    sw_cuda_product g = logits_of(p.s, rows);
    sw_cuda_ce e = p.all;
    g.bias = p.s.bias ? sw_cuda_in(p.l, BIAS) : nullptr;
    SW_TRY(product(p, g, p.logits, element(sw_cuda_in(p.l, X), first * p.s.width, p.s.halves),
                   sw_cuda_in(p.l, W)));
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
    p.s = sizes_of(&l->in[X].type, &l->in[W].type,
                   l->n_out > DX && l->out[DX].type.dtype == SW_BF16, l->n_in, a);
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
    p.all.step = p.s.step;
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
