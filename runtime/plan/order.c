/* The order in which the nodes of a trace run: that of the trace, with updates released, with
 * gradients of weights before those of images, and with weights updated tile by tile. */
#include "runtime/plan/program_internal.h"
#include <string.h>

sw_status swi_order_take(swi_order *order, uint32_t cap)
{
    void *nodes;
    SW_TRY(sw_heap_alloc(&nodes, SW_HEAP_PROGRAMS, cap * sizeof *order->nodes));
    *order = (swi_order){nodes, 0, cap};
    return SW_OK;
}

void swi_order_free(swi_order *order)
{
    sw_heap_free(order->nodes, SW_HEAP_PROGRAMS, order->cap * sizeof *order->nodes);
    *order = (swi_order){0};
}

/* Order of the nodes that run, views left out. */
static uint32_t plain_order(const swi_trace *t, uint32_t *order)
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

/* The release pass: an update moves up to right after the last op that it depends on: what it
 * reads must be written, and what it overwrites must have been read by all who need the old
 * version. Only inside the backward part. Keys are (position, sequence), so that moved ops keep
 * their order. */
static void pass_release(swi_trace *t, uint32_t *order, uint32_t n, bool all, uint64_t *scratch)
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
    if (any) {
        /* Stable insertion by key; released nodes are few and move little more than their
         * own number. */
        for (uint32_t m = 1; m < n; m++) {
            const uint32_t node = order[m];
            const uint64_t k = key[m];
            uint32_t j = m;
            for (; j > 0 && key[j - 1] > k; j--) {
                order[j] = order[j - 1];
                key[j] = key[j - 1];
            }
            order[j] = node;
            key[j] = k;
        }
    }
}

bool swi_touches(const swi_trace *t, const swi_node *node, uint32_t from, uint32_t to,
                 uint32_t storage)
{
    for (uint32_t k = from; k < to; k++)
        if (swi_operand(t, node, k)->storage == storage)
            return true;
    return false;
}

/* A convolution's image that ends with the gradient of the weights: that goes before the
 * image's gradient, which then has the image's bytes to lie in, if it is not larger itself.
 * Neither reads the other, so bits stay. */
static void weights_first(const swi_trace *t, swi_order *order)
{
    for (uint32_t i = 1; i < order->n; i++) {
        const swi_node *dx = &t->nodes[order->nodes[i - 1]], *dw = &t->nodes[order->nodes[i]];
        bool last = dx->grad == 0 && dw->grad > 0 && dw->n_in == 2 && dx->op == dw->op &&
                    dx->gradient_of == dw->gradient_of &&
                    swi_op_traits_of(dx->op)->axes == SWI_AXES_CONV &&
                    sw_type_bytes(&swi_operand(t, dw, 2)->type) <
                        sw_type_bytes(&swi_operand(t, dw, 0)->type);
        for (uint32_t k = i + 1; last && k < order->n; k++) {
            const swi_node *later = &t->nodes[order->nodes[k]];
            last = !swi_touches(t, later, 0, later->n_in, swi_operand(t, dw, 0)->storage);
        }
        if (!last)
            continue;
        const uint32_t first = order->nodes[i - 1];
        order->nodes[i - 1] = order->nodes[i];
        order->nodes[i] = first;
    }
}

sw_status swi_put_in_order(swi_trace *t, bool release_all, bool images_last,
                           const sw_exec *exec, swi_order *order)
{
    void *keys;
    const size_t bytes = ((size_t)t->n_nodes + 2 * (size_t)t->n_storages) * sizeof(uint64_t);
    SW_TRY(swi_order_take(order, t->n_nodes));
    SW_TRY(sw_heap_alloc(&keys, SW_HEAP_PROGRAMS, bytes));
    order->n = plain_order(t, order->nodes);
    if (release_all)
        swi_pass_own_finite_checks(t);
    if (images_last)
        weights_first(t, order);
    pass_release(t, order->nodes, order->n, release_all, keys);
    sw_heap_free(keys, SW_HEAP_PROGRAMS, bytes);
    return swi_target_of(exec)->opts.no_tiles ? SW_OK : swi_pass_tiles(t, order, exec);
}
