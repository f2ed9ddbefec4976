/* The costs that ops state, against plain counts (plain_costs.h). */
#include "alloc/base/mem.h"
#include "runtime/verify/op_check.h"
#include "runtime/ops/ops.h"
#include "tests/ops/ops_outside.h"
#include "tests/ops/plain_costs.h"
#include "tests/support/made.h"

SW_TESTS("costs")

/* ---- a node ------------------------------------------------------------------------------ */

/* Elements in memory, one after the other. */
static uint64_t plain_bytes(const sw_type *type)
{
    uint64_t n = sw_dtype_bytes(type->dtype);
    for (int i = 0; i < type->shape.rank; i++) {
        int64_t dim = type->shape.dim[i];
        while (i == 0 && type->layout == SW_N16 && dim % 16 != 0)
            dim++;
        n *= (uint64_t)dim;
    }
    return n;
}

static bool seen[SW_OPS_INSIDE]
                [9]; /* which kernels some node has had: forward, then gradients */

/* Operands that the verdict's ops do not read: factors that have more elements than the bound
 * is worth, and what a bound answers for. */
static bool is_read(const swi_trace *t, const swi_node *node, uint32_t i)
{
    const void *attrs = t->attrs + node->attrs;
    if (node->op == SW_OP_product_bound && i < 2)
        return plain_size(plain_type(t, node, 0)) + plain_size(plain_type(t, node, 1)) <=
               (uint64_t)((const swi_bound_attrs *)attrs)->worth;
    return node->op != SW_OP_finite || i > 0 || !((const swi_finite_attrs *)attrs)->is_bounded;
}

/* Ops that plain_costs.c counts, and those that it does not know. */
static bool counted[SW_OPS_INSIDE], unknown[SW_OPS_INSIDE];

/* An op has a plain count for each of its kernels, or for none: then it has to say itself what
 * it costs. */
static bool count_plainly(const swi_trace *t, const swi_node *node, uint64_t *n)
{
    const sw_op_desc *d = swi_op(node->op);
    const bool known = plain_count(t, node, n);
    counted[node->op] |= known;
    unknown[node->op] |= !known;
    SW_CHECK(!counted[node->op] || !unknown[node->op], "%s, gradient %d: no plain count",
             d->name, node->grad);
    SW_CHECK(known ||
                 (node->grad < 0 ? d->operations : d->grads[node->grad].operations) != NULL,
             "%s, gradient %d: it does not say what it costs", d->name, node->grad);
    return known;
}

static void compare_node(const swi_trace *t, const swi_node *node, const char *where)
{
    const char *name = swi_op(node->op)->name;
    uint64_t wanted = 0, bytes = 0;
    if (node->is_view) {
        CU_ASSERT_EQUAL(swi_node_operations(t, node), 0);
        CU_ASSERT_EQUAL(swi_node_bytes(t, node), 0);
        CU_ASSERT_EQUAL(swi_node_cost(t, node), 1);
        return;
    }
    const bool known = count_plainly(t, node, &wanted);
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        if (i >= node->n_in && swi_is_null(node, i - node->n_in))
            continue; /* a gradient that is left out */
        const bool adds = i >= node->n_in && (node->accumulate >> (i - node->n_in) & 1u) != 0;
        bytes += is_read(t, node, i) ? plain_bytes(plain_type(t, node, i)) * (adds ? 2 : 1) : 4;
        wanted += adds ? plain_size(plain_type(t, node, i)) : 0;
    }
    SW_CHECK(!known || swi_node_operations(t, node) == wanted,
             "%s, %s, gradient %d: %llu, counted %llu", where, name, node->grad,
             (unsigned long long)swi_node_operations(t, node), (unsigned long long)wanted);
    SW_CHECK(swi_node_bytes(t, node) == bytes, "%s, %s, gradient %d: %llu bytes, counted %llu",
             where, name, node->grad, (unsigned long long)swi_node_bytes(t, node),
             (unsigned long long)bytes);
    SW_CHECK(swi_node_cost(t, node) >= 1 && swi_node_cost(t, node) <= SWI_COST_MOST, "%s",
             name);
    seen[node->op][node->grad + 1] = true;
}

