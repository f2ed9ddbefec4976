/* Random nets under random noise: each evaluation is the net with parameters of its own, a
 * generation has the same bits however it is cut and run, and what is not a number stays where
 * it is. */
#include "runtime/population/es/es_internal.h"
#include "tests/population/es_nets.h"

SW_TESTS("es random")

/* ---- random nets: layers of all kinds with views between them, parameters that several
 * layers share, that are frozen, or that belong to another optimizer or model ---- */

enum { RN_MOST = 48, RN_INPUTS = 3 };
typedef enum { RN_NOISE, RN_OTHER, RN_FROZEN, RN_SECOND } rn_owner; /* of a parameter */

typedef struct {
    uint64_t seed;
    sw_model *models[2];
    sw_optimizer *perturbed, *other, *second; /* NULL where it would have no parameters */
    sw_es *es;
    sw_param params[RN_MOST];
    rn_owner owner[RN_MOST];
    sw_param buffers[RN_MOST];
    int n_params, n_buffers; /* that were declared, or used so far in a walk */
    bool words;              /* input 0 is ids */
    bool normed;             /* batch norm: statistics of the batch while training */
    bool grouped;            /* group norm of images */
    sw_shape row;            /* input 0 of one row */
    char layers[400];        /* their names, for messages */
} rn_net;

/* `rows` rows. A row depends on `keys[row]` alone (NULL: its number). */
typedef struct {
    sw_array in[RN_INPUTS];
} rn_batch;

enum { WORDS = 9, CLASSES = 4 };
typedef enum { VECTOR, SEQUENCE, IMAGE } form;

/* A walk through the net: ctx NULL declares, else applies. Both draw the same numbers. */
typedef struct {
    rn_net *t;
    sw_ctx *ctx;
    sw_dice dice;
    sw_value x;
    form form;
    int64_t c, h, w; /* VECTOR (c), SEQUENCE (h, w), IMAGE (c, h, w) */
} walk;

static int64_t below(walk *k, uint64_t n)
{
    return (int64_t)sw_dice_below(&k->dice, n);
}

static const sw_value none = {0, 0};

/* The next parameter; its owner is drawn. */
static sw_value param(walk *k, sw_shape shape, const char *init)
{
    rn_net *t = k->t;
    const int64_t drawn = below(k, 12);
    const int at = t->n_params++;
    if (!SW_CHECK(at < RN_MOST, "more than %d parameters", RN_MOST))
        exit(1);
    if (k->ctx != NULL)
        return sw_use(k->ctx, t->params[at]);
    char name[16];
    snprintf(name, sizeof name, "p%d", at);
    t->owner[at] = at == 0      ? RN_NOISE /* one has noise at least */
                   : drawn == 0 ? RN_FROZEN
                   : drawn == 1 ? RN_OTHER
                   : drawn == 2 ? RN_SECOND
                                : RN_NOISE;
    t->params[at] =
        sw_param_new(t->models[t->owner[at] == RN_SECOND], name, SW_F32, shape, init);
    return none;
}

static sw_param buffer(walk *k, int64_t n, const char *init)
{
    rn_net *t = k->t;
    const int at = t->n_buffers++;
    char name[16];
    snprintf(name, sizeof name, "b%d", at);
    if (k->ctx == NULL)
        t->buffers[at] = sw_buffer_new(t->models[0], name, SW_F32, SW_SHAPE(n), init);
    return t->buffers[at];
}

static void note(walk *k, const char *layer)
{
    const size_t used = strlen(k->t->layers);
    if (k->ctx == NULL)
        snprintf(k->t->layers + used, sizeof k->t->layers - used, " %s", layer);
}

/* Apply where there is a ctx: for calls that return a value. */
#define DO(call)                                                                               \
    do {                                                                                       \
        if (k->ctx != NULL)                                                                    \
            k->x = (call);                                                                     \
    } while (0)

/* ---- layers ------------------------------------------------------------------------------ */

