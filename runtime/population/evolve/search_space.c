/* Search spaces: made, kept, ended. */
#include "alloc/base/size.h"
#include "runtime/population/evolve/search_space.h"
#include "runtime/population/evolve/genome.h"
#include <math.h>
#include <stdio.h>

static sw_status space_draw_node(swi_drawing *d, uint32_t node, uint32_t *at);

/* ---- search space ------------------------------------------------------------------------ */

static sw_status keep(char **out, size_t *out_bytes, const char *from, size_t bytes)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_RECORDS, bytes + 1));
    memcpy(*out, from, bytes);
    *out_bytes = bytes;
    return SW_OK;
}

void swi_search_space_free(sw_search_space *s)
{
    if (s == NULL)
        return;
    sw_text_free(s->text, s->text_bytes);
    sw_text_free(s->path, s->path_bytes);
    sw_heap_free(s->nodes, SW_HEAP_RECORDS, s->nodes_cap * sizeof *s->nodes);
    sw_heap_free(s->choices, SW_HEAP_RECORDS, s->choices_cap * sizeof *s->choices);
    sw_heap_free(s->parts, SW_HEAP_RECORDS, s->parts_cap * sizeof *s->parts);
    sw_handle_give(s, SW_HANDLE_SEARCH_SPACE, sizeof *s);
}

void sw_search_space_destroy(sw_search_space *s)
{
    if (sw_handle_ends(s, SW_HANDLE_SEARCH_SPACE, "sw_search_space_destroy"))
        swi_search_space_free(s);
}

sw_status sw_search_space_parse(sw_search_space **out, const char *text, size_t bytes,
                                const char *path)
{
    sw_search_space *s;
    SW_TRY(
        swi_given(out != NULL && text != NULL && path != NULL, "out, text and path", __func__));
    if (bytes > SWI_TEXT_MAX)
        SW_FAIL(SW_FORMAT, "%s: a search space has at most %zu bytes (got %zu)", path,
                SWI_TEXT_MAX, bytes);
    SW_TRY(sw_handle_take(&s, SW_HANDLE_SEARCH_SPACE, sizeof(sw_search_space)));
    sw_status status = keep(&s->text, &s->text_bytes, text, bytes);
    if (status == SW_OK)
        status = keep(&s->path, &s->path_bytes, path, strlen(path));
    if (status == SW_OK)
        status = swi_space_read(s);
    return SW_GIVE(status, out, s, swi_search_space_free);
}

sw_status sw_search_space_load(sw_search_space **out, const char *path)
{
    char *text;
    size_t bytes;
    SW_TRY(swi_given(out != NULL && path != NULL, "out and path", __func__));
    SW_TRY(swi_text_load(&text, &bytes, path, "a search space", SWI_TEXT_MAX));
    const sw_status status = sw_search_space_parse(out, text, bytes, path);
    sw_text_free(text, bytes);
    return status;
}

const char *sw_search_space_text(const sw_search_space *s)
{
    return sw_handle_check(s, SW_HANDLE_SEARCH_SPACE, "sw_search_space_text") == SW_OK ? s->text
                                                                                       : NULL;
}

/* The search space that is there without a file: classifiers of images and of vectors, of some
 * 2,000 to 200,000 parameters on samples of 28 x 28. Images are halved early, so that one core
 * trains thousands of samples a second. */

#define LINE(text) text "\n"
const char swi_space_default_text[] =
    /* clang-format off */
