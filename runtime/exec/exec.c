/* Execs: one worker with one step arena, and its cache of programs.
 *
 * sw_run looks its key up; a key that is not there is traced and planned. Equal traces share
 * one program, so 200 members of one shape plan once. The cache is bounded: the least recently
 * used key goes, and its program with it when no other key names it. Keys of models that were
 * destroyed, by whatever thread, go when the exec traces next. */
#include "alloc/base/assert.h"
#include "alloc/base/hash.h"
#include "alloc/base/message.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "kernels/dispatch.h"
#include "runtime/base/structs.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/run_internal.h"
#include "runtime/transport/ranks.h"
#include <string.h>

/* The room of a budget: how high a step arena may be in it, and the least budget that a program
 * fits.
 *
 * A budget is one number, and here it is taken apart: slots of its loaders, the models of the
 * call, what the exec itself has, and others. Slots count once, whoever plans: those that are
 * there, or what the caller says where that is more, for a loader that is still to come. An
 * amount that is said to be enough is enough as long as no one else reserves meanwhile, and one
 * byte less is refused. */

size_t swi_data_bytes(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace)
{
    return exec->backend->data_bytes(exec, args, trace);
}

/* All but the arena. */
static swi_need beside_arena(const sw_exec *exec, const sw_run_args *args,
                             const swi_trace *trace)
{
    swi_need n = {.data = swi_data_bytes(exec, args, trace)};
    size_t taken = sw_arena_height(exec->arena);
    taken += exec->backend->data_height(exec);
    for (int i = 0; i < args->n_models; i++) {
        const sw_model *m = args->models[i];
        /* A model may lie in another budget, or in none. */
        if (!(m->arena == NULL || sw_arena_budget(m->arena) == exec->target.budget))
            continue;
        n.models = sw_size_sum(n.models, m->bytes);
        if (m->arena != NULL)
            taken += sw_arena_height(m->arena);
    }
    /* Others may give back while we look. */
    n.others = sw_size_less(sw_budget_used(exec->target.budget), taken);
    n.bytes = sw_size_sum(sw_size_sum(n.others, n.models), n.data);
    return n;
}

/* Bytes of the budget that the step arena may take beside all the rest; SIZE_MAX in immediate
 * mode and without a budget. */
static size_t arena_limit(const sw_exec *exec, const sw_run_args *args, const swi_trace *trace)
{
    if (exec->arena_limit != 0)
        return exec->arena_limit;
    if (exec->target.budget == NULL || args->immediate)
        return SIZE_MAX;
    return sw_size_less(sw_budget_limit(exec->target.budget),
                        beside_arena(exec, args, trace).bytes);
}

swi_need swi_need_of(const sw_exec *exec, const sw_run_args *args, const swi_program *p)
{
    const size_t arena = args->immediate ? p->info.immediate_bytes : p->height;
    swi_need n = {.models = p->model_bytes,
                  .data = swi_data_bytes(exec, args, &p->trace),
                  .arena = arena};
    if (exec->target.budget == NULL) {
        n.data = n.data != 0 ? n.data : p->slot_bytes;
        n.bytes = sw_size_sum(sw_size_sum(n.models, n.data), arena);
        return n;
    }
    n = beside_arena(exec, args, &p->trace);
    /* it never shrinks */
    const size_t b = sw_arena_height(exec->arena);
    n.arena = arena > b ? arena : b;
    n.bytes = sw_size_sum(n.bytes, n.arena);
    return n;
}

/* ", the budget is B, U of them taken, ..." */
static void say_limit(const sw_exec *exec, char *to, size_t bytes)
{
    char card[240];
    int n = 0;
    if (exec->target.budget != NULL)
        n = sw_message(to, bytes, ", the budget is %zu", sw_budget_limit(exec->target.budget));
    if (sw_budget_used(exec->target.budget) > 0)
        n += sw_message(to + n, bytes - (size_t)n, ", %zu of them taken",
                        sw_budget_used(exec->target.budget));
    sw_message(to + n, bytes - (size_t)n, "%s",
               swi_device_free_text(exec->target.device, card, sizeof card));
}

sw_status swi_does_not_fit(const sw_exec *exec, const sw_run_args *args, const swi_program *p,
                           sw_status status)
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    swi_plan_info(p, swi_data_bytes(exec, args, &p->trace), &info);
    const swi_need need = swi_need_of(exec, args, p);
    char limit[320] = "", cause[160] = "", others[64] = "", again[160] = "";
    if (exec->target.budget == NULL) /* it was no budget: who refused says why */
        sw_message(cause, sizeof cause, "%.150s: ", sw_last_error());
    say_limit(exec, limit, sizeof limit);
    if (need.others > 0)
        sw_message(others, sizeof others, ", others in the budget %zu", need.others);
    if (info.n_repeats > 0 && !args->immediate)
        sw_message(again, sizeof again,
                   " although %u ops would run again in backward (%zu bytes without that)",
                   info.n_repeats,
                   sw_size_sum(sw_size_less(need.bytes, need.arena), info.plain_arena_bytes));
    return sw_error_set(status, __FILE__, __LINE__,
                        "%sdoes not fit: %zu bytes are needed (model %zu, arena %zu, data "
                        "%zu%s)%s%s; the peak is at %s, held by %s",
                        cause, need.bytes, need.models, need.arena, need.data, others, again,
                        limit, info.peak_op, info.holders);
}

