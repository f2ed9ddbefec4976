/* Frozen weights: read by steps in the type that they are stored in, with the bits of the same
 * numbers in float32; not trained, not saved, and counted among the parameters. */
#include "kernels/dispatch.h"
#include "runtime/model/model.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/tuned.h"
#include "tests/support/files.h"

SW_TESTS("weights")

SW_TEST("weights in bf16 have the bits and the arena of the same numbers in float32")
{
    static const char *const isa[] = {"base", "avx2", NULL};
    const size_t numbers = TUNED_VOCABULARY * TUNED_WIDTH + 2 * TUNED_WIDTH * TUNED_WIDER;
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads < 3; threads++)
            for (int k = 0; k < 3; k++) {
                sw_plan_info plan[2];
                if (i == 1 && sw_cpu_isa() < SW_ISA_AVX2)
                    continue;
                (void)tuned_same_runs(&SW_OPTS(sw_exec_opts, .isa = isa[i], .threads = threads),
                                      (int64_t[]){1, 37, TUNED_TOKENS}[k], plan);
                CU_ASSERT_EQUAL(plan[0].arena_bytes, plan[1].arena_bytes);
                CU_ASSERT_EQUAL(plan[0].model_bytes, plan[1].model_bytes + 2 * numbers);
            }
}
