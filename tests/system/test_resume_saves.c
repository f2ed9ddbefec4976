/* When a training saves its checkpoint at a signal, and a disk that is full; the rest is in
 * transcripts/saves.txt. */
#include "runtime/stepwell.h"
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("resume saves")

#define NET "--model mlp --hidden 200 --synthetic-n 300 --batch 20 --schedule constant "
#define LONG NET "--epochs 100000000 "

static sw_outcome outcome;

static bool wait_for(const char *name, size_t bytes)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 20000; i++) {
        struct stat st;
        if (stat(going_at(name), &st) == 0 && (size_t)st.st_size > bytes)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Standard error of the run that goes on, so far. */
static bool wait_for_words(const char *words)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 20000; i++) {
        size_t n;
        char *text = (char *)file_read(sw_temp_path("going.err"), &n);
        const bool there = text != NULL && strstr(text, words) != NULL;
        free(text);
        if (there)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void ended(pid_t pid, int sent)
{
    CU_ASSERT_EQUAL(kill(pid, sent), 0);
    sw_process_wait(&outcome, pid, "going", 60);
}

/* ---- signals ----------------------------------------------------------------------------- */

/* Whether a signal was sent that the process has not seen yet. */
static bool signal_waits(pid_t pid)
{
    char line[256];
    unsigned long long mask = 0;
    FILE *file = fopen(sw_textf("/proc/%ld/status", (long)pid), "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "ShdPnd:", 7) == 0)
            (void)sscanf(line + 7, "%llx", &mask);
    if (file != NULL)
        fclose(file);
    return mask != 0;
}

/* The second one does not wait for the step and the save that the first one waits for. */
SW_TEST("a second request ends at once")
{
    if (access("/proc/self/status", R_OK) != 0)
        SW_SKIP("the system does not tell which signals wait");
    going_new_folder("second");
    const pid_t pid = going_start(
        "train --json --quiet --model mlp --hidden %s --synthetic-n 2000 --batch 1000 "
        "--epochs 1000000 --schedule constant --checkpoint @/C --metrics @/M.jsonl",
        SANITIZED ? "900,900" : "2000,2000"); /* steps that take about as long */
    CU_ASSERT(wait_for("M.jsonl", 0));
    (void)kill(pid, SIGINT);
    while (signal_waits(pid))
        ;
    ended(pid, SIGINT);
    SW_CHECK(outcome.signal == SIGINT && !going_exists("C"), "status %d, signal %d",
             outcome.status, outcome.signal);
}

SW_TEST("a signal saves at once")
{
    going_new_folder("now");
    const pid_t pid = going_start("train --quiet " LONG "--checkpoint @/C --metrics @/M.jsonl");
    CU_ASSERT(wait_for("M.jsonl", 2000));
    for (int i = 0; i < 3; i++) {
        (void)unlink(going_at("C"));
        CU_ASSERT_EQUAL(kill(pid, SIGUSR1), 0);
        CU_ASSERT(wait_for("C", 1000));
    }
    CU_ASSERT(wait_for_words("is saved in"));
    const double step = going_step("C");
    ended(pid, SIGKILL);
    SW_CHECK(step > 1.0 && strstr(outcome.err, "is saved in") != NULL, "step %g: %s", step,
             outcome.err);
    going_copy("C", "R");
    const sw_outcome *o = going_run("train --json --quiet " NET "--steps %.0f --resume @/R",
                                    going_step("R") + 1.0);
    SW_CHECK(o->status == 0 && program_number(o->out, "resumed_from_step") >= step &&
                 strstr(o->out, "\"checkpoint\":null") != NULL,
             "status %d: %s", o->status, o->err);
}

/* ---- a full disk ------------------------------------------------------------------------- */

/* The program with no room for a file above `bytes`, as a full disk has none. */
static pid_t start_limited(const char *words, unsigned kib)
{
    const char *line =
        sw_textf("trap '' XFSZ; ulimit -S -f %u; exec '%s' %s --checkpoint '%s' --metrics '%s'",
                 kib * 2, program_path(), words, going_at("C"), going_at("M.jsonl"));
    const char *const argv[] = {"sh", "-c", line, NULL};
    return sw_process_start("going", argv, NULL);
}

/* It goes on, what was saved before stays, and a later save works and is said. */
SW_TEST("a full disk costs a save and not the training")
{
    going_new_folder("full");
    const sw_outcome *o = going_run("train --quiet " NET "--steps 5 --checkpoint @/C "
                                    "--metrics @/M.jsonl");
    CU_ASSERT(o->status == 0 && going_step("C") == 5.0);
    struct rlimit limit;
    CU_ASSERT_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const pid_t pid =
        start_limited("train --json --quiet " LONG "--resume --checkpoint-every 20", 128);
    if (!wait_for_words("could not be saved"))
        SW_CHECK(false, "no save failed");
    CU_ASSERT_EQUAL(going_step("C"), 5.0);
    CU_ASSERT_EQUAL(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
    CU_ASSERT(wait_for_words("is saved in"));
    const double later = going_step("C");
    ended(pid, SIGINT);
    const char *saves = strstr(outcome.out, "\"checkpoint\":{");
    SW_CHECK(outcome.status == 130 && later > 5.0 && saves != NULL &&
                 program_number(saves, "failed") >= 1.0 &&
                 program_number(saves, "saved") >= 2.0 && sw_count_lines(outcome.err) == 2,
             "status %d, step %g: %s", outcome.status, later, outcome.err);
}

SW_TEST("the result says what was saved")
{
    going_new_folder("result");
    const sw_outcome *o = going_run("train --quiet " NET "--checkpoint @/C");
    SW_CHECK(o->status == 0 && strstr(o->out, "\nsaved   1 checkpoint of ") != NULL &&
                 strstr(o->out, "\ncopy    ") != NULL && o->err[0] == '\0',
             "status %d: %s%s", o->status, o->err, o->out);
    o = going_run("train " NET "--epochs 2 --checkpoint @/C --resume");
    SW_CHECK(o->status == 0 && strstr(o->err, "goes on after step 15 of 30, from ") != NULL &&
                 strstr(o->err, "step 30 is saved in ") != NULL,
             "status %d: %s", o->status, o->err);
    o = going_run("train --quiet " NET);
    CU_ASSERT(o->status == 0 && strstr(o->out, "saved") == NULL &&
              strstr(o->out, "copy") == NULL);
    o = going_run("train --quiet --json " NET);
    CU_ASSERT(strstr(o->out, "\"resumed_from_step\":null,\"checkpoint\":null,") != NULL);
}

/* By the library: a checkpoint that no `train` saved. */
SW_TEST("a checkpoint of another program is refused")
{
    going_new_folder("program");
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_checkpoint *checkpoint = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .seed = 1)), SW_OK);
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
    const sw_outcome *o = going_run("train --quiet --model mlp --resume @/C");
    SW_CHECK(program_failed_cleanly(o, 2) &&
                 strstr(o->err, "`stepwell train` did not save it") != NULL,
             "status %d: %s", o->status, o->err);
}
