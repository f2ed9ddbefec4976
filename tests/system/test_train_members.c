/* `stepwell train --members` from outside: what each member is does not depend on who computes,
 * where it waits or how often the run was interrupted; each ends and is saved for itself. */
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NET                                                                                    \
    "train --data synthetic --synthetic-n 100 --batch 16 --model mlp --hidden 12 --members 5 " \
    "--epochs 4 --seed 3 --quiet --json --metrics @/M.jsonl --save-params @/P%%d "

enum { N = 5 };

/* P0.. and M.jsonl become R0.. and R.jsonl. */
static void keep(void)
{
    char from[20], to[20];
    for (int k = 0; k < N; k++) {
        snprintf(from, sizeof from, "P%d", k);
        snprintf(to, sizeof to, "R%d", k);
        going_copy(from, to);
    }
    going_copy("M.jsonl", "R.jsonl");
}

static void are_kept(const char *what)
{
    char is[20], was[20];
    for (int k = 0; k < N; k++) {
        snprintf(is, sizeof is, "P%d", k);
        snprintf(was, sizeof was, "R%d", k);
        SW_CHECK(going_same_file(is, was), "%s: member %d has other parameters", what, k);
    }
    SW_CHECK(going_same_file("M.jsonl", "R.jsonl"), "%s: other metrics", what);
}

static void the_same_bytes_whatever_computes(void)
{
    static const char *const words[] = {"", "--threads 2", "--threads 3",
                                        "--memory-budget 260000",
                                        "--threads 2 --memory-budget 500000"};
    going_new_folder("members");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const sw_outcome *o = going_run(NET "%s", words[i]);
        SW_CHECK(o->status == 0 && program_number(o->out, "members") == N, "%s: status %d: %s",
                 words[i], o->status, o->err);
        SW_CHECK(program_number(o->out, "measured_peak_bytes") ==
                     program_number(o->out, "predicted_peak_bytes"),
                 "%s: %s", words[i], o->out);
        SW_CHECK((program_number(o->out, "waiting") > 0) == (i >= 3), "%s: %s", words[i],
                 o->out);
        if (i == 0)
            keep();
        else
            are_kept(words[i]);
    }
}

/* Member k alone is `--members 1 --seed 3 + k`. */
static void a_member_is_what_it_is_alone(void)
{
    going_new_folder("members");
    SW_CHECK(going_run(NET "--threads 2")->status == 0, "it failed");
    keep();
    for (int k = 0; k < N; k++) {
        char was[20];
        const sw_outcome *o = going_run(NET "--members 1 --seed %d", 3 + k);
        snprintf(was, sizeof was, "R%d", k);
        SW_CHECK(o->status == 0 && going_same_file("P0", was), "member %d: %s", k, o->err);
    }
}

static void what_was_interrupted_goes_on(void)
{
    going_new_folder("members");
    SW_CHECK(going_run(NET)->status == 0, "it failed");
    keep();
    /* A run is cut short by the file that it cannot write at the end, and goes on. */
    const sw_outcome *o =
        going_run(NET "--checkpoint @/C --checkpoint-every 1 --save-best @/none/B");
    SW_CHECK(o->status == 1, "status %d: %s", o->status, o->err);
    o = going_run(NET "--checkpoint @/D --checkpoint-every 1");
    SW_CHECK(o->status == 0, "status %d: %s", o->status, o->err);
    are_kept("saved");
    o = going_run(NET "--resume @/D.1 --threads 2");
    SW_CHECK(o->status == 0 && program_number(o->out, "turns") == 4, "status %d: %s", o->status,
             o->err);
    are_kept("gone on with");
    o = going_run(NET "--resume @/D.1 --schedule constant");
    SW_CHECK(o->status == 2 && strstr(o->err, "--schedule was 'cosine'") != NULL, "%s", o->err);
}

/* A rate of 0 learns nothing: all end after the third test. */
static void each_ends_for_itself(void)
{
    going_new_folder("members");
    const sw_outcome *o = going_run(NET "--lr 0 --schedule constant --patience 2");
    SW_CHECK(o->status == 0 && program_number(o->out, "turns") == 3, "status %d: %s", o->status,
             o->out);
    SW_CHECK(strstr(o->out, "\"ended\":false") == NULL, "%s", o->out);
    o = going_run(NET "--save-best @/B%%d");
    SW_CHECK(o->status == 0 && going_exists("B0") && going_exists("B4"), "%s", o->err);
    o = going_run(NET "--save-best @/B --save-params @/best");
    SW_CHECK(o->status == 0 && going_exists("B") && going_same_file("B", "best"),
             "the last test was the best one: %s", o->err);
}

static void what_cannot_be_is_refused(void)
{
    static const char *const bad[][2] = {
        {"--witness", "--witness is not supported with --members"},
        {"--profile @/x", "--profile is not supported with --members"},
        {"--load-params @/x", "--load-params is not supported with --members"},
        {"--accumulate 2", "--accumulate is not supported with --members"},
        {"--immediate", "--immediate is not supported with --members"},
        {"--warmup 1000", "--warmup must be below"},
        {"--members 0", "--members"},
        {"--save-params @/%%s", "the only % must be that of %d"},
    };
    going_new_folder("members");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char words[600];
        snprintf(words, sizeof words, "%s", bad[i][0]);
        const sw_outcome *o = strstr(words, "%%") != NULL
                                  ? going_run("train --members 2 --quiet --save-params @/%%s")
                                  : going_run(NET "%s", words);
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, bad[i][1]) != NULL,
                 "%s: status %d: %s", words, o->status, o->err);
    }
    const sw_outcome *o = going_run("train --same-data --quiet");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "without --members") != NULL, "%s",
             o->err);
    o = going_run(NET "--memory-budget 20000");
    SW_CHECK(program_failed_cleanly(o, 4) && strstr(o->err, "20,000") != NULL, "status %d: %s",
             o->status, o->err);
}

static const sw_test tests[] = {
    {"the same bytes whatever computes", the_same_bytes_whatever_computes},
    {"a member is what it is alone", a_member_is_what_it_is_alone},
    {"what was interrupted goes on", what_was_interrupted_goes_on},
    {"each ends for itself", each_ends_for_itself},
    {"what cannot be is refused", what_cannot_be_is_refused},
};
SW_SUITE("train members", tests)
