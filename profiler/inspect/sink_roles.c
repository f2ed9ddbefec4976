/* Bytes by role as a walk goes by. */
#include "alloc/base/assert.h"
#include "profiler/inspect/sink_internal.h"
#include <string.h>

void swi_roles_init(swi_roles *r, const sw_timeline *t)
{
    *r = (swi_roles){0};
    r->n = sw_timeline_roles(t, r->name, SWI_ROLES);
    if (r->n == SWI_ROLES)
        r->name[SWI_ROLES - 1] = "others";
}

static uint32_t find_role(const swi_roles *r, const sw_tl_event *e)
{
    const sw_tensor *v = &e->program->values[e->index];
    uint32_t i = 0;
    while (i + 1 < r->n && r->name[i] != v->role && strcmp(r->name[i], v->role) != 0)
        i++;
    return i;
}

static int moves(const sw_tl_event *e)
{
    return e->kind == SW_TL_ALLOC ? 1 : e->kind == SW_TL_FREE ? -1 : 0;
}

bool swi_roles_due(const swi_roles *r, const sw_tl_event *e)
{
    return r->pending != 0 && (e->ns != r->ns || moves(e) == -r->pending);
}

void swi_roles_written(swi_roles *r)
{
    r->pending = 0;
    r->changed = 0;
}

void swi_roles_take(swi_roles *r, const sw_tl_event *e)
{
    const int sign = moves(e);
    if (sign == 0 || e->bytes == 0)
        return;
    const uint32_t role = find_role(r, e);
    SW_ASSERT(role < r->n && (sign > 0 || r->bytes[role] >= e->bytes));
    r->bytes[role] += sign > 0 ? e->bytes : -e->bytes;
    r->changed |= (uint32_t)1 << role;
    r->live = e->live;
    r->ns = e->ns;
    r->pending = sign;
}

const char *swi_slice_category(sw_tl_kind kind)
{
    static const char *const names[] = {[SW_TL_STEP_BEGIN] = "step",
                                        [SW_TL_PHASE_BEGIN] = "phase",
                                        [SW_TL_LAYER_BEGIN] = "layer",
                                        [SW_TL_OP_BEGIN] = "op"};
    return names[kind];
}