LINE("{")
LINE(" \"format\": \"stepwell search space 1\",")
LINE(" \"parts\": {")
LINE("  \"act\": {\"vertex\": \"activation\"},")
LINE("  \"norm-act\": {\"choice\": [")
LINE("   {\"chain\": [{\"vertex\": \"batch_norm\"}, {\"use\": \"act\"}]},")
LINE("   {\"use\": \"act\"}], \"weights\": [3, 1]},")
LINE("  \"conv\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 32, \"step\": 4}, \"kernel\": [3, 3, 5]},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"separable\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"groups\": \"depthwise\", \"kernel\": [3, 5]},")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 48, \"step\": 4}, \"kernel\": 1},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"path\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 4, \"to\": 16, \"step\": 4}, \"kernel\": [1, 3, 5]},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"wide\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 24, \"to\": 64, \"step\": 8}, \"kernel\": [3, 3, 5]},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"layer\": {\"choice\": [{\"use\": \"conv\"}, {\"use\": \"separable\"}]},")
LINE("  \"cell\": {\"choice\": [")
LINE("   {\"use\": \"layer\"},")
LINE("   {\"residual\": {\"repeat\": {\"use\": \"layer\"}, \"times\": [1, 2]}},")
LINE("   {\"fork\": {\"use\": \"path\"}, \"paths\": [2, 3]}], \"weights\": [3, 2, 1]},")
LINE("  \"down\": {\"if\": \"height >= 4\", \"then\": {\"choice\": [")
LINE("   {\"vertex\": \"max_pool\", \"kernel\": 2, \"stride\": 2},")
LINE("   {\"vertex\": \"avg_pool\", \"kernel\": 2, \"stride\": 2},")
LINE("   {\"chain\": [")
LINE("    {\"vertex\": \"conv2d\", \"size\": {\"from\": 16, \"to\": 32, \"step\": 4}, \"kernel\": 3, \"stride\": 2},")
LINE("    {\"use\": \"norm-act\"}]}], \"weights\": [2, 1, 1]}},")
LINE("  \"stem\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 16, \"step\": 4}, \"kernel\": [3, 5], \"stride\": [1, 2]},")
LINE("   {\"use\": \"norm-act\"},")
LINE("   {\"if\": \"height >= 16\", \"then\": {\"vertex\": \"max_pool\", \"kernel\": 2, \"stride\": 2}}]},")
LINE("  \"image\": {\"chain\": [")
LINE("   {\"use\": \"stem\"},")
LINE("   {\"repeat\": {\"use\": \"cell\"}, \"times\": [1, 2]},")
LINE("   {\"use\": \"down\"},")
LINE("   {\"repeat\": {\"choice\": [{\"use\": \"wide\"}, {\"use\": \"cell\"}]}, \"times\": [1, 2]},")
LINE("   {\"choice\": [{\"use\": \"down\"}, {\"chain\": []}]},")
LINE("   {\"if\": \"height <= 4\",")
LINE("    \"then\": {\"choice\": [{\"vertex\": \"flatten\"}, {\"vertex\": \"global_avg_pool\"}]},")
LINE("    \"else\": {\"choice\": [{\"vertex\": \"global_avg_pool\"}, {\"vertex\": \"global_max_pool\"}], \"weights\": [3, 1]}}]},")
LINE("  \"dense\": {\"chain\": [")
LINE("   {\"vertex\": \"linear\", \"size\": {\"from\": 32, \"to\": 128, \"step\": 16}},")
LINE("   {\"use\": \"act\"}]},")
LINE("  \"vector\": {\"chain\": [")
LINE("   {\"use\": \"dense\"},")
LINE("   {\"repeat\": {\"choice\": [{\"use\": \"dense\"}, {\"residual\": {\"repeat\": {\"use\": \"dense\"}, \"times\": [1, 2]}}]},")
LINE("    \"times\": [0, 1, 2, 3]}]}")
LINE(" },")
LINE(" \"body\": {\"chain\": [")
LINE("  {\"if\": \"image\", \"then\": {\"use\": \"image\"}, \"else\": {\"use\": \"vector\"}},")
LINE("  {\"choice\": [{\"chain\": []}, {\"vertex\": \"dropout\", \"rate\": {\"from\": 0.05, \"to\": 0.4}}]}]},")
LINE(" \"insert\": [")
LINE("  {\"if\": \"image\", \"then\": {\"choice\": [")
LINE("   {\"use\": \"conv\"},")
LINE("   {\"use\": \"separable\"},")
LINE("   {\"residual\": {\"use\": \"layer\"}},")
LINE("   {\"fork\": {\"use\": \"path\"}, \"paths\": 2},")
LINE("   {\"vertex\": \"batch_norm\"},")
LINE("   {\"use\": \"act\"},")
LINE("   {\"vertex\": \"max_pool\", \"kernel\": 3}]},")
LINE("  \"else\": {\"choice\": [")
LINE("   {\"use\": \"dense\"},")
LINE("   {\"residual\": {\"use\": \"dense\"}},")
LINE("   {\"use\": \"act\"},")
LINE("   {\"vertex\": \"dropout\", \"rate\": {\"from\": 0.05, \"to\": 0.3}}]}}],")
LINE(" \"optimizers\": [\"adam\", \"adamw\", \"rmsprop\", \"sgd\"],")
LINE(" \"lr\": {\"from\": 0.0005, \"to\": 0.01},")
LINE(" \"batch\": [32, 64, 128],")
LINE(" \"activations\": [\"relu\", \"leaky_relu\", \"swish\", \"gelu_tanh\", \"elu\", \"hard_swish\"]")
LINE("}");
/* clang-format on */

