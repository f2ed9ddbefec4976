/* Launches of a group (sw_cuda_group) under the emulator: the bits of one launch after the
 * other, in as many launches as tables. For every optimizer, states in 8 bits among others, for
 * finite checks and bounds of tensors of one block and of several, and for functions of one
 * number with their gradients. */
#include "kernels/halves.h"
#include "kernels/optim.h"
#include "kernels/rng.h"
#include "kernels/state8.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/emulator.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/rules.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("groups of launches")

enum { MOST = 70, TABLE = 32, OPERANDS = 16 }; /* launches; rows of a table */
static const int counts[] = {1, 2, TABLE, TABLE + 1, MOST};

/* The launches of a group, twice: each has operands of its own, and the numbers are the same.
 */
typedef struct {
    const sw_cuda_entry *entry[MOST];
    sw_launch launch[2][MOST];
    sw_buffer in[2][MOST][OPERANDS], out[2][MOST][OPERANDS];
    swi_update_attrs update[MOST];
    swi_finite_attrs finite[MOST];
    swi_bound_attrs bound[MOST];
    int n;
} group;
static group now;

static void group_of(const sw_op_desc *desc, int n)
{
    memset(&now, 0, sizeof now);
    now.n = n;
    for (int i = 0; i < n; i++)
        now.entry[i] = sw_side_entry(desc->name, -1);
    CU_ASSERT_FATAL(now.entry[0] != NULL && now.entry[0]->groups && n <= MOST);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < n; i++)
            now.launch[s][i] = (sw_launch){.in = now.in[s][i], .out = now.out[s][i]};
}

static int in_numbers(int i, sw_type type, const void *plain)
{
    for (int s = 0; s < 2; s++)
        now.in[s][i][now.launch[s][i].n_in++] =
            sw_entry_fill(&type, plain, false, 0.0f, (size_t)(i % 3 == 2));
    return now.launch[0][i].n_in - 1;
}

/* In the bytes of an input, or -1: of its own. */
static void out(int i, sw_type type, int alias)
{
    for (int s = 0; s < 2; s++)
        now.out[s][i][now.launch[s][i].n_out++] =
            alias >= 0 ? now.in[s][i][alias] : sw_entry_buffer(&type, 0);
}

static sw_type vector(sw_dtype dtype, int64_t n)
{
    return (sw_type){dtype, SW_PLAIN, {1, {n}}};
}

static int in_random(int i, sw_type type)
{
    const int64_t n = sw_type_elements(&type);
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    sw_rng_uniform(x, 0, n, 41, (uint32_t)i, (uint32_t)now.launch[0][i].n_in, 0);
    return in_numbers(i, type, x);
}

/* Launch all, the second time as one group; returns the launches of that. */
static int launched(int set, sw_cuda_group *together)
{
    uint32_t stated = 0;
    sw_cuda_queue queue = *sw_side_queue();
    const uint64_t before = swi_emu_counted().launches;
    queue.group = together;
    for (int counting = 1; counting >= 0; counting--) {
        queue.stated = counting ? &stated : NULL;
        for (int i = 0; i < now.n; i++) {
            if (together != NULL)
                together->left = (uint32_t)(now.n - 1 - i);
            CU_ASSERT_EQUAL(now.entry[i]->kernel(&now.launch[set][i], &queue), SW_OK);
        }
    }
    CU_ASSERT(together == NULL || together->rows == 0);
    CU_ASSERT_EQUAL(swi_emu_counted().launches - before, stated);
    return (int)stated;
}

static void compare(const char *what, int alone, int together)
{
    static sw_cuda_group table;
    sw_side_choose(now.n % 2); /* in order, and in another schedule */
    const int one = launched(0, NULL), all = launched(1, &table);
    SW_CHECK(one == alone && all == together, "%s, %d: %d launches, %d together", what, now.n,
             one, all);
    for (int i = 0; i < now.n; i++)
        for (int k = 0; k < now.launch[0][i].n_out; k++)
            SW_CHECK(memcmp(now.out[0][i][k].ptr, now.out[1][i][k].ptr,
                            sw_type_bytes(&now.out[0][i][k].type)) == 0,
                     "%s: output %d of launch %d of %d", what, k, i, now.n);
    sw_entry_free();
}

/* ---- updates ----------------------------------------------------------------------------- */

static void in_state8(int i, const sw_type *param)
{
    const sw_type codes = {SW_U8, SW_PLAIN, param->shape},
                  scales = {SW_F32, SW_PLAIN, sw_state8_scales(&param->shape)};
    uint8_t *x = sw_entry_block(sw_type_bytes(&codes), 0);
    for (int64_t k = 0; k < sw_type_elements(&codes); k++)
        x[k] = (uint8_t)(k * 7 + i);
    in_numbers(i, codes, x);
    in_random(i, scales);
}

