/* The object of checkpoints: what it is made of, what was put, how saves went. */
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
#include "profiler/record/utf8.h"
#include "runtime/state/checkpoint_internal.h"
#include "runtime/state/tensor_file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stacks_end(sw_checkpoint *c);

/* ---- the record of a run ----------------------------------------------------------------- */

/* A tensor of bytes that is JSON: step, seed, models, where each loader is. Written for what
 * was taken; read back to be shown, and to be held against the models and loaders that are to
 * go on. One table of fields serves both. */

typedef enum { NUMBER, TEXT, FLAG, FLAG_IF_SET } kind; /* the last: not written where false */

typedef struct {
    const char *key;
    kind kind;
    size_t at, bytes;
} field;

#define FIELD(type, kind, member)                                                              \
    {                                                                                          \
#member, kind, offsetof(type, member), sizeof((const type *)NULL)->member              \
    }

static const field of_run[] = {
    FIELD(swi_run_summary, NUMBER, version), FIELD(swi_run_summary, NUMBER, step),
    FIELD(swi_run_summary, NUMBER, seed), FIELD(swi_run_summary, TEXT, isa),
    FIELD(swi_run_summary, TEXT, device)};
static const field of_model[] = {
    FIELD(swi_run_model, TEXT, name), FIELD(swi_run_model, TEXT, layout),
    FIELD(swi_run_model, NUMBER, members), FIELD(swi_run_model, TEXT, optimizers),
    FIELD(swi_run_model, NUMBER, state_bytes)}; /* the last of groups alone */
static const field of_loader[] = {
    FIELD(swi_run_loader, FLAG, begun),
    FIELD(swi_run_loader, NUMBER, epoch),
    FIELD(swi_run_loader, NUMBER, batch_index),
    FIELD(swi_run_loader, NUMBER, batch_rows),
    FIELD(swi_run_loader, NUMBER, samples),
    FIELD(swi_run_loader, TEXT, seed),
    FIELD(swi_run_loader, FLAG, shuffle),
    FIELD(swi_run_loader, FLAG_IF_SET, keyed), /* what others do not know they would not do */
    FIELD(swi_run_loader, FLAG, drop_last),
    FIELD(swi_run_loader, TEXT, data)};
enum {
    RUN_FIELDS = sizeof of_run / sizeof *of_run,
    GROUP_FIELDS = sizeof of_model / sizeof *of_model,
    MODEL_FIELDS = GROUP_FIELDS - 1,
    LOADER_FIELDS = sizeof of_loader / sizeof *of_loader
};

/* ---- what stands in it ------------------------------------------------------------------- */

/* Name, layout and optimizers ("adam,sgd 8bit": kinds and states, in their order) of a model.
 */
static swi_run_model model_of(const sw_model *model, uint64_t members)
{
    swi_run_model m = {.members = members};
    size_t at = 0;
    snprintf(m.name, sizeof m.name, "%s", model->name);
    snprintf(m.layout, sizeof m.layout, "%016" PRIx64, model->layout_hash);
    for (uint32_t i = 0; i < model->n_optimizers && at < sizeof m.optimizers; i++)
        at += (size_t)snprintf(m.optimizers + at, sizeof m.optimizers - at, "%s%s%s",
                               i > 0 ? "," : "", model->optimizers[i]->kind->name,
                               model->optimizers[i]->state8 ? " 8bit" : "");
    return m;
}

static swi_run_model group_of(const sw_checkpoint *c, uint32_t g)
{
    return model_of(c->models[c->groups[g].first], c->groups[g].n);
}

static swi_run_loader loader_of(const swi_loader_state *l)
{
    const swi_loader_identity *is = &l->identity;
    swi_run_loader r =
        SW_INIT(.epoch = l->epoch, .batch_index = (uint64_t)l->batch,
                .batch_rows = (uint64_t)is->batch, .samples = (uint64_t)is->samples,
                .begun = l->begun, .shuffle = is->shuffle, .keyed = is->keyed,
                .drop_last = is->drop_last);
    snprintf(r.seed, sizeof r.seed, "%" PRIu64, is->seed);
    snprintf(r.data, sizeof r.data, "%016" PRIx64, is->data);
    return r;
}

