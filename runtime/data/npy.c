/* Two .npy files: "INPUTS.npy,TARGETS.npy". */
#include "runtime/data/npy.h"
#include "runtime/data/data_internal.h"
#include <stdio.h>
#include <string.h>

static const char call[] = "sw_dataset_npy";

enum { TRAIN = SWI_NPY_TRAIN, TEST = SWI_NPY_TEST, PARTS = SWI_NPY_PARTS };

typedef struct {
    swi_source *source[PARTS][2];
    swi_npy_pair *pair;
} files;

static sw_status read_bytes(void *of, void *to, size_t bytes, size_t *got)
{
    return swi_source_read(of, to, bytes, got);
}

static sw_status rewind_bytes(void *of)
{
    return swi_source_rewind(of);
}

static sw_status open_array(swi_source **source, swi_npy *npy, const char *path,
                            size_t unpack_bytes)
{
    SW_TRY(swi_source_open(source, path, unpack_bytes));
    npy->source = (swi_npy_source){.name = swi_source_path(*source),
                                   .of = *source,
                                   .read = read_bytes,
                                   .rewind = rewind_bytes};
    SW_TRY(swi_source_count(*source, UINT64_MAX, &npy->source.bytes));
    SW_TRY(swi_source_rewind(*source));
    return swi_npy_head(npy);
}

/* The comma of "a,b"; the one after ".npy" where names have commas too. NULL: none. */
static const char *find_comma(const char *path)
{
    const char *comma = strchr(path, ',');
    if (comma == NULL || strchr(comma + 1, ',') == NULL)
        return comma;
    const char *behind = strstr(path, ".npy,");
    return behind != NULL ? behind + strlen(".npy") : comma;
}

static sw_status open_pair(files *f, int p, const char *path, const sw_npy_opts *o, char *room)
{
    const size_t unpack_bytes = o->unpack_bytes;
    const char *comma = find_comma(path);
    if (comma == NULL && o->unlabelled) {
        f->pair->given[p] = f->pair->unlabelled[p] = true;
        return open_array(&f->source[p][0], &f->pair->x[p], path, unpack_bytes);
    }
    if (comma == NULL || comma == path || comma[1] == '\0')
        SW_FAIL(SW_INVALID,
                "%s: the arrays must be INPUTS.npy,TARGETS.npy, two files with a comma between "
                "them (got '%s')",
                call, path);
    memcpy(room, path, strlen(path) + 1);
    room[comma - path] = '\0';
    SW_TRY(open_array(&f->source[p][0], &f->pair->x[p], room, unpack_bytes));
    SW_TRY(
        open_array(&f->source[p][1], &f->pair->y[p], room + (comma - path) + 1, unpack_bytes));
    f->pair->given[p] = true;
    return SW_OK;
}

static sw_status open_all(void *context, swi_npy_pair *pair, const char *path,
                          const sw_npy_opts *o, bool test, char *room)
{
    files *f = context;
    (void)test;
    f->pair = pair;
    SW_TRY(open_pair(f, TRAIN, path, o, room));
    return o->test_path != NULL ? open_pair(f, TEST, o->test_path, o, room) : SW_OK;
}

sw_status sw_dataset_npy(sw_dataset **train, sw_dataset **test, const char *path,
                         const sw_npy_opts *opts)
{
    files f = {.pair = NULL};
    const sw_status status = swi_npy_call(train, test, path, opts, call, open_all, &f);
    for (int i = 0; i < 2 * PARTS; i++)
        swi_source_close(f.source[i / 2][i % 2]);
    return status;
}

/* ---- as a reader ------------------------------------------------------------------------- */

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    const sw_npy_opts opts = swi_npy_opts_of(o);
    return sw_dataset_npy(train, test, path, &opts);
}

static bool name_file(const char *path, int i, char *to, size_t bytes)
{
    const char *comma = find_comma(path);
    if (i > (comma != NULL))
        return false;
    const char *from = i == 0 ? path : comma + 1;
    const size_t n = i == 0 && comma != NULL ? (size_t)(comma - path) : strlen(from);
    if (n >= bytes)
        *to = '\0'; /* longer than any path */
    else
        snprintf(to, n + 1, "%s", from);
    return true;
}

const swi_reader swi_reader_npy = {.name = "npy",
                                   .path = "INPUTS,TARGETS",
                                   .about = "for two arrays of NumPy",
                                   .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE,
                                   .name_file = name_file,
                                   .both = read_named};
