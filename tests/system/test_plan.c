/* stepwell plan: the table of several batches, the largest batch that fits, the picture. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/well_formed.h"
#include "tools/plan/plan_search.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/json.h"

SW_TESTS("plan")

static sw_outcome outcome;

/* ---- the search, against all batches ----------------------------------------------------- */

#define RANDOM_MOST 120
typedef struct {
    size_t total[RANDOM_MOST + 1], bound[RANDOM_MOST + 1];
    uint64_t form[RANDOM_MOST + 1];
    int64_t fails_at; /* 0: never */
} figures;

static sw_status bound_of(void *context, int64_t batch, plan_bound *out)
{
    const figures *f = context;
    CU_ASSERT_FATAL(batch >= 1 && batch <= RANDOM_MOST);
    *out = (plan_bound){f->bound[batch], f->form[batch]};
    return batch == f->fails_at ? SW_NOMEM : SW_OK;
}

static sw_status total_of(void *context, int64_t batch, size_t *out)
{
    const figures *f = context;
    CU_ASSERT_FATAL(batch >= 1 && batch <= RANDOM_MOST);
    *out = f->total[batch];
    return batch == f->fails_at ? SW_NOMEM : SW_OK;
}

/* Totals that go up and down; from grows_from on a bound below them that never falls. */
static void draw_figures(figures *f, sw_dice *dice, int64_t grows_from)
{
    *f = (figures){0};
    size_t bound = 0;
    for (int64_t b = 1; b <= RANDOM_MOST; b++) {
        bound += (size_t)sw_dice_below(dice, 20);
        f->bound[b] = b < grows_from ? (size_t)sw_dice_below(dice, 100) : bound;
        f->total[b] = f->bound[b] + (size_t)sw_dice_below(dice, 1 + sw_dice_below(dice, 300));
        f->form[b] = 7;
    }
}

static int64_t largest_of_all(const figures *f, int64_t most, size_t fit_bytes)
{
    for (int64_t b = most; b > 0; b--)
        if (f->total[b] <= fit_bytes)
            return b;
    return 0;
}

SW_TEST("the search finds the largest of all")
{
    static figures f;
    sw_dice dice = {11};
    int64_t saved = 0;
    for (int round = 0; round < 4000; round++) {
        plan_search s = {.bound = bound_of, .total = total_of, .context = &f};
        s.grows_from = 1 + (int64_t)sw_dice_below(&dice, RANDOM_MOST + 10);
        s.most = (int64_t)sw_dice_below(&dice, RANDOM_MOST + 1);
        s.fit_bytes = (size_t)sw_dice_below(&dice, 1200);
        draw_figures(&f, &dice, s.grows_from);
        plan_found found;
        CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
        const int64_t best = largest_of_all(&f, s.most, s.fit_bytes);
        SW_CHECK(found.batch == best && found.total_bytes == (best > 0 ? f.total[best] : 0),
                 "round %d: %lld, %lld is the largest", round, (long long)found.batch,
                 (long long)best);
        SW_CHECK(found.batch < found.excluded_from && found.excluded_from <= s.most + 1 &&
                     found.n_tried <= found.excluded_from - found.batch,
                 "round %d: excluded from %lld", round, (long long)found.excluded_from);
        if (found.excluded_from <= s.most)
            CU_ASSERT(found.excluded_bytes == f.bound[found.excluded_from] &&
                      found.excluded_bytes > s.fit_bytes);
        saved += s.most + 1 - found.excluded_from;
    }
    CU_ASSERT(saved > 4000); /* the bound was worth it */
}

/* Bounds 10, 20, 30 and so on, with `fallen` for those above 100 batches. */
static void draw_steps(figures *f, size_t fallen, uint64_t form)
{
    *f = (figures){0};
    for (int b = 1; b <= RANDOM_MOST; b++) {
        f->bound[b] = b > 100 ? 10 * (size_t)b - fallen : 10 * (size_t)b;
        f->total[b] = f->bound[b];
        f->form[b] = b > 100 ? form : 0;
    }
}

static plan_search search_in(figures *f)
{
    return (plan_search){300, RANDOM_MOST, 10, bound_of, total_of, f};
}

/* A bound that falls between batches of one form is not believed. */
SW_TEST("a bound that does not grow proves nothing")
{
    static figures f;
    const plan_search s = search_in(&f);
    plan_found found;
    draw_steps(&f, 1000, 0);
    f.bound[RANDOM_MOST] = f.total[RANDOM_MOST] = 5;
    CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
    CU_ASSERT_EQUAL(found.batch, RANDOM_MOST);
    CU_ASSERT_EQUAL(found.excluded_from, RANDOM_MOST + 1);
}

