/* Inheritance: what nets compute is preserved, training goes on, what is refused changes
 * nothing. */
#include "alloc/base/sys.h"
#include "kernels/state8.h"
#include "tests/evolve/inherit_plain.h"
#include "tests/support/heap_sweep.h"
#include <float.h>

SW_TESTS("inheritance")

/* ---- functions are preserved ------------------------------------------------------------- */

static void train(sw_exec *exec, sw_net *made, const scene_batch *b, int steps)
{
    sw_run_args args = SCENE_ARGS(made, b, SW_TRAIN);
    for (int i = 0; i < steps; i++) {
        args.step = (uint64_t)i;
        OK(sw_run(exec, &args));
    }
}

static double apart(const float *a, const float *b, int64_t n)
{
    double most = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        scale = fmax(scale, fabs((double)a[i]));
        CU_ASSERT(isfinite(a[i]) && isfinite(b[i]));
    }
    CU_ASSERT(scale > 0);
    return scale > 0 ? most / scale : most;
}

/* Trained a little, so that nothing is as it began; then the child's logits. */
static double change(sw_exec *exec, const sw_genome *parent, const sw_genome *child)
{
    const scene_batch b = scene_data(parent, SW_F32, 6, 3);
    sw_net *from = scene_ready(parent, NULL, exec, 1), *to = scene_ready(child, NULL, exec, 2);
    train(exec, from, &b, 2);
    OK(sw_net_inherit(to, from, NULL, 5));
    const float *logits = scene_run_logits(exec, from, &b);
    const double d = apart(logits, scene_run_logits(exec, to, &b), b.rows * 10);
    train(exec, to, &b, 2); /* and it trains on */
    return d;
}

/* Every sized vertex of a chain in turn. */
SW_TEST("widening preserves the function")
{
    sw_exec *exec = scene_exec(1);
    double most = 0;
    const sw_genome *lenet = scene_lenet();
    for (uint32_t i = 1; i + 1 < lenet->n; i++) {
        if (!swi_vertex_is_sized(&lenet->vertices[i]))
            continue;
        sw_genome *child = scene_child(lenet);
        scene_widen(child, i, 3);
        scene_follow(child, lenet);
        most = fmax(most, change(exec, lenet, child));
    }
    CU_ASSERT(most <= 1e-6);
    sw_note("logits change by at most %.1e", most);
}

SW_TEST("widening residuals preserves the function")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *deep = scene_deep(30);
    sw_genome *child = scene_child(deep);
    for (uint32_t i = 1; i < deep->n; i++)
        if (deep->vertices[i].kind == SW_VERTEX_CONV2D)
            scene_widen(child, i, 5);
    scene_follow(child, deep);
    const double d = change(exec, deep, child);
    SW_CHECK(d <= 1e-6, "%g", d);
}

SW_TEST("larger kernels preserve the function")
{
    sw_exec *exec = scene_exec(1);
    for (int more = 2; more <= 4; more += 2) {
        const sw_genome *deep = scene_deep(20);
        sw_genome *child = scene_child(deep);
        for (uint32_t i = 1; i < deep->n; i++)
            if (deep->vertices[i].kind == SW_VERTEX_CONV2D)
                child->vertices[i].kernel += more;
        scene_follow(child, deep);
        const double d = change(exec, deep, child);
        SW_CHECK(d <= 1e-6, "%d: %g", more, d);
    }
}

SW_TEST("inserted identities preserve the function")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *lenet = scene_lenet();
    for (int groups = 0; groups <= 3; groups++) {
        sw_genome *child = scene_child(lenet);
        swi_vertex *conv = scene_between(child, 3, SW_VERTEX_CONV2D, "extra"); /* 6 channels */
        conv->kernel = 3;
        conv->groups = groups;
        conv->size = groups == 0 ? 0 : 6;
        scene_between(child, 9, SW_VERTEX_LINEAR, "more");
        scene_follow(child, lenet);
        const double d = change(exec, lenet, child);
        SW_CHECK(d <= 1e-6, "%d groups: %g", groups, d);
    }
}

