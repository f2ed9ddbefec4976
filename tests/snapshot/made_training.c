/* See made_training.h. */
#include "tests/snapshot/made_training.h"
#include "tests/support/suite.h"

#define T "/usr/lib/python3.11/site-packages/torch/"
#define MODULE ";" T "nn/modules/module.py|1501|_call_impl;/u/train.py|30|main"

enum SW_INIT(NO_FRAMES, INIT, DATA, LINEAR, EXP, DIV, SIGMOID, MUL, POW, RSQRT, NORMED, SCORES,
             SOFTMAX, ATTENDED, SCORES_2, SOFTMAX_2, ATTENDED_2, HEAD, LOGITS, LOSS, ONES,
             BACKWARD, UPDATE, FOREACH, ZERO, Q, FLASH, UP, GELU, DOWN, NORM_FIRST, PROJECT,
             PROJECT_FIRST, NORM_LAST, GATE_B, GATE_SIGMOID, GATE_MUL, RELU, ROOT, PLUS, RELU_2,
             PRODUCT_1, PRODUCT_2, MEAN_1, MEAN_2, MEAN_3, MEAN_4, STACKS);

/* Who asks: the operator that C++ shows, and Python's frames. */
static const struct {
    const char *op, *python;
} by[STACKS] = {
    [INIT] = {"empty",
              T "nn/modules/linear.py|99|__init__;/u/net.py|5|__init__;/u/train.py|9|main"},
    [DATA] = {"_to_copy", "/u/train.py|20|main"},
    [LINEAR] = {"linear", T "nn/modules/linear.py|116|forward;/u/net.py|40|forward" MODULE},
    [EXP] = {"exp", "/u/parts.py|6|softmax;/u/net.py|41|forward" MODULE},
    [DIV] = {"div", "/u/parts.py|7|softmax;/u/net.py|41|forward" MODULE},
    [SIGMOID] = {"sigmoid", "/u/parts.py|12|silu;/u/net.py|42|forward" MODULE},
    [MUL] = {"mul", "/u/parts.py|13|silu;/u/net.py|42|forward" MODULE},
    [POW] = {"pow", "/u/parts.py|20|rms_norm;/u/net.py|43|forward" MODULE},
    [RSQRT] = {"rsqrt", "/u/parts.py|21|rms_norm;/u/net.py|43|forward" MODULE},
    [NORMED] = {"mul", "/u/parts.py|22|rms_norm;/u/net.py|43|forward" MODULE},
    [SCORES] = {"bmm", "/u/parts.py|30|attention;/u/net.py|44|forward" MODULE},
    [SOFTMAX] =
        {"softmax",
         T "nn/functional.py|9|softmax;/u/parts.py|31|attention;/u/net.py|44|forward" MODULE},
    [ATTENDED] = {"bmm", "/u/parts.py|32|attention;/u/net.py|44|forward" MODULE},
    [SCORES_2] = {"matmul", "/u/net.py|45|forward" MODULE},
    [SOFTMAX_2] = {"softmax", T "nn/functional.py|9|softmax;/u/net.py|46|forward" MODULE},
    [ATTENDED_2] = {"matmul", "/u/net.py|47|forward" MODULE},
    [HEAD] = {"linear", T "nn/modules/linear.py|116|forward;/u/net.py|50|forward" MODULE},
    [LOGITS] = {"to", "/u/parts.py|60|cross_entropy;/u/train.py|31|main"},
    [LOSS] = {"nll_loss", "/u/parts.py|62|cross_entropy;/u/train.py|31|main"},
    [ONES] = {"ones_like", T "autograd/__init__.py|90|_make_grads;" T
                             "_tensor.py|500|backward;/u/train.py|32|main"},
    [BACKWARD] = {"mm", ""},
    [UPDATE] = {"zeros_like", T "optim/adam.py|300|_single_tensor_adam;" T
                                "optim/optimizer.py|5|wrapper;/u/train.py|33|main"},
    [FOREACH] = {"_foreach_mul", T "optim/adam.py|500|_multi_tensor_adam;" T
                                   "optim/optimizer.py|5|wrapper;/u/train.py|33|main"},
    [ZERO] = {"zero_", T "optim/optimizer.py|7|zero_grad;/u/train.py|34|main"},
    [Q] = {"linear", "/u/like.py|1|attention;/u/net.py|48|forward" MODULE},
    [FLASH] = {"scaled_dot_product_attention",
               "/u/like.py|2|attention;/u/net.py|48|forward" MODULE},
    [UP] = {"linear", "/u/like.py|4|gelu_mlp;/u/net.py|48|forward" MODULE},
    [GELU] = {"gelu", "/u/like.py|5|gelu_mlp;/u/net.py|48|forward" MODULE},
    [DOWN] = {"linear", "/u/like.py|6|gelu_mlp;/u/net.py|48|forward" MODULE},
    [NORM_FIRST] = {"mul", "/u/like.py|8|norm_and_project;/u/net.py|48|forward" MODULE},
    [PROJECT] = {"linear", "/u/like.py|9|norm_and_project;/u/net.py|48|forward" MODULE},
    [PROJECT_FIRST] = {"linear", "/u/like.py|11|project_norm;/u/net.py|48|forward" MODULE},
    [NORM_LAST] = {"layer_norm", T "nn/functional.py|90|layer_norm;/u/like.py|12|project_norm;/"
                                   "u/net.py|48|forward" MODULE},
    [GATE_B] = {"linear", "/u/like.py|14|gate;/u/net.py|48|forward" MODULE},
    [GATE_SIGMOID] = {"sigmoid", "/u/like.py|15|gate;/u/net.py|48|forward" MODULE},
    [GATE_MUL] = {"mul", "/u/like.py|16|gate;/u/net.py|48|forward" MODULE},
    [RELU] = {"relu", "/u/like.py|18|root;/u/net.py|48|forward" MODULE},
    [ROOT] = {"sqrt", "/u/like.py|19|root;/u/net.py|48|forward" MODULE},
    [PLUS] = {"add", "/u/like.py|20|root;/u/net.py|48|forward" MODULE},
    [RELU_2] = {"relu", "/u/like.py|21|root;/u/net.py|48|forward" MODULE},
    [PRODUCT_1] = {"linear", "/u/like.py|23|attention;/u/net.py|48|forward" MODULE},
    [PRODUCT_2] = {"bmm", "/u/like.py|24|attention;/u/net.py|48|forward" MODULE},
    [MEAN_1] = {"pow", "/u/like.py|26|scale;/u/net.py|48|forward" MODULE},
    [MEAN_2] = {"mean", "/u/like.py|26|scale;/u/net.py|48|forward" MODULE},
    [MEAN_3] = {"rsqrt", "/u/like.py|26|scale;/u/net.py|48|forward" MODULE},
    [MEAN_4] = {"mul", "/u/like.py|27|scale;/u/net.py|48|forward" MODULE},
};