sw_status sw_search_space_default(sw_search_space **out, const sw_task *given)
{
    sw_task task;
    SW_TRY(swi_given(out != NULL && given != NULL, "out and task", __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_task, &task, given, __func__));
    return sw_search_space_parse(out, swi_space_default_text, sizeof swi_space_default_text - 1,
                                 "the default space");
}

/* Sizes of what was drawn, made equal to what it is added to or put in between. */

typedef struct {
    sw_genome *genome;
    uint32_t first;
    int64_t asked[SWI_MAX_VERTICES]; /* 0: not yet */
} tying;

static sw_status differ(const swi_vertex *v, int64_t channels)
{
    SW_FAIL(SW_INVALID, "%lld channels are needed here, and '%s' has %lld", (long long)channels,
            v->name, (long long)v->channels);
}

static sw_status tie(tying *t, uint32_t i, int64_t channels)
{
    swi_vertex *v = &t->genome->vertices[i];
    if (i < t->first || v->kind == SW_VERTEX_FLATTEN)
        return v->channels == channels ? SW_OK : differ(v, channels);
    if (t->asked[i] != 0)
        return t->asked[i] == channels ? SW_OK : differ(v, channels);
    t->asked[i] = channels;
    if (swi_vertex_is_sized(v)) {
        if (v->kind == SW_VERTEX_CONV2D && channels % v->groups != 0)
            SW_FAIL(SW_INVALID, "%lld channels are needed here, and '%s' has %d groups",
                    (long long)channels, v->name, v->groups);
        v->size = channels;
        return SW_OK;
    }
    if (v->kind == SW_VERTEX_CONCAT) {
        /* Parts of a concat share the channels; the first ones get what is left over. */
        const int64_t n = v->n_in;
        if (channels < n)
            SW_FAIL(SW_INVALID, "%lld channels are too few for %lld paths", (long long)channels,
                    (long long)n);
        for (int64_t k = 0; k < n; k++)
            SW_TRY(tie(t, v->in[k], channels / n + (k < channels % n)));
        return SW_OK;
    }
    for (uint32_t k = 0; k < v->n_in; k++)
        SW_TRY(tie(t, v->in[k], channels));
    return SW_OK;
}

/* Vertex v, one of those from `first` on, gets so many channels, by the size of what decides
 * them; then shapes from `first` on are inferred. SW_INVALID: it cannot. */
static sw_status space_tie(sw_genome *g, uint32_t v, uint32_t first, int64_t channels)
{
    tying t = {.genome = g, .first = first};
    SW_TRY(tie(&t, v, channels));
    SW_TRY(swi_genome_infer_from(g, first, NULL));
    return g->vertices[v].channels == channels ? SW_OK : differ(&g->vertices[v], channels);
}

/* Draws of nodes: vertices are put at the end of a genome. Its shapes are known all the while,
 * since conditions and ties ask for them. A node that does not fit ends the draw. */

#define MOST_STEPS 20000 /* nodes of one draw: parts that use parts are short to write */