static void linear(walk *k, int64_t out)
{
    const bool biased = below(k, 3) != 0;
    note(k, biased ? "linear" : "linear-");
    const sw_value w = param(k, SW_SHAPE(out, k->c), "normal:0.4");
    const sw_value b = biased ? param(k, SW_SHAPE(out), "normal:0.3") : none;
    DO(sw_linear_op(k->ctx, k->x, w, b));
    k->c = out;
}

static void activation(walk *k)
{
    const int64_t which = below(k, 5);
    note(k, "act");
    switch (which) {
    case 0:
        DO(sw_relu(k->ctx, k->x));
        break;
    case 1:
        DO(sw_tanh(k->ctx, k->x));
        break;
    case 2:
        DO(sw_gelu(k->ctx, k->x));
        break;
    case 3:
        DO(sw_scale_by(k->ctx, sw_swish(k->ctx, k->x), 1.5f));
        break;
    default:
        DO(sw_sub(k->ctx, k->x, sw_sigmoid(k->ctx, k->x)));
    }
}

/* Along the last axis, or the channels of images. */
static void vector(walk *k)
{
    const int64_t n = k->form == SEQUENCE ? k->w : k->c, first = below(k, 2);
    const bool gains = below(k, 2) != 0;
    note(k, gains ? "gain" : "shift");
    const sw_value p = param(k, k->form == IMAGE ? SW_SHAPE(n, 1, 1) : SW_SHAPE(n), "normal:1");
    if (gains)
        DO(first ? sw_mul(k->ctx, p, k->x) : sw_mul(k->ctx, k->x, p));
    else
        DO(first ? sw_add(k->ctx, p, k->x) : sw_add(k->ctx, k->x, p));
}

static void norm(walk *k)
{
    const int64_t n = k->form == SEQUENCE ? k->w : k->c, which = below(k, 2);
    const bool shifted = below(k, 2) != 0;
    note(k, which ? "rms" : "layer norm");
    const sw_value w = param(k, SW_SHAPE(n), "normal:1");
    const sw_value b = shifted && !which ? param(k, SW_SHAPE(n), "normal:0.5") : none;
    if (which)
        DO(sw_rms_norm_op(k->ctx, k->x, w, 0.1f));
    else
        DO(sw_layer_norm_op(k->ctx, k->x, w, b, 0.1f));
}

/* ---- views ------------------------------------------------------------------------------- */

/* Halves of a vector change places; or sequences become vectors of more rows. */
static void view(walk *k)
{
    if (k->form == VECTOR && k->c % 2 == 0 && k->c > 2) {
        note(k, "halves");
        if (k->ctx != NULL) {
            const sw_value parts[] = {sw_slice(k->ctx, k->x, 1, k->c / 2, k->c / 2),
                                      sw_slice(k->ctx, k->x, 1, 0, k->c / 2)};
            k->x = sw_concat(k->ctx, parts, 2, 1);
        }
    } else if (k->form == SEQUENCE) {
        note(k, "rows");
        DO(sw_reshape(k->ctx, k->x, SW_SHAPE(-1, k->w)));
        k->c = k->w;
        const int64_t length = k->h;
        k->form = VECTOR;
        linear(k, k->c);
        DO(sw_reshape(k->ctx, k->x, SW_SHAPE(-1, length, k->c)));
        k->form = SEQUENCE;
        k->w = k->c;
    } else if (k->form == IMAGE) {
        const int64_t side = k->h;
        note(k, "transpose");
        DO(sw_transpose(k->ctx, k->x, 2, 3));
        k->h = k->w;
        k->w = side;
    }
}

/* ---- the net ----------------------------------------------------------------------------- */

