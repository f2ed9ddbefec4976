/* Genomes as graphs: copies, edits, order, lineage, names, and what these cost; as texts: read,
 * written, saved. */
#include "alloc/base/sys.h"
#include "tests/evolve/genome_texts.h"
#include "tests/support/heap_sweep.h"
#include "kernels/rng.h"

SW_TESTS("genome")

/* A copy is the same genome, with its own lineage, and lives without the first one. */
SW_TEST("copies stand alone")
{
    sw_genome *g = genome_of(genome_text), *copy = NULL, *second = NULL;
    const uint64_t hash = swi_genome_hash(g);
    OK(sw_genome_copy(&copy, g));
    CU_ASSERT_FATAL(copy != NULL);
    OK(swi_genome_begin_lineage(copy));
    OK(sw_genome_copy(&second, copy));
    sw_genome_destroy(copy);
    CU_ASSERT_FATAL(second != NULL);
    AFTER(sw_genome_destroy, second);
    CU_ASSERT_EQUAL(swi_genome_hash(second), hash);
    CU_ASSERT_EQUAL(second->n_parents, 1);
    CU_ASSERT_EQUAL(second->parents[0], hash);
    CU_ASSERT_EQUAL(g->n_parents, 0);
    for (uint32_t i = 0; i < second->n; i++) {
        const swi_vertex *v = &second->vertices[i];
        CU_ASSERT_EQUAL(v->parent, 0);
        CU_ASSERT_EQUAL(v->was, i);
        CU_ASSERT_EQUAL(v->rows != NULL, swi_vertex_has_parameters(v));
        CU_ASSERT_EQUAL(v->cols != NULL, swi_vertex_is_sized(v));
        CU_ASSERT_EQUAL(v->n_rows, v->rows != NULL ? v->channels : 0);
        CU_ASSERT_EQUAL(v->n_cols, v->cols != NULL ? swi_vertex_reads(second, v) : 0);
        for (uint32_t k = 0; k < v->n_rows; k++)
            CU_ASSERT_EQUAL(v->rows[k], (int32_t)k);
        for (uint32_t k = 0; k < v->n_cols; k++)
            CU_ASSERT_EQUAL(v->cols[k], (int32_t)k);
        CU_ASSERT_PTR_NULL(g->vertices[i].rows);
    }
    swi_genome_forget(second);
    CU_ASSERT_EQUAL(second->n_parents, 0);
    CU_ASSERT_EQUAL(second->vertices[1].parent, SWI_NO_PARENT);
    CU_ASSERT_PTR_NULL(second->vertices[1].rows);
}

/* Lineage taken from a genome with another one takes the place of that, whatever sizes were. */
SW_TEST("lineage begins anew")
{
    sw_genome *g = genome_chain(20);
    OK(swi_genome_begin_lineage(g));
    const uint64_t first = g->parents[0];
    for (uint32_t i = 1; i + 1 < g->n; i++)
        if (swi_vertex_is_sized(&g->vertices[i]))
            g->vertices[i].size = 11;
    OK(swi_genome_check(g, NULL));
    OK(swi_genome_begin_lineage(g));
    CU_ASSERT_NOT_EQUAL(g->parents[0], first);
    CU_ASSERT_EQUAL(g->vertices[1].n_rows, 11);
    CU_ASSERT_EQUAL(g->vertices[5].n_cols, 11);
    CU_ASSERT_EQUAL(g->vertices[5].cols[10], 10);
}

/* Who reads whom, by name: what edits must keep. */
typedef struct {
    char name[64][SWI_VERTEX_NAME], in[64][4][SWI_VERTEX_NAME];
    uint32_t n_in[64], n;
} edges;

static void note_edges(edges *e, const sw_genome *g)
{
    memset(e, 0, sizeof *e);
    e->n = g->n;
    for (uint32_t i = 0; i < g->n; i++) {
        memcpy(e->name[i], g->vertices[i].name, SWI_VERTEX_NAME);
        e->n_in[i] = g->vertices[i].n_in;
        for (uint32_t k = 0; k < e->n_in[i]; k++)
            memcpy(e->in[i][k], g->vertices[g->vertices[i].in[k]].name, SWI_VERTEX_NAME);
    }
}

/* Every vertex of `e` but `gone` is in g and reads the same names. */
static bool same_edges(const edges *e, const sw_genome *g, const char *gone)
{
    for (uint32_t i = 0; i < e->n; i++) {
        const uint32_t at = swi_genome_find(g, e->name[i]);
        if (strcmp(e->name[i], gone) == 0) {
            if (at != UINT32_MAX)
                return false;
            continue;
        }
        if (at == UINT32_MAX || g->vertices[at].n_in != e->n_in[i])
            return false;
        for (uint32_t k = 0; k < e->n_in[i]; k++)
            if (strcmp(g->vertices[g->vertices[at].in[k]].name, e->in[i][k]) != 0)
                return false;
    }
    return true;
}

