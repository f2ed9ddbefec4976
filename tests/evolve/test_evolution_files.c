/* Searches that stop, are damaged, and go on from their files. */
#include "alloc/base/fault.h"
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"
#include "tests/support/files.h"

SW_TESTS("evolution files")

static int count_down(void *user)
{
    return --*(int *)user < 0;
}

typedef struct {
    char *history;
    uint64_t sum;
} outcome;

static bool same(outcome a, outcome b)
{
    return a.history != NULL && strcmp(a.history, b.history) == 0 && a.sum == b.sum;
}

/* To the end, in the folder of the opts; where `resumes`, from what is there. note: what must
 * be named, "" nothing, NULL: anything. */
static outcome to_the_end(sw_exec *exec, const sw_evolution_opts *opts, bool resumes,
                          const char *note)
{
    sw_evolution *e = NULL;
    int found;
    OK(sw_evolution_create(&e, exec, opts));
    if (resumes)
        OK(sw_evolution_resume(e, &found));
    evo_run(e, UINT64_MAX);
    if (note != NULL)
        SW_CHECK(*note == '\0' ? e->notes[0] == '\0' : strstr(e->notes, note) != NULL,
                 "'%s' names no %s", e->notes, note);
    const outcome o = {evo_history(opts->dir), evo_sum(e)};
    sw_evolution_destroy(e);
    return o;
}

/* One that is stopped after so many calls, thrown away and begun anew, again and again. */
static outcome interrupted(sw_exec *exec, sw_evolution_opts opts, int calls)
{
    outcome o = {NULL, 0};
    int left = calls, found = 0;
    opts.dir = evo_folder();
    opts.stop = count_down;
    opts.stop_user = &left;
    for (int again = 0; o.history == NULL && again < 1000; again++) {
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        sw_evolution *e = NULL;
        OK(sw_evolution_create(&e, exec, &opts));
        OK(sw_evolution_resume(e, &found));
        SW_CHECK(found == (again > 0) && *sw_last_note() == '\0', "found %d", found);
        left = calls + again; /* it gets somewhere */
        while (p.what != SW_EVOLVE_STOPPED && p.what != SW_EVOLVE_ENDED &&
               OK(sw_evolution_advance(e, &p)))
            ;
        if (p.what == SW_EVOLVE_ENDED)
            o = (outcome){evo_history(opts.dir), evo_sum(e)};
        sw_evolution_destroy(e);
    }
    return o;
}

SW_TEST("resuming is never having stopped")
{
    const evo_data data = evo_digits(256, 64);
    sw_exec *exec = evo_exec(1, NULL);
    static const int calls[] = {1, 3, 7, 20};
    const sw_evolution_opts opts = EVO_OPTS(&data, .dir = evo_folder());
    const outcome whole = to_the_end(exec, &opts, false, "");
    for (int i = 0; i < (sw_tests_full() ? 4 : 2); i++)
        CU_ASSERT(same(interrupted(exec, opts, calls[i]), whole));
}

/* A search that has ended is found again as it was. */
SW_TEST("an ended search is the same again")
{
    const evo_data data = evo_digits(64, 16);
    sw_exec *exec = evo_exec(1, NULL);
    const sw_evolution_opts opts = EVO_OPTS(&data, .dir = evo_folder());
    const outcome whole = to_the_end(exec, &opts, false, "");
    sw_evolution *e = NULL;
    sw_candidate best = SW_OPTS(sw_candidate);
    sw_net *made = NULL;
    int found;
    OK(sw_evolution_create(&e, exec, &opts));
    OK(sw_evolution_resume(e, &found));
    CU_ASSERT(found == 1 && evo_sum(e) == whole.sum);
    OK(sw_evolution_best(e, &best));
    OK(sw_net_copy(&made, e, UINT32_MAX));
    sw_net_destroy(made);
    sw_evolution_destroy(e);
    /* The state of the answer is trained again where it is damaged. */
    char path[1100];
    (void)snprintf(path, sizeof path, "%s/members/%d-2.state", opts.dir, (int)best.id);
    for (int gone = 0; gone < 2; gone++) {
        if (gone)
            OK(sw_file_remove(path));
        else
            sw_file_put(path, "x", 1);
        CU_ASSERT(same(to_the_end(exec, &opts, true, ".state"), whole));
    }
}

/* ---- failures ---------------------------------------------------------------------------- */

/* A run to the end, with a failure of file call k, or of all from there on until the process
 * ends; then it is begun anew. *hit: it failed. */
