/* bench es: NESgpu's table (its README: layers under noise, times their base) with all its
 * modes, and ours beside them; bytes of noise that a plan has, and the update beside a forward.
 *
 * All modes of a layer are in one exec: each has a model of its own with the same parameters,
 * all read one batch, and they take turns. A step is: the batch as the layer reads it (phase
 * data), the layer (phase forward), a mean of what it makes (phase loss); what counts is the
 * time of the phase forward. */
#include "alloc/base/mem.h"
#include "tools/bench/subjects.h"
#include <string.h>

enum { LAYERS = 8, MODES_MAX = 24 };

static struct {
    const char *layers; /* "dense", "conv", "all" */
    const char *modes;  /* "nesgpu", "ours", "all" */
    int64_t layer;      /* 1 to LAYERS: that one alone; 0: all */
    int64_t runs;       /* of each mode */
    int64_t seconds;    /* after which a mode has no more of them */
    int64_t batch;
    bool forward; /* no updates */
} o;

/* ---- layers and modes -------------------------------------------------------------------- */

/* Dense (kernel 0), or a convolution of images of side x side. */
typedef struct {
    int64_t out, in;
    int kernel;
    int64_t side;
} es_layer;
static const es_layer layers[LAYERS] = {{256, 256, 0, 0}, {512, 512, 0, 0},  {1024, 1024, 0, 0},
                                        {16, 16, 3, 64},  {32, 32, 3, 64},   {64, 64, 3, 32},
                                        {32, 32, 1, 32},  {1024, 1024, 1, 1}};

/* A way to run it. */
enum { DENSE = 1, CONV = 2, BOTH = DENSE | CONV };
typedef struct {
    const char *name, *key;
    const char *noise; /* NULL: none */
    const char *distribution;
    float in_share, out_share; /* below 0: so many channels, not a share */
    bool pairs;                /* antithetic: half as many directions, two rows of each */
    bool ours;                 /* not in NESgpu's table */
    int of;                    /* DENSE, CONV */
    float published[LAYERS];   /* of NESgpu, times its base, by layer; 0: not known */
} es_mode;
/* The first is the base, the second the loop over members. */
enum { BASE, NAIVE };

/* Published: GTX 1080 Ti, batch 1024, fp32; its square PermutedLinear permutes the outputs. */
/* clang-format off */
static const es_mode modes[] = {
    /* name, key, noise, distribution, shares of inputs and outputs, pairs, ours, layers, published */
    {"base", "base", NULL, NULL, 0, 0, false, false, BOTH, {0}},
    {"naive", "naive", NULL, NULL, 0, 0, false, false, BOTH, {387.5f, 218.6f, 83.1f}},
    {"perturbed", "perturbed", "iid", NULL, 0, 0, false, false, BOTH, {14.85f, 29.52f, 44.86f}},
    {"sparse k=1", "sparse_1", "sparse", NULL, -1, 0, false, false, BOTH, {3.54f, 3.45f, 2.10f}},
    {"sparse k=2", "sparse_2", "sparse", NULL, -2, 0, false, false, BOTH, {4.77f, 4.62f, 3.79f}},
    {"permuted", "permuted", "permuted-out", NULL, 0, 0, false, false, BOTH,
     {3.41f, 2.93f, 2.72f, 2.45f, 2.50f, 2.51f, 3.38f, 2.18f}},
    {"permuted in 50 %", "permuted_in_50", "permuted-in", NULL, 0.5f, 0, false, false, DENSE, {3.39f, 2.46f, 2.13f}},
    {"permuted in 10 %", "permuted_in_10", "permuted-in", NULL, 0.1f, 0, false, false, DENSE, {3.42f, 2.52f, 1.67f}},
    {"permuted out 50 %", "permuted_out_50", "permuted-out", NULL, 0, 0.5f, false, false, CONV, {0}},
    {"permuted out 10 %", "permuted_out_10", "permuted-out", NULL, 0, 0.1f, false, false, CONV, {[7] = 1.64f}},
    {"permuted in and out", "permuted_both", "permuted", NULL, 0, 0, false, true, BOTH, {0}},
    {"sign-flip", "sign_flip", "sign-flip", NULL, 0, 0, false, true, BOTH, {0}},
    {"dropout", "dropout", "dropout", NULL, 0, 0, false, true, BOTH, {0}},
    {"low-rank", "low_rank", "low-rank", NULL, 0, 0, false, true, BOTH, {0}},
    {"low-rank, rademacher", "low_rank_rademacher", "low-rank", "rademacher", 0, 0, false, true, BOTH, {0}},
    {"low-rank, bits", "low_rank_bits", "low-rank", "bits", 0, 0, false, true, BOTH, {0}},
    {"low-rank, pairs", "pairs", "low-rank", NULL, 0, 0, true, true, BOTH, {0}},
    {"low-rank, pairs, rademacher", "pairs_rademacher", "low-rank", "rademacher", 0, 0, true, true, BOTH, {0}},
    {"low-rank, pairs, bits", "pairs_bits", "low-rank", "bits", 0, 0, true, true, BOTH, {0}},
};
/* clang-format on */
enum { MODES = sizeof modes / sizeof *modes };

