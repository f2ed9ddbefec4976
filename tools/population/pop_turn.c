/* Turns: members run to the time that the decisions name, are scored, report, and copy each
 * other. At the end the best one is tested. */
#include "alloc/base/mem.h"
#include "profiler/record/json.h"
#include "runtime/population/members_internal.h"
#include "tools/job/result.h"
#include "tools/population/population.h"
#include "tools/train/train.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LAST_STEPS 8   /* whose mean loss is noted */
#define SLICE_NS 300e6 /* a call of the library takes about so long: Ctrl-C waits for one */

/* ---- running ----------------------------------------------------------------------------- */

/* Arguments of the groups of one call, and which members they are. */
typedef struct {
    sw_members **groups, **now_groups; /* now: of a piece */
    sw_members_args *args, *now;
    int *shape;
    size_t n, cap;
} calls;

static size_t calls_bytes(size_t cap)
{
    return cap * (2 * (sizeof(sw_members_args) + sizeof(void *)) + sizeof(int));
}

static sw_status calls_new(calls *c, const pop *p)
{
    void *block;
    const size_t cap = (size_t)p->n_shapes;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, calls_bytes(cap)));
    *c = (calls){.args = block, .cap = cap};
    c->now = c->args + cap;
    c->groups = (sw_members **)(void *)(c->now + cap);
    c->now_groups = c->groups + cap;
    c->shape = (int *)(c->now_groups + cap);
    return SW_OK;
}

static void calls_free(calls *c)
{
    sw_heap_free(c->args, SW_HEAP_RECORDS, calls_bytes(c->cap));
}

/* Of the next call, by what the last one took. */
static void next_piece(uint64_t *steps, uint64_t took)
{
    if ((double)took * 2.0 < SLICE_NS && *steps < 1 << 20)
        *steps *= 2;
    else if ((double)took > SLICE_NS * 2.0 && *steps > 1)
        *steps /= 2;
}

static uint64_t left_of(const pop_member *m)
{
    return m->target > m->steps ? m->target - m->steps : 0;
}

/* Steps of the next call for the members of a shape, 0 where all are done; *tail: for those
 * alone that have so many left. Up to the last steps before the target by as many as the clock
 * lets; the last steps are one call, whose mean loss is then the same whatever interrupted. */
static uint64_t next_steps(const pop *p, int shape, const int *members, int n, uint64_t most,
                           bool *tail)
{
    uint64_t body = 0, last = 0;
    for (int i = 0; i < n; i++) {
        const pop_member *m = &p->members[members[i]];
        const uint64_t left = m->shape == shape && !m->failed ? left_of(m) : 0;
        if (left > LAST_STEPS && (body == 0 || left - LAST_STEPS < body))
            body = left - LAST_STEPS;
        else if (left <= LAST_STEPS && left > last)
            last = left;
    }
    *tail = body == 0;
    return *tail ? last : body < most ? body : most;
}

static bool has_part(const pop_member *m, int shape, bool tail, uint64_t steps)
{
    if (m->shape != shape || m->failed)
        return false;
    return tail ? left_of(m) == steps : left_of(m) > LAST_STEPS;
}

/* Members of each shape lie together in p->list, those of p->order in the same order. In
 * training those that have steps to make; all of a shape make as many. */
static void gather(pop *p, calls *c, const int *members, int n, pop_part part, uint64_t most)
{
    size_t at = 0;
    c->n = 0;
    for (int s = 0; s < p->n_shapes; s++) {
        const size_t first = at;
        bool tail = false;
        const uint64_t steps =
            part == POP_TRAIN ? next_steps(p, s, members, n, most, &tail) : most;
        for (int i = 0; i < n; i++) {
            const pop_member *m = &p->members[members[i]];
            if (part == POP_TRAIN ? steps == 0 || !has_part(m, s, tail, steps)
                                  : m->shape != s || m->failed)
                continue;
            p->order[at] = members[i];
            p->list[at++] = m->member;
        }
        if (at == first)
            continue;
        sw_members_args a = pop_args(p->shapes[s], part);
        a.members = p->list + first;
        a.n = at - first;
        a.steps = (uint32_t)steps;
        a.same_data = p->opts.same_data;
        a.data_seed = (uint64_t)p->opts.job.seed;
        c->groups[c->n] = p->shapes[s]->group;
        c->shape[c->n] = s;
        c->args[c->n++] = a;
    }
}

