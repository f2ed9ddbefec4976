/* Every allocation on the way to a first run fails once, and once from there on: the status
 * says so, nothing leaks, and the same run works afterwards. */
#include "alloc/base/mem.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include <string.h>

SW_TESTS("memory failures")

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
    life whole = {.exec = NULL};
    OK(live(&whole, image, immediate));
    const void *wanted = net_copy_bytes(whole.n.model);
    end(&whole);
    sw_sites sites = {SW_FAULT_MEMORY, mode};
    while (sw_sites_next(&sites)) {
        life l = {.exec = NULL};
        /* A call may fail (fewer addresses are reserved, say): the result is the same. */
        if (SW_AT_SITE(&sites, live(&l, image, immediate)) == SW_OK)
            CU_ASSERT(net_same_bytes(l.n.model, wanted));
        end(&l);
    }
    CU_ASSERT(sites.k > 20 && sites.k <= 2000);
}

SW_TEST("every allocation of a planned mlp fails once")
{
    sweep(false, false, SW_FAULT_ONCE);
}
SW_TEST("... and from there on")
{
    sweep(false, false, SW_FAULT_FROM);
}
SW_TEST("... of an immediate mlp")
{
    sweep(false, true, SW_FAULT_ONCE);
}
SW_TEST("... of convolutions")
{
    sweep(true, false, SW_FAULT_ONCE);
}

/* The same exec and model after a refusal: what the k-th failure left does not disturb a
 * retry. */
SW_TEST("a refused run can be tried again")
{
    life whole = {.exec = NULL};
    OK(live(&whole, false, false));
    const void *wanted = net_copy_bytes(whole.n.model);
    end(&whole);
    sw_sites sites = {SW_FAULT_MEMORY};
    while (sw_sites_next(&sites)) {
        life l = {.exec = NULL};
        OK(sw_exec_create(&l.exec, &SW_OPTS(sw_exec_opts, .seed = 3)));
        OK(declare(&l, false));
        const batch b = net_batch(false, 0, 17);
        sw_run_args args = net_args(&l.n, &b);
        if (SW_AT_SITE(&sites, sw_run(l.exec, &args)) != SW_OK)
            OK(sw_run(l.exec, &args));
        OK(sw_run(l.exec, &args));
        CU_ASSERT(net_same_bytes(l.n.model, wanted));
        end(&l);
    }
    CU_ASSERT(sites.k <= 500);
}
