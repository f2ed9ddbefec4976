/* An op that makes one number of a batch, for each of `evaluations` equal parts of the batch: y
 * (evaluations). Inputs are cut along axis 0. Only traces with noise make it, of losses and of
 * reductions over all axes. */
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include <string.h>

static const swi_each_attrs *attrs_of(const void *attrs)
{
    return attrs;
}

/* The type of one part of an input. */
static sw_type part_type(const sw_type *whole, int64_t evaluations)
{
    sw_type part = *whole;
    part.shape.dim[0] /= evaluations;
    return part;
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    const swi_each_attrs *a = attrs;
    const sw_op_desc *desc = swi_op(a->op);
    sw_type parts[4], made[4];
    memset(made, 0, sizeof made);
    if (desc == NULL || desc->attrs_bytes > SWI_EACH_ATTRS || a->evaluations < 1)
        SW_FAIL(SW_INVALID, "each: must be of an op, and of at least 1 evaluation (got %lld)",
                (long long)a->evaluations);
    for (int i = 0; i < n_in; i++) {
        if (in[i].shape.rank < 1 || in[i].shape.dim[0] % a->evaluations != 0)
            SW_FAIL(SW_INVALID,
                    "%s: axis 0 of input %d must be a multiple of the %lld evaluations",
                    desc->name, i, (long long)a->evaluations);
        parts[i] = part_type(&in[i], a->evaluations);
    }
    SW_TRY(desc->infer(parts, n_in, a->attrs, made));
    if (swi_elements(&made[0].shape) != 1 || made[0].dtype != SW_F32)
        SW_FAIL(SW_INVALID, "%s: must make one number of each evaluation", desc->name);
    out[0] = (sw_type){SW_F32, SW_PLAIN, {1, {a->evaluations}}};
    return SW_OK;
}

/* The question to the op about one part. */
typedef struct {
    sw_type in[4], out[4];
    sw_kernel_info info;
} asked;

static bool ask(asked *q, const sw_kernel_info *info)
{
    const swi_each_attrs *a = info->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    memset(q, 0, sizeof *q);
    for (int i = 0; i < info->n_in; i++)
        q->in[i] = part_type(&info->in[i], a->evaluations);
    q->info = (sw_kernel_info){.in = q->in,
                               .out = q->out,
                               .n_in = info->n_in,
                               .n_out = desc->n_out + desc->n_extra,
                               .attrs = desc->attrs_bytes > 0 ? a->attrs : NULL,
                               .threads = 1,
                               .isa = info->isa,
                               .skipped = ~1u};
    return desc->infer(q->in, info->n_in, a->attrs, q->out) == SW_OK;
}

