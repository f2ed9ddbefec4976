/* Edits of genomes, which mutations and callers make: vertices and edges that come and go,
 * sizes, fields. Each keeps the lineage: `rows` and `cols` say of every neuron which one it
 * was.
 *
 * The functions of a child (swi_edit_*) may leave the genome neither as it was nor valid where
 * they fail: a mutation is then undone as a whole (swi_child_accept). The public calls edit a
 * copy, which takes the genome's place where it is valid. */
#include "runtime/base/structs.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void swi_edit_note(swi_change_note *note, const char *vertex, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    snprintf(note->vertex, sizeof note->vertex, "%s", vertex);
    const int used =
        vertex[0] != '\0' ? snprintf(note->text, sizeof note->text, "%s: ", vertex) : 0;
    vsnprintf(note->text + used, sizeof note->text - (size_t)used, format, args);
    va_end(args);
}

/* The vertex has none of these shields. */
static sw_status allows(const sw_genome *g, uint32_t v, uint32_t shields)
{
    const uint32_t kept = g->vertices[v].shield & shields;
    if (kept != 0)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': its shield '%s' forbids it", g->vertices[v].name,
                swi_shield_name((uint32_t)__builtin_ctz(kept)));
    return SW_OK;
}

/* ---- sizes ------------------------------------------------------------------------------- */

static sw_status resize(swi_child *c, uint32_t v, int64_t size, swi_align_info *info)
{
    const swi_wish wish = {v, size};
    const swi_vertex *x = &c->genome->vertices[v];
    const int64_t had = x->channels;
    if (size < 1 || size > c->opts->max_size)
        SW_FAIL(SW_INVALID, "vertex '%s': its size must be 1 to %lld (got %lld)", x->name,
                (long long)c->opts->max_size, (long long)size);
    if (size == had)
        return SW_OK;
    SW_TRY(swi_child_align(c, &wish, 1, NULL, 0, info));
    if (x->channels != size)
        SW_FAIL(SW_UNSUPPORTED,
                "vertex '%s': it cannot have %lld outputs in the place of %lld; the next that "
                "fits is %lld",
                x->name, (long long)size, (long long)had, (long long)x->channels);
    return SW_OK;
}

static sw_status swi_edit_resize(swi_child *c, uint32_t v, int64_t size, swi_change_note *note)
{
    swi_align_info info = {0};
    const swi_vertex *x = &c->genome->vertices[v];
    const int64_t had = x->channels;
    if (!swi_vertex_is_sized(x) && !swi_vertex_is_invariant(x))
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': a vertex of kind %s has no size of its own",
                x->name, sw_vertex_kind_name(x->kind));
    SW_TRY(allows(c->genome, v, SW_SHIELD_SIZE));
    SW_TRY(resize(c, v, size, &info));
    if (size == had)
        return SW_OK;
    note->exact = info.dropped == 0 && swi_growth_is_exact(c->genome, c->before);
    swi_edit_note(note, x->name, "%lld to %lld outputs", (long long)had, (long long)size);
    return SW_OK;
}

/* ---- more -------------------------------------------------------------------------------- */

/* The readers of x read `at` instead, which follows it: of `reader` alone (UINT32_MAX: of all)
 * its input k alone (UINT32_MAX: all). */
static sw_status redirect(sw_genome *g, uint32_t x, uint32_t at, uint32_t reader, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = at + 1; i < g->n; i++)
        for (uint32_t j = 0; j < g->vertices[i].n_in; j++)
            if (g->vertices[i].in[j] == x && (reader == UINT32_MAX || reader == i) &&
                (k == UINT32_MAX || k == j)) {
                SW_TRY(allows(g, i, SW_SHIELD_INPUTS));
                g->vertices[i].in[j] = at;
                n++;
            }
    if (n == 0)
        SW_FAIL(SW_INVALID, "vertex '%s': its reader must read '%s' and stand after it",
                g->vertices[at].name, g->vertices[x].name);
    return SW_OK;
}

