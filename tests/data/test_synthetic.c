/* Synthetic digits: the same bytes everywhere, balanced labels, something to learn. */
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("synthetic")

static uint64_t hash(const sw_dataset_info *info)
{
    uint64_t h = 0xcbf29ce484222325u;
    const unsigned char *images = info->field[0].data, *labels = info->field[1].data;
    for (int64_t i = 0; i < info->n * 784; i++)
        h = (h ^ images[i]) * 0x100000001b3u;
    for (int64_t i = 0; i < info->n; i++)
        h = (h ^ labels[i]) * 0x100000001b3u;
    return h;
}

SW_TEST("the fields are images and labels")
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(data_digits(25, 7), &info);
    CU_ASSERT_EQUAL(info.n, 25);
    CU_ASSERT_EQUAL(info.n_classes, 10);
    CU_ASSERT_EQUAL(info.n_fields, 2);
    CU_ASSERT_STRING_EQUAL(info.name, "synthetic");
    const sw_array image = info.field[0], label = info.field[1];
    CU_ASSERT(image.dtype == SW_U8 && image.shape.rank == 3);
    CU_ASSERT(image.shape.dim[0] == 1 && image.shape.dim[1] == 28 && image.shape.dim[2] == 28);
    CU_ASSERT(label.dtype == SW_U8 && label.shape.rank == 0);
}

/* The number was taken from this program built with gcc and with clang, -O0 and -O2, and is
 * what every other build must give. */
SW_TEST("the bytes are the same everywhere")
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(data_digits(1000, 1), &info);
    SW_CHECK(hash(&info) == UINT64_C(0xef05e90a591c1d7a), "0x%llx",
             (unsigned long long)hash(&info));
}

SW_TEST("a sample depends on seed and index alone")
{
    sw_dataset_info few = SW_OPTS(sw_dataset_info), many = SW_OPTS(sw_dataset_info),
                    other = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(data_digits(37, 5), &few);
    sw_dataset_describe(data_digits(300, 5), &many);
    sw_dataset_describe(data_digits(37, 6), &other);
    CU_ASSERT_EQUAL(memcmp(few.field[0].data, many.field[0].data, 37 * 784), 0);
    CU_ASSERT_EQUAL(memcmp(few.field[1].data, many.field[1].data, 37), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(few.field[0].data, other.field[0].data, 37 * 784), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(few.field[1].data, other.field[1].data, 37), 0);
}

SW_TEST("every ten labels have every class")
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(data_digits(1003, 3), &info);
    const unsigned char *labels = info.field[1].data;
    int orders = 0;
    for (int64_t first = 0; first + 10 <= info.n; first += 10) {
        unsigned seen = 0;
        for (int i = 0; i < 10; i++)
            seen |= 1u << labels[first + i];
        CU_ASSERT_EQUAL(seen, 0x3ff);
        orders += memcmp(labels, labels + first, 10) != 0;
    }
    CU_ASSERT(orders >= 98);
}

/* The class whose mean image over 2,000 digits is nearest, for 1,000 digits of another seed:
 * far better than chance (0.1), and short of perfect, so there is something left to learn. */
SW_TEST("the digits can be distinguished")
{
    sw_dataset_info train = SW_OPTS(sw_dataset_info), test = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(data_digits(2000, 1), &train);
    sw_dataset_describe(data_digits(1000, 2), &test);
    static float mean[10][784];
    memset(mean, 0, sizeof mean);
    const unsigned char *images = train.field[0].data, *labels = train.field[1].data;
    for (int64_t i = 0; i < train.n * 784; i++)
        mean[labels[i / 784]][i % 784] += (float)images[i] / 200.0f;
    images = test.field[0].data;
    labels = test.field[1].data;
    int right = 0;
    for (int64_t i = 0; i < test.n; i++) {
        int best = 0;
        float least = 0;
        for (int c = 0; c < 10; c++) {
            float distance = 0;
            for (int k = 0; k < 784; k++) {
                const float d = (float)images[i * 784 + k] - mean[c][k];
                distance += d * d;
            }
            if (c == 0 || distance < least) {
                least = distance;
                best = c;
            }
        }
        right += best == labels[i];
    }
    sw_note("nearest mean: %d of 1000", right);
    CU_ASSERT(right > 700 && right < 990);
}

SW_TEST("bad counts are refused")
{
    const heap_watch before = heap_now();
    sw_dataset *dataset = NULL;
    failed_as(sw_dataset_synthetic(&dataset, 0, 1), SW_INVALID, "(got 0)");
    failed_as(sw_dataset_synthetic(&dataset, -1, 1), SW_INVALID, "(got -1)");
    failed_as(sw_dataset_synthetic(&dataset, INT64_MAX, 1), SW_INVALID, "1 to 4294967295");
    CU_ASSERT_PTR_NULL(dataset);
    sw_dataset_destroy(NULL);
    CHECK_NO_LEAK(before);
}

SW_TEST("every allocation can fail")
{
    sw_sites sites = {SW_FAULT_MEMORY, .exact = true};
    while (sw_sites_next(&sites)) {
        sw_dataset *dataset = NULL;
        if (SW_AT_SITE(&sites, sw_dataset_synthetic(&dataset, 10, 1)) != SW_OK)
            CU_ASSERT(dataset == NULL && strstr(sw_last_error(), "no memory") != NULL);
        sw_dataset_destroy(dataset);
    }
    CU_ASSERT_EQUAL(sites.failed, 4);
}