/* Another form begins anew: each is excluded by its own bounds. */
SW_TEST("each form is excluded by itself")
{
    static figures f;
    const plan_search s = search_in(&f);
    plan_found found;
    draw_steps(&f, 800, 1); /* of the batches above 100, those up to 110 fit */
    CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
    CU_ASSERT_EQUAL(found.batch, largest_of_all(&f, RANDOM_MOST, 300));
    CU_ASSERT(found.batch == 110 && found.excluded_from == 111 && found.n_tried == 1);
    draw_steps(&f, 0, 1); /* none of them does */
    CU_ASSERT_EQUAL_FATAL(plan_search_run(&s, &found), SW_OK);
    CU_ASSERT(found.batch == 30 && found.excluded_from == 31 && found.n_tried == 1);
    CU_ASSERT(found.n_bounds < 40);
}

SW_TEST("a failed search leaves its result")
{
    static figures f;
    sw_dice dice = {5};
    draw_figures(&f, &dice, 20);
    const plan_search s = SW_INIT(.fit_bytes = 300, .most = RANDOM_MOST, .grows_from = 20,
                                  .bound = bound_of, .total = total_of, .context = &f);
    plan_found found = {.batch = -5};
    f.fails_at = RANDOM_MOST;
    CU_ASSERT_EQUAL(plan_search_run(&s, &found), SW_NOMEM);
    f.fails_at = 20;
    CU_ASSERT_EQUAL(plan_search_run(&s, &found), SW_NOMEM);
    CU_ASSERT_EQUAL(found.batch, -5);
}

/* ---- the command ------------------------------------------------------------------------- */

static void let_go(void *json)
{
    json_decref(json);
}

/* The output for `words`, for json_decref(). */
static json_t *load(const char *words)
{
    program_run(&outcome, words, NULL);
    json_t *root = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(root), "%s: status %d: %s", words,
             outcome.status, outcome.err);
    return root;
}

/* The same, let go at the end of the test. */
static const json_t *object_of(const char *words)
{
    json_t *root = load(words);
    sw_after(let_go, root);
    return root;
}

static long long number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    SW_CHECK(json_is_integer(value), "no number under %s", key);
    return json_integer_value(value);
}

/* In the one unit of the table. */
static void in_units(char *to, size_t room, long long bytes)
{
    snprintf(to, room, "%.2f", (double)bytes / 1048576.0);
}

SW_TEST("the table has the peaks of each phase")
{
    static const char *const phases[] = {"data", "forward", "loss", "backward", "step"};
    const json_t *plans = json_object_get(object_of("plan --json --batch 1,32,128"), "plans");
    CU_ASSERT_EQUAL_FATAL(json_array_size(plans), 3);
    program_run(&outcome, "plan --batch 1,32,128", NULL);
    for (size_t i = 0; i < 3; i++) {
        const json_t *plan = json_array_get(plans, i);
        char row[200], cell[40];
        int n = snprintf(row, sizeof row, "%10lld", number(plan, "batch"));
        for (int p = 0; p < 6; p++) {
            in_units(
                cell, sizeof cell,
                p == 5 ? number(plan, "total_bytes")
                       : number(json_object_get(json_object_get(plan, "predicted"), phases[p]),
                                "peak_bytes"));
            n += snprintf(row + n, sizeof row - (size_t)n, " %10s", cell);
        }
        SW_CHECK(strstr(outcome.out, row) != NULL, "no line '%s' in %s", row, outcome.out);
    }
}

/* The largest need of the programs of one plan. */
static long long most_of(const json_t *plan)
{
    const json_t *programs = json_object_get(plan, "programs");
    long long most = 0;
    for (size_t i = 0; i < json_array_size(programs); i++) {
        const long long total = number(json_array_get(programs, i), "total_bytes");
        most = total > most ? total : most;
    }
    return most;
}

#define BRUTE_MOST 2400
#define IMAGE_BYTES 2355 /* inputs of one image in all slots of the loader */

/* Of each batch what it needs, by planning it alone; multiples of 16, the most that --batch
 * takes. No larger batch fits the sizes that are asked, since its inputs alone do not. */
