#include "tests/runtime/random_seeds.h"
#include <stdio.h>
#include <stdlib.h>

#define MOST_FAILURES 5

random_net seed_net;
bool seed_failed;

void seed_check(bool passed, const char *what, const char *detail)
{
    if (passed || seed_failed)
        return;
    seed_failed = true;
    random_net_print(&seed_net);
    SW_CHECK(false, "STEPWELL_SEED=%llu: %s: %s", (unsigned long long)seed_net.seed, what,
             detail);
}

bool seed_well(sw_status status, const char *what)
{
    seed_check(status == SW_OK, what, sw_last_error());
    return status == SW_OK;
}

void seed_sizes(const char *what, size_t measured, size_t wanted)
{
    char detail[80];
    snprintf(detail, sizeof detail, "%zu instead of %zu bytes", measured, wanted);
    seed_check(measured == wanted, what, detail);
}

void seed_each(int quick, int full, void (*one)(void))
{
    const char *text = getenv("STEPWELL_SEED");
    const uint64_t first = text != NULL ? strtoull(text, NULL, 10) : 1;
    const int n = text != NULL ? 1 : sw_tests_full() ? full : quick;
    int failures = 0;
    for (int i = 0; i < n && failures < MOST_FAILURES; i++) {
        seed_failed = false;
        random_net_make(&seed_net, first + (uint64_t)i);
        one();
        failures += seed_failed;
    }
    CU_ASSERT_EQUAL(failures, 0);
}
