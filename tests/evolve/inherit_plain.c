#include "tests/evolve/inherit_plain.h"
#include <float.h>

sw_genome *scene_child(const sw_genome *a)
{
    sw_genome *child = NULL;
    OK(sw_genome_copy(&child, a));
    CU_ASSERT_PTR_NOT_NULL_FATAL(child);
    scene_later(ENDS(sw_genome_destroy, child), child);
    OK(swi_genome_begin_lineage(child));
    return child;
}

static void set_map(int32_t **map, uint32_t *had, const int32_t *from, uint32_t n)
{
    void *block = *map;
    OK(sw_heap_resize(&block, SW_HEAP_RECORDS, *had * sizeof **map, n * sizeof **map));
    *map = block;
    *had = n;
    memcpy(block, from, n * sizeof **map);
}

void scene_widen(sw_genome *child, uint32_t i, int64_t more)
{
    int32_t rows[4096];
    swi_vertex *v = &child->vertices[i];
    for (int64_t r = 0; r < v->size + more; r++)
        rows[r] = r < (int64_t)v->n_rows ? v->rows[r] : SWI_NEW;
    v->size += more;
    set_map(&v->rows, &v->n_rows, rows, (uint32_t)v->size);
}

/* Where the outputs of vertices come from: by vertex, room for each. */
typedef struct {
    int32_t *of;
    int64_t n;
} origins;

static origins origins_of(const sw_genome *child, const sw_genome *parent, uint32_t i,
                          const origins *all)
{
    const swi_vertex *v = &child->vertices[i];
    const origins *x = &all[v->in[0]];
    const swi_vertex *image = &child->vertices[v->in[0]];
    const int64_t places = v->kind == SW_VERTEX_FLATTEN ? image->height * image->width : 1;
    origins o = {scene_block((size_t)v->channels * 4), v->channels};
    int64_t at = 0, base = 0;
    if (swi_vertex_is_sized(v) || v->kind == SW_VERTEX_INPUT) {
        for (; at < o.n; at++)
            o.of[at] = v->rows != NULL              ? v->rows[at]
                       : v->kind == SW_VERTEX_INPUT ? (int32_t)at
                                                    : SWI_NEW;
        return o;
    }
    if (v->kind == SW_VERTEX_CONCAT) {
        const swi_vertex *was = &parent->vertices[v->was];
        for (uint32_t k = 0; k < v->n_in; k++) {
            for (int64_t c = 0; c < all[v->in[k]].n; c++)
                o.of[at++] = all[v->in[k]].of[c] == SWI_NEW
                                 ? SWI_NEW
                                 : (int32_t)(base + all[v->in[k]].of[c]);
            base += parent->vertices[was->in[k]].channels;
        }
        return o;
    }
    for (; at < o.n; at++)
        o.of[at] = x->of[at / places] == SWI_NEW
                       ? SWI_NEW
                       : (int32_t)(x->of[at / places] * places + at % places);
    return o;
}

void scene_follow(sw_genome *child, const sw_genome *parent)
{
    OK(swi_genome_infer(child, NULL));
    origins *all = scene_block(child->n * sizeof *all);
    for (uint32_t i = 0; i < child->n; i++) {
        swi_vertex *v = &child->vertices[i];
        all[i] = origins_of(child, parent, i, all);
        if (v->parent == SWI_NO_PARENT) {
            /* The identity: its outputs are what it reads. */
            if (swi_vertex_is_identity(v))
                memcpy(all[i].of, all[v->in[0]].of, (size_t)all[i].n * 4);
            continue;
        }
        if (swi_vertex_is_sized(v))
            set_map(&v->cols, &v->n_cols, all[v->in[0]].of, (uint32_t)all[v->in[0]].n);
        else if (swi_vertex_has_parameters(v))
            set_map(&v->rows, &v->n_rows, all[i].of, (uint32_t)all[i].n);
    }
    scene_check(child);
}

swi_vertex *scene_between(sw_genome *child, uint32_t behind, sw_vertex_kind kind,
                          const char *name)
{
    swi_vertex v = swi_vertex_of(kind);
    snprintf(v.name, sizeof v.name, "%s", name);
    v.identity = true;
    v.size = child->vertices[behind].channels;
    OK(swi_genome_insert(child, behind + 1, &v));
    swi_genome_redirect(child, behind, behind + 1);
    child->vertices[behind + 1].in[0] = behind;
    child->vertices[behind + 1].n_in = 1;
    return &child->vertices[behind + 1];
}

