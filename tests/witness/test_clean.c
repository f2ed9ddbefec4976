/* Programs as the planner makes them: every witness agrees, what it observes is what was
 * planned and what a run without a witness reports, and nothing of the caller's has changed. */
#include "alloc/base/sys.h"
#include "kernels/dispatch.h"
#include "tests/support/heap_sweep.h"
#include "tests/witness/fixture.h"
#include <sys/mman.h>

SW_TESTS("witness")

static void describe(const fixture_opts *o, char *to, size_t bytes)
{
    static const char *const nets[] = {"mlp", "lenet5", "small", "probes"};
    snprintf(to, bytes, "%s batch %d %s threads %d%s", nets[o->net], (int)o->batch,
             o->optimizer, o->threads, o->no_inplace ? " no in-place" : "");
}

static bool same_phases(const sw_phase_info *a, const sw_phase_info *b)
{
    for (int i = 0; i < SW_PHASES; i++)
        if (a[i].peak_bytes != b[i].peak_bytes || a[i].end_bytes != b[i].end_bytes)
            return false;
    return true;
}

/* All witnesses from the model's state as it is, and one step later. */
static void agree(const fixture_opts *opts)
{
    char name[96];
    describe(opts, name, sizeof name);
    fixture *f = fixture_create(opts);
    if (f == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        fixture_keep(f);
        f->args.step = (uint64_t)i;
        SW_CHECK(sw_witness(f->exec, &f->args, SW_WITNESS_ALL, &seen) == SW_OK, "%s: %s", name,
                 sw_last_error());
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s: %u agree; %u faults; %s", name,
                 seen.agreed, seen.n_faults, seen.first_fault);
        SW_CHECK(seen.n_faults == 0 && seen.first_fault[0] == '\0', "%s", name);
        SW_CHECK(fixture_is_kept(f), "%s: the state differs after witnessing", name);
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        sw_run_info run = SW_OPTS(sw_run_info);
        SW_CHECK(sw_plan(f->exec, &f->args, &plan) == SW_OK, "%s: %s", name, sw_last_error());
        SW_CHECK(same_phases(seen.phase, plan.phase), "%s", name);
        SW_CHECK(seen.peak_bytes == plan.peak_bytes, "%s: %zu and %zu", name, seen.peak_bytes,
                 plan.peak_bytes);
        SW_CHECK(sw_run(f->exec, &f->args) == SW_OK, "%s: %s", name, sw_last_error());
        SW_CHECK(sw_last_run(f->exec, &run) == SW_OK, "%s", name);
        SW_CHECK(same_phases(seen.phase, run.phase), "%s", name);
    }
}

static void sweep(net_kind net)
{
    static const int64_t batches[] = {1, 7, 32, 128};
    static const char *const optimizers[] = {"sgd", "momentum", "adam"};
    for (size_t b = 0; b < 4; b++)
        for (size_t o = 0; o < 3; o++)
            for (int plain = 0; plain < 2; plain++) {
                /* Quick: each batch, optimizer and pass, not each combination. */
                if (!sw_tests_full() && (o != b % 3 || plain != (int)(b % 2)))
                    continue;
                agree(&(fixture_opts)SW_INIT(.net = net, .batch = batches[b],
                                             .optimizer = optimizers[o], .threads = 1,
                                             .no_inplace = plain));
            }
}

SW_TEST("mlp agrees with its plan")
{
    sweep(NET_MLP);
}

SW_TEST("lenet5 agrees with its plan")
{
    sweep(NET_LENET5);
}

SW_TEST("other optimizers agree with their plans")
{
    static const char *const optimizers[] = {"nesterov", "adamw", "clip", "kept", "release"};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
        for (int net = NET_LENET5; net <= NET_PROBES; net++)
            agree(&(fixture_opts){
                .net = (net_kind)net, .batch = 5, .optimizer = optimizers[o], .threads = 1});
}

SW_TEST("several threads agree with the plan")
{
    for (int threads = 2; threads <= 4; threads += sw_tests_full() ? 1 : 2)
        agree(&(fixture_opts){
            .net = NET_LENET5, .batch = 40, .optimizer = "adam", .threads = threads});
}

SW_TEST("every instruction set agrees with its plan", .full = true)
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    for (int i = 0; i <= (int)sw_cpu_isa() && i < 3; i++)
        for (int64_t batch = 3; batch <= 130; batch += 127)
            for (int net = NET_MLP; net <= NET_LENET5; net++)
                agree(&(fixture_opts)SW_INIT(.net = (net_kind)net, .batch = batch,
                                             .optimizer = "momentum", .threads = 2,
                                             .isa = names[i]));
}

SW_TEST("batches of 1000 agree with their plans", .full = true)
{
    agree(&(fixture_opts){.net = NET_MLP, .batch = 1000, .optimizer = "adam", .threads = 1});
    agree(&(fixture_opts){.net = NET_LENET5, .batch = 1000, .optimizer = "adam", .threads = 2});
}

/* Steps after a witnessing are as if there had been none. */
SW_TEST("steps go on as before")
{
    const fixture_opts opts = {.net = NET_SMALL, .batch = 7, .optimizer = "adam"};
    fixture *a = fixture_create(&opts), *b = fixture_create(&opts);
    CU_ASSERT_FATAL(a != NULL && b != NULL);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    for (uint64_t i = 0; i < 3; i++) {
        a->args.step = b->args.step = i;
        CU_ASSERT_EQUAL(sw_run(a->exec, &a->args), SW_OK);
        CU_ASSERT_EQUAL(sw_witness(b->exec, &b->args, SW_WITNESS_ALL, &seen), SW_OK);
        CU_ASSERT_EQUAL(sw_run(b->exec, &b->args), SW_OK);
        CU_ASSERT_EQUAL(memcmp(a->model->base, b->model->base, a->model->bytes), 0);
    }
}