/* A member with too many skipped updates has diverged: it waits for its turn, where it is the
 * worst. Whatever else fails a member ends it. */
static sw_status note_failure(pop *p, int k, sw_status status)
{
    pop_member *m = &p->members[k];
    if (status == SW_INVALID) {
        m->diverged = true;
        m->steps = m->target;
        uint64_t batches;
        SW_TRY(sw_member_progress(m->member, NULL, &batches));
        return sw_member_progress_set(m->member, m->steps, batches);
    }
    m->failed = true;
    return SW_OK;
}

/* Which members have failed in the piece that was run, and why. */
static sw_status look_at_failures(pop *p, const calls *c, size_t i)
{
    const sw_members_args *a = &c->args[i];
    const size_t first = (size_t)(a->members - p->list);
    sw_status *was = p->ended + p->n_members; /* room for as many again */
    memcpy(was, p->ended + first, a->n * sizeof *was);
    SW_TRY(sw_members_status(c->groups[i], p->ended + first, a->n));
    for (size_t k = 0; k < a->n; k++) {
        pop_member *m = &p->members[p->order[first + k]];
        if (p->ended[first + k] != SW_OK && was[k] == SW_OK)
            snprintf(m->why, sizeof m->why, "%.190s", sw_last_note());
    }
    return SW_OK;
}

/* The groups of a call. Other ranks hear of this one in between: it is then made in pieces, of
 * as many steps as the clock lets, with the same bits. */
static sw_status run_calls(pop *p, calls *c)
{
    uint64_t most = 0;
    for (size_t i = 0; i < c->n; i++) {
        const sw_members_args *a = &c->args[i];
        most = a->steps > most ? a->steps : most;
        for (size_t k = 0; k < a->n; k++)
            p->ended[(size_t)(a->members - p->list) + k] = SW_OK;
    }
    for (uint64_t made = 0, piece; made < most; made += piece) {
        const uint64_t start = cli_clock_ns();
        size_t n = 0;
        piece = p->ranks == NULL ? most : p->piece;
        for (size_t i = 0; i < c->n; i++) {
            if (c->args[i].steps <= made)
                continue;
            sw_members_args a = c->args[i];
            a.step += made;
            a.steps -= (uint32_t)made;
            a.steps = a.steps < piece ? a.steps : (uint32_t)piece;
            if (made > 0)
                swi_members_go_on(c->groups[i]);
            c->now_groups[n] = c->groups[i];
            c->now[n++] = a;
        }
        SW_TRY(sw_members_run_all(c->now_groups, c->now, n));
        SW_TRY(swi_ranks_alive(p->ranks));
        for (size_t i = 0; i < c->n; i++)
            if (c->args[i].steps > made)
                SW_TRY(look_at_failures(p, c, i));
        next_piece(&p->piece, cli_clock_ns() - start);
    }
    return SW_OK;
}

static sw_status read_call(pop *p, const calls *c, size_t i)
{
    const sw_members_args *a = &c->args[i];
    const size_t first = (size_t)(a->members - p->list);
    SW_TRY(sw_members_mean(c->groups[i], "loss", p->values + first, a->n));
    for (size_t k = first; k < first + a->n; k++) {
        pop_member *m = &p->members[p->order[k]];
        if (p->ended[k] != SW_OK) {
            SW_TRY(note_failure(p, p->order[k], p->ended[k]));
            continue;
        }
        if (a->mode == SW_TRAIN) {
            m->steps += a->steps;
            m->score.train_loss = p->values[k];
            p->member_steps += a->steps;
            p->own_steps += a->steps;
        }
    }
    return SW_OK;
}

static sw_status set_rates(pop *p, const int *members, int n)
{
    for (int i = 0; i < n; i++) {
        float rate;
        SW_TRY(sw_schedule_at(&p->schedule, p->members[members[i]].steps, &rate));
        if (p->members[members[i]].member.of != NULL)
            SW_TRY(pop_set_rate(p, members[i], rate));
    }
    return SW_OK;
}

