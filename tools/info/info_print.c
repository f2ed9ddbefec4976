/* The output of `stepwell info`. */
#include "profiler/record/utf8.h"
#include "tools/info/info.h"
#include <inttypes.h>
#include <string.h>

#define NAME_BYTES 200
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

void info_print(const info_file *info, const char *path)
{
    static const char *const what[][2] = {{"checkpoint", "a checkpoint"},
                                          {"parameters", "parameters with checksums"},
                                          {"safetensors", "safetensors of another program"}};
    const char *kind = info_kind(info);
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

static void print_generation(void *context, const char *path, uint64_t step, const char *damage)
{
    (void)context;
    if (damage[0] != '\0')
        printf("%s: damaged: %s\n", path, damage);
    else
        printf("%s: step %s, whole\n", path, cli_digits(step).text);
}

void info_print_generations(const char *path)
{
    info_generations(path, print_generation, NULL);
}
