/* The values that a net takes over from the nets of its genome's parents, by the lineage of its
 * neurons. All that can fail is done before the first byte is written. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/base/common.h"
#include "runtime/population/evolve/inherit.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- what descends from what ------------------------------------------------------------- */

/* The vertex that v was; NULL: it is of no parent. */
static const swi_vertex *origin(const swi_heir *h, const swi_vertex *v)
{
    if (v->parent == SWI_NO_PARENT || h->parent[0] == NULL)
        return NULL;
    return &h->parent[v->parent]->genome->vertices[v->was];
}

/* Room for the columns that were picked, and for the runs of rows and columns. */
static sw_status make_room(swi_heir *h)
{
    const sw_genome *g = h->to->genome;
    size_t rows = 1, cols = 1;
    for (uint32_t i = 0; i < g->n; i++) {
        rows = g->vertices[i].n_rows > rows ? g->vertices[i].n_rows : rows;
        cols = g->vertices[i].n_cols > cols ? g->vertices[i].n_cols : cols;
    }
    rows = cols > rows ? cols : rows; /* a vector of inputs has them as its rows */
    h->block_bytes = 0;
    const size_t pick = sw_size_part(&h->block_bytes, cols * sizeof *h->pick);
    const size_t runs = sw_size_part(&h->block_bytes, (rows + cols) * sizeof *h->runs);
    SW_TRY(sw_heap_alloc(&h->block, SW_HEAP_RECORDS, h->block_bytes));
    h->pick = (int32_t *)(void *)((char *)h->block + pick);
    h->runs = (swi_neighbours *)(void *)((char *)h->block + runs);
    return SW_OK;
}

/* ---- one tensor -------------------------------------------------------------------------- */

/* Which axes it has of its vertex: its outputs, its inputs, or both with windows. */
typedef enum { OF_ROWS, OF_COLS, OF_BOTH } axes;

typedef struct {
    const swi_heir *h;
    const swi_entry *e;
} first_values;

static void write_new(void *context, float *to, int64_t first, int64_t n)
{
    const first_values *f = context;
    swi_write_first(f->h, f->e, to, first, n);
}

static void write_utility(void *context, float *to, int64_t first, int64_t n)
{
    (void)context, (void)first;
    for (int64_t i = 0; i < n; i++)
        to[i] = FLT_EPSILON;
}

/* A vector, of outputs or of inputs. */
static swi_carry vector_of(const int32_t *map, int64_t n, int64_t n_from)
{
    return (swi_carry){.map_rows = map,
                       .rows = n,
                       .rows_from = n_from,
                       .cols = 1,
                       .cols_from = 1,
                       .groups = 1,
                       .groups_from = 1,
                       .ky = 1,
                       .kx = 1,
                       .ky_from = 1,
                       .kx_from = 1};
}

static swi_carry both_of(const swi_heir *h, const swi_vertex *v, const swi_vertex *was)
{
    swi_carry m = vector_of(v->rows, v->channels, was->channels);
    if (swi_vertex_is_sized(v)) {
        m.groups = v->kind == SW_VERTEX_CONV2D ? v->groups : 1;
        m.groups_from = v->kind == SW_VERTEX_CONV2D ? was->groups : 1;
        m.map_cols = v->cols;
        m.cols = v->n_cols / m.groups;
        m.cols_from = swi_vertex_reads(h->parent[v->parent]->genome, was) / m.groups_from;
    }
    if (v->kind == SW_VERTEX_CONV2D) {
        m.ky = m.kx = v->kernel;
        m.ky_from = m.kx_from = was->kernel;
    }
    return m;
}

static swi_carry move_of(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                         axes which)
{
    if (which == OF_ROWS)
        return vector_of(v->rows, v->channels, was->channels);
    if (which == OF_BOTH)
        return both_of(h, v, was);
    return vector_of(v->cols, v->n_cols, swi_vertex_reads(h->parent[v->parent]->genome, was));
}

