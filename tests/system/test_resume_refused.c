/* A checkpoint that a training cannot go on from is refused before the first step: the first
 * difference is named, and no file is touched. */
#include "runtime/stepwell.h"
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NET "--model mlp --hidden 12 --synthetic-n 60 "
#define BASE NET "--batch 16 --epochs 2 "

typedef struct {
    const char *words;
    int status;
    const char *says;
} refusal;

static void refused(const refusal *r, const char *more)
{
    const sw_outcome *o = going_run("train --quiet %s %s", r->words, more);
    SW_CHECK(program_failed_cleanly(o, r->status) && strstr(o->err, r->says) != NULL,
             "%s %s: status %d, signal %d: %s", r->words, more, o->status, o->signal, o->err);
}
#define REFUSED(list, more)                                                                    \
    for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)                                 \
    refused(&(list)[i], more)

static void trained(const char *words)
{
    const sw_outcome *o = going_run("train --quiet %s", words);
    SW_CHECK(o->status == 0, "%s: status %d: %s", words, o->status, o->err);
}

/* All that decides the numbers of a run must be as it was. */
static void another_run_does_not_go_on(void)
{
    static const refusal others[] = {
        {"--synthetic-n 60 --batch 16 --epochs 2", 2, "--model was 'mlp'"},
        {"--model mlp --hidden 13 --synthetic-n 60 --batch 16 --epochs 2", 2,
         "--hidden was '12' in the run that saved it and is '13' now"},
        {BASE "--activation tanh", 2, "--activation was"},
        {NET "--batch 17 --epochs 2", 2,
         "--batch was '16' in the run that saved it and is "
         "'17' now"},
        {"--model mlp --hidden 12 --synthetic-n 61 --batch 16 --epochs 2", 2, "C"},
        {BASE "--accumulate 2", 2, "--accumulate was '1'"},
        {BASE "--seed 2", 2, "--seed was '1'"},
        {BASE "--optimizer sgd", 2, "--optimizer was 'adam'"},
        {BASE "--lr 0.25", 2, "--lr was '0.005' in the run that saved it and is '0.25' now"},
        {BASE "--weight-decay 0.1", 2, "--weight-decay was '0'"},
        {BASE "--clip 0.1", 2, "--clip was '0'"},
        {BASE "--max-skipped 3", 2, "--max-skipped was '10'"},
        {BASE "--keep-gradients", 2, "--"},
        {BASE "--schedule linear", 2, "--schedule was 'cosine'"},
        {BASE "--warmup 2", 2, "--warmup was '0'"},
        {BASE "--lr-floor 0.001", 2, "--lr-floor was '0'"},
        {NET "--batch 16 --epochs 3", 2,
         "steps in all (--epochs, --steps) was '8' in the run that saved it and is '12' now"},
        {NET "--batch 16 --epochs 2 --steps 7", 2,
         "was '8' in the run that saved it and is '7' now"},
        {BASE "--validate-every 3", 2, "--validate-every was '0'"},
        {BASE "--patience 3", 2, "--patience was '0'"},
        {BASE "--patience 0", 2, "--patience"},
    };
    going_new_folder("others");
    trained(BASE "--checkpoint @/C");
    going_copy("C", "before");
    going_put("p", "old");
    REFUSED(others, "--resume @/C --profile @/p");
    REFUSED(others, "--checkpoint @/C --resume --profile @/p");
    const sw_outcome *o = going_run("train --quiet " BASE "--normalise none --resume @/C");
    SW_CHECK(o->status == 2 && strstr(o->err, "--normalise was '0.") != NULL, "status %d: %s",
             o->status, o->err); /* after the note that is there with --load-params too */
    CU_ASSERT(going_same_file("C", "before") && !going_exists("C.lock"));
    going_put("o", "old");
    CU_ASSERT(going_same_file("p", "o"));
}

