/* The profile of a population, record by record. */
#include "alloc/base/mem.h"
#include "profiler/inspect/population/population.h"
#include "profiler/inspect/profile_read.h"
#include "profiler/record/utf8.h"
#include <math.h>
#include <string.h>

#define MOST_LANES 65536

typedef struct {
    population *p;
    const population_want *want;
    population_turn open; /* the turn whose members come */
    bool opened;
} population_reader;

/* ---- small parts ------------------------------------------------------------------------- */

/* Null and what is missing: NaN. */
static sw_status real_of(const profile_position *at, value o, const char *key, double *out)
{
    const value x = value_at(o, key);
    *out = value_is_number(x) ? value_real(x) : (double)NAN;
    return x == 0 || x == VALUE_NULL || value_is_number(x) ? SW_OK
                                                           : profile_wrong(at, key, "a number");
}

static bool add_up(uint64_t *sum, uint64_t more)
{
    return !__builtin_add_overflow(*sum, more, sum);
}

/* ---- shapes ------------------------------------------------------------------------------ */

static sw_status fill_shape(population_reader *r, const profile_position *at,
                            population_shape *s)
{
    uint64_t number, sum = 0;
    const value values = value_at(at->record, "values");
    SW_TRY(profile_need_u64(at, at->record, "shape", &number));
    if (number != r->p->n_shapes)
        return profile_wrong(at, "shape", "the number of the next shape");
    SW_TRY(PROFILE_TAKE(r->p->timeline, at, at->record, {"name", &s->name, PROFILE_TEXT},
                        {"member_bytes", &s->member_bytes, PROFILE_NEEDED},
                        {"batch_bytes", &s->batch_bytes, 0}));
    if (value_kind_of(values) != VALUE_LIST)
        return profile_wrong(at, "values", "a list of values");
    for (uint64_t i = 0; i < value_count(values); i++) {
        const char *layer, *role;
        uint64_t bytes, padding;
        const value o = value_item(values, i);
        if (value_kind_of(o) != VALUE_DICT)
            return profile_wrong(at, "values", "a list of values");
        SW_TRY(PROFILE_TAKE(r->p->timeline, at, o, {"layer", &layer, PROFILE_TEXT},
                            {"role", &role, PROFILE_TEXT}, {"bytes", &bytes, PROFILE_NEEDED},
                            {"padding", &padding, PROFILE_NEEDED}));
        if (!add_up(&bytes, padding) || !add_up(&sum, bytes))
            return profile_wrong(at, "bytes", "in range");
        s->kind[population_kind_of(role)] += bytes;
        SW_TRY(population_add(&s->parts, r->p->timeline, layer, role, bytes));
    }
    if (sum != s->member_bytes)
        return profile_damaged(at, "the tensors of a member do not add up to member_bytes");
    /* The program of the shape with the largest step arena. */
    const value list = value_at(at->record, "programs");
    const sw_timeline *t = r->p->timeline;
    uint64_t exec, most = 0;
    SW_TRY(profile_get_in(at, at->record, "exec", UINT32_MAX, 0, &exec));
    if (value_kind_of(list) != VALUE_LIST)
        return profile_wrong(at, "programs", "a list of numbers");
    for (uint64_t j = 0; j < value_count(list); j++) {
        uint64_t id;
        uint32_t k = t->n_programs;
        if (!value_whole(value_item(list, j), &id))
            return profile_wrong(at, "programs", "a list of numbers");
        while (k > 0 && t->programs[k - 1].key != (exec << 32 | id))
            k--;
        if (k == 0)
            return profile_damaged(at, "a shape has a program without a plan");
        if (s->highest == SW_TL_NONE || t->programs[k - 1].arena_bytes > most) {
            s->highest = k - 1;
            most = t->programs[k - 1].arena_bytes;
        }
    }
    return SW_OK;
}

/* ---- members ----------------------------------------------------------------------------- */

