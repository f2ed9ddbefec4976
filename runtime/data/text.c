/* A text as bytes: a sample is `context` tokens, and the tokens that follow each of them. The
 * windows overlap in nothing but that, so an epoch has each byte once; where the first begins
 * is left open by as much as fits, and a shuffled epoch chooses (loader.c). */
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include "runtime/base/structs.h"
#include <string.h>

#define DEFAULT_CONTEXT 128

/* A part of the text: its bytes, and the windows in it. */
typedef struct {
    uint64_t bytes, n;
    uint32_t places;
} share;

/* As many windows as fit wherever the first begins, at most a context behind the beginning; one
 * in a text that is too short for that. `move` false: as many as fit from the beginning. */
static share windows_of(uint64_t bytes, uint64_t context, bool move)
{
    share s = {.bytes = bytes, .n = (bytes - 1) / context, .places = 1};
    if (move) {
        s.n = bytes / context > 1 ? bytes / context - 1 : 1;
        const uint64_t free = bytes - s.n * context;
        s.places = (uint32_t)(free < context ? free : context);
    }
    return s;
}

static sw_status check_length(const char *path, uint64_t bytes, uint64_t context, bool split)
{
    const uint64_t last = split ? bytes - bytes / 10 * 9 - bytes % 10 * 9 / 10 : bytes;
    if (bytes == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; a text was expected", path);
    if (last <= context)
        SW_FAIL(SW_FORMAT,
                "%s: %llu bytes are too short: %s has %llu, and a context of %llu needs one "
                "byte more than itself; take a smaller context or a longer text",
                path, (unsigned long long)bytes,
                split ? "the last tenth, for validation," : "the text",
                (unsigned long long)last, (unsigned long long)context);
    return SW_OK;
}

/* Both fields lie in one block: the second is the first, one byte later. */
static sw_status make_fields(sw_dataset *dataset, int64_t context, uint64_t bytes)
{
    swi_field tokens = {
        .dtype = SW_U8, .shape = {1, {context}}, .sample_bytes = (size_t)context};
    swi_field following = tokens;
    if (!dataset->shapes_only) {
        SW_TRY(sw_heap_alloc(&tokens.block, SW_HEAP_DATASETS, (size_t)bytes));
        tokens.bytes = (size_t)bytes;
        tokens.data = tokens.block;
        following.data = tokens.data + 1;
    }
    dataset->field[0] = tokens;
    dataset->field[1] = following;
    dataset->n_fields = 2;
    return SW_OK;
}

static sw_status read_share(sw_dataset **out, const char *path, swi_source *source, share s,
                            const sw_text_opts *opts)
{
    SW_TRY(swi_dataset_check_count(swi_source_path(source), s.n));
    SW_TRY(swi_dataset_new(out, path, (int64_t)s.n));
    sw_dataset *dataset = *out;
    dataset->n_classes = 256;
    dataset->places = s.places;
    dataset->shapes_only = opts->shapes_only != 0;
    SW_TRY(make_fields(dataset, opts->context, s.bytes));
    size_t got = 0;
    if (!dataset->shapes_only)
        SW_TRY(swi_source_read(source, dataset->field[0].data, (size_t)s.bytes, &got));
    if (!dataset->shapes_only && got < s.bytes)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_source_path(source));
    return SW_OK;
}

static sw_status read_source(sw_dataset **part, swi_source *source, const char *path,
                             bool split, const sw_text_opts *opts)
{
    const uint64_t context = (uint64_t)opts->context;
    uint64_t bytes = 0;
    SW_TRY(swi_source_count(source, UINT64_MAX, &bytes));
    SW_TRY(check_length(swi_source_path(source), bytes, context, split));
    SW_TRY(swi_source_rewind(source));
    const uint64_t first = split ? bytes / 10 * 9 + bytes % 10 * 9 / 10 : bytes;
    SW_TRY(read_share(&part[0], path, source, windows_of(first, context, true), opts));
    if (!split)
        return SW_OK;
    return read_share(&part[1], path, source, windows_of(bytes - first, context, false), opts);
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
        opts.context = DEFAULT_CONTEXT;
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
    const sw_text_opts opts = {.size = sizeof opts,
                               .shapes_only = o->shapes_only,
                               .context = o->context,
                               .unpack_bytes = o->unpack_bytes};
    return sw_dataset_text(train, test, path, &opts);
}

const swi_reader swi_reader_text = {
    .name = "text", .path = "FILE", .about = "for bytes", .both = read_named};
