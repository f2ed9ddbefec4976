/* The cells of recurrent nets, element by element between two products. Both keep their
 * inputs and nothing else: gates and the tanh of the state are recomputed in backward, in
 * registers. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <math.h>

/* Do the axes of `wide` end with `gates` times the hidden units of `state`? */
static sw_status infer_gates(const char *op, const char *what, const sw_type *wide,
                             const sw_type *state, int gates)
{
    sw_shape want = state->shape;
    if (want.rank < 1)
        SW_FAIL(SW_INVALID, "%s: the state must have an axis of hidden units (it is a scalar)",
                op);
    const int64_t hidden = want.dim[want.rank - 1];
    if (__builtin_mul_overflow(hidden, gates, &want.dim[want.rank - 1]) ||
        !swi_same_shape(&wide->shape, &want))
        SW_FAIL(SW_INVALID,
                "%s: %s must have the axes of the state, with %d numbers for each of its %lld "
                "hidden units (got %s, the state is %s)",
                op, what, gates, (long long)hidden, SWI_SHAPE(&wide->shape),
                SWI_SHAPE(&state->shape));
    return SW_OK;
}

static int64_t hidden_of(const sw_type *state)
{
    return state->shape.dim[state->shape.rank - 1];
}

static int64_t rows_of(const sw_type *state)
{
    const int64_t hidden = hidden_of(state);
    return hidden > 0 ? swi_elements(&state->shape) / hidden : 0;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* ---- lstm_cell --------------------------------------------------------------------------- */

static sw_status lstm_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("lstm_cell", in, n_in));
    SW_TRY(infer_gates("lstm_cell", "the gates", &in[0], &in[1], 4));
    out[0] = out[1] = in[1];
    return SW_OK;
}

static sw_lstm_args lstm_args(const sw_launch *l)
{
    return (sw_lstm_args){.gates = swi_in(l, 0),
                          .cell = swi_in(l, 1),
                          .rows = rows_of(&l->in[1].type),
                          .hidden = hidden_of(&l->in[1].type)};
}

static sw_status lstm_forward(const sw_launch *l)
{
    sw_lstm_args a = lstm_args(l);
    a.h = swi_out(l, 0);
    a.c = swi_out(l, 1);
    sw_pointwise(l->isa)->lstm_cell(&a, l->par);
    return SW_OK;
}

/* in: gates, cell, dh, dc */
static sw_status lstm_kernel(const sw_launch *l)
{
    sw_lstm_args a = lstm_args(l);
    a.dh = swi_in(l, 2);
    a.dc = swi_in(l, 3);
    a.d_gates = swi_out(l, 0);
    a.d_cell = swi_out(l, 1);
    a.add_gates = swi_adds(l, 0);
    a.add_cell = swi_adds(l, 1);
    sw_pointwise(l->isa)->lstm_cell_grad(&a, l->par);
    return SW_OK;
}

/* Gates, c' and its tanh. */
enum { LSTM_STATE = 3 * SWI_SIGMOID + SWI_TANH + 3 + SWI_TANH };

COUNT(lstm_operations, swi_count_per_element(&info->in[1], LSTM_STATE + 1))

/* Slopes of four gates and of the tanh, with what goes into each, and the cell's gradient. */
COUNT(lstm_grad_operations,
      swi_count_per_element(&info->in[1], LSTM_STATE + 3 * (1 + 3) + (1 + 4) + (2 + 4) + 1))

static sw_status lstm_reference(const sw_reference *r)
{
    const int64_t hidden = hidden_of(&r->in_type[1]);
    for (int64_t k = 0; k < swi_elements(&r->in_type[1].shape); k++) {
        const double *sums = r->in[0] + k / hidden * 4 * hidden + k % hidden;
        const double i = sigmoid(sums[0]), f = sigmoid(sums[hidden]);
        const double g = tanh(sums[2 * hidden]), o = sigmoid(sums[3 * hidden]);
        r->out[1][k] = f * r->in[1][k] + i * g;
        r->out[0][k] = o * tanh(r->out[1][k]);
    }
    return SW_OK;
}

static const sw_grad_desc lstm_grads[] = {
    GRAD(MAKES(0, 1), FROM(SW_IN(0), SW_IN(1), SW_DOUT(0), SW_DOUT(1)), lstm_kernel,
         lstm_grad_operations, .inplace = 1)};
static const sw_op_case lstm_cases[] = {
    CASE("batch", IN(F32(3, 4 * 5), F32(3, 5))),
    CASE("long rows", IN(F32(2, 4 * 131), F32(2, 131))),
    CASE("several parts", IN(F32(67, 4 * 129), F32(67, 129))),
    CASE("one unit", IN(F32(4), F32(1))),
    CASE("rank 3", IN(F32(2, 3, 4 * 16), F32(2, 3, 16))),
};

