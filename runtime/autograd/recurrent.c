/* Recurrent layers, unrolled: the product of the input for all steps at once, then one product
 * of the hidden state and one cell for each step, in a scope of its own. */
#include "runtime/autograd/layer.h"
#include <stdio.h>

/* ---- declarations ------------------------------------------------------------------------ */

typedef struct {
    sw_param weight_ih, weight_hh, bias_ih, bias_hh;
} weights;

static weights declare(sw_model *model, const char *name, int64_t in, int64_t hidden, int gates)
{
    char init[72];
    weights w;
    int64_t rows;
    if (__builtin_mul_overflow(hidden, gates, &rows))
        rows = INT64_MAX; /* the declaration's to refuse */
    swi_layer_init(init, sizeof init, hidden);
    w.weight_ih = swi_layer_param(model, name, "weight_ih", SW_SHAPE(rows, in), init);
    w.weight_hh = swi_layer_param(model, name, "weight_hh", SW_SHAPE(rows, hidden), init);
    w.bias_ih = swi_layer_param(model, name, "bias_ih", SW_SHAPE(rows), init);
    w.bias_hh = swi_layer_param(model, name, "bias_hh", SW_SHAPE(rows), init);
    return w;
}

sw_lstm sw_lstm_new(sw_model *model, const char *name, int64_t in, int64_t hidden)
{
    const weights w = declare(model, name, in, hidden, 4);
    return (sw_lstm){.weight_ih = w.weight_ih,
                     .weight_hh = w.weight_hh,
                     .bias_ih = w.bias_ih,
                     .bias_hh = w.bias_hh};
}

sw_gru sw_gru_new(sw_model *model, const char *name, int64_t in, int64_t hidden)
{
    const weights w = declare(model, name, in, hidden, 3);
    return (sw_gru){.weight_ih = w.weight_ih,
                    .weight_hh = w.weight_hh,
                    .bias_ih = w.bias_ih,
                    .bias_hh = w.bias_hh};
}

/* ---- one step ---------------------------------------------------------------------------- */

/* A layer within a run, and its state. */
typedef struct {
    sw_value weight_ih, weight_hh, bias_ih, bias_hh;
    sw_value h, c; /* c: of an LSTM */
    bool has_cell;
} unit;

#define UNIT(ctx, layer, cell)                                                                 \
    {                                                                                          \
        .weight_ih = sw_use(ctx, (layer).weight_ih),                                           \
        .weight_hh = sw_use(ctx, (layer).weight_hh),                                           \
        .bias_ih = swi_layer_use(ctx, (layer).bias_ih),                                        \
        .bias_hh = swi_layer_use(ctx, (layer).bias_hh), .has_cell = cell                       \
    }

static sw_value state_or_zeros(sw_ctx *ctx, const sw_value *given, sw_shape shape)
{
    return given != NULL && given->id != 0 ? *given : sw_full(ctx, shape, 0.0f);
}

static void begin_states(sw_ctx *ctx, unit *u, int64_t batch, const sw_value *h,
                         const sw_value *c)
{
    const sw_shape shape = SW_SHAPE(batch, sw_dim(ctx, u->weight_hh, 1));
    u->h = state_or_zeros(ctx, h, shape);
    if (u->has_cell)
        u->c = state_or_zeros(ctx, c, shape);
}

static sw_value input_sums(sw_ctx *ctx, const unit *u, sw_value x)
{
    return sw_linear_op(ctx, x, u->weight_ih, u->bias_ih);
}

/* sums: what the input adds to the gates, (batch, gates hidden). */
static void advance(sw_ctx *ctx, unit *u, sw_value sums)
{
    const sw_value s = sw_linear_op(ctx, u->h, u->weight_hh, u->bias_hh);
    if (u->has_cell)
        u->h = sw_lstm_cell(ctx, sw_add(ctx, sums, s), u->c, &u->c);
    else
        u->h = sw_gru_cell(ctx, sums, s, u->h);
}

static void give_states(sw_ctx *ctx, const unit *u, sw_value *h, sw_value *c)
{
    if (sw_ctx_status(ctx) != SW_OK)
        return;
    if (h != NULL)
        *h = u->h;
    if (c != NULL)
        *c = u->c;
}

static void one_step(sw_ctx *ctx, unit *u, sw_value x, sw_value *h, sw_value *c)
{
    begin_states(ctx, u, sw_dim(ctx, x, 0), h, c);
    advance(ctx, u, input_sums(ctx, u, x));
    give_states(ctx, u, h, c);
}

/* ---- a sequence -------------------------------------------------------------------------- */

