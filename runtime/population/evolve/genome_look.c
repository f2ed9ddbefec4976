/* Hashes of genomes, and what callers see of them. */
#include "runtime/population/evolve/genome.h"
#include <string.h>

/* ---- the hash ---------------------------------------------------------------------------- */

static void mix(uint64_t *h, uint64_t x)
{
    *h = (*h ^ x) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 32;
}

static void mix_f32(uint64_t *h, float x)
{
    uint32_t bits;
    x = x != 0 ? x : 0; /* of -0 too, which the text has no word for */
    memcpy(&bits, &x, sizeof bits);
    mix(h, bits);
}

static void mix_text(uint64_t *h, const char *text)
{
    uint64_t word = 0;
    size_t i = 0;
    for (; text[i] != '\0'; i++) {
        word = word << 8 | (unsigned char)text[i];
        if (i % 8 == 7)
            mix(h, word);
    }
    mix(h, word);
    mix(h, i);
}

static void mix_vertex(uint64_t *h, const swi_vertex *v)
{
    mix_text(h, v->name);
    mix(h, (uint64_t)v->kind << 32 | (v->kind == SW_VERTEX_INPUT ? 0 : v->shield));
    for (uint32_t k = 0; k < v->n_in; k++)
        mix(h, v->in[k]);
    mix(h, v->n_in);
    if (swi_vertex_is_sized(v))
        mix(h, (uint64_t)v->size);
    if (swi_vertex_has_window(v))
        mix(h, (uint64_t)(uint32_t)v->kernel << 32 | (uint32_t)v->stride);
    if (v->kind == SW_VERTEX_CONV2D)
        mix(h, (uint64_t)(uint32_t)v->dilation << 32 | (uint32_t)v->groups);
    if (v->kind == SW_VERTEX_ACTIVATION)
        mix_text(h, swi_activation_name(v->activation));
    if (v->kind == SW_VERTEX_DROPOUT)
        mix_f32(h, v->rate);
    if (swi_vertex_has_parameters(v))
        mix(h, (uint64_t)v->update << 1 | swi_vertex_is_identity(v));
}

uint64_t swi_genome_hash(const sw_genome *g)
{
    uint64_t h = 0x73772067656e6f6du;
    const swi_vertex *input = &g->vertices[0];
    mix(&h, (uint64_t)input->channels);
    mix(&h, (uint64_t)input->height);
    mix(&h, (uint64_t)input->width);
    for (uint32_t i = 0; i < g->n; i++)
        mix_vertex(&h, &g->vertices[i]);
    mix_text(&h, g->optimizer);
    mix_text(&h, g->loss);
    const float numbers[] = {g->lr,   g->momentum,  g->weight_decay,
                             g->clip, g->clip_norm, g->smoothing};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        mix_f32(&h, numbers[i]);
    mix(&h, (uint64_t)g->update);
    mix(&h, (uint64_t)g->batch);
    return h;
}

/* ---- the public view --------------------------------------------------------------------- */

sw_status sw_genome_describe(const sw_genome *g, sw_genome_info *out)
{
    static const char call[] = "sw_genome_describe";
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_genome_info, out->size, call));
    const swi_vertex *input = &g->vertices[0], *last = &g->vertices[g->n - 1];
    sw_genome_info info = SW_OPTS(
        sw_genome_info, .name = g->name, .n_vertices = g->n, .channels = input->channels,
        .height = input->height, .width = input->width, .classes = last->channels,
        .parameters = swi_genome_parameters(g), .optimizer = g->optimizer, .loss = g->loss,
        .lr = g->lr, .momentum = g->momentum, .weight_decay = g->weight_decay, .clip = g->clip,
        .clip_norm = g->clip_norm, .batch = g->batch, .hash = swi_genome_hash(g));
    for (uint32_t i = 0; i < g->n; i++)
        info.n_edges += g->vertices[i].n_in;
    swi_struct_write(SWI_STRUCT_sw_genome_info, out, &info);
    return SW_OK;
}

sw_status sw_genome_vertex(const sw_genome *g, uint32_t i, sw_vertex *out)
{
    static const char call[] = "sw_genome_vertex";
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_vertex, out->size, call));
    if (i >= g->n)
        SW_FAIL(SW_INVALID, "%s: the genome has %u vertices (got %u)", call, g->n, i);
    const swi_vertex *v = &g->vertices[i];
    const bool conv = v->kind == SW_VERTEX_CONV2D, window = swi_vertex_has_window(v);
    const sw_vertex vertex = SW_OPTS(
        sw_vertex, .name = v->name, .kind = v->kind,
        .activation =
            v->kind == SW_VERTEX_ACTIVATION ? swi_activation_name(v->activation) : NULL,
        .inputs = v->in, .n_inputs = (int)v->n_in, .shield = v->shield,
        .kernel = window ? v->kernel : 1, .stride = window ? v->stride : 1,
        .dilation = conv ? v->dilation : 1, .groups = conv ? v->groups : 1,
        .rate = v->kind == SW_VERTEX_DROPOUT ? v->rate : 0, .channels = v->channels,
        .height = v->height, .width = v->width, .parameters = swi_vertex_parameters(g, v),
        .update = swi_vertex_update(g, v), .identity = swi_vertex_is_identity(v));
    swi_struct_write(SWI_STRUCT_sw_vertex, out, &vertex);
    return SW_OK;
}
