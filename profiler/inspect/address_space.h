/* Ranges of addresses of another process, set one after another: what lay in one range keeps
 * its distances, and what lay between ranges takes no room. */
#ifndef STEPWELL_ADDRESS_SPACE_H
#define STEPWELL_ADDRESS_SPACE_H

#include "alloc/base/base.h"

typedef struct {
    uint64_t from, to, offset; /* offset: where it begins here */
} address_range;

typedef struct {
    address_range *ranges;
    uint32_t n, cap;
} address_space;

/* Ranges may overlap and come in any order; from + bytes must not overflow. */
SW_MUST_USE sw_status address_space_add(address_space *s, uint64_t from, uint64_t bytes);
/* When all were added. */
void address_space_close_up(address_space *s);
/* Where an address of an added range is; after all others where it is of none. */
uint64_t address_space_offset(const address_space *s, uint64_t address);
void address_space_free(address_space *s);

#endif
