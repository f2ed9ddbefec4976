/* stepwell top: profiles that the test writes line by line, so that every figure is known, and
 * trainings that run beside it. */
#include "tests/support/suite.h"
#include "tests/system/watched.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("top")

/* ---- watching ---------------------------------------------------------------------------- */

static sw_outcome outcome;

/* The lines that a top with this tag has printed so far; the last whole one. */
static const char *last_line(const char *tag)
{
    static char text[1 << 20];
    FILE *f = fopen(sw_temp_path(sw_textf("%s.out", tag)), "r");
    size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    while (n > 0 && text[n - 1] != '\n')
        n--;
    text[n > 0 ? n - 1 : 0] = '\0';
    char *newline = strrchr(text, '\n');
    return newline != NULL ? newline + 1 : text;
}

/* Wait up to 20 s for a line that has `what`. */
static const char *line_with(const char *tag, const char *what)
{
    const char *line = last_line(tag);
    for (int i = 0; i < 2000 && strstr(line, what) == NULL; i++) {
        watched_rest(10);
        line = last_line(tag);
    }
    SW_CHECK(strstr(line, what) != NULL, "no line has %s; the last is %s", what, line);
    return line;
}

static pid_t watch(const char *tag, const char *what, const char *options)
{
    const pid_t pid =
        program_start(tag, sw_textf("top %s --interval 0.05 %s", what, options), "LC_ALL=C");
    sw_after(watched_end, (void *)(intptr_t)pid);
    return pid;
}

static void check_number(const char *json, const char *name, double wanted)
{
    const double is = program_number(json, name);
    SW_CHECK(fabs(is - wanted) <= 1e-9 * fabs(wanted), "%s is %.12g, not %.12g: %s", name, is,
             wanted, json);
}

/* The figures after steps 1 to k of one file. */
static void check_figures(const char *json, unsigned k, unsigned allocations)
{
    const double span = 4e6 * (k - 1) + STEP_NS + 1000.0 * k;
    check_number(json, "step", k);
    check_number(json, "loss", 1000.0 - k);
    check_number(json, "steps_per_second", k * 1e9 / span);
    check_number(json, "median_step_ns", STEP_NS + 1000.0 * ((k + 1) / 2));
    check_number(json, "max_step_ns", STEP_NS + 1000.0 * k);
    check_number(json, "window_steps", k);
    check_number(json, "model_bytes", 4096);
    check_number(json, "arena_bytes", 8192);
    check_number(json, "data_bytes", 1024);
    check_number(json, "total_bytes", 13312);
    check_number(json, "process_bytes", 1000000.0 + k);
    check_number(json, "host_bytes", 7000.0 + k);
    check_number(json, "predicted_peak_bytes", 5120);
    check_number(json, "measured_peak_bytes", 5120);
    if (k > 1) /* the first is not warm */
        check_number(json, "allocations_after_warmup", allocations);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(json, "\"backward\":{\"peak_bytes\":4096,\"end_bytes\":2048}"));
}

SW_TEST("a growing file is followed, record by record")
{
    const char *path = path_of("grows.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    put_step(f, 1, 5, 0); /* not warm: its allocations do not count */
    fflush(f);
    const pid_t pid = watch("grows", path, "--json");
    check_figures(line_with("grows", "\"step\":1,"), 1, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_line("grows"), "\"condition\":\"running\""));
    for (unsigned k = 2; k <= 40; k++)
        put_step(f, k, k == 7 ? 3 : 0, 0);
    fflush(f);
    check_figures(line_with("grows", "\"step\":40,"), 40, 3);
    /* Half a record is none. */
    char text[2000] = "";
    FILE *memory = fmemopen(text, sizeof text, "w");
    put_step(memory, 41, 0, 0);
    fclose(memory);
    fwrite(text, 1, 200, f);
    fflush(f);
    watched_rest(200);
    check_number(last_line("grows"), "step", 40);
    fputs(text + 200, f);
    fflush(f);
    check_figures(line_with("grows", "\"step\":41,"), 41, 3);
    put_end(f, "done");
    fclose(f);
    sw_process_wait(&outcome, pid, "grows", 20);
    CU_ASSERT(outcome.status == 0 && outcome.err[0] == '\0');
    const char *line = last_line("grows");
    check_figures(line, 41, 3);
    CU_ASSERT(strstr(line, "\"condition\":\"ended\",\"status\":\"done\"") != NULL);
}

