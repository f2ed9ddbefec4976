/* Nodes of search spaces: objects that have one of the keys "vertex", "chain", "repeat",
 * "fork", "residual", "choice", "if", "use" and "node". */
#include "runtime/population/evolve/search_space_read.h"
#include <stdio.h>

/* A node while it is read. */
typedef struct {
    swi_space_reader *r;
    swi_space_node node;
    uint32_t seen, last; /* the last child, 0: none */
    uint32_t then_node, else_node;
    double weights[SWI_SPACE_CHOICES];
    uint32_t n_weights;
} half;

/* ---- words ------------------------------------------------------------------------------- */

static sw_status add_activation(sw_json_in *in, void *context)
{
    uint32_t *bits = context;
    char word[24];
    SW_TRY(swi_read_word(in, "activation", word, sizeof word));
    const int i = swi_activation_find(word);
    if (i < 0 || (*bits >> i & 1) != 0)
        return swi_read_bad(in, "'%s' is %s", word, i < 0 ? "no activation" : "there already");
    *bits |= (uint32_t)1 << i;
    return SW_OK;
}

/* One name or a list of them. */
sw_status swi_space_read_activations(sw_json_in *in, uint32_t *bits)
{
    int c;
    *bits = 0;
    SW_TRY(sw_json_peek(in, &c));
    if (c != '[')
        return add_activation(in, bits);
    SW_TRY(swi_read_list(in, add_activation, bits));
    return *bits != 0 ? SW_OK : sw_json_bad(in, "\"activation\" must have a name at least");
}

static sw_status read_kind(sw_json_in *in, swi_space_node *n)
{
    char word[24];
    SW_TRY(swi_read_word(in, "vertex", word, sizeof word));
    const int kind = swi_vertex_kind_find(word);
    if (kind < 0 || kind == SW_VERTEX_INPUT)
        return swi_read_bad(in, "'%s' is no kind of vertex that can be drawn", word);
    if (kind == SW_VERTEX_ADD || kind == SW_VERTEX_CONCAT)
        return swi_read_bad(in, "%s is drawn by %s", word,
                            kind == SW_VERTEX_ADD ? "\"residual\"" : "\"fork\"");
    n->vertex = (sw_vertex_kind)kind;
    return SW_OK;
}

/* "image", "vector", or a quantity, how it compares, and a number. */
static sw_status read_condition(sw_json_in *in, swi_space_node *n)
{
    static const char *const whats[] = {"image",  "vector",    "height ",
                                        "width ", "channels ", "vertices "};
    static const char *const hows[] = {"< ", "<= ", "> ", ">= "};
    char word[40];
    SW_TRY(swi_read_word(in, "if", word, sizeof word));
    for (uint32_t what = 0; what < 6; what++) {
        const size_t length = strlen(whats[what]);
        const char *rest = word + length;
        if (strncmp(word, whats[what], length) != 0)
            continue;
        n->what = (swi_if_what)what;
        if (what <= SWI_IF_VECTOR && *rest == '\0')
            return SW_OK;
        for (uint32_t how = 0; what > SWI_IF_VECTOR && how < 4; how++) {
            const char *digits = rest + strlen(hows[how]);
            if (strncmp(rest, hows[how], strlen(hows[how])) != 0 || *digits == '\0' ||
                strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 9)
                continue;
            n->how = (swi_if_how)how;
            for (; *digits != '\0'; digits++)
                n->than = n->than * 10 + (*digits - '0');
            return SW_OK;
        }
    }
    return swi_read_bad(in,
                        "\"if\" must be image, vector, or height, width, channels or vertices "
                        "with <, <=, > or >= and a number: \"height >= 8\" (got '%s')",
                        word);
}

/* ---- parts ------------------------------------------------------------------------------- */

static sw_status find_part(const sw_json_in *in, sw_search_space *s, const char *name,
                           uint32_t *out)
{
    for (*out = 0; *out < s->n_parts; ++*out)
        if (strcmp(s->parts[*out].name, name) == 0)
            return SW_OK;
    void *block = s->parts;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &s->parts_cap, s->n_parts + 1,
                           sizeof *s->parts));
    s->parts = block;
    swi_space_part *part = &s->parts[s->n_parts++];
    snprintf(part->name, sizeof part->name, "%s", name);
    part->line = (uint32_t)in->line;
    return SW_OK;
}

