/* sw_op_check: every test that an op's descriptor promises, over its cases, through real execs.
 *
 * For each case: the forward against the double-precision reference; gradients against central
 * differences of the reference along random directions, both with each instruction set that
 * this machine has; then the same bits from three threads, from immediate mode, in evaluation,
 * from slices, with and without in-place results, and in memory where dead bytes are NaN;
 * gradients that add up when the op is used twice or one value is several inputs, and that do
 * not depend on which of the others are requested; and the bytes that are kept for backward. */
#include "alloc/base/message.h"
#include "kernels/halves.h"
#include "kernels/rng.h"
#include "runtime/base/op_traits.h"
#include "runtime/verify/op_check.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One case of an op's descriptor: operands by Philox, the same as doubles, and the
 * double-precision forward after a loss of fixed random weights. */

#define SEED 0x5eed0f09u

struct swi_check_block {
    struct swi_check_block *next;
    size_t bytes;
};

sw_status swi_check_take(swi_check *c, void **out, size_t bytes)
{
    struct swi_check_block *b;
    const size_t head = 64;
    SW_TRY(sw_heap_alloc(&b, SW_HEAP_RECORDS, head + bytes));
    *b = (struct swi_check_block){c->blocks, head + bytes};
    c->blocks = b;
    *out = (unsigned char *)b + head;
    return SW_OK;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* n floats as the case fills this input. Streams differ by op, case and input. */
static sw_status fill_floats(swi_check *c, float *to, int64_t n, sw_fill fill, int64_t limit,
                             uint32_t stream)
{
    if (fill == SW_FILL_DISTINCT) {
        void *order;
        SW_TRY(swi_check_take(c, &order, (size_t)n * sizeof(uint32_t)));
        sw_rng_shuffle(order, (uint32_t)n, SEED + stream, 0);
        const uint32_t *place = order;
        for (int64_t i = 0; i < n; i++)
            to[i] =
                c->dtype == SW_BF16 /* neighbours from 1/16 on */
                    ? sw_bf16_widen((uint16_t)(0x3d80u + place[i] / 2 + place[i] % 2 * 0x8000u))
                    : 0.05f * (float)((int64_t)place[i] - n / 2) + 0.025f;
        return SW_OK;
    }
    const bool normal = fill == SW_FILL_NORMAL || fill == SW_FILL_AWAY;
    (normal ? sw_rng_normal : sw_rng_uniform)(to, 0, n, SEED, stream, 0, 0);
    const double top = fill == SW_FILL_BYTES ? 256.0 : (double)(limit > 0 ? limit : 1);
    for (int64_t i = 0; i < n; i++) {
        if (fill == SW_FILL_AWAY)
            to[i] += to[i] < 0.0f ? -0.1f : 0.1f;
        else if (fill == SW_FILL_LABELS || fill == SW_FILL_BYTES)
            to[i] = (float)floor((double)to[i] * top);
    }
    return SW_OK;
}

static void store_element(void *to, sw_dtype dtype, int64_t i, float x)
{
    switch (dtype) {
    case SW_F64:
        ((double *)to)[i] = (double)x;
        break;
    case SW_I32:
        ((int32_t *)to)[i] = (int32_t)x;
        break;
    case SW_U8:
        ((uint8_t *)to)[i] = (uint8_t)(int32_t)x;
        break;
    case SW_U16:
        ((uint16_t *)to)[i] = (uint16_t)(int32_t)x;
        break;
    default:
        ((float *)to)[i] = x;
        break;
    }
}

static double element(const void *from, sw_dtype dtype, int64_t i)
{
    switch (dtype) {
    case SW_F64:
        return ((const double *)from)[i];
    case SW_I32:
        return (double)((const int32_t *)from)[i];
    case SW_U8:
        return (double)((const uint8_t *)from)[i];
    case SW_U16:
        return (double)((const uint16_t *)from)[i];
    default:
        return (double)((const float *)from)[i];
    }
}

/* ---- operands ---------------------------------------------------------------------------- */

/* Gradients are checked for what some gradient kernel makes. A rule answers for every F32
 * input. */
static bool is_wanted(const sw_op_desc *d, const swi_check_operand *o, int i)
{
    if (d->no_gradient || o->type.dtype != SW_F32)
        return false;
    if (d->rule != NULL)
        return true;
    for (int g = 0; g < d->n_grads; g++)
        for (int k = 0; k < d->grads[g].n_makes; k++)
            if (d->grads[g].makes[k] == i)
                return true;
    return false;
}

/* A parameter or a scalar of the op, which stays float32. */
static bool is_weight(const swi_check *c, int i)
{
    const swi_op_halves word = swi_op_traits_of(c->id)->halves;
    return i > 0 &&
           (c->id == SW_OP_linear || word == SWI_HALVES_FLAT || word == SWI_HALVES_LOSS ||
            word == SWI_HALVES_ROWS || word == SWI_HALVES_LOOKUP || word == SWI_HALVES_GROUPS ||
            word == SWI_HALVES_CONV || word == SWI_HALVES_CHANNELS);
}

static sw_status make_operand(swi_check *c, int i)
{
    swi_check_operand *o = &c->in[i];
    const int spec = i < 4 ? i : 3;
    o->type = c->spec->in[spec];
    o->layout = o->type.layout;
    o->type.layout = SW_PLAIN;
    o->n = sw_type_elements(&o->type);
    if (o->n < 0 || o->n > 1 << 24)
        SW_FAIL(SW_INVALID, "input %d of the case has a bad shape", i);
    void *floats, *exact;
    SW_TRY(swi_check_take(c, &floats, (size_t)o->n * sw_dtype_bytes(SW_F32)));
    SW_TRY(swi_check_take(c, &exact, (size_t)o->n * sizeof(double)));
    SW_TRY(swi_check_take(c, &o->data, (size_t)o->n * sw_dtype_bytes(o->type.dtype)));
    const uint32_t stream =
        sw_rng_stream(c->desc->name) + 64u * (uint32_t)c->index + (uint32_t)i;
    SW_TRY(fill_floats(c, floats, o->n, c->spec->fill[spec], c->spec->limit, stream));
    o->exact = exact;
    for (int64_t k = 0; k < o->n; k++) {
        float x = ((const float *)floats)[k];
        if (c->dtype == SW_BF16 && o->type.dtype == SW_F32)
            x = sw_bf16_widen(sw_bf16_round(x));
        store_element(o->data, o->type.dtype, k, x);
        o->exact[k] = element(o->data, o->type.dtype, k);
    }
    o->half = c->dtype == SW_BF16 && o->type.dtype == SW_F32 && !is_weight(c, i);
    o->wanted = is_wanted(c->desc, o, i);
    c->n_wanted += o->wanted;
    /* The same numbers as rows of a tensor with a last axis that is longer by one at both
     * ends. */
    const int rank = o->type.shape.rank;
    o->wide_type = o->type;
    const int64_t row = rank > 0 ? o->type.shape.dim[rank - 1] : o->n;
    const int64_t edge = rank > 0 ? 1 : 0;
    if (rank > 0)
        o->wide_type.shape.dim[rank - 1] = row + 2;
    o->wide_n = sw_type_elements(&o->wide_type);
    const size_t size = sw_dtype_bytes(o->type.dtype);
    SW_TRY(swi_check_take(c, &o->wide, (size_t)o->wide_n * size));
    for (int64_t j = 0; j < o->wide_n; j++)
        store_element(o->wide, o->type.dtype, j, 3.0f);
    for (int64_t r = 0; row > 0 && r < o->n / row; r++)
        memcpy((unsigned char *)o->wide + (size_t)(r * (row + 2 * edge) + edge) * size,
               (const unsigned char *)o->data + (size_t)(r * row) * size, (size_t)row * size);
    return SW_OK;
}

sw_status swi_check_begin(swi_check *c, int index)
{
    c->index = index;
    c->spec = &c->desc->cases[index];
    c->n_in = c->spec->n_in;
    c->n_wanted = 0;
    memset(c->in, 0, sizeof c->in);
    memset(c->out, 0, sizeof c->out);
    for (int d = 0; d < SWI_CHECK_DIRECTIONS; d++)
        c->slope[d] = NAN;
    if (c->n_in < 0 || c->n_in > SWI_CHECK_INPUTS || c->desc->n_out > SWI_CHECK_OUTPUTS)
        SW_FAIL(SW_INVALID, "a case must have at most %d inputs and %d outputs (got %d and %d)",
                SWI_CHECK_INPUTS, SWI_CHECK_OUTPUTS, c->n_in, c->desc->n_out);
    for (int i = 0; i < c->n_in; i++)
        SW_TRY(make_operand(c, i));
    sw_type in[SWI_CHECK_INPUTS], out[2 * SWI_CHECK_OUTPUTS];
    memset(out, 0, sizeof out);
    for (int m = 0; m < c->n_in; m++) {
        in[m] = c->in[m].type;
        in[m].layout = c->in[m].layout;
    }
    SW_TRY(c->desc->infer(in, c->n_in, c->spec->attrs, out));
    for (int m = 0; m < c->desc->n_out; m++) {
        swi_check_output *o = &c->out[m];
        o->type = out[m];
        o->type.layout = SW_PLAIN;
        o->n = sw_type_elements(&o->type);
        for (int k = 0; k < 2; k++) {
            void *weight;
            SW_TRY(swi_check_take(c, &weight, (size_t)o->n * sw_dtype_bytes(SW_F32)));
            o->weight[k] = weight;
            sw_rng_normal(o->weight[k], 0, o->n, SEED + 1, sw_rng_stream(c->desc->name),
                          (uint32_t)(c->index * SWI_CHECK_OUTPUTS + m), (uint32_t)k);
            for (int64_t e = 0; e < o->n && c->dtype == SW_BF16; e++)
                o->weight[k][e] = sw_bf16_widen(sw_bf16_round(o->weight[k][e]));
        }
    }

    if (c->n_wanted == 0)
        return SW_OK;
    SW_TRY(sw_model_create(&c->model, "op_check"));
    for (int j = 0; j < c->n_in; j++) {
        swi_check_operand *o = &c->in[j];
        char name[32];
        if (!o->wanted)
            continue;
        snprintf(name, sizeof name, "x%d", j);
        o->param = sw_param_new(c->model, name, SW_F32, o->type.shape, "zeros");
        snprintf(name, sizeof name, "wide%d", j);
        o->wide_param = sw_param_new(c->model, name, SW_F32, o->wide_type.shape, "zeros");
    }
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1, .no_check = 1);
    return sw_optimizer_create(&c->optimizer, c->model, &opts);
}

