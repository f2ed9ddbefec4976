/* Runs of the members of a wave. A call takes members in
 * turn, as many steps of each as its operations say and not as clocks do: what a member's sums
 * are made of depends on nothing but the member. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Members at rest: the bytes of a range in a file of DIR/members, or in a block that the budget
 * pays for. A file is named after the member and the generation that began with this state, and
 * begins with a line that says what it is; those of two generations are kept. The best's state
 * is there twice: it may be that of both. */

static const char *const whats[] = {"best", "member", "paused", "spare"};
enum { BEST, MEMBER, PAUSED, SPARE, WHATS };

static swi_state_file file_of(const sw_evolution *e, const swi_one *one, uint64_t generation)
{
    return (swi_state_file){one->id, generation, one == &e->best ? BEST : MEMBER};
}

/* Of one that is put aside. */
static swi_state_file pause_of(const swi_one *one)
{
    return (swi_state_file){one->id, 0, PAUSED};
}

static void path_of(const sw_evolution *e, swi_state_file file, char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/members/%s-%llu-%llu.state", e->opts.dir,
                   whats[file.what], (unsigned long long)file.id,
                   (unsigned long long)file.generation);
}

enum { HEAD = 200 };
static size_t head_of(char to[HEAD], swi_state_file file, size_t n, uint64_t sum)
{
    return (size_t)snprintf(to, HEAD,
                            SWI_STATE_HEAD "\"what\":\"%s\",\"id\":%llu,\"generation\":%llu,"
                                           "\"bytes\":%zu,\"sum\":\"0x%016llx\"}\n",
                            whats[file.what], (unsigned long long)file.id,
                            (unsigned long long)file.generation, n, (unsigned long long)sum);
}

static sw_status write_file(const sw_evolution *e, swi_state_file file, const void *bytes,
                            size_t n, uint64_t sum)
{
    char path[SWI_EVOLUTION_PATH], head[HEAD];
    sw_file *f;
    path_of(e, file, path);
    SW_TRY(sw_file_open(&f, path, SW_FILE_WRITE));
    sw_status status = sw_file_write(f, head, head_of(head, file, n, sum));
    if (status == SW_OK)
        status = sw_file_write(f, bytes, n);
    const sw_status closed = sw_file_close(f);
    return status == SW_OK ? closed : status;
}

/* Every byte of it must be the one that was written. */
static sw_status read_open(sw_file *f, swi_state_file file, void *to, size_t n, uint64_t sum)
{
    char head[HEAD], found[HEAD];
    const size_t begin = head_of(head, file, n, sum);
    uint64_t size;
    size_t got = 0, got_head = 0;
    SW_TRY(sw_file_size(f, &size));
    SW_TRY(sw_file_read(f, found, begin, &got_head));
    SW_TRY(sw_file_read(f, to, n, &got));
    if (size != begin + n)
        SW_FAIL(SW_FORMAT, "%s: has %llu bytes, and %zu were written", sw_file_path(f),
                (unsigned long long)size, begin + n);
    if (got_head != begin || memcmp(head, found, begin) != 0 || got != n ||
        swi_sum_of(to, n, 0) != sum)
        SW_FAIL(SW_FORMAT, "%s is damaged: its bytes are not those that were written",
                sw_file_path(f));
    return SW_OK;
}

static sw_status read_file(const sw_evolution *e, swi_state_file file, void *to, size_t n,
                           uint64_t sum)
{
    char path[SWI_EVOLUTION_PATH];
    sw_file *f;
    path_of(e, file, path);
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = read_open(f, file, to, n, sum);
    sw_file_drop(f);
    return status;
}

