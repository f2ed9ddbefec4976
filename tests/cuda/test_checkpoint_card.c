/* Checkpoints of a run on a card, over the card that is not there: what is saved while further
 * steps are begun, who waits, several execs on one model, and what a fault leaves. */
#include "runtime/device/snapshot.h"
#include "runtime/exec/exec.h"
#include "runtime/model/model.h"
#include "tests/cuda/fake_card.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/saved_runs.h"
#include <pthread.h>

SW_TESTS("saved on a card")

/* ---- snapshots --------------------------------------------------------------------------- */

/* Snapshots of models on a card, over the card that is not there: what they hold while runs go
 * on after them, who waits, and what a fault leaves. */

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
        sw_fake_card_lost();
    }
}

/* ---- checkpoints ------------------------------------------------------------------------- */

enum { STEPS = 6, SKIPPED = 3, BROKEN_CARD = 700 }; /* BROKEN_CARD: cudaErrorIllegalAddress */

static uint64_t state_bits; /* of the optimizer */

/* With states in 8 bits, and then in float32, as the other tests have them. */
static void in_both_types(void (*test)(void))
{
    for (int in8 = 1; in8 >= 0; in8--) {
        const size_t mark = sw_after_mark();
        state_bits = in8 ? 8 : 0;
        test();
        sw_after_since(mark);
    }
}

/* The first numbers are not those of the card. */
static saved_run *run_on_cpu(void)
{
    return saved_run_new(
        &(saved_opts){.width = 8, .rows = 8, .seed = 99, .state_bits = state_bits});
}

static saved_run *begin_run(uint64_t lazy)
{
    sw_fake_card_new(NULL, lazy);
    return saved_run_new(&(saved_opts){
        .width = 8, .rows = 8, .exec = {.device = "cuda"}, .state_bits = state_bits});
}

/* The next step. In step SKIPPED the loss is infinite, and the update is skipped. */
static void step_on(saved_run *r)
{
    sw_knob_set(r->factor, r->step == SKIPPED ? 3e38f : 0.5f);
    saved_run_steps(r, 1);
}

/* ---- what a run has ---------------------------------------------------------------------- */

#define KNOBS 4

/* All that a model has after each step: its bytes, but for the knobs, and these. */
static struct {
    unsigned char *bytes[STEPS + 1];
    float knobs[STEPS + 1][KNOBS];
    size_t n; /* after the last are the knobs' */
} whole;

static size_t numbers_of(const sw_model *m)
{
    return m->entries[m->knob_entry].offset;
}

/* Read after step r->step, which waits for the card. */
static void remember(const saved_run *r)
{
    unsigned char *to = sw_block(whole.n);
    OK(swi_model_read(r->model, to, 0, whole.n));
    whole.bytes[r->step] = to;
    CU_ASSERT_FATAL(r->model->n_knobs <= KNOBS);
    for (uint32_t k = 0; k < r->model->n_knobs; k++)
        whole.knobs[r->step][k] = r->model->knobs[k].value;
}

/* A run that waits after each step. */
static void make_whole(void)
{
    uint64_t all = 0, row = 0;
    saved_run *r = begin_run(0);
    whole.n = numbers_of(r->model);
    remember(r);
    while (r->step < STEPS) {
        step_on(r);
        remember(r);
    }
    OK(sw_optimizer_skipped(r->opt, &all, &row));
    CU_ASSERT(all == 1 && row == 0);
    CU_ASSERT(r->model->entries[r->opt->counts].offset < whole.n);
}

static bool is_as_behind(const saved_run *r, uint64_t step)
{
    unsigned char *now = malloc(whole.n);
    OK(swi_model_read(r->model, now, 0, whole.n));
    const bool same = memcmp(now, whole.bytes[step], whole.n) == 0;
    free(now);
    return same && numbers_of(r->model) == whole.n;
}

static bool has_knobs_of(const saved_run *r, uint64_t step)
{
    bool same = true;
    for (uint32_t k = 0; k < r->model->n_knobs; k++)
        same = same && r->model->knobs[k].value == whole.knobs[step][k];
    return same;
}

