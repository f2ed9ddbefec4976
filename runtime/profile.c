/* What the runtime tells the profile: a plan once per program, a record per run, and what
 * witnesses saw. Plans go out value by value and steps as they are, so that recording takes no
 * memory. */
#include "profiler/prof.h"
#include "runtime/run_internal.h"
#include "runtime/shares.h"
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 320

/* ---- public ------------------------------------------------------------------------------ */

sw_status sw_profile_create(sw_profile **out, const sw_profile_opts *given)
{
    sw_profile_opts opts = {0};
    if (out == NULL || (given != NULL && (given->size == 0 || given->size > 4096)))
        SW_FAIL(SW_INVALID, "sw_profile_create: options with their size are wanted");
    if (given != NULL)
        memcpy(&opts, given, given->size < sizeof opts ? given->size : sizeof opts);
    const sw_prof_header header = {.path = opts.path,
                                   .model = opts.model,
                                   .device = opts.device != NULL ? opts.device : "cpu",
                                   .data = opts.data,
                                   .command = opts.command,
                                   .version = sw_version(),
                                   .batch = opts.batch,
                                   .seed = opts.seed};
    return sw_prof_create(out, &header);
}

sw_status sw_profile_flush(sw_profile *profile)
{
    if (profile == NULL)
        SW_FAIL(SW_INVALID, "sw_profile_flush: a profile is wanted");
    return sw_prof_flush(profile);
}

void sw_profile_end_status(sw_profile *profile, sw_status status, const char *why)
{
    if (profile != NULL)
        sw_prof_end_status(profile,
                           status == SW_OK        ? "done"
                           : status == SW_STOPPED ? "interrupted"
                                                  : "failed",
                           why);
}

sw_status sw_profile_destroy(sw_profile *profile)
{
    return sw_prof_destroy(profile);
}

sw_status sw_exec_set_profile(sw_exec *exec, sw_profile *profile)
{
    if (exec == NULL || profile == NULL || exec->profile != NULL)
        SW_FAIL(SW_INVALID,
                "sw_exec_set_profile: a profile and an exec without one are wanted");
    exec->profile = profile;
    exec->profile_number = sw_prof_join(profile);
    return SW_OK;
}

static void copy_phases(sw_prof_phase *to, const sw_phase_info *from)
{
    for (int i = 0; i < SW_PHASES; i++)
        to[i] = (sw_prof_phase){from[i].peak_bytes, from[i].end_bytes, from[i].ns};
}

/* ---- plans ------------------------------------------------------------------------------- */

static const char *run_name(const sw_run_args *args)
{
    return args->mode == SW_EVAL ? "eval" : "train";
}

static void begin_plan(const sw_exec *exec, const sw_run_args *args, const swi_program *p)
{
    sw_plan_info info = {.size = sizeof info};
    swi_plan_info(p, args->data_bytes, &info);
    const bool batched = args->n_inputs > 0 && args->inputs[0].shape.rank > 0;
    sw_prof_plan plan = {.exec = exec->profile_number,
                         .program = p->id,
                         .run = run_name(args),
                         .batch = batched ? args->inputs[0].shape.dim[0] : -1,
                         .model_bytes = info.model_bytes,
                         .arena_bytes = info.arena_bytes,
                         .data_bytes = info.data_bytes,
                         .slot_bytes = info.slot_bytes,
                         .total_bytes = info.total_bytes,
                         .lower_bound_bytes = info.lower_bound_bytes,
                         .padding_bytes = info.padding_bytes,
                         .immediate_bytes = info.immediate_bytes,
                         .peak_bytes = info.peak_bytes,
                         .n_ops = p->n_ops,
                         .peak_position = p->peak_op,
                         .peak_op = info.peak_op};
    copy_phases(plan.phase, info.phase);
    sw_prof_plan_begin(exec->profile, &plan);
}

static void storage_value(sw_profile *profile, const swi_program *p, uint32_t s)
{
    swi_plan_names names;
    sw_plan_storage x;
    if (!swi_plan_storage(p, s, &names, &x))
        return;
    const sw_prof_value value = {.id = s,
                                 .alias = x.alias != UINT32_MAX ? x.alias : SW_PROF_NONE,
                                 .name = x.name,
                                 .layer = x.layer,
                                 .op = x.op,
                                 .role = x.role,
                                 .phase = sw_phase_name(x.phase),
                                 .segment = x.input ? "input" : "step",
                                 .bytes = x.bytes,
                                 .padding = x.padding,
                                 .offset = x.offset,
                                 .birth = x.birth,
                                 .death = x.death};
    sw_prof_plan_value(profile, &value);
}

