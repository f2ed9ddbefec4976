/* stepwell top on a terminal: drawn in place, and the terminal as it was when it has ended. */
#include "tests/support/suite.h"
#include "tests/system/watched.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

static char shown[1 << 18];

/* Take what came through, waiting 10 ms for it; false when the writer has ended. */
static bool take(int terminal)
{
    const size_t n = strlen(shown);
    struct pollfd more = {.fd = terminal, .events = POLLIN};
    if (poll(&more, 1, 10) <= 0)
        return true;
    const ssize_t got = read(terminal, shown + n, sizeof shown - 1 - n);
    shown[n + (got > 0 ? (size_t)got : 0)] = '\0';
    return got > 0 || (got < 0 && errno == EINTR);
}

static time_t seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* More of what came through, until it has `what` after `from`, at most 30 s. */
static char *shown_until(int terminal, size_t from, const char *what)
{
    const time_t end = seconds() + 30;
    while (strstr(shown + from, what) == NULL && take(terminal) && seconds() < end)
        ;
    char *found = strstr(shown + from, what);
    SW_CHECK(found != NULL, "'%s' does not come: %s", what, shown + from);
    return found;
}

/* How it ended. Its output is read until then, so that a full terminal does not hold it
 * up. After 30 s it is killed. */
static int ending(int terminal, pid_t pid)
{
    int status = 0;
    const time_t end = seconds() + 30;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (!take(terminal))
            (void)poll(NULL, 0, 10);
        if (seconds() >= end)
            kill(pid, SIGKILL);
    }
    return status;
}

/* Columns of the widest line between two places, escapes left out. */
static int widest(const char *from, const char *to)
{
    int width = 0, most = 0;
    for (const char *c = from; c < to; c++) {
        if (*c == '\033') {
            while (c < to && strchr("mKJHhl", *c) == NULL)
                c++;
        } else if (*c == '\n' || *c == '\r')
            width = 0;
        else
            width += ((unsigned char)*c & 0xc0) != 0x80;
        most = width > most ? width : most;
    }
    return most;
}

static const char *finished_profile(void)
{
    const char *path = path_of("drawn.jsonl");
    FILE *f = open_profile(path, "w");
    put_header(f, "a");
    put_plan(f);
    for (unsigned k = 1; k <= 5; k++)
        put_step(f, k, 0, 0);
    fclose(f);
    return path;
}

static const char *const utf8[] = {"TERM=xterm", "NO_COLOR=", "LC_ALL=C.UTF-8", NULL};

/* Drawn over itself on the other screen; q puts the terminal back as it was, and the last
 * picture stays. */
static void the_picture_is_drawn_in_place(void)
{
    char words[1200];
    struct termios before, within, after;
    pid_t pid;
    const char *path = finished_profile();
    FILE *f = open_profile(path, "a"); /* another process writes it, so top goes on */
    snprintf(words, sizeof words, "top %s --interval 0.05", path);
    shown[0] = '\0';
    const int terminal = program_start_on_terminal(&pid, words, utf8, 80, true);
    if (terminal < 0)
        SW_SKIP("no terminal can be made here");
    sw_after(watched_end, (void *)(intptr_t)pid);
    CU_ASSERT_EQUAL(tcgetattr(terminal, &before), 0);
    char *drawn = shown_until(terminal, 0, "\033[J");
    CU_ASSERT_EQUAL(strncmp(shown, ENTER "\033[H", strlen(ENTER "\033[H")), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(shown, "\u2588\u2588\u2588\u2592"));
    CU_ASSERT_PTR_NOT_NULL(strstr(shown, "\033[32mrunning\033[0m"));
    CU_ASSERT(widest(shown, drawn) <= 80);
    CU_ASSERT(tcgetattr(terminal, &within) == 0 && (within.c_lflag & (ICANON | ECHO)) == 0);
    put_step(f, 6, 0, 0);
    fflush(f);
    const char *next = shown_until(terminal, (size_t)(drawn - shown), "step 6, loss 994");
    CU_ASSERT_PTR_NOT_NULL(strstr(drawn, "\033[H"));
    CU_ASSERT_PTR_NULL(strstr(shown + 1, ENTER)); /* once */

    /* A narrow terminal is drawn for at once and never overrun. */
    const struct winsize narrow = {.ws_row = 6, .ws_col = 40};
    CU_ASSERT_EQUAL(ioctl(terminal, TIOCSWINSZ, &narrow), 0);
    watched_rest(100);
    size_t from = strlen(shown);
    shown_until(terminal, from, "\033[J");
    from = strlen(shown);
    const char *begin = shown_until(terminal, from, "\033[H");
    const char *end = shown_until(terminal, (size_t)(begin - shown), "\033[J");
    int lines = 0;
    for (const char *c = begin; c < end; c++)
        lines += *c == '\n';
    SW_CHECK(widest(begin, end) <= 40 && lines == 5, "%d columns, %d lines", widest(begin, end),
             lines + 1);

    /* Other keys do nothing. */
    CU_ASSERT_EQUAL(write(terminal, "xq", 2), 2);
    const char *left = shown_until(terminal, (size_t)(next - shown), LEAVE);
    const int status = ending(terminal, pid);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    shown_until(terminal, (size_t)(left - shown), "drawn.jsonl, ");
    CU_ASSERT_PTR_NOT_NULL(strstr(left, "step 6, loss 994"));
    CU_ASSERT_PTR_NULL(strstr(left + strlen(LEAVE), "\033[H"));
    CU_ASSERT(tcgetattr(terminal, &after) == 0 && after.c_lflag == before.c_lflag);
    fclose(f);
    close(terminal);
}

