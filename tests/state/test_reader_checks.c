/* Files that one check of the reader notices and no other one: the checksums are right, or
 * there are none, and all else is as it must be. */
#include "runtime/base/checksum.h"
#include "tests/state/tensor_files.h"
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("checks of the reader")

static void put_header(bytes *file, const char *header, size_t n_data)
{
    const uint64_t length = strlen(header);
    *file = (bytes){NULL, 0};
    bytes_put(file, &length, sizeof length);
    bytes_put(file, header, length);
    for (size_t i = 0; i < n_data; i++)
        bytes_byte(file, (int)i + 1);
}

static sw_status open_bytes(const bytes *file)
{
    sw_file_put(sw_temp_path("crafted"), file->at, file->n);
    return open_and_verify(sw_temp_path("crafted"));
}

/* ---- headers of others ------------------------------------------------------------------- */

#define ONE(name, dtype, shape, offsets)                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

SW_TEST("places and shapes are checked one by one")
{
    static const struct {
        const char *header;
        size_t n_data;
        const char *part; /* NULL: it opens */
    } cases[] = {
        /* Elements that are too many, of a type of unknown width. */
        {"{" ONE("a", "F4", "[4294967296,4294967296,4294967296]", "[0,8]") "}", 8,
         "'a' has a shape of too many elements"},
        /* 2^61 elements of 8 bytes are 0 bytes to who does not look. */
        {"{" ONE("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0,
         "'a' has a shape of too many elements"},
        {"{" ONE("a", "F4", "[2]", "[8,0]") "}", 8, "'a' lies at 8 to 0"},
        {"{" ONE("a", "F4", "[2]", "[0,9]") "}", 8, "'a' lies at 0 to 9"},
        {"{" ONE("a", "U8", "[3]", "[0,4]") "," ONE("b", "U8", "[4]", "[4,8]") "}", 8,
         "'a' lies at 0 to 4; it has 3 bytes"},
        {"{" ONE("a", "U8", "[4]", "[0,4]") "," ONE("b", "U8", "[3]", "[5,8]") "}", 8,
         "'b' must begin at 4 (got 5): a hole"},
        {"{" ONE("a", "U8", "[5]", "[0,5]") "," ONE("b", "U8", "[4]", "[4,8]") "}", 8,
         "'b' must begin at 5 (got 4): tensors overlap"},
        {"{" ONE("a", "U8", "[4]", "[0,4]") "}", 5, "1 bytes after its last tensor"},
        /* Ten dims, of which the last count. */
        {"{" ONE("a", "U8", "[1,1,1,1,1,1,1,1,3,2]", "[0,6]") "}", 6, NULL},
        /* A name of ours, and no checksum. */
        {"{" ONE("stepwell.blob/a", "U8", "[4]", "[0,4]") "}", 4, "no 'stepwell.header'"},
        {"{\"__metadata__\":{\"stepwell.x\":\"\"}," ONE("a", "U8", "[4]", "[0,4]") "}", 4,
         "no 'stepwell.header'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes file;
        put_header(&file, cases[i].header, cases[i].n_data);
        if (cases[i].part == NULL)
            OK(open_bytes(&file));
        else
            failed_as(open_bytes(&file), SW_FORMAT, cases[i].part);
    }
}

/* ---- digits ------------------------------------------------------------------------------ */

#define D15 "123456789abcdef"
#define D16 "0" D15

/* The header's own checksum is 16 plain digits. */
SW_TEST("the header's digits are plain")
{
    static const char *const values[] = {
        D15,                      /* too few */
        D16 "0",                  /* too many */
        (D16 "\\\"" D16),         /* begins and ends as it must */
        "\\u0030" D15,            /* escaped; ends as it must */
        "\\\"3456789abcdef0\\/"}; /* 16 characters after a quote; none of them ends it */
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char header[300];
        bytes file;
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"stepwell.checksums\":\"" D16
                 "\",\"stepwell.header\":\"%s\"}," ONE("a", "U8", "[4]", "[0,4]") "}",
                 values[i]);
        put_header(&file, header, 4);
        failed_as(open_bytes(&file), SW_FORMAT, "the header's checksum must be 16 digits");
    }
}

/* The first n digits of the tensor's checksum and what stands after them; the header's is
 * right. */
