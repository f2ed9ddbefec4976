/* The part of models that outlives a run, as one list of named tensors: for saving, loading,
 * copying and checkpoints. A list knows where the bytes lie: in models, or in host memory. */
#pragma once

#include "alloc/base/map.h"
#include "alloc/base/sys.h"
#include "runtime/model/model.h"

/* Gives bytes to `take`, in order and in pieces, as often as it is asked. */
typedef sw_status swi_pour_bytes(void *owner, swi_take_piece *take, void *context);

/* A tensor of n_parts parts of part_bytes: those of one entry in models of one layout. With one
 * part the shape is the entry's, with more they stand in front: (parts, dims...). */
typedef struct {
    const char *name; /* UTF-8; in the list's memory */
    swi_role role;
    sw_dtype dtype;
    sw_shape shape;
    size_t part_bytes;
    uint32_t n_parts;
    bool stacked;      /* one part stands in a stack too: (1, dims...) */
    unsigned char *at; /* host memory: part k begins k * stride after it; NULL: in the models */
    size_t stride;
    const size_t *places;    /* with `at`: part k begins places[k] after it; NULL: as above */
    sw_model *const *models; /* part k is in models[k]; borrowed */
    size_t offset;           /* there */
    uint32_t group;       /* of the call of swi_list_models that appended it; SWI_NONE: none */
    swi_pour_bytes *pour; /* where its bytes come from when it is written; NULL: as above */
    void *owner;          /* given to it */
} swi_tensor;

typedef struct {
    swi_tensor *at;
    uint32_t n, cap;
    uint32_t n_groups;
    char **texts; /* blocks that names lie in */
    uint32_t n_texts, cap_texts;
    sw_map names;  /* of the tensors */
} swi_tensor_list; /* begins as zeros */

/* Append the entries of these roles (bit 1 << role) of n models that have one layout, in the
 * model's order, under prefix (or "") and their name: parameters and buffers bare, the others
 * as SWI_OWN_PREFIX and "optimizer/", "state/", "gradient/" before the entry's name, and
 * "knobs". SW_INVALID where a name is no UTF-8, stands in the list already or begins with
 * SWI_OWN_PREFIX, and where several models have an entry of SW_MAX_RANK dims. Knobs lie in the
 * model; a caller who saves the values as they were set gives them by `at`. */
SW_MUST_USE sw_status swi_list_models(swi_tensor_list *list, sw_model *const *models,
                                      uint32_t n, uint32_t roles, const char *prefix);
/* The same of n members with the layout of `shape`, one too in a stack: their bytes are given
 * by `at`. */
SW_MUST_USE sw_status swi_list_stack(swi_tensor_list *list, sw_model *const *shape, uint32_t n,
                                     uint32_t roles, const char *prefix);
/* Append `n` bytes of host memory, borrowed, as a U8 tensor (n) with this name, copied. */
SW_MUST_USE sw_status swi_list_bytes(swi_tensor_list *list, const char *name, const void *bytes,
                                     size_t n);
/* The same of n_parts parts of `n` bytes each, one after the other. */
SW_MUST_USE sw_status swi_list_parts(swi_tensor_list *list, const char *name, const void *bytes,
                                     size_t n, uint32_t n_parts);
/* Where a list ends now; and make it end there again. */
typedef struct {
    uint32_t n, n_groups, n_texts;
} swi_list_mark;
swi_list_mark swi_list_end(const swi_tensor_list *list);
void swi_list_cut(swi_tensor_list *list, swi_list_mark end);
const swi_tensor *swi_list_find(const swi_tensor_list *list, const char *name);
void swi_list_free(swi_tensor_list *list);

static inline bool swi_tensor_stacked(const swi_tensor *tensor)
{
    return tensor->stacked || tensor->n_parts > 1;
}

/* Of a tensor with `at`. */
static inline unsigned char *swi_tensor_part(const swi_tensor *tensor, uint32_t k)
{
    return tensor->at + (tensor->places != NULL ? tensor->places[k] : k * tensor->stride);
}

/* Named tensors in a file: safetensors, which the usual readers open, with checksums in its
 * metadata.
 *
 *   8 bytes   length of the header, little endian
 *   header    JSON: "__metadata__" first, then a line for each tensor
 *   data      without holes
 *
 * The metadata has, beside "format" and what the caller notes,
 *   "stepwell.checksums"   16 hexadecimal digits for each tensor, in the order of the header
 *   "stepwell.header"      16 digits: that of the header itself, with these digits as zeros
 * so that every byte of the file belongs to a checksum. They are compared as bytes. A file
 * whose metadata or tensors have any name that begins with "stepwell." must have all of them
 * and is checked. A file without any is another program's, and is read as it is. */

#define SWI_TENSORS_MARK "stepwell.checkpoint" /* in the metadata: its value is the version */
#define SWI_TENSORS_RUN                                                                        \
    "stepwell.run" /* a tensor that every checkpoint has: the other mark                       \
                    */

