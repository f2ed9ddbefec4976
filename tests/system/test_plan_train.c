/* `plan` plans what `train` runs: jobs are drawn at random from one table of data and options,
 * and both are held against each other. Jobs that train refuses, plan refuses with the same
 * words. */
#include "tests/support/json.h"
#include "tests/support/png_make.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

SW_TESTS("plan and train")

#define ROWS 1000 /* in full */
#define QUICK_ROWS 24

static char folder[900];

/* ---- the table --------------------------------------------------------------------------- */

enum { MOST = 12 };
enum { LINES = 1, PIXELS = 2, FILES = 4, PICTURES = 8, TEXT = 16, ANY = 31 };

/* Data and a model for it; "@" stands for the folder. */
static const struct {
    int kind;
    const char *words;
} sources[] = {
    {PIXELS, "--model mlp --hidden 9 --synthetic-n 1"},
    {PIXELS, "--model mlp --hidden 9 --synthetic-n 5"},
    {PIXELS, "--model mlp --hidden 9 --synthetic-n 40"},
    {PIXELS, "--model mlp --hidden 9,5 --synthetic-n 96"},
    {PIXELS, "--model lenet5 --synthetic-n 37"},
    {PIXELS | FILES, "--model mlp --hidden 8 --data idx:@/idx"},
    {LINES, "--model mlp --hidden 8 --data csv:@/few.csv --test-data csv:@/many.csv"},
    {LINES, "--model mlp --hidden 8 --data csv:@/many.csv --test-data csv:@/few.csv"},
    {LINES | FILES, "--model mlp --hidden 8 --data csv:@/many.csv"},
    {LINES | FILES, "--model mlp --hidden 8 --data csv:@/few.csv"},
    {PICTURES, "--model mlp --hidden 6 --data images:@/pictures"},
    {PICTURES, "--model lenet5 --data images:@/pictures --channels 1"},
    {TEXT, "--model gpt --layers 1 --width 8 --heads 2 --data text:@/text"},
    {TEXT, "--model gpt --layers 1 --width 8 --heads 2 --data text:@/short"},
};

/* An option and what it may be; "" leaves it out, and is as likely as the rest together where
 * `rare`. */
static const struct {
    int kinds; /* of sources that take it; others may draw it now and then, to be refused */
    bool rare;
    const char *name, *values[MOST];
} options[] = {
    {ANY,
     false,
     "--batch",
     {"1", "2", "3", "7", "16", "31", "32", "64", "100", "4096", "16777216"}},
    {ANY, true, "--accumulate", {"1", "2", "3", "4", "7", "50"}},
    {ANY, true, "--optimizer", {"sgd", "momentum", "adamw"}},
    {ANY, true, "--update", {"after", "release"}},
    {ANY, true, "--keep-gradients", {""}},
    {ANY, true, "--clip", {"1"}},
    {ANY, true, "--threads", {"1", "2"}},
    {ANY, true, "--immediate", {""}},
    {ANY, true, "--isa", {"base"}},
    {ANY, true, "--no-chunks", {""}},
    {ANY, true, "--no-tiles", {""}},
    {ANY, true, "--no-strips", {""}},
    {ANY, true, "--no-rebuild", {""}},
    {ANY, true, "--no-recompute", {""}},
    {ANY, true, "--memory-budget", {"60KiB", "200KiB", "500KiB", "1MiB", "16MiB"}},
    {ANY, true, "--checkpoint @/C", {""}},
    {ANY, true, "--checkpoint-pauses", {""}},
    {ANY, true, "--seed", {"1", "2", "77"}},
    {FILES | PICTURES, true, "--test-share", {"0.05", "0.2", "0.5", "0.9"}},
    {FILES | PICTURES, true, "--split-seed", {"1", "2", "3"}},
    {LINES, true, "--standardise", {""}},
    {PIXELS | PICTURES, true, "--normalise", {"none", "0.5,0.25", "auto"}},
    {PIXELS | PICTURES, true, "--augment", {"flip", "crop=2", "flip,crop=1"}},
    {PICTURES, false, "--resize", {"20", "28", "30"}},
    {PICTURES, true, "--data-limit", {"1KiB", "60000", "200000", "1MiB", "1GiB"}},
    {TEXT, false, "--context", {"1", "4", "8", "33", "64", "700"}},
    {TEXT, true, "--vocabulary", {"256", "300", "20"}},
};
enum { SOURCES = sizeof sources / sizeof *sources, OPTIONS = sizeof options / sizeof *options };

