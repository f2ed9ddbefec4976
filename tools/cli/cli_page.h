/* Pages that --help prints besides its text: manual pages and completions, each from the same
 * table of options. */
#pragma once

#include "tools/cli/cli.h"

typedef enum {
    CLI_PAGE_HELP,
    CLI_PAGE_MAN,         /* a whole page */
    CLI_PAGE_MAN_SECTION, /* the part of a page for one of several commands */
    CLI_PAGE_BASH         /* the lines of one command in a script of completions */
} cli_page;

/* The page that cli_parse() prints for --help from now on. */
void cli_set_page(cli_page page);
/* "man" or "bash"; and the page of such a word, CLI_PAGE_HELP of none. */
const char *cli_page_word(cli_page page);
cli_page cli_page_named(const char *word);
/* The page of a command as it was set; not of CLI_PAGE_HELP. */
void cli_put_page(const cli_command *command);

void cli_put_man(const cli_command *command);
/* The same in two parts, with sections in between. */
void cli_begin_man(const cli_command *command);
void cli_end_man(const cli_command *command);
/* The parts of a script before the commands' lines, and after them. */
void cli_begin_completion(const cli_command *commands);
void cli_end_completion(void);
