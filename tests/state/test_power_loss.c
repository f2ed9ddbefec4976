/* The power goes while a run saves its third checkpoint: whatever is left on the disk, the run
 * goes on from the second or from the third, with its bits, and its log is long enough for
 * that. */
#include "alloc/base/fault.h"
#include "runtime/base/checksum.h"
#include "tests/alloc/crash.h"
#include "tests/state/tensor_files.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("power loss")

enum {
    ROWS = 3,
    INPUTS = 12,
    HIDDEN = 16,
    CLASSES = 4,
    LINE = 1000,
    PART = 100,
    SAVES = 3,
    SEEN = 1 << 18
};

static const char saved_name[] = "run.swck", log_name[] = "log.csv";

/* ---- the run ----------------------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_linear f1, f2, f3;
    sw_optimizer *opt;
    uint64_t step;
    sw_file *log;
    uint64_t log_bytes;
} small_run;

static void step_of(sw_ctx *ctx, void *user)
{
    const small_run *r = user;
    sw_value h = sw_tanh(ctx, sw_apply_linear(ctx, r->f1, sw_input(ctx, 0)));
    h = sw_tanh(ctx, sw_apply_linear(ctx, r->f2, h));
    const sw_value loss = sw_softmax_ce(ctx, sw_apply_linear(ctx, r->f3, h), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, (sw_optimizer **)(uintptr_t)&r->opt, 1);
    sw_update(ctx, r->opt);
}

static small_run *new_run(uint64_t seed)
{
    small_run *r = sw_block(sizeof *r);
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    (void)sw_op_at(0); /* the static library then has its ops */
    r->exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = 1, .seed = 3));
    r->model = made_model("small");
    r->f1 = sw_linear_new(r->model, "f1", INPUTS, HIDDEN);
    r->f2 = sw_linear_new(r->model, "f2", HIDDEN, HIDDEN);
    r->f3 = sw_linear_new(r->model, "f3", HIDDEN, CLASSES);
    OK(sw_optimizer_create(&r->opt, r->model, &adam));
    OK(sw_model_ready(r->model, r->exec, seed));
    return r;
}

/* A step, and its line of the log, which is not synced. */
static void run_step(small_run *r)
{
    float x[ROWS][INPUTS];
    uint8_t y[ROWS];
    char line[LINE + 1]; /* as long as that of many metrics */
    sw_dice dice = {r->step};
    for (int i = 0; i < ROWS; i++) {
        y[i] = (uint8_t)sw_dice_below(&dice, CLASSES);
        for (int k = 0; k < INPUTS; k++)
            x[i][k] = (float)sw_dice_below(&dice, 1000) / 500 - 1;
    }
    const sw_array inputs[] = {{SW_F32, SW_SHAPE(ROWS, INPUTS), x}, {SW_U8, SW_SHAPE(ROWS), y}};
    double loss = 0;
    OK(sw_run(r->exec, &SW_OPTS(sw_run_args, .fn = step_of, .user = r, .models = &r->model,
                                .n_models = 1, .inputs = inputs, .n_inputs = 2,
                                .mode = SW_TRAIN, .step = r->step++)));
    OK(sw_metric_get(r->exec, "loss", &loss));
    snprintf(line, sizeof line, "%*d,%.17g\n", LINE - 30, (int)r->step, loss);
    memset(line + strlen(line), '.', sizeof line - strlen(line));
    for (size_t at = 0; at < LINE; at += PART)
        OK(sw_file_write(r->log, line + at, PART));
    r->log_bytes += LINE;
}

static sw_status sync_log(void *user)
{
    return sw_file_sync(((const small_run *)user)->log);
}

static void save(small_run *r, sw_checkpoint *c)
{
    OK(sw_checkpoint_put(c, "log", &r->log_bytes, sizeof r->log_bytes));
    OK(sw_checkpoint_save(c, r->step));
}

/* ---- recording --------------------------------------------------------------------------- */

typedef struct {
    bool no_copy, named, log_late;
} way;

static struct {
    char folder[256];             /* of the states */
    small_run *reader;            /* goes on from them */
    sw_checkpoint *c;             /* its, without a path */
    unsigned char *model[4];      /* bytes after step k */
    char log[(SAVES + 1) * LINE]; /* as it is in the end */
    uint64_t step[SAVES + 1];     /* how often it was found */
    uint64_t wrong, unlike;       /* unlike: states that were looked at */
    size_t file_bytes;
    bool stops; /* one wrong state is enough */
    char why[600];
    struct {
        uint64_t hash;
        int verdict;
    } seen[SEEN]; /* states that were looked at; hash 0: a free place */
} its;

static void remember(const small_run *r)
{
    its.model[r->step] = sw_block(r->model->bytes);
    memcpy(its.model[r->step], r->model->base, r->model->bytes);
}

static void end_folder(void *folder)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", (const char *)folder);
    CU_ASSERT_EQUAL(system(command), 0);
    free(folder);
}