/* Insertions and removals at any place leave all other edges as they are, by name. */
SW_TEST("edits keep the other edges")
{
    swi_draws d = swi_draws_of(3, 9);
    sw_genome *g = genome_chain(30);
    edges before;
    for (int round = 0; round < 2000; round++) {
        note_edges(&before, g);
        if (g->n < 50 && swi_draw_happens(&d, 0.55)) {
            const uint32_t at = 1 + swi_draw_below(&d, g->n);
            swi_vertex v = swi_vertex_of(SW_VERTEX_DROPOUT);
            v.in[0] = swi_draw_below(&d, at);
            v.n_in = 1;
            swi_genome_fresh_name(g, v.name);
            CU_ASSERT_EQUAL(swi_genome_find(g, v.name), UINT32_MAX);
            OK(swi_genome_insert(g, at, &v));
            CU_ASSERT_STRING_EQUAL(g->vertices[at].name, v.name);
            CU_ASSERT_EQUAL(g->vertices[at].in[0], v.in[0]);
            CU_ASSERT_FATAL(same_edges(&before, g, "-"));
        } else {
            const uint32_t i = 1 + swi_draw_below(&d, g->n - 1);
            if (swi_vertex_readers(g, i, NULL, 0) > 0 || g->n < 10)
                continue;
            swi_genome_remove(g, i);
            CU_ASSERT_FATAL(same_edges(&before, g, before.name[i]));
        }
    }
}

/* Who reads a vertex: counted once each, cut at the room. */
SW_TEST("readers are counted once")
{
    sw_genome *g = genome_of(genome_text);
    uint32_t out[4] = {99, 99, 99, 99};
    CU_ASSERT_EQUAL(swi_vertex_readers(g, swi_genome_find(g, "join"), out, 2), 3);
    CU_ASSERT_EQUAL(out[0], swi_genome_find(g, "gap"));
    CU_ASSERT_EQUAL(out[1], swi_genome_find(g, "gmp"));
    CU_ASSERT_EQUAL(out[2], 99);
    const uint32_t all = swi_genome_find(g, "all");
    swi_genome_redirect(g, swi_genome_find(g, "gap"), swi_genome_find(g, "gmp"));
    CU_ASSERT_EQUAL(g->vertices[all].in[0], swi_genome_find(g, "gmp"));
    CU_ASSERT_EQUAL(swi_vertex_readers(g, swi_genome_find(g, "gmp"), out, 4), 1);
    CU_ASSERT_EQUAL(swi_vertex_readers(g, swi_genome_find(g, "gap"), out, 4), 0);
}

/* Who reads a vertex that is not before it is no genome, and so there is no cycle. */
SW_TEST("cycles are refused")
{
    sw_genome *g = genome_chain(20);
    g->vertices[3].in[0] = 7;
    const uint64_t hash = swi_genome_hash(g);
    REFUSED(swi_genome_check(g, NULL), SW_INVALID, "before it");
    CU_ASSERT_EQUAL(swi_genome_hash(g), hash);
    g->vertices[3].in[0] = g->n - 1; /* the logits, which all others lead to */
    REFUSED(swi_genome_check(g, NULL), SW_INVALID, "before it");
}

/* New names are above all of their kind, and taken from the text alone. */
SW_TEST("new names are new")
{
    sw_genome *g = genome_chain(10);
    char name[SWI_VERTEX_NAME], again[SWI_VERTEX_NAME];
    snprintf(g->vertices[2].name, SWI_VERTEX_NAME, "v41");
    snprintf(g->vertices[3].name, SWI_VERTEX_NAME, "v999x");
    swi_genome_fresh_name(g, name);
    CU_ASSERT_STRING_EQUAL(name, "v42");
    swi_genome_fresh_name(g, name);
    CU_ASSERT_STRING_EQUAL(name, "v43"); /* though none has v42 yet */
    sw_genome *read = genome_of(genome_print(g));
    OK(swi_genome_begin_lineage(g));
    OK(swi_genome_begin_lineage(read));
    swi_genome_fresh_name(g, name);
    swi_genome_fresh_name(read, again);
    CU_ASSERT_STRING_EQUAL(name, "v42");
    CU_ASSERT_STRING_EQUAL(name, again);
    snprintf(g->vertices[4].name, SWI_VERTEX_NAME, "v999999999");
    swi_genome_fresh_name(g, name);
    CU_ASSERT_STRING_EQUAL(name, "v1000000000");
    snprintf(g->vertices[5].name, SWI_VERTEX_NAME, "%s", name);
    OK(swi_genome_begin_lineage(g));
    swi_genome_fresh_name(g, name);
    CU_ASSERT_STRING_EQUAL(name, "v1000000001");
}

