/* stepwell help: the commands; the options of one; its manual page; completions for bash. */
#include "alloc/base/mem.h"
#include "tools/cli/cli_page.h"
#include <string.h>

enum { MOST = 16 }; /* commands */

static const char *const shells[] = {"bash", NULL};
static const char environment[] = "STEPWELL_CUDA_MODULE is the file of the CUDA module, "
                                  "instead of the one beside the library. "
                                  "NO_COLOR, not empty, turns colours off.";

static bool is_bench(const cli_tool *tool)
{
    return strcmp(tool->name, "bench") == 0;
}

/* The page of a command is what its --help prints. `bench` becomes a program of its own, which
 * ends the script where the page is one. */
static int print_page(const cli_tool *tool, cli_page page)
{
    char name[32], option[] = "--help", own[] = "--page", word[16];
    char *argv[] = {name, is_bench(tool) ? own : option, is_bench(tool) ? word : NULL, NULL};
    snprintf(name, sizeof name, "%s", tool->name);
    snprintf(word, sizeof word, "%s", cli_page_word(page));
    cli_set_page(page);
    cli_flush();
    return tool->run(is_bench(tool) ? 3 : 2, argv);
}

/* The commands as a table of options: their names are words. */
static cli_command commands_of(const cli_tool *tools, int n, cli_option *table)
{
    int used = 0;
    for (int i = 0; i < n && used < MOST - 1; i++)
        table[used++] = (cli_option){.name = tools[i].name, .help = tools[i].about};
    table[used++] = (cli_option){.name = "help", .help = "the options of a command"};
    return (cli_command)
        SW_INIT(.name = "", .usage = "COMMAND [options]",
                .about = "Train neural networks from planned memory. The peak of every phase "
                         "is known before a byte is allocated, and what is measured equals it.",
                .options = table, .n_options = used, .notes = environment);
}

static int print_completion(const cli_tool *tools, int n, const cli_command *own)
{
    const cli_tool *last = NULL;
    cli_option table[MOST];
    const cli_command all = commands_of(tools, n, table);
    int status = CLI_DONE;
    cli_begin_completion(&all);
    for (int i = 0; i < n && status == CLI_DONE; i++)
        if (is_bench(&tools[i]))
            last = &tools[i];
        else
            status = print_page(&tools[i], CLI_PAGE_BASH);
    cli_set_page(CLI_PAGE_BASH);
    cli_put_page(own);
    if (last != NULL && status == CLI_DONE)
        status = print_page(last, CLI_PAGE_BASH);
    cli_end_completion(); /* where that program is not there */
    return cli_finish(status);
}

static int print_man(const cli_tool *tools, int n, const char *name, const cli_command *own)
{
    cli_option table[MOST];
    const cli_command all = commands_of(tools, n, table);
    for (int i = 0; name != NULL && i < n; i++)
        if (strcmp(tools[i].name, name) == 0)
            return print_page(&tools[i], CLI_PAGE_MAN);
    if (name != NULL && strcmp(name, own->name) != 0)
        return cli_error(CLI_USAGE, "unknown command '%s'; see stepwell --help", name);
    cli_put_man(name == NULL ? &all : own);
    return cli_finish(CLI_DONE);
}

int tool_help(const cli_tool *tools, int n, int argc, char **argv, const char **name)
{
    const char *shell = NULL;
    bool man = false;
    const cli_option options[] = {
        {"--man", NULL, CLI_FLAG, &man, NULL,
         "the manual page, for man -l; without a command that of stepwell"},
        {"--completion", "SHELL", CLI_WORD, &shell, NULL,
         "a script that completes the words of stepwell in bash", 0, 0, shells},
    };
    const cli_command command = SW_INIT(
            .name = "help", .usage = "[COMMAND] [options]",
            .about = "Show the options of a command, its manual page, or completions for bash.",
            .options = options, .n_options = (int)(sizeof options / sizeof *options),
            .operand = name, .max_operands = 1,
            .notes =
                "In bash: source <(stepwell help --completion bash). An installation has the "
                "pages and the script where man and bash look for them.");
    const int status = cli_parse(&command, argc, argv);
    if (status != CLI_GO)
        return status;
    if (shell != NULL && (man || *name != NULL))
        return cli_error(CLI_USAGE, "--completion and %s exclude each other",
                         man ? "--man" : "COMMAND");
    return shell != NULL ? print_completion(tools, n, &command)
           : man         ? print_man(tools, n, *name, &command)
                         : CLI_GO;
}
