/* The only file that includes NVTX: each translation unit with these headers would look for the
 * tool by itself. SW_HAVE_NVTX_MEM and SW_HAVE_NVTX_COUNTERS say whether the headers are new
 * enough for these extensions. */
#include "profiler/record/nvtx.h"

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

static void start(void)
{
#define NAME(id, name) nvtxDomainNameCategoryA(domain, SW_NVTX_IN_##id, name);
    domain = nvtxDomainCreateA("stepwell");
    SW_NVTX_CATEGORIES(NAME)
#undef NAME
}

bool sw_nvtx_attached(void)
{
    int fresh = FRESH;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == READY)
        return domain != NULL;
    if (__atomic_compare_exchange_n(&state, &fresh, STARTING, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
        start();
        __atomic_store_n(&state, READY, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != READY)
        sched_yield();
    return domain != NULL;
}

const void *sw_nvtx_register(const char *text)
{
    return nvtxDomainRegisterStringA(domain, text);
}

static nvtxEventAttributes_t event(sw_nvtx_category category, const sw_nvtx_name *name,
                                   uint64_t bytes)
{
    nvtxEventAttributes_t e = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .category = (uint32_t)category,
                               .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                               .payload.ullValue = bytes,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                               .message.ascii = name->text};
    if (name->handle != NULL) {
        e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        e.message.registered = (nvtxStringHandle_t)(uintptr_t)name->handle;
    }
    return e;
}

/* No one's domain is asked here: filling an event takes longer than not saying it. */
void sw_nvtx_begin(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes)
{
    if (domain == NULL)
        return;
    const nvtxEventAttributes_t e = event(category, name, bytes);
    (void)nvtxDomainRangePushEx(domain, &e);
}

void sw_nvtx_end(void)
{
    if (domain != NULL)
        (void)nvtxDomainRangePop(domain);
}

void sw_nvtx_mark(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes)
{
    if (domain == NULL)
        return;
    const nvtxEventAttributes_t e = event(category, name, bytes);
    nvtxDomainMarkEx(domain, &e);
}
#else
bool sw_nvtx_attached(void)
{
    return false;
}

const void *sw_nvtx_register(const char *text)
{
    (void)text;
    return NULL;
}

void sw_nvtx_begin(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes)
{
    (void)category, (void)name, (void)bytes;
}

void sw_nvtx_end(void)
{
}

void sw_nvtx_mark(sw_nvtx_category category, const sw_nvtx_name *name, uint64_t bytes)
{
    (void)category, (void)name, (void)bytes;
}
#endif

/* ---- counters ---------------------------------------------------------------------------- */

#if SW_HAVE_NVTX_COUNTERS
uint64_t sw_nvtx_counter(const char *name, const char *about)
{
    const nvtxSemanticsCounter_t bytes = {.header = {.structSize = sizeof bytes,
                                                     .semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1,
                                                     .version = NVTX_COUNTER_SEMANTIC_VERSION},
                                          .flags = NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE |
                                                   NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT,
                                          .unit = "bytes",
                                          .unitScaleNumerator = 1,
                                          .unitScaleDenominator = 1,
                                          .limitType = NVTX_COUNTER_LIMIT_UNDEFINED};
    const nvtxCounterAttr_t counter = {.structSize = sizeof counter,
                                       .schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64,
                                       .name = name,
                                       .description = about,
                                       .scopeId = NVTX_SCOPE_CURRENT_SW_PROCESS,
                                       .semantics = &bytes.header,
                                       .counterId = NVTX_COUNTER_ID_NONE};
    return nvtxCounterRegister(domain, &counter);
}

void sw_nvtx_sample(uint64_t counter, uint64_t bytes)
{
    nvtxCounterSampleInt64(domain, counter, (int64_t)bytes);
}
#else
uint64_t sw_nvtx_counter(const char *name, const char *about)
{
    (void)name, (void)about;
    return 0;
}

void sw_nvtx_sample(uint64_t counter, uint64_t bytes)
{
    (void)counter, (void)bytes;
}
#endif

/* ---- memory ------------------------------------------------------------------------------ */

#if SW_HAVE_NVTX_MEM
void *sw_nvtx_heap(const char *name, const void *base, size_t bytes)
{
    const nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = base};
    const nvtxMemHeapDesc_t heap = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                    .structSize = sizeof heap,
                                    .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
                                    .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                    .typeSpecificDescSize = sizeof range,
                                    .typeSpecificDesc = &range,
                                    .category = SW_NVTX_IN_MEMORY,
                                    .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                    .message.ascii = name};
    nvtxMemHeapHandle_t handle = nvtxMemHeapRegister(domain, &heap);
    return handle != NVTX_MEM_HEAP_HANDLE_NO_TOOL ? (void *)handle : NULL;
}

void sw_nvtx_heap_reset(void *heap)
{
    nvtxMemHeapReset(domain, heap);
}

void sw_nvtx_heap_end(void *heap)
{
    if (heap != NULL)
        nvtxMemHeapUnregister(domain, heap);
}

void sw_nvtx_region(void *heap, const char *name, const void *at, size_t bytes)
{
    const nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = at};
    const nvtxMemRegionsRegisterBatch_t regions = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                                   .structSize = sizeof regions,
                                                   .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                                   .heap = heap,
                                                   .regionCount = 1,
                                                   .regionDescElementSize = sizeof range,
                                                   .regionDescElements = &range};
    const nvtxMemRegionNameDesc_t label = {.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER,
                                           .nameType = NVTX_MESSAGE_TYPE_ASCII,
                                           .region.pointer = at,
                                           .name.ascii = name,
                                           .category = SW_NVTX_IN_MEMORY};
    const nvtxMemRegionsNameBatch_t names = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                             .structSize = sizeof names,
                                             .regionCount = 1,
                                             .regionElementSize = sizeof label,
                                             .regionElements = &label};
    nvtxMemRegionsRegister(domain, &regions);
    nvtxMemRegionsName(domain, &names);
}

void sw_nvtx_region_end(const void *at)
{
    const nvtxMemRegionRef_t region = {.pointer = at};
    const nvtxMemRegionsUnregisterBatch_t regions = {.extCompatID = NVTX_EXT_COMPATID_MEM,
                                                     .structSize = sizeof regions,
                                                     .refType =
                                                         NVTX_MEM_REGION_REF_TYPE_POINTER,
                                                     .refCount = 1,
                                                     .refElementSize = sizeof region,
                                                     .refElements = &region};
    nvtxMemRegionsUnregister(domain, &regions);
}
#else
void *sw_nvtx_heap(const char *name, const void *base, size_t bytes)
{
    (void)name, (void)base, (void)bytes;
    return NULL;
}

void sw_nvtx_heap_reset(void *heap)
{
    (void)heap;
}

void sw_nvtx_heap_end(void *heap)
{
    (void)heap;
}

void sw_nvtx_region(void *heap, const char *name, const void *at, size_t bytes)
{
    (void)heap, (void)name, (void)at, (void)bytes;
}

void sw_nvtx_region_end(const void *at)
{
    (void)at;
}
#endif
