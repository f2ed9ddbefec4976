/* The CUDA module: found, checked and opened once in the process. */
#pragma once

#include "kernels/cuda/api.h"

/* The module's functions. Later calls give the same; a failure is tried again. SW_DEVICE says
 * where it was looked for, or what is wrong with the file. One thread at a time. */
sw_status swi_device_module(const sw_cuda_module **out);
