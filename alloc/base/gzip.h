/* A gzip stream over an open file, which it borrows. */
#pragma once

#include "alloc/base/sys.h"

typedef struct sw_gzip sw_gzip;
/* SW_UNSUPPORTED in a build without zlib. */
SW_MUST_USE sw_status sw_gzip_open(sw_gzip **out, sw_file *file);
void sw_gzip_close(sw_gzip *gzip); /* NULL is fine */
/* *got < bytes only at the end. A cut or damaged stream is SW_FORMAT. */
SW_MUST_USE sw_status sw_gzip_read(sw_gzip *gzip, void *to, size_t bytes, size_t *got);
/* Start again, where the file does. */
SW_MUST_USE sw_status sw_gzip_rewind(sw_gzip *gzip);

/* Cyclic redundancy checks of 32 bits, for formats of others that have them. Not against
 * forgers: against damage. */

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
