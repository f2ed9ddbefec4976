/* Constants of a model: placed once, read as they are, neither trained nor written nor
 * saved. */
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("constants")

static const float table[] = {1.0f, -2.0f, 3.0f, 0.5f, 0.25f, -8.0f};
static const int32_t ids[] = {2, 0, 1, 2};
static const uint8_t mask[] = {1, 0, 1, 1};

typedef struct {
    sw_model *model;
    sw_param table, ids, mask, weight;
    sw_optimizer *opt;
    bool assigns;
} consts;

static void end_consts(void *ends)
{
    sw_model_destroy(((consts *)ends)->model);
}

static sw_status declare(consts *k)
{
    const sw_array numbers = {SW_F32, SW_SHAPE(3, 2), table}, rows = {SW_I32, SW_SHAPE(4), ids},
                   bits = {SW_U8, SW_SHAPE(4, 1), mask};
    const sw_optimizer_opts how = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.5f);
    SW_TRY(sw_model_create(&k->model, "constants"));
    k->weight = sw_param_new(k->model, "weight", SW_F32, SW_SHAPE(4, 2), "ones");
    k->table = sw_constant_new(k->model, "table", &numbers);
    k->ids = sw_constant_new(k->model, "ids", &rows);
    k->mask = sw_constant_new(k->model, "mask", &bits);
    return sw_optimizer_create(&k->opt, k->model, &how);
}

/* y = the rows of the table that ids name, where the mask says so, times the weight. */
static void step(sw_ctx *c, void *user)
{
    consts *k = user;
    const sw_value rows = sw_embedding_op(c, sw_use(c, k->ids), sw_use(c, k->table));
    const sw_value x = sw_where(c, sw_use(c, k->mask), rows, sw_full(c, SW_SCALAR, 0.0f));
    const sw_value y = sw_mul(c, x, sw_use(c, k->weight));
    sw_output(c, "y", y);
    if (k->assigns)
        sw_assign(c, k->table, sw_scale_by(c, sw_use(c, k->table), 2.0f));
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    sw_backward(c, sw_sum(c, y, 0), &k->opt, 1);
    sw_update(c, k->opt);
}

static sw_run_args args_of(consts *k, sw_mode mode)
{
    return SW_OPTS(sw_run_args, .fn = step, .user = k, .models = &k->model, .n_models = 1,
                   .mode = mode);
}

static consts *ready_consts(sw_exec *exec)
{
    static consts k;
    memset(&k, 0, sizeof k);
    OK(declare(&k));
    OK(sw_model_ready(k.model, exec, 1));
    sw_after(end_consts, &k);
    return &k;
}

