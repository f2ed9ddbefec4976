/* Whole training steps through the module's real host code, on the card that is not there: what
 * a warm step does and does not, where its kernels point to, that its numbers are the CPU's,
 * and what becomes of every call that fails. */
#include "runtime/exec/queue_internal.h"
#include "tests/cuda/device_scenes.h"
#include "tests/cuda/fake_card.h"
#include "tests/ops/special.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <pthread.h>

SW_TESTS("steps")

/* Errors of CUDA. */
#define OUT_OF_MEMORY 2
#define LAUNCH_FAILURE 719

/* The CPU's numbers and the bits of all ways to run: test_card_steps.c, over this card too. */

/* ---- numbers ----------------------------------------------------------------------------- */

/* Late work shows a missing wait. */
SW_TEST("late work has the same bits")
{
    for (int i = 0; i < sw_n_scenes; i++) {
        const sw_scene *s = &sw_scenes[i];
        sw_fake_card_new(NULL, 0);
        sw_scene_end first = sw_scene_trained(s, (sw_scene_run){.device = "cuda", .steps = 6});
        for (uint64_t seed = 1; seed <= (sw_tests_full() ? 5 : 2); seed++) {
            sw_fake_card_new(NULL, seed);
            sw_scene_end late =
                sw_scene_trained(s, (sw_scene_run){.device = "cuda", .steps = 6});
            SW_CHECK(sw_scene_same_bits(&first, &late), "%s, seed %d: %g apart", s->name,
                     (int)seed, sw_scene_apart(&first, &late));
            CU_ASSERT(sw_fake_card_counts().captures == 1 &&
                      sw_fake_card_counts().instantiated == 1 &&
                      sw_fake_card_counts().graph_launches == 5);
        }
    }
}

/* ---- warm steps -------------------------------------------------------------------------- */

enum { WARM_FROM = 3, STEPS = 9 }; /* before that a step may take memory */

typedef struct {
    const char *scene;
    sw_fake_counts before;
    uint64_t blocks, calls[2]; /* of the heap; of the functions that wait for the host */
    sw_plan_info plan;         /* made before the first run: states its launches */
} warm;

static bool inside(const void *at, const unsigned char *base, size_t bytes)
{
    const uintptr_t from = (uintptr_t)base;
    return (uintptr_t)at >= from && (uintptr_t)at < from + bytes;
}

/* Each pointer of each launch is in the step arena, the model or the exec's place for inputs
 * and metrics, and at a number. */
static void pointers_are_in_arenas(const char *scene, const sw_exec *exec,
                                   const sw_model *model)
{
    const sw_fake_launch *l;
    const size_t n = sw_fake_card_api()->launches(&l);
    const sw_arena *arenas[] = {exec->arena, model->arena, exec->queue->data};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < l[i].n; k++) {
            bool in = false;
            for (size_t a = 0; a < sizeof arenas / sizeof *arenas; a++)
                in = in || inside(l[i].pointer[k], sw_arena_base(arenas[a]),
                                  sw_arena_height(arenas[a]));
            SW_CHECK(in && (uintptr_t)l[i].pointer[k] % 4 == 0, "%s: %s is given %p", scene,
                     l[i].kernel, l[i].pointer[k]);
        }
}

/* The first run launches what its plan stated, and the capture the same. */
static void launches_are_those_stated(const char *scene, size_t stated)
{
    const sw_fake_launch *l;
    const size_t n = sw_fake_card_api()->launches(&l);
    size_t captured = 0;
    for (size_t i = 0; i < n; i++)
        captured += l[i].captured;
    SW_CHECK(stated > 0 && captured == stated && n == 2 * stated,
             "%s: %d launches, %d captured, %d stated", scene, (int)n, (int)captured,
             (int)stated);
    for (size_t i = 0; i < captured && captured * 2 == n; i++)
        SW_CHECK(strcmp(l[i].kernel, l[captured + i].kernel) == 0 &&
                     memcmp(l[i].pointer, l[captured + i].pointer, sizeof l[i].pointer) == 0,
                 "%s: launch %d is %s, captured %s", scene, (int)i, l[i].kernel,
                 l[captured + i].kernel);
}

