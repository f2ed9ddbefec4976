/* Convolutions of sizes that no kernel counts. */
#include "kernels/attrs.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <string.h>

SW_TESTS("conv")

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
