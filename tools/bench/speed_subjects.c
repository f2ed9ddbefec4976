/* The workloads of bench speed. Members have a case of one member, too, as a model of its own:
 * what runs in a lane has no clocks at its ops. */
#include "tools/bench/speed.h"
#include "runtime/exec/exec.h"

/* ---- models of the table ----------------------------------------------------------------- */

static sw_status make_net(speed_subject *s, const sw_exec_opts *exec)
{
    const sw_status status = bench_net_make(&s->net, &s->sized, s->batch, exec);
    s->exec = s->net.exec;
    return status;
}

static sw_status step_net(speed_subject *s)
{
    return bench_net_step(&s->net);
}

static void destroy_net(speed_subject *s)
{
    bench_net_destroy(&s->net);
}

static sw_status make_lenet(speed_subject *s, const sw_exec_opts *exec)
{
    SW_TRY(bench_lenet_create(&s->lenet, s->batch, false, exec));
    s->exec = s->lenet.exec;
    return SW_OK;
}

static sw_status step_lenet(speed_subject *s)
{
    return bench_lenet_step(&s->lenet);
}

static void destroy_lenet(speed_subject *s)
{
    bench_lenet_destroy(&s->lenet);
}

/* ---- many perceptrons -------------------------------------------------------------------- */

static sw_status make_mlp200(speed_subject *s, const sw_exec_opts *exec)
{
    SW_TRY(sw_exec_create(&s->exec, exec));
    SW_TRY(members_group_batch(&s->group, MEMBERS_SMALL, s->batch));
    if (s->alone)
        return members_declare(&s->one, MEMBERS_SMALL);
    return members_group_make(&s->group, s->exec, MEMBERS_SMALL, s->of->members, 0, 1);
}

static sw_status step_mlp200(speed_subject *s)
{
    const sw_run_args args = {.size = sizeof args,
                              .fn = members_step,
                              .user = &s->one,
                              .models = &s->one.model,
                              .n_models = 1,
                              .inputs = s->group.inputs,
                              .n_inputs = 2,
                              .mode = SW_TRAIN,
                              .step = s->step};
    return s->alone ? sw_run(s->exec, &args) : members_group_run(&s->group, s->step);
}

static void destroy_mlp200(speed_subject *s)
{
    sw_model_destroy(s->one.model);
    members_group_destroy(&s->group);
    sw_exec_destroy(s->exec);
}

/* ---- LeNet5 side by side ----------------------------------------------------------------- */

/* A thread takes a member for a slice of its steps, then the next one: so no thread waits for
 * long at the end of a step. */
enum { LENETS = 5, SLICE = 7, SLICES = 2, IMAGES = 60000, EPOCH = 469 };

static sw_status make_lenets(speed_subject *s, const sw_exec_opts *exec)
{
    const sw_feed_opts feed = {.size = sizeof feed, .batch = s->batch, .shuffle = 1};
    SW_TRY(sw_dataset_synthetic(&s->set, IMAGES, 1));
    SW_TRY(sw_feed_create(&s->feed, s->set, &feed));
    SW_TRY(sw_exec_create(&s->exec, exec));
    return members_lenets_make(&s->lenets, s->exec, LENETS, 1);
}

static sw_status step_lenets(speed_subject *s)
{
    const int64_t most = s->threads < LENETS ? s->threads : LENETS;
    for (int64_t left = LENETS * SLICES; left > 0;) {
        sw_member side[LENETS];
        const int64_t n = left < most ? left : most;
        for (int64_t i = 0; i < n; i++)
            side[i] = s->lenets.members[s->turn++ % LENETS];
        const sw_members_args args = {.size = sizeof args,
                                      .members = side,
                                      .n = (size_t)n,
                                      .mode = SW_TRAIN,
                                      .feed = s->feed,
                                      .own_steps = 1,
                                      .steps = SLICE};
        SW_TRY(sw_members_run(s->lenets.group, &args));
        left -= n;
    }
    return SW_OK;
}

static void destroy_lenets(speed_subject *s)
{
    members_lenets_destroy(&s->lenets);
    sw_feed_destroy(s->feed);
    sw_dataset_destroy(s->set);
    sw_exec_destroy(s->exec);
}

