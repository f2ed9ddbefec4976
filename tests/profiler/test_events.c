/* Event logs of whole steps, as they stand in the file: replayed they have the figures of the
 * step's record, every tensor that is born dies, and what they say is what the plan, or the
 * trace of an immediate run, says. And what layers and scopes are in the file. */
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "profiler/record/record.h"
#include "tests/profiler/read_back.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include "runtime/stepwell.h"
#include <unistd.h>

SW_TESTS("events")

enum { FIELDS = 5, MOST_EVENTS = 1 << 16, MOST_IDS = 1 << 15 };

/* ---- a run of the file ------------------------------------------------------------------- */

typedef struct {
    const json_t *program;               /* its plan or trace */
    const json_t *value_of_id[MOST_IDS]; /* in the step arena; NULL: none */
    uint32_t born[MOST_IDS], n_values;   /* born: how often in this run */
    bool lives[MOST_IDS];
    sw_record log[MOST_EVENTS];
    size_t n;
    uint64_t n_reuses;
} run_log;

static void add_events(run_log *r, const json_t *record)
{
    const json_t *log = json_object_get(record, "log");
    const size_t n = json_array_size(log) / FIELDS;
    CU_ASSERT_EQUAL(number_of(record, "dropped"), 0);
    CU_ASSERT(n > 0 && n <= 4096 && n * FIELDS == json_array_size(log));
    CU_ASSERT_FATAL(r->n + n <= MOST_EVENTS);
    for (size_t i = 0; i < n; i++) {
        json_int_t x[FIELDS];
        for (size_t k = 0; k < FIELDS; k++)
            x[k] = json_integer_value(json_array_get(log, i * FIELDS + k));
        r->log[r->n++] = (sw_record){(uint32_t)x[0], (uint32_t)x[1], (uint32_t)x[2],
                                     (uint8_t)x[3],  (uint8_t)x[4],  0};
    }
}

static void take_program(run_log *r, const json_t *records, const json_t *step)
{
    const bool planned = json_is_integer(json_object_get(step, "program"));
    const char *key = planned ? "program" : "trace";
    r->program = NULL;
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *x = json_array_get(records, i);
        if (text_is(x, "type", planned ? "plan" : "trace") &&
            number_of(x, key) == number_of(step, key))
            r->program = x;
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(r->program);
    memset(r->value_of_id, 0, sizeof r->value_of_id);
    memset(r->born, 0, sizeof r->born);
    memset(r->lives, 0, sizeof r->lives);
    r->n_values = 0;
    const json_t *values = json_object_get(r->program, "values");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *v = json_array_get(values, i);
        const int64_t id = number_of(v, "id");
        CU_ASSERT_FATAL(id >= 0 && id < MOST_IDS);
        if (text_is(v, "segment", "step")) {
            r->value_of_id[id] = v;
            r->n_values++;
        }
    }
}

/* ---- what must hold ---------------------------------------------------------------------- */

static bool replay_is_the_step(const run_log *r, const json_t *step)
{
    sw_prof_phase phase[SW_PROF_PHASES];
    const size_t base =
        (size_t)(number_of(r->program, "model_bytes") + number_of(r->program, "slot_bytes"));
    bool same = record_replay(r->log, r->n, base, phase) == 0;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        same = same && (int64_t)phase[i].peak_bytes == phase_number(step, i, "peak_bytes") &&
               (int64_t)phase[i].end_bytes == phase_number(step, i, "end_bytes") &&
               (int64_t)phase[i].ns == phase_number(step, i, "ns");
    return same;
}

static bool has_place_of(const sw_record *x, const json_t *value)
{
    const int64_t bytes = number_of(value, "bytes") + number_of(value, "padding");
    return (int64_t)x->offset * SW_ALIGN == number_of(value, "offset") &&
           (int64_t)x->bytes * SW_ALIGN == bytes;
}

