/* Evolution strategies: options, memory of a generation, ask and tell. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "kernels/noise.h"
#include "runtime/base/structs.h"
#include "runtime/model/model.h"
#include "runtime/population/es/es_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int32_t kind, sides;
} noises[] = {
    {"low-rank", SW_NOISE_LOW_RANK, 0},
    {"iid", SW_NOISE_IID, 0},
    {"permuted", SW_NOISE_PERMUTED, SW_NOISE_IN | SW_NOISE_OUT},
    {"permuted-in", SW_NOISE_PERMUTED, SW_NOISE_IN},
    {"permuted-out", SW_NOISE_PERMUTED, SW_NOISE_OUT},
    {"sign-flip", SW_NOISE_SIGN_FLIP, SW_NOISE_IN | SW_NOISE_OUT},
    {"sign-flip-in", SW_NOISE_SIGN_FLIP, SW_NOISE_IN},
    {"sign-flip-out", SW_NOISE_SIGN_FLIP, SW_NOISE_OUT},
    {"sparse", SW_NOISE_SPARSE, 0},
    {"dropout", SW_NOISE_DROPOUT, 0},
};
static const struct {
    const char *name;
    int32_t distribution;
} distributions[] = {
    {"normal", SW_NOISE_NORMAL}, {"rademacher", SW_NOISE_RADEMACHER}, {"bits", SW_NOISE_BITS}};
static const struct {
    const char *name, *noise;
    swi_es_shaping shaping;
} strategies[] = {{"nes", "low-rank", SWI_SHAPE_RANKS},
                  {"ars", "low-rank", SWI_SHAPE_ARS},
                  {"eggroll", "low-rank", SWI_SHAPE_STANDARDISED},
                  {"snes", "iid", SWI_SHAPE_SNES}};
static const struct {
    const char *name;
    swi_es_shaping shaping;
} shapings[] = {{"ranks", SWI_SHAPE_RANKS},
                {"standardised", SWI_SHAPE_STANDARDISED},
                {"raw", SWI_SHAPE_RAW}};

/* The index of a word in a table of entries that begin with their name. */
#define FIND(table, word, what, out)                                                           \
    do {                                                                                       \
        size_t k_ = 0;                                                                         \
        while (k_ < sizeof(table) / sizeof *(table) && strcmp((table)[k_].name, (word)) != 0)  \
            k_++;                                                                              \
        if (k_ == sizeof(table) / sizeof *(table))                                             \
            SW_FAIL(SW_INVALID, "sw_es_create: there is no %s '%s'", what, word);              \
        *(out) = k_;                                                                           \
    } while (0)

static sw_status read_words(sw_es *es, const sw_es_opts *o)
{
    size_t strategy, k;
    FIND(strategies, o->strategy != NULL ? o->strategy : "nes", "strategy", &strategy);
    FIND(noises, o->noise != NULL ? o->noise : strategies[strategy].noise, "noise", &k);
    es->mode.like.kind = noises[k].kind;
    es->mode.like.sides = noises[k].sides;
    FIND(distributions, o->distribution != NULL ? o->distribution : "normal", "distribution",
         &k);
    es->mode.like.distribution = distributions[k].distribution;
    es->shaping = strategies[strategy].shaping;
    if (o->shaping != NULL) {
        if (es->shaping == SWI_SHAPE_ARS || es->shaping == SWI_SHAPE_SNES)
            SW_FAIL(SW_INVALID, "sw_es_create: %s has a shaping of its own",
                    strategies[strategy].name);
        FIND(shapings, o->shaping, "shaping", &k);
        es->shaping = shapings[k].shaping;
    }
    if (es->shaping == SWI_SHAPE_SNES && es->mode.like.kind != SW_NOISE_IID)
        SW_FAIL(SW_INVALID, "sw_es_create: snes must have iid noise (got %s)", o->noise);
    return SW_OK;
}

/* ---- numbers of the options -------------------------------------------------------------- */

