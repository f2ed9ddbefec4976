/* Calls from callbacks: each callback of the library, and in it each function that takes an
 * object. Both lists are made from <stepwell.h> (generate.py). Each pair has a process of its
 * own, so that a crash or an endless call is a failure by name. */
#define SW_TABLE
#include "alloc/base/handle.h"
#include "tests/callbacks/fixture.h"
#include "callbacks_functions.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("callbacks")

enum { N_ROWS = sizeof rows / sizeof *rows, SECONDS = 20 };

/* The results that a child leaves. */
typedef struct {
    bool made, called, failed, ended;
    int status, outer;
    char text[512], outer_text[512];
} result;

static result *shared;

static void child(const scene *s, const row *r, int answer)
{
    static fixture f;
    f = (fixture)SW_INIT(.row = r, .answer = answer, .type = s->type,
                         .threads = strstr(s->name, "any thread") != NULL ? 2 : 1);
    alarm(SECONDS);
    shared->made = fixture_make(&f, s->needs | (r != NULL ? r->of : 0));
    if (!shared->made) {
        snprintf(shared->text, sizeof shared->text, "%s", sw_last_error());
        _exit(1);
    }
    shared->outer = s->run(&f);
    snprintf(shared->outer_text, sizeof shared->outer_text, "%s", sw_last_error());
    shared->called = f.called;
    shared->failed = f.failed;
    shared->status = f.status;
    snprintf(shared->text, sizeof shared->text, "%s", f.text);
    fixture_end(&f);
    shared->ended = true;
    _exit(0);
}

/* How the child ended; false where it crashed or did not end, which is a failure. */
static bool run(const scene *s, const row *r, int answer)
{
    int how;
    if (shared == NULL)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
    *shared = (result){.outer = -2};
    fflush(NULL);
    (void)sw_temp_path(""); /* a folder that the child makes would stay */
    const pid_t pid = fork();
    if (pid == 0)
        child(s, r, answer);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    const char *name = r != NULL ? r->name : "nothing";
    if (!SW_CHECK(!WIFSIGNALED(how), "%s: %s: %s", s->name, name,
                  WTERMSIG(how) == SIGALRM ? "does not end" : strsignal(WTERMSIG(how))))
        return false;
    return SW_CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0 && shared->ended && shared->called,
                    "%s: %s: made %d, called %d, ended %d, %d: %s %s", s->name, name,
                    shared->made, shared->called, shared->ended, shared->outer, shared->text,
                    shared->outer_text);
}

static bool is_busy(void)
{
    return shared->status == SW_BUSY || strstr(shared->text, "in use by") != NULL ||
           strstr(shared->text, "nothing must be destroyed") != NULL;
}

/* Functions that only look, although what they look at is not const, or do nothing any more. */
static bool looks(const row *r)
{
    static const char *const those[] = {"sw_es_sigma", "sw_evolution_member",
                                        "sw_evolution_best", "sw_evolution_rebuild"};
    for (size_t i = 0; i < sizeof those / sizeof *those; i++)
        if (strcmp(those[i], r->name) == 0)
            return true;
    return false;
}

/* By value: reading and writing a member, and what it counts, is for its callback. */
static bool is_of_a_member(const row *r)
{
    static const char *const may[] = {"sw_member_read",     "sw_member_write",
                                      "sw_member_knob_set", "sw_member_knob_get",
                                      "sw_member_progress", "sw_member_progress_set",
                                      "sw_member_seed",     "sw_member_seed_set",
                                      "sw_member_pack",     "sw_member_to_model"};
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (strcmp(may[i], r->name) == 0)
            return true;
    return false;
}

