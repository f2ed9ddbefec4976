/* Random nets under random noise: each evaluation is the net with parameters of its own, a
 * generation has the same bits however it is cut and run, and what is not a number stays where
 * it is. */
#include "runtime/population/es/es_internal.h"
#include "tests/population/es_nets.h"
#include "tests/population/es_random_net.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const noises[] = {
    "low-rank",  "iid",          "permuted",      "permuted-in", "permuted-out",
    "sign-flip", "sign-flip-in", "sign-flip-out", "sparse",      "dropout"};
static const char *const distributions[] = {"normal", "rademacher", "bits"};
enum { NOISES = sizeof noises / sizeof *noises };

static sw_es_opts random_opts(uint64_t seed)
{
    sw_dice d = {seed ^ 0x5eed};
    const bool snes = sw_dice_below(&d, 8) == 0;
    const char *noise = snes ? "iid" : noises[sw_dice_below(&d, NOISES)];
    const bool parts = strncmp(noise, "permuted", 8) == 0 || strcmp(noise, "sparse") == 0;
    static const float shares[] = {0.0f, 0.3f, 0.6f, 1.0f};
    sw_es_opts o = SW_OPTS(sw_es_opts, .strategy = snes ? "snes" : NULL, .noise = noise,
                           .distribution = distributions[sw_dice_below(&d, 3)], .seed = seed);
    o.rank = strcmp(noise, "low-rank") == 0 ? (int)sw_dice_below(&d, 4) : 0;
    o.in_share = parts ? shares[sw_dice_below(&d, 4)] : 0.0f;
    o.out_share = parts ? shares[sw_dice_below(&d, 4)] : 0.0f;
    o.sigma = 0.05f + 0.05f * (float)sw_dice_below(&d, 4);
    o.directions = 1 + (uint32_t)sw_dice_below(&d, 6);
    o.repeats = (uint32_t)sw_dice_below(&d, 5);
    o.no_antithetic = sw_dice_below(&d, 3) == 0;
    o.slice = (uint32_t)sw_dice_below(&d, o.directions + 1);
    return o;
}

static const char *text_of(const sw_es_opts *o)
{
    static char text[200];
    snprintf(text, sizeof text,
             "%s, %s, rank %d, shares %g %g, %u directions, %u repeats%s, slice %u", o->noise,
             o->distribution, o->rank, (double)o->in_share, (double)o->out_share, o->directions,
             o->repeats, o->no_antithetic ? " (one sign)" : "", o->slice);
    return text;
}

static sw_exec *exec_of(int threads)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .checks = 1));
}

/* Ready, and with sigmas of its own for each element where there are any. */
static rn_net *ready_net(uint64_t seed, const sw_es_opts *o, sw_exec *exec)
{
    rn_net *t = rn_new(seed, o);
    sw_dice d = {seed};
    OK(sw_model_ready(t->models[0], exec, seed));
    OK(sw_model_ready(t->models[1], exec, seed + 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(t->es);
    if (t->es->sigmas == NULL)
        return t;
    for (uint32_t e = 1; e < t->es->n_sigmas; e++) {
        const swi_entry *entry = &t->models[0]->entries[t->es->sigmas[e]];
        for (size_t i = 0; t->es->sigmas[e] != 0 && i < entry->bytes / 4; i++)
            ((float *)(void *)(t->models[0]->base + entry->offset))[i] =
                0.5f + (float)sw_dice_below(&d, 1000) / 1000.0f;
    }
    return t;
}

static float fitness_of(const sw_es *es, const sw_es_evaluation *of)
{
    return es->fitness[(size_t)of->repeat * es->mode.directions + of->direction];
}

/* ---- each evaluation --------------------------------------------------------------------- */

enum { OBSERVERS = SW_WITNESS_ACCESS | SW_WITNESS_EXTENT | SW_WITNESS_DEATH };

/* Each evaluation of a slice beside the net with parameters of its own; both may be no number.
 */
static void compare(rn_net *t, rn_net *alone, sw_exec *exec, int64_t each, uint32_t slice,
                    const char *what)
{
    rn_batch b = rn_batch_new(t, (int64_t)sw_es_rows(t->es) * each, NULL);
    const sw_run_args args = rn_args(t, &b, SW_EVAL);
    OK(sw_es_evaluate(t->es, exec, &args, slice, "loss"));
    for (size_t e = 0; e < sw_es_rows(t->es); e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        double loss = 0.0;
        OK(sw_es_ask(t->es, slice, e, &of));
        if (!of.counts)
            continue;
        for (int m = 0; m < 2; m++)
            OK(sw_model_copy(alone->models[m], t->models[m]));
        es_perturb_by_hand(t->es, alone->models[0], of.direction, of.sign);
        const rn_batch part = rn_batch_rows(&b, (int64_t)e * each, each);
        const sw_run_args one = rn_args(alone, &part, SW_EVAL);
        OK(sw_run(exec, &one));
        OK(sw_metric_get(exec, "loss", &loss));
        const double got = (double)fitness_of(t->es, &of);
        SW_CHECK(isnan(got) == isnan(loss) &&
                     (isnan(loss) || fabs(got - loss) <= 2e-4 * (1.0 + fabs(loss))),
                 "net %llu (%s), %s: evaluation %zu of slice %u is %g, not %g",
                 (unsigned long long)t->seed, t->layers, what, e, slice, got, loss);
    }
    rn_batch_free(&b);
}

static uint64_t last_net(uint64_t quick)
{
    return sw_tests_full() ? 20 * quick : quick;
}

static void evaluations_are_nets(void)
{
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 1; seed <= last_net(60); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec), *alone = ready_net(seed, &o, exec);
        const uint32_t slice = (uint32_t)(seed % sw_es_slices(t->es));
        OK(sw_es_generation_set(t->es, seed % 5));
        compare(t, alone, exec, 1 + (int64_t)(seed % 3), slice, text_of(&o));
        rn_end(t);
        rn_end(alone);
    }
}