/* ---- writing ----------------------------------------------------------------------------- */

static void put_fields(sw_json *json, const field *fields, int n, const void *from)
{
    for (const field *f = fields; f < fields + n; f++) {
        const void *at = (const char *)from + f->at;
        if (f->kind == TEXT)
            sw_json_put_string(json, f->key, at);
        else if (f->kind == NUMBER)
            sw_json_put_u64(json, f->key, *(const uint64_t *)at);
        else if (f->kind == FLAG || *(const bool *)at)
            sw_json_put_bool(json, f->key, *(const bool *)at);
    }
}

static void put_object(sw_json *json, const field *fields, int n, const void *from)
{
    sw_json_begin(json, '{');
    put_fields(json, fields, n, from);
    sw_json_end(json);
}

sw_status swi_run_record_write(sw_checkpoint *c)
{
    const swi_target *target = swi_target_of(c->exec);
    swi_run_summary run = {
        .version = SWI_RUN_VERSION, .step = c->step, .seed = target->opts.seed};
    char device[24];
    sw_json json;
    snprintf(run.isa, sizeof run.isa, "%s", sw_isa_name(target->isa));
    snprintf(run.device, sizeof run.device, "%s",
             target->device->backend->host_memory
                 ? "cpu"
                 : swi_device_name(target->device, device, sizeof device));
    sw_json_growing(&json, SW_HEAP_FILES);
    sw_json_begin(&json, '{');
    put_fields(&json, of_run, RUN_FIELDS, &run);
    sw_json_open(&json, "models", '[');
    for (uint32_t g = 0; g < c->n_groups; g++) {
        const swi_run_model model = group_of(c, g);
        put_object(&json, of_model, MODEL_FIELDS, &model);
    }
    sw_json_end(&json);
    if (c->n_stacks > 0) { /* not there without any: others know of none */
        sw_json_open(&json, "groups", '[');
        for (uint32_t i = 0; i < c->n_stacks; i++)
            put_object(&json, of_model, GROUP_FIELDS, &c->stacks[i].what);
        sw_json_end(&json);
    }
    sw_json_open(&json, "loaders", '[');
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        const swi_run_loader loader = loader_of(&c->positions[i]);
        put_object(&json, of_loader, LOADER_FIELDS, &loader);
    }
    sw_json_end(&json);
    sw_json_end(&json);
    sw_status status = json.status;
    if (status == SW_OK && c->record_cap < json.used) {
        status = sw_heap_resize(&c->record, SW_HEAP_FILES, c->record_cap, json.used);
        if (status == SW_OK)
            c->record_cap = json.used;
    }
    if (status == SW_OK) {
        memcpy(c->record, json.bytes, json.used);
        c->record_bytes = json.used;
    }
    sw_json_free(&json);
    return status;
}

/* ---- held against the run that goes on --------------------------------------------------- */

static sw_status check_loader(const sw_checkpoint *c, uint32_t k)
{
    const char *path = swi_tensors_path(c->found);
    const swi_run_loader *there = &c->found_run.loaders[k], here = loader_of(&c->positions[k]);
    const int64_t n_batches = sw_loader_batches(c->loaders[k]);
    const struct {
        const char *what;
        uint64_t there, here;
    } same[] = {{"the batch", there->batch_rows, here.batch_rows},
                {"the number of samples", there->samples, here.samples},
                {"the seed", strtoull(there->seed, NULL, 10), c->positions[k].identity.seed},
                {"shuffle", there->shuffle, here.shuffle},
                {"keyed", there->keyed, here.keyed},
                {"drop_last", there->drop_last, here.drop_last}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].there != same[i].here)
            SW_FAIL(SW_INVALID,
                    "%s: %s of loader %u was %" PRIu64 " there and is %" PRIu64 " here", path,
                    same[i].what, k, same[i].there, same[i].here);
    if (there->begun && there->batch_index > (uint64_t)n_batches)
        SW_FAIL(SW_FORMAT, "%s: loader %u is at batch %" PRIu64 " of %" PRId64, path, k,
                there->batch_index, n_batches);
    if (strcmp(there->data, here.data) != 0)
        SW_FAIL(SW_INVALID,
                "%s: the samples of loader %u are others than there: their checksum was %s and "
                "is %s",
                path, k, there->data, here.data);
    return SW_OK;
}

