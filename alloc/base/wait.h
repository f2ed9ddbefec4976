/* Waiting for a FIFO, pipe, socket or terminal, so that sw_interrupt_set()'s answer ends
 * it. The function is called before each slice of the wait, so a request that comes
 * between that call and the system call is not lost. */
#ifndef SW_WAIT_H
#define SW_WAIT_H

#include "alloc/base/base.h"
#include <stdbool.h>

/* Wait until `fd` has something to read or its other end is closed, or until it takes
 * something. False: interrupted, and nothing moved for a second since. */
bool swi_wait_input(int fd);
bool swi_wait_output(int fd);
/* Sleep for a slice; false: interrupted for a second. *slices is 0 before the first call. */
bool swi_wait_slice(unsigned *slices);

#endif
