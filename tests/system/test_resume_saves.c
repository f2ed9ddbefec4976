/* When a training saves its checkpoint, and what becomes of it: signals, damage, a disk that is
 * full, two runs at once; and what the copy takes of the memory. */
#include "runtime/stepwell.h"
#include "tests/support/suite.h"
#include "tests/system/going_on.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static void a_request_to_end_saves_first(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    for (int i = 0; i < 3; i++) {
        going_new_folder("end");
        const pid_t pid =
            going_start("train --json --quiet " LONG "--checkpoint @/C --metrics @/M.jsonl");
        CU_ASSERT(wait_for("M.jsonl", 2000));
        CU_ASSERT(!going_exists("C")); /* the first would be there in 10 minutes */
        ended(pid, signals[i]);
        const double steps = program_number(outcome.out, "steps");
        SW_CHECK(outcome.status == 130 && steps > 1.0 && going_step("C") == steps &&
                     !going_exists("C.lock"),
                 "signal %d: status %d, %g steps, saved %g: %s", signals[i], outcome.status,
                 steps, going_step("C"), outcome.err);
        const char *saves = strstr(outcome.out, "\"checkpoint\":{");
        CU_ASSERT(saves != NULL && program_number(saves, "saved") == 1.0 &&
                  program_number(saves, "failed") == 0.0 &&
                  program_number(saves, "last_step") == steps &&
                  program_number(saves, "every_ns") == 600e9);
    }
}

/* Whether a signal was sent that the process has not seen yet. */
static bool signal_waits(pid_t pid)
{
    char path[64], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "ShdPnd:", 7) == 0)
            (void)sscanf(line + 7, "%llx", &mask);
    if (file != NULL)
        fclose(file);
    return mask != 0;
}

/* The second one does not wait for the step and the save that the first one waits for. */
static void a_second_request_ends_at_once(void)
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

static void a_signal_saves_at_once(void)
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