static sw_status pop_advance(pop *p, const int *members, int n)
{
    calls c;
    uint64_t slice = 1;
    sw_status status = SW_OK;
    SW_TRY(calls_new(&c, p));
    while (status == SW_OK && !cli_interrupted()) {
        const uint64_t start = cli_clock_ns();
        gather(p, &c, members, n, POP_TRAIN, p->scheduled ? 1 : slice);
        if (c.n == 0)
            break;
        status = p->scheduled ? set_rates(p, members, n) : SW_OK;
        if (status == SW_OK)
            status = run_calls(p, &c);
        for (size_t i = 0; i < c.n && status == SW_OK; i++)
            status = read_call(p, &c, i);
        const uint64_t took = cli_clock_ns() - start;
        if (p->independent && p->times.ns != NULL)
            cli_times_add(&p->times, took / c.args[0].steps);
        next_piece(&slice, took);
    }
    calls_free(&c);
    return status;
}

/* ---- scores ------------------------------------------------------------------------------ */

/* Adds `share` of the metrics of a call to the scores. */
static sw_status add_scores(pop *p, const calls *c, size_t i, double share)
{
    const sw_members_args *a = &c->args[i];
    const size_t first = (size_t)(a->members - p->list);
    SW_TRY(read_call(p, c, i)); /* the loss is in p->values */
    for (size_t k = first; k < first + a->n; k++)
        p->members[p->order[k]].score.loss += share * p->values[k];
    if (!p->classes)
        return SW_OK;
    SW_TRY(sw_members_mean(c->groups[i], "accuracy", p->values + first, a->n));
    for (size_t k = first; k < first + a->n; k++)
        p->members[p->order[k]].score.accuracy += share * p->values[k];
    return SW_OK;
}

/* Full batches of a part, or the smaller one at its end. */
static sw_status run_batches(pop *p, calls *c, const int *members, int n, pop_part part,
                             bool last)
{
    const job_data *data = p->part[part];
    sw_status status = SW_OK;
    gather(p, c, members, n, part, 1);
    size_t used = 0;
    for (size_t i = 0; i < c->n; i++) {
        const pop_shape *s = p->shapes[c->shape[i]];
        const int64_t rows = job_slot_rows(data, s->config.batch);
        const int64_t full = data->n / rows;
        sw_members_args a = c->args[i];
        a.steps = last ? 1 : (uint32_t)full;
        a.step = last ? (uint64_t)full : 0;
        if (last && data->n % rows == 0)
            continue;
        c->groups[used] = c->groups[i];
        c->shape[used] = c->shape[i];
        c->args[used++] = a;
    }
    c->n = used;
    if (used == 0)
        return SW_OK;
    status = run_calls(p, c);
    for (size_t i = 0; i < c->n && status == SW_OK; i++) {
        const int64_t rows = job_slot_rows(data, p->shapes[c->shape[i]]->config.batch);
        const int64_t of = last ? data->n % rows : data->n / rows * rows;
        status = add_scores(p, c, i, (double)of / (double)data->n);
    }
    return status;
}

/* A share of what was asked is whole again: batches of other sizes round otherwise. */
static double whole(const job_data *data, double share)
{
    const sw_shape *target = &data->info.field[1].shape;
    double n = (double)data->n;
    for (int i = 0; i < target->rank; i++)
        n *= (double)target->dim[i];
    return round(share * n) / n;
}

/* Losses and accuracies over a part. */
static sw_status measure(pop *p, const int *members, int n, pop_part part)
{
    calls c;
    for (int i = 0; i < n; i++) {
        p->members[members[i]].score.loss = 0.0;
        p->members[members[i]].score.accuracy = 0.0;
    }
    SW_TRY(calls_new(&c, p));
    sw_status status = run_batches(p, &c, members, n, part, false);
    if (status == SW_OK)
        status = run_batches(p, &c, members, n, part, true);
    calls_free(&c);
    for (int i = 0; i < n; i++) {
        pop_score *s = &p->members[members[i]].score;
        s->accuracy = whole(p->part[part], s->accuracy);
    }
    return status;
}