/* In memory where the machine has a folder for that: there are many states. */
static void begin_reader(void)
{
    memset(&its, 0, sizeof its);
    snprintf(its.folder, sizeof its.folder, "/dev/shm/stepwell-power-XXXXXX");
    if (mkdtemp(its.folder) == NULL) {
        snprintf(its.folder, sizeof its.folder, "%s", sw_temp_path("states-XXXXXX"));
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(its.folder));
    }
    sw_after(end_folder, strdup(its.folder));
    its.reader = new_run(99);
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .models = &its.reader->model, .n_models = 1);
    OK(sw_checkpoint_create(&its.c, its.reader->exec, &opts));
    AFTER(sw_checkpoint_destroy, its.c);
}

/* Steps and saves 1 and 2, then 3 under the trace, and a step more. */
static sw_crash *record(const char *name, way w)
{
    char folder[600], path[700], log[700];
    sw_checkpoint *c = NULL;
    begin_reader();
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/%s", folder, saved_name);
    snprintf(log, sizeof log, "%s/%s", folder, log_name);
    small_run *r = new_run(7);
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = path, .models = &r->model, .n_models = 1,
                .command = "power loss", .keep = 2, .no_copy = w.no_copy,
                .before = w.log_late ? NULL : sync_log, .user = r);
    sw_fault_unnamed(!w.named);
    OK(sw_checkpoint_create(&c, r->exec, &opts));
    OK(sw_file_open(&r->log, log, SW_FILE_CREATE));
    for (int k = 1; k < SAVES; k++) {
        run_step(r);
        save(r, c);
        remember(r);
    }
    OK(sw_file_close(r->log));
    sw_crash *crash = sw_crash_begin(folder);
    OK(sw_file_open(&r->log, log, SW_FILE_KEEP));
    OK(sw_file_cut(r->log, r->log_bytes));
    run_step(r);
    remember(r);
    save(r, c);
    if (w.log_late)
        OK(sync_log(r));
    run_step(r); /* its line is never synced */
    sw_crash_stop();
    sw_fault_unnamed(true);
    sw_file_drop(r->log);
    sw_checkpoint_destroy(c);
    bytes saved = file_get(path);
    its.file_bytes = saved.n;
    bytes whole = file_get(log);
    CU_ASSERT_EQUAL_FATAL(whole.n, sizeof its.log);
    memcpy(its.log, whole.at, sizeof its.log);
    return crash;
}

/* ---- a state ----------------------------------------------------------------------------- */

static void path_in(char *to, size_t room, const char *name)
{
    snprintf(to, room, "%s/%s", its.folder, name);
}

static void put_file(const sw_crash_file *f)
{
    char path[600];
    path_in(path, sizeof path, f->name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, f->bytes, f->n) == (ssize_t)f->n);
    close(fd);
}

/* All that a run has but its knobs, which lie beside the model. */
static bool model_is(const sw_model *model, const unsigned char *must)
{
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        if (i != model->knob_entry &&
            memcmp(model->base + e->offset, must + e->offset, e->bytes) != 0)
            return false;
    }
    return true;
}

/* The step of the file of that name, which is whole; -1: it is not, with the reason in its.why.
 */
static int found_at(const char *name)
{
    char path[600];
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    path_in(path, sizeof path, name);
    const sw_status status = sw_checkpoint_find(its.c, path, &found);
    if (status == SW_OK && found.found == 1 && found.generation == 0 && found.step >= 1 &&
        found.step <= SAVES)
        return (int)found.step;
    snprintf(its.why, sizeof its.why, "%.60s: %.500s", name,
             status != SW_OK            ? sw_last_error()
             : found.skipped[0] != '\0' ? found.skipped
                                        : "nothing is found");
    return -1;
}

/* The found checkpoint says how much of the log is its own: so much must be there. */
static bool log_is_there(const sw_crash_file *log)
{
    const void *at = NULL;
    size_t n = 0;
    uint64_t position = 0;
    OK(sw_checkpoint_get(its.c, "log", &at, &n));
    if (n == sizeof position)
        memcpy(&position, at, n);
    return position > 0 && position <= sizeof its.log && log != NULL && position <= log->n &&
           memcmp(log->bytes, its.log, (size_t)position) == 0;
}

/* The step from which the run goes on with its bits and its log; -1: the state is wrong. */
static int goes_on(const sw_crash_file *files, int n)
{
    const int step = found_at(saved_name);
    if (step < 0)
        return -1;
    if (sw_checkpoint_load(its.c) != SW_OK) {
        snprintf(its.why, sizeof its.why, "%s", sw_last_error());
        return -1;
    }
    const bool same = model_is(its.reader->model, its.model[step]);
    if (same && log_is_there(sw_crash_find(files, n, log_name)))
        return step;
    snprintf(its.why, sizeof its.why, "step %d: %s", step,
             same ? "its log is too short" : "its model is another");
    return -1;
}

enum { STEP = 7, OLDER = 8 }; /* of a verdict: the step, and whether the one before is there */

