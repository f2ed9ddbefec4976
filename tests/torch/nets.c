/* The models of the program in a library for sides.py, which is libstepwell too. */
#include "tools/models/models.h"
#include <stdlib.h>

tool_net *net_new(const char *model, const sw_dataset_info *data,
                  const sw_optimizer_opts *optimizer, const int64_t counts[5],
                  const double factors[2], float pixels[2]);
void net_free(tool_net *net);

/* A net for such data; `pixels` receives the scale and the shift of its bytes. counts: layers,
 * width, heads, context, vocabulary; factors: of width and depth; as tool_settings. NULL:
 * sw_last_error() says why. */
tool_net *net_new(const char *model, const sw_dataset_info *data,
                  const sw_optimizer_opts *optimizer, const int64_t counts[5],
                  const double factors[2], float pixels[2])
{
    tool_net *net = malloc(sizeof *net);
    tool_net_opts o = {.model = tool_model_find(model),
                       .settings = TOOL_SETTINGS_NONE,
                       .data = *data,
                       .optimizer = *optimizer};
    o.settings.layers = counts[0];
    o.settings.width = counts[1];
    o.settings.heads = counts[2];
    o.settings.context = counts[3];
    o.settings.vocabulary = counts[4];
    o.settings.width_factor = factors[0];
    o.settings.depth_factor = factors[1];
    if (net == NULL || tool_settings_complete(o.model, &o.settings) != CLI_GO ||
        tool_net_create(net, &o) != SW_OK) {
        free(net);
        return NULL;
    }
    pixels[0] = net->scale[0];
    pixels[1] = net->shift[0];
    return net;
}

void net_free(tool_net *net)
{
    tool_net_destroy(net);
    free(net);
}
