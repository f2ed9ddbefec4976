/* Passes over a trace: the order of its ops, lifetimes, in-place results. */
#include "runtime/plan/program_internal.h"
#include <string.h>

/* ---- order ------------------------------------------------------------------------------- */

/* Order of the nodes that run, views left out. */
uint32_t swi_plain_order(const swi_trace *t, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (!t->nodes[i].is_view)
            order[n++] = i;
    return n;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Stable insertion by key; released nodes are few and move little more than their own number.
 */
static void sort_by_key(uint32_t *order, uint64_t *key, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t node = order[i];
        const uint64_t k = key[i];
        uint32_t j = i;
        for (; j > 0 && key[j - 1] > k; j--) {
            order[j] = order[j - 1];
            key[j] = key[j - 1];
        }
        order[j] = node;
        key[j] = k;
    }
}

/* The release pass: an update moves up to right after the last op that it depends on: what it
 * reads must be written, and what it overwrites must have been read by all who need the old
 * version. Only inside the backward part. Keys are (position, sequence), so that moved ops keep
 * their order. */
void swi_pass_release(swi_trace *t, uint32_t *order, uint32_t n, bool all, uint64_t *scratch)
{
    uint64_t *key = scratch, *read = scratch + n, *written = read + t->n_storages;
    memset(read, 0, 2 * (size_t)t->n_storages * sizeof *read);
    uint64_t backward = 0;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        swi_node *node = &t->nodes[order[i]];
        const uint32_t *in = t->operands + node->first, *out = in + node->n_in;
        key[i] = (uint64_t)(i + 1) << 32;
        if (node->is_backward && backward == 0)
            backward = key[i];
        if (backward != 0 &&
            (node->release == SWI_RELEASED || (all && node->release == SWI_RELEASABLE))) {
            uint64_t k = backward;
            for (uint32_t j = 0; j < node->n_in; j++)
                k = latest(k, written[t->values[in[j]].storage]);
            for (uint32_t j = 0; j < node->n_out; j++) {
                const uint32_t s = t->values[out[j]].storage;
                k = latest(k, latest(read[s], written[s]));
            }
            key[i] = k + 1;
            node->phase = SW_BACKWARD;
            any = true;
        }
        for (uint32_t j = 0; j < node->n_in; j++) {
            uint64_t *r = &read[t->values[in[j]].storage];
            *r = latest(*r, key[i]);
        }
        for (uint32_t j = 0; j < node->n_out; j++) {
            uint64_t *w = &written[t->values[out[j]].storage];
            *w = latest(*w, key[i]);
        }
    }
    if (any)
        sort_by_key(order, key, n);
}

/* ---- lifetimes and in-place results ------------------------------------------------------ */

static void touch(swi_trace *t, uint32_t storage, uint32_t at)
{
    swi_storage *s = &t->storages[storage];
    if (s->birth == SWI_NONE)
        s->birth = at;
    s->death = at;
}

/* First writes and last touches; an extra that no one reads gets no bytes, nor does a gradient
 * that its kernel leaves out. An operand that a kernel does not read for its shapes does not
 * live for it. */
void swi_lifetimes(swi_trace *t, const uint32_t *order, uint32_t n, bool *read)
{
    memset(read, 0, t->n_values);
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const uint32_t unread = swi_unread(t, node);
        for (uint32_t j = 0; j < node->n_in; j++)
            if (swi_reads(unread, j))
                read[t->operands[node->first + j]] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const uint32_t *operands = t->operands + node->first;
        const sw_op_desc *desc = swi_op(node->op);
        const uint32_t unread = swi_unread(t, node);
        for (uint32_t j = 0; j < node->n_in; j++) {
            if (!swi_reads(unread, j))
                continue;
            touch(t, t->values[operands[j]].storage, i);
            swi_storage *s = &t->storages[t->values[operands[j]].storage];
            if (node->is_backward && s->role == SWI_ROLE_ACTIVATION)
                s->role = SWI_ROLE_SAVED;
        }
        for (uint32_t j = 0; j < node->n_out; j++) {
            const bool extra = node->grad < 0 && (int)j >= desc->n_out;
            if (swi_is_null(node, j))
                continue;
            if (!extra || read[operands[node->n_in + j]])
                touch(t, t->values[operands[node->n_in + j]].storage, i);
        }
        if (node->scratch != SWI_NONE)
            touch(t, node->scratch, i);
    }
    for (uint32_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].pinned && t->storages[i].birth != SWI_NONE)
            t->storages[i].death = n;
}

uint32_t swi_root_of(const swi_trace *t, uint32_t s)
{
    while (t->storages[s].alias != s)
        s = t->storages[s].alias;
    return s;
}

/* Do the bytes of operand k suit output 0 of this node? Its storage must hold nothing but this
 * operand, and no other operand may look at it in another way. */
bool swi_suits(const swi_trace *t, const swi_node *node, uint32_t k)
{
    const uint32_t *operands = t->operands + node->first;
    const swi_value *in = &t->values[operands[k]], *out = &t->values[operands[node->n_in]];
    const swi_storage *from = &t->storages[swi_root_of(t, in->storage)];
    const swi_storage *to = &t->storages[out->storage];
    if (from->segment != SWI_SEG_STEP || to->segment != SWI_SEG_STEP || !in->contiguous ||
        in->offset != 0 || from->bytes != to->bytes ||
        sw_type_bytes(&in->type) != from->bytes || in->type.layout != out->type.layout)
        return false;
    for (uint32_t j = 0; j < node->n_in; j++) {
        const swi_value *other = &t->values[operands[j]];
        if (j != k && swi_root_of(t, other->storage) == swi_root_of(t, in->storage) &&
            (other->offset != 0 || !other->contiguous ||
             sw_type_bytes(&other->type) != from->bytes))
            return false;
    }
    return true;
}

/* Bit k: operand k's place is one that output 0 may take, if that operand dies here. */
uint32_t swi_inplace_mask(const swi_node *node)
{
    const sw_op_desc *desc = swi_op(node->op);
    if (node->n_out == 0 || (node->accumulate & 1u) != 0)
        return 0;
    return node->grad < 0 ? desc->inplace : desc->grads[node->grad].inplace;
}

/* May output 0 of the node that runs at `at` take the bytes of its operand k now? */
static bool may_take(const swi_trace *t, const swi_node *node, uint32_t k, uint32_t at)
{
    const uint32_t *operands = t->operands + node->first;
    const swi_storage *from = &t->storages[swi_root_of(t, t->values[operands[k]].storage)];
    const swi_storage *to = &t->storages[t->values[operands[node->n_in]].storage];
    return !from->pinned && from->death == at && from->birth != at && to->birth == at &&
           swi_suits(t, node, k);
}

void swi_pass_inplace(swi_trace *t, const uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const uint32_t mask = swi_inplace_mask(node);
        if (mask == 0)
            continue;
        const uint32_t out = t->values[t->operands[node->first + node->n_in]].storage;
        for (uint32_t k = 0; k < node->n_in && k < 32; k++) {
            if ((mask >> k & 1u) == 0 || !may_take(t, node, k, i))
                continue;
            swi_storage *root =
                &t->storages[swi_root_of(t, t->values[t->operands[node->first + k]].storage)];
            swi_storage *taken = &t->storages[out];
            taken->alias = swi_root_of(t, t->values[t->operands[node->first + k]].storage);
            root->death = taken->death;
            root->pinned |= taken->pinned;
            if (root->role == SWI_ROLE_ACTIVATION)
                root->role = taken->role;
            break;
        }
    }
}
