/* Runs with noise: each evaluation is the net with its own parameters, whatever the noise, the
 * slices and the threads; what they take; what is refused. */
#include "alloc/base/mem.h"
#include "runtime/population/es/es_internal.h"
#include "tests/population/es_nets.h"

SW_TESTS("es")

static sw_es_opts opts_of(const char *noise, uint32_t directions, uint32_t repeats)
{
    const bool low = strcmp(noise, "low-rank") == 0;
    const bool parts = strcmp(noise, "sparse") == 0 || strcmp(noise, "permuted") == 0;
    return SW_OPTS(sw_es_opts, .noise = noise, .rank = low ? 2 : 0,
                   .in_share = parts ? 0.6f : 0.0f, .out_share = parts ? 0.7f : 0.0f,
                   .sigma = 0.2f, .directions = directions, .repeats = repeats, .seed = 99);
}

static sw_exec *exec_of(int threads, const char *isa, int immediate_seed)
{
    return made_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .isa = isa,
                              .seed = 5 + (uint64_t)immediate_seed, .checks = 1));
}

/* The largest difference of one evaluation's loss from that of a net of its own. */
static double worst_of(es_net *t, es_net *alone, sw_exec *exec, int64_t each)
{
    es_batch b = es_batch_new(t->kind, (int64_t)sw_es_rows(t->es) * each, 3);
    double worst = 0.0;
    OK(sw_es_evaluate(t->es, exec, &ES_ARGS(t, &b, SW_EVAL), 0, "loss"));
    for (size_t e = 0; e < sw_es_rows(t->es); e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        double loss;
        OK(sw_es_ask(t->es, 0, e, &of));
        es_member_by_hand(t, alone, of.direction, of.sign);
        const es_batch part = es_batch_rows(&b, (int64_t)e * each, each);
        OK(sw_run(exec, &ES_ARGS(alone, &part, SW_EVAL)));
        OK(sw_metric_get(exec, "loss", &loss));
        const double got =
            (double)t->es->fitness[of.repeat * t->es->mode.directions + of.direction];
        worst = fmax(worst, fabs(got - loss) / (1.0 + fabs(loss)));
    }
    return worst;
}

/* A net that has the same layout and updates nothing. */
static es_net *bare_net(es_net_kind kind, const sw_es_opts *o, sw_exec *exec)
{
    es_net *t = es_net_new(kind, o, NULL);
    OK(sw_model_ready(t->model, exec, 1));
    return t;
}

SW_TEST("each evaluation is the net with parameters of its own")
{
    sw_exec *exec = exec_of(2, NULL, 0);
    for (int kind = 0; kind < ES_NETS; kind++)
        for (int n = 0; n < ES_NOISES; n++) {
            const sw_es_opts o = opts_of(es_noises[n], 5, 3);
            es_net *t = bare_net((es_net_kind)kind, &o, exec);
            es_net *alone = bare_net((es_net_kind)kind, &o, exec);
            OK(sw_model_ready(t->model, exec, 7));
            const double worst = worst_of(t, alone, exec, 1 + kind % 2);
            SW_CHECK(worst < 2e-5, "%s, %s: %g", es_net_names[kind], es_noises[n], worst);
        }
}

/* All fitness of a generation, cut into slices, with these threads. */
static void generation(float *out, const char *noise, uint32_t slice, int threads,
                       bool immediate)
{
    sw_exec *exec = exec_of(threads, NULL, 0);
    sw_es_opts o = opts_of(noise, 7, 2);
    o.slice = slice;
    es_net *t = bare_net(ES_CONV, &o, exec);
    es_batch all = es_batch_new(ES_CONV, 14, 3);
    OK(sw_es_generation_set(t->es, 3));
    for (uint32_t s = 0; s < sw_es_slices(t->es); s++) {
        es_batch b = es_batch_new(ES_CONV, (int64_t)sw_es_rows(t->es), 4);
        for (size_t e = 0; e < sw_es_rows(t->es); e++) {
            sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
            OK(sw_es_ask(t->es, s, e, &of));
            for (int i = 0; i < 2 && of.counts; i++)
                memcpy((char *)(uintptr_t)b.in[i].data + e * b.row_bytes[i],
                       (const char *)all.in[i].data +
                           (of.repeat * 7 + of.direction) * all.row_bytes[i],
                       all.row_bytes[i]);
        }
        sw_run_args args = ES_ARGS(t, &b, SW_EVAL);
        args.immediate = immediate;
        OK(sw_es_evaluate(t->es, exec, &args, s, "loss"));
    }
    CU_ASSERT_EQUAL(t->es->told, 14);
    memcpy(out, t->es->fitness, 14 * sizeof *out);
}

SW_TEST("slices, threads and immediate mode change no bit")
{
    for (int n = 0; n < ES_NOISES; n++) {
        float whole[14], other[14];
        generation(whole, es_noises[n], 7, 1, false);
        static const struct {
            uint32_t slice;
            int threads;
            bool immediate;
        } ways[] = {{7, 2, false}, {3, 1, false}, {1, 2, false}, {4, 2, true}};
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            generation(other, es_noises[n], ways[w].slice, ways[w].threads, ways[w].immediate);
            SW_CHECK(memcmp(whole, other, sizeof whole) == 0, "%s, slices of %u", es_noises[n],
                     ways[w].slice);
        }
    }
}

