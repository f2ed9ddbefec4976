#include "tests/runtime/saved_runs.h"

enum { PIXELS = 784, CLASSES = 10, MICRO = 2 };

/* ---- the step ---------------------------------------------------------------------------- */

static sw_value forward(sw_ctx *ctx, const saved_run *r)
{
    sw_value x = sw_flatten(ctx, sw_to_f32(ctx, sw_input(ctx, 0), 1.0f / 255, 0));
    x = sw_apply_linear(ctx, r->f1, x);
    x = sw_reshape(ctx, x, SW_SHAPE(sw_dim(ctx, x, 0), sw_dim(ctx, x, 1), 1, 1));
    x = sw_flatten(ctx, sw_relu(ctx, sw_apply_batch_norm2d(ctx, r->norm, x)));
    return sw_apply_linear(ctx, r->f2, sw_dropout(ctx, x, 0.3f));
}

static void micro_step(sw_ctx *ctx, void *user)
{
    saved_run *r = user;
    const sw_value loss = sw_softmax_ce(ctx, forward(ctx, r), sw_input(ctx, 1));
    const sw_value seen = sw_reshape(ctx, sw_detach(ctx, loss), SW_SHAPE(1));
    sw_assign(ctx, r->seen, sw_add(ctx, sw_use(ctx, r->seen), seen));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, sw_scale(ctx, loss, r->factor), &r->opt, 1);
}

static void last_step(sw_ctx *ctx, void *user)
{
    saved_run *r = user;
    micro_step(ctx, user);
    sw_update(ctx, r->opt);
}

/* ---- making ------------------------------------------------------------------------------ */

void saved_run_end(saved_run *r)
{
    sw_loader_destroy(r->loader);
    sw_dataset_destroy(r->set);
    sw_model_destroy(r->model);
    sw_exec_destroy(r->exec);
    r->loader = NULL;
    r->set = NULL;
    r->model = NULL;
    r->exec = NULL;
}

static void end_run(void *run)
{
    saved_run_end(run);
    free(run);
}

static void make_model(saved_run *r, const saved_opts *o)
{
    const int64_t width = o->width > 0 ? o->width : 24;
    OK(sw_model_create(&r->model, o->name != NULL ? o->name : "saved"));
    r->f1 = sw_linear_new(r->model, "f1", PIXELS, width);
    r->norm = sw_batch_norm2d_new(r->model, "norm", width);
    r->f2 = sw_linear_new(r->model, "f2", width, CLASSES);
    r->seen = sw_state_new(r->model, "seen", SW_F32, SW_SHAPE(1));
    r->factor = sw_knob_new(r->model, "factor", 1.0f / MICRO);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = o->kind != NULL ? o->kind : "adam", .lr = 0.01f,
                .keep_gradients = 1, .state_bits = o->state_bits);
    OK(sw_optimizer_create(&r->opt, r->model, &opts));
}

saved_run *saved_run_new(const saved_opts *opts)
{
    const saved_opts o = opts != NULL ? *opts : (saved_opts){.name = NULL};
    saved_run *r = calloc(1, sizeof *r);
    sw_after(end_run, r);
    r->immediate = o.immediate;
    sw_exec_opts exec = o.exec;
    exec.size = sizeof exec;
    exec.seed = exec.seed > 0 ? exec.seed : 3;
    OK(sw_exec_create(&r->exec, &exec));
    make_model(r, &o);
    OK(sw_dataset_synthetic(&r->set, o.samples > 0 ? o.samples : 100,
                            o.data_seed > 0 ? o.data_seed : 1));
    const sw_loader_opts loader =
        SW_OPTS(sw_loader_opts, .batch = o.rows > 0 ? o.rows : 16,
                .seed = o.shuffle_seed > 0 ? o.shuffle_seed : 5, .shuffle = 1);
    OK(sw_loader_create(&r->loader, r->set, &loader));
    OK(sw_model_ready(r->model, r->exec, o.seed > 0 ? o.seed : 7));
    return r;
}

/* ---- running ----------------------------------------------------------------------------- */

/* The next batch, of the next epoch where this one is over. */
static const sw_array *next(saved_run *r, int *n)
{
    const sw_array *inputs;
    uint64_t epoch = 0;
    if (!r->begun)
        OK(sw_loader_epoch(r->loader, 0));
    r->begun = true;
    OK(sw_loader_next(r->loader, &inputs, n));
    if (*n > 0)
        return inputs;
    OK(sw_loader_position(r->loader, &epoch, NULL));
    OK(sw_loader_epoch(r->loader, epoch + 1));
    OK(sw_loader_next(r->loader, &inputs, n));
    return inputs;
}

sw_status saved_run_try(saved_run *r)
{
    int n = 0;
    const sw_array *inputs = next(r, &n);
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = r->micro + 1 == MICRO ? last_step : micro_step, .user = r,
                .models = &r->model, .n_models = 1, .inputs = inputs, .n_inputs = n,
                .mode = SW_TRAIN, .immediate = r->immediate, .step = r->step, .run = r->micro);
    sw_knob_set(sw_optimizer_lr(r->opt, 0), 0.01f / (1.0f + 0.1f * (float)r->step));
    SW_TRY(sw_run(r->exec, &args));
    r->micro = (r->micro + 1) % MICRO;
    r->step += r->micro == 0;
    return SW_OK;
}

void saved_run_micro(saved_run *r)
{
    OK(saved_run_try(r));
}

void saved_run_steps(saved_run *r, int n)
{
    for (int i = 0; i < n * MICRO; i++)
        saved_run_micro(r);
}

bool saved_run_same(const saved_run *a, const saved_run *b)
{
    return net_same(a->model, b->model);
}

/* ---- checkpoints ------------------------------------------------------------------------- */

static sw_checkpoint *open_checkpoints[64];

static void end_checkpoint(void *at)
{
    sw_checkpoint **slot = at;
    sw_checkpoint_destroy(*slot);
    *slot = NULL;
}

void saved_checkpoint_end(sw_checkpoint *checkpoint)
{
    for (size_t i = 0; i < sizeof open_checkpoints / sizeof *open_checkpoints; i++)
        if (open_checkpoints[i] == checkpoint)
            end_checkpoint(&open_checkpoints[i]);
}

sw_checkpoint *saved_run_checkpoint(saved_run *r, const char *path,
                                    const sw_checkpoint_opts *more)
{
    sw_checkpoint_opts opts = more != NULL ? *more : (sw_checkpoint_opts){.path = path};
    size_t slot = 0;
    while (open_checkpoints[slot] != NULL)
        slot++;
    opts.size = sizeof opts;
    opts.path = path;
    opts.models = &r->model;
    opts.n_models = 1;
    const sw_status status = sw_checkpoint_create(&open_checkpoints[slot], r->exec, &opts);
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    if (status != SW_OK)
        return NULL;
    sw_after(end_checkpoint, &open_checkpoints[slot]);
    OK(sw_checkpoint_loader(open_checkpoints[slot], r->loader));
    return open_checkpoints[slot];
}

void saved_run_resume(saved_run *r, sw_checkpoint *checkpoint, const char *path)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    OK(sw_checkpoint_find(checkpoint, path, &found));
    CU_ASSERT_EQUAL(found.found, 1);
    OK(sw_checkpoint_load(checkpoint));
    r->step = found.step;
    r->micro = 0;
    r->begun = true;
}
