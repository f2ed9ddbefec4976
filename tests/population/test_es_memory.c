/* The bytes that noise costs: nothing of it is stored, and the peak of a step with noise is
 * that of the same step function in SW_EVAL over the same rows, but for a little scratch of
 * each thread and 12 bytes for each evaluation, whatever the population; as planned, and as the
 * witnesses observe it. */
#include "tests/population/es_nets.h"

SW_TESTS("es memory")

typedef enum { MLP, LENET, NORMED, GPT, GPT_FUSED, KINDS } subject_kind;
static const char *const names[KINDS] = {"mlp", "lenet5", "batch norm", "gpt", "gpt linear_ce"};

enum { WORDS = 1000, WIDTH = 32, LENGTH = 16, BLOCKS = 2 };

typedef struct {
    subject_kind kind;
    sw_model *model;
    sw_optimizer *sgd;
    sw_es *es;
    sw_linear fc[4];
    sw_conv2d conv[2];
    sw_batch_norm2d norm[2];
    sw_embedding words, places;
    sw_layer_norm before[BLOCKS], between[BLOCKS], last;
    sw_linear qkv[BLOCKS], out[BLOCKS], up[BLOCKS], down[BLOCKS];
    sw_array in[3];
    int n_in;
} subject;

/* ---- nets -------------------------------------------------------------------------------- */

static sw_value perceptron(sw_ctx *ctx, const subject *s, sw_value x)
{
    for (int i = 0; i < 2; i++)
        x = sw_relu(ctx, sw_apply_linear(ctx, s->fc[i], x));
    return sw_apply_linear(ctx, s->fc[2], x);
}

static sw_value images(sw_ctx *ctx, const subject *s, sw_value x)
{
    for (int i = 0; i < 2; i++) {
        x = sw_apply_conv2d(ctx, s->conv[i], x);
        if (s->kind == NORMED)
            x = sw_relu(ctx, sw_apply_batch_norm2d(ctx, s->norm[i], x));
        else
            x = sw_max_pool(ctx, sw_relu(ctx, x), 2);
    }
    if (s->kind == NORMED)
        return sw_apply_linear(ctx, s->fc[0], sw_flatten(ctx, sw_global_avg_pool(ctx, x)));
    return perceptron(ctx, s, sw_flatten(ctx, x));
}

static sw_value tokens(sw_ctx *ctx, const subject *s, sw_value ids)
{
    sw_value x = sw_add(ctx, sw_apply_embedding(ctx, s->words, ids),
                        sw_apply_embedding(ctx, s->places, sw_input(ctx, 2)));
    x = sw_reshape(ctx, x, SW_SHAPE(-1, WIDTH));
    for (int i = 0; i < BLOCKS; i++) {
        sw_value part[3] = {{0, 0}, {0, 0}, {0, 0}};
        sw_value y = sw_apply_linear(ctx, s->qkv[i], sw_apply_layer_norm(ctx, s->before[i], x));
        sw_split(ctx, sw_reshape(ctx, y, SW_SHAPE(-1, LENGTH, 3 * WIDTH)), WIDTH, -1, part, 3);
        y = sw_attention(ctx, part[0], part[1], part[2], 4, 1, 0.0f);
        y = sw_apply_linear(ctx, s->out[i], sw_reshape(ctx, y, SW_SHAPE(-1, WIDTH)));
        x = sw_add(ctx, x, y);
        y = sw_apply_linear(ctx, s->up[i], sw_apply_layer_norm(ctx, s->between[i], x));
        x = sw_add(ctx, x, sw_apply_linear(ctx, s->down[i], sw_gelu(ctx, y)));
    }
    return sw_apply_layer_norm(ctx, s->last, x);
}