/* ---- what callers ask of the last runs --------------------------------------------------- */

/* The run of `ago` runs ago, over. */
static sw_status find(sw_exec *exec, int ago, const char *call, swi_history_run **out)
{
    if (ago < 0 || ago >= SWI_HISTORY)
        SW_FAIL(SW_INVALID, "%s: runs ago must be 0 to %d (got %d)", call, SWI_HISTORY - 1,
                ago);
    swi_history_run *run = swi_history_at(&exec->history, ago);
    if (run == NULL || !run->there)
        SW_FAIL(SW_INVALID,
                ago == 0 ? "%s: nothing has run yet, or the last run failed"
                         : "%s: there was no run then, or it failed",
                call);
    SW_TRY(run->waits ? exec->backend->await(exec, run) : SW_OK);
    SW_ASSERT(!run->waits && run->n <= exec->history.cap);
    *out = run;
    return SW_OK;
}

static sw_status metric(sw_exec *exec, int ago, const char *name, const char *call, double *out)
{
    swi_history_run *run;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    SW_TRY(swi_given(name != NULL && out != NULL, "name and out", call));
    SW_TRY(find(exec, ago, call, &run));
    const double *value = swi_history_metric_of(run, name);
    if (value == NULL)
        SW_FAIL(SW_INVALID, "%s run had no metric '%s'", ago == 0 ? "the last" : "that", name);
    *out = *value;
    return SW_OK;
}

sw_status sw_metric_get(sw_exec *exec, const char *name, double *out)
{
    return metric(exec, 0, name, "sw_metric_get", out);
}

sw_status sw_metric_past(sw_exec *exec, int ago, const char *name, double *out)
{
    return metric(exec, ago, name, "sw_metric_past", out);
}

static void give(const sw_run_info *info, sw_run_info *out)
{
    swi_struct_write(SWI_STRUCT_sw_run_info, out, info);
}

sw_status sw_run_past(sw_exec *exec, int ago, sw_run_info *out)
{
    swi_history_run *run;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_run_past"));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_run_info, out, "sw_run_past"));
    SW_TRY(find(exec, ago, "sw_run_past", &run));
    give(&run->info, out);
    return SW_OK;
}

sw_status sw_last_run(const sw_exec *exec, sw_run_info *out)
{
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_last_run"));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_run_info, out, "sw_last_run"));
    /* The run may still have to be read, though the exec is const for the caller. */
    sw_exec *own = (sw_exec *)(uintptr_t)exec;
    swi_history_run *run = swi_history_at(&own->history, 0);
    if (run != NULL && run->waits)
        SW_TRY(own->backend->await(own, run));
    give(run != NULL ? &run->info : &own->info, out);
    return SW_OK;
}

/* ---- exec -------------------------------------------------------------------------------- */

_Static_assert(offsetof(sw_exec, handle) == offsetof(swi_exec_head, handle) &&
                   offsetof(sw_exec, target) == offsetof(swi_exec_head, target),
               "an exec begins like swi_exec_head (target.h)");

static sw_status select_isa(const sw_exec_opts *o, swi_target *target)
{
    int bf16;
    if (!sw_isa_named(o->isa, &target->isa, &bf16))
        SW_FAIL(SW_INVALID,
                "the instruction set must be base, avx2, avx512, avx512-bf16 or amx (got '%s')",
                o->isa);
    if (o->isa != NULL && (target->isa > sw_cpu_isa() || (bf16 & ~sw_cpu_bf16()) != 0))
        SW_FAIL(SW_UNSUPPORTED, "this machine has no %s (its best is %s)", o->isa,
                sw_isa_best());
    if (o->compute != SW_BF16)
        return SW_OK;
    target->order = target->device->backend->host_memory ? o->bf16_order : SW_ORDER_CUDA;
    if (target->order == SW_ORDER_CUDA)
        return SW_OK;
    if (target->order == SW_ORDER_NONE)
        target->order = (sw_cpu_bf16() & SW_BF16_AMX) != 0 ? SW_ORDER_TILE : SW_ORDER_PAIR;
    target->way = sw_order_way(target->order, bf16, &target->no_tiles);
    return SW_OK;
}

