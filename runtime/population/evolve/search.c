/* Which candidate of a search is trained next, and how far. */
#include "runtime/population/evolve/search.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/genome.h"
#include <math.h>

static uint64_t whole(const swi_search *s)
{
    uint64_t units = 1;
    for (uint32_t rung = 1; rung < s->opts.rungs; rung++)
        units *= s->opts.eta;
    return units;
}

/* From the rung before it. */
static uint64_t units_to(const swi_search *s, uint32_t rung)
{
    uint64_t units = 1, before = 0;
    for (; rung > 0; rung--) {
        before = units;
        units *= s->opts.eta;
    }
    return units - before;
}

sw_status swi_search_begin(swi_search *s, const swi_search_opts *o, const char *call)
{
    *s = (swi_search){.opts = *o};
    if (o->rungs < 1 || o->rungs > SWI_SEARCH_RUNGS || o->eta < 2 || o->eta > 16)
        SW_FAIL(SW_INVALID, "%s: rungs must be 1 to %d and eta 2 to 16 (got %u and %u)", call,
                SWI_SEARCH_RUNGS, o->rungs, o->eta);
    if (o->start < 1 || o->parents < 1 || o->population < 1 || o->workers < 1)
        SW_FAIL(SW_INVALID,
                "%s: start, parents, population and workers must be 1 at least (got %u, %u, %u "
                "and %u)",
                call, o->start, o->parents, o->population, o->workers);
    if (!(o->fresh >= 0 && o->fresh <= 1))
        SW_FAIL(SW_INVALID, "%s: fresh must be 0 to 1 (got %g)", call, o->fresh);
    if (o->trainings < 1 || o->trainings > 1u << 24 || o->looks >= o->trainings)
        SW_FAIL(SW_INVALID,
                "%s: trainings must be 1 to %u and more than looks (got %llu, looks %u)", call,
                1u << 24, (unsigned long long)o->trainings, o->looks);
    s->left = (o->trainings - o->looks) * whole(s);
    /* A third of the units at most, so that some can be trained to the end. */
    if (o->rungs > 1 && s->left / 3 < o->start)
        s->opts.start = s->left < 3 ? 1 : (uint32_t)(s->left / 3);
    s->looks = o->looks;
    return SW_OK;
}

void swi_search_end(swi_search *s)
{
    sw_heap_free(s->tries, SW_HEAP_RECORDS, s->cap * sizeof *s->tries);
    sw_heap_free(s->order, SW_HEAP_RECORDS, s->cap_order * sizeof *s->order);
    s->tries = NULL;
    s->order = NULL;
}

/* ---- order ------------------------------------------------------------------------------- */

/* Is `a` ahead of `b` at that rung, which both have reached? Of equals the older one. */
static bool ahead_at(const swi_search *s, uint32_t rung, uint32_t a, uint32_t b)
{
    const double x = s->tries[a].score[rung], y = s->tries[b].score[rung];
    return x != y ? x > y : a < b;
}

/* By what each has reached. */
static bool ahead(const swi_search *s, uint32_t a, uint32_t b)
{
    const swi_try *x = &s->tries[a], *y = &s->tries[b];
    return x->rung != y->rung ? x->rung > y->rung : ahead_at(s, (uint32_t)x->rung, a, b);
}

/* s->order: the best `most` of the valid ones that reached the rung, by what each has reached,
 * the best first. How many. */
static uint32_t best_of(const swi_search *s, uint32_t rung, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const swi_try *t = &s->tries[i];
        if (t->look || t->invalid || t->rung < (int32_t)rung)
            continue;
        uint32_t k = n < most ? n++ : most;
        for (; k > 0 && ahead(s, i, s->order[k - 1]); k--)
            if (k < most)
                s->order[k] = s->order[k - 1];
        if (k < most)
            s->order[k] = i;
    }
    return n;
}

/* ---- what comes next --------------------------------------------------------------------- */

/* The best of a rung that did not go on; where `share`, one of the best 1 / eta of all that
 * reached it. */
static uint32_t who_goes_on(const swi_search *s, uint32_t rung, bool share)
{
    uint32_t best = SWI_SEARCH_NONE, reached = 0, before = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const swi_try *t = &s->tries[i];
        const bool there = !t->look && t->rung >= (int32_t)rung;
        reached += there;
        if (there && t->rung == (int32_t)rung && !t->running && !t->invalid && !t->stays &&
            (best == SWI_SEARCH_NONE || ahead_at(s, rung, i, best)))
            best = i;
    }
    for (uint32_t i = 0; i < s->n && best != SWI_SEARCH_NONE; i++)
        before += !s->tries[i].look && s->tries[i].rung >= (int32_t)rung &&
                  ahead_at(s, rung, i, best);
    return share && before >= reached / s->opts.eta ? SWI_SEARCH_NONE : best;
}

/* How many draws have a score. */
static uint32_t scored(const swi_search *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n && n < s->opts.start; i++)
        n += s->tries[i].rung >= 0;
    return n;
}

static sw_status begin_one(swi_search *s, swi_job *job, swi_job_what what, uint32_t of)
{
    SW_TRY(sw_heap_reserve(&s->order, SW_HEAP_RECORDS, &s->cap_order, s->n + 1));
    SW_TRY(sw_heap_reserve(&s->tries, SW_HEAP_RECORDS, &s->cap, s->n + 1));
    s->tries[s->n] = (swi_try){.of = of, .rung = -1, .look = what == SWI_JOB_LOOK};
    *job = (swi_job){.what = what, .id = s->n++, .of = of};
    return SW_OK;
}

