/* Memory of the card: ranges that are mapped as they grow, plain blocks, pinned host memory. */
#include "runtime/device/cuda/host.h"

/* ---- ranges ------------------------------------------------------------------------------ */

static CUdeviceptr address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static CUmemAllocationProp memory_of(const sw_cuda_device *device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
}

sw_status swi_cuda_find_mapping(sw_cuda_device *device)
{
    const swi_cuda_driver *d = &device->driver;
    const CUmemAllocationProp prop = memory_of(device);
    int can = 0;
    size_t granularity = 0;
    if (d->cuMemAddressReserve == NULL || d->cuMemCreate == NULL || d->cuMemMap == NULL ||
        d->cuMemSetAccess == NULL || d->cuMemUnmap == NULL || d->cuMemRelease == NULL ||
        d->cuMemAddressFree == NULL || d->cuMemGetAllocationGranularity == NULL)
        return SW_OK;
    CUresult result = d->cuDeviceGetAttribute(
        &can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device->handle);
    if (result != CUDA_SUCCESS)
        return swi_cuda_fail_driver(result, "cuDeviceGetAttribute", "cuda:%d", device->ordinal);
    if (can == 0)
        return SW_OK;
    result =
        d->cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS)
        return swi_cuda_fail_driver(result, "cuMemGetAllocationGranularity", "cuda:%d",
                                    device->ordinal);
    device->info.can_map = true;
    device->info.granularity = granularity;
    return SW_OK;
}

sw_status swi_cuda_reserve(sw_cuda_device *device, void **base, size_t bytes)
{
    void *block;
    CUdeviceptr at = 0;
    if (!device->info.can_map || bytes == 0 || bytes % device->info.granularity != 0)
        SWI_CUDA_REFUSE(SW_INVALID, "cuda:%d: a range of %zu bytes; it maps by %zu",
                        device->ordinal, bytes, device->info.granularity);
    SW_TRY(swi_cuda_use(device));
    SW_TRY(sw_cuda_its_host.alloc(&block, sizeof(swi_cuda_range)));
    const CUresult result = device->driver.cuMemAddressReserve(&at, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        sw_cuda_its_host.free(block, sizeof(swi_cuda_range));
        return swi_cuda_fail_driver(result, "cuMemAddressReserve", "%zu bytes", bytes);
    }
    swi_cuda_range *range = block;
    *range = (swi_cuda_range){.base = (void *)(uintptr_t)at, .bytes = bytes};
    pthread_mutex_lock(&device->ranges_lock);
    range->next = device->ranges;
    device->ranges = range;
    pthread_mutex_unlock(&device->ranges_lock);
    *base = range->base;
    return SW_OK;
}

static swi_cuda_range *range_at(sw_cuda_device *device, const void *base)
{
    pthread_mutex_lock(&device->ranges_lock);
    swi_cuda_range *range = device->ranges;
    while (range != NULL && range->base != base)
        range = range->next;
    pthread_mutex_unlock(&device->ranges_lock);
    return range;
}

/* Memory at an address that has none. The handle is let go: what is mapped keeps the memory. */
static sw_status map_at(sw_cuda_device *device, CUdeviceptr at, size_t bytes)
{
    const swi_cuda_driver *d = &device->driver;
    const CUmemAllocationProp prop = memory_of(device);
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    const char *call = "cuMemCreate";
    CUresult result = d->cuMemCreate(&handle, bytes, &prop, 0);
    if (result == CUDA_SUCCESS) {
        call = "cuMemMap";
        result = d->cuMemMap(at, bytes, 0, handle, 0);
        const CUresult released = d->cuMemRelease(handle);
        if (result == CUDA_SUCCESS) {
            call = released == CUDA_SUCCESS ? "cuMemSetAccess" : "cuMemRelease";
            result =
                released == CUDA_SUCCESS ? d->cuMemSetAccess(at, bytes, &access, 1) : released;
            if (result != CUDA_SUCCESS)
                (void)d->cuMemUnmap(at, bytes);
        }
    }
    if (result == CUDA_SUCCESS)
        return SW_OK;
    size_t left = 0, total = 0;
    (void)cudaMemGetInfo(&left, &total);
    return swi_cuda_fail_driver(result, call, "%zu bytes, %zu of %zu are free", bytes, left,
                                total);
}

sw_status swi_cuda_map(sw_cuda_device *device, void *base, size_t from, size_t to)
{
    swi_cuda_range *range = range_at(device, base);
    if (range == NULL || from != range->mapped || to <= from || to > range->bytes ||
        to % device->info.granularity != 0)
        SWI_CUDA_REFUSE(SW_INVALID, "cuda:%d: memory for %zu to %zu of a range of %zu with %zu",
                        device->ordinal, from, to, range != NULL ? range->bytes : 0,
                        range != NULL ? range->mapped : 0);
    SW_TRY(swi_cuda_use(device));
    SW_TRY(map_at(device, address(base) + from, to - from));
    range->mapped = to;
    return SW_OK;
}

void swi_cuda_release(sw_cuda_device *device, void *base, size_t bytes)
{
    swi_cuda_sync_quietly(device);
    pthread_mutex_lock(&device->ranges_lock);
    swi_cuda_range **at = &device->ranges;
    while (*at != NULL && (*at)->base != base)
        at = &(*at)->next;
    swi_cuda_range *range = *at;
    if (range != NULL)
        *at = range->next;
    pthread_mutex_unlock(&device->ranges_lock);
    if (range == NULL)
        return;
    if (range->mapped > 0)
        (void)device->driver.cuMemUnmap(address(base), range->mapped);
    (void)device->driver.cuMemAddressFree(address(base), bytes);
    sw_cuda_its_host.free(range, sizeof *range);
}

/* ---- blocks ------------------------------------------------------------------------------ */

sw_status swi_cuda_alloc(sw_cuda_device *device, void **out, size_t bytes)
{
    void *block;
    size_t left = 0, total = 0;
    SW_TRY(swi_cuda_use(device));
    const cudaError_t error = cudaMalloc(&block, bytes);
    if (error != cudaSuccess) {
        (void)cudaMemGetInfo(&left, &total);
        return swi_cuda_fail(error, "cudaMalloc", "%zu bytes, %zu of %zu are free", bytes, left,
                             total);
    }
    *out = block;
    return SW_OK;
}

void swi_cuda_free(sw_cuda_device *device, void *block)
{
    if (block == NULL)
        return;
    swi_cuda_use_quietly(device);
    (void)cudaFree(block);
    (void)cudaGetLastError();
}

sw_status swi_cuda_host_alloc(sw_cuda_device *device, void **out, size_t bytes)
{
    void *block;
    SW_TRY(swi_cuda_use(device));
    const cudaError_t error = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaHostAlloc", "%zu bytes", bytes);
    *out = block;
    return SW_OK;
}

void swi_cuda_host_free(sw_cuda_device *device, void *block)
{
    if (block == NULL)
        return;
    swi_cuda_use_quietly(device);
    (void)cudaFreeHost(block);
    (void)cudaGetLastError();
}