static sw_status read_share(float given, const char *what, float *out)
{
    if (!(given >= 0.0f && given <= 1.0f))
        SW_FAIL(SW_INVALID, "sw_es_create: %s must be above 0 to 1 (got %g)", what,
                (double)given);
    *out = given;
    return SW_OK;
}

static sw_status not_negative(float given, const char *what)
{
    if (!(given >= 0.0f) || !isfinite(given))
        SW_FAIL(SW_INVALID, "sw_es_create: %s must be 0 or more and finite (got %g)", what,
                (double)given);
    return SW_OK;
}

static sw_status read_numbers(sw_es *es, const sw_es_opts *o)
{
    const int32_t kind = es->mode.like.kind;
    if (o->rank < 0 || (o->rank != 0 && kind != SW_NOISE_LOW_RANK))
        SW_FAIL(SW_INVALID, "sw_es_create: a rank, at least 1, is of low-rank noise (got %d)",
                o->rank);
    es->mode.like.rank = o->rank != 0 ? o->rank : 1;
    SW_TRY(read_share(o->in_share, "in_share", &es->mode.in_share));
    SW_TRY(read_share(o->out_share, "out_share", &es->mode.out_share));
    if ((o->in_share != 0 || o->out_share != 0) && kind != SW_NOISE_PERMUTED &&
        kind != SW_NOISE_SPARSE)
        SW_FAIL(SW_INVALID,
                "sw_es_create: in_share and out_share are of permuted and sparse noise");
    SW_TRY(not_negative(o->sigma, "sigma"));
    SW_TRY(not_negative(o->l1, "l1"));
    SW_TRY(not_negative(o->l2, "l2"));
    SW_TRY(not_negative(o->sigma_lr, "sigma_lr"));
    if (o->sigma_lr != 0 && es->shaping != SWI_SHAPE_SNES)
        SW_FAIL(SW_INVALID, "sw_es_create: sigma_lr is of the strategy snes");
    es->l1 = o->l1;
    es->l2 = o->l2;
    es->sigma_lr = o->sigma_lr;
    es->maximise = o->maximise != 0;
    es->mode.seed = o->seed;
    es->shape = o->shape;
    es->shape_user = o->shape_user;
    /* How a generation falls into evaluations and slices. */
    if (o->directions < 1 || o->directions > 1u << 31)
        SW_FAIL(SW_INVALID, "sw_es_create: directions must be 1 to %u (got %u)", 1u << 31,
                o->directions);
    es->mode.directions = o->directions;
    es->mode.antithetic = o->no_antithetic == 0;
    es->mode.repeats = o->repeats != 0 ? o->repeats : o->no_antithetic ? 1 : 2;
    es->mode.slice = o->slice != 0 ? o->slice : o->directions;
    if (es->mode.slice > o->directions)
        SW_FAIL(
            SW_INVALID,
            "sw_es_create: slice must be at most the %u directions of a generation (got %u)",
            o->directions, o->slice);
    if ((uint64_t)es->mode.repeats * o->directions > UINT32_MAX)
        SW_FAIL(SW_INVALID,
                "sw_es_create: a generation must have at most %u evaluations (got %u x %u)",
                UINT32_MAX, es->mode.repeats, o->directions);
    es->top = o->top != 0 ? o->top : (o->directions + 1) / 2;
    if (o->top > o->directions)
        SW_FAIL(SW_INVALID, "sw_es_create: top must be at most the %u directions (got %u)",
                o->directions, o->top);
    if (o->top != 0 && es->shaping != SWI_SHAPE_ARS)
        SW_FAIL(SW_INVALID, "sw_es_create: top is of the strategy ars");
    return SW_OK;
}

/* ---- what the model gets ----------------------------------------------------------------- */