static bool is_cpu(const char *name)
{
    return name == NULL || strcmp(name, "cpu") == 0;
}

static sw_status fill_exec(sw_exec *e, const sw_exec_opts *o)
{
    e->target.threads = o->threads == 0 || !e->target.device->backend->threads ? 1 : o->threads;
    e->target.budget = o->budget;
    e->seed = o->seed;
    e->checks = o->checks != 0;
    e->op_clocks = o->op_clocks != 0;
    e->target.opts = *o;
    e->target.ranks = o->ranks;
    e->target.shards = o->shards > 0 ? o->shards : swi_ranks_size(o->ranks);
    e->target.shards_here = e->target.shards / swi_ranks_size(o->ranks);
    e->no_phases = o->no_phases != 0 && !SW_POISON; /* there births make bytes readable */
    e->shares = o->shares != 0;
    e->max_programs = o->max_programs > 0 ? (uint32_t)o->max_programs : 4096;
    SW_TRY(select_isa(o, &e->target));
    sw_store *store;
    SW_TRY(swi_device_store(e->target.device, &store, 0));
    const sw_arena_opts arena =
        SW_INIT(.label = "step", .use = SW_ARENA_STEP, .store = store, .budget = o->budget,
                .observer = sw_watch_observer(&e->watch));
    SW_TRY(sw_arena_create(&e->arena, &arena));
    SWI_ASK(attach, e, o);
    SW_TRY(e->backend->open(e, o));
    return swi_pool_create(&e->pool, e->target.threads, 1);
}

sw_status swi_shards_check(int shards, int ranks)
{
    const int each = shards / ranks;
    if (shards < 0 || shards > SWI_SHARDS_MOST)
        SW_FAIL(SW_INVALID, "shards must be 0 to %d (got %d)", SWI_SHARDS_MOST, shards);
    if (shards > 0 && ranks > 1 && (shards % ranks != 0 || (each & (each - 1)) != 0))
        SW_FAIL(SW_INVALID,
                "shards must be %d times 1, 2, 4, 8, ..., since there are %d ranks (got %d)",
                ranks, ranks, shards);
    return SW_OK;
}

static sw_status read_opts(sw_exec_opts *to, const sw_exec_opts *given)
{
    sw_exec_opts opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_exec_opts, &opts, given, "sw_exec_create"));
    *to = opts;
    /* Check options that only devices have, and devices that are not built. */
    const char *name = opts.tf32 != 0        ? "tf32"
                       : opts.sync_ops != 0  ? "sync_ops"
                       : opts.no_graphs != 0 ? "no_graphs"
                                             : NULL;
    if (is_cpu(opts.device) && name != NULL)
        SW_FAIL(SW_INVALID, "%s must be 0 on cpu: it is for devices", name);
    if (!is_cpu(opts.device) && opts.op_clocks != 0 && opts.sync_ops == 0)
        SW_FAIL(SW_INVALID, "op_clocks on a device needs sync_ops: without it the clock "
                            "measures launches only");
    if (!is_cpu(opts.device) && strcmp(opts.device, "sim") == 0)
        SW_FAIL(SW_DEVICE, "device 'sim' is not built yet: cpu and cuda are");

    if (opts.compute != SW_F32 && opts.compute != SW_BF16)
        SW_FAIL(SW_INVALID, "compute must be SW_F32 or SW_BF16 (got %s)",
                sw_dtype_name(opts.compute));
    if ((unsigned)opts.bf16_order > SW_ORDER_TILE ||
        (opts.bf16_order != SW_ORDER_NONE && opts.compute != SW_BF16))
        SW_FAIL(SW_INVALID,
                opts.compute != SW_BF16
                    ? "bf16_order must be 0 where compute is SW_F32 (got %d)"
                    : "bf16_order must be 0, SW_ORDER_PAIR or "
                      "SW_ORDER_TILE (got %d)",
                (int)opts.bf16_order);
    if (opts.bf16_order != SW_ORDER_NONE && !is_cpu(opts.device))
        SW_FAIL(SW_INVALID, "bf16_order must be 0 on %s: its library has an order of its own",
                opts.device);
    if (opts.threads < 0 || opts.threads > 256)
        SW_FAIL(SW_INVALID, "threads must be 1 to 256 (got %d)", opts.threads);
    if ((opts.shards > 1 || opts.ranks != NULL) && !is_cpu(opts.device))
        SW_FAIL(SW_UNSUPPORTED, "shards and ranks are there on cpu alone (got device '%s')",
                opts.device);
    if (opts.ranks != NULL)
        SW_TRY(sw_handle_check(opts.ranks, SW_HANDLE_RANKS, "sw_exec_create"));
    SW_TRY(swi_shards_check(opts.shards, swi_ranks_size(opts.ranks)));
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
    sw_exec *exec;
    SW_ASSERT(backend != NULL && device != NULL && device->backend != NULL);
    SW_TRY(sw_handle_take(&exec, SW_HANDLE_EXEC, sizeof(sw_exec)));
    exec->forks = sw_fork_number();
    exec->backend = backend;
    exec->target.device = swi_device_share(device);
    const sw_status status = fill_exec(exec, opts);
    return SW_GIVE(status, out, exec, swi_exec_free);
}

