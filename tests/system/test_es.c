/* `stepwell es` from outside: the same bytes whatever computes, bytes that are planned and
 * measured, runs that are interrupted and go on, and a pole that stays up. */
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLE "es --quiet --json --environment cart-pole --hidden 4 --test-episodes 3 "
#define DATA                                                                                   \
    "es --quiet --json --data synthetic --synthetic-n 40 --model mlp --hidden 3 "              \
    "--optimizer sgd --population 8 "

static double number(const sw_outcome *o, const char *name)
{
    return program_number(o->out, name);
}

static const sw_outcome *good(const char *words, const char *more)
{
    const sw_outcome *o = going_run("%s %s", words, more);
    SW_CHECK(o->status == 0, "%s %s: status %d: %s", words, more, o->status, o->err);
    return o;
}

/* ---- what it learns ---------------------------------------------------------------------- */

static void a_pole_stays_up(void)
{
    going_new_folder("pole");
    for (int seed = 1; seed <= (sw_tests_full() ? 5 : 1); seed++) {
        const sw_outcome *o =
            going_run("es --quiet --json --environment cart-pole --generations 100 --target "
                      "475 --test-every 5 --population 64 --seed %d",
                      seed);
        SW_CHECK(o->status == 0 && number(o, "test_steps") >= 475.0 &&
                     number(o, "test_rows") == 100.0 && strstr(o->out, "\"reached\":true"),
                 "seed %d: status %d: %s %s", seed, o->status, o->out, o->err);
    }
}

/* Of random digits that the program draws: one in ten is right by chance. */
static void digits_are_learned(void)
{
    const sw_outcome *o =
        good("es --quiet --json --data synthetic --synthetic-n 600 --model mlp --hidden 6 "
             "--population 400 --same-samples --samples 60 --slice 100 --sigma 0.05 --lr 0.05 "
             "--normalise none",
             sw_tests_full() ? "--generations 100" : "--generations 12");
    SW_CHECK(number(o, "test_accuracy") > (sw_tests_full() ? 0.5 : 0.15), "accuracy %g",
             number(o, "test_accuracy"));
}

/* 28 x 28 pixels become 9 x 9 means, and an edge that fills no square is left out. */
static void a_pooled_mlp_reads_means(void)
{
    static const char words[] = "train --quiet --json --model mlp --hidden 10 --synthetic-n 40 "
                                "--batch 20 --optimizer sgd --witness --pool 3 --save-params "
                                "@/P";
    going_new_folder("pool");
    const sw_outcome *o = good(words, "");
    CU_ASSERT_EQUAL(number(o, "measured_peak_bytes"), number(o, "predicted_peak_bytes"));
    size_t n = 0;
    float *numbers = program_numbers(going_at("P"), &n);
    CU_ASSERT_EQUAL(n, 81 * 10 + 10 + 10 * 10 + 10);
    free(numbers);
    o = going_run("plan --model mlp --pool 29");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "28 x 28 (got 29)") != NULL,
             "status %d: %s", o->status, o->err);
    o = going_run("plan --model lenet5 --pool 2");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "--pool") != NULL, "status %d: %s",
             o->status, o->err);
    o = going_run("es --environment cart-pole --pool 2");
    SW_CHECK(program_failed_cleanly(o, 2), "status %d: %s", o->status, o->err);
}

/* ---- the same bytes ---------------------------------------------------------------------- */

/* Slices of pairs, of repeats, of samples; the last one is filled up. */
static void threads_and_slices_change_no_bit(void)
{
    static const struct {
        const char *words, *others[5];
    } kinds[] = {
        {DATA "--generations 3",
         {"--threads 2", "--slice 2", "--slice 6", "--slice 4 --threads 3", NULL}},
        {DATA "--generations 2 --repeats 4 --samples 2 --strategy nes",
         {"--slice 4 --threads 2", NULL}},
        {DATA "--generations 2 --noise iid --no-antithetic --same-samples",
         {"--slice 3 --threads 2", NULL}},
        {DATA "--generations 2 --strategy snes", {"--slice 2", NULL}},
        {POLE "--population 8 --generations 3", {"--slice 2 --threads 2", "--slice 6", NULL}},
    };
    going_new_folder("same");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        (void)good(kinds[i].words, "--save-params @/P");
        for (int k = 0; kinds[i].others[k] != NULL; k++) {
            char more[100];
            snprintf(more, sizeof more, "--save-params @/Q %s", kinds[i].others[k]);
            (void)good(kinds[i].words, more);
            SW_CHECK(going_same_file("P", "Q"), "%s %s: other bytes", kinds[i].words,
                     kinds[i].others[k]);
        }
        (void)good(kinds[i].words, "--save-params @/Q --seed 2");
        SW_CHECK(!going_same_file("P", "Q"), "%s: the seed changes nothing", kinds[i].words);
    }
    (void)good(DATA "--generations 1", "--save-params @/P");
    (void)good(DATA "--generations 1 --same-samples", "--save-params @/Q");
    CU_ASSERT(!going_same_file("P", "Q"));
}

