/* Resizing: members, what it costs, optimizers' states, what is refused, and failures. */
#include "runtime/population/members_internal.h"
#include "tests/population/resize_nets.h"
#include "tests/support/heap_sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const resize_spec narrow = {RN_CHAIN, 2, {24, 16}, NULL};
static const resize_spec wide = {RN_CHAIN, 2, {37, 21}, NULL};
static const sw_resize_opts usual = {.size = sizeof usual, .seed = 77};

static sw_status resize(sw_exec *exec, resize_net *to, resize_net *from,
                        const sw_resize_opts *opts)
{
    const sw_run_args a = resize_args(to, SW_TRAIN), b = resize_args(from, SW_TRAIN);
    return sw_model_resize(to->model, from->model, exec, &a, &b, opts);
}

static sw_status cost(sw_exec *exec, resize_net *to, resize_net *from, sw_resize_info *out)
{
    const sw_run_args a = resize_args(to, SW_TRAIN), b = resize_args(from, SW_TRAIN);
    *out = SW_OPTS(sw_resize_info);
    return sw_model_resize_plan(to->model, from->model, exec, &a, &b, &usual, out);
}

static resize_net *ready(sw_exec *exec, const resize_spec *spec, uint64_t seed)
{
    resize_net *n = resize_net_for_test(spec);
    OK(sw_model_ready(n->model, exec, seed));
    return n;
}

/* ---- members ----------------------------------------------------------------------------- */

static void end_members(void *members)
{
    sw_members_destroy(members);
}

static sw_members *group_of(sw_exec *exec, resize_net *n)
{
    sw_members *all = NULL;
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = n->model, .fn = resize_step, .user = n);
    OK(sw_members_create(&all, exec, &opts));
    sw_after(end_members, all);
    return all;
}

static sw_members_args group_args(const sw_member *members, size_t n)
{
    return SW_OPTS(sw_members_args, .members = members, .n = n, .inputs = resize_batch(),
                   .n_inputs = 2, .mode = SW_TRAIN);
}

static sw_member member_of(sw_members *all, uint64_t seed)
{
    sw_member member = {NULL, 0, 0};
    OK(sw_member_new(&member, all, seed));
    return member;
}

/* A member that moves from one group to the other is the model that does. */
static void members_are_resized_as_models(void)
{
    sw_exec *exec = net_exec(NULL);
    resize_net *small = ready(exec, &narrow, 1), *large = ready(exec, &wide, 2);
    sw_members *few = group_of(exec, small), *many = group_of(exec, large);
    const sw_member from[] = {member_of(few, 4), member_of(few, 5)};
    const sw_member to[] = {member_of(many, 6), member_of(many, 7)};
    sw_members_args args = group_args(from, 2);
    for (uint64_t k = 0; k < 3; k++) {
        args.step = k;
        OK(sw_members_run(few, &args));
    }
    OK(sw_member_knob_set(from[1], small->factor, 0.25f));
    OK(sw_member_resize(to[1], from[1], &args, &usual));
    OK(sw_member_to_model(small->model, from[1]));
    OK(resize(exec, large, small, &usual));
    CU_ASSERT_EQUAL(sw_knob_get(large->factor), 0.25f);
    void *bytes = net_copy_bytes(large->model);
    OK(sw_member_to_model(large->model, to[1]));
    CU_ASSERT(net_same_bytes(large->model, bytes));
    OK(sw_member_to_model(large->model, to[0]));
    CU_ASSERT(!net_same_bytes(large->model, bytes));
    /* It trains on, and goes back. */
    const sw_members_args on = group_args(to, 2);
    OK(sw_members_run(many, &on));
    OK(sw_member_resize(from[0], to[1], &args, &usual));
    OK(sw_members_run(few, &args));
}

/* Of one shape too: all of it is taken over. */
static void equal_widths_are_a_copy(void)
{
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &wide, 1), *to = ready(exec, &wide, 2);
    sw_resize_info info;
    resize_train(exec, from, 3);
    OK(resize(exec, to, from, NULL));
    CU_ASSERT(net_same(to->model, from->model));
    OK(cost(exec, to, from, &info));
    CU_ASSERT(info.exact == 1 && info.added == 0 && info.dropped == 0);
}

