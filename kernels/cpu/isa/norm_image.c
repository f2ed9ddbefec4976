/* Group norm and batch norm over images, plain or in blocks of sixteen.
 *
 * Groups. Plain: the lanes are positions of one image's channels, and a sum is over all of
 * them. Blocks: the lanes are images, which stay apart. Part g + groups * i is group g of image
 * or block i.
 *
 * Batch: each channel of all images is a sum of its own. Plain: the lanes are positions.
 * Blocks: the lanes are images, whose sums are added. A part of the work is a run of channels.
 * A few that fit in the near cache go together, one phase after the other: what a channel waits
 * for (a chain of sums, a root) the others hide. */
#include "kernels/cpu/isa/norm_internal.h"

#define PART 16384 /* elements that are worth another thread */

typedef struct {
    const sw_norm_args *n;
    int64_t cover;  /* images, or blocks of them */
    int64_t stride; /* elements of one channel of one image or block */
    int64_t width;  /* channels of a group */
    double count;   /* numbers in one mean */
} image_job;

static image_job job_of(const sw_norm_args *n)
{
    image_job j = {.n = n, .cover = n->batch, .stride = n->inner};
    if (n->blocks) {
        j.cover = (n->batch + LANES - 1) / LANES;
        j.stride = n->inner * LANES;
    }
    return j;
}

/* Lanes that count in image or block i. */
static int lanes_of(const image_job *j, int64_t i)
{
    const int64_t left = j->n->batch - i * LANES;
    return j->n->blocks && left < LANES ? (int)left : LANES;
}

/* A channel of image i of these. */
static void *place(const image_job *j, const void *of, int64_t i, int64_t channel)
{
    const int64_t at = (i * j->n->channels + channel) * j->stride;
    return (char *)(uintptr_t)of + at * (j->n->half ? 2 : 4);
}

/* Lanes past the batch are zero. */
static void clear_lanes(const image_job *j, void *y, int64_t i)
{
    const int lanes = lanes_of(j, i);
    const size_t size = j->n->half ? 2 : 4;
    for (int64_t k = 0; k < j->stride && lanes < LANES; k += LANES)
        memset((char *)y + (size_t)(k + lanes) * size, 0, (size_t)(LANES - lanes) * size);
}

static float at_or(const float *p, int64_t i, float other)
{
    return p != NULL ? p[i] : other;
}

static void set(float *to, int64_t i, double value, bool adds)
{
    if (to != NULL)
        to[i] = (adds ? to[i] : 0.0f) + (float)value;
}

/* ---- groups ------------------------------------------------------------------------------ */

/* A part for each group of each image or block, or for each channel. */
static void run_groups(const sw_norm_args *n, void (*body)(void *, int), bool by_group,
                       const sw_par *par)
{
    image_job j = job_of(n);
    j.width = n->channels / n->groups;
    j.count = (double)j.width * (double)n->inner;
    vparts(par, body, &j, (int)(by_group ? j.cover * n->groups : n->channels),
           j.cover * n->channels * j.stride > PART);
}

/* Plain: the sum of the lanes in all of them. */
static void spread(const image_job *j, double *s)
{
    if (j->n->blocks)
        return;
    const double sum = swi_lanes_sum(s, LANES);
    for (int k = 0; k < LANES; k++)
        s[k] = sum;
}

/* Where mean and rstd of lane k stand. */
static int64_t stat_position(const image_job *j, int64_t i, int64_t group, int k)
{
    const int64_t image = j->n->blocks ? i * LANES + k : i;
    return image * j->n->groups + group;
}

static void read_stats(const image_job *j, const float *from, int64_t i, int64_t group,
                       float *to)
{
    const int lanes = lanes_of(j, i);
    for (int k = 0; k < LANES; k++)
        to[k] = k < lanes ? from[stat_position(j, i, group, k)] : 0.0f;
}

static void write_stats(const image_job *j, float *to, int64_t i, int64_t group,
                        const float *from)
{
    const int n = j->n->blocks ? lanes_of(j, i) : 1;
    for (int k = 0; k < n && to != NULL; k++)
        to[stat_position(j, i, group, k)] = from[k];
}

/* The lanes of a group: means, and the sums of d and d d about them. */
typedef struct {
    double s1[LANES], s2[LANES];
    float mean[LANES];
} group_moments;