static void look(void *context, sw_exec *exec, const sw_model *model, int step)
{
    warm *w = context;
    if (step == WARM_FROM - 1) {
        launches_are_those_stated(w->scene, w->plan.launches);
        pointers_are_in_arenas(w->scene, exec, model);
        w->before = sw_fake_card_counts();
        w->blocks = sw_heap_blocks();
        w->calls[0] = sw_fake_card_api()->calls("cudaDeviceSynchronize");
    }
    if (step != STEPS - 1)
        return;
    const sw_fake_counts a = w->before, b = sw_fake_card_counts();
    const uint64_t n = STEPS - WARM_FROM;
    CU_ASSERT_EQUAL(sw_heap_blocks(), w->blocks);
    CU_ASSERT(b.allocs == a.allocs && b.frees == a.frees && b.maps == a.maps &&
              b.host_allocs == a.host_allocs && b.host_frees == a.host_frees);
    SW_CHECK(b.syncs == a.syncs, "%s: waited %d times", w->scene, (int)(b.syncs - a.syncs));
    CU_ASSERT_EQUAL(sw_fake_card_api()->calls("cudaDeviceSynchronize"), w->calls[0]);
    CU_ASSERT(b.captures == a.captures && b.instantiated == a.instantiated);
    CU_ASSERT(b.launches == a.launches && b.matmuls == a.matmuls);
    CU_ASSERT_EQUAL(b.graph_launches - a.graph_launches, n);
    const uint64_t runs = sw_fake_all_run(&b) - sw_fake_all_run(&a);
    SW_CHECK(runs == n * w->plan.launches, "%s: %d launches in %d steps, %d stated for each",
             w->scene, (int)runs, (int)n, (int)w->plan.launches);
    /* All inputs at once, and all knobs where they change. */
    CU_ASSERT_EQUAL(b.to_device - a.to_device, sw_scene_of(w->scene)->knobs ? 2 * n : n);
    CU_ASSERT_EQUAL(b.to_host - a.to_host, n); /* all metrics at once */
    CU_ASSERT(b.pageable == a.pageable && b.legacy == 0);
}

/* With products by the library, and by own kernels alone. */
SW_TEST("warm steps take nothing and wait for nothing")
{
    for (int i = 0; i < 4 * sw_n_scenes; i++) {
        const sw_scene *s = &sw_scenes[i / 4];
        sw_fake_card_new(&(sw_fake_card){.no_products = i % 2 == 1}, 0);
        warm w = {.scene = s->name};
        const sw_scene_run run = {.device = "cuda",
                                  .steps = STEPS,
                                  .compute = i % 4 < 2 ? SW_F32 : SW_BF16,
                                  .plan = &w.plan,
                                  .after = look,
                                  .context = &w};
        CU_ASSERT_EQUAL(sw_scene_train(s, &run, NULL), SW_OK);
    }
}

/* ---- memory ------------------------------------------------------------------------------ */

static size_t granules(const sw_arena *arena)
{
    const size_t g = SW_FAKE_GRANULARITY;
    return (sw_arena_height(arena) + g - 1) / g * g;
}

/* Arenas, and what products take for themselves, are all that is missing on the card. */
static void weigh(void *context, sw_exec *exec, const sw_model *model, int step)
{
    const char *scene = context;
    const size_t arenas =
        granules(exec->arena) + granules(model->arena) + granules(exec->queue->data);
    sw_fake_live l;
    sw_cuda_info info;
    sw_fake_card_api()->live(&l);
    SW_CHECK(l.device_bytes == arenas, "%s, step %d: %zu bytes, arenas have %zu", scene, step,
             l.device_bytes, arenas);
    CU_ASSERT_EQUAL(exec->target.device->api->info(exec->target.device->card, &info), SW_OK);
    const size_t graphs = swi_device_graphs(exec->target.device, 0, 0);
    CU_ASSERT(graphs > 0 && graphs % SW_FAKE_NODE_BYTES == 0);
    CU_ASSERT_EQUAL(info.open_bytes - info.free_bytes, arenas + graphs + SW_FAKE_BLAS_BYTES);
    CU_ASSERT_EQUAL(info.total_bytes - info.open_bytes, SW_FAKE_CONTEXT_BYTES);
}

