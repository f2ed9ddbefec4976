#include "tests/recompute/recompute_problems.h"

static swi_rc_op *add_op(problem *out, uint64_t cost)
{
    out->backward_of[out->p.n_ops] = UINT32_MAX;
    swi_rc_op *op = &out->ops[out->p.n_ops++];
    *op = (swi_rc_op){.reads = out->n_reads, .makes = out->n_makes, .cost = cost};
    return op;
}

static bool add_read(problem *out, uint32_t item)
{
    swi_rc_op *op = &out->ops[out->p.n_ops - 1];
    for (uint32_t k = 0; k < op->n_reads; k++)
        if (out->reads[op->reads + k] == item)
            return false;
    out->reads[out->n_reads++] = item;
    op->n_reads++;
    return true;
}

static void add_item(problem *out, size_t bytes)
{
    swi_rc_op *op = &out->ops[out->p.n_ops - 1];
    out->items[out->p.n_items] = (swi_rc_item){bytes, out->p.n_ops - 1};
    out->makes[out->n_makes++] = out->p.n_items++;
    op->n_makes++;
}

static void begin(problem *out)
{
    memset(out, 0, sizeof *out);
    out->p.ops = out->ops;
    out->p.items = out->items;
    out->p.reads = out->reads;
    out->p.makes = out->makes;
    out->p.during = out->during;
    out->p.between = out->between;
}

static void random_forward(sw_dice *dice, problem *out, uint32_t most)
{
    swi_rc_op *op = add_op(out, 1 + sw_dice_below(dice, 9));
    const uint32_t n = out->p.n_items;
    if (n > 0 && sw_dice_below(dice, 8) > 0)
        (void)add_read(out, n - 1);
    if (n > 1 && sw_dice_below(dice, 3) == 0)
        (void)add_read(out, (uint32_t)sw_dice_below(dice, n));
    if (n == most || sw_dice_below(dice, 12) == 0)
        return;
    size_t bytes = (1 + sw_dice_below(dice, 4)) * PROBLEM_UNIT;
    if (op->n_reads > 0 && sw_dice_below(dice, 3) == 0) {
        const uint32_t k = (uint32_t)sw_dice_below(dice, op->n_reads);
        bytes = out->items[out->reads[op->reads + k]].bytes;
        op->inplace = 1u << k;
        if (op->n_reads == 2 && out->items[out->reads[op->reads + 1 - k]].bytes == bytes)
            op->inplace = 3;
    }
    add_item(out, bytes);
    if (n + 1 < most && sw_dice_below(dice, 6) == 0)
        add_item(out, (1 + sw_dice_below(dice, 4)) * PROBLEM_UNIT);
    if (sw_dice_below(dice, 4) == 0)
        op->scratch = (1 + sw_dice_below(dice, 2)) * PROBLEM_UNIT;
}

/* Some backward ops make a fixed result that may lie where a read of theirs ends. */
static void random_places(sw_dice *dice, problem *out, uint32_t from)
{
    for (uint32_t t = from; t < out->p.n_ops; t++) {
        swi_rc_op *op = &out->ops[t];
        if (op->n_reads == 0 || sw_dice_below(dice, 3) > 0)
            continue;
        const uint32_t k = (uint32_t)sw_dice_below(dice, op->n_reads);
        op->inplace = 1u << k;
        out->during[t] += out->items[out->reads[op->reads + k]].bytes;
    }
}

void problem_random(sw_dice *dice, problem *out, uint32_t forward, uint32_t most)
{
    begin(out);
    for (uint32_t t = 0; t < forward; t++)
        random_forward(dice, out, most);
    for (uint32_t t = forward; t-- > 0;) {
        /* The backward op of op t: some of what that made and read, now and then more. */
        const swi_rc_op *of = &out->ops[t];
        (void)add_op(out, 1);
        out->backward_of[out->p.n_ops - 1] = t;
        for (uint32_t k = 0; k < of->n_makes; k++)
            if (sw_dice_below(dice, 3) > 0)
                (void)add_read(out, out->makes[of->makes + k]);
        for (uint32_t k = 0; k < of->n_reads; k++)
            if (sw_dice_below(dice, 3) == 0)
                (void)add_read(out, out->reads[of->reads + k]);
        if (out->p.n_items > 0 && sw_dice_below(dice, 6) == 0)
            (void)add_read(out, (uint32_t)sw_dice_below(dice, out->p.n_items));
    }
    const uint32_t n = out->p.n_ops;
    const bool limits = sw_dice_below(dice, 3) == 0, fixed = sw_dice_below(dice, 2) == 0;
    for (uint32_t t = 0; t < n; t++) {
        swi_rc_op *op = &out->ops[t];
        if (op->n_makes > 0)
            op->until = limits && sw_dice_below(dice, 3) == 0 ? (uint32_t)sw_dice_below(dice, n)
                                                              : n - 1;
        out->during[t] = fixed ? sw_dice_below(dice, 4) * PROBLEM_UNIT : 0;
    }
    for (uint32_t t = 1; t < n; t++)
        out->between[t] =
            out->during[t] < out->during[t - 1] ? out->during[t] : out->during[t - 1];
    random_places(dice, out, forward);
}

