/* Completions for bash, zsh and fish from the tables of options. An option's value is completed
 * where it is one of some words, or a file. */
#include "tools/cli/cli_page.h"
#include <string.h>

static bool is_shown(const cli_option *o)
{
    return o->help != NULL;
}

/* A word that is no number and has no list is, or begins, the name of a file. */
static bool takes_file(const cli_option *o)
{
    return (o->kind == CLI_WORD || o->kind == CLI_OPTIONAL) && o->words == NULL;
}

static void put_words(const cli_option *o)
{
    for (int i = 0; o->words != NULL && o->words[i] != NULL; i++)
        printf("%s%s", i > 0 ? " " : "", o->words[i]);
}

static void put_names(const cli_command *c)
{
    for (int i = 0; i < c->n_options; i++)
        if (is_shown(&c->options[i]))
            printf("%s ", c->options[i].name);
}

/* Text between single quotes of a shell; `also` are characters that need a backslash more. */
static void put_quoted(const char *text, const char *also)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\'", stdout);
        else if (strchr(also, *text) != NULL)
            putchar('\\');
        putchar(*text);
    }
}

/* ---- bash -------------------------------------------------------------------------------- */

void cli_put_bash(const cli_command *c)
{
    printf("    '%s')\n        case $before in\n", c->name);
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (!is_shown(o) || o->value == NULL)
            continue;
        printf("        %s) ", o->name);
        if (o->words != NULL) {
            fputs("words='", stdout);
            put_words(o);
            fputs("' ;;\n", stdout);
        } else {
            if (o->kind == CLI_OPTIONAL) { /* or the next option */
                fputs("words='", stdout);
                put_names(c);
                fputs("--help' ", stdout);
            }
            puts(takes_file(o) ? "files=1 ;;" : ";;");
        }
    }
    fputs("        *) words='", stdout);
    put_names(c);
    printf("--help'%s ;;\n        esac\n        ;;\n", c->max_operands > 0 ? " files=1" : "");
}

static void begin_bash(const cli_command *commands)
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

static void end_bash(void)
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

/* ---- zsh --------------------------------------------------------------------------------- */

void cli_put_zsh(const cli_command *c)
{
    printf("    '%s') _arguments -S \\\n", c->name);
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (!is_shown(o))
            continue;
        printf("        '%s[", o->name);
        put_quoted(o->help, "[]:\\");
        putchar(']');
        if (o->value != NULL) {
            printf("%s:%s:", o->kind == CLI_OPTIONAL ? ":" : "", o->value);
            if (o->words != NULL) {
                putchar('(');
                put_words(o);
                putchar(')');
            } else if (takes_file(o)) {
                fputs("_files", stdout);
            }
        }
        fputs("' \\\n", stdout);
    }
    printf("        '--help[show the options]'%s ;;\n",
           c->max_operands > 0 ? " '*:FILE:_files'" : "");
}

static void begin_zsh(const cli_command *commands)
{
    fputs("#compdef stepwell\n# zsh completion: stepwell help --completion zsh\n"
          "_stepwell()\n{\n"
          "    local command=$words[2]\n"
          "    if (( CURRENT == 2 )); then\n        compadd -- ",
          stdout);
    put_names(commands);
    fputs("--help --version\n        return\n    fi\n"
          "    shift words\n    (( CURRENT-- ))\n"
          "    if [[ $command == bench ]] && (( CURRENT > 2 )); then\n"
          "        command=\"bench $words[2]\"\n        shift words\n        (( CURRENT-- ))\n"
          "    fi\n"
          "    case $command in\n",
          stdout);
}

static void end_zsh(void)
{
    fputs("    esac\n}\n_stepwell \"$@\"\n", stdout);
}

/* ---- fish -------------------------------------------------------------------------------- */

void cli_put_fish(const cli_command *c)
{
    const char *last = strrchr(c->name, ' ');
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (!is_shown(o))
            continue;
        const bool dashes = strncmp(o->name, "--", 2) == 0;
        printf("complete -c stepwell -n '__fish_seen_subcommand_from %s' ",
               last != NULL ? last + 1 : c->name);
        printf(dashes ? "-l %s" : "-f -a %s", o->name + (dashes ? 2 : 0));
        if (o->words != NULL) {
            fputs(" -x -a '", stdout);
            put_words(o);
            putchar('\'');
        } else if (o->value != NULL) {
            fputs(o->kind == CLI_OPTIONAL ? " -F" : takes_file(o) ? " -r -F" : " -x", stdout);
        }
        fputs(" -d '", stdout);
        put_quoted(o->help, "\\");
        fputs("'\n", stdout);
    }
}

static void begin_fish(const cli_command *commands)
{
    fputs("# fish completion for stepwell: stepwell help --completion fish\n", stdout);
    for (int i = 0; i < commands->n_options; i++) {
        printf("complete -c stepwell -n __fish_use_subcommand -f -a %s -d '",
               commands->options[i].name);
        put_quoted(commands->options[i].help, "\\");
        fputs("'\n", stdout);
    }
}

/* ---- a script ---------------------------------------------------------------------------- */

void cli_begin_completion(cli_page page, const cli_command *commands)
{
    if (page == CLI_PAGE_BASH)
        begin_bash(commands);
    else if (page == CLI_PAGE_ZSH)
        begin_zsh(commands);
    else
        begin_fish(commands);
}

void cli_end_completion(cli_page page)
{
    if (page == CLI_PAGE_BASH)
        end_bash();
    else if (page == CLI_PAGE_ZSH)
        end_zsh();
}
