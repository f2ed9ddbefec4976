/* Odometer loops over up to eight axes; the last axis is the inner loop. */
#include "kernels/scalar.h"
#include "kernels/strided.h"
#include <string.h>

typedef struct {
    int64_t at[SW_STRIDED_MAX];
    int64_t y, a, b;
    bool done;
} odometer;

static int64_t inner_of(const sw_strided *strided)
{
    return strided->rank > 0 ? strided->dim[strided->rank - 1] : 1;
}

static void begin(odometer *o, const sw_strided *strided)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < strided->rank; i++)
        o->done |= strided->dim[i] == 0;
}

/* Next position of all axes but the last. */
static void next(odometer *o, const sw_strided *strided)
{
    for (int i = strided->rank - 2; i >= 0; i--) {
        o->y += strided->y[i];
        o->a += strided->a[i];
        o->b += strided->b[i];
        if (++o->at[i] < strided->dim[i])
            return;
        o->y -= strided->y[i] * strided->dim[i];
        o->a -= strided->a[i] * strided->dim[i];
        o->b -= strided->b[i] * strided->dim[i];
        o->at[i] = 0;
    }
    o->done = true;
}

/* Fewer and longer axes that say the same: axes of one are left out, and what follows an axis
 * without a gap joins it. Copies may take elements in any order. */
static sw_strided joined(const sw_strided *s)
{
    sw_strided r = {.rank = 0};
    for (int i = 0; i < s->rank; i++) {
        const int k = r.rank - 1;
        if (s->dim[i] == 1)
            continue;
        const bool joins =
            k >= 0 && r.y[k] == s->y[i] * s->dim[i] && r.a[k] == s->a[i] * s->dim[i];
        const int to = joins ? k : r.rank++;
        r.dim[to] = joins ? r.dim[k] * s->dim[i] : s->dim[i];
        r.y[to] = s->y[i];
        r.a[to] = s->a[i];
    }
    return r;
}

/* The last axis, where either side has gaps. */
static void copy_apart(unsigned char *to, int64_t y, const unsigned char *from, int64_t a,
                       int64_t n, size_t bytes)
{
    if (bytes == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * y, from + i * a, 4);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * y, from + i * a, bytes);
}

void sw_strided_copy(void *y, const void *a, size_t bytes, const sw_strided *strided)
{
    const sw_strided s = joined(strided);
    const int64_t n = inner_of(&s), size = (int64_t)bytes; /* strides may be negative */
    const int last = s.rank > 0 ? s.rank - 1 : 0;
    unsigned char *to = y;
    const unsigned char *from = a;
    odometer o;
    for (begin(&o, &s); !o.done; next(&o, &s)) {
        unsigned char *p = to + o.y * size;
        const unsigned char *q = from + o.a * size;
        if (n == 1 || (s.y[last] == 1 && s.a[last] == 1))
            memcpy(p, q, (size_t)n * bytes);
        else
            copy_apart(p, s.y[last] * size, q, s.a[last] * size, n, bytes);
    }
}

/* y, a and b lie side by side along the last axis. */
static bool is_dense(const sw_strided *s)
{
    const int last = s->rank - 1;
    return s->rank > 0 && s->y[last] == 1 && s->a[last] == 1 && s->b[last] == 1;
}

#define ROW(sy, sa, sb, put, expr)                                                             \
    for (int64_t i = 0; i < n; i++) {                                                          \
        const int64_t iy = o.y + i * (sy), ia = o.a + i * (sa), ib = o.b + i * (sb);           \
        (void)ib;                                                                              \
        y[iy] put(expr);                                                                       \
    }

/* Steps of 1 are constants in a loop of their own, which is vectorised. An output that is not
 * added to is not read either: of one loop for both a compiler may always read. */
#define LOOP(expr)                                                                             \
    do {                                                                                       \
        const int64_t n = inner_of(strided);                                                   \
        const int last = strided->rank > 0 ? strided->rank - 1 : 0;                            \
        const int64_t sy = strided->rank > 0 ? strided->y[last] : 0,                           \
                      sa = strided->rank > 0 ? strided->a[last] : 0;                           \
        const int64_t sb = strided->rank > 0 ? strided->b[last] : 0;                           \
        const bool dense = is_dense(strided);                                                  \
        odometer o;                                                                            \
        for (begin(&o, strided); !o.done; next(&o, strided))                                   \
            if (dense && accumulate)                                                           \
                ROW(1, 1, 1, +=, expr)                                                         \
            else if (dense)                                                                    \
                ROW(1, 1, 1, =, expr)                                                          \
            else if (accumulate)                                                               \
                ROW(sy, sa, sb, +=, expr)                                                      \
            else                                                                               \
                ROW(sy, sa, sb, =, expr)                                                       \
    } while (0)

