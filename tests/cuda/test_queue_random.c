/* Random networks on a card that puts everything off: whether a step is replayed, launched op
 * by op or immediate, late or in step, its bits are the same; and refused memory is an answer.
 */
#include "runtime/model/model.h"
#include "tests/cuda/fake_card.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/random_net.h"
#include "tests/support/heap_sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("queue, random networks")

#define RUNS 6

/* ---- what a life leaves, as one number --------------------------------------------------- */

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ p[i]) * 0x100000001b3ull;
}

static void mix_models(uint64_t *hash, const random_life *life)
{
    for (int i = 0; i < life->net->n_models; i++) {
        const sw_model *model = life->models[i];
        void *bytes = malloc(model->bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        if (seed_well(swi_model_read(model, bytes, 0, model->bytes), "a model"))
            mix(hash, bytes, model->bytes);
        free(bytes);
    }
}

/* Of the run `ago` runs ago; outputs of the last one alone. */
static void mix_run(uint64_t *hash, sw_exec *exec, const random_life *life, int ago)
{
    for (int i = 0; i < life->net->n_ops; i++) {
        const random_op *op = &life->net->op[i];
        char name[8];
        double x = 0.0;
        sw_array out = {0};
        snprintf(name, sizeof name, "v%d", i);
        if (op->kind == RANDOM_METRIC &&
            seed_well(sw_metric_past(exec, ago, name, &x), "a metric"))
            mix(hash, &x, sizeof x);
        if (op->kind == RANDOM_OUTPUT && ago == 0 &&
            seed_well(sw_output_get(exec, name, &out), "an output")) {
            const sw_type type = {out.dtype, SW_PLAIN, out.shape};
            mix(hash, out.data, sw_type_bytes(&type));
        }
    }
}

/* ---- ways to run ------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    sw_exec_opts opts;
    bool immediate;
    bool late; /* metrics are read one run late */
} way;
static const way ways[] = {
    {"replayed", {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5}, false, true},
    {"replayed in step",
     {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5},
     false,
     false},
    {"op by op",
     {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5, .no_graphs = 1},
     false,
     true},
    {"in sync",
     {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5, .sync_ops = 1},
     false,
     false},
    {"immediate", {.size = sizeof(sw_exec_opts), .device = "cuda", .seed = 5}, true, false},
};
#define WAYS (sizeof ways / sizeof *ways)

static bool live(sw_exec *exec, random_life *life, const way *w, uint64_t *hash)
{
    for (uint64_t k = 0; k < RUNS; k++) {
        sw_run_args args = random_life_args(life, k);
        sw_run_info info = SW_OPTS(sw_run_info);
        args.immediate = w->immediate;
        if (!seed_well(sw_run(exec, &args), w->name))
            return false;
        if (w->late && k > 0)
            mix_run(hash, exec, life, 1);
        if (w->late && k + 1 < RUNS)
            continue;
        if (!seed_well(sw_last_run(exec, &info), "last run"))
            return false;
        mix_run(hash, exec, life, 0);
    }
    mix_models(hash, life);
    return true;
}

static bool live_this_way(const way *w, uint64_t *hash)
{
    random_life life;
    sw_exec *exec = NULL;
    *hash = 0xcbf29ce484222325ull;
    const bool well = seed_well(sw_exec_create(&exec, &w->opts), "exec") &&
                      seed_well(random_life_begin(&life, &seed_net, false, false), "declare") &&
                      live(exec, &life, w, hash);
    sw_exec_destroy(exec);
    random_life_end(&life);
    return well;
}

static void all_ways(void)
{
    uint64_t late = 0, in_step = 0, other = 0;
    if (!live_this_way(&ways[0], &late) || !live_this_way(&ways[1], &in_step))
        return;
    for (size_t i = 2; i < WAYS; i++) {
        const uint64_t wanted = ways[i].late ? late : in_step;
        seed_check(!live_this_way(&ways[i], &other) || other == wanted, ways[i].name,
                   "other bits than replayed");
    }
}

SW_TEST("every way to run a network gives the same bits")
{
    sw_fake_card_new(NULL, 1);
    seed_each(8, 1000, all_ways);
    CU_ASSERT(sw_fake_card_counts().graph_launches > 3);
}

/* ---- refused memory ---------------------------------------------------------------------- */

typedef struct {
    net *net;
    batch batch;
} small;

static sw_status some_steps(sw_exec *exec, const small *s)
{
    const sw_run_args args = net_args(s->net, &s->batch);
    double loss;
    sw_array logits;
    for (int i = 0; i < 3; i++)
        SW_TRY(sw_run(exec, &args));
    SW_TRY(sw_metric_past(exec, 1, "loss", &loss));
    return sw_output_get(exec, "logits", &logits);
}

/* With a model of its own, everything given back. */
static sw_status session(void *arg)
{
    const small *s = arg;
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .device = "cuda", .seed = 5);
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    sw_exec *exec = NULL;
    sw_model *model = NULL;
    sw_status status = sw_model_create(&model, "net");
    if (status == SW_OK) {
        s->net->model = model;
        s->net->f1 = sw_linear_new(model, "f1", NET_PIXELS, 24);
        s->net->f2 = sw_linear_new(model, "f2", 24, NET_CLASSES);
        s->net->factor = sw_knob_new(model, "factor", 1.0f);
        status = sw_optimizer_create(&s->net->opt, model, &adam);
    }
    if (status == SW_OK)
        status = sw_exec_create(&exec, &opts);
    if (status == SW_OK)
        status = some_steps(exec, s);
    sw_exec_destroy(exec);
    sw_model_destroy(model);
    s->net->model = NULL;
    return status;
}

SW_TEST("every allocation that is refused is an answer")
{
    sw_fake_card_new(NULL, 1);
    small s = {net_new(false, NULL), net_batch(false, 0, 8)};
    sw_model_destroy(s.net->model); /* each session has its own */
    s.net->model = NULL;
    /* One refusal is none: where the library of products lacks memory, own kernels take over.
     */
    for (int from = 0; from < 2; from++) {
        sw_sites sites = {.kind = SW_FAULT_MEMORY,
                          .mode = from == 0 ? SW_FAULT_OFF : SW_FAULT_FROM};
        while (sw_sites_next(&sites))
            (void)SW_AT_SITE(&sites, session(&s));
        CU_ASSERT(sites.k > 100 && sites.failed + 3 >= sites.k);
    }
}
