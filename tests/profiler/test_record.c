/* The event log: what it holds, what it drops, and that its replay has the figures that the
 * watch counted while it was written. */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/watch.h"
#include "tests/profiler/read_back.h"
#include "tests/support/suite.h"

SW_TESTS("event log")

enum { HEIGHT = 1 << 19, SLOTS = 24 };

typedef struct {
    sw_watch watch;
    sw_record_log *log;
    sw_arena *arena;
} bench;

static void close_bench(void *arg)
{
    bench *b = arg;
    sw_arena_destroy(b->arena);
    sw_record_log_free(b->log);
}

static bench *open_bench(uint32_t room)
{
    static bench b;
    sw_store *store = NULL;
    memset(&b, 0, sizeof b);
    sw_after(close_bench, &b);
    CU_ASSERT_EQUAL_FATAL(sw_record_log_create(&b.log, room, 1000), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_store_host_create(&store, 1 << 21), SW_OK);
    const sw_arena_opts opts = {
        .label = "step", .store = store, .observer = sw_watch_observer(&b.watch)};
    CU_ASSERT_EQUAL_FATAL(sw_arena_create(&b.arena, &opts), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_arena_grow(b.arena, HEIGHT, true), SW_OK);
    return &b;
}

static void begin(bench *b, size_t base_bytes)
{
    b->watch.log = b->log;
    sw_record_begin(b->log, 1, sw_clock_ns());
    sw_arena_reset(b->arena);
    sw_watch_begin(&b->watch, base_bytes);
}

static void place(bench *b, size_t offset, size_t bytes, uint32_t id)
{
    SW_CHECK(sw_arena_place(b->arena, offset, bytes, id) == SW_OK, "%s", sw_last_error());
}

/* ---- what it holds ----------------------------------------------------------------------- */

static void check_event(const sw_record *is, sw_record_kind kind, uint32_t offset,
                        uint32_t bytes, uint32_t id, int phase)
{
    SW_CHECK(is->kind == kind && is->offset == offset && is->bytes == bytes && is->id == id &&
                 is->phase == phase,
             "kind %d offset %u bytes %u id %u phase %d", is->kind, is->offset, is->bytes,
             is->id, is->phase);
}

SW_TEST("events are 16 bytes and say what was stated")
{
    CU_ASSERT_EQUAL(sizeof(sw_record), 16);
    bench *b = open_bench(64);
    begin(b, 0);
    sw_watch_phase(&b->watch, 1);
    place(b, 128, 100, 7);
    place(b, 64, 0, 8); /* nothing */
    sw_arena_release(b->arena, 128, 100, 7);
    sw_watch_phase(&b->watch, 3);
    sw_arena_reset(b->arena);
    void *at;
    b->watch.push_id = 9;
    CU_ASSERT_EQUAL(sw_arena_push(b->arena, &at, 65, "x"), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_push(b->arena, &at, 64, "x"), SW_OK);
    const size_t second = (size_t)((unsigned char *)at - sw_arena_base(b->arena));
    CU_ASSERT_EQUAL(sw_arena_push(b->arena, &at, SIZE_MAX / 2, "huge"), SW_NOMEM);
    sw_watch_end(&b->watch);
    const uint32_t top = sw_record_units(second);
    const sw_record *e = b->log->ring;
    CU_ASSERT_EQUAL_FATAL(b->log->n, 11);
    CU_ASSERT(e[0].kind == SW_RECORD_RUN && e[0].id == 1);
    check_event(&e[1], SW_RECORD_RESET, 0, 0, SW_PROF_NONE, 0);
    CU_ASSERT(e[2].kind == SW_RECORD_PHASE && e[2].id == 1 && e[2].phase == 1);
    check_event(&e[3], SW_RECORD_PLACE, 2, 2, 7, 1);
    check_event(&e[4], SW_RECORD_RELEASE, 2, 2, 7, 1);
    CU_ASSERT(e[5].kind == SW_RECORD_PHASE && e[5].id == 3 && e[5].phase == 3);
    check_event(&e[6], SW_RECORD_RESET, 0, 0, SW_PROF_NONE, 3);
    check_event(&e[7], SW_RECORD_PUSH, 0, 2, 9, 3);
    check_event(&e[8], SW_RECORD_PUSH, top, 1, 9, 3);
    check_event(&e[9], SW_RECORD_DENIED, 2 * top - 1, UINT32_MAX, 9, 3);
    CU_ASSERT_EQUAL(e[10].kind, SW_RECORD_END);
}

/* Clocks count from the log's zero, in 64 bits. */
SW_TEST("edges carry their clock")
{
    bench *b = open_bench(4);
    const uint64_t far = 1000 + ((uint64_t)5 << 32) + 17;
    sw_record_edge(b->log, SW_RECORD_OP, 3, far);
    CU_ASSERT_EQUAL(sw_record_ns(&b->log->ring[0]), far - 1000);
    const uint64_t before = sw_clock_ns();
    begin(b, 0);
    sw_watch_phase(&b->watch, 2);
    sw_watch_end(&b->watch);
    const sw_record *e = b->log->ring;
    CU_ASSERT(sw_record_ns(&e[0]) >= before - 1000);
    CU_ASSERT(sw_record_ns(&e[2]) >= sw_record_ns(&e[0]));
    CU_ASSERT_EQUAL(sw_record_ns(&e[3]) - sw_record_ns(&e[2]), b->watch.phases[2].ns);
    CU_ASSERT_EQUAL(e[3].kind, SW_RECORD_END);
}

