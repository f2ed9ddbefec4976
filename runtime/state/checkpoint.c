/* The object of checkpoints: what it is made of, what was put, how saves went. */
#include "alloc/base/assert.h"
#include "alloc/base/note.h"
#include "profiler/record/utf8.h"
#include "runtime/base/checksum.h"
#include "runtime/state/checkpoint_internal.h"
#include <stdio.h>
#include <string.h>

sw_status swi_checkpoint_check(const sw_checkpoint *c, const char *call)
{
    SW_TRY(sw_handle_check(c, SW_HANDLE_CHECKPOINT, call));
    if (c->forks != sw_fork_number())
        SW_FAIL(SW_BUSY,
                "%s: the checkpoint was made before a fork, and belongs to the parent: make "
                "one in the child",
                call);
    return SW_OK;
}

/* ---- models ------------------------------------------------------------------------------ */

sw_status swi_checkpoint_take_models(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_models; i++) {
        sw_status status = sw_handle_check(c->models[i], SW_HANDLE_MODEL, "sw_checkpoint");
        if (status == SW_OK)
            status = swi_model_take(c->models[i]);
        while (status != SW_OK && i > 0)
            swi_model_give(c->models[--i]);
        SW_TRY(status);
    }
    return SW_OK;
}

void swi_checkpoint_give_models(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_models; i++)
        swi_model_give(c->models[i]);
}

void swi_checkpoint_keep_knobs(sw_checkpoint *c)
{
    for (uint32_t g = 0; g < c->n_groups; g++)
        for (uint32_t m = 0; m < c->groups[g].n; m++) {
            const sw_model *model = c->models[c->groups[g].first + m];
            float *to = c->knobs + c->groups[g].knobs_at + (size_t)m * model->n_knobs;
            for (uint32_t k = 0; k < model->n_knobs; k++)
                to[k] = model->knobs[k].value;
        }
}

void swi_checkpoint_aim(sw_checkpoint *c, bool copy)
{
    SW_ASSERT(!copy || c->snapshot != NULL);
    for (uint32_t i = 0; i < c->n_of_models; i++) {
        swi_tensor *t = &c->list.at[i];
        const swi_group *group = &c->groups[t->group];
        const sw_model *model = c->models[group->first];
        if (t->role == SWI_ROLE_KNOB) {
            t->at = (unsigned char *)(c->knobs + group->knobs_at);
            t->stride = model->n_knobs * sizeof *c->knobs;
        } else if (copy) {
            t->at = swi_snapshot_bytes(c->snapshot) + group->at + t->offset;
            t->stride = model->bytes;
        } else {
            t->at = NULL;
        }
    }
    swi_stacks_aim(c, copy);
}

/* ---- making ------------------------------------------------------------------------------ */

/* A path that is no regular file is written in place, and has no generation: it could not
 * promise that a whole checkpoint is there at every moment. */
static sw_status check_path(const char *path, const char *call)
{
    const size_t longest = sizeof((sw_checkpoint_found *)NULL)->path - SWI_GENERATION_DIGITS;
    if (path[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: path must not be empty", call);
    if (strlen(path) > longest)
        SW_FAIL(SW_INVALID,
                "%.100s...: the path of a checkpoint must have at most %zu bytes (got %zu)",
                path, longest, strlen(path));
    if (strcmp(path, "-") == 0 || !sw_file_replaceable(path))
        SW_FAIL(SW_INVALID,
                "%s: a checkpoint must be a regular file, by its own name: this is a link, a "
                "folder, a device or a pipe",
                path);
    return SW_OK;
}

static sw_status read_opts(const sw_checkpoint_opts *given, sw_checkpoint_opts *o)
{
    static const char call[] = "sw_checkpoint_create";
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_checkpoint_opts, o, given, call));
    if (!swi_checksum_there())
        SW_FAIL(SW_UNSUPPORTED, "%s: this library was built without libxxhash", call);
    if (o->path != NULL)
        SW_TRY(check_path(o->path, call));
    if (o->n_models < 0 || (o->n_models > 0 && o->models == NULL))
        SW_FAIL(SW_INVALID, "%s: n_models must be 0 or more (got %d), models not NULL", call,
                o->n_models);
    if (o->keep < 0 || o->keep > SWI_GENERATIONS)
        SW_FAIL(SW_INVALID, "%s: keep must be 1 to %d (got %d)", call, SWI_GENERATIONS,
                o->keep);
    for (int i = 0; i < o->n_models; i++) {
        size_t bytes;
        SW_TRY(sw_handle_check(o->models[i], SW_HANDLE_MODEL, call));
        SW_TRY(sw_model_bytes(o->models[i], &bytes)); /* fixes the layout */
        if (!sw_utf8_whole(o->models[i]->name))
            SW_FAIL(SW_INVALID, "%s: the name of model %d must be UTF-8", call, i);
    }
    return SW_OK;
}