/* ---- two generations of files ------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const swi_state_file *x = a, *y = b;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->what - y->what;
}

void swi_states_note(sw_evolution *e, const swi_one *members, const swi_one *best)
{
    swi_states *s = &e->states[0], older = e->states[1];
    e->states[1] = *s;
    *s = older;
    s->n = 0;
    for (uint32_t i = 0; i < e->opts.population; i++)
        s->all[s->n++] = (swi_state_file){members[i].id, members[i].rest.generation, MEMBER};
    for (int what = BEST; best != NULL && what <= SPARE; what += SPARE)
        s->all[s->n++] = (swi_state_file){best->id, best->rest.generation, what};
    qsort(s->all, s->n, sizeof *s->all, by_name);
}

/* WHAT-ID-GENERATION.state, and nothing else. */
static bool is_state(const char *name, swi_state_file *out)
{
    for (int what = 0; what < WHATS; what++) {
        const size_t n = strlen(whats[what]);
        char *end;
        if (strncmp(name, whats[what], n) != 0 || name[n] != '-' || name[n + 1] < '0' ||
            name[n + 1] > '9')
            continue;
        out->what = what;
        out->id = strtoull(name + n + 1, &end, 10);
        if (*end != '-' || end[1] < '0' || end[1] > '9')
            return false;
        out->generation = strtoull(end + 1, &end, 10);
        return strcmp(end, ".state") == 0;
    }
    return false;
}

static bool is_needed(const sw_evolution *e, const swi_state_file *file)
{
    for (int i = 0; i < 2; i++) {
        const swi_states *s = &e->states[i];
        if (s->n > 0 && bsearch(file, s->all, s->n, sizeof *s->all, by_name) != NULL)
            return true;
    }
    return file->what == PAUSED && e->phase != SWI_PHASE_NEW;
}

static bool sweep_one(void *context, const char *name)
{
    const sw_evolution *e = context;
    char path[SWI_EVOLUTION_PATH];
    swi_state_file file;
    if (is_state(name, &file) && !is_needed(e, &file)) {
        path_of(e, file, path);
        (void)!sw_file_remove(path);
    }
    return true;
}

void swi_states_sweep(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "members", path);
    (void)!sw_folder_for_each(path, sweep_one, e);
}

sw_status swi_states_open(const sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "members", path);
    return sw_folder_make(path);
}

/* ---- to rest ----------------------------------------------------------------------------- */

sw_status swi_rest_begin(sw_evolution *e, swi_one *one, unsigned char *scratch,
                         unsigned char **out)
{
    const size_t bytes = one->need.member;
    if (e->opts.dir != NULL) {
        *out = scratch;
        return SW_OK;
    }
    if (one->rest.block != NULL && one->rest.bytes != bytes) {
        swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
        one->rest = (swi_rest){.there = false};
    }
    if (one->rest.block == NULL) {
        SW_TRY(swi_charged_take(e, &one->rest.block, bytes, &e->rest_bytes));
        one->rest.bytes = bytes;
    }
    *out = one->rest.block;
    return SW_OK;
}

sw_status swi_rest_end(sw_evolution *e, swi_one *one, const unsigned char *bytes,
                       uint64_t generation)
{
    const size_t n = one->need.member;
    if (e->opts.dir != NULL) {
        swi_state_file file = file_of(e, one, generation);
        one->rest.sum = swi_sum_of(bytes, n, 0);
        SW_TRY(write_file(e, file, bytes, n, one->rest.sum));
        file.what = SPARE;
        if (one == &e->best)
            SW_TRY(write_file(e, file, bytes, n, one->rest.sum));
    }
    one->rest.bytes = n;
    one->rest.generation = generation;
    one->rest.there = true;
    return SW_OK;
}

sw_status swi_one_store(sw_evolution *e, swi_one *one, uint64_t generation)
{
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    unsigned char *to = NULL;
    if (e->opts.dir == NULL) {
        SW_TRY(swi_rest_begin(e, one, NULL, &to));
        memcpy(to, range, one->need.member);
    }
    return swi_rest_end(e, one, range, generation);
}

