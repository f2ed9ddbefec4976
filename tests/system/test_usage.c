/* The command line as people type it: what cannot mean anything is refused before anything
 * runs, and closed or broken streams cost no file. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/support/json.h"

#define SMALL_RUN "--quiet --synthetic-n 40 --batch 16 --epochs 2"
#define SMALL "train --quiet --synthetic-n 40 --batch 16 --steps 2 "

/* Arguments of `stepwell`, the status, and a part of the one line that says why. */
static const struct {
    const char *words;
    int status;
    const char *says;
} refused[] = {
    {"trian", 2, "did you mean train?"},
    {"--verison", 2, "did you mean --version?"},
    {"bench spede", 2, "did you mean speed?"},
    {"train --batc 3", 2, "did you mean --batch?"},
    {"train --memory-budget 4MB", 2,
     "--memory-budget: the unit 'MB' is not taken (got '4MB'): write 4MiB, which is 4,194,304 "
     "bytes, or 4000000 if powers of 1000 are meant"},
    {"plan --fit 1.5G", 2, "write 1.5GiB, which is 1,610,612,736 bytes, or 1500000000 if"},
    {"evolve --candidate-memory 4mib", 2, "write 4MiB, which is 4,194,304 bytes"},
    {"place x --capacity 3kb", 2, "write 3KiB, which is 3,072 bytes, or 3000 if"},
    {"train --data-limit 4b", 2, "or with its unit, such as 4096, 64KiB,"},
    {"report x --max-peak 3MB", 2, "write 3MiB, which is 3,145,728 bytes, or 3000000 if"},
    {"report x --diff y --fail-on-increase 1MB", 2, "write 1MiB, which is 1,048,576 bytes"},
    {"report x --diff y --fail-on-increase 1x", 2,
     "a percentage such as 0% or 2.5%, or a size"},
    {"train --epochs 0", 2, "--epochs must be at least 1 (got 0): 'stepwell plan' says what"},
    {"pbt --epochs 0 lr=log:0.1..1", 2, "--epochs must be at least 1 (got 0)"},
    {"es --epochs 0", 2, "--epochs must be at least 1 (got 0)"},
    {"train --batch 99999999", 2, "from 1 to 16,777,216 (got '99999999')"},
    {"train --save-params x.gguf", 2,
     "--save-params writes safetensors files, no '.gguf' (got 'x.gguf'): give a name that ends "
     "in "
     ".safetensors"},
    {"train --save-best net.pt", 2, "--save-best writes safetensors files, no '.pt'"},
    {"pbt --save-params m-%d.onnx lr=log:0.1..1", 2, "writes safetensors files, no '.onnx'"},
    {"es --save-params m.npy", 2, "writes safetensors files, no '.npy'"},
    {"train --save-best x.NPZ", 2, "--save-best writes safetensors files, no '.npz'"},
    {"es --save-params m.Onnx", 2, "writes safetensors files, no '.onnx'"},
    {"es --metrics x.tfevents", 2,
     "--metrics must be FILE.csv or FILE.jsonl (got 'x.tfevents')"},
    {"es --metrics -", 2, "--metrics must be FILE.csv or FILE.jsonl (got '-')"},
    {"es --metrics /dev/null", 2, "--metrics must be FILE.csv or FILE.jsonl (got '/dev/null')"},
    {"pbt --metrics x.tfevents lr=log:0.1..1", 2, "--metrics must be FILE.csv or FILE.jsonl"},
    {"help nonsense", 2, "unknown command 'nonsense'"},
    {"help train plan", 2, "'plan' is one argument too many"},
    {"--help train", 2, "'train' is one argument too many"},
    {"--version 2", 2, "'2' is one argument too many"},
    {"bench --help speed", 2, "'speed' is one argument too many"},
    {"train -- --json", 2, "'--json' is one argument too many"},
    {"plan --batch "
     "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,"
     "33,"
     "34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,"
     "63,64,65",
     2, "at most 64 numbers"},
    {"train --batch 0", 2, "from 1 to"},
    {"train --batch 10x", 2, "'10x'"},
    {"train --batch", 2, "needs a value"},
    {"train --profile --json", 2, "--profile needs a value"},
    {"train --profile=", 2, "--profile needs a value"},
    {"train --profile -", 2, "standard output"},
    {"train --save-params -", 2, "standard output"},
    {"train --op-clocks", 2, "without --profile"},
    {"train --profile-events", 2, "--profile-events has no effect without --profile"},
    {"train --profile-every 3", 2, "--profile-every has no effect without --profile"},
    {"train --profile file --profile-every 0", 2, "--profile-every"},
    {"train --profile file --profile-max 1GiB", 2, "unknown option --profile-max"},
    {"train --op-clocks --immediate --profile file", 2, "with --immediate"},
    {"train --optimizer momentum --momentum 1", 2, "--momentum must be"},
    {"train --optimizer nesterov --momentum 2.5", 2, "--momentum must be"},
    {"train --profile same --load-params same", 2, "same file"},
    {"train --threads 257", 2, "from 1 to 256"},
    {"train --lr nan", 2, "--lr must be a number"},
    {"train --lr 1e39", 2, "--lr must be a number"},
    {"train --lr 0x1p3", 2, "--lr must be a number"},
    {"train --memory-budget 0", 2, "--memory-budget must be a size"},
    {"train --memory-budget 0x10MiB", 2, "--memory-budget must be a size"},
    {"train --memory-budget 99999999999GiB", 2, "below 8000000TiB"},
    {"train --memory-budget 1PiB", 2, "2GiB or 1TiB"},
    {"train --hidden 8", 2, "without --model mlp"},
    {"train --momentum 0.5", 2, "without --optimizer momentum"},
    {"train --data idx:here --synthetic-n 8", 2, "without --data synthetic"},
    {"train --lr-every 3", 2, "without --schedule step or exponential"},
    {"train --lr-gamma 0.5", 2, "without --schedule step"},
    {"train --lr-floor 0.1 --schedule constant", 2, "--lr-floor has no effect with"},
    {"train --lr-floor 0.1 --lr 0.01", 2, "--lr-floor 0.1 is above --lr 0.01"},
    {"train --schedule cyclic", 2, "exponential, one_cycle"},
    {"train --optimizer rms", 2, "rmsprop, adagrad, lion, adafactor"},
    {"train --max-skipped -1", 2, "--max-skipped must be"},
    {"train --steps 5 --warmup 5", 2, "below the 5 steps"},
    {"train --witness --immediate", 2, "exclude each other"},
    {"train --update release --clip 1", 2, "--update release and --clip exclude each other"},
    {"train --update release --keep-gradients", 2, "--update release and --keep-gradients"},
    {"plan --update release --accumulate 2", 2, "--update release and --accumulate"},
    {"train --update before", 2, "release, after"},
    {"train --accumulate 0", 2, "--accumulate must be"},
    {"train --model lenet5 --layers 3", 2, ": lenet5 takes none"},
    {"plan --model mlp --width 3", 2, ": mlp takes none"},
    {"train --model swishnet --hidden 3", 2, ": swishnet takes none"},
    {"train --model swishnet --layers 0", 2, "--layers must be"},
    {"train --model swishnet --width 1.5", 2, "--width must be"},
    {"train --activation sine", 2, "swish-naive"},
    {"train --validate-every 0", 2, "--validate-every must be"},
    {"train --patience 0", 2, "--patience must be"},
    {"train --min-delta 1", 2, "--min-delta has no effect without --patience"},
    {"train --patience 1 --min-delta -1", 2, "--min-delta must be"},
    {"train --metrics file.txt", 2, "--metrics must be a file that ends in .csv or .jsonl"},
    {"train --metrics -", 2, "--metrics must be a file"},
    {"train --metrics .csv", 2, "--metrics must be a file"},
    {"train --save-best -", 2, "standard output"},
    {"plan --metrics m.csv", 2, "unknown option --metrics"},
    {"train --device tpu", 2, "tpu"},
    {"train --device sim", 5, "sim"},
    {"train --device cuda:x", 2, "cuda:x"},
    {"train --tf32", 2, "--tf32 has no effect without --device cuda"},
    {"train --sync-ops", 2, "--sync-ops has no effect without --device cuda"},
    {"plan --no-graphs", 2, "--no-graphs has no effect without --device cuda"},
    {"train --device cuda --threads 2", 2, "--threads has no effect with --device cuda"},
    {"train --device cuda:1 --isa base", 2, "--isa has no effect with --device cuda:1"},
    {"train --device cuda --no-graphs --sync-ops", 2, "--no-graphs has no effect"},
    {"train --device cuda --no-graphs --immediate", 2, "--no-graphs has no effect"},
    {"train --device cuda --op-clocks --profile x", 2, "needs --sync-ops"},
    {"train --device cuda --witness", 2, "--witness"},
    {"train --epochs 1000000 --save-params /nowhere/at/all", 1, "--save-params /nowhere"},
    {"train --epochs 1000000 --save-params /", 1, "--save-params /"},
    {"train --model mlp --hidden 1048576,1048576", 4, "this machine has"},
    {"report --format cvs x", 2, "text, json"},
    {"report x.jsonl --html y.html --format csv", 2, "leave out --format"},
    {"report x.jsonl --html y.html --json", 2, "leave out --format"},
    {"report x.jsonl --html y.html --out z.html", 2, "leave out --format"},
    {"report x.jsonl --diff y.jsonl --format csv", 2, "is of one run"},
    {"report x.jsonl --json --format csv", 2, "are two formats"},
    {"report /nowhere/at/all", 3, "/nowhere/at/all: "},
    {"report -- --json", 3, "--json: "},
};

