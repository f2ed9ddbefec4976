/* Members that are no networks: a callback with state and knobs of its own. */
#include "tests/population/small_net.h"

SW_TESTS("members by callbacks")

enum { N = 13, STATE = 40 };

/* A walk of the state, by seed, knob and step. */
static double walk(unsigned char *state, uint64_t seed, uint64_t step, float knob)
{
    double sum = 0.0;
    for (int i = 0; i < STATE; i++) {
        state[i] = (unsigned char)(state[i] * 5 + seed + step + (uint64_t)i);
        sum += state[i] * (double)knob;
    }
    return sum;
}

typedef struct {
    uint64_t fails_at; /* step at which the member of seed `who` fails; UINT64_MAX: none */
    uint64_t who;
    int with_call; /* it fails by a call of the library */
    sw_knob knob;
} plan;

static sw_status walk_step(sw_member_view *view, void *user)
{
    const plan *p = user;
    if (view->state_bytes != STATE || view->n_knobs != 1 || (uintptr_t)view->state % 64 != 0)
        return SW_UNSUPPORTED;
    if (view->seed == p->who && view->step == p->fails_at) {
        ((unsigned char *)view->state)[0] = 99; /* half of it */
        return p->with_call ? sw_member_read(view->member, (sw_param){NULL, 0}, NULL, 0)
                            : SW_NOMEM;
    }
    view->score = walk(view->state, view->seed, view->step, view->knobs[0]);
    return SW_OK;
}

typedef struct {
    sw_members *all;
    sw_member member[N];
    sw_members_args args;
} scene;

static void scene_fill(scene *s, sw_exec *exec, plan *p)
{
    sw_model *model = made_model("walk");
    p->knob = sw_knob_new(model, "gain", 2.0f);
    const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = model, .callback = walk_step,
                                         .user = p, .state_bytes = STATE);
    OK(sw_members_create(&s->all, exec, &opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s->all);
    AFTER(sw_members_destroy, s->all);
    small_members(s->member, N, s->all, 100);
    s->args = SW_OPTS(sw_members_args, .members = s->member, .n = N, .mode = SW_TRAIN,
                      .own_steps = 1, .steps = 3);
}

static void check_state(const scene *s, int k, const unsigned char *state)
{
    unsigned char packed[1024] = {0};
    const size_t bytes = sw_members_packed_bytes(s->all);
    CU_ASSERT_FATAL(bytes <= sizeof packed);
    OK(sw_member_pack(s->member[k], packed, bytes));
    SW_CHECK(memcmp(packed + bytes - 64, state, STATE) == 0, "state of member %d", k);
}

SW_TEST("a callback sees state, knobs, seed and step")
{
    for (int threads = 1; threads <= 3; threads++) {
        plan p = {.fails_at = UINT64_MAX};
        scene s;
        double score[N], mean[N];
        unsigned char state[N][STATE] = {{0}};
        double last[N] = {0}, sum[N];
        scene_fill(&s, small_exec(threads), &p);
        OK(sw_member_knob_set(s.member[4], p.knob, 0.5f));
        for (uint64_t run = 0; run < 4; run++) {
            OK(sw_members_run(s.all, &s.args));
            for (int k = 0; k < N; k++) {
                sum[k] = 0.0;
                for (uint64_t i = 0; i < 3; i++) {
                    last[k] =
                        walk(state[k], 100 + (uint64_t)k, 3 * run + i, k == 4 ? 0.5f : 2.0f);
                    sum[k] += (double)(float)last[k];
                }
            }
        }
        OK(sw_members_metric(s.all, "score", score, N));
        OK(sw_members_mean(s.all, "score", mean, N));
        REFUSED(sw_members_metric(s.all, "loss", score, N), SW_INVALID, "no metric 'loss'");
        for (int k = 0; k < N; k++) {
            uint64_t steps = 0, batches = 1;
            check_state(&s, k, state[k]);
            CU_ASSERT(score[k] == (double)(float)last[k]);
            CU_ASSERT(fabs(mean[k] - sum[k] / 3.0) <= 1e-9 * fabs(mean[k]));
            OK(sw_member_progress(s.member[k], &steps, &batches));
            CU_ASSERT(steps == 12 && batches == 0);
        }
    }
}