/* Keep a copy of a resident state as that of the best. */
static sw_status best_store(sw_evolution *e, const swi_one *one)
{
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    unsigned char *to = NULL;
    e->best.id = one->id;
    e->best.need = one->need;
    if (e->opts.dir == NULL) {
        SW_TRY(swi_rest_begin(e, &e->best, NULL, &to));
        memcpy(to, range, one->need.member);
    }
    return swi_rest_end(e, &e->best, range, e->generation);
}

/* Without files the block that it began with takes the bytes: it is not needed any more. */
sw_status swi_one_pause(sw_evolution *e, swi_one *one)
{
    const size_t n = one->need.member;
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    if (e->opts.dir == NULL) {
        memcpy(one->rest.block, range, n);
    } else {
        one->pause_sum = swi_sum_of(range, n, 0);
        SW_TRY(write_file(e, pause_of(one), range, n, one->pause_sum));
    }
    sw_member_end(one->member);
    one->member = (sw_member){.of = NULL};
    return SW_OK;
}

/* ---- and back ---------------------------------------------------------------------------- */

sw_status swi_rest_read(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    swi_state_file file = file_of(e, one, one->rest.generation);
    if (e->opts.dir == NULL) {
        memcpy(to, one->rest.block, one->rest.bytes);
        return SW_OK;
    }
    const sw_status status = read_file(e, file, to, one->need.member, one->rest.sum);
    if (one != &e->best || status == SW_OK)
        return status;
    file.what = SPARE;
    return read_file(e, file, to, one->need.member, one->rest.sum);
}

sw_status swi_best_mend(const sw_evolution *e, unsigned char *scratch, char *why, size_t room)
{
    const size_t n = e->best.need.member;
    const uint64_t sum = e->best.rest.sum;
    swi_state_file file = file_of(e, &e->best, e->best.rest.generation), other = file;
    other.what = SPARE;
    for (int k = 0; k < 2; k++) {
        const sw_status status = read_file(e, file, scratch, n, sum);
        if (status != SW_OK) {
            (void)snprintf(why, room, "%s", sw_last_error());
            SW_TRY(read_file(e, other, scratch, n, sum));
            SW_TRY(write_file(e, file, scratch, n, sum));
        }
        other.what = file.what;
        file.what = SPARE;
    }
    return SW_OK;
}

/* A file of one that was put aside goes when it is read. */
static sw_status read_pause(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    char path[SWI_EVOLUTION_PATH];
    SW_TRY(read_file(e, pause_of(one), to, one->need.member, one->pause_sum));
    path_of(e, pause_of(one), path);
    return sw_file_remove(path);
}

/* Bring it into a range; without files its block ends. */
static sw_status one_load(sw_evolution *e, swi_one *one)
{
    SW_ASSERT(one->rest.there && one->member.of == NULL);
    SW_TRY(swi_member_claim(&one->member, one->group, swi_member_seed(e, one->id)));
    unsigned char *range = swi_member_base(one->group, one->member.index);
    const sw_status status = one->begun && e->opts.dir != NULL ? read_pause(e, one, range)
                                                               : swi_rest_read(e, one, range);
    if (status != SW_OK) {
        sw_member_end(one->member);
        one->member = (sw_member){.of = NULL};
        return status;
    }
    swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
    one->rest.block = NULL;
    one->rest.there = e->opts.dir != NULL;
    swi_evolution_note_peak(e);
    return sw_member_progress_set(one->member, one->steps, one->begun ? one->made : 0);
}

sw_status swi_one_bytes(sw_evolution *e, const swi_one *one, unsigned char *scratch,
                        const unsigned char **out)
{
    if (one->member.of != NULL && !one->kept) {
        *out = swi_member_base(one->group, one->member.index);
        return SW_OK;
    }
    if (e->opts.dir == NULL) {
        *out = one->rest.block;
        return SW_OK;
    }
    SW_TRY(swi_rest_read(e, one, scratch));
    *out = scratch;
    return SW_OK;
}

/* Waves of a generation: the residents, then those that rest, as many at a time as there are
 * lanes; and before them those that go on, while children are made. */

