/* Trees in two encodings. */
#include "profiler/sink_tree.h"
#include "alloc/mem.h"

void swi_tree_start(swi_tree *t, sw_sink_out *out, bool as_json)
{
    t->as_json = as_json;
    t->out = out;
    t->texts = NULL;
    t->n_texts = t->cap_texts = 0;
    if (as_json)
        sw_json_fixed(&t->json, t->buffer, sizeof t->buffer, sw_sink_drain, out);
    else
        sw_pickle_start(&t->pickle, out);
}

static sw_status end_json(sw_json *j, sw_sink_out *out)
{
    sw_json_line(j);
    SW_TRY(j->status);
    return sw_sink_drain(out, j->bytes, j->used);
}

void swi_tree_stop(swi_tree *t, sw_status *status)
{
    if (*status == SW_OK && t->as_json) {
        *status = end_json(&t->json, t->out);
    } else if (*status == SW_OK) {
        sw_pickle_stop(&t->pickle);
        *status = t->out->status;
    }
    sw_heap_free(t->texts, SW_HEAP_PROFILE, t->cap_texts * sizeof *t->texts);
    t->texts = NULL;
    t->cap_texts = 0;
}

void swi_tree_begin(swi_tree *t, char bracket)
{
    if (t->as_json)
        sw_json_begin(&t->json, bracket);
    else
        sw_pickle_begin(&t->pickle, bracket);
}

void swi_tree_end(swi_tree *t)
{
    if (t->as_json)
        sw_json_end(&t->json);
    else
        sw_pickle_end(&t->pickle);
}

/* ---- texts ------------------------------------------------------------------------------- */

static swi_tree_text *place(swi_tree_text *texts, uint32_t cap, const char *text)
{
    const uint64_t h = (uint64_t)(uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t i = (uint32_t)(h >> 32) & (cap - 1);
    while (texts[i].text != NULL && texts[i].text != text)
        i = (i + 1) & (cap - 1);
    return &texts[i];
}

static sw_status grow(swi_tree *t)
{
    const uint32_t cap = t->cap_texts == 0 ? 256 : t->cap_texts * 2;
    void *fresh;
    SW_TRY(sw_heap_alloc(&fresh, SW_HEAP_PROFILE, cap * sizeof *t->texts));
    for (uint32_t i = 0; i < t->cap_texts; i++)
        if (t->texts[i].text != NULL)
            *place(fresh, cap, t->texts[i].text) = t->texts[i];
    sw_heap_free(t->texts, SW_HEAP_PROFILE, t->cap_texts * sizeof *t->texts);
    t->texts = fresh;
    t->cap_texts = cap;
    return SW_OK;
}

static void pickle_kept(swi_tree *t, const char *text)
{
    if (t->out->status == SW_OK && (t->n_texts + 1) * 2 > t->cap_texts)
        t->out->status = grow(t);
    if (t->out->status != SW_OK)
        return;
    swi_tree_text *at = place(t->texts, t->cap_texts, text);
    if (at->text != NULL) {
        sw_pickle_again(&t->pickle, at->number);
        return;
    }
    sw_pickle_string(&t->pickle, text);
    *at = (swi_tree_text){text, sw_pickle_keep(&t->pickle)};
    t->n_texts++;
}

void swi_tree_key(swi_tree *t, const char *key)
{
    if (t->as_json)
        sw_json_key(&t->json, key);
    else
        pickle_kept(t, key);
}

void swi_tree_text_kept(swi_tree *t, const char *text)
{
    if (t->as_json)
        sw_json_string(&t->json, text);
    else
        pickle_kept(t, text);
}

void swi_tree_text_once(swi_tree *t, const char *text)
{
    if (t->as_json)
        sw_json_string(&t->json, text);
    else
        sw_pickle_string(&t->pickle, text);
}

/* ---- the rest ---------------------------------------------------------------------------- */

void swi_tree_u64(swi_tree *t, uint64_t x)
{
    if (t->as_json)
        sw_json_u64(&t->json, x);
    else
        sw_pickle_u64(&t->pickle, x);
}

void swi_tree_bool(swi_tree *t, bool x)
{
    if (t->as_json)
        sw_json_bool(&t->json, x);
    else
        sw_pickle_bool(&t->pickle, x);
}

void swi_tree_pair(swi_tree *t, uint32_t a, uint32_t b)
{
    if (t->as_json) {
        sw_json_begin(&t->json, '[');
        sw_json_u64(&t->json, a);
        sw_json_u64(&t->json, b);
        sw_json_end(&t->json);
    } else {
        sw_pickle_pair(&t->pickle, a, b);
    }
}

void swi_tree_mark(swi_tree *t, uint32_t *mark)
{
    if (!t->as_json)
        *mark = sw_pickle_keep(&t->pickle) + 1;
}

bool swi_tree_again(swi_tree *t, uint32_t mark)
{
    if (mark != 0)
        sw_pickle_again(&t->pickle, mark - 1);
    return mark != 0;
}

void swi_tree_put_u64(swi_tree *t, const char *key, uint64_t x)
{
    swi_tree_key(t, key);
    swi_tree_u64(t, x);
}

void swi_tree_put_text(swi_tree *t, const char *key, const char *kept)
{
    swi_tree_key(t, key);
    swi_tree_text_kept(t, kept);
}
