/* Folders of images that are refused: what is missing, foreign, damaged, cut or too large, by
 * name, and without anything left; failures of memory and of files. */
#include "alloc/base/fault.h"
#include "alloc/base/message.h"
#include "tests/data/image_files.h"
#include "tests/support/files.h"
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("images refused")

static const png_image small = {.w = 5, .h = 4, .depth = 8, .type = PNG_COLOUR};

static void put_text(const char *path, const char *text)
{
    bytes b = {NULL, 0};
    char folder[64];
    bytes_put(&b, text, strlen(text));
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(path, "/"), path);
    folder_make(folder);
    dir_put(path, b);
}

SW_TEST("without a library it says so")
{
    images_begin();
    if (SW_HAVE_PNG)
        SW_SKIP("libpng is there");
    put_png("a/1.png", small);
    data_refused(images_read_one, SW_UNSUPPORTED, "1.png",
                 "this build reads no PNG (libpng is off)");
}

SW_TEST("without libjpeg it says so")
{
    images_begin();
    if (SW_HAVE_JPEG)
        SW_SKIP("libjpeg is there");
    put_text("a/1.jpg", "\377\330\377\340");
    data_refused(images_read_one, SW_UNSUPPORTED, "1.jpg",
                 "this build reads no JPEG (libjpeg is off)");
}

SW_TEST("wrong folders are refused")
{
    images_begin();
    data_refused(images_read_one, SW_FORMAT, dir_name(), "a folder for each class is needed");
    put_text("a/note.txt", "no image");
    data_refused(images_read_one, SW_FORMAT, "/a", "no image in it");
    put_text("a/1.gif", "GIF89a");
    data_refused(images_read_one, SW_FORMAT, "1.gif", "images must be .png, .jpg or .jpeg");
    images_begin();
    put_png("train/a/1.png", small);
    data_refused(images_read_one, SW_FORMAT, dir_name(), "val or test must be beside it");
    images_begin();
    folder_make("a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r");
    data_refused(images_read_one, SW_FORMAT, "/q", "at most 16 deep");
    images_begin();
    folder_make("a");
    CU_ASSERT_EQUAL_FATAL(symlink("..", dir_file("a/up")), 0); /* a circle */
    data_refused(images_read_one, SW_FORMAT, "/up", "at most 16 deep");
}

static sw_status read_nowhere(sw_dataset *part[2])
{
    return sw_dataset_images(&part[0], NULL, sw_temp_path("no such folder"), &image_opts);
}

SW_TEST("wrong calls are refused")
{
    sw_dataset *train = NULL;
    images_begin();
    data_refused(read_nowhere, SW_IO, "no such folder", "No such file");
    CU_ASSERT_EQUAL(sw_dataset_images(&train, NULL, "", &image_opts), SW_INVALID);
    image_opts.side = 4097;
    data_refused(images_read_one, SW_INVALID, "sw_dataset_images",
                 "side must be 0 to 4096 (got 4097)");
    image_opts.side = 0;
    image_opts.channels = 2;
    data_refused(images_read_one, SW_INVALID, "sw_dataset_images",
                 "channels must be 0, 1 or 3");
    image_opts.channels = 0;
    image_opts.test_share = 1.0;
    data_refused(images_read_one, SW_INVALID, "sw_dataset_images", "test_share must be");
}

#if SW_HAVE_PNG

static const png_image crossed = {.w = 5, .h = 4, .depth = 4, .interlaced = 1};

SW_TEST("what is no image is named")
{
    images_begin();
    put_png("a/1.png", small);
    put_text("a/2.png", "");
    data_refused(images_read_one, SW_FORMAT, "2.png", "empty; an image was expected");
    put_text("a/2.png", "BM this is something else");
    data_refused(images_read_one, SW_FORMAT, "2.png", "neither PNG nor JPEG");
    (void)unlink(dir_file("a/2.png"));
    folder_make("a/2.png");
    data_refused(images_read_one, SW_IO, "2.png", "directory");
    (void)rmdir(dir_file("a/2.png"));
    put_png("a/2.png", (png_image){.w = 5, .h = 5, .depth = 8});
    data_refused(images_read_one, SW_FORMAT, "2.png", "5 x 5, and images before it are 5 x 4");
    (void)unlink(dir_file("a/2.png"));
    data_refused(images_read_both, SW_FORMAT, dir_name(), "one image cannot be split");
}

SW_TEST("an unreadable folder is named")
{
    images_begin();
    data_refused_unreadable(images_read_one, dir_name());
}

