/* Genomes as graphs: made, copied, edited. */
#include "alloc/base/assert.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/population/evolve/genome.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BYTES(n) ((size_t)(n) * sizeof(int32_t))

/* ---- blocks ------------------------------------------------------------------------------ */

static void free_lineage(swi_vertex *v)
{
    sw_heap_free(v->rows, SW_HEAP_RECORDS, BYTES(v->n_rows));
    sw_heap_free(v->cols, SW_HEAP_RECORDS, BYTES(v->n_cols));
    v->rows = v->cols = NULL;
    v->n_rows = v->n_cols = 0;
}

static sw_status copy_numbers(int32_t **out, const int32_t *from, uint32_t n)
{
    if (from == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(out, SW_HEAP_RECORDS, BYTES(n)));
    memcpy(*out, from, BYTES(n));
    return SW_OK;
}

/* *to has no blocks of its own yet; on failure it has none. */
static sw_status copy_vertex(swi_vertex *to, const swi_vertex *from)
{
    *to = *from;
    to->rows = to->cols = NULL;
    sw_status status = copy_numbers(&to->rows, from->rows, from->n_rows);
    to->n_rows = to->rows != NULL ? from->n_rows : 0;
    if (status == SW_OK)
        status = copy_numbers(&to->cols, from->cols, from->n_cols);
    to->n_cols = to->cols != NULL ? from->n_cols : 0;
    if (status != SW_OK)
        free_lineage(to);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------- */

void swi_genome_free(sw_genome *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->n; i++)
        free_lineage(&g->vertices[i]);
    sw_heap_free(g->vertices, SW_HEAP_RECORDS, g->cap * sizeof *g->vertices);
    sw_handle_give(g, SW_HANDLE_GENOME, sizeof *g);
}

void sw_genome_destroy(sw_genome *g)
{
    if (sw_handle_ends(g, SW_HANDLE_GENOME, "sw_genome_destroy"))
        swi_genome_free(g);
}

sw_status swi_genome_new(sw_genome **out, const sw_task *task)
{
    sw_genome *g;
    SW_TRY(sw_handle_take(&g, SW_HANDLE_GENOME, sizeof(sw_genome)));
    snprintf(g->optimizer, sizeof g->optimizer, "adam");
    snprintf(g->loss, sizeof g->loss, "cross_entropy");
    g->lr = 0.001f;
    g->update = SW_UPDATE_RELEASE;
    g->batch = 64;
    swi_vertex input = swi_vertex_of(SW_VERTEX_INPUT);
    snprintf(input.name, sizeof input.name, "input");
    input.channels = task->channels;
    input.height = task->height;
    input.width = task->height != 0 ? task->width : 0;
    const sw_status status = swi_genome_insert(g, 0, &input);
    return SW_GIVE(status, out, g, swi_genome_free);
}

static sw_status copy_vertices(sw_genome *to, const sw_genome *from)
{
    to->vertices = NULL;
    to->n = to->cap = 0;
    SW_TRY(sw_heap_reserve(&to->vertices, SW_HEAP_RECORDS, &to->cap, from->n));
    for (; to->n < from->n; to->n++)
        SW_TRY(copy_vertex(&to->vertices[to->n], &from->vertices[to->n]));
    return SW_OK;
}