static void compare(const swi_trace *t, const char *where)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        compare_node(t, &t->nodes[i], where);
}

/* Each program of the exec. */
static void compare_all(const sw_exec *exec, const char *where)
{
    for (uint32_t f = 0; f < exec->n_frames; f++)
        if (exec->frames[f] != NULL)
            compare(&exec->frames[f]->program->trace, where);
}

/* ---- every case of every op -------------------------------------------------------------- */

static sw_exec *exec_of(const sw_exec_opts *opts)
{
    sw_exec *exec = made_exec(opts);
    return exec;
}

static void compare_use(swi_check *c, uint32_t flags, uint32_t only)
{
    swi_check_call call;
    swi_frame *frame = NULL;
    bool fresh = false;
    OK(swi_check_call_fill(c, flags, only, &call));
    OK(swi_check_model_fill(c, c->plain, flags));
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(c->plain, &call.args, &frame, &fresh), SW_OK);
    compare(&frame->program->trace, c->spec->name);
}

/* Plans of the case in a step that uses the op once, with each of its gradients alone, and in
 * one that uses it twice, so that gradients add up. Where an op has several kernels for one
 * gradient, what is kept anyway decides: the outputs, or nothing. */
static void compare_case(swi_check *c, int index)
{
    OK(swi_check_begin(c, index));
    compare_use(c, SWI_CHECK_GIVE, SWI_CHECK_ALL);
    if (c->model != NULL) {
        compare_use(c, SWI_CHECK_TRAIN, SWI_CHECK_ALL);
        compare_use(c, SWI_CHECK_TRAIN | SWI_CHECK_HELD, SWI_CHECK_ALL);
        compare_use(c, SWI_CHECK_TRAIN | SWI_CHECK_TWICE, SWI_CHECK_ALL);
        for (int i = 0; i < c->n_in; i++)
            if (c->in[i].wanted)
                compare_use(c, SWI_CHECK_TRAIN, 1u << i);
    }
    swi_check_end(c);
}

SW_TEST("every case of every op counts what loops count")
{
    static swi_check c;
    memset(&c, 0, sizeof c);
    for (c.id = 0; c.id < SW_OPS_INSIDE; c.id++) {
        c.desc = swi_op(c.id);
        c.plain = exec_of(NULL); /* programs of two ops would have one key */
        for (int i = 0; i < c.desc->n_cases; i++)
            compare_case(&c, i);
    }
    /* Optimizers append the rest. */
    for (c.id = 0; c.id < SW_OPS_INSIDE; c.id++)
        for (int g = -1; g < swi_op(c.id)->n_grads && swi_op(c.id)->n_cases > 0; g++)
            SW_CHECK(swi_op(c.id)->view != NULL || seen[c.id][g + 1],
                     "%s, gradient %d: no case has it", swi_op(c.id)->name, g);
}

/* ---- optimizers -------------------------------------------------------------------------- */

typedef struct {
    sw_model *model;
    sw_linear layer;
    sw_optimizer *opt;
    sw_knob norm;
    int64_t batch;
} net;

static void drop_net(void *arg)
{
    net *n = arg;
    sw_model_destroy(n->model);
    n->model = NULL;
}

static void step(sw_ctx *c, void *user)
{
    const net *n = user;
    const sw_value y = sw_apply_linear(c, n->layer, sw_input(c, 0));
    const sw_value z = sw_swish(c, y);
    sw_backward(c, sw_mean(c, sw_mul(c, z, z), 0), &n->opt, 1);
    if (n->opt->release[0] != SWI_RELEASED)
        sw_clip_norm(c, n->opt, n->norm);
    sw_update(c, n->opt);
}

/* A layer of `width` x `width` and its plan with this batch. */
static const swi_program *plan_of(net *n, sw_exec *exec, const sw_optimizer_opts *opts,
                                  int64_t width, int64_t rows)
{
    memset(n, 0, sizeof *n);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&n->model, "net"), SW_OK);
    sw_after(drop_net, n);
    n->layer = sw_linear_new(n->model, "layer", width, width);
    n->norm = sw_knob_new(n->model, "norm", 1.0f);
    OK(sw_optimizer_create(&n->opt, n->model, opts));
    const sw_array in = {SW_F32, SW_SHAPE(rows, width), NULL};
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = step, .user = n, .models = &n->model,
                                     .n_models = 1, .inputs = &in, .n_inputs = 1);
    swi_frame *frame = NULL;
    bool fresh;
    OK(sw_plan(exec, &args, &SW_OPTS(sw_plan_info)));
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(exec, &args, &frame, &fresh), SW_OK);
    return frame->program;
}

