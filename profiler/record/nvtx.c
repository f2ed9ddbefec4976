/* The only file that includes NVTX: each translation unit with these headers would look for the
 * tool by itself. SW_HAVE_NVTX_MEM and SW_HAVE_NVTX_COUNTERS say whether the headers are new
 * enough for these extensions. */
#include "alloc/base/map.h"
#include "profiler/record/nvtx.h"
#include <stdio.h>
#include <string.h>

#if SW_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#include <sched.h>
#endif
#if SW_HAVE_NVTX_MEM
#include <nvtx3/nvToolsExtMem.h>
#endif
#if SW_HAVE_NVTX_COUNTERS
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

/* ---- domain, ranges, marks --------------------------------------------------------------- */

#if SW_HAVE_NVTX
enum { FRESH, STARTING, READY };
static nvtxDomainHandle_t domain; /* NULL: no one's */
static int state;

#endif

bool sw_nvtx_attached(void)
{
#if SW_HAVE_NVTX
    int fresh = FRESH;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == READY)
        return domain != NULL;
    if (__atomic_compare_exchange_n(&state, &fresh, STARTING, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
#define NAME(id, name) nvtxDomainNameCategoryA(domain, SW_NVTX_IN_##id, name);
        domain = nvtxDomainCreateA("stepwell");
        SW_NVTX_CATEGORIES(NAME)
#undef NAME
        __atomic_store_n(&state, READY, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != READY)
        sched_yield();
    return domain != NULL;
#else
    return false;
#endif
}

#if SW_HAVE_NVTX
static nvtxEventAttributes_t event(sw_nvtx_category category, const sw_nvtx_name *name,
                                   uint64_t bytes)
{
    nvtxEventAttributes_t e =
        SW_INIT(.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                .category = (uint32_t)category, .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                .payload.ullValue = bytes, .messageType = NVTX_MESSAGE_TYPE_ASCII,
                .message.ascii = name->text);
    if (name->handle != NULL) {
        e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        e.message.registered = (nvtxStringHandle_t)(uintptr_t)name->handle;
    }
    return e;
}
#endif

/* No one's domain is asked here: filling an event takes longer than not saying it. */
void sw_nvtx_begin(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes)
{
#if SW_HAVE_NVTX
    if (domain == NULL)
        return;
    const nvtxEventAttributes_t e = event(category, name, bytes);
    (void)nvtxDomainRangePushEx(domain, &e);
#else
    (void)category, (void)name, (void)bytes;
#endif
}

void sw_nvtx_end(void)
{
#if SW_HAVE_NVTX
    if (domain != NULL)
        (void)nvtxDomainRangePop(domain);
#endif
}

void sw_nvtx_mark(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes)
{
#if SW_HAVE_NVTX
    if (domain == NULL)
        return;
    const nvtxEventAttributes_t e = event(category, name, bytes);
    nvtxDomainMarkEx(domain, &e);
#else
    (void)category, (void)name, (void)bytes;
#endif
}

uint64_t sw_nvtx_counter(const char *name, const char *about)
{
#if SW_HAVE_NVTX_COUNTERS
    const nvtxSemanticsCounter_t bytes = {.header = {.structSize = sizeof bytes,
                                                     .semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1,
                                                     .version = NVTX_COUNTER_SEMANTIC_VERSION},
                                          .flags = NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE |
                                                   NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT,
                                          .unit = "bytes",
                                          .unitScaleNumerator = 1,
                                          .unitScaleDenominator = 1,
                                          .limitType = NVTX_COUNTER_LIMIT_UNDEFINED};
    const nvtxCounterAttr_t counter =
        SW_INIT(.structSize = sizeof counter, .schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64,
                .name = name, .description = about, .scopeId = NVTX_SCOPE_CURRENT_SW_PROCESS,
                .semantics = &bytes.header, .counterId = NVTX_COUNTER_ID_NONE);
    return nvtxCounterRegister(domain, &counter);
#else
    (void)name, (void)about;
    return 0;
#endif
}

/* ---- memory ------------------------------------------------------------------------------ */

void *sw_nvtx_heap(const char *name, const void *base, size_t bytes)
{
#if SW_HAVE_NVTX_MEM
    const nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = base};
    const nvtxMemHeapDesc_t heap =
        SW_INIT(.extCompatID = NVTX_EXT_COMPATID_MEM, .structSize = sizeof heap,
                .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
                .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS, .typeSpecificDescSize = sizeof range,
                .typeSpecificDesc = &range, .category = SW_NVTX_IN_MEMORY,
                .messageType = NVTX_MESSAGE_TYPE_ASCII, .message.ascii = name);
    nvtxMemHeapHandle_t handle = nvtxMemHeapRegister(domain, &heap);
    return handle != NVTX_MEM_HEAP_HANDLE_NO_TOOL ? (void *)handle : NULL;
#else
    (void)name, (void)base, (void)bytes;
    return NULL;
#endif
}

