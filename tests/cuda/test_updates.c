/* Cases that descriptors do not have, on both sides: ops that optimizers append, labels and
 * logits at the ends of their ranges, shares that are met. Operands are made here. Outputs lie
 * in the bytes of the inputs that they change, as in a program. */
#include "kernels/noise.h"
#include "kernels/optim.h"
#include "kernels/rng.h"
#include "kernels/state8.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/rules.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("updates")

static sw_entry_run run;

/* ---- operands ---------------------------------------------------------------------------- */

static void begin(const sw_op_desc *desc, const void *attrs, size_t shift, const char *what)
{
    run = sw_entry_of(sw_textf("%s, %s%s", desc->name, what, shift != 0 ? ", shifted" : ""),
                      desc, -1, attrs);
    run.must_alias = true;
    run.shift = shift;
}

static sw_type vector(sw_dtype dtype, int64_t n)
{
    return (sw_type){dtype, SW_PLAIN, {1, {n}}};
}

static void in_buffer(sw_type type, const void *plain)
{
    run.in[run.n_in++] = sw_entry_fill(&type, plain, false, 0.0f, run.shift);
}

/* Normal numbers, or their squares. */
static void in_random(int64_t n, bool squares)
{
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    sw_rng_normal(x, 0, n, 21, 22, (uint32_t)run.n_in, 0);
    for (int64_t i = 0; squares && i < n; i++)
        x[i] *= x[i];
    in_buffer(vector(SW_F32, n), x);
}

static void in_floats(int64_t n, const float *x)
{
    in_buffer(vector(SW_F32, n), x);
}

static void in_doubles(int64_t n, const double *x)
{
    in_buffer(vector(SW_F64, n), x);
}

/* The next output; alias: the input that lends its bytes, -1: of its own. */
static void out(sw_type type, int alias)
{
    run.alias[run.n_out] = alias;
    run.out[run.n_out++] = sw_entry_buffer(&type, run.shift);
}

static void compare(void)
{
    sw_entry_compare(&run);
    sw_entry_free();
}

/* ---- updates ----------------------------------------------------------------------------- */

/* The numbers of a rule, in two ways: without corrections, and with a decay of its own. */
static const swi_update_attrs numbers[] = {
    {.beta1 = 0.9f, .beta2 = 0.9f, .epsilon = 1e-4f, .momentum = 0.9f, .weight_decay = 0.02f},
    SW_INIT(.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-3f, .momentum = 0.5f,
            .weight_decay = 0.1f, .decoupled = 1, .has_corrections = 1)};

/* The rate, and after it numbers that are knobs: not those of the attributes. */
static const float knobs[] = {0.05f, 0.03f, 0.6f, 0.7f, 0.85f};
#define READS (SWI_READS_DECAY | SWI_READS_MOMENTUM | SWI_READS_BETAS)

/* The inputs that bits of an update name. */
static void in_conditions(const swi_update_attrs *a, int bits)
{
    static const float scale[] = {0.7f}, set[] = {1.0f}, unset[] = {0.0f};
    static const double good[] = {0.0}, bad[] = {3.0};
    if (a->has_scale)
        in_floats(1, scale);
    if (a->has_flag)
        in_floats(1, (bits & 2) != 0 ? set : unset);
    if (a->has_finite_check)
        in_doubles(1, (bits & 8) != 0 ? good : bad);
}

/* bits: 1 a scale, 2 a flag that is set, 4 one that is not, 8 a good verdict, 16 a bad one, 32
 * knobs, 64 those of a kind without a momentum. */
static void update(size_t u, int way, int64_t n, size_t shift, int bits)
{
    swi_update_attrs a = numbers[way];
    a.rule = rules[u].rule;
    a.n_state = rules[u].n_state;
    static const double corrections[] = {0.19, 0.0199};
    a.has_scale = (bits & 1) != 0;
    a.has_flag = (bits & 6) != 0;
    a.has_finite_check = (bits & 24) != 0;
    a.reads = (bits & 32) != 0   ? READS
              : (bits & 64) != 0 ? SWI_READS_DECAY | SWI_READS_BETAS
                                 : 0;
    begin(rules[u].op, &a, shift,
          sw_textf("%s %d, %lld elements, %d", rules[u].name, way, (long long)n, bits));
    in_random(n, false);
    in_random(n, false);
    in_floats(a.reads == 0 ? 1 : a.reads == READS ? 5 : 4, knobs);
    for (int k = 0; k < a.n_state; k++)
        in_random(n, true);
    if (a.has_corrections)
        in_doubles(2, corrections);
    in_conditions(&a, bits);
    out(vector(SW_F32, n), 0);
    for (int k = 0; k < a.n_state; k++)
        out(vector(SW_F32, n), 3 + k);
    compare();
}