static void layer(walk *k)
{
    const int64_t which = below(k, 6);
    if (which == 0)
        activation(k);
    else if (which == 1)
        vector(k);
    else if (which == 2)
        view(k);
    else if (k->form == VECTOR && which == 3)
        norm(k);
    else if (k->form == VECTOR && which == 4) {
        /* The same weight twice. */
        note(k, "twice");
        const sw_value w = param(k, SW_SHAPE(k->c, k->c), "normal:0.3");
        DO(sw_linear_op(k->ctx, sw_tanh(k->ctx, sw_linear_op(k->ctx, k->x, w, none)), w, none));
    } else if (k->form == VECTOR)
        linear(k, 2 + below(k, 9));
    else if (k->form == SEQUENCE && which == 3) {
        const bool causal = below(k, 2) != 0;
        note(k, "attention");
        DO(sw_add(k->ctx, k->x, sw_attention(k->ctx, k->x, k->x, k->x, 2, causal, 0.0f)));
    } else if (k->form == SEQUENCE)
        norm(k);
    else if (which == 3 && k->h > 2 && k->w > 2) {
        const bool most = below(k, 2) != 0;
        note(k, "pool");
        DO(most ? sw_max_pool2d(k->ctx, k->x, 2, 1, 0) : sw_avg_pool2d(k->ctx, k->x, 2, 1, 0));
        k->h--;
        k->w--;
    } else if (which == 4) {
        const bool by_batch = below(k, 2) != 0;
        const bool halves = k->c % 2 == 0;
        note(k, by_batch ? "batch norm" : "group norm");
        const sw_value w = param(k, SW_SHAPE(k->c), "normal:1");
        const sw_value b = param(k, SW_SHAPE(k->c), "normal:0.5");
        if (by_batch) {
            const sw_param mean = buffer(k, k->c, "normal:0.2"), var = buffer(k, k->c, "ones");
            k->t->normed = true;
            DO(sw_batch_norm_op(k->ctx, k->x, w, b, mean, var, 0.1f, 1e-3f));
        } else {
            k->t->grouped = true;
            DO(sw_group_norm_op(k->ctx, k->x, w, b, halves ? 2 : 1, 0.1f));
        }
    } else {
        const int kernel = (int)(1 + below(k, 3)), stride = (int)(1 + below(k, 2));
        const int groups = k->c % 2 == 0 && below(k, 3) == 0 ? 2 : 1;
        const int64_t out = groups * (1 + below(k, 3)) * 2;
        const bool biased = below(k, 3) != 0;
        const sw_conv_opts o =
            SW_OPTS(sw_conv_opts, .stride = stride, .pad = kernel / 2, .groups = groups,
                    .dilation = kernel == 3 && k->h > 4 && below(k, 4) == 0 ? 2 : 1);
        note(k, biased ? "conv" : "conv-");
        const sw_value w = param(k, SW_SHAPE(out, k->c / groups, kernel, kernel), "normal:0.3");
        const sw_value b = biased ? param(k, SW_SHAPE(out), "normal:0.3") : none;
        DO(sw_conv2d_op_with(k->ctx, k->x, w, b, &o));
        const int64_t reach = (kernel - 1) * o.dilation + 1;
        k->h = (k->h + 2 * o.pad - reach) / stride + 1;
        k->w = (k->w + 2 * o.pad - reach) / stride + 1;
        k->c = out;
    }
}

static void begin(walk *k)
{
    static const int64_t sides[] = {3, 5, 6};
    k->form = (form)below(k, 3);
    k->c = 2 + below(k, 6);
    k->h = k->form == IMAGE ? sides[below(k, 3)] : 2 + below(k, 3);
    k->w = k->form == SEQUENCE ? 4 + 2 * below(k, 3) : k->h;
    k->t->words = k->form == SEQUENCE;
    k->t->row = k->form == VECTOR  ? SW_SHAPE(k->c)
                : k->form == IMAGE ? SW_SHAPE(k->c, k->h, k->w)
                                   : SW_SHAPE(k->h);
    if (k->ctx != NULL)
        k->x = sw_input(k->ctx, 0);
    if (k->form != SEQUENCE)
        return;
    note(k, "embedding");
    const sw_value table = param(k, SW_SHAPE(WORDS, k->w), "normal:1");
    DO(sw_embedding_op(k->ctx, k->x, table));
}

