/* A layer under each kind of noise, in one exec: every mode has a model of its own with the
 * same parameters, all read one batch, and they take turns. A step is: the batch as the layer
 * reads it (phase data), the layer (phase forward), a mean of what it makes (phase loss); what
 * counts is the time of the phase forward. */
#include "alloc/base/mem.h"
#include "tools/bench/es.h"
#include <string.h>

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
    const es_opts *opts;
    const es_layer *layer;
    sw_exec *exec;
    sw_array input, row; /* row: the first of the batch */
    float *fitness;      /* of each row */
    subject subjects[ES_MODES_MAX];
    int n;
} bench;

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

/* ---- making ------------------------------------------------------------------------------ */

static float share_of(float share, int64_t channels)
{
    return share < 0.0f ? -share / (float)channels : share;
}

static sw_status make_es(subject *s, int64_t batch)
{
    const es_mode *m = s->mode;
    const sw_es_opts opts = {.size = sizeof opts,
                             .noise = m->noise,
                             .distribution = m->distribution,
                             .in_share = share_of(m->in_share, s->layer->in),
                             .out_share = share_of(m->out_share, s->layer->out),
                             .directions = (uint32_t)(m->pairs ? batch / 2 : batch),
                             .repeats = m->pairs ? 2 : 1,
                             .no_antithetic = m->pairs ? 0 : 1,
                             .seed = 7};
    return sw_es_create(&s->es, s->sgd, &opts);
}

static sw_status make_subject(bench *b, const es_mode *mode)
{
    subject *s = &b->subjects[b->n++];
    const es_layer *l = b->layer;
    const uint64_t runs = (uint64_t)b->opts->runs;
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
    if (mode->noise != NULL)
        SW_TRY(make_es(s, b->opts->batch));
    return sw_model_ready(s->model, b->exec, 1);
}

static sw_status make(bench *b, const es_mode *const *modes, int n)
{
    const es_layer *l = b->layer;
    const int64_t rows = b->opts->batch;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)b->opts->threads};
    const sw_shape images = SW_SHAPE(rows, l->in, l->side, l->side);
    void *p;
    SW_TRY(sw_exec_create(&b->exec, &exec));
    b->input = (sw_array){SW_F32, l->kernel > 0 ? images : SW_SHAPE(rows, l->in), NULL};
    SW_TRY(bench_batch_make(&b->input, 1, 0));
    b->row = b->input;
    b->row.shape.dim[0] = 1;
    SW_TRY(sw_heap_alloc(&p, SW_HEAP_RECORDS, (size_t)rows * sizeof *b->fitness));
    b->fitness = p;
    for (int64_t i = 0; i < rows; i++)
        b->fitness[i] = (float)(i * 7919 % 1009);
    for (int i = 0; i < n; i++)
        SW_TRY(make_subject(b, modes[i]));
    return SW_OK;
}

static void end(bench *b)
{
    for (int i = 0; i < b->n; i++) {
        subject *s = &b->subjects[i];
        sw_es_destroy(s->es);
        sw_model_destroy(s->model);
        cli_times_free(&s->layer_ns);
        cli_times_free(&s->update_ns);
        cli_times_free(&s->estimate_ns);
    }
    if (b->fitness != NULL)
        sw_heap_free(b->fitness, SW_HEAP_RECORDS, (size_t)b->opts->batch * sizeof *b->fitness);
    bench_batch_free(&b->input, 1);
    sw_exec_destroy(b->exec);
}

/* ---- running ----------------------------------------------------------------------------- */

static sw_run_args args_of(bench *b, subject *s)
{
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = step,
                         .user = s,
                         .models = &s->model,
                         .n_models = 1,
                         .inputs = s->mode == b->subjects[ES_NAIVE].mode ? &b->row : &b->input,
                         .n_inputs = 1,
                         .mode = SW_EVAL,
                         .es = s->es};
}

static sw_status run_layer(bench *b, subject *s, uint64_t *ns)
{
    const sw_run_args args = args_of(b, s);
    const int64_t times = args.inputs == &b->row ? b->opts->batch : 1;
    *ns = 0;
    for (int64_t i = 0; i < times; i++) {
        sw_run_info info = {.size = sizeof info};
        SW_TRY(sw_run(b->exec, &args));
        SW_TRY(sw_last_run(b->exec, &info));
        *ns += info.phase[SW_FORWARD].ns;
    }
    return SW_OK;
}

