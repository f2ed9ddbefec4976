/* A text as bytes, in windows. */
#include "runtime/data/reader.h"
#include "runtime/data/windows.h"
#include "runtime/base/structs.h"

static sw_status read_share(sw_dataset **out, const char *path, swi_source *source,
                            swi_windows s, const sw_text_opts *opts)
{
    SW_TRY(swi_dataset_check_count(swi_source_path(source), s.n));
    SW_TRY(swi_dataset_new(out, path, (int64_t)s.n));
    sw_dataset *dataset = *out;
    dataset->n_classes = 256;
    dataset->places = s.places;
    dataset->shapes_only = opts->shapes_only != 0;
    SW_TRY(swi_windows_fields(dataset, SW_U8, opts->context, s.tokens, NULL));
    size_t got = 0;
    if (!dataset->shapes_only)
        SW_TRY(swi_source_read(source, dataset->field[0].data, (size_t)s.tokens, &got));
    if (!dataset->shapes_only && got < s.tokens)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_source_path(source));
    return SW_OK;
}

static sw_status read_source(sw_dataset **part, swi_source *source, const char *path,
                             bool split, const sw_text_opts *opts)
{
    const uint64_t context = (uint64_t)opts->context;
    uint64_t bytes = 0;
    SW_TRY(swi_source_count(source, UINT64_MAX, &bytes));
    SW_TRY(swi_windows_check(swi_source_path(source), bytes, context, split, "text", "byte"));
    SW_TRY(swi_source_rewind(source));
    const uint64_t first = split ? swi_windows_first(bytes) : bytes;
    SW_TRY(read_share(&part[0], path, source, swi_windows_of(first, context, true), opts));
    if (!split)
        return SW_OK;
    return read_share(&part[1], path, source, swi_windows_of(bytes - first, context, false),
                      opts);
}

sw_status sw_dataset_text(sw_dataset **train, sw_dataset **validation, const char *path,
                          const sw_text_opts *given)
{
    sw_text_opts opts;
    sw_dataset *part[2] = {NULL, NULL};
    swi_source *source;
    if (train == NULL || path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_dataset_text: train and path must not be NULL, path not empty");
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_text_opts, &opts, given, "sw_dataset_text"));
    if (opts.context == 0)
        opts.context = SWI_CONTEXT;
    if (opts.context < 1 || opts.context > INT32_MAX)
        SW_FAIL(SW_INVALID, "sw_dataset_text: context must be 1 to %d (got %lld)", INT32_MAX,
                (long long)opts.context);
    SW_TRY(swi_source_open(&source, path, opts.unpack_bytes));
    const sw_status status = read_source(part, source, path, validation != NULL, &opts);
    swi_source_close(source);
    if (status != SW_OK) {
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        return status;
    }
    *train = part[0];
    if (validation != NULL)
        *validation = part[1];
    return SW_OK;
}

/* ---- as a reader ------------------------------------------------------------------------- */

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    const sw_text_opts opts = SW_OPTS(sw_text_opts, .shapes_only = o->shapes_only,
                                      .context = o->context, .unpack_bytes = o->unpack_bytes);
    return sw_dataset_text(train, test, path, &opts);
}

const swi_reader swi_reader_text = {
    .name = "text", .path = "FILE", .about = "for bytes", .both = read_named};
