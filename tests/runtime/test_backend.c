/* Tables of backends: a third one, with memory that host code may not touch, runs programs. */
#include "alloc/base/poison.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "tests/runtime/nets.h"

SW_TESTS("backends")

/* ---- a third backend: counts, and has the CPU do it ----------------------------------------
 */

static struct {
    uint32_t launched, nodes, counted, forgotten, bound, shared, closed, opened, ended;
    uint32_t stores, reads, writes, zeros, copies, selected;
    uint32_t outputs;
    uint32_t lacks; /* an op that it has no kernel of; 0: none */
    sw_dtype asked; /* the type that it was asked for last */
} seen;

static swi_device *share(swi_device *device)
{
    seen.shared++;
    return device;
}

static void close_user(swi_device *device)
{
    seen.closed++;
}

static sw_status store(swi_device *device, sw_store **out, size_t bytes)
{
    seen.stores++;
    return swi_backend_cpu.store(device, out, bytes);
}

static sw_status read_bytes(swi_device *device, void *to, const void *from, size_t bytes)
{
    seen.reads++;
    return swi_backend_cpu.read(device, to, from, bytes);
}

static sw_status write_bytes(swi_device *device, void *to, const void *from, size_t bytes)
{
    seen.writes++;
    return swi_backend_cpu.write(device, to, from, bytes);
}

static sw_status copy_bytes(swi_device *device, void *to, const void *from, size_t bytes)
{
    seen.copies++;
    return swi_backend_cpu.copy(device, to, from, bytes);
}

/* A model's memory is poisoned until the host may touch it; this backend always may. */
static sw_status zero_bytes(swi_device *device, void *to, size_t bytes)
{
    seen.zeros++;
    sw_unpoison(to, bytes);
    return swi_backend_cpu.zero(device, to, bytes);
}

static bool select_kernel(const swi_target *target, uint32_t op, int grad, sw_dtype dtype,
                          const sw_kernel_info *info, swi_selected_kernel *out)
{
    seen.selected++;
    seen.asked = dtype;
    return op != seen.lacks && swi_backend_cpu.select(target, op, grad, dtype, info, out);
}

static sw_status open_exec(sw_exec *exec, const sw_exec_opts *opts)
{
    seen.opened++;
    return swi_exec_cpu.open(exec, opts);
}

static void close_exec(sw_exec *exec)
{
    seen.ended++;
    swi_exec_cpu.close(exec);
}

static sw_status count_launches(sw_exec *exec, swi_frame *frame, uint32_t *launches)
{
    seen.counted++;
    *launches = frame->program->n_ops;
    return SW_OK;
}

static void forget(sw_exec *exec, const swi_program *program)
{
    seen.forgotten++;
}

static unsigned char *bind(const sw_exec *exec, const sw_run_args *args, int input)
{
    seen.bound++;
    return swi_exec_cpu.bind(exec, args, input);
}

static sw_status launch(sw_exec *exec, const swi_frame *frame, uint32_t op)
{
    seen.launched++;
    return swi_exec_cpu.launch(exec, frame, op);
}

static sw_status launch_node(sw_exec *exec, const swi_node *node, const sw_launch *l)
{
    seen.nodes++;
    return swi_exec_cpu.launch_node(exec, node, l);
}

/* Its memory is its own, so knobs go there with a run. */
static sw_status send_knobs(const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++) {
        sw_model *model = args->models[m];
        const swi_entry *e = &model->entries[model->knob_entry];
        for (uint32_t i = 0; i < model->n_knobs; i++)
            SW_TRY(swi_model_write(model, e->offset + i * sizeof(float), &model->knobs[i].value,
                                   sizeof(float)));
    }
    return SW_OK;
}

static sw_status run(sw_exec *exec, swi_frame *frame, const sw_run_args *args, swi_run_ops *ops,
                     bool *updated, bool *fresh)
{
    SW_TRY(send_knobs(args));
    return swi_exec_cpu.run(exec, frame, args, ops, updated, fresh);
}

static sw_status begin_immediate(sw_exec *exec, const sw_run_args *args)
{
    return send_knobs(args);
}

static sw_status skipped(sw_exec *exec, const sw_run_args *args)
{
    return SW_OK;
}

static sw_status output(sw_exec *exec, const swi_trace *trace, uint32_t i, const void **data)
{
    seen.outputs++;
    return swi_exec_cpu.output(exec, trace, i, data);
}

static swi_backend third;
static swi_exec_backend third_exec;
static swi_device third_device;

