/* Small runs of an evolution that its tests share. */
#ifndef SW_TESTS_EVOLUTION_SCENE_H
#define SW_TESTS_EVOLUTION_SCENE_H

#include "runtime/stepwell.h"
#include "tests/runtime/nets.h"

/* Data that end with the test: synthetic digits. */
typedef struct {
    sw_dataset *train, *validation;
} evo_data;
evo_data evo_digits(int64_t train, int64_t validation);
/* A space of small nets of dense and convolutional layers, which ends with the test. */
sw_search_space *evo_space(void);
/* One hidden layer, which can grow. */
sw_search_space *evo_dense_space(void);
/* Six trainings, few samples, a small space, where `given` says nothing else. */
sw_evolution_opts evo_opts(const evo_data *data, sw_evolution_opts given);
#define EVO_OPTS(data, ...) evo_opts(data, (sw_evolution_opts){__VA_ARGS__})
sw_exec *evo_exec(int threads, sw_budget *budget);
sw_evolution *evo_evolution(sw_exec *exec, const sw_evolution_opts *opts);
/* Go on until so many trainings have ended; UINT64_MAX: all. */
void evo_run(sw_evolution *evolution, uint64_t trainings);
sw_candidate evo_member(sw_evolution *evolution, uint32_t i);
/* A sum over genomes and numbers of all candidates, and the weights that are kept; without
 * times. */
uint64_t evo_sum(sw_evolution *evolution);
/* Of genome and weights of one. */
uint64_t evo_net_sum(const sw_net *made);
/* A new folder, below the one of the process. */
const char *evo_folder(void);
/* The history of a folder without times, freed when the test ends. */
char *evo_history(const char *dir);

/* A whole file with a zero byte after it, freed when the test ends. */
char *evo_read(const char *path, size_t *n);
/* The files of a run's folder and its states, kept in memory. Files that are there now are
 * removed when these are put back. */
enum { EVO_FILES = 40 };
typedef struct {
    char *path[EVO_FILES], *bytes[EVO_FILES];
    size_t size[EVO_FILES];
    int n;
} evo_tree;
void evo_tree_take(evo_tree *tree, const char *dir);
void evo_tree_put(const evo_tree *tree, const char *dir);

#endif
