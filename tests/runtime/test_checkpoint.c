/* Checkpoints by the public header: a run goes on with the same bits, whatever it was saved and
 * loaded with; what does not fit is refused by name, when the checkpoint is made and not at
 * each save; failures leave the checkpoint before; files that are whole and cannot be. */
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include "tests/runtime/random_net.h"
#include "tests/runtime/saved_runs.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("checkpoint")

/* ---- going on ---------------------------------------------------------------------------- */

static const saved_opts plain = {.name = NULL};

/* A run of 9 steps beside one that is saved after 4 and goes on as another run. */
static void goes_on_as(const saved_opts *saved, const saved_opts *other, const char *what)
{
    saved_run *whole = saved_run_new(saved), *first = saved_run_new(saved);
    saved_run *second = saved_run_new(other);
    const char *path = sw_temp_path(what);
    saved_run_steps(whole, 9);
    saved_run_steps(first, 4);
    sw_checkpoint *c = saved_run_checkpoint(first, path, NULL);
    OK(sw_checkpoint_save(c, first->step));
    saved_checkpoint_end(c);
    saved_run_steps(second, 2); /* what it has before does not matter */
    saved_run_resume(second, saved_run_checkpoint(second, NULL, NULL), path);
    SW_CHECK(saved_run_same(first, second), "%s: the models differ when loaded", what);
    saved_run_steps(second, 5);
    SW_CHECK(saved_run_same(whole, second), "%s: the models differ 5 steps later", what);
}

SW_TEST("a run goes on with the same bits")
{
    goes_on_as(&plain, &plain, "the same");
    goes_on_as(&plain, &(saved_opts){.exec = {.threads = 3}}, "three threads");
    goes_on_as(&plain, &(saved_opts){.immediate = true}, "immediate");
    goes_on_as(&(saved_opts){.immediate = true}, &plain, "planned");
    goes_on_as(&plain, &(saved_opts){.seed = 99}, "other first parameters");
    goes_on_as(&plain, &(saved_opts){.exec = {.no_rebuild = 1, .no_inplace = 1}}, "passes off");
}

SW_TEST("every optimizer goes on")
{
    const saved_opts in8 = {.kind = "adamw", .state_bits = 8};
    goes_on_as(&in8, &in8, "adamw in 8 bits");
    for (size_t i = 0; sw_optimizer_kind(i) != NULL; i++) {
        const saved_opts opts = {.kind = sw_optimizer_kind(i)};
        goes_on_as(&opts, &opts, opts.kind);
    }
}

/* Saved between the micro-batches of a step: gradients that wait for their update are kept. */
SW_TEST("kept gradients go on")
{
    saved_run *whole = saved_run_new(NULL), *first = saved_run_new(NULL);
    saved_run *second = saved_run_new(NULL);
    const char *path = sw_temp_path("kept");
    saved_run_steps(whole, 5);
    saved_run_steps(first, 2);
    saved_run_micro(first);
    sw_checkpoint *c = saved_run_checkpoint(first, path, NULL);
    OK(sw_checkpoint_put(c, "micro", &first->micro, sizeof first->micro));
    OK(sw_checkpoint_save(c, first->step));
    saved_checkpoint_end(c);
    c = saved_run_checkpoint(second, NULL, NULL);
    saved_run_resume(second, c, path);
    const void *micro;
    size_t n;
    OK(sw_checkpoint_get(c, "micro", &micro, &n));
    CU_ASSERT_FATAL(n == sizeof second->micro);
    memcpy(&second->micro, micro, n);
    saved_run_micro(second);
    saved_run_steps(second, 2);
    CU_ASSERT(second->step == whole->step && saved_run_same(whole, second));
}

/* Steps that are trained while a save is written are not in it. */
SW_TEST("a save is of the step at which it was taken")
{
    saved_run *run = saved_run_new(NULL), *then = saved_run_new(NULL);
    const char *path = sw_temp_path("then");
    sw_checkpoint *c = saved_run_checkpoint(run, path, NULL);
    saved_run_steps(run, 3);
    saved_run_steps(then, 3);
    OK(sw_checkpoint_take(c, run->step));
    saved_run_steps(run, 2);
    OK(sw_checkpoint_write(c));
    saved_run_steps(run, 2);
    OK(sw_checkpoint_wait(c));
    saved_checkpoint_end(c);
    saved_run_resume(run, saved_run_checkpoint(run, NULL, NULL), path);
    CU_ASSERT(run->step == 3 && saved_run_same(run, then));
}

