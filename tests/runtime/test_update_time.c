/* When updates run: released, after backward, or some of each; and what cannot be had
 * together, by name. */
#include "tests/runtime/optimizer_nets.h"

SW_TESTS("update time")

static bool names(const char *part)
{
    return SW_CHECK(strstr(sw_last_error(), part) != NULL, "'%s' is not in '%s'", part,
                    sw_last_error());
}

/* Groups of an optimizer: the first half of the parameters, the rest. */
static sw_status start_mixed(on_net *n, const sw_optimizer_opts *kind, int first, int second,
                             int all)
{
    on_begin(n);
    const sw_param_group groups[] = {
        {.params = n->w, .n_params = 3, .update = first, .weight_decay = kind->weight_decay},
        SW_INIT(.params = n->w + 3, .n_params = ON_PARAMS - 3, .update = second,
                .weight_decay = kind->weight_decay)};
    sw_optimizer_opts opts = *kind;
    opts.groups = groups;
    opts.n_groups = 2;
    opts.update = all;
    return sw_optimizer_create(&n->opt, n->model, &opts);
}

SW_TEST("a mix gives the same bits")
{
    sw_exec *exec = net_exec(NULL);
    for (size_t k = 0; k < ON_KINDS; k++)
        for (int way = 0; way < 4; way++) {
            on_end();
            on_net plain, mixed;
            on_start(&plain, &on_opts[k]);
            OK(start_mixed(&mixed, &on_opts[k], way & 1 ? SW_UPDATE_RELEASE : SW_UPDATE_AFTER,
                           way & 1 ? SW_UPDATE_AFTER : SW_UPDATE_RELEASE, SW_UPDATE_DEFAULT));
            OK(sw_model_ready(plain.model, exec, 3));
            OK(sw_model_ready(mixed.model, exec, 3));
            for (int t = 0; t < 3; t++) {
                OK(on_run(exec, &plain, t, false));
                OK(on_run(exec, &mixed, t, way & 2));
            }
            if (!on_same_params(&plain, &mixed, on_opts[k].kind))
                return;
        }
}

static size_t peak_of(int first, int second)
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f);
    sw_plan_info info = SW_OPTS(sw_plan_info);
    sw_exec *exec = net_exec(NULL);
    on_net n;
    OK(start_mixed(&n, &sgd, first, second, SW_UPDATE_DEFAULT));
    const sw_run_args args = on_args(&n);
    OK(sw_plan(exec, &args, &info));
    /* Updates after backward are the step; released ones count as backward. */
    CU_ASSERT_EQUAL(info.phase[SW_STEP].peak_bytes == 0,
                    first == SW_UPDATE_RELEASE && second == SW_UPDATE_RELEASE);
    return info.arena_bytes;
}

/* Each released group ends its gradients earlier. */
SW_TEST("a mix holds what is not released")
{
    const size_t after = peak_of(SW_UPDATE_AFTER, SW_UPDATE_AFTER),
                 small = peak_of(SW_UPDATE_RELEASE, SW_UPDATE_AFTER),
                 large = peak_of(SW_UPDATE_AFTER, SW_UPDATE_RELEASE),
                 both = peak_of(SW_UPDATE_RELEASE, SW_UPDATE_RELEASE);
    SW_CHECK(small <= after && large < small && both <= large, "%zu, %zu, %zu, %zu", after,
             small, large, both);
}

SW_TEST("a mix is said group by group")
{
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    on_net n;
    REFUSED(start_mixed(&n, &sgd, SW_UPDATE_DEFAULT, SW_UPDATE_RELEASE, SW_UPDATE_DEFAULT),
            SW_INVALID, "group 0 ('p0.w') does not say when");
    REFUSED(start_mixed(&n, &sgd, SW_UPDATE_AFTER, SW_UPDATE_DEFAULT, SW_UPDATE_RELEASE),
            SW_INVALID, "group 1 ('p3.w') does not say when");
    OK(start_mixed(&n, &sgd, SW_UPDATE_RELEASE, SW_UPDATE_DEFAULT, SW_UPDATE_RELEASE));
    OK(start_mixed(&n, &sgd, SW_UPDATE_AFTER, SW_UPDATE_DEFAULT, SW_UPDATE_DEFAULT));
    OK(start_mixed(&n, &sgd, SW_UPDATE_AFTER, SW_UPDATE_RELEASE, SW_UPDATE_AFTER));
}

