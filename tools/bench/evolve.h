/* Shared by the cases of bench evolve: genomes of known sizes, and the population of a
 * search. */
#ifndef STEPWELL_BENCH_EVOLVE_H
#define STEPWELL_BENCH_EVOLVE_H

#include "tools/bench/bench.h"

typedef struct {
    bench_common common;
    const char *which, *data;
    int64_t rounds; /* of each measurement */
    int64_t seeds, generations, population, samples, epochs, repeats;
    size_t budget;
} evolve_bench_opts;

/* The genomes that are measured. */
typedef enum {
    EVOLVE_LENET5, /* 28 x 28: two convolutions with pools, three linear layers, Adam */
    EVOLVE_DEEP,   /* 100 vertices: residual blocks of 3 x 16 x 16 images */
    EVOLVE_WIDE    /* vectors of 1,024: linear layers of 2,048, which is 37 MB with Adam */
} evolve_subject;
SW_MUST_USE sw_status evolve_subject_make(sw_genome **out, evolve_subject which);
const char *evolve_subject_name(evolve_subject which);

/* Samples for a genome's step: `batch` of them, random. After a failure free them too. */
SW_MUST_USE sw_status evolve_batch_make(sw_array inputs[2], const sw_genome *genome);
/* How a net of the genome is run with them. */
SW_MUST_USE sw_status evolve_args(sw_run_args *args, sw_net *net, sw_model **model,
                                  const sw_array inputs[2]);

/* Results of a case: JSON below `key`, or text. */
typedef struct {
    const evolve_bench_opts *opts;
    sw_json *json; /* NULL: text */
} evolve_out;
void evolve_title(const evolve_out *out, const char *key, const char *title);
/* The same, and the head of a table of times. */
void evolve_head(const evolve_out *out, const char *key, const char *title);
void evolve_times(const evolve_out *out, const char *key, const char *name, cli_times *times);
void evolve_number(const evolve_out *out, const char *key, const char *name, double x,
                   const char *unit);
void evolve_end(const evolve_out *out);

/* The cases: evolve.c, evolve_moves.c, evolve_search.c. */
SW_MUST_USE sw_status evolve_bench_plan(const evolve_out *out);
SW_MUST_USE sw_status evolve_bench_mutants(const evolve_out *out);
SW_MUST_USE sw_status evolve_bench_moves(const evolve_out *out);
SW_MUST_USE sw_status evolve_bench_first(const evolve_out *out);
SW_MUST_USE sw_status evolve_bench_gaps(const evolve_out *out);
SW_MUST_USE sw_status evolve_bench_search(const evolve_out *out);

#endif
