/* Runs on a device, on the card that is not there: the same bits however they are launched;
 * what is captured, copied, waited for and taken; faults. */
#include "alloc/base/mem.h"
#include "runtime/exec/queue_internal.h"
#include "runtime/model/model.h"
#include "tests/cuda/fake_card.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/random_net.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("queue")

/* ---- random networks --------------------------------------------------------------------- */

/* Random networks on a card that puts everything off: whether a step is replayed, launched op
 * by op or immediate, late or in step, its bits are the same; and refused memory is an answer.
 */

#define RUNS 6

/* ---- what a life leaves, as one number --------------------------------------------------- */

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ p[i]) * 0x100000001b3ull;
}

static void mix_models(uint64_t *hash, const random_life *life)
{
    for (int i = 0; i < life->net->n_models; i++) {
        const sw_model *model = life->models[i];
        void *bytes = malloc(model->bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        if (seed_well(swi_model_read(model, bytes, 0, model->bytes), "a model"))
            mix(hash, bytes, model->bytes);
        free(bytes);
    }
}

/* Of the run `ago` runs ago; outputs of the last one alone. */
static void mix_run(uint64_t *hash, sw_exec *exec, const random_life *life, int ago)
{
    for (int i = 0; i < life->net->n_ops; i++) {
        const random_op *op = &life->net->op[i];
        double x = 0.0;
        sw_array out = {0};
        const char *name = sw_textf("v%d", i);
        if (op->kind == RANDOM_METRIC &&
            seed_well(sw_metric_past(exec, ago, name, &x), "a metric"))
            mix(hash, &x, sizeof x);
        if (op->kind == RANDOM_OUTPUT && ago == 0 &&
            seed_well(sw_output_get(exec, name, &out), "an output")) {
            const sw_type type = {out.dtype, SW_PLAIN, out.shape};
            mix(hash, out.data, sw_type_bytes(&type));
        }
    }
}

/* ---- ways to run ------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    sw_exec_opts opts;
    bool immediate;
    bool late; /* metrics are read one run late */
} way;
static const way random_ways[] = {
    {"replayed", {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5}, false, true},
    {"replayed in step",
     {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5},
     false,
     false},
    {"op by op",
     {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5, .no_graphs = 1},
     false,
     true},
    {"in sync",
     {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5, .sync_ops = 1},
     false,
     false},
    {"immediate", {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5}, true, false},
};
#define WAYS (sizeof random_ways / sizeof *random_ways)

static bool live(sw_exec *exec, random_life *life, const way *w, uint64_t *hash)
{
    for (uint64_t k = 0; k < RUNS; k++) {
        sw_run_args args = random_life_args(life, k);
        args.immediate = w->immediate;
        if (!seed_well(sw_run(exec, &args), w->name))
            return false;
        if (w->late && k > 0)
            mix_run(hash, exec, life, 1);
        if (w->late && k + 1 < RUNS)
            continue;
        if (!seed_well(sw_last_run(exec, &SW_OPTS(sw_run_info)), "last run"))
            return false;
        mix_run(hash, exec, life, 0);
    }
    mix_models(hash, life);
    return true;
}

static bool live_this_way(const way *w, uint64_t *hash)
{
    random_life life;
    sw_exec *exec = NULL;
    *hash = 0xcbf29ce484222325ull;
    const bool well = seed_well(sw_exec_create(&exec, &w->opts), "exec") &&
                      seed_well(random_life_begin(&life, &seed_net, false, false), "declare") &&
                      live(exec, &life, w, hash);
    sw_exec_destroy(exec);
    random_life_end(&life);
    return well;
}

static void all_ways(void)
{
    uint64_t late = 0, in_step = 0, other = 0;
    if (!live_this_way(&random_ways[0], &late) || !live_this_way(&random_ways[1], &in_step))
        return;
    for (size_t i = 2; i < WAYS; i++) {
        const uint64_t wanted = random_ways[i].late ? late : in_step;
        seed_check(!live_this_way(&random_ways[i], &other) || other == wanted,
                   random_ways[i].name, "other bits than replayed");
    }
}

