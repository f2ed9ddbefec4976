/* The loader: a ring of batch slots in an arena, filled in order by one thread and emptied in
 * order by the caller.
 *
 * All numbers of the ring are under one mutex. Batches are counted over the whole life of the
 * loader: batch k lies in slot k % slots. `taken` were given to the caller, who still holds the
 * last of them while `held`; `filled` are ready. The filler works on slot `filled` while filled
 * - (taken - held) < slots, without the mutex; `busy` says so, and a new epoch waits for it. A
 * new epoch forgets what was filled and not taken, and never the slot that the caller holds.
 *
 * A small batch is filled by the caller, and there is no thread: waking one takes the caller
 * 10 us, and where the others compute on all processors it takes one of them away from a step.
 * Nothing is filled ahead then, so the ring has one slot, which stays in a cache. Runs are done
 * with a slot when they return: on a device its bytes are copied to pinned memory first.
 *
 * Without shuffling a batch lies in the data set as it is read: the one slot has no bytes, and
 * is filled with addresses. */
#include "alloc/arena/arena.h"
#include "alloc/base/assert.h"
#include "alloc/base/handle.h"
#include "alloc/base/size.h"
#include "kernels/rng.h"
#include "runtime/base/structs.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/feed.h"
#include "runtime/data/loader.h"
#include <pthread.h>
#include <string.h>

/* Feeds: a batch is a function of its stream and its number, so that any thread fills any batch
 * of any stream, and nothing is kept for a stream. */

static swi_feed_order feed_order_of(const sw_dataset *d, uint64_t stream, uint64_t epoch)
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
        order = feed_order_of(f->dataset, stream, number / n);
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

sw_status sw_feed_create(sw_feed **out, const sw_dataset *dataset, const sw_feed_opts *given)
{
    sw_feed_opts o;
    sw_feed *f;
    SW_TRY(swi_given(out != NULL, "out", "sw_feed_create"));
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, "sw_feed_create"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_feed_opts, &o, given, "sw_feed_create"));
    if (dataset->shapes_only)
        SW_FAIL(SW_INVALID, "sw_feed_create: %s has shapes alone", dataset->name);
    if (o.batch < 1)
        SW_FAIL(SW_INVALID, "sw_feed_create: batch must be at least 1 (got %lld)",
                (long long)o.batch);
    if (o.drop_last != 0 && o.batch > dataset->n)
        SW_FAIL(SW_INVALID,
                "sw_feed_create: with drop_last a batch must be at most the %lld samples of %s "
                "(got %lld)",
                (long long)dataset->n, dataset->name, (long long)o.batch);

    sw_feed made = {.dataset = dataset,
                    .batch = o.batch,
                    .n_batches =
                        dataset->n / o.batch + (o.drop_last == 0 && dataset->n % o.batch != 0),
                    .shuffle = o.shuffle != 0};
    for (int i = 0; i < made.dataset->n_fields; i++) {
        size_t bytes;
        made.at[i] = made.bytes;
        if (!sw_size_mul((size_t)made.batch, made.dataset->field[i].sample_bytes, &bytes) ||
            !sw_size_align(bytes, SW_ALIGN, &bytes) ||
            !sw_size_add(made.bytes, bytes, &made.bytes))
            SW_FAIL(SW_NOMEM, "feed: a batch of %lld overflows", (long long)made.batch);
    }

    SW_TRY(sw_handle_take(&f, SW_HANDLE_FEED, sizeof(sw_feed)));
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
        const swi_feed_order order = feed_order_of(f->dataset, stream, epoch);
        *out = sw_bijection_at(&order.samples, (uint32_t)i);
    }
    return SW_OK;
}

#define MAX_SLOTS 1024

typedef struct {
    sw_array input[SWI_MAX_FIELDS];
    unsigned char *at[SWI_MAX_FIELDS]; /* where input[i].data points, to be written */
} slot;

