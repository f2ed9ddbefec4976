/* --data tokens:, npy: and npz: through the program: what trains and what it takes, a training
 * that goes on, and what is refused. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* An array of bytes. */
static void put_array(const char *name, const char *shape, const void *data, size_t n)
{
    static unsigned char file[70000];
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\1\0v\0", 10);
    const int length =
        snprintf(head + 10, sizeof head - 10,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", shape);
    head[10 + length] = ' ';
    head[127] = '\n';
    memcpy(file, head, sizeof head);
    memcpy(file + sizeof head, data, n);
    put(name, file, sizeof head + n);
}

static void put_tokens(const char *name, size_t n, int width)
{
    static unsigned char ids[16000];
    memset(ids, 0, sizeof ids);
    for (size_t i = 0; i < n; i++) {
        const size_t id = i * i % 331; /* says itself again and again */
        ids[i * (size_t)width] = (unsigned char)(id & 255);
        ids[i * (size_t)width + 1] = (unsigned char)(id >> 8);
    }
    put(name, ids, n * (size_t)width);
}

static void put_all(void)
{
    static unsigned char pixels[80 * 784], classes[80];
    char words[331 * 8] = "";
    snprintf(folder, sizeof folder, "%s", sw_temp_path("arrays"));
    (void)mkdir(folder, 0700);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 31 + i / 784);
    for (size_t i = 0; i < sizeof classes; i++)
        classes[i] = (unsigned char)(i % 10);
    put_array("x.npy", "80, 28, 28", pixels, sizeof pixels);
    put_array("y.npy", "80, 1", classes, sizeof classes);
    put_array("x2.npy", "20, 28, 28", pixels, 20 * 784);
    put_array("y2.npy", "20,", classes, 20);
    put_tokens("train.bin", 4000, 2);
    put_tokens("val.bin", 600, 2);
    put_tokens("wide.bin", 4000, 4);
    for (int i = 0; i < 331; i++)
        snprintf(words + strlen(words), 8, "t%d\n", i);
    put("words", words, strlen(words));
}

/* `words` with every $ made the folder. */
static const sw_outcome *run(const char *words)
{
    static sw_outcome outcome;
    static char full[8000];
    size_t n = 0;
    for (; *words != '\0' && n + sizeof folder < sizeof full; words++)
        if (*words == '$')
            n += (size_t)snprintf(full + n, sizeof full - n, "%s", folder);
        else
            full[n++] = *words;
    full[n] = '\0';
    program_run(&outcome, full, NULL);
    return &outcome;
}

#define GPT                                                                                    \
    "--quiet --json --model gpt --layers 1 --width 16 --heads 2 --context 16 --batch 8 "       \
    "--steps 8 --dropout 0.1 "
#define LENET "--quiet --json --model lenet5 --batch 16 --epochs 2 "
#define TOKENS "--data tokens:$ --vocab $/words "
#define NPY "--data npy:$/x.npy,$/y.npy "

static const char *const sound[] = {
    GPT TOKENS,
    GPT "--data tokens:$/train.bin",
    GPT "--data tokens:$/train.bin --test-data tokens:$/val.bin",
    GPT "--data tokens32:$/wide.bin --vocab $/words",
    LENET NPY,
    LENET NPY "--test-data npy:$/x2.npy,$/y2.npy",
    LENET NPY "--test-share 0.5 --split-seed 4",
};

/* A plan, which reads no samples, says what the training then takes. */
static void what_is_planned_is_what_is_taken(void)
{
    put_all();
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        char words[500];
        snprintf(words, sizeof words, "train %s", sound[i]);
        const sw_outcome *o = run(words);
        SW_CHECK(o->status == 0 && o->err[0] == '\0', "%s: status %d: %s", words, o->status,
                 o->err);
        const double peak = program_number(o->out, "measured_peak_bytes"),
                     total = program_number(o->out, "total_bytes");
        CU_ASSERT(peak > 0.0 && peak == program_number(o->out, "predicted_peak_bytes"));
        CU_ASSERT_EQUAL(program_number(o->out, "allocations_after_warmup"), 0.0);
        char plan[500] = "plan";
        for (const char *from = sound[i]; *from != '\0'; from++) { /* what is train's alone */
            static const char *const left_out[] = {"--quiet ", "--steps 8 ", "--epochs 2 "};
            for (int k = 0; k < 3; k++)
                if (strncmp(from, left_out[k], strlen(left_out[k])) == 0)
                    from += strlen(left_out[k]);
            const size_t n = strlen(plan);
            snprintf(plan + n, sizeof plan - n, "%s%c", n == 4 ? " " : "", *from);
        }
        o = run(plan);
        SW_CHECK(o->status == 0 && program_number(o->out, "total_bytes") == total &&
                     program_number(o->out, "predicted_peak_bytes") == peak,
                 "%s: status %d: %s%s", plan, o->status, o->out, o->err);
    }
}

/* Ids of 16 and of 32 bits train alike, in half the memory of batches. */
static void ids_of_both_widths_train_alike(void)
{
    put_all();
    const sw_outcome *o = run("train " GPT "--data tokens:$/train.bin");
    const double loss = program_number(o->out, "final_loss"),
                 data = program_number(o->out, "data_bytes");
    o = run("train " GPT "--data tokens32:$/wide.bin");
    CU_ASSERT(loss == loss && loss == program_number(o->out, "final_loss"));
    CU_ASSERT_EQUAL(program_number(o->out, "data_bytes"), 2 * data);
    o = run("train " GPT "--data tokens:$/train.bin --witness");
    SW_CHECK(o->status == 0 && loss == program_number(o->out, "final_loss"), "%s%s", o->out,
             o->err);
}

