/* Checkpoints of members: a run that goes on from one is as if it had never stopped. */
#include "alloc/base/sys.h"
#include "runtime/state/tensor_file.h"
#include "tests/population/small_net.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("members in checkpoints")

enum { G = 3, N = 6, SAMPLES = 45, BATCH = 8, STATE = 24 };

/* ---- a run: two groups of nets, one of callbacks, and a model beside them ---------------- */

typedef struct {
    uint64_t fails_at; /* step of callbacks of member 2 */
} plan;

static sw_status walk_step(sw_member_view *view, void *user)
{
    const plan *p = user;
    unsigned char *state = view->state;
    for (int i = 0; i < STATE; i++)
        state[i] = (unsigned char)(state[i] * 5 + view->seed + view->step + (uint64_t)i);
    view->score = state[0];
    return view->member.index == 2 && view->step == p->fails_at ? SW_IO : SW_OK;
}

typedef struct {
    const char *walk_name;        /* NULL: "walk" */
    int64_t hidden;               /* of the second group; 0: 7 */
    size_t n;                     /* members of it that are saved; 0: N */
    size_t state_bytes;           /* 0: STATE */
    int threads, no_copy, groups; /* groups that are saved; 0: all */
    uint64_t seed;
    bool no_path;
} run_opts;

typedef struct {
    plan walk;
    sw_exec *exec;
    sw_model *beside, *walker;
    small *shape[2];
    sw_members *group[G];
    sw_member member[G][N], order[G][N];
    sw_members_args args[G];
    sw_checkpoint *checkpoint;
    sw_budget *budget;
} run;

static char path[500];

static void run_end(void *ends)
{
    run *r = ends;
    sw_checkpoint_destroy(r->checkpoint);
    for (int g = 0; g < G; g++)
        sw_members_destroy(r->group[g]);
    sw_model_destroy(r->walker);
    sw_model_destroy(r->beside);
    sw_exec_destroy(r->exec);
}

static sw_status run_keep(run *r, const run_opts *o)
{
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = o->no_path ? NULL : path, .models = &r->beside,
                .n_models = 1, .no_copy = o->no_copy);
    SW_TRY(sw_checkpoint_create(&r->checkpoint, r->exec, &opts));
    for (int g = 0; g < (o->groups != 0 ? o->groups : G); g++)
        SW_TRY(sw_checkpoint_members(r->checkpoint, r->group[g], r->order[g],
                                     g == 1 && o->n != 0 ? o->n : N));
    return SW_OK;
}

static void train(run *r, int steps)
{
    for (int i = 0; i < steps; i++)
        OK(sw_members_run_all(r->group, r->args, G));
}

/* It ends with the test. */
static run *run_new(const sw_feed *feed, const run_opts *o)
{
    run *r = sw_block(sizeof *r);
    r->walk.fails_at = UINT64_MAX;
    sw_after(run_end, r);
    sw_dice dice = {o->seed + 1};
    const sw_exec_opts exec =
        SW_OPTS(sw_exec_opts, .threads = o->threads > 0 ? o->threads : 1, .seed = 4);
    OK(sw_exec_create(&r->exec, &exec));
    OK(sw_model_create(&r->beside, "beside"));
    (void)sw_linear_new(r->beside, "l", 3, 3);
    OK(sw_model_ready(r->beside, r->exec, o->seed));
    OK(sw_model_create(&r->walker, o->walk_name != NULL ? o->walk_name : "walk"));
    for (int g = 0; g < G; g++) {
        sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = r->walker);
        if (g < 2) {
            r->shape[g] = small_new(g == 0 ? 4 : o->hidden != 0 ? o->hidden : 7);
            opts.shape = r->shape[g]->model;
            opts.fn = small_step;
            opts.user = r->shape[g];
        } else {
            opts.callback = walk_step;
            opts.user = &r->walk;
            opts.state_bytes = o->state_bytes != 0 ? o->state_bytes : STATE;
        }
        OK(sw_members_create(&r->group[g], r->exec, &opts));
        for (size_t k = 0; k < N; k++) {
            OK(sw_member_new(&r->member[g][k], r->group[g], o->seed + 10 * k));
            /* Slots in another order in each run: what counts is the place in the list. */
            const size_t at = sw_dice_below(&dice, k + 1);
            r->order[g][k] = r->order[g][at];
            r->order[g][at] = r->member[g][k];
        }
        r->args[g] = SW_OPTS(sw_members_args, .members = r->order[g], .n = N,
                             .feed = g < 2 ? feed : NULL, .mode = SW_TRAIN, .own_steps = 1,
                             .steps = (uint32_t)g + 1);
        if (g < 2)
            OK(sw_member_knob_set(r->order[g][1], r->shape[g]->factor, 0.5f));
    }
    return r;
}