static void other_data_do_not_go_on(void)
{
    char lines[2][60 * 32];
    going_new_folder("data");
    for (int k = 0; k < 2; k++) {
        char *to = lines[k];
        for (int i = 0; i < 60; i++)
            to += sprintf(to, "%d.5,%d,%d\n", i * 7 % 60, i % 7 + (k == 1 && i == 33), i % 2);
    }
    going_put("t.csv", lines[0]);
    static const char words[] = "--model mlp --hidden 8 --data csv:@/t.csv --batch 13";
    const refusal same = {"--model mlp --hidden 8 --data csv:@/t.csv --batch 13", 2,
                          "the samples of loader "};
    const refusal split = {
        "--model mlp --hidden 8 --data csv:@/t.csv --batch 13 --split-seed 2", 2,
        "the samples of loader "};
    trained("--model mlp --hidden 8 --data csv:@/t.csv --batch 13 --checkpoint @/C");
    refused(&split, "--resume @/C");
    going_put("t.csv", lines[1]); /* one number of 120 */
    refused(&same, "--resume @/C");
    going_put("t.csv", lines[0]);
    const sw_outcome *o = going_run("train --quiet %s --resume @/C", words);
    SW_CHECK(o->status == 0, "status %d: %s", o->status, o->err);
}

/* Other instructions compute other last bits: that is said, and the run goes on. */
static void another_instruction_set_is_said(void)
{
    going_new_folder("isa");
    trained(BASE "--isa base --checkpoint @/C");
    const sw_outcome *o = going_run("train --quiet " BASE "--isa avx2 --resume @/C");
    if (o->status == 5 || strstr(o->err, "this machine") != NULL)
        SW_SKIP("this machine has no avx2");
    SW_CHECK(o->status == 0 &&
                 strstr(o->err, "was saved with the instruction set base") != NULL,
             "status %d: %s", o->status, o->err);
    o = going_run("train --quiet " BASE "--isa base --resume @/C");
    SW_CHECK(o->status == 0 && strstr(o->err, "instruction set") == NULL, "status %d: %s",
             o->status, o->err);
}

/* Options that contradict each other, or the files that are there. */
static void names_that_do_not_go_together(void)
{
    static const refusal list[] = {
        {BASE "--checkpoint-every 3", 2, "--checkpoint-every has no effect without"},
        {BASE "--checkpoint-every 3s", 2, "--checkpoint-every has no effect without"},
        {BASE "--keep-checkpoints 3", 2, "--keep-checkpoints has no effect without"},
        {BASE "--checkpoint-pauses", 2, "--checkpoint-pauses has no effect without"},
        {BASE "--resume", 2, "--resume must have a FILE"},
        {BASE "--checkpoint -", 2, "must be a file"},
        {BASE "--checkpoint @/C", 2, "a checkpoint is there already"},
        {BASE "--checkpoint @/only-old", 2, "a checkpoint is there already"},
        {BASE "--checkpoint @/C --resume @/C.1", 2, "names another"},
        {BASE "--resume @/missing", 3, "missing: there is no such file"},
        {BASE "--resume @/missing --checkpoint @/N", 3, "missing: there is no such file"},
        {BASE "--resume @/params", 3, "has parameters alone, and is no checkpoint"},
        {BASE "--resume @/text", 3, "text"},
        {BASE "--resume @/empty", 3, "empty"},
        {BASE "--checkpoint @/N --witness", 2, "--witness and --checkpoint exclude"},
        {BASE "--resume @/C --witness", 2, "--witness and --resume exclude"},
        {BASE "--checkpoint @/N --metrics @/pipe.csv", 2, "must be a regular file"},
        {BASE "--resume @/C --metrics @/pipe.csv", 2, "must be a regular file"},
        {BASE "--resume @/C --metrics -", 2, "ends in .csv"},
        {BASE "--checkpoint @/sub", 1, "--checkpoint"},
        {BASE "--checkpoint @/nowhere/C", 1, "--checkpoint"},
        {BASE "--checkpoint @/pipe.csv", 1, "must be a regular file"},
        {BASE "--checkpoint /dev/null", 1, "must be a regular file"},
        {BASE "--checkpoint @/not-ours", 1, "not-ours.lock"},
        {BASE "--checkpoint @/locked/C", 1, "--checkpoint"}, /* root may write there */
    };
    const size_t n = sizeof list / sizeof *list - (geteuid() == 0 ? 1 : 0);
    going_new_folder("names");
    trained(BASE "--checkpoint @/C --checkpoint-every 1 --checkpoint-pauses");
    trained(BASE "--save-params @/params");
    going_copy("C", "only-old.1");
    going_copy("C", "before");
    going_put("text", "neither");
    going_put("empty", "");
    going_put("not-ours.lock", "a text of someone else");
    CU_ASSERT(mkfifo(going_at("pipe.csv"), 0600) == 0 && mkdir(going_at("sub"), 0700) == 0 &&
              mkdir(going_at("locked"), 0500) == 0);
    for (size_t i = 0; i < n; i++)
        refused(&list[i], "");
    CU_ASSERT(going_same_file("C", "before") && !going_exists("N") && !going_exists("N.lock"));
    const sw_outcome *o = going_run("train --quiet " BASE "--checkpoint @/N --resume");
    CU_ASSERT(o->status == 0 && going_exists("N")); /* there is none yet: it begins */
}