SW_TEST("every way to run a network gives the same bits")
{
    sw_fake_card_new(NULL, 1);
    seed_each(8, 1000, all_ways);
    CU_ASSERT(sw_fake_card_counts().graph_launches > 3);
}

/* ---- refused memory ---------------------------------------------------------------------- */

typedef struct {
    net *net;
    batch batch;
} small;

static sw_status some_steps(sw_exec *exec, const small *s)
{
    const sw_run_args args = net_args(s->net, &s->batch);
    double loss;
    sw_array logits;
    for (int i = 0; i < 3; i++)
        SW_TRY(sw_run(exec, &args));
    SW_TRY(sw_metric_past(exec, 1, "loss", &loss));
    return sw_output_get(exec, "logits", &logits);
}

/* With a model of its own, everything given back. */
static sw_status session(void *arg)
{
    const small *s = arg;
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .device = "cuda", .seed = 5);
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_status status = sw_model_create(&model, "net");
    if (status == SW_OK) {
        s->net->model = model;
        s->net->f1 = sw_linear_new(model, "f1", NET_PIXELS, 24);
        s->net->f2 = sw_linear_new(model, "f2", 24, NET_CLASSES);
        s->net->factor = sw_knob_new(model, "factor", 1.0f);
        status = sw_optimizer_create(&s->net->opt, model, &adam);
    }
    if (status == SW_OK)
        status = sw_exec_create(&exec, &opts);
    if (status == SW_OK)
        status = some_steps(exec, s);
    sw_exec_destroy(exec);
    sw_model_destroy(model);
    s->net->model = NULL;
    return status;
}

SW_TEST("every allocation that is refused is an answer")
{
    sw_fake_card_new(NULL, 1);
    small s = {net_new(false, NULL), net_batch(false, 0, 8)};
    sw_model_destroy(s.net->model); /* each session has its own */
    s.net->model = NULL;
    /* One refusal is none: where the library of products lacks memory, own kernels take over.
     */
    for (int from = 0; from < 2; from++) {
        sw_sites sites = {.kind = SW_FAULT_MEMORY,
                          .mode = from == 0 ? SW_FAULT_OFF : SW_FAULT_FROM};
        while (sw_sites_next(&sites))
            (void)SW_AT_SITE(&sites, session(&s));
        CU_ASSERT(sites.k > 100 && sites.failed + 3 >= sites.k);
    }
}

/* ---- runs of one net --------------------------------------------------------------------- */

#define ROWS 8

/* ---- execs and nets ---------------------------------------------------------------------- */

/* As late as can be. */
static void new_card(bool mapped)
{
    sw_fake_card_new(&(sw_fake_card){.cannot_map = !mapped}, 1);
}

static sw_exec *on_card(const sw_exec_opts *more)
{
    sw_exec_opts opts = more != NULL ? *more : (sw_exec_opts){0};
    opts.size = sizeof opts;
    opts.device = "cuda";
    opts.seed = 11;
    return net_exec(&opts);
}

/* Its bits are what all others compare with: each op is waited for. */
static sw_exec *in_order(void)
{
    return on_card(&(sw_exec_opts){.sync_ops = 1});
}

/* All bytes of both but the knobs, which a run may not have taken yet. */
static bool same(const net *a, const net *b)
{
    static unsigned char x[1 << 18], y[1 << 18];
    const size_t n = a->model->entries[a->model->knob_entry].offset;
    CU_ASSERT_FATAL(n <= sizeof x);
    return swi_model_read(a->model, x, 0, n) == SW_OK &&
           swi_model_read(b->model, y, 0, n) == SW_OK && memcmp(x, y, n) == 0;
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
    OK(sw_run(exec, &args));
    memset(pixels, 0x7f, bytes);
    memset(labels, 0xff, (size_t)rows);
}