sw_status swi_run_record_check(const sw_checkpoint *c)
{
    const swi_run_summary *run = &c->found_run;
    const char *path = swi_tensors_path(c->found);
    const uint64_t seed = swi_target_of(c->exec)->opts.seed;
    if (run->n_models != c->n_groups || run->n_loaders != c->n_loaders)
        SW_FAIL(SW_INVALID,
                "%s: it is of a run with %u models and %u loaders; the run that goes on has %u "
                "and %u",
                path, run->n_models, run->n_loaders, c->n_groups, c->n_loaders);
    if (run->n_groups != c->n_stacks)
        SW_FAIL(SW_INVALID,
                "%s: it is of a run with %u groups of members; the run that goes on has %u",
                path, run->n_groups, c->n_stacks);
    for (uint32_t k = 0; k < run->n_models + run->n_groups; k++) {
        const bool group = k >= run->n_models; /* of members */
        const uint32_t i = group ? k - run->n_models : k;
        const swi_run_model *there = group ? &run->groups[i] : &run->models[i],
                            here = group ? c->stacks[i].what : group_of(c, i);
        if (strcmp(here.name, there->name) != 0)
            SW_FAIL(SW_INVALID, "%s: %s %u is '%s' there and '%s' here", path,
                    group ? "group" : "model", i, there->name, here.name);
        if (here.members != there->members)
            SW_FAIL(SW_INVALID, "%s: %" PRIu64 " %s '%s' there and %" PRIu64 " here", path,
                    there->members, group ? "members are of" : "models are named", here.name,
                    here.members);
        if (strcmp(here.optimizers, there->optimizers) != 0)
            SW_FAIL(SW_INVALID, "%s: the optimizer of %s is '%s' there and '%s' here", path,
                    here.name, there->optimizers, here.optimizers);
        if (group && there->state_bytes != here.state_bytes)
            SW_FAIL(SW_INVALID,
                    "%s: a member of %s has %" PRIu64 " bytes of state there and %" PRIu64
                    " bytes here",
                    path, here.name, there->state_bytes, here.state_bytes);
    }
    if (run->seed != seed)
        SW_FAIL(SW_INVALID,
                "%s: the seed of random ops was %" PRIu64 " there and is %" PRIu64 " here",
                path, run->seed, seed);
    for (uint32_t k = 0; k < run->n_loaders; k++)
        SW_TRY(check_loader(c, k));
    return SW_OK;
}

/* ---- reading ----------------------------------------------------------------------------- */

#define RUN_TEXT_MAX ((uint64_t)16 << 20)

/* An object whose fields are taken; others are passed over. */
typedef struct {
    const field *fields;
    int n;
    void *to;
} object;

static sw_status take_field(sw_json_in *in, const char *key, void *context)
{
    const object *o = context;
    const field *f = o->fields;
    sw_json_number number;
    sw_json_word word;
    while (f < o->fields + o->n && strcmp(f->key, key) != 0)
        f++;
    if (f == o->fields + o->n)
        return sw_json_skip(in);
    void *to = (char *)o->to + f->at;
    if (f->kind == TEXT)
        return sw_json_get_text(in, to, f->bytes);
    if (f->kind == NUMBER) {
        SW_TRY(sw_json_get_number(in, &number));
        if (!number.whole || number.minus)
            return sw_json_bad(in, "a whole number of 0 or more was expected");
        *(uint64_t *)to = number.magnitude;
        return SW_OK;
    }
    SW_TRY(sw_json_get_word(in, &word));
    *(bool *)to = word == SW_JSON_TRUE;
    return SW_OK;
}

