/* Texts: parts, windows, and what a loader makes of them. */
#include "kernels/rng.h"
#include "tests/data/data_files.h"
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("text")

static char path[512];
static sw_text_opts opts;
static bytes content;

/* A text of n bytes, all different within 65,536. */
static void put_bytes(size_t n, int64_t context)
{
    static int number;
    snprintf(path, sizeof path, "%s", sw_temp_path(sw_textf("text%d.txt", number++)));
    content = (bytes){NULL, 0};
    for (size_t i = 0; i < n; i++)
        bytes_byte(&content, (int)((i % 2 == 0 ? i / 2 : i / 512) & 255));
    sw_file_put(path, content.at, n);
    opts = SW_OPTS(sw_text_opts, .context = context);
}

static sw_status read_parts(sw_dataset *part[2])
{
    return sw_dataset_text(&part[0], &part[1], path, &opts);
}

static sw_status read_whole(sw_dataset *part[2])
{
    return sw_dataset_text(&part[0], NULL, path, &opts);
}

SW_TEST("the last tenth is for validation")
{
    put_bytes(1009, 10); /* 908.1 are nine tenths */
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    const sw_dataset_info train = data_info(sets[0]), last = data_info(sets[1]);
    CU_ASSERT(train.bytes == 908 && last.bytes == 101);
    CU_ASSERT(train.n_classes == 256 && last.n == 10);
    CU_ASSERT_STRING_EQUAL(train.name, path);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT(train.field[i].shape.rank == 1 && train.field[i].shape.dim[0] == 10);
        CU_ASSERT_EQUAL(train.field[i].dtype, SW_U8);
        CU_ASSERT_EQUAL(memcmp(train.field[i].data, content.at + i, 908 - (size_t)i), 0);
        CU_ASSERT_EQUAL(memcmp(last.field[i].data, content.at + 908 + i, 101 - (size_t)i), 0);
    }
}

/* Wherever the first window begins, each fits with the token after it, and no more would. */
SW_TEST("windows fit wherever they begin")
{
    for (int64_t context = 1; context < 9; context++)
        for (size_t n = (size_t)context + 1; n < 60; n++) {
            sw_dataset *dataset = NULL;
            put_bytes(n, context);
            CU_ASSERT_EQUAL_FATAL(sw_dataset_text(&dataset, NULL, path, &opts), SW_OK);
            const int64_t windows = data_info(dataset).n, left = (int64_t)n - windows * context;
            CU_ASSERT(windows >= 1 && left >= 1);
            SW_CHECK(windows == 1 || (left >= context && left < 2 * context),
                     "%zu bytes, context %lld: %lld windows", n, (long long)context,
                     (long long)windows);
            sw_dataset_destroy(dataset);
        }
}

SW_TEST("short texts are refused")
{
    put_bytes(0, 4);
    data_refused(read_parts, SW_FORMAT, path, "empty");
    data_refused(read_whole, SW_FORMAT, path, "empty");
    put_bytes(4, 4);
    data_refused(read_whole, SW_FORMAT, path, "the text has 4, and a context of 4 needs one");
    put_bytes(41, 4);
    CU_ASSERT(data_read_both(read_parts, sets)); /* 36 and 5 */
    put_bytes(40, 4);
    data_refused(read_parts, SW_FORMAT, path, "for validation, has 4");
    opts.context = -1;
    data_refused(read_parts, SW_INVALID, "sw_dataset_text", "(got -1)");
    opts.context = (int64_t)1 << 40;
    data_refused(read_parts, SW_INVALID, "sw_dataset_text", "(got 1099511627776)");
    failed_as(sw_dataset_text(&sets[0], NULL, "", NULL), SW_INVALID, "must not be NULL");
}

SW_TEST("what cannot be opened is named")
{
    put_bytes(1000, 4);
    (void)unlink(path);
    data_refused(read_parts, SW_IO, path, "No such file");
    if (mkdir(path, 0777) != 0)
        perror(path);
    data_refused(read_parts, SW_IO, path, "Is a directory");
    put_bytes(1000, 4);
    data_refused_unreadable(read_parts, path);
}

SW_TEST("shapes take no samples")
{
    sw_dataset *part[2], *full[2];
    put_bytes(5000, 0);
    CU_ASSERT_FATAL(data_read_both(read_parts, full));
    opts.shapes_only = 1;
    CU_ASSERT_FATAL(data_read_both(read_parts, part));
    for (int i = 0; i < 2; i++) {
        const sw_dataset_info info = data_info(part[i]);
        CU_ASSERT(info.n == data_info(full[i]).n && info.bytes == 0);
        CU_ASSERT(info.field[0].shape.dim[0] == 128 && info.field[0].data == NULL &&
                  info.field[1].data == NULL);
    }
}

SW_TEST("every call can fail")
{
    put_bytes(1000, 4);
    data_sweep(read_parts, 6, 3);
    put_bytes(1000, 4);
    data_damage(read_parts, path, content, 200);
}

/* ---- windows through a loader ------------------------------------------------------------ */

#define CONTEXT 7
#define BATCH 4

static sw_loader *open_loader(const sw_dataset *dataset, bool shuffle, bool in_line, int slots)
{
    return data_loader(dataset, SW_OPTS(sw_loader_opts, .batch = BATCH, .slots = slots,
                                        .seed = 5, .shuffle = shuffle, .inline_fill = in_line));
}

/* Where window i of the epoch begins in the text, -1 where it is not in it; `order` as the
 * header promises it. */
