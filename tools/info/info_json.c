/* The object that `stepwell info --json` prints. */
#include "profiler/record/json.h"
#include "tools/info/info.h"
#include <inttypes.h>
#include <string.h>

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

static void put_all(sw_json *j, const info_file *info, const char *path)
{
    sw_json_begin(j, '{');
    sw_json_put_string(j, "file", path);
    sw_json_put_string(j, "kind", info_kind(info));
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
    sw_json_line(j);
}

sw_status info_json(const info_file *info, const char *path)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    put_all(&j, info, path);
    const sw_status status = j.status;
    if (status == SW_OK)
        (void)fwrite(j.bytes, 1, j.used, stdout); /* cli_finish says whether it arrived */
    sw_json_free(&j);
    return status;
}
