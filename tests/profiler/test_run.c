/* The records of a run in its profile: the plan, value by value, adds up to its own figures,
 * and each measured step is the plan's. */
#include "alloc/base/poison.h"
#include "tests/profiler/read_back.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "runtime/stepwell.h"

SW_TESTS("profile of a run")

typedef struct {
    sw_exec *exec;
    sw_profile *profile;
    sw_model *model;
    sw_optimizer *optimizer;
    sw_linear a, b;
    sw_array in[2];
    float x[24 * 7];
    uint8_t labels[24];
} fixture;

static void step_function(sw_ctx *ctx, void *user)
{
    fixture *f = user;
    sw_value x = sw_tanh(ctx, sw_apply_linear(ctx, f->a, sw_input(ctx, 0)));
    const sw_value loss = sw_softmax_ce(ctx, sw_apply_linear(ctx, f->b, x), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    sw_backward(ctx, loss, &f->optimizer, 1);
    sw_update(ctx, f->optimizer);
}

static void close_fixture(void *arg)
{
    fixture *f = arg;
    sw_exec_destroy(f->exec);
    sw_model_destroy(f->model);
    if (f->profile != NULL)
        (void)!sw_profile_destroy(f->profile);
}

static fixture *open_fixture(const char *path, int op_clocks)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    sw_after(close_fixture, &f);
    const sw_profile_opts opts = SW_OPTS(sw_profile_opts, .path = path, .model = "net",
                                         .batch = 24, .seed = 5, .data = "made up");
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&f.profile, &opts), SW_OK);
    const sw_exec_opts exec =
        SW_OPTS(sw_exec_opts, .profile = f.profile, .op_clocks = op_clocks);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&f.exec, &exec), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&f.model, "net"), SW_OK);
    f.a = sw_linear_new(f.model, "a", 7, 11);
    f.b = sw_linear_new(f.model, "b", 11, 3);
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    CU_ASSERT_EQUAL_FATAL(sw_optimizer_create(&f.optimizer, f.model, &adam), SW_OK);
    for (int i = 0; i < 24 * 7; i++)
        f.x[i] = (float)(i % 13) * 0.1f - 0.5f;
    for (int i = 0; i < 24; i++)
        f.labels[i] = (uint8_t)(i % 3);
    f.in[0] = (sw_array){SW_F32, SW_SHAPE(24, 7), f.x};
    f.in[1] = (sw_array){SW_U8, SW_SHAPE(24), f.labels};
    return &f;
}

static sw_run_args args_of(fixture *f, sw_mode mode, uint64_t step)
{
    return SW_OPTS(sw_run_args, .fn = step_function, .user = f, .models = &f->model,
                   .n_models = 1, .inputs = f->in, .n_inputs = 2, .mode = mode, .step = step);
}

static void run(fixture *f, sw_mode mode, uint64_t step, int immediate)
{
    sw_run_args args = args_of(f, mode, step);
    args.immediate = immediate;
    SW_CHECK(sw_run(f->exec, &args) == SW_OK, "%s", sw_last_error());
}

static void finish(fixture *f)
{
    sw_exec_destroy(f->exec);
    f->exec = NULL;
    SW_CHECK(sw_profile_destroy(f->profile) == SW_OK, "%s", sw_last_error());
    f->profile = NULL;
}

/* Bytes of the values that live at position `at`, of the segments that count. */
static int64_t live_at(const json_t *plan, int64_t at)
{
    int64_t sum = 0;
    const json_t *values = json_object_get(plan, "values");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *v = json_array_get(values, i);
        if (json_object_get(v, "alias") == NULL && number_of(v, "birth") <= at &&
            number_of(v, "death") >= at)
            sum += number_of(v, "bytes") + number_of(v, "padding");
    }
    return sum;
}

static void check_plan(const json_t *plan)
{
    const int64_t n_ops = number_of(plan, "n_ops");
    int64_t peak = 0, position = -1;
    for (int64_t at = 0; at < n_ops; at++)
        if (live_at(plan, at) > peak) {
            peak = live_at(plan, at);
            position = at;
        }
    CU_ASSERT_EQUAL(peak, number_of(plan, "peak_bytes"));
    CU_ASSERT_EQUAL(position, number_of(plan, "peak_position"));
    CU_ASSERT_EQUAL((int64_t)json_array_size(json_object_get(plan, "ops")), n_ops);
    CU_ASSERT_EQUAL(number_of(plan, "total_bytes"), number_of(plan, "model_bytes") +
                                                        number_of(plan, "arena_bytes") +
                                                        number_of(plan, "data_bytes"));
    const json_t *values = json_object_get(plan, "values");
    int64_t model = 0, top = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *v = json_array_get(values, i);
        const char *segment = json_string_value(json_object_get(v, "segment"));
        const int64_t bytes = number_of(v, "bytes") + number_of(v, "padding");
        const int64_t end = number_of(v, "offset") + bytes;
        if (strcmp(segment, "model") == 0)
            model += bytes;
        else if (strcmp(segment, "step") == 0 && end > top)
            top = end;
        CU_ASSERT_EQUAL(bytes % SW_ALIGN, 0);
    }
    CU_ASSERT_EQUAL(model, number_of(plan, "model_bytes"));
    CU_ASSERT_EQUAL(top, number_of(plan, "arena_bytes"));
}

