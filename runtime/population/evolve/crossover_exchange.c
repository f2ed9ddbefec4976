/* One segment in the place of another, between two adapters: layers that make of what is in
 * front what the segment read, and of what it gives what those after read. Adapters fit by
 * their sizes; then those are tied to what they read, sizes are aligned, and the adapters are
 * passed by. */
#include "runtime/population/evolve/mutate.h"

/* The vertex whose neurons vertex i gives; UINT32_MAX: they are of several, or of none. */
static uint32_t maker(const sw_genome *g, uint32_t i)
{
    while (!swi_vertex_is_sized(&g->vertices[i]) && swi_vertex_is_invariant(&g->vertices[i]))
        i = g->vertices[i].in[0];
    return swi_vertex_is_sized(&g->vertices[i]) ? i : UINT32_MAX;
}

/* A layer that reads x and has the outputs of vertex `like` of `from`, whose utility they have
 * too; of the image of x. */
static sw_status insert_adapter(sw_genome *g, uint32_t at, uint32_t x, const sw_genome *from,
                                uint32_t like, uint8_t parent)
{
    const uint32_t was = maker(from, like);
    swi_vertex v =
        swi_vertex_of(g->vertices[x].height > 0 ? SW_VERTEX_CONV2D : SW_VERTEX_LINEAR);
    swi_genome_fresh_name(g, v.name);
    v.size = v.channels = from->vertices[like].channels;
    v.height = g->vertices[x].height;
    v.width = g->vertices[x].width;
    v.in[0] = x;
    v.n_in = 1;
    if (was != UINT32_MAX) {
        v.parent = parent;
        v.was = was;
        v.rows = from->vertices[was].rows;
        v.n_rows = from->vertices[was].n_rows;
    }
    return swi_genome_insert(g, at, &v);
}

/* An adapter that reads the entry takes the place of the segment, which is removed.
 * *adapter: where it is then. */
static sw_status take_out(sw_genome *g, const swi_segment *s, uint32_t *adapter)
{
    uint32_t list[SWI_SEGMENT_MOST];
    swi_segment_vertices(g, s, list);
    SW_TRY(insert_adapter(g, s->exit + 1, s->exit, g, s->exit, 0));
    swi_genome_redirect(g, s->exit, s->exit + 1);
    g->vertices[s->exit + 1].in[0] = s->entry;
    for (uint32_t i = s->n; i-- > 0;)
        swi_genome_remove(g, list[i]);
    *adapter = s->exit + 1 - s->n;
    return SW_OK;
}

/* Copies of the segment's vertices stand after `at`; the first ones read `at`. */
static sw_status put_in(sw_genome *g, const sw_genome *from, const swi_segment *s, uint32_t at)
{
    uint32_t list[SWI_SEGMENT_MOST];
    swi_segment_vertices(from, s, list);
    for (uint32_t i = 0; i < s->n; i++) {
        swi_vertex v = from->vertices[list[i]];
        v.parent = 1;
        v.was = list[i];
        for (uint32_t k = 0; k < v.n_in; k++) {
            uint32_t j = 0;
            while (j < i && list[j] != from->vertices[list[i]].in[k])
                j++;
            v.in[k] = j < i ? at + 1 + j : at;
        }
        if (swi_genome_find(g, v.name) != UINT32_MAX)
            swi_genome_fresh_name(g, v.name);
        SW_TRY(swi_genome_insert(g, at + 1 + i, &v));
    }
    return SW_OK;
}

sw_status swi_segment_exchange(swi_child *c, const sw_genome *from, const swi_segment *in,
                               const swi_segment *out)
{
    sw_genome *g = c->genome;
    uint32_t last;
    const uint32_t first = out->entry + 1;
    SW_TRY(take_out(g, out, &last));
    SW_TRY(insert_adapter(g, first, out->entry, from, in->entry, 1));
    SW_TRY(put_in(g, from, in, first));
    last += 1 + in->n;
    const uint32_t exit = first + in->n;
    g->vertices[last].in[0] = exit;
    SW_TRY(swi_genome_infer(g, NULL));
    const swi_tie ties[2] = {{.a = out->entry, .b = first}, {.a = exit, .b = last}};
    SW_TRY(swi_child_align(c, NULL, 0, ties, 2, NULL));
    SW_TRY(swi_pass_over(g, last, exit));
    return swi_pass_over(g, first, out->entry);
}