sw_status sw_genome_copy(sw_genome **out, const sw_genome *from)
{
    sw_genome *g;
    SW_TRY(sw_handle_check(from, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(sw_handle_take(&g, SW_HANDLE_GENOME, sizeof(sw_genome)));
    const sw_handle handle = g->handle;
    *g = *from;
    g->handle = handle;
    g->editor = NULL;
    const sw_status status = copy_vertices(g, from);
    return SW_GIVE(status, out, g, swi_genome_free);
}

sw_status sw_genome_child(sw_genome **out, const sw_genome *parent)
{
    sw_genome *child;
    SW_TRY(sw_handle_check(parent, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(sw_genome_copy(&child, parent));
    const sw_status status = swi_genome_begin_lineage(child);
    return SW_GIVE(status, out, child, swi_genome_free);
}

/* ---- edits ------------------------------------------------------------------------------- */

/* Inputs from `at` on are `by` further on. */
static void renumber(sw_genome *g, uint32_t at, int by)
{
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (g->vertices[i].in[k] >= at)
                g->vertices[i].in[k] += (uint32_t)by;
}

sw_status swi_genome_insert(sw_genome *g, uint32_t at, const swi_vertex *vertex)
{
    swi_vertex own;
    SW_ASSERT(at <= g->n);
    if (g->n == SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "a genome must have at most %d vertices", SWI_MAX_VERTICES);
    SW_TRY(copy_vertex(&own, vertex));
    const sw_status status = sw_heap_reserve(&g->vertices, SW_HEAP_RECORDS, &g->cap, g->n + 1);
    if (status != SW_OK) {
        free_lineage(&own);
        return status;
    }
    if (at < g->n)
        renumber(g, at, 1);
    memmove(g->vertices + at + 1, g->vertices + at, (g->n - at) * sizeof *g->vertices);
    g->vertices[at] = own;
    g->n++;
    return SW_OK;
}

void swi_genome_remove(sw_genome *g, uint32_t i)
{
    SW_ASSERT(i < g->n && swi_vertex_readers(g, i, NULL, 0) == 0);
    free_lineage(&g->vertices[i]);
    g->n--;
    memmove(g->vertices + i, g->vertices + i + 1, (g->n - i) * sizeof *g->vertices);
    renumber(g, i + 1, -1);
}

void swi_genome_redirect(sw_genome *g, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (g->vertices[i].in[k] == from)
                g->vertices[i].in[k] = to;
}

/* ---- lineage ----------------------------------------------------------------------------- */

static sw_status count_up(int32_t **numbers, uint32_t *had, uint32_t n)
{
    if (*had != n || *numbers == NULL) {
        SW_TRY(sw_heap_resize(numbers, SW_HEAP_RECORDS, BYTES(*had), BYTES(n)));
        *had = n;
    }
    for (uint32_t i = 0; i < n; i++)
        (*numbers)[i] = (int32_t)i;
    return SW_OK;
}

static sw_status begin_lineage_of(sw_genome *g, uint32_t i)
{
    swi_vertex *v = &g->vertices[i];
    v->parent = 0;
    v->was = i;
    if (!swi_vertex_has_parameters(v)) {
        free_lineage(v);
        return SW_OK;
    }
    SW_TRY(count_up(&v->rows, &v->n_rows, (uint32_t)v->channels));
    if (swi_vertex_is_sized(v))
        return count_up(&v->cols, &v->n_cols, (uint32_t)swi_vertex_reads(g, v));
    sw_heap_free(v->cols, SW_HEAP_RECORDS, BYTES(v->n_cols));
    v->cols = NULL;
    v->n_cols = 0;
    return SW_OK;
}

void swi_genome_forget(sw_genome *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        free_lineage(&g->vertices[i]);
        g->vertices[i].parent = SWI_NO_PARENT;
        g->vertices[i].was = 0;
    }
    g->n_parents = 0;
    g->parents[0] = g->parents[1] = 0;
}

sw_status swi_genome_begin_lineage(sw_genome *g)
{
    sw_status status = SW_OK;
    const uint64_t hash = swi_genome_hash(g);
    for (uint32_t i = 0; i < g->n && status == SW_OK; i++)
        status = begin_lineage_of(g, i);
    if (status != SW_OK) {
        swi_genome_forget(g);
        return status;
    }
    g->n_parents = 1;
    g->parents[0] = hash;
    g->parents[1] = 0;
    g->next = 0;
    return SW_OK;
}

/* Shapes of genomes: what each vertex gives, and why it cannot. */

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

static sw_status need_image(const swi_vertex *v, const swi_vertex *x)
{
    char text[64];
    if (!is_image(x))
        SW_FAIL(SW_INVALID, "vertex '%s': %s reads an image, and '%s' is %s", v->name,
                sw_vertex_kind_name(v->kind), x->name, shape_text(x, text));
    return SW_OK;
}

/* Whole numbers are within the ranges that texts have. */
static sw_status check_numbers(const swi_vertex *v)
{
    for (uint32_t i = SWI_VERTEX_SIZE; i <= SWI_VERTEX_GROUPS; i++) {
        const swi_text_field *f = &swi_vertex_fields.list[i];
        const double x = swi_vertex_has(v, i) ? swi_field_get(f, v) : f->low;
        if ((x < f->low || x > f->high) && (x != 0 || f->zero == NULL))
            SW_FAIL(SW_INVALID, "vertex '%s': %s must be %.0f to %.0f%s%s (got %.0f)", v->name,
                    f->name, f->low, f->high, f->zero != NULL ? ", or 0 for " : "",
                    f->zero != NULL ? f->zero : "", x);
    }
    return SW_OK;
}

/* ---- by kind ----------------------------------------------------------------------------- */

static sw_status gives(swi_vertex *v, int64_t channels, int64_t height, int64_t width)
{
    v->channels = channels;
    v->height = height;
    v->width = width;
    return SW_OK;
}

static sw_status infer_linear(swi_vertex *v, const swi_vertex *x)
{
    char text[64];
    if (is_image(x))
        SW_FAIL(SW_INVALID,
                "vertex '%s': linear reads a vector, and '%s' is %s: put flatten "
                "or a global pool in between",
                v->name, x->name, shape_text(x, text));
    return gives(v, v->size, 0, 0);
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
    if (v->kernel % 2 == 0)
        SW_FAIL(SW_INVALID, "vertex '%s': the kernel of a conv2d must be odd (got %d)", v->name,
                v->kernel);
    if (v->groups > 0 && (x->channels % v->groups != 0 || v->size % v->groups != 0))
        SW_FAIL(SW_INVALID,
                "vertex '%s': groups must divide its inputs and its size (got %d "
                "groups, %lld inputs and a size of %lld)",
                v->name, v->groups, (long long)x->channels, (long long)v->size);

    return gives(v, swi_vertex_is_depthwise(v) ? x->channels : v->size,
                 slide(v, x->height, v->dilation), slide(v, x->width, v->dilation));
}

static sw_status infer_pool(swi_vertex *v, const swi_vertex *x)
{
    char text[64];
    SW_TRY(need_image(v, x));
    if (v->kind == SW_VERTEX_MAX_POOL && v->kernel * v->kernel > 255)
        SW_FAIL(SW_INVALID, "vertex '%s': the kernel of a max_pool must be at most 15 (got %d)",
                v->name, v->kernel);
    const int64_t height = slide(v, x->height, 1), width = slide(v, x->width, 1);
    if (height < 1 || width < 1)
        SW_FAIL(SW_INVALID, "vertex '%s': a window of %d is larger than '%s', which is %s",
                v->name, v->kernel, x->name, shape_text(x, text));
    return gives(v, x->channels, height, width);
}

static sw_status infer_to_vector(swi_vertex *v, const swi_vertex *x)
{
    SW_TRY(need_image(v, x));
    if (v->kind == SW_VERTEX_GLOBAL_MAX_POOL && x->height * x->width > 255)
        SW_FAIL(SW_INVALID,
                "vertex '%s': a global_max_pool takes at most 255 places (got %lld x %lld)",
                v->name, (long long)x->height, (long long)x->width);
    const int64_t each = v->kind == SW_VERTEX_FLATTEN ? x->height * x->width : 1;
    return gives(v, x->channels * each, 0, 0);
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
    return gives(v, x->channels, x->height, x->width);
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
    return gives(v, channels, first->height, first->width);
}

static sw_status infer_kind(const sw_genome *g, swi_vertex *v)
{
    const swi_vertex *x = &g->vertices[v->in[0]];
    switch (v->kind) {
    case SW_VERTEX_INPUT:
        if (v->channels < 1 || v->channels > SWI_MAX_UNITS || v->height < 0 ||
            v->height > SWI_MAX_UNITS || v->width < 0 || v->width > SWI_MAX_UNITS ||
            (v->height == 0) != (v->width == 0))
            SW_FAIL(SW_INVALID,
                    "vertex '%s': an input has channels, height and width of 1 to %d, "
                    "or channels alone (got %lld, %lld and %lld)",
                    v->name, SWI_MAX_UNITS, (long long)v->channels, (long long)v->height,
                    (long long)v->width);
        return SW_OK;
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

static sw_status infer_vertex(sw_genome *g, uint32_t i)
{
    swi_vertex *v = &g->vertices[i];
    if ((unsigned)v->kind >= SW_VERTEX_KINDS)
        SW_FAIL(SW_INVALID, "vertex '%s': kind %d is none", v->name, (int)v->kind);
    if ((v->kind == SW_VERTEX_INPUT) != (i == 0))
        SW_FAIL(SW_INVALID,
                "vertex '%s': vertex 0 must be the input, and no other (this is %s vertex %u)",
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

    SW_TRY(check_numbers(v));
    SW_TRY(infer_kind(g, v));
    /* So that products of sizes, parameters and batches of all vertices have room. */
    const bool image = is_image(v);
    if (v->channels > SWI_MAX_UNITS)
        SW_FAIL(SW_INVALID,
                "vertex '%s': it must give at most %d channels or elements (got %lld)", v->name,
                SWI_MAX_UNITS, (long long)v->channels);
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

/* Hashes of genomes, and what callers see of them. */

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

uint64_t swi_genome_hash(const sw_genome *g)
{
    uint64_t h = 0x73772067656e6f6du;
    const swi_vertex *input = &g->vertices[0];
    mix(&h, (uint64_t)input->channels);
    mix(&h, (uint64_t)input->height);
    mix(&h, (uint64_t)input->width);
    for (const swi_vertex *v = g->vertices; v < g->vertices + g->n; v++) {
        mix_text(&h, v->name);
        mix(&h, (uint64_t)v->kind << 32 | (v->kind == SW_VERTEX_INPUT ? 0 : v->shield));
        for (uint32_t k = 0; k < v->n_in; k++)
            mix(&h, v->in[k]);
        mix(&h, v->n_in);
        if (swi_vertex_is_sized(v))
            mix(&h, (uint64_t)v->size);
        if (swi_vertex_has(v, SWI_VERTEX_KERNEL))
            mix(&h, (uint64_t)(uint32_t)v->kernel << 32 | (uint32_t)v->stride);
        if (v->kind == SW_VERTEX_CONV2D)
            mix(&h, (uint64_t)(uint32_t)v->dilation << 32 | (uint32_t)v->groups);
        if (v->kind == SW_VERTEX_ACTIVATION)
            mix_text(&h, swi_activation_name(v->activation));
        if (v->kind == SW_VERTEX_DROPOUT)
            mix_f32(&h, v->rate);
        if (swi_vertex_has_parameters(v))
            mix(&h, (uint64_t)v->update << 1 | swi_vertex_is_identity(v));
    }
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
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_genome_info, out, __func__));
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
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_vertex, out, __func__));
    if (i >= g->n)
        SW_FAIL(SW_INVALID, "%s: the genome has %u vertices (got %u)", __func__, g->n, i);
    const swi_vertex *v = &g->vertices[i];
    const bool conv = v->kind == SW_VERTEX_CONV2D,
               window = swi_vertex_has(v, SWI_VERTEX_KERNEL);
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

static const char *const vertex_kinds[SW_VERTEX_KINDS] = {
    "input",           "linear",          "conv2d",     "batch_norm", "max_pool", "avg_pool",
    "global_max_pool", "global_avg_pool", "activation", "dropout",    "flatten",  "add",
    "concat"};

const char *sw_vertex_kind_name(sw_vertex_kind kind)
{
    return (unsigned)kind < SW_VERTEX_KINDS ? vertex_kinds[kind] : NULL;
}

int swi_vertex_kind_find(const char *name)
{
    for (int i = 0; i < SW_VERTEX_KINDS; i++)
        if (strcmp(vertex_kinds[i], name) == 0)
            return i;
    return -1;
}

bool swi_vertex_is_depthwise(const swi_vertex *v)
{
    return v->kind == SW_VERTEX_CONV2D && v->groups == 0;
}

bool swi_vertex_is_sized(const swi_vertex *v)
{
    return swi_vertex_has(v, SWI_VERTEX_SIZE);
}

bool swi_vertex_has_parameters(const swi_vertex *v)
{
    return swi_vertex_has(v, SWI_VERTEX_UPDATE);
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
    return v->identity && swi_vertex_has(v, SWI_VERTEX_IDENTITY);
}

swi_vertex swi_vertex_of(sw_vertex_kind kind)
{
    return (swi_vertex)SW_INIT(.kind = kind, .kernel = 1, .stride = 1, .dilation = 1,
                               .groups = 1, .parent = SWI_NO_PARENT);
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

/* The promises of a valid genome. */

/* ---- the graph --------------------------------------------------------------------------- */

static sw_status check_names(const sw_genome *g, uint32_t *bad)
{
    swi_names table;
    swi_names_begin(&table, g->n);
    *bad = 0;
    if (strcmp(g->vertices[0].name, "input") != 0)
        SW_FAIL(SW_INVALID, "vertex 0: the name of the input must be 'input' (got '%.40s')",
                g->vertices[0].name);
    for (uint32_t i = 0; i < g->n; i++) {
        const char *name = g->vertices[i].name;
        *bad = i;
        if (!swi_name_is_one(name, SWI_VERTEX_NAME, false))
            SW_FAIL(SW_INVALID,
                    "vertex %u: its name must be of 1 to %d letters, digits, '_' "
                    "and '-' (got '%.40s')",
                    i, SWI_VERTEX_NAME - 1, name);
        if (strcmp(name, "stepwell") == 0)
            SW_FAIL(SW_INVALID, "vertex %u: the name 'stepwell' is the library's own in files",
                    i);
        uint16_t *slot = swi_names_slot(&table, g, name);
        if (*slot != 0)
            SW_FAIL(SW_INVALID, "vertex '%s': vertices %d and %u have the same name", name,
                    *slot - 1, i);
        *slot = (uint16_t)(i + 1);
    }
    return SW_OK;
}

static sw_status check_read(const sw_genome *g, uint32_t *bad)
{
    bool read[SWI_MAX_VERTICES];
    const swi_vertex *last = &g->vertices[g->n - 1];
    memset(read, 0, g->n);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            read[g->vertices[i].in[k]] = true;
    for (uint32_t i = 0; i + 1 < g->n; i++) {
        *bad = i;
        if (!read[i])
            SW_FAIL(SW_INVALID,
                    "vertex '%s': no vertex reads it, and only the last one "
                    "('%s') gives the logits",
                    g->vertices[i].name, last->name);
    }
    *bad = g->n - 1;
    if (last->kind == SW_VERTEX_INPUT || last->height != 0)
        SW_FAIL(SW_INVALID,
                "vertex '%s': the last vertex gives the logits: it must be a "
                "vector, and not the input",
                last->name);
    return SW_OK;
}

/* There is something to train. */
static sw_status check_parameters(const sw_genome *g, uint32_t *bad)
{
    *bad = g->n - 1;
    for (uint32_t i = 0; i < g->n; i++)
        if (swi_vertex_has_parameters(&g->vertices[i]))
            return SW_OK;
    SW_FAIL(SW_INVALID,
            "vertex '%s': a genome must have a vertex with parameters: a linear, conv2d or "
            "batch_norm",
            g->vertices[g->n - 1].name);
}

/* The statistics of a batch are of two numbers at least. */
static sw_status check_norms(const sw_genome *g, uint32_t *bad)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        *bad = i;
        if (v->kind == SW_VERTEX_BATCH_NORM && g->batch * v->height * v->width < 2)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': batch_norm needs two numbers of each channel at least, and a "
                    "batch of 1 with images of 1 x 1 has one",
                    v->name);
    }
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

static sw_status check_optimizer(const sw_genome *g)
{
    const swi_optimizer_kind *kind = swi_find_optimizer(g->optimizer);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = g->optimizer, .lr = g->lr, .momentum = g->momentum,
                .weight_decay = g->weight_decay);
    if (kind == NULL)
        SW_FAIL(SW_INVALID, "'%s' is no optimizer", g->optimizer);
    SW_TRY(swi_check_optimizer(&opts, kind));
    if (!(g->lr > 0))
        SW_FAIL(SW_INVALID, "optimizer %s: lr must be above 0 (got %g)", g->optimizer,
                (double)g->lr);
    if (!isfinite(g->clip) || g->clip < 0 || !isfinite(g->clip_norm) || g->clip_norm < 0)
        SW_FAIL(SW_INVALID,
                "optimizer %s: clip and clip_norm must be finite and at least 0 "
                "(got %g and %g)",
                g->optimizer, (double)g->clip, (double)g->clip_norm);
    if (g->update != SW_UPDATE_RELEASE && g->update != SW_UPDATE_AFTER)
        SW_FAIL(SW_INVALID, "optimizer %s: update must be release or after", g->optimizer);
    return SW_OK;
}

/* The norm of all gradients is known when all are there: no update may be before that. */
static sw_status check_updates(const sw_genome *g, uint32_t *bad)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        *bad = i;
        if (!swi_vertex_has_parameters(v))
            continue;
        if ((unsigned)v->update > SW_UPDATE_RELEASE)
            SW_FAIL(SW_INVALID, "vertex '%s': update %d is none", v->name, (int)v->update);
        if (g->clip_norm > 0 && swi_vertex_update(g, v) == SW_UPDATE_RELEASE)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': its update is released during backward, and "
                    "clip_norm %g needs all gradients first: let its update be after, or use "
                    "clip, which bounds each gradient by itself",
                    v->name, (double)g->clip_norm);
    }
    return SW_OK;
}

