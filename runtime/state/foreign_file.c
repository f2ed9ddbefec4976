/* Files of other programs: what to do where parameters are read. */
#include "runtime/state/foreign_file.h"
#include "runtime/base/file_kind.h"

#define TORCH                                                                                  \
    "; in Python, safetensors.torch.save_file(torch.load(FILE, map_location=\"cpu\"), "        \
    "\"params.safetensors\") converts its state dict"
#define NUMPY                                                                                  \
    "; in Python, safetensors.numpy.save_file(dict, \"params.safetensors\") writes one"

static const char *const is_a[SWI_FILE_KINDS] = {
    [SWI_FILE_NPY] = "a NumPy array (.npy)" NUMPY,
    [SWI_FILE_NPZ] = "a zip file of NumPy arrays (.npz)" NUMPY,
    [SWI_FILE_ZIP] = "a zip file; one that torch.save wrote is converted in Python by "
                     "safetensors.torch.save_file(torch.load(FILE), \"params.safetensors\")",
    [SWI_FILE_TORCH] = "a zip file that torch.save wrote" TORCH,
    [SWI_FILE_TORCH_PICKLE] = "a pickle that torch.save wrote" TORCH,
    [SWI_FILE_PICKLE] =
        "a Python pickle; in Python, safetensors.torch.save_file writes the tensors of a dict",
    [SWI_FILE_GZIP] = "compressed by gzip: unpack it first",
    [SWI_FILE_PNG] = "a PNG image",
    [SWI_FILE_JPEG] = "a JPEG image",
    [SWI_FILE_PARQUET] = "a Parquet file, which is not read",
    [SWI_FILE_HDF5] = "an HDF5 file (Keras), which is not read",
    [SWI_FILE_GGUF] = "a GGUF file, which is not read",
    [SWI_FILE_SQLITE] = "an SQLite file, which is not read",
    [SWI_FILE_IDX] = "an IDX file, which has samples (--data idx:DIR) and no parameters",
    [SWI_FILE_PROFILE] = "a profile of stepwell, for 'stepwell report'",
    [SWI_FILE_EVOLUTION] =
        "a file that 'stepwell evolve --resume' goes on from; the parameters "
        "of the best net are in best.safetensors",
};

const char *swi_foreign_file(const unsigned char *head, size_t n)
{
    return is_a[swi_file_kind_of(head, n)];
}
