/* A tool that the environment names, in child processes: `stepwell train` loads the module,
 * which writes what it heard; that is held against the profile of the same training. */
#include "alloc/base/sys.h"
#include "profiler/record/nvtx.h"
#include "tests/profiler/nvtx_check.h"
#include "tests/profiler/read_back.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"

SW_TESTS("nvtx tool")

static char module_env[1200], records_env[1200], tool_env[64];
static const char *model = "lenet5";

/* `stepwell train` with a tool (NULL: the module) that takes `what`. */
static void train(sw_outcome *out, const char *tool, const char *what, const char *const *more)
{
    const char *program = sw_textf("%s/tools/stepwell", sw_build_root());
    snprintf(module_env, sizeof module_env, "NVTX_INJECTION64_PATH=%s%s",
             tool != NULL ? tool : sw_build_root(),
             tool != NULL ? "" : "/tests/profiler/libnvtx_module.so");
    snprintf(records_env, sizeof records_env, "STEPWELL_NVTX_RECORDS=%s",
             sw_temp_path("records"));
    snprintf(tool_env, sizeof tool_env, "STEPWELL_NVTX_TOOL=%s", what);
    remove(sw_temp_path("records"));
    const char *argv[32] = {program,         "train",   "--model", model,     "--data",
                            "synthetic",     "--steps", "3",       "--batch", "16",
                            "--synthetic-n", "64",      "--json",  "--quiet"};
    int n = 14;
    while (more != NULL && *more != NULL && n < 31)
        argv[n++] = *more++;
    const char *const env[] = {module_env, records_env, tool_env, NULL};
    sw_process_run(out, argv, env, 100);
    SW_CHECK(out->status == 0, "status %d: %s", out->status, out->err);
    CU_ASSERT_STRING_EQUAL(out->err, "");
}

static heard_list heard_records(void)
{
    const heard_list list = nvtx_recorder_read(sw_temp_path("records"));
    sw_after(free, list.at);
    return list;
}

#define NEEDS_NVTX                                                                             \
    do {                                                                                       \
        if (!nvtx_recorder_is_built())                                                         \
            SW_SKIP("built without NVTX: no tool attaches");                                   \
    } while (0)

/* ---- against the profile ----------------------------------------------------------------- */

static const char *text_of(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));
    return text != NULL ? text : "";
}

static void told_value(told_run *run, const json_t *v)
{
    const uint64_t bytes = (uint64_t)number_of(v, "bytes");
    told_tensor t = {.offset = (uint64_t)number_of(v, "offset"),
                     .bytes = bytes,
                     .rounded = bytes + (uint64_t)number_of(v, "padding"),
                     .birth = (uint32_t)number_of(v, "birth"),
                     .death = (uint32_t)number_of(v, "death")};
    if (json_object_get(v, "alias") != NULL)
        return;
    if (strcmp(text_of(v, "segment"), "step") != 0) {
        told_base_add(run, text_of(v, "role"), t.rounded);
        return;
    }
    snprintf(t.role, sizeof t.role, "%s", text_of(v, "role"));
    snprintf(t.name, sizeof t.name, "%s", text_of(v, "name"));
    told_tensor_add(run, &t);
}

/* Plan and step records are the profiler's; the tool must have heard the same. */
static void told_record(told_run *run, const json_t *plan, const json_t *step)
{
    const json_t *ops = json_object_get(plan, "ops"), *values = json_object_get(plan, "values");
    const char *phases = text_of(plan, "op_phase");
    memset(run, 0, sizeof *run);
    run->training = strcmp(text_of(step, "run"), "train") == 0;
    CU_ASSERT_EQUAL_FATAL(strlen(phases), json_array_size(ops));
    for (size_t i = 0; i < json_array_size(ops); i++)
        told_op_add(run, json_string_value(json_array_get(ops, i)), phases[i] - '0');
    for (size_t i = 0; i < json_array_size(values); i++)
        told_value(run, json_array_get(values, i));
    for (int i = 0; i < SW_PHASES; i++) {
        run->phase_peak[i] = (uint64_t)phase_number(step, i, "peak_bytes");
        run->phase_end[i] = (uint64_t)phase_number(step, i, "end_bytes");
    }
    run->peak = (uint64_t)number_of(step, "peak_bytes");
}

