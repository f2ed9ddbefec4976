/* A tool that is linked in: what it hears of planned and immediate runs, of several execs, of
 * runs that fail. */
#include "alloc/base/poison.h"
#include "profiler/record/nvtx.h"
#include "tests/profiler/nvtx_check.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/seen_breakdown.h"
#include <pthread.h>

SW_TESTS("nvtx")

#define NEEDS_NVTX                                                                             \
    do {                                                                                       \
        if (!nvtx_recorder_is_built())                                                         \
            SW_SKIP("built without NVTX: tools hear nothing");                                 \
    } while (0)

/* Phases that come once. */
static void plain_step(sw_ctx *c, void *user)
{
    const net *n = user;
    const sw_value x = sw_tanh(c, sw_apply_linear(c, n->f1, sw_input(c, 0)));
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, n->f2, x), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &n->opt, 1);
    sw_update(c, n->opt);
}

/* The net's layers in two scopes more. */
static void scoped_step(sw_ctx *c, void *user)
{
    sw_scope_begin(c, "outer");
    sw_scope_begin(c, "inner");
    net_step(c, user);
    sw_scope_end(c);
    sw_scope_end(c);
}

/* The tests' first exec is number one to the tool: the one before is gone. */
static sw_exec *exec_of(sw_nvtx_level level)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 11, .nvtx = level, .shares = 1);
    sw_exec *exec = NULL;
    OK(sw_exec_create(&exec, &opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(exec);
    return exec;
}

static void add_base(told_run *told, const sw_model *model)
{
    for (int role = 0; role < SWI_ROLE_COUNT; role++)
        if (model->role_bytes[role] > 0)
            told_base_add(told, swi_role_name((swi_role)role), model->role_bytes[role]);
}

/* ---- one exec ---------------------------------------------------------------------------- */

/* Four training runs and an evaluation, each held against plan and profiler. */
static void check_runs(bool image, bool immediate, sw_nvtx_level level)
{
    static told_run train, eval;
    nvtx_recorder_clear();
    sw_exec *exec = exec_of(level);
    net *n = net_new(image, NULL);
    const batch b = net_batch(image, 0, 17);
    sw_run_args args = net_args(n, &b);
    args.fn = scoped_step;
    args.immediate = immediate;
    told_plan(&train, exec, &args);
    add_base(&train, n->model);
    for (args.step = 0; args.step < 4; args.step++)
        OK(sw_run(exec, &args));
    told_measured(&train, exec);
    args.mode = SW_EVAL;
    told_plan(&eval, exec, &args);
    add_base(&eval, n->model);
    OK(sw_run(exec, &args));
    told_measured(&eval, exec);
    sw_exec_destroy(exec);
    const heard_list list = nvtx_recorder_heard();
    const told_run *const runs[] = {&train, &train, &train, &train, &eval};
    nvtx_check(list, runs, 5, level, nvtx_recorder_has_extensions());
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, "train step"), 4);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, "outer") > 0,
                    level == SW_NVTX_LAYERS || level == SW_NVTX_OPS);
}

SW_TEST("planned runs, op by op")
{
    NEEDS_NVTX;
    check_runs(false, false, SW_NVTX_OPS);
    check_runs(true, false, SW_NVTX_OPS);
}

SW_TEST("immediate runs, op by op")
{
    NEEDS_NVTX;
    check_runs(false, true, SW_NVTX_OPS);
    check_runs(true, true, SW_NVTX_OPS);
}

