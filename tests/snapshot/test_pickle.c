/* Pickles written and read, and files that are damaged or mean harm: whatever the bytes are,
 * the answer is a tree or an error that names the byte, in memory that the file's size bounds.
 */
#include "profiler/inspect/pickle.h"
#include "tests/snapshot/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "profiler/inspect/values.h"

SW_TESTS("pickle")

/* ---- writing ----------------------------------------------------------------------------- */

static const uint64_t numbers[] = {0,     1,     255,        256,        65535,
                                   65536, 77777, 0x7fffffff, 0x80000000, UINT64_C(1) << 53};
#define N_NUMBERS (sizeof numbers / sizeof *numbers)
#define ITEMS (2 * SW_PICKLE_BATCH + 1) /* three batches, the last with one item */

/* {"numbers": [...], "many": [0..], "none": [], "pair": (3, 70000), "shared": [l, l], "yes":
 * true}
 */
static void write_all(sink_bytes *s)
{
    sw_pickle p;
    sink_open(s);
    sw_pickle_start(&p, &s->out);
    sw_pickle_begin(&p, '{');
    sw_pickle_string(&p, "numbers");
    sw_pickle_begin(&p, '[');
    for (size_t i = 0; i < N_NUMBERS; i++)
        sw_pickle_u64(&p, numbers[i]);
    sw_pickle_end(&p);
    sw_pickle_string(&p, "many");
    sw_pickle_begin(&p, '[');
    for (uint32_t i = 0; i < ITEMS; i++) {
        sw_pickle_string(&p, "item \xc3\xa4");
        (void)sw_pickle_keep(&p); /* past 255: the long form */
    }
    sw_pickle_end(&p);
    sw_pickle_string(&p, "none");
    sw_pickle_begin(&p, '[');
    sw_pickle_end(&p);
    sw_pickle_string(&p, "pair");
    sw_pickle_tuple2(&p, 3, 70000);
    sw_pickle_string(&p, "shared");
    sw_pickle_begin(&p, '[');
    sw_pickle_begin(&p, '[');
    sw_pickle_u64(&p, 7);
    sw_pickle_end(&p);
    const uint32_t list = sw_pickle_keep(&p);
    sw_pickle_again(&p, list);
    sw_pickle_again(&p, 3); /* the fourth item of "many" */
    sw_pickle_end(&p);
    sw_pickle_string(&p, "yes");
    sw_pickle_bool(&p, true);
    sw_pickle_end(&p);
    sw_pickle_stop(&p);
    CU_ASSERT_EQUAL(sw_sink_flush(&s->out), SW_OK);
}

SW_TEST("what is written is read")
{
    sink_bytes s;
    tree_file f;
    write_all(&s);
    const char *path = put_file("all.pickle", s.bytes, s.n);
    CU_ASSERT_EQUAL_FATAL(tree_open(&f, path, pickle_read), SW_OK);
    const value list = value_at(f.top, "numbers"), many = value_at(f.top, "many");
    const value pair = value_at(f.top, "pair"), shared = value_at(f.top, "shared");
    CU_ASSERT_EQUAL(value_count(f.top), 6);
    CU_ASSERT_EQUAL(value_count(list), N_NUMBERS);
    for (size_t i = 0; i < N_NUMBERS; i++)
        SW_CHECK(value_number(value_item(list, i)) == (int64_t)numbers[i], "number %zu", i);
    CU_ASSERT_EQUAL(value_count(many), ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++)
        CU_ASSERT_STRING_EQUAL(value_text(value_item(many, i)), "item \xc3\xa4");
    CU_ASSERT_EQUAL(value_kind_of(value_at(f.top, "none")), VALUE_LIST);
    CU_ASSERT_EQUAL(value_count(value_at(f.top, "none")), 0);
    CU_ASSERT(value_number(value_item(pair, 0)) == 3 &&
              value_number(value_item(pair, 1)) == 70000);
    CU_ASSERT_EQUAL(value_item(shared, 0), value_item(shared, 1));
    CU_ASSERT_STRING_EQUAL(value_text(value_item(shared, 2)), "item \xc3\xa4");
    CU_ASSERT_EQUAL(value_kind_of(value_at(f.top, "yes")), VALUE_OTHER);
    CU_ASSERT_EQUAL(value_kind_of(value_at(f.top, "no")), VALUE_ABSENT);
    tree_close(&f);
    sink_close(&s);
}

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    const char *bytes;
    size_t n;
    const char *error; /* part of the message; NULL: it is read */
} file_case;