SW_TEST("a member is a model")
{
    sw_exec *exec = exec_of(1, NULL, 0);
    for (int n = 0; n < ES_NOISES; n++) {
        const sw_es_opts o = opts_of(es_noises[n], 5, 3);
        es_net *t = bare_net(ES_CONV, &o, exec);
        es_net *by_hand = bare_net(ES_CONV, &o, exec), *member = bare_net(ES_CONV, &o, exec);
        for (uint32_t d = 0; d < 5; d += 2) {
            es_member_by_hand(t, by_hand, d, d == 2 ? -1.0f : 1.0f);
            OK(sw_es_member(t->es, d, d == 2 ? -1 : 1, member->model));
            SW_CHECK(net_same(by_hand->model, member->model), "%s, direction %u", es_noises[n],
                     d);
        }
        REFUSED(sw_es_member(t->es, 5, 1, member->model), SW_INVALID, "below 5");
        REFUSED(sw_es_member(t->es, 0, 0, member->model), SW_INVALID, "1 or -1");
        REFUSED(sw_es_member(t->es, 0, 1, t->model), SW_INVALID, "another model");
    }
}

/* ---- learning ---------------------------------------------------------------------------- */

/* The loss of the net's batch after so many generations. */
static double learn(const char *strategy, const char *noise, const sw_optimizer_opts *optimizer,
                    int generations, double *before)
{
    sw_exec *exec = exec_of(2, NULL, 0);
    sw_es_opts o = SW_OPTS(sw_es_opts, .strategy = strategy, .noise = noise, .sigma = 0.05f,
                           .directions = 64, .slice = 32, .seed = 4);
    es_net *t = es_net_new(ES_MLP, &o, optimizer);
    es_batch all = es_batch_new(ES_MLP, 8, 3), b = es_batch_new(ES_MLP, 8 * 64, 3);
    const sw_run_args look = ES_ARGS(t, &all, SW_EVAL), args = ES_ARGS(t, &b, SW_EVAL);
    double loss = 0.0;
    OK(sw_model_ready(t->model, exec, 2));
    for (int e = 0; e < 64; e++) /* each evaluation has the same samples */
        for (int i = 0; i < 2; i++)
            memcpy((char *)(uintptr_t)b.in[i].data + (size_t)e * 8 * b.row_bytes[i],
                   all.in[i].data, 8 * b.row_bytes[i]);
    OK(sw_run(exec, &look));
    OK(sw_metric_get(exec, "loss", before));
    for (int g = 0; g < generations; g++) {
        sw_es_info info = SW_OPTS(sw_es_info);
        for (uint32_t s = 0; s < sw_es_slices(t->es); s++)
            OK(sw_es_evaluate(t->es, exec, &args, s, "loss"));
        OK(sw_es_step(t->es, exec, &info));
        CU_ASSERT_EQUAL(info.generation, (uint64_t)g);
        CU_ASSERT_EQUAL(info.evaluations, 128);
        CU_ASSERT(g > 0 || (info.best < info.mean && info.mean < info.worst));
        CU_ASSERT(g > 0 || info.deviation > 0.0);
    }
    CU_ASSERT_EQUAL(sw_es_generation(t->es), (uint64_t)generations);
    OK(sw_run(exec, &look));
    OK(sw_metric_get(exec, "loss", &loss));
    return loss;
}

SW_TEST("every strategy learns")
{
    static const struct {
        const char *strategy, *noise;
        sw_optimizer_opts optimizer;
    } ways[] = {{"nes", NULL, {.kind = "adam", .lr = 0.02f}},
                {"nes", "iid", {.kind = "sgd", .lr = 0.1f, .momentum = 0.9f}},
                {"nes", "permuted", {.kind = "adam", .lr = 0.02f}},
                {"nes", "sign-flip", {.kind = "adam", .lr = 0.02f}},
                {"nes", "sparse", {.kind = "adam", .lr = 0.02f}},
                {"nes", "dropout", {.kind = "adam", .lr = 0.02f}},
                {"ars", NULL, {.kind = "sgd", .lr = 0.02f}},
                {"eggroll", NULL, {.kind = "adamw", .lr = 0.02f}},
                {"snes", NULL, {.kind = "sgd", .lr = 1.0f}}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        sw_optimizer_opts optimizer = ways[w].optimizer;
        optimizer.size = sizeof optimizer;
        double before;
        const double after = learn(ways[w].strategy, ways[w].noise, &optimizer, 40, &before);
        sw_note("%s, %s: %.3f to %.3f", ways[w].strategy,
                ways[w].noise != NULL ? ways[w].noise : "its own noise", before, after);
        SW_CHECK(after < 0.8 * before, "%s: %g to %g", ways[w].strategy, before, after);
    }
}
