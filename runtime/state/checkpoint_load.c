/* Loading: which generation, what it has, and models and loaders that go on from it. */
#include "alloc/base/error.h"
#include "runtime/state/checkpoint_internal.h"
#include <stdio.h>
#include <string.h>

enum { MISSING = 16 }; /* generations in a row that are not there: there are no more */

/* ---- finding ----------------------------------------------------------------------------- */

void swi_checkpoint_forget_found(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_got; i++)
        sw_heap_free(c->got[i], SW_HEAP_FILES, c->got_bytes[i]);
    c->n_got = 0;
    swi_run_summary_free(&c->found_run);
    swi_tensors_close(c->found);
    c->found = NULL;
}

/* Bytes of an entry of the found file, ours until it is forgotten. */
static sw_status get(sw_checkpoint *c, swi_tensors *file, const swi_tensors_entry *entry,
                     void **out)
{
    const size_t bytes = (size_t)(entry->end - entry->begin);
    void *got = c->got, *sizes = c->got_bytes, *block;
    SW_TRY(sw_heap_reserve(&got, SW_HEAP_FILES, &c->cap_got, c->n_got + 1, sizeof *c->got));
    c->got = got;
    SW_TRY(sw_heap_reserve(&sizes, SW_HEAP_FILES, &c->cap_got_bytes, c->n_got + 1,
                           sizeof *c->got_bytes));
    c->got_bytes = sizes;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    const sw_status status = swi_tensors_read(file, entry, block, bytes);
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_FILES, bytes);
        return status;
    }
    c->got[c->n_got] = block;
    c->got_bytes[c->n_got++] = bytes;
    *out = block;
    return SW_OK;
}

/* Open one generation and read all of it. */
static sw_status try_file(sw_checkpoint *c, const char *path)
{
    swi_tensors *file;
    SW_TRY(swi_tensors_open(&file, path));
    sw_status status = SW_OK;
    if (!swi_tensors_is_checkpoint(file))
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: it has parameters alone, and is no checkpoint", path);
    if (status == SW_OK)
        status = swi_tensors_verify(file);
    if (status == SW_OK)
        status = swi_run_summary_read(file, &c->found_run);
    if (status == SW_OK && c->found_run.version != SWI_RUN_VERSION)
        status = sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                              "%s: it is a checkpoint of version %llu; this library reads %d",
                              path, (unsigned long long)c->found_run.version, SWI_RUN_VERSION);
    if (status != SW_OK) {
        swi_checkpoint_forget_found(c);
        swi_tensors_close(file);
        return status;
    }
    c->found = file;
    return SW_OK;
}

/* The reason in one line after the others. */
static void note_skipped(sw_checkpoint_found *f)
{
    const size_t used = strlen(f->skipped);
    snprintf(f->skipped + used, sizeof f->skipped - used, "%s%s", used > 0 ? "; " : "",
             sw_last_error());
}

static sw_status find(sw_checkpoint *c, const char *path, sw_checkpoint_found *f)
{
    char name[sizeof f->path];
    sw_status first = SW_OK;
    for (int i = 0, missing = 0; i < SWI_GENERATIONS && missing < MISSING; i++) {
        if (!sw_generation_name(name, sizeof name, path, i))
            SW_FAIL(SW_INVALID,
                    "%.100s...: the path of a checkpoint must have at most %zu bytes", path,
                    sizeof name - SWI_GENERATION_DIGITS);
        bool taken = false;
        sw_status status = sw_file_look(name, &taken);
        if (status == SW_OK && !taken) {
            missing++;
            continue;
        }
        missing = 0;
        if (status == SW_OK)
            status = try_file(c, name);
        if (status == SW_OK) {
            f->found = 1;
            f->generation = i;
            snprintf(f->path, sizeof f->path, "%s", name);
            return SW_OK;
        }
        if (status != SW_FORMAT && status != SW_IO)
            return status;
        first = first == SW_OK ? status : first;
        note_skipped(f);
    }
    if (first != SW_OK)
        return sw_error_set(first, __FILE__, __LINE__, "%s", f->skipped);
    return SW_OK;
}

