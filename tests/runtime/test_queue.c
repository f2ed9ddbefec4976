/* Runs on a device, on a card that puts everything off (lazy_card.h): the same bits as on the
 * CPU, op by op and replayed; what is captured, copied, waited for and taken; faults. */
#include "runtime/exec/queue_internal.h"
#include "tests/runtime/lazy_card.h"
#include "tests/runtime/nets.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 8

/* ---- execs and nets ---------------------------------------------------------------------- */

static void end_exec(void *exec)
{
    sw_exec_destroy(exec);
}

static sw_exec *on_card(lazy_card *card, const sw_exec_opts *more)
{
    sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 11, .isa = "base");
    sw_exec *exec = NULL;
    if (more != NULL)
        opts = *more;
    opts.size = sizeof opts;
    opts.seed = 11;
    OK(swi_exec_create_on(&exec, &opts, &swi_exec_cuda, &card->device));
    CU_ASSERT_PTR_NOT_NULL_FATAL(exec);
    sw_after(end_exec, exec);
    return exec;
}

static sw_exec *on_cpu(void)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 11, .isa = "base");
    return net_exec(&opts);
}

/* A model on the CPU with the bytes of one that is anywhere. */
static bool same(sw_exec *cpu, net *on_cpu_net, net *other)
{
    net *copy = net_new(other->image, NULL);
    OK(sw_model_ready(copy->model, cpu, 1));
    OK(sw_model_copy(copy->model, other->model));
    return net_same(on_cpu_net->model, copy->model);
}

/* With numbers drawn by step and run. */
static void noisy_step(sw_ctx *c, void *user)
{
    net *n = user;
    n->times_called++;
    sw_value h = sw_tanh(c, sw_apply_linear(c, n->f1, sw_input(c, 0)));
    h = sw_dropout(c, h, 0.25f);
    const sw_value logits = sw_apply_linear(c, n->f2, h);
    const sw_value loss = sw_scale(c, sw_softmax_ce(c, logits, sw_input(c, 1)), n->factor);
    sw_metric(c, "loss", loss);
    sw_output(c, "logits", logits);
    if (sw_ctx_mode(c) != SW_TRAIN)
        return;
    sw_backward(c, loss, &n->opt, 1);
    sw_update(c, n->opt);
}

/* One step on data that the caller changes as soon as sw_run has returned. */
static void step_on(sw_exec *exec, net *n, sw_step_fn *fn, int step, int rows)
{
    static float pixels[NET_BATCH * NET_PIXELS];
    static uint8_t labels[NET_BATCH];
    const batch b = net_batch(n->image, step % 7, rows);
    sw_run_args args = net_args(n, &b);
    const size_t bytes = (size_t)rows * NET_PIXELS * sizeof *pixels;
    memcpy(pixels, b.in[0].data, bytes);
    memcpy(labels, b.in[1].data, (size_t)rows);
    const sw_array in[2] = {{SW_F32, b.in[0].shape, pixels}, {SW_U8, b.in[1].shape, labels}};
    args.inputs = in;
    args.fn = fn;
    args.step = (uint64_t)step;
    args.run = (uint32_t)step % 3;
    sw_knob_set(sw_optimizer_lr(n->opt, 0), 0.01f / (float)(1 + step));
    sw_knob_set(n->factor, 1.0f + (float)(step % 2));
    if (exec->target.device != swi_device_cpu())
        ((lazy_card *)exec->target.device)->current = false;
    OK(sw_run(exec, &args));
    memset(pixels, 0x7f, bytes);
    memset(labels, 0xff, (size_t)rows);
}

/* ---- bits -------------------------------------------------------------------------------- */