/* All of it at once, generation upon generation. */
SW_TEST("generations preserve the function")
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {9};
    sw_genome *g = scene_lenet();
    const scene_batch b = scene_data(g, SW_F32, 6, 3);
    sw_net *from = scene_ready(g, NULL, exec, 1);
    const float *logits = scene_run_logits(exec, from, &b);
    double most = 0;
    for (int k = 0; k < 12; k++) {
        sw_genome *child = scene_child(from->genome);
        for (uint32_t i = 1; i + 1 < child->n; i++)
            if (swi_vertex_is_sized(&child->vertices[i]) && sw_dice_below(&dice, 2))
                scene_widen(child, i, (int64_t)sw_dice_below(&dice, 4));
        for (uint32_t i = 1; i < child->n; i++)
            if (child->vertices[i].kind == SW_VERTEX_CONV2D && sw_dice_below(&dice, 4) == 0)
                child->vertices[i].kernel += 2;
        scene_follow(child, from->genome);
        sw_net *to = scene_ready(child, NULL, exec, 2);
        OK(sw_net_inherit(to, from, NULL, (uint64_t)k));
        most = fmax(most, apart(logits, scene_run_logits(exec, to, &b), b.rows * 10));
        from = to;
    }
    SW_CHECK(most <= 1e-6, "%g", most);
}

/* Shrunk by what was added, a net has its bits again. */
SW_TEST("narrowing takes back what widening added")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *lenet = scene_lenet();
    sw_genome *wide = scene_child(lenet);
    scene_widen(wide, 1, 4);
    scene_widen(wide, 8, 7);
    scene_follow(wide, lenet);
    sw_genome *back = scene_child(wide);
    scene_widen(back, 1, -4);
    scene_widen(back, 8, -7);
    scene_follow(back, wide);
    const scene_batch b = scene_data(lenet, SW_F32, 6, 3);
    sw_net *a = scene_ready(lenet, NULL, exec, 1), *w = scene_ready(wide, NULL, exec, 2);
    sw_net *n = scene_ready(back, NULL, exec, 3);
    train(exec, a, &b, 3);
    OK(sw_net_inherit(w, a, NULL, 5));
    OK(sw_net_inherit(n, w, NULL, 6));
    CU_ASSERT_EQUAL(a->model->bytes, n->model->bytes);
    CU_ASSERT(memcmp(a->model->base, n->model->base, a->model->bytes) == 0);
}

/* ---- optimizers -------------------------------------------------------------------------- */

/* A child that is its parent trains on as the parent would have, bit for bit. */
SW_TEST("training goes on")
{
    static const char *const kinds[] = {"sgd",     "adam", "adamw",    "rmsprop",
                                        "adagrad", "lion", "adafactor"};
    const sw_net_opts in8 = SW_OPTS(sw_net_opts, .state_bits = 8);
    sw_exec *exec = scene_exec(1);
    for (int k = 0; k < 7; k++) {
        sw_genome *g = scene_lenet();
        snprintf(g->optimizer, sizeof g->optimizer, "%s", kinds[k]);
        g->momentum = k == 0 || k == 3 ? 0.9f : 0;
        scene_check(g);
        const scene_batch b = scene_data(g, SW_F32, 6, 3);
        sw_net *a = scene_ready(g, NULL, exec, 1);
        sw_net *c = scene_ready(scene_child(g), NULL, exec, 2);
        train(exec, a, &b, 3);
        OK(sw_net_inherit(c, a, NULL, 7));
        train(exec, a, &b, 3);
        train(exec, c, &b, 3);
        SW_CHECK(memcmp(a->model->base, c->model->base, a->model->bytes) == 0, "%s", kinds[k]);
        sw_net *a8 = scene_ready(g, &in8, exec, 1);
        sw_net *c8 = scene_ready(scene_child(g), &in8, exec, 2);
        const bool has = k < 3 || k == 5; /* others keep float32 */
        CU_ASSERT((a8->model->bytes < a->model->bytes) == has);
        train(exec, a8, &b, 3);
        OK(sw_net_inherit(c8, a8, NULL, 7));
        train(exec, a8, &b, 3);
        train(exec, c8, &b, 3);
        SW_CHECK(memcmp(a8->model->base, c8->model->base, a8->model->bytes) == 0, "%s, 8 bits",
                 kinds[k]);
    }
}