static void check_pair(const scene *s, const row *r)
{
    if (!run(s, r, SW_OK))
        return;
    SW_CHECK(shared->outer >= -1 && shared->outer <= SW_STOPPED, "%s: %s: %d", s->name, r->name,
             shared->outer);
    const bool ends_used = r->ends && (r->of & (s->uses | s->keeps)) != 0;
    const bool ends_any = r->ends && s->closed && (r->of & (BUDGET | DATASET)) == 0;
    const bool changes = !r->ends && (r->changes & s->uses) != 0 && !looks(r) &&
                         !((s->uses & MEMBERS) && is_of_a_member(r));
    if (ends_used || ends_any || changes)
        SW_CHECK(is_busy(), "%s: %s is not refused: %s %s", s->name, r->name,
                 sw_status_name((sw_status)shared->status), shared->text);
    else if ((r->of & s->uses) != 0 && s->uses != PBT)
        SW_CHECK(!is_busy(), "%s: %s is refused: %s", s->name, r->name, shared->text);
    else if (r->ends && !s->closed)
        SW_CHECK(!shared->failed, "%s: %s: %s", s->name, r->name, shared->text);
}

/* All of them, or in quick mode those that destroy what the callback's call uses, a fifth of
 * those that concern it otherwise, and a share of the others, another one for each callback. */
SW_TEST("pairs neither crash nor hang, and what is in use is refused")
{
    size_t n = 0;
    for (size_t k = 0; k < n_scenes; k++)
        for (size_t i = 0; i < N_ROWS; i++) {
            const scene *s = &scenes[k];
            const bool ends = rows[i].ends && (rows[i].of & (s->uses | s->keeps)) != 0;
            const size_t share = (rows[i].of & s->uses) != 0 ? 5 : 5 * n_scenes;
            if (sw_tests_full() || ends || i % share == k % share) {
                check_pair(s, &rows[i]);
                n++;
            }
        }
    sw_note("%zu of %zu pairs", n, n_scenes * N_ROWS);
}

/* ---- what works -------------------------------------------------------------------------- */

static const struct {
    const char *scene, *functions[9];
} allowed[] = {
    {"a step function, traced",
     {"sw_knob_set", "sw_param_name", "sw_budget_destroy", "sw_dataset_destroy",
      "sw_dataset_describe"}},
    {"a step function with noise", {"sw_es_rows", "sw_es_sigma"}},
    {"shares of the last run", {"sw_param_read"}},
    {"a member",
     {"sw_members_count", "sw_members_used", "sw_member_read", "sw_member_write",
      "sw_member_knob_get", "sw_member_progress", "sw_member_seed"}},
    {"a member on any thread", {"sw_member_read", "sw_members_bytes"}},
    {"custom", {"sw_space_draw", "sw_run"}},
    {"shape",
     {"sw_es_generation", "sw_es_sigma", "sw_es_slices", "sw_es_bytes", "sw_param_read",
      "sw_param_write", "sw_run", "sw_zo_steps"}},
    {"progress of a replay", {"sw_param_read", "sw_model_save", "sw_plan"}},
    {"filter", {"sw_genome_describe", "sw_genome_save"}},
    {"record", {"sw_genome_copy", "sw_search_space_text"}},
    {"fits", {"sw_genome_price", "sw_genome_describe"}},
    {"edit", {"sw_genome_price", "sw_genome_copy", "sw_genome_child"}},
    {"stop",
     {"sw_evolution_count", "sw_evolution_used", "sw_run", "sw_param_freeze",
      "sw_genome_destroy"}},
    {"fitness", {"sw_genome_price", "sw_run", "sw_net_destroy", "sw_genome_describe"}},
    {"parent", {"sw_evolution_count", "sw_evolution_best", "sw_evolution_member", "sw_run"}},
    {"map", {"sw_evolution_count"}},
    {"before",
     {"sw_checkpoint_bytes", "sw_profile_sync", "sw_loader_destroy", "sw_param_read"}},
    {"progress of images", {"sw_run", "sw_exec_destroy"}},
    {"report", {"sw_run", "sw_model_destroy"}},
};

static const scene *scene_of(const char *name)
{
    for (size_t k = 0; k < n_scenes; k++)
        if (strcmp(scenes[k].name, name) == 0)
            return &scenes[k];
    return NULL;
}