/* ---- members ----------------------------------------------------------------------------- */

enum { MEMBERS = 5 };

SW_TEST("models of one name are stacked")
{
    saved_run *runs[MEMBERS + 1], *others[MEMBERS + 1];
    sw_model *models[MEMBERS + 1], *these[MEMBERS + 1];
    const char *path = sw_temp_path("members");
    for (int i = 0; i <= MEMBERS; i++) {
        const saved_opts o = {.name = i < MEMBERS ? "member" : "teacher",
                              .seed = (uint64_t)i + 1,
                              .width = i < MEMBERS ? 8 : 12};
        saved_opts other = o;
        other.seed = 100;
        runs[i] = saved_run_new(&o);
        others[i] = saved_run_new(&other);
        saved_run_steps(runs[i], 1 + i);
        models[i] = runs[i]->model;
        these[i] = others[i]->model;
    }
    sw_checkpoint *c;
    sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = path, .models = models, .n_models = MEMBERS + 1);
    OK(sw_checkpoint_create(&c, runs[0]->exec, &opts));
    OK(sw_checkpoint_save(c, 1));
    sw_checkpoint_destroy(c);
    opts.path = NULL;
    opts.models = these;
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    OK(sw_checkpoint_create(&c, others[0]->exec, &opts));
    OK(sw_checkpoint_find(c, path, &found));
    OK(sw_checkpoint_load(c));
    for (int i = 0; i <= MEMBERS; i++)
        SW_CHECK(saved_run_same(runs[i], others[i]), "member %d", i);
    sw_checkpoint_destroy(c);
    /* Parameters of one of several models, by its name. */
    saved_run *teacher =
        saved_run_new(&(saved_opts){.name = "teacher", .width = 12, .seed = 5});
    OK(sw_model_load(teacher->model, path));
    float a[12], b[12];
    OK(sw_param_read(teacher->f1.bias, a, sizeof a));
    OK(sw_param_read(runs[MEMBERS]->f1.bias, b, sizeof b));
    CU_ASSERT(memcmp(a, b, sizeof a) == 0);
    opts.n_models = 1;
    OK(sw_checkpoint_create(&c, others[0]->exec, &opts));
    OK(sw_checkpoint_find(c, path, &found));
    REFUSED(sw_checkpoint_load(c), SW_INVALID, "2 models");
    sw_checkpoint_destroy(c);
}

/* ---- what is refused --------------------------------------------------------------------- */

static char saved_path[1024];

static void save_plain(void)
{
    saved_run *run = saved_run_new(NULL);
    snprintf(saved_path, sizeof saved_path, "%s", sw_temp_path("plain"));
    saved_run_steps(run, 2);
    /* One generation: what cannot be read must not be found in an older one. */
    sw_checkpoint *c = saved_run_checkpoint(run, saved_path, &(sw_checkpoint_opts){.keep = 1});
    OK(sw_checkpoint_put(c, "note", "abc", 3));
    OK(sw_model_note(run->model, "pixels", "0.1,0.3"));
    OK(sw_checkpoint_ready(c));
    OK(sw_checkpoint_save(c, run->step));
    saved_checkpoint_end(c);
}

static void refused_for(const saved_opts *opts, const char *part)
{
    saved_run *run = saved_run_new(opts), *same = saved_run_new(opts);
    sw_checkpoint *c = saved_run_checkpoint(run, NULL, NULL);
    saved_run_steps(run, 1);
    saved_run_steps(same, 1);
    OK(sw_checkpoint_find(c, saved_path, &SW_OPTS(sw_checkpoint_found)));
    const sw_status status = sw_checkpoint_load(c);
    SW_CHECK((status == SW_INVALID || status == SW_FORMAT) &&
                 strstr(sw_last_error(), part) != NULL,
             "'%s' is not in '%s'", part, status == SW_OK ? "(loaded)" : sw_last_error());
    saved_run_steps(run, 1); /* as if nothing had been asked */
    saved_run_steps(same, 1);
    CU_ASSERT(saved_run_same(run, same));
}

