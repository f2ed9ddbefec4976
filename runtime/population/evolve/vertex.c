/* What vertices are by themselves. */
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
