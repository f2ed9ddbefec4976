/* NaN, infinities, huge numbers, zeros and kinks through every op: PyTorch's answers. */
#include "runtime/base/common.h"
#include "kernels/dispatch.h"
#include "runtime/ops/ops.h"
#include "runtime/verify/op_check.h"
#include "tests/ops/special.h"
#include "tests/support/suite.h"
#include <float.h>

SW_TESTS("special")

SW_TEST("every instruction set answers as the table says")
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    for (int i = 0; i <= (int)sw_cpu_isa(); i++)
        for (int immediate = 0; immediate < 2; immediate++) {
            const special_way way = {.isa = names[i], .immediate = immediate != 0};
            const special_count n = special_run(&way);
            SW_CHECK(n.rows > 1000, "%d rows", n.rows);
            sw_note("%s%s: %d rows, %d wrong, %d with a reason that is stale", names[i],
                    immediate ? ", immediate" : "", n.rows, n.wrong, n.stale);
        }
}

/* ---- all of them ------------------------------------------------------------------------- */

enum { OPS = 256 };

/* Ops that no row can have, and why. */
static const struct {
    const char *name, *why;
} without[] = {
    {"reshape", "a view: nothing runs; it has rows all the same"},
    {"slice", "a view"},
    {"detach", "a view"},
    {"permute", "a view"},
    {"randn", "has no operand"},
    {"rand", "has no operand"},
    {"product_bound", "says whether a gradient can overflow: tests/runtime/test_skipped.c"},
    {"any_verdict", "joins what `finite` says"},
    {"note_verdict", "counts"},
    {"steps_tick", "counts"},
    {"partial_sum", "adds over runs: tests/runtime/test_shards.c"},
    {"shard_mean", "adds over runs: tests/runtime/test_shards.c"},
    {"agreed_verdict", "joins what `finite` says"},
    {"in_strips", "runs other ops: tests/runtime/test_strips.c"},
    {"in_images", "runs other ops: tests/runtime/test_chains.c"},
    {"noise_move", "moves parameters along their noise: tests/population/test_zo.c"},
};

typedef struct {
    bool has[OPS];
} op_set;

/* "op", "op backward", or its words; no row has a layer. */
static void note_op(void *to, const char *name)
{
    op_set *set = to;
    for (uint32_t id = 0; id < OPS && sw_op_at(id) != NULL; id++)
        for (int gradient = 0; gradient < 2; gradient++) {
            char text[SWI_WORDS_BYTES];
            const char *words = swi_op_words(id, gradient, text);
            const size_t n = strlen(words);
            set->has[id] |= strncmp(words, name, n) == 0 &&
                            (name[n] == '\0' || strcmp(name + n, " backward") == 0);
        }
}

static const char *reason_for(const char *op)
{
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(without[i].name, op) == 0)
            return without[i].why;
    return NULL;
}

SW_TEST("every op has a row or a reason")
{
    op_set set = {{false}};
    const special_way way = {.op = note_op, .to = &set};
    special_run(&way);
    for (uint32_t id = 0; id < OPS && sw_op_at(id) != NULL; id++) {
        const char *op = sw_op_at(id)->name;
        if (strchr(op, '.') != NULL)
            continue; /* of a test: "outside.pair", "planted..." */
        /* Held to its own reference (below), or an update: PyTorch does not have every
         * optimizer, and tests/torch/compare_nets.py compares those that it has. */
        SW_CHECK(set.has[id] || reason_for(op) != NULL ||
                     (sw_op_at(id)->reference != NULL && sw_op_at(id)->n_cases > 0) ||
                     (strstr(sw_op_at(id)->name, "_update") != NULL),
                 "%s has no row, and no reference", op);
        SW_CHECK(!set.has[id] || reason_for(op) == NULL, "%s has a row, and a reason for none",
                 op);
    }
}

/* ---- ops that PyTorch need not have ------------------------------------------------------ */