/* Scores, by the validation part. */
static sw_status pop_score_all(pop *p, const int *members, int n)
{
    const sw_status status = measure(p, members, n, POP_VALIDATION);
    for (int i = 0; i < n; i++) {
        pop_member *m = &p->members[members[i]];
        pop_score *s = &m->score;
        const double worst = p->minimize ? DBL_MAX : -DBL_MAX;
        s->step = m->steps;
        s->score = p->by_loss ? s->loss : s->accuracy;
        if (m->diverged || m->failed || !isfinite(s->loss))
            s->score = worst;
    }
    return status;
}

/* Where it waits the others leave, so that it takes no more than a member of a turn. */
sw_status pop_test_best(pop *p)
{
    const uint64_t start = cli_clock_ns();
    const int best = pop_best(p);
    if (p->independent || best < 0 || pop_stopped(p))
        return SW_OK;
    if (pop_is_mine(p, best)) {
        pop_member *m = &p->members[best];
        for (int k = 0; k < p->n_members && m->member.of == NULL; k++)
            SW_TRY(pop_pause(p, k));
        SW_TRY(pop_bring(p, best));
        const pop_score score = m->score;
        const sw_status status = measure(p, &best, 1, POP_TEST);
        p->test = m->score;
        m->score = score;
        SW_TRY(status);
    }
    SW_TRY(swi_ranks_copy(p->ranks, pop_owner(p, best), 0, &p->test, sizeof p->test));
    p->tested = true;
    p->test_ns = cli_clock_ns() - start;
    return pop_measure(p);
}

/* ---- waves ------------------------------------------------------------------------------- */

static sw_status wave(pop *p, const int *members, int n)
{
    const uint64_t start = cli_clock_ns();
    SW_TRY(pop_advance(p, members, n));
    const uint64_t between = cli_clock_ns();
    p->train_ns += between - start;
    if (cli_interrupted())
        return SW_OK;
    SW_TRY(pop_score_all(p, members, n));
    p->score_ns += cli_clock_ns() - between;
    return SW_OK;
}

/* First all that stay, then those that wait, as many at a time as there are lanes. */
static sw_status run_turn(pop *p, int *turn, int n)
{
    int some[256], n_stay = 0;
    int *stay = turn + n; /* room for as many again */
    for (int i = 0; i < n; i++)
        if (p->members[turn[i]].stays)
            stay[n_stay++] = turn[i];
    if (n_stay > 0)
        SW_TRY(wave(p, stay, n_stay));
    for (int i = 0; i < n && !cli_interrupted();) {
        int k = 0;
        for (; i < n && k < p->memory.packing.threads; i++)
            if (!p->members[turn[i]].stays)
                some[k++] = turn[i];
        for (int j = 0; j < k; j++)
            SW_TRY(pop_bring(p, some[j]));
        if (k > 0)
            SW_TRY(wave(p, some, k));
        for (int j = 0; j < k; j++)
            SW_TRY(pop_pause(p, some[j]));
    }
    return SW_OK;
}

/* ---- decisions --------------------------------------------------------------------------- */

static void take_form(const pop *p, const pop_config *config, double *values)
{
    for (int i = 0; i < p->n_hypers; i++) {
        const pop_hyper *h = &p->hyper[i];
        if (h->kind == POP_BATCH)
            values[i] = (double)config->batch;
        else if (h->kind == POP_WIDTH)
            values[i] = (double)config->hidden.at[h->layer > 0 ? h->layer : 0];
    }
}

/* An explored shape that does not fit: the donor's stays, or the batch is halved. A value
 * outside of the space (a batch that is no choice, say) gives way to the donor's too. */