static void what_means_nothing_is_refused_in_one_line(void)
{
    static sw_outcome outcome;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_run(&outcome, refused[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, refused[i].status) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "'%s': status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
    /* Without a file, the program says how to record one. */
    program_run(&outcome, "report", NULL);
    SW_CHECK(outcome.status == 2 && outcome.out[0] == '\0' &&
                 strstr(outcome.err, "FILE must be given") != NULL &&
                 strstr(outcome.err, "_dump_snapshot(") != NULL,
             "report: status %d: %s", outcome.status, outcome.err);
}

static void a_message_is_one_line_whatever_was_typed(void)
{
    static sw_outcome outcome;
    const char *const argv[] = {program_path(), "train", "--batch", "1\n2\033[2J", NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    SW_CHECK(program_failed_cleanly(&outcome, 2) && strchr(outcome.err, '\033') == NULL,
             "status %d: %s", outcome.status, outcome.err);
}

/* The longest line, in characters. */
static size_t widest(const char *text)
{
    size_t most = 0, n = 0;
    for (; *text != '\0'; text++) {
        n = *text == '\n' ? 0 : n + (((unsigned char)*text & 0xc0) != 0x80);
        most = n > most ? n : most;
    }
    return most;
}

static void every_help_is_80_columns_wide(void)
{
    static sw_outcome outcome;
    static const char *const words[] = {"--help",
                                        "help",
                                        "help plan",
                                        "train --help",
                                        "plan --help",
                                        "report --help",
                                        "bench --help",
                                        "bench pauses --help",
                                        "bench record --help",
                                        "bench profiler --help",
                                        "bench speed --help",
                                        "bench products --help",
                                        "place --help",
                                        "bench place --help",
                                        "top --help"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        program_run(&outcome, words[i], NULL);
        SW_CHECK(outcome.status == 0 && outcome.err[0] == '\0' && widest(outcome.out) <= 80 &&
                     strlen(outcome.out) > 100,
                 "%s: status %d, %zu columns: %s", words[i], outcome.status,
                 widest(outcome.out), outcome.out);
    }
    static const char *const said[] = {"resumed_from_step", "standard output has one object",
                                       "Witnesses are not part of"};
    program_run(&outcome, "help train", NULL);
    for (int i = 0; i < 3; i++)
        SW_CHECK(strstr(outcome.out, said[i]) != NULL, "no '%s' in %s", said[i], outcome.out);
}

/* `stepwell bench` becomes another program: a signal ends it as it ends that one, and where it
 * is not there its path is named. */
static void bench_is_a_program_of_its_own(void)
{
    static sw_outcome outcome;
    char folder[1100], copy[1200];
    const pid_t pid = program_start("bench", "bench pauses --steps 1048576", NULL);
    sw_shell("while ! grep -q bench /proc/%d/comm; do sleep 0.01; done", (int)pid);
    kill(pid, SIGKILL);
    sw_process_wait(&outcome, pid, "bench", 60);
    SW_CHECK(outcome.signal == SIGKILL && !outcome.timed_out, "status %d, signal %d: %s",
             outcome.status, outcome.signal, outcome.err);

    if (access(SW_PREFIX "/bin/stepwell-bench", F_OK) == 0)
        return; /* it would be found there */
    snprintf(folder, sizeof folder, "%s", sw_temp_path("alone"));
    CU_ASSERT_EQUAL_FATAL(
        sw_shell("mkdir -p '%s' && cp '%s' '%s'", folder, program_path(), folder), 0);
    snprintf(copy, sizeof copy, "%s/stepwell", folder);
    const char *const argv[] = {copy, "bench", "speed", NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    SW_CHECK(program_failed_cleanly(&outcome, 1) && strstr(outcome.err, folder) != NULL &&
                 strstr(outcome.err, "/stepwell-bench: No such file") != NULL,
             "status %d: %s", outcome.status, outcome.err);
}

/* However long the path is, the message has its end and the reason. */
static void long_paths_leave_room_for_the_reason(void)
{
    static sw_outcome outcome;
    static const struct {
        const char *before, *behind;
        int status;
        const char *says;
    } uses[] = {
        {"plan --data idx:", "", 3,
         "/train-images-idx3-ubyte[.gz]: No such file or directory\n"},
        {"train --synthetic-n 40 --load-params ", "/here", 3,
         "/here: No such file or directory\n"},
        {"train --synthetic-n 40 --save-params ", "/here", 1,
         "/here: No such file or directory\n"},
        {"train --synthetic-n 40 --profile ", "/here", 1, "/here: No such file or directory\n"},
        {"report ", "/here", 3, "/here: No such file or directory\n"},
    };
    for (size_t length = 200; length <= 3200; length *= 4)
        for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
            char words[4000], path[3500] = "";
            for (size_t n = 0; n < length; n++)
                path[n] = n % 100 == 0 ? '/' : 'x';
            path[length] = '\0';
            snprintf(words, sizeof words, "%s%s%s", uses[i].before, path, uses[i].behind);
            program_run(&outcome, words, NULL);
            SW_CHECK(program_failed_cleanly(&outcome, uses[i].status) &&
                         strstr(outcome.err, uses[i].says) != NULL,
                     "%zu bytes: status %d: %s", length, outcome.status, outcome.err);
        }
}

/* Names of folders come out with what a terminal would obey replaced. */
static void a_folder_cannot_command_the_terminal(void)
{
    static sw_outcome outcome;
    char folder[1200], words[2000];
    idx_set set;
    snprintf(folder, sizeof folder, "%s/a\033[2J\a\302\233\233\233b", sw_temp_path(""));
    idx_make(&set, 32);
    idx_write(&set, folder);
    idx_free(&set);
    for (int i = 0; i < 3; i++) {
        static const char *const commands[] = {"plan --batch 16", "train --quiet --batch 16",
                                               "plan --fit 1"};
        snprintf(words, sizeof words, "%s --data idx:%s", commands[i], folder);
        program_run(&outcome, words, NULL);
        const char *text = i < 2 ? outcome.out : outcome.err;
        SW_CHECK(outcome.status == (i < 2 ? 0 : 4) && text[0] != '\0', "%s: status %d: %s",
                 commands[i], outcome.status, outcome.err);
        SW_CHECK(i == 2 || strstr(text, "a?[2J?????b") != NULL, "%s: %.200s", commands[i],
                 text);
        SW_CHECK(strpbrk(text, "\033\a\233") == NULL, "%s: a control character came out",
                 commands[i]);
    }
}

/* Few test images need not show every class; they may not show one more. */
static void test_sets_may_have_fewer_classes(void)
{
    static sw_outcome outcome;
    idx_set set;
    char words[2000];
    idx_make(&set, 104);
    for (int more = TRAIN_LABELS; more <= TEST_LABELS; more += TEST_LABELS - TRAIN_LABELS) {
        for (int which = TRAIN_LABELS; which <= TEST_LABELS; which += 2)
            for (size_t i = 8; i < set.file[which].n; i++)
                set.file[which].bytes[i] = (unsigned char)((i - 8) % (which == more ? 26 : 10));
        const char *folder = sw_temp_path("classes");
        idx_write(&set, folder);
        snprintf(words, sizeof words, "train --quiet --steps 2 --batch 16 --data idx:%s",
                 folder);
        program_run(&outcome, words, NULL);
        if (more == TRAIN_LABELS)
            SW_CHECK(outcome.status == 0, "%s", outcome.err);
        else
            SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                         strstr(outcome.err, "t10k-labels-idx1-ubyte: label 25") != NULL,
                     "status %d: %s", outcome.status, outcome.err);
    }
    idx_free(&set);
}

/* The object that `train --json` or `report --json` prints; given back at the end of the test.
 */
static void drop_json(void *object)
{
    json_decref(object);
}

static const json_t *object_of(const char *words)
{
    static sw_outcome outcome;
    program_run(&outcome, words, NULL);
    json_t *object = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_object(object), "%s: status %d: %s", words,
             outcome.status, outcome.err);
    sw_after(drop_json, object);
    return object;
}

