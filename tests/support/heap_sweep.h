/* Counting heap blocks around an operation, and failing each of its sites. */
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

/* The same where there is more to prepare and to check; what the body takes it gives back:
 *
 *     sw_sites s = {SW_FAULT_MEMORY};
 *     while (sw_sites_next(&s)) {
 *         ... prepare
 *         const sw_status status = SW_AT_SITE(&s, sw_plan(exec, &args, &plan));
 *         ... check
 *     }
 *     CU_ASSERT(s.failed > 5);
 *
 * A call may do without what failed; else it has `status` and a message. */
typedef struct {
    sw_fault_kind kind;
    sw_fault_mode mode; /* SW_FAULT_OFF: once */
    sw_status status;   /* of a failure; SW_OK: SW_NOMEM of memory, SW_IO of all else */
    uint64_t every;     /* 0: each site; else each of so many */
    bool any,           /* a failure may have any status */
        exact,          /* no call does without what failed */
        keeps;          /* blocks that the body leaves are not counted */
    bool begun, reached;
    uint64_t k, failed, blocks; /* the site, and failures so far */
} sw_sites;

bool sw_sites_next(sw_sites *s);
void sw_site_begin(sw_sites *s);
sw_status sw_site_end(sw_sites *s, sw_status status);
#define SW_AT_SITE(s, call) (sw_site_begin(s), sw_site_end(s, call))

#endif