/* The end of a generation: its weights, and the program that updates by them. */
static sw_status run_update(bench *b, subject *s, uint64_t *ns, uint64_t *estimate)
{
    sw_run_info info = {.size = sizeof info};
    SW_TRY(sw_es_tell_slice(s->es, 0, b->fitness, sw_es_rows(s->es)));
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_es_step(s->es, b->exec, NULL));
    *ns = cli_clock_ns() - start;
    SW_TRY(sw_last_run(b->exec, &info));
    *estimate = info.ns;
    return SW_OK;
}

static bool has_update(const bench *b, const subject *s)
{
    return s->es != NULL && !b->opts->forward;
}

static sw_status run_round(bench *b, int64_t round)
{
    for (int turn = 0; turn < b->n && !cli_interrupted(); turn++) {
        subject *s = &b->subjects[(round + turn) % b->n];
        uint64_t ns, estimate;
        if (s->taken_ns / 1000000000u >= (uint64_t)b->opts->seconds)
            continue;
        const uint64_t start = cli_clock_ns();
        SW_TRY(run_layer(b, s, &ns));
        cli_times_add(&s->layer_ns, ns);
        if (has_update(b, s)) {
            SW_TRY(run_update(b, s, &ns, &estimate));
            cli_times_add(&s->update_ns, ns);
            cli_times_add(&s->estimate_ns, estimate);
        }
        s->taken_ns += cli_clock_ns() - start;
    }
    return SW_OK;
}

/* Once each, untimed; what then took the seconds has one run that counts. */
static sw_status warm_up(bench *b)
{
    for (int i = 0; i < b->n && !cli_interrupted(); i++) {
        subject *s = &b->subjects[i];
        const uint64_t start = cli_clock_ns();
        uint64_t ns, estimate;
        SW_TRY(run_layer(b, s, &ns));
        if (has_update(b, s))
            SW_TRY(run_update(b, s, &ns, &estimate));
        s->taken_ns = cli_clock_ns() - start;
        if (s->taken_ns / 1000000000u >= (uint64_t)b->opts->seconds)
            s->taken_ns = 0;
    }
    return SW_OK;
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* Storages that ops of noise write first ("conv/noise_conv2d"): scratch, and others. */
static void see_storage(void *to, const sw_plan_storage *storage)
{
    es_found *f = to;
    if (storage->op == NULL || strstr(storage->op, "noise") == NULL ||
        storage->alias != UINT32_MAX)
        return;
    if (strcmp(storage->role, "workspace") == 0)
        f->scratch_bytes += storage->bytes;
    else
        f->noise_bytes += storage->bytes;
}

static sw_status find_bytes(bench *b, subject *s, es_found *f)
{
    const sw_run_args args = args_of(b, s), base = args_of(b, &b->subjects[ES_BASE]);
    const sw_plan_visitor see = {.size = sizeof see, .to = f, .storage = see_storage};
    sw_plan_info plan = {.size = sizeof plan}, plain = {.size = sizeof plain},
                 update = {.size = sizeof update};
    SW_TRY(sw_plan(b->exec, &args, &plan));
    SW_TRY(sw_plan(b->exec, &base, &plain));
    f->above_bytes = (int64_t)plan.phase[SW_FORWARD].peak_bytes -
                     (int64_t)plain.phase[SW_FORWARD].peak_bytes;
    if (has_update(b, s)) {
        SW_TRY(sw_es_plan(s->es, b->exec, &update));
        f->update_arena_bytes = update.arena_bytes;
    }
    return sw_plan_visit(b->exec, &args, &see);
}

sw_status es_measure(const es_opts *opts, const es_layer *layer, const es_mode *const *modes,
                     int n, es_found *found)
{
    void *p;
    SW_TRY(sw_heap_alloc(&p, SW_HEAP_RECORDS, sizeof(bench)));
    bench *b = memset(p, 0, sizeof(bench));
    b->opts = opts;
    b->layer = layer;
    sw_status status = make(b, modes, n);
    if (status == SW_OK)
        status = warm_up(b);
    for (int64_t round = 0; status == SW_OK && round < opts->runs && !cli_interrupted();
         round++)
        status = run_round(b, round);
    for (int i = 0; status == SW_OK && i < n; i++) {
        es_found *f = &found[i];
        *f = (es_found){.mode = b->subjects[i].mode,
                        .layer = cli_times_summary(&b->subjects[i].layer_ns),
                        .update = cli_times_summary(&b->subjects[i].update_ns),
                        .estimate = cli_times_summary(&b->subjects[i].estimate_ns)};
        status = find_bytes(b, &b->subjects[i], f);
    }
    end(b);
    sw_heap_free(b, SW_HEAP_RECORDS, sizeof(bench));
    return status;
}
