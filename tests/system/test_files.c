/* The files of `stepwell train`: a mistyped path, a refused run and a signal before the
 * first step destroy no file. */
#include "runtime/base/checksum.h"
#include "tests/support/read_tfevents.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALL "--synthetic-n 40 --batch 16 --steps 2 "

static char folder[1000];

/* A path in an empty folder of this test. Valid until the eighth next call. */
static const char *at(const char *name)
{
    static char path[8][1200];
    static unsigned next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static void new_folder(const char *name)
{
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    (void)sw_shell("rm -rf '%s'", folder);
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
}

static void put(const char *name, const char *text)
{
    CU_ASSERT(file_write(at(name), text, strlen(text)));
}

static bool has_text(const char *name, const char *text)
{
    size_t n;
    char *bytes = (char *)file_read(at(name), &n);
    const bool same = bytes != NULL && n == strlen(text) && memcmp(bytes, text, n) == 0;
    free(bytes);
    return same;
}

static bool exists(const char *name)
{
    return access(at(name), F_OK) == 0;
}

/* A command with these options; "@" stands for the folder. */
static const sw_outcome *run(const char *command, const char *options)
{
    static sw_outcome outcome;
    char words[4000];
    size_t n = (size_t)snprintf(words, sizeof words, "%s ", command);
    for (const char *c = options; *c != '\0' && n + sizeof folder < sizeof words; c++)
        n += (size_t)snprintf(words + n, sizeof words - n, "%.*s", *c == '@' ? 999 : 1,
                              *c == '@' ? folder : c);
    program_run(&outcome, words, NULL);
    return &outcome;
}

static const sw_outcome *train(const char *options)
{
    return run("train --quiet", options);
}

/* One file under two names is refused, whether it is there or would be made. */
static void no_file_is_written_under_two_names(void)
{
    static const char *const refused[] = {
        SMALL "--profile @/new --save-params @/./new",
        SMALL "--profile @/new --save-params @/sub/../new",
        SMALL "--profile @/old --load-params @/./old",
        SMALL "--profile @/old --load-params @/hard",
        SMALL "--profile @/soft --load-params @/old",
        SMALL "--profile @/dangling --save-params @/new",
        SMALL "--save-best @/new --save-params @/./new",
        SMALL "--metrics @/new.csv --profile @/./new.csv",
        SMALL "--metrics @/new.jsonl --save-params @/new.jsonl",
        SMALL "--metrics @/new.jsonl --save-best @/sub/../new.jsonl",
        SMALL "--metrics @/hard.csv --load-params @/old",
        SMALL "--checkpoint @/new --save-params @/./new",
        SMALL "--checkpoint @/new --save-best @/dangling",
        SMALL "--checkpoint @/new --profile @/new",
        SMALL "--checkpoint @/new.csv --metrics @/new.csv",
        SMALL "--checkpoint @/new --save-params @/new.1",
        SMALL "--checkpoint @/new --keep-checkpoints 3 --profile @/new.2",
        SMALL "--checkpoint @/new --save-best @/new.lock",
        "--data idx:@ --checkpoint @/t10k-images-idx3-ubyte.gz",
        "--data idx:@ --metrics @/data.csv",
        "--data idx:@ --save-best @/train-labels-idx1-ubyte",
        "--data idx:@ --profile @/./train-labels-idx1-ubyte",
        "--data idx:@ --save-params @/sub/../t10k-images-idx3-ubyte.gz",
        "--data idx:@ --save-params @/dangling-data",
    };
    new_folder("two-names");
    put("old", "old");
    put("train-labels-idx1-ubyte", "labels");
    CU_ASSERT_EQUAL(mkdir(at("sub"), 0700), 0);
    CU_ASSERT_EQUAL(link(at("old"), at("hard")), 0);
    CU_ASSERT_EQUAL(link(at("old"), at("hard.csv")), 0);
    CU_ASSERT_EQUAL(symlink("train-labels-idx1-ubyte", at("data.csv")), 0);
    CU_ASSERT_EQUAL(symlink("old", at("soft")), 0);
    CU_ASSERT_EQUAL(symlink("new", at("dangling")), 0);
    CU_ASSERT_EQUAL(symlink("t10k-labels-idx1-ubyte", at("dangling-data")), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const sw_outcome *o = train(refused[i]);
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "same file") != NULL,
                 "%s: status %d: %s", refused[i], o->status, o->err);
    }
    CU_ASSERT(has_text("old", "old") && has_text("train-labels-idx1-ubyte", "labels") &&
              !exists("new"));
}

