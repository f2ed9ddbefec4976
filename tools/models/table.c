/* The table of models. */
#include "tools/models/models.h"
#include <string.h>

static const tool_model *const models[] = {&tool_mlp, &tool_lenet5, &tool_swishnet,
                                           &tool_gpt, &tool_mbconv, &tool_resnet9};
enum { N_MODELS = sizeof models / sizeof *models };

const tool_model *tool_model_at(int i)
{
    return i >= 0 && i < N_MODELS ? models[i] : NULL;
}

const tool_model *tool_model_find(const char *name)
{
    for (int i = 0; i < N_MODELS; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    return NULL;
}

const char *const *tool_model_words(void)
{
    static const char *words[N_MODELS + 1];
    for (int i = 0; i < N_MODELS; i++)
        words[i] = models[i]->name;
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