sw_status swi_edit_add(swi_child *c, swi_vertex *v, uint32_t at, uint32_t reader, uint32_t k,
                       swi_change_note *note)
{
    sw_genome *g = c->genome;
    const uint32_t x = v->in[0];
    const int64_t size = v->size;
    if (g->n >= c->opts->max_vertices)
        SW_FAIL(SW_UNSUPPORTED, "the genome has %u vertices, and more than %u must not be",
                g->n, c->opts->max_vertices);
    for (uint32_t i = 0; i < v->n_in; i++)
        SW_TRY(allows(g, v->in[i], SW_SHIELD_OUTPUTS));
    for (uint32_t i = 1; v->kind == SW_VERTEX_ADD && i < v->n_in; i++) {
        const swi_tie tie = {.a = x, .b = v->in[i]};
        SW_TRY(swi_child_align(c, NULL, 0, &tie, 1, NULL));
    }
    v->size = swi_vertex_is_sized(v) ? g->vertices[x].channels : 0; /* so that it fits */
    SW_TRY(swi_genome_insert(g, at, v));
    SW_TRY(redirect(g, x, at, reader == UINT32_MAX ? reader : reader + 1, k));
    SW_TRY(swi_genome_infer(g, NULL));
    SW_TRY(swi_positions_follow(g, c->before, UINT32_MAX, 0));
    note->exact = swi_is_identity(g, &g->vertices[at]);
    if (v->size > 0 && size != v->size) {
        swi_align_info info;
        SW_TRY(resize(c, at, size, &info));
        note->exact = false;
    }
    swi_edit_note(note, v->name, "%s after %s", sw_vertex_kind_name(v->kind),
                  g->vertices[x].name);
    return SW_OK;
}

/* A join reads y too: an add what has its sizes then, a concat after what it read. */
static sw_status extend(swi_child *c, uint32_t v, uint32_t y)
{
    swi_vertex *join = &c->genome->vertices[v];
    if (join->kind != SW_VERTEX_ADD && join->kind != SW_VERTEX_CONCAT)
        SW_FAIL(SW_UNSUPPORTED,
                "vertex '%s': an add or a concat may read one more, and it is of kind %s",
                join->name, sw_vertex_kind_name(join->kind));
    if (join->n_in == SWI_MAX_INPUTS)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': it reads %d vertices, and more must not be",
                join->name, SWI_MAX_INPUTS);
    const swi_tie tie = {.a = join->in[0], .b = y};
    if (join->kind == SW_VERTEX_ADD)
        SW_TRY(swi_child_align(c, NULL, 0, &tie, 1, NULL));
    join->in[join->n_in++] = y;
    SW_TRY(swi_genome_infer(c->genome, NULL));
    return swi_positions_follow(c->genome, c->before, UINT32_MAX, 0);
}

/* ---- less, or another -------------------------------------------------------------------- */

/* Input k of a join goes, and where one is left, the join too. */
static sw_status cut(swi_child *c, uint32_t v, uint32_t k)
{
    sw_genome *g = c->genome;
    swi_vertex *join = &g->vertices[v];
    const uint32_t x = join->in[k];
    if (join->n_in < 2)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': a vertex of kind %s must read one", join->name,
                sw_vertex_kind_name(join->kind));
    memmove(join->in + k, join->in + k + 1, (join->n_in - k - 1) * sizeof *join->in);
    join->n_in--;
    if (join->kind == SW_VERTEX_CONCAT)
        SW_TRY(swi_positions_follow(g, c->before, v, 1u << k));
    if (join->n_in == 1 && !swi_outputs_free(g, v))
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s' would join one, and a shield keeps its readers",
                join->name);
    if (join->n_in == 1)
        return swi_pass_over(g, v, join->in[0]);
    return swi_vertex_readers(g, x, NULL, 0) > 0 ? SW_OK : swi_pass_over(g, x, x);
}

/* Input k is y. Where that has another size, an adapter with the outputs that were read gets
 * its size, and is passed by: what reads fewer outputs has those in front, what reads more has
 * new ones after them. */