/* The width of the head, as large as can be said, with a sum that is right. */
SW_TEST("bombs are refused before memory is taken")
{
    static const struct {
        uint32_t w, h;
        const char *reason;
    } heads[] = {{65537, 1, "1.png"},
                 {65536, 65536, "at most 65536 pixels on a side"},
                 {0x7fffffff, 0x7fffffff, "1.png"},
                 {40000, 2000, "67108864 in all"}};
    images_begin();
    for (int i = 0; i < 4; i++) {
        bytes b = png_bytes(small);
        for (int k = 0; k < 4; k++) {
            b.at[16 + k] = (unsigned char)(heads[i].w >> (24 - 8 * k));
            b.at[20 + k] = (unsigned char)(heads[i].h >> (24 - 8 * k));
        }
        const uint32_t crc = crc32_of(b.at + 12, 17);
        for (int k = 0; k < 4; k++)
            b.at[29 + k] = (unsigned char)(crc >> (24 - 8 * k));
        folder_make("a");
        dir_put("a/1.png", b);
        data_refused(images_read_one, SW_FORMAT, "1.png", heads[i].reason);
    }
    CU_ASSERT(heap_peak(SW_HEAP_FILES) < (size_t)64 << 20);
}

/* After the look at its head, before its decoding. */
static int change_it(void *user, int64_t done, int64_t all)
{
    const png_image *other = user;
    if (done < all / 2)
        return 0;
    (void)unlink(dir_file("a/1.png"));
    if (other->w > 0)
        put_png("a/1.png", *other);
    return 0;
}

SW_TEST("an image that changes meanwhile is named")
{
    png_image others[] = {{.w = 50, .h = 40, .depth = 8, .type = PNG_COLOUR}, {.w = 0}};
    const sw_status statuses[] = {SW_FORMAT, SW_IO};
    images_begin();
    for (int i = 0; i < 2; i++) {
        put_png("a/1.png", small);
        image_opts.progress = change_it;
        image_opts.user = &others[i];
        data_refused(images_read_one, statuses[i], "1.png",
                     i == 0 ? "changed while it was read: it is 50 x 40 now" : "No such file");
    }
}

SW_TEST("a limit of memory is kept")
{
    images_begin();
    put_png("a/1.png", small);
    put_png("a/2.png", small);
    image_opts.unpack_bytes = 2 * 60;
    CU_ASSERT(data_read_both(images_read_one, sets));
    image_opts.unpack_bytes--;
    data_refused(images_read_one, SW_NOMEM, dir_name(),
                 "2 images of 3 x 4 x 5 take 120 bytes; the "
                 "limit is 119: --data-limit 120 would do (in a program unpack_bytes)");
    image_opts.shapes_only = 1;
    data_refused(images_read_one, SW_NOMEM, dir_name(), "--data-limit 120 would do");
}

/* Memory of batches counts too: slots, one where it is small, and numbers; a batch is never
 * larger than its part. The bytes in the message are enough, and no fewer are. */
