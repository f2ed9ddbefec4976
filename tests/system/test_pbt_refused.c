/* `stepwell pbt` refuses a job that it cannot do in one clear line, before the first step. */
#include "tests/support/suite.h"
#include "tests/system/populations.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LR " lr=log:0.01..1"

typedef struct {
    const char *words;
    int status;
    const char *says;
} refusal;

static void refused(const refusal *r)
{
    const sw_outcome *o = population_only(r->words, "");
    SW_CHECK(program_failed_cleanly(o, r->status) && strstr(o->err, r->says) != NULL,
             "%s: status %d, signal %d: %s", r->words, o->status, o->signal, o->err);
}
#define REFUSED(list)                                                                          \
    for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)                                 \
    refused(&(list)[i])

static void ranges_that_mean_nothing(void)
{
    static const refusal list[] = {
        {"", 2, "nothing to explore"},
        {"foo=uniform:0..1", 2, "foo: there is no such hyper-parameter"},
        {"lr", 2, "must be NAME=KIND:VALUES"},
        {"lr=0.5", 2, "must be NAME=KIND:VALUES"},
        {"lr=gauss:0..1", 2, "gauss"},
        {"lr=uniform:1..0", 2, "'lr': low must not be above high (got 1 and 0)"},
        {"lr=uniform:0..1" LR, 2, "'lr': the space has this hyper-parameter already"},
        {"lr=log:0..1", 2, "'lr': low of a logarithmic range must be above 0"},
        {"lr=uniform:0..inf", 2, "'lr': high must be a number"},
        {"lr=uniform:-1..1", 2, "lr must be at least 0"},
        {"lr=choice:red,blue", 2, "lr: choices must be numbers (got 'red')"},
        {"lr=choice:", 2, "'lr': the list of choices must not be empty"},
        {"--hidden 8,8 hidden3=int:4..8", 2, "hidden3: --hidden has 2 widths"},
        {"hidden0=int:4..8", 2, "hidden0: there is no such hyper-parameter"},
        {"--hidden 8,8 hidden=int:4..8 hidden2=int:4..8", 2, "exclude each other"},
        {"hidden=uniform:4..8", 2, "hidden must be int:LOW..HIGH or choice:A,B,C"},
        {"hidden=choice:4,8.5", 2, "hidden: choices must be whole numbers (got 8.5)"},
        {"hidden=int:0..8", 2, "hidden must be 1 to"},
        {"batch=int:0..8", 2, "batch must be 1 to"},
        {"batch=int:1..2000 hidden=int:1..2000", 2, "shapes, and 100000 can be planned"},
        {"dropout=uniform:0..1", 2, "dropout must be at least 0 and below 1"},
        {"momentum=uniform:0..0.9 --optimizer adam", 2, "momentum: --optimizer adam has none"},
        {"beta1=uniform:0..0.9 --optimizer sgd", 2, "beta1: --optimizer sgd has none"},
    };
    going_new_folder("ranges");
    REFUSED(list);
    const sw_outcome *o = going_run("pbt --model lenet5 --quiet hidden=int:4..8");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "no hidden widths") != NULL,
             "status %d: %s", o->status, o->err);
    o = going_run("pbt --model swishnet --quiet dropout=uniform:0..0.5");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "swishnet has none") != NULL,
             "status %d: %s", o->status, o->err);
}

