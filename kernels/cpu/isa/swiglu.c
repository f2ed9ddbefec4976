/* SwiGLU: y = a sigmoid(a) b and its gradients, which may lie where a, b or dy lie. Blocks of
 * elements are read before any of them is written. */
#include "kernels/cpu/isa/pointwise_internal.h"
#include "kernels/scalar.h"

enum { PART = 16384, BLOCK = 64 };

/* One run of n elements within a row. */
typedef void run(const sw_glu *g, int64_t at, int64_t at_y, int64_t n);

typedef struct {
    const sw_glu *g;
    run *body;
} job;

static void part(void *arg, int number)
{
    const job *j = arg;
    const sw_glu *g = j->g;
    int64_t i = (int64_t)number * PART, end = i + PART;
    end = end < g->rows * g->cols ? end : g->rows * g->cols;
    while (i < end) {
        const int64_t row = i / g->cols, col = i % g->cols;
        const int64_t left = g->cols - col < end - i ? g->cols - col : end - i;
        const int64_t n = left < BLOCK ? left : BLOCK;
        j->body(g, row * g->step + col, i, n);
        i += n;
    }
}

static void forward(const sw_glu *g, int64_t at, int64_t at_y, int64_t n)
{
    float y[BLOCK];
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_swish_value(g->a[at + i]) * g->b[at + i];
    for (int64_t i = 0; i < n; i++)
        g->y[at_y + i] = y[i];
}

static void backward(const sw_glu *g, int64_t at, int64_t at_y, int64_t n)
{
    float da[BLOCK], db[BLOCK];
    const float *dy = g->dy + at_y, *a = g->a + at;
    for (int64_t i = 0; i < n && g->da != NULL; i++)
        da[i] = dy[i] * g->b[at + i] * sw_swish_slope(a[i]);
    for (int64_t i = 0; i < n && g->db != NULL; i++)
        db[i] = dy[i] * sw_swish_value(a[i]);
    for (int64_t i = 0; i < n && g->da != NULL; i++)
        g->da[at + i] = g->add_a ? g->da[at + i] + da[i] : da[i];
    for (int64_t i = 0; i < n && g->db != NULL; i++)
        g->db[at + i] = g->add_b ? g->db[at + i] + db[i] : db[i];
}

static void go(const sw_glu *g, run *body, const sw_par *par)
{
    job j = {g, body};
    par->run(par, part, &j, (int)((g->rows * g->cols + PART - 1) / PART));
}

void SW_KERNEL(pointwise, swiglu)(const sw_glu *g, const sw_par *par)
{
    go(g, forward, par);
}

void SW_KERNEL(pointwise, swiglu_grad)(const sw_glu *g, const sw_par *par)
{
    go(g, backward, par);
}