static const row *row_of(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

SW_TEST("allowed calls work")
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        for (const char *const *name = allowed[i].functions; *name != NULL; name++) {
            const scene *s = scene_of(allowed[i].scene);
            const row *r = row_of(*name);
            if (!SW_CHECK(s != NULL && r != NULL, "%s: %s", allowed[i].scene, *name) ||
                !run(s, r, SW_OK))
                continue;
            SW_CHECK(!shared->failed, "%s: %s: %d %s", s->name, r->name, shared->status,
                     shared->text);
            SW_CHECK(shared->outer == SW_OK, "%s: %s: the call around it: %d %s", s->name,
                     r->name, shared->outer, shared->outer_text);
        }
}

/* A destroyed or used object is named in the message, with the call that uses it. */
SW_TEST("refusals name object and call")
{
    static const struct {
        const char *scene, *function, *says;
    } of[] = {
        {"shape", "sw_es_step",
         "sw_es_step: the evolution strategy is in use by sw_es_step, whose `shape` "
         "made this call"},
        {"shape", "sw_es_destroy",
         "sw_es_destroy: the evolution strategy is in use by sw_es_step"},
        {"shape", "sw_exec_destroy", "sw_exec_destroy: the exec is in use by sw_es_step"},
        {"stop", "sw_evolution_destroy",
         "sw_evolution_destroy: the evolution is in use by sw_evolution_advance"},
        {"fitness", "sw_evolution_advance",
         "sw_evolution_advance: the evolution is in use by sw_evolution_advance"},
        {"before", "sw_checkpoint_destroy",
         "sw_checkpoint_destroy: the checkpoint is in use by a save"},
        {"before", "sw_model_destroy", "sw_model_destroy: the model is in use by a save"},
        {"custom", "sw_pbt_destroy",
         "sw_pbt_destroy: the population is in use by sw_pbt_next_event"},
        {"a member", "sw_member_new", "sw_member_new: the group of members is in use by"},
        {"fitness", "sw_genome_destroy",
         "sw_genome_destroy: the genome is in use by sw_evolution_advance"},
        {"record", "sw_genome_destroy",
         "sw_genome_destroy: the genome is in use by sw_genome_mutate"},
        {"progress of a replay", "sw_zo_replay", "sw_zo_replay: the model is in use by"},
        {"a step function, traced", "sw_param_freeze", "model net is in use by this thread"},
        {"a step function with noise", "sw_es_generation_set",
         "sw_es_generation_set: the evolution strategy is in use by a run"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const scene *s = scene_of(of[i].scene);
        const row *r = row_of(of[i].function);
        if (SW_CHECK(s != NULL && r != NULL, "row %zu", i) && run(s, r, SW_OK))
            SW_CHECK(strstr(shared->text, of[i].says) != NULL, "'%s' is not in '%s'",
                     of[i].says, shared->text);
    }
}

/* ---- what callbacks return --------------------------------------------------------------- */

SW_TEST("an unknown status is invalid, with its number")
{
    static const int wrong[] = {55, -1, SW_STOPPED + 1};
    for (size_t k = 0; k < n_scenes; k++)
        for (size_t i = 0; i < 3 && scenes[k].answers; i++) {
            const char *number = sw_textf("(got %d)", wrong[i]);
            if (!run(&scenes[k], NULL, wrong[i]))
                continue;
            SW_CHECK(shared->outer == SW_INVALID &&
                         strstr(shared->outer_text, "must return an sw_status") != NULL &&
                         strstr(shared->outer_text, number) != NULL,
                     "%s: %d becomes %d: %s", scenes[k].name, wrong[i], shared->outer,
                     shared->outer_text);
        }
}

static void failing_step(sw_ctx *ctx, void *user)
{
    sw_fail(ctx, (sw_status) * (const int *)user, "by the program");
}

SW_TEST("a step function fails with a status")
{
    static const int of[] = {SW_IO, 55, -1};
    sw_exec *exec = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    for (size_t i = 0; i < 3; i++) {
        int status = of[i];
        const sw_run_args args = SW_OPTS(sw_run_args, .fn = failing_step, .user = &status);
        const sw_status ran = sw_run(exec, &args);
        SW_CHECK(ran == (i == 0 ? SW_IO : SW_INVALID), "%d becomes %d", of[i], (int)ran);
        SW_CHECK(strstr(sw_last_error(), i == 0   ? "by the program"
                                         : i == 1 ? "must be an sw_status (got 55)"
                                                  : "must be an sw_status (got -1)") != NULL,
                 "%s", sw_last_error());
    }
    sw_exec_destroy(exec);
}

SW_TEST("a status is passed on")
{
    for (size_t k = 0; k < n_scenes; k++)
        for (int answer = SW_INVALID; answer <= SW_STOPPED && scenes[k].answers; answer++)
            if (run(&scenes[k], NULL, answer))
                SW_CHECK(shared->outer == answer, "%s: %d becomes %d: %s", scenes[k].name,
                         answer, shared->outer, shared->outer_text);
}

/* A call that is not in the list ends no other one. Builds with checks stop there. */
SW_TEST("a call ends itself alone")
{
#if SW_CHECKS >= 1
    SW_SKIP("the build has checks");
#else
    static int object;
    sw_call a = {.name = "a"}, b = {.name = "b"};
    const void *of[] = {&object};
    a.uses = (sw_call_objects){of, 1};
    CU_ASSERT_EQUAL_FATAL(sw_call_begin(&a, SW_FRAME), SW_OK);
    CU_ASSERT_EQUAL(sw_call_end(&b, SW_OK), SW_OK);
    CU_ASSERT_EQUAL(sw_call_may_use(&object, "object", "test"), SW_BUSY);
    CU_ASSERT_EQUAL(sw_call_end(&a, SW_OK), SW_OK);
    CU_ASSERT_EQUAL(sw_call_may_use(&object, "object", "test"), SW_OK);
#endif
}

/* ---- the list ---------------------------------------------------------------------------- */

/* Each type of callback has a scene, or a reason why not. */
SW_TEST("every callback is there")
{
    static const struct {
        const char *type, *why;
    } without[] = {
        {"sw_par.run", "the library's, for kernels"},
        {"sw_interrupt_set.asked", "may only look at a flag: any thread calls it"},
        {"sw_grad_desc.scratch_bytes", "of ops, as infer"},
        {"sw_grad_desc.select", "of ops, as infer"},
        {"sw_grad_desc.operations", "of ops, as infer"},
        {"sw_grad_desc.applies", "of ops, as infer"},
        {"sw_op_desc.layout", "of ops, as infer"},
        {"sw_op_desc.scratch_bytes", "of ops, as infer"},
        {"sw_op_desc.select", "of ops, as infer"},
        {"sw_op_desc.view", "of ops, as infer"},
        {"sw_op_desc.rule", "of ops, as a step function"},
        {"sw_op_desc.reference", "of checks, which use no object of the caller's"},
        {"sw_op_desc.operations", "of ops, as infer"},
        {"sw_op_desc.unread", "of ops, as infer"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bool there = false;
        for (size_t k = 0; k < n_scenes; k++)
            there |= strcmp(scenes[k].type, types[i]) == 0;
        for (size_t k = 0; k < sizeof without / sizeof *without; k++)
            there |= strcmp(without[k].type, types[i]) == 0;
        SW_CHECK(there, "%s has neither a scene nor a reason why not", types[i]);
    }
}

/* ---- what the library ends itself -------------------------------------------------------- */

static sw_exec *idle; /* of these tests: not that of the call around them */
static void *made[16];
static uint64_t n_sites;

static sw_status make_exec(fixture *f, void **out)
{
    return sw_exec_create((sw_exec **)out, NULL);
}

static sw_status make_group(fixture *f, void **out)
{
    const sw_members_opts o = SW_OPTS(sw_members_opts, .shape = sw_net_model(f->net),
                                      .fn = sw_net_step, .user = f->net, .threads = 1);
    return sw_members_create((sw_members **)out, idle, &o);
}

static sw_status make_net(fixture *f, void **out)
{
    return sw_net_create((sw_net **)out, f->genome, NULL);
}

static sw_status make_price(fixture *f, void **out)
{
    return sw_genome_price(f->genome, idle, NULL, SW_U8, &SW_OPTS(sw_price));
}

static sw_status make_child(fixture *f, void **out)
{
    const sw_mutation all = {.kind = SW_MUTATE_RATE, .probability = 1};
    const sw_mutate_opts o = SW_OPTS(sw_mutate_opts, .mutations = &all, .n_mutations = 1);
    return sw_genome_mutate((sw_genome **)out, f->genome, &o);
}

static sw_status make_search_space(fixture *f, void **out)
{
    const sw_task task =
        SW_OPTS(sw_task, .channels = 1, .height = 28, .width = 28, .classes = 10);
    return sw_search_space_default((sw_search_space **)out, &task);
}

static sw_status explore(int of, const double *donors, double *values, int n, void *user)
{
    return SW_OK;
}

static sw_status make_population(fixture *f, void **out)
{
    const sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = f->space, .members = 4, .interval = 1,
                                  .synch = 1, .custom = explore);
    return sw_pbt_create((sw_pbt **)out, &o);
}

static sw_status make_evolution(fixture *f, void **out)
{
    const sw_evolution_opts o =
        SW_OPTS(sw_evolution_opts, .train = f->train, .validation = f->train, .samples = 64,
                .validation_samples = 8);
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress, .generation = 0);
    sw_status status = SW_OK;
    if (*out == NULL)
        SW_TRY(sw_evolution_create((sw_evolution **)out, idle, &o));
    while (status == SW_OK && p.generation < 2)
        status = sw_evolution_advance(*out, &p);
    return status;
}