/* The file at `path` is that of `step`, as a run on the CPU loads it. */
static void file_is_of(saved_run *reader, const char *path, uint64_t step, const char *what)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    sw_checkpoint *c = saved_run_checkpoint(reader, NULL, NULL);
    OK(sw_checkpoint_find(c, path, &found));
    CU_ASSERT(found.found == 1 && found.step == step && found.generation == 0);
    CU_ASSERT_STRING_EQUAL(found.device, "cuda:0");
    OK(sw_checkpoint_load(c));
    saved_checkpoint_end(c);
    SW_CHECK(is_as_behind(reader, step), "%s: the model of step %d", what, (int)step);
    SW_CHECK(has_knobs_of(reader, step), "%s: the knobs of step %d", what, (int)step);
}

static const char *path_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    return path;
}

/* ---- what is saved ----------------------------------------------------------------------- */

/* Taken after step k, written when step k + 1 was begun, read when it is there. */
static void each_file(void)
{
    const uint64_t seeds = sw_tests_full() ? 20 : 4;
    const char *path = path_of("each step");
    int files = 0;
    saved_run *reader = run_on_cpu();
    make_whole();
    for (uint64_t lazy = 0; lazy < seeds; lazy++) {
        saved_run *r = begin_run(lazy);
        sw_checkpoint *c = saved_run_checkpoint(r, path, NULL);
        const char *what = sw_textf("seed %d", (int)lazy);
        step_on(r);
        for (uint64_t step = 1; step < STEPS; step++, files++) {
            OK(sw_checkpoint_take(c, step));
            if (step % 2 == 0)
                OK(sw_checkpoint_write(c));
            step_on(r);
            if (step % 2 == 1)
                OK(sw_checkpoint_write(c));
            OK(sw_checkpoint_wait(c));
            file_is_of(reader, path, step, what);
        }
        CU_ASSERT(is_as_behind(r, STEPS));
    }
    sw_note("%d files of %d orders", files, (int)seeds);
}

SW_TEST("each file is what was after its step")
{
    in_both_types(each_file);
}

/* ---- who waits --------------------------------------------------------------------------- */

/* How often the exec's thread waits in each step, with a copy before it or without. */
static void waits_of(bool copies, uint64_t *waits, uint64_t *taking)
{
    saved_run *r = begin_run(1); /* as late as can be */
    sw_checkpoint *c = saved_run_checkpoint(r, path_of(copies ? "waits" : "plain"), NULL);
    step_on(r);
    OK(sw_checkpoint_save(c, r->step)); /* has taken its memory */
    for (int i = 0; i < STEPS; i++) {
        const uint64_t before = sw_fake_card_counts().syncs;
        if (copies)
            OK(sw_checkpoint_take(c, r->step)); /* what was taken before is given up */
        const uint64_t then = sw_fake_card_counts().syncs;
        saved_run_steps(r, 1);
        taking[i] = then - before;
        waits[i] = sw_fake_card_counts().syncs - then;
        if (copies) { /* the copy may not be given up while it is on its way */
            OK(sw_checkpoint_write(c));
            OK(sw_checkpoint_wait(c));
        }
    }
}

SW_TEST("taking does not stop the queue")
{
    uint64_t plain[STEPS], with[STEPS], none[STEPS], taking[STEPS], sum[2] = {0, 0};
    waits_of(false, plain, none);
    waits_of(true, with, taking);
    for (int i = 0; i < STEPS; i++) {
        CU_ASSERT_EQUAL(taking[i], 0);
        SW_CHECK(with[i] <= plain[i], "step %d waits %d times, without a copy %d", i,
                 (int)with[i], (int)plain[i]);
        sum[0] += plain[i];
        sum[1] += with[i];
    }
    sw_note("%d steps wait %d times without copies, %d times with them", STEPS, (int)sum[0],
            (int)sum[1]);
}

/* ---- going on ---------------------------------------------------------------------------- */

static void goes_on(void)
{
    const uint64_t seeds = sw_tests_full() ? 12 : 3;
    const char *path = path_of("goes on");
    make_whole();
    for (uint64_t lazy = 0; lazy < seeds; lazy++)
        for (uint64_t step = 1; step < STEPS; step += lazy == 0 ? 1 : 2) {
            saved_run *r = begin_run(lazy);
            sw_checkpoint *c = saved_run_checkpoint(r, path, NULL);
            while (r->step < step)
                step_on(r);
            OK(sw_checkpoint_take(c, r->step));
            step_on(r); /* is lost */
            OK(sw_checkpoint_write(c));
            saved_checkpoint_end(c);
            r = begin_run(lazy + 1);
            step_on(r); /* what it has before does not matter */
            c = saved_run_checkpoint(r, NULL, NULL);
            saved_run_resume(r, c, path);
            CU_ASSERT(r->step == step && is_as_behind(r, step));
            while (r->step < STEPS)
                step_on(r);
            SW_CHECK(is_as_behind(r, STEPS), "saved after step %d, seed %d", (int)step,
                     (int)lazy);
        }
}

