/* A plain interpreter of genomes in float64: loops as the definitions say. */
#include "tests/evolve/net_scene.h"

typedef struct {
    int64_t c, h, w; /* a vector: 1 x 1 */
    double *x;
} plain;

static const float *values(const sw_net *made, sw_param p)
{
    return (const float *)(const void *)(made->model->base +
                                         made->model->entries[p.index].offset);
}

static plain room_of(const swi_vertex *v)
{
    plain y = {v->channels, v->height != 0 ? v->height : 1, v->height != 0 ? v->width : 1,
               NULL};
    y.x = scene_block((size_t)(y.c * y.h * y.w) * sizeof *y.x);
    return y;
}

static double at(const plain *p, int64_t c, int64_t h, int64_t w)
{
    return p->x[(c * p->h + h) * p->w + w];
}

static double activate(const char *name, double x)
{
    const double sigmoid = 1 / (1 + exp(-x)), softplus = log1p(exp(x));
    if (strcmp(name, "relu") == 0)
        return x > 0 ? x : 0;
    if (strcmp(name, "leaky_relu") == 0)
        return x > 0 ? x : 0.01 * x;
    if (strcmp(name, "tanh") == 0)
        return tanh(x);
    if (strcmp(name, "sigmoid") == 0)
        return sigmoid;
    if (strcmp(name, "swish") == 0)
        return x * sigmoid;
    if (strcmp(name, "gelu") == 0)
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    if (strcmp(name, "gelu_tanh") == 0)
        return 0.5 * x *
               (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    if (strcmp(name, "mish") == 0)
        return x * tanh(softplus);
    if (strcmp(name, "softplus") == 0)
        return softplus;
    if (strcmp(name, "hard_swish") == 0)
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    if (strcmp(name, "elu") == 0)
        return x > 0 ? x : expm1(x);
    if (strcmp(name, "selu") == 0)
        return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x));
    SW_CHECK(false, "activation %s is not known here", name);
    return 0;
}

static void conv2d(const sw_net *made, const swi_vertex *v, const swi_net_layer *l,
                   const plain *x, plain *y)
{
    const float *weight = values(made, l->weight), *b = values(made, l->bias);
    const int64_t groups = v->groups == 0 ? x->c : v->groups, k = v->kernel;
    const int64_t in = x->c / groups, out = y->c / groups, pad = (k - 1) / 2 * v->dilation;
    for (int64_t r = 0; r < y->c; r++)
        for (int64_t i = 0; i < y->h * y->w; i++) {
            double sum = (double)b[r];
            for (int64_t c = 0; c < in; c++)
                for (int64_t t = 0; t < k * k; t++) {
                    const int64_t h = i / y->w * v->stride - pad + t / k * v->dilation;
                    const int64_t w = i % y->w * v->stride - pad + t % k * v->dilation;
                    if (h >= 0 && h < x->h && w >= 0 && w < x->w)
                        sum += (double)weight[(r * in + c) * k * k + t] *
                               at(x, r / out * in + c, h, w);
                }
            y->x[r * y->h * y->w + i] = sum;
        }
}

static void batch_norm(const sw_net *made, const swi_net_layer *l, const plain *x, plain *y)
{
    const float *w = values(made, l->weight), *b = values(made, l->bias);
    const float *m = values(made, l->mean), *v = values(made, l->variance);
    for (int64_t i = 0; i < y->c * y->h * y->w; i++) {
        const int64_t c = i / (y->h * y->w);
        y->x[i] =
            (x->x[i] - (double)m[c]) / sqrt((double)v[c] + 1e-5) * (double)w[c] + (double)b[c];
    }
}

static void pool(const swi_vertex *v, const plain *x, plain *y, bool largest)
{
    const int64_t k = v->kernel, pad = k % 2 ? (k - 1) / 2 : 0;
    for (int64_t i = 0; i < y->c * y->h * y->w; i++) {
        const int64_t c = i / (y->h * y->w), q = i % (y->h * y->w);
        double most = -HUGE_VAL, sum = 0;
        for (int64_t t = 0; t < k * k; t++) {
            const int64_t h = q / y->w * v->stride - pad + t / k;
            const int64_t w = q % y->w * v->stride - pad + t % k;
            if (h < 0 || h >= x->h || w < 0 || w >= x->w)
                continue;
            most = fmax(most, at(x, c, h, w));
            sum += at(x, c, h, w);
        }
        y->x[i] = largest ? most : sum / (double)(k * k);
    }
}

