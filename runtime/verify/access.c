/* The access witness: which op reads and writes which storage, as the processor saw it.
 *
 * Two runs, with each storage against the guard page after it and then against the one in
 * front. First writes and last touches are compared with the planned births and deaths, every
 * touch with what the op lists, and the live bytes that follow from the touches with the
 * figures of the plan, per phase, role and layer. */
#include "runtime/verify/witness_internal.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

/* The trap: regions are closed before each op, the first touch of a region faults, and the
 * handler of SIGSEGV writes down who it was and opens the region as far as was asked. A region
 * faults at most twice per op, once for reading and once for writing. It works through any code
 * that the kernels call, and in worker threads: handlers belong to the process. Faults
 * elsewhere go to whoever had the signal before.
 *
 * The handler takes a spin lock, because threads of one region may fault together; it calls
 * nothing but mprotect. */

#if defined(__x86_64__) && defined(__linux__)
#define HAS_ACCESS_RECORDER 1
#else
#define HAS_ACCESS_RECORDER 0
#endif

static atomic_bool taken; /* one trap in the process */
static _Atomic(swi_access_recorder *) active;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static struct sigaction before;

static size_t zone_from(const swi_region *region, int side)
{
    return side < 0 ? region->from - sw_page_bytes() : side > 0 ? region->to : region->from;
}

static size_t zone_to(const swi_region *region, int side)
{
    return side < 0 ? region->from : side > 0 ? region->to + sw_page_bytes() : region->to;
}

#if HAS_ACCESS_RECORDER
/* Rooms lie one after the other with a guard on each side, so every byte belongs to one. */
static uint32_t region_at(const swi_regions *r, size_t offset)
{
    uint32_t low = 0, high = r->n_regions;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (zone_from(&r->regions[middle], -1) <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool open_zone(swi_access_recorder *recorder, size_t offset, bool write)
{
    const uint32_t region = region_at(recorder->regions, offset);
    const swi_region *r = &recorder->regions->regions[region];
    const int side = offset < r->from ? -1 : offset >= r->to ? 1 : 0;
    unsigned char *level = &recorder->level[3 * (size_t)region + (size_t)(side + 1)];
    const unsigned char wanted = write ? 2 : 1;
    if (*level >= wanted)
        return true; /* another thread was first */
    if (recorder->n_touches < recorder->cap_touches)
        recorder->touches[recorder->n_touches++] =
            (swi_touch){recorder->op, region, write, (int8_t)side};
    else
        recorder->lost++;
    *level = wanted;
    return sw_range_protect(recorder->regions->base, zone_from(r, side), zone_to(r, side),
                            write ? SW_RANGE_WRITE : SW_RANGE_READ) == SW_OK;
}

static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(signal_number, info, context);
    else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
        (void)sigaction(signal_number, &before,
                        NULL); /* the access comes again and ends there */
    else
        before.sa_handler(signal_number);
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    swi_access_recorder *recorder = atomic_load(&active);
    const uintptr_t at = (uintptr_t)info->si_addr;
    if (recorder == NULL || at < (uintptr_t)recorder->regions->base ||
        at - (uintptr_t)recorder->regions->base >= recorder->regions->bytes) {
        pass_on(signal_number, info, context);
        return;
    }
    const ucontext_t *u = context;
    const bool write = (u->uc_mcontext.gregs[REG_ERR] & 2) != 0;
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        ;
    const bool opened = open_zone(recorder, at - (uintptr_t)recorder->regions->base, write);
    atomic_flag_clear_explicit(&lock, memory_order_release);
    if (!opened)
        pass_on(signal_number, info, context);
}
#endif

static sw_status take_arrays(swi_access_recorder *recorder, const swi_regions *regions,
                             const swi_program *p)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, 3 * (size_t)regions->n_regions));
    recorder->level = block;
    /* Each operand can be read and written, and there is space for touches of regions that
     * the op does not list. */
    const size_t cap = 2 * (size_t)p->n_binds + 4096;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, cap * sizeof *recorder->touches));
    recorder->touches = block;
    recorder->cap_touches = (uint32_t)cap;
    return SW_OK;
}

static sw_status access_recorder_begin(swi_access_recorder *recorder,
                                       const swi_regions *regions, const swi_program *program)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->regions = regions;
