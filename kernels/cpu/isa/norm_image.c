/* Group norm over images, plain or in blocks of sixteen.
 *
 * Plain: the lanes are positions of one image's channels, and a sum is over all of them.
 * Blocks: the lanes are images, which stay apart. */
#include "kernels/cpu/isa/norm_image.h"

static void run_image(image_job *j, void (*body)(void *, int), int64_t parts, const sw_par *par)
{
    const sw_norm_args *n = j->n;
    vparts(par, body, j, (int)parts, j->cover * n->channels * j->stride > PART);
}

/* ---- groups: part g + groups * i is group g of image or block i -------------------------- */

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
    swi_sum_wide(w.s1, NULL, x, size, w.mean);
    group_means(j, &w);
    swi_sum_wide(w.s1, w.s2, x, size, w.mean);
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
    swi_sum(m->s1, x, size);
    group_means(j, m);
    swi_sum_square(m->s1, m->s2, x, size, l_load(m->mean));
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
    group_moments_of(j, n->x + position(j, i, first), j->width * j->stride, &m);
    for (int k = 0; k < LANES; k++) {
        rstd[k] = (float)sw_rstd(sw_variance(m.s1[k], m.s2[k], j->count), n->epsilon);
        mean[k] = (float)((double)m.mean[k] + m.s1[k] / j->count);
    }
    write_stats(j, n->mean_out, i, g, mean);
    write_stats(j, n->rstd_out, i, g, rstd);
    for (int64_t c = first; c < first + j->width; c++) {
        const int64_t at = position(j, i, c);
        swi_put_y(n->y + at, n->x + at, NULL, NULL, l_set1(at_or(n->weight, c, 1.0f)),
                  l_set1(at_or(n->bias, c, 0.0f)), j->stride, l_load(mean), l_load(rstd));
        clear_lanes(n->y + at, j->stride, lanes_of(j, i));
    }
}

static image_job group_job(const sw_norm_args *n)
{
    image_job j = job_of(n);
    j.width = n->channels / n->groups;
    j.count = (double)j.width * (double)n->inner;
    return j;
}

void SW_KERNEL(norm, group)(const sw_norm_args *n, const sw_par *par)
{
    image_job j = group_job(n);
    run_image(&j, group_part, j.cover * n->groups, par);
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
        const int64_t at = position(j, i, c);
        swi_sum_slope(s1, s2, n->dy + at, n->x + at, NULL, l_set1(at_or(n->weight, c, 1.0f)),
                      j->stride, l_load(mean));
    }
    spread(j, s1);
    spread(j, s2);
    for (int k = 0; k < LANES; k++) {
        k1[k] = (float)(s1[k] / j->count);
        k2[k] = (float)(s2[k] * (double)rstd[k] * (double)rstd[k] / j->count);
    }
    for (int64_t c = first; c < first + j->width; c++) {
        const int64_t at = position(j, i, c);
        swi_put_dx(n->dx + at, n->dy + at, n->x + at, NULL, l_set1(at_or(n->weight, c, 1.0f)),
                   j->stride, l_load(mean), l_load(rstd), l_load(k1), l_load(k2), n->add_dx);
        clear_lanes(n->dx + at, j->stride, lanes_of(j, i));
    }
}

void SW_KERNEL(norm, group_dx)(const sw_norm_args *n, const sw_par *par)
{
    image_job j = group_job(n);
    run_image(&j, group_dx_part, j.cover * n->groups, par);
}

/* Part c is channel c. */
static void group_dw_part(void *arg, int part)
{
    const image_job *j = arg;
    const sw_norm_args *n = j->n;
    const int64_t g = part / j->width;
    double w1 = 0, w2 = 0;
    for (int64_t i = 0; i < j->cover; i++) {
        const int64_t at = position(j, i, part);
        const int lanes = lanes_of(j, i);
        double s1[LANES] = {0}, s2[LANES] = {0};
        float mean[LANES] = {0}, rstd[LANES] = {0};
        if (n->x != NULL) {
            read_stats(j, n->mean, i, g, mean);
            read_stats(j, n->rstd, i, g, rstd);
        }
        swi_sum_slope(s1, s2, n->dy + at, n->x != NULL ? n->x + at : NULL, NULL, l_set1(1.0f),
                      j->stride, l_load(mean));
        w1 += swi_lanes_sum(s1, lanes);
        for (int k = 0; k < lanes; k++)
            w2 += s2[k] * (double)rstd[k];
    }
    set(n->db, part, w1, n->add_db);
    set(n->dw, part, w2, n->add_dw);
}

void SW_KERNEL(norm, group_dw)(const sw_norm_args *n, const sw_par *par)
{
    image_job j = group_job(n);
    run_image(&j, group_dw_part, n->channels, par);
}
