/* bench profiler: what an event costs, alone, in a step of LeNet5 and on its way to the file.
 *
 * Events are put in loops that take turns with the same loop without them; what they cost is
 * the difference of medians. Steps differ in nothing but what is recorded, and take turns too.
 */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/nvtx.h"
#include "profiler/record/watch.h"
#include "tools/bench/bench.h"
#include <string.h>
#include <unistd.h>

typedef struct {
    bench_common common;
    int64_t rounds, steps, events;
} profiler_opts;

/* ---- alone ------------------------------------------------------------------------------- */

/* The arena's three have pairs of events: a range lives and dies. */
enum { CONTROL, PUT, EDGE, RANGE, UNWATCHED, WATCHED, LOGGED, LOOPS };
enum { PER_LOOP = 16384 };
static const bench_variant loops[LOOPS] = {{.name = "empty loop", .key = "empty_loop"},
                                           {.name = "event", .key = "event"},
                                           {.name = "edge", .key = "edge"},
                                           {.name = "NVTX range", .key = "nvtx_range"},
                                           {.name = "arena alone", .key = "arena_alone"},
                                           {.name = "watched", .key = "arena_watched"},
                                           {.name = "and logged", .key = "arena_logged"}};

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

static sw_status live_and_die(sw_arena *arena)
{
    for (uint32_t k = 0; k < PER_LOOP / 2; k++) {
        const size_t offset = (size_t)(k % 64) * 4096;
        SW_TRY(sw_arena_place(arena, offset, 4096, k));
        sw_arena_release(arena, offset, 4096, k);
    }
    return SW_OK;
}

static sw_status loop(void *context, int i)
{
    static const sw_nvtx_name name = {NULL, "pair"};
    alone *a = context;
    sw_record_log *log = a->log;
    log->n = 0;
    if (i >= UNWATCHED)
        return live_and_die(a->arena[i]);
    for (uint32_t k = 0; k < PER_LOOP; k++) {
        opaque(log);
        if (i == PUT)
            sw_record_range(log, SW_RECORD_PLACE, (size_t)k * 64, 4096, k);
        else if (i == EDGE)
            sw_record_edge(log, SW_RECORD_OP, k, sw_clock_ns());
        else if (i == RANGE) {
            sw_nvtx_begin(SW_NVTX_IN_OP, &name, k);
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
            .label = loops[i].key,
            .store = store,
            .observer = i == UNWATCHED ? (sw_observer){0} : sw_watch_observer(&a->watch[i])};
        const sw_status status = sw_arena_create(&a->arena[i], &opts);
        if (status != SW_OK) {
            sw_store_destroy(store);
            return status;
        }
        SW_TRY(sw_arena_grow(a->arena[i], 1 << 19, true));
    }
    a->watch[LOGGED].log = a->log;
    return SW_OK;
}

static sw_status measure_alone(bench_variant *v, const profiler_opts *o)
{
    alone a = {0};
    memcpy(v, loops, sizeof loops);
    sw_status status = open_alone(&a);
    if (status == SW_OK)
        status = bench_take_turns(v, LOOPS, o->rounds, loop, &a);
    for (int i = UNWATCHED; i < LOOPS; i++)
        sw_arena_destroy(a.arena[i]);
    sw_record_log_free(a.log);
    return status;
}

/* Above the loop that it is held against, by medians, for one event, edge or range. */
static double each_ns(const bench_variant *v, int i)
{
    const int base = i > UNWATCHED ? UNWATCHED : CONTROL;
    return ((double)v[i].summary.median - (double)v[base].summary.median) / PER_LOOP;
}

/* ---- in a step --------------------------------------------------------------------------- */

enum { NOTHING, PHASES, FILED, EVENTS, VARIANTS };
static const bench_variant variants[VARIANTS] = {{.name = "nothing", .key = "none"},
                                                 {.name = "phases", .key = "phases"},
                                                 {.name = "and a file", .key = "file"},
                                                 {.name = "and events", .key = "events"}};

typedef struct {
    char folder[900], path[VARIANTS][1024];
    sw_profile *profile[VARIANTS];
    bench_lenet lenet[VARIANTS];
} steps;

static sw_status open_steps(steps *s, const profiler_opts *o)
{
    SW_TRY(bench_make_folder(s->folder, sizeof s->folder));
    for (int i = 0; i < VARIANTS; i++) {
        snprintf(s->path[i], sizeof s->path[i], "%s/%s.jsonl", s->folder, variants[i].key);
        const sw_profile_opts opts = {
            .size = sizeof opts, .path = s->path[i], .model = "lenet5", .events = i == EVENTS};
        if (i >= FILED)
            SW_TRY(sw_profile_create(&s->profile[i], &opts));
        const sw_exec_opts exec = {.size = sizeof exec,
                                   .threads = (int)o->common.threads,
                                   .profile = s->profile[i],
                                   .no_phases = i == NOTHING};
        SW_TRY(bench_lenet_create(&s->lenet[i], o->common.batch, true, &exec));
    }
    return SW_OK;
}

static sw_status one_step(void *context, int i)
{
    steps *s = context;
    return bench_lenet_step(&s->lenet[i]);
}

static sw_status measure_steps(bench_variant *v, const profiler_opts *o)
{
    steps s = {0};
    memcpy(v, variants, sizeof variants);
    sw_status status = open_steps(&s, o);
    if (status == SW_OK)
        status = bench_take_turns(v, VARIANTS, o->steps, one_step, &s);
    for (int i = 0; i < VARIANTS; i++) {
        bench_lenet_destroy(&s.lenet[i]);
        if (s.profile[i] == NULL)
            continue;
        const sw_status closed = sw_profile_destroy(s.profile[i]);
        const sw_status removed = sw_file_remove(s.path[i]);
        status = status != SW_OK ? status : closed != SW_OK ? closed : removed;
    }
    if (s.folder[0] != '\0')
        (void)rmdir(s.folder);
    return status;
}