#if HAS_ACCESS_RECORDER
    SW_TRY(take_arrays(recorder, regions, program));
    if (atomic_exchange(&taken, true))
        SW_FAIL(SW_BUSY, "the access witness is at work in another thread");
    sw_status status = sw_range_protect(regions->base, 0, regions->bytes, SW_RANGE_NONE);
    if (status == SW_OK) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        atomic_store(&active, recorder);
        if (sigaction(SIGSEGV, &ours, &before) != 0) {
            atomic_store(&active, NULL);
            status = sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                  "the access witness cannot have SIGSEGV");
        }
    }
    if (status != SW_OK)
        atomic_store(&taken, false);
    return status;
#else
    (void)program;
    (void)take_arrays;
    SW_FAIL(SW_UNSUPPORTED, "the access witness is built for Linux on x86-64");
#endif
}

static sw_status access_recorder_next(swi_access_recorder *recorder, uint32_t op)
{
    recorder->op = op;
    for (uint32_t z = 0; z < 3 * recorder->regions->n_regions; z++) {
        if (recorder->level[z] == 0)
            continue;
        const swi_region *region = &recorder->regions->regions[z / 3];
        const int side = (int)(z % 3) - 1;
        recorder->level[z] = 0;
        SW_TRY(sw_range_protect(recorder->regions->base, zone_from(region, side),
                                zone_to(region, side), SW_RANGE_NONE));
    }
    return SW_OK;
}

/* Ops that a run does together are one launch here too, at the position of the first: what the
 * second touches is first touched there, and needed until the position of the second. */
typedef struct {
    uint32_t first, last; /* op positions; SWI_NONE: never touched */
    uint32_t maker;       /* the op of the first launch that lists it */
    bool backward_reads;
} span;

typedef struct {
    swi_witness *w;
    swi_regions regions;
    swi_access_recorder recorder;
    span *spans;         /* per region */
    size_t *born, *died; /* bytes per op position, n_ops + 1 each */
    swi_life *lives;     /* per region */
} session;

/* ---- each touch -------------------------------------------------------------------------- */

static bool lists(const swi_witness *w, const uint32_t *operands, uint32_t n, uint32_t root)
{
    for (uint32_t i = 0; i < n; i++)
        if (w->root[w->program->trace.values[operands[i]].storage] == root)
            return true;
    return false;
}

static bool is_input(const swi_witness *w, uint32_t op, uint32_t root)
{
    const swi_node *node = &w->program->trace.nodes[w->program->ops[op].node];
    return lists(w, w->program->trace.operands + node->first, node->n_in, root);
}

/* The op's claim about the storage: 0 nothing, 1 it reads it, 2 it may write it. */
static int listed_as(const swi_witness *w, uint32_t op, uint32_t root)
{
    const swi_trace *t = &w->program->trace;
    const swi_node *node = &t->nodes[w->program->ops[op].node];
    const uint32_t *in = t->operands + node->first;
    if ((node->scratch != SWI_NONE && w->root[node->scratch] == root) ||
        lists(w, in + node->n_in, node->n_out, root))
        return 2;
    return is_input(w, op, root) ? 1 : 0;
}

/* The op in the same launch, or `op`. */
static uint32_t launched_with(const swi_witness *w, uint32_t op)
{
    const swi_run_op *first = &w->program->ops[op];
    return first->together != 0 ? op + first->apart : op;
}

/* Values between ops of optimizers are not kept for backward, though some run there. */
static bool is_kept_by(const swi_program *p, uint32_t made, uint32_t read)
{
    const swi_node *maker = swi_node_of(p, made);
    const swi_node *reader = swi_node_of(p, read);
    return reader->is_backward && !(reader->is_update && swi_op_is_private(maker->op));
}