/* ---- children at random ------------------------------------------------------------------ */

/* Of n numbers below `from`: in order, with gaps, new ones in between, or any. */
static void random_map(sw_dice *dice, int32_t *map, int64_t n, int64_t from)
{
    const uint64_t how = sw_dice_below(dice, 4);
    int64_t next = how == 0 ? 0 : (int64_t)sw_dice_below(dice, 2);
    for (int64_t i = 0; i < n; i++) {
        if (how == 3) {
            map[i] = (int32_t)sw_dice_below(dice, (uint64_t)from + 1) - 1;
            continue;
        }
        map[i] = next < from ? (int32_t)next : SWI_NEW;
        if (how == 2 && sw_dice_below(dice, 4) == 0)
            map[i] = SWI_NEW;
        else
            next += how == 0 || sw_dice_below(dice, 4) != 0 ? 1 : 2;
    }
}

static void descend_at_random(sw_dice *dice, const sw_genome *child, swi_vertex *v,
                              const sw_genome *const parents[2])
{
    uint8_t parent[256];
    uint32_t was[256], n = 0;
    int32_t map[4096];
    for (uint8_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < parents[k]->n && n < 256; i++) {
            const swi_vertex *p = &parents[k]->vertices[i];
            if (p->kind == v->kind &&
                swi_vertex_is_depthwise(p) == swi_vertex_is_depthwise(v)) {
                parent[n] = k;
                was[n++] = i;
            }
        }
    if (n == 0 || sw_dice_below(dice, 8) == 0) {
        v->identity = sw_dice_below(dice, 2) == 0;
        return;
    }
    const uint32_t pick = (uint32_t)sw_dice_below(dice, n);
    const sw_genome *from = parents[parent[pick]];
    const swi_vertex *p = &from->vertices[was[pick]];
    v->parent = parent[pick];
    v->was = was[pick];
    random_map(dice, map, v->channels, p->channels);
    set_map(&v->rows, &v->n_rows, map, (uint32_t)v->channels);
    if (!swi_vertex_is_sized(v))
        return;
    const int64_t reads = swi_vertex_reads(child, v);
    CU_ASSERT_FATAL(reads <= 4096);
    random_map(dice, map, reads, swi_vertex_reads(from, p));
    set_map(&v->cols, &v->n_cols, map, (uint32_t)reads);
}

sw_genome *scene_random_child(sw_dice *dice, const sw_genome *a, const sw_genome *b)
{
    const sw_genome *const parents[2] = {a, b};
    sw_genome *child = scene_random(dice);
    if (sw_dice_below(dice, 2)) {
        snprintf(child->optimizer, sizeof child->optimizer, "%s", a->optimizer);
        child->momentum =
            strcmp(a->optimizer, "sgd") == 0 || strcmp(a->optimizer, "rmsprop") == 0
                ? (sw_dice_below(dice, 2) ? 0.9f : a->momentum)
                : 0;
    }
    for (uint32_t i = 0; i < child->n; i++)
        if (swi_vertex_has_parameters(&child->vertices[i]))
            descend_at_random(dice, child, &child->vertices[i], parents);
    child->n_parents = 2;
    child->parents[0] = swi_genome_hash(a);
    child->parents[1] = swi_genome_hash(b);
    scene_check(child);
    return child;
}

/* ---- what must come of it ---------------------------------------------------------------- */

unsigned char *scene_random_bytes(const sw_net *of, sw_dice *dice)
{
    const sw_model *model = of->model;
    unsigned char *bytes = scene_block(model->bytes);
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        for (size_t k = 0; k < e->bytes / sw_dtype_bytes(e->dtype); k++)
            if (e->dtype == SW_F64)
                ((double *)(void *)(bytes + e->offset))[k] = (double)sw_dice_below(dice, 1000);
            else
                ((float *)(void *)(bytes + e->offset))[k] =
                    (float)((double)sw_dice_below(dice, 1u << 30) * 0x1p-29 - 1);
    }
    return bytes;
}

/* One entry, of the child or of a parent. */
typedef struct {
    const sw_genome *g;
    const swi_vertex *v;
    const swi_entry *e;
    const float *x;
} tensor;

static const swi_entry *find(const sw_model *model, const char *vertex, const char *suffix)
{
    char name[200];
    snprintf(name, sizeof name, "%s.%s", vertex, suffix);
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (strcmp(model->entries[i].name, name) == 0)
            return &model->entries[i];
    return NULL;
}

