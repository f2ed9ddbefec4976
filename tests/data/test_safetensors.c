/* Models to and from safetensors: the bytes of the file, what is refused and how, and that a
 * failure changes neither the model nor the old file. */
#include "runtime/base/checksum.h"
#include "runtime/exec/exec.h"
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("safetensors")

/* ---- models ------------------------------------------------------------------------------ */

static sw_exec *the_exec;

/* No file of a save that came to no end is left. */
static bool nothing_unfinished(void)
{
    bool clean = true;
    DIR *folder = opendir(sw_temp_path("."));
    CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
    for (const struct dirent *d; (d = readdir(folder)) != NULL;)
        clean &= strstr(d->d_name, ".tmp") == NULL;
    closedir(folder);
    return clean;
}

static sw_model *empty_model(void)
{
    the_exec = made_exec(NULL);
    return made_model("m");
}

static void make_ready(sw_model *model, uint64_t seed)
{
    OK(sw_model_ready(model, the_exec, seed));
}

/* Every rank that occurs, a buffer, and things that are not saved. */
static sw_model *mixed_model(uint64_t seed)
{
    sw_model *model = empty_model();
    sw_param_new(model, "conv.weight", SW_F32, SW_SHAPE(3, 2, 2, 2), "normal:1");
    sw_param_new(model, "conv.bias", SW_F32, SW_SHAPE(3), "normal:1");
    sw_buffer_new(model, "running", SW_F32, SW_SHAPE(5, 3), "normal:1");
    sw_param_new(model, "scalar", SW_F32, SW_SCALAR, "normal:1");
    sw_state_new(model, "hidden", SW_F32, SW_SHAPE(4));
    sw_knob_new(model, "rate", 0.5f);
    sw_optimizer *adam;
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    OK(sw_optimizer_create(&adam, model, &opts));
    make_ready(model, seed);
    return model;
}

/* {"a": (2), "b": (2, 3)} */
static sw_model *small_model(uint64_t seed)
{
    sw_model *model = empty_model();
    sw_param_new(model, "a", SW_F32, SW_SHAPE(2), "normal:1");
    sw_param_new(model, "b", SW_F32, SW_SHAPE(2, 3), "normal:1");
    make_ready(model, seed);
    return model;
}

/* All bytes of a model, to compare with later. */
static bytes state_of(const sw_model *model)
{
    bytes b = {NULL, 0};
    bytes_put(&b, model->base, model->bytes);
    return b;
}

static bool is_as(const sw_model *model, const bytes *state)
{
    return state->n == model->bytes && memcmp(state->at, model->base, state->n) == 0;
}

static bool same_saved(const sw_model *a, const sw_model *b)
{
    for (uint32_t i = 1; i < a->n_entries; i++) {
        const swi_entry *x = &a->entries[i], *y = &b->entries[i];
        if ((x->role == SWI_ROLE_PARAMETER || x->role == SWI_ROLE_BUFFER) &&
            memcmp(a->base + x->offset, b->base + y->offset, x->bytes) != 0)
            return false;
    }
    return true;
}

/* ---- files ------------------------------------------------------------------------------- */

/* A file of this header and `n` bytes 0, 1, 2, ... of data. */
static bytes file_of(const char *header, size_t n)
{
    bytes b = {NULL, 0};
    uint64_t length = strlen(header);
    for (int i = 0; i < 8; i++, length >>= 8)
        bytes_byte(&b, (int)(length & 255));
    bytes_put(&b, header, strlen(header));
    for (size_t i = 0; i < n; i++)
        bytes_byte(&b, (int)(i & 255));
    return b;
}

SW_TEST("saving and loading gives the same bits")
{
    sw_model *from = mixed_model(1), *to = mixed_model(2);
    const char *path = sw_temp_path("same");
    CU_ASSERT_FALSE(same_saved(from, to));
    bytes before = state_of(to);
    OK(sw_model_save(from, path));
    OK(sw_model_load(to, path));
    CU_ASSERT(same_saved(from, to));
    for (uint32_t i = 1; i < to->n_entries; i++) { /* all else is untouched */
        const swi_entry *entry = &to->entries[i];
        if (entry->role != SWI_ROLE_PARAMETER && entry->role != SWI_ROLE_BUFFER)
            CU_ASSERT_EQUAL(
                memcmp(to->base + entry->offset, before.at + entry->offset, entry->bytes), 0);
    }
    CU_ASSERT(nothing_unfinished());
}