/* No other file may be one of the checkpoint's: FILE, FILE.1 and so on, FILE.lock. */
static void no_file_is_one_of_the_checkpoints(void)
{
    static const refusal list[] = {
        {BASE "--checkpoint @/N --save-params @/N", 2, "same file as --checkpoint"},
        {BASE "--checkpoint @/N --save-best @/./N", 2, "same file as --checkpoint"},
        {BASE "--checkpoint @/N --profile @/N.1", 2, "same file as --checkpoint"},
        {BASE "--checkpoint @/N --heap-profile @/N.2", 2, "same file as --checkpoint"},
        {BASE "--checkpoint @/N --keep-checkpoints 40 --save-best @/N.39", 2,
         "same file as --checkpoint"},
        {BASE "--checkpoint @/N.csv --metrics @/N.csv", 2, "same file as --checkpoint"},
        {BASE "--checkpoint @/N --save-params @/N.lock", 2, "same file as --checkpoint"},
        {BASE "--checkpoint @/dangling --save-params @/N", 2, "same file as --checkpoint"},
        {BASE "--resume @/C --save-params @/C", 2, "same file as --resume"},
        {BASE "--resume @/C --save-best @/hard", 2, "same file as --resume"},
        {BASE "--resume @/C --profile @/C.1", 2, "same file as --resume"},
        {BASE "--checkpoint @/C --resume --save-best @/C.1", 2, "same file as --checkpoint"},
        {"--model mlp --data csv:@/t.csv --checkpoint @/t.csv --resume", 2, "same file as"},
    };
    going_new_folder("same");
    trained(BASE "--checkpoint @/C --checkpoint-every 1 --checkpoint-pauses");
    going_copy("C", "before");
    going_put("t.csv", "1,2,0\n2,3,1\n");
    CU_ASSERT(link(going_at("C"), going_at("hard")) == 0 &&
              symlink("N", going_at("dangling")) == 0);
    REFUSED(list, "");
    CU_ASSERT(going_same_file("C", "before") && going_exists("C.1") && !going_exists("N"));
}

