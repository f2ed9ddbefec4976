/* Timelines and the walk over them: nesting, balance, and figures counted a second way. */
#include "profiler/record/record.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include "tests/support/timeline.h"

SW_TESTS("timeline")

#define VALUES 4096

typedef struct {
    const sw_timeline *t;
    uint64_t live, peak, at, events, reuses;
    uint64_t peak_of_run;
    sw_tl_kind open[64];
    uint32_t n_open;
    bool alive[VALUES];
    uint32_t n_alive, last_born[VALUES];
    bool wrong;
} check;

static sw_tl_kind begin_of(sw_tl_kind end)
{
    return end == SW_TL_STEP_END    ? SW_TL_STEP_BEGIN
           : end == SW_TL_PHASE_END ? SW_TL_PHASE_BEGIN
           : end == SW_TL_LAYER_END ? SW_TL_LAYER_BEGIN
                                    : SW_TL_OP_BEGIN;
}

/* A plain second count of all that the walk promises. */
static sw_status look(void *context, const sw_tl_event *e)
{
    check *c = context;
    c->events++;
    c->wrong |= e->ns < c->at;
    c->at = e->ns;
    if (e->kind == SW_TL_ALLOC || e->kind == SW_TL_FREE) {
        const sw_tensor *v = &e->program->values[e->index];
        const bool birth = e->kind == SW_TL_ALLOC;
        c->live += birth ? v->bytes + v->padding : -(v->bytes + v->padding);
        c->wrong |= c->alive[e->index] == birth || e->bytes != v->bytes + v->padding ||
                    e->address >> 40 != (uint64_t)v->segment + 1 ||
                    (e->address & (((uint64_t)1 << 40) - 1)) != v->offset;
        c->alive[e->index] = birth;
        c->peak_of_run = c->live > c->peak_of_run ? c->live : c->peak_of_run;
    } else if (e->kind == SW_TL_REUSE) {
        const sw_tensor *v = &e->program->values[e->index];
        c->wrong |= v->alias == SW_TL_NONE || !c->alive[v->alias];
        c->reuses++;
    } else if (e->kind == SW_TL_STEP_BEGIN || e->kind == SW_TL_PHASE_BEGIN ||
               e->kind == SW_TL_LAYER_BEGIN || e->kind == SW_TL_OP_BEGIN) {
        c->wrong |= c->n_open > 0 && c->open[c->n_open - 1] > e->kind;
        c->open[c->n_open++] = e->kind;
        if (e->kind == SW_TL_STEP_BEGIN)
            c->peak_of_run = c->live;
    } else {
        c->wrong |= c->n_open == 0 || c->open[--c->n_open] != begin_of(e->kind);
        if (e->kind == SW_TL_STEP_END)
            c->wrong |= c->peak_of_run != e->run->peak_bytes;
    }
    c->wrong |= e->live != c->live;
    return c->wrong ? SW_INVALID : SW_OK;
}

SW_TEST("walks nest and balance")
{
    uint64_t events = 0, reuses = 0, runs = 0;
    for (uint32_t seed = 0; seed < (sw_tests_full() ? 20000 : 500); seed++) {
        const sw_made_timeline how = {1 + seed % 3,  1 + seed % 7,  1 + seed % 50,
                                      1 + seed % 90, seed % 2 == 0, seed % 5 == 0};
        sw_timeline *t = sw_make_timeline(seed, &how);
        check *c = calloc(1, sizeof *c);
        CU_ASSERT_PTR_NOT_NULL_FATAL(c);
        c->t = t;
        const sw_status status = sw_timeline_walk(t, look, c);
        SW_CHECK(status == SW_OK && c->live == 0 && c->n_open == 0,
                 "seed %u: event %llu, %llu bytes live, %u open", seed,
                 (unsigned long long)c->events, (unsigned long long)c->live, c->n_open);
        events += c->events;
        reuses += c->reuses;
        runs += t->n_runs;
        free(c);
        sw_timeline_free(t);
    }
    sw_note("%llu events of %llu runs, %llu reuses", (unsigned long long)events,
            (unsigned long long)runs, (unsigned long long)reuses);
    CU_ASSERT(reuses > 0);
}