/* ---- making ------------------------------------------------------------------------------ */

typedef struct {
    const es_layer *layer;
    const es_mode *mode;
    sw_model *model;
    sw_linear linear;
    sw_conv2d conv;
    sw_optimizer *sgd;
    sw_es *es;
    cli_times layer_ns, update_ns, estimate_ns;
    uint64_t taken_ns; /* by all its runs */
} subject;

typedef struct {
    const es_layer *layer;
    int threads;
    sw_exec *exec;
    sw_array input, row; /* row: the first of the batch */
    float *fitness;      /* of each row */
    subject subjects[MODES_MAX];
    int n;
} table;

static void step(sw_ctx *ctx, void *user)
{
    const subject *s = user;
    sw_value x = sw_input(ctx, 0);
    sw_set_phase(ctx, SW_DATA);
    if (s->layer->kernel > 0)
        x = sw_avg_pool(ctx, x, 1); /* images as they lie between convolutions */
    sw_set_phase(ctx, SW_FORWARD);
    x = s->layer->kernel > 0 ? sw_apply_conv2d(ctx, s->conv, x)
                             : sw_apply_linear(ctx, s->linear, x);
    sw_set_phase(ctx, SW_LOSS);
    sw_metric(ctx, "mean", sw_mean(ctx, x, 0));
    sw_clear_phase(ctx);
}

static float share_of(float share, int64_t channels)
{
    return share < 0.0f ? -share / (float)channels : share;
}

static sw_status make_subject(table *t, const es_mode *mode)
{
    subject *s = &t->subjects[t->n++];
    const es_layer *l = t->layer;
    const uint64_t runs = (uint64_t)o.runs;
    const sw_optimizer_opts sgd = {.size = sizeof sgd, .kind = "sgd", .lr = 1e-6f};
    const sw_conv_opts conv = {.size = sizeof conv, .pad = l->kernel / 2};
    *s = (subject){.layer = l, .mode = mode};
    SW_TRY(cli_times_init(&s->layer_ns, runs));
    SW_TRY(cli_times_init(&s->update_ns, runs));
    SW_TRY(cli_times_init(&s->estimate_ns, runs));
    SW_TRY(sw_model_create(&s->model, "layer"));
    if (l->kernel > 0)
        s->conv = sw_conv2d_new_with(s->model, "conv", l->in, l->out, l->kernel, &conv);
    else
        s->linear = sw_linear_new(s->model, "linear", l->in, l->out);
    SW_TRY(sw_optimizer_create(&s->sgd, s->model, &sgd));
    if (mode->noise != NULL) {
        const es_mode *m = s->mode;
        const sw_es_opts opts =
            SW_INIT(.size = sizeof opts, .noise = m->noise, .distribution = m->distribution,
                    .in_share = share_of(m->in_share, s->layer->in),
                    .out_share = share_of(m->out_share, s->layer->out),
                    .directions = (uint32_t)(m->pairs ? o.batch / 2 : o.batch),
                    .repeats = m->pairs ? 2 : 1, .no_antithetic = m->pairs ? 0 : 1, .seed = 7);
        SW_TRY(sw_es_create(&s->es, s->sgd, &opts));
    }
    return sw_model_ready(s->model, t->exec, 1);
}