/* Operands of launch i: sizes that are no multiples of four, and none at all; those that all
 * share are one block in a run, and lie apart here, but for the rate: a group of two tables. */
static void update(int i, size_t u, bool in8, const sw_buffer *shared)
{
    static const double verdicts[] = {0.0, 3.0};
    static const float flags[] = {1.0f, 0.0f};
    swi_update_attrs *a = &now.update[i];
    *a = (swi_update_attrs){.rule = rules[u].rule,
                            .n_state = rules[u].n_state * (1 + in8),
                            .beta1 = 0.9f,
                            .beta2 = 0.95f,
                            .epsilon = 1e-3f,
                            .momentum = 0.9f,
                            .weight_decay = 0.01f,
                            .has_corrections = 1,
                            .has_flag = i % 4 == 1,
                            .has_finite_check = 1};
    const int64_t n = i % 9 == 4 ? 0 : 1 + i * 331 % 1500;
    const sw_type param =
        in8 ? (sw_type){SW_F32, SW_PLAIN, {2, {1 + i % 3, 1 + n}}} : vector(SW_F32, n);
    in_random(i, param);
    in_random(i, param);
    for (int s = 0; s < 2; s++) {
        now.launch[s][i].attrs = a;
        now.in[s][i][now.launch[s][i].n_in++] = shared[0];
    }
    for (int k = 0; k < rules[u].n_state; k++)
        if (in8)
            in_state8(i, &param);
        else
            in_random(i, param);
    for (int s = 0; s < 2; s++)
        now.in[s][i][now.launch[s][i].n_in++] = shared[1];
    if (a->has_flag)
        in_numbers(i, vector(SW_F32, 1), &flags[i % 8 == 1]);
    in_numbers(i, vector(SW_F64, 1), &verdicts[i % 7 == 3]);
    out(i, param, 0);
    for (int k = 0; k < a->n_state; k++)
        out(i, now.in[0][i][3 + k].type, 3 + k);
}

static int tables(int n)
{
    return (n + TABLE - 1) / TABLE;
}

/* Those of launches [from, n) that are launched by themselves: not without elements. */
static int with_elements(int n, bool in8)
{
    int some = 0;
    for (int i = 0; i < n; i++)
        some += in8 || i % 9 != 4;
    return some;
}

SW_TEST("updates of a group have the bits of each alone")
{
    static const float rate[] = {0.03f};
    static const double corrections[] = {0.19, 0.0199};
    const sw_type one = vector(SW_F32, 1), two = vector(SW_F64, 2);
    int in8 = 0;
    for (size_t k = 0; k < 2 * sizeof rules / sizeof *rules; k++) {
        const size_t u = k / 2;
        if (k % 2 != 0 && sw_optim_state8((sw_optim)rules[u].rule) == 0)
            continue;
        in8 += k % 2 != 0;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            group_of(rules[u].op, counts[c]);
            const sw_buffer shared[] = {sw_entry_fill(&one, rate, false, 0.0f, 0),
                                        sw_entry_fill(&two, corrections, false, 0.0f, 0)};
            for (int i = 0; i < now.n; i++)
                update(i, u, k % 2 != 0, shared);
            compare(rules[u].name, with_elements(now.n, k % 2 != 0), tables(now.n));
        }
    }
    CU_ASSERT_EQUAL(in8, 4);
}

/* Of one op, with states of both kinds in turn and two rates: a table ends where the next row
 * does not suit it. */
SW_TEST("a group of launches that differ is several launches")
{
    static const float rates[] = {0.03f, 0.3f};
    static const double corrections[] = {0.19, 0.0199};
    const sw_type one = vector(SW_F32, 1), two = vector(SW_F64, 2);
    size_t u = 0;
    while (rules[u].rule != SW_OPTIM_adam)
        u++;
    group_of(rules[u].op, 12);
    const sw_buffer by = sw_entry_fill(&two, corrections, false, 0.0f, 0);
    const sw_buffer shared[2][2] = {{sw_entry_fill(&one, &rates[0], false, 0.0f, 0), by},
                                    {sw_entry_fill(&one, &rates[1], false, 0.0f, 0), by}};
    for (int i = 0; i < 12; i++) /* 3 in f32, 2 in 8 bits, 1 more; the same at another rate */
        update(i, u, i % 6 == 3 || i % 6 == 4, shared[i / 6]);
    compare("of two kinds", 12, 6);
}

/* ---- finite checks ----------------------------------------------------------------------- */

/* Spoiled in the first place, in the middle, in the last; bad before, not looked at, bounded.
 */