static sw_status replace(swi_child *c, uint32_t v, uint32_t k, uint32_t y)
{
    sw_genome *g = c->genome;
    const uint32_t x = g->vertices[v].in[k];
    const bool fits = g->vertices[x].channels == g->vertices[y].channels;
    const uint32_t from = fits ? y : y + 1;
    if ((g->vertices[x].height == 0) != (g->vertices[y].height == 0))
        SW_FAIL(
            SW_INVALID,
            "vertex '%s': '%s' cannot take the place of '%s': one is an image, one a vector",
            g->vertices[v].name, g->vertices[y].name, g->vertices[x].name);
    if (!fits) {
        SW_TRY(swi_insert_adapter(g, from, y, c->before, x, SWI_NO_PARENT));
        memcpy(g->vertices[from].name, g->vertices[y].name, SWI_VERTEX_NAME); /* messages */
        v++;
    }
    g->vertices[v].in[k] = from;
    SW_TRY(swi_genome_infer(g, NULL));
    SW_TRY(swi_positions_follow(g, c->before, UINT32_MAX, 0));
    const swi_wish wish = {from, g->vertices[y].channels};
    const swi_tie tie = {.a = y, .b = from};
    if (!fits)
        SW_TRY(swi_child_align(c, &wish, 1, &tie, 1, NULL));
    return swi_pass_over(g, from, y);
}

sw_status swi_edit_rewire(swi_child *c, uint32_t v, uint32_t k, uint32_t y,
                          swi_change_note *note)
{
    sw_genome *g = c->genome;
    const swi_vertex *x = &g->vertices[v];
    if (k > x->n_in || (k == x->n_in && y == UINT32_MAX))
        SW_FAIL(SW_INVALID, "vertex '%s': it reads %u vertices (got input %u)", x->name,
                x->n_in, k);
    if (y != UINT32_MAX && y >= v)
        SW_FAIL(SW_INVALID,
                "vertex '%s': what it reads must stand before it (it is vertex %u, got %u)",
                x->name, v, y);
    SW_TRY(allows(g, v, SW_SHIELD_INPUTS));
    if (k < x->n_in)
        SW_TRY(allows(g, x->in[k], SW_SHIELD_OUTPUTS));
    if (y != UINT32_MAX)
        SW_TRY(allows(g, y, SW_SHIELD_OUTPUTS));
    if (k < x->n_in && y == x->in[k])
        return SW_OK;
    const char *to = y != UINT32_MAX ? g->vertices[y].name : "";
    if (y == UINT32_MAX)
        swi_edit_note(note, x->name, "reads %s no more", g->vertices[x->in[k]].name);
    else if (k == x->n_in)
        swi_edit_note(note, x->name, "reads %s too", to);
    else
        swi_edit_note(note, x->name, "reads %s, not %s", to, g->vertices[x->in[k]].name);
    return y == UINT32_MAX ? cut(c, v, k)
           : k == x->n_in  ? extend(c, v, y)
                           : replace(c, v, k, y);
}

/* Rewiring: a vertex is passed by, what no vertex reads goes, what is read twice is read
 * once. */

static bool drop_doubles(swi_vertex *v, uint32_t x)
{
    const uint32_t had = v->n_in;
    uint32_t n = 0;
    bool seen = false;
    for (uint32_t k = 0; k < had; k++) {
        if (v->in[k] != x || !seen)
            v->in[n++] = v->in[k];
        seen = seen || v->in[k] == x;
    }
    v->n_in = n;
    return n < had;
}

static sw_status read_once(sw_genome *g, uint32_t x)
{
    for (uint32_t i = x + 1; i < g->n; i++) {
        swi_vertex *v = &g->vertices[i];
        if (v->kind != SW_VERTEX_ADD || !drop_doubles(v, x) || v->n_in > 1)
            continue;
        if ((v->shield & SW_SHIELD_REMOVE) != 0 || i + 1 == g->n || !swi_inputs_free(g, i) ||
            !swi_outputs_free(g, i))
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s' would add nothing, and a shield keeps it",
                    v->name);
        swi_genome_redirect(g, i, x);
        swi_genome_remove(g, i);
        i--; /* later adds may read x twice now: they come */
    }
    return SW_OK;
}

