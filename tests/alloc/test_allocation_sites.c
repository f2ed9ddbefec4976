/* Places: each live block stands on the line that took it, whoever gives it back, however many
 * there are; and the heap's own figures. */
#include "alloc/base/allocation_sites.h"
#include "alloc/base/fault.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <pthread.h>
#include <unistd.h>

SW_TESTS("places")

static void end_places(void *unused)
{
    sw_sites_end();
}

static void begin_places(void)
{
    CU_ASSERT_EQUAL_FATAL(sw_sites_begin(), SW_OK);
    sw_after(end_places, NULL);
}

/* The bytes of the site with a name that ends with this text; false where there is none. */
static bool place_at(const char *end, sw_alloc_site *out)
{
    for (uint32_t i = 0; sw_sites_read(i, out); i++) {
        const size_t n = strlen(out->at), m = strlen(end);
        if (n >= m && strcmp(out->at + n - m, end) == 0)
            return true;
    }
    return false;
}

SW_TEST("a block stands on its line")
{
    begin_places();
    void *block, *other;
    sw_alloc_site p;
    const char *line = sw_textf("%d", __LINE__ + 1);
    CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&block, SW_HEAP_FILES, 1000), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_heap_alloc_at(&other, SW_HEAP_DATASETS, 7, "mine"), SW_OK);
    const char *name = sw_textf("tests/alloc/test_allocation_sites.c:%s", line);
    CU_ASSERT(place_at(name, &p) && p.heap == SW_HEAP_FILES && p.bytes == 1000 &&
              p.blocks == 1);
    CU_ASSERT_STRING_EQUAL(p.at, name); /* from the root, whatever the build folder is */
    CU_ASSERT(place_at("mine", &p) && p.heap == SW_HEAP_DATASETS && p.bytes == 7);
    sw_heap_free(block, SW_HEAP_FILES, 1000);
    sw_heap_free(other, SW_HEAP_DATASETS, 7);
    CU_ASSERT(place_at(name, &p) && p.bytes == 0 && p.blocks == 0);
    CU_ASSERT(place_at("mine", &p) && p.bytes == 0);
}

SW_TEST("what grows moves to who made it grow")
{
    begin_places();
    void *array = NULL;
    uint32_t cap = 0;
    sw_alloc_site p;
    CU_ASSERT_EQUAL_FATAL(sw_heap_reserve_at(&array, SW_HEAP_PROGRAMS, &cap, 10, 8, "first"),
                          SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_heap_reserve_at(&array, SW_HEAP_PROGRAMS, &cap, 100, 8, "then"),
                          SW_OK);
    CU_ASSERT(place_at("first", &p) && p.bytes == 0);
    CU_ASSERT(place_at("then", &p) && p.bytes == cap * 8);
    sw_heap_free(array, SW_HEAP_PROGRAMS, cap * 8);
}

/* Blocks that were taken before belong to no site and may be freed at any time; a session
 * does not count those of the one before. */
SW_TEST("blocks from before are no one's")
{
    void *before, *between;
    sw_alloc_site p;
    CU_ASSERT_EQUAL_FATAL(sw_heap_alloc_at(&before, SW_HEAP_FILES, 50, "before"), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_sites_begin(), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_heap_alloc_at(&between, SW_HEAP_FILES, 50, "between"), SW_OK);
    sw_sites_end();
    begin_places();
    CU_ASSERT(!place_at("before", &p) && !place_at("between", &p));
    sw_heap_free(before, SW_HEAP_FILES, 50);
    sw_heap_free(between, SW_HEAP_FILES, 50);
    CU_ASSERT(!place_at("before", &p) && !place_at("between", &p));
}

/* A plain model beside it, over blocks that come and go by chance. */
SW_TEST("many blocks add up")
{
    enum { BLOCKS = 20000, PLACES = 5 };
    static const char *const names[PLACES] = {"a", "b", "c", "d", "e"};
    static void *block[BLOCKS];
    static size_t bytes[BLOCKS];
    static int place[BLOCKS];
    size_t sum[PLACES] = {0};
    const uint64_t blocks = sw_heap_blocks();
    begin_places();
    sw_dice dice = {7};
    for (int round = 0; round < 6 * BLOCKS; round++) {
        const size_t i = (size_t)sw_dice_below(&dice, BLOCKS);
        if (block[i] != NULL) {
            sum[place[i]] -= bytes[i];
            sw_heap_free(block[i], SW_HEAP_FILES, bytes[i]);
            block[i] = NULL;
            continue;
        }
        place[i] = (int)sw_dice_below(&dice, PLACES);
        bytes[i] = (size_t)sw_dice_below(&dice, 100);
        CU_ASSERT_EQUAL_FATAL(
            sw_heap_alloc_at(&block[i], SW_HEAP_FILES, bytes[i], names[place[i]]), SW_OK);
        sum[place[i]] += bytes[i];
    }
    for (int k = 0; k < PLACES; k++) {
        sw_alloc_site p;
        SW_CHECK(place_at(names[k], &p) && p.bytes == sum[k], "%s: %zu bytes, not %zu",
                 names[k], p.bytes, sum[k]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        sw_heap_free(block[i], SW_HEAP_FILES, bytes[i]);
        block[i] = NULL;
    }
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks + 1); /* the notes */
}

