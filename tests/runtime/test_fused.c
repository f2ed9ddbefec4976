/* Ops that go channel by channel with the one before them: batch norm and what is after
 * it, and their gradients. An exec with checks runs each kernel by itself: the same bits. */
#include "tests/runtime/nets.h"
#include "tests/support/witness_program.h"

SW_TESTS("fused")

enum { MOST = 17, CHANNELS = 3, SIDE = 9, STEPS = 4 };

typedef struct {
    sw_model *model;
    sw_conv2d first, second;
    sw_batch_norm2d first_norm, second_norm;
    sw_linear out;
    sw_optimizer *opt;
} norm_net;

static float x[MOST][CHANNELS][SIDE][SIDE];
static uint8_t y[MOST];

static void norm_step(sw_ctx *c, void *user)
{
    const norm_net *n = user;
    sw_value v = sw_apply_conv2d(c, n->first, sw_input(c, 0));
    v = sw_swish(c, sw_apply_batch_norm2d(c, n->first_norm, v));
    v = sw_apply_batch_norm2d(c, n->second_norm, sw_apply_conv2d(c, n->second, v));
    v = sw_flatten(c, sw_global_avg_pool(c, sw_tanh(c, v)));
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, n->out, v), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &n->opt, 1);
    sw_update(c, n->opt);
}

static void start(norm_net *n, sw_exec *exec)
{
    memset(n, 0, sizeof *n);
    n->model = made_model("net");
    n->first = sw_conv2d_new(n->model, "first", CHANNELS, 21, 3);
    n->first_norm = sw_batch_norm2d_new(n->model, "first_norm", 21);
    n->second = sw_conv2d_new(n->model, "second", 21, 5, 1);
    n->second_norm = sw_batch_norm2d_new(n->model, "second_norm", 5);
    n->out = sw_linear_new(n->model, "out", 5, 4);
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.02f);
    OK(sw_optimizer_create(&n->opt, n->model, &opts));
    OK(sw_model_ready(n->model, exec, 6));
}

/* A result that the second op makes in bytes of its own is born at the first, where it is
 * written, and goes by the name of its own op. Returns how many. */
static uint32_t early_births(const swi_program *p, uint32_t i)
{
    const uint32_t then = i + p->ops[i].apart;
    const swi_node *node = &p->trace.nodes[p->ops[then].node];
    uint32_t early = 0;
    for (uint32_t k = node->n_in; k < node->n_in + node->n_out; k++) {
        const uint32_t s = p->trace.values[p->trace.operands[node->first + k]].storage;
        const swi_storage *made = &p->trace.storages[s];
        if (made->alias != s || made->birth == SWI_NONE)
            continue;
        CU_ASSERT_EQUAL(swi_made_at(p, s), then);
        SW_CHECK(made->birth == i, "op %u: what op %u makes is born at op %u", i, then,
                 made->birth);
        early++;
    }
    return early;
}

/* Pairs of the program that ran last; of each the second knows how far in front the first
 * is. */
static uint32_t pairs_of(const sw_exec *exec)
{
    const swi_program *p = exec->last_frame->program;
    uint32_t pairs = 0, early = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].together == 0)
            continue;
        CU_ASSERT_FATAL(i + p->ops[i].apart < p->n_ops);
        CU_ASSERT_EQUAL(p->ops[i + p->ops[i].apart].ran, p->ops[i].apart);
        early += early_births(p, i);
        pairs++;
    }
    CU_ASSERT(early >= 2);
    return pairs;
}

/* With one thread the witnesses see what the plan says. */
static uint32_t train(norm_net *n, const sw_exec_opts *opts, int rows)
{
    sw_exec *exec = net_exec(opts);
    start(n, exec);
    sw_array in[] = {{SW_F32, SW_SHAPE(rows, CHANNELS, SIDE, SIDE), x},
                     {SW_U8, SW_SHAPE(rows), y}};
    sw_run_args args = SW_OPTS(sw_run_args, .fn = norm_step, .user = n, .models = &n->model,
                               .n_models = 1, .inputs = in, .n_inputs = 2);
    for (int i = 0; i < STEPS; i++, args.step++)
        OK(sw_run(exec, &args));
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    if (opts->threads == 1 && opts->checks == 0) {
        OK(sw_witness(exec, &args, SW_WITNESS_ALL, &seen));
        SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%d rows: %s", rows, seen.first_fault);
        /* A result that is made early but has its birth where its op stands is reported. */
        swi_program *p = NULL;
        OK(swi_program_clone(&p, exec->last_frame->program));
        for (uint32_t s = 0; s < p->trace.n_storages; s++)
            if (p->trace.storages[s].birth < p->n_ops)
                p->trace.storages[s].birth = swi_made_at(p, s);
        swi_program_bind(p);
        CU_ASSERT_EQUAL(sw_witness_program(exec, p, &args, SW_WITNESS_ACCESS, &seen), SW_OK);
        SW_CHECK(strstr(seen.first_fault, "is touched before its birth") != NULL, "'%s'",
                 seen.first_fault);
        swi_program_free(p);
    }
    return pairs_of(exec);
}

/* In both layouts, with lanes that hold no image, alone and with threads. */
SW_TEST("pairs have the bits of their ops")
{
    static const int rows[] = {MOST, 16, 5};
    float *to = &x[0][0][0][0];
    for (int i = 0; i < MOST * CHANNELS * SIDE * SIDE; i++)
        to[i] = (float)(i * 7919 % 1000) / 250.0f - 2.0f;
    for (int i = 0; i < MOST; i++)
        y[i] = (uint8_t)(i % 4);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int threads = 1; threads <= 2; threads++) {
            norm_net together, apart;
            const sw_exec_opts plain = SW_OPTS(sw_exec_opts, .threads = threads);
            const sw_exec_opts checked = SW_OPTS(sw_exec_opts, .threads = 1, .checks = 1);
            const uint32_t pairs = train(&together, &plain, rows[r]);
            CU_ASSERT(pairs >= 4);
            CU_ASSERT_EQUAL(train(&apart, &checked, rows[r]), pairs);
            SW_CHECK(net_same(together.model, apart.model), "%d rows, %d threads: other bits",
                     rows[r], threads);
        }
}
