/* Which page --help prints. */
#include "tools/cli_page.h"

static void (*const put[])(const cli_command *) = {[CLI_PAGE_HELP] = NULL,
                                                   [CLI_PAGE_MAN] = cli_put_man,
                                                   [CLI_PAGE_MAN_SECTION] = cli_put_man_section,
                                                   [CLI_PAGE_BASH] = cli_put_bash,
                                                   [CLI_PAGE_ZSH] = cli_put_zsh,
                                                   [CLI_PAGE_FISH] = cli_put_fish};
static cli_page page;

void cli_set_page(cli_page to)
{
    page = to;
    cli_set_help(put[to]);
}

cli_page cli_page_set(void)
{
    return page;
}

void cli_put_page(const cli_command *c)
{
    put[page](c);
}