static void with_digits(int n, const char *behind, bool upper, const char *part)
{
    char header[300], right[20], digits[40];
    static const unsigned char data[] = {1, 2, 3, 4};
    bytes file;
    snprintf(right, sizeof right, "%016llx", (unsigned long long)swi_checksum_of(data, 4));
    snprintf(digits, sizeof digits, "%.*s%s", n, right, behind);
    for (char *c = digits; upper && *c != '\0'; c++)
        *c = *c >= 'a' && *c <= 'f' ? (char)(*c - 'a' + 'A') : *c;
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"stepwell.checksums\":\"%s\",\"stepwell.header\":\"" D16
             "\"}," ONE("a", "U8", "[4]", "[0,4]") "}",
             digits);
    put_header(&file, header, 4);
    reseal(&file);
    if (part == NULL)
        OK(open_bytes(&file));
    else
        failed_as(open_bytes(&file), SW_FORMAT, part);
}

SW_TEST("a tensor's digits are plain")
{
    with_digits(16, "", false, NULL);
    with_digits(16, "", true, "must have 16 digits for each of 1 tensors (16 are there)");
    with_digits(16, "0000000000000000", false, "(32 are there)");
    with_digits(15, "", false, "(15 are there)");
    with_digits(0, "0000000000000000", false, "'a', bytes ");
}

/* Each tensor has its own: two that were exchanged are both damaged. */
SW_TEST("checksums belong to their tensor")
{
    static const char key[] = "\"stepwell.checksums\":\"";
    char kept[16];
    write_checkpoint(sw_temp_path("exchanged"), chance_model("m", 3), 65536);
    bytes file = file_get(sw_temp_path("exchanged"));
    unsigned char *at = memmem(file.at, file.n, key, strlen(key));
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at += strlen(key);
    memcpy(kept, at, 16);
    memcpy(at, at + 16, 16);
    memcpy(at + 16, kept, 16);
    reseal(&file);
    failed_as(open_bytes(&file), SW_FORMAT, "is damaged: checksum");
}

/* ---- reading ----------------------------------------------------------------------------- */

SW_TEST("a part is inside of its tensor")
{
    unsigned char to[8];
    swi_tensors *file;
    write_checkpoint(sw_temp_path("parts"), chance_model("m", 3), 65536);
    OK(swi_tensors_open(&file, sw_temp_path("parts")));
    const swi_tensors_entry *entry = swi_tensors_find(file, "scalar");
    CU_ASSERT_PTR_NOT_NULL_FATAL(entry);
    OK(swi_tensors_read_part(file, entry, 0, to, 4));
    OK(swi_tensors_read_part(file, entry, 4, to, 0));
    failed_as(swi_tensors_read_part(file, entry, 0, to, 5), SW_INVALID, "has 4 bytes (5 from");
    failed_as(swi_tensors_read_part(file, entry, 3, to, 2), SW_INVALID, "(2 from 3 are asked");
    failed_as(swi_tensors_read_part(file, entry, 5, to, 0), SW_INVALID, "(0 from 5 are asked");
    OK(swi_tensors_read(file, entry, to, 4));
    failed_as(swi_tensors_read(file, entry, to, 3), SW_INVALID, "(room for 3 is given)");
    failed_as(swi_tensors_read(file, entry, to, 5), SW_INVALID, "(room for 5 is given)");
    swi_tensors_close(file);
}

/* Damage that came after the opening: each way to read looks for itself. */
SW_TEST("every way to read looks at the checksum")
{
    unsigned char to[12];
    swi_tensors *file;
    write_checkpoint(sw_temp_path("later"), chance_model("m", 3), 65536);
    OK(swi_tensors_open(&file, sw_temp_path("later")));
    const swi_tensors_entry *entry = swi_tensors_find(file, "conv.bias");
    CU_ASSERT_PTR_NOT_NULL_FATAL(entry);
    OK(swi_tensors_verify_one(file, entry));
    bytes now = file_get(sw_temp_path("later"));
    const size_t begins = now.n - swi_tensors_at(file, swi_tensors_count(file) - 1)->end;
    now.at[begins + entry->begin + 7] ^= 64;
    sw_file_put(sw_temp_path("later"), now.at, now.n);
    failed_as(swi_tensors_verify_one(file, entry), SW_FORMAT, "'conv.bias', bytes ");
    failed_as(swi_tensors_read(file, entry, to, 12), SW_FORMAT, "'conv.bias', bytes ");
    failed_as(swi_tensors_verify(file), SW_FORMAT, "'conv.bias', bytes ");
    OK(swi_tensors_verify_one(file, swi_tensors_find(file, "scalar")));
    OK(swi_tensors_read_part(file, entry, 4, to, 4)); /* says that it does not look */
    CU_ASSERT_EQUAL(truncate(sw_temp_path("later"), (off_t)(begins + entry->begin + 6)), 0);
    failed_as(swi_tensors_read_part(file, entry, 4, to, 4), SW_FORMAT,
              "changed while it was read");
    swi_tensors_close(file);
}

