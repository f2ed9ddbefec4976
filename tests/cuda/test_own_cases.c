/* Cases that descriptors do not have: products whose factors lie either way, sizes about those
 * of tiles, sums over axes, columns of a larger matrix; bounds; attention; ids; convolutions.
 */
#include "kernels/attrs.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("own cases")

/* ---- operands ---------------------------------------------------------------------------- */

/* Random numbers in the places that the strides name, NaNs in between. */
static sw_buffer numbers(sw_type type, const int64_t *stride, uint32_t stream)
{
    const sw_shape *s = &type.shape;
    int64_t n = 1, last = 0;
    sw_buffer b = {.type = type};
    for (int i = 0; i < s->rank; i++) {
        b.stride[i] = stride[i];
        last += (s->dim[i] - 1) * stride[i];
        n *= s->dim[i];
    }
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    float *to = sw_entry_block((size_t)(last + 1) * sizeof *to, 0);
    sw_rng_normal(x, 0, n, 31, 32, stream, 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, rest = i;
        for (int k = s->rank - 1; k >= 0; k--) {
            at += rest % s->dim[k] * b.stride[k];
            rest /= s->dim[k];
        }
        to[at] = x[i];
    }
    b.ptr = to;
    return b;
}

/* (rows, cols), by rows or by columns, `gap` further apart than they are long. */
static sw_buffer matrix(int64_t rows, int64_t cols, bool turned, int64_t gap, uint32_t stream)
{
    const int64_t stride[] = {turned ? 1 : cols + gap, turned ? rows + gap : 1};
    return numbers((sw_type)F32(rows, cols), stride, stream);
}

static sw_entry_run begin(const char *label, const sw_op_desc *desc, int which)
{
    sw_entry_run r = sw_entry_of(label, desc, which, NULL);
    r.n_out = 1;
    return r;
}

/* With and without what is added to. */
static void compare(sw_entry_run *r, const sw_type *out)
{
    for (uint32_t add = 0; add < 2; add++) {
        r->accumulate = add;
        r->out[0] = sw_entry_buffer(out, 0);
        if (add != 0)
            sw_rng_normal(r->out[0].ptr, 0, sw_type_elements(out), 33, 34, 1, 0);
        sw_entry_compare(r);
    }
    sw_entry_free();
}

/* ---- products ---------------------------------------------------------------------------- */

SW_TEST("factors lie either way")
{
    static const int64_t sizes[][3] = {{32, 32, 32},  {33, 31, 36}, {64, 64, 16},
                                       {68, 60, 100}, {65, 130, 9}, {128, 136, 24},
                                       {129, 96, 8},  {8, 4, 200},  {132, 128, 49}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int mode = 0; mode < 12; mode++) {
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            const int64_t gap = mode / 4 == 0 ? 0 : mode / 4 == 1 ? 4 : 1;
            const sw_type y = F32(m, n);
            const char *label = sw_textf("(%d, %d, %d), mode %d", (int)m, (int)n, (int)k, mode);
            sw_entry_run r = begin(label, &sw_op_matmul, -1);
            r.in[r.n_in++] = matrix(m, k, (mode & 1) != 0, gap, 1);
            r.in[r.n_in++] = matrix(k, n, (mode & 2) != 0, gap, 2);
            compare(&r, &y);
        }
}

/* Tiles go in bands of rows: two of them, the second not full. */
SW_TEST("more rows than a band")
{
    const sw_type y = F32(1100, 132);
    sw_entry_run r = begin("bands", &sw_op_matmul, -1);
    r.in[r.n_in++] = matrix(1100, 4, false, 0, 1);
    r.in[r.n_in++] = matrix(4, 132, false, 0, 2);
    compare(&r, &y);
}

