/* The checksum of a data set: what changes it and what does not. */
#include "runtime/data/data_internal.h"
#include "tests/data/data_files.h"

SW_TESTS("dataset_hash")

static uint64_t hash_of(const sw_dataset *set)
{
    uint64_t hash = 0;
    CU_ASSERT_EQUAL(sw_dataset_hash(set, &hash), SW_OK);
    return hash;
}

/* Memory of all fields, one after the other in *at and *n. */
static int blocks_of(const sw_dataset *set, unsigned char **at, size_t *n)
{
    int blocks = 0;
    for (int f = 0; f < set->n_fields; f++)
        if (set->field[f].block != NULL) {
            at[blocks] = set->field[f].block;
            n[blocks++] = set->field[f].bytes;
        }
    return blocks;
}

/* How many bytes of the memory, changed alone, change the hash; changed back, it is the old
 * one. */
static size_t bytes_that_count(const sw_dataset *set)
{
    unsigned char *at[SWI_MAX_FIELDS];
    size_t n[SWI_MAX_FIELDS], counted = 0;
    const uint64_t hash = hash_of(set);
    const int blocks = blocks_of(set, at, n);
    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < n[b]; i++) {
            const unsigned char bit = (unsigned char)(1u << i % 8);
            at[b][i] ^= bit;
            counted += hash_of(set) != hash;
            at[b][i] ^= bit;
        }
    CU_ASSERT_EQUAL(hash_of(set), hash);
    return counted;
}

static sw_dataset *text_of(size_t n, int64_t context)
{
    sw_dataset *set = NULL;
    unsigned char text[256];
    const char *path = sw_temp_path("hashed.txt");
    const sw_text_opts opts = SW_OPTS(sw_text_opts, .context = context);
    CU_ASSERT_FATAL(n <= sizeof text);
    for (size_t i = 0; i < n; i++)
        text[i] = (unsigned char)(i * 7);
    sw_file_put(path, text, n);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_text(&set, NULL, path, &opts), SW_OK);
    AFTER(sw_dataset_destroy, set);
    return set;
}

/* In a text too: both fields share its memory, and its windows may begin at any place. */
SW_TEST("every byte of every field counts")
{
    sw_dataset *digits, *vectors;
    CU_ASSERT_EQUAL_FATAL(sw_dataset_synthetic(&digits, 5, 1), SW_OK);
    AFTER(sw_dataset_destroy, digits);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_vectors(&vectors, 9, 3, 1), SW_OK);
    AFTER(sw_dataset_destroy, vectors);
    CU_ASSERT_EQUAL(bytes_that_count(digits), 5 * 785);
    CU_ASSERT_EQUAL(bytes_that_count(vectors),
                    vectors->field[0].bytes + vectors->field[1].bytes);
    CU_ASSERT_EQUAL(bytes_that_count(text_of(96, 8)), 96);
    CU_ASSERT_EQUAL(bytes_that_count(text_of(9, 8)), 9);
}

/* 11 windows of 8 tokens that begin at one of 8 places, and the token after them. */
SW_TEST("bytes that no window reaches do not count")
{
    CU_ASSERT_EQUAL(bytes_that_count(text_of(100, 8)), 96);
    CU_ASSERT_NOT_EQUAL(hash_of(text_of(100, 8)), hash_of(text_of(100, 4)));
}

/* A data set of n zeros by field; the numbers differ and the bytes do not. */
typedef struct {
    int64_t n, n_classes;
    uint32_t places;
    int n_fields;
    struct {
        sw_dtype dtype;
        sw_shape shape;
    } field[2];
} form;

static sw_dataset *zeros_of(const form *f)
{
    sw_dataset *set = NULL;
    CU_ASSERT_EQUAL_FATAL(swi_dataset_new(&set, "zeros", f->n + (f->places > 1)), SW_OK);
    AFTER(sw_dataset_destroy, set);
    for (int i = 0; i < f->n_fields; i++)
        CU_ASSERT_EQUAL_FATAL(swi_dataset_field(set, f->field[i].dtype, f->field[i].shape),
                              SW_OK);
    set->n = f->n;
    set->n_classes = f->n_classes;
    set->places = f->places;
    return set;
}

