/* Launches without a runtime: each runs when it is made, on whatever memory it is given. */
#include "cuda_emulator.h"

static cudaError_t last_error;

void swi_emu_submit(const swi_emu_launch_info *info, void (*run)(void *body), const void *body,
                    size_t)
{
    cudaError_t error = swi_emu_can_be(info);
    if (error == cudaSuccess)
        error = swi_emu_run(info, run, const_cast<void *>(body));
    if (error != cudaSuccess)
        last_error = error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : swi_emu_error();
}