static sw_value go(walk *k)
{
    k->t->n_params = k->t->n_buffers = 0;
    begin(k);
    for (int64_t n = 2 + below(k, 5); n > 0; n--)
        layer(k);
    const int64_t which = below(k, 5);
    note(k, "flatten");
    DO(sw_flatten(k->ctx, k->x));
    k->c = k->form == SEQUENCE ? k->h * k->w : k->form == IMAGE ? k->c * k->h * k->w : k->c;
    k->form = VECTOR;
    if (which == 0) {
        note(k, "linear_ce");
        const sw_value w = param(k, SW_SHAPE(CLASSES, k->c), "normal:0.3");
        const sw_value b = param(k, SW_SHAPE(CLASSES), "normal:0.3");
        return k->ctx == NULL ? none : sw_linear_ce(k->ctx, k->x, w, b, sw_input(k->ctx, 1));
    }
    linear(k, CLASSES);
    if (k->ctx == NULL)
        return none;
    const sw_value target = sw_input(k->ctx, 2);
    if (which == 1)
        return sw_mse(k->ctx, k->x, target);
    if (which == 2)
        return sw_huber(k->ctx, k->x, target, 0.5f);
    if (which == 3)
        return sw_scale_by(k->ctx, sw_mean(k->ctx, sw_mul(k->ctx, k->x, k->x), 0), 0.5f);
    const sw_value ce = sw_softmax_ce(k->ctx, k->x, sw_input(k->ctx, 1));
    return sw_add(k->ctx, ce, sw_l1(k->ctx, k->x, target)); /* numbers of evaluations */
}

static void rn_step(sw_ctx *ctx, void *user)
{
    rn_net *t = user;
    walk k = {.t = t, .ctx = ctx, .dice = {t->seed}};
    sw_optimizer *all[3];
    int n = 0;
    const sw_value loss = go(&k);
    sw_metric(ctx, "loss", loss);
    if (sw_ctx_mode(ctx) != SW_TRAIN)
        return;
    all[n++] = t->perturbed;
    if (t->other != NULL)
        all[n++] = t->other;
    if (t->second != NULL)
        all[n++] = t->second;
    sw_backward(ctx, loss, all, n);
    for (int i = 0; i < n; i++)
        sw_update(ctx, all[i]);
}

/* ---- making ------------------------------------------------------------------------------ */

static void rn_end(rn_net *t)
{
    sw_es_destroy(t->es);
    sw_model_destroy(t->models[0]);
    sw_model_destroy(t->models[1]);
    free(t);
}

/* The optimizer of what belongs to `a`, or to `b` too. */
static sw_optimizer *optimizer(rn_net *t, sw_model *model, rn_owner a, rn_owner b)
{
    sw_param list[RN_MOST];
    sw_optimizer *made = NULL;
    size_t n = 0;
    for (int i = 0; i < t->n_params; i++)
        if (t->owner[i] == a || t->owner[i] == b)
            list[n++] = t->params[i];
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.05f, .params = list, .n_params = n);
    if (n > 0)
        OK(sw_optimizer_create(&made, model, &opts));
    return made;
}

/* The same net for the same seed. es NULL: without a strategy. */
static rn_net *rn_new(uint64_t seed, const sw_es_opts *es)
{
    rn_net *t = calloc(1, sizeof *t);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    t->seed = seed;
    OK(sw_model_create(&t->models[0], "first"));
    OK(sw_model_create(&t->models[1], "second"));
    walk k = {.t = t, .dice = {seed}};
    go(&k);
    t->perturbed = optimizer(t, t->models[0], RN_NOISE, RN_FROZEN);
    t->other = optimizer(t, t->models[0], RN_OTHER, RN_OTHER);
    t->second = optimizer(t, t->models[1], RN_SECOND, RN_SECOND);
    if (es != NULL)
        OK(sw_es_create(&t->es, t->perturbed, es));
    for (int i = 0; i < t->n_params; i++)
        if (t->owner[i] == RN_FROZEN)
            sw_param_freeze(t->params[i], 1);
    return t;
}

