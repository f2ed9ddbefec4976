/* The one way down to the host heap, for mem.c alone. Zeroed blocks, aligned to 16. */
#pragma once

#include "alloc/base/mem.h"

void *swi_heap_take(sw_heap heap, size_t bytes);
void swi_heap_give(sw_heap heap, void *block, size_t bytes);
const char *swi_heap_backend(void);
void swi_heap_trim(void);

/* The address ranges that the backend has mapped for our purposes, where it can tell them from
 * others; and how much it has mapped besides (0: it cannot say). */
void swi_heap_ranges(void (*visit)(void *context, sw_heap heap, uintptr_t base, size_t bytes),
                     void *context);
size_t swi_heap_unclaimed_bytes(void);

/* As mem.h promises of sw_heap_report_read, sw_heap_other_bytes and the heap profile. */
void swi_heap_report(sw_heap_report *out);
bool swi_heap_other_bytes(size_t *out);
sw_status swi_heap_profile_ready(void);
sw_status swi_heap_profile_write(const char *path);
