/* The program `stepwell`: one command per file. Asked for its version or its help it does
 * nothing but print. */
#include "alloc/base/mem.h"
#include "tools/cli/cli.h"
#include "alloc/base/fault.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: not built yet */
    const char *about;
} tool;

static const tool tools[] = {
    {"train", tool_train, "train a network from planned memory"},
    {"plan", tool_plan, "peak and end bytes of every phase, without tensor memory"},
    {"report", tool_report, "read a profile that train wrote"},
    {"bench", tool_bench, "pauses, cost of recording, speed"},
    {"place", tool_place, "solve one placement problem"},
    {"sample", tool_sample, "text from a trained gpt"},
    {"top", tool_top, "watch a running training"},
};
enum { N_TOOLS = sizeof tools / sizeof *tools };

#if SW_HAVE_ZLIB
#define COMPRESSED "zlib"
#else
#define COMPRESSED "not built in"
#endif

static int print_version(void)
{
    printf("stepwell %s\nheap: %s; compressed data: %s\n", sw_version(), sw_heap_backend(),
           COMPRESSED);
    return cli_finish(CLI_DONE);
}

static void print_usage(FILE *to)
{
    fputs("usage: stepwell COMMAND [options]\n\n"
          "Trains neural networks from planned memory: the peak of every phase is known\n"
          "before a byte is allocated, and what is measured equals it.\n\n",
          to);
    for (int i = 0; i < N_TOOLS; i++)
        if (tools[i].run != NULL)
            fprintf(to, "  %-8s %s\n", tools[i].name, tools[i].about);
    fputs("\n  --help after a command lists its options\n  --version\n", to);
}

static int unknown(const char *name)
{
    const bool option = name[0] == '-';
    const char *near = cli_nearest(name, tools, sizeof *tools, N_TOOLS);
    if (option &&
        cli_nearest(name, (const char *const[]){"--version"}, sizeof(char *), 1) != NULL)
        near = "--version";
    if (near != NULL)
        return cli_error(CLI_USAGE, "unknown %s '%s'; did you mean %s?",
                         option ? "option" : "command", name, near);
    return cli_error(CLI_USAGE, "unknown %s '%s'; see stepwell --help",
                     option ? "option" : "command", name);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* `help NAME` is `NAME --help`. */
static int help_of(const char *name)
{
    char word[32], option[] = "--help";
    char *argv[] = {word, option, NULL};
    snprintf(word, sizeof word, "%s", name);
    for (int i = 0; i < N_TOOLS; i++)
        if (strcmp(tools[i].name, name) == 0)
            return tools[i].run != NULL
                       ? tools[i].run(2, argv)
                       : cli_error(CLI_USAGE, "command '%s' is not built yet", name);
    return unknown(name);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    const bool version = strcmp(name, "--version") == 0, word = strcmp(name, "help") == 0;
    const int most = word ? 3 : 2; /* "help train", but nothing behind the options */
    if ((version || word || is_help(name)) && argc > most)
        return cli_error(CLI_USAGE, "'%s' is one argument too many behind %s", argv[most],
                         name);
    if (version)
        return print_version();
    if (word && argc == 3)
        return help_of(argv[2]);
    if (word || is_help(name)) {
        print_usage(stdout);
        return cli_finish(CLI_DONE);
    }
    for (int i = 0; i < N_TOOLS; i++) {
        if (strcmp(tools[i].name, name) != 0)
            continue;
        if (tools[i].run == NULL)
            return cli_error(CLI_USAGE, "command '%s' is not built yet", name);
        return tools[i].run(argc - 1, argv + 1);
    }
    return unknown(name);
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv, dispatch);
}
