/* Traces of a plain allocator, replayed: every place follows, and every byte has its cause. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/plain_allocator.h"
#include "tests/support/suite.h"
#include "profiler/inspect/replan/replan.h"

SW_TESTS("replay")

/* ---- programs ---------------------------------------------------------------------------- */

typedef struct {
    uint64_t at[512];
    int n;
} holding;

static uint64_t some_size(plain_allocator *p)
{
    switch (plain_random(p, 5)) {
    case 0:
        return 1 + plain_random(p, 4096);
    case 1:
        return 1 + plain_random(p, MIB);
    case 2:
        return MIB + plain_random(p, 9 * MIB);
    case 3:
        return 512 * (1 + plain_random(p, 64));
    default:
        return 10 * MIB + plain_random(p, 30 * MIB);
    }
}

static void let_go(plain_allocator *p, holding *of, holding *waiting, int i)
{
    const uint64_t address = of->at[i];
    const bool pending = plain_random(p, 10) == 0 && waiting->n < 500;
    of->at[i] = of->at[--of->n];
    plain_free(p, address, pending);
    if (pending)
        waiting->at[waiting->n++] = address;
}

/* Requests and frees of three streams, in two pools where `pools`. */
static void run_randomly(plain_allocator *p, size_t events, bool pools)
{
    holding held = {.n = 0}, waiting = {.n = 0};
    while (p->n_events < events) {
        const uint64_t dice = plain_random(p, 1000);
        p->pool_used |= pools;
        p->pool = pools && plain_random(p, 4) == 0 ? ((uint64_t)1 << 32) + 7 : 0;
        if (dice == 0) {
            plain_empty_cache(p);
        } else if (dice < 30 && waiting.n > 0) {
            plain_finish(p, waiting.at[--waiting.n]);
        } else if (held.n < 100 || (held.n < 500 && dice < 500)) {
            const uint64_t stream = 64 * plain_random(p, 3), bytes = some_size(p);
            const uint64_t address =
                plain_malloc(p, stream, bytes, 1 + (int)plain_random(p, 9));
            if (address != 0)
                held.at[held.n++] = address;
            else
                let_go(p, &held, &waiting, 0);
        } else {
            let_go(p, &held, &waiting, (int)plain_random(p, (uint64_t)held.n));
        }
    }
}

/* ---- what is read ------------------------------------------------------------------------ */

static sw_status open_trace(snapshot_trace *t, const char *path)
{
    snapshot_file f;
    *t = (snapshot_trace){0};
    sw_status status = snapshot_file_open(&f, path);
    if (status == SW_OK)
        status = snapshot_trace_read(t, &f, 0);
    snapshot_file_close(&f);
    return status;
}

#define MOMENTS 50
static uint32_t seen, ended; /* moments that were known; cut traces that end early */

static uint32_t sure; /* of those, without an upper limit */

/* The unknown part of blocks from before the trace is within the limit that is said. */
static void same(const replay_census *c, const plain_sums *s, const char *what, size_t event)
{
    const uint64_t other = c->other_pools + c->other_streams + c->other_sizes;
    sure += c->unsure == 0;
    SW_CHECK(c->reserved == s->reserved && c->requested == s->requested &&
                 c->pending == s->pending && c->rounding == s->rounding &&
                 c->unsplit <= s->unsplit && s->unsplit - c->unsplit <= c->unsure &&
                 c->unsplit + c->split + c->cached + other == s->unsplit + s->free,
             "%s: event %zu: reserved %llu of %llu, requested %llu of %llu, rounding %llu of "
             "%llu, rests %llu of %llu",
             what, event, (unsigned long long)c->reserved, (unsigned long long)s->reserved,
             (unsigned long long)c->requested, (unsigned long long)s->requested,
             (unsigned long long)c->rounding, (unsigned long long)s->rounding,
             (unsigned long long)c->unsplit, (unsigned long long)s->unsplit);
}

