#include "tests/cuda/fake_card.h"
#include "tests/support/suite.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MODULE SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so"

const sw_fake_api *sw_fake_card_api(void)
{
    static const sw_fake_api *api;
    if (api != NULL)
        return api;
    setenv("STEPWELL_CUDA_MODULE", MODULE, 1);
    void *file = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    sw_fake_opener *open = NULL;
    void *symbol = file != NULL ? dlsym(file, "sw_fake") : NULL;
    memcpy(&open, &symbol, sizeof open);
    SW_CHECK(open != NULL, "%s", dlerror());
    CU_ASSERT_PTR_NOT_NULL_FATAL(open);
    return api = open();
}
