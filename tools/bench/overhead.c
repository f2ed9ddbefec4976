/* bench overhead: what watching, recording and saving cost a training.
 *
 * events: an event of the log, a clocked edge or a range in loops that take turns with the same
 * loop without it, and a log on its way to the file. steps: a perceptron of 5,010 parameters
 * and LeNet5 that differ in nothing but what is recorded or said to a tool. checkpoint: runs of
 * some seconds, one that saves nothing and one that saves again and again. */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/nvtx.h"
#include "profiler/record/watch.h"
#include "tools/bench/subjects.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

static struct {
    const char *what, *model;
    int64_t batch, rounds, steps, events, seconds, pairs;
    cli_every every;
} o;

/* A folder of this run alone, for its files; "" when there is none to be had. */
static sw_status make_folder(char *to, size_t capacity)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(to, capacity, "%s/stepwell-bench-XXXXXX",
             temporary != NULL && *temporary != '\0' ? temporary : "/tmp");
    if (mkdtemp(to) != NULL)
        return SW_OK;
    const sw_status status =
        sw_error_set(SW_IO, __FILE__, __LINE__, "%s: %s", to, strerror(errno));
    to[0] = '\0';
    return status;
}

/* ---- events alone ------------------------------------------------------------------------ */

/* The arena's three have pairs of events: a range lives and dies. */
enum {
    CONTROL,
    PUT,
    EDGE,
    OP_EDGES,
    RANGE,
    UNWATCHED,
    WATCHED,
    LOGGED,
    LOOPS,
    PER_LOOP = 16384
};
static const char *const loops[LOOPS] = {"empty_loop",    "event",       "edge",
                                         "op_edges",      "nvtx_range",  "arena_alone",
                                         "arena_watched", "arena_logged"};

typedef struct {
    sw_record_log *log;
    sw_watch watch[LOOPS];
    sw_arena *arena[LOOPS];
} alone;

/* Something that no compiler sees through. */
static inline void opaque(void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static sw_status loop(void *context, int i)
{
    static const sw_nvtx_name name = {NULL, "pair"};
    static sw_watch nobody;
    alone *a = context;
    sw_record_log *log = a->log;
    log->n = 0;
    if (i >= UNWATCHED) {
        sw_arena *arena = a->arena[i];
        for (uint32_t k = 0; k < PER_LOOP / 2; k++) {
            const size_t offset = (size_t)(k % 64) * 4096;
            SW_TRY(sw_arena_place(arena, offset, 4096, k));
            sw_arena_release(arena, offset, 4096, k);
        }
        return SW_OK;
    }
    for (uint32_t k = 0; k < PER_LOOP; k++) {
        opaque(log);
        if (i == PUT)
            sw_record_range(log, SW_RECORD_PLACE, (size_t)k * 64, 4096, k);
        else if (i == EDGE)
            sw_record_edge(log, SW_RECORD_OP, k, sw_clock_ns());
        else if (i == OP_EDGES) {
            opaque(&nobody);
            sw_watch_op(&nobody, 0);
            opaque(&nobody);
            sw_watch_op_end(&nobody);
        } else if (i == RANGE) {
            sw_nvtx_begin(SW_NVTX_IN_OP, &name, k);
            opaque(log);
            sw_nvtx_end();
        }
    }
    return SW_OK;
}

static sw_status open_alone(alone *a)
{
    SW_TRY(sw_record_log_create(&a->log, PER_LOOP, 0));
    for (int i = UNWATCHED; i < LOOPS; i++) {
        sw_store *store;
        SW_TRY(sw_store_host_create(&store, 1 << 20));
        const sw_arena_opts opts = {
            .label = loops[i],
            .store = store,
            .observer = i == UNWATCHED ? (sw_observer){0} : sw_watch_observer(&a->watch[i])};
        SW_TRY(sw_arena_create(&a->arena[i], &opts));
        SW_TRY(sw_arena_grow(a->arena[i], 1 << 19, true));
    }
    a->watch[LOGGED].log = a->log;
    return SW_OK;
}

/* clang-format off */
#define LOOP_ROW(X, t) \
    X(t, WORD, name, "loop", 24) \
    X(t, TIMES, times, "", 0) \
    X(t, REAL, each_ns, "each, ns", 10)
/* clang-format on */

/* ---- events to the file ------------------------------------------------------------------ */

enum { DUMPS = 5 };

/* Numbers as long as those of a network with some thousand tensors. */
static void fill(sw_record *log, size_t n)
{
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        log[i] = (sw_record){state >> 12,      state >> 18,
                             state % 5000,     (uint8_t)(i % SW_RECORD_KINDS),
                             (uint8_t)(i % 5), 0};
    }
}