static const json_t *plan_of(const json_t *const *plans, size_t n, const json_t *step)
{
    for (size_t i = 0; i < n; i++)
        if (number_of(plans[i], "program") == number_of(step, "program"))
            return plans[i];
    return NULL;
}

/* Three steps and the evaluation after them, with a released update and data converted. */
SW_TEST("training equals its profile")
{
    NEEDS_NVTX;
    static sw_outcome out;
    static told_run told[8];
    const told_run *runs[8];
    const char *profile = sw_temp_path("profile.jsonl");
    const char *const more[] = {"--nvtx", "ops", "--profile", profile, NULL};
    train(&out, NULL, "all", more);
    const json_t *all = read_back(profile);
    const json_t *plans[4], *steps[8];
    const size_t n_plans = records_of(all, "plan", plans, 4);
    const size_t n_steps = records_of(all, "step", steps, 8);
    CU_ASSERT_FATAL(n_plans >= 2 && n_plans <= 4 && n_steps >= 4 && n_steps <= 8);
    for (size_t i = 0; i < n_steps; i++) {
        told_record(&told[i], plan_of(plans, n_plans, steps[i]), steps[i]);
        runs[i] = &told[i];
    }
    const heard_list list = heard_records();
    CU_ASSERT_PTR_NOT_NULL_FATAL(list.at);
    nvtx_check(list, runs, n_steps, SW_NVTX_OPS, nvtx_recorder_has_extensions());
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, "train step"), 3);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, NULL), nvtx_count(list, HEARD_UNHEAP, NULL));
    sw_note("%zu records of %zu runs", list.n, n_steps);
}

/* ---- tools of other kinds ---------------------------------------------------------------- */

static size_t ranges_in(heard_list list, uint32_t category)
{
    size_t count = 0;
    for (size_t i = 0; i < list.n; i++)
        count += list.at[i].kind == HEARD_BEGIN && list.at[i].category == category;
    return count;
}

SW_TEST("levels of the command line")
{
    NEEDS_NVTX;
    static sw_outcome out;
    static const char *const words[] = {NULL, "phases", "layers", "ops"};
    for (int i = 0; i < 4; i++) {
        const char *const more[] = {words[i] != NULL ? "--nvtx" : NULL, words[i], NULL};
        train(&out, NULL, "all", more);
        const heard_list list = heard_records();
        CU_ASSERT(nvtx_check_nesting(list) > 0);
        CU_ASSERT(ranges_in(list, SW_NVTX_IN_PHASE) >= 12);
        CU_ASSERT_EQUAL(ranges_in(list, SW_NVTX_IN_LAYER) > 0, i >= 2);
        CU_ASSERT_EQUAL(ranges_in(list, SW_NVTX_IN_OP) > 0, i == 3);
    }
    const char *const off[] = {"--nvtx", "off", NULL};
    train(&out, NULL, "all", off);
    CU_ASSERT_PTR_NULL(heard_records().at); /* it was not even loaded */
}

SW_TEST("immediate training")
{
    NEEDS_NVTX;
    static sw_outcome out;
    const char *const more[] = {"--nvtx", "ops", "--immediate", NULL};
    train(&out, NULL, "all", more);
    const heard_list list = heard_records();
    CU_ASSERT(nvtx_check_nesting(list) > 100);
    CU_ASSERT_EQUAL(ranges_in(list, SW_NVTX_IN_STEP),
                    3 + nvtx_count(list, HEARD_BEGIN, "evaluation step"));
}