sw_status swi_pass_over(sw_genome *g, uint32_t v, uint32_t x)
{
    swi_genome_redirect(g, v, x);
    SW_TRY(read_once(g, x));
    /* Dead ends go, v too. From the back: what one alone has read is one too. */
    uint32_t reads[SWI_MAX_VERTICES]; /* edges to readers */
    memset(reads, 0, g->n * sizeof *reads);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            reads[g->vertices[i].in[k]]++;
    for (uint32_t i = g->n - 1; i-- > 0;) {
        if (reads[i] > 0)
            continue;
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            reads[g->vertices[i].in[k]]--;
        /* those in front keep their positions */
        if (i == 0)
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s': nothing would read the input",
                    g->vertices[0].name);
        if ((g->vertices[i].shield & SW_SHIELD_REMOVE) != 0 || !swi_inputs_free(g, i))
            SW_FAIL(SW_UNSUPPORTED, "vertex '%s' would be read by none, and a shield keeps it",
                    g->vertices[i].name);
        swi_genome_remove(g, i);
    }
    return SW_OK;
}

/* Images after v get another height and width, if they can. */
static sw_status redirect_moved(sw_genome *g, uint32_t v, uint32_t x)
{
    sw_genome *was;
    SW_TRY(sw_genome_copy(&was, g));
    sw_status status = swi_pass_over(g, v, x);
    if (status == SW_OK)
        status = swi_genome_infer(g, NULL);
    if (status == SW_OK)
        status = swi_positions_follow(g, was, UINT32_MAX, 0);
    swi_genome_free(was);
    return status;
}

/* Who reads v reads x, which it reads; v goes, and what no vertex reads then, and adds that
 * would add x alone. Sizes are aligned first. SW_UNSUPPORTED, or SW_INVALID, where that cannot
 * be: the genome is then neither as it was nor valid. */
static sw_status bypass(swi_child *c, uint32_t v, uint32_t x)
{
    const swi_vertex *from = &c->genome->vertices[v], *to = &c->genome->vertices[x];
    if ((from->height == 0) != (to->height == 0))
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s' makes a vector of an image: it stays", from->name);
    const bool moved = from->height != to->height || from->width != to->width;
    /* Invariant vertices give the units that they read, one by one. */
    if (!swi_vertex_is_invariant(from))
        SW_TRY(swi_child_align(c, NULL, 0, &(swi_tie){.a = x, .b = v}, 1, NULL));
    return moved ? redirect_moved(c->genome, v, x) : swi_pass_over(c->genome, v, x);
}

/* Concat v reads input k alone, and is passed by; its readers lose the other columns. */
static sw_status bypass_concat(swi_child *c, uint32_t v, uint32_t k)
{
    swi_vertex *join = &c->genome->vertices[v];
    const uint32_t x = join->in[k], all = (1u << join->n_in) - 1;
    join->in[0] = x;
    join->n_in = 1;
    SW_TRY(swi_positions_follow(c->genome, c->before, v, all & ~(1u << k)));
    return swi_pass_over(c->genome, v, x);
}

sw_status swi_edit_remove(swi_child *c, uint32_t v, uint32_t k, swi_change_note *note)
{
    sw_genome *g = c->genome;
    const swi_vertex *x = &g->vertices[v];
    const uint32_t n = g->n;
    const sw_vertex_kind kind = x->kind;
    char name[SWI_VERTEX_NAME], more[48] = "";
    memcpy(name, x->name, sizeof name);
    if (v == 0 || v + 1 == n)
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': the input and the last vertex stay", name);
    if (k >= x->n_in)
        SW_FAIL(SW_INVALID, "vertex '%s': it reads %u vertices (got input %u)", name, x->n_in,
                k);
    SW_TRY(allows(g, v, SW_SHIELD_REMOVE | SW_SHIELD_INPUTS | SW_SHIELD_OUTPUTS));
    if (!swi_inputs_free(g, v) || !swi_outputs_free(g, v))
        SW_FAIL(SW_UNSUPPORTED,
                "vertex '%s': the shield of what it reads, or of a reader, keeps it", name);
    note->exact = swi_is_identity(g, x);
    SW_TRY(kind == SW_VERTEX_CONCAT ? bypass_concat(c, v, k) : bypass(c, v, x->in[k]));
    if (n - g->n > 1)
        snprintf(more, sizeof more, ", and %u that it needed", n - g->n - 1);
    swi_edit_note(note, name, "%s removed%s", sw_vertex_kind_name(kind), more);
    return SW_OK;
}