void swi_check_end(swi_check *c)
{
    swi_model_free(c->model);
    c->model = NULL;
    c->optimizer = NULL;
    while (c->blocks != NULL) {
        struct swi_check_block *b = c->blocks;
        c->blocks = b->next;
        sw_heap_free(b, SW_HEAP_RECORDS, b->bytes);
    }
}

/* ---- the double-precision side ----------------------------------------------------------- */

/* The stream of a random op is that of its node in the last planned run. */
static uint32_t stream_of(const swi_check *c)
{
    const swi_program *p = c->plain->last;
    for (uint32_t n = 0; p != NULL && n < p->trace.n_nodes; n++)
        if (p->trace.nodes[n].op == c->id && p->trace.nodes[n].grad < 0)
            return p->trace.nodes[n].stream;
    return 0;
}

sw_status swi_check_reference(swi_check *c, double *const *in, double **out)
{
    sw_type in_type[SWI_CHECK_INPUTS], out_type[SWI_CHECK_OUTPUTS];
    if (c->desc->reference == NULL)
        SW_FAIL(SW_UNSUPPORTED, "the descriptor has no double-precision forward");
    for (int i = 0; i < c->n_in; i++)
        in_type[i] = c->in[i].type;
    for (int i = 0; i < c->desc->n_out; i++) {
        out_type[i] = c->out[i].type;
        memset(out[i], 0, (size_t)c->out[i].n * sizeof(double));
    }
    const sw_reference r =
        SW_INIT(.in = (const double *const *)in, .in_type = in_type, .n_in = c->n_in,
                .out = out, .out_type = out_type, .attrs = c->spec->attrs,
                .seed = c->plain->seed, .stream = stream_of(c), .step = 3, .run = 1);
    return c->desc->reference(&r);
}