/* The gradient of the weight is what was read. */
SW_TEST("steps read what was declared")
{
    static const float want[] = {0.25f, -8.0f, 0.0f, 0.0f, 3.0f, 0.5f, 0.25f, -8.0f};
    sw_exec *exec = net_exec(NULL);
    consts *k = ready_consts(exec);
    float weight[8], numbers[6];
    sw_array y;
    sw_run_args args = args_of(k, SW_TRAIN);
    OK(sw_run(exec, &args));
    OK(sw_output_get(exec, "y", &y));
    CU_ASSERT_EQUAL(memcmp(y.data, want, sizeof want), 0);
    OK(sw_param_read(k->weight, weight, sizeof weight));
    for (int i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(weight[i], 1.0f - 0.5f * want[i]);
    OK(sw_param_read(k->table, numbers, sizeof numbers));
    CU_ASSERT_EQUAL(memcmp(numbers, table, sizeof table), 0);
    OK(sw_model_ready(k->model, exec, 2)); /* a second time too */
    args.step = 1;
    OK(sw_run(exec, &args));
    OK(sw_output_get(exec, "y", &y));
    CU_ASSERT_EQUAL(memcmp(y.data, want, sizeof want), 0);
}

/* They lie in the model's arena, and no step has bytes for them. */
SW_TEST("a constant is part of the model")
{
    static float large[4096];
    const sw_array values = {SW_F32, SW_SHAPE(4096), large};
    sw_exec *exec = net_exec(NULL);
    consts *k = ready_consts(exec);
    sw_plan_info with = SW_OPTS(sw_plan_info), without = SW_OPTS(sw_plan_info);
    sw_run_args args = args_of(k, SW_TRAIN);
    OK(sw_plan(exec, &args, &without));
    consts more = {.assigns = false};
    OK(declare(&more));
    (void)sw_constant_new(more.model, "large", &values);
    args = args_of(&more, SW_TRAIN);
    OK(sw_plan(exec, &args, &with));
    CU_ASSERT_EQUAL(with.model_bytes, without.model_bytes + sizeof large);
    CU_ASSERT_EQUAL(with.arena_bytes, without.arena_bytes);
    for (int i = 0; i < SW_PHASES; i++)
        CU_ASSERT_EQUAL(with.phase[i].peak_bytes, without.phase[i].peak_bytes + sizeof large);
    sw_model_destroy(more.model);
}

SW_TEST("a constant is not written")
{
    sw_exec *exec = net_exec(NULL);
    consts *k = ready_consts(exec);
    float numbers[6] = {0};
    REFUSED(sw_param_write(k->table, numbers, sizeof numbers), SW_INVALID,
            "'table' must not be a constant");
    k->assigns = true;
    sw_run_args args = args_of(k, SW_EVAL);
    REFUSED(sw_run(exec, &args), SW_INVALID, "'table' is a constant");
    CU_ASSERT_EQUAL(sw_param_count(k->model), 1); /* and not saved */
}

SW_TEST("bad constants are errors of the declarations")
{
    static const struct {
        const char *name;
        sw_array values;
        const char *words;
    } bad[] = {
        {"c", {SW_F32, {1, {6}}, NULL}, "'c': the values of a constant must not be NULL"},
        {"c", {(sw_dtype)77, {1, {6}}, table}, "must be known (got 77)"},
        {"c", {SW_F32, {1, {-6}}, table}, "the dims of 'c' must be at least 1"},
        {"c", {SW_F32, {9, {1}}, table}, "the rank of 'c' must be 0 to 8 (got 9)"},
        {"weight", {SW_F32, {1, {6}}, table}, "two entries are named 'weight'"},
        {"", {SW_F32, {1, {6}}, table}, "1 to"}};
    sw_exec *exec = net_exec(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        consts k = {.assigns = false};
        OK(declare(&k));
        CU_ASSERT_EQUAL(sw_constant_new(k.model, bad[i].name, &bad[i].values).index, 0);
        REFUSED(sw_model_ready(k.model, exec, 1), SW_INVALID, bad[i].words);
        sw_model_destroy(k.model);
    }
}

/* Each member has them, as each model has. */
SW_TEST("members have their constants")
{
    sw_exec *exec = net_exec(NULL);
    consts k = {.assigns = false};
    sw_members *group;
    sw_member member[2];
    OK(declare(&k));
    sw_after(end_consts, &k);
    OK(sw_members_create(&group, exec,
                         &SW_OPTS(sw_members_opts, .shape = k.model, .fn = step, .user = &k)));
    for (int i = 0; i < 2; i++) {
        sw_model *model = NULL;
        float numbers[6];
        OK(sw_member_new(&member[i], group, 5 + (uint64_t)i));
        consts of = {.assigns = false};
        OK(declare(&of));
        model = of.model;
        OK(sw_model_ready(model, exec, 9));
        OK(sw_member_to_model(model, member[i]));
        OK(sw_param_read(sw_param_find(model, "table"), numbers, sizeof numbers));
        CU_ASSERT_EQUAL(memcmp(numbers, table, sizeof table), 0);
        sw_model_destroy(model);
    }
    sw_members_destroy(group);
}

SW_TEST("every allocation may fail")
{
    sw_exec *exec = net_exec(NULL);
    sw_sites sites = {SW_FAULT_MEMORY, .exact = true};
    while (sw_sites_next(&sites)) {
        consts c = {.assigns = false};
        (void)SW_AT_SITE(&sites,
                         declare(&c) != SW_OK ? SW_NOMEM : sw_model_ready(c.model, exec, 1));
        sw_model_destroy(c.model);
    }
    CU_ASSERT(sites.failed > 5 && sites.failed < 200);
}
