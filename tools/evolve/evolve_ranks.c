/* A search over several processes: every rank has all of it, and trains some of the candidates
 * (runtime/population/evolve/evolution_ranks.c). Rank 0 has the files, saves the best net,
 * tests it and prints the result. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include "tools/evolve/evolve.h"
#include <string.h>

int evolve_ranks_check(const evolve *e)
{
    const evolve_opts *o = &e->opts;
    CLI_TRY(job_ranks_check(&o->job, o->rank_timeout, "--print-space --price"));
    if (o->job.ranks != NULL || swi_ranks_started(NULL) == 1)
        return CLI_GO;
    for (size_t i = 0; i < e->n_fitness; i++)
        if (e->fitness[i].kind == SW_FITNESS_TIME)
            return cli_error(CLI_USAGE,
                             "--fitness time is not supported over several processes, for it "
                             "follows the clock of each: start one");
    return CLI_GO;
}

int evolve_ranks_open(evolve *e)
{
    evolve_opts *o = &e->opts;
    CLI_TRY(job_ranks_open(&e->ranks, &e->job, &o->job, o->rank_timeout));
    o->quiet |= !evolve_is_first(e);
    return CLI_GO;
}

/* ---- texts ------------------------------------------------------------------------------- */

/* *to: the text of rank 0, as a block of n + 1 bytes. */
static sw_status share_text(evolve *e, char **to, uint64_t *n, const char *text)
{
    *n = evolve_is_first(e) ? strlen(text) : 0;
    SW_TRY(swi_ranks_share(e->ranks, n, sizeof *n));
    SW_TRY(sw_heap_alloc(to, SW_HEAP_RECORDS, (size_t)*n + 1));
    if (evolve_is_first(e))
        memcpy(*to, text, (size_t)*n);
    return swi_ranks_share(e->ranks, *to, (size_t)*n);
}

static sw_status share_space(evolve *e)
{
    char *text = NULL;
    uint64_t n;
    SW_TRY(share_text(e, &text, &n, evolve_is_first(e) ? sw_search_space_text(e->space) : ""));
    const sw_status status =
        evolve_is_first(e) ? SW_OK
                           : sw_search_space_parse(&e->space, text, (size_t)n, "the space");
    sw_heap_free(text, SW_HEAP_RECORDS, (size_t)n + 1);
    return status;
}

static sw_status share_genome(evolve *e, size_t i)
{
    char *own = NULL, *text = NULL;
    size_t bytes = 0;
    uint64_t n;
    if (evolve_is_first(e))
        SW_TRY(sw_genome_print(e->first[i], &own, &bytes));
    sw_status status = share_text(e, &text, &n, own);
    sw_text_free(own, bytes);
    SW_TRY(status);
    if (!evolve_is_first(e))
        status = sw_genome_parse(&e->first[i], text, (size_t)n, "--first");
    sw_heap_free(text, SW_HEAP_RECORDS, (size_t)n + 1);
    return status;
}

sw_status evolve_ranks_share(evolve *e)
{
    uint64_t is[3] = {e->n_first, e->plain, e->space != NULL};
    SW_TRY(swi_ranks_share(e->ranks, is, sizeof is));
    if (is[2] != 0)
        SW_TRY(share_space(e));
    e->plain = is[1] != 0;
    for (uint64_t i = 0; i < is[0]; i++) {
        SW_TRY(share_genome(e, (size_t)i));
        e->n_first = (size_t)i + 1;
    }
    return SW_OK;
}

/* ---- the search -------------------------------------------------------------------------- */

int evolve_ranks_agree(evolve *e)
{
    const size_t n = (size_t)swi_ranks_size(e->ranks);
    CLI_LIBRARY(swi_evolution_join(e->evolution, e->ranks), false);
    CLI_LIBRARY(
        sw_budget_take(e->budget, swi_evolution_ranks_bytes(e->ranks), "exchanges of ranks"),
        false);
    CLI_LIBRARY(sw_heap_alloc(&e->of, SW_HEAP_RECORDS, n * sizeof *e->of), false);
    e->agreed = true;
    return CLI_GO;
}

void evolve_ranks_ended(evolve *e)
{
    if (e->ranks == NULL)
        return;
    e->stopped = (e->evolution->stop & EVOLVE_INTERRUPT) != 0;
    e->own = (job_rank){.done = e->evolution->own_steps,
                        .predicted_peak_bytes = e->evolution->own_predicted,
                        .measured_peak_bytes = e->evolution->own_measured};
}

sw_status evolve_ranks_finish(evolve *e, int *status)
{
    int32_t of = *status;
    SW_TRY(swi_ranks_share(e->ranks, &of, sizeof of));
    *status = of;
    return job_ranks_figures(e->ranks, e->own, e->of);
}

int evolve_ranks_close(evolve *e, int status)
{
    if (e->ranks == NULL)
        return status;
    const size_t n = (size_t)swi_ranks_size(e->ranks);
    if (e->agreed) {
        sw_heap_free(e->of, SW_HEAP_RECORDS, n * sizeof *e->of);
        evolve_end_search(e);
        sw_budget_give(e->budget, swi_evolution_ranks_bytes(e->ranks));
    }
    status = job_ranks_close(e->ranks, e->agreed, status);
    e->ranks = NULL;
    return status;
}
