/* The checksum of a data set: what says whether a run goes on with the samples that it began
 * with. Names do not count, nor how the samples are stored. */
#include "runtime/base/checksum.h"
#include "runtime/data/data_internal.h"

static void add_number(swi_checksum *sum, uint64_t x)
{
    swi_checksum_add(sum, &x, sizeof x);
}

/* All that a batch may read of a field: samples of all places. Fields that share a block are
 * read one after the other. Samples that do not lie side by side give what they would give if
 * they did. */
static void add_field(swi_checksum *sum, const sw_dataset *dataset, const swi_field *field)
{
    const size_t behind = (dataset->places - 1) * sw_dtype_bytes(field->dtype);
    if (field->stride == (ptrdiff_t)field->sample_bytes) {
        swi_checksum_add(sum, field->data, (size_t)dataset->n * field->sample_bytes + behind);
        return;
    }
    for (size_t i = 0; i < (size_t)dataset->n; i++)
        swi_checksum_add(sum, swi_sample_at(field, i, 0), field->sample_bytes);
}

/* The numbers say where each field ends, so that no two data sets give the same bytes. */
static void add_layout(swi_checksum *sum, const sw_dataset *dataset)
{
    add_number(sum, (uint64_t)dataset->n);
    add_number(sum, (uint64_t)dataset->n_classes);
    add_number(sum, dataset->places);
    add_number(sum, (uint64_t)dataset->n_fields);
    for (int i = 0; i < dataset->n_fields; i++) {
        const swi_field *field = &dataset->field[i];
        add_number(sum, (uint64_t)field->dtype);
        add_number(sum, (uint64_t)field->shape.rank);
        for (int d = 0; d < field->shape.rank; d++)
            add_number(sum, (uint64_t)field->shape.dim[d]);
    }
}

sw_status sw_dataset_hash(const sw_dataset *dataset, uint64_t *out)
{
    static const char call[] = "sw_dataset_hash";
    swi_checksum sum;
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    if (dataset->shapes_only)
        SW_FAIL(SW_INVALID, "%s: %s has shapes alone: read it without shapes_only", call,
                dataset->name);
    if (!swi_checksum_there())
        SW_FAIL(SW_UNSUPPORTED, "%s: the library was built without libxxhash", call);
    swi_checksum_begin(&sum);
    add_layout(&sum, dataset);
    for (int i = 0; i < dataset->n_fields && dataset->n > 0; i++)
        add_field(&sum, dataset, &dataset->field[i]);
    *out = swi_checksum_end(&sum);
    return SW_OK;
}
