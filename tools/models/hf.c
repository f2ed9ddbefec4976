/* hf: the model of a folder of transformers; --lora trains adapters beside its frozen
 * weights. */
#include "tools/models/hf_save.h"
#include "tools/models/models.h"
#include <inttypes.h>

enum { CONTEXT = 1024 }; /* positions without --context, where the model has so many */

/* ---- settings ---------------------------------------------------------------------------- */

static sw_status read_config(const tool_settings *s, hf_config *config)
{
    char path[SWI_FOLDER_PATH + 64];
    snprintf(path, sizeof path, "%s/config.json", s->folder);
    return hf_config_read(config, path);
}

static int settle(tool_settings *s, const char *name)
{
    static char folder[SWI_FOLDER_PATH]; /* of the process: a command has one model */
    hf_config config;
    bool beyond;
    CLI_LIBRARY(swi_folder_find(folder, name), true);
    s->folder = folder;
    CLI_LIBRARY(read_config(s, &config), true);
    if (s->context == 0)
        s->context = config.context < CONTEXT ? config.context : CONTEXT;
    if (hf_config_context(&config, s->context, &beyond) != SW_OK)
        return cli_error(CLI_USAGE, "--context: %s", sw_last_error());
    if (beyond)
        cli_note("--context %" PRId64 " is more than the %" PRId64
                 " positions that the model was made for",
                 s->context, config.context);
    s->vocabulary = config.vocabulary;
    if (s->adapter != NULL && (s->lora > 0 || s->lora_alpha >= 0.0))
        return cli_error(CLI_USAGE,
                         "%s and --adapter exclude each other: the adapter's folder says it",
                         s->lora > 0 ? "--lora" : "--lora-alpha");
    if (s->adapter != NULL) { /* refused before data are read */
        hf_adapter_shape adapter;
        CLI_LIBRARY(hf_adapter_open(&adapter, s->adapter), true);
        hf_adapter_close(&adapter);
    }
    if (!s->planned) {
        swi_folder *weights;
        CLI_LIBRARY(swi_folder_open(&weights, folder), true);
        swi_folder_close(weights);
    }
    if (s->lora == 0 && s->adapter == NULL) {
        const char *alone = s->lora_alpha >= 0.0 ? "--lora-alpha"
                            : s->dropout > 0.0   ? "--dropout"
                                                 : NULL;
        if (alone != NULL)
            return cli_error(CLI_USAGE, "%s has no effect without --lora or --adapter", alone);
    }
    if (s->lora_alpha == 0.0)
        return cli_error(CLI_USAGE, "--lora-alpha must be above 0 (got 0)");
    return CLI_GO;
}

static sw_status accepts(const tool_net_opts *o)
{
    const sw_array *ids = &o->data.field[0];
    if (ids->shape.dim[0] != o->settings.context)
        SW_FAIL(SW_INVALID, "hf: %s has no rows of %" PRId64 " ids", o->data.name,
                o->settings.context);
    if (o->settings.vocabulary < o->data.n_classes)
        SW_FAIL(SW_INVALID,
                "hf: a vocabulary of %" PRId64 " is less than the %" PRId64 " ids of %s",
                o->settings.vocabulary, o->data.n_classes, o->data.name);
    return SW_OK;
}

/* ---- net --------------------------------------------------------------------------------- */

static hf_weights kind_of(const tool_settings *s)
{
    return (hf_weights)cli_word_at(hf_weights_words, s->weights);
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    const tool_settings *s = &o->settings;
    hf_config config;
    hf_adapter_shape adapter = {.rank = s->lora,
                                .alpha =
                                    s->lora_alpha > 0.0 ? s->lora_alpha : 2.0 * (double)s->lora,
                                .dropout = s->dropout > 0.0 ? s->dropout : 0.0};
    SW_TRY(read_config(s, &config));
    SW_TRY(tool_net_own(net, hf_net_bytes(config.layers)));
    if (s->adapter != NULL)
        SW_TRY(hf_adapter_open(&adapter, s->adapter));
    if (s->dropout > 0.0)
        adapter.dropout = s->dropout;
    const bool frozen = adapter.rank > 0 || o->frozen;
    sw_status status = frozen ? sw_model_create(&net->models[1], "base") : SW_OK;
    if (status == SW_OK)
        status = hf_net_declare(net->own, s->folder, &config, net->models[1], net->model,
                                kind_of(s), &adapter);
    hf_adapter_close(&adapter);
    return status;
}