static void group_means(const image_job *j, group_moments *m)
{
    spread(j, m->s1);
    for (int k = 0; k < LANES; k++) {
        m->mean[k] = (float)(m->s1[k] / j->count);
        m->s1[k] = 0;
    }
}

/* Lanes whose squares are beyond float32, again in float64; the others stay as they are. */
static void widen_group(const image_job *j, const float *x, int64_t size, group_moments *m)
{
    group_moments w = {{0}, {0}, {0}};
    swi_sum_wide(w.s1, NULL, x, size, w.mean, false);
    group_means(j, &w);
    swi_sum_wide(w.s1, w.s2, x, size, w.mean, false);
    spread(j, w.s1);
    spread(j, w.s2);
    for (int k = 0; k < LANES; k++)
        if (swi_is_beyond(m->s2[k])) {
            m->s1[k] = w.s1[k];
            m->s2[k] = w.s2[k];
            m->mean[k] = w.mean[k];
        }
}

static void group_moments_of(const image_job *j, const float *x, int64_t size, group_moments *m)
{
    bool beyond = false;
    swi_sum(m->s1, x, size, false);
    group_means(j, m);
    swi_sum_square(m->s1, m->s2, x, size, l_load(m->mean), false);
    spread(j, m->s1);
    spread(j, m->s2);
    for (int k = 0; k < LANES; k++)
        beyond |= swi_is_beyond(m->s2[k]);
    if (beyond)
        widen_group(j, x, size, m);
}

static void group_part(void *arg, int part)
{
    const image_job *j = arg;
    const sw_norm_args *n = j->n;
    const int64_t g = part % n->groups, i = part / n->groups, first = g * j->width;
    group_moments m = {{0}, {0}, {0}};
    float mean[LANES], rstd[LANES];
    group_moments_of(j, place(j, n->x, i, first), j->width * j->stride, &m);
    for (int k = 0; k < LANES; k++) {
        rstd[k] = (float)sw_rstd(sw_variance(m.s1[k], m.s2[k], j->count), n->epsilon);
        mean[k] = (float)((double)m.mean[k] + m.s1[k] / j->count);
    }
    write_stats(j, n->mean_out, i, g, mean);
    write_stats(j, n->rstd_out, i, g, rstd);
    for (int64_t c = first; c < first + j->width; c++) {
        float *y = place(j, n->y, i, c);
        swi_put_y(y, place(j, n->x, i, c), NULL, NULL, l_set1(at_or(n->weight, c, 1.0f)),
                  l_set1(at_or(n->bias, c, 0.0f)), j->stride, l_load(mean), l_load(rstd),
                  false);
        clear_lanes(j, y, i);
    }
}

void SW_KERNEL(norm, group)(const sw_norm_args *n, const sw_par *par)
{
    run_groups(n, group_part, true, par);
}

static void group_dx_part(void *arg, int part)
{
    const image_job *j = arg;
    const sw_norm_args *n = j->n;
    const int64_t g = part % n->groups, i = part / n->groups, first = g * j->width;
    double s1[LANES] = {0}, s2[LANES] = {0};
    float mean[LANES], rstd[LANES], k1[LANES], k2[LANES];
    read_stats(j, n->mean, i, g, mean);
    read_stats(j, n->rstd, i, g, rstd);
    for (int64_t c = first; c < first + j->width; c++) {
        swi_sum_slope(s1, s2, place(j, n->dy, i, c), place(j, n->x, i, c), NULL,
                      l_set1(at_or(n->weight, c, 1.0f)), j->stride, l_load(mean), false);
    }
    spread(j, s1);
    spread(j, s2);
    for (int k = 0; k < LANES; k++) {
        k1[k] = (float)(s1[k] / j->count);
        k2[k] = (float)(s2[k] * (double)rstd[k] * (double)rstd[k] / j->count);
    }
    for (int64_t c = first; c < first + j->width; c++) {
        float *dx = place(j, n->dx, i, c);
        swi_put_dx(dx, place(j, n->dy, i, c), place(j, n->x, i, c), NULL,
                   l_set1(at_or(n->weight, c, 1.0f)), j->stride, l_load(mean), l_load(rstd),
                   l_load(k1), l_load(k2), n->add_dx, false);
        clear_lanes(j, dx, i);
    }
}