static void judge(session *a, const swi_touch *touch)
{
    swi_witness *w = a->w;
    const swi_region *region = &a->regions.regions[touch->region];
    const char *what = touch->write ? "written" : "read";
    if (region->kind == SWI_REGION_NONE) {
        swi_witness_fault(w, touch->op, SWI_NONE, "a workspace that was never planned is %s",
                          what);
        return;
    }
    if (touch->side != 0) {
        swi_witness_fault(w, touch->op, region->storage, "is %s past its %s", what,
                          touch->side < 0 ? "beginning" : "end");
        return;
    }
    const uint32_t second = launched_with(w, touch->op);
    const int by_first = listed_as(w, touch->op, region->storage);
    const int by_second = listed_as(w, second, region->storage);
    const int listed = by_first > by_second ? by_first : by_second;
    const uint32_t by = by_second != 0 ? second : touch->op;
    if (touch->write && region->kind == SWI_REGION_INPUT)
        swi_witness_fault(w, touch->op, region->storage, "an input is written");
    else if (listed == 0)
        swi_witness_fault(w, touch->op, region->storage, "is %s, and the op does not list it",
                          what);
    else if (touch->write && listed == 1)
        swi_witness_fault(w, touch->op, region->storage,
                          "is written, and the op lists it as read");
    span *seen = &a->spans[touch->region];
    if (region->kind == SWI_REGION_STEP) {
        const swi_storage *x = &w->program->trace.storages[region->storage];
        if (seen->first == SWI_NONE && !touch->write)
            swi_witness_fault(w, touch->op, region->storage,
                              "is read before anything was written to it");
        if (touch->op < x->birth)
            swi_witness_fault(w, touch->op, region->storage,
                              "is touched before its birth at op %u", x->birth);
        if (touch->op > x->death)
            swi_witness_fault(w, touch->op, region->storage,
                              "is touched after its death at op %u", x->death);
    }
    if (seen->first == SWI_NONE)
        *seen = (span){touch->op, by, by_first != 0 ? touch->op : by, false};
    if (seen->last < by)
        seen->last = by;
    /* A region that one launch writes and then reads is open by then: the read is not seen. */
    const bool read = !touch->write || (by != touch->op && is_input(w, by, region->storage));
    if (read && is_kept_by(w->program, seen->maker, by))
        seen->backward_reads = true;
}

/* ---- lifetimes and roles ----------------------------------------------------------------- */

/* A repeat is a forward op, and what an update makes is its own. */
static bool makes_gradients(const swi_node *node)
{
    return node->is_backward && !node->again && !node->is_update;
}

/* Does the storage, or one that took its place, have the role? */
static bool plays(const swi_witness *w, uint32_t root, swi_role role)
{
    const swi_trace *t = &w->program->trace;
    for (uint32_t s = root; s < t->n_storages; s++)
        if (w->root[s] == root && t->storages[s].role == role)
            return true;
    return false;
}

/* The role that behaviour shows: scratch, born by backward, kept for backward. Where it shows
 * none, the storage's own. */
static swi_role role_seen(const swi_witness *w, uint32_t s, const span *seen)
{
    const swi_trace *t = &w->program->trace;
    const swi_node *node = &t->nodes[w->program->ops[seen->maker].node];
    const swi_role said = t->storages[s].role;
    if (node->scratch != SWI_NONE && w->root[node->scratch] == s)
        return SWI_ROLE_WORKSPACE;
    if (plays(w, s, SWI_ROLE_METRIC) || plays(w, s, SWI_ROLE_OUTPUT))
        return said != SWI_ROLE_WORKSPACE ? said : SWI_ROLE_ACTIVATION;
    if (makes_gradients(node))
        return SWI_ROLE_GRADIENT;
    if (plays(w, s, SWI_ROLE_INPUT))
        return said;
    if (seen->backward_reads)
        return SWI_ROLE_SAVED;
    return said == SWI_ROLE_SAVED || said == SWI_ROLE_WORKSPACE ? SWI_ROLE_ACTIVATION : said;
}

static void judge_role(swi_witness *w, uint32_t s, const span *seen)
{
    const swi_trace *t = &w->program->trace;
    const swi_node *node = &t->nodes[w->program->ops[seen->maker].node];
    const bool scratch = node->scratch != SWI_NONE && w->root[node->scratch] == s;
    if (scratch != plays(w, s, SWI_ROLE_WORKSPACE))
        swi_witness_fault(w, seen->first, s,
                          scratch ? "is scratch, and its role is %s"
                                  : "is not scratch, and its role is %s",
                          swi_role_name(t->storages[s].role));
    if (scratch || plays(w, s, SWI_ROLE_METRIC) || plays(w, s, SWI_ROLE_OUTPUT))
        return;
    const bool backward = makes_gradients(node);
    if (backward && !plays(w, s, SWI_ROLE_GRADIENT))
        swi_witness_fault(w, seen->first, s, "is made by backward, and its role is %s",
                          swi_role_name(t->storages[s].role));
    const bool kept = !backward && seen->backward_reads;
    if (!backward && plays(w, s, SWI_ROLE_SAVED) != kept && !plays(w, s, SWI_ROLE_INPUT))
        swi_witness_fault(w, seen->last, s,
                          kept ? "is kept for backward, and its role is %s"
                               : "is not read by backward, and its role is %s",
                          swi_role_name(t->storages[s].role));
}

