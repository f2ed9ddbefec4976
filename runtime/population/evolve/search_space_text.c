/* Nodes of search spaces: objects that have one of the keys "vertex", "chain", "repeat",
 * "fork", "residual", "choice", "if", "use" and "node". */
#include "runtime/population/evolve/search_space.h"
#include "runtime/population/evolve/genome.h"
#include <stdio.h>

typedef struct {
    sw_search_space *space;
    uint32_t depth; /* objects that are open */
} swi_space_reader;

static sw_status space_read_node(sw_json_in *in, swi_space_reader *r, uint32_t *out);

#define BIT(field) ((uint32_t)1 << (field))

/* Numbers of search spaces: fixed, one of a list, or from a range. */

typedef struct {
    swi_space_reader *r;
    const char *field;
    double low, high;
    bool whole;
    swi_drawn *out;
} number;

static sw_status read_one(sw_json_in *in, const number *x, double *out)
{
    int64_t whole;
    if (x->whole) {
        SW_TRY(swi_read_whole(in, x->field, (int64_t)x->low, (int64_t)x->high, &whole));
        *out = (double)whole;
        return SW_OK;
    }
    SW_TRY(swi_read_real(in, out));
    if (!(*out >= x->low && *out <= x->high))
        return swi_read_bad(in, "\"%s\" must be %g to %g (got %g)", x->field, x->low, x->high,
                            *out);
    return SW_OK;
}

static sw_status add_choice(sw_json_in *in, void *context)
{
    number *x = context;
    sw_search_space *s = x->r->space;
    double choice;
    SW_TRY(read_one(in, x, &choice));
    if (x->out->n == SWI_SPACE_CHOICES)
        return swi_read_bad(in, "\"%s\" has at most %d choices", x->field, SWI_SPACE_CHOICES);
    SW_TRY(sw_heap_reserve(&s->choices, SW_HEAP_RECORDS, &s->choices_cap, s->n_choices + 1));
    s->choices[s->n_choices++] = choice;
    x->out->n++;
    return SW_OK;
}

static sw_status read_bound(sw_json_in *in, swi_object *o, uint32_t which)
{
    number *x = o->context;
    return read_one(in, x,
                    which == 0   ? &x->out->low
                    : which == 1 ? &x->out->high
                                 : &x->out->step);
}

/* A number, a list of choices, or a range. */
static sw_status space_read_drawn(sw_json_in *in, swi_space_reader *r, const char *field,
                                  double low, double high, bool whole, swi_drawn *out)
{
    static const swi_text_field bounds[] = {SWI_OWN("from"), SWI_OWN("to"), SWI_OWN("step")};
    const swi_fields range = {"a range", bounds, whole ? 3 : 2};
    number x = {r, field, low, high, whole, out};
    int c;
    *out = (swi_drawn){.first = r->space->n_choices};
    SW_TRY(sw_json_peek(in, &c));
    if (c == '{') {
        swi_object o = {.fields = &range, .context = &x, .own = read_bound};
        out->step = whole ? 1 : 0;
        SW_TRY(swi_read_object(in, &o));
        if ((o.seen & 3) != 3)
            return swi_read_bad(in, "\"%s\": a range must have \"from\" and \"to\"", field);
        if (x.out->low > x.out->high || (x.whole && x.out->step < 1))
            return swi_read_bad(
                in,
                "\"%s\": from must not be above to, and step at least 1 (got %g to %g by %g)",
                x.field, x.out->low, x.out->high, x.out->step);
        return SW_OK;
    }
    if (c == '[') {
        SW_TRY(swi_read_list(in, add_choice, &x));
        return out->n > 0 ? SW_OK
                          : swi_read_bad(in, "\"%s\" must have a choice at least", field);
    }
    if (c != '-' && !(c >= '0' && c <= '9'))
        return swi_read_bad(
            in, "\"%s\" must be a number, a list of choices, or {\"from\": ..., \"to\": ...}",
            field);
    SW_TRY(read_one(in, &x, &out->low));
    out->high = out->low;
    return SW_OK;
}