/* An array of objects, each into a new element. */
static sw_status get_array(sw_json_in *in, void *array, uint32_t *n, uint32_t *cap,
                           size_t element, const field *fields, int n_fields)
{
    bool end, more = true;
    char *at;
    SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_accept(in, ']', &end));
    while (!end && more) {
        SW_TRY(sw_heap_reserve_at(array, SW_HEAP_FILES, cap, *n + 1, element, SW_SITE));
        memcpy(&at, array, sizeof at);
        object o = {fields, n_fields, at + *n * element};
        SW_TRY(sw_json_get_object(in, take_field, &o));
        ++*n;
        SW_TRY(sw_json_accept(in, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(in, ']');
}

static sw_status take_of_run(sw_json_in *in, const char *key, void *what)
{
    swi_run_summary *run = what;
    if (strcmp(key, "models") == 0)
        return get_array(in, &run->models, &run->n_models, &run->cap_models,
                         sizeof *run->models, of_model, GROUP_FIELDS);
    if (strcmp(key, "groups") == 0)
        return get_array(in, &run->groups, &run->n_groups, &run->cap_groups,
                         sizeof *run->groups, of_model, GROUP_FIELDS);
    if (strcmp(key, "loaders") == 0)
        return get_array(in, &run->loaders, &run->n_loaders, &run->cap_loaders,
                         sizeof *run->loaders, of_loader, LOADER_FIELDS);
    object o = {of_run, RUN_FIELDS, run};
    return take_field(in, key, &o);
}

sw_status swi_run_summary_read(swi_tensors *file, swi_run_summary *out)
{
    const swi_tensors_entry *entry = swi_tensors_find(file, SWI_TENSORS_RUN);
    const char *path = swi_tensors_path(file);
    *out = (swi_run_summary){0};
    if (entry == NULL)
        SW_FAIL(SW_FORMAT, "%s: is no checkpoint: it has no '" SWI_TENSORS_RUN "'", path);
    if (strcmp(entry->dtype, "U8") != 0 || entry->end - entry->begin > RUN_TEXT_MAX)
        SW_FAIL(SW_FORMAT, "%s: '" SWI_TENSORS_RUN "' must be a text", path);
    const size_t bytes = (size_t)(entry->end - entry->begin);
    void *text;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, bytes));
    sw_status status = swi_tensors_read(file, entry, text, bytes);
    sw_json_in in = sw_json_in_text(text, bytes, path);
    int c = 0;
    in.of = " of '" SWI_TENSORS_RUN "'";
    in.strict = true;
    if (status == SW_OK)
        status = sw_json_get_object(&in, take_of_run, out);
    if (status == SW_OK)
        status = sw_json_peek(&in, &c);
    if (status == SW_OK && c != -1)
        status = sw_json_bad(&in, "text after the end");
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    if (status != SW_OK)
        swi_run_summary_free(out);
    return status;
}

void swi_run_summary_free(swi_run_summary *run)
{
    sw_heap_free(run->models, SW_HEAP_FILES, run->cap_models * sizeof *run->models);
    sw_heap_free(run->groups, SW_HEAP_FILES, run->cap_groups * sizeof *run->groups);
    sw_heap_free(run->loaders, SW_HEAP_FILES, run->cap_loaders * sizeof *run->loaders);
    *run = (swi_run_summary){0};
}

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
    /* The copy, or the members' own ranges, are where the tensors are. */
    for (uint32_t j = 0; j < c->n_stacks; j++) {
        const swi_stack *s = &c->stacks[j];
        unsigned char *base =
            copy ? swi_snapshot_bytes(s->snapshot) : s->source.base(s->source.owner);
        for (uint32_t t = s->first; t < s->entries_end; t++) {
            c->list.at[t].at = base + c->list.at[t].offset;
            c->list.at[t].stride = s->source.stride;
            c->list.at[t].places = copy ? NULL : s->source.places;
        }
    }
}