SW_TEST("updates do what the CPU does")
{
    static const int bits[] = {0, 1, 3, 4, 9, 16, 11};
    for (size_t u = 0; u < sizeof rules / sizeof *rules; u++) {
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
            update(u, b % 2 != 0, 37, 0, bits[b]);
        update(u, 1, 1, 0, 1);
        update(u, 0, 2605, 0, 1);
        update(u, 1, 2605, 1, 0);
        update(u, 0, 4096, 0, 0);
        for (int b = 32; b <= 64; b += 32)
            for (int way = 0; way < 2; way++) {
                update(u, way, 37, 0, b | 9);
                update(u, way, 2605, (size_t)way, b);
            }
    }
}

/* Numbers of all sizes, zeros and what is below all; one block of zeros, and where `odd` one
 * with an infinity: state and gradient of a block are of one kind. */
static void in_sizes(const sw_shape *s, bool odd, float times)
{
    const sw_type t = {SW_F32, SW_PLAIN, *s};
    const int64_t n = sw_type_elements(&t);
    float *x = sw_entry_block(sw_type_bytes(&t), 0);
    sw_rng_normal(x, 0, n, 21, 24, (uint32_t)run.n_in, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] *= i / 256 == 1 ? 0.0f : i % 5 == 0 ? times * 1e-7f : i % 7 == 0 ? 1e-4f : times;
    if (odd)
        x[n - 1] = INFINITY;
    in_buffer(t, x);
}

/* A state in 8 bits of a parameter of this shape: every byte. */
static void in_state8(const sw_shape *s, bool has_sign)
{
    const sw_type codes = {SW_U8, SW_PLAIN, *s},
                  scales = {SW_F32, SW_PLAIN, sw_state8_scales(s)};
    uint8_t *x = sw_entry_block(sw_type_bytes(&codes), 0);
    float *y = sw_entry_block(sw_type_bytes(&scales), 0);
    for (int64_t i = 0; i < sw_type_elements(&codes); i++)
        x[i] = (uint8_t)(i / 256 == 1 ? 0 : i * 7 + run.n_in / 2);
    for (int64_t i = 0; i < sw_type_elements(&scales); i++)
        y[i] = (float)(i % 3) * (has_sign ? 0.5f : 0.01f);
    in_buffer(codes, x);
    in_buffer(scales, y);
}

static void out_state8(const sw_shape *s, int alias)
{
    out((sw_type){SW_U8, SW_PLAIN, *s}, alias);
    out((sw_type){SW_F32, SW_PLAIN, sw_state8_scales(s)}, alias + 1);
}

/* Each row with a shorter last block. */
static void update8(size_t u, const sw_shape *s, int bits, bool odd)
{
    static const double corrections[] = {0.19, 0.0199};
    swi_update_attrs a = numbers[bits & 1];
    const int signs = sw_optim_state8((sw_optim)rules[u].rule), states = rules[u].n_state;
    a.rule = rules[u].rule;
    a.n_state = 2 * states;
    a.has_scale = (bits & 1) != 0;
    a.has_flag = (bits & 6) != 0;
    a.has_finite_check = (bits & 24) != 0;
    begin(rules[u].op, &a, 0,
          sw_textf("%s in 8 bits, rank %d, %lld, %d", rules[u].name, (int)s->rank,
                   (long long)s->dim[0], bits));
    in_sizes(s, false, 1.0f);
    in_sizes(s, odd, 3.0f);
    in_floats(1, knobs);
    for (int k = 0; k < states; k++)
        in_state8(s, (signs >> k & 1) != 0);
    if (a.has_corrections)
        in_doubles(2, corrections);
    in_conditions(&a, bits);
    out((sw_type){SW_F32, SW_PLAIN, *s}, 0);
    for (int k = 0; k < states; k++)
        out_state8(s, 3 + 2 * k);
    compare();
}

