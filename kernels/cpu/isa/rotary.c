/* Rotary positions. A part has some rows; cos and sin of a row are computed once for all its
 * heads, on the stack: for a head of 64 numbers that is half of what turning two heads takes,
 * and a table for all rows would be scratch that threads wait for. Products and sums round one
 * after the other, so all instruction sets have the same bits. */
#include "kernels/cpu/isa/vec.h"
#include "kernels/scalar.h"

enum { ELEMENTS = 1 << 13 }; /* of a part, about */

typedef struct {
    float *y;
    const float *x;
    const int32_t *positions;
    const sw_rotary_rows *r;
    int64_t rows; /* of a part */
} job;

static void turn(float *y, const float *x, const float *cosine, const float *sine,
                 int64_t pairs, bool add)
{
    for (int64_t i = 0; i < pairs; i += VW) {
        const int n = pairs - i < VW ? (int)(pairs - i) : VW;
        const vf a = vload_n(x + i, n), b = vload_n(x + pairs + i, n);
        const vf c = vload_n(cosine + i, n), s = vload_n(sine + i, n);
        vf first = vmul(a, c) - vmul(b, s), second = vadd(vmul(b, c), vmul(a, s));
        if (add) {
            first = vadd(vload_n(y + i, n), first);
            second = vadd(vload_n(y + pairs + i, n), second);
        }
        vstore_n(y + i, first, n);
        vstore_n(y + pairs + i, second, n);
    }
}

static void part(void *arg, int number)
{
    const job *j = arg;
    const sw_rotary_rows *r = j->r;
    const int64_t from = number * j->rows, pairs = r->pairs;
    const int64_t end = from + j->rows < r->rows ? from + j->rows : r->rows;
    float cosine[SW_ROTARY_PAIRS], sine[SW_ROTARY_PAIRS];
    for (int64_t row = from; row < end; row++) {
        const float position = (float)j->positions[row];
        for (int64_t i = 0; i < pairs; i++)
            sw_sincosf(position * r->frequency[i], &sine[i], &cosine[i]);
        for (int64_t i = 0; i < pairs && r->back; i++)
            sine[i] = -sine[i];
        for (int64_t h = row * r->heads; h < (row + 1) * r->heads; h++)
            turn(j->y + h * 2 * pairs, j->x + h * 2 * pairs, cosine, sine, pairs,
                 r->accumulate);
    }
}

void SW_KERNEL(axes, rotary)(float *y, const float *x, const int32_t *positions,
                             const sw_rotary_rows *r, const sw_par *par)
{
    const int64_t width = r->heads * 2 * r->pairs, rows = ELEMENTS / width;
    job j = {y, x, positions, r, rows > 0 ? rows : 1};
    const int64_t parts = (r->rows + j.rows - 1) / j.rows;
    vruns(par, part, &j, (int)parts, parts > 4);
}
