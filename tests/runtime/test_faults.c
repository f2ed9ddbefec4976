/* Every allocation on the way to a first run fails once, and once from there on: the status
 * says so, nothing leaks, and the same run works afterwards. */
#include "alloc/base/fault.h"
#include "alloc/base/mem.h"
#include "tests/runtime/nets.h"
#include <string.h>

static size_t live_blocks(void)
{
    size_t n = 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        n += (size_t)stats.blocks;
    }
    return n;
}

static void stop_faults(void *arg)
{
    (void)arg;
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
}

/* One whole life: exec, model, optimizer, two runs, a plan, an evaluation. */
typedef struct {
    sw_exec *exec;
    net n;
} life;

static sw_status declare(life *l, bool image)
{
    net *n = &l->n;
    SW_TRY(sw_model_create(&n->model, "net"));
    n->image = image;
    if (image) {
        n->c1 = sw_conv2d_new(n->model, "c1", 1, 4, 3);
        n->c2 = sw_conv2d_new(n->model, "c2", 4, 6, 3);
        n->f1 = sw_linear_new(n->model, "f1", 24, NET_CLASSES);
    } else {
        n->f1 = sw_linear_new(n->model, "f1", NET_PIXELS, 24);
        n->f2 = sw_linear_new(n->model, "f2", 24, NET_CLASSES);
    }
    n->factor = sw_knob_new(n->model, "factor", 1.0f);
    n->max_norm = sw_knob_new(n->model, "max_norm", 0.1f);
    n->clip = image;
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = !image);
    return sw_optimizer_create(&n->opt, n->model, &opts);
}

static sw_status live(life *l, bool image, bool immediate)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 3, .op_clocks = 1);
    SW_TRY(sw_exec_create(&l->exec, &opts));
    SW_TRY(declare(l, image));
    const batch b = net_batch(image, 0, 17);
    sw_run_args args = net_args(&l->n, &b);
    args.immediate = immediate;
    SW_TRY(sw_run(l->exec, &args));
    SW_TRY(sw_run(l->exec, &args));
    args.mode = SW_EVAL;
    return sw_run(l->exec, &args);
}

static void end(life *l)
{
    sw_model_destroy(l->n.model);
    sw_exec_destroy(l->exec);
}

static void sweep(bool image, bool immediate, sw_fault_mode mode)
{
    sw_after(stop_faults, NULL);
    life whole;
    memset(&whole, 0, sizeof whole);
    OK(live(&whole, image, immediate));
    const void *wanted = net_copy_bytes(whole.n.model);
    end(&whole);
    const size_t before = live_blocks();
    uint64_t k = 0;
    bool done = false;
    for (; !done && k < 2000; k++) {
        life l;
        memset(&l, 0, sizeof l);
        sw_fault_plan(SW_FAULT_MEMORY, k, mode);
        const sw_status status = live(&l, image, immediate);
        done = sw_fault_calls(SW_FAULT_MEMORY) <= k;
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        if (!done && status == SW_OK) {
            /* A call that may fail: fewer addresses reserved, say. The result is the same. */
            CU_ASSERT(net_same_bytes(l.n.model, wanted));
        }
        SW_CHECK(status == SW_OK || status == SW_NOMEM, "call %u: %s: %s", (unsigned)k,
                 sw_status_name(status), sw_last_error());
        SW_CHECK(status == SW_OK || sw_last_error()[0] != '\0', "call %u has no reason",
                 (unsigned)k);
        end(&l);
        SW_CHECK(live_blocks() == before, "call %u: %zu blocks, %zu before", (unsigned)k,
                 live_blocks(), before);
    }
    CU_ASSERT(done && k > 20);
    sw_note("%u calls", (unsigned)k);
}

static void planned_mlp(void)
{
    sweep(false, false, SW_FAULT_ONCE);
}
static void planned_mlp_for_good(void)
{
    sweep(false, false, SW_FAULT_FROM);
}
static void immediate_mlp(void)
{
    sweep(false, true, SW_FAULT_ONCE);
}
static void planned_images(void)
{
    sweep(true, false, SW_FAULT_ONCE);
}

/* The same exec and model after a refusal: what the k-th failure left does not disturb a
 * retry. */
static void a_refused_run_can_be_tried_again(void)
{
    sw_after(stop_faults, NULL);
    life whole;
    memset(&whole, 0, sizeof whole);
    OK(live(&whole, false, false));
    const void *wanted = net_copy_bytes(whole.n.model);
    end(&whole);
    bool done = false;
    for (uint64_t k = 0; !done && k < 500; k++) {
        life l;
        memset(&l, 0, sizeof l);
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 3);
        OK(sw_exec_create(&l.exec, &opts));
        OK(declare(&l, false));
        const batch b = net_batch(false, 0, 17);
        sw_run_args args = net_args(&l.n, &b);
        sw_fault_plan(SW_FAULT_MEMORY, k, SW_FAULT_ONCE);
        const sw_status status = sw_run(l.exec, &args);
        done = sw_fault_calls(SW_FAULT_MEMORY) <= k;
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        SW_CHECK(status == SW_OK || (!done && status == SW_NOMEM), "%s", sw_last_error());
        if (status != SW_OK)
            OK(sw_run(l.exec, &args));
        OK(sw_run(l.exec, &args));
        CU_ASSERT(net_same_bytes(l.n.model, wanted));
        end(&l);
    }
    CU_ASSERT(done);
}

static const sw_test tests[] = {
    {"every allocation of a planned mlp fails once", planned_mlp, false},
    {"... and from there on", planned_mlp_for_good, false},
    {"... of an immediate mlp", immediate_mlp, false},
    {"... of convolutions", planned_images, false},
    {"a refused run can be tried again", a_refused_run_can_be_tried_again, false},
};
SW_SUITE("memory failures", tests)
