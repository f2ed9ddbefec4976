/* The promises of a valid genome; names, hash, and the public view. */
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/population/evolve/genome_internal.h"
#include <math.h>
#include <stdio.h>

/* ---- the graph --------------------------------------------------------------------------- */

static sw_status check_names(const sw_genome *g, uint32_t *bad)
{
    swi_names table;
    swi_names_begin(&table, g->n);
    *bad = 0;
    if (strcmp(g->vertices[0].name, "input") != 0)
        SW_FAIL(SW_INVALID, "vertex 0: the name of the input must be 'input' (got '%.40s')",
                g->vertices[0].name);
    for (uint32_t i = 0; i < g->n; i++) {
        const char *name = g->vertices[i].name;
        *bad = i;
        if (!swi_name_is_one(name, SWI_VERTEX_NAME, false))
            SW_FAIL(SW_INVALID,
                    "vertex %u: its name must be of 1 to %d letters, digits, '_' "
                    "and '-' (got '%.40s')",
                    i, SWI_VERTEX_NAME - 1, name);
        if (strcmp(name, "stepwell") == 0)
            SW_FAIL(SW_INVALID, "vertex %u: the name 'stepwell' is the library's own in files",
                    i);
        uint16_t *slot = swi_names_slot(&table, g, name);
        if (*slot != 0)
            SW_FAIL(SW_INVALID, "vertex '%s': vertices %d and %u have the same name", name,
                    *slot - 1, i);
        *slot = (uint16_t)(i + 1);
    }
    return SW_OK;
}

static sw_status check_read(const sw_genome *g, uint32_t *bad)
{
    bool read[SWI_MAX_VERTICES];
    const swi_vertex *last = &g->vertices[g->n - 1];
    memset(read, 0, g->n);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            read[g->vertices[i].in[k]] = true;
    for (uint32_t i = 0; i + 1 < g->n; i++) {
        *bad = i;
        if (!read[i])
            SW_FAIL(SW_INVALID,
                    "vertex '%s': no vertex reads it, and only the last one "
                    "('%s') gives the logits",
                    g->vertices[i].name, last->name);
    }
    *bad = g->n - 1;
    if (last->kind == SW_VERTEX_INPUT || last->height != 0)
        SW_FAIL(SW_INVALID,
                "vertex '%s': the last vertex gives the logits: it must be a "
                "vector, and not the input",
                last->name);
    return SW_OK;
}

/* There is something to train. */
static sw_status check_parameters(const sw_genome *g, uint32_t *bad)
{
    *bad = g->n - 1;
    for (uint32_t i = 0; i < g->n; i++)
        if (swi_vertex_has_parameters(&g->vertices[i]))
            return SW_OK;
    SW_FAIL(SW_INVALID,
            "vertex '%s': a genome must have a vertex with parameters: a linear, conv2d or "
            "batch_norm",
            g->vertices[g->n - 1].name);
}

/* The statistics of a batch are of two numbers at least. */
static sw_status check_norms(const sw_genome *g, uint32_t *bad)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        *bad = i;
        if (v->kind == SW_VERTEX_BATCH_NORM && g->batch * v->height * v->width < 2)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': batch_norm needs two numbers of each channel at least, and a "
                    "batch of 1 with images of 1 x 1 has one",
                    v->name);
    }
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

static const swi_optimizer_kind *find_optimizer(const char *name)
{
    static const swi_optimizer_kind *const kinds[] = {
#define SW_OPTIMIZER(kind, states, operations) &swi_##kind,
#define SW_OPTIMIZER_LIKE(kind) &swi_##kind,
#define SW_OPTIMIZER_WHOLE(kind) &swi_##kind,
#include "kernels/optimizers.def"
    };
    for (size_t i = 0; i < SWI_COUNT(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

static sw_status check_optimizer(const sw_genome *g)
{
    const swi_optimizer_kind *kind = find_optimizer(g->optimizer);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = g->optimizer, .lr = g->lr, .momentum = g->momentum,
                .weight_decay = g->weight_decay);
    if (kind == NULL)
        SW_FAIL(SW_INVALID, "'%s' is no optimizer", g->optimizer);
    SW_TRY(swi_check_optimizer(&opts, kind));
    if (!(g->lr > 0))
        SW_FAIL(SW_INVALID, "optimizer %s: lr must be above 0 (got %g)", g->optimizer,
                (double)g->lr);
    if (!isfinite(g->clip) || g->clip < 0 || !isfinite(g->clip_norm) || g->clip_norm < 0)
        SW_FAIL(SW_INVALID,
                "optimizer %s: clip and clip_norm must be finite and at least 0 "
                "(got %g and %g)",
                g->optimizer, (double)g->clip, (double)g->clip_norm);
    if (g->update != SW_UPDATE_RELEASE && g->update != SW_UPDATE_AFTER)
        SW_FAIL(SW_INVALID, "optimizer %s: update must be release or after", g->optimizer);
    return SW_OK;
}

/* The norm of all gradients is known when all are there: no update may be before that. */
static sw_status check_updates(const sw_genome *g, uint32_t *bad)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const swi_vertex *v = &g->vertices[i];
        *bad = i;
        if (!swi_vertex_has_parameters(v))
            continue;
        if ((unsigned)v->update > SW_UPDATE_RELEASE)
            SW_FAIL(SW_INVALID, "vertex '%s': update %d is none", v->name, (int)v->update);
        if (g->clip_norm > 0 && swi_vertex_update(g, v) == SW_UPDATE_RELEASE)
            SW_FAIL(SW_INVALID,
                    "vertex '%s': its update is released during backward, and "
                    "clip_norm %g needs all gradients first: let its update be after, or use "
                    "clip, which bounds each gradient by itself",
                    v->name, (double)g->clip_norm);
    }
    return SW_OK;
}