/* A run that saves, after so many steps. */
static run *run_kept(const sw_feed *feed, const run_opts *o, int steps)
{
    run *r = run_new(feed, o);
    OK(run_keep(r, o));
    train(r, steps);
    return r;
}

/* All that members are, in the order of the lists; freed when the test ends. */
static unsigned char *bytes_of(const run *r, size_t *n)
{
    *n = 0;
    for (int g = 0; g < G; g++)
        *n += N * sw_members_packed_bytes(r->group[g]);
    unsigned char *all = sw_block(*n), *at = all;
    for (int g = 0; g < G; g++)
        for (int k = 0; k < N; k++) {
            OK(sw_member_pack(r->order[g][k], at, sw_members_packed_bytes(r->group[g])));
            at += sw_members_packed_bytes(r->group[g]);
        }
    return all;
}

static bool has_bytes(const run *r, const unsigned char *bytes, size_t n)
{
    size_t now;
    const unsigned char *its = bytes_of(r, &now);
    return n == now && memcmp(its, bytes, n) == 0;
}

static sw_feed *begin_test(void)
{
    static int tests_begun; /* each has a file without generations of the others */
    char name[32];
    snprintf(name, sizeof name, "members%d", tests_begun++);
    snprintf(path, sizeof path, "%s", sw_temp_path(name));
    return small_feed(small_data(SAMPLES), BATCH, 0);
}

static sw_status load(run *r)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    OK(sw_checkpoint_find(r->checkpoint, path, &found));
    CU_ASSERT_EQUAL(found.found, 1);
    return sw_checkpoint_load(r->checkpoint);
}

/* ---- going on ---------------------------------------------------------------------------- */

/* Saved in the middle, while it goes on; loaded by a run of other seeds and slots. */
SW_TEST("a run goes on as if it had never stopped")
{
    sw_feed *feed = begin_test();
    sw_dice dice = {3};
    for (int round = 0; round < 12; round++) {
        const size_t mark = sw_after_mark();
        const int before = (int)sw_dice_below(&dice, 9),
                  behind = 1 + (int)sw_dice_below(&dice, 6);
        const run_opts first = {.threads = 1 + round % 3, .no_copy = round % 2, .seed = 5};
        const run_opts second = {.threads = 1 + round % 2, .seed = 77};
        run *a = run_new(feed, &first);
        OK(run_keep(a, &first));
        a->walk.fails_at = round % 3 == 0 ? 2 : UINT64_MAX;
        train(a, before);
        OK(sw_checkpoint_take(a->checkpoint, (uint64_t)before));
        OK(sw_checkpoint_write(a->checkpoint));
        a->walk.fails_at = UINT64_MAX;
        train(a, behind);
        OK(sw_checkpoint_wait(a->checkpoint));
        run *b = run_new(feed, &second);
        OK(run_keep(b, &(run_opts){.no_path = true}));
        train(b, round % 4);
        OK(load(b));
        train(b, behind);
        size_t n;
        const unsigned char *its = bytes_of(a, &n);
        SW_CHECK(has_bytes(b, its, n), "round %d: %d steps and %d", round, before, behind);
        sw_after_since(mark); /* the next one saves to its file */
    }
}

