/* Rows of softmax: maxima wherever they lie, sums against float64, and the kernel that makes
 * loss and gradient at once against the two that it stands for. Strided sums against plain
 * loops. Every instruction set, and threads that change no bit. */
#include "kernels/strided.h"
#include "tests/kernels/dense_support.h"

SW_TESTS("rows")

static const int64_t widths[] = {1,  2,  3,   7,   15,  16,  17,  33,  63,  64,
                                 65, 80, 255, 256, 257, 300, 511, 513, 1000};

/* Beyond its maximum a row's exponentials would be infinite; a NaN shows wherever it is. */
SW_TEST("maxima lie anywhere")
{
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
            const int64_t n = widths[w];
            float *x = take((size_t)n), lse = 0.0f;
            int64_t wrong = 0;
            for (int64_t i = 0; i < n; i++)
                x[i] = -(float)(i % 7);
            for (int64_t i = 0; i < n; i++) {
                const float before = x[i];
                x[i] = 300.0f;
                sw_pointwise((sw_isa)isa)->lse(&lse, x, 1, n, &one_thread);
                wrong += lse != 300.0f;
                x[i] = NAN;
                sw_pointwise((sw_isa)isa)->lse(&lse, x, 1, n, &one_thread);
                wrong += lse == lse;
                x[i] = before;
            }
            SW_CHECK(wrong == 0, "isa %d: %d columns: %d wrong", isa, (int)n, (int)wrong);
            give_all();
        }
}

static double lse_of(const float *x, int64_t n)
{
    double most = (double)x[0], sum = 0.0;
    for (int64_t i = 1; i < n; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* Rows with elements that are a few apart. */
static float *logits_of(int64_t rows, int64_t cols)
{
    float *x = numbers((size_t)(rows * cols), 5);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] *= 8.0f;
    return x;
}

static void one_pass(int isa, int64_t rows, int64_t cols, int width)
{
    const sw_pointwise_kernels *k = sw_pointwise((sw_isa)isa);
    const size_t n = (size_t)(rows * cols);
    static uint8_t u8[64];
    static uint16_t u16[64];
    static int32_t i32[64];
    const float factor = 1.0f / (float)rows, *x = logits_of(rows, cols);
    float *lse = take((size_t)rows), *dx = take(n), *both = copy_of(x, n);
    float *lse_2 = take((size_t)rows), *at_label = take((size_t)rows);
    int wrong = 0;
    for (int64_t r = 0; r < rows; r++)
        i32[r] = u16[r] = u8[r] = (uint8_t)(r * 37 % (cols < 256 ? cols : 256));
    const sw_ids ids = {width == 4 ? i32 : NULL, width == 2 ? u16 : NULL,
                        width == 1 ? u8 : NULL, rows};
    k->lse(lse, x, rows, cols, &one_thread);
    k->softmax_ce_dx(dx, x, lse, &ids, rows, cols, factor, false, &one_thread);
    k->softmax_ce(both, lse_2, at_label, &ids, rows, cols, factor, &reversed);
    for (int64_t r = 0; r < rows; r++) {
        wrong += fabs((double)lse[r] - lse_of(x + r * cols, cols)) > 4e-6;
        wrong += at_label[r] != x[r * cols + i32[r]];
        for (int64_t c = 0; c < cols; c++) {
            const double p = exp((double)x[r * cols + c] - (double)lse[r]);
            const double want = (p - (c == i32[r] ? 1.0 : 0.0)) * (double)factor;
            wrong += fabs((double)dx[r * cols + c] - want) > 1e-6;
        }
    }
    SW_CHECK(wrong == 0, "isa %d: %dx%d: %d wrong", isa, (int)rows, (int)cols, wrong);
    SW_CHECK(memcmp(lse, lse_2, (size_t)rows * sizeof *lse) == 0 &&
                 memcmp(dx, both, n * sizeof *dx) == 0,
             "isa %d: %dx%d: not the same bits", isa, (int)rows, (int)cols);
    give_all();
}

SW_TEST("loss and gradient in one pass")
{
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
            for (int width = 1; width <= 4; width *= 2)
                one_pass(isa, 1 + (int64_t)w * 2, widths[w], width);
}

/* The gradient is added to what is there, the label's element once like the others. */
SW_TEST("gradients are added")
{
    const float x[3] = {0.0f, 1.0f, -1.0f}, lse = 1.5f;
    const int32_t label = 1;
    const sw_ids labels = {.i32 = &label, .n = 1};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_pointwise_kernels *k = sw_pointwise((sw_isa)isa);
        float dx[3], sum[3] = {10.0f, 20.0f, 30.0f};
        k->softmax_ce_dx(dx, x, &lse, &labels, 1, 3, 0.5f, false, &one_thread);
        k->softmax_ce_dx(sum, x, &lse, &labels, 1, 3, 0.5f, true, &one_thread);
        for (int c = 0; c < 3; c++)
            SW_CHECK(sum[c] == (float)(c + 1) * 10.0f + dx[c], "isa %d: column %d", isa, c);
    }
}