/* The way out is said before the training begins, by the name that was given. */
static void a_checkpoint_that_cannot_be_saved_is_refused(void)
{
    if (!swi_checksum_there())
        SW_SKIP("built without libxxhash");
    new_folder("no-checkpoint");
    CU_ASSERT_EQUAL(mkdir(at("sub"), 0700), 0);
    CU_ASSERT_EQUAL(symlink("new", at("soft")), 0);
    const struct {
        const char *options, *part;
        int status;
    } refused[] = {
        {SMALL "--checkpoint @/sub", "Is a directory", 1},
        {SMALL "--checkpoint @/soft --resume", "this is a link", 1},
        {SMALL "--checkpoint /dev/null", "must be a regular file", 1},
        {SMALL "--checkpoint @/none/new", "none/new: No such file or directory", 1},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const sw_outcome *o = train(refused[i].options);
        SW_CHECK(program_failed_cleanly(o, refused[i].status) &&
                     strstr(o->err, refused[i].part) != NULL,
                 "%s: status %d: %s", refused[i].options, o->status, o->err);
    }
}

/* A report never writes the file that it reads, by whatever name. */
static void no_report_is_written_over_its_profile(void)
{
    static const char *const refused[] = {
        "@/old --html @/old",
        "@/old --html @/./old",
        "@/old --format csv --out @/soft",
        "@/soft --format csv --out @/hard",
        "@/other --diff @/old --html @/hard",
        "@/other --diff @/old --format html --out @/other",
    };
    new_folder("over");
    put("old", "old");
    put("other", "other");
    CU_ASSERT_EQUAL(link(at("old"), at("hard")), 0);
    CU_ASSERT_EQUAL(symlink("old", at("soft")), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const sw_outcome *o = run("report", refused[i]);
        SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "that is read") != NULL,
                 "%s: status %d: %s", refused[i], o->status, o->err);
    }
    CU_ASSERT(has_text("old", "old") && has_text("other", "other"));
}

/* A device has nothing to lose, and parameters may replace those that the run began with. */
static void what_cannot_be_lost_may_be_named_twice(void)
{
    new_folder("named-twice");
    CU_ASSERT_EQUAL(train(SMALL "--save-params @/params --profile @/profile")->status, 0);
    CU_ASSERT_EQUAL(train(SMALL "--save-params @/params --load-params @/params")->status, 0);
    CU_ASSERT_EQUAL(train(SMALL "--save-best @/params --load-params @/params")->status, 0);
    CU_ASSERT_EQUAL(train(SMALL "--save-params /dev/null --profile /dev/null")->status, 0);
}

/* The images of the set are 20 x 39 from now on. */
static void make_other_images(void)
{
    idx_set set;
    idx_make(&set, 32);
    for (int i = 0; i < IDX_FILES; i += 2) {
        set.file[i].bytes[11] = 20;
        set.file[i].bytes[15] = 39;
        set.file[i].n = 16 + (size_t)set.file[i].bytes[7] * 20 * 39;
    }
    idx_write(&set, at("odd"));
    idx_free(&set);
}

/* Whatever is refused, and however late, leaves the profile of the run before as it was; but
 * what does not fit the memory takes its place, to say who would have held it. */