/* The update of an evolution strategy with sigmas of each element. */
static void plan_sigmas(sw_exec *exec)
{
    static net n;
    sw_es *es;
    OK(sw_model_create(&n.model, "net"));
    sw_after(drop_net, &n);
    n.layer = sw_linear_new(n.model, "layer", 7, 5);
    OK(sw_optimizer_create(&n.opt, n.model, &SW_OPTS(sw_optimizer_opts, .kind = "sgd")));
    OK(sw_es_create(&es, n.opt, &SW_OPTS(sw_es_opts, .strategy = "snes", .directions = 9)));
    sw_after((void (*)(void *))sw_es_destroy, es);
    OK(sw_es_plan(es, exec, &SW_OPTS(sw_plan_info)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(exec->last_frame != NULL ? exec->last_frame : exec->frames[0]);
    compare_all(exec, "snes");
}

static void quiet(sw_ctx *c, void *user)
{
    net *n = user;
    sw_metric(c, "loss", sw_mean(c, sw_apply_linear(c, n->layer, sw_input(c, 0)), 0));
}

/* The moves of a zeroth-order step, of either kind. */
static void run_moves(sw_exec *exec, const char *kind)
{
    static net both[2];
    net *n = &both[kind[0] == 'l'];
    static const float x[14];
    const sw_array in = {SW_F32, SW_SHAPE(2, 7), x};
    const sw_zo_opts opts =
        SW_OPTS(sw_zo_opts, .kind = kind, .weight_decay = kind[0] == 'l' ? 0.1f : 0.0f);
    sw_zo *zo;
    OK(sw_model_create(&n->model, "net"));
    sw_after(drop_net, n);
    n->layer = sw_linear_new(n->model, "layer", 7, 5);
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = quiet, .user = n, .models = &n->model, .n_models = 1,
                .inputs = &in, .n_inputs = 1, .mode = SW_EVAL);
    OK(sw_zo_create(&zo, n->model, &opts));
    OK(sw_zo_step(zo, exec, &args, "loss", NULL));
    sw_zo_destroy(zo);
    compare_all(exec, kind);
}

/* Layers so large that swish goes in strips with what reads it. */
typedef struct {
    sw_model *model;
    sw_optimizer *opt;
    sw_linear layers[3];
    bool last;
} deep;

static void deep_step(sw_ctx *c, void *user)
{
    deep *n = user;
    sw_value x = sw_input(c, 0);
    for (int i = 0; i < 3; i++)
        x = sw_swish(c, sw_apply_linear(c, n->layers[i], x));
    sw_backward(c, sw_mse(c, x, sw_input(c, 1)), &n->opt, 1);
    sw_update(c, n->opt);
}

static void plan_strips(sw_exec *exec, int check)
{
    static const int64_t widths[] = {37, 1027, 260, 1027};
    static const char *const names[] = {"first", "second", "third"};
    static deep both[2];
    deep *n = &both[check];
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .release = 1, .no_check = !check);
    const sw_array in[] = {{SW_F32, SW_SHAPE(1100, widths[0]), NULL},
                           {SW_F32, SW_SHAPE(1100, widths[3]), NULL}};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = deep_step, .user = n, .models = &n->model, .n_models = 1,
                .inputs = in, .n_inputs = 2);
    n->model = made_model("deep");
    for (int i = 0; i < 3; i++)
        n->layers[i] = sw_linear_new(n->model, names[i], widths[i], widths[i + 1]);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    OK(sw_plan(exec, &args, &SW_OPTS(sw_plan_info)));
    compare_all(exec, "swish in strips");
}

/* The two runs of a rank that has two of a step's four shards. */
static void shard_step(sw_ctx *c, void *user)
{
    deep *n = user;
    sw_value x = sw_apply_linear(c, n->layers[0], sw_input(c, 0));
    sw_backward(c, sw_mse(c, x, sw_input(c, 1)), &n->opt, 1);
    if (n->last)
        sw_update(c, n->opt);
    else
        sw_accumulate(c, n->opt);
}