/* The copy is of the moment that it was taken at. */
SW_TEST("a take is a copy")
{
    sw_feed *feed = begin_test();
    const run_opts opts = {.threads = 2, .seed = 5};
    run *a = run_new(feed, &opts);
    run *b = run_new(feed, &(run_opts){.threads = 1, .seed = 9});
    OK(run_keep(a, &opts));
    OK(run_keep(b, &(run_opts){.no_path = true}));
    train(a, 3);
    OK(sw_checkpoint_take(a->checkpoint, 3));
    size_t n;
    unsigned char *then = bytes_of(a, &n);
    train(a, 2);
    for (int g = 0; g < G; g++) /* the file needs them no more */
        for (int k = 0; k < N; k++)
            sw_member_end(a->member[g][k]);
    OK(sw_checkpoint_write(a->checkpoint));
    OK(sw_checkpoint_wait(a->checkpoint));
    OK(load(b));
    CU_ASSERT(has_bytes(b, then, n));
    REFUSED(sw_checkpoint_take(a->checkpoint, 4), SW_INVALID, "member 0 of small4 was ended");
    REFUSED(sw_checkpoint_save(a->checkpoint, 4), SW_INVALID, "was ended");
}

SW_TEST("all that is saved may be members")
{
    run *a = run_new(begin_test(), &(run_opts){.seed = 5});
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = path);
    OK(sw_checkpoint_create(&a->checkpoint, a->exec, &opts));
    REFUSED(sw_checkpoint_save(a->checkpoint, 1), SW_INVALID,
            "no models, no members and no bytes");
    OK(sw_checkpoint_members(a->checkpoint, a->group[0], a->order[0], N));
    OK(sw_checkpoint_members(a->checkpoint, a->group[1], a->order[1], N));
    OK(sw_checkpoint_members(a->checkpoint, a->group[2], a->order[2], N));
    train(a, 2);
    OK(sw_checkpoint_save(a->checkpoint, 2));
    size_t n;
    unsigned char *then = bytes_of(a, &n);
    train(a, 3);
    OK(load(a));
    CU_ASSERT(has_bytes(a, then, n));
}

/* ---- the file ---------------------------------------------------------------------------- */

static const swi_tensors_entry *entry(swi_tensors *file, const char *name, int rank,
                                      int64_t first, int64_t second)
{
    const swi_tensors_entry *e = swi_tensors_find(file, name);
    SW_CHECK(e != NULL && e->rank == rank && e->dim[0] == first &&
                 (rank < 2 || e->dim[1] == second),
             "%s", name);
    return e;
}

