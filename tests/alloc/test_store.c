/* One contract over every kind of store, then what only a device does. */
#include "alloc/arena/store.h"
#include "alloc/base/mem.h"
#include "tests/alloc/device_memory.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("store")

#define MIB ((size_t)1 << 20)

/* Devices of the tests below have scripts of their own. */
static sw_test_device mapping = {.step = 2 * MIB}, fine_mapping = {.step = 4096}, plain;

static sw_status create_mapping(sw_store **out, size_t bytes)
{
    return sw_test_device_store(out, bytes, &mapping);
}

static sw_status create_fine_mapping(sw_store **out, size_t bytes)
{
    return sw_test_device_store(out, bytes, &fine_mapping);
}

static sw_status create_plain(sw_store **out, size_t bytes)
{
    return sw_test_device_store(out, bytes, &plain);
}

static const struct kind {
    const char *name;
    sw_status (*create)(sw_store **out, size_t bytes);
    uint64_t sites; /* that take memory until the second commit */
    bool moves;     /* when it grows */
    bool dirty;     /* new bytes are not zero */
} kinds[] = {{"host", sw_store_host_create, 3},
             {"a device that maps", create_mapping, 3, .dirty = true},
             {"a device that maps in small steps", create_fine_mapping, 3, .dirty = true},
             {"a device of plain blocks", create_plain, 3, .moves = true, .dirty = true}};

/* Whether host code can write there, tried in a child of its own. */
static bool writable(unsigned char *at)
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile unsigned char *)at = 1;
        _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A store that grew stays where it was, but for the kind that says so. */
static void stays(const struct kind *kind, const sw_store *store, unsigned char **base)
{
    if (!kind->moves)
        CU_ASSERT_PTR_EQUAL(store->base, *base);
    CU_ASSERT_EQUAL((uintptr_t)store->base % sw_page_bytes(), 0);
    CU_ASSERT_PTR_NOT_NULL(store->base);
    *base = store->base;
}

static void contract_of(const struct kind *kind)
{
    sw_store *store = NULL;
    const sw_status created = kind->create(&store, 16 * MIB);
    SW_CHECK(created == SW_OK, "%s: %s", kind->name, sw_last_error());
    if (created != SW_OK)
        return;
    unsigned char *base = store->base;
    CU_ASSERT(store->reserved_bytes >= 16 * MIB);
    CU_ASSERT_EQUAL(store->committed_bytes, 0);
    CU_ASSERT_EQUAL(store->granularity & (store->granularity - 1), 0);
    CU_ASSERT_EQUAL(store->granularity % sw_page_bytes(), 0);
    CU_ASSERT_EQUAL((uintptr_t)base % sw_page_bytes(), 0);

    CU_ASSERT_EQUAL(store->ops->commit(store, 1), SW_OK);
    CU_ASSERT_EQUAL(store->committed_bytes, store->granularity);
    CU_ASSERT_EQUAL(store->ops->commit(store, 5 * MIB + 1), SW_OK);
    CU_ASSERT(store->committed_bytes > 5 * MIB &&
              store->committed_bytes % store->granularity == 0);
    CU_ASSERT(store->committed_bytes < 5 * MIB + 1 + store->granularity);
    stays(kind, store, &base);
    const size_t committed = store->committed_bytes;
    CU_ASSERT_EQUAL(store->ops->commit(store, 3), SW_OK); /* never shrinks */
    CU_ASSERT_EQUAL(store->committed_bytes, committed);
    CU_ASSERT_PTR_EQUAL(store->base, base);

    for (size_t i = 0; i < committed && !kind->dirty; i += 4096)
        CU_ASSERT_EQUAL(base[i], 0);
    memset(base, 0x77, committed);
    CU_ASSERT_EQUAL(store->ops->commit(store, 9 * MIB), SW_OK); /* grows while it is in use */
    stays(kind, store, &base);
    CU_ASSERT_EQUAL(base[0], 0x77);
    CU_ASSERT_EQUAL(base[committed - 1], 0x77);
    base[9 * MIB - 1] = 1;
    CU_ASSERT(!writable(base + store->committed_bytes) ||
              store->committed_bytes == store->reserved_bytes);

    const size_t before = store->committed_bytes;
    CU_ASSERT_EQUAL(store->ops->commit(store, store->reserved_bytes + 1), SW_NOMEM);
    CU_ASSERT_EQUAL(store->ops->commit(store, SIZE_MAX), SW_NOMEM);
    CU_ASSERT_EQUAL(store->committed_bytes, before);
    CU_ASSERT_PTR_EQUAL(store->base, base);
    sw_store_destroy(store);
}

SW_TEST("every kind keeps the contract and leaks nothing")
{
    const uint64_t blocks = sw_heap_blocks();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        contract_of(&kinds[i]);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    sw_store_destroy(NULL);
}

/* Create, commit, destroy, with a second try in place: a refused commit must leave the store
 * usable. */