SW_TEST("a step of all is the caller's")
{
    plan p = {.fails_at = UINT64_MAX};
    scene s;
    unsigned char state[STATE] = {0};
    scene_fill(&s, small_exec(2), &p);
    s.args.own_steps = 0;
    s.args.step = 40;
    OK(sw_members_run(s.all, &s.args));
    for (uint64_t i = 0; i < 3; i++)
        (void)walk(state, 100, 40 + i, 2.0f);
    check_state(&s, 0, state);
}

SW_TEST("a failure is the member's own")
{
    plan p = {.fails_at = 4, .who = 103};
    scene s;
    sw_status ended[N];
    double score[N], mean[N];
    scene_fill(&s, small_exec(2), &p);
    OK(sw_members_run(s.all, &s.args));
    OK(sw_members_run(s.all, &s.args)); /* steps 3 to 5 */
    CU_ASSERT_PTR_NOT_NULL(
        strstr(sw_last_note(), "member 3: the callback failed (nomem) and gave no reason"));
    CU_ASSERT_PTR_NULL(strstr(sw_last_note(), "ended with")); /* it is said once */
    OK(sw_members_status(s.all, ended, N));
    OK(sw_members_metric(s.all, "score", score, N));
    OK(sw_members_mean(s.all, "score", mean, N));
    for (int k = 0; k < N; k++) {
        uint64_t steps = 0;
        OK(sw_member_progress(s.member[k], &steps, NULL));
        CU_ASSERT_EQUAL(ended[k], k == 3 ? SW_NOMEM : SW_OK);
        CU_ASSERT_EQUAL(isnan(score[k]) && isnan(mean[k]), k == 3);
        CU_ASSERT_EQUAL(steps, k == 3 ? 4 : 6);
    }
    p.fails_at = UINT64_MAX;
    OK(sw_members_run(s.all, &s.args));
    OK(sw_members_status(s.all, ended, N));
    CU_ASSERT(ended[3] == SW_STALE && ended[2] == SW_OK);
    REFUSED(sw_member_copy(s.member[5], s.member[3]), SW_STALE, "failed after an update");
    OK(sw_member_copy(s.member[3], s.member[5])); /* it is well again, and where that was */
    CU_ASSERT(small_same(s.member[3], s.member[5]));
    OK(sw_members_run(s.all, &s.args));
    OK(sw_members_status(s.all, ended, N));
    CU_ASSERT_EQUAL(ended[3], SW_OK);
}

SW_TEST("a call that failed in it is reported")
{
    plan p = {.fails_at = 0, .who = 100, .with_call = 1};
    scene s;
    scene_fill(&s, small_exec(1), &p);
    OK(sw_members_run(s.all, &s.args));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_note(), "sw_member_read: the parameter must be"));
}

SW_TEST("misuse is refused")
{
    plan p = {.fails_at = UINT64_MAX};
    scene s;
    sw_members *none = NULL;
    sw_exec *exec = small_exec(1);
    scene_fill(&s, exec, &p);
    const small *shape = small_new(4);
    sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = shape->model, .fn = small_step,
                                   .callback = walk_step);
    REFUSED(sw_members_create(&none, exec, &opts), SW_INVALID, "one of them");
    opts.callback = NULL;
    opts.state_bytes = 8;
    REFUSED(sw_members_create(&none, exec, &opts), SW_INVALID, "of callbacks alone");
    opts.fn = NULL;
    opts.callback = walk_step;
    opts.state_bytes = SIZE_MAX - 8;
    REFUSED(sw_members_create(&none, exec, &opts), SW_NOMEM, "overflow");
    s.args.feed = small_feed(small_data(4), 2, 0);
    REFUSED(sw_members_run(s.all, &s.args), SW_INVALID, "no inputs and no feed");
    CU_ASSERT_PTR_NULL(none);
}
