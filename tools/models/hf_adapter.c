#include "tools/models/hf_adapter.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
#include "profiler/record/utf8.h"
#include "runtime/base/text_file.h"
#include "tools/cli/cli.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CONFIG "adapter_config.json"
#define TENSORS "adapter_model.safetensors"
#define CONFIG_MOST ((size_t)16 << 20)
enum { SHOWN = 60 }; /* of a value in a message */

/* Before the names of modules in the files of peft. */
static const char *prefix_of(hf_family family)
{
    return family == HF_GPT2 ? "base_model.model.transformer." : "base_model.model.model.";
}

/* ---- adapter_config.json ----------------------------------------------------------------- */

typedef struct {
    hf_adapter_shape *to;
    bool has_alpha, is_lora;
} reading;

/* That change what an adapter is, unless they are null, false or empty. */
static const char *const not_built[] = {
    "use_dora",          "modules_to_save",         "lora_bias",
    "use_qalora",        "trainable_token_indices", "target_parameters",
    "layer_replication", "alora_invocation_tokens", "use_bdlora",
    "arrow_config"};

static sw_status refuse(const sw_json_in *in, const char *key, size_t at, const char *must)
{
    char value[SHOWN + 1], clean[SHOWN];
    const size_t n = in->at - at;
    snprintf(value, sizeof value, "%.*s", (int)(n < SHOWN ? n : SHOWN),
             (const char *)in->text + at);
    sw_utf8_clean(clean, sizeof clean, value);
    SW_FAIL(SW_UNSUPPORTED, "%s: '%s' is %s; it must be %s", in->path, key, clean, must);
}

static sw_status need_none(sw_json_in *in, const char *key)
{
    static const char *const none[] = {"null", "false", "[]", "{}"};
    const size_t at = in->at;
    SW_TRY(sw_json_skip(in));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (in->at - at == strlen(none[i]) && memcmp(in->text + at, none[i], in->at - at) == 0)
            return SW_OK;
    return refuse(in, key, at, "null: stepwell has plain LoRA");
}

static sw_status need_word(sw_json_in *in, const char *key, const char *must)
{
    char word[SHOWN], said[SHOWN + 2];
    const size_t at = in->at;
    SW_TRY(sw_json_get_text(in, word, sizeof word));
    snprintf(said, sizeof said, "'%s'", must);
    return strcmp(word, must) == 0 ? SW_OK : refuse(in, key, at, said);
}

/* Ways of drawing A and B; some change the base, too. */
static sw_status read_init(sw_json_in *in, const char *key)
{
    static const char *const changes[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    char word[SHOWN];
    const size_t at = in->at;
    if (in->text[at] != '"')
        return sw_json_skip(in);
    SW_TRY(sw_json_get_text(in, word, sizeof word));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (strncmp(word, changes[i], strlen(changes[i])) == 0)
            return refuse(in, key, at,
                          "one that leaves the base as it is: peft can save this adapter for "
                          "the base as it was (path_initial_model_for_weight_conversion)");
    return SW_OK;
}

static sw_status read_pattern(sw_json_in *in, const char *key, void *context)
{
    hf_adapter_shape *to = context;
    sw_json_number number;
    char shown[SHOWN];
    SW_TRY(sw_json_get_number(in, &number));
    sw_utf8_clean(shown, sizeof shown, key);
    if (strpbrk(key, "*+?[](){}|^$\\") != NULL)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: 'alpha_pattern' has '%s'; names of modules must be without signs of "
                "regular expressions",
                in->path, shown);
    if (to->n_patterns == HF_ADAPTER_PATTERNS || strlen(key) >= HF_MODULE_BYTES)
        SW_FAIL(SW_UNSUPPORTED, "%s: 'alpha_pattern' must have at most %d names of %d bytes",
                in->path, HF_ADAPTER_PATTERNS, HF_MODULE_BYTES - 1);
    snprintf(to->pattern[to->n_patterns].module, HF_MODULE_BYTES, "%s", key);
    to->pattern[to->n_patterns++].alpha = number.real;
    return SW_OK;
}

