/* Mean and deviation of pixels, and texts that are saved with parameters. */
#include "tests/data/data_files.h"

SW_TESTS("moments")

#define RECORD 3073

/* CIFAR's records with channels that have the values 0 and 2 v, half of each: mean v. */
static sw_dataset *colours(const unsigned char *v, int n)
{
    unsigned char record[RECORD];
    bytes b = {NULL, 0};
    sw_dataset *set = NULL;
    record[0] = 1;
    for (int k = 1; k < RECORD; k++)
        record[k] = (unsigned char)(k % 2 * 2 * v[(k - 1) / 1024]);
    for (int i = 0; i < n; i++)
        bytes_put(&b, record, sizeof record);
    dir_new();
    dir_put("data_batch_mini.bin", b);
    OK(sw_dataset_cifar(&set, dir_name(), "train", NULL));
    AFTER(sw_dataset_destroy, set);
    return set;
}

SW_TEST("channels have moments of their own")
{
    static const unsigned char v[3] = {51, 102, 0};
    float mean[4], deviation[4];
    const sw_dataset *set = colours(v, 7);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_moments(set, 0, 3, mean, deviation), SW_OK);
    CU_ASSERT(mean[0] == 0.2f && mean[1] == 0.4f && mean[2] == 0.0f);
    CU_ASSERT(deviation[0] == 0.2f && deviation[1] == 0.4f);
    CU_ASSERT_EQUAL(deviation[2], 1.0f); /* all alike */
    CU_ASSERT_EQUAL_FATAL(sw_dataset_moments(set, 0, 1, mean, deviation), SW_OK);
    CU_ASSERT(mean[0] == 0.2f && deviation[0] == 0.3055f); /* sqrt(0.4/3 - 0.04) */
}

SW_TEST("what has no moments is refused")
{
    static const unsigned char v[3] = {1, 2, 3};
    float mean[4], deviation[4];
    const sw_dataset *set = colours(v, 1);
    sw_dataset *vectors, *shapes;
    const sw_cifar_opts opts = SW_OPTS(sw_cifar_opts, .shapes_only = 1);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_vectors(&vectors, 4, 3, 1), SW_OK);
    AFTER(sw_dataset_destroy, vectors);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_cifar(&shapes, dir_name(), "train", &opts), SW_OK);
    AFTER(sw_dataset_destroy, shapes);
    CU_ASSERT(failed_as(sw_dataset_moments(NULL, 0, 1, mean, deviation), SW_INVALID, "NULL"));
    CU_ASSERT(failed_as(sw_dataset_moments(set, 0, 1, NULL, deviation), SW_INVALID, "NULL"));
    CU_ASSERT(failed_as(sw_dataset_moments(set, 0, 2, mean, deviation), SW_INVALID, "got 2"));
    CU_ASSERT(failed_as(sw_dataset_moments(set, 0, 0, mean, deviation), SW_INVALID, "got 0"));
    CU_ASSERT(failed_as(sw_dataset_moments(set, 2, 1, mean, deviation), SW_INVALID, "field 2"));
    CU_ASSERT(failed_as(sw_dataset_moments(set, -1, 1, mean, deviation), SW_INVALID, "field"));
    CU_ASSERT(
        failed_as(sw_dataset_moments(vectors, 0, 1, mean, deviation), SW_INVALID, "bytes"));
    CU_ASSERT(
        failed_as(sw_dataset_moments(shapes, 0, 3, mean, deviation), SW_INVALID, "shapes"));
}

SW_TEST("MNIST has the numbers that are published")
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    float mean, deviation;
    sw_dataset *set;
    const char *folder = sw_data_path("mnist");
    if (folder == NULL)
        SW_SKIP("MNIST is not here");
    CU_ASSERT_EQUAL_FATAL(sw_dataset_idx(&set, folder, "train"), SW_OK);
    AFTER(sw_dataset_destroy, set);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_moments(set, 0, 1, &mean, &deviation), SW_OK);
    CU_ASSERT(mean == 0.1307f && deviation == 0.3081f);
}

/* ---- notes ------------------------------------------------------------------------------- */

static sw_exec *exec;
static sw_model *model;

static void small_model(void)
{
    exec = made_exec(NULL);
    model = made_model("m");
    (void)sw_linear_new(model, "a", 2, 3);
    CU_ASSERT_EQUAL_FATAL(sw_model_ready(model, exec, 1), SW_OK);
    dir_new();
}