/* "C:\\u\\net.py" for "/u/net.py". */
static void to_windows(char *text, size_t room)
{
    char copy[2048];
    size_t n = 0;
    for (const char *c = text; *c != '\0' && n + 8 < sizeof copy; c++) {
        const bool path = *c == '/' && strncmp(c, "/u/", 3) == 0;
        if (path)
            n += (size_t)snprintf(copy + n, sizeof copy - n, "C:");
        copy[n++] = *c == '/' ? '\\' : *c;
    }
    copy[n] = '\0';
    snprintf(text, room, "%s", copy);
}

/* Lines of the user's own files. */
static void move_lines(char *text, size_t room, int by_lines)
{
    char copy[2048];
    size_t n = 0;
    bool own = false;
    for (const char *c = text; *c != '\0' && n + 16 < sizeof copy; c++) {
        own = c == text || c[-1] == ';' ? strncmp(c, "/u/", 3) == 0 : own;
        if (own && *c == '|' && c[1] >= '0' && c[1] <= '9') {
            n += (size_t)snprintf(copy + n, sizeof copy - n, "|%d", atoi(c + 1) + by_lines);
            c += strspn(c + 1, "0123456789");
        } else
            copy[n++] = *c;
    }
    copy[n] = '\0';
    snprintf(text, room, "%s", copy);
}

static const char *const *stacks_of(const made_run *run)
{
    static char texts[STACKS][2048];
    static const char *all[STACKS];
    for (int i = 0; i < STACKS; i++) {
        all[i] = texts[i];
        const char *op = by[i].op != NULL ? by[i].op : "";
        if (run->native)
            snprintf(texts[i], sizeof texts[i],
                     "??|0|at::native::%s;??|0|at::_ops::%s::call()%s%s", op, op,
                     i == BACKWARD ? ";??|0|torch::autograd::Engine::thread_main(x)" : ";",
                     by[i].python != NULL ? by[i].python : "");
        else
            snprintf(texts[i], sizeof texts[i], "%s", by[i].python != NULL ? by[i].python : "");
        move_lines(texts[i], sizeof texts[i], run->lines);
        if (run->windows)
            to_windows(texts[i], sizeof texts[i]);
    }
    return all;
}

