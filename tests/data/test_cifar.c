/* CIFAR-10's binary batches: what is read, what is refused and how. */
#include "tests/data/data_files.h"
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("cifar")

#define RECORD 3073
#define META "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n"

/* Records first, first + 1, ...: label and pixels follow from the number. */
static bytes records(int first, int n)
{
    static unsigned char record[RECORD];
    bytes b = {NULL, 0};
    for (int i = first; i < first + n; i++) {
        record[0] = (unsigned char)(i % 10);
        for (int k = 1; k < RECORD; k++)
            record[k] = (unsigned char)(i * 31 + k * 7);
        bytes_put(&b, record, sizeof record);
    }
    return b;
}

static void put_official(int each)
{
    char name[32];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        dir_put(name, records(i * each, each));
    }
    dir_put("test_batch.bin", records(1000, 3));
}

static sw_status read_train(sw_dataset *part[2])
{
    return sw_dataset_cifar(&part[0], dir_name(), "train", NULL);
}

static sw_status read_test(sw_dataset *part[2])
{
    return sw_dataset_cifar(&part[0], dir_name(), "test", NULL);
}

static sw_status read_shapes(sw_dataset *part[2])
{
    const sw_cifar_opts opts = SW_OPTS(sw_cifar_opts, .shapes_only = 1);
    return sw_dataset_cifar(&part[0], dir_name(), "train", &opts);
}

/* The part has records first to first + n - 1. */
static void check(data_read *read, int first, int n)
{
    const sw_dataset_info info = data_first(read);
    const sw_shape image = info.field[0].shape;
    CU_ASSERT(info.n == n && info.n_classes == 10 && info.n_fields == 2);
    CU_ASSERT_STRING_EQUAL(info.name, dir_name());
    CU_ASSERT(image.rank == 3 && image.dim[0] == 3 && image.dim[1] == 32 && image.dim[2] == 32);
    CU_ASSERT(info.field[0].dtype == SW_U8 && info.field[1].dtype == SW_U8);
    CU_ASSERT_EQUAL(info.field[1].shape.rank, 0);
    CU_ASSERT_EQUAL_FATAL(info.bytes, (size_t)n * RECORD);
    bytes all = records(first, n);
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        const unsigned char *record = all.at + i * RECORD;
        wrong += ((const unsigned char *)info.field[1].data)[i] != record[0];
        wrong += memcmp((const char *)info.field[0].data + i * 3072, record + 1, 3072) != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

SW_TEST("official batches are read in order")
{
    dir_new();
    put_official(19); /* more than are read at once */
    dir_put("data_batch_mini.bin", records(500, 2));
    check(read_train, 0, 95);
    check(read_test, 1000, 3);
}

SW_TEST("small selections are read")
{
    dir_new();
    dir_put("data_batch_mini.bin", records(7, 40));
    dir_put("test_batch_mini.bin", records(3, 1));
    check(read_train, 7, 40);
    check(read_test, 3, 1);
#if SW_HAVE_ZLIB
    bytes plain = records(9, 33);
    dir_new();
    dir_put("data_batch_mini.bin.gz", zipped(plain));
    check(read_train, 9, 33);
#endif
}

SW_TEST("one missing batch is named")
{
    char name[32];
    for (int i = 1; i <= 5; i++) {
        dir_new();
        put_official(1);
        dir_put("data_batch_mini.bin", records(0, 1)); /* is no way out */
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        (void)unlink(dir_file(name));
        data_refused(read_train, SW_IO, name, "No such file");
    }
}

static sw_status read_nowhere(sw_dataset *part[2])
{
    return sw_dataset_cifar(&part[0], sw_temp_path("nowhere at all"), "train", NULL);
}

SW_TEST("missing files are named")
{
    dir_new();
    data_refused(read_train, SW_IO, "data_batch_1.bin", "data_batch_mini.bin");
    data_refused(read_test, SW_IO, "test_batch.bin", "test_batch_mini.bin");
    if (mkdir(dir_file("test_batch.bin"), 0777) != 0)
        perror(dir_name());
    data_refused(read_test, SW_IO, "test_batch.bin", "Is a directory");
    data_refused(read_nowhere, SW_IO, "nowhere at all", "No such file");
}

SW_TEST("what may not be read is named")
{
    dir_new();
    dir_put("test_batch.bin", records(0, 1));
    data_refused_unreadable(read_test, dir_file("test_batch.bin"));
}

SW_TEST("cut records are refused")
{
    static const size_t cuts[] = {1, 3072, 3074, 6000, 6145, 6147};
    bytes whole = records(0, 3);
    dir_new();
    sw_file_put(dir_file("data_batch_mini.bin"), "", 0);
    data_refused(read_train, SW_FORMAT, "data_batch_mini.bin", "empty");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        sw_file_put(dir_file("data_batch_mini.bin"), whole.at, cuts[i]);
        data_refused(read_train, SW_FORMAT, "data_batch_mini.bin", "whole records of 3,073");
        data_refused(read_shapes, SW_FORMAT, "data_batch_mini.bin", "whole records of 3,073");
#if SW_HAVE_ZLIB
        (void)unlink(dir_file("data_batch_mini.bin"));
        dir_put("data_batch_mini.bin.gz", gzip_make(whole.at, cuts[i]));
        data_refused(read_train, SW_FORMAT, "data_batch_mini.bin.gz", "whole records of 3,073");
        (void)unlink(dir_file("data_batch_mini.bin.gz"));
#endif
    }
}

