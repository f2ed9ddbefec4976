/* Random command streams against arenas and a plain model of what they promise. The model keeps
 * a list of ranges and sums it anew after every command; red zones are not in it, as they are
 * in no count. */
#include "alloc/base/fault.h"
#include "tests/alloc/event_watch.h"
#include "tests/support/suite.h"

SW_TESTS("arena model")

#define MAX_RANGES 512
#define BUDGET ((size_t)400 * 1024)

typedef struct {
    size_t bytes; /* rounded */
    unsigned char *at;
    size_t payload;
    unsigned char mark;
    uint32_t id;
} range;

typedef struct {
    sw_arena *arena;
    sw_budget *budget;
    sw_watch *watch;
    sw_dice dice;
    range ranges[MAX_RANGES];
    size_t n;
    bool placing; /* ranges are placed, not pushed, until the next reset */
    size_t height;
    int denied;
} model;

static size_t round_up(size_t bytes)
{
    return (bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
}

static size_t live_of(const model *m)
{
    size_t sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += m->ranges[i].bytes;
    return sum;
}

static void note_range(model *m, unsigned char *at, size_t payload, uint32_t id)
{
    range *r = &m->ranges[m->n++];
    *r = (range){round_up(payload), at, payload, (unsigned char)sw_dice_next(&m->dice), id};
    memset(at, r->mark, payload);
}

static void do_push(model *m)
{
    const size_t payload = sw_dice_below(&m->dice, 20) == 0 ? sw_dice_below(&m->dice, 300000)
                                                            : sw_dice_below(&m->dice, 3000);
    if (m->placing || m->n == MAX_RANGES)
        return;
    void *out = m;
    const bool unlucky = sw_dice_below(&m->dice, 10) == 0;
    if (unlucky)
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_ONCE);
    const sw_status status = sw_arena_push(m->arena, &out, payload, "push");
    const bool hit = sw_fault_calls(SW_FAULT_MEMORY) > 0 && unlucky;
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
    const size_t used = live_of(m) + round_up(payload);
    if (used > BUDGET || hit) {
        CU_ASSERT_EQUAL(status, SW_NOMEM);
        CU_ASSERT_PTR_EQUAL(out, m);
        m->denied++;
        return;
    }
    CU_ASSERT_EQUAL_FATAL(status, SW_OK);
    m->height = used > m->height ? used : m->height;
    note_range(m, out, payload, 0);
}

static void do_reset(model *m)
{
    sw_arena_reset(m->arena);
    m->n = 0;
    m->placing = sw_dice_below(&m->dice, 2) == 0;
}

static void do_grow(model *m)
{
    const size_t height = sw_dice_below(&m->dice, BUDGET + BUDGET / 4);
    const sw_status status = sw_arena_grow(m->arena, height, sw_dice_below(&m->dice, 2) == 0);
    CU_ASSERT_EQUAL(status, round_up(height) > BUDGET ? SW_NOMEM : SW_OK);
    if (status != SW_OK)
        m->denied++;
    else if (round_up(height) > m->height)
        m->height = round_up(height);
}

/* A place that overlaps nothing: the model knows where everything lies. */
static void do_place(model *m)
{
    const size_t payload = 1 + sw_dice_below(&m->dice, 4000), bytes = round_up(payload);
    const size_t offset = sw_dice_below(&m->dice, BUDGET / SW_ALIGN) * SW_ALIGN;
    if (!m->placing || m->n == MAX_RANGES)
        return;
    unsigned char *at = sw_arena_base(m->arena) + offset;
    for (size_t i = 0; i < m->n; i++)
        if (at < m->ranges[i].at + m->ranges[i].bytes && m->ranges[i].at < at + bytes)
            return;
    const uint32_t id = (uint32_t)sw_dice_next(&m->dice);
    const sw_status status = sw_arena_place(m->arena, offset, payload, id);
    CU_ASSERT_EQUAL_FATAL(status, offset + bytes <= m->height ? SW_OK : SW_INVALID);
    if (status != SW_OK)
        return;
    CU_ASSERT_EQUAL(m->watch->last.id, id);
    note_range(m, at, payload, id);
}

static void do_release(model *m)
{
    if (!m->placing || m->n == 0)
        return;
    const size_t i = sw_dice_below(&m->dice, m->n);
    range *r = &m->ranges[i];
    sw_arena_release(m->arena, (size_t)(r->at - sw_arena_base(m->arena)), r->payload, r->id);
    *r = m->ranges[--m->n];
}

/* Everything the arena says, and one random range's bytes. */
static void compare(model *m, int step)
{
    const size_t live = live_of(m);
    const bool same = sw_arena_live(m->arena) == live && m->watch->live == live &&
                      sw_arena_height(m->arena) == m->height &&
                      sw_budget_used(m->budget) == m->height &&
                      m->watch->count[SW_EVENT_DENIED] == m->denied;
    if (!same)
        SW_CHECK(same, "step %d: live %zu/%zu height %zu/%zu", step, sw_arena_live(m->arena),
                 live, sw_arena_height(m->arena), m->height);
    if (m->n == 0)
        return;
    const range *r = &m->ranges[sw_dice_below(&m->dice, m->n)];
    bool intact = (uintptr_t)r->at % SW_ALIGN == 0;
    for (size_t i = 0; i < r->payload; i++)
        intact = intact && r->at[i] == r->mark;
    if (!intact)
        SW_CHECK(intact, "step %d: a range has lost its bytes", step);
}

static void no_faults(void *unused)
{
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
}

static void stream(const char *kind, uint64_t seed, int steps)
{
    static model m; /* one stream at a time */
    sw_watch watch = {0};
    memset(&m, 0, sizeof m);
    m.watch = &watch;
    m.dice.state = seed;
    m.budget = sw_test_budget(BUDGET);
    m.arena = sw_watched_arena(kind, m.budget, &watch);
    sw_after(no_faults, NULL);
    for (int step = 0; step < steps; step++) {
        const uint64_t roll = sw_dice_below(&m.dice, 1000);
        if (roll < 600)
            m.placing ? (roll < 360 ? do_place(&m) : do_release(&m)) : do_push(&m);
        else if (roll < 640)
            do_reset(&m);
        else
            do_grow(&m);
        compare(&m, step);
    }
    CU_ASSERT(m.denied > 0);
    CU_ASSERT(watch.count[SW_EVENT_PLACE] > 100 && watch.count[SW_EVENT_PUSH] > 100);
}

SW_TEST("ten thousand random commands agree with the model on host memory")
{
    for (uint64_t seed = 1; seed <= (sw_tests_full() ? 20 : 1); seed++)
        stream("host", seed, 10000);
}

SW_TEST("ten thousand random commands agree with the model on a device")
{
    for (uint64_t seed = 100; seed < (sw_tests_full() ? 120 : 101); seed++)
        stream("device", seed, 10000);
}