void sw_nvtx_heap_end(void *heap)
{
#if SW_HAVE_NVTX_MEM
    if (heap != NULL)
        nvtxMemHeapUnregister(domain, heap);
#else
    (void)heap;
#endif
}

void sw_nvtx_region(void *heap, const char *name, const void *at, size_t bytes)
{
#if SW_HAVE_NVTX_MEM
    const nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = at};
    const nvtxMemRegionsRegisterBatch_t regions =
        SW_INIT(.extCompatID = NVTX_EXT_COMPATID_MEM, .structSize = sizeof regions,
                .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS, .heap = heap, .regionCount = 1,
                .regionDescElementSize = sizeof range, .regionDescElements = &range);
    const nvtxMemRegionNameDesc_t label = {.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER,
                                           .nameType = NVTX_MESSAGE_TYPE_ASCII,
                                           .region.pointer = at,
                                           .name.ascii = name,
                                           .category = SW_NVTX_IN_MEMORY};
    const nvtxMemRegionsNameBatch_t names =
        SW_INIT(.extCompatID = NVTX_EXT_COMPATID_MEM, .structSize = sizeof names,
                .regionCount = 1, .regionElementSize = sizeof label, .regionElements = &label);
    nvtxMemRegionsRegister(domain, &regions);
    nvtxMemRegionsName(domain, &names);
#else
    (void)heap, (void)name, (void)at, (void)bytes;
#endif
}

static void sw_nvtx_region_end(const void *at)
{
#if SW_HAVE_NVTX_MEM
    const nvtxMemRegionRef_t region = {.pointer = at};
    const nvtxMemRegionsUnregisterBatch_t regions =
        SW_INIT(.extCompatID = NVTX_EXT_COMPATID_MEM, .structSize = sizeof regions,
                .refType = NVTX_MEM_REGION_REF_TYPE_POINTER, .refCount = 1,
                .refElementSize = sizeof region, .refElements = &region);
    nvtxMemRegionsUnregister(domain, &regions);
#else
    (void)at;
#endif
}

/* The state of a run: which ranges are open, what lives by role, which names are known. */

/* Figures with one range, mark or counter each. */
enum { LIVE, PEAK, OWN_COUNTERS };
#define COUNTERS (OWN_COUNTERS + SW_NVTX_MAX_ROLES)
enum { TRAIN, EVALUATE, STEP_PEAK, WORDS };
static const char *const words[WORDS] = {"train step", "evaluation step", "peak"};

struct sw_nvtx_run {
    sw_nvtx_opts opts;
    uint32_t number; /* of the exec among those that live: it has its counters */
    void *heap;      /* NULL: the tool takes no memory */
    bool touched;    /* regions were registered since the last reset */
    sw_nvtx_name **names;
    uint32_t cap_names, n_names;
    sw_map known; /* numbers of names, by their text */
    const sw_nvtx_name *word[WORDS], *phase[SW_PROF_PHASES], *phase_peak[SW_PROF_PHASES];
    const sw_nvtx_name *role[SW_NVTX_MAX_ROLES];
    uint64_t counter[COUNTERS]; /* 0: none */
    bool counts;
    /* of the run */
    const sw_nvtx_table *table;
    const size_t *base;
    size_t live[SW_NVTX_MAX_ROLES], marked[SW_NVTX_MAX_ROLES];
    size_t peak;
    size_t sampled[COUNTERS]; /* what the tool knows */
    bool training, in_op;
    uint32_t depth; /* layers that are open */
    const sw_nvtx_name *open[SW_NVTX_MAX_DEPTH];
};

