/* Genomes for tests of alignment, vertex by vertex. */
#ifndef SW_TESTS_ALIGN_SCENE_H
#define SW_TESTS_ALIGN_SCENE_H

#include "runtime/population/evolve/align.h"
#include "tests/runtime/nets.h"

/* An input alone; height 0: a vector. It ends with the test. */
sw_genome *aligned_genome(int64_t channels, int64_t height);
/* Each appends a vertex and returns its number. */
uint32_t aligned_linear(sw_genome *g, uint32_t in, int64_t size);
uint32_t aligned_conv(sw_genome *g, uint32_t in, int64_t size, int groups);
uint32_t aligned_through(sw_genome *g, uint32_t in, sw_vertex_kind kind);
uint32_t aligned_join(sw_genome *g, sw_vertex_kind kind, uint32_t a, uint32_t b);
/* Completes the net from the vertex to 10 logits; then the genome is checked, and descends. */
void aligned_end(sw_genome *g, uint32_t in);
/* Equal in all that alignment may change, and in lineage. */
bool aligned_same(const sw_genome *a, const sw_genome *b);
/* Give one vertex a size. */
sw_status aligned_resize(sw_genome *g, uint32_t vertex, int64_t size);

#endif
