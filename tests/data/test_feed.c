/* Feeds: orders that are a function of stream and epoch, and batches that are those of a loader
 * with `keyed`. */
#include "alloc/base/fault.h"
#include "runtime/data/feed.h"
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("feed")

static sw_dataset *vectors(int64_t n, int64_t width)
{
    sw_dataset *d = NULL;
    return data_made(sw_dataset_vectors(&d, n, width, 1), &d);
}

static sw_feed *feed_of(const sw_dataset *d, int64_t batch, int shuffle, int drop_last)
{
    const sw_feed_opts opts =
        SW_OPTS(sw_feed_opts, .batch = batch, .shuffle = shuffle, .drop_last = drop_last);
    sw_feed *f = NULL;
    OK(sw_feed_create(&f, d, &opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    AFTER(sw_feed_destroy, f);
    return f;
}

/* ---- orders ------------------------------------------------------------------------------ */

/* Fills order with the epoch's, and says whether each sample is there once. */
static bool read_order(const sw_feed *f, int64_t n, uint64_t stream, uint64_t epoch,
                       uint32_t *order)
{
    unsigned char *seen = calloc((size_t)n, 1);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = -1;
        wrong += sw_feed_sample(f, stream, epoch, i, &sample) != SW_OK;
        wrong += sample < 0 || sample >= n || seen[sample >= 0 && sample < n ? sample : 0]++;
        order[i] = (uint32_t)sample;
    }
    free(seen);
    return wrong == 0;
}

SW_TEST("every epoch has every sample once")
{
    static const int64_t sizes[] = {1,  2,  3,   4,   5,   7,    8,    9,    15,    16,   17,
                                    31, 33, 100, 127, 128, 1000, 1024, 4097, 60000, 65536};
    const size_t n_sizes = sizeof sizes / sizeof *sizes - (sw_tests_full() ? 0 : 2);
    for (size_t s = 0; s < n_sizes; s++) {
        const int64_t n = sizes[s];
        const sw_feed *f = feed_of(vectors(n, 1), 1, 1, 0);
        uint32_t *a = calloc((size_t)n, sizeof *a), *b = calloc((size_t)n, sizeof *b);
        const size_t all = (size_t)n * sizeof *a;
        for (uint64_t stream = 0; stream < 3; stream++)
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                SW_CHECK(read_order(f, n, stream << 40 | stream, epoch, a), "%lld samples",
                         (long long)n);
                (void)read_order(f, n, stream << 40 | stream, epoch + 1, b);
                SW_CHECK(n < 15 || memcmp(a, b, all) != 0, "epochs of %lld", (long long)n);
                (void)read_order(f, n, (stream + 1) << 40 | stream, epoch, b);
                SW_CHECK(n < 15 || memcmp(a, b, all) != 0, "streams of %lld", (long long)n);
                (void)read_order(f, n, stream << 40 | stream, epoch, b);
                SW_CHECK(memcmp(a, b, all) == 0, "twice, of %lld", (long long)n);
            }
        free(a);
        free(b);
    }
}

/* Chi squared of k cells; its mean is the degrees of freedom and its variance twice that. Six
 * deviations: one of 10^8 sound generators is refused. */
static double chi_squared(const uint32_t *count, int k, double each)
{
    double sum = 0.0;
    for (int i = 0; i < k; i++)
        sum += ((double)count[i] - each) * ((double)count[i] - each) / each;
    return sum;
}

static void check_chi(double chi, double freedom, int n, const char *what)
{
    const double most = freedom + 6.0 * sqrt(2.0 * freedom);
    SW_CHECK(chi <= most, "%s of %d: chi squared %.1f, at most %.1f", what, n, chi, most);
}

/* Each sample at each position equally often. A table of permutations has equal sums of rows
 * and columns: (n - 1)^2 degrees of freedom, of a sum that is n / (n - 1) times as large. */
SW_TEST("positions are uniform")
{
    enum { STREAMS = 20000, MOST = 131 };
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 37, 65, 128, MOST};
    static uint32_t count[MOST * MOST];
    uint32_t order[MOST];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int n = sizes[s];
        const sw_feed *f = feed_of(vectors(n, 1), 1, 1, 0);
        memset(count, 0, sizeof count);
        const uint64_t streams = (n <= 37 ? STREAMS : STREAMS / 4) / (sw_tests_full() ? 1 : 8);
        for (uint64_t k = 0; k < streams; k++) {
            (void)read_order(f, n, k / 2, k % 2, order);
            for (int i = 0; i < n; i++)
                count[i * n + (int)order[i]]++;
        }
        const double chi = chi_squared(count, n * n, (double)streams / n);
        check_chi(chi * (n - 1) / n, (double)(n - 1) * (n - 1), n, "positions");
    }
}

