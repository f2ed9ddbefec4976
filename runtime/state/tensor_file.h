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
#ifndef SW_TENSOR_FILE_H
#define SW_TENSOR_FILE_H

#include "alloc/base/sys.h"
#include "runtime/state/ranges.h"

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
 * looked at before anything changes, and bytes for host memory are all there before the first
 * is written. Names of the file that the list does not have are an error, unless `more`. On
 * failure nothing has changed, but models on a device may be damaged where a file that was
 * readable is not any more. `who` names the model in messages. */
SW_MUST_USE sw_status swi_tensors_load(swi_tensors *file, const swi_tensor_list *list,
                                       bool more, const char *who);

#endif
