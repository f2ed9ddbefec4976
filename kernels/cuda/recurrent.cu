/* Cells of recurrent nets (kernels/recurrent.h): a thread has one hidden unit of one row, all
 * of whose numbers it reads before it writes any. Formulas and bits are the CPU's. */
#include "kernels/cuda/device.h"
#include "kernels/recurrent.h"

static __device__ __forceinline__ void put(float *to, int64_t at, float v, bool add)
{
    if (to != nullptr)
        to[at] = add ? to[at] + v : v;
}

/* A cell whose state is that operand. */
template <class ARGS>
static sw_status run(const char *op, void (*kernel)(ARGS, sw_cuda_long_divisor),
                     const sw_launch *l, ARGS a, int state, const sw_cuda_queue *queue)
{
    const sw_shape *s = &l->in[state].type.shape;
    SW_TRY(sw_cuda_all_plain(op, l));
    a.hidden = s->rank > 0 ? s->dim[s->rank - 1] : 0;
    a.rows = a.hidden > 0 ? sw_cuda_elements(&l->in[state].type) / a.hidden : 0;
    if (a.rows == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(kernel, a.rows * a.hidden, SW_CUDA_THREADS, queue, a,
                       sw_cuda_long_divisor_of(a.hidden));
    return sw_cuda_launched(op);
}

/* ---- lstm_cell --------------------------------------------------------------------------- */

/* h NULL: the gradients. */
__global__ void lstm_cell_kernel(sw_lstm_args l, sw_cuda_long_divisor hidden)
{
    const int64_t step = l.hidden, n = l.rows * step;
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        const int64_t at = i + sw_cuda_divide(hidden, i) * 3 * step;
        const sw_lstm_gates a = {sw_sigmoidf(l.gates[at]), sw_sigmoidf(l.gates[at + step]),
                                 sw_tanhf(l.gates[at + 2 * step]),
                                 sw_sigmoidf(l.gates[at + 3 * step])};
        const float c = l.cell[i], next = sw_lstm_state(a, c), t = sw_tanhf(next);
        if (l.h != nullptr) {
            l.h[i] = a.o * t;
            l.c[i] = next;
            continue;
        }
        float d_cell;
        const sw_lstm_gates d = sw_lstm_back(a, c, t, l.dh[i], l.dc[i], &d_cell);
        if (l.d_gates != nullptr) {
            put(l.d_gates, at, d.i, l.add_gates);
            put(l.d_gates, at + step, d.f, l.add_gates);
            put(l.d_gates, at + 2 * step, d.g, l.add_gates);
            put(l.d_gates, at + 3 * step, d.o, l.add_gates);
        }
        put(l.d_cell, i, d_cell, l.add_cell);
    }
}

static sw_lstm_args lstm_of(const sw_launch *l)
{
    sw_lstm_args a = {};
    a.gates = sw_cuda_in(l, 0);
    a.cell = sw_cuda_in(l, 1);
    return a;
}

SW_CUDA_ENTRY(lstm_cell, forward, NULL, 1)
{
    sw_lstm_args a = lstm_of(l);
    a.h = sw_cuda_out(l, 0);
    a.c = sw_cuda_out(l, 1);
    return run("lstm_cell", lstm_cell_kernel, l, a, 1, queue);
}

/* in: gates, cell, dh, dc */
SW_CUDA_ENTRY(lstm_cell, grad0, NULL, 1)
{
    sw_lstm_args a = lstm_of(l);
    a.dh = sw_cuda_in(l, 2);
    a.dc = sw_cuda_in(l, 3);
    a.d_gates = sw_cuda_out(l, 0);
    a.d_cell = sw_cuda_out(l, 1);
    a.add_gates = sw_cuda_adds(l, 0) != 0;
    a.add_cell = sw_cuda_adds(l, 1) != 0;
    return run("lstm_cell", lstm_cell_kernel, l, a, 1, queue);
}

/* ---- gru_cell ---------------------------------------------------------------------------- */

/* y NULL: the gradients. */
__global__ void gru_cell_kernel(sw_gru_args g, sw_cuda_long_divisor hidden)
{
    const int64_t step = g.hidden, n = g.rows * step;
    for (int64_t i = sw_cuda_thread(); i < n; i += sw_cuda_threads()) {
        const int64_t at = i + sw_cuda_divide(hidden, i) * 2 * step;
        const float s = g.s[at + 2 * step], h = g.h[i];
        sw_gru_gates a;
        a.r = sw_sigmoidf(g.x[at] + g.s[at]);
        a.z = sw_sigmoidf(g.x[at + step] + g.s[at + step]);
        a.n = sw_tanhf(g.x[at + 2 * step] + a.r * s);
        if (g.y != nullptr) {
            g.y[i] = sw_gru_state(a, h);
            continue;
        }
        float d_h;
        const sw_gru_gates d = sw_gru_back(a, s, h, g.dy[i], &d_h);
        if (g.d_x != nullptr) {
            put(g.d_x, at, d.r, g.add_x);
            put(g.d_x, at + step, d.z, g.add_x);
            put(g.d_x, at + 2 * step, d.n, g.add_x);
        }
        if (g.d_s != nullptr) {
            put(g.d_s, at, d.r, g.add_s);
            put(g.d_s, at + step, d.z, g.add_s);
            put(g.d_s, at + 2 * step, d.n * a.r, g.add_s);
        }
        put(g.d_h, i, d_h, g.add_h);
    }
}

static sw_gru_args gru_of(const sw_launch *l)
{
    sw_gru_args a = {};
    a.x = sw_cuda_in(l, 0);
    a.s = sw_cuda_in(l, 1);
    a.h = sw_cuda_in(l, 2);
    return a;
}

SW_CUDA_ENTRY(gru_cell, forward, NULL, 1)
{
    sw_gru_args a = gru_of(l);
    a.y = sw_cuda_out(l, 0);
    return run("gru_cell", gru_cell_kernel, l, a, 2, queue);
}

/* in: sums of the input, of the hidden state, h, dy */
SW_CUDA_ENTRY(gru_cell, grad0, NULL, 1)
{
    sw_gru_args a = gru_of(l);
    a.dy = sw_cuda_in(l, 3);
    a.d_x = sw_cuda_out(l, 0);
    a.d_s = sw_cuda_out(l, 1);
    a.d_h = sw_cuda_out(l, 2);
    a.add_x = sw_cuda_adds(l, 0) != 0;
    a.add_s = sw_cuda_adds(l, 1) != 0;
    a.add_h = sw_cuda_adds(l, 2) != 0;
    return run("gru_cell", gru_cell_kernel, l, a, 2, queue);
}
