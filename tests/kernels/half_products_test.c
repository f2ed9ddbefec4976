/* Products of bf16 numbers in both orders of summation, against a scalar model of them that is
 * written from their definition (kernels/par.h). */
#include "kernels/halves.h"
#include "tests/kernels/dense_support.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

SW_TESTS("half_products")

/* ---- the model --------------------------------------------------------------------------- */

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* A result below 2^-126 after rounding to 24 bits is zero. The rounding of fmaf is coarser
 * there, so a result at that limit is computed once more, 2^60 times as large. */
static float fused(float a, float b, float c)
{
    a = flushed(a), b = flushed(b), c = flushed(c);
    const float sum = fmaf(a, b, c);
    if (sum == 0.0f || !(fabsf(sum) <= 0x1p-126f))
        return sum;
    const float large = fabsf(a) < fabsf(b) ? fmaf(a * 0x1p60f, b, c * 0x1p60f)
                                            : fmaf(a, b * 0x1p60f, c * 0x1p60f);
    return fabsf(large) < 0x1p-66f ? copysignf(0.0f, sum) : sum;
}

static float plus(float a, float b)
{
    return flushed(flushed(a) + flushed(b));
}

/* c and the products of k numbers of a and b, which are steps apart. */
static float chain(sw_bf16_order order, float c, const float *a, int64_t a_step, const float *b,
                   int64_t b_step, int64_t k)
{
    const int unit = order == SW_ORDER_PAIR ? 2 : 32;
    for (int64_t q = 0; q < k; q += unit) {
        float x[32] = {0}, y[32] = {0}, part[2] = {0, 0};
        for (int i = 0; i < unit && q + i < k; i++) {
            x[i] = a[(q + i) * a_step];
            y[i] = b[(q + i) * b_step];
        }
        if (order == SW_ORDER_PAIR)
            c = fused(x[0], y[0], fused(x[1], y[1], c));
        for (int i = 0; order == SW_ORDER_TILE && i < 32; i++)
            part[i % 2] = fused(x[i], y[i], part[i % 2]);
        if (order == SW_ORDER_TILE)
            c = plus(c, plus(part[0], part[1]));
    }
    return c;
}

/* ---- operands ---------------------------------------------------------------------------- */

enum { EVEN, SPECIAL, WILD, KINDS };

/* EVEN: no product over- or underflows; zeros and denormals of both signs. SPECIAL: NaN and
 * infinity in the last of `lines` lines of k numbers too, also at its end. WILD: all exponents.
 */
static void draw(float *x, int64_t lines, int64_t k, int kind, sw_dice *dice)
{
    for (int64_t i = 0; i < lines * k; i++) {
        const uint32_t exponent = kind == WILD ? 1 + (uint32_t)sw_dice_below(dice, 254)
                                               : 119 + (uint32_t)sw_dice_below(dice, 16);
        const uint32_t which = (uint32_t)sw_dice_below(dice, 24);
        uint32_t bits = which == 0 ? 0 : which == 1 ? 0x7fffff : exponent << 23;
        bits |= (uint32_t)sw_dice_below(dice, 2) << 31;
        if (which > 1)
            bits |= (uint32_t)sw_dice_below(dice, 1 << 23);
        x[i] = sw_float_of(bits);
    }
    static const uint32_t special[] = {0x7f800001, 0x7f800000, 0xff800000, 0x7f7fffff};
    for (int64_t i = k - 1; kind == SPECIAL && lines > 0 && i >= 0; i -= 7)
        x[(lines - 1) * k + i] = sw_float_of(special[sw_dice_below(dice, 4)]);
}

/* The model's numbers: those of `from` in bf16. */
static float *rounded(const float *from, size_t n)
{
    float *x = take(n);
    for (size_t i = 0; i < n; i++)
        x[i] = sw_bf16_widen(sw_bf16_round(from[i]));
    return x;
}

/* A matrix (rows, cols) with its element (i, j) at i * row + j * col, in float32 or bf16. */
static float *laid(const float *x, int64_t rows, int64_t cols, int64_t row, int64_t col,
                   bool half)
{
    const size_t n = (size_t)((rows - 1) * row + (cols - 1) * col + 1);
    float *to = take(rows * cols > 0 ? half ? (n + 1) / 2 : n : 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const float value = x[i * cols + j];
            if (half)
                ((uint16_t *)(void *)to)[i * row + j * col] = sw_bf16_round(value);
            else
                to[i * row + j * col] = value;
        }
    return to;
}

static float *turned(const float *x, int64_t rows, int64_t cols)
{
    float *to = take((size_t)(rows * cols));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[j * rows + i] = x[i * cols + j];
    return to;
}

/* NaN is alike, but of bf16 it is quiet and without payload. */
static bool same_result(float want, const float *got, size_t at, bool half)
{
    if (!half)
        return (isnan(want) && isnan(got[at])) || sw_bits_of(want) == sw_bits_of(got[at]);
    const uint16_t bits = ((const uint16_t *)(const void *)got)[at];
    return isnan(want) ? (bits & 0x7fff) == 0x7fc0 : bits == sw_bf16_round(want);
}

