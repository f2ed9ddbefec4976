/* The JSON writer, whose text is read back, and the one parser: what is JSON and what is not,
 * and texts that mean harm. */
#include "alloc/base/mem.h"
#include "profiler/inspect/values.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include <locale.h>

SW_TESTS("json")

/* All that a writer can say, once. */
static void write_everything(sw_json *j)
{
    sw_json_begin(j, '{');
    sw_json_put_string(j, "text", "a\"b\\c\n\t\r\x01\x7f/ \xc3\xa4 \xf0\x9f\x98\x80");
    sw_json_put_string(j, "none", NULL);
    sw_json_put_string(j, "", "");
    sw_json_put_u64(j, "u64", UINT64_MAX);
    sw_json_put_i64(j, "i64", INT64_MIN);
    sw_json_put_f64(j, "f64", 0.1);
    sw_json_put_bool(j, "yes", true);
    sw_json_put_bool(j, "no", false);
    sw_json_put_null(j, "null");
    sw_json_open(j, "list", '[');
    sw_json_begin(j, '[');
    sw_json_end(j);
    sw_json_begin(j, '{');
    sw_json_end(j);
    sw_json_u64(j, 0);
    sw_json_i64(j, -7);
    sw_json_string(j, "x");
    sw_json_end(j);
    sw_json_end(j);
    sw_json_line(j);
}

static const char everything[] = "{\"text\":\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u007f/ \xc3\xa4 "
                                 "\xf0\x9f\x98\x80\",\"none\":null,\"\":\"\","
                                 "\"u64\":18446744073709551615,\"i64\":-9223372036854775808,"
                                 "\"f64\":0.1,\"yes\":true,\"no\":false,"
                                 "\"null\":null,\"list\":[[],{},0,-7,\"x\"]}\n";

SW_TEST("commas, escapes and numbers")
{
    char buffer[1024];
    sw_json j;
    sw_json_fixed(&j, buffer, sizeof buffer, NULL, NULL);
    write_everything(&j);
    CU_ASSERT_EQUAL(j.status, SW_OK);
    CU_ASSERT_EQUAL(j.used, sizeof everything - 1);
    CU_ASSERT_EQUAL(memcmp(buffer, everything, j.used), 0);
}

typedef struct {
    char bytes[1024];
    size_t n, calls, fail_at;
} pipe_end;

static sw_status pour(void *context, const char *bytes, size_t n)
{
    pipe_end *end = context;
    if (end->calls++ == end->fail_at)
        return sw_error_set(SW_IO, __FILE__, __LINE__, "the pipe is blocked");
    memcpy(end->bytes + end->n, bytes, n);
    end->n += n;
    return SW_OK;
}

SW_TEST("a buffer of any size gives the same bytes")
{
    for (size_t capacity = 1; capacity <= sizeof everything; capacity++) {
        char buffer[sizeof everything];
        pipe_end end = {.fail_at = SIZE_MAX};
        sw_json j;
        sw_json_fixed(&j, buffer, capacity, pour, &end);
        write_everything(&j);
        CU_ASSERT_EQUAL(j.status, SW_OK);
        CU_ASSERT_EQUAL(pour(&end, buffer, j.used), SW_OK);
        SW_CHECK(end.n == sizeof everything - 1 && memcmp(end.bytes, everything, end.n) == 0,
                 "capacity %zu", capacity);
    }
}

SW_TEST("a full buffer or a failing drain stops the writer")
{
    for (size_t capacity = 1; capacity < sizeof everything - 1; capacity++) {
        char buffer[sizeof everything];
        memset(buffer, '#', sizeof buffer);
        sw_json j;
        sw_json_fixed(&j, buffer, capacity, NULL, NULL);
        write_everything(&j);
        CU_ASSERT_EQUAL(j.status, SW_NOMEM);
        SW_CHECK(memcmp(buffer, everything, capacity) == 0 && buffer[capacity] == '#',
                 "capacity %zu", capacity);
        pipe_end end = {.fail_at = 0};
        sw_json_fixed(&j, buffer, capacity, pour, &end);
        write_everything(&j);
        CU_ASSERT_EQUAL(j.status, SW_IO);
        CU_ASSERT_EQUAL(end.calls, 1); /* the error stays: nothing more is poured */
    }
}

