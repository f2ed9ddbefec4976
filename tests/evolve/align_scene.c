#include "tests/evolve/align_scene.h"
#include <stdio.h>
#include <string.h>

sw_genome *aligned_genome(int64_t channels, int64_t height)
{
    sw_genome *g = NULL;
    const sw_task task = {sizeof task, channels, height, height, 10};
    OK(swi_genome_new(&g, &task));
    AFTER(sw_genome_destroy, g);
    return g;
}

static uint32_t append(sw_genome *g, swi_vertex v)
{
    snprintf(v.name, sizeof v.name, "v%u", g->n);
    OK(swi_genome_insert(g, g->n, &v));
    OK(swi_genome_infer(g, NULL));
    return g->n - 1;
}

uint32_t aligned_linear(sw_genome *g, uint32_t in, int64_t size)
{
    swi_vertex v = swi_vertex_of(SW_VERTEX_LINEAR);
    v.in[v.n_in++] = in;
    v.size = size;
    return append(g, v);
}

uint32_t aligned_conv(sw_genome *g, uint32_t in, int64_t size, int groups)
{
    swi_vertex v = swi_vertex_of(SW_VERTEX_CONV2D);
    v.in[v.n_in++] = in;
    v.size = groups == 0 ? 0 : size;
    v.groups = groups;
    return append(g, v);
}

uint32_t aligned_through(sw_genome *g, uint32_t in, sw_vertex_kind kind)
{
    swi_vertex v = swi_vertex_of(kind);
    v.in[v.n_in++] = in;
    return append(g, v);
}

uint32_t aligned_join(sw_genome *g, sw_vertex_kind kind, uint32_t a, uint32_t b)
{
    swi_vertex v = swi_vertex_of(kind);
    v.in[v.n_in++] = a;
    v.in[v.n_in++] = b;
    return append(g, v);
}

void aligned_end(sw_genome *g, uint32_t in)
{
    if (g->vertices[in].height > 0)
        in = aligned_through(g, in, SW_VERTEX_GLOBAL_AVG_POOL);
    aligned_linear(g, in, 10);
    OK(swi_genome_infer(g, NULL));
    OK(swi_genome_begin_lineage(g));
}

static bool same_numbers(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    return n_a == n_b && (a == NULL) == (b == NULL) &&
           (a == NULL || memcmp(a, b, n_a * sizeof *a) == 0);
}

bool aligned_same(const sw_genome *a, const sw_genome *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        const swi_vertex *x = &a->vertices[i], *y = &b->vertices[i];
        same = x->size == y->size && x->channels == y->channels && x->height == y->height &&
               x->width == y->width && x->parent == y->parent && x->was == y->was &&
               same_numbers(x->rows, x->n_rows, y->rows, y->n_rows) &&
               same_numbers(x->cols, x->n_cols, y->cols, y->n_cols);
    }
    return same;
}

sw_status aligned_resize(sw_genome *g, uint32_t vertex, int64_t size)
{
    const swi_wish wish = {vertex, size};
    const swi_align_opts opts = {.wishes = &wish, .n_wishes = 1};
    return swi_align(g, &opts, NULL);
}