static size_t put(char *to, size_t room, size_t n, const char *text)
{
    for (; *text != '\0' && n + sizeof folder < room; text++)
        if (*text == '@')
            n += (size_t)snprintf(to + n, room - n, "%s", folder);
        else
            to[n++] = *text;
    to[n] = '\0';
    return n;
}

/* Four options on average, and those that are never left out. */
static void draw(sw_dice *dice, char *to, size_t room)
{
    const int kind = (int)sw_dice_below(dice, SOURCES);
    size_t n = put(to, room, 0, sources[kind].words);
    for (size_t i = 0; i < OPTIONS; i++) {
        const bool fits = (options[i].kinds & sources[kind].kind) != 0;
        int values = 0;
        while (values < MOST && options[i].values[values] != NULL)
            values++;
        if (sw_dice_below(dice, fits ? 6 : 300) > (fits && !options[i].rare ? 4 : 0))
            continue;
        n = put(to, room, n, " ");
        n = put(to, room, n, options[i].name);
        const char *value = options[i].values[sw_dice_below(dice, (uint64_t)values)];
        if (*value != '\0')
            n = put(to, room, n, " ");
        n = put(to, room, n, value);
    }
}

/* ---- the data ---------------------------------------------------------------------------- */

static void put_csv(const char *name, int lines)
{
    static char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "a,b,c,kind\n");
    for (int i = 0; i < lines; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%d,%d.5,%d,k%d\n", i, i * i % 17, -i,
                              i % 3);
    CU_ASSERT_FATAL(file_write(sw_textf("%s/%s", folder, name), text, n));
}

static void put_text(const char *name, size_t n)
{
    static char text[4096];
    for (size_t i = 0; i < n; i++)
        text[i] = (char)("the quick brown fox "[i * 7 % 20]);
    CU_ASSERT_FATAL(file_write(sw_textf("%s/%s", folder, name), text, n));
}

static void make_data(void)
{
    static unsigned char file[16384];
    idx_set set;
    snprintf(folder, sizeof folder, "%s", sw_temp_path("both"));
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
    const char *path = sw_textf("%s/idx", folder);
    idx_make(&set, 50);
    idx_write(&set, path);
    idx_free(&set);
    put_csv("many.csv", 73);
    put_csv("few.csv", 11);
    put_text("text", 1500);
    put_text("short", 90);
    path = sw_textf("%s/pictures", folder);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    for (unsigned i = 0; i < 24; i++) {
        const png_image p = SW_INIT(.w = 30 + i % 2 * 2, .h = 30 + i % 5, .depth = 8,
                                    .type = i % 3 == 0 ? PNG_GRAY : PNG_COLOUR, .seed = i);
        const size_t n = png_make(file, sizeof file, &p);
        path = sw_textf("%s/pictures/%s", folder, i % 2 == 0 ? "cat" : "dog");
        (void)mkdir(path, 0700);
        path = sw_textf("%s/pictures/%s/%u.png", folder, i % 2 == 0 ? "cat" : "dog", i);
        CU_ASSERT_FATAL(n > 0 && file_write(path, file, n));
    }
}

/* ---- both -------------------------------------------------------------------------------- */

static sw_outcome outcome[2]; /* of plan and train */

static void run_both(const char *words)
{
    static const char *const tags[] = {"plan", "train"}, *const begins[] = {
                                                             "plan --json",
                                                             "train --json --quiet"};
    pid_t pid[2];
    for (int i = 0; i < 2; i++) {
        pid[i] = program_start(tags[i], sw_textf("%s %s", begins[i], words), NULL);
    }
    for (int i = 0; i < 2; i++)
        sw_process_wait(&outcome[i], pid[i], tags[i], 60);
}