struct sw_loader {
    sw_handle handle;
    uint32_t forks; /* sw_fork_number of the process that made it */
    const sw_dataset *dataset;
    int64_t batch, n_batches, n_all; /* n_all: those that others have too */
    int64_t of, first, share;        /* of `of` in a row `share` from `first` on */
    uint32_t n_slots;
    uint64_t seed;
    bool shuffle, keyed, inline_fill, drop_last;
    bool views; /* batches are those of the data set */
    size_t bytes;
    sw_arena *arena;
    slot *slots;
    uint32_t *order; /* of this epoch (data sets have at most 2^32 - 1 samples); NULL: as
                        stored, or keyed */
    swi_feed_order keyed_order; /* of this epoch */
    size_t place;               /* the element at which sample 0 of this epoch begins */
    sw_thread *thread;

    pthread_mutex_t mutex;
    pthread_cond_t work; /* the filler may have something to do */
    pthread_cond_t done; /* the filler has done something */
    uint64_t filled, taken, epoch;
    int64_t next;  /* batch of the epoch that is filled next */
    int64_t given; /* batches of the epoch that the caller has had */
    bool begun, ordered, held, busy, stop;
};

/* ---- filling ----------------------------------------------------------------------------- */

/* Where batch k of its life lies. */
static slot *slot_of(const sw_loader *l, uint64_t k)
{
    return &l->slots[k % l->n_slots];
}

static size_t sample_at(const sw_loader *l, int64_t i)
{
    if (!l->shuffle)
        return (size_t)i;
    return l->keyed ? sw_bijection_at(&l->keyed_order.samples, (uint32_t)i) : l->order[i];
}

/* Samples lie anywhere: memory is asked for AHEAD of them before they are copied, for the first
 * lines, after which a processor goes on by itself. */
enum { AHEAD = 4, LINE_BYTES = 64, ASKED_BYTES = 1024 };

/* How many of this loader's batches come before one of all. */
static int64_t own_before(const sw_loader *l, int64_t batch)
{
    const int64_t rest = batch % l->of - l->first;
    return batch / l->of * l->share + (rest < 0 ? 0 : rest < l->share ? rest : l->share);
}

static void fill(const sw_loader *l, slot *to, int64_t batch)
{
    /* `batch` is of this loader's; `first` counts the samples before it among those of all. */
    const int64_t first = (batch / l->share * l->of + l->first + batch % l->share) * l->batch,
                  left = l->dataset->n - first, rows = left < l->batch ? left : l->batch;
    SW_ASSERT(batch >= 0 && batch < l->n_batches && rows > 0);
    for (int f = 0; f < l->dataset->n_fields; f++) {
        const swi_field *field = &l->dataset->field[f];
        const size_t bytes = field->sample_bytes;
        to->input[f].shape.dim[0] = rows;
        if (l->views) {
            to->input[f].data = swi_sample_at(field, (size_t)first, 0);
            continue;
        }
        SW_ASSERT(to->at[f] != NULL && (const void *)to->at[f] == to->input[f].data);
        for (int64_t i = 0; i < rows; i++) {
            if (i + AHEAD < rows) {
                const unsigned char *sample =
                    swi_sample_at(field, sample_at(l, first + i + AHEAD), l->place);
                for (size_t j = 0; j < bytes && j < ASKED_BYTES; j += LINE_BYTES)
                    __builtin_prefetch(sample + j, 0, 3);
            }
            memcpy(to->at[f] + (size_t)i * bytes,
                   swi_sample_at(field, sample_at(l, first + i), l->place), bytes);
        }
    }
}

static void make_order(sw_loader *l)
{
    uint32_t words[4];
    if (!l->shuffle)
        return;
    if (l->keyed) {
        l->keyed_order = feed_order_of(l->dataset, l->seed, l->epoch);
        l->place = l->keyed_order.place;
        return;
    }
    sw_rng_shuffle(l->order, (uint32_t)l->dataset->n, l->seed, l->epoch);
    sw_rng_words(words, l->seed, 0, sw_rng_stream("window"), (uint32_t)l->epoch,
                 (uint32_t)(l->epoch >> 32));
    l->place = (size_t)((uint64_t)words[0] * l->dataset->places >> 32);
    SW_ASSERT(l->place < l->dataset->places || l->dataset->places == 0);
}