sw_status swi_exec_create(sw_exec **out, const sw_exec_opts *given)
{
    sw_exec_opts opts;
    swi_device *device = swi_device_cpu();
    SW_TRY(swi_given(out != NULL, "out", "sw_exec_create"));
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
    SWI_TELL(close, exec);
    exec->backend->close(exec); /* first: what it launched uses all the rest */
    for (uint32_t i = 0; i < exec->n_keys; i++)
        free_key(&exec->keys[i]);
    for (uint32_t i = 0; i < exec->n_frames; i++)
        swi_frame_free(exec->frames[i]);
    sw_heap_free(exec->keys, SW_HEAP_PROGRAMS, exec->cap_keys * sizeof *exec->keys);
    sw_heap_free(exec->frames, SW_HEAP_PROGRAMS, exec->cap_frames * sizeof *exec->frames);
    sw_heap_free(exec->history.metrics, SW_HEAP_PROGRAMS,
                 SWI_HISTORY * exec->history.cap * sizeof *exec->history.metrics);
    memset(&exec->history, 0, sizeof *&exec->history);
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
    SWI_TELL(release, exec);
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
    SW_TRY(swi_given(out != NULL, "out", "sw_budget_create"));
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
        100 + (size_t)a->n_models * 24 + (size_t)a->n_inputs * (8 + 8 * SW_MAX_RANK);
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
    const int32_t later = a->run % (uint32_t)exec->target.shards_here > 0;
    put(&p, &later, sizeof later);
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
        hash = sw_hash_word(hash, word);
    }
    return sw_fnv64(hash, p, bytes);
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

static sw_status add_key(sw_exec *exec, const sw_run_args *args, uint64_t hash, size_t bytes,
                         uint32_t frame)
{
    const uint32_t n = (uint32_t)args->n_models;
    SW_ASSERT(frame < exec->n_frames && exec->frames[frame] != NULL);
    void *block;
    SW_TRY(sw_heap_reserve(&exec->keys, SW_HEAP_PROGRAMS, &exec->cap_keys, exec->n_keys + 1));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, block_of(bytes, n)));
    swi_alive **lives = block;
    for (uint32_t i = 0; i < n; i++) {
        lives[i] = args->models[i]->life;
        swi_alive_hold(lives[i]);
    }
    unsigned char *key = (unsigned char *)(lives + n);
    memcpy(key, exec->key_scratch, bytes);
    exec->keys[exec->n_keys++] =
        (swi_key)SW_INIT(.hash = hash, .used = exec->clock, .bytes = bytes, .key = key,
                         .lives = lives, .n_lives = n, .frame = frame);
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
        SW_TRY(sw_heap_reserve(&exec->frames, SW_HEAP_PROGRAMS, &exec->cap_frames,
                               exec->n_frames + 1));
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
    SW_TRY(swi_program_create(&p, &exec->ctx, arena_limit(exec, args, &exec->ctx.trace)));
    p->info.trace_ns = traced - start;
    swi_frame *f;
    sw_status status = swi_frame_create(&f, p);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    f->owned = p;
    status = exec->backend->count_launches(exec, f, &p->info.launches);
    return SW_GIVE(status, out, f, swi_frame_free);
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
    if (exec->n_keys >= exec->max_programs) {
        uint32_t oldest = 0;
        SW_ASSERT(exec->n_keys > 0);
        for (uint32_t i = 1; i < exec->n_keys; i++)
            if (exec->keys[i].used < exec->keys[oldest].used)
                oldest = i;
        forget(exec, &exec->keys[oldest]);
    }
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
    const size_t limit = arena_limit(exec, args, &p->trace);
    if (p->limit != limit && (p->height > p->limit || p->height > limit)) {
        forget(exec, key); /* it did not fit then, or does not now: plan for what there is */
        return make_program(exec, args, hash, bytes, out, fresh);
    }
    key->used = exec->clock;
    return exec->checks ? check_again(exec, args, p) : SW_OK;
}

sw_status swi_run_sent(sw_exec *exec, const sw_run_args *given, int ranks, uint64_t *out)
{
    swi_frame *f;
    bool fresh;
    sw_run_args args;
    SW_TRY(swi_read_args(&args, given, false, "sw_plan"));
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = swi_exec_program(exec, &args, &f, &fresh);
    if (status == SW_OK)
        *out = swi_program_sent(f->program, ranks);
    swi_leave(exec, &args);
    return status;
}
