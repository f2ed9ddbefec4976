/* The record of a checkpoint, a tensor of bytes that is JSON: step, seed, models, where each
 * loader is. Written for what was taken; read back to be shown, and to be held against the
 * models and loaders that are to go on. */
#include "kernels/dispatch.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
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

static void put_loaders(sw_json *json, const sw_checkpoint *c)
{
    sw_json_open(json, "loaders", '[');
    for (uint32_t i = 0; i < c->n_loaders; i++) {
        const swi_loader_state *l = &c->positions[i];
        sw_json_begin(json, '{');
        sw_json_put_bool(json, "begun", l->begun);
        put_decimal(json, "epoch", l->epoch);
        sw_json_put_i64(json, "batch_index", l->batch);
        sw_json_put_i64(json, "batch_rows", l->identity.batch);
        sw_json_put_i64(json, "samples", l->identity.samples);
        put_decimal(json, "seed", l->identity.seed);
        sw_json_put_bool(json, "shuffle", l->identity.shuffle);
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
    put_decimal(&json, "seed", target->opts.seed);
    sw_json_put_string(&json, "isa", sw_isa_name(target->isa));
    sw_json_put_string(&json, "device",
                       target->device->backend->host_memory
                           ? "cpu"
                           : swi_device_name(target->device, device, sizeof device));
    put_models(&json, c);
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

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct reader reader;
typedef sw_status read_member(reader *r, const char *key);
struct reader {
    sw_json_in json;
    swi_run_record *out;
    sw_checkpoint *c; /* to compare with; NULL: no one */
    struct {
        char name[64], optimizers[256];
        uint64_t members;
    } model;
    swi_loader_state loader;
};

static sw_status bad(const reader *r, const char *what)
{
    return sw_json_bad(&r->json, what);
}

/* Any value: a version that comes later may say more. Brackets are counted, not matched: the
 * text was checked by its checksum. */
static sw_status pass_over(reader *r)
{
    int depth = 0;
    do {
        int c = 0;
        bool there;
        sw_json_number number;
        sw_json_word word;
        sw_json_text text = {.cap = 0};
        SW_TRY(sw_json_peek(&r->json, &c));
        if (c == '"')
            SW_TRY(sw_json_get_string(&r->json, &text));
        else if (c == '-' || (c >= '0' && c <= '9'))
            SW_TRY(sw_json_get_number(&r->json, &number));
        else if (c == 't' || c == 'f' || c == 'n')
            SW_TRY(sw_json_get_word(&r->json, &word));
        else if (c < 0 || strchr("{}[],:", c) == NULL)
            return bad(r, "an unknown value");
        else
            SW_TRY(sw_json_accept(&r->json, c, &there));
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    } while (depth > 0);
    return SW_OK;
}

static sw_status read_object(reader *r, read_member *member)
{
    bool end, more = true;
    SW_TRY(sw_json_expect(&r->json, '{'));
    SW_TRY(sw_json_accept(&r->json, '}', &end));
    while (!end && more) {
        char key[32];
        sw_json_text text = {.to = key, .cap = sizeof key - 1};
        SW_TRY(sw_json_get_string(&r->json, &text));
        key[text.length < text.cap ? text.length : text.cap] = '\0';
        SW_TRY(sw_json_expect(&r->json, ':'));
        SW_TRY(member(r, key));
        SW_TRY(sw_json_accept(&r->json, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(&r->json, '}');
}

static sw_status read_list(reader *r, sw_status (*element)(reader *r))
{
    bool end, more = true;
    SW_TRY(sw_json_expect(&r->json, '['));
    SW_TRY(sw_json_accept(&r->json, ']', &end));
    while (!end && more) {
        SW_TRY(element(r));
        SW_TRY(sw_json_accept(&r->json, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(&r->json, ']');
}

static sw_status read_text(reader *r, char *to, size_t bytes)
{
    sw_json_text text = {.to = to, .cap = bytes - 1};
    SW_TRY(sw_json_get_string(&r->json, &text));
    to[text.length < text.cap ? text.length : text.cap] = '\0';
    return SW_OK;
}

static sw_status read_u64(reader *r, int base, uint64_t *out)
{
    char digits[32], *end;
    SW_TRY(read_text(r, digits, sizeof digits));
    *out = strtoull(digits, &end, base);
    return *end == '\0' && end != digits ? SW_OK : bad(r, "a number that is none");
}

static sw_status read_bool(reader *r, bool *out)
{
    sw_json_word word;
    SW_TRY(sw_json_get_word(&r->json, &word));
    *out = word == SW_JSON_TRUE;
    return SW_OK;
}

static sw_status read_i64(reader *r, int64_t *out)
{
    uint64_t n = 0;
    SW_TRY(sw_json_get_count(&r->json, &n));
    *out = (int64_t)n;
    return SW_OK;
}

static sw_status model_member(reader *r, const char *key)
{
    if (strcmp(key, "name") == 0)
        return read_text(r, r->model.name, sizeof r->model.name);
    if (strcmp(key, "members") == 0)
        return sw_json_get_count(&r->json, &r->model.members);
    if (strcmp(key, "optimizers") == 0)
        return read_text(r, r->model.optimizers, sizeof r->model.optimizers);
    return pass_over(r);
}

static sw_status check_model(const reader *r, uint32_t k)
{
    const sw_checkpoint *c = r->c;
    const char *path = r->json.path;
    if (c == NULL)
        return SW_OK;
    if (k >= c->n_groups)
        SW_FAIL(SW_INVALID, "%s: model %u is '%s' there, and there is none here", path, k,
                r->model.name);
    const sw_model *model = c->models[c->groups[k].first];
    char optimizers[256];
    optimizers_of(model, optimizers, sizeof optimizers);
    if (strcmp(model->name, r->model.name) != 0)
        SW_FAIL(SW_INVALID, "%s: model %u is '%s' there and '%s' here", path, k, r->model.name,
                model->name);
    if (r->model.members != c->groups[k].n)
        SW_FAIL(SW_INVALID, "%s: %" PRIu64 " models are named '%s' there and %u here", path,
                r->model.members, model->name, c->groups[k].n);
    if (strcmp(optimizers, r->model.optimizers) != 0)
        SW_FAIL(SW_INVALID, "%s: the optimizer of model %s is '%s' there and '%s' here", path,
                model->name, r->model.optimizers, optimizers);
    return SW_OK;
}

static sw_status read_model(reader *r)
{
    memset(&r->model, 0, sizeof r->model);
    r->model.members = 1;
    SW_TRY(read_object(r, model_member));
    return check_model(r, r->out->n_models++);
}

static sw_status loader_member(reader *r, const char *key)
{
    swi_loader_identity *identity = &r->loader.identity;
    if (strcmp(key, "begun") == 0)
        return read_bool(r, &r->loader.begun);
    if (strcmp(key, "epoch") == 0)
        return read_u64(r, 10, &r->loader.epoch);
    if (strcmp(key, "batch_index") == 0)
        return read_i64(r, &r->loader.batch);
    if (strcmp(key, "batch_rows") == 0)
        return read_i64(r, &identity->batch);
    if (strcmp(key, "samples") == 0)
        return read_i64(r, &identity->samples);
    if (strcmp(key, "seed") == 0)
        return read_u64(r, 10, &identity->seed);
    if (strcmp(key, "shuffle") == 0)
        return read_bool(r, &identity->shuffle);
    if (strcmp(key, "drop_last") == 0)
        return read_bool(r, &identity->drop_last);
    if (strcmp(key, "data") == 0)
        return read_u64(r, 16, &identity->data);
    return pass_over(r);
}

static sw_status differs(const reader *r, uint32_t k, const char *what, uint64_t there,
                         uint64_t here)
{
    if (there == here)
        return SW_OK;
    SW_FAIL(SW_INVALID, "%s: %s of loader %u was %" PRIu64 " there and is %" PRIu64 " here",
            r->json.path, what, k, there, here);
}

static sw_status check_loader(const reader *r, uint32_t k)
{
    sw_checkpoint *c = r->c;
    const swi_loader_identity *there = &r->loader.identity;
    if (c == NULL)
        return SW_OK;
    if (k >= c->n_loaders)
        SW_FAIL(SW_INVALID, "%s: the run that saved it had more than %u loaders", r->json.path,
                c->n_loaders);
    const swi_loader_identity *here = &c->positions[k].identity;
    SW_TRY(differs(r, k, "the batch", (uint64_t)there->batch, (uint64_t)here->batch));
    SW_TRY(differs(r, k, "the number of samples", (uint64_t)there->samples,
                   (uint64_t)here->samples));
    SW_TRY(differs(r, k, "the seed", there->seed, here->seed));
    SW_TRY(differs(r, k, "the shuffling", there->shuffle, here->shuffle));
    SW_TRY(differs(r, k, "drop_last", there->drop_last, here->drop_last));
    if (there->data != here->data)
        SW_FAIL(SW_INVALID,
                "%s: the samples of loader %u are others than there: their checksum was "
                "%016" PRIx64 " and is %016" PRIx64,
                r->json.path, k, there->data, here->data);
    c->positions[k].begun = r->loader.begun;
    c->positions[k].epoch = r->loader.epoch;
    c->positions[k].batch = r->loader.batch;
    return SW_OK;
}

static sw_status read_loader(reader *r)
{
    memset(&r->loader, 0, sizeof r->loader);
    SW_TRY(read_object(r, loader_member));
    return check_loader(r, r->out->n_loaders++);
}

static sw_status record_member(reader *r, const char *key)
{
    swi_run_record *out = r->out;
    if (strcmp(key, "version") == 0)
        return sw_json_get_count(&r->json, &out->version);
    if (strcmp(key, "step") == 0)
        return sw_json_get_count(&r->json, &out->step);
    if (strcmp(key, "seed") == 0)
        return read_u64(r, 10, &out->seed);
    if (strcmp(key, "isa") == 0)
        return read_text(r, out->isa, sizeof out->isa);
    if (strcmp(key, "device") == 0)
        return read_text(r, out->device, sizeof out->device);
    if (strcmp(key, "models") == 0)
        return read_list(r, read_model);
    if (strcmp(key, "loaders") == 0)
        return read_list(r, read_loader);
    return pass_over(r);
}

static sw_status check_record(const reader *r)
{
    const swi_run_record *out = r->out;
    const sw_checkpoint *c = r->c;
    if (out->version != SWI_RUN_VERSION)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: it is a checkpoint of version %" PRIu64 "; this library reads version %d",
                r->json.path, out->version, SWI_RUN_VERSION);
    if (c == NULL)
        return SW_OK;
    const uint64_t seed = swi_target_of(c->exec)->opts.seed;
    if (out->seed != seed)
        SW_FAIL(SW_INVALID,
                "%s: the seed of random ops was %" PRIu64 " there and is %" PRIu64 " here",
                r->json.path, out->seed, seed);
    if (out->n_models != c->n_groups || out->n_loaders != c->n_loaders)
        SW_FAIL(SW_INVALID,
                "%s: it has %u models and %u loaders; the run that goes on has %u and %u",
                r->json.path, out->n_models, out->n_loaders, c->n_groups, c->n_loaders);
    return SW_OK;
}

sw_status swi_run_record_read(const char *text, size_t bytes, const char *path,
                              swi_run_record *out, sw_checkpoint *c)
{
    reader r = {.json = sw_json_in_text(text, bytes, path), .out = out, .c = c};
    r.json.of = " of its record";
    memset(out, 0, sizeof *out);
    SW_TRY(read_object(&r, record_member));
    return check_record(&r);
}