/* Every line of a profile is a record, and the last one is the end. */
static void check_lines(const char *path)
{
    size_t n;
    char last[32] = "";
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *record = json_loads(line);
        const char *type = json_string_value(json_object_get(record, "type"));
        SW_CHECK(type != NULL, "%.100s", line);
        snprintf(last, sizeof last, "%s", type != NULL ? type : "");
        json_decref(record);
    }
    CU_ASSERT_STRING_EQUAL(last, "end");
    free(text);
}

static void check_end(const char *profile, const char *status, const char *error)
{
    char words[2000];
    snprintf(words, sizeof words, "report --json %s", profile);
    const json_t *report = object_of(words);
    const char *is = json_string_value(json_object_get(report, "status"));
    const char *why = json_string_value(json_object_get(report, "error"));
    SW_CHECK(is != NULL && strcmp(is, status) == 0 &&
                 json_is_true(json_object_get(report, "finished")) ==
                     (strcmp(status, "done") == 0),
             "%s, must be %s", is != NULL ? is : "null", status);
    SW_CHECK(error != NULL ? why != NULL && strstr(why, error) != NULL : why == NULL, "%s",
             why != NULL ? why : "null");
}

/* The end record tells a run that was interrupted, or failed after its last step, from one
 * that is done. */
static void a_profile_says_how_its_run_ended(void)
{
    static sw_outcome outcome;
    char words[3000], profile[1024];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("ended"));
    snprintf(words, sizeof words, SMALL "--profile %s", profile);
    program_run(&outcome, words, NULL);
    check_end(profile, "done", NULL);
    if (access("/dev/full", W_OK) == 0) {
        snprintf(words, sizeof words, SMALL "--profile %s --save-params /dev/full", profile);
        program_run(&outcome, words, NULL);
        CU_ASSERT_EQUAL(outcome.status, 1);
        check_end(profile, "failed", "/dev/full: ");
    }
    (void)remove(profile);
    CU_ASSERT_EQUAL(
        sw_shell(
            "'%s' train --quiet --synthetic-n 64 --epochs 1000000 --profile '%s' >/dev/null & "
            "while ! grep -q '\"step\"' '%s' 2>/dev/null; do sleep 0.01; done; "
            "kill $!; wait $!",
            program_path(), profile, profile),
        130);
    check_end(profile, "interrupted", NULL);
}

