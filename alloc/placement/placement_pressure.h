/* The pressure of each section, as a tree: the larger child, and what was added to all below.
 */
#ifndef SW_PLACEMENT_PRESSURE_H
#define SW_PLACEMENT_PRESSURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t *node;   /* 2 * width; node[1] is the highest of all */
    uint32_t width; /* power of two */
} swi_pressure;

/* Sections after the n-th have none. */
void swi_pressure_fill(const swi_pressure *p, const size_t *load, uint32_t n);
/* Add to the sections [from, to). */
void swi_pressure_add(const swi_pressure *p, uint32_t from, uint32_t to, size_t bytes);
/* The leftmost section of the highest pressure in [from, to). */
uint32_t swi_pressure_most(const swi_pressure *p, uint32_t from, uint32_t to);

#endif
