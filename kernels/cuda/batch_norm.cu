/* Batch norm over the channels of (batch, channels, ...): kernels/norm.h has the formulas. Sums
 * of each channel, what they make of it into a table in scratch, then all elements: the input
 * is read twice. */
#include "kernels/attrs.h"
#include "kernels/cuda/planes.h"
#include "kernels/scalar.h"

/* rstd, or var instead of it. */
struct channel {
    const float *mean, *rstd, *var;
    const float *weight, *bias; /* NULL: 1 and 0 */
    float epsilon;
    double count; /* numbers in one mean */
    float4 *table;
    __device__ double rstd_at(int64_t c) const
    {
        return rstd != nullptr ? (double)rstd[c]
                               : (double)(float)sw_rstd((double)var[c], epsilon);
    }
};

static sw_cuda_plane_shape planes_of(const sw_type *x)
{
    const sw_shape *s = &x->shape;
    int64_t inner = 1;
    for (int i = 2; i < s->rank; i++)
        inner *= s->dim[i];
    return sw_cuda_planes_of(s->dim[0], s->dim[1], inner);
}

static channel channel_of(const sw_launch *l, const sw_cuda_plane_shape &p)
{
    channel n = {};
    n.epsilon = sw_cuda_attrs<swi_norm_attrs>(l)->epsilon;
    n.count = (double)p.outer * (double)p.inner;
    n.table = static_cast<float4 *>(l->scratch);
    return n;
}

static const float *optional(const sw_launch *l, int i)
{
    return l->n_in > i ? sw_cuda_in(l, i) : nullptr;
}

/* The table, and the sums after it. */
static size_t table_bytes(const sw_cuda_plane_shape &p)
{
    return (size_t)p.n * sizeof(float4);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_batch_norm_scratch)
{
    const sw_cuda_plane_shape p = planes_of(&info->in[0]);
    return table_bytes(p) + sw_cuda_planes_bytes(p, 2);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_batch_norm_table)
{
    return table_bytes(planes_of(&info->in[0]));
}
static void *behind_table(const sw_launch *l, const sw_cuda_plane_shape &p)
{
    return static_cast<unsigned char *>(l->scratch) + table_bytes(p);
}

/* ---- statistics of the batch ------------------------------------------------------------- */

struct batch_stats : sw_cuda_moments {
    channel n;
    float *mean_out, *rstd_out; /* NULL: not written */
    double *stats_out;
    int64_t channels;
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        const double mean = origin(c) + sum[0] / n.count;
        const double var = sw_variance(sum[0], sum[1], n.count);
        const float rstd = (float)sw_rstd(var, n.epsilon);
        n.table[c] = make_float4((float)mean, rstd * sw_cuda_or(n.weight, c, 1.0f),
                                 sw_cuda_or(n.bias, c, 0.0f), 0.0f);
        sw_cuda_set(mean_out, c, mean, 0);
        sw_cuda_set(rstd_out, c, (double)rstd, 0);
        if (stats_out != nullptr) {
            stats_out[c] = mean;
            stats_out[channels + c] = var * (n.count / (n.count - 1.0));
        }
    }
};

/* in: x, [weight, [bias]]; out: y, stats, mean, rstd */
SW_CUDA_ENTRY(batch_norm, forward, sw_cuda_batch_norm_scratch, 0)
{
    SW_TRY(sw_cuda_all_plain("batch_norm", l));
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    const sw_cuda_planes_y y = {sw_cuda_out(l, 0), sw_cuda_in(l, 0),
                                static_cast<const float4 *>(l->scratch)};
    const bool aligned = sw_cuda_aligned(y.x) && sw_cuda_aligned(y.y);
    batch_stats s = {};
    s.x = y.x;
    s.inner = p.inner;
    s.n = channel_of(l, p);
    s.n.weight = optional(l, 1);
    s.n.bias = optional(l, 2);
    s.stats_out = static_cast<double *>(l->out[1].ptr);
    s.mean_out = l->n_out > 2 ? sw_cuda_out(l, 2) : nullptr;
    s.rstd_out = l->n_out > 3 ? sw_cuda_out(l, 3) : nullptr;
    s.channels = p.n;
    SW_TRY(sw_cuda_planes_reduce("batch_norm", s, p, aligned, behind_table(l, p), queue));
    return sw_cuda_planes_run("batch_norm", y, p, aligned, queue);
}

/* ---- gradients --------------------------------------------------------------------------- */