/* Nine dims, which no model can have: the ninth is not held against what lies after the
 * eighth. */
SW_TEST("nine dims fit nothing")
{
    bytes file;
    swi_tensors *open;
    unsigned char to[2] = {0};
    swi_tensor tensor =
        SW_INIT(.name = "b", .dtype = SW_U8, .shape = SW_SHAPE(1, 1, 1, 1, 1, 1, 1, 1),
                .part_bytes = 1, .n_parts = 2, .at = to, .stride = 1);
    const swi_tensor_list list = {.at = &tensor, .n = 1};
    put_header(&file,
               "{" ONE("a", "U8", "[1]", "[0,1]") "," ONE("b", "U8", "[2,1,1,1,1,1,1,1,1]",
                                                          "[1,3]") "}",
               3);
    OK(open_bytes(&file));
    OK(swi_tensors_open(&open, sw_temp_path("crafted")));
    failed_as(swi_tensors_load(open, &list, true, "the test"), SW_FORMAT, "'b' is U8 (2, 1");
    CU_ASSERT_EQUAL(to[0], 0);
    swi_tensors_close(open);
}

/* A pipe that waits for a writer is not a file. */
SW_TEST("a pipe is refused")
{
    int ends[2];
    char path[64];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    CU_ASSERT_EQUAL(write(ends[1], "12345678", 8), 8);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    failed_as(open_and_verify(path), SW_FORMAT, "must be a regular file");
    close(ends[0]);
    close(ends[1]);
}

/* ---- what a run goes on from ------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    sw_loader *loader;
    sw_model *model;
    sw_checkpoint *c;
    char record[2048]; /* that of a save */
} scene;

static void read_record(scene *s, const char *path)
{
    swi_tensors *file;
    OK(swi_tensors_open(&file, path));
    const swi_tensors_entry *entry = swi_tensors_find(file, SWI_TENSORS_RUN);
    CU_ASSERT_FATAL(entry != NULL && entry->end - entry->begin < sizeof s->record);
    OK(swi_tensors_read(file, entry, s->record, (size_t)(entry->end - entry->begin)));
    swi_tensors_close(file);
}

/* A model and a loader, and a checkpoint of both that saved once. */
static scene *new_scene(void)
{
    scene *s = sw_block(sizeof *s);
    const sw_loader_opts loader = SW_OPTS(sw_loader_opts, .batch = 4, .seed = 5, .shuffle = 1);
    s->model = chance_model("m", 3);
    s->exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = 1, .seed = 3));
    s->loader = data_loader(data_digits(20, 1), loader);
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("scene"),
                                            .models = &s->model, .n_models = 1);
    OK(sw_checkpoint_create(&s->c, s->exec, &opts));
    AFTER(sw_checkpoint_destroy, s->c);
    OK(sw_checkpoint_loader(s->c, s->loader));
    OK(sw_checkpoint_save(s->c, 1));
    read_record(s, sw_temp_path("scene"));
    return s;
}

static sw_status find_and_load(const scene *s, const char *path)
{
    SW_TRY(sw_checkpoint_find(s->c, path, &SW_OPTS(sw_checkpoint_found)));
    return sw_checkpoint_load(s->c);
}

/* A checkpoint that has the record and no more: what is refused is so by the record, which
 * comes first. */
static sw_status load_record(const scene *s, const char *from, const char *to)
{
    char text[2200];
    const char *at = strstr(s->record, from);
    swi_tensor_list list = {0};
    if (!SW_CHECK(at != NULL, "'%s' is not in %s", from, s->record))
        return SW_OK;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - s->record), s->record, to,
             at + strlen(from));
    list_run(&list, text);
    OK(write_tensors(sw_temp_path("record"), &list, checkpoint_marks, N_MARKS));
    swi_list_free(&list);
    return find_and_load(s, sw_temp_path("record"));
}

