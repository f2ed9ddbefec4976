/* The runtime's records in the profile: a plan once per program, a record per run with its
 * event log, and what witnesses saw. Plans go out value by value and steps as they are, so that
 * recording takes no memory. */
#include "alloc/base/address_map.h"
#include "alloc/base/hash.h"
#include "alloc/base/size.h"
#include "profiler/record/prof.h"
#include "profiler/record/prof_heap.h"
#include "runtime/base/structs.h"
#include "runtime/device/device.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "runtime/observe/observe.h"
#include "runtime/plan/program_internal.h"
#include <stdio.h>

/* Immediate runs in the profile: what they did is recorded as a plan is, once for each way in
 * which they went. */

/* Of all that the record says. */
static uint64_t hash_of(const swi_trace *t)
{
    uint64_t hash = swi_trace_hash(t);
    for (uint32_t i = 0; i < t->n_nodes; i++)
        hash =
            sw_hash_word(hash, (uint64_t)t->nodes[i].layer << 8 | (uint64_t)t->nodes[i].phase);
    for (uint32_t i = 0; i < t->n_storages; i++) {
        const swi_storage *s = &t->storages[i];
        hash = sw_hash_word(hash, s->bytes);
        hash = sw_hash_word(hash, s->offset);
        hash = sw_hash_word(hash, (uint64_t)s->birth << 32 | s->layer);
        hash =
            sw_hash_word(hash, (uint64_t)s->name << 32 | s->segment << 8 | (uint64_t)s->role);
    }
    for (uint32_t i = 0; i < t->n_strings; i++)
        hash = sw_hash_word(hash, (unsigned char)t->strings[i]);
    return hash;
}

static sw_status write_trace(sw_exec *exec, const sw_run_args *args, bool *there)
{
    swi_trace *t = &exec->immediate_trace;
    const uint32_t n = exec->ctx.done_ops;
    const size_t bytes = n * (sizeof(swi_run_op) + 2 * sizeof(uint32_t) + 1) + 1;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    /* The run as a program with storages that all live to its end; its lists lie at `block`. */
    swi_program p = {.trace = *t, .ops = block, .n_ops = n};
    p.layers = (uint32_t *)(void *)(p.ops + n);
    p.op_layer = p.layers + n;
    p.op_phase = (char *)(p.op_layer + n);
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n_nodes && at < n; i++)
        if (!t->nodes[i].is_view)
            p.ops[at++].node = i;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].birth != SWI_NONE)
            t->storages[s].death = n;
    swi_program_layers(&p);
    size_t slot = 0;
    for (int i = 0; i < args->n_inputs; i++)
        slot += t->storages[i].rounded;
    const sw_prof_plan head =
        SW_INIT(.exec = exec->rec.number, .program = exec->rec.n_traces, .trace = true,
                .run = swi_run_name(args), .batch = swi_run_batch(args),
                .model_bytes = exec->info.model_bytes, .arena_bytes = exec->info.arena_bytes,
                .data_bytes = args->data_bytes != 0 ? args->data_bytes : slot,
                .slot_bytes = slot, .n_ops = n);
    *there = swi_profile_program(exec->rec.profile, &head, &p, args);
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
}

/* The number of the last immediate run's trace, which is recorded where it is a new one;
 * SW_PROF_NONE where there is no room for it. */
static uint32_t profile_trace(sw_exec *exec, const sw_run_args *args)
{
    swi_recorder *r = &exec->rec;
    const uint64_t hash = sw_hash_word(hash_of(&exec->immediate_trace), args->mode);
    for (uint32_t i = 0; i < r->n_traces; i++)
        if (r->traces[i] == hash)
            return i;
    bool there = false;
    if (r->n_traces == SWI_MAX_TRACES || write_trace(exec, args, &there) != SW_OK || !there)
        return SW_PROF_NONE;
    r->traces[r->n_traces] = hash;
    return r->n_traces++;
}

#define NAME_BYTES 320
#define EVENT_CAPACITY 65536 /* 1 MiB: ten times the events of a step of a deep program */

/* ---- public ------------------------------------------------------------------------------ */

