/* Data without labels, where they are allowed: which samples there are, and what is refused. */
#include "runtime/data/data_internal.h"
#include "tests/data/image_files.h"
#include "tests/data/npy_make.h"

SW_TESTS("unlabelled")

static char path[1100], test_path[1100];
static sw_csv_opts csv;
static sw_npy_opts npy;
static sw_images_opts images;

static sw_status read_csv(sw_dataset *part[2])
{
    return sw_dataset_csv(&part[0], &part[1], path, &csv);
}

static sw_status read_npy(sw_dataset *part[2])
{
    return sw_dataset_npy(&part[0], &part[1], path, &npy);
}

static sw_status read_npz(sw_dataset *part[2])
{
    return sw_dataset_npz(&part[0], &part[1], path, &npy);
}

static sw_status read_images(sw_dataset *part[2])
{
    return sw_dataset_images(&part[0], &part[1], dir_name(), &images);
}

static void put(char to[1100], const char *name, const char *text)
{
    snprintf(to, 1100, "%s", dir_file(name));
    sw_file_put(to, text, strlen(text));
}

static void begin(void)
{
    dir_new();
    csv = SW_OPTS(sw_csv_opts);
    npy = SW_OPTS(sw_npy_opts, .unlabelled = 1);
    images = SW_OPTS(sw_images_opts, .unlabelled = 1);
}

/* Field 0 alone, without classes, all of it in the first part. */
static void check_alone(sw_dataset *const part[2], int64_t n, int64_t each)
{
    const sw_dataset_info info = data_info(part[0]);
    CU_ASSERT_PTR_NULL(part[1]);
    CU_ASSERT_EQUAL(info.n, n);
    CU_ASSERT_EQUAL_FATAL(info.n_fields, 1);
    CU_ASSERT_EQUAL(info.n_classes, 0);
    CU_ASSERT_PTR_NULL(info.class_names);
    CU_ASSERT_EQUAL(part[0]->field[0].sample_bytes, (size_t)each);
}