SW_TEST("fewer ranges where fewer were asked for")
{
    NEEDS_NVTX;
    size_t ranges[4];
    for (int level = SW_NVTX_PHASES; level <= SW_NVTX_OPS; level++) {
        check_runs(true, false, (sw_nvtx_level)level);
        check_runs(true, true, (sw_nvtx_level)level);
        const heard_list list = nvtx_recorder_heard();
        ranges[level] = nvtx_check_nesting(list);
    }
    CU_ASSERT(ranges[SW_NVTX_PHASES] < ranges[SW_NVTX_LAYERS]);
    CU_ASSERT(ranges[SW_NVTX_LAYERS] < ranges[SW_NVTX_OPS]);
    sw_note("%zu, %zu, %zu ranges by level", ranges[SW_NVTX_PHASES], ranges[SW_NVTX_LAYERS],
            ranges[SW_NVTX_OPS]);
}

/* Phases come in their order, each once, and begin with what the one before ended with. */
SW_TEST("phases come in order with the profiler's bytes")
{
    NEEDS_NVTX;
    nvtx_recorder_clear();
    sw_exec *exec = exec_of(SW_NVTX_PHASES);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 17);
    sw_run_args args = net_args(n, &b);
    args.fn = plain_step;
    OK(sw_run(exec, &args));
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_run(exec, &info));
    sw_exec_destroy(exec);
    const heard_list list = nvtx_recorder_heard();
    int phase = SW_DATA; /* the batch is there when the step begins */
    for (size_t i = 0; i < list.n; i++) {
        if (list.at[i].kind != HEARD_BEGIN || list.at[i].category != SW_NVTX_IN_PHASE)
            continue;
        SW_CHECK(list.at[i].bytes == info.phase[phase].end_bytes, "%s", list.at[i].name);
        CU_ASSERT_STRING_EQUAL(list.at[i].name, sw_phase_name((sw_phase)++phase));
    }
    CU_ASSERT_EQUAL(phase, SW_STEP);
}

static uint64_t top_sample(heard_list list, const char *counter)
{
    uint64_t id = 0, top = 0;
    for (size_t i = 0; i < list.n; i++) {
        if (list.at[i].kind == HEARD_COUNTER && strcmp(list.at[i].name, counter) == 0)
            id = list.at[i].id;
        if (list.at[i].kind == HEARD_SAMPLE && list.at[i].id == id && list.at[i].bytes > top)
            top = list.at[i].bytes;
    }
    return top;
}

/* The counters' highest samples are the peaks that the exec's own shares have. */
SW_TEST("counters are the shares")
{
    NEEDS_NVTX;
    if (!nvtx_recorder_has_extensions())
        SW_SKIP("the NVTX headers have no counters");
    nvtx_recorder_clear();
    sw_exec *exec = exec_of(SW_NVTX_PHASES);
    net *n = net_new(true, NULL);
    const batch b = net_batch(true, 0, 17);
    const sw_run_args args = net_args(n, &b);
    OK(sw_run(exec, &args));
    sw_seen_breakdown seen = {.n = 0};
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_shares(exec, sw_see_share, &seen));
    OK(sw_last_run(exec, &info));
    sw_exec_destroy(exec);
    const heard_list list = nvtx_recorder_heard();
    for (uint32_t i = 0; i < seen.n; i++)
        if (seen.at[i].kind == SW_SHARE_ROLE)
            SW_CHECK(top_sample(list, seen.at[i].name) == seen.at[i].peak, "%s: %zu",
                     seen.at[i].name, seen.at[i].peak);
    CU_ASSERT_EQUAL(top_sample(list, "live"), info.peak_bytes);
    CU_ASSERT_EQUAL(top_sample(list, "peak"), info.peak_bytes);
}

/* The bytes that an immediate run has at its end, role by role: also of what became a metric or
 * an output after its birth. */
