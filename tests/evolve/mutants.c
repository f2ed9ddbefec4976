/* See mutants.h. */
#include "tests/evolve/mutants.h"

sw_genome *mutant_base(const char *input, const char *vertices)
{
    char text[8192];
    snprintf(text, sizeof text,
             "{\"format\": \"stepwell genome 1\",\n \"input\": %s,\n"
             " \"optimizer\": {\"kind\": \"adam\", \"lr\": 0.01, \"update\": \"release\"},\n"
             " \"batch\": 64,\n \"loss\": {\"kind\": \"cross_entropy\"},\n"
             " \"vertices\": [\n%s\n ]\n}\n",
             input, vertices);
    return genome_of(text);
}

void mutant_note(const sw_mutation_record *record, void *notes)
{
    mutant_notes *n = notes;
    CU_ASSERT_EQUAL(record->size, sizeof *record);
    CU_ASSERT(record->text != NULL && record->text[0] != '\0');
    if (n->n == 0)
        n->all_exact = true;
    n->all_exact = n->all_exact && record->exact;
    if (n->n < MUTANT_NOTES) {
        n->list[n->n].kind = record->kind;
        n->list[n->n].exact = record->exact;
        snprintf(n->list[n->n].vertex, SWI_VERTEX_NAME, "%s",
                 record->vertex != NULL ? record->vertex : "");
        snprintf(n->list[n->n].text, sizeof n->list->text, "%s", record->text);
    }
    n->n++;
}

static int is_named(const sw_genome *g, uint32_t vertex, void *user)
{
    return strcmp(g->vertices[vertex].name, user) == 0;
}

sw_genome *mutant_of(const sw_genome *parent, sw_mutation_kind kind, const char *vertex,
                     double low, double high, uint64_t seed, mutant_notes *notes)
{
    char name[SWI_VERTEX_NAME] = "";
    if (vertex != NULL)
        snprintf(name, sizeof name, "%s", vertex);
    const sw_mutation one = SW_INIT(.kind = kind, .probability = 1, .low = low, .high = high,
                                    .filter = vertex != NULL ? is_named : NULL, .user = name);
    const sw_mutate_opts opts =
        SW_OPTS(sw_mutate_opts, .mutations = &one, .n_mutations = 1, .seed = seed,
                .record = notes != NULL ? mutant_note : NULL, .record_user = notes);
    sw_genome *child = NULL;
    if (notes != NULL)
        *notes = (mutant_notes){.all_exact = true};
    if (!OK(sw_genome_mutate(&child, parent, &opts)))
        return NULL;
    AFTER(sw_genome_destroy, child);
    return child;
}

const swi_vertex *mutant_vertex(const sw_genome *g, const char *name)
{
    const uint32_t i = swi_genome_find(g, name);
    return i != UINT32_MAX ? &g->vertices[i] : NULL;
}

/* ---- soundness --------------------------------------------------------------------------- */

/* Each is SWI_NEW or below `n`, and none is there twice. */
static bool are_origins(const int32_t *list, uint32_t n_list, int64_t want, int64_t n)
{
    static bool seen[SWI_MAX_UNITS];
    bool sound = list != NULL && n_list == want;
    for (uint32_t i = 0; sound && i < n_list; i++) {
        sound = list[i] == SWI_NEW || (list[i] >= 0 && list[i] < n && !seen[list[i]]);
        if (sound && list[i] >= 0)
            seen[list[i]] = true;
    }
    for (uint32_t i = 0; list != NULL && i < n_list; i++)
        if (list[i] >= 0 && list[i] < n)
            seen[list[i]] = false;
    return sound;
}

static bool descends(const sw_genome *g, const swi_vertex *v, const sw_genome *const parents[2])
{
    if (v->parent == SWI_NO_PARENT)
        return v->rows == NULL && v->cols == NULL;
    if (v->parent > 1 || parents[v->parent] == NULL || v->was >= parents[v->parent]->n)
        return false;
    const sw_genome *p = parents[v->parent];
    const swi_vertex *was = &p->vertices[v->was];
    if (swi_vertex_has_parameters(v) &&
        (was->kind != v->kind || !are_origins(v->rows, v->n_rows, v->channels, was->channels)))
        return false;
    return !swi_vertex_is_sized(v) ||
           are_origins(v->cols, v->n_cols, swi_vertex_reads(g, v), swi_vertex_reads(p, was));
}

