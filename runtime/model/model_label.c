/* See model_label.h. */
#include "runtime/model/model_label.h"
#include <stdio.h>
#include <string.h>

void swi_path_of(char *name)
{
    while ((name = strchr(name, '.')) != NULL)
        *name = '/';
}

/* The model's place among those of its name, from 1; 0: the name is its own. */
static int place_of(const sw_run_args *args, const sw_model *model)
{
    int like = 0, place = 0;
    for (int m = 0; m < args->n_models; m++) {
        if (strcmp(args->models[m]->name, model->name) != 0)
            continue;
        like++;
        if (args->models[m] == model)
            place = like;
    }
    return like > 1 ? place : 0;
}

const char *swi_model_label(const sw_run_args *args, const sw_model *model,
                            char to[SWI_LABEL_BYTES])
{
    to[0] = '\0';
    if (args == NULL || args->n_models < 2)
        return to;
    const int place = place_of(args, model);
    if (place > 0)
        snprintf(to, SWI_LABEL_BYTES, "%s#%d/", model->name, place);
    else
        snprintf(to, SWI_LABEL_BYTES, "%s/", model->name);
    swi_path_of(to);
    return to;
}

const char *swi_entry_shown(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES])
{
    char label[SWI_LABEL_BYTES];
    snprintf(to, SWI_SHOWN_BYTES, "%s%s", swi_model_label(args, model, label), name);
    return to;
}

static bool has_entry(const sw_model *model, const char *name)
{
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (strcmp(model->entries[i].name, name) == 0)
            return true;
    return false;
}

const char *swi_entry_layer(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES])
{
    char label[SWI_LABEL_BYTES], own[SWI_SHOWN_BYTES];
    snprintf(own, sizeof own, "%s", name);
    do {
        char *dot = strrchr(own, '.');
        *(dot != NULL ? dot : own) = '\0';
    } while (*own != '\0' && has_entry(model, own));
    swi_path_of(own);
    swi_model_label(args, model, label);
    if (*own == '\0' && *label != '\0')
        label[strlen(label) - 1] = '\0'; /* of no layer: of the model itself */
    snprintf(to, SWI_SHOWN_BYTES, "%s%.*s", label, (int)(SWI_SHOWN_BYTES - sizeof label), own);
    return to;
}
