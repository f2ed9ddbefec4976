/* Zeroth-order training (sw_zo): options, and the step. MeZO: Malladi et al. 2023; LOZO: Chen
 * et al. 2024. A step is three moves of the parameters and two runs of the caller's; nothing is
 * kept of it but its slope c, so the most bytes that live at one time are those of a run. */
#include "alloc/base/mem.h"
#include "runtime/base/structs.h"
#include "runtime/population/es/zo_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- options ----------------------------------------------------------------------------- */

static sw_status range(float x, float least, bool above, const char *call, const char *what)
{
    if (!isfinite(x) || x < least || (above && x == least))
        SW_FAIL(SW_INVALID, "%s: %s must be finite and %s 0 (got %g)", call, what,
                above ? "above" : "at least", (double)x);
    return SW_OK;
}

sw_status swi_zo_rate(const swi_zo_rule *rule, uint64_t step, float *out)
{
    if (rule->schedule.kind != NULL)
        return sw_schedule_at(&rule->schedule, step, out);
    *out = rule->lr;
    return SW_OK;
}

sw_status swi_zo_check(const swi_zo_rule *r, const char *call)
{
    float rate;
    SW_TRY(range(r->eps, 0.0f, true, call, "eps"));
    SW_TRY(range(r->lr, 0.0f, false, call, "lr"));
    SW_TRY(range(r->weight_decay, 0.0f, false, call, "weight_decay"));
    if (r->rank < 0 || r->rank > SWI_ZO_RANK_MAX)
        SW_FAIL(SW_INVALID, "%s: rank must be 1 to %d (got %d)", call, SWI_ZO_RANK_MAX,
                r->rank);
    return swi_zo_rate(r, 0, &rate);
}

static sw_status read_kind(const sw_zo_opts *o, swi_zo_rule *to)
{
    const bool mezo = o->kind == NULL || strcmp(o->kind, "mezo") == 0;
    if (!mezo && strcmp(o->kind, "lozo") != 0)
        SW_FAIL(SW_INVALID, "sw_zo_create: kind must be \"mezo\" or \"lozo\" (got \"%s\")",
                o->kind);
    if (mezo && (o->rank != 0 || o->window != 0))
        SW_FAIL(SW_INVALID, "sw_zo_create: rank and window are of \"lozo\" (got %d and %u)",
                o->rank, o->window);
    if (o->rank < 0)
        SW_FAIL(SW_INVALID, "sw_zo_create: rank must be 1 to %d (got %d)", SWI_ZO_RANK_MAX,
                o->rank);
    to->rank = mezo ? 0 : o->rank != 0 ? o->rank : 2;
    to->window = mezo ? 0 : o->window != 0 ? o->window : 50;
    return SW_OK;
}

/* The schedule is copied, with the library's own name of its kind. */
static sw_status read_schedule(const sw_schedule *given, swi_zo_rule *to)
{
    float rate;
    if (given == NULL)
        return SW_OK;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_schedule, &to->schedule, given, "sw_zo_create"));
    SW_TRY(sw_schedule_at(&to->schedule, 0, &rate));
    for (size_t i = 0; sw_schedule_kind(i) != NULL; i++)
        if (strcmp(sw_schedule_kind(i), given->kind) == 0)
            to->schedule.kind = sw_schedule_kind(i);
    return SW_OK;
}

static sw_status read_rule(const sw_zo_opts *o, swi_zo_rule *to)
{
    *to = (swi_zo_rule){.eps = o->eps != 0.0f ? o->eps : 0.001f,
                        .lr = o->lr != 0.0f ? o->lr : 1e-6f,
                        .weight_decay = o->weight_decay,
                        .seed = o->seed};
    SW_TRY(read_kind(o, to));
    SW_TRY(read_schedule(o->schedule, to));
    SW_TRY(swi_zo_check(to, "sw_zo_create"));
    if (o->max_steps > SWI_ZO_STEPS_MAX)
        SW_FAIL(SW_INVALID, "sw_zo_create: max_steps must be at most %llu (got %llu)",
                (unsigned long long)SWI_ZO_STEPS_MAX, (unsigned long long)o->max_steps);
    return SW_OK;
}

static size_t slopes_bytes(uint64_t steps)
{
    return (size_t)steps * sw_dtype_bytes(SW_F32);
}

