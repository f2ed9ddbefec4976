/* The bytes that a kernel touches do not depend on the numbers: the witnesses agree whatever a
 * mask chooses and whichever labels count. */
#include "runtime/exec/exec.h"
#include "tests/support/made.h"

SW_TESTS("any numbers")

enum { ROWS = 20, WIDTH = 6 };

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_param a, b, one;
    sw_optimizer *optimizer;
} chooser;

/* Masks that lie as the numbers do, and that broadcast; a loss with a label that is ignored. */
static void step(sw_ctx *ctx, void *user)
{
    const chooser *c = user;
    const sw_value mask = sw_input(ctx, 0), rows = sw_input(ctx, 1), labels = sw_input(ctx, 2);
    const sw_value a = sw_tanh(ctx, sw_use(ctx, c->a)), b = sw_exp(ctx, sw_use(ctx, c->b));
    const sw_value one = sw_tanh(ctx, sw_use(ctx, c->one));
    sw_value x = sw_add(ctx, sw_where(ctx, mask, a, b), sw_where(ctx, rows, b, a));
    x = sw_add(ctx, x, sw_where(ctx, rows, one, sw_where(ctx, mask, a, one)));
    const sw_value of_labels = sw_softmax_ce_with(ctx, x, labels, 0.1f, 1);
    const sw_value loss =
        sw_add(ctx, sw_scale_by(ctx, of_labels, 0.5f), sw_mean(ctx, sw_mul(ctx, x, x), 0));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, (sw_optimizer *[]){c->optimizer}, 1);
    sw_update(ctx, c->optimizer);
}

SW_TEST("whatever a mask chooses and whichever labels count")
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    for (size_t k = 0; k < 3 * 4; k++) {
        static chooser c;
        static uint8_t mask[ROWS * WIDTH], labels[ROWS];
        const int of_mask = k & 1, of_labels = k >> 1 & 1;
        c = (chooser){.exec = NULL};
        if (sw_exec_create(&c.exec, &SW_OPTS(sw_exec_opts, .isa = isas[k / 4])) != SW_OK)
            continue; /* a set that the machine has not */
        AFTER(sw_exec_destroy, c.exec);
        memset(mask, of_mask, sizeof mask);
        memset(labels, of_labels, sizeof labels);
        c.model = made_model("chooser");
        c.a = sw_param_new(c.model, "a", SW_F32, SW_SHAPE(ROWS, WIDTH), "normal:1");
        c.b = sw_param_new(c.model, "b", SW_F32, SW_SHAPE(ROWS, WIDTH), "normal:1");
        c.one = sw_param_new(c.model, "one", SW_F32, SW_SHAPE(1, WIDTH), "normal:1");
        CU_ASSERT_EQUAL(sw_optimizer_create(&c.optimizer, c.model, &sgd), SW_OK);
        CU_ASSERT_EQUAL(sw_model_ready(c.model, c.exec, 1), SW_OK);
        const sw_array in[] = {{SW_U8, SW_SHAPE(ROWS, WIDTH), mask},
                               {SW_U8, SW_SHAPE(ROWS, 1), mask},
                               {SW_U8, SW_SHAPE(ROWS), labels}};
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = step, .user = &c, .models = &c.model, .n_models = 1,
                    .inputs = in, .n_inputs = 3);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        const uint32_t which = SW_WITNESS_ALL & ~SW_WITNESS_NEED;
        SW_CHECK(sw_run(c.exec, &args) == SW_OK &&
                     sw_witness(c.exec, &args, which, &seen) == SW_OK,
                 "%s", sw_last_error());
        SW_CHECK(seen.agreed == which && seen.n_faults == 0, "%s, mask %d, labels %d: %s",
                 isas[k / 4], of_mask, of_labels, seen.first_fault);
    }
}
