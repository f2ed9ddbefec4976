/* Spaces of hyper-parameters, and population based training over them.
 *
 *     SW_TRY(sw_space_create(&space));
 *     SW_TRY(sw_space_parse(space, "lr=log:0.0001..0.1"));
 *     sw_pbt_opts opts = SW_OPTS(sw_pbt_opts, .space = space, .members = 8, .interval = 100);
 *     SW_TRY(sw_pbt_create(&pbt, &opts));
 *     SW_TRY(sw_pbt_report(pbt, 0, 100, 0.93));
 */

/* ---- spaces of hyper-parameters ---------------------------------------------------------- */

typedef enum {
    SW_UNIFORM,     /* low to high */
    SW_LOG_UNIFORM, /* low to high, low above 0; the logarithm is uniform */
    SW_INTEGER,     /* whole numbers, low to high, both of them too */
    SW_CHOICE       /* one of a list, in its order */
} sw_hyper_kind;

/* `name` has 1 to 47 letters, digits, "_", "-" and "."; dots nest ("optimizer.lr"), so that
 * "optimizer" cannot be one beside it. */
typedef struct {
    size_t size;
    const char *name;
    sw_hyper_kind kind;
    double low, high;
    const double *choices;     /* n_choices of them, 1 to 4096, all different and finite;
                                  copied */
    const char *const *labels; /* of the choices, in logs: 1 to 63 bytes each, all different;
                                  copied; NULL: their numbers */
    int n_choices;
    int resample; /* SW_CHOICE: 1: explored by a new draw alone, never by a neighbour */
} sw_hyper;

/* A space is a list of at most 1024 hyper-parameters. SW_INVALID names the one with bounds that
 * are reversed or not finite, with an empty list, or with a name that is there already. Bounds
 * of integers are whole numbers up to 2^53. */
SW_MUST_USE SW_API sw_status sw_space_create(sw_space **out);
SW_API void sw_space_destroy(sw_space *space);
SW_MUST_USE SW_API sw_status sw_space_add(sw_space *space, const sw_hyper *hyper);
/* One from a text: NAME=uniform:LOW..HIGH, NAME=log:LOW..HIGH, NAME=int:LOW..HIGH, and
 * NAME=choice:A,B,C (numbers, or words, which are numbered from 0). */
SW_MUST_USE SW_API sw_status sw_space_parse(sw_space *space, const char *text);
SW_API int sw_space_count(const sw_space *space);
/* Position of a name; -1: there is none. */
SW_API int sw_space_find(const sw_space *space, const char *name);
/* Filled as sw_space_add was given it; pointers are valid until the space is destroyed. */
SW_MUST_USE SW_API sw_status sw_space_at(const sw_space *space, int i, sw_hyper *out);
/* A draw of number i: a function of (seed, i, draw) alone, with the same bits on every
 * machine. */
SW_MUST_USE SW_API sw_status sw_space_draw(const sw_space *space, int i, uint64_t seed,
                                           uint64_t draw, double *out);
/* Whether a value lies within what was declared; integers and choices exactly. */
SW_API int sw_space_has(const sw_space *space, int i, double value);

/* ---- population based training ----------------------------------------------------------- */

/* Who is replaced by whom. Truncation: the worst share copies members of the best, drawn
 * uniformly. Tournament: a member that reports is compared with another one, drawn uniformly,
 * and copies it where that is better. T-test: the same, where Welch's t-test over the last 10
 * scores of both says so at 5 %. (Jaderberg et al. 2017, section 4.1.1) */
typedef enum { SW_TRUNCATION, SW_TOURNAMENT, SW_T_TEST } sw_exploit;
/* How new values are found after an exploit. Perturb: resampled with resample_probability,
 * else multiplied by one of the factors, and kept within the declared bounds; choices take a
 * neighbour in the list. SW_PB2 is no longer there: SW_UNSUPPORTED. */
typedef enum { SW_PERTURB, SW_PB2 } sw_explore;

/* Called after each explore, with the values in the order of the space, to be changed, and
 * those of the donor that they were found from; a value that it leaves outside of the
 * bounds is SW_INVALID and names the hyper-parameter. */
typedef sw_status sw_explore_fn(int member, const double *donors, double *values, int n,
                                void *user);

typedef struct {
    size_t size;
    const sw_space *space; /* copied */
    int members;           /* 1 to 1,000,000 */
    int minimize;          /* 1: a lower score is better */
    uint64_t seed;
    double interval; /* of time (in the unit that sw_pbt_report gets: steps, say) between a
                        member's turns; above 0 */
    double burn_in;  /* no exploit before this time */
    double quantile; /* share that is replaced and share that donates, 0 to 0.5: ceil of it of
                        the members that have a score and have not ended, at most half of them,
                        none where there is one; 0: 0.25; negative: none */
    double replaced, donors; /* shares of their own in the place of quantile, each above 0 and
                                at most 1, together at most 1; 0: quantile */
    double resample_probability; /* 0: 0.25; negative: never */
    double factors[2];           /* 0: 1.2 and 0.8 */
    int synch; /* 1: a turn is when all that go on have reported. 0: members take turns in the
                  order of (how long they have trained themselves, index), as if all trained at
                  once and equally fast, and donors give the state of their last turn */
    sw_exploit exploit;
    sw_explore explore;
    sw_explore_fn *custom; /* NULL: none */
    void *user;
    double stop_time;  /* a member ends at this time; 0: never */
    double stop_score; /* and where its score is as good as this; with has_stop_score */
    int has_stop_score;
    uint64_t without; /* number, from 1, of an exploit that is left out: a replay of the same
                         run that lacks it. 0: none */
} sw_pbt_opts;

/* Decisions only: it knows members by their index, trains none and reads no clock. The same
 * options and the same reports give the same decisions. */