SW_TEST("updates with states in 8 bits do")
{
    static const sw_shape shapes[] = {{1, {5000}},        {2, {16, 300}}, {2, {3, 256}},
                                      {4, {40, 5, 3, 3}}, {2, {2, 7}},    {1, {1}}};
    static const int bits[] = {0, 1, 3, 4, 9, 16, 11};
    int kinds = 0;
    for (size_t u = 0; u < sizeof rules / sizeof *rules; u++) {
        if (sw_optim_state8((sw_optim)rules[u].rule) == 0)
            continue;
        kinds++;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int k = 0; k < 4; k++)
                update8(u, &shapes[i], k % 2, k / 2 != 0);
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
            update8(u, &shapes[1], bits[b], false);
    }
    CU_ASSERT_EQUAL(kinds, 4);
}

/* ---- adafactor --------------------------------------------------------------------------- */

static void in_matrices(const sw_shape *s, bool squares)
{
    const sw_type t = {SW_F32, SW_PLAIN, *s};
    float *x = sw_entry_block(sw_type_bytes(&t), 0);
    sw_rng_normal(x, 0, sw_type_elements(&t), 21, 23, (uint32_t)run.n_in, 0);
    for (int64_t i = 0; squares && i < sw_type_elements(&t); i++)
        x[i] *= x[i];
    in_buffer(t, x);
}

static void out_matrices(const sw_shape *s, int alias)
{
    out((sw_type){SW_F32, SW_PLAIN, *s}, alias);
}

/* The shape without its last axis, or without the one before. */
static sw_shape without(const sw_shape *s, int from_end)
{
    sw_shape r = *s;
    r.rank--;
    if (from_end == 2)
        r.dim[r.rank - 1] = s->dim[s->rank - 1];
    return r;
}

/* bits as of update(); k chooses how the rate comes about. */
static void adafactor(const sw_shape *s, size_t shift, int bits, int k)
{
    static const double corrections[][2] = {{0.3, 0.01}, {0.9, 0.3}};
    const bool factored = s->rank > 1;
    const sw_shape row = factored ? without(s, 1) : *s, col = factored ? without(s, 2) : *s;
    swi_update_attrs a =
        SW_INIT(.weight_decay = k == 1 ? 0.1f : 0.0f, .epsilon = k == 2 ? 0.9f : 1e-4f,
                .threshold = k == 0 ? 0.5f : 40.0f, .least = k == 3 ? 3.0f : 1e-3f,
                .fixed = k == 1, .reads = (bits & 32) != 0 ? SWI_READS_DECAY : 0,
                .n_state = factored ? 2 : 1, .has_corrections = 1, .has_scale = (bits & 1) != 0,
                .has_flag = (bits & 6) != 0, .has_finite_check = (bits & 24) != 0);
    begin(&sw_op_adafactor_update, &a, shift,
          sw_textf("rank %d, %lld last, %d, %d", (int)s->rank,
                   (long long)(s->rank > 0 ? s->dim[s->rank - 1] : 1), bits, k));
    in_matrices(s, false);
    in_matrices(s, false);
    in_floats(a.reads != 0 ? 2 : 1, knobs);
    in_matrices(&row, true);
    if (factored)
        in_matrices(&col, true);
    in_doubles(2, corrections[k % 2]);
    in_conditions(&a, bits);
    out_matrices(s, 0);
    out_matrices(&row, 3);
    if (factored)
        out_matrices(&col, 4);
    compare();
}

SW_TEST("adafactor does")
{
    static const sw_shape shapes[] = {{2, {5, 7}},    {2, {40, 36}},     {1, {37}},
                                      {0, {0}},       {1, {2605}},       {2, {33, 300}},
                                      {2, {3, 8400}}, {4, {5, 4, 3, 3}}, {3, {2, 34, 20}},
                                      {2, {300, 2}},  {4, {7, 5, 1, 1}}};
    static const int bits[] = {0, 3, 4, 9, 16, 11};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < 4; k++)
            adafactor(&shapes[i], 0, 1, k);
    for (size_t i = 0; i < 3; i++)
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
            adafactor(&shapes[i], b % 2, bits[b], (int)b % 4);
    adafactor(&shapes[4], 1, 0, 0);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        adafactor(&shapes[i], 0, 32 | 1, (int)i % 4);
}

/* ---- the rest ---------------------------------------------------------------------------- */