static void options_that_mean_nothing(void)
{
    static const refusal list[] = {
        {"--quantile 0.7" LR, 2, "--quantile must be 0 to 0.5 (got 0.7)"},
        {"--replaced 0.3" LR, 2, "--replaced and --donors must be given together"},
        {"--donors 0.3" LR, 2, "--replaced and --donors must be given together"},
        {"--replaced 0.7 --donors 0.5" LR, 2, "together at most 1 (got 0.7 and 0.5)"},
        {"--factors x" LR, 2, "--factors must be two numbers above 0"},
        {"--factors 1.2" LR, 2, "--factors must be two numbers above 0"},
        {"--factors 0,2" LR, 2, "--factors must be two numbers above 0"},
        {"--resample 1.5" LR, 2, "--resample must be 0 to 1"},
        {"--members 0" LR, 2, "--members must be a whole number from 1"},
        {"--members 2000000" LR, 2, "--members must be a whole number from 1"},
        {"--interval 0" LR, 2, "--interval must be a whole number from 1"},
        {"--exploit best" LR, 2, "truncation, tournament, t-test"},
        {"--scheduler pb2" LR, 2, "it is one of perturb"},
        {"--immediate" LR, 2, "--immediate is not supported for populations"},
        {"--pause-to @/L" LR, 2, "--pause-to has no effect without --memory-budget"},
        {"--checkpoint-every 3" LR, 2, "--checkpoint-every has no effect without --checkpoint"},
        {"--resume lr=log:0.01..1", 2, ""},
        {"--without 1 --replay @/x" LR, 2, "--replay and --without exclude each other"},
        {"--prove --replay @/x" LR, 2, "--prove and --replay exclude each other"},
        {"--prove --metrics @/x.csv" LR, 2, "--prove and --metrics exclude each other"},
        {"--replay @/x --checkpoint @/C" LR, 2, "--replay and --checkpoint exclude"},
        {"--without 1 --checkpoint @/C" LR, 2, "--without and --checkpoint exclude"},
        {"--resume a=b" LR, 2, "--resume takes 'a=b' as its FILE"},
        {"--validation-share 0" LR, 2,
         "--validation-share must be above 0 and below 1 (got 0)"},
        {"--validation-share 1" LR, 2,
         "--validation-share must be above 0 and below 1 (got 1)"},
        {"--validation-samples 11" LR, 2,
         "--validation-samples must be at most the 10 samples of --validation-share 0.1 (got "
         "11)"},
        {"--synthetic-n 1" LR, 2,
         "--data synthetic has 1 sample for training, and must have 2"},
        {"--memory-budget 10KiB" LR, 4, "no shape fits --memory-budget 10,240"},
        {"--memory-budget 10KiB --members 100000" LR, 4, "no shape fits"},
    };
    going_new_folder("options");
    REFUSED(list);
}

