/* Functions of one number on the device, held against the CPU's kernels bit by bit over the
 * floats that tests/kernels/test_accuracy.c judges: they are the same formulas. */
#include "kernels/attrs.h"
#include "kernels/dispatch.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include "tools/bench/accuracy.h"

SW_TESTS("curve bits")

enum { PIECE = 65536 };
#define STEP (sw_tests_full() ? 4099u : 12289u)
#define SAMPLES (sw_tests_full() ? 1047809 : 349494)
static float x[PIECE], ones[PIECE], want[PIECE];

static void alone(const sw_par *par, void (*body)(void *, int), void *arg, int n_parts)
{
    for (int i = 0; i < n_parts; i++)
        body(arg, i);
}

/* Elements of the row's kernel that have other bits; NaNs are alike. */
static int different(const accuracy_row *row, int n)
{
    const sw_cuda_entry *entry = sw_side_entry(row->kind == SW_UNARY_pow ? "pow" : row->name,
                                               row->slope ? 0 : SW_CUDA_FORWARD);
    const sw_type type = F32(n);
    const swi_number_attrs attrs = {row->param};
    const sw_buffer in[] = {sw_entry_fill(&type, x, false, 0.0f, 0),
                            sw_entry_fill(&type, ones, false, 0.0f, 0)};
    const sw_buffer out = sw_entry_buffer(&type, 0);
    const sw_par par = {.n_threads = 1, .run = alone};
    const sw_launch l = SW_OPTS(sw_launch, .in = in, .n_in = row->slope ? 2 : 1, .out = &out,
                                .n_out = 1, .attrs = &attrs);
    const float *got = out.ptr;
    int n_different = 0;
    CU_ASSERT_EQUAL_FATAL(sw_side_launch(entry, &l, (sw_cuda_counters){0}), SW_OK);
    if (row->slope)
        sw_pointwise(SW_ISA_BASE)
            ->unary_dx(row->kind, want, ones, x, n, row->param, false, false, &par);
    else
        sw_pointwise(SW_ISA_BASE)->unary(row->kind, want, x, n, row->param, false, &par);
    for (int i = 0; i < n; i++)
        n_different += memcmp(&got[i], &want[i], sizeof want[i]) != 0 &&
                       !(isnan(got[i]) && isnan(want[i]));
    sw_entry_free();
    return n_different;
}

SW_TEST("functions of one number have the bits of the CPU's kernels")
{
    for (int i = 0; i < PIECE; i++)
        ones[i] = 1.0f;
    for (int r = 0; r < n_accuracy_rows; r++) {
        int n_different = 0;
        if (accuracy_rows[r].by != ACCURACY_UNARY)
            continue; /* kernels with codes: test_entries.c */
        for (int at = 0; at < SAMPLES; at += PIECE) {
            const int n = SAMPLES - at < PIECE ? SAMPLES - at : PIECE;
            for (int i = 0; i < n; i++) {
                const uint32_t bits = (uint32_t)(at + i) * STEP;
                memcpy(&x[i], &bits, sizeof bits);
            }
            n_different += different(&accuracy_rows[r], n);
        }
        SW_CHECK(n_different == 0, "%s, %s: %d of %d have other bits", accuracy_rows[r].name,
                 accuracy_rows[r].slope ? "slope" : "value", n_different, SAMPLES);
    }
}
