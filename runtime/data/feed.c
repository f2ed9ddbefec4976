/* Feeds: a batch is a function of its stream and its number, so that any thread fills any batch
 * of any stream, and nothing is kept for a stream. */
#include "runtime/data/feed.h"
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/base/structs.h"
#include <string.h>

swi_feed_order swi_feed_order_of(const sw_dataset *d, uint64_t stream, uint64_t epoch)
{
    swi_feed_order order;
    uint32_t words[4];
    order.samples = sw_bijection_of((uint32_t)d->n, stream, sw_rng_stream("order"), epoch);
    sw_rng_words(words, stream, 0, sw_rng_stream("window"), (uint32_t)epoch,
                 (uint32_t)(epoch >> 32));
    order.place = (size_t)((uint64_t)words[0] * d->places >> 32);
    return order;
}

int64_t swi_feed_rows(const sw_feed *f, uint64_t number)
{
    const int64_t left = f->dataset->n - (int64_t)(number % (uint64_t)f->n_batches) * f->batch;
    SW_ASSERT(left > 0);
    return left < f->batch ? left : f->batch;
}

void swi_feed_fill(const sw_feed *f, uint64_t stream, uint64_t number, unsigned char *to)
{
    const uint64_t n = (uint64_t)f->n_batches;
    const int64_t first = (int64_t)(number % n) * f->batch, rows = swi_feed_rows(f, number);
    swi_feed_order order = {.place = 0};
    if (f->shuffle)
        order = swi_feed_order_of(f->dataset, stream, number / n);
    for (int64_t r = 0; r < rows; r++) {
        const size_t sample = f->shuffle
                                  ? sw_bijection_at(&order.samples, (uint32_t)(first + r))
                                  : (size_t)(first + r);
        for (int i = 0; i < f->dataset->n_fields; i++) {
            const swi_field *field = &f->dataset->field[i];
            memcpy(to + f->at[i] + (size_t)r * field->sample_bytes,
                   swi_sample_at(field, sample, order.place), field->sample_bytes);
        }
    }
}

sw_array swi_feed_array(const sw_feed *f, int i, int64_t rows, const unsigned char *to)
{
    const swi_field *field = &f->dataset->field[i];
    sw_array a = {.dtype = field->dtype, .data = to != NULL ? to + f->at[i] : NULL};
    a.shape.rank = field->shape.rank + 1;
    a.shape.dim[0] = rows;
    memcpy(&a.shape.dim[1], field->shape.dim,
           (size_t)field->shape.rank * sizeof field->shape.dim[0]);
    return a;
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status lay_out(sw_feed *f)
{
    for (int i = 0; i < f->dataset->n_fields; i++) {
        size_t bytes;
        f->at[i] = f->bytes;
        if (!sw_size_mul((size_t)f->batch, f->dataset->field[i].sample_bytes, &bytes) ||
            !sw_size_align(bytes, SW_ALIGN, &bytes) || !sw_size_add(f->bytes, bytes, &f->bytes))
            SW_FAIL(SW_NOMEM, "feed: a batch of %lld overflows", (long long)f->batch);
    }
    return SW_OK;
}

static sw_status check(const sw_dataset *d, const sw_feed_opts *o)
{
    if (d->shapes_only)
        SW_FAIL(SW_INVALID, "sw_feed_create: %s has shapes alone", d->name);
    if (o->batch < 1)
        SW_FAIL(SW_INVALID, "sw_feed_create: batch must be at least 1 (got %lld)",
                (long long)o->batch);
    if (o->drop_last != 0 && o->batch > d->n)
        SW_FAIL(SW_INVALID,
                "sw_feed_create: with drop_last a batch must be at most the %lld samples of %s "
                "(got %lld)",
                (long long)d->n, d->name, (long long)o->batch);
    return SW_OK;
}

sw_status sw_feed_create(sw_feed **out, const sw_dataset *dataset, const sw_feed_opts *given)
{
    sw_feed_opts o;
    void *block;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_feed_create: out must not be NULL");
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, "sw_feed_create"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_feed_opts, &o, given, "sw_feed_create"));
    SW_TRY(check(dataset, &o));
    sw_feed made = {.dataset = dataset,
                    .batch = o.batch,
                    .n_batches =
                        dataset->n / o.batch + (o.drop_last == 0 && dataset->n % o.batch != 0),
                    .shuffle = o.shuffle != 0};
    SW_TRY(lay_out(&made));
    SW_TRY(sw_handle_take(&block, SW_HANDLE_FEED, sizeof(sw_feed)));
    sw_feed *f = block;
    made.handle = f->handle;
    *f = made;
    swi_dataset_share(dataset);
    *out = f;
    return SW_OK;
}

void swi_feed_free(sw_feed *f)
{
    if (f == NULL)
        return;
    swi_dataset_release(f->dataset);
    sw_handle_give(f, SW_HANDLE_FEED, sizeof *f);
}

void sw_feed_destroy(sw_feed *f)
{
    if (sw_handle_ends(f, SW_HANDLE_FEED, "sw_feed_destroy"))
        swi_feed_free(f);
}

int64_t sw_feed_batches(const sw_feed *f)
{
    return sw_handle_check(f, SW_HANDLE_FEED, "sw_feed_batches") == SW_OK ? f->n_batches : 0;
}

size_t sw_feed_bytes(const sw_feed *f)
{
    return sw_handle_check(f, SW_HANDLE_FEED, "sw_feed_bytes") == SW_OK ? f->bytes : 0;
}

sw_status sw_feed_sample(const sw_feed *f, uint64_t stream, uint64_t epoch, int64_t i,
                         int64_t *out)
{
    SW_TRY(sw_handle_check(f, SW_HANDLE_FEED, "sw_feed_sample"));
    if (i < 0 || i >= f->dataset->n || out == NULL)
        SW_FAIL(SW_INVALID, "sw_feed_sample: i must be 0 to %lld (got %lld), out not NULL",
                (long long)(f->dataset->n - 1), (long long)i);
    *out = i;
    if (f->shuffle) {
        const swi_feed_order order = swi_feed_order_of(f->dataset, stream, epoch);
        *out = sw_bijection_at(&order.samples, (uint32_t)i);
    }
    return SW_OK;
}
