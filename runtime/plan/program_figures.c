/* Names and figures of a plan: what each phase peaks at, who holds it. */
#include "runtime/model/model_label.h"
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "runtime/base/op_words.h"
#include "runtime/plan/program_internal.h"
#include "runtime/base/structs.h"
#include <stdio.h>
#include <string.h>

/* Is its first result a gradient, as far as the plan knows? */
static bool makes_gradient(const swi_trace *t, const swi_node *node)
{
    if (node->n_out == 0)
        return false;
    const uint32_t out = t->operands[node->first + node->n_in];
    return t->storages[t->values[out].storage].role == SWI_ROLE_GRADIENT;
}

const char *swi_node_name(const swi_trace *t, const swi_node *node, char *to, size_t bytes)
{
    const char *layer = swi_string(t, node->layer);
    char words[SWI_WORDS_BYTES];
    snprintf(to, bytes, "%s%s%s%s%s", layer, layer[0] != '\0' ? " " : "",
             swi_op_words(node->op, makes_gradient(t, node), words),
             node->grad >= 0 ? " backward" : "",
             node->again == SWI_AGAIN_BUDGET    ? " (recomputed, budget)"
             : node->again == SWI_AGAIN_REBUILT ? " (recomputed)"
                                                : "");
    return to;
}

sw_status swi_node_failed(const swi_trace *t, const swi_node *node, sw_status status)
{
    char name[128], text[300];
    const char *op = swi_op(node->op)->name, *why = text;
    snprintf(text, sizeof text, "%s", sw_last_error());
    if (strncmp(text, op, strlen(op)) == 0 && strncmp(text + strlen(op), ": ", 2) == 0)
        why += strlen(op) + 2;
    SW_FAIL(status, "%s: %s", swi_node_name(t, node, name, sizeof name), why);
}

/* The largest that live at one time: tensors of the step, inputs, entries of the models. */
typedef struct {
    char name[96];
    swi_role role;
    size_t bytes;
} holder;
#define HOLDERS 3

static void keep_largest(holder *held, swi_role role, size_t bytes, const char *name)
{
    int at = HOLDERS;
    while (at > 0 && bytes > held[at - 1].bytes)
        at--;
    if (at == HOLDERS)
        return;
    memmove(&held[at + 1], &held[at], (size_t)(HOLDERS - 1 - at) * sizeof *held);
    held[at] = (holder){.role = role, .bytes = bytes};
    snprintf(held[at].name, sizeof held[at].name, "%s", name);
}

void swi_program_name_holders(swi_program *p, const sw_run_args *args)
{
    const swi_trace *t = &p->trace;
    const uint32_t at = p->peak_op;
    holder held[HOLDERS] = {0};
    char name[96], shown[SWI_SHOWN_BYTES];
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        const bool input = x->segment >= SWI_SEG_INPUT && x->segment < SWI_SEG_MODEL;
        if (x->rounded > held[HOLDERS - 1].bytes &&
            (input || (swi_takes_part(t, s) && x->birth <= at && x->death >= at)))
            keep_largest(held, x->role, x->rounded, swi_storage_name(t, s, name, sizeof name));
    }
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t e = 1; e < args->models[m]->n_entries; e++) {
            const swi_entry *entry = &args->models[m]->entries[e];
            keep_largest(held, entry->role, sw_size_round(entry->bytes),
                         swi_entry_shown(args, args->models[m], entry->name, shown));
        }
    char *to = p->info.holders;
    size_t capacity = sizeof p->info.holders;
    to[0] = '\0';
    for (int k = 0; k < HOLDERS && held[k].bytes > 0; k++) {
        const int n = sw_message(to, capacity, "%s%s (%s) %zu bytes", k > 0 ? ", " : "",
                                 held[k].name, swi_role_name(held[k].role), held[k].bytes);
        if (n < 0 || (size_t)n >= capacity) {
            to[0] = '\0'; /* no half a name */
            return;
        }
        to += n;
        capacity -= (size_t)n;
    }
}

const char *swi_storage_name(const swi_trace *t, uint32_t storage, char *to, size_t bytes)
{
    return swi_made_name(t, storage, NULL, to, bytes);
}

const char *swi_made_name(const swi_trace *t, uint32_t storage, const swi_node *maker, char *to,
                          size_t bytes)
{
    const swi_storage *s = &t->storages[storage];
    if (s->name != 0) {
        snprintf(to, bytes, "%s%s", swi_string(t, s->name),
                 s->segment == SWI_SEG_STEP && s->role == SWI_ROLE_GRADIENT ? ".grad" : "");
        return to;
    }
    const char *layer = swi_string(t, s->layer), *what = "value", *kind = ".out";
    const uint32_t first = maker != NULL ? (uint32_t)(maker - t->nodes) : 0;
    for (uint32_t n = first; n < t->n_nodes; n++) {
        const swi_node *node = &t->nodes[n];
        bool made = node->scratch == storage;
        if (made)
            kind = ".scratch";
        for (uint32_t i = 0; i < node->n_out && !made && !node->is_view; i++)
            made = t->values[t->operands[node->first + node->n_in + i]].storage == storage;
        if (made) {
            what = swi_op_word(node->op);
            if (node->grad >= 0)
                kind = kind[1] == 's' ? ".backward.scratch" : ".grad";
            break;
        }
    }
    snprintf(to, bytes, "%s%s%s%s", layer, layer[0] != '\0' ? "/" : "", what, kind);
    return to;
}

void swi_program_measure(swi_program *p)
{
    swi_trace *t = &p->trace;
    sw_plan_info *info = &p->info;
    const size_t base = p->model_bytes + p->slot_bytes;
    memset(info->phase, 0, sizeof info->phase);
    /* The batch and the model are there before the first op. */
    info->phase[SW_DATA].peak_bytes = info->phase[SW_DATA].end_bytes = base;
    size_t live = 0, peak = 0;
    info->peak_bytes = 0;
    p->peak_op = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_run_op *op = &p->ops[i];
        for (uint32_t k = 0; k < op->n_births; k++)
            live += t->storages[p->births[op->births + k]].rounded;
        sw_phase_info *phase = &info->phase[op->phase];
        if (base + live > phase->peak_bytes)
            phase->peak_bytes = base + live;
        if (live > peak || i == 0) {
            peak = live;
            p->peak_op = i;
        }
        for (uint32_t k = 0; k < op->n_deaths; k++)
            live -= t->storages[p->deaths[op->deaths + k]].rounded;
        phase->end_bytes = base + live;
    }
    info->peak_bytes = base + peak;
    info->padding_bytes = 0;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        if (swi_takes_part(t, s) && x->birth <= p->peak_op && x->death >= p->peak_op)
            info->padding_bytes += x->rounded - x->bytes;
    }
    if (p->n_ops > 0)
        swi_node_name(t, &t->nodes[p->ops[p->peak_op].node], info->peak_op,
                      sizeof info->peak_op);
}

void swi_plan_info(const swi_program *p, size_t data_bytes, sw_plan_info *out)
{
    sw_plan_info info = p->info;
    info.model_bytes = p->model_bytes;
    info.slot_bytes = p->slot_bytes;
    info.program_host_bytes = swi_program_host_bytes(p);
    info.data_bytes = data_bytes != 0 ? data_bytes : p->slot_bytes;
    info.total_bytes = info.model_bytes + info.arena_bytes + info.data_bytes;
    swi_struct_write(SWI_STRUCT_sw_plan_info, out, &info);
}