static void check_of(int i, int64_t n)
{
    static const double before[] = {0.0, 7.0}, bounds[] = {1.0, 1e39, (double)INFINITY};
    static const float flags[] = {0.0f, 1.0f};
    swi_finite_attrs *a = &now.finite[i];
    *a = (swi_finite_attrs){.code = i + 1.0,
                            .has_before = i % 2,
                            .has_flag = i % 5 == 4,
                            .has_bound = i % 3 == 1,
                            .is_bounded = i % 3 == 1};
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    sw_rng_uniform(x, 0, n, 42, (uint32_t)i, 0, 0);
    if (i % 4 > 0 && n > 0)
        x[i % 4 == 1 ? 0 : i % 4 == 2 ? n / 2 : n - 1] = i % 8 > 4 ? NAN : -INFINITY;
    in_numbers(i, vector(SW_F32, n), x);
    if (a->has_before)
        in_numbers(i, vector(SW_F64, 1), &before[i % 10 == 3]);
    if (a->has_flag)
        in_numbers(i, vector(SW_F32, 1), &flags[i % 10 == 4]);
    if (a->has_bound)
        in_numbers(i, vector(SW_F64, 1), &bounds[i / 3 % 3]);
    out(i, vector(SW_F64, 1), -1);
    now.launch[0][i].attrs = now.launch[1][i].attrs = a;
}

/* Of factors of one block and of several, one of them with an element that is not finite. */
static void bound_of(int i, int64_t n)
{
    now.entry[i] = sw_side_entry("product_bound", -1);
    CU_ASSERT_FATAL(now.entry[i] != NULL && now.entry[i]->groups == now.entry[0]->groups);
    now.bound[i] = (swi_bound_attrs){.terms = i + 1, .worth = INT64_MAX};
    for (int k = 0; k < 2; k++) {
        const int64_t all = k == 0 ? n : 1 + i * 97;
        float *x = sw_entry_block((size_t)all * sizeof *x, 0);
        sw_rng_uniform(x, 0, all, 43, (uint32_t)i, (uint32_t)k, 0);
        if (i % 10 == 5 + k)
            x[all / 2] = i % 20 == 5 ? -INFINITY : NAN;
        in_numbers(i, vector(SW_F32, all), x);
    }
    out(i, vector(SW_F64, 1), -1);
    now.launch[0][i].attrs = now.launch[1][i].attrs = &now.bound[i];
}

/* long: every eleventh tensor has several blocks. */
static void finite_group(int n, bool has_long, bool has_bounds)
{
    group_of(&sw_op_finite, n);
    for (int i = 0; i < n; i++) {
        const int64_t all = has_long && i % 11 == 0 ? 8193 + i * 97 : 1 + i * 331 % 8000;
        if (has_bounds && (i % 5 == 0 || i == 33))
            bound_of(i, all);
        else
            check_of(i, all);
    }
    compare(has_bounds ? "finite, product_bound" : "finite", n, tables(n));
}

SW_TEST("finite checks and bounds of a group find what each finds alone")
{
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int way = 0; way < 3; way++)
            finite_group(counts[c], way > 0, way > 1);
}

/* ---- functions of one number ------------------------------------------------------------- */

/* A value, and the gradient of the same op, in float32 and in bf16; added to, not in whole
 * fours, and without elements. */
static void curve(int i, const char *op)
{
    const bool slope = i % 2 == 1;
    const int64_t n = i % 9 == 4 ? 0 : 1 + i * 1777 % 5000;
    const sw_type type = vector(i % 5 < 3 ? SW_F32 : SW_BF16, n);
    now.entry[i] = sw_side_entry(op, slope ? 0 : -1);
    CU_ASSERT_FATAL(now.entry[i] != NULL &&
                    now.entry[i]->groups == SW_CUDA_NEIGHBOURS / SW_CUDA_GROUPS);
    for (int k = 0; k <= (int)slope; k++) {
        if (type.dtype == SW_F32) {
            in_random(i, type);
            continue;
        }
        uint16_t *x = sw_entry_block((size_t)n * sizeof *x, 0);
        for (int64_t e = 0; e < n; e++)
            x[e] = sw_bf16_round((float)((e * 37 + i) % 101 - 50) * 0.125f);
        in_numbers(i, type, x);
    }
    out(i, type, slope && i % 3 == 1 ? 1 : -1); /* in the place of dy */
}

SW_TEST("values and gradients of a function have the bits of each alone")
{
    static const char *const ops[] = {"swish", "gelu", "exp"};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            group_of(&sw_op_finite, counts[c]);
            for (int i = 0; i < now.n; i++)
                curve(i, ops[k]);
            compare(ops[k], with_elements(now.n, false), tables(now.n));
        }
}
