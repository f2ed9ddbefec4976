/* Spaces of hyper-parameters: what is refused, what draws are. */
#include "runtime/population/pbt_internal.h"
#include "tests/population/pbt_help.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("space")

static const char *const four[] = {"lr=log:1e-5..1e-1", "optimizer.momentum=uniform:0..0.99",
                                   "width=int:8..64", "act=choice:relu,tanh,gelu"};

/* ---- what texts say ---------------------------------------------------------------------- */

SW_TEST("texts give spaces")
{
    sw_space *s = help_space(four, 4);
    sw_hyper h = SW_OPTS(sw_hyper);
    CU_ASSERT_EQUAL(sw_space_count(s), 4);
    CU_ASSERT_EQUAL(sw_space_find(s, "optimizer.momentum"), 1);
    CU_ASSERT_EQUAL(sw_space_find(s, "optimizer"), -1);
    OK(sw_space_at(s, 0, &h));
    CU_ASSERT(h.kind == SW_LOG_UNIFORM && h.low == 1e-5 && h.high == 1e-1);
    OK(sw_space_at(s, 2, &h));
    CU_ASSERT(h.kind == SW_INTEGER && h.low == 8 && h.high == 64);
    OK(sw_space_at(s, 3, &h));
    CU_ASSERT(h.kind == SW_CHOICE && h.n_choices == 3 && h.choices[2] == 2);
    CU_ASSERT_STRING_EQUAL(h.labels[1], "tanh");
    OK(sw_space_parse(s, "batch=choice:32,64,1.5e2"));
    OK(sw_space_at(s, 4, &h));
    CU_ASSERT(h.labels == NULL && h.choices[2] == 150 && h.n_choices == 3);
    OK(sw_space_parse(s, "x=uniform:-.5...5"));
    OK(sw_space_at(s, 5, &h));
    CU_ASSERT(h.low == -0.5 && h.high == 0.5);
    OK(sw_space_parse(s, "same=uniform:2..2"));
}

/* Each is refused with one line that names what is wrong, and the space stays. */
SW_TEST("texts that cannot be are refused in one line")
{
    static char long_name[64], long_text[5000], long_label[100];
    memset(long_name, 'n', 48);
    memcpy(long_name + 48, "=int:1..2", 10);
    memset(long_text, 'x', sizeof long_text - 1);
    memset(long_label, 'l', sizeof long_label - 1);
    memcpy(long_label, "w=choice:", 9);
    const struct {
        const char *text, *says;
    } cases[] = {
        {"lr", "NAME=KIND:VALUES"},
        {"lr=1", "NAME=KIND:VALUES"},
        {"", "NAME=KIND:VALUES"},
        {"=int:1..2", "1 to 47 bytes"},
        {"a=gauss:0..1", "uniform, log, int or choice (got 'gauss')"},
        {"a=uniform:1", "must be LOW..HIGH (got '1')"},
        {"a=uniform:..1", "low must be a number (got '')"},
        {"a=uniform:0..", "high must be a number (got '')"},
        {"a=uniform:0..1x", "high must be a number (got '1x')"},
        {"a=uniform:0x1..2", "low must be a number"},
        {"a=uniform:nan..2", "low must be a number"},
        {"a=uniform:0..1e999", "high must be finite"},
        {"a=uniform:2..1", "low must not be above high (got 2 and 1)"},
        {"a=int:3..-3", "low must not be above high"},
        {"a=int:1..2.5", "must be whole numbers"},
        {"a=int:0..1e16", "must be whole numbers up to 2^53"},
        {"a=log:0..1", "must be above 0 (got 0)"},
        {"a=log:-1..1", "must be above 0 (got -1)"},
        {"a=choice:", "must not be empty"},
        {"a=choice:1,,2", "choice 2 must not be empty"},
        {"a=choice:1,x", "all numbers or all words"},
        {"a=choice:1,2,1.0", "the choice 1 is there twice"},
        {"a=choice:x,y,x", "the label 'x' is there twice"},
        {"a=choice:1,inf", "must be finite (got 'inf')"},
        {"a=choice:NaN", "must be finite (got 'NaN')"},
        {"a=choice:1e999", "must be finite"},
        {"lr=int:1..2", "'lr': the space has this hyper-parameter already"},
        {"lr.x=int:1..2", "'lr.x' cannot be beside 'lr'"},
        {"optimizer=int:1..2", "'optimizer' cannot be beside 'optimizer.momentum'"},
        {"a b=int:1..2", "letters, digits"},
        {".a=int:1..2", "between two dots"},
        {"a.=int:1..2", "between two dots"},
        {"a..b=int:1..2", "between two dots"},
        {long_name, "1 to 47 bytes"},
        {long_text, "at most 4,095 bytes"},
        {long_label, "label 0 must have 1 to 63 bytes"},
    };
    sw_space *s = help_space(four, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REFUSED(sw_space_parse(s, cases[i].text), SW_INVALID, cases[i].says);
        SW_CHECK(strchr(sw_last_error(), '\n') == NULL, "more than one line");
        CU_ASSERT_EQUAL(sw_space_count(s), 4);
    }
}