/* A node while it is read. */
typedef struct {
    swi_space_reader *r;
    swi_space_node node;
    uint32_t last; /* the last child, 0: none */
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
static sw_status space_read_activations(sw_json_in *in, uint32_t *bits)
{
    int c;
    *bits = 0;
    SW_TRY(sw_json_peek(in, &c));
    if (c != '[')
        return add_activation(in, bits);
    SW_TRY(swi_read_list(in, add_activation, bits));
    return *bits != 0 ? SW_OK : sw_json_bad(in, "\"activation\" must have a name at least");
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

static sw_status find_part(const sw_json_in *in, sw_search_space *s, const char *name,
                           uint32_t *out)
{
    for (*out = 0; *out < s->n_parts; ++*out)
        if (strcmp(s->parts[*out].name, name) == 0)
            return SW_OK;
    SW_TRY(sw_heap_reserve(&s->parts, SW_HEAP_RECORDS, &s->parts_cap, s->n_parts + 1));
    swi_space_part *part = &s->parts[s->n_parts++];
    snprintf(part->name, sizeof part->name, "%s", name);
    part->line = (uint32_t)in->line;
    return SW_OK;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static sw_status read_child(sw_json_in *in, void *context)
{
    half *h = context;
    uint32_t child;
    SW_TRY(space_read_node(in, h->r, &child));
    if (h->last == 0)
        h->node.first = child;
    else
        h->r->space->nodes[h->last].next = child;
    h->last = child;
    h->node.n_children++;
    return SW_OK;
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

/* After the kinds of node, fields of vertices, as swi_vertex_fields has them. */
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
    ACTIVATION = SIZE + SWI_VERTEX_ACTIVATION - SWI_VERTEX_SIZE,
    RATE,
    SHIELD,
    TIMES,
    PATHS,
    WEIGHTS,
    THEN,
    ELSE,
    FIELDS
};
/* clang-format off */
static const swi_text_field node_list[FIELDS] = {
    SWI_OWN("vertex"), SWI_OWN("chain"), SWI_OWN("repeat"), SWI_OWN("fork"), SWI_OWN("residual"), SWI_OWN("choice"),
    SWI_OWN("if"), SWI_OWN("use"), SWI_OWN("node"),
    SWI_OWN("size"), SWI_OWN("kernel"), SWI_OWN("stride"),
    SWI_OWN("dilation"), SWI_OWN("groups"), SWI_OWN("activation"), SWI_OWN("rate"),
    {.name = "shield", .kind = SWI_FIELD_SHIELD, .at = offsetof(swi_space_node, shield)},
    SWI_OWN("times"), SWI_OWN("paths"), SWI_OWN("weights"), SWI_OWN("then"), SWI_OWN("else"),
};
/* clang-format on */
static const swi_fields node_fields = SWI_FIELDS("a node", node_list);
#define KINDS (BIT(SWI_SPACE_NODE_KINDS) - 1)

/* Numbers of a vertex: or the word for one. */
static sw_status read_vertex_number(sw_json_in *in, half *h, uint32_t which)
{
    const swi_text_field *f = &swi_vertex_fields.list[which];
    const char *word = which == SWI_VERTEX_SIZE ? "classes" : f->zero;
    swi_drawn *out = &h->node.drawn[which];
    uint32_t found;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (word == NULL || c != '"')
        return space_read_drawn(in, h->r, f->name, f->low, f->high, f->kind != SWI_FIELD_REAL,
                                out);
    const double value = which == SWI_VERTEX_SIZE ? SWI_SPACE_CLASSES : SWI_SPACE_DEPTHWISE;
    *out = (swi_drawn){.low = value, .high = value};
    return swi_read_choice(in, f->name, &word, 1, &found);
}

static sw_status read_node_field(sw_json_in *in, swi_object *o, uint32_t which)
{
    half *h = o->context;
    const uint32_t others = o->seen & KINDS & ~BIT(which);
    if (which < SWI_SPACE_NODE_KINDS && others != 0)
        return swi_read_bad(in, "a node is \"%s\" or \"%s\", not both", node_list[which].name,
                            node_list[__builtin_ctz(others)].name);
    if (which < SWI_SPACE_NODE_KINDS)
        h->node.kind = (swi_space_node_kind)which;
    switch (which) {
    case VERTEX: {
        char word[24];
        SW_TRY(swi_read_word(in, "vertex", word, sizeof word));
        const int kind = swi_vertex_kind_find(word);
        if (kind < 0 || kind == SW_VERTEX_INPUT)
            return swi_read_bad(in, "'%s' is no kind of vertex that can be drawn", word);
        if (kind == SW_VERTEX_ADD || kind == SW_VERTEX_CONCAT)
            return swi_read_bad(in, "%s is drawn by %s", word,
                                kind == SW_VERTEX_ADD ? "\"residual\"" : "\"fork\"");
        h->node.vertex = (sw_vertex_kind)kind;
        return SW_OK;
    }
    case CHAIN:
    case CHOICE:
        return swi_read_list(in, read_child, h);
    case FORK: {
        /* Paths, or one node that is drawn more than once. */
        int c;
        SW_TRY(sw_json_peek(in, &c));
        h->node.many = c == '{';
        return h->node.many ? read_child(in, h) : swi_read_list(in, read_child, h);
    }
    case REPEAT:
    case RESIDUAL:
    case NODE:
        return read_child(in, h);
    case IF:
        return read_condition(in, &h->node);
    case USE: {
        char name[SWI_VERTEX_NAME];
        SW_TRY(swi_read_word(in, "use", name, sizeof name));
        return find_part(in, h->r->space, name, &h->node.part);
    }
    case ACTIVATION:
        return space_read_activations(in, &h->node.activations);
    case WEIGHTS:
        return swi_read_list(in, read_weight, h);
    case THEN:
        return space_read_node(in, h->r, &h->then_node);
    case ELSE:
        return space_read_node(in, h->r, &h->else_node);
    case TIMES:
        return space_read_drawn(in, h->r, "times", 0, SWI_MAX_VERTICES, true, &h->node.times);
    case PATHS:
        return space_read_drawn(in, h->r, "paths", 1, SWI_MAX_INPUTS, true, &h->node.times);
    default:
        return read_vertex_number(in, h, which - SIZE + SWI_VERTEX_SIZE);
    }
}

/* The fields that a node must have, and others that it may have. */
static void fields_of(const swi_space_node *n, uint32_t *must, uint32_t *may)
{
    static const uint32_t needed[SWI_SPACE_NODE_KINDS] = {
        [SWI_SPACE_NODE_REPEAT] = BIT(TIMES), [SWI_SPACE_NODE_NODE] = BIT(SHIELD)};
    static const uint32_t allowed[SWI_SPACE_NODE_KINDS] = {
        [SWI_SPACE_NODE_VERTEX] = BIT(SHIELD),
        [SWI_SPACE_NODE_CHOICE] = BIT(WEIGHTS),
        [SWI_SPACE_NODE_IF] = BIT(THEN) | BIT(ELSE)};
    *must = BIT(n->kind) | needed[n->kind] |
            (n->kind == SWI_SPACE_NODE_FORK && n->many ? BIT(PATHS) : 0);
    *may = allowed[n->kind];
    if (n->kind != SWI_SPACE_NODE_VERTEX)
        return;
    const swi_vertex v = swi_space_vertex(n);
    const uint32_t form = swi_vertex_form(&v), numbers = BIT(SHIELD) - BIT(SIZE);
    uint32_t others;
    const uint32_t own = swi_fields_of(&swi_vertex_fields, form, &others);
    *must |= own << (SIZE - SWI_VERTEX_SIZE) & numbers & ~BIT(ACTIVATION);
    *may |= (own | others) << (SIZE - SWI_VERTEX_SIZE) & numbers;
}

static sw_status check_node(const sw_json_in *in, const swi_object *o)
{
    const half *h = o->context;
    const swi_space_node *n = &h->node;
    uint32_t must, may;
    char who[60];
    if ((o->seen & KINDS) == 0)
        return sw_json_bad(in, "a node must be one of vertex, chain, repeat, fork, residual, "
                               "choice, if, use and node");
    fields_of(n, &must, &may);
    snprintf(who, sizeof who, "a node of %s",
             n->kind == SWI_SPACE_NODE_VERTEX ? sw_vertex_kind_name(n->vertex)
                                              : node_list[n->kind].name);
    SW_TRY(swi_read_complete(in, o, must, may, who));
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

static sw_status add_node(const sw_json_in *in, sw_search_space *s, half *h, uint32_t *out)
{
    if (s->n_nodes >= SWI_SPACE_NODES)
        return swi_read_bad(in, "a search space has at most %d nodes", SWI_SPACE_NODES);
    const uint32_t at = s->n_nodes > 0 ? s->n_nodes : 1;
    SW_TRY(sw_heap_reserve(&s->nodes, SW_HEAP_RECORDS, &s->nodes_cap, at + 1));
    if (h->node.kind == SWI_SPACE_NODE_IF) {
        /* Children of an "if" are then and else, in this order. */
        swi_space_node *n = &h->node;
        n->has_then = h->then_node != 0;
        n->has_else = h->else_node != 0;
        n->first = n->has_then ? h->then_node : h->else_node;
        if (n->has_then)
            s->nodes[h->then_node].next = h->else_node;
    }
    uint32_t child = h->node.first;
    for (uint32_t i = 0; i < h->n_weights; i++, child = s->nodes[child].next)
        s->nodes[child].weight = h->weights[i];
    s->nodes[at] = h->node;
    s->n_nodes = at + 1;
    *out = at;
    return SW_OK;
}

static sw_status space_read_node(sw_json_in *in, swi_space_reader *r, uint32_t *out)
{
    static const swi_drawn one = {1, 1, 0, 0, 0};
    half h = {.r = r, .node = {.weight = 1}};
    swi_object o = {
        .fields = &node_fields, .to = &h.node, .context = &h, .own = read_node_field};
    for (int i = SWI_VERTEX_KERNEL; i <= SWI_VERTEX_GROUPS; i++)
        h.node.drawn[i] = one;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    h.node.line = (uint32_t)in->line;
    if (r->depth == SWI_SPACE_DEPTH)
        return swi_read_bad(in, "nodes are at most %d deep", SWI_SPACE_DEPTH);
    r->depth++;
    SW_TRY(swi_read_object(in, &o));
    r->depth--;
    SW_TRY(check_node(in, &o));
    return add_node(in, r->space, &h, out);
}

static sw_status read_part(sw_json_in *in, const char *key, void *context)
{
    swi_space_reader *r = context;
    uint32_t i, node;
    if (!swi_name_is_one(key, SWI_VERTEX_NAME, false))
        return swi_read_bad(
            in, "the name of a part must be of 1 to %d letters, digits, '_' and '-' (got '%s')",
            SWI_VERTEX_NAME - 1, key);
    SW_TRY(find_part(in, r->space, key, &i));
    if (r->space->parts[i].node != 0)
        return swi_read_bad(in, "part '%s' is there twice", key);
    SW_TRY(space_read_node(in, r, &node));
    r->space->parts[i].node = node;
    return SW_OK;
}

/* Search spaces out of text: what stands beside the tree, and whether parts end. */

static sw_status add_optimizer(sw_json_in *in, void *context)
{
    sw_search_space *s = context;
    const char *kinds[SWI_SPACE_NAMES];
    uint32_t n = 0, which;
    for (; n < SWI_SPACE_NAMES && sw_optimizer_kind(n) != NULL; n++)
        kinds[n] = sw_optimizer_kind(n);
    SW_TRY(swi_read_choice(in, "optimizers", kinds, n, &which));
    if (s->training.n_optimizers == SWI_SPACE_NAMES)
        return swi_read_bad(in, "\"optimizers\" has at most %d names", SWI_SPACE_NAMES);
    s->optimizers[s->training.n_optimizers++] = kinds[which];
    return SW_OK;
}

/* ---- the whole --------------------------------------------------------------------------- */

enum { FORMAT, PARTS, BODY, HEAD, INSERT, OPTIMIZERS, LR, BATCH, ACTIVATIONS };
static const swi_text_field top_list[] = {
    SWI_OWN("format"), SWI_OWN("parts"),  SWI_OWN("body"),
    SWI_OWN("head"),   SWI_OWN("insert"), SWI_OWN("optimizers"),
    SWI_OWN("lr"),     SWI_OWN("batch"),  SWI_OWN("activations")};
static const swi_fields top_fields = SWI_FIELDS("a search space", top_list);

static sw_status read_top(sw_json_in *in, swi_object *o, uint32_t which)
{
    swi_space_reader *r = o->context;
    sw_search_space *s = r->space;
    switch (which) {
        /* An object of nodes by name. */
    case PARTS:
        return sw_json_get_object(in, read_part, r);
    case BODY:
        return space_read_node(in, r, &s->body);
    case HEAD:
        return space_read_node(in, r, &s->head);
    case INSERT: {
        /* A list of nodes, as a choice; 0 where it is empty. */
        half h = {.r = r, .node = {.kind = SWI_SPACE_NODE_CHOICE, .line = (uint32_t)in->line}};
        SW_TRY(swi_read_list(in, read_child, &h));
        return h.node.n_children > 0 ? add_node(in, s, &h, &s->insert) : SW_OK;
    }
    case OPTIMIZERS:
        s->training.n_optimizers = 0;
        return swi_read_list(in, add_optimizer, s);
    case LR: {
        swi_drawn x;
        SW_TRY(space_read_drawn(in, r, "lr", 1e-30, 1e30, false, &x));
        if (x.n > 0)
            return sw_json_bad(in, "\"lr\" must be a number or a range");
        s->training.lr_low = x.low;
        s->training.lr_high = x.high;
        return SW_OK;
    }
    case BATCH: {
        swi_drawn x;
        SW_TRY(space_read_drawn(in, r, "batch", 1, SWI_MAX_BATCH, true, &x));
        if (x.step > 1)
            return sw_json_bad(in, "a range of \"batch\" has no \"step\": write a list");
        for (uint32_t i = 0; i < x.n; i++)
            s->batches[i] = (int64_t)s->choices[x.first + i];
        s->training.n_batches = (int)x.n;
        s->training.batch_low = (int64_t)x.low;
        s->training.batch_high = (int64_t)x.high;
        return SW_OK;
    }
    default: {
        uint32_t bits;
        SW_TRY(space_read_activations(in, &bits));
        s->training.n_activations = 0;
        for (int i = 0; swi_activation_name(i) != NULL; i++)
            if ((bits >> i & 1) != 0)
                s->activations[s->training.n_activations++] = swi_activation_name(i);
        return SW_OK;
    }
    }
}

/* No part uses itself, over others or not. By depth: what is used is looked at inside what uses
 * it; parts that were left are done. */
static sw_status check_uses(const sw_json_in *in, sw_search_space *s, uint32_t node,
                            uint32_t depth)
{
    const swi_space_node *n = &s->nodes[node];
    if (depth == SWI_SPACE_DEPTH * SWI_SPACE_DEPTH)
        return swi_read_bad_at(in, n->line, "parts use parts too deeply");
    for (uint32_t child = n->first, i = 0; child != 0 && i <= s->n_nodes; i++) {
        SW_TRY(check_uses(in, s, child, depth + 1));
        child = s->nodes[child].next;
    }
    if (n->kind != SWI_SPACE_NODE_USE)
        return SW_OK;
    char what[120];
    swi_space_part *part = &s->parts[n->part];
    snprintf(what, sizeof what,
             part->node == 0 ? "there is no part '%s'" : "part '%s' uses itself", part->name);
    if (part->node == 0 || part->mark == 1)
        return swi_read_bad_at(in, n->line, what);
    if (part->mark == 2)
        return SW_OK;
    part->mark = 1;
    SW_TRY(check_uses(in, s, part->node, depth + 1));
    s->parts[n->part].mark = 2;
    return SW_OK;
}

sw_status swi_space_read(sw_search_space *s)
{
    swi_space_reader r = {.space = s};
    swi_object o = {
        .fields = &top_fields, .context = &r, .own = read_top, .format = SWI_SPACE_FORMAT};
    sw_json_in in = swi_read_begin(s->text, s->text_bytes, s->path);
    s->optimizers[0] = "adam";
    s->activations[0] = "relu";
    s->batches[0] = 64;
    s->training =
        (swi_space_training)SW_INIT(.optimizers = s->optimizers, .n_optimizers = 1,
                                    .lr_low = 0.001, .lr_high = 0.001, .batches = s->batches,
                                    .n_batches = 1, .activations = s->activations,
                                    .n_activations = 1);
    SW_TRY(swi_read_object(&in, &o));
    SW_TRY(swi_read_complete(&in, &o, BIT(FORMAT) | BIT(BODY), UINT32_MAX, top_fields.is));
    if (s->training.n_optimizers == 0)
        return sw_json_bad(&in, "\"optimizers\" must have a name at least");
    SW_TRY(swi_read_end(&in));
    const uint32_t roots[] = {s->body, s->head, s->insert};
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (s->parts[i].node != 0 && s->parts[i].mark == 0) {
            s->parts[i].mark = 1;
            SW_TRY(check_uses(&in, s, s->parts[i].node, 0));
            s->parts[i].mark = 2;
        }
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (roots[i] != 0)
            SW_TRY(check_uses(&in, s, roots[i], 0));
    return SW_OK;
}