/* ---- does it compute what it reads? ------------------------------------------------------ */

bool swi_is_identity(const sw_genome *g, const swi_vertex *v)
{
    switch (v->kind) {
    case SW_VERTEX_DROPOUT:
        return true;
    case SW_VERTEX_ACTIVATION: {
        const swi_vertex *x = &g->vertices[v->in[0]];
        while (x->kind == SW_VERTEX_DROPOUT) /* it passes everything on in evaluation */
            x = &g->vertices[x->in[0]];
        return swi_activation_is_idempotent(v->activation) && x->kind == SW_VERTEX_ACTIVATION &&
               x->activation == v->activation;
    }
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
        return v->kernel == 1 && v->stride == 1;
    case SW_VERTEX_LINEAR:
    case SW_VERTEX_CONV2D:
        return v->identity && v->parent == SWI_NO_PARENT && v->stride == 1 &&
               (v->groups == 1 || swi_vertex_is_depthwise(v)) &&
               v->channels == swi_vertex_reads(g, v);
    default:
        return false;
    }
}

bool swi_outputs_free(const sw_genome *g, uint32_t v)
{
    if ((g->vertices[v].shield & SW_SHIELD_OUTPUTS) != 0)
        return false;
    for (uint32_t i = v + 1; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            if (g->vertices[i].in[k] == v && (g->vertices[i].shield & SW_SHIELD_INPUTS) != 0)
                return false;
    return true;
}

bool swi_inputs_free(const sw_genome *g, uint32_t v)
{
    if ((g->vertices[v].shield & SW_SHIELD_INPUTS) != 0)
        return false;
    for (uint32_t k = 0; k < g->vertices[v].n_in; k++)
        if ((g->vertices[g->vertices[v].in[k]].shield & SW_SHIELD_OUTPUTS) != 0)
            return false;
    return true;
}

/* ---- fields ------------------------------------------------------------------------------ */

static sw_status no_field(const swi_vertex *v, const char *what, const char *name)
{
    if (v == NULL)
        SW_FAIL(SW_INVALID, "a genome has no %s '%.40s'", what, name);
    SW_FAIL(SW_INVALID, "vertex '%s' (%s) has no %s '%.40s'", v->name,
            sw_vertex_kind_name(v->kind), what, name);
}

/* Windows move images: what reads elements of flattened ones keeps those that it had. */
sw_status swi_edit_number(swi_child *c, uint32_t v, const char *name, double value,
                          swi_change_note *note)
{
    sw_genome *g = c->genome;
    swi_vertex *x = v != UINT32_MAX ? &g->vertices[v] : NULL;
    const swi_text_field *f =
        swi_field_find(x != NULL ? &swi_vertex_fields : &swi_genome_fields, name);
    /* Sizes are resized, by a call of their own. */
    if (f == NULL || (x != NULL && !swi_vertex_has_field(x, name)) ||
        !(f->kind == SWI_FIELD_SMALL || f->kind == SWI_FIELD_REAL ||
          (x == NULL && f->kind == SWI_FIELD_WHOLE)))
        return no_field(x, "number", name);
    void *of = x != NULL ? (void *)x : (void *)g;
    const double had = swi_field_get(f, of);
    if (f->kind != SWI_FIELD_REAL && !(value == floor(value) && fabs(value) <= SWI_MAX_UNITS))
        SW_FAIL(SW_INVALID, "%s must be a whole number of at most %d (got %.12g)", name,
                SWI_MAX_UNITS, value);
    if (f->kind == SWI_FIELD_SMALL)
        SW_TRY(allows(g, v, SW_SHIELD_KERNEL));
    if (strcmp(name, "groups") == 0 && (had == 0) != (value == 0))
        SW_FAIL(SW_UNSUPPORTED,
                "vertex '%s': groups 0 is depthwise, which has no size of its own: %g cannot "
                "become %g",
                x->name, had, value);
    swi_field_set(f, of, value);
    note->exact = f->kind != SWI_FIELD_SMALL || (x->kind == SW_VERTEX_CONV2D && value > had &&
                                                 f->at == offsetof(swi_vertex, kernel));
    if (value == had)
        return SW_OK;
    swi_edit_note(note, x != NULL ? x->name : "", "%s %.6g to %.6g", name, had, value);
    if (f->kind != SWI_FIELD_SMALL)
        return SW_OK;
    SW_TRY(swi_genome_infer(g, NULL));
    return swi_positions_follow(g, c->before, UINT32_MAX, 0);
}

static sw_status set_update(sw_update_time *update, const char *word)
{
    *update = strcmp(word, "after") == 0     ? SW_UPDATE_AFTER
              : strcmp(word, "release") == 0 ? SW_UPDATE_RELEASE
                                             : SW_UPDATE_DEFAULT;
    if (*update == SW_UPDATE_DEFAULT)
        SW_FAIL(SW_INVALID, "update must be release or after (got '%.40s')", word);
    return SW_OK;
}

sw_vertex_kind swi_other_pool(sw_vertex_kind kind)
{
    static const sw_vertex_kind other[SW_VERTEX_KINDS] = {
        [SW_VERTEX_MAX_POOL] = SW_VERTEX_AVG_POOL,
        [SW_VERTEX_AVG_POOL] = SW_VERTEX_MAX_POOL,
        [SW_VERTEX_GLOBAL_MAX_POOL] = SW_VERTEX_GLOBAL_AVG_POOL,
        [SW_VERTEX_GLOBAL_AVG_POOL] = SW_VERTEX_GLOBAL_MAX_POOL};
    return other[kind];
}

bool swi_has_momentum(const char *optimizer)
{
    return strcmp(optimizer, "sgd") == 0 || strcmp(optimizer, "rmsprop") == 0;
}

static sw_status set_kind(swi_vertex *x, const char *word)
{
    const int kind = swi_vertex_kind_find(word);
    if (kind <= SW_VERTEX_INPUT || (sw_vertex_kind)kind != swi_other_pool(x->kind))
        SW_FAIL(SW_UNSUPPORTED, "vertex '%s': its kind, %s, cannot become '%.40s'", x->name,
                sw_vertex_kind_name(x->kind), word);
    x->kind = (sw_vertex_kind)kind;
    return SW_OK;
}

static sw_status set_activation(swi_vertex *x, const char *word)
{
    x->activation = swi_activation_find(word);
    if (x->activation < 0)
        SW_FAIL(SW_INVALID, "vertex '%s': '%.40s' is no activation", x->name, word);
    return SW_OK;
}

sw_status swi_edit_word(swi_child *c, uint32_t v, const char *name, const char *word,
                        swi_change_note *note)
{
    sw_genome *g = c->genome;
    swi_vertex *x = v != UINT32_MAX ? &g->vertices[v] : NULL;
    const bool update = strcmp(name, "update") == 0, kind = strcmp(name, "kind") == 0;
    char had[SWI_GENOME_NAME];
    if (x == NULL && !update) {
        static const char *const names[] = {"optimizer", "loss", "name"};
        char *const at[] = {g->optimizer, g->loss, g->name};
        const size_t room[] = {sizeof g->optimizer, sizeof g->loss, sizeof g->name};
        int i = 0;
        while (i < 3 && strcmp(names[i], name) != 0)
            i++;
        if (i == 3)
            return no_field(x, "word", name);
        if (strlen(word) >= room[i])
            SW_FAIL(SW_INVALID, "%s must be of at most %zu bytes (got %zu)", name, room[i] - 1,
                    strlen(word));
        snprintf(had, sizeof had, "%s", at[i]);
        snprintf(at[i], room[i], "%s", word);
        g->momentum = swi_has_momentum(g->optimizer) ? g->momentum : 0;
    } else {
        if (x != NULL && (!swi_vertex_has_field(x, name) ||
                          (!update && !kind && strcmp(name, "activation") != 0)))
            return no_field(x, "word", name);
        const sw_update_time now = x != NULL ? swi_vertex_update(g, x) : g->update;
        snprintf(had, sizeof had, "%s",
                 kind     ? sw_vertex_kind_name(x->kind)
                 : update ? (now == SW_UPDATE_AFTER ? "after" : "release")
                          : swi_activation_name(x->activation));
        if (!update)
            SW_TRY(allows(g, v, kind ? SW_SHIELD_KERNEL : SW_SHIELD_ACTIVATION));
        SW_TRY(update ? set_update(x != NULL ? &x->update : &g->update, word)
               : kind ? set_kind(x, word)
                      : set_activation(x, word));
    }
    note->exact = x == NULL || update;
    if (strcmp(had, word) != 0)
        swi_edit_note(note, x != NULL ? x->name : "", "%s %s to %.40s", name, had, word);
    return SW_OK;
}

/* ---- calls ------------------------------------------------------------------------------- */

static sw_status check_vertex(const sw_genome *g, uint32_t v, const char *call)
{
    if (v >= g->n)
        SW_FAIL(SW_INVALID, "%s: the genome has %u vertices (got %u)", call, g->n, v);
    return SW_OK;
}

/* A call edits a copy. Where a mutation's callback makes the call, the mutation's bounds and
 * utilities hold. */
static sw_status edit_begin(swi_child *c, sw_genome *g, uint32_t v, const char *call)
{
    static const sw_mutate_opts bounds = {.max_vertices = SWI_MAX_VERTICES,
                                          .max_size = SWI_MAX_UNITS};
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, call));
    SW_TRY(check_vertex(g, v, call));
    *c = (swi_child){.opts = &bounds, .before = g};
    if (g->editor != NULL) {
        c->opts = g->editor->opts;
        memcpy(c->parents, g->editor->parents, sizeof c->parents);
    }
    return sw_genome_copy(&c->genome, g);
}