SW_TEST("structs that cannot be are refused by name")
{
    sw_space *s = help_space(NULL, 0);
    const double two[] = {1, 2}, bad[] = {1, (double)NAN};
    const char *const labels[] = {"a", NULL};
    sw_hyper h = SW_OPTS(sw_hyper, .name = "h", .high = 1);
    h.kind = (sw_hyper_kind)9;
    REFUSED(sw_space_add(s, &h), SW_INVALID, "kind 9 is none");
    h.kind = SW_CHOICE;
    REFUSED(sw_space_add(s, &h), SW_INVALID, "1 to 4096 choices (got 0)");
    h.n_choices = 2;
    REFUSED(sw_space_add(s, &h), SW_INVALID, "choices must not be NULL");
    h.choices = bad;
    REFUSED(sw_space_add(s, &h), SW_INVALID, "choice 1 must be finite");
    h.choices = two;
    h.labels = labels;
    REFUSED(sw_space_add(s, &h), SW_INVALID, "label 1 must have");
    h.labels = NULL;
    h.kind = SW_UNIFORM;
    h.low = (double)NAN;
    REFUSED(sw_space_add(s, &h), SW_INVALID, "must be finite");
    CU_ASSERT_EQUAL(sw_space_count(s), 0);
    REFUSED(sw_space_at(s, 0, &h), SW_INVALID, "has 0 hyper-parameters (got 0)");
}

/* ---- draws ------------------------------------------------------------------------------- */

/* Within what was declared; each kind spread as it says; the same numbers twice. */
SW_TEST("draws are of their distributions")
{
    enum { DRAWS = 20000 };
    sw_space *s = help_space(four, 4);
    double below[4] = {0, 0, 0, 0}, x, again;
    int ends[2] = {0, 0}, choice[3] = {0, 0, 0};
    for (uint64_t d = 0; d < DRAWS; d++) {
        for (int i = 0; i < 4; i++) {
            OK(sw_space_draw(s, i, 5, d, &x));
            OK(sw_space_draw(s, i, 5, d, &again));
            if (x != again || !sw_space_has(s, i, x))
                SW_CHECK(false, "draw %d of %d: %g", (int)d, i, x);
            below[i] += i == 0 ? x < 1e-3 : i == 1 ? x < 0.495 : x < 36;
            if (i == 2)
                ends[0] += x == 8, ends[1] += x == 64;
            if (i == 3)
                choice[(int)x]++;
        }
    }
    const double s3 = 3 * sqrt(0.25 * DRAWS);
    CU_ASSERT(fabs(below[0] - DRAWS / 2.0) < s3); /* 1e-3 is the middle of the logarithms */
    CU_ASSERT(fabs(below[1] - DRAWS / 2.0) < s3);
    CU_ASSERT(fabs(below[2] - DRAWS * 28.0 / 57) < s3);
    for (int i = 0; i < 3; i++)
        CU_ASSERT(fabs(choice[i] - DRAWS / 3.0) < s3);
    CU_ASSERT(ends[0] > 250 && ends[1] > 250); /* of some 350 */
    OK(sw_space_draw(s, 0, 6, 0, &x));
    OK(sw_space_draw(s, 0, 5, 0, &again));
    CU_ASSERT(x != again);
}

SW_TEST("what is within is what was declared")
{
    sw_space *s = help_space(four, 4);
    CU_ASSERT(sw_space_has(s, 0, 1e-5) && sw_space_has(s, 0, 1e-1));
    CU_ASSERT(!sw_space_has(s, 0, nextafter(1e-1, 1)) && !sw_space_has(s, 0, (double)NAN));
    CU_ASSERT(sw_space_has(s, 2, 9) && !sw_space_has(s, 2, 9.5) && !sw_space_has(s, 2, 65));
    CU_ASSERT(sw_space_has(s, 3, 2) && !sw_space_has(s, 3, 3) && !sw_space_has(s, 3, 0.5));
    CU_ASSERT(!sw_space_has(s, 4, 1) && !sw_space_has(s, -1, 1));
}

/* Ours against libm's, which is right within a unit of the last place. */
SW_TEST("exp and log are right to two units")
{
    sw_dice dice = {3};
    for (int i = 0; i < 200000; i++) {
        const double u = (double)sw_dice_below(&dice, 1ull << 53) * 0x1p-53;
        const double x = (u - 0.5) * 1400,
                     y = ldexp(u + 1e-9, (int)sw_dice_below(&dice, 2000) - 1000);
        const double e = fabs(swi_exp(x) / exp(x) - 1), l = fabs(swi_log(y) - log(y));
        if (e > 0x1p-51 || l > 0x1p-51 * fabs(log(y)))
            SW_CHECK(false, "exp(%.17g) or log(%.17g)", x, y);
    }
    CU_ASSERT(swi_exp(0) == 1 && swi_log(1) == 0 && swi_exp(-800) == 0 && isinf(swi_exp(800)));
}

/* Bounds that are far apart, and those that are one number. */
SW_TEST("extreme bounds hold")
{
    static const char *const texts[] = {"a=uniform:-1.7e308..1.7e308", "b=log:1e-320..1e308",
                                        "c=int:-9007199254740992..9007199254740992",
                                        "d=log:3..3", "e=choice:7"};
    sw_space *s = help_space(texts, 5);
    for (uint64_t d = 0; d < 5000; d++)
        for (int i = 0; i < 5; i++) {
            double x = (double)NAN;
            OK(sw_space_draw(s, i, 1, d, &x));
            if (!sw_space_has(s, i, x))
                SW_CHECK(false, "%d: %.17g", i, x);
        }
}

static sw_status build(void *unused)
{
    sw_space *s;
    SW_TRY(sw_space_create(&s));
    sw_status status = SW_OK;
    for (int i = 0; i < 4 && status == SW_OK; i++)
        status = sw_space_parse(s, four[i]);
    sw_space_destroy(s);
    return status;
}

SW_TEST("every allocation fails once")
{
    sw_space *kept[70];
    for (int i = 0; i < 70; i++) /* handles wait before their memory is used again */
        OK(sw_space_create(&kept[i]));
    for (int i = 0; i < 70; i++)
        sw_space_destroy(kept[i]);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, build, NULL) >= 8);
}