static void files_that_cannot_be(void)
{
    static const refusal list[] = {
        {"--metrics @/x.txt" LR, 2, "--metrics must be FILE.csv or FILE.jsonl"},
        {"--metrics -" LR, 2, "--metrics must be FILE.csv or FILE.jsonl"},
        {"--save-params @/x%s" LR, 2, "the only % must be that of %d"},
        {"--save-params @/x%s%d" LR, 2, "the only % must be that of %d"},
        {"--save-params @/x%d%d" LR, 2, "the only % must be that of %d"},
        {"--save-params -" LR, 2, "--save-params must be a file"},
        {"--metrics @/x.csv --save-params @/x.csv" LR, 2, "the same file as --metrics"},
        {"--metrics @/x.csv --checkpoint @/x.csv" LR, 2, "the same file as --checkpoint"},
        {"--save-params @/C.1 --checkpoint @/C" LR, 2, "the same file as --checkpoint"},
        {"--metrics @/none/x.csv" LR, 1, "--metrics @/none/x.csv: No such file"},
        {"--plot @/none/x.svg" LR, 1, "--plot @/none/x.svg: No such file"},
        {"--profile @/none/p" LR, 1, "--profile @/none/p: No such file"},
        {"--plot @/x.svg --save-params @/x.svg" LR, 2, "the same file as --plot"},
        {"--save-params @/none/x" LR, 1, "--save-params @/none/x: No such file"},
        {"--save-params @/L" LR, 1, "--save-params @/L: Is a directory"},
        {"--log-dir @/none/L" LR, 1, "none is not there: No such file"},
        {"--log-dir @/text" LR, 1, "--log-dir @/text is no folder"},
        {"--log-dir @/N --resume @/text" LR, 3, "text"}, /* a folder that was made goes */
        {"--pause-to @/none/Z --memory-budget 1MiB" LR, 1, "none is not there: No such file"},
        {"--pause-to @/text --memory-budget 1MiB" LR, 1, "--pause-to @/text is no folder"},
        {"--pause-to @/N --memory-budget 10KiB" LR, 4, "no shape fits"},
        {"--checkpoint @/none/C" LR, 1, "--checkpoint @/none/C: No such file"},
        {"--metrics /dev/full" LR, 2, "--metrics must be"},
        {"--resume @/none" LR, 3, "there is no such file"},
        {"--resume @/text" LR, 3, "text"},
        {"--resume @/T" LR, 2, "`stepwell pbt` did not save it"},
        {"--replay @/none" LR, 3, "none: No such file"},
        {"--replay @/text" LR, 3, "text: line 1"},
        {"--replay @/empty" LR, 3, "empty: line 1: a policy must begin"},
        {"--replay @/T" LR, 3, "T: line 1"},
    };
    char folder[1200];
    going_new_folder("files");
    snprintf(folder, sizeof folder, "%s", going_at(""));
    CU_ASSERT(mkdir(going_at("L"), 0700) == 0);
    going_put("text", "neither\n");
    going_put("empty", "");
    const sw_outcome *o = going_run("train --quiet --model mlp --synthetic-n 60 --hidden 8 "
                                    "--checkpoint @/T");
    CU_ASSERT_EQUAL(o->status, 0);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char says[1500];
        const char *at = strchr(list[i].says, '@');
        snprintf(says, sizeof says, "%.*s%s%s",
                 at != NULL ? (int)(at - list[i].says) : (int)sizeof says - 1, list[i].says,
                 at != NULL ? folder : "", at != NULL ? at + 2 : "");
        const refusal r = {list[i].words, list[i].status, says};
        refused(&r);
        CU_ASSERT(!going_exists("C") && !going_exists("x.csv") && !going_exists("N"));
    }
}

/* A full disk is a clear error, whichever file is on it. */
static void a_full_disk(void)
{
    static const char *const files[] = {"--metrics @/full.csv", "--save-params @/full.csv"};
    going_new_folder("full");
    CU_ASSERT_EQUAL(symlink("/dev/full", going_at("full.csv")), 0);
    for (size_t i = 0; i < 2; i++) {
        const sw_outcome *o = population_only("--optimizer momentum" LR, files[i]);
        SW_CHECK(o->status == 1 && o->signal == 0 && strstr(o->err, "full") != NULL &&
                     strstr(o->err, "No space left") != NULL,
                 "%s: status %d: %s", files[i], o->status, o->err);
    }
}

/* ---- checkpoints ------------------------------------------------------------------------- */

