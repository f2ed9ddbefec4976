/* Arrays of NumPy in an archive: "FILE" or "FILE:INPUTS,TARGETS". */
#include "runtime/base/file_kind.h"
#include "runtime/data/identify.h"
#include "runtime/data/npy.h"
#include "runtime/data/zip.h"
#include <stdio.h>
#include <string.h>

static const char call[] = "sw_dataset_npz";

enum { TRAIN = SWI_NPY_TRAIN, TEST = SWI_NPY_TEST, PARTS = SWI_NPY_PARTS };

typedef struct {
    swi_zip zip[PARTS]; /* TEST: of test_path */
    swi_zip_member *member[PARTS][2];
    swi_npy_pair *pair;
} archive;

/* ---- names ------------------------------------------------------------------------------- */

/* NAME, or NAME.npy. */
static bool is_named(const swi_zip_file *f, const char *name, size_t n)
{
    if (f->name_bytes < n || memcmp(f->name, name, n) != 0)
        return false;
    return f->name_bytes == n ||
           (f->name_bytes == n + 4 && memcmp(f->name + n, ".npy", 4) == 0);
}

static sw_status find(swi_zip *zip, const char *name, size_t n, swi_zip_file *out, bool *found)
{
    bool more = true;
    *found = false;
    for (zip->at = 0; !*found;) {
        SW_TRY(swi_zip_next(zip, out, &more));
        if (!more)
            break;
        *found = is_named(out, name, n);
    }
    return SW_OK;
}

/* "x_train, y_train": as many as fit, for messages. */
static const char *list_names(swi_zip *zip, char *text, size_t bytes)
{
    swi_zip_file f;
    bool more = true;
    size_t used = 0;
    *text = '\0';
    for (zip->at = 0; used < bytes && swi_zip_next(zip, &f, &more) == SW_OK && more;) {
        const bool npy = f.name_bytes > 4 && memcmp(f.name + f.name_bytes - 4, ".npy", 4) == 0;
        const int n = (int)f.name_bytes - (npy ? 4 : 0);
        for (int i = 0; i < n; i++) /* a message is one line */
            if ((unsigned char)f.name[i] < 0x20 || f.name[i] == 0x7f)
                return text;
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? ", " : "", n,
                                 f.name);
    }
    return text;
}

static sw_status open_array(archive *a, int zip, int p, int field, const swi_zip_file *f,
                            size_t unpack_bytes)
{
    swi_zip_member **m = &a->member[p][field];
    swi_npy *npy = field == 0 ? &a->pair->x[p] : &a->pair->y[p];
    SW_TRY(swi_zip_member_open(m, &a->zip[zip], f, unpack_bytes));
    npy->source =
        (swi_npy_source){.name = swi_zip_member_name(*m), .bytes = f->bytes, .of = *m};
    return SW_OK;
}

static sw_status read_bytes(void *of, void *to, size_t bytes, size_t *got)
{
    return swi_zip_member_read(of, to, bytes, got);
}

static sw_status rewind_bytes(void *of)
{
    return swi_zip_member_rewind(of);
}

/* The arrays "x" and "y" of one archive as a part, without targets where that is NULL; *found
 * false, and nothing open, where one of them is not there. */
static sw_status open_names(archive *a, int zip, int p, const char *const names[2],
                            const size_t n[2], size_t unpack_bytes, bool *found)
{
    swi_zip_file f[2];
    const int fields = names[1] != NULL ? 2 : 1;
    for (int i = 0; i < fields; i++) {
        SW_TRY(find(&a->zip[zip], names[i], n[i], &f[i], found));
        if (!*found)
            return SW_OK;
    }
    for (int i = 0; i < fields; i++) {
        swi_npy *npy = i == 0 ? &a->pair->x[p] : &a->pair->y[p];
        SW_TRY(open_array(a, zip, p, i, &f[i], unpack_bytes));
        npy->source.read = read_bytes;
        npy->source.rewind = rewind_bytes;
        SW_TRY(swi_npy_head(npy));
    }
    a->pair->given[p] = true;
    a->pair->unlabelled[p] = fields == 1;
    return SW_OK;
}

/* ---- paths ------------------------------------------------------------------------------- */

/* Names that archives have without being asked: of training, and for testing. */
static const char *const usual[][4] = {
    {"x_train", "y_train", "x_test", "y_test"},
    {"train_images", "train_labels", "test_images", "test_labels"},
    {"x", "y", NULL, NULL},
    {"arr_0", "arr_1", NULL, NULL},
};

/* The inputs of an archive that has one array. */
static sw_status open_only(archive *a, int zip, int p, size_t unpack_bytes, bool *found)
{
    swi_zip_file first, f;
    bool more;
    *found = false;
    a->zip[zip].at = 0;
    SW_TRY(swi_zip_next(&a->zip[zip], &first, &more));
    if (more)
        SW_TRY(swi_zip_next(&a->zip[zip], &f, found));
    if (!more || *found) {
        *found = false;
        return SW_OK;
    }
    const char *const names[] = {first.name, NULL};
    const size_t n[] = {first.name_bytes, 0};
    return open_names(a, zip, p, names, n, unpack_bytes, found);
}