/* ---- states in 8 bits -------------------------------------------------------------------- */

typedef struct {
    const swi_entry *entry;
    int64_t cols;
    float *values, *scales;
    uint8_t *codes;       /* NULL: it is float32 */
    const float *of_code; /* values */
} state_of;

static state_of state_at(const sw_net *of, const swi_entry *param, int k)
{
    const sw_model *m = of->model;
    const bool in8 = m->entries[param->state[0]].dtype == SW_U8;
    const swi_entry *e = &m->entries[param->state[in8 ? 2 * k : k]];
    state_of s = {.entry = e, .cols = sw_state8_cols(&e->shape)};
    s.of_code = sw_state8_code_of(k == 0)->value;
    s.codes = in8 ? m->base + e->offset : NULL;
    s.scales = in8 ? (float *)(void *)(m->base + e[1].offset) : NULL;
    s.values = in8 ? NULL : (float *)(void *)(m->base + e->offset);
    return s;
}

static float number_of(const state_of *s, int64_t i)
{
    const int64_t block = i / s->cols * ((s->cols + 255) / 256) + i % s->cols / 256;
    return s->codes != NULL ? s->of_code[s->codes[i]] * s->scales[block] : s->values[i];
}

/* Each block has these numbers, or is what they are quantised to. Counts those of both. */
static void compare_state(const state_of *is, const state_of *numbers, bool has_sign,
                          uint64_t count[2])
{
    const int64_t n = swi_elements(&is->entry->shape);
    for (int64_t at = 0, block = 0, in; at < n; at += in, block++) {
        float value[256];
        uint8_t codes[256];
        float scale;
        bool same = true;
        in = is->cols - at % is->cols < 256 ? is->cols - at % is->cols : 256;
        for (int64_t i = 0; i < in; i++) {
            value[i] = numbers->values[at + i];
            same &= number_of(is, at + i) == value[i];
        }
        count[!same]++;
        if (same)
            continue;
        CU_ASSERT_FATAL(is->codes != NULL);
        sw_state8_encode(value, in, codes, &scale, has_sign);
        SW_CHECK(scale == is->scales[block] && memcmp(codes, is->codes + at, (size_t)in) == 0,
                 "'%s', block %lld", is->entry->name, (long long)block);
    }
}

/* A net with float32 states that are the numbers of the other one's inherits the same numbers:
 * wider, with larger windows, and narrow again; some states begin to be in 8 bits, or end. */
