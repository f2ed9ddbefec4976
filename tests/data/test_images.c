/* Folders of images: which files become which samples, what becomes of their pixels. */
#include "tests/data/image_files.h"
#include "alloc/base/fault.h"
#include "alloc/base/sys.h"
#include <unistd.h>
#include <pthread.h>

SW_TESTS("images")

static const unsigned char *image_of(const sw_dataset_info *info, int64_t i)
{
    const sw_shape *s = &info->field[0].shape;
    return (const unsigned char *)info->field[0].data + i * s->dim[0] * s->dim[1] * s->dim[2];
}

static int label_of(const sw_dataset_info *info, int64_t i)
{
    return ((const unsigned char *)info->field[1].data)[i];
}

/* Sample i has the image's pixels. */
static void check_pixels(const sw_dataset_info *info, int64_t i, const png_image *p)
{
    const sw_shape *s = &info->field[0].shape;
    const unsigned char *at = image_of(info, i);
    int wrong = 0;
    CU_ASSERT_FATAL(s->rank == 3 && s->dim[1] == p->h && s->dim[2] == p->w);
    for (int c = 0; c < s->dim[0]; c++)
        for (uint32_t y = 0; y < p->h; y++)
            for (uint32_t x = 0; x < p->w; x++)
                wrong += *at++ != png_pixel(p, x, y, png_channels(p) == 1 ? 0 : c);
    SW_CHECK(wrong == 0, "sample %lld (depth %d, type %d): %d pixels differ", (long long)i,
             p->depth, p->type, wrong);
}

static png_image gray(unsigned seed)
{
    return (png_image){.w = 5, .h = 4, .depth = 8, .type = PNG_GRAY, .seed = seed};
}

SW_TEST("folders become classes in the order of their names")
{
    static const char *const paths[] = {"b/2.png", "b/10.png", "a b/x.PNG",     "a/z/y.png",
                                        "a/1.png", "Z/0.png",  "a b/more/a.png"};
    static const struct {
        int label;
        unsigned seed;
    } sorted[] = {{0, 5}, {1, 4}, {1, 3}, {2, 6}, {2, 2}, {3, 1}, {3, 0}};
    IMAGES_BEGIN();
    for (unsigned i = 0; i < 7; i++)
        put_png(paths[i], gray(i));
    dir_put("a/note.txt", (bytes){NULL, 0});
    dir_put("a/.hidden.png", (bytes){NULL, 0});
    dir_put("list.csv", (bytes){NULL, 0});
    folder_make(".git");
    const sw_dataset_info info = data_first(images_read_one);
    CU_ASSERT(info.n == 7 && info.n_classes == 4 && info.n_fields == 2);
    CU_ASSERT_STRING_EQUAL(info.class_names[0], "Z");
    CU_ASSERT_STRING_EQUAL(info.class_names[1], "a");
    CU_ASSERT_STRING_EQUAL(info.class_names[2], "a b");
    CU_ASSERT_STRING_EQUAL(info.class_names[3], "b");
    CU_ASSERT_EQUAL(info.bytes, 7 * (5 * 4 + 1));
    for (int i = 0; i < 7; i++) {
        const png_image p = gray(sorted[i].seed);
        SW_CHECK(label_of(&info, i) == sorted[i].label, "sample %d: label %d", i,
                 label_of(&info, i));
        check_pixels(&info, i, &p);
    }
}

SW_TEST("every kind of PNG is read")
{
    static const struct {
        int type, depths[6];
    } kinds[] = {{PNG_GRAY, {1, 2, 4, 8, 16}},
                 {PNG_COLOUR, {8, 16}},
                 {PNG_PALETTE, {1, 2, 4, 8}},
                 {PNG_GRAY_ALPHA, {8, 16}},
                 {PNG_ALPHA, {8, 16}}};
    IMAGES_BEGIN();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int d = 0; kinds[k].depths[d] != 0; d++)
            for (int interlaced = 0; interlaced < 2; interlaced++) {
                const png_image p = SW_INIT(.w = 19, .h = 11, .depth = kinds[k].depths[d],
                                            .type = kinds[k].type, .interlaced = interlaced,
                                            .seed = (unsigned)d);
                put_png("one/image.png", p);
                if (!data_read_both(images_read_one, sets))
                    continue;
                const sw_dataset_info info = data_info(sets[0]);
                CU_ASSERT_EQUAL(info.field[0].shape.dim[0], png_channels(&p));
                check_pixels(&info, 0, &p);
            }
}

