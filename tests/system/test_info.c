/* stepwell info: what it says of checkpoints, of files of parameters and of other programs'
 * files, whole or damaged, and how two of them differ. */
#include "runtime/state/tensor_file.h"
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <sys/stat.h>

SW_TESTS("info")

static sw_outcome outcome;

static int run(const char *format, const char *a, const char *b)
{
    program_run(&outcome, sw_textf(format, a, b), NULL);
    return outcome.status;
}

static bool says(const char *part)
{
    return SW_CHECK(strstr(outcome.out, part) != NULL, "'%s' is not in: %s", part, outcome.out);
}

/* One line on standard error has the part; the status is 3. */
static void is_damaged(const char *part)
{
    SW_CHECK(outcome.status == 3 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, part) != NULL,
             "status %d, '%s' must have '%s'", outcome.status, outcome.err, part);
}

static void drop_json(void *object)
{
    json_decref(object);
}

static const json_t *as_json(void)
{
    json_t *object = json_loads(outcome.out);
    SW_CHECK(object != NULL, "%s: %s", sw_last_error(), outcome.out);
    sw_after(drop_json, object);
    return object;
}

/* ---- files ------------------------------------------------------------------------------- */

typedef struct {
    float weight[6];
    const char *created, *name; /* of the second tensor */
    int step;
} scene;

static const scene usual = {{1, 2, 3, 4, 5, 6}, "2026-01-02T03:04:05Z", "fc.bias", 7};

static void add(swi_tensor_list *list, const char *name, sw_dtype dtype, const void *at,
                size_t n)
{
    SW_CHECK(swi_list_bytes(list, name, at, n) == SW_OK, "%s", sw_last_error());
    swi_tensor *tensor = &list->at[list->n - 1];
    tensor->dtype = dtype;
    tensor->shape.dim[0] = (int64_t)(n / sw_dtype_bytes(dtype));
}

static void add_own(swi_tensor_list *list, const char *run_text)
{
    static const double tick[2] = {1, 2};
    static const float state = 1, rate = 0.5f;
    add(list, "stepwell.optimizer/fc.weight.m", SW_F32, &rate, sizeof rate);
    add(list, "stepwell.optimizer/tick", SW_F64, tick, sizeof tick);
    add(list, "stepwell.state/hidden", SW_F32, &state, sizeof state);
    add(list, "stepwell.gradient/fc.weight", SW_F32, &state, sizeof state);
    add(list, "stepwell.knobs", SW_F32, &rate, sizeof rate);
    add(list, "mlp/stepwell.members", SW_U8, "seeds...", 8);
    add(list, "mlp/stepwell.bytes", SW_U8, "abc", 3);
    add(list, "stepwell.blob/best", SW_U8, "0.5", 3);
    add(list, "stepwell.run", SW_U8, run_text, strlen(run_text));
}

static const char *write_scene(const char *name, const scene *s, bool checkpoint)
{
    static const float bias[3] = {0.5f, 0, -1};
    const char *path = sw_temp_path(name);
    const swi_tensors_note notes[] = {{"stepwell.checkpoint", "1"},
                                      {"stepwell.command", "stepwell train"},
                                      {"stepwell.created", s->created}};
    swi_tensor_list list = {0};
    sw_file *file;
    const char *text =
        sw_textf("{\"version\":1,\"step\":%d,\"seed\":5,\"isa\":\"avx512\",\"device\":\"cpu\","
                 "\"models\":[{\"name\":\"lenet5\",\"layout\":\"0123456789abcdef\",\"members\":"
                 "1}],\"groups\":[{\"name\":\"mlp\",\"layout\":\"00000000000000ab\","
                 "\"members\":100000,\"state_bytes\":24}],\"loaders\":[{\"epoch\":1,\"batch_"
                 "index\":2,\"batch_rows\":64,\"samples\":1200,\"seed\":\"9\",\"shuffle\":true,"
                 "\"drop_last\":false,\"data\":\"fedcba9876543210\"}]}",
                 s->step);
    add(&list, "fc.weight", SW_F32, s->weight, sizeof s->weight);
    add(&list, s->name, SW_F32, bias, sizeof bias);
    if (checkpoint)
        add_own(&list, text);
    SW_CHECK(sw_file_open(&file, path, SW_FILE_WRITE) == SW_OK, "%s", sw_last_error());
    SW_CHECK(swi_tensors_write(file, &list, notes, checkpoint ? 3 : 0) == SW_OK, "%s",
             sw_last_error());
    SW_CHECK(sw_file_close(file) == SW_OK, "%s", sw_last_error());
    swi_list_free(&list);
    return path;
}