static sw_status loss_at(swi_check *c, double *const *in, double **out, double *loss)
{
    SW_TRY(swi_check_reference(c, in, out));
    *loss = 0.0;
    for (int i = 0; i < c->desc->n_out; i++)
        for (int64_t k = 0; c->out[i].type.dtype == SW_F32 && k < c->out[i].n; k++)
            *loss += out[i][k] * (double)c->out[i].weight[0][k];
    return SW_OK;
}

/* Sum of outputs * weight[0] in double at in + step * direction (one per operand, or NULL). */
static sw_status check_loss(swi_check *c, double *const *direction, double step, double *loss)
{
    double *in[SWI_CHECK_INPUTS], *out[SWI_CHECK_OUTPUTS];
    void *block;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i].exact;
        if (direction[i] == NULL)
            continue;
        SW_TRY(swi_check_take(c, &block, (size_t)c->in[i].n * sizeof(double)));
        in[i] = block;
        for (int64_t k = 0; k < c->in[i].n; k++)
            in[i][k] = c->in[i].exact[k] + step * direction[i][k];
    }
    for (int i = 0; i < c->desc->n_out; i++) {
        SW_TRY(swi_check_take(c, &block, (size_t)c->out[i].n * sizeof(double)));
        out[i] = block;
    }
    return loss_at(c, in, out, loss);
}