SW_TEST("states in 8 bits go with their neurons")
{
    const sw_net_opts in8 = SW_OPTS(sw_net_opts, .state_bits = 8);
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet();
    snprintf(g->optimizer, sizeof g->optimizer, "adamw");
    scene_check(g);
    const scene_batch b = scene_data(g, SW_F32, 6, 3);
    sw_net *from = scene_ready(g, &in8, exec, 1);
    uint64_t count[2] = {0, 0}, begun = 0, ended = 0;
    train(exec, from, &b, 3);
    for (int turn = 0; turn < 3; turn++) {
        sw_genome *child = scene_child(from->genome);
        for (uint32_t i = 1; i + 1 < child->n && turn != 1; i++)
            if (swi_vertex_is_sized(&child->vertices[i]))
                scene_widen(child, i, turn == 0 ? 5 : -8);
        for (uint32_t i = 1; i < child->n && turn == 1; i++)
            if (child->vertices[i].kind == SW_VERTEX_CONV2D)
                child->vertices[i].kernel += 2;
        scene_follow(child, from->genome);
        sw_net *plain = scene_ready(from->genome, NULL, exec, 1);
        sw_net *to = scene_ready(child, &in8, exec, 2);
        sw_net *numbers = scene_ready(child, NULL, exec, 3);
        for (int inherited = 0; inherited < 2; inherited++) {
            const sw_net *x = inherited ? to : from, *y = inherited ? numbers : plain;
            for (uint32_t i = 1; i < x->model->n_entries; i++) {
                const swi_entry *p = &x->model->entries[i], *q = &y->model->entries[i];
                if (p->role != SWI_ROLE_PARAMETER)
                    continue;
                for (int k = 0; k < 2; k++) {
                    const state_of s = state_at(x, p, k), t = state_at(y, q, k);
                    for (int64_t e = 0; !inherited && e < swi_elements(&p->shape); e++)
                        t.values[e] = number_of(&s, e);
                    if (inherited) {
                        const state_of was = state_at(from, &from->model->entries[i], k);
                        begun += was.codes == NULL && s.codes != NULL;
                        ended += was.codes != NULL && s.codes == NULL;
                        compare_state(&s, &t, k == 0, count);
                    }
                }
            }
            if (!inherited) {
                OK(sw_net_inherit(to, from, NULL, 5));
                OK(sw_net_inherit(numbers, plain, NULL, 5));
            }
        }
        from = to;
        const scene_batch more = scene_data(child, SW_F32, 6, 3);
        train(exec, from, &more, 2);
    }
    CU_ASSERT(count[0] > 100 && count[1] > 50 && begun > 0 && ended > 0);
    sw_note("%llu blocks as they were, %llu quantised again, %llu states begun, %llu ended",
            (unsigned long long)count[0], (unsigned long long)count[1],
            (unsigned long long)begun, (unsigned long long)ended);
}

/* Another kind begins anew; with momentum added, what was kept before stays. */
SW_TEST("state of another kind begins")
{
    sw_exec *exec = scene_exec(1);
    sw_genome *g = scene_lenet();
    snprintf(g->optimizer, sizeof g->optimizer, "rmsprop");
    scene_check(g);
    const scene_batch b = scene_data(g, SW_F32, 6, 3);
    sw_net *a = scene_ready(g, NULL, exec, 1);
    train(exec, a, &b, 3);
    sw_genome *other = scene_child(g), *more = scene_child(g);
    snprintf(other->optimizer, sizeof other->optimizer, "adam");
    more->momentum = 0.5f;
    scene_check(other);
    scene_check(more);
    sw_net *o = scene_ready(other, NULL, exec, 2), *m = scene_ready(more, NULL, exec, 2);
    OK(sw_net_inherit(o, a, NULL, 7));
    OK(sw_net_inherit(m, a, NULL, 7));
    for (uint32_t i = 1; i < o->model->n_entries; i++) {
        const swi_entry *e = &o->model->entries[i];
        if (e->role == SWI_ROLE_OPTIMIZER_STATE)
            for (size_t k = 0; k < e->bytes; k++)
                CU_ASSERT_FATAL(o->model->base[e->offset + k] == 0);
    }
    const swi_entry *was = &a->model->entries[a->model->entries[1].state[0]];
    bool kept = false;
    for (int k = 0; k < SWI_MAX_STATE && m->model->entries[1].state[k] != SWI_NONE; k++)
        kept |= memcmp(a->model->base + was->offset,
                       m->model->base + m->model->entries[m->model->entries[1].state[k]].offset,
                       was->bytes) == 0;
    CU_ASSERT(kept);
}

/* Rates and bounds are those of the child's genome. */
SW_TEST("knobs are the child's")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_genome *child = scene_child(g);
    child->lr = 0.25f;
    child->clip = 3;
    scene_check(child);
    sw_net *a = scene_ready(g, NULL, exec, 1), *c = scene_ready(child, NULL, exec, 2);
    OK(sw_net_inherit(c, a, NULL, 7));
    CU_ASSERT(sw_knob_get(sw_optimizer_lr(sw_net_optimizer(c), 0)) == 0.25f);
    CU_ASSERT(sw_knob_get(c->clip) == 3);
    const float *block =
        (const float *)(const void *)(c->model->base +
                                      c->model->entries[c->model->knob_entry].offset);
    for (uint32_t i = 0; i < c->model->n_knobs; i++)
        CU_ASSERT(block[i] == c->model->knobs[i].value);
}