/* The hyper-parameters are those of the first member. */
static sw_status take_names(population_reader *r, const profile_position *at)
{
    population *p = r->p;
    const value values = value_at(at->record, "values");
    const char **names;
    if (p->names != NULL)
        return SW_OK;
    if (value_kind_of(values) != VALUE_DICT || value_count(values) > 4096)
        return profile_wrong(at, "values", "an object");
    const uint32_t n = (uint32_t)value_count(values);
    SW_TRY(sw_timeline_alloc(p->timeline, &names, n + 1, sizeof(char *)));
    for (uint32_t i = 0; i < n; i++)
        SW_TRY(sw_timeline_string(p->timeline, &names[i], value_key(values, i)));
    p->names = names;
    p->n_names = n;
    return SW_OK;
}

static sw_status fill_member(population_reader *r, const profile_position *at,
                             population_member *m)
{
    const population *p = r->p;
    uint64_t donor, member, shape;
    SW_TRY(PROFILE_TAKE(p->timeline, at, at->record, {"member", &member, PROFILE_NEEDED},
                        {"shape", &shape, PROFILE_NEEDED}, {"step", &m->step, PROFILE_NEEDED},
                        {"seed", &m->member_seed, 0}, {"place", &m->place, PROFILE_TEXT},
                        {"status", &m->member_status, PROFILE_TEXT},
                        {"range_bytes", &m->range_bytes, PROFILE_NEEDED},
                        {"waiting_bytes", &m->waiting_bytes, 0},
                        {"kept_bytes", &m->kept_bytes, 0}));
    SW_TRY(real_of(at, at->record, "score", &m->score));
    SW_TRY(real_of(at, at->record, "loss", &m->loss));
    SW_TRY(real_of(at, at->record, "train_loss", &m->train_loss));
    SW_TRY(profile_get_in(at, at->record, "donor", p->members - 1, UINT64_MAX, &donor));
    m->donor = donor == UINT64_MAX ? -1 : (int64_t)donor;
    m->resident = strcmp(m->place, "resident") == 0;
    if (member != r->open.n || member >= p->members)
        return profile_wrong(at, "member", "the number of the next member");
    if (shape >= p->n_shapes)
        return profile_damaged(at, "a member has a shape that is not in the file");
    m->member = (uint32_t)member;
    m->shape = (uint32_t)shape;
    const population_shape *s = &p->shapes[m->shape];
    m->shape_name = s->name;
    m->member_bytes = s->member_bytes;
    memcpy(m->kind, s->kind, sizeof m->kind);
    if (m->range_bytes != (m->resident ? m->member_bytes : 0))
        return profile_wrong(at, "range_bytes", "those of a member of its shape");
    return SW_OK;
}

/* The members of a turn come by their numbers, and its total after them. */
static sw_status open_turn(population_reader *r, const profile_position *at)
{
    uint64_t turn;
    SW_TRY(profile_need_u64(at, at->record, "turn", &turn));
    if (r->opened && turn != r->open.turn)
        return profile_wrong(at, "turn", "that of the member before");
    if (turn <= r->p->last_turn)
        return profile_wrong(at, "turn", "later than the turn before");
    r->open.turn = turn;
    r->open.line = r->opened ? r->open.line : at->line;
    r->opened = true;
    return SW_OK;
}

/* ---- turns ------------------------------------------------------------------------------- */

static void population_free_turn(population_turn *t)
{
    sw_heap_free(t->at, SW_HEAP_PROFILE, t->cap * sizeof *t->at);
    sw_heap_free(t->values, SW_HEAP_PROFILE, t->cap_values * sizeof *t->values);
    *t = (population_turn){0};
}

static sw_status fill_turn(const population_reader *r, const profile_position *at,
                           population_turn *t)
{
    uint64_t members, sum = 0, live = 0;
    SW_TRY(PROFILE_TAKE(NULL, at, at->record, {"members", &members, PROFILE_NEEDED},
                        {"measured_bytes", &t->measured_bytes, PROFILE_NEEDED},
                        {"step", &t->step, PROFILE_NEEDED},
                        {"lanes", &t->lanes, PROFILE_NEEDED},
                        {"step_bytes", &t->step_arena_bytes, PROFILE_NEEDED},
                        {"batch_bytes", &t->batch_bytes, PROFILE_NEEDED},
                        {"range_bytes", &t->range_bytes, PROFILE_NEEDED},
                        {"live_bytes", &t->live_bytes, PROFILE_NEEDED},
                        {"predicted_bytes", &t->predicted_bytes, PROFILE_NEEDED},
                        {"outside_bytes", &t->outside_bytes, PROFILE_NEEDED}));
    if (members != t->n || members != r->p->members)
        return profile_damaged(at, "a turn lacks records of members");
    for (uint32_t i = 0; i < t->n; i++)
        if (!add_up(&live, t->at[i].range_bytes))
            return profile_wrong(at, "live_bytes", "in range");
    if (live != t->live_bytes || live > t->range_bytes)
        return profile_wrong(at, "live_bytes", "what the members of the turn have");
    t->free_bytes = t->range_bytes - live;
    if (!add_up(&sum, t->step_arena_bytes) || !add_up(&sum, t->batch_bytes) ||
        !add_up(&sum, t->range_bytes) || sum != t->measured_bytes)
        return profile_wrong(at, "measured_bytes", "the sum of its parts");
    if (t->lanes == 0 || t->lanes > MOST_LANES)
        return profile_wrong(at, "lanes", "in range");
    return SW_OK;
}