/* The first file that is opened must not become standard output. */
static void closed_streams_do_not_end_up_in_files(void)
{
    char profile[1024];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("closed"));
    CU_ASSERT_EQUAL(
        sw_shell("exec '%s' " SMALL "--profile '%s' >&- 2>&-", program_path(), profile), 1);
    check_lines(profile);
}

static void a_report_says_that_a_pipe_will_not_do(void)
{
    if (access("/dev/stdin", R_OK) != 0)
        SW_SKIP("/dev/stdin leads nowhere");
    CU_ASSERT_EQUAL(sw_shell("'%s' report /dev/stdin </dev/null", program_path()), 3);
    CU_ASSERT_EQUAL(
        sw_shell("true | '%s' report /dev/stdin 2>&1 | grep -q 'no pipe'", program_path()), 0);
}

static void a_reader_that_goes_away_costs_no_profile(void)
{
    char profile[1024];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("piped"));
    CU_ASSERT_EQUAL(sw_shell("'%s' train --synthetic-n 40 --batch 16 --epochs 50 --profile "
                             "'%s' 2>&1 | head -1 | grep -q epoch",
                             program_path(), profile),
                    0);
    check_lines(profile);
}

static void a_file_at_its_limit_fails_with_one_line(void)
{
    static sw_outcome outcome;
    char profile[1024], line[4096];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("limited"));
    snprintf(line, sizeof line, "ulimit -f 16; exec '%s' " SMALL "--epochs 50 --profile '%s'",
             program_path(), profile);
    const char *const argv[] = {"/bin/sh", "-c", line, NULL};
    sw_process_run(&outcome, argv, NULL, 60);
    SW_CHECK(outcome.status == 1 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, profile) != NULL,
             "status %d, signal %d: %s", outcome.status, outcome.signal, outcome.err);
}