/* With the mutex: whether the filler has something to do. */
static bool has_work(const sw_loader *l)
{
    SW_ASSERT(l->filled >= l->taken && l->filled - l->taken <= l->n_slots);
    SW_ASSERT(l->taken >= (l->held ? 1u : 0u));
    SW_ASSERT(l->next >= 0 && l->next <= l->n_batches && l->given <= l->n_batches);
    if (!l->begun || l->next >= l->n_batches)
        return false;
    return l->filled - (l->taken - (l->held ? 1u : 0u)) < l->n_slots;
}

static void filler(void *arg)
{
    sw_loader *l = arg;
    pthread_mutex_lock(&l->mutex);
    while (!l->stop) {
        if (!has_work(l)) {
            pthread_cond_wait(&l->work, &l->mutex);
            continue;
        }
        slot *to = slot_of(l, l->filled);
        const int64_t batch = l->next;
        const bool ordered = l->ordered;
        l->busy = true;
        pthread_mutex_unlock(&l->mutex);
        if (!ordered)
            make_order(l);
        fill(l, to, batch);
        pthread_mutex_lock(&l->mutex);
        l->busy = false;
        l->ordered = true;
        SW_ASSERT(l->next == batch); /* a new epoch waits for this one */
        l->filled++;
        l->next++;
        pthread_cond_signal(&l->done);
    }
    pthread_mutex_unlock(&l->mutex);
}

static bool is_forked(const sw_loader *l)
{
    return l->thread != NULL && l->forks != sw_fork_number();
}

/* The thread that fills is the parent's, and the mutex may be held for ever. */
static sw_status check_fork(const sw_loader *l, const char *call)
{
    if (is_forked(l))
        SW_FAIL(SW_BUSY,
                "%s: the loader was made before a fork and its thread is the parent's: make a "
                "loader in the child, or one with inline_fill",
                call);
    return SW_OK;
}

/* ---- taking ------------------------------------------------------------------------------ */

/* Batches that were filled ahead are forgotten, and the filler goes on with that batch: none is
 * filled to get there. */
static void go_to(sw_loader *l, uint64_t epoch, int64_t batch)
{
    pthread_mutex_lock(&l->mutex);
    while (l->busy)
        pthread_cond_wait(&l->done, &l->mutex);
    l->epoch = epoch;
    SW_ASSERT(!l->busy && l->filled >= l->taken);
    l->filled = l->taken;
    l->next = l->given = batch;
    l->begun = true;
    l->ordered = false;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->mutex);
}

sw_status sw_loader_epoch(sw_loader *l, uint64_t epoch)
{
    SW_TRY(sw_handle_check(l, SW_HANDLE_LOADER, "sw_loader_epoch"));
    SW_TRY(check_fork(l, "sw_loader_epoch"));
    go_to(l, epoch, 0);
    return SW_OK;
}

sw_status sw_loader_seek(sw_loader *l, uint64_t epoch, int64_t batch)
{
    SW_TRY(sw_handle_check(l, SW_HANDLE_LOADER, "sw_loader_seek"));
    SW_TRY(check_fork(l, "sw_loader_seek"));
    if (batch < 0 || batch > l->n_all)
        SW_FAIL(SW_INVALID,
                "sw_loader_seek: batch must be 0 to %lld, as many as an epoch of "
                "%s has (got %lld)",
                (long long)l->n_all, l->dataset->name, (long long)batch);
    go_to(l, epoch, own_before(l, batch));
    return SW_OK;
}

/* The order of an epoch is the filler's until it was made; then it stays until the next one,
 * which the caller begins. */
int64_t swi_loader_counted(sw_loader *l, int64_t batch, int64_t n)
{
    const int32_t *counts = l->dataset->counts;
    const int64_t most = l->n_all * l->batch, past = (batch + n) * l->batch;
    int64_t sum = 0;
    SW_ASSERT(counts != NULL && l->begun && batch >= 0 && n >= 0);
    pthread_mutex_lock(&l->mutex);
    while (!l->ordered && l->busy)
        pthread_cond_wait(&l->done, &l->mutex);
    if (!l->ordered)
        make_order(l);
    l->ordered = true;
    pthread_mutex_unlock(&l->mutex);
    for (int64_t i = batch * l->batch; i < past && i < most && i < l->dataset->n; i++)
        sum += counts[sample_at(l, i)];
    return sum;
}

