/* Files by their first bytes: what they are, and what can be done with them. Files of other
 * programs are named, and not read. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "profiler/inspect/population/population.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/state/tensor_file.h"
#include "tools/info/info_found.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The report on a file that was recognised, and on the files of a folder. */

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

const char *found_tensors(const swi_tensors *file)
{
    return swi_tensors_is_checkpoint(file)   ? "checkpoint"
           : swi_tensors_has_checksums(file) ? "parameters"
                                             : "safetensors";
}

sw_status found_out(sw_json *j)
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
    return found_out(&j);
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
    kind = found_tensors(tensors);
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
    d->status = sw_heap_reserve(&d->file, SW_HEAP_FILES, &d->cap, d->n + 1);
    if (d->status != SW_OK)
        return false;
    snprintf(d->file[d->n].name, sizeof d->file[d->n].name, "%s", name);
    d->file[d->n].kind = NULL;
    d->n++;
    return true;
}

SW_ORDER(by_name, folder_file, strcmp(x->name, y->name), 0)

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
            status = found_out(&j);
        } else
            print_folder(&d);
    }
    sw_heap_free(d.file, SW_HEAP_FILES, d.cap * sizeof *d.file);
    return status == SW_OK ? cli_finish(code) : cli_library_error(status, true);
}

void found_note(found *f, const char *key, const char *format, ...)
{
    char text[sizeof f->note[0].text];
    va_list list;
    if (f->n_notes == FOUND_NOTES)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    f->note[f->n_notes].key = key;
    sw_utf8_clean(f->note[f->n_notes++].text, sizeof text, text);
}

/* ---- profiles and snapshots -------------------------------------------------------------- */

static void note_text(found *f, const char *key, const char *text)
{
    if (*text != '\0')
        found_note(f, key, "%s", text);
}

static sw_status look_profile(found *f, bool snapshot)
{
    report *r;
    f->kind = snapshot ? "memory_snapshot" : "profile";
    f->says = snapshot ? "a memory snapshot of PyTorch" : "a profile of a run";
    f->advice = "stepwell report FILE shows it, also as a page: --html OUT";
    SW_TRY(report_open(&r, f->path, NULL));
    const report_gate_peak peak = report_highest(r);
    note_text(f, "model", r->model);
    note_text(f, "device", r->device);
    note_text(f, "data", r->data);
    note_text(f, "created", r->created);
    note_text(f, "command", r->command);
    if (r->timeline->batch > 0)
        found_note(f, "batch", "%" PRId64, r->timeline->batch);
    if (!snapshot) {
        if (!r->timeline->no_seed)
            found_note(f, "seed", "%" PRIu64, r->timeline->seed);
        found_note(f, "steps", "%" PRIu64, r->n_steps);
        found_note(f, "evaluations", "%" PRIu64, r->evaluations);
        found_note(f, "ended", "%s", r->file.ended ? r->file.status : "cut");
    }
    if (peak.known)
        found_note(f, peak.measured ? "measured_peak_bytes" : "peak_bytes", "%" PRIu64,
                   peak.bytes);
    if (!snapshot && *peak.in != '\0')
        found_note(f, "peak_program", "%s", peak.in + strlen(" in "));
    if (r->file.damaged_line > 0)
        sw_utf8_clean(f->damage, sizeof f->damage, r->file.damaged_why);
    report_free(r);
    return SW_OK;
}

static sw_status look_population(found *f)
{
    const population_want want = {.all = false};
    population *p;
    f->kind = "population_profile";
    f->says = "a profile of a population";
    f->advice = "stepwell report FILE shows it, also as a page: --html OUT";
    SW_TRY(population_open(&p, f->path, &want));
    found_note(f, "members", "%" PRIu64, p->members);
    found_note(f, "turns", "%" PRIu64, p->seen_turns);
    found_note(f, "ended", "%s", p->file.ended ? p->file.status : "cut");
    if (p->peak_bytes > 0)
        found_note(f, "measured_peak_bytes", "%" PRIu64, p->peak_bytes);
    if (p->file.damaged_line > 0)
        sw_utf8_clean(f->damage, sizeof f->damage, p->file.damaged_why);
    population_free(p);
    return SW_OK;
}

static sw_status look_braces(found *f)
{
    bool is = false;
    SW_TRY(population_is(f->path, &is));
    if (is)
        return look_population(f);
    SW_TRY(snapshot_is(f->path, &is));
    return look_profile(f, is);
}

