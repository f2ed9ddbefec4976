/* stepwell info: what a checkpoint or a file of parameters has, and whether it is whole. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "kernels/halves.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "runtime/state/tensor_file.h"
#include "tools/info/info_found.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* The kind of a tensor, by its name; in the order of the list. */
typedef enum {
    INFO_PARAMETERS,
    INFO_OPTIMIZER,
    INFO_STATES,
    INFO_GRADIENTS,
    INFO_KNOBS,
    INFO_MEMBERS, /* seeds and progress of members, bytes of callbacks */
    INFO_BLOBS,
    INFO_RUN,
    INFO_GROUPS
} info_group;

/* An open file; `damage` says what is wrong with its data, or is "". */
typedef struct {
    swi_tensors *file;
    swi_run_summary run; /* of a checkpoint */
    uint32_t n_damaged;  /* tensors */
    char damage[600];    /* of the first */
} info_file;

/* "F32 (3, 4)"; returns `to`. */
#define INFO_TYPE_TEXT 240

#define NAME_BYTES 200

static void info_close(info_file *info)
{
    swi_run_summary_free(&info->run);
    swi_tensors_close(info->file);
    info->file = NULL;
}

static sw_status info_open(info_file *info, const char *path)
{
    *info = (info_file){0};
    SW_TRY(swi_tensors_open(&info->file, path));
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < swi_tensors_count(info->file) && status == SW_OK; i++) {
        status = swi_tensors_verify_one(info->file, swi_tensors_at(info->file, i));
        if (status != SW_FORMAT)
            continue;
        status = SW_OK;
        if (info->n_damaged++ == 0)
            snprintf(info->damage, sizeof info->damage, "%s", sw_last_error());
    }
    if (status == SW_OK && info->n_damaged == 0 && swi_tensors_is_checkpoint(info->file))
        status = swi_run_summary_read(info->file, &info->run);
    if (status != SW_OK)
        info_close(info);
    return status;
}

/* Is it a note of the file's own checks, which the list of notes passes over? */
static bool info_is_check(const char *key)
{
    return strcmp(key, SWI_OWN_PREFIX "checksums") == 0 ||
           strcmp(key, SWI_OWN_PREFIX "header") == 0;
}

/* A name of ours stands alone, or after the model's name and a slash. */
static info_group info_group_of(const char *name)
{
    static const struct {
        const char *begins;
        info_group group;
    } groups[] = {{"optimizer/", INFO_OPTIMIZER}, {"state/", INFO_STATES},
                  {"gradient/", INFO_GRADIENTS},  {"knobs", INFO_KNOBS},
                  {"members", INFO_MEMBERS},      {"bytes", INFO_MEMBERS},
                  {"blob/", INFO_BLOBS},          {"run", INFO_RUN}};
    const char *own = strstr(name, SWI_OWN_PREFIX);
    if (own == NULL || (own != name && own[-1] != '/'))
        return INFO_PARAMETERS;
    own += strlen(SWI_OWN_PREFIX);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(own, groups[i].begins, strlen(groups[i].begins)) == 0)
            return groups[i].group;
    return INFO_PARAMETERS;
}

static const char *info_group_name(info_group group)
{
    static const char *const names[] = SW_INIT("parameters and buffers", "optimizer", "states",
                                               "gradients", "knobs", "members", "blobs", "run");
    return names[group];
}

static const char *info_type(char *to, const swi_tensors_entry *entry)
{
    size_t at = (size_t)snprintf(to, INFO_TYPE_TEXT, "%.20s (", entry->dtype);
    for (int i = 0; i < entry->rank && i < SW_MAX_RANK; i++)
        at += (size_t)snprintf(to + at, INFO_TYPE_TEXT - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)entry->dim[i]);
    snprintf(to + at, INFO_TYPE_TEXT - at, "%s)", entry->rank > SW_MAX_RANK ? ", ..." : "");
    return to;
}

