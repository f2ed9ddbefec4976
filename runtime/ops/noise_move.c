/* The steps of zeroth-order training: in {param, numbers}, out {param}, in its place. theta is
 * moved along its noise z (kernels/noise.h, direction 0; the step is the generation, the launch
 * has the seed), which is made in pieces and is nowhere afterwards. Products and sums are
 * rounded one by one, so bits depend on neither threads nor instruction set. */
#include "kernels/noise.h"
#include "runtime/ops/ops.h"

#define PART 16384 /* elements that a thread takes at a time */
#define PIECE 1024 /* of them, those whose noise exists at one time */

static sw_status move_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    out[0] = in[0];
    return swi_want_f32("noise_move", in, n_in);
}

/* ---- noise ------------------------------------------------------------------------------- */

/* Numbers first to first + n - 1 of a part. */
static void numbers(float *to, const sw_noise_spec *s, sw_noise_part part,
                    const sw_noise_at *at, int64_t first, int64_t n)
{
    float four[4];
    uint32_t words[4];
    for (int64_t i = first; i < first + n;) {
        sw_noise_words(words, s, part, at, (uint32_t)(i / 4));
        sw_noise_normal4(four, words);
        for (; i < first + n; i++) {
            to[i - first] = four[i % 4];
            if (i % 4 == 3) {
                i++;
                break;
            }
        }
    }
}

/* Elements of one row, from column `col` on: 1/sqrt(rank) sum over k of A_k(row) B_k(col). */
static void low_rank_row(float *z, const sw_noise_spec *s, const sw_noise_at *at, int64_t row,
                         int64_t col, int64_t n)
{
    float b[PIECE];
    for (int64_t i = 0; i < n; i++)
        z[i] = 0.0f;
    for (int32_t k = 0; k < s->rank; k++) {
        const float a = sw_noise_number(s, SW_NOISE_ROWS, at, k * s->rows + row);
        numbers(b, s, SW_NOISE_COLS, at, k * s->cols + col, n);
        for (int64_t i = 0; i < n; i++)
            z[i] = fmaf(a, b[i], z[i]);
    }
    const float scale = sw_noise_scale(s);
    for (int64_t i = 0; i < n; i++)
        z[i] *= scale;
}

/* z of elements first to first + n - 1 of the parameter, n at most PIECE. */
static void noise(float *z, const sw_noise_spec *s, const sw_noise_at *at, int64_t first,
                  int64_t n)
{
    if (s->kind == SW_NOISE_IID) {
        numbers(z, s, SW_NOISE_ELEMENTS, at, first, n);
        return;
    }
    for (int64_t done = 0; done < n;) {
        const int64_t row = (first + done) / s->cols, col = (first + done) % s->cols;
        const int64_t left = s->cols - col, more = left < n - done ? left : n - done;
        low_rank_row(z + done, s, at, row, col, more);
        done += more;
    }
}

/* ---- moves ------------------------------------------------------------------------------- */

static void by_noise(float *theta, const float *z, int64_t n, float a)
{
    for (int64_t i = 0; i < n; i++)
        theta[i] += a * z[i];
}

static void descend(float *theta, const float *z, int64_t n, const float *x, bool decays)
{
    const float c = x[SWI_MOVE_C], lr = x[SWI_MOVE_LR], wd = x[SWI_MOVE_WD];
    if (decays)
        for (int64_t i = 0; i < n; i++)
            theta[i] -= lr * (c * z[i] + wd * theta[i]);
    else
        for (int64_t i = 0; i < n; i++)
            theta[i] -= lr * (c * z[i]);
}

static void move_part(void *arg, int part)
{
    const sw_launch *l = arg;
    const swi_move_attrs *a = l->attrs;
    const sw_noise_at at = {l->seed, l->step, 0};
    const float *x = swi_in(l, 1);
    const float by = x[SWI_MOVE_A];
    const int64_t all = sw_type_elements(&l->out[0].type);
    const int64_t first = (int64_t)part * PART, end = first + PART < all ? first + PART : all;
    float z[PIECE];
    for (int64_t i = first; i < end; i += PIECE) {
        float *theta = swi_out(l, 0) + i;
        const int64_t n = end - i < PIECE ? end - i : PIECE;
        noise(z, &a->noise, &at, i, n);
        by_noise(theta, z, n, by);
        if (a->move == SWI_MOVE_ALL) {
            by_noise(theta, z, n, -2.0f * by);
            by_noise(theta, z, n, by);
        }
        if (a->move != SWI_MOVE_BY_NOISE)
            descend(theta, z, n, x, a->decays != 0);
    }
}

static sw_status noise_move_forward(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->out[0].type);
    l->par->run(l->par, move_part, (void *)(uintptr_t)l, (int)((n + PART - 1) / PART));
    return SW_OK;
}

static uint64_t noise_move_operations(const sw_kernel_info *info)
{
    static const uint64_t of_move[] = {2, 7, 11};
    const swi_move_attrs *a = info->attrs;
    const uint64_t rank = a->noise.kind == SW_NOISE_LOW_RANK ? (uint64_t)a->noise.rank : 0;
    const uint64_t z = rank == 0 ? SWI_NORMAL : rank * (SWI_NORMAL + 2) + 1;
    return swi_count_per_element(&info->in[0], z + of_move[a->move]);
}

SWI_APPENDED(noise_move, 2, 2, 1, .infer = move_infer, .attrs_bytes = sizeof(swi_move_attrs));
