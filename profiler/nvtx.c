/* The only file that includes NVTX: each translation unit with these headers would look for the
 * tool by itself. The headers open the tool's library on the first call, and only when one is
 * named in the environment. */
#include "profiler/nvtx.h"

#if SW_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>

void sw_nvtx_push(const char *name)
{
    (void)nvtxRangePushA(name);
}

void sw_nvtx_pop(void)
{
    (void)nvtxRangePop();
}
#else
void sw_nvtx_push(const char *name)
{
    (void)name;
}

void sw_nvtx_pop(void)
{
}
#endif
