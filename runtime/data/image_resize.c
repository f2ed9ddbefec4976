/* Resizing with antialiasing, in the middle of which a square is cut out: the shorter side
 * becomes `side`, as torchvision's Resize and CenterCrop do it.
 *
 * Bilinear, as Pillow's Image.resize(BILINEAR) defines it: output pixel o is the mean of the
 * input pixels i weighed by a triangle, 1 - |i + 1/2 - (o + 1/2) s| / max(s, 1) where that is
 * above 0, with s = in / out. Weights sum to 1 and are whole numbers of 2^-22. First along
 * rows, rounded to bytes, then along columns: the bits are Pillow's. (Pillow 13 takes columns
 * first for some tall images, which may round otherwise.)
 *
 * Rows come one by one: those that the next row of the result needs are kept in a ring. */
#include "alloc/base/size.h"
#include "runtime/data/image_internal.h"
#include <math.h>
#include <string.h>

#define WEIGHT_BITS 22

/* The sources of one pixel of the result along an axis. */
typedef struct {
    int64_t from;
    int32_t n;
    size_t weights; /* where they are in `weights` */
} span;

struct swi_resize {
    span *columns, *rows; /* side of each */
    int32_t *weights;
    unsigned char *ring; /* rows of side * channels, resized along x */
    int64_t ring_rows;
    int64_t next; /* row of the result */
};

typedef struct {
    int64_t in, out, from; /* pixels of the axis; of the result's, the first that is kept */
} axis;

static axis axis_of(int64_t in, int64_t shorter, int64_t side)
{
    axis a = {.in = in, .out = in == shorter ? side : side * in / shorter};
    /* round() of Python, which torchvision takes: halves to the even number. */
    const int64_t x = a.out - side;
    a.from = x / 2 + (x % 2 != 0 && x / 2 % 2 != 0);
    return a;
}

/* ---- weights ----------------------------------------------------------------------------- */

static double support_of(const axis *a)
{
    return a->in > a->out ? (double)a->in / (double)a->out : 1.0;
}