/* Written without its first events, read, and replayed; moments all over it. */
static void check(const plain_allocator *p, size_t first, const char *what)
{
    snapshot_trace r;
    replay_moment moments[MOMENTS] = {{0}};
    replay_proof proof;
    const char *path = plain_write(p, "trace.pickle", first);
    SW_CHECK(open_trace(&r, path) == SW_OK, "%s: %s", what, sw_last_error());
    CU_ASSERT_EQUAL_FATAL(r.n_events, p->n_events - first);
    for (uint32_t i = 0; i < MOMENTS; i++)
        moments[i].event = (uint32_t)((uint64_t)i * (r.n_events - 1) / (MOMENTS - 1));
    CU_ASSERT_EQUAL_FATAL(replay_run(&r, moments, MOMENTS, &proof), SW_OK);
    /* Pools of segments that went are not known where events do not say them; nor are all rests
     * of blocks that were taken before the trace. */
    const bool may_end = (p->pool_used && !p->say_pools) || first > 0;
    ended += proof.from != TRACE_NONE && first > 0;
    SW_CHECK(proof.from == TRACE_NONE || may_end, "%s, from %zu: event %u (%s): %s", what,
             first, proof.from,
             proof.from == TRACE_NONE ? "" : p->events[first + proof.from].action, proof.why);
    for (uint32_t i = 0; i < MOMENTS; i++) {
        CU_ASSERT(moments[i].known == (moments[i].event < proof.from));
        if (moments[i].known)
            same(&moments[i].census, &p->sums[first + moments[i].event], what,
                 moments[i].event);
        seen += moments[i].known;
    }
    if (first == 0)
        CU_ASSERT(r.start.n_segments == 0 && r.start.n_blocks == 0);
    snapshot_trace_free(&r);
}

static const struct {
    const char *name;
    bool expandable, pools, say_pools;
    uint64_t max_split, capacity;
    int divisions;
    bool user_pools, collects, old;
} kinds[] = {
    {"plain", false, false, false, 0, UINT64_MAX, 0},
    {"a full device", false, false, false, 0, (uint64_t)1500 << 20, 0},
    {"two pools", false, true, false, 0, UINT64_MAX, 0},
    {"two pools that events say", false, true, true, 0, UINT64_MAX, 0},
    {"large blocks whole", false, false, false, (uint64_t)24 << 20, UINT64_MAX, 0},
    {"powers of two", false, false, false, 0, UINT64_MAX, 4},
    {"expandable", true, false, false, 0, UINT64_MAX, 0},
    {"expandable, two pools", true, true, true, 0, UINT64_MAX, 0},
    {"expandable on a full device", true, false, false, 0, (uint64_t)1500 << 20, 0},
    {"expandable, large blocks whole", true, false, false, (uint64_t)24 << 20, UINT64_MAX, 0},
    {"expandable, pools of the user", true, true, true, 0, UINT64_MAX, 0, .user_pools = true},
    {"without settings", false, false, false, 0, UINT64_MAX, 0, .old = true},
    {"expandable, without settings", true, false, false, 0, UINT64_MAX, 0, .old = true},
    {"segments are collected", false, false, false, 0, UINT64_MAX, 0, .collects = true},
};

SW_TEST("every place follows from the rules")
{
    seen = sure = ended = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint64_t seed = 1; seed <= (sw_tests_full() ? 20 : 1); seed++) {
            plain_allocator *p = plain_new(1000 * k + seed);
            p->keep_sums = true;
            p->expandable = kinds[k].expandable;
            p->say_pools = kinds[k].say_pools;
            p->max_split = kinds[k].max_split;
            p->capacity = kinds[k].capacity;
            p->divisions = kinds[k].divisions;
            p->user_pools = kinds[k].user_pools;
            p->collects = kinds[k].collects;
            p->old = kinds[k].old;
            run_randomly(p, 6000, kinds[k].pools);
            check(p, 0, kinds[k].name);
            check(p, 1 + plain_random(p, 5000), kinds[k].name);
            CU_ASSERT((p->collected > 0) == p->collects);
        }
    sw_note("%u moments, %u of them without a limit; %u cut traces end early", seen, sure,
            ended);
    const size_t traces = sizeof kinds / sizeof *kinds * (sw_tests_full() ? 20 : 1);
    CU_ASSERT(seen > traces * MOMENTS * 3 / 2 && sure > seen * 3 / 4 && ended * 5 < traces);
}

