/* `stepwell train --method mezo|lozo` from outside: it needs what inference needs, its record
 * makes the same parameters again, and what does not go with it is refused by name. */
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NET                                                                                    \
    "train --data synthetic --synthetic-n 200 --batch 32 --model mlp --hidden 12 --quiet "
#define START NET "--load-params @/START "

static void make_start(const char *folder)
{
    going_new_folder(folder);
    const sw_outcome *o = going_run(NET "--steps 5 --save-params @/START");
    SW_CHECK(o->status == 0, "%s", o->err);
}

/* The first number after `key` that follows `from`. */
static double number_behind(const char *json, const char *from, const char *key)
{
    const char *at = strstr(json, from);
    return at != NULL ? program_number(at, key) : -1.0;
}

static void it_needs_what_inference_needs(void)
{
    static const char *const methods[] = {"mezo", "lozo --zo-rank 3 --zo-window 4"};
    make_start("zeroth");
    for (size_t i = 0; i < 2; i++) {
        const sw_outcome *o =
            going_run(START "--method %s --lr 1e-3 --steps 9 --json --record @/R "
                            "--save-params @/P --witness",
                      methods[i]);
        SW_CHECK(o->status == 0, "%s", o->err);
        const double peak = program_number(o->out, "measured_peak_bytes");
        const char *programs = strstr(o->out, "\"programs\"");
        CU_ASSERT_PTR_NOT_NULL_FATAL(programs);
        CU_ASSERT_EQUAL(peak, program_number(o->out, "predicted_peak_bytes"));
        CU_ASSERT_EQUAL(peak, number_behind(programs, "\"eval\"", "measured_peak_bytes"));
        CU_ASSERT_EQUAL(peak, number_behind(programs, "\"train\"", "measured_peak_bytes"));
        CU_ASSERT_EQUAL(program_number(o->out, "record_bytes"), 264 + 4 * 9);
        CU_ASSERT_EQUAL(program_number(o->out, "allocations_after_warmup"), 0);
        SW_CHECK(
            strstr(o->out, i == 0 ? "\"method\": \"mezo\"" : "\"method\": \"lozo\"") != NULL ||
                strstr(o->out, i == 0 ? "\"method\":\"mezo\"" : "\"method\":\"lozo\"") != NULL,
            "%s", o->out);
        CU_ASSERT_FALSE(going_same_file("START", "P"));
    }
}

static void a_record_makes_the_same_parameters(void)
{
    static const char *const ways[] = {"", "--threads 2", "--isa base",
                                       "--batch 7 --synthetic-n 50"};
    static const char *const methods[] = {"mezo", "lozo --weight-decay 0.1"};
    make_start("replayed");
    for (size_t m = 0; m < 2; m++) {
        const sw_outcome *o =
            going_run(START "--method %s --lr 1e-3 --epochs 3 --record @/R --save-params @/P",
                      methods[m]);
        SW_CHECK(o->status == 0 && strstr(o->out, "record") != NULL, "%s", o->err);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            o = going_run(START "--replay @/R --save-params @/Q %s", ways[i]);
            SW_CHECK(o->status == 0, "%s: %s", ways[i], o->err);
            SW_CHECK(going_same_file("P", "Q"), "%s: other parameters", ways[i]);
        }
    }
}

/* Interrupted somewhere: the record is of the steps until then. */
static void an_interrupted_run_leaves_its_record(void)
{
    sw_outcome outcome;
    make_start("interrupted");
    const pid_t pid = going_start(START "--method mezo --lr 1e-4 --steps 1000000 --record @/R "
                                        "--save-params @/P --metrics @/M.jsonl");
    for (int i = 0; i < 2000 && !going_exists("M.jsonl"); i++)
        usleep(5000);
    usleep(100000);
    (void)kill(pid, SIGINT);
    sw_process_wait(&outcome, pid, "going", 60);
    SW_CHECK(outcome.status == 130, "status %d: %s", outcome.status, outcome.err);
    const sw_outcome *o = going_run(START "--replay @/R --save-params @/Q --json");
    SW_CHECK(o->status == 0 && program_number(o->out, "steps") > 0, "%s", o->err);
    CU_ASSERT(going_same_file("P", "Q"));
}