/* ---- names ------------------------------------------------------------------------------- */

/* The end of a long name says more than its beginning. */
const char *sw_nvtx_memory_name(const char *text, char *to)
{
    const size_t n = strlen(text);
    const bool cut = n > SW_NVTX_MEMORY_NAME;
    snprintf(to, SW_NVTX_MEMORY_NAME + 1, "%s%s", cut ? ".." : "",
             cut ? text + n - (SW_NVTX_MEMORY_NAME - 2) : text);
    for (char *c = to; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return to;
}

sw_status sw_nvtx_run_name(sw_nvtx_run *r, const char *text, bool memory,
                           const sw_nvtx_name **out)
{
    char cut[SW_NVTX_MEMORY_NAME + 1];
    if (memory)
        text = sw_nvtx_memory_name(text, cut);
    const size_t n = strlen(text);
    const sw_map_slot *known = sw_map_find(&r->known, text, n);
    if (known != NULL) {
        *out = r->names[known->thing];
        return SW_OK;
    }
    sw_nvtx_name *name;
    SW_TRY(sw_map_room(&r->known, SW_HEAP_PROFILE, r->n_names + 1));
    SW_TRY(sw_heap_reserve(&r->names, SW_HEAP_PROFILE, &r->cap_names, r->n_names + 1));
    SW_TRY(sw_heap_alloc(&name, SW_HEAP_PROFILE, sizeof *name + n + 1));
    name->text = memcpy(name + 1, text, n + 1);
#if SW_HAVE_NVTX
    name->handle = nvtxDomainRegisterStringA(domain, text);
#endif
    (void)sw_map_add(&r->known, name->text, n, r->n_names);
    *out = r->names[r->n_names++] = name;
    return SW_OK;
}

void sw_nvtx_table_free(sw_nvtx_table *t)
{
    sw_heap_free(t->ops, SW_HEAP_PROFILE, t->cap_ops * sizeof *t->ops);
    sw_heap_free(t->tensors, SW_HEAP_PROFILE, t->cap_tensors * sizeof *t->tensors);
    sw_heap_free(t->scopes, SW_HEAP_PROFILE, t->cap_scopes * sizeof *t->scopes);
    memset(t, 0, sizeof *t);
}

/* ---- counters and creation --------------------------------------------------------------- */

/* Counters are for good, execs are not: those that live at one time have different numbers,
 * the lowest that are free, and counters belong to numbers. An exec past the last number has
 * none. */
#define NUMBERS 64u
static uint64_t numbers; /* a bit each */
static uint64_t counters[NUMBERS][COUNTERS];

/* "step arena"; "step arena 2" of the second exec. */
static void with_number(const sw_nvtx_run *r, const char *text, char *to, size_t capacity)
{
    if (r->number == 0)
        snprintf(to, capacity, "%s", text);
    else
        snprintf(to, capacity, "%s %u", text, r->number + 1);
}

static void take_counter(sw_nvtx_run *r, int which, const char *name, const char *about)
{
    char text[80];
    with_number(r, name, text, sizeof text);
    if (r->number == NUMBERS)
        return;
    uint64_t *known = &counters[r->number][which];
    if (*known == 0)
        *known = sw_nvtx_counter(text, about);
    r->counter[which] = *known;
    r->counts |= *known != 0;
}

static sw_status take_names(sw_nvtx_run *r)
{
    char text[64];
    for (int i = 0; i < WORDS; i++)
        SW_TRY(sw_nvtx_run_name(r, words[i], false, &r->word[i]));
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        snprintf(text, sizeof text, "%s peak", sw_prof_phase_name(i));
        SW_TRY(sw_nvtx_run_name(r, sw_prof_phase_name(i), false, &r->phase[i]));
        SW_TRY(sw_nvtx_run_name(r, text, false, &r->phase_peak[i]));
    }
    for (uint32_t i = 0; i < r->opts.n_roles; i++)
        SW_TRY(sw_nvtx_run_name(r, r->opts.roles[i], false, &r->role[i]));
    return SW_OK;
}