static void another_population_does_not_go_on(void)
{
    static const struct {
        const char *words, *says;
    } others[] = {
        {"--seed 4" LR, "--seed was '3' in the run that saved it and is '4' now"},
        {"--hidden 13" LR, "--hidden was '12'"},
        {"--batch 17" LR, "--batch was '16'"},
        {"--optimizer sgd" LR, "--optimizer was 'momentum'"},
        {"--clip 0.1" LR, "--clip was '0'"},
        {"--max-skipped 3" LR, "--max-skipped was '10'"},
        {"--dropout 0.1" LR, "--dropout was '0'"},
        {"--normalise none" LR, "--normalise was"},
        {"--synthetic-n 97" LR, "--data was"},
        {"--validation-share 0.105" LR, "--validation-share was '0.1"},
        {"--validation-samples 9" LR, "--validation-samples was '10' in the run"},
        {"--members 7" LR, "--members was '6'"},
        {"--interval 4" LR, "--interval was '3'"},
        {"--burn-in 4" LR, "--burn-in was '0'"},
        {"--steps 25" LR, "(--steps, --epochs) was '24'"},
        {"--metric loss" LR, "--metric was 'accuracy'"},
        {"--stop-score 0.9" LR, "--stop-score was"},
        {"--quantile 0.5" LR, "--quantile was '0.25'"},
        {"--replaced 0.5 --donors 0.25" LR, "--replaced was"},
        {"--resample 0.5" LR, "--resample was '0.25'"},
        {"--factors 2,0.5" LR, "--factors was '1.2"},
        {"--synch" LR, "--synch was 'no' in the run that saved it and is 'yes' now"},
        {"--exploit tournament" LR, "--exploit was 'truncation'"},
        {"--too-large batch" LR, "--too-large was 'refuse'"},
        {"--same-data" LR, "--same-data was 'no'"},
        {"lr=log:0.01..2", "lr was 'log:0.01..1' in the run that saved it and is"},
        {"momentum=uniform:0..0.9",
         "lr was 'log:0.01..1' in the run that saved it, and has no part in this one"},
        {LR " momentum=uniform:0..0.9", "the number of hyper-parameters was '1'"},
    };
    going_new_folder("others");
    const sw_outcome *o =
        population_only("--optimizer momentum" LR, "--checkpoint @/C --checkpoint-every 1");
    CU_ASSERT_EQUAL(o->status, 0);
    going_copy("C", "before");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char words[300];
        snprintf(words, sizeof words, "--resume=@/C --optimizer momentum %s", others[i].words);
        o = population_only(words, "");
        SW_CHECK(o->status == 2 && o->out[0] == '\0' && sw_count_lines(o->err) == 1 &&
                     strstr(o->err, others[i].says) != NULL,
                 "%s: status %d: %s", others[i].words, o->status, o->err);
    }
    CU_ASSERT(going_same_file("C", "before"));
    o = population_only("--optimizer momentum" LR, "--resume=@/C --threads 3");
    SW_CHECK(o->status == 0, "status %d: %s", o->status, o->err);
    /* As `train` saves it. */
    o = going_run("train --data synthetic --synthetic-n 96 --batch 16 --model mlp --hidden 12 "
                  "--members 6 --steps 24 --seed 3 --quiet --optimizer momentum --lr 0.02 "
                  "--checkpoint @/T");
    CU_ASSERT_EQUAL(o->status, 0);
    o = population_only("--optimizer momentum" LR, "--resume=@/T");
    SW_CHECK(program_failed_cleanly(o, 2) &&
                 strstr(o->err, "`stepwell pbt` did not save it") != NULL,
             "status %d: %s", o->status, o->err);
}

/* Cut at many places and with bytes changed: refused as damaged, or the generation before is
 * used; never a crash. */