static sw_status read_use(sw_json_in *in, half *h)
{
    char name[SWI_VERTEX_NAME];
    SW_TRY(swi_read_word(in, "use", name, sizeof name));
    return find_part(in, h->r->space, name, &h->node.part);
}

/* ---- nodes ------------------------------------------------------------------------------- */

static sw_status read_child(sw_json_in *in, void *context)
{
    half *h = context;
    uint32_t child;
    SW_TRY(swi_space_read_node(in, h->r, &child));
    if (h->last == 0)
        h->node.first = child;
    else
        h->r->space->nodes[h->last].next = child;
    h->last = child;
    h->node.n_children++;
    return SW_OK;
}

/* Paths, or one node that is drawn more than once. */
static sw_status read_fork(sw_json_in *in, half *h)
{
    int c;
    SW_TRY(sw_json_peek(in, &c));
    h->node.many = c == '{';
    return h->node.many ? read_child(in, h) : swi_read_list(in, read_child, h);
}

static sw_status read_weight(sw_json_in *in, void *context)
{
    half *h = context;
    double x;
    SW_TRY(swi_read_real(in, &x));
    if (!(x > 0 && x <= 1e6))
        return swi_read_bad(in, "a weight must be above 0 and at most 1e6 (got %g)", x);
    if (h->n_weights == SWI_SPACE_CHOICES)
        return swi_read_bad(in, "there are at most %d weights", SWI_SPACE_CHOICES);
    h->weights[h->n_weights++] = x;
    return SW_OK;
}

enum {
    VERTEX,
    CHAIN,
    REPEAT,
    FORK,
    RESIDUAL,
    CHOICE,
    IF,
    USE,
    NODE, /* these are swi_space_node_kind */
    SIZE,
    KERNEL,
    STRIDE,
    DILATION,
    GROUPS,
    ACTIVATION,
    RATE,
    SHIELD,
    TIMES,
    PATHS,
    WEIGHTS,
    THEN,
    ELSE,
    FIELDS
};
static const char *const fields[FIELDS] = {
    "vertex", "chain", "repeat", "fork",    "residual", "choice", "if",         "use",
    "node",   "size",  "kernel", "stride",  "dilation", "groups", "activation", "rate",
    "shield", "times", "paths",  "weights", "then",     "else"};
#define BIT(field) ((uint32_t)1 << (field))
#define KINDS (BIT(SWI_SPACE_NODE_KINDS) - 1)

static sw_status read_number(sw_json_in *in, half *h, uint32_t which)
{
    swi_space_node *n = &h->node;
    switch (which) {
    case SIZE:
        return swi_space_read_or_word(in, h->r, "size", "classes", SWI_SPACE_CLASSES, &n->size);
    case KERNEL:
        return swi_space_read_whole(in, h->r, "kernel", 1, SWI_MAX_WINDOW, &n->kernel);
    case STRIDE:
        return swi_space_read_whole(in, h->r, "stride", 1, SWI_MAX_WINDOW, &n->stride);
    case DILATION:
        return swi_space_read_whole(in, h->r, "dilation", 1, SWI_MAX_WINDOW, &n->dilation);
    case GROUPS:
        return swi_space_read_or_word(in, h->r, "groups", "depthwise", SWI_SPACE_DEPTHWISE,
                                      &n->groups);
    case RATE:
        return swi_space_read_drawn(in, h->r, "rate", 0, 0.99, false, &n->rate);
    case TIMES:
        return swi_space_read_whole(in, h->r, "times", 0, SWI_MAX_VERTICES, &n->times);
    default:
        return swi_space_read_whole(in, h->r, "paths", 1, SWI_MAX_INPUTS, &n->times);
    }
}