/* A tool that takes ranges alone still has every figure, as payloads of ranges and marks. */
SW_TEST("a tool without extensions")
{
    NEEDS_NVTX;
    static sw_outcome out;
    train(&out, NULL, "ranges", NULL);
    const heard_list list = heard_records();
    CU_ASSERT(nvtx_check_nesting(list) > 12);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, NULL), 0);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_COUNTER, NULL), 0);
    CU_ASSERT(nvtx_count(list, HEARD_MARK, "activation") > 0);
    CU_ASSERT(nvtx_count(list, HEARD_MARK, "peak") >= 3);
}

SW_TEST("a tool for memory alone")
{
    NEEDS_NVTX;
    if (!nvtx_recorder_has_extensions())
        SW_SKIP("the NVTX headers have no memory");
    static sw_outcome out;
    train(&out, NULL, "memory", NULL);
    const heard_list list = heard_records();
    CU_ASSERT(nvtx_count(list, HEARD_REGION, NULL) > 60);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_REGION, NULL), nvtx_count(list, HEARD_NAME, NULL));
    CU_ASSERT(nvtx_count(list, HEARD_RESET, NULL) >= 4);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, NULL), 0);
}

/* ---- a device ---------------------------------------------------------------------------- */

/* A program's first run reports its ops, and its capture reports them again; a replay is a
 * step. A tool that takes memory gets each op of each run, and nothing is captured. */
SW_TEST("training on a device")
{
    static sw_outcome out;
    static char module[1200];
    const char *const more[] = {"--nvtx", "ops", "--device", "cuda", NULL};
    const char *const op = "fc1 linear";
    NEEDS_NVTX;
    snprintf(module, sizeof module, "%s/tests/cuda/libstepwell-cuda-fake.so", sw_build_root());
    if (!sw_file_there(module))
        SW_SKIP("no C++ compiler: the card that is not there is not built");
    setenv("STEPWELL_CUDA_MODULE", module, 1);
    model = "mlp";
    train(&out, NULL, "ranges", more);
    heard_list list = heard_records();
    const size_t captures = nvtx_count(list, HEARD_BEGIN, "capture"),
                 steps = nvtx_count(list, HEARD_BEGIN, "train step");
    CU_ASSERT(captures >= 1 && captures <= 3);
    CU_ASSERT_EQUAL(steps, 3);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, op), 2 * captures);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, NULL), nvtx_count(list, HEARD_END, NULL));
    if (nvtx_recorder_has_extensions()) {
        train(&out, NULL, "all", more);
        list = heard_records();
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, "capture"), 0);
        CU_ASSERT(nvtx_count(list, HEARD_BEGIN, op) > steps);
        CU_ASSERT(nvtx_count(list, HEARD_REGION, NULL) > 60);
    }
    model = "lenet5";
    unsetenv("STEPWELL_CUDA_MODULE");
}

/* ---- no tool ----------------------------------------------------------------------------- */

/* Of one line of JSON, what does not hang on the clock. */
static void same_result(const sw_outcome *out)
{
    static char wanted[200];
    const char *loss = strstr(out->out, "\"final_loss\"");
    if (!SW_CHECK(loss != NULL, "%.200s", out->out))
        return;
    const size_t length = strcspn(loss, ",");
    if (wanted[0] == '\0')
        snprintf(wanted, sizeof wanted, "%.*s", (int)length, loss);
    SW_CHECK(strlen(wanted) == length && strncmp(wanted, loss, length) == 0, "%.40s", loss);
}

/* A path that leads nowhere, a file that is no library, a tool that says no, and none: nothing
 * is printed, and the training is the same. */
SW_TEST("no tool is silent")
{
    static sw_outcome out;
    const char *const more[] = {"--nvtx", "ops", NULL};
    const char *const tools[] = {"/nowhere/libnone.so", sw_source_root(), "", NULL};
    for (int i = 0; i < 4; i++) {
        train(&out, tools[i], "refuse", more);
        same_result(&out);
        const heard_list list = heard_records();
        for (size_t k = 0; k < list.n; k++)
            SW_CHECK(false, "%d %s", list.at[k].kind, list.at[k].name);
    }
    train(&out, NULL, "all", more);
    same_result(&out);
}