void SW_KERNEL(norm, group_dx)(const sw_norm_args *n, const sw_par *par)
{
    run_groups(n, group_dx_part, true, par);
}

/* Part c is channel c. */
static void group_dw_part(void *arg, int part)
{
    const image_job *j = arg;
    const sw_norm_args *n = j->n;
    const int64_t g = part / j->width;
    double w1 = 0, w2 = 0;
    for (int64_t i = 0; i < j->cover; i++) {
        const int lanes = lanes_of(j, i);
        double s1[LANES] = {0}, s2[LANES] = {0};
        float mean[LANES] = {0}, rstd[LANES] = {0};
        if (n->x != NULL) {
            read_stats(j, n->mean, i, g, mean);
            read_stats(j, n->rstd, i, g, rstd);
        }
        swi_sum_slope(s1, s2, place(j, n->dy, i, part),
                      n->x != NULL ? place(j, n->x, i, part) : NULL, NULL, l_set1(1.0f),
                      j->stride, l_load(mean), false);
        w1 += swi_lanes_sum(s1, lanes);
        for (int k = 0; k < lanes; k++)
            w2 += s2[k] * (double)rstd[k];
    }
    set(n->db, part, w1, n->add_db);
    set(n->dw, part, w2, n->add_dw);
}

void SW_KERNEL(norm, group_dw)(const sw_norm_args *n, const sw_par *par)
{
    run_groups(n, group_dw_part, false, par);
}

/* ---- batch: channels --------------------------------------------------------------------- */

enum { TOGETHER = 16, NEAR = 1 << 15 }; /* channels; floats of them */

/* Channels that go together. */
static int64_t together(const image_job *j)
{
    const int64_t size = j->cover * j->stride, fit = NEAR / (size > 0 ? size : 1);
    return fit < 1 ? 1 : fit < TOGETHER ? fit : TOGETHER;
}

/* Some channels of a job: [c, end). */
typedef struct {
    const image_job *j;
    int64_t c, end;
} channels;

typedef struct {
    const image_job *j;
    void (*body)(const channels *s);
    int parts;
} batch_work;

static void batch_work_part(void *arg, int part)
{
    const batch_work *w = arg;
    const int64_t all = w->j->n->channels, step = together(w->j);
    const int64_t end = vpiece(all, 1, part + 1, w->parts);
    channels s = {.j = w->j};
    for (s.c = vpiece(all, 1, part, w->parts); s.c < end; s.c = s.end) {
        s.end = s.c + step < end ? s.c + step : end;
        w->body(&s);
    }
}

static void run_channels(const sw_norm_args *n, void (*body)(const channels *),
                         const sw_par *par)
{
    image_job j = job_of(n);
    j.count = (double)n->batch * (double)n->inner;
    const int64_t all = n->channels, size = j.cover * all * j.stride;
    const int threads = par != NULL ? par->n_threads : 1;
    const int64_t parts = threads > 1 && size > PART ? 8 * threads : 1;
    batch_work w = {&j, body, (int)(parts < all ? parts : all)};
    vparts(par, batch_work_part, &w, w.parts, w.parts > 1);
}

/* Add the lanes of the batch of image or block i to s. */
SW_VEC_FN void add_lanes(const image_job *j, int64_t i, double *s, double *lane)
{
    const int lanes = lanes_of(j, i);
    if (lanes == LANES)
        d_store(s, d_add(d_load(s), d_load(lane)));
    for (int k = 0; lanes < LANES && k < lanes; k++)
        s[k] += lane[k];
    d_store(lane, (swi_16d){0});
}

/* A call with HALF, a constant: are images of bf16? */
#define BY_TYPE(...)                                                                           \
    do {                                                                                       \
        if (j->n->half) {                                                                      \
            enum { HALF = 1 };                                                                 \
            __VA_ARGS__;                                                                       \
        } else {                                                                               \
            enum { HALF = 0 };                                                                 \
            __VA_ARGS__;                                                                       \
        }                                                                                      \
    } while (0)

/* ---- statistics of the batch ------------------------------------------------------------- */

