/* Tokens in files: ids of both widths, their vocabulary, and the windows that text has. */
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include "tests/data/data_files.h"
#include <sys/stat.h>

SW_TESTS("tokens")

#define N 1009
#define CONTEXT 10

static char path[512];
static const char *vocabulary;
static sw_tokens_opts opts;
static bytes content;

/* `n` ids of `bits`, id i being i * 7 mod `below`. */
static void put_ids(const char *name, size_t n, int bits, uint32_t below)
{
    content = (bytes){NULL, 0};
    for (size_t i = 0; i < n; i++)
        for (int b = 0; b < bits; b += 8)
            bytes_byte(&content, (int)((i * 7 % below) >> b & 255));
    sw_file_put(dir_file(name), content.at, content.n);
    snprintf(path, sizeof path, "%s", dir_file(name));
    opts = SW_OPTS(sw_tokens_opts, .bits = bits, .context = CONTEXT);
}

static void put_vocabulary(const char *text, size_t n)
{
    sw_file_put(dir_file("vocab"), text, n);
    vocabulary = dir_file("vocab");
    opts.vocabulary = vocabulary;
}

static void new_scene(void)
{
    dir_new();
    put_ids("ids.bin", N, 16, 300);
}

static sw_status read_parts(sw_dataset *part[2])
{
    return sw_dataset_tokens(&part[0], &part[1], path, &opts);
}

static sw_status read_whole(sw_dataset *part[2])
{
    return sw_dataset_tokens(&part[0], NULL, path, &opts);
}

SW_TEST("ids are those of the file")
{
    for (int bits = 16; bits <= 32; bits += 16) {
        const size_t width = (size_t)bits / 8;
        dir_new();
        put_ids("ids.bin", N, bits, 300);
        CU_ASSERT_FATAL(data_read_both(read_parts, sets));
        const sw_dataset_info train = data_info(sets[0]), last = data_info(sets[1]);
        CU_ASSERT(train.n_classes == 300 && last.n_classes == 300);
        CU_ASSERT(train.bytes == 908 * width && last.bytes == 101 * width && last.n == 10);
        CU_ASSERT(sets[0]->places == CONTEXT && sets[1]->places == 1);
        for (int f = 0; f < 2; f++) {
            const size_t at = (size_t)f * width;
            CU_ASSERT_EQUAL(train.field[f].dtype, bits == 16 ? SW_U16 : SW_I32);
            CU_ASSERT(train.field[f].shape.rank == 1 && train.field[f].shape.dim[0] == CONTEXT);
            CU_ASSERT(memcmp(train.field[f].data, content.at + at, 908 * width - at) == 0);
            CU_ASSERT(memcmp(last.field[f].data, content.at + 908 * width + at,
                             101 * width - at) == 0);
        }
    }
}