SW_TEST("another run is refused by name")
{
    save_plain();
    refused_for(&(saved_opts){.name = "other"}, "model 0 is 'saved' there and 'other' here");
    refused_for(&(saved_opts){.kind = "adamw"}, "'adam' there and 'adamw' here");
    refused_for(&(saved_opts){.state_bits = 8}, "'adam' there and 'adam 8bit' here");
    refused_for(&(saved_opts){.width = 25}, "f1.weight");
    refused_for(&(saved_opts){.rows = 8}, "the batch of loader 0 was 16 there and is 8 here");
    refused_for(&(saved_opts){.samples = 99}, "the number of samples");
    refused_for(&(saved_opts){.shuffle_seed = 6}, "the seed of loader 0");
    refused_for(&(saved_opts){.data_seed = 2}, "the samples of loader 0 are others");
    refused_for(&(saved_opts){.exec = {.seed = 4}}, "the seed of random ops was 3");
}

SW_TEST("misuse is refused")
{
    save_plain();
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint *c = saved_run_checkpoint(run, NULL, NULL), *none;
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    const void *bytes;
    size_t n;
    char text[700];
    REFUSED(sw_checkpoint_load(c), SW_INVALID, "sw_checkpoint_find first");
    REFUSED(sw_checkpoint_get(c, "note", &bytes, &n), SW_INVALID, "sw_checkpoint_find first");
    REFUSED(sw_checkpoint_take(c, 1), SW_INVALID, "without a path");
    REFUSED(sw_checkpoint_find(c, NULL, &found), SW_INVALID, "path must be given");
    REFUSED(sw_checkpoint_put(c, "a b", "", 0), SW_INVALID, "letters, digits");
    REFUSED(sw_checkpoint_put(c, "", "", 0), SW_INVALID, "letters, digits");
    REFUSED(sw_checkpoint_put(c, "a", NULL, 1), SW_INVALID, "bytes must not be NULL");
    OK(sw_checkpoint_find(c, sw_temp_path("nothing is here"), &found));
    CU_ASSERT_EQUAL(found.found, 0);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_ONCE); /* else a new run would take its place */
    const sw_status unseen = sw_checkpoint_find(c, saved_path, &found);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    CU_ASSERT_EQUAL(unseen, SW_IO);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    REFUSED(sw_checkpoint_find(c, text, &found), SW_INVALID, "at most");
    OK(sw_checkpoint_find(c, saved_path, &found));
    OK(sw_checkpoint_get(c, "note", &bytes, &n));
    CU_ASSERT(n == 3 && memcmp(bytes, "abc", 3) == 0);
    OK(sw_params_note(saved_path, "pixels", text, sizeof text));
    CU_ASSERT_STRING_EQUAL(text, "0.1,0.3");
    OK(sw_checkpoint_get(c, "none", &bytes, &n));
    CU_ASSERT(n == 0 && bytes == NULL);
    found.size = 1;
    REFUSED(sw_checkpoint_find(c, saved_path, &found), SW_INVALID, "sw_checkpoint_found");
    sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .n_models = 1);
    REFUSED(sw_checkpoint_create(&none, run->exec, &opts), SW_INVALID, "models not NULL");
    opts = SW_OPTS(sw_checkpoint_opts, .models = &run->model, .n_models = 1, .keep = -1);
    REFUSED(sw_checkpoint_create(&none, run->exec, &opts), SW_INVALID, "keep");
    saved_checkpoint_end(c);
    if (!SW_SANITIZED) /* a sanitizer finds it by itself */
        REFUSED(sw_checkpoint_load(c), SW_INVALID, "destroyed");
    sw_checkpoint_destroy(NULL);
}

/* One process saves to a file, and one checkpoint of it. */
SW_TEST("one saves to a path")
{
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint *c = saved_run_checkpoint(run, sw_temp_path("held"), NULL), *other;
    sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("held"),
                                      .models = &run->model, .n_models = 1);
    REFUSED(sw_checkpoint_create(&other, run->exec, &opts), SW_BUSY, "held");
    const pid_t child = fork();
    if (child == 0) {
        const bool refused = sw_checkpoint_take(c, 1) == SW_BUSY;
        sw_checkpoint_destroy(c);
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    CU_ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0);
    REFUSED(sw_checkpoint_create(&other, run->exec, &opts), SW_BUSY, "held");
    saved_checkpoint_end(c);
    CU_ASSERT(!sw_file_taken(sw_temp_path("held.lock")));
    OK(sw_checkpoint_create(&other, run->exec, &opts));
    sw_checkpoint_destroy(other);
}

