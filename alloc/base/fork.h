/* A fork leaves of a process with threads the caller's thread alone, and every lock as it was.
 * Objects with threads keep the number of the process that they were made in, and are not used
 * in another; the library's own locks are free in the child. */
#ifndef SW_FORK_H
#define SW_FORK_H

#include "alloc/base/base.h"
#include <pthread.h>

/* How often this process was forked off: a number of its own for each process of a line. No
 * system call. */
uint32_t sw_fork_number(void);

/* A lock that no other thread holds after a fork. On first use it joins a list. All locks
 * of the list are taken before a fork, in the order of the list. Hold none while taking
 * one. */
typedef struct sw_fork_lock {
    pthread_mutex_t mutex;
    int listed; /* once */
    struct sw_fork_lock *next;
} sw_fork_lock;
#define SW_FORK_LOCK                                                                           \
    {                                                                                          \
        PTHREAD_MUTEX_INITIALIZER, 0, NULL                                                     \
    }
void sw_fork_lock_take(sw_fork_lock *lock);
void sw_fork_lock_give(sw_fork_lock *lock);

#endif