static sw_status grow_everything(void *arg)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    for (int i = 0; i < 50; i++)
        write_everything(&j);
    const sw_status status = j.status;
    if (status == SW_OK) {
        CU_ASSERT_EQUAL(j.used, 50 * (sizeof everything - 1));
        CU_ASSERT_EQUAL(
            memcmp(j.bytes + j.used - sizeof everything + 1, everything, sizeof everything - 1),
            0);
    }
    sw_json_free(&j);
    return status;
}

SW_TEST("a growing buffer survives every refusal")
{
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, grow_everything, NULL);
    CU_ASSERT(sites >= 3);
}

SW_TEST("brackets and keys out of place are errors")
{
    char buffer[256];
    sw_json j;
    for (int what = 0; what < 7; what++) {
        sw_json_fixed(&j, buffer, sizeof buffer, NULL, NULL);
        sw_json_begin(&j, what == 2 ? '[' : '{');
        switch (what) {
        case 0: /* a value in an object without a key */
            sw_json_u64(&j, 1);
            break;
        case 1: /* two keys */
            sw_json_key(&j, "a");
            sw_json_key(&j, "b");
            break;
        case 2: /* a key in an array */
            sw_json_key(&j, "a");
            break;
        case 3: /* a key without its value */
            sw_json_key(&j, "a");
            sw_json_end(&j);
            break;
        case 4: /* a bracket too many */
            sw_json_end(&j);
            sw_json_end(&j);
            break;
        case 5: /* a line inside */
            sw_json_line(&j);
            break;
        default: /* too deep */
            for (int i = 0; i < SW_JSON_DEPTH; i++)
                sw_json_open(&j, "a", '{');
            break;
        }
        SW_CHECK(j.status == SW_INVALID || (what == 6 && j.status == SW_NOMEM), "case %d: %s",
                 what, sw_status_name(j.status));
    }
}

/* A double and back, bit for bit. */
static void check_double(double x)
{
    char buffer[64];
    sw_json j;
    sw_json_fixed(&j, buffer, sizeof buffer - 1, NULL, NULL);
    sw_json_f64(&j, x);
    buffer[j.used] = '\0';
    const double back = strtod(buffer, NULL);
    SW_CHECK(j.status == SW_OK && memcmp(&back, &x, sizeof x) == 0, "%a became %s", x, buffer);
}

SW_TEST("doubles come back bit for bit, others are null")
{
    static const double edges[] = {0.0,     -0.0,   1.0,
                                   -1.0,    0.1,    1e300,
                                   -1e-300, 5e-324, 1.7976931348623157e308,
                                   3.0,     1e15,   123456789012345678.0};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check_double(edges[i]);
    sw_dice dice = {7};
    for (int i = 0; i < 20000; i++) {
        const uint64_t bits = sw_dice_next(&dice);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (x - x == 0.0)
            check_double(x);
        check_double((double)(float)(int64_t)(bits % 1000000) / 1000.0);
    }
    char buffer[64];
    sw_json j;
    sw_json_fixed(&j, buffer, sizeof buffer, NULL, NULL);
    const double zero = 0.0;
    sw_json_begin(&j, '[');
    sw_json_f64(&j, zero / zero);
    sw_json_f64(&j, 1.0 / zero);
    sw_json_f64(&j, -1.0 / zero);
    sw_json_end(&j);
    CU_ASSERT(j.used == 16 && memcmp(buffer, "[null,null,null]", 16) == 0);
}

static void put_locale_back(void *arg)
{
    setlocale(LC_ALL, "C");
}

/* A locale with a decimal comma, up to the end of the test; false: none is installed. */
static bool set_comma(void)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE",
                                         "ru_RU.UTF-8"};
    for (size_t i = 0; i < sizeof commas / sizeof *commas; i++)
        if (setlocale(LC_ALL, commas[i]) != NULL) {
            sw_after(put_locale_back, NULL);
            return true;
        }
    return false;
}

SW_TEST("a decimal comma stays out")
{
    if (!set_comma())
        SW_SKIP("no locale with a decimal comma is installed");
    char buffer[64];
    sw_json j;
    sw_json_fixed(&j, buffer, sizeof buffer, NULL, NULL);
    sw_json_f64(&j, 0.5);
    CU_ASSERT(j.used == 3 && memcmp(buffer, "0.5", 3) == 0);
}