SW_TEST("kept gradients do")
{
    static const float flags[] = {0.0f, 1.0f};
    static const int64_t sizes[] = {1, 37, 2605};
    for (int i = 0; i < 12; i++) {
        const int64_t n = sizes[i % 3];
        begin(&sw_op_accumulate_into, NULL, (size_t)(i / 3 % 2), "kept");
        in_random(n, false);
        in_random(n, false);
        in_floats(1, &flags[i / 6]);
        out(vector(SW_F32, n), 0);
        out(vector(SW_F32, 1), 2);
        compare();
    }
}

SW_TEST("clipping does")
{
    static const double squares[] = {0.0, 4.0, 1e-6, 1e30, (double)NAN, (double)INFINITY};
    static const float most[] = {1.0f, 5.0f};
    for (int i = 0; i < 12; i++) {
        begin(&sw_op_clip_scale, NULL, 0, "clip");
        in_doubles(1, &squares[i / 2]);
        in_floats(1, &most[i % 2]);
        out(vector(SW_F32, 1), -1);
        compare();
    }
    for (int i = 0; i < 16; i++) { /* of what there is, with and without a flag, added to */
        static const float flags[] = {0.0f, 1.0f};
        static const int64_t sizes[] = {1, 37, 2605, 20001};
        begin(&sw_op_sumsq, NULL, (size_t)(i % 2), "squares");
        in_random(sizes[i / 4], false);
        if (i / 2 % 2 == 1)
            in_floats(1, &flags[i % 2]);
        out(vector(SW_F64, 1), -1);
        run.accumulate = (uint32_t)(i / 4 % 2);
        *(double *)run.out[0].ptr = 1.5;
        compare();
    }
}

SW_TEST("counters do")
{
    static const float flags[3][3] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 0}};
    static const double state[2] = {0.271, 0.002}, verdicts[] = {0.0, -1.0};
    for (int k = 0; k < 2 * 3 * 3 * 2 * 2; k++) {
        const int i = k / 2;
        const bool powers = i % 2 == 0, reads = powers && k % 2 == 1;
        const swi_tick_attrs a = {.beta1 = powers ? 0.9f : 0.8f,
                                  .beta2 = powers ? 0.999f : 0.0f,
                                  .has_flags = i / 2 % 3 != 0,
                                  .reads = reads ? SWI_READS_DECAY | SWI_READS_BETAS : 0,
                                  .has_finite_check = i / 6 % 3 != 0};
        begin(powers ? &sw_op_adam_tick : &sw_op_steps_tick, &a, 0, "tick");
        in_doubles(2, state);
        if (a.has_flags)
            in_floats(3, flags[i / 2 % 3 - 1 + i / 18]);
        if (reads)
            in_floats(4, knobs);
        if (a.has_finite_check)
            in_doubles(1, &verdicts[i / 6 % 3 - 1]);
        out(vector(SW_F64, 2), -1);
        out(vector(SW_F64, 2), 0);
        compare();
    }
}

SW_TEST("verdicts do")
{
    static const double all[4] = {0.0, 0.0, 5.0, -1.0};
    for (int n = 1; n <= 4; n++) {
        begin(&sw_op_any_verdict, NULL, 0, "any");
        for (int i = 0; i < n; i++)
            in_doubles(1, &all[(i + n) % 4]);
        out(vector(SW_F64, 1), -1);
        compare();
    }
    static const double counts[2][SWI_SKIPPED_N] = {{4, 2, 7, 0}, {4, 2, 7, 3}};
    for (int i = 0; i < 4; i++) {
        begin(&sw_op_note_verdict, NULL, 0, "note");
        in_doubles(SWI_SKIPPED_N, counts[i % 2]);
        in_doubles(1, &all[1 + i / 2]);
        out(vector(SW_F64, SWI_SKIPPED_N), 0);
        compare();
    }
    for (int i = 0; i < 12; i++) {
        static const float flags[2][2] = {{0, 0}, {0, 1}};
        const swi_count_attrs a = {i / 4 != 0};
        begin(&sw_op_count_skipped, &a, 0, "count");
        in_doubles(SWI_SKIPPED_N, counts[i % 2]);
        in_doubles(1, &all[1 + i / 2 % 2]);
        if (a.has_flags)
            in_floats(2, flags[i / 4 - 1]);
        out(vector(SW_F64, SWI_SKIPPED_N), 0);
        compare();
    }
}