struct batch_slopes {
    enum { N = sw_cuda_slopes::N };
    sw_cuda_slopes sums;
    channel n;
    float *dw, *db; /* NULL: not computed */
    int add_dw, add_db;
    template <int W> __device__ void add(int64_t at, int64_t c, double (&sum)[N]) const
    {
        sums.add<W>(at, sw_cuda_or(n.mean, c, 0.0f), sum);
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        sw_cuda_set(db, c, sum[0], add_db);
        if (sums.x == nullptr)
            return;
        const double rstd = n.rstd_at(c), factor = rstd * (double)sw_cuda_or(n.weight, c, 1.0f);
        sw_cuda_set(dw, c, sum[1] * rstd, add_dw);
        n.table[c] = make_float4(n.mean[c], (float)factor, (float)(factor * sum[0] / n.count),
                                 (float)(factor * rstd * rstd * sum[1] / n.count));
    }
};

/* dw to output `first`, db to the next where there is one. */
static void wanted(batch_slopes *s, const sw_launch *l, int first)
{
    if (l->n_out > first) {
        s->dw = sw_cuda_out(l, first);
        s->add_dw = sw_cuda_adds(l, first);
    }
    if (l->n_out > first + 1) {
        s->db = sw_cuda_out(l, first + 1);
        s->add_db = sw_cuda_adds(l, first + 1);
    }
}

static sw_status slopes_run(const char *op, const batch_slopes &s, const sw_launch *l,
                            const sw_cuda_plane_shape &p, const sw_cuda_queue *queue)
{
    const bool aligned = sw_cuda_aligned(s.sums.dy) && sw_cuda_aligned(s.sums.x);
    SW_TRY(sw_cuda_all_plain(op, l));
    return sw_cuda_planes_reduce(op, s, p, aligned, behind_table(l, p), queue);
}

/* in: x, mean, rstd, dy, [weight] */
static batch_slopes batch_saved(const sw_launch *l, const sw_cuda_plane_shape &p)
{
    batch_slopes s = {};
    s.n = channel_of(l, p);
    s.n.mean = sw_cuda_in(l, 1);
    s.n.rstd = sw_cuda_in(l, 2);
    s.n.weight = optional(l, 4);
    s.sums = {sw_cuda_in(l, 3), sw_cuda_in(l, 0)};
    return s;
}

/* out: dx, [dw, db]; NULL: left out */
SW_CUDA_ENTRY(batch_norm, grad0, sw_cuda_batch_norm_scratch, 0)
{
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    batch_slopes s = batch_saved(l, p);
    wanted(&s, l, 1);
    SW_TRY(slopes_run("batch_norm", s, l, p, queue));
    if (l->out[0].ptr == nullptr)
        return SW_OK;
    const sw_cuda_planes_dx dx = {sw_cuda_out(l, 0), s.sums.dy, s.sums.x, s.n.table,
                                  sw_cuda_adds(l, 0)};
    return sw_cuda_planes_run(
        "batch_norm", dx, p,
        sw_cuda_aligned(dx.dx) && sw_cuda_aligned(dx.dy) && sw_cuda_aligned(dx.x), queue);
}
SW_CUDA_ENTRY_OF(batch_norm, grad1, sw_cuda_batch_norm_scratch, 0,
                 sw_cuda_batch_norm_grad0(l, queue))
SW_CUDA_ENTRY(batch_norm, grad2, sw_cuda_batch_norm_scratch, 0)
{
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    batch_slopes s = batch_saved(l, p);
    wanted(&s, l, 0);
    return slopes_run("batch_norm", s, l, p, queue);
}
/* in: dy */
static sw_status bias_run(const char *op, const sw_launch *l, const sw_cuda_queue *queue)
{
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    batch_slopes s = {};
    s.n = channel_of(l, p);
    s.sums.dy = sw_cuda_in(l, 0);
    s.db = sw_cuda_out(l, 0);
    s.add_db = sw_cuda_adds(l, 0);
    return slopes_run(op, s, l, p, queue);
}
SW_CUDA_ENTRY_OF(batch_norm, grad3, sw_cuda_batch_norm_scratch, 0,
                 bias_run("batch_norm", l, queue))

/* ---- running statistics: in {mean, var, stats of the batch}, out {mean, var} ------------- */