SW_TEST("channels are what is asked for")
{
    const png_image colours = {.w = 5, .h = 4, .depth = 8, .type = PNG_COLOUR};
    const png_image one = gray(3);
    IMAGES_BEGIN();
    put_png("a/1.png", one);
    put_png("a/2.png", colours);
    if (data_read_both(images_read_one, sets)) { /* colours win; gray has thrice the same */
        const sw_dataset_info info = data_info(sets[0]);
        CU_ASSERT_EQUAL(info.field[0].shape.dim[0], 3);
        check_pixels(&info, 0, &one);
        check_pixels(&info, 1, &colours);
    }
    image_opts.channels = 1;
    const sw_dataset_info info = data_first(images_read_one);
    CU_ASSERT_EQUAL(info.field[0].shape.dim[0], 1);
    check_pixels(&info, 0, &one);
    for (uint32_t i = 0; i < 20; i++) {
        const uint32_t x = i % 5, y = i / 5;
        const double wanted = 0.299 * png_pixel(&colours, x, y, 0) +
                              0.587 * png_pixel(&colours, x, y, 1) +
                              0.114 * png_pixel(&colours, x, y, 2);
        const double got = image_of(&info, 1)[i];
        SW_CHECK(got - wanted < 0.51 && wanted - got < 0.51, "%g for %g", got, wanted);
    }
}

/* Of a side that is 2 times `side`, bilinear with antialiasing is 1/8, 3/8, 3/8, 1/8 where
 * nothing is cut off. */
SW_TEST("the middle is cut out and resized")
{
    const png_image wide = {.w = 17, .h = 8, .depth = 8, .type = PNG_GRAY};
    IMAGES_BEGIN();
    put_png("a/1.png", wide);
    image_opts.side = 8; /* as high as it is: 4 and 5 columns of the 17 go */
    if (data_read_both(images_read_one, sets)) {
        const sw_dataset_info info = data_info(sets[0]);
        int wrong = 0;
        CU_ASSERT(info.field[0].shape.dim[1] == 8 && info.field[0].shape.dim[2] == 8);
        for (uint32_t i = 0; i < 64; i++)
            wrong += image_of(&info, 0)[i] != png_pixel(&wide, 4 + i % 8, i / 8, 0);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    const png_image even = {.w = 8, .h = 8, .depth = 8, .type = PNG_GRAY};
    put_png("a/1.png", even);
    image_opts.side = 4;
    const sw_dataset_info info = data_first(images_read_one);
    for (uint32_t y = 1; y < 3; y++)
        for (uint32_t x = 1; x < 3; x++) {
            static const double w[] = {0.125, 0.375, 0.375, 0.125};
            double sum = 0.0;
            for (uint32_t i = 0; i < 16; i++)
                sum += w[i / 4] * w[i % 4] *
                       png_pixel(&even, 2 * x - 1 + i % 4, 2 * y - 1 + i / 4, 0);
            const double got = image_of(&info, 0)[y * 4 + x];
            SW_CHECK(got - sum < 1.01 && sum - got < 1.01, "(%u, %u): %g for %g", x, y, got,
                     sum);
        }
}

static void range_of(const png_image *p, unsigned char range[2])
{
    range[0] = 255;
    range[1] = 0;
    for (uint32_t i = 0; i < p->w * p->h; i++) {
        const unsigned char v = png_pixel(p, i % p->w, i / p->w, 0);
        range[0] = v < range[0] ? v : range[0];
        range[1] = v > range[1] ? v : range[1];
    }
}

/* Weights sum to 1: no result is outside of what the image has, and one pixel gives itself. */
SW_TEST("resized pixels stay within the image's")
{
    static const int sides[] = {1, 3, 8, 100};
    static const uint32_t sizes[][2] = {{1, 1}, {1, 50}, {300, 2}, {63, 64}};
    IMAGES_BEGIN();
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++) {
            const png_image p = {.w = sizes[k][0], .h = sizes[k][1], .depth = 8};
            unsigned char range[2];
            int outside = 0;
            put_png("a/1.png", p);
            image_opts.side = sides[i];
            const sw_dataset_info info = data_first(images_read_one);
            CU_ASSERT_EQUAL(info.bytes, (size_t)sides[i] * (size_t)sides[i] + 1);
            range_of(&p, range);
            for (int64_t at = 0; at < (int64_t)sides[i] * sides[i]; at++)
                outside +=
                    image_of(&info, 0)[at] < range[0] || image_of(&info, 0)[at] > range[1];
            SW_CHECK(outside == 0, "%u x %u to %d: %d pixels", p.w, p.h, sides[i], outside);
        }
}

