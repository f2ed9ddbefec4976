/* `stepwell evolve` from outside: files that are whole, the same bytes whatever computes, bytes
 * as predicted, runs that are interrupted and go on, and refusals by name. */
#include "alloc/base/sys.h"
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/populations.h"
#include "tests/system/well_formed.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BEGINS "<!doctype html>\n<html lang=\"en\">"
#define SMALL "evolve --quiet --json --synthetic-n 80 --space @/S --population 4 --samples 24 "

static const char space[] =
    "{\"format\": \"stepwell search space 1\",\n"
    " \"body\": {\"chain\": [\n"
    "  {\"vertex\": \"conv2d\", \"size\": {\"from\": 2, \"to\": 6}, \"kernel\": 3, \"stride\": "
    "4},\n"
    "  {\"vertex\": \"activation\"},\n"
    "  {\"residual\": {\"vertex\": \"conv2d\", \"size\": [2, 3], \"kernel\": [1, 3]}},\n"
    "  {\"vertex\": \"global_avg_pool\"}]},\n"
    " \"insert\": [{\"if\": \"image\", \"then\": {\"vertex\": \"conv2d\", \"size\": 3, "
    "\"kernel\": 1},\n"
    "  \"else\": {\"vertex\": \"activation\"}}],\n"
    " \"optimizers\": [\"adam\", \"sgd\"],\n"
    " \"lr\": {\"from\": 0.001, \"to\": 0.05},\n"
    " \"batch\": [8, 12],\n"
    " \"activations\": [\"relu\", \"swish\"]\n}\n";

static double number(const sw_outcome *o, const char *name)
{
    return program_number(o->out, name);
}

/* A folder with the space in it. */
static void new_folder(const char *name)
{
    going_new_folder(name);
    going_put("S", space);
}

static const sw_outcome *good(const char *words, const char *more)
{
    const sw_outcome *o = going_run("%s %s", words, more);
    SW_CHECK(o->status == 0, "%s %s: status %d: %s", words, more, o->status, o->err);
    return o;
}

static void drop_json(void *x)
{
    json_decref(x);
}

static const json_t *parsed(const char *text)
{
    json_t *x = json_loads(text);
    SW_CHECK(x != NULL, "%s: %.200s", sw_last_error(), text);
    if (x != NULL)
        sw_after(drop_json, x);
    return x;
}

static size_t lines_of(const char *name)
{
    size_t lines = 0;
    for (const char *at = text_of(going_at(name)); (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

/* ---- what it leaves ---------------------------------------------------------------------- */

static void its_files_are_there_and_whole(void)
{
    static const char *const files[] = {
        "R/best.json",   "R/best.safetensors", "R/retrained.safetensors",
        "R/report.html", "R/best.dot",         "R/history.jsonl"};
    new_folder("files");
    const sw_outcome *o = good(SMALL "--generations 3 --retrain 1", "--out @/R");
    const json_t *result = parsed(o->out);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        SW_CHECK(going_exists(files[i]), "%s is not there", files[i]);
    CU_ASSERT(!going_exists("R/run.lock"));
    CU_ASSERT_EQUAL(lines_of("R/generations.jsonl"), 3);
    CU_ASSERT_EQUAL(lines_of("R/history.jsonl"), 3 * 4);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(result, "history")), 3);
    const json_t *best = json_object_get(result, "best");
    CU_ASSERT(json_integer_value(json_object_get(best, "id")) > 0);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(best, "predicted_bytes")),
                    json_integer_value(json_object_get(best, "measured_bytes")));
    CU_ASSERT_EQUAL(number(o, "compared"), 12.0);
    CU_ASSERT_EQUAL(number(o, "differ"), 0.0);
    CU_ASSERT(number(o, "peak_bytes") > 0.0 && number(o, "peak_bytes") < 1073741824.0);
    CU_ASSERT(number(o, "test_rows") == 16.0 && number(o, "retrained_accuracy") >= 0.0);
    const char *wrong = malformed(text_of(going_at("R/report.html")), PAGE_BEGINS);
    SW_CHECK(wrong == NULL, "report.html: %.80s", wrong);
    CU_ASSERT(strncmp(text_of(going_at("R/best.dot")), "digraph", 7) == 0);
    const char *report = text_of(going_at("R/report.html"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "class=\"first\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "stepwell genome 1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "budget of the population"));
    CU_ASSERT_PTR_NULL(strstr(report, "script"));
    CU_ASSERT_PTR_NULL(strstr(report, "nan"));
}