static void info_generations(const char *path,
                             void (*take)(void *context, const char *path, uint64_t step,
                                          const char *damage),
                             void *context)
{
    char name[4096];
    for (int i = 1, missing = 0; i < 1000 && missing < 16; i++) {
        info_file info;
        bool taken = false;
        if (!sw_generation_name(name, sizeof name, path, i))
            return;
        const sw_status looked = sw_file_look(name, &taken);
        if (looked == SW_OK && !taken) {
            missing++;
            continue;
        }
        missing = 0;
        if (looked != SW_OK || info_open(&info, name) != SW_OK) {
            take(context, name, 0, sw_last_error());
            continue;
        }
        take(context, name, info.run.step, info.damage);
        info_close(&info);
    }
}

/* ---- info print -------------------------------------------------------------------------- */

/* The output of `stepwell info`. */

#define NAME_COLUMNS 60 /* longer names lose their middle */

static const char *shown(char *to, const char *name)
{
    sw_utf8_clean(to, NAME_BYTES, name);
    return to;
}

static int widest(const info_file *info)
{
    size_t width = 0;
    for (uint32_t i = 0; i < swi_tensors_count(info->file); i++) {
        const size_t n = strlen(swi_tensors_at(info->file, i)->name);
        width = n > width ? n : width;
    }
    return (int)(width < NAME_COLUMNS ? width : NAME_COLUMNS);
}

static void print_group(const info_file *info, info_group group, int width)
{
    uint64_t bytes = 0, n = 0;
    for (uint32_t i = 0; i < swi_tensors_count(info->file); i++) {
        const swi_tensors_entry *entry = swi_tensors_at(info->file, i);
        if (info_group_of(entry->name) == group) {
            bytes += entry->end - entry->begin;
            n++;
        }
    }
    if (n == 0)
        return;
    printf("%s: %s tensor%s, %s\n", info_group_name(group), cli_digits(n).text,
           n == 1 ? "" : "s", cli_bytes((size_t)bytes).text);
    for (uint32_t i = 0; i < swi_tensors_count(info->file); i++) {
        const swi_tensors_entry *entry = swi_tensors_at(info->file, i);
        char name[NAME_BYTES], type[INFO_TYPE_TEXT];
        if (info_group_of(entry->name) != group)
            continue;
        shown(name, entry->name);
        fputs("  ", stdout);
        const int left = cli_fitted(stdout, name, strlen(name), width);
        printf("%*s  %-20s %12s bytes\n", left, "", info_type(type, entry),
               cli_digits(entry->end - entry->begin).text);
    }
}

static void print_generation(void *context, const char *path, uint64_t step, const char *damage)
{
    (void)context;
    if (damage[0] != '\0')
        printf("%s: damaged: %s\n", path, damage);
    else
        printf("%s: step %s, whole\n", path, cli_digits(step).text);
}

static void info_print_generations(const char *path)
{
    info_generations(path, print_generation, NULL);
}