/* A birth or death is at the op and of the bytes that the program says. */
static bool event_is_planned(run_log *r, const sw_record *x, int64_t *op)
{
    const char *phases = json_string_value(json_object_get(r->program, "op_phase"));
    const json_t *v = x->id < MOST_IDS ? r->value_of_id[x->id] : NULL;
    bool good = v != NULL && has_place_of(x, v);
    switch ((sw_record_kind)x->kind) {
    case SW_RECORD_OP:
        return x->id == ++*op && x->id < strlen(phases) && x->phase == phases[*op] - '0';
    case SW_RECORD_PLACE:
    case SW_RECORD_PUSH:
    case SW_RECORD_REUSE:
        if (!good || r->born[x->id]++ > 0 || number_of(v, "birth") != *op)
            return false;
        r->lives[x->id] = x->kind != SW_RECORD_REUSE;
        r->n_reuses += x->kind == SW_RECORD_REUSE;
        return (x->kind == SW_RECORD_REUSE) == (json_object_get(v, "alias") != NULL);
    case SW_RECORD_RELEASE:
        good = good && r->lives[x->id] && number_of(v, "death") == *op;
        if (good)
            r->lives[x->id] = false;
        return good;
    case SW_RECORD_RESET: /* what lives there lives to the end in the program too */
        good = true;
        for (uint32_t id = 0; id < MOST_IDS; id++) {
            good = good && (!r->lives[id] || number_of(r->value_of_id[id], "death") ==
                                                 number_of(r->program, "n_ops"));
            r->lives[id] = false;
        }
        return good;
    case SW_RECORD_PHASE:
        return x->id == x->phase;
    case SW_RECORD_RUN:
        return x == r->log;
    case SW_RECORD_END:
        return *op + 1 == number_of(r->program, "n_ops");
    case SW_RECORD_DENIED:
    case SW_RECORD_KINDS:
        break;
    }
    return false;
}

static void check_run(run_log *r, const json_t *step)
{
    int64_t op = -1;
    uint64_t now = 0;
    SW_CHECK(replay_is_the_step(r, step), "step %lld", (long long)number_of(step, "step"));
    for (size_t i = 0; i < r->n; i++) {
        const sw_record *x = &r->log[i];
        if (!SW_CHECK(event_is_planned(r, x, &op), "event %zu: kind %d id %u at op %lld", i,
                      x->kind, x->id, (long long)op))
            return;
        const bool edge = x->kind <= SW_RECORD_OP || x->kind == SW_RECORD_END;
        CU_ASSERT(!edge || sw_record_ns(x) >= now);
        now = edge ? sw_record_ns(x) : now;
    }
    uint32_t born = 0;
    for (uint32_t id = 0; id < MOST_IDS; id++) {
        born += r->born[id];
        CU_ASSERT_FALSE(r->lives[id]);
    }
    CU_ASSERT_EQUAL(born, r->n_values);
    CU_ASSERT_EQUAL(r->log[0].kind, SW_RECORD_RUN);
    CU_ASSERT_EQUAL(r->log[0].id, (uint32_t)number_of(step, "step"));
    CU_ASSERT_EQUAL((int64_t)sw_record_ns(&r->log[0]), number_of(step, "at_ns"));
    CU_ASSERT((int64_t)now <= number_of(step, "at_ns") + number_of(step, "ns"));
}

/* Every run of a step record has its events before it. Returns how many. */
static size_t check_file(const char *path, uint64_t *reuses)
{
    size_t runs = 0;
    run_log *r = calloc(1, sizeof *r);
    const json_t *all = read_back(path);
    for (size_t i = 0; r != NULL && i < json_array_size(all); i++) {
        const json_t *record = json_array_get(all, i);
        if (text_is(record, "type", "events")) {
            if (number_of(record, "part") == 0)
                r->n = 0;
            add_events(r, record);
        } else if (text_is(record, "type", "step")) {
            take_program(r, all, record);
            check_run(r, record);
            runs++;
            r->n = 0;
        }
    }
    *reuses = r != NULL ? r->n_reuses : 0;
    free(r);
    return runs;
}

/* ---- whole models ------------------------------------------------------------------------ */

static void train(const char *path, const char *words)
{
    const int status =
        sw_shell("'%s/tools/stepwell' train --quiet --profile '%s' --profile-events %s",
                 sw_build_root(), path, words);
    SW_CHECK(status == 0, "train %s: status %d", words, status);
}

#define LENET "--steps 3 --batch 20 --synthetic-n 70 "
#define MBCONV                                                                                 \
    "--steps 2 --model mbconv --width-factor 0.25 --depth-factor 0.25 --image-size 16 "        \
    "--synthetic-n 20 --batch 10 "
#define GPT "--steps 2 --model gpt --layers 2 --width 32 --heads 2 --context 16 --batch 8 "

