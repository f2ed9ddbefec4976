/* Packing, beside a search through all choices. */
#include "runtime/stepwell.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"

SW_TESTS("packing")

#define OK(call) CU_ASSERT_EQUAL_FATAL((call), SW_OK)
#define REFUSED(call, status, text)                                                            \
    CU_ASSERT_EQUAL((call), status);                                                           \
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), text))

enum { SHAPES = 4, MOST = 6 };

/* ---- the search -------------------------------------------------------------------------- */

typedef struct {
    const sw_pack_shape *shapes;
    size_t n, budget, lane;
    int threads;
    size_t best;
    bool found;
} search;

static void look(search *s, size_t i, size_t bytes, size_t largest_waiting)
{
    if (i == s->n) {
        const size_t all = bytes + (size_t)s->threads * (s->lane + largest_waiting);
        if (all <= s->budget && (!s->found || bytes > s->best)) {
            s->best = bytes;
            s->found = true;
        }
        return;
    }
    const sw_pack_shape *its = &s->shapes[i];
    for (size_t stay = 0; stay <= its->members; stay++) {
        const bool waits = stay < its->members && its->member_bytes > largest_waiting;
        look(s, i + 1, bytes + stay * its->member_bytes,
             waits ? its->member_bytes : largest_waiting);
    }
}

static bool exact(const sw_pack_shape *shapes, size_t n, size_t budget, int threads,
                  size_t *best, int *used)
{
    size_t arena = 0, batch = 0;
    for (size_t i = 0; i < n; i++) {
        arena = shapes[i].arena_bytes > arena ? shapes[i].arena_bytes : arena;
        batch = shapes[i].batch_bytes > batch ? shapes[i].batch_bytes : batch;
    }
    for (int t = threads; t > 0; t--) {
        search s = {
            .shapes = shapes, .n = n, .budget = budget, .lane = arena + batch, .threads = t};
        look(&s, 0, 0, 0);
        if (s.found) {
            *best = s.best;
            *used = t;
            return true;
        }
    }
    return false;
}

/* ---- cases ------------------------------------------------------------------------------- */

static size_t sum_of(const sw_pack_shape *shapes, size_t n, const size_t *resident)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += resident[i] * shapes[i].member_bytes;
    return bytes;
}

/* Small sizes are whole granules, so that the packing is exact. */
SW_TEST("small cases are exact")
{
    sw_dice dice = {5};
    int fits = 0, waits = 0, fewer = 0;
    for (int round = 0; round < 4000; round++) {
        sw_pack_shape shapes[SHAPES] = {{0}};
        size_t resident[SHAPES], best = 0;
        int used = 0;
        const size_t n = 1 + sw_dice_below(&dice, SHAPES);
        const int threads = 1 + (int)sw_dice_below(&dice, 4);
        for (size_t i = 0; i < n; i++)
            shapes[i] = (sw_pack_shape){.member_bytes = 64 * (1 + sw_dice_below(&dice, 40)),
                                        .arena_bytes = 64 * sw_dice_below(&dice, 30),
                                        .batch_bytes = 64 * sw_dice_below(&dice, 10),
                                        .members = 1 + sw_dice_below(&dice, MOST)};
        const size_t budget = 64 * sw_dice_below(&dice, 500);
        sw_packing out = SW_OPTS(sw_packing);
        const sw_status status = sw_pack(shapes, n, budget, threads, resident, &out);
        const bool can = exact(shapes, n, budget, threads, &best, &used);
        CU_ASSERT_EQUAL_FATAL(status, can ? SW_OK : SW_NOMEM);
        if (!can)
            continue;
        CU_ASSERT_EQUAL(out.resident_bytes, best);
        CU_ASSERT_EQUAL(out.threads, used);
        CU_ASSERT_EQUAL(out.resident_bytes, sum_of(shapes, n, resident));
        CU_ASSERT(out.bytes <= budget && out.bytes == out.lane_bytes + out.resident_bytes);
        CU_ASSERT(out.bound_bytes >= best);
        fits += out.waiting == 0;
        waits += out.waiting > 0;
        fewer += used < threads;
    }
    CU_ASSERT(fits > 100 && waits > 100 && fewer > 20);
}