static void it_begins_with_given_parameters(void)
{
    going_new_folder("given");
    (void)good(DATA "--generations 2 --lr 0.2", "--save-params @/P");
    const sw_outcome *o = good(DATA "--generations 1 --lr 0.2", "--load-params @/P");
    const double gone_on = number(o, "test_loss");
    o = good(DATA "--generations 1 --lr 0.2", "");
    CU_ASSERT_NOT_EQUAL(number(o, "test_loss"), gone_on);
}

/* ---- bytes ------------------------------------------------------------------------------- */

static void bytes_are_as_planned_and_none_is_noise(void)
{
    static const char *const runs[] = {
        DATA "--generations 2 --witness",
        DATA "--generations 2 --samples 3 --slice 4 --witness",
        POLE "--population 8 --generations 2 --witness",
        "es --quiet --json --data synthetic --synthetic-n 10 --model resnet9 --width-factor "
        "0.125 --population 2 --generations 1"};
    going_new_folder("bytes");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const sw_outcome *o = good(runs[i], "");
        const double peak = number(o, "predicted_peak_bytes");
        CU_ASSERT(peak > 0.0);
        CU_ASSERT_EQUAL(number(o, "measured_peak_bytes"), peak);
        CU_ASSERT_EQUAL(number(o, "noise_bytes"), 0.0);
        SW_CHECK(peak - number(o, "inference_peak_bytes") <= 65536.0, "%s: %s", runs[i],
                 o->out);
        CU_ASSERT(number(o, "es_bytes") <= 12.0 * number(o, "population"));
        CU_ASSERT_EQUAL(number(o, "evaluations"),
                        number(o, "population") * number(o, "generations"));
        if (strstr(runs[i], "--witness") != NULL) {
            CU_ASSERT_EQUAL(number(o, "access_peak_bytes"), peak);
            CU_ASSERT_EQUAL(number(o, "faults"), 0.0);
            CU_ASSERT(strstr(o->out, "\"need\":true") != NULL);
        }
    }
}

/* The bytes that a refusal names are enough, and a byte less is refused: of the plan, then of
 * the fitness beside it. */
static void a_budget_is_kept(void)
{
    going_new_folder("budget");
    const sw_outcome *o = good(POLE "--population 64 --slice 4 --generations 1", "");
    const double total = number(o, "total_bytes"), peak = number(o, "predicted_peak_bytes");
    CU_ASSERT_EQUAL_FATAL(total > 1.0, true);
    CU_ASSERT(total >= peak + number(o, "es_bytes"));
    for (int less = 0; less < 2; less++) {
        o = going_run(POLE "--population 64 --slice 4 --generations 1 --memory-budget %.0f",
                      total - less);
        SW_CHECK(o->status == (less == 0 ? 0 : 4), "%.0f: status %d: %s", total - less,
                 o->status, o->err);
    }
    CU_ASSERT(strstr(o->err, "for the fitness of 64 evaluations") != NULL);
    o = going_run(POLE "--population 64 --generations 1 --memory-budget 1KiB");
    SW_CHECK(program_failed_cleanly(o, 4), "status %d: %s", o->status, o->err);
}

/* ---- runs that go on --------------------------------------------------------------------- */