sw_status sw_checkpoint_find(sw_checkpoint *c, const char *path, sw_checkpoint_found *out)
{
    static const char call[] = "sw_checkpoint_find";
    sw_checkpoint_found f = SW_OPTS(sw_checkpoint_found);
    SW_TRY(swi_checkpoint_check(c, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_checkpoint_found, out->size, call));
    const char *from = path != NULL ? path : c->path;
    if (from == NULL || from[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: path must be given, here or in the options", call);
    swi_checkpoint_idle(c);
    swi_checkpoint_forget_found(c);
    SW_TRY(find(c, from, &f));
    if (f.found) {
        f.step = c->found_run.step;
        snprintf(f.isa, sizeof f.isa, "%s", c->found_run.isa);
        snprintf(f.device, sizeof f.device, "%s", c->found_run.device);
        /* The next save must not move a damaged file into the place of the whole one. */
        if (c->path != NULL && strcmp(from, c->path) == 0)
            c->drop_old = f.generation > 0;
    }
    swi_struct_write(SWI_STRUCT_sw_checkpoint_found, out, &f);
    return SW_OK;
}

sw_status sw_checkpoint_get(sw_checkpoint *c, const char *name, const void **bytes, size_t *n)
{
    static const char call[] = "sw_checkpoint_get";
    SW_TRY(swi_checkpoint_check(c, call));
    if (name == NULL || bytes == NULL || n == NULL)
        SW_FAIL(SW_INVALID, "%s: name, bytes and n must not be NULL", call);
    if (c->found == NULL)
        SW_FAIL(SW_INVALID, "%s: call sw_checkpoint_find first; it must find one", call);
    char whole[sizeof SWI_BLOB_PREFIX + SWI_BLOB_NAME];
    const int length = snprintf(whole, sizeof whole, "%s%s", SWI_BLOB_PREFIX, name);
    const swi_tensors_entry *entry =
        length < (int)sizeof whole ? swi_tensors_find(c->found, whole) : NULL;
    void *block = NULL;
    if (entry != NULL)
        SW_TRY(get(c, c->found, entry, &block));
    *bytes = block;
    *n = entry != NULL ? (size_t)(entry->end - entry->begin) : 0;
    return SW_OK;
}

/* ---- loading ----------------------------------------------------------------------------- */

static sw_status check_ready(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_models; i++) {
        if (!c->models[i]->ready)
            SW_FAIL(SW_INVALID,
                    "sw_checkpoint_load: model %s must be ready: call sw_model_ready first",
                    c->models[i]->name);
        SW_TRY(swi_model_is_here(c->models[i], c->exec));
    }
    return SW_OK;
}

/* A knob in a file is a number like any other: it may be one that no knob can have. */
static sw_status check_knobs(const sw_checkpoint *c)
{
    for (uint32_t g = 0; g < c->n_groups; g++) {
        const sw_model *model = c->models[c->groups[g].first];
        for (uint32_t k = 0; k < c->groups[g].n * model->n_knobs; k++) {
            const float value = c->knobs[c->groups[g].knobs_at + k];
            char name[SWI_KNOB_NAME];
            if (swi_knob_can_be(&model->knobs[k % model->n_knobs], value))
                continue;
            swi_knob_name(model, k % model->n_knobs, name, sizeof name);
            SW_FAIL(SW_INVALID, "%s: %s of model %s cannot be %g", swi_tensors_path(c->found),
                    name, model->name, (double)value);
        }
    }
    return SW_OK;
}

static void set_knobs(sw_checkpoint *c)
{
    for (uint32_t g = 0; g < c->n_groups; g++)
        for (uint32_t m = 0; m < c->groups[g].n; m++) {
            sw_model *model = c->models[c->groups[g].first + m];
            const float *from = c->knobs + c->groups[g].knobs_at + (size_t)m * model->n_knobs;
            for (uint32_t k = 0; k < model->n_knobs; k++) {
                model->knobs[k].value = from[k];
                swi_knob_accept(model, k);
            }
            swi_knobs_changed(model);
            model->damaged = false;
        }
}

/* Knobs first, into memory of our own, so that nothing can be refused after the models. */
static sw_status load_knobs(sw_checkpoint *c)
{
    swi_checkpoint_keep_knobs(
        c); /* swi_tensors_load reports those that the file does not have */
    for (uint32_t i = 0; i < c->n_of_models; i++) {
        const swi_tensor *t = &c->list.at[i];
        const swi_tensors_entry *entry = swi_tensors_find(c->found, t->name);
        const size_t bytes = t->part_bytes * t->n_parts;
        if (t->role == SWI_ROLE_KNOB && entry != NULL && entry->end - entry->begin == bytes)
            SW_TRY(swi_tensors_read(c->found, entry, t->at, bytes));
    }
    return check_knobs(c);
}

/* The file's tensors of models must be in the list. */
static sw_status check_names(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < swi_tensors_count(c->found); i++) {
        const char *name = swi_tensors_at(c->found, i)->name;
        if (strcmp(name, SWI_TENSORS_RUN) != 0 &&
            strncmp(name, SWI_BLOB_PREFIX, strlen(SWI_BLOB_PREFIX)) != 0 &&
            swi_list_find(&c->list, name) == NULL)
            SW_FAIL(SW_INVALID, "%s: it has '%s', which the run that goes on has not",
                    swi_tensors_path(c->found), name);
    }
    return SW_OK;
}

static sw_status seek(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        const swi_run_loader *l = &c->found_run.loaders[i];
        if (l->begun)
            SW_TRY(sw_loader_seek(c->loaders[i], l->epoch, (int64_t)l->batch_index));
    }
    return SW_OK;
}

static sw_status load(sw_checkpoint *c)
{
    char who[80];
    SW_TRY(check_ready(c));
    SW_TRY(swi_stacks_check(c, "sw_checkpoint_load"));
    SW_TRY(swi_run_record_check(c));
    swi_list_cut(&c->list, c->models_end);
    swi_checkpoint_aim(c, false);
    SW_TRY(check_names(c));
    SW_TRY(load_knobs(c));
    SW_TRY(swi_stacks_look(c));
    snprintf(who, sizeof who, "%s%s", c->n_models > 0 ? "model " : "the run",
             c->n_models > 0 ? c->models[0]->name : "");
    SW_TRY(swi_tensors_load(c->found, &c->list, true, who));
    set_knobs(c);
    swi_stacks_write(c);
    return seek(c);
}

sw_status sw_checkpoint_load(sw_checkpoint *c)
{
    static const char call[] = "sw_checkpoint_load";
    SW_TRY(swi_checkpoint_check(c, call));
    if (c->found == NULL)
        SW_FAIL(SW_INVALID, "%s: call sw_checkpoint_find first; it must find one", call);
    swi_checkpoint_give_up(c);
    SW_TRY(swi_checkpoint_take_models(c));
    const sw_status status = load(c);
    swi_checkpoint_give_models(c);
    return status;
}
