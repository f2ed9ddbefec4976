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

static volatile sig_atomic_t interrupted, save_asked, given_up[STDERR_FILENO + 1];
static pthread_t catcher; /* the thread that prints */

/* The requests to end, and which of them are caught: one that was ignored when the program
 * began is not. */
static const int requests[] = {SIGINT, SIGTERM, SIGHUP};
enum { REQUESTS = sizeof requests / sizeof *requests };
static bool is_caught[REQUESTS];

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

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = (int)SA_RESTART;
    (void)sigaction(number, &action, NULL);
}

/* The next request finds the default action, whichever it is. One that came to another thread
 * before that is a second one too: it is sent again. An alarm that was set for us by whoever
 * started us ends the process until then. */
static void on_interrupt(int number)
{
    const int before = errno;
    const bool second = __atomic_exchange_n(&interrupted, 1, __ATOMIC_RELAXED) != 0;
    for (int i = 0; i < REQUESTS; i++)
        if (is_caught[i])
            set_handler(requests[i], SIG_DFL);
    if (second) {
        (void)raise(number); /* it comes when this handler has returned */
    } else {
        set_handler(SIGALRM, on_alarm);
        (void)alarm(1);
    }
    errno = before;
}

static void on_save(int number)
{
    (void)number;
    save_asked = 1;
}

static int asked(void)
{
    return interrupted != 0;
}

/* Calls in flight go on (SA_RESTART): the step that is running, and what it writes to a regular
 * file, comes to its end. */
void cli_catch_interrupt(void)
{
    catcher = pthread_self();
    for (int i = 0; i < REQUESTS; i++) {
        struct sigaction old;
        is_caught[i] = sigaction(requests[i], NULL, &old) != 0 || old.sa_handler != SIG_IGN;
    }
    for (int i = 0; i < REQUESTS; i++)
        if (is_caught[i])
            set_handler(requests[i], on_interrupt);
    set_handler(SIGPIPE, SIG_IGN);
    set_handler(SIGXFSZ, SIG_IGN);
    sw_interrupt_set(asked);
}

void cli_catch_save(void)
{
    set_handler(SIGUSR1, on_save);
}

bool cli_save_asked(void)
{
    return __atomic_exchange_n(&save_asked, 0, __ATOMIC_RELAXED) != 0;
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

bool cli_output_given_up(void)
{
    return given_up[STDOUT_FILENO] != 0;
}
