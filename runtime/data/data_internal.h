/* Shared by the files of runtime/data: the record of a data set, byte sources of its readers,
 * what all readers do alike, and numbers on their way into fields. */
#pragma once

#include "alloc/base/handle.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "runtime/data/documents.h"
#include "runtime/stepwell.h"

#define SWI_MAX_FIELDS 4

/* One field of all samples: sample i begins i * stride bytes after `data`. */
typedef struct {
    sw_dtype dtype;
    sw_shape shape;      /* of one sample */
    size_t sample_bytes; /* of one sample; its numbers lie side by side */
    ptrdiff_t stride;    /* bytes from a sample to the next: sample_bytes but in the memory of
                            callers, where it may be anything */
    unsigned char *data; /* the first sample; NULL where only shapes are known */
    void *block;         /* SW_HEAP_DATASETS; NULL: `data` points into another field's, or to
                            the caller's memory */
    size_t bytes;        /* of the block */
} swi_field;

/* Never changed after it was made, so any number of loaders and threads may read it. */
struct sw_dataset {
    sw_handle handle;
    uint32_t users; /* atomic: the caller and each loader; the last one gives it back */
    int64_t n, n_classes;
    int n_fields;
    bool shapes_only; /* no field has data */
    /* Sample 0 may begin at element 0 to places - 1 of each field, and the others move with it:
     * a shuffled epoch picks one. 1 where samples have borders of their own. */
    uint32_t places;
    swi_field field[SWI_MAX_FIELDS];
    const char **names; /* of the classes, or NULL; SW_HEAP_DATASETS */
    size_t names_bytes; /* of that block: pointers, then what they point to */
    size_t name_bytes;
    char *name;
    swi_documents_info documents;
    int32_t *counts; /* of each row of documents, SW_HEAP_DATASETS; else NULL */
};

/* Where sample i of a field begins, in an epoch with its first sample at element `place`. */
static inline const unsigned char *swi_sample_at(const swi_field *field, size_t i, size_t place)
{
    return field->data + (ptrdiff_t)i * field->stride +
           (place > 0 ? place * sw_dtype_bytes(field->dtype) : 0);
}

/* An empty record: no samples, no fields. */
SW_MUST_USE sw_status swi_dataset_new(sw_dataset **out, const char *name, int64_t n);
/* A loader uses it from here on, or no more. */
void swi_dataset_share(const sw_dataset *dataset);
void swi_dataset_release(const sw_dataset *dataset);
/* Add a field with memory for n samples (zeros), none where shapes_only is set. SW_NOMEM when
 * there is none. */
SW_MUST_USE sw_status swi_dataset_field(sw_dataset *dataset, sw_dtype dtype, sw_shape shape);
/* Name the n_classes classes: `text` has that many words, each ended by a zero byte. Copied. */
SW_MUST_USE sw_status swi_dataset_name_classes(sw_dataset *dataset, const char *text,
                                               size_t bytes);
/* *n_samples of a reader fit a loader's order. */
SW_MUST_USE sw_status swi_dataset_check_count(const char *path, uint64_t n_samples);

/* Does sample i of a file belong to the second part, of which `second` are among the `left`
 * samples from i on? Each choice of as many samples is as likely as any other (Knuth's
 * algorithm S). */
bool swi_split_takes(uint64_t seed, uint64_t i, uint64_t left, uint64_t second);

/* A file read from its beginning, inflated on the way when its name ends in ".gz". Nothing is
 * kept but a fixed window. Errors name the file. */
typedef struct swi_source swi_source;

/* The most that a compressed file may unpack to where the options do not say: more than the
 * data sets of images have, and not so much that a small file surprises anyone. */
#define SWI_UNPACK_BYTES ((size_t)1 << 30)

/* Open PATH, or PATH.gz when that fails. A compressed file that unpacks to more than
 * `unpack_bytes` (0: SWI_UNPACK_BYTES) is SW_NOMEM where that is seen. A pipe is refused: files
 * are read twice. */
SW_MUST_USE sw_status swi_source_open(swi_source **out, const char *path, size_t unpack_bytes);
/* Is it inflated on the way? */
bool swi_source_is_compressed(const swi_source *source);
/* The file says of itself that it has so many bytes in all: SW_NOMEM before they are inflated
 * where that is over the limit. */
SW_MUST_USE sw_status swi_source_expect(const swi_source *source, uint64_t bytes);
void swi_source_close(swi_source *source); /* NULL is fine */
/* Of the file that was opened. */
const char *swi_source_path(const swi_source *source);
/* *got < bytes only at the end. A cut or damaged stream is SW_FORMAT. */
SW_MUST_USE sw_status swi_source_read(swi_source *source, void *to, size_t bytes, size_t *got);
/* Count what is left and pass over it; stops early once more than `limit` bytes were seen. A
 * compressed file is inflated for it, so what it says of itself is never trusted. */
SW_MUST_USE sw_status swi_source_count(swi_source *source, uint64_t limit, uint64_t *left);
/* All of them, or SW_FORMAT: the file was longer when it was counted. */
SW_MUST_USE sw_status swi_source_exactly(swi_source *source, void *to, size_t bytes);
SW_MUST_USE sw_status swi_source_changed(const char *path);
/* Start again at the beginning. */
SW_MUST_USE sw_status swi_source_rewind(swi_source *source);