static void checkpoints_come_by_steps_and_by_the_clock(void)
{
    going_new_folder("every");
    const sw_outcome *o = going_run("train --json --quiet " NET "--steps 45 --epochs 9 "
                                    "--checkpoint @/C --checkpoint-every 10 "
                                    "--checkpoint-pauses --keep-checkpoints 9");
    CU_ASSERT_EQUAL(o->status, 0);
    const char *saves = strstr(o->out, "\"checkpoint\":{");
    CU_ASSERT(saves != NULL && program_number(saves, "every_steps") == 10.0 &&
              program_number(saves, "saved") == 5.0 &&
              program_number(saves, "copy_bytes") == 0.0);
    CU_ASSERT(going_step("C") == 45.0 && going_step("C.1") == 40.0 &&
              going_step("C.4") == 10.0 && !going_exists("C.5"));
    const pid_t pid =
        going_start("train --json --quiet " LONG "--checkpoint @/T --checkpoint-every 0.3s");
    CU_ASSERT(wait_for("T.1", 300)); /* after two of them */
    ended(pid, SIGINT);
    saves = strstr(outcome.out, "\"checkpoint\":{");
    SW_CHECK(outcome.status == 130 && saves != NULL &&
                 program_number(saves, "every_ns") == 3e8 &&
                 program_number(saves, "saved") >= 3.0 && !going_exists("T.2"),
             "status %d: %s", outcome.status, outcome.err);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void damage(const char *name, size_t at)
{
    size_t n;
    unsigned char *bytes = file_read(going_at(name), &n);
    CU_ASSERT_FATAL(bytes != NULL && n > 100);
    bytes[at > 0 ? at : n - 20] ^= 1;
    CU_ASSERT(file_write(going_at(name), bytes, n));
    free(bytes);
}

static void a_damaged_checkpoint_is_passed_over(void)
{
    static const size_t places[] = {0, 3, 40, 5000};
    for (int i = 0; i < 4; i++) {
        going_new_folder("damaged");
        const sw_outcome *o = going_run("train --quiet " NET "--steps 12 --epochs 9 "
                                        "--checkpoint @/C --checkpoint-every 5 "
                                        "--checkpoint-pauses --save-params @/P");
        CU_ASSERT(o->status == 0 && going_step("C") == 12.0 && going_step("C.1") == 10.0);
        going_copy("P", "before");
        damage("C", places[i]);
        o = going_run("train --json --quiet " NET "--steps 12 --epochs 9 --checkpoint @/C "
                      "--resume --save-params @/P");
        SW_CHECK(o->status == 0 && strstr(o->err, "a damaged checkpoint was passed over") &&
                     strstr(o->err, "/C: ") != NULL &&
                     program_number(o->out, "resumed_from_step") == 10.0,
                 "byte %zu: status %d: %s", places[i], o->status, o->err);
        CU_ASSERT(going_same_file("P", "before"));
        /* The damaged one did not take the place of the whole one. */
        CU_ASSERT(going_step("C") == 12.0 && going_step("C.1") == 10.0);
        damage("C", places[i]);
        damage("C.1", places[i]);
        o = going_run("train --quiet " NET "--checkpoint @/C --resume");
        SW_CHECK(program_failed_cleanly(o, 3) && strstr(o->err, "C.1") != NULL,
                 "byte %zu: status %d: %s", places[i], o->status, o->err);
    }
}

static void two_runs_do_not_save_to_one_file(void)
{
    going_new_folder("two");
    const pid_t pid = going_start("train --quiet " LONG
                                  "--checkpoint @/C --checkpoint-every 1 --metrics @/M.jsonl");
    CU_ASSERT(wait_for("C", 1000) && wait_for("M.jsonl", 10));
    const sw_outcome *o = going_run("train --quiet " NET "--checkpoint @/C --resume");
    SW_CHECK(program_failed_cleanly(o, 1) && strstr(o->err, "C.lock is locked") != NULL,
             "status %d: %s", o->status, o->err);
    /* To read alone is no conflict: what is refused here is known from the file. */
    o = going_run("train --quiet --model mlp --hidden 200 --synthetic-n 300 --batch 20 "
                  "--schedule linear --resume @/C");
    SW_CHECK(program_failed_cleanly(o, 2) &&
                 strstr(o->err, "--schedule was 'constant'") != NULL,
             "status %d: %s", o->status, o->err);
    ended(pid, SIGKILL);
    CU_ASSERT(going_exists("C.lock"));
    o = going_run("train --quiet " NET "--steps %.0f --checkpoint @/C --resume",
                  going_step("C") + 1.0);
    SW_CHECK(o->status == 0 && !going_exists("C.lock"), "status %d: %s", o->status, o->err);
}

/* ---- a full disk ------------------------------------------------------------------------- */

/* The program with no room for a file above `bytes`, as a full disk has none. */
static pid_t start_limited(const char *words, unsigned kib)
{
    char line[6000];
    snprintf(line, sizeof line,
             "trap '' XFSZ; ulimit -S -f %u; exec '%s' %s --checkpoint '%s' "
             "--metrics '%s'",
             kib * 2, program_path(), words, going_at("C"), going_at("M.jsonl"));
    const char *const argv[] = {"sh", "-c", line, NULL};
    return sw_process_start("going", argv, NULL);
}

/* It goes on, what was saved before stays, and a later save works and is said. */
static void a_full_disk_costs_a_save_and_not_the_training(void)
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

static void the_last_save_decides_the_status(void)
{
    going_new_folder("last");
    const pid_t pid = start_limited(
        "train --json --quiet " NET "--steps 60 --epochs 9 --checkpoint-every 9", 128);
    sw_process_wait(&outcome, pid, "going", 60);
    const char *saves = strstr(outcome.out, "\"checkpoint\":{");
    SW_CHECK(outcome.status == 1 && program_number(outcome.out, "steps") == 60.0 &&
                 !going_exists("C") && saves != NULL && program_number(saves, "saved") == 0.0 &&
                 program_number(saves, "failed") >= 2.0 &&
                 strstr(saves, "\"last_step\":null") != NULL &&
                 strstr(outcome.err, "could not be saved") != NULL,
             "status %d: %s%s", outcome.status, outcome.err, saves != NULL ? saves : "");
}

/* ---- memory ------------------------------------------------------------------------------ */

#define BIG "--model mlp --hidden 2000,1000 --synthetic-n 128 --batch 64 "

/* The copy is as large as the model, part of the total, and named where that does not fit. */
static void the_copy_is_planned(void)
{
    static const char *const nets[] = {"--model lenet5 ", BIG, "--immediate --model lenet5 "};
    going_new_folder("plan");
    for (int i = 0; i < 3; i++) {
        const sw_outcome *o = going_run("plan --json %s", nets[i]);
        const double model = program_number(o->out, "model_bytes"),
                     total = program_number(o->out, "total_bytes");
        CU_ASSERT(o->status == 0 && program_number(o->out, "checkpoint_bytes") == 0.0);
        o = going_run("plan --json %s --checkpoint @/C", nets[i]);
        SW_CHECK(o->status == 0 && program_number(o->out, "checkpoint_bytes") == model &&
                     program_number(o->out, "total_bytes") == total + model,
                 "%s: %s", nets[i], o->err);
        o = going_run("plan --json %s --checkpoint @/C --checkpoint-pauses", nets[i]);
        CU_ASSERT(program_number(o->out, "checkpoint_bytes") == 0.0 &&
                  program_number(o->out, "total_bytes") == total);
        o = going_run("plan %s --checkpoint @/C", nets[i]);
        CU_ASSERT_PTR_NOT_NULL(strstr(o->out, "\ncopy   "));
        o = going_run("plan %s --no-recompute --memory-budget %.0f --checkpoint @/C", nets[i],
                      total + model - 1.0);
        SW_CHECK(program_failed_cleanly(o, 4) &&
                     strstr(o->err, "the copy for --checkpoint takes ") != NULL,
                 "%s: status %d: %s", nets[i], o->status, o->err);
        CU_ASSERT_FALSE(going_exists("C")); /* plan saves nothing */
    }
}

/* Training needs what was predicted, to the byte. */
static void training_fits_the_predicted_total(void)
{
    static const char net[] = "--model mlp --hidden 500 --synthetic-n 200 --batch 64 ";
    going_new_folder("fits");
    double most = 0.0; /* of all programs: each has a total of its own */
    const sw_outcome *o = going_run("plan --json %s --no-recompute --checkpoint @/C", net);
    for (const char *at = o->out; (at = strstr(at, "\"total_bytes\":")) != NULL; at++)
        most = fmax(most, program_number(at, "total_bytes"));
    CU_ASSERT_FATAL(o->status == 0 && most > 0.0);
    o = going_run("train --json --quiet %s --no-recompute --memory-budget %.0f --checkpoint "
                  "@/C --checkpoint-every 1",
                  net, most);
    SW_CHECK(o->status == 0 && going_exists("C") &&
                 program_number(o->out, "allocations_after_warmup") == 0.0,
             "%.0f: status %d: %s", most, o->status, o->err);
    o = going_run("train --json --quiet %s --no-recompute --memory-budget %.0f --checkpoint "
                  "@/D --checkpoint-every 1",
                  net, most - 1.0);
    SW_CHECK(program_failed_cleanly(o, 4) &&
                 strstr(o->err, "the copy for --checkpoint takes ") != NULL &&
                 !going_exists("D"),
             "%.0f: status %d: %s", most - 1.0, o->status, o->err);
}

/* From outside: no more than the copy that was predicted, and 2 MiB. */
static void the_process_grows_by_the_copy(void)
{
    enum { SPARE = 2 << 20 };
    going_new_folder("peak");
    if (SANITIZED)
        SW_SKIP("sanitizers take memory of their own");
    const sw_outcome *o = going_run("train --json --quiet " BIG "--epochs 4");
    const double plain = (double)o->peak_bytes;
    o = going_run("train --json --quiet " BIG
                  "--epochs 4 --checkpoint @/C --checkpoint-every 2");
    const char *saves = strstr(o->out, "\"checkpoint\":{");
    const double copy = program_number(o->out, "checkpoint_bytes"),
                 with = (double)o->peak_bytes;
    CU_ASSERT_PTR_NOT_NULL_FATAL(saves);
    CU_ASSERT(copy > 4e6 && program_number(saves, "copy_bytes") == copy &&
              program_number(saves, "file_bytes") > copy * 0.9);
    SW_CHECK(with <= plain + copy + SPARE, "%.0f bytes; without %.0f, the copy %.0f", with,
             plain, copy);
    o = going_run("train --json --quiet " BIG
                  "--epochs 4 --checkpoint @/D --checkpoint-every 2 --checkpoint-pauses");
    SW_CHECK(o->status == 0 && (double)o->peak_bytes <= plain + SPARE,
             "%zu bytes with a pause; without checkpoints %.0f", o->peak_bytes, plain);
    sw_note("%.1f MiB resident; with a copy of %.1f MiB %.1f; with pauses %.1f",
            plain / 1048576, copy / 1048576, with / 1048576, (double)o->peak_bytes / 1048576);
}

static void the_result_says_what_was_saved(void)
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
    const sw_outcome *o = going_run("train --quiet --model mlp --resume @/C");
    SW_CHECK(program_failed_cleanly(o, 2) &&
                 strstr(o->err, "`stepwell train` did not save it") != NULL,
             "status %d: %s", o->status, o->err);
}

static const sw_test tests[] = {
    {"a request to end saves first", a_request_to_end_saves_first},
    {"a second request ends at once", a_second_request_ends_at_once},
    {"a signal saves at once", a_signal_saves_at_once},
    {"checkpoints come by steps and by the clock", checkpoints_come_by_steps_and_by_the_clock},
    {"a damaged checkpoint is passed over", a_damaged_checkpoint_is_passed_over},
    {"two runs do not save to one file", two_runs_do_not_save_to_one_file},
    {"a full disk costs a save and not the training",
     a_full_disk_costs_a_save_and_not_the_training},
    {"the last save decides the status", the_last_save_decides_the_status},
    {"the copy is planned", the_copy_is_planned},
    {"training fits the predicted total", training_fits_the_predicted_total},
    {"the process grows by the copy", the_process_grows_by_the_copy},
    {"the result says what was saved", the_result_says_what_was_saved},
    {"a checkpoint of another program is refused", a_checkpoint_of_another_program_is_refused},
};
SW_SUITE("resume saves", tests)