SW_TEST("each difference of the record is named")
{
    static const struct {
        const char *from, *to;
        sw_status status;
        const char *part;
    } rows[] = {
        {"", "", SW_FORMAT, "is missing"}, /* the record as it is is right */
        {"\"version\":1", "\"version\":2", SW_UNSUPPORTED, "a checkpoint of version 2"},
        {"\"seed\":3,", "\"seed\":4,", SW_INVALID, "the seed of random ops was 4 there"},
        {"\"name\":\"m\"", "\"name\":\"n\"", SW_INVALID, "model 0 is 'n' there and 'm' here"},
        {"\"members\":1", "\"members\":2", SW_INVALID, "2 models are named 'm' there and 1"},
        {"\"adam\"", "\"adam,sgd\"", SW_INVALID, "'adam,sgd' there and 'adam' here"},
        {"\"models\":[", "\"models\":[{\"name\":\"m\",\"members\":1},", SW_INVALID,
         "a run with 2 models and 1 loaders"},
        {"\"loaders\":[", "\"loaders\":[{\"seed\":\"5\"},", SW_INVALID,
         "a run with 1 models and 2 loaders"},
        {"\"batch_rows\":4", "\"batch_rows\":5", SW_INVALID, "the batch of loader 0 was 5"},
        {"\"samples\":20", "\"samples\":21", SW_INVALID, "the number of samples of loader 0"},
        {"\"seed\":\"5\"", "\"seed\":\"6\"", SW_INVALID, "the seed of loader 0 was 6"},
        {"\"shuffle\":true", "\"shuffle\":false", SW_INVALID, "shuffle of loader 0 was 0"},
        {"\"drop_last\":false", "\"drop_last\":true", SW_INVALID, "drop_last of loader 0"},
        {"\"data\":\"", "\"data\":\"0", SW_INVALID, "the samples of loader 0 are others"},
    };
    const scene *s = new_scene();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        failed_as(load_record(s, rows[i].from, rows[i].to), rows[i].status, rows[i].part);
}

static swi_tensor *of_list(swi_tensor_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, name) == 0)
            return &list->at[i];
    CU_FAIL_FATAL("no such tensor");
    return NULL;
}

/* The record fits, and the tensors do not. */
SW_TEST("tensors that do not fit are named")
{
    scene *s = new_scene();
    float knobs[2] = {0.5f, (float)NAN};
    for (int what = 0; what < 3; what++) {
        swi_tensor_list list = {0};
        OK(swi_list_models(&list, &s->model, 1, ALL_ROLES, ""));
        list_run(&list, s->record);
        OK(swi_list_bytes(&list, "stepwell.blob/fine", "x", 1));
        swi_tensor *of_knobs = of_list(&list, "stepwell.knobs");
        CU_ASSERT_EQUAL_FATAL(of_knobs->part_bytes, sizeof knobs);
        knobs[1] = what == 1 ? (float)NAN : 0.01f;
        of_knobs->at = (unsigned char *)knobs;
        if (what == 2)
            OK(swi_list_bytes(&list, "extra", "x", 1));
        OK(write_tensors(sw_temp_path("fits"), &list, checkpoint_marks, N_MARKS));
        swi_list_free(&list);
        const sw_status status = find_and_load(s, sw_temp_path("fits"));
        if (what == 0)
            OK(status);
        else
            failed_as(status, SW_INVALID,
                      what == 1 ? "cannot be nan"
                                : "it has 'extra', which the run that goes on has not");
    }
}

SW_TEST("parameters alone are no checkpoint")
{
    scene *s = new_scene();
    OK(sw_model_save(s->model, sw_temp_path("params")));
    failed_as(find_and_load(s, sw_temp_path("params")), SW_FORMAT,
              "it has parameters alone, and is no checkpoint");
}

SW_TEST("a model that is not ready takes nothing")
{
    scene *s = new_scene();
    sw_model *bare = made_model("m");
    sw_checkpoint *c = NULL;
    sw_param_new(bare, "scalar", SW_F32, SW_SCALAR, "zeros");
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .models = &bare, .n_models = 1);
    OK(sw_checkpoint_create(&c, s->exec, &opts));
    OK(sw_checkpoint_find(c, sw_temp_path("scene"), &SW_OPTS(sw_checkpoint_found)));
    failed_as(sw_checkpoint_load(c), SW_INVALID, "model m must be ready");
    sw_checkpoint_destroy(c);
}
