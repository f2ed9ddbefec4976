/* Which page --help prints. */
#include "tools/cli/cli_page.h"
#include <string.h>

static void (*const put[])(const cli_command *) = {[CLI_PAGE_HELP] = NULL,
                                                   [CLI_PAGE_MAN] = cli_put_man,
                                                   [CLI_PAGE_MAN_SECTION] = cli_put_man_section,
                                                   [CLI_PAGE_BASH] = cli_put_bash};
static cli_page page;

void cli_set_page(cli_page to)
{
    page = to;
    cli_set_help(put[to]);
}

static const char *const words[] = {"help", "man", "section", "bash"};

const char *cli_page_word(cli_page of)
{
    return words[of];
}

cli_page cli_page_named(const char *word)
{
    for (int i = CLI_PAGE_MAN; i <= CLI_PAGE_BASH; i++)
        if (strcmp(words[i], word) == 0)
            return (cli_page)i;
    return CLI_PAGE_HELP;
}

void cli_put_page(const cli_command *c)
{
    put[page](c);
}
