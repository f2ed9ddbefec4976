/* The headers look for this file's function pointer when the first range begins. */
#include "tests/profiler/nvtx_recorder.h"
#include <stdio.h>
#include <string.h>

static char text[4096];

void nvtx_recorder_clear(void)
{
    text[0] = '\0';
}

const char *nvtx_recorder_text(void)
{
    return text;
}

#if SW_HAVE_NVTX
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

static int push(const char *name)
{
    const size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s(", name);
    return 0;
}

static int pop(void)
{
    const size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, " )");
    return 0;
}

static int listen(NvtxGetExportTableFunc_t table)
{
    const NvtxExportTableCallbacks *callbacks = table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned n;
    if (callbacks == NULL ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &n))
        return 0;
    *functions[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

extern NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = listen;

bool nvtx_recorder_is_built(void)
{
    return true;
}
#else
bool nvtx_recorder_is_built(void)
{
    return false;
}
#endif
