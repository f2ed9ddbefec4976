/* Losses and gradients that are not finite: the ops that look, before the updates that
 * would use them, and what is made of it after a run.
 *
 * A gradient is read for that; or, where it is the product of smaller tensors, these are: what
 * they cannot make infinite need not be looked at.
 *
 * One finite check (ops.h) on each loss; one on each gradient, which passes on that of its
 * loss; and one for all of an optimizer. An update that is released reads its own gradient's,
 * so that it waits for no other; the rest read the one for all. Where a plan is made smaller by
 * releasing them too, swi_pass_own_finite_checks gives them their own. */
#include "runtime/model/model_bytes.h"
#include "runtime/autograd/optim/optimizer_internal.h"
#include "runtime/plan/program_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

bool swi_looks(const sw_optimizer *o)
{
    return o->max_skipped != 0;
}

/* ---- while tracing ----------------------------------------------------------------------- */

static const sw_type finite_check_type = {SW_F64, SW_PLAIN, {0, {0}}};

sw_status swi_append_bound(sw_ctx *ctx, const uint32_t *factors, int64_t terms, int64_t worth)
{
    const swi_bound_attrs attrs = {terms, worth};
    uint32_t out;
    const swi_append_args args = {.op = SW_OP_product_bound,
                                  .grad = -1,
                                  .in = factors,
                                  .n_in = 2,
                                  .attrs = &attrs,
                                  .out_types = &finite_check_type,
                                  .n_out = 1};
    return swi_append(ctx, &args, &out);
}

/* The bound that stands before what alone has made a value; SWI_NONE: there is none. */
static uint32_t bound_on(const swi_trace *t, uint32_t value)
{
    const uint32_t maker = t->values[value].node;
    if (maker == SWI_NONE || maker == 0 || t->nodes[maker].accumulate != 0 ||
        t->nodes[maker - 1].op != SW_OP_product_bound || t->nodes[maker].n_out != 1)
        return SWI_NONE;
    const swi_node *bound = &t->nodes[maker - 1];
    return t->operands[bound->first + bound->n_in];
}

static bool reads_factors(const swi_trace *t, uint32_t bound)
{
    const swi_node *node = &t->nodes[t->values[bound].node];
    const uint32_t *in = t->operands + node->first;
    const sw_type factors[2] = {t->values[in[0]].type, t->values[in[1]].type};
    return swi_bound_reads(factors, (const void *)(t->attrs + node->attrs));
}

sw_status swi_append_finite(sw_ctx *ctx, uint32_t value, double code, uint32_t before,
                            uint32_t flag, uint8_t release, uint32_t *out)
{
    const uint32_t bound = bound_on(&ctx->trace, value);
    uint32_t in[4] = {value};
    int n = 1;
    if (before != SWI_NONE)
        in[n++] = before;
    if (flag != SWI_NONE)
        in[n++] = flag;
    if (bound != SWI_NONE)
        in[n++] = bound;
    swi_finite_attrs attrs;
    memset(&attrs, 0, sizeof attrs); /* compared byte for byte */
    attrs.code = code;
    attrs.has_before = before != SWI_NONE;
    attrs.has_flag = flag != SWI_NONE;
    attrs.has_bound = bound != SWI_NONE;
    attrs.is_bounded = attrs.has_bound && reads_factors(&ctx->trace, bound);
    const swi_append_args args = {.op = SW_OP_finite,
                                  .grad = -1,
                                  .in = in,
                                  .n_in = n,
                                  .attrs = &attrs,
                                  .out_types = &finite_check_type,
                                  .n_out = 1,
                                  .release = release};
    return swi_append(ctx, &args, out);
}

sw_status swi_append_any(sw_ctx *ctx, const uint32_t *finite_checks, uint32_t n,
                         uint8_t release, uint32_t *out)
{
    uint32_t in[SWI_FINITE_CHECKS];
    uint32_t n_in = 0;
    *out = n > 0 ? finite_checks[0] : SWI_NONE;
    for (uint32_t i = 0; i < n && n > 1; i++) {
        in[n_in++] = finite_checks[i];
        if (n_in < SWI_FINITE_CHECKS && i + 1 < n)
            continue;
        const swi_append_args args = {.op = SW_OP_any_verdict,
                                      .grad = -1,
                                      .in = in,
                                      .n_in = (int)n_in,
                                      .out_types = &finite_check_type,
                                      .n_out = 1,
                                      .release = release};
        SW_TRY(swi_append(ctx, &args, out));
        in[0] = *out; /* and on with the next ones */
        n_in = 1;
    }
    return SW_OK;
}

