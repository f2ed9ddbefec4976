/* Groups of values. One sweep over the positions of a program has the peaks of all groups. */
#include "profiler/inspect/report/report_parts.h"
#include "alloc/base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 12 /* scopes in one another; what is deeper counts as one name */

/* ---- roles ------------------------------------------------------------------------------- */

static parts_kind kind_of(const sw_tensor *v)
{
    static const struct {
        const char *role;
        parts_kind kind;
    } roles[] = {{"parameter", PARTS_PARAMETERS},
                 {"buffer", PARTS_PARAMETERS},
                 {"state", PARTS_PARAMETERS},
                 {"knob", PARTS_PARAMETERS},
                 {"optimizer_state", PARTS_OPTIMIZER},
                 {"gradient", PARTS_GRADIENTS},
                 {"activation", PARTS_ACTIVATIONS},
                 {"saved", PARTS_ACTIVATIONS},
                 {"output", PARTS_ACTIVATIONS},
                 {"metric", PARTS_ACTIVATIONS},
                 {"workspace", PARTS_WORKSPACE},
                 {"temporary", PARTS_WORKSPACE},
                 {"input", PARTS_DATA}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].role, v->role) == 0)
            return roles[i].kind;
    return PARTS_OTHER;
}

/* ---- groups by name ---------------------------------------------------------------------- */

static uint32_t hash(const char *text, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h ^ h >> 15;
}

/* Where the path is, or would be. */
static uint32_t *slot_of(const parts *x, const char *path, size_t n)
{
    uint32_t i = hash(path, n) & (x->n_slots - 1);
    for (; x->slots[i] != 0; i = (i + 1) & (x->n_slots - 1)) {
        const char *there = x->at[x->slots[i] - 1].path;
        if (strncmp(there, path, n) == 0 && there[n] == '\0')
            break;
    }
    return &x->slots[i];
}

const parts_group *parts_find(const parts *x, const char *path)
{
    const uint32_t at = x->n_slots > 0 ? *slot_of(x, path, strlen(path)) : 0;
    return at > 0 ? &x->at[at - 1] : NULL;
}

static sw_status more_slots(parts *x)
{
    parts larger = *x;
    larger.n_slots = x->n_slots == 0 ? 64 : 2 * x->n_slots;
    SW_TRY(sw_heap_alloc(&larger.slots, SW_HEAP_PROFILE, larger.n_slots * sizeof *x->slots));
    for (uint32_t i = 0; i < x->n; i++)
        *slot_of(&larger, x->at[i].path, strlen(x->at[i].path)) = i + 1;
    sw_heap_free(x->slots, SW_HEAP_PROFILE, x->n_slots * sizeof *x->slots);
    *x = larger;
    return SW_OK;
}

/* The group of the first n bytes of `path`, made where it is missing. */
static sw_status group_of(parts *x, sw_timeline *t, const char *path, size_t n, uint32_t parent,
                          uint32_t *out)
{
    if (2 * (x->n + 1) > x->n_slots)
        SW_TRY(more_slots(x));
    uint32_t *slot = slot_of(x, path, n);
    if (*slot == 0) {
        void *text;
        SW_TRY(sw_timeline_alloc(t, &text, n + 1, 1));
        SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1, sizeof *x->at));
        memcpy(text, path, n);
        const size_t above = parent > 0 ? strlen(x->at[parent].path) + 1 : 0;
        x->at[x->n] = (parts_group){.path = text,
                                    .name = (const char *)text + above,
                                    .parent = parent,
                                    .depth = x->n > 0 ? x->at[parent].depth + 1 : 0};
        x->at[parent].outer |= x->n > 0;
        *slot = ++x->n;
    }
    *out = *slot - 1;
    return SW_OK;
}

/* The group of a layer in a tree, and those around it. */
static sw_status layer_group(parts *x, sw_timeline *t, const char *layer, uint32_t *out)
{
    *out = 0;
    if (*layer == '\0')
        return group_of(x, t, REPORT_NO_LAYER, sizeof REPORT_NO_LAYER - 1, 0, out);
    uint32_t depth = 0;
    for (size_t n = 0;; n++) {
        const bool scope = layer[n] == '/' && n > 0 && ++depth < DEEPEST;
        if (layer[n] == '\0' || scope)
            SW_TRY(group_of(x, t, layer, n, *out, out));
        if (layer[n] == '\0')
            return SW_OK;
    }
}

