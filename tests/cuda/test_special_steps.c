/* NaN, infinities, huge numbers, zeros and kinks through the kernels of the module, on the card
 * that is not there: the table of tests/ops/special_values.txt. */
#include "tests/cuda/fake_card.h"
#include "tests/ops/special.h"
#include "tests/support/suite.h"

SW_TESTS("special")

SW_TEST("kernels of the module answer as the table says")
{
    for (int immediate = 0; immediate <= (sw_tests_full() ? 1 : 0); immediate++) {
        const special_way way = {.device = "cuda", .immediate = immediate != 0};
        sw_fake_card_new(NULL, 0);
        const special_count n = special_run(&way);
        SW_CHECK(n.rows > 1000, "%d rows", n.rows);
        sw_note("cuda%s: %d rows, %d wrong, %d with a reason that is stale",
                immediate ? ", immediate" : "", n.rows, n.wrong, n.stale);
    }
}