static sw_status check_name(const sw_genome *g)
{
    if (g->name[0] != '\0' && !swi_name_is_one(g->name, SWI_GENOME_NAME, true))
        SW_FAIL(SW_INVALID,
                "the name of a genome must be of at most %d letters, digits, '_', "
                "'-' and '.' (got '%.60s')",
                SWI_GENOME_NAME - 1, g->name);
    return SW_OK;
}

static sw_status check_batch(const sw_genome *g)
{
    if (g->batch < 1 || g->batch > SWI_MAX_BATCH)
        SW_FAIL(SW_INVALID, "batch must be 1 to %d (got %lld)", SWI_MAX_BATCH,
                (long long)g->batch);
    return SW_OK;
}

static sw_status check_loss(const sw_genome *g)
{
    if (!swi_name_is_one(g->loss, sizeof g->loss, false))
        SW_FAIL(SW_INVALID,
                "the name of a loss must be of 1 to %d letters, digits, '_' and "
                "'-' (got '%.40s')",
                (int)sizeof g->loss - 1, g->loss);
    if (!(g->smoothing >= 0 && g->smoothing < 1))
        SW_FAIL(SW_INVALID, "smoothing must be at least 0 and below 1 (got %g)",
                (double)g->smoothing);
    if (g->smoothing > 0 && strcmp(g->loss, "cross_entropy") != 0)
        SW_FAIL(SW_INVALID, "smoothing is cross_entropy's, and the loss is '%s'", g->loss);
    return SW_OK;
}

sw_status swi_genome_check_part(const sw_genome *g, swi_genome_part part)
{
    return part == SWI_PART_NAME        ? check_name(g)
           : part == SWI_PART_OPTIMIZER ? check_optimizer(g)
           : part == SWI_PART_BATCH     ? check_batch(g)
                                        : check_loss(g);
}

sw_status swi_genome_check(sw_genome *g, uint32_t *bad)
{
    uint32_t none;
    bad = bad != NULL ? bad : &none;
    *bad = UINT32_MAX;
    if (g->n < 1 || g->n > SWI_MAX_VERTICES)
        SW_FAIL(SW_INVALID, "a genome must have 1 to %d vertices (got %u)", SWI_MAX_VERTICES,
                g->n);
    SW_TRY(check_names(g, bad));
    SW_TRY(swi_genome_infer(g, bad));
    for (uint32_t i = 0; i < g->n; i++) {
        *bad = i;
        if ((g->vertices[i].shield & ~SW_SHIELD_ALL) != 0)
            SW_FAIL(SW_INVALID, "vertex '%s': shield %u is none", g->vertices[i].name,
                    g->vertices[i].shield);
    }
    SW_TRY(check_read(g, bad));
    SW_TRY(check_parameters(g, bad));
    *bad = UINT32_MAX;
    for (swi_genome_part part = SWI_PART_NAME; part < SWI_PARTS; part++)
        SW_TRY(swi_genome_check_part(g, part));
    SW_TRY(check_updates(g, bad));
    SW_TRY(check_norms(g, bad));
    *bad = UINT32_MAX;
    return SW_OK;
}

/* ---- names ------------------------------------------------------------------------------- */

uint32_t swi_genome_find(const sw_genome *g, const char *name)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (strcmp(g->vertices[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* Of "v" and up to 9 digits; 0: it is another name. */
static uint32_t number_of(const char *name)
{
    uint32_t x = 0;
    if (name[0] != 'v' || name[1] == '\0' || strlen(name) > 10)
        return 0;
    for (const char *c = name + 1; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return 0;
        x = x * 10 + (uint32_t)(*c - '0');
    }
    return x;
}

void swi_genome_fresh_name(sw_genome *g, char name[SWI_VERTEX_NAME])
{
    uint32_t x = g->next;
    for (uint32_t i = 0; i < g->n; i++) {
        const uint32_t there = number_of(g->vertices[i].name);
        x = there >= x ? there + 1 : x;
    }
    x = x > 0 ? x : 1;
    do
        snprintf(name, SWI_VERTEX_NAME, "v%u", x++);
    while (swi_genome_find(g, name) != UINT32_MAX);
    g->next = x;
}