#define MOST_FOR_SETS 6 /* inputs of which every set is tried */
#define STEP 1e-5       /* of the central differences: errors near 1e-10 in double */
#define HALF_ULP 0x1p-8 /* the most that rounding to the 8 bits of bf16 changes, relative */

void swi_check_say(swi_check *c, bool good, const char *what, const char *format, ...)
{
    c->n_checks++;
    if (good)
        return;
    c->n_failures++;
    char text[320], line[512];
    va_list list;
    va_start(list, format);
    (void)sw_message_list(text, sizeof text, format, list);
    va_end(list);
    snprintf(line, sizeof line, "%s, case %s: %s: %s", c->desc->name,
             c->spec != NULL && c->spec->name != NULL ? c->spec->name : "any", what, text);
    if (c->report != NULL)
        c->report(c->to, line);
}

/* ---- what instruction sets share --------------------------------------------------------- */

/* A forward or gradient check under the instruction set that runs: a case reports both once. */
SW_PRINTF(4, 5)
static void note_once(swi_check *c, swi_check_subject subject, bool good, const char *format,
                      ...)
{
    swi_check_once *once = &c->once[subject];
    va_list list;
    c->n_checks++;
    once->n_checks++;
    if (good)
        return;
    c->n_failures++;
    once->sets |= 1u << c->isa;
    if (once->n_failures++ > 0)
        return;
    va_start(list, format);
    (void)sw_message_list(once->text, sizeof once->text, format, list);
    va_end(list);
}

/* "avx512, avx2 and base" */
static const char *name_sets(uint32_t sets, char *to, size_t bytes)
{
    static const char *const names[] = {"base", "avx2", "avx512", "the other order"};
    size_t used = 0;
    to[0] = '\0';
    for (int i = 3; i >= 0; i--) {
        const uint32_t below = sets & ((1u << i) - 1);
        if ((sets & (1u << i)) != 0 && used < bytes)
            used += (size_t)snprintf(to + used, bytes - used, "%s%s", names[i],
                                     below == 0                   ? ""
                                     : (below & (below - 1)) == 0 ? " and "
                                                                  : ", ");
    }
    return to;
}

static void say_once(swi_check *c)
{
    static const char *const whats[] = {"forward", "gradient"};
    for (int i = 0; i < SWI_CHECK_SUBJECTS; i++) {
        const swi_check_once *once = &c->once[i];
        char line[640], sets[48];
        if (once->n_failures == 0 || c->report == NULL)
            continue;
        snprintf(line, sizeof line, "%s, case %s: %s with %s, %u of %u checks: %s",
                 c->desc->name,
                 c->spec != NULL && c->spec->name != NULL ? c->spec->name : "any", whats[i],
                 name_sets(once->sets, sets, sizeof sets), once->n_failures, once->n_checks,
                 once->text);
        c->report(c->to, line);
    }
    memset(c->once, 0, sizeof c->once);
}

/* ---- forward ----------------------------------------------------------------------------- */

static sw_status check_forward(swi_check *c, const swi_check_result *base)
{
    double *out[SWI_CHECK_OUTPUTS];
    const uint64_t halves = c->dtype == SW_BF16 ? swi_check_halves(c, c->plain) : 0;
    const double bound = c->spec->forward_error > 0.0 ? c->spec->forward_error : 1e-5;
    double *in[SWI_CHECK_INPUTS];
    bool known = true;
    for (int i = 0; i < c->n_in; i++)
        in[i] = c->in[i].exact;
    for (int i = 0; i < c->desc->n_out; i++) {
        void *block = c->out[i].exact;
        if (block == NULL) {
            SW_TRY(swi_check_take(c, &block, (size_t)c->out[i].n * sizeof(double)));
            known = false;
        }
        out[i] = c->out[i].exact = block;
    }
    SW_TRY(known ? SW_OK : swi_check_reference(c, in, out));
    for (int i = 0; i < c->desc->n_out; i++) {
        double largest = 0.0, worst = 0.0;
        int64_t at = 0;
        for (int64_t k = 0; k < c->out[i].n; k++) {
            const double got = element(base->out[i], c->out[i].type.dtype, k);
            double error = fabs(got - out[i][k]);
            if (!(error <= HUGE_VAL))
                error = HUGE_VAL; /* a NaN is the worst of all */
            if ((halves >> (SWI_CHECK_INPUTS + i) & 1u) != 0)
                error -= HALF_ULP * fabs(out[i][k]);
            largest = fmax(largest, fabs(out[i][k]));
            if (error > worst) {
                worst = error;
                at = k;
            }
        }
        const sw_dtype dtype = c->out[i].type.dtype;
        const bool exact = dtype == SW_I32 || dtype == SW_U8 || dtype == SW_U16;
        note_once(c, SWI_CHECK_FORWARD, worst <= (exact ? 0.0 : bound * largest),
                  "output %d, element %lld is %.9g, the reference says %.9g (largest %.3g, "
                  "bound %.1g)",
                  i, (long long)at, element(base->out[i], c->out[i].type.dtype, at), out[i][at],
                  largest, bound);
    }
    return SW_OK;
}

