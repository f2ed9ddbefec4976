/* A search with a mutation of one's own, on the public header alone: a residual branch goes
 * in. */
#include <stdio.h>
#include <stepwell.h>

enum { MUTATIONS = 32 };

/* Put x + tanh(conv2d(x)) in the place of an image x that the seed draws. Where that cannot be,
 * the status says so, and the genome stays what it was. */
static sw_status add_branch(sw_genome *genome, uint64_t seed, void *count)
{
    sw_genome_info info = SW_OPTS(sw_genome_info);
    sw_vertex x = SW_OPTS(sw_vertex);
    SW_TRY(sw_genome_describe(genome, &info));
    uint32_t in[2], from = (uint32_t)(seed % info.n_vertices);
    SW_TRY(sw_genome_vertex(genome, from, &x));
    if (x.height == 0 || x.kind == SW_VERTEX_INPUT)
        return SW_UNSUPPORTED;
    sw_vertex conv = SW_OPTS(sw_vertex, .kind = SW_VERTEX_CONV2D, .inputs = in, .n_inputs = 1,
                             .kernel = 3, .groups = 1);
    sw_vertex tanh = SW_OPTS(sw_vertex, .kind = SW_VERTEX_ACTIVATION, .activation = "tanh",
                             .inputs = in, .n_inputs = 1);
    sw_vertex sum = SW_OPTS(sw_vertex, .kind = SW_VERTEX_ADD, .inputs = in, .n_inputs = 2);
    in[0] = from; /* each takes the place of its first input for all that read it */
    SW_TRY(sw_genome_add_vertex(genome, &conv, UINT32_MAX, &in[0]));
    SW_TRY(sw_genome_add_vertex(genome, &tanh, UINT32_MAX, &in[0]));
    in[1] = from;
    SW_TRY(sw_genome_add_vertex(genome, &sum, UINT32_MAX, NULL));
    ++*(int *)count;
    return SW_OK;
}

static sw_status print_best(sw_evolution *evolution, int branches)
{
    sw_candidate best = SW_OPTS(sw_candidate);
    sw_genome_info info = SW_OPTS(sw_genome_info);
    SW_TRY(sw_evolution_best(evolution, &best));
    SW_TRY(sw_genome_describe(best.genome, &info));
    printf("%u candidates, %d branches; the best has %u vertices, %zu bytes, and is right in "
           "%.1f %%\n",
           sw_evolution_count(evolution), branches, info.n_vertices, best.price->peak_bytes,
           100 * best.mean);
    return SW_OK;
}

int main(void)
{
    const sw_exec_opts threads = SW_OPTS(sw_exec_opts, .threads = 2);
    sw_exec *exec = NULL;
    sw_dataset *digits = NULL, *learned = NULL, *seen = NULL;
    sw_evolution *evolution = NULL;
    sw_evolve_progress now = SW_OPTS(sw_evolve_progress);
    sw_mutation list[MUTATIONS];
    size_t n = 0;
    int branches = 0;
    const sw_mutation *usual = sw_mutations_default(&n);
    for (size_t i = 0; i < n && i < MUTATIONS - 1; i++)
        list[i] = usual[i];
    list[n++] = (sw_mutation){
        .kind = SW_MUTATE_CUSTOM, .probability = 0.5, .fn = add_branch, .user = &branches};

    int bad = sw_exec_create(&exec, &threads) || sw_dataset_synthetic(&digits, 3000, 1) ||
              sw_dataset_split(&learned, &seen, digits, 500, 1);
    const sw_evolution_opts opts =
        SW_OPTS(sw_evolution_opts, .train = learned, .validation = seen, .trainings = 8,
                .samples = 2560, .seed = 1, .mutations = list, .n_mutations = n,
                .candidate_bytes = 4 << 20);
    bad = bad || sw_evolution_create(&evolution, exec, &opts);
    while (!bad && now.what != SW_EVOLVE_ENDED)
        bad = sw_evolution_advance(evolution, &now);
    bad = bad || print_best(evolution, branches);
    if (bad)
        fprintf(stderr, "own_mutation: %s\n", sw_last_error());
    sw_evolution_destroy(evolution);
    sw_dataset_destroy(learned), sw_dataset_destroy(seen), sw_dataset_destroy(digits);
    sw_exec_destroy(exec);
    return bad;
}