/* ---- bits -------------------------------------------------------------------------------- */

static const struct way {
    bool plain, image; /* a card that cannot map; a net of convolutions */
    sw_exec_opts opts;
    int steps, look; /* look: at metrics as the loop goes, or one run late, or not at all */
    uint64_t captures;
} ways[] = {{false, false, {0}, 9, 0, 1},
            {false, false, {0}, 9, 1, 1},
            {true, false, {0}, 9, 2, 1},
            {false, true, {0}, 5, 1, 1},
            {false, false, {.no_graphs = 1}, 5, 2, 0},
            {true, false, {.sync_ops = 1, .op_clocks = 1}, 4, 2, 0},
            {false, false, {.no_phases = 1}, 4, 1, 1}};

/* The same steps so, in order, and near enough on the CPU. */
static void same_bits(const struct way *w)
{
    new_card(!w->plain);
    sw_exec *device = on_card(&w->opts), *order = in_order(), *cpu = net_exec(NULL);
    net *a = net_new(w->image, NULL), *b = net_new(w->image, NULL);
    net *c = net_new(w->image, NULL);
    sw_step_fn *fn = w->image ? net_step : noisy_step;
    const uint64_t before = sw_fake_card_counts().captures;
    double late = 0.0;
    for (int i = 0; i < w->steps; i++) {
        step_on(device, a, fn, i, ROWS);
        step_on(order, b, fn, i, ROWS);
        step_on(cpu, c, fn, i, ROWS);
        double loss = net_metric(order, "loss");
        CU_ASSERT(fabs(net_metric(cpu, "loss") - loss) < 1e-4);
        if (w->look == 0)
            CU_ASSERT_EQUAL(net_metric(device, "loss"), loss);
        if (w->look == 1 && i > 0) {
            OK(sw_metric_past(device, 1, "loss", &late));
            OK(sw_metric_past(order, 1, "loss", &loss));
            CU_ASSERT_EQUAL(late, loss);
        }
    }
    CU_ASSERT_EQUAL(net_metric(device, "loss"), net_metric(order, "loss"));
    CU_ASSERT(same(a, b));
    const sw_fake_counts counts = sw_fake_card_counts();
    CU_ASSERT_EQUAL(counts.captures - before, w->captures);
    CU_ASSERT_EQUAL(counts.graph_launches, w->captures * (uint64_t)(w->steps - 1));
}

#define WAY(k, promise)                                                                        \
    SW_TEST(promise)                                                                           \
    {                                                                                          \
        same_bits(&ways[k]);                                                                   \
    }
WAY(0, "replays have the bits of ops in order, asked after each run")
WAY(1, "... asked one run late")
WAY(2, "... not asked, on a card without mapping")
WAY(3, "... of convolutions")
WAY(4, "runs op by op have these bits")
WAY(5, "... waited for after each op, with clocks")
WAY(6, "... and replays without clocks")

SW_TEST("immediate runs have these bits, also where their bump moves")
{
    new_card(false); /* its bump grows, and so moves */
    sw_exec *device = on_card(NULL), *order = in_order();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    for (int i = 0; i < 3; i++) {
        const batch in = net_batch(false, 0, i == 0 ? ROWS : NET_BATCH);
        sw_run_args of_a = net_args(a, &in), of_b = net_args(b, &in);
        of_a.immediate = 1;
        of_a.fn = of_b.fn = noisy_step;
        of_a.step = of_b.step = (uint64_t)i;
        OK(sw_run(device, &of_a));
        OK(sw_run(order, &of_b));
        CU_ASSERT_EQUAL(net_metric(device, "loss"), net_metric(order, "loss"));
    }
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_run(device, &info));
    CU_ASSERT_EQUAL(info.replayed, 0);
    CU_ASSERT(info.ns > 0 && info.phase[SW_BACKWARD].ns > 0);
    CU_ASSERT_EQUAL(sw_fake_card_counts().captures, 0);
    CU_ASSERT(same(a, b));
}

