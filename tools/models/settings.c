/* The settings of models: one table gives their options, the other, in each model, who takes
 * them. */
#include "alloc/base/mem.h"
#include "tools/models/hf_net.h"
#include "tools/models/models.h"
#include <string.h>

/* The table of models. */

static const tool_model *const models[] = {
    &tool_mlp, &tool_lenet5, &tool_swishnet, &tool_gpt, &tool_mbconv, &tool_resnet9, &tool_hf};
enum { N_MODELS = sizeof models / sizeof *models };

const tool_model *tool_model_at(int i)
{
    return i >= 0 && i < N_MODELS ? models[i] : NULL;
}

const tool_model *tool_model_find(const char *name)
{
    for (int i = 0; i < N_MODELS; i++) {
        const size_t n = strlen(models[i]->name);
        if (strncmp(models[i]->name, name, n) == 0 &&
            name[n] == (models[i]->settle != NULL ? ':' : '\0'))
            return models[i];
    }
    return NULL;
}

const char *const *tool_model_words(void)
{
    static const char *words[N_MODELS + 1];
    for (int i = 0; i < N_MODELS; i++)
        words[i] = models[i]->settle != NULL ? "hf:" : models[i]->name;
    return words;
}

const char *tool_model_help(void)
{
    static char text[1000];
    size_t used = 0;
    for (int i = 0; i < N_MODELS && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s (%s)",
                                 i == 0              ? ""
                                 : i + 1 == N_MODELS ? " or "
                                                     : ", ",
                                 models[i]->name, models[i]->about);
    return text;
}

/* ---- activation -------------------------------------------------------------------------- */

/* Activations by name. */

typedef sw_value activation(sw_ctx *ctx, sw_value x);

/* Swish from primitive ops, as one writes it without knowing what backward keeps: the product
 * keeps both factors, the sigmoid its output. */
static sw_value swish_naive(sw_ctx *ctx, sw_value x)
{
    return sw_mul(ctx, x, sw_sigmoid(ctx, x));
}

static sw_value leaky_relu(sw_ctx *ctx, sw_value x)
{
    return sw_leaky_relu(ctx, x, 0.01f);
}

static sw_value elu(sw_ctx *ctx, sw_value x)
{
    return sw_elu(ctx, x, 1.0f);
}

static const struct {
    const char *name;
    activation *apply;
} activations[] = {
    {"relu", sw_relu},
    {"leaky-relu", leaky_relu},
    {"swish", sw_swish},
    {"swish-naive", swish_naive},
    {"hard-swish", sw_hard_swish},
    {"gelu", sw_gelu},
    {"gelu-tanh", sw_gelu_tanh},
    {"mish", sw_mish},
    {"softplus", sw_softplus},
    {"elu", elu},
    {"selu", sw_selu},
    {"tanh", sw_tanh},
    {"sigmoid", sw_sigmoid},
};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

static const char *const *tool_activation_words(void)
{
    static const char *words[N_ACTIVATIONS + 1];
    for (int i = 0; i < N_ACTIVATIONS; i++)
        words[i] = activations[i].name;
    return words;
}

sw_value tool_activate(sw_ctx *ctx, const tool_net *net, sw_value x)
{
    const char *name = net->settings.activation;
    for (int i = 0; name != NULL && i < N_ACTIVATIONS; i++)
        if (strcmp(activations[i].name, name) == 0)
            return activations[i].apply(ctx, x);
    sw_fail(ctx, SW_INVALID, "the model's settings name no activation that is known");
    return (sw_value){0};
}

/* ---- settings ---------------------------------------------------------------------------- */

typedef struct {
    const char *name, *value;
    cli_kind kind;
    size_t at; /* in tool_settings */
    const char *help;
    int64_t min, max;
} setting;

#define AT(field) offsetof(tool_settings, field)
static const setting settings[TOOL_SETTINGS] = {
    [TOOL_HIDDEN] = {"--hidden", "LIST", CLI_LIST, AT(hidden), "widths of the hidden layers", 1,
                     1 << 20},
    [TOOL_POOL] = {"--pool", "N", CLI_COUNT, AT(pool),
                   "means of N x N pixels before the first layer", 1, 1 << 10},
    [TOOL_LAYERS] = {"--layers", "N", CLI_COUNT, AT(layers), "number of layers", 1, 1024},
    [TOOL_WIDTH] = {"--width", "N", CLI_COUNT, AT(width), "features of each layer", 1, 1 << 20},
    [TOOL_HEADS] = {"--heads", "N", CLI_COUNT, AT(heads), "heads of each attention", 1, 1024},
    [TOOL_CONTEXT] = {"--context", "N", CLI_COUNT, AT(context), "positions that attention sees",
                      1, 1 << 20},
    [TOOL_VOCABULARY] = {"--vocabulary", "N", CLI_COUNT, AT(vocabulary), "number of ids", 1,
                         1 << 24},
    [TOOL_WIDTH_FACTOR] = {"--width-factor", "X", CLI_REAL, AT(width_factor),
                           "multiplies the channels", 0, 0},
    [TOOL_DEPTH_FACTOR] = {"--depth-factor", "X", CLI_REAL, AT(depth_factor),
                           "multiplies the layers of a stage", 0, 0},
    [TOOL_IMAGE_SIZE] = {"--image-size", "N", CLI_COUNT, AT(image_size),
                         "height and width of the images that the first layer gets", 1,
                         1 << 14},
    [TOOL_CLASSES] = {"--classes", "N", CLI_COUNT, AT(classes), "outputs of the last layer", 1,
                      1 << 20},
    [TOOL_DROPOUT] = {"--dropout", "X", CLI_REAL, AT(dropout),
                      "share of the activations that dropout sets to 0", 0, 0},
    [TOOL_ACTIVATION] = {"--activation", "NAME", CLI_WORD, AT(activation),
                         "activation after each layer", 0, 0},
    [TOOL_STEM_STRIDE] = {"--stem-stride", "N", CLI_COUNT, AT(stem_stride),
                          "stride of the first convolution", 1, 8},
    [TOOL_BN_MOMENTUM] = {"--bn-momentum", "X", CLI_REAL, AT(bn_momentum),
                          "weight of a batch in batch norm's running statistics", 0, 0},
    [TOOL_LORA] =
        {"--lora", "R", CLI_COUNT, AT(lora),
         "rank of an adapter (LoRA) beside each linear but the head, whose weights are "
         "frozen; without it and --adapter all parameters are trained",
         1, 1 << 14},
    [TOOL_LORA_ALPHA] = {"--lora-alpha", "X", CLI_REAL, AT(lora_alpha),
                         "adapters are scaled by X / R (default 2 R)", 0, 0},
    [TOOL_WEIGHTS] = {"--weights", "KIND", CLI_WORD, AT(weights),
                      "frozen matrices in memory: file, as the folder has them (F16 becomes "
                      "f32), f32, bf16, int8 (a scale for each row) or 4bit (NF4 as QLoRA; "
                      "tables stay bf16) (default file)",
                      0, 0},
    [TOOL_ADAPTER] = {"--adapter", "DIR", CLI_WORD, AT(adapter),
                      "begin with the adapters of a folder of peft (LoRA)", 0, 0},
};