/* Flip the lowest bit of the byte that is `from_end` bytes before the file's end. */
static void flip(const char *path, size_t from_end)
{
    size_t n;
    unsigned char *bytes = file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    bytes[n - from_end] ^= 1;
    CU_ASSERT(file_write(path, bytes, n));
    free(bytes);
}

/* ---- one file ---------------------------------------------------------------------------- */

SW_TEST("a checkpoint is described")
{
    static const char *const parts[] =
        SW_INIT(": a checkpoint, version 1, ", "step 7, seed 5, avx512, cpu",
                "model lenet5, layout 0123456789abcdef, 1 member\n",
                "group mlp, layout 00000000000000ab, 100,000 members, 24 bytes of state each\n",
                "loader 0: epoch 1, 2 batches of 64 rows taken\n    1,200 samples, seed 9, "
                "shuffled, data fedcba9876543210",
                "stepwell.command: stepwell train", "stepwell.created: 2026-01-02T03:04:05Z",
                "parameters and buffers: 2 tensors, 36 B", "optimizer: 2 tensors, 20 B",
                "states: 1 tensor, 4 B", "gradients: 1 tensor", "knobs: 1 tensor",
                "members: 2 tensors, 11 B", "blobs: 1 tensor, 3 B", "run: 1 tensor", "F32 (6)",
                "whole: all 11 tensors and the header match their checksums");
    CU_ASSERT_EQUAL(run("info %s", write_scene("c", &usual, true), ""), 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)says(parts[i]);
    CU_ASSERT_STRING_EQUAL(outcome.err, "");
}

SW_TEST("its JSON says the same")
{
    CU_ASSERT_EQUAL(run("info --json %s", write_scene("c", &usual, true), ""), 0);
    const json_t *j = as_json(), *tensors = json_object_get(j, "tensors");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(j, "kind")), "checkpoint");
    CU_ASSERT(json_is_true(json_object_get(j, "whole")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(j, "step")), 7);
    CU_ASSERT_EQUAL(json_array_size(tensors), 11);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "models")), 1);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "loaders")), 1);
    const json_t *group = json_array_get(json_object_get(j, "groups"), 0);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(group, "name")), "mlp");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(group, "members")), 100000);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(group, "state_bytes")), 24);
    json_int_t bytes = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i);
        bytes += json_integer_value(json_object_get(tensor, "bytes"));
        CU_ASSERT_EQUAL(strlen(json_string_value(json_object_get(tensor, "checksum"))), 16);
    }
    CU_ASSERT(bytes > 100 && bytes < json_integer_value(json_object_get(j, "bytes")));
    CU_ASSERT_STRING_EQUAL(
        json_string_value(json_object_get(json_object_get(j, "metadata"), "stepwell.command")),
        "stepwell train");
}

SW_TEST("parameters are described")
{
    CU_ASSERT_EQUAL(run("info %s", write_scene("p", &usual, false), ""), 0);
    (void)says(": parameters with checksums, ");
    (void)says("whole: all 2 tensors and the header match their checksums");
}

static const char *write_foreign(void)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[0,4]}}";
    const char *path = sw_temp_path("foreign");
    unsigned char bytes[8 + sizeof header - 1 + 4] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    CU_ASSERT(file_write(path, bytes, sizeof bytes));
    return path;
}

SW_TEST("files of other programs are described")
{
    const char *path = write_foreign();
    CU_ASSERT_EQUAL(run("info %s", path, ""), 0);
    (void)says(": safetensors of another program, ");
    (void)says("F16 (2, 1)");
    (void)says("no checksums: whether it is whole is not known");
    CU_ASSERT_EQUAL(run("info --json %s", path, ""), 0);
    CU_ASSERT(json_is_null(json_object_get(as_json(), "whole")));
}

SW_TEST("damage is named")
{
    const char *path = write_scene("d", &usual, true);
    flip(path, 1); /* in the run's text, which comes last */
    (void)run("info %s", path, "");
    is_damaged("'stepwell.run', bytes ");
    (void)says("damaged: 1 of 11 tensors; the first: ");
    (void)run("info --json %s", path, "");
    is_damaged("'stepwell.run', bytes ");
    const json_t *j = as_json();
    CU_ASSERT(json_is_false(json_object_get(j, "whole")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(j, "damaged_tensors")), 1);
    path = write_scene("d", &usual, true);
    size_t n;
    unsigned char *bytes = file_read(path, &n);
    bytes[40] ^= 1; /* in the header */
    CU_ASSERT(file_write(path, bytes, n));
    (void)run("info %s", path, "");
    is_damaged(path);
    CU_ASSERT_STRING_EQUAL(outcome.out, "");
    bytes[40] ^= 1;
    CU_ASSERT(file_write(path, bytes, n - 1));
    (void)run("info --json %s", path, "");
    is_damaged("lies at");
    CU_ASSERT_STRING_EQUAL(outcome.out, "");
    free(bytes);
}