/* ---- memory ------------------------------------------------------------------------------ */

SW_TEST("the copy is in the budget")
{
    sw_budget *budget;
    size_t model_bytes;
    saved_run *measure = saved_run_new(NULL);
    OK(sw_model_bytes(measure->model, &model_bytes));
    OK(sw_budget_create(&budget, 3 * model_bytes));
    saved_run *run = saved_run_new(&(saved_opts){.exec = {.budget = budget}});
    const size_t before = sw_budget_used(budget);
    sw_checkpoint *c = saved_run_checkpoint(run, sw_temp_path("budget"), NULL);
    CU_ASSERT(sw_checkpoint_bytes(c) == model_bytes &&
              sw_budget_used(budget) - before == model_bytes);
    sw_checkpoint *more;
    sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("more"),
                                      .models = &run->model, .n_models = 1);
    OK(sw_checkpoint_create(&more, run->exec, &opts));
    opts.path = sw_temp_path("most");
    sw_checkpoint *most;
    REFUSED(sw_checkpoint_create(&most, run->exec, &opts), SW_NOMEM, "checkpoint");
    CU_ASSERT(!sw_file_taken(sw_temp_path("most.lock")));
    opts.no_copy = 1;
    OK(sw_checkpoint_create(&most, run->exec, &opts));
    CU_ASSERT_EQUAL(sw_checkpoint_bytes(most), 0);
    sw_checkpoint_destroy(most);
    sw_checkpoint_destroy(more);
    saved_checkpoint_end(c);
    CU_ASSERT_EQUAL(sw_budget_used(budget), before);
    AFTER(sw_budget_destroy, budget);
}

/* Without a copy the file has the same bytes. */
SW_TEST("a save without a copy is the same file")
{
    saved_run *run = saved_run_new(NULL), *one = saved_run_new(NULL),
              *two = saved_run_new(NULL);
    const char *path = sw_temp_path("copied");
    const char *straight = sw_temp_path("straight");
    saved_run_steps(run, 3);
    sw_checkpoint *c = saved_run_checkpoint(run, path, NULL);
    OK(sw_checkpoint_save(c, run->step));
    saved_checkpoint_end(c);
    c = saved_run_checkpoint(run, straight, &(sw_checkpoint_opts){.no_copy = 1});
    OK(sw_checkpoint_save(c, run->step));
    saved_checkpoint_end(c);
    saved_run_resume(one, saved_run_checkpoint(one, NULL, NULL), path);
    saved_run_resume(two, saved_run_checkpoint(two, NULL, NULL), straight);
    CU_ASSERT(saved_run_same(one, two) && saved_run_same(one, run));
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Is the newest at `path` whole, and of step 1 or 2? */
static bool newest_is_whole(saved_run *run, const char *path)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    sw_checkpoint *c = saved_run_checkpoint(run, NULL, NULL);
    const bool whole = sw_checkpoint_find(c, path, &found) == SW_OK && found.found == 1 &&
                       found.generation == 0 && (found.step == 1 || found.step == 2);
    saved_checkpoint_end(c);
    return whole;
}

static void sweep(sw_fault_kind kind, const sw_checkpoint_opts *opts, const char *what)
{
    saved_run *run = saved_run_new(NULL), *reader = saved_run_new(NULL);
    sw_sites sites = {kind, .any = true, .keeps = true};
    const char *path = sw_temp_path(what);
    while (sw_sites_next(&sites)) {
        sw_checkpoint *c = saved_run_checkpoint(run, path, opts);
        OK(sw_checkpoint_save(c, 1));
        sites.mode = sites.k % 2 == 0 ? SW_FAULT_ONCE : SW_FAULT_FROM;
        (void)SW_AT_SITE(&sites, sw_checkpoint_save(c, 2));
        SW_CHECK(newest_is_whole(reader, path), "call %d: %s", (int)sites.k, sw_last_error());
        OK(sw_checkpoint_save(c, 2)); /* and it can be tried again */
        saved_checkpoint_end(c);
    }
    CU_ASSERT(sites.failed > 3);
}