/* ---- to the file ------------------------------------------------------------------------- */

enum { DUMPS = 5 };
typedef struct {
    cli_summary summary; /* of the whole log, flushed */
    uint64_t bytes;
} dump;

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

static sw_status dump_to(dump *d, const char *folder, const sw_prof_step *step)
{
    char path[1024];
    cli_times times;
    snprintf(path, sizeof path, "%s/dump.jsonl", folder);
    SW_TRY(cli_times_init(&times, DUMPS));
    sw_status status = SW_OK;
    for (int i = 0; i < DUMPS && status == SW_OK && !cli_interrupted(); i++)
        status = write_log(path, step, &times);
    d->summary = cli_times_summary(&times);
    cli_times_free(&times);
    if (status == SW_OK)
        status = file_bytes(path, &d->bytes);
    const sw_status removed = sw_file_remove(path);
    return status == SW_OK ? removed : status;
}

static sw_status measure_dump(dump *d, const profiler_opts *o)
{
    void *log;
    char folder[900];
    const size_t n = (size_t)o->events;
    SW_TRY(sw_heap_alloc(&log, SW_HEAP_PROFILE, n * sizeof(sw_record)));
    fill(log, n);
    const sw_prof_log events = {.log = log, .n = n};
    const sw_prof_step step = {.trace = SW_PROF_NONE,
                               .step = 1,
                               .run = "train",
                               .mode = "planned",
                               .measured_by = "arena",
                               .events = &events};
    sw_status status = bench_make_folder(folder, sizeof folder);
    if (status == SW_OK)
        status = dump_to(d, folder, &step);
    if (folder[0] != '\0')
        (void)rmdir(folder);
    sw_heap_free(log, SW_HEAP_PROFILE, n * sizeof(sw_record));
    return status;
}

/* ---- telling ----------------------------------------------------------------------------- */

static void print(const profiler_opts *o, const bench_variant *v, const bench_variant *s,
                  const dump *d)
{
    if (!o->common.quiet)
        printf("loops of %s, %s times; lenet5, batch %lld, %lld thread%s, %s steps of each; "
               "taking turns\n\n",
               cli_digits(PER_LOOP).text, cli_digits(v[CONTROL].summary.n).text,
               (long long)o->common.batch, (long long)o->common.threads,
               o->common.threads == 1 ? "" : "s", cli_digits(s[NOTHING].summary.n).text);
    printf("%-12s %12s %12s %12s\n", "loop", "min", "median", "each");
    for (int i = 0; i < LOOPS; i++) {
        printf("  %-11s%12s %12s", v[i].name, cli_ns(v[i].summary.min).text,
               cli_ns(v[i].summary.median).text);
        if (i == CONTROL || i == UNWATCHED)
            putchar('\n');
        else
            printf(" %9.2f ns\n", each_ns(v, i));
    }
    bench_print_variants("step", s, VARIANTS);
    printf("%-12s %12s %12s\n", "dump", "min", "median");
    printf("  %-10s %12s %12s   %s events, %s, %.1f ns each\n", "events",
           cli_ns(d->summary.min).text, cli_ns(d->summary.median).text,
           cli_digits((uint64_t)o->events).text, cli_bytes(d->bytes).text,
           (double)d->summary.median / (double)o->events);
}

static void put(sw_json *json, const profiler_opts *o, const bench_variant *v,
                const bench_variant *s, const dump *d)
{
    sw_json_put_u64(json, "per_loop", PER_LOOP);
    bench_put_variants(json, "loops", v, LOOPS);
    sw_json_open(json, "each_ns", '{');
    for (int i = PUT; i < LOOPS; i++)
        if (i != UNWATCHED)
            sw_json_put_f64(json, v[i].key, each_ns(v, i));
    sw_json_end(json);
    bench_put_variants(json, "lenet5", s, VARIANTS);
    bench_put(json, "dump", &d->summary);
    sw_json_put_i64(json, "dump_events", o->events);
    sw_json_put_u64(json, "dump_bytes", d->bytes);
    sw_json_put_f64(json, "dump_event_ns", (double)d->summary.median / (double)o->events);
}

static int run(const profiler_opts *o)
{
    bench_variant v[LOOPS], s[VARIANTS];
    dump d = {0};
    cli_catch_interrupt();
    sw_status status = measure_alone(v, o);
    if (status == SW_OK)
        status = measure_steps(s, o);
    if (status == SW_OK)
        status = measure_dump(&d, o);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (!o->common.json) {
        print(o, v, s, &d);
        return cli_finish(code);
    }
    sw_json json;
    result_json_begin(&json);
    put(&json, o, v, s, &d);
    return result_json_end(&json, code);
}

int bench_profiler(int argc, char **argv)
{
    profiler_opts o = {0};
    const cli_option options[] = {
        {"--rounds", "N", CLI_COUNT, &o.rounds, "300", "loops of each kind", 1, 1 << 20, NULL},
        {"--steps", "N", CLI_COUNT, &o.steps, "400", "steps of lenet5 of each kind", 1, 1 << 20,
         NULL},
        {"--events", "N", CLI_COUNT, &o.events, "1000000", "events that are written", 1,
         1 << 26, NULL},
    };
    const int status = bench_parse(
        "bench profiler",
        "Events of the log: put in a loop, in steps of LeNet5, and written to a file.", options,
        (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