SW_TEST("types, shapes and numbers count")
{
    static const form forms[] = {
        {6, 10, 1, 1, {{SW_U8, {1, {4}}}}},
        {6, 11, 1, 1, {{SW_U8, {1, {4}}}}},
        {6, 10, 3, 1, {{SW_U8, {1, {4}}}}},
        {3, 10, 1, 1, {{SW_U8, {1, {8}}}}},
        {12, 10, 1, 1, {{SW_U8, {1, {2}}}}},
        {6, 10, 1, 1, {{SW_U8, {2, {4, 1}}}}},
        {6, 10, 1, 1, {{SW_U8, {2, {1, 4}}}}},
        {6, 10, 1, 1, {{SW_U8, {2, {2, 2}}}}},
        {6, 10, 1, 1, {{SW_F32, {1, {1}}}}},
        {6, 10, 1, 2, {{SW_U8, {1, {2}}}, {SW_U8, {1, {2}}}}},
        {6, 10, 1, 2, {{SW_U8, {1, {1}}}, {SW_U8, {1, {3}}}}},
        {6, 10, 1, 2, {{SW_U8, {1, {3}}}, {SW_U8, {1, {1}}}}},
    };
    enum { N = sizeof forms / sizeof *forms };
    uint64_t hash[N];
    for (int i = 0; i < N; i++) {
        hash[i] = hash_of(zeros_of(&forms[i]));
        CU_ASSERT_EQUAL(hash[i], hash_of(zeros_of(&forms[i])));
        for (int k = 0; k < i; k++)
            SW_CHECK(hash[i] != hash[k], "forms %d and %d have one hash", i, k);
    }
}

SW_TEST("samples in another order are others")
{
    sw_dataset *set;
    CU_ASSERT_EQUAL_FATAL(sw_dataset_vectors(&set, 4, 3, 1), SW_OK);
    AFTER(sw_dataset_destroy, set);
    unsigned char *x = set->field[0].data, kept[64];
    const size_t each = set->field[0].sample_bytes;
    const uint64_t hash = hash_of(set);
    CU_ASSERT_FATAL(each <= sizeof kept && memcmp(x, x + each, each) != 0);
    memcpy(kept, x, each);
    memmove(x, x + each, each);
    memcpy(x + each, kept, each);
    CU_ASSERT_NOT_EQUAL(hash_of(set), hash);
}

/* The hash covers the samples, and not the file that they come from. */
static uint64_t hash_of_folder(void)
{
    sw_dataset *set = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_dataset_idx(&set, dir_name(), "train"), SW_OK);
    const uint64_t hash = hash_of(set);
    sw_dataset_destroy(set);
    return hash;
}

static void put_images(bool compressed, int last)
{
    const uint32_t dims[3] = {3, 28, 28};
    static const unsigned char labels[3] = {1, 2, 3};
    unsigned char pixels[3 * 784];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 31 >> 3);
    pixels[sizeof pixels - 1] = (unsigned char)last;
    bytes plain = idx_make(3, dims, pixels, sizeof pixels), l = idx_make(1, dims, labels, 3);
    dir_new();
    if (compressed)
        dir_put("train-images-idx3-ubyte.gz", zipped(plain));
    else
        dir_put("train-images-idx3-ubyte", plain);
    dir_put("train-labels-idx1-ubyte", l);
}

SW_TEST("plain and compressed files have one hash")
{
    put_images(false, 7);
    const uint64_t hash = hash_of_folder();
    CU_ASSERT_EQUAL(hash_of_folder(), hash);
    put_images(false, 7); /* of another name */
    CU_ASSERT_EQUAL(hash_of_folder(), hash);
    put_images(false, 8);
    CU_ASSERT_NOT_EQUAL(hash_of_folder(), hash);
#if SW_HAVE_ZLIB
    put_images(true, 7);
    CU_ASSERT_EQUAL(hash_of_folder(), hash);
    put_images(true, 8);
    CU_ASSERT_NOT_EQUAL(hash_of_folder(), hash);
#endif
}

SW_TEST("shapes alone have no hash")
{
    const sw_idx_opts opts = SW_OPTS(sw_idx_opts, .shapes_only = 1);
    uint64_t hash = 5;
    sw_dataset *set = NULL;
    put_images(false, 7);
    CU_ASSERT_EQUAL_FATAL(sw_dataset_idx_with(&set, dir_name(), "train", &opts), SW_OK);
    AFTER(sw_dataset_destroy, set);
    failed_as(sw_dataset_hash(set, &hash), SW_INVALID, "shapes alone");
    CU_ASSERT_EQUAL(hash, 5);
}
