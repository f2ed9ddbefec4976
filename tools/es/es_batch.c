/* The batch of a run: which samples each evaluation has, and their bytes.
 *
 * Samples have numbers, epoch by epoch, in an order that a keyed permutation of each epoch
 * gives. A generation takes the next ones: each direction its own, the two of an antithetic
 * pair the same. So an evaluation's samples follow from generation, direction and repeat alone,
 * and not from how the generation is cut into slices. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "tools/es/es.h"
#include <string.h>

#define ORDER_STREAM 0x65736f72u /* "esor" */

static size_t sample_bytes(const sw_array *field)
{
    size_t bytes = sw_dtype_bytes(field->dtype);
    for (int d = 0; d < field->shape.rank; d++)
        bytes *= (size_t)field->shape.dim[d];
    return bytes;
}

void es_batch_rows(es_run *r, int64_t rows)
{
    size_t at = 0;
    for (int i = 0; i < r->n_inputs; i++) {
        const sw_array *field = &r->job.train.info.field[i];
        sw_array *a = &r->inputs[i];
        *a = (sw_array){field->dtype, {.rank = field->shape.rank + 1}, r->slot + at};
        a->shape.dim[0] = rows;
        for (int d = 0; d < field->shape.rank; d++)
            a->shape.dim[d + 1] = field->shape.dim[d];
        at += sw_size_round(sample_bytes(field) * (size_t)r->rows);
    }
}

sw_status es_batch_open(es_run *r)
{
    r->n_inputs = r->job.train.info.n_fields;
    for (int i = 0; i < r->n_inputs; i++)
        r->slot_bytes +=
            sw_size_round(sample_bytes(&r->job.train.info.field[i]) * (size_t)r->rows);
    SW_TRY(sw_heap_alloc(&r->slot, SW_HEAP_RECORDS, r->slot_bytes));
    if (!r->on_environment)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&r->poles, SW_HEAP_RECORDS, (size_t)r->rows * sizeof *r->poles));
    SW_TRY(sw_heap_alloc(&r->fitness, SW_HEAP_RECORDS,
                         (size_t)r->opts.slice * sizeof *r->fitness));
    return SW_OK;
}

void es_batch_close(es_run *r)
{
    sw_heap_free(r->slot, SW_HEAP_RECORDS, r->slot_bytes);
    sw_heap_free(r->poles, SW_HEAP_RECORDS, (size_t)r->rows * sizeof *r->poles);
    sw_heap_free(r->fitness, SW_HEAP_RECORDS, (size_t)r->opts.slice * sizeof *r->fitness);
    r->slot = NULL;
    r->poles = NULL;
    r->fitness = NULL;
}

uint64_t es_batch_number(const es_run *r, const sw_es_evaluation *e)
{
    const uint64_t samples = (uint64_t)r->opts.samples, sets = (uint64_t)r->sets;
    if (r->opts.same_samples)
        return r->generation * samples;
    const uint64_t directions = (uint64_t)es_directions(&r->opts);
    return ((r->generation * sets + e->repeat % sets) * directions + e->direction) * samples;
}

/* Into row `row` of each field. */
static void put(es_run *r, const sw_dataset_info *from, size_t sample, size_t row)
{
    for (int i = 0; i < r->n_inputs; i++) {
        const size_t bytes = sample_bytes(&from->field[i]);
        const unsigned char *data = from->field[i].data;
        size_t at = (size_t)((const unsigned char *)r->inputs[i].data - r->slot);
        memcpy(r->slot + at + row * bytes, data + sample * bytes, bytes);
    }
}

static size_t sample_at(es_run *r, uint64_t number)
{
    const uint64_t n = (uint64_t)r->job.train.info.n, epoch = number / n;
    if (!r->ordered || r->order_of != epoch)
        r->order =
            sw_bijection_of((uint32_t)n, (uint64_t)r->opts.job.seed, ORDER_STREAM, epoch);
    r->order_of = epoch;
    r->ordered = true;
    return sw_bijection_at(&r->order, (uint32_t)(number % n));
}

sw_status es_batch_fill(es_run *r, uint32_t slice)
{
    const size_t samples = (size_t)r->opts.samples, n = sw_es_rows(r->job.es);
    es_batch_rows(r, r->rows);
    for (size_t e = 0; e < n; e++) {
        sw_es_evaluation which = SW_OPTS(sw_es_evaluation);
        SW_TRY(sw_es_ask(r->job.es, slice, e, &which));
        const uint64_t first = es_batch_number(r, &which);
        for (size_t k = 0; k < samples; k++)
            put(r, &r->job.train.info, sample_at(r, first + k), e * samples + k);
    }
    return SW_OK;
}

void es_batch_test(es_run *r, int64_t first, int64_t rows)
{
    es_batch_rows(r, rows);
    for (int64_t i = 0; i < rows; i++)
        put(r, &r->job.test.info, (size_t)(first + i), (size_t)i);
}