/* `begun`, `epoch` and `given` are written by the caller's thread alone, so no lock is needed,
 * and a child of a fork can ask too. */
sw_status sw_loader_position(const sw_loader *l, uint64_t *epoch, int64_t *batch)
{
    SW_TRY(sw_handle_check(l, SW_HANDLE_LOADER, "sw_loader_position"));
    if (!l->begun)
        SW_FAIL(SW_INVALID, "sw_loader_position: call sw_loader_epoch or sw_loader_seek first");
    if (epoch != NULL)
        *epoch = l->epoch;
    if (batch != NULL) {
        const int64_t rest = l->given % l->share;
        *batch = l->given == l->n_batches
                     ? l->n_all
                     : l->given / l->share * l->of + (rest > 0 ? l->first + rest : 0);
    }
    return SW_OK;
}

/* With the mutex: have slot `taken` filled. */
static void await(sw_loader *l)
{
    if (!l->inline_fill) {
        if (l->filled == l->taken)
            pthread_cond_signal(&l->work);
        while (l->filled == l->taken)
            pthread_cond_wait(&l->done, &l->mutex);
        return;
    }
    if (!l->ordered)
        make_order(l);
    l->ordered = true;
    SW_ASSERT(l->filled == l->taken && l->next == l->given);
    fill(l, slot_of(l, l->filled++), l->next++);
}

sw_status sw_loader_next(sw_loader *l, const sw_array **inputs, int *n_inputs)
{
    SW_TRY(sw_handle_check(l, SW_HANDLE_LOADER, "sw_loader_next"));
    SW_TRY(
        swi_given(inputs != NULL && n_inputs != NULL, "inputs and n_inputs", "sw_loader_next"));
    SW_TRY(check_fork(l, "sw_loader_next"));
    if (!l->begun) /* written by this thread alone */
        SW_FAIL(SW_INVALID, "sw_loader_next: call sw_loader_epoch first");
    pthread_mutex_lock(&l->mutex);
    l->held = false;
    const bool more = l->given < l->n_batches;
    if (more) {
        await(l);
        SW_ASSERT(l->filled > l->taken);
        *inputs = slot_of(l, l->taken)->input;
        l->taken++;
        l->given++;
        l->held = true;
    }
    SW_ASSERT(l->given <= l->next && l->taken <= l->filled);
    const bool wake = !l->inline_fill && !l->busy && has_work(l);
    pthread_mutex_unlock(&l->mutex);
    if (wake) /* without the mutex, which it would wait for */
        pthread_cond_signal(&l->work);
    if (!more)
        *inputs = NULL;
    *n_inputs = more ? l->dataset->n_fields : 0;
    return SW_OK;
}

size_t sw_loader_bytes(const sw_loader *l)
{
    return sw_handle_check(l, SW_HANDLE_LOADER, "sw_loader_bytes") == SW_OK ? l->bytes : 0;
}

int64_t sw_loader_batches(const sw_loader *l)
{
    return sw_handle_check(l, SW_HANDLE_LOADER, "sw_loader_batches") == SW_OK ? l->n_all : 0;
}

bool swi_loader_begun(const sw_loader *l)
{
    return l->begun; /* written by the caller's thread alone */
}