void problem_chain(problem *out, uint32_t n, bool paired)
{
    begin(out);
    for (uint32_t i = 0; i < n; i++) {
        (void)add_op(out, paired ? 3 : 1);
        if (i > 0)
            (void)add_read(out, out->p.n_items - 1);
        add_item(out, PROBLEM_UNIT);
        if (paired) {
            add_op(out, 1)->inplace = 1;
            (void)add_read(out, out->p.n_items - 1);
            add_item(out, PROBLEM_UNIT);
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        (void)add_op(out, 1);
        out->backward_of[out->p.n_ops - 1] = paired ? 2 * i + 1 : i;
        (void)add_read(out, paired ? 2 * i + 1 : i);
    }
    for (uint32_t t = 0; t < out->p.n_ops; t++)
        if (out->ops[t].n_makes > 0)
            out->ops[t].until = out->p.n_ops - 1;
}

/* A forward op over `read` (and `more`), in the place of read 0 where it may. */
static uint32_t layer(problem *out, uint64_t cost, uint32_t read, uint32_t more, bool inplace)
{
    (void)add_op(out, cost);
    if (read != UINT32_MAX)
        (void)add_read(out, read);
    if (more != UINT32_MAX)
        (void)add_read(out, more);
    out->ops[out->p.n_ops - 1].inplace = inplace;
    add_item(out, PROBLEM_UNIT);
    return out->p.n_items - 1;
}

static void gradient(problem *out, uint32_t of, uint32_t read)
{
    (void)add_op(out, 1);
    out->backward_of[out->p.n_ops - 1] = of;
    if (read != UINT32_MAX)
        (void)add_read(out, read);
    out->during[out->p.n_ops - 1] = 2 * PROBLEM_UNIT; /* of the result, of the operand */
}

void problem_residual(problem *out, uint32_t blocks)
{
    begin(out);
    uint32_t x = layer(out, 20, UINT32_MAX, UINT32_MAX, false);
    uint32_t input[PROBLEM_OPS], middle[PROBLEM_OPS];
    for (uint32_t b = 0; b < blocks; b++) {
        input[b] = x;
        middle[b] = layer(out, 1, layer(out, 20, x, UINT32_MAX, false), UINT32_MAX, true);
        x = layer(out, 1, layer(out, 20, middle[b], UINT32_MAX, false), x, true);
    }
    for (uint32_t b = blocks; b-- > 0;) {
        const uint32_t op = 1 + 4 * b; /* conv, relu, conv, sum */
        gradient(out, op + 2, middle[b]);
        gradient(out, op + 1, middle[b]);
        gradient(out, op, input[b]);
    }
    gradient(out, 0, UINT32_MAX);
    for (uint32_t t = 0; t < out->p.n_ops; t++) {
        if (out->ops[t].n_makes > 0)
            out->ops[t].until = out->p.n_ops - 1;
        if (t > 0 && out->during[t] > 0 && out->during[t - 1] > 0)
            out->between[t] = PROBLEM_UNIT;
    }
}

swi_rc_schedule problem_plain(const problem *in)
{
    swi_rc_schedule s = {0};
    for (uint32_t t = 0; t < in->p.n_ops; t++)
        CU_ASSERT_EQUAL_FATAL(swi_rc_append(&s, t), SW_OK);
    CU_ASSERT_EQUAL(swi_rc_follow(&in->p, &s), SW_OK);
    return s;
}