/* Random bytes without zeros: often no UTF-8 at all. */
static void random_text(sw_dice *dice, char *to, size_t max)
{
    const size_t n = (size_t)sw_dice_below(dice, max);
    const bool wild = sw_dice_below(dice, 2) == 0;
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(wild ? 1 + sw_dice_below(dice, 255) : 0x20 + sw_dice_below(dice, 0x5f));
    to[n] = '\0';
}

SW_TEST("any bytes become valid UTF-8")
{
    char text[64];
    const int step = sw_tests_full() ? 1 : 13; /* odd: each b comes with some a */
    for (int a = 1; a < 256; a++)
        for (int b = a % step; b < 256; b += step) {
            char buffer[256];
            const char bytes[] = {(char)a, (char)b, '\x80', '\x80', '!', '\0'};
            sw_json j;
            sw_json_fixed(&j, buffer, sizeof buffer, NULL, NULL);
            sw_json_string(&j, bytes);
            json_t *back = json_loadb(buffer, j.used);
            SW_CHECK(back != NULL, "bytes %02x %02x", (unsigned)a, (unsigned)b);
            json_decref(back);
        }
    sw_dice dice = {11};
    for (int i = 0; i < (sw_tests_full() ? 20000 : 1000); i++) {
        char buffer[1024];
        random_text(&dice, text, sizeof text);
        sw_json j;
        sw_json_fixed(&j, buffer, sizeof buffer, NULL, NULL);
        sw_json_string(&j, text);
        json_t *back = json_loadb(buffer, j.used);
        size_t whole = 0;
        for (size_t n = 1; n > 0 && text[whole] != '\0'; whole += n)
            n = sw_utf8_sequence(text + whole);
        SW_CHECK(back != NULL &&
                     (text[whole] != '\0' || strcmp(json_string_value(back), text) == 0),
                 "text %d", i);
        json_decref(back);
    }
}

/* Write a random value, and build it as a tree. */
static value random_value(sw_dice *dice, sw_json *j, int depth, value_tree *t)
{
    char text[32];
    value out = 0, item[10];
    const uint64_t kind = sw_dice_below(dice, depth > 0 ? 8 : 6);
    const int64_t number = (int64_t)sw_dice_next(dice) >> (sw_dice_below(dice, 5) + 4);
    const double real = (double)(number | 1) * 1.2345e-12;
    sw_status status = SW_OK;
    switch (kind) {
    case 0:
        sw_json_i64(j, number);
        return value_int(number);
    case 1:
        sw_json_u64(j, (uint64_t)number);
        status = value_real_new(t, &out, (double)(uint64_t)number, true, (uint64_t)number);
        return number >= 0 || status != SW_OK ? value_int(number) : out;
    case 2:
        sw_json_f64(j, real);
        (void)!value_real_new(t, &out, real, false, 0);
        return out;
    case 3:
        random_text(dice, text, sizeof text);
        for (char *c = text; *c != '\0'; c++)
            *c = ((unsigned char)*c & 0x7f) != 0 ? (char)((unsigned char)*c & 0x7f) : 'z';
        sw_json_string(j, text);
        status = value_text_new(t, &out, text, strlen(text));
        return status == SW_OK ? out : 0;
    case 4:
        sw_json_bool(j, number > 0);
        return number > 0 ? VALUE_TRUE : VALUE_FALSE;
    case 5:
        sw_json_null(j);
        return VALUE_NULL;
    default:
        break;
    }
    const bool list = kind == 6;
    size_t n = 0;
    status = value_new(t, &out, list ? VALUE_LIST : VALUE_DICT);
    sw_json_begin(j, list ? '[' : '{');
    for (uint64_t i = 0, most = sw_dice_below(dice, 5); i < most && status == SW_OK; i++) {
        snprintf(text, sizeof text, "k%llu\"\\%c", (unsigned long long)i,
                 (char)(1 + sw_dice_below(dice, 126)));
        if (!list) {
            sw_json_key(j, text);
            status = value_text_new(t, &item[n++], text, strlen(text));
        }
        item[n++] = random_value(dice, j, depth - 1, t);
    }
    sw_json_end(j);
    if (n > 0 && status == SW_OK)
        status = value_add(t, out, item, n);
    CU_ASSERT_EQUAL(status, SW_OK);
    return out;
}

