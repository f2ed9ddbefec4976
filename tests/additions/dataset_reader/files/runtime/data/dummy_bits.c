/* Dummy: each byte of a file is a sample: its eight bits as features, and its highest bit as
 * the class. Both parts are the whole file. */
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"

enum { MOST = 4096 };

static sw_status make(sw_dataset **out, const char *path, const unsigned char *bytes, size_t n,
                      bool shapes_only)
{
    SW_TRY(swi_dataset_new(out, path, (int64_t)n));
    (*out)->n_classes = 2;
    (*out)->shapes_only = shapes_only;
    SW_TRY(swi_dataset_field(*out, SW_F32, (sw_shape){1, {8}}));
    SW_TRY(swi_dataset_field(*out, SW_U8, (sw_shape){0, {0}}));
    float *bits = (float *)(void *)(*out)->field[0].data;
    for (size_t i = 0; !shapes_only && i < 8 * n; i++)
        bits[i] = (float)(bytes[i / 8] >> i % 8 & 1);
    for (size_t i = 0; !shapes_only && i < n; i++)
        (*out)->field[1].data[i] = bytes[i] >> 7;
    return SW_OK;
}

static sw_status both(sw_dataset **train, sw_dataset **test, const char *path,
                      const swi_reader_opts *opts)
{
    unsigned char bytes[MOST];
    swi_source *source;
    size_t n = 0;
    SW_TRY(swi_source_open(&source, path, opts->unpack_bytes));
    sw_status status = swi_source_read(source, bytes, sizeof bytes, &n);
    swi_source_close(source);
    sw_dataset *part[2] = {NULL, NULL};
    for (int i = 0; i < 2 && status == SW_OK; i++)
        status = make(&part[i], path, bytes, n, opts->shapes_only);
    if (status != SW_OK) {
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        return status;
    }
    *train = part[0];
    *test = part[1];
    return SW_OK;
}

const swi_reader swi_reader_dummy_bits = {
    .name = "dummy_bits", .path = "FILE", .about = "for the bits of bytes", .both = both};
