/* Activations by name. */
#include "tools/models/models.h"
#include <string.h>

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

const char *const *tool_activation_words(void)
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
