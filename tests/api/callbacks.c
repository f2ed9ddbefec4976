/* Members that are no networks: each walks downhill on a function of its own, with a step size
 * that population based training finds. */
#include <stdio.h>
#include <stepwell.h>

enum { MEMBERS = 6, DIMS = 4 };

/* Of one member; zero at first. */
typedef struct {
    double at[DIMS];
} place;

/* One step of gradient descent on the sum of (i + 1) (x_i - 1)^2. */
static sw_status walk(sw_member_view *view, void *user)
{
    place *p = view->state;
    double sum = 0;
    (void)user;
    for (int i = 0; i < DIMS; i++) {
        p->at[i] -= (double)view->knobs[0] * 2 * (i + 1) * (p->at[i] - 1);
        sum += (i + 1) * (p->at[i] - 1) * (p->at[i] - 1);
    }
    view->score = sum;
    return SW_OK;
}

int main(void)
{
    sw_members_opts of =
        SW_OPTS(sw_members_opts, .callback = walk, .state_bytes = sizeof(place));
    sw_pbt_opts rules = SW_OPTS(sw_pbt_opts, .members = MEMBERS, .interval = 5);
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    sw_exec *exec = NULL;
    sw_model *knobs = NULL;
    sw_members *group = NULL;
    sw_space *space = NULL;
    sw_pbt *pbt = NULL;
    sw_member member[MEMBERS];
    double score[MEMBERS], until, value, best = 1e30;
    int turn[MEMBERS], n = 0, copies = 0;

    int bad = sw_exec_create(&exec, NULL) || sw_model_create(&knobs, "walk");
    const sw_knob size = sw_knob_new(knobs, "step", 0.01f);
    of.shape = knobs;
    bad = bad || sw_members_create(&group, exec, &of) || sw_space_create(&space) ||
          sw_space_parse(space, "step=log:0.0001..0.2");
    rules.space = space, rules.minimize = 1, rules.synch = 1, rules.stop_time = 50;
    bad = bad || sw_pbt_create(&pbt, &rules);
    for (int k = 0; k < MEMBERS && !bad; k++)
        bad = sw_member_new(&member[k], group, (uint64_t)k) ||
              sw_pbt_value(pbt, k, 0, &value) ||
              sw_member_knob_set(member[k], size, (float)value);
    sw_members_args run = SW_OPTS(sw_members_args, .members = member, .n = MEMBERS, .steps = 5);
    while (!bad && !(bad = sw_pbt_next(pbt, turn, MEMBERS, &n, &until)) && n > 0) {
        bad = sw_members_run(group, &run) || sw_members_metric(group, "score", score, MEMBERS);
        for (int k = 0; k < MEMBERS && !bad; k++) {
            bad = sw_pbt_report(pbt, k, until, score[k]) || sw_pbt_next_event(pbt, &e);
            for (; !bad && e.what != SW_PBT_NONE; bad = bad || sw_pbt_next_event(pbt, &e))
                if (e.what == SW_PBT_EXPLOIT) {
                    copies++;
                    bad = sw_member_copy(member[e.member], member[e.donor]) ||
                          sw_pbt_value(pbt, e.member, 0, &value) ||
                          sw_member_knob_set(member[e.member], size, (float)value);
                }
        }
    }
    for (int k = 0; k < MEMBERS && !bad; k++)
        best = score[k] < best ? score[k] : best;
    printf("%d copies; the least sum is %.3g %s\n", copies, best, bad ? sw_last_error() : "");
    sw_pbt_destroy(pbt), sw_space_destroy(space), sw_members_destroy(group);
    sw_model_destroy(knobs), sw_exec_destroy(exec);
    return bad || copies == 0 || !(best < 1e-3);
}
