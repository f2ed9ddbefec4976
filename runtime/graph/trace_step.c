/* The frame of a step function: phases, scopes, and what leaves a run. */
#include "runtime/model/model_label.h"
#include "runtime/base/common.h"
#include "runtime/graph/trace_internal.h"
#include <stdio.h>
#include <string.h>

/* ---- phases and scopes ------------------------------------------------------------------- */

void sw_set_phase(sw_ctx *ctx, sw_phase phase)
{
    if (!swi_ctx_works(ctx))
        return;
    if ((int)phase >= 0 && phase <= SW_STEP)
        ctx->phase_override = (int)phase;
    else
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "sw_set_phase: a phase must be SW_DATA (0) to SW_STEP "
                                     "(%d) (got %d)",
                                     (int)SW_STEP, (int)phase));
}

void sw_clear_phase(sw_ctx *ctx)
{
    if (swi_ctx_works(ctx))
        ctx->phase_override = -1;
}

static sw_status begin_scope(sw_ctx *ctx, const char *name)
{
    if (name == NULL || name[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_scope_begin: the name must not be NULL or empty");
    const size_t length = strlen(ctx->scope);
    const int n = snprintf(ctx->scope + length, sizeof ctx->scope - length, "%s%s",
                           length > 0 ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof ctx->scope - length) {
        ctx->scope[length] = '\0';
        SW_FAIL(SW_INVALID, "scopes nest past %d bytes", SWI_MAX_SCOPE);
    }
    swi_path_of(ctx->scope + length);
    ctx->scope_at[ctx->n_scopes++] = (uint8_t)length; /* each scope is at least one byte */
    return SW_OK;
}

void sw_scope_begin(sw_ctx *ctx, const char *name)
{
    if (swi_ctx_works(ctx))
        (void)swi_stick(ctx, begin_scope(ctx, name));
}

void sw_scope_end(sw_ctx *ctx)
{
    if (!swi_ctx_works(ctx))
        return; /* the path stays as it was when the error came */
    if (ctx->n_scopes == 0)
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "sw_scope_end: no scope is open"));
    else
        ctx->scope[ctx->scope_at[--ctx->n_scopes]] = '\0';
}

/* ---- what leaves a run ------------------------------------------------------------------- */

static void append_output(sw_ctx *ctx, const char *name, sw_value x, bool metric)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL)
        return;
    swi_trace *t = &ctx->trace;
    if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof t->metrics->name) {
        (void)swi_stick(ctx,
                        sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                     "the name of %s must have 1 to %zu bytes (got '%s')",
                                     metric ? "a metric" : "an output",
                                     sizeof t->metrics->name - 1, name != NULL ? name : ""));
        return;
    }
    if (metric && (v->type.dtype != SW_F32 || sw_type_elements(&v->type) != 1)) {
        (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "metric '%s' must be an f32 scalar", name));
        return;
    }
    swi_named *list = metric ? t->metrics : t->outputs;
    const uint32_t n = metric ? t->n_metrics : t->n_outputs;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) {
            (void)swi_stick(ctx, sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                              "two %s are named '%s'",
                                              metric ? "metrics" : "outputs", name));
            return;
        }
    if (!metric)
        x = swi_layout(ctx, x, SW_PLAIN);
    if (ctx->status != SW_OK)
        return;
    uint32_t id = x.id - 1;
    v = &t->values[id];
    /* A value that leaves owns its bytes: an input, a parameter or a piece of something larger
     * is copied. */
    const swi_storage *s = &t->storages[v->storage];
    if (s->segment != SWI_SEG_STEP || !v->contiguous || s->bytes != sw_type_bytes(&v->type)) {
        uint32_t copy = SWI_NONE;
        if (swi_apply(ctx, SW_OP_copy, &id, 1, NULL, NULL, 0, NULL, &copy) != SW_OK)
            return;
        id = copy;
    }
    void *p = metric ? t->metrics : t->outputs;
    uint32_t *cap = metric ? &t->cap_metrics : &t->cap_outputs;
    if (swi_stick(ctx, sw_heap_reserve(&p, SW_HEAP_PROGRAMS, cap, n + 1, sizeof(swi_named))) !=
        SW_OK)
        return;
    list = p;
    memset(&list[n], 0, sizeof list[n]);
    snprintf(list[n].name, sizeof list[n].name, "%s", name);
    list[n].value = id;
    swi_storage *kept = &t->storages[t->values[id].storage];
    kept->pinned = true;
    swi_set_role(ctx, t->values[id].storage, metric ? SWI_ROLE_METRIC : SWI_ROLE_OUTPUT);
    if (metric) {
        t->metrics = p;
        t->n_metrics++;
    } else {
        t->outputs = p;
        t->n_outputs++;
    }
}

/* With noise a metric may have a number for each evaluation: an output; its mean is the metric.
 */
static sw_value mean_of_evaluations(sw_ctx *ctx, const char *name, sw_value x)
{
    const swi_value *v = swi_value_at(ctx, x);
    if (v == NULL || ctx->noise == NULL || v->type.shape.rank != 1 ||
        v->type.shape.dim[0] != swi_evaluations(ctx->noise))
        return x;
    append_output(ctx, name, x, false);
    swi_sum_attrs a;
    memset(&a, 0, sizeof a);
    a.axes = 1;
    a.scale = 1.0 / (double)v->type.shape.dim[0];
    uint32_t in = x.id - 1, mean = SWI_NONE;
    ctx->noise_depth++;
    (void)swi_apply(ctx, SW_OP_sum, &in, 1, &a, NULL, 0, NULL, &mean);
    ctx->noise_depth--;
    return ctx->status == SW_OK ? swi_handle(ctx, mean) : (sw_value){0, 0};
}

void sw_metric(sw_ctx *ctx, const char *name, sw_value scalar)
{
    if (!swi_ctx_works(ctx))
        return;
    append_output(ctx, name, mean_of_evaluations(ctx, name, scalar), true);
}

void sw_output(sw_ctx *ctx, const char *name, sw_value x)
{
    append_output(ctx, name, x, false);
}
