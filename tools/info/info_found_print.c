/* The report on a file that was recognised, and on the files of a folder. */
#include "alloc/base/mem.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "tools/info/info_found.h"
#include "tools/info/info.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void found_print(const found *f)
{
    char path[1024];
    sw_utf8_clean(path, sizeof path, f->path);
    printf("%s: %s, %s bytes\n", path, f->says, cli_digits(f->bytes).text);
    for (int i = 0; i < f->n_notes; i++)
        printf("  %s: %s\n", f->note[i].key, f->note[i].text);
    if (f->whole)
        puts("  whole: it matches its checksum");
    if (f->advice != NULL) {
        fputs("  ", stdout);
        cli_wrap(stdout, 2, 2, f->advice);
    }
}

static sw_status out(sw_json *j)
{
    sw_json_line(j);
    const sw_status status = j->status;
    if (status == SW_OK)
        (void)fwrite(j->bytes, 1, j->used, stdout); /* cli_finish says whether it arrived */
    sw_json_free(j);
    return status;
}

sw_status found_json(const found *f)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "file", f->path);
    SW_JSON_PUT(&j, f, kind, says, bytes);
    /* Else nothing of it is held against checksums. */
    sw_json_put_known_bool(&j, "whole", f->whole, true);
    sw_json_put_string(&j, "damage", f->damage[0] != '\0' ? f->damage : NULL);
    sw_json_open(&j, "notes", '[');
    for (int i = 0; i < f->n_notes; i++) {
        sw_json_begin(&j, '{');
        SW_JSON_PUT(&j, &f->note[i], key, text);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    sw_json_open(&j, "tensors", '['); /* of files of parameters alone */
    sw_json_end(&j);
    sw_json_put_string(&j, "advice", f->advice);
    sw_json_end(&j);
    return out(&j);
}

/* ---- folders ----------------------------------------------------------------------------- */

#define FOLDER_FILES 1000 /* of more the rest is counted */

typedef struct {
    char name[256];
    const char *kind;
    uint64_t bytes;
} folder_file;

typedef struct {
    const char *path;
    folder_file *file;
    uint32_t n, cap;
    uint64_t more, unknown;
    sw_status status;
} folder;

/* The kind of a file, in a word; NULL: unknown, no file, or damaged. */
static const char *kind_of(const char *path, uint64_t *bytes)
{
    found f;
    swi_tensors *tensors;
    if (found_look(&f, path) != SW_OK)
        return NULL;
    const char *kind = f.kind;
    *bytes = f.bytes;
    if (kind != NULL || swi_tensors_open(&tensors, path) != SW_OK)
        return kind;
    kind = swi_tensors_is_checkpoint(tensors)   ? "checkpoint"
           : swi_tensors_has_checksums(tensors) ? "parameters"
                                                : "safetensors";
    swi_tensors_close(tensors);
    return kind;
}

static bool take(void *context, const char *name)
{
    folder *d = context;
    if (d->n == FOLDER_FILES) {
        d->more++;
        return true;
    }
    d->status = sw_heap_reserve(&d->file, SW_HEAP_FILES, &d->cap, d->n + 1, sizeof *d->file);
    if (d->status != SW_OK)
        return false;
    snprintf(d->file[d->n].name, sizeof d->file[d->n].name, "%s", name);
    d->file[d->n].kind = NULL;
    d->n++;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const folder_file *)a)->name, ((const folder_file *)b)->name);
}

static void print_folder(const folder *d)
{
    char path[1024];
    sw_utf8_clean(path, sizeof path, d->path);
    printf("%s: a directory; info FILE tells more\n", path);
    for (uint32_t i = 0; i < d->n; i++) {
        char name[256];
        if (d->file[i].kind == NULL)
            continue;
        sw_utf8_clean(name, sizeof name, d->file[i].name);
        printf("  %-40s  %-18s %16s bytes\n", name, d->file[i].kind,
               cli_digits(d->file[i].bytes).text);
    }
    if (d->unknown + d->more > 0)
        printf("  and %s more\n", cli_digits(d->unknown + d->more).text);
}

static void look_at_all(folder *d)
{
    for (uint32_t i = 0; i < d->n; i++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/%s", d->path, d->file[i].name);
        if (n > 0 && (size_t)n < sizeof path)
            d->file[i].kind = kind_of(path, &d->file[i].bytes);
        d->unknown += d->file[i].kind == NULL;
    }
}

int found_folder(const char *path, bool json)
{
    folder d = {.path = path};
    sw_status status = sw_folder_for_each(path, take, &d);
    if (status == SW_OK)
        status = d.status;
    int code = CLI_DONE;
    if (status == SW_OK) {
        if (d.n > 0)
            qsort(d.file, d.n, sizeof *d.file, by_name);
        look_at_all(&d);
        if (d.unknown == d.n)
            code = cli_error(CLI_DAMAGED,
                             "%s: is a directory, and no file in it is one that info knows: "
                             "name a file",
                             path);
        else if (json) {
            sw_json j;
            sw_json_growing(&j, SW_HEAP_FILES);
            sw_json_begin(&j, '{');
            sw_json_put_string(&j, "file", d.path);
            sw_json_put_string(&j, "kind", "directory");
            sw_json_open(&j, "files", '[');
            for (uint32_t i = 0; i < d.n; i++) {
                if (d.file[i].kind == NULL)
                    continue;
                sw_json_begin(&j, '{');
                SW_JSON_PUT(&j, &d.file[i], name, kind, bytes);
                sw_json_end(&j);
            }
            sw_json_end(&j);
            sw_json_put_u64(&j, "others", d.unknown + d.more);
            sw_json_end(&j);
            status = out(&j);
        } else
            print_folder(&d);
    }
    sw_heap_free(d.file, SW_HEAP_FILES, d.cap * sizeof *d.file);
    return status == SW_OK ? cli_finish(code) : cli_library_error(status, true);
}