SW_TEST("every call of a save can fail")
{
    sweep(SW_FAULT_FILE, NULL, "files");
    sweep(SW_FAULT_MEMORY, NULL, "memory");
    sweep(SW_FAULT_FILE, &(sw_checkpoint_opts){.no_copy = 1, .keep = 3}, "straight files");
}

/* Loading fails at any call and changes nothing; then it works. */
SW_TEST("every call of a load can fail")
{
    save_plain();
    static const sw_fault_kind kinds[] = {SW_FAULT_FILE, SW_FAULT_MEMORY};
    for (int i = 0; i < 2; i++) {
        saved_run *run = saved_run_new(&(saved_opts){.seed = 50});
        saved_run *same = saved_run_new(&(saved_opts){.seed = 50});
        sw_checkpoint *c = saved_run_checkpoint(run, NULL, NULL);
        sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
        sw_sites sites = {kinds[i], .any = true, .exact = true, .keeps = true};
        while (sw_sites_next(&sites)) {
            const sw_status status = SW_AT_SITE(
                &sites, sw_checkpoint_find(c, saved_path, &found) || sw_checkpoint_load(c)
                            ? SW_IO
                            : SW_OK);
            SW_CHECK(status == SW_OK || saved_run_same(run, same), "call %d changed the model",
                     (int)sites.k);
        }
        CU_ASSERT(sites.k > 3 && !saved_run_same(run, same));
    }
}

static sw_checkpoint *saving;

static sw_status refuse(void *user)
{
    ++*(int *)user;
    return sw_checkpoint_wait(saving) == SW_BUSY ? SW_STOPPED
                                                 : SW_IO; /* it would wait for itself */
}

/* The call before the rename may refuse; the checkpoint before stays. */
SW_TEST("what must be synced first may fail the save")
{
    saved_run *run = saved_run_new(NULL);
    int called = 0;
    const char *path = sw_temp_path("before");
    sw_checkpoint *c = saved_run_checkpoint(run, path, NULL);
    OK(sw_checkpoint_save(c, 1));
    saved_checkpoint_end(c);
    c = saved_run_checkpoint(run, path,
                             &(sw_checkpoint_opts){.before = refuse, .user = &called});
    saving = c;
    CU_ASSERT(sw_checkpoint_save(c, 2) == SW_STOPPED && called == 1);
    sw_checkpoint_info info = SW_OPTS(sw_checkpoint_info);
    OK(sw_checkpoint_describe(c, &info));
    CU_ASSERT(info.failed == 1 && info.saved == 0 && info.last == SW_STOPPED && !info.busy);
    saved_checkpoint_end(c);
    saved_run_resume(run, saved_run_checkpoint(run, NULL, NULL), path);
    CU_ASSERT_EQUAL(run->step, 1);
}

/* ---- generations ------------------------------------------------------------------------- */

static void flip(const char *path, long at)
{
    size_t n;
    char *text = sw_file_text(path, &n);
    CU_ASSERT_FATAL(text != NULL && (size_t)at < n);
    text[at] ^= 16;
    sw_file_put(path, text, n);
    free(text);
}

/* The newest whole one is found, and a save after that does not put the damaged one in its
 * place. */
SW_TEST("a damaged generation is passed over and named")
{
    saved_run *run = saved_run_new(NULL);
    char name[1024];
    const char *path = sw_temp_path("generations");
    sw_checkpoint *c = saved_run_checkpoint(run, path, &(sw_checkpoint_opts){.keep = 3});
    for (uint64_t step = 1; step <= 5; step++)
        OK(sw_checkpoint_save(c, step));
    saved_checkpoint_end(c);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, i > 0 ? "%s.%d" : "%s", path, i);
        CU_ASSERT_EQUAL(sw_file_taken(name), i < 3);
    }
    flip(path, 5000);
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    c = saved_run_checkpoint(run, path, &(sw_checkpoint_opts){.keep = 2});
    OK(sw_checkpoint_find(c, NULL, &found));
    CU_ASSERT(found.found == 1 && found.generation == 1 && found.step == 4);
    CU_ASSERT(strstr(found.skipped, "generations: '") != NULL &&
              strstr(found.skipped, "damaged") != NULL);
    OK(sw_checkpoint_load(c));
    OK(sw_checkpoint_save(c, 6));
    saved_checkpoint_end(c);
    flip(path, 5000); /* step 6 is damaged too: step 4 is still there */
    c = saved_run_checkpoint(run, path, NULL);
    OK(sw_checkpoint_find(c, NULL, &found));
    CU_ASSERT(found.found == 1 && found.generation == 1 && found.step == 4);
    snprintf(name, sizeof name, "%s.1", path);
    flip(name, 5000);
    snprintf(name, sizeof name, "%s.2", path);
    flip(name, 5000);
    REFUSED(sw_checkpoint_find(c, NULL, &found), SW_FORMAT, "damaged");
}