static void say_nothing(void *to, const char *line)
{
}

static sw_status make_check(fixture *f, void **out)
{
    uint32_t checks, failures, id;
    for (id = 1; sw_op_check(id, say_nothing, NULL, &checks, &failures) == SW_INVALID;)
        id++;
    return failures == 0 ? SW_OK : SW_INVALID;
}

#define ENDS(type)                                                                             \
    static void end_##type(void *object)                                                       \
    {                                                                                          \
        sw_##type##_destroy(object);                                                           \
    }
ENDS(exec)
ENDS(members)
ENDS(net)
ENDS(genome)
ENDS(search_space)
ENDS(pbt)
ENDS(evolution)

/* stride: of the allocations that fail; 0: none. */
static const struct {
    const char *name;
    sw_status (*make)(fixture *f, void **out);
    void (*end)(void *object);
    unsigned stride;
} makes[] = {
    {"an exec", make_exec, end_exec, 1},
    {"a group", make_group, end_members, 1},
    {"a net", make_net, end_net, 1},
    {"a price", make_price, NULL, 7},
    {"a child", make_child, end_genome, 1},
    {"a search space", make_search_space, end_search_space, 1},
    {"a population", make_population, end_pbt, 1},
    {"a check of an op", make_check, NULL, 0},
    {"an evolution", make_evolution, end_evolution, 0},
};
enum { N_MAKES = sizeof makes / sizeof *makes };

