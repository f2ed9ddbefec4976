/* IDX, the format of MNIST: 00 00 08 RANK, RANK big-endian sizes of 32 bits, then bytes. It has
 * no length and no checksum, so the sizes must give exactly what the file has, before memory is
 * taken. */
#include "alloc/base/size.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include "runtime/base/structs.h"
#include <stdio.h>
#include <string.h>

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Read the header of a file that must have `rank` sizes; *bytes is what they announce. */
static sw_status read_header(swi_source *source, int rank, uint32_t *dims, uint64_t *bytes)
{
    const char *path = swi_source_path(source);
    unsigned char header[4 + 4 * 3];
    const size_t wanted = 4 + 4 * (size_t)rank;
    size_t got;
    SW_TRY(swi_source_read(source, header, wanted, &got));
    if (got == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; an IDX file of %d sizes was expected", path, rank);
    if (got >= 4 && big_endian(header) != 0x800u + (uint32_t)rank)
        SW_FAIL(SW_FORMAT,
                "%s: the magic number must be 0x%08x: bytes in %d sizes (got 0x%08x)", path,
                0x800u + (uint32_t)rank, rank, big_endian(header));
    if (got < wanted)
        SW_FAIL(SW_FORMAT, "%s: cut in its header: %zu of %zu bytes", path, got, wanted);
    int64_t sizes[3] = {0, 0, 0}, product;
    for (int i = 0; i < rank; i++) {
        dims[i] = big_endian(header + 4 + 4 * i);
        sizes[i] = dims[i];
        if (dims[i] == 0)
            SW_FAIL(SW_FORMAT, "%s: dimension %d must be above 0 (got 0)", path, i);
    }
    if (!sw_size_elements(sizes, rank, &product))
        SW_FAIL(SW_FORMAT, "%s: the product of its sizes %u x %u x %u overflows", path, dims[0],
                dims[1], dims[2]);
    *bytes = (uint64_t)product;
    return SW_OK;
}

/* The rest of the file must have as many bytes as the header announces. */
static sw_status check_length(swi_source *source, uint64_t announced)
{
    uint64_t left;
    SW_TRY(swi_source_count(source, announced, &left));
    if (left < announced)
        SW_FAIL(SW_FORMAT, "%s: its header announces %llu bytes, %llu bytes are there",
                swi_source_path(source), (unsigned long long)announced,
                (unsigned long long)left);
    if (left > announced)
        SW_FAIL(SW_FORMAT, "%s: bytes after the %llu that its header announces",
                swi_source_path(source), (unsigned long long)announced);
    return SW_OK;
}

/* Open, check the header and the length, and stand at the first byte of the data. Of a
 * compressed file, if its data are not read, only the header is inflated. */
static sw_status open_checked(swi_source **out, const char *path, int rank, uint32_t *dims,
                              const sw_idx_opts *opts, bool header_only)
{
    swi_source *source;
    uint64_t bytes;
    SW_TRY(swi_source_open(&source, path, opts->unpack_bytes));
    sw_status status = read_header(source, rank, dims, &bytes);
    if (status == SW_OK)
        status = swi_source_expect(source, 4 + 4 * (uint64_t)rank + bytes);
    if (status == SW_OK && !(header_only && swi_source_is_compressed(source))) {
        status = check_length(source, bytes);
        if (status == SW_OK)
            status = swi_source_rewind(source);
        if (status == SW_OK)
            status = read_header(source, rank, dims, &bytes);
    }
    return SW_GIVE(status, out, source, swi_source_close);
}

/* The first sample of each label, -1 where there is none. */
static void find_labels(int64_t first[256], const unsigned char *label, int64_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (first[label[i]] < 0)
            first[label[i]] = from + (int64_t)i;
}

/* Labels that are only looked at are read in pieces. */
static sw_status read_labels(swi_source *source, sw_dataset *dataset, int64_t first[256])
{
    unsigned char piece[4096];
    for (int i = 0; i < 256; i++)
        first[i] = -1;
    if (!dataset->shapes_only) {
        SW_TRY(swi_source_exactly(source, dataset->field[1].data, (size_t)dataset->n));
        find_labels(first, dataset->field[1].data, 0, (size_t)dataset->n);
        return SW_OK;
    }
    for (int64_t at = 0; at < dataset->n; at += (int64_t)sizeof piece) {
        const int64_t left = dataset->n - at;
        const size_t n = left < (int64_t)sizeof piece ? (size_t)left : sizeof piece;
        SW_TRY(swi_source_exactly(source, piece, n));
        find_labels(first, piece, at, n);
    }
    return SW_OK;
}

/* Ten classes, or more where the labels say so without a gap (letters have 26 or 47): a single
 * wild label is damage, not a class. */
static sw_status check_labels(const char *path, sw_dataset *dataset, const int64_t first[256])
{
    int classes = 10;
    while (classes < 256 && first[classes] >= 0)
        classes++;
    for (int i = classes; i < 256; i++)
        if (first[i] >= 0)
            SW_FAIL(SW_FORMAT,
                    "%s: sample %lld: the label must be 0 to %d, because no sample has label "
                    "%d (got %d)",
                    path, (long long)first[i], classes - 1, classes, i);
    dataset->n_classes = classes;
    return SW_OK;
}

static sw_status read_both(sw_dataset **out, const char *dir, swi_source *images,
                           const uint32_t *dims, swi_source *labels, uint32_t n_labels,
                           bool shapes_only)
{
    int64_t first[256];
    if (dims[0] != n_labels)
        SW_FAIL(SW_FORMAT, "%s: %u labels for the %u images of %s", swi_source_path(labels),
                n_labels, dims[0], swi_source_path(images));
    sw_dataset *dataset;
    SW_TRY(swi_dataset_new(&dataset, dir, dims[0]));
    dataset->shapes_only = shapes_only;
    const sw_shape image = {3, {1, dims[1], dims[2]}}, label = {0, {0}};
    sw_status status = swi_dataset_field(dataset, SW_U8, image);
    if (status == SW_OK && !shapes_only)
        status = swi_source_exactly(images, dataset->field[0].data, dataset->field[0].bytes);
    if (status == SW_OK)
        status = swi_dataset_field(dataset, SW_U8, label);
    if (status == SW_OK)
        status = read_labels(labels, dataset, first);
    if (status == SW_OK)
        status = check_labels(swi_source_path(labels), dataset, first);
    return SW_GIVE(status, out, dataset, sw_dataset_destroy);
}

static sw_status read_part(sw_dataset **out, const char *dir, const char *images_path,
                           const char *labels_path, const sw_idx_opts *opts)
{
    const bool shapes_only = opts->shapes_only != 0;
    swi_source *images, *labels;
    uint32_t dims[3] = {0, 0, 0}, n_labels[3] = {0, 0, 0};
    SW_TRY(open_checked(&images, images_path, 3, dims, opts, shapes_only));
    sw_status status = open_checked(&labels, labels_path, 1, n_labels, opts, false);
    if (status == SW_OK) {
        status = read_both(out, dir, images, dims, labels, n_labels[0], shapes_only);
        swi_source_close(labels);
    }
    swi_source_close(images);
    return status;
}

sw_status sw_dataset_idx(sw_dataset **out, const char *dir, const char *part)
{
    return sw_dataset_idx_with(out, dir, part, NULL);
}

sw_status sw_dataset_idx_with(sw_dataset **out, const char *dir, const char *part,
                              const sw_idx_opts *given)
{
    sw_idx_opts opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_idx_opts, &opts, given, "sw_dataset_idx_with"));
    SW_TRY(swi_reader_check("sw_dataset_idx", out != NULL, "out", dir, "dir"));
    SW_TRY(swi_reader_check_part("sw_dataset_idx", part, "t10k"));
    const size_t length = strlen(dir) + 32; /* "/train-images-idx3-ubyte" and its fellows */
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, 2 * length));
    char *images = block, *labels = images + length;
    snprintf(images, length, "%s/%s-images-idx3-ubyte", dir, part);
    snprintf(labels, length, "%s/%s-labels-idx1-ubyte", dir, part);
    const sw_status status = read_part(out, dir, images, labels, &opts);
    sw_heap_free(block, SW_HEAP_FILES, 2 * length);
    return status;
}

