/* Budgets and execs: where steps run, and how much memory they may take.
 *
 *     sw_budget *budget;
 *     SW_TRY(sw_budget_create(&budget, (size_t)512 << 20));
 *     sw_exec_opts opts = SW_OPTS(sw_exec_opts, .threads = 4, .budget = budget);
 *     SW_TRY(sw_exec_create(&exec, &opts));
 *     sw_exec_destroy(exec), sw_budget_destroy(budget);
 */

/* A hard limit in bytes that several execs, models and loaders may share. Destroy it after
 * them; what is still under it stays so. */
SW_MUST_USE SW_API sw_status sw_budget_create(sw_budget **out, size_t bytes);
SW_API void sw_budget_destroy(sw_budget *budget);

/* The reports of each run to an NVTX tool that is attached (Nsight Systems, compute-sanitizer):
 * ranges in the domain "stepwell" for the step and its phases, for layers too, or for ops too,
 * with the bytes that live as their payload; and, if the tool takes them, counters of the bytes
 * that live by role and at the peak, and the arenas as heaps with live tensors as regions.
 * With no_phases there are none. A tool can attach until the first exec is created; without
 * one every level is as fast as SW_NVTX_OFF. */
typedef enum { SW_NVTX_PHASES, SW_NVTX_LAYERS, SW_NVTX_OPS, SW_NVTX_OFF } sw_nvtx_level;

typedef struct {
    size_t size;
    const char *device;  /* "cpu" (default); "cuda", "cuda:1": a card by its number, 0 without
                            one; SW_DEVICE where it is not there or the CUDA module is not. "sim"
                            answers SW_DEVICE too, others SW_INVALID */
    int threads;         /* of the CPU, 1..256; 0: 1. The same bits for every number */
    sw_budget *budget;   /* NULL: none. Borrowed, must outlive the exec */
    uint64_t seed;       /* of random ops */
    sw_profile *profile; /* NULL: none. Borrowed, must outlive the exec */
    int checks;       /* 1: trace again before each run and compare; names the first difference.
                         On the CPU each kernel also runs between guard bands, outside of the
                         planned bytes: SW_INVALID names the op, the operand and the byte where
                         it writes past or before an output or its scratch, into an input,
                         or nothing of an output. Takes memory of its own, and time */
    int op_clocks;    /* 1: read the clock at every op of planned runs, not only where the phase
                         changes; SW_INVALID with no_phases. Immediate runs have none per op */
    int no_inplace;   /* 1: switch the pass off that lets results take their input's place; a
                         device then launches each op by itself */
    int max_programs; /* bound of the keys that are remembered; 0: 4096. The least recently used
                         goes */
    const char *isa;  /* NULL: the best of this machine; "amx", "avx512-bf16" (avx512 with an
                       * instruction for bf16), "avx512", "avx2", "base" */
    int no_phases;    /* 1: planned runs neither count what lives nor read clocks, to see what
                         that costs; a profile then has the figures of the plan */
    int shares;       /* 1: runs note what is born and dies, for sw_last_shares; SW_INVALID with
                         no_phases */
    int no_recompute; /* 1: a plan that is over the budget is refused: no op is repeated and no
                         update released so that it fits */
    int no_rebuild;   /* 1: switch the pass off that recomputes results of cheap ops in backward
                         instead of keeping them (sw_op_desc, rebuild) */
    int no_chunks; /* 1: switch the pass off that lets ops go through their rows in parts where
                      that lowers the arena (sw_linear_ce) */
    int no_tiles;  /* 1: switch the pass off that makes the gradient of a large weight in blocks
                      of rows, each followed by its part of a released update */
    sw_nvtx_level nvtx; /* default: step and phases */
    int tf32; /* 1: matrix products and convolutions may round their factors to TF32, where the
                 card has it */
    int sync_ops;  /* 1: to find the op that fails: wait for the device after each op,
                      replay nothing; the message of a fault begins with the op */
    int no_graphs; /* 1: launch op by op instead of replaying what was captured. These three are
                      of devices: SW_INVALID with the CPU */
    int no_strips; /* 1: switch the pass off that lets a function of one number, the op that
                      reads its result and the update after that go strip by strip where this
                      lowers the arena (swish before a large linear layer), and the one that
                      lets convolutions, functions and pools go some images at a time */
    sw_ranks *ranks;  /* that share the shards of each step; NULL: there is this process alone.
                         Borrowed, must outlive the exec */
    int shards;       /* batches of a training step; 0: one for each rank. See sw_ranks_open */
    sw_dtype compute; /* SW_BF16: activations and their gradients are numbers of 16 bits, and
                         products take such numbers; parameters, their gradients and states,
                         statistics and losses stay SW_F32 (the default) */
    sw_bf16_order bf16_order; /* of the sums of these products, which go on in float32; NONE:
                                 TILE where the processor has AMX, else PAIR. Each order has
                                 the same bits on every x86-64 with FMA:
                                 PAIR, of each two of k: c = fma(a0, b0, fma(a1, b1, c));
                                 TILE, of each 32 of k: c = c + (e + o), e and o the chains of
                                 fma over the even and the odd ones. "base" rounds products
                                 and sums: the same bits unless a product over- or underflows.
                                 SW_INVALID with SW_F32, and on a card, whose library has
                                 an order of its own */
} sw_exec_opts;