/* ---- the table --------------------------------------------------------------------------- */

static const bench_net_case swishnet = {.name = "swishnet",
                                        .model = "swishnet",
                                        .optimizer = "sgd",
                                        .release = true,
                                        .layers = 8,
                                        .width = 4096},
                            gpt = {.name = "gpt",
                                   .model = "gpt",
                                   .optimizer = "adamw",
                                   .release = true,
                                   .layers = 4,
                                   .width = 256,
                                   .heads = 8,
                                   .context = 128,
                                   .classes = 8192},
                            mbconv = {.name = "mbconv",
                                      .model = "mbconv",
                                      .optimizer = "adam",
                                      .release = true,
                                      .classes = 10,
                                      .channels = 3,
                                      .side = 64};

#define NET(name) .make = make_net, .step = step_net, .destroy = destroy_net, .net = &(name)

static const speed_case cases[] = {
    {.name = "lenet5",
     .about = "LeNet5, Adam, loader included",
     .batch = 128,
     .steps = 500,
     .make = make_lenet,
     .step = step_lenet,
     .destroy = destroy_lenet},
    {.name = "mlp200",
     .about = "200 perceptrons 49-64-24-10 as members, Adam",
     .batch = 128,
     .steps = 200,
     .members = 200,
     .runs = 1,
     .make = make_mlp200,
     .step = step_mlp200,
     .destroy = destroy_mlp200},
    {.name = "lenet5x5",
     .about = "14 steps of each of 5 LeNet5 as members, Adam, own orders",
     .batch = 128,
     .steps = 30,
     .members = LENETS,
     .runs = SLICE * SLICES,
     .epoch = EPOCH,
     .make = make_lenets,
     .step = step_lenets,
     .destroy = destroy_lenets},
    {.name = "swishnet",
     .about = "8 linear layers of 4096, swish, SGD",
     .batch = 128,
     .steps = 15,
     NET(swishnet)},
    {.name = "gpt",
     .about = "gpt, 4 layers of 256, 8 heads, context 128, vocabulary 8192, AdamW",
     .batch = 8,
     .steps = 30,
     NET(gpt)},
    {.name = "mbconv",
     .about = "EfficientNet-B0's body, images of 64 x 64, Adam",
     .batch = 32,
     .steps = 30,
     NET(mbconv)},
};

const speed_case *speed_case_at(int i)
{
    return i >= 0 && i < (int)(sizeof cases / sizeof *cases) ? &cases[i] : NULL;
}

sw_status speed_make(speed_subject *s, const speed_case *which, const speed_opts *opts,
                     bool alone, const sw_exec_opts *exec)
{
    const speed_case *lenet = &cases[0];
    *s = (speed_subject){.of = alone && which->make == make_lenets ? lenet : which,
                         .batch = opts->batch,
                         .threads = exec->threads,
                         .alone = alone && which->members > 0};
    if (s->of->net != NULL) {
        s->sized = *s->of->net;
        s->sized.width = opts->width > 0 ? opts->width : s->sized.width;
    }
    SW_TRY(s->of->make(s, exec));
    for (int i = 0; i < 2; i++)
        SW_TRY(speed_step(s));
    return SW_OK;
}

sw_status speed_step(speed_subject *s)
{
    const sw_status status = s->of->step(s);
    s->step++;
    return status;
}

sw_status speed_bytes(const speed_subject *s, size_t *out)
{
    const sw_members *group = s->group.group != NULL ? s->group.group : s->lenets.group;
    sw_members_memory m = {.size = sizeof m};
    if (group == NULL) {
        const swi_program *p = s->exec->last;
        *out = p->model_bytes + p->height + p->slot_bytes;
        return SW_OK;
    }
    SW_TRY(sw_members_used(group, &m));
    *out = m.live_bytes + m.lane_bytes;
    return SW_OK;
}

void speed_destroy(speed_subject *s)
{
    if (s->of != NULL)
        s->of->destroy(s);
    *s = (speed_subject){0};
}