/* Values that are not finite in the first place, in the middle and in the last one. */
SW_TEST("what is not finite is found")
{
    static const float odd[] = {1.0f, NAN, INFINITY, -INFINITY}, flags[] = {0.0f, 1.0f};
    static const double before[] = {0.0, 9.0},
                        bounds[] = {1.0, 2e38, 1e38, (double)NAN, (double)INFINITY};
    static float x[9001];
    for (int i = 0; i < 4 * 3 * 3 * 3 * 6; i++) {
        const int64_t n = i % 4 == 3 ? 9001 : 37;
        const swi_finite_attrs a = {4.0, i / 12 % 3 != 0, i / 36 % 3 != 0, i / 108 != 0,
                                    i / 108 != 0};
        begin(&sw_op_finite, &a, 0, "finite");
        sw_rng_normal(x, 0, n, 31, 32, 0, 0);
        x[i / 4 % 3 == 0 ? 0 : i / 4 % 3 == 1 ? n / 2 : n - 1] = odd[(i + i / 4) % 4];
        in_floats(n, x);
        if (a.has_before)
            in_doubles(1, &before[i / 12 % 3 - 1]);
        if (a.has_flag)
            in_floats(1, &flags[i / 36 % 3 - 1]);
        if (a.has_bound)
            in_doubles(1, &bounds[i / 108 - 1]);
        out(vector(SW_F64, 1), -1);
        compare();
    }
}

/* ---- labels and logits at the ends of their ranges --------------------------------------- */

enum { ROWS = 40, CLASSES = 70 };

/* Logits with many equal ones, x at place `at` + r * step of row r, and labels. */
static void in_rows_along(int at, int step, float x, const int32_t *labels)
{
    static float logits[ROWS * CLASSES];
    const sw_type matrix = F32(ROWS, CLASSES);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const int r = i / CLASSES;
        logits[i] = i % CLASSES == (at + r * step) % CLASSES ? x : (float)((i + r * 3) % 7);
    }
    in_buffer(matrix, logits);
    in_buffer(vector(SW_I32, ROWS), labels);
}

static void in_rows(int at, float x, const int32_t *labels)
{
    in_rows_along(at, 0, x, labels);
}

/* In each row another place is the hit: whatever lanes and warps have it. */
SW_TEST("hits are found by all lanes")
{
    int32_t labels[ROWS];
    for (int at = 0; at < 8; at++) {
        for (int r = 0; r < ROWS; r++)
            labels[r] = (at * 9 + r * (CLASSES - 1)) % CLASSES;
        begin(&sw_op_accuracy, NULL, 0, "all lanes");
        in_rows_along(at * 9, CLASSES - 1, 9.0f, labels);
        out((sw_type)SCALAR, -1);
        compare();
    }
}

SW_TEST("the first of equal logits is the hit")
{
    static const float odd[] = {0.0f, 9.0f, NAN};
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = (6 - i * 73 % 7) % 7;
    for (int at = 0; at < 34; at += at == 0 ? 32 : 1)
        for (int k = 0; k < 3; k++)
            for (int base = 0; base < 2; base++) {
                for (int i = 0; i < ROWS && base == 1; i++)
                    labels[i] = i % 2 == 0 ? at : 0;
                begin(&sw_op_accuracy, NULL, 0, "equal logits");
                in_rows(at, odd[k], labels);
                out((sw_type)SCALAR, -1);
                compare();
            }
}

/* Along both axes; NaNs win, zeros of both signs are equal. */
SW_TEST("the first of equal numbers is the largest")
{
    static const float odd[][3] = {{0, 1, 2},        {NAN, 9, NAN},  {-INFINITY, 9, 9},
                                   {-0.0f, 0.0f, 0}, {0, -0.0f, -1}, {INFINITY, -NAN, 3}};
    static float x[ROWS * CLASSES];
    const sw_type matrix = F32(ROWS, CLASSES);
    for (int i = 0; i < 2 * 6; i++) {
        const swi_sum_attrs a = {.axes = i % 2 == 0 ? 1 : 2};
        const int64_t n = i % 2 == 0 ? CLASSES : ROWS;
        begin(&sw_op_max, &a, 0, "equal numbers");
        for (int k = 0; k < ROWS * CLASSES; k++)
            x[k] = i < 6 ? -(float)(k % 5) : odd[i / 2][(k + k / CLASSES * 7) % 11 % 3];
        x[i] = x[3 * CLASSES + 64] = x[37 * CLASSES + 3] = odd[i / 2][i / 2 % 3];
        x[i + 1] = odd[i / 2][1];
        in_buffer(matrix, x);
        out(vector(SW_F32, n), -1);
        out((sw_type)U8(n, 1), -1);
        compare();
    }
}

