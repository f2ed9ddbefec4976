/* The report of `stepwell info` on files that are neither checkpoints nor parameters. */
#ifndef STEPWELL_INFO_FOUND_H
#define STEPWELL_INFO_FOUND_H

#include "alloc/base/sys.h"
#include "tools/cli/cli.h"

#define FOUND_NOTES 24
#define FOUND_RANK 8

typedef struct {
    char name[160], type[24];
    int rank; /* -1: not known */
    uint64_t dim[FOUND_RANK];
    uint64_t bytes; /* UINT64_MAX: not known */
} found_tensor;

typedef struct {
    const char *path;
    uint64_t bytes;
    const char *kind;   /* a word, for JSON: "npy", "gguf"; NULL: a file of tensors of ours */
    const char *says;   /* "an array of NumPy's" */
    const char *advice; /* what to do with it; NULL: nothing */
    struct {
        const char *key;
        char text[300];
    } note[FOUND_NOTES];
    int n_notes;
    found_tensor *tensor;
    uint32_t n_tensors, cap_tensors;
    bool whole;        /* it matches its checksum; false: it has none */
    char damage[1200]; /* after what was read; "": none */
} found;

/* Look at the file by its first bytes. With kind NULL it is one for swi_tensors_open, or
 * nothing that is known. SW_FORMAT names the byte where a known kind is cut or cannot be. */
SW_MUST_USE sw_status found_look(found *f, const char *path);
void found_free(found *f);

/* ---- for the readers --------------------------------------------------------------------- */

void found_note(found *f, const char *key, const char *format, ...) SW_PRINTF(3, 4);
/* Zeroed but for rank and bytes, which are not known; NULL: no memory. Valid until the next. */
SW_MUST_USE sw_status found_add(found *f, found_tensor **out);
SW_MUST_USE sw_status found_numpy(found *f, sw_file *file);
SW_MUST_USE sw_status found_zip(found *f);

/* ---- what is said ------------------------------------------------------------------------ */

void found_print(const found *f);
SW_MUST_USE sw_status found_json(const found *f);
/* The files of a folder, a line each. The exit status. */
int found_folder(const char *path, bool json);

#endif
