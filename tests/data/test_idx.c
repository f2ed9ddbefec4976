/* IDX files, plain and compressed: what is read, what is refused and how, and with how much
 * memory. */
#include "alloc/base/mem.h"
#include "tests/data/data_files.h"
#include <sys/stat.h>

SW_TESTS("idx")

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

static const uint32_t small_dims[3] = {12, 4, 3};
static unsigned char small_images[144], small_labels[12];

/* A folder of its own for each case. */
static void new_dir(void)
{
    dir_new();
    for (int i = 0; i < 144; i++)
        small_images[i] = (unsigned char)(i * 7);
    for (int i = 0; i < 12; i++)
        small_labels[i] = (unsigned char)(i % 10);
}

static bytes good_images(void)
{
    return idx_make(3, small_dims, small_images, sizeof small_images);
}

static bytes good_labels(void)
{
    return idx_make(1, small_dims, small_labels, sizeof small_labels);
}

static sw_status read_train(sw_dataset *part[2])
{
    return sw_dataset_idx(&part[0], dir_name(), "train");
}

/* Reading the folder fails with `status`, naming a file and a reason; nothing is left. */
static void refused(sw_status status, const char *file, const char *reason)
{
    data_refused(read_train, status, file, reason);
}

static void read_small(void)
{
    sw_dataset *dataset = NULL;
    data_made(sw_dataset_idx(&dataset, dir_name(), "train"), &dataset);
    const sw_dataset_info info = data_info(dataset);
    CU_ASSERT_EQUAL_FATAL(info.n_fields, 2);
    CU_ASSERT(info.n == 12 && info.n_classes == 10);
    CU_ASSERT_STRING_EQUAL(info.name, dir_name());
    const sw_shape shape = info.field[0].shape;
    CU_ASSERT(shape.rank == 3 && shape.dim[0] == 1 && shape.dim[1] == 4 && shape.dim[2] == 3);
    CU_ASSERT(info.field[1].shape.rank == 0);
    CU_ASSERT_EQUAL(memcmp(info.field[0].data, small_images, sizeof small_images), 0);
    CU_ASSERT_EQUAL(memcmp(info.field[1].data, small_labels, sizeof small_labels), 0);
    sw_now(dataset);
}

SW_TEST("plain files are read")
{
    new_dir();
    dir_put(IMAGES, good_images());
    dir_put(LABELS, good_labels());
    const heap_watch before = heap_now();
    read_small();
    CHECK_NO_LEAK(before);
}

SW_TEST("the plain name comes first")
{
    new_dir();
    dir_put(IMAGES, good_images());
    dir_put(LABELS, good_labels());
    dir_put(IMAGES ".gz", zipped(good_labels()));
    dir_put(LABELS ".gz", zipped(good_images()));
    read_small();
}

SW_TEST("missing files are named")
{
    new_dir();
    refused(SW_IO, IMAGES, "No such file");
    dir_put(IMAGES, good_images());
    refused(SW_IO, LABELS, "No such file");
    new_dir();
    if (mkdir(dir_file(IMAGES), 0777) != 0)
        perror(dir_name());
    refused(SW_IO, IMAGES, "Is a directory");
}

SW_TEST("bad arguments are refused")
{
    sw_dataset *dataset = NULL;
    failed_as(sw_dataset_idx(&dataset, "", "train"), SW_INVALID, "dir must not be NULL");
    failed_as(sw_dataset_idx(&dataset, "x", "test"), SW_INVALID, "'test'");
    CU_ASSERT_PTR_NULL(dataset);
}

/* Both files cut after every byte, then with a byte too many. */
SW_TEST("cut and long files are refused")
{
    new_dir();
    dir_put(LABELS, good_labels());
    bytes whole = good_images();
    for (size_t n = 0; n < whole.n; n++) {
        sw_file_put(dir_file(IMAGES), whole.at, n);
        refused(SW_FORMAT, IMAGES,
                n == 0   ? "empty"
                : n < 16 ? "cut in its header"
                         : "144 bytes");
    }
    bytes_byte(&whole, 0);
    dir_put(IMAGES, whole);
    refused(SW_FORMAT, IMAGES, "after the 144");

    dir_put(IMAGES, good_images());
    whole = good_labels();
    for (size_t n = 0; n < whole.n; n++) {
        sw_file_put(dir_file(LABELS), whole.at, n);
        refused(SW_FORMAT, LABELS, n == 0 ? "empty" : n < 8 ? "cut in its header" : "12 bytes");
    }
    bytes_byte(&whole, 0);
    dir_put(LABELS, whole);
    refused(SW_FORMAT, LABELS, "after the 12");
}

SW_TEST("a wrong magic number is refused")
{
    new_dir();
    dir_put(LABELS, good_labels());
    dir_put(IMAGES, good_labels());
    refused(SW_FORMAT, IMAGES, "must be 0x00000803: bytes in 3 sizes (got 0x00000801)");
    for (size_t i = 0; i < 4; i++) {
        bytes bad = good_images();
        bad.at[i] ^= 0x40;
        dir_put(IMAGES, bad);
        refused(SW_FORMAT, IMAGES, "magic");
    }
    dir_put(IMAGES, good_images());
    dir_put(LABELS, good_images());
    refused(SW_FORMAT, LABELS, "must be 0x00000801: bytes in 1 sizes (got 0x00000803)");
}