/* ---- numbers ----------------------------------------------------------------------------- */

static double draw_number(const sw_search_space *s, const swi_drawn *x, swi_draws *d)
{
    if (x->n > 0)
        return s->choices[x->first + swi_draw_below(d, x->n)];
    if (x->high <= x->low)
        return x->low;
    if (x->step == 0)
        return swi_draw_range(d, x->low, x->high);
    const uint32_t n = (uint32_t)((x->high - x->low) / x->step) + 1;
    return x->low + x->step * swi_draw_below(d, n);
}

static int draw_activation(const sw_search_space *s, uint32_t bits, swi_draws *d)
{
    const swi_space_training *t = &s->training;
    if (bits == 0)
        return swi_activation_find(
            t->activations[swi_draw_below(d, (uint32_t)t->n_activations)]);
    uint32_t skip = swi_draw_below(d, (uint32_t)__builtin_popcount(bits));
    for (; skip > 0; skip--)
        bits &= bits - 1;
    return __builtin_ctz(bits);
}

/* ---- vertices ---------------------------------------------------------------------------- */

/* Put it after vertex *at, or after what its `in` says, at the end of the genome: it is then
 * vertex *at, and its shape is known. */
static sw_status space_put(swi_drawing *d, swi_vertex *v, uint32_t *at)
{
    sw_genome *g = d->genome;
    if (v->n_in == 0) {
        v->in[0] = *at;
        v->n_in = 1;
    }
    snprintf(v->name, sizeof v->name, "v%u", g->n); /* all have such names */
    SW_TRY(swi_genome_insert(g, g->n, v));
    *at = g->n - 1;
    return swi_genome_infer_from(g, *at, NULL);
}

swi_vertex swi_space_vertex(const swi_space_node *n)
{
    swi_vertex v = swi_vertex_of(n->vertex);
    v.groups = n->drawn[SWI_VERTEX_GROUPS].low != SWI_SPACE_DEPTHWISE;
    v.shield = n->shield;
    return v;
}

static sw_status draw_vertex(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    swi_vertex v = swi_space_vertex(n);
    const bool classes = n->drawn[SWI_VERTEX_SIZE].low == SWI_SPACE_CLASSES;
    for (uint32_t i = SWI_VERTEX_SIZE; i <= SWI_VERTEX_RATE; i++) {
        if (!swi_vertex_has(&v, i) || (i == SWI_VERTEX_GROUPS && v.groups == 0))
            continue;
        if (i == SWI_VERTEX_ACTIVATION)
            v.activation = draw_activation(d->space, n->activations, d->draws);
        else if (i == SWI_VERTEX_SIZE && classes)
            v.size = d->classes;
        else
            swi_field_set(&swi_vertex_fields.list[i], &v,
                          draw_number(d->space, &n->drawn[i], d->draws));
    }
    if (n->vertex == SW_VERTEX_CONV2D && v.groups > 0) {
        /* Groups are the most that divide the inputs and what was drawn; the size is the next
         * multiple. */
        v.groups = (int32_t)sw_size_gcd((uint64_t)v.groups,
                                        (uint64_t)d->genome->vertices[*at].channels);
        const int64_t rest = v.size % v.groups;
        v.size += rest > 0 ? v.groups - rest : 0;
    }
    if (swi_vertex_is_sized(&v) || n->vertex == SW_VERTEX_FLATTEN)
        d->ended = classes;
    return space_put(d, &v, at);
}

/* ---- nodes that have nodes --------------------------------------------------------------- */

static sw_status draw_fork(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    swi_vertex join = swi_vertex_of(SW_VERTEX_CONCAT);
    const int64_t paths =
        n->many ? (int64_t)draw_number(d->space, &n->times, d->draws) : n->n_children;
    uint32_t child = n->first;
    for (int64_t i = 0; i < paths; i++) {
        uint32_t path = *at;
        SW_TRY(space_draw_node(d, child, &path));
        join.in[join.n_in++] = path;
        child = n->many ? child : d->space->nodes[child].next;
    }
    d->ended = false; /* by its paths */
    if (paths > 1)
        return space_put(d, &join, at);
    *at = join.in[0];
    return SW_OK;
}

