/* Saving: what is taken at a step, and the thread that writes it. */
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "alloc/base/note.h"
#include "runtime/state/checkpoint_internal.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- taking ------------------------------------------------------------------------------ */

static sw_status check_models(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_models; i++) {
        const sw_model *model = c->models[i];
        if (!model->ready)
            SW_FAIL(SW_INVALID, "sw_checkpoint_take: model %s must be ready", model->name);
        SW_TRY(swi_model_is_here(model, c->exec));
        if (model->damaged)
            SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                    model->name);
        if (!c->no_copy) /* a copy is made where the exec works */
            SW_TRY(swi_model_is_here(model, c->exec));
    }
    return SW_OK;
}

/* The copy is in the order of the exec's own work. Work that another exec has left to do on a
 * model is waited for here, as a run does; and its next run waits for the copy, since the model
 * was last in our hands. */
static sw_status own_models(sw_checkpoint *c)
{
    const uint64_t own = swi_target_of(c->exec)->queue;
    bool elsewhere = false;
    for (uint32_t i = 0; i < c->n_models; i++)
        elsewhere |= c->models[i]->queue != 0 && c->models[i]->queue != own;
    if (elsewhere)
        SW_TRY(swi_snapshot_sync(c->snapshot));
    for (uint32_t i = 0; i < c->n_models; i++)
        c->models[i]->queue = own;
    return SW_OK;
}

static sw_status copy_models(sw_checkpoint *c)
{
    if (c->no_copy)
        return SW_OK;
    SW_TRY(own_models(c));
    for (uint32_t g = 0; g < c->n_groups; g++)
        for (uint32_t m = 0; m < c->groups[g].n; m++) {
            const sw_model *model = c->models[c->groups[g].first + m];
            SW_TRY(swi_snapshot_copy(c->snapshot, c->groups[g].at + m * model->bytes,
                                     model->base, model->bytes));
        }
    SW_TRY(swi_snapshot_end(c->snapshot));
    return swi_stacks_copy(c);
}

/* A note does not name its model. So a checkpoint of several models has no notes. */
static void keep_notes(sw_checkpoint *c)
{
    c->n_notes = c->n_models == 1 ? c->models[0]->n_notes : 0;
    if (c->n_notes > 0)
        memcpy(c->notes, c->models[0]->notes, sizeof c->notes);
}

static sw_status keep_positions(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        swi_loader_state *l = &c->positions[i];
        SW_TRY(sw_handle_check(c->loaders[i], SW_HANDLE_LOADER, "sw_checkpoint_take"));
        l->epoch = 0;
        l->batch = 0;
        l->begun = swi_loader_begun(c->loaders[i]);
        if (l->begun)
            SW_TRY(sw_loader_position(c->loaders[i], &l->epoch, &l->batch));
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

sw_status sw_checkpoint_ready(sw_checkpoint *c)
{
    SW_TRY(swi_checkpoint_check(c, "sw_checkpoint_ready"));
    swi_checkpoint_idle(c);
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
    SW_TRY(keep_positions(c));
    SW_TRY(copy_models(c));
    keep_notes(c);
    swi_checkpoint_keep_knobs(c);
    swi_stacks_read(c);
    c->step = step;
    return SW_OK;
}

static void name_time(char *to, size_t bytes)
{
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(to, bytes, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        to[0] = '\0';
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
    name_time(c->created, sizeof c->created);
    pthread_mutex_lock(&c->mutex);
    c->stage = SWI_CHECKPOINT_TAKEN;
    c->info.copy_ns = sw_clock_ns() - start;
    pthread_mutex_unlock(&c->mutex);
    return SW_OK;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Blobs that are put from now on are for the next save. */
static sw_status keep_blobs(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        swi_blob *b = &c->blobs[i];
        char name[sizeof SWI_BLOB_PREFIX + SWI_BLOB_NAME];
        if (b->n > b->cap_written) {
            void *grown = b->written;
            SW_TRY(sw_heap_resize(&grown, SW_HEAP_FILES, b->cap_written, b->n));
            b->written = grown;
            b->cap_written = b->n;
        }
        if (b->n > 0)
            memcpy(b->written, b->bytes, b->n);
        b->n_written = b->n;
        snprintf(name, sizeof name, "%s%s", SWI_BLOB_PREFIX, b->name);
        SW_TRY(swi_list_bytes(&c->list, name, b->written, b->n_written));
    }
    return SW_OK;
}

/* The list is complete, and each of its tensors knows where its bytes are. */
static sw_status prepare(sw_checkpoint *c)
{
    if (c->no_copy)
        SW_TRY(swi_stacks_check(c, "sw_checkpoint_write"));
    swi_list_cut(&c->list, c->models_end);
    SW_TRY(swi_run_record_write(c));
    SW_TRY(swi_list_bytes(&c->list, SWI_TENSORS_RUN, c->record, c->record_bytes));
    SW_TRY(keep_blobs(c));
    swi_checkpoint_aim(c, !c->no_copy);
    return SW_OK;
}

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
    sw_call call = {
        .name = "a save",
        .callback = "`before`",
        .uses = SW_CALL_ONE(c),
        .keeps = {SW_CALL_ONE(c->exec), {(const void *const *)c->models, c->n_models}}};
    SW_TRY(sw_call_begin(&call, SW_FRAME));
    return sw_call_end(&call, c->before(c->user));
}

static sw_status save(sw_checkpoint *c)
{
    const sw_replace_opts opts = {.write = write_file,
                                  .before = c->before != NULL ? call_before : NULL,
                                  .context = c,
                                  .keep = c->keep,
                                  .drop_old = c->drop_old};
    if (c->snapshot != NULL)
        SW_TRY(swi_snapshot_wait(c->snapshot));
    SW_TRY(swi_stacks_wait(c));
    return sw_file_replace_with(c->path, &opts);
}

/* Save, and say how it ended. */
static void save_and_tell(sw_checkpoint *c)
{
    const uint64_t start = sw_clock_ns();
    const sw_status status = save(c);
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

static sw_status write_now(sw_checkpoint *c)
{
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
    SW_TRY(prepare(c));
    if (c->no_copy)
        return write_now(c);
    pthread_mutex_lock(&c->mutex);
    c->stage = SWI_CHECKPOINT_WRITING;
    c->info.busy = 1;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return SW_OK;
}

void swi_checkpoint_idle(sw_checkpoint *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->stage == SWI_CHECKPOINT_WRITING)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

void swi_checkpoint_give_up(sw_checkpoint *c)
{
    swi_checkpoint_idle(c);
    set_stage(c, SWI_CHECKPOINT_IDLE);
}

sw_status sw_checkpoint_wait(sw_checkpoint *c)
{
    char text[sizeof c->info.text];
    SW_TRY(swi_checkpoint_check(c, "sw_checkpoint_wait"));
    swi_checkpoint_idle(c);
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
    swi_checkpoint_idle(c);
    SW_TRY(sw_checkpoint_take(c, step));
    SW_TRY(sw_checkpoint_write(c));
    return sw_checkpoint_wait(c);
}
