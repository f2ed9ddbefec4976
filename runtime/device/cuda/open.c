/* Cards: what is there, what is required, and one line where they differ. */
#include "runtime/device/cuda/host.h"
#include <stdlib.h>
#include <string.h>

/* ---- what is there ----------------------------------------------------------------------- */

static sw_status check_driver(int *driver, int *runtime)
{
    *driver = 0;
    cudaError_t error = cudaDriverGetVersion(driver);
    if (error != cudaSuccess && error != cudaErrorInsufficientDriver)
        return swi_cuda_fail(error, "cudaDriverGetVersion", "%s", "");
    error = cudaRuntimeGetVersion(runtime);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaRuntimeGetVersion", "%s", "");
    (void)cudaGetLastError();
    if (*driver == 0)
        SWI_CUDA_REFUSE(SW_DEVICE,
                        "this machine has no NVIDIA driver: one for CUDA %d is needed",
                        *runtime / 1000);
    return SW_OK;
}

/* Cards of the machine, as far as CUDA_VISIBLE_DEVICES lets the process see them. */
static sw_status check_count(int ordinal, int driver, int runtime)
{
    int n = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        SWI_CUDA_REFUSE(
            SW_DEVICE,
            "the NVIDIA driver is too old: it is for CUDA %d.%d, the module was built "
            "with %d.%d; update the driver, or build with an older toolkit",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error != cudaSuccess && error != cudaErrorNoDevice)
        return swi_cuda_fail(error, "cudaGetDeviceCount", "%s", "");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (error == cudaErrorNoDevice || ordinal < 0 || ordinal >= n)
        SWI_CUDA_REFUSE(SW_DEVICE, "there is no device cuda:%d: %d %s found%s%s%s", ordinal,
                        error == cudaSuccess ? n : 0, n == 1 ? "was" : "were",
                        error == cudaSuccess && n > 0 ? ", the first is cuda:0" : "",
                        visible != NULL ? ", CUDA_VISIBLE_DEVICES is " : "",
                        visible != NULL ? visible : "");
    return SW_OK;
}

static sw_status check_capability(int ordinal, int *major, int *minor)
{
    cudaError_t error =
        cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, ordinal);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaDeviceGetAttribute", "cuda:%d", ordinal);
    if (*major * 10 + *minor < 75)
        SWI_CUDA_REFUSE(SW_DEVICE,
                        "cuda:%d has compute capability %d.%d: 7.5 and up are supported",
                        ordinal, *major, *minor);
    return SW_OK;
}

/* ---- opening ----------------------------------------------------------------------------- */

static sw_status read_info(sw_cuda_device *device)
{
    sw_cuda_info *info = &device->info;
    const swi_cuda_driver *d = &device->driver;
    CUresult result = d->cuDeviceGet(&device->handle, device->ordinal);
    if (result != CUDA_SUCCESS)
        return swi_cuda_fail_driver(result, "cuDeviceGet", "cuda:%d", device->ordinal);
    result = d->cuDeviceGetName(info->name, (int)sizeof info->name, device->handle);
    if (result != CUDA_SUCCESS)
        return swi_cuda_fail_driver(result, "cuDeviceGetName", "cuda:%d", device->ordinal);
    info->name[sizeof info->name - 1] = '\0';
#ifdef SW_CUDA_BLAS
    info->blas = sw_cuda_blas_version();
#endif
    return swi_cuda_find_mapping(device);
}

static sw_status read_memory(sw_cuda_info *info)
{
    size_t left, total;
    const cudaError_t error = cudaMemGetInfo(&left, &total);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaMemGetInfo", "%s", "");
    info->free_bytes = left;
    info->total_bytes = total;
    return SW_OK;
}

static sw_status open_card(sw_cuda_device *device)
{
    sw_cuda_info *info = &device->info;
    SW_TRY(check_driver(&info->driver, &info->runtime));
    SW_TRY(check_count(device->ordinal, info->driver, info->runtime));
    SW_TRY(check_capability(device->ordinal, &info->major, &info->minor));
    SW_TRY(swi_cuda_use(device));
    SW_TRY(swi_cuda_find_driver(&device->driver));
    SW_TRY(read_info(device));
    SW_TRY(swi_cuda_load_kernels(device));
    SW_TRY(swi_cuda_sync(device));
    SW_TRY(read_memory(info));
    info->open_bytes = info->free_bytes;
    return SW_OK;
}

static void destroy(sw_cuda_device *device)
{
    pthread_mutex_destroy(&device->ranges_lock);
    pthread_mutex_destroy(&device->capture_lock);
    sw_cuda_its_host.free(device, sizeof *device);
}

sw_status swi_cuda_open(sw_cuda_device **out, int ordinal)
{
    void *block;
    pthread_mutexattr_t knowing;
    SW_TRY(sw_cuda_its_host.alloc(&block, sizeof(sw_cuda_device)));
    sw_cuda_device *device = block;
    device->ordinal = ordinal;
    pthread_mutex_init(&device->ranges_lock, NULL);
    pthread_mutexattr_init(&knowing);
    pthread_mutexattr_settype(&knowing, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&device->capture_lock, &knowing);
    pthread_mutexattr_destroy(&knowing);
    const sw_status status = open_card(device);
    if (status != SW_OK) {
        destroy(device);
        return status;
    }
    *out = device;
    return SW_OK;
}

/* The context stays: it is the process's, and others may use it. */
void swi_cuda_close(sw_cuda_device *device)
{
    if (device != NULL)
        destroy(device);
}

/* ---- open -------------------------------------------------------------------------------- */

sw_status swi_cuda_use(sw_cuda_device *device)
{
    const cudaError_t error = cudaSetDevice(device->ordinal);
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaSetDevice", "cuda:%d", device->ordinal);
}

sw_status swi_cuda_info(sw_cuda_device *device, sw_cuda_info *out)
{
    sw_cuda_info info = device->info;
    SW_TRY(swi_cuda_use(device));
    SW_TRY(read_memory(&info));
    *out = info;
    return SW_OK;
}

sw_status swi_cuda_sync(sw_cuda_device *device)
{
    SW_TRY(swi_cuda_use(device));
    if (pthread_mutex_lock(&device->capture_lock) != 0)
        SWI_CUDA_REFUSE(SW_INVALID, "cuda:%d cannot be waited for while this thread captures",
                        device->ordinal);
    const cudaError_t error = cudaDeviceSynchronize();
    pthread_mutex_unlock(&device->capture_lock);
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaDeviceSynchronize", "cuda:%d", device->ordinal);
}

void swi_cuda_use_quietly(sw_cuda_device *device)
{
    (void)cudaSetDevice(device->ordinal);
    (void)cudaGetLastError();
}

void swi_cuda_sync_quietly(sw_cuda_device *device)
{
    swi_cuda_use_quietly(device);
    const bool free = pthread_mutex_lock(&device->capture_lock) == 0;
    if (free) {
        (void)cudaDeviceSynchronize();
        pthread_mutex_unlock(&device->capture_lock);
    }
    (void)cudaGetLastError();
}