/* ---- gradients --------------------------------------------------------------------------- */

/* `only`: the input that changes; -1: all inputs with a gradient. */
static sw_status check_direction(swi_check *c, const swi_check_result *base, int only,
                                 int number)
{
    double *direction[SWI_CHECK_INPUTS] = {NULL};
    double analytic = 0.0, norm = 0.0, parts = 0.0;
    for (int i = 0; i < c->n_in; i++) {
        void *block, *floats;
        if (!c->in[i].wanted || (only >= 0 && only != i))
            continue;
        const int64_t n = c->in[i].n;
        SW_TRY(swi_check_take(c, &block, (size_t)n * sizeof(double)));
        SW_TRY(swi_check_take(c, &floats, (size_t)n * sw_dtype_bytes(SW_F32)));
        sw_rng_normal(floats, 0, n, 0xd12ec7u, sw_rng_stream(c->desc->name), (uint32_t)number,
                      (uint32_t)i);
        direction[i] = block;
        for (int64_t k = 0; k < n; k++) {
            direction[i][k] = (double)((const float *)floats)[k];
            const double part = direction[i][k] * (double)base->grad[i][k];
            analytic += part;
            parts += part * part;
            norm += (double)base->grad[i][k] * (double)base->grad[i][k];
        }
    }
    double *slope = &c->slope[only < 0 ? number : number + 2 * only];
    if (isnan(*slope)) {
        double up, down;
        SW_TRY(check_loss(c, direction, STEP, &up));
        SW_TRY(check_loss(c, direction, -STEP, &down));
        *slope = (up - down) / (2.0 * STEP);
    }
    const double numeric = *slope;
    /* Roundings to bf16 are apart from each other, so their sum passes five times the root of
     * the sum of their squares once in 130,000 directions (Hoeffding 1963). */
    const double rounded = c->dtype == SW_BF16
                               ? 5.0 * HALF_ULP * swi_check_roundings(c, c->plain) * sqrt(parts)
                               : 0.0;
    const double bound = c->spec->gradient_error > 0.0 ? c->spec->gradient_error : 1e-3;
    /* A direction nearly across the gradient has a derivative near zero: the gradient's length
     * is what a usual one is as large as. 1e-7: rounding of the differences themselves. */
    const double size = fmax(fmax(fabs(numeric), 0.05 * sqrt(norm)), 1e-7 / bound);
    const double error = fmax(fabs(analytic - numeric) - rounded, 0.0) / size;
    note_once(c, SWI_CHECK_GRADIENT, error <= fmin(bound, 1e-3),
              "along direction %d of input %d the gradient gives %.9g, differences %.9g: "
              "relative error %.2g, bound %.1g",
              number, only, analytic, numeric, error, bound);
    return SW_OK;
}

static sw_status check_gradients(swi_check *c, const swi_check_result *base)
{
    for (int d = 0; d < SWI_CHECK_JOINT; d++)
        SW_TRY(check_direction(c, base, -1, d));
    for (int i = 0; c->n_wanted > 1 && i < c->n_in; i++)
        for (int d = 0; c->in[i].wanted && d < 2; d++)
            SW_TRY(check_direction(c, base, i, SWI_CHECK_JOINT + d));
    return SW_OK;
}

