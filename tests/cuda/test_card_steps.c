/* Whole steps on a card, whichever it is: replayed, op by op and immediate they have the same
 * bits, the CPU's numbers, and the memory that was predicted; what the card has less is what
 * our arenas have, and a constant. */
#include "runtime/device/device.h"
#include "runtime/exec/queue_internal.h"
#include "runtime/stepwell.h"
#include "tests/cuda/device_scenes.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("steps on a card")

/* ---- reports on entries that are wrong --------------------------------------------------- */

/* The reports of the card's side on entries that are wrong: planted here. */

static swi_device *planted_on;
static int64_t aside; /* where the planted entry writes, from its output's beginning */

static sw_status writes_aside(const sw_launch *l, const sw_cuda_queue *queue)
{
    return planted_on->api->fill(queue, (unsigned char *)l->out[0].ptr + aside, 7, 4);
}

static sw_status fails(const sw_launch *l, const sw_cuda_queue *queue)
{
    return sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__, "planted");
}

static sw_status launched(sw_cuda_kernel *kernel, int64_t at, size_t shift, float *out)
{
    const sw_cuda_entry entry = {.op = "odd", .which = 2, .kernel = kernel};
    const sw_buffer in = {.ptr = sw_entry_block(40, 0)};
    const sw_buffer to = {.ptr = sw_entry_block(64, shift)};
    const sw_launch l = SW_OPTS(sw_launch, .in = &in, .n_in = 1, .out = &to, .n_out = 1);
    aside = at;
    const sw_status status = sw_side_launch(&entry, &l, (sw_cuda_counters){0});
    memcpy(out, to.ptr, 64);
    sw_entry_free();
    return status;
}

/* Before an output, after it, and inside, where it comes back. */
SW_TEST("bytes beside operands are watched")
{
    static const struct {
        int64_t at;
        bool good;
    } cases[] = {{0, true}, {60, true}, {64, false}, {-4, false}, {100, false}, {-60, false}};
    float out[16];
    if (getenv("STEPWELL_DEVICE_APART") != NULL)
        SW_SKIP("operands are allocations: a tool watches them");
    CU_ASSERT_EQUAL_FATAL(swi_device_open(&planted_on, "cuda"), SW_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t shift = 0; shift < 8; shift += 4) {
            const sw_status status = launched(writes_aside, cases[i].at, shift, out);
            SW_CHECK((status == SW_OK) == cases[i].good, "at %d: %s", (int)cases[i].at,
                     sw_last_error());
            if (cases[i].good)
                SW_CHECK(memcmp(&out[cases[i].at / 4], "\7\7\7\7", 4) == 0, "%d bytes in",
                         (int)cases[i].at);
            else
                SW_CHECK(strstr(sw_last_error(), "odd, kernel 2: has written") != NULL, "%s",
                         sw_last_error());
        }
    swi_device_close(planted_on);
}

SW_TEST("what fails is named")
{
    float out[16];
    CU_ASSERT_EQUAL(launched(fails, 0, 0, out), SW_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "odd, kernel 2: planted");
    CU_ASSERT(!sw_side_broken());
}

/* ---- whole steps ------------------------------------------------------------------------- */

#define ALLOWED ((int64_t)2 << 20) /* of memory that no one has explained */

/* ---- numbers ----------------------------------------------------------------------------- */

/* In bf16 sums in another order may be rounded apart, by a 256th. */
SW_TEST("a card trains as the CPU does")
{
    sw_side_close();
    for (int i = 0; i < 2 * sw_n_scenes; i++) {
        const sw_scene *s = &sw_scenes[i / 2];
        const sw_dtype compute = i % 2 == 0 ? SW_F32 : SW_BF16;
        const double allowed = i % 2 == 0 ? 2e-5 : 4e-3;
        sw_scene_end cpu = sw_scene_trained(s, (sw_scene_run){.steps = 4, .compute = compute});
        sw_scene_end card = sw_scene_trained(
            s, (sw_scene_run){.device = "cuda", .steps = 4, .compute = compute});
        const double d = sw_scene_apart(&card, &cpu);
        SW_CHECK(d < allowed, "%s, %s: parameters are %g apart", s->name,
                 sw_dtype_name(compute), d);
        SW_CHECK(fabs(card.loss - cpu.loss) < allowed, "%s, %s: loss %g, %g", s->name,
                 sw_dtype_name(compute), card.loss, cpu.loss);
    }
}