#define PICKLE(text, error)                                                                    \
    {                                                                                          \
        text, sizeof(text) - 1, error                                                          \
    }

static const file_case pickles[] = {
    PICKLE("\x80\x02}.", NULL),
    PICKLE("\x80\x04\x95\x02\0\0\0\0\0\0\0}.", NULL),
    PICKLE("\x80\x05]\x94K\1a.", NULL),
    PICKLE("\x80\x02(K\1K\2t.", NULL),
    PICKLE("\x80\x02(K\1K\2l0N.", NULL),
    PICKLE("\x80\x02(X\1\0\0\0aK\1d.", NULL),
    PICKLE("\x80\x02K\1K\2K\3\x87.", NULL),
    PICKLE("\x80\x02K\1\x85.", NULL),
    PICKLE("\x80\x02)\x88\x89N2(K\1"
           "10000"
           ".",
           NULL),
    PICKLE("\x80\x02G\x3f\xf0\0\0\0\0\0\0.", NULL),
    PICKLE("\x80\x02\x8a\x00.", NULL),
    PICKLE("\x80\x02\x8a\x09\1\1\1\1\1\1\1\1\1.", NULL),
    PICKLE("\x80\x02]q\1K\1a0h\1.", NULL), /* numbers from 1 */
    PICKLE("\x80\x02]q\0h\0a.", NULL),     /* a list that holds itself */
    PICKLE("\x80\x04\x8c\1a\x8d\1\0\0\0\0\0\0\0b\x86.", NULL),
    PICKLE("", "byte 0: the file ends before STOP"),
    PICKLE("\x80", "byte 1"),
    PICKLE("\x80\x06}.", "byte 0: pickle protocol 6"),
    PICKLE("\x80\x01}.", "byte 0: pickle protocol 1"),
    PICKLE("\x80\x02}", "byte 3: the file ends"),
    PICKLE("\x80\x02.", "byte 2: STOP must find one value and no mark (got 0 values"),
    PICKLE("\x80\x02K\1K\2.", "byte 6: STOP must find one value and no mark (got 2 values"),
    PICKLE("\x80\x02(K\1.",
           "byte 5: STOP must find one value and no mark (got 1 values and 1 marks)"),
    PICKLE("\x80\x02"
           "cos\nsystem\n.",
           "byte 2: GLOBAL would run code"),
    PICKLE("\x80\x04\x8c\2os\x8c\6system\x93.", "byte 14: STACK_GLOBAL would run"),
    PICKLE("\x80\x02NNR.", "byte 4: REDUCE would run"),
    PICKLE("\x80\x02NNb.", "byte 4: BUILD would run"),
    PICKLE("\x80\x02(ios\nsystem\n.", "byte 3: INST would run"),
    PICKLE("\x80\x02(No.", "byte 4: OBJ would run"),
    PICKLE("\x80\x02NN\x81.", "byte 4: NEWOBJ would run"),
    PICKLE("\x80\x04NNN\x92.", "byte 5: NEWOBJ_EX would run"),
    PICKLE("\x80\x02\x82\1.", "byte 2: EXT1 would run"),
    PICKLE("\x80\x02\x83\1\1.", "byte 2: EXT2 would run"),
    PICKLE("\x80\x02\x84\1\1\1\1.", "byte 2: EXT4 would run"),
    PICKLE("\x80\x02Pid\n.", "byte 2: PERSID would run"),
    PICKLE("\x80\x02NQ.", "byte 3: BINPERSID would run"),
    PICKLE("\x80\x05\x97.", "byte 2: NEXT_BUFFER"),
    PICKLE("\x80\x04\x8f.", "byte 2: EMPTY_SET, which no snapshot has"),
    PICKLE("\x80\x02I1\n.", "byte 2: INT, which no snapshot has since protocol 2"),
    PICKLE("\x80\x02\xff.", "byte 2: no pickle has the opcode 0xff"),
    PICKLE("\x80\x02K\1e.", "byte 4: APPENDS without a mark"),
    PICKLE("\x80\x02(K\1e.", "byte 5: APPENDS needs 1 values (got 0)"),
    PICKLE("\x80\x02K\1K\1a.", "byte 6: APPEND must be given a list"),
    PICKLE("\x80\x02](NNu.", "byte 6: SETITEMS must be given a dict"),
    PICKLE("\x80\x02}(Nu.", "byte 5: SETITEMS: a key without its value"),
    PICKLE("\x80\x02(Nd.", "byte 4: DICT: a key without its value"),
    PICKLE("\x80\x02N(0.", "byte 4: POP needs 1 values (got 0)"),
    PICKLE("\x80\x02h\0.", "byte 2: BINGET of number 0, which nothing has"),
    PICKLE("\x80\x02Nq\1h\0.", "byte 5: BINGET of number 0"),
    PICKLE("\x80\x02Nr\xff\xff\xff\x7f.", "byte 3: LONG_BINPUT of number 2147483647"),
    PICKLE("\x80\x02X\xff\xff\xff\xff"
           "abc",
           "byte 10: the file ends too early: it must have 4,294,967,295 bytes"),
    PICKLE("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
           "a",
           "byte 12: the file ends"),
};