SW_TEST("a card has the arenas and nothing else")
{
    for (int i = 0; i < sw_n_scenes; i++) {
        char name[32];
        sw_fake_card_new(NULL, 0);
        snprintf(name, sizeof name, "%s", sw_scenes[i].name);
        const sw_scene_run run = {
            .device = "cuda", .steps = 3, .after = weigh, .context = name};
        CU_ASSERT_EQUAL(sw_scene_train(&sw_scenes[i], &run, NULL), SW_OK);
    }
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Failures that need no report: of calls that give back, which have their own way out, and of
 * the preparation of products by a library, which own kernels replace. */
static bool may_be_ignored(const char *function)
{
    static const char *const names[] = {
        "cudaFree",          "cudaFreeHost",       "Destroy",
        "cuMemUnmap",        "cuMemAddressFree",   "cuMemRelease",
        "cublasLtMatrix",    "cublasLtMatmulDesc", "cublasLtMatmulPreference",
        "cublasLtMatmulAlgo"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(function, names[i]) != NULL)
            return true;
    return false;
}

static void note_failed(void *failed)
{
    *(const char **)failed = sw_fake_card_api()->failed();
}

/* Two steps with call k failing; false: there is no call k. */
static bool one_failure(const sw_scene *scene, const sw_fake_card *card, bool immediate,
                        sw_dtype compute, uint64_t k, int error, sw_status want)
{
    const sw_fake_api *f = sw_fake_card_new(card, 0);
    const uint64_t blocks = sw_heap_blocks();
    sw_scene_end end;
    const char *before = NULL; /* what failed before all was given back */
    const sw_scene_run run =
        SW_INIT(.device = "cuda", .steps = 2, .immediate = immediate, .compute = compute,
                .leaving = note_failed, .context = &before);
    f->fail(NULL, k, error);
    const sw_status status = sw_scene_train(scene, &run, &end);
    const char *failed = f->failed();
    f->fail(NULL, 0, -1);
    if (status != SW_OK && failed != NULL) /* a launch has no memory to run out of */
        SW_CHECK(status == (strcmp(failed, "launch") == 0 ? SW_DEVICE : want),
                 "call %d, %s, answers %d: %s, %s", (int)k, failed, error,
                 sw_status_name(status), sw_last_error());
    else if (before != NULL) /* who grows memory ahead of time asks again, for less */
        SW_CHECK(may_be_ignored(before) ||
                     (immediate && (strncmp(before, "cuMem", 5) == 0 ||
                                    strcmp(before, "cudaSetDevice") == 0)),
                 "call %d, %s, answers %d, and no one says so", (int)k, before, error);
    else
        SW_CHECK(status == SW_OK, "nothing fails: %s", sw_last_error());
    SW_CHECK(sw_heap_blocks() == blocks, "call %d, %s: host memory is left", (int)k,
             failed != NULL ? failed : "none");
    sw_fake_card_is_well(failed != NULL ? failed : "no failure");
    free(end.numbers);
    return failed != NULL;
}

/* Planned, immediate, on a card with memory that cannot be mapped; convolutions too. */
SW_TEST("every call fails once")
{
    static const struct {
        int error;
        sw_status want;
    } kinds[] = {{OUT_OF_MEMORY, SW_NOMEM}, {LAUNCH_FAILURE, SW_DEVICE}};
    const struct {
        const char *scene;
        sw_fake_card card;
        uint64_t step;
        bool immediate;
        sw_dtype compute;
    } ways[] = {{"mlp", {0}, 13, false, SW_F32},
                {"mlp", {0}, 59, true, SW_F32},
                {"mlp", {.cannot_map = true}, 59, false, SW_F32},
                {"lenet5", {0}, 41, false, SW_F32},
                {"mlp, adam in 8 bits", {0}, 41, false, SW_F32},
                {"mlp", {0}, 41, true, SW_BF16}};
    for (uint64_t i = 0; i < 2 * sizeof ways / sizeof *ways; i++) {
        const sw_scene *scene = sw_scene_of(ways[i / 2].scene);
        uint64_t k = i * 3;
        while (one_failure(scene, &ways[i / 2].card, ways[i / 2].immediate, ways[i / 2].compute,
                           k, kinds[i % 2].error, kinds[i % 2].want))
            k += sw_tests_full() ? 1 : 2 * ways[i / 2].step;
        CU_ASSERT(k > 50);
        sw_note("%d calls in two steps", (int)k);
    }
}

/* A later call reports work that fails when it runs. */
SW_TEST("every kernel fails once")
{
    const uint64_t step = sw_tests_full() ? 1 : 19;
    for (uint64_t way = 0; way < 4; way++)
        for (uint64_t k = 0;; k += step) {
            const sw_fake_api *f = sw_fake_card_new(NULL, way % 2);
            const char *scene = way / 2 == 0 ? "mlp" : "mlp, adam in 8 bits";
            const uint64_t blocks = sw_heap_blocks();
            sw_scene_end end;
            const sw_scene_run run = {.device = "cuda", .steps = 3};
            f->fail_work(k, LAUNCH_FAILURE);
            const sw_status status = sw_scene_train(sw_scene_of(scene), &run, &end);
            const bool failed = f->failed() != NULL;
            SW_CHECK(status == (failed ? SW_DEVICE : SW_OK), "work %d: %s, %s", (int)k,
                     sw_status_name(status), sw_last_error());
            CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
            free(end.numbers);
            if (!failed) {
                CU_ASSERT(k > 50);
                break;
            }
        }
}

/* The first fault stays: every later call of the exec says it again. */
static void fail_then_go_on(void *context, sw_exec *exec, const sw_model *model, int step)
{
    int *steps = context;
    *steps = step + 1;
    if (step == 1)
        sw_fake_card_api()->fail("cudaGraphLaunch", 0, LAUNCH_FAILURE);
}

SW_TEST("a fault stays")
{
    sw_fake_card_new(NULL, 0);
    int steps = 0;
    const sw_scene_run run = {
        .device = "cuda", .steps = 6, .after = fail_then_go_on, .context = &steps};
    CU_ASSERT_EQUAL(sw_scene_train(sw_scene_of("mlp"), &run, NULL), SW_DEVICE);
    CU_ASSERT_EQUAL(steps, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cudaGraphLaunch"));
    sw_fake_card_new(NULL, 0); /* another card, another exec */
    (void)sw_scene_trained(sw_scene_of("mlp"), (sw_scene_run){.device = "cuda", .steps = 2});
}

/* ---- cards ------------------------------------------------------------------------------- */

static sw_status on_card(const sw_fake_card *card)
{
    const sw_fake_api *f = sw_fake_card_new(NULL, 0);
    const sw_scene_run run = {.device = "cuda", .steps = 2};
    f->reset(card);
    const sw_status status = sw_scene_train(sw_scene_of("mlp"), &run, NULL);
    return status;
}

SW_TEST("cards are refused in one line")
{
    static const struct {
        sw_fake_card card;
        sw_status want;
        const char *says;
    } cases[] = {
        {{.driver = -1}, SW_DEVICE, "driver"},
        {{.driver = 12080}, SW_DEVICE, "12.8"},
        {{.cards = -1}, SW_DEVICE, "no device"},
        {{.major = 7}, SW_DEVICE, "7.0"},
        {{.major = 7, .minor = 5}, SW_OK, NULL},
        {{.cannot_map = true}, SW_OK, NULL},
        {{.total_bytes = SW_FAKE_CONTEXT_BYTES + SW_FAKE_BLAS_BYTES}, SW_NOMEM, "bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_status status = on_card(&cases[i].card);
        SW_CHECK(status == cases[i].want, "case %d: %s, %s", (int)i, sw_status_name(status),
                 sw_last_error());
        if (cases[i].says != NULL)
            SW_CHECK(strstr(sw_last_error(), cases[i].says) != NULL &&
                         strchr(sw_last_error(), '\n') == NULL,
                     "'%s' in: %s", cases[i].says, sw_last_error());
    }
}

/* Memory that cannot be mapped is one block, which gives the same numbers. */
SW_TEST("cards without mapping have the same bits")
{
    for (int i = 0; i < sw_n_scenes; i++) {
        sw_fake_card_new(NULL, 0);
        sw_scene_end first =
            sw_scene_trained(&sw_scenes[i], (sw_scene_run){.device = "cuda", .steps = 3});
        CU_ASSERT(sw_fake_card_counts().maps > 0 && sw_fake_card_counts().allocs == 0);
        const sw_fake_api *f = sw_fake_card_new(NULL, 0);
        f->reset(&(sw_fake_card){.cannot_map = true});
        sw_scene_end other =
            sw_scene_trained(&sw_scenes[i], (sw_scene_run){.device = "cuda", .steps = 3});
        CU_ASSERT(sw_fake_card_counts().maps == 0 && sw_fake_card_counts().allocs > 0);
        CU_ASSERT(sw_scene_same_bits(&first, &other));
    }
}

SW_TEST("a second card has the same bits")
{
    const sw_scene *s = sw_scene_of("mlp");
    const sw_fake_api *f = sw_fake_card_new(NULL, 0);
    f->reset(&(sw_fake_card){.cards = 2});
    sw_scene_end first = sw_scene_trained(s, (sw_scene_run){.device = "cuda:0", .steps = 3});
    sw_scene_end second = sw_scene_trained(s, (sw_scene_run){.device = "cuda:1", .steps = 3});
    CU_ASSERT(sw_scene_same_bits(&first, &second));
    CU_ASSERT_EQUAL(sw_fake_card_counts().legacy, 0);
    const sw_scene_run third = {.device = "cuda:2", .steps = 1};
    CU_ASSERT_EQUAL(sw_scene_train(s, &third, NULL), SW_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cuda:2"));
}

/* Threads with an exec each: one captures while others wait for the card and take memory. */
typedef struct {
    const sw_scene *scene;
    sw_scene_end end;
    sw_status status;
    char error[256];
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    const sw_scene_run run = {.device = "cuda", .steps = 4};
    w->status = sw_scene_train(w->scene, &run, &w->end);
    snprintf(w->error, sizeof w->error, "%s", sw_last_error());
    return NULL;
}

SW_TEST("threads share a card")
{
    const char *const scenes[] = {"mlp", "lenet5"};
    sw_scene_end alone[2];
    sw_fake_card_new(NULL, 0);
    for (int i = 0; i < 2; i++)
        alone[i] = sw_scene_trained(sw_scene_of(scenes[i]),
                                    (sw_scene_run){.device = "cuda", .steps = 4});
    for (uint64_t lazy = 0; lazy < 6; lazy += 2) {
        worker workers[4] = {0};
        pthread_t threads[4];
        sw_fake_card_new(NULL, lazy);
        for (int i = 0; i < 4; i++) {
            workers[i].scene = sw_scene_of(scenes[i % 2]);
            CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            SW_CHECK(workers[i].status == SW_OK, "%s", workers[i].error);
            CU_ASSERT(sw_scene_same_bits(&workers[i].end, &alone[i % 2]));
            free(workers[i].end.numbers);
        }
    }
}

SW_TEST("TF32 is only where it is asked for")
{
    const sw_scene *s = sw_scene_of("mlp");
    sw_fake_card_new(NULL, 0);
    sw_scene_end plain = sw_scene_trained(s, (sw_scene_run){.device = "cuda", .steps = 3});
    sw_scene_end rounded =
        sw_scene_trained(s, (sw_scene_run){.device = "cuda", .steps = 3, .tf32 = true});
    const double d = sw_scene_apart(&rounded, &plain);
    SW_CHECK(d > 1e-6 && d < 1e-2, "%g apart", d);
}

/* ---- special values ---------------------------------------------------------------------- */

/* NaN, infinities, huge numbers, zeros and kinks through the kernels of the module, on the card
 * that is not there: the table of tests/ops/special_values.txt. */

SW_TEST("kernels of the module answer as the table says")
{
    for (int immediate = 0; immediate <= (sw_tests_full() ? 1 : 0); immediate++) {
        const special_way way = {.device = "cuda", .immediate = immediate != 0};
        sw_fake_card_new(NULL, 0);
        const special_count n = special_run(&way);
        SW_CHECK(n.rows > 1000, "%d rows", n.rows);
        sw_note("cuda%s: %d rows, %d wrong, %d with a reason that is stale",
                immediate ? ", immediate" : "", n.rows, n.wrong, n.stale);
    }
}
