/* The watch: arena events to phase figures, against figures worked out by hand and a plain
 * replay. */
#include "alloc/arena/arena.h"
#include "profiler/record/watch.h"
#include "tests/support/suite.h"
#include <string.h>

SW_TESTS("watch")

static sw_arena *watched(sw_watch *watch, size_t height)
{
    sw_store *store = NULL;
    sw_arena *arena = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_store_host_create(&store, 1 << 20), SW_OK);
    const sw_arena_opts opts = {
        .label = "step", .store = store, .observer = sw_watch_observer(watch)};
    CU_ASSERT_EQUAL_FATAL(sw_arena_create(&arena, &opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_arena_grow(arena, height, true), SW_OK);
    return arena;
}

SW_TEST("phases have peaks and ends")
{
    sw_watch w = {0};
    sw_arena *arena = watched(&w, 4096);
    sw_watch_begin(&w, 1000);
    sw_watch_phase(&w, 1);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 0, 1000, 1), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_place(arena, 1024, 1024, 2), SW_OK);
    sw_arena_release(arena, 0, 1000, 1);
    sw_watch_phase(&w, 3); /* begins from what lives: 1024 */
    CU_ASSERT_EQUAL(sw_arena_place(arena, 0, 64, 3), SW_OK);
    sw_arena_release(arena, 0, 64, 3);
    sw_watch_phase(&w, 1); /* comes back, lower than before */
    sw_arena_release(arena, 1024, 1024, 2);
    sw_watch_end(&w);
    CU_ASSERT_EQUAL(w.phases[0].peak_bytes, 1000); /* what lives all the time */
    CU_ASSERT_EQUAL(w.phases[0].end_bytes, 1000);
    CU_ASSERT_EQUAL(w.phases[1].peak_bytes, 1000 + 2048);
    CU_ASSERT_EQUAL(w.phases[1].end_bytes, 1000);
    CU_ASSERT_EQUAL(w.phases[2].peak_bytes, 0); /* never entered */
    CU_ASSERT_EQUAL(w.phases[3].peak_bytes, 1000 + 1024 + 64);
    CU_ASSERT_EQUAL(w.phases[3].end_bytes, 1000 + 1024);
    sw_watch_begin(&w, 7); /* the next run starts from nothing */
    sw_watch_end(&w);
    CU_ASSERT_EQUAL(w.phases[1].peak_bytes, 0);
    CU_ASSERT_EQUAL(w.phases[0].peak_bytes, 7);
    sw_arena_destroy(arena);
}

SW_TEST("the bump is watched too")
{
    sw_watch w = {0};
    sw_arena *arena = watched(&w, 64);
    void *at = NULL;
    sw_watch_begin(&w, 0);
    sw_watch_phase(&w, 0);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &at, 100, "a"), SW_OK);
    const sw_arena_mark mark = sw_arena_top(arena);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &at, 200, "b"), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_rewind(arena, mark), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &at, SIZE_MAX / 2, "huge"), SW_NOMEM);
    sw_watch_end(&w);
    CU_ASSERT_EQUAL(w.phases[0].peak_bytes, 128 + 256);
    CU_ASSERT_EQUAL(w.phases[0].end_bytes, 128);
    sw_arena_reset(arena);
    CU_ASSERT_EQUAL(w.live, 0);
    sw_arena_destroy(arena);
}

/* Random events and phases, against a second account kept in plain arrays. */
SW_TEST("random streams agree with a plain account")
{
    for (uint32_t seed = 1; seed <= 200; seed++) {
        sw_watch w = {0};
        sw_arena *arena = watched(&w, 64 * 64);
        size_t peak[SW_PROF_PHASES] = {0}, end[SW_PROF_PHASES] = {0};
        unsigned char lives[64] = {0};
        uint32_t state = seed;
        int phase = 0;
        size_t live = 0;
        sw_watch_begin(&w, 0);
        sw_watch_phase(&w, 0);
        for (int i = 0; i < 500; i++) {
            state = state * 1664525u + 1013904223u;
            const uint32_t slot = state >> 26;
            if ((state >> 8) % 10 == 0) {
                phase = (int)((state >> 12) % SW_PROF_PHASES);
                sw_watch_phase(&w, phase);
            } else if (lives[slot]) {
                sw_arena_release(arena, slot * 64, 64, slot);
                live -= 64;
                lives[slot] = 0;
            } else {
                CU_ASSERT_EQUAL(sw_arena_place(arena, slot * 64, 64, slot), SW_OK);
                live += 64;
                lives[slot] = 1;
            }
            peak[phase] = live > peak[phase] ? live : peak[phase];
            end[phase] = live;
        }
        sw_watch_end(&w);
        for (int p = 0; p < SW_PROF_PHASES; p++)
            SW_CHECK(w.phases[p].peak_bytes == peak[p] && w.phases[p].end_bytes == end[p],
                     "seed %u phase %d: peak %zu/%zu, end %zu/%zu", seed, p,
                     w.phases[p].peak_bytes, peak[p], w.phases[p].end_bytes, end[p]);
        sw_arena_destroy(arena);
    }
}