SW_TEST("random values read back equal")
{
    static value_tree tree;
    sw_dice dice = {13};
    CU_ASSERT_EQUAL_FATAL(value_tree_open_for(&tree, "random", (size_t)64 << 20), SW_OK);
    for (int i = 0; i < 3000; i++) {
        sw_json j;
        sw_json_growing(&j, SW_HEAP_FILES);
        value_tree_reset(&tree);
        const value wanted = random_value(&dice, &j, 6, &tree);
        json_t *got = j.status == SW_OK ? json_loadb(j.bytes, j.used) : NULL;
        SW_CHECK(got != NULL && json_equal(got, (json_t *)(uintptr_t)wanted), "value %d: %s", i,
                 sw_last_error());
        json_decref(got);
        sw_json_free(&j);
    }
    value_tree_close(&tree);
}

/* Line breaks and blanks are where they were asked for, and nothing else changes. */
SW_TEST("breaks and blanks are layout")
{
    static const char wants[] =
        "{\n \"a\": [1, 2],\n \"b\": [\n  {\"x\": 0.1, \"y\": []},\n  7\n ]\n}\n";
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    j.spaced = true;
    sw_json_begin(&j, '{');
    sw_json_break(&j, 1);
    sw_json_open(&j, "a", '[');
    sw_json_u32s(&j, (const uint32_t[]){1, 2}, 2);
    sw_json_end(&j);
    sw_json_break(&j, 1);
    sw_json_open(&j, "b", '[');
    sw_json_break(&j, 2);
    sw_json_begin(&j, '{');
    sw_json_put_f32(&j, "x", 0.1f);
    sw_json_open(&j, "y", '[');
    sw_json_end(&j);
    sw_json_end(&j);
    sw_json_break(&j, 2);
    sw_json_u64(&j, 7);
    sw_json_break(&j, 1);
    sw_json_end(&j);
    sw_json_break(&j, 0);
    sw_json_end(&j);
    sw_json_line(&j);
    CU_ASSERT_EQUAL_FATAL(j.status, SW_OK);
    CU_ASSERT_EQUAL(j.used, sizeof wants - 1);
    CU_ASSERT_EQUAL(memcmp(j.bytes, wants, sizeof wants - 1), 0);
    sw_json_free(&j);
}

/* Floats have the fewest digits that tell them apart, and come back bit for bit. */
SW_TEST("floats come back bit for bit")
{
    sw_dice dice = {29};
    for (int i = 0; i < 20000; i++) {
        char text[64];
        sw_json j;
        uint32_t bits = (uint32_t)sw_dice_next(&dice), again;
        float x, back;
        memcpy(&x, &bits, sizeof x);
        sw_json_fixed(&j, text, sizeof text, NULL, NULL);
        sw_json_f32(&j, x);
        CU_ASSERT_EQUAL_FATAL(j.status, SW_OK);
        text[j.used] = '\0';
        if (!isfinite(x)) {
            CU_ASSERT_STRING_EQUAL(text, "null");
            continue;
        }
        back = (float)strtod(text, NULL);
        memcpy(&again, &back, sizeof back);
        CU_ASSERT_EQUAL(again, bits);
    }
    char text[64];
    sw_json j;
    sw_json_fixed(&j, text, sizeof text, NULL, NULL);
    sw_json_f32(&j, 0.001f);
    CU_ASSERT(j.used == 5 && memcmp(text, "0.001", 5) == 0);
}

/* ---- one text ---------------------------------------------------------------------------- */

/* Where a text comes in pieces of some bytes, as a file does. */
typedef struct {
    const char *text;
    size_t n, at, piece;
    unsigned char buffer[64]; /* what is after a piece may not be read */
} feeder;

static sw_status feed(sw_json_in *in)
{
    feeder *f = in->context;
    const size_t left = f->n - f->at, n = left < f->piece ? left : f->piece;
    memset(f->buffer, '"', sizeof f->buffer);
    if (n > 0)
        memcpy(f->buffer, f->text + f->at, n);
    in->before += in->bytes;
    in->text = f->buffer;
    in->at = 0;
    in->bytes = n;
    f->at += n;
    return SW_OK;
}