void sw_strided_scale(float *y, const float *a, float factor, bool accumulate,
                      const sw_strided *strided)
{
    LOOP(a[ia] * factor);
}

#define OF_TWO(name, expr)                                                                     \
    void sw_strided_##name(float *y, const float *a, const float *b, bool accumulate,          \
                           const sw_strided *strided)                                          \
    {                                                                                          \
        LOOP(expr);                                                                            \
    }
OF_TWO(add, a[ia] + b[ib])
OF_TWO(mul, a[ia] * b[ib])
OF_TWO(sub, a[ia] - b[ib])
OF_TWO(div, a[ia] / b[ib])

/* Where the odometer stands in an operand that it does not count for. */
static int64_t position(const odometer *o, const int64_t *stride, const sw_strided *strided)
{
    int64_t at = 0;
    for (int i = 0; i + 1 < strided->rank; i++)
        at += o->at[i] * stride[i];
    return at;
}

void sw_strided_where(float *y, const uint8_t *mask, const int64_t *m, const float *a,
                      const float *b, bool accumulate, const sw_strided *strided)
{
    const int64_t sm = strided->rank > 0 ? m[strided->rank - 1] : 0;
    LOOP(sw_chosen(mask[position(&o, m, strided) + i * sm], a[ia], b[ib]));
}

/* Split into kept and reduced axes; the kept ones are walked outside. Neighbours along the last
 * kept axis are summed SIDE at a time: each sum in its order, and reads go along memory. */
enum { SIDE = 16 };

/* One position of the inner axes after the other: row `from` of the sums. */
#define EACH_ROW(add)                                                                          \
    do {                                                                                       \
        const int64_t n = inner->dim[inner->rank - 1], step = inner->a[inner->rank - 1];       \
        odometer p;                                                                            \
        for (begin(&p, inner); !p.done; next(&p, inner))                                       \
            for (int64_t i = 0; i < n; i++) {                                                  \
                const float *from = a + p.a + i * step;                                        \
                add;                                                                           \
            }                                                                                  \
    } while (0)

static void sum_side(double *sum, const float *a, int side, const sw_strided *inner)
{
    double one = 0;
    if (side == SIDE)
        EACH_ROW(for (int k = 0; k < SIDE; k++) sum[k] += (double)from[k]);
    else if (side > 1)
        EACH_ROW(for (int k = 0; k < side; k++) sum[k] += (double)from[k]);
    else
        EACH_ROW(one += (double)*from);
    if (side == 1)
        sum[0] = one;
}

void sw_strided_sum(float *y, const float *a, const bool *reduced, double factor,
                    bool accumulate, const sw_strided *strided)
{
    sw_strided kept = {0}, inner = {0};
    for (int i = 0; i < strided->rank; i++) {
        sw_strided *to = reduced[i] ? &inner : &kept;
        to->dim[to->rank] = strided->dim[i];
        to->a[to->rank] = strided->a[i];
        to->y[to->rank++] = reduced[i] ? 0 : strided->y[i];
    }
    /* The last axis of the kept ones is no step of the odometer: one of length 1 where what is
     * kept does not lie side by side. */
    const int last = kept.rank - 1;
    const bool aside = kept.rank > 0 && kept.a[last] == 1 && kept.dim[last] > 1;
    if (!aside)
        kept.dim[kept.rank++] = 1;
    if (inner.rank == 0)
        inner.dim[inner.rank++] = 1;
    const int64_t n = kept.dim[kept.rank - 1], step = kept.y[kept.rank - 1];
    odometer o;
    for (begin(&o, &kept); !o.done; next(&o, &kept))
        for (int64_t i = 0; i < n; i += SIDE) {
            double sum[SIDE] = {0};
            const int side = n - i < SIDE ? (int)(n - i) : SIDE;
            sum_side(sum, a + o.a + i, side, &inner);
            float *to = &y[o.y + i * step];
            for (int k = 0; k < side && accumulate; k++)
                to[k * step] += (float)(sum[k] * factor);
            for (int k = 0; k < side && !accumulate; k++)
                to[k * step] = (float)(sum[k] * factor);
        }
}