static void a_refused_run_keeps_the_old_profile(void)
{
    static const struct {
        const char *options;
        int status;
        const char *says;
    } refused[] = {
        {SMALL "--warmup 5", 2, "--warmup"},
        {SMALL "--memory-budget 1", 4, "budget"},
        {SMALL "--model mlp --hidden 1048576,1048576", 4, "this machine has"},
        {SMALL "--load-params @/foreign", 3, "foreign"},
        {SMALL "--load-params @/missing", 3, "missing"},
        {SMALL "--model mlp --load-params @/params", 3, "params"},
        {SMALL "--optimizer momentum --momentum 1.5", 2, "--momentum must be"},
        {"--data idx:@/odd --batch 16", 2, "odd are 1 x 20 x 39"},
        {"--data idx:@/nothing --batch 16", 3, "nothing/train-images-idx3-ubyte"},
    };
    new_folder("refused");
    make_other_images();
    put("foreign", "neither parameters nor anything else");
    CU_ASSERT_EQUAL(train(SMALL "--save-params @/params")->status, 0);
    put("profile", "old");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char options[1000];
        snprintf(options, sizeof options, "%s --profile @/profile", refused[i].options);
        const sw_outcome *o = train(options);
        SW_CHECK(program_failed_cleanly(o, refused[i].status) &&
                     strstr(o->err, refused[i].says) != NULL,
                 "%s: status %d: %s", refused[i].options, o->status, o->err);
        if (refused[i].status == 4) {
            size_t n;
            char *bytes = (char *)file_read(at("profile"), &n);
            SW_CHECK(bytes != NULL && memmem(bytes, n, "{\"type\":\"denied\"", 16) != NULL &&
                         memmem(bytes, n, "\"status\":\"failed\"", 17) != NULL,
                     "%s: no profile says why", refused[i].options);
            free(bytes);
            put("profile", "old");
        }
        SW_CHECK(has_text("profile", "old"), "%s: the old profile is gone", refused[i].options);
    }
}

/* Refused before the first step, with the name and the reason; the other files stay. */
static void a_file_that_cannot_be_written_is_refused_first(void)
{
    static const struct {
        const char *options, *says;
    } refused[] = {
        {"--metrics @/nowhere/m.csv --profile @/old", "--metrics"},
        {"--metrics @/folder.csv --profile @/old", "--metrics"},
        {"--save-best @/nowhere/best --metrics @/old.csv", "--save-best"},
        {"--save-best @/folder.csv --metrics @/old.csv", "--save-best"},
        {"--save-best @/locked/best --metrics @/old.csv", "--save-best"},
        {"--metrics @/locked/m.csv --profile @/old", "--metrics"},
        {"--metrics @/read-only.csv --profile @/old", "--metrics"},
    };
    const size_t n = sizeof refused / sizeof *refused;
    new_folder("unwritable");
    put("old", "old");
    put("old.csv", "old");
    put("read-only.csv", "old");
    CU_ASSERT(mkdir(at("folder.csv"), 0700) == 0 && mkdir(at("locked"), 0500) == 0);
    CU_ASSERT_EQUAL(chmod(at("read-only.csv"), 0400), 0);
    for (size_t i = 0; i < (geteuid() == 0 ? n - 3 : n); i++) { /* root may write anywhere */
        char options[1000];
        snprintf(options, sizeof options, "--epochs 1000000 %s", refused[i].options);
        const sw_outcome *o = train(options);
        SW_CHECK(program_failed_cleanly(o, 1) && strstr(o->err, refused[i].says) != NULL,
                 "%s: status %d: %s", refused[i].options, o->status, o->err);
    }
    CU_ASSERT(has_text("old", "old") && has_text("old.csv", "old"));
}

/* Metrics or best parameters that find no room fail the run at its end, in one line; what was
 * trained is saved and told. */
static void a_full_disk_costs_the_file_and_not_the_training(void)
{
    static const char *const files[] = {"--metrics @/full.jsonl", "--save-best /dev/full"};
    if (access("/dev/full", W_OK) != 0)
        SW_SKIP("/dev/full is not there");
    new_folder("full");
    CU_ASSERT_EQUAL(symlink("/dev/full", at("full.jsonl")), 0);
    CU_ASSERT_EQUAL(train(SMALL "--save-params @/good")->status, 0);
    for (int i = 0; i < 2; i++) {
        char options[1000];
        snprintf(options, sizeof options, SMALL "--json --save-params @/params %s", files[i]);
        const sw_outcome *o = train(options);
        SW_CHECK(o->status == 1 && sw_count_lines(o->err) == 1 &&
                     strstr(o->err, "No space left") != NULL &&
                     strstr(o->out, "\"steps\":2") != NULL,
                 "%s: status %d: %s%s", files[i], o->status, o->out, o->err);
        CU_ASSERT(exists("params") &&
                  program_tensors(at("params")) == program_tensors(at("good")));
        (void)unlink(at("params"));
    }
}