static void end(table *t)
{
    for (int i = 0; i < t->n; i++) {
        subject *s = &t->subjects[i];
        sw_es_destroy(s->es);
        sw_model_destroy(s->model);
        cli_times_free(&s->layer_ns);
        cli_times_free(&s->update_ns);
        cli_times_free(&s->estimate_ns);
    }
    sw_heap_free(t->fitness, SW_HEAP_RECORDS, (size_t)o.batch * sizeof *t->fitness);
    bench_batch_free(&t->input, 1);
    sw_exec_destroy(t->exec);
}

/* ---- running ----------------------------------------------------------------------------- */

static sw_run_args args_of(table *t, subject *s)
{
    return (sw_run_args)SW_INIT(.size = sizeof(sw_run_args), .fn = step, .user = s,
                                .models = &s->model, .n_models = 1,
                                .inputs =
                                    s->mode == t->subjects[NAIVE].mode ? &t->row : &t->input,
                                .n_inputs = 1, .mode = SW_EVAL, .es = s->es);
}

static sw_status run_layer(table *t, subject *s, uint64_t *ns)
{
    const sw_run_args args = args_of(t, s);
    const int64_t times = args.inputs == &t->row ? o.batch : 1;
    *ns = 0;
    for (int64_t i = 0; i < times; i++) {
        sw_run_info info = {.size = sizeof info};
        SW_TRY(sw_run(t->exec, &args));
        SW_TRY(sw_last_run(t->exec, &info));
        *ns += info.phase[SW_FORWARD].ns;
    }
    return SW_OK;
}

/* The end of a generation: its weights, and the program that updates by them. */
static sw_status run_update(table *t, subject *s, uint64_t *ns, uint64_t *estimate)
{
    sw_run_info info = {.size = sizeof info};
    SW_TRY(sw_es_tell_slice(s->es, 0, t->fitness, sw_es_rows(s->es)));
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_es_step(s->es, t->exec, NULL));
    *ns = cli_clock_ns() - start;
    SW_TRY(sw_last_run(t->exec, &info));
    *estimate = info.ns;
    return SW_OK;
}

static bool has_update(const subject *s)
{
    return s->es != NULL && !o.forward;
}

/* ---- the table --------------------------------------------------------------------------- */

/* clang-format off */
#define ES_ROW(X, t) \
    X(t, WORD, layer, "layer", 18) \
    X(t, WORD, mode, "mode", 28) \
    X(t, WORD, key, NULL, 0) \
    X(t, TIMES, times, "", 0) \
    X(t, REAL, times_base_min, "x min", 0) \
    X(t, REAL, times_base_median, "x median", 0) \
    X(t, REAL, nesgpu_times_base, "NESgpu", 0) \
    X(t, BYTES, noise_bytes, "stored", 0) /* that live in the plan, besides scratch */ \
    X(t, BYTES, scratch_bytes, "scratch", 0) /* of its ops in the phase of the layer */ \
    X(t, BYTES, above_inference_bytes, "above", 0) /* peak of the layer's phase less that of the base */ \
    X(t, TIMES, update, NULL, 0) \
    X(t, TIMES, update_program, NULL, 0) /* update: sw_es_step as a whole; its program alone */ \
    X(t, REAL, update_times_base_min, "upd min", 0) \
    X(t, REAL, update_times_base_median, "upd med", 0) \
    X(t, BYTES, update_arena_bytes, NULL, 0) /* of the program of the update */
/* clang-format on */
BENCH_ROW(row, fields, ES_ROW);

/* Storages that ops of noise write first ("conv/noise_conv2d"): scratch, and others. */
static void see_storage(void *to, const sw_plan_storage *storage)
{
    row *r = to;
    if (storage->op == NULL || strstr(storage->op, "noise") == NULL ||
        storage->alias != UINT32_MAX)
        return;
    *(strcmp(storage->role, "workspace") == 0 ? &r->scratch_bytes : &r->noise_bytes) +=
        (int64_t)storage->bytes;
}