/* snes: a sigma of each element, 1 at first. */
static sw_status declare_sigmas(sw_es *es)
{
    sw_model *model = es->mode.model;
    es->n_sigmas = model->n_entries;
    SW_TRY(sw_heap_alloc(&es->sigmas, SW_HEAP_RECORDS, es->n_sigmas * sizeof *es->sigmas));
    es->mode.sigmas = es->sigmas;
    memset(es->sigmas, 0, es->n_sigmas * sizeof *es->sigmas);
    for (uint32_t e = 1; e < es->n_sigmas; e++) {
        const swi_entry *entry = &model->entries[e];
        char name[SWI_MAX_NAME + 17];
        if (entry->role != SWI_ROLE_PARAMETER || entry->optimizer != es->mode.optimizer)
            continue;
        snprintf(name, sizeof name, "%.95s.sigma", entry->name);
        es->sigmas[e] = swi_model_entry(model, name, SWI_ROLE_OPTIMIZER_STATE, SW_F32,
                                        entry->shape, "ones");
        if (es->sigmas[e] == 0)
            return model->declared;
    }
    return SW_OK;
}

static sw_status declare(sw_es *es, const sw_es_opts *o)
{
    sw_model *model = es->mode.model;
    if (model->declared != SW_OK)
        SW_FAIL(model->declared, "%s", model->declared_message);
    if (model->fixed)
        SW_FAIL(SW_INVALID,
                "model %s: an evolution strategy was created after the layout was fixed",
                model->name);
    char name[48];
    snprintf(name, sizeof name, "es.sigma.%u", es->mode.optimizer);
    if (sw_knob_find(model, name).index != SWI_NONE)
        SW_FAIL(SW_INVALID, "model %s: the optimizer has an evolution strategy already",
                model->name);
    es->mode.sigma = swi_model_knob(model, name, o->sigma != 0 ? o->sigma : 0.01f);
    if (es->mode.sigma == SWI_NONE)
        return model->declared;
    return es->shaping == SWI_SHAPE_SNES ? declare_sigmas(es) : SW_OK;
}

static uint64_t next_uid;

sw_status sw_es_create(sw_es **out, sw_optimizer *optimizer, const sw_es_opts *given)
{
    SW_TRY(sw_handle_check(optimizer, SW_HANDLE_OPTIMIZER, "sw_es_create"));
    SW_TRY(swi_given(out != NULL && given != NULL, "out and opts", "sw_es_create"));
    sw_es_opts o;
    sw_es *es;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_es_opts, &o, given, "sw_es_create"));
    SW_TRY(sw_handle_take(&es, SW_HANDLE_ES, sizeof(sw_es)));
    es->mode.uid = __atomic_add_fetch(&next_uid, 1, __ATOMIC_RELAXED);
    es->mode.model = optimizer->model;
    es->mode.optimizer = optimizer->index;
    es->owner = optimizer;
    sw_status status = read_words(es, &o);
    if (status == SW_OK)
        status = read_numbers(es, &o);
    if (status == SW_OK)
        status = declare(es, &o);
    if (status != SW_OK) {
        sw_heap_free(es->sigmas, SW_HEAP_RECORDS, es->n_sigmas * sizeof *es->sigmas);
        sw_handle_give(es, SW_HANDLE_ES, sizeof *es);
        return status;
    }
    *out = es;
    return SW_OK;
}

void sw_es_destroy(sw_es *es)
{
    if (!sw_handle_ends(es, SW_HANDLE_ES, __func__))
        return;
    sw_heap_free(es->fitness, SW_HEAP_RECORDS, es->fitness != NULL ? es->bytes : 0);
    sw_budget_give(es->budget, es->bytes);
    sw_budget_leave(es->budget);
    sw_heap_free(es->sigmas, SW_HEAP_RECORDS, es->n_sigmas * sizeof *es->sigmas);
    sw_handle_give(es, SW_HANDLE_ES, sizeof *es);
}

/* ---- memory of a generation
 * ------------------------------------------------------------------ */

size_t sw_es_bytes(const sw_es *es)
{
    if (sw_handle_look(es, SW_HANDLE_ES, "sw_es_bytes") != SW_OK)
        return 0;
    return 8 * swi_es_evaluations(es) + 4 * (size_t)es->mode.directions;
}

