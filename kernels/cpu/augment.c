/* Images mirrored and moved, row by row. */
#include "kernels/augment.h"
#include <string.h>

/* The part of a row that a shift leaves in it: y[from..end) has x[from + by..end + by). */
typedef struct {
    int64_t from, end;
} inside;

static inside inside_of(int64_t n, int64_t by)
{
    inside i = {by < 0 ? -by : 0, by > 0 ? n - by : n};
    if (i.end < i.from)
        i.from = i.end = 0;
    return i;
}

static void add_row(float *y, const float *x, int64_t n, int flip)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += flip ? x[n - 1 - i] : x[i];
}

static void mirror_bytes(unsigned char *y, const unsigned char *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[n - 1 - i];
}

static void mirror_words(uint32_t *y, const uint32_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[n - 1 - i];
}

/* y = x or its mirror image; n elements. */
static void put_row(const sw_augment *s, unsigned char *y, const unsigned char *x, int64_t n,
                    int flip)
{
    if (s->accumulate)
        add_row((float *)(void *)y, (const float *)(const void *)x, n, flip);
    else if (!flip)
        memcpy(y, x, (size_t)n * s->element);
    else if (s->element == 1)
        mirror_bytes(y, x, n);
    else
        mirror_words((uint32_t *)(void *)y, (const uint32_t *)(const void *)x, n);
}

static void move_plane(const sw_augment *s, const sw_move *m, unsigned char *y,
                       const unsigned char *x)
{
    const inside rows = inside_of(s->h, m->down), cols = inside_of(s->w, m->right);
    const size_t row = (size_t)s->w * s->element, left = (size_t)cols.from * s->element;
    const int64_t n = cols.end - cols.from, from = cols.from + m->right;
    for (int64_t r = 0; r < s->h; r++, y += row) {
        const int is_inside = r >= rows.from && r < rows.end && n > 0;
        if (!s->accumulate && (!is_inside || n < s->w))
            memset(y, 0, row);
        if (is_inside)
            put_row(s, y + left, x + ((size_t)((r + m->down) * s->w + from)) * s->element, n,
                    m->flip);
    }
}

static void augment_image(void *arg, int image)
{
    const sw_augment *s = arg;
    const size_t plane = (size_t)(s->h * s->w) * s->element;
    const size_t at = (size_t)image * (size_t)s->planes * plane;
    uint32_t words[4];
    sw_rng_words(words, s->seed, (uint32_t)image, s->stream, s->step, s->run);
    const sw_move m = sw_move_of(words, &s->attrs, s->back);
    for (int64_t c = 0; c < s->planes; c++)
        move_plane(s, &m, (unsigned char *)s->y + at + (size_t)c * plane,
                   (const unsigned char *)s->x + at + (size_t)c * plane);
}

void sw_cpu_augment(const sw_augment *s, const sw_par *par)
{
    sw_augment job = *s;
    par->run(par, augment_image, &job, (int)s->batch);
}
