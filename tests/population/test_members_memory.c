/* Memory of members: plans within a limit, no allocation and no page fault while they train,
 * and every allocation that can fail. */
#include "alloc/base/poison.h"
#include "tests/population/small_net.h"
#include "tests/support/heap_sweep.h"
#include <sys/resource.h>

SW_TESTS("memory of members")

enum { N = 9, BATCH = 16 };

/* ---- plans ------------------------------------------------------------------------------- */

enum { DEPTH = 8, WIDE = 32 };

typedef struct {
    sw_model *model;
    sw_linear layer[DEPTH];
    sw_optimizer *opt;
} deep;

/* Its activations are most of a plan; they can be recomputed. */
static void deep_step(sw_ctx *ctx, void *user)
{
    deep *t = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < DEPTH; i++)
        x = sw_tanh(ctx, sw_apply_linear(ctx, t->layer[i], x));
    const sw_value loss = sw_mse(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    sw_backward(ctx, loss, &t->opt, 1);
    sw_update(ctx, t->opt);
}

typedef struct {
    deep shape;
    sw_members *all;
    sw_member member[N];
    sw_members_args args;
} scene;

static void scene_fill(scene *s, sw_exec *exec, const sw_feed *feed, size_t arena_bytes)
{
    {
        char name[8];
        OK(sw_model_create(&s->shape.model, "deep"));
        for (int i = 0; i < DEPTH; i++) {
            snprintf(name, sizeof name, "f%d", i);
            s->shape.layer[i] = sw_linear_new(s->shape.model, name, WIDE, WIDE);
        }
        const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
        OK(sw_optimizer_create(&s->shape.opt, s->shape.model, &opts));
    }
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = s->shape.model, .fn = deep_step, .user = &s->shape,
                .arena_bytes = arena_bytes);
    OK(sw_members_create(&s->all, exec, &opts));
    small_members(s->member, N, s->all, 7);
    s->args = SW_OPTS(sw_members_args, .members = s->member, .n = N, .feed = feed,
                      .mode = SW_TRAIN, .own_steps = 1, .steps = 5);
}

static void scene_end(scene *s)
{
    sw_members_destroy(s->all);
    sw_model_destroy(s->shape.model);
}

static size_t least_named(void)
{
    static const char before[] = "arena_bytes must be at least ";
    const char *at = strstr(sw_last_error(), before);
    return at != NULL ? (size_t)sw_number_of(at + strlen(before)) : 0;
}

/* Every limit down to the least: the same bits, and never more bytes than it. */
SW_TEST("a plan within a limit has the same bits")
{
    sw_dataset *data = NULL;
    OK(sw_dataset_vectors(&data, 150, WIDE, 3));
    const sw_feed *feed = small_feed(data, 64, 0);
    sw_exec *exec = small_exec(1), *other = small_exec(1);
    scene plain, tight;
    size_t high = 0, least = 0, bytes = 0, one_batch = sw_feed_bytes(feed);
    scene_fill(&plain, exec, feed, 0);
    OK(sw_members_plan(plain.all, &plain.args, &bytes));
    OK(sw_members_run(plain.all, &plain.args));
    high = bytes - one_batch;
    scene_fill(&tight, other, feed, 64);
    REFUSED(sw_members_plan(tight.all, &tight.args, &bytes), SW_NOMEM, "(got 64)");
    least = least_named();
    CU_ASSERT_FATAL(least > 64 && least < high);
    REFUSED(sw_members_run(tight.all, &tight.args), SW_NOMEM, "arena_bytes must be at least");
    CU_ASSERT_EQUAL(least_named(), least);
    scene_end(&tight);
    sw_note("%zu bytes, at least %zu", high, least);
    for (size_t limit = least; limit <= high; limit += (high - least) / 3) {
        sw_exec *own = made_exec(&SW_OPTS(sw_exec_opts, .threads = 2));
        scene_fill(&tight, own, feed, limit);
        OK(sw_members_run(tight.all, &tight.args));
        OK(sw_members_plan(tight.all, &tight.args, &bytes));
        SW_CHECK(bytes <= 2 * (limit + one_batch), "%zu bytes with a limit of %zu", bytes,
                 limit);
        for (int k = 0; k < N; k++)
            SW_CHECK(small_same(plain.member[k], tight.member[k]), "limit %zu: member %d",
                     limit, k);
        scene_end(&tight);
    }
    scene_fill(&tight, other, feed, least - 1);
    REFUSED(sw_members_run(tight.all, &tight.args), SW_NOMEM, "arena_bytes must be at least");
    CU_ASSERT_EQUAL(least_named(), least);
    scene_end(&tight);
    scene_end(&plain);
    sw_dataset_destroy(data);
}

