/* The search loop: made and ended, what drives it from one call to the next, and what callers
 * see of it. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/evolve/search_space.h"
#include "runtime/population/member_pool.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[SW_SEARCH_KINDS] = {"local", "ageing", "random"};

const char *sw_search_kind_name(sw_search_kind kind)
{
    return (unsigned)kind < SW_SEARCH_KINDS ? kinds[kind] : NULL;
}

/* ---- what callers see -------------------------------------------------------------------- */

uint32_t sw_evolution_count(const sw_evolution *e)
{
    return sw_handle_look(e, SW_HANDLE_EVOLUTION, "sw_evolution_count") == SW_OK ? e->n : 0;
}

sw_candidate swi_one_view(const sw_evolution *e, const swi_one *one)
{
    const swi_try *t = &e->search.tries[one->id - 1];
    const bool known = one->id <= e->search.n;
    const double a = one->accuracy, n = (double)e->opts.validation_samples;
    return SW_OPTS(sw_candidate, .id = one->id, .parents = {(uint64_t)(one->of + 1), 0},
                   .born = one->born, .steps = one->steps, .genome = one->genome,
                   .price = &one->price, .measured_bytes = one->measured,
                   .fitness = one->fitness, .loss = one->loss, .accuracy = one->accuracy,
                   .train_accuracy = one->train_accuracy, .ns_per_sample = one->ns_per_sample,
                   .invalid = one->invalid, .why = one->invalid ? one->why : NULL,
                   .rung = known ? t->rung : -1, .look = one->how == SWI_JOB_LOOK,
                   .training = one->training, .looks = known ? t->n : 0,
                   .mean = known && t->n > 0 ? t->sum / t->n : (double)NAN,
                   .error = sqrt(a * (1 - a) / n));
}

/* The position, or that of the answer for UINT32_MAX; *one is it. */
static sw_status find(const sw_evolution *e, uint32_t i, swi_one **one, const char *call)
{
    const uint32_t at = i == UINT32_MAX ? swi_search_answer(&e->search) : i;
    if (i == UINT32_MAX && at == SWI_SEARCH_NONE)
        SW_FAIL(SW_INVALID, "%s: no candidate was evaluated yet, or none is valid", call);
    if (at >= e->n)
        SW_FAIL(SW_INVALID, "%s: the position must be below %u (got %u)", call, e->n, i);
    *one = e->ones[at];
    return SW_OK;
}

static sw_status show(sw_evolution *e, uint32_t i, sw_candidate *out, const char *call)
{
    swi_one *one;
    SW_TRY(sw_handle_look(e, SW_HANDLE_EVOLUTION, call)); /* a choice of parents looks, too */
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_candidate, out, call));
    SW_TRY(find(e, i, &one, call));
    const sw_candidate view = swi_one_view(e, one);
    swi_struct_write(SWI_STRUCT_sw_candidate, out, &view);
    return SW_OK;
}

sw_status sw_evolution_member(sw_evolution *e, uint32_t i, sw_candidate *out)
{
    if (i == UINT32_MAX)
        SW_FAIL(SW_INVALID, "%s: the position must be below %u (got %u)", __func__,
                sw_evolution_count(e), i);
    return show(e, i, out, __func__);
}

sw_status sw_evolution_best(sw_evolution *e, sw_candidate *out)
{
    return show(e, UINT32_MAX, out, __func__);
}

static sw_status fill(sw_evolution *e, const swi_one *one, sw_net *net)
{
    const size_t n = one->need.member;
    void *scratch;
    SW_TRY(sw_model_ready(net->model, e->exec, 0));
    if (one->member.of != NULL)
        return swi_net_fill(net, swi_member_base(one->group, one->member.index), n);
    SW_TRY(swi_charged_take(e, &scratch, n, &e->scratch_bytes));
    sw_status status = swi_rest_get(e, one, scratch);
    if (status == SW_OK)
        status = swi_net_fill(net, scratch, n);
    swi_charged_give(e, scratch, n, &e->scratch_bytes);
    return status;
}

