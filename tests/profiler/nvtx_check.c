/* See nvtx_check.h: a plain model of a tool, which keeps lists and searches them. */
#include "tests/profiler/nvtx_check.h"
#include "profiler/record/nvtx.h"
#include "tests/support/suite.h"

void told_tensor_add(told_run *run, const told_tensor *tensor)
{
    if (SW_CHECK(run->n_tensors < TOLD_TENSORS, "more than %d tensors", TOLD_TENSORS))
        run->tensor[run->n_tensors++] = *tensor;
}

void told_op_add(told_run *run, const char *name, int phase)
{
    if (!SW_CHECK(run->n_ops < TOLD_OPS, "more than %d ops", TOLD_OPS))
        return;
    told_op *op = &run->op[run->n_ops++];
    snprintf(op->name, sizeof op->name, "%s", name);
    op->phase = phase;
}

void told_base_add(told_run *run, const char *role, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < run->n_base && strcmp(run->base[i].role, role) != 0)
        i++;
    if (!SW_CHECK(i < TOLD_ROLES, "more than %d roles", TOLD_ROLES))
        return;
    snprintf(run->base[i].role, sizeof run->base[i].role, "%s", role);
    run->base[i].bytes += bytes;
    run->n_base += i == run->n_base;
}

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    told_op_add(to, name, (int)phase);
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    if (s->input) {
        told_base_add(to, "input", s->bytes + s->padding);
        return;
    }
    if (s->alias != UINT32_MAX)
        return;
    told_tensor t =
        SW_INIT(.offset = s->offset, .bytes = s->bytes, .rounded = s->bytes + s->padding,
                .birth = s->birth, .death = s->death);
    snprintf(t.role, sizeof t.role, "%s", s->role);
    snprintf(t.name, sizeof t.name, "%s", s->name);
    told_tensor_add(to, &t);
}

void told_plan(told_run *run, sw_exec *exec, const sw_run_args *args)
{
    const sw_plan_visitor v =
        SW_OPTS(sw_plan_visitor, .to = run, .op = see_op, .storage = see_storage);
    memset(run, 0, sizeof *run);
    run->training = args->mode == SW_TRAIN;
    run->immediate = args->immediate != 0;
    SW_CHECK(sw_plan_visit(exec, args, &v) == SW_OK, "%s", sw_last_error());
}

void told_measured(told_run *run, const sw_exec *exec)
{
    sw_run_info info = SW_OPTS(sw_run_info);
    SW_CHECK(sw_last_run(exec, &info) == SW_OK, "%s", sw_last_error());
    for (int i = 0; i < SW_PHASES; i++) {
        run->phase_peak[i] = info.phase[i].peak_bytes;
        run->phase_end[i] = info.phase[i].end_bytes;
    }
    run->peak = info.peak_bytes;
    run->bump = info.bump_bytes;
}

/* Bytes that a role (NULL: all) holds: while op `at` runs, or before its births. */
static uint64_t told_live(const told_run *run, const char *role, uint32_t at, bool before)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->n_base; i++)
        if (role == NULL || strcmp(role, run->base[i].role) == 0)
            sum += run->base[i].bytes;
    for (uint32_t i = 0; i < run->n_tensors; i++) {
        const told_tensor *t = &run->tensor[i];
        if ((role == NULL || strcmp(role, t->role) == 0) && t->birth + before <= at &&
            t->death >= at)
            sum += t->rounded;
    }
    return sum;
}

/* ---- what a tool knows ------------------------------------------------------------------- */

enum { DEPTH = 40, REGIONS = 2000, THINGS = 200 };

typedef struct {
    uint64_t id, at, bytes;
    bool named;
    char name[104];
} thing; /* a region (id of its heap), a heap, a counter (bytes: its value) */

typedef struct {
    const heard *range[DEPTH];
    int depth;
    thing region[REGIONS], heap[THINGS], counter[THINGS];
    size_t n_regions, n_heaps, n_counters;
    size_t resets, runs;
    const told_run *told;    /* the run that goes on; NULL: none */
    uint32_t position;       /* of its next op */
    uint64_t ran[SW_PHASES]; /* highest mark of a phase */
    sw_nvtx_level level;
    bool extensions;
} listener;

