/* Softmax cross-entropy of rows of few numbers: each row has the bits that its formulas give,
 * whatever rows lie beside it, on every instruction set. */
#include "kernels/scalar.h"
#include "tests/kernels/dense_support.h"

SW_TESTS("narrow rows")

enum { MOST = 17 }; /* columns; the last of them are no narrow rows */

static float lse_of(const float *x, int64_t cols)
{
    float most = x[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; c++)
        most = x[c] > most || x[c] != x[c] ? x[c] : most;
    for (int64_t c = 0; c < cols; c++)
        sum += sw_expf(x[c] - most);
    return sw_row_lse(most, sum);
}

static bool same(float a, float b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof a) == 0;
}

/* Now and then what is no ordinary number. */
static float *logits(int64_t rows, int64_t cols)
{
    float *x = numbers((size_t)(rows * cols), (uint64_t)(rows * MOST + cols));
    for (int64_t i = 0; i < rows * cols; i++) {
        x[i] *= i % 7 == 0 ? 90.0f : 4.0f;
        if (i % 61 == 60)
            x[i] = i % 122 == 60 ? INFINITY : -INFINITY;
        if (i % 127 == 126)
            x[i] = NAN;
    }
    return x;
}

static void narrow_lse(int isa, int64_t rows, int64_t cols)
{
    const float *x = logits(rows, cols);
    float *lse = take((size_t)rows);
    int wrong = 0;
    sw_pointwise((sw_isa)isa)->lse(lse, x, rows, cols, &reversed);
    for (int64_t r = 0; r < rows; r++)
        wrong += !same(lse[r], lse_of(x + r * cols, cols));
    SW_CHECK(wrong == 0, "isa %d %ldx%ld: %d wrong", isa, (long)rows, (long)cols, wrong);
    give_all();
}

/* In the place of the logits where nothing is added. A label that is no class is no number's.
 */
static void narrow_gradient(int isa, int64_t rows, int64_t cols, bool add, bool bytes)
{
    const float *x = logits(rows, cols), *lse = numbers((size_t)rows, 3);
    const size_t n = (size_t)(rows * cols);
    float *dx = copy_of(add ? numbers(n, 4) : x, n), *before = copy_of(dx, n);
    int32_t *i32 = (int32_t *)(void *)take((size_t)rows);
    uint8_t *u8 = (uint8_t *)take((size_t)rows);
    int wrong = 0;
    for (int64_t r = 0; r < rows; r++) {
        i32[r] = r % 11 == 10 ? -1 - (int32_t)r : (int32_t)(r * 5 % (cols + 1));
        u8[r] = (uint8_t)(r * 5 % (cols + 1));
    }
    const sw_ids labels = {bytes ? NULL : i32, NULL, bytes ? u8 : NULL, rows};
    sw_pointwise((sw_isa)isa)
        ->softmax_ce_dx(dx, add ? x : dx, lse, &labels, rows, cols, 0.37f, add, &reversed);
    for (int64_t i = 0; i < (int64_t)n; i++) {
        const int64_t r = i / cols, label = bytes ? (int64_t)u8[r] : (int64_t)i32[r];
        const float d = (sw_expf(x[i] - lse[r]) - (i % cols == label ? 1.0f : 0.0f)) * 0.37f;
        wrong += !same(dx[i], add ? before[i] + d : d);
    }
    SW_CHECK(wrong == 0, "isa %d %ldx%ld: %d wrong", isa, (long)rows, (long)cols, wrong);
    give_all();
}

SW_TEST("rows do not depend on their neighbours")
{
    static const int64_t rows[] = {1, 3, 4, 15, 16, 17, 31, 128, 2000};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int64_t cols = 1; cols <= MOST; cols++) {
                if (cols < MOST) /* longer rows are summed in lanes */
                    narrow_lse(isa, rows[i], cols);
                for (int mode = 0; mode < 4; mode++)
                    narrow_gradient(isa, rows[i], cols, (mode & 1) != 0, (mode & 2) != 0);
            }
}
