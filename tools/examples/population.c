/* Eight nets learn digits and, from each other, how fast to learn: population based training on
 * the public header alone. They choose by validation samples; the test set judges the best. */
#include <stdio.h>
#include <stepwell.h>

enum { MEMBERS = 8, STEPS = 200, TURN = 20 };
static sw_linear fc1, fc2;
static sw_member member[MEMBERS];

/* Traced and planned once for all members, in each of the two modes. */
static void step(sw_ctx *c, void *opt)
{
    sw_value x = sw_to_f32(c, sw_input(c, 0), 1 / 128.0f, -1), labels = sw_input(c, 1);
    x = sw_relu(c, sw_apply_linear(c, fc1, sw_flatten(c, x)));
    x = sw_apply_linear(c, fc2, x);
    sw_metric(c, "accuracy", sw_accuracy(c, x, labels));
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    sw_backward(c, sw_softmax_ce(c, x, labels), (sw_optimizer *[]){opt}, 1);
    sw_update(c, opt);
}

/* The present values of member k become its knobs. */
static int set_knobs(sw_pbt *pbt, sw_optimizer *opt, int k)
{
    double lr = 0, momentum = 0;
    return sw_pbt_value(pbt, k, 0, &lr) || sw_pbt_value(pbt, k, 1, &momentum) ||
           sw_member_knob_set(member[k], sw_optimizer_knob(opt, 0, "lr"), (float)lr) ||
           sw_member_knob_set(member[k], sw_optimizer_knob(opt, 0, "momentum"),
                              (float)momentum);
}

/* The scores of a turn decide: the worst two copy one of the best two, and explore. */
static int decide(sw_pbt *pbt, sw_optimizer *opt, const double *score, double time)
{
    sw_pbt_event e = SW_OPTS(sw_pbt_event, .what = SW_PBT_NONE);
    int bad = 0;
    for (int k = 0; k < MEMBERS && !bad; k++) {
        bad = sw_pbt_report(pbt, k, time, score[k]) || sw_pbt_next_event(pbt, &e);
        for (; !bad && e.what != SW_PBT_NONE; bad = bad || sw_pbt_next_event(pbt, &e))
            if (e.what == SW_PBT_EXPLOIT)
                bad = sw_member_copy(member[e.member], member[e.donor]) ||
                      set_knobs(pbt, opt, e.member);
    }
    return bad;
}

int main(void)
{
    const sw_optimizer_opts how =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f, .momentum = 0.5f, .knobs = 1);
    const sw_feed_opts batches = SW_OPTS(sw_feed_opts, .batch = 50, .shuffle = 1);
    const sw_exec_opts threads = SW_OPTS(sw_exec_opts, .threads = 2);
    sw_pbt_opts rules = SW_OPTS(sw_pbt_opts, .members = MEMBERS, .interval = TURN);
    sw_members_opts of = SW_OPTS(sw_members_opts, .fn = step);
    sw_exec *exec = NULL;
    sw_model *shape = NULL;
    sw_optimizer *opt = NULL;
    sw_dataset *data = NULL, *learned = NULL, *seen = NULL, *test = NULL;
    sw_feed *feed = NULL, *seen_feed = NULL, *test_feed = NULL;
    sw_members *group = NULL;
    sw_space *space = NULL;
    sw_pbt *pbt = NULL;
    double score[MEMBERS] = {0}, tested = 0, time = 0, until = 0;
    int turn[MEMBERS], n = 0, best = 0;

    int bad = sw_exec_create(&exec, &threads) || sw_model_create(&shape, "mlp");
    fc1 = sw_linear_new(shape, "fc1", 784, 32), fc2 = sw_linear_new(shape, "fc2", 32, 10);
    bad = bad || sw_optimizer_create(&opt, shape, &how) ||
          sw_dataset_synthetic(&data, 6000, 1) || sw_dataset_synthetic(&test, 1000, 2) ||
          sw_dataset_split(&learned, &seen, data, 1000, 1) ||
          sw_feed_create(&feed, learned, &batches) ||
          sw_feed_create(&seen_feed, seen, &batches) ||
          sw_feed_create(&test_feed, test, &batches);
    of.shape = shape, of.user = opt;
    bad = bad || sw_members_create(&group, exec, &of) || sw_space_create(&space) ||
          sw_space_parse(space, "lr=log:0.0001..1") ||
          sw_space_parse(space, "momentum=uniform:0..0.99");
    rules.space = space, rules.synch = 1, rules.stop_time = STEPS;
    bad = bad || sw_pbt_create(&pbt, &rules);
    for (int k = 0; k < MEMBERS && !bad; k++)
        bad = sw_member_new(&member[k], group, (uint64_t)k) || set_knobs(pbt, opt, k);

    sw_members_args train = SW_OPTS(sw_members_args, .members = member, .n = MEMBERS);
    train.feed = feed, train.mode = SW_TRAIN, train.own_steps = 1;
    sw_members_args eval = SW_OPTS(sw_members_args, .members = member, .n = MEMBERS);
    eval.feed = seen_feed, eval.mode = SW_EVAL, eval.steps = 20; /* all of them */
    while (!bad && !(bad = sw_pbt_next(pbt, turn, MEMBERS, &n, &until)) && n > 0) {
        train.steps = (uint32_t)(until - time), time = until;
        bad = sw_members_run(group, &train) || sw_members_run(group, &eval) ||
              sw_members_mean(group, "accuracy", score, MEMBERS) ||
              decide(pbt, opt, score, time);
    }
    for (int k = 0; k < MEMBERS; k++)
        best = score[k] > score[best] ? k : best;
    eval.members = &member[best], eval.n = 1, eval.feed = test_feed;
    bad = bad || sw_members_run(group, &eval) || sw_members_mean(group, "accuracy", &tested, 1);
    printf("best of %d members: %d, right in %.1f %% of the validation samples, %.1f %% of the "
           "test set %s\n",
           MEMBERS, best, 100 * score[best], 100 * tested, bad ? sw_last_error() : "");
    sw_pbt_destroy(pbt), sw_space_destroy(space), sw_members_destroy(group);
    sw_feed_destroy(feed), sw_feed_destroy(seen_feed), sw_feed_destroy(test_feed);
    sw_dataset_destroy(data), sw_dataset_destroy(test);
    sw_dataset_destroy(learned), sw_dataset_destroy(seen);
    sw_model_destroy(shape), sw_exec_destroy(exec);
    return bad;
}