/* In pieces of `piece` bytes; 0: at once, from a block of just these bytes. */
static sw_status parse(value_tree *t, const char *text, size_t n, size_t piece, bool strict,
                       value *out)
{
    feeder f = {.text = text, .n = n, .piece = piece};
    json_buffer room = {0};
    char *exact = malloc(n + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
    char *block = exact + 1; /* no space after it for a reader that goes too far */
    if (n > 0)
        memcpy(block, text, n);
    sw_json_in in = sw_json_in_text(piece > 0 ? NULL : block, piece > 0 ? 0 : n, "text");
    in.more = piece > 0 ? feed : NULL;
    in.context = &f;
    in.strict = strict;
    value_tree_reset(t);
    const sw_status status = json_tree_build(t, &room, &in, out);
    json_buffer_free(&room);
    free(exact);
    return status;
}

static value_tree tree;

static void open_tree(void)
{
    CU_ASSERT_EQUAL_FATAL(value_tree_open_for(&tree, "text", (size_t)64 << 20), SW_OK);
}

/* ---- what is JSON ------------------------------------------------------------------------ */

#define TEXT(text) text, sizeof(text) - 1

static const struct {
    const char *text;
    size_t n;
    const char *says; /* NULL: it is taken */
} cases[] = {
    {TEXT("0"), NULL},
    {TEXT("-0"), NULL},
    {TEXT(" \t\r\n[ ] "), NULL},
    {TEXT("{\"\":{}, \"a\" : [1 , -2.5e+3,1E5] }"), NULL},
    {TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uD83D\\uDE00\""), NULL},
    {TEXT("\"\xc3\xa4\xf0\x9f\x98\x80\x7f\""), NULL},
    {TEXT("18446744073709551615"), NULL},
    {TEXT("123456789012345678901234567890"), NULL},
    {TEXT("1.7976931348623157e308"), NULL},
    {TEXT("1e-999"), NULL},
    {TEXT(""), "byte 0: the text ends where a value was expected"},
    {TEXT(" "), "byte 1: the text ends where a value was expected"},
    {TEXT("+1"), "byte 0: a value was expected"},
    {TEXT(".5"), "byte 0: a value was expected"},
    {TEXT("01"), "byte 1: a number that begins with 0"},
    {TEXT("-01"), "byte 2: a number that begins with 0"},
    {TEXT("1."), "byte 2: a digit was expected"},
    {TEXT("1.e5"), "byte 2: a digit was expected"},
    {TEXT("1e"), "byte 2: a digit was expected"},
    {TEXT("1e+"), "byte 3: a digit was expected"},
    {TEXT("--1"), "byte 1: a digit was expected"},
    {TEXT("0x1"), "byte 1: something stands after the value"},
    {TEXT("1e309"), "byte 5: a number that is too large"},
    {TEXT("-1e99999999999999999999"), "a number that is too large"},
    {TEXT("NaN"), "byte 3: a value was expected"},
    {TEXT("Infinity"), "byte 8: a value was expected"},
    {TEXT("tru"), "byte 3: a value was expected"},
    {TEXT("truee"), "byte 5: a value was expected"},
    {TEXT("nullnull"), "byte 8: a value was expected"},
    {TEXT("[1 2]"), "byte 3: a comma or the closing bracket was expected"},
    {TEXT("[1,]"), "byte 3: a comma before the closing bracket"},
    {TEXT("[,1]"), "byte 1: a value was expected"},
    {TEXT("[1}"), "byte 2: a comma or the closing bracket was expected"},
    {TEXT("[1"), "byte 2: the text ends inside of brackets"},
    {TEXT("{\"a\" 1}"), "byte 5: ':' was expected"},
    {TEXT("{\"a\":1,}"), "byte 7: a comma before the closing bracket"},
    {TEXT("{1:1}"), "byte 1: a key was expected"},
    {TEXT("{\"a\":1 \"b\":2}"), "byte 7: a comma or the closing bracket was expected"},
    {TEXT("[] []"), "byte 3: something stands after the value"},
    {TEXT("[]\0"), "byte 2: something stands after the value"},
    {TEXT("\"a"), "byte 2: a string without an end"},
    {TEXT("\"a\n\""), "byte 2: a control character in a string"},
    {TEXT("\"\0\""), "byte 1: a control character in a string"},
    {TEXT("\"\\x\""), "byte 2: unknown escape"},
    {TEXT("\"\\"), "byte 2: unknown escape"},
    {TEXT("\"\\u12\""), "byte 5: four hexadecimal digits were expected"},
    {TEXT("\"\\ud800\""), "byte 7: half a surrogate pair"},
    {TEXT("\"\\ud800\\n\""), "half a surrogate pair"},
    {TEXT("\"\\udc00\""), "byte 7: half a surrogate pair"},
    {TEXT("\"\\ud800\\u0041\""), "byte 13: half a surrogate pair"},
    {TEXT("\"\\u0000\""), "byte 7: a zero character in a string"},
    {TEXT("\"\x80\""), "a string must be UTF-8"},
    {TEXT("\"\xc3\""), "byte 2: a string must be UTF-8"},
    {TEXT("\"\xc0\xaf\""), "a string must be UTF-8"},         /* overlong */
    {TEXT("\"\xed\xa0\x80\""), "a string must be UTF-8"},     /* a surrogate */
    {TEXT("\"\xf4\x90\x80\x80\""), "a string must be UTF-8"}, /* past U+10FFFF */
    {TEXT("\"\xff\xff\xff\xff\""), "a string must be UTF-8"},
    {TEXT("\xef\xbb\xbf{}"), "byte 0: a value was expected"}, /* a byte order mark */
};