/* ---- strided ----------------------------------------------------------------------------- */

/* Sums over any of three axes: in float64, from the first element to the last. */
SW_TEST("sums over axes")
{
    static const int64_t dims[][3] = {
        {3, 4, 1}, {2, 5, 16}, {4, 3, 37}, {1, 7, 15}, {5, 1, 33}};
    for (size_t s = 0; s < sizeof dims / sizeof *dims; s++)
        for (unsigned mask = 0; mask < 8; mask++) {
            const int64_t *d = dims[s];
            sw_strided shape = {.rank = 3};
            bool reduced[3];
            int64_t kept = 1;
            for (int i = 2; i >= 0; i--) {
                reduced[i] = mask >> i & 1u;
                shape.dim[i] = d[i];
                shape.a[i] = i == 2 ? 1 : shape.a[i + 1] * d[i + 1];
                shape.y[i] = reduced[i] ? 0 : kept;
                kept *= reduced[i] ? 1 : d[i];
            }
            const float *a = numbers((size_t)(d[0] * d[1] * d[2]), 11);
            float *y = take((size_t)kept);
            static double want[4096];
            memset(want, 0, sizeof want);
            for (int64_t i = 0; i < d[0] * d[1] * d[2]; i++)
                want[i / (d[1] * d[2]) * shape.y[0] + i / d[2] % d[1] * shape.y[1] +
                     i % d[2] * shape.y[2]] += (double)a[i];
            sw_strided_sum(y, a, reduced, 0.5, false, &shape);
            sw_strided_sum(y, a, reduced, 0.25, true, &shape);
            int wrong = 0;
            for (int64_t i = 0; i < kept; i++)
                wrong += y[i] != (float)(want[i] * 0.5) + (float)(want[i] * 0.25);
            SW_CHECK(wrong == 0, "shape %d, axes %u: %d wrong", (int)s, mask, wrong);
            give_all();
        }
}

/* Rows side by side and rows with gaps have the same sums and products. */
SW_TEST("rows with and without gaps")
{
    enum { ROWS = 5, COLS = 37 };
    const float *a = numbers(2 * ROWS * COLS, 3), *b = numbers(COLS, 4);
    float *y = take(ROWS * COLS), *gaps = take(2 * ROWS * COLS);
    const sw_strided dense = {2, {ROWS, COLS}, {COLS, 1}, {2 * COLS, 1}, {0, 1}};
    const sw_strided apart = {2, {ROWS, COLS}, {2 * COLS, 2}, {2 * COLS, 1}, {0, 1}};
    sw_strided_add(y, a, b, false, &dense);
    sw_strided_mul(y, a, b, true, &dense);
    sw_strided_add(gaps, a, b, false, &apart);
    sw_strided_mul(gaps, a, b, true, &apart);
    int wrong = 0;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLS; c++) {
            const float x = a[2 * r * COLS + c], sum = x + b[c], product = x * b[c];
            wrong += y[r * COLS + c] != sum + product;
            wrong += gaps[2 * (r * COLS + c)] != sum + product;
        }
    SW_CHECK(wrong == 0, "%d wrong", wrong);
    give_all();
}
