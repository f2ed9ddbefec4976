/* Strings as numbers, for formats that write each text once. */
#ifndef SW_STRINGS_H
#define SW_STRINGS_H

#include "alloc/base/base.h"

/* Strings by number, in the order in which they are first asked for. Addresses distinguish
 * them: a timeline keeps each text once. */
typedef struct {
    const char **list;
    uint32_t n, cap;
    uint32_t *slots; /* open addressing; number + 1, or 0 */
    uint32_t n_slots;
    sw_status status; /* the first error; numbers are 0 from there on */
} swi_strings;

void swi_strings_free(swi_strings *s);
uint32_t swi_strings_number(swi_strings *s, const char *text);

#endif