/* Its counts of a generation are 0. */
static void one_begin_generation(const sw_evolution *e, swi_one *one)
{
    const uint64_t steps = e->opts.samples / (uint64_t)one->genome->batch;
    one->assigned = steps > 0 ? steps : 1;
    one->counted_from = (uint64_t)ceil(e->fitness.drop * (double)one->assigned);
    if (one->counted_from >= one->assigned)
        one->counted_from = one->assigned - 1;
    one->made = one->counted = one->eval_made = one->ns = 0;
    one->loss_sum = one->accuracy_sum = one->eval_loss = one->eval_right = 0;
    one->slow = 0;
    one->ended = false;
}

static void begin_wave(sw_evolution *e)
{
    e->cursor = 0;
    e->wave_ns = 0;
}

static sw_status add_to_wave(sw_evolution *e, uint32_t i)
{
    swi_one *one = &e->members[i];
    if (one->member.of == NULL)
        SW_TRY(one_load(e, one));
    one->begun = false;
    e->waved[i] = true;
    e->n_waved++;
    e->wave[e->n_wave++] = i;
    return SW_OK;
}

sw_status swi_evolution_place(sw_evolution *e)
{
    SW_TRY(swi_evolution_pack(e));
    swi_evolution_use_lanes(e, e->lanes);
    e->n_wave = e->n_waved = 0;
    e->trained = e->generation;
    e->early = 0;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        e->waved[i] = false;
        if (!one->begun)
            one_begin_generation(e, one);
        if (one->resident)
            SW_TRY(add_to_wave(e, i));
    }
    begin_wave(e);
    return SW_OK;
}

sw_status swi_evolution_train_kept(sw_evolution *e)
{
    e->n_wave = 0;
    e->trained = e->generation + 1;
    for (uint32_t i = 0; i < e->opts.population; i++) {
        swi_one *one = &e->members[i];
        one->begin_steps = one->steps;
        if (!one->kept || one->member.of == NULL)
            continue;
        one_begin_generation(e, one);
        one->begun = true;
        SW_TRY(sw_member_progress_set(one->member, one->steps, 0));
        e->wave[e->n_wave++] = i;
    }
    begin_wave(e);
    return SW_OK;
}

/* As many of those that rest take their turn as there are lanes. */
static sw_status wave_next(sw_evolution *e)
{
    for (uint32_t i = 0; i < e->opts.population && e->n_wave < (uint32_t)e->lanes; i++)
        if (!e->waved[i])
            SW_TRY(add_to_wave(e, i));
    begin_wave(e);
    return SW_OK;
}

/* The worth of a generation: numbers, fitness, ranks, and the best so far. */

static void judge_one(sw_evolution *e, swi_one *one)
{
    uint32_t which;
    const double n = (double)e->opts.validation_samples;
    const uint64_t samples = one->made * (uint64_t)one->genome->batch;
    one->loss = one->invalid ? (double)NAN : one->eval_loss / n;
    one->accuracy = one->invalid ? (double)NAN : one->eval_right / n;
    one->train_accuracy =
        one->counted > 0 ? one->accuracy_sum / (double)one->counted : (double)NAN;
    one->ns_per_sample = samples > 0 ? one->ns / samples : 0;
    const sw_candidate view = swi_one_view(one);
    e->shown = view.genome;
    const bool valid =
        swi_fitness_of(&e->fitness, &view, &one->averages, one->objectives, &which);
    e->shown = NULL;
    one->fitness = valid ? one->objectives[0] : (double)NAN;
    if (valid || one->invalid)
        return;
    one->invalid = true;
    (void)snprintf(one->why, sizeof one->why, "fitness %u, %s, is no finite number", which,
                   sw_fitness_kind_name(e->fitness.terms[which].kind));
}

/* Selection rounds accuracy by default; the best is named by what it is. Who is better does not
 * depend on waves: of equals the first, and of one generation the one with the smaller id. */