static int judge(const sw_crash_file *files, int n)
{
    for (int i = 0; i < n; i++)
        put_file(&files[i]);
    const int step = goes_on(files, n);
    const bool older = step == SAVES && sw_crash_find(files, n, "run.swck.1") != NULL &&
                       found_at("run.swck.1") == 2;
    for (int i = 0; i < n; i++) {
        char path[600];
        path_in(path, sizeof path, files[i].name);
        unlink(path);
    }
    return (step > 0 ? step : 0) | (older ? OLDER : 0);
}

/* States that have the same files are looked at once. */
static int verdict_of(const sw_crash_file *files, int n)
{
    swi_checksum sum;
    swi_checksum_begin(&sum);
    for (int i = 0; i < n; i++) {
        swi_checksum_add(&sum, files[i].name, strlen(files[i].name) + 1);
        swi_checksum_add(&sum, &files[i].n, sizeof files[i].n);
        swi_checksum_add(&sum, files[i].bytes, files[i].n);
    }
    const uint64_t hash = swi_checksum_end(&sum) | 1;
    size_t at = (size_t)(hash >> 20) % SEEN;
    for (size_t k = 0; its.seen[at].hash != 0 && its.seen[at].hash != hash; k++) {
        CU_ASSERT_FATAL(k < SEEN);
        at = (at + 1) % SEEN;
    }
    if (its.seen[at].hash == 0) {
        its.seen[at].hash = hash;
        its.unlike++;
        its.seen[at].verdict = judge(files, n);
    }
    return its.seen[at].verdict;
}

/* Step 2 or 3; after the save 3, and 2 is the generation before it. */
static bool look(void *unused, const sw_crash_file *files, int n, bool done)
{
    const int verdict = verdict_of(files, n), step = verdict & STEP;
    const bool right =
        done ? step == SAVES && (verdict & OLDER) != 0 : step == SAVES - 1 || step == SAVES;
    its.step[step]++;
    its.wrong += !right;
    return right || !its.stops;
}

/* ---- what is promised -------------------------------------------------------------------- */

static const struct {
    const char *name;
    way way;
} ways[] = {{"straight", {.no_copy = true}},
            {"copied", {.no_copy = false}},
            {"straight, named", {.no_copy = true, .named = true}},
            {"copied, named", {.named = true}}};

enum { WAYS = sizeof ways / sizeof *ways };

SW_TEST("whatever is left, the run goes on")
{
    for (int i = 0; i < WAYS;
         i += sw_tests_full() ? 1 : 3) { /* quick: each half of a way once */
        sw_crash *crash = record(ways[i].name, ways[i].way);
        const uint64_t states = sw_crash_states(crash, -1, look, NULL);
        sw_note(
            "%s: %zu bytes, %d events, %llu states (%llu unlike): %llu of step 2, %llu of 3",
            ways[i].name, its.file_bytes, sw_crash_events(crash), (unsigned long long)states,
            (unsigned long long)its.unlike, (unsigned long long)its.step[2],
            (unsigned long long)its.step[3]);
        SW_CHECK(its.wrong == 0, "%llu are wrong: %s", (unsigned long long)its.wrong, its.why);
        CU_ASSERT(states >= 10000 && its.step[2] > 0 && its.step[3] > 0);
        CU_ASSERT_EQUAL(states, its.step[2] + its.step[3]);
        sw_crash_free(crash);
    }
}

static void leave_each_out(int i)
{
    char name[64];
    snprintf(name, sizeof name, "%s, each left out", ways[i].name);
    sw_crash *crash = record(name, ways[i].way);
    int kinds[SW_FILE_FOLDER_SYNCED + 1];
    its.stops = true;
    sw_crash_leave_each_out(crash, look, &its.wrong, kinds);
    CU_ASSERT(kinds[SW_FILE_SYNCED] == 2 && kinds[SW_FILE_FOLDER_SYNCED] == 1);
    CU_ASSERT(kinds[SW_FILE_RENAMED] > 0 && kinds[SW_FILE_LINKED] > 0);
    CU_ASSERT_EQUAL(kinds[SW_FILE_NAMED], ways[i].way.named ? 0 : 1);
    sw_note("%s: %d syncs, %d renames, %d links, %d namings, %d syncs of the folder",
            ways[i].name, kinds[SW_FILE_SYNCED], kinds[SW_FILE_RENAMED], kinds[SW_FILE_LINKED],
            kinds[SW_FILE_NAMED], kinds[SW_FILE_FOLDER_SYNCED]);
    sw_crash_free(crash);
}

/* Without one of its syncs, renames, links or namings a save breaks its promise in some state.
 */
SW_TEST("no call can be left out")
{
    for (int i = 0; i < (sw_tests_full() ? WAYS : 1); i++)
        leave_each_out(i);
}

/* The log is synced after the save instead of inside of it: a checkpoint is there with a log
 * that is too short. */
SW_TEST("the log cannot be synced late")
{
    sw_crash *crash = record("late log", (way){.no_copy = true, .log_late = true});
    (void)sw_crash_states(crash, -1, look, NULL);
    SW_CHECK(its.wrong > 0 && strstr(its.why, "step 3: its log is too short") != NULL, "%s",
             its.why);
    sw_crash_free(crash);
}
