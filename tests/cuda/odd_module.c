/* Modules that are not the library's own: ODD says in what; 7 is another library. */
#include "kernels/cuda/api.h"
#include <stddef.h>

enum {
    OTHER_ABI = 1,
    REFUSES,
    OTHER_ENTRIES,
    OTHER_FUNCTIONS,
    NO_SUCH_OP,
    NO_SUCH_KERNEL,
    OTHER_PAIRS = 8
};

static sw_status nothing(const sw_launch *launch, const sw_cuda_queue *queue)
{
    (void)launch;
    (void)queue;
    return SW_OK;
}

static const sw_cuda_entry entries[] = {
    {ODD == NO_SUCH_OP ? "no_such_op" : "tanh", ODD == NO_SUCH_KERNEL ? 7 : SW_CUDA_FORWARD,
     nothing, NULL, 1},
};
static const sw_cuda_api api;
static const sw_cuda_module module = {ODD == OTHER_ABI ? SW_CUDA_ABI + 1 : SW_CUDA_ABI,
                                      sizeof module,
                                      sizeof(sw_cuda_entry) + (ODD == OTHER_ENTRIES ? 8 : 0),
                                      1,
                                      entries,
                                      sizeof api - (ODD == OTHER_FUNCTIONS ? 8 : 0),
                                      &api,
                                      sizeof(sw_cuda_fusion) + (ODD == OTHER_PAIRS ? 8 : 0),
                                      0,
                                      NULL};

#if ODD == 7
#define sw_cuda_module_open another_name
SW_API const sw_cuda_module *another_name(const sw_cuda_host *host);
#endif
const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host)
{
    return host == NULL || ODD == REFUSES ? NULL : &module;
}
