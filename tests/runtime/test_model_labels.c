/* Runs of several models: what people read has each model's name before its layers and
 * tensors. In a run of one model there is no such name. */
#include "tests/runtime/nets.h"

SW_TESTS("model labels")

#define BATCH 8

typedef struct {
    sw_model *model[2];
    sw_linear fc1[2], up[2];
    sw_optimizer *opt[2];
    int n;
} pair;

static pair *pair_of(const char *first, const char *second)
{
    const sw_optimizer_opts how = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    const char *const names[] = {first, second};
    pair *p = sw_block(sizeof *p);
    p->n = second != NULL ? 2 : 1;
    for (int i = 0; i < p->n; i++) {
        p->model[i] = made_model(names[i]);
        p->fc1[i] = sw_linear_new(p->model[i], "fc1", 12, 16 + i);
        p->up[i] = sw_linear_new(p->model[i], "block.up", 16 + i, 3);
        OK(sw_optimizer_create(&p->opt[i], p->model[i], &how));
    }
    return p;
}

/* The second layer is called in its own scope, the first in one that the model does not
 * have. */
static sw_value branch(sw_ctx *c, pair *p, int i, sw_value x)
{
    sw_scope_begin(c, "side");
    x = sw_relu(c, sw_apply_linear(c, p->fc1[i], x));
    sw_scope_end(c);
    sw_scope_begin(c, "block");
    x = sw_tanh(c, sw_apply_linear(c, p->up[i], x));
    sw_scope_end(c);
    return x;
}

static void step(sw_ctx *c, void *user)
{
    pair *p = user;
    sw_value x = sw_input(c, 0), loss = sw_mse(c, branch(c, p, 0, x), sw_input(c, 1));
    if (p->n > 1)
        loss = sw_add(c, loss, sw_mse(c, branch(c, p, 1, x), sw_input(c, 1)));
    sw_backward(c, loss, p->opt, p->n);
    for (int i = 0; i < p->n; i++)
        sw_update(c, p->opt[i]);
}

static sw_run_args args_of(pair *p)
{
    static const float x[BATCH * 12], y[BATCH * 3];
    static const sw_array in[] = {{SW_F32, {2, {BATCH, 12}}, x}, {SW_F32, {2, {BATCH, 3}}, y}};
    return SW_OPTS(sw_run_args, .fn = step, .user = p, .models = p->model, .n_models = p->n,
                   .inputs = in, .n_inputs = 2);
}

/* ---- what is shown ----------------------------------------------------------------------- */

typedef struct {
    char text[60000];
    size_t n;
} listing;

static void add(listing *to, const char *name)
{
    const int n = snprintf(to->text + to->n, sizeof to->text - to->n, "[%s]", name);
    CU_ASSERT_FATAL(n > 0 && (size_t)n < sizeof to->text - to->n);
    to->n += (size_t)n;
}

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    add(to, name);
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    add(to, s->name);
    add(to, s->layer);
}

static void see_share(void *to, const sw_share *share)
{
    add(to, share->name);
}

static const char *shown(sw_exec *exec, pair *p, listing *to)
{
    const sw_run_args args = args_of(p);
    const sw_plan_visitor v =
        SW_OPTS(sw_plan_visitor, .to = to, .op = see_op, .storage = see_storage);
    *to = (listing){.n = 0};
    OK(sw_plan_visit(exec, &args, &v));
    OK(sw_plan_shares(exec, &args, see_share, to));
    return to->text;
}

static void check_has(const char *text, const char *const *parts, size_t n, bool wanted)
{
    for (size_t i = 0; i < n; i++)
        SW_CHECK((strstr(text, parts[i]) != NULL) == wanted, "'%s' is %sin %s", parts[i],
                 wanted ? "not " : "", text);
}
#define HAS(text, ...)                                                                         \
    check_has(text, (const char *const[]){__VA_ARGS__},                                        \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), true)
#define HAS_NOT(text, ...)                                                                     \
    check_has(text, (const char *const[]){__VA_ARGS__},                                        \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), false)

SW_TEST("two models are distinguished")
{
    static listing l;
    const char *text = shown(net_exec(NULL), pair_of("teacher", "student"), &l);
    HAS(text, "[side/teacher/fc1 linear]", "[side/student/fc1 linear]",
        "[teacher/block/up linear backward]", "[student/block/up linear backward]",
        "[teacher/fc1 update by adam]", "[student/fc1 update by adam]",
        "[teacher/fc1.weight.grad]", "[student/fc1.weight.grad]", "[teacher/fc1]",
        "[student/block/up]", "[block tanh]", "[teacher/optimizer0]", "[student/optimizer0]");
    HAS_NOT(text, "[fc1]", "[fc1 ", "[block/up]", "[block/up ", "[fc1.weight.grad]");
}

SW_TEST("one model has no name in front")
{
    static listing l;
    const char *text = shown(net_exec(NULL), pair_of("teacher", NULL), &l);
    HAS(text, "[side/fc1 linear]", "[block/up linear backward]", "[fc1.weight.grad]",
        "[block/up]", "[optimizer0]");
    HAS_NOT(text, "teacher");
}

SW_TEST("models of one name have numbers")
{
    static listing l;
    const char *text = shown(net_exec(NULL), pair_of("net", "net"), &l);
    HAS(text, "[side/net#1/fc1 linear]", "[side/net#2/fc1 linear]", "[net#1/fc1]",
        "[net#2/fc1]");
    HAS_NOT(text, "[net/", "/net/");
}

/* ---- out of memory, and profiles --------------------------------------------------------- */

SW_TEST("a refusal names the model")
{
    pair *p = pair_of("teacher", "student");
    const sw_run_args args = args_of(p);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(net_exec(NULL), &args, &plan));
    HAS(plan.holders, "student/fc1.weight (parameter) 832 bytes");
    sw_budget *budget = made_budget(64);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
    REFUSED(sw_plan(net_exec(&opts), &args, &plan), SW_NOMEM, "held by student/fc1.weight");
}

static void end_profile(void *arg)
{
    OK(sw_profile_destroy(arg));
}

SW_TEST("a profile has the names")
{
    static char text[200000];
    pair *p = pair_of("teacher", "student");
    const char *path = sw_temp_path("labels.jsonl");
    sw_profile *profile;
    OK(sw_profile_create(&profile, &SW_OPTS(sw_profile_opts, .path = path)));
    sw_after(end_profile, profile); /* after the exec */
    sw_exec *exec = net_exec(NULL);
    OK(sw_exec_set_profile(exec, profile));
    for (int i = 0; i < 2; i++)
        OK(sw_model_ready(p->model[i], exec, 1));
    const sw_run_args args = args_of(p);
    OK(sw_run(exec, &args));
    OK(sw_profile_flush(profile));
    FILE *file = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    HAS(text, "\"teacher/fc1.weight\"", "\"student/fc1.weight\"", "\"teacher/fc1.weight.m\"",
        "\"teacher/optimizer0.powers\"", "\"side/student/fc1 linear\"");
    HAS_NOT(text, "\"fc1.weight\"");
}