SW_TEST("a run on a card goes on with the same bits")
{
    in_both_types(goes_on);
}

/* Saved by the CPU, loaded and saved by a card, loaded by the CPU: these steps are the CPU's.
 */
static void there_and_back(void)
{
    static char paths[2][1024];
    saved_run *stays = run_on_cpu(), *back = run_on_cpu(), *card = begin_run(2);
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], sizeof paths[i], "%s", sw_temp_path(i == 0 ? "there" : "back"));
    while (stays->step < 2)
        step_on(stays);
    OK(sw_checkpoint_save(saved_run_checkpoint(stays, paths[0], NULL), stays->step));
    step_on(card);
    sw_checkpoint *there = saved_run_checkpoint(card, paths[1], NULL);
    saved_run_resume(card, there, paths[0]);
    OK(sw_checkpoint_save(there, card->step));
    saved_run_resume(back, saved_run_checkpoint(back, NULL, NULL), paths[1]);
    CU_ASSERT(back->step == 2 && saved_run_same(back, stays));
    while (stays->step < STEPS) {
        step_on(stays);
        step_on(back);
        step_on(card); /* has its own bits from here on */
    }
    CU_ASSERT(saved_run_same(back, stays));
    CU_ASSERT(fabs(net_metric(card->exec, "loss") - net_metric(stays->exec, "loss")) < 1e-2);
}

SW_TEST("a run of the CPU goes over a card and back with the same bits")
{
    in_both_types(there_and_back);
}

/* ---- several execs on one model ---------------------------------------------------------- */

/* Steps of two execs in turn, and copies by one of them. */
SW_TEST("another exec may have trained the model")
{
    const uint64_t seeds = sw_tests_full() ? 30 : 8;
    const char *path = path_of("two execs");
    saved_run *reader = run_on_cpu();
    make_whole();
    for (uint64_t lazy = 0; lazy < seeds; lazy++) {
        double loss = 0;
        saved_run *r = begin_run(lazy);
        sw_exec *own = r->exec, *other = NULL;
        OK(sw_exec_create(&other, &SW_OPTS(sw_exec_opts, .device = "cuda", .seed = 3)));
        sw_checkpoint *c = saved_run_checkpoint(r, path, NULL);
        const char *what = sw_textf("seed %d", (int)lazy);
        r->exec = other;
        step_on(r);
        for (uint64_t step = 1; step < STEPS; step++) {
            OK(sw_checkpoint_take(c, step));
            r->exec = step % 3 == 2 ? own : other; /* as before it, and the other one */
            step_on(r);
            OK(sw_metric_past(r->exec, 0, "loss",
                              &loss)); /* the copy may still be to be made */
            OK(sw_checkpoint_write(c));
            OK(sw_checkpoint_wait(c));
            file_is_of(reader, path, step, what);
        }
        CU_ASSERT(is_as_behind(r, STEPS));
        saved_checkpoint_end(c);
        r->exec = own;
        sw_model_destroy(r->model);
        r->model = NULL;
        sw_exec_destroy(other);
    }
}

/* A checkpoint of an exec that works elsewhere copies nothing. */
SW_TEST("a model elsewhere is refused")
{
    sw_checkpoint *c = NULL;
    saved_run *r = begin_run(0), *reader = run_on_cpu();
    step_on(r);
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = path_of("elsewhere"),
                                            .models = &r->model, .n_models = 1);
    OK(sw_checkpoint_create(&c, reader->exec, &opts));
    REFUSED(sw_checkpoint_take(c, 1), SW_INVALID, "lies in the memory of cuda:0");
    sw_checkpoint_destroy(c);
}

/* ---- a file that changes ----------------------------------------------------------------- */

static struct {
    const sw_cuda_api *real;
    const char *path; /* of a file of which a byte near the end changes with the next copy */
} hooked;

static sw_status copy_and_damage(const sw_cuda_queue *queue, void *to, const void *from,
                                 size_t bytes, sw_cuda_way way)
{
    if (hooked.path != NULL && way == SW_CUDA_TO_DEVICE) {
        const char *path = hooked.path;
        hooked.path = NULL;
        FILE *file = fopen(path, "r+b");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        CU_ASSERT(fseek(file, -4000, SEEK_END) == 0 && fputs("damage", file) >= 0);
        fclose(file);
    }
    return hooked.real->copy(queue, to, from, bytes, way);
}

