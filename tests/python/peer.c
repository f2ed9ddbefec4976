/* peer THREADS STEPS: a small net in C, trained as tests/python/test_training.py trains it;
 * writes all parameters, then the last loss, to standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <stepwell.h>

static sw_linear fc1, fc2;

static void step(sw_ctx *c, void *adam)
{
    const sw_value x = sw_input(c, 0), t = sw_input(c, 1);
    sw_value h = sw_dropout(c, sw_relu(c, sw_apply_linear(c, fc1, x)), 0.25F);
    h = sw_add(c, h, sw_scale_by(c, sw_randn(c, "noise", (sw_shape){2, {12, 16}}), 0.01F));
    const sw_value loss = sw_softmax_ce(c, sw_apply_linear(c, fc2, h), t);
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, (sw_optimizer *[]){adam}, 1);
    sw_update(c, adam);
}

int main(int argc, char **argv)
{
    static float x[12 * 6], weights[128];
    static unsigned char t[12];
    const sw_exec_opts opts =
        SW_OPTS(sw_exec_opts, .threads = argc > 1 ? atoi(argv[1]) : 1, .seed = 7);
    const sw_optimizer_opts how = SW_OPTS(sw_optimizer_opts, .kind = "adamw", .lr = 0.01F);
    const sw_array inputs[] = {{SW_F32, SW_SHAPE(12, 6), x}, {SW_U8, SW_SHAPE(12), t}};
    sw_exec *exec = NULL;
    sw_model *m = NULL;
    sw_optimizer *adam = NULL;
    double loss = 0;
    for (int i = 0; i < 12 * 6; i++)
        x[i] = (float)(i * 37 % 101) / 64 - 1;
    for (int i = 0; i < 12; i++)
        t[i] = (unsigned char)(i % 3);
    int bad = sw_exec_create(&exec, &opts) || sw_model_create(&m, "peer");
    fc1 = sw_linear_new(m, "fc1", 6, 16), fc2 = sw_linear_new(m, "fc2", 16, 3);
    bad = bad || sw_optimizer_create(&adam, m, &how) || sw_model_ready(m, exec, 3);
    sw_run_args r = SW_OPTS(sw_run_args, .fn = step, .user = adam, .models = &m, .n_models = 1);
    r.inputs = inputs, r.n_inputs = 2;
    for (int k = argc > 2 ? atoi(argv[2]) : 1; !bad && k > 0; k--, r.step++)
        bad = sw_run(exec, &r) || sw_metric_get(exec, "loss", &loss);
    for (size_t i = 0; !bad && i < sw_param_count(m); i++) {
        const sw_param p = sw_param_at(m, i);
        const sw_shape s = sw_param_shape(p);
        const size_t n = (size_t)s.dim[0] * (s.rank > 1 ? (size_t)s.dim[1] : 1);
        bad = sw_param_read(p, weights, n * sizeof *weights) ||
              fwrite(weights, sizeof *weights, n, stdout) != n;
    }
    bad = bad || fwrite(&loss, sizeof loss, 1, stdout) != 1;
    if (bad)
        fprintf(stderr, "%s\n", sw_last_error());
    sw_model_destroy(m), sw_exec_destroy(exec);
    return bad;
}