/* A state is a line that says what it is, then the bytes of its sum. */
static bool is_state(const char *text, size_t n, unsigned long long *id, unsigned *rung)
{
    const char *end = memchr(text, '\n', n);
    unsigned long long sum = 0;
    size_t bytes = 0;
    return end != NULL &&
           sscanf(text,
                  SWI_STATE_HEAD "\"id\":%llu,\"rung\":%u,\"bytes\":%zu,\"sum\":\"0x%llx\"}",
                  id, rung, &bytes, &sum) == 4 &&
           bytes == n - (size_t)(end + 1 - text) && swi_sum_of(end + 1, bytes, 0) == sum;
}

/* Each line of a history has a sum at its end. */
static bool is_history(const char *text, size_t n, unsigned *candidates, unsigned *judged)
{
    static const char rung[] = "{\"what\":\"rung\"";
    for (const char *line = text, *end; line < text + n; line = end + 1) {
        end = memchr(line, '\n', n - (size_t)(line - text));
        if (end == NULL || !swi_line_is_whole(line, (size_t)(end - line) + 1))
            return false;
        *(strncmp(line, rung, sizeof rung - 1) == 0 ? judged : candidates) += line > text;
    }
    return true;
}

static sw_status look_search(found *f)
{
    char *text;
    size_t n;
    unsigned long long id = 0;
    unsigned rung = 0, counts[2] = {0};
    SW_TRY(swi_text_load(&text, &n, f->path, f->says, SIZE_MAX / 2));
    const bool state = strcmp(f->kind, "state") == 0;
    const bool whole =
        state ? is_state(text, n, &id, &rung) : is_history(text, n, &counts[0], &counts[1]);
    sw_text_free(text, n);
    if (!whole)
        SW_FAIL(SW_FORMAT, "%s: %s, and is damaged: its bytes are not those that were written",
                f->path, f->says);
    if (state) {
        found_note(f, "candidate", "%llu", id);
        found_note(f, "rung", "%u", rung);
    } else {
        found_note(f, "candidates", "%u", counts[0]);
        found_note(f, "judged", "%u", counts[1]);
    }
    f->whole = true;
    return SW_OK;
}

/* ---- what has a name alone --------------------------------------------------------------- */

static const char genome[] = "stepwell evolve --help says which options read it",
                  page[] = "a browser shows it",
                  goes_on[] = "stepwell evolve --resume goes on from it",
                  logged[] =
                      "stepwell pbt --replay FILE trains a member along pbt_policy_K.txt",
                  torch[] = "safetensors.torch.save_file(state_dict, FILE) in Python writes "
                            "the tensors as a file that --load-params and info read",
                  arrays[] = "train --data npz:FILE or npy:INPUTS,TARGETS reads it";