/* A line of the metadata; both borrowed, UTF-8. */
typedef struct {
    const char *key, *text;
} swi_tensors_note;

/* Write the tensors of the list into `file`: the widest types first, else in the list's order.
 * Reads all bytes twice: once for the checksums, before the header. */
SW_MUST_USE sw_status swi_tensors_write(sw_file *file, const swi_tensor_list *list,
                                        const swi_tensors_note *notes, uint32_t n_notes);
/* Bytes of such a file. */
SW_MUST_USE sw_status swi_tensors_bytes(const swi_tensor_list *list,
                                        const swi_tensors_note *notes, uint32_t n_notes,
                                        uint64_t *out);

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct swi_tensors swi_tensors; /* an open file */

/* A tensor of a file. */
typedef struct {
    const char *name, *dtype;
    int rank;
    int64_t dim[SW_MAX_RANK];
    uint64_t begin, end; /* in the data */
    uint64_t checksum;   /* with has_checksums */
} swi_tensors_entry;

/* Open and check the header: JSON, no name twice, data without holes or more bytes after
 * them, its checksum. SW_FORMAT names what is wrong; SW_IO where the file is not there; a pipe
 * is refused. Memory: a little more than the header. */
SW_MUST_USE sw_status swi_tensors_open(swi_tensors **out, const char *path);
void swi_tensors_close(swi_tensors *file); /* NULL is fine */
const char *swi_tensors_path(const swi_tensors *file);
uint32_t swi_tensors_count(const swi_tensors *file);
/* In the order of the header, which is that of the data. */
const swi_tensors_entry *swi_tensors_at(const swi_tensors *file, uint32_t i);
const swi_tensors_entry *swi_tensors_find(const swi_tensors *file, const char *name); /* NULL */
bool swi_tensors_has_checksums(const swi_tensors *file);
bool swi_tensors_is_checkpoint(const swi_tensors *file);
/* A text of the metadata, decoded; NULL where there is none. Stays until the file is closed. */
const char *swi_tensors_text(const swi_tensors *file, const char *key);
/* The metadata one by one; false past the last. */
bool swi_tensors_note_at(const swi_tensors *file, uint32_t i, swi_tensors_note *out);
uint64_t swi_tensors_file_bytes(const swi_tensors *file);

/* Read all data once, in pieces of at most 1 MiB, and hold them against the checksums.
 * SW_FORMAT names the first damaged tensor and its range of bytes in the file. SW_OK without
 * checksums. */
SW_MUST_USE sw_status swi_tensors_verify(swi_tensors *file);
/* The same of one tensor. */
SW_MUST_USE sw_status swi_tensors_verify_one(swi_tensors *file, const swi_tensors_entry *entry);
/* Some bytes of a tensor, from byte `at` of it on, which are not checked. */
SW_MUST_USE sw_status swi_tensors_read_part(swi_tensors *file, const swi_tensors_entry *entry,
                                            uint64_t at, void *to, size_t bytes);
/* The bytes of one tensor, checked. */
SW_MUST_USE sw_status swi_tensors_read(swi_tensors *file, const swi_tensors_entry *entry,
                                       void *to, size_t bytes);
/* Into each tensor of the list the file's tensor of that name: type, shape and checksum are
 * looked at before anything changes. Names of the file that the list does not have are an
 * error, unless `more`. On failure nothing has changed: models that are as they were drawn take
 * the data at once and are drawn again; of others in host memory, and of host memory, the data
 * wait in a block until all are there. But other models on a device may be damaged where a file
 * that was readable is not any more. `who` names the model in messages. */
SW_MUST_USE sw_status swi_tensors_load(swi_tensors *file, const swi_tensor_list *list,
                                       bool more, const char *who);

/* The tensor "stepwell.run" of a checkpoint, for those who list it: JSON of one object; members
 * that are not known are passed over. */

typedef struct {
    char name[64], layout[24];
    char optimizers[256];          /* their kinds: "adam,sgd" */
    uint64_t members, state_bytes; /* state_bytes: of groups of members alone */
} swi_run_model;

typedef struct {
    uint64_t epoch, batch_index, batch_rows, samples;
    char seed[24], data[24];
    bool begun, shuffle, keyed, drop_last;
} swi_run_loader;

typedef struct {
    uint64_t version, step, seed;
    char isa[16], device[16];
    swi_run_model *models;
    uint32_t n_models, cap_models;
    swi_run_model *groups; /* of members */
    uint32_t n_groups, cap_groups;
    swi_run_loader *loaders;
    uint32_t n_loaders, cap_loaders;
} swi_run_summary;

/* Of a checkpoint; SW_FORMAT where it is no such text. Texts are cut to their room. */
SW_MUST_USE sw_status swi_run_summary_read(swi_tensors *file, swi_run_summary *out);
void swi_run_summary_free(swi_run_summary *run);