SW_TEST("a limit of memory counts batches")
{
    static const struct {
        uint32_t w;
        int64_t batch;
        size_t each, images; /* of each of two, and how many there are in all */
    } cases[] = {{5, 1, 60, 2 + 1 + 4},         {5, 2, 60, 2 + 2 + 8},
                 {5, 1000, 60, 2 + 2 + 8},      {50000, 1, 600000, 2 + 2 + 4},
                 {15000, 1, 180000, 2 + 1 + 4}, {15000, 2, 180000, 2 + 4 + 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int shapes = 0; shapes < 2; shapes++) {
            const png_image image = {.w = cases[i].w, .h = 4, .depth = 8, .type = PNG_COLOUR};
            const size_t all = cases[i].each * cases[i].images;
            char says[100];
            images_begin();
            put_png("a/1.png", image);
            put_png("a/2.png", image);
            image_opts.shapes_only = shapes;
            image_opts.batch = cases[i].batch;
            image_opts.unpack_bytes = all - 1;
            (void)sw_message(says, sizeof says,
                             "and their batches %zu more; the limit is %zu: --data-limit %zu "
                             "would do",
                             all - 2 * cases[i].each, all - 1, all);
            data_refused(images_read_one, SW_NOMEM, dir_name(), says);
            image_opts.unpack_bytes = all;
            SW_CHECK(data_read_both(images_read_one, sets), "case %zu: %s", i, sw_last_error());
        }
    image_opts.test_batch = -1;
    data_refused(images_read_one, SW_INVALID, "sw_dataset_images", "at least 0 (got");
}

/* Row by row: 12 MB of pixels pass through less than one. */
SW_TEST("a large image is never whole in memory")
{
    images_begin();
    put_png("a/1.png", (png_image){.w = 2000, .h = 2000, .depth = 8, .type = PNG_COLOUR});
    image_opts.side = 8;
    const size_t before = heap_peak(SW_HEAP_FILES);
    CU_ASSERT(data_read_both(images_read_one, sets));
    const size_t after = heap_peak(SW_HEAP_FILES);
    SW_CHECK(after < ((size_t)1 << 20) || after == before, "%zu bytes, %zu before", after,
             before);
}

SW_TEST("every failure is reported")
{
    images_begin();
    put_png("train/a/1.png", small);
    put_png("train/b/1.png", crossed);
    put_png("val/b/1.png", small);
#if SW_HAVE_JPEG
    put_jpeg("train/b/2.jpg", (jpeg_image){20, 9, 3, 90, 0, 0, 1});
    put_jpeg("train/b/3.jpg", (jpeg_image){9, 20, 3, 90, 1, 0, 1});
#endif
    image_opts.side = 7;
    data_sweep(images_read_both, 40, 15);
}

SW_TEST("every cut PNG is refused")
{
    const png_image kinds[] = {small, crossed};
    for (int k = 0; k < 2; k++) {
        images_begin();
        bytes b = png_bytes(kinds[k]);
        folder_make("a");
        for (size_t n = 0; n < b.n; n++) {
            sw_file_put(dir_file("a/1.png"), b.at, n);
            data_refused(images_read_one, SW_FORMAT, "1.png", n == 0 ? "empty" : "");
        }
    }
}

/* Sums are checked: one wrong bit is an error, or changes nothing that is seen. */
SW_TEST("every flipped bit of a PNG is harmless")
{
    const png_image kinds[] = {small, crossed};
    for (int k = 0; k < 2; k++) {
        int refused = 0;
        images_begin();
        put_png("a/1.png", kinds[k]);
        const char *path = dir_file("a/1.png");
        CU_ASSERT_FATAL(data_read_both(images_read_one, sets));
        const sw_dataset_info sound = data_info(sets[0]);
        const heap_watch before = heap_now();
        sw_damage d = {path, .bits = 1};
        while (sw_damage_next(&d)) {
            sw_dataset *now[2] = {NULL, NULL};
            const sw_status status = images_read_one(now);
            if (status != SW_OK) {
                failed_as(status, SW_FORMAT, "1.png");
                refused++;
                CHECK_NO_LEAK(before);
                continue;
            }
            const sw_dataset_info info = data_info(now[0]);
            CU_ASSERT(info.bytes == sound.bytes &&
                      memcmp(info.field[0].data, sound.field[0].data, sound.bytes - 1) == 0);
            sw_dataset_destroy(now[0]);
            CHECK_NO_LEAK(before);
        }
        CU_ASSERT((size_t)refused > 7 * d.n);
    }
}

SW_TEST("damaged PNG is refused by name")
{
    images_begin();
    put_png("a/1.png", (png_image){.w = 9, .h = 9, .depth = 4, .type = PNG_PALETTE});
    bytes sound = file_get(dir_file("a/1.png"));
    data_damage(images_read_one, dir_file("a/1.png"), sound, 500);
}

#endif

#if SW_HAVE_JPEG

static const jpeg_image colours = {20, 14, 3, 70, 0, 0, 1};
static const jpeg_image passes = {20, 14, 3, 70, 1, 0, 1};

SW_TEST("every cut JPEG is refused")
{
    const jpeg_image kinds[] = {colours, passes};
    for (int k = 0; k < 2; k++) {
        images_begin();
        bytes b = jpeg_bytes(kinds[k]);
        folder_make("a");
        for (size_t n = 0; n < b.n; n++) {
            sw_file_put(dir_file("a/1.jpg"), b.at, n);
            data_refused(images_read_one, SW_FORMAT, "1.jpg", n == 0 ? "empty" : "");
        }
    }
}

SW_TEST("damaged JPEG is refused or read")
{
    const jpeg_image kinds[] = {colours, passes};
    for (int k = 0; k < 2; k++) {
        images_begin();
        put_jpeg("a/1.jpg", kinds[k]);
        image_opts.side = 16; /* a size that damage may change */
        bytes sound = file_get(dir_file("a/1.jpg"));
        data_damage(images_read_one, dir_file("a/1.jpg"), sound, 500);
    }
}

SW_TEST("JPEG of other colours is refused")
{
    images_begin();
    put_jpeg("a/1.jpg", (jpeg_image){8, 8, 4, 90, 0, 0, 1});
    data_refused(images_read_one, SW_FORMAT, "1.jpg", "convert it to RGB");
}

/* Each scan is a pass over the image, for a few bytes of the file. */
SW_TEST("too many scans are refused")
{
    images_begin();
    put_jpeg("a/1.jpg", (jpeg_image){8, 8, 1, 90, 1, 1 + 40 * 4, 1});
    CU_ASSERT(data_read_both(images_read_one, sets));
    put_jpeg("a/1.jpg", (jpeg_image){8, 8, 1, 90, 1, 1 + 60 * 4, 1});
    data_refused(images_read_one, SW_FORMAT, "1.jpg", "more than 200 scans");
}

#endif