static sw_status read_opts(sw_prof_header *out, const sw_profile_opts *given, const char *call)
{
    sw_profile_opts opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_profile_opts, &opts, given, call));
    if (opts.max_bytes > 0)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: sw_profile_opts.max_bytes must be 0: a profile has no parts; .every keeps "
                "it small",
                call);
    *out =
        (sw_prof_header)SW_INIT(.path = opts.path, .model = opts.model,
                                .device = opts.device != NULL ? opts.device : "cpu",
                                .data = opts.data, .command = opts.command,
                                .version = sw_version(), .batch = opts.batch, .seed = opts.seed,
                                .event_room = opts.events == 0      ? 0
                                              : opts.event_room > 0 ? opts.event_room
                                                                    : EVENT_CAPACITY,
                                .every = opts.every, .steps = opts.steps,
                                .budget_bytes = opts.budget_bytes, .normalise = opts.normalise);
    return SW_OK;
}

sw_status sw_profile_create(sw_profile **out, const sw_profile_opts *opts)
{
    sw_prof_header header;
    SW_TRY(swi_given(out != NULL, "out", "sw_profile_create"));
    SW_TRY(read_opts(&header, opts, "sw_profile_create"));
    return sw_prof_create(out, &header);
}

sw_status sw_profile_flush(sw_profile *profile)
{
    SW_TRY(sw_handle_check(profile, SW_HANDLE_PROFILE, "sw_profile_flush"));
    return sw_prof_flush(profile);
}

sw_status sw_profile_sync(sw_profile *profile)
{
    SW_TRY(sw_handle_check(profile, SW_HANDLE_PROFILE, "sw_profile_sync"));
    return sw_prof_sync(profile);
}

void sw_profile_end_status(sw_profile *profile, sw_status status, const char *why)
{
    if (sw_handle_check(profile, SW_HANDLE_PROFILE, "sw_profile_end_status") == SW_OK)
        sw_prof_end_status(profile,
                           status == SW_OK        ? "done"
                           : status == SW_STOPPED ? "interrupted"
                                                  : "failed",
                           why);
}

sw_status sw_profile_destroy(sw_profile *profile)
{
    static const char call[] = "sw_profile_destroy";
    if (profile == NULL)
        return SW_OK;
    SW_TRY(sw_handle_may_end(profile, SW_HANDLE_PROFILE, call, SW_FRAME));
    return sw_prof_destroy(profile);
}

static sw_status join(sw_exec *exec, sw_profile *profile)
{
    SW_TRY(sw_prof_check_fork(profile));
    const uint32_t capacity = sw_prof_event_capacity(profile);
    if (capacity > 0 && exec->no_phases)
        SW_FAIL(
            SW_INVALID,
            "no_phases and a profile of events exclude each other: no_phases counts no bytes");
    if (capacity > 0)
        SW_TRY(sw_record_log_create(&exec->rec.log, capacity, sw_prof_start_ns(profile)));
    exec->rec.profile = profile;
    exec->rec.profile_generation = ((const sw_handle *)(const void *)profile)->generation;
    exec->rec.number = sw_prof_join(profile);
    swi_profile_device(exec, false);
    return SW_OK;
}

sw_status sw_exec_set_profile(sw_exec *exec, sw_profile *profile)
{
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_exec_set_profile"));
    SW_TRY(sw_handle_check(profile, SW_HANDLE_PROFILE, "sw_exec_set_profile"));
    if (exec->rec.profile != NULL)
        SW_FAIL(SW_INVALID, "sw_exec_set_profile: the exec has a profile already");
    return join(exec, profile);
}

static void copy_phases(sw_prof_phase *to, const sw_phase_info *from)
{
    for (int i = 0; i < SW_PHASES; i++)
        to[i] = (sw_prof_phase){from[i].peak_bytes, from[i].end_bytes, from[i].ns};
}

/* ---- plans ------------------------------------------------------------------------------- */

const char *swi_run_name(const sw_run_args *args)
{
    return args->mode == SW_EVAL ? "eval" : "train";
}

int64_t swi_run_batch(const sw_run_args *args)
{
    const bool batched = args->n_inputs > 0 && args->inputs[0].shape.rank > 0;
    return batched ? args->inputs[0].shape.dim[0] : -1;
}

/* Images lie in blocks of sixteen: what is left over of the last block holds none. A storage's
 * first value is the one that it was made for. */
static size_t empty_lanes(const swi_program *p)
{
    const swi_trace *t = &p->trace;
    size_t sum = 0;
    uint32_t next = 0; /* storages are numbered as their first values come */
    for (uint32_t v = 0; v < t->n_values; v++) {
        const uint32_t s = t->values[v].storage;
        if (s < next)
            continue;
        next = s + 1;
        const swi_storage *x = &t->storages[s];
        sw_type plain = t->values[v].type;
        const size_t bytes = sw_type_bytes(&plain);
        plain.layout = SW_PLAIN;
        if (swi_takes_part(t, s) && x->birth <= p->peak_op && x->death >= p->peak_op)
            sum += bytes - sw_type_bytes(&plain);
    }
    return sum;
}

