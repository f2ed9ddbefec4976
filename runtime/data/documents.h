/* Documents of ids with the labels that count, packed into rows: what trainings of language
 * models on answers read. A reader of texts adds its documents; `ids:FILE` reads ids. */
#pragma once

#include "profiler/record/json_read.h"
#include "runtime/stepwell.h"

#define SWI_NOT_COUNTED (-100) /* the label of a token that does not count */

/* The result of reading, and how it lies in rows. */
typedef struct {
    int64_t documents, tokens, counted; /* packed; counted: labels in rows */
    int64_t rows, context;              /* context 0: no documents */
    int64_t cut, cut_tokens; /* documents longer than the context, and what they lost */
    int64_t passed_over;     /* documents without a token that counts */
} swi_documents_info;

/* Read a file of JSON, a value in a line, also compressed (at most `unpack_bytes`; 0: a GiB):
 * `each` takes the value of its line, whose number is in->line. Blank lines are passed over. */
typedef sw_status swi_json_line(sw_json_in *in, void *context);
SW_MUST_USE sw_status swi_json_lines(const char *path, size_t unpack_bytes, swi_json_line *each,
                                     void *context);

typedef struct swi_documents swi_documents;
struct swi_reader_opts;

/* None so far. `path` names them in messages, and is copied; documents are cut to `context`
 * tokens, 1 or more; ids are below n_ids (0: any). */
SW_MUST_USE sw_status swi_documents_create(swi_documents **out, const char *path,
                                           int64_t context, int64_t n_ids);
void swi_documents_destroy(swi_documents *documents); /* NULL is fine */
/* Add one of n tokens, copied: ids, and labels as collators of Hugging Face have them (label t
 * belongs to id t, and is predicted at t - 1), or SWI_NOT_COUNTED; NULL: all count. Ids and
 * other labels are 0 to n_ids - 1. On failure nothing is added. */
SW_MUST_USE sw_status swi_documents_add(swi_documents *documents, const int32_t *ids,
                                        const int32_t *labels, int64_t n);
/* Add those of a file: a line of JSON for each, {"input_ids": [...], "labels": [...]}, where
 * labels may be missing and other keys are passed over. */
SW_MUST_USE sw_status swi_documents_read(swi_documents *documents, const char *path,
                                         size_t unpack_bytes);
/* Rows of the context, four fields of I32 (context): ids; labels, of each position the id after
 * it or SWI_NOT_COUNTED; positions, each from the beginning of its document; first, the place
 * in the row where the document begins. The rest of a row is id 0, not counted, and sees
 * itself alone. A document lies in one row. With shapes_only there are no numbers. */
SW_MUST_USE sw_status swi_documents_pack(const swi_documents *documents, bool shapes_only,
                                         sw_dataset **out);

/* Of packed documents; context 0 for other data sets. */
swi_documents_info swi_dataset_documents(const sw_dataset *dataset);