/* Values in a scope and in no layer of it have a group beside those layers. */
static sw_status inner_group(parts *x, sw_timeline *t, uint32_t *at)
{
    static const char own[] = "/(itself)";
    const parts_group *g = &x->at[*at];
    if (!g->outer || *at == 0)
        return SW_OK;
    const size_t n = strlen(g->path);
    void *path;
    SW_TRY(sw_heap_alloc(&path, SW_HEAP_PROFILE, n + sizeof own));
    memcpy(path, g->path, n);
    memcpy((char *)path + n, own, sizeof own);
    const sw_status status = group_of(x, t, path, n + sizeof own - 1, *at, at);
    sw_heap_free(path, SW_HEAP_PROFILE, n + sizeof own);
    return status;
}

static sw_status value_group(parts *x, sw_timeline *t, const sw_tensor *v, uint32_t *out)
{
    const char *name = *v->name != '\0' ? v->name : "(no name)";
    SW_TRY(group_of(x, t, name, strlen(name), 0, out));
    if (x->at[*out].again++ == 0)
        return SW_OK;
    char copy[512]; /* another one of that name */
    snprintf(copy, sizeof copy, "%.480s #%u", name, x->at[*out].again);
    return group_of(x, t, copy, strlen(copy), 0, out);
}

static const char *maker(const sw_tensor *v)
{
    static const char *const others[SW_SEGMENTS] = {"(no op)", "(model)", "(batch)"};
    return *v->op != '\0' ? v->op : others[v->segment];
}

static sw_status group_for(parts *x, sw_timeline *t, const sw_tensor *v, parts_by by,
                           uint32_t *out)
{
    const char *name = "";
    if (by == PARTS_VALUE)
        return value_group(x, t, v, out);
    if (by == PARTS_LAYER)
        name = *v->layer != '\0' ? v->layer : REPORT_NO_LAYER;
    else if (by == PARTS_ROLE)
        name = *v->role != '\0' ? v->role : "(no role)";
    else
        name = maker(v);
    return group_of(x, t, name, strlen(name), 0, out);
}

/* ---- figures ----------------------------------------------------------------------------- */

/* Of the values in `order`, sorted by birth or by death, those of one position after another.
 */
typedef struct {
    uint32_t *order, *first; /* first[i]: of position i; n_ops + 1 of them */
} by_position;

static uint32_t position(const sw_tl_program *p, const sw_tensor *v, bool death)
{
    const uint32_t at = death ? v->death : v->birth;
    return at < p->n_ops ? at : p->n_ops;
}

static sw_status sort_values(by_position *out, sw_timeline *t, const sw_tl_program *p,
                             bool death)
{
    SW_TRY(sw_timeline_alloc(t, &out->order, (size_t)p->n_values + 1, sizeof *out->order));
    SW_TRY(sw_timeline_alloc(t, &out->first, (size_t)p->n_ops + 3, sizeof *out->first));
    for (uint32_t i = 0; i < p->n_values; i++)
        out->first[position(p, &p->values[i], death) + 2]++;
    for (uint32_t i = 0; i <= p->n_ops; i++)
        out->first[i + 1] += out->first[i];
    for (uint32_t i = 0; i < p->n_values; i++)
        out->order[out->first[position(p, &p->values[i], death) + 1]++] = i;
    return SW_OK;
}

static void count_value(parts *x, const sw_tl_program *p, uint32_t i, uint32_t group)
{
    const sw_tensor *v = &p->values[i];
    const bool aliased = v->alias != SW_TL_NONE;
    const bool there = !aliased && v->birth <= p->peak_op && v->death >= p->peak_op;
    const uint64_t bytes = aliased ? 0 : v->bytes + v->padding;
    for (uint32_t g = group;; g = x->at[g].parent) {
        parts_group *at = &x->at[g];
        at->n_values += !aliased;
        at->in_place |= aliased;
        at->bytes += bytes;
        at->n_at_peak += there;
        at->at_peak += there ? bytes : 0;
        at->kind[kind_of(v)] += there ? bytes : 0;
        if (g == 0)
            return;
    }
}