static size_t model_padding(const sw_run_args *args)
{
    size_t sum = 0;
    for (int m = 0; m < args->n_models; m++) {
        sum += args->models[m]->bytes;
        for (uint32_t i = 1; i < args->models[m]->n_entries; i++)
            sum -= args->models[m]->entries[i].bytes;
    }
    return sum;
}

sw_prof_plan swi_profile_head(uint32_t exec, size_t data_bytes, const sw_run_args *args,
                              const swi_program *p)
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    swi_plan_info(p, data_bytes, &info);
    sw_prof_plan plan =
        SW_INIT(.exec = exec, .program = p->id, .run = swi_run_name(args),
                .batch = swi_run_batch(args), .model_bytes = info.model_bytes,
                .arena_bytes = info.arena_bytes, .data_bytes = info.data_bytes,
                .slot_bytes = info.slot_bytes, .total_bytes = info.total_bytes,
                .lower_bound_bytes = info.lower_bound_bytes,
                .program_host_bytes = info.program_host_bytes,
                .padding_bytes = info.padding_bytes, .lanes_bytes = empty_lanes(p),
                .model_padding_bytes = model_padding(args),
                .immediate_bytes = info.immediate_bytes, .peak_bytes = info.peak_bytes,
                .n_ops = p->n_ops, .peak_position = p->peak_op, .peak_op = p->info.peak_op);
    copy_phases(plan.phase, info.phase);
    return plan;
}

bool swi_profile_program(sw_profile *to, const sw_prof_plan *head, const swi_program *p,
                         const sw_run_args *args)
{
    const swi_trace *t = &p->trace;
    sw_prof_plan_begin(to, head);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        char name[NAME_BYTES];
        sw_prof_plan_name(to, swi_node_name(t, &t->nodes[p->ops[i].node], name, sizeof name));
    }
    sw_prof_plan_layers(to);
    for (uint32_t i = 0; i < p->n_layers; i++)
        sw_prof_plan_name(to, swi_string(t, p->layers[i]));
    sw_prof_plan_values(to, p->op_layer, p->op_phase, p->n_ops);
    for (uint32_t s = 0; s < t->n_storages; s++) {
        swi_plan_names names;
        sw_tensor tensor;
        if (swi_plan_tensor(p, s, &names, &tensor))
            sw_prof_plan_value(to, &tensor);
    }
    uint32_t id = t->n_storages;
    for (int m = 0; m < args->n_models; m++) {
        /* Tensors of a model live all the time, whether this program touches them or not. */
        const sw_model *model = args->models[m];
        for (uint32_t j = 1; j < model->n_entries; j++) {
            const swi_entry *e = &model->entries[j];
            const size_t rounded = sw_size_round(e->bytes);
            char layer[SWI_SHOWN_BYTES], name[SWI_SHOWN_BYTES];
            swi_entry_layer(args, model, e->name, layer);
            const sw_tensor value =
                SW_INIT(.id = (id)++, .alias = SW_TENSOR_NONE,
                        .name = swi_entry_shown(args, model, e->name, name), .layer = layer,
                        .role = swi_role_name(e->role), .phase = sw_phase_name(SW_DATA),
                        .dtype = sw_dtype_name(e->dtype), .segment = SW_SEGMENT_MODEL,
                        .bytes = e->bytes, .padding = rounded - e->bytes, .offset = e->offset,
                        .death = p->n_ops);
            if (e->bytes > 0)
                sw_prof_plan_value(to, &value);
        }
    }
    return sw_prof_plan_end(to);
}

void swi_profile_plan(sw_exec *exec, const sw_run_args *args, swi_frame *f)
{
    if (f->profiled)
        return;
    f->profiled = true;
    const sw_prof_plan head = swi_profile_head(
        exec->rec.number, swi_data_bytes(exec, args, &f->program->trace), args, f->program);
    (void)swi_profile_program(exec->rec.profile, &head, f->program, args);
}

sw_status sw_profile_least(sw_exec *exec, const sw_run_args *args, int n,
                           const sw_profile_opts *opts, size_t *out)
{
    (void)opts;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_profile_least"));
    if (out == NULL || n < 0 || (n > 0 && args == NULL))
        SW_FAIL(SW_INVALID, "sw_profile_least: out and args must not be NULL, n not negative");
    SW_FAIL(SW_UNSUPPORTED, "sw_profile_least: a profile has no parts; sw_profile_opts.every "
                            "keeps it small");
}