/* ---- a steady state ---------------------------------------------------------------------- */

/* A warm run is one launch and no memory (test_steps.c counts its copies); it waits for what is
 * two runs after it and for nothing else. */
SW_TEST("a hundred replays capture, allocate and trace nothing")
{
    new_card(true);
    sw_exec *exec = on_card(NULL);
    net *n = net_new(false, NULL);
    step_on(exec, n, noisy_step, 0, ROWS);
    sw_run_info info = SW_OPTS(sw_run_info);
    OK(sw_last_run(exec, &info));
    CU_ASSERT(!info.warm && !info.replayed);
    for (int i = 1; i < 4; i++)
        step_on(exec, n, noisy_step, i, ROWS);
    const sw_fake_counts before = sw_fake_card_counts();
    for (int i = 4; i < 104; i++) {
        step_on(exec, n, noisy_step, i, ROWS);
        OK(sw_run_past(exec, 1, &info));
        CU_ASSERT(info.warm && info.replayed);
        CU_ASSERT_EQUAL(info.allocations, 0);
    }
    const sw_fake_counts c = sw_fake_card_counts();
    CU_ASSERT_EQUAL(c.captures, before.captures);
    CU_ASSERT_EQUAL(c.graph_launches, before.graph_launches + 100);
    CU_ASSERT_EQUAL(c.launches + c.matmuls, before.launches + before.matmuls);
    CU_ASSERT_EQUAL(c.allocs + c.maps + c.host_allocs,
                    before.allocs + before.maps + before.host_allocs);
    CU_ASSERT(c.syncs <= before.syncs + 200);
    CU_ASSERT_EQUAL(n->times_called, 1);
}

/* Peaks and times: by the arena op by op, and by the plan where it was replayed. */
SW_TEST("peaks are the plan's, times the card's")
{
    new_card(true);
    sw_exec *exec = on_card(NULL);
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

SW_TEST("the last four runs can be asked for")
{
    new_card(true);
    sw_exec *execs[] = {on_card(NULL), net_exec(NULL)};
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
        CU_ASSERT(fabs(x - y) < 1e-4);
    }
    sw_run_args bad = SW_OPTS(sw_run_args, .fn = noisy_step, .user = nets[1]);
    REFUSED(sw_run(execs[1], &bad), SW_INVALID, "input 0 of 0");
    REFUSED(sw_metric_past(execs[1], 0, "loss", &x), SW_INVALID, "the last run failed");
    OK(sw_metric_past(execs[1], 1, "loss", &x));
    CU_ASSERT_EQUAL(x, y);
}

SW_TEST("outputs are copied to the host")
{
    new_card(true);
    sw_exec *device = on_card(NULL), *order = in_order();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    sw_array x, y;
    for (int i = 0; i < 3; i++) {
        step_on(device, a, noisy_step, i, ROWS);
        step_on(order, b, noisy_step, i, ROWS);
        OK(sw_output_get(device, "logits", &x));
        OK(sw_output_get(order, "logits", &y));
        CU_ASSERT_EQUAL(x.shape.dim[0], ROWS);
        CU_ASSERT_EQUAL(memcmp(x.data, y.data, ROWS * NET_CLASSES * sizeof(float)), 0);
    }
}

/* The fake's memory begins as words of ones. */
SW_TEST("all bytes that are copied to the host have been written")
{
    new_card(true);
    sw_exec *device = on_card(NULL);
    int found = 0;
    step_on(device, net_new(false, NULL), noisy_step, 0, ROWS);
    const float loss = (float)net_metric(device, "loss");
    const swi_queue *q = device->queue;
    for (int i = 0; i < SWI_HISTORY; i++) {
        const uint32_t *words = (const void *)q->readback[i].pinned;
        if (memcmp(words, &loss, sizeof loss) != 0)
            continue;
        found++;
        for (size_t k = 0; k < q->block_bytes / sizeof *words; k++)
            CU_ASSERT_NOT_EQUAL(words[k], UINT32_MAX);
    }
    CU_ASSERT_EQUAL(found, 1);
}