/* Entry `from` of the parent's model becomes `entry`; m has the axes. */
static void take_over(const swi_heir *h, const swi_vertex *v, const swi_entry *e, uint32_t from,
                      swi_carry *m)
{
    const swi_entry *origin = &h->parent[v->parent]->model->entries[from];
    first_values first = {h, e};
    m->to = swi_place(h, e);
    m->from = (const float *)(const void *)(h->from[v->parent] + origin->offset);
    m->write_new = m->write_new != NULL ? m->write_new : write_new;
    m->context = &first;
    m->pick = h->pick;
    m->runs = h->runs;
    SW_ASSERT(m->rows * m->cols * m->ky * m->kx == swi_entry_elements(e));
    SW_ASSERT(m->rows_from * m->cols_from * m->ky_from * m->kx_from ==
              swi_entry_elements(origin));
    swi_carry_tensor(m);
}

/* ---- parameters and what optimizers keep for them ---------------------------------------- */

static const swi_entry *entry_of(const sw_net *net, sw_param param)
{
    return &net->model->entries[param.index];
}

/* The state of the parent's parameter that is the same of it: the names end alike. */
static uint32_t same_state(const sw_net *net, const swi_entry *p, const char *suffix)
{
    for (int k = 0; k < SWI_MAX_STATE && p->state[k] != SWI_NONE; k++)
        if (strcmp(net->model->entries[p->state[k]].name + strlen(p->name), suffix) == 0)
            return p->state[k];
    return SWI_NONE;
}

static bool same_kind(const sw_net *a, const sw_net *b)
{
    return a->optimizer->kind == b->optimizer->kind;
}

/* Adafactor keeps the rows and columns of the last two axes: of a linear weight its outputs and
 * inputs, of a window its lines and columns. */
static swi_carry move_of_state(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                               const swi_entry *p, const swi_entry *state, axes which)
{
    const bool rows = strcmp(state->name + strlen(p->name), ".rows") == 0;
    if (state->shape.rank == p->shape.rank)
        return move_of(h, v, was, which);
    if (v->kind == SW_VERTEX_LINEAR)
        return move_of(h, v, was, rows ? OF_ROWS : OF_COLS);
    swi_carry m = both_of(h, v, was);
    *(rows ? &m.kx : &m.ky) = 1;
    *(rows ? &m.kx_from : &m.ky_from) = 1;
    return m;
}

static void inherit_states(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                           const swi_entry *p, const swi_entry *from, axes which)
{
    const swi_entry *entries = h->to->model->entries;
    for (int k = 0; k < SWI_MAX_STATE && p->state[k] != SWI_NONE; k++) {
        const swi_entry *e = &entries[p->state[k]];
        uint32_t its = SWI_NONE;
        if (was != NULL && same_kind(h->to, h->parent[v->parent]))
            its = same_state(h->parent[v->parent], from, e->name + strlen(p->name));
        if (its == SWI_NONE) {
            swi_begin_entry(h, e);
            continue;
        }
        swi_carry m = move_of_state(h, v, was, p, e, which);
        swi_write_first(h, e, &m.fill, 0, 1);
        take_over(h, v, e, its, &m);
    }
}

static void inherit_param(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                          sw_param param, sw_param from, axes which)
{
    const swi_entry *p = entry_of(h->to, param);
    if (was == NULL) {
        swi_begin_entry(h, p);
        inherit_states(h, v, NULL, p, NULL, which);
        return;
    }
    swi_carry m = move_of(h, v, was, which);
    take_over(h, v, p, from.index, &m);
    inherit_states(h, v, was, p, entry_of(h->parent[v->parent], from), which);
}

/* ---- vertices ---------------------------------------------------------------------------- */

static void inherit_utility(const swi_heir *h, const swi_vertex *v, const swi_vertex *was,
                            sw_param utility, sw_param from)
{
    const swi_entry *e = entry_of(h->to, utility);
    if (was == NULL || from.index == 0) {
        swi_begin_utility(h, e);
        return;
    }
    swi_carry m = move_of(h, v, was, OF_ROWS);
    m.write_new = write_utility;
    take_over(h, v, e, from.index, &m);
}

static void inherit_vertex(const swi_heir *h, uint32_t i)
{
    static const swi_net_layer none;
    const swi_vertex *v = &h->to->genome->vertices[i], *was = origin(h, v);
    const swi_net_layer *l = &h->to->layers[i];
    const swi_net_layer *from = was != NULL ? &h->parent[v->parent]->layers[v->was] : &none;
    if (!swi_vertex_has_parameters(v))
        return;
    const bool norm = v->kind == SW_VERTEX_BATCH_NORM;
    inherit_param(h, v, was, l->weight, from->weight, norm ? OF_ROWS : OF_BOTH);
    inherit_param(h, v, was, l->bias, from->bias, OF_ROWS);
    if (norm) {
        inherit_param(h, v, was, l->mean, from->mean, OF_ROWS);
        inherit_param(h, v, was, l->variance, from->variance, OF_ROWS);
    }
    if (l->utility.index != 0)
        inherit_utility(h, v, was, l->utility, from->utility);
    if (was == NULL && swi_vertex_is_identity(v)) {
        const swi_entry *bias = entry_of(h->to, l->bias);
        swi_begin_identity(h, v, entry_of(h->to, l->weight));
        memset(swi_place(h, bias), 0, bias->bytes);
    }
}