/* Member k is row k of each tensor. */
SW_TEST("tensors are stacked")
{
    sw_feed *feed = begin_test();
    const run_opts opts = {.seed = 5};
    swi_tensors *file = NULL;
    float weight[N][7][SMALL_WIDTH], its[7][SMALL_WIDTH], knobs[N][8];
    uint64_t record[N][4];
    unsigned char state[N][STATE];
    run *a = run_kept(feed, &opts, 3);
    OK(sw_checkpoint_save(a->checkpoint, 2));
    OK(swi_tensors_open(&file, path));
    const swi_tensors_entry *e = entry(file, "small7/f1.weight", 3, N, 7);
    OK(swi_tensors_read(file, e, weight, sizeof weight));
    for (int k = 0; k < N; k++) {
        OK(sw_member_read(a->order[1][k], a->shape[1]->f1.weight, its, sizeof its));
        CU_ASSERT(memcmp(its, weight[k], sizeof its) == 0);
    }
    e = entry(file, "small7/stepwell.members", 2, N, 32);
    OK(swi_tensors_read(file, e, record, sizeof record));
    for (uint64_t k = 0; k < N; k++) {
        uint64_t steps, batches;
        OK(sw_member_progress(a->order[1][k], &steps, &batches));
        CU_ASSERT(record[k][1] == steps && record[k][2] == batches && record[k][3] == 0);
        CU_ASSERT(steps == 6 && (record[k][0] - 5) % 10 == 0);
    }
    e = entry(file, "small7/stepwell.knobs", 2, N, a->shape[1]->model->n_knobs);
    CU_ASSERT_FATAL(e->end - e->begin <= sizeof knobs);
    float *at = &knobs[0][0];
    OK(swi_tensors_read(file, e, at, (size_t)(e->end - e->begin)));
    CU_ASSERT(at[1 * a->shape[1]->model->n_knobs] == 0.5f && at[0] == 1.0f);
    e = entry(file, "walk/stepwell.bytes", 2, N, STATE);
    OK(swi_tensors_read(file, e, state, sizeof state));
    unsigned char packed[512];
    const size_t bytes = sw_members_packed_bytes(a->group[2]);
    CU_ASSERT_FATAL(bytes <= sizeof packed);
    for (int k = 0; k < N; k++) {
        OK(sw_member_pack(a->order[2][k], packed, bytes));
        CU_ASSERT(memcmp(packed + bytes - 64, state[k], STATE) == 0);
    }
    CU_ASSERT_PTR_NOT_NULL(swi_tensors_find(file, "l.weight")); /* a single model has none */
    swi_tensors_close(file);
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void refuse(const sw_feed *feed, run_opts opts, const char *part)
{
    size_t n;
    opts.no_path = true;
    run *b = run_new(feed, &opts);
    OK(run_keep(b, &opts));
    unsigned char *then = bytes_of(b, &n);
    const sw_status status = load(b);
    SW_CHECK((status == SW_INVALID || status == SW_FORMAT) &&
                 strstr(sw_last_error(), part) != NULL,
             "'%s' is not in '%s'", part, sw_last_error());
    CU_ASSERT(has_bytes(b, then, n));
}

SW_TEST("other runs are refused by name")
{
    sw_feed *feed = begin_test();
    const run_opts opts = {.seed = 5};
    OK(sw_checkpoint_save(run_kept(feed, &opts, 3)->checkpoint, 2));
    refuse(feed, (run_opts){.n = 5}, "6 members are of 'small7' there and 5 here");
    refuse(feed, (run_opts){.groups = 2}, "3 groups of members; the run that goes on has 2");
    refuse(feed, (run_opts){.walk_name = "other"}, "group 2 is 'walk' there and 'other' here");
    refuse(feed, (run_opts){.state_bytes = 25}, "24 bytes of state there and 25 bytes here");
    refuse(feed, (run_opts){.hidden = 8}, "group 1 is 'small7' there and 'small8' here");
}

/* The same name, and another width: the tensors tell. */
SW_TEST("other layouts are refused by name")
{
    (void)begin_test();
    for (int second = 0; second < 2; second++) {
        sw_exec *exec = NULL;
        sw_model *shape = NULL;
        sw_members *all = NULL;
        sw_member member[1];
        sw_checkpoint *c = NULL;
        static plan none = {UINT64_MAX};
        OK(sw_exec_create(&exec, NULL));
        OK(sw_model_create(&shape, "one"));
        (void)sw_linear_new(shape, "l", 3, 4 + second);
        const sw_members_opts opts =
            SW_OPTS(sw_members_opts, .shape = shape, .callback = walk_step, .user = &none);
        OK(sw_members_create(&all, exec, &opts));
        small_members(member, 1, all, 1); /* one is stacked too */
        OK(sw_checkpoint_create(&c, exec, &SW_OPTS(sw_checkpoint_opts, .path = path)));
        OK(sw_checkpoint_members(c, all, member, 1));
        OK(sw_checkpoint_find(c, NULL, &SW_OPTS(sw_checkpoint_found)));
        if (second)
            REFUSED(sw_checkpoint_load(c), SW_FORMAT,
                    "'one/l.weight' is F32 (1, 4, 3); the run needs F32 (1, 5, 3)");
        else
            OK(sw_checkpoint_save(c, 1));
        sw_checkpoint_destroy(c);
        sw_members_destroy(all);
        sw_model_destroy(shape);
        sw_exec_destroy(exec);
    }
}

SW_TEST("lists that cannot be kept are refused")
{
    sw_feed *feed = begin_test();
    const run_opts opts = {.seed = 5, .groups = 1};
    run *a = run_new(feed, &opts);
    run *other = run_new(feed, &(run_opts){.seed = 6});
    OK(run_keep(a, &opts));
    sw_checkpoint *c = a->checkpoint;
    const size_t bytes = sw_checkpoint_bytes(c);
    sw_member list[N];
    memcpy(list, a->order[1], sizeof list);
    REFUSED(sw_checkpoint_members(c, a->group[0], a->order[0], N), SW_INVALID, "kept already");
    REFUSED(sw_checkpoint_members(c, a->group[1], list, 0), SW_INVALID, "at least one member");
    REFUSED(sw_checkpoint_members(c, a->group[1], NULL, 1), SW_INVALID, "at least one member");
    list[4] = list[2];
    REFUSED(sw_checkpoint_members(c, a->group[1], list, N), SW_INVALID, "member 4 is named");
    list[4] = a->order[0][0];
    REFUSED(sw_checkpoint_members(c, a->group[1], list, N), SW_INVALID, "belongs to others");
    REFUSED(sw_checkpoint_members(c, other->group[1], other->order[1], N), SW_INVALID,
            "of the exec of the checkpoint");
    CU_ASSERT_EQUAL(sw_checkpoint_bytes(c), bytes);
    OK(sw_checkpoint_members(c, a->group[1], a->order[1], N));
    CU_ASSERT_EQUAL(sw_checkpoint_bytes(c), bytes + N * sw_members_bytes(a->group[1]));
    OK(sw_checkpoint_save(c, 1));
}

/* Members are in the middle of a step there. */
static sw_status saves_itself(sw_member_view *view, void *user)
{
    sw_checkpoint *const *c = user;
    view->score = sw_checkpoint_save(*c, 1) == SW_BUSY && sw_checkpoint_load(*c) != SW_OK;
    return SW_OK;
}

SW_TEST("callbacks save nothing")
{
    (void)begin_test();
    sw_checkpoint *c = NULL;
    sw_exec *exec = NULL;
    sw_members *all = NULL;
    sw_member member;
    double score = 0.0;
    small *shape = small_new(3);
    OK(sw_exec_create(&exec, NULL));
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .callback = saves_itself, .user = &c);
    OK(sw_members_create(&all, exec, &opts));
    OK(sw_member_new(&member, all, 1));
    OK(sw_checkpoint_create(&c, exec, &SW_OPTS(sw_checkpoint_opts, .path = path)));
    OK(sw_checkpoint_members(c, all, &member, 1));
    OK(sw_checkpoint_save(c, 1));
    OK(sw_members_run(all, &SW_OPTS(sw_members_args, .members = &member, .n = 1)));
    OK(sw_members_metric(all, "score", &score, 1));
    CU_ASSERT_EQUAL(score, 1.0);
    OK(sw_checkpoint_save(c, 2));
    sw_checkpoint_destroy(c);
    sw_members_destroy(all);
    sw_exec_destroy(exec);
}