/* The work of a mutation beside its own, for 100 vertices: a copy with lineage, shapes and a
 * hash. A bound with room for a slow machine; the note says what it is. */
SW_TEST("a child costs microseconds")
{
    sw_genome *g = genome_chain(100);
    double least = 1;
    for (int round = 0; round < 200; round++) {
        sw_genome *child = NULL;
        const uint64_t began = sw_clock_ns();
        OK(sw_genome_copy(&child, g));
        OK(swi_genome_begin_lineage(child));
        OK(swi_genome_check(child, NULL));
        const uint64_t hash = swi_genome_hash(child);
        sw_genome_destroy(child);
        const double took = (double)(sw_clock_ns() - began) * 1e-9;
        least = took < least ? took : least;
        CU_ASSERT_EQUAL(hash, swi_genome_hash(g));
    }
    sw_note("copy, lineage, check, hash and end of 100 vertices: %.1f us", least * 1e6);
    CU_ASSERT(least < 1e-3);
}

/* A printed genome reads back as the same genome, and prints as the same bytes. */
SW_TEST("print is a fixed point")
{
    sw_genome *g = genome_of(genome_text);
    const char *text = genome_print(g);
    CU_ASSERT_STRING_EQUAL(text, genome_text);
    sw_genome *again = genome_of(text);
    CU_ASSERT_EQUAL(swi_genome_hash(again), swi_genome_hash(g));
    CU_ASSERT_STRING_EQUAL(genome_print(again), text);
}

SW_TEST("shapes and parameters are those of the layers")
{
    static const struct {
        const char *name;
        int64_t channels, height;
        uint64_t parameters;
    } wants[] = {{"input", 1, 28, 0},
                 {"conv1", 16, 28, 16 * 9 + 16},
                 {"norm1", 16, 28, 32},
                 {"act1", 16, 28, 0},
                 {"pool1", 16, 14, 0},
                 {"a", 16, 14, 16 * 4 * 9 + 16},
                 {"sum", 16, 14, 0},
                 {"b", 16, 7, 16 * 25 + 16},
                 {"c", 16, 7, 0},
                 {"join", 32, 7, 0},
                 {"gap", 32, 0, 0},
                 {"gmp", 32, 0, 0},
                 {"flat", 32 * 49, 0, 0},
                 {"all", 64 + 32 * 49, 0, 0},
                 {"drop", 64 + 32 * 49, 0, 0},
                 {"out", 10, 0, 10 * (64 + 32 * 49) + 10}};
    sw_genome *g = genome_of(genome_text);
    sw_genome_info info = SW_OPTS(sw_genome_info);
    uint64_t sum = 0;
    OK(sw_genome_describe(g, &info));
    CU_ASSERT_EQUAL_FATAL(info.n_vertices, sizeof wants / sizeof *wants);
    for (uint32_t i = 0; i < info.n_vertices; i++) {
        sw_vertex v = SW_OPTS(sw_vertex);
        OK(sw_genome_vertex(g, i, &v));
        CU_ASSERT_STRING_EQUAL(v.name, wants[i].name);
        CU_ASSERT_EQUAL(v.channels, wants[i].channels);
        CU_ASSERT_EQUAL(v.height, wants[i].height);
        CU_ASSERT_EQUAL(v.width, wants[i].height);
        CU_ASSERT_EQUAL(v.parameters, wants[i].parameters);
        sum += wants[i].parameters;
    }
    CU_ASSERT_EQUAL(info.parameters, sum);
    CU_ASSERT_EQUAL(info.classes, 10);
    CU_ASSERT_EQUAL(info.n_edges, 19);
    CU_ASSERT_STRING_EQUAL(info.name, "g3-17");
    CU_ASSERT_EQUAL(info.lr, 0.001f);
}

SW_TEST("floats read back bit for bit")
{
    sw_genome *g = genome_of(genome_text);
    swi_draws d = swi_draws_of(5, 1);
    for (int i = 0; i < 2000; i++) {
        uint32_t bits = (uint32_t)swi_draw_bits(&d) & 0x7fffffff;
        memcpy(&g->lr, &bits, sizeof bits);
        if (!isfinite(g->lr) || g->lr == 0)
            continue;
        g->clip = (float)swi_draw_range(&d, 0, 9);
        char *text;
        size_t bytes;
        sw_genome *again = NULL;
        OK(sw_genome_print(g, &text, &bytes));
        OK(sw_genome_parse(&again, text, bytes, "a text"));
        CU_ASSERT_FATAL(again != NULL);
        CU_ASSERT_EQUAL(memcmp(&again->lr, &g->lr, sizeof bits), 0);
        CU_ASSERT_EQUAL(memcmp(&again->clip, &g->clip, sizeof bits), 0);
        sw_genome_destroy(again);
        sw_text_free(text, bytes);
    }
}

