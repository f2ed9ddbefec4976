/* Arenas over a device's memory: its bytes cannot be touched by the host, and memory is
 * taken from it rarely. */
#include "alloc/arena/arena.h"
#include "alloc/base/address_map.h"
#include "alloc/base/poison.h"
#include "tests/alloc/device_memory.h"
#include "tests/alloc/event_watch.h"
#include "tests/support/suite.h"

SW_TESTS("arena on a device")

#define MIB ((size_t)1 << 20)

#if SW_POISON
int __asan_address_is_poisoned(void const volatile *address);
#endif

static void destroy(void *arena)
{
    sw_arena_destroy(arena);
}

static sw_arena *arena_on(sw_test_device *device, sw_budget *budget, sw_watch *watch)
{
    sw_store *store = NULL;
    sw_arena *arena = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_test_device_store(&store, 1024 * MIB, device), SW_OK);
    const sw_arena_opts opts = SW_INIT(.label = "device", .store = store, .budget = budget,
                                       .observer = sw_watch_by(watch), .use = SW_ARENA_STEP);
    CU_ASSERT_EQUAL_FATAL(sw_arena_create(&arena, &opts), SW_OK);
    return arena;
}

/* As the device made them: neither filled nor poisoned. */
static bool is_untouched(const sw_arena *arena)
{
    const unsigned char *base = sw_arena_base(arena);
    const size_t n = sw_arena_store(arena)->committed_bytes;
    for (size_t i = 0; i < n; i += 32) {
#if SW_POISON
        if (__asan_address_is_poisoned(base + i))
            return false;
#endif
        if (base[i] != 0xd5)
            return false;
    }
    return n > 0;
}

SW_TEST("bytes of a device are neither filled nor poisoned")
{
    for (size_t step = 0; step <= 4096; step += 4096) {
        static sw_test_device
            device; /* outlives the arena, which goes when the test has ended */
        device = (sw_test_device){.step = step};
        sw_watch watch = {0};
        sw_arena *arena = arena_on(&device, NULL, &watch);
        void *out;
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 0, "nothing"), SW_OK);
        CU_ASSERT_PTR_NOT_NULL(out);
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 1000, "some"), SW_OK);
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 1000, "more"), SW_OK);
        CU_ASSERT_EQUAL(sw_arena_live(arena), 2048);
        CU_ASSERT(is_untouched(arena));
        sw_arena_reset(arena);
        CU_ASSERT_EQUAL(sw_arena_grow(arena, 8192, true), SW_OK);
        CU_ASSERT_EQUAL(sw_arena_place(arena, 4096, 100, 1), SW_OK);
        sw_arena_release(arena, 4096, 100, 1);
        CU_ASSERT(is_untouched(arena));
        sw_arena_destroy(arena);
        CU_ASSERT_EQUAL(device.live_bytes, 0);
    }
}

SW_TEST("a plan grows exactly, and pushes in large steps")
{
    static sw_test_device device;
    device = (sw_test_device){.step = 2 * MIB};
    sw_watch watch = {0};
    sw_arena *arena = arena_on(&device, NULL, &watch);
    sw_after(destroy, arena);
    void *out;
    CU_ASSERT_EQUAL(sw_arena_grow(arena, 5 * MIB, true), SW_OK);
    CU_ASSERT_EQUAL(device.live_bytes, 6 * MIB);
    CU_ASSERT_EQUAL(watch.committed, 6 * MIB);
    for (int i = 0; i < 60; i++)
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, MIB, "range"), SW_OK);
    CU_ASSERT_EQUAL(device.maps, 2); /* 64 MiB more, once */
    CU_ASSERT_EQUAL(device.live_bytes, 70 * MIB);
    CU_ASSERT_EQUAL(sw_arena_height(arena), 60 * MIB); /* what is promised is as ever */
    for (int round = 0; round < 3; round++) {
        sw_arena_reset(arena);
        for (int i = 0; i < 60; i++)
            CU_ASSERT_EQUAL(sw_arena_push(arena, &out, MIB, "range"), SW_OK);
    }
    CU_ASSERT_EQUAL(device.calls, 3); /* warm: nothing is asked for */
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 500 * MIB, "large"), SW_OK);
    CU_ASSERT(device.live_bytes >= 560 * MIB && device.live_bytes <= 564 * MIB);
}

SW_TEST("where a large step does not fit, what is needed is tried")
{
    static sw_test_device device;
    device = (sw_test_device){.step = 2 * MIB, .capacity_bytes = 8 * MIB};
    sw_watch watch = {0};
    sw_arena *arena = arena_on(&device, NULL, &watch);
    sw_after(destroy, arena);
    void *out;
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 5 * MIB, "range"), SW_OK);
    CU_ASSERT_EQUAL(device.live_bytes, 6 * MIB);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 5 * MIB, "range"), SW_NOMEM);
    CU_ASSERT_EQUAL(watch.count[SW_EVENT_DENIED], 1);
    CU_ASSERT_EQUAL(sw_arena_live(arena), 5 * MIB);
    CU_ASSERT_EQUAL(device.live_bytes, 6 * MIB);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, 2 * MIB, "range"), SW_OK);
    CU_ASSERT_EQUAL(device.live_bytes, 8 * MIB);
}

SW_TEST("large steps stay within the budget")
{
    static sw_test_device device;
    device = (sw_test_device){.step = 2 * MIB};
    sw_watch watch = {0};
    sw_budget *budget = sw_test_budget(10 * MIB);
    sw_arena *arena = arena_on(&device, budget, &watch);
    sw_after(destroy, arena);
    void *out;
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, MIB, "range"), SW_OK);
    CU_ASSERT_EQUAL(sw_budget_used(budget), MIB);
    CU_ASSERT(device.live_bytes <= 10 * MIB);
    for (int i = 0; i < 9; i++)
        CU_ASSERT_EQUAL(sw_arena_push(arena, &out, MIB - 64, "range"), SW_OK);
    CU_ASSERT(device.live_bytes <= 10 * MIB + device.step);
    CU_ASSERT(device.maps <= 2);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &out, MIB, "range"), SW_NOMEM);
}

typedef struct {
    int n;
    sw_address_range last;
} found;

static void find(void *context, const sw_address_range *claim)
{
    found *f = context;
    if (claim->kind != SW_ADDRESS_ARENA || claim->device == NULL)
        return;
    f->n++;
    f->last = *claim;
}

SW_TEST("a claim says whose memory it is")
{
    static sw_test_device device;
    device = (sw_test_device){.step = 2 * MIB};
    sw_watch watch = {0};
    sw_arena *arena = arena_on(&device, NULL, &watch);
    sw_after(destroy, arena);
    CU_ASSERT_EQUAL(sw_arena_grow(arena, 3 * MIB, true), SW_OK);
    found f = {0};
    sw_address_map_visit(find, &f);
    CU_ASSERT_EQUAL(f.n, 1);
    CU_ASSERT_PTR_EQUAL(f.last.device, &device);
    CU_ASSERT_EQUAL(f.last.promised_bytes, 3 * MIB);
    CU_ASSERT_EQUAL(f.last.committed_bytes, 4 * MIB);
    CU_ASSERT_EQUAL(f.last.base + f.last.bytes, 0); /* no addresses of the process */
}
