/* See process.h. Output goes to files in the temporary folder, so no pipe can fill up. */
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void output_path(char *path, size_t room, const char *tag, const char *which)
{
    snprintf(path, room, "%s", sw_temp_path(sw_textf("%s.%s", tag, which)));
}

/* The environment with `more` in it, "NAME=value" each; the strings stay the caller's. */
static char **environment(const char *const *more)
{
    size_t n = 0, n_more = 0;
    while (environ[n] != NULL)
        n++;
    while (more != NULL && more[n_more] != NULL)
        n_more++;
    char **all = calloc(n + n_more + 1, sizeof *all);
    if (all == NULL)
        return NULL;
    memcpy(all, environ, n * sizeof *all);
    for (size_t k = 0; k < n_more; k++) {
        const size_t name = strcspn(more[k], "=") + 1;
        size_t i = 0;
        while (i < n && strncmp(all[i], more[k], name) != 0)
            i++;
        memcpy(&all[i], &more[k], sizeof *all);
        n += i == n;
    }
    return all;
}

/* Spawned: fork() copies the tables of all pages, which takes as long as a short program. */
pid_t sw_process_start(const char *tag, const char *const *argv, const char *const *env)
{
    enum { WRITE = O_WRONLY | O_CREAT | O_TRUNC };
    char out[1024], err[1024], *list[64] = {0};
    posix_spawn_file_actions_t files;
    pid_t pid;
    output_path(out, sizeof out, tag, "out");
    output_path(err, sizeof err, tag, "err");
    fflush(stdout);
    for (size_t i = 0; i < 63 && argv[i] != NULL; i++)
        memcpy(&list[i], &argv[i], sizeof *list);
    char **all = environment(env);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out, WRITE, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err, WRITE, 0600);
    if (all == NULL || posix_spawnp(&pid, list[0], &files, NULL, list, all) != 0) {
        pid = fork(); /* what cannot be run ends as in a shell */
        if (pid == 0)
            _exit(127);
    }
    posix_spawn_file_actions_destroy(&files);
    free(all);
    return pid;
}

static void read_back(char *to, size_t room, const char *tag, const char *which)
{
    char path[1024];
    output_path(path, sizeof path, tag, which);
    FILE *file = fopen(path, "rb");
    const size_t n = file != NULL ? fread(to, 1, room - 1, file) : 0;
    to[n] = '\0';
    if (file != NULL)
        fclose(file);
}

void sw_process_wait(sw_outcome *out, pid_t pid, const char *tag, int timeout_s)
{
    const struct timespec pause = {0, 2000000};
    struct rusage usage;
    int status = 0;
    memset(out, 0, sizeof *out);
    memset(&usage, 0, sizeof usage);
    for (long waited = 0;; waited++) {
        const pid_t got = wait4(pid, &status, out->timed_out ? 0 : WNOHANG, &usage);
        if (got == pid || (got < 0 && errno != EINTR))
            break;
        if (waited > timeout_s * 500L && !out->timed_out) {
            out->timed_out = true;
            kill(pid, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
    out->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out->peak_bytes = (size_t)usage.ru_maxrss * 1024;
    read_back(out->out, sizeof out->out, tag, "out");
    read_back(out->err, sizeof out->err, tag, "err");
}

void sw_process_run(sw_outcome *out, const char *const *argv, const char *const *env,
                    int timeout_s)
{
    const pid_t pid = sw_process_start("process", argv, env);
    sw_process_wait(out, pid, "process", timeout_s);
}

int sw_shell(const char *format, ...)
{
    char line[1 << 14];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof line)
        return -1;
    const char *const argv[] = {"sh", "-c", line, NULL};
    static sw_outcome outcome;
    const pid_t pid = sw_process_start("shell", argv, NULL);
    sw_process_wait(&outcome, pid, "shell", 600);
    if (outcome.status != 0 && outcome.err[0] != '\0')
        sw_note("sh: %.500s", outcome.err);
    return outcome.status;
}

int sw_count_lines(const char *text)
{
    int lines = 0;
    for (const char *p = text; *p != '\0'; p++)
        lines += *p == '\n' || p[1] == '\0';
    return lines;
}
