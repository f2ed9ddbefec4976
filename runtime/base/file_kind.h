/* Files by their first bytes: what callers say of one is theirs. */
#pragma once

#include <stddef.h>

typedef enum {
    SWI_FILE_UNKNOWN,
    SWI_FILE_NPY,
    SWI_FILE_NPZ,
    SWI_FILE_ZIP,
    SWI_FILE_TORCH,        /* a zip archive of torch.save */
    SWI_FILE_TORCH_PICKLE, /* what torch.save wrote before */
    SWI_FILE_PICKLE,
    SWI_FILE_SAFETENSORS,
    SWI_FILE_GZIP,
    SWI_FILE_PNG,
    SWI_FILE_JPEG,
    SWI_FILE_PARQUET,
    SWI_FILE_HDF5,
    SWI_FILE_GGUF,
    SWI_FILE_SQLITE,
    SWI_FILE_IDX,
    SWI_FILE_PROFILE,
    SWI_FILE_EVOLUTION, /* a state or a generation */
    SWI_FILE_KINDS
} swi_file_kind;

/* Of the first n bytes; SWI_FILE_HEAD are enough for all kinds, fewer for some. */
#define SWI_FILE_HEAD 256
swi_file_kind swi_file_kind_of(const unsigned char *head, size_t n);