sw_status pop_explored(int member, const double *donors, double *values, int n, void *user)
{
    pop *p = user;
    bool changed, fits;
    pop_config config = pop_config_of(p, values);
    const pop_config asked = config, before = pop_config_of(p, donors);
    if (!pop_changes_config(p))
        return SW_OK;
    SW_TRY(pop_fit(p, &config, &changed, &fits));
    if (fits && !changed) {
        /* The cost of another shape, before it is taken. */
        size_t was[2], is[2];
        if (p->opts.quiet || memcmp(&before, &config, sizeof *&config) == 0)
            return SW_OK;
        SW_TRY(pop_config_bytes(p, &before, &was[0], &was[1]));
        SW_TRY(pop_config_bytes(p, &config, &is[0], &is[1]));
        cli_note("member %d: %s becomes %s: a member takes %zu bytes (%zu), its step and batch "
                 "%zu (%zu)",
                 member, pop_config_text(&before).text, pop_config_text(&config).text, is[0],
                 was[0], is[1], was[1]);
        return SW_OK;
    }
    p->refused++;
    if (fits)
        take_form(p, &config, values);
    for (int i = 0; i < n; i++)
        fits = fits && sw_space_has(p->space, i, values[i]);
    if (!fits) {
        config = before;
        take_form(p, &config, values);
    }
    cli_note("member %d: %s does not fit the budget; it takes %s", member,
             pop_config_text(&asked).text, pop_config_text(&config).text);
    return SW_OK;
}

static sw_status exploit(pop *p, const sw_pbt_event *e)
{
    pop_member *to = &p->members[e->member];
    SW_TRY(pop_copy(p, e->member, e->donor));
    to->steps = (uint64_t)e->donor_time;
    to->copied = e->donor + 1;
    to->diverged = false;
    pop_history_copied(p, e->member, e->donor, e->donor_time, e->donor_score);
    p->exploits++;
    if (!p->opts.quiet)
        cli_note("step %.0f: member %d (score %.5g) copies member %d (%.5g)", e->time,
                 e->member, e->score, e->donor, e->donor_score);
    return SW_OK;
}

static sw_status act(pop *p, const sw_pbt_event *e)
{
    switch (e->what) {
    case SW_PBT_KEEP:
        return pop_keep(p, e->member);
    case SW_PBT_DROP:
        pop_drop(p, e->member);
        return SW_OK;
    case SW_PBT_EXPLOIT:
        return exploit(p, e);
    case SW_PBT_STOP:
        p->members[e->member].ended = true;
        return SW_OK;
    default:
        return SW_OK;
    }
}

static sw_status act_on_all(pop *p)
{
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    for (;;) {
        SW_TRY(sw_pbt_next_event(p->pbt, &e));
        if (e.what == SW_PBT_NONE)
            return SW_OK;
        SW_TRY(act(p, &e));
    }
}

/* --save-best: its parameters, or those of the best of all. --patience: it ends. */
static sw_status judge_alone(pop *p, int k)
{
    pop_member *m = &p->members[k];
    const double loss = m->score.loss;
    const bool each = p->best_path != NULL && strstr(p->best_path, "%d") != NULL;
    if (isfinite(loss) && loss < (each ? m->best_loss : p->best_loss) && p->best_path != NULL)
        SW_TRY(pop_save_member(p, k, p->best_path));
    if (isfinite(loss)) {
        m->best_loss = loss < m->best_loss ? loss : m->best_loss;
        p->best_loss = loss < p->best_loss ? loss : p->best_loss;
    }
    if (isfinite(loss) && loss < m->mark - p->min_delta) {
        m->mark = loss;
        m->waited = 0;
    } else {
        m->waited++;
    }
    if (p->patience == 0 || m->waited < p->patience || m->ended)
        return SW_OK;
    m->ended = true;
    cli_note("member %d ends at step %" PRIu64 ": no test has been better for %" PRId64
             " in a row",
             k, m->steps, m->waited);
    return sw_pbt_leave(p->pbt, k);
}

/* In the order of their numbers, each with what follows from it. */
static sw_status report(pop *p, const int *turn, int n)
{
    const uint64_t start = cli_clock_ns();
    for (int i = 0; i < n; i++) {
        pop_member *m = &p->members[turn[i]];
        SW_TRY(pop_metrics_row(p, turn[i]));
        SW_TRY(pop_history_turn(p, turn[i]));
        if (m->failed) {
            cli_note("member %d failed at step %" PRIu64 ": %s", turn[i], m->steps, m->why);
            m->ended = true;
            SW_TRY(sw_pbt_leave(p->pbt, turn[i]));
        } else {
            SW_TRY(sw_pbt_report(p->pbt, turn[i], (double)m->steps, m->score.score));
        }
        SW_TRY(act_on_all(p));
        if (p->independent && !m->failed)
            SW_TRY(judge_alone(p, turn[i]));
    }
    p->exploit_ns += cli_clock_ns() - start;
    return SW_OK;
}