/* ---- as a reader ------------------------------------------------------------------------- */

/* Each part was read by itself; what the test images have and those for training have not is
 * damage. The other way round it need be none: few images do not show every class. */
static sw_status agree(const sw_dataset *train, const sw_dataset *test, const char *dir)
{
    const sw_shape *a = &train->field[0].shape, *b = &test->field[0].shape;
    if (a->rank != b->rank || memcmp(a->dim, b->dim, sizeof a->dim[0] * (size_t)a->rank) != 0)
        SW_FAIL(SW_FORMAT,
                "%s/t10k-images-idx3-ubyte: its images are not as large as those of "
                "train-images-idx3-ubyte",
                dir);
    if (test->n_classes > train->n_classes)
        SW_FAIL(SW_FORMAT,
                "%s/t10k-labels-idx1-ubyte: label %lld is out of range: those of "
                "train-labels-idx1-ubyte are 0 to %lld",
                dir, (long long)test->n_classes - 1, (long long)train->n_classes - 1);
    /* A class that a single training image shows, and no test image, is a wild label. */
    const unsigned char *label = train->field[1].data;
    int64_t count[256] = {0}, wild = test->n_classes;
    for (int64_t i = 0; label != NULL && i < train->n; i++) /* NULL: shapes only */
        count[label[i]]++;
    while (wild < train->n_classes && count[wild] != 1)
        wild++;
    if (wild < train->n_classes)
        SW_FAIL(SW_FORMAT,
                "%s/train-labels-idx1-ubyte: label %lld is out of range: one image has "
                "it, and those of t10k-labels-idx1-ubyte are 0 to %lld",
                dir, (long long)wild, (long long)test->n_classes - 1);
    return SW_OK;
}

static sw_status read_named(sw_dataset **out, const char *dir, bool test,
                            const swi_reader_opts *o)
{
    const sw_idx_opts opts =
        SW_OPTS(sw_idx_opts, .shapes_only = o->shapes_only, .unpack_bytes = o->unpack_bytes);
    return sw_dataset_idx_with(out, dir, test ? "t10k" : "train", &opts);
}

static const char *const files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", NULL};

const swi_reader swi_reader_idx =
    SW_INIT(.name = "idx", .path = "DIR", .about = "for MNIST and its relatives",
            .files = files, .part = read_named, .agree = agree);