/* ---- while a save is written ------------------------------------------------------------- */

SW_TEST("a save that is being written is waited for")
{
    saved_run *run = saved_run_new(&(saved_opts){.width = sw_tests_full() ? 3000 : 1000});
    sw_checkpoint *c = saved_run_checkpoint(run, sw_temp_path("busy"), NULL);
    sw_checkpoint_info info = SW_OPTS(sw_checkpoint_info);
    int busy = 0;
    for (uint64_t step = 1; step <= 8; step++) {
        sw_status status;
        while ((status = sw_checkpoint_take(c, step)) == SW_BUSY) {
            busy++;
            (void)sched_yield();
        }
        OK(status);
        OK(sw_checkpoint_write(c));
    }
    OK(sw_checkpoint_wait(c));
    OK(sw_checkpoint_describe(c, &info));
    CU_ASSERT(info.saved == 8 && info.failed == 0 && info.step == 8 && !info.busy);
    CU_ASSERT(busy > 0 && info.copy_ns > 0 && info.write_ns > 0);
    REFUSED(sw_checkpoint_write(c), SW_INVALID, "sw_checkpoint_take first");
}

static sw_status make(sw_checkpoint **out, saved_run *run, const char *path,
                      sw_model *const *models, int n)
{
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = path, .models = models, .n_models = n);
    return sw_checkpoint_create(out, run->exec, &opts);
}

/* A save could only write through it, and no whole file would stand there meanwhile. */
SW_TEST("a path that is no regular file is refused")
{
    char longest[600];
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint *c;
    const char *path = sw_temp_path("a link");
    CU_ASSERT_EQUAL(symlink("elsewhere", path), 0);
    REFUSED(make(&c, run, path, &run->model, 1), SW_INVALID, "this is a link");
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    REFUSED(make(&c, run, path, &run->model, 1), SW_INVALID, "a folder");
    CU_ASSERT_EQUAL(rmdir(path), 0);
    CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
    REFUSED(make(&c, run, path, &run->model, 1), SW_INVALID, "a pipe");
    REFUSED(make(&c, run, "/dev/null", &run->model, 1), SW_INVALID, "a device");
    REFUSED(make(&c, run, "-", &run->model, 1), SW_INVALID, "a regular file");
    CU_ASSERT(!sw_file_taken("-.lock"));
    /* A saved file must be found again. */
    snprintf(longest, sizeof longest, "%s", sw_temp_path(""));
    while (strlen(longest) < 508)
        strcat(longest, "/");
    REFUSED(make(&c, run, longest, &run->model, 1), SW_INVALID, "at most 507 bytes (got 508)");
}

SW_TEST("models that cannot be saved are refused")
{
    saved_run *a = saved_run_new(&(saved_opts){.name = "a"});
    saved_run *b = saved_run_new(&(saved_opts){.name = "b"});
    saved_run *again = saved_run_new(&(saved_opts){.name = "a"});
    saved_run *wide = saved_run_new(&(saved_opts){.name = "a", .width = 9});
    saved_run *bytes = saved_run_new(&(saved_opts){.name = "a\xff"});
    sw_model *const twice[] = {a->model, b->model, a->model};
    sw_model *const apart[] = {a->model, b->model, again->model};
    sw_model *const other[] = {a->model, wide->model};
    sw_checkpoint *c;
    const char *path = sw_temp_path("cannot");
    REFUSED(make(&c, a, path, twice, 3), SW_INVALID, "models 0 and 2 are the same model");
    REFUSED(make(&c, a, path, apart, 3), SW_INVALID, "must follow each other");
    REFUSED(make(&c, a, path, other, 2), SW_INVALID, "different layouts");
    REFUSED(make(&c, a, path, &bytes->model, 1), SW_INVALID, "must be UTF-8");
    CU_ASSERT(!sw_file_taken(sw_temp_path("cannot.lock")));
}

