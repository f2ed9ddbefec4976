/* One source of kernels/cuda, named by the build. */
#include SW_CUDA_UNIT
