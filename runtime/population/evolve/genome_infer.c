/* Shapes of genomes: what each vertex gives, and why it cannot. */
#include "runtime/population/evolve/genome_internal.h"
#include <stdio.h>

#define MAX_ELEMENTS ((int64_t)1 << 31)    /* of one sample's result */
#define MAX_PARAMETERS ((uint64_t)1 << 31) /* of one vertex */

static bool is_image(const swi_vertex *v)
{
    return v->height > 0;
}

static const char *shape_text(const swi_vertex *v, char text[64])
{
    if (is_image(v))
        snprintf(text, 64, "an image of %lld x %lld x %lld", (long long)v->channels,
                 (long long)v->height, (long long)v->width);
    else
        snprintf(text, 64, "a vector of %lld", (long long)v->channels);
    return text;
}

/* ---- what it reads ----------------------------------------------------------------------- */

static sw_status check_inputs(const swi_vertex *v, uint32_t i)
{
    if ((unsigned)v->kind >= SW_VERTEX_KINDS)
        SW_FAIL(SW_INVALID, "vertex '%s': kind %d is none", v->name, (int)v->kind);
    if ((v->kind == SW_VERTEX_INPUT) != (i == 0))
        SW_FAIL(SW_INVALID,
                "vertex '%s': vertex 0 must be the input, and no other (this is %s "
                "vertex %u)",
                v->name, sw_vertex_kind_name(v->kind), i);
    const bool many = v->kind == SW_VERTEX_ADD || v->kind == SW_VERTEX_CONCAT;
    const uint32_t least = i == 0 ? 0 : many ? 2 : 1, most = many ? SWI_MAX_INPUTS : least;
    if (v->n_in < least || v->n_in > most)
        SW_FAIL(SW_INVALID, "vertex '%s': %s reads %s%u vertices (got %u)", v->name,
                sw_vertex_kind_name(v->kind), many ? "2 to " : "", most, v->n_in);
    for (uint32_t k = 0; k < v->n_in; k++)
        if (v->in[k] >= i)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': what it reads must stand before it (input "
                    "%u is vertex %u, and it is vertex %u)",
                    v->name, k, v->in[k], i);
    return SW_OK;
}

static sw_status need_image(const swi_vertex *v, const swi_vertex *x)
{
    char text[64];
    if (!is_image(x))
        SW_FAIL(SW_INVALID, "vertex '%s': %s reads an image, and '%s' is %s", v->name,
                sw_vertex_kind_name(v->kind), x->name, shape_text(x, text));
    return SW_OK;
}

static sw_status check_size(const swi_vertex *v)
{
    if (v->size < 1 || v->size > SWI_MAX_UNITS)
        SW_FAIL(SW_INVALID, "vertex '%s': size must be 1 to %d (got %lld)", v->name,
                SWI_MAX_UNITS, (long long)v->size);
    return SW_OK;
}

/* ---- by kind ----------------------------------------------------------------------------- */

static sw_status infer_input(swi_vertex *v)
{
    if (v->channels < 1 || v->channels > SWI_MAX_UNITS || v->height < 0 ||
        v->height > SWI_MAX_UNITS || v->width < 0 || v->width > SWI_MAX_UNITS ||
        (v->height == 0) != (v->width == 0))
        SW_FAIL(SW_INVALID,
                "vertex '%s': an input has channels, height and width of 1 to %d, "
                "or channels alone (got %lld, %lld and %lld)",
                v->name, SWI_MAX_UNITS, (long long)v->channels, (long long)v->height,
                (long long)v->width);
    return SW_OK;
}

static sw_status infer_linear(swi_vertex *v, const swi_vertex *x)
{
    char text[64];
    SW_TRY(check_size(v));
    if (is_image(x))
        SW_FAIL(SW_INVALID,
                "vertex '%s': linear reads a vector, and '%s' is %s: put flatten "
                "or a global pool in between",
                v->name, x->name, shape_text(x, text));
    v->channels = v->size;
    v->height = v->width = 0;
    return SW_OK;
}