/* The reported bytes of a genome are those that the run had found, and its phases come to
 * that. */
/* Selection rounds accuracy; whom the program names, in each generation and in all, does not.
 */
static void the_best_is_named_by_accuracy_itself(void)
{
    int rounded = 0;
    new_folder("named");
    for (int seed = 1; seed <= 4; seed++) {
        double of_all = -1.0, most[2] = {-1.0, -1.0}, fittest[2] = {-1.0, -1.0}, its[2] = {0};
        char words[300];
        snprintf(words, sizeof words,
                 "evolve --quiet --json --synthetic-n 2000 --space @/S --population 16 "
                 "--samples 16 --generations 2 --seed %d --out @/R%d",
                 seed, seed);
        const json_t *result = parsed(good(words, "")->out);
        char name[40];
        snprintf(name, sizeof name, "R%d/history.jsonl", seed);
        char *line = text_of(going_at(name));
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            const json_t *member = parsed(line);
            const size_t g = (size_t)json_integer_value(json_object_get(member, "generation"));
            const double accuracy = json_number_value(json_object_get(member, "accuracy"));
            const double fitness = json_number_value(json_object_get(member, "fitness"));
            CU_ASSERT_FATAL(g < 2);
            most[g] = accuracy > most[g] ? accuracy : most[g];
            of_all = accuracy > of_all ? accuracy : of_all;
            its[g] = fitness > fittest[g] ? accuracy : its[g];
            fittest[g] = fitness > fittest[g] ? fitness : fittest[g];
        }
        const json_t *best = json_object_get(result, "best");
        CU_ASSERT_EQUAL(json_number_value(json_object_get(best, "accuracy")), of_all);
        for (size_t g = 0; g < 2; g++) {
            const json_t *row = json_array_get(json_object_get(result, "history"), g);
            CU_ASSERT_EQUAL(json_number_value(json_object_get(row, "accuracy")), most[g]);
            rounded += its[g] < most[g];
        }
    }
    CU_ASSERT(rounded > 0);
}

/* The table of generations and that of the page. */
static void columns_have_one_number_of_decimals(void)
{
    new_folder("columns");
    const sw_outcome *o = going_run("evolve --synthetic-n 100 --space @/S --population 6 "
                                    "--samples 48 --generations 5 --out @/R");
    CU_ASSERT_EQUAL_FATAL(o->status, 0);
    for (int column = 1; column < 3; column++)
        CU_ASSERT_EQUAL(population_column(o->out, "  gen ", "\n", " ", column), 5);
    const char *page = text_of(going_at("R/report.html"));
    static const int of_page[] = {3, 5}; /* fitness and loss */
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(population_column(page, "<th>born</th>", "<tr", "<td>", of_page[i]), 6);
}