static void members_cost_what_their_plans_say(void)
{
    sw_exec *exec = net_exec(NULL);
    resize_net *small = ready(exec, &narrow, 1), *large = ready(exec, &wide, 2);
    sw_members *few = group_of(exec, small), *many = group_of(exec, large);
    const sw_members_args args = group_args(NULL, 0);
    sw_resize_info info = SW_OPTS(sw_resize_info), of_models;
    OK(sw_members_resize_plan(many, few, &args, NULL, &info));
    CU_ASSERT_EQUAL(info.from_bytes, sw_members_bytes(few));
    CU_ASSERT_EQUAL(info.to_bytes, sw_members_bytes(many));
    OK(cost(exec, large, small, &of_models));
    CU_ASSERT(memcmp(&info, &of_models, sizeof info) == 0);
    CU_ASSERT_EQUAL(info.added, 13 + 5);
    CU_ASSERT_EQUAL(info.dropped, 0);
    CU_ASSERT_EQUAL(info.exact, 1);
    const sw_run_args a = resize_args(large, SW_TRAIN);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &a, &plan));
    CU_ASSERT_EQUAL(info.to_arena_bytes, plan.arena_bytes);
    CU_ASSERT_EQUAL(info.to_bytes, plan.model_bytes);
    OK(cost(exec, small, large, &of_models));
    CU_ASSERT(of_models.dropped == 18 && of_models.added == 0 && of_models.exact == 0);
    CU_ASSERT_EQUAL(of_models.from_arena_bytes, info.to_arena_bytes);
    CU_ASSERT_EQUAL(of_models.to_arena_bytes, info.from_arena_bytes);
}

static void members_that_failed_or_ended_are_refused(void)
{
    sw_exec *exec = net_exec(NULL);
    resize_net *small = ready(exec, &narrow, 1), *large = ready(exec, &wide, 2);
    sw_members *few = group_of(exec, small), *many = group_of(exec, large);
    const sw_member from = member_of(few, 4), to = member_of(many, 5);
    const sw_members_args args = group_args(NULL, 0);
    REFUSED(sw_member_resize(from, from, &args, NULL), SW_INVALID, "different");
    from.of->slots[from.index].damaged = true;
    REFUSED(sw_member_resize(to, from, &args, NULL), SW_STALE, "failed");
    from.of->slots[from.index].damaged = false;
    to.of->slots[to.index].damaged = true;
    OK(sw_member_resize(to, from, &args, NULL));
    CU_ASSERT_FALSE(to.of->slots[to.index].damaged);
    sw_member_end(from);
    REFUSED(sw_member_resize(to, from, &args, NULL), SW_INVALID, "ended");
}

/* ---- states of optimizers ---------------------------------------------------------------- */

static const float *entry_of(resize_net *n, const char *name)
{
    for (uint32_t i = 1; i < n->model->n_entries; i++)
        if (strcmp(n->model->entries[i].name, name) == 0)
            return (const float *)(void *)(n->model->base + n->model->entries[i].offset);
    CU_FAIL_FATAL("no such tensor");
    return NULL;
}

/* f0.weight is (24, 49) and becomes (23, 49); f1.weight (16, 24) becomes (16, 23). Unit 5 goes:
 * its numbers are nowhere, the others' where they belong. */
static void states_go_with_their_units(void)
{
    static const char *const kinds[] = {"adam", "adafactor", "rmsprop", "adagrad", "lion"};
    static const char *const of_rows[] = {"m", "rows", "v", "sum", "m"};
    float utility[24];
    for (int i = 0; i < 24; i++)
        utility[i] = i == 5 ? -1.0f : 1.0f;
    sw_exec *exec = net_exec(NULL);
    for (int k = 0; k < 5; k++) {
        const resize_spec was = {RN_CHAIN, 2, {24, 16}, kinds[k]},
                          is = {RN_CHAIN, 2, {23, 16}, kinds[k]};
        resize_net *from = ready(exec, &was, 1), *to = ready(exec, &is, 2);
        resize_train(exec, from, 3);
        const sw_utility given = {
            .tensor = from->f[0].bias, .axis = 0, .n = 24, .values = utility};
        sw_resize_opts opts = usual;
        opts.utilities = &given;
        opts.n_utilities = 1;
        OK(resize(exec, to, from, &opts));
        char name[48];
        snprintf(name, sizeof name, "f0.weight.%s", of_rows[k]);
        const float *a = entry_of(from, name), *b = entry_of(to, name);
        const size_t width = k == 1 ? 1 : RN_IN;
        SW_CHECK(memcmp(a, b, 5 * width * sizeof *a) == 0, "%s", kinds[k]);
        SW_CHECK(memcmp(a + 6 * width, b + 5 * width, 18 * width * sizeof *a) == 0, "%s",
                 kinds[k]);
        SW_CHECK(a[0] != 0.0f && memcmp(a + 5 * width, b + 5 * width, width * sizeof *a) != 0,
                 "%s", kinds[k]);
        if (k == 1) {
            a = entry_of(from, "f1.weight.cols");
            b = entry_of(to, "f1.weight.cols");
            CU_ASSERT(memcmp(a, b, 5 * sizeof *a) == 0);
            CU_ASSERT(memcmp(a + 6, b + 5, 18 * sizeof *a) == 0);
            CU_ASSERT(memcmp(entry_of(from, "f1.weight.rows"), entry_of(to, "f1.weight.rows"),
                             16 * sizeof *a) == 0);
        }
        resize_train(exec, to, 3);
    }
}