static void *churn(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        void *block;
        if (sw_heap_alloc_at(&block, SW_HEAP_FILES, 10, arg) != SW_OK)
            return arg;
        sw_heap_free(block, SW_HEAP_FILES, 10);
    }
    return NULL;
}

SW_TEST("threads share the notes")
{
    static char names[4][8] = {"t0", "t1", "t2", "t3"};
    pthread_t thread[4];
    begin_places();
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, churn, names[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        sw_alloc_site p;
        (void)pthread_join(thread[i], &failed);
        CU_ASSERT_PTR_NULL(failed);
        CU_ASSERT(place_at(names[i], &p) && p.blocks == 0 && p.bytes == 0);
    }
}

SW_TEST("a refused begin changes nothing")
{
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_ONCE);
    CU_ASSERT_EQUAL(sw_sites_begin(), SW_NOMEM);
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
    CU_ASSERT(!swi_sites_on());
}

/* Where the backend has purposes, bytes that a purpose asked for are in its figures; those of
 * the program's own malloc are in the others'. */
SW_TEST("the backend says who has what")
{
    enum { OURS = 3 << 20, THEIRS = 5 << 20, SMALL = 64 << 10 };
    static sw_heap_report before, after;
    size_t other[2];
    void *ours;
    if (!sw_heap_other_bytes(&other[0]))
        SW_SKIP("this heap does not say what it has given out");
    sw_heap_report_read(&before);
    CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&ours, SW_HEAP_DATASETS, OURS), SW_OK);
    char *volatile theirs = malloc(THEIRS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(theirs);
    theirs[0] = 1;
    sw_heap_report_read(&after);
    CU_ASSERT(sw_heap_other_bytes(&other[1]));
    const size_t more = other[1] - other[0];
    /* a little may come and go meanwhile, as in the C library */
    SW_CHECK(more > THEIRS - SMALL && more < THEIRS + (1 << 20), "%zu bytes more", more);
    CU_ASSERT(after.other.allocated_bytes > before.other.allocated_bytes + THEIRS - SMALL);
    const sw_heap_figures *p = &after.purpose[SW_HEAP_DATASETS];
    if (strncmp(sw_heap_backend(), "jemalloc", 8) == 0) {
        const size_t taken =
            p->allocated_bytes - before.purpose[SW_HEAP_DATASETS].allocated_bytes;
        SW_CHECK(taken >= OURS && taken <= OURS + OURS / 4, "%zu bytes", taken);
        CU_ASSERT(p->active_bytes >= p->allocated_bytes && p->mapped_bytes >= p->active_bytes);
        CU_ASSERT(p->resident_bytes >= p->active_bytes);
    } else
        CU_ASSERT_EQUAL(p->allocated_bytes, 0);
    free(theirs);
    sw_heap_free(ours, SW_HEAP_DATASETS, OURS);
}

/* Without the backend's profile the way out is named; the file is not made. */
SW_TEST("a heap profile is written, or the way out is named")
{
    const char *path = sw_temp_path("heap-profile");
    const sw_status ready = sw_heap_profile_ready();
    if (ready == SW_OK) {
        CU_ASSERT_EQUAL(sw_heap_profile_write(path), SW_OK);
        CU_ASSERT_EQUAL(access(path, R_OK), 0);
        return;
    }
    CU_ASSERT_EQUAL(ready, SW_UNSUPPORTED);
    CU_ASSERT(strstr(sw_last_error(), "MALLOC_CONF=prof:true") != NULL ||
              strstr(sw_last_error(), "--enable-prof") != NULL ||
              strstr(sw_last_error(), "-Djemalloc=enabled") != NULL);
    CU_ASSERT_EQUAL(sw_heap_profile_write(path), SW_UNSUPPORTED);
    CU_ASSERT_NOT_EQUAL(access(path, R_OK), 0);
}
