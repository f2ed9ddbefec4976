#include "tests/population/es_scene.h"
#include "kernels/noise.h"

static const sw_optimizer_opts sgd = {
    .size = sizeof(sw_optimizer_opts), .kind = "sgd", .lr = 1.0f};

scene *scene_new(const sw_es_opts *es, const sw_optimizer_opts *opt, int64_t large,
                 const char *init)
{
    scene *s = sw_block(sizeof *s);
    s->model = made_model("scene");
    s->param[MATRIX] = sw_param_new(s->model, "matrix", SW_F32, SW_SHAPE(13, 20), init);
    s->param[IMAGE] = sw_param_new(s->model, "image", SW_F32, SW_SHAPE(6, 5, 3, 3), init);
    s->param[VECTOR] = sw_param_new(s->model, "vector", SW_F32, SW_SHAPE(41), init);
    s->param[CHANNELS] = sw_param_new(s->model, "channels", SW_F32, SW_SHAPE(7, 1, 1), init);
    if (large > 0)
        s->param[LARGE] = sw_param_new(s->model, "large", SW_F32, SW_SHAPE(large, 300), init);
    OK(sw_optimizer_create(&s->opt, s->model, opt != NULL ? opt : &sgd));
    OK(sw_es_create(&s->es, s->opt, es));
    AFTER(sw_es_destroy, s->es);
    return s;
}

sw_exec *scene_exec(int threads, const char *isa, int no_tiles)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .isa = isa, .no_tiles = no_tiles,
                             .checks = 1));
}

float scene_share(const char *noise, float share)
{
    return strcmp(noise, "sparse") == 0 || strcmp(noise, "permuted") == 0 ? share : 0.0f;
}

void scene_tell(sw_es *es, float size)
{
    sw_dice dice = {7};
    for (uint32_t r = 0; r < es->mode.repeats; r++)
        for (uint32_t d = 0; d < es->mode.directions; d++)
            OK(sw_es_tell(es, d, r,
                          size * ((float)(sw_dice_next(&dice) % 2001) / 1000.0f - 1.0f)));
}

size_t scene_size(const scene *s, int p)
{
    return s->model->entries[s->param[p].index].bytes / 4;
}

float *scene_values(const scene *s, int p)
{
    float *x = sw_block(4 * scene_size(s, p));
    OK(sw_param_read(s->param[p], x, 4 * scene_size(s, p)));
    return x;
}

sw_noise_spec scene_noise(const scene *s, int p)
{
    const swi_noise_mode *m = &s->es->mode;
    const swi_entry *entry = &s->model->entries[s->param[p].index];
    sw_noise_spec spec;
    swi_noise_spec(&spec, &m->like, m->in_share, m->out_share, &entry->shape,
                   swi_noise_stream(entry->name));
    return spec;
}

double *scene_sum(const scene *s, int p, const double *weights, const float *theta)
{
    const swi_noise_mode *m = &s->es->mode;
    const int64_t n = (int64_t)scene_size(s, p);
    const sw_noise_spec spec = scene_noise(s, p);
    double *g = sw_block((size_t)n * sizeof *g);
    for (uint32_t k = 0; spec.rows != 0 && k < m->directions; k++) {
        const sw_noise_at at = {m->seed, (uint32_t)m->generation, k};
        sw_noise_direction d;
        sw_noise_prepare(&d, &spec, &at, 0.25f);
        for (int64_t i = 0; i < n; i++)
            g[i] += weights[k] *
                    (double)sw_noise_element(&spec, &d, i / spec.cols, i % spec.cols, theta[i]);
    }
    return g;
}

double scene_distance(const float *before, const float *after, const double *g, size_t n)
{
    double off = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double step = (double)before[i] - (double)after[i];
        off += (step - g[i]) * (step - g[i]);
        all += g[i] * g[i];
    }
    return all > 0.0 ? sqrt(off / all) : sqrt(off);
}

void scene_update_fill(scene_update *u, scene *s, const float *weights, const float *squares)
{
    const sw_shape shape = SW_SHAPE(s->es->mode.directions);
    u->in[0] = (sw_array){SW_F32, shape, weights};
    u->in[1] = (sw_array){SW_F32, shape, squares};
    u->args = SW_OPTS(sw_run_args, .fn = swi_es_update, .user = s->es, .models = &s->model,
                      .n_models = 1, .inputs = u->in, .n_inputs = squares != NULL ? 2 : 1,
                      .mode = SW_TRAIN, .es = s->es, .es_slice = SWI_ES_UPDATE);
}

double scene_step(scene *s, sw_exec *exec)
{
    double worst = 0.0, *weights = sw_block(s->es->mode.directions * sizeof *weights);
    double *g[PARAMS];
    float *before[PARAMS];
    sw_es_info info = SW_OPTS(sw_es_info);
    for (uint32_t d = 0; d < s->es->mode.directions; d++) {
        /* The weight of a direction as the header has it, of raw reported numbers. */
        const swi_noise_mode *m = &s->es->mode;
        double w = 0.0;
        for (uint32_t r = 0; r < m->repeats; r++) {
            const double sign = m->antithetic && r >= (m->repeats + 1) / 2 ? -1.0 : 1.0;
            w += sign * (double)s->es->fitness[(size_t)r * m->directions + d];
        }
        weights[d] = w / (0.25 * (double)m->repeats * (double)m->directions);
    }
    for (int p = 0; p < LARGE; p++) {
        before[p] = scene_values(s, p);
        g[p] = scene_sum(s, p, weights, before[p]);
        for (size_t i = 0; i < scene_size(s, p); i++) {
            const double t = (double)before[p][i];
            g[p][i] += (double)s->es->l1 * ((t > 0.0) - (t < 0.0)) + (double)s->es->l2 * t;
        }
    }
    OK(sw_es_step(s->es, exec, &info));
    for (int p = 0; p < LARGE; p++) {
        float *after = scene_values(s, p);
        worst = fmax(worst, scene_distance(before[p], after, g[p], scene_size(s, p)));
    }
    return worst;
}
