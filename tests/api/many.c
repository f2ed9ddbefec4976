/* 200 nets, 2 threads, one budget: every plan is made before anything runs, so a budget that
 * does not do is known then. */
#include "check.h"
#include <pthread.h>
#include <stdio.h>
#include <stepwell.h>
#include <string.h>

#define NETS 200
#define BATCH 16
#define ROUNDS 40

typedef struct {
    sw_model *model;
    sw_linear f1, f2;
    sw_optimizer *opt;
    float x[BATCH][2], y[BATCH][1];
    sw_array in[2];
    double first, last;
} net;

static void net_step(sw_ctx *c, void *u)
{
    net *m = u;
    sw_value h = sw_tanh(c, sw_apply_linear(c, m->f1, sw_input(c, 0)));
    sw_value loss = sw_mse(c, sw_apply_linear(c, m->f2, h), sw_input(c, 1));
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &m->opt, 1);
    sw_update(c, m->opt);
}

static net nets[NETS];
static sw_run_args args[NETS];

typedef struct {
    sw_exec *e;
    int from, to;
    sw_status status;
} job;

static void *work(void *u)
{
    job *j = u;
    for (int r = 0; r < ROUNDS && j->status == SW_OK; r++)
        for (int i = j->from; i < j->to && j->status == SW_OK; i++) {
            j->status = sw_run(j->e, &args[i]);
            if (j->status == SW_OK)
                j->status =
                    sw_metric_get(j->e, "loss", r == 0 ? &nets[i].first : &nets[i].last);
        }
    return NULL;
}

/* Net i and net i + 100 have the same start and the same data. */
static int build(int i)
{
    net *m = &nets[i];
    TRY(sw_model_create(&m->model, "net"));
    m->f1 = sw_linear_new(m->model, "f1", 2, 8);
    m->f2 = sw_linear_new(m->model, "f2", 8, 1);
    TRY(sw_optimizer_create(&m->opt, m->model,
                            &SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.02f)));
    for (int k = 0; k < BATCH; k++) {
        m->x[k][0] = (float)((k * 5 + i % 100) % 16) / 8 - 1;
        m->x[k][1] = (float)(k % 4) / 2 - 0.75f;
        m->y[k][0] = m->x[k][0] * m->x[k][1];
    }
    m->in[0] = (sw_array){SW_F32, SW_SHAPE(BATCH, 2), m->x};
    m->in[1] = (sw_array){SW_F32, SW_SHAPE(BATCH, 1), m->y};
    args[i] = SW_OPTS(sw_run_args, .fn = net_step, .user = m, .models = &m->model,
                      .n_models = 1, .inputs = m->in, .n_inputs = 2, .mode = SW_TRAIN);
    return 0;
}

int main(void)
{
    sw_budget *b;
    job j[2];
    pthread_t t[2];
    TRY(sw_budget_create(&b, (size_t)64 << 20));
    memset(j, 0, sizeof j);
    for (int k = 0; k < 2; k++) {
        j[k] = (job){NULL, 100 * k, 100 * k + 100, SW_OK};
        TRY(sw_exec_create(&j[k].e,
                           &SW_OPTS(sw_exec_opts, .threads = 1, .budget = b, .seed = 1)));
        for (int i = j[k].from; i < j[k].to; i++) {
            sw_plan_info p = SW_OPTS(sw_plan_info);
            if (build(i) != 0)
                return 1;
            TRY(sw_plan(j[k].e, &args[i], &p));
            CHECK(p.arena_bytes > 0 &&
                  p.total_bytes == p.model_bytes + p.arena_bytes + p.data_bytes);
            TRY(sw_model_ready(nets[i].model, j[k].e, (uint64_t)(i % 100)));
        }
    }
    for (int k = 0; k < 2; k++)
        CHECK(pthread_create(&t[k], NULL, work, &j[k]) == 0);
    for (int k = 0; k < 2; k++)
        pthread_join(t[k], NULL);
    CHECK(j[0].status == SW_OK && j[1].status == SW_OK);
    int fell = 0;
    for (int i = 0; i < 100; i++) {
        float v[16], w[16];
        fell += (nets[i].last < nets[i].first) + (nets[i + 100].last < nets[i + 100].first);
        TRY(sw_param_read(nets[i].f1.weight, v, sizeof v));
        TRY(sw_param_read(nets[i + 100].f1.weight, w, sizeof w));
        CHECK(memcmp(v, w, sizeof v) == 0); /* whichever thread trained them */
    }
    printf("%d of %d losses fell\n", fell, NETS);
    CHECK(fell == NETS);
    for (int i = 0; i < NETS; i++)
        sw_model_destroy(nets[i].model);
    sw_exec_destroy(j[0].e);
    sw_exec_destroy(j[1].e);
    sw_budget_destroy(b);
    return 0;
}
