/* Shared by the writer, the reader and the loader of files of tensors. */
#pragma once

#include "runtime/model/model.h"
#include "runtime/state/tensor_file.h"
#include "runtime/stepwell.h"

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

/* A name for a message: cut, without what is not printable. */
#define SWI_NAME_SHOWN 160
const char *swi_name_shown(char to[SWI_NAME_SHOWN], const char *name);

/* How numbers of 16 bits of this type become float32; NULL: it is neither BF16 nor F16. */
typedef float swi_widen(uint16_t x);
swi_widen *swi_widen_of(const char *dtype);
/* `n` of them, which lie in the upper half of the bytes at `to`, become float32 there. */
void swi_widen_in_place(swi_widen *widen, void *to, size_t n);

/* "F32 (3, 4)" for messages. */
void swi_tensors_describe(char *to, size_t bytes, const char *dtype, int rank,
                          const int64_t *dim);

static inline bool swi_is_own(const char *name)
{
    return __builtin_strncmp(name, SWI_OWN_PREFIX, sizeof SWI_OWN_PREFIX - 1) == 0;
}

/* A longer header is refused: no header of 65,536 tensors needs it. */
#define SWI_ST_HEADER_MAX ((size_t)16 << 20)
#define SWI_ST_TENSORS_MAX 65536
#define SWI_ST_NOTES_MAX 65536