/* The copy is the genome if the edit returned SW_OK and it is valid. */
static sw_status edit_end(swi_child *c, sw_genome *g, sw_status status,
                          const swi_change_note *note)
{
    if (status == SW_OK)
        status = swi_genome_check(c->genome, NULL);
    if (status == SW_OK) {
        const sw_genome was = *g;
        const sw_handle handle = c->genome->handle;
        *g = *c->genome;
        g->handle = was.handle;
        g->editor = was.editor;
        *c->genome = was;
        c->genome->handle = handle;
        if (g->editor != NULL && note->text[0] != '\0')
            swi_child_note(g->editor, note);
    }
    swi_genome_free(c->genome);
    c->before = NULL; /* the caller's */
    swi_child_end(c);
    return status;
}

/* Return the status of `edit` on a copy, `c`, of genome g, which has vertex v. */
#define EDIT(g, v, edit)                                                                       \
    do {                                                                                       \
        swi_child c;                                                                           \
        swi_change_note note = {.text = ""};                                                   \
        SW_TRY(edit_begin(&c, g, v, __func__));                                                \
        return edit_end(&c, g, edit, &note);                                                   \
    } while (0)

static sw_status read_vertex(sw_genome *g, const sw_vertex *given, swi_vertex *v,
                             const char *call)
{
    sw_vertex from;
    SW_TRY(swi_given(given != NULL, "vertex", call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_vertex, &from, given, call));
    *v = swi_vertex_of(from.kind);
    if (from.n_inputs < 1 || from.n_inputs > SWI_MAX_INPUTS || from.inputs == NULL)
        SW_FAIL(SW_INVALID, "%s: n_inputs must be 1 to %d, and inputs not NULL (got %d)", call,
                SWI_MAX_INPUTS, from.n_inputs);
    for (int i = 0; i < from.n_inputs; i++) {
        SW_TRY(check_vertex(g, from.inputs[i], call));
        v->in[v->n_in++] = from.inputs[i];
    }
    if (from.name == NULL)
        swi_genome_fresh_name(g, v->name);
    else if (strlen(from.name) < SWI_VERTEX_NAME)
        snprintf(v->name, sizeof v->name, "%s", from.name);
    else
        SW_FAIL(SW_INVALID, "%s: a name must be of at most %d bytes (got %zu)", call,
                SWI_VERTEX_NAME - 1, strlen(from.name));
    const int64_t reads = g->vertices[v->in[0]].channels;
    if (v->kind == SW_VERTEX_ACTIVATION)
        SW_TRY(set_activation(v, from.activation != NULL ? from.activation : ""));
    if (v->kind == SW_VERTEX_CONV2D) {
        v->dilation = from.dilation != 0 ? from.dilation : 1;
        v->groups = from.groups;
        if (v->groups == 0 && from.channels != 0 && from.channels != reads)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': groups 0 is depthwise, with the %lld channels that it reads: "
                    "for %lld channels groups must be 1 or more",
                    v->name, (long long)reads, (long long)from.channels);
    }
    v->kernel = from.kernel != 0 ? from.kernel : 1;
    v->stride = from.stride != 0 ? from.stride : 1;
    v->rate = from.rate;
    v->update = from.update;
    v->identity = from.identity != 0;
    v->shield = from.shield;
    v->size = from.channels != 0 ? from.channels : reads;
    return SW_OK;
}