static sw_status read_member(sw_json_in *in, const char *key, void *context)
{
    reading *r = context;
    hf_adapter_shape *to = r->to;
    sw_json_number number;
    sw_json_word word;
    uint64_t rank;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    for (size_t i = 0; i < sizeof not_built / sizeof *not_built; i++)
        if (strcmp(key, not_built[i]) == 0)
            return need_none(in, key);
    if (strcmp(key, "peft_type") == 0) {
        r->is_lora = true;
        return need_word(in, key, "LORA");
    }
    if (strcmp(key, "bias") == 0)
        return need_word(in, key, "none");
    if (strcmp(key, "init_lora_weights") == 0)
        return read_init(in, key);
    if (strcmp(key, "alpha_pattern") == 0 && c == '{')
        return sw_json_get_object(in, read_pattern, to);
    if (strcmp(key, "use_rslora") == 0) {
        SW_TRY(sw_json_get_word(in, &word));
        to->rslora = word == SW_JSON_TRUE;
        return SW_OK;
    }
    if (strcmp(key, "r") == 0) {
        const size_t at = in->at;
        SW_TRY(sw_json_get_count(in, &rank));
        if (rank < 1)
            return refuse(in, key, at, "at least 1");
        to->rank = rank < INT32_MAX ? (int64_t)rank : INT32_MAX;
        return SW_OK;
    }
    const bool alpha = strcmp(key, "lora_alpha") == 0;
    if (!alpha && strcmp(key, "lora_dropout") != 0)
        return sw_json_skip(in);
    SW_TRY(sw_json_get_number(in, &number));
    *(alpha ? &to->alpha : &to->dropout) = number.real;
    r->has_alpha |= alpha;
    return SW_OK;
}

static sw_status read_config(hf_adapter_shape *to, const char *path)
{
    char *text;
    size_t bytes;
    reading r = {.to = to};
    int c;
    SW_TRY(swi_text_load(&text, &bytes, path, "a configuration of an adapter", CONFIG_MOST));
    sw_json_in in = sw_json_in_text(text, bytes, path);
    in.line = 1;
    sw_status status = sw_json_get_object(&in, read_member, &r);
    if (status == SW_OK)
        status = sw_json_peek(&in, &c);
    if (status == SW_OK && c >= 0)
        status = sw_json_bad(&in, "the text must end here");
    sw_text_free(text, bytes);
    SW_TRY(status);
    if (!r.is_lora || !r.has_alpha || to->rank < 1)
        SW_FAIL(SW_FORMAT, "%s: '%s' is missing", path,
                !r.is_lora     ? "peft_type"
                : !r.has_alpha ? "lora_alpha"
                               : "r");
    if (!(to->dropout >= 0.0 && to->dropout < 1.0))
        SW_FAIL(SW_FORMAT, "%s: 'lora_dropout' must be at least 0 and below 1 (got %g)", path,
                to->dropout);
    return SW_OK;
}

sw_status hf_adapter_open(hf_adapter_shape *out, const char *folder)
{
    char path[SWI_FOLDER_PATH + 64];
    hf_adapter_shape shape = {0};
    snprintf(path, sizeof path, "%s/%s", folder, CONFIG);
    SW_TRY(read_config(&shape, path));
    snprintf(path, sizeof path, "%s/%s", folder, TENSORS);
    SW_TRY(swi_tensors_open(&shape.file, path));
    const char *of = swi_tensors_text(shape.file, HF_BASE_KEY);
    snprintf(shape.of, sizeof shape.of, "%s", of != NULL ? of : "");
    *out = shape;
    return SW_OK;
}

void hf_adapter_tell(const hf_adapter_shape *shape, const char *folder, const char *is,
                     const char *base)
{
    const size_t hash = strcspn(is, " ");
    const char *kind = shape->of + strcspn(shape->of, " "), *now = is + hash;
    char clean[SHOWN];
    if (shape->of[0] == '\0' || strncmp(shape->of, is, hash) == 0)
        return;
    sw_utf8_clean(clean, sizeof clean, kind);
    if (*kind == ' ' && strcmp(kind, now) != 0)
        cli_note("--adapter %s was trained with --weights%s; this is --weights%s", folder,
                 clean, now);
    else
        cli_note("--adapter %s was trained beside other weights than those of %s", folder,
                 base);
}

void hf_adapter_close(hf_adapter_shape *shape)
{
    swi_tensors_close(shape->file);
    shape->file = NULL;
}

/* ---- modules ----------------------------------------------------------------------------- */

/* Is the name, or its end after a dot, this one? */
static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), e = strlen(end);
    return n >= e && strcmp(name + n - e, end) == 0 && (n == e || name[n - e - 1] == '.');
}