/* It fails at every allocation and leaves nothing, then it is made. */
static sw_status sweep(fixture *f, size_t i)
{
    for (uint64_t k = 0; makes[i].stride != 0; k += makes[i].stride) {
        const uint64_t blocks = sw_heap_blocks();
        sw_fault_plan(SW_FAULT_MEMORY, k, SW_FAULT_ONCE);
        const sw_status status = makes[i].make(f, &made[i]);
        const bool reached = sw_fault_calls(SW_FAULT_MEMORY) > k;
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        if (!reached || status == SW_OK)
            return status;
        n_sites++;
        if (sw_heap_blocks() != blocks)
            SW_FAIL(SW_FORMAT, "%s leaks %d blocks, site %d: %s", makes[i].name,
                    (int)(sw_heap_blocks() - blocks), (int)k, f->text);
    }
    return makes[i].make(f, &made[i]);
}

static void making_step(sw_ctx *ctx, void *user)
{
    fixture *f = user;
    sw_search_space *bad = NULL;
    sw_status status = SW_OK;
    for (size_t i = 0; i < N_MAKES && status == SW_OK; i++)
        status = sweep(f, i);
    const uint64_t blocks = sw_heap_blocks();
    if (status == SW_OK && sw_search_space_parse(&bad, "{", 1, "bad text") == SW_OK)
        status = SW_INVALID;
    if (status == SW_OK && sw_heap_blocks() != blocks)
        status = SW_FORMAT;
    f->called = true;
    if (status != SW_OK)
        sw_fail(ctx, status, sw_last_error());
}