/* ---- bindings ---------------------------------------------------------------------------- */

static uint64_t captures_so_far(void)
{
    return sw_fake_card_counts().captures;
}

static uint64_t graphs_now(void)
{
    sw_fake_live live;
    sw_fake_card_api()->live(&live);
    return live.execs;
}

/* Models of one shape share a plan, and each has its graph; larger inputs move the places, and
 * everything is captured once more. */
SW_TEST("each binding is captured once")
{
    new_card(true);
    sw_exec *device = on_card(NULL), *order = in_order();
    net *a[2] = {net_new(false, NULL), net_new(false, NULL)};
    net *b[2] = {net_new(false, NULL), net_new(false, NULL)};
    for (int i = 0; i < 12; i++) {
        const int rows = i < 8 ? ROWS : 2 * ROWS;
        step_on(device, a[i % 2], noisy_step, i, rows);
        step_on(order, b[i % 2], noisy_step, i, rows);
        CU_ASSERT_EQUAL(captures_so_far(),
                        (uint64_t)(i < 8 ? (i < 2 ? i + 1 : 2) : (i < 10 ? i - 5 : 4)));
    }
    step_on(device, a[0], noisy_step, 12, ROWS); /* its places have moved */
    step_on(order, b[0], noisy_step, 12, ROWS);
    CU_ASSERT_EQUAL(captures_so_far(), 5);
    step_on(device, a[0], noisy_step, 13, ROWS);
    step_on(order, b[0], noisy_step, 13, ROWS);
    CU_ASSERT_EQUAL(captures_so_far(), 5);
    CU_ASSERT(same(a[0], b[0]) && same(a[1], b[1]));
}

/* A program that is forgotten takes its graphs along. */
SW_TEST("a forgotten program takes its graphs along")
{
    new_card(true);
    sw_exec *device = on_card(&(sw_exec_opts){.max_programs = 1});
    sw_exec *order = in_order();
    net *a = net_new(false, NULL), *b = net_new(false, NULL);
    for (int i = 0; i < 9; i++) {
        step_on(device, a, noisy_step, i, i % 3 == 2 ? ROWS / 2 : ROWS);
        step_on(order, b, noisy_step, i, i % 3 == 2 ? ROWS / 2 : ROWS);
        CU_ASSERT(graphs_now() <= 2); /* that of the last run stays as long as it is that */
    }
    CU_ASSERT(same(a, b));
}

/* Neither rows nor columns of the second product's factors lie side by side. */
static void apart_step(sw_ctx *c, void *user)
{
    static const int turned[] = {2, 0, 1};
    const sw_value x = sw_reshape(c, sw_input(c, 0), SW_SHAPE(8, 14, 14));
    const sw_value y = sw_permute(c, sw_matmul(c, x, sw_transpose(c, x, 1, 2)), turned, 3);
    sw_metric(c, "loss", sw_mean(c, sw_matmul(c, y, sw_transpose(c, y, 1, 2)), 7));
}

SW_TEST("a product of bf16 takes factors that lie apart")
{
    const batch b = net_batch(false, 0, 8);
    double loss[3];
    new_card(true);
    for (int i = 0; i < 3; i++) { /* float32 on the CPU, then bf16 on both */
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .compute = i > 0 ? SW_BF16 : SW_F32);
        sw_run_args args = net_args(net_new(false, NULL), &b);
        args.fn = apart_step;
        sw_exec *exec = i == 2 ? on_card(&opts) : net_exec(&opts);
        OK(sw_run(exec, &args));
        OK(sw_metric_get(exec, "loss", &loss[i]));
        SW_CHECK(fabs(loss[i] - loss[0]) < 0.02 * fabs(loss[0]), "%g, in float32 %g", loss[i],
                 loss[0]);
    }
    CU_ASSERT(loss[1] != loss[0] && loss[2] != loss[0]);
}

