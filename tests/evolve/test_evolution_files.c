/* Runs that stop, and go on from their files. */
#include "alloc/base/fault.h"
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"
#include <stdlib.h>
#include <string.h>

enum { GENERATIONS = 3 };

static int count_down(void *user)
{
    return --*(int *)user < 0;
}

typedef struct {
    char *history;
    uint64_t sum;
} outcome;

/* A run that never stops. */
static outcome straight(const evo_data *data)
{
    const char *dir = evo_folder();
    sw_evolution_opts opts = evo_opts(data);
    opts.dir = dir;
    sw_evolution *e = evo_evolution(evo_exec(1, NULL), &opts);
    evo_run(e, GENERATIONS);
    const outcome o = {evo_history(dir), evo_sum(e)};
    sw_after(free, o.history);
    return o;
}

/* One that is stopped behind so many calls, thrown away and begun anew, again and again. */
static outcome interrupted(const evo_data *data, int calls)
{
    const char *dir = evo_folder();
    sw_evolution_opts opts = evo_opts(data);
    outcome o = {NULL, 0};
    sw_exec *exec = evo_exec(1, NULL);
    int left = calls, found = 0;
    opts.dir = dir;
    opts.stop = count_down;
    opts.stop_user = &left;
    for (int again = 0; o.history == NULL && again < 1000; again++) {
        sw_evolve_progress p = {.size = sizeof p};
        sw_evolution *e = NULL;
        OK(sw_evolution_create(&e, exec, &opts));
        OK(sw_evolution_resume(e, &found));
        SW_CHECK(found == (again > 0), "found %d", found);
        left = calls + again; /* it gets somewhere */
        sw_status status = SW_OK;
        do
            status = sw_evolution_advance(e, &p);
        while (status == SW_OK && p.what != SW_EVOLVE_STOPPED && p.generation < GENERATIONS);
        OK(status);
        if (p.generation == GENERATIONS && p.what != SW_EVOLVE_STOPPED)
            o = (outcome){evo_history(dir), evo_sum(e)};
        sw_evolution_destroy(e);
    }
    sw_after(free, o.history);
    return o;
}

static void resuming_is_never_having_stopped(void)
{
    const evo_data data = evo_digits(256, 64);
    const outcome whole = straight(&data);
    static const int calls[] = {1, 3, 7, 20};
    for (int i = 0; i < (sw_tests_full() ? 4 : 2); i++) {
        const outcome parts = interrupted(&data, calls[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(parts.history);
        CU_ASSERT_STRING_EQUAL(parts.history, whole.history);
        CU_ASSERT_EQUAL(parts.sum, whole.sum);
    }
}

/* ---- rebuilding -------------------------------------------------------------------------- */

enum { MOST_BORN = 64 };

typedef struct {
    uint64_t sum[MOST_BORN]; /* by id, as they were born */
    uint64_t n;
} births;

static void note_births(sw_evolution *e, births *b)
{
    for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
        sw_candidate c = {.size = sizeof c};
        OK(sw_evolution_member(e, i, &c));
        if (c.id < b->n || c.id >= MOST_BORN)
            continue;
        sw_net *made = NULL;
        OK(sw_evolution_net(e, i, &made));
        b->sum[c.id] = evo_net_sum(made);
        sw_net_destroy(made);
    }
    for (uint32_t i = 0; i < sw_evolution_count(e); i++) {
        sw_candidate c = {.size = sizeof c};
        OK(sw_evolution_member(e, i, &c));
        b->n = c.id >= b->n ? c.id + 1 : b->n;
    }
}

static void members_are_rebuilt_from_their_history(void)
{
    const evo_data data = evo_digits(256, 64);
    const char *dir = evo_folder();
    sw_evolution_opts opts = evo_opts(&data);
    sw_exec *exec = evo_exec(1, NULL);
    births b = {.n = 1};
    opts.dir = dir;
    opts.crossover = 0.6;
    sw_evolution *e = NULL;
    OK(sw_evolution_create(&e, exec, &opts));
    note_births(e, &b);
    sw_evolve_progress p = {.size = sizeof p};
    const uint64_t generations = sw_tests_full() ? 8 : 4;
    while (p.generation < generations) {
        OK(sw_evolution_advance(e, &p));
        if (p.what == SW_EVOLVE_GENERATION)
            note_births(e, &b);
    }
    sw_candidate last = {.size = sizeof last};
    OK(sw_evolution_member(e, sw_evolution_count(e) - 1, &last));
    const uint64_t young = last.id;
    while (p.what != SW_EVOLVE_EVALUATED)
        OK(sw_evolution_advance(e, &p));
    const uint64_t before = evo_sum(e);
    CU_ASSERT_FATAL(b.n > 10 && b.n < MOST_BORN);
    for (uint64_t id = 1; id < b.n; id++) {
        sw_net *made = NULL;
        if (!OK(sw_evolution_rebuild(e, id, &made)))
            continue;
        SW_CHECK(evo_net_sum(made) == b.sum[id], "member %d", (int)id);
        sw_net_destroy(made);
    }
    CU_ASSERT_EQUAL(evo_sum(e), before); /* the run is as it was */
    CU_ASSERT(young < b.n);
    sw_net *none = NULL;
    REFUSED(sw_evolution_rebuild(e, b.n, &none), SW_INVALID, "no member");
    sw_evolution_destroy(e);
    /* A new process, before it goes on or begins. */
    e = evo_evolution(exec, &opts);
    OK(sw_evolution_rebuild(e, b.n - 1, &none));
    CU_ASSERT_EQUAL(evo_net_sum(none), b.sum[b.n - 1]);
    sw_net_destroy(none);
}

static const sw_test tests[] = {
    {"members are rebuilt from their history, bit for bit",
     members_are_rebuilt_from_their_history},
    {"resuming is never having stopped", resuming_is_never_having_stopped},
};
SW_SUITE("evolution files", tests)