static void a_price_is_that_of_the_run(void)
{
    new_folder("price");
    const sw_outcome *o = good(SMALL "--generations 1", "--out @/R");
    const double bytes = number(o, "predicted_bytes");
    o = going_run("evolve --json --price @/R/best.json --plot @/G.dot");
    SW_CHECK(o->status == 0, "status %d: %s", o->status, o->err);
    CU_ASSERT_EQUAL(program_number(o->out, "peak_bytes"), bytes);
    const json_t *phases = json_object_get(parsed(o->out), "predicted");
    double most = 0.0;
    for (size_t i = 0; i < json_object_size(phases); i++) {
        const double peak =
            json_number_value(json_object_get(json_object_member(phases, i), "peak_bytes"));
        most = peak > most ? peak : most;
    }
    CU_ASSERT_EQUAL(most, bytes);
    CU_ASSERT(going_same_file("G.dot", "R/best.dot"));
    o = going_run("evolve --price @/R/best.json --data csv:@/S");
    CU_ASSERT(program_failed_cleanly(o, 3));
    going_put("T.csv", "1,2,0\n2,1,1\n3,3,0\n4,4,1\n5,1,0\n6,2,1\n");
    o = going_run("evolve --price @/R/best.json --data csv:@/T.csv");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "1 x 28 x 28") != NULL, "%d: %s",
             o->status, o->err);
}

/* The printed space is one, and gives the run that goes without it. */
static void the_printed_space_is_the_one_that_is_used(void)
{
    static const char words[] = "evolve --quiet --json --synthetic-n 60 --population 2 "
                                "--samples 8 --generations 1 ";
    new_folder("space");
    const sw_outcome *o = going_run("evolve --print-space");
    SW_CHECK(o->status == 0, "status %d: %s", o->status, o->err);
    going_put("P", o->out);
    (void)good(words, "--out @/A");
    (void)good(words, "--out @/B --space @/P");
    CU_ASSERT(going_same_file("A/best.safetensors", "B/best.safetensors"));
    CU_ASSERT(going_same_file("A/best.json", "B/best.json"));
}

/* ---- the same bytes ---------------------------------------------------------------------- */

static void threads_change_no_bit_and_the_seed_does(void)
{
    new_folder("same");
    (void)good(SMALL "--generations 3", "--out @/A");
    (void)good(SMALL "--generations 3 --threads 2", "--out @/B");
    (void)good(SMALL "--generations 3 --seed 2", "--out @/C");
    CU_ASSERT(going_same_file("A/best.json", "B/best.json"));
    CU_ASSERT(going_same_file("A/best.safetensors", "B/best.safetensors"));
    CU_ASSERT(going_same_file("A/best.dot", "B/best.dot"));
    CU_ASSERT(!going_same_file("A/best.safetensors", "C/best.safetensors"));
    /* Where the budget has no room for more than one member at a time too. */
    (void)good(SMALL "--generations 3 --memory-budget 100KiB", "--out @/D");
    (void)good(SMALL "--generations 3 --memory-budget 100KiB --threads 3", "--out @/E");
    CU_ASSERT(going_same_file("D/best.safetensors", "E/best.safetensors"));
    CU_ASSERT(going_same_file("D/best.json", "E/best.json"));
}