static void add_live(parts *x, uint32_t group, uint64_t bytes, uint32_t op)
{
    for (uint32_t g = group;; g = x->at[g].parent) {
        parts_group *at = &x->at[g];
        at->live += bytes;
        if (at->live > at->own_peak) {
            at->own_peak = at->live;
            at->own_op = op;
        }
        if (g == 0)
            return;
    }
}

static void drop_live(parts *x, uint32_t group, uint64_t bytes)
{
    for (uint32_t g = group;; g = x->at[g].parent) {
        x->at[g].live -= bytes;
        if (g == 0)
            return;
    }
}

static sw_status sweep(parts *x, sw_timeline *t, const sw_tl_program *p, const uint32_t *group)
{
    by_position born, dead;
    SW_TRY(sort_values(&born, t, p, false));
    SW_TRY(sort_values(&dead, t, p, true));
    for (uint32_t op = 0; op < p->n_ops; op++) {
        for (uint32_t k = born.first[op]; k < born.first[op + 1]; k++) {
            const sw_tensor *v = &p->values[born.order[k]];
            if (v->alias == SW_TL_NONE)
                add_live(x, group[born.order[k]], v->bytes + v->padding, op);
        }
        for (uint32_t k = dead.first[op]; k < dead.first[op + 1]; k++) {
            const sw_tensor *v = &p->values[dead.order[k]];
            if (v->alias == SW_TL_NONE)
                drop_live(x, group[dead.order[k]], v->bytes + v->padding);
        }
    }
    return SW_OK;
}

/* All bytes that live while the ops of each scope run. */
static sw_status count_ops(parts *x, sw_timeline *t, const sw_tl_program *p,
                           const uint32_t *of_op)
{
    uint64_t *curve;
    SW_TRY(sw_timeline_alloc(t, &curve, (size_t)p->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(p, NULL, NULL, curve);
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (uint32_t g = of_op[i];; g = x->at[g].parent) {
            x->at[g].n_ops++;
            x->at[g].run_peak = curve[i] > x->at[g].run_peak ? curve[i] : x->at[g].run_peak;
            if (g == 0)
                break;
        }
    return SW_OK;
}

/* All scopes are known before the first value is counted: one may be outer because of a later
 * one. */
static sw_status make_tree(parts *x, sw_timeline *t, const sw_tl_program *p, uint32_t *group,
                           uint32_t *of_op)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        SW_TRY(layer_group(x, t, p->ops[i].layer, &of_op[i]));
    for (uint32_t i = 0; i < p->n_values; i++)
        SW_TRY(layer_group(x, t, p->values[i].layer, &group[i]));
    for (uint32_t i = 0; i < p->n_ops; i++)
        SW_TRY(inner_group(x, t, &of_op[i]));
    for (uint32_t i = 0; i < p->n_values; i++)
        SW_TRY(inner_group(x, t, &group[i]));
    return SW_OK;
}

sw_status parts_make(parts *x, sw_timeline *t, const sw_tl_program *p, parts_by by)
{
    uint32_t root, *group, *of_op;
    SW_TRY(group_of(x, t, "(all)", 5, 0, &root));
    SW_TRY(sw_timeline_alloc(t, &group, (size_t)p->n_values + 1, sizeof(uint32_t)));
    SW_TRY(sw_timeline_alloc(t, &of_op, (size_t)p->n_ops + 1, sizeof(uint32_t)));
    if (by == PARTS_TREE)
        SW_TRY(make_tree(x, t, p, group, of_op));
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (by != PARTS_TREE)
            SW_TRY(group_for(x, t, &p->values[i], by, &group[i]));
        count_value(x, p, i, group[i]);
    }
    SW_TRY(sweep(x, t, p, group));
    return by == PARTS_TREE ? count_ops(x, t, p, of_op) : SW_OK;
}

void parts_free(parts *x)
{
    sw_heap_free(x->slots, SW_HEAP_PROFILE, x->n_slots * sizeof *x->slots);
    sw_heap_free(x->at, SW_HEAP_PROFILE, x->cap * sizeof *x->at);
    *x = (parts){0};
}