/* Results and sums over axes that do, and do not, follow each other in memory. */
SW_TEST("axes in front")
{
    static const struct {
        const char *what;
        int64_t a[4], step_a[4], b[4], step_b[4];
    } cases[] = {
        {"heads", {2, 3, 20, 8}, {480, 8, 24, 1}, {2, 3, 8, 36}, {864, 36, 108, 1}},
        {"one b for all", {2, 3, 20, 8}, {480, 160, 8, 1}, {1, 1, 8, 36}, {288, 288, 36, 1}},
        {"one b, rows of another a", {2, 3, 1, 8}, {24, 8, 8, 1}, {1, 1, 8, 5}, {40, 40, 5, 1}},
        {"one a for all", {1, 1, 20, 8}, {160, 160, 8, 1}, {3, 2, 8, 4}, {64, 32, 4, 1}},
        {"one a for some",
         {1, 2, 33, 40},
         {9, 1320, 40, 1},
         {3, 2, 40, 34},
         {2720, 1360, 34, 1}},
        {"whole slices at odd steps",
         {2, 3, 32, 8},
         {1000, 300, 9, 1},
         {1, 1, 8, 5},
         {40, 40, 5, 1}},
        {"odd steps", {2, 3, 4, 8}, {100, 33, 8, 1}, {2, 3, 8, 4}, {96, 32, 4, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_type a = {SW_F32, SW_PLAIN, {4, {0}}}, b = a, y;
        memcpy(a.shape.dim, cases[i].a, sizeof cases[i].a);
        memcpy(b.shape.dim, cases[i].b, sizeof cases[i].b);
        CU_ASSERT_EQUAL_FATAL(sw_op_matmul.infer((sw_type[]){a, b}, 2, NULL, &y), SW_OK);
        for (int which = -1; which < 2; which++) {
            const char *label = sw_textf("%s, %d", cases[i].what, which);
            sw_entry_run r = begin(label, &sw_op_matmul, which);
            int64_t step[4] = {0, 0, y.shape.dim[3], 1};
            step[1] = y.shape.dim[2] * step[2];
            step[0] = y.shape.dim[1] * step[1];
            if (which != 0)
                r.in[r.n_in++] = numbers(a, cases[i].step_a, 1);
            if (which != 1)
                r.in[r.n_in++] = numbers(b, cases[i].step_b, 2);
            if (which >= 0)
                r.in[r.n_in++] = numbers(y, step, 3);
            compare(&r, which < 0 ? &y : which == 0 ? &a : &b);
        }
    }
}

/* The result is a range of rows of the gradient. */
SW_TEST("columns of a larger gradient")
{
    static const int64_t gaps[] = {0, 4, 7, 60};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        const sw_type dw = F32(36, 65);
        sw_entry_run r = begin("dw", &sw_op_linear, 1);
        r.in[r.n_in++] = matrix(110, 65, false, 0, 1);
        r.in[r.n_in++] = matrix(110, 36, false, gaps[i], 2);
        compare(&r, &dw);
    }
}

/* ---- product_bound ----------------------------------------------------------------------- */

/* A factor that more blocks look at than a warp has lanes: the largest number is in any. */
SW_TEST("bounds of many blocks")
{
    static const int64_t n[] = {300000, 5}, at[] = {31 * 256, 32 * 256 + 7, 299999};
    static const swi_bound_attrs attrs = {1, INT64_MAX};
    const sw_type y = {SW_F64, SW_PLAIN, {0, {0}}};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        sw_entry_run r = begin("bound of many blocks", &sw_op_product_bound, -1);
        r.attrs = &attrs;
        for (int i = 0; i < 2; i++) {
            const sw_type t = F32(n[i]);
            r.in[r.n_in++] = numbers(t, (const int64_t[]){1}, (uint32_t)i);
        }
        ((float *)r.in[0].ptr)[at[k]] = 50.0f;
        r.out[0] = sw_entry_buffer(&y, 0);
        sw_entry_compare(&r);
        sw_entry_free();
    }
}

SW_TEST("bounds")
{
    static const int64_t sizes[][2] = {
        {1, 1}, {7, 300}, {20000, 3}, {40, 8193}, {30000, 17000}};
    static const float odd[] = {0.0f, -1e30f, INFINITY, -INFINITY, NAN, -NAN};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            for (int which = 0; which < 2; which++) {
                const int64_t *n = sizes[s];
                const swi_bound_attrs attrs = {77, n[0] + n[1]};
                const sw_type y = {SW_F64, SW_PLAIN, {0, {0}}};
                sw_entry_run r = begin("bound", &sw_op_product_bound, -1);
                r.attrs = &attrs;
                for (int i = 0; i < 2; i++) {
                    const sw_type t = F32(n[i]);
                    r.in[r.n_in++] = numbers(t, (const int64_t[]){1}, (uint32_t)i);
                    if (which == i)
                        ((float *)r.in[i].ptr)[n[i] - 1 - n[i] / 3] = odd[k];
                }
                r.out[0] = sw_entry_buffer(&y, 0);
                sw_entry_compare(&r);
                sw_entry_free();
            }
}