static sw_status find_bytes(table *t, subject *s, row *r)
{
    const sw_run_args args = args_of(t, s), base = args_of(t, &t->subjects[BASE]);
    const sw_plan_visitor see = {.size = sizeof see, .to = r, .storage = see_storage};
    sw_plan_info plan = {.size = sizeof plan}, plain = {.size = sizeof plain},
                 update = {.size = sizeof update};
    if (s->mode->noise == NULL) {
        r->noise_bytes = r->scratch_bytes = r->above_inference_bytes = r->update_arena_bytes =
            BENCH_NONE;
        return SW_OK;
    }
    SW_TRY(sw_plan(t->exec, &args, &plan));
    SW_TRY(sw_plan(t->exec, &base, &plain));
    r->above_inference_bytes = (int64_t)plan.phase[SW_FORWARD].peak_bytes -
                               (int64_t)plain.phase[SW_FORWARD].peak_bytes;
    r->update_arena_bytes = BENCH_NONE;
    if (has_update(s)) {
        SW_TRY(sw_es_plan(s->es, t->exec, &update));
        r->update_arena_bytes = (int64_t)update.arena_bytes;
    }
    return sw_plan_visit(t->exec, &args, &see);
}

static sw_status report(bench *b, table *t)
{
    const es_layer *l = t->layer;
    const cli_summary base = cli_times_summary(&t->subjects[BASE].layer_ns);
    char name[48];
    snprintf(name, sizeof name, l->kernel > 0 ? "%lld,%lld,%dx%d,%lldx%lld" : "%lld,%lld",
             (long long)l->out, (long long)l->in, l->kernel, l->kernel, (long long)l->side,
             (long long)l->side);
    for (int i = 0; i < t->n; i++) {
        subject *s = &t->subjects[i];
        const float published = s->mode->published[l - layers];
        row r = {.layer = name,
                 .mode = s->mode->name,
                 .key = s->mode->key,
                 .times = cli_times_summary(&s->layer_ns),
                 .update = cli_times_summary(&s->update_ns),
                 .update_program = cli_times_summary(&s->estimate_ns),
                 .nesgpu_times_base = published > 0.0f ? (double)published : (double)NAN};
        if (r.times.n == 0)
            continue;
        r.times_base_min = bench_ratio((double)r.times.min, (double)base.min);
        r.times_base_median = bench_ratio((double)r.times.median, (double)base.median);
        r.update_times_base_min =
            r.update.n > 0 ? bench_ratio((double)r.update.min, (double)base.min) : (double)NAN;
        r.update_times_base_median =
            r.update.n > 0 ? bench_ratio((double)r.update.median, (double)base.median)
                           : (double)NAN;
        SW_TRY(find_bytes(t, s, &r));
        bench_rows(b, "rows", fields, &r, 1);
    }
    return SW_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static bool is_asked(int at)
{
    const bool conv = layers[at].kernel > 0;
    if (o.layer > 0)
        return at + 1 == o.layer;
    return strcmp(o.layers, "all") == 0 || conv == (strcmp(o.layers, "conv") == 0);
}

static sw_status measure_layer(bench *b, table *t)
{
    /* Base and loop always; then the modes that were asked for. */
    const es_layer *l = t->layer;
    const int64_t rows = o.batch;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = t->threads};
    const sw_shape images = SW_SHAPE(rows, l->in, l->side, l->side);
    SW_TRY(sw_exec_create(&t->exec, &exec));
    t->input = (sw_array){SW_F32, l->kernel > 0 ? images : SW_SHAPE(rows, l->in), NULL};
    SW_TRY(bench_batch_make(&t->input, 1, 0));
    t->row = t->input;
    t->row.shape.dim[0] = 1;
    SW_TRY(sw_heap_alloc(&t->fitness, SW_HEAP_RECORDS, (size_t)rows * sizeof *t->fitness));
    for (int64_t i = 0; i < rows; i++)
        t->fitness[i] = (float)(i * 7919 % 1009);
    for (int i = 0; i < MODES; i++) {
        const bool asked = i <= NAIVE || strcmp(o.modes, "all") == 0 ||
                           modes[i].ours == (strcmp(o.modes, "ours") == 0);
        if (asked && (modes[i].of & (l->kernel > 0 ? CONV : DENSE)) != 0)
            SW_TRY(make_subject(t, &modes[i]));
    }

    /* Once each, untimed; what then took the seconds has one run that counts. */
    for (int i = 0; i < t->n && !cli_interrupted(); i++) {
        subject *s = &t->subjects[i];
        const uint64_t start = cli_clock_ns();
        uint64_t ns, estimate;
        SW_TRY(run_layer(t, s, &ns));
        if (has_update(s))
            SW_TRY(run_update(t, s, &ns, &estimate));
        s->taken_ns = cli_clock_ns() - start;
        if (s->taken_ns / 1000000000u >= (uint64_t)o.seconds)
            s->taken_ns = 0;
    }

    for (int64_t round = 0; round < o.runs && !cli_interrupted(); round++) {
        for (int turn = 0; turn < t->n && !cli_interrupted(); turn++) {
            subject *s = &t->subjects[(round + turn) % t->n];
            uint64_t ns, estimate;
            if (s->taken_ns / 1000000000u >= (uint64_t)o.seconds)
                continue;
            const uint64_t start = cli_clock_ns();
            SW_TRY(run_layer(t, s, &ns));
            cli_times_add(&s->layer_ns, ns);
            if (has_update(s)) {
                SW_TRY(run_update(t, s, &ns, &estimate));
                cli_times_add(&s->update_ns, ns);
                cli_times_add(&s->estimate_ns, estimate);
            }
            s->taken_ns += cli_clock_ns() - start;
        }
    }
    return report(b, t);
}