SW_TEST("folders for testing are taken")
{
    static const char *const names[] = {"test", "val"}; /* val goes before test */
    IMAGES_BEGIN();
    for (int i = 0; i < 2; i++) {
        put_png("train/a/1.png", gray(1));
        put_png("train/b/1.png", gray(2));
        put_png("train/c/1.png", gray(3));
        put_png(sw_textf("%s/c/9.png", names[i]), gray(40 + (unsigned)i));
        CU_ASSERT_FATAL(data_read_both(images_read_both, sets));
        const sw_dataset_info train = data_info(sets[0]), test = data_info(sets[1]);
        const png_image wanted = gray(40 + (unsigned)i);
        CU_ASSERT(train.n == 3 && test.n == 1 && train.n_classes == 3 && test.n_classes == 3);
        CU_ASSERT_EQUAL(label_of(&test, 0), 2);
        CU_ASSERT_STRING_EQUAL(test.class_names[2], "c");
        check_pixels(&test, 0, &wanted);
    }
    if (data_read_both(images_read_one, sets)) { /* training alone */
        CU_ASSERT_EQUAL(data_info(sets[0]).n, 3);
        CU_ASSERT_PTR_NULL(sets[1]);
    }
    image_opts.test_share = 0.5;
    data_refused(images_read_both, SW_INVALID, "val", "has no effect");
    image_opts.test_share = 0.0;
    put_png("val/dog/1.png", gray(1));
    data_refused(images_read_both, SW_FORMAT, "val", "class 'dog' is not in");
}

/* Without folders for it a share is for testing, which seed and share alone choose. */
SW_TEST("a share is for testing")
{
    static const struct {
        double share;
        int64_t test;
    } cases[] = {{0.0, 8}, {0.5, 20}, {0.01, 1}, {0.999, 39}};
    unsigned char first[2][40];
    IMAGES_BEGIN();
    for (unsigned i = 0; i < 40; i++)
        put_png(sw_textf("%s/%02u.png", i % 2 ? "odd" : "even", i), gray(i));
    for (int i = 0; i < 4; i++) {
        image_opts.test_share = cases[i].share;
        CU_ASSERT_FATAL(data_read_both(images_read_both, sets));
        const sw_dataset_info train = data_info(sets[0]), test = data_info(sets[1]);
        CU_ASSERT(train.n == 40 - cases[i].test && test.n == cases[i].test);
        unsigned char seen[256] = {0}; /* each image once, by its first pixel and label */
        for (int64_t k = 0; k < 40; k++) {
            const bool is_test = k >= train.n;
            const sw_dataset_info *at = is_test ? &test : &train;
            int found = -1;
            for (unsigned j = 0; j < 40 && found < 0; j++) {
                const png_image p = gray(j);
                if (image_of(at, is_test ? k - train.n : k)[0] == png_pixel(&p, 0, 0, 0) &&
                    image_of(at, is_test ? k - train.n : k)[7] == png_pixel(&p, 2, 1, 0))
                    found = (int)j;
            }
            CU_ASSERT_FATAL(found >= 0);
            seen[found]++;
            CU_ASSERT_EQUAL(label_of(at, is_test ? k - train.n : k), found % 2);
        }
        for (int j = 0; j < 40; j++)
            CU_ASSERT_EQUAL(seen[j], 1);
    }
    image_opts.test_share = 0.5;
    for (int i = 0; i < 2; i++) {
        image_opts.seed = (uint64_t)i;
        CU_ASSERT_FATAL(data_read_both(images_read_both, sets));
        const sw_dataset_info test = data_info(sets[1]);
        for (int64_t k = 0; k < 20; k++)
            first[i][k] = image_of(&test, k)[0];
    }
    CU_ASSERT_NOT_EQUAL(memcmp(first[0], first[1], 20), 0);
}

