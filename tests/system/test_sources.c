/* --data cifar:, csv: and text: through the program: what trains, and damage, which is status 3
 * and one line that names the file. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD 3073

static char folder[900];

static const char *in_folder(const char *name)
{
    static char path[1000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t n)
{
    CU_ASSERT(file_write(in_folder(name), bytes, n));
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

/* Sound files of each kind: 40 records and 20, 60 lines, 2,000 bytes. */
static void put_all(void)
{
    static unsigned char records[40 * RECORD];
    static char lines[60 * 32], text[2001];
    char *to = lines;
    snprintf(folder, sizeof folder, "%s", sw_temp_path("sources"));
    (void)mkdir(folder, 0700);
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (unsigned char)(i % RECORD == 0 ? i / RECORD % 10 : i * 31);
    put("data_batch_mini.bin", records, sizeof records);
    put("test_batch_mini.bin", records, sizeof records / 2);
    to += sprintf(to, "a,b,kind\n");
    for (int i = 0; i < 60; i++)
        to += sprintf(to, "%d.5,%d,%s\n", i, i % 7,
                      i % 3 == 0   ? "cat"
                      : i % 3 == 1 ? "dog"
                                   : "ox");
    put_text("table.csv", lines);
    memset(text, 'x', 2000);
    put_text("text", text);
}

/* `words` with every $ made the folder. */
static const char *with_folder(const char *words)
{
    static char full[8000];
    size_t n = 0;
    for (; *words != '\0' && n + sizeof folder < sizeof full; words++)
        if (*words == '$')
            n += (size_t)snprintf(full + n, sizeof full - n, "%s", folder);
        else
            full[n++] = *words;
    full[n] = '\0';
    return full;
}

static const sw_outcome *run(const char *words, const char *env)
{
    static sw_outcome outcome;
    program_run(&outcome, with_folder(words), env);
    return &outcome;
}

#define MLP "--quiet --model mlp --hidden 8 --batch 16 "
static const char *const sound[] = {
    "train " MLP "--data cifar:$",
    "train " MLP "--data csv:$/table.csv",
    "train " MLP "--data csv:$/table.csv --test-data csv:$/table.csv --standardise",
    "train " MLP "--data csv:$/table.csv --label kind --header yes --test-share 0.5 "
    "--split-seed 7",
    "plan " MLP "--data cifar:$",
    "plan " MLP "--data csv:$/table.csv --label -1",
};

static void sound_data_train(void)
{
    put_all();
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        const sw_outcome *o = run(sound[i], NULL);
        SW_CHECK(o->status == 0 && o->err[0] == '\0', "%s: status %d: %s", sound[i], o->status,
                 o->err);
    }
    static const struct {
        const char *words, *says;
    } said[] = {
        {"train " MLP "--data cifar:$", "40 + 20 samples"},
        {"train " MLP "--data csv:$/table.csv", "48 + 12 samples"},
        {"train " MLP "--data csv:$/table.csv --test-data csv:$/table.csv", "60 + 60 samples"},
        {"train " MLP "--data csv:$/table.csv --test-share 0.5", "30 + 30 samples"},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char line[8000] = "";
        const sw_outcome *o = run(said[i].words, NULL);
        for (size_t k = 0, n = 0; o->out[k] != '\0' && n + 1 < sizeof line; k++)
            if (o->out[k] != '\n' || o->out[k + 1] == '\n') /* lines are wrapped */
                line[n++] = o->out[k];
            else
                line[n++] = ' ';
        SW_CHECK(strstr(line, said[i].says) != NULL, "%s: no '%s' in %s", said[i].words,
                 said[i].says, line);
    }
}

