/* Noise by the vector: published words of Philox, the bits of the definition in every
 * instruction set, and the estimate's sum against the definition in float64. */
#include "kernels/dispatch.h"
#include "tests/support/suite.h"

SW_TESTS("noise")

/* Random123's known answers for Philox 4x32 with 10 rounds. */
SW_TEST("Philox has its published words")
{
    static const uint32_t rows[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t words[4];
        memcpy(words, rows[i], sizeof words);
        sw_philox(words, rows[i][4], rows[i][5]);
        CU_ASSERT_EQUAL(memcmp(words, rows[i] + 6, sizeof words), 0);
    }
}

static sw_noise_spec spec_of(sw_noise_distribution distribution, uint32_t window)
{
    return (sw_noise_spec)SW_INIT(.kind = SW_NOISE_IID, .distribution = distribution, .rank = 1,
                                  .rows = 1, .cols = 1, .taps = 1, .stream = 77,
                                  .window = window);
}

/* Numbers [first, first + n) of both sides, and what stands after them. */
static bool same_numbers(const sw_noise_kernels *k, const sw_noise_spec *s, sw_noise_part part,
                         const sw_noise_at *at, int64_t first, int64_t n)
{
    static float got[5000];
    for (int64_t i = 0; i <= n; i++)
        got[i] = 1234.5f;
    k->fill(got, first, n, s, part, at);
    for (int64_t i = 0; i < n; i++) {
        const float want = sw_noise_number(s, part, at, first + i);
        if (memcmp(&want, &got[i], sizeof want) != 0)
            return false;
    }
    return got[n] == 1234.5f;
}

SW_TEST("fill has the bits of the definition")
{
    sw_dice dice = {19};
    const int rounds = sw_tests_full() ? 2000 : 200;
    for (int isa = 0; isa <= (int)sw_cpu_isa(); isa++)
        for (int d = 0; d < SW_NOISE_DISTRIBUTIONS; d++) {
            int wrong = 0;
            for (int i = 0; i < rounds; i++) {
                const sw_noise_spec s = spec_of((sw_noise_distribution)d, i % 3 == 0 ? 5 : 0);
                const sw_noise_at at = {sw_dice_next(&dice), (uint32_t)sw_dice_next(&dice),
                                        (uint32_t)sw_dice_next(&dice)};
                const int64_t first = i % 2 == 0
                                          ? (int64_t)sw_dice_below(&dice, 300)
                                          : (int64_t)sw_dice_below(&dice, (uint64_t)1 << 36);
                const int64_t n = (int64_t)sw_dice_below(&dice, i % 5 == 0 ? 4500 : 300);
                wrong += !same_numbers(sw_noise((sw_isa)isa), &s,
                                       (sw_noise_part)sw_dice_below(&dice, 3), &at, first, n);
            }
            SW_CHECK(wrong == 0, "%s: distribution %d: %d ranges differ",
                     sw_isa_name((sw_isa)isa), d, wrong);
        }
}
