/* A layered drawing (Sugiyama et al. 1981): the layer of a vertex is its longest path from the
 * beginning; edges over several layers get a place to pass in each of them, which all edges of
 * one vertex share; in a layer nodes are in the order of the mean of their neighbours, swept
 * down and up; then each moves as near to its neighbours as the distances within its layer
 * allow, which is a regression of ascending numbers, solved exactly. */
#include "tools/evolve/evolve_layout.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include <string.h>

enum { SWEEPS = 8, SETTLES = 24, GAP = 24, PASS_WIDTH = 12, MARGIN = 20, PASSES_MAX = 1 << 16 };

/* While it is made. A segment joins nodes of two layers that lie one after the other. */
typedef struct {
    layout *l;
    const layout_edge *edges;
    uint32_t n_edges;
    uint32_t *layer, *deepest; /* of a vertex: its layer, and that of its deepest reader */
    layout_edge *segments;     /* by the layer of `to` */
    uint32_t *ends;            /* segments that end in a layer: from ends[k] to ends[k + 1] */
    uint32_t *order, *first;   /* nodes by layer, and where each layer begins */
    double *key, *sum, *total; /* of a node */
    double *block_mean, *block_weight; /* of the regression */
    uint32_t *block_n;
} making;

/* ---- layers ------------------------------------------------------------------------------ */

/* How many passes there are. */
static uint64_t find_layers(making *m, uint32_t n)
{
    uint64_t passes = 0;
    for (uint32_t e = 0; e < m->n_edges; e++) { /* those of `from` are all in front */
        const layout_edge *edge = &m->edges[e];
        if (m->layer[edge->from] + 1 > m->layer[edge->to])
            m->layer[edge->to] = m->layer[edge->from] + 1;
    }
    for (uint32_t e = 0; e < m->n_edges; e++)
        if (m->layer[m->edges[e].to] > m->deepest[m->edges[e].from])
            m->deepest[m->edges[e].from] = m->layer[m->edges[e].to];
    for (uint32_t v = 0; v < n; v++)
        if (m->deepest[v] > m->layer[v] + 1)
            passes += m->deepest[v] - m->layer[v] - 1;
    return passes;
}

static void number_nodes(making *m, bool passes)
{
    layout *l = m->l;
    uint32_t next = l->n;
    for (uint32_t v = 0; v < l->n; v++) {
        l->nodes[v].layer = m->layer[v];
        l->passes[v] = next;
        l->n_passes[v] = 0;
        if (!passes)
            continue;
        for (uint32_t at = m->layer[v] + 1; at < m->deepest[v]; at++, l->n_passes[v]++)
            l->nodes[next++].layer = at;
    }
    SW_ASSERT(next == l->n_nodes);
}

/* Twice: to count those of each layer, and to put them in. */
static void add_segment(making *m, uint32_t from, uint32_t to, bool put)
{
    const uint32_t layer = m->l->nodes[to].layer;
    if (m->l->nodes[from].layer + 1 != layer)
        return; /* a long edge without passes moves no one */
    if (put)
        m->segments[m->ends[layer]++] = (layout_edge){from, to};
    else
        m->ends[layer + 1]++;
}

static void add_segments(making *m, bool put)
{
    const layout *l = m->l;
    for (uint32_t v = 0; v < l->n; v++)
        for (uint32_t i = 0; i < l->n_passes[v]; i++)
            add_segment(m, i == 0 ? v : l->passes[v] + i - 1, l->passes[v] + i, put);
    for (uint32_t e = 0; e < m->n_edges; e++) {
        const uint32_t to = m->edges[e].to;
        add_segment(m, layout_pass(l, m->edges[e].from, l->nodes[to].layer - 1), to, put);
    }
}

/* Sums before each layer; what was filled has moved by one layer. */
static void sort_segments(making *m)
{
    const uint32_t layers = m->l->n_layers;
    add_segments(m, false);
    for (uint32_t k = 0; k < layers; k++)
        m->ends[k + 1] += m->ends[k];
    add_segments(m, true);
    memmove(m->ends + 1, m->ends, layers * sizeof *m->ends);
    m->ends[0] = 0;
}

static void sort_nodes(making *m)
{
    const layout *l = m->l;
    for (uint32_t i = 0; i < l->n_nodes; i++)
        m->first[l->nodes[i].layer + 1]++;
    for (uint32_t k = 0; k < l->n_layers; k++)
        m->first[k + 1] += m->first[k];
    for (uint32_t i = 0; i < l->n_nodes; i++)
        m->order[m->first[l->nodes[i].layer]++] = i;
    memmove(m->first + 1, m->first, l->n_layers * sizeof *m->first);
    m->first[0] = 0;
}