static sw_exec *exec_on_third(void)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 11, .threads = 1);
    sw_exec *exec = NULL;
    memset(&seen, 0, sizeof seen);
    third = swi_backend_cpu;
    third.name = "third";
    third.host_memory = false;
    third.share = share;
    third.close = close_user;
    third.store = store;
    third.read = read_bytes;
    third.write = write_bytes;
    third.copy = copy_bytes;
    third.zero = zero_bytes;
    third.select = select_kernel;
    third_exec = swi_exec_cpu;
    third_exec.open = open_exec;
    third_exec.close = close_exec;
    third_exec.count_launches = count_launches;
    third_exec.forget = forget;
    third_exec.bind = bind;
    third_exec.launch = launch;
    third_exec.launch_node = launch_node;
    third_exec.run = run;
    third_exec.begin_immediate = begin_immediate;
    third_exec.skipped = skipped;
    third_exec.output = output;
    third_device = (swi_device){.backend = &third};
    CU_ASSERT_EQUAL_FATAL(swi_exec_create_on(&exec, &opts, &third_exec, &third_device), SW_OK);
    return exec;
}

/* Not by the address: host code has the bytes from the table. */
static bool same_bytes(const sw_model *a, const sw_model *b)
{
    static unsigned char x[1 << 20], y[1 << 20];
    CU_ASSERT_FATAL(a->bytes == b->bytes && a->bytes <= sizeof x);
    OK(swi_model_read(a, x, 0, a->bytes));
    OK(swi_model_read(b, y, 0, b->bytes));
    return memcmp(x, y, a->bytes) == 0;
}

SW_TEST("a third table runs programs, with memory that host code does not touch")
{
    sw_exec *exec = exec_on_third(), *cpu = net_exec(NULL);
    net *n = net_new(false, NULL), *same = net_new(false, NULL);
    const batch b = net_batch(false, 0, 20);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_array logits;
    CU_ASSERT_EQUAL(seen.opened, 1);
    CU_ASSERT_EQUAL(seen.shared, 1);
    CU_ASSERT_EQUAL(seen.stores, 1); /* the step arena */
    CU_ASSERT_EQUAL(net_train(exec, n, &b, 5), net_train(cpu, same, &b, 5));
    CU_ASSERT_EQUAL(seen.stores, 2); /* and the model */
    CU_ASSERT_EQUAL(seen.counted, 1);
    CU_ASSERT_EQUAL(seen.launched, 5 * exec->last->n_ops);
    CU_ASSERT_EQUAL(seen.bound, 5 * 2);
    CU_ASSERT(seen.selected > 0 && seen.writes > 0 && seen.zeros > 0);
    CU_ASSERT_EQUAL(seen.nodes, 0);
    CU_ASSERT_EQUAL(seen.asked, SW_F32);
    CU_ASSERT(same_bytes(n->model, same->model));
    CU_ASSERT_EQUAL(seen.reads, 1);
    OK(sw_output_get(exec, "logits", &logits));
    CU_ASSERT_EQUAL(seen.outputs, 1);
    sw_run_args args = net_args(n, &b), there = net_args(same, &b);
    OK(sw_plan(exec, &args, &plan));
    CU_ASSERT_EQUAL(plan.launches, exec->last->n_ops);
    args.immediate = there.immediate = 1;
    OK(sw_run(exec, &args));
    OK(sw_run(cpu, &there));
    CU_ASSERT_EQUAL(seen.launched, 5 * exec->frames[0]->program->n_ops);
    CU_ASSERT(seen.nodes > 0);
    CU_ASSERT(same_bytes(n->model, same->model));
    REFUSED(sw_run(cpu, &args), SW_INVALID, "copy it");
    OK(sw_model_copy(n->model, same->model));
    sw_exec_destroy(exec);
    CU_ASSERT_EQUAL(seen.ended, 1);
    CU_ASSERT_EQUAL(seen.closed, 1); /* the model has a share still */
}

/* Kernels are chosen by op and type; what is missing is named by both. */
SW_TEST("a missing kernel is named by op and type")
{
    sw_exec *exec = exec_on_third();
    AFTER(sw_exec_destroy, exec);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 4);
    const sw_run_args args = net_args(n, &b);
    const sw_type bf16 = {SW_BF16, SW_PLAIN, SW_SHAPE(4)};
    sw_kernel_info info = {.in = &bf16, .n_in = 1, .out = &bf16, .n_out = 1};
    swi_selected_kernel kernel = {.scratch_bytes = 77};
    seen.lacks = SW_OP_tanh;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "tanh: not supported on third for f32");
    seen.lacks = 0;
    OK(sw_run(exec, &args));
    REFUSED(swi_select_kernel(exec, SW_OP_max, -1, &info, &kernel), SW_UNSUPPORTED,
            "max: not supported on third for bf16");
    CU_ASSERT_EQUAL(seen.asked, SW_BF16);
    REFUSED(swi_select_kernel(exec, SW_OP_max, 0, &info, &kernel), SW_UNSUPPORTED,
            "the backward of max");
    CU_ASSERT_EQUAL(kernel.scratch_bytes, 77);
}
