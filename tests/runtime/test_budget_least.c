/* The least budget that a refusal names: with it the same plan succeeds, with one byte less it
 * is refused again. Random programs beside others, who have taken models, arenas and slots of
 * the same budget before. */
#include "tests/runtime/random_net.h"

SW_TESTS("least budgets")

#define LOADERS 3

/* All that exists before the plan in question, drawn once and built for several budgets. */
typedef struct {
    int n_loaders;
    sw_loader_opts loader[LOADERS];
    bool later;      /* the last of them is created after the plan, which is informed of it */
    bool told;       /* of those that are there, too */
    bool neighbour;  /* another program was planned */
    bool same_exec;  /* by the same exec */
    bool ran;        /* and has run */
    int model_ready; /* the first model: 0 not yet, 1 in the budget, 2 outside of it */
    bool recompute, immediate;
} setting;

/* It, built. */
typedef struct {
    sw_budget *budget;
    sw_exec *exec, *other, *outside;
    sw_loader *loader[LOADERS];
    random_life life;
    net neighbour;
} scene;

static sw_dataset *samples;

static setting drawn(uint64_t seed)
{
    sw_dice dice = {seed * 977 + 5};
    setting s = {.n_loaders = (int)sw_dice_below(&dice, LOADERS + 1)};
    for (int i = 0; i < s.n_loaders; i++) {
        const int64_t rows = 1 + (int64_t)sw_dice_below(&dice, 60);
        const int slots = 1 + (int)sw_dice_below(&dice, 4);
        s.loader[i] = SW_OPTS(sw_loader_opts, .batch = rows, .slots = slots, .shuffle = 1,
                              .inline_fill = slots == 4 ? -1 : slots == 3);
    }
    s.later = s.n_loaders > 0 && sw_dice_below(&dice, 2) == 0;
    s.told = sw_dice_below(&dice, 2) == 0;
    s.neighbour = sw_dice_below(&dice, 2) == 0;
    s.same_exec = sw_dice_below(&dice, 2) == 0;
    s.ran = sw_dice_below(&dice, 2) == 0;
    s.model_ready = (int)sw_dice_below(&dice, 3);
    s.recompute = sw_dice_below(&dice, 4) != 0;
    s.immediate = sw_dice_below(&dice, 5) == 0;
    return s;
}

static int there(const setting *s)
{
    return s->n_loaders - s->later;
}

static sw_status add_loader(const setting *s, scene *to, int i)
{
    sw_loader_opts opts = s->loader[i];
    opts.budget = to->budget;
    return sw_loader_create(&to->loader[i], samples, &opts);
}

/* The small net that was there first; it never shrinks, so that it takes the same of any
 * budget. */
static sw_status add_neighbour(const setting *s, scene *to)
{
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    const batch b = net_batch(false, 0, 20);
    net *n = &to->neighbour;
    SW_TRY(sw_model_create(&n->model, "neighbour"));
    n->f1 = sw_linear_new(n->model, "f1", NET_PIXELS, 24);
    n->f2 = sw_linear_new(n->model, "f2", 24, NET_CLASSES);
    n->factor = sw_knob_new(n->model, "factor", 1.0f);
    SW_TRY(sw_optimizer_create(&n->opt, n->model, &opts));
    const sw_run_args args = net_args(n, &b);
    sw_exec *exec = s->same_exec ? to->exec : to->other;
    return s->ran ? sw_run(exec, &args) : sw_plan(exec, &args, &SW_OPTS(sw_plan_info));
}

static sw_status build(const setting *s, size_t limit, scene *to)
{
    *to = (scene){0};
    SW_TRY(sw_budget_create(&to->budget, limit));
    const bool shrinks = s->recompute && !(s->neighbour && s->same_exec);
    sw_exec_opts opts =
        SW_OPTS(sw_exec_opts, .seed = 5, .budget = to->budget, .no_recompute = !shrinks);
    SW_TRY(sw_exec_create(&to->exec, &opts));
    opts.no_recompute = 1;
    SW_TRY(sw_exec_create(&to->other, &opts));
    opts.budget = NULL;
    SW_TRY(sw_exec_create(&to->outside, &opts));
    for (int i = 0; i < there(s); i++)
        SW_TRY(add_loader(s, to, i));
    SW_TRY(random_life_begin(&to->life, &seed_net, false, false));
    if (s->model_ready > 0)
        SW_TRY(sw_model_ready(to->life.models[0], s->model_ready == 1 ? to->exec : to->outside,
                              1));
    return s->neighbour ? add_neighbour(s, to) : SW_OK;
}