static void say_turn(const pop *p, const int *turn, int n)
{
    const int best = pop_best(p);
    if (p->opts.quiet || n == 0 || best < 0)
        return;
    cli_progress("%s", "");
    fprintf(stderr, "turn %" PRIu64 "  step %" PRIu64 "  best member %d  %s %.5f\n", p->turn,
            p->members[turn[0]].target, best, pop_metric_name(p), p->members[best].score.score);
}

/* Those of the turn that are with this rank. */
static sw_status run_own(pop *p, const int *turn, int n)
{
    int own = 0, *mine = p->turn_room;
    for (int i = 0; i < n; i++)
        if (pop_is_mine(p, turn[i]))
            mine[own++] = turn[i];
    return run_turn(p, mine, own);
}

sw_status pop_run(pop *p)
{
    void *block;
    const size_t bytes = 3 * (size_t)p->n_members * sizeof(int);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    int *turn = block, n = 0;
    double until;
    sw_status status = SW_OK;
    p->turn_room = turn + p->n_members;
    while (status == SW_OK && !pop_stopped(p)) {
        status = sw_pbt_next(p->pbt, turn, p->n_members, &n, &until);
        if (status != SW_OK || n == 0)
            break;
        for (int i = 0; i < n; i++) { /* a new turn, or the one that was interrupted */
            pop_member *m = &p->members[turn[i]];
            m->diverged &= m->steps >= (uint64_t)until;
            m->target = (uint64_t)until;
        }
        status = pop_arrange(p);
        if (status == SW_OK)
            status = run_own(p, turn, n);
        if (status == SW_OK)
            status = pop_measure(p);
        if (status == SW_OK)
            status = pop_ranks_turn(p, turn, n);
        if (status != SW_OK || pop_stopped(p))
            break;
        p->turn++;
        say_turn(p, turn, n);
        status = pop_profile_turn(p);
        if (status == SW_OK)
            status = report(p, turn, n);
        pop_shapes_sweep(p);
        if (status == SW_OK)
            status = pop_save_due(p);
    }
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}

/* ---- pop train --------------------------------------------------------------------------- */

/* stepwell train --members N: members that train side by side and learn nothing from each
 * other. The population of `stepwell pbt` without exploits: a turn is a validation. */

/* The rate is the one number that a space needs; it has one choice. */
static sw_status make_space(pop *p)
{
    static char text[64];
    const double rate = p->opts.job.lr;
    snprintf(text, sizeof text, "lr=choice:%.17g", rate);
    p->opts.hyper[0] = text;
    p->opts.n_hypers = 1;
    const sw_hyper lr =
        SW_OPTS(sw_hyper, .name = "lr", .kind = SW_CHOICE, .choices = &rate, .n_choices = 1);
    SW_TRY(sw_space_create(&p->space));
    snprintf(p->hyper[0].name, sizeof p->hyper[0].name, "lr");
    p->n_hypers = 1;
    return sw_space_add(p->space, &lr);
}

/* Once the data are there. */
int pop_train_plan(pop *p)
{
    const job_opts *o = &p->opts.job;
    const uint64_t n = (uint64_t)p->job.train.n, batch = (uint64_t)o->batch.at[0];
    const uint64_t epoch = (n + batch - 1) / batch, all = (uint64_t)p->steps_to_do;
    if ((uint64_t)o->warmup >= all)
        return cli_error(CLI_USAGE,
                         "--warmup must be below the %llu steps of this run (got %lld)",
                         (unsigned long long)all, (long long)o->warmup);
    p->opts.interval = p->validate_every > 0 ? p->validate_every : (int64_t)epoch;
    p->schedule = SW_OPTS(sw_schedule, .kind = o->schedule, .base = (float)o->lr,
                          .warmup_steps = (uint64_t)o->warmup, .total_steps = all,
                          .every = o->lr_every > 0 ? (uint64_t)o->lr_every : (all + 2) / 3,
                          .gamma = (float)o->lr_gamma, .floor = (float)o->lr_floor);
    p->scheduled = strcmp(o->schedule, "constant") != 0;
    return CLI_GO;
}