SW_TEST("every way to run has the same bits")
{
    static const struct {
        const char *what;
        sw_scene_run run;
    } ways[] = {{"replayed again", {0}},
                {"op by op", {.no_graphs = true}},
                {"each op waited for", {.sync_ops = true}},
                {"immediate", {.immediate = true}}};
    for (int i = 0; i < 2 * sw_n_scenes; i++) {
        const sw_scene *s = &sw_scenes[i / 2];
        const int steps = sw_tests_full() ? 6 : 4;
        const sw_dtype compute = i % 2 == 0 ? SW_F32 : SW_BF16;
        sw_scene_end first = sw_scene_trained(
            s, (sw_scene_run){.device = "cuda", .steps = steps, .compute = compute});
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            sw_scene_run run = ways[w].run;
            run.device = "cuda";
            run.steps = steps;
            run.compute = compute;
            sw_scene_end other = sw_scene_trained(s, run);
            SW_CHECK(sw_scene_same_bits(&first, &other), "%s, %s: %g apart", s->name,
                     ways[w].what, sw_scene_apart(&first, &other));
        }
    }
}

/* ---- one capture ------------------------------------------------------------------------- */

/* Counts of what execs ask of the module. */
static const sw_cuda_api *real;
static struct {
    uint64_t captures, replays, memory;
} counted;

static sw_status count_capture(const sw_cuda_queue *queue)
{
    counted.captures++;
    return real->capture_begin(queue);
}

static sw_status count_replay(sw_cuda_graph *graph, const sw_cuda_queue *queue)
{
    counted.replays++;
    return real->graph_launch(graph, queue);
}

static sw_status count_map(sw_cuda_device *card, void *base, size_t from, size_t to)
{
    counted.memory++;
    return real->map(card, base, from, to);
}

static sw_status count_alloc(sw_cuda_device *card, void **out, size_t bytes)
{
    counted.memory++;
    return real->alloc(card, out, bytes);
}

static sw_status count_pinned(sw_cuda_device *card, void **out, size_t bytes)
{
    counted.memory++;
    return real->host_alloc(card, out, bytes);
}

typedef struct {
    uint64_t memory; /* taken by the first steps */
    int steps;
} hundred;

static void look_at_memory(void *context, sw_exec *exec, const sw_model *model, int step)
{
    hundred *h = context;
    if (step == 3)
        h->memory = counted.memory;
    if (step == h->steps - 1)
        CU_ASSERT_EQUAL(counted.memory, h->memory);
}

SW_TEST("a hundred replays need one capture")
{
    static const char *const scenes[] = {"mlp", "mlp adam", "mlp, sgd by knobs",
                                         "mlp, adam by knobs"};
    swi_device *device = NULL;
    CU_ASSERT_EQUAL_FATAL(swi_device_open(&device, "cuda"), SW_OK);
    real = device->api;
    static sw_cuda_api counting;
    counting = *real;
    counting.capture_begin = count_capture;
    counting.graph_launch = count_replay;
    counting.map = count_map;
    counting.alloc = count_alloc;
    counting.host_alloc = count_pinned;
    for (int i = 0; i < 4; i++) {
        const sw_scene *s = sw_scene_of(scenes[i]);
        hundred h = {.steps = sw_tests_full() || i == 0 ? 101 : 31};
        memset(&counted, 0, sizeof counted);
        sw_scene_run run = {.steps = h.steps, .vary = true};
        sw_scene_end cpu = sw_scene_trained(s, run), card, still;
        run.device = "cuda";
        run.after = look_at_memory;
        run.context = &h;
        device->api = &counting;
        const sw_status status = sw_scene_train(s, &run, &card);
        device->api = real;
        SW_CHECK(status == SW_OK, "%s: %s", s->name, sw_last_error());
        if (status != SW_OK)
            break;
        sw_after(free, card.numbers);
        SW_CHECK(counted.captures == 1 && counted.replays == (uint64_t)h.steps - 1,
                 "%s: %d captures, %d replays", s->name, (int)counted.captures,
                 (int)counted.replays);
        CU_ASSERT(h.memory > 0);
        const double d = sw_scene_apart(&card, &cpu);
        SW_CHECK(d < 1e-3, "%s: %g apart", s->name, d);
        still = sw_scene_trained(s, (sw_scene_run){.device = "cuda", .steps = h.steps});
        CU_ASSERT(sw_scene_apart(&card, &still) > 1e-3); /* the rates did change */
    }
    swi_device_close(device);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* A net with memory that is worth weighing: a table of many rows, few of which are used. */
typedef struct {
    sw_embedding words;
    sw_linear out;
} table;

static void table_build(sw_model *model, void *net)
{
    *(table *)net = (table){sw_embedding_new(model, "words", 1 << 17, 16),
                            sw_linear_new(model, "out", 16, 5)};
}

static void table_step(sw_ctx *ctx, void *user)
{
    sw_scene_net *net = user;
    const table *t = (const table *)net->layers.bytes;
    sw_value x = sw_apply_embedding(ctx, t->words, sw_input(ctx, 0));
    x = sw_apply_linear(ctx, t->out, x);
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &net->optimizer, 1);
    sw_update(ctx, net->optimizer);
}