static void unbuild(scene *at)
{
    for (int i = 0; i < LOADERS; i++)
        sw_loader_destroy(at->loader[i]);
    random_life_end(&at->life);
    sw_model_destroy(at->neighbour.model);
    sw_exec_destroy(at->exec);
    sw_exec_destroy(at->other);
    sw_exec_destroy(at->outside);
    seed_sizes("budget after all", sw_budget_used(at->budget), 0);
    sw_budget_destroy(at->budget);
}

/* The slots of a loader, by the formula of its docs: batches are small here, so that there is
 * one unless a thread is asked for. */
static size_t bytes_of(const sw_loader_opts *o)
{
    const size_t field = (size_t)o->batch * 8 * sizeof(float);
    return (size_t)(o->inline_fill < 0 ? o->slots : 1) * 2 * ((field + 63) / 64 * 64);
}

static sw_run_args args_of(const setting *s, scene *at)
{
    sw_run_args args = random_life_args(&at->life, 1);
    args.immediate = s->immediate;
    for (int i = 0; i < s->n_loaders && (s->told || s->later); i++)
        args.data_bytes += bytes_of(&s->loader[i]);
    return args;
}

static size_t named(void)
{
    const char *at = strstr(sw_last_error(), "does not fit: ");
    return at != NULL ? (size_t)sw_number_of(at + strlen("does not fit: ")) : 0;
}

static size_t slots_of(const setting *s)
{
    size_t bytes = 0;
    for (int i = 0; i < s->n_loaders; i++)
        bytes += bytes_of(&s->loader[i]);
    return bytes;
}

/* All that was planned comes true in that budget. */
static void all_of_it_runs(const setting *s, scene *at)
{
    sw_run_args args = args_of(s, at);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    if (!seed_well(sw_plan(at->exec, &args, &plan), "what was said"))
        return;
    if (s->n_loaders > 0)
        seed_sizes("data", plan.data_bytes, slots_of(s));
    if (s->later)
        seed_well(add_loader(s, at, s->n_loaders - 1), "the last loader");
    seed_well(sw_run(at->exec, &args), "a run in what was said");
    seed_check(sw_budget_used(at->budget) <= sw_budget_limit(at->budget), "budget", "passed");
}

static int n_named, n_shrunk;

/* The number that a budget of `limit` is refused with; 0: it is not. */
static size_t refused_in(const setting *s, size_t limit)
{
    scene at;
    size_t bytes = 0;
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    if (seed_well(build(s, limit, &at), "what was there before")) {
        const sw_run_args args = args_of(s, &at);
        const size_t used = sw_budget_used(at.budget);
        const sw_status status = sw_plan(at.exec, &args, &plan);
        if (status != SW_OK) {
            bytes = named();
            n_shrunk += plan.n_repeats > 0;
            seed_check(status == SW_NOMEM && bytes > limit, "refusal", sw_last_error());
            seed_sizes("budget after a refusal", sw_budget_used(at.budget), used);
        }
    }
    unbuild(&at);
    return bytes;
}

static void named_is_enough(void)
{
    const setting s = drawn(seed_net.seed);
    scene at;
    size_t used = 0;
    if (seed_well(build(&s, SIZE_MAX / 2, &at), "what was there before"))
        used = sw_budget_used(at.budget);
    unbuild(&at);
    const size_t bytes = !seed_failed ? refused_in(&s, used) : 0;
    if (bytes == 0 || seed_failed)
        return;
    n_named++;
    seed_sizes("one byte less", refused_in(&s, bytes - 1), bytes);
    if (seed_well(build(&s, bytes, &at), "what was there before"))
        all_of_it_runs(&s, &at);
    unbuild(&at);
}