/* ---- what is refused --------------------------------------------------------------------- */

static void refuse_pair(sw_exec *exec, const resize_spec *was, const resize_spec *is,
                        sw_status status, const char *part)
{
    resize_net *from = ready(exec, was, 1), *to = ready(exec, is, 2);
    void *bytes = net_copy_bytes(to->model);
    REFUSED(resize(exec, to, from, &usual), status, part);
    CU_ASSERT(net_same_bytes(to->model, bytes));
    sw_resize_info info;
    REFUSED(cost(exec, to, from, &info), status, part);
}

static void other_nets_are_refused(void)
{
    sw_exec *exec = net_exec(NULL);
    const resize_spec three = {RN_CHAIN, 3, {24, 16, 8}, NULL},
                      other = {RN_RESIDUAL, 0, {24, 16, 8}, NULL},
                      lion = {RN_CHAIN, 2, {37, 21}, "lion"},
                      adamw = {RN_CHAIN, 2, {37, 21}, "adamw"},
                      halves = {RN_GATED, 0, {12}, NULL}, normed = {RN_NORMED, 0, {12}, NULL},
                      more = {RN_NORMED, 0, {14}, NULL},
                      heads = {RN_ATTENTION, 0, {8, 5}, NULL};
    refuse_pair(exec, &narrow, &three, SW_INVALID, "'f3.weight'");
    refuse_pair(exec, &narrow, &other, SW_INVALID, "'stem.weight'");
    refuse_pair(exec, &narrow, &lion, SW_INVALID, "'optimizer0.");
    refuse_pair(exec, &narrow, &adamw, SW_INVALID, "adamw");
    refuse_pair(exec, &halves, &heads, SW_INVALID, "'both.weight'");
    refuse_pair(exec, &normed, &more, SW_UNSUPPORTED, "layer_norm");
    resize_net *from = ready(exec, &normed, 1), *to = ready(exec, &more, 2);
    sw_resize_opts opts = usual;
    opts.approximate = 1;
    OK(resize(exec, to, from, &opts));
    CU_ASSERT(memcmp(entry_of(to, "norm.weight"), entry_of(from, "norm.weight"), 48) == 0);
    resize_net *a = ready(exec, &narrow, 1), *b = ready(exec, &wide, 2);
    REFUSED(resize(exec, a, a, &usual), SW_INVALID, "different");
    a->model->damaged = true;
    REFUSED(resize(exec, b, a, &usual), SW_STALE, "restore");
    a->model->damaged = false;
    b->show_hidden = a->show_hidden = true;
    sw_run_args x = resize_args(b, SW_EVAL), y = resize_args(a, SW_EVAL);
    x.variant = y.variant = 1;
    REFUSED(sw_model_resize(b->model, a->model, exec, &x, &y, &usual), SW_INVALID, "output");
    resize_net *c = resize_net_for_test(&wide);
    REFUSED(resize(exec, c, a, &usual), SW_INVALID, "ready");
    sw_array few[2] = {x.inputs[0], x.inputs[1]};
    few[0].shape.dim[0] = few[1].shape.dim[0] = 5;
    b->show_hidden = a->show_hidden = false;
    x = resize_args(b, SW_EVAL);
    y = resize_args(a, SW_EVAL);
    x.inputs = few;
    REFUSED(sw_model_resize(b->model, a->model, exec, &x, &y, &usual), SW_INVALID, "shape");
}

static void bad_utilities_are_refused(void)
{
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &wide, 1), *to = ready(exec, &narrow, 2);
    float values[37] = {0};
    sw_utility u = {.tensor = from->f[0].bias, .axis = 0, .n = 37, .values = values};
    sw_resize_opts opts = usual;
    opts.n_utilities = 1;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "NULL");
    opts.utilities = &u;
    OK(resize(exec, to, from, &opts));
    values[3] = NAN;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "finite");
    values[3] = 0;
    u.n = 36;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "'f0.bias'");
    u.n = 37;
    u.axis = 1;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "'f0.bias'");
    u.axis = 0;
    u.reserved[1] = 1;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "reserved");
    u.reserved[1] = 0;
    u.tensor = to->f[0].bias;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "one of model");
}

