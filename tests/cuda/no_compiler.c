/* In place of the tests of the CUDA kernels where nothing compiles C++. */
#include "tests/support/suite.h"

static void kernels_under_the_emulator(void)
{
    SW_SKIP("no C++ compiler was there when this folder was configured");
}

static const sw_test tests[] = {
    {"CUDA kernels under the emulator", kernels_under_the_emulator},
};
SW_SUITE("cuda", tests)