/* Records of a clock that went back: no pace beyond measure. */
SW_TEST("a clock that went back does no harm")
{
    const char *path = path_of("back.jsonl");
    char text[2000] = "";
    FILE *f = open_profile(path, "w"), *memory = fmemopen(text, sizeof text, "w");
    put_header(f, "a");
    put_plan(f);
    put_step(f, 10, 0, 0);
    put_step(memory, 11, 0, 0);
    fclose(memory);
    char *clock = strstr(text, "\"at_ns\":");
    CU_ASSERT_PTR_NOT_NULL_FATAL(clock);
    strcpy(clock, "\"at_ns\":1}\n");
    fputs(text, f);
    put_end(f, "done");
    fclose(f);
    program_run(&outcome, sw_textf("top %s --json --once", path), NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    check_number(outcome.out, "window_steps", 2);
    check_number(outcome.out, "window_ns", STEP_NS + 11000);
}

/* An evaluation of batch 64 that takes 9000 bytes; or its plan. */
static void put_eval(FILE *f, bool plan)
{
    static const char phases[] = "\"phases\":{\"data\":{\"peak_bytes\":0,\"end_bytes\":0},"
                                 "\"forward\":{\"peak_bytes\":9000,\"end_bytes\":1},"
                                 "\"loss\":{\"peak_bytes\":0,\"end_bytes\":0},"
                                 "\"backward\":{\"peak_bytes\":0,\"end_bytes\":0},"
                                 "\"step\":{\"peak_bytes\":0,\"end_bytes\":0}}";
    if (plan)
        fprintf(f,
                "{\"type\":\"plan\",\"program\":1,\"run\":\"eval\",\"batch\":64,\"model_"
                "bytes\":4096,"
                "\"arena_bytes\":4000,\"data_bytes\":904,\"total_bytes\":9000,"
                "\"lower_bound_bytes\":4000,%s,\"n_ops\":1,\"ops\":[\"x\"],\"values\":[]}\n",
                phases);
    else
        fprintf(
            f,
            "{\"type\":\"step\",\"step\":1,\"program\":1,\"run\":\"eval\",\"mode\":\"planned\","
            "\"measured_by\":\"arena\",%s,\"peak_bytes\":9000,\"arena_bytes\":4000,"
            "\"model_bytes\":4096,\"allocations\":1}\n",
            phases);
}

/* The program with the peak so far is shown with its name: training, then an evaluation, which
 * stays also while lower steps follow. */
SW_TEST("the highest program stays")
{
    static const char shown[] = "\"program\":\"program 1 (eval, batch 64)\"";
    const char *path = path_of("highest.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    put_step(f, 1, 0, 0);
    fflush(f);
    const pid_t pid = watch("highest", path, "--json");
    line_with("highest", "\"program\":\"program 0 (train, batch 16)\"");
    put_eval(f, true);
    put_eval(f, false);
    put_step(f, 2, 0, 0);
    fflush(f);
    line_with("highest", shown);
    put_step(f, 3, 0, 0);
    put_end(f, "done");
    fclose(f);
    sw_process_wait(&outcome, pid, "highest", 20);
    const char *line = last_line("highest");
    CU_ASSERT_PTR_NOT_NULL(strstr(line, shown));
    check_number(line, "step", 3);
    check_number(line, "measured_peak_bytes", 9000);
    check_number(line, "predicted_peak_bytes", 9000);
    check_number(line, "total_bytes", 9000);
}

/* Emptied and written anew in the same place, and under the same name. */
SW_TEST("another run begins from nothing")
{
    const char *path = path_of("anew.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    for (unsigned k = 1; k <= 10; k++)
        put_step(f, k, 1, 0);
    put_end(f, "done");
    fclose(f);
    const pid_t pid = watch("anew", path, "--json --wait");
    check_number(line_with("anew", "\"step\":10,"), "allocations_after_warmup", 9);
    f = open_profile(path, "w");
    put_header(f, "b");
    put_plan(f);
    for (unsigned k = 1; k <= 12; k++) /* longer than the one before */
        put_step(f, k, 0, 0);
    fflush(f);
    check_figures(line_with("anew", "\"step\":12,"), 12, 0);
    fclose(f);
    CU_ASSERT_EQUAL(unlink(path), 0);
    f = open_profile(path, "w");
    put_header(f, "c");
    put_plan(f);
    for (unsigned k = 1; k <= 3; k++)
        put_step(f, k, 0, 0);
    fflush(f);
    check_figures(line_with("anew", "\"step\":3,"), 3, 0);
    fclose(f);
    kill(pid, SIGTERM);
    sw_process_wait(&outcome, pid, "anew", 20);
    CU_ASSERT_EQUAL(outcome.status, 130);
}

/* The part that was there before is read too, in bounded memory. */
SW_TEST("a long file takes no more memory")
{
    const char *path = path_of("long.jsonl");
    FILE *f = open_profile(path, "w");
    const unsigned last = 20000; /* 13 MB */
    put_header(f, "a");
    put_plan(f);
    for (unsigned k = 1; k <= last; k++)
        put_step(f, k, k % 2500 == 1 ? 1 : 0, 0);
    fclose(f);
    program_run(&outcome, sw_textf("top %s --once --json", path), NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    check_number(outcome.out, "step", last);
    check_number(outcome.out, "allocations_after_warmup", last / 2500 - 1);
    /* The last ten seconds: steps that begin 4 ms apart and take 23 ms at last. */
    const double steps = program_number(outcome.out, "window_steps");
    SW_CHECK(fabs(steps - (10e9 - (STEP_NS + 1000.0 * last)) / 4e6) <= 1.0, "%g", steps);
    if (HAVE_STEADY) /* sanitizers keep what was given back */
        SW_CHECK(outcome.peak_bytes < (size_t)64 << 20, "%zu bytes", outcome.peak_bytes);
}

/* A run of which nothing was warm, and which failed: no figure is made up, and it says why. */
SW_TEST("a failed run says why")
{
    const char *path = path_of("failed.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    put_step(f, 1, 5, 0);
    fputs("{\"type\":\"end\",\"status\":\"failed\",\"error\":\"no room\",\"wall_ns\":9}\n", f);
    fclose(f);
    program_run(&outcome, sw_textf("top %s --once", path), "LC_ALL=C");
    SW_CHECK(strstr(outcome.out, ": failed: no room\n") != NULL &&
                 strstr(outcome.out, "warm-up") == NULL,
             "%s", outcome.out);
    program_run(&outcome, sw_textf("top %s --once --json", path), NULL);
    SW_CHECK(strstr(outcome.out, "\"allocations_after_warmup\":null") != NULL, "%s",
             outcome.out);
}

SW_TEST("what differs from the plan is shown")
{
    const char *path = path_of("differs.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    for (unsigned k = 1; k <= 48; k++)
        put_step(f, k, 0, k == 48 ? 2048 : 0);
    fclose(f);
    program_run(&outcome, sw_textf("top %s --once", path), "LC_ALL=C");
    CU_ASSERT_EQUAL(outcome.status, 0);
    const char *text = outcome.out;
    CU_ASSERT_PTR_NOT_NULL(strstr(text,
                                  "\n  backward          4,096         6,144         2,048"
                                  "         2,048  peak +2,048\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text,
                                  "\n  forward           2,048         2,048         1,024"
                                  "         1,024  equal\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n  measured by arena in 48 runs: 1 differs (shown: "
                                        "step 48)\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "\nloss  ####*******++++++=======-------::::::.......____  952\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "\npeak  _______________________________________________#  6.00 KiB\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nstep 48, loss 952: died ("));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "\nmodel 4.00 KiB   arena 8.00 KiB   data 1.00 KiB   total 13.00 KiB\n"));
    int width = 0;
    for (const char *c = text; *c != '\0'; c++) {
        width = *c == '\n' ? 0 : width + 1;
        SW_CHECK(width <= 80, "a line is longer than 80 columns: %.80s", c - width + 1);
        CU_ASSERT(*c == '\n' || (*c >= 0x20 && *c < 0x7f));
    }
}

/* Runs that count nothing have the figures of their plan. */
SW_TEST("what no one measured is not as planned")
{
    char text[2000] = "";
    const char *path = path_of("uncounted.jsonl");
    FILE *f = open_profile(path, "w"), *memory = fmemopen(text, sizeof text, "w");
    put_header(f, "a");
    put_plan(f);
    put_step(memory, 1, 0, 0);
    fclose(memory);
    char *by = strstr(text, "\"arena\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(by);
    fprintf(f, "%.*s\"plan\"%s", (int)(by - text), text, by + strlen("\"arena\""));
    fclose(f);
    program_run(&outcome, sw_textf("top %s --once", path), "LC_ALL=C");
    CU_ASSERT_EQUAL(outcome.status, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\n  measured by plan in 1 run: "));
    program_run(&outcome, sw_textf("top %s --once --json", path), NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"measured\":null,\"measured_by\":\"plan\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"measured_peak_bytes\":null"));
}

/* On a terminal each picture is drawn over the last, in colour unless NO_COLOR asks for none. A
 * terminal that is dumb has lines. */
SW_TEST("a terminal has pictures")
{
    static const char *const utf8[] = {"TERM=xterm", "NO_COLOR=", "LC_ALL=C.UTF-8", NULL};
    static const char *const plain[] = {"TERM=xterm", "NO_COLOR=1", "LC_ALL=C", NULL};
    static const char *const dumb[] = {"TERM=dumb", "NO_COLOR=", "LC_ALL=C", NULL};
    static char shown[1 << 16];
    const char *path = path_of("drawn.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    for (unsigned k = 1; k <= 5; k++)
        put_step(f, k, 0, 0);
    fclose(f); /* no process writes it: top ends at once */
    const char *words = sw_textf("top %s", path);
    const int status = program_on_terminal(shown, sizeof shown, words, utf8, 80);
    if (status < 0 && errno != 0)
        SW_SKIP("no terminal can be made here");
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(strncmp(shown, "\033[H\033[J", 6), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(shown, "step 5, loss 995: \033[31mdied\033[0m"));
    CU_ASSERT_PTR_NOT_NULL(strstr(shown, "\u2588"));
    CU_ASSERT_EQUAL(program_on_terminal(shown, sizeof shown, words, plain, 80), 0);
    CU_ASSERT(strstr(shown, "\033[H\033[J") == shown && strchr(shown, '#') != NULL);
    CU_ASSERT_PTR_NULL(strstr(shown, "\u2588"));
    for (const char *c = shown; (c = strchr(c, '\033')) != NULL; c++)
        CU_ASSERT_NOT_EQUAL(c[strspn(c + 1, "[0123456789;") + 1], 'm');
    CU_ASSERT_EQUAL(program_on_terminal(shown, sizeof shown, words, dumb, 80), 0);
    CU_ASSERT_PTR_NULL(strchr(shown, '\033'));
    CU_ASSERT(strncmp(shown, "step 5, loss 995, ", 18) == 0);
}

/* ---- runs that are watched --------------------------------------------------------------- */

static pid_t train(const char *tag, const char *path)
{
    const pid_t pid = program_start(
        tag,
        sw_textf("train --quiet --model mlp --hidden 16 --synthetic-n 4000 --batch 16 --epochs "
                 "100000 --memory-budget 8MiB --profile %s",
                 path),
        NULL);
    sw_after(watched_end, (void *)(intptr_t)pid);
    return pid;
}

/* Found by its number; killed, it leaves no
 * end record, and top says so and ends. */
SW_TEST("a training is watched until it is killed")
{
    const char *path = path_of("killed.jsonl");
    if (access("/proc/self/fd", R_OK) != 0)
        SW_SKIP("the system shows no processes");
    const pid_t training = train("killed", path);
    const pid_t by_number = watch("number", sw_textf("%ld", (long)training), "--json --wait");
    const char *line = line_with("number", "\"condition\":\"running\"");
    CU_ASSERT_PTR_NOT_NULL(strstr(line, path));
    CU_ASSERT_EQUAL(program_number(line, "process"), (double)training);
    const double before = program_number(line, "step");
    for (int i = 0; i < 500 && program_number(last_line("number"), "step") <= before; i++)
        watched_rest(10);
    CU_ASSERT(program_number(last_line("number"), "step") > before);
    const pid_t by_name = watch("name", path, "--json");
    line = line_with("name", "\"condition\":\"running\"");
    CU_ASSERT(program_number(line, "steps_per_second") > 0.0);
    /* 784 to 16 to 10, weights and biases, and adam's two of each */
    CU_ASSERT(program_number(line, "model_bytes") > 3.0 * 4 * (785 * 16 + 17 * 10));
    check_number(line, "planned_steps", 250.0 * 100000); /* 4,000 samples by 16, each epoch */
    check_number(line, "budget_bytes", 8 << 20);
    CU_ASSERT(program_number(line, "predicted_peak_bytes") > 0.0);
    CU_ASSERT_EQUAL(program_number(line, "predicted_peak_bytes"),
                    program_number(line, "measured_peak_bytes"));
    /* Stopped it lives and waits. */
    kill(training, SIGSTOP);
    line_with("number", "\"condition\":\"waiting\"");
    line_with("name", "\"condition\":\"waiting\"");
    kill(training, SIGCONT);
    line_with("name", "\"condition\":\"running\"");
    kill(training, SIGKILL);
    sw_process_wait(&outcome, training, "killed", 20);
    sw_process_wait(&outcome, by_number, "number", 20);
    SW_CHECK(outcome.status == 0, "status %d: %s", outcome.status, outcome.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_line("number"), "\"condition\":\"died\""));
    sw_process_wait(&outcome, by_name, "name", 20);
    SW_CHECK(outcome.status == 0, "status %d: %s", outcome.status, outcome.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(last_line("name"), "\"condition\":\"died\""));
}

static void refuse(const char *words, int status, const char *says)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(program_failed_cleanly(&outcome, status) && strstr(outcome.err, says) != NULL,
             "%s: status %d: %s", words, outcome.status, outcome.err);
}

/* The same from `report`. */
SW_TEST("report can watch too")
{
    const char *path = path_of("live.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    put_step(f, 1, 0, 0);
    fflush(f);
    const pid_t pid = program_start("live", sw_textf("report %s --live --json", path), NULL);
    sw_after(watched_end, (void *)(intptr_t)pid);
    line_with("live", "\"step\":1,");
    put_step(f, 2, 0, 0);
    put_end(f, "done");
    fclose(f);
    sw_process_wait(&outcome, pid, "live", 20);
    CU_ASSERT(outcome.status == 0 && outcome.err[0] == '\0');
    check_figures(last_line("live"), 2, 0);
    refuse(sw_textf("report %s --live --diff %s", path, path), 2,
           "--live shows what is there now");
}

SW_TEST("a training that ends is reported")
{
    const char *path = path_of("ends.jsonl");
    const pid_t training = train("ends", path);
    const pid_t pid = watch("lines", path, "--wait");
    line_with("lines", ", running");
    kill(training, SIGINT);
    sw_process_wait(&outcome, training, "ends", 20);
    const char *line = line_with("lines", ", interrupted");
    CU_ASSERT(strncmp(line, "step ", 5) == 0 && strstr(line, " steps/s, ") != NULL);
    kill(pid, SIGINT);
    sw_process_wait(&outcome, pid, "lines", 20);
    CU_ASSERT(outcome.status == 130 && outcome.err[0] == '\0');
}

SW_TEST("what cannot be watched is refused")
{
    refuse("top", 2, "PID or FILE must be given");
    refuse("top x --interval 0", 2, "--interval");
    refuse("top x --interval 1e30", 2, "--interval");
    refuse("top 999999999", 3,
           "there is no process 999999999; a file of that name is ./999999999");
    refuse(sw_textf("top %ld", (long)getpid()), 3,
           "writes no profile; start it with stepwell train --profile FILE");
    refuse(sw_textf("top %s", sw_temp_path("nothing")), 3, "nothing: No such file");
    refuse(sw_textf("top %s", sw_temp_path("")), 3, "not a regular file");
    refuse("top /dev/null", 3, "not a regular file");
    CU_ASSERT(file_write(sw_temp_path("foreign"), "{\"type\":\"other\"}\n", 17));
    refuse(sw_textf("top %s", sw_temp_path("foreign")), 3, "foreign: not a stepwell profile");
    FILE *f = open_profile(sw_temp_path("damaged"), "w");
    put_header(f, "a");
    fputs("{\"type\":7}\n", f);
    fclose(f);
    refuse(sw_textf("top %s", sw_temp_path("damaged")), 3, "damaged: line 2: ");
}

/* Processes of other users are not ours to look at; as the superuser the test becomes another.
 */
SW_TEST("a process of another user is distinguished")
{
    int status = 0, says[2];
    char text[1024] = "";
    if (access("/proc/self/fd", R_OK) != 0 || geteuid() != 0)
        SW_SKIP("only the superuser can become another");
    CU_ASSERT_EQUAL_FATAL(pipe(says), 0);
    char *number = sw_textf("%ld", (long)getpid());
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        char name[] = "stepwell", top[] = "top";
        char *const argv[] = {name, top, number, NULL};
        if (dup2(says[1], STDERR_FILENO) < 0 || setgid(65534) != 0 || setuid(65534) != 0)
            _exit(126);
        execv(program_path(), argv);
        _exit(127);
    }
    close(says[1]);
    const ssize_t n = read(says[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(says[0]);
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127)
        SW_SKIP("the program cannot be started by another user");
    SW_CHECK(WEXITSTATUS(status) == 3 && strstr(text, "belongs to another user") != NULL,
             "status %d: %s", WEXITSTATUS(status), text);
}