/* ---- nets whose hidden axis goes where it cannot be resized ------------------------------ */

typedef enum {
    ODD_SOFTMAX,
    ODD_SUM,
    ODD_PRODUCT,
    ODD_GROUPS,
    ODD_CLASSES,
    ODD_ROWS,
    ODD_TARGET,
    ODD_UNUSED,
    ODD_INPUT,
    ODD_RANK,
    ODD_KINDS
} odd_kind;

typedef struct {
    odd_kind kind;
    sw_model *model;
    sw_linear f, g;
    sw_embedding e;
    sw_param unused;
} odd_net;

static void odd_step(sw_ctx *ctx, void *user)
{
    odd_net *n = user;
    sw_value x = sw_relu(ctx, sw_apply_linear(ctx, n->f, sw_input(ctx, 0)));
    const sw_value none = {0, 0};
    const int64_t rows = sw_dim(ctx, x, 0), width = sw_dim(ctx, x, 1);
    if (n->kind == ODD_INPUT)
        sw_metric(ctx, "some",
                  sw_mean(ctx,
                          sw_linear_op(ctx, sw_slice(ctx, sw_input(ctx, 0), 1, 0, width),
                                       sw_use(ctx, n->unused), none),
                          0));
    if (n->kind == ODD_SOFTMAX)
        x = sw_softmax(ctx, x);
    if (n->kind == ODD_SUM)
        sw_metric(ctx, "mean", sw_mean(ctx, x, 0));
    if (n->kind == ODD_PRODUCT)
        sw_metric(ctx, "size", sw_mean(ctx, sw_matmul(ctx, x, sw_transpose(ctx, x, 0, 1)), 0));
    if (n->kind == ODD_GROUPS)
        x = sw_flatten(ctx,
                       sw_group_norm_op(ctx, sw_reshape(ctx, x, SW_SHAPE(rows, width, 1, 1)),
                                        none, none, 2, 1e-5f));
    if (n->kind == ODD_TARGET)
        sw_metric(ctx, "loss", sw_mse(ctx, x, sw_tanh(ctx, x)));
    if (n->kind == ODD_ROWS)
        x = sw_add(ctx, x, sw_apply_embedding(ctx, n->e, sw_input(ctx, 1)));
    sw_metric(ctx, "ce", sw_softmax_ce(ctx, sw_apply_linear(ctx, n->g, x), sw_input(ctx, 1)));
}

static void end_odd(void *ends)
{
    sw_model_destroy(((odd_net *)ends)->model);
    free(ends);
}

static odd_net *odd_new(odd_kind kind, bool more)
{
    odd_net *n = calloc(1, sizeof *n);
    sw_after(end_odd, n);
    n->kind = kind;
    OK(sw_model_create(&n->model, "odd"));
    const int64_t width = more && kind != ODD_CLASSES && kind != ODD_ROWS ? 12 : 8;
    n->f = sw_linear_new(n->model, "f", RN_IN, width);
    n->g = sw_linear_new(n->model, "g", width, RN_OUT + (more && kind == ODD_CLASSES));
    if (kind == ODD_ROWS)
        n->e = sw_embedding_new(n->model, "e", RN_OUT + more, width);
    if (kind == ODD_UNUSED)
        n->unused = sw_param_new(n->model, "unused", SW_F32, SW_SHAPE(3 + more), "zeros");
    if (kind == ODD_INPUT)
        n->unused = sw_param_new(n->model, "mask", SW_F32, SW_SHAPE(4, width), "ones");
    if (kind == ODD_RANK)
        n->unused =
            sw_param_new(n->model, "flat", SW_F32, more ? SW_SHAPE(3, 1) : SW_SHAPE(3), "ones");
    return n;
}

static void axes_that_cannot_be_resized_are_named(void)
{
    static const struct {
        sw_status status;
        const char *part;
    } answers[] = {
        {SW_UNSUPPORTED, "softmax"},
        {SW_UNSUPPORTED, "sum"},
        {SW_UNSUPPORTED, "matmul"},
        {SW_UNSUPPORTED, "group_norm"},
        {SW_INVALID, "'g.weight'"},
        {SW_INVALID, "'e.weight'"},
        {SW_INVALID, "the loss mse"},
        {SW_INVALID, "'unused'"},
        {SW_INVALID, "axis 1 of 'mask' cannot have another length: it reaches an input"},
        {SW_INVALID, "'flat'"}};
    sw_exec *exec = net_exec(NULL);
    for (int k = 0; k < ODD_KINDS; k++) {
        odd_net *from = odd_new((odd_kind)k, false), *to = odd_new((odd_kind)k, true);
        sw_run_args a = SW_OPTS(sw_run_args, .fn = odd_step, .user = to, .models = &to->model,
                                .n_models = 1, .inputs = resize_batch(), .n_inputs = 2);
        sw_run_args b = a;
        b.user = from;
        b.models = &from->model;
        sw_resize_info info = SW_OPTS(sw_resize_info);
        REFUSED(sw_model_resize_plan(to->model, from->model, exec, &a, &b, NULL, &info),
                answers[k].status, answers[k].part);
    }
}