/* ---- making ------------------------------------------------------------------------------ */

static sw_status read_opts(const sw_checkpoint_opts *given, sw_checkpoint_opts *o)
{
    static const char call[] = "sw_checkpoint_create";
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_checkpoint_opts, o, given, call));
    if (o->path != NULL) {
        /* A path that is no regular file is written in place, and has no generation: it
         * could not promise that a whole checkpoint is there at every moment. */
        const size_t longest =
            sizeof((sw_checkpoint_found *)NULL)->path - SWI_GENERATION_DIGITS;
        if (o->path[0] == '\0')
            SW_FAIL(SW_INVALID, "%s: path must not be empty", call);
        if (strlen(o->path) > longest)
            SW_FAIL(SW_INVALID,
                    "%.100s...: the path of a checkpoint must have at most %zu bytes (got %zu)",
                    o->path, longest, strlen(o->path));
        if (strcmp(o->path, "-") == 0 || !sw_file_replaceable(o->path))
            SW_FAIL(SW_INVALID,
                    "%s: a checkpoint must be a regular file, by its own name: this is a link, "
                    "a folder, a device or a pipe",
                    o->path);
    }
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
    return sw_heap_alloc(&c->knobs, SW_HEAP_RECORDS, knobs * sizeof *c->knobs);
}