SW_TEST("a table of features alone is read")
{
    static const char *const texts[] = {"1,2\n3,4\n5,6\n", "a,b\n1,2\n3,4\n5,6\n"};
    begin();
    csv.unlabelled = 2;
    for (int i = 0; i < 2; i++) {
        put(path, "x.csv", texts[i]);
        sets[0] = sets[1] = NULL;
        CU_ASSERT_FATAL(data_read_both(read_csv, sets));
        check_alone(sets, 3, 8);
        const float *x = data_info(sets[0]).field[0].data;
        for (int k = 0; k < 6; k++)
            CU_ASSERT_EQUAL(x[k], (float)(k + 1));
    }
    csv.shapes_only = 1;
    CU_ASSERT_FATAL(data_read_both(read_csv, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n, 3);
    csv.shapes_only = 0;
    data_sweep(read_csv, 6, 2);
    put(path, "x.csv", "1\n2\n"); /* one feature */
    csv.unlabelled = 1;
    CU_ASSERT_FATAL(data_read_both(read_csv, sets));
    check_alone(sets, 2, 4);
}

SW_TEST("a table with labels has them all the same")
{
    begin();
    csv.unlabelled = 2;
    put(path, "x.csv", "1,2,cat\n3,4,dog\n5,6,cat\n");
    CU_ASSERT_FATAL(data_read_both(read_csv, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_fields, 2);
    CU_ASSERT_EQUAL(data_info(sets[0]).n + data_info(sets[1]).n, 3);
}

SW_TEST("a test part may be without labels")
{
    static const char train[] = "a,kind,b\n1,cat,2\n3,dog,4\n5,cat,6\n";
    begin();
    put(path, "x.csv", train);
    put(test_path, "y.csv", "a,b\n7,8\n9,10\n");
    csv.label = "kind";
    csv.test_path = test_path;
    csv.standardise = 1;
    csv.unlabelled = -1;
    CU_ASSERT_FATAL(data_read_both(read_csv, sets));
    const sw_dataset_info info = data_info(sets[1]);
    CU_ASSERT_EQUAL(data_info(sets[0]).n_fields, 2);
    CU_ASSERT_EQUAL(info.n_fields, 1);
    CU_ASSERT_EQUAL(info.n, 2);
    CU_ASSERT_EQUAL(info.n_classes, 2);
    CU_ASSERT_STRING_EQUAL(info.class_names[1], "dog");
    const float *x =
        info.field[0].data; /* by mean and deviation of the other: 3 and 4, 1.633 */
    CU_ASSERT(x[0] > 2.449f && x[0] < 2.4496f && x[3] > 3.674f && x[3] < 3.6743f);
    data_sweep(read_csv, 14, 4);
    put(test_path, "y.csv", "b,a\n7,8\n9,10\n");
    data_refused(read_csv, SW_FORMAT, "y.csv", "column 1 is 'b', that of");
    put(test_path, "y.csv", "1,2,3,4\n");
    data_refused(read_csv, SW_FORMAT, "y.csv", "must have 2 columns, the features, or 3 with");
    put(test_path, "y.csv", "1,2\n3\n");
    data_refused(read_csv, SW_FORMAT, "y.csv", "line 2: must have 2 fields");
}

SW_TEST("counts are said")
{
    begin();
    csv.unlabelled = 4;
    put(path, "x.csv", "1,2,0\n3,4,1\n");
    data_refused(read_csv, SW_FORMAT, "x.csv",
                 "line 1: must have 4 columns, the features, or 5 with the label (got 3)");
    csv.unlabelled = -1;
    data_refused(read_csv, SW_INVALID, "sw_dataset_csv", "unlabelled must be");
    csv.unlabelled = -2;
    data_refused(read_csv, SW_INVALID, "sw_dataset_csv", "(got -2)");
    csv.unlabelled = 2;
    csv.test_path = path;
    data_refused(read_csv, SW_INVALID, "sw_dataset_csv", "unlabelled must be");
}

static bytes array(int n)
{
    float x[24];
    char shape[20];
    for (int i = 0; i < 2 * n; i++)
        x[i] = (float)i;
    snprintf(shape, sizeof shape, "%d, 2", n);
    return npy_make("<f4", false, shape, x, (size_t)n * 8);
}

static bytes classes(int n)
{
    static const unsigned char y[12] = {0, 1, 2};
    char shape[20];
    snprintf(shape, sizeof shape, "%d,", n);
    return npy_make("|u1", false, shape, y, (size_t)n);
}

SW_TEST("an array alone is read")
{
    begin();
    dir_put("x.npy", array(5));
    snprintf(path, sizeof path, "%s", dir_file("x.npy"));
    CU_ASSERT_FATAL(data_read_both(read_npy, sets));
    check_alone(sets, 5, 8);
    CU_ASSERT_EQUAL(((const float *)data_info(sets[0]).field[0].data)[9], 9.0f);
    data_sweep(read_npy, 3, 2);
    npy.unlabelled = 0;
    data_refused(read_npy, SW_INVALID, "sw_dataset_npy", "two files with a comma");
    npy.unlabelled = 2;
    data_refused(read_npy, SW_INVALID, "sw_dataset_npy", "unlabelled must be 0 or 1");
}

SW_TEST("an array may be for testing")
{
    begin();
    dir_put("x.npy", array(5));
    dir_put("y.npy", classes(5));
    dir_put("new.npy", array(3));
    snprintf(path, sizeof path, "%s,%s/y.npy", dir_file("x.npy"), dir_name());
    npy.test_path = dir_file("new.npy");
    CU_ASSERT_FATAL(data_read_both(read_npy, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_fields, 2);
    CU_ASSERT_EQUAL(data_info(sets[1]).n_fields, 1);
    CU_ASSERT_EQUAL(data_info(sets[1]).n_classes, 3);
    CU_ASSERT_EQUAL(data_info(sets[1]).n, 3);
}

SW_TEST("arrays of archives are read alone")
{
    begin();
    dir_put("one.npz", zip_make((zip_entry[]){{"new.npy", array(4)}}, 1, ZIP_STORED));
    dir_put("two.npz", zip_make((zip_entry[]){{"more.npy", array(6)}, {"new.npy", array(4)}}, 2,
                                ZIP_STORED));
    snprintf(path, sizeof path, "%s", dir_file("one.npz"));
    CU_ASSERT_FATAL(data_read_both(read_npz, sets));
    check_alone(sets, 4, 8);
    data_sweep(read_npz, 4, 3);
    snprintf(path, sizeof path, "%s", dir_file("two.npz"));
    data_refused(read_npz, SW_INVALID, "two.npz", "which arrays are inputs and targets?");
    snprintf(path, sizeof path, "%s:more", dir_file("two.npz"));
    CU_ASSERT_FATAL(data_read_both(read_npz, sets));
    check_alone(sets, 6, 8);
    npy.unlabelled = 0;
    data_refused(read_npz, SW_INVALID, "two.npz", "two arrays must be named");
}

SW_TEST("images beside each other have no class")
{
    const png_image image = {.w = 5, .h = 4, .depth = 8, .type = PNG_GRAY, .seed = 1};
    if (!SW_HAVE_PNG)
        SW_SKIP("built without libpng");
    begin();
    folder_make("more");
    put_png("b.png", image);
    put_png("a.png", image);
    put_png("more/c.png", image);
    put_png("more/d.png", image);
    CU_ASSERT_FATAL(data_read_both(read_images, sets));
    check_alone(sets, 4, 20);
    data_sweep(read_images, 6, 6);
    images.unlabelled = 0;
    CU_ASSERT_FATAL(data_read_both(read_images, sets)); /* "more" is one */
    CU_ASSERT_EQUAL(data_info(sets[0]).n_classes, 1);
    images.unlabelled = 3;
    data_refused(read_images, SW_INVALID, "sw_dataset_images", "unlabelled must be 0 or 1");
}

SW_TEST("folders of images have classes all the same")
{
    const png_image image = {.w = 5, .h = 4, .depth = 8, .type = PNG_GRAY, .seed = 1};
    if (!SW_HAVE_PNG)
        SW_SKIP("built without libpng");
    begin();
    put_png("cat/1.png", image);
    put_png("dog/1.png", image);
    CU_ASSERT_FATAL(data_read_both(read_images, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_fields, 2);
    CU_ASSERT_EQUAL(data_info(sets[0]).n_classes, 2);
}