/* Named for another format, parameters would be saved that --load-params refuses: training does
 * not begin. */
static void parameters_have_no_name_of_another_format(void)
{
    static const char *const commands[] = {
        "train " SMALL "--save-params %s/last.npz", "train " SMALL "--save-best %s/last.npz",
        "es --model mlp --hidden 8 --synthetic-n 64 --population 4 --generations 1 "
        "--save-params %s/last.npz",
        "pbt --model mlp --synthetic-n 64 --members 2 --steps 2 lr=log:1e-3..1e-1 "
        "--save-params %s/last.npz"};
    static sw_outcome o;
    new_folder("numpy");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char words[1400];
        snprintf(words, sizeof words, commands[i], folder);
        program_run(&o, words, NULL);
        SW_CHECK(program_failed_cleanly(&o, 2) && strstr(o.err, "no '.npz'") != NULL &&
                     strstr(o.err, "in .safetensors") != NULL && !exists("last.npz"),
                 "%s: status %d: %s", words, o.status, o.err);
    }
}

/* ---- signals ----------------------------------------------------------------------------- */

/* A mask of signals that the system reports for a process ("SigCgt"); 0 when it does not. */
static unsigned long long signals_of(pid_t pid, const char *which)
{
    char path[64], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, which, strlen(which)) == 0)
            (void)sscanf(line + strlen(which) + 1, "%llx", &mask);
    if (file != NULL)
        fclose(file);
    return mask;
}

/* Wait until the process catches one of the two, and send the other or the same. */
static bool send_when_caught(pid_t pid, int caught, int sent)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 10000; i++) {
        if ((signals_of(pid, "SigCgt") >> (caught - 1) & 1) != 0)
            return kill(pid, sent) == 0;
        nanosleep(&pause, NULL);
    }
    (void)kill(pid, SIGKILL);
    return false;
}

static void a_signal_before_the_first_step_touches_no_file(void)
{
    static sw_outcome outcome;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    if (signals_of(getpid(), "SigBlk") == 0 && access("/proc/self/status", R_OK) != 0)
        SW_SKIP("the system does not tell which signals a process catches");
    new_folder("early");
    for (int i = 0; i < 3; i++) {
        char words[4000];
        put("best", "parameters");
        put("profile", "old");
        snprintf(words, sizeof words,
                 "train --quiet --json --synthetic-n 20000 --save-params %s --profile %s",
                 at("best"), at("profile"));
        const pid_t pid = program_start("early", words, NULL);
        CU_ASSERT(send_when_caught(pid, signals[i], signals[i]));
        sw_process_wait(&outcome, pid, "early", 60);
        SW_CHECK(program_failed_cleanly(&outcome, 130) &&
                     strstr(outcome.err, "no file was written") != NULL,
                 "signal %d: status %d, signal %d: %s%s", signals[i], outcome.status,
                 outcome.signal, outcome.out, outcome.err);
        CU_ASSERT(has_text("best", "parameters") && has_text("profile", "old"));
    }
}