static void damaged_checkpoints_are_refused(void)
{
    sw_dice dice = {.state = 11};
    size_t n;
    going_new_folder("damaged");
    const sw_outcome *o = population_only("--optimizer momentum" LR " hidden=int:4..20",
                                          "--checkpoint @/S --checkpoint-every 1");
    CU_ASSERT_EQUAL(o->status, 0);
    unsigned char *whole = file_read(going_at("S"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    sw_after(free, whole);
    for (int i = 0; i < (sw_tests_full() ? 400 : 24); i++) {
        unsigned char *bytes = malloc(n);
        size_t length = n;
        memcpy(bytes, whole, n);
        if (i % 2 == 0)
            length = (size_t)sw_dice_below(&dice, n);
        else
            bytes[sw_dice_below(&dice, n)] ^= (unsigned char)(1 + sw_dice_below(&dice, 255));
        CU_ASSERT(file_write(going_at("D"), bytes, length));
        free(bytes);
        o = population_only("--optimizer momentum" LR " hidden=int:4..20", "--resume=@/D");
        SW_CHECK(program_failed_cleanly(o, 3), "%d: %zu bytes: status %d, signal %d: %s", i,
                 length, o->status, o->signal, o->err);
    }
}

/* A log that is not as it was is refused before any file is changed, with the way out, which is
 * one; with the log as it was the run goes on. */
static void damaged_logs_are_refused(void)
{
    static const char words[] = "--optimizer momentum" LR, log[] = "L/pbt_global.txt";
    size_t n;
    const sw_outcome *o = population_run(words, "--steps 12 --checkpoint @/C");
    unsigned char *whole = file_read(going_at(log), &n);
    CU_ASSERT_FATAL(o->status == 0 && whole != NULL && n > 100);
    sw_after(free, whole);
    going_put("M.csv", "not the metrics\n");
    for (size_t i = 0; i < n; i += n / 9) {
        whole[i] ^= (unsigned char)(1 << i % 8);
        CU_ASSERT(file_write(going_at(log), whole, n));
        whole[i] ^= (unsigned char)(1 << i % 8);
        going_copy("M.csv", "before");
        o = population_only(words, "--steps 12 --resume=@/C --metrics @/M.csv --log-dir @/L");
        SW_CHECK(o->status == 3 && o->signal == 0 &&
                     strstr(o->err, "pbt_global.txt is damaged: its first") != NULL &&
                     strstr(o->err, "or go on without --log-dir") != NULL &&
                     going_same_file("M.csv", "before"),
                 "byte %zu: status %d: %s", i, o->status, o->err);
    }
    o = population_only(words, "--steps 12 --resume=@/C --log-dir @/new");
    SW_CHECK(o->status == 3 && strstr(o->err, "pbt_global.txt: has 0 bytes, and had") != NULL &&
                 !going_exists("new"),
             "status %d: %s", o->status, o->err);
    o = population_only(words, "--steps 12 --resume=@/C");
    CU_ASSERT_EQUAL(o->status, 0);
    CU_ASSERT(file_write(going_at(log), whole, n));
    o = population_only(words, "--steps 12 --resume=@/C --log-dir @/L");
    CU_ASSERT_EQUAL(o->status, 0);
}

/* A policy that is cut, or of another space. */
static void damaged_policies_are_refused(void)
{
    size_t n;
    (void)population_run("--optimizer momentum --synch" LR, "");
    unsigned char *whole = NULL;
    for (int k = 0; k < POPULATION && whole == NULL; k++) { /* one with two lines at least */
        char name[40];
        snprintf(name, sizeof name, "L/pbt_policy_%d.txt", k);
        whole = file_read(going_at(name), &n);
        if (whole != NULL && memchr(whole, '\n', n - 1) == NULL) {
            free(whole);
            whole = NULL;
        }
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    sw_after(free, whole);
    for (size_t i = 0; i < n; i += sw_tests_full() ? 1 : 37) {
        const bool line = i > 0 && whole[i - 1] == '\n';
        CU_ASSERT(file_write(going_at("cut"), whole, i));
        const sw_outcome *o =
            population_only("--optimizer momentum --synch" LR, "--replay @/cut");
        SW_CHECK(line ? o->status == 0 : program_failed_cleanly(o, 3),
                 "%zu bytes: status %d: %s", i, o->status, o->err);
    }
    CU_ASSERT(file_write(going_at("cut"), whole, n));
    const sw_outcome *o =
        population_only("--optimizer momentum" LR " momentum=uniform:0..0.9", "--replay @/cut");
    SW_CHECK(program_failed_cleanly(o, 3), "status %d: %s", o->status, o->err);
    going_put("wide", "[0,0,0,0,{\"hidden\":900},{\"hidden\":900}]\n");
    o = population_only("hidden=choice:8,900", "--replay @/wide --memory-budget 300,000");
    SW_CHECK(program_failed_cleanly(o, 4) &&
                 strstr(o->err, "hidden 900 does not fit --memory-budget 300,000") != NULL,
             "status %d: %s", o->status, o->err);
}

static const sw_test tests[] = {
    {"ranges that mean nothing", ranges_that_mean_nothing},
    {"options that mean nothing", options_that_mean_nothing},
    {"files that cannot be", files_that_cannot_be},
    {"a full disk", a_full_disk},
    {"another population does not go on", another_population_does_not_go_on},
    {"damaged checkpoints are refused", damaged_checkpoints_are_refused},
    {"damaged logs are refused", damaged_logs_are_refused},
    {"damaged policies are refused", damaged_policies_are_refused},
};
SW_SUITE("pbt refused", tests)