/* Blanks count nowhere, and '#' stands for a number. */
static const struct {
    const char *begin, *kind, *says, *advice;
} named[] = {
    {"\x1f\x8b", "gzip", "a file that is compressed by gzip",
     "gunzip it and ask again; data are read as they are (--data)"},
    {"\x89HDF\r\n\x1a\n", "hdf5", "HDF5, which Keras and h5py write",
     "safetensors.numpy.save_file(arrays, FILE) in Python writes arrays as a file that "
     "--load-params and info read"},
    {"GGUF", "gguf", "GGUF, the format of llama.cpp",
     "tensors of F32 can be written as safetensors by the gguf package of Python; "
     "quantised ones are for inference alone"},
    {"\x93NUMPY", "npy", "an array of NumPy's", arrays},
    /* PyTorch before 1.6: a pickled number, then the protocol. */
    {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19", "torch",
     "a file of torch.save, in the form before PyTorch 1.6", torch},
    {"PK\x05\x06", "zip", "an archive (zip)", NULL}, /* an empty one */
    {"swzo 2", "record", "the steps of a training of zeroth order",
     "stepwell train --replay FILE makes them again"},
    {"{\"format\": \"stepwell genome", "genome", "an architecture, as evolve writes them",
     genome},
    {"digraph genome {", "graph", "the graph of an architecture, as DOT text",
     "dot -Tsvg FILE, of Graphviz, draws it"},
    {"{\"format\": \"stepwell search space", "search_space", "a search space of architectures",
     "stepwell evolve --space FILE searches it"},
    {"{\"format\": \"" SWI_HISTORY_FORMAT, "history",
     "the history of a search of architectures", goes_on},
    {SWI_STATE_HEAD, "state", "the state of a candidate of a search", goes_on},
    {"{\"format\": \"stepwell evolution", "generation",
     "a generation of an evolution, which this version does not go on with", NULL},
    {"kind,step,epoch,", "metrics", "metrics of a training", NULL},
    {"kind,generation,mean,", "metrics", "metrics of an evolution strategy", NULL},
    {"member,step,score,", "metrics", "metrics of a population", NULL},
    {"{\"kind\": \"generation\", \"generation\": #", "metrics",
     "metrics of an evolution strategy", NULL},
    {"{\"kind\": \"train\", \"step\": #", "metrics", "metrics of a training", NULL},
    {"{\"member\": #, \"step\": #", "metrics", "metrics of a population", NULL},
    {"[#,#,#,#,{", "pbt_log", "a log of population based training", logged},
    {"<!doctype html>", "html", "a page", page},
    {"<?xml version=\"1.0\" encoding=\"UTF-8\"?><svg", "svg", "a picture", page},
    {"<svg", "svg", "a picture", page},
    {"\x89PNG", "png", "a picture", NULL},
    {"\xff\xd8\xff", "jpeg", "a picture", NULL},
};

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool begins_as(const unsigned char *head, size_t n, const char *begin)
{
    size_t at = 0;
    for (; *begin != '\0'; begin++) {
        if (is_blank((unsigned char)*begin))
            continue;
        while (at < n && is_blank(head[at]))
            at++;
        if (at == n || (*begin == '#' ? head[at] < '0' || head[at] > '9'
                                      : head[at] != (unsigned char)*begin))
            return false;
        at++;
        while (*begin == '#' && at < n && head[at] >= '0' && head[at] <= '9')
            at++;
    }
    return true;
}

static bool look_named(found *f, const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (begins_as(head, n, named[i].begin)) {
            f->kind = named[i].kind;
            f->says = named[i].says;
            f->advice = named[i].advice;
            return true;
        }
    return false;
}

/* ---- all --------------------------------------------------------------------------------- */

#define HEAD 256

/* Archives by the name of their first file, which the head has. */
static void look_zip(found *f, const unsigned char *head)
{
    const char *name = (const char *)head + 30;
    const size_t n = head[26] | (size_t)head[27] << 8;
    f->kind = "zip";
    f->says = "an archive (zip)";
    if (n > 4 && n < HEAD - 30 && memcmp(name + n - 4, ".npy", 4) == 0) {
        f->kind = "npz";
        f->says = "arrays of NumPy's";
        f->advice = arrays;
    } else if (n >= 8 && n < HEAD - 30 && memcmp(name + n - 8, "data.pkl", 8) == 0) {
        f->kind = "torch";
        f->says = "a file of torch.save";
        f->advice = torch;
    }
}

static sw_status look(found *f, const unsigned char *head, size_t n)
{
    const bool braces = n > 2 && head[0] == '{' && (head[1] == '"' || head[1] <= ' ');
    if (n > 8 && head[8] == '{' && head[5] == 0 && head[6] == 0 && head[7] == 0)
        return SW_OK; /* the length of a header, and the header */
    if (memcmp(head, "PK\x03\x04", 4) == 0) {
        look_zip(f, head);
        return SW_OK;
    }
    if (look_named(f, head, n))
        return f->advice == goes_on ? look_search(f) : SW_OK;
    if (n > 4 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] > 0 && head[3] <= 8) {
        f->kind = "idx";
        f->says = "IDX, the format of MNIST";
        f->advice = "train --data idx:FOLDER reads the folder that has it";
        return SW_OK;
    }
    if (n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return look_profile(f, true);
    return braces ? look_braces(f) : SW_OK;
}

sw_status found_look(found *f, const char *path)
{
    unsigned char head[HEAD + 1] = {0};
    sw_file *file;
    size_t got = 0;
    struct stat st;
    *f = (found){.path = path};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return SW_OK; /* the reader of tensors says what it is, and opens a pipe once */
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status = sw_file_size(file, &f->bytes);
    if (status == SW_OK)
        status = sw_file_read(file, head, HEAD, &got);
    if (status == SW_OK)
        status = look(f, head, got);
    sw_file_drop(file);
    return status;
}