/* The same ids in a text, of 16 and of 32 bits give the same batches in every epoch. */
SW_TEST("batches are those of a text")
{
    sw_dataset *set[3] = {NULL};
    sw_loader *l[3];
    int wrong = 0, n = 0;
    dir_new();
    put_ids("text", N, 8, 200);
    OK(sw_dataset_text(&set[0], NULL, path, &SW_OPTS(sw_text_opts, .context = CONTEXT)));
    for (int i = 1; i < 3; i++) {
        put_ids("ids.bin", N, 16 * i, 200);
        OK(sw_dataset_tokens(&set[i], NULL, path, &opts));
    }
    for (int i = 0; i < 3; i++) {
        const sw_loader_opts o =
            SW_OPTS(sw_loader_opts, .batch = 9, .seed = 4, .shuffle = 1, .inline_fill = i == 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(set[i]);
        OK(sw_loader_create(&l[i], set[i], &o));
    }
    for (uint64_t epoch = 0; epoch < 12; epoch++) {
        for (int i = 0; i < 3; i++)
            OK(sw_loader_epoch(l[i], epoch));
        for (;;) {
            const sw_array *in[3] = {NULL};
            for (int i = 0; i < 3; i++)
                OK(sw_loader_next(l[i], &in[i], &n));
            if (n == 0)
                break;
            for (int f = 0; f < 2; f++)
                for (int64_t k = 0; k < in[0][f].shape.dim[0] * CONTEXT; k++) {
                    const int id = ((const unsigned char *)in[0][f].data)[k];
                    wrong += ((const uint16_t *)in[1][f].data)[k] != id;
                    wrong += ((const int32_t *)in[2][f].data)[k] != id;
                }
        }
    }
    SW_CHECK(wrong == 0, "%d ids", wrong);
    for (int i = 0; i < 3; i++) {
        sw_loader_destroy(l[i]);
        sw_dataset_destroy(set[i]);
    }
}

/* Every byte that a batch may read counts, the last one's place too. */
SW_TEST("the hash sees every token")
{
    uint64_t hash[3] = {0};
    for (int i = 0; i < 3; i++) {
        new_scene();
        const size_t last = (N / CONTEXT - 1) * CONTEXT + CONTEXT - 1;
        content.at[2 * last] ^= i == 1; /* the last that a window in the last place reads */
        content.at[2 * (N - 1)] ^= i == 2;
        sw_file_put(path, content.at, content.n);
        CU_ASSERT_FATAL(data_read_both(read_whole, sets));
        OK(sw_dataset_hash(sets[0], &hash[i]));
    }
    CU_ASSERT_NOT_EQUAL(hash[0], hash[1]);
    CU_ASSERT_EQUAL(hash[0], hash[2]); /* no window reads the last one */
}

SW_TEST("folders have both parts")
{
    dir_new();
    put_ids("val.bin", 300, 16, 400);
    put_ids("train.bin", N, 16, 300);
    snprintf(path, sizeof path, "%s", dir_name());
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(data_info(sets[0]).bytes == 2 * N && data_info(sets[1]).bytes == 600);
    CU_ASSERT(data_info(sets[0]).n_classes == 400 && data_info(sets[1]).n_classes == 400);
    CU_ASSERT_STRING_EQUAL(data_info(sets[1]).name, dir_name());
    const char *validation = opts.validation_path = sw_textf("%s/val.bin", dir_name());
    data_refused(read_parts, SW_INVALID, dir_name(), "is a folder");
    snprintf(path, sizeof path, "%s/train.bin", dir_name());
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(data_info(sets[0]).bytes == 2 * N && data_info(sets[1]).bytes == 600);
    data_refused(read_whole, SW_INVALID, "sw_dataset_tokens", "exclude each other");
    (void)remove(validation);
    data_refused(read_parts, SW_IO, validation, "No such file");
    opts.validation_path = NULL;
    snprintf(path, sizeof path, "%s", dir_name());
    data_refused(read_parts, SW_IO, validation, "No such file");
    CU_ASSERT(data_read_both(read_whole, sets)); /* without validation train.bin is enough */
}

SW_TEST("vocabularies are held against ids")
{
    char lines[4 * 300 + 1] = "", json[16 * 300] = "{ ";
    new_scene();
    for (int i = 0; i < 300; i++) {
        snprintf(lines + 4 * i, 5, "%03d\n", i);
        const int id = i * 7 % 300; /* in no order */
        snprintf(json + strlen(json), 20, "%s\"t%d\" :\t%d", i > 0 ? "," : "", id, id);
    }
    strcat(json, "}\n");
    put_vocabulary(lines, 1200);
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(data_info(sets[1]).n_classes == 300);
    CU_ASSERT_STRING_EQUAL(data_info(sets[1]).class_names[299], "299");
    put_vocabulary(lines, 1199); /* the last line needs no end */
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT_STRING_EQUAL(data_info(sets[0]).class_names[299], "299");
    put_vocabulary(json, strlen(json));
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(data_info(sets[0]).n_classes == 300);
    CU_ASSERT_STRING_EQUAL(data_info(sets[0]).class_names[0], "t0");
    CU_ASSERT_STRING_EQUAL(data_info(sets[0]).class_names[299], "t299");
    put_vocabulary(lines, 1196);
    data_refused(read_parts, SW_FORMAT, path, /* 7 * 257 is 299 past six rounds of 300 */
                 "the id at byte 514 must be 0 to 298 (got 299)");
    data_refused(read_parts, SW_FORMAT, vocabulary, "has 299 tokens");
    put_ids("ids.bin", N, 32, 300);
    put_vocabulary(lines, 1196);
    data_refused(read_parts, SW_FORMAT, path, "the id at byte 1028 must be 0 to 298 (got 299)");
    opts.shapes_only = 1; /* the vocabulary alone says how many there are */
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_classes, 299);
}

SW_TEST("tokens may be any text")
{
    static const char json[] = "{\"\\u0120the\":0,\"\\\"\\\\\\/\\b\\f\\n\\r\\t\":1,\"\\ud83d"
                               "\\ude00\":2,\"\\u00e9\\u20ac\":3,\"\\u0000x\":4,\"\":5}";
    static const char *const are[] = {"\xc4\xa0the",      "\"\\/\b\f\n\r\t",
                                      "\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac",
                                      "\\u0000x",         ""};
    dir_new();
    put_ids("ids.bin", N, 16, 6);
    put_vocabulary(json, sizeof json - 1);
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    for (int i = 0; i < 6; i++)
        CU_ASSERT_STRING_EQUAL(data_info(sets[0]).class_names[i], are[i]);
    put_vocabulary("a\r\nb c\r\nd\r\ne\r\nf\r\ng\r\n", 20);
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT_STRING_EQUAL(data_info(sets[0]).class_names[1], "b c");
}