/* ---- runs -------------------------------------------------------------------------------- */

/* Whether step or evaluation `n`, counted from 1, has records. */
static bool is_sampled_out(const sw_exec *exec, uint64_t n)
{
    return n > 1 && n % sw_prof_every(exec->rec.profile) != 0;
}

static void begin(sw_exec *exec, const sw_run_args *args, uint64_t start_ns)
{
    if (exec->rec.profile == NULL)
        return;
    swi_recorder *r = &exec->rec;
    r->start_ns = start_ns;
    if (args->mode == SW_EVAL)
        r->sampled_out = is_sampled_out(exec, ++r->evals);
    else
        r->sampled_out = is_sampled_out(exec, args->run == 0 ? ++r->steps : r->steps);
    exec->watch.log = r->sampled_out ? NULL : r->log;
    if (exec->watch.log != NULL)
        sw_record_begin(r->log, args->step + 1, start_ns);
}

/* A program that sw_plan traced ahead is not fresh when it runs first: its plan is recorded
 * here. */
static void end(sw_exec *exec, const sw_run_args *args, bool went_well)
{
    if (exec->rec.profile == NULL)
        return;
    swi_history_run *run = swi_history_at(&exec->history, 0);
    if (went_well && run->waits) { /* a device's clocks and metrics come with its end */
        went_well = exec->backend->await(exec, run) == SW_OK;
        exec->info = run->info;
    }
    if (went_well) {
        const bool planned = !exec->last_immediate;
        if (planned)
            swi_profile_plan(exec, args, exec->last_frame);
        const uint32_t program = planned ? exec->last->id : SW_PROF_NONE;
        const uint32_t trace =
            planned || exec->rec.sampled_out ? SW_PROF_NONE : profile_trace(exec, args);
        const sw_run_info *info = &exec->info;
        const bool clocked = planned && exec->op_clocks;
        const bool counted = /* else no one looked: as planned */
            !planned || (!exec->no_phases && !exec->info.replayed);
        const sw_record_log *log = exec->watch.log;
        const sw_prof_log events = {.log = log != NULL ? log->ring : NULL,
                                    .n = log != NULL ? log->n : 0,
                                    .dropped = log != NULL ? log->dropped : 0};
        sw_prof_step record =
            SW_INIT(.exec = exec->rec.number, .program = program, .trace = trace,
                    .step = args->step + 1, .micro = args->run, .at_ns = exec->rec.start_ns,
                    .sampled_out = exec->rec.sampled_out, .run = swi_run_name(args),
                    .mode = planned ? "planned" : "immediate",
                    .measured_by = counted ? "arena" : "plan",
                    .loss = swi_history_metric_of(swi_history_at(&exec->history, 0), "loss"),
                    .peak_bytes = counted ? info->peak_bytes : exec->last->info.peak_bytes,
                    .arena_bytes = info->arena_bytes, .model_bytes = info->model_bytes,
                    .allocations = info->allocations, .ns = info->ns, .warm = info->warm != 0,
                    .op_ns = clocked ? exec->op_ns : NULL,
                    .n_ops = clocked ? exec->last->n_ops : 0,
                    .events = log != NULL ? &events : NULL);
        copy_phases(record.phase,
                    counted || info->replayed ? info->phase : exec->last->info.phase);
        sw_prof_step_record(exec->rec.profile, &record);
    }
    exec->watch.log = NULL;
}

sw_status swi_profile_witness(sw_exec *exec, const sw_run_args *args, swi_frame *f,
                              uint32_t which, const sw_witness_info *info)
{
    static const char *const names[] = {"access", "extent", "death", "need"};
    int witness_results[4];
    const swi_program *p = f->program;
    swi_profile_plan(exec, args, f);
    for (int i = 0; i < 4; i++)
        witness_results[i] = (which >> i & 1u) != 0 ? (int)(info->agreed >> i & 1u) : -1;
    const bool access = (which & SW_WITNESS_ACCESS) != 0;
    sw_prof_witness record =
        SW_INIT(.exec = exec->rec.number, .program = p->id, .step = args->step + 1,
                .peak_bytes = access ? info->peak_bytes : 0,
                .measured_by = access ? "access" : "plan", .names = names,
                .witness_results = witness_results, .n = 4, .faults = info->n_faults,
                .first_fault = info->first_fault, .ns = info->ns);
    copy_phases(record.phase, access ? info->phase : p->info.phase);
    sw_prof_witness_record(exec->rec.profile, &record);
    return SW_OK;
}

