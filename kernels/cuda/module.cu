/* The module's table, and what it keeps of its host. */
#include "kernels/cuda/api.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/entries.h"

static const sw_cuda_entry entries[] = {
#define SW_CUDA_KERNEL(op, which, function, scratch, exact)                                    \
    {#op, which, function, scratch, (exact) % SW_CUDA_GROUPS, (exact) / SW_CUDA_GROUPS},
#include "kernels/cuda/table.def"
#undef SW_CUDA_KERNEL
};

static const sw_cuda_fusion fusions[] = {
#define SW_CUDA_FUSION(first, then, joins, function) {#first, #then, joins, function},
#include "kernels/cuda/fusions.def"
#undef SW_CUDA_FUSION
};

sw_cuda_host sw_cuda_its_host;

extern "C" const sw_cuda_module *sw_cuda_module_make(const sw_cuda_host *host,
                                                     const sw_cuda_api *api)
{
    static sw_cuda_module module = {SW_CUDA_ABI,
                                    sizeof(sw_cuda_module),
                                    sizeof(sw_cuda_entry),
                                    sizeof entries / sizeof *entries,
                                    entries,
                                    sizeof(sw_cuda_api),
                                    nullptr,
                                    sizeof(sw_cuda_fusion),
                                    sizeof fusions / sizeof *fusions,
                                    fusions};
    if (host == nullptr || host->abi != SW_CUDA_ABI || host->size != sizeof *host)
        return nullptr;
    sw_cuda_its_host = *host;
    module.api = api;
    return &module;
}

sw_status sw_cuda_launched(const char *kernel)
{
    const cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        return SW_OK;
    return sw_cuda_its_host.fail(SW_DEVICE, __FILE__, __LINE__, "%s: %s", kernel,
                                 cudaGetErrorString(error));
}
