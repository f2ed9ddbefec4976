/* Between the two files of runtime/device/cuda, the module's half on the host. */
#pragma once

#include "kernels/cuda/api.h"
#include <cuda_runtime_api.h>

extern sw_cuda_host sw_cuda_its_host; /* module.cu */

/* blas.c, where it is built (option `cublas`; else queues have none and gemm.cu makes all
 * products): what a queue's `blas` is, on the device that is the calling thread's. It belongs
 * to one thread at a time. Version: 10000 * major + 100 * minor + patch, of the library that is
 * loaded. */
#ifdef SW_CUDA_BLAS
sw_status sw_cuda_blas_create(void **out);
void sw_cuda_blas_destroy(void *blas); /* NULL is fine */
int sw_cuda_blas_version(void);
#endif