SW_TEST("two parents give each its part")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_genome *h = scene_lenet();
    h->lr = 0.01f; /* another genome */
    scene_check(h);
    sw_genome *child = scene_child(g);
    child->n_parents = 2;
    child->parents[1] = swi_genome_hash(h);
    child->vertices[8].parent = 1;
    sw_net *a = scene_ready(g, NULL, exec, 1), *b = scene_ready(h, NULL, exec, 2);
    sw_net *c = scene_ready(child, NULL, exec, 3);
    OK(sw_net_inherit(c, a, b, 7));
    for (uint32_t i = 1; i < g->n; i++) {
        if (!swi_vertex_has_parameters(&g->vertices[i]))
            continue;
        const sw_net *from = i == 8 ? b : a;
        const swi_entry *e = &c->model->entries[c->layers[i].weight.index];
        CU_ASSERT(memcmp(c->model->base + e->offset, from->model->base + e->offset, e->bytes) ==
                  0);
    }
    OK(sw_net_inherit(c, a, b, 7));
    REFUSED(sw_net_inherit(c, a, NULL, 7), SW_INVALID, "b must be");
    REFUSED(sw_net_inherit(c, b, a, 7), SW_INVALID, "a must be");
    REFUSED(sw_net_inherit(c, a, a, 7), SW_INVALID, "b must be");
}

SW_TEST("utilities follow their neurons")
{
    const sw_net_opts opts = SW_OPTS(sw_net_opts, .utility = 1);
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_genome *child = scene_child(g);
    scene_widen(child, 1, 2);
    child->vertices[1].rows[0] = 5;
    child->vertices[1].rows[5] = 0;
    scene_follow(child, g);
    sw_net *a = scene_ready(g, &opts, exec, 1), *c = scene_ready(child, &opts, exec, 2);
    sw_neuron_utility u[16], was[16];
    CU_ASSERT_EQUAL_FATAL(scene_utilities(a, a->model->base, was), 5);
    CU_ASSERT_EQUAL_FATAL(scene_utilities(c, c->model->base, u), 5);
    for (int64_t i = 0; i < 6; i++)
        ((float *)(uintptr_t)was[0].values)[i] = (float)i + 1;
    OK(sw_net_inherit(c, a, NULL, 7));
    static const float must_be[8] = {6, 2, 3, 4, 5, 1, FLT_EPSILON, FLT_EPSILON};
    CU_ASSERT_EQUAL(u[0].vertex, 1);
    CU_ASSERT_EQUAL(u[0].n, 8);
    CU_ASSERT(memcmp(u[0].values, must_be, sizeof must_be) == 0);
}

/* ---- what is refused --------------------------------------------------------------------- */

SW_TEST("what is refused changes nothing")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_genome *child = scene_child(g), *other = scene_lenet();
    other->lr = 0.5f;
    scene_check(other);
    sw_net *a = scene_ready(g, NULL, exec, 1), *c = scene_ready(child, NULL, exec, 2);
    sw_net *o = scene_ready(other, NULL, exec, 3), *raw = scene_net(g, NULL);
    unsigned char *before = scene_block(c->model->bytes);
    memcpy(before, c->model->base, c->model->bytes);
    REFUSED(sw_net_inherit(c, o, NULL, 1), SW_INVALID, "a must be");
    REFUSED(sw_net_inherit(c, raw, NULL, 1), SW_INVALID, "ready");
    REFUSED(sw_net_inherit(c, c, NULL, 1), SW_INVALID, "own parent");
    REFUSED(sw_net_inherit(c, a, o, 1), SW_INVALID, "one parent");
    REFUSED(sw_net_inherit(o, a, NULL, 1), SW_INVALID, "parents");
    a->model->damaged = true;
    REFUSED(sw_net_inherit(c, a, NULL, 1), SW_STALE, "failed");
    a->model->damaged = false;
    CU_ASSERT(memcmp(before, c->model->base, c->model->bytes) == 0);
    c->model->damaged = true;
    OK(sw_net_inherit(c, a, NULL, 1));
    CU_ASSERT(!c->model->damaged);
}