static sw_status draw_residual(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    sw_genome *g = d->genome;
    const uint32_t first = g->n, x = *at;
    swi_vertex add = swi_vertex_of(SW_VERTEX_ADD);
    uint32_t y = x;
    SW_TRY(space_draw_node(d, n->first, &y));
    if (y == x) /* nothing was drawn */
        return SW_OK;
    const swi_vertex *from = &g->vertices[x], *to = &g->vertices[y];
    if (from->height != to->height || from->width != to->width)
        SW_FAIL(SW_INVALID,
                "a residual must keep height and width (got %lld x %lld of %lld x %lld)",
                (long long)to->height, (long long)to->width, (long long)from->height,
                (long long)from->width);
    SW_TRY(space_tie(g, y, first, from->channels));
    d->ended = false;
    add.in[0] = x;
    add.in[1] = y;
    add.n_in = 2;
    return space_put(d, &add, at);
}

static bool holds(const swi_drawing *d, const swi_space_node *n, uint32_t at)
{
    const swi_vertex *v = &d->genome->vertices[at];
    if (n->what == SWI_IF_IMAGE || n->what == SWI_IF_VECTOR)
        return (v->height > 0) == (n->what == SWI_IF_IMAGE);
    const int64_t x = n->what == SWI_IF_HEIGHT     ? v->height
                      : n->what == SWI_IF_WIDTH    ? v->width
                      : n->what == SWI_IF_CHANNELS ? v->channels
                                                   : (int64_t)d->genome->n + d->beside;
    return n->how == SWI_IF_LESS      ? x < n->than
           : n->how == SWI_IF_AT_MOST ? x <= n->than
           : n->how == SWI_IF_MORE    ? x > n->than
                                      : x >= n->than;
}

static sw_status draw_kind(swi_drawing *d, const swi_space_node *n, uint32_t *at)
{
    switch (n->kind) {
    case SWI_SPACE_NODE_VERTEX:
        return draw_vertex(d, n, at);
    case SWI_SPACE_NODE_CHAIN: {
        uint32_t child = n->first;
        for (; child != 0; child = d->space->nodes[child].next)
            SW_TRY(space_draw_node(d, child, at));
        return SW_OK;
    }
    case SWI_SPACE_NODE_REPEAT: {
        const int64_t times = (int64_t)draw_number(d->space, &n->times, d->draws);
        for (int64_t i = 0; i < times; i++)
            SW_TRY(space_draw_node(d, n->first, at));
        return SW_OK;
    }
    case SWI_SPACE_NODE_FORK:
        return draw_fork(d, n, at);
    case SWI_SPACE_NODE_RESIDUAL:
        return draw_residual(d, n, at);
    case SWI_SPACE_NODE_CHOICE: {
        const swi_space_node *nodes = d->space->nodes;
        double sum = 0;
        for (uint32_t child = n->first; child != 0; child = nodes[child].next)
            sum += nodes[child].weight;
        double left = swi_draw_unit(d->draws) * sum;
        uint32_t child = n->first;
        while (nodes[child].next != 0 && left >= nodes[child].weight) {
            left -= nodes[child].weight;
            child = nodes[child].next;
        }
        return space_draw_node(d, child, at);
    }
    case SWI_SPACE_NODE_IF: {
        const bool yes = holds(d, n, *at);
        if (yes ? !n->has_then : !n->has_else)
            return SW_OK;
        return space_draw_node(
            d, yes || !n->has_then ? n->first : d->space->nodes[n->first].next, at);
    }
    case SWI_SPACE_NODE_USE:
        return space_draw_node(d, d->space->parts[n->part].node, at);
    default: {
        const uint32_t first = d->genome->n;
        SW_TRY(space_draw_node(d, n->first, at));
        for (uint32_t i = first; i < d->genome->n; i++)
            d->genome->vertices[i].shield |= n->shield;
        return SW_OK;
    }
    }
}