static sw_status make(sw_checkpoint *c, const sw_checkpoint_opts *o)
{
    c->keep = o->keep > 0 ? o->keep : 2;
    c->no_copy = o->no_copy != 0;
    c->before = o->before;
    c->user = o->user;
    sw_utf8_clean(c->command, sizeof c->command, o->command != NULL ? o->command : "");
    if (o->path != NULL) {
        c->path_bytes = strlen(o->path) + 1;
        SW_TRY(sw_heap_alloc(&c->path, SW_HEAP_RECORDS, c->path_bytes));
        memcpy(c->path, o->path, c->path_bytes);
    }
    c->n_models = (uint32_t)o->n_models;
    SW_TRY(sw_heap_alloc(&c->models, SW_HEAP_RECORDS, c->n_models * sizeof *c->models));
    for (uint32_t i = 0; i < c->n_models; i++)
        c->models[i] = o->models[i];
    SW_TRY(sw_heap_alloc(&c->groups, SW_HEAP_RECORDS, c->n_models * sizeof *c->groups));

    /* A model that is there twice could never be taken. */
    uint32_t n = 0;
    while (n < c->n_models && swi_model_take(c->models[n]) == SW_OK)
        n++;
    for (uint32_t i = 0; i < n; i++)
        swi_model_give(c->models[i]);
    for (uint32_t i = 0; n < c->n_models && i < n; i++)
        if (c->models[i] == c->models[n])
            SW_FAIL(SW_INVALID, "sw_checkpoint_create: models %u and %u are the same model", i,
                    n);
    /* one that another thread uses can be given too */
    SW_TRY(make_groups(c));
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
    SW_TRY(swi_tensors_bytes(&c->list, NULL, 0, &bytes));
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
    stacks_end(c);
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        sw_heap_free(c->blobs[i].bytes, SW_HEAP_FILES, c->blobs[i].cap);
        sw_heap_free(c->blobs[i].written, SW_HEAP_FILES, c->blobs[i].cap_written);
    }
    sw_heap_free(c->blobs, SW_HEAP_FILES, c->cap_blobs * sizeof *c->blobs);
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
    SW_TRY(swi_given(out != NULL, "out", "sw_checkpoint_create"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_checkpoint_create"));
    SW_TRY(read_opts(given, &opts));
    sw_checkpoint *c;
    SW_TRY(sw_handle_take(&c, SW_HANDLE_CHECKPOINT, sizeof(sw_checkpoint)));
    c->forks = sw_fork_number();
    c->exec = exec;
    c->info.size = sizeof c->info;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    const sw_status status = make(c, &opts);
    return SW_GIVE(status, out, c, end);
}

sw_status sw_checkpoint_loader(sw_checkpoint *c, sw_loader *loader)
{
    static const char call[] = "sw_checkpoint_loader";
    SW_TRY(swi_checkpoint_check(c, call));
    SW_TRY(sw_handle_check(loader, SW_HANDLE_LOADER, call));
    swi_checkpoint_give_up(c);
    SW_TRY(sw_heap_reserve(&c->loaders, SW_HEAP_RECORDS, &c->cap_loaders, c->n_loaders + 1));
    SW_TRY(
        sw_heap_reserve(&c->positions, SW_HEAP_RECORDS, &c->cap_positions, c->n_loaders + 1));
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

static sw_status blob_of(sw_checkpoint *c, const char *name, swi_blob **out)
{
    for (uint32_t i = 0; i < c->n_blobs; i++)
        if (strcmp(c->blobs[i].name, name) == 0) {
            *out = &c->blobs[i];
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&c->blobs, SW_HEAP_FILES, &c->cap_blobs, c->n_blobs + 1));
    *out = &c->blobs[c->n_blobs++];
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return SW_OK;
}

sw_status swi_checkpoint_pour(sw_checkpoint *c, const char *name, size_t n,
                              swi_pour_bytes *pour, void *owner)
{
    swi_blob *blob;
    SW_ASSERT(c->no_copy && strlen(name) < SWI_BLOB_NAME);
    SW_TRY(blob_of(c, name, &blob));
    blob->n = n;
    blob->pour = pour;
    blob->owner = owner;
    return SW_OK;
}

sw_status sw_checkpoint_put(sw_checkpoint *c, const char *name, const void *bytes, size_t n)
{
    static const char call[] = "sw_checkpoint_put";
    swi_blob *blob;
    SW_TRY(swi_checkpoint_check(c, call));
    static const char may[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t length = name != NULL ? strlen(name) : 0;
    if (length < 1 || length >= SWI_BLOB_NAME || strspn(name, may) != length)
        SW_FAIL(SW_INVALID,
                "%s: a name must have 1 to %d letters, digits, '.', '_' or '-' (got '%s')",
                call, SWI_BLOB_NAME - 1, name != NULL ? name : "");
    if (bytes == NULL && n > 0)
        SW_FAIL(SW_INVALID, "%s: bytes must not be NULL", call);
    const uint32_t before = c->n_blobs;
    SW_TRY(blob_of(c, name, &blob));
    if (n > blob->cap) {
        const sw_status status = sw_heap_resize(&blob->bytes, SW_HEAP_FILES, blob->cap, n);
        if (status != SW_OK) {
            c->n_blobs = before;
            return status;
        }
        blob->cap = n;
    }
    if (n > 0)
        memcpy(blob->bytes, bytes, n);
    blob->n = n;
    blob->pour = NULL;
    return SW_OK;
}

sw_status sw_checkpoint_describe(sw_checkpoint *c, sw_checkpoint_info *out)
{
    static const char call[] = "sw_checkpoint_describe";
    SW_TRY(swi_checkpoint_check(c, call));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_checkpoint_info, out, call));
    pthread_mutex_lock(&c->mutex);
    const sw_checkpoint_info info = c->info;
    pthread_mutex_unlock(&c->mutex);
    swi_struct_write(SWI_STRUCT_sw_checkpoint_info, out, &info);
    return SW_OK;
}