static void step(sw_ctx *ctx, void *user)
{
    const subject *s = user;
    const sw_value labels = sw_reshape(ctx, sw_input(ctx, 1), SW_SHAPE(-1)), none = {0, 0};
    sw_value x = sw_input(ctx, 0);
    x = s->kind == MLP   ? perceptron(ctx, s, x)
        : s->kind >= GPT ? tokens(ctx, s, x)
                         : images(ctx, s, x);
    if (s->kind == GPT_FUSED) {
        sw_metric(ctx, "loss",
                  sw_linear_ce(ctx, x, sw_use(ctx, s->words.weight), none, labels));
        return;
    }
    if (s->kind == GPT)
        x = sw_linear_op(ctx, x, sw_use(ctx, s->words.weight), none);
    sw_metric(ctx, "loss", sw_softmax_ce(ctx, x, labels));
    sw_metric(ctx, "accuracy", sw_accuracy(ctx, x, labels));
}

static void declare_gpt(subject *s)
{
    s->words = sw_embedding_new(s->model, "words", WORDS, WIDTH);
    s->places = sw_embedding_new(s->model, "places", LENGTH, WIDTH);
    s->last = sw_layer_norm_new(s->model, "last", WIDTH);
    for (int i = 0; i < BLOCKS; i++) {
        char name[6][16];
        static const char *const parts[] = {"before", "qkv", "out", "between", "up", "down"};
        for (int k = 0; k < 6; k++)
            snprintf(name[k], sizeof name[k], "%s%d", parts[k], i);
        s->before[i] = sw_layer_norm_new(s->model, name[0], WIDTH);
        s->qkv[i] = sw_linear_new(s->model, name[1], WIDTH, 3 * WIDTH);
        s->out[i] = sw_linear_new(s->model, name[2], WIDTH, WIDTH);
        s->between[i] = sw_layer_norm_new(s->model, name[3], WIDTH);
        s->up[i] = sw_linear_new(s->model, name[4], WIDTH, 4 * WIDTH);
        s->down[i] = sw_linear_new(s->model, name[5], 4 * WIDTH, WIDTH);
    }
}

/* ---- subjects ---------------------------------------------------------------------------- */

