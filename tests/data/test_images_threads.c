/* Folders of images on several threads: the same bytes, failures, calls of progress and counts
 * as on one. */
#include "alloc/base/fault.h"
#include "alloc/base/sys.h"
#include "tests/data/image_files.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

SW_TESTS("images on threads")

#define BEGIN()                                                                                \
    do {                                                                                       \
        IMAGES_BEGIN();                                                                        \
        image_opts.side = 32;                                                                  \
    } while (0)

/* Work enough for a thread of its own, and very little. */
static const png_image large = {.w = 700, .h = 400, .depth = 8, .type = PNG_GRAY};
static const png_image small = {.w = 33, .h = 40, .depth = 8, .type = PNG_COLOUR};

static const char *path_of(const char *folder, int i)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%02d.png", folder, i);
    return path;
}

/* n images by turns large and small, of both formats where libjpeg is there. */
static void put_some(const char *folder, int n)
{
    for (int i = 0; i < n; i++) {
        png_image p = i % 2 == 0 ? large : small;
        p.seed = (unsigned)i;
        if (SW_HAVE_JPEG && i % 3 == 1)
            put_jpeg(path_of(folder, i), (jpeg_image){90, 70, 3, 90, i % 2, 0, (unsigned)i});
        else
            put_png(path_of(folder, i), p);
    }
}

/* Cut an image that was put: its head is sound, and the bad end is all the sooner. */
static void cut(const char *folder, int i, size_t keep)
{
    char path[700];
    snprintf(path, sizeof path, "%s", dir_file(path_of(folder, i)));
    bytes b = file_get(path);
    CU_ASSERT_FATAL(b.n > keep);
    sw_file_put(path, b.at, keep > 0 ? keep : b.n - 20);
    bytes_free(&b);
}

static const int numbers[] = {0, 2, 3, 8, 256};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static bool same_part(const sw_dataset *a, const sw_dataset *b)
{
    const sw_dataset_info x = data_info(a), y = data_info(b);
    bool same = x.n == y.n && x.n_fields == y.n_fields && x.bytes == y.bytes && x.n > 0;
    for (int f = 0; same && f < x.n_fields; f++) {
        size_t each = sw_dtype_bytes(x.field[f].dtype);
        for (int d = 0; d < x.field[f].shape.rank; d++)
            each *= (size_t)x.field[f].shape.dim[d];
        same = memcmp(x.field[f].data, y.field[f].data, each * (size_t)x.n) == 0;
    }
    return same;
}

static void check_same(const char *what)
{
    sw_dataset *one[2], *more[2];
    image_opts.threads = 1;
    if (!data_read_both(images_read_both, one))
        return;
    for (int k = 0; k < NUMBERS; k++) {
        image_opts.threads = numbers[k];
        if (!data_read_both(images_read_both, more))
            return;
        for (int p = 0; p < 2; p++)
            SW_CHECK(same_part(one[p], more[p]), "%s, %d threads: part %d", what, numbers[k],
                     p);
    }
}

SW_TEST("the bytes are the same")
{
    BEGIN();
    put_some("a", 9);
    put_some("b", 8);
    check_same("a share for testing");
    for (image_opts.seed = 1; image_opts.seed < 4; image_opts.seed++)
        check_same("another share");
    images_begin();
    image_opts.side = 32;
    put_some("train/a", 5);
    put_some("train/b", 4);
    put_some("val/b", 6);
    check_same("a folder for testing");
}

/* The bad one in front takes longer to fail than those after it, or less long. */
SW_TEST("the first bad image is reported")
{
    static const int bad[] = {2, 3, 5, 6};
    BEGIN();
    put_some("a", 12);
    for (int i = 0; i < 4; i++)
        cut("a", bad[i], i == 0 || i == 3 ? 0 : 200);
    for (int i = 0; i < 4; i++) {
        char why[600];
        image_opts.threads = 1;
        data_refused(images_read_one, SW_FORMAT, path_of("a", bad[i]), "cut after");
        snprintf(why, sizeof why, "%s", sw_last_error());
        for (int round = 0; round < 20; round++) {
            image_opts.threads = numbers[round % NUMBERS];
            data_refused(images_read_one, SW_FORMAT, path_of("a", bad[i]), why);
        }
        put_png(path_of("a", bad[i]), large);
    }
}

/* How many calls of that kind one reading makes. */
static uint64_t calls_of(sw_fault_kind kind, sw_status expected)
{
    sw_dataset *part[2] = {NULL, NULL};
    sw_fault_plan(kind, 0, SW_FAULT_OFF);
    CU_ASSERT_EQUAL(images_read_one(part), expected);
    sw_dataset_destroy(part[0]);
    return sw_fault_calls(kind);
}

/* But for those that threads have begun meanwhile. */
SW_TEST("none is begun after a bad image")
{
    BEGIN();
    put_some("a", 60);
    for (int k = 0; k < NUMBERS; k++) {
        image_opts.threads = numbers[k];
        image_opts.shapes_only = 1;
        const uint64_t heads = calls_of(SW_FAULT_FILE, SW_OK);
        image_opts.shapes_only = 0;
        const uint64_t all = calls_of(SW_FAULT_FILE, SW_OK) - heads;
        cut("a", 3, 200);
        const uint64_t some = calls_of(SW_FAULT_FILE, SW_FORMAT) - heads;
        put_png(path_of("a", 3), small);
        SW_CHECK(some > 0 && some < all / 2, "%llu of %llu calls", (unsigned long long)some,
                 (unsigned long long)all);
    }
}

/* ---- progress ---------------------------------------------------------------------------- */

