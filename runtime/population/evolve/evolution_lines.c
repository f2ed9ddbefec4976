/* Lines of DIR/history.jsonl, read for a rebuild. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution_files.h"
#include <stdlib.h>
#include <string.h>

static sw_status read_word(sw_json_in *in, void *context)
{
    char text[8]; /* what it says is not needed */
    (void)context;
    return sw_json_get_text(in, text, sizeof text);
}

static sw_status read_number(sw_json_in *in, void *context)
{
    double x;
    (void)context;
    return swi_get_real(in, &x);
}

static sw_status read_why(sw_json_in *in)
{
    sw_json_word word;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    return c == '"' ? read_word(in, NULL) : sw_json_get_word(in, &word);
}

typedef struct {
    swi_line *to;
    uint32_t seen;
} line_reader;

static sw_status read_field(sw_json_in *in, const char *key, void *context)
{
    static const char *const fields[] = {"generation",
                                         "id",
                                         "parents",
                                         "born",
                                         "genome",
                                         "made",
                                         "ops",
                                         "batch",
                                         "vertices",
                                         "parameters",
                                         "operations",
                                         "peak_bytes",
                                         "measured_bytes",
                                         "steps",
                                         "loss",
                                         "accuracy",
                                         "train_accuracy",
                                         "fitness",
                                         "objectives",
                                         "rank",
                                         "why",
                                         "ns_per_sample"};
    line_reader *r = context;
    swi_line *l = r->to;
    uint32_t which;
    SW_TRY(swi_read_field(in, key, fields, sizeof fields / sizeof *fields, "a line", &r->seen,
                          &which));
    switch (which) {
    case 0:
        return sw_json_get_count(in, &l->generation);
    case 1:
        return sw_json_get_count(in, &l->id);
    case 2:
        return swi_get_counts(in, l->parents, 2);
    case 3:
        return swi_birth_read(in, &l->birth);
    case 4:
        return swi_get_hex(in, &l->genome);
    case 5:
        return sw_json_get_count(in, &l->made);
    case 6:
        return swi_read_list(in, read_word, NULL);
    case 18:
        return swi_read_list(in, read_number, NULL);
    case 20:
        return read_why(in);
    default:
        return read_number(in, NULL);
    }
}

static sw_status read_line(sw_json_in *in, swi_lines *lines)
{
    void *all = lines->all;
    SW_TRY(sw_heap_reserve(&all, SW_HEAP_FILES, &lines->cap, lines->n + 1, sizeof *lines->all));
    lines->all = all;
    line_reader r = {.to = &lines->all[lines->n]};
    SW_TRY(sw_json_get_object(in, read_field, &r));
    if ((r.seen & 63) != 63)
        return sw_json_bad(in, "a field of the line is missing");
    lines->n++;
    return SW_OK;
}

/* By member, then by generation. */
static int by_id(const void *a, const void *b)
{
    const swi_line *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->generation < y->generation ? -1 : x->generation > y->generation;
}

static sw_status read_all(swi_lines *lines, const char *text, size_t n, const char *path)
{
    sw_json_in in = swi_read_begin(text, n, path);
    int c;
    SW_TRY(sw_json_peek(&in, &c));
    while (c >= 0) {
        SW_TRY(read_line(&in, lines));
        SW_TRY(sw_json_peek(&in, &c));
    }
    if (lines->n > 0)
        qsort(lines->all, lines->n, sizeof *lines->all, by_id);
    return SW_OK;
}

sw_status swi_lines_read(const sw_evolution *e, swi_lines *out)
{
    char path[SWI_EVOLUTION_PATH];
    swi_lines lines = {.n = 0};
    char *text;
    size_t n;
    swi_evolution_path(e, "history.jsonl", path);
    SW_TRY(swi_text_load(&text, &n, path, "a history", SIZE_MAX / 2));
    const sw_status status = read_all(&lines, text, n, path);
    sw_text_free(text, n);
    if (status != SW_OK) {
        swi_lines_free(&lines);
        return status;
    }
    *out = lines;
    return SW_OK;
}

void swi_lines_free(swi_lines *lines)
{
    sw_heap_free(lines->all, SW_HEAP_FILES, lines->cap * sizeof *lines->all);
    *lines = (swi_lines){.n = 0};
}

const swi_line *swi_lines_find(const swi_lines *lines, uint64_t id, uint64_t generation)
{
    const swi_line key = {.id = id, .generation = generation};
    if (lines->n == 0)
        return NULL;
    return bsearch(&key, lines->all, lines->n, sizeof key, by_id);
}

/* Its first line is the first of its id. */
const swi_line *swi_lines_birth(const swi_lines *lines, uint64_t id)
{
    uint32_t low = 0, high = lines->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (lines->all[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lines->n && lines->all[low].id == id ? &lines->all[low] : NULL;
}