/* `steps` on both, looking at metrics as the loop goes, or one run late, or not at all. */
static void compare(lazy_card *card, const sw_exec_opts *opts, bool image, int steps, int look)
{
    sw_exec *device = on_card(card, opts), *cpu = on_cpu();
    net *a = net_new(image, NULL), *b = net_new(image, NULL);
    sw_step_fn *fn = image ? net_step : noisy_step;
    double late = 0.0;
    for (int i = 0; i < steps; i++) {
        step_on(device, a, fn, i, ROWS);
        step_on(cpu, b, fn, i, ROWS);
        double loss = net_metric(cpu, "loss");
        if (look == 0)
            CU_ASSERT_EQUAL(net_metric(device, "loss"), loss);
        if (look == 1 && i > 0) {
            OK(sw_metric_past(device, 1, "loss", &late));
            OK(sw_metric_past(cpu, 1, "loss", &loss));
            CU_ASSERT_EQUAL(late, loss);
        }
    }
    CU_ASSERT_EQUAL(net_metric(device, "loss"), net_metric(cpu, "loss"));
    CU_ASSERT(same(cpu, b, a));
}

static void replayed_in_step(void)
{
    lazy_card *card = lazy_card_new(true);
    compare(card, NULL, false, 9, 0);
    CU_ASSERT_EQUAL(card->captures, 1);
    CU_ASSERT_EQUAL(card->replays, 8);
}

static void replayed_late(void)
{
    compare(lazy_card_new(true), NULL, false, 9, 1);
}

static void replayed_unseen(void)
{
    compare(lazy_card_new(false), NULL, false, 9, 2);
}

static void replayed_images(void)
{
    compare(lazy_card_new(true), NULL, true, 5, 1);
}

static void by_op(void)
{
    lazy_card *card = lazy_card_new(true);
    compare(card, &(sw_exec_opts){.isa = "base", .no_graphs = 1}, false, 5, 2);
    CU_ASSERT_EQUAL(card->captures, 0);
}

static void in_sync(void)
{
    lazy_card *card = lazy_card_new(false);
    compare(card, &(sw_exec_opts){.isa = "base", .sync_ops = 1, .op_clocks = 1}, false, 4, 2);
    CU_ASSERT_EQUAL(card->captures, 0);
    CU_ASSERT(card->waits > card->launches);
}

static void without_phases(void)
{
    lazy_card *card = lazy_card_new(true);
    compare(card, &(sw_exec_opts){.isa = "base", .no_phases = 1}, false, 4, 1);
    CU_ASSERT_EQUAL(card->captures, 1);
}

static void immediate(void)
{
    lazy_card *card = lazy_card_new(false); /* its bump grows, and so moves */
    sw_exec *device = on_card(card, NULL), *cpu = on_cpu();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    for (int i = 0; i < 3; i++) {
        const batch in = net_batch(false, 0, i == 0 ? ROWS : NET_BATCH);
        sw_run_args of_a = net_args(a, &in), of_b = net_args(b, &in);
        of_a.immediate = of_b.immediate = 1;
        of_a.fn = of_b.fn = noisy_step;
        of_a.step = of_b.step = (uint64_t)i;
        OK(sw_run(device, &of_a));
        OK(sw_run(cpu, &of_b));
        CU_ASSERT_EQUAL(net_metric(device, "loss"), net_metric(cpu, "loss"));
    }
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_run(device, &info));
    CU_ASSERT_EQUAL(info.replayed, 0);
    CU_ASSERT(info.ns > 0 && info.phase[SW_BACKWARD].ns > 0);
    CU_ASSERT_EQUAL(card->captures, 0);
    CU_ASSERT(same(cpu, b, a));
}

/* ---- a steady state ---------------------------------------------------------------------- */

/* Each warm run is four copies (inputs there and to their place, knobs, what leaves), one
 * launch, and no memory; it waits for what is two runs after it and for nothing else. */