sw_status sw_net_copy(sw_net **out, sw_evolution *e, uint32_t i)
{
    sw_net *net;
    swi_one *one;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, __func__));
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(find(e, i, &one, __func__));
    if (one->member.of == NULL && !one->rest.there)
        SW_FAIL(SW_INVALID, "%s: the state of candidate %llu is not kept", __func__,
                (unsigned long long)one->id);
    SW_TRY(sw_net_create(&net, one->genome, &e->net_opts));
    const sw_status status = fill(e, one, net);
    return SW_GIVE(status, out, net, swi_genome_net_free);
}

/* ---- options ----------------------------------------------------------------------------- */

enum { DEFAULT_VALIDATION = 2000, MOST_WORKERS = 1024 };

/* *to: n elements of `from` in a block of our own. */
static sw_status keep_at(void *to, const void *from, size_t bytes)
{
    void *block = NULL;
    if (bytes > 0) {
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
        memcpy(block, from, bytes);
    }
    memcpy(to, &block, sizeof block);
    return SW_OK;
}
#define keep(to, from, bytes) keep_at(SW_POINTER(to), from, bytes)

static sw_status keep_first(sw_evolution *e, const sw_genome *const *first)
{
    sw_genome **list;
    if (e->opts.n_first == 0)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&list, SW_HEAP_RECORDS, e->opts.n_first * sizeof *list));
    e->opts.first = (const sw_genome *const *)list;
    for (size_t i = 0; i < e->opts.n_first; i++) {
        sw_genome_info is = SW_OPTS(sw_genome_info);
        SW_TRY(sw_handle_check(first[i], SW_HANDLE_GENOME, "sw_evolution_create"));
        SW_TRY(sw_genome_copy(&list[i], first[i]));
        SW_TRY(sw_genome_describe(list[i], &is));
        if (is.channels != e->task.channels || is.height != e->task.height ||
            is.width != e->task.width || is.classes != e->task.classes)
            SW_FAIL(
                SW_INVALID,
                "sw_evolution_create: genome %zu of opts.first (%s) is for samples of %lld x "
                "%lld x %lld and %lld classes; the data set has %lld x %lld x %lld and %lld",
                (size_t)i, list[i]->name[0] != '\0' ? list[i]->name : "without a name",
                (long long)is.channels, (long long)is.height, (long long)is.width,
                (long long)is.classes, (long long)e->task.channels, (long long)e->task.height,
                (long long)e->task.width, (long long)e->task.classes);
    }
    return SW_OK;
}

/* Samples and a label each; the same shapes of both. */
static sw_status look_at_data(sw_evolution *e, const char *call)
{
    sw_dataset_info t = SW_OPTS(sw_dataset_info), v = SW_OPTS(sw_dataset_info);
    SW_TRY(sw_handle_check(e->opts.train, SW_HANDLE_DATASET, call));
    SW_TRY(sw_handle_check(e->opts.validation, SW_HANDLE_DATASET, call));
    sw_dataset_describe(e->opts.train, &t);
    sw_dataset_describe(e->opts.validation, &v);
    const sw_shape *x = &t.field[0].shape, *y = &v.field[0].shape;
    bool same = t.n_fields == v.n_fields && t.n_classes == v.n_classes && x->rank == y->rank &&
                t.field[0].dtype == v.field[0].dtype;
    for (int d = 0; same && d < x->rank; d++)
        same = x->dim[d] == y->dim[d];
    if (!same)
        SW_FAIL(SW_INVALID, "%s: train and validation must have the same fields and classes",
                call);
    if (t.n_fields != 2 || t.n_classes < 2 || (x->rank != 1 && x->rank != 3) ||
        t.field[1].shape.rank != 0)
        SW_FAIL(SW_INVALID,
                "%s: samples must be vectors or images of channels, height and width, with one "
                "label of at least two classes each",
                call);
    e->task = SW_OPTS(sw_task, .channels = x->dim[0], .height = x->rank == 3 ? x->dim[1] : 0,
                      .width = x->rank == 3 ? x->dim[2] : 0, .classes = t.n_classes);
    e->n_train = t.n;
    if (e->opts.validation_samples > (uint64_t)v.n)
        SW_FAIL(SW_INVALID, "%s: validation_samples must be at most %lld (got %llu)", call,
                (long long)v.n, (unsigned long long)e->opts.validation_samples);
    if (e->opts.validation_samples == 0)
        e->opts.validation_samples =
            (uint64_t)(v.n < DEFAULT_VALIDATION ? v.n : DEFAULT_VALIDATION);
    return SW_OK;
}

