/* See wait.h. */
#include "alloc/wait.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>

/* How long an interrupted write goes on without progress: a reader that is there takes what is
 * left, one that has stopped does not hold the process. Counted, so that no clock can stop it.
 */
enum { SLICE_MS = 20, GRACE_SLICES = 1000 / SLICE_MS };

static int (*_Atomic asks)(void);

void sw_interrupt_set(int (*asked)(void))
{
    atomic_store(&asks, asked);
}

bool swi_interrupted(void)
{
    int (*const asked)(void) = atomic_load(&asks);
    return asked != NULL && asked() != 0;
}

/* One slice; without anybody to ask there is nothing to wake up for. What poll refuses is
 * ready: the call that follows says why. */
static bool ready(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};
    const int n = poll(&one, 1, atomic_load(&asks) != NULL ? SLICE_MS : -1);
    return n > 0 || (n < 0 && errno != EINTR);
}

static bool over(unsigned *slices)
{
    return swi_interrupted() && ++*slices >= GRACE_SLICES;
}

bool swi_wait_input(int fd)
{
    while (!swi_interrupted())
        if (ready(fd, POLLIN))
            return true;
    return false;
}

bool swi_wait_output(int fd)
{
    unsigned slices = 0;
    while (!ready(fd, POLLOUT))
        if (over(&slices))
            return false;
    return true;
}

bool swi_wait_slice(unsigned *slices)
{
    (void)poll(NULL, 0, SLICE_MS);
    return !over(slices);
}