SW_TEST("a full log counts what it drops")
{
    bench *b = open_bench(5);
    begin(b, 0);
    sw_watch_phase(&b->watch, 1);
    for (uint32_t i = 0; i < 100; i++)
        place(b, 64 * i, 64, i);
    sw_watch_end(&b->watch);
    CU_ASSERT(b->log->n == 5 && b->log->dropped == 99);
    check_event(&b->log->ring[3], SW_RECORD_PLACE, 0, 1, 0, 1);
    check_event(&b->log->ring[4], SW_RECORD_PLACE, 1, 1, 1, 1);
    begin(b, 0); /* the next run has all the room again */
    CU_ASSERT(b->log->n == 2 && b->log->dropped == 0);
}

SW_TEST("its room is taken once")
{
    bench *b = open_bench(1000);
    const uint64_t calls = sw_mem_calls();
    for (int run = 0; run < 3; run++) {
        begin(b, 0);
        sw_watch_phase(&b->watch, 1);
        for (uint32_t i = 0; i < 2000; i++)
            place(b, 64 * i, 64, i);
        sw_watch_end(&b->watch);
    }
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
}

/* ---- replay ------------------------------------------------------------------------------ */

/* One random life of an arena: ranges placed and released, or pushed; resets
 * between the two ways; phases that come and go; runs that end and begin. */
typedef struct {
    bench *b;
    sw_dice dice;
    size_t slot_bytes[SLOTS]; /* 0: free */
    bool pushes;
} life;

static void random_push(life *l)
{
    sw_arena *a = l->b->arena;
    void *at;
    /* A push is denied where the store has no room for it. */
    (void)!sw_arena_push(a, &at, (size_t)sw_dice_below(&l->dice, 1 << 19), "random");
}

static void random_event(life *l)
{
    const uint64_t what = sw_dice_below(&l->dice, 32);
    if (what == 0) {
        sw_arena_reset(l->b->arena);
        memset(l->slot_bytes, 0, sizeof l->slot_bytes);
        l->pushes = sw_dice_below(&l->dice, 2) == 0;
    } else if (what < 5) {
        sw_watch_phase(&l->b->watch, (int)sw_dice_below(&l->dice, SW_PROF_PHASES));
    } else if (l->pushes) {
        random_push(l);
    } else {
        sw_arena *a = l->b->arena;
        const uint32_t i = (uint32_t)sw_dice_below(&l->dice, SLOTS);
        const size_t offset = (size_t)i * (HEIGHT / SLOTS / SW_ALIGN * SW_ALIGN);
        if (l->slot_bytes[i] > 0) {
            sw_arena_release(a, offset, l->slot_bytes[i], i);
            l->slot_bytes[i] = 0;
        } else {
            l->slot_bytes[i] = 1 + (size_t)sw_dice_below(&l->dice, HEIGHT / SLOTS - SW_ALIGN);
            place(l->b, offset, l->slot_bytes[i], i);
        }
    }
}

static bool replay_agrees(const bench *b, size_t base_bytes)
{
    sw_prof_phase phase[SW_PROF_PHASES];
    const size_t live = record_replay(b->log->ring, b->log->n, base_bytes, phase);
    bool same =
        live == b->watch.live && live == sw_arena_live(b->arena) && b->log->dropped == 0;
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        const sw_prof_phase *x = &phase[i], *y = &b->watch.phases[i];
        same = same && x->peak_bytes == y->peak_bytes && x->end_bytes == y->end_bytes &&
               x->ns == y->ns;
    }
    return same;
}

SW_TEST("a replay has the figures of the watch")
{
    const uint64_t streams = sw_tests_full() ? 1000000 : 100000;
    bench *b = open_bench(256);
    uint64_t events = 0;
    for (uint64_t seed = 1; seed <= streams; seed++) {
        life l = {.b = b, .dice = {seed}};
        const size_t base = (size_t)sw_dice_below(&l.dice, 1 << 20) * SW_ALIGN;
        l.pushes = sw_dice_below(&l.dice, 2) == 0;
        begin(b, base);
        const uint64_t n = sw_dice_below(&l.dice, 60);
        for (uint64_t i = 0; i < n; i++)
            random_event(&l);
        sw_watch_end(&b->watch);
        if (sw_dice_below(&l.dice, 2) == 0)
            sw_arena_reset(b->arena); /* as after a run without outputs */
        events += b->log->n;
        if (!SW_CHECK(replay_agrees(b, base), "stream %llu", (unsigned long long)seed))
            return;
    }
    sw_note("%llu streams, %llu events", (unsigned long long)streams,
            (unsigned long long)events);
}

/* A change in a log shows: the comparison above can fail. */
SW_TEST("a log that lost an event replays otherwise")
{
    bench *b = open_bench(256);
    begin(b, 0);
    sw_watch_phase(&b->watch, 1);
    for (uint32_t i = 0; i < 20; i++)
        place(b, 64 * i, 64, i);
    sw_watch_end(&b->watch);
    CU_ASSERT(replay_agrees(b, 0));
    for (uint32_t i = 3; i < 23; i++) {
        const sw_record was = b->log->ring[i];
        b->log->ring[i].kind = SW_RECORD_REUSE;
        SW_CHECK(!replay_agrees(b, 0), "event %u", i);
        b->log->ring[i] = was;
    }
}

/* ---- watch --------------------------------------------------------------------------------
 */

/* The watch: arena events to phase figures, against figures worked out by hand and a plain
 * replay. */
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
    CU_ASSERT_EQUAL(sw_arena_push(arena, &at, 200, "b"), SW_OK);
    CU_ASSERT_EQUAL(sw_arena_push(arena, &at, SIZE_MAX / 2, "huge"), SW_NOMEM);
    sw_watch_end(&w);
    CU_ASSERT_EQUAL(w.phases[0].peak_bytes, 128 + 256);
    CU_ASSERT_EQUAL(w.phases[0].end_bytes, 128 + 256);
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
