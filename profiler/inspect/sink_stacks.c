/* The tree of what lives at a position of a program. */
#include "alloc/base/mem.h"
#include "profiler/inspect/sink_internal.h"
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)

void swi_stacks_free(swi_stacks *tree)
{
    for (uint32_t i = 0; i < tree->n_blocks; i++)
        sw_heap_free(tree->blocks[i], SW_HEAP_PROFILE, BLOCK_BYTES);
    sw_heap_free(tree->blocks, SW_HEAP_PROFILE, tree->cap_blocks * sizeof *tree->blocks);
    sw_heap_free(tree->slots, SW_HEAP_PROFILE, tree->cap_slots * sizeof *tree->slots);
    sw_heap_free(tree->nodes, SW_HEAP_PROFILE, tree->cap_nodes * sizeof *tree->nodes);
    *tree = (swi_stacks){0};
}

/* ---- finding and making ------------------------------------------------------------------ */

static size_t hash(uint32_t parent, uint32_t kind, const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u ^ ((uint64_t)parent << 2 | kind); /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    h *= 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32);
}

/* Where such a node is or would stand; the table has room. */
static uint32_t *slot_of(const swi_stacks *tree, uint32_t parent, uint32_t kind,
                         const char *text, size_t n)
{
    const uint32_t mask = tree->cap_slots - 1;
    uint32_t i = (uint32_t)hash(parent, kind, text, n) & mask;
    for (;; i = (i + 1) & mask) {
        const swi_frame *x = &tree->nodes[tree->slots[i]];
        if (tree->slots[i] == 0 || (x->parent == parent && x->kind == kind && x->n == n &&
                                    memcmp(x->text, text, n) == 0))
            return &tree->slots[i];
    }
}

static sw_status grow_slots(swi_stacks *tree)
{
    swi_stacks larger = *tree;
    larger.cap_slots = tree->cap_slots == 0 ? 64 : tree->cap_slots * 2;
    SW_TRY(
        sw_heap_alloc(&larger.slots, SW_HEAP_PROFILE, larger.cap_slots * sizeof *tree->slots));
    for (uint32_t i = 1; i < tree->n_nodes; i++) {
        const swi_frame *x = &tree->nodes[i];
        *slot_of(&larger, x->parent, x->kind, x->text, x->n) = i;
    }
    sw_heap_free(tree->slots, SW_HEAP_PROFILE, tree->cap_slots * sizeof *tree->slots);
    *tree = larger;
    return SW_OK;
}

static sw_status copy_text(swi_stacks *tree, char **out, const char *text, size_t n)
{
    if (n >= BLOCK_BYTES)
        SW_FAIL(SW_UNSUPPORTED, "a name must have at most %zu bytes (got %zu)", BLOCK_BYTES - 1,
                n);
    if (tree->n_blocks == 0 || BLOCK_BYTES - tree->used <= n) {
        SW_TRY(sw_heap_reserve(&tree->blocks, SW_HEAP_PROFILE, &tree->cap_blocks,
                               tree->n_blocks + 1, sizeof *tree->blocks));
        SW_TRY(sw_heap_alloc(&tree->blocks[tree->n_blocks], SW_HEAP_PROFILE, BLOCK_BYTES));
        tree->n_blocks++;
        tree->used = 0;
    }
    *out = tree->blocks[tree->n_blocks - 1] + tree->used;
    memcpy(*out, text, n);
    tree->used += n + 1; /* blocks are zeroed */
    return SW_OK;
}

static sw_status make_node(swi_stacks *tree, const swi_frame *node)
{
    SW_TRY(sw_heap_reserve(&tree->nodes, SW_HEAP_PROFILE, &tree->cap_nodes, tree->n_nodes + 1,
                           sizeof *tree->nodes));
    tree->nodes[tree->n_nodes++] = *node;
    return SW_OK;
}

/* The child of that kind and text; made where there is none. */
static sw_status child(swi_stacks *tree, uint32_t parent, uint32_t kind, const char *text,
                       size_t n, uint32_t *out)
{
    if ((size_t)tree->n_nodes * 2 >= tree->cap_slots)
        SW_TRY(grow_slots(tree));
    uint32_t *slot = slot_of(tree, parent, kind, text, n);
    if (*slot == 0) {
        swi_frame node = {.n = (uint32_t)n, .kind = kind, .parent = parent};
        SW_TRY(copy_text(tree, &node.text, text, n));
        SW_TRY(make_node(tree, &node));
        *slot = tree->n_nodes - 1;
    }
    *out = *slot;
    return SW_OK;
}

/* ---- what lives -------------------------------------------------------------------------- */

static sw_status add_value(swi_stacks *tree, const sw_tensor *v)
{
    uint32_t at = 0;
    const char *scope = v->layer;
    for (int depth = 0; *scope != '\0'; depth++) {
        /* Deeper scopes are part of the last: readers of trees call themselves. */
        const size_t n = depth < 60 ? strcspn(scope, "/") : strlen(scope);
        if (n > 0)
            SW_TRY(child(tree, at, SWI_SCOPE, scope, n, &at));
        scope += n + (scope[n] == '/');
    }
    if (at == 0)
        SW_TRY(child(tree, at, SWI_SCOPE, "(no layer)", 10, &at));
    SW_TRY(child(tree, at, SWI_ROLE, v->role, strlen(v->role), &at));
    SW_TRY(child(tree, at, SWI_TENSOR, v->name, strlen(v->name), &at));
    for (;; at = tree->nodes[at].parent) {
        tree->nodes[at].bytes += v->bytes;
        tree->nodes[at].padding += v->padding;
        if (at == 0)
            return SW_OK;
    }
}

sw_status swi_stacks_live(swi_stacks *tree, const sw_tl_program *p, uint32_t position)
{
    const swi_frame root = {0};
    SW_TRY(make_node(tree, &root));
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias == SW_TL_NONE && v->birth <= position && position <= v->death)
            SW_TRY(add_value(tree, v));
    }
    return SW_OK;
}

sw_status swi_peak_program(const sw_timeline *t, const sw_tl_program **out)
{
    *out = sw_timeline_peak(t);
    if (*out == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no plan and no trace, so there is nothing to show",
                t->path);
    return SW_OK;
}