sw_status swi_genome_check_part(const sw_genome *g, swi_genome_part part)
{
    switch (part) {
    case SWI_PART_OPTIMIZER:
        return check_optimizer(g);
    case SWI_PART_NAME:
        if (g->name[0] != '\0' && !swi_name_is_one(g->name, SWI_GENOME_NAME, true))
            SW_FAIL(SW_INVALID,
                    "the name of a genome must be of at most %d letters, digits, '_', "
                    "'-' and '.' (got '%.60s')",
                    SWI_GENOME_NAME - 1, g->name);
        return SW_OK;
    case SWI_PART_BATCH:
        if (g->batch < 1 || g->batch > SWI_MAX_BATCH)
            SW_FAIL(SW_INVALID, "batch must be 1 to %d (got %lld)", SWI_MAX_BATCH,
                    (long long)g->batch);
        return SW_OK;
    default:
        if (!swi_name_is_one(g->loss, sizeof g->loss, false))
            SW_FAIL(SW_INVALID,
                    "the name of a loss must be of 1 to %d letters, digits, '_' and "
                    "'-' (got '%.40s')",
                    (int)sizeof g->loss - 1, g->loss);
        if (!(g->smoothing >= 0 && g->smoothing < 1))
            SW_FAIL(SW_INVALID, "smoothing must be at least 0 and below 1 (got %g)",
                    (double)g->smoothing);
        if (g->smoothing > 0 && strcmp(g->loss, "cross_entropy") != 0)
            SW_FAIL(SW_INVALID, "smoothing is cross_entropy's, and the loss is '%s'", g->loss);
        return SW_OK;
    }
}