static int brute;
static void plan_each(const char *model, long long *needs)
{
    char words[500];
    for (int from = 1; from <= brute; from += 16) {
        int n =
            snprintf(words, sizeof words, "plan --json --synthetic-n 1000 %s --batch ", model);
        for (int i = 0; i < 16; i++)
            n += snprintf(words + n, sizeof words - (size_t)n, "%s%d", i > 0 ? "," : "",
                          from + i);
        json_t *root = load(words);
        const json_t *plans = json_object_get(root, "plans");
        CU_ASSERT_EQUAL(json_array_size(plans), 16);
        for (size_t i = 0; i < 16; i++)
            needs[from + (int)i] = most_of(json_array_get(plans, i));
        json_decref(root);
    }
}

static long long largest_below(const long long *needs, long long fit_bytes)
{
    int b = brute;
    while (b > 0 && needs[b] > fit_bytes)
        b--;
    return b;
}

static void check_fit(const char *model, const long long *needs, long long fit_bytes)
{
    const long long best = largest_below(needs, fit_bytes);
    const char *words = sw_textf("plan --json --synthetic-n 1000 %s --no-recompute --fit %lld",
                                 model, fit_bytes);
    if (best == 0) {
        program_run(&outcome, words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 4), "%s: status %d", words, outcome.status);
        return;
    }
    json_t *root = load(words);
    SW_CHECK(number(root, "largest_batch") == best && number(root, "batch") == best &&
                 number(root, "fit_bytes") == fit_bytes &&
                 number(root, "total_bytes") <= fit_bytes && most_of(root) == needs[best],
             "%s: %lld, and %lld is the largest", words, number(root, "largest_batch"), best);
    const json_t *next = json_object_get(json_object_get(root, "fit"), "next");
    CU_ASSERT_EQUAL(json_array_size(next), 3);
    for (size_t i = 0; i < json_array_size(next); i++) {
        const json_t *one = json_array_get(next, i);
        const long long b = number(one, "batch"), total = number(one, "job_total_bytes");
        SW_CHECK(b == best + 1 + (long long)i && total > fit_bytes &&
                     (b > brute || total == needs[b]),
                 "%s: beside it %lld with %lld", words, b, total);
    }
    json_decref(root);
}

/* Sizes at the edge of each step, where one byte more or less decides, and some between. */
SW_TEST("the answer is the largest of all batches")
{
    static const char *const models[] = {
        "--model mlp --hidden 4 --optimizer sgd", "--optimizer sgd",
        "--model mlp --hidden 3 --immediate --optimizer sgd",
        "--immediate --optimizer momentum", "--update after --threads 2"};
    static long long needs[BRUTE_MOST + 1];
    sw_dice dice = {23};
    brute = sw_tests_full() ? BRUTE_MOST : 300;
    for (size_t m = 0; m < (sw_tests_full() ? 5 : 2); m++) {
        int most = brute;
        plan_each(models[m], needs);
        while (most > 1 && needs[most] / IMAGE_BYTES + 40 > brute)
            most--;
        SW_CHECK(most > 13, "%s: sizes of up to %d images", models[m], most);
        for (int i = 0; i < (sw_tests_full() ? 100 : 12); i++)
            check_fit(models[m], needs,
                      needs[1 + sw_dice_below(&dice, (uint64_t)most)] +
                          (long long)sw_dice_below(&dice, 3) - 1 +
                          (i % 4 == 3 ? (long long)sw_dice_below(&dice, 30000) : 0));
        check_fit(models[m], needs, needs[1] - 1);
    }
}

/* The bound that excludes larger batches: model, data and the most that lives at one time. */
SW_TEST("what lives at one time grows with the batch")
{
    static const char *const models[] = {"", "--isa base --clip 1",
                                         "--model mlp --update after",
                                         "--model mlp --hidden 7,300,9 --optimizer nesterov"};
    const int to = sw_tests_full() ? 4000 : 140;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        long long before = 0;
        for (int from = 60; from < to; from += 16) {
            char words[500];
            int n = snprintf(words, sizeof words, "plan --json %s --batch ", models[m]);
            for (int i = 0; i < 16; i++)
                n += snprintf(words + n, sizeof words - (size_t)n, "%s%d", i > 0 ? "," : "",
                              from + i);
            json_t *root = load(words);
            const json_t *plans = json_object_get(root, "plans");
            CU_ASSERT_EQUAL(json_array_size(plans), 16);
            for (size_t i = 0; i < json_array_size(plans); i++) {
                const json_t *p = json_array_get(plans, i);
                const long long bound = number(p, "model_bytes") + number(p, "data_bytes") +
                                        number(p, "lower_bound_bytes");
                SW_CHECK(bound >= before && bound <= number(p, "total_bytes"),
                         "%s, batch %d: %lld after %lld", models[m], from + (int)i, bound,
                         before);
                before = bound;
            }
            json_decref(root);
        }
    }
}