static void steady(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *exec = on_card(card, NULL);
    net *n = net_new(false, NULL);
    step_on(exec, n, noisy_step, 0, ROWS);
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_run(exec, &info));
    CU_ASSERT(!info.warm && !info.replayed);
    for (int i = 1; i < 4; i++)
        step_on(exec, n, noisy_step, i, ROWS);
    lazy_card_forget(card);
    for (int i = 4; i < 104; i++) {
        step_on(exec, n, noisy_step, i, ROWS);
        OK(sw_run_past(exec, 1, &info));
        CU_ASSERT(info.warm && info.replayed);
        CU_ASSERT_EQUAL(info.allocations, 0);
    }
    CU_ASSERT_EQUAL(card->captures, 0);
    CU_ASSERT_EQUAL(card->replays, 100);
    CU_ASSERT_EQUAL(card->launches, 0);
    CU_ASSERT_EQUAL(card->allocations, 0);
    CU_ASSERT_EQUAL(card->copies, 400);
    CU_ASSERT(card->waits <= 200);
    CU_ASSERT_EQUAL(n->times_called, 1);
}

/* Peaks and times: by the arena op by op, and by the plan where it was replayed. */
static void figures(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *exec = on_card(card, NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, ROWS);
    const sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &args, &plan));
    for (int i = 0; i < 3; i++) {
        sw_run_info info = SW_OPTS(sw_run_info);
        OK(sw_run(exec, &args));
        OK(sw_last_run(exec, &info));
        uint64_t sum = 0;
        CU_ASSERT_EQUAL(info.replayed, i > 0);
        CU_ASSERT_EQUAL(info.peak_bytes, plan.peak_bytes);
        for (int k = 0; k < SW_PHASES; k++) {
            CU_ASSERT_EQUAL(info.phase[k].peak_bytes, plan.phase[k].peak_bytes);
            CU_ASSERT_EQUAL(info.phase[k].end_bytes, plan.phase[k].end_bytes);
            sum += info.phase[k].ns;
        }
        CU_ASSERT(info.phase[SW_FORWARD].ns > 0 && info.phase[SW_STEP].ns > 0);
        CU_ASSERT(sum > 0 && sum < info.ns); /* less what leaves */
    }
    sw_run_info early = SW_OPTS(sw_run_info);
    OK(sw_run(exec, &args));
    OK(sw_run(exec, &args));
    OK(sw_run_past(exec, 1, &early));
    CU_ASSERT(early.ns > 0);
    CU_ASSERT_EQUAL(early.phase[SW_FORWARD].ns, 0); /* its clocks were used again */
}

static void past(void)
{
    sw_exec *execs[] = {on_card(lazy_card_new(true), NULL), on_cpu()};
    net *nets[] = {net_new(false, NULL), net_new(false, NULL)};
    double x = 0.0, y = 0.0;
    for (int e = 0; e < 2; e++) {
        REFUSED(sw_metric_past(execs[e], 0, "loss", &x), SW_INVALID, "nothing has run");
        for (int i = 0; i < 3; i++)
            step_on(execs[e], nets[e], noisy_step, i, ROWS);
        REFUSED(sw_metric_past(execs[e], 3, "loss", &x), SW_INVALID, "no run then");
        REFUSED(sw_metric_past(execs[e], 4, "loss", &x), SW_INVALID, "0 to 3");
        REFUSED(sw_metric_past(execs[e], -1, "loss", &x), SW_INVALID, "0 to 3");
        REFUSED(sw_metric_past(execs[e], 1, "gain", &x), SW_INVALID, "'gain'");
        for (int i = 3; i < 8; i++)
            step_on(execs[e], nets[e], noisy_step, i, ROWS);
    }
    for (int ago = 3; ago >= 0; ago--) {
        OK(sw_metric_past(execs[0], ago, "loss", &x));
        OK(sw_metric_past(execs[1], ago, "loss", &y));
        CU_ASSERT_EQUAL(x, y);
    }
    sw_run_args bad = SW_OPTS(sw_run_args, .fn = noisy_step, .user = nets[1]);
    REFUSED(sw_run(execs[1], &bad), SW_INVALID, "input 0 of 0");
    REFUSED(sw_metric_past(execs[1], 0, "loss", &x), SW_INVALID, "the last run failed");
    OK(sw_metric_past(execs[1], 1, "loss", &x));
    CU_ASSERT_EQUAL(x, y);
}