static sw_status check_window(const swi_vertex *v)
{
    if (v->kernel < 1 || v->kernel > SWI_MAX_WINDOW || v->stride < 1 ||
        v->stride > SWI_MAX_WINDOW)
        SW_FAIL(SW_INVALID, "vertex '%s': kernel and stride must be 1 to %d (got %d and %d)",
                v->name, SWI_MAX_WINDOW, v->kernel, v->stride);
    return SW_OK;
}

static sw_status check_groups(const swi_vertex *v, const swi_vertex *x)
{
    if (v->groups < 0 || v->groups > SWI_MAX_UNITS)
        SW_FAIL(SW_INVALID, "vertex '%s': groups must be 1 to %d, or 0 for depthwise (got %d)",
                v->name, SWI_MAX_UNITS, v->groups);
    if (v->groups > 0 && (x->channels % v->groups != 0 || v->size % v->groups != 0))
        SW_FAIL(SW_INVALID,
                "vertex '%s': groups must divide its inputs and its size (got %d "
                "groups, %lld inputs and a size of %lld)",
                v->name, v->groups, (long long)x->channels, (long long)v->size);
    return SW_OK;
}

/* Both windows pad so that with an odd kernel and stride 1 an image keeps its size. */
static int64_t slide(const swi_vertex *v, int64_t dim, int dilation)
{
    const int64_t rest = dim + 2 * swi_vertex_pad(v) - (int64_t)dilation * (v->kernel - 1) - 1;
    return rest < 0 ? 0 : rest / v->stride + 1;
}

static sw_status infer_conv2d(swi_vertex *v, const swi_vertex *x)
{
    SW_TRY(need_image(v, x));
    SW_TRY(check_window(v));
    if (v->kernel % 2 == 0)
        SW_FAIL(SW_INVALID, "vertex '%s': the kernel of a conv2d must be odd (got %d)", v->name,
                v->kernel);
    if (v->dilation < 1 || v->dilation > SWI_MAX_WINDOW)
        SW_FAIL(SW_INVALID, "vertex '%s': dilation must be 1 to %d (got %d)", v->name,
                SWI_MAX_WINDOW, v->dilation);
    if (!swi_vertex_is_depthwise(v))
        SW_TRY(check_size(v));
    SW_TRY(check_groups(v, x));
    v->channels = swi_vertex_is_depthwise(v) ? x->channels : v->size;
    v->height = slide(v, x->height, v->dilation);
    v->width = slide(v, x->width, v->dilation);
    return SW_OK;
}

static sw_status infer_pool(swi_vertex *v, const swi_vertex *x)
{
    char text[64];
    SW_TRY(need_image(v, x));
    SW_TRY(check_window(v));
    if (v->kind == SW_VERTEX_MAX_POOL && v->kernel * v->kernel > 255)
        SW_FAIL(SW_INVALID, "vertex '%s': the kernel of a max_pool must be at most 15 (got %d)",
                v->name, v->kernel);
    const int64_t height = slide(v, x->height, 1), width = slide(v, x->width, 1);
    if (height < 1 || width < 1)
        SW_FAIL(SW_INVALID, "vertex '%s': a window of %d is larger than '%s', which is %s",
                v->name, v->kernel, x->name, shape_text(x, text));
    v->channels = x->channels;
    v->height = height;
    v->width = width;
    return SW_OK;
}

static sw_status infer_to_vector(swi_vertex *v, const swi_vertex *x)
{
    SW_TRY(need_image(v, x));
    if (v->kind == SW_VERTEX_GLOBAL_MAX_POOL && x->height * x->width > 255)
        SW_FAIL(SW_INVALID,
                "vertex '%s': a global_max_pool takes at most 255 places (got %lld x %lld)",
                v->name, (long long)x->height, (long long)x->width);
    v->channels =
        v->kind == SW_VERTEX_FLATTEN ? x->channels * x->height * x->width : x->channels;
    v->height = v->width = 0;
    return SW_OK;
}

static sw_status infer_same(swi_vertex *v, const swi_vertex *x)
{
    if (v->kind == SW_VERTEX_BATCH_NORM)
        SW_TRY(need_image(v, x));
    if (v->kind == SW_VERTEX_ACTIVATION && swi_activation_name(v->activation) == NULL)
        SW_FAIL(SW_INVALID, "vertex '%s': activation %d is none", v->name, v->activation);
    if (v->kind == SW_VERTEX_DROPOUT && !(v->rate >= 0 && v->rate < 1))
        SW_FAIL(SW_INVALID, "vertex '%s': rate must be at least 0 and below 1 (got %g)",
                v->name, (double)v->rate);
    v->channels = x->channels;
    v->height = x->height;
    v->width = x->width;
    return SW_OK;
}