/* ---- the picture ------------------------------------------------------------------------- */

static char *drawn(const char *words, const char *name)
{
    const char *path = sw_temp_path(name);
    const char *line = sw_textf("plan --json %s --svg %s", words, path);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", line, outcome.status, outcome.err);
    char *text = text_of(path);
    const char *wrong = malformed(text, SVG_BEGINS);
    SW_CHECK(wrong == NULL, "%s: %.60s", words, wrong);
    return text;
}

typedef struct {
    unsigned long long bytes, offset;
    unsigned birth, death;
    bool takes_place;
} drawn_storage;

/* Reads the tooltips; returns how many there are. */
static int read_titles(const char *text, drawn_storage *to, int most)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, "<title>")) != NULL && n < most; n++) {
        char item[600];
        const size_t length = (size_t)(strstr(at, "</title>") - at);
        CU_ASSERT_FATAL(length < sizeof item);
        memcpy(item, at, length);
        item[length] = '\0';
        at += length;
        const char *bytes = strstr(item, ", "), *offset = strstr(item, "at offset "),
                   *birth = strstr(item, "born at op "), *death = strstr(item, ", dies at op ");
        CU_ASSERT_FATAL(bytes != NULL && offset != NULL && birth != NULL);
        to[n] = (drawn_storage){.bytes = sw_number_of(bytes + 2),
                                .offset = sw_number_of(offset + 10),
                                .birth = (unsigned)strtoul(birth + 11, NULL, 10),
                                .death = death != NULL ? (unsigned)strtoul(death + 13, NULL, 10)
                                                       : UINT32_MAX,
                                .takes_place = strstr(item, "takes the place") != NULL};
        SW_CHECK(death != NULL || strstr(item, "read out at the end") != NULL, "%s", item);
    }
    return n;
}

/* A number after `name` in an element. */
static double length_of(const char *element, const char *name)
{
    const char *at = strstr(element, name);
    return at != NULL ? strtod(at + strlen(name), NULL) : (double)NAN;
}

/* A name stands in the rectangle before it, with the widest letters of usual fonts; others
 * are left out. Returns how many there are. */
static int check_names(const char *text)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, "<text class=\"name\"")) != NULL; at++, n++) {
        const char *rect = at, *name = strchr(at, '>') + 1;
        while (strncmp(rect, "<rect ", 6) != 0)
            rect--;
        const double x = length_of(rect, " x=\""), right = x + length_of(rect, " width=\"");
        const double letters = (double)(strchr(name, '<') - name),
                     begin = length_of(at, " x=\"");
        SW_CHECK(begin > x && begin + 6.9 * letters < right, "%.40s: %g to %g in %g to %g",
                 name, begin, begin + 6.9 * letters, x, right);
    }
    return n;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

SW_TEST("the picture shows every storage in its place")
{
    static const char *const words[] = {"", "--model mlp --update after --batch 5",
                                        "--optimizer sgd --batch 17", "--fit 5MiB",
                                        "--model mlp --hidden 9,9,9,9 --synthetic-n 40"};
    static drawn_storage at[500];
    int n_names = 0;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        const char *text = drawn(words[w], "plan.svg");
        const double arena = program_number(outcome.out, "arena_bytes");
        const int n = read_titles(text, at, 500);
        unsigned long long highest = 0;
        CU_ASSERT(n > 10 && n < 500 && n == count(text, "<rect class=\"s "));
        for (int i = 0; i < n; i++) {
            highest =
                at[i].offset + at[i].bytes > highest ? at[i].offset + at[i].bytes : highest;
            for (int k = 0; k < i; k++)
                SW_CHECK(at[i].takes_place || at[k].takes_place || at[i].birth > at[k].death ||
                             at[k].birth > at[i].death ||
                             at[i].offset >= at[k].offset + at[k].bytes ||
                             at[k].offset >= at[i].offset + at[i].bytes,
                         "%s: %d lies on %d", words[w], i, k);
        }
        n_names += check_names(text);
        SW_CHECK((double)highest == arena, "%s: %llu of %g bytes", words[w], highest, arena);
        static const char *const said[] = {">data<",    ">forward<",  ">loss<",
                                           ">saved<",   ">gradient<", "prefers-color-scheme",
                                           ">backward<"};
        for (size_t i = 0; i < sizeof said / sizeof *said; i++)
            SW_CHECK(strstr(text, said[i]) != NULL, "%s: no %s", words[w], said[i]);
        SW_CHECK(count(text, "http") == 1, "%s: it names another file", words[w]);
    }
    CU_ASSERT(n_names > 10);
}
