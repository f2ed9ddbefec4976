/* The access witness by role and by layer: what lived when, as the touches say, under the role
 * and the layer that the touches say, against the shares of the plan. */
#include "runtime/model/model_label.h"
#include "runtime/observe/breakdown.h"
#include "runtime/verify/witness_internal.h"
#include <string.h>

/* Lives by the op that begins or ends them: first[op] is one of them, next[life] the next. */
typedef struct {
    uint32_t *first, *next;
} list;

static void add(const list *of, uint32_t op, uint32_t life)
{
    of->next[life] = of->first[op];
    of->first[op] = life;
}

static sw_status base_of_models(swi_witness *w, swi_breakdown *to)
{
    for (int m = 0; m < w->args->n_models; m++) {
        const sw_model *model = w->args->models[m];
        for (uint32_t i = 1; i < model->n_entries; i++) {
            const swi_entry *e = &model->entries[i];
            char layer[SWI_SHOWN_BYTES];
            swi_entry_layer(w->args, model, e->name, layer);
            SW_TRY(swi_breakdown_base(to, e->role, layer, sw_size_round(e->bytes)));
        }
    }
    return SW_OK;
}

static sw_status base_of_inputs(swi_witness *w, swi_breakdown *to)
{
    for (int i = 0; i < w->args->n_inputs; i++) {
        const sw_type type = {w->args->inputs[i].dtype, SW_PLAIN, w->args->inputs[i].shape};
        SW_TRY(swi_breakdown_base(to, SWI_ROLE_INPUT, "", sw_size_round(sw_type_bytes(&type))));
    }
    return SW_OK;
}

static sw_status follow(swi_breakdown *to, const swi_life *lives, const list *births,
                        const list *deaths, uint32_t n_ops)
{
    for (uint32_t op = 0; op < n_ops; op++) {
        for (uint32_t i = births->first[op]; i != SWI_NONE; i = births->next[i])
            SW_TRY(swi_breakdown_born(to, lives[i].role, lives[i].layer, lives[i].bytes));
        swi_breakdown_mark(to);
        for (uint32_t i = deaths->first[op]; i != SWI_NONE; i = deaths->next[i])
            SW_TRY(swi_breakdown_died(to, lives[i].role, lives[i].layer, lives[i].bytes));
    }
    return SW_OK;
}

sw_status swi_witness_share_out(swi_witness *w, const swi_life *lives, uint32_t n)
{
    void *block;
    const uint32_t positions = w->program->n_ops + 1;
    const size_t words = 2 * ((size_t)positions + n);
    SW_TRY(swi_breakdown_empty(&w->breakdown));
    SW_TRY(base_of_models(w, &w->breakdown));
    SW_TRY(base_of_inputs(w, &w->breakdown));
    swi_breakdown_begin(&w->breakdown);
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, words * sizeof(uint32_t)));
    uint32_t *all = block;
    const list births = {all, all + 2 * (size_t)positions};
    const list deaths = {all + positions, births.next + n};
    memset(all, 0xff, words * sizeof *all);
    for (uint32_t i = n; i-- > 0;) /* from the last, so that the lists begin with the first */
        if (lives[i].bytes > 0) {
            add(&births, lives[i].first, i);
            add(&deaths, lives[i].last, i);
        }
    const sw_status status = follow(&w->breakdown, lives, &births, &deaths, positions - 1);
    sw_heap_free(block, SWI_WITNESS_HEAP, words * sizeof(uint32_t));
    return status;
}

/* ---- against the plan -------------------------------------------------------------------- */

static const swi_breakdown_line *line_of(const swi_breakdown *x, bool layer, const char *name)
{
    static const swi_breakdown_line none;
    for (uint32_t i = layer ? SWI_ROLE_COUNT : 0; i < (layer ? x->n : SWI_ROLE_COUNT); i++)
        if (strcmp(x->lines[i].name, name) == 0)
            return &x->lines[i];
    return &none;
}

static void judge_line(swi_witness *w, bool layer, const swi_breakdown_line *seen,
                       const swi_breakdown_line *said)
{
    const char *name = seen->name[0] != '\0' ? seen->name : said->name;
    if (seen->at_peak == said->at_peak && seen->peak == said->peak)
        return;
    swi_witness_fault(w, SWI_NONE, SWI_NONE,
                      "%s '%s': %zu bytes at the peak and %zu at its own observed, %zu and %zu "
                      "planned",
                      layer ? "layer" : "role", name, seen->at_peak, seen->peak, said->at_peak,
                      said->peak);
}

sw_status swi_witness_compare_breakdowns(swi_witness *w)
{
    SW_TRY(swi_program_breakdown(w->frame, w->args));
    const swi_breakdown *seen = &w->breakdown, *said = &w->frame->breakdown;
    for (uint32_t i = 0; i < said->n; i++) {
        const bool layer = i >= SWI_ROLE_COUNT;
        judge_line(w, layer, line_of(seen, layer, said->lines[i].name), &said->lines[i]);
    }
    for (uint32_t i = SWI_ROLE_COUNT; i < seen->n; i++) {
        const swi_breakdown_line *planned = line_of(said, true, seen->lines[i].name);
        if (planned->name[0] == '\0' && seen->lines[i].name[0] != '\0')
            judge_line(w, true, &seen->lines[i], planned);
    }
    return SW_OK;
}