SW_TEST("hashes tell genomes apart, but not by their name")
{
    static const char *const changes[][2] = {
        {"\"size\": 16", "\"size\": 20"},
        {"\"kernel\": 3}", "\"kernel\": 5}"},
        {"\"stride\": 2}", "\"stride\": 1}"},
        {"\"dilation\": 2", "\"dilation\": 1"},
        {"\"groups\": 4", "\"groups\": 2"},
        {"\"identity\": true", "\"identity\": false"},
        {"\"relu\"", "\"tanh\""},
        {"\"rate\": 0.25", "\"rate\": 0.5"},
        {", \"update\": \"after\"", ""},
        {"\"remove\", ", ""},
        {"\"update\": \"release\"", "\"update\": \"after\""},
        {"\"lr\": 0.001", "\"lr\": 0.0011"},
        {"\"adam\"", "\"adamw\""},
        {"\"batch\": 64", "\"batch\": 65"},
        {"\"smoothing\": 0.1", "\"smoothing\": 0"},
        {"\"name\": \"out\"", "\"name\": \"logits\""},
        {"\"gap\", \"gmp\", \"flat\"]", "\"gmp\", \"gap\", \"flat\"]"},
        {"[1, 28, 28]", "[1, 28, 29]"},
        {"\"g3-17\"", "\"g3-18\""}};
    enum { N = sizeof changes / sizeof *changes };
    uint64_t hashes[N + 1];
    hashes[0] = swi_genome_hash(genome_of(genome_text));
    for (int i = 0; i < N; i++) {
        char text[4096];
        const char *at = strstr(genome_text, changes[i][0]);
        CU_ASSERT_FATAL(at != NULL);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - genome_text), genome_text,
                 changes[i][1], at + strlen(changes[i][0]));
        if (strcmp(changes[i][0], "\"size\": 16") == 0) { /* what is added to it, too */
            memcpy(strstr(text, "\"size\": 16"), "\"size\": 20", 10);
        }
        sw_genome *g = genome_of(text);
        CU_ASSERT_FATAL(g != NULL);
        hashes[i + 1] = swi_genome_hash(g);
        for (int k = 0; k <= i; k++)
            SW_CHECK((hashes[k] == hashes[i + 1]) == (i == N - 1 && k == 0), "%s",
                     changes[i][0]);
    }
}

/* A file is the text; what is damaged on disk is refused by its name. */
SW_TEST("files are saved and loaded")
{
    static const char path[] = "test_genome.json", gone[] = "test_genome_gone.json";
    sw_genome *g = genome_of(genome_text), *again = NULL;
    OK(sw_genome_save(g, path));
    OK(sw_genome_load(&again, path));
    CU_ASSERT_FATAL(again != NULL);
    CU_ASSERT_EQUAL(swi_genome_hash(again), swi_genome_hash(g));
    CU_ASSERT_STRING_EQUAL(again->name, "g3-17");
    sw_genome_destroy(again);
    again = g;
    REFUSED(sw_genome_load(&again, gone), SW_IO, gone);
    FILE *f = fopen(path, "w");
    CU_ASSERT_FATAL(f != NULL);
    fprintf(f, "{\n \"format\": \"stepwell genome 2\"\n}\n");
    fclose(f);
    REFUSED(sw_genome_load(&again, path), SW_FORMAT, "test_genome.json: line 2: ");
    CU_ASSERT_PTR_EQUAL(again, g);
    remove(path);
}

static sw_status parse_and_print(void *arg)
{
    sw_genome *g, *copy;
    char *text;
    size_t bytes;
    SW_TRY(sw_genome_parse(&g, genome_text, strlen(genome_text), "a text"));
    sw_status status = swi_genome_begin_lineage(g);
    if (status == SW_OK)
        status = sw_genome_copy(&copy, g);
    if (status == SW_OK) {
        status = sw_genome_print(copy, &text, &bytes);
        if (status == SW_OK)
            sw_text_free(text, bytes);
        sw_genome_destroy(copy);
    }
    sw_genome_destroy(g);
    return status;
}

/* Where memory ends, the text is refused with SW_NOMEM and nothing is kept. */
SW_TEST("reading survives failing allocations")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, parse_and_print, NULL) > 10);
}