SW_TEST("immediate roles follow what becomes of tensors")
{
    NEEDS_NVTX;
    if (!nvtx_recorder_has_extensions())
        SW_SKIP("the NVTX headers have no counters");
    sw_exec *exec = exec_of(SW_NVTX_PHASES);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 17);
    sw_run_args args = net_args(n, &b);
    args.immediate = 1;
    nvtx_recorder_clear();
    OK(sw_run(exec, &args));
    sw_seen_breakdown seen = {.n = 0};
    OK(sw_last_shares(exec, sw_see_share, &seen));
    const heard_list list = nvtx_recorder_heard();
    sw_exec_destroy(exec);
    CU_ASSERT(sw_share_named(&seen, SW_SHARE_ROLE, "metric").at_peak == 128);
    for (uint32_t i = 0; i < seen.n; i++) {
        uint64_t id = 0, last = 0;
        for (size_t k = 0; k < list.n; k++) {
            if (list.at[k].kind == HEARD_COUNTER &&
                strcmp(list.at[k].name, seen.at[i].name) == 0)
                id = list.at[k].id;
            if (list.at[k].kind == HEARD_SAMPLE && list.at[k].id == id)
                last = list.at[k].bytes;
        }
        if (seen.at[i].kind == SW_SHARE_ROLE)
            SW_CHECK(last == seen.at[i].at_peak, "%s: %llu, not %zu", seen.at[i].name,
                     (unsigned long long)last, seen.at[i].at_peak);
    }
}

static void nothing_is_told(sw_exec_opts opts)
{
    nvtx_recorder_clear();
    const size_t before = nvtx_recorder_heard().n;
    sw_exec *exec = net_exec(&opts);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 9);
    sw_run_args args = net_args(n, &b);
    OK(sw_run(exec, &args));
    args.immediate = 1;
    if (!opts.no_phases)
        OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(nvtx_recorder_heard().n, before);
}

SW_TEST("off is silent")
{
    nothing_is_told(SW_OPTS(sw_exec_opts, .nvtx = SW_NVTX_OFF));
    if (SW_POISON == 0) /* there phases are always counted */
        nothing_is_told(SW_OPTS(sw_exec_opts, .nvtx = SW_NVTX_OPS, .no_phases = 1));
    sw_exec *exec = NULL;
    const sw_exec_opts odd = SW_OPTS(sw_exec_opts, .nvtx = (sw_nvtx_level)4);
    REFUSED(sw_exec_create(&exec, &odd), SW_INVALID, "SW_NVTX_OFF (got 4)");
}

/* Without the headers nothing is reported, and nothing costs memory. */
SW_TEST("without NVTX nothing is reported")
{
    if (nvtx_recorder_is_built())
        SW_SKIP("built with NVTX");
    const uint64_t calls = sw_mem_calls();
    const sw_nvtx_name name = {NULL, "forward"};
    CU_ASSERT(!sw_nvtx_attached());
    for (int i = 0; i < 1000; i++) {
        sw_nvtx_begin(SW_NVTX_IN_PHASE, &name, 1);
        sw_nvtx_mark(SW_NVTX_IN_MEMORY, &name, 1);
        sw_nvtx_end();
    }
    CU_ASSERT_EQUAL(sw_nvtx_counter("live", "bytes"), 0);
    CU_ASSERT_PTR_NULL(sw_nvtx_heap("arena", &name, sizeof name));
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    sw_exec *exec = exec_of(SW_NVTX_OPS);
    CU_ASSERT_PTR_NULL(exec->watch.nvtx);
    sw_exec_destroy(exec);
}

/* ---- names ------------------------------------------------------------------------------- */

/* A warm run takes no memory, registers no text and makes no counter. */
SW_TEST("warm runs know all names")
{
    NEEDS_NVTX;
    for (int immediate = 0; immediate < 2; immediate++) {
        sw_exec *exec = exec_of(SW_NVTX_OPS);
        net *n = net_new(true, NULL);
        const batch b = net_batch(true, 0, 17);
        sw_run_args args = net_args(n, &b);
        args.immediate = immediate;
        for (args.step = 0; args.step < 3; args.step++)
            OK(sw_run(exec, &args));
        nvtx_recorder_clear();
        const uint64_t calls = sw_mem_calls();
        OK(sw_run(exec, &args));
        SW_CHECK(sw_mem_calls() == calls, "%llu calls",
                 (unsigned long long)(sw_mem_calls() - calls));
        const heard_list list = nvtx_recorder_heard();
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_STRING, NULL), 0);
        CU_ASSERT(nvtx_count(list, HEARD_BEGIN, NULL) > 20);
        sw_exec_destroy(exec);
    }
}

