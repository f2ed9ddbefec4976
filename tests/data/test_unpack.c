/* Compressed data are bounded, and shapes are read without the data. */
#include "tests/data/data_files.h"

SW_TESTS("unpacking")

#define IMAGES "train-images-idx3-ubyte.gz"
#define LABELS "train-labels-idx1-ubyte.gz"

static sw_idx_opts idx_opts;
static size_t limit;
static char path[700];

static void put_compressed(const char *name, bytes plain)
{
    dir_put(name, zipped(plain));
}

/* The header of n images of 28 x 28 and `there` bytes after it; n labels, 0 to 9 in turn. */
static void put_images(uint32_t n, size_t there, uint32_t n_labels)
{
    const uint32_t image[3] = {n, 28, 28};
    bytes data = {NULL, 0};
    dir_new();
    for (size_t i = 0; i < there; i++)
        bytes_byte(&data, (int)(i & 255));
    put_compressed(IMAGES, idx_make(3, image, data.at, data.n));
    data.n = 0;
    for (uint32_t i = 0; i < n_labels; i++)
        bytes_byte(&data, (int)(i % 10));
    put_compressed(LABELS, idx_make(1, &n, data.at, data.n));
    idx_opts = SW_OPTS(sw_idx_opts);
}

static sw_status read_idx(sw_dataset *part[2])
{
    return sw_dataset_idx_with(&part[0], dir_name(), "train", &idx_opts);
}

static sw_status read_text(sw_dataset *part[2])
{
    const sw_text_opts opts = SW_OPTS(sw_text_opts, .context = 4, .unpack_bytes = limit);
    return sw_dataset_text(&part[0], &part[1], path, &opts);
}

static sw_status read_csv(sw_dataset *part[2])
{
    const sw_csv_opts opts = SW_OPTS(sw_csv_opts, .unpack_bytes = limit);
    return sw_dataset_csv(&part[0], &part[1], path, &opts);
}

static sw_status read_cifar(sw_dataset *part[2])
{
    const sw_cifar_opts opts = SW_OPTS(sw_cifar_opts, .unpack_bytes = limit);
    return sw_dataset_cifar(&part[0], dir_name(), "test", &opts);
}

/* ---- IDX --------------------------------------------------------------------------------- */

/* The header says the size: nothing after it is looked at, and no memory is taken. */
SW_TEST("a size over the limit is said before it is taken")
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    put_images(2739137, 0, 0); /* 2,147,483,424 bytes */
    data_refused(read_idx, SW_NOMEM, IMAGES,
                 "unpacks to 2,147,483,424 bytes; the limit is 1,073,741,824 (raise it with "
                 "--data-limit SIZE");
    idx_opts.shapes_only = 1;
    data_refused(read_idx, SW_NOMEM, IMAGES, "unpacks to 2,147,483,424 bytes");
    put_images(10, 10 * 784, 10);
    idx_opts.unpack_bytes = 16 + 10 * 784 - 1;
    data_refused(read_idx, SW_NOMEM, IMAGES, "unpacks to 7,856 bytes; the limit is 7,855");
    idx_opts.unpack_bytes++;
    CU_ASSERT(data_read_both(read_idx, sets));
}

/* A file that has more than its header says is damaged, not large. */
SW_TEST("a header that lies is damage")
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    put_images(10, 10 * 784 + 5000, 10);
    idx_opts.unpack_bytes = 16 + 10 * 784;
    data_refused(read_idx, SW_NOMEM, IMAGES, "unpacks to more than 7,856 bytes");
    idx_opts.unpack_bytes = 0;
    data_refused(read_idx, SW_FORMAT, IMAGES, "bytes after the 7840");
}

/* sw_dataset_describe gives the shapes of files although their images are not even there. */
SW_TEST("shapes are read without the data")
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    put_images(1000000, 0, 1000000); /* 784 MB of images; one of labels is read */
    const size_t peak = heap_peak(SW_HEAP_DATASETS);
    idx_opts.shapes_only = 1;
    const sw_dataset_info info = data_first(read_idx);
    CU_ASSERT(info.n == 1000000 && info.n_classes == 10 && info.n_fields == 2 &&
              info.bytes == 0);
    CU_ASSERT(info.field[0].shape.rank == 3 && info.field[0].shape.dim[2] == 28);
    CU_ASSERT(info.field[0].data == NULL && info.field[1].data == NULL);
    CU_ASSERT(heap_peak(SW_HEAP_DATASETS) < peak + 10000);
    sw_loader *loader = NULL;
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 10);
    CU_ASSERT_EQUAL(sw_loader_create(&loader, sets[0], &opts), SW_INVALID);
    put_images(1000, 0, 999); /* labels are read all the same */
    idx_opts.shapes_only = 1;
    data_refused(read_idx, SW_FORMAT, LABELS, "announces 1,000 bytes, 999 bytes are there");
}

/* ---- files that do not say their size ---------------------------------------------------- */

static void put_text(const char *line, int lines)
{
    bytes text = {NULL, 0};
    dir_new();
    for (int i = 0; i < lines; i++)
        bytes_put(&text, line, strlen(line));
    snprintf(path, sizeof path, "%s", dir_file("data.gz"));
    put_compressed("data.gz", text);
}

/* Reading stops where the limit is passed; what is as long as the limit is read. */
SW_TEST("the bound is held while inflating")
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    put_text("0.5,1.5,0\n", 300);
    limit = 2999;
    data_refused(read_text, SW_NOMEM, "data.gz",
                 "unpacks to more than 2,999 bytes; the limit is 2,999");
    data_refused(read_csv, SW_NOMEM, "data.gz", "unpacks to more than 2,999 bytes");
    limit = 3000;
    CU_ASSERT(data_read_both(read_text, sets));
    CU_ASSERT(data_read_both(read_csv, sets));
    bytes record = {NULL, 0};
    for (int i = 0; i < 2 * 3073; i++)
        bytes_byte(&record, 0);
    dir_new();
    put_compressed("test_batch.bin.gz", record);
    limit = 2 * 3073 - 1;
    data_refused(read_cifar, SW_NOMEM, "test_batch.bin.gz", "more than 6,145 bytes");
    limit++;
    CU_ASSERT(data_read_both(read_cifar, sets));
}

/* A plain file is as large as it looks. */
SW_TEST("plain files have no bound")
{
    bytes text = {NULL, 0};
    dir_new();
    for (int i = 0; i < 5000; i++)
        bytes_byte(&text, 'a');
    snprintf(path, sizeof path, "%s", dir_file("plain"));
    dir_put("plain", text);
    limit = 10;
    CU_ASSERT(data_read_both(read_text, sets));
}
