/* Shared by the writer, the reader and the loader of files of tensors. */
#ifndef SW_TENSOR_INTERNAL_H
#define SW_TENSOR_INTERNAL_H

#include "runtime/model/model.h"
#include "runtime/state/tensor_file.h"
#include "runtime/stepwell.h"
#include <stdbool.h>

#define SWI_KEY_CHECKSUMS SWI_OWN_PREFIX "checksums"
#define SWI_KEY_HEADER SWI_OWN_PREFIX "header"
#define SWI_TENSORS_VERSION "1"
#define SWI_VERIFY_BYTES ((size_t)256 << 10) /* of the block that data go through */

/* An open file. */
struct swi_tensors {
    sw_file *file;
    uint64_t file_bytes, data_begin, data_bytes;
    char *texts; /* of names, types and notes */
    size_t text_bytes;
    swi_tensors_entry *entries; /* by offset */
    uint32_t n, cap;
    swi_tensors_note *notes;
    uint32_t n_notes, cap_notes;
    sw_map names; /* of the tensors */
    bool has_checksums, is_checkpoint, checked;
};

/* Read exactly that many bytes; SW_FORMAT where there are fewer. */
SW_MUST_USE sw_status swi_tensors_get(swi_tensors *file, void *to, size_t bytes);

static inline bool swi_is_own(const char *name)
{
    return __builtin_strncmp(name, SWI_OWN_PREFIX, sizeof SWI_OWN_PREFIX - 1) == 0;
}

/* ---- tensor header ----------------------------------------------------------------------- */

/* The header of a file of tensors as text: written for a list of tensors, read back one by one.
 * Knows nothing of models and of checksums. */

/* A longer header is refused: no header of 65,536 tensors needs it. */
#define SWI_ST_HEADER_MAX ((size_t)16 << 20)
#define SWI_ST_TENSORS_MAX 65536
#define SWI_ST_NOTES_MAX 65536

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    const char *name, *dtype;
    int rank; /* 9 where it has more than 8 dims */
    int64_t dim[SW_MAX_RANK];
    uint64_t elements;   /* of all dims; UINT64_MAX where they are too many to count */
    uint64_t begin, end; /* in the data */
} swi_st_tensor;

/* Texts are UTF-8 without zero characters, terminated, and lie in the room of swi_st_parse. */
typedef struct {
    sw_status (*tensor)(void *context, const swi_st_tensor *tensor);
    /* A text of the metadata; its closing quote is byte `end` of the header. */
    sw_status (*note)(void *context, const char *key, const char *text, size_t end);
    void *context;
} swi_st_visit;

/* ---- writing ----------------------------------------------------------------------------- */

/* Text that is counted when `to` is NULL and written otherwise. */
typedef struct {
    char *to;
    size_t bytes;
} swi_st_text;

/* The metadata: "format", which is ours, then notes. All texts are terminated UTF-8. */
void swi_st_begin(swi_st_text *text);
void swi_st_note(swi_st_text *text, const char *key, const char *note);
/* A note of hexadecimal digits, 16 for each number; where its first digit lies. */
size_t swi_st_note_hex(swi_st_text *text, const char *key, const uint64_t *numbers, uint32_t n);
void swi_st_end_notes(swi_st_text *text);
void swi_st_add(swi_st_text *text, const char *name, const char *dtype, const int64_t *dim,
                int rank, uint64_t begin, uint64_t end);
/* Close it and pad it with spaces, so that the data after it begin at a multiple of 64. */
void swi_st_end(swi_st_text *text);

/* 16 digits, in lower case; not terminated. */
void swi_st_hex(char *to, uint64_t number);

#endif
