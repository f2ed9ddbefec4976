/* Evolution strategies by ask and tell: a small net steers a cart to the middle of a rail. Its
 * fitness comes from a simulation, which has no gradient; 64 carts run side by side, each
 * steered by a net of its own, all of them rows of one batch. */
#include <stdio.h>
#include <stepwell.h>

enum { DIRECTIONS = 32, CARTS = 2 * DIRECTIONS, TIME = 60, GENERATIONS = 60 };
static sw_linear l1, l2;

static void policy(sw_ctx *c, void *user)
{
    (void)user;
    const sw_value x = sw_tanh(c, sw_apply_linear(c, l1, sw_input(c, 0)));
    sw_output(c, "force", sw_tanh(c, sw_apply_linear(c, l2, x)));
}

/* Position and speed of a cart a step later; what the step costs. */
static float drive(float *cart, float force)
{
    cart[1] += 0.1f * (3 * force - 0.2f * cart[1]);
    cart[0] += 0.1f * cart[1];
    return cart[0] * cart[0] + 0.1f * cart[1] * cart[1];
}

/* Run n carts, with the noise of `es` or without; cost: of each. */
static sw_status simulate(sw_exec *exec, sw_run_args *args, int n, float *cost)
{
    float carts[CARTS][2];
    sw_array state = {SW_F32, SW_SHAPE(n, 2), carts}, force;
    for (int i = 0; i < n; i++) {
        carts[i][0] = i % 2 != 0 ? 1.0f : -1.0f;
        carts[i][1] = cost[i] = 0;
    }
    args->inputs = &state;
    args->n_inputs = 1;
    for (int t = 0; t < TIME; t++) {
        sw_status status = sw_run(exec, args);
        if (status == SW_OK)
            status = sw_output_get(exec, "force", &force);
        if (status != SW_OK)
            return status;
        for (int i = 0; i < n; i++)
            cost[i] += drive(carts[i], ((const float *)force.data)[i]);
    }
    return SW_OK;
}

int main(void)
{
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.05f);
    const sw_es_opts how =
        SW_OPTS(sw_es_opts, .sigma = 0.1f, .directions = DIRECTIONS, .seed = 1);
    const sw_exec_opts two = SW_OPTS(sw_exec_opts, .threads = 2);
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_optimizer *opt = NULL;
    sw_es *es = NULL;
    float cost[CARTS], first = 0, last = 0;
    int bad = sw_exec_create(&exec, &two) || sw_model_create(&model, "policy");
    l1 = sw_linear_new(model, "l1", 2, 8);
    l2 = sw_linear_new(model, "l2", 8, 1);
    bad = bad || sw_optimizer_create(&opt, model, &adam) || sw_es_create(&es, opt, &how) ||
          sw_model_ready(model, exec, 1);
    sw_run_args plain =
        SW_OPTS(sw_run_args, .fn = policy, .models = &model, .n_models = 1, .mode = SW_EVAL);
    sw_run_args noisy = plain;
    noisy.es = es; /* the switch */
    bad = bad || simulate(exec, &plain, 2, cost);
    first = cost[0] + cost[1];
    for (int g = 0; g < GENERATIONS && !bad; g++) {
        bad = simulate(exec, &noisy, CARTS, cost) || sw_es_tell_slice(es, 0, cost, CARTS) ||
              sw_es_step(es, exec, NULL);
    }
    bad = bad || simulate(exec, &plain, 2, cost);
    last = cost[0] + cost[1];
    if (bad)
        fprintf(stderr, "%s\n", sw_last_error());
    else
        printf("cost %.1f, after %d generations %.1f\n", (double)first, GENERATIONS,
               (double)last);
    sw_es_destroy(es);
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return bad || !(last < 0.3f * first);
}