SW_TEST("the file is what the format says")
{
    static const char tensors[] =
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]}}";
    sw_model *model = small_model(1);
    float a[2], b[6];
    OK(sw_param_read(sw_param_find(model, "a"), a, sizeof a));
    OK(sw_param_read(sw_param_find(model, "b"), b, sizeof b));
    const char *text =
        sw_textf("{\"__metadata__\":{\"format\":\"pt\",\"stepwell.header\":"
                 "\"0000000000000000\",\"stepwell.checksums\":\"%016llx%016llx\"},%s",
                 (unsigned long long)swi_checksum_of(a, sizeof a),
                 (unsigned long long)swi_checksum_of(b, sizeof b), tensors);
    OK(sw_model_save(model, sw_temp_path("format")));
    bytes file = file_get(sw_temp_path("format"));
    const size_t header = (strlen(text) + 8 + 63) / 64 * 64 - 8;
    CU_ASSERT_EQUAL_FATAL(file.n, 8 + header + 32);
    CU_ASSERT_EQUAL(file.at[0], header);
    for (int i = 1; i < 8; i++)
        CU_ASSERT_EQUAL(file.at[i], 0);
    char said[17] = {0}, is[17];
    unsigned char *digits =
        file.at + 8 + (strstr(text, "0000000000000000") - text); /* of the header itself */
    memcpy(said, digits, 16);
    memset(digits, '0', 16);
    snprintf(is, sizeof is, "%016llx",
             (unsigned long long)swi_checksum_of(file.at + 8, header));
    CU_ASSERT_STRING_EQUAL(said, is);
    CU_ASSERT_EQUAL(memcmp(file.at + 8, text, strlen(text)), 0);
    for (size_t i = 8 + strlen(text); i < 8 + header; i++)
        CU_ASSERT_EQUAL(file.at[i], ' ');
    CU_ASSERT_EQUAL(memcmp(file.at + 8 + header, a, sizeof a), 0);
    CU_ASSERT_EQUAL(memcmp(file.at + 16 + header, b, sizeof b), 0);
}

/* Wider types come first, so that each tensor is aligned to its type. */
SW_TEST("all types are saved aligned")
{
    static const sw_dtype types[] = {SW_U8, SW_BF16, SW_I32, SW_F64, SW_F32, SW_U8};
    sw_model *models[2];
    for (int m = 0; m < 2; m++) {
        models[m] = empty_model();
        for (int i = 0; i < 6; i++) {
            const char name[] = {(char)('p' + i), '\0'};
            CU_ASSERT(swi_model_entry(models[m], name, SWI_ROLE_BUFFER, types[i], SW_SHAPE(3),
                                      "zeros") != 0);
        }
        sw_param_new(models[m], "w", SW_F32, SW_SHAPE(1), "ones");
        OK(swi_model_layout(models[m]));
        make_ready(models[m], 1);
    }
    sw_dice dice = {5};
    for (uint32_t i = 1; i < models[0]->n_entries; i++)
        for (size_t k = 0; k < models[0]->entries[i].bytes; k++)
            models[0]->base[models[0]->entries[i].offset + k] =
                (unsigned char)sw_dice_next(&dice);
    const char *path = sw_temp_path("types");
    OK(sw_model_save(models[0], path));
    OK(sw_model_load(models[1], path));
    CU_ASSERT(same_saved(models[0], models[1]));
    bytes file = file_get(path);
    bytes_byte(&file, 0);
    static const char *const parts[] = {
        "\"s\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}",
        "\"r\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[24,36]}",
        "\"q\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[52,58]}",
        "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[61,64]}"};
    for (size_t i = 0; i < 4; i++)
        SW_CHECK(strstr((const char *)file.at + 8, parts[i]) != NULL, "%s", parts[i]);
}

SW_TEST("names are escaped, or refused")
{
    sw_model *models[2];
    for (int m = 0; m < 2; m++) {
        models[m] = empty_model();
        sw_param_new(models[m], "a\"b\\c\td/\x01", SW_F32, SW_SHAPE(1), "normal:1");
        sw_param_new(models[m],
                     "gr\xc3\xb6\xc3\x9f"
                     "e \xe2\x82\xac \xf0\x9f\x98\x80",
                     SW_F32, SW_SHAPE(2), "normal:1");
        make_ready(models[m], (uint64_t)m);
    }
    OK(sw_model_save(models[0], sw_temp_path("names")));
    OK(sw_model_load(models[1], sw_temp_path("names")));
    CU_ASSERT(same_saved(models[0], models[1]));
    static const char *const never[] = {"__metadata__", "\xff", "\xc0\x80", "\xed\xa0\x80",
                                        "\xc3"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        sw_model *model = empty_model();
        sw_param_new(model, never[i], SW_F32, SW_SHAPE(1), "zeros");
        make_ready(model, 1);
        failed_as(sw_model_save(model, sw_temp_path("never")), SW_INVALID,
                  "cannot hold the name");
        CU_ASSERT_FALSE(file_is_there(sw_temp_path("never")));
    }
}

