/* Matrix products: packed operands, cuts along k, threads, small ones; and sums of columns. */
#include "tests/kernels/dense_support.h"

SW_TESTS("gemm")

typedef struct {
    int64_t m, n, k;
} size3;

enum {
    A_TURNED = 1, /* A lies by columns */
    B_TURNED = 2,
    B_SPARSE = 4, /* numbers of B are three apart */
    WITH_BIAS = 8,
    ADDING = 16,
    A_GAPS = 32 /* rows of A are five numbers further apart than they are long */
};

static sw_gemm product(size3 z, int mode)
{
    sw_gemm g = {.m = z.m, .n = z.n, .k = z.k, .accumulate = (mode & ADDING) != 0};
    const bool a_turned = (mode & A_TURNED) != 0, b_turned = (mode & B_TURNED) != 0;
    const int64_t gap = (mode & B_SPARSE) != 0 ? 3 : 1;
    const int64_t row = (a_turned ? z.m : z.k) + ((mode & A_GAPS) != 0 ? 5 : 0);
    g.a = numbers((size_t)(row * (a_turned ? z.k : z.m)), 1);
    g.a_row = a_turned ? 1 : row;
    g.a_col = a_turned ? row : 1;
    g.b = numbers((size_t)(z.n * z.k * gap), 2);
    g.b_row = gap * (b_turned ? 1 : z.n);
    g.b_col = gap * (b_turned ? z.k : 1);
    g.bias = (mode & WITH_BIAS) != 0 ? numbers((size_t)z.n, 3) : NULL;
    return g;
}

/* One chain of multiply-adds for an element, as the instruction set does them. */
static float chain(const sw_gemm *g, bool fused, float sum, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < g->k; k++) {
        const float a = g->a[i * g->a_row + k * g->a_col];
        const float b = g->b[k * g->b_row + j * g->b_col];
        sum = fused ? fmaf(a, b, sum) : a * b + sum;
    }
    return sum + (g->bias != NULL ? g->bias[j] : 0.0f);
}

static const size3 large[] = {{61, 70, 900},   {131, 67, 300},   {200, 530, 600},
                              {7, 300, 1000},  {300, 65, 257},   {1100, 80, 40},
                              {193, 513, 512}, {130, 129, 2049}, {9, 333, 0},
                              {521, 577, 513}, {140, 2070, 260}, {2400, 66, 256}};
/* Of a small net, at the limits of what is small, and one beyond each. */
static const size3 small[] = {{128, 64, 49},  {128, 24, 64},  {128, 10, 24}, {128, 24, 10},
                              {10, 24, 128},  {128, 64, 24},  {24, 64, 128}, {64, 49, 128},
                              {64, 50, 33},   {48, 33, 20},   {32, 18, 7},   {61, 17, 3},
                              {1, 1, 1},      {7, 2, 5},      {5, 63, 256},  {13, 40, 100},
                              {1024, 64, 30}, {1025, 64, 30}, {40, 65, 30},  {40, 64, 257}};

/* In any mode; all their elements are checked. */
static const size3 any_mode[] = {{1, 1, 1},    {1, 10, 84},   {7, 3, 5},   {12, 16, 9},
                                 {13, 17, 0},  {16, 64, 33},  {5, 65, 40}, {33, 50, 7},
                                 {24, 10, 84}, {19, 129, 20}, {6, 36, 48}};
static const size3 threaded[] = {
    {128, 120, 256}, {120, 256, 128}, {257, 10, 300}, {3, 700, 301}};

/* Of a large result some elements; in full of the very large alone. */
static size_t every(size_t n)
{
    return n > (sw_tests_full() ? 10000 : 1000) ? 37 : 1;
}

/* A sample of elements, on every instruction set: rows of A packed and in place, both operands
 * either way, from zero and from what was there. */
static void run_product(int isa, sw_gemm g, const float *before, const float *want, size_t step,
                        int mode)
{
    const sw_dense_kernels *d = sw_dense((sw_isa)isa);
    const size3 z = {g.m, g.n, g.k};
    const size_t n = (size_t)(z.m * z.n);
    const sw_par *const pars[3] = {&one_thread, &reversed, NULL};
    float *c[3];
    CU_ASSERT_EQUAL(d->gemm_bytes(z.m, z.n, z.k, false), 0);
    for (int i = 0; i < 3; i++) {
        g.c = c[i] = copy_of(before, n);
        g.pack_rows = i > 0;
        d->gemm(&g, NULL, pars[i]);
    }
    SW_CHECK(memcmp(c[0], c[1], n * 4) == 0 && memcmp(c[0], c[2], n * 4) == 0,
             "isa %d mode %d %ldx%ldx%ld", isa, mode, (long)z.m, (long)z.n, (long)z.k);
    int wrong = 0;
    for (size_t e = 0; e < n; e += step)
        wrong += memcmp(want + e / step, c[0] + e, sizeof *want) != 0;
    SW_CHECK(wrong == 0, "isa %d mode %d %ldx%ldx%ld: %d wrong", isa, mode, (long)z.m,
             (long)z.n, (long)z.k, wrong);
}

/* All instruction sets but the first have the same bits. */
static void a_product(size3 z, size_t step, int mode)
{
    const size_t n = (size_t)(z.m * z.n);
    for (int fused = 0; fused <= (sw_cpu_isa() > SW_ISA_BASE); fused++) {
        const sw_gemm g = product(z, mode);
        const float *before = numbers(n, 4);
        float *want = take(n / step + 1);
        for (size_t e = 0; e < n; e += step)
            want[e / step] = chain(&g, fused != 0, g.accumulate ? before[e] : 0.0f,
                                   (int64_t)e / z.n, (int64_t)e % z.n);
        const int last = fused != 0 ? (int)sw_cpu_isa() : SW_ISA_BASE;
        for (int isa = fused; isa <= last; isa++)
            run_product(isa, g, before, want, step, mode);
        give_all();
    }
}