/* Memory of a generation, once; exec NULL: without a budget. */
static sw_status es_reserve(sw_es *es, sw_exec *exec)
{
    if (es->fitness != NULL)
        return SW_OK;
    const size_t bytes = sw_es_bytes(es), n = swi_es_evaluations(es);
    sw_budget *budget = exec != NULL ? exec->target.budget : NULL;
    if (budget != NULL)
        SW_TRY(sw_budget_take(budget, bytes, "evolution strategy"));
    const sw_status status = sw_heap_alloc(&es->fitness, SW_HEAP_RECORDS, bytes);
    if (status != SW_OK) {
        sw_budget_give(budget, bytes);
        return status;
    }
    memset(es->fitness, 0, bytes);
    es->bytes = bytes;
    es->order = (uint32_t *)es->fitness + n;
    es->weights = (float *)es->fitness + 2 * n;
    es->budget = budget;
    sw_budget_share(budget);
    return SW_OK;
}

/* ---- what it is
 * ------------------------------------------------------------------------------ */

sw_knob sw_es_sigma(sw_es *es)
{
    if (sw_handle_look(es, SW_HANDLE_ES, "sw_es_sigma") != SW_OK)
        return (sw_knob){NULL, SWI_NONE};
    return (sw_knob){es->mode.model, es->mode.sigma};
}

uint64_t sw_es_generation(const sw_es *es)
{
    return sw_handle_look(es, SW_HANDLE_ES, "sw_es_generation") == SW_OK ? es->mode.generation
                                                                         : 0;
}

void swi_es_forget(sw_es *es)
{
    es->told = 0;
    es->weighed = false;
    if (es->order != NULL)
        memset(es->order, 0, swi_es_evaluations(es) * sizeof *es->order);
}

sw_status sw_es_generation_set(sw_es *es, uint64_t generation)
{
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_generation_set"));
    if (generation > UINT32_MAX)
        SW_FAIL(SW_INVALID, "sw_es_generation_set: generation must be at most %u (got %llu)",
                UINT32_MAX, (unsigned long long)generation);
    es->mode.generation = generation;
    swi_es_forget(es);
    return SW_OK;
}

uint32_t sw_es_slices(const sw_es *es)
{
    return sw_handle_look(es, SW_HANDLE_ES, "sw_es_slices") == SW_OK
               ? swi_noise_slices(&es->mode)
               : 0;
}

size_t sw_es_rows(const sw_es *es)
{
    return sw_handle_look(es, SW_HANDLE_ES, "sw_es_rows") == SW_OK
               ? (size_t)swi_evaluations(&es->mode)
               : 0;
}

/* ---- ask and tell
 * ---------------------------------------------------------------------------- */

static sw_status check_slice(const sw_es *es, uint32_t slice, const char *call)
{
    if (slice >= swi_noise_slices(&es->mode))
        SW_FAIL(SW_INVALID, "%s: the slice must be below %u (got %u)", call,
                swi_noise_slices(&es->mode), slice);
    return SW_OK;
}

sw_status sw_es_ask(const sw_es *es, uint32_t slice, size_t e, sw_es_evaluation *out)
{
    SW_TRY(sw_handle_look(es, SW_HANDLE_ES, "sw_es_ask"));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_es_evaluation, out, "sw_es_ask"));
    SW_TRY(check_slice(es, slice, "sw_es_ask"));
    if (e >= sw_es_rows(es))
        SW_FAIL(SW_INVALID, "sw_es_ask: the row must be below %zu (got %zu)", sw_es_rows(es),
                e);
    const swi_noise_attrs a = {.repeats = es->mode.repeats,
                               .directions = es->mode.slice,
                               .antithetic = es->mode.antithetic};
    sw_es_evaluation found = SW_OPTS(sw_es_evaluation);
    found.direction = slice * es->mode.slice + (uint32_t)(e % es->mode.slice);
    found.repeat = (uint32_t)(e / es->mode.slice);
    found.sign = sw_noise_sign(&a, (int64_t)e);
    found.counts = found.direction < es->mode.directions;
    swi_struct_write(SWI_STRUCT_sw_es_evaluation, out, &found);
    return SW_OK;
}