static int wrong_of(const float *want, const float *got, int64_t n, bool half)
{
    int wrong = 0;
    for (int64_t i = 0; i < n; i++)
        wrong += !same_result(want[i], got, (size_t)i, half);
    return wrong;
}

/* c as it is before a product: `before` where that is added to, else NaN. */
static void begin_with_sums(float *c, const float *before, size_t n, bool half, bool adds)
{
    memset(c, 0xff, n * sizeof *c);
    for (size_t e = 0; adds && e < n; e++)
        if (half)
            ((uint16_t *)(void *)c)[e] = sw_bf16_round(before[e]);
        else
            c[e] = before[e];
}

enum { MODELLED = SW_ISA_AVX512 + 1 }; /* tiles of AMX in memory (tile_model.h) */
#if defined(__x86_64__)
extern __typeof__(*((sw_dense_kernels *)0)->gemm) swi_dense_gemm_model;
extern __typeof__(*((sw_axes_kernels *)0)->products) swi_axes_products_model;
#define BY(isa, family, kernel)                                                                \
    ((isa) == MODELLED ? swi_##family##_##kernel##_model : sw_##family((sw_isa)(isa))->kernel)
#else
#define BY(isa, family, kernel) (sw_##family((sw_isa)(isa))->kernel)
#endif

/* The ways of an order: by each instruction set; then pair by pairs of bf16, whose instruction
 * AVX-512 alone has, and the others by two of FMA; and tile by AMX, or a model of it. False:
 * there is no way i. */
static bool way_of(sw_bf16_order order, int i, int *isa, sw_bf16_order *way)
{
    const int levels = (int)sw_cpu_isa() + 1, bf16 = sw_cpu_bf16();
    const bool own = i >= levels;
    *isa = own ? i - levels : i;
    *way = !own ? order : order == SW_ORDER_PAIR ? SW_ORDER_PAIR_DOT : SW_ORDER_TILE_AMX;
    if (own && order == SW_ORDER_TILE)
        *isa += SW_ISA_AVX512;
    if (*way == SW_ORDER_TILE_AMX && (bf16 & SW_BF16_AMX) == 0) {
        *isa = MODELLED;
        return i == levels && sw_cpu_isa() == SW_ISA_AVX512;
    }
    if (*way == SW_ORDER_TILE_AMX)
        return i == levels && sw_order_way(order, bf16, &(const char *){NULL}) == *way;
    return *isa < levels && (!own || *isa < SW_ISA_AVX512 || (bf16 & SW_BF16_DOT) != 0);
}

SW_TEST("instructions of bf16 run where the processor has them")
{
    if (sw_cpu_bf16() == 0)
        SW_SKIP("this processor has neither VDPBF16PS nor AMX: the orders go by FMA");
}

/* Denormals are zero while kernels run, as in a run. */
static void product(int isa, const sw_gemm *g, float *scratch, const sw_par *par)
{
#if defined(__x86_64__)
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);
#endif
    BY(isa, dense, gemm)(g, scratch, par);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}

static void products(int isa, const sw_products *p, const sw_par *par)
{
#if defined(__x86_64__)
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);
#endif
    BY(isa, axes, products)(p, par);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}

/* ---- products ---------------------------------------------------------------------------- */

typedef struct {
    int64_t m, n, k;
} size3;

static const size3 sizes[] = {
    {1, 1, 1},     {3, 5, 2},      {7, 9, 3},      {6, 16, 31},  {13, 17, 32},  {29, 33, 33},
    {64, 64, 64},  {65, 65, 255},  {40, 70, 1},    {70, 40, 3},  {70, 130, 64}, {130, 65, 257},
    {2, 70, 256},  {67, 70, 513},  {8, 1, 100},    {12, 37, 65}, {5, 20, 0},    {200, 3, 300},
    {520, 66, 70}, {510, 70, 290}, {70, 130, 600}, {0, 70, 300}};

enum {
    A_HALF = 1,
    B_HALF = 2,
    C_HALF = 4,
    A_TURNED = 8,
    B_TURNED = 16,
    SPARSE = 32,
    FORMS = 64
};
enum { BIAS = 1, ADDING = 2 };

