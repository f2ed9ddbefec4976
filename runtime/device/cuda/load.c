/* The driver's functions by name, and kernels brought onto the card before they are needed.
 *
 * CUDA loads a kernel at its first launch, unless the process was started with
 * CUDA_MODULE_LOADING=EAGER; that is the program's environment and not a library's to set.
 * Loading takes memory and may wait for the card. So each unit of kernels/cuda has one kernel
 * of known name (device.h) that does nothing: it leads to the unit's module, and that to all
 * others in it. */
#include "runtime/device/cuda/host.h"
#include <string.h>

#if CUDART_VERSION >= 12050
#define SWI_CUDA_FINDER "cudaGetDriverEntryPointByVersion"
#else
#define SWI_CUDA_FINDER "cudaGetDriverEntryPoint"
#endif

static cudaError_t find(const char *name, unsigned version, void **out)
{
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
    *out = NULL;
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, out, version, cudaEnableDefault, &result);
#else
    (void)version; /* that of the runtime, which is what its headers declare */
    const cudaError_t error = cudaGetDriverEntryPoint(name, out, cudaEnableDefault, &result);
#endif
    if (result != cudaDriverEntryPointSuccess)
        *out = NULL;
    return error;
}

sw_status swi_cuda_find_driver(swi_cuda_driver *out)
{
    void *found;
    cudaError_t error;
#define SWI_CUDA_FIND(name, version)                                                           \
    error = find(#name, version, &found);                                                      \
    if (error != cudaSuccess)                                                                  \
        return swi_cuda_fail(error, SWI_CUDA_FINDER, "%s", #name);                             \
    memcpy(&out->name, &found, sizeof found);
    SWI_CUDA_DRIVER(SWI_CUDA_FIND)
    SWI_CUDA_LOADER(SWI_CUDA_FIND)
#undef SWI_CUDA_FIND
    return SW_OK;
}

#if defined(SW_CUDA_UNITS) && CUDA_VERSION >= 12040

/* The list of units, as SW_CUDA_UNITS(X) gives it, and the kernels that device.h makes for
 * them.
 */
#define SWI_CUDA_DECLARE(unit) void sw_cuda_anchor_##unit(void);
SW_CUDA_UNITS(SWI_CUDA_DECLARE)
#undef SWI_CUDA_DECLARE

/* *loaded becomes false where the driver does not bring them: they come when launched. */
static sw_status load_module(const swi_cuda_driver *d, CUmodule module, bool *loaded)
{
    unsigned n = 0;
    void *block;
    CUresult error = d->cuModuleGetFunctionCount(&n, module);
    if (error == CUDA_SUCCESS && n > 0) {
        SW_TRY(sw_cuda_its_host.alloc(&block, n * sizeof(CUfunction)));
        CUfunction *functions = block;
        error = d->cuModuleEnumerateFunctions(functions, n, module);
        for (unsigned i = 0; i < n && error == CUDA_SUCCESS; i++)
            error = d->cuFuncLoad(functions[i]);
        sw_cuda_its_host.free(block, n * sizeof(CUfunction));
    }
    if (error == CUDA_ERROR_OUT_OF_MEMORY)
        return swi_cuda_fail_driver(error, "cuFuncLoad", "%u kernels", n);
    *loaded = *loaded && error == CUDA_SUCCESS;
    return SW_OK;
}

/* Code that the card cannot run is found here. */
static sw_status load_unit(const swi_cuda_driver *d, void (*anchor)(void), const char *unit,
                           bool *loaded)
{
    cudaFunction_t function;
    CUmodule module;
    const cudaError_t error = cudaGetFuncBySymbol(&function, (const void *)(uintptr_t)anchor);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaGetFuncBySymbol", "%s", unit);
    if (*loaded && d->cuFuncGetModule(&module, function) == CUDA_SUCCESS)
        return load_module(d, module, loaded);
    *loaded = false;
    return SW_OK;
}

sw_status swi_cuda_load_kernels(sw_cuda_device *device)
{
    const swi_cuda_driver *d = &device->driver;
    bool loaded = d->cuFuncGetModule != NULL && d->cuModuleGetFunctionCount != NULL &&
                  d->cuModuleEnumerateFunctions != NULL && d->cuFuncLoad != NULL;
#define SWI_CUDA_LOAD(unit) SW_TRY(load_unit(d, sw_cuda_anchor_##unit, #unit, &loaded));
    SW_CUDA_UNITS(SWI_CUDA_LOAD)
#undef SWI_CUDA_LOAD
    device->info.loaded = loaded;
    return SW_OK;
}

#else

sw_status swi_cuda_load_kernels(sw_cuda_device *device)
{
    device->info.loaded = false;
    return SW_OK;
}

#endif
