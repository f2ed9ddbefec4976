/* Printing for people, exit statuses, step times. */
#include "alloc/base/mem.h"
#include "alloc/base/message.h"
#include "alloc/base/sys.h"
#include "profiler/record/utf8.h"
#include "tools/cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The interrupt flag, and what becomes of standard streams that are full when it is set.
 *
 * A write of stdio cannot be asked to wait for a while. So from the first signal on an alarm
 * looks once a second whether the streams take anything, and puts /dev/null in the place of one
 * that does not: a write that waits is begun again by the system (SA_RESTART), by its number,
 * and ends. Nothing here is called but what a signal handler may call. */

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

/* A launcher sends what a terminal has sent already: within a second that is no other one. */
static bool repeats;
static uint64_t interrupted_ns;

void cli_catch_repeats(void)
{
    repeats = true;
}

/* The next request finds the default action, whichever it is. One that came to another thread
 * before that is a second one too: it is sent again. An alarm that was set for us by whoever
 * started us ends the process until then. */
static void on_interrupt(int number)
{
    const int before = errno;
    const bool second = __atomic_exchange_n(&interrupted, 1, __ATOMIC_RELAXED) != 0;
    if (!second)
        interrupted_ns = sw_clock_ns();
    else if (repeats && sw_clock_ns() - interrupted_ns < 1000000000)
        return;
    for (int i = 0; i < REQUESTS && (second || !repeats); i++)
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

static const char *command = "";
static bool progress_shown;

void cli_set_command(const char *name)
{
    command = name;
}

/* ---- messages ---------------------------------------------------------------------------- */

static char last_line[3 * 4096]; /* two paths and the words around them */

const char *cli_last_line(void)
{
    return last_line;
}

/* One line, whatever the arguments and file names in it have. */
static void read_line(const char *format, va_list args)
{
    static char text[sizeof last_line];
    (void)sw_message_list(text, sizeof text, format, args);
    sw_utf8_clean(last_line, sizeof last_line, text);
}

static void print_line(const char *colour)
{
    cli_progress("%s", "");
    const bool coloured = cli_colour(stderr);
    fprintf(stderr, "%sstepwell%s%s:%s %s\n", coloured ? colour : "",
            *command != '\0' ? " " : "", command, coloured ? "\033[0m" : "", last_line);
}

static const char red[] = "\033[31m";
static bool no_usage, no_notes, keeps, kept;

bool cli_keep_errors(bool keep)
{
    const bool had = kept;
    if (had && !keep)
        print_line(red);
    kept = had && keep;
    keeps = keep;
    return had;
}

void cli_forget_errors(void)
{
    kept = false;
}

void cli_no_usage(bool none)
{
    no_usage = none;
}

int cli_error(int status, const char *format, ...)
{
    va_list args;
    if (no_usage && status == CLI_USAGE)
        return status;
    va_start(args, format);
    read_line(format, args);
    va_end(args);
    kept |= keeps;
    if (!keeps)
        print_line(red);
    return status;
}

void cli_no_notes(void)
{
    no_notes = true;
}

void cli_note(const char *format, ...)
{
    va_list args;
    if (no_notes)
        return;
    va_start(args, format);
    read_line(format, args);
    va_end(args);
    print_line("\033[33m");
}

sw_status cli_saved(sw_status status)
{
    if (status == SW_OK && sw_last_note()[0] != '\0')
        cli_note("%s", sw_last_note());
    return status;
}

int cli_library_error(sw_status status, bool input)
{
    int code = CLI_FAILED;
    if (status == SW_FORMAT || (status == SW_IO && input))
        code = CLI_DAMAGED;
    else if (status == SW_NOMEM)
        code = CLI_NO_FIT;
    else if (status == SW_DEVICE)
        code = CLI_NO_DEVICE;
    else if (status == SW_STOPPED)
        code = CLI_INTERRUPTED;
    const char *why = sw_last_error();
    return cli_error(code, "%s", *why != '\0' ? why : sw_status_name(status));
}

static int flush_error;

void cli_flush(void)
{
    if (fflush(stdout) != 0 && flush_error == 0)
        flush_error = errno;
}

/* A write that failed while something was printed has left no reason. */
int cli_finish(int status)
{
    static bool told;
    const int failed = status == CLI_DONE ? CLI_FAILED : status;
    cli_flush();
    if (given_up[STDOUT_FILENO] != 0) {
        if (!told)
            (void)cli_error(0, "standard output was not read after the interrupt: the rest is "
                               "not printed");
        told = true;
        return CLI_INTERRUPTED;
    }
    if (flush_error == 0 && !ferror(stdout))
        return status;
    if (told)
        return failed;
    told = true;
    return cli_error(failed, "standard output did not take everything%s%s",
                     flush_error != 0 ? ": " : "",
                     flush_error != 0 ? strerror(flush_error) : "");
}

/* ---- text -------------------------------------------------------------------------------- */

static void put_to_stream(void *stream, const char *bytes, size_t n)
{
    (void)fwrite(bytes, 1, n, stream); /* the stream keeps an error for cli_finish */
}

sw_writer cli_writer(FILE *to)
{
    struct winsize size;
    const bool wide =
        ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > SW_WRITER_COLUMNS;
    return (sw_writer){put_to_stream, to, cli_colour(to), wide ? size.ws_col : 0};
}

int cli_fitted(FILE *to, const char *text, size_t n, int width)
{
    const sw_writer writer = cli_writer(to);
    return sw_writer_fitted(&writer, text, n, width);
}

void cli_wrap(FILE *to, int column, int indent, const char *text)
{
    const sw_writer writer = cli_writer(to);
    sw_writer_wrap(&writer, column, indent, text);
}

void cli_column_take(cli_column *c, double x)
{
    char text[24];
    if (!isfinite(x))
        return;
    const int n = snprintf(text, sizeof text, "%.5g", x);
    const int whole = (int)strcspn(text, "."), decimals = whole < n ? n - whole - 1 : 0;
    c->whole = whole > c->whole ? whole : c->whole;
    c->decimals = decimals > c->decimals ? decimals : c->decimals;
    c->exponent |= strchr(text, 'e') != NULL || c->whole + 1 + c->decimals > 10;
}

cli_text cli_column_text(const cli_column *c, double x)
{
    cli_text t = {"nan"}; /* what is no number has no sign */
    if (!isnan(x))
        snprintf(t.text, sizeof t.text, c->exponent ? "%.*e" : "%.*f",
                 c->exponent ? 4 : c->decimals, x);
    return t;
}

/* ---- terminal ---------------------------------------------------------------------------- */

bool cli_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) == 1 && !(term != NULL && strcmp(term, "dumb") == 0);
}