/* Weights that one pixel of the result has at most. */
static int64_t most_weights(const axis *a)
{
    return 2 * (int64_t)ceil(support_of(a)) + 1;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* The span of pixel `o`; its weights go to `to`. */
static span span_of(const axis *a, int64_t o, int32_t *to)
{
    const double scale = (double)a->in / (double)a->out, wide = support_of(a);
    const double center = ((double)o + 0.5) * scale, per = 1.0 / wide;
    int64_t from = (int64_t)(center - wide + 0.5), end = (int64_t)(center + wide + 0.5);
    from = from < 0 ? 0 : from;
    end = end > a->in ? a->in : end;
    double sum = 0.0;
    for (int64_t i = from; i < end; i++)
        sum += triangle(((double)i - center + 0.5) * per);
    for (int64_t i = from; i < end; i++) {
        double w = triangle(((double)i - center + 0.5) * per);
        w = sum != 0.0 ? w / sum : w;
        to[i - from] = (int32_t)(0.5 + w * (double)(1 << WEIGHT_BITS));
    }
    return (span){.from = from, .n = (int32_t)(end - from)};
}

static int64_t make_spans(span *spans, const axis *a, int64_t side, int32_t *weights,
                          size_t *used)
{
    int64_t most = 1;
    for (int64_t i = 0; i < side; i++) {
        spans[i] = span_of(a, a->from + i, weights + *used);
        spans[i].weights = *used;
        *used += (size_t)spans[i].n;
        most = spans[i].n > most ? spans[i].n : most;
    }
    return most;
}

static unsigned char to_byte(int64_t sum)
{
    const int64_t v = sum >> WEIGHT_BITS;
    return (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
}

#define HALF ((int64_t)1 << (WEIGHT_BITS - 1))

/* ---- rows -------------------------------------------------------------------------------- */

static void resize_row(const struct swi_resize *r, unsigned char *to, const unsigned char *from,
                       int64_t side, int channels)
{
    for (int64_t o = 0; o < side; o++) {
        const span *s = &r->columns[o];
        const int32_t *w = r->weights + s->weights;
        for (int c = 0; c < channels; c++) {
            const unsigned char *x = from + s->from * channels + c;
            int64_t sum = HALF;
            for (int32_t i = 0; i < s->n; i++)
                sum += (int64_t)w[i] * x[(int64_t)i * channels];
            to[o * channels + c] = to_byte(sum);
        }
    }
}

static void resized_row(swi_image_fit *f, const unsigned char *pixels)
{
    struct swi_resize *r = f->resize;
    const span *rows = r->rows;
    if (r->next == f->side || f->y < rows[0].from)
        return; /* below or above what is cut out */
    resize_row(r, r->ring + f->y % r->ring_rows * f->side * f->channels, pixels, f->side,
               f->channels);
    while (r->next < f->side && rows[r->next].from + rows[r->next].n <= f->y + 1) {
        /* Row `o` of the result, from the ring to the planes. */
        const int64_t o = r->next++;
        const span *s = &r->rows[o];
        const int32_t *w = r->weights + s->weights;
        const int64_t side = f->side, row = side * f->channels;
        for (int64_t k = 0; k < row; k++) {
            int64_t sum = HALF;
            for (int32_t i = 0; i < s->n; i++)
                sum += (int64_t)w[i] * r->ring[(s->from + i) % r->ring_rows * row + k];
            f->out[(k % f->channels * side + o) * side + k / f->channels] = to_byte(sum);
        }
    }
}

/* Gray of ITU-R 601-2, as Pillow's convert("L"), in 2^-16; colours of gray: thrice the same. */
static const unsigned char *recoloured(const swi_image_fit *f, const unsigned char *pixels)
{
    const int64_t w = f->head.w;
    if (f->head.channels == f->channels)
        return pixels;
    for (int64_t x = 0; x < w && f->channels == 1; x++) {
        const unsigned char *p = pixels + 3 * x;
        f->row[x] =
            (unsigned char)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
    }
    for (int64_t x = 0; x < w && f->channels == 3; x++)
        memset(f->row + 3 * x, pixels[x], 3);
    return f->row;
}

void swi_image_fit_row(void *context, const unsigned char *pixels)
{
    swi_image_fit *f = context;
    pixels = recoloured(f, pixels);
    if (f->resize != NULL)
        resized_row(f, pixels);
    const int64_t w = f->head.w;
    for (int c = 0; f->resize == NULL && c < f->channels; c++) { /* to planes as it is */
        unsigned char *to = f->out + (c * f->head.h + f->y) * w;
        for (int64_t x = 0; x < w; x++)
            to[x] = pixels[x * f->channels + c];
    }
    f->y++;
}

/* ---- an image ---------------------------------------------------------------------------- */

/* Memory of the tables: an image has so few pixels that nothing overflows. */
sw_status swi_image_fit_begin(void *context, const swi_image_head *head)
{
    swi_image_fit *f = context;
    const int64_t shorter = head->w < head->h ? head->w : head->h, side = f->side;
    const bool same = side == 0 || (head->w == side && head->h == side);
    const axis x = axis_of(head->w, shorter, same ? shorter : side);
    const axis y = axis_of(head->h, shorter, same ? shorter : side);
    const size_t row = (size_t)(head->w * f->channels), n = same ? 0 : (size_t)side;
    const size_t weights = n * (size_t)(most_weights(&x) + most_weights(&y));
    const size_t ring = n * (size_t)(most_weights(&y) * f->channels);
    const size_t spans = sw_size_round(sizeof(struct swi_resize));
    const size_t at_weights = spans + 2 * n * sizeof(span);
    const size_t at_row = at_weights + weights * sizeof(int32_t);
    const int64_t w = side > 0 ? side : head->w, h = side > 0 ? side : head->h;
    if ((size_t)(w * h * f->channels) != f->most)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read: it is %lld x %lld now", f->path,
                (long long)head->w, (long long)head->h);
    f->head = *head;
    f->y = 0;
    SW_TRY(sw_heap_alloc(&f->block, SW_HEAP_FILES, at_row + row + ring));
    f->bytes = at_row + row + ring;
    f->row = (unsigned char *)f->block + at_row;
    if (same)
        return SW_OK;
    size_t used = 0;
    struct swi_resize *r = f->resize = f->block;
    r->columns = (span *)(void *)((unsigned char *)f->block + spans);
    r->rows = r->columns + n;
    r->weights = (int32_t *)(void *)((unsigned char *)f->block + at_weights);
    r->ring = f->row + row;
    (void)make_spans(r->columns, &x, side, r->weights, &used);
    r->ring_rows = make_spans(r->rows, &y, side, r->weights, &used);
    return SW_OK;
}

void swi_image_fit_end(swi_image_fit *f)
{
    sw_heap_free(f->block, SW_HEAP_FILES, f->bytes);
    f->block = NULL;
    f->resize = NULL;
}