SW_TEST("hostile sizes take no memory")
{
    static const uint32_t dims[][3] = {{0xffffffff, 0xffffffff, 0xffffffff},
                                       {0x80000000, 0x80000000, 4},
                                       {0xffffffff, 0xffff, 0xffff},
                                       {0x10000, 0x10000, 1},
                                       {13, 4, 3},
                                       {11, 4, 3}};
    static const char *const reasons[] =
        SW_INIT("overflows", "overflows", "overflows", "144 bytes are there",
                "156 bytes, 144 bytes are there", "after the 132");
    new_dir();
    dir_put(LABELS, good_labels());
    sw_heap_stats before, after;
    sw_heap_read(SW_HEAP_DATASETS, &before);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        dir_put(IMAGES, idx_make(3, dims[i], small_images, sizeof small_images));
        refused(SW_FORMAT, IMAGES, reasons[i]);
    }
    sw_heap_read(SW_HEAP_DATASETS, &after);
    CU_ASSERT_EQUAL(after.allocations, before.allocations);
    for (int i = 0; i < 3; i++) {
        uint32_t zero[3] = {12, 4, 3};
        zero[i] = 0;
        dir_put(IMAGES, idx_make(3, zero, small_images, 0));
        refused(SW_FORMAT, IMAGES, "must be above 0 (got 0)");
    }
}

SW_TEST("images and labels have one count")
{
    static const uint32_t eleven = 11;
    new_dir();
    dir_put(IMAGES, good_images());
    dir_put(LABELS, idx_make(1, &eleven, small_labels, 11));
    refused(SW_FORMAT, LABELS, "11 labels for the 12 images");
}

SW_TEST("wild labels are refused")
{
    static const unsigned char wild[] = {11, 47, 128, 255};
    new_dir();
    dir_put(IMAGES, good_images());
    for (size_t i = 0; i < sizeof wild; i++) {
        small_labels[5] = wild[i];
        dir_put(LABELS, good_labels());
        const char *text = sw_textf(
            "sample 5: the label must be 0 to 9, because no sample has label 10 (got %d)",
            wild[i]);
        refused(SW_FORMAT, LABELS, text);
    }
}

