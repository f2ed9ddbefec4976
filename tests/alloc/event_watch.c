/* See event_watch.h. */
#include "tests/alloc/event_watch.h"
#include "tests/alloc/device_memory.h"
#include "tests/support/suite.h"

static void listen(void *context, const sw_event *event)
{
    sw_watch *watch = context;
    watch->count[event->kind]++;
    watch->last = *event;
    switch (event->kind) {
    case SW_EVENT_PUSH:
    case SW_EVENT_PLACE:
        watch->live += event->bytes;
        break;
    case SW_EVENT_RESET:
    case SW_EVENT_RELEASE:
        watch->live -= event->bytes;
        break;
    case SW_EVENT_COMMIT:
        watch->committed = event->bytes;
        break;
    case SW_EVENT_DENIED:
        break;
    }
}

sw_observer sw_watch_by(sw_watch *watch)
{
    return (sw_observer){listen, watch};
}

static void destroy_arena(void *arena)
{
    sw_arena_destroy(arena);
}

static void free_budget(void *budget)
{
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0); /* arenas have given everything back */
    sw_budget_free(budget);
}

sw_arena *sw_watched_arena(const char *kind, sw_budget *budget, sw_watch *watch)
{
    sw_store *store = NULL;
    sw_arena *arena = NULL;
    if (strcmp(kind, "device") == 0) {
        sw_test_device *device = calloc(1, sizeof *device);
        CU_ASSERT_PTR_NOT_NULL_FATAL(device);
        sw_after(free, device); /* after the arena has gone */
        device->step = 4096;
        CU_ASSERT_EQUAL_FATAL(sw_test_device_store(&store, SW_TEST_ARENA_BYTES, device), SW_OK);
    } else
        CU_ASSERT_EQUAL_FATAL(sw_store_host_create(&store, SW_TEST_ARENA_BYTES), SW_OK);
    const sw_arena_opts opts = {"test", store, budget, sw_watch_by(watch)};
    CU_ASSERT_EQUAL_FATAL(sw_arena_create(&arena, &opts), SW_OK);
    sw_after(destroy_arena, arena);
    return arena;
}

sw_budget *sw_test_budget(size_t bytes)
{
    sw_budget *budget = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_budget_new(&budget, bytes), SW_OK);
    sw_after(free_budget, budget);
    return budget;
}
