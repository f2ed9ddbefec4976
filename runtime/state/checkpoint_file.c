/* Loading: which generation, what it has, and models and loaders that go on from it. */
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "runtime/state/checkpoint_internal.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Saving: what is taken at a step, and the thread that writes it. */

/* ---- taking ------------------------------------------------------------------------------ */

static sw_status check_models(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_models; i++) {
        const sw_model *model = c->models[i];
        if (!model->ready)
            SW_FAIL(SW_INVALID, "sw_checkpoint_take: model %s must be ready", model->name);
        SW_TRY(swi_model_is_here(model, c->exec));
        SW_TRY(swi_model_whole(model));
    }
    return SW_OK;
}

static sw_status take_room(sw_checkpoint *c)
{
    if (c->snapshot == NULL || c->has_room)
        return SW_OK;
    SW_TRY(swi_snapshot_room(c->snapshot));
    SW_TRY(swi_stacks_room(c));
    c->has_room = true;
    return SW_OK;
}

/* Wait for the save that goes on, if one does. */
static void checkpoint_idle(sw_checkpoint *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->stage == SWI_CHECKPOINT_WRITING)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

sw_status sw_checkpoint_ready(sw_checkpoint *c)
{
    SW_TRY(swi_checkpoint_check(c, "sw_checkpoint_ready"));
    checkpoint_idle(c);
    return take_room(c);
}

static sw_status take(sw_checkpoint *c, uint64_t step)
{
    if (c->n_models == 0 && c->n_stacks == 0 && c->n_blobs == 0)
        SW_FAIL(SW_INVALID,
                "sw_checkpoint_take: there are no models, no members and no bytes to save");
    SW_TRY(check_models(c));
    SW_TRY(swi_stacks_check(c, "sw_checkpoint_take"));
    SW_TRY(take_room(c));
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        swi_loader_state *l = &c->positions[i];
        SW_TRY(sw_handle_check(c->loaders[i], SW_HANDLE_LOADER, "sw_checkpoint_take"));
        l->epoch = 0;
        l->batch = 0;
        l->begun = swi_loader_begun(c->loaders[i]);
        if (l->begun)
            SW_TRY(sw_loader_position(c->loaders[i], &l->epoch, &l->batch));
    }

    if (!c->no_copy) {
        /* The copy is in the order of the exec's own work. Work that another exec has left to
         * do on a model is waited for here, as a run does; and its next run waits for the copy,
         * since the model was last in our hands. */
        const uint64_t own = swi_target_of(c->exec)->queue;
        bool elsewhere = false;
        for (uint32_t j = 0; j < c->n_models; j++)
            elsewhere |= c->models[j]->queue != 0 && c->models[j]->queue != own;
        if (elsewhere)
            SW_TRY(swi_snapshot_sync(c->snapshot));
        for (uint32_t j = 0; j < c->n_models; j++)
            c->models[j]->queue = own;

        for (uint32_t g = 0; g < c->n_groups; g++)
            for (uint32_t m = 0; m < c->groups[g].n; m++) {
                const sw_model *model = c->models[c->groups[g].first + m];
                SW_TRY(swi_snapshot_copy(c->snapshot, c->groups[g].at + m * model->bytes,
                                         model->base, model->bytes));
            }
        SW_TRY(swi_snapshot_end(c->snapshot));
        SW_TRY(swi_stacks_copy(c));
    }
    /* A note does not name its model. So a checkpoint of several models has no notes. */
    c->n_notes = c->n_models == 1 ? c->models[0]->n_notes : 0;
    if (c->n_notes > 0)
        memcpy(c->notes, c->models[0]->notes, sizeof c->notes);
    swi_checkpoint_keep_knobs(c);
    swi_stacks_read(c);
    c->step = step;
    return SW_OK;
}

static swi_stage stage_of(sw_checkpoint *c)
{
    pthread_mutex_lock(&c->mutex);
    const swi_stage stage = c->stage;
    pthread_mutex_unlock(&c->mutex);
    return stage;
}

static void set_stage(sw_checkpoint *c, swi_stage stage)
{
    pthread_mutex_lock(&c->mutex);
    c->stage = stage;
    pthread_mutex_unlock(&c->mutex);
}

