/* Names of files of parameters: what is written is safetensors, whatever the name says. */
#include "tools/job/job.h"
#include <string.h>
#include <strings.h>

/* Ends of names that other programs read as something else. */
static const char *const others[] = {".ckpt",   ".gguf", ".ggml", ".h5",   ".hdf5",
                                     ".keras",  ".npy",  ".npz",  ".onnx", ".pb",
                                     ".pickle", ".pkl",  ".pt",   ".pth",  ".tflite"};

int job_check_params_name(const char *option, const char *path)
{
    const size_t n = path != NULL ? strlen(path) : 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t end = strlen(others[i]);
        if (n >= end && strcasecmp(path + n - end, others[i]) == 0)
            return cli_error(
                CLI_USAGE,
                "%s writes safetensors files, no '%s' (got '%s'): give a name that "
                "ends in .safetensors, which Python and others read and convert",
                option, others[i], path);
    }
    return CLI_GO;
}