static sw_status create_and_commit(void *arg)
{
    const struct kind *kind = arg;
    sw_store *store;
    SW_TRY(kind->create(&store, 8 * MIB));
    const sw_status status = store->ops->commit(store, 3 * MIB);
    if (status != SW_OK) {
        CU_ASSERT_EQUAL(store->committed_bytes, 0);
        sw_fault_plan(SW_FAULT_MEMORY, UINT64_MAX, SW_FAULT_FROM);
        CU_ASSERT_EQUAL(store->ops->commit(store, 3 * MIB), SW_OK);
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        for (int i = 0; i < 100; i++) /* the sweep sees that the site was reached */
            (void)swi_fault_hit(SW_FAULT_MEMORY);
    }
    sw_store_destroy(store);
    return status;
}

SW_TEST("every site of every kind can fail, and a retry works")
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct kind kind = kinds[i];
        CU_ASSERT_EQUAL(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, create_and_commit, &kind),
                        kind.sites);
    }
}

SW_TEST("impossible reservations are refused")
{
    sw_store *store = (sw_store *)(void *)&store, *const before = store;
    const uint64_t blocks = sw_heap_blocks();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CU_ASSERT_EQUAL(kinds[i].create(&store, (size_t)1 << 62), SW_NOMEM);
        CU_ASSERT_EQUAL(kinds[i].create(&store, SIZE_MAX), SW_NOMEM);
    }
    for (size_t step = 64; step <= 3 * 4096; step += 3 * 4096 - 64) {
        sw_test_device odd = {.step = step};
        CU_ASSERT_EQUAL(sw_test_device_store(&store, MIB, &odd), SW_INVALID);
    }
    CU_ASSERT_PTR_EQUAL(store, before);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

/* ---- devices ----------------------------------------------------------------------------- */

/* Two commits that grow; the second may move. */
static sw_status commit_twice(sw_test_device *device, sw_store **out)
{
    SW_TRY(sw_test_device_store(out, 16 * MIB, device));
    SW_TRY((*out)->ops->commit(*out, MIB));
    memset((*out)->base, 0x3c, MIB);
    return (*out)->ops->commit(*out, 5 * MIB);
}

/* Call k fails as no memory or as a broken device: the status is passed on, the store is as it
 * was, and the next try goes well. */
SW_TEST("each call of a device can fail, and a retry works")
{
    static const sw_status how[] = {SW_NOMEM, SW_DEVICE};
    const uint64_t blocks = sw_heap_blocks();
    for (int kind = 0; kind < 2; kind++)
        for (int h = 0; h < 2; h++) {
            int64_t k = 0;
            sw_status status = SW_NOMEM;
            for (; status != SW_OK && k < 20; k++) {
                sw_test_device device = {
                    .step = kind == 0 ? 2 * MIB : 0, .fails = how[h], .fail_at = k + 1};
                sw_store *store = NULL;
                status = commit_twice(&device, &store);
                CU_ASSERT(status == SW_OK || status == how[h]);
                if (status != SW_OK && store != NULL) {
                    const size_t had = store->committed_bytes;
                    CU_ASSERT(had == 0 || (had < 5 * MIB && store->base[MIB - 1] == 0x3c));
                    CU_ASSERT_EQUAL(store->ops->commit(store, 5 * MIB), SW_OK);
                    CU_ASSERT(had == 0 || store->base[MIB - 1] == 0x3c);
                }
                sw_store_destroy(store);
                CU_ASSERT_EQUAL(device.live_bytes, 0);
                CU_ASSERT_EQUAL(device.ranges, 0);
            }
            CU_ASSERT_EQUAL(k, 4); /* reserve, map, map; or alloc, alloc, copy; then none */
        }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

SW_TEST("a device gives exactly what is requested, and takes it back")
{
    sw_store *store = NULL;
    sw_test_device device = {.step = 2 * MIB};
    CU_ASSERT_EQUAL_FATAL(sw_test_device_store(&store, 16 * MIB, &device), SW_OK);
    CU_ASSERT(store->ops->device);
    CU_ASSERT_PTR_EQUAL(store->owner, &device);
    CU_ASSERT_EQUAL(device.live_bytes, 0); /* declared, not committed */
    CU_ASSERT_EQUAL(store->ops->commit(store, 3 * MIB), SW_OK);
    CU_ASSERT_EQUAL(device.live_bytes, 4 * MIB);
    CU_ASSERT_EQUAL(device.maps, 1);
    CU_ASSERT_EQUAL(store->ops->commit(store, 4 * MIB), SW_OK);
    CU_ASSERT_EQUAL(device.maps, 1);
    sw_store_destroy(store);
    CU_ASSERT_EQUAL(device.live_bytes, 0);

    sw_test_device none = {0};
    CU_ASSERT_EQUAL_FATAL(sw_test_device_store(&store, 16 * MIB, &none), SW_OK);
    CU_ASSERT_PTR_NULL(store->base);
    sw_store_destroy(store); /* without ever having had a block */

    store = NULL;
    CU_ASSERT_EQUAL(sw_store_device_create(&store, MIB, &(sw_device_memory){0}), SW_INVALID);
    CU_ASSERT_PTR_NULL(store);
}