static void plan_shards(sw_exec *exec)
{
    static deep n;
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .shards = 2);
    const sw_array in[] = {{SW_F32, SW_SHAPE(9, 37), NULL}, {SW_F32, SW_SHAPE(9, 5), NULL}};
    sw_run_args args = SW_OPTS(sw_run_args, .fn = shard_step, .user = &n, .models = &n.model,
                               .n_models = 1, .inputs = in, .n_inputs = 2);
    exec->target.shards = 4;
    exec->target.shards_here = 2;
    n.model = made_model("shards");
    n.layers[0] = sw_linear_new(n.model, "layer", 37, 5);
    OK(sw_optimizer_create(&n.opt, n.model, &opts));
    for (; args.run < 2; args.run++, args.variant++) {
        n.last = args.run == 1;
        OK(sw_plan(exec, &args, &SW_OPTS(sw_plan_info)));
        compare_all(exec, "shards");
    }
}

SW_TEST("what optimizers append counts too")
{
    static const sw_optimizer_opts opts[] = {
#define SW_OPTIMIZER(kind_, states, operations) {.size = sizeof *opts, .kind = #kind_},
#define SW_OPTIMIZER_LIKE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#define SW_OPTIMIZER_WHOLE(kind_) SW_OPTIMIZER(kind_, 0, 0)
#include "kernels/optimizers.def"
        {.size = sizeof *opts, .kind = "sgd", .momentum = 0.9f, .weight_decay = 0.1f},
        {.size = sizeof *opts, .kind = "sgd", .momentum = 0.9f, .nesterov = 1},
        {.size = sizeof *opts, .kind = "adamw", .keep_gradients = 1},
        {.size = sizeof *opts, .kind = "rmsprop", .momentum = 0.5f},
        {.size = sizeof *opts, .kind = "rmsprop", .centered = 1},
        {.size = sizeof *opts, .kind = "rmsprop", .momentum = 0.5f, .centered = 1}};
    static net n[sizeof opts / sizeof *opts];
    sw_exec *exec = exec_of(NULL);
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        compare(&plan_of(&n[i], exec, &opts[i], i == 0 ? 29 : 5, 7)->trace, opts[i].kind);
    static net tiled[2];
    for (int check = 0; check < 2; check++) {
        const sw_optimizer_opts released =
            SW_OPTS(sw_optimizer_opts, .kind = "sgd", .release = 1, .no_check = !check);
        compare(&plan_of(&tiled[check], exec, &released, 520, 3)->trace, "sgd in tiles");
    }
    static net coded;
    const sw_optimizer_opts in8 = SW_OPTS(sw_optimizer_opts, .kind = "adamw", .state_bits = 8);
    compare(&plan_of(&coded, exec, &in8, 65, 3)->trace, "adamw in 8 bits");
    for (int check = 0; check < 2; check++)
        plan_strips(exec_of(NULL), check);
    plan_shards(exec_of(NULL));
    plan_sigmas(exec);
    run_moves(exec_of(NULL), "mezo");
    run_moves(exec_of(NULL), "lozo");
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
        SW_CHECK(!swi_op_is_private(id) || seen[id][0] ||
                     swi_op_traits_of(id)->duty ==
                         SWI_DUTY_IMAGES, /* tests/runtime/test_chains.c */
                 "%s: no optimizer has it", swi_op(id)->name);
}

/* ---- estimates --------------------------------------------------------------------------- */

static uint64_t cost_of(const swi_program *p, const char *name, int grad)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < p->trace.n_nodes; i++)
        if (plain_is(&p->trace.nodes[i], name, grad))
            cost = swi_node_cost(&p->trace, &p->trace.nodes[i]);
    SW_CHECK(cost > 0, "no %s", name);
    return cost;
}

/* The dearest op of that name. */
static uint64_t most_of(const swi_program *p, const char *name)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->trace.n_nodes; i++)
        if (plain_is(&p->trace.nodes[i], name, -1)) {
            const uint64_t cost = swi_node_cost(&p->trace, &p->trace.nodes[i]);
            most = cost > most ? cost : most;
        }
    return most;
}