/* Read whole, and then again for the card: what changes between is seen, and the model that has
 * a part of it already is refused until it is restored. */
SW_TEST("a file that changes while it is loaded is noticed")
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    const char *path = sw_textf("%s", sw_temp_path("changes"));
    make_whole();
    saved_run *r = begin_run(0);
    sw_checkpoint *c = saved_run_checkpoint(r, path, &(sw_checkpoint_opts){.keep = 2});
    for (int k = 1; k <= 2; k++) {
        step_on(r);
        OK(sw_checkpoint_save(c, r->step));
    }
    OK(sw_checkpoint_find(c, NULL, &found));
    swi_device *device = r->model->device;
    sw_cuda_api with = *device->api;
    with.copy = copy_and_damage;
    hooked.real = device->api;
    hooked.path = path;
    device->api = &with;
    REFUSED(sw_checkpoint_load(c), SW_FORMAT, "is damaged: checksum");
    CU_ASSERT_PTR_NULL(hooked.path);
    device->api = hooked.real;
    CU_ASSERT(r->model->damaged);
    CU_ASSERT_EQUAL(saved_run_try(r), SW_STALE);
    REFUSED(sw_checkpoint_take(c, 3), SW_STALE, "restore it first");
    OK(sw_checkpoint_find(c, NULL, &found));
    CU_ASSERT(found.generation == 1 && found.step == 1);
    OK(sw_checkpoint_load(c));
    CU_ASSERT(is_as_behind(r, 1) && has_knobs_of(r, 1));
}

/* ---- faults ------------------------------------------------------------------------------ */

/* A save of step 1, then one of step 2 in which `call` (NULL: a copy on the card) fails. */
static void a_fault_at(const char *call, bool no_copy)
{
    saved_run *r = begin_run(1), *reader = run_on_cpu();
    double loss = 0;
    sw_checkpoint_info info = SW_OPTS(sw_checkpoint_info);
    const char *path = sw_textf("%s", sw_temp_path("fault"));
    sw_checkpoint *c =
        saved_run_checkpoint(r, path, &(sw_checkpoint_opts){.no_copy = no_copy, .keep = 1});
    step_on(r);
    OK(sw_checkpoint_save(c, 1));
    saved_run_steps(r, 1);
    OK(sw_metric_past(r->exec, 0, "loss", &loss)); /* the step is done */
    if (call != NULL)
        sw_fake_card_api()->fail(call, 0, BROKEN_CARD);
    else
        sw_fake_card_api()->fail_work(0, BROKEN_CARD);
    const char *what = call != NULL ? call : "work";
    sw_status status = sw_checkpoint_take(c, 2);
    const bool written = status == SW_OK;
    if (status == SW_OK)
        status = sw_checkpoint_write(c);
    if (status == SW_OK)
        status = sw_checkpoint_wait(c);
    SW_CHECK(status == SW_DEVICE && strlen(sw_last_error()) > 0, "%s: %s, %s", what,
             sw_status_name(status), sw_last_error());
    CU_ASSERT_STRING_EQUAL(sw_fake_card_api()->failed(), what);
    OK(sw_checkpoint_describe(c, &info));
    CU_ASSERT(info.saved == 1 && info.failed == (written ? 1 : 0) && !info.busy);
    CU_ASSERT(!written || (info.last == SW_DEVICE && strlen(info.text) > 0));
    REFUSED(sw_checkpoint_save(c, 3), SW_DEVICE, "failed before");
    saved_checkpoint_end(c);
    file_is_of(reader, path, 1, what);
    CU_ASSERT_EQUAL(saved_run_try(r), SW_DEVICE);
    sw_fake_card_api()->fail(NULL, UINT64_MAX, 0);
    sw_fake_card_lost();
}

static void faults(void)
{
    static const char *const copied[] = {NULL, "cudaMemcpyAsync", "cudaEventRecordWithFlags",
                                         "cudaEventSynchronize", "cudaSetDevice"};
    static const char *const straight[] = {NULL, "cudaMemcpyAsync", "cudaDeviceSynchronize"};
    make_whole();
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        a_fault_at(copied[i], false);
    for (size_t i = 0; i < sizeof straight / sizeof *straight; i++)
        a_fault_at(straight[i], true);
}

SW_TEST("a fault of the card fails the save and the run")
{
    in_both_types(faults);
}
