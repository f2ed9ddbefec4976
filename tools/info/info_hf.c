/* stepwell info hf:NAME: a folder of transformers. */
#include "tools/info/info_found.h"
#include "tools/models/hf_tensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const types[] = {"F32", "BF16", "F16"};
enum { TYPES = 3 };

typedef struct {
    uint64_t numbers, of_type[TYPES];
} counts;

static sw_status count(void *context, const hf_tensor *tensor)
{
    counts *c = context;
    const uint64_t n =
        (uint64_t)tensor->dim[0] * (uint64_t)(tensor->rank > 1 ? tensor->dim[1] : 1);
    c->numbers += n;
    for (int i = 0; i < TYPES && tensor->data != NULL; i++)
        c->of_type[i] += strcmp(tensor->data->entry->dtype, types[i]) == 0 ? n : 0;
    return SW_OK;
}

static void note_config(found *f, const hf_config *c)
{
    found_note(f, "family", "%s", hf_family_name(c->family));
    found_note(f, "layers", "%" PRId64, c->layers);
    found_note(f, "width", "%" PRId64 ", inside of layers %" PRId64, c->hidden, c->inner);
    found_note(f, "heads", "%" PRId64 " of %" PRId64 ", keys and values %" PRId64, c->heads,
               c->head_dim, c->heads_kv);
    found_note(f, "vocabulary", "%" PRId64 "%s", c->vocabulary,
               c->tied ? ", the head is its table" : "");
    found_note(f, "context", "%" PRId64, c->context);
    if (c->window > 0)
        found_note(f, "window", "%" PRId64 ": a context must not pass it", c->window);
    if (c->rope.kind != HF_ROPE_NONE)
        found_note(f, "positions", "rotary, theta %g%s", c->rope.theta,
                   c->rope.kind == HF_ROPE_LLAMA3 ? ", llama3" : "");
    if (c->unknown[0] != '\0')
        found_note(f, "ignored", "%s", c->unknown);
}

sw_status found_hf(found *f, const char *name)
{
    static char folder[SWI_FOLDER_PATH];
    char path[SWI_FOLDER_PATH + 64], list[200] = "";
    swi_folder *files = NULL;
    hf_config c;
    counts n = {0};
    SW_TRY(swi_folder_find(folder, name));
    snprintf(path, sizeof path, "%s/config.json", folder);
    SW_TRY(hf_config_read(&c, path));
    SW_TRY(hf_weights_open(&files, folder));
    const bool has = files != NULL;
    *f = (found){.path = folder, .kind = "hf", .says = "a model of transformers"};
    const sw_status status = hf_tensors_take(&c, files, count, &n);
    if (status == SW_OK) {
        note_config(f, &c);
        found_note(f, "parameters", "%s", cli_digits(n.numbers).text);
        for (int i = 0; i < TYPES; i++)
            if (n.of_type[i] > 0)
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s %s",
                         list[0] != '\0' ? ", " : "", cli_digits(n.of_type[i]).text, types[i]);
        for (uint32_t i = 0; has && i < files->n_shards; i++)
            f->bytes += swi_tensors_file_bytes(files->shards[i]);
        if (has)
            found_note(f, "weights", "%s in %u file%s", list, files->n_shards,
                       files->n_shards > 1 ? "s" : "");
        else
            found_note(f, "weights", "none here: config.json is alone");
    }
    swi_folder_close(files);
    return status;
}
