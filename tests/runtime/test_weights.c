/* Frozen weights: read by steps in the type that they are stored in, with the bits of the same
 * numbers in float32; not trained, not saved, and counted among the parameters. */
#include "kernels/dispatch.h"
#include "kernels/halves.h"
#include "runtime/model/model.h"
#include "tests/runtime/nets.h"
#include "tests/support/files.h"

SW_TESTS("weights")

enum { VOCABULARY = 72, WIDTH = 40, WIDER = 96, TOKENS = 300, STEPS = 3 };

typedef struct {
    sw_model *base, *own; /* frozen weights; what is trained */
    sw_param table, up, bias, down, a, b;
    sw_optimizer *opt;
} tuned;

static void end_tuned(void *ends)
{
    tuned *t = ends;
    sw_model_destroy(t->base);
    sw_model_destroy(t->own);
}

/* Numbers that bf16 has, as float32 or as they are stored. */
static void fill(sw_param param, sw_dtype dtype, uint64_t seed)
{
    static float wide[VOCABULARY * WIDER];
    static uint16_t half[VOCABULARY * WIDER];
    const size_t n = (size_t)swi_elements(&swi_entry_of(param)->shape);
    sw_dice dice = {seed};
    for (size_t i = 0; i < n; i++) {
        half[i] = sw_bf16_round(((float)sw_dice_below(&dice, 2001) - 1000.0f) / 4000.0f);
        wide[i] = sw_bf16_widen(half[i]);
    }
    OK(sw_param_write(param, dtype == SW_BF16 ? (void *)half : wide,
                      n * sw_dtype_bytes(dtype)));
}

static tuned *tuned_new(tuned *t, sw_exec *exec, sw_dtype dtype)
{
    *t = (tuned){.opt = NULL};
    OK(sw_model_create(&t->base, "base"));
    OK(sw_model_create(&t->own, "own"));
    sw_after(end_tuned, t);
    t->table = sw_weights_new(t->base, "table", dtype, SW_SHAPE(VOCABULARY, WIDTH));
    t->up = sw_weights_new(t->base, "up", dtype, SW_SHAPE(WIDER, WIDTH));
    t->bias = sw_weights_new(t->base, "bias", SW_F32, SW_SHAPE(WIDER));
    t->down = sw_weights_new(t->base, "down", dtype, SW_SHAPE(WIDTH, WIDER));
    t->a = sw_param_new(t->own, "a", SW_F32, SW_SHAPE(4, WIDTH), "normal:0.1");
    t->b = sw_param_new(t->own, "b", SW_F32, SW_SHAPE(WIDER, 4), "normal:0.1");
    OK(sw_optimizer_create(&t->opt, t->own, &SW_OPTS(sw_optimizer_opts, .kind = "adamw")));
    OK(sw_model_ready(t->base, exec, 1));
    OK(sw_model_ready(t->own, exec, 1));
    fill(t->table, dtype, 1);
    fill(t->up, dtype, 2);
    fill(t->bias, SW_F32, 3);
    fill(t->down, dtype, 4);
    return t;
}

static void step(sw_ctx *c, void *user)
{
    tuned *t = user;
    const sw_value table = sw_use(c, t->table), none = {0, 0};
    const sw_value x = sw_embedding_op(c, sw_input(c, 0), table);
    sw_value h = sw_linear_op(c, x, sw_use(c, t->up), sw_use(c, t->bias));
    const sw_value low = sw_linear_op(c, x, sw_use(c, t->a), none);
    h = sw_tanh(c, sw_add(c, h, sw_linear_op(c, low, sw_use(c, t->b), none)));
    h = sw_linear_op(c, h, sw_use(c, t->down), none);
    const sw_value loss = sw_linear_ce(c, h, table, none, sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_output(c, "h", h);
    if (sw_ctx_mode(c) == SW_EVAL)
        return;
    sw_backward(c, loss, &t->opt, 1);
    sw_update(c, t->opt);
}

static sw_run_args args_of(tuned *t, sw_array in[2], sw_model *models[2], int64_t tokens)
{
    static int32_t ids[2][TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        ids[0][i] = i * 7 % VOCABULARY;
        ids[1][i] = i * 11 % VOCABULARY;
    }
    for (int i = 0; i < 2; i++)
        in[i] = (sw_array){SW_I32, SW_SHAPE(tokens), ids[i]};
    models[0] = t->base;
    models[1] = t->own;
    return SW_OPTS(sw_run_args, .fn = step, .user = t, .models = models, .n_models = 2,
                   .inputs = in, .n_inputs = 2, .mode = SW_TRAIN);
}

/* Steps of both, in two execs; all that is seen of a run has one value in both. */
static void same_runs(const sw_exec_opts *opts, int64_t tokens)
{
    static tuned t[2];
    static float h[TOKENS * WIDTH];
    double loss[STEPS] = {0};
    sw_plan_info plan[2];
    for (int half = 0; half < 2; half++) {
        sw_exec *exec = net_exec(opts);
        sw_array in[2], y;
        sw_model *models[2];
        tuned_new(&t[half], exec, half ? SW_BF16 : SW_F32);
        sw_run_args args = args_of(&t[half], in, models, tokens);
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
            SW_CHECK(now == loss[i], "step %d, %s: the loss is %.9g, of bf16 %.9g", i,
                     opts != NULL && opts->isa != NULL ? opts->isa : "best", loss[i], now);
        }
        OK(sw_output_get(exec, "h", &y));
        const size_t bytes = (size_t)(tokens * WIDTH) * sizeof *h;
        if (half == 0)
            memcpy(h, y.data, bytes);
        CU_ASSERT_EQUAL(memcmp(h, y.data, bytes), 0);
    }
    CU_ASSERT(net_same(t[0].own, t[1].own));
    CU_ASSERT_EQUAL(plan[0].arena_bytes, plan[1].arena_bytes);
    const size_t numbers = VOCABULARY * WIDTH + 2 * WIDTH * WIDER;
    CU_ASSERT_EQUAL(plan[0].model_bytes, plan[1].model_bytes + 2 * numbers);
}

SW_TEST("weights in bf16 have the bits and the arena of the same numbers in float32")
{
    static const char *const isa[] = {"base", "avx2", NULL};
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads < 3; threads++)
            for (int k = 0; k < 3; k++)
                if (i != 1 || sw_cpu_isa() >= SW_ISA_AVX2)
                    same_runs(&SW_OPTS(sw_exec_opts, .isa = isa[i], .threads = threads),
                              (int64_t[]){1, 37, TOKENS}[k]);
}