static cli_option option_of(const setting *s, tool_settings *to)
{
    const char *const *words = s == &settings[TOOL_ACTIVATION] ? tool_activation_words()
                               : s == &settings[TOOL_WEIGHTS]  ? hf_weights_words
                                                               : NULL;
    return (cli_option)SW_INIT(.name = s->name, .value = s->value, .kind = s->kind,
                               .to = (char *)to + s->at, .help = s->help, .min = s->min,
                               .max = s->max, .words = words);
}

static bool given(const setting *s, const tool_settings *in)
{
    const char *at = (const char *)in + s->at;
    cli_list list;
    int64_t count;
    double real;
    const char *word;
    switch (s->kind) {
    case CLI_LIST:
        memcpy(&list, at, sizeof list);
        return list.n > 0;
    case CLI_COUNT:
        memcpy(&count, at, sizeof count);
        return count > 0;
    case CLI_REAL:
        memcpy(&real, at, sizeof real);
        return real >= 0.0;
    default:
        memcpy(&word, at, sizeof word);
        return word != NULL;
    }
}

/* "widths of the hidden layers (mlp: 128,64; other: from the data)"; false: no one takes it. */
static bool write_help(int which, char *text, size_t bytes)
{
    const tool_model *m;
    size_t used = (size_t)snprintf(text, bytes, "%s", settings[which].help);
    const char *before = " (";
    if (which >= TOOL_LORA) /* of one model: all is said */
        return true;
    for (int i = 0; (m = tool_model_at(i)) != NULL; i++) {
        const char *initial = m->takes[which];
        if (initial == NULL || used >= bytes)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s: %s", before, m->name,
                                 *initial != '\0'       ? initial
                                 : m->otherwise != NULL ? m->otherwise
                                                        : "as the data have");
        before = "; ";
    }
    if (used < bytes)
        snprintf(text + used, bytes - used, ")");
    return strcmp(before, " (") != 0;
}

int tool_settings_options(tool_settings *to, cli_option *table, int n)
{
    static char help[TOOL_SETTINGS][400];
    *to = TOOL_SETTINGS_NONE;
    for (int i = 0; i < TOOL_SETTINGS; i++) {
        if (!write_help(i, help[i], sizeof help[i]))
            continue;
        table[n] = option_of(&settings[i], to);
        table[n++].help = help[i];
    }
    return n;
}

int tool_settings_options_of(const tool_model *model, tool_settings *to, cli_option *table,
                             int n)
{
    *to = TOOL_SETTINGS_NONE;
    for (int i = 0; i < TOOL_SETTINGS; i++) {
        const char *initial = model->takes[i];
        if (initial == NULL)
            continue;
        table[n] = option_of(&settings[i], to);
        table[n++].initial = *initial != '\0' ? initial : NULL;
    }
    return n;
}

bool tool_settings_option(const tool_model *model, tool_settings *in, int i, cli_option *out)
{
    *out = option_of(&settings[i], in);
    return model->takes[i] != NULL;
}

cli_text tool_settings_takers(int which)
{
    const tool_model *m;
    cli_text text = {""};
    size_t used = 0;
    for (int i = 0; (m = tool_model_at(i)) != NULL && used < sizeof text.text; i++)
        if (m->takes[which] != NULL)
            used += (size_t)snprintf(text.text + used, sizeof text.text - used, "%s%s",
                                     used > 0 ? " or " : "", m->name);
    return text;
}

int tool_settings_complete(const tool_model *model, tool_settings *to)
{
    for (int i = 0; i < TOOL_SETTINGS; i++) {
        const cli_option option = option_of(&settings[i], to);
        const char *initial = model->takes[i];
        if (given(&settings[i], to)) {
            if (initial == NULL)
                return cli_error(CLI_USAGE,
                                 "%s has no effect without --model %s: %s takes none",
                                 option.name, tool_settings_takers(i).text, model->name);
            continue;
        }
        const int status =
            initial != NULL && *initial != '\0' ? cli_set(&option, initial) : CLI_GO;
        if (status != CLI_GO)
            return status;
    }
    return CLI_GO;
}
