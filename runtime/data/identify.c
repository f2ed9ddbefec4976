/* Files by their first bytes, folders by what is in them. */
#include "runtime/data/identify.h"
#include "alloc/base/sys.h"
#include "runtime/base/file_kind.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PICKLE                                                                                 \
    "a Python pickle, which old torch.save() writes too: save the arrays with "                \
    "numpy.savez(FILE, x=x, y=y) and give npz:FILE"

static const char *const is_a[SWI_FILE_KINDS] = {
    [SWI_FILE_NPY] = "a .npy file",
    [SWI_FILE_NPZ] = "an .npz archive",
    [SWI_FILE_ZIP] = "a zip archive",
    [SWI_FILE_TORCH] = "a PyTorch file of torch.save(): save the arrays with "
                       "numpy.savez(FILE, x=x.numpy(), y=y.numpy()) and give npz:FILE",
    [SWI_FILE_TORCH_PICKLE] = PICKLE,
    [SWI_FILE_PICKLE] = PICKLE,
    [SWI_FILE_SAFETENSORS] =
        "a safetensors file, which has parameters (--load-params) and no samples",
    [SWI_FILE_GZIP] = "a file of gzip",
    [SWI_FILE_PNG] = "a PNG image",
    [SWI_FILE_JPEG] = "a JPEG image",
    [SWI_FILE_PARQUET] = "a Parquet file: save its columns as CSV or with numpy.savez()",
    [SWI_FILE_HDF5] = "an HDF5 file: save its arrays with numpy.savez()",
    [SWI_FILE_GGUF] = "a GGUF file, which has parameters and no samples",
    [SWI_FILE_SQLITE] = "an SQLite file: save its tables as CSV",
    [SWI_FILE_IDX] = "an IDX file: give idx:DIR, the folder that it is in",
    [SWI_FILE_PROFILE] = "a profile of stepwell: stepwell report shows it",
    [SWI_FILE_EVOLUTION] = "a file that stepwell evolve --resume goes on from",
};

const char *swi_identify_bytes(const unsigned char *head, size_t n)
{
    return is_a[swi_file_kind_of(head, n)];
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
    unsigned char head[SWI_FILE_HEAD];
    if (snprintf(text, bytes, "%s/train.bin", path) < (int)bytes && sw_file_there(text)) {
        snprintf(text, bytes, "is a folder of tokens: give tokens:%s", path);
        return text;
    }
    const size_t n = read_head(path, head, sizeof head);
    const swi_file_kind kind = swi_file_kind_of(head, n);
    const char *is = is_a[kind];
    if (is == NULL && n > 0 && ends(path, ".bin")) {
        snprintf(text, bytes, "is a file: give tokens:%s", path);
        return text;
    }
    if (is == NULL || kind == SWI_FILE_GZIP) /* what is compressed goes by its name */
        return NULL;
    const char *reader = kind == SWI_FILE_NPY   ? ": give npy:INPUTS,TARGETS"
                         : kind == SWI_FILE_NPZ ? ": give npz:FILE"
                                                : "";
    snprintf(text, bytes, "is %s%s", is, reader);
    return text;
}
