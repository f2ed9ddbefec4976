/* Checksums of bytes: XXH3, 64 bits (libxxhash). Not against forgers: against damage. */
#pragma once

#include "alloc/base/base.h"

/* Of bytes that come piece by piece. The caller's memory; ends with it. Not to be copied. */
typedef struct {
    uint64_t state[80];
} swi_checksum;

void swi_checksum_begin(swi_checksum *sum);
void swi_checksum_add(swi_checksum *sum, const void *bytes, size_t n);
/* The same as a callback, of a swi_checksum, for pieces that come in order. SW_OK. */
sw_status swi_checksum_piece(void *sum, const void *bytes, size_t at, size_t n);
uint64_t swi_checksum_end(const swi_checksum *sum);
uint64_t swi_checksum_of(const void *bytes, size_t n);
/* The same after a sum of other bytes; 0: after none. */
uint64_t swi_sum_of(const void *bytes, size_t n, uint64_t sum);
