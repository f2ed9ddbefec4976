/* In place of the tests of the CUDA kernels where nothing compiles C++. */
#include "tests/support/suite.h"

SW_TESTS("cuda")

SW_TEST("CUDA kernels under the emulator")
{
    SW_SKIP("no C++ compiler was there when this folder was configured");
}
