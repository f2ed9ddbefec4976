/* Files of other programs, by their first bytes. */
#include "runtime/state/foreign_file.h"
#include <stdbool.h>
#include <string.h>

#define TORCH                                                                                  \
    "; in Python, safetensors.torch.save_file(torch.load(FILE, map_location=\"cpu\"), "        \
    "\"params.safetensors\") converts its state dict"
#define NUMPY                                                                                  \
    "; in Python, safetensors.numpy.save_file(dict, \"params.safetensors\") writes one"

static bool begins(const unsigned char *first, size_t n, const char *with, size_t bytes)
{
    return n >= bytes && memcmp(first, with, bytes) == 0;
}

/* The name of a zip file's first member stands at byte 30. */
static const char *what_zip(const unsigned char *first, size_t n)
{
    if (n < 32)
        return NULL;
    const size_t announced = (size_t)first[26] | (size_t)first[27] << 8;
    const size_t length = announced < n - 30 ? announced : n - 30;
    const char *name = (const char *)first + 30;
    static const char pkl[] = "data.pkl";
    const size_t end = sizeof pkl - 1;
    if (length >= end && memcmp(name + length - end, pkl, end) == 0)
        return "it is a zip file that torch.save wrote" TORCH;
    if (length >= 4 && memcmp(name + length - 4, ".npy", 4) == 0)
        return "it is a zip file of NumPy arrays (.npz)" NUMPY;
    return "it is a zip file; one that torch.save wrote is converted in Python by "
           "safetensors.torch.save_file(torch.load(FILE), \"params.safetensors\")";
}

const char *swi_foreign_file(const unsigned char *first, size_t n)
{
    /* Protocol 2 and the number that torch.save wrote before it wrote zip files. */
    static const char legacy[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    static const char hdf5[] = "\x89HDF\r\n\x1a\n";
    if (begins(first, n, "PK\3\4", 4))
        return what_zip(first, n);
    if (begins(first, n, legacy, sizeof legacy - 1))
        return "it is a pickle that torch.save wrote" TORCH;
    if (n >= 2 && first[0] == 0x80 && first[1] >= 2 && first[1] <= 5 && n > 2)
        return "it is a Python pickle; in Python, safetensors.torch.save_file writes the "
               "tensors "
               "of a dict";
    if (begins(first, n, "\x93NUMPY", 6))
        return "it is a NumPy array (.npy)" NUMPY;
    if (begins(first, n, "GGUF", 4))
        return "it is a GGUF file, which is not read";
    if (begins(first, n, hdf5, sizeof hdf5 - 1))
        return "it is an HDF5 file (Keras), which is not read";
    if (begins(first, n, "\x1f\x8b", 2))
        return "it is compressed by gzip: unpack it first";
    if (begins(first, n, "{\"type\":\"header\"", 16))
        return "it is a profile of stepwell, for 'stepwell report'";
    return NULL;
}