static void tell(sw_es *es, uint32_t direction, uint32_t repeat, float fitness)
{
    const size_t i = (size_t)repeat * es->mode.directions + direction;
    if (es->weighed)
        swi_es_forget(es); /* the others were used up */
    es->fitness[i] = fitness;
    es->told += es->order[i] == 0;
    es->order[i] = 1;
}

sw_status sw_es_tell(sw_es *es, uint32_t direction, uint32_t repeat, float fitness)
{
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_tell"));
    if (direction >= es->mode.directions || repeat >= es->mode.repeats)
        SW_FAIL(SW_INVALID,
                "sw_es_tell: direction and repeat must be below %u and %u (got %u and %u)",
                es->mode.directions, es->mode.repeats, direction, repeat);
    SW_TRY(es_reserve(es, NULL));
    tell(es, direction, repeat, fitness);
    return SW_OK;
}

sw_status sw_es_tell_slice(sw_es *es, uint32_t slice, const float *fitness, size_t n)
{
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_tell_slice"));
    SW_TRY(check_slice(es, slice, "sw_es_tell_slice"));
    if (fitness == NULL || n != sw_es_rows(es))
        SW_FAIL(SW_INVALID, "sw_es_tell_slice: there must be %zu numbers (got %zu)",
                sw_es_rows(es), fitness != NULL ? n : 0);
    SW_TRY(es_reserve(es, NULL));
    const uint32_t first = slice * es->mode.slice;
    for (uint32_t r = 0; r < es->mode.repeats; r++)
        for (uint32_t i = 0; i < es->mode.slice && first + i < es->mode.directions; i++)
            tell(es, first + i, r, fitness[(size_t)r * es->mode.slice + i]);
    return SW_OK;
}

sw_status sw_es_evaluate(sw_es *es, sw_exec *exec, const sw_run_args *given, uint32_t slice,
                         const char *fitness)
{
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_evaluate"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_es_evaluate"));
    SW_TRY(check_slice(es, slice, "sw_es_evaluate"));
    SW_TRY(
        swi_given(given != NULL && fitness != NULL, "arguments and fitness", "sw_es_evaluate"));
    sw_run_args args;
    sw_array numbers;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_run_args, &args, given, "sw_es_evaluate"));
    args.es = es;
    args.es_slice = slice;
    SW_TRY(es_reserve(es, exec));
    SW_TRY(sw_run(exec, &args));
    SW_TRY(sw_output_get(exec, fitness, &numbers));
    if (numbers.dtype != SW_F32 || numbers.shape.rank != 1 ||
        numbers.shape.dim[0] != (int64_t)sw_es_rows(es))
        SW_FAIL(SW_INVALID, "sw_es_evaluate: '%s' must be a number of each evaluation",
                fitness);
    return sw_es_tell_slice(es, slice, numbers.data, sw_es_rows(es));
}

/* One member of a generation as a model of its own: theta + s sigma E, by the definition of the
 * noise, in pieces. */

enum { PIECE = 2048 }; /* elements */

typedef struct {
    const swi_noise_mode *mode;
    sw_model *to;
    float sigma, sign;
    sw_noise_spec spec;
} member;

static sw_status perturb_piece(member *m, const swi_entry *entry, const swi_entry *sigmas,
                               const sw_noise_at *at, int64_t first, int64_t n)
{
    float theta[PIECE], of[PIECE], e[PIECE];
    const size_t size = sw_dtype_bytes(SW_F32), bytes = (size_t)n * size;
    SW_TRY(swi_model_read(m->to, theta, entry->offset + (size_t)first * size, bytes));
    if (sigmas != NULL)
        SW_TRY(swi_model_read(m->to, of, sigmas->offset + (size_t)first * size, bytes));
    sw_noise(sw_cpu_isa())->elements(e, first, n, &m->spec, at, m->sigma, theta);
    for (int64_t i = 0; i < n; i++)
        theta[i] += m->sign * m->sigma * (sigmas != NULL ? e[i] * of[i] : e[i]);
    return swi_model_write(m->to, entry->offset + (size_t)first * size, theta, bytes);
}