/* A net, a strategy over it, and a batch for one slice: (2, slice). */
static subject *subject_new(subject_kind kind, const char *noise, uint32_t directions,
                            uint32_t slice)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
    const bool parts = strcmp(noise, "sparse") == 0 || strcmp(noise, "permuted") == 0;
    const sw_es_opts es = SW_OPTS(sw_es_opts, .noise = noise, .in_share = parts ? 0.5f : 0.0f,
                                  .directions = directions, .slice = slice, .seed = 3);
    subject *s = sw_block(sizeof *s);
    s->kind = kind;
    s->model = made_model("net");
    const sw_conv_opts padded = SW_OPTS(sw_conv_opts, .pad = 1);
    const sw_conv_opts strided = SW_OPTS(sw_conv_opts, .pad = 1, .stride = 2);
    switch (s->kind) {
    case MLP:
        s->fc[0] = sw_linear_new(s->model, "fc1", 64, 128);
        s->fc[1] = sw_linear_new(s->model, "fc2", 128, 96);
        s->fc[2] = sw_linear_new(s->model, "fc3", 96, 10);
        break;
    case LENET:
        s->conv[0] = sw_conv2d_new(s->model, "conv1", 1, 6, 5);
        s->conv[1] = sw_conv2d_new(s->model, "conv2", 6, 16, 5);
        s->fc[0] = sw_linear_new(s->model, "fc1", 256, 120);
        s->fc[1] = sw_linear_new(s->model, "fc2", 120, 84);
        s->fc[2] = sw_linear_new(s->model, "fc3", 84, 10);
        break;
    case NORMED:
        s->conv[0] = sw_conv2d_new_with(s->model, "conv1", 3, 16, 3, &padded);
        s->conv[1] = sw_conv2d_new_with(s->model, "conv2", 16, 32, 3, &strided);
        s->norm[0] = sw_batch_norm2d_new(s->model, "norm1", 16);
        s->norm[1] = sw_batch_norm2d_new(s->model, "norm2", 32);
        s->fc[0] = sw_linear_new(s->model, "fc", 32, 10);
        break;
    default:
        declare_gpt(s);
    }
    OK(sw_optimizer_create(&s->sgd, s->model, &sgd));
    OK(sw_es_create(&s->es, s->sgd, &es));
    AFTER(sw_es_destroy, s->es);
    const int64_t rows = 2 * (int64_t)slice;
    const bool words = s->kind >= GPT;
    s->n_in = words ? 3 : 2;
    s->in[0] = (sw_array){SW_F32, SW_SHAPE(rows, 64), NULL};
    if (s->kind == LENET)
        s->in[0].shape = SW_SHAPE(rows, 1, 28, 28);
    if (s->kind == NORMED)
        s->in[0].shape = SW_SHAPE(rows, 3, 16, 16);
    if (words)
        s->in[0] = (sw_array){SW_I32, SW_SHAPE(rows, LENGTH), NULL};
    s->in[1] = (sw_array){SW_I32, words ? SW_SHAPE(rows, LENGTH) : SW_SHAPE(rows), NULL};
    s->in[2] = (sw_array){SW_I32, SW_SHAPE(rows, LENGTH), NULL};
    for (int i = 0; i < s->n_in; i++) {
        const uint64_t limit = i == 2 ? LENGTH : 10;
        sw_dice dice = {17};
        const sw_type type = {s->in[i].dtype, SW_PLAIN, s->in[i].shape};
        const int64_t n = sw_type_elements(&type);
        void *data = sw_block((size_t)n * 4);
        for (int64_t k = 0; k < n; k++)
            if (type.dtype == SW_F32)
                ((float *)data)[k] = (float)sw_dice_below(&dice, 2001) / 1000.0f - 1.0f;
            else
                ((int32_t *)data)[k] = (int32_t)sw_dice_below(&dice, limit);
        s->in[i].data = data;
    }
    return s;
}

static sw_exec *exec_of(int threads)
{
    /* Without noise images would go some at a time, which noise on parameters does not. */
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .no_strips = 1));
}

#define ARGS_OF(s_, noise_)                                                                    \
    SW_OPTS(sw_run_args, .fn = step, .user = s_, .models = &(s_)->model, .n_models = 1,        \
            .inputs = (s_)->in, .n_inputs = (s_)->n_in, .mode = SW_EVAL,                       \
            .es = (noise_) ? (s_)->es : NULL)

static sw_plan_info plan_of(sw_exec *exec, subject *s, bool noise)
{
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &ARGS_OF(s, noise), &plan));
    return plan;
}

/* ---- plans ------------------------------------------------------------------------------- */

/* Storages that ops of noise write first: no scratch, and no losses of evaluations. */
static void see_storage(void *to, const sw_plan_storage *storage)
{
    if (storage->op != NULL && strstr(storage->op, "noise_") != NULL &&
        storage->alias == UINT32_MAX && strcmp(storage->role, "workspace") != 0 &&
        strcmp(storage->role, "output") != 0)
        *(size_t *)to += storage->bytes;
}

static void check_bytes(sw_exec *exec, int threads, subject *s, const char *noise)
{
    size_t stored = 0;
    const sw_plan_visitor see = SW_OPTS(sw_plan_visitor, .to = &stored, .storage = see_storage);
    const sw_plan_info with = plan_of(exec, s, true), without = plan_of(exec, s, false);
    const size_t bound = ((size_t)threads << 16) + 12 * sw_es_rows(s->es);
    OK(sw_plan_visit(exec, &ARGS_OF(s, true), &see));
    SW_CHECK(stored == 0, "%s, %s: %zu bytes of noise", names[s->kind], noise, stored);
    SW_CHECK(with.peak_bytes <= without.peak_bytes + bound,
             "%s, %s, %d threads: %zu bytes, %zu without noise: %zu above, at %s (%s)",
             names[s->kind], noise, threads, with.peak_bytes, without.peak_bytes,
             with.peak_bytes - without.peak_bytes, with.peak_op, with.holders);
    CU_ASSERT_EQUAL(with.model_bytes, without.model_bytes);
}

