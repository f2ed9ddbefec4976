/* Runs that stop, and go on from their files. */
#include "alloc/base/fault.h"
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"

SW_TESTS("evolution files")

enum { GENERATIONS = 3 };

static int count_down(void *user)
{
    return --*(int *)user < 0;
}

typedef struct {
    char *history;
    uint64_t sum;
} outcome;

/* A run that never stops. */
static outcome straight(const evo_data *data)
{
    const char *dir = evo_folder();
    const sw_evolution_opts opts = EVO_OPTS(data, .dir = dir);
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_evaluate(e, GENERATIONS);
    return (outcome){evo_history(dir), evo_sum(e)};
}

/* One that is stopped after so many calls, thrown away and begun anew, again and again. */
static outcome interrupted(const evo_data *data, int calls)
{
    const char *dir = evo_folder();
    outcome o = {NULL, 0};
    sw_exec *exec = evo_exec(1, NULL);
    int left = calls, found = 0;
    const sw_evolution_opts opts =
        EVO_OPTS(data, .dir = dir, .stop = count_down, .stop_user = &left);
    for (int again = 0; o.history == NULL && again < 1000; again++) {
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        sw_evolution *e = NULL;
        OK(sw_evolution_create(&e, exec, &opts));
        OK(sw_evolution_resume(e, &found));
        SW_CHECK(found == (again > 0), "found %d", found);
        left = calls + again; /* it gets somewhere */
        sw_status status = SW_OK;
        do
            status = sw_evolution_advance(e, &p);
        while (status == SW_OK && p.what != SW_EVOLVE_STOPPED &&
               !(p.generation == GENERATIONS && p.what == SW_EVOLVE_EVALUATED));
        OK(status);
        if (p.what == SW_EVOLVE_EVALUATED)
            o = (outcome){evo_history(dir), evo_sum(e)};
        sw_evolution_destroy(e);
    }
    return o;
}