static void check_phases(const json_t *plan, const json_t *step)
{
    for (int i = 0; i < SW_PHASES; i++) {
        CU_ASSERT_EQUAL(phase_number(plan, i, "peak_bytes"),
                        phase_number(step, i, "peak_bytes"));
        CU_ASSERT_EQUAL(phase_number(plan, i, "end_bytes"), phase_number(step, i, "end_bytes"));
    }
}

/* Planned ahead for evaluation, which runs last: its plan is recorded when it runs. */
SW_TEST("plans add up and steps equal them")
{
    const char *path = sw_temp_path("run.jsonl");
    fixture *f = open_fixture(path, 0);
    const sw_run_args ahead = args_of(f, SW_EVAL, 0);
    sw_plan_info info = SW_OPTS(sw_plan_info);
    CU_ASSERT_EQUAL(sw_plan(f->exec, &ahead, &info), SW_OK);
    for (uint64_t i = 0; i < 6; i++)
        run(f, SW_TRAIN, i, 0);
    run(f, SW_EVAL, 6, 0);
    finish(f);

    const json_t *all = read_back(path);
    const json_t *const *plans = records(all, "plan", 2);
    const json_t *const *steps = records(all, "step", 7);
    CU_ASSERT(text_is(plans[0], "run", "train") && text_is(plans[1], "run", "eval"));
    check_plan(plans[0]);
    check_plan(plans[1]);
    CU_ASSERT_EQUAL(number_of(plans[1], "peak_bytes"), (int64_t)info.peak_bytes);
    for (int i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL(number_of(steps[i], "step"), i + 1);
        CU_ASSERT_EQUAL(number_of(steps[i], "program"), number_of(plans[0], "program"));
        CU_ASSERT(text_is(steps[i], "measured_by", "arena") &&
                  text_is(steps[i], "mode", "planned"));
        CU_ASSERT(json_is_real(json_object_get(steps[i], "loss")));
        CU_ASSERT_EQUAL(json_is_true(json_object_get(steps[i], "warm")), i > 0);
        CU_ASSERT(i == 0 || number_of(steps[i], "allocations") == 0);
        CU_ASSERT_PTR_NULL(json_object_get(steps[i], "op_ns"));
        check_phases(plans[0], steps[i]);
    }
    CU_ASSERT(text_is(steps[6], "run", "eval"));
    check_phases(plans[1], steps[6]);
    const json_t *end = json_array_get(all, json_array_size(all) - 1);
    CU_ASSERT(number_of(end, "steps") == 6 && number_of(end, "evaluations") == 1);
    CU_ASSERT_EQUAL(number_of(end, "measured_peak_bytes"),
                    number_of(end, "predicted_peak_bytes"));
}

SW_TEST("op clocks and immediate runs")
{
    const char *path = sw_temp_path("clocks.jsonl");
    fixture *f = open_fixture(path, 1);
    run(f, SW_TRAIN, 0, 0);
    run(f, SW_TRAIN, 1, 1);
    finish(f);
    const json_t *all = read_back(path);
    const json_t *plan;
    CU_ASSERT_EQUAL_FATAL(records_of(all, "plan", &plan, 1), 1);
    const json_t *const *steps = records(all, "step", 2);
    const json_t *clocks = json_object_get(steps[0], "op_ns");
    CU_ASSERT_EQUAL((int64_t)json_array_size(clocks), number_of(plan, "n_ops"));
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(clocks); i++)
        sum += json_integer_value(json_array_get(clocks, i));
    CU_ASSERT(sum > 0 && sum <= number_of(steps[0], "ns"));
    CU_ASSERT(text_is(steps[1], "mode", "immediate") &&
              json_is_null(json_object_get(steps[1], "program")));
    CU_ASSERT_PTR_NULL(json_object_get(steps[1], "op_ns"));
    CU_ASSERT_EQUAL(number_of(steps[1], "arena_bytes"), number_of(plan, "immediate_bytes"));
}

/* One after another, each at the place in memory that the one before left. */
SW_TEST("execs that follow each other are distinguished")
{
    const char *path = sw_temp_path("execs.jsonl");
    fixture *f = open_fixture(path, 0);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .profile = f->profile);
    run(f, SW_TRAIN, 0, 0);
    for (int i = 1; i < 70; i++) {
        sw_exec_destroy(f->exec);
        f->exec = NULL;
        CU_ASSERT_EQUAL_FATAL(sw_exec_create(&f->exec, &opts), SW_OK);
        run(f, SW_TRAIN, (uint64_t)i, 0);
    }
    finish(f);
    const json_t *all = read_back(path);
    const json_t *const *plans = records(all, "plan", 70);
    const json_t *const *steps = records(all, "step", 70);
    CU_ASSERT(json_object_get(plans[0], "exec") == NULL &&
              json_object_get(steps[0], "exec") == NULL);
    for (int i = 1; i < 70; i++)
        CU_ASSERT(number_of(plans[i], "exec") == i && number_of(steps[i], "exec") == i);
}