/* Lineage that is not what the parents' nets are is refused by the vertex. */
SW_TEST("damaged lineage is refused")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_net *a = scene_ready(g, NULL, exec, 1);
    static const char *const parts[] = {"'conv1'",      "'conv1'",        "'conv2'",
                                        "another kind", "no such vertex", "no such vertex"};
    for (int k = 0; k < 6; k++) {
        sw_genome *child = scene_child(g);
        if (k == 0)
            child->vertices[1].rows[2] = 6;
        else if (k == 1)
            child->vertices[1].rows[2] = -2;
        else if (k == 2)
            child->vertices[4].cols[0] = 6;
        else if (k == 3)
            child->vertices[4].was = 8;
        else if (k == 4)
            child->vertices[4].was = 99;
        else
            child->vertices[4].parent = 1;
        sw_net *c = scene_ready(child, NULL, exec, 2);
        REFUSED(sw_net_inherit(c, a, NULL, 1), SW_INVALID, parts[k]);
    }
}

typedef struct {
    sw_net *to, *from;
} pair;

static sw_status inherit_one(void *arg)
{
    const pair *p = arg;
    return sw_net_inherit(p->to, p->from, NULL, 3);
}

SW_TEST("failures change nothing")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    pair p = {scene_ready(scene_child(g), NULL, exec, 2), scene_ready(g, NULL, exec, 1)};
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, inherit_one, &p) >= 1);
}

/* ---- at random: every bit of thousands of children is what the definition says ------------
 */

static void compare(sw_exec *exec, sw_dice *dice, int i)
{
    const sw_net_opts with = SW_OPTS(sw_net_opts, .utility = 1), without = SW_OPTS(sw_net_opts);
    const sw_genome *a = scene_random(dice), *b = scene_random(dice);
    const sw_net *na = scene_net(a, i % 3 ? &with : &without), *nb = scene_net(b, &with);
    const unsigned char *xa = scene_random_bytes(na, dice), *xb = scene_random_bytes(nb, dice);
    const sw_net *to = scene_net(scene_random_child(dice, a, b), i % 4 ? &with : &without);
    unsigned char *bytes = scene_block(to->model->bytes);
    const uint64_t seed = sw_dice_next(dice);
    memset(bytes, 0xaa, to->model->bytes);
    OK(swi_net_inherit(to, bytes, na, xa, nb, xb, seed));
    const char *name =
        scene_differs(to, bytes, scene_inherited(exec, to, na, xa, nb, xb, seed));
    SW_CHECK(name == NULL, "child %d (%s): '%s' is not what it must be", i,
             to->genome->optimizer, name != NULL ? name : "");
    scene_sweep();
}

SW_TEST("every bit is what the definition says")
{
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {71};
    const int n = sw_tests_full() ? 10000 : 400;
    for (int i = 0; i < n; i++)
        compare(exec, &dice, i);
    sw_note("%d children", n);
}

/* New nets begin as models that are made ready do; and the public way, a net that is made
 * ready, has the bytes that its definition says. */
SW_TEST("nets begin as models do, also those that are made ready")
{
    const sw_net_opts with = SW_OPTS(sw_net_opts, .utility = 1);
    sw_exec *exec = scene_exec(1);
    sw_dice dice = {72};
    int changed = 0;
    for (uint64_t i = 0; i < 350; i++) {
        sw_genome *g = scene_random(&dice);
        for (uint32_t k = 0; k < g->n; k++)
            g->vertices[k].identity = sw_dice_below(&dice, 4) == 0;
        sw_net *made = scene_net(g, &with);
        unsigned char *bytes = scene_block(made->model->bytes);
        memset(bytes, 0xaa, made->model->bytes);
        if (i < 300) {
            OK(swi_net_begin(made, bytes, i));
        } else {
            OK(sw_net_ready(made, exec, i));
            memcpy(bytes, made->model->base, made->model->bytes);
            OK(sw_model_ready(made->model, exec, i));
            changed += memcmp(bytes, made->model->base, made->model->bytes) != 0;
        }
        const char *name =
            scene_differs(made, bytes, scene_inherited(exec, made, NULL, NULL, NULL, NULL, i));
        SW_CHECK(name == NULL, "net %d: '%s'", (int)i, name != NULL ? name : "");
        scene_sweep();
    }
    CU_ASSERT_EQUAL(changed, 50); /* utilities at least */
}