/* No check looks at the bound of factors that are larger than it is worth. */
SW_TEST("a bound that says nothing is not launched")
{
    static const swi_bound_attrs attrs = {1, 599};
    const sw_type y = {SW_F64, SW_PLAIN, {0, {0}}}, t = F32(300);
    const sw_cuda_entry *entry = begin("bound", &sw_op_product_bound, -1).entry;
    const sw_buffer in[] = {numbers(t, (const int64_t[]){1}, 0),
                            numbers(t, (const int64_t[]){1}, 1)};
    const sw_buffer out = sw_entry_buffer(&y, 0);
    uint64_t before, after;
    const bool counts = sw_side_counts(&before);
    sw_entry_launch(entry, in, 2, &out, 1, &attrs);
    CU_ASSERT(!counts || (sw_side_counts(&after) && after == before));
    CU_ASSERT(isnan(*(const double *)out.ptr));
    sw_entry_free();
}

/* ---- attention --------------------------------------------------------------------------- */

/* Attention where descriptors have no cases: heads as wide as a tile, a last tile of one row;
 * and which tiles are looked at, as no comparison of usual numbers shows it. */

enum { TILE = 64, SIZE = 4 };
static const swi_attention_attrs causal = {.heads = 1, .causal = 1};

static sw_type rows_of(int64_t rows, int64_t size)
{
    return (sw_type)F32(1, rows, size);
}

static sw_buffer normal_numbers(sw_type type, uint32_t stream)
{
    const sw_buffer b = sw_entry_buffer(&type, 0);
    sw_rng_normal(b.ptr, 0, sw_type_elements(&type), 41, 42, stream, 0);
    return b;
}

/* Keys that no query of a tile of rows may see are not multiplied by zero, but left alone:
 * infinite keys and values of a later tile change no bit, forward and in dq. */
SW_TEST("later tiles are left alone")
{
    const sw_type type = rows_of(2 * TILE, SIZE), lse = F32(1, 1, 2 * TILE);
    sw_buffer in[6] = {normal_numbers(type, 0), normal_numbers(type, 1),
                       normal_numbers(type, 2)};
    sw_buffer y[2][2], dq[2];
    for (int odd = 0; odd < 2; odd++) {
        for (int i = 1; i < 3 && odd == 1; i++)
            ((float *)in[i].ptr)[(TILE + 1) * SIZE] = INFINITY;
        y[odd][0] = sw_entry_buffer(&type, 0);
        y[odd][1] = sw_entry_buffer(&lse, 0);
        dq[odd] = sw_entry_buffer(&type, 0);
        sw_entry_launch(sw_side_entry("attention", SW_CUDA_FORWARD), in, 3, y[odd], 2, &causal);
        in[3] = y[0][0];
        in[4] = y[0][1];
        in[5] = odd == 0 ? normal_numbers(type, 3) : in[5];
        sw_entry_launch(sw_side_entry("attention", 1), in, 6, &dq[odd], 1, &causal);
    }
    const size_t bytes = TILE * SIZE * sizeof(float);
    CU_ASSERT_EQUAL(memcmp(y[0][0].ptr, y[1][0].ptr, bytes), 0);
    CU_ASSERT_EQUAL(memcmp(y[0][1].ptr, y[1][1].ptr, TILE * sizeof(float)), 0);
    CU_ASSERT_EQUAL(memcmp(dq[0].ptr, dq[1].ptr, bytes), 0);
    CU_ASSERT(isfinite(((const float *)dq[0].ptr)[0]));
    sw_entry_free();
}

/* ---- against the CPU --------------------------------------------------------------------- */

SW_TEST("one row more than a tile")
{
    const sw_type type = rows_of(TILE + 1, SIZE);
    sw_entry_run run = sw_entry_of("one row more than a tile", &sw_op_attention, -1, &causal);
    while (run.n_in < 3) {
        run.in[run.n_in] = normal_numbers(type, 4 + (uint32_t)run.n_in);
        run.n_in++;
    }
    run.out[run.n_out++] = sw_entry_buffer(&type, 0);
    sw_entry_compare(&run);
    sw_entry_free();
}

