#include "tests/population/zo_scene.h"
#include "kernels/noise.h"
#include "kernels/rng.h"

net *zo_net(sw_exec *exec, bool image, uint64_t seed)
{
    net *n = net_new(image, &SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f));
    OK(sw_model_ready(n->model, exec, seed));
    return n;
}

sw_zo *zo_of(net *n, const sw_zo_opts *opts)
{
    sw_zo *zo = NULL;
    OK(sw_zo_create(&zo, n->model, opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(zo);
    AFTER(sw_zo_destroy, zo);
    return zo;
}

sw_run_args zo_args(net *n, const batch *b)
{
    sw_run_args args = net_args(n, b);
    args.mode = SW_EVAL;
    return args;
}

double zo_train(sw_zo *zo, sw_exec *exec, net *n, const batch *b, int steps)
{
    const sw_run_args args = zo_args(n, b);
    double loss = 0.0;
    for (int i = 0; i < steps; i++)
        OK(sw_zo_step(zo, exec, &args, "loss", &loss));
    return loss;
}

/* ---- in plain code ----------------------------------------------------------------------- */

typedef struct {
    const sw_zo_opts *opts;
    sw_noise_spec spec;
    sw_noise_direction direction;
    float *theta;
    int64_t n;
    bool matrix;
} plain;

static float z_of(const plain *p, int64_t i)
{
    return sw_noise_element(&p->spec, &p->direction, i / p->spec.cols, i % p->spec.cols, 0.0f);
}

static void plain_begin(plain *p, sw_param param, const sw_zo_opts *o, uint64_t step)
{
    char name[128];
    const sw_shape shape = sw_param_shape(param);
    const sw_noise_at at = {o->seed, (uint32_t)step, 0};
    memset(p, 0, sizeof *p);
    p->opts = o;
    p->n = 1;
    for (int i = 0; i < shape.rank; i++)
        p->n *= shape.dim[i];
    p->matrix = shape.rank > 1;
    p->spec.rows = p->matrix ? shape.dim[0] : 1;
    p->spec.cols = p->n / p->spec.rows;
    p->spec.taps = shape.rank == 4 ? (int32_t)(shape.dim[2] * shape.dim[3]) : 1;
    p->spec.kind = SW_NOISE_IID;
    if (p->matrix && o->kind != NULL && strcmp(o->kind, "lozo") == 0) {
        p->spec.kind = SW_NOISE_LOW_RANK;
        p->spec.rank = o->rank;
        p->spec.window = o->window;
    }
    snprintf(name, sizeof name, "es/%s", sw_param_name(param));
    p->spec.stream = sw_rng_stream(name);
    sw_noise_prepare(&p->direction, &p->spec, &at, 0.0f);
    p->theta = malloc((size_t)p->n * 4);
    OK(sw_param_read(param, p->theta, (size_t)p->n * 4));
}

static void plain_end(plain *p, sw_param param)
{
    OK(sw_param_write(param, p->theta, (size_t)p->n * 4));
    free(p->theta);
}

static bool is_frozen(sw_param param)
{
    return param.model->entries[param.index].frozen;
}

static void plain_move(net *n, const sw_zo_opts *o, uint64_t step, float by)
{
    for (size_t k = 0; k < sw_param_count(n->model); k++) {
        plain p;
        const sw_param param = sw_param_at(n->model, k);
        if (is_frozen(param))
            continue;
        plain_begin(&p, param, o, step);
        for (int64_t i = 0; i < p.n; i++) {
            volatile float moved = by * z_of(&p, i); /* rounded before it is added */
            p.theta[i] = p.theta[i] + moved;
        }
        plain_end(&p, param);
    }
}

void zo_plain_step(net *n, sw_exec *exec, const batch *b, const sw_zo_opts *o, uint64_t step,
                   float lr)
{
    const sw_run_args args = zo_args(n, b);
    plain_move(n, o, step, o->eps);
    OK(sw_run(exec, &args));
    const double plus = net_metric(exec, "loss");
    plain_move(n, o, step, -2.0f * o->eps);
    OK(sw_run(exec, &args));
    const double minus = net_metric(exec, "loss");
    plain_move(n, o, step, o->eps);
    const float c = (float)((plus - minus) / (2.0 * (double)o->eps));
    for (size_t k = 0; k < sw_param_count(n->model); k++) {
        plain p;
        const sw_param param = sw_param_at(n->model, k);
        if (is_frozen(param))
            continue;
        plain_begin(&p, param, o, step);
        for (int64_t i = 0; i < p.n; i++) {
            volatile float slope = c * z_of(&p, i);
            volatile float decay = o->weight_decay * p.theta[i];
            volatile float sum = p.matrix ? slope + decay : slope;
            volatile float moved = lr * sum;
            p.theta[i] = p.theta[i] - moved;
        }
        plain_end(&p, param);
    }
}

bool zo_same(const sw_model *a, const sw_model *b)
{
    const size_t n = a->role_bytes[SWI_ROLE_PARAMETER];
    return n > 0 && n == b->role_bytes[SWI_ROLE_PARAMETER] && memcmp(a->base, b->base, n) == 0;
}