SW_TEST("names of memory are short and printable")
{
    char to[SW_NVTX_MEMORY_NAME + 1];
    const char *fifty = "block1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/conv.out";
    CU_ASSERT_STRING_EQUAL(sw_nvtx_memory_name("conv.out", to), "conv.out");
    CU_ASSERT_STRING_EQUAL(sw_nvtx_memory_name("a\tb\xc3\xa9", to), "a?b??");
    CU_ASSERT_EQUAL(strlen(sw_nvtx_memory_name(fifty + strlen(fifty) - 49, to)), 49);
    CU_ASSERT_STRING_EQUAL(to, fifty + strlen(fifty) - 49);
    CU_ASSERT_EQUAL(strlen(sw_nvtx_memory_name(fifty, to)), 49);
    CU_ASSERT(strncmp(to, "..", 2) == 0 && strcmp(to + 2, fifty + strlen(fifty) - 47) == 0);
}

SW_TEST("the domain and its categories have names")
{
    NEEDS_NVTX;
    sw_exec_destroy(exec_of(SW_NVTX_PHASES));
    const heard_list list = nvtx_recorder_heard();
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_DOMAIN, "stepwell"), 1);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_DOMAIN, NULL), 1);
    static const char *const names[] = {"step", "phase", "layer", "op", "memory"};
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_CATEGORY, names[i]), 1);
}

/* ---- several execs ----------------------------------------------------------------------- */

/* Heaps begin and end with what they stand for, in any order, and each exec has its own. */
SW_TEST("heaps come and go in any order")
{
    NEEDS_NVTX;
    if (!nvtx_recorder_has_extensions())
        SW_SKIP("the NVTX headers have no memory");
    for (int order = 0; order < 6; order++) {
        nvtx_recorder_clear();
        sw_exec *exec[2] = {NULL, NULL};
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts);
        OK(sw_exec_create(&exec[0], &opts));
        OK(sw_exec_create(&exec[1], &opts));
        sw_model *model;
        OK(sw_model_create(&model, "a model's name"));
        (void)sw_linear_new(model, "fc", 5, 7);
        OK(sw_model_ready(model, exec[0], 1));
        OK(sw_model_ready(model, exec[1], 2)); /* again: it is known */
        for (int i = 0; i < 3; i++) {
            const int which = (order / 2 + (order % 2 ? 3 - i : i)) % 3;
            if (which == 2)
                sw_model_destroy(model);
            else
                sw_exec_destroy(exec[which]);
        }
        const heard_list list = nvtx_recorder_heard();
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, "step arena"), 1);
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, "step arena 2"), 1);
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, "a model's name"), 1);
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, NULL), 3);
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_UNHEAP, NULL), 3);
        CU_ASSERT_EQUAL(nvtx_count(list, HEARD_NAME, "fc.weight"), 1);
        nvtx_check(list, NULL, 0, SW_NVTX_PHASES, true);
    }
}

typedef struct {
    sw_exec *exec;
    net *n;
    batch b;
    int failed;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    sw_run_args args = net_args(w->n, &w->b);
    for (args.step = 0; args.step < 20; args.step++) {
        args.immediate = args.step % 3 == 2;
        w->failed += sw_run(w->exec, &args) != SW_OK;
    }
    return NULL;
}

