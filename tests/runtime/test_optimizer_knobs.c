/* Numbers of optimizers that are knobs: the bits of constants, and runs that change them held
 * to plain loops in double precision. */
#include "tests/runtime/optimizer_nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("optimizer knobs")

/* ---- the bits of constants --------------------------------------------------------------- */

static const swi_entry *entry_named(const sw_model *m, const char *name)
{
    for (uint32_t e = 1; e < m->n_entries; e++)
        if (strcmp(m->entries[e].name, name) == 0)
            return &m->entries[e];
    return NULL;
}

static void compare_ways(sw_optimizer_opts opts, const char *what, int clip)
{
    sw_exec *exec = NULL;
    on_net plain, knobs;
    char label[80];
    OK(sw_exec_create(&exec, NULL));
    on_start(&plain, &opts);
    opts.knobs = 1;
    on_start(&knobs, &opts);
    plain.clip = knobs.clip = clip;
    for (int step = 0; step < 12; step++) {
        OK(on_run(exec, &plain, step, false));
        OK(on_run(exec, &knobs, step, step % 3 == 2));
    }
    snprintf(label, sizeof label, "%s %s", opts.kind, what);
    on_same_params(&plain, &knobs, label);
    /* All that both keep: with knobs there may be a momentum more. */
    for (uint32_t e = 1; e < plain.model->n_entries; e++) {
        const swi_entry *a = &plain.model->entries[e];
        if (a->role != SWI_ROLE_OPTIMIZER_STATE)
            continue;
        const swi_entry *b = entry_named(knobs.model, a->name);
        SW_CHECK(b != NULL && b->bytes == a->bytes &&
                     memcmp(plain.model->base + a->offset, knobs.model->base + b->offset,
                            a->bytes) == 0,
                 "%s: %s differs", label, a->name);
    }
    on_end();
    sw_exec_destroy(exec);
}

SW_TEST("constants have the same bits")
{
    for (int k = 0; k < ON_KINDS; k++) {
        sw_optimizer_opts opts = on_opts[k];
        compare_ways(opts, "as it is", 0);
        opts.keep_gradients = 1;
        compare_ways(opts, "kept and clipped", 1);
        opts.keep_gradients = 0;
        opts.release = 1;
        compare_ways(opts, "released", 0);
        opts.release = 0;
        opts.no_check = 1;
        compare_ways(opts, "not looked at", 0);
    }
}

/* Each group counts for itself; with the same betas that is one count. */
SW_TEST("groups have the same bits")
{
    static const char *const kinds[] = {"adam", "adamw", "sgd", "lion", "rmsprop"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        sw_exec *exec = NULL;
        on_net n[2];
        OK(sw_exec_create(&exec, NULL));
        for (uint64_t i = 0; i < 2; i++) {
            on_begin(&n[i]);
            const sw_param_group groups[] = {
                {.params = n[i].w, .n_params = 2, .lr = 0.02f, .weight_decay = 0.1f},
                {.params = n[i].w + 2, .n_params = ON_PARAMS - 2}};
            const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = kinds[k],
                                                   .groups = groups, .n_groups = 2, .knobs = i);
            OK(sw_optimizer_create(&n[i].opt, n[i].model, &opts));
            for (int step = 0; step < 9; step++)
                OK(on_run(exec, &n[i], step, false));
        }
        on_same_params(&n[0], &n[1], kinds[k]);
        on_end();
        sw_exec_destroy(exec);
    }
}

/* ---- numbers that change ----------------------------------------------------------------- */

enum { GROUPS = 2, EACH = 13, STEPS = 20 };

/* loss = sum(w_g x_g): the gradients are the inputs. */
typedef struct {
    sw_model *model;
    sw_param w[GROUPS];
    sw_optimizer *opt;
    int calls;
} line;

static void line_step(sw_ctx *c, void *user)
{
    line *l = user;
    sw_value sum[GROUPS];
    l->calls++;
    for (int g = 0; g < GROUPS; g++)
        sum[g] = sw_sum(c, sw_mul(c, sw_use(c, l->w[g]), sw_input(c, g)), 0);
    sw_backward(c, sw_add(c, sum[0], sum[1]), &l->opt, 1);
    sw_update(c, l->opt);
}

/* The numbers of group g in a step; all of them change. */
typedef struct {
    float lr, decay, momentum, beta1, beta2;
} settings;

static settings settings_at(int step, int g)
{
    const float s = (float)step, o = (float)g;
    return (settings){.lr = 0.01f + 0.004f * s / 20.0f + 0.01f * o,
                      .decay = step % 3 == 1 ? 0.0f : 0.05f + 0.01f * o,
                      .momentum = step % 5 == 4 ? 0.0f : 0.3f + 0.03f * s,
                      .beta1 = step % 4 == 2 ? 0.0f : 0.5f + 0.02f * s - 0.1f * o,
                      .beta2 = 0.9f + 0.005f * s - 0.03f * o};
}

