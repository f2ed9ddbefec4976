/* For cuBLASLt (blas.c): its workspace, and a table of records by shape. The table grows while
 * plans are made: the search for a batch that fits plans hundreds of times, and each plan has
 * to learn what a run would find. */
#include "runtime/device/cuda/host.h"
#include <string.h>

enum {
    FIRST_RECORDS = 64,
    ALIGN_WORKSPACE = 256,
    ALIGN_SCRATCH = 64 /* of what a launch is given */
};

size_t swi_cuda_workspace_scratch(size_t workspace)
{
    return workspace > 0 ? workspace + ALIGN_WORKSPACE - ALIGN_SCRATCH : 0;
}

void *swi_cuda_workspace_in(void *scratch, size_t bytes, size_t *capacity)
{
    const size_t skip = -(uintptr_t)scratch % ALIGN_WORKSPACE;
    *capacity = bytes > skip ? bytes - skip : 0;
    return (void *)((uintptr_t)scratch + skip);
}

bool swi_cuda_is_aligned(const void *operand)
{
    return (uintptr_t)operand % SWI_CUDA_ALIGN_OPERANDS == 0;
}

void *swi_cuda_shapes_at(const swi_cuda_shapes *t, int i)
{
    return t->at + (size_t)i * t->record_bytes;
}

void *swi_cuda_shapes_known(const swi_cuda_shapes *t, const void *shape)
{
    for (int i = 0; i < t->n; i++)
        if (memcmp(swi_cuda_shapes_at(t, i), shape, t->shape_bytes) == 0)
            return swi_cuda_shapes_at(t, i);
    return NULL;
}

static void drop(swi_cuda_shapes *t)
{
    if (t->cap > 0)
        sw_cuda_its_host.free(t->at, (size_t)t->cap * t->record_bytes);
}

static bool grow(swi_cuda_shapes *t)
{
    const int cap = t->cap > 0 ? 2 * t->cap : FIRST_RECORDS;
    void *at;
    if (t->full || t->cap > INT32_MAX / 4 ||
        sw_cuda_its_host.alloc(&at, (size_t)cap * t->record_bytes) != SW_OK)
        return false;
    if (t->n > 0)
        memcpy(at, t->at, (size_t)t->n * t->record_bytes);
    drop(t);
    t->at = at;
    t->cap = cap;
    return true;
}

void *swi_cuda_shapes_add(swi_cuda_shapes *t, const void *shape)
{
    if (t->n == t->cap && !grow(t)) {
        t->full = true;
        return NULL;
    }
    void *record = swi_cuda_shapes_at(t, t->n++);
    memcpy(record, shape, t->shape_bytes);
    return record;
}

void swi_cuda_shapes_free(swi_cuda_shapes *t)
{
    drop(t);
    t->at = NULL;
    t->n = t->cap = 0;
}
