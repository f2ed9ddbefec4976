/* Which ops of a program are launched together with the next one: where a device has a kernel
 * for both that makes the same bits (sw_cuda_fusion), and on the CPU where both go channel by
 * channel (swi_fused), the next or the one after it.
 *
 * Trace, order and places stay as they are: the second op keeps its place and its name, and
 * launches nothing. A result that it makes on the CPU in bytes of its own is born at the first
 * op, where it is written; no pair makes the peak higher. Immediate mode does not know the next
 * op and launches both. */
#include "runtime/plan/program_internal.h"

static const swi_node *node_at(const swi_program *p, uint32_t i)
{
    return &p->trace.nodes[p->ops[i].node];
}

/* Does the second op read what the first one makes and leave its own result in its place, so
 * that no one else ever sees that? Extras of the second would be made from it too. */
static bool takes_over(const swi_trace *t, const swi_node *first, const swi_node *then)
{
    if (first->n_out != 1 || then->n_in != 1)
        return false;
    const uint32_t *operands = t->operands + then->first;
    const uint32_t made = t->values[t->operands[first->first + first->n_in]].storage;
    const uint32_t out = t->values[operands[1]].storage;
    for (uint32_t k = 1; k < then->n_out; k++)
        if (t->storages[t->values[operands[1 + k]].storage].birth != SWI_NONE)
            return false;
    return t->values[operands[0]].storage == made && out != made &&
           swi_root_of(t, out) == swi_root_of(t, made);
}

static const sw_cuda_fusion *fusion_of(const swi_program *p, const sw_exec *exec, uint32_t i)
{
    const swi_trace *t = &p->trace;
    const swi_node *first = node_at(p, i), *then = node_at(p, i + 1);
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    if (first->grad >= 0 || then->grad >= 0 || first->phase != then->phase ||
        !takes_over(t, first, then))
        return NULL;
    const sw_cuda_fusion *fusion =
        swi_device_fusion(swi_target_of(exec)->device, first->op, then->op);
    if (fusion == NULL)
        return NULL;
    swi_kernel_info(t, first, types, &info);
    return fusion->joins(&info, swi_target_of(exec)->compute) != 0 ? fusion : NULL;
}

/* ---- channel by channel ------------------------------------------------------------------ */

typedef struct {
    const swi_value *value;
    const swi_bind *bind;
    bool written;
} operand;

static bool operand_of(const swi_program *p, uint32_t i, uint32_t k, operand *to)
{
    const swi_node *node = node_at(p, i);
    if (k >= node->n_in + node->n_out)
        return false;
    to->value = &p->trace.values[p->trace.operands[node->first + k]];
    to->bind = &p->binds[p->ops[i].first + i + k];
    to->written = k >= node->n_in;
    return true;
}

/* May the two be touched in another order, channel by channel? They lie apart, or neither is
 * written, or they are one storage's bytes, channel by channel. */
static bool may_cross(const swi_trace *t, const operand *a, const operand *b, bool by_channel)
{
    if ((!a->written && !b->written) || a->bind->segment != b->bind->segment ||
        a->bind->segment == SWI_SEG_COUNT)
        return true;
    if (!a->value->contiguous || !b->value->contiguous)
        return false;
    const sw_type *x = &a->value->type, *y = &b->value->type;
    if (a->bind->offset >= b->bind->offset + sw_type_bytes(y) ||
        b->bind->offset >= a->bind->offset + sw_type_bytes(x))
        return true;
    return by_channel && a->bind->offset == b->bind->offset && x->dtype == y->dtype &&
           x->layout == y->layout && swi_same_shape(&x->shape, &y->shape) &&
           swi_root_of(t, a->value->storage) == swi_root_of(t, b->value->storage);
}

static bool ops_may_cross(const swi_program *p, uint32_t i, uint32_t j, bool by_channel)
{
    operand a, b;
    if (node_at(p, i)->scratch != SWI_NONE || node_at(p, j)->scratch != SWI_NONE)
        return false;
    for (uint32_t k = 0; operand_of(p, i, k, &a); k++)
        for (uint32_t m = 0; operand_of(p, j, m, &b); m++)
            if (!may_cross(&p->trace, &a, &b, by_channel))
                return false;
    return true;
}