/* Where there are too many graphs, or too many bytes of them, the one that was used longest ago
 * goes. */
static void three_in_turns(bool by_bytes)
{
    new_card(true);
    sw_exec *device = on_card(NULL), *order = in_order();
    net *a[3], *b[3];
    const int turns[] = {0, 1, 0, 2, 0, 1, 0, 2};
    const uint64_t captures[] = {1, 2, 2, 3, 3, 4, 4, 5};
    device->queue->most_graphs = by_bytes ? 256 : 2;
    for (int i = 0; i < 3; i++) {
        a[i] = net_new(false, NULL);
        b[i] = net_new(false, NULL);
    }
    for (int i = 0; i < 8; i++) {
        step_on(device, a[turns[i]], noisy_step, i, ROWS);
        step_on(order, b[turns[i]], noisy_step, i, ROWS);
        if (by_bytes && i == 0)
            device->queue->most_graph_bytes =
                2 * swi_device_graphs(device->queue->device, 0, 0);
        CU_ASSERT_EQUAL(captures_so_far(), captures[i]);
        CU_ASSERT(graphs_now() <= 2 && graphs_now() > 0);
        CU_ASSERT(swi_device_graphs(device->queue->device, 0, 0) <=
                  device->queue->most_graph_bytes);
    }
    device->queue->most_graph_bytes = 1; /* one stays */
    step_on(device, a[1], noisy_step, 8, ROWS);
    step_on(order, b[1], noisy_step, 8, ROWS);
    CU_ASSERT_EQUAL(graphs_now(), 1);
    for (int i = 0; i < 3; i++)
        CU_ASSERT(same(a[i], b[i]));
}

SW_TEST("graphs have a bound")
{
    three_in_turns(false);
    three_in_turns(true);
}

/* ---- memory ------------------------------------------------------------------------------ */

static size_t granules(size_t bytes)
{
    const size_t g = SW_FAKE_GRANULARITY;
    return (bytes + g - 1) / g * g;
}

/* The planned bytes are those taken, of the budget and of the card. */
SW_TEST("what is planned is taken")
{
    new_card(true);
    sw_exec *exec = on_card(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, NET_BATCH);
    sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_fake_live live;
    sw_heap_stats pinned;
    args.data_bytes = 12345; /* the host's business */
    OK(sw_plan(exec, &args, &plan));
    OK(sw_run(exec, &args));
    sw_fake_card_api()->live(&live);
    CU_ASSERT_EQUAL(live.device_bytes, granules(plan.model_bytes) + granules(plan.arena_bytes) +
                                           granules(plan.data_bytes));
    CU_ASSERT_EQUAL(plan.total_bytes, plan.model_bytes + plan.arena_bytes + plan.data_bytes);
    CU_ASSERT(plan.data_bytes > 3 * plan.slot_bytes);
    sw_heap_read(SW_HEAP_PINNED, &pinned);
    CU_ASSERT_EQUAL(pinned.bytes, exec->queue->pinned_bytes);
}

