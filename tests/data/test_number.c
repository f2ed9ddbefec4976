/* Decimal numbers to floats, against the C library's own conversion. */
#include "runtime/data/data_internal.h"
#include "tests/support/suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("number")

/* The float's bits as strtof has them, or refused where that is infinite. */
static bool agrees(const char *text)
{
    swi_decimal d;
    float got = 0.0f;
    const float wanted = strtof(text, NULL);
    const bool number = swi_decimal_read(text, strlen(text), &d) == SWI_NUMBER;
    const bool fits = number && swi_decimal_float(&d, &got);
    return SW_CHECK(number && fits == !isinf(wanted) &&
                        (!fits || memcmp(&got, &wanted, sizeof got) == 0),
                    "%s: %a, must be %a", text, (double)got, (double)wanted);
}

SW_TEST("spellings are read")
{
    static const char *const texts[] = SW_INIT(
        "0", "-0", "+1", "1.", ".5", "-.25e1", "007.500", "1e5", "1E-5", "1e+05",
        "3.4028235e38", "3.4028236e38", "3.4028235677973366e38", "3.4028235677973365e38",
        "1e39", "-1e40", "1e-45", "7e-46", "7.1e-46", "1e-47", "1e400", "1e-400",
        "0e999999999999", "1e99999999999999999999", "1e-99999999999999999999",
        "123456789012345678901234567890", "0.1", "16777217", "16777219", "1.17549435e-38",
        "1.17549429e-38", "0.000000000000000000000000000001",
        "1000000000000000000000000000000000000000000e-42",
        "0.00000000000000000000000000000000000000000001e44");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        agrees(texts[i]);
}

SW_TEST("what is no number is refused")
{
    static const char *const texts[] = {
        "",   "-",   "+",   ".",    "-.", "e5", "1e",  "1e+", "1 2",  "1,5", "1.2.3", "0x10",
        "1f", "--1", "+-1", "1e5.", " 1", "1 ", "one", "na",  "infi", "1_0", "1e1e1", "nan1"};
    static const char *const wild[] = {"nan", "NaN", "-nan", "inf", "+Inf", "-INFINITY"};
    swi_decimal d;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        SW_CHECK(swi_decimal_read(texts[i], strlen(texts[i]), &d) == SWI_NO_NUMBER, "'%s'",
                 texts[i]);
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
        SW_CHECK(swi_decimal_read(wild[i], strlen(wild[i]), &d) == SWI_NOT_FINITE, "'%s'",
                 wild[i]);
    CU_ASSERT_EQUAL(swi_decimal_read("12x", 2, &d), SWI_NUMBER); /* no further than told */
}

SW_TEST("random numbers round to the nearest")
{
    sw_dice dice = {.state = 11};
    const int n = sw_tests_full() ? 3000000 : 100000;
    for (int i = 0; i < n; i++) {
        char text[80];
        const int digits = 1 + (int)sw_dice_below(&dice, 30);
        int at = 0;
        for (int k = 0; k < digits; k++)
            text[at++] = (char)('0' + sw_dice_below(&dice, 10));
        snprintf(text + at, sizeof text - (size_t)at, ".%llue%d",
                 (unsigned long long)sw_dice_below(&dice, 100000),
                 (int)sw_dice_below(&dice, 60) - 50 - digits / 2);
        if (!agrees(text))
            return;
    }
}

/* Exactly between two floats, and as little as one digit beside. */
SW_TEST("ties go to even")
{
    sw_dice dice = {.state = 12};
    for (int i = 0; i < (sw_tests_full() ? 100000 : 3000); i++) {
        char text[256];
        uint32_t bits = (uint32_t)sw_dice_below(&dice, i % 3 == 0 ? 0x00ffffff : 0x7f7fffff);
        float low;
        memcpy(&low, &bits, sizeof low);
        const double middle = ((double)low + (double)nextafterf(low, INFINITY)) / 2.0;
        const int length = snprintf(text, sizeof text, "%.149e", middle); /* every digit */
        if (!agrees(text))
            return;
        char *last = strchr(text, 'e') - 1;
        *last = '1'; /* it was '0' */
        if (!agrees(text))
            return;
        *last = '0';
        while (last > text && *last == '0')
            last--;
        *last = (char)(*last == '.' ? '.' : *last - 1);
        if (!agrees(text) || length < 0)
            return;
    }
}

SW_TEST("whole numbers are known")
{
    static const struct {
        const char *text, *whole; /* NULL: none */
    } cases[] = {{"0", "0"},
                 {"-0.0", "0"},
                 {"12", "12"},
                 {"-7", "-7"},
                 {"+3", "3"},
                 {"0012.00", "12"},
                 {"1.2e1", "12"},
                 {"1.000000e+00", "1"},
                 {"120", "120"},
                 {"1e17", "100000000000000000"},
                 {"999999999999999999", "999999999999999999"},
                 {"1e18", NULL},
                 {"1.5", NULL},
                 {"1e-1", NULL},
                 {"1e999999999", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char whole[SWI_WHOLE_BYTES] = "";
        swi_decimal d;
        CU_ASSERT_EQUAL(swi_decimal_read(cases[i].text, strlen(cases[i].text), &d), SWI_NUMBER);
        const bool is = swi_decimal_whole(&d, whole);
        SW_CHECK(is == (cases[i].whole != NULL) && (!is || strcmp(whole, cases[i].whole) == 0),
                 "%s: '%s'", cases[i].text, whole);
    }
}