/* Forward and all gradient kernels, n inputs. */
static void compare_kernels(const char *label, const swi_attention_attrs *a,
                            const sw_buffer *in, int n)
{
    sw_type types[5], out[2];
    sw_entry_run forward = sw_entry_of(label, &sw_op_attention, -1, a);
    for (int i = 0; i < n; i++) {
        forward.in[forward.n_in++] = in[i];
        types[i] = in[i].type;
    }
    CU_ASSERT_EQUAL_FATAL(sw_op_attention.infer(types, n, a, out), SW_OK);
    for (int i = 0; i < 2; i++)
        forward.out[forward.n_out++] = sw_entry_buffer(&out[i], 0);
    sw_entry_compare(&forward);
    const sw_buffer dy = normal_numbers(out[0], 10);
    for (int g = 0; g < sw_op_attention.n_grads; g++) {
        const sw_grad_desc *d = &sw_op_attention.grads[g];
        sw_entry_run run = sw_entry_of(label, &sw_op_attention, g, a);
        for (int k = 0; k < d->n_operands; k++) {
            const int at = d->operands[k] & 0xff, kind = d->operands[k] & 0xf00;
            if (kind == SW_IN(0) && at < n)
                run.in[run.n_in++] = in[at];
            else if (kind != SW_IN(0))
                run.in[run.n_in++] = kind == SW_OUT(0) ? forward.out[at] : dy;
        }
        for (int k = 0; k < d->n_makes; k++)
            run.out[run.n_out++] = sw_entry_buffer(&types[d->makes[k]], 0);
        sw_entry_compare(&run);
    }
}

/* All kernels, over several tiles. */
SW_TEST("heads as wide as a tile")
{
    const sw_type type = rows_of(TILE + 3, TILE);
    const sw_buffer in[] = {normal_numbers(type, 7), normal_numbers(type, 8),
                            normal_numbers(type, 9)};
    compare_kernels("wide heads", &causal, in, 3);
    sw_entry_free();
}

enum { CACHE = 2 * TILE + 12, QUERIES = TILE + 6, PAST = 37 };

/* Documents of a row that begin before it, in it and one after the other; keys after the last
 * are NaN, as those of a cache that is not full may be. */
SW_TEST("documents after others, with heads that are shared")
{
    static const swi_attention_attrs both = {4, 1, 0.0f, 2, 1, 1};
    static const int32_t past = PAST;
    int32_t first[2 * QUERIES];
    const sw_type list = I32(2, QUERIES), one = {SW_I32, SW_PLAIN, {0, {0}}};
    for (int size = SIZE; size <= 80; size += 76) { /* and heads of two tiles */
        for (int i = 0; i < 2 * QUERIES; i++)
            first[i] = i % QUERIES < 10   ? 5
                       : i % QUERIES < 11 ? PAST + 10
                       : i < QUERIES      ? PAST + 11
                       : i % 2 == 0       ? 1 << 30 /* its own key alone */
                                          : 64;
        sw_buffer in[] = {
            normal_numbers((sw_type)F32(2, QUERIES, 4 * size), 11),
            normal_numbers((sw_type)F32(2, CACHE, 2 * size), 12),
            normal_numbers((sw_type)F32(2, CACHE, 2 * size), 13),
            sw_entry_fill(&list, first, false, 0.0f, 0),
            sw_entry_fill(&one, &past, false, 0.0f, 0),
        };
        for (int i = 0; i < 2 * CACHE * 2 * size; i++)
            if (i / (2 * size) % CACHE >= PAST + QUERIES)
                ((float *)in[1].ptr)[i] = ((float *)in[2].ptr)[i] = NAN;
        compare_kernels("documents after others", &both, in, 5);
        sw_entry_free();
    }
}

