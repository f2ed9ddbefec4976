/* Attention: y = softmax(scale q k^T) v for each head, in tiles. float32 inside; q, k, v, y and
 * their gradients may be bf16, which is widened tile by tile and rounded once.
 *
 * The product of queries and keys exists in tiles alone: forward keeps a running maximum and
 * sum of each row (Dao et al. 2022, 2023), backward makes the tiles again from the logarithm of
 * that sum. Bits depend on shapes and the instruction set only: a row goes over the keys that
 * it sees in blocks from the first to the last, and what is summed over queries goes in their
 * order, head by head. */
#pragma once

#include "kernels/par.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* (batch, rows, heads, size) on somebody's bytes: element (b, r, h, i) is
 * p[b * batch + r * row + (h * size + i) * col]. */
typedef struct {
    const float *p;
    int64_t batch, row, col;
} sw_heads;

/* The same to be written; columns side by side. p NULL: not written. */
typedef struct {
    float *p;
    int64_t batch, row;
    bool accumulate;
} sw_heads_out;

typedef struct {
    int64_t batch, queries, keys;
    int64_t heads, heads_kv;  /* of q, y and lse; of k and v, each for heads / heads_kv of q */
    int64_t size, value_size; /* of one head of q and k, and of v and y */
    float scale;
    bool causal;            /* query i sees the keys first[i]..past + i */
    bool half;              /* all but lse is bf16, its pointers cast from uint16_t * */
    bool has_past;          /* it is a number of the run: any */
    const int32_t *first;   /* (batch, queries), at most past + i counts; NULL: 0 */
    const int32_t *past_at; /* where the number lies; NULL: 0 */
    int64_t past;           /* on the CPU: the number */
} sw_attention_shape;

/* y and dy are (batch, queries, heads * value_size) and lse, the logarithms of the sums,
 * (batch, heads, queries), all contiguous. */
typedef struct {
    sw_attention_shape s;
    sw_heads q, k, v;
    const float *y, *lse, *dy; /* y: read for dq and dk */
    sw_heads_out dq, dk, dv;
} sw_attention_grads;