/* ---- numbers of the optimizer, knobs ----------------------------------------------------- */

/* The parent whose steps and skipped updates go on: the first that has a state of the same
 * kind, of which anything was taken over. NULL: none. */
static const sw_net *counted_by(const swi_heir *h, const unsigned char **bytes)
{
    const sw_genome *g = h->to->genome;
    for (uint8_t k = 0; k < 2 && h->parent[k] != NULL; k++) {
        bool takes = false;
        for (uint32_t i = 0; i < g->n; i++)
            takes |= swi_vertex_has_parameters(&g->vertices[i]) && g->vertices[i].parent == k;
        if (takes && same_kind(h->to, h->parent[k])) {
            *bytes = h->from[k];
            return h->parent[k];
        }
    }
    return NULL;
}

static void inherit_number(const swi_heir *h, uint32_t entry, const sw_net *net,
                           const unsigned char *bytes, uint32_t from)
{
    const swi_entry *e = &h->to->model->entries[entry];
    if (net == NULL || from == SWI_NONE) {
        swi_begin_entry(h, e);
        return;
    }
    const swi_entry *its = &net->model->entries[from];
    SW_ASSERT(its->bytes == e->bytes);
    memcpy(swi_place(h, e), bytes + its->offset, e->bytes);
}

static void inherit_numbers(const swi_heir *h)
{
    const unsigned char *bytes = NULL;
    const sw_net *net = counted_by(h, &bytes);
    const sw_optimizer *o = h->to->optimizer, *from = net != NULL ? net->optimizer : o;
    for (int g = 0; g < SWI_MAX_GROUPS; g++)
        if (o->tick[g] != SWI_NONE)
            inherit_number(h, o->tick[g], net, bytes, from->tick[g]);
    if (o->counts != SWI_NONE)
        inherit_number(h, o->counts, net, bytes, from->counts);
}

static void write_knobs(const swi_heir *h)
{
    const sw_model *model = h->to->model;
    if (model->n_knobs == 0)
        return;
    float *to = swi_place(h, &model->entries[model->knob_entry]);
    for (uint32_t i = 0; i < model->n_knobs; i++)
        to[i] = model->knobs[i].value;
}

/* ---- calls ------------------------------------------------------------------------------- */

static sw_status inherit(swi_heir *h)
{
    SW_TRY(make_room(h));
    for (uint32_t i = 0; i < h->to->genome->n; i++)
        inherit_vertex(h, i);
    inherit_numbers(h);
    write_knobs(h);
    sw_heap_free(h->block, SW_HEAP_RECORDS, h->block_bytes);
    return SW_OK;
}

sw_status swi_net_inherit(const sw_net *to, unsigned char *bytes, const sw_net *a,
                          const unsigned char *a_bytes, const sw_net *b,
                          const unsigned char *b_bytes, uint64_t seed)
{
    swi_heir h = {
        .to = to, .bytes = bytes, .parent = {a, b}, .from = {a_bytes, b_bytes}, .seed = seed};
    SW_TRY(swi_heir_check(&h));
    return inherit(&h);
}

sw_status swi_net_begin(const sw_net *net, unsigned char *bytes, uint64_t seed)
{
    swi_heir h = {.to = net, .bytes = bytes, .seed = seed};
    return inherit(&h);
}

size_t swi_net_utilities(const sw_net *net, const unsigned char *bytes, sw_neuron_utility *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < net->genome->n; i++) {
        const sw_param utility = net->layers[i].utility;
        if (utility.index == 0)
            continue;
        const swi_entry *e = entry_of(net, utility);
        out[n++] =
            (sw_neuron_utility){.vertex = i,
                                .n = swi_entry_elements(e),
                                .values = (const float *)(const void *)(bytes + e->offset)};
    }
    return n;
}