/* A step that fails, fails under a witness too; the state is as before and the next works. */
SW_TEST("failing steps change nothing")
{
    fixture *f =
        fixture_create(&(fixture_opts){.net = NET_SMALL, .batch = 7, .optimizer = "sgd"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    for (uint32_t bit = 1; bit <= SW_WITNESS_NEED; bit *= 2) {
        const unsigned char label = f->labels[3];
        f->labels[3] = 10;
        fixture_keep(f);
        CU_ASSERT_NOT_EQUAL(sw_witness(f->exec, &f->args, bit, &seen), SW_OK);
        CU_ASSERT(strlen(sw_last_error()) > 0);
        CU_ASSERT(fixture_is_kept(f));
        f->labels[3] = label;
        CU_ASSERT_EQUAL(sw_witness(f->exec, &f->args, bit, &seen), SW_OK);
        CU_ASSERT_EQUAL(seen.agreed, bit);
        CU_ASSERT_EQUAL(sw_run(f->exec, &f->args), SW_OK);
    }
}

SW_TEST("bad arguments are named")
{
    fixture *f =
        fixture_create(&(fixture_opts){.net = NET_SMALL, .batch = 2, .optimizer = "sgd"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    CU_ASSERT_EQUAL(sw_witness(f->exec, &f->args, 0, &seen), SW_INVALID);
    CU_ASSERT_EQUAL(sw_witness(f->exec, &f->args, 16, &seen), SW_INVALID);
    f->args.immediate = 1;
    CU_ASSERT_EQUAL(sw_witness(f->exec, &f->args, 1, &seen), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "immediate"));
}

/* ---- the operating system's view --------------------------------------------------------- */

/* After a run the arena's pages in memory are those that the plan covers, and no others. */
SW_TEST("resident pages are the planned ones")
{
    fixture *f =
        fixture_create(&(fixture_opts){.net = NET_MLP, .batch = 64, .optimizer = "sgd"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    CU_ASSERT_EQUAL(sw_plan(f->exec, &f->args, &plan), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_run(f->exec, &f->args), SW_OK);
    enum { BEHIND = 64 };
    const size_t page = sw_page_bytes(), pages = (plan.arena_bytes + page - 1) / page;
    unsigned char *resident = calloc(pages + BEHIND, 1);
    CU_ASSERT_EQUAL(mincore(sw_arena_base(f->exec->arena), (pages + BEHIND) * page, resident),
                    0);
    size_t inside = 0, outside = 0;
    for (size_t i = 0; i < pages + BEHIND; i++)
        *(i < pages ? &inside : &outside) += resident[i] & 1u;
    free(resident);
    CU_ASSERT_EQUAL(inside, pages);
    CU_ASSERT_EQUAL(outside, 0);
}

/* ---- threads ----------------------------------------------------------------------------- */

typedef struct {
    fixture *f;
    uint32_t which; /* 0: plain runs */
    int done, busy, failed;
} worker;

static void work(void *arg)
{
    worker *w = arg;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    for (int i = 0; i < 20; i++) {
        const sw_status status = w->which == 0
                                     ? sw_run(w->f->exec, &w->f->args)
                                     : sw_witness(w->f->exec, &w->f->args, w->which, &seen);
        w->done += status == SW_OK;
        w->busy += status == SW_BUSY;
        w->failed += (status != SW_OK && status != SW_BUSY) ||
                     (status == SW_OK && w->which != 0 && seen.agreed != w->which);
    }
}

/* Others may train meanwhile; a second access witness is asked to wait, and nothing else
 * happens. */
SW_TEST("one access witness at a time")
{
    static const uint32_t which[] = {SW_WITNESS_ALL, SW_WITNESS_ACCESS, 0};
    worker workers[3] = {{0}};
    sw_thread *threads[3];
    for (int i = 0; i < 3; i++) {
        workers[i].which = which[i];
        workers[i].f = fixture_create(&(fixture_opts){
            .net = NET_SMALL, .batch = 9, .optimizer = "adam", .threads = 1 + i % 2});
        CU_ASSERT_PTR_NOT_NULL_FATAL(workers[i].f);
    }
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(sw_thread_start(&threads[i], work, &workers[i], "worker"), SW_OK);
    for (int i = 0; i < 3; i++) {
        sw_thread_join(threads[i]);
        CU_ASSERT_EQUAL(workers[i].failed, 0);
        CU_ASSERT_EQUAL(workers[i].done + workers[i].busy, 20);
    }
    CU_ASSERT(workers[0].done + workers[1].done > 0);
    CU_ASSERT_EQUAL(workers[2].done, 20);
}

/* ---- failures of memory ------------------------------------------------------------------ */

static sw_status witness_once(void *arg)
{
    fixture *f = arg;
    return sw_witness(f->exec, &f->args, SW_WITNESS_ALL, &SW_OPTS(sw_witness_info));
}

SW_TEST("memory may fail anywhere")
{
    fixture *f =
        fixture_create(&(fixture_opts){.net = NET_SMALL, .batch = 7, .optimizer = "sgd"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(witness_once(f), SW_OK); /* the program and the arena stay */
    fixture_keep(f);
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, witness_once, f);
    CU_ASSERT(sites >= 10);
    CU_ASSERT(fixture_is_kept(f));
    CU_ASSERT_EQUAL(sw_run(f->exec, &f->args), SW_OK);
}