/* Parameters of a checkpoint, and pixels that are normalised as in its run. */
static void a_checkpoint_is_a_file_of_parameters(void)
{
    going_new_folder("parameters");
    trained(BASE "--checkpoint @/C --save-params @/P");
    trained(NET "--steps 1 --lr 0 --optimizer sgd --load-params @/C --save-params @/Q");
    size_t n, m;
    float *p = program_numbers(going_at("P"), &n), *q = program_numbers(going_at("Q"), &m);
    CU_ASSERT(p != NULL && q != NULL && n == m && n > 0 && memcmp(p, q, n * sizeof *p) == 0);
    free(p);
    free(q);
    const sw_outcome *of_p =
        going_run("train --json --quiet --model mlp --hidden 12 --synthetic-n 80 "
                  "--load-params @/P");
    char normalise[80];
    const char *at = strstr(of_p->out, "\"normalise\":");
    snprintf(normalise, sizeof normalise, "%.40s", at != NULL ? at : "none");
    const sw_outcome *of_c =
        going_run("train --json --quiet --model mlp --hidden 12 --synthetic-n 80 "
                  "--load-params @/C");
    SW_CHECK(of_c->status == 0 && strstr(of_c->out, normalise) != NULL, "%s: %.300s", normalise,
             of_c->out);
    of_c =
        going_run("train --quiet " BASE "--optimizer sgd --load-params @/C --checkpoint @/N");
    CU_ASSERT_EQUAL(of_c->status, 0);
    /* The notes of the first parameters still hold for the run that goes on without them. */
    of_c = going_run("train --quiet " BASE "--optimizer sgd --checkpoint @/N --resume");
    SW_CHECK(of_c->status == 0, "status %d: %s", of_c->status, of_c->err);
}

/* By the library: a checkpoint that no `train` saved. */
static void a_checkpoint_of_another_program_is_refused(void)
{
    going_new_folder("program");
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_checkpoint *checkpoint = NULL;
    const sw_exec_opts exec_opts = SW_OPTS(sw_exec_opts, .seed = 1);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, &exec_opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&model, "mlp"), SW_OK);
    const sw_linear linear = sw_linear_new(model, "fc", 4, 3);
    (void)linear;
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = going_at("C"), .models = &model, .n_models = 1);
    CU_ASSERT_EQUAL_FATAL(sw_model_ready(model, exec, 1), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_checkpoint_create(&checkpoint, exec, &opts), SW_OK);
    CU_ASSERT_EQUAL(sw_checkpoint_save(checkpoint, 3), SW_OK);
    sw_checkpoint_destroy(checkpoint);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    const refusal r = {BASE, 2, "`stepwell train` did not save it"};
    refused(&r, "--resume @/C");
}

/* Rows that a checkpoint counts on are there, or the file is another one. */
static void metrics_that_do_not_belong_are_refused(void)
{
    static const refusal foreign = {BASE, 3, "no row ends at byte"},
                         folder = {BASE, 1, "--metrics"};
    going_new_folder("metrics");
    trained(BASE "--checkpoint @/C --metrics @/M.csv --save-params @/P");
    going_copy("M.csv", "whole");
    char text[4001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    going_put("M.csv", text);
    refused(&foreign, "--resume @/C --metrics @/M.csv");
    going_put("same", text);
    CU_ASSERT(going_same_file("M.csv", "same"));
    CU_ASSERT_EQUAL(mkdir(going_at("D.csv"), 0700), 0);
    refused(&folder, "--resume @/C --metrics @/D.csv");
    going_copy("whole", "M.csv");
    trained(BASE "--resume @/C --metrics @/M.csv");
    CU_ASSERT(going_same_file("whole", "M.csv"));
    const sw_outcome *o = going_run("train --quiet " BASE "--resume @/C --metrics @/new.csv");
    SW_CHECK(o->status == 0 && strstr(o->err, "is a new file") != NULL, "status %d: %s",
             o->status, o->err);
}

static const sw_test tests[] = {
    {"another run does not go on", another_run_does_not_go_on},
    {"other data do not go on", other_data_do_not_go_on},
    {"another instruction set is said", another_instruction_set_is_said},
    {"names that do not go together", names_that_do_not_go_together},
    {"no file is one of the checkpoint's", no_file_is_one_of_the_checkpoints},
    {"a checkpoint is a file of parameters", a_checkpoint_is_a_file_of_parameters},
    {"a checkpoint of another program is refused", a_checkpoint_of_another_program_is_refused},
    {"metrics that do not belong are refused", metrics_that_do_not_belong_are_refused},
};
SW_SUITE("resume refused", tests)
