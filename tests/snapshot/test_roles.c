/* Roles and steps of made trainings: what each tensor is, byte by byte, whatever the frames
 * show, and wherever the recording begins. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/made_training.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/suite.h"

SW_TESTS("roles")

static made_training m;

static const char *const names[] = {"parameter", "optimizer_state", "gradient", "saved",
                                    "temporary", "input",           "output"};
#define NAMES (sizeof names / sizeof *names)

static void add(uint64_t sums[NAMES + 1], const char *role, uint64_t bytes)
{
    size_t k = 0;
    while (k < NAMES && strcmp(names[k], role) != 0)
        k++;
    sums[k] += bytes;
}

/* Blocks made in the trace, one by one; of those that were there before, sums. */
static void check_roles(const replan *r, size_t first, const char *what)
{
    uint64_t is[NAMES + 1] = {0}, must[NAMES + 1] = {0};
    for (uint32_t i = 0; i < r->lives.n; i++) {
        const trace_life *x = &r->lives.all[i];
        if (x->born > 0) {
            const char *role = m.role[first + x->born - 1];
            SW_CHECK(role != NULL && strcmp(x->role, role) == 0,
                     "%s: %llu bytes of event %u are %s, and must be %s", what,
                     (unsigned long long)x->bytes, x->born - 1, x->role, role);
            continue;
        }
        size_t e = first;
        while (e > 0 && (m.role[e - 1] == NULL || m.p->events[e - 1].address != x->address))
            e--;
        CU_ASSERT_FATAL(e > 0);
        /* A trace that begins in a backward pass does not show which of what it frees it made.
         */
        const bool open = x->rule == RULE_SAVED && r->lives.roles.region[x->dead] == 0;
        add(is, open && strcmp(m.role[e - 1], "temporary") == 0 ? "temporary" : x->role,
            x->bytes);
        add(must, m.role[e - 1], x->bytes);
    }
    for (size_t k = 0; k <= NAMES; k++)
        SW_CHECK(is[k] == must[k],
                 "%s: from before the trace %llu bytes are %s, and must be %llu", what,
                 (unsigned long long)is[k], k < NAMES ? names[k] : "others",
                 (unsigned long long)must[k]);
}

static const struct {
    const char *name;
    made_run run;
    int cut; /* the trace begins after so many of four parts of its events */
    uint32_t steps;
    bool passes;
} runs[] = {
    {"C++ and Python", {.steps = 5, .layers = 7, .native = true}, 0, 5, false},
    {"Python", {.steps = 5, .layers = 7}, 0, 5, false},
    {"paths of Windows", {.steps = 5, .layers = 7, .windows = true}, 0, 5, false},
    {"one step", {.steps = 1, .layers = 7, .native = true}, 0, 1, false},
    {"from the middle", {.steps = 4, .layers = 7, .native = true}, 2, 2, false},
    {"from the middle, Python", {.steps = 4, .layers = 7}, 2, 2, false},
    {"late zero_grad",
     {.steps = 4, .layers = 7, .native = true, .late_zero = true},
     2,
     2,
     false},
    {"composed by hand",
     SW_INIT(.steps = 3, .layers = 5, .native = true, .softmax = 2, .silu = 2, .norm = 3,
             .scores = 2, .logits = 2),
     0, 3, false},
    {"foreach", {.steps = 3, .layers = 9, .native = true, .foreach = true}, 0, 3, false},
    {"without an optimizer",
     {.steps = 3, .layers = 7, .native = true, .no_update = true},
     0,
     3,
     true},
    {"without an optimizer, Python",
     {.steps = 3, .layers = 7, .no_update = true, .keeps_zero = true},
     2,
     1,
     true},
};

SW_TEST("every tensor has its role")
{
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        made_train(&m, &runs[i].run);
        const size_t first = m.p->n_events * (size_t)runs[i].cut / 4;
        const replan *r = planned(plain_write(m.p, "roles.pickle", first));
        check_roles(r, first, runs[i].name);
        SW_CHECK(r->period.steps == runs[i].steps && r->period.passes == runs[i].passes &&
                     r->lives.roles.n_steps == runs[i].steps,
                 "%s: %u steps", runs[i].name, r->period.steps);
        uint64_t at_peak = 0;
        for (uint32_t k = 0; k < r->n_roles; k++)
            at_peak += r->at_peak[k].bytes;
        CU_ASSERT_EQUAL(at_peak, r->whole.most);
        for (uint32_t k = 0; k < r->lives.roles.n_steps; k++)
            SW_CHECK(r->lives.roles.steps[k].peak[1] > 0 &&
                         r->lives.roles.steps[k].peak[3] > 0 &&
                         (runs[i].passes || r->lives.roles.steps[k].peak[4] > 0),
                     "%s: step %u has no phases", runs[i].name, k + 1);
    }
}

/* Layers repeat, and are no steps: of one training step, and of a model that answers. */
SW_TEST("layers are no steps")
{
    for (int answers = 0; answers < 2; answers++)
        for (int native = 0; native < 2; native++) {
            const made_run run = SW_INIT(.steps = 1, .layers = 40, .native = native == 1,
                                         .no_backward = answers == 1, .silu = 2);
            made_train(&m, &run);
            const replan *r = planned(plain_write(m.p, "layers.pickle", 0));
            SW_CHECK(r->period.steps == (answers ? 0 : 1) && !r->steady,
                     "%d, %d: %u steps of %u requests", answers, native, r->period.steps,
                     r->period.requests);
            const char *text = planned_text(r);
            CU_ASSERT_PTR_NOT_NULL(strstr(text, answers && native ? "No training step is in"
                                                : answers         ? "No steady step was found"
                                                                  : "One training step is in"));
            CU_ASSERT_PTR_NULL(strstr(text, "times the plan"));
        }
}

