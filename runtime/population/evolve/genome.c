/* Genomes as graphs: made, copied, edited. */
#include "runtime/population/evolve/genome.h"
#include "alloc/base/assert.h"
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
    void *block;
    if (from == NULL)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, BYTES(n)));
    memcpy(block, from, BYTES(n));
    *out = block;
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
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_GENOME, sizeof(sw_genome)));
    sw_genome *g = block;
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
    if (status != SW_OK)
        swi_genome_free(g);
    else
        *out = g;
    return status;
}

static sw_status copy_vertices(sw_genome *to, const sw_genome *from)
{
    void *block = NULL;
    to->vertices = NULL;
    to->n = to->cap = 0;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &to->cap, from->n, sizeof *to->vertices));
    to->vertices = block;
    for (; to->n < from->n; to->n++)
        SW_TRY(copy_vertex(&to->vertices[to->n], &from->vertices[to->n]));
    return SW_OK;
}

sw_status sw_genome_copy(sw_genome **out, const sw_genome *from)
{
    static const char call[] = "sw_genome_copy";
    void *block;
    SW_TRY(sw_handle_check(from, SW_HANDLE_GENOME, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(sw_handle_take(&block, SW_HANDLE_GENOME, sizeof(sw_genome)));
    sw_genome *g = block;
    const sw_handle handle = g->handle;
    *g = *from;
    g->handle = handle;
    const sw_status status = copy_vertices(g, from);
    if (status != SW_OK)
        swi_genome_free(g);
    else
        *out = g;
    return status;
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
    void *block = g->vertices;
    const sw_status status =
        sw_heap_reserve(&block, SW_HEAP_RECORDS, &g->cap, g->n + 1, sizeof *g->vertices);
    if (status != SW_OK) {
        free_lineage(&own);
        return status;
    }
    g->vertices = block;
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
    void *block = *numbers;
    if (*had != n || block == NULL) {
        SW_TRY(sw_heap_resize(&block, SW_HEAP_RECORDS, BYTES(*had), BYTES(n)));
        *numbers = block;
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
