#include "tests/population/small_net.h"

void small_step(sw_ctx *ctx, void *user)
{
    small *t = user;
    sw_value x = sw_tanh(ctx, sw_apply_linear(ctx, t->f1, sw_input(ctx, 0)));
    x = sw_apply_linear(ctx, t->f2, sw_dropout(ctx, x, 0.25f));
    const sw_value loss = sw_mse(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) == SW_EVAL)
        return;
    const sw_value now = sw_reshape(ctx, sw_detach(ctx, loss), SW_SHAPE(1));
    sw_assign(ctx, t->seen, sw_add(ctx, sw_use(ctx, t->seen), now));
    sw_backward(ctx, sw_scale(ctx, loss, t->factor), &t->opt, 1);
    sw_update(ctx, t->opt);
}

static void end_small(void *user)
{
    sw_model_destroy(((small *)user)->model);
    free(user);
}

small *small_new(int64_t hidden)
{
    small *t = calloc(1, sizeof *t);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    sw_after(end_small, t);
    char name[32];
    snprintf(name, sizeof name, "small%lld", (long long)hidden);
    OK(sw_model_create(&t->model, name));
    t->f1 = sw_linear_new(t->model, "f1", SMALL_WIDTH, hidden);
    t->f2 = sw_linear_new(t->model, "f2", hidden, SMALL_WIDTH);
    t->seen = sw_state_new(t->model, "seen", SW_F32, SW_SHAPE(1));
    t->factor = sw_knob_new(t->model, "factor", 1.0f);
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.02f);
    OK(sw_optimizer_create(&t->opt, t->model, &opts));
    return t;
}

sw_dataset *small_data(int64_t n)
{
    sw_dataset *data = NULL;
    OK(sw_dataset_vectors(&data, n, SMALL_WIDTH, 5));
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    AFTER(sw_dataset_destroy, data);
    return data;
}

sw_feed *small_feed(const sw_dataset *data, int64_t rows, int drop_last)
{
    const sw_feed_opts opts =
        SW_OPTS(sw_feed_opts, .batch = rows, .shuffle = 1, .drop_last = drop_last);
    sw_feed *feed = NULL;
    OK(sw_feed_create(&feed, data, &opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(feed);
    AFTER(sw_feed_destroy, feed);
    return feed;
}

sw_exec *small_exec(int threads)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads));
}

sw_members *small_group(sw_exec *exec, const small *shape, const sw_members_opts *opts)
{
    sw_members_opts o = {.threads = 0};
    sw_members *made = NULL;
    if (opts != NULL)
        o = *opts;
    o.size = sizeof o;
    o.shape = shape->model;
    o.fn = small_step;
    o.user = (void *)(uintptr_t)shape;
    OK(sw_members_create(&made, exec, &o));
    CU_ASSERT_PTR_NOT_NULL_FATAL(made);
    AFTER(sw_members_destroy, made);
    return made;
}

void small_members(sw_member *out, size_t n, sw_members *of, uint64_t first_seed)
{
    for (size_t k = 0; k < n; k++)
        OK(sw_member_new(&out[k], of, first_seed + k));
}

small *small_alone(int64_t hidden, const sw_dataset *data, int64_t rows, int drop_last,
                   uint64_t seed, uint64_t stream, uint64_t steps, double *last, double *sum)
{
    small *t = small_new(hidden);
    sw_loader *loader = NULL;
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .seed = seed));
    OK(sw_model_ready(t->model, exec, seed));
    OK(sw_loader_create(&loader, data,
                        &SW_OPTS(sw_loader_opts, .batch = rows, .seed = stream, .shuffle = 1,
                                 .drop_last = drop_last, .keyed = 1, .inline_fill = 1)));
    *sum = *last = 0.0;
    for (uint64_t step = 0, epoch = 0; step < steps; step++) {
        const sw_array *in = NULL;
        int n = 0;
        if (step == 0)
            OK(sw_loader_epoch(loader, epoch));
        OK(sw_loader_next(loader, &in, &n));
        if (n == 0) {
            OK(sw_loader_epoch(loader, ++epoch));
            OK(sw_loader_next(loader, &in, &n));
        }
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = small_step, .user = t, .models = &t->model,
                                 .n_models = 1, .inputs = in, .n_inputs = n, .mode = SW_TRAIN,
                                 .step = step)));
        OK(sw_metric_get(exec, "loss", last));
        *sum += *last;
    }
    sw_loader_destroy(loader);
    sw_now(exec);
    return t;
}

bool small_is(sw_member member, sw_model *model)
{
    void *bytes = net_copy_bytes(model);
    return sw_member_to_model(model, member) == SW_OK && net_same_bytes(model, bytes);
}

bool small_same(sw_member a, sw_member b)
{
    const size_t bytes = sw_members_packed_bytes(a.of);
    unsigned char *of_a = sw_block(bytes), *of_b = sw_block(bytes);
    bool same = bytes > 0 && bytes == sw_members_packed_bytes(b.of);
    OK(sw_member_pack(a, of_a, bytes));
    OK(sw_member_pack(b, of_b, bytes));
    /* The head of 64 bytes has the seed, which copies keep. */
    same = same && memcmp(of_a + 64, of_b + 64, bytes - 64) == 0;
    return same;
}

void small_progress(sw_member member, uint64_t steps, uint64_t batches)
{
    uint64_t has_steps = 0, has_batches = 0;
    OK(sw_member_progress(member, &has_steps, &has_batches));
    SW_CHECK(has_steps == steps && has_batches == batches, "%llu steps, %llu batches",
             (unsigned long long)has_steps, (unsigned long long)has_batches);
}