static sw_array array_of(const sw_shape *row, sw_dtype dtype, int64_t rows)
{
    sw_array a = {dtype, {row->rank + 1, {rows}}, NULL};
    memcpy(a.shape.dim + 1, row->dim, (size_t)row->rank * sizeof *row->dim);
    return a;
}

static int64_t per_row(const sw_array *a)
{
    int64_t n = 1;
    for (int i = 1; i < a->shape.rank; i++)
        n *= a->shape.dim[i];
    return n;
}

static rn_batch rn_batch_new(const rn_net *t, int64_t rows, const uint64_t *keys)
{
    const sw_shape single = {0, {0}}, four = SW_SHAPE(CLASSES);
    rn_batch b = {{array_of(&t->row, t->words ? SW_I32 : SW_F32, rows),
                   array_of(&single, SW_I32, rows), array_of(&four, SW_F32, rows)}};
    for (int i = 0; i < RN_INPUTS; i++) {
        const int64_t each = per_row(&b.in[i]);
        int32_t *data = calloc((size_t)(rows * each), 4);
        b.in[i].data = data;
        for (int64_t row = 0; row < rows; row++) {
            sw_dice dice = {(keys != NULL ? keys[row] : (uint64_t)row) * 3 + (uint64_t)i};
            for (int64_t k = row * each; k < (row + 1) * each; k++)
                if (b.in[i].dtype == SW_F32)
                    ((float *)(void *)data)[k] =
                        (float)sw_dice_below(&dice, 2001) / 1000.0f - 1.0f;
                else
                    data[k] = (int32_t)sw_dice_below(&dice, i == 0 ? WORDS : CLASSES);
        }
    }
    return b;
}

static void rn_batch_free(rn_batch *b)
{
    for (int i = 0; i < RN_INPUTS; i++)
        free((void *)(uintptr_t)b->in[i].data);
}

static rn_batch rn_batch_rows(const rn_batch *of, int64_t from, int64_t n)
{
    rn_batch b = *of;
    for (int i = 0; i < RN_INPUTS; i++) {
        b.in[i].shape.dim[0] = n;
        b.in[i].data = (const char *)of->in[i].data + from * per_row(&of->in[i]) * 4;
    }
    return b;
}

#define RN_ARGS(t_, of_, mode_)                                                                \
    SW_OPTS(sw_run_args, .fn = rn_step, .user = t_, .models = (t_)->models, .n_models = 2,     \
            .inputs = (of_)->in, .n_inputs = RN_INPUTS, .mode = mode_)

/* ---- evaluations ------------------------------------------------------------------------- */

static const char *const distributions[] = {"normal", "rademacher", "bits"};
static sw_es_opts random_opts(uint64_t seed)
{
    sw_dice d = {seed ^ 0x5eed};
    const bool snes = sw_dice_below(&d, 8) == 0;
    const char *noise = snes ? "iid" : es_noises[sw_dice_below(&d, ES_NOISES)];
    const bool parts = strncmp(noise, "permuted", 8) == 0 || strcmp(noise, "sparse") == 0;
    static const float shares[] = {0.0f, 0.3f, 0.6f, 1.0f};
    sw_es_opts o = SW_OPTS(sw_es_opts, .strategy = snes ? "snes" : NULL, .noise = noise,
                           .distribution = distributions[sw_dice_below(&d, 3)], .seed = seed);
    o.rank = strcmp(noise, "low-rank") == 0 ? (int)sw_dice_below(&d, 4) : 0;
    o.in_share = parts ? shares[sw_dice_below(&d, 4)] : 0.0f;
    o.out_share = parts ? shares[sw_dice_below(&d, 4)] : 0.0f;
    o.sigma = 0.05f + 0.05f * (float)sw_dice_below(&d, 4);
    o.directions = 1 + (uint32_t)sw_dice_below(&d, 6);
    o.repeats = (uint32_t)sw_dice_below(&d, 5);
    o.no_antithetic = sw_dice_below(&d, 3) == 0;
    o.slice = (uint32_t)sw_dice_below(&d, o.directions + 1);
    return o;
}