static sw_status write_log(const char *path, const sw_prof_step *step, cli_times *times)
{
    const sw_prof_header header = {.path = path, .model = "events"};
    sw_profile *profile;
    SW_TRY(sw_prof_create(&profile, &header));
    const uint64_t start = cli_clock_ns();
    sw_prof_step_record(profile, step);
    const sw_status flushed = sw_prof_flush(profile);
    cli_times_add(times, cli_clock_ns() - start);
    const sw_status closed = sw_prof_destroy(profile);
    return flushed != SW_OK ? flushed : closed;
}

static sw_status file_bytes(const char *path, uint64_t *bytes)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = sw_file_size(file, bytes);
    sw_file_drop(file);
    return status;
}

/* clang-format off */
#define DUMP_ROW(X, t) \
    X(t, COUNT, events, "events to a file", 24) \
    X(t, TIMES, dump, "", 0) \
    X(t, BYTES, bytes, "bytes", 0) \
    X(t, REAL, event_ns, "each, ns", 10)
/* clang-format on */

static sw_status dump_to(bench *b, const char *folder, const sw_prof_step *step)
{
    BENCH_ROW(row, fields, DUMP_ROW);
    char path[1024];
    cli_times times;
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/dump.jsonl", folder);
    SW_TRY(cli_times_init(&times, DUMPS));
    sw_status status = SW_OK;
    for (int i = 0; i < DUMPS && status == SW_OK && !cli_interrupted(); i++)
        status = write_log(path, step, &times);
    const cli_summary dump = cli_times_summary(&times);
    cli_times_free(&times);
    if (status == SW_OK)
        status = file_bytes(path, &bytes);
    const sw_status removed = sw_file_remove(path);
    const row r = SW_INIT(.events = o.events, .dump = dump, .bytes = (int64_t)bytes,
                          .event_ns = (double)dump.median / (double)o.events);
    if (status == SW_OK)
        bench_rows(b, "dump", fields, &r, 1);
    return status == SW_OK ? removed : status;
}

/* ---- steps ------------------------------------------------------------------------------- */

/* The recordings, and what a tool hears, besides the step. */
typedef struct {
    const char *name;
    bool no_phases, profile, file, events, clocks;
    sw_nvtx_level nvtx;
} recording;
enum { RECORDINGS = 9 };
static const recording recordings[RECORDINGS] = {
    {.name = "nothing", .no_phases = true},
    {.name = "phases"},
    {.name = "profile, no file", .profile = true},
    {.name = "profile, file", .profile = true, .file = true},
    {.name = "and events", .profile = true, .file = true, .events = true},
    {.name = "and op clocks", .profile = true, .file = true, .clocks = true},
    {.name = "nvtx phases", .nvtx = SW_NVTX_PHASES},
    {.name = "nvtx layers", .nvtx = SW_NVTX_LAYERS},
    {.name = "nvtx ops", .nvtx = SW_NVTX_OPS}};

typedef struct {
    char folder[900], path[RECORDINGS][1024];
    sw_profile *profile[RECORDINGS];
    bench_subject subject[RECORDINGS];
} steps;

static sw_status open_steps(steps *s, const bench *b, const bench_case *c)
{
    SW_TRY(make_folder(s->folder, sizeof s->folder));
    for (int i = 0; i < RECORDINGS; i++) {
        const recording *r = &recordings[i];
        snprintf(s->path[i], sizeof s->path[i], "%s/%d.jsonl", s->folder, i);
        const sw_profile_opts opts =
            SW_INIT(.size = sizeof opts, .path = r->file ? s->path[i] : NULL, .model = c->name,
                    .device = "cpu", .events = r->events);
        if (r->profile)
            SW_TRY(sw_profile_create(&s->profile[i], &opts));
        const sw_exec_opts exec =
            SW_INIT(.size = sizeof exec, .threads = (int)b->threads, .profile = s->profile[i],
                    .op_clocks = r->clocks, .no_phases = r->no_phases, .nvtx = r->nvtx);
        SW_TRY(bench_subject_make(&s->subject[i], c, o.batch, &exec));
    }
    return SW_OK;
}

static sw_status one_step(void *context, int i)
{
    return bench_subject_step(&((steps *)context)->subject[i]);
}

