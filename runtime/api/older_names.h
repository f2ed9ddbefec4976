/* Older names of 0.1: the same functions. Programs that have them stay as they are; new ones
 * take the name in the comment. At the end those that nothing does any more.
 *
 *     sw_genome_info info = SW_OPTS(sw_genome_info);
 *     SW_TRY(sw_genome_draw(&genome, search_space, &task, 1));
 *     SW_TRY(sw_genome_describe(genome, &info));
 *     SW_TRY(sw_net_copy(&net, evolution, UINT32_MAX));
 *     SW_TRY(sw_checkpoint_describe(checkpoint, &saved));
 */

/* Older name of sw_checkpoint_describe. */
SW_MUST_USE SW_API sw_status sw_checkpoint_state(sw_checkpoint *checkpoint,
                                                 sw_checkpoint_info *out);
/* Older name of sw_pbt_describe. */
SW_MUST_USE SW_API sw_status sw_pbt_look(const sw_pbt *pbt, int member, sw_pbt_member *out);
/* Older name of sw_genome_describe. */
SW_MUST_USE SW_API sw_status sw_genome_look(const sw_genome *genome, sw_genome_info *out);
/* Older name of sw_genome_draw. */
SW_MUST_USE SW_API sw_status sw_search_space_draw(const sw_search_space *space,
                                                  const sw_task *task, uint64_t seed,
                                                  sw_genome **out);
/* Older name of sw_net_copy. */
SW_MUST_USE SW_API sw_status sw_evolution_net(sw_evolution *evolution, uint32_t i,
                                              sw_net **out);

/* No longer used: these are SW_UNSUPPORTED. */
typedef enum { SW_SELECT_ELITE, SW_SELECT_SUS, SW_SELECT_TOURNAMENT } sw_selection_kind;
typedef struct {
    sw_selection_kind kind;
    uint32_t n, contestants;
    double p;
    int stage, keep;
    uint64_t reserved[2];
} sw_selection;
SW_MUST_USE SW_API sw_status sw_select(const double *fitness, size_t n,
                                       const sw_selection *selections, size_t n_selections,
                                       uint64_t seed, uint32_t *out, int *kept, size_t *n_out);
SW_MUST_USE SW_API sw_status sw_pareto(const double *objectives, size_t n, size_t m,
                                       uint32_t *rank, double *crowding);
SW_MUST_USE SW_API sw_status sw_evolution_rebuild(sw_evolution *evolution, uint64_t id,
                                                  sw_net **out);
