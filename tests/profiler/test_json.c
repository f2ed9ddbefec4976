/* The JSON writer; what it writes is read back. */
#include "profiler/inspect/values.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    (void)arg;
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
    (void)arg;
    setlocale(LC_ALL, "C");
}

SW_TEST("a decimal comma stays out")
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE",
                                         "ru_RU.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; set == NULL && i < sizeof commas / sizeof *commas; i++)
        set = setlocale(LC_ALL, commas[i]);
    if (set == NULL)
        SW_SKIP("no locale with a decimal comma is installed");
    sw_after(put_locale_back, NULL);
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
        return value_bool(number > 0);
    case 5:
        sw_json_null(j);
        return value_null();
    default:
        break;
    }
    const bool list = kind == 6;
    size_t n = 0;
    status = list ? value_list_new(t, &out) : value_dict_new(t, &out);
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