/* Where a run was not watched, the record has the planned figures and says so. */
SW_TEST("without phases the plan is recorded")
{
    const char *path = sw_temp_path("bare.jsonl");
    fixture *f = open_fixture(path, 0);
    sw_exec_destroy(f->exec);
    f->exec = NULL;
    sw_exec_opts opts =
        SW_OPTS(sw_exec_opts, .profile = f->profile, .no_phases = 1, .op_clocks = 1);
    CU_ASSERT_EQUAL(sw_exec_create(&f->exec, &opts), SW_INVALID);
    SW_CHECK(strstr(sw_last_error(), "no_phases") != NULL, "%s", sw_last_error());
    CU_ASSERT_PTR_NULL(f->exec);
    opts.op_clocks = 0;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&f->exec, &opts), SW_OK);
    run(f, SW_TRAIN, 0, 0);
    finish(f);
    const json_t *all = read_back(path);
    const json_t *plan, *step;
    CU_ASSERT_EQUAL_FATAL(records_of(all, "plan", &plan, 1), 1);
    CU_ASSERT_EQUAL_FATAL(records_of(all, "step", &step, 1), 1);
    CU_ASSERT(text_is(step, "measured_by", SW_POISON ? "arena" : "plan"));
    CU_ASSERT(number_of(step, "peak_bytes") > 0);
    CU_ASSERT_EQUAL(number_of(step, "peak_bytes"), number_of(plan, "peak_bytes"));
    check_phases(plan, step);
}

SW_TEST("witnesses are recorded after their plan")
{
    const char *path = sw_temp_path("witness.jsonl");
    fixture *f = open_fixture(path, 0);
    const sw_run_args args = args_of(f, SW_TRAIN, 0);
    sw_witness_info info = SW_OPTS(sw_witness_info);
    SW_CHECK(sw_witness(f->exec, &args, SW_WITNESS_ACCESS | SW_WITNESS_DEATH, &info) == SW_OK,
             "%s", sw_last_error());
    run(f, SW_TRAIN, 0, 0);
    finish(f);
    const json_t *all = read_back(path);
    const json_t *plan;
    CU_ASSERT_EQUAL_FATAL(records_of(all, "plan", &plan, 1), 1);
    const json_t *const *steps = records(all, "step", 2);
    CU_ASSERT(text_is(json_array_get(all, 1), "type", "plan"));
    CU_ASSERT(text_is(steps[0], "measured_by", "access") &&
              text_is(steps[0], "run", "witness"));
    const json_t *verdicts = json_object_get(steps[0], "witnesses");
    CU_ASSERT(json_is_true(json_object_get(verdicts, "access")));
    CU_ASSERT(json_is_true(json_object_get(verdicts, "death")));
    CU_ASSERT(json_is_null(json_object_get(verdicts, "extent")) &&
              json_is_null(json_object_get(verdicts, "need")));
    CU_ASSERT_EQUAL(number_of(steps[0], "faults"), 0);
    check_phases(plan, steps[0]);
}

/* Recording is no part of a step that can fail: the run goes on, and the profile tells it at
 * the end. */
SW_TEST("a full disk does not stop training")
{
    const char *path = sw_temp_path("full.jsonl");
    fixture *f = open_fixture(path, 0);
    run(f, SW_TRAIN, 0, 0);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_FROM);
    for (uint64_t i = 1; i < 1000; i++)
        run(f, SW_TRAIN, i, 0);
    CU_ASSERT_EQUAL(sw_profile_flush(f->profile), SW_IO);
    sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
    sw_exec_destroy(f->exec);
    f->exec = NULL;
    CU_ASSERT_EQUAL(sw_profile_destroy(f->profile), SW_IO);
    f->profile = NULL;
    CU_ASSERT(strstr(sw_last_error(), "full.jsonl") != NULL ||
              strstr(sw_last_error(), "statm") != NULL);
}

SW_TEST("a recorded step calls no heap")
{
    fixture *f = open_fixture(sw_temp_path("steady.jsonl"), 1);
    run(f, SW_TRAIN, 0, 0);
    const uint64_t calls = sw_mem_calls();
    for (uint64_t i = 1; i < 2000; i++)
        run(f, SW_TRAIN, i, 0);
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    finish(f);
}

SW_TEST("bad options are refused")
{
    sw_profile *p = NULL;
    const sw_profile_opts none = {0};
    CU_ASSERT_EQUAL(sw_profile_create(&p, &none), SW_INVALID);
    CU_ASSERT_EQUAL(sw_profile_destroy(NULL), SW_OK);
    CU_ASSERT_PTR_NULL(p);
}
