/* A net over frozen weights, with two small ones beside them that are trained. */
#include "tests/runtime/tuned.h"
#include "kernels/halves.h"
#include "kernels/stored.h"
#include "runtime/model/model.h"
#include "tests/runtime/nets.h"

enum { STEPS = 3 };

/* Random numbers as weights of type `kind` have them; of SW_F32 they are as they are. */
static void fill(sw_param param, sw_dtype kind, bool stored, uint64_t seed)
{
    static float x[TUNED_VOCABULARY * TUNED_WIDER];
    static unsigned char bytes[sizeof x];
    const sw_shape *s = &swi_entry_of(param)->shape;
    const int64_t n = swi_elements(s);
    const sw_stored w = {kind, bytes, s->dim[0], s->rank > 1 ? s->dim[1] : 1};
    sw_dice dice = {seed};
    for (int64_t i = 0; i < n; i++)
        x[i] = ((float)sw_dice_below(&dice, 2001) - 1000.0f) / 4000.0f;
    if (sw_is_stored(kind) && !stored)
        sw_stored_encode(&w, 0, n, x);
    for (int64_t i = 0; i < n && !stored; i++)
        if (kind == SW_BF16)
            x[i] = sw_bf16_widen(sw_bf16_round(x[i]));
        else if (kind == SW_I8)
            x[i] = (float)(int8_t)bytes[i] * sw_stored_scale(&w, i);
        else if (kind == SW_NF4)
            x[i] = sw_nf4_value[bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15] *
                   sw_stored_scale(&w, i);
    /* In two pieces, where it has two. */
    const int64_t unit = sw_is_stored(kind) ? sw_stored_unit(&w) : 1;
    const int64_t piece = n > unit ? unit : n;
    OK(sw_weights_write(param, 0, x, piece));
    OK(sw_weights_write(param, piece, x + piece, n - piece));
}

tuned *tuned_new(tuned *t, sw_exec *exec, sw_dtype kind, bool stored)
{
    const sw_dtype dtype = stored ? kind : SW_F32;
    *t = (tuned){.opt = NULL};
    OK(sw_model_create(&t->base, "base"));
    OK(sw_model_create(&t->own, "own"));
    AFTER(sw_model_destroy, t->base);
    AFTER(sw_model_destroy, t->own);
    t->table = sw_weights_new(t->base, "table", dtype, SW_SHAPE(TUNED_VOCABULARY, TUNED_WIDTH));
    t->up = sw_weights_new(t->base, "up", dtype, SW_SHAPE(TUNED_WIDER, TUNED_WIDTH));
    t->bias = sw_weights_new(t->base, "bias", SW_F32, SW_SHAPE(TUNED_WIDER));
    t->down = sw_weights_new(t->base, "down", dtype, SW_SHAPE(TUNED_WIDTH, TUNED_WIDER));
    t->a = sw_param_new(t->own, "a", SW_F32, SW_SHAPE(4, TUNED_WIDTH), "normal:0.1");
    t->b = sw_param_new(t->own, "b", SW_F32, SW_SHAPE(TUNED_WIDER, 4), "normal:0.1");
    OK(sw_optimizer_create(&t->opt, t->own, &SW_OPTS(sw_optimizer_opts, .kind = "adamw")));
    OK(sw_model_ready(t->base, exec, 1));
    OK(sw_model_ready(t->own, exec, 1));
    fill(t->table, kind, stored, 1);
    fill(t->up, kind, stored, 2);
    fill(t->bias, SW_F32, true, 3);
    fill(t->down, kind, stored, 4);
    return t;
}

