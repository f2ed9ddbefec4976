/* Two parts of a data set: every sample is in one of them, once, with its label. */
#include "runtime/data/data_internal.h"
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("split")

static void split(sw_dataset *part[2], const sw_dataset *of, int64_t n, uint64_t seed)
{
    part[0] = part[1] = NULL;
    OK(sw_dataset_split(&part[0], &part[1], of, n, seed));
    CU_ASSERT_FATAL(part[0] != NULL && part[1] != NULL);
    AFTER(sw_dataset_destroy, part[0]);
    AFTER(sw_dataset_destroy, part[1]);
}

/* Is sample i of `a` sample k of `b`, in all fields? */
static bool same_sample(const sw_dataset *a, int64_t i, const sw_dataset *b, int64_t k)
{
    for (int f = 0; f < a->n_fields; f++) {
        const size_t n = a->field[f].sample_bytes;
        if (n != b->field[f].sample_bytes ||
            memcmp(a->field[f].data + (size_t)i * n, b->field[f].data + (size_t)k * n, n) != 0)
            return false;
    }
    return a->n_fields == b->n_fields;
}

/* By merging: each sample of the whole is the next one of the first part or of the second. */
SW_TEST("every sample is in one part, in its order")
{
    static const int64_t sizes[][2] = {{2, 1}, {10, 1}, {10, 9}, {301, 30}, {1000, 100}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        sw_dataset *whole = data_digits(sizes[s][0], 3), *part[2];
        int64_t next[2] = {0, 0}, lost = 0;
        split(part, whole, sizes[s][1], 7);
        CU_ASSERT_EQUAL(part[1]->n, sizes[s][1]);
        CU_ASSERT_EQUAL(part[0]->n, sizes[s][0] - sizes[s][1]);
        CU_ASSERT_EQUAL(part[0]->n_classes, 10);
        for (int64_t i = 0; i < whole->n; i++) {
            const int at =
                next[0] < part[0]->n && same_sample(whole, i, part[0], next[0]) ? 0 : 1;
            const bool there =
                next[at] < part[at]->n && same_sample(whole, i, part[at], next[at]);
            lost += !there;
            next[at] += there;
        }
        SW_CHECK(lost == 0 && next[0] == part[0]->n && next[1] == part[1]->n,
                 "%lld of %lld: %lld lost", (long long)sizes[s][1], (long long)sizes[s][0],
                 (long long)lost);
    }
}

static uint64_t hash_of(const sw_dataset *set)
{
    uint64_t hash = 0;
    OK(sw_dataset_hash(set, &hash));
    return hash;
}

SW_TEST("the seed alone chooses")
{
    sw_dataset *whole = data_digits(200, 3), *a[2], *b[2], *c[2];
    split(a, whole, 20, 1);
    split(b, whole, 20, 1);
    split(c, whole, 20, 2);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(hash_of(a[i]), hash_of(b[i]));
        CU_ASSERT_NOT_EQUAL(hash_of(a[i]), hash_of(c[i]));
    }
}

/* Of sorted samples both parts have all classes: 40 of 400, one of ten each. */
SW_TEST("sorted samples are mixed")
{
    unsigned char labels[400], pixels[400];
    for (uint32_t i = 0; i < 400; i++) {
        labels[i] = (unsigned char)(i / 40);
        pixels[i] = (unsigned char)i;
    }
    dir_new();
    dir_put("train-images-idx3-ubyte", idx_make(3, (uint32_t[]){400, 1, 1}, pixels, 400));
    dir_put("train-labels-idx1-ubyte", idx_make(1, (uint32_t[]){400}, labels, 400));
    sw_dataset *whole = NULL, *part[2];
    OK(sw_dataset_idx(&whole, dir_name(), "train"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    AFTER(sw_dataset_destroy, whole);
    split(part, whole, 100, 1);
    int of[10] = {0};
    for (int i = 0; i < 100; i++)
        of[part[1]->field[1].data[i]]++;
    for (int k = 0; k < 10; k++)
        SW_CHECK(of[k] >= 2 && of[k] <= 20, "class %d: %d of 100", k, of[k]);
}

/* Fields of a text share their bytes; those of a part do not. Names of classes go along. */
SW_TEST("texts and names are split too")
{
    char text[1000];
    for (int i = 0; i < 1000; i++)
        text[i] = (char)('a' + i * i % 23);
    bytes content = {0};
    bytes_put(&content, text, sizeof text);
    dir_new();
    dir_put("text", content);
    sw_dataset *whole = NULL, *part[2];
    OK(sw_dataset_text(&whole, NULL, dir_file("text"), &SW_OPTS(sw_text_opts, .context = 10)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    AFTER(sw_dataset_destroy, whole);
    split(part, whole, 9, 1);
    CU_ASSERT_EQUAL(part[0]->places, 1);
    for (int i = 0; i < 9; i++) {
        const unsigned char *read = part[1]->field[0].data + 10 * i,
                            *next = part[1]->field[1].data + 10 * i;
        CU_ASSERT(memcmp(read + 1, next, 9) == 0);
    }
    static const char table[] = "1,red\n2,green\n3,red\n4,blue\n5,green\n";
    bytes lines = {0};
    bytes_put(&lines, table, sizeof table - 1);
    dir_put("table.csv", lines);
    OK(sw_dataset_csv(&whole, NULL, dir_file("table.csv"), NULL));
    AFTER(sw_dataset_destroy, whole);
    split(part, whole, 2, 1);
    CU_ASSERT_STRING_EQUAL(part[1]->names[0], "blue");
    CU_ASSERT_STRING_EQUAL(part[1]->names[2], "red");
    CU_ASSERT_EQUAL(part[1]->n_classes, 3);
}

SW_TEST("what cannot be split is refused")
{
    sw_dataset *whole = data_digits(5, 3), *untouched = whole, *a = untouched, *b = untouched;
    static const int64_t bad[] = {-1, 0, 5, 6};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        SW_CHECK(sw_dataset_split(&a, &b, whole, bad[i], 1) == SW_INVALID &&
                     strstr(sw_last_error(), "leave 1 of the 5") != NULL,
                 "%s", sw_last_error());
    CU_ASSERT_EQUAL(sw_dataset_split(&a, &a, whole, 1, 1), SW_INVALID);
    CU_ASSERT(a == untouched && b == untouched);
}

static sw_status split_and_drop(void *whole)
{
    sw_dataset *a = NULL, *b = NULL;
    SW_TRY(sw_dataset_split(&a, &b, whole, 2, 1));
    sw_dataset_destroy(a);
    sw_dataset_destroy(b);
    return SW_OK;
}

SW_TEST("failures leave nothing")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, split_and_drop, data_digits(6, 3)) >= 4);
}
