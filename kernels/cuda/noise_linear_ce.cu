/* Softmax cross-entropy of x W^T + b with noise, chunk after chunk of rows, one number for each
 * evaluation. A chunk has whole evaluations of one repeat, or a part of one (as
 * runtime/ops/linear_ce.c): its noise is that of a batch of its own. Losses of an
 * evaluation's rows are added after the last chunk. */
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/noise_draw.h"
#include "kernels/cuda/reduce.h"

/* As for linear_ce. */
#ifndef SW_CUDA_CE_BYTES
#define SW_CUDA_CE_BYTES (256 << 20)
#endif

enum { X, W, LABELS, SIGMA, MORE };

struct noise_sizes {
    int64_t rows, width, classes, each;
    int64_t chunk, unit; /* rows of a chunk; and of what chunks begin anew in */
};

static noise_sizes sizes_of(const sw_type *x, const sw_type *w, const swi_noise_ce_attrs *a)
{
    const int64_t rows = x->shape.dim[0], classes = w->shape.dim[0];
    const int64_t each = rows / (a->noise.repeats * a->noise.directions);
    const int64_t repeat = each * a->noise.directions;
    const int64_t fit = SW_CUDA_CE_BYTES / (classes * (int64_t)sizeof(float));
    const int64_t most = a->rows > 0 ? a->rows : fit < 1 ? 1 : fit;
    noise_sizes s = {rows, x->shape.dim[1], classes, each, repeat, repeat};
    if (most < repeat)
        s.chunk = most >= each ? most / each * each : most;
    s.unit = s.chunk >= each ? repeat : each;
    return s;
}

/* Classes are dropped before the bias is added; else the product adds it. */
static bool drops(const swi_noise_ce_attrs *a)
{
    return a->noise.weight.rows != 0 && a->noise.weight.kind == SW_NOISE_DROPOUT;
}
static bool product_adds_bias(const swi_noise_ce_attrs *a)
{
    return a->has_bias != 0 && !drops(a);
}

static sw_cuda_product logits_of(const noise_sizes &s, int64_t rows)
{
    return sw_cuda_product_of(rows, s.classes, s.width, s.width, 1, 1, s.width);
}

/* The mean of an evaluation's rows that count. */
struct evaluation_mean {
    enum { N = 2 };
    sw_cuda_ce e;
    float *y;
    int64_t each;
    int add;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        const int64_t row = c * each + r;
        v[0] = e.row_loss[row];
        v[1] = e.ignored(e.label.at(row)) ? 0.0 : 1.0;
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        const float loss = sum[1] > 0.0 ? (float)(sum[0] / sum[1]) : 0.0f;
        y[c] = add ? y[c] + loss : loss;
    }
};

/* ---- scratch ----------------------------------------------------------------------------- */

struct noise_scratch {
    size_t row_loss, mean, product, product_bytes, logits, bytes;
};

static size_t product_bytes(const noise_sizes &s, int64_t rows, bool bias,
                            const sw_cuda_queue *queue)
{
    static const float there = 0.0f;
    sw_cuda_product g = logits_of(s, rows);
    g.bias = bias ? &there : nullptr;
    return rows > 0 ? sw_cuda_product_bytes(&g, queue) : 0;
}

static noise_scratch scratch_of(const noise_sizes &s, bool bias, const sw_cuda_queue *queue)
{
    const size_t full = product_bytes(s, s.chunk, bias, queue);
    const size_t rest = s.chunk > 0 ? product_bytes(s, s.unit % s.chunk, bias, queue) : 0;
    noise_scratch r = {};
    r.product_bytes = full > rest ? full : rest;
    r.mean = sw_cuda_round((size_t)s.rows * sizeof(double));
    r.product =
        r.mean + sw_cuda_round(sw_cuda_reduce_bytes(s.each, s.each > 0 ? s.rows / s.each : 0,
                                                    evaluation_mean::N, false));
    r.logits = r.product + sw_cuda_round(r.product_bytes);
    r.bytes = r.logits + (size_t)(s.chunk * s.classes) * sizeof(float);
    return r;
}

SW_CUDA_SCRATCH_SIZE(sw_cuda_noise_linear_ce_scratch)
{
    const swi_noise_ce_attrs *a = sw_cuda_attrs<swi_noise_ce_attrs>(info);
    return scratch_of(sizes_of(&info->in[X], &info->in[W], a), product_adds_bias(a), queue)
        .bytes;
}