static void global_pool(const plain *x, plain *y, bool largest)
{
    const int64_t n = x->h * x->w;
    for (int64_t c = 0; c < y->c; c++) {
        double most = -HUGE_VAL, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            most = fmax(most, x->x[c * n + i]);
            sum += x->x[c * n + i];
        }
        y->x[c] = largest ? most : sum / (double)n;
    }
}

static void join(const swi_vertex *v, const plain *all, plain *y)
{
    double *to = y->x;
    for (uint32_t k = 0; k < v->n_in; k++) {
        const plain *x = &all[v->in[k]];
        const int64_t n = x->c * x->h * x->w;
        for (int64_t i = 0; i < n; i++)
            if (v->kind == SW_VERTEX_ADD)
                to[i] += x->x[i];
            else
                to[i] = x->x[i];
        to += v->kind == SW_VERTEX_CONCAT ? n : 0;
    }
}

static void apply(const sw_net *made, uint32_t i, plain *all)
{
    const swi_vertex *v = &made->genome->vertices[i];
    const swi_net_layer *l = &made->layers[i];
    const plain *x = &all[v->in[0]];
    plain *y = &all[i];
    *y = room_of(v);
    const int64_t n = y->c * y->h * y->w;
    switch (v->kind) {
    case SW_VERTEX_LINEAR: {
        const float *w = values(made, l->weight), *b = values(made, l->bias);
        for (int64_t r = 0; r < y->c; r++) {
            y->x[r] = (double)b[r];
            for (int64_t c = 0; c < x->c; c++)
                y->x[r] += (double)w[r * x->c + c] * x->x[c];
        }
        break;
    }
    case SW_VERTEX_CONV2D:
        conv2d(made, v, l, x, y);
        break;
    case SW_VERTEX_BATCH_NORM:
        batch_norm(made, l, x, y);
        break;
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
        pool(v, x, y, v->kind == SW_VERTEX_MAX_POOL);
        break;
    case SW_VERTEX_GLOBAL_MAX_POOL:
    case SW_VERTEX_GLOBAL_AVG_POOL:
        global_pool(x, y, v->kind == SW_VERTEX_GLOBAL_MAX_POOL);
        break;
    case SW_VERTEX_ADD:
    case SW_VERTEX_CONCAT:
        join(v, all, y);
        break;
    default: /* dropout and flatten are what they read */
        for (int64_t k = 0; k < n; k++)
            y->x[k] = v->kind == SW_VERTEX_ACTIVATION
                          ? activate(swi_activation_name(v->activation), x->x[k])
                          : x->x[k];
    }
}

double *scene_logits(const sw_net *made, const scene_batch *data)
{
    const sw_genome *g = made->genome;
    const int64_t classes = g->vertices[g->n - 1].channels;
    double *logits = scene_block((size_t)(data->rows * classes) * sizeof *logits);
    plain *all = scene_block(g->n * sizeof *all);
    const bool bytes = data->in[0].dtype == SW_U8;
    for (int64_t row = 0; row < data->rows; row++) {
        all[0] = room_of(&g->vertices[0]);
        const int64_t n = all[0].c * all[0].h * all[0].w;
        for (int64_t k = 0; k < n; k++) {
            const int64_t c = made->opts.n_scales > 1 ? k / (all[0].h * all[0].w) : 0;
            all[0].x[k] = bytes ? ((const unsigned char *)data->in[0].data)[row * n + k] *
                                          (double)made->opts.scale[c] +
                                      (double)made->opts.shift[c]
                                : (double)((const float *)data->in[0].data)[row * n + k];
        }
        for (uint32_t i = 1; i < g->n; i++)
            apply(made, i, all);
        memcpy(logits + row * classes, all[g->n - 1].x, (size_t)classes * sizeof *logits);
    }
    return logits;
}