/* ---- order within layers ----------------------------------------------------------------- */

/* How much a node follows a neighbour: boxes hardly follow lines that pass by others. */
static double pull(const layout *l, uint32_t node, uint32_t neighbour)
{
    return node < l->n && neighbour >= l->n ? 0.1 : 1.0;
}

static void add_pull(making *m, uint32_t node, uint32_t neighbour, const double *value)
{
    const double weight = pull(m->l, node, neighbour);
    m->sum[node] += weight * value[neighbour];
    m->total[node] += weight;
}

/* The mean of `value` over the neighbours of the nodes of layer k that are before it
 * (down), after it (up), or both; nodes without any keep what they have. */
static void means(making *m, uint32_t k, bool down, bool up, const double *value, double *to)
{
    for (uint32_t i = m->first[k]; i < m->first[k + 1]; i++)
        m->sum[m->order[i]] = m->total[m->order[i]] = 0.0;
    for (uint32_t s = m->ends[k]; s < m->ends[k + 1] && down; s++)
        add_pull(m, m->segments[s].to, m->segments[s].from, value);
    const bool last = k + 1 == m->l->n_layers;
    for (uint32_t s = m->ends[k + 1]; !last && s < m->ends[k + 2] && up; s++)
        add_pull(m, m->segments[s].from, m->segments[s].to, value);
    for (uint32_t i = m->first[k]; i < m->first[k + 1]; i++) {
        const uint32_t node = m->order[i];
        to[node] = m->total[node] > 0.0 ? m->sum[node] / m->total[node] : value[node];
    }
}

/* Stable: equals stay in their order. */
static void order_layer(making *m, uint32_t k, bool down, double *place)
{
    means(m, k, down, !down, place, m->key);
    for (uint32_t i = m->first[k] + 1; i < m->first[k + 1]; i++) {
        const uint32_t node = m->order[i];
        uint32_t at = i;
        for (; at > m->first[k] && m->key[m->order[at - 1]] > m->key[node]; at--)
            m->order[at] = m->order[at - 1];
        m->order[at] = node;
    }
    const uint32_t n = m->first[k + 1] - m->first[k];
    for (uint32_t i = 0; i < n; i++) /* shares, so that layers of all widths compare */
        place[m->order[m->first[k] + i]] = (i + 0.5) / n;
}

static void order_nodes(making *m, double *place)
{
    const uint32_t layers = m->l->n_layers;
    for (uint32_t k = 0; k < layers; k++)
        for (uint32_t i = m->first[k]; i < m->first[k + 1]; i++)
            place[m->order[i]] = (i - m->first[k] + 0.5) / (m->first[k + 1] - m->first[k]);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t k = 0; k < layers; k++)
            order_layer(m, sweep % 2 == 0 ? k : layers - 1 - k, sweep % 2 == 0, place);
}

/* ---- places ------------------------------------------------------------------------------ */

static double half_width(const layout *l, uint32_t node)
{
    return (node < l->n ? l->box_width : PASS_WIDTH) / 2.0;
}

/* From the middle of a node to that of the next one. */
static double apart(const layout *l, uint32_t a, uint32_t b)
{
    return half_width(l, a) + GAP + half_width(l, b);
}

/* As near to m->key as can be, in order and apart: weighted least squares, by pooling. Lines
 * give way to boxes. */
static void place_layer(making *m, uint32_t k, double *x)
{
    const uint32_t *order = m->order + m->first[k], n = m->first[k + 1] - m->first[k];
    uint32_t blocks = 0;
    double offset = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        offset += i > 0 ? apart(m->l, order[i - 1], order[i]) : 0.0;
        m->block_mean[blocks] = m->key[order[i]] - offset;
        m->block_weight[blocks] = order[i] < m->l->n ? 1.0 : 0.25;
        m->block_n[blocks++] = 1;
        for (; blocks > 1 && m->block_mean[blocks - 2] > m->block_mean[blocks - 1]; blocks--) {
            const uint32_t a = blocks - 2, b = blocks - 1;
            const double w = m->block_weight[a] + m->block_weight[b];
            m->block_mean[a] = (m->block_mean[a] * m->block_weight[a] +
                                m->block_mean[b] * m->block_weight[b]) /
                               w;
            m->block_weight[a] = w;
            m->block_n[a] += m->block_n[b];
        }
    }
    offset = 0.0;
    for (uint32_t i = 0, b = 0, left = m->block_n[0]; i < n; i++, left--) {
        offset += i > 0 ? apart(m->l, order[i - 1], order[i]) : 0.0;
        if (left == 0)
            left = m->block_n[++b];
        x[order[i]] = m->block_mean[b] + offset;
    }
}