void tuned_step(sw_ctx *c, void *user)
{
    tuned *t = user;
    const sw_value table = sw_use(c, t->table), none = {0, 0};
    if (t->scope != NULL)
        sw_scope_begin(c, t->scope);
    const sw_value x = sw_embedding_op(c, sw_input(c, 0), table);
    sw_value h = sw_linear_op(c, x, sw_use(c, t->up), sw_use(c, t->bias));
    const sw_value low = sw_linear_op(c, x, sw_use(c, t->a), none);
    h = sw_tanh(c, sw_add(c, h, sw_linear_op(c, low, sw_use(c, t->b), none)));
    h = sw_linear_op(c, h, sw_use(c, t->down), none);
    const sw_value loss = sw_linear_ce(c, h, table, none, sw_input(c, 1));
    if (t->scope != NULL)
        sw_scope_end(c);
    sw_metric(c, "loss", loss);
    sw_output(c, "h", h);
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    sw_backward(c, loss, &t->opt, 1);
    sw_update(c, t->opt);
}

sw_run_args tuned_args(tuned *t, sw_array in[2], sw_model *models[2], int64_t tokens)
{
    static int32_t ids[2][TUNED_TOKENS];
    for (int i = 0; i < TUNED_TOKENS; i++) {
        ids[0][i] = i * 7 % TUNED_VOCABULARY;
        ids[1][i] = i * 11 % TUNED_VOCABULARY;
    }
    for (int i = 0; i < 2; i++)
        in[i] = (sw_array){SW_I32, SW_SHAPE(tokens), ids[i]};
    models[0] = t->base;
    models[1] = t->own;
    return SW_OPTS(sw_run_args, .fn = tuned_step, .user = t, .models = models, .n_models = 2,
                   .inputs = in, .n_inputs = 2, .mode = SW_TRAIN);
}

double tuned_same_runs(const sw_exec_opts *opts, sw_dtype kind, const char *scope,
                       int64_t tokens, sw_plan_info plan[2])
{
    static tuned t[2];
    static float h[TUNED_TOKENS * TUNED_WIDTH];
    double loss[STEPS] = {0};
    for (int half = 0; half < 2; half++) {
        sw_exec *exec = net_exec(opts);
        sw_array in[2], y;
        sw_model *models[2];
        tuned_new(&t[half], exec, kind, half != 0);
        t[half].scope = scope;
        sw_run_args args = tuned_args(&t[half], in, models, tokens);
        plan[half] = SW_OPTS(sw_plan_info);
        OK(sw_plan(exec, &args, &plan[half]));
        for (int i = 0; i < STEPS; i++) {
            sw_run_info run = SW_OPTS(sw_run_info);
            args.step = (uint64_t)i;
            OK(sw_run(exec, &args));
            OK(sw_last_run(exec, &run));
            CU_ASSERT(i == 0 || (run.warm && run.allocations == 0));
            for (int p = 0; p < SW_PHASES; p++)
                CU_ASSERT_EQUAL(run.phase[p].peak_bytes, plan[half].phase[p].peak_bytes);
            const double now = net_metric(exec, "loss");
            if (half == 0)
                loss[i] = now;
            SW_CHECK(now == loss[i], "step %d, %s: the loss is %.9g, stored %.9g", i,
                     opts != NULL && opts->isa != NULL ? opts->isa : "best", loss[i], now);
        }
        OK(sw_output_get(exec, "h", &y));
        const size_t bytes = (size_t)(tokens * TUNED_WIDTH) * sizeof *h;
        if (half == 0)
            memcpy(h, y.data, bytes);
        CU_ASSERT_EQUAL(memcmp(h, y.data, bytes), 0);
    }
    for (int k = 0; k < 2; k++) {
        float x[2][4 * TUNED_WIDER];
        const size_t bytes = (size_t)(k == 0 ? TUNED_WIDTH : TUNED_WIDER) * 4 * sizeof **x;
        for (int half = 0; half < 2; half++)
            OK(sw_param_read(k == 0 ? t[half].a : t[half].b, x[half], bytes));
        CU_ASSERT_EQUAL(memcmp(x[0], x[1], bytes), 0);
    }
    return loss[STEPS - 1];
}
