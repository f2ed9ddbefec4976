/* Snapshots of models on a card, over the card that is not there: what they hold while runs go
 * on after them, who waits, and what a fault leaves. */
#include "runtime/device/snapshot.h"
#include "runtime/exec/exec.h"
#include "runtime/model/model.h"
#include "tests/cuda/fake_card.h"
#include "tests/runtime/nets.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("snapshots of a card")

enum { ROWS = 8 };

typedef struct {
    sw_exec *exec;
    net *net;
    batch batch;
    uint64_t step;
    swi_snapshot *snapshot;
} scene;

static void begin(scene *s, uint64_t lazy)
{
    sw_fake_card_new(NULL, lazy);
    *s = (scene){.exec = net_exec(&SW_OPTS(sw_exec_opts, .device = "cuda", .seed = 11)),
                 .net = net_new(false, NULL),
                 .batch = net_batch(false, 0, ROWS)};
}

static void run(scene *s)
{
    sw_run_args args = net_args(s->net, &s->batch);
    args.step = s->step++;
    OK(sw_run(s->exec, &args));
}

/* The numbers of the model: knobs go to the card with each run. */
static size_t numbers(const scene *s)
{
    return s->net->model->entries[s->net->model->knob_entry].offset;
}

static void make(scene *s)
{
    OK(swi_snapshot_create(&s->snapshot, swi_target_of(s->exec), s->net->model->bytes));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s->snapshot);
    OK(swi_snapshot_room(s->snapshot));
}

/* In two parts. */
static void take(scene *s)
{
    const sw_model *m = s->net->model;
    const size_t half = m->bytes / 2;
    OK(swi_snapshot_copy(s->snapshot, half, m->base + half, m->bytes - half));
    OK(swi_snapshot_copy(s->snapshot, 0, m->base, half));
    OK(swi_snapshot_end(s->snapshot));
}

/* ---- what it holds ----------------------------------------------------------------------- */

static void *waits(void *arg)
{
    static sw_status status;
    status = swi_snapshot_wait(arg);
    return &status;
}

/* As the writer's thread does, which has not used the card before. */
static sw_status wait_elsewhere(swi_snapshot *snapshot)
{
    pthread_t thread;
    void *status = NULL;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, waits, snapshot), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_join(thread, &status), 0);
    return *(sw_status *)status;
}

/* The model's numbers after each of the runs, each read when all was done. */
static unsigned char *history(int runs, size_t *bytes)
{
    scene s;
    begin(&s, 0);
    run(&s);
    *bytes = numbers(&s);
    unsigned char *all = sw_block((size_t)runs * *bytes);
    for (int k = 0; k < runs; k++, run(&s))
        OK(swi_model_read(s.net->model, all + (size_t)k * *bytes, 0, *bytes));
    return all;
}

/* Run k + 1 (and more) was begun before anyone waited. */
SW_TEST("it is what was after its run, whatever runs after it")
{
    enum { RUNS = 6 };
    size_t bytes = 0;
    const unsigned char *all = history(RUNS, &bytes);
    const uint64_t seeds = sw_tests_full() ? 20 : 5;
    for (uint64_t lazy = 0; lazy < seeds; lazy++) {
        scene s;
        begin(&s, lazy);
        run(&s);
        make(&s);
        for (int k = 0; k < RUNS;) {
            const int more = 1 + k % 2;
            take(&s);
            for (int i = 0; i < more; i++)
                run(&s);
            OK(wait_elsewhere(s.snapshot));
            SW_CHECK(memcmp(swi_snapshot_bytes(s.snapshot), all + (size_t)k * bytes, bytes) ==
                         0,
                     "run %d, seed %d", k, (int)lazy);
            k += more;
        }
        swi_snapshot_destroy(s.snapshot);
    }
}

/* A copy that no one waited for is given up by the next one, which holds what is after its own
 * run. */