static sw_status read_member(sw_json_in *in, const char *key, void *context)
{
    half *h = context;
    uint32_t which;
    SW_TRY(swi_read_field(in, key, fields, FIELDS, "a node", &h->seen, &which));
    if (which < SWI_SPACE_NODE_KINDS && (h->seen & KINDS & ~BIT(which)) != 0)
        return swi_read_bad(in, "a node is \"%s\" or \"%s\", not both", key,
                            fields[__builtin_ctz(h->seen & KINDS & ~BIT(which))]);
    if (which < SWI_SPACE_NODE_KINDS)
        h->node.kind = (swi_space_node_kind)which;
    switch (which) {
    case VERTEX:
        return read_kind(in, &h->node);
    case CHAIN:
    case CHOICE:
        return swi_read_list(in, read_child, h);
    case FORK:
        return read_fork(in, h);
    case REPEAT:
    case RESIDUAL:
    case NODE:
        return read_child(in, h);
    case IF:
        return read_condition(in, &h->node);
    case USE:
        return read_use(in, h);
    case ACTIVATION:
        return swi_space_read_activations(in, &h->node.activations);
    case SHIELD:
        return swi_read_shield(in, &h->node.shield);
    case WEIGHTS:
        return swi_read_list(in, read_weight, h);
    case THEN:
        return swi_space_read_node(in, h->r, &h->then_node);
    case ELSE:
        return swi_space_read_node(in, h->r, &h->else_node);
    default:
        return read_number(in, h, which);
    }
}

/* The fields that a node must have, and all that it may have. */
static void fields_of(const swi_space_node *n, uint32_t *needed, uint32_t *allowed)
{
    static const uint32_t more[SWI_SPACE_NODE_KINDS] = {
        [SWI_SPACE_NODE_REPEAT] = BIT(TIMES), [SWI_SPACE_NODE_NODE] = BIT(SHIELD)};
    swi_vertex v = swi_vertex_of(n->vertex);
    v.groups = n->groups.low == SWI_SPACE_DEPTHWISE ? 0 : 1;
    *needed = BIT(n->kind) | more[n->kind];
    *allowed = 0;
    if (n->kind == SWI_SPACE_NODE_VERTEX) {
        *needed |= (swi_vertex_is_sized(&v) ? BIT(SIZE) : 0) |
                   (swi_vertex_has_window(&v) ? BIT(KERNEL) : 0) |
                   (n->vertex == SW_VERTEX_DROPOUT ? BIT(RATE) : 0);
        *allowed = BIT(SHIELD) | (swi_vertex_has_window(&v) ? BIT(STRIDE) : 0) |
                   (n->vertex == SW_VERTEX_CONV2D ? BIT(DILATION) | BIT(GROUPS) : 0) |
                   (n->vertex == SW_VERTEX_ACTIVATION ? BIT(ACTIVATION) : 0);
    } else if (n->kind == SWI_SPACE_NODE_FORK) {
        *needed |= n->many ? BIT(PATHS) : 0;
    } else if (n->kind == SWI_SPACE_NODE_CHOICE) {
        *allowed = BIT(WEIGHTS);
    } else if (n->kind == SWI_SPACE_NODE_IF) {
        *allowed = BIT(THEN) | BIT(ELSE);
    }
    *allowed |= *needed;
}

static sw_status check_node(const sw_json_in *in, const half *h)
{
    const swi_space_node *n = &h->node;
    uint32_t needed, allowed;
    if ((h->seen & KINDS) == 0)
        return sw_json_bad(in, "a node must be one of vertex, chain, repeat, fork, residual, "
                               "choice, if, use and node");
    fields_of(n, &needed, &allowed);
    const char *what =
        n->kind == SWI_SPACE_NODE_VERTEX ? sw_vertex_kind_name(n->vertex) : fields[n->kind];
    if ((needed & ~h->seen) != 0)
        return swi_read_bad(in, "a node of %s must have \"%s\"", what,
                            fields[__builtin_ctz(needed & ~h->seen)]);
    if ((h->seen & ~allowed) != 0)
        return swi_read_bad(in, "a node of %s has no \"%s\"", what,
                            fields[__builtin_ctz(h->seen & ~allowed)]);
    if (n->kind == SWI_SPACE_NODE_CHOICE && n->n_children == 0)
        return sw_json_bad(in, "\"choice\" must have a node at least");
    if (n->kind == SWI_SPACE_NODE_FORK && !n->many &&
        (n->n_children < 2 || n->n_children > SWI_MAX_INPUTS))
        return swi_read_bad(in, "\"fork\" must have 2 to %d paths (got %u)", SWI_MAX_INPUTS,
                            n->n_children);
    if (h->n_weights > 0 && h->n_weights != n->n_children)
        return swi_read_bad(in, "there must be a weight for each of the %u choices (got %u)",
                            n->n_children, h->n_weights);
    return SW_OK;
}