static bool is_better(const sw_evolution *e, const swi_one *one, const swi_one *than)
{
    if (one->invalid || isnan(one->fitness))
        return false;
    if (than == NULL)
        return true;
    if (e->fitness.rounded && one->accuracy != than->accuracy)
        return one->accuracy > than->accuracy;
    if (one->fitness != than->fitness)
        return one->fitness > than->fitness;
    return (than != &e->best || than->rest.generation == e->generation) && one->id < than->id;
}

static sw_status become_best(sw_evolution *e, const swi_one *one)
{
    sw_genome *genome;
    swi_one *best = &e->best;
    SW_TRY(sw_genome_copy(&genome, one->genome));
    const sw_status status = best_store(e, one);
    if (status != SW_OK) {
        swi_genome_free(genome);
        return status;
    }
    const swi_rest rest = best->rest;
    swi_genome_free(best->genome);
    *best = *one;
    best->genome = genome;
    best->net = NULL;
    best->group = NULL;
    best->member = (sw_member){.of = NULL};
    best->train = best->eval = NULL;
    best->ops = NULL;
    best->ops_bytes = best->ops_cap = 0;
    best->rest = rest;
    e->has_best = true;
    return SW_OK;
}

sw_status swi_evolution_judge(sw_evolution *e)
{
    const size_t n = e->opts.population;
    const size_t bytes = n * ((SWI_MAX_OBJECTIVES + 1) * sizeof(double) + sizeof(uint32_t));
    double *objectives;
    SW_TRY(sw_heap_alloc(&objectives, SW_HEAP_RECORDS, bytes));
    double *order = objectives + n * SWI_MAX_OBJECTIVES;
    uint32_t *ranks = (uint32_t *)(void *)(order + n);
    for (size_t i = 0; i < n; i++)
        memcpy(objectives + i * SWI_MAX_OBJECTIVES, e->members[i].objectives,
               sizeof e->members[i].objectives);
    const sw_status status = swi_fitness_order(&e->fitness, objectives, n, order, ranks);
    if (status == SW_OK) {
        for (uint32_t j = 0; j < e->opts.population; j++) {
            e->members[j].order = order[j];
            e->members[j].rank = ranks[j];
        }
    }
    sw_heap_free(objectives, SW_HEAP_RECORDS, bytes);
    return status == SW_OK ? swi_evolution_log_write(e) : status;
}

/* Operations of a call for each lane, and of one member in it: some ten milliseconds and half a
 * one, at ten operations a nanosecond. A step that has more is a call by itself. */
#define CALL_OPERATIONS 100000000u
#define MEMBER_OPERATIONS 5000000u
#define MEMBERS_OF_A_LANE 4 /* at least, so that lanes end a call at about the same time */

/* ---- one call ---------------------------------------------------------------------------- */

/* Steps in a row: one of variant 1, or those up to the next one; not across where counting
 * begins. */
static uint32_t steps_in_a_row(const swi_one *one)
{
    const uint64_t operations = one->price.operations > 0 ? one->price.operations : 1;
    const uint64_t turn = one->made % SWI_UTILITY_STEPS;
    uint64_t n = one->assigned - one->made;
    if (turn == 0)
        return 1;
    n = n < SWI_UTILITY_STEPS - turn ? n : SWI_UTILITY_STEPS - turn;
    if (one->made < one->counted_from && one->counted_from - one->made < n)
        n = one->counted_from - one->made;
    const uint64_t quick = MEMBER_OPERATIONS / operations;
    n = n < quick ? n : quick;
    return n > 0 ? (uint32_t)n : 1;
}

static sw_members_args train_args(const sw_evolution *e, const swi_one *one,
                                  uint64_t generation)
{
    return SW_OPTS(sw_members_args, .members = &one->member, .n = 1, .mode = SW_TRAIN,
                   .variant = one->made % SWI_UTILITY_STEPS == 0, .feed = one->train,
                   .same_data = 1, .data_seed = swi_draw_seed(e->opts.seed, generation),
                   .own_steps = 1, .steps = steps_in_a_row(one));
}