SW_TEST("a packed document has the bits that it has alone")
{
    enum { ROWS = TILE + 20, AFTER = 9 };
    static const int offsets[] = {1, TILE - 1, TILE, TILE + 1, 100};
    static const swi_attention_attrs alone = {2, 1, 0.0f, 1, 0, 0},
                                     packed = {2, 1, 0.0f, 1, 1, 0};
    for (int i = 0; i < 5; i++) {
        const int at = offsets[i], all = at + ROWS + AFTER;
        const sw_type list = I32(1, all);
        int32_t first[100 + ROWS + AFTER];
        sw_buffer short_in[3], in[4], y[2][2];
        for (int r = 0; r < all; r++)
            first[r] = r < at ? 0 : r < at + ROWS ? at : at + ROWS;
        for (int k = 0; k < 3; k++) {
            const int width = k == 0 ? 2 * SIZE : SIZE;
            short_in[k] = normal_numbers(rows_of(ROWS, width), 14 + (uint32_t)k);
            in[k] = normal_numbers(rows_of(all, width), 17 + (uint32_t)k);
            memcpy((float *)in[k].ptr + at * width, short_in[k].ptr,
                   (size_t)(ROWS * width) * sizeof(float));
        }
        in[3] = sw_entry_fill(&list, first, false, 0.0f, 0);
        for (int k = 0; k < 2; k++) {
            const int rows = k == 0 ? ROWS : all;
            const sw_type of_y = rows_of(rows, 2 * SIZE), lse = F32(1, 2, rows);
            y[k][0] = sw_entry_buffer(&of_y, 0);
            y[k][1] = sw_entry_buffer(&lse, 0);
            sw_entry_launch(sw_side_entry("attention", SW_CUDA_FORWARD), k == 0 ? short_in : in,
                            3 + k, y[k], 2, k == 0 ? &alone : &packed);
        }
        SW_CHECK(memcmp(y[0][0].ptr, (float *)y[1][0].ptr + at * 2 * SIZE,
                        ROWS * 2 * SIZE * sizeof(float)) == 0,
                 "offset %d", at);
        sw_entry_free();
    }
}

/* The CPU refuses them. */
SW_TEST("a past and a first key out of range are the nearest that may be")
{
    static const swi_attention_attrs both = {1, 1, 0.0f, 0, 1, 1};
    static const int32_t pasts[] = {-3, 0, 99, 7}, firsts[] = {-1, 0, -99, 0};
    const sw_type list = I32(1, 1), one = {SW_I32, SW_PLAIN, {0, {0}}};
    sw_buffer in[5] = {normal_numbers(rows_of(1, SIZE), 20),
                       normal_numbers(rows_of(8, SIZE), 21),
                       normal_numbers(rows_of(8, SIZE), 22)};
    const sw_type of_y = rows_of(1, SIZE), lse = F32(1, 1, 1);
    sw_buffer y[4][2];
    for (int i = 0; i < 4; i++) {
        in[3] = sw_entry_fill(&list, &firsts[i], false, 0.0f, 0);
        in[4] = sw_entry_fill(&one, &pasts[i], false, 0.0f, 0);
        y[i][0] = sw_entry_buffer(&of_y, 0);
        y[i][1] = sw_entry_buffer(&lse, 0);
        sw_entry_launch(sw_side_entry("attention", SW_CUDA_FORWARD), in, 5, y[i], 2, &both);
    }
    CU_ASSERT_EQUAL(memcmp(y[0][0].ptr, y[1][0].ptr, SIZE * sizeof(float)), 0);
    CU_ASSERT_EQUAL(memcmp(y[2][0].ptr, y[3][0].ptr, SIZE * sizeof(float)), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(y[1][0].ptr, y[3][0].ptr, SIZE * sizeof(float)), 0);
    sw_entry_free();
}

/* ---- ids --------------------------------------------------------------------------------- */

/* Ids that the CPU's kernels refuse: what the device makes of them, which no comparison shows.
 */

enum { IDS = 40, ROWS = 6, WIDTH = 5 };

