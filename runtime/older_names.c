/* The functions of runtime/api/older_names.h: each calls the one with the present name. */
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