/* Sizes that are no multiples of anything: within members x budget / 2^20 of the bound. */
SW_TEST("large cases are near their bound")
{
    sw_dice dice = {6};
    double worst = 1.0;
    for (int round = 0; round < 20; round++) {
        enum { N = 40 };
        sw_pack_shape shapes[N] = {{0}};
        size_t resident[N], all = 0;
        for (size_t i = 0; i < N; i++) {
            shapes[i] = (sw_pack_shape){.member_bytes = 1000 + sw_dice_below(&dice, 4000000),
                                        .arena_bytes = 1000 + sw_dice_below(&dice, 2000000),
                                        .batch_bytes = 400000,
                                        .members = 1 + sw_dice_below(&dice, 30)};
            all += shapes[i].members * shapes[i].member_bytes;
        }
        sw_packing out = SW_OPTS(sw_packing);
        OK(sw_pack(shapes, N, all / 2, 2, resident, &out));
        CU_ASSERT(out.bytes <= all / 2 && out.waiting > 0);
        const double share = (double)out.resident_bytes / (double)out.bound_bytes;
        worst = share < worst ? share : worst;
    }
    printf("      worst of 20: %.4f of the bound ", worst);
    CU_ASSERT(worst >= 0.95);
}

SW_TEST("what does not fit has a number")
{
    const sw_pack_shape shapes[2] = {
        {.member_bytes = 640, .arena_bytes = 6400, .batch_bytes = 64, .members = 3},
        {.member_bytes = 1280, .arena_bytes = 128, .batch_bytes = 64, .members = 3}};
    size_t resident[2] = {7, 7};
    sw_packing out = SW_OPTS(sw_packing);
    REFUSED(sw_pack(shapes, 2, 7743, 2, resident, &out), SW_NOMEM, "the least is 7,744");
    CU_ASSERT(resident[0] == 7 && resident[1] == 7);
    OK(sw_pack(shapes, 2, 7744, 2, resident, &out));
    CU_ASSERT(out.threads == 1 && out.waiting == 6 && out.bytes == 7744);
    REFUSED(sw_pack(shapes, 0, 100, 1, resident, &out), SW_INVALID, "at least one");
    REFUSED(sw_pack(shapes, 2, 100, 0, resident, &out), SW_INVALID, "1 to 256");
    const sw_pack_shape none = {.member_bytes = 64};
    REFUSED(sw_pack(&none, 1, 100, 1, resident, &out), SW_INVALID, "shape 0 must have members");
    const sw_pack_shape vast = {
        .member_bytes = SIZE_MAX / 2, .arena_bytes = SIZE_MAX / 2, .members = SIZE_MAX};
    REFUSED(sw_pack(&vast, 1, 100, 256, resident, &out), SW_NOMEM, "do not fit");
}

SW_TEST("one shape, any number of members")
{
    for (size_t members = 1; members <= 100000; members *= 10) {
        const sw_pack_shape shape = {
            .member_bytes = 4096, .arena_bytes = 8192, .members = members};
        size_t resident;
        sw_packing out = SW_OPTS(sw_packing);
        OK(sw_pack(&shape, 1, 2 * (8192 + 4096) + 4096 * 50, 2, &resident, &out));
        CU_ASSERT_EQUAL(resident, members < 52 ? members : 50);
    }
}

static sw_status pack_once(void *context)
{
    const sw_pack_shape shapes[2] = {{.member_bytes = 640, .arena_bytes = 640, .members = 30},
                                     {.member_bytes = 64, .arena_bytes = 64, .members = 3}};
    size_t resident[2];
    return sw_pack(shapes, 2, 6400, 2, resident, &SW_OPTS(sw_packing));
}

SW_TEST("every allocation can fail")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, pack_once, NULL) >= 3);
}