static sw_status make_all(fixture *f)
{
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = making_step, .user = f);
    const sw_status status = sw_run(f->exec, &args);
    for (size_t i = 0; i < N_MAKES; i++) {
        if (makes[i].end != NULL)
            makes[i].end(made[i]);
        made[i] = NULL;
    }
    return status;
}

static int own_ends(fixture *f)
{
    SW_TRY(sw_exec_create(&idle, &SW_OPTS(sw_exec_opts, .threads = 2)));
    SW_TRY(make_all(f)); /* what is kept for the next time is there */
    const uint64_t blocks = sw_heap_blocks();
    SW_TRY(make_all(f));
    if (sw_heap_blocks() != blocks || n_sites < 60)
        SW_FAIL(SW_FORMAT, "%d blocks are left, %d sites", (int)(sw_heap_blocks() - blocks),
                (int)n_sites);
    sw_exec_destroy(idle);
    return SW_OK;
}

SW_TEST("the library ends what is its own")
{
    const scene s = SW_INIT(.name = "a step function that makes all", .type = "sw_step_fn",
                            .needs = GENOME | NET | SPACE | EVOLUTION, .run = own_ends);
    if (run(&s, NULL, SW_OK))
        SW_CHECK(shared->outer == SW_OK, "%d: %s", shared->outer, shared->outer_text);
}

/* A net with a model that is kept is not destroyed, nor half of it. */
static sw_status end_net_before(void *user)
{
    fixture *f = user;
    sw_net_destroy(f->net);
    snprintf(f->text, sizeof f->text, "%s", sw_last_error());
    f->called = true;
    return SW_OK;
}

static int save_net(fixture *f)
{
    sw_model *model = sw_net_model(f->net);
    const sw_checkpoint_opts o = SW_OPTS(sw_checkpoint_opts, .path = f->path, .models = &model,
                                         .n_models = 1, .before = end_net_before, .user = f);
    sw_checkpoint *c = NULL;
    SW_TRY(sw_model_ready(model, f->exec, 1));
    SW_TRY(sw_checkpoint_create(&c, f->exec, &o));
    const sw_status status = sw_checkpoint_save(c, 1);
    sw_checkpoint_destroy(c);
    if (sw_net_model(f->net) == NULL)
        return SW_STALE;
    return (int)status;
}

SW_TEST("a net is kept with its model")
{
    const scene s = SW_INIT(.name = "before, of a net", .type = "sw_checkpoint_opts.before",
                            .needs = NET, .run = save_net);
    if (!run(&s, NULL, SW_OK))
        return;
    SW_CHECK(shared->outer == SW_OK, "%d: %s", shared->outer, shared->outer_text);
    SW_CHECK(strstr(shared->text, "sw_net_destroy: the model is in use by a save") != NULL,
             "%s", shared->text);
}