/* Reads it; the message has the part, or it is read. Nothing is left. */
static void check_case(const file_case *c, size_t i, tree_reader *read)
{
    tree_file f;
    const uint64_t blocks = sw_heap_blocks();
    const sw_status status = tree_open(&f, put_file("case", c->bytes, c->n), read);
    if (status == SW_OK)
        tree_close(&f);
    if (c->error == NULL)
        SW_CHECK(status == SW_OK, "case %zu: %s", i, sw_last_error());
    else
        SW_CHECK(status == SW_FORMAT && strstr(sw_last_error(), c->error) != NULL,
                 "case %zu: %s: %s", i, c->error, sw_last_error());
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

SW_TEST("each opcode is data or refused")
{
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++)
        check_case(&pickles[i], i, pickle_read);
}

static const file_case jsons[] = {
    PICKLE("{}", NULL),
    PICKLE(" [1, -2, 3.5e+10, true, false, null, NaN, \"a\\u00e4\\ud83d\\ude00\\n\"] \n", NULL),
    PICKLE("{\"a\":{\"b\":[[]]}}", NULL),
    PICKLE("", "byte 0: the text ends where a value was expected"),
    PICKLE("{\"a\"", "byte 4: ':' was expected"),
    PICKLE("{\"a\":}", "byte 5: a value was expected"),
    PICKLE("{a:1}", "byte 1: a key was expected"),
    PICKLE("[1 2]", "byte 3: a comma or the closing bracket"),
    PICKLE("[1,]", "byte 3: a comma before the closing bracket"),
    PICKLE("[1", "byte 2: the text ends inside of brackets"),
    PICKLE("[1]]", "byte 3: something stands after the value"),
    PICKLE("\"a", "byte 2: a string without an end"),
    PICKLE("\"\n\"", "byte 1: a control character in a string"),
    PICKLE("\"\\q\"", "byte 2: unknown escape"),
    PICKLE("\"\\u12g4\"", "byte 5: four hexadecimal digits"),
    PICKLE("\"\\ud800x\"", "byte 7: half a surrogate pair"),
    PICKLE("nul", "byte 3: a value was expected"),
    PICKLE("-", "byte 1: a digit was expected"),
};