static sw_status attach(sw_exec *exec, const sw_exec_opts *opts)
{
    return opts->profile != NULL ? join(exec, opts->profile) : SW_OK;
}

static void close_device(sw_exec *exec)
{
    swi_profile_device(exec, true);
}

static void plan(sw_exec *exec, const sw_run_args *args, swi_frame *frame)
{
    if (exec->rec.profile != NULL)
        swi_profile_plan(exec, args, frame);
}

const swi_observer swi_profile_observer =
    SW_INIT(.name = "profile", .attach = attach, .close = close_device, .begin = begin,
            .plan = plan, .denied = swi_profile_denied, .end = end);

/* ---- profile device ---------------------------------------------------------------------- */

/* Records of the card that an exec works on. */

typedef struct {
    const void *owner;
    sw_prof_device *out;
} summing;

static void add_arena(void *context, const sw_address_range *c)
{
    const summing *s = context;
    if (c->kind != SW_ADDRESS_ARENA || c->device != s->owner)
        return;
    s->out->committed_bytes[c->use] += c->committed_bytes;
    s->out->promised_bytes[c->use] += c->promised_bytes;
}

/* The name is put into `name`, 16 bytes; the card's stays the device's. */
static sw_status look(swi_device *device, char *name, sw_prof_device *out)
{
    sw_cuda_info now;
    sw_heap_stats pinned;
    SW_TRY(device->api->info(device->card, &now));
    sw_heap_read(SW_HEAP_PINNED, &pinned);
    (void)swi_device_name(device, name, 16);
    *out = (sw_prof_device)SW_INIT(.name = name, .card = device->info.name, .major = now.major,
                                   .minor = now.minor, .driver = now.driver,
                                   .runtime = now.runtime, .blas = now.blas,
                                   .maps = device->memory.granularity > 0,
                                   .total_bytes = now.total_bytes,
                                   .open_bytes = device->info.open_bytes,
                                   .free_bytes = now.free_bytes, .pinned_bytes = pinned.bytes);
    out->graph_bytes = swi_device_graphs(device, 0, 0);
    sw_address_map_visit(add_arena, &(summing){device->memory.context, out});
    return SW_OK;
}

sw_status sw_exec_device(const sw_exec *exec, sw_device_info *out)
{
    char name[16];
    sw_prof_device d = {0};
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_exec_device"));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_device_info, out, "sw_exec_device"));
    sw_device_info info = SW_OPTS(sw_device_info, .name = "cpu");
    if (!exec->target.device->backend->host_memory) {
        SW_TRY(look(exec->target.device, name, &d));
        snprintf(info.name, sizeof info.name, "%s", d.name);
        snprintf(info.card, sizeof info.card, "%s", d.card);
        info.major = d.major;
        info.minor = d.minor;
        info.driver = d.driver;
        info.runtime = d.runtime;
        info.blas = d.blas;
        info.total_bytes = d.total_bytes;
        info.open_bytes = d.open_bytes;
        info.free_bytes = d.free_bytes;
        info.model_bytes = d.committed_bytes[SW_ARENA_MODEL];
        info.arena_bytes = d.committed_bytes[SW_ARENA_STEP];
        info.data_bytes = d.committed_bytes[SW_ARENA_DATA];
        info.unexplained_bytes = sw_prof_device_rest(&d);
        info.graph_bytes = d.graph_bytes;
        info.pinned_bytes = d.pinned_bytes;
    }
    swi_struct_write(SWI_STRUCT_sw_device_info, out, &info);
    return SW_OK;
}

void swi_profile_device(sw_exec *exec, bool ends)
{
    char name[16];
    sw_prof_device d;
    swi_recorder *r = &exec->rec;
    if (exec->target.device->backend->host_memory || r->profile == NULL || r->device_ended ||
        exec->forks != sw_fork_number() ||
        !sw_handle_is(r->profile, SW_HANDLE_PROFILE, r->profile_generation) ||
        look(exec->target.device, name, &d) != SW_OK)
        return; /* a card that has failed is asked nothing */
    d.when = ends ? "end" : "begin";
    d.exec = r->number;
    r->device_ended = ends;
    sw_prof_device_record(r->profile, &d);
}
