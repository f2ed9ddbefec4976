/* Groups in order, and pairs of groups of two programs. */
#include "alloc/base/mem.h"
#include "profiler/inspect/report/report_parts.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ------------------------------------------------------------------------------- */

/* Groups of one parent side by side. */
static int by_weight(const void *left, const void *right)
{
    const parts_group *a = *(const parts_group *const *)left,
                      *b = *(const parts_group *const *)right;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->at_peak != b->at_peak)
        return a->at_peak > b->at_peak ? -1 : 1;
    if (a->own_peak != b->own_peak)
        return a->own_peak > b->own_peak ? -1 : 1;
    return strcmp(a->path, b->path);
}

typedef struct {
    const parts *x;
    const parts_group **sorted;
    uint32_t *first; /* of the children of each; 0: none, counted from 1 */
    uint32_t *out, n;
} walk;

/* As deep as scopes are. */
static void walk_below(walk *w, uint32_t parent) /* NOLINT(misc-no-recursion) */
{
    for (uint32_t k = w->first[parent]; k > 0 && k < w->x->n; k++) {
        if (w->sorted[k]->parent != parent)
            break;
        const uint32_t at = (uint32_t)(w->sorted[k] - w->x->at);
        w->out[w->n++] = at;
        walk_below(w, at);
    }
}

sw_status parts_order(const parts *x, sw_timeline *t, uint32_t *out, uint32_t *n)
{
    walk w = {.x = x, .out = out};
    SW_TRY(sw_timeline_alloc(t, &w.sorted, x->n, sizeof(parts_group *)));
    SW_TRY(sw_timeline_alloc(t, &w.first, x->n, sizeof(uint32_t)));
    for (uint32_t i = 0; i < x->n; i++)
        w.sorted[i] = &x->at[i];
    if (x->n > 1) /* the root stays before its children */
        qsort(w.sorted + 1, x->n - 1, sizeof *w.sorted, by_weight);
    for (uint32_t k = x->n; k-- > 1;)
        w.first[w.sorted[k]->parent] = k;
    walk_below(&w, 0);
    *n = w.n;
    return SW_OK;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static uint64_t apart_by(const parts_match *p)
{
    const uint64_t a = (uint64_t)p->bytes[0], b = (uint64_t)p->bytes[1];
    return p->bytes[0] > p->bytes[1] ? a - b : b - a;
}

static int by_difference(const void *left, const void *right)
{
    const parts_match *a = left, *b = right;
    const uint64_t x = apart_by(a), y = apart_by(b);
    if (x != y)
        return x > y ? -1 : 1;
    if (a->bytes[1] != b->bytes[1]) /* equal ones: the largest first */
        return a->bytes[1] > b->bytes[1] ? -1 : 1;
    return strcmp(a->name, b->name);
}

sw_status parts_matches(parts_match **out, size_t *n, sw_timeline *t, const parts *a,
                        const parts *b, const int64_t *apart)
{
    const parts *side[2] = {a, b};
    parts_match *pairs;
    SW_TRY(sw_timeline_alloc(t, &pairs, (size_t)a->n + b->n + 1, sizeof **out));
    size_t used = 0;
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 1; i < side[s]->n; i++) {
            const parts_group *g = &side[s]->at[i], *other = parts_find(side[1 - s], g->path);
            if (s == 1 && other != NULL)
                continue;
            parts_match *p = &pairs[used++];
            p->name = g->path;
            p->group[s] = g;
            p->group[1 - s] = other;
            p->bytes[s] = (int64_t)g->at_peak;
            p->bytes[1 - s] = other != NULL ? (int64_t)other->at_peak : 0;
        }
    if (apart[0] != 0 || apart[1] != 0)
        pairs[used++] =
            (parts_match){.name = "(not in the values)", .bytes = {apart[0], apart[1]}};
    if (used > 0)
        qsort(pairs, used, sizeof *pairs, by_difference);
    *out = pairs;
    *n = used;
    return SW_OK;
}