/* Two gradients that may differ by rounding: relative to the largest element of `b`. */
static void near(swi_check *c, const char *what, int input, const float *a, const float *b,
                 const float *more)
{
    double largest = 0.0, worst = 0.0;
    int64_t at = 0;
    for (int64_t k = 0; k < c->in[input].n; k++) {
        const double wanted = (double)b[k] + (more != NULL ? (double)more[k] : 0.0);
        double error = fabs((double)a[k] - wanted);
        if (!(error <= HUGE_VAL))
            error = HUGE_VAL;
        largest =
            fmax(largest, fmax(fabs((double)b[k]), more != NULL ? fabs((double)more[k]) : 0));
        if (error > worst) {
            worst = error;
            at = k;
        }
    }
    /* With bf16 both sums and both of their parts are rounded. */
    swi_check_say(c, worst <= (c->dtype == SW_BF16 ? 4.0 * HALF_ULP : 2e-5) * largest, what,
                  "the gradient of input %d is %.9g at %lld, %.9g was expected", input,
                  (double)a[at], (long long)at,
                  (double)b[at] + (more != NULL ? (double)more[at] : 0.0));
}

/* One value for several inputs: its gradient is the sum of what they get when they are several
 * values with the same numbers. */
static sw_status check_one(swi_check *c)
{
    const uint32_t train = SWI_CHECK_TRAIN | SWI_CHECK_EQUAL;
    swi_check_result equal, one;
    bool any = false;
    for (int i = 0; i < c->n_in; i++)
        any |= swi_check_twin(c, i) != i;
    if (!any)
        return SW_OK;
    SW_TRY(swi_check_run(c, c->plain, train, SWI_CHECK_ALL, &equal));
    SW_TRY(swi_check_run(c, c->plain, train | SWI_CHECK_ONE, SWI_CHECK_ALL, &one));
    for (int i = 0; i < c->n_in; i++) {
        const float *more = NULL;
        if (!c->in[i].wanted || swi_check_twin(c, i) != i)
            continue;
        for (int k = i + 1; k < c->n_in; k++) {
            if (swi_check_twin(c, k) != i)
                continue;
            for (int64_t e = 0; more != NULL && e < c->in[i].n; e++)
                equal.grad[k][e] += more[e];
            more = equal.grad[k];
        }
        near(c, "one value for several inputs", i, one.grad[i], equal.grad[i], more);
    }
    return SW_OK;
}

/* With gradients for these inputs alone: as with all, and the same bits in immediate mode. */
static sw_status check_some(swi_check *c, uint32_t only, const swi_check_result *base)
{
    const bool one = (only & (only - 1)) == 0;
    char what[40] = "gradient alone", where[160] = "";
    swi_check_result some, now;
    if (!one)
        snprintf(what, sizeof what, "gradients of 0x%x", only);
    SW_TRY(swi_check_run(c, c->plain, SWI_CHECK_TRAIN, only, &some));
    for (int i = 0; i < c->n_in; i++)
        if (swi_check_wants(c, only, i))
            near(c, what, i, some.grad[i], base->grad[i], NULL);
    SW_TRY(swi_check_run(c, c->plain, SWI_CHECK_TRAIN | SWI_CHECK_NOW, only, &now));
    const bool good = swi_check_same(c, &some, &now, where, sizeof where);
    swi_check_say(c, good, what, "%s in immediate mode", where);
    return SW_OK;
}

/* A gradient does not depend on which others are computed: tried for every set of inputs
 * or, where there are many, for each alone and for all but each. */
static sw_status check_sets(swi_check *c, const swi_check_result *base)
{
    uint32_t all = 0;
    for (int i = 0; i < c->n_in && i < 32; i++)
        all |= c->in[i].wanted ? 1u << i : 0;
    const bool many = c->n_wanted > MOST_FOR_SETS;
    for (uint32_t only = all & (0u - all); only != 0 && !many; only = (only - all) & all)
        if (only != all)
            SW_TRY(check_some(c, only, base));
    for (int i = 0; i < c->n_in && i < 32 && many; i++) {
        if (!c->in[i].wanted)
            continue;
        SW_TRY(check_some(c, 1u << i, base));
        SW_TRY(check_some(c, all & ~(1u << i), base));
    }
    return SW_OK;
}

/* ---- the same bits, however it runs ------------------------------------------------------ */