/* The report of a snapshot has the roles too. */
SW_TEST("the timeline has the roles")
{
    const made_run run = {.steps = 2, .layers = 7, .native = true};
    sw_timeline *t;
    made_train(&m, &run);
    CU_ASSERT_EQUAL_FATAL(read_snapshot(&t, plain_write(m.p, "line.pickle", 0)), SW_OK);
    const sw_tl_program *p = &t->programs[0];
    uint64_t states = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        states += strcmp(p->values[i].role, "optimizer_state") == 0 ? p->values[i].bytes : 0;
    CU_ASSERT_EQUAL(states, 2 * (7 * MADE_WEIGHT + 21 * 512));
    CU_ASSERT(p->phase[1].peak_bytes > 0 && p->phase[3].peak_bytes > 0 &&
              p->phase[4].peak_bytes > 0);
    CU_ASSERT(t->n_steps == 2 && !t->passes && t->steps[0].peak[4] > 0 &&
              t->steps[1].first == t->steps[0].last + 1);
    sw_timeline_free(t);
    CU_ASSERT(replan_command("'%s'", sw_temp_path("line.pickle")) == 0 &&
              replan_said("Phases of each step") && replan_said("6 x\\|7 x\\|2 x"));
    CU_ASSERT(replan_command("'%s' --json", sw_temp_path("line.pickle")) == 0 &&
              replan_said("\"step_phases\":.{\"from\":0,") && replan_said("\"count\":"));
}

/* A report and a replan have one peak of each phase, though frees begin phases: the batch goes
 * right after the loss. */
SW_TEST("a phase has one peak")
{
    for (int late = 0; late < 2; late++) {
        const made_run run = {
            .steps = 2, .layers = 7, .native = true, .late_input = late == 1, .logits = 2};
        sw_timeline *t;
        made_train(&m, &run);
        const char *path = plain_write(m.p, "peaks.pickle", 0);
        const replan *r = planned(path);
        CU_ASSERT_EQUAL_FATAL(read_snapshot(&t, path), SW_OK);
        CU_ASSERT_EQUAL_FATAL(r->lives.roles.n_steps, 2);
        for (int k = 0; k < 5; k++) {
            const uint64_t *a = r->lives.roles.steps[0].peak, *b = r->lives.roles.steps[1].peak,
                           most = a[k] > b[k] ? a[k] : b[k],
                           says = t->programs[0].phase[k].peak_bytes;
            SW_CHECK(most == says, "late %d, phase %d: %llu and %llu", late, k,
                     (unsigned long long)most, (unsigned long long)says);
        }
        sw_timeline_free(t);
    }
}

/* The same frames with two roles are two holders: here the file says the roles. */
SW_TEST("holders have one role")
{
    static const struct {
        unsigned size;
        const char *role;
    } of[] = {{4194304, "parameter"}, {6291456, "activation"}, {10485760, "parameter"}};
    const char *blocks = "";
    for (int i = 0; i < 3; i++)
        blocks = sw_textf("%s%s{'size':%u,'requested_size':%u,'state':'active_allocated',"
                          "'category':'%s','frames':[{'filename':'net.py','line':3,"
                          "'name':'make'}]}",
                          blocks, i > 0 ? "," : "", of[i].size, of[i].size, of[i].role);
    const replan *r = planned_json(
        sw_textf("{'segments':[{'device':0,'address':1099511627776,'total_size':20971520,"
                 "'stream':0,'segment_type':'large','blocks':[%s]}],'device_traces':[],"
                 "'allocator_settings':{'expandable_segments':false}}",
                 blocks));
    CU_ASSERT_EQUAL_FATAL(r->n_holders, 2);
    CU_ASSERT(strcmp(r->holders[0].role, "parameter") == 0 && r->holders[0].bytes == 14680064 &&
              r->holders[0].n == 2 && r->holders[0].without.most == 6291456);
    CU_ASSERT(strcmp(r->holders[1].role, "activation") == 0 && r->holders[1].bytes == 6291456 &&
              r->holders[1].without.most == 14680064);
    const char *text = planned_text(r); /* no events: phases are not spoken of */
    CU_ASSERT(strstr(text, "(forward)") != NULL && strstr(text, "Phases follow") == NULL);
}

/* Before and after a change: lines of the same functions, though the edit moved them. */
SW_TEST("a difference is by role and function")
{
    static const char *const says[] = {
        "\"saved\":{\"a\":89128960,\"b\":115343360,",
        "\"train.py main/net.py forward/parts.py silu\":{\"a\":26214400,\"b\":52428800,",
        "\"train.py main/net.py forward\":{\"a\":62914560,\"b\":62914560,"};
    char before[1000], after[1000];
    for (int moved = 0; moved < 2; moved++) {
        const made_run run = {
            .steps = 2, .layers = 5, .native = true, .silu = 2 - moved, .lines = moved * 100};
        made_train(&m, &run);
        snprintf(moved ? after : before, 1000, "%s",
                 plain_write(m.p, moved ? "after.pickle" : "before.pickle", 0));
    }
    CU_ASSERT_EQUAL(replan_command("'%s' --diff '%s' --json", after, before), 0);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        SW_CHECK(replan_said(says[i]), "not said: %s", says[i]);
}
