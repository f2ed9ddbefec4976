/* The functions of runtime/api/older_names.h: each calls the one with the present name, or says
 * that nothing does it any more. */
#include "runtime/stepwell.h"

sw_status sw_checkpoint_state(sw_checkpoint *checkpoint, sw_checkpoint_info *out)
{
    return sw_checkpoint_describe(checkpoint, out);
}

sw_status sw_pbt_look(const sw_pbt *pbt, int member, sw_pbt_member *out)
{
    return sw_pbt_describe(pbt, member, out);
}

sw_status sw_genome_look(const sw_genome *genome, sw_genome_info *out)
{
    return sw_genome_describe(genome, out);
}

sw_status sw_search_space_draw(const sw_search_space *space, const sw_task *task, uint64_t seed,
                               sw_genome **out)
{
    return sw_genome_draw(out, space, task, seed);
}

sw_status sw_evolution_net(sw_evolution *evolution, uint32_t i, sw_net **out)
{
    return sw_net_copy(out, evolution, i);
}

sw_status sw_select(const double *fitness, size_t n, const sw_selection *selections,
                    size_t n_selections, uint64_t seed, uint32_t *out, int *kept, size_t *n_out)
{
    (void)fitness, (void)n, (void)selections, (void)n_selections, (void)seed, (void)out;
    (void)kept, (void)n_out;
    SW_FAIL(SW_UNSUPPORTED,
            "%s: generations are gone; sw_evolution_opts.search says how a "
            "search goes, and .parent is a selection of one's own",
            __func__);
}

sw_status sw_pareto(const double *objectives, size_t n, size_t m, uint32_t *rank,
                    double *crowding)
{
    (void)objectives, (void)n, (void)m, (void)rank, (void)crowding;
    SW_FAIL(SW_UNSUPPORTED, "%s: a search has one fitness, a sum of terms", __func__);
}

sw_status sw_evolution_rebuild(sw_evolution *evolution, uint64_t id, sw_net **out)
{
    (void)evolution, (void)id, (void)out;
    SW_FAIL(SW_UNSUPPORTED,
            "%s: candidates are not rebuilt; sw_net_copy() copies one whose state is there",
            __func__);
}