SW_TEST("what is no such file is refused")
{
    (void)mkdir(sw_temp_path("folder"), 0700);
    (void)mkfifo(sw_temp_path("pipe"), 0600);
    CU_ASSERT(file_write(sw_temp_path("empty"), "", 0) &&
              file_write(sw_temp_path("text"), "hello, all!", 11));
    (void)run("info %s", sw_temp_path("missing"), "");
    is_damaged("No such file");
    (void)run("info %s", sw_temp_path("folder"), "");
    is_damaged("directory");
    (void)run("info %s", sw_temp_path("empty"), "");
    is_damaged("0 bytes are not a safetensors file");
    (void)run("info %s", sw_temp_path("text"), "");
    is_damaged("is announced");
    CU_ASSERT_EQUAL(sw_shell("(echo x >'%s' &) ; timeout 20 '%s' info '%s'",
                             sw_temp_path("pipe"), program_path(), sw_temp_path("pipe")),
                    3);
    CU_ASSERT_EQUAL(run("info", "", ""), 2);
    CU_ASSERT_EQUAL(run("info %s --dif %s", "a", "b"), 2);
}

SW_TEST("generations have a line each")
{
    scene older = usual;
    const char *path = write_scene("g", &usual, true);
    older.step = 6;
    (void)write_scene("g.1", &older, true);
    flip(write_scene("g.2", &older, true), 1);
    (void)write_scene("g.4", &older,
                      true); /* a process may have ended while it moved them up */
    CU_ASSERT_EQUAL(run("info %s", path, ""), 0);
    (void)says("g.1: step 6, whole\n");
    (void)says("g.2: damaged: ");
    (void)says("g.4: step 6, whole\n");
    CU_ASSERT_EQUAL(run("info --json %s", path, ""), 0);
    const json_t *list = json_object_get(as_json(), "generations");
    CU_ASSERT_EQUAL(json_array_size(list), 3);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_array_get(list, 0), "step")), 6);
    CU_ASSERT(json_is_false(json_object_get(json_array_get(list, 1), "whole")));
    CU_ASSERT(file_write(path, "x", 1)); /* damaged itself: what to go back to is said */
    (void)run("info %s", path, "");
    is_damaged("g: 1 bytes are not");
    (void)says("g.1: step 6, whole\n");
}

/* ---- two files --------------------------------------------------------------------------- */

SW_TEST("the same is the same")
{
    scene later = usual;
    later.created = "2027-01-01T00:00:00Z";
    const char *a = write_scene("a", &usual, true);
    CU_ASSERT_EQUAL(run("info %s --diff %s", a, a), 0);
    (void)says("the same: ");
    CU_ASSERT_EQUAL(run("info %s --diff %s", a, write_scene("b", &later, true)), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "2027"));
    CU_ASSERT_EQUAL(run("info --json %s --diff %s", a, a), 0);
    CU_ASSERT(json_is_true(json_object_get(as_json(), "same")));
}

SW_TEST("the first difference is named")
{
    scene other = usual;
    other.weight[2] = 3.5f;
    other.weight[4] = 7;
    other.name = "fc.offset";
    const char *a = write_scene("a", &usual, false), *b = write_scene("b", &other, false);
    CU_ASSERT_EQUAL(run("info %s --diff %s", a, b), 1);
    (void)says("'fc.weight' differs first at element 2: 3 and 3.5; 2 of 6 elements differ, the "
               "largest difference is 2\n");
    (void)says("'fc.bias' is in ");
    (void)says("'fc.offset' is in ");
    CU_ASSERT_EQUAL(run("info --json %s --diff %s", a, b), 1);
    const json_t *j = as_json(), *first = json_object_get(j, "first");
    CU_ASSERT(json_is_false(json_object_get(j, "same")));
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(first, "name")), "fc.weight");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(first, "element")), 2);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(first, "differing")), 2);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "only_a")), 1);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "only_b")), 1);
    CU_ASSERT_EQUAL(run("info %s --diff %s", a, write_foreign()), 1);
    (void)says("'w' is in ");
}

SW_TEST("differences need whole files")
{
    const char *a = write_scene("a", &usual, false), *b = write_scene("b", &usual, false);
    (void)run("info %s --diff %s", a, sw_temp_path("missing"));
    is_damaged("No such file");
    flip(b, 1);
    (void)run("info %s --diff %s", a, b);
    is_damaged("is damaged");
    (void)run("info %s --diff %s", b, a);
    is_damaged("is damaged");
    CU_ASSERT_STRING_EQUAL(outcome.out, "");
}