/* total_bytes of a training on 64 images. */
static long long total_of(long long batch)
{
    static sw_outcome outcome;
    char words[200];
    snprintf(words, sizeof words,
             "train --json --quiet --synthetic-n 64 --steps 1 --batch %lld", batch);
    program_run(&outcome, words, NULL);
    json_t *root = json_loads(outcome.out);
    const long long total = json_integer_value(json_object_get(root, "total_bytes"));
    json_decref(root);
    return total;
}

/* A figure that was not measured is null, not 0. */
static void what_was_not_measured_is_null(void)
{
    static const char *const times[] = {"min_step_ns", "median_step_ns", "p99_step_ns",
                                        "max_step_ns", "allocations_after_warmup"};
    const json_t *one = object_of("train --json --quiet --synthetic-n 40 --batch 16 --steps 1");
    const json_t *many =
        object_of("train --json --quiet --synthetic-n 40 --batch 16 --epochs 2");
    for (int i = 0; i < 5; i++) {
        SW_CHECK(json_is_null(json_object_get(one, times[i])), "%s of one step", times[i]);
        SW_CHECK(json_is_integer(json_object_get(many, times[i])), "%s of many", times[i]);
    }
    const json_t *last = json_array_get(json_object_get(one, "programs"), 1);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(last, "name")), "train_last");
    CU_ASSERT(json_is_null(json_object_get(last, "measured")) &&
              json_is_null(json_object_get(last, "measured_peak_bytes")));
    CU_ASSERT(json_is_object(json_object_get(one, "measured")));
}