static bool same_files(const char *a, const char *b)
{
    size_t n[2];
    unsigned char *x = file_read(in_folder(a), &n[0]), *y = file_read(in_folder(b), &n[1]);
    const bool same = x != NULL && y != NULL && n[0] == n[1] && memcmp(x, y, n[0]) == 0;
    free(x);
    free(y);
    return same;
}

/* A training that stopped goes on with the same bits, and with the same samples alone. */
static void trainings_go_on(void)
{
    static const char *const sources[] = {
        "train --quiet --model gpt --layers 1 --width 16 --heads 2 --context 16 --batch 8 "
        "--schedule constant --data tokens:$ ",
        "train --quiet --model lenet5 --batch 16 --schedule constant --data "
        "npy:$/x.npy,$/y.npy "};
    if (!SW_HAVE_XXHASH)
        SW_SKIP("built without libxxhash");
    for (int i = 0; i < 2; i++) {
        char words[600];
        unsigned char others[80];
        for (size_t k = 0; k < sizeof others; k++)
            others[k] = (unsigned char)((k + 1) % 10);
        put_all();
        for (int k = 0; k < 3; k++) {
            static const char *const how[] = {
                "--steps 14 --save-params $/whole", "--steps 9 --checkpoint $/checkpoint%d",
                "--steps 14 --checkpoint $/checkpoint%d --resume --save-params $/again"};
            char tail[200];
            snprintf(tail, sizeof tail, how[k], i);
            snprintf(words, sizeof words, "%s%s", sources[i], tail);
            const sw_outcome *o = run(words);
            SW_CHECK(o->status == 0, "%s: status %d: %s", words, o->status, o->err);
        }
        CU_ASSERT(same_files("whole", "again"));
        if (i == 0)
            put_tokens("train.bin", 3990, 2);
        else
            put_array("y.npy", "80, 1", others, sizeof others);
        const sw_outcome *o = run(words);
        SW_CHECK(o->status != 0 && o->status != 130, "%s: other samples go on", words);
    }
}

static void refused(int status, const char *words, const char *says)
{
    const sw_outcome *o = run(words);
    SW_CHECK(program_failed_cleanly(o, status) && strstr(o->err, says) != NULL,
             "%s: status %d, signal %d: %s%s; no '%s'", words, o->status, o->signal, o->out,
             o->err, says);
}

static void what_does_not_fit_is_refused(void)
{
    put_all();
    put("few", "a\nb\n", 4);
    put("model.pt", "PK\3\4..........................archive/data.pkl", 46);
    refused(3, "train " GPT "--data tokens:$ --vocab $/few", "must be 0 to 1 (got 4)");
    refused(3, "plan --model gpt --data tokens:$/none", "No such file");
    refused(3, "train " GPT "--data tokens32:$/val.bin --vocab $/words", "/val.bin: the id at");
    refused(2, "train " GPT "--data tokens:$ --test-data tokens:$/val.bin", "is a folder");
    refused(2, "train " GPT "--data tokens:$/train.bin --test-data tokens32:$/val.bin",
            "must be tokens:FILE|DIR");
    refused(2, "train " GPT "--data tokens:$ --test-share 0.5",
            "--test-share has no effect without --data csv:FILE, npy:INPUTS,TARGETS, npz:FILE");
    refused(2, "train " LENET NPY "--vocab $/words",
            "without --data tokens:FILE|DIR or tokens32");
    refused(2, "train " LENET NPY "--label 1", "--label has no effect without --data csv:FILE");
    refused(2, "train " GPT TOKENS "--vocabulary 330", "less than the 331 ids");
    refused(2, "train " LENET TOKENS, "does not learn sequences");
    refused(2, "train " LENET "--data npy:$/x.npy", "a comma between them");
    refused(3, "train " LENET "--data npy:$/x.npy,$/y2.npy", "has 20 samples");
    refused(3, "train " LENET "--data npz:$/x.npy",
            "must be an .npz archive; it is a .npy file");
    refused(3, "train " LENET "--data npz:$/model.pt", "a PyTorch file of torch.save()");
    refused(2, "train " LENET "--data $/model.pt", "is a PyTorch file of torch.save()");
    refused(2, "train " LENET "--data $/x.npy", "is a .npy file: give npy:INPUTS,TARGETS");
    refused(2, "train " LENET "--data $", "is a folder of tokens: give tokens:");
    refused(2, "train " LENET "--data $/words", "--data must say how");
    refused(2, "train " GPT TOKENS "--save-params $/val.bin", "same file");
    refused(2, "train " GPT TOKENS "--save-params $/words", "same file");
    refused(2, "train " LENET NPY "--profile $/y.npy", "same file");
    refused(2, "train " LENET "--data npz:$/a.npz:x,y --profile $/a.npz", "same file");
}

static const sw_test tests[] = {
    {"what is planned is what is taken", what_is_planned_is_what_is_taken},
    {"ids of both widths train alike", ids_of_both_widths_train_alike},
    {"trainings go on", trainings_go_on},
    {"what does not fit is refused", what_does_not_fit_is_refused},
};
SW_SUITE("array sources", tests)