static struct {
    pthread_t thread;
    int64_t calls, wrong, stop_at;
} told;

static int count(void *user, int64_t done, int64_t all)
{
    told.wrong += user != &told || done != told.calls || all != 24 ||
                  !pthread_equal(told.thread, pthread_self());
    return told.calls++ == told.stop_at;
}

static void watch(int64_t stop_at)
{
    told.thread = pthread_self();
    told.calls = told.wrong = 0;
    told.stop_at = stop_at;
    image_opts.progress = count;
    image_opts.user = &told;
}

SW_TEST("progress is reported by one thread, in order")
{
    BEGIN();
    put_some("a", 12);
    for (int k = 0; k < NUMBERS; k++) {
        sw_dataset *part[2];
        image_opts.threads = numbers[k];
        watch(-1);
        if (!data_read_both(images_read_one, part))
            return;
        SW_CHECK(told.calls == 24 && told.wrong == 0, "%lld calls, %lld wrong",
                 (long long)told.calls, (long long)told.wrong);
        for (int64_t at = 0; at < 24; at++) {
            char reason[64];
            watch(at);
            snprintf(reason, sizeof reason, "stopped after %lld of 24 looks", (long long)at);
            data_refused(images_read_one, SW_STOPPED, dir_name(), reason);
            CU_ASSERT(told.calls == at + 1 && told.wrong == 0);
        }
    }
}

SW_TEST("progress ends at the first bad image")
{
    BEGIN();
    put_some("a", 12);
    cut("a", 2, 0);
    cut("a", 3, 200);
    for (int round = 0; round < 20; round++) {
        image_opts.threads = numbers[round % NUMBERS];
        watch(-1);
        data_refused(images_read_one, SW_FORMAT, path_of("a", 2), "cut after");
        CU_ASSERT(told.calls == 12 + 3 && told.wrong == 0);
        watch(12 + 2); /* before it */
        data_refused(images_read_one, SW_STOPPED, dir_name(), "stopped after 14 of 24");
        watch(12 + 3); /* after it */
        data_refused(images_read_one, SW_FORMAT, path_of("a", 2), "cut after");
    }
}

/* ---- threads and failures ---------------------------------------------------------------- */

SW_TEST("threads are as many as help")
{
    const uint64_t others = (uint64_t)sw_thread_processors() - 1;
    BEGIN();
    for (int i = 0; i < 12; i++)
        put_png(path_of("a", i), small);
    image_opts.threads = 8;
    CU_ASSERT_EQUAL(calls_of(SW_FAULT_THREAD, SW_OK), 0); /* little work */
    put_some("b", 12);
    image_opts.shapes_only = 1;
    CU_ASSERT_EQUAL(calls_of(SW_FAULT_THREAD, SW_OK), 0); /* none */
    image_opts.shapes_only = 0;
    for (uint64_t n = 1; n <= 3; n++) {
        image_opts.threads = (int64_t)n;
        CU_ASSERT_EQUAL(calls_of(SW_FAULT_THREAD, SW_OK), n - 1 < others ? n - 1 : others);
    }
    image_opts.threads = -1;
    data_refused(images_read_one, SW_INVALID, "sw_dataset_images",
                 "threads must be 0 to 256 (got -1)");
    image_opts.threads = 257;
    data_refused(images_read_one, SW_INVALID, "sw_dataset_images",
                 "threads must be 0 to 256 (got 257)");
}

SW_TEST("threads that cannot be started are reported")
{
    BEGIN();
    if (sw_thread_processors() < 2)
        SW_SKIP("one processor: no thread is started");
    put_some("a", 12);
    image_opts.threads = 4;
    const uint64_t n = calls_of(SW_FAULT_THREAD, SW_OK);
    CU_ASSERT(n > 0);
    for (uint64_t k = 0; k < n; k++) {
        sw_fault_plan(SW_FAULT_THREAD, k, SW_FAULT_ONCE);
        data_refused(images_read_one, SW_IO, "sw-worker", "could not be started");
        sw_fault_plan(SW_FAULT_THREAD, 0, SW_FAULT_OFF);
    }
    CU_ASSERT_EQUAL(calls_of(SW_FAULT_THREAD, SW_OK), n);
}

/* The calls of a reading do not depend on which thread reads what: a plan of failures means the
 * same each time. */
SW_TEST("calls are as many each time")
{
    static const sw_fault_kind kinds[] = {SW_FAULT_MEMORY, SW_FAULT_FILE};
    BEGIN();
    put_some("a", 12);
    for (int threads = 1; threads <= 2; threads++) {
        uint64_t first[2] = {0, 0};
        image_opts.threads = threads;
        for (int round = 0; round < 10; round++) {
            sw_dataset *part[2] = {NULL, NULL};
            for (int k = 0; k < 2; k++)
                sw_fault_plan(kinds[k], 0, SW_FAULT_OFF);
            CU_ASSERT_EQUAL(images_read_one(part), SW_OK);
            for (int k = 0; k < 2; k++) {
                const uint64_t now = sw_fault_calls(kinds[k]);
                first[k] = round == 0 ? now : first[k];
                SW_CHECK(now == first[k] && now > 12, "%d threads: %llu and %llu calls of %s",
                         threads, (unsigned long long)first[k], (unsigned long long)now,
                         sw_fault_kind_name(kinds[k]));
            }
            sw_dataset_destroy(part[0]);
        }
    }
}

SW_TEST("every failure is reported")
{
    BEGIN();
    put_some("train/a", 4);
    put_png("val/a/1.png", large);
    image_opts.threads = 3;
    data_sweep(images_read_both, 60, 20);
}