SW_TEST("JSON is what its grammar says")
{
    open_tree();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 0; piece < 4; piece++) {
            value out;
            const sw_status status = parse(&tree, cases[i].text, cases[i].n, piece, true, &out);
            SW_CHECK(cases[i].says == NULL ? status == SW_OK
                                           : status == SW_FORMAT &&
                                                 strstr(sw_last_error(), cases[i].says) != NULL,
                     "case %zu in pieces of %zu: %s: %s", i, piece, cases[i].text,
                     status == SW_OK ? "taken" : sw_last_error());
        }
    value_tree_close(&tree);
}

SW_TEST("numbers and texts arrive")
{
    static const char text[] =
        "{\"a\":9223372036854775808,\"b\":-3,\"c\":2.5,\"d\":3e2,\"e\":true,\"f\":null,\"g\":"
        "\"\\u00e4\\ud83d\\ude00\",\"h\":[1,2],\"b\":4,\"i\":-1,\"j\":18446744073709551616}";
    value o;
    uint64_t x = 0;
    open_tree();
    CU_ASSERT_EQUAL_FATAL(parse(&tree, text, sizeof text - 1, 0, true, &o), SW_OK);
    CU_ASSERT(value_whole(value_at(o, "a"), &x) && x == (uint64_t)1 << 63);
    CU_ASSERT(value_number(value_at(o, "b")) == 4); /* the latest of two */
    CU_ASSERT(value_real(value_at(o, "c")) == 2.5 && !value_whole(value_at(o, "c"), &x));
    CU_ASSERT(value_whole(value_at(o, "d"), &x) && x == 300);
    CU_ASSERT(value_at(o, "e") == VALUE_TRUE && value_at(o, "f") == VALUE_NULL);
    CU_ASSERT_STRING_EQUAL(value_text(value_at(o, "g")), "\xc3\xa4\xf0\x9f\x98\x80");
    CU_ASSERT(value_count(value_at(o, "h")) == 2 && value_count(o) == 11);
    CU_ASSERT(!value_whole(value_at(o, "i"), &x) && !value_whole(value_at(o, "j"), &x));
    CU_ASSERT(value_real(value_at(o, "j")) == 0x1p64);
    CU_ASSERT(value_at(o, "none") == 0 && !value_whole(value_at(o, "none"), &x));
    value_tree_close(&tree);
}

/* Line and column, where a text has lines. */
SW_TEST("messages name line and column")
{
    static const char text[] = "{\n  \"a\": 1,\n  \"b\" 2\n}";
    json_buffer room = {0};
    value out;
    open_tree();
    sw_json_in in = sw_json_in_text(text, sizeof text - 1, "file.json");
    in.line = 7;
    CU_ASSERT_EQUAL(json_tree_build(&tree, &room, &in, &out), SW_FORMAT);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "file.json: line 9: column 7: ':' was expected");
    json_buffer_free(&room);
    value_tree_close(&tree);
}

/* ---- harm -------------------------------------------------------------------------------- */