sw_status sw_checkpoint_take(sw_checkpoint *c, uint64_t step)
{
    static const char call[] = "sw_checkpoint_take";
    SW_TRY(swi_checkpoint_check(c, call));
    if (c->path == NULL)
        SW_FAIL(SW_INVALID, "%s: this checkpoint was made without a path, and saves nothing",
                call);
    if (stage_of(c) == SWI_CHECKPOINT_WRITING)
        SW_FAIL(SW_BUSY, "%s: the save of step %llu is still being written", call,
                (unsigned long long)c->step);
    const uint64_t start = sw_clock_ns();
    set_stage(c, SWI_CHECKPOINT_IDLE); /* what was taken before is given up */
    SW_TRY(swi_checkpoint_take_models(c));
    const sw_status status = take(c, step);
    swi_checkpoint_give_models(c);
    SW_TRY(status);
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(c->created, sizeof c->created, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        c->created[0] = '\0';
    pthread_mutex_lock(&c->mutex);
    c->stage = SWI_CHECKPOINT_TAKEN;
    c->info.copy_ns = sw_clock_ns() - start;
    pthread_mutex_unlock(&c->mutex);
    return SW_OK;
}

/* ---- writing ----------------------------------------------------------------------------- */

static sw_status write_file(void *context, sw_file *file)
{
    sw_checkpoint *c = context;
    swi_tensors_note notes[3 + SWI_NOTES] = {{SWI_TENSORS_MARK, "1"},
                                             {SWI_OWN_PREFIX "created", c->created},
                                             {SWI_OWN_PREFIX "command", c->command}};
    uint32_t n = c->command[0] != '\0' ? 3 : 2;
    for (int i = 0; i < c->n_notes; i++)
        notes[n++] = (swi_tensors_note){c->notes[i].key, c->notes[i].text};
    SW_TRY(swi_tensors_write(file, &c->list, notes, n));
    return sw_file_size(file, &c->file_bytes);
}

static sw_status call_before(void *context)
{
    const sw_checkpoint *c = context;
    sw_call call =
        SW_INIT(.name = "a save", .callback = "`before`", .uses = SW_CALL_ONE(c),
                .keeps = {SW_CALL_ONE(c->exec), {(const void *const *)c->models, c->n_models}});
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    return sw_call_end(&call, c->before(c->user));
}

/* Save, and say how it ended. */
static void save_and_tell(sw_checkpoint *c)
{
    const uint64_t start = sw_clock_ns();
    const sw_replace_opts opts =
        SW_INIT(.write = write_file, .before = c->before != NULL ? call_before : NULL,
                .context = c, .keep = c->keep, .drop_old = c->drop_old);
    sw_status status = c->snapshot != NULL ? swi_snapshot_wait(c->snapshot) : SW_OK;
    if (status == SW_OK)
        status = swi_stacks_wait(c);
    if (status == SW_OK)
        status = sw_file_replace_with(c->path, &opts);
    if (status == SW_OK)
        c->drop_old = false;
    pthread_mutex_lock(&c->mutex);
    sw_checkpoint_info *info = &c->info;
    info->last = status;
    info->write_ns = sw_clock_ns() - start;
    snprintf(info->text, sizeof info->text, "%s",
             status == SW_OK ? sw_last_note() : sw_last_error());
    if (status == SW_OK) {
        info->saved++;
        info->step = c->step;
        info->file_bytes = c->file_bytes;
    } else {
        info->failed++;
    }
    info->busy = 0;
    c->stage = SWI_CHECKPOINT_IDLE;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

void swi_checkpoint_writer(void *checkpoint)
{
    sw_checkpoint *c = checkpoint;
    sw_mem_aside(); /* steps go on meanwhile, and take no memory */
    sw_thread_yield_to_others();
    pthread_mutex_lock(&c->mutex);
    while (c->stage == SWI_CHECKPOINT_WRITING || !c->stop) {
        if (c->stage != SWI_CHECKPOINT_WRITING) {
            pthread_cond_wait(&c->changed, &c->mutex);
            continue;
        }
        pthread_mutex_unlock(&c->mutex);
        save_and_tell(c);
        pthread_mutex_lock(&c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
}

sw_status sw_checkpoint_write(sw_checkpoint *c)
{
    static const char call[] = "sw_checkpoint_write";
    SW_TRY(swi_checkpoint_check(c, call));
    const swi_stage stage = stage_of(c);
    if (stage == SWI_CHECKPOINT_WRITING)
        SW_FAIL(SW_BUSY, "%s: the save of step %llu is still being written", call,
                (unsigned long long)c->step);
    if (stage != SWI_CHECKPOINT_TAKEN)
        SW_FAIL(SW_INVALID, "%s: call sw_checkpoint_take first", call);
    /* The list is complete, and each of its tensors knows where its bytes are. */
    if (c->no_copy)
        SW_TRY(swi_stacks_check(c, "sw_checkpoint_write"));
    swi_list_cut(&c->list, c->models_end);
    SW_TRY(swi_run_record_write(c));
    SW_TRY(swi_list_bytes(&c->list, SWI_TENSORS_RUN, c->record, c->record_bytes));
    /* Blobs that are put from now on are for the next save. */
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        swi_blob *b = &c->blobs[i];
        char name[sizeof SWI_BLOB_PREFIX + SWI_BLOB_NAME];
        snprintf(name, sizeof name, "%s%s", SWI_BLOB_PREFIX, b->name);
        if (b->pour != NULL) {
            SW_TRY(swi_list_bytes(&c->list, name, name, b->n));
            c->list.at[c->list.n - 1].pour = b->pour;
            c->list.at[c->list.n - 1].owner = b->owner;
            continue;
        }
        if (b->n > b->cap_written) {
            SW_TRY(sw_heap_resize(&b->written, SW_HEAP_FILES, b->cap_written, b->n));
            b->cap_written = b->n;
        }
        if (b->n > 0)
            memcpy(b->written, b->bytes, b->n);
        b->n_written = b->n;
        SW_TRY(swi_list_bytes(&c->list, name, b->written, b->n_written));
    }

    swi_checkpoint_aim(c, !c->no_copy);

    if (c->no_copy) {
        SW_TRY(swi_checkpoint_take_models(c));
        sw_status status = check_models(c);
        if (status == SW_OK)
            status = swi_stacks_check(c, "sw_checkpoint_write");
        if (status == SW_OK) {
            swi_checkpoint_keep_knobs(c);
            swi_stacks_read(c);
            save_and_tell(c);
        }
        swi_checkpoint_give_models(c);
        return status == SW_OK ? sw_checkpoint_wait(c) : status;
    }
    pthread_mutex_lock(&c->mutex);
    c->stage = SWI_CHECKPOINT_WRITING;
    c->info.busy = 1;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return SW_OK;
}

void swi_checkpoint_give_up(sw_checkpoint *c)
{
    checkpoint_idle(c);
    set_stage(c, SWI_CHECKPOINT_IDLE);
}

sw_status sw_checkpoint_wait(sw_checkpoint *c)
{
    char text[sizeof c->info.text];
    SW_TRY(swi_checkpoint_check(c, "sw_checkpoint_wait"));
    checkpoint_idle(c);
    pthread_mutex_lock(&c->mutex);
    const sw_status last = c->info.last;
    snprintf(text, sizeof text, "%s", c->info.text);
    pthread_mutex_unlock(&c->mutex);
    if (last == SW_OK)
        swi_note_set("%s", text);
    return last == SW_OK ? SW_OK : sw_error_set(last, __FILE__, __LINE__, "%s", text);
}

sw_status sw_checkpoint_save(sw_checkpoint *c, uint64_t step)
{
    SW_TRY(swi_checkpoint_check(c, "sw_checkpoint_save"));
    checkpoint_idle(c);
    SW_TRY(sw_checkpoint_take(c, step));
    SW_TRY(sw_checkpoint_write(c));
    return sw_checkpoint_wait(c);
}

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
    SW_TRY(sw_heap_reserve(&c->got, SW_HEAP_FILES, &c->cap_got, c->n_got + 1));
    SW_TRY(sw_heap_reserve(&c->got_bytes, SW_HEAP_FILES, &c->cap_got_bytes, c->n_got + 1));
    void *block;
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
        const size_t used = strlen(f->skipped); /* the reason, in one line after the others */
        snprintf(f->skipped + used, sizeof f->skipped - used, "%s%s", used > 0 ? "; " : "",
                 sw_last_error());
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
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_checkpoint_found, out, call));
    const char *from = path != NULL ? path : c->path;
    if (from == NULL || from[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: path must be given, here or in the options", call);
    checkpoint_idle(c);
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

/* NULL: there is none of that name. */
static const swi_tensors_entry *find_blob(const sw_checkpoint *c, const char *name)
{
    char whole[sizeof SWI_BLOB_PREFIX + SWI_BLOB_NAME];
    const int length = snprintf(whole, sizeof whole, "%s%s", SWI_BLOB_PREFIX, name);
    return length < (int)sizeof whole ? swi_tensors_find(c->found, whole) : NULL;
}

size_t swi_checkpoint_has(const sw_checkpoint *c, const char *name)
{
    const swi_tensors_entry *entry = find_blob(c, name);
    return entry != NULL ? (size_t)(entry->end - entry->begin) : 0;
}

sw_status swi_checkpoint_read(sw_checkpoint *c, const char *name, size_t at, void *to, size_t n)
{
    const swi_tensors_entry *entry = find_blob(c, name);
    if (entry == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no '%s'", swi_tensors_path(c->found), name);
    return swi_tensors_read_part(c->found, entry, at, to, n);
}

sw_status sw_checkpoint_get(sw_checkpoint *c, const char *name, const void **bytes, size_t *n)
{
    static const char call[] = "sw_checkpoint_get";
    SW_TRY(swi_checkpoint_check(c, call));
    SW_TRY(swi_given(name != NULL && bytes != NULL && n != NULL, "name, bytes and n", call));
    if (c->found == NULL)
        SW_FAIL(SW_INVALID, "%s: call sw_checkpoint_find first; it must find one", call);
    const swi_tensors_entry *entry = find_blob(c, name);
    void *block = NULL;
    if (entry != NULL)
        SW_TRY(get(c, c->found, entry, &block));
    *bytes = block;
    *n = entry != NULL ? (size_t)(entry->end - entry->begin) : 0;
    return SW_OK;
}

/* ---- loading ----------------------------------------------------------------------------- */

static void set_knobs(sw_checkpoint *c)
{
    for (uint32_t g = 0; g < c->n_groups; g++)
        for (uint32_t m = 0; m < c->groups[g].n; m++) {
            sw_model *model = c->models[c->groups[g].first + m];
            const float *from = c->knobs + c->groups[g].knobs_at + (size_t)m * model->n_knobs;
            swi_knobs_set(model, from, sizeof *from);
            model->damaged = false;
        }
}

static sw_status load(sw_checkpoint *c)
{
    char who[80];
    for (uint32_t i = 0; i < c->n_models; i++) {
        if (!c->models[i]->ready)
            SW_FAIL(SW_INVALID,
                    "sw_checkpoint_load: model %s must be ready: call sw_model_ready first",
                    c->models[i]->name);
        SW_TRY(swi_model_is_here(c->models[i], c->exec));
    }

    SW_TRY(swi_stacks_check(c, "sw_checkpoint_load"));
    SW_TRY(swi_run_record_check(c));
    swi_list_cut(&c->list, c->models_end);
    swi_checkpoint_aim(c, false);
    /* The file's tensors of models must be in the list. */
    for (uint32_t j = 0; j < swi_tensors_count(c->found); j++) {
        const char *name = swi_tensors_at(c->found, j)->name;
        if (strcmp(name, SWI_TENSORS_RUN) != 0 &&
            strncmp(name, SWI_BLOB_PREFIX, strlen(SWI_BLOB_PREFIX)) != 0 &&
            swi_list_find(&c->list, name) == NULL)
            SW_FAIL(SW_INVALID, "%s: it has '%s', which the run that goes on has not",
                    swi_tensors_path(c->found), name);
    }

    /* Knobs first, into memory of our own, so that nothing can be refused after the models. */
    swi_checkpoint_keep_knobs(
        c); /* swi_tensors_load reports those that the file does not have */
    for (uint32_t k = 0; k < c->n_of_models; k++) {
        const swi_tensor *t = &c->list.at[k];
        const swi_tensors_entry *entry = swi_tensors_find(c->found, t->name);
        const size_t bytes = t->part_bytes * t->n_parts;
        if (t->role == SWI_ROLE_KNOB && entry != NULL && entry->end - entry->begin == bytes)
            SW_TRY(swi_tensors_read(c->found, entry, t->at, bytes));
    }
    /* A knob in a file is a number like any other: it may be one that no knob can have. */
    for (uint32_t g = 0; g < c->n_groups; g++) {
        const sw_model *model = c->models[c->groups[g].first];
        for (uint32_t m = 0; m < c->groups[g].n * model->n_knobs; m++) {
            const float value = c->knobs[c->groups[g].knobs_at + m];
            char name[SWI_KNOB_NAME];
            if (swi_knob_can_be(&model->knobs[m % model->n_knobs], value))
                continue;
            swi_knob_name(model, m % model->n_knobs, name, sizeof name);
            SW_FAIL(SW_INVALID, "%s: %s of model %s cannot be %g", swi_tensors_path(c->found),
                    name, model->name, (double)value);
        }
    }

    SW_TRY(swi_stacks_look(c));
    snprintf(who, sizeof who, "%s%s", c->n_models > 0 ? "model " : "the run",
             c->n_models > 0 ? c->models[0]->name : "");
    SW_TRY(swi_tensors_load(c->found, &c->list, true, who));
    set_knobs(c);
    swi_stacks_write(c);
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        const swi_run_loader *l = &c->found_run.loaders[i];
        if (l->begun)
            SW_TRY(sw_loader_seek(c->loaders[i], l->epoch, (int64_t)l->batch_index));
    }
    return SW_OK;
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