static sw_members_args eval_args(const swi_one *one)
{
    return SW_OPTS(sw_members_args, .members = &one->member, .n = 1, .mode = SW_EVAL,
                   .feed = one->eval, .same_data = 1, .step = one->eval_made, .steps = 1);
}

/* Members in turn from the cursor on, at most so many; how many. */
static uint32_t choose(sw_evolution *e, bool train, uint32_t members)
{
    const uint64_t most = (uint64_t)CALL_OPERATIONS * (uint64_t)e->lanes;
    uint64_t operations = 0;
    uint32_t n = 0;
    const uint32_t least = MEMBERS_OF_A_LANE * (uint32_t)e->lanes;
    for (uint32_t k = 0; k < e->n_wave && n < members; k++) {
        if (operations >= most && (n >= least || e->lanes == 1))
            break;
        const uint32_t i = e->wave[e->cursor % e->n_wave];
        const swi_one *one = &e->members[i];
        e->cursor = (e->cursor + 1) % e->n_wave;
        if (!(train ? !one->ended && !one->invalid && one->made < one->assigned
                    : !one->invalid && one->eval_made < one->eval_all))
            continue;
        e->call_groups[n] = one->group;
        e->call_args[n] = train ? train_args(e, one, e->trained) : eval_args(one);
        e->call_of[n++] = i;
        operations += one->price.operations * (train ? e->call_args[n - 1].steps : 1);
    }
    return n;
}

static sw_status run(sw_evolution *e, uint32_t n, uint64_t *took)
{
    const uint64_t begin = sw_clock_ns();
    const uint64_t gap = e->last_end > 0 ? begin - e->last_end : 0;
    e->longest_gap = gap > e->longest_gap ? gap : e->longest_gap;
    SW_TRY(sw_members_run_all(e->call_groups, e->call_args, n));
    e->last_end = sw_clock_ns();
    *took = e->last_end - begin;
    swi_evolution_note_peak(e);
    return SW_OK;
}

/* ---- what came of it --------------------------------------------------------------------- */

static void invalidate(swi_one *one, const char *what, double x)
{
    one->invalid = true;
    (void)snprintf(one->why, sizeof one->why, "%s became %g in step %llu", what, x,
                   (unsigned long long)one->steps);
}

/* A member whose run failed is invalid. */
static sw_status ended(swi_one *one)
{
    sw_status status;
    SW_TRY(sw_members_status(one->group, &status, 1));
    one->invalid = status != SW_OK;
    if (one->invalid)
        (void)snprintf(one->why, sizeof one->why, "a step ended with %s: %s",
                       sw_status_name(status), sw_last_note());
    return SW_OK;
}

/* The most that its launches were given, in any lane: range, batch and step. */
static void measure(swi_one *one, const sw_feed *feed)
{
    const sw_members *m = one->group;
    size_t reached = 0;
    for (int k = 0; k < 2; k++)
        for (int lane = 0; lane < m->lanes->n; lane++) {
            const swi_frame *f = m->programs[m->run.program[k]].frame[lane];
            reached = f->reached > reached ? f->reached : reached;
        }
    const size_t bytes = m->stride + reached + feed->bytes;
    one->measured = bytes > one->measured ? bytes : one->measured;
}

static void judge_time(const sw_evolution *e, swi_one *one, uint64_t ns, uint32_t steps)
{
    one->ns += ns;
    if (e->opts.step_ns == 0)
        return;
    one->slow = ns / steps > e->opts.step_ns ? one->slow + steps : 0;
    one->ended |= one->slow >= e->opts.patience;
}