/* Another order, spaces, escapes, metadata: what other writers may do. */
SW_TEST("files of other writers are read")
{
    static const char *const headers[] = {
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"a\":{\"data_offsets\":[24,32],\"shape\":[2],\"dtype\":\"F32\"}}",
        " \t\n{ \"\\u0061\" : { \"dtype\" : \"\\u00463\\u0032\" , \"shape\" : [ 2 ] ,\r\n "
        "\"data_offsets\" : [ 24 , 32 ] } , \"__metadata__\" : { \"k\\n\" : \"\\ud83d\\ude00 } "
        "]\" , \"l\" : \"\" } , \"b\" : "
        "{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]} } \n ",
        "{\"__metadata__\":{},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}"};
    for (size_t i = 0; i < 3; i++) {
        sw_model *model = small_model(i);
        bytes file = file_of(headers[i], 32);
        sw_file_put(sw_temp_path("foreign"), file.at, file.n);
        OK(sw_model_load(model, sw_temp_path("foreign")));
        unsigned char a[8], b[24];
        CU_ASSERT_EQUAL(sw_param_read(sw_param_find(model, "a"), a, 8), SW_OK);
        CU_ASSERT_EQUAL(sw_param_read(sw_param_find(model, "b"), b, 24), SW_OK);
        CU_ASSERT(a[0] == 24 && a[7] == 31 && b[0] == 0 && b[23] == 23);
    }
}

/* ---- bf16 -------------------------------------------------------------------------------- */

/* The nearest of the bf16 numbers on both sides, as the header says it. */
static uint16_t bf16_by_distance(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs((double)x);
    uint32_t low, high;
    float below, above;
    if (isnan(x))
        return 0x7fc0 | sign;
    if (isinf(x) || size < 0x1p-126)
        return sign | (isinf(x) ? 0x7f80 : 0);
    memcpy(&low, &x, sizeof low);
    low &= 0x7fff0000;
    high = low + 0x10000;
    memcpy(&below, &low, sizeof below);
    memcpy(&above, &high, sizeof above);
    const double down = size - (double)below;
    const double up = (isinf(above) ? 0x1p128 : (double)above) - size;
    const bool rises = up < down || (up == down && (low >> 16 & 1) == 1);
    return sign | (uint16_t)((rises ? high : low) >> 16);
}

/* A model of n numbers, and a buffer that stays as it is. */
static sw_model *model_of(const float *numbers, int64_t n)
{
    sw_model *model = empty_model();
    const sw_param w = sw_param_new(model, "w", SW_F32, SW_SHAPE(n), "zeros");
    sw_buffer_new(model, "running", SW_F32, SW_SHAPE(7), "normal:1");
    make_ready(model, 1);
    if (numbers != NULL)
        OK(sw_param_write(w, numbers, (size_t)n * sizeof *numbers));
    return model;
}

static bool is_file(const char *path, const bytes *as)
{
    const bytes file = file_get(path);
    return file.n == as->n && memcmp(file.at, as->at, file.n) == 0;
}

static uint32_t bits_at(const void *numbers, size_t i)
{
    uint32_t bits;
    memcpy(&bits, (const char *)numbers + i * sizeof bits, sizeof bits);
    return bits;
}

/* All signs, exponents and first places, each with what decides where it is rounded to. */
SW_TEST("every kind of number is rounded once, and widened exactly")
{
    static const uint16_t ends[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { N = 6 << 16 };
    static float numbers[N], got[N];
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t bits = i / 6 << 16 | ends[i % 6];
        memcpy(&numbers[i], &bits, sizeof bits);
    }
    sw_model *from = model_of(numbers, N), *to = model_of(NULL, N);
    const sw_param w = sw_param_find(to, "w"), running = sw_param_find(to, "running");
    const char *path = sw_temp_path("halves");
    bytes before = state_of(from);
    OK(sw_model_save_as(from, path, SW_BF16));
    CU_ASSERT(is_as(from, &before));
    OK(sw_model_load(to, path));
    const bytes file = file_get(path);
    CU_ASSERT(file.n > 2 * N && file.n < 2 * N + 1024);
    OK(sw_param_read(w, got, sizeof got));
    size_t wrong = 0;
    for (uint32_t i = 0; i < N; i++)
        wrong += bits_at(got, i) != (uint32_t)bf16_by_distance(numbers[i]) << 16;
    CU_ASSERT_EQUAL(wrong, 0);
    OK(sw_param_read(running, got, 28));
    OK(sw_param_read(sw_param_find(from, "running"), numbers, 28));
    CU_ASSERT_EQUAL(memcmp(got, numbers, 28), 0);
    OK(sw_model_save_as(to, sw_temp_path("again"), SW_BF16)); /* what is rounded stays */
    CU_ASSERT(is_file(sw_temp_path("again"), &file));
    OK(sw_model_save_as(from, path, SW_F32));
    OK(sw_model_save(from, sw_temp_path("again")));
    const bytes whole = file_get(path);
    CU_ASSERT(is_file(sw_temp_path("again"), &whole));
}

