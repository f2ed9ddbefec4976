/* sw_witness: what all witnesses need, and their order. Each states faults; a witness without
 * one agrees with the plan. */
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "runtime/base/structs.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "runtime/observe/observe.h"
#include "runtime/verify/witness_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void swi_witness_fault(swi_witness *w, uint32_t op, uint32_t storage, const char *format, ...)
{
    if (w->info.n_faults++ > 0)
        return;
    const swi_program *p = w->program;
    char text[256], name[96];
    int n = 0;
    text[0] = '\0';
    if (op < p->n_ops)
        n = snprintf(text, sizeof text, "op %u %s: ", op,
                     swi_node_name(&p->trace, swi_node_of(p, op), name, sizeof name));
    if (storage != SWI_NONE && n >= 0 && (size_t)n < sizeof text) {
        const int m = snprintf(text + n, sizeof text - (size_t)n,
                               "%s: ", swi_storage_name(&p->trace, storage, name, sizeof name));
        n = m < 0 ? n : n + m;
    }
    if (n >= 0 && (size_t)n < sizeof text) {
        va_list list;
        va_start(list, format);
        (void)sw_message_list(text + n, sizeof text - (size_t)n, format, list);
        va_end(list);
    }
    memcpy(w->info.first_fault, text, sizeof w->info.first_fault);
}

bool swi_witness_planned(const swi_witness *w, uint32_t s)
{
    const swi_storage *x = &w->program->trace.storages[s];
    return x->segment == SWI_SEG_STEP && w->root[s] == s && x->birth != SWI_NONE &&
           x->bytes > 0;
}

bool swi_witness_is_result(const swi_witness *w, uint32_t root)
{
    const swi_trace *t = &w->program->trace;
    for (uint32_t i = 0; i < t->n_metrics; i++)
        if (w->root[t->values[t->metrics[i].value].storage] == root)
            return true;
    for (uint32_t i = 0; i < t->n_outputs; i++)
        if (w->root[t->values[t->outputs[i].value].storage] == root)
            return true;
    return false;
}

uint64_t swi_witness_hash(const swi_witness *w, uint32_t op)
{
    const sw_launch *l = swi_frame_launch(w->frame, op);
    uint64_t hash = 0x9e3779b97f4a7c15ull;
    for (int k = 0; k < l->n_out; k++) {
        const unsigned char *p = l->out[k].ptr;
        for (size_t bytes = p != NULL ? sw_type_bytes(&l->out[k].type) : 0; bytes > 0;) {
            uint64_t word = 0;
            const size_t n = bytes < sizeof word ? bytes : sizeof word;
            memcpy(&word, p, n);
            hash = (hash ^ word) * 0xd6e8feb86659fd93ull;
            hash ^= hash >> 32;
            p += n;
            bytes -= n;
        }
    }
    return hash;
}

static sw_status note_hash(void *context, uint32_t op)
{
    swi_witness *w = context;
    w->hashes[op] = swi_witness_hash(w, op);
    return SW_OK;
}

sw_status swi_witness_reference(swi_witness *w)
{
    if (w->referred)
        return SW_OK;
    SW_TRY(swi_regions_create(&w->reference, w, SWI_REGIONS_HEAD | SWI_REGIONS_APART));
    SW_TRY(sw_heap_alloc(&w->hashes, SWI_WITNESS_HEAP, w->program->n_ops * sizeof *w->hashes));
    swi_regions_fill(&w->reference, SWI_PATTERN);
    const swi_hooks hooks = {.context = w, .after = note_hash};
    SW_TRY(swi_regions_run(w, &w->reference, &hooks));
    w->referred = true;
    return SW_OK;
}

static sw_status find_roots(swi_witness *w)
{
    const swi_trace *t = &w->program->trace;
    SW_TRY(sw_heap_alloc(&w->root, SWI_WITNESS_HEAP, t->n_storages * sizeof *w->root));
    for (uint32_t s = 0; s < t->n_storages; s++)
        w->root[s] = swi_root_of(t, s);
    return SW_OK;
}