SW_TEST("an element is one chain")
{
    for (int i = 0; i < 8; i++) {
        const int mode = (i & 3) | A_GAPS | ((i & 4) != 0 ? WITH_BIAS : ADDING);
        for (size_t s = 0; s < sizeof large / sizeof *large; s++)
            a_product(large[s], every((size_t)(large[s].m * large[s].n)), mode);
        for (size_t s = 0; s < sizeof small / sizeof *small; s++)
            a_product(small[s], every((size_t)(small[s].m * small[s].n)), mode);
    }
}

SW_TEST("products are right for all strides")
{
    for (size_t s = 0; s < sizeof any_mode / sizeof *any_mode; s++)
        for (int mode = 0; mode < A_GAPS; mode++)
            a_product(any_mode[s], 1, mode);
    for (size_t s = 0; s < sizeof threaded / sizeof *threaded; s++)
        for (int mode = 0; mode < A_GAPS; mode += 3)
            a_product(threaded[s], 1, mode);
}

/* Each element alone gives the bits it has in the whole product: the tile it falls in does not
 * matter. */
SW_TEST("an element does not depend on its tile")
{
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_dense_kernels *k = sw_dense((sw_isa)isa);
        sw_gemm g = product((size3){29, 83, 60}, WITH_BIAS);
        g.c = take(29 * 83);
        float one;
        k->gemm(&g, NULL, &one_thread);
        for (int64_t i = 0; i < 29; i += 4)
            for (int64_t j = 0; j < 83; j += 5) {
                sw_gemm e = g;
                e.m = e.n = 1, e.c = &one;
                e.a += i * g.a_row, e.b += j * g.b_col, e.bias += j;
                k->gemm(&e, NULL, &one_thread);
                CU_ASSERT_EQUAL(memcmp(&one, g.c + i * 83 + j, sizeof one), 0);
            }
        give_all();
    }
}

/* The weight gradient's product over all rows at once, and over pieces one after the other:
 * pieces of whole blocks, and any others. */
SW_TEST("rows may be cut anywhere")
{
    static const int64_t cuts[] = {SW_GEMM_BLOCK, 2 * SW_GEMM_BLOCK, 64, 100};
    const size3 z = {150, 90, 3 * SW_GEMM_BLOCK + 33};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_dense_kernels *d = sw_dense((sw_isa)isa);
        sw_gemm g = product(z, A_TURNED);
        const size_t n = (size_t)(z.m * z.n);
        float *whole = take(n), *pieces = take(n);
        g.c = whole;
        d->gemm(&g, NULL, &reversed);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            for (int64_t k = 0; k < z.k; k += cuts[c]) {
                sw_gemm part = g;
                part.c = pieces;
                part.a += k * g.a_col;
                part.b += k * g.b_row;
                part.k = z.k - k < cuts[c] ? z.k - k : cuts[c];
                part.accumulate = k > 0;
                d->gemm(&part, NULL, &one_thread);
            }
            SW_CHECK(memcmp(whole, pieces, n * 4) == 0, "isa %d cut at %ld", isa,
                     (long)cuts[c]);
        }
        give_all();
    }
}

/* Rows of C made by themselves: what a range of the columns of A gives. */
SW_TEST("ranges of rows have the bits of the whole")
{
    const size3 z = {200, 140, 310};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++) {
        const sw_dense_kernels *d = sw_dense((sw_isa)isa);
        sw_gemm g = product(z, A_TURNED);
        float *whole = take((size_t)(z.m * z.n)), *some = take((size_t)(77 * z.n));
        g.c = whole;
        d->gemm(&g, NULL, &one_thread);
        for (int64_t i = 0; i < z.m; i += 77) {
            sw_gemm part = g;
            part.c = some;
            part.a += i;
            part.m = z.m - i < 77 ? z.m - i : 77;
            d->gemm(&part, NULL, &reversed);
            CU_ASSERT_EQUAL(memcmp(some, whole + i * z.n, (size_t)(part.m * z.n) * 4), 0);
        }
        give_all();
    }
}

/* Column by column, row after row, in single precision; rows further apart than they are long.
 */
SW_TEST("sums of columns go row after row")
{
    static const int64_t sizes[][2] = {{1, 1}, {0, 5}, {7, 3}, {4, 64}, {33, 70}, {300, 1000}};
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int add = 0; add < 2; add++) {
                const int64_t rows = sizes[s][0], cols = sizes[s][1], step = cols + 3;
                const float *x = numbers((size_t)(rows * step), 1);
                const float *before = numbers((size_t)cols, 2);
                float *y[2] = {copy_of(before, (size_t)cols), copy_of(before, (size_t)cols)};
                const sw_dense_kernels *d = sw_dense((sw_isa)isa);
                d->column_sums(y[0], x, rows, cols, step, add != 0, &one_thread);
                d->column_sums(y[1], x, rows, cols, step, add != 0, &reversed);
                for (int64_t j = 0; j < cols; j++) {
                    float sum = add != 0 ? before[j] : 0.0f;
                    for (int64_t i = 0; i < rows; i++)
                        sum += x[i * step + j];
                    CU_ASSERT(sum == y[0][j] && sum == y[1][j]);
                }
                give_all();
            }
}