SW_TEST("brackets are bounded")
{
    static char deep[1 << 20];
    value out;
    open_tree();
    memset(deep, '[', sizeof deep);
    CU_ASSERT_EQUAL(parse(&tree, deep, sizeof deep, 0, true, &out), SW_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "byte 64: brackets are too deep"));
    memset(deep + JSON_TREE_DEPTH, ']', JSON_TREE_DEPTH);
    CU_ASSERT_EQUAL(parse(&tree, deep, 2 * JSON_TREE_DEPTH, 0, true, &out), SW_OK);
    for (size_t n = 0; n + 5 <= sizeof deep; n += 5)
        memcpy(deep + n, "{\"a\":", 5);
    CU_ASSERT_EQUAL(parse(&tree, deep, sizeof deep, 0, true, &out), SW_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "brackets are too deep"));
    value_tree_close(&tree);
}

/* A program with a decimal comma reads what others wrote. */
SW_TEST("fractions have a point in every locale")
{
    static const char text[] = "[0.001, -2.5e3, 7, 1E2]";
    static const double is[] = {0.001, -2500, 7, 100};
    if (!set_comma())
        SW_SKIP("no locale with a decimal comma is installed");
    sw_json_in in = sw_json_in_text(text, sizeof text - 1, "text");
    for (int i = 0; i < 4; i++) {
        sw_json_number x;
        CU_ASSERT_EQUAL(sw_json_expect(&in, i == 0 ? '[' : ','), SW_OK);
        CU_ASSERT_EQUAL(sw_json_get_number(&in, &x), SW_OK);
        CU_ASSERT(x.real == is[i]);
    }
}

SW_TEST("long numbers and strings are bounded")
{
    static char text[1 << 20];
    value out;
    open_tree();
    memset(text, '7', sizeof text);
    CU_ASSERT_EQUAL(parse(&tree, text, sizeof text, 3, true, &out), SW_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "byte 400: a number that is too long"));
    text[0] = text[sizeof text - 1] = '"';
    CU_ASSERT_EQUAL(parse(&tree, text, sizeof text, 3, true, &out), SW_OK);
    CU_ASSERT_EQUAL(strlen(value_text(out)), sizeof text - 2);

    char room[5] = "....";
    sw_json_text fixed = {.to = room, .cap = 3};
    sw_json_in in = sw_json_in_text(text, sizeof text, "text");
    CU_ASSERT_EQUAL(sw_json_get_string(&in, &fixed), SW_OK);
    CU_ASSERT(fixed.length == sizeof text - 2 && strcmp(room, "777.") == 0);
    value_tree_close(&tree);

    /* A tree that is full says so, and nothing is written after it. */
    CU_ASSERT_EQUAL_FATAL(value_tree_open_for(&tree, "text", 4096), SW_OK);
    tree.line = 3;
    CU_ASSERT_EQUAL(parse(&tree, text, sizeof text, 0, true, &out), SW_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "text: line 3 takes more than"));
    CU_ASSERT(tree.full);
    value_tree_close(&tree);
}

/* Goes to every value of a tree, so that sanitizers see what is wrong with one. */
static uint64_t visit(value v)
{
    uint64_t sum = value_count(v) + (value_is_number(v) ? value_real(v) > 0.0 : 0);
    for (uint64_t i = 0; i < value_count(v); i++)
        sum += value_kind_of(v) == VALUE_DICT
                   ? strlen(value_key(v, i)) + visit(value_member(v, i))
                   : visit(value_item(v, i));
    return sum + (value_kind_of(v) == VALUE_TEXT ? strlen(value_text(v)) : 0);
}

/* Each cut, and each change of a byte: taken whole or refused by its place; in pieces it is the
 * same. */