/* One element; done[i]: the product of beta i of all steps. */
typedef struct {
    double w, m, v;
} element;

static void plain_sgd(element *e, double g, const settings *s, bool nesterov)
{
    g += (double)s->decay * e->w;
    e->m = (double)s->momentum * e->m + g;
    e->w -= (double)s->lr * (nesterov ? g + (double)s->momentum * e->m : e->m);
}

static void plain_adam(element *e, double g, const settings *s, bool decoupled,
                       const double done[2])
{
    const double b1 = (double)s->beta1, b2 = (double)s->beta2;
    if (decoupled)
        e->w -= (double)s->lr * (double)s->decay * e->w;
    else
        g += (double)s->decay * e->w;
    e->m = b1 * e->m + (1.0 - b1) * g;
    e->v = b2 * e->v + (1.0 - b2) * g * g;
    e->w -= (double)s->lr * (e->m / (1.0 - done[0])) / (sqrt(e->v / (1.0 - done[1])) + 1e-8);
}

static void plain_rmsprop(element *e, double g, const settings *s)
{
    g += (double)s->decay * e->w;
    e->v = 0.99 * e->v + (1.0 - (double)0.99f) * g * g;
    e->m = (double)s->momentum * e->m + g / (sqrt(e->v) + 1e-8);
    e->w -= (double)s->lr * e->m;
}

static void plain_adagrad(element *e, double g, const settings *s)
{
    g += (double)s->decay * e->w;
    e->v += g * g;
    e->w -= (double)s->lr * g / (sqrt(e->v) + 1e-10);
}

static void plain_step(element *e, double g, const settings *s, const sw_optimizer_opts *o,
                       const double done[2])
{
    if (strcmp(o->kind, "sgd") == 0)
        plain_sgd(e, g, s, o->nesterov != 0);
    else if (strcmp(o->kind, "lion") == 0) {
        const double b1 = (double)s->beta1, b2 = (double)s->beta2;
        const double c = b1 * e->m + (1.0 - b1) * g;
        e->w -= (double)s->lr * ((c > 0) - (c < 0) + (double)s->decay * e->w);
        e->m = b2 * e->m + (1.0 - b2) * g;
    } else if (strcmp(o->kind, "rmsprop") == 0)
        plain_rmsprop(e, g, s);
    else if (strcmp(o->kind, "adagrad") == 0)
        plain_adagrad(e, g, s);
    else
        plain_adam(e, g, s, strcmp(o->kind, "adamw") == 0, done);
}

static void line_new(line *l, sw_optimizer_opts opts)
{
    *l = (line){0};
    l->model = made_model("line");
    l->w[0] = sw_param_new(l->model, "a", SW_F32, SW_SHAPE(EACH), "normal:1");
    l->w[1] = sw_param_new(l->model, "b", SW_F32, SW_SHAPE(EACH), "normal:1");
    const sw_param_group groups[] = {{.params = l->w, .n_params = 1, .lr = 0.5f},
                                     {.params = l->w + 1, .n_params = 1, .lr = 0.5f}};
    opts.groups = groups;
    opts.n_groups = GROUPS;
    opts.knobs = 1;
    OK(sw_optimizer_create(&l->opt, l->model, &opts));
}

