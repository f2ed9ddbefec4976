/* Gated units: cells of recurrent nets (kernels/recurrent.h) and SwiGLU. Runs of elements
 * within a row go gate by gate through blocks on the stack, so that each loop is one function
 * of vectors; a block is read before any of it is written, so outputs may lie where inputs lie.
 */
#include "kernels/cpu/isa/isa.h"
#include "kernels/recurrent.h"
#include "kernels/scalar.h"

enum { BLOCK = 64 };

/* n elements from element `col` of a row on; `at` is the first of them in (rows, cols). */
typedef void run(const void *args, int64_t row, int64_t col, int64_t at, int64_t n);

typedef struct {
    const void *args;
    run *body;
    int64_t rows, cols, size; /* elements of a part */
} job;

static void part(void *arg, int number)
{
    const job *j = arg;
    const int64_t all = j->rows * j->cols;
    int64_t i = (int64_t)number * j->size, end = i + j->size;
    end = end < all ? end : all;
    while (i < end) {
        const int64_t row = i / j->cols, col = i % j->cols;
        const int64_t left = j->cols - col < end - i ? j->cols - col : end - i;
        const int64_t n = left < BLOCK ? left : BLOCK;
        j->body(j->args, row, col, i, n);
        i += n;
    }
}

static void sigmoids(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_sigmoidf(x[i]);
}

static void tanhs(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_tanhf(x[i]);
}

static void put(float *to, const float *from, int64_t n, bool add)
{
    if (add)
        for (int64_t i = 0; i < n; i++)
            to[i] = to[i] + from[i];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
}

/* ---- lstm_cell --------------------------------------------------------------------------- */

typedef struct {
    float i[BLOCK], f[BLOCK], g[BLOCK], o[BLOCK], c[BLOCK], t[BLOCK];
} lstm_block;

static inline sw_lstm_gates gates_at(const lstm_block *b, int64_t k)
{
    return (sw_lstm_gates){b->i[k], b->f[k], b->g[k], b->o[k]};
}

/* Gates, c' and its tanh. */
static void lstm_fill(lstm_block *b, const sw_lstm_args *l, const float *gates, int64_t at,
                      int64_t n)
{
    sigmoids(b->i, gates, n);
    sigmoids(b->f, gates + l->hidden, n);
    tanhs(b->g, gates + 2 * l->hidden, n);
    sigmoids(b->o, gates + 3 * l->hidden, n);
    for (int64_t k = 0; k < n; k++)
        b->c[k] = sw_lstm_state(gates_at(b, k), l->cell[at + k]);
    tanhs(b->t, b->c, n);
}

static void lstm_forward(const void *args, int64_t row, int64_t col, int64_t at, int64_t n)
{
    const sw_lstm_args *l = args;
    lstm_block b;
    lstm_fill(&b, l, l->gates + row * 4 * l->hidden + col, at, n);
    for (int64_t k = 0; k < n; k++)
        b.t[k] = b.o[k] * b.t[k];
    put(l->h + at, b.t, n, false);
    put(l->c + at, b.c, n, false);
}

static void lstm_backward(const void *args, int64_t row, int64_t col, int64_t at, int64_t n)
{
    const sw_lstm_args *l = args;
    const int64_t first = row * 4 * l->hidden + col;
    const float *c = l->cell + at, *dh = l->dh + at, *dc = l->dc + at;
    lstm_block b;
    float d_cell[BLOCK];
    lstm_fill(&b, l, l->gates + first, at, n);
    for (int64_t k = 0; k < n; k++) {
        const sw_lstm_gates d =
            sw_lstm_back(gates_at(&b, k), c[k], b.t[k], dh[k], dc[k], &d_cell[k]);
        b.i[k] = d.i;
        b.f[k] = d.f;
        b.g[k] = d.g;
        b.o[k] = d.o;
    }
    const float *const d[] = {b.i, b.f, b.g, b.o};
    for (int gate = 0; gate < 4 && l->d_gates != NULL; gate++)
        put(l->d_gates + first + gate * l->hidden, d[gate], n, l->add_gates);
    if (l->d_cell != NULL)
        put(l->d_cell + at, d_cell, n, l->add_cell);
}

/* ---- gru_cell ---------------------------------------------------------------------------- */

typedef struct {
    float r[BLOCK], z[BLOCK], n[BLOCK];
} gru_block;

static inline sw_gru_gates units_at(const gru_block *b, int64_t k)
{
    return (sw_gru_gates){b->r[k], b->z[k], b->n[k]};
}