SW_TEST("damaged texts are refused or whole")
{
    static const char whole[] =
        " {\"type\":\"step\",\"loss\":-1.25e-3,\"list\":[0,12,true,null,"
        "{}],\"t\\u00e4\\n\":\"\xc3\xa4\\ud83d\\ude00\",\"u\":[[[{}]]]} ";
    const char marks[] = "\"\\[]{},:0-.eun\n\x80\xff ";
    char text[sizeof whole];
    sw_dice dice = {2027};
    unsigned taken = 0, refused = 0;
    open_tree();
    for (int i = 0; i < 60000; i++) {
        size_t n = sizeof whole - 1;
        memcpy(text, whole, n);
        if (i < (int)n)
            n = (size_t)i;
        for (uint64_t k = i < 200 ? 0 : 1 + sw_dice_below(&dice, 3); k > 0; k--)
            text[sw_dice_below(&dice, n)] = sw_dice_below(&dice, 2) == 0
                                                ? marks[sw_dice_below(&dice, sizeof marks - 1)]
                                                : (char)sw_dice_below(&dice, 256);
        value out = 0;
        const sw_status status = parse(&tree, text, n, 0, i % 2 == 0, &out);
        const uint64_t sum = status == SW_OK ? visit(out) : 0;
        const char *said = status == SW_OK ? "" : sw_last_error();
        SW_CHECK(status == SW_OK ||
                     (status == SW_FORMAT && strncmp(said, "text: byte ", 11) == 0),
                 "%d: %s", i, said);
        taken += status == SW_OK;
        refused += status != SW_OK;
        const sw_status again = parse(&tree, text, n, 1 + (size_t)i % 7, i % 2 == 0, &out);
        SW_CHECK(again == status &&
                     (status == SW_OK ? visit(out) == sum : strcmp(sw_last_error(), said) == 0),
                 "%d: in pieces: %s, at once: %s", i, sw_last_error(), said);
    }
    sw_note("%u taken, %u refused", taken, refused);
    CU_ASSERT(taken > 1000 && refused > 10000);
    value_tree_close(&tree);
}

static sw_status build_once(void *arg)
{
    static value_tree fresh;
    static const char text[] = "{\"a\":[1,2.5,\"text\",{\"b\":null}]}";
    json_buffer room = {0};
    value out;
    sw_json_in in = sw_json_in_text(text, sizeof text - 1, "text");
    SW_TRY(value_tree_open_for(&fresh, "text", (size_t)1 << 20));
    const sw_status status = json_tree_build(&fresh, &room, &in, &out);
    json_buffer_free(&room);
    value_tree_close(&fresh);
    return status;
}

SW_TEST("every refusal of memory is reported")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, build_once, NULL) > 3);
}

/* ---- keys -------------------------------------------------------------------------------- */

typedef struct {
    char keys[4][400];
    int n, depth;
} keys_read;

static sw_status take_key(sw_json_in *in, const char *key, void *context)
{
    keys_read *r = context;
    CU_ASSERT_FATAL(r->n < 4 && strlen(key) < sizeof r->keys[0]);
    int c;
    SW_TRY(sw_json_peek(in, &c));
    SW_TRY(c == '{' ? sw_json_get_object(in, take_key, r) : sw_json_skip(in));
    snprintf(r->keys[r->n++], sizeof r->keys[0], "%s", key); /* after what lies in it */
    return SW_OK;
}

typedef struct {
    const char *text;
    keys_read read;
} keys_text;

static sw_status read_keys(void *context)
{
    keys_text *t = context;
    t->read.n = 0;
    sw_json_in in = sw_json_in_text(t->text, strlen(t->text), "keys");
    return sw_json_get_object(&in, take_key, &t->read);
}

/* Of any length, also where other keys are read before they are used. */
SW_TEST("keys are read whole")
{
    static const int lengths[] = {0, 1, 46, 47, 48, 49, 95, 96, 97, 200, 399};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char name[400], other[400], text[1000];
        memset(name, 'k', sizeof name);
        memset(other, 'o', sizeof other);
        name[lengths[i]] = '\0';
        other[399 - lengths[i]] = '\0';
        snprintf(text, sizeof text, "{\"%s\": {\"%s\": [1]}, \"last\": 2}", name, other);
        keys_text t = {.text = text};
        const uint64_t blocks = sw_heap_blocks();
        CU_ASSERT_EQUAL(read_keys(&t), SW_OK);
        CU_ASSERT(t.read.n == 3 && strcmp(t.read.keys[0], other) == 0 &&
                  strcmp(t.read.keys[1], name) == 0 && strcmp(t.read.keys[2], "last") == 0);
        const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, read_keys, &t);
        CU_ASSERT(sites > 0);
        CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    }
    keys_text brief = {.text = "{\"a\": {\"b\": 1}}"};
    CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, read_keys, &brief), 0);
    keys_text zero = {.text = "{\"a\\u0000b\": 1}"};
    CU_ASSERT(read_keys(&zero) == SW_FORMAT &&
              strstr(sw_last_error(), "a zero character in a key") != NULL);
}
