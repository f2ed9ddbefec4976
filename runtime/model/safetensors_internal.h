/* The header of a safetensors file as text: written for a list of tensors, read back one by
 * one. Knows nothing of models. */
#ifndef SW_SAFETENSORS_INTERNAL_H
#define SW_SAFETENSORS_INTERNAL_H

#include "runtime/stepwell.h"

/* A header of more bytes is refused: 65,536 tensors have less. */
#define SWI_ST_HEADER_MAX ((size_t)16 << 20)

/* A text in the metadata. */
#define SWI_NOTES 4 /* that a model has at most */
typedef struct {
    char key[48], text[256];
} swi_note;

typedef struct {
    char name[128];    /* UTF-8, not terminated; cut where it is longer */
    size_t name_bytes; /* the whole of it */
    char dtype[12];    /* "F32"; terminated, cut where it is longer */
    int rank;          /* 9 where it has more than 8 dims */
    int64_t dim[SW_MAX_RANK];
    uint64_t begin, end; /* in the data */
} swi_st_tensor;

/* Call `visit` for each tensor of the header in the order of the text. SW_FORMAT, naming `path`
 * and the byte, for anything that is not the header of a safetensors file. Takes no memory. */
typedef sw_status swi_st_visit(void *context, const swi_st_tensor *tensor);
SW_MUST_USE sw_status swi_st_parse(const char *text, size_t bytes, const char *path,
                                   swi_st_visit *visit, void *context);

/* Into note->text the text of note->key in the metadata, cut to its room; "" where there is
 * none. SW_FORMAT as above. */
SW_MUST_USE sw_status swi_st_note(const char *text, size_t bytes, const char *path,
                                  swi_note *note);

/* Text that is counted when `to` is NULL and written otherwise. */
typedef struct {
    char *to;
    size_t bytes;
} swi_st_text;

/* The metadata: "format", which is ours, and these. */
void swi_st_begin(swi_st_text *text, const swi_note *notes, int n);
/* `name` is terminated UTF-8. */
void swi_st_add(swi_st_text *text, const char *name, const char *dtype, const sw_shape *shape,
                uint64_t begin, uint64_t end);
/* Close it and pad it with spaces, so that the data behind it begin at a multiple of 64. */
void swi_st_end(swi_st_text *text);

#endif