/* Every form of the operands, with scratch and threads or without, by every `step`th. */
static void a_product(size3 z, int kind, sw_bf16_order order, int sum, int first, int step)
{
    static const sw_par two = {2, run_reversed};
    sw_dice dice = {(uint64_t)(z.m * 1000 + z.n * 100 + z.k + kind)};
    const size_t n = (size_t)(z.m * z.n),
                 bytes = sw_dense(SW_ISA_BASE)->gemm_bytes(z.m, z.n, z.k, true);
    float *a = take((size_t)(z.m * z.k)), *b = take((size_t)(z.n * z.k));
    draw(a, z.m, z.k, kind, &dice);
    draw(b, z.n, z.k, kind, &dice);
    const float *x = rounded(a, (size_t)(z.m * z.k)), *y = rounded(b, (size_t)(z.n * z.k));
    const float *b_rows = turned(b, z.n, z.k), *bias = numbers((size_t)z.n, 7);
    const float *before = rounded(numbers(n, 8), n);
    const size_t each = n > 3000 ? 7 : 1;
    float *want = take(n), *scratch = take(bytes / 4), *c = take(n);
    for (size_t e = 0; e < n; e += each) {
        const int64_t i = (int64_t)e / z.n, j = (int64_t)e % z.n;
        want[e] = chain(order, (sum & ADDING) != 0 ? before[e] : 0.0f, x + i * z.k, 1,
                        y + j * z.k, 1, z.k);
        if ((sum & BIAS) != 0)
            want[e] = plus(want[e], bias[j]);
    }
    const size_t used = pool_used;
    const int taken = n_taken;
    for (int form = first; form < FORMS; form += step) {
        const int64_t gap = (form & SPARSE) != 0 ? 3 : 1, rest = gap == 3 ? 3 : 2;
        const bool a_turned = (form & A_TURNED) != 0, b_turned = (form & B_TURNED) != 0;
        sw_gemm g = {.m = z.m, .n = z.n, .k = z.k, .order = order};
        g.a_half = (form & A_HALF) != 0, g.b_half = (form & B_HALF) != 0;
        g.c_half = (form & C_HALF) != 0;
        g.a_row = a_turned ? 1 : z.k + rest, g.a_col = a_turned ? z.m + gap : 1;
        g.b_row = gap * (b_turned ? 1 : z.n), g.b_col = gap * (b_turned ? z.k : 1);
        g.a = laid(a, z.m, z.k, g.a_row, g.a_col, g.a_half);
        g.b = laid(b_rows, z.k, z.n, g.b_row, g.b_col, g.b_half);
        g.bias = (sum & BIAS) != 0 ? bias : NULL;
        g.accumulate = (sum & ADDING) != 0;
        g.c = c;
        for (int run = 0, isa; way_of(order, run / 4, &isa, &g.order); run++) {
            if (isa == SW_ISA_BASE && kind == WILD)
                continue;
            begin_with_sums(c, before, n, g.c_half, g.accumulate);
            memset(scratch, run % 4 == 0 ? 0xff : 0x5a, bytes);
            product(isa, &g, run % 4 < 2 ? scratch : NULL,
                    run % 4 == 0   ? &one_thread
                    : run % 4 == 1 ? &reversed
                    : run % 4 == 2 ? &two
                                   : NULL);
            int wrong = 0;
            for (size_t e = 0; e < n; e += each)
                wrong += !same_result(want[e], c, e, g.c_half);
            SW_CHECK(wrong == 0, "%ldx%ldx%ld kind %d order %d sum %d form %d run %d: %d wrong",
                     (long)z.m, (long)z.n, (long)z.k, kind, (int)order, sum, form, run, wrong);
        }
        pool_used = used;
        n_taken = taken;
    }
    give_all();
}

SW_TEST("products have the bits of the model")
{
    const int n = (int)(sizeof sizes / sizeof *sizes);
    for (int s = 0; s < n; s++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < 8; i++) {
                const size3 z = sizes[s];
                const int64_t work = z.m * z.n * z.k;
                const int step = work < 3000 ? 1 : work < 300000 ? 5 : 11;
                a_product(z, kind, i < 4 ? SW_ORDER_PAIR : SW_ORDER_TILE, i % 4, i % step,
                          step);
            }
}

/* Rows, columns and depth of one block of a result of bf16 in scratch, and a little more. */
SW_TEST("blocks of waiting sums have the bits of the model")
{
    for (int i = 0; i < 2; i++)
        a_product((size3){513, 514, 257}, EVEN, i == 0 ? SW_ORDER_PAIR : SW_ORDER_TILE,
                  BIAS | ADDING, C_HALF | (i == 0 ? A_TURNED : 0), FORMS);
}

/* Pieces of 1,024 numbers of k: rows of A in place, whose sums wait on the stack and in
 * scratch. */
SW_TEST("pieces of many k have the bits of the model")
{
    static const size3 deep[] = {{67, 70, 1024}, {200, 65, 2050}, {530, 514, 1026}};
    for (int i = 0; i < 6; i++)
        a_product(deep[i / 2], i < 4 ? SPECIAL : EVEN, SW_ORDER_PAIR,
                  i % 2 == 0 ? BIAS : ADDING,
                  A_HALF | C_HALF * (i % 2 == 0 || i > 3) | B_HALF * (i > 1), FORMS);
    for (int i = 0; i < 3; i++) /* and in strips as deep */
        a_product(deep[i], EVEN, SW_ORDER_PAIR, ADDING, A_TURNED | A_HALF * (i != 1), FORMS);
}

