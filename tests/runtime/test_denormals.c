/* Denormals are zero while a run computes, in all of its threads, and the caller's mode is as
 * it was after it: rounding, flushing and masks. */
#include "runtime/stepwell.h"
#include "tests/support/made.h"

SW_TESTS("denormals")

#if defined(__x86_64__)
#include <immintrin.h>

enum { N = 200000 }; /* several parts for each thread */
#define MODE 0xffc0u /* all of MXCSR but what has happened so far */

static float numbers[N];
static uint32_t seen_inside;

/* Products that are denormals, and denormals as they stand. */
static void step(sw_ctx *c, void *user)
{
    seen_inside = _mm_getcsr() & MODE;
    const sw_value x = sw_input(c, 0);
    sw_output(c, "products", sw_mul(c, x, x));
    sw_output(c, "halves", sw_scale_by(c, x, 0.5f));
}

static void bad_label(sw_ctx *c, void *user)
{
    sw_output(c, "y", sw_softmax_ce(c, sw_input(c, 0), sw_input(c, 1)));
}

static sw_status run(sw_exec *exec, int immediate)
{
    const sw_array input = {SW_F32, SW_SHAPE(N), numbers};
    return sw_run(exec, &SW_OPTS(sw_run_args, .fn = step, .inputs = &input, .n_inputs = 1,
                                 .immediate = immediate));
}

static sw_status run_badly(sw_exec *exec, int immediate)
{
    static const float logits[4];
    static const int32_t labels[2] = {0, 7};
    const sw_array inputs[] = {{SW_F32, SW_SHAPE(2, 2), logits}, {SW_I32, SW_SHAPE(2), labels}};
    return sw_run(exec, &SW_OPTS(sw_run_args, .fn = bad_label, .inputs = inputs, .n_inputs = 2,
                                 .immediate = immediate));
}

static int not_zero(sw_exec *exec, const char *name)
{
    sw_array y;
    int n = 0;
    CU_ASSERT_EQUAL_FATAL(sw_output_get(exec, name, &y), SW_OK);
    for (int i = 0; i < N; i++)
        n += ((const uint32_t *)y.data)[i] != 0;
    return n;
}

SW_TEST("denormals are zero in every thread of a run")
{
    for (int threads = 1; threads <= 4; threads++) {
        sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = threads));
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i < N; i++)
                numbers[i] = k < 2 ? 1e-20f : 2e-38f;
            CU_ASSERT_EQUAL_FATAL(run(exec, k & 1), SW_OK);
            CU_ASSERT_EQUAL(not_zero(exec, k < 2 ? "products" : "halves"), 0);
        }
    }
}

/* Whatever it is; a run that fails puts it back too, and the bits are those of the usual
 * mode. */
SW_TEST("the caller's mode is put back")
{
    static const uint32_t modes[] = {0x1f80u, 0x7f80u,           0x3f80u,
                                     0x9fc0u, 0x1f80u | 0x8000u, 0x1f80u | 0x0040u};
    static float first[N];
    const uint32_t before = _mm_getcsr();
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = 3));
    for (int i = 0; i < N; i++)
        numbers[i] = 1.0f + (float)i * 1e-6f;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (int immediate = 0; immediate < 2; immediate++) {
            _mm_setcsr(modes[m]);
            const sw_status good = run(exec, immediate);
            const uint32_t behind = _mm_getcsr() & MODE;
            const sw_status bad = run_badly(exec, immediate);
            const uint32_t behind_bad = _mm_getcsr() & MODE;
            _mm_setcsr(before);
            CU_ASSERT(good == SW_OK && bad == SW_INVALID);
            SW_CHECK(behind == modes[m], "%#x became %#x", modes[m], behind);
            SW_CHECK(behind_bad == modes[m], "%#x became %#x", modes[m], behind_bad);
            if (m == 0) /* traced in the caller's mode */
                CU_ASSERT_EQUAL(seen_inside, immediate ? 0x9fc0u : modes[m]);
            CU_ASSERT_EQUAL_FATAL(run(exec, immediate), SW_OK);
            sw_array y;
            CU_ASSERT_EQUAL_FATAL(sw_output_get(exec, "products", &y), SW_OK);
            if (m == 0 && !immediate)
                memcpy(first, y.data, sizeof first);
            CU_ASSERT_EQUAL(memcmp(first, y.data, sizeof first), 0);
        }
}
#else
SW_TEST("denormals are zero in every thread of a run")
{
    SW_SKIP("denormals are flushed on x86-64 alone");
}
#endif
