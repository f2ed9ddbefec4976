/* Shared by the commands of `stepwell`: options, sizes, printing, exit codes, the interrupt
 * flag. Nothing here runs before main asks for it, so that `stepwell --version` only starts and
 * prints. */
#pragma once

#include "profiler/inspect/writer.h"
#include "runtime/stepwell.h"
#include <stdio.h>

/* Exit statuses; part of the interface. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_DAMAGED = 3,   /* a damaged, missing or foreign input file */
    CLI_NO_FIT = 4,    /* does not fit the memory */
    CLI_NO_DEVICE = 5, /* no such device */
    CLI_INTERRUPTED = 130
};
#define CLI_GO (-1) /* of cli_parse: the options are read, go on */

/* ---- options ----------------------------------------------------------------------------- */

typedef enum {
    CLI_FLAG,     /* bool; no value */
    CLI_SWITCH,   /* int, 1 where it is given; no value */
    CLI_COUNT,    /* int64_t in min..max */
    CLI_REAL,     /* double that a float can hold, at least min */
    CLI_BYTES,    /* size_t, at least min: 4096, 64KiB, 1.5MiB, 2GiB; SIZE_MAX for the word of
                     `words`, "auto", where it has one */
    CLI_WORD,     /* const char *, not empty, one of `words` where they are given */
    CLI_OPTIONAL, /* const char *: the value, "" where the option is given without one. It is
                     "--x=V", or the next argument where that does not begin with "-" */
    CLI_LIST,     /* cli_list: 1,32,128, each in min..max */
    CLI_EVERY     /* cli_every: 100 (steps), or a time: 30s, 10m, 1.5h; not 0 */
} cli_kind;

#define CLI_LIST_MAX 64
typedef struct {
    int64_t at[CLI_LIST_MAX];
    int n;
} cli_list;

/* How often something happens: by steps or by time; the other one is 0. */
typedef struct cli_every {
    uint64_t steps, ns;
} cli_every;

/* One line of a command's table. `initial` is the default as a user would write it: the parser
 * and the help both read it. NULL leaves *to as it is. */
typedef struct {
    const char *name;  /* "--batch" */
    const char *value; /* "N" in the help; NULL for flags */
    cli_kind kind;
    void *to;
    const char *initial;
    const char *help;         /* NULL: another spelling, which the help does not show */
    int64_t min, max;         /* max 0: no bound */
    const char *const *words; /* NULL-terminated */
    bool decides;             /* the numbers of a run: one that goes on must have the same */
    const char *with;         /* "--x", "--x a or b": without it, or another value than those
                                 that begin so, this one has no effect */
    const char *excludes;     /* "--x --y": none of them may stand beside it */
} cli_option;

typedef struct {
    const char *name;  /* "train" */
    const char *usage; /* what follows the name: "[options]", "FILE [options]" */
    const char *about; /* one sentence */
    const cli_option *options;
    int n_options;
    const char **operand; /* receives the arguments without dashes, in order */
    int max_operands;
    const char *notes; /* printed at the end of the help, paragraph by line; or NULL */
} cli_command;

/* Read argv[1..]. CLI_GO, or the status to leave with: CLI_DONE after --help, CLI_USAGE after a
 * mistake, which is printed with the nearest option that exists. "--x V" and "--x=V" are the
 * same; what follows "--" is no option. */
int cli_parse(const cli_command *command, int argc, char **argv);
/* The first of these options, with blanks in between, that the last cli_parse was given another
 * value of than the default one; NULL: none. */
const char *cli_given(const char *names);
/* "stepwell" and the arguments, cut where there is no room for one. */
void cli_command_line(char *to, size_t bytes, int argc, char **argv);
/* Changes what --help prints from now on: a manual page, say. NULL: its text. */
void cli_set_help(void (*put)(const cli_command *));
/* Store `text` where the option wants it: CLI_GO, or CLI_USAGE with a message. */
int cli_set(const cli_option *option, const char *text);
/* Read a size: a number, then nothing, B, KiB, MiB, GiB or TiB. Separators as in messages may
 * stand in it: 1,234,567. */
bool cli_read_bytes(const char *text, size_t *out);
/* Say what is wrong with a size that cannot be read, and how it is written: MB is 10^6 to some
 * and 2^20 to others, so it is not taken. `also` is what else the option takes ("a percentage
 * such as 2%, or "), or "". CLI_USAGE. */
int cli_refuse_bytes(const char *name, const char *also, const char *text);
/* The nearest of `names` (n of them, `stride` bytes apart), or NULL when none is near. */
const char *cli_nearest(const char *text, const void *names, size_t stride, int n);

/* ---- printing ---------------------------------------------------------------------------- */

/* "stepwell train: " and the message, on standard error. Returns `status`. */
int cli_error(int status, const char *format, ...) SW_PRINTF(2, 3);
/* The text of the last cli_error or cli_note; "" before the first. */
const char *cli_last_line(void);
/* The same with the library's last error; the exit status that belongs to it. Reading an input
 * that cannot be opened counts as damaged: give `input` true there. */
int cli_library_error(sw_status status, bool input);
void cli_set_command(const char *name); /* for the prefix */
/* Leave the function with an exit status that is not CLI_GO; with that of a library's error. */
#define CLI_TRY(expr)                                                                          \
    do {                                                                                       \
        const int cli_status = (expr);                                                         \
        if (cli_status != CLI_GO)                                                              \
            return cli_status;                                                                 \
    } while (0)