/* A width that no table of positions could have, planned without memory. */
static void too_many_positions_are_refused(void)
{
    const resize_spec huge = {RN_CHAIN, 1, {(int64_t)1 << 33}, "sgd"},
                      small = {RN_CHAIN, 1, {8}, "sgd"};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = resize_net_for_test(&small), *to = resize_net_for_test(&huge);
    sw_resize_info info;
    REFUSED(cost(exec, to, from, &info), SW_NOMEM, "too many");
}

/* ---- failures ---------------------------------------------------------------------------- */

typedef struct {
    resize_net *from, *to;
    sw_member member[2];
    unsigned char *bytes; /* of `to`, as it was */
    sw_exec *exec;        /* NULL: one of its own each time */
} scene;

static sw_status resize_model(void *arg)
{
    scene *s = arg;
    sw_exec *exec = s->exec;
    if (exec == NULL)
        SW_TRY(sw_exec_create(&exec, NULL));
    /* An exec may do without some of its memory: such a failure is none of the call's. */
    const bool spent = s->exec == NULL && sw_fault_hits(SW_FAULT_MEMORY) > 0;
    sw_status status = resize(exec, s->to, s->from, &usual);
    if (status == SW_OK)
        memcpy(s->to->model->base, s->bytes, s->to->model->bytes);
    SW_CHECK(net_same_bytes(s->to->model, s->bytes), "a failure changed the model");
    if (spent && status == SW_OK)
        status = sw_error_set(SW_NOMEM, __FILE__, __LINE__, "memory that was not needed");
    if (s->exec == NULL)
        sw_exec_destroy(exec);
    return status;
}

static sw_status resize_member(void *arg)
{
    scene *s = arg;
    const sw_members_args args = group_args(NULL, 0);
    const sw_status status = sw_member_resize(s->member[1], s->member[0], &args, &usual);
    unsigned char *base = swi_member_base(s->member[1].of, s->member[1].index);
    const size_t bytes = sw_members_bytes(s->member[1].of);
    if (status == SW_OK)
        memcpy(base, s->bytes, bytes);
    SW_CHECK(memcmp(base, s->bytes, bytes) == 0, "a failure changed the member");
    return status;
}

static void failures_change_nothing(void)
{
    sw_exec *exec = net_exec(NULL);
    scene s = {.exec = exec};
    s.from = ready(exec, &narrow, 1);
    s.to = ready(exec, &wide, 2);
    resize_train(exec, s.from, 2);
    s.bytes = net_copy_bytes(s.to->model);
    OK(resize_model(&s)); /* its programs are there */
    sw_note("%llu sites, planned",
            (unsigned long long)sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, resize_model, &s));
    s.exec = NULL;
    sw_note("%llu sites, from the beginning",
            (unsigned long long)sw_sweep(SW_FAULT_MEMORY, SW_OK, resize_model, &s));
    s.member[0] = member_of(group_of(exec, s.from), 3);
    s.member[1] = member_of(group_of(exec, s.to), 4);
    OK(sw_member_from_model(s.member[1], s.to->model));
    OK(resize_member(&s));
    sw_note("%llu sites, members",
            (unsigned long long)sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, resize_member, &s));
}

static const sw_test tests[] = {
    {"members are resized as models are", members_are_resized_as_models},
    {"equal widths are a copy", equal_widths_are_a_copy},
    {"members cost what their plans say", members_cost_what_their_plans_say},
    {"members that failed or ended are refused", members_that_failed_or_ended_are_refused},
    {"states of optimizers go with their units", states_go_with_their_units},
    {"other nets are refused by the name of what differs", other_nets_are_refused},
    {"bad utilities are refused", bad_utilities_are_refused},
    {"axes that cannot be resized are named", axes_that_cannot_be_resized_are_named},
    {"too many positions are refused", too_many_positions_are_refused},
    {"failures change nothing", failures_change_nothing},
};
SW_SUITE("resize more", tests)