static void set_default(uint32_t *option, uint32_t value)
{
    *option = *option == 0 ? value : *option;
}

static void set_defaults(sw_evolution_opts *o)
{
    o->samples = o->samples == 0 ? 12800 : o->samples;
    set_default(&o->population, 20);
    set_default(&o->rungs, 3);
    set_default(&o->eta, 3);
    set_default(&o->start, 16);
    set_default(&o->parents, o->search == SW_SEARCH_AGEING ? 5 : 2);
    set_default(&o->workers, 1);
    set_default(&o->trainings, 20);
    set_default(&o->looks, o->trainings >= 16 ? 4 : o->trainings / 4);
    o->looks = o->looks == UINT32_MAX ? 0 : o->looks;
    o->fresh = o->fresh == 0 ? 0.1 : o->fresh < 0 ? 0 : o->fresh;
    o->start = o->start < o->n_first ? (uint32_t)o->n_first : o->start;
}

static uint32_t ask_caller(void *user, uint64_t seed)
{
    sw_evolution *e = user;
    const uint32_t i = e->opts.parent(e, seed, e->opts.parent_user);
    return i < e->n && !e->ones[i]->invalid && e->ones[i]->how != SWI_JOB_LOOK
               ? i
               : SWI_SEARCH_NONE;
}

/* ---- made and ended ---------------------------------------------------------------------- */

/* Arrays of one call: take(pointer, elements) for each. */
#define ARRAYS(e, n, take)                                                                     \
    take((e)->call_groups, n) take((e)->call_args, n) take((e)->call_of, n)                    \
        take((e)->in_training, n)
#define TAKE(x, n) SW_TRY(sw_heap_alloc(&(x), SW_HEAP_RECORDS, (n) * sizeof *(x)));
#define GIVE(x, n) sw_heap_free(x, SW_HEAP_RECORDS, (n) * sizeof *(x));

static sw_status make(sw_evolution *e, const sw_evolution_opts *given, const char *call)
{
    sw_evolution_opts *o = &e->opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_net_opts, &e->net_opts, given->net, call));
    e->net_opts.utility = 0; /* nothing inherits */
    o->net = &e->net_opts;
    /* Lists of the caller's, one by one: what was kept before a failure is freed by end(). */
    SW_TRY(look_at_data(e, call));
    SW_TRY(swi_fitness_read(&e->fitness, given->fitness, given->n_fitness, call));
    SW_TRY(keep(&o->mutations, given->mutations, o->n_mutations * sizeof *o->mutations));
    SW_TRY(keep(&o->dir, given->dir, given->dir != NULL ? strlen(given->dir) + 1 : 0));
    SW_TRY(keep_first(e, given->first));
    e->space = o->space;
    if (e->space == NULL) {
        SW_TRY(sw_search_space_default(&e->own_space, &e->task));
        e->space = e->own_space;
    }
    SW_TRY(sw_handle_check(e->space, SW_HANDLE_SEARCH_SPACE, call));
    set_defaults(o);
    if (o->workers > MOST_WORKERS)
        SW_FAIL(SW_INVALID, "%s: workers must be at most %d (got %u)", call, MOST_WORKERS,
                o->workers);
    const swi_search_opts search =
        SW_INIT(.kind = o->search, .rungs = o->rungs, .eta = o->eta, .start = o->start,
                .parents = o->parents, .population = o->population, .fresh = o->fresh,
                .looks = o->looks, .workers = o->workers, .trainings = o->trainings,
                .seed = o->seed, .parent = o->parent != NULL ? ask_caller : NULL,
                .parent_user = e);
    SW_TRY(swi_search_begin(&e->search, &search, call));
    e->budget = swi_target_of(e->exec)->budget;
    sw_budget_share(e->budget);
    e->others = sw_budget_used(e->budget);
    const int threads = swi_target_of(e->exec)->threads;
    e->threads = threads > (int)o->workers ? threads / (int)o->workers : 1;
    e->lanes = threads / e->threads;
    ARRAYS(e, (size_t)swi_evolution_width(e), TAKE)
    return swi_evolution_try(e, call);
}