/* Every f16, by the formula of IEEE 754. */
SW_TEST("f16 is widened exactly")
{
    enum { N = 1 << 16 };
    static float got[N];
    const char *header =
        sw_textf("{\"w\":{\"dtype\":\"F16\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
                 "\"running\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[%d,%d]}}",
                 N, 2 * N, 2 * N, 2 * N + 28);
    sw_model *model = model_of(NULL, N);
    bytes file = file_of(header, 2 * N + 28);
    for (uint32_t i = 0; i < N; i++) {
        unsigned char *at = file.at + file.n - 28 - 2 * N + 2 * i;
        at[0] = (unsigned char)i;
        at[1] = (unsigned char)(i >> 8);
    }
    sw_file_put(sw_temp_path("foreign"), file.at, file.n);
    OK(sw_model_load(model, sw_temp_path("foreign")));
    OK(sw_param_read(sw_param_find(model, "w"), got, sizeof got));
    size_t wrong = 0;
    for (uint32_t i = 0; i < N; i++) {
        const int power = (int)(i >> 10 & 31), part = (int)(i & 1023);
        const double size = power == 0   ? ldexp(part, -24)
                            : power < 31 ? ldexp(1024 + part, power - 25)
                                         : (double)INFINITY;
        const bool is = power == 31 && part > 0 ? isnan(got[i])
                                                : (double)got[i] == (i >> 15 ? -size : size);
        wrong += !is || (signbit(got[i]) != 0) != (i >> 15 != 0);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

SW_TEST("a bf16 file of another writer is loaded, and needs the same shape")
{
    static const char header[] =
        "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}";
    sw_model *model = small_model(3);
    bytes file = file_of(header, 20);
    sw_file_put(sw_temp_path("foreign"), file.at, file.n);
    OK(sw_model_load(model, sw_temp_path("foreign")));
    float a[2], b[6];
    OK(sw_param_read(sw_param_find(model, "a"), a, sizeof a));
    OK(sw_param_read(sw_param_find(model, "b"), b, sizeof b));
    for (uint32_t i = 0; i < 6; i++) /* bytes 2 i and 2 i + 1 */
        CU_ASSERT_EQUAL(bits_at(b, i), (2 * i) << 16 | (2 * i + 1) << 24);
    CU_ASSERT(bits_at(a, 0) == 0x0f0e0d0c && bits_at(a, 1) == 0x13121110);
    char *text = sw_textf("%s", header);
    memcpy(strstr(text, "[2,3]"), "[3,2]", 5);
    file = file_of(text, 20);
    sw_file_put(sw_temp_path("foreign"), file.at, file.n);
    bytes before = state_of(model);
    failed_as(sw_model_load(model, sw_temp_path("foreign")), SW_FORMAT,
              "'b' is BF16 (3, 2); model m needs F32 (2, 3)");
    CU_ASSERT(is_as(model, &before));
}

SW_TEST("parameters are saved as f32 or bf16 alone")
{
    sw_model *model = small_model(1);
    const char *path = sw_temp_path("never");
    failed_as(sw_model_save_as(model, path, SW_U8), SW_UNSUPPORTED, "SW_F32 or SW_BF16");
    failed_as(sw_model_save_as(model, path, (sw_dtype)99), SW_UNSUPPORTED, "got 99");
    failed_as(sw_model_save_as(model, NULL, SW_BF16), SW_INVALID, "sw_model_save_as: path");
    failed_as(sw_model_save_as(model, "w.npz", SW_BF16), SW_UNSUPPORTED, "w.npz");
    CU_ASSERT_FALSE(file_is_there(path));
}

/* ---- what is refused --------------------------------------------------------------------- */

/* Loading it into `model` fails, says so, and changes nothing. */
static void refused(sw_model *model, const bytes *file, const char *reason)
{
    const char *path = sw_temp_path("refused");
    bytes before = state_of(model);
    const heap_watch heap = heap_now();
    sw_file_put(path, file->at, file->n);
    failed_as(sw_model_load(model, path), SW_FORMAT, path);
    SW_CHECK(strstr(sw_last_error(), reason) != NULL, "'%s', must have '%s'", sw_last_error(),
             reason);
    CU_ASSERT(is_as(model, &before));
    CHECK_NO_LEAK(heap);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define B "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]}"
#define A_IS(dtype, shape, offsets)                                                            \
    "{" B ",\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

SW_TEST("differences are named")
{
    static const struct {
        const char *header;
        size_t bytes;
        const char *reason;
    } cases[] = {
        {"{" A "}", 8, "'b' is missing"},
        {"{}", 0, "'a' is missing"},
        {"{" A "," B ",\"c\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[32,36]}}", 36,
         "'c', F32 (), is not in model m"},
        {"{" A "," B "," A "}", 32, "'a' is there twice"},
        {A_IS("\"F64\"", "[1]", "[0,8]"), 32, "'a' is F64 (1); model m needs F32 (2)"},
        {A_IS("\"F16\"", "[4]", "[0,8]"), 32, "F16 (4)"},
        {A_IS("\"I32\"", "[2]", "[0,8]"), 32, "'a' is I32 (2); model m needs F32 (2)"},
        {A_IS("\"F32\"", "[3]", "[0,8]"), 32, "'a' lies at 0 to 8; it has 12 bytes"},
        {A_IS("\"F4\"", "[3]", "[0,8]"), 32, "'a' is F4 (3); model m needs F32 (2)"},
        {A_IS("\"F32\"", "[4294967296,4294967296,4294967296]", "[0,8]"), 32,
         "'a' has a shape of too many elements"},
        {A_IS("\"F32\"", "[0,4294967296,4294967296,4294967296]", "[0,8]"), 32,
         "'a' lies at 0 to 8; it has 0 bytes"},
        {A_IS("\"F32\"", "[2,1]", "[0,8]"), 32, "F32 (2, 1)"},
        {A_IS("\"F64\"", "[]", "[0,8]"), 32, "F64 ()"},
        {A_IS("\"F32\"", "[1,1,1,1,1,1,1,1,1,2]", "[0,8]"), 32,
         "F32 (1, 1, 1, 1, 1, 1, 1, 1, ...)"},
        {A_IS("\"F32\"", "[2]", "[0,4]"), 32,
         "'a' lies at 0 to 4; it has 8 bytes, the file's data 32"},
        {A_IS("\"F32\"", "[2]", "[8,0]"), 32, "'a' lies at 8 to 0"},
        {A_IS("\"F32\"", "[2]", "[32,40]"), 32, "'a' lies at 32 to 40"},
        {A_IS("\"F32\"", "[2]", "[9223372036854775800,9223372036854775807]"), 32,
         "'a' lies at"},
        {A_IS("\"F32\"", "[2]", "[4,12]"), 32, "'a' must begin at 0 (got 4): a hole"},
        {A_IS("\"F32\"", "[2]", "[8,16]"), 32, "0 (got 8): a hole"},
        {A_IS("\"F32\"", "[2]", "[32,40]"), 40, "'b' must begin at 0 (got 8): a hole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
         32, "'a' must begin at 24 (got 4): tensors overlap"},
        {"{" A "," B "}", 33, "1 bytes after its last tensor"},
    };
    sw_model *model = small_model(3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes file = file_of(cases[i].header, cases[i].bytes);
        refused(model, &file, cases[i].reason);
    }
}

SW_TEST("damaged headers are refused")
{
    static const char *const cases[][2] = {
        {"", "'{' was expected"},
        {"[]", "'{' was expected"},
        {"{", "'\"' was expected"},
        {"{" A "," B "} x", "text after the header's end"},
        {"{" A "," B ",}", "'\"' was expected"},
        {"{\"__metadata__\":{},\"__metadata__\":{}," A "," B "}", "__metadata__ twice"},
        {"{\"__metadata__\":{\"k\":1}," A "," B "}", "'\"' was expected"},
        {"{\"a\":{}}", "without dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}," B "}",
         "without dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}," B "}", "a member of a tensor twice"},
        {"{\"a\":{\"type\":\"F32\"}," B "}", "an unknown member"},
        {"{\"a", "a string without an end"},
        {"{\"a\\", "unknown escape"},
        {"{\"a\\x\"", "unknown escape"},
        {"{\"a\\u12g4\"", "four hexadecimal digits"},
        {"{\"a\\u12", "four hexadecimal digits"},
        {"{\"\\udc00\"", "surrogate"},
        {"{\"\\ud800\"", "surrogate"},
        {"{\"\\ud800\\u0041\"", "surrogate"},
        {"{\"a\nb\":", "control character"},
        {A_IS("\"F32\"", "[-2]", "[0,8]"), "a number of 0 or more was expected"},
        {A_IS("\"F32\"", "[02]", "[0,8]"), "begins with 0"},
        {A_IS("\"F32\"", "[2.0]", "[0,8]"), "a whole number"},
        {A_IS("\"F32\"", "[2e0]", "[0,8]"), "a whole number"},
        {A_IS("\"F32\"", "[9223372036854775808]", "[0,8]"), "too large"},
        {A_IS("\"F32\"", "[2 3]", "[0,8]"), "']' was expected"},
        {A_IS("\"F32\"", "[2]", "[0]"), "',' was expected"},
        {A_IS("\"F32\"", "[2]", "[0,8,9]"), "']' was expected"},
        {A_IS("32", "[2]", "[0,8]"), "'\"' was expected"},
        {A_IS("\"F32\\u0000\"", "[2]", "[0,8]"), "zero character"},
        {A_IS("\"F32\"", "null", "[0,8]"), "'[' was expected"},
    };
    sw_model *model = small_model(3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes file = file_of(cases[i][0], 32);
        refused(model, &file, cases[i][1]);
    }
}

SW_TEST("cut files are refused at every byte")
{
    sw_model *model = small_model(3);
    OK(sw_model_save(model, sw_temp_path("whole")));
    bytes file = file_get(sw_temp_path("whole"));
    for (size_t n = 0; n < file.n; n++) {
        const bytes cut = {file.at, n};
        refused(model, &cut,
                n < 8             ? "not a safetensors file"
                : n < file.n - 32 ? "bytes is announced"
                                  : "' lies at ");
    }
}

/* A file of another program is called by its kind, with the way to the right one. */
SW_TEST("files of other programs are named")
{
    static const struct {
        const char *first, *says;
        size_t n;
    } files[] = {
#define FILE_OF(first, says) {first, says, sizeof first - 1}
#define ZIP_HEAD "PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        FILE_OF(ZIP_HEAD "\x0c\0\x16\0new/data.pklFB",
                "a zip file that torch.save wrote; in "
                "Python, safetensors.torch.save_file(torch.load(FILE"),
        FILE_OF(ZIP_HEAD "\x05\0\0\0a.npy\x93NUM", "NumPy arrays (.npz)"),
        FILE_OF(ZIP_HEAD "\x05\0\0\0a.txthello", "it is a zip file; one that torch.save"),
        FILE_OF("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                "a pickle that torch.save wrote; in Python"),
        FILE_OF("\x80\x04\x95\x0a\0\0\0\0\0\0\0}", "it is a Python pickle"),
        FILE_OF("\x93NUMPY\x01\0v\0", "it is a NumPy array (.npy)"),
        FILE_OF("GGUF\3\0\0\0\1\0\0\0", "it is a GGUF file"),
        FILE_OF("\x89HDF\r\n\x1a\n\0", "it is an HDF5 file"),
        FILE_OF("\x1f\x8b\x08\0\0\0\0\0\1", "it is compressed by gzip"),
        FILE_OF("{\"type\":\"header\",\"format\"", "it is a profile of stepwell"),
        FILE_OF("{\"format\":\"stepwell state 2\"", "'stepwell evolve --resume' goes on"),
        FILE_OF("PK\3\4\0\0\0\1", "not a safetensors file, or cut: a header of"),
    };
    sw_model *model = small_model(3);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const bytes file = {(unsigned char *)(uintptr_t)files[i].first, files[i].n};
        refused(model, &file, files[i].says);
        for (size_t n = 8; n < file.n;
             n++) { /* cut anywhere: refused, and nothing read past it */
            const bytes cut = {file.at, n};
            refused(model, &cut, "safetensors file");
        }
    }
}

/* A length that promises much is held against the file before any memory is taken. */
SW_TEST("hostile lengths take no memory")
{
    sw_model *model = small_model(3);
    sw_heap_stats before, after;
    sw_heap_read(SW_HEAP_FILES, &before);
    for (int i = 1; i < 8; i++) {
        bytes file = file_of("{" A "," B "}", 32);
        file.at[i] = 0xff;
        refused(model, &file, "is announced");
    }
    sw_heap_read(SW_HEAP_FILES, &after);
    CU_ASSERT(after.peak_bytes == before.peak_bytes || after.peak_bytes < 4096);
    bytes file = {sw_block(((size_t)17 << 20) + 8), ((size_t)17 << 20) + 8};
    file.at[2] = 0x10;
    file.at[3] = 1; /* 17 MiB */
    refused(model, &file, "at most 16,777,216 bytes");
}

/* Whatever one byte of the file becomes: with checksums it is refused, and without, in the
 * header, refused or loaded as a whole. */
SW_TEST("flipped bytes do no harm")
{
    sw_model *model = small_model(3);
    OK(sw_model_save(model, sw_temp_path("flip")));
    bytes sound = file_get(sw_temp_path("flip")), before = state_of(model);
    bytes plain = file_of("{\"__metadata__\":{\"format\":\"pt\"}," A "," B "}   ", 0);
    bytes_put(&plain, sound.at + sound.n - 32, 32);
    sw_dice dice = {11};
    int loaded = 0;
    const int n = sw_tests_full() ? 20000 : 1500;
    for (int i = 0; i < n; i++) {
        bytes *file = i & 1 ? &plain : &sound;
        const size_t at = (size_t)sw_dice_below(&dice, file->n - (file == &plain ? 32 : 0));
        const unsigned char old = file->at[at];
        file->at[at] = (unsigned char)sw_dice_next(&dice);
        sw_file_put(sw_temp_path("flip"), file->at, file->n);
        const sw_status status = sw_model_load(model, sw_temp_path("flip"));
        const bool may = file == &plain || file->at[at] == old;
        loaded += status == SW_OK && file->at[at] != old;
        SW_CHECK((status == SW_FORMAT || (may && status == SW_OK)) && is_as(model, &before),
                 "byte %zu is 0x%02x: %s", at, file->at[at], sw_last_error());
        file->at[at] = old;
    }
    CU_ASSERT(loaded > 0 && loaded < n / 2); /* spaces and metadata may change */
}

SW_TEST("models that are not ready, damaged or busy")
{
    sw_model *model = empty_model(), *whole = small_model(1);
    sw_param_new(model, "a", SW_F32, SW_SHAPE(2), "zeros");
    failed_as(sw_model_save(model, sw_temp_path("x")), SW_INVALID, "must be ready");
    failed_as(sw_model_load(model, sw_temp_path("x")), SW_INVALID, "must be ready");
    failed_as(sw_model_save(whole, ""), SW_INVALID, "path");
    failed_as(sw_model_load(whole, sw_temp_path("nothing there")), SW_IO, "No such file");
    OK(sw_model_save(whole, sw_temp_path("whole")));
    whole->damaged = true;
    failed_as(sw_model_save(whole, sw_temp_path("whole")), SW_STALE, "restore it");
    failed_as(sw_model_load(whole, sw_temp_path("nothing there")), SW_IO, "No such file");
    CU_ASSERT(whole->damaged);
    OK(sw_model_load(whole, sw_temp_path("whole")));
    CU_ASSERT_FALSE(whole->damaged);
    whole->busy = 1;
    failed_as(sw_model_save(whole, sw_temp_path("whole")), SW_BUSY, "another thread");
    failed_as(sw_model_load(whole, sw_temp_path("whole")), SW_BUSY, "another thread");
    whole->busy = 0;
}

/* ---- failures on the way ----------------------------------------------------------------- */

SW_TEST("a folder is not replaced")
{
    sw_model *model = small_model(1);
    const char *path = sw_temp_path("folder");
    if (mkdir(path, 0777) != 0)
        perror(path);
    failed_as(sw_model_save(model, path), SW_IO, "folder");
    CU_ASSERT(nothing_unfinished());
    failed_as(sw_model_save(model, sw_temp_path("no such/file")), SW_IO, "No such file");
}

/* A target that is not a regular file is written, not replaced. */
SW_TEST("a link stays a link")
{
    sw_model *model = small_model(1);
    struct stat now;
    const char *target = sw_temp_path("target");
    OK(sw_model_save(small_model(2), target));
    const char *link = sw_temp_path("link");
    (void)unlink(link);
    CU_ASSERT_EQUAL_FATAL(symlink("target", link), 0);
    OK(sw_model_save(model, link));
    CU_ASSERT_EQUAL(lstat(link, &now), 0);
    CU_ASSERT(S_ISLNK(now.st_mode));
    sw_model *back = small_model(3);
    OK(sw_model_load(back, sw_temp_path("target")));
    CU_ASSERT(same_saved(model, back));
    failed_as(sw_model_save(model, "/dev/full"), SW_IO, "/dev/full");
    CU_ASSERT_EQUAL(lstat("/dev/full", &now), 0);
    CU_ASSERT(S_ISCHR(now.st_mode));
}

/* Each call fails once: the old file stays or the new one is there, no temporary one is left,
 * and then saving works. No save fails for calls that it can do without (random numbers, locks,
 * sweeping, the folder's sync). Returns the number of sites that fail one. */
static uint64_t sweep_save(sw_fault_kind kind, sw_status expected)
{
    sw_model *old = small_model(1), *model = small_model(2);
    const char *path = sw_temp_path("sweep");
    sw_sites sites = {kind, .status = expected};
    while (sw_sites_next(&sites)) {
        OK(sw_model_save(old, path));
        bytes before = file_get(path);
        const sw_status status = SW_AT_SITE(&sites, sw_model_save(model, path));
        CU_ASSERT(nothing_unfinished());
        bytes now = file_get(path);
        CU_ASSERT_EQUAL(now.n == before.n && memcmp(now.at, before.at, now.n) == 0,
                        status != SW_OK);
    }
    OK(sw_model_load(old, path));
    CU_ASSERT(same_saved(old, model));
    return sites.failed;
}

/* Into a damaged model, or one that was only drawn. */
static uint64_t sweep_load(sw_fault_kind kind, sw_status expected, sw_dtype type, bool drawn)
{
    sw_model *from = mixed_model(1), *to = mixed_model(2);
    const char *path = sw_temp_path("sweep");
    OK(sw_model_save_as(from, path, type));
    if (type == SW_BF16)
        OK(sw_model_load(from, path));
    bytes before = state_of(to);
    CU_ASSERT(to->drawn);
    to->damaged = !drawn;
    sw_sites sites = {kind, .status = expected, .exact = true};
    while (sw_sites_next(&sites))
        if (SW_AT_SITE(&sites, sw_model_load(to, path)) != SW_OK)
            CU_ASSERT(is_as(to, &before) && to->damaged == !drawn);
    CU_ASSERT(same_saved(from, to) && !to->damaged);
    return sites.failed;
}

SW_TEST("every call can fail")
{
    const uint64_t files = sweep_save(SW_FAULT_FILE, SW_IO),
                   memory = sweep_save(SW_FAULT_MEMORY, SW_NOMEM);
    CU_ASSERT(files == 10 && memory == 9);
    for (int i = 0; i < 4; i++) {
        const sw_dtype type = i & 1 ? SW_BF16 : SW_F32;
        const uint64_t reads = sweep_load(SW_FAULT_FILE, SW_IO, type, i >= 2),
                       blocks = sweep_load(SW_FAULT_MEMORY, SW_NOMEM, type, i >= 2);
        CU_ASSERT(reads == 9 && blocks == 15);
    }
}

/* When even the removal fails, the message says what is left. */
SW_TEST("what is left is named")
{
    sw_model *model = small_model(1);
    const char *path = sw_temp_path("after");
    sw_fault_unnamed(false); /* else there is a name, for a moment, when all is written */
    sw_fault_plan(SW_FAULT_FILE, 4, SW_FAULT_FROM);
    const sw_status status = sw_model_save(model, path);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    sw_fault_unnamed(true);
    failed_as(status, SW_IO, ".tmp is left");
    const char *name = strstr(sw_last_error(), "/after.");
    for (const char *next = name; next != NULL; next = strstr(next + 1, "/after."))
        name = next;
    CU_ASSERT_PTR_NOT_NULL_FATAL(name);
    char left[256];
    snprintf(left, sizeof left, "%.*s", (int)(strstr(name, " is left") - name - 1), name + 1);
    CU_ASSERT_EQUAL(remove(sw_temp_path(left)), 0);
    OK(sw_model_save(model, path));
    CU_ASSERT(nothing_unfinished());
}

/* A link that stands where a save would write first is not followed, and not in its way. */
SW_TEST("other files stay")
{
    sw_model *model = small_model(1);
    const char *path = sw_temp_path("beside");
    char victim[1024];
    snprintf(victim, sizeof victim, "%s", sw_temp_path("victim"));
    FILE *file = fopen(victim, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT(fputs("mine", file) >= 0 && fclose(file) == 0);
    CU_ASSERT_EQUAL(symlink(victim, sw_temp_path("beside.00000000000000ab.tmp")), 0);
    sw_fault_random(0xab, 1000); /* all names that could come next */
    failed_as(sw_model_save(model, path), SW_IO, "File exists");
    CU_ASSERT_FALSE(file_is_there(path));
    sw_fault_random(0xab, 3);
    OK(sw_model_save(model, path));
    sw_fault_random(0, 0);
    bytes kept = file_get(victim);
    CU_ASSERT(kept.n == 4 && memcmp(kept.at, "mine", 4) == 0);
    CU_ASSERT_EQUAL(unlink(sw_temp_path("beside.00000000000000ab.tmp")), 0);
}