/* Kinds first: most pairs of ops have no kernel. */
static uint8_t together_of(const swi_program *p, uint32_t i, uint32_t j)
{
    const swi_trace *t = &p->trace;
    const swi_node *first = node_at(p, i), *then = node_at(p, j);
    sw_type types[2][SWI_MAX_OPERANDS];
    sw_kernel_info info[2];
    int in = 0;
    const uint8_t kernel = swi_fused((swi_fused_kind){first->op, first->grad},
                                     (swi_fused_kind){then->op, then->grad}, &in);
    if (kernel == 0 || first->phase != then->phase || first->n_out < 1 ||
        t->operands[then->first + (uint32_t)in] != t->operands[first->first + first->n_in])
        return 0;
    swi_kernel_info(t, first, types[0], &info[0]);
    swi_kernel_info(t, then, types[1], &info[1]);
    return swi_fused_fits(kernel, &info[0], &info[1]) && ops_may_cross(p, i, j, true) ? kernel
                                                                                      : 0;
}

/* Bytes that are born at op i; early: those of them are, and at op `early` from now on. */
static size_t born_at(swi_program *p, uint32_t i, uint32_t early)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < p->ops[i].n_births; k++) {
        swi_storage *s = &p->trace.storages[p->births[p->ops[i].births + k]];
        if (s->birth != i) /* it was moved to an earlier op */
            continue;
        bytes += s->rounded;
        s->birth = early;
    }
    return bytes;
}

static size_t dead_after(const swi_program *p, uint32_t i)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < p->ops[i].n_deaths; k++)
        bytes += p->trace.storages[p->deaths[p->ops[i].deaths + k]].rounded;
    return bytes;
}

/* With the next op, or with the one after it where that may come first and what it makes may
 * be there from op i on. live: at op i. Returns the bytes that are born earlier. */
static size_t find_together(swi_program *p, uint32_t i, size_t live)
{
    const size_t most = p->info.lower_bound_bytes;
    size_t highest = live;
    for (uint32_t d = 1; d <= 2 && i + d < p->n_ops && p->ops[i].ran == 0; d++) {
        swi_run_op *then = &p->ops[i + d];
        if (d == 2) {
            live = live - dead_after(p, i) + born_at(p, i + 1, i + 1);
            highest = live > highest ? live : highest;
        }
        const uint8_t kernel = then->ran == 0 ? together_of(p, i, i + d) : 0;
        if (kernel == 0 || (d == 2 && !ops_may_cross(p, i + 1, i + 2, false)) ||
            highest + born_at(p, i + d, i + d) > most)
            continue;
        p->ops[i].together = kernel;
        p->ops[i].apart = then->ran = (uint8_t)d;
        return born_at(p, i + d, i);
    }
    return 0;
}

void swi_program_fuse_launches(swi_program *p, const sw_exec *exec)
{
    const swi_backend *backend = swi_target_of(exec)->device->backend;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        p->ops[i].fusion = NULL;
        p->ops[i].together = 0;
        p->ops[i].apart = p->ops[i].ran = 0;
    }
    for (uint32_t i = 0; backend->fuses_launches && i + 1 < p->n_ops; i++)
        if (i == 0 || p->ops[i - 1].fusion == NULL)
            p->ops[i].fusion = fusion_of(p, exec, i);
    size_t live = 0;
    for (uint32_t i = 0; backend->fuses_channels && i + 1 < p->n_ops; i++) {
        live += born_at(p, i, i);
        live += find_together(p, i, live);
        live -= dead_after(p, i);
    }
    swi_program_list_lifetimes(p);
}

static bool makes(const swi_program *p, uint32_t i, uint32_t storage)
{
    operand x;
    for (uint32_t k = node_at(p, i)->n_in; operand_of(p, i, k, &x); k++)
        if (x.value->storage == storage)
            return true;
    return node_at(p, i)->scratch == storage;
}

uint32_t swi_made_at(const swi_program *p, uint32_t storage)
{
    const uint32_t i = p->trace.storages[storage].birth;
    return p->ops[i].together != 0 && !makes(p, i, storage) ? i + p->ops[i].apart : i;
}