static sw_status open_usual(archive *a, int zip, int p, const sw_npy_opts *o, bool own_test)
{
    char names[300];
    bool found = false;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !found; i++) {
        const bool of_test = p == TEST && usual[i][2] != NULL;
        const char *const *pair = usual[i] + (of_test ? 2 : 0);
        const size_t n[] = {strlen(pair[0]), strlen(pair[1])};
        SW_TRY(open_names(a, zip, p, pair, n, o->unpack_bytes, &found));
        if (found && own_test && usual[i][2] != NULL) {
            const size_t m[] = {strlen(usual[i][2]), strlen(usual[i][3])};
            bool test;
            SW_TRY(open_names(a, zip, TEST, usual[i] + 2, m, o->unpack_bytes, &test));
        }
    }
    if (!found && o->unlabelled)
        SW_TRY(open_only(a, zip, p, o->unpack_bytes, &found));
    if (!found)
        SW_FAIL(SW_INVALID,
                "%s: which arrays are inputs and targets? Give npz:FILE:INPUTS,TARGETS; there "
                "are: %s",
                sw_file_path(a->zip[zip].file), list_names(&a->zip[zip], names, sizeof names));
    return SW_OK;
}

/* The colon before "INPUTS,TARGETS", or after ".npz" before "INPUTS"; NULL: none, or
 * one of the file's own name. */
static const char *find_names(const char *path)
{
    const char *colon = strrchr(path, ':');
    if (colon == NULL || colon == path || strchr(colon, '/') != NULL)
        return NULL;
    const bool alone = colon - path > 4 && memcmp(colon - 4, ".npz", 4) == 0;
    return alone || strchr(colon, ',') != NULL ? colon : NULL;
}

static sw_status open_named(archive *a, int zip, int p, const char *names, const sw_npy_opts *o)
{
    char there[300];
    const char *comma = strchr(names, ',');
    if (comma == NULL && !o->unlabelled)
        SW_FAIL(SW_INVALID, "%s: two arrays must be named, INPUTS,TARGETS (got '%s')",
                sw_file_path(a->zip[zip].file), names);
    const char *const pair[] = {names, comma != NULL ? comma + 1 : NULL};
    const size_t n[] = {comma != NULL ? (size_t)(comma - names) : strlen(names),
                        comma != NULL ? strlen(comma + 1) : 0};
    bool found;
    SW_TRY(open_names(a, zip, p, pair, n, o->unpack_bytes, &found));
    if (!found)
        SW_FAIL(SW_INVALID, "%s: has no arrays '%s'; there are: %s",
                sw_file_path(a->zip[zip].file), names,
                list_names(&a->zip[zip], there, sizeof there));
    return SW_OK;
}

/* A file of torch.save is an archive too, without arrays. */
static sw_status check_head(const swi_zip *zip)
{
    unsigned char head[SWI_FILE_HEAD];
    size_t got;
    SW_TRY(sw_file_read(zip->file, head, sizeof head, &got));
    const char *is = swi_identify_bytes(head, got);
    if (got >= 22 && memcmp(head, "PK\x03\x04", 4) == 0 &&
        swi_file_kind_of(head, got) != SWI_FILE_TORCH)
        return SW_OK;
    SW_FAIL(SW_FORMAT, "%s: must be an .npz archive; it is %s", sw_file_path(zip->file),
            got == 0     ? "empty"
            : is != NULL ? is
                         : "something else");
}

static sw_status open_path(archive *a, int p, const char *path, const sw_npy_opts *o,
                           bool own_test, char *room)
{
    const char *colon = find_names(path);
    memcpy(room, path, strlen(path) + 1);
    if (colon != NULL)
        room[colon - path] = '\0';
    SW_TRY(swi_zip_open(&a->zip[p], room));
    SW_TRY(check_head(&a->zip[p]));
    SW_TRY(swi_zip_list(&a->zip[p]));
    return colon != NULL ? open_named(a, p, p, colon + 1, o) : open_usual(a, p, p, o, own_test);
}

static sw_status open_all(void *context, swi_npy_pair *pair, const char *path,
                          const sw_npy_opts *o, bool test, char *room)
{
    archive *a = context;
    const bool own_test = test && o->test_path == NULL && !(o->test_share > 0.0);
    a->pair = pair;
    SW_TRY(open_path(a, TRAIN, path, o, own_test, room));
    return o->test_path != NULL ? open_path(a, TEST, o->test_path, o, false, room) : SW_OK;
}

sw_status sw_dataset_npz(sw_dataset **train, sw_dataset **test, const char *path,
                         const sw_npy_opts *opts)
{
    archive a = {.pair = NULL};
    const sw_status status = swi_npy_call(train, test, path, opts, call, open_all, &a);
    for (int i = 0; i < 2 * PARTS; i++)
        swi_zip_member_close(a.member[i / 2][i % 2]);
    for (int p = 0; p < PARTS; p++)
        swi_zip_close(&a.zip[p]);
    return status;
}

/* ---- as a reader ------------------------------------------------------------------------- */

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    const sw_npy_opts opts = swi_npy_opts_of(o);
    return sw_dataset_npz(train, test, path, &opts);
}

static bool name_file(const char *path, int i, char *to, size_t bytes)
{
    const char *colon = find_names(path);
    const size_t n = colon != NULL ? (size_t)(colon - path) : strlen(path);
    if (i > 0)
        return false;
    if (n >= bytes)
        *to = '\0'; /* longer than any path */
    else
        snprintf(to, n + 1, "%s", path);
    return true;
}

const swi_reader swi_reader_npz = {.name = "npz",
                                   .path = "FILE",
                                   .about = "for an archive of NumPy",
                                   .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE,
                                   .name_file = name_file,
                                   .both = read_named};
