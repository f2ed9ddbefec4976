/* See wait.h. */
#include "alloc/base/wait.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>

/* How long an interrupted call goes on without progress. If the other end still works, the
 * rest is moved; if it has stopped, the process is not held up. Slices are counted, so
 * that no wrong clock can matter. */
enum { SLICE_MS = 20, GRACE_SLICES = 1000 / SLICE_MS };

static int (*_Atomic asks)(void);

void sw_interrupt_set(int (*asked)(void))
{
    atomic_store(&asks, asked);
}

static bool interrupted(void)
{
    int (*const asked)(void) = atomic_load(&asks);
    return asked != NULL && asked() != 0;
}

/* One slice; with no one to ask there is nothing to wake up for. A file that poll refuses is
 * ready: the call that follows says why. */
static bool ready(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};
    const int n = poll(&one, 1, atomic_load(&asks) != NULL ? SLICE_MS : -1);
    return n > 0 || (n < 0 && errno != EINTR);
}

static bool over(unsigned *slices)
{
    return interrupted() && ++*slices >= GRACE_SLICES;
}

static bool wait_for(int fd, short events)
{
    unsigned slices = 0;
    while (!ready(fd, events))
        if (over(&slices))
            return false;
    return true;
}

bool swi_wait_input(int fd)
{
    return wait_for(fd, POLLIN);
}

bool swi_wait_output(int fd)
{
    return wait_for(fd, POLLOUT);
}

bool swi_wait_slice(unsigned *slices)
{
    (void)poll(NULL, 0, SLICE_MS);
    return !over(slices);
}