SW_TEST("JSON is read or refused by byte")
{
    char deep[200];
    tree_file f;
    for (size_t i = 0; i < sizeof jsons / sizeof *jsons; i++)
        check_case(&jsons[i], i, json_tree_read);
    memset(deep, '[', sizeof deep);
    const file_case bottomless = {deep, sizeof deep, "byte 64: brackets are too deep"};
    check_case(&bottomless, 0, json_tree_read);
    const char *path = put_file("text.json", jsons[1].bytes, jsons[1].n);
    CU_ASSERT_EQUAL_FATAL(tree_open(&f, path, json_tree_read), SW_OK);
    CU_ASSERT_EQUAL(value_number(value_item(f.top, 1)), -2);
    CU_ASSERT_EQUAL(value_kind_of(value_item(f.top, 2)), VALUE_REAL);
    CU_ASSERT_EQUAL(value_real(value_item(f.top, 2)), 3.5e10);
    CU_ASSERT_STRING_EQUAL(value_text(value_item(f.top, 7)), "a\xc3\xa4\xf0\x9f\x98\x80\n");
    tree_close(&f);
}

/* Numbers as they are at the edges of what a word holds. */
SW_TEST("numbers keep their sign")
{
    static const char bytes[] = "\x80\x02(J\xff\xff\xff\xff"               /* -1 */
                                "\x8a\1\x80"                               /* -128 */
                                "\x8a\2\x80\x00"                           /* 128 */
                                "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f" /* 2^60 - 1 */
                                "\x8a\x08\0\0\0\0\0\0\0\x10"               /* 2^60 */
                                "\x8a\x08\0\0\0\0\0\0\0\x80"               /* -2^63 */
                                "l.";
    tree_file f;
    const char *path = put_file("numbers", bytes, sizeof bytes - 1);
    CU_ASSERT_EQUAL_FATAL(tree_open(&f, path, pickle_read), SW_OK);
    CU_ASSERT_EQUAL(value_number(value_item(f.top, 0)), -1);
    CU_ASSERT_EQUAL(value_number(value_item(f.top, 1)), -128);
    CU_ASSERT_EQUAL(value_number(value_item(f.top, 2)), 128);
    CU_ASSERT_EQUAL(value_number(value_item(f.top, 3)), (INT64_C(1) << 60) - 1);
    CU_ASSERT_EQUAL(value_kind_of(value_item(f.top, 4)), VALUE_OTHER);
    CU_ASSERT_EQUAL(value_kind_of(value_item(f.top, 5)), VALUE_OTHER);
    tree_close(&f);
}

/* ---- harm -------------------------------------------------------------------------------- */

SW_TEST("cut anywhere, it is refused")
{
    sink_bytes s;
    tree_file f;
    write_all(&s);
    const size_t step = sw_tests_full() ? 1 : 37;
    for (size_t n = 0; n + 1 < s.n; n += step) {
        const uint64_t blocks = sw_heap_blocks();
        const sw_status status = tree_open(&f, put_file("cut", s.bytes, n), pickle_read);
        SW_CHECK(status == SW_FORMAT, "%zu bytes: %s", n, sw_status_name(status));
        CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    }
    sink_close(&s);
}

/* A byte of ten opcodes cannot ask for more than they may take. */
SW_TEST("any bytes end in a tree or an error")
{
    static const char common[] =
        "\x80\x02}]()N\x88K\1M\1\1q\0q\1h\0h\1aeusdtl012\x85\x86\x87\x94.X";
    const int rounds = sw_tests_full() ? 50000 : 3000;
    sw_dice dice = {.state = 6};
    tree_file f;
    int read = 0;
    for (int i = 0; i < rounds; i++) {
        char bytes[64] = "\x80\x02";
        const size_t n = 2 + (size_t)sw_dice_below(&dice, 60);
        for (size_t k = 2; k < n; k++)
            bytes[k] = sw_dice_below(&dice, 8) == 0
                           ? (char)sw_dice_below(&dice, 256)
                           : common[sw_dice_below(&dice, sizeof common - 1)];
        const uint64_t blocks = sw_heap_blocks();
        const sw_status status = tree_open(&f, put_file("dice", bytes, n), pickle_read);
        if (status == SW_OK) {
            CU_ASSERT(f.tree.used <= f.tree.reserved);
            tree_close(&f);
            read++;
        }
        SW_CHECK(status == SW_OK || status == SW_FORMAT, "%s", sw_last_error());
        CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    }
    CU_ASSERT(read > 0);
}