/* NaN, infinities, zeros and large numbers through ops that PyTorch need not have: each is held
 * to the float64 reference of its descriptor, where that has an answer. Rows of
 * special_values.txt say more (gradients, limits), for the ops that have some. */
static const float planted[] = {NAN,    HUGE_VALF, -HUGE_VALF, 0.0f,  -0.0f,
                                100.0f, -100.0f,   1e30f,      -1e30f};

/* Does float32 have this answer? A limit, which the reference does not know, is not judged. */
static bool agrees(float got, double exact, float x)
{
    if (isnan(exact))
        return isnan(got) || !isnan(x);
    if (isnan(got))
        return false;
    if (fabs(exact) > (double)FLT_MAX)
        return isinf(got) && (got > 0) == (exact > 0);
    return fabs((double)got - exact) <= 1e-5 * fmax(fabs(exact), 1e-5);
}

/* The case with x at one element of input 0. */
static void plant(swi_check *c, int64_t at, float x)
{
    swi_check_operand *o = &c->in[0];
    ((float *)o->data)[at] = x;
    o->exact[at] = (double)x;
}

static int judge(swi_check *c, float x)
{
    double *in[SWI_CHECK_INPUTS], *out[SWI_CHECK_OUTPUTS];
    swi_check_result result;
    void *block;
    int wrong = 0;
    for (int i = 0; i < c->n_in; i++)
        in[i] = c->in[i].exact;
    for (int i = 0; i < c->desc->n_out; i++) {
        CU_ASSERT_EQUAL_FATAL(swi_check_take(c, &block, (size_t)c->out[i].n * 8), SW_OK);
        out[i] = block;
    }
    CU_ASSERT_EQUAL_FATAL(swi_check_run(c, c->plain, SWI_CHECK_GIVE, SWI_CHECK_ALL, &result),
                          SW_OK);
    CU_ASSERT_EQUAL_FATAL(swi_check_reference(c, in, out), SW_OK);
    for (int i = 0; i < c->desc->n_out; i++)
        for (int64_t k = 0; c->out[i].type.dtype == SW_F32 && k < c->out[i].n; k++)
            wrong += !agrees(((const float *)result.out[i])[k], out[i][k], x);
    return wrong;
}

/* Answers of the first case that are not the reference's, over all that is planted. */
static int hold(uint32_t id, const sw_op_desc *desc, float *worst)
{
    static swi_check c;
    int wrong = 0;
    c = (swi_check){.id = id, .desc = desc};
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&c.plain, NULL), SW_OK);
    CU_ASSERT_EQUAL_FATAL(swi_check_begin(&c, 0), SW_OK);
    const swi_check_operand *o = &c.in[0];
    for (size_t i = 0;
         c.n_in > 0 && o->type.dtype == SW_F32 && i < sizeof planted / sizeof *planted; i++) {
        const int64_t at = o->n / 2;
        const float was = ((const float *)o->data)[at];
        plant(&c, at, planted[i]);
        const int here = judge(&c, planted[i]);
        *worst = here > 0 ? planted[i] : *worst;
        wrong += here;
        plant(&c, at, was);
    }
    swi_check_end(&c);
    sw_exec_destroy(c.plain);
    return wrong;
}

static bool is_judged(const sw_op_desc *d)
{
    return d->reference != NULL && d->n_cases > 0 && d->view == NULL;
}

SW_TEST("ops answer as their references do")
{
    int n = 0;
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++) {
        float at = 0.0f;
        if (!is_judged(sw_op_at(id)))
            continue;
        const int wrong = hold(id, sw_op_at(id), &at);
        SW_CHECK(wrong == 0, "%s: %d answers are not the reference's, at %g",
                 sw_op_at(id)->name, wrong, (double)at);
        n++;
    }
    CU_ASSERT(n > 30);
    sw_note("%d ops", n);
}
