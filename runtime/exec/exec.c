/* Execs: one worker with one step arena, and its cache of programs.
 *
 * sw_run looks its key up; a key that is not there is traced and planned. Equal traces share
 * one program, so 200 members of one shape plan once. The cache is bounded: the least recently
 * used key goes, and its program with it when no other key names it. Keys of models that were
 * destroyed, by whatever thread, go when the exec traces next. */
#include "alloc/base/assert.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "kernels/dispatch.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/run_internal.h"
#include "runtime/base/structs.h"
#include <stdio.h>
#include <string.h>

_Static_assert(offsetof(sw_exec, handle) == offsetof(swi_exec_head, handle) &&
                   offsetof(sw_exec, target) == offsetof(swi_exec_head, target),
               "an exec begins like swi_exec_head (target.h)");

static sw_status select_isa(const char *name, sw_isa *out)
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    const sw_isa best = sw_cpu_isa();
    *out = best;
    if (name == NULL)
        return SW_OK;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            if ((sw_isa)i > best)
                SW_FAIL(SW_UNSUPPORTED, "this machine has no %s (its best is %s)", name,
                        names[best]);
            *out = (sw_isa)i;
            return SW_OK;
        }
    SW_FAIL(SW_INVALID, "the instruction set must be base, avx2 or avx512 (got '%s')", name);
}

static bool is_cpu(const char *name)
{
    return name == NULL || strcmp(name, "cpu") == 0;
}

/* Check options that only devices have, and devices that are not built. */
static sw_status check_device(const sw_exec_opts *o)
{
    const char *name = o->tf32 != 0        ? "tf32"
                       : o->sync_ops != 0  ? "sync_ops"
                       : o->no_graphs != 0 ? "no_graphs"
                                           : NULL;
    if (is_cpu(o->device) && name != NULL)
        SW_FAIL(SW_INVALID, "%s must be 0 on cpu: it is for devices", name);
    if (!is_cpu(o->device) && o->op_clocks != 0 && o->sync_ops == 0)
        SW_FAIL(SW_INVALID, "op_clocks on a device needs sync_ops: without it the clock "
                            "measures launches only");
    if (!is_cpu(o->device) && strcmp(o->device, "sim") == 0)
        SW_FAIL(SW_DEVICE, "device 'sim' is not built yet: cpu and cuda are");
    return SW_OK;
}

static sw_status fill_exec(sw_exec *e, const sw_exec_opts *o)
{
    e->target.threads = o->threads == 0 || !e->target.device->backend->threads ? 1 : o->threads;
    e->target.budget = o->budget;
    e->seed = o->seed;
    e->checks = o->checks != 0;
    e->op_clocks = o->op_clocks != 0;
    e->target.opts = *o;
    e->no_phases = o->no_phases != 0 && !SW_POISON; /* there births make bytes readable */
    e->shares = o->shares != 0;
    e->max_programs = o->max_programs > 0 ? (uint32_t)o->max_programs : 4096;
    SW_TRY(select_isa(o->isa, &e->target.isa));
    sw_store *store;
    SW_TRY(swi_device_store(e->target.device, &store, 0));
    const sw_arena_opts arena = {.label = "step",
                                 .use = SW_ARENA_STEP,
                                 .store = store,
                                 .budget = o->budget,
                                 .observer = sw_watch_observer(&e->watch)};
    const sw_status status = sw_arena_create(&e->arena, &arena);
    if (status != SW_OK) {
        sw_store_destroy(store);
        return status;
    }
    SW_TRY(swi_observe_attach(e, o));
    SW_TRY(e->backend->open(e, o));
    return swi_pool_create(&e->pool, e->target.threads, 1);
}

static sw_status read_opts(sw_exec_opts *to, const sw_exec_opts *given)
{
    sw_exec_opts opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_exec_opts, &opts, given, "sw_exec_create"));
    *to = opts;
    SW_TRY(check_device(&opts));
    if (opts.threads < 0 || opts.threads > 256)
        SW_FAIL(SW_INVALID, "threads must be 1 to 256 (got %d)", opts.threads);
    if (opts.op_clocks != 0 && opts.no_phases != 0)
        SW_FAIL(SW_INVALID,
                "op_clocks and no_phases exclude each other: no_phases reads no clock");
    if (opts.shares != 0 && opts.no_phases != 0)
        SW_FAIL(SW_INVALID,
                "shares and no_phases exclude each other: no_phases counts no bytes");
    return SW_OK;
}