SW_TEST("what a refusal names is enough, and one byte less is not")
{
    OK(sw_dataset_vectors(&samples, 60, 8, 1));
    AFTER(sw_dataset_destroy, samples);
    n_named = n_shrunk = 0;
    seed_each(40, 3000, named_is_enough);
    SW_CHECK(getenv("STEPWELL_SEED") != NULL || (n_named > 25 && n_shrunk > 2),
             "%d refusals, %d with repeats", n_named, n_shrunk);
    sw_note("%d refusals, %d of them with repeats", n_named, n_shrunk);
}

static void wide(sw_ctx *ctx, void *user)
{
    const sw_linear *layers = user;
    const sw_value z = sw_apply_linear(ctx, layers[0], sw_input(ctx, 0));
    sw_output(ctx, "z", z);
    sw_output(ctx, "y", sw_apply_linear(ctx, layers[1], sw_swish(ctx, z)));
}

/* The number that such a budget is refused with; 0: it is not. */
static size_t wide_in(size_t limit, sw_plan_info *plan)
{
    static float xs[1030 * 8];
    sw_model *model = made_model("net");
    sw_linear layers[] = {sw_linear_new(model, "first", 8, 1283),
                          sw_linear_new(model, "second", 1283, 6000)};
    const sw_array x = {SW_F32, SW_SHAPE(1030, 8), xs};
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .budget = made_budget(limit)));
    *plan = SW_OPTS(sw_plan_info);
    return sw_plan(exec,
                   &SW_OPTS(sw_run_args, .fn = wide, .user = layers, .models = &model,
                            .n_models = 1, .inputs = &x, .n_inputs = 1, .mode = SW_EVAL),
                   plan) == SW_OK
               ? 0
               : named();
}

/* Strips save less than a twentieth of it, so only a budget asks for them. */
SW_TEST("a refusal counts on strips that save little")
{
    sw_plan_info whole, plan;
    CU_ASSERT_EQUAL(wide_in(SIZE_MAX / 2, &whole), 0);
    const size_t bytes = wide_in(1, &plan);
    SW_CHECK(bytes < whole.model_bytes + whole.arena_bytes, "%zu bytes", bytes);
    CU_ASSERT_EQUAL(wide_in(bytes - 1, &plan), bytes);
    CU_ASSERT_EQUAL(wide_in(bytes, &plan), 0);
    CU_ASSERT(plan.n_repeats == 0 && plan.arena_bytes < whole.arena_bytes);
}

/* ---- loaders ----------------------------------------------------------------------------- */

/* One loader that two execs read, and one that goes: no one says data_bytes. */
SW_TEST("loaders of a budget count in totals by themselves")
{
    sw_loader *kept, *gone;
    const batch b = net_batch(false, 0, 20);
    OK(sw_dataset_vectors(&samples, 60, 8, 1));
    AFTER(sw_dataset_destroy, samples);
    sw_budget *budget = made_budget((size_t)1 << 30);
    const sw_loader_opts opts =
        SW_OPTS(sw_loader_opts, .batch = 20, .budget = budget, .shuffle = 1, .inline_fill = -1);
    OK(sw_loader_create(&kept, samples, &opts));
    AFTER(sw_loader_destroy, kept);
    OK(sw_loader_create(&gone, samples, &opts));
    const size_t one = sw_loader_bytes(kept);
    CU_ASSERT_EQUAL(one,
                    bytes_of(&(sw_loader_opts){.batch = 20, .slots = 2, .inline_fill = -1}));
    for (int i = 0; i < 2; i++) {
        net *n = net_new(false, NULL);
        sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
        sw_run_args args = net_args(n, &b);
        sw_plan_info plan = SW_OPTS(sw_plan_info);
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.data_bytes, i == 0 ? 2 * one : one);
        CU_ASSERT_EQUAL(plan.total_bytes,
                        plan.model_bytes + plan.arena_bytes + plan.data_bytes);
        args.data_bytes = 3 * one; /* one more is to come */
        OK(sw_plan(exec, &args, &plan));
        CU_ASSERT_EQUAL(plan.data_bytes, 3 * one);
        if (i == 0)
            sw_loader_destroy(gone);
    }
    CU_ASSERT_EQUAL(sw_budget_slots(budget), one);
}
