/* The text of a checkpoint's run, read member by member. */
#include "runtime/state/run_summary.h"
#include "alloc/base/mem.h"
#include "profiler/record/json_read.h"
#include <string.h>

#define RUN_TEXT_MAX ((uint64_t)16 << 20)

/* A member of an object of `what`, with the given key; *known says whether it was taken. */
typedef sw_status take_member(sw_json_in *in, const char *key, void *what, bool *known);

static sw_status get_bool(sw_json_in *in, bool *out)
{
    sw_json_word word;
    SW_TRY(sw_json_get_word(in, &word));
    *out = word == SW_JSON_TRUE;
    return SW_OK;
}

static sw_status get_number(sw_json_in *in, uint64_t *out)
{
    sw_json_number number;
    SW_TRY(sw_json_get_number(in, &number));
    if (!number.whole || number.minus)
        return sw_json_bad(in, "a whole number of 0 or more was expected");
    *out = number.magnitude;
    return SW_OK;
}

/* ---- objects ----------------------------------------------------------------------------- */

typedef struct {
    take_member *take;
    void *what;
} object;

static sw_status take_or_skip(sw_json_in *in, const char *key, void *context)
{
    const object *o = context;
    bool known = true;
    SW_TRY(o->take(in, key, o->what, &known));
    return known ? SW_OK : sw_json_skip(in);
}

static sw_status get_object(sw_json_in *in, take_member *take, void *what)
{
    object o = {take, what};
    return sw_json_get_object(in, take_or_skip, &o);
}

static sw_status take_of_model(sw_json_in *in, const char *key, void *what, bool *known)
{
    swi_run_model *model = what;
    if (strcmp(key, "name") == 0)
        return sw_json_get_text(in, model->name, sizeof model->name);
    if (strcmp(key, "layout") == 0)
        return sw_json_get_text(in, model->layout, sizeof model->layout);
    if (strcmp(key, "optimizers") == 0)
        return sw_json_get_text(in, model->optimizers, sizeof model->optimizers);
    if (strcmp(key, "members") == 0)
        return get_number(in, &model->members);
    if (strcmp(key, "state_bytes") == 0)
        return get_number(in, &model->state_bytes);
    *known = false;
    return SW_OK;
}

static sw_status take_of_loader(sw_json_in *in, const char *key, void *what, bool *known)
{
    swi_run_loader *loader = what;
    const struct {
        const char *key;
        uint64_t *to;
    } numbers[] = {{"epoch", &loader->epoch},
                   {"batch_index", &loader->batch_index},
                   {"batch_rows", &loader->batch_rows},
                   {"samples", &loader->samples}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return get_number(in, numbers[i].to);
    if (strcmp(key, "seed") == 0)
        return sw_json_get_text(in, loader->seed, sizeof loader->seed);
    if (strcmp(key, "data") == 0)
        return sw_json_get_text(in, loader->data, sizeof loader->data);
    if (strcmp(key, "begun") == 0)
        return get_bool(in, &loader->begun);
    if (strcmp(key, "shuffle") == 0)
        return get_bool(in, &loader->shuffle);
    if (strcmp(key, "keyed") == 0)
        return get_bool(in, &loader->keyed);
    if (strcmp(key, "drop_last") == 0)
        return get_bool(in, &loader->drop_last);
    *known = false;
    return SW_OK;
}

/* An array of objects, each into a new element. */
static sw_status get_array(sw_json_in *in, void **array, uint32_t *n, uint32_t *cap,
                           size_t element, take_member *take)
{
    bool end, more = true;
    SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_accept(in, ']', &end));
    while (!end && more) {
        SW_TRY(sw_heap_reserve(array, SW_HEAP_FILES, cap, *n + 1, element));
        SW_TRY(get_object(in, take, (char *)*array + *n * element));
        ++*n;
        SW_TRY(sw_json_accept(in, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(in, ']');
}

static sw_status take_of_run(sw_json_in *in, const char *key, void *what, bool *known)
{
    swi_run_summary *run = what;
    if (strcmp(key, "version") == 0)
        return get_number(in, &run->version);
    if (strcmp(key, "step") == 0)
        return get_number(in, &run->step);
    if (strcmp(key, "seed") == 0)
        return get_number(in, &run->seed);
    if (strcmp(key, "isa") == 0)
        return sw_json_get_text(in, run->isa, sizeof run->isa);
    if (strcmp(key, "device") == 0)
        return sw_json_get_text(in, run->device, sizeof run->device);
    if (strcmp(key, "models") == 0) {
        void *array = run->models;
        const sw_status status = get_array(in, &array, &run->n_models, &run->cap_models,
                                           sizeof *run->models, take_of_model);
        run->models = array;
        return status;
    }
    if (strcmp(key, "groups") == 0) {
        void *array = run->groups;
        const sw_status status = get_array(in, &array, &run->n_groups, &run->cap_groups,
                                           sizeof *run->groups, take_of_model);
        run->groups = array;
        return status;
    }
    if (strcmp(key, "loaders") == 0) {
        void *array = run->loaders;
        const sw_status status = get_array(in, &array, &run->n_loaders, &run->cap_loaders,
                                           sizeof *run->loaders, take_of_loader);
        run->loaders = array;
        return status;
    }
    *known = false;
    return SW_OK;
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_text(const char *text, size_t bytes, const char *path,
                           swi_run_summary *out)
{
    sw_json_in in = sw_json_in_text(text, bytes, path);
    int c;
    in.of = " of '" SWI_TENSORS_RUN "'";
    in.strict = true;
    SW_TRY(get_object(&in, take_of_run, out));
    SW_TRY(sw_json_peek(&in, &c));
    return c == -1 ? SW_OK : sw_json_bad(&in, "text after the end");
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
    if (status == SW_OK)
        status = read_text(text, bytes, path, out);
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