static const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd"};

SW_TEST("elementwise ops cost far less than products")
{
    static net n[3];
    static const int64_t widths[] = {128, 512, 2048};
    sw_exec *exec = exec_of(NULL);
    for (int i = 0; i < 3; i++) {
        const swi_program *p = plan_of(&n[i], exec, &sgd, widths[i], 256);
        const uint64_t product = cost_of(p, "linear", -1);
        SW_CHECK(product > (uint64_t)(i == 0 ? 2 : 8) * cost_of(p, "mul", -1), "width %d",
                 (int)widths[i]);
        SW_CHECK(product > (uint64_t)(i == 0 ? 1 : 3) * cost_of(p, "swish", -1), "width %d",
                 (int)widths[i]);
    }
}

static uint64_t cost_of_all(const swi_program *p)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < p->trace.n_nodes; k++)
        sum = swi_count_add(sum, swi_node_cost(&p->trace, &p->trace.nodes[k]));
    return sum;
}

SW_TEST("a larger batch never costs less")
{
    static net n[40];
    sw_exec *exec = exec_of(NULL);
    const swi_program *before = NULL;
    for (int i = 0; i < 40; i++) {
        const swi_program *p = plan_of(&n[i], exec, &sgd, 64, (int64_t)1 << i);
        CU_ASSERT_FATAL(before == NULL || before->trace.n_nodes == p->trace.n_nodes);
        for (uint32_t k = 0; k < p->trace.n_nodes && before != NULL; k++) {
            const uint64_t less = swi_node_cost(&before->trace, &before->trace.nodes[k]);
            const uint64_t more = swi_node_cost(&p->trace, &p->trace.nodes[k]);
            /* Of one check: from some batch on the gradient is read instead of the factors,
             * which costs one op less and the other more. */
            SW_CHECK((less <= more || p->trace.nodes[k].op == SW_OP_product_bound ||
                      p->trace.nodes[k].op == SW_OP_finite) &&
                         more <= SWI_COST_MOST,
                     "node %u with 2^%d rows", k, i);
        }
        SW_CHECK(before == NULL || cost_of_all(before) <= cost_of_all(p), "2^%d rows", i);
        before = p;
    }
    CU_ASSERT_EQUAL(cost_of(before, "linear", -1), SWI_COST_MOST); /* there it stays */
}

/* A gradient of 512 x 512: its factors have fewer elements for 16 rows, and are read; for 4,096
 * rows they have more, and the gradient is read. An operand that is not read costs a launch and
 * no more. */
SW_TEST("what a check does not read costs nothing")
{
    static net n[2];
    const uint64_t launch = 80 * SWI_COST_PER_NS, scan = 1000 * SWI_COST_PER_NS;
    sw_exec *exec = exec_of(NULL);
    const swi_program *few = plan_of(&n[0], exec, &sgd, 512, 16);
    const swi_program *many = plan_of(&n[1], exec, &sgd, 512, 4096);
    CU_ASSERT(cost_of(few, "product_bound", -1) > launch);
    CU_ASSERT(cost_of(many, "product_bound", -1) < launch);
    CU_ASSERT(most_of(few, "finite") < scan);
    CU_ASSERT(most_of(many, "finite") > scan);
}

SW_TEST("costs do not depend on the machine")
{
    static net n[2];
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .isa = "base", .threads = 3);
    const swi_program *a = plan_of(&n[0], exec_of(NULL), &sgd, 40, 33);
    const swi_program *b = plan_of(&n[1], exec_of(&opts), &sgd, 40, 33);
    CU_ASSERT_EQUAL_FATAL(a->trace.n_nodes, b->trace.n_nodes);
    for (uint32_t i = 0; i < a->trace.n_nodes; i++)
        CU_ASSERT_EQUAL(swi_node_cost(&a->trace, &a->trace.nodes[i]),
                        swi_node_cost(&b->trace, &b->trace.nodes[i]));
}

/* ---- ops from outside -------------------------------------------------------------------- */

static uint32_t outside_op;