static sw_status copy_bytes(void **out, const void *from, size_t bytes)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_RECORDS, bytes));
    if (bytes > 0)
        memcpy(*out, from, bytes);
    return SW_OK;
}

static sw_status keep_lists(sw_checkpoint *c, const sw_checkpoint_opts *o)
{
    void *block;
    const size_t n_models = (size_t)o->n_models;
    if (o->path != NULL) {
        const size_t bytes = strlen(o->path) + 1;
        SW_TRY(copy_bytes(&block, o->path, bytes));
        c->path = block;
        c->path_bytes = bytes;
    }
    SW_TRY(copy_bytes(&block, o->models, n_models * sizeof *c->models));
    c->models = block;
    c->n_models = (uint32_t)n_models;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, n_models * sizeof *c->groups));
    c->groups = block;
    return SW_OK;
}

/* A model that is there twice could never be taken. */
static sw_status check_once(sw_checkpoint *c)
{
    uint32_t n = 0;
    while (n < c->n_models && swi_model_take(c->models[n]) == SW_OK)
        n++;
    for (uint32_t i = 0; i < n; i++)
        swi_model_give(c->models[i]);
    for (uint32_t i = 0; n < c->n_models && i < n; i++)
        if (c->models[i] == c->models[n])
            SW_FAIL(SW_INVALID, "sw_checkpoint_create: models %u and %u are the same model", i,
                    n);
    return SW_OK; /* one that another thread uses can be given too */
}

/* Models of one name that follow each other are one group. */
static sw_status make_groups(sw_checkpoint *c)
{
    size_t at = 0, knobs = 0;
    for (uint32_t i = 0; i < c->n_models; i++) {
        const sw_model *model = c->models[i];
        swi_group *last = c->n_groups > 0 ? &c->groups[c->n_groups - 1] : NULL;
        const bool joins =
            last != NULL && strcmp(c->models[last->first]->name, model->name) == 0;
        if (joins && c->models[last->first]->layout_hash != model->layout_hash)
            SW_FAIL(SW_INVALID,
                    "sw_checkpoint_create: models %u and %u are both named '%s' and have "
                    "different layouts",
                    last->first, i, model->name);
        if (joins)
            last->n++;
        else
            c->groups[c->n_groups++] = (swi_group){i, 1, at, knobs};
        at += model->bytes;
        knobs += model->n_knobs;
    }
    c->copy_bytes = at;
    c->n_knobs = knobs;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, knobs * sizeof *c->knobs));
    c->knobs = block;
    return SW_OK;
}

static sw_status make_list(sw_checkpoint *c)
{
    const uint32_t all = (1u << SWI_ROLE_COUNT) - 1;
    for (uint32_t g = 0; g < c->n_groups; g++) {
        const swi_group *group = &c->groups[g];
        char prefix[80] = "";
        if (c->n_models > 1)
            snprintf(prefix, sizeof prefix, "%s/", c->models[group->first]->name);
        SW_TRY(swi_list_models(&c->list, c->models + group->first, group->n, all, prefix));
    }
    c->models_end = swi_list_end(&c->list);
    c->n_of_models = c->list.n;
    uint64_t bytes; /* what no file can have is said now, and not at each save */
    return swi_tensors_bytes(&c->list, NULL, 0, &bytes);
}