static void given_genomes_begin(void)
{
    new_folder("given");
    (void)good(SMALL "--generations 1", "--out @/A");
    (void)good(SMALL "--generations 1 --seed 5 --first @/A/best.json,@/A/best.json",
               "--out @/B");
    const char *history = text_of(going_at("B/history.jsonl"));
    const char *first = strstr(history, "\"genome\":\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    const char *second = strstr(first + 1, "\"genome\":\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(second);
    CU_ASSERT(strncmp(first, second, 28) == 0);
}

/* ---- runs that go on --------------------------------------------------------------------- */

static void a_run_in_parts_is_the_run(void)
{
    new_folder("parts");
    (void)good(SMALL "--generations 4", "--out @/A");
    (void)good(SMALL "--generations 1", "--out @/B --resume");
    (void)good(SMALL "--generations 3", "--out @/B --resume --threads 2");
    const sw_outcome *o = good(SMALL "--generations 4", "--out @/B --resume");
    CU_ASSERT(going_same_file("A/best.json", "B/best.json"));
    CU_ASSERT(going_same_file("A/best.safetensors", "B/best.safetensors"));
    CU_ASSERT_EQUAL(lines_of("B/generations.jsonl"), 4);
    CU_ASSERT_EQUAL(number(o, "compared"), 16.0);
    CU_ASSERT(strstr(o->out, "\"resumed\":true") != NULL);
    /* A run that is complete is reported again, and stays as it is. */
    char *before = text_of(going_at("B/report.html"));
    (void)good(SMALL "--generations 4", "--out @/B --resume");
    CU_ASSERT_STRING_EQUAL(before, text_of(going_at("B/report.html")));
}

static void an_interrupt_keeps_what_was_complete(void)
{
    static sw_outcome outcome;
    const struct timespec pause = {0, 2000000};
    new_folder("interrupt");
    const pid_t pid = going_start(SMALL "--generations 1000000 --out @/R");
    for (int i = 0; i < 5000 && !going_exists("R/generations.jsonl"); i++)
        (void)nanosleep(&pause, NULL);
    CU_ASSERT_EQUAL(kill(pid, SIGINT), 0);
    sw_process_wait(&outcome, pid, "going", 60);
    const double done = number(&outcome, "generations");
    SW_CHECK(outcome.status == 130 && done >= 1.0 && going_exists("R/best.safetensors") &&
                 going_exists("R/report.html"),
             "status %d: %s %s", outcome.status, outcome.out, outcome.err);
    SW_CHECK(strstr(outcome.err, "--resume") != NULL, "%s", outcome.err);
    CU_ASSERT(strstr(outcome.out, "\"test_accuracy\":null") != NULL);
    char words[200];
    snprintf(words, sizeof words, SMALL "--generations %.0f", done + 2.0);
    (void)good(words, "--out @/R --resume");
    (void)good(words, "--out @/W");
    CU_ASSERT(going_same_file("R/best.json", "W/best.json"));
    CU_ASSERT(going_same_file("R/best.safetensors", "W/best.safetensors"));
}

/* One bit of the byte at part/8 of a file; 0: its first brace. */
static void flip(const char *name, size_t part)
{
    size_t n;
    char *bytes = (char *)file_read(going_at(name), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    bytes[n * part / 8] = (char)(bytes[n * part / 8] ^ 2);
    FILE *file = fopen(going_at(name), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, file), n);
    CU_ASSERT_EQUAL(fclose(file), 0);
    free(bytes);
}

static bool is_state_of_two(void *name, const char *of)
{
    if (strncmp(of, "member-", 7) != 0 || strstr(of, "-2.state") == NULL)
        return true;
    snprintf(name, 100, "R/members/%.80s", of);
    return false;
}

/* Damaged files are named, the run goes on and ends with the same bits. Of the lines that
 * people read those that are lost are missing, and nothing else is. */
static void damaged_files_end_no_run(void)
{
    char state[100] = "";
    const char *files[] = {"R/generation.json", state, "R/generations.jsonl",
                           "R/history.jsonl"};
    static const char lost[] = "\"history\":[{\"generation\":0,\"best\":null,";
    for (size_t i = 0; i < 4; i++)
        for (size_t gone = 0; gone < 3; gone++) { /* a bit; the file; all of its generation */
            new_folder("damage");
            (void)good(SMALL "--generations 4", "--out @/W");
            (void)good(SMALL "--generations 2", "--out @/R");
            if (i == 1)
                CU_ASSERT_EQUAL(
                    sw_folder_for_each(going_at("R/members"), is_state_of_two, state), SW_OK);
            if (gone == 0)
                flip(files[i], i < 2 ? 3 : 0);
            else
                CU_ASSERT_EQUAL(remove(going_at(files[i])), 0);
            if (gone == 2 && i < 2)
                flip("R/generation.json.1", 3);
            const sw_outcome *o = going_run(SMALL "--generations 4 --out @/R --resume");
            if (gone == 2 && i < 2) {
                SW_CHECK(program_failed_cleanly(o, 3) && strstr(o->err, files[i] + 2) != NULL &&
                             strstr(o->err, "generation.json.1 is damaged") != NULL,
                         "%s: status %d: %s", files[i], o->status, o->err);
                continue;
            }
            const bool read = i < 3 || gone > 0; /* going on reads no line of the history */
            SW_CHECK(o->status == 0 && (strstr(o->err, files[i] + 2) != NULL) == read &&
                         going_same_file("R/best.json", "W/best.json") &&
                         going_same_file("R/best.safetensors", "W/best.safetensors") &&
                         going_exists("R/report.html"),
                     "%s: status %d: %s", files[i], o->status, o->err);
            SW_CHECK((strstr(o->out, lost) != NULL) == (i == 2), "%s: %.300s", files[i],
                     o->out);
            CU_ASSERT_EQUAL(json_array_size(json_object_get(parsed(o->out), "history")), 4);
            CU_ASSERT_EQUAL(lines_of("R/generations.jsonl"), 4);
            const char *wrong = malformed(text_of(going_at("R/report.html")), PAGE_BEGINS);
            SW_CHECK(wrong == NULL, "report.html: %.80s", wrong);
        }
    /* The members that a complete run tells again are those of whole lines. */
    flip("W/history.jsonl", 0);
    const sw_outcome *o = good(SMALL "--generations 4", "--out @/W --resume");
    SW_CHECK(strstr(o->err, "history.jsonl") != NULL, "%s", o->err);
}

static bool ask_of(void *folder, const char *name)
{
    const sw_outcome *o;
    if (strcmp(name, "members") == 0)
        return true;
    o = going_run("info @/%s/%s", (const char *)folder, name);
    SW_CHECK(o->status == 0 && strstr(o->out, name) != NULL, "%s: status %d: %s", name,
             o->status, o->err);
    return true;
}

/* info knows each file of a run, and whether a state or a generation is whole. */
static void its_files_are_known(void)
{
    static const char *const damaged[] = {"R/generation.json", "R/generation.json.1"};
    char state[100] = "";
    new_folder("known");
    (void)good(SMALL "--generations 2 --retrain 1", "--out @/R");
    CU_ASSERT_EQUAL(sw_folder_for_each(going_at("R"), ask_of, "R"), SW_OK);
    CU_ASSERT_EQUAL(sw_folder_for_each(going_at("R/members"), ask_of, "R/members"), SW_OK);
    const sw_outcome *o = good("info @/R", "");
    CU_ASSERT(strstr(o->out, "and 1 more") != NULL);
    o = good("info --json @/R/generation.json", "");
    CU_ASSERT(strstr(o->out, "\"whole\":true") != NULL && strstr(o->out, "\"2\"") != NULL);
    CU_ASSERT_EQUAL(sw_folder_for_each(going_at("R/members"), is_state_of_two, state), SW_OK);
    for (int i = 0; i < 3; i++)
        for (size_t part = 1; part < 8; part += 3) {
            const char *name = i < 2 ? damaged[i] : state;
            flip(name, part);
            o = going_run("info @/%s", name);
            SW_CHECK(program_failed_cleanly(o, 3) && strstr(o->err, name) != NULL,
                     "%s: status %d: %s%s", name, o->status, o->out, o->err);
            flip(name, part);
        }
    going_put("R/old.json", "{\"format\":\"stepwell evolution 1\",\"sum\":\"0x0\"}\n");
    o = going_run("info @/R/old.json");
    SW_CHECK(program_failed_cleanly(o, 3) &&
                 strstr(o->err, "its format is \"stepwell evolution 1\"") != NULL,
             "status %d: %s", o->status, o->err);
}

/* Ended at any time, without a word: what is there goes on. */
static void kills_lose_nothing(void)
{
    static sw_outcome outcome;
    new_folder("kills");
    (void)good(SMALL "--generations 12", "--out @/W");
    for (int i = 0; i < (sw_tests_full() ? 60 : 8); i++) {
        const struct timespec pause = {0, 2000000 * (i * 7 % 23 + 1)};
        const pid_t pid = going_start(SMALL "--generations 12 --out @/R --resume");
        (void)nanosleep(&pause, NULL);
        CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
        sw_process_wait(&outcome, pid, "going", 60);
    }
    (void)good(SMALL "--generations 12", "--out @/R --resume");
    CU_ASSERT(going_same_file("R/best.json", "W/best.json"));
    CU_ASSERT(going_same_file("R/best.safetensors", "W/best.safetensors"));
}

static void time_ends_a_run(void)
{
    new_folder("time");
    const sw_outcome *o = good(SMALL "--time-limit 0.2s", "--out @/R");
    CU_ASSERT(strstr(o->out, "\"timed_out\":true") != NULL);
    CU_ASSERT(number(o, "generations") < 1000.0);
}

static void what_differs_is_refused_by_name(void)
{
    static const struct {
        const char *words, *says;
    } other[] = {{"--seed 2", "seed"},
                 {"--samples 25", "samples"},
                 {"--population 5", "population"},
                 {"--mutate 0.5", "mutate"},
                 {"--fitness loss", "fitness"}};
    new_folder("differs");
    (void)good(SMALL "--generations 1", "--out @/R");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const sw_outcome *o =
            going_run(SMALL "--generations 2 --out @/R --resume %s", other[i].words);
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, other[i].says) != NULL,
                 "%s: status %d: %s", other[i].words, o->status, o->err);
    }
    const sw_outcome *o = going_run(SMALL "--generations 2 --out @/R");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "there already") != NULL, "%d: %s",
             o->status, o->err);
}

