/* Trees in two encodings. */
#include "profiler/inspect/sink_tree.h"
#include "alloc/base/mem.h"

void swi_tree_start(swi_tree *t, sw_sink_out *out, bool as_json)
{
    t->as_json = as_json;
    t->out = out;
    t->texts = (swi_strings){0};
    t->memos = NULL;
    t->cap_memos = 0;
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
    swi_strings_free(&t->texts);
    sw_heap_free(t->memos, SW_HEAP_PROFILE, t->cap_memos * sizeof *t->memos);
    t->memos = NULL;
    t->cap_memos = 0;
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

static sw_status keep_memo(swi_tree *t, uint32_t number, uint32_t memo)
{
    SW_TRY(sw_heap_reserve(&t->memos, SW_HEAP_PROFILE, &t->cap_memos, number + 1,
                           sizeof *t->memos));
    t->memos[number] = memo;
    return SW_OK;
}

static void pickle_kept(swi_tree *t, const char *text)
{
    const uint32_t known = t->texts.n, number = swi_strings_number(&t->texts, text);
    if (t->out->status == SW_OK)
        t->out->status = t->texts.status;
    if (t->out->status != SW_OK)
        return;
    if (number < known) {
        sw_pickle_again(&t->pickle, t->memos[number]);
        return;
    }
    sw_pickle_string(&t->pickle, text);
    const sw_status kept = keep_memo(t, number, sw_pickle_keep(&t->pickle));
    if (t->out->status == SW_OK)
        t->out->status = kept;
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

void swi_tree_tuple2(swi_tree *t, uint32_t a, uint32_t b)
{
    if (t->as_json) {
        sw_json_begin(&t->json, '[');
        sw_json_u64(&t->json, a);
        sw_json_u64(&t->json, b);
        sw_json_end(&t->json);
    } else {
        sw_pickle_tuple2(&t->pickle, a, b);
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
