/* Requests to end and to save, in processes of their own. */
#include "alloc/base/poison.h"
#include "tests/support/suite.h"
#include "tools/cli/cli.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("signals")

static const int requests[] = {SIGINT, SIGTERM, SIGHUP};
enum { REQUESTS = sizeof requests / sizeof *requests };

/* The child's exit status, or minus the signal that ended it. */
static int in_child(void (*body)(int, int), int a, int b)
{
    int status = 0;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < REQUESTS; i++)
            (void)signal(requests[i], SIG_DFL); /* the tests may run under nohup */
        body(a, b);
        _exit(0);
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void need(bool what, int line)
{
    if (!what)
        _exit(line % 200 + 1);
}
#define NEED(what) need(what, __LINE__)

static void two(int first, int second)
{
    cli_catch_interrupt();
    NEED(!cli_interrupted());
    (void)raise(first);
    NEED(cli_interrupted());
    if (second != 0)
        (void)raise(second);
}

SW_TEST("the first request sets a flag, and any second ends")
{
    for (int a = 0; a < REQUESTS; a++) {
        CU_ASSERT_EQUAL(in_child(two, requests[a], 0), 0);
        for (int b = 0; b < REQUESTS; b++) {
            const int status = in_child(two, requests[a], requests[b]);
            SW_CHECK(status == -requests[b], "%d, then %d: %d", requests[a], requests[b],
                     status);
        }
    }
}

/* As nohup does with SIGHUP: it neither asks for the end nor is a second request. */
static void with_ignored(int ignored, int other)
{
    (void)signal(ignored, SIG_IGN);
    cli_catch_interrupt();
    (void)raise(ignored);
    NEED(!cli_interrupted());
    (void)raise(other);
    NEED(cli_interrupted());
    (void)raise(ignored); /* the second request, were it not ignored */
    _exit(100);
}

SW_TEST("an ignored request stays ignored")
{
    for (int a = 0; a < REQUESTS; a++)
        for (int b = 0; b < REQUESTS; b++)
            if (a != b)
                CU_ASSERT_EQUAL(in_child(with_ignored, requests[a], requests[b]), 100);
}

/* Both came before the first handler ran: the second is not lost. */
static void two_at_once(int first, int second)
{
    sigset_t both;
    cli_catch_interrupt();
    sigemptyset(&both);
    sigaddset(&both, first);
    sigaddset(&both, second);
    (void)sigprocmask(SIG_BLOCK, &both, NULL);
    (void)raise(first);
    (void)raise(second);
    (void)sigprocmask(SIG_UNBLOCK, &both, NULL);
}

SW_TEST("two at once end")
{
    if (SW_SANITIZED && !SW_POISON)
        SW_SKIP(
            "the thread sanitizer drops a signal that waits while its handler is taken away");
    for (int a = 0; a < REQUESTS; a++)
        for (int b = 0; b < REQUESTS; b++)
            if (a != b) {
                const int status = in_child(two_at_once, requests[a], requests[b]);
                SW_CHECK(status == -requests[a] || status == -requests[b], "%d and %d: %d",
                         requests[a], requests[b], status);
            }
}

static void asks_for_saves(int caught, int unused)
{
    (void)signal(SIGUSR1, SIG_DFL);
    cli_catch_interrupt();
    if (caught)
        cli_catch_save();
    NEED(!cli_save_asked());
    (void)raise(SIGUSR1);
    NEED(cli_save_asked());
    NEED(!cli_save_asked());
    (void)raise(SIGUSR1);
    (void)raise(SIGUSR1);
    NEED(cli_save_asked());
    NEED(!cli_save_asked());
    NEED(!cli_interrupted());
    (void)raise(SIGTERM);
    NEED(cli_interrupted() && !cli_save_asked());
    (void)raise(SIGUSR1); /* no second request to end */
    NEED(cli_save_asked());
}

SW_TEST("saves are asked for by signal")
{
    CU_ASSERT_EQUAL(in_child(asks_for_saves, 1, 0), 0);
}

SW_TEST("without the call the signal ends the process")
{
    CU_ASSERT_EQUAL(in_child(asks_for_saves, 0, 0), -SIGUSR1);
}
