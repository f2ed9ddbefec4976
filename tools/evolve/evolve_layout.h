/* Places for the boxes of a graph: layer by layer, each after all that it reads. */
#ifndef STEPWELL_EVOLVE_LAYOUT_H
#define STEPWELL_EVOLVE_LAYOUT_H

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct {
    uint32_t from, to;
} layout_edge;

/* A box, or a place where the long edges of one vertex pass through a layer. */
typedef struct {
    uint32_t layer;
    double x; /* its middle, in pixels */
} layout_node;

typedef struct {
    uint32_t n, n_nodes, n_layers; /* nodes: the vertices, then the passes */
    int width;                     /* of all layers */
    int box_width;
    layout_node *nodes;
    uint32_t *passes, *n_passes; /* of a vertex: the first one, and how many: a layer each */
    void *block;
    size_t bytes;
} layout;

/* n vertices (at least one), each with a higher number than those that it reads; edges are in
 * the order of `to`. Boxes do not touch. The same graph has the same places. */
SW_MUST_USE sw_status layout_make(layout *out, uint32_t n, const layout_edge *edges,
                                  uint32_t n_edges, int box_width);
void layout_free(layout *l);

/* The node of vertex v in a layer that its edges pass through; v itself where they have no
 * place there. */
static inline uint32_t layout_pass(const layout *l, uint32_t v, uint32_t layer)
{
    const uint32_t behind = layer - l->nodes[v].layer; /* wraps where it is in front */
    return behind >= 1 && behind <= l->n_passes[v] ? l->passes[v] + behind - 1 : v;
}

#endif