/* ---- memory ------------------------------------------------------------------------------ */

static void limits_are_kept(void)
{
    new_folder("limits");
    const sw_outcome *o = good(SMALL "--generations 2", "--out @/R");
    const double all = number(o, "peak_bytes"), best = number(o, "predicted_bytes");
    char words[300];
    snprintf(words, sizeof words,
             SMALL "--generations 3 --memory-budget %.0f --candidate-memory %.0f", all, best);
    o = good(words, "--out @/T");
    CU_ASSERT(number(o, "peak_bytes") <= all);
    CU_ASSERT_EQUAL(number(o, "differ"), 0.0);
    const json_t *history = json_object_get(parsed(o->out), "history");
    for (size_t i = 0; i < json_array_size(history); i++) {
        const json_t *row = json_array_get(history, i);
        CU_ASSERT(json_number_value(json_object_get(row, "largest_bytes")) <= best);
        CU_ASSERT(json_number_value(json_object_get(row, "population_bytes")) <= all);
    }
    o = going_run(SMALL "--generations 1 --memory-budget 4KiB --out @/N");
    SW_CHECK(program_failed_cleanly(o, 4) && strstr(o->err, "4,096") != NULL, "%d: %s",
             o->status, o->err);
    CU_ASSERT(!going_exists("N"));
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void damaged_texts_are_refused_by_line(void)
{
    static const struct {
        const char *name, *text, *words, *says;
    } bad[] = {
        {"g1", "{\n\"format\": \"stepwell genome 1\",\n\"name\": 5\n}\n", "--first @/g1",
         "g1: line 3"},
        {"g2", "", "--first @/g2", "g2"},
        {"s1", "{\"format\": \"stepwell search space 1\",\n\"body\": {\"vertex\": \"convv\"}}",
         "--space @/s1", "s1: line 2"},
        {"s2", "no JSON", "--space @/s2", "s2"},
        {"g3", "{", "--price @/g3", "g3"},
    };
    new_folder("damaged");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        going_put(bad[i].name, bad[i].text);
        const sw_outcome *o =
            going_run("evolve --quiet --synthetic-n 80 --out @/R %s", bad[i].words);
        SW_CHECK(program_failed_cleanly(o, 3) && strstr(o->err, bad[i].says) != NULL,
                 "%s: status %d: %s", bad[i].words, o->status, o->err);
        CU_ASSERT(!going_exists("R"));
    }
}

