/* A parameter as the noise of evolution strategies sees it. */
#include "kernels/rng.h"
#include "runtime/model/model.h"
#include <stdio.h>
#include <string.h>

/* All runs with noise of a parameter, and all that make its noise again, agree by this one
 * function: the bits of a population and of a record depend on it. */
void swi_noise_of(const swi_entry *entry, sw_noise_spec *out)
{
    const sw_shape *shape = &entry->shape;
    char name[sizeof entry->name + 4];
    int64_t taps = 1;
    memset(out, 0, sizeof *out);
    out->rows = shape->rank > 1 ? shape->dim[0] : 1;
    out->cols = 1;
    for (int i = shape->rank > 1; i < shape->rank; i++)
        out->cols *= shape->dim[i];
    for (int i = 2; i < shape->rank; i++)
        taps *= shape->dim[i];
    out->taps = taps > 0 && taps <= INT32_MAX ? (int32_t)taps : 1;
    snprintf(name, sizeof name, "es/%s", entry->name);
    out->stream = sw_rng_stream(name);
}
