/* Random vectors: nothing can be learned from them but how much memory and time learning takes.
 */
#include "kernels/rng.h"
#include "runtime/data/data_internal.h"

static void fill(swi_field *field, int64_t n, int64_t width, const char *name, uint64_t seed)
{
    const uint32_t stream = sw_rng_stream(name);
    float *to = (float *)(void *)field->data;
    for (int64_t i = 0; i < n; i++)
        sw_rng_normal(to + i * width, 0, width, seed, stream, (uint32_t)i, 0);
}

sw_status sw_dataset_vectors(sw_dataset **out, int64_t n, int64_t width, uint64_t seed)
{
    if (out == NULL || n < 1 || n > UINT32_MAX || width < 1)
        SW_FAIL(SW_INVALID,
                "sw_dataset_vectors: out must not be NULL, n must be 1 to 4294967295 and width "
                "at least 1 (got %lld samples of %lld numbers)",
                (long long)n, (long long)width);
    static const char *const names[] = {"features", "targets"};
    const sw_shape shape = {1, {width}};
    sw_dataset *dataset;
    SW_TRY(swi_dataset_new(&dataset, "synthetic", n));
    dataset->n_classes = 0;
    for (int i = 0; i < 2; i++) {
        const sw_status status = swi_dataset_field(dataset, SW_F32, shape);
        if (status != SW_OK) {
            sw_dataset_destroy(dataset);
            return status;
        }
        fill(&dataset->field[i], n, width, names[i], seed);
    }
    *out = dataset;
    return SW_OK;
}