/* A share that is exactly a number that was drawn, and what is next to it. */
SW_TEST("an element is dropped below the share")
{
    for (int i = 0; i < 9; i++) {
        const int64_t n = 45, at = 4 + i / 3 * 20;
        const uint32_t bits = (sw_entry_word(at) >> 8) + (uint32_t)(i % 3) - 1u;
        const swi_number_attrs a = {(float)bits * 0x1p-24f};
        begin(&sw_op_dropout, &a, 0, "a share that is met");
        run.random = true;
        in_random(n, false);
        out(vector(SW_F32, n), -1);
        sw_entry_compare(&run);
        CU_ASSERT_EQUAL(((const float *)run.out[0].ptr)[at] == 0.0f, i % 3 == 2);
        sw_entry_free();
    }
}

static void out_loss(void)
{
    out((sw_type)SCALAR, -1);
    out(vector(SW_F32, ROWS), -1);
}

/* Masked logits count for nothing; of no rows that count the loss is 0. */
SW_TEST("cross-entropy does at its ends")
{
    static const swi_ce_attrs attrs[] = {{0.0f, 0, 0}, {0.0f, 1, 4}, {0.2f, 1, 4}};
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = 4;
    for (size_t k = 0; k < sizeof attrs / sizeof *attrs; k++) {
        begin(&sw_op_softmax_ce, &attrs[k], 0, "masked, ignored");
        in_rows(5, k == 0 ? -INFINITY : 1.0f, labels);
        out_loss();
        compare();
        run = sw_entry_of("gradient, masked, ignored", &sw_op_softmax_ce, 0, &attrs[k]);
        in_rows(5, 1.0f, labels);
        in_random(ROWS, true);
        in_floats(1, (const float[]){0.5f});
        out((sw_type)F32(ROWS, CLASSES), -1);
        compare();
    }
}

/* Rows begin at any address, and dx at others than x. A row of -inf alone has no sum. */
SW_TEST("cross-entropy takes rows of any address")
{
    static const swi_ce_attrs attrs = {0.1f, 0, 0};
    static const float one[] = {1.0f}, lse[] = {0.5f, 2.0f, -1.0f};
    static float x[3 * 2100];
    static const int32_t labels[3] = {0};
    for (int64_t cols = 1; cols < 2100; cols += cols < 9 ? 1 : cols < 1000 ? 347 : 1001)
        for (size_t shift = 0; shift < 4; shift++) {
            const sw_type matrix = F32(3, cols);
            sw_rng_normal(x, 0, 3 * cols, 31, 32, 0, 0);
            for (int64_t i = 0; i < cols && shift == 3; i++)
                x[cols + i] = -INFINITY;
            begin(&sw_op_softmax_ce, &attrs, shift, "any address");
            in_buffer(matrix, x);
            in_buffer(vector(SW_I32, 3), labels);
            out((sw_type)SCALAR, -1);
            out(vector(SW_F32, 3), -1);
            compare();
            run = sw_entry_of("gradient, any address", &sw_op_softmax_ce, 0, &attrs);
            run.shift = shift;
            in_buffer(matrix, x);
            in_buffer(vector(SW_I32, 3), labels);
            in_floats(3, lse);
            in_floats(1, one);
            out(matrix, -1);
            const sw_buffer apart = sw_entry_buffer(&matrix, shift + 1);
            sw_entry_launch(run.entry, run.in, 4, &apart, 1, &attrs);
            sw_entry_launch(run.entry, run.in, 4, run.out, 1, &attrs);
            CU_ASSERT_EQUAL(memcmp(apart.ptr, run.out[0].ptr, sw_type_bytes(&matrix)), 0);
            compare();
        }
}

/* The CPU refuses such labels; a kernel can only say so by its result. */
SW_TEST("a label out of range makes the loss NaN")
{
    static const int32_t bad[] = {CLASSES, -1, CLASSES - 1};
    static const swi_ce_attrs attrs = {0.0f, 0, 0};
    for (int k = 0; k < 3; k++) {
        int32_t labels[ROWS] = {0};
        labels[ROWS / 2] = bad[k];
        begin(&sw_op_softmax_ce, &attrs, 0, "a label out of range");
        in_rows(0, 1.0f, labels);
        out_loss();
        sw_entry_launch(run.entry, run.in, 2, run.out, 2, &attrs);
        CU_ASSERT_EQUAL(isnan(*(const float *)run.out[0].ptr) != 0, k < 2);
        sw_entry_free();
    }
}