/* Immediate runs are never warm: neither the run nor its report counts what they allocate. */
static void immediate_runs_count_no_allocations(void)
{
    char profile[1024], words[2500];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("immediate"));
    snprintf(words, sizeof words,
             "train --json --quiet --immediate --synthetic-n 40 --batch 16 --profile %s",
             profile);
    CU_ASSERT(json_is_null(json_object_get(object_of(words), "allocations_after_warmup")));
    snprintf(words, sizeof words, "report --json %s", profile);
    const json_t *report = object_of(words);
    CU_ASSERT(json_is_null(json_object_get(report, "allocations_after_warmup")));
    CU_ASSERT(json_is_null(json_object_get(report, "median_ns")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(report, "warm_steps")), 0);
}

static void a_loss_that_is_no_number_is_told(void)
{
    static sw_outcome outcome;
    const json_t *good = object_of("train --json " SMALL_RUN);
    CU_ASSERT(json_is_false(json_object_get(good, "diverged")));
    program_run(&outcome, "train --json --lr 1e38 " SMALL_RUN, NULL);
    json_t *bad = json_loads(outcome.out);
    SW_CHECK(outcome.status == 0 && json_is_true(json_object_get(bad, "diverged")) &&
                 json_is_null(json_object_get(bad, "final_loss")),
             "status %d: %s", outcome.status, outcome.out);
    json_decref(bad);
    SW_CHECK(strstr(outcome.err, "not a finite number") != NULL &&
                 sw_count_lines(outcome.err) == 1,
             "%s", outcome.err);
    program_run(&outcome, "train --lr 1e38 " SMALL_RUN, NULL);
    SW_CHECK(strstr(outcome.out, "loss    nan in") != NULL &&
                 strstr(outcome.out, "-nan") == NULL,
             "%s", outcome.out);
}