sw_status sw_zo_create(sw_zo **out, sw_model *model, const sw_zo_opts *given)
{
    sw_zo_opts opts;
    swi_zo_rule rule;
    void *block, *slopes = NULL;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_zo_create: out must not be NULL");
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_zo_create"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_zo_opts, &opts, given, "sw_zo_create"));
    SW_TRY(read_rule(&opts, &rule));
    SW_TRY(sw_handle_take(&block, SW_HANDLE_ZO, sizeof(sw_zo)));
    sw_zo *zo = block;
    const sw_status status = opts.max_steps > 0 ? sw_heap_alloc(&slopes, SW_HEAP_RECORDS,
                                                                slopes_bytes(opts.max_steps))
                                                : SW_OK;
    if (status != SW_OK) {
        sw_handle_give(zo, SW_HANDLE_ZO, sizeof *zo);
        return status;
    }
    zo->model = model;
    zo->model_generation = model->handle.generation;
    zo->rule = rule;
    zo->room = opts.max_steps;
    zo->slopes = slopes;
    *out = zo;
    return SW_OK;
}

void sw_zo_destroy(sw_zo *zo)
{
    static const char call[] = "sw_zo_destroy";
    if (!sw_handle_ends(zo, SW_HANDLE_ZO, call))
        return;
    sw_heap_free(zo->slopes, SW_HEAP_RECORDS, slopes_bytes(zo->room));
    sw_handle_give(zo, SW_HANDLE_ZO, sizeof *zo);
}

uint64_t sw_zo_steps(const sw_zo *zo)
{
    return sw_handle_check(zo, SW_HANDLE_ZO, "sw_zo_steps") == SW_OK ? zo->steps : 0;
}

uint64_t sw_zo_not_finite(const sw_zo *zo)
{
    return sw_handle_check(zo, SW_HANDLE_ZO, "sw_zo_not_finite") == SW_OK ? zo->not_finite : 0;
}

/* ---- before a step ------------------------------------------------------------------ */

static sw_status check_step(const sw_zo *zo, const sw_run_args *args, const char *loss)
{
    static const char call[] = "sw_zo_step";
    bool found = false;
    if (!sw_handle_is(zo->model, SW_HANDLE_MODEL, zo->model_generation))
        SW_FAIL(SW_INVALID, "%s: the trainer's model was destroyed", call);
    if (loss == NULL)
        SW_FAIL(SW_INVALID, "%s: the name of the loss must not be NULL", call);
    if (args->es != NULL)
        SW_FAIL(SW_INVALID,
                "%s: the noise of a strategy (es) and a zeroth-order step exclude "
                "each other",
                call);
    for (int i = 0; i < args->n_models; i++)
        found |= args->models[i] == zo->model;
    if (!found)
        SW_FAIL(SW_INVALID, "%s: model %s must be among the models of the run", call,
                zo->model->name);
    if (zo->room > 0 && zo->steps == zo->room)
        SW_FAIL(SW_INVALID, "%s: the record has room for %llu steps (max_steps), and is full",
                call, (unsigned long long)zo->room);
    if (zo->steps == SWI_ZO_STEPS_MAX)
        SW_FAIL(SW_INVALID, "%s: %llu steps are the most", call,
                (unsigned long long)SWI_ZO_STEPS_MAX);
    return SW_OK;
}

/* Nothing but the moves may change the parameters. */
static sw_status refuse_updates(const swi_trace *t)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].is_update)
            SW_FAIL(SW_INVALID,
                    "sw_zo_step: the step function updates by an optimizer; a zeroth-order "
                    "step does so itself: leave sw_update and sw_accumulate out");
    return SW_OK;
}

/* And the loss must be there. */
static sw_status look_at(void *context, const swi_program *program)
{
    const swi_trace *t = &program->trace;
    const char *loss = context;
    SW_TRY(refuse_updates(t));
    for (uint32_t i = 0; i < t->n_metrics; i++)
        if (strcmp(t->metrics[i].name, loss) == 0)
            return SW_OK;
    SW_FAIL(SW_INVALID, "sw_zo_step: the step function has no metric '%s'", loss);
}