/* The same split, standardised or not, is another training. */
static void options_of_the_table_change_the_training(void)
{
    static const char *const more[] = {
        "",           " --standardise", " --split-seed 2", " --test-share 0.4",
        " --label 2", " --header yes"};
    double loss[6];
    put_all();
    for (int i = 0; i < 6; i++) {
        char words[400];
        snprintf(words, sizeof words, "train " MLP "--json --data csv:$/table.csv%s", more[i]);
        if (i == 4) { /* a table that has a class in its second column */
            put_text("two.csv", "1,0,2\n2,1,3\n3,0,4\n4,1,5\n5,0,6\n");
            snprintf(words, sizeof words, "train " MLP "--json --data csv:$/two.csv%s",
                     more[i]);
        }
        const sw_outcome *o = run(words, NULL);
        SW_CHECK(o->status == 0, "%s: %s", words, o->err);
        loss[i] = program_number(o->out, "final_loss");
        SW_CHECK(loss[i] == loss[i], "no loss in %s", o->out);
    }
    for (int i = 1; i < 5; i++)
        SW_CHECK(loss[i] != loss[0], "'%s' changes nothing", more[i]);
    CU_ASSERT_EQUAL(loss[5], loss[0]);
}

/* A plan needs shapes only: pixels and numbers are not read, what decides shapes is. */
static void a_plan_reads_shapes_alone(void)
{
    put_all();
    unsigned char *records = calloc(40, RECORD);
    sw_after(free, records);
    memset(records, 99, 40 * RECORD);
    put("data_batch_mini.bin", records, 40 * RECORD);
    CU_ASSERT_EQUAL(run("plan " MLP "--data cifar:$", NULL)->status, 0);
    CU_ASSERT_EQUAL(run("train " MLP "--data cifar:$", NULL)->status, 3);
    put("data_batch_mini.bin", records, 40 * RECORD - 1);
    CU_ASSERT_EQUAL(run("plan " MLP "--data cifar:$", NULL)->status, 3);
    put_text("table.csv", "1,2,0\n1,x,1\n");
    CU_ASSERT_EQUAL(run("plan " MLP "--data csv:$/table.csv", NULL)->status, 0);
    CU_ASSERT_EQUAL(run("train " MLP "--data csv:$/table.csv", NULL)->status, 3);
    put_text("table.csv", "1,2,0\n1,1\n");
    CU_ASSERT_EQUAL(run("plan " MLP "--data csv:$/table.csv", NULL)->status, 3);
}

static void refused(int status, const char *words, const char *name, const char *says)
{
    const sw_outcome *o = run(words, NULL);
    SW_CHECK(program_failed_cleanly(o, status) && strstr(o->err, name) != NULL &&
                 strstr(o->err, says) != NULL,
             "%s: status %d, signal %d: %s%s; no '%s' or no '%s'", words, o->status, o->signal,
             o->out, o->err, name, says);
}

static void damaged_files_are_named(void)
{
    static const struct {
        const char *text, *says;
    } tables[] = {
        {"", "empty"},
        {"a,b,kind\n", "no sample"},
        {"1,2,0\n1,2\n", "(got 2)"},
        {"1,2,0\n1,,0\n", "line 2, column 2"},
        {"1,2,0\n1,nan,0\n", "line 2, column 2: 'nan'"},
        {"1,2,0\n1,2,\"0\n", "line 2: its quotation mark"},
        {"1,2,0\n1,2,x\n", "line 2, column 3: 'x'"},
        {"1,2,0\n", "one sample cannot be split"},
        {"1,1e50,0\n1,2,0\n", "line 1, column 2: '1e50' is too large"},
    };
    const char *const csv = "train " MLP "--data csv:$/table.csv";
    const char *const cifar = "train " MLP "--data cifar:$";
    put_all();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        put_text("table.csv", tables[i].text);
        refused(3, csv, "table.csv", tables[i].says);
    }
    (void)unlink(in_folder("table.csv"));
    refused(3, csv, "table.csv", "No such file");
    refused(3, "train " MLP "--data csv:$", folder, "Is a directory");
    put_text("other.csv", "a,b,kind\n1,2,cow\n");
    put_all();
    refused(3, "train " MLP "--data csv:$/table.csv --test-data csv:$/other.csv", "other.csv",
            "'cow' is out of range");
    put("test_batch_mini.bin", "x", 1);
    refused(3, cifar, "test_batch_mini.bin", "whole records");
    put("data_batch_mini.bin", "", 0);
    refused(3, cifar, "data_batch_mini.bin", "empty");
    (void)unlink(in_folder("data_batch_mini.bin"));
    refused(3, cifar, "data_batch_1.bin", "No such file");
    put_text("text", "short");
    refused(3, "plan " MLP "--data text:$/text", "/text", "too short");
}

