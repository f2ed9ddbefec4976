/* See nvtx_recorder.h. The headers look for the two function pointers at the end when the first
 * call is made; a module is looked into for the two functions they point to. */
#include "tests/profiler/nvtx_recorder.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 200000
static heard list[ROOM];
static size_t used;

/* Counters and categories are registered once in a process. */
void nvtx_recorder_clear(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < used && i < ROOM; i++)
        if (list[i].kind == HEARD_COUNTER || list[i].kind == HEARD_CATEGORY ||
            list[i].kind == HEARD_DOMAIN)
            list[kept++] = list[i];
    used = kept;
}

heard_list nvtx_recorder_heard(void)
{
    if (used > ROOM) {
        fprintf(stderr, "the recorder has room for %d, not for %zu\n", ROOM, used);
        exit(1);
    }
    return (heard_list){list, used};
}

heard_list nvtx_recorder_read(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return (heard_list){0};
    heard_list all = {.at = calloc(ROOM, sizeof *all.at)};
    char line[300];
    while (all.at != NULL && all.n < ROOM && fgets(line, sizeof line, file) != NULL) {
        heard *x = &all.at[all.n];
        int kind, registered, at = 0;
        unsigned long long bytes, address, id, thread;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%d %u %llu %llu %llu %llu %d %n", &kind, &x->category, &bytes,
                   &address, &id, &thread, &registered, &at) < 7)
            break;
        x->kind = (heard_kind)kind;
        x->bytes = bytes;
        x->at = address;
        x->id = id;
        x->thread = thread;
        x->registered = registered != 0;
        snprintf(x->name, sizeof x->name, "%.*s", (int)sizeof x->name - 1, line + at);
        all.n++;
    }
    fclose(file);
    return all;
}

#if SW_HAVE_NVTX
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#if SW_HAVE_NVTX_MEM
#include <nvtx3/nvToolsExtMem.h>
#endif
#if SW_HAVE_NVTX_COUNTERS
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char domain_name[] = "stepwell";
#define DOMAIN ((nvtxDomainHandle_t)(uintptr_t)domain_name)

static void hear(const heard *what)
{
    pthread_mutex_lock(&lock);
    if (used < ROOM) {
        list[used] = *what;
        list[used].thread = (uint64_t)(uintptr_t)pthread_self();
    }
    used++;
    pthread_mutex_unlock(&lock);
}

static void hear_named(heard what, const char *name)
{
    snprintf(what.name, sizeof what.name, "%s", name != NULL ? name : "(none)");
    hear(&what);
}

/* A call in a domain that is not ours would show as a category of 99. */
static uint32_t in_domain(nvtxDomainHandle_t domain, uint32_t category)
{
    return domain == DOMAIN ? category : 99;
}

/* ---- ranges ------------------------------------------------------------------------------ */

static nvtxDomainHandle_t domain_create(const char *name)
{
    hear_named((heard){.kind = HEARD_DOMAIN}, name);
    return DOMAIN;
}

static void name_category(nvtxDomainHandle_t domain, uint32_t category, const char *name)
{
    hear_named((heard){.kind = HEARD_CATEGORY, .category = in_domain(domain, category)}, name);
}

static nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char *text)
{
    static char texts[1 << 20];
    static size_t end;
    hear_named((heard){.kind = HEARD_STRING, .category = in_domain(domain, 0)}, text);
    const size_t bytes = strlen(text) + 1;
    pthread_mutex_lock(&lock);
    char *kept = end + bytes <= sizeof texts ? memcpy(texts + end, text, bytes) : NULL;
    end += kept != NULL ? bytes : 0;
    pthread_mutex_unlock(&lock);
    return (nvtxStringHandle_t)(void *)kept;
}