static sw_status add_given(swi_child *c, const sw_vertex *given, uint32_t reader, uint32_t *at,
                           swi_change_note *note, const char *call)
{
    swi_vertex v;
    uint32_t after = 0;
    SW_TRY(read_vertex(c->genome, given, &v, call));
    for (uint32_t i = 0; i < v.n_in; i++)
        after = v.in[i] > after ? v.in[i] : after;
    SW_TRY(swi_edit_add(c, &v, after + 1, reader, UINT32_MAX, note));
    SW_TRY(swi_genome_check(c->genome, NULL));
    if (at != NULL)
        *at = after + 1;
    return SW_OK;
}

sw_status sw_genome_add_vertex(sw_genome *g, const sw_vertex *vertex, uint32_t reader,
                               uint32_t *at)
{
    EDIT(g, reader == UINT32_MAX ? 0 : reader,
         add_given(&c, vertex, reader, at, &note, __func__));
}

sw_status sw_genome_remove_vertex(sw_genome *g, uint32_t vertex, uint32_t input)
{
    EDIT(g, vertex, swi_edit_remove(&c, vertex, input, &note));
}

sw_status sw_genome_rewire(sw_genome *g, uint32_t vertex, uint32_t input, uint32_t to)
{
    EDIT(g, vertex, swi_edit_rewire(&c, vertex, input, to, &note));
}

sw_status sw_genome_resize(sw_genome *g, uint32_t vertex, int64_t size)
{
    EDIT(g, vertex, swi_edit_resize(&c, vertex, size, &note));
}

sw_status sw_genome_set_number(sw_genome *g, uint32_t vertex, const char *name, double value)
{
    SW_TRY(swi_given(name != NULL, "name", __func__));
    EDIT(g, vertex == UINT32_MAX ? 0 : vertex, swi_edit_number(&c, vertex, name, value, &note));
}

sw_status sw_genome_set_word(sw_genome *g, uint32_t vertex, const char *name, const char *word)
{
    SW_TRY(swi_given(name != NULL && word != NULL, "name and word", __func__));
    EDIT(g, vertex == UINT32_MAX ? 0 : vertex, swi_edit_word(&c, vertex, name, word, &note));
}