static const struct {
    uint32_t bit;
    sw_status (*run)(swi_witness *w);
} witnesses[] = {{SW_WITNESS_ACCESS, swi_witness_access},
                 {SW_WITNESS_EXTENT, swi_witness_extent},
                 {SW_WITNESS_DEATH, swi_witness_death},
                 {SW_WITNESS_NEED, swi_witness_need}};

sw_status swi_witness_frame(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                            uint32_t which, sw_witness_info *out)
{
    const uint64_t start = sw_clock_ns();
    swi_witness w = {.exec = exec, .program = frame->program, .frame = frame, .args = args};
    sw_status status = find_roots(&w);
    for (size_t i = 0; status == SW_OK && i < sizeof witnesses / sizeof *witnesses; i++) {
        if ((which & witnesses[i].bit) == 0)
            continue;
        const uint32_t faults = w.info.n_faults;
        status = witnesses[i].run(&w);
        if (status == SW_OK && w.info.n_faults == faults)
            w.info.agreed |= witnesses[i].bit;
    }
    if (status == SW_OK && (which & SW_WITNESS_ACCESS) != 0) {
        const swi_breakdown before = exec->witness_breakdown;
        exec->witness_breakdown = w.breakdown;
        w.breakdown = before; /* freed below */
    }
    swi_regions_free(&w.reference);
    sw_heap_free(w.hashes, SWI_WITNESS_HEAP,
                 w.hashes != NULL ? w.program->n_ops * sizeof *w.hashes : 0);
    swi_breakdown_free(&w.breakdown);
    sw_heap_free(w.root, SWI_WITNESS_HEAP, w.program->trace.n_storages * sizeof *w.root);
    SW_TRY(status);
    w.info.ns = sw_clock_ns() - start;
    swi_struct_write(SWI_STRUCT_sw_witness_info, out, &w.info);
    return SW_OK;
}

static sw_status witness(sw_exec *exec, const sw_run_args *args, uint32_t which,
                         sw_witness_info *out)
{
    swi_frame *frame;
    bool fresh;
    sw_witness_info info = SW_OPTS(sw_witness_info); /* the caller's may be an older one */
    SW_TRY(swi_exec_program(exec, args, &frame, &fresh));
    SW_TRY(swi_make_ready(exec, args));
    SW_TRY(swi_witness_frame(exec, frame, args, which, &info));
    swi_struct_write(SWI_STRUCT_sw_witness_info, out, &info);
    return exec->rec.profile != NULL ? swi_profile_witness(exec, args, frame, which, &info)
                                     : SW_OK;
}

sw_status sw_witness(sw_exec *exec, const sw_run_args *given, uint32_t which,
                     sw_witness_info *out)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_witness"));
    SW_TRY(swi_given(out != NULL, "out", "sw_witness"));
    if (which == 0 || (which & ~SW_WITNESS_ALL) != 0)
        SW_FAIL(SW_INVALID, "sw_witness: `which` must be bits of SW_WITNESS_ALL (got 0x%x)",
                which);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_witness_info, out, "sw_witness"));
    SW_TRY(swi_read_args(&args, given, true, "sw_witness"));
    if (!exec->target.device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "sw_witness: not supported on a device: a witness looks at "
                                "bytes that only the CPU's programs touch");
    if (args.immediate)
        SW_FAIL(SW_UNSUPPORTED, "sw_witness: immediate mode has no plan to compare with");
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = witness(exec, &args, which, out);
    swi_leave(exec, &args);
    return status;
}

/* ---- witness memory ---------------------------------------------------------------------- */

/* Rooms: one address range in which every storage of a program has pages of its own between two
 * guard pages, so that an access shows which storage it is of, and nothing overlays it. Models
 * and inputs are copies: no witness writes to the caller's. */

#define NO_SCRATCH_PAGES 256 /* space for a workspace that is not in the plan */

static bool takes_region(const swi_witness *w, uint32_t s, int how)
{
    const swi_storage *x = &w->program->trace.storages[s];
    return ((how & SWI_REGIONS_APART) != 0 || w->root[s] == s) &&
           (x->segment != SWI_SEG_STEP || x->birth != SWI_NONE);
}