/* Results of steps put together along axis 0: a concat takes 32 values, so 32 of them become
 * one, 32 of these one again, and so on. */
enum { FAN = 32, LEVELS = 5 };
typedef struct {
    sw_value at[LEVELS][FAN];
    int n[LEVELS];
} pile;

static sw_value join(sw_ctx *ctx, const sw_value *x, int n)
{
    return n == 1 ? x[0] : sw_concat(ctx, x, n, 0);
}

static void pile_add(sw_ctx *ctx, pile *p, int level, sw_value x)
{
    if (p->n[level] == FAN) {
        const sw_value joined = join(ctx, p->at[level], FAN);
        p->n[level] = 0;
        if (level + 1 < LEVELS)
            pile_add(ctx, p, level + 1, joined);
    }
    p->at[level][p->n[level]++] = x;
}

/* The values of a level come after all that is above it. */
static sw_value pile_all(sw_ctx *ctx, pile *p)
{
    for (int level = 0; level + 1 < LEVELS; level++)
        if (p->n[level] > 0)
            pile_add(ctx, p, level + 1, join(ctx, p->at[level], p->n[level]));
    return join(ctx, p->at[LEVELS - 1], p->n[LEVELS - 1]);
}

/* Steps that the levels hold; a program has fewer ops than that in any case. */
#define MOST_STEPS (INT64_C(1) << 5 * LEVELS)

static bool is_sequence(sw_ctx *ctx, const char *call, sw_value x)
{
    char text[120];
    const int rank = sw_rank(ctx, x);
    if (sw_ctx_status(ctx) != SW_OK)
        return false;
    const int64_t steps = rank == 3 ? sw_dim(ctx, x, 0) : 0;
    if (steps >= 1 && steps <= MOST_STEPS)
        return true;
    if (rank != 3)
        snprintf(text, sizeof text, "%s: x must be (seq, batch, in) (got rank %d)", call, rank);
    else
        snprintf(text, sizeof text, "%s: x must have 1 to %lld steps (got %lld)", call,
                 (long long)MOST_STEPS, (long long)steps);
    sw_fail(ctx, SW_INVALID, text);
    return false;
}

static sw_value sequence(sw_ctx *ctx, unit *u, sw_value x, sw_value *h, sw_value *c)
{
    const int64_t seq = sw_dim(ctx, x, 0), batch = sw_dim(ctx, x, 1);
    const sw_value rows = sw_reshape(ctx, x, SW_SHAPE(seq * batch, sw_dim(ctx, x, 2)));
    const sw_value sums = input_sums(ctx, u, rows);
    pile p = {.n = {0}};
    begin_states(ctx, u, batch, h, c);
    for (int64_t t = 0; t < seq && sw_ctx_status(ctx) == SW_OK; t++) {
        char name[32];
        snprintf(name, sizeof name, "t%lld", (long long)t);
        sw_scope_begin(ctx, name);
        advance(ctx, u, sw_slice(ctx, sums, 0, t * batch, batch));
        sw_scope_end(ctx);
        pile_add(ctx, &p, 0, u->h);
    }
    if (sw_ctx_status(ctx) != SW_OK)
        return (sw_value){0, 0};
    const sw_value all = pile_all(ctx, &p);
    give_states(ctx, u, h, c);
    return sw_reshape(ctx, all, SW_SHAPE(seq, batch, sw_dim(ctx, u->h, 1)));
}

/* ---- layers ------------------------------------------------------------------------------ */

sw_value sw_apply_lstm(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c)
{
    if (!is_sequence(ctx, "sw_apply_lstm", x) ||
        !SWI_LAYER_BEGIN(ctx, sw_lstm, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, true);
    return swi_layer_end(ctx, sequence(ctx, &u, x, h, c));
}

sw_value sw_apply_gru(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h)
{
    if (!is_sequence(ctx, "sw_apply_gru", x) || !SWI_LAYER_BEGIN(ctx, sw_gru, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, false);
    return swi_layer_end(ctx, sequence(ctx, &u, x, h, NULL));
}

sw_value sw_apply_lstm_step(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_lstm, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, true);
    one_step(ctx, &u, x, h, c);
    return swi_layer_end(ctx, u.h);
}

sw_value sw_apply_gru_step(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h)
{
    if (!SWI_LAYER_BEGIN(ctx, sw_gru, layer, weight_ih))
        return (sw_value){0, 0};
    unit u = UNIT(ctx, layer, false);
    one_step(ctx, &u, x, h, NULL);
    return swi_layer_end(ctx, u.h);
}
