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

static const sw_test tests[] = {
    {"every instruction set answers as the table says",
     every_instruction_set_answers_as_the_table_says, false},
};
SW_SUITE("special", tests)
