/* Odometer loops over up to eight axes; the last axis is the inner loop. */
#include "kernels/strided.h"
#include <string.h>

typedef struct {
    int64_t at[SW_ND_MAX];
    int64_t y, a, b;
    bool done;
} odometer;

static int64_t inner_of(const sw_nd *nd)
{
    return nd->rank > 0 ? nd->dim[nd->rank - 1] : 1;
}

static void begin(odometer *o, const sw_nd *nd)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < nd->rank; i++)
        o->done |= nd->dim[i] == 0;
}

/* Next place of all axes but the last. */
static void next(odometer *o, const sw_nd *nd)
{
    for (int i = nd->rank - 2; i >= 0; i--) {
        o->y += nd->y[i];
        o->a += nd->a[i];
        o->b += nd->b[i];
        if (++o->at[i] < nd->dim[i])
            return;
        o->y -= nd->y[i] * nd->dim[i];
        o->a -= nd->a[i] * nd->dim[i];
        o->b -= nd->b[i] * nd->dim[i];
        o->at[i] = 0;
    }
    o->done = true;
}

void sw_nd_copy(void *y, const void *a, size_t bytes, const sw_nd *nd)
{
    const int64_t n = inner_of(nd);
    const int last = nd->rank > 0 ? nd->rank - 1 : 0;
    unsigned char *to = y;
    const unsigned char *from = a;
    const int64_t size = (int64_t)bytes; /* strides may be negative */
    odometer o;
    for (begin(&o, nd); !o.done; next(&o, nd)) {
        unsigned char *p = to + o.y * size;
        const unsigned char *q = from + o.a * size;
        if (n == 1 || (nd->y[last] == 1 && nd->a[last] == 1)) {
            memcpy(p, q, (size_t)n * bytes);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            memcpy(p + i * nd->y[last] * size, q + i * nd->a[last] * size, bytes);
    }
}

#define LOOP(expr)                                                                             \
    do {                                                                                       \
        const int64_t n = inner_of(nd);                                                        \
        const int last = nd->rank > 0 ? nd->rank - 1 : 0;                                      \
        const int64_t sy = nd->rank > 0 ? nd->y[last] : 0,                                     \
                      sa = nd->rank > 0 ? nd->a[last] : 0;                                     \
        const int64_t sb = nd->rank > 0 ? nd->b[last] : 0;                                     \
        (void)sb;                                                                              \
        odometer o;                                                                            \
        for (begin(&o, nd); !o.done; next(&o, nd))                                             \
            for (int64_t i = 0; i < n; i++) {                                                  \
                const int64_t iy = o.y + i * sy, ia = o.a + i * sa, ib = o.b + i * sb;         \
                (void)ib;                                                                      \
                const float r = (expr);                                                        \
                y[iy] = accumulate ? y[iy] + r : r;                                            \
            }                                                                                  \
    } while (0)

void sw_nd_scale(float *y, const float *a, float factor, bool accumulate, const sw_nd *nd)
{
    LOOP(a[ia] * factor);
}

void sw_nd_add(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd)
{
    LOOP(a[ia] + b[ib]);
}

void sw_nd_mul(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd)
{
    LOOP(a[ia] * b[ib]);
}

void sw_nd_sub(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd)
{
    LOOP(a[ia] - b[ib]);
}

void sw_nd_div(float *y, const float *a, const float *b, bool accumulate, const sw_nd *nd)
{
    LOOP(a[ia] / b[ib]);
}

/* Where the odometer stands in an operand that it does not count for. */
static int64_t place(const odometer *o, const int64_t *stride, const sw_nd *nd)
{
    int64_t at = 0;
    for (int i = 0; i + 1 < nd->rank; i++)
        at += o->at[i] * stride[i];
    return at;
}

void sw_nd_where(float *y, const uint8_t *mask, const int64_t *m, const float *a,
                 const float *b, bool accumulate, const sw_nd *nd)
{
    const int64_t sm = nd->rank > 0 ? m[nd->rank - 1] : 0;
    LOOP(mask[place(&o, m, nd) + i * sm] != 0 ? a[ia] : b[ib]);
}

/* Split into kept and reduced axes; the kept ones are walked outside. */
void sw_nd_sum(float *y, const float *a, const bool *reduced, double factor, bool accumulate,
               const sw_nd *nd)
{
    sw_nd kept = {0}, inner = {0};
    for (int i = 0; i < nd->rank; i++) {
        sw_nd *to = reduced[i] ? &inner : &kept;
        to->dim[to->rank] = nd->dim[i];
        to->a[to->rank] = nd->a[i];
        to->y[to->rank++] = reduced[i] ? 0 : nd->y[i];
    }
    /* One axis of length 1 makes every place of the kept axes a step of the odometer. */
    kept.dim[kept.rank++] = 1;
    if (inner.rank == 0)
        inner.dim[inner.rank++] = 1;
    odometer o, p;
    for (begin(&o, &kept); !o.done; next(&o, &kept)) {
        double sum = 0;
        const int64_t n = inner.dim[inner.rank - 1], step = inner.a[inner.rank - 1];
        for (begin(&p, &inner); !p.done; next(&p, &inner))
            for (int64_t i = 0; i < n; i++)
                sum += (double)a[o.a + p.a + i * step];
        const float r = (float)(sum * factor);
        y[o.y] = accumulate ? y[o.y] + r : r;
    }
}