static sw_status measure_steps(bench *b, const bench_case *c, int64_t n)
{
    static steps s;
    bench_variant v[RECORDINGS];
    memset(&s, 0, sizeof s);
    for (int i = 0; i < RECORDINGS; i++)
        v[i].name = recordings[i].name;
    sw_status status = open_steps(&s, b, c);
    if (status == SW_OK)
        status = bench_take_turns(v, RECORDINGS, n, one_step, &s);
    for (int i = 0; i < RECORDINGS; i++) {
        bench_subject_destroy(&s.subject[i]);
        if (s.profile[i] == NULL)
            continue;
        const sw_status closed = sw_profile_destroy(s.profile[i]),
                        removed = recordings[i].file ? sw_file_remove(s.path[i]) : SW_OK;
        status = status != SW_OK ? status : closed != SW_OK ? closed : removed;
    }
    if (s.folder[0] != '\0')
        (void)rmdir(s.folder);
    if (status == SW_OK)
        bench_put_variants(b,
                           c->members > 0 ? "members"
                           : c->plain     ? "perceptron"
                                          : "lenet5",
                           v, RECORDINGS);
    return status;
}

static sw_status measure_recordings(bench *b)
{
    static const bench_field facts[] = {
        {"nvtx_tool", BENCH_FLAG, 0, "a tool of NVTX is attached:", 0}};
    const bool attached = sw_nvtx_attached();
    bench_case perceptron = *bench_case_find(BENCH_OF_SPEED, "mlp200");
    perceptron.members = 0;
    bench_facts(b, facts, &attached);
    SW_TRY(measure_steps(b, &perceptron, o.steps));
    return measure_steps(b, bench_case_find(0, "digits"),
                         o.steps > 10 ? o.steps / 10 : o.steps);
}

/* ---- checkpoints ------------------------------------------------------------------------- */

enum { MOST_STEPS = 1 << 20 };

typedef struct {
    char folder[1024], path[1100];
    bench_subject subject;
    sw_checkpoint *checkpoint;
    cli_times with, without; /* steps that a save was taken at, and others of the same runs */
    double least_ns[2]; /* of a step, in the fastest run without and with saves; 0: none yet */
    uint64_t saves, busy, copy_ns, write_ns; /* the last two: at most */
} saving;

static const char *file_system(const char *folder)
{
    struct statfs fs;
    static const struct {
        long type;
        const char *name;
    } known[] = {{0xef53, "ext4"},
                 {0x01021994, "tmpfs"},
                 {0x58465342, "xfs"},
                 {0x9123683e, "btrfs"},
                 {0x794c7630, "overlayfs"}};
    for (size_t i = 0; statfs(folder, &fs) == 0 && i < sizeof known / sizeof *known; i++)
        if ((long)fs.f_type == known[i].type)
            return known[i].name;
    return "an unknown file system";
}

static sw_status open_saving(saving *s, const bench *b)
{
    const bool gpt = strcmp(o.model, "gpt") == 0;
    const bench_case *c =
        gpt ? bench_case_find(BENCH_OF_SPEED, "gpt") : bench_case_find(0, "digits");
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)b->threads};
    SW_TRY(
        bench_subject_make(&s->subject, c, gpt && o.batch == 128 ? c->batch : o.batch, &exec));
    SW_TRY(make_folder(s->folder, sizeof s->folder));
    snprintf(s->path, sizeof s->path, "%s/checkpoint", s->folder);
    const sw_checkpoint_opts opts = {
        .size = sizeof opts, .path = s->path, .models = &s->subject.net.model, .n_models = 1};
    SW_TRY(sw_checkpoint_create(&s->checkpoint, s->subject.exec, &opts));
    SW_TRY(sw_checkpoint_ready(s->checkpoint));
    SW_TRY(cli_times_init(&s->with, MOST_STEPS));
    SW_TRY(cli_times_init(&s->without, MOST_STEPS));
    return sw_checkpoint_save(s->checkpoint, s->subject.step);
}

/* Take a checkpoint, unless one is being written: *taken says so. */
static sw_status save(saving *s, bool *taken)
{
    sw_checkpoint_info info = {.size = sizeof info};
    SW_TRY(sw_checkpoint_describe(s->checkpoint, &info));
    if (info.last != SW_OK)
        return sw_checkpoint_wait(s->checkpoint);
    if (info.busy) {
        s->busy++;
        return SW_OK;
    }
    s->write_ns = info.write_ns > s->write_ns ? info.write_ns : s->write_ns;
    SW_TRY(sw_checkpoint_take(s->checkpoint, s->subject.step));
    SW_TRY(sw_checkpoint_write(s->checkpoint));
    SW_TRY(sw_checkpoint_describe(s->checkpoint, &info));
    s->copy_ns = info.copy_ns > s->copy_ns ? info.copy_ns : s->copy_ns;
    s->saves++;
    *taken = true;
    return SW_OK;
}