static sw_status make(sw_checkpoint *c, const sw_checkpoint_opts *o)
{
    c->keep = o->keep > 0 ? o->keep : 2;
    c->no_copy = o->no_copy != 0;
    c->before = o->before;
    c->user = o->user;
    sw_utf8_clean(c->command, sizeof c->command, o->command != NULL ? o->command : "");
    SW_TRY(keep_lists(c, o));
    SW_TRY(check_once(c));
    SW_TRY(make_groups(c));
    SW_TRY(make_list(c));
    swi_note_set("%s", "");
    if (c->path == NULL)
        return SW_OK;
    SW_TRY(sw_file_hold(&c->held, c->path));
    if (c->no_copy)
        return SW_OK;
    SW_TRY(swi_snapshot_create(&c->snapshot, swi_target_of(c->exec), c->copy_bytes));
    return sw_thread_start(&c->thread, swi_checkpoint_writer, c, "sw-checkpoint");
}

static void end_thread(sw_checkpoint *c, bool forked)
{
    if (!forked) {
        pthread_mutex_lock(&c->mutex);
        c->stop = true;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->mutex);
    }
    sw_thread_join(c->thread);
    if (forked) /* nothing waits for the mutex here, and the parent has the name */
        return;
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
}

static void free_blobs(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        sw_heap_free(c->blobs[i].bytes, SW_HEAP_FILES, c->blobs[i].cap);
        sw_heap_free(c->blobs[i].written, SW_HEAP_FILES, c->blobs[i].cap_written);
    }
    sw_heap_free(c->blobs, SW_HEAP_FILES, c->cap_blobs * sizeof *c->blobs);
}

static void end(sw_checkpoint *c)
{
    const bool forked = c->forks != sw_fork_number();
    end_thread(c, forked);
    swi_checkpoint_forget_found(c);
    sw_heap_free(c->got, SW_HEAP_FILES, c->cap_got * sizeof *c->got);
    sw_heap_free(c->got_bytes, SW_HEAP_FILES, c->cap_got_bytes * sizeof *c->got_bytes);
    swi_snapshot_destroy(c->snapshot);
    if (forked)
        sw_file_drop(c->held);
    else
        sw_file_let_go(c->held);
    swi_stacks_end(c);
    free_blobs(c);
    sw_heap_free(c->record, SW_HEAP_FILES, c->record_cap);
    swi_list_free(&c->list);
    sw_heap_free(c->knobs, SW_HEAP_RECORDS, c->n_knobs * sizeof *c->knobs);
    sw_heap_free(c->positions, SW_HEAP_RECORDS, c->cap_positions * sizeof *c->positions);
    sw_heap_free(c->loaders, SW_HEAP_RECORDS, c->cap_loaders * sizeof *c->loaders);
    sw_heap_free(c->groups, SW_HEAP_RECORDS, c->n_models * sizeof *c->groups);
    sw_heap_free(c->models, SW_HEAP_RECORDS, c->n_models * sizeof *c->models);
    sw_heap_free(c->path, SW_HEAP_RECORDS, c->path_bytes);
    sw_handle_give(c, SW_HANDLE_CHECKPOINT, sizeof *c);
}

sw_status sw_checkpoint_create(sw_checkpoint **out, sw_exec *exec,
                               const sw_checkpoint_opts *given)
{
    sw_checkpoint_opts opts;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_checkpoint_create: out must not be NULL");
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_checkpoint_create"));
    SW_TRY(read_opts(given, &opts));
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_CHECKPOINT, sizeof(sw_checkpoint)));
    sw_checkpoint *c = block;
    c->forks = sw_fork_number();
    c->exec = exec;
    c->info.size = sizeof c->info;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    const sw_status status = make(c, &opts);
    if (status != SW_OK) {
        end(c);
        return status;
    }
    *out = c;
    return SW_OK;
}