/* It is said before the training, not at each save. */
SW_TEST("more tensors than a file has are refused")
{
    saved_run *run = saved_run_new(NULL);
    enum { MODELS = 132, BUFFERS = 500 };
    sw_model *models[MODELS];
    sw_checkpoint *c;
    char name[16];
    for (int m = 0; m < MODELS; m++) {
        snprintf(name, sizeof name, "m%d", m);
        OK(sw_model_create(&models[m], name));
        for (int i = 0; i < BUFFERS; i++) {
            snprintf(name, sizeof name, "b%d", i);
            (void)sw_buffer_new(models[m], name, SW_F32, SW_SHAPE(1), "zeros");
        }
    }
    REFUSED(make(&c, run, sw_temp_path("many"), models, MODELS), SW_INVALID,
            "at most 65536 tensors (got 66000)");
    for (int m = 0; m < MODELS; m++)
        sw_model_destroy(models[m]);
}

/* Bytes of any file name may stand in a command line, and it may be cut inside of a
 * character. */
SW_TEST("any command can be saved")
{
    saved_run *run = saved_run_new(NULL);
    char cut[600];
    const char *path = sw_temp_path("command");
    memset(cut, 'x', sizeof cut);
    memcpy(cut + 510, "\xc3\xa4", 3);
    const char *const commands[] = {"train \xff\x01", cut, ""};
    for (int i = 0; i < 3; i++) {
        sw_checkpoint *c =
            saved_run_checkpoint(run, path, &(sw_checkpoint_opts){.command = commands[i]});
        OK(sw_checkpoint_save(c, 1));
        saved_checkpoint_end(c);
    }
}

SW_TEST("the bytes of a file are those of all of it")
{
    saved_run *run = saved_run_new(NULL);
    struct stat st;
    sw_checkpoint_info info = SW_OPTS(sw_checkpoint_info);
    sw_checkpoint *c = saved_run_checkpoint(run, sw_temp_path("bytes"), NULL);
    OK(sw_checkpoint_save(c, 1));
    OK(sw_checkpoint_describe(c, &info));
    CU_ASSERT_EQUAL_FATAL(stat(sw_temp_path("bytes"), &st), 0);
    CU_ASSERT_EQUAL(info.file_bytes, (uint64_t)st.st_size);
}

/* Several models of one name are several models. */
SW_TEST("members alone stand under their name")
{
    saved_run *one = saved_run_new(NULL), *two = saved_run_new(NULL);
    sw_model *const models[] = {one->model, two->model};
    sw_checkpoint *c;
    const char *path = sw_temp_path("members");
    OK(make(&c, one, path, models, 2));
    OK(sw_checkpoint_save(c, 1));
    sw_checkpoint_destroy(c);
    REFUSED(sw_model_load(one->model, path), SW_FORMAT,
            "'saved/f1.weight' is F32 (2, 24, 784)");
}

/* The copy for a save is of one moment: loading in between does not mix two into a file. */
SW_TEST("loading gives up what was taken")
{
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    sw_checkpoint *c = saved_run_checkpoint(run, sw_temp_path("gives up"), NULL);
    saved_run_steps(run, 1);
    OK(sw_checkpoint_save(c, 1));
    saved_run_steps(run, 1);
    OK(sw_checkpoint_take(c, 2));
    OK(sw_checkpoint_find(c, NULL, &found));
    OK(sw_checkpoint_load(c));
    REFUSED(sw_checkpoint_write(c), SW_INVALID, "sw_checkpoint_take first");
    OK(sw_checkpoint_take(c, 3));
    OK(sw_checkpoint_loader(c, run->loader));
    REFUSED(sw_checkpoint_write(c), SW_INVALID, "sw_checkpoint_take first");
    OK(sw_checkpoint_take(c, 4));
    OK(sw_checkpoint_take(c, 5)); /* the first is given up */
    OK(sw_checkpoint_write(c));
    OK(sw_checkpoint_wait(c));
    OK(sw_checkpoint_find(c, NULL, &found));
    CU_ASSERT_EQUAL(found.step, 5);
}

