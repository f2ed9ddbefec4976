/* See placement_pressure.h. Node k of the tree holds the sections [first, first + width). */
#include "alloc/placement/placement_pressure.h"
#include "alloc/base/assert.h"

static size_t below(const size_t *node, uint32_t k)
{
    const size_t a = node[2 * k], b = node[2 * k + 1];
    return a > b ? a : b;
}

void swi_pressure_fill(const swi_pressure *p, const size_t *load, uint32_t n)
{
    SW_ASSERT(p->width > 0 && (p->width & (p->width - 1)) == 0 && n <= p->width);
    for (uint32_t s = 0; s < p->width; s++)
        p->node[p->width + s] = s < n ? load[s] : 0;
    for (uint32_t k = p->width - 1; k > 0; k--)
        p->node[k] = below(p->node, k);
}

static void press(size_t *node, uint32_t k, uint32_t first, uint32_t width, uint32_t from,
                  uint32_t to, size_t bytes)
{
    if (from <= first && first + width <= to) {
        node[k] += bytes;
        return;
    }
    const size_t all = node[k] - below(node, k);
    SW_ASSERT(node[k] >= below(node, k) && width > 1);
    const uint32_t half = width / 2;
    if (from < first + half)
        press(node, 2 * k, first, half, from, to, bytes);
    if (to > first + half)
        press(node, 2 * k + 1, first + half, half, from, to, bytes);
    node[k] = all + below(node, k);
}

void swi_pressure_add(const swi_pressure *p, uint32_t from, uint32_t to, size_t bytes)
{
    SW_ASSERT(from <= to && to <= p->width);
    press(p->node, 1, 0, p->width, from, to, bytes);
}

/* *most is the highest so far, *at where; `above` was added to all of node k. */
static void most_pressed(const size_t *node, uint32_t k, uint32_t first, uint32_t width,
                         uint32_t from, uint32_t to, size_t above, size_t *most, uint32_t *at)
{
    if (node[k] + above <= *most)
        return;
    if (from <= first && first + width <= to) { /* down to where the highest is */
        *most = node[k] + above;
        for (; width > 1; width /= 2) {
            k *= 2;
            if (node[k] < node[k + 1]) {
                k++;
                first += width / 2;
            }
        }
        *at = first;
        return;
    }
    const uint32_t half = width / 2;
    above += node[k] - below(node, k);
    if (from < first + half)
        most_pressed(node, 2 * k, first, half, from, to, above, most, at);
    if (to > first + half)
        most_pressed(node, 2 * k + 1, first + half, half, from, to, above, most, at);
}

uint32_t swi_pressure_most(const swi_pressure *p, uint32_t from, uint32_t to)
{
    size_t most = 0;
    uint32_t at = from;
    most_pressed(p->node, 1, 0, p->width, from, to, 0, &most, &at);
    return at;
}