static void check_epoch(sw_loader *l, const sw_dataset *dataset, uint64_t epoch, int64_t *begin,
                        const uint32_t *order)
{
    const unsigned char *text = data_info(dataset).field[0].data;
    const int64_t n = data_info(dataset).n;
    const sw_array *inputs;
    int n_inputs = 0;
    int64_t first = 0, sample = 0;
    CU_ASSERT_EQUAL(sw_loader_epoch(l, epoch), SW_OK);
    while (sw_loader_next(l, &inputs, &n_inputs) == SW_OK && n_inputs == 2) {
        const unsigned char *x = inputs[0].data, *y = inputs[1].data;
        CU_ASSERT(inputs[0].shape.rank == 2 && inputs[0].shape.dim[1] == CONTEXT);
        for (int64_t i = 0; i < inputs[0].shape.dim[0]; i++, sample++) {
            const int64_t window = order != NULL ? order[sample] : sample;
            int64_t at = sample == 0 ? 0 : first + window * CONTEXT;
            if (sample == 0) { /* the text is all different: found by its bytes */
                while (memcmp(text + at, x, CONTEXT) != 0 && at < n * CONTEXT)
                    at++;
                first = at - window * CONTEXT;
            }
            SW_CHECK(first >= 0 && first < CONTEXT &&
                         memcmp(text + at, x + i * CONTEXT, CONTEXT) == 0 &&
                         memcmp(text + at + 1, y + i * CONTEXT, CONTEXT) == 0,
                     "window %lld at %lld", (long long)window, (long long)at);
        }
    }
    CU_ASSERT_EQUAL(sample, n);
    *begin = first;
}

SW_TEST("borders move with the epoch")
{
    uint32_t order[200];
    int64_t begin[2][40];
    put_bytes(1501, CONTEXT);
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    const uint32_t n = (uint32_t)data_info(sets[0]).n;
    CU_ASSERT_FATAL(n > 10 && n <= 200);
    for (int in_line = 0; in_line < 2; in_line++) {
        sw_loader *l = open_loader(sets[0], true, in_line, 2 + in_line);
        const uint64_t calls = sw_mem_calls();
        for (uint64_t e = 0; e < 40; e++) {
            sw_rng_shuffle(order, n, 5, e);
            check_epoch(l, sets[0], e, &begin[in_line][e], order);
        }
        CU_ASSERT_EQUAL(sw_mem_calls(), calls);
        check_epoch(l, sets[0], 39, &begin[in_line][38], order); /* again, out of turn */
        CU_ASSERT_EQUAL(begin[in_line][38], begin[in_line][39]);
    }
    CU_ASSERT_EQUAL(memcmp(begin[0], begin[1], sizeof begin[0]), 0);
    int places = 0;
    for (int place = 0; place < CONTEXT; place++) {
        bool met = false;
        for (int e = 0; e < 40; e++)
            met = met || begin[0][e] == place;
        places += met;
    }
    CU_ASSERT_EQUAL(places, CONTEXT); /* each of them in 40 epochs */
}

SW_TEST("without shuffling windows stay")
{
    int64_t begin = -1;
    put_bytes(1501, CONTEXT);
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    for (int i = 0; i < 4; i++) {
        sw_loader *l = open_loader(sets[i / 2], false, i % 2 == 1, 3);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            check_epoch(l, sets[i / 2], epoch, &begin, NULL);
            CU_ASSERT_EQUAL(begin, 0);
        }
    }
    /* validation is whole: shuffled, its windows stay where they are too */
    uint32_t order[200];
    sw_rng_shuffle(order, (uint32_t)data_info(sets[1]).n, 5, 3);
    sw_loader *l = open_loader(sets[1], true, false, 3);
    check_epoch(l, sets[1], 3, &begin, order);
    CU_ASSERT_EQUAL(begin, 0);
}

/* Fields of several bytes per element go through a loader as they are. */
SW_TEST("features go through a loader")
{
    static const char text[] = "1,2,a\n3,4,b\n5,6,a\n7,8,c\n9,10,b\n";
    sw_dataset *dataset = NULL;
    uint32_t order[5];
    snprintf(path, sizeof path, "%s", sw_temp_path("features.csv"));
    sw_file_put(path, text, sizeof text - 1);
    data_made(sw_dataset_csv(&dataset, NULL, path, NULL), &dataset);
    for (int in_line = 0; in_line < 2; in_line++) {
        sw_loader *l = open_loader(dataset, true, in_line, 3);
        CU_ASSERT_EQUAL(sw_loader_bytes(l), 2 * 64);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            const sw_array *inputs = NULL;
            int n_inputs = 0, sample = 0;
            sw_rng_shuffle(order, 5, 5, epoch);
            CU_ASSERT_EQUAL(sw_loader_epoch(l, epoch), SW_OK);
            while (sw_loader_next(l, &inputs, &n_inputs) == SW_OK && n_inputs == 2)
                for (int64_t i = 0; i < inputs[0].shape.dim[0]; i++, sample++) {
                    const float *x = (const float *)inputs[0].data + 2 * i;
                    CU_ASSERT_EQUAL(x[0], (float)(2 * order[sample] + 1));
                    CU_ASSERT_EQUAL(x[1], (float)(2 * order[sample] + 2));
                    CU_ASSERT_EQUAL(((const unsigned char *)inputs[1].data)[i],
                                    "\0\1\0\2\1"[order[sample]]);
                }
            CU_ASSERT_EQUAL(sample, 5);
        }
    }
}