/* One element: pairs and tiles of 64 numbers of k are other sums. */
SW_TEST("the orders differ at k = 64")
{
    const size_t n = 64 * 40;
    const float *a = numbers(n, 1), *b = numbers(n, 2);
    float *c[2] = {take(40 * 40), take(40 * 40)};
    for (int i = 0; i < 2; i++) {
        sw_gemm g = {.c = c[i], .a = a, .b = b, .m = 40, .n = 40, .k = 64};
        g.a_row = 64, g.a_col = 1, g.b_row = 40, g.b_col = 1;
        g.order = i == 0 ? SW_ORDER_PAIR : SW_ORDER_TILE;
        product((int)sw_cpu_isa(), &g, NULL, NULL);
    }
    CU_ASSERT_NOT_EQUAL(memcmp(c[0], c[1], 40 * 40 * 4), 0);
    give_all();
}

/* ---- stored weights ---------------------------------------------------------------------- */

/* A product of float32 whose B is stored in bf16, by the one of the same numbers in float32:
 * every layout of B, with bias or sums, threads or without. */
static void a_stored(size3 z, int kind)
{
    static const sw_par two = {2, run_reversed};
    sw_dice dice = {(uint64_t)(z.m * 1000 + z.n * 100 + z.k + kind)};
    const size_t n = (size_t)(z.m * z.n);
    float *b = take((size_t)(z.n * z.k));
    draw(b, z.n, z.k, kind, &dice);
    const float *a = numbers((size_t)(z.m * z.k), 5);
    const float *b_rows = turned(rounded(b, (size_t)(z.n * z.k)), z.n, z.k);
    const float *bias = numbers((size_t)z.n, 7), *before = numbers(n, 8);
    float *want = take(n), *c = take(n);
    const size_t used = pool_used;
    const int taken = n_taken;
    for (int form = 0; form < 16; form++) {
        const bool b_turned = (form & 1) != 0, adds = (form & 4) != 0, turned_a = form >= 8;
        const int64_t gap = (form & 2) != 0 ? 3 : 1;
        sw_gemm g = {.m = z.m, .n = z.n, .k = z.k, .a = a, .accumulate = adds};
        g.a_row = turned_a ? 1 : z.k, g.a_col = turned_a ? z.m : 1;
        g.b_row = gap * (b_turned ? 1 : z.n), g.b_col = gap * (b_turned ? z.k : 1);
        g.bias = adds ? NULL : bias;
        const float *of[2] = {laid(b_rows, z.k, z.n, g.b_row, g.b_col, false),
                              laid(b_rows, z.k, z.n, g.b_row, g.b_col, true)};
        for (int run = 0; run < 4 * ((int)sw_cpu_isa() + 1); run++) {
            for (int half = 0; half < 2; half++) {
                g.c = half ? c : want;
                g.b = of[half];
                g.b_half = g.pack_rows = half != 0;
                begin_with_sums(g.c, before, n, false, adds);
                product(run / 4, &g, NULL,
                        run % 4 == 0   ? &one_thread
                        : run % 4 == 1 ? &reversed
                        : run % 4 == 2 ? &two
                                       : NULL);
            }
            SW_CHECK(wrong_of(want, c, (int64_t)n, false) == 0,
                     "%ldx%ldx%ld kind %d form %d run %d: other bits", (long)z.m, (long)z.n,
                     (long)z.k, kind, form, run);
        }
        pool_used = used;
        n_taken = taken;
    }
    give_all();
}

SW_TEST("a stored weight has the bits of its numbers in float32")
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = 0; kind < KINDS; kind++)
            a_stored(sizes[s], kind);
}

/* Number i as kernels/stored.h defines it. */
static float number_of(const sw_stored *w, int64_t i)
{
    const float scale = sw_stored_scale(w, i);
    return w->dtype == SW_I8
               ? (float)((const int8_t *)(const void *)w->bytes)[i] * scale
               : sw_nf4_value[w->bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15] * scale;
}

/* A weight in 8 or 4 bits, as it is and turned, in every order. */
static void a_coded(size3 z, sw_dtype dtype, bool is_turned)
{
    static const sw_par two = {2, run_reversed};
    sw_stored w = {dtype, NULL, is_turned ? z.n : z.k, is_turned ? z.k : z.n};
    const size_t n = (size_t)(z.m * z.n), all = (size_t)(z.n * z.k);
    if (all == 0 || (dtype == SW_NF4 && w.cols % SW_NF4_BLOCK != 0))
        return;
    const float *x = numbers(all, 3);
    w.bytes = (unsigned char *)take((sw_stored_bytes(&w) + 3) / 4);
    float *b = take(all), *want = take(n), *c = take(n);
    sw_stored_encode(&w, 0, (int64_t)all, x);
    float worst = 0.0f;
    for (size_t i = 0; i < all; i++) {
        b[i] = number_of(&w, (int64_t)i);
        worst = fmaxf(worst, fabsf(b[i] - x[i]));
    }
    CU_ASSERT(worst <= (dtype == SW_I8 ? 0.0041f : 0.17f)); /* half of the widest step */
    const float *a = numbers((size_t)(z.m * z.k), 5), *before = numbers(n, 8);
    for (int order = SW_ORDER_NONE; order <= SW_ORDER_TILE; order++)
        for (int run = 0; run < 3 * ((int)sw_cpu_isa() + 1); run++) {
            const bool a_turned = run % 3 == 2;
            sw_gemm g = {.m = z.m, .n = z.n, .k = z.k, .a = a};
            g.a_row = a_turned ? 1 : z.k, g.a_col = a_turned ? z.m : 1;
            g.b_row = is_turned ? 1 : z.n, g.b_col = is_turned ? z.k : 1;
            g.order = (sw_bf16_order)order;
            g.accumulate = run % 3 == 1;
            for (int coded = 0; coded < 2; coded++) {
                g.c = coded ? c : want;
                g.b = coded ? NULL : b;
                g.stored = coded ? &w : NULL;
                g.pack_rows = coded != 0;
                begin_with_sums(g.c, before, n, false, g.accumulate);
                product(run / 3, &g, NULL,
                        run % 3 == 0   ? &reversed
                        : run % 3 == 1 ? &two
                                       : NULL);
            }
            SW_CHECK(memcmp(want, c, n * sizeof *c) == 0,
                     "%ldx%ldx%ld type %d turned %d order %d run %d: other bits", (long)z.m,
                     (long)z.n, (long)z.k, (int)dtype, is_turned, order, run);
        }
    give_all();
}