/* The layer whose op makes it. */
static const char *layer_seen(const swi_witness *w, const span *seen)
{
    const swi_trace *t = &w->program->trace;
    return swi_string(t, t->nodes[w->program->ops[seen->maker].node].layer);
}

static void judge_life(session *a, uint32_t region)
{
    swi_witness *w = a->w;
    const uint32_t s = a->regions.regions[region].storage, n_ops = w->program->n_ops;
    const swi_storage *x = &w->program->trace.storages[s];
    span *seen = &a->spans[region];
    if (seen->first == SWI_NONE && x->bytes > 0 && swi_asks_for_more(&w->program->trace, s))
        *seen = (span){x->birth, x->death, x->birth, false};
    if (seen->first == SWI_NONE) {
        if (x->bytes > 0)
            swi_witness_fault(w, SWI_NONE, s, "is planned from op %u to %u and never touched",
                              x->birth, x->death);
        return;
    }
    const uint32_t last = swi_witness_is_result(w, s) ? n_ops : seen->last;
    if (x->birth != seen->first)
        swi_witness_fault(w, seen->first, s,
                          "is first touched here; its planned birth is op %u", x->birth);
    if (x->death != last)
        swi_witness_fault(w, seen->last, s, "is needed until op %u; its planned death is op %u",
                          last, x->death);
    judge_role(w, s, seen);
    const swi_trace *t = &w->program->trace;
    const char *is = swi_string(t, t->storages[s].layer), *made = layer_seen(w, seen);
    if (strcmp(is, made) != 0)
        swi_witness_fault(w, seen->first, s, "belongs to layer '%s', and '%s' makes it", is,
                          made);
    a->born[seen->first] += sw_size_round(x->bytes);
    a->died[last] += sw_size_round(x->bytes);
    a->lives[region] =
        (swi_life)SW_INIT(.first = seen->first, .last = last, .bytes = sw_size_round(x->bytes),
                          .role = role_seen(w, s, seen), .layer = layer_seen(w, seen));
}

static void observe_figures(session *a)
{
    const swi_program *p = a->w->program;
    const sw_run_args *args = a->w->args;
    sw_phase_info *phases = a->w->info.phase;
    size_t live = 0, peak;
    for (int i = 0; i < args->n_models; i++)
        live += args->models[i]->bytes;
    for (int i = 0; i < args->n_inputs; i++) {
        const sw_type type = {args->inputs[i].dtype, SW_PLAIN, args->inputs[i].shape};
        live += sw_size_round(sw_type_bytes(&type));
    }
    memset(phases, 0, sizeof a->w->info.phase);
    phases[SW_DATA].peak_bytes = phases[SW_DATA].end_bytes = peak = live;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        sw_phase_info *phase = &phases[swi_node_of(p, i)->phase];
        live += a->born[i];
        if (live > phase->peak_bytes)
            phase->peak_bytes = live;
        if (live > peak)
            peak = live;
        live -= a->died[i];
        phase->end_bytes = live;
    }
    a->w->info.peak_bytes = peak;
}

/* ---- the two runs ------------------------------------------------------------------------ */

static sw_status next_op(void *context, uint32_t op)
{
    session *a = context;
    return access_recorder_next(&a->recorder, op);
}

