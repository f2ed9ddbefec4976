/* See screen.h. Handlers only set flags, and signals are let in only while waiting for them, so
 * none is seen too late. */
#include "tools/top/screen.h"
#include "tools/cli/cli.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t resized, to_stop, to_quit;

static struct {
    bool wanted;   /* between open and close, on a terminal */
    bool drawn_on; /* the other screen is shown */
    bool keys;     /* the terminal's input is ours, and `before` is how it was */
    struct termios before;
    int rows, columns, line;
} screen;

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        to_stop = 1;
    else
        to_quit = 1;
}

static const int caught[] = {SIGWINCH, SIGTSTP, SIGQUIT};

void screen_catch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        struct sigaction old;
        if (sigaction(caught[i], NULL, &old) != 0 || old.sa_handler != SIG_IGN)
            sigaction(caught[i], &action, NULL);
    }
    cli_catch_interrupt();
}

/* A process in the background would be stopped by what it asks of the terminal. */
static bool in_foreground(int fd)
{
    const pid_t group = tcgetpgrp(fd);
    return group < 0 || group == getpgrp();
}

static void take_keys(void)
{
    if (isatty(STDIN_FILENO) != 1 || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &screen.before) != 0)
        return;
    struct termios raw = screen.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    screen.keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void measure(void)
{
    struct winsize size;
    const bool known =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    screen.rows = known ? size.ws_row : 24;
    screen.columns = known ? size.ws_col : CLI_COLUMNS;
}

static void show(void)
{
    take_keys();
    screen.drawn_on = true;
    fputs("\033[?1049h\033[?25l", stdout);
}

static void hide(void)
{
    if (screen.drawn_on) {
        fputs("\033[?25h\033[?1049l", stdout);
        cli_flush();
    }
    screen.drawn_on = false;
    if (screen.keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
    screen.keys = false;
}

bool screen_open(void)
{
    screen.wanted = cli_terminal(stdout);
    if (screen.wanted && in_foreground(STDOUT_FILENO))
        show();
    return screen.wanted;
}

void screen_close(void)
{
    hide();
    screen.wanted = false;
}

/* A program in the background draws nothing until it is back. */
void screen_begin(void)
{
    screen.line = 0;
    if (screen.wanted && !screen.drawn_on && in_foreground(STDOUT_FILENO))
        show();
    if (screen.drawn_on) {
        measure();
        fputs("\033[H", stdout);
    }
}

/* The last line has no newline: it would move the picture up. */
void screen_line(const char *text)
{
    const size_t n = strlen(text);
    if (!screen.wanted) {
        (void)cli_fitted(stdout, text, n, CLI_COLUMNS);
        putchar('\n');
        return;
    }
    if (!screen.drawn_on || screen.line >= screen.rows)
        return;
    if (screen.line++ > 0)
        fputs("\r\n", stdout);
    (void)cli_fitted(stdout, text, n, screen.columns);
    fputs("\033[K", stdout);
}

void screen_end(void)
{
    if (screen.drawn_on)
        fputs("\033[J", stdout);
    cli_flush();
}

/* Sleep as Ctrl-Z wants it, on the terminal as it was. */
static void stop(void)
{
    to_stop = 0;
    hide();
    (void)raise(SIGSTOP);
    resized = 1; /* draw at once */
}

static bool quit_pressed(void)
{
    char keys[64];
    const ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        screen.keys = false; /* no one is there any more, and nothing to put back */
    return n > 0 && (memchr(keys, 'q', (size_t)n) != NULL || memchr(keys, 'Q', (size_t)n));
}

/* One sleep, which any signal ends; whether q was pressed. */
static bool sleep_until(uint64_t until)
{
    sigset_t block, before;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    sigaddset(&block, SIGTERM);
    sigaddset(&block, SIGHUP);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaddset(&block, caught[i]);
    sigprocmask(SIG_BLOCK, &block, &before);
    bool quit = false;
    const uint64_t now = cli_clock_ns();
    if (now < until && !resized && !to_stop && !to_quit && !cli_interrupted()) {
        const struct timespec rest = {(time_t)((until - now) / 1000000000u),
                                      (long)((until - now) % 1000000000u)};
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        const int ready = ppoll(&input, screen.keys ? 1 : 0, &rest, &before);
        quit = ready > 0 && quit_pressed();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return quit;
}

screen_event screen_wait(uint64_t until)
{
    for (;;) {
        if (cli_interrupted() || to_quit)
            return SCREEN_STOPPED;
        if (to_stop)
            stop();
        if (resized || cli_clock_ns() >= until) {
            resized = 0;
            return SCREEN_TIME;
        }
        if (sleep_until(until))
            return SCREEN_QUIT;
    }
}