SW_TEST("weights in 8 and 4 bits have the bits of their numbers")
{
    static const size3 more[] = {{1, 192, 704}, {3, 128, 320}, {9, 64, 192}, {1, 1, 64}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes + 4; s++)
        for (int i = 0; i < 4; i++)
            a_coded(s < 4 ? more[s] : sizes[s - 4], i < 2 ? SW_I8 : SW_NF4, i % 2 != 0);
}

/* Rows of a product that has many, by products of the first m, whose B is in each type. */
static void few_rows(int64_t n, int64_t k, sw_dtype dtype)
{
    static const sw_par two = {2, run_reversed};
    enum { MOST = 20, GAP = 3 };
    const int64_t step = n + GAP;
    const size_t all = (size_t)(n * k);
    sw_stored w = {dtype, NULL, n, k};
    float *x = numbers(all, 3), *b = take(all);
    w.bytes = (unsigned char *)take((sw_stored_bytes(&w) + 3) / 4);
    if (sw_is_stored(dtype))
        sw_stored_encode(&w, 0, (int64_t)all, x);
    for (size_t i = 0; i < all; i++)
        b[i] = sw_is_stored(dtype) ? number_of(&w, (int64_t)i)
               : dtype == SW_BF16  ? sw_bf16_widen(sw_bf16_round(x[i]))
                                   : x[i];
    sw_gemm g = {.a = numbers((size_t)(MOST * k), 5), .a_row = k, .a_col = 1, .n = n, .k = k};
    g.b_row = 1, g.b_col = k, g.c_row = step;
    const float *before = numbers((size_t)(MOST * step), 8), *bias = numbers((size_t)n, 7);
    const float *stored = dtype == SW_BF16 ? laid(b, n, k, k, 1, true) : b;
    float *want = take((size_t)(MOST * step)), *c = take((size_t)(MOST * step));
    for (int run = 0; run < 4 * ((int)sw_cpu_isa() + 1); run++) {
        g.accumulate = run % 4 == 1;
        g.bias = run % 4 == 2 ? bias : NULL;
        memcpy(want, before, (size_t)(MOST * step) * sizeof *want);
        g.c = want, g.b = b, g.b_half = false, g.stored = NULL, g.m = MOST;
        product(run / 4, &g, NULL, NULL);
        g.c = c, g.b = stored, g.b_half = dtype == SW_BF16;
        g.stored = sw_is_stored(dtype) ? &w : NULL;
        for (g.m = 1; g.m <= 10; g.m++) {
            memcpy(c, before, (size_t)(MOST * step) * sizeof *c);
            product(run / 4, &g, NULL, run % 4 == 0 ? NULL : run % 4 == 3 ? &two : &reversed);
            bool same = memcmp(c + g.m * step, before + g.m * step,
                               (size_t)((MOST - g.m) * step) * sizeof *c) == 0;
            for (int64_t i = 0; i < g.m; i++)
                same &= memcmp(c + i * step, want + i * step, (size_t)n * sizeof *c) == 0 &&
                        memcmp(c + i * step + n, before + i * step + n, GAP * sizeof *c) == 0;
            SW_CHECK(same, "%ldx%ldx%ld type %d run %d: other bits", (long)g.m, (long)n,
                     (long)k, (int)dtype, run);
        }
    }
    give_all();
}

SW_TEST("an element has the same bits with few rows and many, whatever the weight's type")
{
    static const int64_t n[] = {1, 7, 33, 64, 130, 400}, k[] = {1, 3, 64, 66, 100, 257, 640};
    static const sw_dtype dtypes[] = {SW_F32, SW_BF16, SW_I8, SW_NF4};
    for (int i = 0; i < 6; i++)
        for (int e = 0; e < 7; e++)
            for (int d = 0; d < (k[e] % SW_NF4_BLOCK == 0 ? 4 : 3); d++)
                few_rows(n[i], k[e], dtypes[d]);
}