sw_status swi_exec_create_on(sw_exec **out, const sw_exec_opts *opts,
                             const swi_exec_backend *backend, swi_device *device)
{
    void *block;
    SW_ASSERT(backend != NULL && device != NULL && device->backend != NULL);
    SW_TRY(sw_handle_take(&block, SW_HANDLE_EXEC, sizeof(sw_exec)));
    sw_exec *exec = block;
    exec->forks = sw_fork_number();
    exec->backend = backend;
    exec->target.device = swi_device_share(device);
    const sw_status status = fill_exec(exec, opts);
    if (status != SW_OK)
        swi_exec_free(exec);
    else
        *out = exec;
    return status;
}

sw_status swi_exec_create(sw_exec **out, const sw_exec_opts *given)
{
    sw_exec_opts opts;
    swi_device *device = swi_device_cpu();
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_exec_create: out must not be NULL");
    SW_TRY(read_opts(&opts, given));
    if (opts.budget != NULL)
        SW_TRY(sw_handle_check(opts.budget, SW_HANDLE_BUDGET, "sw_exec_create"));
    if (opts.profile != NULL)
        SW_TRY(sw_handle_check(opts.profile, SW_HANDLE_PROFILE, "sw_exec_create"));
    SW_TRY(is_cpu(opts.device) ? SW_OK : swi_device_open(&device, opts.device));
    const sw_status status = swi_exec_create_on(
        out, &opts, is_cpu(opts.device) ? &swi_exec_cpu : &swi_exec_cuda, device);
    swi_device_close(device); /* the exec has its own share of it */
    return status;
}

/* A key, or the exec's last run, needs it no more. */
void swi_exec_drop_frame(sw_exec *exec, swi_frame *f)
{
    SW_ASSERT(f == NULL || f->refs > 0);
    if (f == NULL || --f->refs > 0)
        return;
    for (uint32_t i = 0; i < exec->n_frames; i++)
        if (exec->frames[i] == f)
            exec->frames[i] = NULL;
    exec->backend->forget(exec, f->program);
    swi_frame_free(f);
}

void swi_exec_set_last(sw_exec *exec, swi_frame *f)
{
    if (f != NULL)
        f->refs++;
    swi_exec_drop_frame(exec, exec->last_frame);
    exec->last_frame = f;
    exec->last = f != NULL ? f->program : NULL;
}

/* The key's bytes begin with the lives, so that both are aligned. */
static size_t block_of(size_t bytes, uint32_t n_lives)
{
    return n_lives * sizeof(swi_alive *) + bytes;
}

static void free_key(const swi_key *key)
{
    for (uint32_t i = 0; i < key->n_lives; i++)
        swi_alive_drop(key->lives[i]);
    sw_heap_free(key->lives, SW_HEAP_PROGRAMS, block_of(key->bytes, key->n_lives));
}

void swi_exec_free(sw_exec *exec)
{
    if (exec == NULL)
        return;
    swi_observe_close(exec);
    exec->backend->close(exec); /* first: what it launched uses all the rest */
    for (uint32_t i = 0; i < exec->n_keys; i++)
        free_key(&exec->keys[i]);
    for (uint32_t i = 0; i < exec->n_frames; i++)
        swi_frame_free(exec->frames[i]);
    sw_heap_free(exec->keys, SW_HEAP_PROGRAMS, exec->cap_keys * sizeof *exec->keys);
    sw_heap_free(exec->frames, SW_HEAP_PROGRAMS, exec->cap_frames * sizeof *exec->frames);
    swi_history_free(&exec->history);
    sw_heap_free(exec->op_ns, SW_HEAP_PROGRAMS, exec->cap_op_ns * sizeof *exec->op_ns);
    sw_heap_free(exec->key_scratch, SW_HEAP_PROGRAMS, exec->cap_key_scratch);
    swi_breakdown_free(&exec->immediate_breakdown);
    swi_breakdown_free(&exec->witness_breakdown);
    sw_heap_free(exec->watch.notes, SW_HEAP_PROGRAMS,
                 exec->watch.cap_notes * sizeof *exec->watch.notes);
    sw_record_log_free(exec->rec.log);
    swi_trace_free(&exec->immediate_trace);
    swi_ctx_free(&exec->ctx);
    swi_pool_destroy(exec->pool);
    swi_observe_release(exec);
    sw_arena_destroy(exec->arena);
    swi_device_close(exec->target.device);
    sw_handle_give(exec, SW_HANDLE_EXEC, sizeof *exec);
}