static void what_does_not_go_together_is_refused(void)
{
    static const struct {
        const char *words, *says;
        int status;
    } refused[] = {
        {"--eps 0.1", "--eps has no effect without --method mezo or lozo", 2},
        {"--record @/R", "--record has no effect without", 2},
        {"--method mezo --zo-rank 2", "--zo-rank has no effect without --method lozo", 2},
        {"--method mezo --zo-window 2", "--zo-window has no effect", 2},
        {"--method mezo --eps 0", "--eps must be above 0", 2},
        {"--method spsa", "mezo", 2},
        {"--method mezo --optimizer adam", "--optimizer and --method mezo exclude", 2},
        {"--method mezo --momentum 0.5", "--momentum and", 2},
        {"--method lozo --clip 1", "--clip and --method lozo", 2},
        {"--method mezo --update after", "--update and", 2},
        {"--method mezo --max-skipped 3", "--max-skipped and", 2},
        {"--method mezo --keep-gradients", "--keep-gradients and", 2},
        {"--method mezo --accumulate 2", "--accumulate and", 2},
        {"--method mezo --members 2", "--members and", 2},
        {"--method mezo --checkpoint @/C", "--checkpoint and", 2},
        {"--method mezo --record -", "--record must be a file", 2},
        {"--method mezo --record @/START", "the same file as --load-params", 2},
        {"--method mezo --record @/no/where", "--record", 1},
        {"--replay @/R --method mezo", "--method and --replay exclude", 2},
        {"--replay @/R --lr 1", "--lr and --replay exclude", 2},
        {"--replay @/R --steps 1", "--steps and --replay", 2},
        {"--replay @/R --metrics @/M.csv", "--metrics and --replay", 2},
        {"--replay @/R --save-params @/R", "the same file as --replay", 2},
        {"--replay @/none", "none", 3},
        {"--replay @/START", "no record", 3},
    };
    make_start("refused");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char words[200];
        snprintf(words, sizeof words, "%s", refused[i].words);
        const char *at = strchr(words, '@');
        const sw_outcome *o = at == NULL
                                  ? going_run(START "%s", words)
                                  : going_run(START "%.*s%s", (int)(at - words), words,
                                              going_at(at + 2)); /* the one file of the line */
        SW_CHECK(program_failed_cleanly(o, refused[i].status) &&
                     strstr(o->err, refused[i].says) != NULL,
                 "'%s': status %d: %s", words, o->status, o->err);
    }
}

static void a_record_of_another_start_is_refused(void)
{
    make_start("other");
    const sw_outcome *o = going_run(START "--method mezo --steps 3 --record @/R");
    SW_CHECK(o->status == 0, "%s", o->err);
    o = going_run(NET "--replay @/R --save-params @/Q");
    SW_CHECK(program_failed_cleanly(o, 1) && strstr(o->err, "begins with") != NULL, "%s",
             o->err);
    CU_ASSERT_FALSE(going_exists("Q"));
    size_t n = 0;
    unsigned char *bytes = file_read(going_at("R"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    bytes[258] ^= 1;
    CU_ASSERT(file_write(going_at("R"), bytes, n));
    free(bytes);
    o = going_run(START "--replay @/R --save-params @/Q");
    SW_CHECK(program_failed_cleanly(o, 3) && strstr(o->err, "damaged") != NULL, "%s", o->err);
    CU_ASSERT_FALSE(going_exists("Q"));
}

/* A net that gradients have begun to train goes on without them: the loss over data that
 * neither has seen falls, for three seeds. */
static void improves(const char *name, const char *net, const char *begin, const char *go_on)
{
    char folder[32];
    snprintf(folder, sizeof folder, "better-%s", name);
    going_new_folder(folder);
    for (int seed = 1; seed <= 3; seed++) {
        const sw_outcome *o = going_run(
            "train %s %s --seed %d --quiet --json --save-params @/S", net, begin, seed);
        SW_CHECK(o->status == 0, "%s", o->err);
        const double before = program_number(o->out, "validation_loss");
        o = going_run("train %s %s --seed %d --quiet --json --method mezo --load-params @/S "
                      "--record @/R",
                      net, go_on, seed);
        SW_CHECK(o->status == 0, "%s", o->err);
        const double after = program_number(o->out, "validation_loss");
        sw_note("%s, seed %d: loss over data held back %.4f, after %.0f steps %.4f", name, seed,
                before, program_number(o->out, "steps"), after);
        SW_CHECK(after < before, "%s, seed %d: %g, then %g", name, seed, before, after);
    }
}

static void lenet5_gets_better(void)
{
    const char *data = sw_data_path("mnist");
    char net[600];
    if (data == NULL)
        SW_SKIP("MNIST is not there");
    snprintf(net, sizeof net, "--model lenet5 --data idx:%s", data);
    improves("lenet5", net, "--steps 20 --batch 64", "--steps 600 --batch 128 --lr 6e-4");
}

static void gpt_gets_better(void)
{
    const char *data = sw_data_path("tinyshakespeare/input.txt");
    char net[600];
    if (data == NULL)
        SW_SKIP("tinyshakespeare is not there");
    snprintf(net, sizeof net,
             "--model gpt --data text:%s --context 32 --layers 2 --heads 2 --width 32", data);
    improves("gpt", net, "--steps 100 --batch 32", "--steps 600 --batch 32 --lr 1e-3");
}

static const sw_test tests[] = {
    {"it needs what inference needs", it_needs_what_inference_needs},
    {"a record makes the same parameters", a_record_makes_the_same_parameters},
    {"an interrupted run leaves its record", an_interrupted_run_leaves_its_record},
    {"what does not go together is refused by name", what_does_not_go_together_is_refused},
    {"a record of another start is refused", a_record_of_another_start_is_refused},
    {"a trained lenet5 gets better on data held back", lenet5_gets_better, .full = true},
    {"a trained gpt gets better on data held back", gpt_gets_better, .full = true},
};
SW_SUITE("train: zeroth order", tests)