static void what_it_cannot_do_is_refused(void)
{
    static const struct {
        const char *words;
        int status;
        const char *says;
    } bad[] = {
        {"--synthetic-n 40 --data idx:@/nothing", 2, "--synthetic-n has no effect"},
        {"--data text:@/S", 2, "has no classes"},
        {"--out /proc/nothing/R", 1, "/proc/nothing"},
        {"--out @/S", 1, "is no folder"},
        {"--first @/nothing", 3, "nothing"},
        {"--space @/nothing", 3, "nothing"},
        {"--price @/nothing", 3, "nothing"},
        {"--population 1", 2, "--population must be a whole number from 2"},
        {"--generations 0", 2, "--generations must be"},
        {"--mutate 1.5", 2, "--mutate must be a probability"},
        {"--crossover 2", 2, "--crossover must be a probability"},
        {"--validation-share 0", 2, "--validation-share must be above 0"},
        {"--validation-share 1", 2, "--validation-share must be above 0"},
        {"--time-limit 30", 2, "--time-limit must be a time"},
        {"--generation-time 5", 2, "--generation-time must be a time"},
        {"--memory-budget 1MiB --candidate-memory 2MiB", 2,
         "at most --memory-budget 1,048,576"},
        {"--selection elite:3", 2, "as many as --population, 4 (got 3)"},
        {"--selection best:4", 2, "'best' is none of elite"},
        {"--selection elite", 2, "must be followed by :N"},
        {"--selection elite:0", 2, "'0' is no number of members"},
        {"--selection tournament:4:k0", 2, "'k0' is not kCONTESTANTS"},
        {"--selection tournament:4:p2", 2, "'p2' is not kCONTESTANTS"},
        {"--selection sus:4:k2", 2, "'k2' is neither keep nor breed"},
        {"--selection elite:4+", 2, "must be elite:N"},
        {"--fitness speed", 2, "'speed' is none of accuracy"},
        {"--fitness x*accuracy", 2, "'x' is no factor"},
        {"--fitness accuracy:drop=0.5", 2, "but of train_accuracy"},
        {"--fitness accuracy:average=1", 2, "must be a share"},
        {"--mutations sizes", 2, "'sizes' is none of size, add_vertex"},
        {"--mutations size=0", 2, "must have a probability"},
        {"--print-space --price @/S", 2, "exclude each other"},
        {"--print-space --retrain 1", 2, "--retrain has no effect"},
        {"--plot @/P", 2, "--plot has no effect without --price"},
        {"--price @/S --plot @/P.svg", 2, "dot -Tsvg FILE.dot draws it"},
        {"--rebuild 1 --out @/nothing", 2, "unknown option --rebuild"},
        {"--batch 8", 2, "unknown option --batch"},
        {"--model lenet5", 2, "unknown option --model"},
        {"--device cuda", 2, "unknown option --device"},
        {"--normalise 1,0", 2, "--normalise must be"},
    };
    new_folder("refused");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sw_outcome *o =
            going_run("evolve --synthetic-n 80 --population 4 --out @/R %s", bad[i].words);
        SW_CHECK(program_failed_cleanly(o, bad[i].status) &&
                     strstr(o->err, bad[i].says) != NULL,
                 "%s: status %d: %s", bad[i].words, o->status, o->err);
    }
    const sw_outcome *o = going_run("evolve --data idx:@/nothing --out @/R");
    CU_ASSERT(program_failed_cleanly(o, 3) && strstr(o->err, "nothing") != NULL);
    CU_ASSERT(!going_exists("R"));
}