/* Of a few samples, each of all orders is equally likely. */
SW_TEST("small orders are uniform")
{
    const uint64_t streams = sw_tests_full() ? 60000 : 15000;
    for (int n = 2; n <= 5; n++) {
        const sw_feed *f = feed_of(vectors(n, 1), 1, 1, 0);
        uint32_t count[120] = {0}, order[5];
        int orders = 1;
        for (int i = 2; i <= n; i++)
            orders *= i;
        for (uint64_t k = 0; k < streams; k++) {
            (void)read_order(f, n, k, 3, order);
            int rank = 0; /* in the order of their digits */
            for (int i = 0; i < n; i++) {
                int less = 0;
                for (int j = i + 1; j < n; j++)
                    less += order[j] < order[i];
                rank = rank * (n - i) + less;
            }
            count[rank]++;
        }
        check_chi(chi_squared(count, orders, (double)streams / orders), orders - 1, n,
                  "orders");
    }
}

SW_TEST("without shuffle samples come as stored")
{
    const sw_feed *f = feed_of(vectors(11, 1), 4, 0, 0);
    for (int64_t i = 0; i < 11; i++) {
        int64_t sample = -1;
        OK(sw_feed_sample(f, 5, 6, i, &sample));
        CU_ASSERT_EQUAL(sample, i);
    }
}

/* ---- batches ----------------------------------------------------------------------------- */

/* All batches of some epochs against those of a loader. */
static void compare_with_loader(const sw_dataset *d, int64_t batch, int drop_last, int shuffle)
{
    const sw_feed *f = feed_of(d, batch, shuffle, drop_last);
    const int64_t n = sw_feed_batches(f);
    unsigned char *to = malloc(sw_feed_bytes(f));
    for (uint64_t seed = 3; seed < 6; seed++) {
        const sw_loader_opts opts =
            SW_OPTS(sw_loader_opts, .batch = batch, .seed = seed, .shuffle = shuffle,
                    .drop_last = drop_last, .keyed = 1, .inline_fill = seed == 4 ? 1 : -1);
        sw_loader *l = data_loader(d, opts);
        CU_ASSERT_EQUAL(sw_loader_batches(l), n);
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            OK(sw_loader_epoch(l, epoch));
            for (int64_t b = 0; b < n; b++) {
                const sw_array *in = NULL;
                int n_in = 0;
                OK(sw_loader_next(l, &in, &n_in));
                const uint64_t number = epoch * (uint64_t)n + (uint64_t)b;
                memset(to, 0xa5, sw_feed_bytes(f));
                swi_feed_fill(f, seed, number, to);
                for (int i = 0; i < n_in; i++) {
                    const sw_array a = swi_feed_array(f, i, swi_feed_rows(f, number), to);
                    const size_t all = (size_t)a.shape.dim[0] * d->field[i].sample_bytes;
                    SW_CHECK(a.dtype == in[i].dtype &&
                                 memcmp(&a.shape, &in[i].shape, sizeof a.shape) == 0,
                             "shape of field %d of batch %lld", i, (long long)b);
                    SW_CHECK(memcmp(a.data, in[i].data, all) == 0,
                             "%s: field %d of batch %lld of epoch %llu", d->name, i,
                             (long long)b, (unsigned long long)epoch);
                }
            }
        }
    }
    free(to);
}

static void compare_all(const sw_dataset *d)
{
    static const int64_t batches[] = {1, 8, 10, 26};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (int k = 0; k < 4; k++)
            compare_with_loader(d, batches[i], k & 1, k >> 1);
    compare_with_loader(d, 1000, 0, 1); /* one batch, of fewer */
}

SW_TEST("batches are those of a keyed loader")
{
    compare_all(data_digits(103, 2));
    compare_all(vectors(57, 5));
}

/* Windows of a text begin elsewhere in each epoch of its training part. */
SW_TEST("windows of a text are those of a keyed loader")
{
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    const char *path = sw_temp_path("feed.txt");
    sw_file_put(path, text, sizeof text);
    const sw_text_opts opts = SW_OPTS(sw_text_opts, .context = 24);
    sw_dataset *part[2] = {NULL, NULL};
    data_made(sw_dataset_text(&part[0], &part[1], path, &opts), &part[0]);
    data_made(SW_OK, &part[1]);
    CU_ASSERT(part[0]->places > 1);
    compare_all(part[0]);
    compare_with_loader(part[1], 4, 0, 1);
    compare_with_loader(part[1], 4, 1, 1);
}

SW_TEST("a dataset lives as long as its feeds")
{
    sw_dataset *d = NULL;
    sw_feed *f = NULL;
    const heap_watch before = heap_now();
    OK(sw_dataset_vectors(&d, 9, 3, 1));
    OK(sw_feed_create(&f, d, &SW_OPTS(sw_feed_opts, .batch = 4, .shuffle = 1)));
    sw_dataset_destroy(d);
    unsigned char *to = malloc(sw_feed_bytes(f));
    swi_feed_fill(f, 1, 2, to); /* of samples that are there yet */
    free(to);
    sw_feed_destroy(f);
    sw_feed_destroy(NULL);
    CHECK_NO_LEAK(before);
}