static void compare_schedule(const sw_optimizer_opts *opts)
{
    sw_exec *exec = net_exec(NULL);
    line l;
    float w[GROUPS][EACH], x[GROUPS][EACH];
    element e[GROUPS][EACH];
    double done[GROUPS][2] = {{1.0, 1.0}, {1.0, 1.0}};
    uint64_t calls = 0;
    line_new(&l, *opts);
    OK(sw_model_ready(l.model, exec, 8));
    sw_array in[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        in[g] = (sw_array){SW_F32, SW_SHAPE(EACH), x[g]};
        OK(sw_param_read(l.w[g], w[g], sizeof w[g]));
        for (int i = 0; i < EACH; i++)
            e[g][i] = (element){.w = (double)w[g][i]};
    }
    for (int step = 0; step < STEPS; step++) {
        for (int g = 0; g < GROUPS; g++) {
            const settings s = settings_at(step, g);
            done[g][0] *= (double)s.beta1;
            done[g][1] *= (double)s.beta2;
            const struct {
                const char *name;
                float value;
            } all[] = {{"lr", s.lr},
                       {"weight_decay", s.decay},
                       {"momentum", s.momentum},
                       {"beta1", s.beta1},
                       {"beta2", s.beta2}};
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                const sw_knob knob = sw_optimizer_knob(l.opt, g, all[i].name);
                if (knob.index == UINT32_MAX)
                    continue;
                sw_knob_set(knob, all[i].value);
                CU_ASSERT_EQUAL(sw_knob_get(knob), all[i].value);
            }
            for (int i = 0; i < EACH; i++) {
                x[g][i] =
                    sinf((float)(i * 3 + step * 7 + g)) * (i % 5 == 0 ? 2.0f : 0.4f) + 0.05f;
                plain_step(&e[g][i], (double)x[g][i], &s, opts, done[g]);
            }
        }
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = line_step, .user = &l, .models = &l.model,
                                 .n_models = 1, .inputs = in, .n_inputs = GROUPS)));
        calls = step == 1 ? sw_mem_calls() : calls;
    }
    SW_CHECK(sw_mem_calls() == calls, "%s: a change took memory", opts->kind);
    SW_CHECK(l.calls == 1, "%s: traced %d times", opts->kind, l.calls);
    for (int g = 0; g < GROUPS; g++) {
        OK(sw_param_read(l.w[g], w[g], sizeof w[g]));
        for (int i = 0; i < EACH; i++)
            SW_CHECK(fabs((double)w[g][i] - e[g][i].w) <= 2e-5 * fmax(1.0, fabs(e[g][i].w)),
                     "%s, group %d, element %d: %.9g, plainly %.9g", opts->kind, g, i,
                     (double)w[g][i], e[g][i].w);
    }
}

SW_TEST("a schedule is that of plain loops")
{
    static const sw_optimizer_opts opts[] = {
        {.size = sizeof *opts, .kind = "sgd"},
        {.size = sizeof *opts, .kind = "sgd", .nesterov = 1},
        {.size = sizeof *opts, .kind = "adam"},
        {.size = sizeof *opts, .kind = "adamw"},
        {.size = sizeof *opts, .kind = "rmsprop"},
        {.size = sizeof *opts, .kind = "adagrad"},
        {.size = sizeof *opts, .kind = "lion"},
    };
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        compare_schedule(&opts[i]);
}

/* Its rate alone depends on the parameter; the decay is straight on it. */
SW_TEST("the decay of adafactor is read")
{
    sw_exec *exec = net_exec(NULL);
    float w[2][EACH];
    static const float decays[] = {0.0f, 0.5f};
    for (int k = 0; k < 2; k++) {
        line l;
        float x[GROUPS][EACH] = {{0.0f}};
        line_new(&l, SW_OPTS(sw_optimizer_opts, .kind = "adafactor", .lr = 0.25f));
        sw_knob_set(sw_optimizer_knob(l.opt, 0, "weight_decay"), decays[k]);
        sw_knob_set(sw_optimizer_lr(l.opt, 0), 0.25f);
        OK(sw_model_ready(l.model, exec, 3));
        const sw_array in[] = {{SW_F32, SW_SHAPE(EACH), x[0]}, {SW_F32, SW_SHAPE(EACH), x[1]}};
        OK(sw_run(exec, &SW_OPTS(sw_run_args, .fn = line_step, .user = &l, .models = &l.model,
                                 .n_models = 1, .inputs = in, .n_inputs = GROUPS)));
        OK(sw_param_read(l.w[0], w[k], sizeof w[k]));
    }
    for (int i = 0; i < EACH; i++) /* 1 - 0.25 0.5 is exact; gradients are 0 */
        CU_ASSERT_EQUAL(w[1][i], w[0][i] * 0.875f);
}

/* ---- what is refused --------------------------------------------------------------------- */