void sw_exec_destroy(sw_exec *exec)
{
    static const char call[] = "sw_exec_destroy";
    if (!sw_handle_ends(exec, SW_HANDLE_EXEC, call))
        return;
    if (exec->busy != 0 && exec->forks == sw_fork_number())
        (void)sw_error_set(SW_BUSY, __FILE__, __LINE__, "%s: the exec is in use by %s", call,
                           swi_owner_text(&exec->busy));
    else if (exec->member_pool != NULL)
        (void)sw_error_set(SW_BUSY, __FILE__, __LINE__,
                           "%s: groups of members use the exec; destroy them first", call);
    else
        swi_exec_free(exec);
}

sw_status sw_budget_create(sw_budget **out, size_t bytes)
{
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_budget_create: out must not be NULL");
    return sw_budget_new(out, bytes);
}

void sw_budget_destroy(sw_budget *budget)
{
    if (sw_handle_ends(budget, SW_HANDLE_BUDGET, "sw_budget_destroy"))
        sw_budget_free(budget);
}

/* ---- keys -------------------------------------------------------------------------------- */

static void put(unsigned char **to, const void *from, size_t bytes)
{
    memcpy(*to, from, bytes);
    *to += bytes;
}

/* The key as bytes, in exec->key_scratch. */
static sw_status write_key(sw_exec *exec, const sw_run_args *a, size_t *bytes)
{
    const size_t most =
        96 + (size_t)a->n_models * 24 + (size_t)a->n_inputs * (8 + 8 * SW_MAX_RANK);
    if (most > exec->cap_key_scratch) {
        SW_TRY(
            sw_heap_resize(&exec->key_scratch, SW_HEAP_PROGRAMS, exec->cap_key_scratch, most));
        exec->cap_key_scratch = most;
    }
    unsigned char *p = exec->key_scratch;
    const int32_t words[] = {(int32_t)a->mode, a->n_models, a->n_inputs};
    put(&p, &a->fn, sizeof a->fn);
    put(&p, &a->user, sizeof a->user);
    put(&p, &a->variant, sizeof a->variant);
    put(&p, words, sizeof words);
    const uint64_t noise[] = {a->es != NULL ? swi_noise_mode_of(a->es)->uid : 0,
                              a->es_slice == SWI_ES_UPDATE};
    put(&p, noise, sizeof noise);
    for (int i = 0; i < a->n_models; i++) {
        put(&p, &a->models[i]->uid, sizeof a->models[i]->uid);
        put(&p, &a->models[i]->layout_hash, sizeof a->models[i]->layout_hash);
        put(&p, &a->models[i]->frozen_hash, sizeof a->models[i]->frozen_hash);
    }
    for (int i = 0; i < a->n_inputs; i++) {
        const int32_t head[] = {(int32_t)a->inputs[i].dtype, a->inputs[i].shape.rank};
        put(&p, head, sizeof head);
        put(&p, a->inputs[i].shape.dim, (size_t)a->inputs[i].shape.rank * sizeof(int64_t));
    }
    *bytes = (size_t)(p - (unsigned char *)exec->key_scratch);
    SW_ASSERT(*bytes <= most);
    return SW_OK;
}

static uint64_t hash_key(const unsigned char *p, size_t bytes)
{
    uint64_t hash = bytes;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; bytes--, p++)
        hash = (hash ^ *p) * 0x100000001b3ull;
    return hash;
}

/* Open addressing would save little: lookups compare hashes first, and 200 members are 200
 * words. */
static swi_key *find_key(sw_exec *exec, uint64_t hash, size_t bytes)
{
    /* Members are visited in order: the key after the last one found is the best guess. */
    for (uint32_t i = 0; i < exec->n_keys; i++) {
        const uint32_t k = (exec->next_key + i) % exec->n_keys;
        swi_key *key = &exec->keys[k];
        if (key->hash == hash && key->bytes == bytes &&
            memcmp(key->key, exec->key_scratch, bytes) == 0) {
            exec->next_key = k + 1;
            return key;
        }
    }
    return NULL;
}

static void forget(sw_exec *exec, swi_key *key)
{
    SW_ASSERT(key >= exec->keys && key < exec->keys + exec->n_keys);
    swi_exec_drop_frame(exec, exec->frames[key->frame]);
    free_key(key);
    *key = exec->keys[--exec->n_keys];
}

