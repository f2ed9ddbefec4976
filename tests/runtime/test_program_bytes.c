/* The host's memory that programs take, and when it is given back. */
#include "alloc/base/sys.h"
#include "tests/runtime/nets.h"

SW_TESTS("bytes of programs")

static size_t heap_of_programs(void)
{
    sw_heap_stats stats;
    sw_heap_read(SW_HEAP_PROGRAMS, &stats);
    return stats.bytes;
}

static void end_model(void *arg)
{
    sw_model *model = arg;
    sw_model_destroy(model);
}

static sw_status live_once(sw_exec *exec, int width, bool elsewhere)
{
    net n = {.image = false};
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    const batch b = net_batch(false, 0, 4);
    SW_TRY(sw_model_create(&n.model, "net"));
    n.f1 = sw_linear_new(n.model, "f1", NET_PIXELS, width);
    n.f2 = sw_linear_new(n.model, "f2", width, NET_CLASSES);
    n.factor = sw_knob_new(n.model, "factor", 1.0f);
    SW_TRY(sw_optimizer_create(&n.opt, n.model, &opts));
    sw_run_args args = net_args(&n, &b);
    const sw_status status = sw_run(exec, &args);
    if (elsewhere) {
        /* Another thread than that of the exec. */
        sw_thread *thread = NULL;
        OK(sw_thread_start(&thread, end_model, n.model, "ends"));
        sw_thread_join(thread);
    } else
        sw_model_destroy(n.model);
    return status;
}

/* Models of a shape each and models of one shape; what lived before stays. */
SW_TEST("programs of destroyed models go")
{
    sw_exec *exec = net_exec(NULL);
    net *kept = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args args = net_args(kept, &b);
    const int cycles = sw_tests_full() ? 10000 : 400;
    size_t most = 0;
    OK(sw_run(exec, &args));
    for (int i = 0; i < cycles; i++) {
        OK(live_once(exec, i % 2 == 0 ? 8 : 9 + i % 40, i % 8 == 0));
        if (i == 100)
            most = heap_of_programs();
        SW_CHECK(i <= 100 || heap_of_programs() <= most + most / 4, "cycle %d: %zu after %zu",
                 i, heap_of_programs(), most);
        SW_CHECK(exec->n_keys <= 3, "%u keys", exec->n_keys);
    }
    CU_ASSERT(most > 0);
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(kept->times_called, 1); /* its program was never dropped */
}

/* The last run's figures can be asked for, also after its model's end. */
SW_TEST("... but that of the last run stays")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL), *other = net_new(true, NULL);
    const batch b = net_batch(false, 0, 8), images = net_batch(true, 0, 8);
    const sw_run_args args = net_args(n, &b), next = net_args(other, &images);
    OK(sw_run(exec, &args));
    const double loss = net_metric(exec, "loss");
    sw_model_destroy(n->model);
    n->model = NULL;
    OK(sw_plan(exec, &next, &SW_OPTS(sw_plan_info))); /* traces */
    CU_ASSERT_EQUAL(exec->n_keys, 1);
    CU_ASSERT_EQUAL(net_metric(exec, "loss"), loss);
    sw_array logits;
    OK(sw_output_get(exec, "logits", &logits));
}

/* ---- how much a program takes ------------------------------------------------------------ */

#define LAYERS 1000

typedef struct {
    sw_model *model;
    sw_optimizer *opt;
    sw_linear linear[LAYERS];
    int layers;
} deep;
static deep tower;

static void deep_step(sw_ctx *c, void *user)
{
    const deep *d = user;
    sw_value x = sw_input(c, 0);
    for (int i = 0; i < d->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%d", i);
        sw_scope_begin(c, name);
        x = sw_swish(c, sw_apply_linear(c, d->linear[i], x));
        sw_scope_end(c);
    }
    sw_optimizer *const opt = d->opt;
    const sw_value loss = sw_mse(c, x, sw_input(c, 1));
    sw_backward(c, loss, &opt, 1);
    sw_update(c, opt);
}

static void deep_end(void *arg)
{
    sw_model_destroy(((deep *)arg)->model);
}

static size_t bytes_of_deep(int layers, int checks)
{
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    const sw_array in[2] = {{SW_F32, SW_SHAPE(128, 16), NULL},
                            {SW_F32, SW_SHAPE(128, 16), NULL}};
    tower = (deep){.layers = layers};
    OK(sw_model_create(&tower.model, "tower"));
    sw_after(deep_end, &tower);
    for (int i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        tower.linear[i] = sw_linear_new(tower.model, name, 16, 16);
    }
    OK(sw_optimizer_create(&tower.opt, tower.model, &opts));
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .checks = checks));
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = deep_step, .user = &tower, .models = &tower.model,
                .n_models = 1, .inputs = in, .n_inputs = 2);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    const size_t before = heap_of_programs();
    OK(sw_plan(exec, &args, &plan));
    const size_t taken = heap_of_programs() - before;
    SW_CHECK(checks != 0 ||
                 (taken >= plan.program_host_bytes && taken < plan.program_host_bytes + 8192),
             "%zu bytes are said, %zu taken", plan.program_host_bytes, taken);
    CU_ASSERT_EQUAL(plan.total_bytes, plan.model_bytes + plan.arena_bytes + plan.data_bytes);
    return plan.program_host_bytes;
}

SW_TEST("a net of 1,000 layers has at most 8 MB of records")
{
    const size_t bytes = bytes_of_deep(LAYERS, 0);
    SW_CHECK(bytes <= 8000000, "%zu bytes", bytes);
    sw_note("1,000 layers: %zu bytes", bytes);
}

/* A packed trace is there again, bit for bit, where it is asked for. */
SW_TEST("a packed trace is what was traced")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .checks = 1));
    tower = (deep){.layers = 0};
    (void)bytes_of_deep(20, 1);
    const sw_array in[2] = {{SW_F32, SW_SHAPE(128, 16), NULL},
                            {SW_F32, SW_SHAPE(128, 16), NULL}};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = deep_step, .user = &tower, .models = &tower.model,
                .n_models = 1, .inputs = in, .n_inputs = 2);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT(plan.n_rebuilt > 0); /* so it is another trace than what runs */
    swi_trace room = {0};
    const swi_trace *traced = NULL;
    OK(swi_program_traced(exec->frames[0]->program, &room, &traced));
    CU_ASSERT_PTR_EQUAL(traced, &room);
    CU_ASSERT_EQUAL(swi_trace_differs(traced, &exec->ctx.trace), SWI_NONE);
    CU_ASSERT_EQUAL(traced->n_storages, exec->ctx.trace.n_storages);
    for (uint32_t s = 0; s < traced->n_storages; s++)
        CU_ASSERT_EQUAL(traced->storages[s].rounded, exec->ctx.trace.storages[s].rounded);
    swi_trace_free(&room);
    OK(sw_plan(exec, &args, &plan)); /* traced again and compared */
    tower.layers--;
    REFUSED(sw_plan(exec, &args, &plan), SW_INVALID, "is not pure");
}