/* The message without the command's name. */
static const char *message(const sw_outcome *o)
{
    const char *at = strstr(o->err, ": ");
    return at != NULL ? at : o->err;
}

static bool same(const json_t *a, const json_t *b, const char *key, const char *words)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    return SW_CHECK(json_equal(x, y), "%s: %s: plan %.0f, train %.0f", words, key,
                    json_number_value(x), json_number_value(y));
}

/* Every program that is planned runs, and takes what was planned. */
static void compare_program(const json_t *plan, const json_t *train, bool immediate,
                            const char *words)
{
    static const char *const keys[] = {"name", "batch", "predicted", "predicted_peak_bytes",
                                       "arena_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        same(plan, train, keys[i], words);
    const char *name = json_string_value(json_object_get(train, "name"));
    SW_CHECK(json_integer_value(json_object_get(train, "runs")) > 0, "%s: %s never runs", words,
             name);
    const json_int_t is = json_integer_value(json_object_get(train, "measured_peak_bytes")),
                     planned =
                         json_integer_value(json_object_get(plan, "predicted_peak_bytes"));
    SW_CHECK(is == planned, "%s: %s: measured %lld, planned %lld", words, name, is, planned);
    SW_CHECK(immediate || json_equal(json_object_get(train, "measured"),
                                     json_object_get(plan, "predicted")),
             "%s: %s: phases", words, name);
}

static void compare(const char *words)
{
    static const char *const keys[] = {
        "batch",       "batch_asked", "predicted",        "predicted_peak_bytes", "model_bytes",
        "arena_bytes", "data_bytes",  "checkpoint_bytes", "total_bytes",          "recompute",
        "roles",       "layers",      "lower_bound_bytes"};
    json_t *plan = json_loads(outcome[0].out), *train = json_loads(outcome[1].out);
    SW_CHECK(json_is_object(plan) && json_is_object(train), "%s: no JSON", words);
    for (size_t i = 0; i < 10; i++)
        same(plan, train, keys[i], words);
    const json_t *a = json_object_get(plan, "programs"),
                 *b = json_object_get(train, "programs");
    SW_CHECK(json_array_size(a) == json_array_size(b), "%s: plan has %zu programs, train %zu",
             words, json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++)
        compare_program(json_array_get(a, i), json_array_get(b, i),
                        strstr(words, "--immediate") != NULL, words);
    json_decref(plan);
    json_decref(train);
}

SW_TEST("plan plans what train runs")
{
    char words[2500];
    int done = 0, clamped = 0, refused = 0;
    const int rows = sw_tests_full() ? ROWS : QUICK_ROWS;
    sw_dice dice = {7};
    make_data();
    const char *checkpoint = sw_textf("%s/C", folder);
    for (int i = 0; i < rows; i++) {
        draw(&dice, words, sizeof words);
        if (!SW_HAVE_PNG && strstr(words, "images:") != NULL)
            continue;
        run_both(words);
        (void)remove(checkpoint);
        SW_CHECK(outcome[0].status == outcome[1].status && outcome[0].signal == 0 &&
                     outcome[1].signal == 0,
                 "%s: plan ends with %d, train with %d: %s%s", words, outcome[0].status,
                 outcome[1].status, outcome[0].err, outcome[1].err);
        if (outcome[0].status != 0) {
            SW_CHECK(strcmp(message(&outcome[0]), message(&outcome[1])) == 0, "%s: %s%s", words,
                     outcome[0].err, outcome[1].err);
            refused++;
            continue;
        }
        compare(words);
        done++;
        clamped += strstr(outcome[0].out, "\"batch_asked\":") != NULL;
    }
    sw_note("%d rows, %d of them with a batch above the data; %d refused by both", done,
            clamped, refused);
    CU_ASSERT(done > rows / 2 && clamped > rows / 20);
}
