/* The record of a data set: whole fields in memory. */
#include "alloc/size.h"
#include "runtime/data/data_internal.h"
#include <string.h>

sw_status swi_dataset_new(sw_dataset **out, const char *name, int64_t n)
{
    const size_t name_bytes = strlen(name) + 1;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, sizeof(sw_dataset) + name_bytes));
    sw_dataset *dataset = block;
    dataset->n = n;
    dataset->n_classes = 10;
    dataset->name_bytes = name_bytes;
    memcpy(dataset->name, name, name_bytes);
    *out = dataset;
    return SW_OK;
}

sw_status swi_dataset_field(sw_dataset *dataset, sw_dtype dtype, sw_shape shape)
{
    int64_t each;
    size_t sample, bytes;
    if (!sw_size_elements(shape.dim, shape.rank, &each) ||
        !sw_size_mul((size_t)each, sw_dtype_bytes(dtype), &sample) ||
        !sw_size_mul(sample, (size_t)dataset->n, &bytes))
        SW_FAIL(SW_NOMEM, "%s: %lld samples overflow", dataset->name, (long long)dataset->n);
    void *data;
    SW_TRY(sw_heap_alloc(&data, SW_HEAP_DATASETS, bytes));
    dataset->field[dataset->n_fields++] = (swi_field){dtype, shape, sample, bytes, data};
    return SW_OK;
}

void sw_dataset_destroy(sw_dataset *dataset)
{
    if (dataset == NULL)
        return;
    for (int i = 0; i < dataset->n_fields; i++)
        sw_heap_free(dataset->field[i].data, SW_HEAP_DATASETS, dataset->field[i].bytes);
    sw_heap_free(dataset, SW_HEAP_DATASETS, sizeof *dataset + dataset->name_bytes);
}

void sw_dataset_describe(const sw_dataset *dataset, sw_dataset_info *out)
{
    if (out == NULL || out->size == 0)
        return;
    sw_dataset_info info;
    memset(&info, 0, sizeof info);
    info.size = out->size;
    if (dataset != NULL) {
        info.n = dataset->n;
        info.n_classes = dataset->n_classes;
        info.n_fields = dataset->n_fields;
        info.name = dataset->name;
        for (int i = 0; i < dataset->n_fields; i++) {
            const swi_field *field = &dataset->field[i];
            info.field[i] = (sw_array){field->dtype, field->shape, field->data};
        }
    }
    memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
}
