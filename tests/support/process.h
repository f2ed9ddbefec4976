/* Running programs from tests: what they print, how they end. */
#ifndef SW_TESTS_PROCESS_H
#define SW_TESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct {
    int status;                      /* exit status; -1 when a signal ended it */
    int signal;                      /* that signal, or 0 */
    bool timed_out;                  /* it was killed */
    size_t peak_bytes;               /* its largest resident set */
    char out[1 << 18], err[1 << 13]; /* what it printed, cut to this */
} sw_outcome;

/* Run argv[0] (looked for in PATH) to its end. `env`: "NAME=value" strings to add, or NULL;
 * both lists end with NULL. A test fails only by what it asserts: nothing is asserted here. */
void sw_process_run(sw_outcome *out, const char *const *argv, const char *const *env,
                    int timeout_s);

/* The same in two parts. `tag` names the files that take the output; two running at once need
 * two. */
pid_t sw_process_start(const char *tag, const char *const *argv, const char *const *env);
void sw_process_wait(sw_outcome *out, pid_t pid, const char *tag, int timeout_s);

/* Run a line by sh; returns its exit status, its output is dropped. -1 when a signal ended it.
 */
int sw_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lines in text; an unfinished last one counts. */
int sw_count_lines(const char *text);

#endif