/* One request took a segment of its own where the rules have a block for it: all is known up to
 * there alone. */
SW_TEST("what does not follow is named")
{
    snapshot_trace r;
    replay_moment moments[2] = {{.event = 2}, {.event = 4}};
    replay_proof proof;
    plain_allocator *p = plain_new(5);
    p->keep_sums = true;
    (void)plain_malloc(p, 0, 3 * MIB, 1);
    (void)plain_malloc(p, 0, 2 * MIB, 2);
    p->pool = 9; /* which the events do not say */
    (void)plain_malloc(p, 0, 2 * MIB, 3);
    for (size_t i = 0; i < p->n_segments; i++)
        p->segments[i].pool = 0;
    SW_CHECK(open_trace(&r, plain_write(p, "moved.pickle", 0)) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL_FATAL(replay_run(&r, moments, 2, &proof), SW_OK);
    CU_ASSERT(proof.from == 4 && proof.n_checked == 2 && moments[0].known && !moments[1].known);
    SW_CHECK(strstr(proof.why, "and the rules put them at 0x") != NULL, "%s", proof.why);
    snapshot_trace_free(&r);
}

/* A device of 60 MiB is full, and 20 MiB of it are waited for. They become free where the
 * allocator makes room for the next 20 MiB, which go to a segment of their own all the same. */
SW_TEST("what waited is no place yet")
{
    snapshot_trace r;
    replay_proof proof;
    plain_allocator *p = plain_new(5);
    p->capacity = 60 * MIB;
    plain_free(p, plain_malloc(p, 0, 40 * MIB, 1), false);
    const uint64_t waits = plain_malloc(p, 0, 20 * MIB, 2);
    (void)plain_malloc(p, 0, 20 * MIB, 3);
    plain_free(p, plain_malloc(p, 64, 20 * MIB, 4), false);
    plain_free(p, waits, true);
    CU_ASSERT(plain_malloc(p, 0, 20 * MIB, 5) != waits);
    CU_ASSERT_STRING_EQUAL(p->events[p->n_events - 4].action, "free_completed");
    SW_CHECK(open_trace(&r, plain_write(p, "waits.pickle", 0)) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL_FATAL(replay_run(&r, NULL, 0, &proof), SW_OK);
    SW_CHECK(proof.from == TRACE_NONE && proof.n_checked == 5, "%s", proof.why);
    snapshot_trace_free(&r);
}

/* The same with expandable segments: once the device is asked again the request goes where the
 * segment has its first hole, though a block that became free meanwhile fits better. */
SW_TEST("what waited may be before a hole")
{
    snapshot_trace r;
    replay_proof proof;
    plain_allocator *p = plain_new(5);
    p->expandable = true;
    p->capacity = 60 * MIB;
    const uint64_t base = plain_malloc(p, 0, 5 * MIB, 1);
    const uint64_t before = plain_malloc(p, 0, 35 * MIB, 2);
    const uint64_t better = plain_malloc(p, 0, 14 * MIB + MIB / 2, 3);
    (void)plain_malloc(p, 0, 5 * MIB + MIB / 2, 4);
    plain_free(p, before, true);
    plain_free(p, better, true);
    CU_ASSERT_EQUAL(plain_malloc(p, 0, 14 * MIB, 5), base + 5 * MIB);
    SW_CHECK(open_trace(&r, plain_write(p, "hole.pickle", 0)) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL_FATAL(replay_run(&r, NULL, 0, &proof), SW_OK);
    SW_CHECK(proof.from == TRACE_NONE && proof.n_checked == 5, "%s", proof.why);
    snapshot_trace_free(&r);
}