static void outputs(void)
{
    sw_exec *device = on_card(lazy_card_new(true), NULL), *cpu = on_cpu();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    sw_array x, y;
    for (int i = 0; i < 3; i++) {
        step_on(device, a, noisy_step, i, ROWS);
        step_on(cpu, b, noisy_step, i, ROWS);
        OK(sw_output_get(device, "logits", &x));
        OK(sw_output_get(cpu, "logits", &y));
        CU_ASSERT_EQUAL(x.shape.dim[0], ROWS);
        CU_ASSERT_EQUAL(memcmp(x.data, y.data, ROWS * NET_CLASSES * sizeof(float)), 0);
    }
}

/* ---- bindings ---------------------------------------------------------------------------- */

/* Models of one shape share a plan, and each has its graph; larger inputs move the places, and
 * everything is captured once more. */
static void bindings(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *device = on_card(card, NULL), *cpu = on_cpu();
    net *a[2] = {net_new(false, NULL), net_new(false, NULL)};
    net *b[2] = {net_new(false, NULL), net_new(false, NULL)};
    for (int i = 0; i < 12; i++) {
        const int rows = i < 8 ? ROWS : 2 * ROWS;
        step_on(device, a[i % 2], noisy_step, i, rows);
        step_on(cpu, b[i % 2], noisy_step, i, rows);
        CU_ASSERT_EQUAL(card->captures, i < 8 ? (i < 2 ? i + 1 : 2) : (i < 10 ? i - 5 : 4));
    }
    step_on(device, a[0], noisy_step, 12, ROWS); /* its places have moved */
    step_on(cpu, b[0], noisy_step, 12, ROWS);
    CU_ASSERT_EQUAL(card->captures, 5);
    step_on(device, a[0], noisy_step, 13, ROWS);
    step_on(cpu, b[0], noisy_step, 13, ROWS);
    CU_ASSERT_EQUAL(card->captures, 5);
    CU_ASSERT(same(cpu, b[0], a[0]) && same(cpu, b[1], a[1]));
}

/* A program that is forgotten takes its graphs along. */
static void forgotten(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *device = on_card(card, &(sw_exec_opts){.isa = "base", .max_programs = 1});
    sw_exec *cpu = on_cpu();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    for (int i = 0; i < 9; i++) {
        step_on(device, a, noisy_step, i, i % 3 == 2 ? ROWS / 2 : ROWS);
        step_on(cpu, b, noisy_step, i, i % 3 == 2 ? ROWS / 2 : ROWS);
        CU_ASSERT(card->graphs <= 2); /* that of the last run stays as long as it is that */
    }
    CU_ASSERT(same(cpu, b, a));
}

/* Where there are too many graphs the one that was used longest ago goes. */
static void few_graphs(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *device = on_card(card, NULL), *cpu = on_cpu();
    net *a[3], *b[3];
    const int order[] = {0, 1, 0, 2, 0, 1, 0, 2};
    const int captures[] = {1, 2, 2, 3, 3, 4, 4, 5};
    device->queue->most_graphs = 2;
    for (int i = 0; i < 3; i++) {
        a[i] = net_new(false, NULL);
        b[i] = net_new(false, NULL);
    }
    for (int i = 0; i < 8; i++) {
        step_on(device, a[order[i]], noisy_step, i, ROWS);
        step_on(cpu, b[order[i]], noisy_step, i, ROWS);
        CU_ASSERT_EQUAL(card->captures, captures[i]);
        CU_ASSERT(card->graphs <= 2);
    }
    for (int i = 0; i < 3; i++)
        CU_ASSERT(same(cpu, b[i], a[i]));
}

/* Work that one exec has left to do on a model comes before what another begins. */
static void two_execs(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *device[] = {on_card(card, NULL), on_card(card, NULL)}, *cpu = on_cpu();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    for (int i = 0; i < 8; i++) {
        step_on(device[i % 3 == 0], a, noisy_step, i, ROWS);
        step_on(cpu, b, noisy_step, i, ROWS);
    }
    CU_ASSERT(same(cpu, b, a));
    const batch in = net_batch(false, 0, ROWS);
    const sw_run_args args = net_args(a, &in);
    REFUSED(sw_run(cpu, &args), SW_INVALID, "cuda:0");
}

