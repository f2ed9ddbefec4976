/* Ranks: the processes of one training, which mpirun or srun started together.
 *
 *     sw_ranks *ranks;
 *     SW_TRY(sw_ranks_open(&ranks, 0.0));
 *     sw_exec_opts opts = SW_OPTS(sw_exec_opts, .ranks = ranks, .shards = 8);
 *     SW_TRY(sw_exec_create(&exec, &opts));
 *     sw_exec_destroy(exec), sw_ranks_close(ranks);
 *
 * A training step is `shards` batches of equal size, numbered from 0. Of N ranks rank r runs
 * those from r shards / N on, `shards` / N of them in a row, each by an sw_run with its number
 * in sw_run_args.run. The step function ends by sw_accumulate in all of these but the last, and
 * there by sw_update (after sw_clip_norm, if it clips); the optimizer has `shards` / N for
 * sw_optimizer_opts.shards. It updates by the mean of the gradients over all shards. They are
 * added in pairs, pairs of pairs, and so on: the same bits
 * for any number of ranks, on each of them. Losses are checked together: where one is not
 * finite, no rank updates. All that a step function assigns to buffers and states is that of
 * the first shard of its rank: rank 0 has those of the step. `shards` must be N times 1, 2, 4,
 * ..., or anything where there is one process. Every rank makes the same runs in the same
 * order; a loader has its part by sw_loader_opts.of, first and share. An exec with shards has
 * no immediate mode, no members, no evolution strategies, and works on the CPU.
 *
 * NULL stands for a process that is alone: rank 0 of 1. */

/* Join the others, where a launcher started several (OMPI_COMM_WORLD_SIZE, PMI_SIZE,
 * SLURM_STEP_NUM_TASKS or WORLD_SIZE above 1), by the module of its MPI; *out NULL: it started
 * one. timeout_s: a rank that gives no sign of life for so long is an error of the call that
 * waits for it, 1 to 1e6 seconds; 0: 300. SW_DEVICE where there is no module or the launcher is
 * of another MPI, SW_INVALID where the ranks have different versions of this library. One such
 * object at a time, used by one thread. */
SW_MUST_USE SW_API sw_status sw_ranks_open(sw_ranks **out, double timeout_s);
/* Every rank calls it, after its execs are destroyed. After a failure: sw_ranks_abort. */
SW_API void sw_ranks_close(sw_ranks *ranks);
/* Ends the processes of all ranks with this exit status, and this one; with NULL it returns. */
SW_API void sw_ranks_abort(sw_ranks *ranks, int status);
SW_API int sw_ranks_rank(const sw_ranks *ranks); /* 0 to size - 1 */
SW_API int sw_ranks_size(const sw_ranks *ranks);
SW_API size_t sw_ranks_bytes(const sw_ranks *ranks); /* of its buffer, in no budget */
/* `bytes` of each rank, one after the other in the order of ranks, into `all`; all ranks call
 * it, with the same bytes. */
SW_MUST_USE SW_API sw_status sw_ranks_gather(sw_ranks *ranks, const void *mine, size_t bytes,
                                             void *all);
/* A sign of life, between pieces of work that take long and make no run. */
SW_MUST_USE SW_API sw_status sw_ranks_alive(sw_ranks *ranks);
