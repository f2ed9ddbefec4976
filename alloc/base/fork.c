/* The three handlers of pthread_atfork, registered when the library is loaded. */
#include "alloc/base/fork.h"
#include <stddef.h>

static uint32_t number;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static sw_fork_lock *list;

static void in_front(void)
{
    pthread_mutex_lock(&list_lock);
    for (sw_fork_lock *x = list; x != NULL; x = x->next)
        pthread_mutex_lock(&x->mutex);
}

static void in_parent(void)
{
    for (sw_fork_lock *x = list; x != NULL; x = x->next)
        pthread_mutex_unlock(&x->mutex);
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    number++;
    in_parent();
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(in_front, in_parent, in_child);
}

uint32_t sw_fork_number(void)
{
    return __atomic_load_n(&number, __ATOMIC_RELAXED);
}

static void enter_list(sw_fork_lock *lock)
{
    pthread_mutex_lock(&list_lock);
    if (!lock->listed) {
        lock->next = list;
        list = lock;
        __atomic_store_n(&lock->listed, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&list_lock);
}

void sw_fork_lock_take(sw_fork_lock *lock)
{
    if (!__atomic_load_n(&lock->listed, __ATOMIC_ACQUIRE))
        enter_list(lock);
    pthread_mutex_lock(&lock->mutex);
}

void sw_fork_lock_give(sw_fork_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