/* Deaths at a step's end come in the reverse order of births. */
typedef struct {
    uint32_t order[VALUES], n;
    uint64_t checked;
    bool wrong;
} last_in;

static sw_status look_at_order(void *context, const sw_tl_event *e)
{
    last_in *l = context;
    if (e->kind == SW_TL_STEP_BEGIN)
        l->n = 0;
    if (e->kind == SW_TL_ALLOC && e->run != NULL)
        l->order[l->n++] = e->index;
    if (e->kind != SW_TL_FREE || e->run == NULL)
        return SW_OK;
    const bool at_end = e->program->values[e->index].death == e->program->n_ops &&
                        e->program->values[e->index].segment != SW_SEGMENT_MODEL;
    uint32_t i = l->n;
    while (i > 0 && l->order[i - 1] != e->index)
        i--;
    for (uint32_t k = i; at_end && k < l->n; k++)
        l->wrong |= l->order[k] != UINT32_MAX;
    l->checked += at_end;
    if (i > 0)
        l->order[i - 1] = UINT32_MAX;
    return SW_OK;
}

SW_TEST("a step ends in the reverse order of births")
{
    uint64_t checked = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        sw_timeline *t = sw_make_timeline(seed, &(sw_made_timeline){2, 3, 30, 60, true, false});
        last_in l = {.n = 0};
        CU_ASSERT_EQUAL(sw_timeline_walk(t, look_at_order, &l), SW_OK);
        SW_CHECK(!l.wrong, "seed %llu", (unsigned long long)seed);
        checked += l.checked;
        sw_timeline_free(t);
    }
    CU_ASSERT(checked > 100);
}

static bool is_saved(void *context, const sw_tensor *v)
{
    return strcmp(v->role, context) == 0;
}

SW_TEST("curves are sums over lives")
{
    static char role[] = "saved";
    for (uint64_t seed = 0; seed < 100; seed++) {
        sw_timeline *t =
            sw_make_timeline(seed, &(sw_made_timeline){1, 1, 40, 80, false, false});
        const sw_tl_program *p = &t->programs[0];
        uint64_t curve[64];
        for (int all = 0; all < 2; all++) {
            sw_timeline_curve(p, all ? NULL : is_saved, role, curve);
            for (uint32_t i = 0; i < p->n_ops; i++) {
                uint64_t sum = 0;
                for (uint32_t k = 0; k < p->n_values; k++)
                    if (p->values[k].alias == SW_TL_NONE && p->values[k].birth <= i &&
                        p->values[k].death >= i && (all || is_saved(role, &p->values[k])))
                        sum += p->values[k].bytes + p->values[k].padding;
                SW_CHECK(sum == curve[i], "seed %llu, op %u", (unsigned long long)seed, i);
            }
        }
        sw_timeline_free(t);
    }
}

SW_TEST("numbers and strings are found again")
{
    sw_timeline *t = sw_make_timeline(7, &(sw_made_timeline){1, 1, 40, 300, false, true});
    const sw_tl_program *p = sw_timeline_peak(t);
    const char *a = NULL, *b = NULL, *roles[16];
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    for (uint32_t i = 0; i < p->n_values; i++) {
        CU_ASSERT_EQUAL(sw_timeline_value(p, p->values[i].id), i);
        CU_ASSERT_EQUAL(sw_timeline_value(p, p->values[i].id + 1), SW_TL_NONE);
    }
    CU_ASSERT_EQUAL(sw_timeline_string(t, &a, "a\x1b[31mb\xff\xc2\x9b"), SW_OK);
    CU_ASSERT_STRING_EQUAL(a, "a?[31mb???");
    CU_ASSERT_EQUAL(sw_timeline_string(t, &b, "a?[31mb???"), SW_OK);
    CU_ASSERT_PTR_EQUAL(a, b);
    void *room; /* where the second text was: zeroed again */
    CU_ASSERT_EQUAL(sw_timeline_alloc(t, &room, 64, 1), SW_OK);
    for (int i = 0; i < 64; i++)
        CU_ASSERT_EQUAL(((const char *)room)[i], 0);
    CU_ASSERT_EQUAL(sw_timeline_roles(t, roles, 16), 6);
    CU_ASSERT_STRING_EQUAL(roles[0], "activation");
    CU_ASSERT_STRING_EQUAL(roles[5], "workspace");
    CU_ASSERT_EQUAL(sw_timeline_roles(t, roles, 2), 2);
    sw_timeline_free(t);
}