static void a_run_that_goes_on_ends_with_the_same_bits(void)
{
    static const char *const kinds[] = {
        POLE "--population 8 --optimizer adam",
        DATA "--strategy snes --schedule constant",
        DATA "--optimizer momentum",
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        going_new_folder("going");
        (void)good(kinds[i], "--generations 5 --save-params @/P --metrics @/M.csv");
        (void)good(kinds[i], "--generations 2 --checkpoint @/C --metrics @/N.csv");
        const sw_outcome *o =
            good(kinds[i], "--generations 5 --checkpoint @/C --resume --threads 2 "
                           "--metrics @/N.csv --save-params @/Q");
        SW_CHECK(going_same_file("P", "Q"), "%s: other bytes", kinds[i]);
        CU_ASSERT_EQUAL(number(o, "resumed_from_generation"), 2.0);
        CU_ASSERT_EQUAL(number(o, "evaluations"), 40.0);
    }
}

/* Rows of metrics that begin with `kind`. */
static int rows_of(const char *kind, const char *name)
{
    char line[400];
    int n = 0;
    FILE *file = fopen(going_at(name), "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        n += strncmp(line, kind, strlen(kind)) == 0;
    if (file != NULL)
        fclose(file);
    return n;
}

/* Killed after its last save, or started again: no test is recorded twice, and a target that
 * was reached ends it. */
static void a_run_that_has_ended_only_ends_again(void)
{
    static const char words[] = POLE "--population 8 --generations 6 --target 1 --test-every 2 "
                                     "--checkpoint @/C --resume --metrics @/M.csv";
    going_new_folder("ended");
    for (int i = 0; i < 3; i++) {
        const sw_outcome *o = good(words, "");
        CU_ASSERT_EQUAL(number(o, "generations"), 2.0);
        CU_ASSERT(strstr(o->out, "\"reached\":true") != NULL);
        CU_ASSERT_EQUAL(rows_of("test,", "M.csv"), 1);
        CU_ASSERT_EQUAL(rows_of("generation,", "M.csv"), 2);
    }
    going_new_folder("more");
    for (int generations = 2; generations < 5; generations++) {
        char more[100];
        snprintf(more, sizeof more,
                 "--generations %d --checkpoint @/C --resume --metrics @/M.csv", generations);
        (void)good(DATA, more);
        CU_ASSERT_EQUAL(rows_of("test,", "M.csv"), 1);
        CU_ASSERT_EQUAL(rows_of("generation,", "M.csv"), generations);
    }
}

static void what_differs_is_refused_by_name(void)
{
    static const struct {
        const char *words, *says;
    } other[] = {
        {"--sigma 0.5", "--sigma"},
        {"--population 16", "--population"},
        {"--seed 3", "--seed"},
        {"--noise iid", "--noise"},
        {"--generations 1", "give more --generations"},
        {"--schedule cosine", "--schedule"},
    };
    going_new_folder("other");
    (void)good(POLE "--population 8 --generations 2", "--checkpoint @/C");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const sw_outcome *o =
            going_run(POLE "--population 8 --generations 3 --resume @/C %s", other[i].words);
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, other[i].says) != NULL,
                 "%s: status %d: %s", other[i].words, o->status, o->err);
    }
    const sw_outcome *o = going_run(POLE "--population 8 --checkpoint @/C");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "there already") != NULL, "%d: %s",
             o->status, o->err);
    o = going_run(POLE "--resume @/nothing");
    SW_CHECK(program_failed_cleanly(o, 3), "%d: %s", o->status, o->err);
    going_put("D", "no checkpoint");
    o = going_run(POLE "--resume @/D");
    SW_CHECK(program_failed_cleanly(o, 3), "%d: %s", o->status, o->err);
}

/* Waits until the first save is there, interrupts, and goes on. */
static void an_interrupt_ends_behind_a_generation_and_saves(void)
{
    static const char words[] = POLE "--population 8 --checkpoint @/C --checkpoint-every 1";
    static sw_outcome outcome;
    const struct timespec pause = {0, 2000000};
    going_new_folder("interrupt");
    const pid_t pid = going_start("%s --generations 1000000 --save-params @/P", words);
    for (int i = 0; i < 5000 && !going_exists("C"); i++)
        (void)nanosleep(&pause, NULL);
    CU_ASSERT_EQUAL(kill(pid, SIGINT), 0);
    sw_process_wait(&outcome, pid, "going", 60);
    const double generations = number(&outcome, "generations");
    SW_CHECK(outcome.status == 130 && going_exists("P") && generations >= 1.0,
             "status %d: %s %s", outcome.status, outcome.out, outcome.err);
    CU_ASSERT_EQUAL(going_step("C"), generations);
    CU_ASSERT(strstr(outcome.out, "\"test_steps\":null") != NULL);
    (void)going_run("%s --generations %.0f --resume --save-params @/Q", words,
                    generations + 2.0);
    (void)going_run(POLE "--population 8 --generations %.0f --save-params @/R",
                    generations + 2.0);
    CU_ASSERT(going_same_file("Q", "R"));
}

