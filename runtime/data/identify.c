/* Files by their first bytes, folders by what is in them. */
#include "runtime/data/identify.h"
#include "alloc/base/sys.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TORCH                                                                                  \
    "a PyTorch file of torch.save(): save the arrays with numpy.savez(FILE, x=x.numpy(), "     \
    "y=y.numpy()) and give npz:FILE"

static bool begins(const unsigned char *head, size_t n, const char *with, size_t bytes)
{
    return n >= bytes && memcmp(head, with, bytes) == 0;
}

/* Is the word among the first bytes? Archives have the name of their first file there. */
static bool has(const unsigned char *head, size_t n, const char *word)
{
    const size_t bytes = strlen(word);
    for (size_t i = 0; i + bytes <= n; i++)
        if (memcmp(head + i, word, bytes) == 0)
            return true;
    return false;
}

/* Eight bytes of a length, and a JSON object. */
static bool is_safetensors(const unsigned char *head, size_t n)
{
    return n >= 10 && head[8] == '{' && head[9] == '"' && memcmp(head + 5, "\0\0\0", 3) == 0;
}

const char *swi_identify_bytes(const unsigned char *head, size_t n)
{
    static const struct {
        const char *head;
        size_t n;
        const char *is;
    } known[] = {
        {"\x93NUMPY", 6, "a .npy file"},
        {"\x1f\x8b", 2, "a file of gzip"},
        {"\x89PNG", 4, "a PNG image"},
        {"\xff\xd8\xff", 3, "a JPEG image"},
        {"PAR1", 4, "a Parquet file: save its columns as CSV or with numpy.savez()"},
        {"\x89HDF", 4, "an HDF5 file: save its arrays with numpy.savez()"},
        {"GGUF", 4, "a GGUF file, which has parameters and no samples"},
        {"SQLite format 3", 15, "an SQLite file: save its tables as CSV"},
        {"\x00\x00\x08\x03", 4, "an IDX file: give idx:DIR, the folder that it is in"},
        {"\x00\x00\x08\x01", 4, "an IDX file: give idx:DIR, the folder that it is in"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(head, n, known[i].head, known[i].n))
            return known[i].is;
    if (begins(head, n, "PK\x03\x04", 4))
        return has(head, n, "data.pkl") ? TORCH
               : has(head, n, ".npy")   ? "an .npz archive"
                                        : "a zip archive";
    if (n >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return "a Python pickle, which old torch.save() writes too: save the arrays with "
               "numpy.savez(FILE, x=x, y=y) and give npz:FILE";
    if (is_safetensors(head, n))
        return "a safetensors file, which has parameters (--load-params) and no samples";
    return NULL;
}

/* PATH/NAME is there, or PATH/NAME.gz. */
static bool holds(const char *path, const char *name)
{
    char file[4096];
    for (int i = 0; i < 2; i++)
        if (snprintf(file, sizeof file, "%s/%s%s", path, name, i == 0 ? "" : ".gz") <
                (int)sizeof file &&
            sw_file_there(file))
            return true;
    return false;
}

static const char *identify_folder(const char *path, char *text, size_t bytes)
{
    static const struct {
        const char *file, *is, *reader;
    } known[] = {{"train-images-idx3-ubyte", "of IDX files", "idx"},
                 {"t10k-images-idx3-ubyte", "of IDX files", "idx"},
                 {"data_batch_1.bin", "of CIFAR-10's batches", "cifar"},
                 {"data_batch_mini.bin", "of CIFAR-10's batches", "cifar"},
                 {"train.bin", "of tokens", "tokens"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (holds(path, known[i].file)) {
            snprintf(text, bytes, "is a folder %s: give %s:%s", known[i].is, known[i].reader,
                     path);
            return text;
        }
    return "is a folder: in front of it must stand what it has, as idx:DIR, cifar:DIR or "
           "tokens:DIR";
}

static bool ends(const char *path, const char *with)
{
    const size_t n = strlen(path), m = strlen(with);
    return n >= m && strcmp(path + n - m, with) == 0;
}

/* By the name, where the bytes say nothing. */
static const char *identify_name(const char *path, char *text, size_t bytes)
{
    static const char *const names[][2] = {
        {".csv", "csv"},     {".tsv", "csv"},    {".csv.gz", "csv"}, {".txt", "text"},
        {".txt.gz", "text"}, {".bin", "tokens"}, {".npz", "npz"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ends(path, names[i][0])) {
            snprintf(text, bytes, "is a file: give %s:%s", names[i][1], path);
            return text;
        }
    return "is a file: in front of it must stand how to read it, as csv:FILE or text:FILE";
}

bool swi_identify_there(const char *path)
{
    return sw_file_there(path);
}

const char *swi_identify(const char *path, char *text, size_t bytes)
{
    unsigned char head[256];
    sw_file *file;
    size_t got = 0;
    snprintf(text, bytes, "%s/.", path);
    if (sw_file_there(text))
        return identify_folder(path, text, bytes);
    if (!sw_file_there(path))
        return "is neither a source of data nor a file";
    if (!sw_file_replaceable(path) || sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return identify_name(path, text, bytes); /* a pipe would be waited for */
    if (sw_file_read(file, head, sizeof head, &got) != SW_OK)
        got = 0;
    sw_file_drop(file);
    const char *is = swi_identify_bytes(head, got);
    if (is == NULL || (head[0] == 0x1f && got > 0))
        return identify_name(path, text, bytes);
    const char *reader = strcmp(is, "a .npy file") == 0       ? ": give npy:INPUTS,TARGETS"
                         : strcmp(is, "an .npz archive") == 0 ? ": give npz:FILE"
                                                              : "";
    snprintf(text, bytes, "is %s%s", is, reader);
    return text;
}
