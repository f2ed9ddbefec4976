/* Checkpoints at their edges: what cannot be saved is refused when the checkpoint is made, not
 * at each save; what a call gives up; files that are whole and cannot be. */
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include "runtime/base/checksum.h"
#include "tests/runtime/random_seeds.h"
#include "tests/runtime/saved_runs.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEEDS_CHECKSUMS()                                                                      \
    do {                                                                                       \
        if (!swi_checksum_there())                                                             \
            SW_SKIP("built without libxxhash");                                                \
    } while (0)

static const char *name_of(char *to, size_t bytes, const char *what)
{
    snprintf(to, bytes, "%s", sw_temp_path(what));
    return to;
}

static sw_status make(sw_checkpoint **out, saved_run *run, const char *path,
                      sw_model *const *models, int n)
{
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = path, .models = models, .n_models = n);
    return sw_checkpoint_create(out, run->exec, &opts);
}

/* A save could only write through it, and no whole file would stand there meanwhile. */
static void a_path_that_is_no_regular_file_is_refused(void)
{
    NEEDS_CHECKSUMS();
    char path[1000], longest[600];
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint *c;
    name_of(path, sizeof path, "a link");
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

static void models_that_cannot_be_saved_are_refused(void)
{
    NEEDS_CHECKSUMS();
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
static void more_tensors_than_a_file_has_are_refused(void)
{
    NEEDS_CHECKSUMS();
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

/* Bytes of any file name may stand in a command line, and it may be cut inside of a character.
 */
static void any_command_can_be_saved(void)
{
    NEEDS_CHECKSUMS();
    saved_run *run = saved_run_new(NULL);
    char path[1000], cut[600];
    name_of(path, sizeof path, "command");
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

static void the_bytes_of_a_file_are_those_of_all_of_it(void)
{
    NEEDS_CHECKSUMS();
    saved_run *run = saved_run_new(NULL);
    char path[1000];
    struct stat st;
    sw_checkpoint_info info = SW_OPTS(sw_checkpoint_info);
    sw_checkpoint *c = saved_run_checkpoint(run, name_of(path, sizeof path, "bytes"), NULL);
    OK(sw_checkpoint_save(c, 1));
    OK(sw_checkpoint_describe(c, &info));
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    CU_ASSERT_EQUAL(info.file_bytes, (uint64_t)st.st_size);
}

/* Several models of one name are several models. */
static void members_alone_stand_under_their_name(void)
{
    NEEDS_CHECKSUMS();
    saved_run *one = saved_run_new(NULL), *two = saved_run_new(NULL);
    sw_model *const models[] = {one->model, two->model};
    sw_checkpoint *c;
    char path[1000];
    name_of(path, sizeof path, "members");
    OK(make(&c, one, path, models, 2));
    OK(sw_checkpoint_save(c, 1));
    sw_checkpoint_destroy(c);
    REFUSED(sw_model_load(one->model, path), SW_FORMAT,
            "'saved/f1.weight' is F32 (2, 24, 784)");
}

/* The copy for a save is of one moment: loading in between does not mix two into a file. */
static void loading_gives_up_what_was_taken(void)
{
    NEEDS_CHECKSUMS();
    saved_run *run = saved_run_new(NULL);
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    char path[1000];
    sw_checkpoint *c = saved_run_checkpoint(run, name_of(path, sizeof path, "gives up"), NULL);
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

static void a_model_that_was_destroyed_is_named(void)
{
    NEEDS_CHECKSUMS();
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

static void random_networks_go_on(void)
{
    NEEDS_CHECKSUMS();
    planned = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5));
    others[0] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5, .threads = 3));
    others[1] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5));
    others[2] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 5, .no_inplace = 1, .no_rebuild = 1));
    seed_each(60, 2000, one_goes_on);
}

static const sw_test tests[] = {
    {"a path that is no regular file is refused", a_path_that_is_no_regular_file_is_refused},
    {"models that cannot be saved are refused", models_that_cannot_be_saved_are_refused},
    {"more tensors than a file has are refused", more_tensors_than_a_file_has_are_refused},
    {"any command can be saved", any_command_can_be_saved},
    {"the bytes of a file are those of all of it", the_bytes_of_a_file_are_those_of_all_of_it},
    {"members alone stand under their name", members_alone_stand_under_their_name},
    {"loading gives up what was taken", loading_gives_up_what_was_taken},
    {"a model that was destroyed is named", a_model_that_was_destroyed_is_named},
    {"random networks go on", random_networks_go_on},
};
SW_SUITE("checkpoint more", tests)