/* ---- memory ------------------------------------------------------------------------------ */

static size_t pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* The planned bytes are those taken, of the budget and of the card. */
static void plan_is_taken(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *exec = on_card(card, NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, NET_BATCH);
    sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    args.data_bytes = 12345; /* the host's business */
    OK(sw_plan(exec, &args, &plan));
    OK(sw_run(exec, &args));
    CU_ASSERT_EQUAL(card->memory.live_bytes,
                    pages(plan.model_bytes) + pages(plan.arena_bytes) + pages(plan.data_bytes));
    CU_ASSERT_EQUAL(plan.total_bytes, plan.model_bytes + plan.arena_bytes + plan.data_bytes);
    CU_ASSERT(plan.data_bytes > 3 * plan.slot_bytes);
    CU_ASSERT_EQUAL(card->host_bytes, swi_queue_host_bytes(exec->queue));
}

static void end_budget(void *budget)
{
    sw_budget_destroy(budget);
}

static void budget_on_card(void)
{
    lazy_card *card = lazy_card_new(false);
    const batch b = net_batch(false, 0, NET_BATCH);
    net *n = net_new(false, NULL);
    sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(on_card(card, NULL), &args, &plan));
    for (int kind = 0; kind < 3; kind++) { /* planned before, not planned, a byte too few */
        sw_budget *budget;
        OK(sw_budget_create(&budget, plan.total_bytes - (size_t)(kind == 2)));
        sw_after(end_budget, budget);
        n = net_new(false, NULL);
        args.user = n;
        args.models = &n->model;
        sw_exec *exec =
            on_card(card, &(sw_exec_opts){.isa = "base", .budget = budget, .no_recompute = 1});
        OK(kind == 0 ? sw_plan(exec, &args, &plan) : SW_OK);
        if (kind < 2) {
            OK(sw_run(exec, &args));
            CU_ASSERT_EQUAL(sw_budget_used(budget), plan.total_bytes);
        } else {
            REFUSED(sw_run(exec, &args), SW_NOMEM, "does not fit");
            REFUSED(sw_plan(exec, &args, &plan), SW_NOMEM, "does not fit");
        }
    }
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Some steps and what they left, with everything made anew; the first failure. */
static sw_status session(lazy_card *card, sw_exec **exec, net *n, bool *fault)
{
    const batch b = net_batch(false, 0, ROWS);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .seed = 11, .isa = "base");
    sw_run_args args = net_args(n, &b);
    double loss;
    sw_array logits;
    SW_TRY(swi_exec_create_on(exec, &opts, &swi_exec_cuda, &card->device));
    for (int i = 0; i < 6; i++) {
        args.step = (uint64_t)i;
        sw_knob_set(sw_optimizer_lr(n->opt, 0), 0.01f / (float)(1 + i));
        *fault = true;
        SW_TRY(sw_run(*exec, &args));
        SW_TRY(i % 2 == 0 ? sw_metric_past(*exec, 0, "loss", &loss) : SW_OK);
    }
    SW_TRY(sw_output_get(*exec, "logits", &logits));
    *fault = false;
    return SW_OK;
}