/* Steps for some seconds; keeps the ns of one in the fastest run. A run that saves begins with
 * the time until its first save, so that each has as many as it should. */
static sw_status run_for(saving *s, bool saves)
{
    const uint64_t start = cli_clock_ns(), all = (uint64_t)o.seconds * 1000000000u;
    uint64_t now = start, n = 0, next_ns = start + o.every.ns / 2, next_step = o.every.steps;
    while (now - start < all && !cli_interrupted()) {
        bool taken = false;
        const uint64_t before = now;
        SW_TRY(bench_subject_step(&s->subject));
        n++;
        if (saves && (o.every.steps > 0 ? n >= next_step : now >= next_ns)) {
            SW_TRY(save(s, &taken));
            next_ns = taken ? next_ns + o.every.ns : next_ns;
            next_step = taken ? n + o.every.steps : next_step;
        }
        now = cli_clock_ns();
        if (saves)
            cli_times_add(taken ? &s->with : &s->without, now - before);
    }
    if (saves)
        SW_TRY(sw_checkpoint_wait(s->checkpoint));
    const double ns = n > 0 ? (double)(cli_clock_ns() - start) / (double)n : 0.0;
    if (s->least_ns[saves] == 0.0 || ns < s->least_ns[saves])
        s->least_ns[saves] = ns;
    return SW_OK;
}

/* clang-format off */
#define CHECKPOINT_ROW(X, t) \
    X(t, WORD, model, "", 7) \
    X(t, WORD, file_system, "on", 9) \
    X(t, COUNT, batch, "batch", 5) \
    X(t, BYTES, copy_bytes, "copy", 0) \
    X(t, TIME, plain_step_ns, "plain", 0) \
    X(t, TIME, saving_step_ns, "saving", 0) \
    X(t, REAL, cost_percent, "cost %", 0) \
    X(t, COUNT, saves, "saves", 6) \
    X(t, COUNT, busy, "busy", 5) \
    X(t, NS, copy_ns, "copied in", 0) \
    X(t, NS, write_ns, "written in", 0) \
    X(t, TIMES, step_with_save, "with", 0) \
    X(t, TIMES, step_without, "without", 0) \
    X(t, TIME, p99_bound_ns, "p99 bound", 0) /* the larger of 1.5 medians plus the copy, and the p99 without */
/* clang-format on */

static sw_status measure_saving(bench *b)
{
    saving s = {.saves = 0};
    sw_status status = open_saving(&s, b);
    for (int64_t run = 0; status == SW_OK && run < 2 * o.pairs && !cli_interrupted(); run++) {
        if (!b->quiet)
            cli_progress("run %lld of %lld", (long long)run + 1, (long long)(2 * o.pairs));
        status = run_for(&s, (run / 2 + run) % 2 == 1);
    }
    if (status == SW_OK) {
        BENCH_ROW(row, fields, CHECKPOINT_ROW);
        const cli_summary with = cli_times_summary(&s.with),
                          without = cli_times_summary(&s.without);
        const double bound = 1.5 * (double)without.median + (double)s.copy_ns,
                     p99 = (double)without.p99;
        const row r =
            SW_INIT(.model = o.model, .file_system = file_system(s.folder),
                    .batch = s.subject.batch,
                    .copy_bytes = (int64_t)sw_checkpoint_bytes(s.checkpoint),
                    .saves = (int64_t)s.saves, .busy = (int64_t)s.busy,
                    .copy_ns = (int64_t)s.copy_ns, .write_ns = (int64_t)s.write_ns,
                    .plain_step_ns = s.least_ns[0], .saving_step_ns = s.least_ns[1],
                    .cost_percent = bench_percent(s.least_ns[1] - s.least_ns[0], s.least_ns[0]),
                    .step_with_save = with, .step_without = without,
                    .p99_bound_ns = bound > p99 ? bound : p99);
        bench_rows(b, "checkpoint", fields, &r, 1);
    }
    sw_checkpoint_destroy(s.checkpoint);
    bench_subject_destroy(&s.subject);
    for (int i = 0; i < 2 && s.folder[0] != '\0'; i++) {
        char path[1200];
        snprintf(path, sizeof path, "%s%s", s.path, i == 0 ? "" : ".1");
        if (sw_file_taken(path) && sw_file_remove(path) != SW_OK)
            cli_note("%s", sw_last_error());
    }
    if (s.folder[0] != '\0')
        (void)rmdir(s.folder);
    cli_times_free(&s.with);
    cli_times_free(&s.without);
    return status;
}