static sw_status observe(session *a)
{
    void *block;
    const size_t positions = (size_t)a->w->program->n_ops + 1;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, a->regions.n_regions * sizeof *a->spans));
    a->spans = block;
    for (uint32_t i = 0; i < a->regions.n_regions; i++)
        a->spans[i] = (span){.first = SWI_NONE};
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, 2 * positions * sizeof *a->born));
    a->born = block;
    a->died = a->born + positions;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, a->regions.n_regions * sizeof *a->lives));
    a->lives = block;

    swi_regions_fill(&a->regions, SWI_PATTERN);
    SW_TRY(access_recorder_begin(&a->recorder, &a->regions, a->w->program));
    const swi_hooks hooks = {.context = a, .before = next_op, .together = true};
    const sw_status status = swi_regions_run(a->w, &a->regions, &hooks);
    /* Close all regions and take over SIGSEGV. SW_UNSUPPORTED where faults do not say
     * whether they are writes, SW_BUSY while another thread has a trap. end() gives the
     * signal back; the regions stay as closed as they are. */
    (void)sigaction(SIGSEGV, &before, NULL);
    atomic_store(&active, NULL);
    atomic_store(&taken, false);
    SW_TRY(status);
    for (uint32_t i = 0; i < a->recorder.n_touches; i++)
        judge(a, &a->recorder.touches[i]);
    if (a->recorder.lost > 0)
        swi_witness_fault(a->w, SWI_NONE, SWI_NONE, "%u touches more than any plan lists",
                          a->recorder.lost);
    for (uint32_t i = 0; i < a->regions.n_regions; i++)
        if (a->regions.regions[i].kind == SWI_REGION_STEP)
            judge_life(a, i);
    observe_figures(a);
    return swi_witness_share_out(a->w, a->lives, a->regions.n_regions);
}

static sw_status observe_placed(swi_witness *w, int how)
{
    session a = {.w = w};
    sw_status status = swi_regions_create(&a.regions, w, how);
    if (status == SW_OK)
        status = observe(&a);
    const size_t positions = (size_t)w->program->n_ops + 1;
    sw_heap_free(a.spans, SWI_WITNESS_HEAP, a.regions.n_regions * sizeof *a.spans);
    sw_heap_free(a.born, SWI_WITNESS_HEAP, 2 * positions * sizeof *a.born);
    sw_heap_free(a.lives, SWI_WITNESS_HEAP, a.regions.n_regions * sizeof *a.lives);
    if (a.recorder.regions != NULL) {
        sw_heap_free(a.recorder.level, SWI_WITNESS_HEAP,
                     3 * (size_t)a.recorder.regions->n_regions);
        sw_heap_free(a.recorder.touches, SWI_WITNESS_HEAP,
                     a.recorder.cap_touches * sizeof *a.recorder.touches);
        memset(&a.recorder, 0, sizeof *&a.recorder);
    }
    swi_regions_free(&a.regions);
    return status;
}

sw_status swi_witness_access(swi_witness *w)
{
    const uint32_t faults = w->info.n_faults;
    SW_TRY(observe_placed(w, SWI_REGIONS_TAIL));
    const sw_plan_info *plan = &w->program->info;
    for (int i = 0; i < SW_PHASES; i++) {
        const sw_phase_info *seen = &w->info.phase[i], *said = &plan->phase[i];
        if (seen->peak_bytes != said->peak_bytes || seen->end_bytes != said->end_bytes)
            swi_witness_fault(
                w, SWI_NONE, SWI_NONE,
                "phase %s: peak %zu and end %zu bytes observed, %zu and %zu planned",
                sw_phase_name((sw_phase)i), seen->peak_bytes, seen->end_bytes, said->peak_bytes,
                said->end_bytes);
    }
    if (w->info.peak_bytes != plan->peak_bytes)
        swi_witness_fault(w, SWI_NONE, SWI_NONE, "a peak of %zu bytes observed, %zu planned",
                          w->info.peak_bytes, plan->peak_bytes);
    for (uint32_t i = 0; i < w->program->n_ops; i++) {
        const swi_run_op *op = &w->program->ops[i];
        const sw_phase phase = w->program->trace.nodes[op->node].phase;
        if (op->phase != phase)
            swi_witness_fault(w, i, SWI_NONE, "belongs to phase %s and runs in %s",
                              sw_phase_name(phase), sw_phase_name(op->phase));
    }
    SW_TRY(swi_witness_compare_breakdowns(w));
    /* A fault at one end needs no second list of the same faults. */
    return w->info.n_faults == faults ? observe_placed(w, SWI_REGIONS_HEAD) : SW_OK;
}