static thing *find(thing *list, size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

static thing *region_at(listener *l, uint64_t at)
{
    for (size_t i = 0; i < l->n_regions; i++)
        if (l->region[i].at == at)
            return &l->region[i];
    return NULL;
}

static void check_counter(const listener *l, const char *name, uint64_t wanted)
{
    const thing *c = NULL;
    for (size_t i = 0; i < l->n_counters && c == NULL; i++)
        c = strcmp(l->counter[i].name, name) == 0 ? &l->counter[i] : NULL;
    if (SW_CHECK(c != NULL, "no counter %s", name))
        SW_CHECK(c->bytes == wanted, "counter %s: %llu, not %llu", name,
                 (unsigned long long)c->bytes, (unsigned long long)wanted);
}

static void add_thing(thing *list, size_t *n, size_t room, const heard *x)
{
    if (!SW_CHECK(*n < room, "no room for %s", x->name))
        return;
    thing *t = &list[(*n)++];
    *t = (thing){.id = x->id, .at = x->at, .bytes = x->bytes};
    snprintf(t->name, sizeof t->name, "%s", x->name);
}

static void add_region(listener *l, const heard *x)
{
    const thing *heap = find(l->heap, l->n_heaps, x->id);
    if (SW_CHECK(heap != NULL, "a region of heap %llu", (unsigned long long)x->id))
        SW_CHECK(x->at >= heap->at && x->at + x->bytes <= heap->at + heap->bytes,
                 "a region outside of heap %s", heap->name);
    for (size_t i = 0; i < l->n_regions; i++)
        SW_CHECK(x->at >= l->region[i].at + l->region[i].bytes ||
                     x->at + x->bytes <= l->region[i].at,
                 "two regions overlap: %s", l->region[i].name);
    CU_ASSERT(x->bytes > 0 && x->at % SW_ALIGN == 0);
    add_thing(l->region, &l->n_regions, REGIONS, x);
}

static void name_region(listener *l, const heard *x)
{
    thing *region = region_at(l, x->at);
    if (!SW_CHECK(region != NULL, "%s: a name for no region", x->name))
        return;
    const size_t length = strlen(x->name);
    CU_ASSERT(length > 0 && length <= SW_NVTX_MEMORY_NAME);
    for (size_t i = 0; i < length; i++)
        CU_ASSERT(x->name[i] >= ' ' && x->name[i] <= '~');
    region->named = true;
    snprintf(region->name, sizeof region->name, "%s", x->name);
}

static void drop_regions(listener *l, uint64_t heap)
{
    for (size_t i = l->n_regions; i-- > 0;)
        if (l->region[i].id == heap)
            l->region[i] = l->region[--l->n_regions];
}

/* ---- at an op ---------------------------------------------------------------------------- */

static const thing *step_heap(const listener *l)
{
    for (size_t i = 0; i < l->n_heaps; i++)
        if (strncmp(l->heap[i].name, "step arena", 10) == 0)
            return &l->heap[i];
    return NULL;
}

/* The regions are what the plan says that lives, one for one. */
static void check_regions(listener *l, uint32_t at)
{
    const thing *heap = step_heap(l);
    size_t live = 0, regions = 0;
    if (!SW_CHECK(heap != NULL, "no heap is the step arena"))
        return;
    for (uint32_t i = 0; i < l->told->n_tensors; i++) {
        const told_tensor *t = &l->told->tensor[i];
        if (t->birth > at || t->death < at || t->bytes == 0)
            continue;
        live++;
        const thing *r = region_at(l, heap->at + t->offset);
        /* The names of memory are cut in front. */
        char name[SW_NVTX_MEMORY_NAME + 1];
        const size_t n = strlen(t->name),
                     over = n > SW_NVTX_MEMORY_NAME ? n - (SW_NVTX_MEMORY_NAME - 2) : 0;
        snprintf(name, sizeof name, "%s%s", over > 0 ? ".." : "", t->name + over);
        if (SW_CHECK(r != NULL, "op %u: %s is no region", at, t->name))
            SW_CHECK(r->bytes == t->bytes && r->named && strcmp(r->name, name) == 0,
                     "op %u: region %s of %llu bytes is not %s of %llu", at, r->name,
                     (unsigned long long)r->bytes, t->name, (unsigned long long)t->bytes);
    }
    for (size_t i = 0; i < l->n_regions; i++)
        regions += l->region[i].id == heap->id;
    SW_CHECK(regions == live, "op %u: %zu regions, %zu tensors live", at, regions, live);
}

static void check_sums(const listener *l, uint64_t live)
{
    const thing *heap = step_heap(l);
    uint64_t sum = told_live(l->told, NULL, 0, true);
    for (size_t i = 0; heap != NULL && i < l->n_regions; i++)
        if (l->region[i].id == heap->id)
            sum += (l->region[i].bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
    SW_CHECK(sum == live, "regions and base have %llu bytes, %llu live",
             (unsigned long long)sum, (unsigned long long)live);
}

static void check_counters(const listener *l, uint32_t at, bool before)
{
    const told_run *t = l->told;
    for (uint32_t i = 0; i < t->n_tensors; i++)
        if (t->tensor[i].birth <= at)
            check_counter(l, t->tensor[i].role, told_live(t, t->tensor[i].role, at, before));
    for (uint32_t i = 0; i < t->n_base; i++)
        check_counter(l, t->base[i].role, told_live(t, t->base[i].role, at, before));
    check_counter(l, "live", told_live(t, NULL, at, before));
}

/* The scopes that are open are those of the op's name: "block/one linear". */
static void check_layers(const listener *l, const char *op)
{
    char path[300] = "";
    for (int i = 0; i < l->depth; i++)
        if (l->range[i]->category == SW_NVTX_IN_LAYER) {
            const size_t n = strlen(path);
            snprintf(path + n, sizeof path - n, "%s%s", n > 0 ? "/" : "", l->range[i]->name);
        }
    const size_t n = strlen(path);
    SW_CHECK(n > 0 ? strncmp(path, op, n) == 0 && op[n] == ' ' : strchr(op, '/') == NULL,
             "%s runs in layer '%s'", op, path);
}

static void op_begins(listener *l, const heard *x)
{
    check_layers(l, x->name);
    if (l->extensions)
        check_counter(l, "live", x->bytes);
    if (l->told->immediate) {
        if (l->extensions)
            check_sums(l, x->bytes);
        return;
    }
    if (!SW_CHECK(l->position < l->told->n_ops, "%s is one op too many", x->name))
        return;
    SW_CHECK(strcmp(x->name, l->told->op[l->position].name) == 0, "op %u is %s, not %s",
             l->position, x->name, l->told->op[l->position].name);
    SW_CHECK(x->bytes == told_live(l->told, NULL, l->position, false), "op %u: %llu bytes",
             l->position, (unsigned long long)x->bytes);
    if (l->extensions) {
        check_regions(l, l->position);
        check_counters(l, l->position, false);
    }
}

/* ---- at the edges of phases and steps ---------------------------------------------------- */

static int phase_named(const char *name)
{
    for (int i = 0; i < SW_PHASES; i++)
        if (strcmp(name, sw_phase_name((sw_phase)i)) == 0)
            return i;
    SW_CHECK(false, "%s is no phase", name);
    return 0;
}

static void phase_begins(listener *l, const heard *x)
{
    const told_run *t = l->told;
    const int phase = phase_named(x->name);
    if (t->immediate)
        return;
    if (!SW_CHECK(l->position < t->n_ops, "phase %s is after the last op", x->name))
        return;
    SW_CHECK(phase == t->op[l->position].phase, "phase %s begins at op %u", x->name,
             l->position);
    SW_CHECK(x->bytes == told_live(t, NULL, l->position, true), "phase %s: %llu bytes", x->name,
             (unsigned long long)x->bytes);
}

static void phase_ends(listener *l, const heard *begin)
{
    const told_run *t = l->told;
    const int phase = phase_named(begin->name);
    if (t->immediate)
        return;
    uint32_t end = l->position;
    while (l->level != SW_NVTX_OPS && end < t->n_ops && t->op[end].phase == phase)
        end++;
    l->position = end;
    CU_ASSERT(end == t->n_ops || t->op[end].phase != phase);
    if (l->extensions && end < t->n_ops)
        check_counters(l, end, true);
}

static void step_ends(listener *l)
{
    const told_run *t = l->told;
    CU_ASSERT(t->immediate || l->position == t->n_ops);
    for (int i = 0; i < SW_PHASES; i++)
        SW_CHECK(l->ran[i] == 0 || l->ran[i] == t->phase_peak[i], "%s peak: %llu, not %llu",
                 sw_phase_name((sw_phase)i), (unsigned long long)l->ran[i],
                 (unsigned long long)t->phase_peak[i]);
    CU_ASSERT(l->ran[SW_FORWARD] > 0);
    if (l->extensions)
        check_counter(l, "peak", t->peak);
    if (l->extensions && t->immediate)
        check_sums(l, told_live(t, NULL, 0, true) + t->bump);
    l->told = NULL;
}

/* The figures of a phase for tools without counters. */
static void marked(listener *l, const heard *x)
{
    if (l->told == NULL || !SW_CHECK(x->category == SW_NVTX_IN_MEMORY, "mark %s", x->name))
        return;
    if (strcmp(x->name, "peak") == 0) {
        CU_ASSERT_EQUAL(x->bytes, l->told->peak);
        return;
    }
    for (int i = 0; i < SW_PHASES; i++) {
        if (strcmp(x->name, sw_textf("%s peak", sw_phase_name((sw_phase)i))) != 0)
            continue;
        l->ran[i] = x->bytes > l->ran[i] ? x->bytes : l->ran[i];
        return;
    }
    if (l->extensions)
        check_counter(l, x->name, x->bytes);
}

/* ---- listening --------------------------------------------------------------------------- */

static void range_begins(listener *l, const heard *x)
{
    const uint32_t outer = l->depth > 0 ? l->range[l->depth - 1]->category : SW_NVTX_IN_NONE;
    static const uint32_t around[SW_NVTX_IN_COUNT] = {
        [SW_NVTX_IN_STEP] = 1u << SW_NVTX_IN_NONE,
        [SW_NVTX_IN_PHASE] = 1u << SW_NVTX_IN_STEP,
        [SW_NVTX_IN_LAYER] = 1u << SW_NVTX_IN_PHASE | 1u << SW_NVTX_IN_LAYER,
        [SW_NVTX_IN_OP] = 1u << SW_NVTX_IN_PHASE | 1u << SW_NVTX_IN_LAYER};
    const bool fits = x->category < SW_NVTX_IN_COUNT && outer < SW_NVTX_IN_COUNT &&
                      (around[x->category] >> outer & 1) != 0;
    SW_CHECK(fits, "%s of category %u in one of %u", x->name, x->category, outer);
    SW_CHECK(x->registered, "%s is not registered", x->name);
    if (SW_CHECK(l->depth < DEPTH, "ranges nest past %d", DEPTH))
        l->range[l->depth++] = x;
    if (l->told == NULL)
        return;
    if (x->category == SW_NVTX_IN_STEP) {
        const told_run *t = l->told;
        CU_ASSERT_STRING_EQUAL(x->name, t->training ? "train step" : "evaluation step");
        SW_CHECK(x->bytes == told_live(t, NULL, 0, true), "a step begins with %llu bytes",
                 (unsigned long long)x->bytes);
        l->position = 0;
        memset(l->ran, 0, sizeof l->ran);
        if (l->extensions)
            CU_ASSERT_PTR_NULL(region_at(l, step_heap(l)->at));
    } else if (x->category == SW_NVTX_IN_PHASE)
        phase_begins(l, x);
    else if (x->category == SW_NVTX_IN_OP)
        op_begins(l, x);
}

static void range_ends(listener *l)
{
    if (!SW_CHECK(l->depth > 0, "a range ends that did not begin"))
        return;
    const heard *begin = l->range[--l->depth];
    l->runs += begin->category == SW_NVTX_IN_STEP;
    if (l->told == NULL)
        return;
    if (begin->category == SW_NVTX_IN_OP)
        l->position += !l->told->immediate;
    else if (begin->category == SW_NVTX_IN_PHASE)
        phase_ends(l, begin);
    else if (begin->category == SW_NVTX_IN_STEP)
        step_ends(l);
}

static void follow(listener *l, const heard *x)
{
    thing *found;
    SW_CHECK(x->category < SW_NVTX_IN_COUNT, "kind %d: category %u", x->kind, x->category);
    switch (x->kind) {
    case HEARD_BEGIN:
        range_begins(l, x);
        break;
    case HEARD_END:
        range_ends(l);
        break;
    case HEARD_MARK:
        marked(l, x);
        break;
    case HEARD_COUNTER:
        add_thing(l->counter, &l->n_counters, THINGS, x);
        break;
    case HEARD_SAMPLE:
        found = find(l->counter, l->n_counters, x->id);
        if (SW_CHECK(found != NULL, "a sample of no counter"))
            found->bytes = x->bytes;
        break;
    case HEARD_HEAP:
        add_thing(l->heap, &l->n_heaps, THINGS, x);
        break;
    case HEARD_RESET:
        drop_regions(l, x->id);
        l->resets++;
        break;
    case HEARD_UNHEAP:
        found = find(l->heap, l->n_heaps, x->id);
        drop_regions(l, x->id);
        if (SW_CHECK(found != NULL, "a heap ends that has not begun"))
            *found = l->heap[--l->n_heaps];
        break;
    case HEARD_REGION:
        add_region(l, x);
        break;
    case HEARD_NAME:
        name_region(l, x);
        break;
    case HEARD_UNREGION:
        found = region_at(l, x->at);
        if (SW_CHECK(found != NULL, "a region ends that has not begun"))
            *found = l->region[--l->n_regions];
        break;
    case HEARD_DOMAIN:
    case HEARD_CATEGORY:
    case HEARD_STRING:
        break;
    }
}

void nvtx_check(heard_list list, const told_run *const *runs, size_t n_runs,
                sw_nvtx_level level, bool extensions)
{
    static listener l;
    memset(&l, 0, sizeof l);
    l.level = level;
    l.extensions = extensions;
    for (size_t i = 0; i < list.n; i++) {
        const bool begins =
            list.at[i].kind == HEARD_BEGIN && list.at[i].category == SW_NVTX_IN_STEP;
        if (begins && SW_CHECK(l.runs < n_runs, "more than %zu runs", n_runs)) {
            SW_CHECK(!extensions || l.runs == 0 || l.resets == 1, "%zu resets", l.resets);
            l.told = runs[l.runs];
            l.resets = 0;
        }
        follow(&l, &list.at[i]);
    }
    CU_ASSERT_EQUAL(l.runs, n_runs);
    CU_ASSERT_EQUAL(l.depth, 0);
}

size_t nvtx_check_nesting(heard_list list)
{
    static listener all[THINGS];
    uint64_t thread[THINGS];
    size_t threads = 0, ranges = 0;
    memset(all, 0, sizeof all);
    for (size_t i = 0; i < list.n; i++) {
        size_t k = 0;
        if (list.at[i].kind != HEARD_BEGIN && list.at[i].kind != HEARD_END)
            continue;
        while (k < threads && thread[k] != list.at[i].thread)
            k++;
        if (!SW_CHECK(k < THINGS, "more than %d threads", THINGS))
            break;
        thread[k] = list.at[i].thread;
        threads += k == threads;
        ranges += list.at[i].kind == HEARD_BEGIN;
        follow(&all[k], &list.at[i]);
    }
    for (size_t k = 0; k < threads; k++)
        CU_ASSERT_EQUAL(all[k].depth, 0);
    return ranges;
}

size_t nvtx_count(heard_list list, heard_kind kind, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < list.n; i++)
        count +=
            list.at[i].kind == kind && (name == NULL || strcmp(name, list.at[i].name) == 0);
    return count;
}
