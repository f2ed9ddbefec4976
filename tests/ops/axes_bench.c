#include "tests/ops/axes_bench.h"

void bench_close(void *arg)
{
    bench *b = arg;
    sw_model_destroy(b->model);
    sw_exec_destroy(b->exec);
    b->model = NULL;
    b->exec = NULL;
}

void bench_open(bench *b, int threads, sw_shape shape)
{
    const sw_exec_opts exec = SW_OPTS(sw_exec_opts, .threads = threads, .seed = 11);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    memset(b, 0, sizeof *b);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&b->exec, &exec), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&b->model, "axes"), SW_OK);
    b->p = sw_param_new(b->model, "p", SW_F32, shape, "normal:1");
    CU_ASSERT_EQUAL_FATAL(sw_optimizer_create(&b->opt, b->model, &opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_ready(b->model, b->exec, 5), SW_OK);
    sw_after(bench_close, b);
}

bench *bench_new(int threads, sw_shape shape)
{
    static bench room[2];
    bench *b = &room[room[0].exec != NULL];
    CU_ASSERT_PTR_NULL_FATAL(b->exec);
    bench_open(b, threads, shape);
    return b;
}

sw_status bench_run(bench *b, sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                    sw_mode mode)
{
    return sw_run(b->exec,
                  &SW_OPTS(sw_run_args, .fn = fn, .user = b, .models = &b->model, .n_models = 1,
                           .inputs = inputs, .n_inputs = n_inputs, .mode = mode));
}

const float *bench_output(bench *b, const char *name, int64_t n)
{
    sw_array a = {.data = NULL};
    CU_ASSERT_EQUAL_FATAL(sw_output_get(b->exec, name, &a), SW_OK);
    int64_t elements = 1;
    for (int i = 0; i < a.shape.rank; i++)
        elements *= a.shape.dim[i];
    CU_ASSERT_EQUAL_FATAL(elements, n);
    return a.data;
}

int bench_nodes(const bench *b, uint32_t op)
{
    int n = 0;
    for (uint32_t i = 0; i < b->exec->last->trace.n_nodes; i++)
        n += b->exec->last->trace.nodes[i].op == op;
    return n;
}

void bench_refused(bench *b, sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                   const char *words)
{
    const sw_status status = bench_run(b, fn, inputs, n_inputs, SW_TRAIN);
    SW_CHECK(status == SW_INVALID && strstr(sw_last_error(), words) != NULL,
             "'%s' was expected: %s", words, sw_last_error());
}

void bench_train(sw_ctx *c, bench *b, sw_value y)
{
    sw_output(c, "y", y);
    sw_backward(c, sw_sum(c, sw_mul(c, y, y), 0), &b->opt, 1);
    sw_accumulate(c, b->opt);
}

/* Result and gradient of p have the same bits for one to four threads. */
void bench_same_for_all_threads(sw_step_fn *fn, const sw_array *inputs, int n_inputs,
                                sw_shape shape, int64_t n_p, int64_t n_y)
{
    static float y[1 << 18], g[1 << 18], gradient[1 << 18];
    CU_ASSERT_FATAL(n_p <= N(g) && n_y <= N(y));
    for (int threads = 1; threads <= 4; threads++) {
        static bench b;
        bench_open(&b, threads, shape);
        CU_ASSERT_EQUAL_FATAL(bench_run(&b, fn, inputs, n_inputs, SW_TRAIN), SW_OK);
        const float *out = bench_output(&b, "y", n_y);
        OK(sw_param_gradient(b.p, gradient, (size_t)n_p * sizeof *gradient));
        if (threads == 1) {
            memcpy(y, out, (size_t)n_y * sizeof *y);
            memcpy(g, gradient, (size_t)n_p * sizeof *g);
        }
        SW_CHECK(memcmp(y, out, (size_t)n_y * sizeof *y) == 0, "%d threads: result", threads);
        SW_CHECK(memcmp(g, gradient, (size_t)n_p * sizeof *g) == 0, "%d threads: gradient",
                 threads);
        bench_close(&b);
    }
}
