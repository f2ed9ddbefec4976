/* Texts of genomes: read, written, saved. */
#include "kernels/rng.h"
#include "runtime/population/evolve/draws.h"
#include "tests/evolve/genome_texts.h"
#include "tests/support/heap_sweep.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A printed genome reads back as the same genome, and prints as the same bytes. */
static void print_is_a_fixed_point(void)
{
    sw_genome *g = genome_of(genome_text);
    const char *text = genome_print(g);
    CU_ASSERT_STRING_EQUAL(text, genome_text);
    sw_genome *again = genome_of(text);
    CU_ASSERT_EQUAL(swi_genome_hash(again), swi_genome_hash(g));
    CU_ASSERT_STRING_EQUAL(genome_print(again), text);
}

/* Shapes and numbers of parameters, computed by hand. */
static void shapes_are_those_of_the_layers(void)
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

/* Any float comes back bit for bit. */
static void floats_read_back_bit_for_bit(void)
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

/* The hash is of everything but the genome's own name. */
static void hashes_tell_genomes_apart(void)
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
            char *too = strstr(text, "\"size\": 16");
            memcpy(too, "\"size\": 20", 10);
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
static void files_are_saved_and_loaded(void)
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
    (void)arg;
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
static void reading_survives_failing_allocations(void)
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, parse_and_print, NULL) > 10);
}

static const sw_test tests[] = {
    {"print is a fixed point", print_is_a_fixed_point},
    {"shapes and parameters are those of the layers", shapes_are_those_of_the_layers},
    {"floats read back bit for bit", floats_read_back_bit_for_bit},
    {"hashes tell genomes apart, but not by their name", hashes_tell_genomes_apart},
    {"files are saved and loaded", files_are_saved_and_loaded},
    {"reading survives failing allocations", reading_survives_failing_allocations},
};
SW_SUITE("genome text", tests)
