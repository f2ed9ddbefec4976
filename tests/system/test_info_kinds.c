/* stepwell info on files that are neither checkpoints nor parameters: each kind is known by its
 * bytes, whole, cut anywhere and with hostile numbers. The files are made here, byte by
 * byte. */
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

static void put_number(bytes *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++)
        put(b, &(unsigned char){(unsigned char)(x >> 8 * i)}, 1);
}

static void put_zeros(bytes *b, size_t n)
{
    while (n-- > 0)
        put_number(b, 0, 1);
}

static const char *write_bytes(const char *name, const bytes *b)
{
    const char *path = path_of(name);
    CU_ASSERT(file_write(path, b->at, b->n));
    return path;
}

/* An array, as np.save has it: `elements` bytes after the header. */
static void put_array(bytes *b, const char *dict, size_t elements)
{
    const size_t n = 118;
    put(b, "\x93NUMPY\x01\x00", 8);
    put_number(b, n, 2);
    put(b, dict, strlen(dict));
    for (size_t i = strlen(dict); i + 1 < n; i++)
        put(b, " ", 1);
    put(b, "\n", 1);
    put_zeros(b, elements);
}

static bytes an_array(void)
{
    bytes b = {.n = 0};
    put_array(&b, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 48);
    return b;
}

/* Files that are stored as they are; the directory of each stands at the end. */
static bytes an_archive(const char *const *names, const bytes *files, int n)
{
    bytes b = {.n = 0}, list = {.n = 0};
    for (int i = 0; i < n; i++) {
        const size_t begin = b.n, name = strlen(names[i]);
        put(&b, "PK\x03\x04", 4);
        put_zeros(&b, 14);
        put_number(&b, files[i].n, 4);
        put_number(&b, files[i].n, 4);
        put_number(&b, name, 2);
        put_number(&b, 0, 2);
        put(&b, names[i], name);
        put(&b, files[i].at, files[i].n);
        put(&list, "PK\x01\x02", 4);
        put_zeros(&list, 16);
        put_number(&list, files[i].n, 4);
        put_number(&list, files[i].n, 4);
        put_number(&list, name, 2);
        put_zeros(&list, 12);
        put_number(&list, begin, 4);
        put(&list, names[i], name);
    }
    const size_t begin = b.n;
    put(&b, list.at, list.n);
    put(&b, "PK\x05\x06\0\0\0\0", 8);
    put_number(&b, (uint64_t)n, 2);
    put_number(&b, (uint64_t)n, 2);
    put_number(&b, list.n, 4);
    put_number(&b, begin, 4);
    put_number(&b, 0, 2);
    return b;
}

/* ---- kinds ------------------------------------------------------------------------------- */

static void arrays_are_described(void)
{
    const bytes array = an_array();
    const char *path = write_bytes("a.npy", &array);
    CU_ASSERT_EQUAL(run("info %s", path), 0);
    says(": an array of NumPy's, 176 bytes\n");
    says("<f4 (3, 4) ");
    CU_ASSERT_EQUAL(run("info --json %s", path), 0);
    json_t *j = json_loads(outcome.out);
    const json_t *tensor = json_array_get(json_object_get(j, "tensors"), 0);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(j, "kind")), "npy");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(tensor, "bytes")), 48);
    CU_ASSERT_EQUAL(json_integer_value(json_array_get(json_object_get(tensor, "shape"), 1)), 4);
    json_decref(j);
    bytes more = array;
    more.n--;
    (void)run("info %s", write_bytes("a.npy", &more));
    refused("a.npy: byte 128: 48 bytes of elements must follow, 47 are there");
}

static void archives_are_described(void)
{
    static const char *const npz[] = {"w.npy", "b.npy"}, *const torch[] = {"t/data.pkl",
                                                                           "t/data/0"};
    bytes files[2] = {an_array(), {.n = 0}};
    put_array(&files[1], "{'descr': '<i8', 'fortran_order': True, 'shape': (), }", 8);
    bytes b = an_archive(npz, files, 2);
    CU_ASSERT_EQUAL(run("info %s", write_bytes("z", &b)), 0);
    says(": arrays of NumPy's, ");
    says("  w  <f4 (3, 4) ");
    says("  b  <i8 by columns () ");
    b.n--;
    (void)run("info %s", write_bytes("z", &b));
    refused("z: the archive is damaged: no list at its end: it is cut");
    b = an_archive(torch, files, 2);
    CU_ASSERT_EQUAL(run("info %s", write_bytes("t.pt", &b)), 0);
    says(": a file of torch.save, ");
    says("safetensors.torch.save_file");
}

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
    says("U8 (8, 28, 28) ");
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

/* ---- hostile ----------------------------------------------------------------------------- */

/* It ends well, or says what is wrong with the file in one line. */
static void holds(const bytes *b, const char *what, size_t at)
{
    (void)run("info %s", write_bytes("hostile", b));
    SW_CHECK(
        outcome.signal == 0 && !outcome.timed_out &&
            (outcome.status == 0 || (outcome.status == 3 && sw_count_lines(outcome.err) == 1 &&
                                     strstr(outcome.err, "hostile") != NULL)),
        "%s, byte %zu: status %d, signal %d: %s", what, at, outcome.status, outcome.signal,
        outcome.err);
}

static void cut_and_hostile_files_are_refused(void)
{
    static const char *const npz[] = {"w.npy"};
    const bytes array = an_array();
    const bytes files[] = {array, an_archive(npz, &array, 1)};
    static const char *const names[] = {"npy", "npz"};
    const size_t step = sw_tests_full() ? 1 : 17;
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; i < files[f].n; i += step) {
            bytes b = files[f];
            b.n = i;
            holds(&b, names[f], i);
            SW_CHECK(i == 0 || outcome.status == 3, "%s of %zu bytes is taken for whole",
                     names[f], i);
            b = files[f];
            memset(b.at + i, 0xff, b.n - i < 8 ? b.n - i : 8); /* the largest of sizes */
            holds(&b, names[f], i);
        }
}

static const sw_test tests[] = {
    {"arrays are described", arrays_are_described, false},
    {"archives are described", archives_are_described, false},
    {"data are described", data_are_described, false},
    {"profiles are described", profiles_are_described, false},
    {"snapshots are described", snapshots_are_described, false},
    {"names alone are reported", names_alone_are_told, false},
    {"cut and hostile files are refused", cut_and_hostile_files_are_refused, false},
};
SW_SUITE("info of other kinds", tests)