/* ---- gradient and update by tiles -------------------------------------------------------- */

enum { BATCH = 19 };
static const struct {
    const char *what;
    int64_t rows, tile; /* of the parameter, of a tile */
    uint32_t op;
    swi_update_attrs update;
} tiles[] = {
#define TILES(what, rows, tile, kind, ...)                                                     \
    {what, rows, tile, SW_OP_##kind##_update, {__VA_ARGS__}},
#define SW_OPTIMIZER(kind, states, operations)                                                 \
    TILES(#kind " in two tiles", 130, 24, kind, .rule = SW_OPTIM_##kind, .beta1 = 0.9f,        \
          .beta2 = 0.99f, .epsilon = 1e-3f, .n_state = states)
#define MOMENTUM .rule = SW_OPTIM_momentum, .momentum = 0.9f, .n_state = 1
#include "kernels/optimizers.def"
    TILES("sgd, last tile smaller", 300, 24, sgd, .rule = SW_OPTIM_sgd)
        TILES("momentum, whole tiles", 256, 48, sgd, MOMENTUM) TILES(
            "adam, tiles of the runtime's size", 300, 144, adam, .rule = SW_OPTIM_adam,
            .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f, .n_state = 2, .has_corrections = 1)
            TILES("rmsprop, one tile", 100, 24, rmsprop, .rule = SW_OPTIM_rmsprop,
                  .beta2 = 0.9f, .epsilon = 1e-3f, .n_state = 1)};

static void in_matrix(int64_t rows, int64_t cols, float first)
{
    float *x = sw_entry_block((size_t)(rows * cols) * sizeof *x, 0);
    sw_rng_normal(x, 0, rows * cols, 31, 32, (uint32_t)run.n_in, 0);
    for (int64_t i = 0; i < rows * cols; i++) /* the gradient's factors are eighths, whose sums
                                                 are exact; states and parameters squares */
        x[i] = run.n_in < 2 ? roundf(8.0f * x[i]) / 8.0f : x[i] * x[i];
    x[0] = first;
    in_buffer((sw_type)F32(rows, cols), x);
}

/* Operands in their place, shifted, and with states in 8 bits where the rule has them: blocks
 * of a row of which the last one is shorter. */
SW_TEST("gradients and updates by tiles do")
{
    int in8 = 0;
    for (size_t k = 0; k < 3 * sizeof tiles / sizeof *tiles; k++) {
        const size_t i = k / 3;
        const int signs = sw_optim_state8((sw_optim)tiles[i].update.rule),
                  states = tiles[i].update.n_state;
        const bool state8 = k % 3 == 2;
        const int64_t cols = state8 ? 300 : 7;
        const sw_type param = F32(tiles[i].rows, cols);
        if (state8 && signs == 0)
            continue;
        in8 += state8;
        swi_tile_attrs a = SW_INIT(.make_op = SW_OP_linear, .make_grad = 1, .n_make = 2,
                                   .update_op = tiles[i].op, .rows = tiles[i].tile);
        swi_update_attrs by = tiles[i].update;
        by.n_state *= 1 + state8;
        memcpy(a.attrs, &by, sizeof by);
        begin(&sw_op_tile_update, &a, k % 3 == 1,
              sw_textf("%s%s", tiles[i].what, state8 ? ", in 8 bits" : ""));
        in_matrix(BATCH, cols, 0.5f);
        in_matrix(BATCH, tiles[i].rows, 1.0f);
        const int first = run.n_in;
        in_matrix(tiles[i].rows, cols, 1.0f);
        in_floats(1, (const float[]){0.01f});
        for (int s = 0; s < states; s++)
            if (state8)
                in_state8(&param.shape, (signs >> s & 1) != 0);
            else
                in_matrix(tiles[i].rows, cols, 1.0f);
        if (tiles[i].update.has_corrections)
            in_doubles(2, (const double[]){0.19, 0.02});
        out(param, first);
        for (int s = 0; s < states; s++)
            if (state8)
                out_state8(&param.shape, first + 2 + 2 * s);
            else
                out(param, first + 2 + s);
        const int64_t each = (a.rows + 127) / 128 * 128;
        uint64_t before_it, launches;
        sw_side_counts(&before_it);
        sw_entry_compare(&run); /* three times */
        CU_ASSERT(!sw_side_counts(&launches) ||
                  launches - before_it >=
                      (uint64_t)(3 * 2 * ((tiles[i].rows + each - 1) / each)));
        sw_entry_free();
    }
    CU_ASSERT_EQUAL(in8, 4);
}

/* ---- noise ------------------------------------------------------------------------------- */

/* Cases that descriptors of ops with noise do not have, on both sides: the sigmas of
 * snes_update and the steps of noise_move, and numbers of each evaluation of ops that have
 * attributes. */

/* The first input in its place; uniform numbers, changed by random ones. */
static void in_place(int64_t n)
{
    run.random = true;
    float *x = sw_entry_block((size_t)n * sizeof *x, 0);
    sw_rng_uniform(x, 0, n, 31, 32, 33, 0);
    in_floats(n, x);
    out(vector(SW_F32, n), 0);
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
    float weights[200];
    with.has_finite_check = check != 0;
    begin(&sw_op_snes_update, &with, shift,
          sw_textf("kind %d.%d, %lld x %lld, %lld directions, check %d", a->spec.kind,
                   a->spec.distribution, (long long)a->spec.rows, (long long)a->spec.cols,
                   (long long)directions, check));
    sw_rng_normal(weights, 0, directions, 34, 35, 36, 0);
    for (int64_t d = 0; d < directions; d++)
        weights[d] *= 0.125f;
    in_place(a->spec.rows * a->spec.cols);
    in_floats(directions, weights);
    in_floats(1, &rate);
    if (check != 0)
        in_doubles(1, &verdict[check - 1]);
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
    static const float by[SWI_MOVE_NUMBERS] = {0.05f, 0.7f, 0.01f, 0.3f};
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
                begin(&sw_op_noise_move, &a, (size_t)(bits / 2),
                      sw_textf("noise %d, move %d, decays %d", (int)i, move, bits & 1));
                in_place(specs[i].rows * specs[i].cols);
                in_floats(SWI_MOVE_NUMBERS, by);
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
    const sw_type x = F32(6 * n, cols);
    float *given = sw_entry_block((size_t)(6 * n * cols + 1) * sizeof *given, 0);
    uint8_t *ids = sw_entry_block((size_t)(6 * n), 0);
    sw_rng_normal(given, 0, 6 * n * cols + 1, 51, 52, 53, 0);
    for (int64_t i = 0; i < 6 * n; i++)
        ids[i] = (uint8_t)(i < n ? 1 : i * 7 % cols); /* the first counts nothing */
    begin(&sw_op_each, a, 0,
          sw_textf("%s, %lld x %lld", a->name, (long long)n, (long long)cols));
    run.must_alias = false;
    in_buffer(x, given);
    if (labels == 1)
        in_buffer(vector(SW_U8, 6 * n), ids);
    if (labels == 2)
        in_buffer(x, given + 1);
    run.accumulate = adds;
    out(vector(SW_F32, 6), -1);
    sw_rng_normal(run.out[0].ptr, 0, 6, 54, 55, 56, 0);
    compare();
}

SW_TEST("numbers of evaluations are those of the CPU")
{
    static const swi_number_attrs number = {0.75f};
    static const swi_ce_attrs attrs[] = {{0.1f, 0, 0}, {0.0f, 1, 1}, {0.2f, 1, 1}};
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
        for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
            const swi_each_attrs ce =
                each_of(SW_OP_softmax_ce, "softmax_ce", &attrs[i], sizeof attrs[i]);
            each(&ce, n, 37, 1, false);
        }
    }
}

SW_TEST("another op is refused by name")
{
    const swi_each_attrs a = each_of(SW_OP_mse, "median", "", 0);
    float x[12] = {0.0f};
    const sw_type type = F32(6, 2), y = F32(6);
    const sw_cuda_entry *entry = sw_side_entry("each", SW_CUDA_FORWARD);
    const sw_buffer in = sw_entry_fill(&type, x, false, 0.0f, 0), out = sw_entry_buffer(&y, 0);
    const sw_launch l =
        SW_OPTS(sw_launch, .in = &in, .n_in = 1, .out = &out, .n_out = 1, .attrs = &a);
    sw_side_choose(0);
    CU_ASSERT_EQUAL(sw_side_launch(entry, &l, (sw_cuda_counters){0, 0}), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "median"));
    sw_entry_free();
}
