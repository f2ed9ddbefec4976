/* Asserts stop a build with checks at our own mistakes, and are nothing in others. */
#include "alloc/arena/arena.h"
#include "alloc/base/assert.h"
#include "tests/support/suite.h"
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("asserts")

/* How a child ends that does it. */
static int status_of(void (*mistake)(void))
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        mistake();
        _exit(0);
    }
    CU_ASSERT_FATAL(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void nothing(void)
{
}

/* More goes back than was taken. */
static void give_too_much(void)
{
    sw_budget *budget;
    if (sw_budget_new(&budget, 1000) == SW_OK && sw_budget_take(budget, 10, "some") == SW_OK)
        sw_budget_give(budget, 11);
}

/* A range that was placed once is released twice. */
static void release_twice(void)
{
    sw_store *store;
    sw_arena *arena;
    if (sw_store_host_create(&store, 1 << 20) != SW_OK)
        return;
    const sw_arena_opts opts = {.label = "mistakes", .store = store};
    if (sw_arena_create(&arena, &opts) != SW_OK || sw_arena_grow(arena, 4096, true) != SW_OK ||
        sw_arena_place(arena, 0, 64, 0) != SW_OK)
        return;
    sw_arena_release(arena, 0, 64, 0);
    sw_arena_release(arena, 0, 64, 0);
}

SW_TEST("a mistake stops a build with checks")
{
    CU_ASSERT_EQUAL(status_of(nothing), 0);
#if SW_CHECKS >= 1
    CU_ASSERT_NOT_EQUAL(status_of(give_too_much), 0);
    CU_ASSERT_NOT_EQUAL(status_of(release_twice), 0);
#else
    (void)give_too_much;
    (void)release_twice;
    SW_SKIP("asserts are in builds with -Dchecks=1 or 2");
#endif
}

static int asked;

/* Without checks a condition is not even computed. */
SW_TEST("conditions cost nothing without checks")
{
    asked = 0;
    SW_ASSERT(++asked > 0);
    CU_ASSERT_EQUAL(asked, SW_CHECKS >= 1 ? 1 : 0);
}