/* Members in checkpoints: a stack of tensors by the name of their shape, "stepwell.members"
 * with seed, progress and damage of each, and "stepwell.bytes" with what callbacks have. */

#define PREFIX_BYTES 80

/* ---- making ------------------------------------------------------------------------------ */

static void end_stack(swi_stack *s)
{
    swi_snapshot_destroy(s->snapshot);
    sw_heap_free(s->records, SW_HEAP_RECORDS, s->source.n * sizeof *s->records);
}

static void stacks_end(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        end_stack(&c->stacks[i]);
        c->stacks[i].source.end(c->stacks[i].source.owner);
    }
    sw_heap_free(c->stacks, SW_HEAP_RECORDS, c->cap_stacks * sizeof *c->stacks);
}

static sw_status make_stack(sw_checkpoint *c, swi_stack *s)
{
    SW_TRY(sw_heap_alloc(&s->records, SW_HEAP_RECORDS, s->source.n * sizeof *s->records));
    if (!sw_size_mul(s->source.n, s->source.stride, &s->copy_bytes))
        SW_FAIL(SW_NOMEM, "%" PRIu32 " members of %s overflow", s->source.n, s->what.name);
    if (c->path != NULL && !c->no_copy)
        SW_TRY(swi_snapshot_create(&s->snapshot, swi_target_of(c->exec), s->copy_bytes));
    /* Their tensors, after those that are there. */
    const uint32_t all = (1u << SWI_ROLE_COUNT) - 1;
    char prefix[PREFIX_BYTES], name[PREFIX_BYTES + 32];
    const swi_stack_source *of = &s->source;
    snprintf(prefix, sizeof prefix, "%s/", s->what.name);
    s->first = c->list.n;
    SW_TRY(swi_list_stack(&c->list, of->shape, of->n, all, prefix));
    s->entries_end = c->list.n;
    if (of->state_bytes > 0) {
        snprintf(name, sizeof name, "%s" SWI_OWN_PREFIX "bytes", prefix);
        SW_TRY(swi_list_parts(&c->list, name, name, of->state_bytes, of->n));
        c->list.at[c->list.n - 1].offset = of->state_at;
        c->list.at[c->list.n - 1].stacked = true;
        s->entries_end = c->list.n;
    }
    snprintf(name, sizeof name, "%s" SWI_OWN_PREFIX "members", prefix);
    SW_TRY(swi_list_parts(&c->list, name, s->records, sizeof *s->records, of->n));
    c->list.at[c->list.n - 1].stacked = true;
    uint64_t bytes; /* what no file can have is said now, and not at each save */
    return swi_tensors_bytes(&c->list, NULL, 0, &bytes);
}

sw_status swi_checkpoint_stack(sw_checkpoint *c, const swi_stack_source *source,
                               const char *call)
{
    SW_TRY(swi_checkpoint_check(c, call));
    if (source->exec != c->exec)
        SW_FAIL(SW_INVALID, "%s: members of %s must be of the exec of the checkpoint", call,
                (*source->shape)->name);
    for (uint32_t i = 0; i < c->n_stacks; i++)
        if (strcmp(c->stacks[i].what.name, (*source->shape)->name) == 0)
            SW_FAIL(SW_INVALID, "%s: members of %s are kept already", call,
                    (*source->shape)->name);

    swi_checkpoint_give_up(c);
    SW_TRY(sw_heap_reserve(&c->stacks, SW_HEAP_RECORDS, &c->cap_stacks, c->n_stacks + 1));
    swi_list_cut(&c->list, c->models_end);
    swi_stack *s = &c->stacks[c->n_stacks];
    *s = (swi_stack){.source = *source};
    s->what = model_of(*source->shape, source->n);
    s->what.state_bytes = source->state_bytes;
    const sw_status status = make_stack(c, s);
    if (status != SW_OK) {
        swi_list_cut(&c->list, c->models_end);
        end_stack(s);
        return status;
    }
    c->models_end = swi_list_end(&c->list);
    c->has_room = false;
    c->n_stacks++;
    return SW_OK;
}