/* Each call fails once: the status is its, a fault stays, and all is given back. */
static void fails_once(sw_status with)
{
    lazy_card *card = lazy_card_new(true);
    net *n = net_new(false, NULL);
    bool failed = true;
    int64_t k = 1;
    for (; failed && k < 3000; k++) {
        sw_exec *exec = NULL;
        bool fault = false;
        lazy_card_forget(card);
        card->fail_at = k;
        card->fails = with;
        const sw_status status = session(card, &exec, n, &fault);
        failed = status != SW_OK;
        SW_CHECK(!failed || status == with, "call %lld: %s: %s", (long long)k,
                 sw_status_name(status), sw_last_error());
        const char *why = with == SW_NOMEM && fault ? "does not fit" : "as planned";
        SW_CHECK(!failed || strstr(sw_last_error(), why) != NULL ||
                     strstr(sw_last_error(), "as planned") != NULL,
                 "call %lld: %s", (long long)k, sw_last_error());
        if (failed && fault && with == SW_DEVICE) {
            const batch b = net_batch(false, 0, ROWS);
            const sw_run_args args = net_args(n, &b);
            card->fail_at = 0;
            REFUSED(sw_run(exec, &args), SW_DEVICE, "as planned");
        }
        lazy_card_mend(card);
        sw_exec_destroy(exec);
        net_again(n);
        CU_ASSERT_EQUAL_FATAL(card->memory.live_bytes + card->host_bytes, 0);
        CU_ASSERT_EQUAL_FATAL(card->events + card->graphs, 0);
        CU_ASSERT_EQUAL_FATAL(card->streams, 1);
    }
    CU_ASSERT(k > (with == SW_DEVICE ? 100 : 15) && k < 3000);
}

static void each_fault(void)
{
    fails_once(SW_DEVICE);
}

static void each_refusal(void)
{
    fails_once(SW_NOMEM);
}

/* An op's fault has its name in front, and without sync_ops a hint. */
static void names_of_faults(void)
{
    lazy_card *card = lazy_card_new(true);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, ROWS);
    const sw_run_args args = net_args(n, &b);
    sw_exec *sync = on_card(card, &(sw_exec_opts){.isa = "base", .sync_ops = 1});
    OK(sw_run(sync, &args));
    lazy_card_forget(card);
    OK(sw_run(sync, &args));
    const int64_t calls = card->calls;
    int named = 0;
    for (int64_t k = 1; k <= calls; k++) {
        lazy_card_forget(card);
        card->fail_at = k;
        CU_ASSERT_EQUAL(sw_run(sync, &args), SW_DEVICE);
        CU_ASSERT_PTR_NULL(strstr(sw_last_error(), "sync_ops"));
        named += strncmp(sw_last_error(), "f1 linear: lazy card: queue_sync", 32) == 0;
        lazy_card_mend(card);
        OK(sw_model_ready(n->model, sync, 3));
    }
    CU_ASSERT_EQUAL(named, 1);
    sw_exec *exec = on_card(card, &(sw_exec_opts){.isa = "base", .no_graphs = 1});
    OK(sw_run(exec, &args));
    lazy_card_forget(card);
    card->fail_at = 14;
    CU_ASSERT_EQUAL(sw_run(exec, &args), SW_DEVICE);
    SW_CHECK(strstr(sw_last_error(), "--sync-ops, names it") != NULL, "%s", sw_last_error());
    lazy_card_mend(card);
}

