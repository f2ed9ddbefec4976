/* Where the numbers of an image lie, for group norm and batch norm. */
#ifndef SW_NORM_IMAGE_H
#define SW_NORM_IMAGE_H

#include "kernels/cpu/isa/norm_internal.h"

#define PART 16384 /* elements that are worth another thread */

typedef struct {
    const sw_norm_args *n;
    int64_t cover;  /* images, or blocks of them */
    int64_t stride; /* elements of one channel of one image or block */
    int64_t width;  /* channels of a group */
    double count;   /* numbers in one mean */
} image_job;

static inline image_job job_of(const sw_norm_args *n)
{
    image_job j = {.n = n, .cover = n->batch, .stride = n->inner};
    if (n->blocks) {
        j.cover = (n->batch + LANES - 1) / LANES;
        j.stride = n->inner * LANES;
    }
    return j;
}

/* Lanes that count in image or block i. */
static inline int lanes_of(const image_job *j, int64_t i)
{
    const int64_t left = j->n->batch - i * LANES;
    return j->n->blocks && left < LANES ? (int)left : LANES;
}

static inline int64_t position(const image_job *j, int64_t i, int64_t channel)
{
    return (i * j->n->channels + channel) * j->stride;
}

/* Lanes past the batch are zero. */
static inline void clear_lanes(float *y, int64_t n, int lanes)
{
    for (int64_t i = 0; i < n && lanes < LANES; i += LANES)
        for (int k = lanes; k < LANES; k++)
            y[i + k] = 0.0f;
}

static inline float at_or(const float *p, int64_t i, float other)
{
    return p != NULL ? p[i] : other;
}

static inline void set(float *to, int64_t i, double value, bool adds)
{
    if (to != NULL)
        to[i] = (adds ? to[i] : 0.0f) + (float)value;
}

#endif
