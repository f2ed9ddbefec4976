/* The report of `stepwell info` on files that are neither checkpoints nor parameters. */
#pragma once

#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "runtime/state/tensor_file.h"
#include "tools/cli/cli.h"

#define FOUND_NOTES 24

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
    bool whole;        /* it matches its checksum; false: it has none */
    char damage[1200]; /* after what was read; "": none */
} found;

/* Look at the file by its first bytes. With kind NULL it is one for swi_tensors_open, or
 * nothing that is known. SW_FORMAT names the byte where a known kind is cut or cannot be. */
SW_MUST_USE sw_status found_look(found *f, const char *path);

void found_note(found *f, const char *key, const char *format, ...) SW_PRINTF(3, 4);
/* A folder of transformers, or ORG/NAME in the hub's cache: its config.json, and its tensors
 * where they are there, all by name and shape (info_hf.c). */
SW_MUST_USE sw_status found_hf(found *f, const char *name);

void found_print(const found *f);
/* A line of JSON on standard output; it is free then. */
SW_MUST_USE sw_status found_out(sw_json *j);
/* The kind of a file of tensors. */
const char *found_tensors(const swi_tensors *file);
SW_MUST_USE sw_status found_json(const found *f);
/* The files of a folder, a line each. The exit status. */
int found_folder(const char *path, bool json);