/* Codes of the values, of the middles between them, and of what is no number. */
SW_TEST("4 bits are the nearest value, and a NaN is one of its group alone")
{
    static unsigned char bytes[4096];
    static float x[2 * SW_NF4_GROUP * SW_NF4_BLOCK];
    const int64_t n = sizeof x / sizeof *x, unit = n / 2;
    static unsigned char large[1 << 16];
    sw_stored w = {SW_NF4, large, 2 * SW_NF4_GROUP, SW_NF4_BLOCK};
    CU_ASSERT_FATAL(sw_stored_bytes(&w) <= sizeof large && sw_stored_unit(&w) == unit);
    for (int64_t i = 0; i < n; i++) {
        const int k = (int)(i % 16), next = k < 15 ? k + 1 : k;
        const float middle = (sw_nf4_value[k] + sw_nf4_value[next]) * 0.5f;
        x[i] = i / 16 % 2 == 0   ? sw_nf4_value[k]
               : i / 32 % 2 == 0 ? middle
                                 : middle + (k < 15 ? 1e-6f : 0.0f);
        x[i] *= 2.0f;
    }
    sw_stored_encode(&w, 0, n, x);
    int wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        const unsigned code = w.bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15u;
        const unsigned want =
            (unsigned)(i % 16) + (i / 16 % 2 == 1 && i / 32 % 2 == 1 && i % 16 < 15);
        wrong += code != want || fabsf(sw_stored_scale(&w, i) - 2.0f) > 1e-6f;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    x[unit + 5] = NAN;
    sw_stored_encode(&w, unit, unit, x + unit);
    for (int64_t i = 0; i < n; i += 64)
        CU_ASSERT(isnan(number_of(&w, i)) == (i >= unit));
    w = (sw_stored){SW_I8, bytes, 3, 100};
    x[0] = x[250] = INFINITY;
    sw_stored_encode(&w, 0, 300, x);
    for (int64_t i = 0; i < 300; i++)
        CU_ASSERT(isnan(number_of(&w, i)) == (i / 100 != 1));
    memset(x, 0, sizeof x);
    for (int i = 0; i < 2; i++) {
        w = (sw_stored){i == 0 ? SW_I8 : SW_NF4, large, 2 * SW_NF4_GROUP, SW_NF4_BLOCK};
        sw_stored_encode(&w, 0, n, x);
        CU_ASSERT(number_of(&w, 77) == 0.0f && number_of(&w, n - 1) == 0.0f);
    }
}

/* ---- many products ----------------------------------------------------------------------- */

/* Results (2, 3) and sums over (2, sums): a (r0, s0, s1, m, k), b (r1, s0, s1, k, n), so each
 * repeats along one axis of results. */
static void some_products(size3 z, int64_t sums, sw_bf16_order order, bool adds)
{
    const int64_t of_a = z.m * z.k, of_b = z.k * z.n, all = 2 * sums;
    const size_t n = (size_t)(6 * z.m * z.n);
    const float *a = numbers((size_t)(2 * all * of_a), 1);
    const float *b = numbers((size_t)(3 * all * of_b), 2);
    const float *x = rounded(a, (size_t)(2 * all * of_a));
    const float *y = rounded(b, (size_t)(3 * all * of_b));
    const float *before = rounded(numbers(n, 3), n);
    float *want = take(n), *c = take(n);
    for (size_t e = 0; e < n; e++) {
        const int64_t r = (int64_t)e / (z.m * z.n), i = (int64_t)e / z.n % z.m;
        want[e] = adds ? before[e] : 0.0f;
        for (int64_t s = 0; s < all; s++)
            want[e] = chain(order, want[e], x + (r / 3 * all + s) * of_a + i * z.k, 1,
                            y + (r % 3 * all + s) * of_b + (int64_t)e % z.n, z.n, z.k);
    }
    sw_products p = {.m = z.m, .n = z.n, .k = z.k, .accumulate = adds, .order = order, .c = c};
    p.a_row = z.k, p.a_col = 1, p.b_row = z.n, p.b_col = 1;
    p.n_results = p.n_sums = 2;
    p.result[0] = 2, p.result_a[0] = all * of_a, p.result[1] = 3, p.result_b[1] = all * of_b;
    p.sum[0] = 2, p.sum_a[0] = sums * of_a, p.sum_b[0] = sums * of_b;
    p.sum[1] = sums, p.sum_a[1] = of_a, p.sum_b[1] = of_b;
    for (int form = 0; form < A_TURNED; form++) {
        p.a_half = (form & A_HALF) != 0, p.b_half = (form & B_HALF) != 0;
        p.c_half = (form & C_HALF) != 0;
        p.a = laid(a, 1, 2 * all * of_a, 0, 1, p.a_half);
        p.b = laid(b, 1, 3 * all * of_b, 0, 1, p.b_half);
        for (int run = 0, isa; way_of(order, run / 2, &isa, &p.order); run++) {
            begin_with_sums(c, before, n, p.c_half, adds);
            products(isa, &p, run % 2 == 0 ? &one_thread : &reversed);
            const int wrong = wrong_of(want, c, (int64_t)n, p.c_half);
            SW_CHECK(
                wrong == 0, "%ldx%ldx%ld sums %ld order %d form %d adds %d run %d: %d wrong",
                (long)z.m, (long)z.n, (long)z.k, (long)all, (int)order, form, adds, run, wrong);
        }
    }
    give_all();
}

