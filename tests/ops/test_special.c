/* NaN, infinities, huge numbers, zeros and kinks through every op: PyTorch's answers. */
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
            sw_note("%s%s: %d rows, %d wrong, %d with a reason that is stale, %d pending",
                    names[i], immediate ? ", immediate" : "", n.rows, n.wrong, n.stale,
                    n.pending);
        }
}

/* ---- all of them ------------------------------------------------------------------------- */

enum { OPS = 256 };

/* Ops that no row can have, and why. */
static const struct {
    const char *name, *why;
} without[] = {
    {"copy", "moves bytes"},
};

typedef struct {
    bool has[OPS];
} op_set;

static void note_op(void *to, const char *name)
{
    op_set *set = to;
    for (uint32_t id = 0; id < OPS && sw_op_at(id) != NULL; id++) {
        const char *op = sw_op_at(id)->name;
        const size_t n = strlen(op);
        set->has[id] |= strncmp(op, name, n) == 0 && (name[n] == '\0' || name[n] == '.');
    }
}

static const char *reason_for(const char *op)
{
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(without[i].name, op) == 0)
            return without[i].why;
    return NULL;
}

static void every_op_has_a_row_or_a_reason(void)
{
    op_set set = {{false}};
    const special_way way = {.op = note_op, .to = &set};
    special_run(&way);
    for (uint32_t id = 0; id < OPS && sw_op_at(id) != NULL; id++) {
        const char *op = sw_op_at(id)->name;
        if (strncmp(op, "planted.", 8) == 0)
            continue;
        SW_CHECK(set.has[id] || reason_for(op) != NULL, "%s has no row", op);
        SW_CHECK(!set.has[id] || reason_for(op) == NULL, "%s has a row, and a reason for none",
                 op);
    }
}

static const sw_test tests[] = {
    {"every op has a row or a reason", every_op_has_a_row_or_a_reason, false},
    {"every instruction set answers as the table says",
     every_instruction_set_answers_as_the_table_says, false},
};
SW_SUITE("special", tests)