sw_status sw_checkpoint_loader(sw_checkpoint *c, sw_loader *loader)
{
    static const char call[] = "sw_checkpoint_loader";
    SW_TRY(swi_checkpoint_check(c, call));
    SW_TRY(sw_handle_check(loader, SW_HANDLE_LOADER, call));
    swi_checkpoint_give_up(c);
    void *loaders = c->loaders, *positions = c->positions;
    SW_TRY(sw_heap_reserve(&loaders, SW_HEAP_RECORDS, &c->cap_loaders, c->n_loaders + 1,
                           sizeof *c->loaders));
    c->loaders = loaders;
    SW_TRY(sw_heap_reserve(&positions, SW_HEAP_RECORDS, &c->cap_positions, c->n_loaders + 1,
                           sizeof *c->positions));
    c->positions = positions;
    SW_TRY(swi_loader_identify(loader, &c->positions[c->n_loaders].identity));
    c->loaders[c->n_loaders++] = loader;
    return SW_OK;
}

void sw_checkpoint_destroy(sw_checkpoint *c)
{
    static const char call[] = "sw_checkpoint_destroy";
    if (sw_handle_ends(c, SW_HANDLE_CHECKPOINT, call))
        end(c);
}

size_t sw_checkpoint_bytes(const sw_checkpoint *c)
{
    if (sw_handle_look(c, SW_HANDLE_CHECKPOINT, "sw_checkpoint_bytes") != SW_OK ||
        c->snapshot == NULL)
        return 0;
    size_t bytes = c->copy_bytes;
    for (uint32_t i = 0; i < c->n_stacks; i++)
        bytes += c->stacks[i].copy_bytes;
    return bytes;
}

/* ---- blobs ------------------------------------------------------------------------------- */

static sw_status check_blob_name(const char *name, const char *call)
{
    static const char may[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t n = name != NULL ? strlen(name) : 0;
    if (n < 1 || n >= SWI_BLOB_NAME || strspn(name, may) != n)
        SW_FAIL(SW_INVALID,
                "%s: a name must have 1 to %d letters, digits, '.', '_' or '-' (got '%s')",
                call, SWI_BLOB_NAME - 1, name != NULL ? name : "");
    return SW_OK;
}

static sw_status blob_of(sw_checkpoint *c, const char *name, swi_blob **out)
{
    for (uint32_t i = 0; i < c->n_blobs; i++)
        if (strcmp(c->blobs[i].name, name) == 0) {
            *out = &c->blobs[i];
            return SW_OK;
        }
    void *blobs = c->blobs;
    SW_TRY(sw_heap_reserve(&blobs, SW_HEAP_FILES, &c->cap_blobs, c->n_blobs + 1,
                           sizeof *c->blobs));
    c->blobs = blobs;
    *out = &c->blobs[c->n_blobs++];
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return SW_OK;
}

sw_status sw_checkpoint_put(sw_checkpoint *c, const char *name, const void *bytes, size_t n)
{
    static const char call[] = "sw_checkpoint_put";
    swi_blob *blob;
    SW_TRY(swi_checkpoint_check(c, call));
    SW_TRY(check_blob_name(name, call));
    if (bytes == NULL && n > 0)
        SW_FAIL(SW_INVALID, "%s: bytes must not be NULL", call);
    const uint32_t before = c->n_blobs;
    SW_TRY(blob_of(c, name, &blob));
    if (n > blob->cap) {
        void *grown = blob->bytes;
        const sw_status status = sw_heap_resize(&grown, SW_HEAP_FILES, blob->cap, n);
        if (status != SW_OK) {
            c->n_blobs = before;
            return status;
        }
        blob->bytes = grown;
        blob->cap = n;
    }
    if (n > 0)
        memcpy(blob->bytes, bytes, n);
    blob->n = n;
    return SW_OK;
}

/* ---- how saves went ---------------------------------------------------------------------- */

sw_status sw_checkpoint_describe(sw_checkpoint *c, sw_checkpoint_info *out)
{
    static const char call[] = "sw_checkpoint_describe";
    SW_TRY(swi_checkpoint_check(c, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_checkpoint_info, out->size, call));
    pthread_mutex_lock(&c->mutex);
    const sw_checkpoint_info info = c->info;
    pthread_mutex_unlock(&c->mutex);
    swi_struct_write(SWI_STRUCT_sw_checkpoint_info, out, &info);
    return SW_OK;
}
