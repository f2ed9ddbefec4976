/* The record of a checkpoint, a tensor of bytes that is JSON: step, seed, models, where each
 * loader is. Written for what was taken; read back to be shown, and to be held against the
 * models and loaders that are to go on. */
#include "kernels/dispatch.h"
#include "profiler/record/json.h"
#include "runtime/state/checkpoint_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ----------------------------------------------------------------------------- */

/* "adam,sgd": kinds of a model's optimizers, in their order. */
static void optimizers_of(const sw_model *model, char *to, size_t bytes)
{
    size_t at = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < model->n_optimizers && at < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, "%s%s", i > 0 ? "," : "",
                               model->optimizers[i]->kind->name);
}

void swi_run_describe(const sw_model *model, swi_run_model *out)
{
    *out = (swi_run_model){.members = 1};
    snprintf(out->name, sizeof out->name, "%s", model->name);
    snprintf(out->layout, sizeof out->layout, "%016" PRIx64, model->layout_hash);
    optimizers_of(model, out->optimizers, sizeof out->optimizers);
}

static void put_hex(sw_json *json, const char *key, uint64_t number)
{
    char digits[20];
    snprintf(digits, sizeof digits, "%016" PRIx64, number);
    sw_json_put_string(json, key, digits);
}

static void put_decimal(sw_json *json, const char *key, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    sw_json_put_string(json, key, digits);
}

static void put_models(sw_json *json, const sw_checkpoint *c)
{
    char optimizers[256];
    sw_json_open(json, "models", '[');
    for (uint32_t g = 0; g < c->n_groups; g++) {
        const sw_model *model = c->models[c->groups[g].first];
        optimizers_of(model, optimizers, sizeof optimizers);
        sw_json_begin(json, '{');
        sw_json_put_string(json, "name", model->name);
        put_hex(json, "layout", model->layout_hash);
        sw_json_put_u64(json, "members", c->groups[g].n);
        sw_json_put_string(json, "optimizers", optimizers);
        sw_json_end(json);
    }
    sw_json_end(json);
}

/* Not there without any: others know of none. */
static void put_stacks(sw_json *json, const sw_checkpoint *c)
{
    if (c->n_stacks == 0)
        return;
    sw_json_open(json, "groups", '[');
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const swi_run_model *what = &c->stacks[i].what;
        sw_json_begin(json, '{');
        sw_json_put_string(json, "name", what->name);
        sw_json_put_string(json, "layout", what->layout);
        sw_json_put_u64(json, "members", what->members);
        sw_json_put_string(json, "optimizers", what->optimizers);
        sw_json_put_u64(json, "state_bytes", what->state_bytes);
        sw_json_end(json);
    }
    sw_json_end(json);
}

static void put_loaders(sw_json *json, const sw_checkpoint *c)
{
    sw_json_open(json, "loaders", '[');
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        const swi_loader_state *l = &c->positions[i];
        sw_json_begin(json, '{');
        sw_json_put_bool(json, "begun", l->begun);
        sw_json_put_u64(json, "epoch", l->epoch);
        sw_json_put_i64(json, "batch_index", l->batch);
        sw_json_put_i64(json, "batch_rows", l->identity.batch);
        sw_json_put_i64(json, "samples", l->identity.samples);
        put_decimal(json, "seed", l->identity.seed);
        sw_json_put_bool(json, "shuffle", l->identity.shuffle);
        if (l->identity.keyed) /* what others do not know they would not do */
            sw_json_put_bool(json, "keyed", true);
        sw_json_put_bool(json, "drop_last", l->identity.drop_last);
        put_hex(json, "data", l->identity.data);
        sw_json_end(json);
    }
    sw_json_end(json);
}

sw_status swi_run_record_write(sw_checkpoint *c)
{
    const swi_target *target = swi_target_of(c->exec);
    char device[24];
    sw_json json;
    sw_json_growing(&json, SW_HEAP_FILES);
    sw_json_begin(&json, '{');
    sw_json_put_u64(&json, "version", SWI_RUN_VERSION);
    sw_json_put_u64(&json, "step", c->step);
    sw_json_put_u64(&json, "seed", target->opts.seed);
    sw_json_put_string(&json, "isa", sw_isa_name(target->isa));
    sw_json_put_string(&json, "device",
                       target->device->backend->host_memory
                           ? "cpu"
                           : swi_device_name(target->device, device, sizeof device));
    put_models(&json, c);
    put_stacks(&json, c);
    put_loaders(&json, c);
    sw_json_end(&json);
    sw_status status = json.status;
    if (status == SW_OK && c->record_cap < json.used) {
        void *grown = c->record;
        status = sw_heap_resize(&grown, SW_HEAP_FILES, c->record_cap, json.used);
        if (status == SW_OK) {
            c->record = grown;
            c->record_cap = json.used;
        }
    }
    if (status == SW_OK) {
        memcpy(c->record, json.bytes, json.used);
        c->record_bytes = json.used;
    }
    sw_json_free(&json);
    return status;
}