static sw_status take_training(sw_evolution *e, swi_one *one, uint32_t steps)
{
    double loss, accuracy;
    SW_TRY(ended(one));
    if (one->invalid)
        return SW_OK;
    SW_TRY(sw_members_mean(one->group, "loss", &loss, 1));
    SW_TRY(sw_members_mean(one->group, "accuracy", &accuracy, 1));
    measure(one, one->train);
    if (one->made >= one->counted_from) {
        one->accuracy_sum += accuracy * steps;
        one->counted += steps;
    }
    one->loss_sum += loss * steps;
    one->made += steps;
    one->steps += steps;
    e->steps += steps;
    judge_time(e, one, one->group->slots[one->member.index].ns, steps);
    if (!isfinite(loss))
        invalidate(one, "the loss of training", loss);
    return SW_OK;
}

/* Shares of a batch times its rows: right answers are whole numbers. */
static sw_status take_evaluation(swi_one *one)
{
    double loss, accuracy;
    SW_TRY(ended(one));
    if (one->invalid)
        return SW_OK;
    SW_TRY(sw_members_metric(one->group, "loss", &loss, 1));
    SW_TRY(sw_members_metric(one->group, "accuracy", &accuracy, 1));
    const double rows = (double)swi_feed_rows(one->eval, one->eval_made);
    measure(one, one->eval);
    one->eval_loss += loss * rows;
    one->eval_right += rint(accuracy * rows);
    one->eval_made++;
    if (!isfinite(loss))
        invalidate(one, "the loss of evaluation", loss);
    return SW_OK;
}

static sw_status run_training(sw_evolution *e, uint32_t n)
{
    uint64_t took = 0;
    SW_TRY(run(e, n, &took));
    for (uint32_t k = 0; k < n; k++)
        SW_TRY(take_training(e, &e->members[e->call_of[k]], e->call_args[k].steps));
    e->wave_ns += took;
    if (e->opts.generation_ns == 0)
        return SW_OK;
    /* A wave has its share of the time. */
    const double share = (double)e->n_wave / e->opts.population;
    if ((double)e->wave_ns >= share * (double)e->opts.generation_ns)
        for (uint32_t k = 0; k < e->n_wave; k++)
            e->members[e->wave[k]].ended = true;
    return SW_OK;
}

sw_status swi_evolution_run_kept(sw_evolution *e)
{
    const uint64_t before = e->steps;
    const uint32_t n = choose(e, true, 1); /* so that there is something for each child */
    if (n > 0)
        SW_TRY(run_training(e, n));
    e->early += e->steps - before;
    return SW_OK;
}

sw_status swi_evolution_run(sw_evolution *e, bool *ended)
{
    uint32_t n = choose(e, true, e->n_wave);
    *ended = false;
    if (n > 0)
        return run_training(e, n);
    n = choose(e, false, e->n_wave);
    if (n > 0) {
        uint64_t took = 0;
        SW_TRY(run(e, n, &took));
        for (uint32_t k = 0; k < n; k++)
            SW_TRY(take_evaluation(&e->members[e->call_of[k]]));
        return SW_OK;
    }
    /* Numbers and fitness of those of the wave, and the best with a copy of its state. */
    const swi_one *best = e->has_best ? &e->best : NULL;
    for (uint32_t k = 0; k < e->n_wave; k++) {
        swi_one *one = &e->members[e->wave[k]];
        judge_one(e, one);
        best = is_better(e, one, best) ? one : best;
    }
    SW_TRY(best != NULL && best != &e->best ? become_best(e, best) : SW_OK);
    /* Those that do not stay rest again, as they are now: as at the begin of the next one. */
    for (uint32_t j = 0; j < e->n_wave; j++) {
        swi_one *one = &e->members[e->wave[j]];
        if (one->resident)
            continue;
        SW_TRY(swi_one_store(e, one, e->generation + 1));
        sw_member_end(one->member);
        one->member = (sw_member){.of = NULL};
    }
    e->n_wave = 0;

    *ended = e->n_waved == e->opts.population;
    return *ended ? SW_OK : wave_next(e);
}