/* Of one thread. */
static size_t part_scratch(const sw_kernel_info *info)
{
    asked q;
    const sw_op_desc *desc = swi_op(attrs_of(info->attrs)->op);
    if (desc->scratch_bytes == NULL || !ask(&q, info))
        return 0;
    return (desc->scratch_bytes(&q.info) + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
}

SCRATCH(scratch_bytes, part_scratch(info) * (size_t)info->threads)

typedef struct {
    const sw_launch *l;
    asked q;
    sw_kernel *kernel;
    size_t scratch;             /* of a thread */
    sw_status status[SW_ALIGN]; /* of the first that failed in a part; index: part */
    int n_parts;
} job;

static sw_status run_one(const job *j, int64_t e, unsigned char *scratch)
{
    const sw_launch *l = j->l;
    sw_buffer in[4], out[4];
    for (int i = 0; i < l->n_in; i++) {
        in[i] = l->in[i];
        in[i].type = j->q.in[i];
        in[i].ptr = (unsigned char *)l->in[i].ptr + (size_t)e * sw_type_bytes(&in[i].type);
    }
    memset(out, 0, sizeof out);
    for (int i = 0; i < j->q.info.n_out; i++)
        out[i].type = j->q.out[i];
    out[0].ptr = swi_out(l, 0) + e;
    sw_launch part = *l;
    part.in = in;
    part.out = out;
    part.n_out = j->q.info.n_out;
    part.scratch = scratch;
    part.scratch_bytes = j->scratch;
    part.attrs = j->q.info.attrs;
    part.accumulate = l->accumulate & 1u;
    part.par = &sw_par_alone;
    return j->kernel(&part);
}

static void run_part(void *arg, int part)
{
    job *j = arg;
    const int64_t n = attrs_of(j->l->attrs)->evaluations;
    const int64_t from = n * part / j->n_parts, to = n * (part + 1) / j->n_parts;
    unsigned char *scratch =
        j->scratch > 0 ? (unsigned char *)j->l->scratch + j->scratch * (size_t)part : NULL;
    for (int64_t e = from; e < to && j->status[part] == SW_OK; e++)
        j->status[part] = run_one(j, e, scratch);
}

static sw_status forward(const sw_launch *l)
{
    const swi_each_attrs *a = l->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    job j = {.l = l};
    sw_type types[4];
    sw_kernel_info info = {
        .in = types, .n_in = l->n_in, .attrs = a, .threads = l->par->n_threads, .isa = l->isa};
    for (int i = 0; i < l->n_in; i++)
        types[i] = l->in[i].type;
    if (!ask(&j.q, &info))
        SW_FAIL(SW_INVALID, "%s: its inputs cannot be cut into evaluations", desc->name);
    j.kernel = desc->select != NULL ? desc->select(&j.q.info) : desc->forward;
    j.scratch = part_scratch(&info);
    j.n_parts = l->par->n_threads < SW_ALIGN ? l->par->n_threads : SW_ALIGN;
    l->par->run(l->par, run_part, &j, j.n_parts);
    for (int i = 0; i < j.n_parts; i++)
        if (j.status[i] != SW_OK)
            return j.status[i];
    return SW_OK;
}

static sw_status reference(const sw_reference *r)
{
    const swi_each_attrs *a = r->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    sw_type in[4], out[4];
    for (int i = 0; i < r->n_in; i++)
        in[i] = part_type(&r->in_type[i], a->evaluations);
    memset(out, 0, sizeof out);
    SW_TRY(desc->infer(in, r->n_in, a->attrs, out));
    for (int64_t e = 0; e < a->evaluations; e++) {
        const double *x[4];
        double *y[4] = {r->out[0] + e};
        for (int i = 0; i < r->n_in; i++)
            x[i] = r->in[i] + e * swi_elements(&in[i].shape);
        sw_reference part = *r;
        part.in = x;
        part.in_type = in;
        part.out = y;
        part.out_type = out;
        part.attrs = a->attrs;
        SW_TRY(desc->reference(&part));
    }
    return SW_OK;
}

static uint64_t operations(const sw_kernel_info *info)
{
    asked q;
    const swi_each_attrs *a = info->attrs;
    const sw_op_desc *desc = swi_op(a->op);
    if (desc->operations == NULL || !ask(&q, info))
        return swi_count_per_element(&info->in[0], 1);
    return swi_count_mul((uint64_t)a->evaluations, desc->operations(&q.info));
}

#define OF(n, a_op) .evaluations = n, .op = SW_OP_##a_op, .name = #a_op
static const swi_each_attrs mse = {OF(6, mse)}, bce_with = {OF(6, bce_with)}, l1 = {OF(6, l1)};
static const swi_each_attrs kl_div = {OF(6, kl_div)}, softmax_ce = {OF(3, softmax_ce)};
static const swi_each_attrs accuracy = {OF(4, accuracy)};
#define PAIR(a_name, a_attrs, a_fill, b_fill)                                                  \
    CASE(a_name, IN(F32(12, 5), F32(12, 5)), .fill = {a_fill, b_fill}, .attrs = a_attrs)
static const sw_op_case cases[] = {
    PAIR("mse", &mse, SW_FILL_NORMAL, SW_FILL_NORMAL),
    PAIR("bce with targets", &bce_with, SW_FILL_NORMAL, SW_FILL_UNIT),
    PAIR("l1", &l1, SW_FILL_NORMAL, SW_FILL_NORMAL),
    PAIR("divergence", &kl_div, SW_FILL_NORMAL, SW_FILL_UNIT),
    CASE("cross-entropy", IN(F32(12, 7), U8(12)), FILL(NORMAL, LABELS), .limit = 7,
         AT(softmax_ce)),
    CASE("accuracy", IN(F32(12, 7), I32(12)), FILL(DISTINCT, LABELS), .limit = 7, AT(accuracy)),
};

OP(each, 1, 4, 1, ATTRS(swi_each_attrs), .infer = infer, .scratch_bytes = scratch_bytes,
   .forward = forward, .no_gradient = 1, .phase = SW_LOSS, .has_phase = 1,
   .operations = operations, CHECKS(reference, cases));