sw_status swi_loader_identify(const sw_loader *l, swi_loader_identity *out)
{
    uint64_t data;
    SW_TRY(check_fork(l, "sw_checkpoint_loader")); /* it could not seek */
    SW_TRY(sw_dataset_hash(l->dataset, &data));
    *out = (swi_loader_identity)SW_INIT(.batch = l->batch, .samples = l->dataset->n,
                                        .seed = l->seed, .shuffle = l->shuffle,
                                        .keyed = l->shuffle && l->keyed,
                                        .drop_last = l->drop_last, .data = data);
    return SW_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

/* Payload of one field in a slot, and the same rounded up as it is counted. */
static sw_status field_bytes(const sw_dataset *dataset, int field, int64_t batch, size_t *bytes,
                             size_t *rounded)
{
    if (!sw_size_mul((size_t)batch, dataset->field[field].sample_bytes, bytes) ||
        !sw_size_align(*bytes, SW_ALIGN, rounded))
        SW_FAIL(SW_NOMEM, "loader: a batch of %lld overflows", (long long)batch);
    return SW_OK;
}

static sw_status make_arena(sw_loader *l, const sw_loader_opts *loader_opts)
{
    size_t reserve = 0;
    sw_store *store;
    /* Who fills, and all slots; *reserve has room for a red zone after every range too. */
    size_t one = 0, bytes = 0, rounded = 0;
    for (int f = 0; f < l->dataset->n_fields; f++) {
        SW_TRY(field_bytes(l->dataset, f, l->batch, &bytes, &rounded));
        if (!sw_size_add(one, rounded, &one))
            SW_FAIL(SW_NOMEM, "loader: a batch of %lld overflows", (long long)l->batch);
    }
    l->views = !l->shuffle;
    for (int f = 0; f < l->dataset->n_fields; f++) {
        const swi_field *field = &l->dataset->field[f];
        l->views = l->views && field->stride == (ptrdiff_t)field->sample_bytes &&
                   (uintptr_t)field->data % sw_dtype_bytes(field->dtype) == 0;
    }
    l->inline_fill = l->views || swi_loader_fills_inline(one, loader_opts->inline_fill);
    l->n_slots = l->inline_fill ? 1 : (uint32_t)loader_opts->slots;
    if (l->views)
        return SW_OK;
    const size_t zones = (size_t)l->n_slots * SWI_MAX_FIELDS * SW_ALIGN;
    if (!sw_size_mul(one, l->n_slots, &l->bytes) || !sw_size_add(l->bytes, zones, &reserve))
        SW_FAIL(SW_NOMEM, "loader: %u slots of %zu bytes overflow", l->n_slots, one);

    SW_TRY(sw_store_host_create(&store, reserve));
    const sw_arena_opts opts = {
        .label = "loader", .store = store, .budget = loader_opts->budget, .use = SW_ARENA_DATA};
    SW_TRY(sw_arena_create(&l->arena, &opts));
    return sw_arena_grow(l->arena, l->bytes, false); /* a refusal names the whole of it */
}

static sw_status make_loader(sw_loader *l, const sw_loader_opts *opts)
{
    SW_TRY(make_arena(l, opts));
    SW_ASSERT(l->n_slots >= 1 && l->n_slots <= MAX_SLOTS && l->batch >= 1);
    SW_ASSERT(l->dataset->n_fields >= 1 && l->dataset->n_fields <= SWI_MAX_FIELDS);
    SW_TRY(sw_heap_alloc(&l->slots, SW_HEAP_RECORDS, l->n_slots * sizeof(slot)));
    for (uint32_t s = 0; s < l->n_slots; s++)
        for (int f = 0; f < l->dataset->n_fields; f++) {
            const swi_field *field = &l->dataset->field[f];
            sw_array *input = &l->slots[s].input[f];
            *input = (sw_array){.dtype = field->dtype};
            input->shape.rank = field->shape.rank + 1;
            memcpy(&input->shape.dim[1], field->shape.dim,
                   (size_t)field->shape.rank * sizeof field->shape.dim[0]);
            if (l->views)
                continue;
            size_t bytes = 0, rounded = 0;
            void *at;
            SW_TRY(field_bytes(l->dataset, f, l->batch, &bytes, &rounded));
            SW_TRY(sw_arena_push(l->arena, &at, bytes, "batch slot"));
            SW_ASSERT((uintptr_t)at % SW_ALIGN == 0 && rounded >= bytes);
            memset(at, 0, bytes); /* touched now: no first batch waits for pages */
            l->slots[s].at[f] = at;
            input->data = at;
        }

    if (l->shuffle && !l->keyed) {
        SW_TRY(sw_heap_alloc(&l->order, SW_HEAP_RECORDS,
                             (size_t)l->dataset->n * sizeof(uint32_t)));
    }
    if (!l->inline_fill)
        SW_TRY(sw_thread_start(&l->thread, filler, l, "sw-loader"));
    return SW_OK;
}

/* In a process that was forked off no one waits for the mutex, and a condition that is
 * destroyed would wait for its waiters. */
static void end_thread(sw_loader *l)
{
    if (!is_forked(l)) {
        pthread_mutex_lock(&l->mutex);
        l->stop = true;
        pthread_cond_signal(&l->work);
        pthread_mutex_unlock(&l->mutex);
    }
    sw_thread_join(l->thread);
    if (is_forked(l))
        return;
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->mutex);
}