/* ---- other data, other aims -------------------------------------------------------------- */

static void vectors_and_all_kinds_of_fitness_run(void)
{
    char table[2000];
    size_t used = 0;
    new_folder("kinds");
    for (int i = 0; i < 60; i++)
        used +=
            (size_t)snprintf(table + used, sizeof table - used, "%d,%d,%s\n", i % 7, i * i % 11,
                             i % 3 == 0   ? "a"
                             : i % 3 == 1 ? "b"
                                          : "c");
    going_put("T.csv", table);
    (void)good("evolve --quiet --json --data csv:@/T.csv --population 3 --samples 20 "
               "--generations 2",
               "--out @/V --standardise");
    static const char *const kinds[] = {
        "--fitness accuracy,peak_bytes",
        "--fitness loss:average=0.5+-1e-9*operations",
        "--fitness train_accuracy:drop=0.2,parameters",
        "--selection tournament:6:k3:p0.9,elite:2+sus:2:keep",
        "--mutations size=0.5,kernel --crossover 0",
        "--mutate 0 --crossover 1",
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char more[200];
        snprintf(more, sizeof more, "--out @/K%zu %s", i, kinds[i]);
        (void)good(SMALL "--generations 2", more);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(text_of(going_at("K0/report.html")), "<th>rank</th>"));
}