static const unsigned char *origin_of(const swi_witness *w, const swi_storage *s)
{
    if (s->segment == SWI_SEG_STEP)
        return NULL;
    if (s->segment < SWI_SEG_MODEL)
        return w->args->inputs[s->segment - SWI_SEG_INPUT].data;
    return w->args->models[s->segment - SWI_SEG_MODEL]->base + s->offset;
}

/* Append a region; the range grows by its pages and one guard on each side. */
static sw_status add_region(swi_regions *r, swi_region region, int how)
{
    const size_t page = sw_page_bytes();
    const size_t holds =
        region.rounded > region.bytes ? region.rounded : sw_size_round(region.bytes);
    size_t pages;
    if (!sw_size_align(holds > 0 ? holds : 1, page, &pages) ||
        !sw_size_add(r->bytes, page, &region.from) ||
        !sw_size_add(region.from, pages, &region.to) ||
        !sw_size_add(region.to, page, &r->bytes))
        SW_FAIL(SW_NOMEM, "witness: the bytes of all storages overflow");
    /* After the rounded bytes comes the guard, also where the plan rounds too far down. */
    region.at = (how & SWI_REGIONS_TAIL) == 0 ? region.from : region.to - region.rounded;
    if (region.at < region.from)
        region.at = region.from;
    r->regions[r->n_regions++] = region;
    return SW_OK;
}

static swi_bind bind_value(const swi_regions *r, const swi_trace *t, uint32_t value)
{
    const swi_value *v = &t->values[value];
    return (swi_bind){SWI_SEG_STEP, r->regions[r->of[v->storage]].at + v->offset};
}

sw_status swi_regions_create(swi_regions *out, const swi_witness *w, int how)
{
    swi_regions *r = out;
    const uint32_t n = w->program->trace.n_storages;
    void *block;
    memset(r, 0, sizeof *r);
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, (n + 1) * sizeof *r->regions));
    r->regions = block;
    r->cap_regions = n + 1;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, n * sizeof *r->of));
    r->of = block;
    r->n_storages = n;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, w->program->n_binds * sizeof *r->binds));
    r->binds = block;
    r->n_binds = w->program->n_binds;
    const swi_trace *t = &w->program->trace;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        r->of[s] = SWI_NONE;
        if (!takes_region(w, s, how))
            continue;
        r->of[s] = r->n_regions;
        const swi_region_kind kind = x->segment == SWI_SEG_STEP   ? SWI_REGION_STEP
                                     : x->segment < SWI_SEG_MODEL ? SWI_REGION_INPUT
                                                                  : SWI_REGION_MODEL;
        SW_TRY(add_region(r,
                          (swi_region)SW_INIT(.storage = s, .kind = kind, .bytes = x->bytes,
                                              .rounded = x->rounded, .origin = origin_of(w, x)),
                          how));
    }
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (r->of[s] == SWI_NONE)
            r->of[s] = r->of[w->root[s]];
    const size_t none = NO_SCRATCH_PAGES * sw_page_bytes();
    SW_TRY(add_region(
        r,
        (swi_region){
            .storage = SWI_NONE, .kind = SWI_REGION_NONE, .bytes = none, .rounded = none},
        SWI_REGIONS_HEAD));
    for (uint32_t i = 0; i < w->program->n_ops; i++) {
        const swi_run_op *op = &w->program->ops[i];
        const swi_node *node = &t->nodes[op->node];
        swi_bind *to = r->binds + op->first + i;
        const swi_bind *planned = w->program->binds + op->first + i;
        for (uint32_t k = 0; k < op->n_buffers; k++) {
            const uint32_t value = t->operands[node->first + k];
            const bool has_room = r->of[t->values[value].storage] != SWI_NONE;
            to[k] = planned[k].segment == SWI_SEG_COUNT || !has_room
                        ? (swi_bind){SWI_SEG_COUNT, 0}
                        : bind_value(r, t, value);
        }
        const uint32_t k = op->n_buffers;
        const bool scratch = node->scratch != SWI_NONE && planned[k].segment != SWI_SEG_COUNT &&
                             r->of[node->scratch] != SWI_NONE;
        const uint32_t region = scratch ? r->of[node->scratch] : r->n_regions - 1;
        to[k] = (swi_bind){SWI_SEG_STEP, r->regions[region].at};
    }
    SW_TRY(sw_range_reserve(&block, r->bytes));
    r->base = block;
    return sw_range_commit(r->base, 0, r->bytes);
}