static const sw_scene large = {
    "table",     "adam",     0.01f,
    table_build, table_step, {{SW_I32, {1, {24}}, NULL}, {SW_I32, {1, {24}}, NULL}},
    {1 << 17, 5}};

typedef struct {
    const char *scene;
    sw_plan_info plan;
    bool measures; /* its own peaks: not those of the plan, as a replay does */
    int64_t rest;  /* what the card has less, without the arenas */
    size_t arenas;
} weight;

static bool holds(size_t bytes, const sw_arena *arena)
{
    return bytes >= sw_arena_height(arena) && bytes <= sw_arena_height(arena) + (4u << 20);
}

static void weigh(void *context, sw_exec *exec, const sw_model *model, int step)
{
    weight *w = context;
    sw_run_info run = SW_OPTS(sw_run_info);
    sw_device_info info = SW_OPTS(sw_device_info);
    if (step == 0)
        return;
    CU_ASSERT_EQUAL_FATAL(sw_last_run(exec, &run), SW_OK);
    CU_ASSERT_EQUAL(run.replayed, !w->measures);
    SW_CHECK(run.peak_bytes == w->plan.peak_bytes && run.arena_bytes == w->plan.arena_bytes &&
                 run.model_bytes == w->plan.model_bytes,
             "%s: %zu at the peak, %zu in the arena, %zu of the model; planned %zu, %zu, %zu",
             w->scene, run.peak_bytes, run.arena_bytes, run.model_bytes, w->plan.peak_bytes,
             w->plan.arena_bytes, w->plan.model_bytes);
    CU_ASSERT_EQUAL_FATAL(sw_exec_device(exec, &info), SW_OK);
    CU_ASSERT(holds(info.arena_bytes, exec->arena) && holds(info.model_bytes, model->arena) &&
              holds(info.data_bytes, exec->queue->data));
    w->arenas = info.arena_bytes + info.model_bytes + info.data_bytes;
    w->rest = (int64_t)info.open_bytes - (int64_t)info.free_bytes -
              (int64_t)(w->arenas + info.graph_bytes);
    CU_ASSERT_EQUAL(w->rest, info.unexplained_bytes);
}

static weight weighed(const sw_scene *scene, bool measures)
{
    weight w = {.scene = scene->name, .measures = measures};
    const sw_scene_run run = SW_INIT(.device = "cuda", .steps = 4, .no_graphs = measures,
                                     .plan = &w.plan, .after = weigh, .context = &w);
    const sw_status status = sw_scene_train(scene, &run, NULL);
    SW_CHECK(status == SW_OK, "%s: %s", scene->name, sw_last_error());
    return w;
}

/* The card stays open in between, and all have run before: libraries load their kernels when
 * they first use them, and keep them. */
SW_TEST("a card has the arenas and a constant")
{
    swi_device *device = NULL;
    int64_t constant = -1;
    size_t least = SIZE_MAX, most = 0;
    if (getenv("STEPWELL_CUDA_OPS") != NULL)
        SW_SKIP("other processes use the card at the same time");
    sw_side_close();
    CU_ASSERT_EQUAL_FATAL(swi_device_open(&device, "cuda"), SW_OK);
    const int apart = sw_tests_full() ? 1 : 2; /* the large net is the last of them */
    for (int i = sw_n_scenes % apart; i <= sw_n_scenes; i += apart)
        (void)weighed(i < sw_n_scenes ? &sw_scenes[i] : &large, true);
    for (int i = sw_n_scenes % apart; i <= sw_n_scenes; i += apart) {
        const sw_scene *scene = i < sw_n_scenes ? &sw_scenes[i] : &large;
        const weight w = weighed(scene, false);
        if (constant < 0)
            constant = w.rest;
        SW_CHECK(w.rest - constant <= ALLOWED && constant - w.rest <= ALLOWED,
                 "%s: %lld bytes beside %zu of arenas, with the first net %lld", w.scene,
                 (long long)w.rest, w.arenas, (long long)constant);
        least = w.arenas < least ? w.arenas : least;
        most = w.arenas > most ? w.arenas : most;
    }
    CU_ASSERT(most - least > 8 * (size_t)ALLOWED); /* or nothing was weighed */
    CU_ASSERT(constant >= 0 && constant < (int64_t)512 << 20);
    sw_note("beside arenas of %zu to %zu bytes: context and other programs %zu bytes, cuBLASLt "
            "and queues %lld bytes",
            least, most, device->info.total_bytes - device->info.open_bytes,
            (long long)constant);
    swi_device_close(device);
}
