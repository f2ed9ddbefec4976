/* Two parts of a data set, for training and for validation. Which samples go where is a keyed
 * permutation of their numbers, of which nothing is stored. */
#include "kernels/bijection.h"
#include "kernels/rng.h"
#include "runtime/data/data_internal.h"
#include <string.h>

bool swi_split_takes(uint64_t seed, uint64_t i, uint64_t left, uint64_t second)
{
    uint32_t words[4];
    sw_rng_words(words, seed, (uint32_t)i, sw_rng_stream("split"), 0, 0);
    return (words[0] * left >> 32) < second;
}

static sw_status make_part(sw_dataset **out, const sw_dataset *of, int64_t n)
{
    sw_dataset *part;
    SW_TRY(swi_dataset_new(&part, of->name, n));
    *out = part;
    part->n_classes = of->n_classes;
    if (of->names != NULL) {
        const size_t pointers = (size_t)of->n_classes * sizeof *of->names;
        SW_TRY(swi_dataset_name_classes(part, of->names[0], of->names_bytes - pointers));
    }
    for (int i = 0; i < of->n_fields; i++)
        SW_TRY(swi_dataset_field(part, of->field[i].dtype, of->field[i].shape));
    return SW_OK;
}

/* Each part keeps the order that the samples had. */
static void fill(sw_dataset *const part[2], const sw_dataset *from, const sw_bijection *order)
{
    size_t filled[2] = {0, 0};
    for (int64_t i = 0; i < from->n; i++) {
        const int to = sw_bijection_at(order, (uint32_t)i) < (uint32_t)part[1]->n;
        for (int f = 0; f < from->n_fields; f++) {
            const swi_field *field = &from->field[f];
            memcpy(part[to]->field[f].data + filled[to] * field->sample_bytes,
                   swi_sample_at(field, (size_t)i, 0), field->sample_bytes);
        }
        filled[to]++;
    }
}

sw_status sw_dataset_split(sw_dataset **first, sw_dataset **second, const sw_dataset *dataset,
                           int64_t n_second, uint64_t seed)
{
    static const char call[] = "sw_dataset_split";
    sw_dataset *part[2] = {NULL, NULL};
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, call));
    if (first == NULL || second == NULL || first == second)
        SW_FAIL(SW_INVALID, "%s: first and second must be two places, and not NULL", call);
    if (dataset->shapes_only)
        SW_FAIL(SW_INVALID, "%s: %s has shapes alone: read it without shapes_only", call,
                dataset->name);
    if (n_second < 1 || n_second >= dataset->n)
        SW_FAIL(SW_INVALID,
                "%s: the second part must have at least 1 sample and leave 1 of the %lld of %s "
                "(got %lld)",
                call, (long long)dataset->n, dataset->name, (long long)n_second);
    sw_status status = make_part(&part[0], dataset, dataset->n - n_second);
    if (status == SW_OK)
        status = make_part(&part[1], dataset, n_second);
    if (status != SW_OK) {
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        return status;
    }
    const sw_bijection order =
        sw_bijection_of((uint32_t)dataset->n, seed, sw_rng_stream("split"), 0);
    fill(part, dataset, &order);
    *first = part[0];
    *second = part[1];
    return SW_OK;
}
