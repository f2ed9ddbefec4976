/* Folders as Hugging Face's libraries write them: shards, indexes, the hub cache. */
#include "runtime/state/model_folder.h"
#include "tests/state/tensor_files.h"
#include "tests/support/heap_sweep.h"
#include <unistd.h>

SW_TESTS("model folder")

/* A file of tensors with three numbers each: "F32 name", their bytes 0, 1, 2, ... */
static void shard(const char *file, const char *const *tensors, int n)
{
    bytes text = {NULL, 0}, all = {NULL, 0};
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const char *name = strchr(tensors[i], ' ') + 1;
        const size_t size = strncmp(tensors[i], "F32", 3) == 0 ? 12 : 6;
        const char *line = sw_textf(
            "%s\"%s\":{\"dtype\":\"%.*s\",\"shape\":[3],\"data_offsets\":[%zu,%zu]}",
            i > 0 ? "," : "{", name, (int)(name - tensors[i]) - 1, tensors[i], at, at + size);
        bytes_put(&text, line, strlen(line));
        at += size;
    }
    bytes_put(&text, "}", 1);
    bytes_le(&all, text.n, 8);
    bytes_put(&all, text.at, text.n);
    for (size_t i = 0; i < at; i++)
        bytes_byte(&all, (int)i);
    dir_put(file, all);
}
#define SHARD(file, ...)                                                                       \
    shard(file, (const char *const[]){__VA_ARGS__},                                            \
          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void put_text(const char *file, const char *text)
{
    bytes b = {NULL, 0};
    bytes_put(&b, text, strlen(text));
    dir_put(file, b);
}

#define INDEX "model.safetensors.index.json"
static const char long_name[] =
    "model.layers.0.self_attn.a_name_that_is_longer_than_48_bytes.weight";

/* Two shards and their index, with one change: `from` becomes `to` in it. */
static void two_shards(const char *from, const char *to)
{
    char text[1000];
    dir_new();
    SHARD("model-1.safetensors", "F32 a", "BF16 b");
    SHARD("model-2.safetensors", sw_textf("F16 %s", long_name), "F32 c");
    snprintf(text, sizeof text,
             "{\"metadata\": {\"total_size\": 36, \"x\": [1]}, \"weight_map\": {\"a\": "
             "\"model-1.safetensors\", \"b\": \"model-1.safetensors\", \"%s\": "
             "\"model-2.safetensors\", \"c\": \"model-2.safetensors\"}}",
             long_name);
    if (from != NULL) {
        char *at = strstr(text, from);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        const char *rest = sw_textf("%s", at + strlen(from));
        snprintf(at, sizeof text - (size_t)(at - text), "%s%s", to, rest);
    }
    put_text(INDEX, text);
}

/* Of bytes low, low + 1: the formulas of bf16 and f16. */
static float half(int low, bool bf16)
{
    const int x = low | (low + 1) << 8, places = bf16 ? 7 : 10;
    const int power = x >> places, part = x & ((1 << places) - 1), bias = bf16 ? 127 : 15;
    return power == 0 ? ldexpf((float)part, 1 - bias - places)
                      : ldexpf((float)(part + (1 << places)), power - bias - places);
}

/* Takes all four, and reads them. */
static void has_all(const swi_folder *folder)
{
    float x[3];
    const swi_folder_tensor *t = swi_folder_tensor_of(folder, "b");
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    OK(swi_folder_numbers(t, 0, x, 3));
    for (int i = 0; i < 3; i++) /* after "a", of 12 bytes */
        CU_ASSERT_DOUBLE_EQUAL(x[i], half(12 + 2 * i, true), 0);
    t = swi_folder_tensor_of(folder, long_name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    OK(swi_folder_numbers(t, 1, x, 2));
    for (int i = 0; i < 2; i++)
        CU_ASSERT_DOUBLE_EQUAL(x[i], i == 0 ? half(2, false) : half(4, false), 0);
    t = swi_folder_tensor_of(folder, "c");
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    OK(swi_folder_numbers(t, 2, x, 1));
    const unsigned char last[] = {14, 15, 16, 17};
    CU_ASSERT_EQUAL(memcmp(x, last, 4), 0);
    failed_as(swi_folder_numbers(t, 2, x, 2), SW_INVALID, "'c' has 12 bytes");
}

SW_TEST("a file or shards are read by name")
{
    swi_folder *folder;
    swi_folder_tensor *t;
    const int64_t three[] = {3}, four[] = {4};
    two_shards(NULL, NULL);
    OK(swi_folder_open(&folder, dir_name()));
    CU_ASSERT(folder->n == 4 && folder->n_shards == 2);
    has_all(folder);
    OK(swi_folder_take(folder, "a", 1, three, "net", &t));
    OK(swi_folder_take(folder, "b", 1, three, "net", &t));
    OK(swi_folder_take(folder, "c", 1, three, "net", &t));
    failed_as(swi_folder_all_taken(folder, "net"), SW_FORMAT,
              sw_textf("model-2.safetensors: '%s', F16 (3), is unknown: net has no such tensor",
                       long_name));
    OK(swi_folder_take(folder, long_name, 1, three, "net", &t));
    OK(swi_folder_all_taken(folder, "net"));
    failed_as(swi_folder_take(folder, "d", 1, three, "net", &t), SW_FORMAT,
              "'d' is missing; net needs F32, F16 or BF16 (3)");
    failed_as(swi_folder_take(folder, "b", 1, four, "net", &t), SW_FORMAT,
              "model-1.safetensors: 'b' is BF16 (3); net needs F32, F16 or BF16 (4)");
    swi_folder_close(folder);

    /* One file comes before an index, and a link is followed. */
    SHARD("blob", "F32 whole", "I16 other");
    CU_ASSERT_EQUAL(symlink("blob", dir_file("model.safetensors")), 0);
    OK(swi_folder_open(&folder, dir_name()));
    CU_ASSERT(folder->n == 2 && swi_folder_tensor_of(folder, "a") == NULL);
    failed_as(swi_folder_take(folder, "other", 1, three, "net", &t), SW_FORMAT,
              "'other' is I16 (3); net needs");
    swi_folder_close(folder);
}

SW_TEST("what does not agree is refused by name")
{
    static const struct {
        const char *from, *to, *says;
        sw_status status;
    } bad[] = {
        {"\"c\": \"model-2", "\"c\": \"../model-2",
         "the shard of 'c' must be the name of a file "
         "in the folder (got '../model-2",
         SW_FORMAT},
        {"\"model-1.safetensors\"", "\"\"", "the shard of 'a' must be the name", SW_FORMAT},
        {"\"model-1.safetensors\"", "1", "'\"' was expected", SW_FORMAT},
        {"\"model-1.safetensors\"", "\"none.safetensors\"", "none.safetensors", SW_IO},
        {"\"c\": \"model-2", "\"c\": \"model-1",
         "'c' must be in model-1.safetensors, and is not", SW_FORMAT},
        {"\"c\":", "\"d\":", "'d' must be in model-2.safetensors, and is not", SW_FORMAT},
        {"\"b\":", "\"a\":", "'a' is there twice", SW_FORMAT},
        {", \"c\": \"model-2.safetensors\"", "", "has 'c', which is not in weight_map",
         SW_FORMAT},
        {"36", "37", "total_size is 37; its tensors have 36 bytes", SW_FORMAT},
        {"36", "-36", "total_size must be a number of bytes", SW_FORMAT},
        {"36", "36.5", "total_size must be a number of bytes", SW_FORMAT},
        {"weight_map", "weight_mop", "must have weight_map", SW_FORMAT},
        {"\"metadata\": {\"total_size\": 36, \"x\": [1]}", "\"weight_map\": {}",
         "weight_map twice", SW_FORMAT},
        {"}}", "}} x", "text after the end", SW_FORMAT},
        {"}}", "}", "'}' was expected", SW_FORMAT},
    };
    swi_folder *folder = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        two_shards(bad[i].from, bad[i].to);
        const heap_watch heap = heap_now();
        failed_as(swi_folder_open(&folder, dir_name()), bad[i].status, bad[i].says);
        CHECK_NO_LEAK(heap);
        CU_ASSERT_PTR_NULL(folder);
    }
    two_shards("36", "3.6e1"); /* older writers */
    OK(swi_folder_open(&folder, dir_name()));
    swi_folder_close(folder);
    two_shards(NULL, NULL);
    SHARD("model-2.safetensors", "F16 b", "F32 c");
    failed_as(swi_folder_open(&folder, dir_name()), SW_FORMAT, "'b' is there twice: in ");
    dir_new();
    failed_as(swi_folder_open(&folder, dir_name()), SW_IO,
              "has neither model.safetensors nor model.safetensors.index.json");
    put_text("pytorch_model.bin", "x");
    failed_as(swi_folder_open(&folder, dir_name()), SW_UNSUPPORTED, "save_pretrained(");
}

/* One to three bytes of the index or of a shard are others, or a piece is lost: the folder is
 * read as a whole, or refused by a name in it. */
SW_TEST("mutations of a folder do no harm")
{
    static const char *const names[] = {INDEX, "model-1.safetensors", "model-2.safetensors"};
    bytes sound[3];
    sw_dice dice = {52};
    int read = 0;
    const int n = sw_tests_full() ? 10000 : 1000;
    two_shards(NULL, NULL);
    for (int i = 0; i < 3; i++)
        sound[i] = file_get(dir_file(names[i]));
    for (int i = 0; i < n; i++) {
        const uint64_t which = sw_dice_below(&dice, 3);
        const bytes *from = &sound[which];
        bytes to = {sw_block(from->n), from->n};
        memcpy(to.at, from->at, from->n);
        for (uint64_t k = 1 + sw_dice_below(&dice, 3); k > 0; k--) {
            const size_t at = (size_t)sw_dice_below(&dice, to.n), room = to.n - at,
                         less = (size_t)sw_dice_below(&dice, room < 20 ? room : 20);
            if (sw_dice_below(&dice, 3) == 0) {
                memmove(to.at + at, to.at + at + less, room - less);
                to.n -= less;
            } else {
                to.at[at] = (unsigned char)(sw_dice_below(&dice, 2)
                                                ? sw_dice_next(&dice)
                                                : (uint64_t) "{}[]\",:/.-0a"[i % 13]);
            }
        }
        sw_file_put(dir_file(names[which]), to.at, to.n);
        swi_folder *folder = NULL;
        const heap_watch heap = heap_now();
        const sw_status status = swi_folder_open(&folder, dir_name());
        read += status == SW_OK;
        if (status == SW_OK)
            SW_CHECK(folder->n_shards == 2, "mutation %d", i);
        else if ((status != SW_FORMAT && status != SW_IO) ||
                 strstr(sw_last_error(), dir_name()) == NULL)
            SW_CHECK(false, "mutation %d: %s: %s", i, sw_status_name(status), sw_last_error());
        swi_folder_close(folder);
        CHECK_NO_LEAK(heap);
        sw_file_put(dir_file(names[which]), from->at, from->n);
    }
    sw_note("%d of %d are read", read, n);
    CU_ASSERT(read > n / 50 && read < n / 2);
}

/* ---- the hub cache ----------------------------------------------------------------------- */

#define HASH "0123456789abcdef0123456789abcdef01234567"

static void forget(void *name)
{
    unsetenv(name);
}

static void set(const char *name, const char *value)
{
    CU_ASSERT_EQUAL(setenv(name, value, 1), 0);
    sw_after(forget, (void *)(uintptr_t)name);
}

static void make_folders(const char *path)
{
    char part[600];
    for (const char *at = path; at != NULL; at = strchr(at + 1, '/')) {
        const char *end = strchr(at + 1, '/');
        snprintf(part, sizeof part, "%.*s", (int)(end != NULL ? end - path : 600), path);
        OK(sw_folder_make(dir_file(part)));
    }
}

static sw_status find(const char *name, const char *says, sw_status status)
{
    char path[SWI_FOLDER_PATH] = "as it was";
    const sw_status is = swi_folder_find(path, name);
    if (status != SW_OK)
        failed_as(is, status, says);
    else if (is != SW_OK || strcmp(path, says) != 0)
        SW_CHECK(false, "%s: %s, must be %s", name, is == SW_OK ? path : sw_last_error(), says);
    return is;
}

SW_TEST("a name of the hub is found in its cache")
{
    dir_new();
    make_folders("hub/models--Org--Net-1.5B/refs");
    make_folders("hub/models--Org--Net-1.5B/snapshots/" HASH);
    make_folders("hub/models--gpt2/refs");
    make_folders("hub/models--Org--Cut/refs");
    put_text("hub/models--Org--Net-1.5B/refs/main", HASH "\n");
    put_text("hub/models--gpt2/refs/main", HASH);
    put_text("hub/models--Org--Cut/refs/main", "../../x");
    const char *hub = sw_textf("%s", dir_file("hub")), *home = sw_textf("%s", dir_name()),
               *found = sw_textf("%s", dir_file("hub/models--Org--Net-1.5B/snapshots/" HASH));
    set("HF_HUB_CACHE", hub);
    find("Org/Net-1.5B", found, SW_OK);
    find("Org/Other",
         sw_textf("in the hub cache %s, and nothing is downloaded here: run 'hf "
                  "download Org/Other'",
                  hub),
         SW_IO);
    find("gpt2", "which refs/main names, is not there: run 'hf download gpt2'", SW_IO);
    find("Org/Cut", "refs/main: must be the hash of a snapshot", SW_FORMAT);
    static const char *const no_names[] = {"",     "/x", "../x", "a/b/c",
                                           "a/..", "a/", "a b",  ".x"};
    for (size_t i = 0; i < sizeof no_names / sizeof *no_names; i++)
        find(no_names[i], "must be a folder, or ORG/NAME of the hub", SW_IO);
    find(hub, hub, SW_OK); /* a folder is itself */
    set("HF_HUB_CACHE", "");
    set("HF_HOME", home);
    find("Org/Net-1.5B", found, SW_OK);
    set("HF_HOME", "/nowhere");
    find("Org/Net-1.5B", "in the hub cache /nowhere/hub", SW_IO);
}

/* ---- failures on the way ----------------------------------------------------------------- */

static sw_status open_it(void *unused)
{
    char path[SWI_FOLDER_PATH];
    swi_folder *folder;
    SW_TRY(swi_folder_find(path, dir_name()));
    SW_TRY(swi_folder_open(&folder, path));
    float x[3];
    const sw_status status = swi_folder_numbers(swi_folder_tensor_of(folder, "b"), 0, x, 3);
    swi_folder_close(folder);
    return status;
}

SW_TEST("every call can fail")
{
    two_shards(NULL, NULL);
    const uint64_t memory = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, open_it, NULL),
                   files = sw_sweep(SW_FAULT_FILE, SW_IO, open_it, NULL);
    sw_note("%llu sites of memory, %llu of files", (unsigned long long)memory,
            (unsigned long long)files);
    CU_ASSERT(memory >= 12 && files >= 10);
}