/* Whatever ends it, and while Ctrl-Z holds it, the terminal is as it was. */
static void the_terminal_is_put_back(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    char words[1200];
    const char *path = finished_profile();
    FILE *f = open_profile(path, "a");
    snprintf(words, sizeof words, "top %s --interval 30", path);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct termios before, after;
        pid_t pid;
        int status = 0;
        shown[0] = '\0';
        const int terminal = program_start_on_terminal(&pid, words, utf8, 80, true);
        if (terminal < 0)
            SW_SKIP("no terminal can be made here");
        sw_after(watched_end, (void *)(intptr_t)pid);
        CU_ASSERT_EQUAL(tcgetattr(terminal, &before), 0);
        shown_until(terminal, 0, "\033[J");
        size_t from = strlen(shown);
        if (i == 0) { /* the key, and what it leaves while the process sleeps */
            CU_ASSERT_EQUAL(kill(pid, SIGTSTP), 0);
            shown_until(terminal, from, LEAVE);
            CU_ASSERT_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
            CU_ASSERT(WIFSTOPPED(status));
            CU_ASSERT(tcgetattr(terminal, &after) == 0 && after.c_lflag == before.c_lflag);
            from = strlen(shown);
            kill(pid, SIGCONT);
            shown_until(terminal, from, ENTER);
            shown_until(terminal, from, "\033[J");
            from = strlen(shown);
            CU_ASSERT_EQUAL(write(terminal, "\003", 1), 1); /* Ctrl-C */
        } else
            CU_ASSERT_EQUAL(kill(pid, signals[i]), 0);
        shown_until(terminal, from, LEAVE);
        status = ending(terminal, pid);
        SW_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 130, "signal %d: status %x",
                 signals[i], (unsigned)status);
        CU_ASSERT(tcgetattr(terminal, &after) == 0 && after.c_lflag == before.c_lflag);
        close(terminal);
    }
    fclose(f);
}

static void no_colour_is_heeded(void)
{
    static const char *const plain[] = {"TERM=xterm", "NO_COLOR=1", "LC_ALL=C", NULL};
    static const char *const dumb[] = {"TERM=dumb", "NO_COLOR=", "LC_ALL=C", NULL};
    char words[1200];
    const char *path = finished_profile(); /* no process writes it: top ends at once */
    snprintf(words, sizeof words, "top %s", path);
    shown[0] = '\0';
    const int status = program_on_terminal(shown, sizeof shown, words, plain, 80);
    if (status < 0 && errno != 0)
        SW_SKIP("no terminal can be made here");
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT(strstr(shown, ENTER) != NULL && strchr(shown, '#') != NULL);
    for (const char *c = shown; (c = strchr(c, '\033')) != NULL; c++)
        CU_ASSERT_NOT_EQUAL(c[strspn(c + 1, "[0123456789;") + 1], 'm');
    CU_ASSERT_EQUAL(program_on_terminal(shown, sizeof shown, words, dumb, 80), 0);
    CU_ASSERT_PTR_NULL(strchr(shown, '\033'));
    CU_ASSERT(strncmp(shown, "step 5, loss 995, ", 18) == 0);
}

static const sw_test tests[] = {
    {"the picture is drawn in place", the_picture_is_drawn_in_place},
    {"the terminal is put back", the_terminal_is_put_back},
    {"NO_COLOR is heeded", no_colour_is_heeded},
};
SW_SUITE("top", tests)