/* Who has a child: SWI_SEARCH_NONE: a draw. */
static uint32_t parent_of(swi_search *s)
{
    const swi_search_opts *o = &s->opts;
    swi_draws d = swi_draws_of(o->seed, s->n);
    uint32_t n, best = SWI_SEARCH_NONE;
    if ((o->kind == SW_SEARCH_RANDOM && o->parent == NULL) || s->n < o->start ||
        swi_draw_happens(&d, o->fresh))
        return SWI_SEARCH_NONE;
    if (o->parent != NULL)
        return o->parent(o->parent_user, swi_draw_bits(&d));
    if (o->kind == SW_SEARCH_LOCAL) {
        n = best_of(s, 0, o->parents);
        return n > 0 ? s->order[swi_draw_below(&d, n)] : SWI_SEARCH_NONE;
    }
    n = 0;
    for (uint32_t i = s->n; i-- > 0 && n < o->population;)
        if (s->tries[i].rung >= 0 && !s->tries[i].invalid)
            s->order[n++] = i;
    for (uint32_t k = 0; k < o->parents && n > 0; k++) {
        const uint32_t at = swi_draw_below(&d, n), i = s->order[at];
        best = best == SWI_SEARCH_NONE || ahead(s, i, best) ? i : best;
        s->order[at] = s->order[--n];
    }
    return best;
}

/* Until the first draws have a score nothing goes on. Where the units are too few for another
 * whole training, the best of each rung go on with what is left. */
static sw_status ask_training(swi_search *s, swi_job *job)
{
    const uint32_t last = s->opts.rungs - 1;
    const bool again = s->left >= whole(s);
    const bool held = again && scored(s) < s->opts.start;
    for (int share = 1; share >= again; share--)
        for (uint32_t rung = last; !held && rung-- > 0;) {
            uint64_t rest = 0;
            for (uint32_t r = rung; r < last; r++)
                rest += share == 1 && r > rung ? 0 : units_to(s, r + 1);
            const uint32_t id = s->left < rest ? SWI_SEARCH_NONE : who_goes_on(s, rung, share);
            if (id == SWI_SEARCH_NONE)
                continue;
            *job = (swi_job){.what = SWI_JOB_GO_ON, .id = id, .of = s->tries[id].of};
            job->rung = rung + 1;
            return SW_OK;
        }
    if (!again)
        return SW_OK;
    const uint32_t parent = parent_of(s);
    return begin_one(s, job, parent == SWI_SEARCH_NONE ? SWI_JOB_DRAW : SWI_JOB_CHILD, parent);
}

/* The best that were trained to the end, each once. */
static sw_status ask_look(swi_search *s, swi_job *job)
{
    const uint32_t last = s->opts.rungs - 1;
    const uint32_t n = best_of(s, last, s->opts.looks);
    const uint32_t k = s->opts.looks - s->looks;
    if (k >= n) {
        s->looks = 0;
        return SW_OK;
    }
    s->looks--;
    SW_TRY(begin_one(s, job, SWI_JOB_LOOK, s->order[k]));
    job->rung = last;
    return SW_OK;
}

sw_status swi_search_ask(swi_search *s, swi_job *job)
{
    const bool looking = s->looks < s->opts.looks;
    const bool wide = (looking || s->n < s->opts.start) && s->opts.workers < SWI_SEARCH_WIDE;
    *job = (swi_job){.what = SWI_JOB_NONE, .of = SWI_SEARCH_NONE};
    if (s->running >= (wide ? SWI_SEARCH_WIDE : s->opts.workers))
        return SW_OK;
    if (!looking)
        SW_TRY(ask_training(s, job));
    if (job->what == SWI_JOB_NONE && s->looks > 0 && (looking || s->running == 0))
        SW_TRY(ask_look(s, job));
    if (job->what == SWI_JOB_NONE)
        return SW_OK;
    const bool look = job->what == SWI_JOB_LOOK; /* its units are set aside */
    job->units = look ? whole(s) : units_to(s, job->rung);
    s->left -= look ? 0 : job->units;
    s->tries[job->id].running = true;
    s->running++;
    return SW_OK;
}

void swi_search_plan(swi_search *s, const swi_job *job, double operations)
{
    s->tries[job->id].ends = s->now + operations * (double)job->units;
}

uint32_t swi_search_next(const swi_search *s)
{
    uint32_t next = SWI_SEARCH_NONE;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->tries[i].running &&
            (next == SWI_SEARCH_NONE || s->tries[i].ends < s->tries[next].ends))
            next = i;
    return next;
}

void swi_search_tell(swi_search *s, uint32_t id, double score)
{
    swi_try *t = &s->tries[id];
    SW_ASSERT(t->running);
    t->running = false;
    s->running--;
    s->now = t->ends > s->now ? t->ends : s->now;
    t->rung = t->look ? (int32_t)s->opts.rungs - 1 : t->rung + 1;
    t->invalid |= !isfinite(score);
    t->score[t->rung] = isfinite(score) ? score : -(double)INFINITY;
    if (t->rung + 1 < (int32_t)s->opts.rungs)
        return;
    swi_try *of = t->look ? &s->tries[t->of] : t;
    of->sum += t->score[t->rung];
    of->n++;
}

uint32_t swi_search_answer(const swi_search *s)
{
    uint32_t best = SWI_SEARCH_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        const swi_try *t = &s->tries[i];
        if (t->look || t->invalid || t->rung < 0)
            continue;
        const swi_try *b = best == SWI_SEARCH_NONE ? NULL : &s->tries[best];
        const bool both = b != NULL && t->n > 0 && t->n == b->n;
        if (b == NULL || t->n > b->n || (both && t->sum > b->sum) ||
            (t->n == b->n && !both && ahead(s, i, best)))
            best = i;
    }
    return best;
}