static void witnesses_agree(void)
{
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 200; seed < 200 + last_net(15); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec);
        rn_batch b = rn_batch_new(t, (int64_t)sw_es_rows(t->es) * 2, NULL);
        sw_run_args args = rn_args(t, &b, SW_EVAL);
        sw_witness_info seen = SW_OPTS(sw_witness_info);
        args.es = t->es;
        OK(sw_witness(exec, &args, OBSERVERS, &seen));
        SW_CHECK(seen.agreed == OBSERVERS, "net %llu (%s), %s: %s", (unsigned long long)seed,
                 t->layers, text_of(&o), seen.first_fault);
        rn_batch_free(&b);
        rn_end(t);
    }
}

/* ---- the same bits ----------------------------------------------------------------------- */

enum { MOST = 64, MODEL_BYTES = 1 << 16 };
typedef struct {
    uint32_t slice; /* 0: that of the options */
    int threads;
    bool immediate;
    sw_mode mode;
    bool backwards; /* slices */
} way;

typedef struct {
    float fitness[MOST];
    size_t n;
    char layers[400];
    unsigned char models[2][MODEL_BYTES]; /* after the step */
} outcome;

/* The batch of a slice: rows by (repeat, direction), whichever slice they are in. */
static rn_batch slice_batch(const rn_net *t, uint32_t slice)
{
    uint64_t keys[MOST];
    for (size_t e = 0; e < sw_es_rows(t->es); e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        OK(sw_es_ask(t->es, slice, e, &of));
        keys[e] = (uint64_t)of.repeat * 100 + of.direction;
    }
    return rn_batch_new(t, (int64_t)sw_es_rows(t->es), keys);
}

static void copy_models(unsigned char to[2][MODEL_BYTES], const rn_net *t)
{
    memset(to, 0, 2 * MODEL_BYTES);
    for (int m = 0; m < 2; m++) {
        CU_ASSERT_FATAL(t->models[m]->bytes <= MODEL_BYTES);
        memcpy(to[m], t->models[m]->base, t->models[m]->bytes);
    }
}

static void evaluate_all(rn_net *t, sw_exec *exec, const way *w)
{
    for (uint32_t i = 0; i < sw_es_slices(t->es); i++) {
        const uint32_t slice = w->backwards ? sw_es_slices(t->es) - 1 - i : i;
        rn_batch b = slice_batch(t, slice);
        sw_run_args args = rn_args(t, &b, w->mode);
        args.immediate = w->immediate;
        OK(sw_es_evaluate(t->es, exec, &args, slice, "loss"));
        rn_batch_free(&b);
    }
}

/* A generation and the step after it. False: batch norm in training, or group norm, whose sums
 * of images in blocks have another order, in a slice. */
static bool generation(outcome *to, uint64_t seed, const way *w)
{
    static unsigned char before[2][MODEL_BYTES];
    sw_es_opts o = random_opts(seed);
    sw_exec *exec = NULL;
    const sw_exec_opts with = SW_OPTS(sw_exec_opts, .threads = w->threads, .checks = 1);
    o.slice = w->slice != 0 && w->slice <= o.directions ? w->slice : o.slice;
    OK(sw_exec_create(&exec, &with));
    rn_net *t = ready_net(seed, &o, exec);
    const bool recut = t->es->mode.slice != t->es->mode.directions;
    const bool runs = (!t->normed || w->mode == SW_EVAL) && (!t->grouped || !recut);
    if (runs) {
        copy_models(before, t);
        evaluate_all(t, exec, w);
        copy_models(to->models, t);
        SW_CHECK(memcmp(before, to->models, sizeof before) == 0,
                 "net %llu (%s): an evaluation changed a model", (unsigned long long)seed,
                 t->layers);
        memcpy(to->layers, t->layers, sizeof to->layers);
        to->n = swi_es_evaluations(t->es);
        memcpy(to->fitness, t->es->fitness, to->n * sizeof *to->fitness);
        /* Of vectors alone dropout has no noise. */
        if (sw_es_step(t->es, exec, NULL) != SW_OK)
            SW_CHECK(strcmp(o.noise, "dropout") == 0 &&
                         strstr(sw_last_error(), "no parameter") != NULL,
                     "net %llu (%s): %s", (unsigned long long)seed, t->layers, sw_last_error());
        copy_models(to->models, t);
        SW_CHECK(memcmp(before[1], to->models[1], MODEL_BYTES) == 0,
                 "net %llu: the second model changed", (unsigned long long)seed);
    }
    rn_end(t);
    sw_exec_destroy(exec);
    return runs;
}