SW_TEST("what cannot be is refused by name")
{
    static const struct {
        const char *kind, *name, *says;
        float bad[4];
    } rows[] = {
        {"sgd",
         "momentum",
         "the momentum of optimizer 0 (sgd), group 1 must be at least 0 and below 1",
         {1.0f, -0.1f, NAN, INFINITY}},
        {"adam",
         "beta1",
         "the beta1 of optimizer 0 (adam), group 1 must be at least 0",
         {1.0f, -0.1f, NAN, -INFINITY}},
        {"lion",
         "beta2",
         "the beta2 of optimizer 0 (lion), group 1 must be at least 0",
         {1.5f, -1e-9f, NAN, INFINITY}},
        {"rmsprop",
         "weight_decay",
         "the weight decay of optimizer 0 (rmsprop), group 1 must be finite and at least 0",
         {-1.0f, -0.1f, NAN, INFINITY}},
        {"adafactor",
         "lr",
         "the learning rate of optimizer 0 (adafactor), group 1 must be",
         {-1.0f, -0.1f, NAN, INFINITY}},
    };
    sw_exec *exec = net_exec(NULL);
    static const float x[EACH] = {1.0f};
    const sw_array in[] = {{SW_F32, SW_SHAPE(EACH), x}, {SW_F32, SW_SHAPE(EACH), x}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        line l;
        line_new(&l, SW_OPTS(sw_optimizer_opts, .kind = rows[i].kind));
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = line_step, .user = &l, .models = &l.model, .n_models = 1,
                    .inputs = in, .n_inputs = GROUPS);
        const sw_knob knob = sw_optimizer_knob(l.opt, 1, rows[i].name);
        const float good = sw_knob_get(knob);
        CU_ASSERT(knob.index != UINT32_MAX);
        for (int k = 0; k < 4; k++) {
            sw_knob_set(knob, rows[i].bad[k]);
            CU_ASSERT(strstr(sw_last_error(), rows[i].says) != NULL);
            CU_ASSERT_EQUAL(sw_knob_get(knob), good);
            REFUSED(sw_run(exec, &args), SW_INVALID, rows[i].says);
            sw_knob_set(knob, 0.0f);
            OK(sw_run(exec, &args));
            sw_knob_set(knob, good);
        }
    }
}

SW_TEST("knobs that are not there")
{
    static const struct {
        const char *kind, *has;
    } rows[] = {
        {"sgd", "lr weight_decay momentum"},      {"adam", "lr weight_decay beta1 beta2"},
        {"adamw", "lr weight_decay beta1 beta2"}, {"lion", "lr weight_decay beta1 beta2"},
        {"rmsprop", "lr weight_decay momentum"},  {"adagrad", "lr weight_decay"},
        {"adafactor", "lr weight_decay"}};
    static const char *const names[] = {"lr",    "weight_decay", "momentum", "beta1",
                                        "beta2", "epsilon",      ""};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (uint64_t on = 0; on < 2; on++) {
            on_net n;
            on_start(&n, &SW_OPTS(sw_optimizer_opts, .kind = rows[k].kind,
                                  .weight_decay = 0.25f, .knobs = on));
            for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                const bool has = names[i][0] != '\0' && strstr(rows[k].has, names[i]) != NULL;
                const sw_knob knob = sw_optimizer_knob(n.opt, 0, names[i]);
                SW_CHECK((knob.index != UINT32_MAX) == (has && (on != 0 || i == 0)),
                         "%s, %s, knobs %d", rows[k].kind, names[i], (int)on);
                CU_ASSERT(i != 1 || on == 0 || sw_knob_get(knob) == 0.25f);
            }
            CU_ASSERT_EQUAL(sw_optimizer_knob(n.opt, 0, "lr").index,
                            sw_optimizer_lr(n.opt, 0).index);
            CU_ASSERT_EQUAL(sw_optimizer_knob(n.opt, 1, "lr").index, UINT32_MAX);
            CU_ASSERT_EQUAL(sw_optimizer_knob(n.opt, -1, "lr").index, UINT32_MAX);
            CU_ASSERT_EQUAL(sw_optimizer_knob(n.opt, 0, NULL).index, UINT32_MAX);
            on_end();
        }
    on_net n;
    sw_optimizer *o = NULL;
    sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .knobs = 2);
    on_begin(&n);
    REFUSED(sw_optimizer_create(&o, n.model, &opts), SW_INVALID,
            "knobs must be 0 or 1 (got 2)");
    opts.knobs = 0;
    opts.nesterov = 1;
    REFUSED(sw_optimizer_create(&o, n.model, &opts), SW_INVALID, "nesterov needs a momentum");
    CU_ASSERT_PTR_NULL(o);
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_status life(void *unused)
{
    sw_model *m = NULL;
    sw_optimizer *o;
    sw_status status = sw_model_create(&m, "life");
    if (status == SW_OK) {
        const sw_param p[] = {sw_param_new(m, "a", SW_F32, SW_SHAPE(3), "normal:1"),
                              sw_param_new(m, "b", SW_F32, SW_SHAPE(3), "normal:1"),
                              sw_param_new(m, "c", SW_F32, SW_SHAPE(3), "normal:1")};
        const sw_param_group groups[] = {{.params = p, .n_params = 1},
                                         {.params = p + 1, .n_params = 1},
                                         {.params = p + 2, .n_params = 1}};
        const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam",
                                               .groups = groups, .n_groups = 3, .knobs = 1);
        status = sw_optimizer_create(&o, m, &opts);
    }
    sw_model_destroy(m);
    return status;
}

SW_TEST("every allocation may fail")
{
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, life, NULL);
    CU_ASSERT(sites >= 3);
}