/* A failure names the innermost node. */
static sw_status space_draw_node(swi_drawing *d, uint32_t node, uint32_t *at)
{
    const swi_space_node *n = &d->space->nodes[node];
    const bool leaf = n->kind == SWI_SPACE_NODE_VERTEX || n->kind == SWI_SPACE_NODE_RESIDUAL ||
                      n->kind == SWI_SPACE_NODE_FORK;
    if (d->steps++ >= MOST_STEPS)
        SW_FAIL(SW_INVALID, "%s: line %u: a draw visits more than %d nodes", d->space->path,
                n->line, MOST_STEPS);
    const sw_status status = draw_kind(d, n, at);
    const size_t path = d->space->path_bytes;
    if (status != SW_INVALID || !leaf ||
        strncmp(sw_last_error(), d->space->path, path < 100 ? path : 100) == 0)
        return status;
    SW_FAIL(SW_INVALID, "%s: line %u: %s", d->space->path, n->line, sw_last_error());
}

/* Genomes out of search spaces: body, head and what is missing, then how they are trained.
 * Where something does not fit, another draw begins from the next stream of the seed; after
 * ATTEMPTS of them the space has no genome for the task, as far as is known. */

#define ATTEMPTS 100

static sw_status draw_all(swi_drawing *d)
{
    uint32_t at = 0, bad;
    SW_TRY(space_draw_node(d, d->space->body, &at));
    if (d->space->head != 0)
        SW_TRY(space_draw_node(d, d->space->head, &at));
    /* A vector of the classes. Where the tree ended with the size "classes", only a pool may be
     * missing. */
    sw_genome *g = d->genome;
    swi_vertex pool = swi_vertex_of(SW_VERTEX_GLOBAL_AVG_POOL);
    swi_vertex last = swi_vertex_of(SW_VERTEX_LINEAR);
    last.size = d->classes;
    last.shield = SW_SHIELD_SIZE | SW_SHIELD_REMOVE | SW_SHIELD_OUTPUTS | SW_SHIELD_CROSSOVER;
    if (g->vertices[at].height > 0)
        SW_TRY(space_put(d, &pool, &at));
    if (!d->ended)
        SW_TRY(space_put(d, &last, &at));
    if (swi_genome_find(g, "out") == UINT32_MAX)
        snprintf(g->vertices[at].name, SWI_VERTEX_NAME, "out");
    const swi_space_training *t = &d->space->training;
    snprintf(g->optimizer, sizeof g->optimizer, "%s",
             t->optimizers[swi_draw_below(d->draws, (uint32_t)t->n_optimizers)]);
    const double u = swi_draw_unit(d->draws);
    g->lr = (float)(t->lr_low < t->lr_high
                        ? exp(log(t->lr_low) + u * (log(t->lr_high) - log(t->lr_low)))
                        : t->lr_low);
    const swi_drawn range = {(double)t->batch_low, (double)t->batch_high, 1, 0, 0};
    g->batch = t->n_batches > 0 ? t->batches[swi_draw_below(d->draws, (uint32_t)t->n_batches)]
                                : (int64_t)draw_number(d->space, &range, d->draws);
    return swi_genome_check(d->genome, &bad);
}

static sw_status attempt(const sw_search_space *s, const sw_task *task, uint64_t seed,
                         uint64_t number, sw_genome **out)
{
    swi_draws draws = swi_draws_of(seed, number);
    swi_drawing d = {.space = s, .draws = &draws, .classes = task->classes};
    SW_TRY(swi_genome_new(&d.genome, task));
    sw_status status = swi_genome_infer(d.genome, NULL);
    if (status == SW_OK)
        status = draw_all(&d);
    return SW_GIVE(status, out, d.genome, swi_genome_free);
}