static outcome run_with_failure(sw_evolution_opts opts, sw_exec *exec, uint64_t k,
                                sw_fault_mode mode, bool *hit)
{
    outcome o = {NULL, 0};
    opts.dir = evo_folder();
    *hit = false;
    sw_fault_plan(SW_FAULT_FILE, k, mode);
    for (int again = 0; again < 3 && o.history == NULL; again++) {
        sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
        sw_evolution *e = NULL;
        int found;
        OK(sw_evolution_create(&e, exec, &opts));
        sw_status status = sw_evolution_resume(e, &found);
        const bool resumed = status == SW_OK;
        while (status == SW_OK && p.what != SW_EVOLVE_ENDED)
            status = sw_evolution_advance(e, &p);
        *hit |= sw_fault_hits(SW_FAULT_FILE) > 0;
        if (status == SW_OK || mode == SW_FAULT_FROM)
            sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
        if (status == SW_OK) {
            o = (outcome){evo_history(opts.dir), evo_sum(e)};
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
    const sw_evolution_opts opts = EVO_OPTS(&data, .samples = 72);
    sw_exec *exec = evo_exec(1, NULL);
    bool hit;
    const outcome whole = run_with_failure(opts, exec, UINT64_MAX / 2, SW_FAULT_ONCE, &hit);
    CU_ASSERT_FALSE(hit);
    for (int mode = SW_FAULT_ONCE; mode <= SW_FAULT_FROM; mode++) {
        const uint64_t step = sw_tests_full() ? 1 : mode == SW_FAULT_ONCE ? 13 : 17;
        uint64_t k = 0;
        for (hit = true; hit && k < 2000; k += step)
            SW_CHECK(same(run_with_failure(opts, exec, k, (sw_fault_mode)mode, &hit), whole),
                     "call %d", (int)k);
        CU_ASSERT(k > 50);
    }
}

/* ---- damage ------------------------------------------------------------------------------ */

typedef struct {
    sw_exec *exec;
    sw_evolution_opts opts;
    evo_tree tree; /* of a run that was ended in the middle */
    outcome whole;
} scene;

static void new_scene(scene *s, const evo_data *data)
{
    sw_evolution *e = NULL;
    s->exec = evo_exec(1, NULL);
    s->opts = EVO_OPTS(data, .dir = evo_folder());
    OK(sw_evolution_create(&e, s->exec, &s->opts));
    evo_run(e, 12);
    evo_tree_take(&s->tree, s->opts.dir);
    sw_evolution_destroy(e);
    s->whole = to_the_end(s->exec, &s->opts, true, "");
}

static const char *name_of(const scene *s, int file)
{
    return s->tree.path[file] + strlen(s->opts.dir) + 1;
}

/* The undamaged files, but for this one. */
static void damage(const scene *s, int file, const char *bytes, size_t n)
{
    evo_tree_put(&s->tree, s->opts.dir);
    if (bytes == NULL)
        OK(sw_file_remove(s->tree.path[file]));
    else
        sw_file_put(s->tree.path[file], bytes, n);
}

/* Each file, with each byte of the history and some of each state flipped, cut, empty or gone:
 * the run ends as if nothing had happened. */
SW_TEST("damage ends no run")
{
    const evo_data data = evo_digits(64, 16);
    static scene s;
    int states = 0, looked = 0;
    new_scene(&s, &data);
    for (int file = 0; file < s.tree.n; file++) {
        const char *name = name_of(&s, file);
        const bool history = strcmp(name, "history.jsonl") == 0;
        const size_t n = s.tree.size[file], step = history && sw_tests_full() ? 7 : n / 5;
        const size_t head = history ? strcspn(s.tree.bytes[file], "\n") + 1 : 0;
        char *bytes = sw_block(n + 1);
        states += !history;
        for (size_t at = head; at < n; at += at + 1 < n && at + step >= n ? n - 1 - at : step) {
            memcpy(bytes, s.tree.bytes[file], n);
            bytes[at] = (char)(bytes[at] ^ 1 << at % 7);
            damage(&s, file, bytes, n);
            SW_CHECK(same(to_the_end(s.exec, &s.opts, true, NULL), s.whole), "%s byte %zu",
                     name, at);
            damage(&s, file, s.tree.bytes[file], at);
            SW_CHECK(same(to_the_end(s.exec, &s.opts, true, NULL), s.whole), "%s cut at %zu",
                     name, at);
            looked++;
        }
        damage(&s, file, NULL, 0);
        SW_CHECK(same(to_the_end(s.exec, &s.opts, history == 0, NULL), s.whole), "%s gone",
                 name);
    }
    CU_ASSERT(states > 2 && looked > 15);
}

/* The lost part is named. */
SW_TEST("damage is named")
{
    const evo_data data = evo_digits(64, 16);
    static scene s;
    new_scene(&s, &data);
    int file = 0;
    while (strcmp(name_of(&s, file), "history.jsonl") != 0)
        file++;
    char *bytes = sw_block(s.tree.size[file]);
    memcpy(bytes, s.tree.bytes[file], s.tree.size[file]);
    bytes[s.tree.size[file] / 2] ^= 1;
    damage(&s, file, bytes, s.tree.size[file]);
    CU_ASSERT(
        same(to_the_end(s.exec, &s.opts, true, "history.jsonl is damaged at byte"), s.whole));
    sw_evolution *e = NULL;
    int found = 7;
    OK(sw_evolution_create(&e, s.exec, &s.opts));
    sw_file_put(s.tree.path[file], "{\"format\":\"stepwell search 0\",\"options\":{}}\n", 44);
    REFUSED(sw_evolution_resume(e, &found), SW_FORMAT, "its format is \"stepwell search 0\"");
    sw_evolution_destroy(e);
    OK(sw_evolution_create(&e, s.exec, &s.opts));
    sw_file_put(s.tree.path[file], "{\"generation\":0}\n", 17);
    REFUSED(sw_evolution_resume(e, &found), SW_FORMAT, "begin one in another folder");
    sw_evolution_destroy(e);
    CU_ASSERT_EQUAL(found, 7);
}

/* The folder has the states of those that may go on, and nothing else. */
static bool is_known(void *context, const char *name)
{
    sw_evolution *e = context;
    const int id = atoi(name);
    SW_CHECK(id > 0 && (uint32_t)id <= e->n && e->ones[id - 1]->rest.there, "%s", name);
    return true;
}

SW_TEST("states that are not needed go")
{
    const evo_data data = evo_digits(64, 16);
    const sw_evolution_opts opts = EVO_OPTS(&data, .dir = evo_folder());
    sw_exec *exec = evo_exec(1, NULL);
    char path[1100];
    (void)snprintf(path, sizeof path, "%s/members", opts.dir);
    for (uint64_t k = 4; k < 40; k += 5) {
        sw_evolution *e = NULL;
        int found;
        OK(sw_evolution_create(&e, exec, &opts));
        OK(sw_evolution_resume(e, &found));
        evo_run(e, k);
        OK(sw_folder_for_each(path, is_known, e));
        sw_evolution_destroy(e);
        char stray[1200];
        (void)snprintf(stray, sizeof stray, "%s/900-1.state", path);
        sw_file_put(stray, "x", 1);
    }
}

/* ---- options ----------------------------------------------------------------------------- */

SW_TEST("other options are named")
{
    const evo_data data = evo_digits(64, 16), more = evo_digits(80, 16);
    const sw_fitness loss = {.kind = SW_FITNESS_LOSS};
    const sw_mutation rate = {.kind = SW_MUTATE_RATE, .probability = 1};
    const sw_net_opts net_opts = SW_OPTS(sw_net_opts, .utility_rate = 0.5f);
    sw_exec *exec = evo_exec(1, NULL);
    const sw_evolution_opts good = EVO_OPTS(&data, .dir = evo_folder());
    sw_evolution_opts opts;
    sw_evolution *e = NULL;
    int found = 7;
    OK(sw_evolution_create(&e, exec, &good));
    evo_run(e, 2);
    sw_evolution_destroy(e);
#define OTHER(change, part)                                                                    \
    opts = good;                                                                               \
    change;                                                                                    \
    OK(sw_evolution_create(&e, exec, &opts));                                                  \
    REFUSED(sw_evolution_resume(e, &found), SW_INVALID, "another " part);                      \
    sw_evolution_destroy(e)
    OTHER(opts.seed++, "seed");
    OTHER(opts.samples++, "samples");
    OTHER(opts.search = SW_SEARCH_RANDOM, "search");
    OTHER(opts.trainings = 7, "trainings");
    OTHER(opts.rungs = 2, "rungs");
    OTHER(opts.eta = 2, "eta");
    OTHER(opts.start = 7, "start");
    OTHER(opts.parents = 3, "parents");
    OTHER(opts.population = 5, "population");
    OTHER(opts.workers = 3, "workers");
    OTHER(opts.looks = 2, "looks");
    OTHER(opts.fresh = 0.5, "fresh");
    OTHER(opts.validation_samples = 15, "validation_samples");
    OTHER(opts.candidate_bytes = 1 << 20, "candidate_bytes");
    OTHER(opts.train = more.train, "data");
    OTHER(opts.space = evo_dense_space(), "space");
    OTHER(opts.net = &net_opts, "net");
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
