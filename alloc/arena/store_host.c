/* Host memory: one reserved address range, committed from the bottom up. A page before it
 * and one after are never given memory: an access past either end faults, and the system never
 * makes one mapping of ours and a neighbour's, so what it counts for the mapping is ours. */
#include "alloc/base/mem.h"
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "alloc/arena/store.h"

static sw_status host_commit(sw_store *store, size_t bytes)
{
    size_t wanted;
    if (!sw_size_align(bytes, store->granularity, &wanted) || wanted > store->reserved_bytes)
        SW_FAIL(SW_NOMEM, "host store: needs %zu bytes; %zu are reserved", bytes,
                store->reserved_bytes);
    if (wanted <= store->committed_bytes)
        return SW_OK;
    SW_ASSERT(store->committed_bytes % store->granularity == 0);
    SW_ASSERT(wanted >= bytes && wanted <= store->reserved_bytes);
    SW_TRY(sw_range_commit(store->base, store->committed_bytes, wanted));
    store->committed_bytes = wanted;
    return SW_OK;
}

static void host_destroy(sw_store *store)
{
    const size_t page = store->granularity;
    SW_ASSERT(store->base != NULL && (uintptr_t)store->base % page == 0);
    SW_ASSERT(store->committed_bytes <= store->reserved_bytes);
    sw_range_release(store->base - page, store->reserved_bytes + 2 * page);
    sw_heap_free(store, SW_HEAP_RECORDS, sizeof *store);
}

static const sw_store_ops host_ops = {"host", host_commit, host_destroy, false, 0};

sw_status sw_store_host_create(sw_store **out, size_t reserve_bytes)
{
    const size_t page = sw_page_bytes();
    size_t bytes, guarded;
    if (!sw_size_align(reserve_bytes > 0 ? reserve_bytes : 1, page, &bytes) ||
        !sw_size_add(bytes, 2 * page, &guarded))
        SW_FAIL(SW_NOMEM, "host store: %zu bytes overflow", reserve_bytes);
    void *block, *base;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sw_store)));
    const sw_status status = sw_range_reserve(&base, guarded);
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_RECORDS, sizeof(sw_store));
        return status;
    }
    *out = block;
    **out = (sw_store){&host_ops, (unsigned char *)base + page, bytes, 0, page, NULL};
    return SW_OK;
}

void sw_store_destroy(sw_store *store)
{
    if (store != NULL)
        store->ops->destroy(store);
}
