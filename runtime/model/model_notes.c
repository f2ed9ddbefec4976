/* Texts that a model saves with its parameters. */
#include "profiler/record/utf8.h"
#include "runtime/model/model.h"
#include <string.h>

/* The note of that key, or the place after the last. */
static swi_note *note_of(sw_model *model, const char *key)
{
    int i = 0;
    while (i < model->n_notes && strcmp(model->notes[i].key, key) != 0)
        i++;
    return &model->notes[i];
}

sw_status sw_model_note(sw_model *model, const char *key, const char *text)
{
    if (model == NULL || key == NULL || key[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_note: model and key must not be NULL, key not empty");
    if (strlen(key) >= sizeof model->notes->key || strcmp(key, "format") == 0 ||
        strncmp(key, SWI_OWN_PREFIX, strlen(SWI_OWN_PREFIX)) == 0)
        SW_FAIL(SW_INVALID,
                "model %s: a note's key must have 1 to %zu bytes, not be 'format' and not "
                "begin with '" SWI_OWN_PREFIX "' (got '%s')",
                model->name, sizeof model->notes->key - 1, key);
    if (text != NULL && strlen(text) >= sizeof model->notes->text)
        SW_FAIL(SW_INVALID, "model %s: the note '%s' must have at most %zu bytes (got %zu)",
                model->name, key, sizeof model->notes->text - 1, strlen(text));
    if (!sw_utf8_whole(key) || (text != NULL && !sw_utf8_whole(text)))
        SW_FAIL(SW_INVALID, "model %s: the note '%s' must be UTF-8, as files have it",
                model->name, key);
    SW_TRY(swi_model_take(model));
    sw_status status = SW_OK;
    swi_note *note = note_of(model, key);
    const bool there = note < &model->notes[model->n_notes];
    if (text == NULL && there)
        *note = model->notes[--model->n_notes];
    else if (text != NULL && !there && model->n_notes == SWI_NOTES)
        status =
            sw_error_set(SW_INVALID, __FILE__, __LINE__,
                         "model %s: has %d notes already, which is the most; '%s' has no place",
                         model->name, SWI_NOTES, key);
    else if (text != NULL) {
        memcpy(note->key, key, strlen(key) + 1);
        memcpy(note->text, text, strlen(text) + 1);
        model->n_notes += !there;
    }
    swi_model_give(model);
    return status;
}