static void info_print(const info_file *info, const char *path)
{
    static const char *const what[][2] = {{"checkpoint", "a checkpoint"},
                                          {"parameters", "parameters with checksums"},
                                          {"safetensors", "safetensors of another program"}};
    const char *kind = found_tensors(info->file);
    const char *version = swi_tensors_text(info->file, SWI_TENSORS_MARK);
    for (size_t i = 0; i < sizeof what / sizeof *what; i++)
        if (strcmp(kind, what[i][0]) == 0)
            kind = what[i][1];
    printf("%s: %s%s%s, %s bytes\n", path, kind, version != NULL ? ", version " : "",
           version != NULL ? version : "", cli_digits(swi_tensors_file_bytes(info->file)).text);
    if (info->n_damaged == 0 && swi_tensors_is_checkpoint(info->file)) {
        printf("  step %s, seed %" PRIu64 ", %s, %s\n", cli_digits(info->run.step).text,
               info->run.seed, info->run.isa, info->run.device);
        for (uint32_t k = 0; k < info->run.n_models; k++)
            printf("  model %s, layout %s, %s member%s\n", info->run.models[k].name,
                   info->run.models[k].layout, cli_digits(info->run.models[k].members).text,
                   info->run.models[k].members == 1 ? "" : "s");
        for (uint32_t k = 0; k < info->run.n_groups; k++) {
            const swi_run_model *group = &info->run.groups[k];
            printf("  group %s, layout %s, %s member%s", group->name, group->layout,
                   cli_digits(group->members).text, group->members == 1 ? "" : "s");
            if (group->state_bytes > 0)
                printf(", %s bytes of state each", cli_digits(group->state_bytes).text);
            puts("");
        }
        for (uint32_t k = 0; k < info->run.n_loaders; k++) {
            const swi_run_loader *l = &info->run.loaders[k];
            printf("  loader %u: epoch %s, %s batches of %s rows taken\n", k,
                   cli_digits(l->epoch).text, cli_digits(l->batch_index).text,
                   cli_digits(l->batch_rows).text);
            printf("    %s samples, seed %s%s%s, data %s\n", cli_digits(l->samples).text,
                   l->seed, l->shuffle ? ", shuffled" : "",
                   l->drop_last ? ", last batch dropped" : "", l->data);
        }
    }
    swi_tensors_note note;
    for (uint32_t j = 0; swi_tensors_note_at(info->file, j, &note); j++)
        if (!info_is_check(note.key)) {
            char key[NAME_BYTES], lines[400], text[400];
            snprintf(lines, sizeof lines, "%s", note.text);
            for (char *c = strchr(lines, '\n'); c != NULL; c = strchr(c, '\n'))
                *c = ' ';
            sw_utf8_clean(text, sizeof text, lines);
            printf("  %s: %s\n", shown(key, note.key), text);
        }
    const int width = widest(info);
    for (int group = 0; group < INFO_GROUPS; group++)
        print_group(info, (info_group)group, width);
    const uint32_t n = swi_tensors_count(info->file);
    if (info->n_damaged > 0)
        printf("damaged: %u of %u tensors; the first: %s\n", info->n_damaged, n, info->damage);
    else if (!swi_tensors_has_checksums(info->file))
        puts("no checksums: whether it is whole is not known");
    else
        printf("whole: all %u tensors and the header match their checksums\n", n);
    info_print_generations(path);
}

/* ---- info json --------------------------------------------------------------------------- */

/* The object that `stepwell info --json` prints. */