static uint64_t make(made_training *m, int stack, uint64_t bytes, const char *role)
{
    const uint64_t address = plain_malloc(m->p, 0, bytes, stack);
    CU_ASSERT_FATAL(address != 0 && m->p->n_events <= MADE_EVENTS);
    m->role[m->p->n_events - 1] = role;
    return address;
}

static void let_go(made_training *m, int stack, uint64_t *address)
{
    m->p->frees = stack;
    if (*address != 0)
        plain_free(m->p, *address, false);
    *address = 0;
}

static void brief(made_training *m, int stack, uint64_t bytes)
{
    uint64_t gone = make(m, stack, bytes, "temporary");
    let_go(m, stack, &gone);
}

#define MOST 256
typedef struct {
    made_training *m;
    const made_run *run;
    uint64_t weight[MOST], gradient[MOST], state[2][MOST], saved[MOST * 16];
    uint64_t input, loss;
    int n_saved, mark[MOST]; /* where a layer's begin */
} training;

static void keep(training *t, int stack, uint64_t bytes)
{
    if (t->run->no_backward) {
        brief(t->m, stack, bytes);
        return;
    }
    CU_ASSERT_FATAL(t->n_saved < MOST * 16);
    t->saved[t->n_saved++] = make(t->m, stack, bytes, "saved");
}

/* `parts` are kept, of which the last is what comes out; with `all` at work. */
static void compose(training *t, const int stacks[3], int parts, int all, uint64_t bytes)
{
    if (parts == 0)
        return;
    for (int i = 0; i < all - parts; i++)
        brief(t->m, stacks[i % 3], bytes);
    for (int i = 0; i < parts; i++)
        keep(t, stacks[i == parts - 1 ? 2 : i % 3], bytes);
}

/* The results of a function, of MADE_SCORES each: kept, or gone after the next or by itself. */
enum { KEPT = 1, LATE, GONE };
static const struct {
    int stack, how;
} likes[][6] = {
    [LIKE_FUSED_ATTENTION] = {{Q, KEPT}, {FLASH, KEPT}, {FLASH, KEPT}, {FLASH, KEPT}},
    [LIKE_GELU_MLP] = {{UP, KEPT}, {GELU, KEPT}, {DOWN, KEPT}},
    [LIKE_NORM_AND_PROJECT] = {{NORM_FIRST, KEPT}, {PROJECT, KEPT}, {PROJECT, KEPT}},
    [LIKE_MLP_NORM] = {{PROJECT_FIRST, KEPT}, {NORM_LAST, KEPT}, {NORM_LAST, KEPT}},
    [LIKE_GATE] = {{GATE_B, KEPT}, {GATE_B, LATE}, {GATE_SIGMOID, KEPT}, {GATE_MUL, KEPT}},
    [LIKE_ROOT] = {{RELU, KEPT}, {ROOT, KEPT}, {PLUS, KEPT}, {RELU_2, KEPT}},
    [LIKE_PRODUCTS_ALONE] = {{PRODUCT_1, KEPT}, {PRODUCT_1, KEPT}, {PRODUCT_2, KEPT}},
    [LIKE_SILU] = {{GATE_B, KEPT}, {GATE_SIGMOID, KEPT}, {GATE_MUL, KEPT}},
    [LIKE_RMS] = {{RELU, KEPT},
                  {MEAN_1, GONE},
                  {MEAN_2, GONE},
                  {MEAN_3, GONE},
                  {MEAN_4, KEPT},
                  {MEAN_4, KEPT}},
};

static void look_alike(training *t)
{
    uint64_t late = 0;
    for (size_t i = 0; i < 6 && likes[t->run->like][i].stack > 0; i++) {
        const int stack = likes[t->run->like][i].stack, how = likes[t->run->like][i].how;
        uint64_t next = how == LATE ? make(t->m, stack, MADE_SCORES, "temporary") : 0;
        if (how == KEPT)
            keep(t, stack, MADE_SCORES);
        else if (how == GONE)
            brief(t->m, stack, MADE_SCORES);
        let_go(t->m, stack, &late);
        late = next;
    }
}