/* When what needs all gradients of an optimizer runs: as late as one of them asks for. */
static uint8_t last_release(const sw_optimizer *o)
{
    uint8_t release = SWI_RELEASED;
    for (uint32_t g = 0; g < o->n_groups; g++)
        if (o->release[g] == SWI_STAYS || release == SWI_RELEASED)
            release = o->release[g];
    return release;
}

/* The finite check on all losses that this optimizer's pending gradients come from. */
static sw_status losses_of(sw_ctx *ctx, const sw_optimizer *o, uint32_t *out)
{
    *out = SWI_NONE;
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const swi_param_grad *g =
            o->model->entries[e].optimizer == o->index ? swi_pending(ctx, o, e) : NULL;
        if (g == NULL || g->finite_check == SWI_NONE || g->finite_check == *out)
            continue;
        const uint32_t both[] = {*out, g->finite_check};
        if (*out == SWI_NONE)
            *out = g->finite_check;
        else
            SW_TRY(swi_append_any(ctx, both, 2, swi_first_release(o), out));
    }
    return SW_OK;
}

static sw_status append_counting(sw_ctx *ctx, const sw_optimizer *o, uint32_t op,
                                 uint32_t finite_check, bool with_flags)
{
    const uint32_t counts = swi_model_value(ctx, o->model, o->counts);
    const uint32_t flags = with_flags ? swi_model_value(ctx, o->model, o->flags) : SWI_NONE;
    if (ctx->status != SW_OK)
        return ctx->status;
    const uint32_t in[] = {counts, finite_check, flags};
    const swi_count_attrs attrs = {with_flags};
    return swi_append_update(ctx, last_release(o), op, in, with_flags ? 3 : 2, &attrs, &counts,
                             1);
}

sw_status swi_note_losses(sw_ctx *ctx, const sw_optimizer *o)
{
    uint32_t losses;
    if (!swi_looks(o))
        return SW_OK;
    SW_TRY(losses_of(ctx, o, &losses));
    return losses == SWI_NONE ? SW_OK
                              : append_counting(ctx, o, SW_OP_note_verdict, losses, false);
}

sw_status swi_append_finite_checks(sw_ctx *ctx, const sw_optimizer *o, uint32_t *own,
                                   swi_finite_checks *out)
{
    uint32_t some[SWI_FINITE_CHECKS];
    uint32_t n = 0;
    *out = (swi_finite_checks){SWI_NONE, SWI_NONE};
    for (uint32_t e = 0; e < o->model->n_entries; e++)
        own[e] = SWI_NONE;
    if (!swi_looks(o))
        return SW_OK;
    if (o->keep)
        out->losses = swi_model_element(ctx, o->model, o->counts, SWI_SKIPPED_NEXT);
    else
        SW_TRY(losses_of(ctx, o, &out->losses));
    for (uint32_t e = 1; e < o->model->n_entries; e++) {
        const uint32_t g = swi_gradient_for(ctx, o, e);
        const uint32_t flag = g != SWI_NONE ? swi_flag_of(ctx, o, e) : SWI_NONE;
        if (ctx->status != SW_OK)
            return ctx->status;
        if (g == SWI_NONE)
            continue;
        SW_TRY(swi_append_finite(ctx, g, (double)e, out->losses, flag,
                                 o->release[o->model->entries[e].group], &own[e]));
        some[n++] = own[e];
        if (n < SWI_FINITE_CHECKS)
            continue;
        SW_TRY(swi_append_any(ctx, some, n, last_release(o), &some[0]));
        n = 1;
    }
    return swi_append_any(ctx, some, n, last_release(o), &out->all);
}

sw_status swi_count_update(sw_ctx *ctx, const sw_optimizer *o, const swi_finite_checks *v)
{
    return v->all == SWI_NONE ? SW_OK
                              : append_counting(ctx, o, SW_OP_count_skipped, v->all, o->keep);
}

/* ---- around a run ------------------------------------------------------------------------ */

static bool has_counts(const sw_optimizer *o)
{
    return o->counts != SWI_NONE && o->model->ready;
}

/* An optimizer's counts; NULL: it has none, or no memory yet, or they are a device's and come
 * with what a run leaves there. */
static const double *counts_of(const sw_optimizer *o)
{
    if (!has_counts(o) || !o->model->device->backend->host_memory)
        return NULL;
    return (const double *)(const void *)(o->model->base + o->model->entries[o->counts].offset);
}