static double alpha_of(const hf_adapter_shape *shape, hf_family family, const char *module)
{
    char full[HF_MODULE_BYTES + 16]; /* as peft has it: "model.layers.0..." */
    snprintf(full, sizeof full, "%s%s", prefix_of(family) + strlen("base_model.model."),
             module);
    for (int i = 0; i < shape->n_patterns; i++)
        if (ends_with(full, shape->pattern[i].module))
            return shape->pattern[i].alpha;
    return shape->alpha;
}

sw_status hf_adapter_of(const hf_adapter_shape *shape, hf_family family, const char *module,
                        int64_t in, int64_t out, int64_t *rank, float *scale)
{
    *rank = shape->rank;
    *scale = 0.0f;
    if (shape->file != NULL) {
        char name[2 * HF_MODULE_BYTES];
        const swi_tensors_entry *ab[2];
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%s%s.lora_%c.weight", prefix_of(family), module,
                     "AB"[i]);
            ab[i] = swi_tensors_find(shape->file, name);
        }
        *rank = 0;
        if (ab[0] == NULL && ab[1] == NULL)
            return SW_OK;
        if (ab[0] == NULL || ab[1] == NULL)
            SW_FAIL(SW_FORMAT, "%s: '%s.lora_%c.weight' is missing",
                    swi_tensors_path(shape->file), module, "AB"[ab[0] != NULL]);
        const int64_t r = ab[0]->dim[0];
        if (ab[0]->rank != 2 || ab[1]->rank != 2 || r < 1 || ab[0]->dim[1] != in ||
            ab[1]->dim[0] != out || ab[1]->dim[1] != r)
            SW_FAIL(SW_FORMAT,
                    "%s: lora_A and lora_B of '%s' must be (rank, %lld) and (%lld, rank): the "
                    "adapter is of another model",
                    swi_tensors_path(shape->file), module, (long long)in, (long long)out);
        *rank = r;
    }
    const double by = shape->rslora ? sqrt((double)*rank) : (double)*rank;
    *scale = *rank > 0 ? (float)(alpha_of(shape, family, module) / by) : 0.0f;
    return SW_OK;
}

sw_status hf_adapter_all_taken(const hf_adapter_shape *shape, hf_family family,
                               const sw_model *model)
{
    const char *prefix = prefix_of(family);
    const uint32_t n = shape->file != NULL ? swi_tensors_count(shape->file) : 0;
    if (model->declared != SW_OK) /* sw_model_ready says why there are fewer */
        return SW_OK;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = swi_tensors_at(shape->file, i)->name;
        char shown[2 * SHOWN];
        uint32_t k = strncmp(name, prefix, strlen(prefix)) == 0 ? 1 : model->n_entries;
        while (k < model->n_entries &&
               strcmp(model->entries[k].name, name + strlen(prefix)) != 0)
            k++;
        sw_utf8_clean(shown, sizeof shown, name);
        if (k >= model->n_entries)
            SW_FAIL(SW_FORMAT, "%s: '%s' is of no linear that %s has with an adapter",
                    swi_tensors_path(shape->file), shown, hf_family_name(family));
    }
    return n > 0 || shape->file == NULL
               ? SW_OK
               : sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: has no tensors",
                              swi_tensors_path(shape->file));
}

/* ---- numbers ----------------------------------------------------------------------------- */

sw_status hf_adapter_load(const char *folder, hf_family family, sw_model *model)
{
    char path[SWI_FOLDER_PATH + 64];
    swi_tensors *file;
    swi_tensor_list list = {0};
    snprintf(path, sizeof path, "%s/%s", folder, TENSORS);
    SW_TRY(swi_tensors_open(&file, path));
    sw_status status = swi_model_take(model);
    if (status == SW_OK) {
        status = swi_list_models(&list, &model, 1, 1u << SWI_ROLE_PARAMETER, prefix_of(family));
        if (status == SW_OK)
            status = swi_tensors_load(file, &list, false, "the adapter");
        swi_model_give(model);
    }
    swi_list_free(&list);
    swi_tensors_close(file);
    return status;
}

typedef struct {
    const hf_adapter_shape *shape;
    const hf_config *config;
    sw_model *model;
    const char *base, *hash;
} saving;

static sw_status write_tensors(void *context, sw_file *file)
{
    const saving *s = context;
    swi_tensor_list list = {0};
    const swi_tensors_note note = {HF_BASE_KEY, s->hash};
    sw_model *model = s->model;
    sw_status status = swi_list_models(&list, &model, 1, 1u << SWI_ROLE_PARAMETER,
                                       prefix_of(s->config->family));
    if (status == SW_OK)
        status = swi_tensors_write(file, &list, &note, 1);
    swi_list_free(&list);
    return status;
}