static void end(sw_evolution *e)
{
    const size_t n = swi_evolution_width(e);
    sw_file_drop(e->history);
    for (uint32_t i = 0; i < e->n; i++) {
        swi_one_free(e, e->ones[i]);
        sw_heap_free(e->ones[i], SW_HEAP_RECORDS, sizeof *e->ones[i]);
    }
    sw_heap_free(e->ones, SW_HEAP_RECORDS, e->cap * sizeof *e->ones);
    sw_text_free(e->replayed, e->replayed_bytes);
    sw_heap_free(e->said, SW_HEAP_RECORDS, e->said_bytes);
    swi_search_end(&e->search);
    ARRAYS(e, n, GIVE)
    if (e->exec->member_pool != NULL) /* where others have members there */
        swi_lanes_use(e->exec->member_pool, INT_MAX);
    swi_feeds_free(e);
    swi_search_space_free(e->own_space);
    const sw_evolution_opts *o = &e->opts;
    for (size_t j = 0; j < o->n_first && o->first != NULL; j++)
        swi_genome_free((sw_genome *)(uintptr_t)o->first[j]);
    sw_heap_free((void *)(uintptr_t)o->first, SW_HEAP_RECORDS, o->n_first * sizeof *o->first);
    sw_heap_free((void *)(uintptr_t)o->mutations, SW_HEAP_RECORDS,
                 o->n_mutations * sizeof *o->mutations);
    if (o->dir != NULL)
        sw_heap_free((void *)(uintptr_t)o->dir, SW_HEAP_RECORDS, strlen(o->dir) + 1);
    sw_budget_leave(e->budget);
    sw_handle_give(e, SW_HANDLE_EVOLUTION, sizeof *e);
}

/* Options that are no longer used must not be given. */
static sw_status refuse_older(const sw_evolution_opts *o, const char *call)
{
    const struct {
        const char *name, *now;
        bool given;
    } older[] = {{"mutate", "every child is mutated", o->mutate != 0},
                 {"crossover", "it did not help", o->crossover > 0},
                 {"selections", "use search or parent", o->n_selections > 0},
                 {"generation_ns", "rungs end by samples", o->generation_ns > 0},
                 {"step_ns", "rungs end by samples", o->step_ns > 0},
                 {"patience", "rungs end by samples", o->patience > 0}};
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (older[i].given)
            SW_FAIL(SW_UNSUPPORTED, "%s: %s is no longer used: %s", call, older[i].name,
                    older[i].now);
    return SW_OK;
}

sw_status sw_evolution_create(sw_evolution **out, sw_exec *exec, const sw_evolution_opts *given)
{
    sw_evolution_opts opts;
    sw_evolution *e;
    SW_TRY(swi_given(out != NULL, "out", __func__));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, __func__));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_evolution_opts, &opts, given, __func__));
    SW_TRY(refuse_older(&opts, __func__));
    if (sw_search_kind_name(opts.search) == NULL)
        SW_FAIL(SW_INVALID, "%s: the search %d is none", __func__, (int)opts.search);
    if (opts.dir != NULL &&
        (opts.dir[0] == '\0' || strlen(opts.dir) > SWI_EVOLUTION_PATH - 100))
        SW_FAIL(SW_INVALID, "%s: dir must have 1 to %d bytes", __func__,
                SWI_EVOLUTION_PATH - 100);
    if ((opts.first == NULL) != (opts.n_first == 0) ||
        (opts.mutations == NULL) != (opts.n_mutations == 0) ||
        (opts.fitness == NULL) != (opts.n_fitness == 0))
        SW_FAIL(SW_INVALID, "%s: each list must be given together with its number", __func__);
    if (!swi_target_of(exec)->device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "%s: architectures evolve on the CPU; give an exec of it",
                __func__);
    SW_TRY(sw_handle_take(&e, SW_HANDLE_EVOLUTION, sizeof(sw_evolution)));
    e->exec = exec;
    e->opts = opts;
    e->opts.first = NULL; /* the caller's lists: ours take their place one by one */
    e->opts.mutations = NULL;
    e->opts.fitness = NULL;
    e->opts.dir = NULL;
    const sw_status status = make(e, &opts, __func__);
    return SW_GIVE(status, out, e, end);
}

void sw_evolution_destroy(sw_evolution *e)
{
    if (sw_handle_ends(e, SW_HANDLE_EVOLUTION, __func__))
        end(e);
}

/* ---- states at rest ---------------------------------------------------------------------- */