static void end(sw_loader *l)
{
    end_thread(l);
    if (l->order != NULL)
        sw_heap_free(l->order, SW_HEAP_RECORDS, (size_t)l->dataset->n * sizeof(uint32_t));
    sw_heap_free(l->slots, SW_HEAP_RECORDS, l->n_slots * sizeof(slot));
    sw_arena_destroy(l->arena);
    swi_dataset_release(l->dataset);
    sw_handle_give(l, SW_HANDLE_LOADER, sizeof *l);
}

sw_status sw_loader_create(sw_loader **out, const sw_dataset *dataset,
                           const sw_loader_opts *given)
{
    sw_loader_opts opts;
    SW_TRY(swi_given(out != NULL, "out", "sw_loader_create"));
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, "sw_loader_create"));
    if (dataset->shapes_only)
        SW_FAIL(SW_INVALID,
                "sw_loader_create: %s has shapes alone: read it without shapes_only",
                dataset->name);
    /* The caller's options, those of an older header filled up with zeros, and checked. */
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_loader_opts, &opts, given, "sw_loader_create"));
    if (opts.batch < 1)
        SW_FAIL(SW_INVALID, "sw_loader_create: batch must be at least 1 (got %lld)",
                (long long)opts.batch);
    if (opts.slots == 0)
        opts.slots = SWI_SLOTS;
    if (opts.slots < 1 || opts.slots > MAX_SLOTS)
        SW_FAIL(SW_INVALID, "sw_loader_create: slots must be 1 to %d (got %d)", MAX_SLOTS,
                opts.slots);

    if (opts.reserved_word != 0)
        SW_FAIL(SW_INVALID, "sw_loader_create: reserved_word must be 0");
    if (opts.of == 0
            ? opts.first != 0 || opts.share != 0
            : opts.share == 0 || opts.first >= opts.of || opts.share > opts.of - opts.first)
        SW_FAIL(SW_INVALID,
                "sw_loader_create: a loader has batches `first` to `first` + `share` - 1 of "
                "each `of` (got first %u, share %u, of %u)",
                opts.first, opts.share, opts.of);

    sw_loader *l;
    if (opts.budget != NULL)
        SW_TRY(sw_handle_check(opts.budget, SW_HANDLE_BUDGET, "sw_loader_create"));
    SW_TRY(sw_handle_take(&l, SW_HANDLE_LOADER, sizeof(sw_loader)));
    l->forks = sw_fork_number();
    l->dataset = dataset;
    swi_dataset_share(dataset);
    l->batch = opts.batch;
    const int64_t n = l->dataset->n,
                  all = n / opts.batch + (!opts.drop_last && n % opts.batch != 0);
    l->of = opts.of > 0 ? opts.of : 1;
    l->share = opts.of > 0 ? opts.share : 1;
    l->first = opts.first;
    l->n_all = opts.drop_last ? all / l->of * l->of : all;
    l->n_batches = own_before(l, l->n_all);
    l->seed = opts.seed;
    l->shuffle = opts.shuffle != 0;
    l->keyed = l->shuffle && opts.keyed != 0; /* without it there is no order */
    l->drop_last = opts.drop_last != 0;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    const sw_status status = make_loader(l, &opts);
    return SW_GIVE(status, out, l, end);
}

void sw_loader_destroy(sw_loader *l)
{
    static const char call[] = "sw_loader_destroy";
    if (sw_handle_ends(l, SW_HANDLE_LOADER, call))
        end(l);
}
