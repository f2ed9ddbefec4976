/* Several groups in one run, members of several threads, and what is refused without a
 * change. */
#include "tests/population/small_net.h"

SW_TESTS("groups of members")

enum { G = 3, N = 7, SAMPLES = 45, BATCH = 8 };

/* Groups of different widths, on one exec. */
typedef struct {
    sw_exec *exec;
    const sw_feed *feed;
    sw_members *group[G];
    sw_member member[G][N];
    sw_members_args args[G];
} scene;

static void scene_fill(scene *s, int threads, const sw_dataset *data)
{
    s->exec = small_exec(threads);
    s->feed = small_feed(data, BATCH, 0);
    for (int g = 0; g < G; g++) {
        s->group[g] = small_group(s->exec, small_new(5 + 4 * g), NULL);
        small_members(s->member[g], N, s->group[g], (uint64_t)(10 * g));
        s->args[g] = SW_OPTS(sw_members_args, .members = s->member[g], .n = (size_t)(N - g),
                             .feed = s->feed, .mode = SW_TRAIN, .own_steps = 1,
                             .steps = (uint32_t)(2 + g));
    }
}

SW_TEST("runs of several groups are those of each")
{
    const sw_dataset *data = small_data(SAMPLES);
    for (int threads = 1; threads <= 5; threads += 1 + (threads == 3)) {
        scene together, apart;
        double a[N], b[N];
        scene_fill(&together, threads, data);
        scene_fill(&apart, 1, data);
        for (int i = 0; i < 5; i++) {
            OK(sw_members_run_all(together.group, together.args, G));
            for (int g = G; g-- > 0;)
                OK(sw_members_run(apart.group[g], &apart.args[g]));
        }
        for (int g = 0; g < G; g++) {
            const size_t n = together.args[g].n;
            OK(sw_members_metric(together.group[g], "loss", a, n));
            OK(sw_members_metric(apart.group[g], "loss", b, n));
            CU_ASSERT(memcmp(a, b, n * sizeof *a) == 0);
            OK(sw_members_mean(together.group[g], "loss", a, n));
            OK(sw_members_mean(apart.group[g], "loss", b, n));
            CU_ASSERT(memcmp(a, b, n * sizeof *a) == 0);
            for (int k = 0; k < N; k++)
                SW_CHECK(small_same(together.member[g][k], apart.member[g][k]),
                         "%d threads: member %d of group %d", threads, k, g);
        }
    }
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void *all_bytes(const scene *s)
{
    size_t bytes = 0, at = 0;
    for (int g = 0; g < G; g++)
        bytes += N * sw_members_packed_bytes(s->group[g]);
    unsigned char *all = sw_block(bytes + sizeof bytes);
    for (int g = 0; g < G; g++)
        for (int k = 0; k < N; k++) {
            const size_t its = sw_members_packed_bytes(s->group[g]);
            OK(sw_member_pack(s->member[g][k], all + sizeof bytes + at, its));
            at += its;
        }
    memcpy(all, &bytes, sizeof bytes);
    return all;
}

static void check_same(const scene *s, void *before)
{
    size_t bytes;
    void *now = all_bytes(s);
    memcpy(&bytes, now, sizeof bytes);
    CU_ASSERT(memcmp(now, before, bytes + sizeof bytes) == 0);
}

SW_TEST("a refused run changes nothing")
{
    const sw_dataset *data = small_data(SAMPLES);
    scene s, other;
    scene_fill(&s, 4, data);
    scene_fill(&other, 4, data);
    OK(sw_members_run_all(s.group, s.args, G));
    void *before = all_bytes(&s);
    sw_members *const twice[] = {s.group[0], s.group[1], s.group[0]};
    sw_members *const foreign[] = {s.group[0], other.group[1]};
    sw_members *const with_null[] = {s.group[0], NULL};
    REFUSED(sw_members_run_all(twice, s.args, 3), SW_INVALID, "group 2 is named twice");
    REFUSED(sw_members_run_all(foreign, s.args, 2), SW_INVALID, "group 1 has others");
    REFUSED(sw_members_run_all(with_null, s.args, 2), SW_INVALID, "sw_members_run_all");
    REFUSED(sw_members_run_all(s.group, s.args, 0), SW_INVALID, "at least one group");
    REFUSED(sw_members_run_all(s.group, NULL, 1), SW_INVALID, "at least one group");
    REFUSED(sw_members_run_all(NULL, s.args, 1), SW_INVALID, "at least one group");
    const sw_members_opts two = {.threads = 2};
    sw_members *const wider[] = {s.group[0], small_group(s.exec, small_new(5), &two)};
    REFUSED(sw_members_run_all(wider, s.args, 2), SW_INVALID, "as many threads");
    sw_member gone = s.member[2][3];
    s.args[2].members = (sw_member[]){s.member[2][0], {gone.of, gone.index, 7}};
    s.args[2].n = 2; /* the last of the groups: the others were made ready */
    REFUSED(sw_members_run_all(s.group, s.args, G), SW_INVALID, "was ended");
    check_same(&s, before);
    s.args[2].members = s.member[2];
    OK(sw_members_run_all(s.group, s.args, G)); /* none is marked as going on */
}

SW_TEST("an exec is not destroyed before its groups")
{
    sw_exec *exec = NULL;
    small *shape = small_new(5);
    sw_members *all = NULL;
    sw_member member[N];
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .fn = small_step, .user = shape);
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = 2)));
    OK(sw_members_create(&all, exec, &opts));
    small_members(member, N, all, 1);
    sw_exec_destroy(exec);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "destroy them first"));
    OK(sw_members_run(all, &SW_OPTS(sw_members_args, .members = member, .n = N,
                                    .feed = small_feed(small_data(SAMPLES), BATCH, 0),
                                    .mode = SW_TRAIN)));
    sw_members_destroy(all);
    sw_exec_destroy(exec);
}