SW_TEST("damaged vocabularies are refused")
{
    static const struct {
        const char *text, *reason;
    } cases[] = {{"", "empty"},
                 {"a\n\nb\n", "line 2 is empty"},
                 {"{}", "byte 2: the vocabulary is empty"},
                 {"{", "'\"' was expected"},
                 {"{\"a\"", "':' was expected"},
                 {"{\"a\":", "must be a whole number"},
                 {"{\"a\":0", "'}' was expected"},
                 {"{\"a\":0 ", "'}' was expected"},
                 {"{\"a\":0,", "'\"' was expected"},
                 {"{\"a\":0,}", "'\"' was expected"},
                 {"{\"a\":0}x", "nothing may follow"},
                 {"{\"a\":1}", "ids of 1 tokens must be 0 to 0, each once (got 1)"},
                 {"{\"a\":0,\"b\":0}", "each once (got 0 again)"},
                 {"{\"a\":-1}", "must be a whole number"},
                 {"{\"a\":0.5}", "must be a whole number"},
                 {"{\"a\":99999999999999999999}", "must be a whole number"},
                 {"{\"a\":\"b\"}", "a tokenizer.json has it in its member model.vocab"},
                 {"{\"version\":{}}", "a tokenizer.json has it"},
                 {"{\"a", "a string without an end"},
                 {"{\"a\\", "unknown escape"},
                 {"{\"a\\x\":0}", "unknown escape"},
                 {"{\"\\u12\":0}", "four hexadecimal digits were expected"},
                 {"{\"\\ud800\":0}", "half a surrogate pair"},
                 {"{\"\\udc00\":0}", "half a surrogate pair"},
                 {"{\"\\ud800\\u0041\":0}", "half a surrogate pair"},
                 {"{\"a\nb\":0}", "a control character in a string"}};
    new_scene();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_vocabulary(cases[i].text, strlen(cases[i].text));
        data_refused(read_parts, SW_FORMAT, vocabulary, cases[i].reason);
    }
    put_vocabulary("a\0b\n", 4);
    data_refused(read_parts, SW_FORMAT, vocabulary, "line 1 has a zero byte");
    (void)remove(vocabulary);
    data_refused(read_parts, SW_IO, vocabulary, "No such file");
}

SW_TEST("what is no row of ids is refused")
{
    static const unsigned char numpy[64] = "\x93NUMPY\1",
                               llm_c[2048] = {0x98, 0x77, 0x34, 0x01, 1};
    new_scene();
    sw_file_put(path, content.at, 2 * N - 1);
    data_refused(read_parts, SW_FORMAT, path, "2,017 bytes are no whole number of ids of 16");
    sw_file_put(path, content.at, 2 * CONTEXT);
    data_refused(read_whole, SW_FORMAT, path, "the row of tokens has 10, and a context of 10");
    data_refused(read_parts, SW_FORMAT, path, "the last tenth, for validation, has 1");
    sw_file_put(path, content.at, 0);
    data_refused(read_parts, SW_FORMAT, path, "empty");
    sw_file_put(path, numpy, sizeof numpy);
    data_refused(read_parts, SW_FORMAT, path, "is a .npy file");
    sw_file_put(path, llm_c, sizeof llm_c);
    data_refused(read_parts, SW_FORMAT, path, "the header of llm.c");
    new_scene();
    opts.bits = 8;
    data_refused(read_parts, SW_INVALID, "sw_dataset_tokens", "16 or 32 (got 8)");
    opts.bits = 32;
    sw_file_put(path, "\0\0\0\0\377\377\377\177", 8);
    opts.context = 1;
    data_refused(read_whole, SW_FORMAT, path,
                 "byte 4 must be 0 to 2147483646 (got 2147483647)");
    sw_file_put(path, "\0\0\0\0\0\0\0\200", 8);
    data_refused(read_whole, SW_FORMAT, path,
                 "byte 4 must be 0 to 2147483646 (got 2147483648)");
    opts.context = -1;
    data_refused(read_parts, SW_INVALID, "sw_dataset_tokens", "(got -1)");
    new_scene();
    data_refused_unreadable(read_parts, path);
}

SW_TEST("shapes take no tokens")
{
    sw_dataset *part[2], *full[2];
    new_scene();
    CU_ASSERT_FATAL(data_read_both(read_parts, full));
    opts.shapes_only = 1;
    CU_ASSERT_FATAL(data_read_both(read_parts, part));
    for (int i = 0; i < 2; i++) {
        const sw_dataset_info info = data_info(part[i]);
        CU_ASSERT(info.n == data_info(full[i]).n && info.bytes == 0);
        CU_ASSERT(info.n_classes == 300 && info.field[0].dtype == SW_U16);
        CU_ASSERT(info.field[0].data == NULL && info.field[1].data == NULL);
    }
}

SW_TEST("every call can fail")
{
    new_scene();
    put_vocabulary("{\"a\":0,\"b\":1,\"c\":2}", 19);
    put_ids("ids.bin", N, 16, 3);
    opts.vocabulary = vocabulary;
    data_sweep(read_parts, 10, 6);
    bytes sound = file_get(vocabulary);
    data_damage(read_parts, vocabulary, sound, 200);
    new_scene();
    data_damage(read_parts, path, content, 100);
}