static void batch_y(const image_job *j, int64_t c, float mean, float rstd)
{
    const sw_norm_args *n = j->n;
    const swi_16 weight = l_set1(at_or(n->weight, c, 1.0f));
    const swi_16 bias = l_set1(at_or(n->bias, c, 0.0f));
    for (int64_t i = 0; i < j->cover; i++) {
        void *y = place(j, n->y, i, c);
        BY_TYPE(swi_put_y(y, place(j, n->x, i, c), NULL, NULL, weight, bias, j->stride,
                          l_set1(mean), l_set1(rstd), HALF));
        clear_lanes(j, y, i);
    }
}

/* Of a channel: about what, and the sums of d and d d. */
typedef struct {
    float about;
    double sum, square;
} channel_moments;

static float mean_of(const image_job *j, int64_t channel, bool wide)
{
    double s[LANES] = {0}, t[LANES] = {0};
    const float about[LANES] = {0};
    for (int64_t i = 0; i < j->cover; i++) {
        const void *x = place(j, j->n->x, i, channel);
        if (wide)
            swi_sum_wide(t, NULL, x, j->stride, about, j->n->half);
        else
            BY_TYPE(swi_sum(t, x, j->stride, HALF));
        add_lanes(j, i, s, t);
    }
    return (float)(swi_lanes_sum(s, LANES) / j->count);
}

static channel_moments moments_about(const image_job *j, int64_t channel, float mean, bool wide)
{
    double s1[LANES] = {0}, s2[LANES] = {0}, t1[LANES] = {0}, t2[LANES] = {0};
    float about[LANES];
    for (int k = 0; k < LANES; k++)
        about[k] = mean;
    for (int64_t i = 0; i < j->cover; i++) {
        const void *x = place(j, j->n->x, i, channel);
        if (wide)
            swi_sum_wide(t1, t2, x, j->stride, about, j->n->half);
        else
            BY_TYPE(swi_sum_square(t1, t2, x, j->stride, l_set1(mean), HALF));
        add_lanes(j, i, s1, t1);
        add_lanes(j, i, s2, t2);
    }
    return (channel_moments){mean, swi_lanes_sum(s1, LANES), swi_lanes_sum(s2, LANES)};
}

typedef struct {
    float mean, rstd;
} channel_stats;

static channel_stats put_stats(const image_job *j, int64_t channel, const channel_moments *m)
{
    const sw_norm_args *n = j->n;
    const double mean = (double)m->about + m->sum / j->count;
    const double var = sw_variance(m->sum, m->square, j->count);
    const channel_stats s = {(float)mean, (float)sw_rstd(var, n->epsilon)};
    if (n->mean_out != NULL)
        n->mean_out[channel] = s.mean;
    if (n->rstd_out != NULL)
        n->rstd_out[channel] = s.rstd;
    if (n->stats_out != NULL) {
        n->stats_out[channel] = mean;
        n->stats_out[n->channels + channel] = var * (j->count / (j->count - 1.0));
    }
    return s;
}

static void batch_channels(const channels *s)
{
    const image_job *j = s->j;
    float mean[TOGETHER];
    channel_moments m[TOGETHER];
    channel_stats stats[TOGETHER];
    const int n = (int)(s->end - s->c);
    for (int i = 0; i < n; i++)
        mean[i] = mean_of(j, s->c + i, false);
    for (int i = 0; i < n; i++)
        m[i] = moments_about(j, s->c + i, mean[i], false);
    for (int i = 0; i < n; i++)
        if (swi_is_beyond(m[i].square))
            m[i] = moments_about(j, s->c + i, mean_of(j, s->c + i, true), true);
    for (int i = 0; i < n; i++)
        stats[i] = put_stats(j, s->c + i, &m[i]);
    for (int i = 0; i < n; i++)
        batch_y(j, s->c + i, stats[i].mean, stats[i].rstd);
    if (j->n->also != NULL)
        j->n->also(j->n->also_arg, s->c, s->end);
}

void SW_KERNEL(norm, batch)(const sw_norm_args *n, const sw_par *par)
{
    run_channels(n, batch_channels, par);
}

/* ---- its gradients ----------------------------------------------------------------------- */

static float rstd_at(const sw_norm_args *n, int64_t c)
{
    if (n->var != NULL)
        return (float)sw_rstd((double)n->var[c], n->epsilon);
    return at_or(n->rstd, c, 0.0f);
}

/* Sums of a channel: of dy, and of dy (x - mean) rstd. */
typedef struct {
    double dy, slope;
} channel_slopes;