/* A number as it is written: sign, digits, decimal point, exponent. */
#define SWI_DIGITS 128 /* more than decide any float */
typedef struct {
    bool negative;
    int n_digits;           /* 0: the number is 0 */
    char digit[SWI_DIGITS]; /* '0' to '9', the first not '0' */
    bool more;              /* digits after these, not all 0 */
    int64_t exponent;       /* the value is DIGITS * 10^exponent */
} swi_decimal;
typedef enum { SWI_NUMBER, SWI_NO_NUMBER, SWI_NOT_FINITE } swi_number_kind;

/* Read n bytes that are a number from the first to the last, with a decimal point whatever the
 * locale says. "nan" and "inf" in their spellings are SWI_NOT_FINITE. */
swi_number_kind swi_decimal_read(const char *text, size_t n, swi_decimal *out);
/* The nearest float, ties to even. False where it would be infinite. */
bool swi_decimal_float(const swi_decimal *d, float *out);
/* A whole number of at most 18 digits as text ("-12"), ended by a zero; false: it is not
 * one. */
#define SWI_WHOLE_BYTES 20
bool swi_decimal_whole(const swi_decimal *d, char *text);

/* The call's places, named `what` ("train"), and its path are there; `name` ("path"). */
SW_MUST_USE sw_status swi_reader_check(const char *call, bool there, const char *what,
                                       const char *path, const char *name);
/* Of a call that reads one part: it is "train" or `other`. */
SW_MUST_USE sw_status swi_reader_check_part(const char *call, const char *part,
                                            const char *other);
SW_MUST_USE sw_status swi_reader_check_share(const char *call, double share);
/* n samples (`what`) of a file: *test of them are for testing, a `share` (0: a fifth), at least
 * one; *train are left, at least one. */
SW_MUST_USE sw_status swi_split_sizes(const char *path, const char *what, double share,
                                      int64_t n, int64_t *train, int64_t *test);
/* A reading has ended with `status`: give its parts to the caller, or destroy them. `test`
 * NULL: the caller wants none. Returns `status`. */
sw_status swi_parts_give(sw_status status, sw_dataset *const part[2], sw_dataset **train,
                         sw_dataset **test);
/* Add the field of labels for the data set's number of classes; label one sample of it. */
SW_MUST_USE sw_status swi_labels_field(sw_dataset *dataset);
void swi_labels_put(const sw_dataset *dataset, size_t sample, uint32_t label);
/* A name of a file for swi_reader.name_file: n bytes of `from`, then `end`; "" where that is
 * longer than any path. */
void swi_name_file(char *to, size_t bytes, const char *from, size_t n, const char *end);

size_t swi_number_bytes(sw_number type);
/* Is it written as a whole number? */
bool swi_number_is_whole(sw_number type);

/* How numbers become those of a field. */
typedef struct {
    sw_number from;
    sw_dtype to;
    bool scaled;        /* x * scale + shift */
    float scale, shift; /* of what becomes F32 */
    int64_t low, high;  /* of whole numbers that stay whole */
} swi_take;

/* The type that `from` becomes where no other is asked for: F32 of floats and of what is
 * `scaled`; else U8, U16 or I32, which has the numbers low to high. */
swi_take swi_take_of(sw_number from);
/* 64 bits become the narrowest type that holds 0 to n - 1; others stay as wide as they are. */
sw_dtype swi_ids_type(sw_number from, int64_t n);

/* Take n numbers, from_step bytes apart, to places that are to_step bytes apart; `to` NULL:
 * they are looked at alone. *largest is raised to the largest whole number. Returns how many
 * were taken: less than n before one that is not finite or not low to high. */
size_t swi_take_numbers(const swi_take *take, unsigned char *to, ptrdiff_t to_step,
                        const unsigned char *from, ptrdiff_t from_step, size_t n,
                        int64_t *largest);
/* The reason why a number was not taken: "must be finite (got nan)". */
#define SWI_TAKE_TEXT 100
const char *swi_take_reason(const swi_take *take, const unsigned char *from, char *text);

/* Windows of a row of tokens: a sample is `context` of them, and those that follow each. They
 * overlap in nothing but that, so an epoch has each token once; where the first begins is left
 * open by as much as fits, and a shuffled epoch chooses (loader.c). */

#define SWI_CONTEXT 128 /* where none is given */

/* A part of the row: its tokens, and the windows in it. */
typedef struct {
    uint64_t tokens, n;
    uint32_t places;
} swi_windows;

/* As many windows as fit wherever the first begins, at most a context after the beginning; one
 * in a row that is too short for that. `move` false: as many as fit from the beginning. */
swi_windows swi_windows_of(uint64_t tokens, uint64_t context, bool move);
/* The two fields of a data set: the second is the first, one token later. Both lie at `data`;
 * NULL: in a block of their own, none where shapes_only is set. */
SW_MUST_USE sw_status swi_windows_fields(sw_dataset *dataset, sw_dtype dtype, int64_t context,
                                         uint64_t tokens, const void *data);
