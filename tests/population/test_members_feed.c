/* Members that a feed trains are models that a keyed loader trains, whatever the threads, the
 * order of members and the steps of each call. */
#include "tests/population/small_net.h"

SW_TESTS("members by feeds")

enum { N = 11, SAMPLES = 45, BATCH = 8, STEPS = 17, HIDDEN = 9 };

#define ARGS_OF(members_, feed_, steps_)                                                       \
    SW_OPTS(sw_members_args, .members = members_, .n = N, .feed = feed_, .mode = SW_TRAIN,     \
            .own_steps = 1, .steps = steps_)

/* STEPS steps of each member, the calls cut as the dice say, in any order of members. */
static void train(sw_members *all, const sw_member *members, const sw_feed *feed,
                  sw_members_args args, sw_dice *dice)
{
    sw_member mixed[N];
    memcpy(mixed, members, sizeof mixed);
    args.members = mixed;
    args.feed = feed;
    for (uint32_t done = 0; done < STEPS; done += args.steps) {
        const uint32_t some = 1 + (uint32_t)sw_dice_below(dice, 7);
        args.steps = some < STEPS - done ? some : STEPS - done;
        for (size_t i = N; i > 1; i--) {
            const size_t k = sw_dice_below(dice, i);
            const sw_member kept = mixed[i - 1];
            mixed[i - 1] = mixed[k];
            mixed[k] = kept;
        }
        OK(sw_members_run(all, &args));
    }
}

static void compare(int threads, int drop_last, uint64_t dice_seed)
{
    sw_dice dice = {dice_seed};
    const sw_dataset *data = small_data(SAMPLES);
    const sw_feed *feed = small_feed(data, BATCH, drop_last);
    sw_members *all = small_group(small_exec(threads), small_new(HIDDEN), NULL);
    sw_member member[N];
    double last, sum;
    small_members(member, N, all, 20);
    train(all, member, feed, ARGS_OF(member, feed, 1), &dice);
    for (uint64_t k = 0; k < N; k++) {
        const small *t =
            small_alone(HIDDEN, data, BATCH, drop_last, 20 + k, 20 + k, STEPS, &last, &sum);
        SW_CHECK(small_is(member[k], t->model), "%d threads: member %d", threads, (int)k);
        small_progress(member[k], STEPS, STEPS);
    }
}