static sw_status load(tool_net *net, sw_exec *exec)
{
    hf_net *own = net->own;
    uint64_t hash;
    if (net->models[1] != NULL)
        SW_TRY(sw_model_ready(net->models[1], exec, 0));
    SW_TRY(hf_net_load(own, true, &hash));
    snprintf(net->weights, sizeof net->weights, "%016" PRIx64 " %s", hash,
             hf_weights_words[kind_of(&net->settings)]);
    if (net->settings.adapter == NULL)
        return SW_OK;
    hf_adapter_tell(&own->adapter, net->settings.adapter, net->weights, own->folder);
    return hf_adapter_load(net->settings.adapter, own->config.family, net->model);
}

static void tell(const tool_net *net, FILE *to)
{
    const hf_net *own = net->own;
    const char *folder = net->settings.folder, *family = hf_family_name(own->config.family);
    size_t bytes = 0;
    if (net->models[1] == NULL) {
        fprintf(to, "%s: %s, all %s parameters are trained, without dropout\n", folder, family,
                cli_digits(own->trained).text);
        return;
    }
    if (sw_model_bytes(net->models[1], &bytes) != SW_OK)
        bytes = 0;
    fprintf(to,
            "%s: %s, %s frozen parameters in %s, without dropout; adapters of rank %" PRId64
            ", alpha %g, dropout %g: %s parameters are trained, %.2f %% of all\n",
            folder, family, cli_digits(own->frozen).text, cli_bytes(bytes).text,
            own->adapter.rank, own->adapter.alpha, own->adapter.dropout,
            cli_digits(own->trained).text,
            100.0 * (double)own->trained / (double)(own->trained + own->frozen));
    if (own->not_nf4 > 0)
        fprintf(to, "%d linears stay bf16: their rows are no multiple of 64 numbers\n",
                own->not_nf4);
}

static sw_status save(const tool_net *net, const char *name, const char *path)
{
    const hf_net *own = net->own;
    if (own->adapter.rank == 0)
        return hf_save_model(net->own, path);
    return hf_adapter_save(&own->adapter, &own->config, net->model, name, net->weights, path);
}

static sw_value loss(sw_ctx *ctx, const tool_net *net)
{
    const sw_value x = hf_net_features(ctx, net->own, sw_input(ctx, 0), sw_input(ctx, 2),
                                       sw_input(ctx, 3), NULL);
    return hf_net_loss(ctx, net->own, x, sw_input(ctx, 1));
}

const tool_model tool_hf = {
    .name = "hf",
    .about = "hf:DIR, or hf:ORG/NAME of the hub's cache: gpt2, llama, qwen2, qwen3, mistral",
    .learns = TOOL_DOCUMENTS,
    .synthetic = TOOL_TOKENS,
    .synthetic_n = 64,
    .optimizer = "adamw",
    .lr = 0.0002f,
    .batch = 1,
    .accumulate = 8,
    .otherwise = "as the model has, at most 1024",
    .takes = {[TOOL_CONTEXT] = "",
              [TOOL_DROPOUT] = "0",
              [TOOL_LORA] = "",
              [TOOL_LORA_ALPHA] = "",
              [TOOL_WEIGHTS] = "",
              [TOOL_ADAPTER] = ""},
    .accepts = accepts,
    .settle = settle,
    .declare = declare,
    .load = load,
    .tell = tell,
    .save = save,
    .loss = loss,
};