/* Wait until a file has this much; false when it takes too long. */
static bool wait_for_bytes(const char *name, size_t bytes)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 20000; i++) {
        struct stat st;
        if (stat(at(name), &st) == 0 && (size_t)st.st_size > bytes)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Ctrl-C, a terminal that goes and a killed process leave whole lines of metrics and the best
 * parameters so far; but for the last the parameters are saved too, and there is a result. */
static void a_run_that_is_ended_keeps_its_metrics(void)
{
    static sw_outcome outcome;
    static const int signals[] = {SIGINT, SIGHUP, SIGKILL};
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    new_folder("ended");
    for (int i = 0; i < 3; i++) {
        const bool killed = signals[i] == SIGKILL;
        char words[4000];
        size_t n;
        (void)unlink(at("m.csv"));
        snprintf(words, sizeof words,
                 "train --json --synthetic-n 64 --batch 32 --epochs 100000000 --metrics %s "
                 "--save-best %s --save-params %s",
                 at("m.csv"), at("best"), at("last"));
        const pid_t pid = program_start("ended", words, NULL);
        CU_ASSERT(wait_for_bytes("m.csv", 2000));
        CU_ASSERT_EQUAL(kill(pid, signals[i]), 0);
        sw_process_wait(&outcome, pid, "ended", 60);
        SW_CHECK(killed ? outcome.signal == SIGKILL
                        : outcome.status == 130 && program_number(outcome.out, "steps") > 1.0,
                 "signal %d: status %d, signal %d: %s", signals[i], outcome.status,
                 outcome.signal, outcome.err);
        char *text = (char *)file_read(at("m.csv"), &n);
        CU_ASSERT(text != NULL && n > 2000 && text[n - 1] == '\n');
        free(text);
        CU_ASSERT(program_tensors(at("best")) != 0);
        CU_ASSERT_EQUAL(exists("last"), !killed);
        (void)unlink(at("best"));
        (void)unlink(at("last"));
    }
}

/* Killed at any moment: what the file of events has reads as whole records to its end. */
static void a_run_that_is_killed_keeps_its_events(void)
{
    static sw_outcome outcome;
    new_folder("events");
    for (int i = 0; i < 3; i++) {
        char words[2000];
        size_t n;
        snprintf(words, sizeof words,
                 "train --quiet --synthetic-n 64 --batch 32 --epochs 100000000 --metrics %s",
                 at("events.out.tfevents.k"));
        const pid_t pid = program_start("events", words, NULL);
        CU_ASSERT(wait_for_bytes("events.out.tfevents.k", 3000));
        CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
        sw_process_wait(&outcome, pid, "events", 60);
        unsigned char *bytes = file_read(at("events.out.tfevents.k"), &n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        const tfevents_read r = tfevents_read_all(bytes, n, NULL, NULL);
        SW_CHECK(outcome.signal == SIGKILL && r.wrong == NULL && r.whole == n && r.records > 5,
                 "signal %d, %zu of %zu bytes: %s", outcome.signal, r.whole, n, r.wrong);
        free(bytes);
        (void)unlink(at("events.out.tfevents.k"));
    }
}

/* nohup and job control ask for that. */
static void an_ignored_signal_stays_ignored(void)
{
    static sw_outcome outcome;
    static const struct {
        const char *name;
        int signal;
    } ignored[] = {{"INT", SIGINT}, {"HUP", SIGHUP}};
    if (access("/proc/self/status", R_OK) != 0)
        SW_SKIP("the system does not tell which signals a process catches");
    for (int i = 0; i < 2; i++) {
        char line[2000];
        snprintf(line, sizeof line,
                 "trap '' %s; exec '%s' train --quiet --synthetic-n 20000 --steps 1",
                 ignored[i].name, program_path());
        const char *const argv[] = {"sh", "-c", line, NULL};
        const pid_t pid = sw_process_start("ignored", argv, NULL);
        CU_ASSERT(send_when_caught(pid, SIGTERM, ignored[i].signal));
        sw_process_wait(&outcome, pid, "ignored", 60);
        SW_CHECK(outcome.status == 0, "%s: status %d, signal %d: %s", ignored[i].name,
                 outcome.status, outcome.signal, outcome.err);
    }
}

static const sw_test tests[] = {
    {"no file is written under two names", no_file_is_written_under_two_names},
    {"a checkpoint that cannot be saved is refused",
     a_checkpoint_that_cannot_be_saved_is_refused},
    {"no report is written over its profile", no_report_is_written_over_its_profile},
    {"what cannot be lost may be named twice", what_cannot_be_lost_may_be_named_twice},
    {"a refused run keeps the old profile", a_refused_run_keeps_the_old_profile},
    {"a file that cannot be written is refused first",
     a_file_that_cannot_be_written_is_refused_first},
    {"a full disk costs the file and not the training",
     a_full_disk_costs_the_file_and_not_the_training},
    {"a run that is ended keeps its metrics", a_run_that_is_ended_keeps_its_metrics},
    {"parameters have no name of another format", parameters_have_no_name_of_another_format},
    {"a run that is killed keeps its events", a_run_that_is_killed_keeps_its_events},
    {"a signal before the first step touches no file",
     a_signal_before_the_first_step_touches_no_file},
    {"an ignored signal stays ignored", an_ignored_signal_stays_ignored},
};
SW_SUITE("files", tests)