SW_TEST("a model that was destroyed is named")
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer finds it by itself");
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint *c;
    sw_model *model;
    OK(sw_model_create(&model, "gone"));
    (void)sw_param_new(model, "w", SW_F32, SW_SHAPE(3), "ones");
    OK(sw_model_ready(model, run->exec, 1));
    OK(make(&c, run, sw_temp_path("gone"), &model, 1));
    sw_model_destroy(model);
    REFUSED(sw_checkpoint_save(c, 1), SW_INVALID, "destroyed");
    sw_checkpoint_destroy(c);
}

/* ---- random networks --------------------------------------------------------------------- */

enum { STEPS = 6 };

static sw_exec *planned, *others[3];
static const bool immediately[] = {false, true, false};

static bool begin(random_life *life, sw_exec *exec, uint64_t seed)
{
    if (!seed_well(random_life_begin(life, &seed_net, false, false), "declare"))
        return false;
    for (int i = 0; i < seed_net.n_models; i++)
        if (!seed_well(sw_model_ready(life->models[i], exec, seed), "ready"))
            return false;
    return true;
}

/* The knob is set before the save alone. */
static bool walk(random_life *life, sw_exec *exec, uint64_t from, uint64_t to, bool immediate)
{
    for (uint64_t k = from; k < to; k++) {
        if (k == 0)
            sw_knob_set(life->knob[seed_net.n_models - 1], 0.6f);
        sw_run_args args = random_life_args(life, k);
        args.immediate = immediate;
        if (!seed_well(sw_run(exec, &args), "run"))
            return false;
    }
    return true;
}

static sw_checkpoint *checkpoint_of(random_life *life, sw_exec *exec, const char *path)
{
    sw_checkpoint *c = NULL;
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = path, .models = life->models,
                .n_models = seed_net.n_models, .no_copy = seed_net.seed % 2 == 0);
    return seed_well(sw_checkpoint_create(&c, exec, &opts), "create") ? c : NULL;
}

static bool go_on(random_life *from, random_life *life, sw_exec *exec, uint64_t step)
{
    const char *path = sw_temp_path("random");
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    sw_checkpoint *c = checkpoint_of(from, planned, path);
    bool well = c != NULL && seed_well(sw_checkpoint_save(c, step), "save");
    sw_checkpoint_destroy(c);
    c = well ? checkpoint_of(life, exec, NULL) : NULL;
    well = c != NULL && seed_well(sw_checkpoint_find(c, path, &found), "find") &&
           seed_well(sw_checkpoint_load(c), "load");
    seed_check(!well || found.step == step, "find", "another step");
    sw_checkpoint_destroy(c);
    return well;
}

static void one_goes_on(void)
{
    random_life whole = {0}, first = {0}, second = {0};
    const uint64_t at = 1 + seed_net.seed % (STEPS - 1);
    const size_t way = seed_net.seed / 3 % 3;
    const bool well = begin(&whole, planned, 1) && begin(&first, planned, 1) &&
                      begin(&second, others[way], 2) &&
                      walk(&whole, planned, 0, STEPS, false) &&
                      walk(&first, planned, 0, at, false) &&
                      walk(&second, others[way], 1, 2, immediately[way]) &&
                      go_on(&first, &second, others[way], at) &&
                      walk(&second, others[way], at, STEPS, immediately[way]);
    for (int i = 0; well && i < seed_net.n_models; i++) {
        seed_check(net_same(whole.models[i], second.models[i]), "going on", "other bits");
        seed_check(sw_knob_get(whole.knob[i]) == sw_knob_get(second.knob[i]), "going on",
                   "another knob");
    }
    random_life_end(&whole);
    random_life_end(&first);
    random_life_end(&second);
}

SW_TEST("random networks go on")
{
    planned = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5));
    others[0] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5, .threads = 3));
    others[1] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5));
    others[2] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5, .no_inplace = 1, .no_rebuild = 1));
    seed_each(60, 2000, one_goes_on);
}
