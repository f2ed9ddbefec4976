/* bench members: one step of many small networks, as members of one shape and as models of
 * their own, taking turns; beside a loop of pure arithmetic of the same length. */
#include "alloc/base/mem.h"
#include "tools/bench/bench.h"

typedef struct {
    bench_common common;
    int64_t members, loops;
} members_opts;

enum { IN = 49, H1 = 64, H2 = 24, OUT = 10, VARIANTS = 3 };

/* The layers of one model; members take those of the shape. */
typedef struct {
    sw_model *model;
    sw_linear fc[3];
    sw_optimizer *adam;
} net;

typedef struct {
    const members_opts *opts;
    sw_exec *exec, *alone; /* alone: one thread, for models of their own */
    net shape, *nets;
    sw_members *group;
    sw_member *members;
    sw_array inputs[2];
    uint64_t step, turns;
} subject;

static void step(sw_ctx *ctx, void *user)
{
    net *n = user;
    sw_value x = sw_input(ctx, 0);
    for (int i = 0; i < 3; i++) {
        x = sw_apply_linear(ctx, n->fc[i], x);
        x = i < 2 ? sw_relu(ctx, x) : x;
    }
    const sw_value loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &n->adam, 1);
    sw_update(ctx, n->adam);
}

static sw_status declare(net *n)
{
    const sw_optimizer_opts adam = {
        .size = sizeof adam, .kind = "adam", .update = SW_UPDATE_RELEASE};
    SW_TRY(sw_model_create(&n->model, "net"));
    n->fc[0] = sw_linear_new(n->model, "fc1", IN, H1);
    n->fc[1] = sw_linear_new(n->model, "fc2", H1, H2);
    n->fc[2] = sw_linear_new(n->model, "fc3", H2, OUT);
    return sw_optimizer_create(&n->adam, n->model, &adam);
}

static sw_status run_members(subject *s)
{
    const sw_members_args args = {.size = sizeof args,
                                  .members = s->members,
                                  .n = (size_t)s->opts->members,
                                  .inputs = s->inputs,
                                  .n_inputs = 2,
                                  .mode = SW_TRAIN,
                                  .step = s->step};
    return sw_members_run(s->group, &args);
}

static sw_status run_models(subject *s)
{
    for (int64_t i = 0; i < s->opts->members; i++) {
        const sw_run_args args = {.size = sizeof args,
                                  .fn = step,
                                  .user = &s->nets[i],
                                  .models = &s->nets[i].model,
                                  .n_models = 1,
                                  .inputs = s->inputs,
                                  .n_inputs = 2,
                                  .mode = SW_TRAIN,
                                  .step = s->step};
        SW_TRY(sw_run(s->alone, &args));
    }
    return SW_OK;
}

static volatile uint64_t sink;

static sw_status control(const subject *s)
{
    uint64_t x = sink;
    for (uint64_t i = 0; i < s->turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
    return SW_OK;
}

static sw_status turn(void *context, int i)
{
    subject *s = context;
    s->step++;
    return i == 0 ? run_members(s) : i == 1 ? run_models(s) : control(s);
}

static sw_status make(subject *s)
{
    const members_opts *o = s->opts;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    const sw_exec_opts alone = {.size = sizeof alone, .threads = 1};
    void *block;
    SW_TRY(sw_exec_create(&s->exec, &exec));
    SW_TRY(sw_exec_create(&s->alone, &alone));
    SW_TRY(declare(&s->shape));
    const sw_members_opts group = {
        .size = sizeof group, .shape = s->shape.model, .fn = step, .user = &s->shape};
    SW_TRY(sw_members_create(&s->group, s->exec, &group));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->members * sizeof *s->members));
    s->members = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->members * sizeof *s->nets));
    s->nets = block;
    for (int64_t i = 0; i < o->members; i++) {
        SW_TRY(sw_member_new(&s->members[i], s->group, (uint64_t)i));
        SW_TRY(declare(&s->nets[i]));
        SW_TRY(sw_model_ready(s->nets[i].model, s->alone, (uint64_t)i));
    }
    s->inputs[0] = (sw_array){SW_F32, SW_SHAPE(o->common.batch, IN), NULL};
    s->inputs[1] = (sw_array){SW_U8, SW_SHAPE(o->common.batch), NULL};
    SW_TRY(bench_batch_make(s->inputs, 2, OUT));
    for (int i = 0; i < 4; i++)
        SW_TRY(turn(s, i % 2));
    return SW_OK;
}

/* Turns of the control that take as long as a loop over the members. */
static sw_status calibrate(subject *s)
{
    s->turns = 1000000;
    for (int round = 0; round < 3; round++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(turn(s, 0));
        const uint64_t between = cli_clock_ns();
        SW_TRY(turn(s, 2));
        const uint64_t end = cli_clock_ns();
        s->turns =
            (uint64_t)((double)s->turns * (double)(between - start) / (double)(end - between)) +
            1;
    }
    return SW_OK;
}

static void end(subject *s)
{
    const int64_t n = s->opts->members;
    sw_members_destroy(s->group);
    for (int64_t i = 0; s->nets != NULL && i < n; i++)
        sw_model_destroy(s->nets[i].model);
    sw_heap_free(s->nets, SW_HEAP_RECORDS, (size_t)n * sizeof *s->nets);
    sw_heap_free(s->members, SW_HEAP_RECORDS, (size_t)n * sizeof *s->members);
    sw_model_destroy(s->shape.model);
    sw_exec_destroy(s->alone);
    sw_exec_destroy(s->exec);
    bench_batch_free(s->inputs, 2);
}

static int report(subject *s, const bench_variant *v)
{
    const members_opts *o = s->opts;
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_i64(&json, "members", o->members);
        sw_json_put_u64(&json, "member_bytes", sw_members_bytes(s->group));
        for (int i = 0; i < VARIANTS; i++)
            bench_put(&json, v[i].key, &v[i].summary);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf(
            "%lld perceptrons 49-64-24-10, batch %lld, Adam, %lld threads: one step of each; "
            "a member takes %s\n\n",
            (long long)o->members, (long long)o->common.batch, (long long)o->common.threads,
            cli_bytes(sw_members_bytes(s->group)).text);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    for (int i = 0; i < VARIANTS; i++)
        bench_print(v[i].name, &v[i].summary);
    return cli_finish(status);
}

int bench_members(int argc, char **argv)
{
    members_opts o = {.common.threads = 2};
    const cli_option options[] = {
        {"--members", "N", CLI_COUNT, &o.members, "200", "networks", 1, 100000, NULL},
        {"--loops", "N", CLI_COUNT, &o.loops, "200", "steps of all of them", 1, 1 << 20, NULL},
    };
    const int parsed =
        bench_parse("bench members",
                    "Steps of many small networks: members of one shape, models, arithmetic.",
                    options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    subject s = {.opts = &o};
    bench_variant v[VARIANTS] = {{.name = "members", .key = "members"},
                                 {.name = "models", .key = "models"},
                                 {.name = "control", .key = "control"}};
    cli_catch_interrupt();
    sw_status status = make(&s);
    if (status == SW_OK)
        status = calibrate(&s);
    if (status == SW_OK)
        status = bench_take_turns(v, VARIANTS, o.loops, turn, &s);
    const int code = status == SW_OK ? report(&s, v) : cli_library_error(status, false);
    end(&s);
    return code;
}