static sw_status infer_join(const sw_genome *g, swi_vertex *v)
{
    char a[64], b[64];
    const swi_vertex *first = &g->vertices[v->in[0]];
    const bool add = v->kind == SW_VERTEX_ADD;
    int64_t channels = first->channels;
    for (uint32_t k = 1; k < v->n_in; k++) {
        const swi_vertex *x = &g->vertices[v->in[k]];
        if (x->height != first->height || x->width != first->width ||
            (add && x->channels != first->channels))
            SW_FAIL(SW_INVALID, "vertex '%s': %s: '%s' is %s, and '%s' is %s", v->name,
                    add ? "what is added must have one shape"
                        : "what is joined must have one height and width",
                    first->name, shape_text(first, a), x->name, shape_text(x, b));
        channels += add ? 0 : x->channels;
    }
    v->channels = channels;
    v->height = first->height;
    v->width = first->width;
    return SW_OK;
}

static sw_status infer_kind(const sw_genome *g, swi_vertex *v)
{
    const swi_vertex *x = &g->vertices[v->in[0]];
    switch (v->kind) {
    case SW_VERTEX_INPUT:
        return infer_input(v);
    case SW_VERTEX_LINEAR:
        return infer_linear(v, x);
    case SW_VERTEX_CONV2D:
        return infer_conv2d(v, x);
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
        return infer_pool(v, x);
    case SW_VERTEX_GLOBAL_MAX_POOL:
    case SW_VERTEX_GLOBAL_AVG_POOL:
    case SW_VERTEX_FLATTEN:
        return infer_to_vector(v, x);
    case SW_VERTEX_ADD:
    case SW_VERTEX_CONCAT:
        return infer_join(g, v);
    default:
        return infer_same(v, x);
    }
}

/* ---- the whole --------------------------------------------------------------------------- */

/* So that products of sizes, parameters and batches of all vertices have room. */
static sw_status check_bounds(const sw_genome *g, const swi_vertex *v)
{
    const bool image = is_image(v);
    if (v->channels > SWI_MAX_UNITS)
        SW_FAIL(SW_INVALID,
                "vertex '%s': it must give at most %d channels or elements (got "
                "%lld)",
                v->name, SWI_MAX_UNITS, (long long)v->channels);
    if (image && v->channels * v->height > MAX_ELEMENTS / v->width)
        SW_FAIL(SW_INVALID,
                "vertex '%s': a sample must give at most %lld elements (got %lld x "
                "%lld x %lld)",
                v->name, (long long)MAX_ELEMENTS, (long long)v->channels, (long long)v->height,
                (long long)v->width);
    const uint64_t parameters = swi_vertex_parameters(g, v);
    if (parameters > MAX_PARAMETERS)
        SW_FAIL(SW_INVALID, "vertex '%s': it must have at most %llu parameters (got %llu)",
                v->name, (unsigned long long)MAX_PARAMETERS, (unsigned long long)parameters);
    return SW_OK;
}

static sw_status infer_vertex(sw_genome *g, uint32_t i)
{
    swi_vertex *v = &g->vertices[i];
    SW_TRY(check_inputs(v, i));
    SW_TRY(infer_kind(g, v));
    return check_bounds(g, v);
}

sw_status swi_genome_infer_from(sw_genome *g, uint32_t first, uint32_t *bad)
{
    for (uint32_t i = first; i < g->n; i++) {
        const sw_status status = infer_vertex(g, i);
        if (status != SW_OK && bad != NULL)
            *bad = i;
        SW_TRY(status);
    }
    return SW_OK;
}

sw_status swi_genome_infer(sw_genome *g, uint32_t *bad)
{
    return swi_genome_infer_from(g, 0, bad);
}

uint64_t swi_genome_parameters(const sw_genome *g)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        n += swi_vertex_parameters(g, &g->vertices[i]);
    return n;
}