/* ---- times ------------------------------------------------------------------------------- */

static sw_genome *wide(int64_t size)
{
    sw_genome *g = scene_genome(64, 0, 0);
    scene_linear(g, "a", 0, size);
    scene_activation(g, "b", 1, "relu");
    scene_linear(g, "c", 2, size);
    scene_activation(g, "d", 3, "relu");
    scene_linear(g, "e", 4, 10);
    scene_check(g);
    return g;
}

/* Every so-manieth neuron of the parent goes. */
static sw_genome *thinned(const sw_genome *g, int every)
{
    sw_genome *child = scene_child(g);
    for (uint32_t i = 1; i <= 3; i += 2) {
        const int64_t size = child->vertices[i].size;
        int64_t n = 0;
        for (int64_t r = 0; r < size; r++)
            if (r % every != 0)
                child->vertices[i].rows[n++] = (int32_t)r;
        scene_widen(child, i, n - size);
    }
    scene_follow(child, g);
    return child;
}

/* Least ns of one copy of the parent's whole state, or of what the child takes over. */
static double least_ns(sw_net *to, const sw_net *from, unsigned char *room)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 15; i++) {
        const uint64_t start = sw_clock_ns();
        if (room != NULL)
            memcpy(room, from->model->base, from->model->bytes);
        else
            OK(swi_net_inherit(to, to->model->base, from, from->model->base, NULL, NULL, 3));
        const uint64_t ns = sw_clock_ns() - start;
        least = ns < least ? ns : least;
    }
    return (double)least;
}

SW_TEST("bandwidth is near that of copies")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = wide(1200);
    sw_net *a = scene_ready(g, NULL, exec, 1);
    unsigned char *room = scene_block(a->model->bytes);
    static const int every[] = {0, 97, 5, 2};
    for (int k = 0; k < 4; k++) {
        sw_genome *child = every[k] == 0 ? scene_child(g) : thinned(g, every[k]);
        sw_net *c = scene_ready(child, NULL, exec, 2);
        const double copy = (double)a->model->bytes / least_ns(c, a, room);
        const double move = (double)c->model->bytes / least_ns(c, a, NULL);
        char what[40] = "all neurons";
        if (every[k] != 0)
            snprintf(what, sizeof what, "all but one of %d", every[k]);
        sw_note("%s: %.1f MB at %.1f GB/s, one copy at %.1f GB/s", what,
                (double)c->model->bytes / 1e6, move, copy);
        SW_CHECK(move > 0.01 * copy, "%g of %g", move, copy);
    }
}

SW_TEST("small states take little time")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    sw_net *a = scene_ready(g, NULL, exec, 1);
    sw_genome *child = scene_child(g);
    scene_widen(child, 1, 2);
    scene_widen(child, 4, -3);
    scene_widen(child, 8, 9);
    child->vertices[4].kernel = 3;
    scene_follow(child, g);
    sw_net *c = scene_ready(child, NULL, exec, 2);
    uint64_t ns[200];
    for (int i = 0; i < 200; i++) {
        const uint64_t start = sw_clock_ns();
        OK(sw_net_inherit(c, a, NULL, 3));
        ns[i] = sw_clock_ns() - start;
        for (int k = i; k > 0 && ns[k] < ns[k - 1]; k--) {
            const uint64_t swap = ns[k];
            ns[k] = ns[k - 1];
            ns[k - 1] = swap;
        }
    }
    sw_note("%zu bytes: median %.0f us, 99 of 100 within %.0f us", c->model->bytes,
            (double)ns[100] / 1e3, (double)ns[198] / 1e3);
    CU_ASSERT(ns[100] < 20000000);
}