static void use_outside(sw_ctx *c, void *user)
{
    const net *n = user;
    const sw_value x = sw_use(c, n->layer.weight);
    sw_backward(c, sw_sum(c, sw_op_apply(c, outside_op, &x, 1, NULL), 0), &n->opt, 1);
    sw_update(c, n->opt);
}

/* Operations of forward and gradient of outside_op on a 3 x 3 matrix. */
static void count_outside(uint64_t counts[2])
{
    static net n;
    sw_exec *exec = exec_of(NULL);
    (void)plan_of(&n, exec, &sgd, 3, 1);
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = use_outside, .user = &n,
                                     .variant = outside_op, .models = &n.model, .n_models = 1);
    swi_frame *frame = NULL;
    bool fresh;
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(exec, &args, &frame, &fresh), SW_OK);
    const swi_program *p = frame->program;
    counts[0] = counts[1] = 0;
    for (uint32_t i = 0; i < p->trace.n_nodes; i++)
        if (p->trace.nodes[i].op == outside_op)
            counts[p->trace.nodes[i].grad + 1] =
                swi_node_operations(&p->trace, &p->trace.nodes[i]);
    drop_net(&n);
}

static uint64_t seven_each(const sw_kernel_info *info)
{
    CU_ASSERT_EQUAL(info->threads, 1);
    return 7 * (uint64_t)sw_type_elements(&info->out[0]);
}

static uint64_t endless(const sw_kernel_info *info)
{
    return UINT64_MAX;
}

SW_TEST("an op from outside counts one for each element")
{
    uint64_t n[2];
    sw_op_desc d = outside_square;
    sw_grad_desc g = outside_square.grads[0];
    d.name = "planted.cost default";
    OK(sw_op_register(&d, &outside_op));
    count_outside(n);
    CU_ASSERT_EQUAL(n[0], 9);
    CU_ASSERT_EQUAL(n[1], 9);
    g.operations = endless;
    d.name = "planted.cost own";
    d.operations = seven_each;
    d.grads = &g;
    OK(sw_op_register(&d, &outside_op));
    count_outside(n);
    CU_ASSERT_EQUAL(n[0], 63);
    CU_ASSERT_EQUAL(n[1], UINT64_MAX);
    /* A descriptor without one. */
    d.name = "planted.cost older";
    d.operations = NULL;
    OK(sw_op_register(&d, &outside_op));
    CU_ASSERT_PTR_NULL(sw_op_at(outside_op)->operations);
    count_outside(n);
    CU_ASSERT_EQUAL(n[0], 9);
}

/* A gradient as programs were compiled with it before it had a count. */
typedef struct {
    int n_makes;
    uint8_t makes[8];
    int n_operands;
    uint16_t operands[16];
    uint32_t inplace;
    size_t (*scratch_bytes)(const sw_kernel_info *info);
    sw_kernel *kernel;
    sw_kernel *(*select)(const sw_kernel_info *info);
    uint64_t reserved[2];
} older_grad;

SW_TEST("gradients of programs compiled before have the default")
{
    if (sizeof(void *) != sizeof(uint64_t))
        SW_SKIP("pointers are smaller than a reserved word");
    CU_ASSERT_EQUAL(sizeof(older_grad), sizeof(sw_grad_desc));
    CU_ASSERT_EQUAL(offsetof(older_grad, reserved), offsetof(sw_grad_desc, operations));
    CU_ASSERT_EQUAL(offsetof(older_grad, reserved[1]), offsetof(sw_grad_desc, applies));
}

SW_TEST("counts stay at the most")
{
    const sw_type wide = {SW_F32, SW_PLAIN, {2, {1 << 30, 1 << 30}}};
    CU_ASSERT_EQUAL(swi_count_add(UINT64_MAX - 1, 1), UINT64_MAX);
    CU_ASSERT_EQUAL(swi_count_add(UINT64_MAX, 1), UINT64_MAX);
    CU_ASSERT_EQUAL(swi_count_mul(UINT64_MAX, 2), UINT64_MAX);
    CU_ASSERT_EQUAL(swi_count_mul(3, 5), 15);
    CU_ASSERT_EQUAL(swi_count_per_element(&wide, 15), (uint64_t)15 << 60);
    CU_ASSERT_EQUAL(swi_count_per_element(&wide, 16), UINT64_MAX);
}
