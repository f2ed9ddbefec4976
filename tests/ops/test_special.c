/* NaN, infinities, huge numbers, zeros and kinks through every op: PyTorch's answers. */
#include "runtime/base/op_words.h"
#include "kernels/dispatch.h"
#include "tests/ops/special.h"
#include "tests/support/suite.h"
#include <string.h>

static void every_instruction_set_answers_as_the_table_says(void)
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
    {"in_strips", "runs other ops: tests/runtime/test_strips.c"},
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

/* Is the op held to its own reference (test_special_reference.c)? */
static bool has_reference(uint32_t id)
{
    return sw_op_at(id)->reference != NULL && sw_op_at(id)->n_cases > 0;
}

/* Updates: PyTorch does not have every optimizer, and tests/torch/compare_nets.py compares
 * those that it has. */
static bool is_update(uint32_t id)
{
    return strstr(sw_op_at(id)->name, "_update") != NULL;
}

static void every_op_has_a_row_or_a_reason(void)
{
    op_set set = {{false}};
    const special_way way = {.op = note_op, .to = &set};
    special_run(&way);
    for (uint32_t id = 0; id < OPS && sw_op_at(id) != NULL; id++) {
        const char *op = sw_op_at(id)->name;
        if (strchr(op, '.') != NULL)
            continue; /* of a test: "outside.pair", "planted..." */
        SW_CHECK(set.has[id] || reason_for(op) != NULL || has_reference(id) || is_update(id),
                 "%s has no row, and no reference", op);
        SW_CHECK(!set.has[id] || reason_for(op) == NULL, "%s has a row, and a reason for none",
                 op);
    }
}

static const sw_test tests[] = {
    {"every op has a row or a reason", every_op_has_a_row_or_a_reason},
    {"every instruction set answers as the table says",
     every_instruction_set_answers_as_the_table_says},
};
SW_SUITE("special", tests)