SW_TEST("logs of models are their plans and steps")
{
    static const char *const words[] =
        SW_INIT(LENET, LENET "--immediate", LENET "--accumulate 2",
                LENET "--optimizer adamw --threads 2 --op-clocks", MBCONV, MBCONV "--immediate",
                GPT, GPT "--immediate");
    const char *path = sw_temp_path("events.jsonl");
    const char *text = sw_temp_path("events.txt");
    FILE *f = fopen(text, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (int i = 0; i < 600; i++)
        fprintf(f, "%d bottles ", i);
    fclose(f);
    uint64_t reuses = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const bool gpt = strstr(words[i], "gpt") != NULL;
        train(path, sw_textf("%s%s%s", words[i], gpt ? " --data text:" : "", gpt ? text : ""));
        uint64_t some;
        SW_CHECK(check_file(path, &some) >= 3, "%s", words[i]);
        reuses += some;
    }
    CU_ASSERT(reuses > 0);
}

SW_TEST("steps that are left out are counted, and the last is there")
{
    const char *path = sw_temp_path("every.jsonl");
    train(path, LENET "--profile-every 2");
    const json_t *all = read_back(path);
    const json_t *steps[32], *events[32], *end;
    size_t trained = 0;
    const size_t n = records_of(all, "step", steps, 32);
    CU_ASSERT_EQUAL(records_of(all, "events", events, 32) + 1, n); /* the last has none */
    for (size_t i = 0; i < n; i++)
        if (text_is(steps[i], "run", "train"))
            CU_ASSERT_EQUAL(number_of(steps[i], "step"), (int64_t)++trained); /* 1, 2, last */
    CU_ASSERT_EQUAL(trained, 3);
    CU_ASSERT_EQUAL(records_of(all, "end", &end, 1), 1);
    CU_ASSERT_EQUAL(number_of(end, "steps"), 3);
}

/* ---- scopes ------------------------------------------------------------------------------ */

enum { ROWS = 10, WIDE = 400, NARROW = 16 };

/* outer: narrow, inner: (wide, narrow), narrow; then one that is in no scope. */
static void scoped(sw_ctx *ctx, void *user)
{
    const sw_param *up = user;
    sw_scope_begin(ctx, "outer");
    sw_value x = sw_exp(ctx, sw_input(ctx, 0));
    sw_output(ctx, "first", x);
    sw_scope_begin(ctx, "inner");
    sw_value wide = sw_matmul(ctx, x, sw_use(ctx, *up));
    x = sw_slice(ctx, wide, 1, 8, NARROW);
    x = sw_tanh(ctx, x);
    sw_output(ctx, "second", x);
    sw_scope_end(ctx);
    x = sw_exp(ctx, x);
    sw_output(ctx, "third", x);
    sw_scope_end(ctx);
    sw_output(ctx, "fourth", sw_exp(ctx, x));
}

static bool is_within(const json_t *value, const char *scope)
{
    const char *layer = json_string_value(json_object_get(value, "layer"));
    const size_t n = strlen(scope);
    return layer != NULL && text_is(value, "segment", "step") &&
           strncmp(layer, scope, n) == 0 && (layer[n] == '\0' || layer[n] == '/');
}

/* The most bytes that a scope, and all within it, has at one op. */
static int64_t scope_peak(const json_t *program, const char *scope)
{
    int64_t peak = 0;
    const json_t *values = json_object_get(program, "values");
    for (int64_t at = 0; at < number_of(program, "n_ops"); at++) {
        int64_t live = 0;
        for (size_t i = 0; i < json_array_size(values); i++) {
            const json_t *v = json_array_get(values, i);
            if (is_within(v, scope) && json_object_get(v, "alias") == NULL &&
                number_of(v, "birth") <= at && at <= number_of(v, "death"))
                live += number_of(v, "bytes") + number_of(v, "padding");
        }
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void check_layers(const json_t *program)
{
    const json_t *ops = json_object_get(program, "ops"),
                 *layers = json_object_get(program, "layers"),
                 *op_layer = json_object_get(program, "op_layer");
    CU_ASSERT_EQUAL(json_array_size(op_layer), json_array_size(ops));
    CU_ASSERT_EQUAL(strlen(json_string_value(json_object_get(program, "op_phase"))),
                    json_array_size(ops));
    CU_ASSERT_EQUAL(json_array_size(layers), 3);
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const size_t k = (size_t)json_integer_value(json_array_get(op_layer, i));
        const char *layer = json_string_value(json_array_get(layers, k));
        const char *op = json_string_value(json_array_get(ops, i));
        const size_t n = layer != NULL ? strlen(layer) : 0;
        SW_CHECK(layer != NULL && strncmp(op, layer, n) == 0 &&
                     (n == 0 ? strchr(op, '/') == NULL : op[n] == ' '),
                 "%s: %s", op, layer != NULL ? layer : "?");
    }
}

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_profile *profile;
    sw_param up;
    sw_array in;
    sw_run_args args;
} scopes_run;