/* ---- held against the run that goes on ----------------------------------------------------
 */

static sw_status check_model(const sw_checkpoint *c, uint32_t k, const char *path)
{
    const swi_run_model *there = &c->found_run.models[k];
    const sw_model *model = c->models[c->groups[k].first];
    char optimizers[sizeof there->optimizers];
    optimizers_of(model, optimizers, sizeof optimizers);
    if (strcmp(model->name, there->name) != 0)
        SW_FAIL(SW_INVALID, "%s: model %u is '%s' there and '%s' here", path, k, there->name,
                model->name);
    if (there->members != c->groups[k].n)
        SW_FAIL(SW_INVALID, "%s: %" PRIu64 " models are named '%s' there and %u here", path,
                there->members, model->name, c->groups[k].n);
    if (strcmp(optimizers, there->optimizers) != 0)
        SW_FAIL(SW_INVALID, "%s: the optimizer of model %s is '%s' there and '%s' here", path,
                model->name, there->optimizers, optimizers);
    return SW_OK;
}

static sw_status check_stack(const sw_checkpoint *c, uint32_t k, const char *path)
{
    const swi_run_model *there = &c->found_run.groups[k], *here = &c->stacks[k].what;
    if (strcmp(here->name, there->name) != 0)
        SW_FAIL(SW_INVALID, "%s: group %u is of '%s' there and of '%s' here", path, k,
                there->name, here->name);
    if (there->members != here->members)
        SW_FAIL(SW_INVALID, "%s: %s has %" PRIu64 " members there and %" PRIu64 " here", path,
                here->name, there->members, here->members);
    if (strcmp(here->optimizers, there->optimizers) != 0)
        SW_FAIL(SW_INVALID, "%s: the optimizer of %s is '%s' there and '%s' here", path,
                here->name, there->optimizers, here->optimizers);
    if (there->state_bytes != here->state_bytes)
        SW_FAIL(SW_INVALID,
                "%s: a member of %s has %" PRIu64 " bytes of state there and %" PRIu64
                " bytes here",
                path, here->name, there->state_bytes, here->state_bytes);
    return SW_OK;
}

static sw_status same(const char *path, uint32_t k, const char *what, uint64_t there,
                      uint64_t here)
{
    if (there == here)
        return SW_OK;
    SW_FAIL(SW_INVALID, "%s: %s of loader %u was %" PRIu64 " there and is %" PRIu64 " here",
            path, what, k, there, here);
}

static sw_status check_loader(const sw_checkpoint *c, uint32_t k, const char *path)
{
    const swi_run_loader *there = &c->found_run.loaders[k];
    const swi_loader_identity *here = &c->positions[k].identity;
    char data[sizeof there->data];
    const int64_t n_batches = sw_loader_batches(c->loaders[k]);
    SW_TRY(same(path, k, "the batch", there->batch_rows, (uint64_t)here->batch));
    SW_TRY(same(path, k, "the number of samples", there->samples, (uint64_t)here->samples));
    SW_TRY(same(path, k, "the seed", strtoull(there->seed, NULL, 10), here->seed));
    SW_TRY(same(path, k, "shuffle", there->shuffle, here->shuffle));
    SW_TRY(same(path, k, "keyed", there->keyed, here->keyed));
    SW_TRY(same(path, k, "drop_last", there->drop_last, here->drop_last));
    if (there->begun && there->batch_index > (uint64_t)n_batches)
        SW_FAIL(SW_FORMAT, "%s: loader %u is at batch %" PRIu64 " of %" PRId64, path, k,
                there->batch_index, n_batches);
    snprintf(data, sizeof data, "%016" PRIx64, here->data);
    if (strcmp(there->data, data) != 0)
        SW_FAIL(SW_INVALID,
                "%s: the samples of loader %u are others than there: their checksum was %s and "
                "is %s",
                path, k, there->data, data);
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
    for (uint32_t k = 0; k < run->n_models; k++)
        SW_TRY(check_model(c, k, path));
    for (uint32_t k = 0; k < run->n_groups; k++)
        SW_TRY(check_stack(c, k, path));
    if (run->seed != seed)
        SW_FAIL(SW_INVALID,
                "%s: the seed of random ops was %" PRIu64 " there and is %" PRIu64 " here",
                path, run->seed, seed);
    for (uint32_t k = 0; k < run->n_loaders; k++)
        SW_TRY(check_loader(c, k, path));
    return SW_OK;
}
