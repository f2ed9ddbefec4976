/* The cells of recurrent nets: what C and CUDA share. Sums before the gates lie side by side in
 * a row, in PyTorch's order; one row for each element of the batch. Backward recomputes gates
 * from their sums: the same bits, by the functions of sigmoid and tanh. */
#pragma once

#include "kernels/par.h"
#include "kernels/scalar.h"
#include <stdbool.h>

/* ---- long short-term memory (Hochreiter and Schmidhuber 1997, Gers et al. 2000) ---------- */

/* c' = f c + i g and h = o tanh c', of the gates i, f, o = sigmoid, g = tanh of their sums.
 * gates (rows, 4 hidden): i, f, g, o; all else (rows, hidden). h may be cell, d_gates gates:
 * what is read of an element is read before it is written. */
typedef struct {
    const float *gates, *cell, *dh, *dc; /* dc: of c' */
    float *h, *c, *d_gates, *d_cell;     /* gradients NULL: not computed */
    int64_t rows, hidden;
    bool add_gates, add_cell;
} sw_lstm_args;

/* Gates after their functions, or gradients of their sums. */
typedef struct {
    float i, f, g, o;
} sw_lstm_gates;

SW_INLINE float sw_lstm_state(sw_lstm_gates a, float c)
{
    return a.f * c + a.i * a.g;
}

/* dy times the slope of sigmoid and of tanh, from their value. */
SW_INLINE float sw_sigmoid_back(float dy, float y)
{
    return dy * (y * (1.0f - y));
}
SW_INLINE float sw_tanh_back(float dy, float y)
{
    return dy * ((1.0f - y) * (1.0f + y));
}

/* t = tanh c'. *d_cell: the gradient of c. */
SW_INLINE sw_lstm_gates sw_lstm_back(sw_lstm_gates a, float c, float t, float dh, float dc,
                                     float *d_cell)
{
    sw_lstm_gates d;
    const float state = dc + sw_tanh_back(dh * a.o, t);
    d.i = sw_sigmoid_back(state * a.g, a.i);
    d.f = sw_sigmoid_back(state * c, a.f);
    d.g = sw_tanh_back(state * a.i, a.g);
    d.o = sw_sigmoid_back(dh * t, a.o);
    *d_cell = state * a.f;
    return d;
}

/* ---- gated recurrent units (Cho et al. 2014, in PyTorch's form) -------------------------- */

/* h' = (1 - z) n + z h of r, z = sigmoid(x + s) and n = tanh(x + r s), where x are the sums of
 * the input and s those of the hidden state, both (rows, 3 hidden): r, z, n. h, h', dh' and d_h
 * (rows, hidden). h' may be h, d_x x or s: as above. */
typedef struct {
    const float *x, *s, *h, *dy;
    float *y, *d_x, *d_s, *d_h; /* gradients NULL: not computed */
    int64_t rows, hidden;
    bool add_x, add_s, add_h;
} sw_gru_args;

typedef struct {
    float r, z, n;
} sw_gru_gates;

SW_INLINE float sw_gru_state(sw_gru_gates a, float h)
{
    return (1.0f - a.z) * a.n + a.z * h;
}

/* Of the sums of the input; those of the hidden state are the same but for d.n r. s: its sum
 * for n. *d_h: the gradient of h. */
SW_INLINE sw_gru_gates sw_gru_back(sw_gru_gates a, float s, float h, float dy, float *d_h)
{
    sw_gru_gates d;
    d.n = sw_tanh_back(dy * (1.0f - a.z), a.n);
    d.z = sw_sigmoid_back(dy * (h - a.n), a.z);
    d.r = sw_sigmoid_back(d.n * s, a.r);
    *d_h = dy * a.z;
    return d;
}