static void place_nodes(making *m, double *x)
{
    layout *l = m->l;
    double low = 0.0, high = 0.0;
    for (uint32_t i = 0; i < l->n_nodes; i++)
        x[i] = m->key[i] = 0.0;
    for (uint32_t k = 0; k < l->n_layers; k++)
        place_layer(m, k, x);
    for (int sweep = 0; sweep < SETTLES; sweep++)
        for (uint32_t i = 0; i < l->n_layers; i++) {
            const uint32_t k = sweep % 2 == 0 ? i : l->n_layers - 1 - i;
            means(m, k, true, true, x, m->key);
            place_layer(m, k, x);
        }
    for (uint32_t i = 0; i < l->n_nodes; i++) {
        const double half = half_width(l, i);
        low = i == 0 || x[i] - half < low ? x[i] - half : low;
        high = i == 0 || x[i] + half > high ? x[i] + half : high;
    }
    for (uint32_t i = 0; i < l->n_nodes; i++)
        l->nodes[i].x = x[i] - low + MARGIN;
    l->width = (int)(high - low) + 1 + 2 * MARGIN;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* The next `n` of `each` bytes of a block, or of none yet to count. */
static void *carve(void *block, size_t *used, size_t n, size_t each)
{
    void *at = block != NULL ? (char *)block + *used : NULL;
    *used += (n * each + 15) / 16 * 16;
    return at;
}

static size_t carve_all(making *m, void *block, uint32_t n, uint32_t nodes, double **x)
{
    layout *l = m->l;
    const size_t layers = (size_t)n + 2;
    size_t used = 0;
    l->nodes = carve(block, &used, nodes, sizeof *l->nodes);
    l->passes = carve(block, &used, n, sizeof *l->passes);
    l->n_passes = carve(block, &used, n, sizeof *l->n_passes);
    m->segments = carve(block, &used, (size_t)m->n_edges + nodes - n, sizeof *m->segments);
    m->ends = carve(block, &used, layers, sizeof *m->ends);
    m->order = carve(block, &used, nodes, sizeof *m->order);
    m->first = carve(block, &used, layers, sizeof *m->first);
    m->key = carve(block, &used, nodes, sizeof *m->key);
    m->sum = carve(block, &used, nodes, sizeof *m->sum);
    m->total = carve(block, &used, nodes, sizeof *m->total);
    m->block_mean = carve(block, &used, nodes, sizeof *m->block_mean);
    m->block_weight = carve(block, &used, nodes, sizeof *m->block_weight);
    m->block_n = carve(block, &used, nodes, sizeof *m->block_n);
    *x = carve(block, &used, nodes, sizeof **x);
    return used;
}

sw_status layout_make(layout *out, uint32_t n, const layout_edge *edges, uint32_t n_edges,
                      int box_width)
{
    layout l = {.n = n, .box_width = box_width};
    making m = {.l = &l, .edges = edges, .n_edges = n_edges};
    const size_t bytes = 2 * (size_t)n * sizeof *m.layer;
    double *x;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    m.layer = memset(block, 0, bytes);
    m.deepest = m.layer + n;
    const uint64_t passes = find_layers(&m, n);
    l.n_nodes = n + (passes <= PASSES_MAX ? (uint32_t)passes : 0);
    l.bytes = carve_all(&m, NULL, n, l.n_nodes, &x);
    const sw_status status = sw_heap_alloc(&l.block, SW_HEAP_RECORDS, l.bytes);
    if (status == SW_OK) {
        (void)carve_all(&m, memset(l.block, 0, l.bytes), n, l.n_nodes, &x);
        for (uint32_t v = 0; v < n; v++)
            l.n_layers = m.layer[v] + 1 > l.n_layers ? m.layer[v] + 1 : l.n_layers;
        number_nodes(&m, passes <= PASSES_MAX);
        sort_segments(&m);
        sort_nodes(&m);
        order_nodes(&m, x);
        place_nodes(&m, x);
        *out = l;
    }
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}

void layout_free(layout *l)
{
    sw_heap_free(l->block, SW_HEAP_RECORDS, l->bytes);
    *l = (layout){0};
}
