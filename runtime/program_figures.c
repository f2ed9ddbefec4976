/* Names and figures of a plan: what each phase peaks at, who holds it. */
#include "runtime/program_internal.h"
#include <stdio.h>
#include <string.h>

#define ROLE_NAME(id, name) name,
static const char *const role_names[] = {SWI_ROLES(ROLE_NAME)};

const char *swi_role_name(swi_role role)
{
    return (unsigned)role < SWI_ROLE_COUNT ? role_names[role] : "?";
}

const char *swi_node_name(const swi_trace *t, const swi_node *node, char *to, size_t bytes)
{
    const char *layer = swi_string(t, node->layer);
    snprintf(to, bytes, "%s%s%s%s", layer, layer[0] != '\0' ? "/" : "", swi_op(node->op)->name,
             node->grad >= 0 ? " backward" : "");
    return to;
}

static void name_holders(swi_program *p, uint32_t at)
{
    const swi_trace *t = &p->trace;
    size_t below = SIZE_MAX;
    uint32_t last = SWI_NONE;
    size_t used = 0;
    for (int k = 0; k < 3; k++) {
        uint32_t best = SWI_NONE;
        for (uint32_t s = 0; s < t->n_storages; s++) {
            const swi_storage *x = &t->storages[s];
            if (!swi_takes_part(t, s) || x->birth > at || x->death < at || x->rounded > below ||
                (x->rounded == below && s <= last && last != SWI_NONE))
                continue;
            if (best == SWI_NONE || x->rounded > t->storages[best].rounded)
                best = s;
        }
        if (best == SWI_NONE)
            return;
        const swi_storage *x = &t->storages[best];
        char name[96];
        const int n = snprintf(p->info.holders + used, sizeof p->info.holders - used,
                               "%s%s (%s) %zu bytes", k > 0 ? ", " : "",
                               swi_storage_name(t, best, name, sizeof name),
                               swi_role_name(x->role), x->rounded);
        if (n < 0 || (size_t)n >= sizeof p->info.holders - used)
            return;
        used += (size_t)n;
        below = x->rounded;
        last = best;
    }
}

const char *swi_storage_name(const swi_trace *t, uint32_t storage, char *to, size_t bytes)
{
    const swi_storage *s = &t->storages[storage];
    if (s->name != 0) {
        snprintf(to, bytes, "%s%s", swi_string(t, s->name),
                 s->segment == SWI_SEG_STEP && s->role == SWI_ROLE_GRADIENT ? ".grad" : "");
        return to;
    }
    const char *layer = swi_string(t, s->layer), *what = "value", *kind = ".out";
    for (uint32_t n = 0; n < t->n_nodes; n++) {
        const swi_node *node = &t->nodes[n];
        bool made = node->scratch == storage;
        if (made)
            kind = ".scratch";
        for (uint32_t i = 0; i < node->n_out && !made && !node->is_view; i++)
            made = t->values[t->operands[node->first + node->n_in + i]].storage == storage;
        if (made) {
            what = swi_op(node->op)->name;
            if (node->grad >= 0)
                kind = kind[1] == 's' ? ".backward.scratch" : ".grad";
            break;
        }
    }
    snprintf(to, bytes, "%s%s%s%s", layer, layer[0] != '\0' ? "/" : "", what, kind);
    return to;
}

sw_status swi_program_measure(swi_program *p)
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
    info->holders[0] = '\0';
    name_holders(p, p->peak_op);
    return SW_OK;
}

void swi_plan_info(const swi_program *p, size_t data_bytes, sw_plan_info *out)
{
    sw_plan_info info = p->info;
    const size_t size = out->size;
    info.size = size;
    info.model_bytes = p->model_bytes;
    info.slot_bytes = p->slot_bytes;
    info.data_bytes = data_bytes != 0 ? data_bytes : p->slot_bytes;
    info.total_bytes = info.model_bytes + info.arena_bytes + info.data_bytes;
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
}