/* Two ops and two values that live in the first, in one run; not finished. */
static sw_timeline *two_values(sw_tl_program **p, sw_tl_run **run)
{
    sw_timeline *t = NULL;
    void *ops, *values;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_program(t, p), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_add_run(t, run), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &ops, 2, sizeof(sw_tl_op)), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_alloc(t, &values, 2, sizeof(sw_tensor)), SW_OK);
    (*p)->ops = ops;
    (*p)->values = values;
    (*p)->n_ops = (*p)->n_values = 2;
    for (uint32_t k = 0; k < 2; k++) {
        (*p)->ops[k] = (sw_tl_op){"op", "", 1};
        (*p)->values[k] = (sw_tensor){
            .id = k, .alias = SW_TL_NONE, .name = "v", .role = "saved", .bytes = 64};
    }
    return t;
}

SW_TEST("damage is refused")
{
    static const sw_record op = {0, 0, 9, SW_RECORD_OP, 0, 0};
    static const char *const says[] = {"lives from",      "ends past",    "in no phase",
                                       "two values",      "not there",    "no program",
                                       "event 0 of step", "past all time"};
    for (int i = 0; i < 8; i++) {
        sw_tl_program *p;
        sw_tl_run *run;
        sw_timeline *t = two_values(&p, &run);
        p->values[0].death = i == 0 ? p->n_ops + 1 : p->values[0].death;
        p->values[0].bytes = i == 1 ? UINT64_MAX - 3 : p->values[0].bytes;
        p->ops[0].phase = i == 2 ? 5 : p->ops[0].phase;
        p->values[1].id = i == 3 ? p->values[0].id : p->values[1].id;
        p->values[0].alias = i == 4 ? 77 : p->values[0].alias;
        run->program = i == 5;
        run->log = &op;
        run->n_log = i == 6;
        run->clock = i == 7 ? SW_TL_PHASES : run->clock;
        run->ns = i == 7 ? UINT64_MAX : run->ns;
        CU_ASSERT_EQUAL(sw_timeline_finish(t), SW_FORMAT);
        SW_CHECK(strstr(sw_last_error(), says[i]) != NULL, "%s: %s", says[i], sw_last_error());
        sw_timeline_free(t);
    }
}

/* A log may say that two values live and die in turn, as often as it likes. */
SW_TEST("values come back without end")
{
    enum { TURNS = 5000 };
    static sw_record log[2 + 4 * TURNS];
    sw_tl_program *p;
    sw_tl_run *run;
    sw_timeline *t = two_values(&p, &run);
    size_t n = 0;
    log[n++] = (sw_record){.id = 0, .kind = SW_RECORD_OP, .phase = 1};
    log[n++] = (sw_record){.bytes = 1, .id = 0, .kind = SW_RECORD_PLACE, .phase = 1};
    for (uint32_t i = 0; i < 2 * TURNS; i++) {
        log[n++] =
            (sw_record){.bytes = 1, .id = (i + 1) % 2, .kind = SW_RECORD_PLACE, .phase = 1};
        log[n++] = (sw_record){.bytes = 1, .id = i % 2, .kind = SW_RECORD_RELEASE, .phase = 1};
    }
    run->log = log;
    run->n_log = n;
    run->peak_bytes = 128;
    CU_ASSERT_EQUAL_FATAL(sw_timeline_finish(t), SW_OK);
    static check c;
    c.t = t;
    CU_ASSERT_EQUAL(sw_timeline_walk(t, look, &c), SW_OK);
    CU_ASSERT_EQUAL(c.events, 2 * (1 + 2 * TURNS) + 6);
    CU_ASSERT_EQUAL(c.live, 0);
    sw_timeline_free(t);
}