/* The modules of the adapters: of entries, A alone. */
static bool module_of(const swi_entry *e, char module[HF_MODULE_BYTES])
{
    static const char end[] = ".lora_A.weight";
    const size_t n = strlen(e->name), k = sizeof end - 1;
    if (e->role != SWI_ROLE_PARAMETER || n <= k || strcmp(e->name + n - k, end) != 0)
        return false;
    snprintf(module, HF_MODULE_BYTES, "%.*s", (int)(n - k), e->name);
    return true;
}

/* "q_proj" of "layers.0.self_attn.q_proj"; how many modules end so, and is it the first? */
static const char *last_part(const saving *s, const char *module, uint32_t before, int64_t *n,
                             bool *first)
{
    char other[HF_MODULE_BYTES];
    const char *last = strrchr(module, '.') + 1;
    *n = 0;
    *first = true;
    for (uint32_t i = 1; i < s->model->n_entries; i++)
        if (module_of(&s->model->entries[i], other) &&
            strcmp(strrchr(other, '.') + 1, last) == 0) {
            ++*n;
            *first &= i >= before;
        }
    return last;
}

/* Where all modules with a last part have adapters, that part; else their names. */
static void put_modules(sw_json *j, const saving *s)
{
    char module[HF_MODULE_BYTES];
    sw_json_open(j, "target_modules", '[');
    for (uint32_t i = 1; i < s->model->n_entries; i++) {
        int64_t n;
        bool first;
        if (!module_of(&s->model->entries[i], module))
            continue;
        const char *last = last_part(s, module, i, &n, &first);
        const bool two = s->config->family == HF_GPT2 && strcmp(last, "c_proj") == 0;
        if (n < s->config->layers * (two ? 2 : 1))
            sw_json_string(j, module);
        else if (first)
            sw_json_string(j, last);
    }
    sw_json_end(j);
}

/* Ranks, or alphas, that are not those of all others. */
static void put_patterns(sw_json *j, const saving *s, bool ranks)
{
    char module[HF_MODULE_BYTES];
    sw_json_open(j, ranks ? "rank_pattern" : "alpha_pattern", '{');
    for (uint32_t i = 1; i < s->model->n_entries; i++) {
        const swi_entry *e = &s->model->entries[i];
        if (!module_of(e, module))
            continue;
        const double alpha = alpha_of(s->shape, s->config->family, module);
        if (ranks && e->shape.dim[0] != s->shape->rank)
            sw_json_put_i64(j, module, e->shape.dim[0]);
        else if (!ranks && alpha != s->shape->alpha)
            sw_json_put_f64(j, module, alpha);
    }
    sw_json_end(j);
}

static sw_status save_config(const saving *s, const char *path)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "peft_type", "LORA");
    sw_json_put_string(&j, "task_type", "CAUSAL_LM");
    sw_json_put_string(&j, "base_model_name_or_path", s->base);
    sw_json_put_i64(&j, "r", s->shape->rank);
    sw_json_put_f64(&j, "lora_alpha", s->shape->alpha);
    sw_json_put_f64(&j, "lora_dropout", s->shape->dropout);
    sw_json_put_bool(&j, "use_rslora", s->shape->rslora);
    sw_json_put_string(&j, "bias", "none");
    sw_json_put_bool(&j, "fan_in_fan_out", s->config->family == HF_GPT2);
    sw_json_put_bool(&j, "inference_mode", true);
    put_modules(&j, s);
    put_patterns(&j, s, true);
    put_patterns(&j, s, false);
    sw_json_end(&j);
    sw_json_line(&j);
    sw_status status = j.status;
    if (status == SW_OK)
        status = sw_file_replace_bytes(path, j.bytes, j.used);
    sw_json_free(&j);
    return status;
}

sw_status hf_adapter_save(const hf_adapter_shape *shape, const hf_config *config,
                          sw_model *model, const char *base, const char *hash,
                          const char *folder)
{
    saving s = {shape, config, model, base, hash};
    char path[SWI_FOLDER_PATH + 64];
    SW_TRY(sw_folder_make(folder));
    SW_TRY(swi_model_take(model));
    snprintf(path, sizeof path, "%s/%s", folder, CONFIG);
    sw_status status = save_config(&s, path);
    snprintf(path, sizeof path, "%s/%s", folder, TENSORS);
    if (status == SW_OK)
        status = sw_file_replace(path, write_tensors, &s);
    swi_model_give(model);
    return status;
}