static channel_slopes slopes_of(const image_job *j, int64_t c)
{
    const sw_norm_args *n = j->n;
    const swi_16 one = l_set1(1.0f), mean = l_set1(at_or(n->mean, c, 0.0f));
    double s1[LANES] = {0}, s2[LANES] = {0}, t1[LANES] = {0}, t2[LANES] = {0};
    for (int64_t i = 0; i < j->cover; i++) {
        const void *dy = place(j, n->dy, i, c);
        const void *x = n->x != NULL ? place(j, n->x, i, c) : NULL;
        BY_TYPE(swi_sum_slope(t1, t2, dy, x, NULL, one, j->stride, mean, HALF));
        add_lanes(j, i, s1, t1);
        add_lanes(j, i, s2, t2);
    }
    return (channel_slopes){swi_lanes_sum(s1, LANES),
                            swi_lanes_sum(s2, LANES) * (double)rstd_at(n, c)};
}

static void batch_dx(const image_job *j, int64_t c, const channel_slopes *s)
{
    const sw_norm_args *n = j->n;
    const float rstd = rstd_at(n, c), weight = at_or(n->weight, c, 1.0f);
    const swi_16 k1 = l_set1((float)(s->dy * (double)weight / j->count));
    const swi_16 k2 = l_set1((float)(s->slope * (double)rstd * (double)weight / j->count));
    for (int64_t i = 0; i < j->cover; i++) {
        void *dx = place(j, n->dx, i, c);
        BY_TYPE(swi_put_dx(dx, place(j, n->dy, i, c), place(j, n->x, i, c), NULL,
                           l_set1(weight), j->stride, l_set1(at_or(n->mean, c, 0.0f)),
                           l_set1(rstd), k1, k2, n->add_dx, HALF));
        clear_lanes(j, dx, i);
    }
}

static void grad_channels(const channels *s)
{
    const sw_norm_args *n = s->j->n;
    channel_slopes sums[TOGETHER];
    if (n->also != NULL)
        n->also(n->also_arg, s->c, s->end);
    for (int64_t c = s->c; c < s->end; c++)
        sums[c - s->c] = slopes_of(s->j, c);
    for (int64_t c = s->c; c < s->end; c++) {
        if (n->dx != NULL)
            batch_dx(s->j, c, &sums[c - s->c]);
        set(n->db, c, sums[c - s->c].dy, n->add_db);
        set(n->dw, c, sums[c - s->c].slope, n->add_dw);
    }
}

void SW_KERNEL(norm, batch_grad)(const sw_norm_args *n, const sw_par *par)
{
    run_channels(n, grad_channels, par);
}

/* ---- statistics that are given ----------------------------------------------------------- */

static void fixed_channels(const channels *s)
{
    for (int64_t c = s->c; c < s->end; c++)
        batch_y(s->j, c, s->j->n->mean[c], rstd_at(s->j->n, c));
}

void SW_KERNEL(norm, fixed)(const sw_norm_args *n, const sw_par *par)
{
    run_channels(n, fixed_channels, par);
}

/* dx = dy factor: lanes that are zero in dy are zero here. */
SW_VEC_FN void put_scaled(void *dx, const void *dy, int64_t n, swi_16 factor, bool adds,
                          bool half)
{
    const swi_16 zero = l_set1(0.0f);
    for (int64_t k = 0; k < n; k += LANES) {
        swi_16 r = l_mul(l_take_as(dy, k, n - k, zero, half), factor);
        if (adds)
            r = l_add(l_take_as(dx, k, n - k, zero, half), r);
        l_put_as(dx, k, n - k, r, half);
    }
}

static void fixed_dx_channels(const channels *s)
{
    const image_job *j = s->j;
    const sw_norm_args *n = j->n;
    for (int64_t c = s->c; c < s->end; c++) {
        const swi_16 factor = l_set1(at_or(n->weight, c, 1.0f) * rstd_at(n, c));
        for (int64_t i = 0; i < j->cover; i++) {
            const void *dy = place(j, n->dy, i, c);
            void *dx = place(j, n->dx, i, c);
            BY_TYPE(put_scaled(dx, dy, j->stride, factor, n->add_dx, HALF));
        }
    }
}

void SW_KERNEL(norm, fixed_dx)(const sw_norm_args *n, const sw_par *par)
{
    run_channels(n, fixed_dx_channels, par);
}