SW_MUST_USE SW_API sw_status sw_pbt_create(sw_pbt **out, const sw_pbt_opts *opts);
SW_API void sw_pbt_destroy(sw_pbt *pbt);
/* The present value of hyper-parameter `hyper` of a member: at first a draw; what was set
 * within the bounds afterwards. */
SW_MUST_USE SW_API sw_status sw_pbt_value(const sw_pbt *pbt, int member, int hyper,
                                          double *out);
SW_MUST_USE SW_API sw_status sw_pbt_value_set(sw_pbt *pbt, int member, int hyper, double value);

/* Who should run next, and until which time: of those that go on the ones that have trained
 * least themselves; of these, those with the least time and the nearest turn, so that all have
 * the same time before and the same *until. At most `room` of them in the order of their index.
 * *n 0: none goes on. In synch mode members wait for the last one of their turn. Whatever
 * `room` is, a member runs from turn to turn. SW_INVALID while decisions are due. */
SW_MUST_USE SW_API sw_status sw_pbt_next(sw_pbt *pbt, int *members, int room, int *n,
                                         double *until);
/* A member has come to `time` with `score` (NaN: it has none, and is in no quantile). Decisions
 * wait until sw_pbt_next_event, and in asynchronous runs for the members that are late: one
 * that will never report must leave. A report before the member's turn counts for stop rules
 * and the t-test alone. SW_INVALID where it does not go forward in time, has ended, or has a
 * report that waits, and until sw_pbt_next_event has answered SW_PBT_NONE. */
SW_MUST_USE SW_API sw_status sw_pbt_report(sw_pbt *pbt, int member, double time, double score);
/* A member is out: it failed, or ended on its own. A report of it that waits is forgotten. It
 * is not replaced, and none waits for it. In asynchronous runs it is out at its place in the
 * order, so that decisions do not depend on when the call is made: what was kept of it may
 * still be given to a member with a turn before that, and SW_PBT_DROP follows. In synch mode
 * it is no donor any more. */
SW_MUST_USE SW_API sw_status sw_pbt_leave(sw_pbt *pbt, int member);

typedef enum {
    SW_PBT_NONE,    /* nothing (more) to do: ask sw_pbt_next */
    SW_PBT_KEEP,    /* copy the state of `member` aside: it may be a donor later. Asynchronous
                       runs only */
    SW_PBT_DROP,    /* what was kept of `member` is needed no more */
    SW_PBT_EXPLOIT, /* copy the kept state of `donor` (synch: its present one) to `member`, then
                       take member's values, which are new */
    SW_PBT_STOP     /* `member` has ended */
} sw_pbt_what;
typedef struct {
    size_t size;
    sw_pbt_what what;
    int member, donor;
    uint64_t number;           /* of exploits, from 1 */
    double time, donor_time;   /* of member, before, and of what the donor gives */
    double score, donor_score; /* t-test: the donor's is the mean of its last ones */
} sw_pbt_event;
/* The next thing to do, in order; each must have been done when the next one is asked for. A
 * failure (the explore function, the logs) has changed nothing, and can be asked for again. */
SW_MUST_USE SW_API sw_status sw_pbt_next_event(sw_pbt *pbt, sw_pbt_event *out);

typedef struct {
    size_t size;
    double time, score; /* of its last report; score NaN: none yet */
    int ended;          /* by a stop rule or by sw_pbt_leave */
    int kept;           /* its state was copied aside */
    uint64_t exploits;  /* how often it was replaced */
} sw_pbt_member;
SW_MUST_USE SW_API sw_status sw_pbt_describe(const sw_pbt *pbt, int member, sw_pbt_member *out);

/* Logs in JSON lines, in folder `dir`, which must be there: pbt_global.txt, of all exploits,
 * and pbt_policy_<member>.txt, of the exploits that its present state comes from. A line is
 * [target, donor, target time, donor time, donor's values, new values], values as nested
 * objects; the first line of a policy is [member, member, 0, 0, first values, first values]. An
 * exploit copies the donor's policy over the target's and appends its line. NULL: no logs. Call
 * it before the first sw_pbt_next, which begins the files, or beside sw_pbt_restore, in any
 * order: pbt_global.txt is cut to what it had when the population was saved then, the policies
 * are made of it, and SW_FORMAT says that its bytes are others. Written at each exploit, so
 * that a process that is killed leaves whole lines; not synced. SW_IO names the file. */
SW_MUST_USE SW_API sw_status sw_pbt_log(sw_pbt *pbt, const char *dir);

/* All that decisions depend on, for a checkpoint; at any moment, with events that are not given
 * out yet. Restored by a sw_pbt of the same options: SW_INVALID names the option that is
 * another; damaged bytes are SW_FORMAT. Logs are cut to what they had, and policies made of
 * them again. The bytes are for machines of the same byte order. On failure nothing changes,
 * but for logs. */
SW_MUST_USE SW_API sw_status sw_pbt_save(const sw_pbt *pbt, void **bytes, size_t *n);
SW_API void sw_pbt_free(void *bytes, size_t n); /* what sw_pbt_save gave */
SW_MUST_USE SW_API sw_status sw_pbt_restore(sw_pbt *pbt, const void *bytes, size_t n);

/* The schedule of one lineage, from a policy file: from change k, at time *time, on member
 * *member of the run goes on with these values (in the order of the space). All three may be
 * NULL. Change 0 is at time 0, the others at the time of the donor's state. SW_FORMAT names
 * file and line; SW_INVALID past the last change. */
SW_MUST_USE SW_API sw_status sw_policy_changes(const char *path, const sw_space *space, int *n);
SW_MUST_USE SW_API sw_status sw_policy_change(const char *path, const sw_space *space, int k,
                                              int *member, double *time, double *values);