static void what_does_not_fit_the_data_is_refused(void)
{
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"train " MLP "--data text:$/text", "mlp does not learn sequences"},
        {"train --quiet --model lenet5 --data csv:$/table.csv", "lenet5 reads images"},
        {"train --quiet --model lenet5 --data csv:$/table.csv",
         "; --model mlp takes these data"},
        {"train --quiet --model lenet5 --data cifar:$", "3 x 32 x 32"},
        {"train --quiet --model lenet5 --data cifar:$",
         "; --model mlp, mbconv or resnet9 takes these data"},
        {"train " MLP "--data $", "it looks like cifar, so --data cifar:"},
        {"train " MLP "--data idx:$",
         "there is no file of idx, but it looks like cifar: --data"},
        {"train " MLP "--data $/table.csv", "it looks like csv, so --data csv:"},
        {"plan --model gpt --data $/other", "must say how '"},
        {"plan --model gpt --data $/none", "is unknown: it must be synthetic, idx:DIR"},
        {"train " MLP "--data csv:$/table.csv --label size", "no column is named 'size'"},
        {"train " MLP "--data csv:$/table.csv --label 4", "(got 4)"},
        {"train " MLP "--data csv:$/table.csv --header maybe", "auto, yes, no"},
        {"train " MLP "--data csv:$/table.csv --test-share 1", "--test-share must be"},
        {"train " MLP "--data csv:$/table.csv --test-share 0", "--test-share must be"},
        {"train " MLP "--data csv:$/table.csv --test-data cifar:$", "must be csv:FILE"},
        {"train " MLP "--data csv:$/table.csv --test-data csv:x --split-seed 3", "exclude"},
        {"train " MLP "--data csv:$/table.csv --test-data csv:x --test-share 0.3", "exclude"},
        {"train " MLP "--data csv:", "must be followed by a file"},
        {"train " MLP "--data cifar:", "must be followed by a folder"},
        {"train " MLP "--data tsv:$/table.csv", "csv:FILE, text:FILE"},
        {"train " MLP "--label kind", "without --data csv:FILE"},
        {"train " MLP "--data cifar:$ --standardise", "without --data csv:FILE"},
        {"train " MLP "--data csv:$/table.csv --profile $/table.csv", "same file"},
        {"train " MLP "--data csv:$/a --test-data csv:$/table.csv --save-params $/table.csv",
         "same file"},
        {"train " MLP "--data cifar:$ --save-params $/test_batch_mini.bin", "same file"},
        {"plan --model mlp --data text:$/text --svg $/text", "same file"},
    };
    put_all();
    put_text("other", "any");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(2, cases[i].words, "", cases[i].says);
}

/* Each file operation of a short training fails once: an input counts as damaged. */
static void every_file_operation_can_fail(void)
{
    put_all();
    for (int i = 0; i < 2; i++) {
        int failed = 0;
        for (int k = 0; k < 24; k++) {
            char env[64];
            snprintf(env, sizeof env, "STEPWELL_FAULT=file:%d", k);
            const sw_outcome *o = run(sound[i], env);
            const bool input = strstr(o->err, folder) != NULL;
            failed += o->status != 0;
            SW_CHECK(o->status == 0 || program_failed_cleanly(o, input ? 3 : 1),
                     "file:%d: status %d, signal %d: %s", k, o->status, o->signal, o->err);
        }
        CU_ASSERT(failed >= 4);
    }
}

static const sw_test tests[] = {
    {"sound data train", sound_data_train},
    {"options of the table change the training", options_of_the_table_change_the_training},
    {"a plan reads shapes alone", a_plan_reads_shapes_alone},
    {"damaged files are named", damaged_files_are_named},
    {"what does not fit the data is refused", what_does_not_fit_the_data_is_refused},
    {"every file operation can fail", every_file_operation_can_fail},
};
SW_SUITE("sources", tests)