static void close_run(void *arg)
{
    scopes_run *r = arg;
    sw_exec_destroy(r->exec);
    sw_model_destroy(r->model);
    if (r->profile != NULL)
        SW_CHECK(sw_profile_destroy(r->profile) == SW_OK, "%s", sw_last_error());
    *r = (scopes_run){0};
}

/* Its model and a run of it; `r` has its exec already, and stays where it is. */
static void make_scoped(scopes_run *r, int immediate)
{
    static float x[ROWS * NARROW];
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&r->model, "scopes"), SW_OK);
    r->up = sw_param_new(r->model, "up.weight", SW_F32, SW_SHAPE(NARROW, WIDE), "ones");
    r->in = (sw_array){SW_F32, SW_SHAPE(ROWS, NARROW), x};
    r->args =
        SW_OPTS(sw_run_args, .fn = scoped, .user = &r->up, .models = &r->model, .n_models = 1,
                .inputs = &r->in, .n_inputs = 1, .mode = SW_EVAL, .immediate = immediate);
}

static void run_scoped(const char *path, int immediate, uint32_t event_room)
{
    static scopes_run r;
    sw_after(close_run, &r);
    const sw_profile_opts profile =
        SW_OPTS(sw_profile_opts, .path = path, .events = 1, .event_room = event_room);
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&r.profile, &profile), SW_OK);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .profile = r.profile);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&r.exec, &opts), SW_OK);
    make_scoped(&r, immediate);
    uint64_t calls = 0;
    for (int i = 0; i < 3; i++) {
        SW_CHECK(sw_run(r.exec, &r.args) == SW_OK, "%s", sw_last_error());
        CU_ASSERT(i < 2 || sw_mem_calls() == calls); /* its events and its step are no calls */
        calls = sw_mem_calls();
    }
    close_run(&r);
}

/* An outer scope keeps its peak although an inner one came and went in between: worked out by
 * hand from the sizes alone. */
SW_TEST("peaks of outer scopes survive inner ones")
{
    const int64_t narrow = ROWS * NARROW * 4, wide = ROWS * WIDE * 4;
    for (int immediate = 0; immediate < 2; immediate++) {
        const char *path = sw_temp_path("scopes.jsonl");
        run_scoped(path, immediate, 0);
        const json_t *all = read_back(path);
        const json_t *const *programs = records(all, immediate ? "trace" : "plan", 1);
        (void)records(all, immediate ? "plan" : "trace", 0);
        const json_t *const *steps = records(all, "step", 3);
        (void)records(all, "events", 3);
        check_layers(programs[0]);
        /* A bump keeps all, also what tanh reads: the slice, made contiguous. */
        const int64_t inner = scope_peak(programs[0], "outer/inner"),
                      outer = scope_peak(programs[0], "outer");
        SW_CHECK(inner == wide + narrow + (immediate ? narrow : 0), "%lld", (long long)inner);
        SW_CHECK(outer == 2 * narrow + wide + (immediate ? 2 * narrow : 0), "%lld",
                 (long long)outer);
        for (int i = 0; i < 3; i++)
            CU_ASSERT_EQUAL(number_of(steps[i], immediate ? "trace" : "program"), 0);
    }
}