SW_TEST("a member by a feed is a model by a keyed loader")
{
    static const int cases[][2] = {{1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {5, 0}};
    for (uint64_t i = 0; i < 6; i++)
        compare(cases[i][0], cases[i][1], i + 1);
}

/* All have the batches of one stream, and dropout by their own seeds. */
SW_TEST("same_data has one stream")
{
    sw_dice dice = {9};
    const sw_dataset *data = small_data(SAMPLES);
    const sw_feed *feed = small_feed(data, BATCH, 0);
    sw_members *all = small_group(small_exec(2), small_new(HIDDEN), NULL);
    sw_member member[N];
    double last, sum;
    small_members(member, N, all, 1);
    sw_members_args args = ARGS_OF(member, feed, 1);
    args.same_data = 1;
    args.data_seed = 77;
    train(all, member, feed, args, &dice);
    for (uint64_t k = 0; k < N; k++) {
        const small *t = small_alone(HIDDEN, data, BATCH, 0, 1 + k, 77, STEPS, &last, &sum);
        SW_CHECK(small_is(member[k], t->model), "member %d", (int)k);
    }
}

/* In one call some are at the last batch of an epoch, which is smaller, and others are not. The
 * metric is that of the last step and the mean that of all. */
SW_TEST("members stand at different batches")
{
    const sw_dataset *data = small_data(SAMPLES);
    const sw_feed *feed = small_feed(data, BATCH, 0);
    sw_members *all = small_group(small_exec(2), small_new(HIDDEN), NULL);
    sw_member member[N];
    double last[N], mean[N], its, sum;
    small_members(member, N, all, 50);
    for (uint32_t k = 1; k < N; k++) { /* member k makes k steps alone */
        sw_members_args args = ARGS_OF(&member[k], feed, k);
        args.n = 1;
        OK(sw_members_run(all, &args));
    }
    OK(sw_members_run(all, &ARGS_OF(member, feed, 8)));
    OK(sw_members_metric(all, "loss", last, N));
    OK(sw_members_mean(all, "loss", mean, N));
    for (uint64_t k = 0; k < N; k++) {
        double before;
        (void)small_alone(HIDDEN, data, BATCH, 0, 50 + k, 50 + k, k, &its, &before);
        const small *t = small_alone(HIDDEN, data, BATCH, 0, 50 + k, 50 + k, k + 8, &its, &sum);
        SW_CHECK(small_is(member[k], t->model), "member %d", (int)k);
        SW_CHECK(memcmp(&its, &last[k], sizeof its) == 0, "loss of member %d", (int)k);
        SW_CHECK(fabs(mean[k] - (sum - before) / 8.0) < 1e-12, "mean of member %d", (int)k);
    }
}

/* Batch `step` and those after it, of the member's own stream, whatever it has made. */
SW_TEST("evaluation takes the batch of its step")
{
    const sw_dataset *data = small_data(SAMPLES);
    sw_feed *plain = NULL;
    OK(sw_feed_create(&plain, data, &SW_OPTS(sw_feed_opts, .batch = BATCH)));
    const sw_feed *feed = small_feed(data, BATCH, 0);
    small *shape = small_new(HIDDEN);
    sw_exec *exec = small_exec(2);
    sw_members *all = small_group(exec, shape, NULL);
    sw_member member[N];
    double loss[N], mean[N], its, sum = 0.0;
    small_members(member, N, all, 3);
    sw_members_args args = ARGS_OF(member, feed, 3);
    OK(sw_members_run(all, &args));
    OK(sw_model_ready(shape->model, exec, 1));
    OK(sw_member_to_model(shape->model, member[4]));
    sw_loader *loader = NULL;
    const sw_loader_opts in_order = SW_OPTS(sw_loader_opts, .batch = BATCH, .inline_fill = 1);
    OK(sw_loader_create(&loader, data, &in_order));
    OK(sw_loader_seek(loader, 0, 2));
    for (uint64_t step = 2; step < 6; step++) { /* the last one is the small one */
        const sw_array *in;
        int n;
        OK(sw_loader_next(loader, &in, &n));
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = small_step, .user = shape,
                                 .models = &shape->model, .n_models = 1, .inputs = in,
                                 .n_inputs = n, .mode = SW_EVAL, .step = step)));
        OK(sw_metric_get(exec, "loss", &its));
        sum += its;
    }
    for (int own = 0; own < 2; own++) {
        args = ARGS_OF(member, plain, 4);
        args.mode = SW_EVAL;
        args.step = 2;
        args.own_steps = own;
        OK(sw_members_run(all, &args));
        OK(sw_members_metric(all, "loss", loss, N));
        OK(sw_members_mean(all, "loss", mean, N));
        SW_CHECK(memcmp(&its, &loss[4], sizeof its) == 0, "%.9g and %.9g", its, loss[4]);
        CU_ASSERT(fabs(mean[4] - sum / 4.0) < 1e-12);
        for (int k = 0; k < N; k++)
            small_progress(member[k], 3, 3);
    }
    sw_loader_destroy(loader);
    sw_feed_destroy(plain);
}

/* A metric that is there for full batches alone has no place in an array for all members. */
static void uneven_step(sw_ctx *ctx, void *user)
{
    small_step(ctx, user);
    if (sw_dim(ctx, sw_input(ctx, 0), 0) != BATCH)
        sw_metric(ctx, "last", sw_mse(ctx, sw_input(ctx, 0), sw_input(ctx, 1)));
}

SW_TEST("both batches have the same metrics")
{
    small *shape = small_new(HIDDEN);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .fn = uneven_step, .user = shape);
    const sw_dataset *data = small_data(SAMPLES);
    const sw_feed *feed = small_feed(data, BATCH, 0), *even = small_feed(data, BATCH, 1);
    sw_exec *exec = small_exec(1);
    sw_members *all = NULL;
    sw_member member[N];
    OK(sw_members_create(&all, exec, &opts));
    small_members(member, N, all, 3);
    sw_members_args args = ARGS_OF(member, feed, 2);
    REFUSED(sw_members_run(all, &args), SW_INVALID, "the same metrics");
    small_progress(member[0], 0, 0);
    args.feed = even;
    OK(sw_members_run(all, &args));
    sw_members_destroy(all);
}

SW_TEST("misuse is refused")
{
    const sw_feed *feed = small_feed(small_data(SAMPLES), BATCH, 0);
    sw_members *all = small_group(small_exec(1), small_new(HIDDEN), NULL);
    sw_member member[N];
    const sw_array in[2] = {{SW_F32, SW_SHAPE(2, SMALL_WIDTH), member},
                            {SW_F32, SW_SHAPE(2, SMALL_WIDTH), member}};
    small_members(member, N, all, 3);
    sw_members_args args = ARGS_OF(member, feed, 2);
    args.inputs = in;
    args.n_inputs = 2;
    REFUSED(sw_members_run(all, &args), SW_INVALID, "inputs or a feed, not both");
    args.feed = NULL;
    REFUSED(sw_members_run(all, &args), SW_INVALID, "steps (got 2) beyond 1 need a feed");
    args = ARGS_OF(member, feed, 2);
    args.own_inputs = 1;
    REFUSED(sw_members_run(all, &args), SW_INVALID, "not both");
    for (int k = 0; k < N; k++)
        small_progress(member[k], 0, 0);
}