/* exec: device + threads + one step arena as high as the highest of its programs.
 *
 * On a device the budget is one of its memory, as are all figures of plans; models that run
 * there live there. The first run of a program goes op by op; it is then captured, and later
 * runs with the same models replay it in one launch: knobs, steps and random counters change,
 * nothing is captured again. sw_run copies the inputs and returns before the run has ended.
 * All that reads (metrics, outputs, parameters) waits for that. A fault of the device is
 * reported by the call that sees it, and by every later one: SW_DEVICE with what failed first.
 * op_clocks needs sync_ops there, a profile of events runs op by op, and an NVTX tool that
 * takes regions of memory has every op waited for. */
SW_MUST_USE SW_API sw_status sw_exec_create(sw_exec **out, const sw_exec_opts *opts);
SW_API void sw_exec_destroy(sw_exec *exec);
/* Give an exec its profile later than at its creation: once all that can be refused was not,
 * since a profile replaces the file that was there. SW_INVALID when it has one. */
SW_MUST_USE SW_API sw_status sw_exec_set_profile(sw_exec *exec, sw_profile *profile);

/* The memory of the device that an exec works on: what its driver says, and what of that is
 * ours. */
typedef struct {
    size_t size;         /* set by the caller */
    char name[16];       /* "cpu", "cuda:0" */
    char card[128];      /* as its driver calls it; "" and all that follows 0 for the CPU */
    int major, minor;    /* compute capability */
    int driver, runtime; /* of CUDA: 13020 is 13.2 */
    int blas;            /* cuBLASLt's, as it counts; 0: built without */
    int dnn;             /* 0; no longer used */
    size_t total_bytes;  /* of the card */
    size_t open_bytes;   /* free when it was opened: before, its context and other programs took
                            the rest */
    size_t free_bytes;   /* now */
    /* That all our arenas there have, in whole pages: models, steps, inputs and metrics. */
    size_t model_bytes, arena_bytes, data_bytes;
    int64_t unexplained_bytes; /* open - free - arenas - graphs: libraries, other programs;
                                  below 0 where these have given some back */
    size_t pinned_bytes; /* memory of the host that is held fast for copies, of all devices */
    size_t
        graph_bytes; /* by which free memory fell while graphs were made that are there now */
} sw_device_info;
/* SW_DEVICE where the card has failed. */
SW_MUST_USE SW_API sw_status sw_exec_device(const sw_exec *exec, sw_device_info *out);