/* Element (r, c, y, x) of a tensor with axes that `which` calls so; -1: there is none. */
static int64_t place_of(const tensor *t, const char *which, const int64_t at[4])
{
    int64_t place = 0;
    for (int d = 0; d < t->e->shape.rank; d++) {
        const int64_t i = at[strchr("rcyx", which[d]) - "rcyx"];
        if (i < 0 || i >= t->e->shape.dim[d])
            return -1;
        place = place * t->e->shape.dim[d] + i;
    }
    return place;
}

/* Which axes: the letters of (row, column, y, x). */
static const char *axes_of(const tensor *t, const char *suffix)
{
    static const char *const by_rank[] = {"", "r", "rc", "", "rcyx"};
    const bool linear = t->v->kind == SW_VERTEX_LINEAR;
    if (strcmp(suffix, "weight.rows") == 0)
        return linear ? "r" : "rcy";
    if (strcmp(suffix, "weight.cols") == 0)
        return linear ? "c" : "rcx";
    return by_rank[t->e->shape.rank];
}

/* Where element `at` of the child was; 0: nowhere; false: its row is new. */
static bool origin_of(const tensor *to, const tensor *from, const int64_t at[4], int64_t was[4],
                      bool *there)
{
    const swi_vertex *v = to->v, *p = from->v;
    *there = true;
    memcpy(was, at, 4 * sizeof *was);
    was[0] = v->rows[at[0]];
    const bool conv = v->kind == SW_VERTEX_CONV2D;
    if (swi_vertex_is_sized(v)) {
        const int64_t groups = conv ? v->groups : 1, groups_from = conv ? p->groups : 1;
        const int64_t in = swi_vertex_reads(to->g, v) / groups;
        const int64_t in_from = swi_vertex_reads(from->g, p) / groups_from;
        const int64_t group = at[0] / (v->channels / groups);
        const int64_t group_from = was[0] / (p->channels / groups_from);
        const int64_t channel = v->cols[group * in + at[1]];
        was[1] = channel - group_from * in_from;
        *there = channel != SWI_NEW && was[1] >= 0 && was[1] < in_from;
    }
    if (conv) {
        was[2] = at[2] + (p->kernel - v->kernel) / 2;
        was[3] = at[3] + (p->kernel - v->kernel) / 2;
    }
    return was[0] != SWI_NEW;
}

static void expect(const tensor *to, const tensor *from, const char *suffix, float *out,
                   const float *first)
{
    const char *axes = axes_of(to, suffix);
    const bool by_cols = strcmp(axes, "c") == 0, utility = strcmp(suffix, "utility") == 0;
    const bool state = strchr(suffix, '.') != NULL;
    int64_t dims[4] = {1, 1, 1, 1};
    for (int d = 0; d < to->e->shape.rank; d++)
        dims[strchr("rcyx", axes[d]) - "rcyx"] = to->e->shape.dim[d];
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2] * dims[3]; i++) {
        const int64_t at[4] = {i / (dims[1] * dims[2] * dims[3]),
                               i / (dims[2] * dims[3]) % dims[1], i / dims[3] % dims[2],
                               i % dims[3]};
        const int64_t place = place_of(to, axes, at);
        const float new_row = utility ? FLT_EPSILON : first[place];
        int64_t was[4];
        bool there;
        if (by_cols) {
            const int32_t col = to->v->cols[at[1]];
            out[place] = col == SWI_NEW ? first[place] : from->x[col];
            continue;
        }
        if (!origin_of(to, from, at, was, &there)) {
            out[place] = new_row;
            continue;
        }
        if (strchr(axes, 'y') == NULL)
            was[2] = 0;
        if (strchr(axes, 'x') == NULL)
            was[3] = 0;
        if (strchr(axes, 'c') == NULL)
            there = true;
        const int64_t origin = there ? place_of(from, axes, was) : -1;
        out[place] = origin >= 0 ? from->x[origin] : state ? first[place] : 0;
    }
}

static void expect_identity(const tensor *to, float *out)
{
    const swi_vertex *v = to->v;
    const int64_t *dim = to->e->shape.dim;
    if (to->e->shape.rank == 1)
        return;
    const int64_t taps = to->e->shape.rank == 4 ? dim[2] * dim[3] : 1;
    const int64_t groups = v->kind == SW_VERTEX_LINEAR ? 1
                           : v->groups == 0            ? dim[0]
                                                       : v->groups;
    for (int64_t r = 0; r < dim[0]; r++)
        for (int64_t c = 0; c < dim[1]; c++)
            if (r % (dim[0] / groups) == c)
                out[(r * dim[1] + c) * taps + taps / 2] = 1;
}