/* The result of op logit_scale for all logits; `sums` has room for the sums of the rows. */
static float scale_of(const float *logits, int64_t rows, int64_t cols, double *sums)
{
    double sum = 0.0;
    sw_binary(sw_cpu_isa())->row_sums(sums, logits, rows, cols, &sw_par_alone);
    for (int64_t i = 0; i < rows; i++)
        sum += sums[i];
    return (float)(5.0 / (sum / (double)(rows * cols) + 1e-5));
}

static sw_status perturb(member *m, uint32_t e, const sw_noise_at *at)
{
    const swi_entry *entry = &m->to->entries[e];
    const swi_entry *sigmas =
        m->mode->sigmas != NULL ? &m->to->entries[m->mode->sigmas[e]] : NULL;
    const int64_t n = swi_elements(&entry->shape);
    swi_noise_spec_of(&m->spec, m->mode, entry);
    if (m->spec.kind == SW_NOISE_BITS_OF_LOGITS) {
        /* Logits become 1 and -1: a net without noise then has the direction's bits. */
        const int64_t rows = m->spec.rows, cols = m->spec.cols;
        const size_t logits = sw_size_round(entry->bytes);
        const size_t bytes = logits + (size_t)rows * sizeof(double);
        float *theta;
        SW_TRY(sw_heap_alloc(&theta, SW_HEAP_RECORDS, bytes));
        sw_status status = swi_model_read(m->to, theta, entry->offset, entry->bytes);
        if (status == SW_OK) {
            double *sums = (double *)(void *)((char *)theta + logits);
            const float scale = scale_of(theta, rows, cols, sums);
            sw_binary(sw_cpu_isa())
                ->member(theta, &m->spec, at, scale, m->sign < 0.0f, 0, rows);
            status = swi_model_write(m->to, entry->offset, theta, entry->bytes);
        }
        sw_heap_free(theta, SW_HEAP_RECORDS, bytes);
        return status;
    }
    for (int64_t first = 0; m->spec.rows != 0 && first < n; first += PIECE)
        SW_TRY(
            perturb_piece(m, entry, sigmas, at, first, n - first < PIECE ? n - first : PIECE));
    return SW_OK;
}

static sw_status perturb_all(member *m, uint32_t direction)
{
    const sw_noise_at at = {m->mode->seed, (uint32_t)m->mode->generation, direction};
    for (uint32_t e = 1; e < m->to->n_entries; e++)
        if (swi_is_perturbed(m->mode, &m->to->entries[e]))
            SW_TRY(perturb(m, e, &at));
    return SW_OK;
}

sw_status sw_es_member(sw_es *es, uint32_t direction, int sign, sw_model *to)
{
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_member"));
    SW_TRY(sw_handle_check(to, SW_HANDLE_MODEL, "sw_es_member"));
    if (direction >= es->mode.directions || (sign != 1 && sign != -1))
        SW_FAIL(SW_INVALID,
                "sw_es_member: direction must be below %u and sign 1 or -1 (got %u and %d)",
                es->mode.directions, direction, sign);
    if (to == es->mode.model)
        SW_FAIL(SW_INVALID, "sw_es_member: the member must be another model than '%s'",
                to->name);
    member m = SW_INIT(.mode = &es->mode, .to = to, .sigma = sw_knob_get(sw_es_sigma(es)),
                       .sign = (float)sign);
    SW_TRY(sw_model_copy(to, es->mode.model));
    SW_TRY(swi_model_take(to));
    const sw_status status = perturb_all(&m, direction);
    to->damaged |= status != SW_OK;
    swi_model_give(to);
    return status;
}
