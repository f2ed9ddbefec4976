/* Counting heap blocks around an operation, and the sweep that fails each of its sites. */
#ifndef SW_TESTS_HEAP_SWEEP_H
#define SW_TESTS_HEAP_SWEEP_H

#include "alloc/base/fault.h"
#include "alloc/base/mem.h"

/* Blocks of all heaps that are live now. */
uint64_t sw_heap_blocks(void);

/* Fail call 0, 1, 2, ... of `kind` during operation(arg) until it succeeds untouched, once with
 * only that call failing and once with all from it on. The operation gives back what it took
 * when it succeeds. Each failure must return `status` (SW_OK: any failure) with a message, and
 * leave no block. Returns the number of sites. */
uint64_t sw_sweep(sw_fault_kind kind, sw_status status, sw_status (*operation)(void *arg),
                  void *arg);

#endif