static sw_status same(swi_check *c, sw_exec *exec, uint32_t flags, const char *what,
                      const swi_check_result *base)
{
    swi_check_result r;
    char where[160] = "";
    SW_TRY(swi_check_run(c, exec, flags, SWI_CHECK_ALL, &r));
    if ((flags & SWI_CHECK_TRAIN) == 0)
        memcpy(r.grad, base->grad, sizeof r.grad);
    const bool good = swi_check_same(c, base, &r, where, sizeof where);
    swi_check_say(c, good, what, "%s", where);
    if ((flags & SWI_CHECK_SLICED) != 0)
        swi_check_say(c, r.clean, what, "a gradient outside of the slice is not zero");
    if ((flags & SWI_CHECK_MADE) != 0 && (flags & SWI_CHECK_TRAIN) == 0 && exec == c->plain)
        swi_check_taken(c, exec);
    return SW_OK;
}

/* Does what is kept anyway decide which kernel makes a gradient? */
static bool has_choice(const sw_op_desc *d)
{
    for (int g = 0; g < d->n_grads; g++)
        for (int k = 0; k < g; k++)
            if (d->grads[g].n_makes == d->grads[k].n_makes &&
                memcmp(d->grads[g].makes, d->grads[k].makes, (size_t)d->grads[g].n_makes) == 0)
                return true;
    return false;
}

static sw_status check_case(swi_check *c)
{
    const uint32_t train = c->n_wanted > 0 ? SWI_CHECK_TRAIN : 0, give = SWI_CHECK_GIVE;
    const uint32_t all = train | give, made = SWI_CHECK_MADE;
    swi_check_result base;
    SW_TRY(swi_check_run(c, c->plain, all, SWI_CHECK_ALL, &base));
    if (c->dtype == SW_BF16 && swi_check_halves(c, c->plain) == 0)
        return SW_OK;
    c->n_cases++;
    SW_TRY(check_forward(c, &base));
    /* Other kernels, other bits: forward and gradients against the reference again. */
    sw_status status = SW_OK;
    for (int i = 0; i < 3 && status == SW_OK; i++) {
        swi_check_result r;
        if (c->lower[i] == NULL)
            continue;
        c->isa = i < 2 ? i : 3;
        status = swi_check_run(c, c->lower[i], all, SWI_CHECK_ALL, &r);
        if (status == SW_OK)
            status = check_forward(c, &r);
        if (status == SW_OK && (all & SWI_CHECK_TRAIN) != 0)
            status = check_gradients(c, &r);
    }
    c->isa = (int)c->plain->target.isa;
    SW_TRY(status);
    SW_TRY(same(c, c->threads, all, "three threads", &base));
    SW_TRY(same(c, c->plain, all | SWI_CHECK_NOW, "immediate mode", &base));
    SW_TRY(same(c, c->plain, give, "evaluation", &base));
    SW_TRY(same(c, c->plain, give | SWI_CHECK_NOW, "evaluation in immediate mode", &base));
    if (c->n_in > 0)
        SW_TRY(same(c, c->plain, all | SWI_CHECK_SLICED, "slices as inputs", &base));
    SW_TRY(same(c, c->plain, give | made, "in place, evaluation", &base));
    SW_TRY(same(c, c->plain, all | made, "in place", &base));
    SW_TRY(same(c, c->apart, all | made, "in place switched off", &base));
    SW_TRY(swi_check_program(c, c->plain, give | made, &base));
    if (train == 0)
        return swi_check_program(c, c->apart, give | made, &base);
    SW_TRY(swi_check_program(c, c->plain, train | made, &base));
    SW_TRY(check_gradients(c, &base));
    SW_TRY(swi_check_program(c, c->apart, train | made, &base));
    if (has_choice(c->desc))
        SW_TRY(swi_check_program(c, c->apart, train | made | SWI_CHECK_HELD, &base));
    SW_TRY(check_one(c));
    swi_check_result both, second;
    SW_TRY(
        swi_check_run(c, c->plain, SWI_CHECK_TRAIN | SWI_CHECK_SECOND, SWI_CHECK_ALL, &second));
    SW_TRY(swi_check_run(c, c->plain, SWI_CHECK_TRAIN | SWI_CHECK_TWICE, SWI_CHECK_ALL, &both));
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].wanted)
            near(c, "used twice", i, both.grad[i], base.grad[i], second.grad[i]);

    return check_sets(c, &base);
}

