/* Batches of random numbers: what is measured is memory and time. */
#include "alloc/base/mem.h"
#include "tools/bench/bench.h"
#include <string.h>

static size_t bytes_of(const sw_array *a)
{
    const sw_type type = {a->dtype, SW_PLAIN, a->shape};
    return sw_type_bytes(&type);
}

sw_array bench_batch_of(const sw_array *field, int64_t batch)
{
    sw_array a = {field->dtype, {field->shape.rank + 1, {batch}}, NULL};
    memcpy(a.shape.dim + 1, field->shape.dim, (size_t)field->shape.rank * sizeof(int64_t));
    return a;
}

sw_status bench_batch_make(sw_array *arrays, int n, int64_t ids)
{
    uint32_t state = 1;
    for (int k = 0; k < n; k++) {
        sw_array *a = &arrays[k];
        const sw_type type = {a->dtype, SW_PLAIN, a->shape};
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, bytes_of(a)));
        a->data = block;
        for (int64_t i = 0; i < sw_type_elements(&type); i++) {
            state = state * 1664525u + 1013904223u;
            if (a->dtype == SW_F32)
                ((float *)block)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
            else if (a->dtype == SW_I32)
                ((int32_t *)block)[i] = (int32_t)((state >> 8) % (uint32_t)ids);
            else
                ((unsigned char *)block)[i] =
                    (unsigned char)(k == 0 ? state >> 24 : (state >> 16) % (uint32_t)ids);
        }
    }
    return SW_OK;
}

void bench_batch_free(sw_array *arrays, int n)
{
    for (int k = 0; k < n; k++)
        if (arrays[k].data != NULL)
            sw_heap_free((void *)(uintptr_t)arrays[k].data, SW_HEAP_DATASETS,
                         bytes_of(&arrays[k]));
}
