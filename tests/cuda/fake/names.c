/* Errors by name, and the driver's functions by name. */
#include "internal.h"
#include <string.h>

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define E(error, text)                                                                         \
    {                                                                                          \
        error, #error, text                                                                    \
    }
    E(cudaSuccess, "no error"),
    E(cudaErrorInvalidValue, "invalid argument"),
    E(cudaErrorMemoryAllocation, "out of memory"),
    E(cudaErrorInvalidConfiguration, "invalid configuration"),
    E(cudaErrorInvalidMemcpyDirection, "wrong direction"),
    E(cudaErrorInsufficientDriver, "driver too old"),
    E(cudaErrorNoDevice, "no device"),
    E(cudaErrorInvalidDevice, "no such device"),
    E(cudaErrorInvalidResourceHandle, "invalid handle"),
    E(cudaErrorNotReady, "not ready"),
    E(cudaErrorIllegalAddress, "illegal address"),
    E(cudaErrorLaunchFailure, "launch failure"),
    E(cudaErrorNotSupported, "not supported"),
    E(cudaErrorStreamCaptureUnsupported, "not permitted when a stream is capturing"),
    E(cudaErrorStreamCaptureInvalidated, "the capture was made invalid by an earlier error"),
    E(cudaErrorStreamCaptureUnmatched, "the capture was not begun on this stream"),
    E(cudaErrorStreamCaptureUnjoined, "work of the capture was not joined to its first stream"),
    E(cudaErrorStreamCaptureIsolation, "a capture would depend on work outside of it"),
    E(cudaErrorStreamCaptureImplicit, "the default stream would depend on a capture"),
    E(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
    E(cudaErrorStreamCaptureWrongThread, "the capture was begun by another thread"),
    E(cudaErrorUnknown, "unknown error"),
};

static size_t find(cudaError_t error)
{
    size_t i = sizeof errors / sizeof *errors - 1;
    for (size_t k = 0; k < i; k++)
        if (errors[k].error == error)
            return k;
    return i;
}

const char *cudaGetErrorName(cudaError_t error)
{
    (void)swi_fake_enter(SWI_FN_cudaGetErrorName);
    (void)swi_fake_leave(cudaSuccess);
    return errors[find(error)].name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    (void)swi_fake_enter(SWI_FN_cudaGetErrorString);
    (void)swi_fake_leave(cudaSuccess);
    return errors[find(error)].text;
}

#define D(function)                                                                            \
    {                                                                                          \
#function, (void (*)(void))function                                                    \
    }
static const struct {
    const char *name;
    void (*function)(void);
} driver[] = {
    D(cuDeviceGet),
    D(cuDeviceGetName),
    D(cuDeviceGetAttribute),
    D(cuMemGetAllocationGranularity),
    D(cuMemAddressReserve),
    D(cuMemAddressFree),
    D(cuMemCreate),
    D(cuMemRelease),
    D(cuMemMap),
    D(cuMemUnmap),
    D(cuMemSetAccess),
};

static cudaError_t entry_point(const char *symbol, void **to,
                               enum cudaDriverEntryPointQueryResult *status)
{
    *to = NULL;
    if (status != NULL)
        *status = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof driver / sizeof *driver; i++) {
        if (strcmp(driver[i].name, symbol) != 0)
            continue;
        memcpy(to, &driver[i].function, sizeof *to); /* C has no cast for it */
        if (status != NULL)
            *status = cudaDriverEntryPointSuccess;
        return cudaSuccess;
    }
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    (void)flags;
    cudaError_t error = swi_fake_enter(SWI_FN_cudaGetDriverEntryPointByVersion);
    if (error == cudaSuccess && cudaVersion > (unsigned)swi_fake.card.driver) {
        *funcPtr = NULL;
        if (driverStatus != NULL)
            *driverStatus = cudaDriverEntryPointVersionNotSufficent;
    } else if (error == cudaSuccess) {
        error = entry_point(symbol, funcPtr, driverStatus);
    }
    return swi_fake_leave(error);
}