static void ways_change_no_bit(void)
{
    static const way ways[] = {{0, 2, false, SW_EVAL, true},
                               {1, 1, false, SW_TRAIN, false},
                               {2, 2, true, SW_EVAL, false},
                               {3, 3, false, SW_EVAL, true}};
    static outcome first, other;
    for (uint64_t seed = 100; seed < 100 + last_net(14); seed++) {
        const sw_es_opts o = random_opts(seed);
        (void)generation(&first, seed, &(way){o.directions, 1, false, SW_EVAL, false});
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            if (!generation(&other, seed, &ways[i]))
                continue;
            SW_CHECK(memcmp(first.fitness, other.fitness, first.n * sizeof *first.fitness) == 0,
                     "net %llu (%s), %s: way %zu has other fitness", (unsigned long long)seed,
                     other.layers, text_of(&o), i);
            SW_CHECK(memcmp(first.models[0], other.models[0], MODEL_BYTES) == 0,
                     "net %llu, %s: way %zu steps otherwise", (unsigned long long)seed,
                     text_of(&o), i);
        }
    }
}

/* ---- what is not a number ---------------------------------------------------------------- */

/* Every other number of some rows of input 0. */
static void spoil(const rn_batch *b, int64_t from, int64_t n, uint32_t bits)
{
    int64_t row = 1;
    for (int i = 1; i < b->in[0].shape.rank; i++)
        row *= b->in[0].shape.dim[i];
    uint32_t *data = (uint32_t *)(uintptr_t)b->in[0].data;
    for (int64_t k = from * row; k < (from + n) * row; k += 2)
        data[k] = bits;
}

static void reach(rn_net *t, sw_exec *exec, uint64_t seed, const char *what)
{
    static const uint32_t bad[] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu};
    const size_t evaluations = sw_es_rows(t->es), victim = seed % evaluations;
    const int64_t each = 1 + (int64_t)(seed % 2);
    rn_batch b = rn_batch_new(t, (int64_t)evaluations * each, NULL);
    const sw_run_args args = rn_args(t, &b, SW_EVAL);
    float clean[MOST];
    OK(sw_es_evaluate(t->es, exec, &args, 0, "loss"));
    memcpy(clean, t->es->fitness, swi_es_evaluations(t->es) * sizeof *clean);
    spoil(&b, (int64_t)victim * each, each, bad[seed % 4]);
    OK(sw_es_evaluate(t->es, exec, &args, 0, "loss"));
    for (size_t e = 0; e < evaluations; e++) {
        sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
        OK(sw_es_ask(t->es, 0, e, &of));
        const float is = fitness_of(t->es, &of);
        const float was = clean[(size_t)of.repeat * t->es->mode.directions + of.direction];
        if (of.counts && e != victim)
            SW_CHECK(memcmp(&is, &was, sizeof is) == 0,
                     "net %llu (%s), %s: evaluation %zu reaches %zu", (unsigned long long)seed,
                     t->layers, what, victim, e);
    }
    rn_batch_free(&b);
}

static void spoilt_inputs_stay_in_their_evaluation(void)
{
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 300; seed < 300 + last_net(20); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec);
        if (!t->words)
            reach(t, exec, seed, text_of(&o));
        rn_end(t);
    }
}

/* A parameter that is no number makes those evaluations none that it makes none alone. */
static void spoilt_parameters_do_what_they_do(void)
{
    const float nan_number = NAN;
    sw_exec *exec = exec_of(2);
    for (uint64_t seed = 400; seed < 400 + last_net(20); seed++) {
        const sw_es_opts o = random_opts(seed);
        rn_net *t = ready_net(seed, &o, exec), *alone = ready_net(seed, &o, exec);
        const sw_param p = t->params[seed % (uint64_t)t->n_params];
        const swi_entry *entry = &p.model->entries[p.index];
        memcpy(p.model->base + entry->offset + seed % (entry->bytes / 4) * 4, &nan_number, 4);
        compare(t, alone, exec, 2, 0, text_of(&o));
        rn_end(t);
        rn_end(alone);
    }
}

static const sw_test tests[] = {
    {"each evaluation is the net with parameters of its own", evaluations_are_nets},
    {"witnesses agree with the plans of random nets", witnesses_agree},
    {"slices, threads, modes and order change no bit", ways_change_no_bit},
    {"inputs that are no numbers stay in their evaluation",
     spoilt_inputs_stay_in_their_evaluation},
    {"parameters that are no numbers do what they do alone", spoilt_parameters_do_what_they_do},
};
SW_SUITE("es random", tests)