static bool has_ended(const swi_key *key)
{
    for (uint32_t i = 0; i < key->n_lives; i++)
        if (swi_alive_has_ended(key->lives[i]))
            return true;
    return false;
}

/* Forget what no call can name any more: programs of models that were destroyed. That of the
 * last run stays, as long as it is the last. */
static void forget_ended(sw_exec *exec)
{
    const uint64_t now = swi_alive_ended();
    if (now == exec->lives_ended)
        return;
    for (uint32_t i = exec->n_keys; i-- > 0;)
        if (has_ended(&exec->keys[i]))
            forget(exec, &exec->keys[i]);
    exec->lives_ended = now;
}

static void forget_oldest(sw_exec *exec)
{
    uint32_t oldest = 0;
    SW_ASSERT(exec->n_keys > 0);
    for (uint32_t i = 1; i < exec->n_keys; i++)
        if (exec->keys[i].used < exec->keys[oldest].used)
            oldest = i;
    forget(exec, &exec->keys[oldest]);
}

static sw_status add_key(sw_exec *exec, const sw_run_args *args, uint64_t hash, size_t bytes,
                         uint32_t frame)
{
    const uint32_t n = (uint32_t)args->n_models;
    SW_ASSERT(frame < exec->n_frames && exec->frames[frame] != NULL);
    void *p = exec->keys, *block;
    SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &exec->cap_keys, exec->n_keys + 1,
                           sizeof *exec->keys));
    exec->keys = p;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, block_of(bytes, n)));
    swi_alive **lives = block;
    for (uint32_t i = 0; i < n; i++) {
        lives[i] = args->models[i]->life;
        swi_alive_hold(lives[i]);
    }
    unsigned char *key = (unsigned char *)(lives + n);
    memcpy(key, exec->key_scratch, bytes);
    exec->keys[exec->n_keys++] = (swi_key){.hash = hash,
                                           .used = exec->clock,
                                           .bytes = bytes,
                                           .key = key,
                                           .lives = lives,
                                           .n_lives = n,
                                           .frame = frame};
    return SW_OK;
}

/* ---- programs ---------------------------------------------------------------------------- */

sw_status swi_exec_trace(sw_exec *exec, const sw_run_args *args)
{
    SW_TRY(swi_ctx_begin(exec, args, false));
    args->fn(&exec->ctx, args->user);
    (void)swi_write_states(&exec->ctx); /* an error stays in the ctx */
    return swi_ctx_end(&exec->ctx);
}

/* Are both within their limits, by the same plan? A plan for another limit may run more again
 * than it must, or be too high. */
static bool same_plan(const swi_program *p, const swi_program *q)
{
    return p->height <= p->limit && q->height <= q->limit && p->height == q->height &&
           p->info.repeat_cost == q->info.repeat_cost &&
           p->info.budget_cost == q->info.budget_cost;
}

/* A slot of the table of frames: that of an equal program, or a free one. */
static sw_status slot_for(sw_exec *exec, const swi_program *fresh, uint32_t *out)
{
    uint32_t empty = SWI_NONE;
    for (uint32_t i = 0; i < exec->n_frames; i++) {
        const swi_program *p = exec->frames[i] != NULL ? exec->frames[i]->program : NULL;
        bool equal = false;
        if (p == NULL)
            empty = i;
        else if (same_plan(p, fresh) && p->hash == fresh->hash &&
                 p->n_models == fresh->n_models && p->model_bytes == fresh->model_bytes &&
                 p->slot_bytes == fresh->slot_bytes)
            SW_TRY(swi_programs_equal(p, fresh, &equal));
        if (equal) {
            *out = i;
            return SW_OK;
        }
    }
    if (empty == SWI_NONE) {
        void *p = exec->frames;
        SW_TRY(sw_heap_reserve(&p, SW_HEAP_PROGRAMS, &exec->cap_frames, exec->n_frames + 1,
                               sizeof(void *)));
        exec->frames = p;
        empty = exec->n_frames++;
        exec->frames[empty] = NULL;
    }
    *out = empty;
    return SW_OK;
}

/* The fresh frame, or that of an equal program, which then has one reference more and keeps it
 * when older keys of its go. */
