/* The record of a data set: whole fields in memory. */
#include "alloc/base/size.h"
#include "runtime/data/data_internal.h"
#include "runtime/base/structs.h"
#include <string.h>

sw_status swi_dataset_new(sw_dataset **out, const char *name, int64_t n)
{
    const size_t name_bytes = strlen(name) + 1;
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_DATASET, sizeof(sw_dataset)));
    sw_dataset *dataset = block;
    const sw_status status = sw_heap_alloc(&block, SW_HEAP_DATASETS, name_bytes);
    if (status != SW_OK) {
        sw_handle_give(dataset, SW_HANDLE_DATASET, sizeof *dataset);
        return status;
    }
    dataset->users = 1;
    dataset->name = block;
    dataset->n = n;
    dataset->n_classes = 10;
    dataset->places = 1;
    dataset->name_bytes = name_bytes;
    memcpy(dataset->name, name, name_bytes);
    *out = dataset;
    return SW_OK;
}

sw_status swi_dataset_field(sw_dataset *dataset, sw_dtype dtype, sw_shape shape)
{
    int64_t elements;
    size_t each, bytes;
    if (!sw_size_elements(shape.dim, shape.rank, &elements) ||
        !sw_size_mul((size_t)elements, sw_dtype_bytes(dtype), &each) ||
        !sw_size_mul(each, (size_t)dataset->n, &bytes))
        SW_FAIL(SW_NOMEM, "%s: %lld samples overflow", dataset->name, (long long)dataset->n);
    swi_field field = {
        .dtype = dtype, .shape = shape, .sample_bytes = each, .stride = (ptrdiff_t)each};
    if (!dataset->shapes_only) {
        SW_TRY(sw_heap_alloc(&field.block, SW_HEAP_DATASETS, bytes));
        field.data = field.block;
        field.bytes = bytes;
    }
    dataset->field[dataset->n_fields++] = field;
    return SW_OK;
}

sw_status swi_dataset_name_classes(sw_dataset *dataset, const char *text, size_t bytes)
{
    const size_t pointers = (size_t)dataset->n_classes * sizeof *dataset->names;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, pointers + bytes));
    char *copy = (char *)block + pointers;
    memcpy(copy, text, bytes);
    dataset->names = block;
    dataset->names_bytes = pointers + bytes;
    for (int64_t i = 0; i < dataset->n_classes; i++) {
        dataset->names[i] = copy;
        copy += strlen(copy) + 1;
    }
    return SW_OK;
}

sw_status swi_dataset_check_count(const char *path, uint64_t n_samples)
{
    if (n_samples > UINT32_MAX)
        SW_FAIL(SW_FORMAT, "%s: must have at most %llu samples (got %llu)", path,
                (unsigned long long)UINT32_MAX, (unsigned long long)n_samples);
    return SW_OK;
}

void swi_dataset_share(const sw_dataset *shared)
{
    sw_dataset *dataset = (sw_dataset *)(uintptr_t)shared;
    __atomic_add_fetch(&dataset->users, 1, __ATOMIC_RELAXED);
}

void swi_dataset_release(const sw_dataset *shared)
{
    sw_dataset *dataset = (sw_dataset *)(uintptr_t)shared;
    if (__atomic_sub_fetch(&dataset->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (int i = 0; i < dataset->n_fields; i++)
        sw_heap_free(dataset->field[i].block, SW_HEAP_DATASETS, dataset->field[i].bytes);
    sw_heap_free(dataset->names, SW_HEAP_DATASETS, dataset->names_bytes);
    sw_heap_free(dataset->name, SW_HEAP_DATASETS, dataset->name_bytes);
    sw_handle_give(dataset, SW_HANDLE_DATASET, sizeof *dataset);
}

/* Loaders go on with what they have; for callers it is gone. */
void sw_dataset_destroy(sw_dataset *dataset)
{
    if (!sw_handle_ends(dataset, SW_HANDLE_DATASET, "sw_dataset_destroy"))
        return;
    sw_handle_end(dataset, SW_HANDLE_DATASET);
    swi_dataset_release(dataset);
}

void sw_dataset_describe(const sw_dataset *dataset, sw_dataset_info *out)
{
    static const char call[] = "sw_dataset_describe";
    if (out == NULL) {
        (void)sw_error_set(SW_INVALID, __FILE__, __LINE__, "%s: out must not be NULL", call);
        return;
    }
    if (swi_struct_check(SWI_STRUCT_sw_dataset_info, out->size, call) != SW_OK)
        return; /* the reason is sw_last_error()'s */
    sw_dataset_info info;
    memset(&info, 0, sizeof info);
    if (dataset != NULL && sw_handle_check(dataset, SW_HANDLE_DATASET, call) == SW_OK) {
        info.n = dataset->n;
        info.n_classes = dataset->n_classes;
        info.n_fields = dataset->n_fields;
        info.name = dataset->name;
        for (int i = 0; i < dataset->n_fields; i++) {
            const swi_field *field = &dataset->field[i];
            info.field[i] = (sw_array){field->dtype, field->shape, field->data};
            info.bytes += field->bytes;
        }
        info.class_names = dataset->names;
    }
    swi_struct_write(SWI_STRUCT_sw_dataset_info, out, &info);
}