SW_TEST("an id out of range gives NaNs and no gradient")
{
    static const int32_t bad[] = {-1, ROWS, INT32_MIN, INT32_MAX};
    const sw_type rows = F32(ROWS, WIDTH), wide = F32(IDS, WIDTH), list = I32(IDS);
    float table[ROWS * WIDTH], dy[IDS * WIDTH];
    int32_t ids[IDS];
    for (int i = 0; i < IDS * WIDTH; i++)
        dy[i] = (float)(i % 7) + 1.0f;
    for (int i = 0; i < ROWS * WIDTH; i++)
        table[i] = (float)i;
    for (int i = 0; i < IDS; i++)
        ids[i] = i % 9 == 3 ? bad[i / 9 % 4] : i % ROWS;
    sw_buffer in[] = {sw_entry_fill(&list, ids, false, 0.0f, 0),
                      sw_entry_fill(&rows, table, false, 0.0f, 0)};
    const sw_buffer y = sw_entry_buffer(&wide, 0), dtable = sw_entry_buffer(&rows, 0);
    sw_entry_launch(sw_side_entry("embedding", SW_CUDA_FORWARD), in, 2, &y, 1, NULL);
    in[1] = sw_entry_fill(&wide, dy, false, 0.0f, 0);
    sw_entry_launch(sw_side_entry("embedding", 0), in, 2, &dtable, 1, NULL);
    float want[ROWS * WIDTH] = {0};
    for (int i = 0; i < IDS * WIDTH; i++) {
        const int id = ids[i / WIDTH], at = (id >= 0 && id < ROWS ? id : 0) * WIDTH + i % WIDTH;
        const float got = ((const float *)y.ptr)[i];
        if (id < 0 || id >= ROWS) {
            SW_CHECK(isnan(got), "id %d: %g", id, (double)got);
            continue;
        }
        SW_CHECK(got == table[at], "id %d: %g", id, (double)got);
        want[at] += dy[i];
    }
    CU_ASSERT_EQUAL(memcmp(dtable.ptr, want, sizeof want), 0);
    sw_entry_free();
}

/* ---- parts put together ----------------------------------------------------------------- */

/* One tensor several times, rows of one that lie apart, and parts of other sizes between them:
 * along each axis, also of columns. */
SW_TEST("parts that are alike")
{
    for (int axis = 0; axis < 2; axis++)
        for (int turned = 0; turned < 2; turned++) {
            const swi_concat_attrs attrs = {.axis = axis};
            sw_entry_run r = begin("concat", &sw_op_concat, -1);
            const sw_buffer x = matrix(6, 6, turned != 0, 2, 1),
                            other = matrix(6, 6, false, 0, 2);
            sw_buffer part = matrix(12, 6, false, 3, 3);
            part.type.shape.dim[0] = 6;
            const sw_buffer in[] = {x, x, x, other, part, part, x};
            r.attrs = &attrs;
            r.n_in = 7;
            memcpy(r.in, in, sizeof in);
            r.in[5].ptr = (float *)part.ptr + 6 * part.stride[0]; /* the rows after those */
            const sw_type out = axis == 0 ? (sw_type)F32(42, 6) : (sw_type)F32(6, 42);
            r.out[0] = sw_entry_buffer(&out, 0);
            sw_entry_compare(&r);
            sw_entry_free();
        }
}

/* ---- convolutions ------------------------------------------------------------------------ */

/* Convolutions of sizes that no kernel counts. */

/* Sizes that do not count in 32 bits are named, and nothing is launched. */
SW_TEST("too large images are refused")
{
    static const struct {
        int64_t dim[4];
        swi_conv_attrs attrs;
        const char *says;
    } cases[] = {
        {{1, 1 << 14, 1 << 9, 1 << 9}, {1, 0, 1, 1}, "1 images of 4294967296 elements"},
        {{(int64_t)1 << 31, 1, 1, 1}, {1, 0, 1, 1}, "2147483648 images of 1 elements"},
        {{1, 1, 9, 9},
         {1, 1 << 20, 1 << 20, 1},
         "1 channels of 4194313 x 4194313 padded pixels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_type x = {SW_F32, SW_PLAIN, {4, {0}}};
        const sw_type w = F32(1, 1, 2, 2);
        memcpy(x.shape.dim, cases[i].dim, sizeof cases[i].dim);
        const sw_buffer in[] = {{.type = x}, {.type = w}}, out = {.type = x};
        const sw_launch l = SW_OPTS(sw_launch, .in = in, .n_in = 2, .out = &out, .n_out = 1,
                                    .attrs = &cases[i].attrs);
        uint64_t before, after;
        sw_side_counts(&before);
        CU_ASSERT_EQUAL(
            sw_side_launch(sw_side_entry("conv2d", SW_CUDA_FORWARD), &l, (sw_cuda_counters){0}),
            SW_UNSUPPORTED);
        SW_CHECK(strstr(sw_last_error(), cases[i].says) != NULL, "%s", sw_last_error());
        sw_side_counts(&after);
        CU_ASSERT_EQUAL(after, before);
    }
}