/* What a model holds lives all the time, whether this program touches it or not. */
static void model_values(sw_profile *profile, const swi_program *p, const sw_model *model,
                         uint32_t *id)
{
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        const size_t rounded = (e->bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
        char layer[sizeof e->name];
        swi_entry_layer(model, e->name, layer, sizeof layer);
        const sw_prof_value value = {.id = (*id)++,
                                     .alias = SW_PROF_NONE,
                                     .name = e->name,
                                     .layer = layer,
                                     .role = swi_role_name(e->role),
                                     .phase = sw_phase_name(SW_DATA),
                                     .segment = "model",
                                     .bytes = e->bytes,
                                     .padding = rounded - e->bytes,
                                     .offset = e->offset,
                                     .death = p->n_ops};
        if (e->bytes > 0)
            sw_prof_plan_value(profile, &value);
    }
}

sw_status swi_profile_plan(sw_exec *exec, const sw_run_args *args, swi_program *p)
{
    if (p->profiled)
        return SW_OK;
    p->profiled = true;
    begin_plan(exec, args, p);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        char name[NAME_BYTES];
        sw_prof_plan_op(exec->profile, swi_node_name(&p->trace, &p->trace.nodes[p->ops[i].node],
                                                     name, sizeof name));
    }
    sw_prof_plan_values(exec->profile);
    for (uint32_t s = 0; s < p->trace.n_storages; s++)
        storage_value(exec->profile, p, s);
    uint32_t id = p->trace.n_storages;
    for (int m = 0; m < args->n_models; m++)
        model_values(exec->profile, p, args->models[m], &id);
    sw_prof_plan_end(exec->profile);
    return SW_OK;
}

/* ---- runs -------------------------------------------------------------------------------- */

/* The metric named "loss", NULL when there is none. */
static const double *loss_of(const sw_exec *exec)
{
    const swi_trace *t = exec->last_immediate ? &exec->immediate_trace : &exec->last->trace;
    const double *values = exec->last_immediate ? exec->immediate_metrics : exec->last->metrics;
    for (uint32_t i = 0; i < t->n_metrics; i++)
        if (strcmp(t->metrics[i].name, "loss") == 0)
            return &values[i];
    return NULL;
}

/* A program that sw_plan traced ahead is not fresh when it runs first: its plan is recorded
 * here. */
sw_status swi_profile_step(sw_exec *exec, const sw_run_args *args)
{
    const sw_run_info *info = &exec->info;
    const bool planned = !exec->last_immediate;
    if (planned)
        SW_TRY(swi_profile_plan(exec, args, exec->last));
    const bool clocked = planned && exec->op_clocks;
    const bool counted = !planned || !exec->no_phases; /* else nobody looked: as planned */
    sw_prof_step record = {.exec = exec->profile_number,
                           .program = planned ? exec->last->id : SW_PROF_NONE,
                           .step = args->step + 1,
                           .micro = args->run,
                           .run = run_name(args),
                           .mode = planned ? "planned" : "immediate",
                           .measured_by = counted ? "arena" : "plan",
                           .loss = loss_of(exec),
                           .peak_bytes =
                               counted ? info->peak_bytes : exec->last->info.peak_bytes,
                           .arena_bytes = info->arena_bytes,
                           .model_bytes = info->model_bytes,
                           .allocations = info->allocations,
                           .ns = info->ns,
                           .warm = info->warm != 0,
                           .op_ns = clocked ? exec->op_ns : NULL,
                           .n_ops = clocked ? exec->last->n_ops : 0};
    copy_phases(record.phase, counted ? info->phase : exec->last->info.phase);
    sw_prof_step_record(exec->profile, &record);
    return SW_OK;
}

sw_status swi_profile_witness(sw_exec *exec, const sw_run_args *args, swi_program *p,
                              uint32_t which, const sw_witness_info *info)
{
    static const char *const names[] = {"access", "extent", "death", "need"};
    int verdict[4];
    SW_TRY(swi_profile_plan(exec, args, p));
    for (int i = 0; i < 4; i++)
        verdict[i] = (which >> i & 1u) != 0 ? (int)(info->agreed >> i & 1u) : -1;
    const bool access = (which & SW_WITNESS_ACCESS) != 0;
    sw_prof_witness record = {.exec = exec->profile_number,
                              .program = p->id,
                              .step = args->step + 1,
                              .peak_bytes = access ? info->peak_bytes : 0,
                              .measured_by = access ? "access" : "plan",
                              .names = names,
                              .verdict = verdict,
                              .n = 4,
                              .faults = info->n_faults,
                              .first_fault = info->first_fault,
                              .ns = info->ns};
    copy_phases(record.phase, access ? info->phase : p->info.phase);
    sw_prof_witness_record(exec->profile, &record);
    return SW_OK;
}