static void put_models(sw_json *j, const char *key, const swi_run_model *models, uint32_t n,
                       bool with_state)
{
    sw_json_open(j, key, '[');
    for (uint32_t i = 0; i < n; i++) {
        sw_json_begin(j, '{');
        SW_JSON_PUT(j, &models[i], name, layout, members);
        if (with_state)
            sw_json_put_u64(j, "state_bytes", models[i].state_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_generation(void *context, const char *path, uint64_t step, const char *damage)
{
    sw_json *j = context;
    const bool whole = damage[0] == '\0';
    sw_json_begin(j, '{');
    sw_json_put_string(j, "file", path);
    sw_json_put_bool(j, "whole", whole);
    sw_json_put_known(j, "step", whole, step);
    sw_json_put_string(j, "damage", whole ? NULL : damage);
    sw_json_end(j);
}

static sw_status info_json(const info_file *info, const char *path)
{
    sw_json json, *j = &json;
    sw_json_growing(j, SW_HEAP_FILES);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "file", path);
    sw_json_put_string(j, "kind", found_tensors(info->file));
    sw_json_put_string(j, "version", swi_tensors_text(info->file, SWI_TENSORS_MARK));
    sw_json_put_u64(j, "bytes", swi_tensors_file_bytes(info->file));
    sw_json_put_known_bool(j, "whole", swi_tensors_has_checksums(info->file),
                           info->n_damaged == 0);
    sw_json_put_u64(j, "damaged_tensors", info->n_damaged);
    sw_json_put_string(j, "damage", info->n_damaged > 0 ? info->damage : NULL);
    if (info->n_damaged == 0 && swi_tensors_is_checkpoint(info->file)) {
        SW_JSON_PUT(j, &info->run, step, seed, isa, device);
        put_models(j, "models", info->run.models, info->run.n_models, false);
        put_models(j, "groups", info->run.groups, info->run.n_groups, true);
        sw_json_open(j, "loaders", '[');
        for (uint32_t i = 0; i < info->run.n_loaders; i++) {
            const swi_run_loader *l = &info->run.loaders[i];
            sw_json_begin(j, '{');
            SW_JSON_PUT(j, l, epoch, batch_index, batch_rows, samples, seed, shuffle, drop_last,
                        data);
            sw_json_end(j);
        }
        sw_json_end(j);
    }
    swi_tensors_note note;
    sw_json_open(j, "metadata", '{');
    for (uint32_t i = 0; swi_tensors_note_at(info->file, i, &note); i++)
        if (!info_is_check(note.key))
            sw_json_put_string(j, note.key, note.text);
    sw_json_end(j);
    const bool sums = swi_tensors_has_checksums(info->file);
    sw_json_open(j, "tensors", '[');
    for (uint32_t m = 0; m < swi_tensors_count(info->file); m++) {
        const swi_tensors_entry *entry = swi_tensors_at(info->file, m);
        char digits[20];
        snprintf(digits, sizeof digits, "%016" PRIx64, entry->checksum);
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", entry->name);
        sw_json_put_string(j, "group", info_group_name(info_group_of(entry->name)));
        sw_json_put_string(j, "type", entry->dtype);
        sw_json_open(j, "shape", '[');
        for (int k = 0; k < entry->rank && k < SW_MAX_RANK; k++)
            sw_json_i64(j, entry->dim[k]);
        sw_json_end(j);
        sw_json_put_u64(j, "bytes", entry->end - entry->begin);
        sw_json_put_string(j, "checksum", sums ? digits : NULL);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_open(j, "generations", '[');
    info_generations(path, put_generation, j);
    sw_json_end(j);
    sw_json_end(j);
    return found_out(j);
}

/* ---- info diff --------------------------------------------------------------------------- */

/* `stepwell info A --diff B`: tensors in the order of A's data, element by element; what only
 * one of them has; then the metadata. */

#define PIECE ((size_t)128 << 10) /* of each file; whole elements */

/* One tensor of both. */
typedef struct {
    uint64_t elements, differing, first; /* the index of the first that differs */
    char a[40], b[40];                   /* its values */
    double largest;                      /* difference; NAN where one of two is no number */
    bool types_differ;
} tensor_diff;

typedef struct {
    const info_file *a, *b;
    unsigned char *block; /* two pieces */
    bool json;
    sw_json *j;
    uint64_t n_differ;              /* tensors in both */
    const swi_tensors_entry *at[2]; /* the first of them */
    tensor_diff first;
} comparing;

static size_t width_of(const char *dtype)
{
    return strcmp(dtype, "F64") == 0                                ? 8
           : strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0 ? 4
           : strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0 ||
                   strcmp(dtype, "U16") == 0
               ? 2
               : 1;
}

static double value_of(const char *dtype, const unsigned char *at)
{
    double f64;
    float f32;
    int32_t i32;
    uint16_t half;
    if (strcmp(dtype, "F64") == 0) {
        memcpy(&f64, at, sizeof f64);
        return f64;
    }
    if (strcmp(dtype, "I32") == 0) {
        memcpy(&i32, at, sizeof i32);
        return i32;
    }
    if (strcmp(dtype, "BF16") == 0) {
        memcpy(&half, at, sizeof half);
        return (double)sw_bf16_widen(half);
    }
    if (strcmp(dtype, "F16") == 0) {
        memcpy(&half, at, sizeof half);
        return (double)sw_f16_widen(half);
    }
    if (strcmp(dtype, "U16") == 0) {
        memcpy(&half, at, sizeof half);
        return half;
    }
    if (strcmp(dtype, "F32") == 0) {
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    }
    return *at; /* bytes of what is not known here, too */
}

static void take_pieces(tensor_diff *d, const char *dtype, uint64_t index,
                        const unsigned char *a, const unsigned char *b, size_t n)
{
    const size_t width = width_of(dtype);
    if (memcmp(a, b, n) == 0)
        return;
    for (size_t i = 0; i + width <= n; i += width, index++) {
        if (memcmp(a + i, b + i, width) == 0)
            continue;
        const double x = value_of(dtype, a + i), y = value_of(dtype, b + i);
        if (d->differing++ == 0) {
            d->first = index;
            snprintf(d->a, sizeof d->a, "%.9g", x);
            snprintf(d->b, sizeof d->b, "%.9g", y);
            if (strcmp(d->a, d->b) == 0) { /* doubles that are near, and NaNs of other bits */
                snprintf(d->a, sizeof d->a, "%.17g", x);
                snprintf(d->b, sizeof d->b, "%.17g", y);
            }
        }
        if (isnan(x) || isnan(y))
            d->largest = (double)NAN;
        else if (fabs(x - y) > d->largest)
            d->largest = fabs(x - y);
    }
}

static bool same_type(const swi_tensors_entry *a, const swi_tensors_entry *b)
{
    return strcmp(a->dtype, b->dtype) == 0 && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0 && a->end - a->begin == b->end - b->begin;
}

static sw_status compare_all(comparing *c)
{
    for (uint32_t i = 0; i < swi_tensors_count(c->a->file); i++) {
        const swi_tensors_entry *a = swi_tensors_at(c->a->file, i);
        const swi_tensors_entry *b = swi_tensors_find(c->b->file, a->name);
        tensor_diff d = {0};
        if (b == NULL)
            continue;
        d.types_differ = !same_type(a, b);
        if (!d.types_differ) {
            const uint64_t all = a->end - a->begin;
            const size_t width = width_of(a->dtype);
            d.elements = all / width;
            for (uint64_t at = 0; at < all; at += PIECE) {
                const size_t n = all - at < PIECE ? (size_t)(all - at) : PIECE;
                SW_TRY(swi_tensors_read_part(c->a->file, a, at, c->block, n));
                SW_TRY(swi_tensors_read_part(c->b->file, b, at, c->block + PIECE, n));
                take_pieces(&d, a->dtype, at / width, c->block, c->block + PIECE, n);
            }
        }
        if ((d.types_differ || d.differing > 0) && c->n_differ++ == 0) {
            c->first = d;
            c->at[0] = a;
            c->at[1] = b;
        }
    }
    return SW_OK;
}

/* ---- what is said ------------------------------------------------------------------------ */

/* Tensors of `one` that the other does not have; how many. */
static uint64_t only_in(const comparing *c, const info_file *one, const info_file *other,
                        const char *key)
{
    uint64_t n = 0;
    if (c->json)
        sw_json_open(c->j, key, '[');
    for (uint32_t i = 0; i < swi_tensors_count(one->file); i++) {
        char name[NAME_BYTES];
        const swi_tensors_entry *entry = swi_tensors_at(one->file, i);
        if (swi_tensors_find(other->file, entry->name) != NULL)
            continue;
        n++;
        if (c->json)
            sw_json_string(c->j, entry->name);
        else
            printf("'%s' is in %s only\n", shown(name, entry->name),
                   swi_tensors_path(one->file));
    }
    if (c->json)
        sw_json_end(c->j);
    return n;
}

/* How many make a difference. */
static uint64_t compare_notes(const comparing *c)
{
    uint64_t n = 0;
    swi_tensors_note note;
    if (c->json)
        sw_json_open(c->j, "metadata", '[');
    for (int side = 0; side < 2; side++) {
        const info_file *mine = side == 0 ? c->a : c->b, *its = side == 0 ? c->b : c->a;
        for (uint32_t i = 0; swi_tensors_note_at(mine->file, i, &note); i++) {
            const char *other = swi_tensors_text(its->file, note.key);
            const bool said = side == 1 && other != NULL; /* by the first side */
            if (info_is_check(note.key) || said ||
                (other != NULL && strcmp(note.text, other) == 0))
                continue;
            /* When a checkpoint was saved, and by what. */
            n += !(strcmp(note.key, SWI_OWN_PREFIX "created") == 0 ||
                   strcmp(note.key, SWI_OWN_PREFIX "command") == 0);
            const char *a = side == 0 ? note.text : other;
            const char *b = side == 0 ? other : note.text;
            char name[NAME_BYTES], one[NAME_BYTES], two[NAME_BYTES];
            if (c->json) {
                sw_json_begin(c->j, '{');
                sw_json_put_string(c->j, "key", note.key);
                sw_json_put_string(c->j, "a", a);
                sw_json_put_string(c->j, "b", b);
                sw_json_end(c->j);
            } else if (a != NULL && b != NULL)
                printf("metadata %s: '%s' and '%s'\n", shown(name, note.key), shown(one, a),
                       shown(two, b));
            else
                printf("metadata %s: '%s' is in %s only\n", shown(name, note.key),
                       shown(one, a != NULL ? a : b),
                       swi_tensors_path(a != NULL ? c->a->file : c->b->file));
        }
    }
    if (c->json)
        sw_json_end(c->j);
    return n;
}

static int say_all(comparing *c)
{
    if (c->json) {
        sw_json_begin(c->j, '{');
        sw_json_put_string(c->j, "a", swi_tensors_path(c->a->file));
        sw_json_put_string(c->j, "b", swi_tensors_path(c->b->file));
        sw_json_put_u64(c->j, "differing_tensors", c->n_differ);
        if (c->n_differ == 0)
            sw_json_put_null(c->j, "first");
    }
    if (c->n_differ > 0 && c->json) {
        const tensor_diff *d = &c->first;
        char a[INFO_TYPE_TEXT], b[INFO_TYPE_TEXT];
        sw_json_open(c->j, "first", '{');
        sw_json_put_string(c->j, "name", c->at[0]->name);
        sw_json_put_string(c->j, "a_type", info_type(a, c->at[0]));
        sw_json_put_string(c->j, "b_type", info_type(b, c->at[1]));
        sw_json_put_known(c->j, "element", !d->types_differ, d->first);
        sw_json_put_string(c->j, "a", d->types_differ ? NULL : d->a);
        sw_json_put_string(c->j, "b", d->types_differ ? NULL : d->b);
        sw_json_put_known(c->j, "elements", !d->types_differ, d->elements);
        sw_json_put_known(c->j, "differing", !d->types_differ, d->differing);
        sw_json_put_known_f64(c->j, "largest", !d->types_differ, d->largest);
        sw_json_end(c->j);
    } else if (c->n_differ > 0) {
        char name[NAME_BYTES], a[INFO_TYPE_TEXT], b[INFO_TYPE_TEXT];
        const tensor_diff *d = &c->first;
        shown(name, c->at[0]->name);
        if (d->types_differ)
            printf("'%s' is %s and %s\n", name, info_type(a, c->at[0]), info_type(b, c->at[1]));
        else
            printf("'%s' differs first at element %s: %s and %s; %s of %s elements differ, the "
                   "largest difference is %.9g\n",
                   name, cli_digits(d->first).text, d->a, d->b, cli_digits(d->differing).text,
                   cli_digits(d->elements).text, d->largest);
        if (c->n_differ > 1)
            printf("%s more tensor%s differ%s\n", cli_digits(c->n_differ - 1).text,
                   c->n_differ == 2 ? "" : "s", c->n_differ == 2 ? "s" : "");
    }
    uint64_t n = c->n_differ;
    n += only_in(c, c->a, c->b, "only_a");
    n += only_in(c, c->b, c->a, "only_b");
    n += compare_notes(c);
    if (c->json) {
        sw_json_put_bool(c->j, "same", n == 0);
        sw_json_end(c->j);
    } else if (n == 0) {
        printf("the same: %u tensors\n", swi_tensors_count(c->a->file));
    }
    return n == 0 ? CLI_DONE : CLI_FAILED;
}

static int info_diff(const info_file *a, const info_file *b, bool json)
{
    sw_json j;
    comparing c = {.a = a, .b = b, .json = json, .j = &j};
    int end = CLI_FAILED;
    CLI_LIBRARY(sw_heap_alloc(&c.block, SW_HEAP_FILES, 2 * PIECE), false);
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_status status = compare_all(&c);
    if (status == SW_OK) {
        end = say_all(&c);
        status = json ? found_out(&j) : SW_OK;
    }
    sw_heap_free(c.block, SW_HEAP_FILES, 2 * PIECE);
    return status == SW_OK ? end : cli_library_error(status, true);
}

/* ---- the command ------------------------------------------------------------------------- */

typedef struct {
    const char *file, *diff;
    bool json;
} info_opts;

/* Another kind of file. */
static int show_found(const info_opts *o, const found *f)
{
    sw_status status = SW_OK;
    if (o->json)
        status = found_json(f);
    else
        found_print(f);
    CLI_LIBRARY(status, false);
    if (f->damage[0] == '\0')
        return cli_finish(CLI_DONE);
    cli_flush();
    return cli_finish(cli_error(CLI_DAMAGED, "%s", f->damage));
}

static int show_tensors(const info_opts *o)
{
    info_file info;
    const sw_status opened = info_open(&info, o->file);
    if (opened != SW_OK) {
        const int status = cli_library_error(opened, true);
        if (!o->json)
            info_print_generations(o->file); /* what to go back to */
        return cli_finish(status);
    }
    sw_status status = SW_OK;
    if (o->json)
        status = info_json(&info, o->file);
    else
        info_print(&info, o->file);
    const bool damaged = info.n_damaged > 0;
    if (damaged)
        (void)cli_error(CLI_DAMAGED, "%s", info.damage);
    info_close(&info);
    CLI_LIBRARY(status, false);
    return cli_finish(damaged ? CLI_DAMAGED : CLI_DONE);
}

static int show(const info_opts *o)
{
    found f;
    struct stat st;
    if (strncmp(o->file, "hf:", 3) == 0) {
        CLI_LIBRARY(found_hf(&f, o->file + 3), true);
        return show_found(o, &f);
    }
    if (stat(o->file, &st) == 0 && S_ISDIR(st.st_mode))
        return found_folder(o->file, o->json);
    CLI_LIBRARY(found_look(&f, o->file), true);
    return f.kind != NULL ? show_found(o, &f) : show_tensors(o);
}

static int compare(const info_opts *o)
{
    info_file a, b = {0};
    CLI_LIBRARY(info_open(&a, o->file), true);
    sw_status status = info_open(&b, o->diff);
    int end = CLI_DAMAGED;
    if (status != SW_OK)
        end = cli_library_error(status, true);
    else if (a.n_damaged + b.n_damaged > 0)
        (void)cli_error(CLI_DAMAGED, "%s", a.n_damaged > 0 ? a.damage : b.damage);
    else
        end = info_diff(&a, &b, o->json);
    if (status == SW_OK)
        info_close(&b);
    info_close(&a);
    return cli_finish(end);
}

int tool_info(int argc, char **argv)
{
    info_opts o = {0};
    const cli_option options[] = {
        {"--diff", "FILE", CLI_WORD, &o.diff, NULL,
         "compare with this file: the first tensor that differs, and where"},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output"},
    };
    const cli_command command = {
        .name = "info",
        .usage = "FILE [options]",
        .about = "Say what a file is and what it has: a checkpoint or a file of parameters, "
                 "and whether it is whole; a profile, a memory snapshot, arrays, models of "
                 "other programs.",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .operand = &o.file,
        .max_operands = 1,
        .notes =
            "Checkpoints and parameters (safetensors) are read whole and checked against their "
            "checksums. Generations of a checkpoint beside it (FILE.1, FILE.2) have a line "
            "each. The status is 3 where the file is damaged, foreign or missing; the message "
            "names the byte.\n"
            "Known by their first bytes are profiles, memory snapshots of PyTorch, .npy, .npz, "
            "files of torch.save, GGUF, IDX, HDF5, gzip, records of --record, genomes, search "
            "spaces, what runs of evolve, pbt, es and train leave (states and generations, "
            "which are held against their checksums, histories, metrics, logs), pages and "
            "pictures: properties, and what to do with it. Files of other programs are named, "
            "with their format. Of a directory each known file has a line. With --json such a "
            "file has file, kind, says, bytes, whole (true, or null of what has no checksum), "
            "damage, notes (key, text), tensors (none) and advice.\n"
            "hf:FOLDER and hf:ORG/NAME, of the hub's cache, are models of transformers (gpt2, "
            "llama, qwen2, qwen3, mistral): what config.json says, and whether the tensors are "
            "those of such a model. Nothing is downloaded.\n"
            "With --diff the status is 0 where tensors and metadata are the same, 1 where they "
            "differ, 3 where a file is damaged. When and by which command a checkpoint was "
            "saved is shown and makes no difference.",
    };
    CLI_TRY(cli_parse(&command, argc, argv));
    if (o.file == NULL)
        return cli_error(CLI_USAGE,
                         "FILE must be given: a checkpoint, or a file of parameters");
    return o.diff != NULL ? compare(&o) : show(&o);
}