int pop_train(const train *t)
{
    static pop p; /* large */
    const train_opts *o = &t->opts;
    /* Options of train that say something about one model. */
    const char *no =
        cli_given("--profile --heap-profile --load-params --witness --process --checks "
                  "--immediate --accumulate --keep-gradients --checkpoint-pauses");
    if (no != NULL)
        return cli_error(CLI_USAGE, "%s is not supported with --members", no);
    pop_opts *to = &p.opts;
    *to = (pop_opts)SW_INIT(.job = o->job, .members = o->members, .steps = o->job.steps,
                            .epochs = o->job.epochs, .stop_score = (double)NAN, .quantile = 0.0,
                            .replaced = -1.0, .donors = -1.0, .resample = 0.0,
                            .factor = {1.0, 1.0}, .exploit = "truncation", .explore = "perturb",
                            .too_large = "refuse", .synch = true, .metric = "loss",
                            .same_data = o->same_data, .metrics = o->metrics, .save = o->save,
                            .every = o->every, .keep = o->keep, .resume = o->resume,
                            .json = o->json, .quiet = o->quiet);
    p.independent = true;
    p.best_path = o->best;
    p.patience = o->patience;
    p.min_delta = o->min_delta;
    p.job.opts = &to->job;
    p.validate_every = o->validate_every;
    p.options = t->options;
    p.n_options = t->n_options;
    snprintf(p.command, sizeof p.command, "%s", t->command);
    CLI_LIBRARY(make_space(&p), false);
    return pop_go(&p);
}

/* ---- pop replay -------------------------------------------------------------------------- */

/* --replay: one member along the schedule of a policy file. The file is a lineage: the first
 * line has who began, each further one who went on from there, from which step on and with
 * which values; so the seeds are known too, and the bits are those of the population's
 * member. */

static sw_status along(pop *p, int n)
{
    double values[POP_HYPERS], next, time;
    const int first = 0;
    for (int k = 0; k < n && !cli_interrupted(); k++) {
        int who;
        SW_TRY(sw_policy_change(p->opts.replay, p->space, k, &who, &time, values));
        /* The member goes on as `who`, with other values. */
        pop_member *m = &p->members[0];
        const pop_config config = pop_config_of(p, values);
        int shape;
        /* A schedule is kept as it is: what does not fit is no other shape. */
        pop_config its = config;
        bool changed, fits;
        SW_TRY(pop_fit(p, &its, &changed, &fits));
        if (!fits || changed)
            SW_FAIL(SW_NOMEM, "--replay %s: %s does not fit --memory-budget %zu",
                    p->opts.replay, pop_config_text(&config).text, p->opts.job.budget_bytes);

        SW_TRY(pop_pause(p, 0)); /* nothing is there before the first */
        for (int i = 0; i < p->n_hypers; i++)
            SW_TRY(sw_pbt_value_set(p->pbt, 0, i, values[i]));
        SW_TRY(pop_shape_of(p, &config, &shape));
        m->resized = m->waiting.there && m->waiting.shape != shape;
        m->shape = shape;
        m->seed = (uint64_t)p->opts.job.seed + (uint64_t)who;
        SW_TRY(pop_bring(p, 0));
        next = p->steps_to_do;
        if (k + 1 < n)
            SW_TRY(sw_policy_change(p->opts.replay, p->space, k + 1, NULL, &next, NULL));
        if (!p->opts.quiet)
            cli_note("step %.0f: the values of member %d", time, who);
        p->members[0].target = (uint64_t)(next < p->steps_to_do ? next : p->steps_to_do);
        SW_TRY(pop_advance(p, &first, 1));
        pop_shapes_sweep(p);
    }
    return cli_interrupted() ? SW_OK : pop_score_all(p, &first, 1);
}

