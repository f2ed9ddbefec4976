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

static bool ends(const char *path, const char *with)
{
    const size_t n = strlen(path), m = strlen(with);
    return n >= m && strcmp(path + n - m, with) == 0;
}

/* The first bytes of a regular file; 0 of what cannot be read. A pipe would be waited for. */
static size_t read_head(const char *path, unsigned char *head, size_t bytes)
{
    sw_file *file;
    size_t got = 0;
    if (!sw_file_there(path) || !sw_file_replaceable(path) ||
        sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return 0;
    if (sw_file_read(file, head, bytes, &got) != SW_OK)
        got = 0;
    sw_file_drop(file);
    return got;
}

const char *swi_identify(const char *path, char *text, size_t bytes)
{
    unsigned char head[256];
    if (snprintf(text, bytes, "%s/train.bin", path) < (int)bytes && sw_file_there(text)) {
        snprintf(text, bytes, "is a folder of tokens: give tokens:%s", path);
        return text;
    }
    const size_t n = read_head(path, head, sizeof head);
    const char *is = swi_identify_bytes(head, n);
    if (is == NULL && n > 0 && ends(path, ".bin")) {
        snprintf(text, bytes, "is a file: give tokens:%s", path);
        return text;
    }
    if (is == NULL || head[0] == 0x1f) /* what is compressed goes by its name */
        return NULL;
    const char *reader = strcmp(is, "a .npy file") == 0       ? ": give npy:INPUTS,TARGETS"
                         : strcmp(is, "an .npz archive") == 0 ? ": give npz:FILE"
                                                              : "";
    snprintf(text, bytes, "is %s%s", is, reader);
    return text;
}