/* ---- files ------------------------------------------------------------------------------- */

static size_t lines_of(const char *name)
{
    size_t n = 0, lines = 0;
    unsigned char *text = file_read(going_at(name), &n);
    for (size_t i = 0; text != NULL && i < n; i++)
        lines += text[i] == '\n';
    free(text);
    return lines;
}

static void its_files_have_what_happened(void)
{
    going_new_folder("files");
    (void)good(POLE "--population 8 --generations 4 --test-every 2",
               "--metrics @/M.jsonl --profile @/F");
    CU_ASSERT_EQUAL(lines_of("M.jsonl"), 6); /* four generations and two tests */
    (void)good(DATA "--generations 2", "--metrics @/N.CSV");
    CU_ASSERT_EQUAL(lines_of("N.CSV"), 4); /* with the head, and the test at the end */
    const sw_outcome *o = going_run("report --json @/F");
    SW_CHECK(o->status == 0 && strstr(o->out, "mlp") != NULL, "status %d: %s", o->status,
             o->err);
}

/* ---- refusals ---------------------------------------------------------------------------- */

static bool begins_alone(const char *words)
{
    return strstr(words, "--epochs") != NULL || strstr(words, "--generations") != NULL;
}

static void what_it_cannot_do_is_refused(void)
{
    static const struct {
        const char *words;
        int status;
        const char *says;
    } bad[] = {
        {"--data idx:@/nothing", 3, "nothing"},
        {"--population 0", 2, "--population must be a whole number from 1"},
        {"--population 7", 2, "multiple of the 2 evaluations"},
        {"--population 8 --slice 10", 2, "--slice must be at most --population 8 (got 10)"},
        {"--population 8 --slice 3", 2, "--slice must be a multiple"},
        {"--repeats 1", 2, "--repeats must be at least 2"},
        {"--sigma 0", 2, "--sigma must be above 0"},
        {"--rank 2 --noise iid", 2, "--rank has no effect without --noise low-rank"},
        {"--in-share 0.5", 2, "--in-share has no effect without --noise permuted"},
        {"--in-share 1.5 --noise sparse", 2, "--in-share must be above 0"},
        {"--sigma-lr 0.1", 2, "--sigma-lr has no effect without --strategy snes"},
        {"--top 3", 2, "--top has no effect without --strategy ars"},
        {"--strategy ars --population 8 --top 5", 2, "--top must be at most the 4 directions"},
        {"--strategy snes --noise sparse", 2, "--strategy snes has --noise iid"},
        {"--strategy snes --shaping raw", 2, "--shaping has no effect"},
        {"--noise loud", 2, "low-rank, iid"},
        {"--environment cart-pole --data synthetic", 2, "--environment and --data exclude"},
        {"--environment cart-pole --epochs 2", 2, "--environment and --epochs exclude"},
        {"--environment pendulum", 2, "cart-pole"},
        {"--environment cart-pole --model lenet5", 2, "--model lenet5"},
        {"--environment cart-pole --model gpt", 2, "--model gpt"},
        {"--test-episodes 3", 2, "--test-episodes has no effect without --environment"},
        {"--epochs 1 --generations 1", 2, "--epochs and --generations exclude"},
        {"--target 2", 2, "--target must be a share"},
        {"--warmup 9 --generations 9", 2, "--warmup must be below the 9 generations"},
        {"--batch 8", 2, "unknown option --batch"},
        {"--clip 1", 2, "unknown option --clip"},
        {"--checkpoint-every 3", 2, "--checkpoint-every has no effect without --checkpoint"},
        {"--resume", 2, "--resume must have a FILE"},
        {"--metrics @/M.txt", 2, "FILE.csv or FILE.jsonl"},
        {"--metrics @/events.out.tfevents.x", 2, "FILE.csv or FILE.jsonl"},
        {"--save-params @/P --checkpoint @/P", 2, "the same file as --save-params"},
        {"--save-params @/missing/P", 1, "--save-params"},
        {"--metrics @/missing/M.csv", 1, "--metrics"},
        {"--checkpoint @/missing/C", 1, "--checkpoint"},
        {"--profile @/missing/F", 1, "--profile"},
        {"--load-params @/nothing", 3, "nothing"},
        {"--device sim", 5, "sim"},
    };
    going_new_folder("refused");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sw_outcome *o =
            going_run("es --quiet %s%s", begins_alone(bad[i].words) ? "" : "--generations 1 ",
                      bad[i].words);
        SW_CHECK(program_failed_cleanly(o, bad[i].status) &&
                     strstr(o->err, bad[i].says) != NULL,
                 "%s: status %d: %s", bad[i].words, o->status, o->err);
    }
}