int pop_replay(pop *p)
{
    int n;
    CLI_LIBRARY(sw_policy_changes(p->opts.replay, p->space, &n), true);
    const pop_memory *m = &p->memory;
    p->memory.packing = SW_OPTS(sw_packing, .threads = m->threads,
                                .lane_bytes = (size_t)m->threads * (m->arena + m->batch),
                                .resident = 1, .resident_bytes = m->member);
    p->memory.most_of = p->memory.packing;
    p->memory.predicted_peak = pop_least(p);
    const uint64_t start = cli_clock_ns();
    sw_status status = along(p, n);
    if (status == SW_OK)
        status = pop_test_best(p);
    p->wall_ns = cli_clock_ns() - start;
    if (status == SW_OK)
        status = pop_measure(p);
    if (status == SW_OK && !cli_interrupted())
        status = pop_save_params(p);
    CLI_LIBRARY(status, false);
    return pop_print(p, cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
}

/* ---- pop proof --------------------------------------------------------------------------- */

/* --prove: what planning every shape that the ranges can reach has found. */

static void put_config(sw_json *json, const pop *p, const char *key, const pop_config *config,
                       size_t bytes)
{
    sw_json_open(json, key, '{');
    result_put_batch(json, job_slot_rows(&p->job.train, config->batch), config->batch);
    sw_json_open(json, "hidden", '[');
    for (int i = 0; i < config->hidden.n; i++)
        sw_json_i64(json, config->hidden.at[i]);
    sw_json_end(json);
    sw_json_put_u64(json, "bytes", bytes);
    sw_json_end(json);
}

int pop_say_proof(const pop *p)
{
    const pop_memory *m = &p->memory;
    const size_t budget = p->opts.job.budget_bytes;
    sw_json json;
    if (!p->opts.json) {
        printf("%lld shape%s can be reached; the largest%s is %s: %s alone (a step %s, a batch "
               "%s, a member %s)\n",
               (long long)m->n_configs, m->n_configs > 1 ? "s" : "",
               m->n_refused > 0 ? " that fits" : "", pop_config_text(&m->largest).text,
               cli_bytes(m->largest_bytes).text, cli_bytes(m->arena).text,
               cli_bytes(m->batch).text, cli_bytes(m->member).text);
        if (budget > 0)
            printf("with %d thread%s no explore takes more than %s of the %s bytes of the "
                   "budget; what is left is for members that stay\n",
                   m->threads, m->threads > 1 ? "s" : "", cli_digits(pop_least(p)).text,
                   cli_digits(budget).text);
        if (m->n_refused > 0)
            printf(
                "%lld shape%s not fit, the first %s: %s bytes alone. An explore that asks for "
                "one is %s\n",
                (long long)m->n_refused, m->n_refused > 1 ? "s do" : " does",
                pop_config_text(&m->first_refused).text,
                cli_digits(m->first_refused_bytes).text,
                (strcmp(p->opts.too_large, "batch") == 0) ? "given half the batch until it fits"
                                                          : "refused: the donor's shape stays");
        return cli_finish(CLI_DONE);
    }
    result_json_begin(&json);
    SW_JSON_PUT(&json, &p->opts.job, model, data);
    sw_json_put_i64(&json, "shapes", m->n_configs);
    sw_json_put_i64(&json, "shapes_refused", m->n_refused);
    put_config(&json, p, "largest", &m->largest, m->largest_bytes);
    if (m->n_refused > 0)
        put_config(&json, p, "first_refused", &m->first_refused, m->first_refused_bytes);
    else
        sw_json_put_null(&json, "first_refused");
    sw_json_put_string(&json, "too_large", p->opts.too_large);
    sw_json_put_i64(&json, "threads", m->threads);
    sw_json_put_u64(&json, "arena_bytes", m->arena);
    sw_json_put_u64(&json, "batch_bytes", m->batch);
    sw_json_put_u64(&json, "member_bytes", m->member);
    sw_json_put_u64(&json, "explore_bytes", pop_least(p));
    sw_json_put_known(&json, "budget_bytes", budget > 0, budget);
    return result_json_end(&json, CLI_DONE);
}