/* ---- the command ------------------------------------------------------------------------- */

static bool asked(const char *what)
{
    return strcmp(o.what, "all") == 0 || strcmp(o.what, what) == 0;
}

static sw_status measure(bench *b)
{
    if (asked("events")) {
        /* Each: above the loop that it is compared with, by medians, for one event, pair of
         * edges or range. */
        BENCH_ROW(row, fields, LOOP_ROW);
        alone a = {0};
        bench_variant v[LOOPS];
        row rows[LOOPS];
        for (int i = 0; i < LOOPS; i++)
            v[i].name = loops[i];
        sw_status status = open_alone(&a);
        if (status == SW_OK)
            status = bench_take_turns(v, LOOPS, o.rounds, loop, &a);
        for (int i = UNWATCHED; i < LOOPS; i++)
            sw_arena_destroy(a.arena[i]);
        sw_record_log_free(a.log);
        for (int i = 0; status == SW_OK && i < LOOPS; i++) {
            const int base = i >= UNWATCHED ? UNWATCHED : CONTROL;
            const double above = (double)v[i].times.median - (double)v[base].times.median;
            rows[i] = (row){v[i].name, v[i].times, i != base ? above / PER_LOOP : (double)NAN};
        }
        if (status == SW_OK)
            bench_rows(b, "loops", fields, rows, LOOPS);
        SW_TRY(status);
        void *log;
        char folder[900];
        const size_t n = (size_t)o.events;
        SW_TRY(sw_heap_alloc(&log, SW_HEAP_PROFILE, n * sizeof(sw_record)));
        fill(log, n);
        const sw_prof_log events = {.log = log, .n = n};
        const sw_prof_step step =
            SW_INIT(.trace = SW_PROF_NONE, .step = 1, .run = "train", .mode = "planned",
                    .measured_by = "arena", .events = &events);
        status = make_folder(folder, sizeof folder);
        if (status == SW_OK)
            status = dump_to(b, folder, &step);
        if (folder[0] != '\0')
            (void)rmdir(folder);
        sw_heap_free(log, SW_HEAP_PROFILE, n * sizeof(sw_record));
        SW_TRY(status);
    }
    if (asked("steps"))
        SW_TRY(measure_recordings(b));
    return asked("checkpoint") ? measure_saving(b) : SW_OK;
}

static const char *const cases[] = {"all", "events", "steps", "checkpoint", NULL},
                         *const models[] = {"lenet5", "gpt", NULL};
static const cli_option options[] = {
    BENCH_NAME("--case", &o.what, "all", "events, steps, checkpoint, or all", cases),
    BENCH_NUMBER("--batch", &o.batch, "128", "rows per step", 1, 1 << 16),
    BENCH_NUMBER("--rounds", &o.rounds, "300", "events: loops of each kind", 1, 1 << 20),
    BENCH_NUMBER("--events", &o.events, "1000000", "events: so many are written", 1, 1 << 26),
    BENCH_NUMBER("--steps", &o.steps, "4000", "steps: of the perceptron; a tenth for lenet5", 1,
                 1 << 20),
    BENCH_NAME("--model", &o.model, "lenet5",
               "checkpoint: lenet5, or gpt of 4 layers of 256, vocabulary 8192, 8 rows of 128",
               models),
    BENCH_NUMBER("--seconds", &o.seconds, "60", "checkpoint: of a run", 1, 3600),
    BENCH_NUMBER("--pairs", &o.pairs, "5", "checkpoint: runs of each kind", 1, 100),
    {"--every", "N|Ns|Nm", CLI_EVERY, &o.every, "1s", "checkpoint: save so often"},
};

const bench_command bench_overhead = {
    .name = "overhead",
    .line = "what events, profiles, NVTX and checkpoints cost a step",
    .about = "Events in a loop and on their way to a file; steps with and without a profile, "
             "op clocks "
             "and ranges for Nsight; steps with saves in the background beside steps without.",
    .threads = "1",
    BENCH_OPTIONS(options),
    .run = measure,
    .notes = "Steps and loops take turns. The tool for ranges is the one that "
             "NVTX_INJECTION64_PATH names, or none. Checkpoints lie in a folder below TMPDIR; "
             "their cost is by the fastest run of each kind."};