/* May it still go on, or be the answer? */
static bool is_needed(const sw_evolution *e, uint32_t i, uint32_t answer)
{
    const swi_search *s = &e->search;
    const swi_try *t = &s->tries[i];
    const int last = (int)e->opts.rungs - 1;
    uint32_t before = 0;
    if (t->invalid || t->look)
        return false;
    if (i == answer)
        return true;
    if (s->looks == 0 && s->running == 0 && e->opts.looks > 0)
        return false; /* it has ended */
    if (t->rung < last)
        return !t->stays && s->looks == e->opts.looks;
    for (uint32_t k = 0; k < s->n; k++)
        before += !s->tries[k].look && s->tries[k].rung == last &&
                  s->tries[k].score[last] > t->score[last];
    return before < e->opts.looks;
}

/* Drop what is not needed, and without files the worst where `more` bytes have no room beside
 * the others: those do not go on. The states of the answer and of candidate `but` stay. */
static void sweep(sw_evolution *e, size_t more, uint32_t but)
{
    const uint32_t answer = swi_search_answer(&e->search);
    for (uint32_t i = 0; i < e->n; i++)
        if (i != but && e->ones[i]->rest.there && !e->ones[i]->training &&
            !is_needed(e, i, answer))
            swi_rest_drop(e, e->ones[i]);
    while (e->opts.dir == NULL && e->rest_bytes + more > swi_rest_room(e)) {
        uint32_t worst = SWI_SEARCH_NONE;
        for (uint32_t i = 0; i < e->n; i++) {
            const swi_one *one = e->ones[i];
            if (!one->rest.there || one->training || i == answer || i == but)
                continue;
            if (worst == SWI_SEARCH_NONE ||
                e->search.tries[i].rung < e->search.tries[worst].rung ||
                (e->search.tries[i].rung == e->search.tries[worst].rung &&
                 one->fitness < e->ones[worst]->fitness))
                worst = i;
        }
        if (worst == SWI_SEARCH_NONE)
            return;
        e->search.tries[worst].stays = true;
        swi_rest_drop(e, e->ones[worst]);
    }
}

/* Keep the state of one that has reached a rung, if it is needed and has room. The answer's
 * always has: more members are reserved than are in training. */
static sw_status keep_state(sw_evolution *e, uint32_t i)
{
    swi_one *one = e->ones[i];
    const size_t more = one->rest.block != NULL ? 0 : one->need.member;
    const uint32_t answer = swi_search_answer(&e->search);
    if (!is_needed(e, i, answer))
        return SW_OK;
    sweep(e, more, i);
    if (e->opts.dir != NULL || e->rest_bytes + more <= swi_rest_room(e) || i == answer)
        return swi_rest_put(e, one, (uint32_t)e->search.tries[i].rung);
    e->search.tries[i].stays = true;
    return SW_OK;
}

/* ---- going on ---------------------------------------------------------------------------- */

static sw_status add_one(sw_evolution *e, const swi_job *job, swi_one **out)
{
    swi_one *one;
    SW_TRY(sw_heap_reserve(&e->ones, SW_HEAP_RECORDS, &e->cap, e->n + 1));
    SW_TRY(sw_heap_alloc(&one, SW_HEAP_RECORDS, sizeof *one));
    swi_one_begin(one);
    one->id = (uint64_t)job->id + 1;
    one->how = job->what;
    one->of = job->of;
    one->born = e->told;
    e->ones[e->n++] = one;
    *out = one;
    return SW_OK;
}

/* A job that was asked for begins: out of the history, or as something new. */
static sw_status begin_job(sw_evolution *e, const swi_job *job)
{
    swi_one *one;
    bool there = false;
    if (job->what == SWI_JOB_GO_ON) {
        one = e->ones[job->id];
    } else {
        SW_TRY(add_one(e, job, &one));
        if (e->replayed != NULL)
            SW_TRY(swi_replay_begin(e, one, &there));
        if (!there) {
            SW_TRY(swi_one_make(e, one));
            sweep(e, 0, SWI_SEARCH_NONE); /* the largest may have grown */
            SW_TRY(swi_log_begin(e, one));
        }
    }
    swi_search_plan(&e->search, job, one->price.operations_per_sample);
    swi_one_assign(e, one, job);
    return SW_OK;
}