SW_TEST("wild labels are refused")
{
    static const int wild[] = {10, 128, 255};
    dir_new();
    put_official(20);
    for (int i = 0; i < 3; i++) {
        bytes b = records(40, 20);
        b.at[17 * RECORD] = (unsigned char)wild[i];
        dir_put("data_batch_3.bin", b);
        const char *text = sw_textf("record 17: the label must be 0 to 9 (got %d)", wild[i]);
        data_refused(read_train, SW_FORMAT, "data_batch_3.bin", text);
    }
}

SW_TEST("class names are read")
{
    dir_new();
    dir_put("data_batch_mini.bin", records(0, 2));
    CU_ASSERT_FATAL(data_read_both(read_train, sets));
    CU_ASSERT_PTR_NULL(data_info(sets[0]).class_names);
    sw_file_put(dir_file("batches.meta.txt"), META "\r\n\n", sizeof META + 2);
    const sw_dataset_info info = data_first(read_train);
    CU_ASSERT_PTR_NOT_NULL_FATAL(info.class_names);
    CU_ASSERT_STRING_EQUAL(info.class_names[0], "airplane");
    CU_ASSERT_STRING_EQUAL(info.class_names[9], "truck");
    sw_file_put(dir_file("batches.meta.txt"), META, sizeof META - 8);
    data_refused(read_train, SW_FORMAT, "batches.meta.txt",
                 "must have 10 names of classes, one per line (got 9)");
    static char many[5000];
    memset(many, 'x', sizeof many);
    sw_file_put(dir_file("batches.meta.txt"), many, sizeof many);
    data_refused(read_train, SW_FORMAT, "batches.meta.txt", "longer");
    (void)unlink(dir_file("batches.meta.txt"));
    if (mkdir(dir_file("batches.meta.txt"), 0777) != 0)
        perror(dir_name());
    data_refused(read_train, SW_IO, "batches.meta.txt", "Is a directory");
}

SW_TEST("shapes take no samples")
{
    sw_loader *loader = NULL;
    dir_new();
    bytes b = records(0, 50);
    b.at[0] = 99; /* not looked at */
    dir_put("data_batch_mini.bin", b);
    const sw_dataset_info info = data_first(read_shapes);
    CU_ASSERT(info.n == 50 && info.n_classes == 10 && info.bytes == 0);
    CU_ASSERT(info.field[0].shape.dim[2] == 32 && info.field[0].data == NULL);
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 2);
    failed_as(sw_loader_create(&loader, sets[0], &opts), SW_INVALID, "shapes alone");
}

SW_TEST("memory stays within the file")
{
    dir_new();
    dir_put("data_batch_mini.bin", records(0, 1000));
    data_within(read_train, 1000 * RECORD + 4096, 262144);
    check(read_train, 0, 1000);
}

SW_TEST("bad arguments are refused")
{
    sw_dataset *dataset = NULL;
    failed_as(sw_dataset_cifar(&dataset, "", "train", NULL), SW_INVALID,
              "dir must not be NULL");
    failed_as(sw_dataset_cifar(&dataset, "x", "t10k", NULL), SW_INVALID, "'t10k'");
    CU_ASSERT_PTR_NULL(dataset);
}

SW_TEST("every call can fail")
{
    dir_new();
    put_official(2);
    sw_file_put(dir_file("batches.meta.txt"), META, sizeof META - 1);
    data_sweep(read_train, 20, 20);
    check(read_train, 0, 10);
}

SW_TEST("damage is refused or harmless")
{
    dir_new();
    bytes sound = records(0, 3);
    data_damage(read_train, dir_file("data_batch_mini.bin"), sound,
                sw_tests_full() ? 5000 : 300);
#if SW_HAVE_ZLIB
    bytes packed = zipped(sound);
    dir_new();
    data_damage(read_train, dir_file("data_batch_mini.bin.gz"), packed,
                sw_tests_full() ? 5000 : 300);
#endif
}

#if SW_HAVE_ZLIB
static char real_dir[1024];

static sw_status read_real(sw_dataset *part[2])
{
    return sw_dataset_cifar(&part[0], real_dir, "train", NULL);
}

SW_TEST("real images are read")
{
    const char *real = sw_data_path("cifar10-mini");
    static const unsigned char first[10] = {6, 9, 9, 4, 1, 1, 2, 7, 8, 3}; /* as published */
    if (real == NULL)
        SW_SKIP("no cifar10-mini below $STEPWELL_DATA");
    snprintf(real_dir, sizeof real_dir, "%s", real);
    const sw_dataset_info info = data_first(read_real);
    CU_ASSERT(info.n == 3200 && memcmp(info.field[1].data, first, 10) == 0);
    CU_ASSERT_STRING_EQUAL(info.class_names[6], "frog");
    CU_ASSERT_FATAL(sw_dataset_cifar(&sets[1], real_dir, "test", NULL) == SW_OK);
    CU_ASSERT_EQUAL(data_info(sets[1]).n, 800);
    sw_dataset_destroy(sets[1]);
}
#endif