SW_TEST("every flipped bit is refused")
{
    sw_feed *feed = begin_test();
    const run_opts opts = {.seed = 5};
    run *a = run_kept(feed, &opts, 3);
    OK(sw_checkpoint_save(a->checkpoint, 2));
    size_t bytes;
    unsigned char *then = bytes_of(a, &bytes);
    sw_damage d = {path, .bits = sw_file_bytes(path) / 65 | 1};
    while (sw_damage_next(&d)) {
        sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
        const sw_status status = sw_checkpoint_find(a->checkpoint, path, &found);
        SW_CHECK(status == SW_FORMAT, "%s: %s", d.what, sw_status_name(status));
        SW_CHECK(sw_checkpoint_load(a->checkpoint) == SW_INVALID, "%s", d.what);
    }
    CU_ASSERT(d.n_changes >= 500);
    OK(load(a));
    CU_ASSERT(has_bytes(a, then, bytes));
}

/* ---- failures and memory ----------------------------------------------------------------- */

typedef struct {
    run *r;
    bool load;
} life;

/* A checkpoint of all, a save or a load of it, and its end. */
static sw_status saved_life(void *arg)
{
    const life *l = arg;
    l->r->checkpoint = NULL;
    sw_status status = run_keep(l->r, &(run_opts){.no_path = l->load});
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    if (status == SW_OK && l->load)
        status = sw_checkpoint_find(l->r->checkpoint, path, &found);
    if (status == SW_OK)
        status = l->load ? sw_checkpoint_load(l->r->checkpoint)
                         : sw_checkpoint_save(l->r->checkpoint, 3);
    sw_checkpoint_destroy(l->r->checkpoint);
    l->r->checkpoint = NULL;
    return status;
}