static void hear_event(heard_kind kind, nvtxDomainHandle_t domain,
                       const nvtxEventAttributes_t *e)
{
    const bool registered = e->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
    const bool sound = e->version == NVTX_VERSION && e->size == sizeof *e &&
                       e->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    hear_named((heard){.kind = kind,
                       .category = in_domain(domain, sound ? e->category : 98),
                       .bytes = e->payload.ullValue,
                       .registered = registered},
               registered ? (const char *)(const void *)e->message.registered
                          : e->message.ascii);
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *e)
{
    hear_event(HEARD_BEGIN, domain, e);
    return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
    hear(&(heard){.kind = HEARD_END, .category = in_domain(domain, 0)});
    return 0;
}

static void mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *e)
{
    hear_event(HEARD_MARK, domain, e);
}

/* ---- memory ------------------------------------------------------------------------------ */

#if SW_HAVE_NVTX_MEM
static nvtxMemHeapHandle_t heap_register(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t *h)
{
    static uintptr_t handles;
    const nvtxMemVirtualRangeDesc_t *range = h->typeSpecificDesc;
    const bool sound = h->structSize == sizeof *h && h->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
                       h->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR &&
                       h->typeSpecificDescSize == sizeof *range;
    const uintptr_t handle = __atomic_add_fetch(&handles, 1, __ATOMIC_RELAXED);
    hear_named((heard){.kind = HEARD_HEAP,
                       .category = in_domain(domain, sound ? h->category : 98),
                       .at = (uintptr_t)range->ptr,
                       .bytes = range->size,
                       .id = handle},
               h->message.ascii);
    return (nvtxMemHeapHandle_t)handle;
}

static void heap_reset(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap)
{
    hear(
        &(heard){.kind = HEARD_RESET, .category = in_domain(domain, 0), .id = (uintptr_t)heap});
}

static void heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap)
{
    hear(&(heard){
        .kind = HEARD_UNHEAP, .category = in_domain(domain, 0), .id = (uintptr_t)heap});
}

static void regions_register(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *b)
{
    const nvtxMemVirtualRangeDesc_t *range = b->regionDescElements;
    const bool sound = b->structSize == sizeof *b && b->regionDescElementSize == sizeof *range;
    for (size_t i = 0; i < b->regionCount; i++)
        hear(&(heard){.kind = HEARD_REGION,
                      .category = in_domain(domain, sound ? 0 : 98),
                      .at = (uintptr_t)range[i].ptr,
                      .bytes = range[i].size,
                      .id = (uintptr_t)b->heap});
}

static void regions_name(nvtxDomainHandle_t domain, const nvtxMemRegionsNameBatch_t *b)
{
    for (size_t i = 0; i < b->regionCount; i++)
        hear_named((heard){.kind = HEARD_NAME,
                           .category = in_domain(domain, 0),
                           .at = (uintptr_t)b->regionElements[i].region.pointer},
                   b->regionElements[i].name.ascii);
}

static void regions_unregister(nvtxDomainHandle_t domain,
                               const nvtxMemRegionsUnregisterBatch_t *b)
{
    for (size_t i = 0; i < b->refCount; i++)
        hear(&(heard){.kind = HEARD_UNREGION,
                      .category = in_domain(domain, 0),
                      .at = (uintptr_t)b->refElements[i].pointer});
}
#endif

/* ---- counters ---------------------------------------------------------------------------- */

#if SW_HAVE_NVTX_COUNTERS
static uint64_t counter_register(nvtxDomainHandle_t domain, const nvtxCounterAttr_t *c)
{
    static uint64_t ids = 1000;
    const nvtxSemanticsCounter_t *s =
        (const nvtxSemanticsCounter_t *)(const void *)c->semantics;
    const bool sound = c->structSize == sizeof *c &&
                       c->schemaId == NVTX_PAYLOAD_ENTRY_TYPE_INT64 && s != NULL &&
                       s->header.semanticId == NVTX_SEMANTIC_ID_COUNTERS_V1 &&
                       strcmp(s->unit, "bytes") == 0;
    const uint64_t id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
    hear_named(
        (heard){.kind = HEARD_COUNTER, .category = in_domain(domain, sound ? 0 : 98), .id = id},
        c->name);
    return id;
}