/* Letters and the like have more than ten classes. */
SW_TEST("more classes without a gap are accepted")
{
    static unsigned char labels[256], images[256];
    static const uint32_t dims[3] = {256, 1, 1};
    new_dir();
    for (int i = 0; i < 256; i++)
        labels[i] = (unsigned char)(i % 47);
    dir_put(IMAGES, idx_make(3, dims, images, 256));
    dir_put(LABELS, idx_make(1, dims, labels, 256));
    CU_ASSERT_FATAL(data_read_both(read_train, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_classes, 47);
    for (int i = 0; i < 256; i++)
        labels[i] = (unsigned char)i;
    dir_put(LABELS, idx_make(1, dims, labels, 256));
    CU_ASSERT_FATAL(data_read_both(read_train, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_classes, 256);
}

/* ---- gzip -------------------------------------------------------------------------------- */

SW_TEST("compressed files are read, or refused by name")
{
    new_dir();
    dir_put(IMAGES ".gz", zipped(good_images()));
    dir_put(LABELS ".gz", zipped(good_labels()));
#if SW_HAVE_ZLIB
    const heap_watch before = heap_now();
    read_small();
    CHECK_NO_LEAK(before);
    bytes whole = good_labels(), first = gzip_make(whole.at, 9),
          second = gzip_make(whole.at + 9, whole.n - 9);
    bytes_put(&first, second.at, second.n);
    dir_put(LABELS ".gz", first);
    read_small(); /* two members */
#else
    refused(SW_UNSUPPORTED, IMAGES ".gz", "zlib is off");
#endif
}

#if SW_HAVE_ZLIB

SW_TEST("cut and damaged gzip is refused")
{
    new_dir();
    dir_put(LABELS ".gz", zipped(good_labels()));
    bytes whole = zipped(good_images());
    for (size_t n = 0; n < whole.n; n++) {
        sw_file_put(dir_file(IMAGES ".gz"), whole.at, n);
        refused(SW_FORMAT, IMAGES ".gz", n == 0 ? "empty" : "cut after");
    }
    for (size_t i = 1; i <= 8; i++) { /* the sum and the length at the end */
        whole.at[whole.n - i] ^= 1;
        sw_file_put(dir_file(IMAGES ".gz"), whole.at, whole.n);
        refused(SW_FORMAT, IMAGES ".gz", i > 4 ? "data check" : "length check");
        whole.at[whole.n - i] ^= 1;
    }
    whole.at[0] ^= 1;
    sw_file_put(dir_file(IMAGES ".gz"), whole.at, whole.n);
    refused(SW_FORMAT, IMAGES ".gz", "header check");
    whole.at[0] ^= 1;
    whole.at[40] ^= 1; /* a pixel: the sum finds it */
    sw_file_put(dir_file(IMAGES ".gz"), whole.at, whole.n);
    refused(SW_FORMAT, IMAGES ".gz", "data check");
    whole.at[40] ^= 1;
    bytes_put(&whole, "after", 6);
    dir_put(IMAGES ".gz", whole);
    refused(SW_FORMAT, IMAGES ".gz", "damaged gzip");
}

/* The stream is whole; the IDX inside is not. */
SW_TEST("damage inside gzip is refused")
{
    static const uint32_t many[3] = {60000, 28, 28};
    new_dir();
    dir_put(LABELS ".gz", zipped(good_labels()));
    bytes whole = good_images();
    sw_heap_stats before, after;
    sw_heap_read(SW_HEAP_DATASETS, &before);
    for (size_t n = 0; n < whole.n; n += n < 20 ? 1 : 17) {
        dir_put(IMAGES ".gz", gzip_make(whole.at, n));
        refused(SW_FORMAT, IMAGES ".gz",
                n == 0   ? "empty"
                : n < 16 ? "cut in its header"
                         : "144 bytes");
    }
    bytes_byte(&whole, 1);
    dir_put(IMAGES ".gz", zipped(whole));
    refused(SW_FORMAT, IMAGES ".gz", "after the 144");
    dir_put(IMAGES ".gz", zipped(idx_make(3, many, small_images, sizeof small_images)));
    refused(SW_FORMAT, IMAGES ".gz", "47,040,000 bytes, 144 bytes are there");
    sw_heap_read(SW_HEAP_DATASETS, &after);
    CU_ASSERT_EQUAL(after.allocations, before.allocations);
}

#endif

/* ---- memory and faults ------------------------------------------------------------------- */

/* 4 MiB of images: the data set has as many bytes as the files, the readers a constant. */
static void memory_stays_within_the_file(bool compressed)
{
    static unsigned char images[4096 * 1024];
    static unsigned char labels[4096];
    static const uint32_t dims[3] = {4096, 32, 32};
    new_dir();
    bytes i = idx_make(3, dims, images, sizeof images),
          l = idx_make(1, dims, labels, sizeof labels);
    dir_put(compressed ? IMAGES ".gz" : IMAGES, compressed ? zipped(i) : i);
    dir_put(compressed ? LABELS ".gz" : LABELS, compressed ? zipped(l) : l);
    data_within(read_train, sizeof images + sizeof labels + 4096, 262144);
}

SW_TEST("memory stays within the file")
{
    memory_stays_within_the_file(false);
}

static void sweep_all(void)
{
    data_sweep(read_train, 8, 10);
    read_small();
}

SW_TEST("every call can fail")
{
    new_dir();
    dir_put(IMAGES, good_images());
    dir_put(LABELS, good_labels());
    sweep_all();
}

#if SW_HAVE_ZLIB

SW_TEST("memory stays within the inflated file")
{
    memory_stays_within_the_file(true);
}

SW_TEST("every call on gzip can fail")
{
    new_dir();
    dir_put(IMAGES ".gz", zipped(good_images()));
    dir_put(LABELS ".gz", zipped(good_labels()));
    sweep_all();
}

/* ---- real files -------------------------------------------------------------------------- */

SW_TEST("mnist is read to the last pixel")
{
    static const int counts[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    const char *mnist = sw_data_path("mnist");
    if (mnist == NULL)
        SW_SKIP("no mnist below $STEPWELL_DATA");
    sw_dataset *dataset = NULL;
    sw_dataset_info info =
        data_info(data_made(sw_dataset_idx(&dataset, mnist, "t10k"), &dataset));
    CU_ASSERT(info.n == 10000 && info.n_classes == 10);
    int count[10] = {0};
    for (int i = 0; i < 10000; i++)
        count[((const unsigned char *)info.field[1].data)[i]]++;
    CU_ASSERT_EQUAL(memcmp(count, counts, sizeof count), 0);
    info = data_info(data_made(sw_dataset_idx(&dataset, mnist, "train"), &dataset));
    CU_ASSERT(info.n == 60000 && info.n_classes == 10);
    CU_ASSERT_EQUAL(((const unsigned char *)info.field[1].data)[0], 5);
    uint64_t sum = 0;
    for (int64_t i = 0; i < 60000 * 784; i++)
        sum += ((const unsigned char *)info.field[0].data)[i];
    /* the mean that is published for the training images: 0.1307 of 255 */
    CU_ASSERT_DOUBLE_EQUAL((double)sum / (60000.0 * 784.0 * 255.0), 0.1307, 0.00005);
}

SW_TEST("its relatives are read")
{
    const char *fashion = sw_data_path("fashion-mnist-mini");
    if (fashion == NULL)
        SW_SKIP("no fashion-mnist-mini below $STEPWELL_DATA");
    sw_dataset *dataset = NULL;
    data_made(sw_dataset_idx(&dataset, fashion, "t10k"), &dataset);
    CU_ASSERT(data_info(dataset).n == 615 && data_info(dataset).n_classes == 10);
}

#endif
