/* A net that acts in an environment: every row of a batch is an episode, and a run of the net
 * is one step of all of them. The noise of an evaluation is the same in all steps of its
 * episodes, since it follows from the generation and the direction. */
#include "tools/es/es.h"
#include <string.h>

#define TEST_EPISODES ((uint64_t)1 << 63) /* their numbers begin there */

void es_episodes_describe(es_run *r)
{
    sw_dataset_info *info = &r->job.train.info;
    *info = SW_OPTS(sw_dataset_info, .n = 1, .n_classes = CART_POLE_ACTIONS, .n_fields = 1,
                    .name = "cart-pole");
    info->field[0] = (sw_array){SW_F32, SW_SHAPE(CART_POLE_SEES), NULL};
    info->field[1] = (sw_array){SW_U8, SW_SCALAR, NULL}; /* a class: what the net gives */
    r->job.test.info = *info;
    r->job.train.n = r->rows;
    r->job.test.n = r->opts.test_episodes;
    r->job.fn = es_policy;
}

void es_policy(sw_ctx *ctx, void *user)
{
    const tool_net *net = user;
    sw_output(ctx, "logits", net->kind->forward(ctx, net, sw_input(ctx, 0)));
}

/* Until the last one is over. */
static sw_status play(es_run *r, job_which which, uint32_t slice, int64_t rows)
{
    sw_run_args args = job_args(&r->job, which, r->inputs, r->generation);
    sw_array logits;
    es_batch_rows(r, rows);
    args.n_inputs = r->n_inputs;
    args.es_slice = slice;
    for (size_t left = 1; left > 0;) {
        cart_pole_see(r->poles, (size_t)rows, (float *)(void *)r->slot);
        SW_TRY(es_run_one(r, which, &args));
        SW_TRY(sw_output_get(r->job.exec, "logits", &logits));
        left = cart_pole_act(r->poles, (size_t)rows, logits.data);
    }
    return SW_OK;
}

sw_status es_episodes_slice(es_run *r, uint32_t slice)
{
    const size_t samples = (size_t)r->opts.samples, n = sw_es_rows(r->job.es);
    for (size_t e = 0; e < n; e++) {
        sw_es_evaluation which = SW_OPTS(sw_es_evaluation);
        SW_TRY(sw_es_ask(r->job.es, slice, e, &which));
        const uint64_t first = es_batch_number(r, &which);
        for (size_t k = 0; k < samples; k++)
            r->poles[e * samples + k] = cart_pole_begin((uint64_t)r->opts.job.seed, first + k);
    }
    SW_TRY(play(r, JOB_TRAIN, slice, r->rows));
    for (size_t e = 0; e < n; e++) {
        double steps = 0.0;
        for (size_t k = 0; k < samples; k++)
            steps += (double)r->poles[e * samples + k].steps;
        r->fitness[e] = (float)(steps / (double)samples);
    }
    return sw_es_tell_slice(r->job.es, slice, r->fitness, n);
}

sw_status es_episodes_test(es_run *r, int64_t first, int64_t n, double *steps)
{
    for (int64_t i = 0; i < n; i++)
        r->poles[i] =
            cart_pole_begin((uint64_t)r->opts.job.seed, TEST_EPISODES + (uint64_t)(first + i));
    SW_TRY(play(r, n == r->job.program[JOB_EVAL].batch ? JOB_EVAL : JOB_EVAL_LAST, 0, n));
    for (int64_t i = 0; i < n; i++)
        *steps += (double)r->poles[i].steps;
    return SW_OK;
}