static const char *text_of(const sw_es_opts *o)
{
    static char text[200];
    snprintf(text, sizeof text,
             "%s, %s, rank %d, shares %g %g, %u directions, %u repeats%s, slice %u", o->noise,
             o->distribution, o->rank, (double)o->in_share, (double)o->out_share, o->directions,
             o->repeats, o->no_antithetic ? " (one sign)" : "", o->slice);
    return text;
}

static sw_exec *exec_of(int threads)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .checks = 1));
}

/* Ready, and with sigmas of its own for each element where there are any. */
static rn_net *ready_net(uint64_t seed, const sw_es_opts *o, sw_exec *exec)
{
    rn_net *t = rn_new(seed, o);
    sw_dice d = {seed};
    OK(sw_model_ready(t->models[0], exec, seed));
    OK(sw_model_ready(t->models[1], exec, seed + 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(t->es);
    if (t->es->sigmas == NULL)
        return t;
    for (uint32_t e = 1; e < t->es->n_sigmas; e++) {
        const swi_entry *entry = &t->models[0]->entries[t->es->sigmas[e]];
        for (size_t i = 0; t->es->sigmas[e] != 0 && i < entry->bytes / 4; i++)
            ((float *)(void *)(t->models[0]->base + entry->offset))[i] =
                0.5f + (float)sw_dice_below(&d, 1000) / 1000.0f;
    }
    return t;
}

static float fitness_of(const sw_es *es, const sw_es_evaluation *of)
{
    return es->fitness[(size_t)of->repeat * es->mode.directions + of->direction];
}

/* ---- each evaluation --------------------------------------------------------------------- */

enum { OBSERVERS = SW_WITNESS_ACCESS | SW_WITNESS_EXTENT | SW_WITNESS_DEATH };

/* Each evaluation of a slice beside the net with parameters of its own; both may be no
 * number. */
static void compare(rn_net *t, rn_net *alone, sw_exec *exec, int64_t each, uint32_t slice,
                    const char *what)
{
    rn_batch b = rn_batch_new(t, (int64_t)sw_es_rows(t->es) * each, NULL);
    OK(sw_es_evaluate(t->es, exec, &RN_ARGS(t, &b, SW_EVAL), slice, "loss"));
    for (size_t e = 0; e < sw_es_rows(t->es); e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        double loss = 0.0;
        OK(sw_es_ask(t->es, slice, e, &of));
        if (!of.counts)
            continue;
        for (int m = 0; m < 2; m++)
            OK(sw_model_copy(alone->models[m], t->models[m]));
        es_perturb_by_hand(t->es, alone->models[0], of.direction, of.sign);
        const rn_batch part = rn_batch_rows(&b, (int64_t)e * each, each);
        OK(sw_run(exec, &RN_ARGS(alone, &part, SW_EVAL)));
        OK(sw_metric_get(exec, "loss", &loss));
        const double got = (double)fitness_of(t->es, &of);
        SW_CHECK(isnan(got) == isnan(loss) &&
                     (isnan(loss) || fabs(got - loss) <= 2e-4 * (1.0 + fabs(loss))),
                 "net %llu (%s), %s: evaluation %zu of slice %u is %g, not %g",
                 (unsigned long long)t->seed, t->layers, what, e, slice, got, loss);
    }
    rn_batch_free(&b);
}

static uint64_t last_net(uint64_t quick)
{
    return sw_tests_full() ? 20 * quick : quick;
}

SW_TEST("each evaluation is the net with parameters of its own")
{
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 1; seed <= last_net(60); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec), *alone = ready_net(seed, &o, exec);
        const uint32_t slice = (uint32_t)(seed % sw_es_slices(t->es));
        OK(sw_es_generation_set(t->es, seed % 5));
        compare(t, alone, exec, 1 + (int64_t)(seed % 3), slice, text_of(&o));
        rn_end(t);
        rn_end(alone);
    }
}