static void counter_sample(nvtxDomainHandle_t domain, uint64_t id, int64_t value)
{
    hear(&(heard){.kind = HEARD_SAMPLE,
                  .category = in_domain(domain, 0),
                  .id = id,
                  .bytes = (uint64_t)value});
}
#endif

/* ---- attaching --------------------------------------------------------------------------- */

static bool wants(const char *what)
{
    const char *tool = getenv("STEPWELL_NVTX_TOOL");
    return tool == NULL || strcmp(tool, "all") == 0 || strcmp(tool, what) == 0;
}

#define EXPORTED __attribute__((visibility("default")))
#define SLOT(table, id, function) (*(table)[id] = (NvtxFunctionPointer)(function))

EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core2;
    unsigned n;
    const char *tool = getenv("STEPWELL_NVTX_TOOL");
    if (tool != NULL && strcmp(tool, "refuse") == 0)
        return 0;
    if (callbacks == NULL ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &n))
        return 0;
    if (!wants("ranges"))
        return 1;
    SLOT(core2, NVTX_CBID_CORE2_DomainCreateA, domain_create);
    SLOT(core2, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
    SLOT(core2, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
    SLOT(core2, NVTX_CBID_CORE2_DomainRangePushEx, push);
    SLOT(core2, NVTX_CBID_CORE2_DomainRangePop, pop);
    SLOT(core2, NVTX_CBID_CORE2_DomainMarkEx, mark);
    return 1;
}

#if SW_HAVE_NVTX_MEM || SW_HAVE_NVTX_COUNTERS
EXPORTED int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);
EXPORTED int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    intptr_t *slots = module->segments->functionSlots;
    (void)slots;
#if SW_HAVE_NVTX_MEM
    if (module->moduleId == NVTX_EXT_MODULEID_MEM && wants("memory")) {
        slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)heap_register;
        slots[NVTX3EXT_CBID_nvtxMemHeapReset] = (intptr_t)heap_reset;
        slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)heap_unregister;
        slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)regions_register;
        slots[NVTX3EXT_CBID_nvtxMemRegionsName] = (intptr_t)regions_name;
        slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)regions_unregister;
        return 1;
    }
#endif
#if SW_HAVE_NVTX_COUNTERS
    if (module->moduleId == NVTX_EXT_COUNTERS_MODULEID && wants("counters")) {
        slots[NVTX3EXT_CBID_nvtxCounterRegister] = (intptr_t)counter_register;
        slots[NVTX3EXT_CBID_nvtxCounterSampleInt64] = (intptr_t)counter_sample;
        return 1;
    }
#endif
    return 0;
}
#endif

#ifdef NVTX_RECORDER_MODULE
__attribute__((destructor)) static void write_all(void)
{
    const char *path = getenv("STEPWELL_NVTX_RECORDS");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    for (size_t i = 0; i < used && i < ROOM; i++)
        fprintf(file, "%d %u %llu %llu %llu %llu %d %s\n", (int)list[i].kind, list[i].category,
                (unsigned long long)list[i].bytes, (unsigned long long)list[i].at,
                (unsigned long long)list[i].id, (unsigned long long)list[i].thread,
                list[i].registered, list[i].name);
    fclose(file);
}
#else
extern NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;
#if SW_HAVE_NVTX_MEM || SW_HAVE_NVTX_COUNTERS
extern NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr;
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr =
    InitializeInjectionNvtxExtension;
#endif
#endif
#endif

bool nvtx_recorder_is_built(void)
{
    return SW_HAVE_NVTX;
}

bool nvtx_recorder_has_extensions(void)
{
    return SW_HAVE_NVTX_MEM && SW_HAVE_NVTX_COUNTERS;
}
