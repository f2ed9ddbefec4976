/* Constants: states that begin with the caller's numbers, and stay so. */
#include "runtime/model/model.h"
#include <string.h>

/* The copy of the values, which sw_model_ready and each new member begin with. */
static sw_status keep_values(sw_model *model, swi_entry *entry, const void *data)
{
    void *values = NULL;
    if (sw_heap_resize(&values, SW_HEAP_RECORDS, 0, entry->bytes) != SW_OK)
        return swi_declare_fail(model, SW_NOMEM, "model %s: no memory for '%s'", model->name,
                                entry->name);
    memcpy(values, data, entry->bytes);
    entry->values = values;
    return SW_OK;
}

sw_param sw_constant_new(sw_model *model, const char *name, const sw_array *values)
{
    if (sw_handle_check(model, SW_HANDLE_MODEL, "sw_constant_new") != SW_OK)
        return (sw_param){NULL, 0};
    if (values == NULL || values->data == NULL) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: '%s': the values of a constant must not be NULL",
                               model->name, name != NULL ? name : "");
        return (sw_param){model, 0};
    }
    if (sw_dtype_bytes(values->dtype) == 0) {
        (void)swi_declare_fail(model, SW_INVALID,
                               "model %s: '%s': the type of a constant must be known (got %d)",
                               model->name, name != NULL ? name : "", (int)values->dtype);
        return (sw_param){model, 0};
    }
    const sw_param param =
        swi_model_declare(model, name, SWI_ROLE_STATE, values->dtype, values->shape, "zeros");
    swi_entry *entry = swi_entry_of(param);
    if (entry != NULL && keep_values(model, entry, values->data) != SW_OK)
        return (sw_param){model, 0};
    return param;
}

void swi_constants_free(sw_model *model)
{
    for (uint32_t i = 1; i < model->n_entries; i++)
        sw_heap_free(model->entries[i].values, SW_HEAP_RECORDS, model->entries[i].bytes);
}
