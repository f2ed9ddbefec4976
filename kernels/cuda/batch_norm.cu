/* Batch norm over the channels of (batch, channels, ...): kernels/norm.h has the formulas. Sums
 * of each channel, what they make of it into a table in scratch, then all elements: the input
 * is read twice. */
#include "kernels/attrs.h"
#include "kernels/cuda/group.h"
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
static size_t batch_table_bytes(const sw_cuda_plane_shape &p)
{
    return (size_t)p.n * sizeof(float4);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_batch_norm_scratch)
{
    const sw_cuda_plane_shape p = planes_of(&info->in[0]);
    return batch_table_bytes(p) + sw_cuda_planes_bytes(p, 2);
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_batch_norm_table)
{
    return batch_table_bytes(planes_of(&info->in[0]));
}
static void *behind_table(const sw_launch *l, const sw_cuda_plane_shape &p)
{
    return static_cast<unsigned char *>(l->scratch) + batch_table_bytes(p);
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
template <int ROWS> __global__ void running_kernel(sw_cuda_table<sw_cuda_none, running, ROWS> t)
{
    const sw_cuda_place at = sw_cuda_place_in(t);
    const running r = t.row[at.row];
    for (int64_t c = at.thread; c < r.channels; c += at.threads)
        r.entry(c);
}
SW_CUDA_GROUP_KERNEL(running_launch, running_kernel);
SW_CUDA_ENTRY(batch_norm_running, forward, NULL, 1 | SW_CUDA_GROUPS)
{
    const running r = {{sw_cuda_in(l, 0), sw_cuda_in(l, 1)},
                       {sw_cuda_out(l, 0), sw_cuda_out(l, 1)},
                       static_cast<const double *>(l->in[2].ptr),
                       l->in[0].type.shape.dim[0],
                       (double)sw_cuda_attrs<swi_norm_attrs>(l)->momentum};
    const unsigned blocks = r.channels > 0 ? sw_cuda_blocks(r.channels, SW_CUDA_THREADS) : 0;
    return sw_cuda_group_add<running_launch>("batch_norm_running", sw_cuda_none{}, r, blocks,
                                             queue);
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

/* ---- group norm -------------------------------------------------------------------------- */

/* Group norm over groups of channels of each image: kernels/norm.h has the formulas. A group is
 * one run of memory, and each of its channels too; all gradients come from sums of channels. */

struct groups {
    int64_t batch, channels, inner, width; /* of a group, in channels */
    float epsilon;
    const float *weight, *bias; /* NULL: 1 and 0 */
    float4 *table;              /* of the channels of each image */
    sw_cuda_long_divisor by_width, by_channels;
    __host__ __device__ int64_t rows(void) const
    {
        return batch * (channels / width);
    }
    __host__ __device__ int64_t planes(void) const
    {
        return batch * channels;
    }
};

static groups groups_of(const sw_type *x, const void *attrs, void *scratch)
{
    const swi_norm_attrs *a = static_cast<const swi_norm_attrs *>(attrs);
    const sw_shape *s = &x->shape;
    groups n = {};
    n.batch = s->dim[0];
    n.channels = s->dim[1];
    n.inner = 1;
    for (int i = 2; i < s->rank; i++)
        n.inner *= s->dim[i];
    n.width = n.channels / a->groups;
    n.epsilon = a->epsilon;
    n.by_width = sw_cuda_long_divisor_of(n.width);
    n.by_channels = sw_cuda_long_divisor_of(n.channels);
    n.table = static_cast<float4 *>(scratch);
    return n;
}

static sw_cuda_plane_shape of_groups(const groups &n)
{
    return sw_cuda_planes_of(1, n.rows(), n.width * n.inner);
}
static sw_cuda_plane_shape of_channels(const groups &n)
{
    return sw_cuda_planes_of(1, n.planes(), n.inner);
}
static size_t group_table_bytes(const groups &n)
{
    return (size_t)n.planes() * sizeof(float4);
}

/* ---- forward: in {x, [weight, [bias]]}, out {y, mean, rstd} ------------------------------ */

struct alignas(8) mean_rstd {
    float mean, rstd;
};

/* Of each group, in scratch. */
struct group_stats : sw_cuda_moments {
    mean_rstd *stats;
    float *mean_out, *rstd_out; /* NULL: not written */
    double count;
    float epsilon;
    __device__ void put(int64_t r, const double (&sum)[N]) const
    {
        const float mean = (float)(origin(r) + sum[0] / count);
        const float rstd = (float)sw_rstd(sw_variance(sum[0], sum[1], count), epsilon);
        stats[r] = mean_rstd{mean, rstd};
        sw_cuda_set(mean_out, r, (double)mean, 0);
        sw_cuda_set(rstd_out, r, (double)rstd, 0);
    }
};

struct group_table {
    groups n;
    const mean_rstd *stats;
    __device__ void entry(int64_t plane) const
    {
        const mean_rstd s = stats[sw_cuda_divide(n.by_width, plane)];
        int64_t c = plane;
        sw_cuda_split(n.by_channels, &c);
        n.table[plane] = make_float4(s.mean, s.rstd * sw_cuda_or(n.weight, c, 1.0f),
                                     sw_cuda_or(n.bias, c, 0.0f), 0.0f);
    }
};

/* The table, statistics of groups, sums of parts; gradients have more of them. */
static size_t stats_bytes(const groups &n)
{
    return ((size_t)n.rows() * sizeof(mean_rstd) + 15) / 16 * 16;
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_group_norm_scratch)
{
    const groups n = groups_of(&info->in[0], info->attrs, nullptr);
    return group_table_bytes(n) + stats_bytes(n) + sw_cuda_planes_bytes(of_groups(n), 2);
}

SW_CUDA_ENTRY(group_norm, forward, sw_cuda_group_norm_scratch, 0)
{
    SW_TRY(sw_cuda_all_plain("group_norm", l));
    groups n = groups_of(&l->in[0].type, l->attrs, l->scratch);
    unsigned char *behind = static_cast<unsigned char *>(l->scratch) + group_table_bytes(n);
    const sw_cuda_planes_y y = {sw_cuda_out(l, 0), sw_cuda_in(l, 0), n.table};
    const bool aligned = sw_cuda_aligned(y.x) && sw_cuda_aligned(y.y);
    n.weight = l->n_in > 1 ? sw_cuda_in(l, 1) : nullptr;
    n.bias = l->n_in > 2 ? sw_cuda_in(l, 2) : nullptr;
    group_stats s = {};
    s.x = y.x;
    s.inner = n.width * n.inner;
    s.stats = reinterpret_cast<mean_rstd *>(behind);
    s.mean_out = l->n_out > 1 ? sw_cuda_out(l, 1) : nullptr;
    s.rstd_out = l->n_out > 2 ? sw_cuda_out(l, 2) : nullptr;
    s.count = (double)s.inner;
    s.epsilon = n.epsilon;
    SW_TRY(sw_cuda_planes_reduce("group_norm", s, of_groups(n), aligned,
                                 behind + stats_bytes(n), queue));
    SW_TRY(sw_cuda_planes_fill("group_norm", group_table{n, s.stats}, n.planes(), queue));
    return sw_cuda_planes_run("group_norm", y, of_channels(n), aligned, queue);
}

/* ---- gradients: in {x, mean, rstd, dy, [weight]}, or {dy} -------------------------------- */

/* Sums of channels of images, into the table: of dy, and of dy (x - mean). */
struct channel_sums {
    enum { N = sw_cuda_slopes::N };
    sw_cuda_slopes sums;
    const float *mean;
    float4 *table;
    int64_t width;
    template <int W> __device__ void add(int64_t at, int64_t plane, double (&sum)[N]) const
    {
        sums.add<W>(at, mean != nullptr ? mean[plane / width] : 0.0f, sum);
    }
    __device__ void put(int64_t plane, const double (&sum)[N]) const
    {
        table[plane] = make_float4((float)sum[0], (float)sum[1], 0.0f, 0.0f);
    }
};

/* A warp for each group, or a thread: sums of its channels, then what their elements need. */
template <class ROWS>
__global__ void group_slopes_kernel(groups n, const float *mean, const float *rstd)
{
    SW_SHARED(double, partials, 32);
    for (int64_t r = ROWS::first(); r < n.rows(); r += ROWS::step()) {
        const int64_t first = r * n.width;
        int64_t channel = first;
        sw_cuda_split(n.by_channels, &channel);
        const double count = (double)n.width * (double)n.inner, rs = (double)rstd[r];
        double s1 = 0.0, s2 = 0.0;
        SW_CUDA_COLUMNS(k, n.width)
        {
            const float4 t = n.table[first + k];
            const double w = (double)sw_cuda_or(n.weight, channel + k, 1.0f);
            s1 += w * (double)t.x;
            s2 += w * (double)t.y;
        }
        s1 = ROWS::template reduce<sw_cuda_plus>(s1, partials);
        s2 = ROWS::template reduce<sw_cuda_plus>(s2, partials);
        SW_CUDA_COLUMNS(k, n.width)
        {
            const double w = (double)sw_cuda_or(n.weight, channel + k, 1.0f);
            n.table[first + k] = make_float4(mean[r], (float)(rs * w), (float)(rs * s1 / count),
                                             (float)(rs * rs * rs * s2 / count));
        }
    }
}

/* Over the images: of each channel. */
struct group_weights {
    enum { N = 2 };
    groups n;
    const float *rstd;
    float *dw, *db; /* NULL: not computed */
    int add_dw, add_db;
    __device__ void term(int64_t image, int64_t c, double (&v)[N]) const
    {
        const int64_t plane = image * n.channels + c;
        const float4 t = n.table[plane];
        v[0] = (double)t.x;
        v[1] =
            dw != nullptr ? (double)t.y * (double)rstd[sw_cuda_divide(n.by_width, plane)] : 0.0;
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        sw_cuda_set(db, c, sum[0], add_db);
        sw_cuda_set(dw, c, sum[1], add_dw);
    }
};

SW_CUDA_SCRATCH_SIZE(sw_cuda_group_norm_grad_scratch)
{
    const groups n = groups_of(&info->in[0], info->attrs, nullptr);
    const size_t sums = sw_cuda_planes_bytes(of_channels(n), channel_sums::N);
    const size_t images = sw_cuda_reduce_bytes(n.batch, n.channels, group_weights::N, true);
    return group_table_bytes(n) + (sums > images ? sums : images);
}

static sw_status channel_sums_run(const groups &n, const sw_launch *l, const float *dy,
                                  const float *x, const float *mean, const sw_cuda_queue *queue)
{
    const channel_sums s = {{dy, x}, mean, n.table, n.width};
    SW_TRY(sw_cuda_all_plain("group_norm", l));
    return sw_cuda_planes_reduce(
        "group_norm", s, of_channels(n), sw_cuda_aligned(dy) && sw_cuda_aligned(x),
        static_cast<unsigned char *>(l->scratch) + group_table_bytes(n), queue);
}
static sw_status saved_sums(const groups &n, const sw_launch *l, const sw_cuda_queue *queue)
{
    return channel_sums_run(n, l, sw_cuda_in(l, 3), sw_cuda_in(l, 0), sw_cuda_in(l, 1), queue);
}

SW_CUDA_ENTRY(group_norm, grad0, sw_cuda_group_norm_grad_scratch, 0)
{
    groups n = groups_of(&l->in[0].type, l->attrs, l->scratch);
    n.weight = l->n_in > 4 ? sw_cuda_in(l, 4) : nullptr;
    if (n.planes() == 0)
        return SW_OK;
    SW_TRY(saved_sums(n, l, queue));
    const int each = n.width <= 16 ? 1 : 32;
    const auto slopes = each == 1 ? group_slopes_kernel<sw_cuda_rows<1, 1>>
                                  : group_slopes_kernel<sw_cuda_rows<32, 1>>;
    SW_CUDA_LAUNCH_FOR(slopes, n.rows(), SW_CUDA_THREADS / each, queue, n, sw_cuda_in(l, 1),
                       sw_cuda_in(l, 2));
    const sw_cuda_planes_dx dx = {sw_cuda_out(l, 0), sw_cuda_in(l, 3), sw_cuda_in(l, 0),
                                  n.table, sw_cuda_adds(l, 0)};
    return sw_cuda_planes_run(
        "group_norm", dx, of_channels(n),
        sw_cuda_aligned(dx.dx) && sw_cuda_aligned(dx.dy) && sw_cuda_aligned(dx.x), queue);
}

static sw_status weights_run(const group_weights &w, const sw_launch *l,
                             const sw_cuda_queue *queue)
{
    return sw_cuda_reduce<true>(
        "group_norm", w, w.n.batch, w.n.channels,
        static_cast<unsigned char *>(l->scratch) + group_table_bytes(w.n), queue);
}

/* out: dweight, [dbias] */
SW_CUDA_ENTRY(group_norm, grad1, sw_cuda_group_norm_grad_scratch, 0)
{
    const groups n = groups_of(&l->in[0].type, l->attrs, l->scratch);
    group_weights w = {n, sw_cuda_in(l, 2), sw_cuda_out(l, 0), nullptr, sw_cuda_adds(l, 0), 0};
    if (l->n_out > 1) {
        w.db = sw_cuda_out(l, 1);
        w.add_db = sw_cuda_adds(l, 1);
    }
    SW_TRY(saved_sums(n, l, queue));
    return weights_run(w, l, queue);
}
SW_CUDA_ENTRY_OF(group_norm, grad2, sw_cuda_group_norm_grad_scratch, 0,
                 sw_cuda_group_norm_grad1(l, queue))
/* in: dy */
SW_CUDA_ENTRY(group_norm, grad3, sw_cuda_group_norm_grad_scratch, 0)
{
    const groups n = groups_of(&l->in[0].type, l->attrs, l->scratch);
    const group_weights w = {n, nullptr, nullptr, sw_cuda_out(l, 0), 0, sw_cuda_adds(l, 0)};
    SW_TRY(channel_sums_run(n, l, sw_cuda_in(l, 0), nullptr, nullptr, queue));
    return weights_run(w, l, queue);
}