SW_TEST("witnesses agree with the plans of random nets")
{
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 200; seed < 200 + last_net(15); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec);
        rn_batch b = rn_batch_new(t, (int64_t)sw_es_rows(t->es) * 2, NULL);
        sw_run_args args = RN_ARGS(t, &b, SW_EVAL);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        args.es = t->es;
        OK(sw_witness(exec, &args, OBSERVERS, &seen));
        SW_CHECK(seen.agreed == OBSERVERS, "net %llu (%s), %s: %s", (unsigned long long)seed,
                 t->layers, text_of(&o), seen.first_fault);
        rn_batch_free(&b);
        rn_end(t);
    }
}

/* ---- the same bits ----------------------------------------------------------------------- */

enum { MOST = 64, MODEL_BYTES = 1 << 16 };
typedef struct {
    uint32_t slice; /* 0: that of the options */
    int threads;
    bool immediate;
    sw_mode mode;
    bool backwards; /* slices */
} way;

typedef struct {
    float fitness[MOST];
    size_t n;
    char layers[400];
    unsigned char models[2][MODEL_BYTES]; /* after the step */
} outcome;

/* The batch of a slice: rows by (repeat, direction), whichever slice they are in. */
static rn_batch slice_batch(const rn_net *t, uint32_t slice)
{
    uint64_t keys[MOST];
    for (size_t e = 0; e < sw_es_rows(t->es); e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        OK(sw_es_ask(t->es, slice, e, &of));
        keys[e] = (uint64_t)of.repeat * 100 + of.direction;
    }
    return rn_batch_new(t, (int64_t)sw_es_rows(t->es), keys);
}

static void copy_models(unsigned char to[2][MODEL_BYTES], const rn_net *t)
{
    memset(to, 0, 2 * MODEL_BYTES);
    for (int m = 0; m < 2; m++) {
        CU_ASSERT_FATAL(t->models[m]->bytes <= MODEL_BYTES);
        memcpy(to[m], t->models[m]->base, t->models[m]->bytes);
    }
}

/* A generation and the step after it. False: batch norm in training, or group norm, whose sums
 * of images in blocks have another order, in a slice. */
static bool generation(outcome *to, uint64_t seed, const way *w)
{
    static unsigned char before[2][MODEL_BYTES];
    sw_es_opts o = random_opts(seed);
    o.slice = w->slice != 0 && w->slice <= o.directions ? w->slice : o.slice;
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .threads = w->threads, .checks = 1));
    rn_net *t = ready_net(seed, &o, exec);
    const bool recut = t->es->mode.slice != t->es->mode.directions;
    const bool runs = (!t->normed || w->mode == SW_EVAL) && (!t->grouped || !recut);
    if (runs) {
        copy_models(before, t);
        for (uint32_t i = 0; i < sw_es_slices(t->es); i++) {
            const uint32_t slice = w->backwards ? sw_es_slices(t->es) - 1 - i : i;
            rn_batch b = slice_batch(t, slice);
            sw_run_args args = RN_ARGS(t, &b, w->mode);
            args.immediate = w->immediate;
            OK(sw_es_evaluate(t->es, exec, &args, slice, "loss"));
            rn_batch_free(&b);
        }
        copy_models(to->models, t);
        SW_CHECK(memcmp(before, to->models, sizeof before) == 0,
                 "net %llu (%s): an evaluation changed a model", (unsigned long long)seed,
                 t->layers);
        memcpy(to->layers, t->layers, sizeof to->layers);
        to->n = swi_es_evaluations(t->es);
        memcpy(to->fitness, t->es->fitness, to->n * sizeof *to->fitness);
        /* Of vectors alone dropout has no noise. */
        if (sw_es_step(t->es, exec, NULL) != SW_OK)
            SW_CHECK(strcmp(o.noise, "dropout") == 0 &&
                         strstr(sw_last_error(), "no parameter") != NULL,
                     "net %llu (%s): %s", (unsigned long long)seed, t->layers, sw_last_error());
        copy_models(to->models, t);
        SW_CHECK(memcmp(before[1], to->models[1], MODEL_BYTES) == 0,
                 "net %llu: the second model changed", (unsigned long long)seed);
    }
    rn_end(t);
    sw_now(exec);
    return runs;
}

