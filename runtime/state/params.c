/* Parameters and buffers of one model to and from a file of tensors.
 *
 * Saving writes a new file beside PATH, has it synced, and renames it: PATH is the old file or
 * the new one, with the mode that it had. Another kind of PATH is written in place. */
#include "alloc/base/mem.h"
#include "alloc/base/note.h"
#include "alloc/base/sys.h"
#include "runtime/base/checksum.h"
#include "runtime/state/run_summary.h"
#include "runtime/state/tensor_internal.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SAVED_ROLES (1u << SWI_ROLE_PARAMETER | 1u << SWI_ROLE_BUFFER)

/* ---- saving ------------------------------------------------------------------------------ */

typedef struct {
    swi_tensor_list list;
    swi_tensors_note notes[SWI_NOTES];
    uint32_t n_notes;
} saving;

static sw_status write_all(void *context, sw_file *file)
{
    const saving *s = context;
    return swi_tensors_write(file, &s->list, s->notes, s->n_notes);
}

/* A name of another format: sw_model_load would refuse what is written. */
static sw_status check_name(const char *path)
{
    static const char npz[] = ".npz";
    const size_t n = strlen(path), end = sizeof npz - 1;
    if (n >= end && strcasecmp(path + n - end, npz) == 0)
        SW_FAIL(
            SW_UNSUPPORTED,
            "sw_model_save: parameters are saved as safetensors, which sw_model_load reads; "
            "the name must not end in .npz (got '%s')",
            path);
    return SW_OK;
}

static sw_status check_savable(const sw_model *model)
{
    if (!model->ready)
        SW_FAIL(SW_INVALID, "sw_model_save: model %s must be ready: call sw_model_ready first",
                model->name);
    if (model->damaged)
        SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                model->name);
    return SW_OK;
}

static sw_status save(sw_model *model, const char *path)
{
    saving s = {.n_notes = (uint32_t)model->n_notes};
    uint64_t bytes;
    SW_TRY(check_savable(model));
    for (uint32_t i = 0; i < s.n_notes; i++)
        s.notes[i] = (swi_tensors_note){model->notes[i].key, model->notes[i].text};
    sw_status status = swi_list_models(&s.list, &model, 1, SAVED_ROLES, "");
    if (status == SW_OK) /* what cannot be written is said before a file is made */
        status = swi_tensors_bytes(&s.list, s.notes, s.n_notes, &bytes);
    if (status == SW_OK)
        status = sw_file_replace(path, write_all, &s);
    swi_list_free(&s.list);
    return status;
}

sw_status sw_model_save(const sw_model *model, const char *path)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_model_save"));
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_save: path must not be NULL or empty");
    SW_TRY(check_name(path));
    SW_TRY(swi_model_take(model));
    const sw_status status = save((sw_model *)(uintptr_t)model, path); /* it is only read */
    swi_model_give(model);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------- */

/* State that the file does not hold is half written in a damaged model: it begins anew, as
 * sw_model_ready leaves it; knobs are not written by runs. */
static sw_status begin_anew(sw_model *model)
{
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *entry = &model->entries[i];
        if (!(SAVED_ROLES >> entry->role & 1) && entry->role != SWI_ROLE_KNOB)
            SW_TRY(swi_init_entry(model, entry, 0)); /* constants: nothing is drawn */
    }
    return SW_OK;
}

static sw_status not_in_it(const swi_run_summary *run, const char *path, const char *name)
{
    char names[200] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < run->n_models && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "",
                               run->models[i].name);
    SW_FAIL(SW_FORMAT, "%s: a checkpoint without model %s: it has %s%s", path, name, names,
            at >= sizeof names ? "..." : "");
}

/* The prefix of the model's names in a checkpoint: nothing, or its name and a slash where there
 * are several. */
static sw_status find_prefix(swi_tensors *file, const sw_model *model, char *to, size_t bytes)
{
    swi_run_summary run;
    SW_TRY(swi_run_summary_read(file, &run));
    uint32_t i = 0;
    while (i < run.n_models && strcmp(run.models[i].name, model->name) != 0)
        i++;
    const bool several = run.n_models > 1 || (run.n_models == 1 && run.models[0].members > 1);
    const sw_status status = several && i == run.n_models
                                 ? not_in_it(&run, swi_tensors_path(file), model->name)
                                 : SW_OK;
    if (several)
        snprintf(to, bytes, "%s/", model->name);
    swi_run_summary_free(&run);
    return status;
}

static sw_status load_from(sw_model *model, swi_tensors *file)
{
    char prefix[sizeof model->name + 1] = "", who[sizeof model->name + 8];
    swi_tensor_list list = {0};
    const bool damaged = model->damaged, more = swi_tensors_is_checkpoint(file);
    if (more)
        SW_TRY(find_prefix(file, model, prefix, sizeof prefix));
    snprintf(who, sizeof who, "model %s", model->name);
    sw_status status = swi_list_models(&list, &model, 1, SAVED_ROLES, prefix);
    if (status == SW_OK)
        status = swi_tensors_load(file, &list, more, who);
    swi_list_free(&list);
    if (status == SW_OK && damaged)
        status = begin_anew(model);
    if (status == SW_OK)
        model->damaged = false;
    return status;
}

static sw_status load(sw_model *model, const char *path)
{
    if (!model->ready)
        SW_FAIL(SW_INVALID, "sw_model_load: model %s must be ready: call sw_model_ready first",
                model->name);
    swi_tensors *file;
    swi_note_set("%s", "");
    SW_TRY(swi_tensors_open(&file, path));
    const sw_status status = load_from(model, file);
    if (status == SW_OK && swi_tensors_has_checksums(file) && !swi_checksum_there())
        swi_note_set("checksums of %s were not looked at: built without libxxhash", path);
    swi_tensors_close(file);
    return status;
}

sw_status sw_model_load(sw_model *model, const char *path)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_model_load"));
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_load: path must not be NULL or empty");
    SW_TRY(swi_model_take(model));
    const sw_status status = load(model, path);
    swi_model_give(model);
    return status;
}

/* ---- notes ------------------------------------------------------------------------------- */

sw_status sw_params_note(const char *path, const char *key, char *text, size_t bytes)
{
    if (path == NULL || path[0] == '\0' || key == NULL ||
        strlen(key) >= sizeof((swi_note *)NULL)->key || text == NULL || bytes == 0)
        SW_FAIL(SW_INVALID, "sw_params_note: path, key (1 to %zu bytes) and text must be given",
                sizeof((swi_note *)NULL)->key - 1);
    swi_tensors *file;
    SW_TRY(swi_tensors_open(&file, path));
    const char *found = swi_tensors_text(file, key);
    snprintf(text, bytes, "%s", found != NULL ? found : "");
    swi_tensors_close(file);
    return SW_OK;
}