/* A copy descends from whom its donor descends from. The second half of the list is scratch. */
static sw_status follow_copies(population_reader *r)
{
    population *p = r->p;
    const uint64_t *of = r->want->turn;
    const population_turn *t = &r->open;
    const uint64_t first = of[0] < of[1] ? of[0] : of[1], last = of[0] < of[1] ? of[1] : of[0];
    if (first == 0 || t->turn < first || t->turn > last)
        return SW_OK;
    if (t->turn == first) {
        SW_TRY(sw_timeline_alloc(p->timeline, &p->origin, 2 * (size_t)t->n, sizeof *p->origin));
        for (uint32_t k = 0; k < t->n; k++)
            p->origin[k] = k;
    }
    if (t->turn == first || p->origin == NULL)
        return SW_OK;
    uint32_t *before = p->origin + t->n;
    memcpy(before, p->origin, t->n * sizeof *before);
    for (uint32_t k = 0; k < t->n; k++) {
        const int64_t donor = t->at[k].donor;
        p->copies += donor >= 0;
        p->origin[k] = before[donor >= 0 ? (uint32_t)donor : k];
    }
    return SW_OK;
}

/* It takes the place of the turn before where that was the last so far, and nothing more. */
static sw_status keep_turn(population_reader *r)
{
    population *p = r->p;
    const population_want *w = r->want;
    const uint64_t last = p->n_turns > 0 ? p->turns[p->n_turns - 1].turn : 0;
    if (last > 0 && !w->all && last != w->turn[0] && last != w->turn[1]) {
        const population_turn before = p->turns[p->n_turns - 1];
        p->turns[p->n_turns - 1] = r->open;
        r->open = before;
    } else {
        SW_TRY(sw_heap_reserve(&p->turns, SW_HEAP_PROFILE, &p->cap_turns, p->n_turns + 1));
        p->turns[p->n_turns++] = r->open;
        r->open = (population_turn){0};
    }
    r->open.n = 0;
    r->opened = false;
    return SW_OK;
}

/* ---- the file ---------------------------------------------------------------------------- */

