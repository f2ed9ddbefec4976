/* Steady steps: found where steps are alike in what they ask for, whatever addresses they got
 * and whenever other streams let go. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/suite.h"

SW_TESTS("period")

#define STEPS 6

/* Of a CPU. In every other step the third tensor gets the place of the first by chance, as if
 * the first were written in place. */
SW_TEST("addresses of a CPU make no difference")
{
    const char *events = "";
    for (int step = 0; step < STEPS; step++) {
        const int third = step % 2 == 0 ? 4096 : 20480;
        events = sw_textf("%salloc 4096 1000; alloc 8192 2000; free_requested 4096 1000;"
                          "free_completed 4096 1000; alloc %d 1000; alloc 12288 3000;"
                          "alloc 16384 500; free_requested 16384 500; free_completed 16384 500;"
                          "free_requested %d 1000; free_completed %d 1000;"
                          "free_requested 12288 3000; free_completed 12288 3000;"
                          "free_requested 8192 2000; free_completed 8192 2000;",
                          events, third, third, third);
    }
    const replan *r =
        planned_json(sw_textf("{'segments':[],'device_traces':[[%s]]}", made_events(events)));
    CU_ASSERT(!r->trace.cuda);
    CU_ASSERT_EQUAL(r->lives.n, 5 * STEPS - STEPS / 2); /* every other step has one less */
    CU_ASSERT_EQUAL(r->period.steps, STEPS);
    CU_ASSERT(r->period.requests == 4 || r->period.requests == 5);
    CU_ASSERT_EQUAL(r->step.bound, 2000 + 1000 + 3000 + 500);
}

/* Another stream lets go of what it read some requests later, in each step at another time. */
SW_TEST("frees of other streams make no difference")
{
    plain_allocator *p = plain_new(4);
    (void)plain_malloc(p, 0, 50 * MIB, 1);
    for (uint64_t step = 0; step < STEPS; step++) {
        const uint64_t waits = plain_malloc(p, 0, 5 * MIB, 2);
        plain_free(p, waits, true);
        for (uint64_t i = 0; i < 8; i++) {
            const uint64_t other = plain_malloc(p, 0, (2 + i) * MIB, 3);
            if (i == (3 * step + 1) % 8)
                plain_finish(p, waits);
            plain_free(p, other, false);
        }
    }
    const replan *r = planned(plain_write(p, "late.pickle", 0));
    CU_ASSERT(r->proof.from == TRACE_NONE);
    CU_ASSERT_EQUAL(r->period.steps, STEPS);
    CU_ASSERT_EQUAL(r->period.requests, 9);
}

/* Requests that differ in size by chance: no steps. */
SW_TEST("what does not repeat has no step")
{
    plain_allocator *p = plain_new(6);
    for (int i = 0; i < 60; i++)
        plain_free(p, plain_malloc(p, 0, 1 + plain_random(p, 4 * MIB), 1), false);
    const replan *r = planned(plain_write(p, "none.pickle", 0));
    CU_ASSERT(r->period.steps == 0 && r->step.n == 0);
}
