/* Which candidate is trained next: plays with random scores against a plain account of what was
 * asked for. */
#include "runtime/population/evolve/search.h"
#include "tests/support/suite.h"
#include "tests/support/heap_sweep.h"
#include "tests/runtime/nets.h"

SW_TESTS("search")

enum { MOST = 4000 };

/* An account of a play, kept beside the search. */
typedef struct {
    uint32_t n, parent[MOST];
    int rung[MOST];
    double score[MOST][SWI_SEARCH_RUNGS], ends[MOST];
    bool running[MOST], look[MOST];
    uint64_t units;
} account;

static uint64_t whole_of(const swi_search_opts *o)
{
    uint64_t units = 1;
    for (uint32_t rung = 1; rung < o->rungs; rung++)
        units *= o->eta;
    return units;
}

/* Among the best 1 / eta of all that reached its rung? */
static bool among_the_best(const account *a, uint32_t id, uint32_t eta)
{
    const int rung = a->rung[id];
    uint32_t reached = 0, before = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->look[i] || a->rung[i] < rung)
            continue;
        reached++;
        before += a->score[i][rung] > a->score[id][rung] ||
                  (a->score[i][rung] == a->score[id][rung] && i < id);
    }
    return before < reached / eta;
}

static void check_job(const account *a, const swi_search_opts *o, const swi_job *job,
                      uint64_t left)
{
    const bool last = left < whole_of(o);
    if (job->what == SWI_JOB_GO_ON) {
        CU_ASSERT_EQUAL(a->rung[job->id] + 1, (int)job->rung);
        CU_ASSERT(!a->running[job->id] && !a->look[job->id]);
        CU_ASSERT(isfinite(a->score[job->id][job->rung - 1]));
        SW_CHECK(last || among_the_best(a, job->id, o->eta), "%u goes on to %u", job->id,
                 job->rung);
        return;
    }
    CU_ASSERT_EQUAL(job->id, a->n);
    CU_ASSERT_EQUAL(job->what == SWI_JOB_DRAW, job->of == SWI_SEARCH_NONE);
    CU_ASSERT(job->what != SWI_JOB_CHILD || (a->n >= o->start && a->rung[job->of] >= 0));
    CU_ASSERT(job->what != SWI_JOB_CHILD || o->kind != SW_SEARCH_RANDOM);
    CU_ASSERT(job->rung == (job->what == SWI_JOB_LOOK ? o->rungs - 1 : 0));
}

/* A whole play, checked at each step; what it answers, and a sum of all that happened. */
static uint32_t play(const swi_search_opts *o, uint64_t dice_seed, account *a, uint64_t *sum)
{
    swi_search s;
    swi_job job;
    sw_dice dice = {dice_seed};
    uint32_t running = 0, looks = 0;
    double now = 0;
    memset(a, 0, sizeof *a);
    *sum = 0;
    CU_ASSERT_FATAL(OK(swi_search_begin(&s, o, "test")));
    const uint64_t all = (o->trainings - o->looks) * whole_of(o);
    for (;;) {
        CU_ASSERT_FATAL(OK(swi_search_ask(&s, &job)));
        if (job.what != SWI_JOB_NONE) {
            const bool free = job.what == SWI_JOB_LOOK || a->n < o->start;
            CU_ASSERT(running < o->workers || (free && running < SWI_SEARCH_WIDE));
            check_job(a, o, &job, all - a->units);
            const uint32_t id = job.id;
            if (id == a->n) {
                a->n++;
                a->rung[id] = -1;
                a->parent[id] = job.of;
                a->look[id] = job.what == SWI_JOB_LOOK;
            }
            looks += job.what == SWI_JOB_LOOK;
            a->units += job.what == SWI_JOB_LOOK ? 0 : job.units;
            const double operations = 1 + (double)sw_dice_below(&dice, 1000);
            swi_search_plan(&s, &job, operations);
            a->running[id] = true;
            a->ends[id] = now + operations * (double)job.units;
            running++;
            *sum = *sum * 31 + id * 7 + job.what;
            continue;
        }
        const uint32_t next = swi_search_next(&s);
        if (next == SWI_SEARCH_NONE)
            break;
        for (uint32_t i = 0; i < a->n; i++)
            CU_ASSERT(!a->running[i] || a->ends[i] >= a->ends[next]);
        const double score =
            sw_dice_below(&dice, 20) == 0 ? (double)NAN : (double)sw_dice_below(&dice, 50);
        now = a->ends[next];
        a->rung[next] = a->look[next] ? (int)o->rungs - 1 : a->rung[next] + 1;
        a->score[next][a->rung[next]] = isnan(score) ? -(double)INFINITY : score;
        a->running[next] = false;
        running--;
        swi_search_tell(&s, next, score);
    }
    CU_ASSERT(running == 0 && a->units <= all && looks <= o->looks);
    const uint32_t answer = swi_search_answer(&s);
    swi_search_end(&s);
    return answer;
}