/* ---- forward ----------------------------------------------------------------------------- */

struct noise_pass {
    const sw_launch *l;
    const sw_cuda_queue *queue;
    const swi_noise_ce_attrs *a;
    noise_sizes s;
    noise_scratch at;
    unsigned char *scratch;
    float *logits;
};

/* That of rows [first, first + rows) alone: one repeat of some directions. */
static sw_cuda_noise noise_of(const noise_pass &p, int64_t first, int64_t rows)
{
    const int64_t evaluation = first / p.s.each;
    swi_noise_attrs part = p.a->noise;
    int next = MORE + p.a->has_bias;
    part.repeats = 1;
    part.antithetic = 0;
    part.directions = rows >= p.s.each ? rows / p.s.each : 1;
    sw_cuda_noise n = sw_cuda_noise_of(p.l, &part, sw_cuda_in(p.l, SIGMA), rows, p.queue);
    n.from = evaluation % p.a->noise.directions;
    n.sign = sw_noise_sign(&p.a->noise, evaluation);
    if (part.has_sigmas != 0 && part.weight.rows != 0)
        n.weight_sigmas = sw_cuda_in(p.l, next++);
    if (part.has_sigmas != 0 && part.bias.rows != 0)
        n.bias_sigmas = sw_cuda_in(p.l, next);
    return n;
}

static sw_status chunk(const noise_pass &p, sw_cuda_ce e, int64_t first, int64_t rows)
{
    const swi_noise_attrs *noise = &p.a->noise;
    const float *x = sw_cuda_in(p.l, X) + first * p.s.width;
    sw_cuda_product g = logits_of(p.s, rows);
    const float *bias = p.a->has_bias != 0 ? sw_cuda_in(p.l, MORE) : nullptr;
    g.bias = product_adds_bias(p.a) ? bias : nullptr;
    g.p.c = p.logits;
    g.p.a = x;
    g.p.b = sw_cuda_in(p.l, W);
    SW_TRY(sw_cuda_product_run("noise_linear_ce", &g, p.scratch + p.at.product,
                               p.at.product_bytes, p.queue));
    if (drops(p.a))
        SW_TRY(sw_cuda_noise_channels("noise_linear_ce", noise_of(p, first, rows), p.logits,
                                      p.logits, nullptr, bias, p.s.classes, 1, 1, 0, p.queue));
    else if (noise->weight.rows != 0 || noise->bias.rows != 0)
        SW_TRY(sw_cuda_noise_layer("noise_linear_ce", noise_of(p, first, rows), p.logits, x,
                                   p.s.classes, p.s.width, 1, p.queue));
    e.rows = rows;
    e.label = e.label.from(first);
    e.row_loss += first;
    sw_cuda_ce_rows(e, p.queue);
    return sw_cuda_launched("noise_linear_ce");
}

SW_CUDA_ENTRY(noise_linear_ce, forward, sw_cuda_noise_linear_ce_scratch, 0)
{
    noise_pass p = {};
    sw_cuda_ce e = {};
    p.l = l;
    p.queue = queue;
    p.a = sw_cuda_attrs<swi_noise_ce_attrs>(l);
    p.s = sizes_of(&l->in[X].type, &l->in[W].type, p.a);
    p.at = scratch_of(p.s, product_adds_bias(p.a), queue);
    p.scratch = static_cast<unsigned char *>(l->scratch);
    p.logits = reinterpret_cast<float *>(p.scratch + p.at.logits);
    e.x = p.logits;
    e.row_loss = reinterpret_cast<double *>(p.scratch);
    e.label = sw_cuda_ids_in(l, LABELS);
    e.rows = p.s.rows;
    e.cols = p.s.classes;
    e.smoothing = p.a->ce.smoothing;
    e.has_ignore = p.a->ce.has_ignore;
    e.ignore = p.a->ce.ignore;
    for (int64_t first = 0, rows; first < p.s.rows; first += rows) {
        const int64_t left = p.s.unit - first % p.s.unit;
        rows = left < p.s.chunk ? left : p.s.chunk;
        SW_TRY(chunk(p, e, first, rows));
    }
    const evaluation_mean f = {e, sw_cuda_out(l, 0), p.s.each, sw_cuda_adds(l, 0)};
    if (p.s.each == 0)
        return SW_OK;
    return sw_cuda_reduce("noise_linear_ce", f, p.s.each, p.s.rows / p.s.each, false,
                          p.scratch + p.at.mean, queue);
}