static swi_frame *insert_program(sw_exec *exec, uint32_t slot, swi_frame *fresh)
{
    swi_frame *there = exec->frames[slot];
    if (there == NULL) {
        fresh->owned->id = exec->next_program_id++;
        exec->frames[slot] = fresh;
        return fresh;
    }
    sw_plan_info *info = &there->owned->info;
    if (fresh->program->info.least_repeat_cost < info->least_repeat_cost)
        info->least_repeat_cost = fresh->program->info.least_repeat_cost; /* for both limits */
    swi_frame_free(fresh);
    there->refs++;
    return there;
}

/* Trace and plan; the program is const from here on. */
static sw_status make_frame(sw_exec *exec, const sw_run_args *args, swi_frame **out)
{
    const uint64_t start = sw_clock_ns();
    SW_TRY(swi_exec_trace(exec, args));
    const uint64_t traced = sw_clock_ns();
    swi_program *p;
    SW_TRY(swi_program_create(&p, &exec->ctx, swi_arena_limit(exec, args, &exec->ctx.trace)));
    p->info.trace_ns = traced - start;
    swi_frame *f;
    sw_status status = swi_frame_create(&f, p);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    f->owned = p;
    status = exec->backend->count_launches(exec, f, &p->info.launches);
    if (status != SW_OK) {
        swi_frame_free(f);
        return status;
    }
    *out = f;
    return SW_OK;
}

static sw_status make_program(sw_exec *exec, const sw_run_args *args, uint64_t hash,
                              size_t bytes, swi_frame **out, bool *fresh)
{
    swi_frame *f;
    uint32_t slot;
    SW_TRY(make_frame(exec, args, &f));
    sw_status status = slot_for(exec, f->program, &slot);
    if (status != SW_OK) {
        swi_frame_free(f);
        return status;
    }
    f = insert_program(exec, slot, f);
    forget_ended(exec);
    /* The bound is on keys; each names one program. */
    if (exec->n_keys >= exec->max_programs)
        forget_oldest(exec);
    status = add_key(exec, args, hash, bytes, slot);
    if (status != SW_OK) {
        swi_exec_drop_frame(exec, f);
        return status;
    }
    if (!exec->checks) /* those trace before each run */
        swi_ctx_free(&exec->ctx);
    *fresh = true;
    *out = f;
    return SW_OK;
}

static sw_status same_trace(const swi_trace *then, const swi_trace *now)
{
    const uint32_t n = swi_trace_differs(then, now);
    if (n == SWI_NONE)
        return SW_OK;
    char was[128] = "nothing", is[128] = "nothing";
    if (n < then->n_nodes)
        swi_node_name(then, &then->nodes[n], was, sizeof was);
    if (n < now->n_nodes)
        swi_node_name(now, &now->nodes[n], is, sizeof is);
    SW_FAIL(SW_INVALID,
            "the step function is not pure: op %u was %s and is now %s (or differs in shape or "
            "attributes) under the same key; give another `variant`",
            n, was, is);
}

/* With checks the step function is traced again: a trace that differs under one key is an
 * error. */
static sw_status check_again(sw_exec *exec, const sw_run_args *args, const swi_program *p)
{
    swi_trace room = {0};
    const swi_trace *was_traced = NULL;
    SW_TRY(swi_exec_trace(exec, args));
    sw_status status = swi_program_traced(p, &room, &was_traced);
    if (status == SW_OK)
        status = same_trace(was_traced, &exec->ctx.trace);
    swi_trace_free(&room);
    return status;
}

sw_status swi_exec_program(sw_exec *exec, const sw_run_args *args, swi_frame **out, bool *fresh)
{
    size_t bytes = 0;
    *fresh = false;
    SW_TRY(write_key(exec, args, &bytes));
    const uint64_t hash = hash_key(exec->key_scratch, bytes);
    swi_key *key = find_key(exec, hash, bytes);
    exec->clock++;
    if (key == NULL)
        return make_program(exec, args, hash, bytes, out, fresh);
    SW_ASSERT(key->frame < exec->n_frames && exec->frames[key->frame] != NULL);
    *out = exec->frames[key->frame];
    const swi_program *p = (*out)->program;
    const size_t limit = swi_arena_limit(exec, args, &p->trace);
    if (p->limit != limit && (p->height > p->limit || p->height > limit)) {
        forget(exec, key); /* it did not fit then, or does not now: plan for what there is */
        return make_program(exec, args, hash, bytes, out, fresh);
    }
    key->used = exec->clock;
    return exec->checks ? check_again(exec, args, p) : SW_OK;
}