SW_TEST("one that was not waited for is taken again")
{
    enum { RUNS = 2 };
    size_t bytes = 0;
    const unsigned char *all = history(RUNS, &bytes);
    for (uint64_t lazy = 0; lazy < 5; lazy++) {
        scene s;
        begin(&s, lazy);
        run(&s);
        make(&s);
        take(&s);
        run(&s);
        take(&s);
        run(&s);
        OK(wait_elsewhere(s.snapshot));
        SW_CHECK(memcmp(swi_snapshot_bytes(s.snapshot), all + bytes, bytes) == 0, "seed %d",
                 (int)lazy);
        swi_snapshot_destroy(s.snapshot);
    }
}

/* ---- who waits --------------------------------------------------------------------------- */

SW_TEST("the exec does not wait")
{
    scene s;
    begin(&s, 1); /* as late as can be */
    run(&s);
    run(&s);
    make(&s);
    const sw_fake_counts before = sw_fake_card_counts();
    take(&s);
    const sw_fake_counts between = sw_fake_card_counts();
    CU_ASSERT_EQUAL(between.syncs, before.syncs);
    CU_ASSERT_EQUAL(between.to_host, before.to_host + 2);
    CU_ASSERT_EQUAL(between.pageable, before.pageable);
    CU_ASSERT_EQUAL(between.host_allocs + between.allocs + between.maps,
                    before.host_allocs + before.allocs + before.maps);
    OK(swi_snapshot_wait(s.snapshot));
    CU_ASSERT_EQUAL(sw_fake_card_counts().syncs, before.syncs + 1);
    OK(swi_snapshot_wait(s.snapshot)); /* all is there */
    CU_ASSERT_EQUAL(sw_fake_card_counts().syncs, before.syncs + 1);
    swi_snapshot_destroy(s.snapshot);
    CU_ASSERT_EQUAL(sw_fake_card_counts().syncs, before.syncs + 1);
}

/* A run with a copy before it waits as often as one without. */
SW_TEST("a run after it does not wait for it")
{
    scene s;
    begin(&s, 1);
    for (int i = 0; i < 4; i++)
        run(&s);
    make(&s);
    const uint64_t first = sw_fake_card_counts().syncs;
    run(&s);
    const uint64_t plain = sw_fake_card_counts().syncs - first;
    take(&s);
    const uint64_t then = sw_fake_card_counts().syncs;
    run(&s);
    CU_ASSERT_EQUAL(sw_fake_card_counts().syncs - then, plain);
    OK(swi_snapshot_wait(s.snapshot));
    swi_snapshot_destroy(s.snapshot);
}

/* ---- memory ------------------------------------------------------------------------------ */

SW_TEST("its memory is pinned, and no budget's")
{
    scene s;
    sw_heap_stats before, with;
    begin(&s, 0);
    run(&s);
    sw_budget *budget = NULL;
    OK(sw_budget_create(&budget, 64));
    swi_target target = *swi_target_of(s.exec);
    target.budget = budget;
    sw_heap_read(SW_HEAP_PINNED, &before);
    OK(swi_snapshot_create(&s.snapshot, &target, 123456));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s.snapshot);
    sw_heap_read(SW_HEAP_PINNED, &with);
    CU_ASSERT_EQUAL(with.bytes, before.bytes);
    OK(swi_snapshot_room(s.snapshot));
    sw_heap_read(SW_HEAP_PINNED, &with);
    CU_ASSERT_EQUAL(with.bytes, before.bytes + 123456);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    swi_snapshot_destroy(s.snapshot);
    sw_heap_read(SW_HEAP_PINNED, &with);
    CU_ASSERT_EQUAL(with.bytes, before.bytes);
    sw_budget_destroy(budget);
}

