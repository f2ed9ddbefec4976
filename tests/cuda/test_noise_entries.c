/* Cases that descriptors of ops with noise do not have, on both sides: the sigmas of
 * snes_update and the steps of noise_move, and numbers of each evaluation of ops that have
 * attributes. */
#include "kernels/noise.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <stdio.h>
#include <string.h>

SW_TESTS("noise entries")

static sw_entry_run run;
static char label[160];

static void begin(const sw_op_desc *desc, const void *attrs, size_t shift, const char *what)
{
    snprintf(label, sizeof label, "%s, %s%s", desc->name, what, shift != 0 ? ", shifted" : "");
    run = (sw_entry_run)SW_INIT(.label = label, .kernel = desc->forward, .attrs = attrs,
                                .must_alias = true, .random = true, .shift = shift);
    run.entry = sw_side_entry(desc->name, SW_CUDA_FORWARD);
    CU_ASSERT_PTR_NOT_NULL_FATAL(run.entry);
}

static void in(sw_dtype dtype, int64_t n, const void *plain)
{
    const sw_type type = {dtype, SW_PLAIN, {1, {n}}};
    run.in[run.n_in++] = sw_entry_fill(&type, plain, false, 0.0f, run.shift);
}

/* The first input in its place; uniform numbers. */
static void in_place(int64_t n)
{
    const sw_type type = {SW_F32, SW_PLAIN, {1, {n}}};
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    sw_rng_uniform(x, 0, n, 31, 32, 33, 0);
    in(SW_F32, n, x);
    run.alias[0] = 0;
    run.out[0] = sw_entry_buffer(&type, run.shift);
    run.n_out = 1;
}

static void compare(void)
{
    sw_entry_compare(&run);
    sw_entry_free();
}

static sw_noise_spec spec_of(int32_t kind, int32_t distribution, int32_t rank, int64_t rows,
                             int64_t cols)
{
    return (
        sw_noise_spec)SW_INIT(.kind = kind, .distribution = distribution,
                              .sides = SW_NOISE_IN | SW_NOISE_OUT, .rank = rank, .rows = rows,
                              .cols = cols, .keep_rows = rows > 1 ? rows - 1 : 1,
                              .keep_cols = cols > 2 ? cols - 2 : 1, .taps = 1, .stream = 41);
}

/* check: 0 none, 1 good, 2 bad. */
static void snes(const swi_snes_attrs *a, int64_t directions, size_t shift, int check)
{
    static const double verdict[] = {0.0, 3.0};
    static const float rate = 0.125f;
    swi_snes_attrs with = *a;
    char what[80];
    float weights[200];
    with.has_finite_check = check != 0;
    snprintf(what, sizeof what, "kind %d.%d, %lld x %lld, %lld directions, check %d",
             a->spec.kind, a->spec.distribution, (long long)a->spec.rows,
             (long long)a->spec.cols, (long long)directions, check);
    begin(&sw_op_snes_update, &with, shift, what);
    sw_rng_normal(weights, 0, directions, 34, 35, 36, 0);
    for (int64_t d = 0; d < directions; d++)
        weights[d] *= 0.125f;
    in_place(a->spec.rows * a->spec.cols);
    in(SW_F32, directions, weights);
    in(SW_F32, 1, &rate);
    if (check != 0)
        in(SW_F64, 1, &verdict[check - 1]);
    compare();
}

SW_TEST("sigmas learn as on the CPU")
{
    const uint32_t drawn = sw_entry_draws;
    const swi_snes_attrs some[] = {
        {.spec = spec_of(SW_NOISE_IID, SW_NOISE_NORMAL, 0, 7, 13)},
        {.spec = spec_of(SW_NOISE_IID, SW_NOISE_NORMAL, 0, 1, 2055)},
        {.spec = spec_of(SW_NOISE_IID, SW_NOISE_RADEMACHER, 0, 5, 9)},
        {.spec = spec_of(SW_NOISE_IID, SW_NOISE_BITS, 0, 6, 50)}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (int check = 0; check < 3; check++)
            snes(&some[i], i == 1 ? 5 : 9 + 65 * (int64_t)(i % 2 == 0), i % 2, check);
    CU_ASSERT(sw_entry_draws - drawn >= 6); /* not with a bad check, nor where e^2 is 1 */
}

SW_TEST("moves are those of the CPU")
{
    static const float numbers[SWI_MOVE_NUMBERS] = {0.05f, 0.7f, 0.01f, 0.3f};
    const sw_noise_spec specs[] = {spec_of(SW_NOISE_IID, SW_NOISE_NORMAL, 0, 1, 1),
                                   spec_of(SW_NOISE_IID, SW_NOISE_NORMAL, 0, 3, 1031),
                                   spec_of(SW_NOISE_LOW_RANK, SW_NOISE_NORMAL, 1, 19, 70),
                                   spec_of(SW_NOISE_LOW_RANK, SW_NOISE_NORMAL, 3, 37, 131),
                                   spec_of(SW_NOISE_LOW_RANK, SW_NOISE_NORMAL, 6, 5, 9)};
    const uint32_t drawn = sw_entry_draws;
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int move = SWI_MOVE_BY_NOISE; move <= SWI_MOVE_ALL; move++)
            for (int bits = 0; bits < 4; bits++) {
                const swi_move_attrs a = {specs[i], move, bits & 1};
                char what[80];
                snprintf(what, sizeof what, "noise %d, move %d, decays %d", (int)i, move,
                         bits & 1);
                begin(&sw_op_noise_move, &a, (size_t)(bits / 2), what);
                in_place(specs[i].rows * specs[i].cols);
                in(SW_F32, SWI_MOVE_NUMBERS, numbers);
                compare();
                n++;
            }
    CU_ASSERT(sw_entry_draws - drawn >= n);
}