static bool prints_and_parses(const sw_genome *g)
{
    char *text = NULL;
    size_t bytes = 0;
    sw_genome *again = NULL;
    bool same = sw_genome_print(g, &text, &bytes) == SW_OK &&
                sw_genome_parse(&again, text, bytes, "a child") == SW_OK &&
                swi_genome_hash(again) == swi_genome_hash(g);
    sw_genome_destroy(again);
    sw_text_free(text, bytes);
    return same;
}

bool mutant_is_sound(sw_genome *child, const sw_genome *a, const sw_genome *b)
{
    const sw_genome *parents[2] = {a, b};
    uint32_t bad;
    if (!SW_CHECK(swi_genome_check(child, &bad) == SW_OK, "%s", sw_last_error()) ||
        !SW_CHECK(prints_and_parses(child), "%s", sw_last_error()))
        return false;
    for (uint32_t i = 0; i < child->n; i++) {
        const swi_vertex *v = &child->vertices[i];
        for (uint32_t k = 0; k < v->n_in; k++)
            if (!SW_CHECK(v->in[k] < i, "'%s' is read before it is there", v->name))
                return false;
        for (uint32_t k = 0; k < i; k++)
            if (!SW_CHECK(strcmp(v->name, child->vertices[k].name) != 0, "'%s' is there twice",
                          v->name))
                return false;
        if (!SW_CHECK(!swi_vertex_is_sized(v) || v->size >= 1, "'%s' is empty", v->name) ||
            !SW_CHECK(descends(child, v, parents), "'%s' does not descend right", v->name))
            return false;
    }
    return SW_CHECK(child->n_parents == (b != NULL ? 2u : 1u), "%u parents",
                    child->n_parents) &&
           SW_CHECK(child->parents[0] == swi_genome_hash(a), "another parent");
}

/* ---- shields ----------------------------------------------------------------------------- */

static bool reads_the_same(const sw_genome *g, const swi_vertex *v, const sw_genome *a,
                           const swi_vertex *was)
{
    bool same = v->n_in == was->n_in;
    for (uint32_t k = 0; same && k < v->n_in; k++)
        same = strcmp(g->vertices[v->in[k]].name, a->vertices[was->in[k]].name) == 0;
    return same;
}

/* Everyone who read `was` reads v, and no one else does. */
static bool is_read_by_the_same(const sw_genome *g, const swi_vertex *v, const sw_genome *a,
                                const swi_vertex *was)
{
    uint32_t list[256];
    const uint32_t n = swi_vertex_readers(a, (uint32_t)(was - a->vertices), list, 256);
    bool same = n == swi_vertex_readers(g, (uint32_t)(v - g->vertices), NULL, 0);
    for (uint32_t i = 0; same && i < n; i++) {
        const swi_vertex *reader = mutant_vertex(g, a->vertices[list[i]].name);
        same = false;
        for (uint32_t k = 0; reader != NULL && k < reader->n_in; k++)
            same = same || &g->vertices[reader->in[k]] == v;
    }
    return same;
}

static bool keeps(const sw_genome *g, const sw_genome *a, const swi_vertex *was)
{
    const swi_vertex *v = mutant_vertex(g, was->name);
    const uint32_t s = was->shield;
    if (v == NULL)
        return (s & SW_SHIELD_REMOVE) == 0;
    return v->shield == s && ((s & SW_SHIELD_SIZE) == 0 || v->size == was->size) &&
           ((s & SW_SHIELD_KERNEL) == 0 ||
            (v->kernel == was->kernel && v->kind == was->kind)) &&
           ((s & SW_SHIELD_ACTIVATION) == 0 || v->activation == was->activation) &&
           ((s & SW_SHIELD_INPUTS) == 0 || reads_the_same(g, v, a, was)) &&
           ((s & SW_SHIELD_OUTPUTS) == 0 || is_read_by_the_same(g, v, a, was));
}

bool mutant_keeps_shields(const sw_genome *child, const sw_genome *a)
{
    bool all = true;
    for (uint32_t i = 0; i < a->n; i++)
        all = SW_CHECK(keeps(child, a, &a->vertices[i]), "the shield of '%s' did not hold",
                       a->vertices[i].name) &&
              all;
    return all;
}