SW_TEST("many products have the bits of the model")
{
    static const size3 shapes[] = {{5, 9, 33}, {13, 66, 64}, {70, 17, 7}, {200, 65, 40}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int i = 0; i < 12; i++)
            some_products(shapes[s], i / 4 == 2 ? 3 : i / 4,
                          i % 2 == 0 ? SW_ORDER_PAIR : SW_ORDER_TILE, i / 2 % 2 != 0);
}

/* At most 2 MiB, and never more for a smaller product. */
SW_TEST("scratch of bf16 is small whatever the product")
{
    const sw_dense_kernels *d = sw_dense(SW_ISA_BASE);
    for (int64_t m = 1; m <= 1 << 20; m *= 4)
        for (int64_t n = 1; n <= 1 << 20; n = n * 4 + 1)
            for (int64_t k = 0; k <= 1 << 20; k = k * 4 + 1) {
                const size_t bytes = d->gemm_bytes(m, n, k, true);
                CU_ASSERT(bytes <= (size_t)2 << 20);
                CU_ASSERT(d->gemm_bytes(m - m / 3, n, k, true) <= bytes);
                CU_ASSERT(d->gemm_bytes(m, n - n / 3, k, true) <= bytes);
                CU_ASSERT(d->gemm_bytes(m, n, k - k / 4, true) <= bytes);
            }
}

/* ---- convolutions of one position -------------------------------------------------------- */

/* In the layout's own terms: images or blocks, of in_c or out_c planes of `size` numbers. */
typedef struct {
    sw_conv s;
    int64_t images, size;
    const float *x, *dy, *w, *bias; /* float32 */
    const float *x16, *dy16, *w16;  /* the model's numbers */
    const float *dx, *y, *dw;       /* what is added to */
    float *want_y, *want_dx, *want_dw;
} conv_case;

enum { X_HALF = 1, Y_HALF = 2, W_HALF = 4, CONV_FORMS = 8 };

static void conv_model(const conv_case *t, sw_bf16_order order, int sum)
{
    const int64_t in_c = t->s.in_c, out_c = t->s.out_c, size = t->size;
    const bool adds = (sum & ADDING) != 0, points = size == 1;
    for (int64_t i = 0; i < t->images * out_c * size; i++) {
        const int64_t b = i / size / out_c, o = i / size % out_c;
        t->want_y[i] = chain(order, adds ? t->y[i] : 0.0f, t->w16 + o * in_c, 1,
                             t->x16 + b * in_c * size + i % size, size, in_c);
        if ((sum & BIAS) != 0)
            t->want_y[i] = plus(t->want_y[i], t->bias[o]);
    }
    for (int64_t i = 0; i < t->images * in_c * size; i++)
        t->want_dx[i] = chain(order, adds ? t->dx[i] : 0.0f, t->w16 + i / size % in_c, in_c,
                              t->dy16 + i / size / in_c * out_c * size + i % size, size, out_c);
    for (int64_t i = 0; i < out_c * in_c; i++) {
        const int64_t all = points ? t->images : size, outer = points ? 1 : t->images;
        float whole = 0.0f;
        for (int64_t b = 0; b < outer; b++)
            for (int64_t from = 0; from < all; from += SW_GEMM_BLOCK) {
                const int64_t n = all - from < SW_GEMM_BLOCK ? all - from : SW_GEMM_BLOCK;
                const float *dy = t->dy16 + (b * out_c + i / in_c) * size;
                const float *x = t->x16 + (b * in_c + i % in_c) * size;
                const float piece = points ? chain(order, 0.0f, dy + from * out_c, out_c,
                                                   x + from * in_c, in_c, n)
                                           : chain(order, 0.0f, dy + from, 1, x + from, 1, n);
                whole = b + from == 0 ? piece : plus(whole, piece);
            }
        t->want_dw[i] = adds ? plus(t->dw[i], whole) : whole;
    }
}

