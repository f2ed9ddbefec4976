/* Operations of a node counted by other means than its op's. */
#ifndef SW_PLAIN_COSTS_H
#define SW_PLAIN_COSTS_H

#include "runtime/exec/exec.h"

/* Of operand i, outputs after inputs; its elements, lanes of padding left out. */
const sw_type *plain_type(const swi_trace *t, const swi_node *node, uint32_t i);
uint64_t plain_size(const sw_type *type);
/* Is it this kernel? grad -1: forward. */
bool plain_is(const swi_node *node, const char *name, int grad);
/* The operations of one run, without additions to outputs; false: no count knows the kernel. */
bool plain_count(const swi_trace *t, const swi_node *node, uint64_t *n);

#endif
