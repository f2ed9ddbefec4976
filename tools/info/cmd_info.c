/* stepwell info: what a checkpoint or a file of parameters has, and whether it is whole. */
#include "alloc/base/sys.h"
#include "tools/info/info.h"
#include "tools/info/info_found.h"
#include <string.h>
#include <sys/stat.h>

static sw_status verify(info_file *info)
{
    for (uint32_t i = 0; i < swi_tensors_count(info->file); i++) {
        const sw_status status =
            swi_tensors_verify_one(info->file, swi_tensors_at(info->file, i));
        if (status != SW_OK && status != SW_FORMAT)
            return status;
        if (status == SW_FORMAT && info->n_damaged++ == 0)
            snprintf(info->damage, sizeof info->damage, "%s", sw_last_error());
    }
    return SW_OK;
}

sw_status info_open(info_file *info, const char *path)
{
    *info = (info_file){0};
    SW_TRY(swi_tensors_open(&info->file, path));
    sw_status status = verify(info);
    if (status == SW_OK && info->n_damaged == 0 && swi_tensors_is_checkpoint(info->file))
        status = swi_run_summary_read(info->file, &info->run);
    if (status != SW_OK)
        info_close(info);
    return status;
}

void info_close(info_file *info)
{
    swi_run_summary_free(&info->run);
    swi_tensors_close(info->file);
    info->file = NULL;
}

const char *info_kind(const info_file *info)
{
    return swi_tensors_is_checkpoint(info->file)   ? "checkpoint"
           : swi_tensors_has_checksums(info->file) ? "parameters"
                                                   : "safetensors";
}

bool info_is_check(const char *key)
{
    return strcmp(key, SWI_OWN_PREFIX "checksums") == 0 ||
           strcmp(key, SWI_OWN_PREFIX "header") == 0;
}

/* A name of ours stands alone, or after the model's name and a slash. */
info_group info_group_of(const char *name)
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

const char *info_group_name(info_group group)
{
    static const char *const names[] = SW_INIT("parameters and buffers", "optimizer", "states",
                                               "gradients", "knobs", "members", "blobs", "run");
    return names[group];
}

const char *info_type(char *to, const swi_tensors_entry *entry)
{
    size_t at = (size_t)snprintf(to, INFO_TYPE_TEXT, "%.20s (", entry->dtype);
    for (int i = 0; i < entry->rank && i < SW_MAX_RANK; i++)
        at += (size_t)snprintf(to + at, INFO_TYPE_TEXT - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)entry->dim[i]);
    snprintf(to + at, INFO_TYPE_TEXT - at, "%s)", entry->rank > SW_MAX_RANK ? ", ..." : "");
    return to;
}

void info_generations(const char *path, info_take_generation *take, void *context)
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
    if (status != SW_OK)
        return cli_library_error(status, false);
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
    if (status != SW_OK)
        return cli_library_error(status, false);
    return cli_finish(damaged ? CLI_DAMAGED : CLI_DONE);
}

static int show(const info_opts *o)
{
    found f;
    struct stat st;
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
         "compare with this file: the first tensor that differs, and where", 0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
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
            "each. The status is 3 where "
            "the file is damaged, foreign or missing; the message names the byte.\n"
            "Known by their first bytes are profiles, memory snapshots of PyTorch, .npy, .npz, "
            "files of torch.save, GGUF, IDX, HDF5, gzip, records of --record, genomes, search "
            "spaces, what runs of evolve, pbt, es and train leave (states and generations, "
            "which are held against their checksums, histories, metrics, logs), pages and "
            "pictures: properties, and what to do with it. "
            "Files of other programs are named, with their format. Of a directory each known "
            "file has a line. With --json such a file "
            "has file, kind, says, bytes, whole (true, or null of what has no checksum), "
            "damage, notes (key, text), tensors (none) and advice.\n"
            "With --diff the status is 0 where tensors and metadata are the same, 1 where "
            "they differ, 3 where a file is damaged. When and by which command a checkpoint "
            "was saved is shown and makes no difference.",
    };
    CLI_TRY(cli_parse(&command, argc, argv));
    if (o.file == NULL)
        return cli_error(CLI_USAGE,
                         "FILE must be given: a checkpoint, or a file of parameters");
    return o.diff != NULL ? compare(&o) : show(&o);
}