sw_status sw_nvtx_run_create(sw_nvtx_run **out, const sw_nvtx_opts *opts)
{
    const bool attached = sw_nvtx_attached();
    *out = NULL;
    if (opts->n_roles > SW_NVTX_MAX_ROLES)
        SW_FAIL(SW_INVALID, "nvtx: roles must be at most %d (got %u)", SW_NVTX_MAX_ROLES,
                opts->n_roles);
    sw_nvtx_run *r;
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_PROFILE, sizeof(sw_nvtx_run)));
    r->opts = *opts;
    /* The lowest number that is free. */
    uint64_t taken = __atomic_load_n(&numbers, __ATOMIC_ACQUIRE);
    do
        r->number = taken == UINT64_MAX ? NUMBERS : (uint32_t)__builtin_ctzll(~taken);
    while (r->number < NUMBERS &&
           !__atomic_compare_exchange_n(&numbers, &taken, taken | (uint64_t)1 << r->number,
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    char name[SW_NVTX_MEMORY_NAME + 1];
    with_number(r, "step arena", name, sizeof name);
    r->heap = opts->base != NULL ? sw_nvtx_heap(name, opts->base, opts->bytes) : NULL;
    take_counter(r, LIVE, "live", "bytes that live: models, inputs and step arena");
    take_counter(r, PEAK, "peak", "most bytes that have lived at one time in this step");
    for (uint32_t i = 0; i < opts->n_roles; i++)
        take_counter(r, OWN_COUNTERS + (int)i, opts->roles[i], "bytes of it that live");
    memset(r->sampled, 0xff, sizeof r->sampled); /* nothing yet */
    if (!attached && r->heap == NULL && !r->counts) {
        sw_nvtx_run_destroy(r);
        return SW_OK;
    }
    const sw_status status = take_names(r);
    return SW_GIVE(status, out, r, sw_nvtx_run_destroy);
}

void sw_nvtx_run_destroy(sw_nvtx_run *r)
{
    if (r == NULL)
        return;
    sw_nvtx_heap_end(r->heap);
    if (r->number < NUMBERS)
        __atomic_fetch_and(&numbers, ~((uint64_t)1 << r->number), __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < r->n_names; i++)
        sw_heap_free(r->names[i], SW_HEAP_PROFILE,
                     sizeof **r->names + strlen(r->names[i]->text) + 1);
    sw_map_free(&r->known, SW_HEAP_PROFILE);
    sw_heap_free(r->names, SW_HEAP_PROFILE, r->cap_names * sizeof *r->names);
    sw_heap_free(r, SW_HEAP_PROFILE, sizeof *r);
}

bool sw_nvtx_run_has_heap(const sw_nvtx_run *r)
{
    return r != NULL && r->heap != NULL;
}

bool sw_nvtx_run_has_ops(const sw_nvtx_run *r)
{
    return r != NULL && r->opts.ops;
}

/* ---- a run ------------------------------------------------------------------------------- */

static void sample(sw_nvtx_run *r, int which, size_t bytes)
{
    if (r->counter[which] == 0 || r->sampled[which] == bytes)
        return;
    r->sampled[which] = bytes;
#if SW_HAVE_NVTX_COUNTERS
    nvtxCounterSampleInt64(domain, r->counter[which], (int64_t)bytes);
#endif
}

/* All tensors of this moment are counted. */
static void close_run(sw_nvtx_run *r, size_t live)
{
    r->peak = live > r->peak ? live : r->peak;
    if (!r->counts)
        return;
    for (uint32_t i = 0; i < r->opts.n_roles; i++)
        sample(r, OWN_COUNTERS + (int)i, r->live[i]);
    sample(r, LIVE, live);
    sample(r, PEAK, r->peak);
}

void sw_nvtx_run_prepare(sw_nvtx_run *r, const sw_nvtx_table *table, const size_t *base,
                         bool training)
{
    r->table = table;
    r->base = base;
    r->training = training;
}

void sw_nvtx_run_begin(sw_nvtx_run *r, size_t live)
{
    for (uint32_t i = 0; i < r->opts.n_roles; i++)
        r->live[i] = r->marked[i] = r->base[i];
    r->peak = 0;
    sw_nvtx_begin(SW_NVTX_IN_STEP, r->word[r->training ? TRAIN : EVALUATE], live);
    close_run(r, live);
}

static void close_layers(sw_nvtx_run *r, uint32_t depth)
{
    for (; r->depth > depth; r->depth--)
        sw_nvtx_end();
}

void sw_nvtx_run_phase(sw_nvtx_run *r, int phase, size_t live)
{
    sw_nvtx_begin(SW_NVTX_IN_PHASE, r->phase[phase], live);
}

static void close_op(sw_nvtx_run *r)
{
    if (r->in_op)
        sw_nvtx_end();
    r->in_op = false;
}

/* Marks are for tools without counters, which see the figures of each phase by them. */
void sw_nvtx_run_phase_end(sw_nvtx_run *r, int phase, size_t live, size_t peak)
{
    close_op(r);
    close_layers(r, 0);
    close_run(r, live);
    sw_nvtx_mark(SW_NVTX_IN_MEMORY, r->phase_peak[phase], peak);
    for (uint32_t i = 0; i < r->opts.n_roles; i++)
        if (r->live[i] != r->marked[i]) {
            r->marked[i] = r->live[i];
            sw_nvtx_mark(SW_NVTX_IN_MEMORY, r->role[i], r->live[i]);
        }
    sw_nvtx_end();
}

void sw_nvtx_run_op(sw_nvtx_run *r, uint32_t op, size_t live)
{
    const sw_nvtx_op *o = &r->table->ops[op];
    close_run(r, live);
    if (r->opts.layers) {
        /* Scopes that two ops have in common stay open. */
        const sw_nvtx_name *const *scopes =
            o->n_scopes > 0 ? &r->table->scopes[o->scope] : NULL;
        uint32_t same = 0;
        while (same < r->depth && same < o->n_scopes && r->open[same] == scopes[same])
            same++;
        close_layers(r, same);
        for (; r->depth < o->n_scopes && r->depth < SW_NVTX_MAX_DEPTH; r->depth++) {
            r->open[r->depth] = scopes[r->depth];
            sw_nvtx_begin(SW_NVTX_IN_LAYER, scopes[r->depth], live);
        }
    }
    if (r->opts.ops) {
        sw_nvtx_begin(SW_NVTX_IN_OP, o->name, live);
        r->in_op = true;
    }
}

void sw_nvtx_run_op_end(sw_nvtx_run *r, size_t live)
{
    close_run(r, live);
    close_op(r);
}

void sw_nvtx_run_end(sw_nvtx_run *r, size_t live)
{
    close_run(r, live);
    sw_nvtx_mark(SW_NVTX_IN_MEMORY, r->word[STEP_PEAK], r->peak);
    sw_nvtx_end();
    r->table = NULL; /* a program may go before the next run */
}

/* ---- memory ------------------------------------------------------------------------------ */

static const void *address(const sw_nvtx_run *r, const sw_event *event)
{
    return (const unsigned char *)r->opts.base + event->offset;
}

static void reset(sw_nvtx_run *r)
{
    size_t live = 0;
#if SW_HAVE_NVTX_MEM
    if (r->touched) /* all regions are gone */
        nvtxMemHeapReset(domain, r->heap);
#endif
    r->touched = false;
    for (uint32_t i = 0; r->base != NULL && i < r->opts.n_roles; i++)
        live += r->live[i] = r->base[i];
    if (live > 0)
        close_run(r, live);
}

void sw_nvtx_run_event(sw_nvtx_run *r, const sw_event *event, uint32_t id)
{
    const sw_nvtx_table *t = r->table;
    if (event->kind == SW_EVENT_RESET)
        reset(r);
    else if (t == NULL || id >= t->n_tensors)
        return;
    else if (event->kind == SW_EVENT_PUSH || event->kind == SW_EVENT_PLACE) {
        const sw_nvtx_tensor *x = &t->tensors[id];
        r->live[x->role] += event->bytes;
        if (r->heap == NULL || x->bytes == 0)
            return;
        r->touched = true;
        sw_nvtx_region(r->heap, x->name->text, address(r, event), x->bytes);
    } else if (event->kind == SW_EVENT_RELEASE) {
        r->live[t->tensors[id].role] -= event->bytes;
        if (r->heap != NULL && t->tensors[id].bytes > 0)
            sw_nvtx_region_end(address(r, event));
    }
}

void sw_nvtx_run_recast(sw_nvtx_run *r, uint32_t from, uint32_t to, size_t bytes)
{
    r->live[from] -= bytes;
    r->live[to] += bytes;
}