#define CLI_LIBRARY(expr, input)                                                               \
    do {                                                                                       \
        const sw_status cli_status = (expr);                                                   \
        if (cli_status != SW_OK)                                                               \
            return cli_library_error(cli_status, input);                                       \
    } while (0)
/* The same line for what is worth knowing and no failure. */
void cli_note(const char *format, ...) SW_PRINTF(1, 2);
/* None from now on: another process of the run makes them. */
void cli_no_notes(void);
/* Another process has the same options, and says what is wrong with them (CLI_USAGE). */
void cli_no_usage(bool none);
/* Keep what cli_error would print: another process may have the same to say, and end this one.
 * Without: print what was kept. Returns whether there was something. */
bool cli_keep_errors(bool keep);
void cli_forget_errors(void); /* that were kept so far */
/* After a file was saved, or parameters were loaded: print sw_last_note(), if there is one.
 * Returns `status`. */
sw_status cli_saved(sw_status status);

/* A writer to a stream, which keeps errors for cli_finish. */
sw_writer cli_writer(FILE *to);
/* Of a stream: as sw_writer_fitted and sw_writer_wrap. */
int cli_fitted(FILE *to, const char *text, size_t n, int width);
void cli_wrap(FILE *to, int column, int indent, const char *text);

typedef sw_text cli_text;
static inline cli_text cli_bytes(size_t bytes)
{
    return sw_text_bytes(bytes);
}
static inline cli_text cli_ns(uint64_t ns)
{
    return sw_text_ns(ns);
}
static inline cli_text cli_digits(uint64_t n)
{
    return sw_text_digits(n);
}

/* Numbers that stand below each other have one number of decimals: as many as that one needs
 * for five digits that needs the most; where this is too wide all have an exponent. Take all of
 * the column first; what is no finite number needs none. */
typedef struct {
    int whole, decimals;
    bool exponent;
} cli_column;
void cli_column_take(cli_column *column, double x);
cli_text cli_column_text(const cli_column *column, double x);

/* Colours and progress lines are for terminals, and NO_COLOR is heeded. */
bool cli_terminal(FILE *stream);
bool cli_colour(FILE *stream);
/* Whether text goes out as UTF-8: what LC_ALL, else LC_CTYPE, else LANG says. */
bool cli_utf8(void);
/* A line on standard error that the next one overwrites; nothing unless it is a terminal. At
 * most ten a second, cut to the terminal's width. An empty text wipes it. */
void cli_progress(const char *format, ...) SW_PRINTF(1, 2);
/* Flush standard output. CLI_FAILED, with a message the first time, when it did not take
 * everything; else `status`. */
int cli_finish(int status);
/* Flush standard output in between; why it failed is kept for cli_finish. */
void cli_flush(void);

/* From now on the first request to end only sets a flag: Ctrl-C (SIGINT), SIGTERM, or SIGHUP
 * when the terminal goes. The second ends the process at once by its default action, whichever
 * of the three it is. One that was ignored when the program began stays ignored, so nohup
 * works. Pipes without a reader and files at their limit fail a write and end nothing.
 *
 * The flag ends what waits: files that are FIFOs, pipes or terminals by sw_interrupt_set(), and
 * standard output and error, where no one takes anything for three seconds, by leading to
 * /dev/null from then on. */
void cli_catch_interrupt(void);
/* Requests within a second of the first one are no second one: for ranks of a launcher. */
void cli_catch_repeats(void);
/* Standard output leads to /dev/null, since no one took it after the interrupt. */
bool cli_interrupted(void);

/* From now on SIGUSR1 asks for a save; without this call it ends the process, as by default. */
void cli_catch_save(void);
/* Was one asked for since the last call? Several signals between two calls are one. */
bool cli_save_asked(void);

uint64_t cli_clock_ns(void);
/* Has a file's name more than this end, such as ".csv"? Capitals count as small letters. */
bool cli_ends_with(const char *path, const char *end);
/* The place of a word in a list that ends with NULL: that of the NULL where it is not there. 0
 * for no word. */
int cli_word_at(const char *const *words, const char *word);

/* Step times. All memory is taken by cli_times_init; past the capacity the oldest are
 * overwritten, while minimum and maximum stay those of all. */
typedef struct {
    uint64_t *ns;
    uint64_t capacity, n, min, max;
} cli_times;
typedef struct {
    uint64_t n, min, median, p99, max;
} cli_summary;
SW_MUST_USE sw_status cli_times_init(cli_times *times, uint64_t n);
void cli_times_free(cli_times *times);
void cli_times_add(cli_times *times, uint64_t ns);
cli_summary cli_times_summary(cli_times *times); /* sorts in place; zeros when empty */

/* The result for main: run(argc, argv), under the failures that STEPWELL_FAULT plans. */
int cli_main(int argc, char **argv, int (*run)(int argc, char **argv));

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about; /* a phrase */
} cli_tool;

/* `help`: CLI_GO where --help of the command *name is to be shown, or, where *name is NULL, the
 * list of commands; else the status to leave with. */
int tool_help(const cli_tool *tools, int n, int argc, char **argv, const char **name);
int tool_train(int argc, char **argv);
int tool_pbt(int argc, char **argv);
int tool_es(int argc, char **argv);
int tool_evolve(int argc, char **argv);
int tool_plan(int argc, char **argv);
int tool_eval(int argc, char **argv);
int tool_predict(int argc, char **argv);
int tool_report(int argc, char **argv);
int tool_bench(int argc, char **argv);
int tool_place(int argc, char **argv);
int tool_sample(int argc, char **argv);
int tool_tokens(int argc, char **argv);
int tool_info(int argc, char **argv);
int tool_top(int argc, char **argv);