static int64_t looks, stop_at;
static int count_looks(void *user, int64_t done, int64_t all)
{
    CU_ASSERT(user == &looks && done == looks && all == (image_opts.shapes_only ? 3 : 6));
    return looks++ == stop_at;
}

SW_TEST("progress is reported and may end it")
{
    IMAGES_BEGIN();
    for (unsigned i = 0; i < 3; i++)
        put_png(sw_textf("a/%u.png", i), gray(i));
    image_opts.progress = count_looks;
    image_opts.user = &looks;
    stop_at = -1;
    (void)data_read_both(images_read_one, sets);
    CU_ASSERT_EQUAL(looks, 6);
    for (stop_at = 0; stop_at < 6; stop_at++) {
        looks = 0;
        data_refused(images_read_one, SW_STOPPED, "stopped after", "looks at images");
    }
    image_opts.shapes_only = 1;
    looks = 0;
    stop_at = -1;
    const sw_dataset_info info = data_first(images_read_one);
    CU_ASSERT(looks == 3 && info.n == 3 && info.bytes == 0 && info.field[0].data == NULL);
    CU_ASSERT(info.field[0].shape.dim[1] == 4 && info.field[0].shape.dim[2] == 5);
}

/* More than 256 classes have labels of 32 bits. */
SW_TEST("many classes have wide labels")
{
    IMAGES_BEGIN();
    for (unsigned i = 0; i < 257; i++)
        put_png(sw_textf("%03u/x.png", i), gray(i));
    const sw_dataset_info info = data_first(images_read_one);
    CU_ASSERT(info.n_classes == 257 && info.field[1].dtype == SW_I32);
    CU_ASSERT_EQUAL(((const int32_t *)info.field[1].data)[256], 256);
}

/* JPEG is near what went in, and the same whether progressive or not. */
SW_TEST("JPEG is read")
{
    IMAGES_BEGIN();
    if (!SW_HAVE_JPEG)
        SW_SKIP("built without libjpeg");
    put_jpeg("a/1.jpg", (jpeg_image){40, 30, 3, 98, 0, 0, 1});
    put_jpeg("a/2.JPEG", (jpeg_image){40, 30, 3, 98, 1, 0, 1});
    put_jpeg("a/3.png", (jpeg_image){40, 30, 1, 98, 0, 0, 1}); /* by its content */
    put_jpeg("a/4.jpg", (jpeg_image){40, 30, 1, 98, 0, 1 + 20 * 4, 1});
    image_opts.channels = 1;
    const sw_dataset_info info = data_first(images_read_one);
    CU_ASSERT_EQUAL(info.n, 4);
    CU_ASSERT_EQUAL(memcmp(image_of(&info, 0), image_of(&info, 1), 1200), 0);
    int most = 0;
    for (int i = 0; i < 1200; i++) {
        const int wanted = 128 + (i % 40 * 13 + i / 40 * 29 + 31) % 97;
        const int d = abs(image_of(&info, 2)[i] - wanted);
        most = d > most ? d : most;
    }
    SW_CHECK(most < 12, "up to %d away", most);
}

/* ---- images threads -----------------------------------------------------------------------
 */

/* Folders of images on several threads: the same bytes, failures, calls of progress and counts
 * as on one. */
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
    const char *path = dir_file(path_of(folder, i));
    bytes b = file_get(path);
    CU_ASSERT_FATAL(b.n > keep);
    sw_file_put(path, b.at, keep > 0 ? keep : b.n - 20);
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

static void watch(int64_t last)
{
    told.thread = pthread_self();
    told.calls = told.wrong = 0;
    told.stop_at = last;
    image_opts.progress = count;
    image_opts.user = &told;
}

SW_TEST("progress is reported by one thread, in order")
{
    BEGIN();
    put_some("a", 12);
    for (int k = 0; k < NUMBERS; k++) {
        image_opts.threads = numbers[k];
        watch(-1);
        CU_ASSERT_FATAL(data_read_both(images_read_one, sets));
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