void swi_regions_free(swi_regions *r)
{
    sw_heap_free(r->regions, SWI_WITNESS_HEAP, r->cap_regions * sizeof *r->regions);
    sw_heap_free(r->of, SWI_WITNESS_HEAP, r->n_storages * sizeof *r->of);
    sw_heap_free(r->binds, SWI_WITNESS_HEAP, r->n_binds * sizeof *r->binds);
    sw_range_release(r->base, r->bytes);
    memset(r, 0, sizeof *r);
}

void swi_regions_load(swi_regions *r)
{
    for (uint32_t i = 0; i < r->n_regions; i++)
        if (r->regions[i].origin != NULL && r->regions[i].bytes > 0)
            memcpy(r->base + r->regions[i].at, r->regions[i].origin, r->regions[i].bytes);
}

void swi_regions_fill(swi_regions *r, unsigned char pattern)
{
    memset(r->base, pattern, r->bytes);
    swi_regions_load(r);
}

sw_status swi_regions_run(swi_witness *w, swi_regions *r, const swi_hooks *hooks)
{
    unsigned char *base[SWI_SEG_COUNT + 1] = {0};
    const swi_hooks none = {0};
    base[SWI_SEG_STEP] = r->base;
    return swi_program_execute(w->exec, w->frame, w->args, base, r->binds,
                               hooks != NULL ? hooks : &none, NULL);
}

/* The two sets may share regions differently: storages find their bytes in each. */
static bool same_bytes(const swi_regions *a, const swi_regions *b, uint32_t storage,
                       size_t offset, size_t bytes)
{
    const uint32_t x = a->of[storage], y = b->of[storage];
    return x == SWI_NONE || y == SWI_NONE ||
           memcmp(a->base + a->regions[x].at + offset, b->base + b->regions[y].at + offset,
                  bytes) == 0;
}

static uint32_t named_differ(const swi_trace *t, const swi_named *memory_list, uint32_t n,
                             const swi_regions *a, const swi_regions *b)
{
    for (uint32_t i = 0; i < n; i++) {
        const swi_value *v = &t->values[memory_list[i].value];
        if (!same_bytes(a, b, v->storage, v->offset, sw_type_bytes(&v->type)))
            return v->storage;
    }
    return SWI_NONE;
}

uint32_t swi_regions_differ(const swi_witness *w, const swi_regions *a, const swi_regions *b)
{
    const swi_trace *t = &w->program->trace;
    uint32_t s = named_differ(t, t->metrics, t->n_metrics, a, b);
    if (s == SWI_NONE)
        s = named_differ(t, t->outputs, t->n_outputs, a, b);
    for (uint32_t i = 0; i < a->n_regions && s == SWI_NONE; i++)
        if (a->regions[i].kind == SWI_REGION_MODEL &&
            !same_bytes(a, b, a->regions[i].storage, 0, a->regions[i].bytes))
            s = a->regions[i].storage;
    return s;
}

/* ---- witness breakdown ------------------------------------------------------------------- */

/* The access witness by role and by layer: what lived when, as the touches say, under the role
 * and the layer that the touches say, against the shares of the plan. */

/* Lives by the op that begins or ends them: first[op] is one of them, next[life] the next. */
typedef struct {
    uint32_t *first, *next;
} breakdown_list;

static void add(const breakdown_list *of, uint32_t op, uint32_t life)
{
    of->next[life] = of->first[op];
    of->first[op] = life;
}

static sw_status follow(swi_breakdown *to, const swi_life *lives, const breakdown_list *births,
                        const breakdown_list *deaths, uint32_t n_ops)
{
    for (uint32_t op = 0; op < n_ops; op++) {
        for (uint32_t i = births->first[op]; i != SWI_NONE; i = births->next[i])
            SW_TRY(swi_breakdown_born(to, lives[i].role, lives[i].layer, lives[i].bytes));
        swi_breakdown_mark(to);
        for (uint32_t i = deaths->first[op]; i != SWI_NONE; i = deaths->next[i])
            SW_TRY(swi_breakdown_died(to, lives[i].role, lives[i].layer, lives[i].bytes));
    }
    return SW_OK;
}