/* ---- failures ---------------------------------------------------------------------------- */

#define SAMPLE 12 /* sites of a kind that quick mode tries */

static const sw_outcome *under(const char *fault)
{
    static sw_outcome outcome;
    char line[3000];
    going_new_folder("faults");
    snprintf(line, sizeof line,
             POLE "--population 8 --generations 2 --checkpoint %s --checkpoint-every 1 "
                  "--metrics %s --save-params %s",
             going_at("C"), going_at("M.csv"), going_at("P"));
    program_run(&outcome, line, fault);
    return &outcome;
}

static void one_site(const char *kind, unsigned long long k, const char *mode)
{
    char fault[80];
    snprintf(fault, sizeof fault, "STEPWELL_FAULT=%s:%llu%s", kind, k, mode);
    const sw_outcome *o = under(fault);
    const bool done = o->status == 0 && o->out[0] == '{';
    const bool failed =
        (o->status == 1 || o->status == 3 || o->status == 4) && o->err[0] != '\0';
    SW_CHECK(o->signal == 0 && !o->timed_out && (done || failed) && sw_count_lines(o->err) <= 4,
             "%s: status %d, signal %d: %s", fault, o->status, o->signal, o->err);
}

static void every_site_fails_cleanly(void)
{
    static const char *const kinds[] = {"memory", "file"};
    unsigned long long sites[2] = {0};
    const sw_outcome *o = under("STEPWELL_FAULT=memory:count");
    const char *line = strstr(o->err, "fault sites:");
    CU_ASSERT_FATAL(o->status == 0 && line != NULL &&
                    sscanf(line, "fault sites: memory %llu file %llu", &sites[0], &sites[1]) ==
                        2);
    for (int kind = 0; kind < 2; kind++) {
        const unsigned long long n = sites[kind];
        const unsigned long long step =
            sw_tests_full() || n <= SAMPLE ? 1 : (n + SAMPLE - 1) / SAMPLE;
        for (unsigned long long k = step / 2; k < n; k += step) {
            one_site(kinds[kind], k, "");
            one_site(kinds[kind], k, "+");
        }
    }
}

static const sw_test tests[] = {
    {"a pole stays up", a_pole_stays_up},
    {"digits are learned", digits_are_learned},
    {"a pooled mlp reads means", a_pooled_mlp_reads_means},
    {"threads and slices change no bit", threads_and_slices_change_no_bit},
    {"it begins with given parameters", it_begins_with_given_parameters},
    {"bytes are as planned, and none is noise", bytes_are_as_planned_and_none_is_noise},
    {"a budget is kept", a_budget_is_kept},
    {"a run that goes on ends with the same bits", a_run_that_goes_on_ends_with_the_same_bits},
    {"a run that has ended only ends again", a_run_that_has_ended_only_ends_again},
    {"what differs is refused by name", what_differs_is_refused_by_name},
    {"an interrupt ends after a generation, and saves",
     an_interrupt_ends_behind_a_generation_and_saves},
    {"its files have what happened", its_files_have_what_happened},
    {"what it cannot do is refused", what_it_cannot_do_is_refused},
    {"every site of a small run fails cleanly", every_site_fails_cleanly},
};
SW_SUITE("es", tests)
