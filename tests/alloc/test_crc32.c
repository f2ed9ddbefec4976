/* Checks of 32 bits: known answers, any cut and any alignment. */
#include "alloc/base/gzip.h"
#include "tests/support/suite.h"

SW_TESTS("crc32")

static sw_crc32_table zip, castagnoli;

/* "123456789" is the check of every catalogue; the others are of RFC 3720, B.4. */
SW_TEST("known answers")
{
    unsigned char bytes[32];
    sw_crc32_init(&zip, SW_CRC32_ZIP);
    sw_crc32_init(&castagnoli, SW_CRC32_CASTAGNOLI);
    CU_ASSERT_EQUAL(sw_crc32(&zip, 0, "123456789", 9), 0xcbf43926u);
    CU_ASSERT_EQUAL(sw_crc32(&castagnoli, 0, "123456789", 9), 0xe3069283u);
    CU_ASSERT_EQUAL(sw_crc32(&zip, 0, "", 0), 0);
    memset(bytes, 0, sizeof bytes);
    CU_ASSERT_EQUAL(sw_crc32(&castagnoli, 0, bytes, sizeof bytes), 0x8a9136aau);
    memset(bytes, 255, sizeof bytes);
    CU_ASSERT_EQUAL(sw_crc32(&castagnoli, 0, bytes, sizeof bytes), 0x62a8ab43u);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    CU_ASSERT_EQUAL(sw_crc32(&castagnoli, 0, bytes, sizeof bytes), 0x46dd794eu);
}

/* Bit by bit. */
static uint32_t plain(uint32_t polynomial, const unsigned char *bytes, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n * 8; i++) {
        const uint32_t out = (crc ^ bytes[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (out != 0 ? polynomial : 0);
    }
    return ~crc;
}

SW_TEST("any piece, in any two parts")
{
    unsigned char bytes[96];
    sw_dice dice = {7};
    sw_crc32_init(&zip, SW_CRC32_ZIP);
    sw_crc32_init(&castagnoli, SW_CRC32_CASTAGNOLI);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)sw_dice_next(&dice);
    for (size_t from = 0; from < 9; from++)
        for (size_t n = 0; from + n <= sizeof bytes; n++) {
            const uint32_t whole = sw_crc32(&zip, 0, bytes + from, n);
            const size_t cut = n / 3;
            CU_ASSERT_EQUAL(whole, plain(SW_CRC32_ZIP, bytes + from, n));
            CU_ASSERT_EQUAL(sw_crc32(&castagnoli, 0, bytes + from, n),
                            plain(SW_CRC32_CASTAGNOLI, bytes + from, n));
            CU_ASSERT_EQUAL(whole, sw_crc32(&zip, sw_crc32(&zip, 0, bytes + from, cut),
                                            bytes + from + cut, n - cut));
        }
}