OP(lstm_cell, 2, 0, 2, .infer = lstm_infer, .inplace = 2, .rebuild = 1, .forward = lstm_forward,
   .operations = lstm_operations, .skips = 1, GRADS(lstm_grads),
   CHECKS(lstm_reference, lstm_cases));

sw_value sw_lstm_cell(sw_ctx *ctx, sw_value gates, sw_value cell, sw_value *next)
{
    const sw_value in[] = {gates, cell};
    sw_value out[2] = {{0, 0}, {0, 0}};
    const sw_value h = sw_op_apply_all(ctx, SW_OP_lstm_cell, in, 2, NULL, out);
    if (next != NULL)
        *next = out[1];
    return h;
}

/* ---- gru_cell ---------------------------------------------------------------------------- */

static sw_status gru_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)attrs;
    SW_TRY(swi_want_f32("gru_cell", in, n_in));
    SW_TRY(infer_gates("gru_cell", "the sums of the input", &in[0], &in[2], 3));
    SW_TRY(infer_gates("gru_cell", "the sums of the hidden state", &in[1], &in[2], 3));
    out[0] = in[2];
    return SW_OK;
}

static sw_gru_args gru_args(const sw_launch *l)
{
    return (sw_gru_args)SW_INIT(.x = swi_in(l, 0), .s = swi_in(l, 1), .h = swi_in(l, 2),
                                .rows = rows_of(&l->in[2].type),
                                .hidden = hidden_of(&l->in[2].type));
}

static sw_status gru_forward(const sw_launch *l)
{
    sw_gru_args a = gru_args(l);
    a.y = swi_out(l, 0);
    sw_pointwise(l->isa)->gru_cell(&a, l->par);
    return SW_OK;
}

/* in: sums of the input, of the hidden state, h, dy */
static sw_status gru_kernel(const sw_launch *l)
{
    sw_gru_args a = gru_args(l);
    a.dy = swi_in(l, 3);
    a.d_x = swi_out(l, 0);
    a.d_s = swi_out(l, 1);
    a.d_h = swi_out(l, 2);
    a.add_x = swi_adds(l, 0);
    a.add_s = swi_adds(l, 1);
    a.add_h = swi_adds(l, 2);
    sw_pointwise(l->isa)->gru_cell_grad(&a, l->par);
    return SW_OK;
}

/* r, z and n. */
enum { GRU_GATES = 2 * (1 + SWI_SIGMOID) + 2 + SWI_TANH };

COUNT(gru_operations, swi_count_per_element(&info->in[2], GRU_GATES + 4))

/* Slopes of the gates, with what goes into each; n's sum of the hidden state; h. */
COUNT(gru_grad_operations,
      swi_count_per_element(&info->in[2], GRU_GATES + (2 + 4) + (2 + 3) + (1 + 3) + 1 + 1))

static sw_status gru_reference(const sw_reference *r)
{
    const int64_t hidden = hidden_of(&r->in_type[2]);
    for (int64_t k = 0; k < swi_elements(&r->in_type[2].shape); k++) {
        const int64_t at = k / hidden * 3 * hidden + k % hidden;
        const double *x = r->in[0] + at, *s = r->in[1] + at;
        const double reset = sigmoid(x[0] + s[0]), z = sigmoid(x[hidden] + s[hidden]);
        const double n = tanh(x[2 * hidden] + reset * s[2 * hidden]);
        r->out[0][k] = (1.0 - z) * n + z * r->in[2][k];
    }
    return SW_OK;
}

static const sw_grad_desc gru_grads[] = {GRAD(MAKES(0, 1, 2),
                                              FROM(SW_IN(0), SW_IN(1), SW_IN(2), SW_DOUT(0)),
                                              gru_kernel, gru_grad_operations, .inplace = 3)};
static const sw_op_case gru_cases[] = {
    CASE("batch", IN(F32(3, 3 * 5), F32(3, 3 * 5), F32(3, 5))),
    CASE("long rows", IN(F32(2, 3 * 131), F32(2, 3 * 131), F32(2, 131))),
    CASE("several parts", IN(F32(67, 3 * 129), F32(67, 3 * 129), F32(67, 129))),
    CASE("one unit", IN(F32(3), F32(3), F32(1))),
    CASE("rank 3", IN(F32(2, 3, 3 * 16), F32(2, 3, 3 * 16), F32(2, 3, 16))),
};

OP(gru_cell, 3, 0, 1, .infer = gru_infer, .inplace = 4, .forward = gru_forward,
   .operations = gru_operations, .skips = 1, GRADS(gru_grads),
   CHECKS(gru_reference, gru_cases));