/* A plan needs no data, and a run after it takes nothing more of the budget. */
SW_TEST("a plan takes the memory of a run")
{
    sw_budget *budget = made_budget((size_t)4 << 20);
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = 3, .budget = budget));
    const small *shape = small_new(20);
    const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = shape->model,
                                         .fn = small_step, .user = (void *)(uintptr_t)shape);
    sw_members *all = NULL;
    sw_member member[N];
    size_t bytes = 0;
    double loss;
    OK(sw_members_create(&all, exec, &opts));
    small_members(member, N, all, 1);
    const size_t before = sw_budget_used(budget);
    const sw_array in[2] = {{SW_F32, SW_SHAPE(BATCH, SMALL_WIDTH), NULL},
                            {SW_F32, SW_SHAPE(BATCH, SMALL_WIDTH), NULL}};
    sw_members_args args = SW_OPTS(sw_members_args, .members = member, .n = N, .inputs = in,
                                   .n_inputs = 2, .mode = SW_TRAIN);
    OK(sw_members_plan(all, &args, NULL));
    OK(sw_members_plan(all, &args, &bytes));
    CU_ASSERT(bytes > 0 && bytes % 3 == 0);
    CU_ASSERT_EQUAL(sw_budget_used(budget), before + bytes);
    REFUSED(sw_members_metric(all, "loss", &loss, 1), SW_INVALID, "nothing has run yet");
    REFUSED(sw_members_run(all, &args), SW_INVALID, "data");
    const sw_feed *feed = small_feed(small_data(100), BATCH, 0);
    args.inputs = NULL;
    args.n_inputs = 0;
    args.feed = feed;
    OK(sw_members_plan(all, &args, &bytes));
    const size_t planned = sw_budget_used(budget);
    CU_ASSERT_EQUAL(planned, before + bytes);
    args.steps = 20;
    OK(sw_members_run(all, &args));
    CU_ASSERT_EQUAL(sw_budget_used(budget), planned);
    sw_members_destroy(all);
}

/* ---- nothing is taken while members train ------------------------------------------------ */

static long page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : -1;
}

SW_TEST("steps bring no allocation and no page fault")
{
    enum { CALLS = 1000, WARM = 30 };
    sw_exec *exec = small_exec(2);
    sw_members *group[2] = {small_group(exec, small_new(20), NULL),
                            small_group(exec, small_new(33), NULL)};
    sw_member member[2][N];
    double loss[N], mean[N];
    sw_status ended[N];
    const sw_feed *feed = small_feed(small_data(100), BATCH, 0);
    sw_members_args args[2];
    for (int g = 0; g < 2; g++) {
        small_members(member[g], N, group[g], 1);
        args[g] = SW_OPTS(sw_members_args, .members = member[g], .n = N, .feed = feed,
                          .mode = SW_TRAIN, .own_steps = 1, .steps = 3);
    }
    uint64_t calls = 0;
    long faults = 0;
    for (int i = 0; i < WARM + CALLS; i++) {
        if (i == WARM) {
            calls = sw_mem_calls();
            faults = page_faults();
        }
        const sw_status status = sw_members_run_all(group, args, 2);
        if (status != SW_OK || sw_members_metric(group[0], "loss", loss, N) != SW_OK ||
            sw_members_mean(group[1], "loss", mean, N) != SW_OK ||
            sw_members_status(group[1], ended, N) != SW_OK)
            SW_CHECK(false, "%s", sw_last_error());
        if (i % 10 == 0)
            OK(sw_member_copy(member[0][i % N], member[0][(i + 1) % N]));
    }
    const long more = page_faults() - faults;
    sw_note("%llu calls, %ld page faults", (unsigned long long)(sw_mem_calls() - calls), more);
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    if (!SW_SANITIZED) /* which has pages of its own */
        CU_ASSERT_EQUAL(more, 0);
}

/* ---- failures ---------------------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    small *shape;
    const sw_feed *feed;
    bool plan;
} life;

/* Two groups, a run of both or a plan of each; all is given back. */
static sw_status run_life(void *arg)
{
    const life *l = arg;
    sw_members *group[2] = {NULL, NULL};
    sw_member member[2][3];
    sw_members_args args[2];
    sw_status status = SW_OK;
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = l->shape->model, .fn = small_step, .user = l->shape);
    for (int g = 0; g < 2 && status == SW_OK; g++) {
        status = sw_members_create(&group[g], l->exec, &opts);
        for (int k = 0; k < 3 && status == SW_OK; k++)
            status = sw_member_new(&member[g][k], group[g], 1);
        args[g] = SW_OPTS(sw_members_args, .members = member[g], .n = 3, .feed = l->feed,
                          .mode = SW_TRAIN, .own_steps = 1, .steps = 2);
    }
    if (l->plan)
        for (int g = 0; g < 2 && status == SW_OK; g++)
            status = sw_members_plan(group[g], &args[g], NULL);
    else if (status == SW_OK)
        status = sw_members_run_all(group, args, 2);
    uint64_t steps = 0;
    if (status != SW_OK && group[1] != NULL && sw_members_count(group[1]) == 3) {
        OK(sw_member_progress(member[0][0], &steps, NULL)); /* all groups or none */
        CU_ASSERT_EQUAL(steps, 0);
    }
    sw_members_destroy(group[0]);
    sw_members_destroy(group[1]);
    return status;
}

/* Addresses that cannot be had are asked for again, fewer, and a smaller fault may be
 * survived: a call that fails once may succeed. */
static void sweep(life *l)
{
    sw_sites sites = {SW_FAULT_MEMORY};
    OK(run_life(l));
    while (sw_sites_next(&sites))
        (void)SW_AT_SITE(&sites, run_life(l));
    CU_ASSERT(sites.failed > 60 && sites.k - sites.failed < 30);
    OK(run_life(l));
}

SW_TEST("every allocation of a run can fail")
{
    life l = {.exec = small_exec(2),
              .shape = small_new(5),
              .feed = small_feed(small_data(30), BATCH, 0)};
    sweep(&l);
}

SW_TEST("every allocation of a plan can fail")
{
    life l = SW_INIT(.exec = small_exec(2), .shape = small_new(5),
                     .feed = small_feed(small_data(30), BATCH, 0), .plan = true);
    sweep(&l);
}