SW_TEST("a budget is one of the card's memory")
{
    new_card(false);
    const batch b = net_batch(false, 0, NET_BATCH);
    net *n = net_new(false, NULL);
    sw_run_args args = net_args(n, &b);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(on_card(NULL), &args, &plan));
    for (int kind = 0; kind < 3; kind++) { /* planned before, not planned, a byte too few */
        sw_budget *budget;
        OK(sw_budget_create(&budget, plan.total_bytes - (size_t)(kind == 2)));
        AFTER(sw_budget_destroy, budget);
        n = net_new(false, NULL);
        args.user = n;
        args.models = &n->model;
        sw_exec *exec = on_card(&(sw_exec_opts){.budget = budget, .no_recompute = 1});
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

/* An op's fault has its name before it, and without sync_ops a hint (test_steps.c has each call
 * fail once). */
SW_TEST("a fault names its op, or says how to find it")
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .device = "cuda", .sync_ops = 1);
    int named = 0, more = 1;
    new_card(true);
    for (uint64_t k = 0; more != 0 && k < 100; k++) {
        sw_exec *sync = NULL;
        net *n = net_new(false, NULL);
        const batch b = net_batch(false, 0, ROWS);
        const sw_run_args args = net_args(n, &b);
        OK(sw_exec_create(&sync, &opts));
        OK(sw_run(sync, &args));
        sw_fake_card_api()->fail("cudaStreamSynchronize", k, 1); /* the card itself is good */
        more = sw_run(sync, &args) != SW_OK;
        CU_ASSERT(more == 0 || strstr(sw_last_error(), "sync_ops") == NULL);
        named += more != 0 && strncmp(sw_last_error(), "f1 linear: cudaStreamSy", 23) == 0;
        sw_fake_card_api()->fail(NULL, 0, -1);
        net_again(n); /* its model on the card ends */
        sw_exec_destroy(sync);
    }
    CU_ASSERT_EQUAL(more, 0);
    CU_ASSERT_EQUAL(named, 1);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, ROWS);
    const sw_run_args args = net_args(n, &b);
    sw_exec *exec = on_card(&(sw_exec_opts){.no_graphs = 1});
    OK(sw_run(exec, &args));
    sw_fake_card_api()->fail("launch", 3, 719);
    CU_ASSERT_EQUAL(sw_run(exec, &args), SW_DEVICE);
    SW_CHECK(strstr(sw_last_error(), "--sync-ops, names it") != NULL, "%s", sw_last_error());
}

/* Updates that are skipped are counted on the device and told a few runs later. */
SW_TEST("skipped updates are reported at most three runs later")
{
    new_card(true);
    sw_exec *execs[] = {on_card(NULL), net_exec(NULL)};
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

SW_TEST("options of devices")
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
    new_card(true);
    const sw_exec *rounding = on_card(&(sw_exec_opts){.tf32 = 1});
    CU_ASSERT_EQUAL(swi_queue_compute(rounding->queue)->flags, SW_CUDA_TF32);
    sw_exec *usual = on_card(NULL);
    CU_ASSERT_EQUAL(swi_queue_compute(usual->queue)->flags, 0);
    net *n = net_new(false, NULL);
    step_on(usual, n, noisy_step, 0, ROWS);
    const batch in = net_batch(false, 0, ROWS);
    const sw_run_args args = net_args(n, &in);
    REFUSED(sw_run(net_exec(NULL), &args), SW_INVALID, "cuda:0");
}

SW_TEST("ops that the card does not have are refused by name")
{
    new_card(true);
    sw_exec *exec = on_card(NULL);
    const sw_cuda_entry **tanh_of = swi_device_entries[SW_OP_tanh];
    const sw_cuda_entry *const forward = tanh_of[0], *const backward = tanh_of[1];
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, ROWS);
    sw_run_args args = net_args(n, &b);
    sw_witness_info info = SW_OPTS(sw_witness_info);
    tanh_of[1] = NULL;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "the backward of tanh: not supported on cuda");
    args.mode = SW_EVAL;
    OK(sw_run(exec, &args));
    tanh_of[0] = NULL;
    args.variant = 1;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "tanh: not supported on cuda");
    args.immediate = 1;
    REFUSED(sw_run(exec, &args), SW_UNSUPPORTED, "tanh: not supported on cuda");
    args.immediate = 0;
    REFUSED(sw_witness(exec, &args, SW_WITNESS_ALL, &info), SW_UNSUPPORTED, "sw_witness");
    tanh_of[0] = forward, tanh_of[1] = backward;
}