static const char *noted(const char *key)
{
    static char text[300];
    const char *path = dir_file("m.safetensors");
    OK(sw_params_note(path, key, text, sizeof text));
    return text;
}

SW_TEST("notes come back from the file")
{
    static const char odd[] = "a \"quoted\" \\ tab\tand \xc3\xbc\nline";
    char short_text[4];
    small_model();
    const char *path = dir_file("m.safetensors");
    CU_ASSERT_EQUAL(sw_model_save(model, path), SW_OK);
    CU_ASSERT_STRING_EQUAL(noted("how"), "");
    CU_ASSERT_STRING_EQUAL(noted("format"), "pt");
    CU_ASSERT_EQUAL(sw_model_note(model, "how", "first"), SW_OK);
    CU_ASSERT_EQUAL(sw_model_note(model, "how", odd), SW_OK);
    CU_ASSERT_EQUAL(sw_model_note(model, "k\"y", "1"), SW_OK);
    CU_ASSERT_EQUAL(sw_model_save(model, dir_file("m.safetensors")), SW_OK);
    CU_ASSERT_STRING_EQUAL(noted("how"), odd);
    CU_ASSERT_STRING_EQUAL(noted("k\"y"), "1");
    CU_ASSERT_EQUAL(sw_params_note(dir_file("m.safetensors"), "how", short_text, 4), SW_OK);
    CU_ASSERT_STRING_EQUAL(short_text, "a \"");
    CU_ASSERT_EQUAL(sw_model_load(model, dir_file("m.safetensors")), SW_OK);
    CU_ASSERT_EQUAL(sw_model_note(model, "how", NULL), SW_OK);
    CU_ASSERT_EQUAL(sw_model_note(model, "never", NULL), SW_OK);
    CU_ASSERT_EQUAL(sw_model_save(model, dir_file("m.safetensors")), SW_OK);
    CU_ASSERT_STRING_EQUAL(noted("how"), "");
    CU_ASSERT_STRING_EQUAL(noted("k\"y"), "1");
}

SW_TEST("notes that cannot be are refused")
{
    char text[300], key[3] = "k0";
    small_model();
    memset(text, 'x', sizeof text);
    text[299] = '\0';
    CU_ASSERT(failed_as(sw_model_note(model, "", "b"), SW_INVALID, "empty"));
    CU_ASSERT(failed_as(sw_model_note(model, "format", "b"), SW_INVALID, "'format'"));
    CU_ASSERT(failed_as(sw_model_note(model, text, "b"), SW_INVALID, "47 bytes"));
    CU_ASSERT(failed_as(sw_model_note(model, "a", text), SW_INVALID, "got 299"));
    for (; key[1] < '4'; key[1]++)
        CU_ASSERT_EQUAL(sw_model_note(model, key, "b"), SW_OK);
    CU_ASSERT(failed_as(sw_model_note(model, key, "b"), SW_INVALID, "has 4 notes"));
    CU_ASSERT(
        failed_as(sw_model_note(model, "k3", "\xff"), SW_INVALID, "the note 'k3' must be"));
    CU_ASSERT(failed_as(sw_model_note(model, "\xff", "b"), SW_INVALID, "must be UTF-8"));
    CU_ASSERT_EQUAL(sw_model_save(model, dir_file("m")), SW_OK);
    CU_ASSERT_EQUAL(sw_params_note(dir_file("m"), "k3", text, 300), SW_OK);
    CU_ASSERT_STRING_EQUAL(text, "b");
    CU_ASSERT_EQUAL(remove(dir_file("m")), 0);
    memset(text, 'x', sizeof text - 1);
    CU_ASSERT(failed_as(sw_params_note(dir_file("m"), "a", text, 300), SW_IO, "m"));
    CU_ASSERT(failed_as(sw_params_note("", "a", text, 300), SW_INVALID, "path"));
    CU_ASSERT(failed_as(sw_params_note("m", "a", NULL, 300), SW_INVALID, "text"));
    sw_file_put(dir_file("m"), "{}", 2);
    CU_ASSERT(failed_as(sw_params_note(dir_file("m"), "a", text, 300), SW_FORMAT, "m"));
}
