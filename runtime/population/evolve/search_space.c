/* Search spaces: made, kept, ended. */
#include "runtime/population/evolve/search_space_internal.h"
#include "runtime/population/evolve/text_read.h"

static sw_status keep(char **out, size_t *out_bytes, const char *from, size_t bytes)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes + 1));
    memcpy(block, from, bytes);
    *out = block;
    *out_bytes = bytes;
    return SW_OK;
}

void swi_search_space_free(sw_search_space *s)
{
    if (s == NULL)
        return;
    sw_text_free(s->text, s->text_bytes);
    sw_text_free(s->path, s->path_bytes);
    sw_heap_free(s->nodes, SW_HEAP_RECORDS, s->nodes_cap * sizeof *s->nodes);
    sw_heap_free(s->choices, SW_HEAP_RECORDS, s->choices_cap * sizeof *s->choices);
    sw_heap_free(s->parts, SW_HEAP_RECORDS, s->parts_cap * sizeof *s->parts);
    sw_handle_give(s, SW_HANDLE_SEARCH_SPACE, sizeof *s);
}

void sw_search_space_destroy(sw_search_space *s)
{
    if (sw_handle_ends(s, SW_HANDLE_SEARCH_SPACE, "sw_search_space_destroy"))
        swi_search_space_free(s);
}

static sw_status fill(sw_search_space *s, const char *text, size_t bytes, const char *path)
{
    SW_TRY(keep(&s->text, &s->text_bytes, text, bytes));
    SW_TRY(keep(&s->path, &s->path_bytes, path, strlen(path)));
    return swi_space_read(s);
}

sw_status sw_search_space_parse(sw_search_space **out, const char *text, size_t bytes,
                                const char *path)
{
    static const char call[] = "sw_search_space_parse";
    void *block;
    if (out == NULL || text == NULL || path == NULL)
        SW_FAIL(SW_INVALID, "%s: out, text and path must not be NULL", call);
    if (bytes > SWI_TEXT_MAX)
        SW_FAIL(SW_FORMAT, "%s: a search space has at most %zu bytes (got %zu)", path,
                SWI_TEXT_MAX, bytes);
    SW_TRY(sw_handle_take(&block, SW_HANDLE_SEARCH_SPACE, sizeof(sw_search_space)));
    sw_search_space *s = block;
    const sw_status status = fill(s, text, bytes, path);
    if (status != SW_OK)
        swi_search_space_free(s);
    else
        *out = s;
    return status;
}

sw_status sw_search_space_load(sw_search_space **out, const char *path)
{
    static const char call[] = "sw_search_space_load";
    char *text;
    size_t bytes;
    if (out == NULL || path == NULL)
        SW_FAIL(SW_INVALID, "%s: out and path must not be NULL", call);
    SW_TRY(swi_text_load(&text, &bytes, path, "a search space", SWI_TEXT_MAX));
    const sw_status status = sw_search_space_parse(out, text, bytes, path);
    sw_text_free(text, bytes);
    return status;
}

const char *sw_search_space_text(const sw_search_space *s)
{
    return sw_handle_check(s, SW_HANDLE_SEARCH_SPACE, "sw_search_space_text") == SW_OK ? s->text
                                                                                       : NULL;
}

const swi_space_training *swi_space_training_of(const sw_search_space *s)
{
    return &s->training;
}