sw_status swi_genome_check(sw_genome *g, uint32_t *bad)
{
    uint32_t none;
    bad = bad != NULL ? bad : &none;
    *bad = UINT32_MAX;
    if (g->n < 1 || g->n > SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "a genome must have 1 to %d vertices (got %u)", SWI_MAX_VERTICES,
                g->n);
    SW_TRY(check_names(g, bad));
    SW_TRY(swi_genome_infer(g, bad));
    for (uint32_t i = 0; i < g->n; i++) {
        *bad = i;
        if ((g->vertices[i].shield & ~SW_SHIELD_ALL) != 0)
            SW_FAIL(SW_INVALID, "vertex '%s': shield %u is none", g->vertices[i].name,
                    g->vertices[i].shield);
    }
    SW_TRY(check_read(g, bad));
    SW_TRY(check_parameters(g, bad));
    *bad = UINT32_MAX;
    for (swi_genome_part part = SWI_PART_NAME; part < SWI_PARTS; part++)
        SW_TRY(swi_genome_check_part(g, part));
    SW_TRY(check_updates(g, bad));
    SW_TRY(check_norms(g, bad));
    *bad = UINT32_MAX;
    return SW_OK;
}

/* ---- names ------------------------------------------------------------------------------- */

uint32_t sw_genome_find(const sw_genome *g, const char *name)
{
    if (sw_handle_check(g, SW_HANDLE_GENOME, __func__) != SW_OK)
        return UINT32_MAX;
    if (name != NULL)
        return swi_genome_find(g, name);
    sw_error_set(SW_INVALID, __FILE__, __LINE__, "%s: name must not be NULL", __func__);
    return UINT32_MAX;
}

uint32_t swi_genome_find(const sw_genome *g, const char *name)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (strcmp(g->vertices[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* Of "v" and up to 9 digits; 0: it is another name. */
static uint32_t number_of(const char *name)
{
    uint32_t x = 0;
    if (name[0] != 'v' || name[1] == '\0' || strlen(name) > 10)
        return 0;
    for (const char *c = name + 1; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return 0;
        x = x * 10 + (uint32_t)(*c - '0');
    }
    return x;
}

void swi_genome_fresh_name(sw_genome *g, char name[SWI_VERTEX_NAME])
{
    uint32_t x = g->next;
    for (uint32_t i = 0; i < g->n; i++) {
        const uint32_t there = number_of(g->vertices[i].name);
        x = there >= x ? there + 1 : x;
    }
    x = x > 0 ? x : 1;
    do
        snprintf(name, SWI_VERTEX_NAME, "v%u", x++);
    while (swi_genome_find(g, name) != UINT32_MAX);
    g->next = x;
}