static swi_search_opts opts_of(uint64_t i)
{
    sw_dice dice = {i};
    swi_search_opts o = {.kind = (sw_search_kind)(i % 3),
                         .rungs = 1 + (uint32_t)sw_dice_below(&dice, 4),
                         .eta = 2 + (uint32_t)sw_dice_below(&dice, 3),
                         .start = 1 + (uint32_t)sw_dice_below(&dice, 12),
                         .parents = 1 + (uint32_t)sw_dice_below(&dice, 4),
                         .population = 1 + (uint32_t)sw_dice_below(&dice, 9),
                         .fresh = (double)sw_dice_below(&dice, 3) / 4,
                         .workers = 1 + (uint32_t)sw_dice_below(&dice, 6),
                         .trainings = 2 + sw_dice_below(&dice, 12),
                         .seed = i};
    o.looks = (uint32_t)sw_dice_below(&dice, o.trainings);
    const uint64_t third = (o.trainings - o.looks) * whole_of(&o) / 3;
    o.start = o.rungs == 1 || o.start < third ? o.start : third < 1 ? 1 : (uint32_t)third;
    return o;
}

/* Who goes on is among the best of its rung; no more units are used than there are; who ends
 * first follows from operations; looks are at the best; and all of it is the same again. */
SW_TEST("each job is one that may be")
{
    static account a;
    const uint64_t n = sw_tests_full() ? 3000 : 200;
    uint64_t answered = 0;
    for (uint64_t i = 0; i < n; i++) {
        const swi_search_opts o = opts_of(i);
        uint64_t sum, again;
        const uint32_t answer = play(&o, i, &a, &sum);
        /* The best mean of all looks, or the best at the highest rung. */
        if (answer != SWI_SEARCH_NONE) {
            bool looked = false, its = false;
            for (uint32_t k = 0; k < a.n; k++) {
                looked |= a.look[k] && isfinite(a.score[k][o.rungs - 1]);
                its |= a.look[k] && a.parent[k] == answer;
                CU_ASSERT(looked || a.look[k] || a.rung[k] <= a.rung[answer] ||
                          !isfinite(a.score[k][a.rung[k]]));
            }
            CU_ASSERT(!looked || its);
            answered++;
        }
        CU_ASSERT_EQUAL(play(&o, i, &a, &again), answer);
        CU_ASSERT_EQUAL(sum, again);
    }
    CU_ASSERT(answered > n * 9 / 10);
}

/* Scores that follow the candidate's number: the last child of the best line wins, and a search
 * at random has no children. */
SW_TEST("children are those of the best")
{
    swi_search s;
    swi_job job;
    const swi_search_opts o =
        SW_INIT(.kind = SW_SEARCH_LOCAL, .rungs = 1, .eta = 3, .start = 4, .parents = 1,
                .population = 1, .workers = 1, .trainings = 30, .seed = 3);
    OK(swi_search_begin(&s, &o, "test"));
    for (uint32_t i = 0; i < 30; i++) {
        OK(swi_search_ask(&s, &job));
        CU_ASSERT_EQUAL(job.id, i);
        CU_ASSERT_EQUAL(job.of, i < 4 ? SWI_SEARCH_NONE : i % 2 ? i - 1 : i - 2);
        swi_search_plan(&s, &job, 1);
        swi_search_tell(&s, swi_search_next(&s), i < 4 ? i == 2 ? 4 : 1 : i % 2 ? 0 : i + 1);
    }
    OK(swi_search_ask(&s, &job));
    CU_ASSERT(job.what == SWI_JOB_NONE && swi_search_next(&s) == SWI_SEARCH_NONE);
    CU_ASSERT_EQUAL(swi_search_answer(&s), 28);
    swi_search_end(&s);
}

SW_TEST("wrong searches are refused")
{
    const swi_search_opts good = opts_of(1);
    swi_search s;
#define BAD(change, part)                                                                      \
    {                                                                                          \
        swi_search_opts o = good;                                                              \
        change;                                                                                \
        REFUSED(swi_search_begin(&s, &o, "test"), SW_INVALID, part);                           \
    }
    BAD(o.rungs = 0, "rungs");
    BAD(o.rungs = 7, "rungs");
    BAD(o.eta = 1, "eta");
    BAD(o.start = 0, "start");
    BAD(o.parents = 0, "parents");
    BAD(o.workers = 0, "workers");
    BAD(o.fresh = 1.5, "fresh");
    BAD(o.fresh = (double)NAN, "fresh");
    BAD(o.trainings = 0, "trainings");
    BAD(o.looks = (uint32_t)o.trainings, "looks");
}

static sw_status plays(void *arg)
{
    const swi_search_opts *o = arg;
    swi_search s;
    swi_job job;
    sw_status status = swi_search_begin(&s, o, "test");
    for (uint32_t i = 0; i < 40 && status == SW_OK; i++) {
        status = swi_search_ask(&s, &job);
        if (status != SW_OK || job.what == SWI_JOB_NONE)
            break;
        swi_search_plan(&s, &job, 1);
        swi_search_tell(&s, job.id, i % 7);
    }
    swi_search_end(&s);
    return status;
}

SW_TEST("no memory is an answer")
{
    sw_sites sites = {SW_FAULT_MEMORY};
    swi_search_opts o = opts_of(4);
    o.trainings = 40;
    while (sw_sites_next(&sites))
        (void)SW_AT_SITE(&sites, plays(&o));
    CU_ASSERT(sites.failed > 2);
}