static void run_conv(const conv_case *t, sw_bf16_order order, int sum, int form)
{
    const int64_t n_y = t->images * t->s.out_c * t->size, n_x = t->images * t->s.in_c * t->size;
    const int64_t n_w = t->s.in_c * t->s.out_c;
    const bool adds = (sum & ADDING) != 0;
    sw_conv s = t->s;
    s.order = order;
    s.x_half = (form & X_HALF) != 0, s.y_half = (form & Y_HALF) != 0;
    s.w_half = (form & W_HALF) != 0;
    const float *x = laid(t->x, 1, n_x, 0, 1, s.x_half),
                *w = laid(t->w, 1, n_w, 0, 1, s.w_half);
    const float *dy = laid(t->dy, 1, n_y, 0, 1, s.y_half);
    const float *same_dy = s.y_half ? t->dy16 : t->dy;
    float *y = take((size_t)n_y), *dx = take((size_t)n_x), *dw = take((size_t)n_w);
    float *db = take((size_t)s.out_c), *want_db = take((size_t)s.out_c),
          *no_dw = take((size_t)n_w);
    for (int run = 0, isa; way_of(order, run / 2, &isa, &s.order) && isa != MODELLED; run++) {
        const sw_par *par = run % 2 == 0 ? &one_thread : &reversed;
        const sw_dense_kernels *d = sw_dense((sw_isa)isa);
        float *scratch = NULL; /* with the second run of each */
        if (run % 2 != 0) {
            const size_t bytes = d->conv_bytes(&s), dx_bytes = d->conv_dx_bytes(&s);
            CU_ASSERT(bytes <= (size_t)2 << 20);
            CU_ASSERT_EQUAL(d->conv_dw_bytes(&s), 0);
            scratch = take((bytes > dx_bytes ? bytes : dx_bytes) / 4);
        }
        begin_with_sums(y, t->y, (size_t)n_y, s.y_half, adds);
        begin_with_sums(dx, t->dx, (size_t)n_x, s.x_half, adds);
        begin_with_sums(dw, t->dw, (size_t)n_w, false, adds);
        d->conv(y, x, w, (sum & BIAS) != 0 ? t->bias : NULL, &s, adds, scratch, par);
        d->conv_dx(dx, dy, w, NULL, &s, adds, scratch, par);
        d->conv_dw(dw, db, x, dy, &s, adds, false, NULL, par);
        d->conv_dw(no_dw, want_db, t->x, same_dy, &t->s, false, false, NULL, par);
        const int wrong[4] = {
            wrong_of(t->want_y, y, n_y, s.y_half), wrong_of(t->want_dx, dx, n_x, s.x_half),
            wrong_of(t->want_dw, dw, n_w, false), wrong_of(want_db, db, s.out_c, false)};
        SW_CHECK(
            wrong[0] + wrong[1] + wrong[2] + wrong[3] == 0,
            "%s plain %d order %d sum %d form %d run %d: wrong %d of y, %d dx, %d dw, %d db",
            conv_text(&s), s.plain, (int)order, sum, form, run, wrong[0], wrong[1], wrong[2],
            wrong[3]);
    }
}

static void a_conv(sw_conv s, bool plain)
{
    conv_case t = {.s = s, .images = plain ? s.batch : (s.batch + 15) / 16};
    t.s.plain = plain;
    t.size = s.in_h * s.in_w * (plain ? 1 : 16);
    const int64_t n_y = s.batch * out_size(&s), n_x = s.batch * in_size(&s);
    const size_t held_y = held(&t.s, out_size(&s)), held_x = held(&t.s, in_size(&s));
    const size_t n_w = (size_t)(s.in_c * s.out_c);
    t.x = laid_out(&t.s, numbers((size_t)n_x, 1), in_size(&s));
    t.dy = laid_out(&t.s, numbers((size_t)n_y, 2), out_size(&s));
    t.w = numbers(n_w, 3), t.bias = numbers((size_t)s.out_c, 4);
    t.x16 = rounded(t.x, held_x), t.dy16 = rounded(t.dy, held_y), t.w16 = rounded(t.w, n_w);
    t.y = rounded(numbers(held_y, 5), held_y), t.dx = rounded(numbers(held_x, 6), held_x);
    t.dw = numbers(n_w, 7);
    t.want_y = take(held_y), t.want_dx = take(held_x), t.want_dw = take(n_w);
    const size_t used = pool_used;
    const int taken = n_taken;
    for (int i = 0; i < 8; i++) {
        const sw_bf16_order order = i < 4 ? SW_ORDER_PAIR : SW_ORDER_TILE;
        conv_model(&t, order, i % 4);
        for (int form = 0; form < CONV_FORMS; form++) {
            run_conv(&t, order, i % 4, form);
            pool_used = used;
            n_taken = taken;
        }
    }
    give_all();
}

SW_TEST("convolutions of one position have the bits of the model")
{
    static const int64_t sizes_of[][5] = {
        {1, 1, 1, 1, 1},   {5, 3, 7, 6, 9},   {17, 33, 3, 3, 12}, {2, 70, 5, 5, 65},
        {3, 8, 19, 15, 6}, {300, 5, 1, 1, 7}, {1, 290, 2, 9, 20}};
    for (size_t i = 0; i < sizeof sizes_of / sizeof *sizes_of; i++)
        for (int plain = 0; plain < 2; plain++) {
            const int64_t *z = sizes_of[i];
            a_conv(conv_of(z[0], z[1], z[2], z[3], z[4], 1, 1, 1, 0, 1, 1), plain != 0);
        }
}
