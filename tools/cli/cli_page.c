/* Which page --help prints. */
#include "tools/cli/cli_page.h"
#include <ctype.h>
#include <string.h>

static void cli_put_bash(const cli_command *c);

/* ---- cli man ----------------------------------------------------------------------------- */

/* Manual pages from the tables of options: roff on standard output. A page has one text for
 * each option, the one of --help. */

/* Text as roff shows it: a hyphen of an option is a minus, and no line begins a request. */
static void put_text(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", stdout);
        if (text[i] == '-')
            fputs("\\-", stdout);
        else if (text[i] == '\\')
            fputs("\\e", stdout);
        else
            putchar(text[i]);
    }
}

static void put_line(const char *text)
{
    put_text(text, strlen(text));
    putchar('\n');
}

static void put_paragraphs(const char *text)
{
    while (text != NULL && *text != '\0') {
        const size_t n = strcspn(text, "\n");
        fputs(".PP\n", stdout);
        put_text(text, n);
        putchar('\n');
        text += n + (text[n] == '\n');
    }
}

static void put_option(const cli_option *o)
{
    fputs(".TP\n\\fB", stdout);
    put_text(o->name, strlen(o->name));
    fputs("\\fR", stdout);
    if (o->value != NULL) {
        fputs(o->kind == CLI_OPTIONAL ? " [\\fI" : " \\fI", stdout);
        put_text(o->value, strlen(o->value));
        fputs(o->kind == CLI_OPTIONAL ? "\\fR]" : "\\fR", stdout);
    }
    putchar('\n');
    put_text(o->help, strlen(o->help));
    if (o->initial != NULL) {
        fputs(" (default ", stdout);
        put_text(o->initial, strlen(o->initial));
        putchar(')');
    }
    putchar('\n');
}

static void put_options(const cli_command *c)
{
    const cli_option help = {.name = "--help", .help = "show this text"};
    for (int i = 0; i < c->n_options; i++)
        if (c->options[i].help != NULL)
            put_option(&c->options[i]);
    put_option(&help);
}

/* "stepwell", or "stepwell-train". */
static void put_name(const char *name, bool upper)
{
    char text[64];
    snprintf(text, sizeof text, "stepwell%s%s", name[0] != '\0' ? "-" : "", name);
    for (char *at = text; *at != '\0'; at++)
        *at = (char)(upper ? toupper((unsigned char)*at) : *at == ' ' ? '-' : *at);
    put_text(text, strlen(text));
}

/* The first sentence without its full stop, as whatis(1) shows it. */
static size_t first_sentence(const char *about)
{
    const char *stop = strstr(about, ". ");
    const size_t n = stop != NULL ? (size_t)(stop - about) : strlen(about);
    return n > 0 && about[n - 1] == '.' ? n - 1 : n;
}

static void put_synopsis(const cli_command *c)
{
    fputs("\\fBstepwell", stdout);
    if (c->name[0] != '\0')
        printf(" %s", c->name);
    fputs("\\fR ", stdout);
    put_line(c->usage);
}

static const char exit_statuses[] =
    "0 done, 1 failed, 2 wrong usage, 3 a damaged, missing or foreign file, 4 does not fit the "
    "memory, 5 no such device, 130 interrupted.";

void cli_begin_man(const cli_command *c)
{
    fputs(".TH ", stdout);
    put_name(c->name, true);
    printf(" 1 \"\" \"stepwell %s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", sw_version());
    put_name(c->name, false);
    fputs(" \\- ", stdout);
    put_text(c->about, first_sentence(c->about));
    fputs("\n.SH SYNOPSIS\n", stdout);
    put_synopsis(c);
    fputs(".SH DESCRIPTION\n", stdout);
    put_line(c->about);
    fputs(c->name[0] == '\0' ? ".SH COMMANDS\n" : ".SH OPTIONS\n", stdout);
    put_options(c);
    if (c->notes != NULL) {
        fputs(".SH NOTES\n", stdout);
        put_paragraphs(c->notes);
    }
}

void cli_end_man(const cli_command *c)
{
    fputs(".SH EXIT STATUS\n", stdout);
    put_line(exit_statuses);
    fputs(".SH SEE ALSO\n", stdout);
    fputs(c->name[0] == '\0' ? "\\fBstepwell\\-train\\fR(1), \\fBstepwell\\-plan\\fR(1), "
                               "\\fBstepwell\\-report\\fR(1)\n"
                             : "\\fBstepwell\\fR(1)\n",
          stdout);
}

void cli_put_man(const cli_command *c)
{
    cli_begin_man(c);
    cli_end_man(c);
}

static void cli_put_man_section(const cli_command *c)
{
    fputs(".SH \"OPTIONS OF ", stdout);
    for (const char *at = c->name; *at != '\0'; at++)
        putchar(toupper((unsigned char)*at));
    fputs("\"\n", stdout);
    put_synopsis(c);
    fputs(".PP\n", stdout);
    put_line(c->about);
    put_options(c);
    put_paragraphs(c->notes);
}

/* ---- cli page ---------------------------------------------------------------------------- */

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

/* ---- cli completion ---------------------------------------------------------------------- */

/* Completions for bash from the tables of options. An option's value is completed
 * where it is one of some words, or a file. */

static bool is_shown(const cli_option *o)
{
    return o->help != NULL;
}

static void put_names(const cli_command *c)
{
    for (int i = 0; i < c->n_options; i++)
        if (is_shown(&c->options[i]))
            printf("%s ", c->options[i].name);
}

static void cli_put_bash(const cli_command *c)
{
    printf("    '%s')\n        case $before in\n", c->name);
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (!is_shown(o) || o->value == NULL)
            continue;
        printf("        %s) ", o->name);
        if (o->words != NULL) {
            fputs("words='", stdout);
            for (int j = 0; o->words != NULL && o->words[j] != NULL; j++)
                printf("%s%s", j > 0 ? " " : "", o->words[j]);
            fputs("' ;;\n", stdout);
        } else {
            if (o->kind == CLI_OPTIONAL) { /* or the next option */
                fputs("words='", stdout);
                put_names(c);
                fputs("--help' ", stdout);
            }
            /* A word that is no number and has no list is, or begins, the name of a file. */
            puts((o->kind == CLI_WORD || o->kind == CLI_OPTIONAL) && o->words == NULL
                     ? "files=1 ;;"
                     : ";;");
        }
    }
    fputs("        *) words='", stdout);
    put_names(c);
    printf("--help'%s ;;\n        esac\n        ;;\n", c->max_operands > 0 ? " files=1" : "");
}

void cli_begin_completion(const cli_command *commands)
{
    fputs("# bash completion for stepwell: stepwell help --completion bash\n"
          "_stepwell()\n{\n"
          "    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} words= files=\n"
          "    [ \"$command\" = bench ] && [ \"$COMP_CWORD\" -gt 2 ] && "
          "command=\"bench ${COMP_WORDS[2]}\"\n"
          "    [ \"$COMP_CWORD\" -eq 1 ] && command=\n"
          "    case $command in\n    '') words='",
          stdout);
    put_names(commands);
    fputs("--help --version' ;;\n", stdout);
}

void cli_end_completion(void)
{
    fputs("    esac\n"
          "    COMPREPLY=()\n"
          "    case $files$now in\n"
          "    1-*) ;;\n"
          "    1*) mapfile -t COMPREPLY < <(compgen -f -- \"$now\"); compopt -o filenames "
          "2>/dev/null; return ;;\n"
          "    esac\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$now\")\n"
          "}\ncomplete -F _stepwell stepwell\n",
          stdout);
}