static sw_status tell(sw_evolution *e, uint32_t i, bool replayed)
{
    swi_one *one = e->ones[i];
    swi_search_tell(&e->search, i, one->invalid ? (double)NAN : one->fitness);
    e->told++;
    one->training = false;
    if (!replayed) {
        SW_TRY(keep_state(e, i));
        SW_TRY(swi_log_end(e, one));
    }
    swi_one_close(one);
    sweep(e, 0, SWI_SEARCH_NONE);
    return SW_OK;
}

static sw_status look_at_state(sw_evolution *e, const swi_one *one)
{
    void *scratch;
    if (!one->rest.there)
        return SW_FORMAT;
    if (e->opts.dir == NULL)
        return SW_OK;
    sw_status status = SW_OK;
    if (swi_has_files(e)) {
        SW_TRY(swi_charged_take(e, &scratch, one->need.member, &e->scratch_bytes));
        status = swi_rest_get(e, one, scratch);
        swi_charged_give(e, scratch, one->need.member, &e->scratch_bytes);
    }
    return swi_ranks_first(e, status);
}

/* The state of the answer must be there: where its file is damaged or missing, or it had no
 * room before its second look, it is trained again. */
static sw_status mend(sw_evolution *e, sw_evolve_what *what)
{
    const uint32_t answer = swi_search_answer(&e->search);
    swi_one *one = answer == SWI_SEARCH_NONE ? NULL : e->ones[answer];
    uint32_t ended = SWI_SEARCH_NONE;
    *what = SW_EVOLVE_ENDED;
    if (e->ended || one == NULL)
        return SW_OK;
    if (!one->training) {
        const sw_status status = look_at_state(e, one);
        e->ended = status == SW_OK;
        if (e->ended || (status != SW_FORMAT && status != SW_IO))
            return status;
        if (one->rest.there)
            swi_evolution_note(e, sw_last_error());
        const uint32_t rung = (uint32_t)e->search.tries[answer].rung;
        for (uint32_t r = 0; r <= rung; r++) { /* its numbers are of the last one */
            one->steps = r > 0 ? one->assigned : 0;
            swi_one_assign(e, one, &(swi_job){.rung = r});
        }
        one->steps = 0;
    }
    *what = SW_EVOLVE_TRAINED;
    SW_TRY(swi_evolution_run(e, answer, &ended));
    if (ended == SWI_SEARCH_NONE)
        return SW_OK;
    one->training = false;
    SW_TRY(swi_rest_put(e, one, (uint32_t)e->search.tries[answer].rung));
    swi_one_close(one);
    return SW_OK;
}

/* Fill the workers, then go on with those in training. *candidate: who has reached a rung. */
static sw_status drive(sw_evolution *e, sw_evolve_what *what, uint32_t *candidate)
{
    swi_job job;
    bool there = false;
    *what = SW_EVOLVE_TRAINED;
    SW_TRY(swi_search_ask(&e->search, &job));
    if (job.what != SWI_JOB_NONE)
        return begin_job(e, &job);
    uint32_t next = swi_search_next(&e->search);
    if (next == SWI_SEARCH_NONE) {
        sweep(e, 0, SWI_SEARCH_NONE);
        return mend(e, what);
    }
    if (e->replayed != NULL)
        SW_TRY(swi_replay_end(e, e->ones[next], &there));
    if (!there)
        SW_TRY(swi_evolution_run(e, next, &next));
    if (next == SWI_SEARCH_NONE)
        return SW_OK;
    *what = SW_EVOLVE_EVALUATED;
    *candidate = next;
    return tell(e, next, there);
}

SW_FRAME_OWN static sw_status go_on(sw_evolution *e, sw_evolve_what *what, uint32_t *candidate)
{
    *what = SW_EVOLVE_STOPPED;
    if (e->ranks != NULL ? e->stop != 0
                         : e->opts.stop != NULL && e->opts.stop(e->opts.stop_user) != 0)
        return SW_OK;
    if (e->history == NULL && swi_has_files(e))
        SW_TRY(swi_log_open(e));
    e->begun = true;
    return drive(e, what, candidate);
}

