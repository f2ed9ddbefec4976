/* Vertices by themselves. */
#include "runtime/population/evolve/genome.h"
#include <string.h>

static const char *const kinds[SW_VERTEX_KINDS] = {
    "input",           "linear",          "conv2d",     "batch_norm", "max_pool", "avg_pool",
    "global_max_pool", "global_avg_pool", "activation", "dropout",    "flatten",  "add",
    "concat"};

const char *sw_vertex_kind_name(sw_vertex_kind kind)
{
    return (unsigned)kind < SW_VERTEX_KINDS ? kinds[kind] : NULL;
}

int swi_vertex_kind_find(const char *name)
{
    for (int i = 0; i < SW_VERTEX_KINDS; i++)
        if (strcmp(kinds[i], name) == 0)
            return i;
    return -1;
}

bool swi_vertex_is_depthwise(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_CONV2D && v->groups == 0;
}

bool swi_vertex_is_sized(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_LINEAR ||
           (v->kind == SW_VERTEX_CONV2D && !swi_vertex_is_depthwise(v));
}

bool swi_vertex_has_parameters(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_LINEAR || v->kind == SW_VERTEX_CONV2D ||
           v->kind == SW_VERTEX_BATCH_NORM;
}

bool swi_vertex_has_window(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_CONV2D || v->kind == SW_VERTEX_MAX_POOL ||
           v->kind == SW_VERTEX_AVG_POOL;
}

bool swi_vertex_is_invariant(const swi_vertex *v)
{
    switch (v->kind) {
    case SW_VERTEX_BATCH_NORM:
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
    case SW_VERTEX_GLOBAL_MAX_POOL:
    case SW_VERTEX_GLOBAL_AVG_POOL:
    case SW_VERTEX_ACTIVATION:
    case SW_VERTEX_DROPOUT:
    case SW_VERTEX_ADD:
        return true;
    default:
        return swi_vertex_is_depthwise(v);
    }
}

bool swi_vertex_is_identity(const swi_vertex *v)
{
    return v->identity && (v->kind == SW_VERTEX_LINEAR || v->kind == SW_VERTEX_CONV2D);
}

swi_vertex swi_vertex_of(sw_vertex_kind kind)
{
    return (swi_vertex){.kind = kind,
                        .kernel = 1,
                        .stride = 1,
                        .dilation = 1,
                        .groups = 1,
                        .parent = SWI_NO_PARENT};
}

/* ---- what it reads and has --------------------------------------------------------------- */

int64_t swi_vertex_reads(const sw_genome *genome, const swi_vertex *v)
{
    int64_t reads = 0;
    const uint32_t n = v->kind == SW_VERTEX_ADD && v->n_in > 1 ? 1 : v->n_in;
    for (uint32_t i = 0; i < n; i++)
        reads += genome->vertices[v->in[i]].channels;
    return reads;
}

int swi_vertex_pad(const swi_vertex *v)
{
    const int dilation = v->kind == SW_VERTEX_CONV2D ? v->dilation : 1;
    return v->kernel % 2 != 0 ? (v->kernel - 1) / 2 * dilation : 0;
}

uint64_t swi_vertex_parameters(const sw_genome *genome, const swi_vertex *v)
{
    const uint64_t out = (uint64_t)v->channels;
    if (v->kind == SW_VERTEX_BATCH_NORM)
        return 2 * out;
    if (v->kind == SW_VERTEX_LINEAR)
        return out * (uint64_t)swi_vertex_reads(genome, v) + out;
    if (v->kind != SW_VERTEX_CONV2D)
        return 0;
    const uint64_t in = (uint64_t)swi_vertex_reads(genome, v);
    const uint64_t groups = v->groups == 0 ? in : (uint64_t)v->groups;
    const uint64_t places = (uint64_t)v->kernel * (uint64_t)v->kernel;
    return out * (in / groups) * places + out;
}

uint32_t swi_vertex_readers(const sw_genome *genome, uint32_t i, uint32_t *out, uint32_t room)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < genome->n; k++) {
        const swi_vertex *v = &genome->vertices[k];
        uint32_t j = 0;
        while (j < v->n_in && v->in[j] != i)
            j++;
        if (j == v->n_in)
            continue;
        if (n < room)
            out[n] = k;
        n++;
    }
    return n;
}

sw_update_time swi_vertex_update(const sw_genome *genome, const swi_vertex *v)
{
    return v->update != SW_UPDATE_DEFAULT ? v->update : genome->update;
}

/* ---- activations ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool idempotent;
} activations[] = {{"relu", true},        {"leaky_relu", false}, {"tanh", false},
                   {"sigmoid", false},    {"swish", false},      {"gelu", false},
                   {"gelu_tanh", false},  {"mish", false},       {"softplus", false},
                   {"hard_swish", false}, {"elu", false},        {"selu", false}};
#define N_ACTIVATIONS ((int)(sizeof activations / sizeof *activations))

const char *swi_activation_name(int i)
{
    return i >= 0 && i < N_ACTIVATIONS ? activations[i].name : NULL;
}

int swi_activation_find(const char *name)
{
    for (int i = 0; i < N_ACTIVATIONS; i++)
        if (strcmp(activations[i].name, name) == 0)
            return i;
    return -1;
}

bool swi_activation_is_idempotent(int i)
{
    return i >= 0 && i < N_ACTIVATIONS && activations[i].idempotent;
}
