/* Checked sizes: exact results, and nothing at all where they do not fit. */
#include "alloc/base/size.h"
#include "tests/support/suite.h"

SW_TESTS("size")

SW_TEST("products and sums are exact or refused and leave *out")
{
    static const size_t edges[] =
        SW_INIT(0, 1, 2, 3, 63, 64, 65, (size_t)1 << 31, ((size_t)1 << 32) - 1, (size_t)1 << 32,
                SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX - 1, SIZE_MAX);
    const size_t n = sizeof edges / sizeof *edges;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned __int128 product = (unsigned __int128)edges[i] * edges[j];
            const unsigned __int128 sum = (unsigned __int128)edges[i] + edges[j];
            size_t out = 7777;
            const bool mul = sw_size_mul(edges[i], edges[j], &out);
            SW_CHECK(mul == (product <= SIZE_MAX), "%zu * %zu", edges[i], edges[j]);
            SW_CHECK(out == (mul ? (size_t)product : 7777), "%zu * %zu", edges[i], edges[j]);
            out = 7777;
            const bool add = sw_size_add(edges[i], edges[j], &out);
            SW_CHECK(add == (sum <= SIZE_MAX), "%zu + %zu", edges[i], edges[j]);
            SW_CHECK(out == (add ? (size_t)sum : 7777), "%zu + %zu", edges[i], edges[j]);
        }
}

SW_TEST("rounding up stops at the largest multiple")
{
    size_t out = 7777;
    CU_ASSERT(sw_size_align(0, 64, &out) && out == 0);
    CU_ASSERT(sw_size_align(1, 64, &out) && out == 64);
    CU_ASSERT(sw_size_align(64, 64, &out) && out == 64);
    CU_ASSERT(sw_size_align(65, 64, &out) && out == 128);
    CU_ASSERT(sw_size_align(5, 1, &out) && out == 5);
    CU_ASSERT(sw_size_align(SIZE_MAX - 63, 64, &out) && out == SIZE_MAX - 63);
    out = 7777;
    CU_ASSERT(!sw_size_align(SIZE_MAX - 62, 64, &out));
    CU_ASSERT(!sw_size_align(SIZE_MAX, 64, &out));
    CU_ASSERT_EQUAL(out, 7777);
}

SW_TEST("the elements of a shape fit in bytes of any type or are refused")
{
    int64_t out = 7777;
    const int64_t usual[] = {128, 6, 24, 24}, big[] = {INT64_MAX / 16, 1},
                  many[] = {1 << 30, 1 << 30, 1};
    const int64_t over[] = {INT64_MAX / 16 + 1}, wraps[] = {INT64_MAX, 2}, negative[] = {4, -1};
    const int64_t empty[] = {0, 5}, late_zero[] = {INT64_MAX / 16, 0},
                  negative_after_zero[] = {0, -1};
    CU_ASSERT(sw_size_elements(usual, 4, &out) && out == 128 * 6 * 24 * 24);
    CU_ASSERT(sw_size_elements(usual, 0, &out) && out == 1); /* a scalar */
    CU_ASSERT(sw_size_elements(big, 2, &out) && out == INT64_MAX / 16);
    CU_ASSERT(sw_size_elements(empty, 2, &out) && out == 0);
    CU_ASSERT(sw_size_elements(late_zero, 2, &out) && out == 0);
    out = 7777;
    CU_ASSERT(!sw_size_elements(many, 3, &out));
    CU_ASSERT(!sw_size_elements(over, 1, &out));
    CU_ASSERT(!sw_size_elements(wraps, 2, &out));
    CU_ASSERT(!sw_size_elements(negative, 2, &out));
    CU_ASSERT(!sw_size_elements(negative_after_zero, 2, &out));
    CU_ASSERT_EQUAL(out, 7777);
}
