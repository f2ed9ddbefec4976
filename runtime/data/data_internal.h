/* What the files of runtime/data share: the record of a data set, and byte sources of its
 * readers. */
#ifndef SW_DATA_INTERNAL_H
#define SW_DATA_INTERNAL_H

#include "alloc/mem.h"
#include "alloc/sys.h"
#include "runtime/stepwell.h"

#define SWI_MAX_FIELDS 4

/* One field of all samples, contiguous. */
typedef struct {
    sw_dtype dtype;
    sw_shape shape;      /* of one sample */
    size_t sample_bytes; /* of one sample */
    size_t bytes;        /* n * sample_bytes */
    unsigned char *data; /* SW_HEAP_DATASETS */
} swi_field;

/* Never changed after it was made, so any number of loaders and threads may read it. */
struct sw_dataset {
    int64_t n, n_classes;
    int n_fields;
    swi_field field[SWI_MAX_FIELDS];
    size_t name_bytes;
    char name[];
};

/* An empty record: no samples, no fields. */
SW_MUST_USE sw_status swi_dataset_new(sw_dataset **out, const char *name, int64_t n);
/* Add a field with memory for n samples (zeros). SW_NOMEM when there is none. */
SW_MUST_USE sw_status swi_dataset_field(sw_dataset *dataset, sw_dtype dtype, sw_shape shape);

/* A file read from its beginning, inflated on the way when its name ends in ".gz". Nothing is
 * kept but a fixed window. Errors name the file. */
typedef struct swi_source swi_source;

/* Open PATH, or PATH.gz when that fails. */
SW_MUST_USE sw_status swi_source_open(swi_source **out, const char *path);
void swi_source_close(swi_source *source); /* NULL is fine */
/* Of the file that was opened. */
const char *swi_source_path(const swi_source *source);
/* *got < bytes only at the end. A cut or damaged stream is SW_FORMAT. */
SW_MUST_USE sw_status swi_source_read(swi_source *source, void *to, size_t bytes, size_t *got);
/* Count what is left and pass over it; stops early once more than `limit` bytes were seen. A
 * compressed file is inflated for it, so what it says of itself is never trusted. */
SW_MUST_USE sw_status swi_source_count(swi_source *source, uint64_t limit, uint64_t *left);
/* Start again at the beginning. */
SW_MUST_USE sw_status swi_source_rewind(swi_source *source);

/* A gzip stream over an open file, which it borrows. Same rules as above. */
typedef struct swi_gzip swi_gzip;
SW_MUST_USE sw_status swi_gzip_open(swi_gzip **out, sw_file *file);
void swi_gzip_close(swi_gzip *gzip); /* NULL is fine */
SW_MUST_USE sw_status swi_gzip_read(swi_gzip *gzip, void *to, size_t bytes, size_t *got);
SW_MUST_USE sw_status swi_gzip_rewind(swi_gzip *gzip);

#endif