void swi_skipped_begin(const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            sw_optimizer *o = args->models[m]->optimizers[i];
            const double *counts = counts_of(o);
            o->skipped_before = counts != NULL ? counts[SWI_SKIPPED_ALL] : 0.0;
        }
}

static bool are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The first parameter or buffer of the run's models that is not finite itself. */
static const swi_entry *spoilt_entry(const sw_run_args *args, const sw_model **whose)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 1; i < args->models[m]->n_entries; i++) {
            const swi_entry *e = &args->models[m]->entries[i];
            const void *at = args->models[m]->base + e->offset;
            *whose = args->models[m];
            if ((e->role == SWI_ROLE_PARAMETER || e->role == SWI_ROLE_BUFFER) &&
                !are_finite(at, e->bytes / sw_dtype_bytes(SW_F32)))
                return e;
        }
    return NULL;
}

static int spoilt_input(const sw_run_args *args)
{
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_array *in = &args->inputs[i];
        const sw_type type = {in->dtype, SW_PLAIN, in->shape};
        if (in->dtype == SW_F32 && !are_finite(in->data, (size_t)sw_type_elements(&type)))
            return i;
    }
    return -1;
}

/* Say what may help: a smaller rate does not where the data or the model are not finite. */
static void advise(const sw_run_args *args, bool loss, char *to, size_t bytes)
{
    const sw_model *whose = NULL;
    const swi_entry *e = args != NULL ? spoilt_entry(args, &whose) : NULL;
    const int input = args != NULL ? spoilt_input(args) : -1;
    if (e != NULL)
        snprintf(to, bytes,
                 "'%s' of model %s is not finite itself: load, copy or make the model ready "
                 "again",
                 e->name, whose->name);
    else if (input >= 0)
        snprintf(to, bytes, "input %d is not finite itself: look at the data", input);
    else
        snprintf(to, bytes, "a smaller rate%s may help",
                 loss ? ", other data, or a look at logarithms, divisions and powers before "
                        "the loss"
                      : ", clipping or other data");
}

static sw_status too_many(const sw_optimizer *o, const double *counts, const sw_run_args *args)
{
    char advice[256];
    const double who = counts[SWI_SKIPPED_WHO];
    const bool is_entry = who >= 1.0 && who < (double)o->model->n_entries;
    advise(args, !is_entry, advice, sizeof advice);
    SW_FAIL(
        SW_INVALID,
        "model %s: %.0f updates in a row were skipped (%.0f in all), the last because the "
        "%s%s%s is not finite; the model is as it was before them: %s (max_skipped, no_check)",
        o->model->name, counts[SWI_SKIPPED_NOW], counts[SWI_SKIPPED_ALL],
        is_entry ? "gradient of '" : "loss",
        is_entry ? o->model->entries[(uint32_t)who].name : "", is_entry ? "'" : "", advice);
}

sw_status swi_skipped_judge(const sw_optimizer *o, const double *counts, double before,
                            const sw_run_args *args)
{
    if (o->max_skipped > 0 && counts[SWI_SKIPPED_ALL] > before &&
        counts[SWI_SKIPPED_NOW] >= (double)o->max_skipped)
        return too_many(o, counts, args);
    return SW_OK;
}

sw_status swi_skipped_end(const sw_run_args *args)
{
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t i = 0; i < args->models[m]->n_optimizers; i++) {
            const sw_optimizer *o = args->models[m]->optimizers[i];
            const double *counts = counts_of(o);
            if (counts != NULL)
                SW_TRY(swi_skipped_judge(o, counts, o->skipped_before, args));
        }
    return SW_OK;
}

sw_status sw_optimizer_skipped(const sw_optimizer *o, uint64_t *total, uint64_t *in_a_row)
{
    SW_TRY(sw_handle_check(o, SW_HANDLE_OPTIMIZER, "sw_optimizer_skipped"));
    double counts[SWI_SKIPPED_N] = {0};
    sw_status status = SW_OK;
    SW_TRY(swi_model_take(o->model));
    if (has_counts(o))
        status = swi_model_read(o->model, counts, o->model->entries[o->counts].offset,
                                sizeof counts);
    swi_model_give(o->model);
    SW_TRY(status);
    if (total != NULL)
        *total = (uint64_t)counts[SWI_SKIPPED_ALL];
    if (in_a_row != NULL)
        *in_a_row = (uint64_t)counts[SWI_SKIPPED_NOW];
    return SW_OK;
}