bool cli_colour(FILE *stream)
{
    const char *no = getenv("NO_COLOR");
    return (no == NULL || *no == '\0') && cli_terminal(stream);
}

bool cli_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || *value == '\0')
            continue;
        const char *set = strchr(value, '.');
        return set != NULL &&
               (strncasecmp(set, ".UTF-8", 6) == 0 || strncasecmp(set, ".UTF8", 5) == 0);
    }
    return false;
}

/* A longer line would wrap, and the next one could not wipe it. */
static int columns(FILE *stream)
{
    struct winsize size;
    const bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1 : 79;
}

void cli_progress(const char *format, ...)
{
    static uint64_t last;
    char text[160];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(text, sizeof text, format, args);
    va_end(args);
    if (*text == '\0') {
        if (progress_shown)
            fputs("\r\033[K", stderr);
        progress_shown = false;
        return;
    }
    const uint64_t now = cli_clock_ns();
    if ((progress_shown && now - last < 100000000u) || !cli_terminal(stderr))
        return;
    last = now;
    progress_shown = true;
    fprintf(stderr, "\r%.*s\033[K", columns(stderr), text);
    fflush(stderr);
}

uint64_t cli_clock_ns(void)
{
    return sw_clock_ns();
}

/* ---- step times -------------------------------------------------------------------------- */

#define TIMES_MAX ((uint64_t)1 << 20)

sw_status cli_times_init(cli_times *t, uint64_t n)
{
    const uint64_t capacity = n < 1 ? 1 : n < TIMES_MAX ? n : TIMES_MAX;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, capacity * sizeof(uint64_t)));
    *t = (cli_times){.ns = block, .capacity = capacity, .min = UINT64_MAX};
    return SW_OK;
}

void cli_times_free(cli_times *t)
{
    sw_heap_free(t->ns, SW_HEAP_PROFILE, t->capacity * sizeof(uint64_t));
    *t = (cli_times){0};
}

void cli_times_add(cli_times *t, uint64_t ns)
{
    t->ns[t->n++ % t->capacity] = ns;
    t->min = ns < t->min ? ns : t->min;
    t->max = ns > t->max ? ns : t->max;
}

/* Shell's sort with Ciura's gaps, continued by 2.25: in place, so that reading the times takes
 * no memory that qsort would. */
static void sort(uint64_t *x, uint64_t n)
{
    uint64_t gaps[40] = {1, 4, 10, 23, 57, 132, 301, 701};
    int top = 7;
    while (gaps[top] < n && top < 39) {
        gaps[top + 1] = gaps[top] * 9 / 4;
        top++;
    }
    for (; top >= 0; top--)
        for (uint64_t gap = gaps[top], i = gap; i < n; i++) {
            const uint64_t v = x[i];
            uint64_t j = i;
            for (; j >= gap && x[j - gap] > v; j -= gap)
                x[j] = x[j - gap];
            x[j] = v;
        }
}

cli_summary cli_times_summary(cli_times *t)
{
    const uint64_t n = t->n < t->capacity ? t->n : t->capacity;
    if (n == 0)
        return (cli_summary){0};
    sort(t->ns, n);
    const uint64_t p99 = (uint64_t)ceil(0.99 * (double)n) - 1; /* nearest rank */
    return (cli_summary){t->n, t->min, t->ns[(n - 1) / 2], t->ns[p99], t->max};
}

bool cli_ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcasecmp(path + n - m, end) == 0;
}

int cli_word_at(const char *const *words, const char *word)
{
    int i = 0;
    while (word != NULL && words[i] != NULL && strcmp(words[i], word) != 0)
        i++;
    return i;
}