/* All memory of a step, and what the record begins with. Nothing has moved. */
static sw_status prepare(sw_zo *zo, sw_exec *exec, const sw_run_args *args, const char *loss)
{
    SW_TRY(swi_run_prepare(exec, args, look_at, (void *)(uintptr_t)loss, "sw_zo_step"));
    SW_TRY(swi_zo_has_parameters(zo->model, "sw_zo_step"));
    SW_TRY(swi_zo_prepare_move(&zo->rule, zo->model, exec, SWI_MOVE_BY_NOISE));
    SW_TRY(swi_zo_prepare_move(&zo->rule, zo->model, exec, SWI_MOVE_STEP));
    if (zo->room == 0)
        return SW_OK;
    if (zo->steps > 0) {
        if (zo->frozen != zo->model->frozen_hash)
            SW_FAIL(SW_INVALID,
                    "sw_zo_step: other parameters are frozen than in the first step of the "
                    "record");
        return SW_OK;
    }
    SW_TRY(swi_model_take(zo->model));
    zo->frozen = zo->model->frozen_hash;
    const sw_status status = swi_zo_sum_model(zo->model, &zo->before);
    swi_model_give(zo->model);
    return status;
}

/* ---- the step ---------------------------------------------------------------------------- */

static sw_status move(const sw_zo *zo, sw_exec *exec, float a)
{
    const swi_zo_move m = {.move = SWI_MOVE_BY_NOISE, .step = zo->steps, .a = a};
    return swi_zo_run_move(&zo->rule, zo->model, exec, &m);
}

/* The slope along z; 0 where a loss is not finite, or they lie too far apart for a float. */
static float slope_of(sw_zo *zo, double plus, double minus)
{
    const float c = (float)((plus - minus) / (2.0 * (double)zo->rule.eps));
    if (isfinite(plus) && isfinite(minus) && isfinite(c))
        return c;
    zo->not_finite++;
    return 0.0f;
}

/* After the first move: the runs, and the moves back and down. Both losses are asked for at
 * the end, so that a device has the second run while the first goes on. */
static sw_status go_on(sw_zo *zo, sw_exec *exec, const sw_run_args *args, const char *loss,
                       double *out)
{
    double plus, minus;
    swi_zo_move m = {.move = SWI_MOVE_STEP, .step = zo->steps, .a = zo->rule.eps};
    SW_TRY(sw_run(exec, args));
    if (args->immediate) /* that was not seen before */
        SW_TRY(refuse_updates(&exec->immediate_trace));
    SW_TRY(move(zo, exec, -2.0f * zo->rule.eps));
    SW_TRY(sw_run(exec, args));
    SW_TRY(sw_metric_past(exec, 2, loss, &plus));
    SW_TRY(sw_metric_past(exec, 0, loss, &minus));
    SW_TRY(swi_zo_rate(&zo->rule, zo->steps, &m.lr));
    const uint64_t not_finite = zo->not_finite;
    m.c = slope_of(zo, plus, minus);
    const sw_status status = swi_zo_run_move(&zo->rule, zo->model, exec, &m);
    if (status != SW_OK) {
        zo->not_finite = not_finite;
        return status;
    }
    if (zo->room > 0)
        zo->slopes[zo->steps] = m.c;
    zo->steps++;
    if (out != NULL)
        *out = 0.5 * (plus + minus);
    return SW_OK;
}

/* No one knows what is left of the perturbation. */
static sw_status damaged(sw_zo *zo, sw_status status)
{
    char text[380];
    zo->model->damaged = true;
    zo->cut = zo->steps > 0;
    snprintf(text, sizeof text, "%s", sw_last_error());
    return sw_error_set(status, __FILE__, __LINE__,
                        "%s (within a zeroth-order step: model %s must be restored)", text,
                        zo->model->name);
}

sw_status sw_zo_step(sw_zo *zo, sw_exec *exec, const sw_run_args *given, const char *loss,
                     double *out)
{
    static const char call[] = "sw_zo_step";
    sw_run_args args;
    SW_TRY(sw_handle_check(zo, SW_HANDLE_ZO, call));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_read_args(&args, given, true, call));
    SW_TRY(check_step(zo, &args, loss));
    SW_TRY(prepare(zo, exec, &args, loss));
    sw_status status = move(zo, exec, zo->rule.eps);
    if (status != SW_OK && !zo->model->damaged)
        return status;
    if (status == SW_OK)
        status = go_on(zo, exec, &args, loss, out);
    return status == SW_OK ? SW_OK : damaged(zo, status);
}