/* Children of an "if" are then and else, in this order. */
static void link_branches(sw_search_space *s, half *h)
{
    swi_space_node *n = &h->node;
    n->has_then = h->then_node != 0;
    n->has_else = h->else_node != 0;
    n->first = n->has_then ? h->then_node : h->else_node;
    if (n->has_then)
        s->nodes[h->then_node].next = h->else_node;
}

static sw_status add_node(const sw_json_in *in, sw_search_space *s, half *h, uint32_t *out)
{
    if (s->n_nodes >= SWI_SPACE_NODES)
        return swi_read_bad(in, "a search space has at most %d nodes", SWI_SPACE_NODES);
    void *block = s->nodes;
    const uint32_t at = s->n_nodes > 0 ? s->n_nodes : 1;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &s->nodes_cap, at + 1, sizeof *s->nodes));
    s->nodes = block;
    if (h->node.kind == SWI_SPACE_NODE_IF)
        link_branches(s, h);
    uint32_t child = h->node.first;
    for (uint32_t i = 0; i < h->n_weights; i++, child = s->nodes[child].next)
        s->nodes[child].weight = h->weights[i];
    s->nodes[at] = h->node;
    s->n_nodes = at + 1;
    *out = at;
    return SW_OK;
}

sw_status swi_space_read_node(sw_json_in *in, swi_space_reader *r, uint32_t *out)
{
    static const swi_drawn one = {1, 1, 0, 0, 0};
    half h = {
        .r = r,
        .node = {.kernel = one, .stride = one, .dilation = one, .groups = one, .weight = 1}};
    int c;
    SW_TRY(sw_json_peek(in, &c));
    h.node.line = (uint32_t)in->line;
    if (r->depth == SWI_SPACE_DEPTH)
        return swi_read_bad(in, "nodes are at most %d deep", SWI_SPACE_DEPTH);
    r->depth++;
    SW_TRY(sw_json_get_object(in, read_member, &h));
    r->depth--;
    SW_TRY(check_node(in, &h));
    return add_node(in, r->space, &h, out);
}

/* ---- what has nodes ---------------------------------------------------------------------- */

static sw_status read_part(sw_json_in *in, const char *key, void *context)
{
    swi_space_reader *r = context;
    uint32_t i, node;
    if (!swi_name_is_one(key, SWI_VERTEX_NAME, false))
        return swi_read_bad(in,
                            "the name of a part must be of 1 to %d letters, digits, '_' and "
                            "'-' (got '%s')",
                            SWI_VERTEX_NAME - 1, key);
    SW_TRY(find_part(in, r->space, key, &i));
    if (r->space->parts[i].node != 0)
        return swi_read_bad(in, "part '%s' is there twice", key);
    SW_TRY(swi_space_read_node(in, r, &node));
    r->space->parts[i].node = node;
    return SW_OK;
}

sw_status swi_space_read_parts(sw_json_in *in, swi_space_reader *r)
{
    return sw_json_get_object(in, read_part, r);
}

sw_status swi_space_read_nodes(sw_json_in *in, swi_space_reader *r, uint32_t *out)
{
    half h = {.r = r, .node = {.kind = SWI_SPACE_NODE_CHOICE, .line = (uint32_t)in->line}};
    SW_TRY(swi_read_list(in, read_child, &h));
    return h.node.n_children > 0 ? add_node(in, r->space, &h, out) : SW_OK;
}
