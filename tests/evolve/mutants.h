/* Mutating genomes in tests. */
#ifndef SW_TESTS_MUTANTS_H
#define SW_TESTS_MUTANTS_H

#include "runtime/population/evolve/mutate.h"
#include "tests/evolve/genome_texts.h"

/* Lines of genomes: strings of vertices, as they stand in a text. */
#define V(name, kind, in) "  {\"name\": \"" name "\", \"kind\": \"" kind "\", \"in\": [" in "]"
#define END "},\n"
#define LAST "}"
#define CONV(name, in, size, more)                                                             \
    V(name, "conv2d", "\"" in "\"") ", \"size\": " #size ", \"kernel\": 3" more END
#define RELU(name, in) V(name, "activation", "\"" in "\"") ", \"activation\": \"relu\"" END
/* Pool and logits of so many classes. */
#define TAIL_OF(in, classes)                                                                   \
    V("gap", "global_avg_pool", "\"" in "\"")                                                  \
    END V("out", "linear", "\"gap\"") ", \"size\": " classes LAST

/* A genome of these vertices, one a line as in a text, after "input"; input "[1, 8, 8]" and so
 * on. Destroyed when the test ends. */
sw_genome *mutant_base(const char *input, const char *vertices);

#define MUTANT_NOTES 64
typedef struct {
    struct {
        sw_mutation_kind kind;
        char vertex[SWI_VERTEX_NAME], text[160];
        int exact;
    } list[MUTANT_NOTES];
    int n; /* may be above MUTANT_NOTES */
    bool all_exact;
} mutant_notes;
void mutant_note(const sw_mutation_record *record, void *notes);

/* One mutation with certainty, of the vertex of that name alone (NULL: of all). The child is
 * destroyed when the test ends. */
sw_genome *mutant_of(const sw_genome *parent, sw_mutation_kind kind, const char *vertex,
                     double low, double high, uint64_t seed, mutant_notes *notes);

const swi_vertex *mutant_vertex(const sw_genome *g, const char *name); /* NULL: none */
/* The promises of a child: its text, its shape and its lineage from `a` and `b` (or NULL). */
bool mutant_is_sound(sw_genome *child, const sw_genome *a, const sw_genome *b);
/* Shields of `a` hold in a child if each of its vertices descends from `a`, by names. */
bool mutant_keeps_shields(const sw_genome *child, const sw_genome *a);

#endif
