/* Numbers as callers and files of other programs write them, on their way into fields. */
#ifndef SW_DATA_ELEMENTS_H
#define SW_DATA_ELEMENTS_H

#include "runtime/stepwell.h"
#include <stdbool.h>

size_t swi_number_bytes(sw_number type);
/* Is it written as a whole number? */
bool swi_number_is_whole(sw_number type);

/* How numbers become those of a field. */
typedef struct {
    sw_number from;
    sw_dtype to;
    bool scaled;        /* x * scale + shift */
    float scale, shift; /* of what becomes F32 */
    int64_t low, high;  /* of whole numbers that stay whole */
} swi_take;

/* The type that `from` becomes where no other is asked for: F32 of floats and of what is
 * `scaled`; else U8, U16 or I32, which has the numbers low to high. */
swi_take swi_take_of(sw_number from);
/* 64 bits become the narrowest type that holds 0 to n - 1; others stay as wide as they are. */
sw_dtype swi_ids_type(sw_number from, int64_t n);

/* Take n numbers, from_step bytes apart, to places that are to_step bytes apart; `to` NULL:
 * they are looked at alone. *largest is raised to the largest whole number. Returns how many
 * were taken: less than n before one that is not finite or not low to high. */
size_t swi_take_numbers(const swi_take *take, unsigned char *to, ptrdiff_t to_step,
                        const unsigned char *from, ptrdiff_t from_step, size_t n,
                        int64_t *largest);
/* The reason why a number was not taken: "must be finite (got nan)". */
#define SWI_TAKE_TEXT 100
const char *swi_take_reason(const swi_take *take, const unsigned char *from, char *text);

#endif