static void forward(training *t)
{
    static const int softmax[] = {EXP, EXP, DIV}, silu[] = {SIGMOID, SIGMOID, MUL},
                     norm[] = {POW, RSQRT, NORMED};
    const made_run *r = t->run;
    for (int i = 0; i < r->layers; i++) {
        const uint64_t odd = r->ragged ? 1 + (uint64_t)(i * 7 % 13) * 400000 : 0;
        t->mark[i] = t->n_saved;
        brief(t->m, LINEAR, MADE_OUT + 2 * odd);
        keep(t, LINEAR, MADE_OUT + odd);
        compose(t, softmax, r->softmax, 3, MADE_PART);
        compose(t, silu, r->silu, 2, MADE_PART);
        compose(t, norm, r->norm, 3, MADE_PART);
        if (r->scores != 0)
            brief(t->m, r->nameless ? SCORES_2 : SCORES, MADE_SCORES);
        for (int k = 0; k < r->scores; k++)
            keep(t, r->nameless ? SOFTMAX_2 : SOFTMAX, MADE_SCORES);
        if (r->scores != 0)
            keep(t, r->nameless ? ATTENDED_2 : ATTENDED, MADE_OUT);
        if (r->like > 0)
            look_alike(t);
    }
}

static void backward(training *t)
{
    uint64_t one = make(t->m, ONES, 512, "temporary"),
             gone = make(t->m, BACKWARD, MADE_OUT, "temporary");
    for (int i = t->run->layers - 1; i >= 0; i--) {
        for (int k = t->mark[i]; k < t->n_saved; k++)
            let_go(t->m, BACKWARD, &t->saved[k]);
        t->n_saved = t->mark[i];
        if (t->gradient[i] == 0)
            t->gradient[i] = make(t->m, BACKWARD, MADE_WEIGHT + (uint64_t)i * 512, "gradient");
        else
            brief(t->m, BACKWARD, MADE_WEIGHT + (uint64_t)i * 512);
    }
    let_go(t->m, BACKWARD, &gone);
    let_go(t->m, BACKWARD, &one);
}

static void update(training *t)
{
    uint64_t gone[MOST] = {0};
    for (int i = 0; i < t->run->layers; i++) {
        const uint64_t bytes = MADE_WEIGHT + (uint64_t)i * 512;
        for (int k = 0; k < 2 && t->state[k][i] == 0; k++)
            t->state[k][i] = make(t->m, UPDATE, bytes, "optimizer_state");
    }
    for (int i = 0; i < t->run->layers; i++) {
        const uint64_t bytes = MADE_WEIGHT + (uint64_t)i * 512;
        if (t->run->foreach)
            gone[i] = make(t->m, FOREACH, bytes, "temporary");
        else
            brief(t->m, UPDATE, bytes);
    }
    for (int i = 0; i < t->run->layers; i++)
        let_go(t->m, FOREACH, &gone[i]);
}

static void zero(training *t)
{
    for (int i = 0; i < t->run->layers && !t->run->keeps_zero; i++)
        let_go(t->m, ZERO, &t->gradient[i]);
}

static void step(training *t)
{
    const made_run *r = t->run;
    uint64_t input = make(t->m, DATA, MADE_OUT, "input");
    let_go(t->m, DATA, &t->input);
    t->input = input;
    if (!r->late_zero && !r->no_update)
        zero(t);
    forward(t);
    keep(t, HEAD, MADE_LOGITS);
    if (r->no_backward)
        return;
    for (int i = 0; i < r->logits; i++)
        keep(t, LOGITS, MADE_LOGITS);
    uint64_t loss = make(t->m, LOSS, 512, "output");
    let_go(t->m, LOSS, &t->loss);
    t->loss = loss;
    if (r->late_input)
        let_go(t->m, DATA, &t->input);
    if (r->late_zero)
        zero(t);
    backward(t);
    if (!r->no_update)
        update(t);
}

void made_train(made_training *m, const made_run *run)
{
    static training t;
    memset(m, 0, sizeof *m);
    m->p = plain_new(3);
    m->p->stacks = stacks_of(run);
    t = (training){.m = m, .run = run};
    CU_ASSERT_FATAL(run->layers <= MOST);
    for (int i = 0; i < run->layers; i++)
        t.weight[i] = make(m, INIT, MADE_WEIGHT + (uint64_t)i * 512, "parameter");
    for (int i = 0; i < run->steps; i++)
        step(&t);
}