/* A real report, with megabytes and op clocks in it. */
static void reports_are_80_columns_wide(void)
{
    static sw_outcome outcome;
    char profile[1024], words[2500];
    snprintf(profile, sizeof profile, "%s", sw_temp_path("wide"));
    snprintf(
        words, sizeof words,
        "train --quiet --synthetic-n 2100 --batch 1000 --epochs 2 --op-clocks --profile %s",
        profile);
    program_run(&outcome, words, NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    static const char *const styles[] = {"", " --bytes"};
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "report %s%s", profile, styles[i]);
        program_run(&outcome, words, NULL);
        SW_CHECK(outcome.status == 0 && widest(outcome.out) <= 80 &&
                     strstr(outcome.out, "Slowest ops of 3 warm runs") != NULL,
                 "status %d, %zu columns: %s", outcome.status, widest(outcome.out),
                 outcome.out);
    }
    snprintf(words, sizeof words, "report --json %s", profile);
    const json_t *slowest = json_object_get(object_of(words), "slowest_ops");
    json_int_t before = INT64_MAX;
    CU_ASSERT_EQUAL(json_array_size(slowest), 10);
    for (size_t i = 0; i < json_array_size(slowest); i++) {
        const json_t *op = json_array_get(slowest, i);
        const json_int_t ns = json_integer_value(json_object_get(op, "mean_ns"));
        CU_ASSERT(ns > 0 && ns <= before && json_is_string(json_object_get(op, "op")));
        before = ns;
    }
}

static void training_takes_no_more_than_the_data(void)
{
    CU_ASSERT(total_of(64) > 0);
    CU_ASSERT_EQUAL(total_of(1000000), total_of(64));
}

static const sw_test tests[] = {
    {"what means nothing is refused in one line that says why",
     what_means_nothing_is_refused_in_one_line},
    {"a message is one line, whatever was typed", a_message_is_one_line_whatever_was_typed},
    {"every help is 80 columns wide", every_help_is_80_columns_wide},
    {"bench is a program of its own", bench_is_a_program_of_its_own},
    {"long paths leave room for the reason", long_paths_leave_room_for_the_reason},
    {"a folder cannot command the terminal", a_folder_cannot_command_the_terminal},
    {"test sets may have fewer classes", test_sets_may_have_fewer_classes},
    {"what was not measured is null", what_was_not_measured_is_null},
    {"immediate runs count no allocations", immediate_runs_count_no_allocations},
    {"a loss that is no number is reported", a_loss_that_is_no_number_is_told},
    {"reports are 80 columns wide", reports_are_80_columns_wide},
    {"a profile says how its run ended", a_profile_says_how_its_run_ended},
    {"closed streams do not end up in files", closed_streams_do_not_end_up_in_files},
    {"a report says that a pipe will not do", a_report_says_that_a_pipe_will_not_do},
    {"a reader that goes away costs no profile", a_reader_that_goes_away_costs_no_profile},
    {"a file at its limit fails with one line", a_file_at_its_limit_fails_with_one_line},
    {"training with a batch above the data takes no more",
     training_takes_no_more_than_the_data},
};
SW_SUITE("usage", tests)
