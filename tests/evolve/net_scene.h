/* Genomes, nets and data that the tests of nets share. They end with the test. */
#ifndef SW_TESTS_NET_SCENE_H
#define SW_TESTS_NET_SCENE_H

#include "runtime/population/evolve/align.h"
#include "runtime/population/evolve/net.h"
#include "tests/runtime/nets.h"

/* end(what) after the test, or when scene_sweep is called. */
void scene_later(void (*end)(void *), void *what);
/* End all that was made so far, in the middle of a test of thousands. */
void scene_sweep(void);

/* A genome of an image (height 0: of a vector), its input alone; 10 classes. */
sw_genome *scene_genome(int64_t channels, int64_t height, int64_t width);
/* Append a vertex of that kind with that name, which reads vertex `in`; it is returned to be
 * changed. */
swi_vertex *scene_add(sw_genome *g, sw_vertex_kind kind, const char *name, uint32_t in);
swi_vertex *scene_linear(sw_genome *g, const char *name, uint32_t in, int64_t size);
swi_vertex *scene_conv(sw_genome *g, const char *name, uint32_t in, int64_t size, int kernel);
swi_vertex *scene_activation(sw_genome *g, const char *name, uint32_t in, const char *which);
/* It is whole: check it. */
void scene_check(sw_genome *g);

/* lenet5 of 1 x 28 x 28. */
sw_genome *scene_lenet(void);
/* A chain with residual and forked parts, of about so many vertices (at least 8). */
sw_genome *scene_deep(int vertices);
/* A valid genome with every kind of vertex among those it may have; sizes 1 to 12. */
sw_genome *scene_random(sw_dice *dice);

/* For alignment: each appends a vertex and returns its number. */
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

sw_net *scene_net(const sw_genome *g, const sw_net_opts *opts);
sw_exec *scene_exec(int threads);
/* A net with a ready model. */
sw_net *scene_ready(const sw_genome *g, const sw_net_opts *opts, sw_exec *exec, uint64_t seed);

/* A batch of the genome's, F32 (or U8), labels U8: random, the same for the same seed. */
typedef struct {
    sw_array in[2];
    int64_t rows;
} scene_batch;
scene_batch scene_data(const sw_genome *g, sw_dtype dtype, int64_t rows, uint64_t seed);
#define SCENE_ARGS(made_, data_, mode_)                                                        \
    SW_OPTS(sw_run_args, .fn = sw_net_step, .user = made_, .models = &(made_)->model,          \
            .n_models = 1, .inputs = (data_)->in, .n_inputs = 2, .mode = mode_)

/* A block that is freed after the test. */
void *scene_block(size_t bytes);
/* Logits of the samples by a plain interpreter of the genome in float64, in evaluation: (rows,
 * classes), freed after the test. */
double *scene_logits(const sw_net *made, const scene_batch *data);
/* The logits that the library computes, in evaluation. */
float *scene_run_logits(sw_exec *exec, sw_net *made, const scene_batch *data);

/* Utilities of a net's neurons out of the bytes of its model: `out` has room for as many as the
 * genome has vertices; values point into `bytes`. How many there are. */
size_t scene_utilities(const sw_net *made, const unsigned char *bytes, sw_neuron_utility *out);

#endif