SW_TEST("resuming is never having stopped")
{
    const evo_data data = evo_digits(256, 64);
    const outcome whole = straight(&data);
    static const int calls[] = {1, 3, 7, 20};
    for (int i = 0; i < (sw_tests_full() ? 4 : 2); i++) {
        const outcome parts = interrupted(&data, calls[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(parts.history);
        CU_ASSERT_STRING_EQUAL(parts.history, whole.history);
        CU_ASSERT_EQUAL(parts.sum, whole.sum);
    }
}

/* ---- failures ---------------------------------------------------------------------------- */

/* A run to the end, with a failure of file call k, or of all from there on until the process
 * ends; then it is begun anew. *hit: it failed. */
static outcome run_with_failure(sw_evolution_opts opts, sw_exec *exec, uint64_t k,
                                sw_fault_mode mode, bool *hit)
{
    const char *dir = evo_folder();
    outcome o = {NULL, 0};
    opts.dir = dir;
    *hit = false;
    sw_fault_plan(SW_FAULT_FILE, k, mode);
    for (int again = 0; again < 3 && o.history == NULL; again++) {
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        sw_evolution *e = NULL;
        int found;
        OK(sw_evolution_create(&e, exec, &opts));
        sw_status status = sw_evolution_resume(e, &found);
        const bool resumed = status == SW_OK;
        while (status == SW_OK && !(p.generation == 2 && p.what == SW_EVOLVE_EVALUATED))
            status = sw_evolution_advance(e, &p);
        *hit |= sw_fault_hits(SW_FAULT_FILE) > 0;
        if (status == SW_OK || mode == SW_FAULT_FROM)
            sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        if (status == SW_OK) {
            o = (outcome){evo_history(dir), evo_sum(e)};
        } else {
            CU_ASSERT_EQUAL(status, SW_IO);
            CU_ASSERT(!resumed || sw_evolution_advance(e, &p) == SW_STALE);
        }
        sw_evolution_destroy(e);
    }
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    return o;
}

/* Whichever call of the file system fails, alone or with all after it: a run that is begun
 * anew ends as if none had. */
SW_TEST("a failure of the file system loses nothing")
{
    const evo_data data = evo_digits(64, 16);
    const sw_evolution_opts opts = EVO_OPTS(&data);
    sw_exec *exec = evo_exec(1, NULL);
    bool hit;
    const outcome whole = run_with_failure(opts, exec, UINT64_MAX / 2, SW_FAULT_ONCE, &hit);
    CU_ASSERT_FALSE(hit);
    for (int mode = SW_FAULT_ONCE; mode <= SW_FAULT_FROM; mode++) {
        const uint64_t step = sw_tests_full() ? 1 : mode == SW_FAULT_ONCE ? 23 : 29;
        uint64_t k = 0;
        for (hit = true; hit && k < 2000; k += step) {
            const outcome o = run_with_failure(opts, exec, k, (sw_fault_mode)mode, &hit);
            CU_ASSERT_PTR_NOT_NULL_FATAL(o.history);
            SW_CHECK(strcmp(o.history, whole.history) == 0 && o.sum == whole.sum, "call %d",
                     (int)k);
        }
        CU_ASSERT(k > 50);
    }
}

/* ---- what is there ------------------------------------------------------------------------
 */

typedef struct {
    char *texts; /* of the generations' files: the names of states that they need */
    int states, unknown;
} states;

static void name_states(const char *dir, const char *file, uint64_t generation, states *s)
{
    char path[1100];
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    size_t n;
    char *text = evo_read(path, &n);
    char at[60];
    (void)snprintf(at, sizeof at, "\"generation\":%d,\"next_id\"", (int)generation);
    SW_CHECK(strstr(text, at) != NULL, "%s is not of generation %d", path, (int)generation);
    const char *best = strstr(text, "\"best\":[");
    CU_ASSERT_PTR_NOT_NULL_FATAL(best);
    for (const char *m = text; (m = strstr(m, "{\"id\":")) != NULL; m++) {
        const char *of = strstr(m, "\"state\":[");
        CU_ASSERT_PTR_NOT_NULL_FATAL(of);
        const int id = atoi(m + 6), g = atoi(of + 9);
        const size_t used = strlen(s->texts);
        if (m < best)
            (void)sprintf(s->texts + used, " member-%d-%d.state ", id, g);
        else
            (void)sprintf(s->texts + used, " best-%d-%d.state  spare-%d-%d.state ", id, g, id,
                          g);
    }
}

static bool is_named(void *context, const char *name)
{
    states *s = context;
    char word[300];
    (void)snprintf(word, sizeof word, " %s ", name);
    s->states++;
    if (strstr(s->texts, word) == NULL)
        SW_CHECK(s->unknown++ < 0, "%s is needed by none", name);
    return true;
}

/* A folder has the states that its two generations need, all of them and nothing else. */
static void two_generations_are_there(const char *dir, uint64_t generation)
{
    static char texts[10000];
    states s = {.texts = texts};
    char path[1100];
    texts[0] = '\0';
    name_states(dir, "generation.json", generation, &s);
    name_states(dir, "generation.json.1", generation - 1, &s);
    (void)snprintf(path, sizeof path, "%s/members", dir);
    OK(sw_folder_for_each(path, is_named, &s));
    SW_CHECK(s.states >= 2 * 6 + (generation > 1 ? 2 : 0) && s.states <= 2 * 6 + 4,
             "generation %d: %d states", (int)generation, s.states);
    for (char *at = texts, *end; (at = strchr(at, ' ')) != NULL; at = end) {
        while (*at == ' ')
            at++;
        end = at + strcspn(at, " ");
        if (*at == '\0')
            break;
        (void)snprintf(path, sizeof path, "%s/members/%.*s", dir, (int)(end - at), at);
        SW_CHECK(sw_file_there(path), "%s is not there", path);
    }
}

/* Runs that are ended anywhere leave nothing that the next one does not take away. */
SW_TEST("two generations are kept, and nothing else")
{
    const evo_data data = evo_digits(64, 16);
    sw_exec *exec = evo_exec(1, NULL);
    const char *dir = evo_folder();
    const sw_evolution_opts opts = EVO_OPTS(&data, .dir = dir);
    for (int round = 0; round < 6; round++) {
        sw_evolution *e = NULL;
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        int found;
        OK(sw_evolution_create(&e, exec, &opts));
        OK(sw_evolution_resume(e, &found));
        for (int i = 0; i < 5 + 4 * round; i++) {
            CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
            if (i == 0 && p.generation > 0)
                two_generations_are_there(dir, p.generation);
        }
        while (p.what != SW_EVOLVE_GENERATION)
            CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        two_generations_are_there(dir, p.generation);
        for (int i = 0; i < 3 * round; i++) /* somewhere in the middle */
            CU_ASSERT_FATAL(OK(sw_evolution_advance(e, &p)));
        sw_evolution_destroy(e);
    }
}

/* ---- options ------------------------------------------------------------------------------
 */

/* A run of one generation in a new folder. */
static const char *short_run(const evo_data *data, sw_exec *exec, sw_evolution_opts *opts)
{
    static char dir[1024];
    sw_evolution *e = NULL;
    (void)snprintf(dir, sizeof dir, "%s", evo_folder());
    *opts = EVO_OPTS(data);
    opts->dir = dir;
    OK(sw_evolution_create(&e, exec, opts));
    evo_run(e, 1);
    sw_evolution_destroy(e);
    return dir;
}

SW_TEST("other options are named")
{
    const evo_data data = evo_digits(64, 16), more = evo_digits(80, 16);
    const sw_selection all = {.kind = SW_SELECT_SUS, .n = 6};
    const sw_fitness loss = {.kind = SW_FITNESS_LOSS};
    const sw_mutation rate = {.kind = SW_MUTATE_RATE, .probability = 1};
    const sw_net_opts net_opts = SW_OPTS(sw_net_opts, .utility_rate = 0.5f);
    sw_exec *exec = evo_exec(1, NULL);
    sw_evolution_opts good, opts;
    sw_evolution *e = NULL;
    int found = 7;
    (void)short_run(&data, exec, &good);
#define OTHER(change, part)                                                                    \
    opts = good;                                                                               \
    change;                                                                                    \
    OK(sw_evolution_create(&e, exec, &opts));                                                  \
    REFUSED(sw_evolution_resume(e, &found), SW_INVALID, "another " part);                      \
    sw_evolution_destroy(e)
    OTHER(opts.seed++, "seed");
    OTHER(opts.samples++, "samples");
    OTHER(opts.population = 5, "population");
    OTHER(opts.validation_samples = 15, "validation_samples");
    OTHER(opts.mutate = 0.7, "mutate");
    OTHER(opts.crossover = 0.7, "crossover");
    OTHER(opts.candidate_bytes = 1 << 20, "candidate_bytes");
    OTHER(opts.generation_ns = 1, "generation_ns");
    OTHER(opts.step_ns = 1, "step_ns");
    OTHER(opts.patience = 3, "patience");
    OTHER(opts.train = more.train, "data");
    OTHER(opts.space = evo_dense_space(), "space");
    OTHER(opts.net = &net_opts, "net");
    OTHER((opts.selections = &all, opts.n_selections = 1), "selections");
    OTHER((opts.fitness = &loss, opts.n_fitness = 1), "fitness");
    OTHER((opts.mutations = &rate, opts.n_mutations = 1), "mutations");
    CU_ASSERT_EQUAL(found, 7);
    opts = good;
    opts.dir = evo_folder();
    OK(sw_evolution_create(&e, exec, &opts));
    OK(sw_evolution_resume(e, &found)); /* nothing is there */
    CU_ASSERT_EQUAL(found, 0);
    sw_evolution_destroy(e);
}