SW_TEST("memory that is refused leaves nothing")
{
    scene s;
    begin(&s, 0);
    run(&s);
    sw_fake_card_api()->fail("cudaEventCreateWithFlags", 0, 2); /* no memory */
    REFUSED(swi_snapshot_create(&s.snapshot, swi_target_of(s.exec), 1000), SW_NOMEM, "");
    CU_ASSERT_PTR_NULL(s.snapshot);
    OK(swi_snapshot_create(&s.snapshot, swi_target_of(s.exec), s.net->model->bytes));
    sw_fake_card_api()->fail("cudaHostAlloc", 0, 2);
    REFUSED(swi_snapshot_room(s.snapshot), SW_NOMEM, "");
    CU_ASSERT_PTR_NULL(swi_snapshot_bytes(s.snapshot));
    OK(swi_snapshot_room(s.snapshot));
    take(&s);
    OK(swi_snapshot_wait(s.snapshot));
    swi_snapshot_destroy(s.snapshot);
}

/* Destroyed before it was waited for, and once with the exec gone. */
SW_TEST("it may end while copies are on their way")
{
    for (uint64_t lazy = 0; lazy < 4; lazy++)
        for (int how = 0; how < 4; how++) {
            scene s;
            begin(&s, lazy);
            run(&s);
            make(&s);
            if (how % 2 == 0)
                take(&s);
            else
                OK(swi_snapshot_copy(s.snapshot, 0, s.net->model->base, 64)); /* not ended */
            run(&s);
            if (how >= 2) /* net and exec end, and the snapshot has a share of the card */
                sw_after_since(sw_after_mark() - 2);
            swi_snapshot_destroy(s.snapshot);
        }
}

/* ---- faults ------------------------------------------------------------------------------ */

enum { BROKEN = 700 }; /* cudaErrorIllegalAddress: the card answers nothing else from then on */

/* The copy itself, which the card does when somebody waits. */
SW_TEST("a fault in the copy is said by the wait")
{
    scene s;
    begin(&s, 1);
    run(&s);
    OK(swi_device_fault(swi_target_of(s.exec)->device));
    make(&s);
    double loss = 0.0;
    OK(sw_metric_past(s.exec, 0, "loss", &loss)); /* the run is done */
    sw_fake_card_api()->fail_work(0, BROKEN);
    take(&s);
    CU_ASSERT_EQUAL(wait_elsewhere(s.snapshot), SW_DEVICE);
    CU_ASSERT_STRING_EQUAL(sw_fake_card_api()->failed(), "work");
    REFUSED(swi_device_fault(swi_target_of(s.exec)->device), SW_DEVICE, "failed before");
    REFUSED(swi_snapshot_wait(s.snapshot), SW_DEVICE, "failed before");
    REFUSED(swi_snapshot_copy(s.snapshot, 0, s.net->model->base, 64), SW_DEVICE,
            "failed before");
    REFUSED(swi_snapshot_end(s.snapshot), SW_DEVICE, "failed before");
    sw_run_args args = net_args(s.net, &s.batch);
    REFUSED(sw_run(s.exec, &args), SW_DEVICE, "");
    swi_snapshot_destroy(s.snapshot);
    sw_fake_card_api()->fail(NULL, UINT64_MAX, 0);
}

/* Each call, one after the other; nothing is said to be there that is not. */
SW_TEST("a fault of any call is kept")
{
    static const char *const calls[] = {"cudaMemcpyAsync", "cudaEventRecordWithFlags",
                                        "cudaEventSynchronize", "cudaSetDevice"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        scene s;
        begin(&s, 1);
        run(&s);
        make(&s);
        const sw_model *m = s.net->model;
        sw_fake_card_api()->fail(calls[i], 0, BROKEN);
        sw_status status = swi_snapshot_copy(s.snapshot, 0, m->base, m->bytes);
        if (status == SW_OK)
            status = swi_snapshot_end(s.snapshot);
        if (status == SW_OK)
            status = swi_snapshot_wait(s.snapshot);
        SW_CHECK(status == SW_DEVICE, "%s: %s", calls[i], sw_status_name(status));
        CU_ASSERT_STRING_EQUAL(sw_fake_card_api()->failed(), calls[i]);
        REFUSED(swi_snapshot_wait(s.snapshot), SW_DEVICE, "failed before");
        swi_snapshot_destroy(s.snapshot);
    }
}
