/* See event_watch.h. */
#include "tests/alloc/event_watch.h"
#include "tests/support/suite.h"
#include <string.h>

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
    case SW_EVENT_REWIND:
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
    const sw_sim_script script = {
        .capacity_bytes = SW_TEST_ARENA_BYTES, .granularity = 4096, .fail_commit = -1};
    if (strcmp(kind, "sim") == 0) {
        CU_ASSERT_EQUAL_FATAL(sw_store_sim_create(&store, SW_TEST_ARENA_BYTES, &script), SW_OK);
        CU_ASSERT_EQUAL_FATAL(store->ops->host_access(store, true), SW_OK);
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
