/* Eight bytes a round, each by a table of its own: the table of the byte that has k bytes
 * after it has k zeros in it. */
#include "alloc/base/crc32.h"

void sw_crc32_init(sw_crc32_table *t, uint32_t polynomial)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ ((c & 1) != 0 ? polynomial : 0);
        t->at[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            t->at[k][i] = t->at[k - 1][i] >> 8 ^ t->at[0][t->at[k - 1][i] & 255];
}

uint32_t sw_crc32(const sw_crc32_table *t, uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    crc = ~crc;
    for (; n >= 8; n -= 8, b += 8) {
        crc ^=
            (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        crc = t->at[7][crc & 255] ^ t->at[6][crc >> 8 & 255] ^ t->at[5][crc >> 16 & 255] ^
              t->at[4][crc >> 24] ^ t->at[3][b[4]] ^ t->at[2][b[5]] ^ t->at[1][b[6]] ^
              t->at[0][b[7]];
    }
    for (; n > 0; n--, b++)
        crc = crc >> 8 ^ t->at[0][(crc ^ *b) & 255];
    return ~crc;
}