/* Whichever call fails, the run says so in one line and ends. */
static void failures_are_told(void)
{
    static const char *const kinds[] = {"memory", "file"};
    char plan[100], words[600];
    static sw_outcome outcome;
    new_folder("fault");
    for (int kind = 0; kind < 2; kind++) {
        int failed = 0;
        for (int k = 1; k < 4000; k += sw_tests_full() ? k / 40 + 1 : k / 2 + 1) {
            snprintf(words, sizeof words,
                     "evolve --quiet --synthetic-n 80 --space %s --population 3 --samples 8 "
                     "--generations 1 --out %s-%d",
                     going_at("S"), going_at(kinds[kind]), k);
            snprintf(plan, sizeof plan, "STEPWELL_FAULT=%s:%d", kinds[kind], k);
            program_run(&outcome, words, plan);
            failed += outcome.status != 0;
            SW_CHECK(outcome.signal == 0 && (outcome.status == 0 || outcome.err[0] != '\0'),
                     "%s: status %d, signal %d: %s", plan, outcome.status, outcome.signal,
                     outcome.err);
        }
        SW_CHECK(failed > 2, "%s: %d runs failed", kinds[kind], failed);
    }
}

static const sw_test tests[] = {
    {"its files are there and whole", its_files_are_there_and_whole},
    {"the best is named by accuracy itself", the_best_is_named_by_accuracy_itself},
    {"columns have one number of decimals", columns_have_one_number_of_decimals},
    {"a price is that of the run", a_price_is_that_of_the_run},
    {"the printed space is the one that is used", the_printed_space_is_the_one_that_is_used},
    {"threads change no bit and the seed does", threads_change_no_bit_and_the_seed_does},
    {"given genomes begin", given_genomes_begin},
    {"a run in parts is the run", a_run_in_parts_is_the_run},
    {"an interrupt keeps what was complete", an_interrupt_keeps_what_was_complete},
    {"damaged files end no run", damaged_files_end_no_run},
    {"its files are known", its_files_are_known},
    {"kills lose nothing", kills_lose_nothing},
    {"time ends a run", time_ends_a_run},
    {"what differs is refused by name", what_differs_is_refused_by_name},
    {"limits are kept", limits_are_kept},
    {"damaged texts are refused by line", damaged_texts_are_refused_by_line},
    {"what it cannot do is refused", what_it_cannot_do_is_refused},
    {"vectors and all kinds of fitness run", vectors_and_all_kinds_of_fitness_run},
    {"failures are reported", failures_are_told},
};
SW_SUITE("architectures", tests)