/* ---- one number of each evaluation ------------------------------------------------------- */

static swi_each_attrs each_of(uint32_t op, const char *name, const void *attrs, size_t bytes)
{
    swi_each_attrs a = {.evaluations = 6, .op = op};
    snprintf(a.name, sizeof a.name, "%s", name);
    memcpy(a.attrs, attrs, bytes);
    return a;
}

/* x (6 n, cols), labels or targets beside it where `labels` is 1 or 2. */
static void each(const swi_each_attrs *a, int64_t n, int64_t cols, int labels, bool adds)
{
    char what[80];
    const sw_type x = {SW_F32, SW_PLAIN, {2, {6 * n, cols}}};
    const sw_type id = {SW_U8, SW_PLAIN, {1, {6 * n}}}, y = {SW_F32, SW_PLAIN, {1, {6}}};
    float *numbers = sw_entry_block((size_t)(6 * n * cols + 1) * sizeof *numbers, 0);
    uint8_t *ids = sw_entry_block((size_t)(6 * n), 0);
    sw_rng_normal(numbers, 0, 6 * n * cols + 1, 51, 52, 53, 0);
    for (int64_t i = 0; i < 6 * n; i++)
        ids[i] = (uint8_t)(i < n ? 1 : i * 7 % cols); /* the first counts nothing */
    snprintf(what, sizeof what, "%s, %lld x %lld", a->name, (long long)n, (long long)cols);
    begin(&sw_op_each, a, 0, what);
    run.scratch_bytes = sw_op_each.scratch_bytes;
    run.random = false;
    run.must_alias = false;
    run.in[run.n_in++] = sw_entry_fill(&x, numbers, false, 0.0f, 0);
    if (labels == 1)
        run.in[run.n_in++] = sw_entry_fill(&id, ids, false, 0.0f, 0);
    if (labels == 2)
        run.in[run.n_in++] = sw_entry_fill(&x, numbers + 1, false, 0.0f, 0);
    run.alias[0] = -1;
    run.accumulate = adds;
    run.out[0] = sw_entry_buffer(&y, 0);
    sw_rng_normal(run.out[0].ptr, 0, 6, 54, 55, 56, 0);
    run.n_out = 1;
    compare();
}

SW_TEST("numbers of evaluations are those of the CPU")
{
    static const swi_number_attrs number = {0.75f};
    static const swi_ce_attrs rules[] = {{0.1f, 0, 0}, {0.0f, 1, 1}, {0.2f, 1, 1}};
    const swi_each_attrs bce = each_of(SW_OP_bce, "bce", &number, sizeof number);
    const swi_each_attrs huber = each_of(SW_OP_huber, "huber", &number, sizeof number);
    swi_sum_attrs all;
    memset(&all, 0, sizeof all);
    all.axes = 3;
    all.scale = 0.125;
    const swi_each_attrs sum = each_of(SW_OP_sum, "sum", &all, sizeof all);
    const swi_each_attrs max = each_of(SW_OP_max, "max", &all, sizeof all);
    for (int64_t n = 1; n < 300; n = n * 7 + 2) {
        each(&bce, n, 5, 0, false);
        each(&huber, n, 5, 2, false);
        each(&sum, n, 5, 0, false);
        each(&sum, n, 5, 0, true);
        each(&max, n, 5, 0, false);
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            const swi_each_attrs ce =
                each_of(SW_OP_softmax_ce, "softmax_ce", &rules[i], sizeof rules[i]);
            each(&ce, n, 37, 1, false);
        }
    }
}

SW_TEST("another op is refused by name")
{
    const swi_each_attrs a = each_of(SW_OP_mse, "median", "", 0);
    float x[12] = {0.0f};
    const sw_type type = {SW_F32, SW_PLAIN, {2, {6, 2}}}, y = {SW_F32, SW_PLAIN, {1, {6}}};
    const sw_cuda_entry *entry = sw_side_entry("each", SW_CUDA_FORWARD);
    const sw_buffer in = sw_entry_fill(&type, x, false, 0.0f, 0), out = sw_entry_buffer(&y, 0);
    const sw_launch l =
        SW_OPTS(sw_launch, .in = &in, .n_in = 1, .out = &out, .n_out = 1, .attrs = &a);
    sw_side_choose(0);
    CU_ASSERT_EQUAL(sw_side_launch(entry, &l, (sw_cuda_counters){0, 0}), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "median"));
    sw_entry_free();
}