sw_status sw_genome_draw(sw_genome **out, const sw_search_space *s, const sw_task *given,
                         uint64_t seed)
{
    sw_task task;
    SW_TRY(sw_handle_check(s, SW_HANDLE_SEARCH_SPACE, __func__));
    SW_TRY(swi_given(out != NULL && given != NULL, "task and out", __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_task, &task, given, __func__));
    const bool vector = task.height == 0 && task.width == 0;
    if (task.channels < 1 || task.channels > SWI_MAX_UNITS || task.classes < 1 ||
        task.classes > SWI_MAX_UNITS ||
        (!vector && (task.height < 1 || task.height > SWI_MAX_UNITS || task.width < 1 ||
                     task.width > SWI_MAX_UNITS)))
        SW_FAIL(SW_INVALID,
                "%s: a task must have channels, classes, height and width of 1 to %d; height "
                "and width may be 0 (got %lld, %lld, %lld and %lld)",
                __func__, SWI_MAX_UNITS, (long long)task.channels, (long long)task.classes,
                (long long)task.height, (long long)task.width);

    sw_status status = SW_INVALID;
    for (uint64_t number = 0; number < ATTEMPTS && status == SW_INVALID; number++)
        status = attempt(s, &task, seed, number, out);
    if (status != SW_INVALID)
        return status;
    SW_FAIL(SW_INVALID, "%s: none of %d draws was a genome of the task; the last: %s", __func__,
            ATTEMPTS, sw_last_error());
}

/* New vertices out of a space, between a vertex and those that read it. They are drawn into a
 * genome of their own with that vertex as its input, and moved when they fit. */

#define INSERT_ATTEMPTS 12

/* ---- what begins as the identity --------------------------------------------------------- */

/* The vertex that decides the numbers of vertex i, past new layers that begin as the identity.
 * A layer that was trained since is not new any more. */
static const swi_vertex *origin(const sw_genome *g, uint32_t i)
{
    const swi_vertex *v = &g->vertices[i];
    while (g->n_parents > 0 && v->parent == SWI_NO_PARENT && swi_vertex_is_identity(v) &&
           (v->kind == SW_VERTEX_LINEAR || v->stride == 1) &&
           v->channels == g->vertices[v->in[0]].channels)
        v = &g->vertices[v->in[0]];
    return v;
}

/* Can it be the identity? Convolutions and linear layers by their weights, an activation where
 * it was applied already. */
static bool can_be_identity(const swi_vertex *v, const swi_vertex *behind)
{
    if (v->kind == SW_VERTEX_CONV2D)
        return v->stride == 1;
    if (v->kind == SW_VERTEX_ACTIVATION)
        return swi_activation_is_idempotent(v->activation) &&
               behind->kind == SW_VERTEX_ACTIVATION && behind->activation == v->activation;
    return v->kind == SW_VERTEX_LINEAR;
}

/* Leave of a chain what can be the identity. Joins and what changes the shape cannot, so that
 * nothing is left of these: *at is then 0. */
static sw_status keep_identities(sw_genome *part, const swi_vertex *behind, uint32_t *at)
{
    const int64_t channels = part->vertices[0].channels;
    bool chain = *at + 1 == part->n;
    for (uint32_t i = 1; i < part->n; i++)
        chain = chain && part->vertices[i].n_in == 1 && part->vertices[i].in[0] == i - 1;
    *at = 0;
    if (!chain)
        return SW_OK;
    for (uint32_t i = 1; i < part->n;) {
        swi_vertex *v = &part->vertices[i];
        if (!can_be_identity(v, behind)) {
            swi_genome_redirect(part, i, i - 1);
            swi_genome_remove(part, i);
            continue;
        }
        v->identity = v->kind != SW_VERTEX_ACTIVATION;
        v->size = swi_vertex_is_sized(v) ? channels : 0;
        if (v->kind == SW_VERTEX_CONV2D && v->groups > 0 && channels % v->groups != 0)
            v->groups = 1;
        i++;
    }
    *at = part->n - 1;
    return swi_genome_infer_from(part, 1, NULL);
}

/* ---- drawing and moving ------------------------------------------------------------------ */