static void gru_fill(gru_block *b, const sw_gru_args *g, int64_t first, int64_t n)
{
    const float *x = g->x + first, *s = g->s + first;
    for (int64_t k = 0; k < n; k++)
        b->r[k] = sw_sigmoidf(x[k] + s[k]);
    for (int64_t k = 0; k < n; k++)
        b->z[k] = sw_sigmoidf(x[g->hidden + k] + s[g->hidden + k]);
    for (int64_t k = 0; k < n; k++)
        b->n[k] = sw_tanhf(x[2 * g->hidden + k] + b->r[k] * s[2 * g->hidden + k]);
}

static void gru_forward(const void *args, int64_t row, int64_t col, int64_t at, int64_t n)
{
    const sw_gru_args *g = args;
    gru_block b;
    float y[BLOCK];
    gru_fill(&b, g, row * 3 * g->hidden + col, n);
    for (int64_t k = 0; k < n; k++)
        y[k] = sw_gru_state(units_at(&b, k), g->h[at + k]);
    put(g->y + at, y, n, false);
}

static void gru_backward(const void *args, int64_t row, int64_t col, int64_t at, int64_t n)
{
    const sw_gru_args *g = args;
    const int64_t first = row * 3 * g->hidden + col;
    const float *h = g->h + at, *dy = g->dy + at, *s = g->s + first + 2 * g->hidden;
    gru_block b;
    float d_h[BLOCK], d_s[BLOCK];
    gru_fill(&b, g, first, n);
    for (int64_t k = 0; k < n; k++) {
        const float r = b.r[k];
        const sw_gru_gates d = sw_gru_back(units_at(&b, k), s[k], h[k], dy[k], &d_h[k]);
        b.r[k] = d.r;
        b.z[k] = d.z;
        b.n[k] = d.n;
        d_s[k] = d.n * r;
    }
    const float *const to_x[] = {b.r, b.z, b.n}, *const to_s[] = {b.r, b.z, d_s};
    for (int gate = 0; gate < 3 && g->d_x != NULL; gate++)
        put(g->d_x + first + gate * g->hidden, to_x[gate], n, g->add_x);
    for (int gate = 0; gate < 3 && g->d_s != NULL; gate++)
        put(g->d_s + first + gate * g->hidden, to_s[gate], n, g->add_s);
    if (g->d_h != NULL)
        put(g->d_h + at, d_h, n, g->add_h);
}

/* ---- swiglu: y = a sigmoid(a) b ---------------------------------------------------------- */

static void swiglu_forward(const void *args, int64_t row, int64_t col, int64_t at, int64_t n)
{
    const sw_glu *g = args;
    const float *a = g->a + row * g->step + col, *b = g->b + row * g->step + col;
    float y[BLOCK];
    for (int64_t i = 0; i < n; i++)
        y[i] = sw_swish_value(a[i]) * b[i];
    put(g->y + at, y, n, false);
}

static void swiglu_backward(const void *args, int64_t row, int64_t col, int64_t at, int64_t n)
{
    const sw_glu *g = args;
    const int64_t first = row * g->step + col;
    const float *dy = g->dy + at, *a = g->a + first, *b = g->b + first;
    float da[BLOCK], db[BLOCK];
    for (int64_t i = 0; i < n && g->da != NULL; i++)
        da[i] = dy[i] * b[i] * sw_swish_slope(a[i]);
    for (int64_t i = 0; i < n && g->db != NULL; i++)
        db[i] = dy[i] * sw_swish_value(a[i]);
    if (g->da != NULL)
        put(g->da + first, da, n, g->add_a);
    if (g->db != NULL)
        put(g->db + first, db, n, g->add_b);
}

/* ------------------------------------------------------------------------------------------ */

#define KERNEL(name, args, width, size, body)                                                  \
    void SW_KERNEL(pointwise, name)(const args *a, const sw_par *par)                          \
    {                                                                                          \
        job j = {a, body, a->rows, a->width, size};                                            \
        par->run(par, part, &j, (int)((j.rows * j.cols + (size)-1) / (size)));                 \
    }
KERNEL(lstm_cell, sw_lstm_args, hidden, 4096, lstm_forward)
KERNEL(lstm_cell_grad, sw_lstm_args, hidden, 4096, lstm_backward)
KERNEL(gru_cell, sw_gru_args, hidden, 4096, gru_forward)
KERNEL(gru_cell_grad, sw_gru_args, hidden, 4096, gru_backward)
KERNEL(swiglu, sw_glu, cols, 16384, swiglu_forward)
KERNEL(swiglu_grad, sw_glu, cols, 16384, swiglu_backward)