/* ---- members of several threads ---------------------------------------------------------- */

/* Convolutions have scratch for each thread: a plan of two threads has none for a third. */
static void compare_threads(int of_exec, int of_member)
{
    enum { IMAGES = 5, RUNS = 3 };
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    net *shape = net_new(true, &adam);
    const batch b = net_batch(true, 0, 20);
    sw_members *all = NULL;
    sw_member member[IMAGES];
    const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = shape->model, .fn = net_step,
                                         .user = shape, .threads = of_member);
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = of_exec));
    OK(sw_members_create(&all, exec, &opts));
    small_members(member, IMAGES, all, 1);
    sw_members_args args = SW_OPTS(sw_members_args, .members = member, .n = IMAGES,
                                   .inputs = b.in, .n_inputs = 2, .mode = SW_TRAIN);
    for (args.step = 0; args.step < RUNS; args.step++)
        OK(sw_members_run(all, &args));
    for (uint64_t k = 0; k < IMAGES; k++) {
        net *t = net_new(true, &adam);
        sw_exec *alone = made_exec(&SW_OPTS(sw_exec_opts, .seed = 1 + k));
        OK(sw_model_ready(t->model, alone, 1 + k));
        (void)net_train(alone, t, &b, RUNS);
        SW_CHECK(small_is(member[k], t->model), "%d of %d threads: member %d", of_member,
                 of_exec, (int)k);
    }
    sw_members_destroy(all);
}

/* Attention too: one slot of scratch for each thread. */
enum { SEQ = 64, SIZE = 32, HEADS = 4, SENTENCES = 3 };

static void attention_step(sw_ctx *ctx, void *user)
{
    small *t = user;
    const sw_shape apart = SW_SHAPE(SENTENCES, SEQ, SIZE);
    const sw_value x = sw_input(ctx, 0);
    const sw_value q = sw_reshape(ctx, sw_apply_linear(ctx, t->f1, x), apart);
    const sw_value k = sw_reshape(ctx, sw_apply_linear(ctx, t->f2, x), apart);
    const sw_value y = sw_attention(ctx, q, k, k, HEADS, 1, 0.0f);
    const sw_value loss =
        sw_mse(ctx, sw_reshape(ctx, y, SW_SHAPE(SENTENCES * SEQ, SIZE)), sw_input(ctx, 0));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &t->opt, 1);
    sw_update(ctx, t->opt);
}

static void attention_fill(small *t)
{
    OK(sw_model_create(&t->model, "attention"));
    t->f1 = sw_linear_new(t->model, "f1", SIZE, SIZE);
    t->f2 = sw_linear_new(t->model, "f2", SIZE, SIZE);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
    OK(sw_optimizer_create(&t->opt, t->model, &sgd));
}

static void compare_attention(int of_exec, int of_member)
{
    static float x[SENTENCES * SEQ * SIZE];
    const sw_array in = {SW_F32, SW_SHAPE(SENTENCES * SEQ, SIZE), x};
    small shape, one;
    sw_exec *exec = NULL, *alone = NULL;
    sw_members *all = NULL;
    sw_member member;
    for (int i = 0; i < SENTENCES * SEQ * SIZE; i++)
        x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    attention_fill(&shape);
    attention_fill(&one);
    exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = of_exec));
    alone = made_exec(&SW_OPTS(sw_exec_opts, .seed = 3));
    OK(sw_members_create(&all, exec,
                         &SW_OPTS(sw_members_opts, .shape = shape.model, .fn = attention_step,
                                  .user = &shape, .threads = of_member)));
    OK(sw_member_new(&member, all, 3));
    OK(sw_model_ready(one.model, alone, 3));
    for (uint64_t step = 0; step < 3; step++) {
        OK(sw_members_run(all,
                          &SW_OPTS(sw_members_args, .members = &member, .n = 1, .inputs = &in,
                                   .n_inputs = 1, .mode = SW_TRAIN, .step = step)));
        OK(sw_run(alone, &SW_OPTS(sw_run_args, .fn = attention_step, .user = &one,
                                  .models = &one.model, .n_models = 1, .inputs = &in,
                                  .n_inputs = 1, .mode = SW_TRAIN, .step = step)));
    }
    SW_CHECK(small_is(member, one.model), "%d of %d threads", of_member, of_exec);
    sw_members_destroy(all);
    sw_model_destroy(shape.model);
    sw_model_destroy(one.model);
}

SW_TEST("a member of several threads has the same bits")
{
    static const int cases[][2] = {{4, 2}, {4, 4}, {3, 2}, {4, 3}, {5, 2}, {4, 1}, {7, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compare_threads(cases[i][0], cases[i][1]);
        compare_attention(cases[i][0], cases[i][1]);
    }
}

SW_TEST("too many threads are refused")
{
    const small *shape = small_new(5);
    sw_members *none = NULL;
    for (int threads = -1; threads <= 3; threads += 4) {
        const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = shape->model,
                                             .fn = small_step, .threads = threads);
        REFUSED(sw_members_create(&none, small_exec(2), &opts), SW_INVALID,
                "threads must be 1 to 2");
    }
    CU_ASSERT_PTR_NULL(none);
}