/* Ranges belong to threads: two execs at once do not get in each other's way. */
SW_TEST("two threads")
{
    NEEDS_NVTX;
    worker w[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        w[i] = (worker){.exec = exec_of(i == 0 ? SW_NVTX_OPS : SW_NVTX_LAYERS),
                        .n = net_new(i == 1, NULL),
                        .b = net_batch(i == 1, 0, 9)};
    nvtx_recorder_clear();
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    const heard_list list = nvtx_recorder_heard();
    CU_ASSERT(w[0].failed == 0 && w[1].failed == 0);
    CU_ASSERT(nvtx_check_nesting(list) > 400);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_BEGIN, "train step"), 40);
    sw_exec_destroy(w[0].exec);
    sw_exec_destroy(w[1].exec);
}

/* ---- failures ---------------------------------------------------------------------------- */

static void wrong_step(sw_ctx *c, void *user)
{
    const net *n = user;
    sw_value x = sw_tanh(c, sw_apply_linear(c, n->f1, sw_input(c, 0)));
    (void)sw_add(c, x, sw_input(c, 1)); /* shapes that do not go together */
}

/* A run that fails in the middle closes what it opened, and the next one begins clean. */
SW_TEST("failed runs close their ranges")
{
    NEEDS_NVTX;
    static told_run told;
    sw_exec *exec = exec_of(SW_NVTX_OPS);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 9);
    sw_run_args bad = net_args(n, &b), good = bad;
    bad.fn = wrong_step;
    bad.immediate = 1;
    nvtx_recorder_clear();
    CU_ASSERT_NOT_EQUAL(sw_run(exec, &bad), SW_OK);
    heard_list list = nvtx_recorder_heard();
    CU_ASSERT(nvtx_check_nesting(list) >= 4);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_RESET, NULL), nvtx_recorder_has_extensions());
    sw_exec_destroy(exec);

    nvtx_recorder_clear();
    exec = exec_of(SW_NVTX_OPS);
    told_plan(&told, exec, &good);
    add_base(&told, n->model);
    OK(sw_run(exec, &good));
    told_measured(&told, exec);
    CU_ASSERT_NOT_EQUAL(sw_run(exec, &bad), SW_OK);
    OK(sw_run(exec, &good));
    sw_exec_destroy(exec);
    list = nvtx_recorder_heard();
    const told_run *const runs[] = {&told, NULL, &told};
    nvtx_check(list, runs, 3, SW_NVTX_OPS, nvtx_recorder_has_extensions());
}

/* Everything that can be refused is, once and from then on: nothing is left, nothing is open.
 */
static sw_status live_a_little(void)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .nvtx = SW_NVTX_OPS);
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    net n = {.image = false};
    sw_status status = sw_exec_create(&exec, &opts);
    if (status == SW_OK)
        status = sw_model_create(&model, "net");
    if (status == SW_OK) {
        n.model = model;
        n.f1 = sw_linear_new(model, "f1", NET_PIXELS, 24);
        n.f2 = sw_linear_new(model, "f2", 24, NET_CLASSES);
        n.factor = sw_knob_new(model, "factor", 1.0f);
        const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
        status = sw_optimizer_create(&n.opt, model, &sgd);
    }
    const batch b = net_batch(false, 0, 9);
    sw_run_args args = net_args(&n, &b);
    if (status == SW_OK)
        status = sw_run(exec, &args);
    args.immediate = 1;
    if (status == SW_OK)
        status = sw_run(exec, &args);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return status;
}

SW_TEST("every refusal leaves nothing")
{
    NEEDS_NVTX;
    nvtx_recorder_clear();
    sw_sites sites = {SW_FAULT_MEMORY};
    while (sw_sites_next(&sites)) {
        sites.mode = sites.k % 2 ? SW_FAULT_ONCE : SW_FAULT_FROM;
        (void)SW_AT_SITE(&sites, live_a_little());
    }
    const heard_list list = nvtx_recorder_heard();
    CU_ASSERT(sites.k > 100 && sites.k < 2000 && nvtx_check_nesting(list) > 100);
    CU_ASSERT_EQUAL(nvtx_count(list, HEARD_HEAP, NULL), nvtx_count(list, HEARD_UNHEAP, NULL));
}