/* ---- taking ------------------------------------------------------------------------------ */

sw_status swi_stacks_check(const sw_checkpoint *c, const char *call)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        SW_TRY(c->stacks[i].source.check(c->stacks[i].source.owner, call));
    return SW_OK;
}

sw_status swi_stacks_room(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        if (c->stacks[i].snapshot != NULL)
            SW_TRY(swi_snapshot_room(c->stacks[i].snapshot));
    return SW_OK;
}

sw_status swi_stacks_copy(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const swi_stack *s = &c->stacks[i];
        const swi_stack_source *of = &s->source;
        const unsigned char *base = of->base(of->owner);
        for (size_t k = 0; k < of->n; k++)
            SW_TRY(swi_snapshot_copy(s->snapshot, k * of->stride, base + of->places[k],
                                     of->stride));
        SW_TRY(swi_snapshot_end(s->snapshot));
    }
    return SW_OK;
}

sw_status swi_stacks_wait(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        if (c->stacks[i].snapshot != NULL)
            SW_TRY(swi_snapshot_wait(c->stacks[i].snapshot));
    return SW_OK;
}

void swi_stacks_read(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        c->stacks[i].source.read(c->stacks[i].source.owner, c->stacks[i].records);
}

/* ---- loading ----------------------------------------------------------------------------- */

static const swi_tensors_entry *entry_of(const sw_checkpoint *c, const swi_tensor *t)
{
    const swi_tensors_entry *entry = swi_tensors_find(c->found, t->name);
    return entry != NULL && entry->end - entry->begin == t->part_bytes * t->n_parts ? entry
                                                                                    : NULL;
}

static sw_status look_at_knobs(const sw_checkpoint *c, const swi_stack *s, const swi_tensor *t)
{
    const swi_tensors_entry *entry = entry_of(c, t);
    const size_t bytes = t->part_bytes * t->n_parts;
    void *block;
    if (entry == NULL) /* swi_tensors_load says so */
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    sw_status status = swi_tensors_read(c->found, entry, block, bytes);
    const sw_model *shape = *s->source.shape;
    const float *value = block;
    for (size_t k = 0; status == SW_OK && k < bytes / sizeof *value; k++) {
        const swi_knob *knob = &shape->knobs[k % shape->n_knobs];
        if (!swi_knob_can_be(knob, value[k])) /* a number that no knob can have */
            status = sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                  "%s: knob '%s' of member %zu of %s cannot be %g",
                                  swi_tensors_path(c->found), knob->name, k / shape->n_knobs,
                                  shape->name, (double)value[k]);
    }
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status look_at_records(const sw_checkpoint *c, const swi_stack *s)
{
    const swi_tensor *t = &c->list.at[s->entries_end];
    const swi_tensors_entry *entry = entry_of(c, t);
    SW_ASSERT(t->at == (unsigned char *)s->records);
    if (entry == NULL)
        return SW_OK;
    SW_TRY(swi_tensors_read(c->found, entry, s->records, s->source.n * sizeof *s->records));
    for (uint32_t k = 0; k < s->source.n; k++)
        if (s->records[k].damaged > 1)
            SW_FAIL(SW_FORMAT, "%s: '%s' has no record of member %" PRIu32,
                    swi_tensors_path(c->found), t->name, k);
    return SW_OK;
}

sw_status swi_stacks_look(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const swi_stack *s = &c->stacks[i];
        SW_TRY(look_at_records(c, s));
        for (uint32_t t = s->first; t < s->entries_end; t++)
            if (c->list.at[t].role == SWI_ROLE_KNOB)
                SW_TRY(look_at_knobs(c, s, &c->list.at[t]));
    }
    return SW_OK;
}

void swi_stacks_write(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        c->stacks[i].source.write(c->stacks[i].source.owner, c->stacks[i].records);
}