static sw_status take(void *context, const profile_position *at)
{
    population_reader *r = context;
    if (at->line == 1) {
        population *p = r->p;
        SW_TRY(profile_take_header(p->timeline, at));
        SW_TRY(profile_get_in(at, at->record, "members", UINT32_MAX - 1, 0, &p->members));
        SW_TRY(PROFILE_TAKE(NULL, at, at->record, {"budget_bytes", &p->budget_bytes, 0},
                            {"planned_steps", &p->planned_steps, 0}));
        return p->members > 0 ? SW_OK : profile_damaged(at, "not the profile of a population");
    }
    if (strcmp(at->type, "plan") == 0)
        return profile_take_program(r->p->timeline, at, false);
    if (strcmp(at->type, "shape") == 0) {
        population *p = r->p;
        population_shape s = {.highest = SW_TL_NONE};
        SW_TRY(sw_timeline_reserve(p->timeline, &p->shapes, &p->cap_shapes, p->n_shapes + 1,
                                   sizeof s));
        SW_TRY(fill_shape(r, at, &s));
        p->shapes[p->n_shapes++] = s;
        return SW_OK;
    }
    if (strcmp(at->type, "member") == 0) {
        population_turn *t = &r->open;
        population_member m = {0};
        SW_TRY(open_turn(r, at));
        SW_TRY(take_names(r, at));
        SW_TRY(fill_member(r, at, &m));
        const uint32_t n = r->p->n_names;
        if (n > 0 && (uint64_t)(t->n + 1) * n >= UINT32_MAX)
            return profile_wrong(at, "member", "in range");
        SW_TRY(sw_heap_reserve(&t->at, SW_HEAP_PROFILE, &t->cap, t->n + 1));
        SW_TRY(sw_heap_reserve(&t->values, SW_HEAP_PROFILE, &t->cap_values, (t->n + 1) * n));
        for (uint32_t i = 0; i < n; i++)
            SW_TRY(real_of(at, value_at(at->record, "values"), r->p->names[i],
                           &t->values[(size_t)t->n * n + i]));
        t->at[t->n++] = m;
        return SW_OK;
    }
    if (strcmp(at->type, "turn") == 0) {
        population *p = r->p;
        SW_TRY(open_turn(r, at));
        SW_TRY(fill_turn(r, at, &r->open));
        const uint64_t turn = r->open.turn, bytes = r->open.measured_bytes;
        SW_TRY(follow_copies(r));
        SW_TRY(keep_turn(r));
        p->first_turn = p->seen_turns++ == 0 ? turn : p->first_turn;
        p->last_turn = turn;
        if (bytes > p->peak_bytes) {
            p->peak_bytes = bytes;
            p->peak_turn = turn;
        }
        return SW_OK;
    }
    return SW_OK;
}

static sw_status read_file(population_reader *r, const char *path)
{
    profile_lines lines;
    population *p = r->p;
    SW_TRY(profile_lines_open(&lines, path));
    p->file.context = r;
    p->file.take = take;
    const sw_status status = profile_read_all(&p->file, &lines, p->timeline);
    profile_lines_close(&lines);
    p->cut_members = r->opened ? r->open.n : 0;
    population_free_turn(&r->open);
    return status;
}

static const char header_start[] = "{\"type\":\"header\"";

sw_status population_is(const char *path, bool *is)
{
    profile_lines lines;
    profile_line line = {.text = NULL};
    profile_position at;
    char head[sizeof header_start];
    size_t n = 0;
    bool there = false;
    *is = false;
    SW_TRY(profile_lines_open(&lines, path));
    sw_status status = profile_lines_head(&lines, head, sizeof head - 1, &n);
    if (status == SW_OK && n == sizeof head - 1 && memcmp(head, header_start, n) == 0)
        status = profile_lines_next(&lines, &line);
    if (status == SW_OK && line.text != NULL)
        status = profile_record(&lines, &line, &at, &there);
    *is = status == SW_OK && there && value_at(at.record, "members") != 0;
    profile_lines_close(&lines);
    return status == SW_FORMAT ? SW_OK : status; /* who reads all of it says what is wrong */
}

sw_status population_open(population **out, const char *path, const population_want *want)
{
    population *p;
    SW_TRY(sw_heap_alloc(&p, SW_HEAP_PROFILE, sizeof(population)));
    *p = (population){.timeline = NULL};
    sw_utf8_clean(p->shown, sizeof p->shown, path);
    population_reader r = {.p = p, .want = want};
    sw_status status = sw_timeline_new(&p->timeline);
    if (status == SW_OK)
        status = sw_timeline_string(p->timeline, &p->timeline->path, path);
    if (status == SW_OK)
        status = read_file(&r, path);
    return SW_GIVE(status, out, p, population_free);
}

void population_free(population *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->n_turns; i++)
        population_free_turn(&p->turns[i]);
    sw_heap_free(p->turns, SW_HEAP_PROFILE, p->cap_turns * sizeof *p->turns);
    sw_timeline_free(p->timeline);
    sw_heap_free(p, SW_HEAP_PROFILE, sizeof *p);
}

const population_turn *population_find(const population *p, uint64_t turn)
{
    for (uint32_t i = 0; i < p->n_turns; i++)
        if (p->turns[i].turn == turn)
            return &p->turns[i];
    return NULL;
}

const population_turn *population_last(const population *p)
{
    return p->seen_turns > 0 ? &p->turns[p->n_turns - 1] : NULL;
}