SW_TEST("slices, threads, modes and order change no bit")
{
    static const way ways[] = {{0, 2, false, SW_EVAL, true},
                               {1, 1, false, SW_TRAIN, false},
                               {2, 2, true, SW_EVAL, false},
                               {3, 3, false, SW_EVAL, true}};
    static outcome first, other;
    for (uint64_t seed = 100; seed < 100 + last_net(14); seed++) {
        const sw_es_opts o = random_opts(seed);
        (void)generation(&first, seed, &(way){o.directions, 1, false, SW_EVAL, false});
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            if (!generation(&other, seed, &ways[i]))
                continue;
            SW_CHECK(memcmp(first.fitness, other.fitness, first.n * sizeof *first.fitness) == 0,
                     "net %llu (%s), %s: way %zu has other fitness", (unsigned long long)seed,
                     other.layers, text_of(&o), i);
            SW_CHECK(memcmp(first.models[0], other.models[0], MODEL_BYTES) == 0,
                     "net %llu, %s: way %zu steps otherwise", (unsigned long long)seed,
                     text_of(&o), i);
        }
    }
}

/* ---- what is not a number ---------------------------------------------------------------- */

static void reach(rn_net *t, sw_exec *exec, uint64_t seed, const char *what)
{
    static const uint32_t bad[] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu};
    const size_t evaluations = sw_es_rows(t->es), victim = seed % evaluations;
    const int64_t each = 1 + (int64_t)(seed % 2);
    rn_batch b = rn_batch_new(t, (int64_t)evaluations * each, NULL);
    const sw_run_args args = RN_ARGS(t, &b, SW_EVAL);
    float clean[MOST];
    OK(sw_es_evaluate(t->es, exec, &args, 0, "loss"));
    memcpy(clean, t->es->fitness, swi_es_evaluations(t->es) * sizeof *clean);
    /* Every other number of some rows of input 0. */
    const int64_t from = (int64_t)victim * each;
    const uint32_t bits = bad[seed % 4];
    int64_t row = 1;
    for (int i = 1; i < b.in[0].shape.rank; i++)
        row *= b.in[0].shape.dim[i];
    uint32_t *data = (uint32_t *)(uintptr_t)b.in[0].data;
    for (int64_t k = from * row; k < (from + each) * row; k += 2)
        data[k] = bits;
    OK(sw_es_evaluate(t->es, exec, &args, 0, "loss"));
    for (size_t e = 0; e < evaluations; e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        OK(sw_es_ask(t->es, 0, e, &of));
        const float is = fitness_of(t->es, &of);
        const float was = clean[(size_t)of.repeat * t->es->mode.directions + of.direction];
        if (of.counts && e != victim)
            SW_CHECK(memcmp(&is, &was, sizeof is) == 0,
                     "net %llu (%s), %s: evaluation %zu reaches %zu", (unsigned long long)seed,
                     t->layers, what, victim, e);
    }
    rn_batch_free(&b);
}

SW_TEST("inputs that are no numbers stay in their evaluation")
{
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 300; seed < 300 + last_net(20); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec);
        if (!t->words)
            reach(t, exec, seed, text_of(&o));
        rn_end(t);
    }
}

SW_TEST("parameters that are no numbers do what they do alone")
{
    const float nan_number = NAN;
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 400; seed < 400 + last_net(20); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec), *alone = ready_net(seed, &o, exec);
        const sw_param p = t->params[seed % (uint64_t)t->n_params];
        const swi_entry *entry = &p.model->entries[p.index];
        memcpy(p.model->base + entry->offset + seed % (entry->bytes / 4) * 4, &nan_number, 4);
        compare(t, alone, exec, 2, 0, text_of(&o));
        rn_end(t);
        rn_end(alone);
    }
}