/* An entry of a vertex: from its parent, or as the model begins. */
static void expect_entry(const sw_net *to, const swi_entry *e, const swi_vertex *v,
                         const sw_net *const parents[2], const unsigned char *const bytes[2],
                         unsigned char *out, const unsigned char *first)
{
    const char *suffix = e->name + strlen(v->name) + 1;
    const bool state = e->role == SWI_ROLE_OPTIMIZER_STATE;
    const tensor t = {to->genome, v, e, NULL};
    float *x = (float *)(void *)(out + e->offset);
    const sw_net *p = v->parent != SWI_NO_PARENT ? parents[v->parent] : NULL;
    const swi_entry *its = NULL;
    if (p != NULL && (!state || strcmp(p->genome->optimizer, to->genome->optimizer) == 0))
        its = find(p->model, p->genome->vertices[v->was].name, suffix);
    memcpy(x, first + e->offset, e->bytes);
    if (its != NULL) {
        const tensor from = {p->genome, &p->genome->vertices[v->was], its,
                             (const float *)(const void *)(bytes[v->parent] + its->offset)};
        expect(&t, &from, suffix, x, (const float *)(const void *)(first + e->offset));
    } else if (strcmp(suffix, "utility") == 0) {
        for (size_t i = 0; i < e->bytes / 4; i++)
            x[i] = FLT_EPSILON;
    } else if (v->parent == SWI_NO_PARENT && swi_vertex_is_identity(v) && !state) {
        memset(x, 0, e->bytes);
        expect_identity(&t, x);
    }
}

/* Of the optimizer as a whole: from the first parent of the same kind of which there is
 * anything. */
static void expect_number(const sw_net *to, const swi_entry *e, const sw_net *const parents[2],
                          const unsigned char *const bytes[2], unsigned char *out)
{
    for (int k = 0; k < 2; k++) {
        bool any = false;
        for (uint32_t i = 0; i < to->genome->n; i++)
            any |= swi_vertex_has_parameters(&to->genome->vertices[i]) &&
                   to->genome->vertices[i].parent == k;
        if (!any || parents[k] == NULL ||
            strcmp(parents[k]->genome->optimizer, to->genome->optimizer) != 0)
            continue;
        const swi_entry *its = find(parents[k]->model, "optimizer0", strchr(e->name, '.') + 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(its);
        memcpy(out + e->offset, bytes[k] + its->offset, e->bytes);
        return;
    }
}

unsigned char *scene_inherited(sw_exec *exec, const sw_net *to, const sw_net *a,
                               const unsigned char *a_bytes, const sw_net *b,
                               const unsigned char *b_bytes, uint64_t seed)
{
    const sw_net *const parents[2] = {a, b};
    const unsigned char *const bytes[2] = {a_bytes, b_bytes};
    sw_net *begin = NULL;
    OK(sw_net_create(&begin, to->genome, &SW_OPTS(sw_net_opts, .utility = to->opts.utility)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(begin);
    OK(sw_model_ready(sw_net_model(begin), exec, seed));
    const sw_model *model = to->model;
    unsigned char *out = scene_block(model->bytes);
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        const char *dot = strchr(e->name, '.');
        char name[SWI_VERTEX_NAME] = "";
        if (dot != NULL)
            snprintf(name, sizeof name, "%.*s", (int)(dot - e->name), e->name);
        const uint32_t v = dot != NULL ? swi_genome_find(to->genome, name) : UINT32_MAX;
        if (v != UINT32_MAX)
            expect_entry(to, e, &to->genome->vertices[v], parents, bytes, out,
                         begin->model->base);
        else if (e->role == SWI_ROLE_OPTIMIZER_STATE)
            expect_number(to, e, parents, bytes, out);
        else
            memcpy(out + e->offset, begin->model->base + e->offset, e->bytes);
    }
    sw_net_destroy(begin);
    return out;
}

const char *scene_differs(const sw_net *of, const unsigned char *x, const unsigned char *y)
{
    const sw_model *model = of->model;
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        if (memcmp(x + e->offset, y + e->offset, e->bytes) != 0)
            return e->name;
    }
    return memcmp(x, y, model->bytes) != 0 ? "(padding)" : NULL;
}
