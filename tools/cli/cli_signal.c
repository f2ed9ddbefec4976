/* The interrupt flag, and what becomes of standard streams that are full when it is set.
 *
 * A write of stdio cannot be asked to wait for a while. So from the first signal on an alarm
 * looks once a second whether the streams take anything, and puts /dev/null in the place of one
 * that does not: a write that waits is begun again by the system (SA_RESTART), by its number,
 * and ends. Nothing here is called but what a signal handler may call. */
#include "tools/cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { FULL_LOOKS = 3 }; /* a second apart, in a row */

static volatile sig_atomic_t interrupted, given_up[STDERR_FILENO + 1];
static pthread_t catcher; /* the thread that prints */

static void give_up_when_full(int fd)
{
    static volatile sig_atomic_t full[STDERR_FILENO + 1];
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    if (poll(&one, 1, 0) != 0) {
        full[fd] = 0;
        return;
    }
    full[fd]++;
    const int null = full[fd] >= FULL_LOOKS ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null < 0)
        return;
    if (dup2(null, fd) == fd)
        given_up[fd] = 1;
    (void)close(null);
}

static void on_alarm(int number)
{
    const int before = errno;
    if (!pthread_equal(pthread_self(), catcher)) {
        (void)pthread_kill(catcher, number); /* a write that waits is begun again there */
    } else {
        give_up_when_full(STDOUT_FILENO);
        give_up_when_full(STDERR_FILENO);
        (void)alarm(1);
    }
    errno = before;
}

/* An alarm that was set for us by whoever started us ends the process until then. */
static void on_interrupt(int number)
{
    const int before = errno;
    struct sigaction action;
    (void)number;
    interrupted = 1;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = (int)SA_RESTART;
    if (sigaction(SIGALRM, &action, NULL) == 0)
        (void)alarm(1);
    errno = before;
}

static int asked(void)
{
    return interrupted != 0;
}

void cli_catch_interrupt(void)
{
    struct sigaction action;
    catcher = pthread_self();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    /* The second one finds the default action again. Calls in flight go on: the step that is
     * running, and what it writes to a regular file, comes to its end. */
    action.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
    static const int requests[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct sigaction old;
        if (sigaction(requests[i], NULL, &old) != 0 || old.sa_handler != SIG_IGN)
            sigaction(requests[i], &action, NULL);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
    sw_interrupt_set(asked);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

bool cli_output_given_up(void)
{
    return given_up[STDOUT_FILENO] != 0;
}