SW_TEST("nothing of the noise has bytes")
{
    for (int threads = 1; threads <= 2; threads++) {
        sw_exec *exec = exec_of(threads);
        for (int kind = 0; kind < KINDS; kind++)
            for (int n = 0; n < ES_NOISES; n++)
                check_bytes(exec, threads,
                            subject_new((subject_kind)kind, es_noises[n], 256, 256),
                            es_noises[n]);
    }
}

SW_TEST("populations of every size have one peak")
{
    sw_exec *exec = exec_of(2);
    for (int kind = 0; kind < KINDS; kind++) {
        size_t first = 0;
        for (int power = 10; power <= 20; power += sw_tests_full() ? 1 : 5) {
            const char *noise = es_noises[(kind + power) % ES_NOISES];
            subject *s = subject_new((subject_kind)kind, noise, 1u << power, 64);
            const sw_plan_info with = plan_of(exec, s, true);
            const size_t evaluations = (size_t)2 << power;
            check_bytes(exec, 2, s, noise);
            SW_CHECK(sw_es_bytes(s->es) <= 12 * evaluations, "%zu", sw_es_bytes(s->es));
            CU_ASSERT_EQUAL(sw_es_slices(s->es), (1u << power) / 64);
            if (power == 10)
                first = plan_of(exec, s, false).peak_bytes;
            SW_CHECK(with.peak_bytes <= first + (2u << 16) + 12 * 128, "%s, 2^%d", names[kind],
                     power);
        }
    }
}

/* ---- runs -------------------------------------------------------------------------------- */

enum { OBSERVERS = SW_WITNESS_ACCESS | SW_WITNESS_EXTENT | SW_WITNESS_DEATH };

static void observe(sw_exec *exec, subject *s, const char *noise)
{
    sw_run_args args = ARGS_OF(s, true);
    const sw_plan_info plan = plan_of(exec, s, true);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    sw_run_info run = SW_OPTS(sw_run_info);
    args.es_slice = 1;
    OK(sw_witness(exec, &args, OBSERVERS, &seen));
    SW_CHECK(seen.agreed == OBSERVERS, "%s, %s: %s", names[s->kind], noise, seen.first_fault);
    SW_CHECK(seen.peak_bytes == plan.peak_bytes, "%s, %s: %zu seen, %zu planned",
             names[s->kind], noise, seen.peak_bytes, plan.peak_bytes);
    OK(sw_es_evaluate(s->es, exec, &args, 1, "loss"));
    OK(sw_last_run(exec, &run));
    CU_ASSERT_EQUAL(run.peak_bytes, plan.peak_bytes);
    CU_ASSERT_EQUAL(run.arena_bytes, plan.arena_bytes);
    for (int i = 0; i < SW_PHASES; i++)
        CU_ASSERT_EQUAL(run.phase[i].peak_bytes, plan.phase[i].peak_bytes);
    OK(sw_es_evaluate(s->es, exec, &args, 0, "loss"));
    OK(sw_last_run(exec, &run));
    CU_ASSERT_EQUAL(run.allocations, 0);
}

/* Each net with each noise; in quick mode each of both is there. */
SW_TEST("witnesses observe what was planned")
{
    for (int threads = 1; threads <= 2; threads++) {
        sw_exec *exec = exec_of(threads);
        for (int kind = 0; kind < KINDS; kind++)
            for (int n = 0; n < ES_NOISES; n++)
                if (sw_tests_full() || n % KINDS == (kind + threads) % KINDS)
                    observe(exec, subject_new((subject_kind)kind, es_noises[n], 5, 3),
                            es_noises[n]);
    }
}