/* Gradients that are ended one by one cannot be clipped together, accumulated or kept. */
SW_TEST("what needs all gradients is refused")
{
    for (int immediate = 0; immediate < 2; immediate++) {
        sw_optimizer_opts opts =
            SW_OPTS(sw_optimizer_opts, .kind = "sgd", .update = SW_UPDATE_RELEASE);
        sw_exec *exec = net_exec(NULL);
        on_net n;
        on_end();
        on_start(&n, &opts);
        n.clip = 1;
        REFUSED(on_run(exec, &n, 0, immediate), SW_INVALID, "sw_clip_norm");
        CU_ASSERT(names("'p0.w'") && names("release") && names("update after"));
        n.clip = 0;
        n.accumulate = 1;
        REFUSED(on_run(exec, &n, 0, immediate), SW_INVALID, "sw_accumulate");
        CU_ASSERT(names("'p0.w'") && names("release") && names("update after"));
        n.accumulate = 0;
        OK(on_run(exec, &n, 0, immediate));
        sw_param_freeze(n.w[0], 1); /* the first that is concerned */
        n.clip = 1;
        REFUSED(on_run(exec, &n, 0, immediate), SW_INVALID, "'p1.w'");

        const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
        OK(start_mixed(&n, &sgd, SW_UPDATE_AFTER, SW_UPDATE_RELEASE, SW_UPDATE_DEFAULT));
        n.clip = 1;
        REFUSED(on_run(exec, &n, 0, immediate), SW_INVALID, "'p3.w'");
        on_begin(&n);
        opts.keep_gradients = 1;
        REFUSED(sw_optimizer_create(&n.opt, n.model, &opts), SW_INVALID, "keep_gradients");
        CU_ASSERT(names("release") && names("'p0.w'"));
        CU_ASSERT_EQUAL(n.model->n_optimizers, 0);
    }
}

SW_TEST("a parameter without an owner is named")
{
    for (int immediate = 0; immediate < 2; immediate++) {
        sw_exec *exec = net_exec(NULL);
        on_net n;
        on_begin(&n);
        OK(sw_optimizer_create(&n.opt, n.model,
                               &SW_OPTS(sw_optimizer_opts, .kind = "lion",
                                        .update = SW_UPDATE_RELEASE, .params = n.w,
                                        .n_params = ON_PARAMS - 1)));
        REFUSED(on_run(exec, &n, 0, immediate), SW_INVALID,
                "'p5.w' of model net is neither owned");
        sw_param_freeze(n.w[ON_PARAMS - 1], 1);
        OK(on_run(exec, &n, 0, immediate));
    }
}

/* An update that must come after stays there although a budget would like it earlier; one
 * without that word may be released for it, and has the same bits then. */
SW_TEST("budgets release what no one holds back")
{
    for (size_t k = 0; k < ON_KINDS; k++) {
        sw_optimizer_opts opts = on_opts[k];
        on_net n[3];
        sw_plan_info info[3];
        sw_exec *exec[3];
        size_t bytes = 0;
        on_end();
        for (int way = 0; way < 3; way++) { /* released, by the budget, after */
            sw_budget *budget = NULL;
            opts.update = way == 0   ? SW_UPDATE_RELEASE
                          : way == 1 ? SW_UPDATE_DEFAULT
                                     : SW_UPDATE_AFTER;
            on_start(&n[way], &opts);
            if (way > 0) {
                budget = made_budget(bytes);
            }
            exec[way] = net_exec(&SW_OPTS(sw_exec_opts, .seed = 11, .budget = budget));
            const sw_run_args args = on_args(&n[way]);
            info[way] = SW_OPTS(sw_plan_info);
            const sw_status status = sw_plan(exec[way], &args, &info[way]);
            if (way == 2) {
                CU_ASSERT(status == SW_NOMEM || info[way].n_repeats > 0);
                CU_ASSERT_EQUAL(info[way].n_released, 0);
                continue;
            }
            OK(status);
            bytes = info[way].total_bytes;
            OK(sw_model_ready(n[way].model, exec[way], 3));
            for (int t = 0; t < 3; t++)
                OK(on_run(exec[way], &n[way], t, false));
        }
        CU_ASSERT(info[1].n_released > 0 && info[1].n_repeats == 0);
        const bool same = on_same_params(&n[0], &n[1], opts.kind);
        on_end(); /* models end before the budgets that they are in */
        if (!same)
            return;
    }
}