static bool is_new(const sw_genome *part, uint32_t at)
{
    bool read[SWI_MAX_VERTICES] = {false};
    for (uint32_t i = 1; i < part->n; i++)
        for (uint32_t k = 0; k < part->vertices[i].n_in; k++)
            read[part->vertices[i].in[k]] = true;
    for (uint32_t i = 0; i < part->n; i++)
        if (i != at && !read[i])
            return false;
    return at > 0 && at + 1 == part->n;
}

/* SW_INVALID: it does not fit. */
static sw_status draw_part(swi_drawing *d, const swi_vertex *behind, const swi_vertex *from,
                           bool identity, uint32_t node)
{
    sw_genome *part = d->genome;
    uint32_t at = 0;
    SW_TRY(swi_genome_infer(part, NULL));
    SW_TRY(space_draw_node(d, node, &at));
    if (identity)
        SW_TRY(keep_identities(part, from, &at));
    if (!is_new(part, at))
        SW_FAIL(SW_INVALID, "nothing was drawn after '%s'", behind->name);
    const swi_vertex *last = &part->vertices[at];
    if (last->height != behind->height || last->width != behind->width)
        SW_FAIL(SW_INVALID, "what was drawn after '%s' changes height or width", behind->name);
    return space_tie(part, at, 1, behind->channels);
}

/* Vertex k of `part` becomes vertex `after` + k. */
static sw_status move_part(sw_genome *g, uint32_t behind, sw_genome *part)
{
    const uint32_t n = part->n - 1;
    uint32_t k = 1;
    sw_status status = SW_OK;
    if (g->n + n > SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "a genome must have at most %d vertices", SWI_MAX_VERTICES);
    for (; k <= n && status == SW_OK; k++) {
        swi_vertex v = part->vertices[k];
        for (uint32_t i = 0; i < v.n_in; i++)
            v.in[i] += behind;
        swi_genome_fresh_name(g, v.name);
        status = swi_genome_insert(g, behind + k, &v);
        k -= status != SW_OK;
    }
    if (status != SW_OK) {
        while (--k > 0)
            swi_genome_remove(g, behind + k);
        return status;
    }
    for (uint32_t i = behind + n + 1; i < g->n; i++)
        for (uint32_t j = 0; j < g->vertices[i].n_in; j++)
            if (g->vertices[i].in[j] == behind)
                g->vertices[i].in[j] = behind + n;
    return SW_OK;
}

static sw_status try_once(const sw_search_space *space, sw_genome *g, uint32_t behind,
                          bool identity, swi_draws *draws, uint32_t *n)
{
    const swi_vertex *v = &g->vertices[behind];
    const sw_task task =
        SW_OPTS(sw_task, .channels = v->channels, .height = v->height, .width = v->width);
    swi_drawing d = SW_INIT(.space = space, .draws = draws,
                            .classes = g->vertices[g->n - 1].channels, .beside = g->n - 1);
    SW_TRY(swi_genome_new(&d.genome, &task));
    sw_status status = draw_part(&d, v, origin(g, behind), identity, space->insert);
    if (status == SW_OK) {
        *n = d.genome->n - 1;
        status = move_part(g, behind, d.genome);
    }
    swi_genome_free(d.genome);
    return status;
}

sw_status swi_space_insert(const sw_search_space *space, sw_genome *g, uint32_t behind,
                           bool identity, swi_draws *draws, uint32_t *first, uint32_t *n)
{
    uint32_t put = 0;
    sw_status status = SW_INVALID;
    if (space->insert == 0)
        SW_FAIL(SW_UNSUPPORTED, "%s has no \"insert\"", space->path);
    if (swi_vertex_readers(g, behind, NULL, 0) == 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': no vertex reads it", g->vertices[behind].name);
    for (int i = 0; i < INSERT_ATTEMPTS && status == SW_INVALID; i++)
        status = try_once(space, g, behind, identity, draws, &put);
    if (status == SW_INVALID)
        SW_FAIL(SW_UNSUPPORTED, "nothing of %s fits after vertex '%s'", space->path,
                g->vertices[behind].name);
    SW_TRY(status);
    SW_TRY(swi_genome_infer_from(g, behind, NULL));
    *first = behind + 1;
    *n = put;
    return SW_OK;
}