static sw_status make_execs(swi_check *c)
{
    /* With three threads cheap results are rebuilt too; where saved bytes are checked,
     * exactly the operands that an op names are kept. */
    const sw_bf16_order pair = c->dtype == SW_BF16 ? SW_ORDER_PAIR : SW_ORDER_NONE;
    sw_exec_opts one = SW_OPTS(sw_exec_opts, .seed = 7, .no_rebuild = 1, .compute = c->dtype,
                               .bf16_order = pair),
                 three = one, apart = one;
    three.threads = 3, three.no_rebuild = 0;
    apart.no_inplace = 1;
    SW_TRY(swi_exec_create(&c->plain, &one));
    SW_TRY(swi_exec_create(&c->threads, &three));
    SW_TRY(swi_exec_create(&c->apart, &apart));
    for (int i = 0; i < 2 && i < (int)c->plain->target.isa; i++) {
        three.threads = 1, three.isa = i == 0 ? "base" : "avx2";
        SW_TRY(swi_exec_create(&c->lower[i], &three));
    }
    one.bf16_order = SW_ORDER_TILE;
    return c->dtype == SW_BF16 ? swi_exec_create(&c->lower[2], &one) : SW_OK;
}

/* Not fitting the memory is no verdict about the op; any other refusal is. */
static sw_status run_case(swi_check *c, int index)
{
    sw_status status = swi_check_begin(c, index);
    c->isa = (int)c->plain->target.isa;
    if (status == SW_OK)
        status = check_case(c);
    say_once(c);
    if (status != SW_OK && status != SW_NOMEM) {
        char text[300];
        snprintf(text, sizeof text, "%s", sw_last_error());
        swi_check_say(c, false, "run", "%s: %s", sw_status_name(status), text);
        status = SW_OK;
    }
    swi_check_end(c);
    return status;
}

sw_status sw_op_check(uint32_t id, void (*report)(void *to, const char *line), void *to,
                      uint32_t *n_checks, uint32_t *n_failures)
{
    uint32_t checks[2] = {0}, failed[2] = {0}, cases;
    for (int half = 0; half < 2; half++)
        SW_TRY(swi_op_check(id, half ? SW_BF16 : SW_F32, report, to, &checks[half],
                            &failed[half], &cases));
    if (n_checks != NULL)
        *n_checks = checks[0] + checks[1];
    if (n_failures != NULL)
        *n_failures = failed[0] + failed[1];
    return SW_OK;
}

sw_status swi_op_check(uint32_t id, sw_dtype dtype, void (*report)(void *to, const char *line),
                       void *to, uint32_t *n_checks, uint32_t *n_failures, uint32_t *n_cases)
{
    const sw_op_desc *desc = swi_op(id);
    if (desc == NULL)
        SW_FAIL(SW_INVALID, "there is no op number %u", id);
    if (desc->n_cases == 0)
        SW_FAIL(SW_INVALID, "op %s has no cases: nothing would be checked", desc->name);
    swi_check *c;
    SW_TRY(sw_heap_alloc(&c, SW_HEAP_RECORDS, sizeof(swi_check)));
    c->id = id;
    c->desc = desc;
    c->dtype = dtype;
    c->report = report;
    c->to = to;
    sw_status status = make_execs(c);
    const bool refused = dtype == SW_BF16 && swi_op_traits_of(id)->halves == SWI_HALVES_NEVER;
    for (int i = 0; status == SW_OK && i < desc->n_cases && !refused; i++)
        status = run_case(c, i);
    if (status == SW_OK && c->n_cases > 0) {
        /* A promise that no case puts to the test is none: an in-place flag must have been
         * tried somewhere. */
        c->spec = NULL;
        const bool other_type = /* a result of float32 cannot take the place of bf16 */
            dtype == SW_BF16 && swi_op_traits_of(id)->halves == SWI_HALVES_READS;
        if (c->desc->inplace != 0 && !other_type)
            swi_check_say(c, (c->desc->inplace & ~c->taken) == 0, "in place",
                          "inputs 0x%x may be taken, the cases have tried 0x%x",
                          c->desc->inplace, c->taken);
        for (int g = 0; g < c->desc->n_grads && g < 32; g++)
            if (c->desc->grads[g].inplace != 0 && !other_type)
                swi_check_say(c, (c->desc->grads[g].inplace & ~c->grad_taken[g]) == 0,
                              "in place",
                              "gradient %d may take operands 0x%x, the cases have tried 0x%x",
                              g, c->desc->grads[g].inplace, c->grad_taken[g]);
    }
    swi_exec_free(c->plain);
    swi_exec_free(c->threads);
    swi_exec_free(c->apart);
    for (int i = 0; i < 3; i++)
        swi_exec_free(c->lower[i]);
    *n_cases = c->n_cases;
    *n_checks = c->n_checks;
    *n_failures = c->n_failures;
    sw_heap_free(c, SW_HEAP_RECORDS, sizeof *c);
    return status;
}