static sw_status measure(bench *b)
{
    static table t;
    static const bench_field facts[] = {{"batch", BENCH_COUNT, 0, "batch", 0}};
    bench_facts(b, facts, &o.batch);
    bench_note(b, "layers with bias: each row of the batch is an evaluation with noise of its "
                  "own (pairs: two\n"
                  "rows); times of the layer alone, x: over those of base; NESgpu as "
                  "published, over its base;\n"
                  "stored: bytes of noise besides scratch; above: peak of the layer's phase "
                  "less that of base;\n"
                  "upd: sw_es_step over a forward of base\n\n");
    for (int at = 0; at < LAYERS && !cli_interrupted(); at++) {
        if (!is_asked(at))
            continue;
        t = (table){.layer = &layers[at], .threads = (int)b->threads};
        const sw_status status = measure_layer(b, &t);
        end(&t);
        SW_TRY(status);
    }
    return SW_OK;
}

static int check(bench *b)
{
    (void)b;
    return o.batch % 2 != 0
               ? cli_error(CLI_USAGE, "--batch must be even, for the pairs (got %lld)",
                           (long long)o.batch)
               : CLI_GO;
}

static const char *const kinds[] = {"dense", "conv", "all", NULL}, *const groups[] = {
                                                                       "nesgpu", "ours", "all",
                                                                       NULL};
static const cli_option options[] = {
    BENCH_NAME("--layers", &o.layers, "all", "dense, conv or all", kinds),
    {"--layer", "K", CLI_COUNT, &o.layer, NULL,
     "that one alone: 256, 512, 1024; then the convolutions, 4 to 8", 1, LAYERS},
    BENCH_NAME("--modes", &o.modes, "all",
               "those of NESgpu's table, ours, or all; base and naive always", groups),
    BENCH_NUMBER("--runs", &o.runs, "100", "of each mode, taking turns", 1, 100000),
    BENCH_NUMBER(
        "--seconds", &o.seconds, "60",
        "a mode that has taken so long has no more runs; the table says how many it had", 1,
        100000),
    BENCH_NUMBER("--batch", &o.batch, "1024", "rows: evaluations", 2, 1 << 16),
    BENCH_SWITCH("--forward", &o.forward, "no updates"),
};

const bench_command bench_es =
    SW_INIT(.name = "es",
            .line = "layers under the noise of evolution strategies: NESgpu's table",
            .about = "Layers under the noise of evolution strategies, beside the plain layer.",
            BENCH_OPTIONS(options), .check = check, .run = measure);