/* Updates that are skipped are counted on the device and told a few runs later. */
static void skipped(void)
{
    sw_exec *execs[] = {on_card(lazy_card_new(true), NULL), on_cpu()};
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f, .max_skipped = 3);
    static float bad[ROWS * NET_PIXELS];
    char message[2][512];
    int told[2] = {0, 0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        bad[i] = NAN;
    for (int e = 0; e < 2; e++) {
        net *n = net_new(false, &opts);
        batch b = net_batch(false, 0, ROWS);
        const sw_run_args args = net_args(n, &b);
        for (int i = 0; i < 4; i++)
            OK(sw_run(execs[e], &args));
        b.in[0].data = bad;
        while (told[e] < 20 && sw_run(execs[e], &args) == SW_OK)
            told[e]++;
        snprintf(message[e], sizeof message[e], "%.40s", sw_last_error());
        uint64_t total = 0;
        OK(sw_optimizer_skipped(n->opt, &total, NULL));
        CU_ASSERT_EQUAL(total, (uint64_t)told[e] + 1);
        CU_ASSERT(isnan(net_metric(execs[e], "loss"))); /* the run has ended as usual */
    }
    CU_ASSERT_EQUAL(told[1], 2);
    CU_ASSERT_EQUAL(told[0], 5);
    CU_ASSERT_STRING_EQUAL(message[0], message[1]);
    net *n = net_new(false, &opts); /* shares the plan of another */
    batch b = net_batch(false, 0, ROWS);
    sw_run_args args = net_args(n, &b);
    b.in[0].data = bad;
    int well = 0;
    while (well < 20 && sw_run(execs[0], &args) == SW_OK)
        well++;
    CU_ASSERT_EQUAL(well, 5);
    n = net_new(false, &opts);
    args = net_args(n, &b);
    args.immediate = 1;
    for (int i = 0; i < 2; i++)
        OK(sw_run(execs[0], &args));
    REFUSED(sw_run(execs[0], &args), SW_INVALID, "3 updates in a row");
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void options(void)
{
    const sw_exec_opts of_devices[] = {SW_OPTS(sw_exec_opts, .tf32 = 1),
                                       SW_OPTS(sw_exec_opts, .sync_ops = 1),
                                       SW_OPTS(sw_exec_opts, .no_graphs = 1)};
    sw_exec *exec = NULL;
    for (int i = 0; i < 3; i++)
        REFUSED(sw_exec_create(&exec, &of_devices[i]), SW_INVALID, "must be 0 on cpu");
    const sw_exec_opts clocks = SW_OPTS(sw_exec_opts, .device = "cuda", .op_clocks = 1);
    REFUSED(sw_exec_create(&exec, &clocks), SW_INVALID, "needs sync_ops");
    CU_ASSERT_PTR_NULL(exec);
    lazy_card *card = lazy_card_new(true);
    const sw_exec *rounding = on_card(card, &(sw_exec_opts){.tf32 = 1});
    CU_ASSERT_EQUAL(swi_queue_compute(rounding->queue)->flags, SW_CUDA_TF32);
    const sw_exec *usual = on_card(card, NULL);
    CU_ASSERT_EQUAL(swi_queue_compute(usual->queue)->flags, 0);
}

static void missing_entries(void)
{
    lazy_card *card = lazy_card_new(true);
    sw_exec *exec = on_card(card, NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, ROWS);
    sw_run_args args = net_args(n, &b);
    sw_witness_info info = SW_OPTS(sw_witness_info);
    card->device.entries[SW_OP_tanh][1] = NULL;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "the backward of tanh: not supported on cuda");
    args.mode = SW_EVAL;
    OK(sw_run(exec, &args));
    card->device.entries[SW_OP_tanh][0] = NULL;
    args.variant = 1;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "tanh: not supported on cuda");
    args.immediate = 1;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "tanh: not supported on cuda");
    args.immediate = 0;
    REFUSED(sw_witness(exec, &args, SW_WITNESS_ALL, &info), SW_UNSUPPORTED, "sw_witness");
}

static const sw_test tests[] = {
    {"replays have the CPU's bits, asked after each run", replayed_in_step},
    {"... asked one run late", replayed_late},
    {"... not asked, on a card without mapping", replayed_unseen},
    {"... of convolutions", replayed_images},
    {"runs op by op have the CPU's bits", by_op},
    {"... waited for after each op", in_sync},
    {"... and replays without clocks", without_phases},
    {"immediate runs have the CPU's bits, also where their bump moves", immediate},
    {"a hundred replays capture, allocate and trace nothing", steady},
    {"peaks are the plan's, times the card's", figures},
    {"the last four runs can be asked for", past},
    {"outputs are copied to the host", outputs},
    {"each binding is captured once", bindings},
    {"graphs have a bound", few_graphs},
    {"a forgotten program takes its graphs along", forgotten},
    {"execs that share a model wait for each other", two_execs},
    {"what is planned is taken", plan_is_taken},
    {"a budget is one of the card's memory", budget_on_card},
    {"each call that fails is a fault that stays", each_fault},
    {"... or a refusal that does not", each_refusal},
    {"a fault names its op, or says how to find it", names_of_faults},
    {"skipped updates are reported at most three runs later", skipped},
    {"options of devices", options},
    {"ops that the card does not have are refused by name", missing_entries},
};
SW_SUITE("queue", tests)
