/* stepwell info on files that are neither checkpoints nor parameters: each kind is known by its
 * first bytes. The files are made here, byte by byte. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sw_outcome outcome;

static int run(const char *format, const char *path)
{
    char words[2000];
    snprintf(words, sizeof words, format, path);
    program_run(&outcome, words, NULL);
    return outcome.status;
}

static void says(const char *part)
{
    SW_CHECK(strstr(outcome.out, part) != NULL, "'%s' is not in: %s%s", part, outcome.out,
             outcome.err);
}

static void refused(const char *part)
{
    SW_CHECK(outcome.status == 3 && sw_count_lines(outcome.err) == 1 &&
                 strstr(outcome.err, part) != NULL,
             "status %d, '%s' must have '%s'", outcome.status, outcome.err, part);
}

/* ---- bytes ------------------------------------------------------------------------------- */

typedef struct {
    unsigned char at[8192];
    size_t n;
} bytes;

static void put(bytes *b, const void *from, size_t n)
{
    CU_ASSERT_FATAL(b->n + n <= sizeof b->at);
    memcpy(b->at + b->n, from, n);
    b->n += n;
}

static const char *write_bytes(const char *name, const bytes *b)
{
    const char *path = path_of(name);
    CU_ASSERT(file_write(path, b->at, b->n));
    return path;
}

/* ---- kinds ------------------------------------------------------------------------------- */

static void data_are_described(void)
{
    idx_set set;
    char folder[1000], path[1300];
    idx_make(&set, 8);
    snprintf(folder, sizeof folder, "%s", path_of("idx"));
    idx_write(&set, folder);
    idx_free(&set);
    snprintf(path, sizeof path, "%s/%s", folder, idx_name(TRAIN_IMAGES));
    CU_ASSERT_EQUAL(run("info %s", path), 0);
    says(": IDX, the format of MNIST, ");
    CU_ASSERT_EQUAL(run("info %s", folder), 0);
    says(": a directory; ");
    says("t10k-labels-idx1-ubyte");
    CU_ASSERT_EQUAL(run("info --json %s", folder), 0);
    json_t *j = json_loads(outcome.out);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "files")), IDX_FILES);
    json_decref(j);
}

static void profiles_are_described(void)
{
    char words[1500];
    const char *path = path_of("profile");
    snprintf(words, sizeof words,
             "train --model mlp --hidden 8 --synthetic-n 40 --batch 8 --steps 3 --quiet --json "
             "--profile %s",
             path);
    program_run(&outcome, words, NULL);
    CU_ASSERT_EQUAL(outcome.status, 0);
    const double peak = program_number(outcome.out, "measured_peak_bytes");
    CU_ASSERT_EQUAL(run("info %s", path), 0);
    says(": a profile of a run, ");
    says("  model: mlp\n");
    says("  steps: 3\n");
    says("  ended: done\n");
    snprintf(words, sizeof words, "  measured_peak_bytes: %.0f\n", peak);
    says(words);
    says("stepwell report FILE");
    size_t n;
    unsigned char *all = file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(all);
    unsigned char *end = memchr(all + n / 2, '\n', n / 2); /* of a line: not inside a text */
    CU_ASSERT_FATAL(end != NULL && end + 21 < all + n);
    memset(end + 1, '}', 20);
    CU_ASSERT(file_write(path, all, n));
    free(all);
    (void)run("info %s", path);
    refused("profile: line ");
    says("  model: mlp\n"); /* what is before the damage */
}

static void snapshots_are_described(void)
{
    bytes b = {.n = 0};
    static const char snapshot[] =
        "{\"segments\":[{\"device\":0,\"address\":4096,\"total_size\":2048,\"blocks\":"
        "[{\"size\":2048,\"requested_size\":2000,\"state\":\"active_allocated\",\"frames\":[]}]"
        "}],"
        "\"device_traces\":[[]]}";
    put(&b, snapshot, strlen(snapshot));
    CU_ASSERT_EQUAL(run("info %s", write_bytes("snapshot.json", &b)), 0);
    says(": a memory snapshot of PyTorch, ");
    says("peak_bytes: ");
}

#define TEXT(head, says)                                                                       \
    {                                                                                          \
        head, sizeof head - 1, says                                                            \
    }

/* The head of an archive's first file, up to its name of `n` bytes. */
#define ARCHIVE(n) "PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" n "\0\0\0"

/* As they are written, and laid out otherwise. */
static void names_alone_are_told(void)
{
    static const struct {
        const char *head;
        size_t n;
        const char *says;
    } kinds[] = {
        TEXT("{\n \"format\": \"stepwell genome 1\",\n", ": an architecture"),
        TEXT("{\"format\":\"stepwell genome 1\"", ": an architecture"),
        TEXT("{\n \"format\": \"stepwell search space 1\",\n", ": a search space"),
        TEXT("{\"generation\":120,\"id\":7,\"parents\"", "the history of an evolution"),
        TEXT("{\"generation\":0,\"best\":null,", "an evolution, a line a generation"),
        TEXT("kind,step,epoch,loss\n", "metrics of a training"),
        TEXT("{\"kind\":\"train\",\"step\":1,", "metrics of a training"),
        TEXT("kind,generation,mean,best\n", "metrics of an evolution strategy"),
        TEXT("{\"kind\":\"generation\",\"generation\":1,", "metrics of an evolution strategy"),
        TEXT("member,step,score,train_loss\n", "metrics of a population"),
        TEXT("{\"member\":0,\"step\":2,", "metrics of a population"),
        TEXT("[0,22,4,2,{\"lr\":0.2},{\"lr\":0.1}]\n", "a log of population based training"),
        TEXT("<!doctype html>\n<html>", ": a page"),
        TEXT("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ", ": a picture"),
        TEXT("<svg xmlns", ": a picture"),
        {"\x1f\x8b\x08\0", 4, "compressed by gzip"},
        {"\x89HDF\r\n\x1a\n....", 12, "HDF5"},
        {"GGUF\x03\0\0\0", 8, ": GGUF, the format of llama.cpp, 8 bytes\n  tensors of F32"},
        {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 15, "torch.save, in the form before"},
        TEXT("\x93NUMPY\x01\0v\0{'descr': '<f4',", ": an array of NumPy's"),
        TEXT(ARCHIVE("\x05") "w.npy....", ": arrays of NumPy's, "),
        TEXT(ARCHIVE("\x0a") "t/data.pkl....", ": a file of torch.save, "),
        TEXT(ARCHIVE("\x05") "w.txt....", ": an archive (zip), "),
        TEXT(ARCHIVE("\xff") "w.npy....", ": an archive (zip), "),
        {"\x89PNG\r\n", 6, "a picture"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bytes b = {.n = 0};
        put(&b, kinds[i].head, kinds[i].n);
        CU_ASSERT_EQUAL(run("info %s", write_bytes("named", &b)), 0);
        says(kinds[i].says);
    }
    static const char *const others[] = {"[1,2,3]\n", "kind,step\n",
                                         "{\"generation\":,\"id\":1}", "{\"generation\":1",
                                         "<html>"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bytes b = {.n = 0};
        put(&b, others[i], strlen(others[i]));
        CU_ASSERT_EQUAL(run("info %s", write_bytes("named", &b)), 3);
    }
}

static const sw_test tests[] = {
    {"data are described", data_are_described, false},
    {"profiles are described", profiles_are_described, false},
    {"snapshots are described", snapshots_are_described, false},
    {"names alone are reported", names_alone_are_told, false},
};
SW_SUITE("info of other kinds", tests)