sw_status sw_evolution_advance(sw_evolution *e, sw_evolve_progress *out)
{
    sw_evolve_what what;
    uint32_t candidate = 0;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolve_progress, out, __func__));
    if (e->broken)
        SW_FAIL(SW_STALE,
                "%s: an earlier call failed: destroy it, and go on with sw_evolution_resume",
                __func__);
    if (e->asked)
        SW_FAIL(SW_INVALID, "%s: this search is asked and told by the program", __func__);
    const void *const kept[] = {e->exec, e->space};
    sw_call of = {
        .name = __func__, .uses = SW_CALL_ONE(e), .keeps = {{kept, 2}, SW_CALL_ONE(e->shown)}};
    SW_TRY(sw_call_begin(&of, SW_FRAME));
    const sw_status status = sw_call_end(&of, go_on(e, &what, &candidate));
    if (status != SW_OK) {
        e->broken = true;
        return status;
    }
    sw_evolve_progress p = SW_INIT(.size = out->size, .what = what, .generation = e->told,
                                   .longest_gap_ns = e->longest_gap, .mutants = e->mutants,
                                   .refused = e->refused, .candidate = candidate);
    for (uint32_t i = 0; i < e->n; i++) {
        p.steps += e->ones[i]->steps;
        p.done += e->ones[i]->steps * (uint64_t)e->ones[i]->genome->batch;
    }
    p.all = e->opts.samples * e->opts.trainings;
    swi_struct_write(SWI_STRUCT_sw_evolve_progress, out, &p);
    return SW_OK;
}

/* The history is done again, without training; then all is as it was. */
sw_status swi_evolution_replay(sw_evolution *e)
{
    sw_evolve_what what;
    uint32_t candidate;
    while (e->replayed != NULL && e->replayed_at < e->replayed_bytes)
        SW_TRY(drive(e, &what, &candidate));
    return SW_OK;
}

/* ---- trained by the program -------------------------------------------------------------- */

static sw_status ask(sw_evolution *e, sw_evolution_job *out)
{
    swi_job job;
    SW_TRY(swi_search_ask(&e->search, &job));
    if (job.what == SWI_JOB_NONE)
        return SW_OK;
    SW_TRY(begin_job(e, &job));
    swi_one *one = e->ones[job.id];
    swi_one_close(one); /* it was opened for its price */
    out->candidate = job.id;
    out->rung = (int)job.rung;
    out->look = job.what == SWI_JOB_LOOK;
    out->samples = one->assigned * (uint64_t)one->genome->batch;
    out->genome = one->genome;
    out->price = &one->price;
    return SW_OK;
}

sw_status sw_evolution_ask(sw_evolution *e, sw_evolution_job *out)
{
    sw_evolution_job job = SW_OPTS(sw_evolution_job, .candidate = UINT32_MAX);
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, __func__));
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolution_job, out, __func__));
    if (e->opts.dir != NULL)
        SW_FAIL(SW_UNSUPPORTED, "%s: the search must have no dir; tell the same again to go on",
                __func__);
    if (e->begun || e->broken)
        SW_FAIL(SW_INVALID, "%s: %s", __func__,
                e->begun ? "the search is trained by sw_evolution_advance"
                         : "an earlier call failed: destroy it");
    e->asked = true;
    const void *const kept[] = {e->exec, e->space};
    sw_call of = {.name = __func__, .uses = SW_CALL_ONE(e), .keeps = {{kept, 2}}};
    SW_TRY(sw_call_begin(&of, SW_FRAME));
    const sw_status status = sw_call_end(&of, ask(e, &job));
    e->broken = status != SW_OK;
    if (status == SW_OK)
        swi_struct_write(SWI_STRUCT_sw_evolution_job, out, &job);
    return status;
}

sw_status sw_evolution_tell(sw_evolution *e, uint32_t candidate, double fitness)
{
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, __func__));
    if (!e->asked || candidate >= e->n || !e->ones[candidate]->training)
        SW_FAIL(SW_INVALID, "%s: candidate %u was not asked for", __func__, candidate);
    swi_one *one = e->ones[candidate];
    one->steps = one->assigned;
    one->fitness = isfinite(fitness) ? fitness : (double)NAN;
    one->invalid = !isfinite(fitness);
    if (one->invalid)
        (void)snprintf(one->why, sizeof one->why, "its fitness is no finite number");
    one->training = false;
    e->told++;
    swi_search_tell(&e->search, candidate, one->fitness);
    return SW_OK;
}
