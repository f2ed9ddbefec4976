/* Memory of a device, by the functions of one: mapped into a reserved range as it grows, or a
 * plain block that is replaced by a larger one. Nothing here touches a byte of it. */
#include "alloc/base/mem.h"
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "alloc/arena/store.h"

#define STRIDE ((size_t)64 << 20)

typedef struct {
    sw_store head;
    sw_device_memory memory;
} device_store;

static sw_status map_more(sw_store *store, const sw_device_memory *m, size_t wanted)
{
    SW_TRY(m->map(m->context, store->base, store->committed_bytes, wanted));
    SW_ASSERT(store->base != NULL && wanted % store->granularity == 0);
    return SW_OK;
}

static sw_status take_larger(sw_store *store, const sw_device_memory *m, size_t wanted)
{
    void *block;
    SW_TRY(m->alloc(m->context, &block, wanted));
    SW_ASSERT((store->base == NULL) == (store->committed_bytes == 0));
    SW_ASSERT(block != store->base && wanted > store->committed_bytes);
    if (store->base != NULL) {
        const sw_status status =
            m->copy(m->context, block, store->base, store->committed_bytes);
        m->free(m->context, status == SW_OK ? store->base : block);
        SW_TRY(status);
    }
    store->base = block;
    return SW_OK;
}

static sw_status grow(sw_store *store, size_t bytes)
{
    const sw_device_memory *m = &((device_store *)(void *)store)->memory;
    size_t wanted = 0;
    if (!sw_size_align(bytes, store->granularity, &wanted) || wanted > store->reserved_bytes)
        SW_FAIL(SW_NOMEM, "cuda store: needs %zu bytes; addresses are reserved for %zu", bytes,
                store->reserved_bytes);
    if (wanted <= store->committed_bytes)
        return SW_OK;
    SW_TRY(m->granularity > 0 ? map_more(store, m, wanted) : take_larger(store, m, wanted));
    store->committed_bytes = wanted;
    return SW_OK;
}

static void give_back(sw_store *store)
{
    SW_ASSERT(store->committed_bytes <= store->reserved_bytes);
    const sw_device_memory *m = &((device_store *)(void *)store)->memory;
    if (m->granularity > 0)
        m->release(m->context, store->base, store->reserved_bytes);
    else if (store->base != NULL)
        m->free(m->context, store->base);
    sw_heap_free(store, SW_HEAP_RECORDS, sizeof(device_store));
}

static const sw_store_ops ops = {"cuda", grow, give_back, true, STRIDE};

sw_status sw_store_device_create(sw_store **out, size_t reserve_bytes,
                                 const sw_device_memory *memory)
{
    const bool maps = memory->granularity > 0;
    const size_t step = maps ? memory->granularity : sw_page_bytes();
    size_t bytes;
    if (memory->context == NULL)
        SW_FAIL(
            SW_INVALID,
            "cuda store: the context must not be NULL: it says which device owns the memory");
    if ((step & (step - 1)) != 0 || step % sw_page_bytes() != 0)
        SW_FAIL(SW_INVALID,
                "cuda store: the granularity must be a power of two of whole pages (got %zu)",
                step);
    if (!sw_size_align(reserve_bytes > 0 ? reserve_bytes : 1, step, &bytes) ||
        bytes > (size_t)1 << 56)
        SW_FAIL(SW_NOMEM, "cuda store: %zu bytes are more than a device has addresses for",
                reserve_bytes);
    device_store *store;
    void *base = NULL;
    SW_TRY(sw_heap_alloc(&store, SW_HEAP_RECORDS, sizeof(device_store)));
    const sw_status status = maps ? memory->reserve(memory->context, &base, bytes) : SW_OK;
    if (status != SW_OK) {
        sw_heap_free(store, SW_HEAP_RECORDS, sizeof(device_store));
        return status;
    }
    store->memory = *memory;
    store->head = (sw_store){&ops, base, bytes, 0, step, memory->context};
    *out = &store->head;
    return SW_OK;
}