/* It is whole from the front, and what it has no room for is counted. */
SW_TEST("a full log says what it lost")
{
    enum { ROOM = 9 };
    const char *path = sw_temp_path("room.jsonl");
    run_scoped(path, 0, 0);
    const json_t *all = read_back(path);
    run_scoped(path, 0, ROOM);
    const json_t *less = read_back(path);
    const json_t *const *whole = records(all, "events", 3);
    const json_t *const *full = records(less, "events", 3);
    for (int i = 0; i < 3; i++) {
        const json_t *a = json_object_get(whole[i], "log"),
                     *b = json_object_get(full[i], "log");
        CU_ASSERT_EQUAL(json_array_size(b), ROOM * FIELDS);
        CU_ASSERT_EQUAL(number_of(full[i], "dropped"),
                        (int64_t)(json_array_size(a) / FIELDS) - ROOM);
        for (size_t k = 0; k < ROOM * FIELDS; k++) /* ids, kinds and phases: no clocks */
            CU_ASSERT(k % FIELDS < 2 || json_equal(json_array_get(a, k), json_array_get(b, k)));
    }
}

/* Such a run is not counted, so there is nothing to log; with checks everything is counted. */
SW_TEST("a run that counts nothing has no events")
{
    sw_profile *profile = NULL;
    sw_exec *exec = NULL;
    const sw_profile_opts popts =
        SW_OPTS(sw_profile_opts, .path = sw_temp_path("none.jsonl"), .events = 1);
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&profile, &popts), SW_OK);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .profile = profile, .no_phases = 1);
    CU_ASSERT_EQUAL(sw_exec_create(&exec, &opts), SW_POISON ? SW_OK : SW_INVALID);
    SW_CHECK(SW_POISON || strstr(sw_last_error(), "no_phases") != NULL, "%s", sw_last_error());
    sw_exec_destroy(exec);
    CU_ASSERT_EQUAL(sw_profile_destroy(profile), SW_OK);
}

SW_TEST("parts are no longer made")
{
    scopes_run r = {0};
    size_t least = 1;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&r.exec, NULL), SW_OK);
    const sw_profile_opts opts =
        SW_OPTS(sw_profile_opts, .path = sw_temp_path("unbounded.jsonl"), .max_bytes = 1 << 20);
    CU_ASSERT_EQUAL(sw_profile_create(&r.profile, &opts), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "max_bytes must be 0"));
    CU_ASSERT(r.profile == NULL && access(opts.path, F_OK) != 0);
    CU_ASSERT_EQUAL(sw_profile_least(r.exec, NULL, 0, &opts, &least), SW_UNSUPPORTED);
    CU_ASSERT_EQUAL(least, 1);
    sw_exec_destroy(r.exec);
}

/* Immediate runs that go other ways have traces of their own; the same way has the same. */
static void branching(sw_ctx *ctx, void *user)
{
    const int *n = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < *n; i++)
        x = sw_exp(ctx, x);
    sw_metric(ctx, "sum", sw_sum(ctx, x, 1));
}

SW_TEST("each way of an immediate run is recorded once")
{
    enum { WAYS = 70 }; /* more than an exec remembers */
    static float x[8];
    const char *path = sw_temp_path("ways.jsonl");
    sw_profile *profile = NULL;
    sw_exec *exec = NULL;
    const sw_profile_opts popts = SW_OPTS(sw_profile_opts, .path = path);
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&profile, &popts), SW_OK);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .profile = profile);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, &opts), SW_OK);
    const sw_array in = {SW_F32, SW_SHAPE(8), x};
    int n;
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = branching, .user = &n, .inputs = &in,
                                     .n_inputs = 1, .mode = SW_EVAL, .immediate = 1);
    for (int round = 0; round < 2; round++)
        for (n = 1; n <= WAYS; n++)
            SW_CHECK(sw_run(exec, &args) == SW_OK, "%s", sw_last_error());
    sw_exec_destroy(exec);
    CU_ASSERT_EQUAL(sw_profile_destroy(profile), SW_OK);
    const json_t *all = read_back(path);
    const json_t *const *traces = records(all, "trace", 64);
    const json_t *const *steps = records(all, "step", 2 * WAYS);
    for (int i = 0; i < 2 * WAYS; i++) {
        const json_t *trace = json_object_get(steps[i], "trace");
        CU_ASSERT(json_is_null(json_object_get(steps[i], "program")));
        CU_ASSERT_EQUAL(json_is_integer(trace), i % WAYS < 64);
        CU_ASSERT(trace == NULL || json_integer_value(trace) == i % WAYS);
    }
    for (int i = 0; i < 64; i++)
        CU_ASSERT_EQUAL(number_of(traces[i], "n_ops"), i + 2);
}