struct running {
    const float *from[2];
    float *to[2];
    const double *stats;
    int64_t channels;
    double share;
    __device__ void entry(int64_t c) const
    {
        for (int i = 0; i < 2; i++)
            to[i][c] = sw_running(from[i][c], stats[i * channels + c], share);
    }
};
SW_CUDA_ENTRY(batch_norm_running, forward, NULL, 1)
{
    const running r = {{sw_cuda_in(l, 0), sw_cuda_in(l, 1)},
                       {sw_cuda_out(l, 0), sw_cuda_out(l, 1)},
                       static_cast<const double *>(l->in[2].ptr),
                       l->in[0].type.shape.dim[0],
                       (double)sw_cuda_attrs<swi_norm_attrs>(l)->momentum};
    return sw_cuda_planes_fill("batch_norm_running", r, r.channels, queue);
}

/* ---- given statistics: in {x, mean, var, [weight, [bias]]} ------------------------------- */

struct fixed_table {
    channel n;
    __device__ void entry(int64_t c) const
    {
        n.table[c] = make_float4(sw_cuda_or(n.mean, c, 0.0f),
                                 (float)n.rstd_at(c) * sw_cuda_or(n.weight, c, 1.0f),
                                 sw_cuda_or(n.bias, c, 0.0f), 0.0f);
    }
};

SW_CUDA_ENTRY(batch_norm_fixed, forward, sw_cuda_batch_norm_table, 0)
{
    SW_TRY(sw_cuda_all_plain("batch_norm_fixed", l));
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    fixed_table t = {channel_of(l, p)};
    t.n.mean = sw_cuda_in(l, 1);
    t.n.var = sw_cuda_in(l, 2);
    t.n.weight = optional(l, 3);
    t.n.bias = optional(l, 4);
    const sw_cuda_planes_y y = {sw_cuda_out(l, 0), sw_cuda_in(l, 0), t.n.table};
    SW_TRY(sw_cuda_planes_fill("batch_norm_fixed", t, p.n, queue));
    return sw_cuda_planes_run("batch_norm_fixed", y, p,
                              sw_cuda_aligned(y.x) && sw_cuda_aligned(y.y), queue);
}

struct fixed_dx {
    float *dx;
    const float *dy;
    const float4 *table;
    int add;
    template <int W> __device__ void at(int64_t position, int64_t c) const
    {
        float g[W], old[W] = {};
        const float factor = table[c].y;
        sw_cuda_load(g, dy + position);
        if (add)
            sw_cuda_load(old, dx + position);
        for (int k = 0; k < W; k++)
            g[k] = add ? old[k] + g[k] * factor : g[k] * factor;
        sw_cuda_store(dx + position, g);
    }
};

/* in: dy, var, [weight] */
SW_CUDA_ENTRY(batch_norm_fixed, grad0, sw_cuda_batch_norm_table, 0)
{
    SW_TRY(sw_cuda_all_plain("batch_norm_fixed", l));
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    fixed_table t = {channel_of(l, p)};
    t.n.var = sw_cuda_in(l, 1);
    t.n.weight = optional(l, 2);
    const fixed_dx dx = {sw_cuda_out(l, 0), sw_cuda_in(l, 0), t.n.table, sw_cuda_adds(l, 0)};
    SW_TRY(sw_cuda_planes_fill("batch_norm_fixed", t, p.n, queue));
    return sw_cuda_planes_run("batch_norm_fixed", dx, p,
                              sw_cuda_aligned(dx.dx) && sw_cuda_aligned(dx.dy), queue);
}

/* in: x, mean, var, dy */
SW_CUDA_ENTRY(batch_norm_fixed, grad1, sw_cuda_batch_norm_scratch, 0)
{
    const sw_cuda_plane_shape p = planes_of(&l->in[0].type);
    batch_slopes s = {};
    s.n = channel_of(l, p);
    s.n.mean = sw_cuda_in(l, 1);
    s.n.var = sw_cuda_in(l, 2);
    s.sums = {sw_cuda_in(l, 3), sw_cuda_in(l, 0)};
    wanted(&s, l, 0);
    return slopes_run("batch_norm_fixed", s, l, p, queue);
}
SW_CUDA_ENTRY_OF(batch_norm_fixed, grad2, sw_cuda_batch_norm_scratch, 0,
                 sw_cuda_batch_norm_fixed_grad1(l, queue))
SW_CUDA_ENTRY_OF(batch_norm_fixed, grad3, sw_cuda_batch_norm_scratch, 0,
                 bias_run("batch_norm_fixed", l, queue))