SW_TEST("every call can fail")
{
    run *a = run_new(begin_test(), &(run_opts){.seed = 5});
    train(a, 2);
    life l = {a, false};
    OK(saved_life(&l));
    size_t n;
    unsigned char *then = bytes_of(a, &n);
    for (int of = 0; of < 2; of++) {
        sw_sites sites = {SW_FAULT_MEMORY};
        l.load = of == 1;
        while (sw_sites_next(&sites))
            (void)SW_AT_SITE(&sites, saved_life(&l));
        CU_ASSERT(sites.failed > 20);
    }
    CU_ASSERT(has_bytes(a, then, n));
}

typedef struct {
    double take, write, load; /* microseconds for each member */
    double heap;              /* bytes for each, while loading */
} costs;

/* A save of so many, which takes no allocation for a member, and a load. */
static costs save_many(size_t n)
{
    sw_budget *budget = NULL;
    sw_exec *exec = NULL;
    sw_members *all = NULL;
    sw_checkpoint *c = NULL;
    costs cost;
    small *shape = small_new(3);
    OK(sw_budget_create(&budget, (size_t)1 << 30));
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .budget = budget)));
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .fn = small_step, .user = shape);
    OK(sw_members_create(&all, exec, &opts));
    sw_member *member = sw_block(n * sizeof *member);
    small_members(member, n, all, 1);
    OK(sw_checkpoint_create(&c, exec, &SW_OPTS(sw_checkpoint_opts, .path = path)));
    const size_t before = sw_budget_used(budget);
    OK(sw_checkpoint_members(c, all, member, n));
    CU_ASSERT_EQUAL(sw_checkpoint_bytes(c), n * sw_members_bytes(all));
    CU_ASSERT(sw_budget_used(budget) - before >= n * sw_members_bytes(all) &&
              sw_budget_used(budget) - before <= n * sw_members_bytes(all) + 8192);
    OK(sw_checkpoint_save(c, 1));
    sw_heap_stats files;
    const uint64_t calls = sw_mem_calls();
    uint64_t start = sw_clock_ns();
    OK(sw_checkpoint_take(c, 2));
    cost.take = (double)(sw_clock_ns() - start) / 1e3 / (double)n;
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    start = sw_clock_ns();
    OK(sw_checkpoint_write(c));
    OK(sw_checkpoint_wait(c));
    cost.write = (double)(sw_clock_ns() - start) / 1e3 / (double)n;
    CU_ASSERT(sw_mem_calls() - calls < 100); /* whatever n is */
    OK(sw_checkpoint_find(c, NULL, &SW_OPTS(sw_checkpoint_found)));
    start = sw_clock_ns();
    OK(sw_checkpoint_load(c));
    cost.load = (double)(sw_clock_ns() - start) / 1e3 / (double)n;
    sw_heap_read(SW_HEAP_FILES, &files);
    cost.heap = (double)files.peak_bytes / (double)n;
    sw_checkpoint_destroy(c);
    sw_members_destroy(all);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
    return cost;
}

SW_TEST("many members are saved in linear time")
{
    (void)begin_test();
    const uint32_t n = sw_tests_full() ? 100000 : 20000;
    const costs few = save_many(1000), many = save_many(n);
    sw_note("take %.2f and %.2f us for each of 1,000 and %u members, write %.2f and %.2f, "
            "load %.2f and %.2f; %.0f bytes of heap",
            few.take, many.take, n, few.write, many.write, few.load, many.load, many.heap);
    CU_ASSERT(many.heap < 4096.0);
    CU_ASSERT(many.take < 100.0 && many.write < 100.0 && many.load < 100.0); /* 10 s of all */
}