/* ---- checkpoints ------------------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    sw_model *model;
} run;

/* A checkpoint at `path` of the run with that loader. */
static sw_checkpoint *checkpoint_of(const run *r, const char *path, sw_loader *loader)
{
    sw_checkpoint *c = NULL;
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = path, .models = &r->model, .n_models = 1);
    OK(sw_checkpoint_create(&c, r->exec, &opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    OK(sw_checkpoint_loader(c, loader));
    return c;
}

static sw_loader *loader_of(const sw_dataset *d, int shuffle, uint64_t keyed)
{
    return data_loader(d, SW_OPTS(sw_loader_opts, .batch = 4, .seed = 3, .shuffle = shuffle,
                                  .keyed = keyed, .inline_fill = 1));
}

/* Saved by a loader in the middle of an epoch, loaded into another one. SW_OK: it goes on with
 * the same batch. */
static sw_status save_and_load(const run *r, const sw_dataset *d, const int of[2],
                               const uint64_t keyed[2])
{
    const sw_array *in[2] = {NULL, NULL};
    int n;
    sw_loader *l[2] = {loader_of(d, of[0], keyed[0]), loader_of(d, of[1], keyed[1])};
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    const char *path = sw_temp_path("keyed");
    sw_checkpoint *c = checkpoint_of(r, path, l[0]);
    OK(sw_loader_epoch(l[0], 2));
    OK(sw_loader_next(l[0], &in[0], &n));
    OK(sw_checkpoint_save(c, 1));
    sw_checkpoint_destroy(c);
    OK(sw_loader_next(l[0], &in[0], &n));
    c = checkpoint_of(r, path, l[1]);
    OK(sw_checkpoint_find(c, NULL, &found));
    CU_ASSERT_EQUAL(found.found, 1);
    const sw_status status = sw_checkpoint_load(c);
    if (status == SW_OK) {
        OK(sw_loader_next(l[1], &in[1], &n));
        CU_ASSERT(memcmp(in[0][0].data, in[1][0].data, 4 * d->field[0].sample_bytes) == 0);
    }
    sw_checkpoint_destroy(c);
    return status;
}

SW_TEST("a checkpoint tells keyed loaders from others")
{
    const run r = {.exec = made_exec(NULL), .model = made_model("m")};
    const sw_dataset *d = vectors(21, 3);
    (void)sw_linear_new(r.model, "l", 3, 3);
    OK(sw_model_ready(r.model, r.exec, 1));
    static const int mixed[2] = {1, 1}, in_order[2] = {0, 0};
    static const uint64_t no[2] = {0, 0}, yes[2] = {1, 1}, was[2] = {1, 0}, is[2] = {0, 1};
    OK(save_and_load(&r, d, mixed, no));
    OK(save_and_load(&r, d, mixed, yes));
    CU_ASSERT(failed_as(save_and_load(&r, d, mixed, was), SW_INVALID,
                        "keyed of loader 0 was 1 there and is 0 here"));
    CU_ASSERT(failed_as(save_and_load(&r, d, mixed, is), SW_INVALID,
                        "keyed of loader 0 was 0 there and is 1 here"));
    OK(save_and_load(&r, d, in_order, was)); /* there is no order that it could be of */
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void refuse(const sw_dataset *d, int64_t batch, int drop_last, const char *part)
{
    const sw_feed_opts opts = SW_OPTS(sw_feed_opts, .batch = batch, .drop_last = drop_last);
    sw_feed *f = NULL;
    CU_ASSERT(failed_as(sw_feed_create(&f, d, &opts), SW_INVALID, part));
    CU_ASSERT_PTR_NULL(f);
}

SW_TEST("what cannot be is refused")
{
    const sw_dataset *d = vectors(9, 3);
    const sw_feed *f = feed_of(d, 4, 1, 0);
    int64_t sample = 77;
    refuse(d, 0, 0, "batch must be at least 1 (got 0)");
    refuse(d, -3, 0, "(got -3)");
    refuse(d, 10, 1, "at most the 9 samples");
    CU_ASSERT(failed_as(sw_feed_sample(f, 0, 0, 9, &sample), SW_INVALID, "0 to 8 (got 9)"));
    CU_ASSERT(failed_as(sw_feed_sample(f, 0, 0, -1, &sample), SW_INVALID, "(got -1)"));
    CU_ASSERT_EQUAL(sample, 77);
    const sw_feed_opts huge = SW_OPTS(sw_feed_opts, .batch = INT64_MAX);
    sw_feed *none = NULL;
    CU_ASSERT(failed_as(sw_feed_create(&none, d, &huge), SW_NOMEM, "overflows"));
}

static sw_status feed_life(void *dataset)
{
    const sw_feed_opts opts = SW_OPTS(sw_feed_opts, .batch = 4, .shuffle = 1);
    sw_feed *f = NULL;
    const sw_status status = sw_feed_create(&f, dataset, &opts);
    sw_feed_destroy(f);
    return status;
}

SW_TEST("every allocation can fail")
{
    sw_dataset *d = vectors(9, 3);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, feed_life, d) >= 1);
}
