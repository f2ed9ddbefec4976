/* Genomes that tests share. */
#ifndef SW_TESTS_GENOME_TEXTS_H
#define SW_TESTS_GENOME_TEXTS_H

#include "runtime/population/evolve/genome.h"
#include "tests/runtime/nets.h"

/* All kinds of vertices, a fork, a residual, groups: 28 x 28, 10 classes. */
extern const char genome_text[];
/* As sw_genome_parse, destroyed when the test ends. NULL, and the test has failed. */
sw_genome *genome_of(const char *text);
/* The default space of a task, destroyed when the test ends. */
sw_search_space *genome_space(const sw_task *task);
/* A chain of n vertices: conv2d of 8, batch_norm, relu, ... with adds, 16 x 16, 10 classes. */
sw_genome *genome_chain(uint32_t n);
/* Its text, freed when the test ends. */
const char *genome_print(const sw_genome *genome);

#endif