sw_status swi_witness_share_out(swi_witness *w, const swi_life *lives, uint32_t n)
{
    uint32_t *all;
    const uint32_t positions = w->program->n_ops + 1;
    const size_t words = 2 * ((size_t)positions + n);
    SW_TRY(swi_breakdown_empty(&w->breakdown));
    for (int m = 0; m < w->args->n_models; m++) {
        const sw_model *model = w->args->models[m];
        for (uint32_t i = 1; i < model->n_entries; i++) {
            const swi_entry *e = &model->entries[i];
            char layer[SWI_SHOWN_BYTES];
            swi_entry_layer(w->args, model, e->name, layer);
            SW_TRY(swi_breakdown_base(&w->breakdown, e->role, layer, sw_size_round(e->bytes)));
        }
    }

    for (int i = 0; i < w->args->n_inputs; i++) {
        const sw_type type = {w->args->inputs[i].dtype, SW_PLAIN, w->args->inputs[i].shape};
        SW_TRY(swi_breakdown_base(&w->breakdown, SWI_ROLE_INPUT, "",
                                  sw_size_round(sw_type_bytes(&type))));
    }

    swi_breakdown_begin(&w->breakdown);
    SW_TRY(sw_heap_alloc(&all, SWI_WITNESS_HEAP, words * sizeof(uint32_t)));
    const breakdown_list births = {all, all + 2 * (size_t)positions};
    const breakdown_list deaths = {all + positions, births.next + n};
    memset(all, 0xff, words * sizeof *all);
    for (uint32_t i = n; i-- > 0;) /* from the last, so that the lists begin with the first */
        if (lives[i].bytes > 0) {
            add(&births, lives[i].first, i);
            add(&deaths, lives[i].last, i);
        }
    const sw_status status = follow(&w->breakdown, lives, &births, &deaths, positions - 1);
    sw_heap_free(all, SWI_WITNESS_HEAP, words * sizeof(uint32_t));
    return status;
}

/* ---- against the plan -------------------------------------------------------------------- */

static const swi_breakdown_line *line_of(const swi_breakdown *x, bool layer, const char *name)
{
    static const swi_breakdown_line none;
    for (uint32_t i = layer ? SWI_ROLE_COUNT : 0; i < (layer ? x->n : SWI_ROLE_COUNT); i++)
        if (strcmp(x->lines[i].name, name) == 0)
            return &x->lines[i];
    return &none;
}

static void judge_line(swi_witness *w, bool layer, const swi_breakdown_line *seen,
                       const swi_breakdown_line *said)
{
    const char *name = seen->name[0] != '\0' ? seen->name : said->name;
    if (seen->at_peak == said->at_peak && seen->peak == said->peak)
        return;
    swi_witness_fault(
        w, SWI_NONE, SWI_NONE,
        "%s '%s': %zu bytes at the peak and %zu at its own observed, %zu and %zu planned",
        layer ? "layer" : "role", name, seen->at_peak, seen->peak, said->at_peak, said->peak);
}

sw_status swi_witness_compare_breakdowns(swi_witness *w)
{
    SW_TRY(swi_program_breakdown(w->frame, w->args));
    const swi_breakdown *seen = &w->breakdown, *said = &w->frame->breakdown;
    for (uint32_t i = 0; i < said->n; i++) {
        const bool layer = i >= SWI_ROLE_COUNT;
        judge_line(w, layer, line_of(seen, layer, said->lines[i].name), &said->lines[i]);
    }
    for (uint32_t i = SWI_ROLE_COUNT; i < seen->n; i++) {
        const swi_breakdown_line *planned = line_of(said, true, seen->lines[i].name);
        if (planned->name[0] == '\0' && seen->lines[i].name[0] != '\0')
            judge_line(w, true, &seen->lines[i], planned);
    }
    return SW_OK;
}
