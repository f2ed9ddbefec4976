/* Cyclic redundancy checks of 32 bits, for formats of others that have them. Not against
 * forgers: against damage. */
#ifndef SW_CRC32_H
#define SW_CRC32_H

#include <stddef.h>
#include <stdint.h>

#define SW_CRC32_ZIP 0xedb88320u        /* of zip, gzip and PNG */
#define SW_CRC32_CASTAGNOLI 0x82f63b78u /* CRC32C: of TFRecord */

/* Remainders by a polynomial (its highest power in bit 0) of each byte, and of each byte with
 * up to seven zeros after it. The caller's memory; may be copied, and shared by threads. */
typedef struct {
    uint32_t at[8][256];
} sw_crc32_table;

void sw_crc32_init(sw_crc32_table *table, uint32_t polynomial);
/* The check of all bytes: `crc` is that of those before these, 0 where there are none. */
uint32_t sw_crc32(const sw_crc32_table *table, uint32_t crc, const void *bytes, size_t n);

#endif
